//! What is drawn: a pure function of the rates and of what the operator looks at.

use super::is_number;
use super::rates::Rates;
use super::state::State;
use crate::cli::top::{Sort, View};
use crate::print::table::Column;
use ratatui::Frame;
use ratatui::layout::{Alignment, Constraint, Layout};
use ratatui::style::{Modifier, Style};
use ratatui::text::{Line, Text};
use ratatui::widgets::{Cell, Paragraph, Row, Table};

/// The keys, below the lines.
const KEYS: &str = "Tab v h o d view  i b l 9 u n sort  / filter  p pause  arrows scroll  q quit";

/// All columns but the first one are as wide as this, which is what the longest size needs.
const WIDTH: u16 = 10;

/// Draws one screen. `trouble` is why there are no newer figures.
pub(super) fn draw(frame: &mut Frame<'_>, rates: &Rates, state: &State, trouble: Option<&str>) {
    let [head, body, foot] =
        Layout::vertical([Constraint::Length(1), Constraint::Min(1), Constraint::Length(1)])
            .areas(frame.area());
    frame.render_widget(Paragraph::new(heading(state)).style(bold()), head);
    let (columns, rows) = (state.columns(), state.rows(rates));
    let room = usize::from(body.height.saturating_sub(1));
    let first = state.first.min(rows.len().saturating_sub(room.max(1)));
    let mut widths = [Constraint::Length(WIDTH); 7];
    widths[0] = Constraint::Fill(1);
    let name_width = usize::from(body.width.saturating_sub(6 * (WIDTH + 1)));
    let lines = rows.into_iter().skip(first).take(room).map(|mut row| {
        row[0] = shortened(&row[0], name_width);
        line(columns, row)
    });
    let headings = columns.map(|column| match column {
        Column::Text(name) | Column::Number(name) => name.to_owned(),
    });
    let table = Table::new(lines, widths).header(line(columns, headings).style(reversed()));
    frame.render_widget(table, body);
    let below = match trouble {
        Some(trouble) => Paragraph::new(trouble.to_owned()).style(reversed()),
        None if state.is_filtering => {
            Paragraph::new(format!("filter: {}_  (Enter keeps it, Esc clears it)", state.filter))
        }
        None => Paragraph::new(KEYS),
    };
    frame.render_widget(below, foot);
}

/// What fits of a name: its end, which tells names of hosts apart.
fn shortened(name: &str, width: usize) -> String {
    let len = name.chars().count();
    if len <= width {
        return name.to_owned();
    }
    let end = name.chars().skip(len - width.saturating_sub(2));
    "..".chars().chain(end).collect()
}

fn bold() -> Style {
    Style::new().add_modifier(Modifier::BOLD)
}

fn reversed() -> Style {
    Style::new().add_modifier(Modifier::REVERSED)
}

/// One line of the table, each cell where its column has it.
fn line(columns: [Column; 7], cells: [String; 7]) -> Row<'static> {
    let cell = |(column, text): (Column, String)| {
        let alignment = if is_number(column) { Alignment::Right } else { Alignment::Left };
        Cell::from(Text::from(Line::from(text).alignment(alignment)))
    };
    Row::new(columns.into_iter().zip(cells).map(cell))
}

/// What is seen, how it is sorted and what is left out.
fn heading(state: &State) -> String {
    let view = match state.view {
        View::Volumes => "volumes",
        View::Hosts => "hosts",
        View::Portals => "portals",
        View::Disks => "disks",
    };
    let sort = match state.sort {
        Sort::Name => "name",
        Sort::Iops => "IOPS",
        Sort::Bytes => "bytes",
        Sort::Latency => "latency",
        Sort::P99 => "p99",
        Sort::Queue => "queue",
    };
    let mut text = format!("drystone: {view} by {sort}");
    if !state.filter.is_empty() {
        text = format!("{text}, with '{}'", state.filter);
    }
    if state.is_paused {
        text.push_str(", paused");
    }
    text
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;
    use crate::manage::top::rates::tests::sample;
    use crate::manage::top::state::tests::state;
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;

    fn screen(state: &State, trouble: Option<&str>) -> Vec<String> {
        let begun = Instant::now();
        let rates = Rates::between(&sample(begun, 0, 100), &sample(begun, 2, 300));
        let mut terminal = Terminal::new(TestBackend::new(100, 6)).expect("a test has a terminal");
        terminal.draw(|frame| draw(frame, &rates, state, trouble)).expect("it can be drawn");
        let buffer = terminal.backend().buffer();
        let row = |y| (0..100).map(|x| buffer[(x, y)].symbol()).collect::<String>();
        (0..6).map(|y| row(y).trim_end().to_owned()).collect()
    }

    fn words(line: &str) -> Vec<&str> {
        line.split_whitespace().collect()
    }

    #[test]
    fn a_screen_has_what_is_seen_its_lines_and_the_keys() {
        let mut state = state();
        let drawn = screen(&state, None);
        assert_eq!(drawn[0], "drystone: volumes by IOPS");
        let columns = ["VOLUME", "IOPS", "READ/S", "WRITE/S", "LATENCY", "P99", "QUEUE"];
        assert_eq!(words(&drawn[1]), columns);
        let db = ["db", "100", "400", "KiB", "0", "B", "90", "us", "100", "us", "2"];
        assert_eq!(words(&drawn[2]), db);
        assert_eq!(words(&drawn[3]), ["logs", "0", "0", "B", "0", "B", "-", "-", "0"]);
        assert_eq!(drawn[5], KEYS);
        assert_eq!(drawn[1].len(), drawn[2].len(), "numbers stand to the right");

        state.view = View::Disks;
        let drawn = screen(&state, None);
        assert_eq!(drawn[0], "drystone: disks by IOPS");
        assert_eq!(words(&drawn[2])[..2], ["/dev/disk/by-id/a", "100"]);
    }

    #[test]
    fn what_is_left_out_paused_or_in_trouble_is_said() {
        let mut state = state();
        (state.filter, state.is_paused) = ("log".to_owned(), true);
        let drawn = screen(&state, None);
        assert_eq!(drawn[0], "drystone: volumes by IOPS, with 'log', paused");
        assert!(drawn[2].starts_with("logs") && drawn[3].is_empty(), "{drawn:?}");
        state.is_filtering = true;
        assert!(screen(&state, None)[5].starts_with("filter: log_"));
        assert_eq!(screen(&state, Some("nobody answers"))[5], "nobody answers");
    }

    #[test]
    fn of_names_that_do_not_fit_the_end_is_shown() {
        assert_eq!(shortened("iqn.2026-11.x:a", 15), "iqn.2026-11.x:a");
        assert_eq!(shortened("iqn.2026-11.x:a", 6), "...x:a");
        assert_eq!(shortened("abc", 0), "..");
    }

    #[test]
    fn scrolling_ends_with_the_last_line() {
        let mut state = state();
        state.first = 100;
        assert!(screen(&state, None)[2].starts_with("db"), "there is room for both");
    }
}

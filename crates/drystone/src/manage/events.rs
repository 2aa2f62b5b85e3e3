//! `drystone events`: what happened, and what to do about it.

use super::Desk;
use crate::Failure;
use crate::advice::advised;
use crate::cli::events::EventsArgs;
use crate::print::colour::{self, Colour};
use crate::print::{self, units};
use anyhow::Context;
use api::client::WhichEvents;
use api::types::{Event, Severity};

/// Columns of the longest severity.
const SEVERITY_WIDTH: usize = 8;

/// Prints what happened, and what happens.
pub(crate) fn run(args: &EventsArgs) -> Result<(), Failure> {
    Ok(show(args)?)
}

fn show(args: &EventsArgs) -> anyhow::Result<()> {
    let desk = Desk::new(&args.member)?;
    let which = WhichEvents {
        since_unix_seconds: args.since.map(|since| since.unix_seconds()),
        severity: args.severity,
        object: args.object.as_deref(),
        last: Some(args.limit),
    };
    if args.follow {
        return follow(&desk, &which);
    }
    let before = desk.ask(|member| member.events(&which))?;
    let colours = colour::is_wanted();
    desk.show(&before, |events| {
        Ok(match events.is_empty() {
            true => "nothing has happened\n".to_owned(),
            false => events.iter().map(|event| lines(event, colours)).collect(),
        })
    })
}

fn follow(desk: &Desk, which: &WhichEvents<'_>) -> anyhow::Result<()> {
    let colours = colour::is_wanted();
    let print = |event: &Event| -> anyhow::Result<bool> {
        let text = match desk.json {
            true => format!("{}\n", serde_json::to_string(event).context("cannot write JSON")?),
            false => lines(event, colours),
        };
        print::is_taken(&text)
    };
    // What comes after this one is among those before, or is told by the stream.
    let newest = WhichEvents { last: Some(1), ..WhichEvents::default() };
    let newest = desk.ask(|member| member.events(&newest))?;
    let before = desk.ask(|member| member.events(which))?;
    for event in &before {
        if !print(event)? {
            return Ok(());
        }
    }
    let last = newest.last().into_iter().chain(before.last()).map(|event| event.number).max();
    let mut printed = Ok(true);
    let followed = desk.client.follow_events(last.unwrap_or(0) + 1, which, &mut |event| {
        printed = print(&event);
        matches!(printed, Ok(true))
    });
    printed?;
    followed.map_err(advised)
}

/// An event for people: when, how bad, what it is about and what happened; below that what to do.
fn lines(event: &Event, colours: bool) -> String {
    let severity = format!("{:<SEVERITY_WIDTH$}", event.severity.word());
    let severity = if colours { of(event.severity).paint(&severity) } else { severity };
    let time = units::time(event.time_unix_seconds);
    let times = match event.count {
        0 | 1 => String::new(),
        count => format!(" ({count} times)"),
    };
    let mut text = format!("{time}  {severity}  {}{times}\n", event.text);
    if !event.advice.is_empty() {
        let indent = " ".repeat(time.len() + SEVERITY_WIDTH + 4);
        text.push_str(&format!("{indent}to do: {}\n", event.advice));
    }
    text
}

const fn of(severity: Severity) -> Colour {
    match severity {
        Severity::Info => Colour::Plain,
        Severity::Warning => Colour::Yellow,
        Severity::Error => Colour::Red,
        Severity::Critical => Colour::BoldRed,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_line_says_when_how_bad_and_what_and_the_next_what_to_do() {
        let event = |severity: &str, advice: &str, count: u64| -> Event {
            let json = json!({
                "number": 7, "time_unix_seconds": 1_795_262_400, "severity": severity,
                "kind": "disk_failed", "object": {"kind": "disk", "name": "sdb"},
                "text": "disk sdb has failed", "advice": advice, "count": count,
            });
            serde_json::from_value(json).unwrap()
        };
        assert_eq!(
            lines(&event("error", "replace it", 1), false),
            "2026-11-21 12:00:00Z  error     disk sdb has failed\n                                \
             to do: replace it\n"
        );
        assert_eq!(
            lines(&event("critical", "", 3), true),
            "2026-11-21 12:00:00Z  \u{1b}[1;31mcritical\u{1b}[0m  disk sdb has failed (3 times)\n"
        );
    }
}

//! What the operator looks at, and how keys change that.

use super::rates::{DiskLoad, Load, Rates};
use crate::cli::top::{Sort, TopArgs, View};
use crate::manage::disk::state as state_word;
use crate::print::table::Column::{self, Number, Text};
use crate::print::units;
use api::types::DiskState;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

/// What is to be seen of a member.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct State {
    pub(super) view: View,
    pub(super) sort: Sort,
    /// Only what has this in its name.
    pub(super) filter: String,
    /// The filter is being written.
    pub(super) is_filtering: bool,
    pub(super) is_paused: bool,
    /// The first line that is shown.
    pub(super) first: usize,
}

/// What a key means beyond the state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Next {
    Stay,
    Quit,
}

impl State {
    pub(super) fn new(args: &TopArgs) -> Self {
        Self {
            view: args.view,
            sort: args.sort,
            filter: args.filter.clone(),
            is_filtering: false,
            is_paused: false,
            first: 0,
        }
    }

    /// A key was pressed.
    pub(super) fn press(&mut self, key: KeyEvent) -> Next {
        if key.modifiers.contains(KeyModifiers::CONTROL) && key.code == KeyCode::Char('c') {
            return Next::Quit;
        }
        if key.modifiers.intersects(KeyModifiers::CONTROL | KeyModifiers::ALT) {
            return Next::Stay;
        }
        if self.is_filtering {
            self.write_filter(key.code);
            return Next::Stay;
        }
        match key.code {
            KeyCode::Char('q') => return Next::Quit,
            KeyCode::Char('/') => self.is_filtering = true,
            KeyCode::Esc => self.filter.clear(),
            KeyCode::Char('p' | ' ') => self.is_paused = !self.is_paused,
            KeyCode::Tab => self.see(match self.view {
                View::Volumes => View::Hosts,
                View::Hosts => View::Portals,
                View::Portals => View::Disks,
                View::Disks => View::Volumes,
            }),
            KeyCode::Char('v') => self.see(View::Volumes),
            KeyCode::Char('h') => self.see(View::Hosts),
            KeyCode::Char('o') => self.see(View::Portals),
            KeyCode::Char('d') => self.see(View::Disks),
            KeyCode::Char('n') => self.sort = Sort::Name,
            KeyCode::Char('i') => self.sort = Sort::Iops,
            KeyCode::Char('b') => self.sort = Sort::Bytes,
            KeyCode::Char('l') => self.sort = Sort::Latency,
            KeyCode::Char('9') => self.sort = Sort::P99,
            KeyCode::Char('u') => self.sort = Sort::Queue,
            KeyCode::Down => self.first += 1,
            KeyCode::Up => self.first = self.first.saturating_sub(1),
            KeyCode::PageDown => self.first += 10,
            KeyCode::PageUp => self.first = self.first.saturating_sub(10),
            KeyCode::Home => self.first = 0,
            _ => {}
        }
        Next::Stay
    }

    fn see(&mut self, view: View) {
        (self.view, self.first) = (view, 0);
    }

    fn write_filter(&mut self, key: KeyCode) {
        match key {
            KeyCode::Enter => self.is_filtering = false,
            KeyCode::Esc => {
                self.is_filtering = false;
                self.filter.clear();
            }
            KeyCode::Backspace => {
                self.filter.pop();
            }
            KeyCode::Char(letter) => self.filter.push(letter),
            _ => {}
        }
        self.first = 0;
    }

    /// The columns of what is seen.
    pub(super) fn columns(&self) -> [Column; 7] {
        let name = match self.view {
            View::Volumes => "VOLUME",
            View::Hosts => "HOST",
            View::Portals => "PORTAL",
            View::Disks => "DISK",
        };
        [
            Text(name),
            Number("IOPS"),
            Number("READ/S"),
            Number("WRITE/S"),
            Number("LATENCY"),
            Number("P99"),
            Number("QUEUE"),
        ]
    }

    /// The lines of what is seen.
    pub(super) fn rows(&self, rates: &Rates) -> Vec<[String; 7]> {
        let disks: Vec<Load>;
        let all = match self.view {
            View::Volumes => &rates.volumes,
            View::Hosts => &rates.hosts,
            View::Portals => &rates.portals,
            View::Disks => {
                disks = rates.disks.iter().map(named).collect();
                &disks
            }
        };
        let mut seen: Vec<&Load> =
            all.iter().filter(|load| load.name.contains(&self.filter)).collect();
        // The names decide between what is alike.
        seen.sort_by(|a, b| a.name.cmp(&b.name));
        let key = |load: &Load| match self.sort {
            Sort::Name => 0.0,
            Sort::Iops => load.iops,
            Sort::Bytes => load.read_bytes_per_second + load.written_bytes_per_second,
            Sort::Latency => load.latency_mean_us.unwrap_or(-1.0),
            Sort::P99 => load.latency_p99_us.unwrap_or(-1.0),
            Sort::Queue => load.waiting as f64,
        };
        seen.sort_by(|a, b| key(b).total_cmp(&key(a)));
        seen.into_iter().map(row).collect()
    }
}

fn row(load: &Load) -> [String; 7] {
    let latency = |us: Option<f64>| us.map_or_else(|| "-".to_owned(), units::latency);
    [
        load.name.clone(),
        format!("{:.0}", load.iops),
        units::bytes(load.read_bytes_per_second as u64),
        units::bytes(load.written_bytes_per_second as u64),
        latency(load.latency_mean_us),
        latency(load.latency_p99_us),
        load.waiting.to_string(),
    ]
}

/// What a disk does, beside its state if that is not as it should be.
fn named(disk: &DiskLoad) -> Load {
    let DiskLoad { disk, load } = disk;
    let name = match disk.state {
        DiskState::Online => disk.name.clone(),
        state => format!("{} ({})", disk.name, state_word(state)),
    };
    Load { name, ..load.clone() }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub(in crate::manage::top) fn state() -> State {
        State {
            view: View::Volumes,
            sort: Sort::Iops,
            filter: String::new(),
            is_filtering: false,
            is_paused: false,
            first: 0,
        }
    }

    fn press(state: &mut State, keys: &str) {
        for letter in keys.chars() {
            let code = match letter {
                '\n' => KeyCode::Enter,
                '\t' => KeyCode::Tab,
                '\u{8}' => KeyCode::Backspace,
                letter => KeyCode::Char(letter),
            };
            assert_eq!(state.press(code.into()), Next::Stay);
        }
    }

    fn load(name: &str, iops: f64, waiting: usize) -> Load {
        Load { name: name.to_owned(), iops, waiting, ..Load::default() }
    }

    #[test]
    fn keys_choose_what_is_seen() {
        let mut state = state();
        press(&mut state, "hu p/dq\u{8}b\n");
        assert_eq!((state.view, state.sort, state.is_paused), (View::Hosts, Sort::Queue, false));
        assert_eq!((state.filter.as_str(), state.is_filtering), ("db", false));
        press(&mut state, "\t\t\t\t");
        assert_eq!(state.view, View::Hosts, "all four");
        state.press(KeyCode::Esc.into());
        assert_eq!(state.filter, "");
        assert_eq!(state.press(KeyCode::Char('q').into()), Next::Quit);
        let interrupt = KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL);
        press(&mut state, "/");
        assert_eq!(state.press(interrupt), Next::Quit, "also while the filter is written");
    }

    #[test]
    fn the_largest_is_on_top_and_names_decide_between_equals() {
        let volumes = vec![load("c", 1.0, 5), load("b", 9.0, 5), load("a", 1.0, 0)];
        let rates = Rates { volumes, ..Rates::default() };
        let mut state = state();
        let names = |state: &State| -> Vec<String> {
            state.rows(&rates).into_iter().map(|[name, ..]| name).collect()
        };
        assert_eq!(names(&state), ["b", "a", "c"]);
        state.sort = Sort::Queue;
        assert_eq!(names(&state), ["b", "c", "a"]);
        state.sort = Sort::Name;
        assert_eq!(names(&state), ["a", "b", "c"]);
        state.filter = "c".to_owned();
        assert_eq!(names(&state), ["c"]);
    }
}

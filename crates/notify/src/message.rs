//! What a destination is told: an event, or that it came again.

use std::fmt::{self, Display, Formatter};

use group::calendar::Moment;
use member::Record;
use member::events::{Event, Kind, ObjectKind};
use serde::{Deserialize, Serialize};

/// What is the same in events that are counted together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Of {
    /// Kind and object.
    Thing,
    /// The kind.
    Kind,
    /// Nothing.
    Any,
}

/// That an event stands for several.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct More {
    pub(crate) of: Of,
    /// Within how long.
    pub(crate) seconds: u32,
}

/// A message about an event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Message {
    /// The event; its count is that of what the message tells of.
    pub(crate) record: Record<Event>,
    /// It was told before, and came again.
    pub(crate) more: Option<More>,
}

impl Message {
    pub(crate) const fn first(record: Record<Event>) -> Self {
        Self { record, more: None }
    }

    pub(crate) const fn again(record: Record<Event>, more: More) -> Self {
        Self { record, more: Some(more) }
    }

    /// One that tries a destination out.
    #[must_use]
    pub fn test(name: &str, now_unix_seconds: u64, number: u64) -> Self {
        let text = format!("this is a test of the destination '{name}': events reach it");
        let what = Event::of_destination(Kind::DestinationTested, name, text);
        Self::first(Record { number, unix_seconds: now_unix_seconds, count: 1, what })
    }

    /// The event.
    #[must_use]
    pub const fn record(&self) -> &Record<Event> {
        &self.record
    }

    /// When it happened.
    pub(crate) fn moment(&self) -> Moment {
        Moment::of(self.record.unix_seconds)
    }

    /// What it is about, in words.
    pub(crate) fn object(&self) -> String {
        let object = &self.record.what.object;
        match object.name.as_str() {
            "" => object.kind.word().to_owned(),
            name => format!("{} {}", object.kind.word(), line(name)),
        }
    }

    /// What happened, and how often, in one line.
    pub(crate) fn text(&self) -> String {
        let text = line(&self.record.what.text);
        let times = match (self.more, self.record.count) {
            (Some(more), count) => format!(" ({})", Again(more, count)),
            (None, 0 | 1) => String::new(),
            (None, count) => format!(" ({count} times)"),
        };
        format!("{text}{times}")
    }

    /// Whether it is about a destination.
    pub(crate) fn is_of_destination(&self) -> bool {
        self.record.what.object.kind == ObjectKind::Destination
    }
}

/// How often it came again.
struct Again(More, u64);

impl Display for Again {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Self(More { of, seconds }, count) = self;
        let times = if *count == 1 { "time" } else { "times" };
        match of {
            Of::Thing => write!(f, "{count} more {times}")?,
            Of::Kind => write!(f, "{count} more {times}, this and others of its kind")?,
            Of::Any => {
                write!(f, "{count} more events of several kinds, of which this is the last")?;
            }
        }
        match seconds % 60 {
            0 => write!(f, " within {} min", seconds / 60),
            _ => write!(f, " within {seconds} s"),
        }
    }
}

/// A text as one line of plain characters: nothing in it ends a line, or is obeyed by who shows it.
pub(crate) fn line(text: &str) -> String {
    text.replace(member::printable::is_obeyed, " ")
}

/// The first part of a text, of at most so many bytes.
pub(crate) fn cut(text: &str, bytes_max: usize) -> String {
    if text.len() <= bytes_max {
        return text.to_owned();
    }
    let end = (0..=bytes_max.saturating_sub(3)).rev().find(|at| text.is_char_boundary(*at));
    format!("{}...", &text[..end.unwrap_or(0)])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_came_again_is_said_with_its_number() {
        let what = Event::about(Kind::DiskFailed, ObjectKind::Disk, "sdb", "disk sdb has failed");
        let record = Record { number: 1, unix_seconds: 0, count: 7, what };
        let again = |of, seconds| Message::again(record.clone(), More { of, seconds }).text();
        assert_eq!(again(Of::Thing, 300), "disk sdb has failed (7 more times within 5 min)");
        assert!(
            again(Of::Kind, 90)
                .ends_with("(7 more times, this and others of its kind within 90 s)")
        );
        assert_eq!(Message::first(record.clone()).text(), "disk sdb has failed (7 times)");
        assert_eq!(Message::first(record).object(), "disk sdb");
    }

    #[test]
    fn a_text_is_cut_between_characters() {
        assert_eq!(cut("äöü", 6), "äöü");
        assert_eq!(cut("äöüß", 6), "ä...");
        assert_eq!(line("a\r\nb\u{202e}c\u{1b}"), "a  b c ");
    }
}

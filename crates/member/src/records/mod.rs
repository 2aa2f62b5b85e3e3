//! Records that stay: what happened, one line each, in two files of the data directory that take turns.
//! A log may have several parts with two files each, so that many records of one kind push out none of another.
//!
//! ```text
//!  NAME.0   9c41e0d2 {"number":1,"unix_seconds":1795262400,"count":1,...}
//!           ^ CRC-32C of the rest of the line, eight hexadecimal digits
//!  NAME.1   the same; whichever holds the highest number is written to
//! ```
//!
//! 1. A line counts if its checksum is right: of a crash in the middle of a write the torn last line is dropped.
//! 2. Numbers grow by one with each record of a log, whichever part it is in, over restarts too.
//! 3. A file holds at most [`FILE_LINES_MAX`] lines and [`FILE_BYTES_MAX`] bytes; then the other one is
//!    emptied and written to.
//! 4. All that the files can hold is in memory too. So whoever records something waits for no disk, and
//!    whoever reads asks none. A thread of its own writes; while it cannot, memory keeps what it can.

mod files;
mod fold;
mod line;
mod log;
mod part;
#[cfg(test)]
mod tests;

use std::time::Duration;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use files::Files;
pub(crate) use fold::{Fold, PAUSE};
pub(crate) use log::{Heard, not_written};
pub use log::{Log, Next, PartPlace};

use crate::printable::is_obeyed;

/// Lines of a file.
const FILE_LINES_MAX: usize = 4096;

/// Bytes of a file. A record of usual size is a tenth of what this leaves for each line.
const FILE_BYTES_MAX: u64 = 4 << 20;

/// Records of a part in memory: what two files can hold.
const KEPT_MAX: usize = 2 * FILE_LINES_MAX;

/// What is recorded, with its number and time.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record<T> {
    /// Its number: one more than that of the record before.
    pub number: u64,
    /// When it was recorded, in seconds since 1970 (UTC).
    pub unix_seconds: u64,
    /// How often it happened: more than 1 for repeats that were counted.
    pub count: u64,
    /// What happened.
    #[serde(flatten)]
    pub what: T,
}

/// What can be recorded.
pub(crate) trait Recorded:
    Clone + Serialize + DeserializeOwned + Send + Sync + 'static
{
    /// How many kinds of repeats are told apart in a minute, in each part, beside those that have an
    /// [`owner`](Self::owner).
    const FOLDS_MAX: usize;

    /// The same of each owner.
    const FOLDS_OF_OWNER_MAX: usize = 0;

    /// The parts of its log, as their files are called, without `.0` and `.1`.
    const PARTS: &'static [&'static str];

    /// What is pushed out although it is younger than this is told of.
    const YOUNG_SECONDS: u64 = 0;

    /// Which of these it belongs to. Its [`others`](Self::others) belong to the same.
    fn part(&self) -> usize {
        0
    }

    /// How its repeats are recorded.
    fn fold(&self) -> Fold;

    /// Whom it is of, where only few can be: each has so many kinds of repeats to itself, whatever others do.
    fn owner(&self) -> Option<&str> {
        None
    }

    /// How long it is only counted when it happens again.
    fn pause(&self) -> Duration {
        PAUSE
    }

    /// What is counted in its place, where too many kinds of repeats are told apart already; `None` if it
    /// is recorded by itself all the same. It has the same owner.
    fn others(&self) -> Option<Self>;
}

/// A text of somebody else's as it can be kept and shown: of bounded length, without what a terminal obeys.
pub(crate) fn clipped(text: &str) -> String {
    /// More than any name or sentence of this program.
    const CHARS_MAX: usize = 600;
    let mut clipped: String = text.chars().take(CHARS_MAX).collect();
    if clipped.len() < text.len() {
        clipped.push_str("...");
    }
    clipped.replace(is_obeyed, " ")
}

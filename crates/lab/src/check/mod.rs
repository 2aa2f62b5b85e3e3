//! Whether what is read is what was written.
//!
//! Every 512-byte sector that the lab writes carries where it belongs, a sequence number, a key and
//! the time ([`stamp`]). The [`Ledger`] remembers the last sequence number of each block; a read is
//! compared with it. A journal keeps the ledger beyond the end of the process.

mod journal;
mod ledger;
mod record;
mod stamp;
#[cfg(test)]
mod tests;

use std::fmt;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

pub use journal::{Journal, JournalError, JournalVolume};
pub use ledger::Ledger;
pub(crate) use stamp::{SECTOR_BYTES, Stamp, fill};

/// Data that is not what was written.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mismatch {
    /// The volume.
    pub volume: String,
    /// The logical block of the volume's disk.
    pub lba: u64,
    /// Where the block begins, in bytes.
    pub at_bytes: u64,
    /// The sequence number of the last write.
    pub expected: u64,
    /// When that was answered, in nanoseconds since 1970; 0 if it is not known.
    pub written_unix_ns: u64,
    /// What was read instead.
    pub seen: Seen,
    /// When it was read, in nanoseconds since 1970.
    pub found_unix_ns: u64,
}

/// What was read instead of the last write.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Seen {
    /// An earlier write of this block: the last one was lost, or old data came back.
    Old {
        /// Its sequence number.
        sequence: u64,
        /// When it was written, in nanoseconds since 1970.
        written_unix_ns: u64,
    },
    /// A later write than any that was answered: somebody else writes here with this key.
    Newer {
        /// Its sequence number.
        sequence: u64,
    },
    /// A write that failed here and came all the same, after what was known of the block: no wrong data, for
    /// its target was still free to do it.
    Late {
        /// Its sequence number.
        sequence: u64,
    },
    /// A write of another place.
    Elsewhere {
        /// The number of the volume that it was for.
        volume: u16,
        /// The byte that it was for.
        at_bytes: u64,
        /// Its sequence number.
        sequence: u64,
    },
    /// Parts of several writes.
    Torn {
        /// The sequence numbers of the first sector and of the first one that differs.
        sequences: (u64, u64),
    },
    /// The right header over other bytes.
    Damaged {
        /// The first byte of the block that is wrong.
        offset_bytes: u32,
    },
    /// Zeroes.
    Zeroes,
    /// Nothing that the lab wrote with this key.
    Foreign,
}

impl fmt::Display for Seen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Old { sequence, written_unix_ns } => {
                write!(f, "write {sequence}, an earlier one, of {}", clock(*written_unix_ns))
            }
            Self::Newer { sequence } => write!(f, "write {sequence}, which was never answered"),
            Self::Late { sequence } => {
                write!(f, "write {sequence}, which had been given up and came late")
            }
            Self::Elsewhere { volume, at_bytes, sequence } => {
                write!(f, "write {sequence}, which was for byte {at_bytes} of volume {volume}")
            }
            Self::Torn { sequences: (first, other) } => {
                write!(f, "parts of writes {first} and {other}")
            }
            Self::Damaged { offset_bytes } => {
                write!(f, "the right header, and wrong bytes from byte {offset_bytes} of the block")
            }
            Self::Zeroes => f.write_str("zeroes"),
            Self::Foreign => f.write_str("data that this run did not write"),
        }
    }
}

impl Mismatch {
    /// Whether the same place of another volume was written: by one disk that two volumes are on, or by a target
    /// that took the one for the other.
    fn may_be_twin(&self) -> bool {
        matches!(self.seen, Seen::Elsewhere { at_bytes, .. } if at_bytes == self.at_bytes)
    }
}

impl fmt::Display for Mismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} LBA {} (byte {}): ", self.volume, self.lba, self.at_bytes)?;
        match self.expected {
            0 => f.write_str("expected nothing of this run")?,
            expected => write!(
                f,
                "expected write {expected}, last written at or soon after {}",
                clock(self.written_unix_ns)
            )?,
        }
        write!(f, "; seen {}", self.seen)?;
        if self.may_be_twin() {
            f.write_str(" (perhaps one disk by two names)")?;
        }
        write!(f, "; read {}", clock(self.found_unix_ns))
    }
}

/// A time as hours, minutes and so on in UTC; the date is that of the report.
fn clock(unix_ns: u64) -> String {
    if unix_ns == 0 {
        return "at an unknown time".to_owned();
    }
    let (seconds, micros) = (unix_ns / 1_000_000_000, unix_ns % 1_000_000_000 / 1000);
    let (hour, minute, second) = (seconds / 3600 % 24, seconds / 60 % 60, seconds % 60);
    format!("{hour:02}:{minute:02}:{second:02}.{micros:06}Z")
}

/// Now, in nanoseconds since 1970.
pub(crate) fn unix_ns() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}

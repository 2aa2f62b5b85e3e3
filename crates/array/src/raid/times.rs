//! How long RAID sets take, by their level: sets come and go, and what they have done stays counted.

use std::time::Duration;

use block::{Latency, SharedLatency};

use crate::Level;

/// What sets of one level have done.
#[derive(Debug, Default)]
struct OfLevel {
    reads: SharedLatency,
    writes: SharedLatency,
}

/// Counts what sets do, on all cores.
#[derive(Debug, Default)]
pub(super) struct Times {
    metadata: OfLevel,
    levels: [OfLevel; Level::ALL.len()],
}

/// How long the sets of one level took.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SetTimes {
    /// For reads of blocks of one cluster, from when a disk was asked to the data, checked and mended if need
    /// be. One that is answered at once has taken no time.
    pub reads: Latency,
    /// For writes to one stripe, parity and all copies included, from when its disks were asked.
    pub writes: Latency,
}

impl Times {
    fn of(&self, level: Option<Level>) -> &OfLevel {
        match level.and_then(|level| Level::ALL.iter().position(|other| *other == level)) {
            Some(place) => &self.levels[place],
            None => &self.metadata,
        }
    }

    #[inline]
    pub(super) fn read(&self, level: Option<Level>, time: Duration) {
        self.of(level).reads.count(time);
    }

    pub(super) fn written(&self, level: Option<Level>, time: Duration) {
        self.of(level).writes.count(time);
    }

    pub(super) fn counted(&self, level: Option<Level>) -> SetTimes {
        let of_level = self.of(level);
        SetTimes { reads: of_level.reads.counted(), writes: of_level.writes.counted() }
    }
}

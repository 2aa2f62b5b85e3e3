//! What commands did, how long they took and how they ended.
//!
//! Each session counts for itself, in plain cells of its core ([`UnitTally`]): on the way of a command there
//! is no lock, no atomic and no clock but that of the turn. When a session ends, what it has counted goes to
//! the part of its core in [`EndedSessions`] of the unit, in the same step in which the core forgets the
//! session. Whoever asks a core for both parts in one step so finds every command once.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::ops::AddAssign;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use ring::CoreId;
use scsi::cdb::Command;

/// The upper bounds of the classes in which [`Latency`] counts, but for the last one, which has none.
pub const LATENCY_BOUNDS: [Duration; 14] = [
    Duration::from_micros(50),
    Duration::from_micros(100),
    Duration::from_micros(250),
    Duration::from_micros(500),
    Duration::from_millis(1),
    Duration::from_micros(2500),
    Duration::from_millis(5),
    Duration::from_millis(10),
    Duration::from_millis(25),
    Duration::from_millis(50),
    Duration::from_millis(100),
    Duration::from_millis(500),
    Duration::from_millis(2500),
    Duration::from_secs(10),
];

const CLASSES: usize = LATENCY_BOUNDS.len() + 1;

/// How long commands took, from their turn in the session to their answer.
///
/// The clock is that of the core, which stands still for a turn: a command that is answered in the turn in
/// which it came took no time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Latency {
    /// Commands by [`LATENCY_BOUNDS`]: those that took no longer than each bound, and longer than the one
    /// before it; in the end those that took longer than all.
    pub counts: [u64; CLASSES],
    /// All their times together, in nanoseconds.
    pub sum_ns: u64,
}

impl Latency {
    /// How many commands.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }
}

impl AddAssign for Latency {
    fn add_assign(&mut self, other: Self) {
        for (count, more) in self.counts.iter_mut().zip(other.counts) {
            *count += more;
        }
        self.sum_ns += other.sum_ns;
    }
}

/// Commands that go one way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WorkFigures {
    /// Those that were answered, with their times.
    pub latency: Latency,
    /// Bytes that they moved.
    pub bytes: u64,
    /// How many of them were answered with another status than GOOD. A unit attention is none: it is news,
    /// and the host sends the command again.
    pub errors: u64,
    /// Those that were aborted, by hosts or with their connection; they are not among the others.
    pub aborted: u64,
}

impl AddAssign for WorkFigures {
    fn add_assign(&mut self, other: Self) {
        self.latency += other.latency;
        self.bytes += other.bytes;
        self.errors += other.errors;
        self.aborted += other.aborted;
    }
}

/// What hosts have had done by one unit since it was first served.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UnitFigures {
    /// READ.
    pub reads: WorkFigures,
    /// WRITE, WRITE AND VERIFY, WRITE ATOMIC, ORWRITE, COMPARE AND WRITE.
    pub writes: WorkFigures,
    /// All other commands.
    pub others: WorkFigures,
}

impl AddAssign for UnitFigures {
    fn add_assign(&mut self, other: Self) {
        self.reads += other.reads;
        self.writes += other.writes;
        self.others += other.others;
    }
}

/// Which way the data of a command goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Direction {
    Read,
    Write,
    Other,
}

impl Direction {
    pub(crate) fn of(command: &Command) -> Self {
        match command {
            Command::Read { .. } => Self::Read,
            Command::Write { .. }
            | Command::WriteAndVerify { .. }
            | Command::WriteAtomic { .. }
            | Command::OrWrite { .. }
            | Command::CompareAndWrite { .. } => Self::Write,
            _ => Self::Other,
        }
    }
}

fn add(cell: &Cell<u64>, more: u64) {
    cell.set(cell.get() + more);
}

/// Counts times, on one core.
#[derive(Debug, Default)]
pub(crate) struct LatencyTally {
    counts: [Cell<u64>; CLASSES],
    sum_ns: Cell<u64>,
}

impl LatencyTally {
    #[inline]
    pub(crate) fn count(&self, time: Duration) {
        // Mostly the first class, and seldom one of the last.
        let class = LATENCY_BOUNDS.iter().position(|bound| time <= *bound);
        add(&self.counts[class.unwrap_or(CLASSES - 1)], 1);
        if !time.is_zero() {
            add(&self.sum_ns, u64::try_from(time.as_nanos()).unwrap_or(u64::MAX));
        }
    }

    pub(crate) fn figures(&self) -> Latency {
        let counts = std::array::from_fn(|class| self.counts[class].get());
        Latency { counts, sum_ns: self.sum_ns.get() }
    }
}

#[derive(Debug, Default)]
struct WorkTally {
    latency: LatencyTally,
    bytes: Cell<u64>,
    errors: Cell<u64>,
    aborted: Cell<u64>,
}

impl WorkTally {
    fn figures(&self) -> WorkFigures {
        WorkFigures {
            latency: self.latency.figures(),
            bytes: self.bytes.get(),
            errors: self.errors.get(),
            aborted: self.aborted.get(),
        }
    }
}

/// Counts what one session has done by one unit, on the core of the session.
#[derive(Debug, Default)]
pub(crate) struct UnitTally {
    reads: WorkTally,
    writes: WorkTally,
    others: WorkTally,
}

impl UnitTally {
    #[inline]
    fn work(&self, direction: Direction) -> &WorkTally {
        match direction {
            Direction::Read => &self.reads,
            Direction::Write => &self.writes,
            Direction::Other => &self.others,
        }
    }

    /// A command has been answered, after `time`, and has moved so many bytes.
    #[inline]
    pub(crate) fn answered(&self, direction: Direction, time: Duration, bytes: u64) {
        let work = self.work(direction);
        work.latency.count(time);
        add(&work.bytes, bytes);
    }

    /// One that was [answered](Self::answered) has failed.
    pub(crate) fn failed(&self, direction: Direction) {
        add(&self.work(direction).errors, 1);
    }

    pub(crate) fn aborted(&self, direction: Direction) {
        add(&self.work(direction).aborted, 1);
    }

    pub(crate) fn figures(&self) -> UnitFigures {
        UnitFigures {
            reads: self.reads.figures(),
            writes: self.writes.figures(),
            others: self.others.figures(),
        }
    }
}

/// What sessions that have ended had done by one unit, by the core on which they lived.
#[derive(Debug, Default)]
pub(crate) struct EndedSessions(Mutex<BTreeMap<CoreId, UnitFigures>>);

impl EndedSessions {
    /// A session of this core has ended. To be called in the same step in which the core forgets it.
    pub(crate) fn add(&self, core: CoreId, figures: UnitFigures) {
        let mut by_core = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        *by_core.entry(core).or_default() += figures;
    }

    /// To be asked on this core, in the same step as the sessions that live there.
    pub(crate) fn of_core(&self, core: CoreId) -> UnitFigures {
        let by_core = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        by_core.get(&core).copied().unwrap_or_default()
    }
}

/// What has gone over the connections of one portal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct PortalWork {
    /// SCSI commands that have come.
    pub(crate) commands: u64,
    /// Bytes of data that were sent for them.
    pub(crate) read_bytes: u64,
    /// Bytes of data that came for them.
    pub(crate) written_bytes: u64,
}

impl AddAssign for PortalWork {
    fn add_assign(&mut self, other: Self) {
        self.commands += other.commands;
        self.read_bytes += other.read_bytes;
        self.written_bytes += other.written_bytes;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_counted_up_to_and_with_each_bound() {
        let tally = LatencyTally::default();
        let us = Duration::from_micros;
        for time in [us(0), us(50), us(51), us(10_000_000), us(10_000_001)] {
            tally.count(time);
        }
        let figures = tally.figures();
        let counted = |class: usize| figures.counts[class];
        assert_eq!((counted(0), counted(1), counted(13), counted(14)), (2, 1, 1, 1));
        assert_eq!(figures.count(), 5);
        assert_eq!(figures.sum_ns, (50 + 51 + 10_000_000 + 10_000_001) * 1000);
        assert!(LATENCY_BOUNDS.is_sorted());
    }

    #[test]
    fn the_parts_of_cores_are_apart_and_add_up() {
        let ended = EndedSessions::default();
        let tally = UnitTally::default();
        tally.answered(Direction::Read, Duration::from_millis(3), 4096);
        tally.answered(Direction::Write, Duration::ZERO, 512);
        tally.failed(Direction::Write);
        tally.aborted(Direction::Other);
        let (first, second) = (CoreId::from(0), CoreId::from(1));
        ended.add(first, tally.figures());
        ended.add(first, tally.figures());
        assert_eq!(ended.of_core(second), UnitFigures::default());
        let figures = ended.of_core(first);
        assert_eq!((figures.reads.bytes, figures.reads.latency.sum_ns), (8192, 6_000_000));
        assert_eq!((figures.writes.latency.counts[0], figures.writes.errors), (2, 2));
        assert_eq!((figures.others.aborted, figures.others.latency.count()), (2, 0));
    }
}

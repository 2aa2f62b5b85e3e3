//! Counting commands where they end.

use std::time::Duration;

use super::{Answer, Connection, Session, UnitNexus};
use crate::figures::{Direction, PortalWork, UnitFigures};
use crate::outcome::Outcome;

impl UnitNexus {
    /// A command is answered with `outcome`, after `time`; one that is answered in the turn in which it came
    /// has taken none.
    pub(crate) fn count(
        &self,
        answer: &Answer,
        direction: Direction,
        outcome: &Outcome,
        time: Duration,
    ) {
        let bytes = outcome.moved_bytes().min(answer.announced.into());
        match outcome {
            Outcome::Aborted => self.tally.aborted(direction),
            _ => self.count_answer(answer, direction, bytes, time),
        }
        if outcome.is_error() {
            self.tally.failed(direction);
        }
    }

    /// The same of a command that has moved `bytes` and is answered with GOOD.
    #[inline]
    pub(crate) fn count_answer(
        &self,
        answer: &Answer,
        direction: Direction,
        bytes: u64,
        time: Duration,
    ) {
        self.tally.answered(direction, time, bytes);
        answer.conn.latency.count(time);
    }

    /// A command ends without an answer of its own.
    pub(crate) fn count_aborted(&self, direction: Direction) {
        self.tally.aborted(direction);
    }
}

impl Session {
    /// What it has had done, by all of its units.
    pub(crate) fn figures(&self) -> UnitFigures {
        let mut figures = UnitFigures::default();
        self.places().for_each(|place| figures += place.tally.figures());
        figures
    }
}

impl Connection {
    /// What has gone over it.
    pub(crate) fn work(&self) -> PortalWork {
        PortalWork {
            commands: self.commands(),
            read_bytes: self.mover.data_in_bytes(),
            written_bytes: self.written_bytes(),
            latency: self.latency.figures(),
        }
    }
}

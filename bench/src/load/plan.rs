//! What to do: the shape of a run, and the stream of I/Os it asks for.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// How addresses follow each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Order {
    /// Uniform over the area, in units of the I/O size.
    Random,
    /// One after the other; every session starts at its own part of the area.
    Sequential,
}

/// The shape of one run.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Plan {
    /// Share of reads, 0 to 100.
    pub(crate) read_percent: u8,
    /// How addresses follow each other.
    pub(crate) order: Order,
    /// Bytes per I/O.
    pub(crate) io_bytes: u32,
    /// I/Os that each session keeps in flight; 0 holds the sessions idle.
    pub(crate) depth: u32,
    /// Connections, each its own session.
    pub(crate) sessions: u32,
    /// Time before anything is counted.
    pub(crate) warmup: Duration,
    /// Time that is counted.
    pub(crate) measure: Duration,
    /// Bytes of the device that are used, from its start.
    pub(crate) area_bytes: u64,
    /// Compare what is read with the pattern (the area must have been filled).
    pub(crate) verify: bool,
    /// Stop after this many I/Os, whatever the time (used to fill a device exactly once).
    pub(crate) ios_max: Option<u64>,
}

/// One I/O.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Io {
    /// Byte address.
    pub(crate) at: u64,
    /// Bytes.
    pub(crate) len: u32,
    /// Read, else write.
    pub(crate) read: bool,
}

/// Marsaglia's xorshift64: fast, and the same sequence for the same seed.
#[derive(Debug, Clone)]
pub(crate) struct XorShift(u64);

impl XorShift {
    pub(crate) fn new(seed: u64) -> Self {
        // Zero is the one state that xorshift never leaves.
        Self((seed ^ 88_172_645_463_325_252).max(1))
    }

    pub(crate) fn draw(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }
}

/// The I/Os of one session, endless.
#[derive(Debug, Clone)]
pub(crate) struct IoStream {
    random: XorShift,
    read_percent: u64,
    order: Order,
    io_bytes: u32,
    units: u64,
    next_unit: u64,
}

impl IoStream {
    /// The stream of session `session` of the plan.
    pub(crate) fn new(plan: &Plan, session: u32) -> Self {
        let units = (plan.area_bytes / u64::from(plan.io_bytes)).max(1);
        let share = units / u64::from(plan.sessions.max(1));
        Self {
            random: XorShift::new(u64::from(session + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15)),
            read_percent: u64::from(plan.read_percent),
            order: plan.order,
            io_bytes: plan.io_bytes,
            units,
            next_unit: share * u64::from(session),
        }
    }

    /// The next I/O: a multiple of the I/O size inside the area.
    pub(crate) fn draw(&mut self) -> Io {
        let read = match self.read_percent {
            0 => false,
            100.. => true,
            percent => self.random.draw() % 100 < percent,
        };
        let unit = match self.order {
            Order::Random => self.random.draw() % self.units,
            Order::Sequential => {
                let unit = self.next_unit % self.units;
                self.next_unit = unit + 1;
                unit
            }
        };
        Io { at: unit * u64::from(self.io_bytes), len: self.io_bytes, read }
    }
}

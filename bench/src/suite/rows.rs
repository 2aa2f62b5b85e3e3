//! The rows of work.

use std::time::Duration;

use crate::load::{Order, Plan};

/// One row: a kind of work that every target does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Row {
    /// Its name in the JSON, on the command line and for the marks.
    pub(crate) key: &'static str,
    /// Its name for people.
    pub(crate) title: &'static str,
    read_percent: u8,
    order: Order,
    pub(crate) io_bytes: u32,
    depth: u32,
    sessions: u32,
}

/// Total depth of the two rows on fairness: 45 sessions of 8.
const FAIR_DEPTH: u32 = 45 * 8;

/// All rows, in the order of the report.
pub(crate) const ROWS: [Row; 9] = [
    row("4k-read-1", "4 KiB random read, depth 1", 100, Order::Random, 4 << 10, (1, 1)),
    row("4k-read-32", "4 KiB random read, depth 32", 100, Order::Random, 4 << 10, (32, 1)),
    row(
        "4k-read-8x32",
        "4 KiB random read, 8 sessions of depth 32",
        100,
        Order::Random,
        4 << 10,
        (32, 8),
    ),
    row("4k-write-32", "4 KiB random write, depth 32", 0, Order::Random, 4 << 10, (32, 1)),
    row("8k-mix-32", "8 KiB, 67 % read, random, depth 32", 67, Order::Random, 8 << 10, (32, 1)),
    row(
        "64k-write-16",
        "64 KiB sequential write, depth 16",
        0,
        Order::Sequential,
        64 << 10,
        (16, 1),
    ),
    row(
        "256k-read-16",
        "256 KiB sequential read, depth 16",
        100,
        Order::Sequential,
        256 << 10,
        (16, 1),
    ),
    row(
        "fair-1",
        "4 KiB random read, 1 session of depth 360",
        100,
        Order::Random,
        4 << 10,
        (FAIR_DEPTH, 1),
    ),
    row(
        "fair-45",
        "4 KiB random read, 45 sessions of depth 8",
        100,
        Order::Random,
        4 << 10,
        (FAIR_DEPTH / 45, 45),
    ),
];

/// A row of so many I/Os in flight in each of so many sessions.
pub(crate) const fn row(
    key: &'static str,
    title: &'static str,
    read_percent: u8,
    order: Order,
    io_bytes: u32,
    (depth, sessions): (u32, u32),
) -> Row {
    Row { key, title, read_percent, order, io_bytes, depth, sessions }
}

impl Row {
    /// The row as a plan for a disk of `area_bytes`.
    pub(crate) fn plan(&self, area_bytes: u64, warmup: Duration, measure: Duration) -> Plan {
        Plan {
            read_percent: self.read_percent,
            order: self.order,
            io_bytes: self.io_bytes,
            depth: self.depth,
            sessions: self.sessions,
            warmup,
            measure,
            area_bytes,
            verify: false,
            ios_max: None,
        }
    }
}

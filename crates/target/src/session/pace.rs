//! Whether a host sends the data that it has announced.

use std::time::{Duration, Instant};

use super::Connection;

/// Of the data that a host has still to send it must send at least this part in the time that it
/// has. Only payload counts: empty PDUs are no progress.
const PART: u64 = 16;

/// How fast the data of a connection comes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pace {
    since: Instant,
    /// What had come then.
    bytes: u64,
}

impl Pace {
    pub(crate) fn of(conn: &Connection) -> Self {
        Self { since: ring::now(), bytes: conn.data_out_bytes.get() }
    }

    /// Since it was last seen to come.
    pub(crate) fn age(&self) -> Duration {
        ring::now() - self.since
    }

    /// For how long too little has come of `missing` bytes.
    pub(crate) fn idle_time(&mut self, conn: &Connection, missing: u64) -> Duration {
        let come = conn.data_out_bytes.get() - self.bytes;
        if missing == 0 || come > missing / PART {
            *self = Self::of(conn);
        }
        self.age()
    }

    /// The same has been so for `limit`.
    pub(crate) fn is_below(&mut self, limit: Duration, conn: &Connection, missing: u64) -> bool {
        self.idle_time(conn, missing) >= limit
    }
}

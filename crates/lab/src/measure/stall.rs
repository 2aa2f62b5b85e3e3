//! Times in which a volume that had I/O to do finished none.

use std::time::{Duration, Instant};

/// What is known of each volume, and the stalls so far.
#[derive(Debug)]
pub(crate) struct Stalls {
    threshold: Duration,
    started: Instant,
    volumes: Vec<State>,
    found: Vec<Found>,
    /// The longest time without an end, whether or not it counts as a stall.
    longest: Duration,
}

#[derive(Debug, Clone, Copy)]
struct State {
    in_flight: u64,
    /// The last end, or the begin of the first I/O after there was none.
    since: Instant,
}

/// One stall.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Found {
    pub(crate) volume: usize,
    /// From the start of the step.
    pub(crate) at: Duration,
    pub(crate) length: Duration,
}

impl Stalls {
    pub(crate) fn new(volumes: usize, threshold: Duration, now: Instant) -> Self {
        let state = State { in_flight: 0, since: now };
        let volumes = vec![state; volumes];
        Self { threshold, started: now, volumes, found: Vec::new(), longest: Duration::ZERO }
    }

    pub(crate) fn begin(&mut self, volume: usize, now: Instant) {
        let state = &mut self.volumes[volume];
        if state.in_flight == 0 {
            state.since = now;
        }
        state.in_flight += 1;
    }

    /// An I/O has ended. One that failed ends no stall: nothing was done.
    pub(crate) fn end(&mut self, volume: usize, failed: bool, now: Instant) {
        self.volumes[volume].in_flight -= 1;
        if !failed {
            self.close(volume, now);
        }
    }

    /// I/Os of a volume that are under way.
    pub(crate) fn in_flight(&self, volume: usize) -> u64 {
        self.volumes[volume].in_flight
    }

    fn close(&mut self, volume: usize, now: Instant) {
        let state = &mut self.volumes[volume];
        let length = now.saturating_duration_since(state.since);
        let at = state.since.saturating_duration_since(self.started);
        state.since = now;
        self.longest = self.longest.max(length);
        if length >= self.threshold {
            self.found.push(Found { volume, at, length });
        }
    }

    /// The end of the step: what stands still now counts up to now.
    pub(crate) fn finish(&mut self, now: Instant) -> (Vec<Found>, Duration) {
        for volume in 0..self.volumes.len() {
            if self.volumes[volume].in_flight > 0 {
                self.close(volume, now);
            }
        }
        (std::mem::take(&mut self.found), self.longest)
    }
}

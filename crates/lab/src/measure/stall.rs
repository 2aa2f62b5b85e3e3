//! Times in which a volume that had I/O to do finished none.

use std::time::{Duration, Instant};

use super::freeze::Pause;

/// What is known of each volume, and the stalls so far.
#[derive(Debug)]
pub(crate) struct Stalls {
    threshold: Duration,
    started: Instant,
    volumes: Vec<State>,
    found: Vec<Found>,
    /// The longest time without an end, whether or not it counts as a stall.
    longest: Pause,
}

#[derive(Debug, Clone, Copy)]
struct State {
    in_flight: u64,
    /// Since when it has had I/O to do and finished none; nothing while it has none to do. I/O that
    /// failed is still to do: who retries, or gives up, has waited for it.
    owing_since: Option<Instant>,
}

/// One stall.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Found {
    pub(crate) volume: usize,
    pub(crate) pause: Pause,
}

impl Stalls {
    pub(crate) fn new(volumes: usize, threshold: Duration, now: Instant) -> Self {
        let state = State { in_flight: 0, owing_since: None };
        let volumes = vec![state; volumes];
        Self { threshold, started: now, volumes, found: Vec::new(), longest: Pause::default() }
    }

    pub(crate) fn begin(&mut self, volume: usize, now: Instant) {
        let state = &mut self.volumes[volume];
        state.owing_since.get_or_insert(now);
        state.in_flight += 1;
    }

    /// An I/O has ended. One that failed ends no stall: nothing was done.
    pub(crate) fn end(&mut self, volume: usize, failed: bool, now: Instant) {
        self.volumes[volume].in_flight -= 1;
        if !failed {
            self.close(volume, now);
        }
    }

    fn close(&mut self, volume: usize, now: Instant) {
        let state = &mut self.volumes[volume];
        let Some(since) = state.owing_since.take() else { return };
        state.owing_since = (state.in_flight > 0).then_some(now);
        let pause = Pause::between(self.started, since, now);
        if pause.length > self.longest.length {
            self.longest = pause;
        }
        if pause.length >= self.threshold {
            self.found.push(Found { volume, pause });
        }
    }

    /// The end of the step: what stands still now, or failed and was not made up for, counts up to now.
    pub(crate) fn finish(&mut self, now: Instant) -> (Vec<Found>, Pause) {
        for volume in 0..self.volumes.len() {
            self.close(volume, now);
        }
        (std::mem::take(&mut self.found), self.longest)
    }
}

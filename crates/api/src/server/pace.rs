//! How often something may be asked for that bothers others than the member: its tests go out as e-mail.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// At most so many within a time, whoever asks.
#[derive(Debug)]
pub(super) struct Pace {
    times: usize,
    within: Duration,
    /// When it was done last, oldest first. Invariant: at most `times`.
    done: Mutex<VecDeque<Instant>>,
}

impl Pace {
    pub(super) fn new(times: usize, within: Duration) -> Self {
        Self { times, within, done: Mutex::default() }
    }

    /// Counts once more, or says how long to wait.
    pub(super) fn take(&self, now: Instant) -> Result<(), Duration> {
        // Each change leaves what the invariant says.
        let mut done = self.done.lock().unwrap_or_else(PoisonError::into_inner);
        while done.front().is_some_and(|at| now.duration_since(*at) >= self.within) {
            done.pop_front();
        }
        if let Some(first) = done.front().filter(|_| done.len() >= self.times) {
            return Err((*first + self.within).duration_since(now));
        }
        done.push_back(now);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn so_many_within_a_time_and_who_is_refused_does_not_count() {
        let (pace, begun) = (Pace::new(3, Duration::from_secs(60)), Instant::now());
        let at = |seconds| pace.take(begun + Duration::from_secs(seconds));
        assert_eq!([0, 10, 20].map(at), [Ok(()); 3]);
        assert_eq!([20, 59].map(at), [40, 1].map(|wait| Err(Duration::from_secs(wait))));
        assert_eq!((at(60), at(61)), (Ok(()), Err(Duration::from_secs(9))));
    }
}

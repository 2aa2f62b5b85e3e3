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
    fn new(times: usize, within: Duration) -> Self {
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

/// The same for those at the control socket and those from afar, each by itself: whoever asks from afar uses up nothing
/// of the machine's own.
#[derive(Debug)]
pub(super) struct Paces {
    local: Pace,
    remote: Pace,
}

impl Paces {
    pub(super) fn new(times: usize, within: Duration) -> Self {
        Self { local: Pace::new(times, within), remote: Pace::new(times, within) }
    }

    pub(super) const fn of(&self, is_local: bool) -> &Pace {
        if is_local { &self.local } else { &self.remote }
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

    #[test]
    fn who_asks_from_afar_uses_up_nothing_of_the_control_socket() {
        let (paces, now) = (Paces::new(1, Duration::from_secs(60)), Instant::now());
        assert!(paces.of(false).take(now).is_ok() && paces.of(false).take(now).is_err());
        assert!(paces.of(true).take(now).is_ok() && paces.of(true).take(now).is_err());
    }
}

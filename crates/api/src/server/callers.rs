//! Who is connected: so many that others find room, and none without limit.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

/// The connections of one socket. Of those above the limit, the one that has been silent for longest makes
/// room; one whose request is being answered is never put out.
#[derive(Debug)]
pub(super) struct Callers {
    max: usize,
    seats: Mutex<Seats>,
}

/// Invariant: `silent` and `answering` together are all that are open.
#[derive(Debug, Default)]
struct Seats {
    next: u64,
    /// Those of which no request is under way, in the order in which they fell silent.
    silent: BTreeMap<u64, Arc<Notify>>,
    answering: usize,
}

/// How a connection does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// It is silent, under this number.
    Silent(u64),
    /// Its request is under way.
    Answering,
}

/// The place of one connection, which it gives back with this value.
#[derive(Debug)]
pub(super) struct Seat {
    callers: Arc<Callers>,
    out: Arc<Notify>,
    state: Mutex<State>,
}

impl Callers {
    pub(super) fn new(max: usize) -> Arc<Self> {
        assert!(max > 0, "somebody must be able to ask");
        Arc::new(Self { max, seats: Mutex::default() })
    }

    fn seats(&self) -> MutexGuard<'_, Seats> {
        // Each change is one call.
        self.seats.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lets one in, and puts out another if there is no room. `None` if all others are being answered.
    pub(super) fn enter(self: &Arc<Self>) -> Option<Seat> {
        let mut seats = self.seats();
        if seats.silent.len() + seats.answering >= self.max {
            let (_, oldest) = seats.silent.pop_first()?;
            oldest.notify_one();
        }
        let out = Arc::new(Notify::new());
        let state = Mutex::new(State::Silent(seats.fall_silent(&out)));
        Some(Seat { callers: self.clone(), out, state })
    }

    /// How many requests are under way.
    pub(super) fn answering(&self) -> usize {
        self.seats().answering
    }
}

impl Seats {
    fn fall_silent(&mut self, out: &Arc<Notify>) -> u64 {
        let number = self.next;
        self.next += 1;
        self.silent.insert(number, out.clone());
        number
    }
}

impl Seat {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends when this one has to make room.
    pub(super) async fn is_put_out(&self) {
        self.out.notified().await;
    }

    /// No request is under way.
    pub(super) fn is_silent(&self) -> bool {
        matches!(*self.state(), State::Silent(_))
    }

    /// A request has come; false if this one was put out just now.
    pub(super) fn asks(&self) -> bool {
        let mut state = self.state();
        let State::Silent(number) = *state else { return true };
        let mut seats = self.callers.seats();
        let is_in = seats.silent.remove(&number).is_some();
        if is_in {
            seats.answering += 1;
            *state = State::Answering;
        }
        is_in
    }

    /// The answer is on its way.
    pub(super) fn is_answered(&self) {
        let mut state = self.state();
        if *state == State::Answering {
            let mut seats = self.callers.seats();
            seats.answering -= 1;
            *state = State::Silent(seats.fall_silent(&self.out));
        }
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        let state = *self.state();
        let mut seats = self.callers.seats();
        match state {
            State::Silent(number) => drop(seats.silent.remove(&number)),
            State::Answering => seats.answering -= 1,
        }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    fn is_out(seat: &Seat) -> bool {
        seat.is_put_out().now_or_never().is_some()
    }

    #[test]
    fn who_is_silent_for_longest_makes_room_and_no_other() {
        let callers = Callers::new(3);
        let [first, second, third] = [0; 3].map(|_| callers.enter().unwrap());
        assert!(first.asks());
        let fourth = callers.enter().unwrap();
        assert!(is_out(&second) && !is_out(&third) && !is_out(&first));
        assert!(!second.asks(), "it was put out");
        drop(second);
        first.is_answered();
        // First fell silent after third and fourth.
        let fifth = callers.enter().unwrap();
        assert!(is_out(&third) && !is_out(&first));
        assert!(first.asks() && fourth.asks() && fifth.asks());
        assert_eq!(callers.answering(), 3);
        assert!(callers.enter().is_none(), "all are being answered");
        drop(fourth);
        assert_eq!(callers.answering(), 2);
        assert!(callers.enter().is_some());
    }
}

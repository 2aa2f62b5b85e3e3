//! Who is connected: so many that others find room, and none without limit.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

use super::throttle::Place;

/// The connections of one door. Of those above the limit, the one that has been silent for longest makes
/// room; one whose request is being answered is never put out.
#[derive(Debug)]
pub(super) struct Callers {
    max: usize,
    /// Those from one place, where places are told apart.
    max_of_place: usize,
    seats: Mutex<Seats>,
}

/// Invariant: `silent` and `answering` together are all that are open, and `by_place` counts those of them
/// that come from a place.
#[derive(Debug, Default)]
struct Seats {
    next: u64,
    /// Those of which no request is under way, in the order in which they fell silent.
    silent: BTreeMap<u64, Silent>,
    answering: usize,
    by_place: HashMap<Place, usize>,
}

#[derive(Debug)]
struct Silent {
    out: Arc<Notify>,
    place: Option<Place>,
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
    place: Option<Place>,
    state: Mutex<State>,
}

impl Callers {
    pub(super) fn new(max: usize, max_of_place: usize) -> Arc<Self> {
        assert!(max > 0 && max_of_place > 0, "somebody must be able to ask");
        Arc::new(Self { max, max_of_place, seats: Mutex::default() })
    }

    fn seats(&self) -> MutexGuard<'_, Seats> {
        // Each change is one call.
        self.seats.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lets one in, and puts out another if there is no room: one from the same place if that has its share.
    /// `None` if all others are being answered.
    pub(super) fn enter(self: &Arc<Self>, place: Option<Place>) -> Option<Seat> {
        let mut seats = self.seats();
        let of_place = place.and_then(|place| seats.by_place.get(&place)).copied().unwrap_or(0);
        if of_place >= self.max_of_place {
            let oldest = seats.silent.iter().find(|(_, silent)| silent.place == place);
            let number = oldest.map(|(number, _)| *number)?;
            seats.put_out(number);
        }
        if seats.silent.len() + seats.answering >= self.max {
            let number = seats.silent.first_key_value().map(|(number, _)| *number)?;
            seats.put_out(number);
        }
        if let Some(place) = place {
            *seats.by_place.entry(place).or_default() += 1;
        }
        let out = Arc::new(Notify::new());
        let state = Mutex::new(State::Silent(seats.fall_silent(&out, place)));
        Some(Seat { callers: self.clone(), out, place, state })
    }

    /// How many requests are under way.
    pub(super) fn answering(&self) -> usize {
        self.seats().answering
    }
}

impl Seats {
    fn fall_silent(&mut self, out: &Arc<Notify>, place: Option<Place>) -> u64 {
        let number = self.next;
        self.next += 1;
        self.silent.insert(number, Silent { out: out.clone(), place });
        number
    }

    fn put_out(&mut self, number: u64) {
        if let Some(Silent { out, place }) = self.silent.remove(&number) {
            self.leave(place);
            out.notify_one();
        }
    }

    /// One less comes from there.
    fn leave(&mut self, place: Option<Place>) {
        let Some(place) = place else { return };
        if let Some(count) = self.by_place.get_mut(&place) {
            *count -= 1;
            if *count == 0 {
                self.by_place.remove(&place);
            }
        }
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
            *state = State::Silent(seats.fall_silent(&self.out, self.place));
        }
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        let state = *self.state();
        let mut seats = self.callers.seats();
        let was_in = match state {
            // One that was put out has left.
            State::Silent(number) => seats.silent.remove(&number).is_some(),
            State::Answering => {
                seats.answering -= 1;
                true
            }
        };
        if was_in {
            seats.leave(self.place);
        }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    fn place(last: u8) -> Option<Place> {
        Some(std::net::IpAddr::from([192, 0, 2, last]).into())
    }

    fn is_out(seat: &Seat) -> bool {
        seat.is_put_out().now_or_never().is_some()
    }

    #[test]
    fn who_is_silent_for_longest_makes_room_and_no_other() {
        let callers = Callers::new(3, 3);
        let [first, second, third] = [0; 3].map(|_| callers.enter(None).unwrap());
        assert!(first.asks());
        let fourth = callers.enter(None).unwrap();
        assert!(is_out(&second) && !is_out(&third) && !is_out(&first));
        assert!(!second.asks(), "it was put out");
        drop(second);
        first.is_answered();
        // First fell silent after third and fourth.
        let fifth = callers.enter(None).unwrap();
        assert!(is_out(&third) && !is_out(&first));
        assert!(first.asks() && fourth.asks() && fifth.asks());
        assert_eq!(callers.answering(), 3);
        assert!(callers.enter(None).is_none(), "all are being answered");
        drop(fourth);
        assert_eq!(callers.answering(), 2);
        assert!(callers.enter(None).is_some());
    }

    #[test]
    fn a_place_that_has_its_share_makes_room_for_itself_only() {
        let callers = Callers::new(4, 2);
        let other = callers.enter(place(9)).unwrap();
        let [first, second] = [0; 2].map(|_| callers.enter(place(1)).unwrap());
        let third = callers.enter(place(1)).unwrap();
        assert!(is_out(&first) && !is_out(&second) && !is_out(&other));
        drop(first);
        assert!(second.asks() && third.asks());
        assert!(callers.enter(place(1)).is_none(), "both of its connections are being answered");
        let more = callers.enter(place(2)).unwrap();
        let last = callers.enter(place(3)).unwrap();
        assert!(is_out(&other) && !is_out(&more), "there is no room for a fifth");
        drop((second, third, other, more, last));
        let seats = callers.seats();
        assert!(seats.by_place.is_empty() && seats.silent.is_empty() && seats.answering == 0);
    }
}

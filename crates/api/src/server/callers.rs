//! Who is connected: so many that others find room, and none without limit.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

use crate::place::Place;

/// The connections of one door. Above the limit one makes room that is silent or whose request has not come
/// in whole: of the place that has most, the one that has been so for longest. So whoever has few keeps
/// them, however many others come. One whose request is being answered is never put out; of these each login
/// has its share.
#[derive(Debug)]
pub(super) struct Callers {
    max: usize,
    /// Those from one place, where places are told apart.
    max_of_place: usize,
    /// Requests of one login that are answered at once, fewer than those of one place, and never more than half of what
    /// others leave.
    max_of_login: usize,
    seats: Mutex<Seats>,
}

/// Invariant: `silent` and `answering` together are all that are open, `by_place` counts those of them that
/// come from a place, and `by_login` those of `answering` that are of a login.
#[derive(Debug, Default)]
struct Seats {
    next: u64,
    /// Those of which no whole request is under way, in the order in which they fell silent.
    silent: BTreeMap<u64, Silent>,
    answering: usize,
    by_place: HashMap<Place, usize>,
    by_login: HashMap<String, usize>,
}

#[derive(Debug)]
struct Silent {
    out: Arc<Notify>,
    place: Option<Place>,
}

/// How a connection does.
#[derive(Debug, Clone, PartialEq, Eq)]
enum State {
    /// It is silent, or the rest of its request is waited for, under this number.
    Silent(u64),
    /// Its request is under way, of this login if it has one.
    Answering(Option<String>),
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
        // Others at the place of whoever has run wild find room too.
        let max_of_login = max.div_ceil(4).min((max_of_place * 3 / 4).max(1));
        Arc::new(Self { max, max_of_place, max_of_login, seats: Mutex::default() })
    }

    fn seats(&self) -> MutexGuard<'_, Seats> {
        // Each change is one call.
        self.seats.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lets one in, and puts out another if there is no room: one from the same place if that has its share,
    /// else one from the place that has most.
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
            let number = seats.crowding()?;
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
    /// Which one makes room for a newcomer.
    fn crowding(&self) -> Option<u64> {
        let of_place = |place: Option<Place>| place.and_then(|place| self.by_place.get(&place));
        let all = self.silent.iter().map(|(number, silent)| (of_place(silent.place), *number));
        all.max_by_key(|(count, number)| (*count, Reverse(*number))).map(|(_, number)| number)
    }

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

    /// Whether one more request of this login, which has come and is counted in `answering`, may be answered. Who
    /// has none may always; who has some leaves as much as it has to others, so that however many have run wild
    /// a few more find room.
    fn have_room(&self, login: &str, callers: &Callers) -> bool {
        let own = self.by_login.get(login).copied().unwrap_or(0);
        let others = self.answering.saturating_sub(own + 1);
        let left = callers.max.saturating_sub(others);
        own == 0 || (own < callers.max_of_login && own < left / 2)
    }

    /// One less is answered, of this login.
    fn end(&mut self, login: Option<&str>) {
        self.answering -= 1;
        let Some(login) = login else { return };
        if let Some(count) = self.by_login.get_mut(login) {
            *count -= 1;
            if *count == 0 {
                self.by_login.remove(login);
            }
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

    /// A request has come, or the rest of it; false if this one was put out just now.
    pub(super) fn asks(&self) -> bool {
        let mut state = self.state();
        let State::Silent(number) = *state else { return true };
        let mut seats = self.callers.seats();
        let is_in = seats.silent.remove(&number).is_some();
        if is_in {
            seats.answering += 1;
            *state = State::Answering(None);
        }
        is_in
    }

    /// It is this login that asks; false if as many requests of it are answered as may be at once.
    pub(super) fn asks_as(&self, login: &str) -> bool {
        let mut state = self.state();
        let State::Answering(of @ None) = &mut *state else { return true };
        let mut seats = self.callers.seats();
        let has_room = seats.have_room(login, &self.callers);
        if has_room {
            *seats.by_login.entry(login.to_owned()).or_default() += 1;
            *of = Some(login.to_owned());
        }
        has_room
    }

    /// The answer is on its way, or the rest of the request is waited for.
    pub(super) fn falls_silent(&self) {
        let mut state = self.state();
        if let State::Answering(login) = &*state {
            let mut seats = self.callers.seats();
            seats.end(login.as_deref());
            *state = State::Silent(seats.fall_silent(&self.out, self.place));
        }
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        let state = self.state();
        let mut seats = self.callers.seats();
        let was_in = match &*state {
            // One that was put out has left.
            State::Silent(number) => seats.silent.remove(number).is_some(),
            State::Answering(login) => {
                seats.end(login.as_deref());
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
        first.falls_silent();
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
        is_empty(&callers);
    }

    fn is_empty(callers: &Callers) {
        let seats = callers.seats();
        assert!(seats.by_place.is_empty() && seats.by_login.is_empty());
        assert!(seats.silent.is_empty() && seats.answering == 0);
    }

    #[test]
    fn a_place_with_few_keeps_them_however_many_come_from_others() {
        let callers = Callers::new(8, 4);
        let few = callers.enter(place(1)).unwrap();
        let many: Vec<_> = (0..64).map(|n| callers.enter(place(2 + n % 2)).unwrap()).collect();
        assert!(!is_out(&few));
        assert_eq!(many.iter().filter(|seat| is_out(seat)).count(), 64 - 7);
        drop((few, many));
        is_empty(&callers);
    }

    #[test]
    fn logins_that_run_wild_leave_room_for_more() {
        let callers = Callers::new(64, 64);
        let mut held = Vec::new();
        let mut counts = Vec::new();
        for wild in 0..6 {
            let login = format!("wild-{wild}");
            let before = held.len();
            // As many as it gets: each that is refused gives its seat back.
            for _ in 0..64 {
                let Some(seat) = callers.enter(None) else { break };
                if seat.asks() && seat.asks_as(&login) {
                    held.push(seat);
                }
            }
            counts.push(held.len() - before);
        }
        assert_eq!(counts, [16, 16, 16, 8, 4, 2]);
        let good = callers.enter(None).unwrap();
        assert!(good.asks() && good.asks_as("ada"), "there is room for one more");
        drop(held.remove(0));
        let next = callers.enter(None).unwrap();
        assert!(next.asks() && !next.asks_as("wild-0"), "what is given back is for others first");
        drop((held, good, next));
        is_empty(&callers);
    }

    #[test]
    fn one_login_leaves_room_for_others_at_its_own_place() {
        let callers = Callers::new(256, 64);
        let mut held = Vec::new();
        while let Some(seat) = callers.enter(place(1)).filter(|it| it.asks() && it.asks_as("wild"))
        {
            held.push(seat);
        }
        assert_eq!(held.len(), 48);
        let other = callers.enter(place(1)).expect("its place has room");
        assert!(other.asks() && other.asks_as("ada"));
        drop((held, other));
        is_empty(&callers);
    }

    #[test]
    fn who_waits_for_the_rest_of_a_request_may_be_put_out_and_a_login_has_its_share() {
        let callers = Callers::new(4, 4);
        let seats: Vec<_> = (0..4).map(|_| callers.enter(None).unwrap()).collect();
        assert!(seats.iter().all(Seat::asks) && callers.enter(None).is_none());
        assert!(seats[0].asks_as("ci") && seats[0].asks_as("ci"), "it is counted once");
        assert!(!seats[1].asks_as("ci") && seats[1].asks_as("ada"));
        seats[0].falls_silent();
        let fifth = callers.enter(None).unwrap();
        assert!(is_out(&seats[0]) && !seats[0].asks());
        assert!(fifth.asks() && fifth.asks_as("ci"), "it was given back");
        drop((seats, fifth));
        is_empty(&callers);
    }
}

//! Who may come in: connections, those of them that have not finished logging in, and those of
//! discovery sessions; of each address and of all.
//!
//! An address may have no more connections than are still free, so that the next one finds some,
//! and [`Limits`] has a number that it may not exceed. A login under way and a discovery session
//! are [`Passing`]: where there are too many of them, or no connection is left, the oldest gives
//! way, of the address that has the most of them. Whoever comes and says nothing, or asks little,
//! keeps nobody else out. Only where nothing gives way a connection is refused.
//!
//! Who has more than its part takes no place of those that have less.

use std::cmp::Reverse;
use std::collections::{HashMap, VecDeque};
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard};

use ring::{OneshotReceiver, OneshotSender};

use crate::config::Limits;
use crate::share;

/// Connections beyond [`Limits`] that are let in while those that give way for them still close.
pub const GIVING_WAY_MAX: usize = 16;

/// Discovery sessions may have one of so many connections.
const DISCOVERY_PART: usize = 4;

/// Touched when a connection comes, has logged in, or goes; never by I/O.
#[derive(Debug)]
pub(crate) struct Doors {
    limits: Limits,
    inner: Mutex<Inner>,
}

/// What a connection is as long as it gives way to others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Login,
    Discovery,
}

const STAGES: usize = 2;

/// Invariant: the totals are the sums over all addresses, and each address has a connection.
#[derive(Debug, Default)]
struct Inner {
    addresses: HashMap<IpAddr, Address>,
    connections: usize,
    passing: [usize; STAGES],
    last_number: u64,
}

#[derive(Debug, Default)]
struct Address {
    connections: usize,
    /// By stage, the oldest first.
    passing: [VecDeque<Unfinished>; STAGES],
}

#[derive(Debug)]
struct Unfinished {
    number: u64,
    turn_away: OneshotSender<()>,
}

/// Whose connections give way to a new one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reach {
    /// Those of its own address: it has all that an address may have.
    Own,
    /// Those of addresses that have more, too: it has its part of what there is.
    Larger,
    /// Those of all.
    All,
}

impl Doors {
    pub(crate) fn new(limits: Limits) -> Arc<Self> {
        Arc::new(Self { limits, inner: Mutex::default() })
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().expect("nothing panics while it holds the doors")
    }

    /// As many as may be beyond the limit are about to close.
    pub(crate) fn is_overfull(&self) -> bool {
        self.lock().is_overfull(&self.limits)
    }

    /// Lets a connection in, or says why not.
    pub(crate) fn enter(
        self: &Arc<Self>,
        from: IpAddr,
    ) -> Result<(Entered, Passing), &'static str> {
        let address = share::network(from);
        let (turn_away, turned_away) = ring::oneshot();
        let entered = self.lock().enter(address, &self.limits, turn_away);
        let (number, oldest) = entered?;
        tell(oldest);
        let stage = Stage::Login;
        let login = Passing { doors: self.clone(), address, stage, number, turned_away };
        // Behind the login, which ends first.
        Ok((Entered { doors: self.clone(), address }, login))
    }
}

impl Inner {
    /// Counts a connection and its login. What has to give way for it, if anything does.
    fn enter(
        &mut self,
        address: IpAddr,
        limits: &Limits,
        turn_away: OneshotSender<()>,
    ) -> Result<(u64, Option<Unfinished>), &'static str> {
        if self.is_overfull(limits) {
            return Err("too many connections are about to close");
        }
        let reach = self.reach(address, limits);
        let is_crowded = self.passing[Stage::Login as usize] >= limits.logins;
        let of_stage = |stage| Some((self.fullest(stage, address, reach)?, stage));
        let gives_way = || of_stage(Stage::Login).or_else(|| of_stage(Stage::Discovery));
        let gives_way = match reach {
            Reach::Own => {
                Some(gives_way().ok_or("it has as many connections as one address may have")?)
            }
            Reach::Larger => {
                Some(gives_way().ok_or("it has its part of the connections that there are")?)
            }
            Reach::All if is_crowded => gives_way(),
            Reach::All => None,
        };
        let oldest = gives_way.and_then(|(from, stage)| self.take_oldest(from, stage));
        self.connections += 1;
        self.addresses.entry(address).or_default().connections += 1;
        Ok((self.begin(address, Stage::Login, turn_away), oldest))
    }

    fn is_overfull(&self, limits: &Limits) -> bool {
        self.connections >= limits.connections + GIVING_WAY_MAX
    }

    fn reach(&self, address: IpAddr, limits: &Limits) -> Reach {
        let own = self.addresses.get(&address);
        let held = own.map_or(0, |own| own.connections);
        let logins = own.map_or(0, |own| own.passing[Stage::Login as usize].len());
        if held >= limits.connections_per_address || logins >= limits.logins_per_address {
            Reach::Own
        } else if held >= limits.connections.saturating_sub(self.connections) {
            Reach::Larger
        } else {
            Reach::All
        }
    }

    /// Counts a discovery session of a connection that has logged in. The one that has to give way
    /// for it, if one does.
    fn discover(
        &mut self,
        address: IpAddr,
        limits: &Limits,
        turn_away: OneshotSender<()>,
    ) -> (u64, Option<Unfinished>) {
        let stage = Stage::Discovery;
        let own = self.addresses.get(&address).map_or(0, |own| own.passing[stage as usize].len());
        let most = (limits.connections / DISCOVERY_PART).max(1);
        let from = if own >= limits.discoveries_per_address {
            Some(address)
        } else if self.passing[stage as usize] >= most {
            self.fullest(stage, address, Reach::All)
        } else {
            None
        };
        let oldest = from.and_then(|from| self.take_oldest(from, stage));
        (self.begin(address, stage, turn_away), oldest)
    }

    fn begin(&mut self, address: IpAddr, stage: Stage, turn_away: OneshotSender<()>) -> u64 {
        self.last_number += 1;
        let number = self.last_number;
        let own = self.addresses.entry(address).or_default();
        own.passing[stage as usize].push_back(Unfinished { number, turn_away });
        self.passing[stage as usize] += 1;
        number
    }

    /// Within `reach` of `newcomer`, the address with the most of this stage; of several, that with
    /// the oldest one.
    fn fullest(&self, stage: Stage, newcomer: IpAddr, reach: Reach) -> Option<IpAddr> {
        let held = self.addresses.get(&newcomer).map_or(0, |own| own.connections);
        let is_in_reach = |address: IpAddr, other: &Address| match reach {
            Reach::Own => address == newcomer,
            Reach::Larger => address == newcomer || other.connections > held,
            Reach::All => true,
        };
        let reached =
            self.addresses.iter().filter(|(address, other)| is_in_reach(**address, other));
        let ranks = reached.filter_map(|(address, other)| {
            let passing = &other.passing[stage as usize];
            Some((passing.len(), Reverse(passing.front()?.number), *address))
        });
        ranks.max().map(|(.., address)| address)
    }

    fn take_oldest(&mut self, from: IpAddr, stage: Stage) -> Option<Unfinished> {
        let oldest = self.addresses.get_mut(&from)?.passing[stage as usize].pop_front()?;
        self.passing[stage as usize] -= 1;
        Some(oldest)
    }

    /// It passes no longer; `false` if it has given way before.
    fn end(&mut self, address: IpAddr, stage: Stage, number: u64) -> bool {
        let Some(own) = self.addresses.get_mut(&address) else { return false };
        let passing = &mut own.passing[stage as usize];
        let before = passing.len();
        passing.retain(|login| login.number != number);
        let ended = before - passing.len();
        self.passing[stage as usize] -= ended;
        ended > 0
    }

    fn leave(&mut self, address: IpAddr) {
        self.connections -= 1;
        if let Some(own) = self.addresses.get_mut(&address) {
            own.connections -= 1;
            if own.connections == 0 {
                debug_assert!(own.passing.iter().all(VecDeque::is_empty), "each is a connection");
                self.addresses.remove(&address);
            }
        }
    }
}

/// A connection that was let in, until it is gone.
#[derive(Debug)]
pub(crate) struct Entered {
    doors: Arc<Doors>,
    address: IpAddr,
}

impl Drop for Entered {
    fn drop(&mut self) {
        self.doors.lock().leave(self.address);
    }
}

/// A login under way or a discovery session, until it is over, which is before its connection is.
#[derive(Debug)]
pub(crate) struct Passing {
    doors: Arc<Doors>,
    address: IpAddr,
    stage: Stage,
    number: u64,
    /// It has to give way to a newer one.
    pub(crate) turned_away: OneshotReceiver<()>,
}

impl Passing {
    /// It has logged in, and gives way to none any more; `false` if it has done so just before.
    pub(crate) fn has_logged_in(self) -> bool {
        self.doors.lock().end(self.address, self.stage, self.number)
    }

    /// The same for one that has logged in to a discovery session, as which it goes on passing.
    pub(crate) fn into_discovery(self) -> Option<Self> {
        let (doors, address) = (self.doors.clone(), self.address);
        if !self.has_logged_in() {
            return None;
        }
        let (turn_away, turned_away) = ring::oneshot();
        let (number, oldest) = doors.lock().discover(address, &doors.limits, turn_away);
        tell(oldest);
        Some(Self { doors, address, stage: Stage::Discovery, number, turned_away })
    }
}

impl Drop for Passing {
    fn drop(&mut self) {
        self.doors.lock().end(self.address, self.stage, self.number);
    }
}

fn tell(oldest: Option<Unfinished>) {
    if let Some(oldest) = oldest {
        oldest.turn_away.send(());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limits() -> Limits {
        Limits {
            connections: 16,
            connections_per_address: 6,
            logins: 4,
            logins_per_address: 2,
            discoveries_per_address: 2,
            ..Limits::default()
        }
    }

    fn address(last_byte: u8) -> IpAddr {
        [192, 0, 2, last_byte].into()
    }

    impl Inner {
        /// The invariant of the type.
        #[track_caller]
        fn check(&self) {
            let all = || self.addresses.values();
            assert_eq!(self.connections, all().map(|own| own.connections).sum());
            assert!(all().all(|own| own.connections > 0));
            for stage in 0..STAGES {
                assert_eq!(self.passing[stage], all().map(|own| own.passing[stage].len()).sum());
            }
        }
    }

    type Entry = Result<(u64, Option<u64>), &'static str>;

    /// The number of the login, and that of what gives way.
    #[track_caller]
    fn enter(doors: &mut Inner, last_byte: u8) -> Entry {
        let (turn_away, _) = ring::oneshot();
        let entered = doors.enter(address(last_byte), &limits(), turn_away);
        doors.check();
        entered.map(|(number, oldest)| (number, oldest.map(|oldest| oldest.number)))
    }

    /// The same for a connection that logs in to a target.
    #[track_caller]
    fn log_in(doors: &mut Inner, last_byte: u8) -> Entry {
        let entered = enter(doors, last_byte)?;
        doors.end(address(last_byte), Stage::Login, entered.0);
        Ok(entered)
    }

    /// The same for one that logs in to a discovery session.
    #[track_caller]
    fn discover(doors: &mut Inner, last_byte: u8) -> (u64, Option<u64>) {
        log_in(doors, last_byte).unwrap();
        let (turn_away, _) = ring::oneshot();
        let (number, oldest) = doors.discover(address(last_byte), &limits(), turn_away);
        doors.check();
        (number, oldest.map(|oldest| oldest.number))
    }

    #[test]
    fn the_oldest_login_of_who_has_most_gives_way() {
        let mut doors = Inner::default();
        assert_eq!(enter(&mut doors, 1), Ok((1, None)));
        assert_eq!(enter(&mut doors, 1), Ok((2, None)));
        assert_eq!(enter(&mut doors, 1), Ok((3, Some(1))), "two of an address at once");
        assert_eq!(enter(&mut doors, 2), Ok((4, None)));
        assert_eq!(enter(&mut doors, 3), Ok((5, None)));
        assert_eq!(enter(&mut doors, 4), Ok((6, Some(2))), "four of all at once");
    }

    #[test]
    fn among_equals_the_oldest_gives_way() {
        for _ in 0..20 {
            let mut doors = Inner::default();
            for from in 1..5 {
                assert_eq!(enter(&mut doors, from), Ok((u64::from(from), None)));
            }
            assert_eq!(enter(&mut doors, 5), Ok((5, Some(1))));
        }
    }

    #[test]
    fn an_address_has_no_more_than_is_free() {
        let mut doors = Inner::default();
        let mut all = |from: u8| std::iter::from_fn(|| log_in(&mut doors, from).ok()).count();
        // Six are the most for one address; then a half of what is left, at each step.
        assert_eq!([1, 2, 3, 4, 5].map(&mut all), [6, 5, 3, 1, 1]);
        assert_eq!(all(6), 0);
        doors.leave(address(1));
        assert!(log_in(&mut doors, 6).is_ok());
    }

    #[test]
    fn where_no_connection_is_left_logins_and_discovery_sessions_of_larger_addresses_give_way() {
        let mut doors = Inner::default();
        for from in [1, 1, 1, 1, 2, 2, 3, 3, 4, 4] {
            log_in(&mut doors, from).unwrap();
        }
        let (found, _) = discover(&mut doors, 1);
        let (login, _) = enter(&mut doors, 2).unwrap();
        for from in 5..9 {
            log_in(&mut doors, from).unwrap();
        }
        assert_eq!(doors.connections, limits().connections);
        assert!(log_in(&mut doors, 3).is_ok_and(|(_, oldest)| oldest == Some(login)));
        assert!(log_in(&mut doors, 9).is_ok_and(|(_, oldest)| oldest == Some(found)));
        assert!(log_in(&mut doors, 10).is_err(), "all that is left has logged in");
        // Who has most takes the place of nobody but itself.
        for from in [2, 1, 2, 1] {
            doors.leave(address(from));
        }
        let (last, _) = enter(&mut doors, 11).unwrap();
        assert!(enter(&mut doors, 1).is_err());
        assert!(enter(&mut doors, 12).is_ok_and(|(_, oldest)| oldest.is_none()), "{last} stays");
    }

    #[test]
    fn the_oldest_discovery_session_gives_way() {
        let mut doors = Inner::default();
        let (first, _) = discover(&mut doors, 1);
        assert_eq!(discover(&mut doors, 1).1, None);
        assert_eq!(discover(&mut doors, 1).1, Some(first), "two of an address at once");
        assert_eq!([2, 3].map(|from| discover(&mut doors, from).1), [None; 2]);
        assert_eq!(discover(&mut doors, 4).1, Some(first + 2), "a quarter of all connections");
    }

    #[test]
    fn those_that_give_way_and_are_not_gone_are_bounded() {
        let mut doors = Inner::default();
        let entered = (0..200).filter(|from| enter(&mut doors, *from).is_ok());
        assert_eq!(entered.count(), limits().connections + GIVING_WAY_MAX);
    }

    #[test]
    fn nothing_is_left_of_who_has_gone() {
        let mut doors = Inner::default();
        for _ in 0..3 {
            let all: Vec<_> =
                (1..4).map(|from| (from, enter(&mut doors, from).unwrap().0)).collect();
            for (from, number) in all {
                doors.end(address(from), Stage::Login, number);
                doors.leave(address(from));
                doors.check();
            }
            assert!(doors.addresses.is_empty());
        }
    }
}

//! Who is logged in where: shared by all cores, touched at login and at the end of a session only.

use std::collections::{BTreeSet, HashMap};
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard};

use iscsi::params::SessionParams;
use iscsi::pdu::Isid;
use ring::{CoreId, OneshotReceiver, OneshotSender};

use crate::mutants::{self, Mutant};

/// What names a session: the target and one initiator port (RFC 7143 §4.4.1; the portal group is
/// always ours).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct SessionKey {
    pub(crate) target: Arc<str>,
    pub(crate) initiator: Arc<str>,
    pub(crate) isid: Isid,
}

/// Where a session lives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Residence {
    pub(crate) tsih: u16,
    pub(crate) core: CoreId,
    /// What was negotiated: it holds for further connections too.
    pub(crate) params: SessionParams,
    /// The connections it has.
    pub(crate) cids: Vec<u16>,
    /// Whose it is: where its first connection came from, as [`share::network`](crate::share::network) says it.
    pub(crate) peer: IpAddr,
    /// The CHAP user that its first connection proved to be.
    pub(crate) user: Option<Arc<str>>,
    /// It takes no connections any more, and is there until its tasks are over.
    pub(crate) is_ending: bool,
}

impl Residence {
    /// Whether it is a session of who has proved to be this user, or nothing.
    pub(crate) fn is_of(&self, user: Option<&str>) -> bool {
        self.user.as_deref() == user
    }
}

/// How many connections hosts may have, and have. Invariant ([`Tables::count`]): of each session as many places are taken
/// as it has connections, and one of a session that has none any more and has not ended; and one is kept for a login whose
/// session before has ended. So whoever comes back to a session takes no place that another one could have. Each place is
/// of the address of its session, and none takes one more that has as many as one may have.
#[derive(Debug)]
struct Places {
    taken: usize,
    max: usize,
    /// Of those, by address. Who has none is not in it.
    of_peers: HashMap<IpAddr, usize>,
    of_one_max: usize,
}

impl Places {
    /// Why this address gets no further one, if it does not.
    fn refuse(&self, peer: IpAddr) -> Option<Full> {
        let own = self.of_peers.get(&peer).copied().unwrap_or(0);
        if self.taken >= self.max && !mutants::is(Mutant::BeyondLimit) {
            Some(Full::All)
        } else if own >= self.of_one_max && !mutants::is(Mutant::OneHasAll) {
            Some(Full::OfOne)
        } else {
            None
        }
    }

    fn take(&mut self, peer: IpAddr, count: usize) {
        if count > 0 {
            self.taken += count;
            *self.of_peers.entry(peer).or_default() += count;
        }
    }

    fn give_back(&mut self, peer: IpAddr, count: usize) {
        self.taken -= count;
        let left = self.of_peers.get_mut(&peer).map(|own| {
            *own -= count;
            *own
        });
        if left == Some(0) {
            self.of_peers.remove(&peer);
        }
    }

    /// Of a session with so many connections.
    fn of(residence: &Residence) -> usize {
        residence.cids.len().max(1)
    }
}

impl Default for Places {
    fn default() -> Self {
        let of_peers = HashMap::new();
        Self { taken: 0, max: usize::MAX, of_peers, of_one_max: usize::MAX }
    }
}

#[derive(Debug, Default)]
struct Tables {
    places: Places,
    by_key: HashMap<SessionKey, Residence>,
    by_tsih: HashMap<u16, SessionKey>,
    last_tsih: u16,
    /// Logins that wait for the session before them to end: the newest of each key.
    waiting: HashMap<SessionKey, Waiting>,
    last_waiting: u64,
}

#[derive(Debug)]
struct Waiting {
    number: u64,
    peer: IpAddr,
    user: Option<Arc<str>>,
    /// `None` once it was told that the place is free.
    told: Option<OneshotSender<Turn>>,
}

impl Tables {
    /// A host of another name that has a session of the same target, or waits for its own to end.
    fn other_host(&self, key: &SessionKey) -> Option<Arc<str>> {
        let is_other =
            |other: &&SessionKey| other.target == key.target && other.initiator != key.initiator;
        let mut keys = self.by_key.keys().chain(self.waiting.keys());
        keys.find(is_other).map(|other| other.initiator.clone())
    }

    /// What keeps this one from its target.
    fn in_the_way(&self, key: &SessionKey, sharing: Sharing) -> Option<InTheWay> {
        match sharing {
            Sharing::One if !mutants::is(Mutant::SecondHost) => {
                self.other_host(key).map(InTheWay::Other)
            }
            Sharing::NoMore if !self.is_there(key) => {
                self.other_host(key).map(|_| InTheWay::NotNow)
            }
            Sharing::Several | Sharing::One | Sharing::NoMore => None,
        }
    }

    /// Another CHAP user has a session in this place, or waits for it. Names of initiators and their ports
    /// are claimed and no secret, users are proved. An operator who gives a host another user has
    /// the host log out, or the old user is on no list any more and its session ends by that. A session that
    /// ends by itself is waited for, as nothing more can be done to it. Where both users stay on
    /// the list, and the host was lost without a logout, its login as the new one is refused until the session
    /// before is given up: nobody could tell it from a stranger.
    fn is_of_another(&self, key: &SessionKey, user: Option<&str>) -> bool {
        let session = self.by_key.get(key).filter(|session| !session.is_ending);
        session.is_some_and(|session| !session.is_of(user))
            || self.waiting.get(key).is_some_and(|waiting| waiting.user.as_deref() != user)
    }

    /// Whether its host has a session of the same target.
    fn is_there(&self, key: &SessionKey) -> bool {
        let is_own = |own: &SessionKey| own.target == key.target && own.initiator == key.initiator;
        self.by_key.keys().any(is_own)
    }

    fn enter(&mut self, key: &SessionKey, residence: Residence) {
        self.places.take(residence.peer, Places::of(&residence));
        self.by_tsih.insert(residence.tsih, key.clone());
        self.by_key.insert(key.clone(), residence);
    }

    /// The login that waits for this place waits no more.
    fn unwait(&mut self, key: &SessionKey) -> Option<Waiting> {
        let waiting = self.waiting.remove(key)?;
        if waiting.told.is_none() {
            self.places.give_back(waiting.peer, 1);
        }
        Some(waiting)
    }

    /// The connections of a session are others.
    fn set_connections(&mut self, key: &SessionKey, cids: Vec<u16>) {
        let Some(residence) = self.by_key.get_mut(key) else { return };
        self.places.give_back(residence.peer, Places::of(residence));
        residence.cids = cids;
        self.places.take(residence.peer, Places::of(residence));
    }

    /// Why a login of this key that would take a place which nobody has yet gets none, if it does not.
    fn crowds_out(&self, key: &SessionKey, peer: IpAddr) -> Option<Full> {
        let is_its_own = self.by_key.contains_key(key) || self.waiting.contains_key(key);
        let full = self.places.refuse(peer)?;
        (!is_its_own || mutants::is(Mutant::NoReturn)).then_some(full)
    }

    /// Asserts the invariant of [`Places`].
    fn check(&self) {
        debug_assert_eq!(self.places.taken, self.count(), "places are those of sessions");
        debug_assert_eq!(
            self.places.taken,
            self.places.of_peers.values().sum::<usize>(),
            "each place is of one address"
        );
    }

    /// How many places are taken, counted anew.
    fn count(&self) -> usize {
        let kept = self.waiting.values().filter(|waiting| waiting.told.is_none()).count();
        self.by_key.values().map(Places::of).sum::<usize>() + kept
    }
}

/// How many hosts may use a target at the same time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sharing {
    Several,
    One,
    /// As many as there are: whether it is to be for one is being decided.
    NoMore,
}

/// What keeps a host from a target.
enum InTheWay {
    /// A host of this name has it.
    Other(Arc<str>),
    NotNow,
}

/// What a login that waits is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Turn {
    /// The session before it has ended.
    Free,
    /// A newer login of the same key has come.
    Replaced,
}

/// What becomes of a login that asks for the place of a session.
#[derive(Debug)]
pub(crate) enum Claim<'a> {
    Entered,
    /// This session has to end first.
    Waits(Wait<'a>, Residence),
    /// Another session has got its TSIH meanwhile.
    TsihTaken,
    /// The target is not shared, and a host of this name has it.
    InUse(Arc<str>),
    /// Whether the target takes another host is being decided.
    NotNow,
    /// The place is another CHAP user's.
    OtherUser,
    /// There is no place for it.
    Full(Full),
}

/// Why there is no place for a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Full {
    /// Hosts have as many connections as they may have.
    All,
    /// Its address has as many as one address may have.
    OfOne,
}

/// What becomes of a login that has waited for a place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Entry {
    Entered,
    /// A newer login has the place.
    Replaced,
    /// The target is not shared any more, and a host of this name has it.
    InUse(Arc<str>),
    /// Whether the target takes another host is being decided.
    NotNow,
}

/// All sessions of the server, discovery sessions excepted.
#[derive(Debug, Default)]
pub(crate) struct Registry(Mutex<Tables>);

impl Registry {
    fn tables(&self) -> MutexGuard<'_, Tables> {
        self.0.lock().expect("nothing panics while it holds the registry")
    }

    /// A TSIH that no session has; `None` when all 65,535 are taken.
    pub(crate) fn new_tsih(&self) -> Option<u16> {
        let mut tables = self.tables();
        for _ in 0..u16::MAX {
            tables.last_tsih = tables.last_tsih.wrapping_add(1).max(1);
            let tsih = tables.last_tsih;
            if !tables.by_tsih.contains_key(&tsih) {
                return Some(tsih);
            }
        }
        None
    }

    pub(crate) fn find(&self, key: &SessionKey) -> Option<Residence> {
        self.tables().by_key.get(key).cloned()
    }

    /// Enters a session, or lets its login wait for the one before it. In either case a login that
    /// has waited for this place gives way: the newest one counts. How many hosts the target
    /// takes is asked when nobody else can enter.
    pub(crate) fn claim(
        &self,
        key: &SessionKey,
        residence: Residence,
        sharing: impl Fn() -> Sharing,
    ) -> Claim<'_> {
        let mut tables = self.tables();
        match tables.in_the_way(key, sharing()) {
            None => {}
            Some(InTheWay::Other(other)) => return Claim::InUse(other),
            Some(InTheWay::NotNow) => return Claim::NotNow,
        }
        if tables.is_of_another(key, residence.user.as_deref()) {
            return Claim::OtherUser;
        }
        if let Some(full) = tables.crowds_out(key, residence.peer) {
            return Claim::Full(full);
        }
        let before = tables.unwait(key);
        let claim = if let Some(old) = tables.by_key.get(key).cloned() {
            let (tell, turn) = ring::oneshot();
            tables.last_waiting += 1;
            let number = tables.last_waiting;
            let Residence { peer, user, .. } = residence;
            let waiting = Waiting { number, peer, user, told: Some(tell) };
            tables.waiting.insert(key.clone(), waiting);
            Claim::Waits(Wait { registry: self, key: key.clone(), number, turn }, old)
        } else if tables.by_tsih.contains_key(&residence.tsih) {
            Claim::TsihTaken
        } else {
            tables.enter(key, residence);
            Claim::Entered
        };
        tables.check();
        drop(tables);
        if let Some(tell) = before.and_then(|before| before.told) {
            tell.send(Turn::Replaced);
        }
        claim
    }

    /// Notes which connections a session has now.
    pub(crate) fn set_connections(&self, key: &SessionKey, tsih: u16, cids: Vec<u16>) {
        let mut tables = self.tables();
        if tables.by_key.get(key).is_some_and(|residence| residence.tsih == tsih) {
            tables.set_connections(key, cids);
            tables.check();
        }
    }

    /// Takes a place for one more connection of a session, unless there is none. One that comes in the place of another
    /// has that.
    pub(crate) fn add_connection(
        &self,
        key: &SessionKey,
        (tsih, cid): (u16, u16),
        is_in_place: bool,
    ) -> Result<(), Full> {
        let mut tables = self.tables();
        let found = tables.by_key.get(key).filter(|residence| residence.tsih == tsih);
        // Of a session that has just ended nothing is to be taken.
        let Some(residence) = found else { return Ok(()) };
        let adds_nothing = residence.cids.is_empty() || residence.cids.contains(&cid);
        if !adds_nothing
            && !is_in_place
            && let Some(full) = tables.places.refuse(residence.peer)
        {
            return Err(full);
        }
        let mut cids = residence.cids.clone();
        if !cids.contains(&cid) {
            cids.push(cid);
        }
        tables.set_connections(key, cids);
        tables.check();
        Ok(())
    }

    /// Hosts may have so many connections from now on. Those that are there stay.
    pub(crate) fn set_connections_max(&self, max: usize) {
        self.tables().places.max = max;
    }

    /// Of those, one address may have so many from now on. Those that are there stay.
    pub(crate) fn set_connections_of_one_max(&self, max: usize) {
        self.tables().places.of_one_max = max;
    }

    /// How many places for connections are taken.
    pub(crate) fn connections(&self) -> usize {
        self.tables().places.taken
    }

    /// Notes that a session takes no connections any more.
    pub(crate) fn set_ending(&self, key: &SessionKey, tsih: u16) {
        if let Some(residence) = self.tables().by_key.get_mut(key)
            && residence.tsih == tsih
        {
            residence.is_ending = true;
        }
    }

    pub(crate) fn remove(&self, key: &SessionKey, tsih: u16) {
        let mut tables = self.tables();
        if tables.by_key.get(key).is_some_and(|residence| residence.tsih == tsih) {
            if let Some(gone) = tables.by_key.remove(key) {
                tables.places.give_back(gone.peer, Places::of(&gone));
            }
            tables.by_tsih.remove(&tsih);
            let next = tables.waiting.get_mut(key);
            let next = next.and_then(|next| Some((next.peer, next.told.take()?)));
            if let Some((peer, _)) = &next {
                tables.places.take(*peer, 1);
            }
            tables.check();
            drop(tables);
            if let Some((_, tell)) = next {
                tell.send(Turn::Free);
            }
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.tables().by_key.len()
    }

    /// Sessions by target, of those that have any.
    pub(crate) fn counts(&self) -> HashMap<Arc<str>, usize> {
        let mut counts = HashMap::new();
        for key in self.tables().by_key.keys() {
            *counts.entry(key.target.clone()).or_default() += 1;
        }
        counts
    }

    /// The hosts that have sessions of one target.
    pub(crate) fn hosts(&self, target: &str) -> BTreeSet<Arc<str>> {
        let tables = self.tables();
        let keys = tables.by_key.keys().filter(|key| *key.target == *target);
        keys.map(|key| key.initiator.clone()).collect()
    }

    /// The places that sessions of one target have.
    pub(crate) fn connections_of(&self, target: &str) -> usize {
        let tables = self.tables();
        let own = tables.by_key.iter().filter(|(key, _)| *key.target == *target);
        own.map(|(_, residence)| Places::of(residence)).sum()
    }

    /// Sessions of one target.
    pub(crate) fn count(&self, target: &str) -> usize {
        self.tables().by_key.keys().filter(|key| *key.target == *target).count()
    }
}

/// A login that waits for the session before it.
#[derive(Debug)]
pub(crate) struct Wait<'a> {
    registry: &'a Registry,
    key: SessionKey,
    number: u64,
    pub(crate) turn: OneshotReceiver<Turn>,
}

impl Wait<'_> {
    /// Enters its session in the place that has become free.
    pub(crate) fn enter(self, residence: Residence, sharing: impl Fn() -> Sharing) -> Entry {
        let mut tables = self.registry.tables();
        match tables.in_the_way(&self.key, sharing()) {
            None => {}
            Some(InTheWay::Other(other)) => return Entry::InUse(other),
            Some(InTheWay::NotNow) => return Entry::NotNow,
        }
        let newest = tables.waiting.get(&self.key).is_some_and(|own| own.number == self.number);
        let taken =
            tables.by_key.contains_key(&self.key) || tables.by_tsih.contains_key(&residence.tsih);
        if !newest || taken {
            return Entry::Replaced;
        }
        // The place that was kept for it.
        drop(tables.unwait(&self.key));
        tables.enter(&self.key, residence);
        tables.check();
        Entry::Entered
    }
}

impl Drop for Wait<'_> {
    fn drop(&mut self) {
        let mut tables = self.registry.tables();
        if tables.waiting.get(&self.key).is_some_and(|own| own.number == self.number) {
            drop(tables.unwait(&self.key));
            tables.check();
        }
    }
}

#[cfg(test)]
mod tests;

//! Who is logged in where: shared by all cores, touched at login and at the end of a session only.

use std::collections::{BTreeSet, HashMap};
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

#[derive(Debug, Default)]
struct Tables {
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
        self.by_tsih.insert(residence.tsih, key.clone());
        self.by_key.insert(key.clone(), residence);
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
        let before = tables.waiting.remove(key);
        let claim = if let Some(old) = tables.by_key.get(key).cloned() {
            let (tell, turn) = ring::oneshot();
            tables.last_waiting += 1;
            let number = tables.last_waiting;
            let waiting = Waiting { number, user: residence.user, told: Some(tell) };
            tables.waiting.insert(key.clone(), waiting);
            Claim::Waits(Wait { registry: self, key: key.clone(), number, turn }, old)
        } else if tables.by_tsih.contains_key(&residence.tsih) {
            Claim::TsihTaken
        } else {
            tables.enter(key, residence);
            Claim::Entered
        };
        drop(tables);
        if let Some(tell) = before.and_then(|before| before.told) {
            tell.send(Turn::Replaced);
        }
        claim
    }

    /// Notes which connections a session has now.
    pub(crate) fn set_connections(&self, key: &SessionKey, tsih: u16, cids: Vec<u16>) {
        if let Some(residence) = self.tables().by_key.get_mut(key)
            && residence.tsih == tsih
        {
            residence.cids = cids;
        }
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
            tables.by_key.remove(key);
            tables.by_tsih.remove(&tsih);
            let next = tables.waiting.get_mut(key).and_then(|next| next.told.take());
            drop(tables);
            if let Some(tell) = next {
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
        tables.enter(&self.key, residence);
        Entry::Entered
    }
}

impl Drop for Wait<'_> {
    fn drop(&mut self) {
        let mut tables = self.registry.tables();
        if tables.waiting.get(&self.key).is_some_and(|own| own.number == self.number) {
            tables.waiting.remove(&self.key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(name: &str) -> SessionKey {
        SessionKey { target: "t".into(), initiator: name.into(), isid: [0; 6] }
    }

    #[test]
    fn a_key_and_a_tsih_belong_to_one_session() {
        let registry = Registry::default();
        let residence = |core: u16| Residence {
            tsih: registry.new_tsih().unwrap(),
            core: CoreId::from(core),
            params: SessionParams::default(),
            cids: vec![0],
            user: None,
            is_ending: false,
        };
        let (first, second) = (residence(0), residence(1));
        assert_ne!(first.tsih, second.tsih);
        assert!(matches!(
            registry.claim(&key("a"), first.clone(), || Sharing::Several),
            Claim::Entered
        ));
        let taken = registry.claim(&key("a"), second.clone(), || Sharing::Several);
        assert!(matches!(taken, Claim::Waits(_, ref old) if *old == first), "the key is taken");
        drop(taken);
        let taken = registry.claim(&key("b"), first.clone(), || Sharing::Several);
        assert!(matches!(taken, Claim::TsihTaken));
        let elsewhere = SessionKey { target: "u".into(), ..key("a") };
        let entered = registry.claim(&elsewhere, second.clone(), || Sharing::Several);
        assert!(matches!(entered, Claim::Entered), "another target, another session");
        assert_eq!((registry.len(), registry.count("t"), registry.count("v")), (2, 1, 0));
        let counts = registry.counts();
        assert_eq!((counts.len(), counts.get("t"), counts.get("u")), (2, Some(&1), Some(&1)));
        registry.remove(&elsewhere, second.tsih);
        registry.set_connections(&key("a"), second.tsih, vec![7]);
        registry.remove(&key("a"), second.tsih);
        assert_eq!(
            registry.find(&key("a")),
            Some(first.clone()),
            "only its own session removes it"
        );
        registry.remove(&key("a"), first.tsih);
        assert_eq!(registry.find(&key("a")), None);
        assert_eq!(registry.len(), 0);
    }

    fn waits(claim: Claim<'_>) -> Wait<'_> {
        let Claim::Waits(wait, _) = claim else { panic!("the place is free: {claim:?}") };
        wait
    }

    /// What it was told, if anything.
    fn told(wait: &mut Wait<'_>) -> Option<Turn> {
        use futures_util::FutureExt;
        (&mut wait.turn).now_or_never().flatten()
    }

    #[test]
    fn the_newest_login_has_the_place_also_when_it_found_it_free() {
        let registry = Registry::default();
        let residence = |tsih| Residence {
            tsih,
            core: CoreId::from(0),
            params: SessionParams::default(),
            cids: vec![0],
            user: None,
            is_ending: false,
        };
        assert!(matches!(
            registry.claim(&key("a"), residence(1), || Sharing::Several),
            Claim::Entered
        ));
        let mut second = waits(registry.claim(&key("a"), residence(2), || Sharing::Several));
        let mut third = waits(registry.claim(&key("a"), residence(3), || Sharing::Several));
        assert_eq!((told(&mut second), told(&mut third)), (Some(Turn::Replaced), None));
        drop(second);
        registry.remove(&key("a"), 1);
        assert_eq!(told(&mut third), Some(Turn::Free));
        // Before the third gets to it a fourth has come.
        assert!(matches!(
            registry.claim(&key("a"), residence(4), || Sharing::Several),
            Claim::Entered
        ));
        assert_eq!(third.enter(residence(3), || Sharing::Several), Entry::Replaced);
        assert_eq!(registry.find(&key("a")), Some(residence(4)));
        let mut fifth = waits(registry.claim(&key("a"), residence(5), || Sharing::Several));
        registry.remove(&key("a"), 4);
        assert_eq!(told(&mut fifth), Some(Turn::Free));
        assert_eq!(fifth.enter(residence(5), || Sharing::Several), Entry::Entered);
        assert!(registry.tables().waiting.is_empty());
    }

    #[test]
    fn a_place_is_of_one_user_until_its_session_ends() {
        let registry = Registry::default();
        let claim = |tsih, user: Option<&str>| {
            let residence = Residence {
                tsih,
                core: CoreId::from(0),
                params: SessionParams::default(),
                cids: vec![0],
                user: user.map(Arc::from),
                is_ending: false,
            };
            registry.claim(&key("a"), residence, || Sharing::Several)
        };
        assert!(matches!(claim(1, Some("bob")), Claim::Entered));
        assert!(matches!(claim(2, Some("eve")), Claim::OtherUser));
        assert!(matches!(claim(2, None), Claim::OtherUser));
        let again = waits(claim(2, Some("bob")));
        // Nor does anybody take the place of a login that waits, though the session ends by now.
        registry.set_ending(&key("a"), 2);
        assert!(!registry.find(&key("a")).unwrap().is_ending, "that is another session");
        registry.set_ending(&key("a"), 1);
        assert!(matches!(claim(3, Some("eve")), Claim::OtherUser));
        drop(again);
        let mut next = waits(claim(3, Some("eve")));
        assert!(matches!(claim(4, Some("bob")), Claim::OtherUser));
        registry.remove(&key("a"), 1);
        assert_eq!(told(&mut next), Some(Turn::Free));
        assert!(matches!(claim(5, None), Claim::OtherUser), "it has been told, and comes");
        drop(next);
        assert!(matches!(claim(5, None), Claim::Entered));
    }

    #[test]
    fn a_target_that_is_not_shared_has_one_host_at_a_time() {
        let registry = Registry::default();
        let residence = |tsih| Residence {
            tsih,
            core: CoreId::from(0),
            params: SessionParams::default(),
            cids: vec![0],
            user: None,
            is_ending: false,
        };
        let claim = |key: &SessionKey, tsih| registry.claim(key, residence(tsih), || Sharing::One);
        let port = |name: &str, isid| SessionKey { isid, ..key(name) };
        assert!(matches!(claim(&key("a"), 1), Claim::Entered));
        assert!(matches!(claim(&port("a", [1; 6]), 2), Claim::Entered), "a path of the same host");
        assert!(matches!(claim(&key("b"), 3), Claim::InUse(name) if &*name == "a"));
        let elsewhere = SessionKey { target: "u".into(), ..key("b") };
        assert!(matches!(claim(&elsewhere, 3), Claim::Entered), "another target");
        // While the first one comes back, its place is kept.
        registry.remove(&port("a", [1; 6]), 2);
        let mut again = waits(claim(&key("a"), 4));
        registry.remove(&key("a"), 1);
        assert_eq!(told(&mut again), Some(Turn::Free));
        assert!(matches!(claim(&key("b"), 5), Claim::InUse(_)));
        assert_eq!(again.enter(residence(4), || Sharing::One), Entry::Entered);
        registry.remove(&key("a"), 4);
        assert!(matches!(claim(&key("b"), 6), Claim::Entered), "nobody is there any more");
        // One that was shared and is not any more lets none of its hosts come back beside others.
        assert!(matches!(
            registry.claim(&key("c"), residence(7), || Sharing::Several),
            Claim::Entered
        ));
        let late = waits(registry.claim(&key("c"), residence(8), || Sharing::Several));
        registry.remove(&key("c"), 7);
        assert_eq!(late.enter(residence(8), || Sharing::One), Entry::InUse("b".into()));
        // While it is decided those that are there come back, and no others come.
        let no_more = || Sharing::NoMore;
        assert!(matches!(
            registry.claim(&port("b", [1; 6]), residence(8), no_more),
            Claim::Entered
        ));
        assert!(matches!(registry.claim(&key("c"), residence(9), no_more), Claim::NotNow));
        assert_eq!(registry.hosts("t").len(), 1);
        assert!(matches!(
            registry.claim(&key("c"), residence(9), || Sharing::Several),
            Claim::Entered
        ));
        let late = waits(registry.claim(&key("c"), residence(10), no_more));
        registry.remove(&key("c"), 9);
        assert_eq!(late.enter(residence(10), no_more), Entry::NotNow, "it is not seen there");
    }
}

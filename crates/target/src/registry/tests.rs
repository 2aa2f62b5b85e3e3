//! Who has which place, and who waits for it.

use std::net::Ipv4Addr;

use super::*;

const PEER: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1));
const OTHER_PEER: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 2));

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
        peer: PEER,
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
    assert_eq!(registry.find(&key("a")), Some(first.clone()), "only its own session removes it");
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
        peer: PEER,
        user: None,
        is_ending: false,
    };
    assert!(matches!(registry.claim(&key("a"), residence(1), || Sharing::Several), Claim::Entered));
    let mut second = waits(registry.claim(&key("a"), residence(2), || Sharing::Several));
    let mut third = waits(registry.claim(&key("a"), residence(3), || Sharing::Several));
    assert_eq!((told(&mut second), told(&mut third)), (Some(Turn::Replaced), None));
    drop(second);
    registry.remove(&key("a"), 1);
    assert_eq!(told(&mut third), Some(Turn::Free));
    // Before the third gets to it a fourth has come.
    assert!(matches!(registry.claim(&key("a"), residence(4), || Sharing::Several), Claim::Entered));
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
            peer: PEER,
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
        peer: PEER,
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
    assert!(matches!(registry.claim(&key("c"), residence(7), || Sharing::Several), Claim::Entered));
    let late = waits(registry.claim(&key("c"), residence(8), || Sharing::Several));
    registry.remove(&key("c"), 7);
    assert_eq!(late.enter(residence(8), || Sharing::One), Entry::InUse("b".into()));
    // While it is decided those that are there come back, and no others come.
    let no_more = || Sharing::NoMore;
    assert!(matches!(registry.claim(&port("b", [1; 6]), residence(8), no_more), Claim::Entered));
    assert!(matches!(registry.claim(&key("c"), residence(9), no_more), Claim::NotNow));
    assert_eq!(registry.hosts("t").len(), 1);
    assert!(matches!(registry.claim(&key("c"), residence(9), || Sharing::Several), Claim::Entered));
    let late = waits(registry.claim(&key("c"), residence(10), no_more));
    registry.remove(&key("c"), 9);
    assert_eq!(late.enter(residence(10), no_more), Entry::NotNow, "it is not seen there");
}

fn residence_of(registry: &Registry, cids: &[u16]) -> Residence {
    Residence {
        tsih: registry.new_tsih().expect("few are taken"),
        core: CoreId::from(0),
        params: SessionParams::default(),
        cids: cids.to_vec(),
        peer: PEER,
        user: None,
        is_ending: false,
    }
}

fn several() -> Sharing {
    Sharing::Several
}

#[test]
fn hosts_have_as_many_connections_as_they_may_and_come_back_to_those() {
    let registry = Registry::default();
    registry.set_connections_max(3);
    let (a, b) = (residence_of(&registry, &[0]), residence_of(&registry, &[0]));
    for (name, residence) in [("a", &a), ("b", &b)] {
        let claim = registry.claim(&key(name), residence.clone(), several);
        assert!(matches!(claim, Claim::Entered), "{claim:?}");
    }
    assert_eq!(registry.add_connection(&key("a"), (a.tsih, 1), false), Ok(()), "the third");
    assert_eq!(registry.add_connection(&key("a"), (a.tsih, 2), false), Err(Full::All));
    assert_eq!(registry.add_connection(&key("a"), (a.tsih, 1), false), Ok(()), "it is there");
    let new = || residence_of(&registry, &[0]);
    assert!(matches!(registry.claim(&key("c"), new(), several), Claim::Full(Full::All)));
    assert_eq!((registry.connections(), registry.len()), (3, 2));
    assert_eq!((registry.connections_of("t"), registry.connections_of("u")), (3, 0));

    // A session that comes in the place of another takes one of those that had, and keeps it while it waits.
    let mut again = waits(registry.claim(&key("a"), new(), several));
    registry.remove(&key("a"), a.tsih);
    assert_eq!(told(&mut again), Some(Turn::Free));
    assert_eq!(registry.connections(), 2, "b, and the place that is kept");
    assert!(matches!(registry.claim(&key("c"), new(), several), Claim::Entered));
    assert!(
        matches!(registry.claim(&key("d"), new(), several), Claim::Full(Full::All)),
        "it is kept"
    );
    let a = new();
    assert_eq!(again.enter(a.clone(), several), Entry::Entered);
    assert_eq!(registry.connections(), 3);

    // Nor is a place lost with a login that waits no more.
    let mut gone = waits(registry.claim(&key("a"), new(), several));
    registry.remove(&key("a"), a.tsih);
    assert_eq!(told(&mut gone), Some(Turn::Free));
    assert!(matches!(registry.claim(&key("d"), new(), several), Claim::Full(Full::All)));
    drop(gone);
    assert!(matches!(registry.claim(&key("d"), new(), several), Claim::Entered));

    // Who is there stays when there may be fewer, and one goes before another comes.
    registry.set_connections_max(2);
    assert_eq!(registry.connections(), 3);
    registry.remove(&key("b"), b.tsih);
    assert!(matches!(registry.claim(&key("e"), new(), several), Claim::Full(Full::All)));
    registry.set_connections_max(3);
    assert!(matches!(registry.claim(&key("e"), new(), several), Claim::Entered));
}

#[test]
fn no_address_has_more_than_one_may_have_whatever_it_calls_itself() {
    let registry = Registry::default();
    registry.set_connections_max(10);
    registry.set_connections_of_one_max(2);
    let claim = |name: &str, peer| {
        registry.claim(&key(name), Residence { peer, ..residence_of(&registry, &[0]) }, several)
    };
    assert!(matches!(claim("a", PEER), Claim::Entered));
    assert!(matches!(claim("b", PEER), Claim::Entered));
    assert!(matches!(claim("c", PEER), Claim::Full(Full::OfOne)));
    assert!(matches!(claim("c", OTHER_PEER), Claim::Entered), "there is room for others");
    let tsih = registry.find(&key("a")).expect("it is there").tsih;
    let more = |cid| registry.add_connection(&key("a"), (tsih, cid), false);
    assert_eq!((more(1), more(0)), (Err(Full::OfOne), Ok(())), "nor in a session that it has");
    // It comes back to what it has, also when that has become more than it may have.
    registry.set_connections_of_one_max(1);
    let mut again = waits(claim("a", PEER));
    registry.remove(&key("a"), tsih);
    assert_eq!(told(&mut again), Some(Turn::Free));
    assert!(matches!(claim("d", PEER), Claim::Full(Full::OfOne)), "it is kept");
    drop(again);
    assert!(matches!(claim("d", PEER), Claim::Full(Full::OfOne)), "b is there");
    let tsih = registry.find(&key("b")).expect("it is there").tsih;
    registry.remove(&key("b"), tsih);
    assert!(matches!(claim("d", PEER), Claim::Entered));
}

#[test]
fn a_session_without_a_connection_has_its_place_until_it_has_ended() {
    let registry = Registry::default();
    registry.set_connections_max(1);
    let a = residence_of(&registry, &[0]);
    assert!(matches!(registry.claim(&key("a"), a.clone(), several), Claim::Entered));
    registry.set_connections(&key("a"), a.tsih, Vec::new());
    assert_eq!(registry.connections(), 1);
    let b = || residence_of(&registry, &[0]);
    assert!(matches!(registry.claim(&key("b"), b(), several), Claim::Full(Full::All)));
    assert_eq!(
        registry.add_connection(&key("a"), (a.tsih, 4), false),
        Ok(()),
        "it is the session's"
    );
    registry.remove(&key("a"), a.tsih);
    assert_eq!(registry.connections(), 0);
    assert_eq!(
        registry.add_connection(&key("a"), (a.tsih, 5), false),
        Ok(()),
        "nothing is taken of it"
    );
    assert!(matches!(registry.claim(&key("b"), b(), several), Claim::Entered));
    // One more that comes in the place of a connection that has just left, of which another took the place.
    let tsih = registry.find(&key("b")).expect("it is there").tsih;
    assert_eq!(registry.add_connection(&key("b"), (tsih, 1), false), Err(Full::All));
    assert_eq!(registry.add_connection(&key("b"), (tsih, 1), true), Ok(()));
    assert_eq!(registry.connections(), 2);
}

proptest::proptest! {
    /// Whoever comes, comes back, waits, gives up and goes: no more are let in than there may be, and when all have gone
    /// nothing is taken.
    #[test]
    fn places_are_those_of_sessions(
        steps in proptest::collection::vec((0u8..6, 0usize..5), 1..200),
        max in 1usize..6,
        of_one_max in 1usize..6,
    ) {
        let registry = Registry::default();
        registry.set_connections_max(max);
        registry.set_connections_of_one_max(of_one_max);
        // Two of them are behind one address each, and the fifth has its own.
        let of = |host: usize| {
            let peer = IpAddr::V4(Ipv4Addr::new(192, 0, 2, (host / 2) as u8));
            Residence { peer, ..residence_of(&registry, &[0]) }
        };
        let mut waiting: Vec<(SessionKey, Wait<'_>)> = Vec::new();
        for (step, host) in steps {
            let key = key(&format!("h{host}"));
            let there = registry.find(&key);
            match (step, there) {
                (0 | 1, _) => {
                    let claim = registry.claim(&key, of(host), several);
                    if let Claim::Waits(wait, _) = claim {
                        waiting.push((key, wait));
                    }
                }
                (2, Some(there)) => {
                    let cid = there.cids.len() as u16 + 1;
                    let _full = registry.add_connection(&key, (there.tsih, cid), false);
                }
                (3, Some(there)) => {
                    let left = there.cids.split_last().map_or(&[][..], |(_, left)| left).to_vec();
                    registry.set_connections(&key, there.tsih, left);
                }
                (4, Some(there)) => registry.remove(&key, there.tsih),
                (5, None) => {
                    if let Some(at) = waiting.iter().position(|(of, _)| *of == key) {
                        drop(waiting.remove(at).1.enter(of(host), several));
                    }
                }
                _ => {
                    waiting.retain(|(of, _)| *of != key);
                }
            }
            registry.tables().check();
            proptest::prop_assert!(registry.connections() <= max);
            let of_peers = registry.tables().places.of_peers.clone();
            proptest::prop_assert!(of_peers.values().all(|own| *own <= of_one_max));
        }
        drop(waiting);
        for host in 0..5 {
            let key = key(&format!("h{host}"));
            registry.find(&key).iter().for_each(|there| registry.remove(&key, there.tsih));
        }
        proptest::prop_assert_eq!(registry.connections(), 0);
        proptest::prop_assert!(registry.tables().places.of_peers.is_empty());
    }
}

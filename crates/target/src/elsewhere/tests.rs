//! Which portal a host is sent to, and how often.

use super::*;

const NAME: &str = "iqn.2026-11.dev.drystone:vm";

fn address(text: &str) -> SocketAddr {
    text.parse().unwrap()
}

fn addresses(texts: &[&str]) -> Vec<SocketAddr> {
    texts.iter().map(|text| address(text)).collect()
}

fn to(text: &str) -> Option<Way> {
    Some(Way::To(address(text)))
}

/// What others serve: this one name, there.
fn known(name: &str, portals: &[&str]) -> ServedElsewhere {
    let elsewhere = ServedElsewhere::default();
    let portals = addresses(portals).into();
    let remote = RemoteTarget { portals, portal_group: 0, shown_to: None };
    elsewhere.set(BTreeMap::from([(name.to_owned(), remote)]));
    elsewhere
}

fn ends(peer: &str, local: &str) -> Ends {
    Ends { peer: address(peer), local: address(local) }
}

#[test]
fn the_best_portal_is_on_the_network_where_the_host_arrived() {
    let mixed =
        ["[2001:db8:0:1::7]:3260", "10.0.1.7:3260", "10.0.2.7:3261", "[2001:db8:0:2::7]:3262"];
    let mixed = addresses(&mixed);
    for (at, expected) in [
        ("10.0.2.1", "10.0.2.7:3261"),
        ("10.0.1.200", "10.0.1.7:3260"),
        ("192.0.2.1", "10.0.1.7:3260"),
        // So an IPv4 address looks where a portal listens for both families.
        ("::ffff:10.0.2.1", "10.0.2.7:3261"),
        ("2001:db8:0:2::1", "[2001:db8:0:2::7]:3262"),
        // The networks of a site begin alike, however large each is.
        ("10.0.3.1", "10.0.2.7:3261"),
        ("2001:db8:0:3::1", "[2001:db8:0:2::7]:3262"),
        ("2001:db8:0:f::1", "[2001:db8:0:1::7]:3260"),
    ] {
        let best = best(&mixed, at.parse().unwrap(), &[]);
        assert_eq!(best, Some(address(expected)), "{at}");
    }
    // One of the other family is better than none.
    let only = addresses(&["10.0.1.7:3260"]);
    assert_eq!(best(&only, "2001:db8::1".parse().unwrap(), &[]), Some(only[0]));
}

#[test]
fn nobody_is_sent_back_or_to_where_nobody_can_be() {
    let portals = addresses(&["10.0.2.1:3260", "0.0.0.0:3260", "[::]:3260", "10.0.2.9:0"]);
    let at = "10.0.2.1".parse().unwrap();
    assert_eq!(best(&portals, at, &portals[..1]), None);
    assert_eq!(best(&portals, at, &[]), Some(portals[0]));
    // Another port is another server.
    assert_eq!(best(&portals, at, &addresses(&["10.0.2.1:3261"])), Some(portals[0]));
    let mapped = addresses(&["[::ffff:10.0.2.1]:3260"]);
    assert_eq!(best(&mapped, at, &[]), Some(portals[0]), "as the host can read it");
    assert_eq!(best(&mapped, at, &portals[..1]), None);
}

/// Each of those is another server, or none, where the host is.
#[test]
fn nobody_is_sent_to_an_address_that_means_another_place_there() {
    let texts = ["127.0.0.1:1", "[::1]:1", "169.254.1.7:1", "[fe80::7]:1", "224.0.0.7:1"];
    let portals = [addresses(&texts), addresses(&["[ff02::7]:1"])].concat();
    for at in ["10.0.2.1", "169.254.1.1", "224.0.0.7", "2001:db8::1", "fe80::1"] {
        assert_eq!(best(&portals, at.parse().unwrap(), &[]), None, "{at}");
    }
    let good = [portals, addresses(&["10.0.1.7:3260"])].concat();
    assert_eq!(best(&good, "169.254.1.1".parse().unwrap(), &[]), Some(good[6]));
    // A host on this machine reaches others on it.
    assert_eq!(best(&good, "127.0.0.9".parse().unwrap(), &[]), Some(good[0]));
    assert_eq!(best(&good, "::1".parse().unwrap(), &[]), Some(good[1]));
}

#[test]
fn names_are_compared_as_iscsi_names_are() {
    let elsewhere = known("IQN.2026-11.dev.Drystone:VM", &["10.0.1.7:3260"]);
    let (host, now) = (ends("10.0.1.99:40000", "10.0.1.1:3260"), Instant::now());
    assert_eq!(elsewhere.way(NAME, host, &[], now), to("10.0.1.7:3260"));
    assert_eq!(elsewhere.way("iqn.2026-11.dev.drystone:v", host, &[], now), None);
    let portals = addresses(&["10.0.1.7:1"]).into();
    let remote = RemoteTarget { portals, portal_group: 1, shown_to: None };
    elsewhere.set(BTreeMap::from([("no name".to_owned(), remote)]));
    assert_eq!(elsewhere.way(NAME, host, &[], now), None, "what is not named any more is gone");
    assert_eq!(elsewhere.way("no name", host, &[], now), None);
}

#[test]
fn a_target_of_one_that_cannot_be_reached_is_to_be_asked_for_again() {
    let (host, now) = (ends("10.0.1.99:40000", "10.0.1.1:3260"), Instant::now());
    assert_eq!(known(NAME, &[]).way(NAME, host, &[], now), Some(Way::Later));
    let own = addresses(&["10.0.1.1:3260"]);
    assert_eq!(known(NAME, &["10.0.1.1:3260"]).way(NAME, host, &own, now), Some(Way::Later));
}

#[test]
fn who_comes_back_again_and_again_is_asked_to_wait() {
    let elsewhere = known(NAME, &["10.0.1.7:3260"]);
    let begin = Instant::now();
    // Its port is another with each connection.
    let go = |host: &str, port: u32, after: Duration| {
        let host = ends(&format!("{host}:{}", 1024 + port), "10.0.1.1:3260");
        elsewhere.way(NAME, host, &[], begin + after)
    };
    let moment = Duration::from_millis(1);
    for turn in 0..SENDS_MAX {
        assert_eq!(go("10.0.1.99", turn, turn * moment), to("10.0.1.7:3260"), "{turn}");
    }
    assert_eq!(go("10.0.1.99", 99, 50 * moment), Some(Way::Later));
    assert_eq!(go("[::ffff:10.0.1.99]", 99, 50 * moment), Some(Way::Later), "it is the same");
    assert_eq!(go("10.0.1.98", 99, 50 * moment), to("10.0.1.7:3260"), "another host is not");
    assert_eq!(go("10.0.1.99", 99, SENDS_TIME - moment), Some(Way::Later));
    assert_eq!(go("10.0.1.99", 99, SENDS_TIME), to("10.0.1.7:3260"), "it has waited");
}

#[test]
fn a_flood_of_hosts_takes_no_more_memory_than_there_is_for_it() {
    let mut sends = Sends::default();
    let begin = Instant::now();
    let host = |number: u32| IpAddr::from(number.to_be_bytes());
    for number in 0..2 * PAIRS_MAX as u32 {
        assert!(sends.may_send(host(number), NAME, begin), "all are sent on");
    }
    assert_eq!(sends.counted.len(), PAIRS_MAX);
    // Who is counted is so still, and there is room again once the time of the others is over.
    for _ in 1..SENDS_MAX {
        assert!(sends.may_send(host(0), NAME, begin));
    }
    assert!(!sends.may_send(host(0), NAME, begin));
    assert!(sends.may_send(host(u32::MAX), NAME, begin + SENDS_TIME));
    assert_eq!(sends.counted.len(), 1);
}

/// With a full table each login of a flood would cost a look at all of it.
#[test]
fn a_flood_has_the_table_looked_through_once_a_second() {
    let mut sends = Sends::default();
    let begin = Instant::now();
    let host = |number: u32| IpAddr::from(number.to_be_bytes());
    for number in 0..PAIRS_MAX as u32 {
        assert!(sends.may_send(host(number), NAME, begin));
    }
    let moment = Duration::from_millis(1);
    assert!(sends.may_send(host(u32::MAX), NAME, begin + SENDS_TIME - moment));
    assert!(sends.may_send(host(u32::MAX), NAME, begin + SENDS_TIME));
    assert_eq!(sends.counted.len(), PAIRS_MAX, "it was looked through a moment ago");
    let later = begin + SENDS_TIME - moment + SWEEP_PAUSE;
    assert!(sends.may_send(host(u32::MAX), NAME, later));
    assert_eq!(sends.counted.len(), 1);
}

#[test]
fn the_addresses_of_one_network_are_those_of_one_host() {
    let mut sends = Sends::default();
    let begin = Instant::now();
    let host = |text: &str| text.parse::<IpAddr>().unwrap();
    for number in 0..SENDS_MAX {
        assert!(sends.may_send(host(&format!("2001:db8::{number:x}")), NAME, begin));
    }
    assert!(!sends.may_send(host("2001:db8::ffff:ffff:ffff:ffff"), NAME, begin));
    assert!(sends.may_send(host("2001:db8:0:1::1"), NAME, begin), "the next network");
    for number in 0..=SENDS_MAX {
        assert!(sends.may_send(host(&format!("10.0.0.{number}")), NAME, begin), "IPv4 is dear");
    }
}

//! Limits as they are written, and what is told of them.

use proptest::collection::vec;
use proptest::prelude::*;

use super::*;
use crate::ownership::Moment;

fn limit(number: u32) -> ConnectionLimit {
    number.try_into().expect("it is one")
}

#[test]
fn a_limit_is_a_number_that_a_group_can_bear() {
    for (text, number) in [("1", 1), ("1024", 1024), ("4194304", LIMIT_MAX)] {
        assert_eq!(text.parse(), Ok(limit(number)));
    }
    for wrong in ["0", "4194305", "", "-1", "+1", "1k", "99999999999"] {
        let said = wrong.parse::<ConnectionLimit>().unwrap_err().to_string();
        assert_eq!(
            said,
            format!("'{wrong}' is no limit on connections: write a number from 1 to 4194304")
        );
    }
}

#[test]
fn limits_lie_in_the_store_with_those_of_pools() {
    let mut limits = ConnectionLimits::usual();
    let number = |limit: Option<ConnectionLimit>| limit.map(ConnectionLimit::get);
    assert_eq!((number(limits.group), number(limits.of_pool("default"))), (Some(4096), Some(1024)));
    limits.pools.insert("fast".to_owned(), limit(9));
    let lies = limits.encode();
    assert_eq!(
        String::from_utf8_lossy(&lies),
        r#"{"version":1,"value":{"group":4096,"pool":1024,"pools":{"fast":9}}}"#
    );
    assert_eq!(ConnectionLimits::decode(&lies).unwrap(), limits);
    let none = br#"{"version":1,"value":{"group":0,"pool":1}}"#;
    assert!(ConnectionLimits::decode(none).is_err(), "nobody could log in");
    assert_eq!(
        (number(limits.of_pool("fast")), number(limits.of_pool("slow"))),
        (Some(9), Some(1024))
    );
    // No limit is no zero, and that of a pool counts without that of the group.
    limits = ConnectionLimits { pools: limits.pools, ..ConnectionLimits::default() };
    assert_eq!(ConnectionLimits::decode(&limits.encode()).unwrap(), limits);
    assert_eq!((number(limits.of_pool("fast")), limits.of_pool("slow")), (Some(9), None));
    let of = |pool: &str| Allowance::alone(&limits, pool);
    assert_eq!((of("fast").own_max(), of("slow").own_max()), (Some(9), None));
    assert_eq!(of("fast").bound(), Some((Bound::Pool("fast".to_owned()), 9)));
    assert_eq!(of("slow").bound(), None);
    assert_eq!((of("fast").of_one_max(), of("slow").of_one_max()), (Some(5), None));
    limits.group = Some(limit(1));
    assert_eq!(Allowance::alone(&limits, "fast").of_one_max(), Some(1), "one is not kept out");
    limits.group = Some(limit(8));
    assert_eq!(Allowance::alone(&limits, "fast").bound(), Some((Bound::Group, 8)));
    assert_eq!(Allowance::alone(&limits, "slow").bound(), Some((Bound::Group, 8)));
}

#[test]
fn most_of_a_limit_is_told_of_once_until_it_has_eased() {
    let mut crowding = Crowding::default();
    assert_eq!(crowding.look(0, Some(100)), None);
    let looks =
        [90, 91, 100, 100, 85, 95, 80, 79, 90, 91].map(|taken| crowding.look(taken, Some(100)));
    let (high, eased) = (Some(Turn::High), Some(Turn::Eased));
    assert_eq!(looks, [None, high, None, None, None, None, None, eased, None, high]);
    assert_eq!(crowding.look(91, Some(1000)), eased, "the limit is another one");
    assert_eq!(crowding.look(u64::MAX, Some(LIMIT_MAX)), high);
    assert_eq!(crowding.look(u64::from(u32::MAX), None), eased, "there is no limit any more");
    assert_eq!(crowding.look(u64::from(u32::MAX), None), None);
}

/// A member that is started while most is taken says when that is over, as the life before it has told of it.
#[test]
fn what_was_high_before_a_start_is_told_when_it_has_eased() {
    for first in [79, 80, 95] {
        let mut crowding = Crowding::default();
        assert_eq!(crowding.look(first, Some(100)), None, "{first}");
        assert_eq!(crowding.look(95, Some(100)).is_some(), first == 79, "{first}");
        assert_eq!(crowding.look(79, Some(100)), Some(Turn::Eased), "{first}");
    }
    let mut crowding = Crowding::default();
    assert_eq!(crowding.look(u64::from(u32::MAX), None), None);
    assert_eq!(crowding.look(95, Some(100)), Some(Turn::High), "now there is a limit");
}

fn refused(host: &str, count: u64) -> RefusedLogins {
    let from = Some("192.0.2.9:4000".parse().expect("an address"));
    RefusedLogins { host: host.to_owned(), target: "vm".to_owned(), from, is_of_one: false, count }
}

#[test]
fn a_host_is_named_once_in_a_minute_with_how_often_it_was_refused() {
    let mut refusals = Refusals::default();
    let at = |seconds: u64| Moment(seconds * 1000);
    assert_eq!(refusals.hear(vec![refused("a", 2)], at(0)), [refused("a", 2)]);
    assert_eq!(refusals.hear(vec![refused("a", 3), refused("b", 1)], at(1)), [refused("b", 1)]);
    assert_eq!(refusals.hear(vec![refused("a", 1)], at(59)), []);
    assert_eq!(refusals.hear(Vec::new(), at(60)), [refused("a", 4)]);
    assert_eq!(refusals.hear(vec![refused("a", 1)], at(61)), [], "that is another minute");
    assert_eq!(refusals.hear(Vec::new(), at(120)), [refused("a", 1)]);
    assert_eq!(refusals.hear(Vec::new(), at(180)), []);
    assert_eq!(refusals.hear(vec![refused("a", 1)], at(181)), [refused("a", 1)], "it was quiet");
}

proptest! {
    /// Whoever comes how often: each refusal is in what is told, and nobody is named twice within a minute.
    #[test]
    fn no_refusal_is_left_out(steps in vec((0u64..30, vec((0u16..700, 1u64..4), 0..300)), 1..12)) {
        let mut refusals = Refusals::default();
        let (mut now, mut all, mut said) = (0, 0, 0);
        let mut named: BTreeMap<String, u64> = BTreeMap::new();
        let quiet = std::iter::repeat_n((61, Vec::new()), 2);
        for (pause, hosts) in steps.into_iter().chain(quiet) {
            now += pause * 1000;
            let hosts = hosts.into_iter().map(|(host, count)| refused(&format!("h{host}"), count));
            let hosts: Vec<_> = hosts.collect();
            all += hosts.iter().map(|it| it.count).sum::<u64>();
            for told in refusals.hear(hosts, Moment(now)) {
                said += told.count;
                let before = named.insert(told.host, now);
                prop_assert!(before.is_none_or(|before| now >= before + 60_000));
            }
        }
        prop_assert_eq!(said, all);
    }
}

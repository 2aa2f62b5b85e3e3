//! A source that is removed while it hands over: one copy of the volume is served in the end.

use rustix::process::{Signal, kill_process};
use serde_json::Value;

use crate::busy::{Bed, VOLUME, roomy_sites};
use crate::common::member::Member;
use crate::host::Host;
use crate::load::verify;
use crate::settling::{hand_over_without_an_end, parts};
use crate::sites::{PATIENCE, Site, asked, await_alone, await_states, listed, remove, wait_for};

/// The source has gone for good while nobody had the volume: it is killed behind the freeze, and the store stands still
/// so that it is not known whether it was asked in time to give the volume away.
fn lose_the_source<'a>(members: Vec<Member<'a>>, sites: &'a [Site; 3]) -> (Member<'a>, Member<'a>) {
    let etcds = [1, 2].map(|number: usize| sites[number].etcds());
    hand_over_without_an_end(&members, sites);
    let [a, b, c] = <[Member<'a>; 3]>::try_from(members).ok().expect("three members");
    a.crash();
    for etcd in sites[0].etcds() {
        // It may have ended with its member.
        let _ = kill_process(etcd, Signal::KILL);
    }
    sites[0].await_no_etcd();
    for etcd in etcds.into_iter().flatten() {
        kill_process(etcd, Signal::CONT).expect("it is there");
    }
    await_states(&c, &[("a", "away"), ("b", "present"), ("c", "present")], PATIENCE);
    remove(&c, &["a"]);
    (b, c)
}

/// The group decides about the copy of the destination, whichever way; that of the source, which is in no group any more,
/// is the operator's to settle.
#[test]
fn a_source_that_is_removed_while_it_hands_over_leaves_one_copy_that_is_served() {
    let sites = roomy_sites();
    let bed = Bed::make(&sites);
    let Bed { members, mut now, .. } = bed;
    let iqn = members[0].iqn(VOLUME);
    let (b, c) = lose_the_source(members, &sites);
    // It is the destination's already, or nobody but an operator says whose it is: its source may be gone with its disks.
    let is_given = wait_for("the destination knows whose it is", PATIENCE, || {
        match asked(&b, &["volume", "transits", "--on", "b"])? {
            Value::Array(left) if left.is_empty() => Ok(true),
            Value::Array(left) if left[0]["state"] == "undecided" => Ok(false),
            left => Err(left.to_string()),
        }
    });
    let all = wait_for("both that are left list the same", PATIENCE, || {
        let (one, other) = (listed(&b)?, listed(&c)?);
        if one == other { Ok(one) } else { Err(format!("{one:?} and {other:?}")) }
    });
    assert_eq!(all.get(VOLUME).is_some_and(|whose| whose == "b"), is_given, "{all:?}");
    assert_eq!(all.len(), usize::from(is_given), "{all:?}");
    if !is_given {
        b.run(&["volume", "settle", VOLUME, "--discard", "--on", "b", "--yes"]);
        assert_eq!(asked(&b, &["volume", "transits"]), Ok(Value::Array(Vec::new())));
    }

    let a = sites[0].start();
    await_alone(&a);
    let left = a.json(&["volume", "transits"]);
    assert_eq!(parts(&left), [(None, Some("leaves"))], "{left}");
    assert_eq!(left[0]["state"], "undecided", "{left}");
    assert!(Host::log_in(a.portal(), &iqn, 1, &[0]).is_err(), "nobody has said that it counts");
    let (word, has, has_not) = match is_given {
        true => ("--discard", &b, &a),
        false => ("--keep", &a, &b),
    };
    a.run(&["volume", "settle", VOLUME, word, "--yes"]);
    assert_eq!(a.json(&["volume", "transits"]), Value::Array(Vec::new()));
    let mut host = Host::log_in(has.portal(), &iqn, 1, &[0]).expect("it is served");
    verify(&mut host, 0, &mut now).expect("all is there that was acknowledged");
    assert!(Host::log_in(has_not.portal(), &iqn, 1, &[0]).is_err(), "and there alone");
    let list = has_not.json(&["volume", "list"]);
    assert_eq!(list, Value::Array(Vec::new()), "nothing is left of the other copy");
}

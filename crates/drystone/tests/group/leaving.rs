//! Members that are removed, and the end of a group.

use crate::common::member::Member;
use crate::host::Host;
use crate::sites::{
    PATIENCE, await_all, await_alone, await_event, await_states, await_store, await_volume,
    group_of, join, make, remove, sites, states,
};

/// The number of a member, which no other one ever has.
fn number(member: &Member<'_>, name: &str) -> u64 {
    let list = member.json(&["member", "list"]);
    let all = list.as_array().expect("a list").iter();
    let mut named = all.filter(|one| one["name"] == name);
    named.next().expect("it is a member")["number"].as_u64().expect("a number")
}

#[test]
fn members_leave_with_their_volumes_and_the_last_one_ends_the_group() {
    let sites = sites();
    let [a, b, c] = group_of(&sites);
    make(&c, "c", "vm");
    let iqn = c.iqn("vm");
    await_volume(&a, "vm", "c", true);
    let unknown = a.refused(&["member", "remove", "nobody", "--yes"]);
    assert!(unknown.contains("no member 'nobody'"), "{unknown}");
    let asked = a.refused(&["member", "remove", "c"]);
    assert!(asked.contains("--yes"), "without the word nothing is removed: {asked}");

    // One that is there.
    remove(&a, &["c"]);
    await_alone(&c);
    await_event(&c, "member_removed");
    sites[2].await_no_etcd();
    for member in [&a, &b] {
        await_states(member, &[("a", "present"), ("b", "present")], PATIENCE);
        await_event(member, "member_left");
    }
    Host::log_in(c.portal(), &iqn, 1, &[0]).expect("hosts keep what they have there");
    // It may come again, as another one.
    join(&c, &sites[2], (&b, &sites[1]));
    for member in [&a, &c] {
        await_all(member);
    }
    assert_eq!([number(&a, "b"), number(&a, "c")], [2, 4]);
    await_store(&a, &["a", "b", "c"]);

    // One that seems to be gone for good, and is not.
    b.crash();
    await_states(&a, &[("a", "present"), ("b", "away"), ("c", "present")], PATIENCE);
    // Whatever the case of its letters, as everywhere.
    remove(&c, &["B"]);
    await_states(&a, &[("a", "present"), ("c", "present")], PATIENCE);
    let b = sites[1].start();
    await_alone(&b);
    sites[1].await_no_etcd();
    b.run(&["volume", "create", "vm-b", "16M"]);

    // The other way round: the first member of all is removed by a later one.
    let refused = c.refused(&["group", "delete", "--yes"]);
    assert!(refused.contains("1 member beside this one"), "{refused}");
    remove(&c, &["a"]);
    await_alone(&a);
    sites[0].await_no_etcd();
    await_states(&c, &[("c", "present")], PATIENCE);
    await_store(&c, &["c"]);
    let last = c.refused(&["member", "remove", "c", "--yes"]);
    assert!(last.contains("the last member"), "{last}");
    assert_eq!(states(&c).expect("it answers").len(), 1);
    c.run(&["group", "delete", "--yes"]);
    await_alone(&c);
    sites[2].await_no_etcd();
    assert!(!c.home.path("data/group").exists(), "nothing of it is left");
    Host::log_in(c.portal(), &iqn, 1, &[0]).expect("hosts have noticed nothing");
    for member in [a, b, c] {
        member.stop();
    }
}

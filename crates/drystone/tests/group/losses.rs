//! Members that are killed, one and all.

use std::time::{Duration, Instant};

use crate::common::member::Member;
use crate::host::Host;
use crate::sites::{
    PATIENCE, Site, asked, await_all, await_event, await_states, await_volume, group_name,
    group_of, make, sites, wait_for,
};

/// Within this time the others know of a member that is gone, also on a busy machine: its lease of ten seconds is over,
/// which who leads the store after another one counts from the beginning.
const NOTICED: Duration = Duration::from_secs(60);

/// Waits until these members say of all how they are, behind a crash, and prints how long that took.
#[track_caller]
fn await_noticed(members: &[&Member<'_>], wanted: &[(&str, &str)]) {
    let begun = Instant::now();
    for member in members {
        await_states(member, wanted, NOTICED);
    }
    eprintln!("noticed {:.1?} after a crash", begun.elapsed());
}

/// What a host hears that asks this member for a target.
fn heard(member: &Member<'_>, iqn: &str) -> Result<(), String> {
    Host::log_in(member.portal(), iqn, 1, &[0]).map(drop).map_err(|error| error.to_string())
}

#[test]
fn a_member_that_is_killed_is_away_until_it_is_started_again() {
    let sites = sites();
    let [a, b, c] = group_of(&sites);
    make(&c, "c", "vm");
    let iqn = c.iqn("vm");
    for member in [&a, &b] {
        await_volume(member, "vm", "c", true);
    }
    c.crash();
    await_noticed(&[&a, &b], &[("a", "present"), ("b", "present"), ("c", "away")]);
    for member in [&a, &b] {
        await_volume(member, "vm", "c", false);
        await_event(member, "member_away");
    }
    sites[2].await_no_etcd();
    // Its hosts pause and try again, as "no such target" would make them give up.
    wait_for("hosts are asked to wait", PATIENCE, || match heard(&a, &iqn) {
        Err(said) if said.contains("service unavailable") => Ok(()),
        other => Err(format!("{other:?}")),
    });
    let c = sites[2].start();
    for member in [&a, &b, &c] {
        await_all(member);
    }
    await_event(&a, "member_back");
    let way = format!("redirected to {}", c.portal());
    wait_for("hosts find it again", PATIENCE, || match heard(&a, &iqn) {
        Err(said) if said == way => Ok(()),
        other => Err(format!("{other:?} instead of {way}")),
    });

    // The first one is no more than the others: they go on without it.
    a.crash();
    await_noticed(&[&b], &[("a", "away"), ("b", "present"), ("c", "present")]);
    b.run(&["group", "rename", "san2"]);
    let a = sites[0].start();
    for member in [&a, &b, &c] {
        await_all(member);
    }
    assert_eq!(group_name(&a), "san2", "it has heard what was changed without it");
}

#[test]
fn a_group_whose_members_were_all_killed_is_there_when_they_are_started() {
    let sites = sites();
    let members = group_of(&sites);
    make(&members[2], "c", "vm");
    let iqn = members[2].iqn("vm");
    let id = members[0].json(&["group", "show"])["id"].clone();
    await_volume(&members[0], "vm", "c", true);
    for member in members {
        member.crash();
    }
    sites.iter().for_each(Site::await_no_etcd);

    // One of three: nobody can say anything of the group, and hosts have their volumes.
    let c = sites[2].start();
    heard(&c, &iqn).expect("it is served");
    wait_for("it says that the store does not answer", PATIENCE, || {
        let group = asked(&c, &["group", "show"])?;
        if group["store_fault"].is_string() { Ok(()) } else { Err(group.to_string()) }
    });
    await_event(&c, "store_unreachable");
    let (code, status, _) = c.home.ask(&["status"]);
    assert!(code == 1 && status.contains("san1"), "{status}");
    heard(&c, &iqn).expect("it is served all the while");

    let (a, b) = (sites[0].start(), sites[1].start());
    for member in [&a, &b, &c] {
        await_all(member);
    }
    for member in [&a, &b, &c] {
        let group = member.json(&["group", "show"]);
        assert_eq!((&group["id"], &group["name"]), (&id, &"san1".into()), "{group}");
        await_volume(member, "vm", "c", true);
    }
    await_event(&c, "store_reachable");
}

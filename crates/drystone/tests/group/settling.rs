//! A volume whose move no group decides about any more, and the operator who does: the store of the group is lost while
//! the volume is handed over.

use std::fs;

use rustix::process::{Signal, kill_process};
use serde_json::Value;

use crate::busy::{Bed, VOLUME, roomy_sites};
use crate::common::member::Member;
use crate::host::Host;
use crate::load::verify;
use crate::sites::{PATIENCE, Site, asked, await_alone, await_refused, wait_for};

/// Who has a part in a move, and which way the volume goes there.
pub(crate) fn parts(list: &Value) -> Vec<(Option<&str>, Option<&str>)> {
    let all = list.as_array().into_iter().flatten();
    all.map(|one| (one["member"].as_str(), one["way"].as_str())).collect()
}

/// Begins to move the volume from the first member to the second, and has the store stand still: it is prepared there,
/// and nobody gives its name away.
pub(crate) fn hand_over_without_an_end(members: &[Member<'_>], sites: &[Site; 3]) {
    let etcds: Vec<_> = sites.iter().flat_map(Site::etcds).collect();
    let line = ["volume", "move", VOLUME, "--to", "b", "--no-wait"];
    wait_for("it begins to move", PATIENCE, || asked(&members[0], &line));
    for etcd in etcds {
        kill_process(etcd, Signal::STOP).expect("it runs");
    }
    let wanted = [(Some("a"), Some("leaves")), (Some("b"), Some("arrives"))];
    wait_for("both have stored their part", PATIENCE, || {
        let list = asked(&members[0], &["volume", "transits"])?;
        if parts(&list) == wanted { Ok(()) } else { Err(list.to_string()) }
    });
}

/// Ends all members, and what they kept of their group is lost.
fn lose_the_store(members: Vec<Member<'_>>, sites: &[Site; 3]) {
    members.into_iter().for_each(Member::crash);
    for site in sites {
        for etcd in site.etcds() {
            // It may have ended with its member.
            let _ = kill_process(etcd, Signal::KILL);
        }
        site.await_no_etcd();
        let group = |name: &str| site.home.path("data").join(name);
        fs::rename(group("group"), group("group.lost")).expect("it was in one");
    }
}

/// The only part that a member in no group has, which an operator has to settle.
#[track_caller]
fn undecided(member: &Member<'_>, way: &str) {
    let list = member.json(&["volume", "transits"]);
    assert_eq!(parts(&list), [(None, Some(way))], "{list}");
    assert_eq!((&list[0]["volume"], &list[0]["state"]), (&VOLUME.into(), &"undecided".into()));
    let (code, status, _) = member.home.ask(&["status"]);
    assert!(code == 1 && status.contains("volume settle vm --keep'"), "{status}");
    // Whether a member would start on this machine is another matter.
    let (_, doctor, _) = member.home.ask(&["doctor"]);
    assert!(doctor.contains("volume settle vm --discard'"), "{doctor}");
}

/// It has nothing to do with any move.
#[track_caller]
fn is_settled(member: &Member<'_>) {
    assert_eq!(member.json(&["volume", "transits"]), Value::Array(Vec::new()));
    let said = member.refused(&["volume", "settle", VOLUME, "--keep", "--yes"]);
    assert!(said.starts_with("there is nothing to settle about a volume 'vm'"), "{said}");
}

#[test]
fn a_volume_that_no_group_decides_about_is_served_by_nobody_until_an_operator_has_said_where() {
    let sites = roomy_sites();
    let bed = Bed::make(&sites);
    let Bed { members, mut now, .. } = bed;
    let iqn = members[0].iqn(VOLUME);
    hand_over_without_an_end(&members, &sites);
    // The group may decide about it yet.
    let settle = ["volume", "settle", VOLUME, "--keep", "--yes"];
    await_refused(&members[0], &settle, &["say with --on MEMBER whose copy is meant"]);
    let on_a = [&settle[..], &["--on", "a"]].concat();
    await_refused(&members[0], &on_a, &["is under way"]);

    lose_the_store(members, &sites);
    let (a, b) = (sites[0].start(), sites[1].start());
    for (member, way) in [(&a, "leaves"), (&b, "arrives")] {
        await_alone(member);
        undecided(member, way);
        let refused = Host::log_in(member.portal(), &iqn, 1, &[0]);
        assert!(refused.is_err(), "nobody has said that it counts here");
    }
    assert_eq!(b.json(&["volume", "list"]), Value::Array(Vec::new()));

    let said = b.refused(&["volume", "settle", VOLUME, "--discard"]);
    assert!(said.contains("Delete this copy") && said.contains("--yes"), "{said}");
    undecided(&b, "arrives");
    b.run(&["volume", "settle", VOLUME, "--discard", "--yes"]);
    is_settled(&b);
    undecided(&a, "leaves");
    a.run(&settle);
    is_settled(&a);
    let mut host = Host::log_in(a.portal(), &iqn, 1, &[0]).expect("it is served");
    verify(&mut host, 0, &mut now).expect("all is there that was acknowledged");
    drop(host);

    // Both know it after a start as well.
    a.crash();
    b.crash();
    let (a, b) = (sites[0].start(), sites[1].start());
    is_settled(&a);
    is_settled(&b);
    assert_eq!(b.json(&["volume", "list"]), Value::Array(Vec::new()));
    Host::log_in(a.portal(), &iqn, 1, &[0]).expect("it is served");
}

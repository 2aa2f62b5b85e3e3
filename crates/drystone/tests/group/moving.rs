//! Volumes that move from one member to another while hosts use them.

use serde_json::Value;

use crate::busy::{Bed, NAMES, VOLUME, await_snapshots, log_in_by_way_of, roomy_sites};
use crate::common::member::Member;
use crate::host::Host;
use crate::sites::{
    PATIENCE, Site, asked, await_alone, await_event, await_states, group_of, listed, make, remove,
    run_slowly, sites, wait_for,
};

/// A name of a host that no list has.
const STRANGER: &str = "iqn.2026-11.com.example:stranger";

/// Waits until this member says whose the volume is.
#[track_caller]
pub(crate) fn await_whose(member: &Member<'_>, volume: &str, whose: &str) {
    wait_for(&format!("{volume} is of {whose}"), PATIENCE, || match listed(member)? {
        all if all.get(volume).is_some_and(|found| found == whose) => Ok(()),
        all => Err(format!("{all:?}")),
    });
}

#[test]
fn a_host_works_on_while_its_volume_moves_and_finds_the_same_disk() {
    let sites = roomy_sites();
    let mut bed = Bed::make(&sites);
    let Bed { members, busy, now, .. } = &mut bed;
    let (members, busy) = (&*members, &*busy);
    let before = busy.seen_at(&members[0]);
    busy.beside(now, || {
        // Each member is asked once that has nothing to do with it; at the end it is back where it was.
        for (from, to) in [(0, 1), (1, 2), (2, 0)] {
            let ended = busy.ended();
            let line = ["volume", "move", VOLUME, "--to", NAMES[to]];
            // What was left of it there goes by and by.
            let third = &members[3 - from - to];
            let said = wait_for("it moves", PATIENCE, || match third.home.ask(&line) {
                (0, out, _) => Ok(out),
                (_, _, said) => Err(said),
            });
            assert!(said.contains(NAMES[to]), "{said}");
            assert_eq!(busy.await_owner(members), to);
            assert!(busy.ended() > ended, "its sessions were ended");
            busy.await_work();
            assert_eq!(busy.seen_at(&members[to]), before);
            for member in [&members[from], &members[to]] {
                await_event(member, "volume_moved");
            }
        }
        wait_for("it moves on", PATIENCE, || {
            match members[1].home.ask(&["volume", "move", VOLUME]) {
                (0, ..) => Ok(()),
                (_, _, said) => {
                    assert!(!said.contains("there is no volume"), "{said}");
                    Err(said)
                }
            }
        });
        assert_ne!(busy.await_owner(members), 0, "it goes to another one");
        busy.await_work();
    });
    let iqn = bed.members[0].iqn(VOLUME);
    for member in &bed.members {
        let stranger = Host::log_in_as(member.portal(), &iqn, 9, &[], (STRANGER, None));
        let said = stranger.map(drop).expect_err("it is on no list").to_string();
        assert!(!said.is_empty());
    }
    bed.check();
}

#[test]
fn a_volume_that_is_offline_and_empty_moves_too_and_stays_offline() {
    let sites = sites();
    let [a, b, c] = group_of(&sites);
    make(&a, "a", VOLUME);
    let iqn = a.iqn(VOLUME);
    a.run(&["volume", "offline", VOLUME, "--yes"]);
    run_slowly(&b, &["volume", "move", VOLUME, "--to", "c"]);
    await_whose(&a, VOLUME, "c");
    let shown = c.json(&["volume", "show", VOLUME]);
    assert_eq!(shown["state"], "offline", "{shown}");
    assert_eq!(shown["iqn"], iqn.as_str(), "{shown}");
    assert!(Host::log_in(c.portal(), &iqn, 1, &[]).is_err());
    a.run(&["volume", "online", VOLUME]);
    wait_for("any member sends hosts there", PATIENCE, || {
        match log_in_by_way_of(a.portal(), &iqn, 1) {
            Some(_) => Ok(()),
            None => Err("not yet".to_owned()),
        }
    });
    // It is known by its name also after a start.
    c.crash();
    sites[2].await_no_etcd();
    let c = sites[2].start();
    assert_eq!(c.iqn(VOLUME), iqn);
    Host::log_in(c.portal(), &iqn, 1, &[0]).expect("it is served");
}

#[test]
fn a_move_that_is_cancelled_leaves_the_volume_and_its_hosts_where_they_are() {
    let sites = roomy_sites();
    let mut bed = Bed::make(&sites);
    let Bed { members, busy, now, .. } = &mut bed;
    let (members, busy) = (&*members, &*busy);
    let (a, c) = (&members[0], &members[2]);
    busy.beside(now, || {
        let begun = c.json(&["volume", "move", VOLUME, "--to", "b", "--no-wait"]);
        let id = begun["id"].as_str().expect("a run has a name");
        let ended = c.json(&["run", "cancel", id, "--on", "a"]);
        assert_eq!(ended["state"], "cancelled", "{ended}");
        assert_eq!((&begun["kind"], &begun["volume"]), (&"move".into(), &VOLUME.into()), "{begun}");
        assert_eq!(busy.await_owner(members), 0);
        busy.await_work();
        assert_eq!(busy.ended(), 0, "no host has noticed");
        await_snapshots(a, &["s1"]);
        await_event(a, "volume_move_given_up");
        // Nothing of it is in the way of another one.
        run_slowly(a, &["volume", "move", VOLUME, "--to", "b"]);
        assert_eq!(busy.await_owner(members), 1);
        busy.await_work();
    });
    bed.check();
}

#[test]
fn what_cannot_move_is_refused_before_anything_has_changed() {
    let sites = [("a", "512M"), ("b", "96M"), ("c", "512M")];
    let mut number = 0;
    let sites = sites.map(|(name, size)| {
        number += 1;
        Site::with_disks(name, number, size)
    });
    let [a, b, c] = group_of(&sites);
    for volume in ["vm", "deleted", "scheduled", "shown"] {
        make(&a, "a", volume);
    }
    a.run(&["volume", "create", "big", "300M", "--thick", "--raid", "raid0", "--on", "a"]);
    a.run(&["volume", "offline", "deleted", "--yes"]);
    a.run(&["volume", "delete", "deleted", "--yes"]);
    let daily = ["--daily", "03:00", "--keep", "3"];
    let nightly = ["schedule", "create", "nightly", "--volume", "scheduled"];
    a.run(&[&nightly[..], &daily].concat());
    a.run(&["snapshot", "create", "shown", "s1"]);
    a.run(&["snapshot", "online", "shown", "s1"]);
    let refused = |volume: &str, more: &[&str], wanted: &[&str]| {
        let said = b.refused(&[&["volume", "move", volume][..], more].concat());
        for part in wanted {
            assert!(said.contains(part), "{volume} {more:?}: {said}");
        }
    };
    refused("nothing", &["--to", "c"], &["'nothing'"]);
    refused("vm", &["--to", "nobody"], &["no member 'nobody'"]);
    refused("vm", &["--to", "a"], &["'vm' is on that member already"]);
    refused("vm", &["--pool", "fast"], &["no pool 'fast'"]);
    refused("deleted", &["--to", "c"], &["'deleted'", "recycle bin"]);
    refused("scheduled", &["--to", "c"], &["'nightly'", "out of the schedule"]);
    refused("shown", &["--to", "c"], &["'s1'"]);
    refused("big", &["--to", "b"], &["room"]);
    c.crash();
    await_states(&a, &[("a", "present"), ("b", "present"), ("c", "away")], PATIENCE);
    refused("vm", &["--to", "c"], &["'c'", "away"]);
    let all = listed(&b).expect("it answers");
    assert!(all.values().all(|whose| whose == "a") && all.len() == 5, "{all:?}");
    for member in [&a, &b] {
        let runs = member.json(&["run", "list"]);
        assert_eq!(runs, Value::Array(Vec::new()), "what was refused is no run");
    }
    for volume in ["vm", "scheduled", "shown", "big"] {
        Host::log_in(a.portal(), &a.iqn(volume), 1, &[0]).expect("it is served as before");
    }
}

#[test]
fn a_member_in_no_group_moves_nothing() {
    let site = Site::new("a", 1);
    let a = site.start();
    a.run(&["volume", "create", "vm", "16M"]);
    for line in [&["volume", "move", "vm"][..], &["volume", "move", "vm", "--to", "b"]] {
        let said = a.refused(line);
        assert!(said.contains("group") && said.contains("in none"), "{said}");
    }
    Host::log_in(a.portal(), &a.iqn("vm"), 1, &[0]).expect("it is served");
}

/// What became of the volumes of a member that was vacated, by their names: whose they are now, or why they stayed.
fn vacated(text: &str) -> Vec<(String, Option<String>, Option<String>)> {
    let list: Vec<Value> = serde_json::from_str(text).expect("a list");
    let word = |value: &Value| value.as_str().map(str::to_owned);
    let one = |it: &Value| {
        (word(&it["volume"]).expect("its name"), word(&it["to"]), word(&it["problem"]))
    };
    list.iter().map(one).collect()
}

#[test]
fn a_member_is_vacated_and_leaves_without_a_volume() {
    let sites = sites();
    let [a, b, c] = group_of(&sites);
    for volume in ["v1", "v2", "v3"] {
        make(&b, "a", volume);
    }
    let iqns = ["v1", "v2", "v3"].map(|volume| a.iqn(volume));
    a.run(&["schedule", "create", "nightly", "--volume", "v2", "--daily", "03:00", "--keep", "3"]);
    let unasked = b.refused(&["member", "vacate", "a"]);
    assert!(unasked.contains("--yes"), "{unasked}");

    let (code, out, said) = b.home.ask(&["member", "vacate", "a", "--yes", "--json"]);
    let all = vacated(&out);
    assert_eq!((code, all.len()), (1, 3), "{out}{said}");
    for (volume, to, problem) in all {
        match volume.as_str() {
            "v2" => assert!(to.is_none() && problem.is_some_and(|why| why.contains("'nightly'"))),
            _ => assert!(problem.is_none() && to.is_some_and(|to| to != "a"), "{out}"),
        }
    }
    await_whose(&c, "v2", "a");
    b.run(&["schedule", "delete", "nightly", "--yes"]);
    let (code, out, said) = b.home.ask(&["member", "vacate", "a", "--yes", "--json"]);
    assert_eq!(code, 0, "{out}{said}");
    wait_for("nothing is left there", PATIENCE, || {
        let left = asked(&b, &["volume", "list", "--on", "a"])?;
        if left == Value::Array(Vec::new()) { Ok(()) } else { Err(left.to_string()) }
    });
    let (code, out, said) = c.home.ask(&["member", "vacate", "a", "--yes"]);
    assert!(code == 0 && out.contains("no volumes"), "{out}{said}");
    let mistyped = c.refused(&["member", "vacate", "a", "--pool", "fsat", "--yes"]);
    assert!(mistyped.contains("the group has no pool 'fsat'"), "{mistyped}");

    remove(&b, &["a"]);
    await_alone(&a);
    assert_eq!(a.json(&["volume", "list"]), Value::Array(Vec::new()));
    for iqn in &iqns {
        wait_for("one of those that are left serves it", PATIENCE, || {
            match log_in_by_way_of(b.portal(), iqn, 1) {
                Some(_) => Ok(()),
                None => Err(iqn.clone()),
            }
        });
    }
    assert_eq!(listed(&c).expect("it answers").len(), 3);
}

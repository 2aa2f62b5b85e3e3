//! Any command on any member: volumes are found wherever they are, their names are unique, and a member that is away is
//! told of.

use std::collections::BTreeSet;
use std::thread;

use serde_json::Value;

use crate::common::member::Member;
use crate::sites::{
    PATIENCE, Site, asked, await_all, await_alone, await_states, await_volume, group_of, listed,
    make, run_slowly, sites, wait_for,
};

/// Waits until `volume list` of this member has these, by name and member.
#[track_caller]
fn await_listed(member: &Member<'_>, wanted: &[(&str, &str)]) {
    wait_for(&format!("{wanted:?}"), PATIENCE, || {
        let all = listed(member)?;
        let all: Vec<_> = all.iter().map(|(name, whose)| (name.as_str(), whose.as_str())).collect();
        if all == wanted { Ok(()) } else { Err(format!("{all:?}")) }
    });
}

#[test]
fn any_member_does_what_is_asked_of_a_volume_of_another_one() {
    let sites = sites();
    let [a, b, c] = group_of(&sites);
    make(&a, "b", "vm");
    await_volume(&a, "vm", "b", true);
    await_volume(&c, "vm", "b", true);
    // One asks, another one has it.
    let shown = a.json(&["volume", "show", "vm"]);
    assert_eq!((&shown["name"], &shown["member"]), (&"vm".into(), &"b".into()), "{shown}");
    c.run(&["volume", "resize", "vm", "32M"]);
    a.run(&["snapshot", "create", "vm", "s1"]);
    assert_eq!(c.json(&["snapshot", "list", "vm"])[0]["name"], "s1");
    assert_eq!(a.json(&["snapshot", "list"])[0]["member"], "b", "also among all");
    c.run(&["snapshot", "clone", "vm", "s1", "copy"]);
    await_listed(&a, &[("copy", "b"), ("vm", "b")]);
    c.run(&["schedule", "create", "nightly", "--volume", "vm", "--daily", "03:00", "--keep", "3"]);
    wait_for("a knows of the schedule", PATIENCE, || {
        let (code, out, said) = a.home.ask(&["schedule", "show", "nightly"]);
        if code == 0 && out.contains("vm") { Ok(()) } else { Err(said) }
    });
    assert_eq!(a.json(&["schedule", "list"])[0]["member"], "b");
    let size = b.json(&["volume", "show", "vm"])["size_bytes"].clone();
    assert_eq!(size, 32 << 20);

    // What belongs to one member is asked of that one.
    let disks = |on: &[&str]| a.json(&[&["disk", "list"], on].concat())[0]["name"].clone();
    assert_ne!(disks(&[]), disks(&["--on", "c"]));
    assert_eq!(disks(&["--on", "c"]), c.json(&["disk", "list", "--on", "c"])[0]["name"]);
    assert_eq!(a.json(&["volume", "list", "--on", "a"]), Value::Array(Vec::new()), "of a alone");
    let nobody = a.refused(&["disk", "list", "--on", "nobody"]);
    assert!(nobody.contains("no member 'nobody'"), "{nobody}");

    the_audit_log_has_who_it_was(&a, &b);
    let b = a_member_that_is_away_is_told_of(&a, b, &sites[1]);
    await_all(&a);
    await_listed(&a, &[("copy", "b"), ("vm", "b")]);
    c.run(&["volume", "offline", "copy", "--yes"]);
    c.run(&["volume", "delete", "copy", "--yes"]);
    a.run(&["volume", "purge", "copy", "--yes"]);
    await_listed(&c, &[("vm", "b")]);
    assert_eq!(listed(&b).expect("it answers").len(), 1);
}

/// Both logs say who has made the snapshot: where it was asked for, and where it was taken.
fn the_audit_log_has_who_it_was(asked: &Member<'_>, owner: &Member<'_>) {
    for member in [asked, owner] {
        let audit = member.json(&["audit"]);
        let all = audit.as_array().expect("a list");
        let is_it =
            |one: &&Value| one["operation"].as_str().is_some_and(|it| it.contains("/snapshots"));
        let entry = all.iter().find(is_it).unwrap_or_else(|| panic!("{audit}"));
        assert!(entry["who"]["uid"].is_u64() || entry.to_string().contains("user "), "{entry}");
    }
    let audit = owner.json(&["audit"]).to_string();
    assert!(audit.contains("via member 'a'"), "{audit}");
}

fn a_member_that_is_away_is_told_of<'a>(
    asked: &Member<'_>,
    other: Member<'a>,
    site: &'a Site,
) -> Member<'a> {
    other.crash();
    await_states(asked, &[("a", "present"), ("b", "away"), ("c", "present")], PATIENCE);
    let away = asked.refused(&["volume", "show", "vm"]);
    assert!(away.contains("'vm'") && away.contains("'b'") && away.contains("away"), "{away}");
    let (code, out, said) = asked.home.ask(&["volume", "list", "--json"]);
    assert_eq!((code, out.trim()), (0, "[]"), "{said}");
    assert!(said.contains("member 'b' does not answer, and what it has is not in"), "{said}");
    let away = asked.refused(&["disk", "list", "--on", "b"]);
    assert!(away.contains("'b'"), "{away}");
    // The name is not free, although nobody answers for it.
    let taken = asked.refused(&["volume", "create", "vm", "16M", "--on", "a"]);
    assert!(taken.contains("'vm'") && taken.contains("'b'"), "{taken}");
    site.start()
}

#[test]
fn a_name_is_that_of_one_volume_however_many_want_it_at_once() {
    let sites = sites();
    let members = group_of(&sites);
    // All at the same instant, each for itself.
    let outcomes: Vec<(i32, String)> = thread::scope(|scope| {
        let asking = members.iter().zip(["a", "b", "c"]).map(|(member, whose)| {
            let home = member.home;
            scope.spawn(move || {
                let line = ["volume", "create", "vm", "16M", "--on", whose];
                let (code, _, said) = home.ask(&line);
                (code, said)
            })
        });
        let asking: Vec<_> = asking.collect();
        asking.into_iter().map(|it| it.join().expect("it ends")).collect()
    });
    let made = outcomes.iter().filter(|(code, _)| *code == 0).count();
    assert_eq!(made, 1, "{outcomes:?}");
    for (_, said) in outcomes.iter().filter(|(code, _)| *code != 0) {
        assert!(said.contains("vm"), "{said}");
    }
    let whose = wait_for("all know whose it is", PATIENCE, || {
        let all = members.each_ref().map(listed);
        let all: BTreeSet<_> = all.into_iter().collect::<Result<_, _>>()?;
        match all.first().and_then(|one| one.get("vm")) {
            Some(whose) if all.len() == 1 => Ok(whose.clone()),
            _ => Err(format!("{all:?}")),
        }
    });
    // In other letters it is the same, and it may be had again once it is gone.
    let [a, b, _] = &members;
    let taken = b.refused(&["volume", "create", "VM", "16M"]);
    assert!(taken.contains("vm"), "{taken}");
    make(a, "a", "other");
    await_volume(b, "other", "a", true);
    let taken = b.refused(&["volume", "rename", "other", "vm"]);
    assert!(taken.contains("vm"), "{taken}");
    for line in [&["offline"][..], &["delete"], &["purge"]] {
        b.run(&[&["volume"], line, &["vm", "--yes"]].concat());
    }
    wait_for("its name is free", PATIENCE, || {
        let (code, _, said) = b.home.ask(&["volume", "rename", "other", "vm"]);
        if code == 0 { Ok(()) } else { Err(said) }
    });
    assert!(["a", "b", "c"].contains(&whose.as_str()));
}

#[test]
fn a_new_volume_goes_where_there_is_room_in_the_pool_that_is_meant() {
    let sites = [("a", 1), ("b", 2), ("c", 3)];
    let sites = sites.map(|(name, last_byte)| Site::with_disks(name, last_byte, "512M"));
    let members = group_of(&sites);
    let [a, b, c] = &members;
    // What takes room makes the next one go elsewhere.
    for number in 1..=3 {
        let name = format!("thick{number}");
        let before = wait_for("all have told", PATIENCE, || free_bytes(a));
        a.run(&["volume", "create", &name, "256M", "--thick", "--raid", "raid0"]);
        wait_for("what is left is told", PATIENCE, || match free_bytes(a)? {
            left if left + (128 << 20) <= before => Ok(()),
            left => Err(format!("{left} of {before}")),
        });
    }
    let owners: BTreeSet<String> = listed(a).expect("it answers").into_values().collect();
    assert_eq!(owners.len(), 3, "one each: {:?}", listed(a));
    b.run(&["pool", "create", "fast"]);
    let empty = c.refused(&["volume", "create", "v", "16M", "--pool", "fast"]);
    assert!(empty.contains("'fast'"), "{empty}");
    c.run(&["member", "move", "c", "--pool", "fast"]);
    wait_for("a knows of it", PATIENCE, || {
        let pools = asked(a, &["pool", "list"])?;
        if pools[1]["members"] == Value::from(vec!["c"]) { Ok(()) } else { Err(pools.to_string()) }
    });
    a.run(&["volume", "create", "v", "16M", "--pool", "fast"]);
    wait_for("it is c's", PATIENCE, || match listed(b)?.get("v") {
        Some(whose) if whose == "c" => Ok(()),
        other => Err(format!("{other:?}")),
    });
    let full = a.refused(&["pool", "delete", "fast"]);
    assert!(full.contains("member move") || full.contains("pool merge"), "{full}");
    b.run(&["pool", "merge", "fast", "--into", "default", "--yes"]);
    assert_eq!(b.json(&["pool", "list"]).as_array().map(Vec::len), Some(1));
    let huge = a.refused(&["volume", "create", "huge", "100T", "--thick"]);
    assert!(huge.contains("room"), "{huge}");
    // Who leaves takes its volumes along, and its names are free for others.
    run_slowly(a, &["member", "remove", "c", "--yes"]);
    await_alone(c);
    make(a, "b", "v");
}

/// What all members have room for, as this one says.
fn free_bytes(member: &Member<'_>) -> Result<u64, String> {
    let members = asked(member, &["member", "list"])?;
    let of_one = |one: &Value| one["free_bytes"].as_u64().filter(|bytes| *bytes > 0);
    let all: Option<Vec<u64>> = members.as_array().ok_or("no list")?.iter().map(of_one).collect();
    all.map(|all| all.iter().sum()).ok_or_else(|| members.to_string())
}

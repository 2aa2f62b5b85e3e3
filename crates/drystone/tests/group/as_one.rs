//! Any command on any member: volumes are found wherever they are, their names are unique, and a member that is away is
//! told of.

use std::collections::{BTreeMap, BTreeSet};
use std::thread;

use serde_json::Value;

use crate::common::member::Member;
use crate::sites::{
    PATIENCE, Site, asked, await_all, await_alone, await_refused, await_states, await_volume,
    group_of, listed, make, remove, sites, volumes, wait_for,
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

/// Waits until a list begins with what this member has: who is slow to answer is left out of it.
#[track_caller]
fn await_first(member: &Member<'_>, words: &[&str], whose: &str) {
    wait_for(&format!("{words:?} has one of {whose}"), PATIENCE, || {
        let list = asked(member, words)?;
        if list[0]["member"] == whose { Ok(()) } else { Err(list.to_string()) }
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
    // Also among all.
    await_first(&a, &["snapshot", "list"], "b");
    c.run(&["snapshot", "clone", "vm", "s1", "copy"]);
    await_listed(&a, &[("copy", "b"), ("vm", "b")]);
    c.run(&["schedule", "create", "nightly", "--volume", "vm", "--daily", "03:00", "--keep", "3"]);
    wait_for("a knows of the schedule", PATIENCE, || {
        let (code, out, said) = a.home.ask(&["schedule", "show", "nightly"]);
        if code == 0 && out.contains("vm") { Ok(()) } else { Err(said) }
    });
    await_first(&a, &["schedule", "list"], "b");
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
    await_listed(&b, &[("vm", "b")]);
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
    await_refused(asked, &["volume", "create", "vm", "16M", "--on", "a"], &["'vm'", "'b'"]);
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

/// Asks for something until it is so: a busy machine may refuse it, or not say that it was done.
#[track_caller]
fn done(member: &Member<'_>, line: &[&str], is_so: impl Fn() -> Result<bool, String>) {
    wait_for(&format!("{line:?} is done"), PATIENCE, || {
        if is_so()? {
            return Ok(());
        }
        match member.home.ask(line) {
            (0, ..) => Ok(()),
            (_, _, said) => Err(said),
        }
    });
}

/// Makes a volume when all members are there, and one of them takes it.
#[track_caller]
fn make_anywhere(member: &Member<'_>, volume: &str, more: &[&str]) {
    await_all(member);
    let line = [&["volume", "create", volume][..], more].concat();
    done(member, &line, || Ok(volumes(member)?.contains_key(volume)));
}

#[test]
fn a_new_volume_goes_where_there_is_room_in_the_pool_that_is_meant() {
    let sites = [("a", 1), ("b", 2), ("c", 3)];
    let sites = sites.map(|(name, last_byte)| Site::with_disks(name, last_byte, "512M"));
    let members = group_of(&sites);
    let [a, _, c] = &members;
    // What takes room makes the next one go elsewhere.
    for number in 1..=3 {
        let name = format!("thick{number}");
        let before = wait_for("all have told", PATIENCE, || free_bytes(a));
        make_anywhere(a, &name, &["256M", "--thick", "--raid", "raid0"]);
        // It takes 128 MiB of the usual level, and what members have besides may change a little.
        wait_for("what is left is told", PATIENCE, || match free_bytes(a)? {
            left if left + (100 << 20) <= before => Ok(()),
            left => Err(format!("{left} of {before}")),
        });
    }
    wait_for("one each", PATIENCE, || {
        let all = volumes(a)?;
        let owners: BTreeSet<&String> = all.values().map(|(whose, _)| whose).collect();
        if owners.len() == 3 { Ok(()) } else { Err(format!("{all:?}")) }
    });
    in_a_pool(&members);
    await_refused(a, &["volume", "create", "huge", "100T", "--thick"], &["room"]);
    // Who leaves takes its volumes along, and its names are free for others.
    remove(a, &["c"]);
    await_alone(c);
    done(a, &["volume", "create", "v", "16M", "--on", "b"], || {
        Ok(volumes(a)?.get("v").is_some_and(|(whose, _)| whose == "b"))
    });
}

/// A volume for a pool of `c` alone, which is merged into that of the others behind that.
fn in_a_pool([a, b, c]: &[Member<'_>; 3]) {
    done(b, &["pool", "create", "fast"], || Ok(pools(b)?.contains_key("fast")));
    await_refused(c, &["volume", "create", "v", "16M", "--pool", "fast"], &["'fast'"]);
    done(c, &["member", "move", "c", "--pool", "fast"], || has_c(c));
    for member in [a, b] {
        wait_for("it knows of it", PATIENCE, || {
            if has_c(member)? { Ok(()) } else { Err(format!("{:?}", pools(member))) }
        });
    }
    make_anywhere(a, "v", &["16M", "--pool", "fast"]);
    wait_for("it is c's", PATIENCE, || match listed(b)?.get("v") {
        Some(whose) if whose == "c" => Ok(()),
        other => Err(format!("{other:?}")),
    });
    await_refused(a, &["pool", "delete", "fast"], &["member move", "pool merge"]);
    let merge = ["pool", "merge", "fast", "--into", "default", "--yes"];
    done(b, &merge, || Ok(!pools(b)?.contains_key("fast")));
    wait_for("one is left", PATIENCE, || match pools(b)? {
        left if left.len() == 1 => Ok(()),
        left => Err(format!("{left:?}")),
    });
}

/// Whether `c` alone is in the pool, as this member says.
fn has_c(member: &Member<'_>) -> Result<bool, String> {
    Ok(pools(member)?.get("fast").is_some_and(|all| *all == ["c"]))
}

/// The members of each pool by its name, as this one says.
fn pools(member: &Member<'_>) -> Result<BTreeMap<String, Vec<String>>, String> {
    let list = asked(member, &["pool", "list"])?;
    let word = |value: &Value| value.as_str().expect("a name").to_owned();
    let names =
        |list: &Value| -> Vec<String> { list.as_array().into_iter().flatten().map(word).collect() };
    let all = list.as_array().ok_or("no list")?.iter();
    Ok(all.map(|one| (word(&one["name"]), names(&one["members"]))).collect())
}

/// What all members have room for, as this one says.
fn free_bytes(member: &Member<'_>) -> Result<u64, String> {
    let members = asked(member, &["member", "list"])?;
    let of_one = |one: &Value| one["free_bytes"].as_u64().filter(|bytes| *bytes > 0);
    let all: Option<Vec<u64>> = members.as_array().ok_or("no list")?.iter().map(of_one).collect();
    all.map(|all| all.iter().sum()).ok_or_else(|| members.to_string())
}

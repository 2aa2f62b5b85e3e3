//! Moves that are refused by what a member does or has, beside what `moving` has: as many as go on at once, settings of
//! its own, and a name that is taken there.

use std::thread;

use rustix::process::Signal;
use serde_json::Value;

use crate::busy::{Bed, VOLUME, await_snapshots, roomy_sites};
use crate::common::member::Member;
use crate::host::Host;
use crate::moving::await_whose;
use crate::sites::{
    PATIENCE, asked, await_event, await_refused, await_shared, await_states, await_volume, create,
    join, make, sites, wait_for,
};

/// As many volumes as one member has a part in at once.
const MOVING: [&str; 4] = ["v1", "v2", "v3", "v4"];

/// Moves a volume as soon as that is not refused any more: what is known of others is some seconds old.
#[track_caller]
fn moves_at_last(member: &Member<'_>, line: &[&str]) {
    wait_for(&format!("{line:?}"), PATIENCE, || match member.home.ask(line) {
        (0, ..) => Ok(()),
        (_, _, said) => Err(said),
    });
}

/// Begins to move all of them to `b`, at the same instant.
#[track_caller]
fn begin_all(member: &Member<'_>) {
    let home = member.home;
    thread::scope(|scope| {
        let begin = |volume: &'static str| {
            let line = ["volume", "move", volume, "--to", "b", "--no-wait"];
            scope.spawn(move || home.ask(&line))
        };
        for (volume, begun) in MOVING.map(|volume| (volume, begin(volume))) {
            let (code, _, said) = begun.join().expect("it ends");
            assert_eq!(code, 0, "{volume}: {said}");
        }
    });
}

/// The runs of a member that go on.
fn running(member: &Member<'_>) -> Result<Vec<String>, String> {
    let list = asked(member, &["run", "list"])?;
    let all = list.as_array().ok_or("no list")?.iter();
    let going_on = all.filter(|run| run["state"] == "running");
    Ok(going_on.map(|run| run["id"].as_str().expect("a name").to_owned()).collect())
}

/// The source is stopped in the middle, so that nothing of what it has begun ends meanwhile.
#[test]
fn a_fifth_move_is_refused_by_the_side_that_has_a_part_in_four() {
    let sites = roomy_sites();
    let bed = Bed::make(&sites);
    let [a, b, c] = &bed.members[..] else { panic!("three members") };
    for volume in MOVING {
        a.run(&["snapshot", "clone", VOLUME, "s1", volume]);
    }
    make(a, "b", "of-b");
    make(a, "c", "of-c");
    await_volume(b, "of-b", "b", true);
    await_volume(c, "of-c", "c", true);
    begin_all(a);
    a.signal(Signal::STOP);
    let own = b.refused(&["volume", "move", "of-b", "--to", "c"]);
    let taken = c.refused(&["volume", "move", "of-c", "--to", "b"]);
    a.signal(Signal::CONT);
    for said in [&own, &taken] {
        assert!(said.contains("takes part in 4 moves already"), "{said}");
    }
    assert!(taken.contains("'b' does not take volume 'of-c'"), "{taken}");

    for run in running(a).expect("it answers") {
        // One that is at its end goes to it.
        let _ = a.home.ask(&["run", "cancel", &run]);
    }
    wait_for("all have ended", PATIENCE, || match running(a)? {
        none if none.is_empty() => Ok(()),
        some => Err(format!("{some:?}")),
    });
    moves_at_last(c, &["volume", "move", "of-c", "--to", "b"]);
    moves_at_last(b, &["volume", "move", "of-b", "--to", "c"]);
    await_whose(a, "of-c", "b");
    await_whose(a, "of-b", "c");
    await_snapshots(a, &["s1"]);
}

#[test]
fn a_member_that_keeps_settings_of_its_own_neither_gives_nor_takes_a_volume() {
    let [site_a, site_b, _] = sites();
    let (a, b) = (site_a.start(), site_b.start());
    for (member, host) in [(&a, "web"), (&b, "db")] {
        let iqn = format!("iqn.2026-11.com.example:{host}");
        member.run(&["policy", "create", "rack"]);
        member.run(&["policy", "add", "rack", "--iqn", &iqn]);
    }
    a.run(&["volume", "create", "of-a", "16M"]);
    b.run(&["volume", "create", "of-b", "16M"]);
    let iqns = [(&a, a.iqn("of-a")), (&b, b.iqn("of-b"))];
    create(&a, &site_a);
    await_shared(&a);
    join(&b, &site_b, (&a, &site_a));
    await_event(&b, "settings_differ");
    for member in [&a, &b] {
        await_states(member, &[("a", "present"), ("b", "present")], PATIENCE);
    }
    await_volume(&a, "of-b", "b", true);
    await_volume(&b, "of-a", "a", true);
    let (there, back) =
        (["volume", "move", "of-a", "--to", "b"], ["volume", "move", "of-b", "--to", "a"]);
    await_refused(&a, &there, &["'of-a'", "'b' keeps settings of its own", "share"]);
    await_refused(&b, &back, &["'of-b'", "'b' keeps settings of its own", "share"]);
    for (member, iqn) in &iqns {
        let runs = member.json(&["run", "list"]);
        assert_eq!(runs, Value::Array(Vec::new()), "what was refused is no run");
        Host::log_in(member.portal(), iqn, 1, &[0]).expect("it is served as before");
    }

    // It was that alone which kept them.
    b.run(&["group", "share", "--replace-settings", "--yes"]);
    await_shared(&b);
    moves_at_last(&a, &there);
    moves_at_last(&b, &back);
    await_whose(&a, "of-a", "b");
    await_whose(&b, "of-b", "a");
    for (member, (_, iqn)) in [&b, &a].into_iter().zip(&iqns) {
        wait_for("it is served there", PATIENCE, || {
            let host = Host::log_in(member.portal(), iqn, 1, &[0]);
            host.map(drop).map_err(|error| error.to_string())
        });
    }
}

/// Names are one volume's each in a group. Those that were there before may be there twice, one of them deleted.
#[test]
fn a_name_that_is_taken_at_the_destination_is_refused_also_in_its_recycle_bin() {
    let [site_a, site_b, _] = sites();
    let (a, b) = (site_a.start(), site_b.start());
    for member in [&a, &b] {
        member.run(&["volume", "create", "deleted", "16M"]);
        member.run(&["volume", "create", "twice", "16M"]);
    }
    for line in ["offline", "delete"] {
        b.run(&["volume", line, "deleted", "--yes"]);
    }
    let iqn = a.iqn("deleted");
    create(&a, &site_a);
    await_shared(&a);
    join(&b, &site_b, (&a, &site_a));
    await_shared(&b);
    await_states(&a, &[("a", "present"), ("b", "present")], PATIENCE);
    let line = |volume| ["volume", "move", volume, "--to", "b", "--on", "a"];
    for volume in ["deleted", "twice"] {
        let quoted = format!("'{volume}'");
        await_refused(&a, &line(volume), &[&quoted, "'b'", "has a volume of that name"]);
    }
    assert_eq!(a.json(&["run", "list"]), Value::Array(Vec::new()), "what was refused is no run");
    Host::log_in(a.portal(), &iqn, 1, &[0]).expect("it is served as before");
    let bin = b.json(&["volume", "show", "deleted", "--on", "b"]);
    assert_eq!(bin["state"], "deleted", "{bin}");

    b.run(&["volume", "purge", "deleted", "--yes", "--on", "b"]);
    moves_at_last(&a, &line("deleted"));
    await_whose(&a, "deleted", "b");
    wait_for("it is served there", PATIENCE, || {
        let host = Host::log_in(b.portal(), &iqn, 1, &[0]);
        host.map(drop).map_err(|error| error.to_string())
    });
}

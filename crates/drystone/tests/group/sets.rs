//! Snapshots of one moment of volumes of several members: all of them, or none, whatever ends meanwhile.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{Scope, ScopedJoinHandle};
use std::time::Duration;
use std::{fs, io, thread};

use rustix::process::{Signal, kill_process};
use serde_json::Value;

use crate::common::member::Member;
use crate::host::Host;
use crate::ledger::BLOCK_BYTES;
use crate::sites::{
    PATIENCE, Site, asked, await_all, await_alone, await_event, await_volume, group_of, make,
    sites, wait_for,
};

/// How often a cut is looked at while hosts write.
const CUTS: u64 = 20;

/// How often a set is begun anew that a busy machine was too slow for.
const TRIES: u32 = 30;

/// Longer than a coordinator has from when all are asked to hold until whoever waits hears that it has given up.
const MOMENT: Duration = Duration::from_secs(7);

/// The snapshots of all members, as volume and name.
fn snapshots(member: &Member<'_>) -> Result<Vec<(String, String)>, String> {
    let list = asked(member, &["snapshot", "list"])?;
    let word = |one: &Value, key: &str| one[key].as_str().unwrap_or("").to_owned();
    let all = list.as_array().ok_or("no list")?.iter();
    let mut all: Vec<_> = all.map(|one| (word(one, "volume"), word(one, "name"))).collect();
    all.sort();
    Ok(all)
}

#[track_caller]
fn await_snapshots(member: &Member<'_>, wanted: &[(&str, &str)]) {
    wait_for(&format!("{wanted:?}"), PATIENCE, || {
        let all = snapshots(member)?;
        let all: Vec<_> =
            all.iter().map(|(volume, name)| (volume.as_str(), name.as_str())).collect();
        if all == wanted { Ok(()) } else { Err(format!("{all:?}")) }
    });
}

/// A volume on each of the first two members, of which the third one knows.
fn volumes_of(members: &[Member<'_>; 3]) {
    let [a, b, c] = members;
    make(a, "a", "vm1");
    make(b, "b", "vm2");
    for member in [a, b, c] {
        await_volume(member, "vm1", "a", true);
        await_volume(member, "vm2", "b", true);
    }
}

#[test]
fn snapshots_of_volumes_of_several_members_are_taken_on_all_or_on_none() {
    let sites = sites();
    let members = group_of(&sites);
    volumes_of(&members);
    let [a, b, c] = members;
    // A member that has volumes of it, and one that has none.
    take_cut(&a, "vm1,vm2", "s1");
    if let Some(taken) = take_cut(&c, "vm2,vm1", "s2") {
        let all = taken.as_array().expect("a list").iter();
        let all: Vec<_> = all.map(|it| (it["volume"].as_str(), it["member"].as_str())).collect();
        assert_eq!(all, [(Some("vm1"), Some("a")), (Some("vm2"), Some("b"))]);
    }
    let both = [("vm1", "s1"), ("vm1", "s2"), ("vm2", "s1"), ("vm2", "s2")];
    await_snapshots(&b, &both);
    // They are ordinary ones from then on.
    c.run(&["snapshot", "clone", "vm2", "s1", "copy"]);
    b.run(&["snapshot", "delete", "vm1", "s2", "--yes"]);
    a.run(&["snapshot", "delete", "vm2", "s2", "--yes"]);
    await_snapshots(&c, &[("vm1", "s1"), ("vm2", "s1")]);

    // A name that one of them has is taken nowhere.
    b.run(&["snapshot", "create", "vm2", "s3"]);
    for asked in [&a, &b, &c] {
        // The one before may be given up behind its answer.
        wait_for("it is refused for its name", PATIENCE, || {
            let refused = asked.refused(&["snapshot", "create", "vm1,vm2", "s3"]);
            if refused.contains("already") { Ok(()) } else { Err(refused) }
        });
    }
    let one = [("vm1", "s1"), ("vm2", "s1"), ("vm2", "s3")];
    await_snapshots(&a, &one);
    // Nor does anything reserve it any more.
    assert!(!is_kept(&a, "vm1", "s3"), "it is taken now");
    let nowhere = a.refused(&["snapshot", "create", "vm1,vm2,none", "s4"]);
    assert!(nowhere.contains("'none'"), "{nowhere}");
    let audit = b.json(&["audit"]).to_string();
    assert!(audit.contains("/v1/sets"), "{audit}");
}

/// What it was asked for comes when all others have given it up.
#[test]
fn a_member_that_hears_late_of_a_set_takes_no_part_in_it() {
    let sites = sites();
    let members = group_of(&sites);
    volumes_of(&members);
    let [a, b, c] = members;
    b.signal(Signal::STOP);
    let refused = c.refused(&["snapshot", "create", "vm1,vm2", "late"]);
    b.signal(Signal::CONT);
    assert!(refused.contains("late") || refused.contains("'b'"), "{refused}");
    await_all(&a);
    // In the end the name is free on both.
    wait_for("the set is settled", PATIENCE, || {
        let (code, _, said) = a.home.ask(&["snapshot", "create", "vm1,vm2", "late"]);
        if code == 0 { Ok(()) } else { Err(said) }
    });
    await_snapshots(&b, &[("vm1", "late"), ("vm2", "late")]);
}

/// What became of a set at the member that has the volume, once it is settled there: a snapshot of its name can be taken
/// where it was void, and cannot where it is whole.
fn is_kept(member: &Member<'_>, volume: &str, name: &str) -> bool {
    wait_for(&format!("'{name}' of {volume} is decided"), PATIENCE, || {
        let (code, _, said) = member.home.ask(&["snapshot", "create", volume, name]);
        match code {
            0 => Ok(false),
            _ if said.contains("already") => Ok(true),
            _ => Err(said),
        }
    })
}

/// Whether a member takes part in a set of this name that is undecided.
fn is_prepared(member: &Member<'_>, volume: &str, name: &str) -> bool {
    // Where it does not, there is no such snapshot, or an ordinary one that is offline already.
    let (_, _, said) = member.home.ask(&["snapshot", "offline", volume, name]);
    said.contains("not decided yet")
}

/// What a command answers that takes a set.
type Asked<'scope> = ScopedJoinHandle<'scope, (i32, String, String)>;

/// Has the third member take a set of `vm1` and `vm2`, of which the second one hears nothing, and comes back when the
/// first one takes part. On a busy machine that may be refused before: then it is begun anew under another name, and the
/// one that it has is told.
fn prepare<'scope>(
    scope: &'scope Scope<'scope, '_>,
    [a, b, c]: [&'scope Member<'_>; 3],
    name: &str,
) -> (String, Asked<'scope>) {
    let mut said = String::new();
    for number in 1..=TRIES {
        let name = format!("{name}-{number}");
        b.signal(Signal::STOP);
        let asked = name.clone();
        let set =
            scope.spawn(move || c.home.ask(&["snapshot", "create", "vm1,vm2", asked.as_str()]));
        wait_for(&format!("'{name}' is prepared"), PATIENCE, || {
            let is_there = is_prepared(a, "vm1", &name) || set.is_finished();
            is_there.then_some(()).ok_or_else(|| "it is under way".to_owned())
        });
        if !set.is_finished() {
            return (name, set);
        }
        b.signal(Signal::CONT);
        said = set.join().expect("it is asked").2;
        await_decided([a, b], &name);
    }
    panic!("'{name}' is refused {TRIES} times: {said}");
}

/// Waits until nobody has a part in a set of `vm1` and `vm2` any more, and tries no name out for that.
fn await_decided([a, b]: [&Member<'_>; 2], name: &str) {
    wait_for(&format!("'{name}' is decided"), PATIENCE, || {
        let is_prepared = is_prepared(a, "vm1", name) || is_prepared(b, "vm2", name);
        if is_prepared { Err("not yet".to_owned()) } else { Ok(()) }
    });
}

/// The snapshots that the array has of a volume, also those that nobody sees.
fn count(member: &Member<'_>, volume: &str) -> u64 {
    member.json(&["volume", "show", volume])["snapshots"].as_u64().expect("a number")
}

/// Stops the store of the group, or has it go on: two of three are needed. One that is killed is started again by its
/// member, and what was on its way to it is gone.
fn signal_store(sites: &[&Site], signal: Signal) {
    for etcd in sites.iter().copied().flat_map(Site::etcds) {
        // It may have ended with its member.
        let _ = kill_process(etcd, signal);
    }
}

/// Has the third member take a set of `vm1` and `vm2` and does something once both have taken theirs, while nobody can
/// decide: the store is given a signal behind that. The name of the set is told.
fn while_undecided(
    members: [&Member<'_>; 3],
    name: &str,
    (silent, signal): (&[&Site], Signal),
    then: impl Fn(),
) -> String {
    let [a, b, _] = members;
    for number in 1..=TRIES {
        let before = [count(a, "vm1"), count(b, "vm2")];
        let are_there = || {
            let now = [count(a, "vm1"), count(b, "vm2")];
            now[0] > before[0] && now[1] > before[1]
        };
        let (name, is_undecided) = thread::scope(|scope| {
            // It is prepared at the first one only, until the store is silent.
            let (name, set) = prepare(scope, members, &format!("{name}-{number}"));
            signal_store(silent, Signal::STOP);
            b.signal(Signal::CONT);
            wait_for("both have taken theirs", PATIENCE, || {
                let is_over = are_there() || set.is_finished();
                is_over.then_some(()).ok_or_else(|| format!("{before:?} before"))
            });
            // The coordinator is to hear of it in time: else it gives the set up, and says so.
            thread::sleep(MOMENT);
            let is_undecided = !set.is_finished() && are_there();
            if is_undecided {
                then();
            }
            signal_store(silent, if is_undecided { signal } else { Signal::CONT });
            (name, is_undecided)
        });
        if is_undecided {
            return name;
        }
        members.into_iter().for_each(await_all);
        await_decided([a, b], &name);
    }
    panic!("the set '{name}' was given up {TRIES} times");
}

/// Which of two members is killed, the one that only drives or one that has a volume, and when.
const KILLS: [(bool, bool); 4] = [(false, false), (true, false), (false, true), (true, true)];

/// Only a set that all have taken is whole, and only if its coordinator lives to say so.
#[test]
fn members_that_are_killed_meanwhile_have_the_same_sets_in_the_end() {
    let sites = sites();
    let members = group_of(&sites);
    volumes_of(&members);
    let [a, mut b, mut c] = members;
    for (is_coordinator, is_taken) in KILLS {
        let name = format!("s-{is_coordinator}-{is_taken}");
        let victim = if is_coordinator { &c } else { &b };
        let kill = || victim.signal(Signal::KILL);
        let name = if is_taken {
            let [first, second, third] = sites.each_ref();
            // That the set is whole must not lie in an etcd, to be written when its sender has ended.
            let store: (&[&Site], Signal) = match is_coordinator {
                true => (&[first, second, third], Signal::KILL),
                false => (&[first, second], Signal::CONT),
            };
            while_undecided([&a, &b, &c], &name, store, kill)
        } else {
            thread::scope(|scope| {
                let (name, _) = prepare(scope, [&a, &b, &c], &name);
                kill();
                name
            })
        };
        if is_coordinator {
            b.signal(Signal::CONT);
            c.crash();
            c = sites[2].start();
        } else {
            b.crash();
            b = sites[1].start();
        }
        for member in [&a, &b, &c] {
            await_all(member);
        }
        let kept = [is_kept(&a, "vm1", &name), is_kept(&b, "vm2", &name)];
        let is_whole = is_taken && !is_coordinator;
        assert_eq!(kept, [is_whole; 2], "{name}");
    }
}

/// The same at moments that nobody has chosen.
#[test]
fn members_that_are_killed_at_any_moment_have_the_same_sets_in_the_end() {
    let sites = sites();
    let members = group_of(&sites);
    volumes_of(&members);
    let [a, mut b, c] = members;
    for round in 0..3_u64 {
        let name = format!("s{round}");
        thread::scope(|scope| {
            // Who asks may hear of a failure, or that nobody knows.
            scope.spawn(|| c.home.ask(&["snapshot", "create", "vm1,vm2", &name]));
            thread::sleep(Duration::from_millis(20 + 40 * round));
            b.signal(Signal::KILL);
        });
        b.crash();
        b = sites[1].start();
        await_all(&a);
        let kept = [is_kept(&a, "vm1", &name), is_kept(&b, "vm2", &name)];
        assert_eq!(kept[0], kept[1], "{name}");
    }
}

/// It would never be decided, and what it holds stay for good.
#[test]
fn a_member_that_is_in_no_group_any_more_keeps_its_undecided_snapshots() {
    let sites = sites();
    let members = group_of(&sites);
    volumes_of(&members);
    let [mut a, b, c] = members;
    // Where the store is silent from the beginning nobody stores anything.
    let silent = [&sites[1], &sites[2]];
    signal_store(&silent, Signal::STOP);
    let refused = c.refused(&["snapshot", "create", "vm1,vm2", "quiet"]);
    assert!(!refused.contains("not known yet"), "{refused}");
    for (member, volume) in [(&a, "vm1"), (&b, "vm2")] {
        member.run(&["snapshot", "create", volume, "quiet"]);
    }
    signal_store(&silent, Signal::CONT);
    for member in [&a, &b, &c] {
        await_all(member);
    }

    let left = while_undecided([&a, &b, &c], "left", (&silent, Signal::CONT), || {
        a.signal(Signal::KILL);
        let listed = asked(&b, &["snapshot", "list", "vm2"]).expect("it answers");
        assert_eq!(listed.as_array().map(Vec::len), Some(1), "nobody knows yet: {listed}");
    });
    a.crash();
    sites[0].await_no_etcd();
    let kept = sites[0].home.path("data");
    fs::rename(kept.join("group"), kept.join("group-of-before")).expect("it is moved away");
    a = sites[0].start();
    await_alone(&a);
    await_event(&a, "snapshots_not_whole");
    await_snapshots(&a, &[("vm1", &left), ("vm1", "quiet")]);
    // An ordinary one of an ordinary volume.
    a.run(&["snapshot", "delete", "vm1", &left, "--yes"]);
    a.run(&["volume", "resize", "vm1", "32M"]);
    // All had taken theirs, so that it is whole for the others.
    assert!(is_kept(&b, "vm2", &left));
}

/// READ (10) or WRITE (10) of the first block of 4 KiB.
fn cdb(opcode: u8) -> [u8; 10] {
    [opcode, 0, 0, 0, 0, 0, 0, 0, (BLOCK_BYTES / 512) as u8, 0]
}

fn write(host: &mut Host, number: u64) -> io::Result<()> {
    let mut block = vec![0; BLOCK_BYTES];
    block[..8].copy_from_slice(&number.to_be_bytes());
    while !host.run(0, &cdb(0x2a), 0, &block)?.is_good() {}
    Ok(())
}

fn read(host: &mut Host) -> u64 {
    loop {
        let answer = host.run(0, &cdb(0x28), BLOCK_BYTES as u32, &[]).expect("it is served");
        if answer.is_good() {
            return u64::from_be_bytes(answer.data[..8].try_into().expect("eight bytes"));
        }
    }
}

/// Takes a set of these volumes, and hands out the answer. What is too slow for hosts is refused, and taken again.
#[track_caller]
fn take_cut(member: &Member<'_>, volumes: &str, name: &str) -> Option<Value> {
    let mut said = String::new();
    for _ in 0..TRIES {
        match asked(member, &["snapshot", "create", volumes, name]) {
            Ok(taken) => return Some(taken),
            // It may be whole although its answer was that nobody knew yet: nobody else takes one of that name.
            Err(error) if error.contains("already") => return None,
            Err(error) => said = error,
        }
        thread::sleep(Duration::from_secs(2));
    }
    panic!("'{name}' is refused {TRIES} times: {said}");
}

/// A host writes a number to one volume, and when that is acknowledged to the other one.
#[test]
fn hosts_find_one_moment_in_snapshots_of_two_members() {
    let sites = sites();
    let members = group_of(&sites);
    volumes_of(&members);
    let [a, b, c] = members;
    let is_over = AtomicBool::new(false);
    let mut hosts = [(&a, "vm1"), (&b, "vm2")].map(|(member, volume)| {
        Host::log_in(member.portal(), &member.iqn(volume), 1, &[0]).expect("it is served")
    });
    thread::scope(|scope| {
        let writer = scope.spawn(|| {
            let mut number = 0;
            while !is_over.load(Ordering::Relaxed) {
                number += 1;
                for host in &mut hosts {
                    write(host, number).expect("it is served");
                }
            }
            number
        });
        for cut in 0..CUTS {
            take_cut(&c, "vm1,vm2", &format!("cut{cut}"));
        }
        is_over.store(true, Ordering::Relaxed);
        let written = writer.join().expect("it writes to the end");
        assert!(written > CUTS, "{written} numbers are written");
    });
    for cut in 0..CUTS {
        let name = format!("cut{cut}");
        let [first, second] = [(&a, "vm1"), (&b, "vm2")].map(|(member, volume)| {
            let shown = member.json(&["snapshot", "online", volume, &name]);
            let iqn = shown["iqn"].as_str().expect("it has a target");
            let mut host = Host::log_in(member.portal(), iqn, 2, &[0]).expect("it is served");
            read(&mut host)
        });
        assert!(first == second || first == second + 1, "{name}: {first} and {second}");
    }
}

/// Who takes part and has left the group keeps what it has, and says so; here nothing was taken.
#[test]
fn a_set_that_is_given_up_leaves_a_word_of_it() {
    let sites = sites();
    let members = group_of(&sites);
    volumes_of(&members);
    let [a, b, c] = members;
    // The coordinator ends when one is prepared, and the other one cannot answer.
    let name = thread::scope(|scope| {
        let (name, _) = prepare(scope, [&a, &b, &c], "lost");
        c.signal(Signal::KILL);
        name
    });
    let refused = a.refused(&["snapshot", "create", "vm1", &name]);
    assert!(refused.contains("not decided yet"), "{refused}");
    let listed = asked(&a, &["snapshot", "list", "vm1"]).expect("it answers");
    assert_eq!(listed.as_array().map(Vec::len), Some(0), "{listed}");
    let deleted = a.refused(&["volume", "delete", "vm1", "--yes"]);
    assert!(deleted.contains("not decided yet") || deleted.contains("offline"), "{deleted}");
    b.signal(Signal::CONT);
    await_event(&a, "snapshots_not_whole");
    a.run(&["snapshot", "create", "vm1", &name]);
    await_snapshots(&b, &[("vm1", &name)]);
    c.crash();
}

//! The same for the volumes of an array: `drystone up` is killed under load on every RAID level,
//! while snapshots are taken and disks fail.

use crate::common::member::{Home, Member, text};
use crate::host::Host;
use crate::ledger::{BLOCK_BYTES, Ledger};
use crate::load::{self, Increments};
use crate::{COUNTER_LBA, LEDGER_BLOCKS, LIFE_MS, rounds};
use serde_json::json;
use std::fs;
use std::thread;
use std::time::Duration;

const ROUNDS_DEFAULT: usize = 50;
const DISKS: usize = 6;
const DISK_BYTES: &str = "128M";
/// How often everything is verified, a snapshot is looked at, and a disk fails under load.
const CHECK_EVERY: usize = 10;
const SNAPSHOT_EVERY: usize = 5;
const FAIL_EVERY: usize = 12;

/// A volume and what must be found on it after a crash.
struct Volume {
    name: &'static str,
    ledger: Ledger,
    counter: Increments,
}

fn volumes() -> Vec<Volume> {
    let names = ["raid10", "raid5", "raid6", "raid50", "volatile"];
    let volume =
        |name| Volume { name, ledger: Ledger::new(LEDGER_BLOCKS), counter: Increments::default() };
    names.map(volume).into()
}

fn create(member: &Member<'_>, volumes: &[Volume]) {
    for volume in volumes {
        let options = match volume.name {
            "volatile" => ["--cache", "volatile"],
            level => ["--raid", level],
        };
        member.run(&[&["volume", "create", volume.name, "8M"][..], &options].concat());
    }
}

fn log_in(member: &Member<'_>, volume: &str, number: u8) -> Host {
    let host = Host::log_in(member.portal(), &member.iqn(volume), number, &[0]);
    host.expect("a volume that is online lets hosts in")
}

/// All bytes of a volume's ledger.
fn contents(host: &mut Host) -> Vec<u8> {
    let read = |first: usize| {
        let [a, b, c, d] = ((first * BLOCK_BYTES / 512) as u32).to_be_bytes();
        let answer = host.run(0, &[0x28, 0, a, b, c, d, 0, 0, 128, 0], 128 * 512, &[]);
        answer.expect("the member is there").data
    };
    (0..LEDGER_BLOCKS).step_by(128 * 512 / BLOCK_BYTES).flat_map(read).collect()
}

/// Loads all volumes until the member is killed, and does `meanwhile`; returns how many writes
/// were acknowledged.
fn load(member: Member<'_>, volumes: &mut [Volume], meanwhile: impl FnOnce(&Home) + Send) -> usize {
    let hosts: Vec<_> = volumes
        .iter()
        .map(|volume| [2, 3, 4].map(|number| log_in(&member, volume.name, number)))
        .collect();
    let home = member.home;
    thread::scope(|scope| {
        let working: Vec<_> = hosts
            .into_iter()
            .zip(volumes)
            .map(|([writer, one, other], volume)| {
                let Volume { ledger, counter, .. } = volume;
                let writer = scope.spawn(move || load::write(writer, 0, ledger));
                let counting =
                    [one, other].map(|host| scope.spawn(move || load::count(host, 0, COUNTER_LBA)));
                (writer, counting, counter)
            })
            .collect();
        scope.spawn(move || meanwhile(home));
        thread::sleep(Duration::from_millis(fastrand::u64(LIFE_MS)));
        member.crash();
        let mut writes = 0;
        for (writer, counting, counter) in working {
            writes += writer.join().expect("a sound host");
            for host in counting {
                *counter += host.join().expect("a sound host");
            }
        }
        writes
    })
}

/// Looks for all that was acknowledged.
fn verify(member: &Member<'_>, volumes: &mut [Volume]) -> Result<(), String> {
    for volume in volumes {
        let mut host = log_in(member, volume.name, 1);
        load::verify(&mut host, 0, &mut volume.ledger)
            .and_then(|()| load::verify_counter(&mut host, 0, COUNTER_LBA, &mut volume.counter))
            .map_err(|what| format!("{}: {what}", volume.name))?;
    }
    Ok(())
}

/// The snapshot still holds what the volume held when it was taken.
fn verify_snapshot(member: &Member<'_>, (volume, kept): &(&str, Vec<u8>)) {
    member.run(&["snapshot", "clone", volume, "kept", "look"]);
    assert!(contents(&mut log_in(member, "look", 1)) == *kept, "the snapshot of {volume} changed");
    member.run(&["volume", "offline", "look", "--yes"]);
    member.run(&["volume", "delete", "look", "--yes"]);
    member.run(&["volume", "purge", "look", "--yes"]);
    member.run(&["snapshot", "delete", volume, "kept", "--yes"]);
}

/// The oldest disk fails. The crash may come before that was heard.
fn fail_a_disk(home: &Home, number: usize) {
    let name = format!("disk-{number}");
    home.ask(&["disk", "fail", &name, "--yes"]);
}

/// Makes the array whole again with a new disk, if the failure was heard.
fn replace_failed(member: &Member<'_>, failed: usize) {
    member.run(&["array", "rebuild-status", "--wait"]);
    let shown = member.json(&["disk", "list"]);
    let name = text(&member.home.path(&format!("disk-{failed}")));
    let is_there = |disk: &serde_json::Value| disk["name"] == name && disk["state"] == "online";
    if shown.as_array().is_some_and(|disks| disks.iter().any(is_there)) {
        member.run(&["disk", "fail", &name, "--yes"]);
        member.run(&["array", "rebuild-status", "--wait"]);
    }
    let fresh = member.home.path(&format!("disk-{}", failed + DISKS));
    member.run(&["disk", "add", &format!("{}:{DISK_BYTES}", text(&fresh))]);
}

#[test]
fn nothing_that_volumes_acknowledged_is_lost_by_kill_9() {
    let rounds = rounds(ROUNDS_DEFAULT);
    let mut home = Home::files(DISKS, DISK_BYTES);
    let mut volumes = volumes();
    let (mut writes, mut oldest) = (0, 0);
    let mut failing = false;
    let mut kept: Option<(&str, Vec<u8>)> = None;
    for round in 0..=rounds {
        let member = home.start(&[]);
        if round == 0 {
            create(&member, &volumes);
        }
        if let Err(what) = verify(&member, &mut volumes) {
            panic!("after crash {round} and {writes} writes: {what}");
        }
        if std::mem::take(&mut failing) {
            replace_failed(&member, oldest);
            oldest += 1;
        }
        if let Some(kept) = kept.take() {
            verify_snapshot(&member, &kept);
        }
        if round % CHECK_EVERY == 0 || round == rounds {
            assert_eq!(member.json(&["array", "check"])["problems"], json!([]), "crash {round}");
        }
        if round % SNAPSHOT_EVERY == 1 {
            let name = volumes[round / SNAPSHOT_EVERY % volumes.len()].name;
            member.run(&["snapshot", "create", name, "kept"]);
            kept = Some((name, contents(&mut log_in(&member, name, 1))));
        }
        failing = round % FAIL_EVERY == FAIL_EVERY - 1;
        if round == rounds {
            member.stop();
        } else {
            let meanwhile = |home: &Home| {
                if failing {
                    fail_a_disk(home, oldest);
                }
            };
            writes += load(member, &mut volumes, meanwhile);
        }
        // A process that dies damages no disk.
        let log = fs::read_to_string(home.path("log")).expect("it has a log");
        assert!(!log.contains("not what was written"), "crash {}: {log}", round + 1);
        // The member remembers its disks, and those of the beginning leave one by one.
        home.forget();
    }
    let increments: u64 = volumes.iter().map(|volume| volume.counter.acknowledged).sum();
    println!("{rounds} crashes of an array: {writes} writes, {increments} increments");
    assert!(writes > rounds && increments > 0, "there was no load");
}

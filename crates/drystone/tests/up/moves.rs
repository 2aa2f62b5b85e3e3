//! What hosts know an array by and what they reserved there goes along with its disks, and what earlier versions
//! kept in files is taken over.

use std::fs;
use std::path::Path;
use std::time::Duration;

use scsi::Status;

use crate::common::Export;
use crate::common::member::{Home, Member, text};
use crate::host::Host;
use crate::log_in;

const HOLDER: &str = "iqn.2026-11.com.example:holder";
const OTHER: &str = "iqn.2026-11.com.example:other";

fn host(member: &Member<'_>, volume: &str, name: &str) -> Host {
    let iqn = member.iqn(volume);
    Host::log_in_as(member.portal(), &iqn, 1, &[0], (name, None)).expect("it is let in")
}

/// PERSISTENT RESERVE OUT with APTPL=1 (SPC-4 6.16): REGISTER this key, then RESERVE Write Exclusive.
fn reserve(host: &mut Host, key: u8) {
    for (action, own, new) in [(0, 0, key), (1, key, 0)] {
        let mut list = [0; 24];
        (list[7], list[15], list[20]) = (own, new, u8::from(action == 0));
        let cdb = [0x5f, action, 1, 0, 0, 0, 0, 0, 24, 0];
        assert!(host.run(0, &cdb, 0, &list).expect("an answer").is_good(), "{action}");
    }
}

/// The keys that are registered (SPC-4 6.15.2).
fn keys(host: &mut Host) -> Vec<u8> {
    let answer = host.run(0, &[0x5e, 0, 0, 0, 0, 0, 0, 1, 0, 0], 256, &[]).expect("an answer");
    answer.data[8..].chunks_exact(8).map(|key| key[7]).collect()
}

fn write(host: &mut Host) -> Status {
    let cdb = [0x2a, 0, 0, 0, 0, 0, 0, 0, 8, 0];
    host.run(0, &cdb, 0, &[7; 4096]).expect("an answer").status
}

/// The device identification page, which names the target port (SPC-4 7.8.6).
fn port(host: &mut Host) -> Vec<u8> {
    host.run(0, &[0x12, 1, 0x83, 1, 0, 0], 256, &[]).expect("an answer").data
}

/// A command line for the same disks with another data directory: that of another machine.
fn on_another_machine<'a>(home: &'a Home, more: &[&str]) -> Member<'a> {
    let data = text(&home.path("data"));
    let line = home.command_line(more).into_iter();
    let other = text(&home.path("other"));
    let line: Vec<String> =
        line.map(|word| if word == data { other.clone() } else { word }).collect();
    home.start_by(crate::drystone(&line.iter().map(String::as_str).collect::<Vec<_>>()))
}

#[test]
fn disks_that_move_bring_along_what_was_reserved_and_how_hosts_know_them() {
    let home = Home::files(2, "256M");
    let member = home.start(&["--iqn", "iqn.2026-11.com.example:san"]);
    member.run(&["volume", "create", "a", "64M"]);
    let iqn = member.iqn("a");
    assert_eq!(iqn, "iqn.2026-11.com.example:san:a");
    let mut holder = host(&member, "a", HOLDER);
    member.run(&["volume", "set", "a", "--shared", "on"]);
    reserve(&mut holder, 5);
    let port_there = port(&mut holder);
    // What was answered GOOD is on the array: a crash may follow at once.
    member.crash();
    let member = on_another_machine(&home, &[]);
    assert_eq!(member.iqn("a"), iqn);
    let mut other = host(&member, "a", OTHER);
    assert_eq!((keys(&mut other), write(&mut other)), (vec![5], Status::ReservationConflict));
    let mut holder = host(&member, "a", HOLDER);
    assert_eq!(write(&mut holder), Status::Good);
    assert_eq!(port(&mut holder), port_there, "the number of its portal group too");
    assert!(!fs::exists(home.path("other/portal-group")).unwrap());
    member.stop();
}

/// What an earlier version wrote for a volume of `host`'s: this one writes the same for `drystone export`.
fn image_of_earlier(dir: &Path) -> (Vec<u8>, String) {
    let state = dir.join("state");
    let disk = format!("file:{}:8M", text(&dir.join("exported")));
    let export = Export::start(&[&disk], &["--state-dir", &text(&state)]);
    let mut holder = Host::log_in_as(export.portals[0], &export.iqn, 1, &[0], (HOLDER, None))
        .expect("it is let in");
    reserve(&mut holder, 5);
    drop(holder);
    drop(export);
    let entries =
        fs::read_dir(&state).expect("it is there").map(|entry| entry.expect("one").path());
    let mut images = entries.filter(|path| text(path).ends_with(".reservations"));
    let image = fs::read(images.next().expect("an image")).expect("it reads");
    let number = fs::read_to_string(state.join("portal-group")).expect("a number");
    (image, number)
}

/// The process is killed wherever it is while it takes the files over, again and again.
#[test]
fn files_of_an_earlier_version_are_taken_over_whenever_that_is_cut_off() {
    const VOLUMES: usize = 12;
    let home = Home::files(2, "256M");
    let (image, number) = image_of_earlier(&home.path(""));
    let member = home.start(&[]);
    for volume in 0..VOLUMES {
        let name = format!("v{volume}");
        member.run(&["volume", "create", &name, "64M"]);
        member.run(&["volume", "set", &name, "--shared", "on"]);
    }
    let id = member.json(&["array", "show"])["id"].as_str().expect("an ID").to_uppercase();
    member.stop();
    let files = home.path("data/reservations");
    fs::create_dir_all(&files).unwrap();
    for volume in 0..VOLUMES * 2 {
        fs::write(files.join(format!("{}-V{volume:X}.reservations", &id[..16])), &image).unwrap();
    }
    fs::write(home.path("data/portal-group"), &number).unwrap();
    for round in 0..10 {
        home.start_and_kill(&[], Duration::from_millis(60 * round));
    }
    // The files are asked no more: the array alone tells.
    home.start(&[]).stop();
    let left = fs::read_dir(&files).unwrap().map(|entry| entry.unwrap().path());
    assert!(left.into_iter().all(|path| text(&path).ends_with(".moved")));
    let member = on_another_machine(&home, &[]);
    for volume in 0..VOLUMES {
        let mut other = log_in(&member, &format!("v{volume}"));
        assert_eq!((keys(&mut other), write(&mut other)), (vec![5], Status::ReservationConflict));
        drop(other);
        // The nexus is the one that had it: the number of the portal group has come along.
        let mut holder = host(&member, &format!("v{volume}"), HOLDER);
        assert_eq!(write(&mut holder), Status::Good, "v{volume}");
    }
    member.stop();
}

#[test]
fn an_operator_sees_and_ends_what_a_host_that_is_gone_has_reserved() {
    let home = Home::files(2, "256M");
    let member = home.start(&[]);
    member.run(&["volume", "create", "vm", "64M"]);
    let mut holder = host(&member, "vm", HOLDER);
    reserve(&mut holder, 5);
    drop(holder);
    let mut other = host(&member, "vm", OTHER);
    assert_eq!(write(&mut other), Status::ReservationConflict);
    let shown = member.run(&["volume", "reservations", "show", "vm"]);
    let held = "'vm': it is reserved: write exclusive (only its holder writes); 1 of 512 registrations, kept over restarts";
    assert!(shown.contains(HOLDER) && shown.trim_end().ends_with(held), "{shown}");
    let asked = member.refused(&["volume", "reservations", "clear", "vm"]);
    assert!(asked.contains("End all reservations of 'vm' (1 registration)?"), "{asked}");
    let left = member.json(&["volume", "reservations", "clear", "vm", "--yes"]);
    assert_eq!((&left["count"], &left["reservation"]), (&0.into(), &serde_json::Value::Null));
    assert_eq!(write(&mut other), Status::Good);
    let audit = member.json(&["audit"]).to_string();
    assert!(audit.contains("/v1/volumes/vm/reservations/clear"), "{audit}");
    let events = member.json(&["events"]).to_string();
    assert!(events.contains("reservations_cleared"), "{events}");
    member.stop();
}

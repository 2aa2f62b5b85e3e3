//! Start, stop, crash, and disks that come and go.

use crate::common::drystone;
use crate::common::member::{Home, Member, text};
use crate::{block, log_in, read, write};
use serde_json::{Value, json};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::thread;
use std::time::Duration;

fn states(disks: &Value) -> Vec<&str> {
    let disks = disks.as_array().expect("a list of disks");
    disks.iter().map(|disk| disk["state"].as_str().expect("a word")).collect()
}

#[test]
fn a_newcomer_has_an_array_of_six_files() {
    let home = Home::bare();
    let member = home.start(&["--hints"]);
    let [array, portal, socket] = &member.lines[..] else { panic!("{:?}", member.lines) };
    assert!(array.contains(" raid=raid10 disks=6 online=6 "), "{array}");
    assert!(portal.contains(" prefix=iqn.2026-11.dev.drystone:"), "{portal}");
    let path = socket.strip_prefix("socket path=").unwrap();
    assert_eq!(fs::metadata(path).unwrap().permissions().mode() & 0o777, 0o600);
    assert_eq!(fs::metadata(home.path("data/disk-5")).unwrap().len(), 8 << 30);
    let shown = member.json(&["array", "show"]);
    assert_eq!((&shown["disks"], &shown["warnings"]), (&json!(6), &json!([])));
    member.stop();
    assert!(!fs::exists(home.path("run/control.sock")).unwrap());
}

#[test]
fn everything_is_there_after_a_stop_and_disks_need_not_be_named_again() {
    let mut home = Home::files(3, "256M");
    let member = home.start(&["--raid", "raid5"]);
    member.run(&["volume", "create", "a", "64M"]);
    member.run(&["volume", "create", "b", "64M"]);
    member.run(&["volume", "offline", "b"]);
    let iqn = member.iqn("a");
    write(&mut log_in(&member, "a"), 3, &block(1));
    member.stop();

    home.forget();
    let member = home.start(&[]);
    assert!(member.lines[0].contains(" raid=raid5 disks=3 online=3 "), "{:?}", member.lines);
    assert!(member.lines[1].ends_with(&format!("state=online iqn={iqn} hosts=loopback name=a")));
    assert!(member.lines[2].contains(" state=offline "), "{:?}", member.lines);
    assert!(read(&mut log_in(&member, "a"), 3) == block(1));
    member.stop();
}

/// The number of a portal group is that of one array, whatever becomes of the process.
#[test]
fn a_member_has_a_portal_group_of_its_own_for_good() {
    let name = |member: &Member<'_>| {
        let shown = member.json(&["array", "show"]);
        let digits = &shown["id"].as_str().unwrap()[28..];
        let digits = if digits == "0000" { "ffff" } else { digits };
        format!("{},t,0x{digits}\0", member.iqn("a"))
    };
    let port = |member: &Member<'_>| {
        let page = [0x12, 1, 0x83, 1, 0, 0];
        let answer = log_in(member, "a").run(0, &page, 256, &[]).unwrap();
        String::from_utf8_lossy(&answer.data).into_owned()
    };
    let mut home = Home::files(1, "256M");
    let member = home.start(&["--raid", "raid0"]);
    member.run(&["volume", "create", "a", "64M"]);
    let first = name(&member);
    assert!(port(&member).contains(&first), "{first}");
    member.crash();
    home.forget();
    let member = home.start(&[]);
    assert!(port(&member).contains(&first), "after a restart");
    member.stop();
}

#[test]
fn the_journal_may_have_disks_of_its_own() {
    let mut home = Home::files(3, "256M");
    let journal = |name: &str| format!("--journal={}:256M", text(&home.path(name)));
    let (one, two) = (journal("fast-0"), journal("fast-1"));
    let member = home.start(&[&one, &two]);
    member.run(&["volume", "create", "a", "64M"]);
    write(&mut log_in(&member, "a"), 11, &block(8));
    member.crash();
    home.forget();
    let member = home.start(&[]);
    assert!(read(&mut log_in(&member, "a"), 11) == block(8));
    assert_eq!(journal_disks(&member), ["fast-0", "fast-1"]);
    assert_eq!(member.json(&["disk", "list"]).as_array().unwrap().len(), 5);
    member.stop();

    // Disks in memory have no name but their kind.
    let home = Home::bare();
    let member = home.start(&["--disk=ram:256M", "--disk=ram:256M", "--journal=ram:256M"]);
    assert_eq!(journal_disks(&member), ["ram:256M#2"]);
    member.stop();
}

/// The last parts of the names of disks that are for the journal.
fn journal_disks(member: &Member) -> Vec<String> {
    let disks = member.json(&["disk", "list"]);
    let disks = disks.as_array().expect("a list of disks").iter();
    let journal = disks.filter(|disk| disk["role"] == "journal");
    let names = journal.map(|disk| disk["name"].as_str().expect("a word"));
    names.map(|name| name.rsplit('/').next().unwrap_or(name).to_owned()).collect()
}

#[test]
fn what_was_acknowledged_survives_a_crash() {
    let home = Home::files(4, "256M");
    for round in 0..3_u8 {
        let member = home.start(&[]);
        if round == 0 {
            member.run(&["volume", "create", "a", "64M"]);
        }
        let mut host = log_in(&member, "a");
        for at in 0..u32::from(round) * 20 {
            assert!(read(&mut host, at * 3) == block(at as u8), "block {at} in round {round}");
        }
        for at in u32::from(round) * 20..u32::from(round + 1) * 20 {
            write(&mut host, at * 3, &block(at as u8));
        }
        member.crash();
    }
    let member = home.start(&[]);
    let report = member.json(&["array", "check"]);
    assert_eq!(report["problems"], json!([]));
    member.stop();
    let disks: Vec<String> = (0..4).map(|n| text(&home.path(&format!("disk-{n}")))).collect();
    let mut words = vec!["array", "check", "--json"];
    disks.iter().for_each(|disk| words.extend(["--disk", disk]));
    let (code, out, err) = home.ask(&words);
    assert_eq!(code, 0, "{err}");
    assert_eq!(serde_json::from_str::<Value>(&out).unwrap()["problems"], json!([]));
}

#[test]
fn a_failed_disk_is_rebuilt_on_the_others_and_replaced() {
    let home = Home::files(5, "256M");
    let member = home.start(&[]);
    member.run(&["volume", "create", "a", "64M"]);
    let mut host = log_in(&member, "a");
    for at in 0..64 {
        write(&mut host, at * 16, &block(at as u8));
    }
    let asked = member.refused(&["disk", "fail", "disk-1"]);
    assert!(asked.contains("write --yes"), "{asked}");
    let disks = member.json(&["disk", "fail", "disk-1", "--yes"]);
    assert_eq!(states(&disks)[1], "failed");
    member.run(&["array", "rebuild-status", "--wait"]);
    let added = member.json(&["disk", "add", &format!("{}:256M", text(&home.path("disk-9")))]);
    assert!(added.as_array().unwrap().iter().any(|d| d["name"] == text(&home.path("disk-9"))));
    for at in 0..64 {
        assert!(read(&mut host, at * 16) == block(at as u8), "block {at}");
    }
    assert_eq!(member.json(&["array", "check"])["problems"], json!([]));
    member.stop();

    // The new disk was remembered.
    let member = home.start(&[]);
    let shown = member.json(&["disk", "show", "disk-9"]);
    assert_eq!(shown["state"], "online");
    assert!(read(&mut log_in(&member, "a"), 16) == block(1));
    member.stop();
}

#[test]
fn a_disk_that_is_missing_at_the_start_leaves_volumes_degraded() {
    let home = Home::files(4, "256M");
    let member = home.start(&[]);
    member.run(&["volume", "create", "a", "64M"]);
    write(&mut log_in(&member, "a"), 9, &block(5));
    member.stop();
    fs::rename(home.path("disk-2"), home.path("away")).unwrap();
    let mut bare = home;
    bare.forget();
    let member = bare.start(&[]);
    assert!(member.lines[0].contains(" disks=4 online=3 "), "{:?}", member.lines);
    assert!(read(&mut log_in(&member, "a"), 9) == block(5));
    assert!(member.log().contains("disk-2"), "{}", member.log());
    member.stop();
}

#[test]
fn data_is_spread_over_an_added_disk_and_the_verdict_comes_first() {
    let home = Home::files(3, "256M");
    let member = home.start(&["--raid", "raid5"]);
    member.run(&["volume", "create", "a", "128M"]);
    let mut host = log_in(&member, "a");
    for at in 0..1000 {
        write(&mut host, at * 16, &block(at as u8));
    }
    member.run(&["disk", "add", &format!("{}:256M", text(&home.path("new")))]);
    assert!(member.run(&["array", "rebalance"]).contains("spread over all disks"));
    let shown = member.run(&["array", "show"]);
    assert!(shown.starts_with("health ") && shown.contains("healthy"), "{shown}");
    let report = member.run(&["array", "check"]);
    assert!(report.starts_with("all is well\n"), "{report}");
    for at in 0..1000 {
        assert!(read(&mut host, at * 16) == block(at as u8), "block {at}");
    }

    // A disk may stay that was to leave, and is forgiven what it did.
    member.run(&["disk", "retire", "new", "--yes", "--no-wait"]);
    member.home.ask(&["disk", "retire", "new", "--cancel"]);
    member.run(&["disk", "clear", "disk-0"]);
    assert!(member.refused(&["disk", "retire", "disk-1", "--cancel"]).contains("disk-1"));
    member.stop();
}

/// What is not logged is not evaluated either; waiting for the end must not be among it.
#[test]
fn no_log_filter_ends_a_member() {
    let home = Home::files(3, "256M");
    for filter in ["off", "error", "warn", "info"] {
        let line = home.command_line(&["--log", filter]);
        let line: Vec<&str> = line.iter().map(String::as_str).collect();
        let member = home.start_by(drystone(&line));
        thread::sleep(Duration::from_millis(300));
        assert!(member.run(&["array", "show"]).contains("healthy"), "{filter}");
        member.stop();
    }
}

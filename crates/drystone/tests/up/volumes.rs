//! Volumes and snapshots, from create to purge.

use crate::common::member::{Home, Member};
use crate::host::Host;
use crate::{block, log_in, read, write};
use serde_json::json;
use std::time::{Duration, Instant};

#[test]
fn a_volume_is_a_target_as_soon_as_it_is_made() {
    let home = Home::files(4, "256M");
    let member = home.start(&[]);
    assert!(member.run(&["volume", "list"]).starts_with("there are no volumes"));
    let made = member.json(&["volume", "create", "vm1", "1G"]);
    assert_eq!(made["size_bytes"], 1 << 30);
    let shown = member.json(&["volume", "show", "vm1"]);
    let wanted = json!({"name": "vm1", "raid": "raid10", "state": "online", "reason": ""});
    for (key, value) in wanted.as_object().unwrap() {
        assert_eq!(shown[key], *value, "{key}");
    }
    let iqn = shown["iqn"].as_str().unwrap();
    assert!(iqn.starts_with("iqn.2026-11.dev.drystone:") && iqn.ends_with(":vm1"), "{iqn}");

    let mut host = log_in(&member, "vm1");
    write(&mut host, 7, &block(1));
    assert!(read(&mut host, 7) == block(1));
    assert!(read(&mut host, 8) == vec![0; 4096], "what was never written is zero");
    assert_eq!(member.json(&["volume", "show", "vm1"])["sessions"], 1);
    let table = member.run(&["volume", "list"]);
    assert!(table.starts_with("NAME") && table.contains("1 GiB") && table.contains(iqn), "{table}");

    let odd = (64_u64 << 20) + 1;
    let said = member.run(&["volume", "create", "odd", &odd.to_string()]);
    let has = (64_u64 << 20) + (64 << 10);
    let rounded = format!(
        "{odd} bytes were asked for, and volumes have whole multiples of 64K: it has {has} bytes"
    );
    assert!(said.contains(&rounded), "{said}");
    assert_eq!(member.json(&["volume", "show", "odd"])["size_bytes"], has);
    assert!(!member.run(&["volume", "resize", "odd", "65M"]).contains("asked for"));
    member.run(&["volume", "create", "DB_2", "64M", "--raid", "raid5", "--block", "4096"]);
    let db = member.json(&["volume", "show", "DB_2"]);
    assert_eq!((&db["raid"], &db["block_bytes"]), (&json!("raid5"), &json!(4096)));
    assert!(db["iqn"].as_str().unwrap().ends_with(":db-2"), "{db}");
    let volumes = member.json(&["volume", "list"]);
    assert_eq!(volumes.as_array().unwrap().len(), 3);
    member.stop();
}

#[test]
fn a_volume_grows_under_its_host() {
    let home = Home::files(2, "256M");
    let member = home.start(&[]);
    member.run(&["volume", "create", "a", "64M"]);
    let mut host = log_in(&member, "a");
    member.run(&["volume", "resize", "a", "128M"]);
    // CAPACITY DATA HAS CHANGED is a unit attention, after which the host repeats its command.
    write(&mut host, (128 << 20 >> 12) - 1, &block(2));
    assert!(read(&mut host, (128 << 20 >> 12) - 1) == block(2));
    let answer = host.run(0, &[0x25, 0, 0, 0, 0, 0, 0, 0, 0, 0], 8, &[]).unwrap();
    assert_eq!(answer.data[..4], ((128_u32 << 20 >> 9) - 1).to_be_bytes());
    member.stop();
}

/// Sets or clears SWP of the control mode page, by MODE SELECT(6).
fn write_protect(host: &mut Host, on: bool) {
    let sensed = host.run(0, &[0x1a, 8, 0x0a, 0, 252, 0], 252, &[]).expect("it is answered").data;
    let mut list = sensed[..16].to_vec();
    (list[0], list[2], list[4], list[8]) = (0, 0, list[4] & 0x3f, if on { 0x08 } else { 0 });
    host.run(0, &[0x15, 0x10, 0, 0, 16, 0], 0, &list).expect("it is taken");
}

#[test]
fn a_volume_that_a_host_write_protects_says_so_and_how_it_ends() {
    let home = Home::files(2, "256M");
    let member = home.start(&[]);
    member.run(&["volume", "create", "a", "64M"]);
    let mut host = log_in(&member, "a");
    write(&mut host, 0, &block(1));
    let shown = |key: &str| member.json(&["volume", "show", "a"])[key].clone();
    let said = "no host can write to volume a, as iqn.";
    assert!(shown("write_protected_by").is_null() && !home.ask(&["status"]).1.contains(said));
    write_protect(&mut host, true);
    assert!(shown("write_protected_by").as_str().is_some_and(|name| name.starts_with("iqn.")));
    let (code, status, _) = home.ask(&["status"]);
    assert!(
        code == 1 && status.contains(said) && status.contains("sdparm --clear=SWP"),
        "{status}"
    );
    let text = member.run(&["volume", "show", "a"]);
    assert!(text.contains(said), "{text}");
    // It is told a moment after the host has its answer.
    let events = |kind: &str, text: &str| {
        let is_told = || {
            let all = member.json(&["events", "--object", "a"]);
            let mut of_kind =
                all.as_array().expect("a list").iter().filter(|event| event["kind"] == kind);
            of_kind.any(|event| event["text"].as_str().is_some_and(|told| told.starts_with(text)))
        };
        let end = Instant::now() + Duration::from_secs(30);
        while !is_told() {
            assert!(Instant::now() < end, "{kind} is not told");
            std::thread::sleep(Duration::from_millis(20));
        }
    };
    events("write_protected", "volume a was write-protected, so that no host can write, by iqn.");
    write_protect(&mut host, false);
    events("write_protection_ended", "volume a was made writable again, by iqn.");
    assert!(shown("write_protected_by").is_null());
    write(&mut host, 0, &block(2));
    // The operator's way.
    write_protect(&mut host, true);
    drop(host);
    member.run(&["volume", "offline", "a", "--yes"]);
    member.run(&["volume", "online", "a"]);
    assert!(!home.ask(&["status"]).1.contains(said) && shown("write_protected_by").is_null());
    write(&mut log_in(&member, "a"), 0, &block(3));
    member.stop();
}

#[test]
fn offline_logs_hosts_out_and_they_may_come_back() {
    let home = Home::files(2, "256M");
    let member = home.start(&[]);
    member.run(&["volume", "create", "a", "64M"]);
    let (portal, iqn) = (member.portal(), member.iqn("a"));
    let mut host = log_in(&member, "a");
    write(&mut host, 0, &block(3));
    assert!(member.refused(&["volume", "offline", "a"]).contains("write --yes"));
    // The host does not log out by itself, so it has the grace time.
    let shown = member.json(&["volume", "offline", "a", "--yes"]);
    assert_eq!((&shown["state"], &shown["sessions"]), (&json!("offline"), &json!(0)));
    drop(host);
    let refused = Host::log_in(portal, &iqn, 1, &[]).map(drop).expect_err("the login is refused");
    assert!(refused.to_string().contains("service unavailable"), "{refused}");
    member.run(&["volume", "online", "a"]);
    assert!(read(&mut log_in(&member, "a"), 0) == block(3));
    member.stop();
}

#[test]
fn deleted_volumes_come_back_until_they_are_purged() {
    let home = Home::files(2, "256M");
    let member = home.start(&[]);
    member.run(&["volume", "create", "a", "64M"]);
    write(&mut log_in(&member, "a"), 5, &block(4));
    let online = member.refused(&["volume", "delete", "a", "--yes"]);
    assert!(online.contains("drystone volume offline a"), "{online}");
    member.run(&["volume", "offline", "a", "--yes"]);
    let asked = member.refused(&["volume", "delete", "a"]);
    assert!(asked.contains("write --yes"), "{asked}");
    assert!(member.run(&["volume", "delete", "a", "--yes"]).contains("recycle bin"));
    assert_eq!(member.json(&["volume", "show", "a"])["state"], "deleted");
    let taken = member.refused(&["volume", "create", "a", "64M"]);
    assert!(taken.contains("recycle bin"), "{taken}");
    member.run(&["volume", "undelete", "a"]);
    member.run(&["volume", "online", "a"]);
    assert!(read(&mut log_in(&member, "a"), 5) == block(4));
    member.run(&["volume", "offline", "a", "--yes"]);
    member.run(&["volume", "delete", "a", "--yes"]);
    assert_eq!(member.json(&["volume", "purge", "a", "--yes"]), json!({"done": true}));
    assert_eq!(member.json(&["volume", "list"]), json!([]));

    // A new volume of the old name is another disk, and holds nothing of the old one.
    member.run(&["volume", "create", "a", "64M"]);
    assert!(read(&mut log_in(&member, "a"), 5) == vec![0; 4096]);
    member.stop();
}

#[test]
fn a_volume_is_renamed_when_no_host_uses_its_old_name() {
    let home = Home::files(2, "256M");
    let member = home.start(&[]);
    member.run(&["volume", "create", "a", "64M"]);
    let mut host = log_in(&member, "a");
    write(&mut host, 1, &block(6));
    let refused = member.refused(&["volume", "rename", "a", "b"]);
    assert!(refused.contains("1 host is logged in"), "{refused}");
    drop(host);
    while member.json(&["volume", "show", "a"])["sessions"] != 0 {
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    member.run(&["volume", "rename", "a", "b"]);
    assert!(read(&mut log_in(&member, "b"), 1) == block(6));
    assert!(member.refused(&["volume", "show", "a"]).contains("no volume 'a'"));
    member.stop();
}

#[test]
fn snapshots_keep_what_was_and_are_served_cloned_and_rolled_back_to() {
    let home = Home::files(4, "256M");
    let member = home.start(&[]);
    member.run(&["volume", "create", "a", "64M"]);
    member.run(&["volume", "create", "b", "64M"]);
    let mut host = log_in(&member, "a");
    write(&mut host, 0, &block(1));
    let set = member.json(&["snapshot", "create", "a,b", "monday"]);
    assert_eq!(set.as_array().unwrap().len(), 2);
    write(&mut host, 0, &block(2));
    write(&mut host, 100, &block(3));

    let changed = member.json(&["snapshot", "diff", "a", "monday"]);
    let wanted = json!([
        {"at": 0, "len_bytes": 65536},
        {"at": 100 * 4096 / 65536 * 65536, "len_bytes": 65536},
    ]);
    assert_eq!(changed, wanted);
    let counted = member.json(&["snapshot", "list", "a", "--space"]);
    assert_eq!(counted[0]["space"]["unique_bytes"], 65536, "{counted}");

    let shown = member.json(&["snapshot", "online", "a", "monday"]);
    let iqn = shown["iqn"].as_str().unwrap();
    let mut old = Host::log_in(member.portal(), iqn, 2, &[0]).unwrap();
    assert!(read(&mut old, 0) == block(1));
    let write_it = old.run(0, &[0x2a, 0, 0, 0, 0, 0, 0, 0, 8, 0], 0, &block(9)).unwrap();
    assert_eq!(write_it.key(), Some(scsi::SenseKey::DataProtect), "a snapshot is read-only");
    let online = member.refused(&["snapshot", "delete", "a", "monday", "--yes"]);
    assert!(online.contains("drystone snapshot offline a monday"), "{online}");
    drop(old);
    member.run(&["snapshot", "offline", "a", "monday"]);

    member.run(&["snapshot", "clone", "a", "monday", "c"]);
    assert_eq!(member.json(&["volume", "show", "c"])["origin"], "a@monday");
    let mut clone = log_in(&member, "c");
    assert!(read(&mut clone, 0) == block(1));
    write(&mut clone, 0, &block(7));

    let online = member.refused(&["snapshot", "rollback", "a", "monday", "--yes"]);
    assert!(online.contains("drystone volume offline a"), "{online}");
    drop(host);
    member.run(&["volume", "offline", "a", "--yes"]);
    member.run(&["snapshot", "rollback", "a", "monday", "--yes"]);
    member.run(&["volume", "online", "a"]);
    let mut host = log_in(&member, "a");
    assert!(read(&mut host, 0) == block(1) && read(&mut host, 100) == vec![0; 4096]);
    member.run(&["snapshot", "delete", "a", "monday", "--yes"]);
    // As long as the volume and the clone both come from it, it waits in the background.
    let left = member.json(&["snapshot", "list", "a"]);
    assert!(left.as_array().unwrap().iter().all(|left| left["deleting"] == true), "{left}");
    let gone = member.refused(&["snapshot", "clone", "a", "monday", "d"]);
    assert!(gone.contains("monday"), "{gone}");
    assert!(read(&mut clone, 0) == block(7), "the clone does not need it");
    member.stop();
}

#[test]
fn an_old_name_leads_nowhere_and_may_come_back() {
    let home = Home::files(2, "256M");
    let member = home.start(&[]);
    member.run(&["volume", "create", "a", "64M"]);
    let old = member.iqn("a");
    write(&mut log_in(&member, "a"), 0, &block(1));
    member.run(&["volume", "rename", "a", "b"]);
    let said = Host::log_in(member.portal(), &old, 1, &[]).err().unwrap().to_string();
    assert!(said.contains("not found"), "{said}");
    assert!(read(&mut log_in(&member, "b"), 0) == block(1));
    member.run(&["volume", "rename", "b", "a"]);
    assert!(read(&mut log_in(&member, "a"), 0) == block(1));
    member.stop();
}

/// Hosts that were fenced off must not get in, and the operator must hear of it where he looks.
#[test]
fn a_volume_that_cannot_be_served_is_told_of_wherever_an_operator_looks() {
    let home = Home::files(2, "256M");
    let member = home.start(&[]);
    member.run(&["volume", "create", "a", "64M"]);
    let id = member.json(&["array", "show"])["id"].as_str().unwrap().to_uppercase();
    member.stop();
    // An earlier version kept them in files; this one takes over what is there as it is.
    let files = home.path("data/reservations");
    std::fs::create_dir(&files).unwrap();
    for number in 0..4 {
        let name = format!("{}-V{number}.reservations", &id[..16]);
        std::fs::write(files.join(name), [7; 300]).unwrap();
    }

    let member = home.start(&[]);
    let line = member.lines.iter().find(|line| line.starts_with("volume ")).unwrap();
    assert!(line.contains(" state=not_served "), "{line}");
    let why = "the saved reservations in ";
    let (code, out, err) = home.ask(&["status"]);
    assert!(code == 1 && out.contains("volumes  0 of 1 served") && out.contains(why), "{out}{err}");
    assert!(out.starts_with("needs attention: 1 volume is not served"), "{out}");
    assert!(member.json(&["volume", "show", "a"])["not_served"].as_str().unwrap().contains(why));
    let refused = member.refused(&["volume", "online", "a"]);
    assert!(refused.contains("cannot be served") && refused.contains(why), "{refused}");
    assert!(refused.contains("make a clone"), "{refused}");
    member.run(&["snapshot", "create", "a", "now"]);
    member.run(&["snapshot", "clone", "a", "now", "b"]);
    log_in(&member, "b");
    member.stop();
}

/// A volume `vm1:nightly` and a snapshot `nightly` of `vm1` are two disks, whichever was there first and
/// after any restart; where two names would be one, the second is refused.
#[test]
fn no_two_disks_ever_share_a_name() {
    let home = Home::files(2, "256M");
    let mut member = home.start(&[]);
    let make = |member: &Member<'_>, name: &str, seed| {
        member.run(&["volume", "create", name, "64M"]);
        write(&mut log_in(member, name), 0, &block(seed));
    };
    make(&member, "vm1", 1);
    member.run(&["snapshot", "create", "vm1", "nightly"]);
    member.run(&["snapshot", "online", "vm1", "nightly"]);
    make(&member, "vm1:nightly", 2);
    make(&member, "vm2:nightly", 3);
    make(&member, "vm2", 4);
    member.run(&["snapshot", "create", "vm2", "nightly"]);
    member.run(&["snapshot", "online", "vm2", "nightly"]);
    write(&mut log_in(&member, "vm2"), 0, &block(5));
    write(&mut log_in(&member, "vm1"), 0, &block(6));
    for refused in [
        &["volume", "create", "vm1-nightly", "64M"][..],
        &["volume", "create", "VM2_nightly", "64M"],
        &["volume", "rename", "vm1", "vm2-nightly"],
    ] {
        let said = member.refused(refused);
        assert!(said.contains("same iSCSI name"), "{said}");
    }
    for _ in 0..2 {
        let volumes = [("vm1", 6), ("vm1:nightly", 2), ("vm2:nightly", 3), ("vm2", 5)];
        for (name, seed) in volumes {
            assert!(read(&mut log_in(&member, name), 0) == block(seed), "{name}");
        }
        let mut names: Vec<_> = volumes.map(|(name, _)| member.iqn(name)).into();
        for (volume, seed) in [("vm1", 1), ("vm2", 4)] {
            let shown = member.json(&["snapshot", "list", volume]);
            let iqn = shown[0]["iqn"].as_str().unwrap();
            let mut host = Host::log_in(member.portal(), iqn, 2, &[0]).unwrap();
            assert!(read(&mut host, 0) == block(seed), "the snapshot of {volume}");
            names.push(iqn.to_owned());
        }
        names.sort();
        names.dedup();
        assert_eq!(names.len(), 6, "{names:?}");
        member.crash();
        member = home.start(&[]);
    }
    member.stop();
}

/// SANITIZE (SBC-4 5.26) with IMMED=1: OVERWRITE as often as this, or BLOCK ERASE.
fn sanitize(host: &mut Host, overwrites: Option<u8>) {
    let (action, list) = match overwrites {
        Some(count) => (0x81, vec![count, 0, 0, 4, 0, 0, 0, 0]),
        None => (0x82, Vec::new()),
    };
    let cdb = [0x48, action, 0, 0, 0, 0, 0, 0, list.len() as u8, 0];
    let answer = host.run(0, &cdb, 0, &list).expect("an answer");
    assert!(answer.is_good(), "{answer:?}");
}

/// What a SANITIZE has still to erase is not kept by a snapshot, nor by clones of it.
#[test]
fn no_snapshot_keeps_what_a_sanitize_is_to_erase() {
    let home = Home::files(2, "256M");
    let member = home.start(&[]);
    member.run(&["volume", "create", "a", "64M"]);
    member.run(&["volume", "create", "b", "64M"]);
    let mut host = log_in(&member, "a");
    write(&mut host, 16383, &block(1));
    sanitize(&mut host, Some(31));
    let why = "a SANITIZE of 'a' has not ended well yet";
    for volumes in ["a", "b,a"] {
        let said = member.refused(&["snapshot", "create", volumes, "s"]);
        assert!(said.contains(why), "{said}");
    }
    member.run(&["snapshot", "create", "b", "s"]);
    member.crash();

    let member = home.start(&[]);
    let said = member.refused(&["snapshot", "create", "a", "s"]);
    assert!(said.contains(why), "cut off: {said}");
    member.run(&["volume", "offline", "a", "--yes"]);
    assert!(member.refused(&["snapshot", "create", "a", "s"]).contains(why), "nor offline");
    member.run(&["volume", "rename", "a", "c"]);
    assert!(member.refused(&["snapshot", "create", "c", "s"]).contains("SANITIZE of 'c'"));
    member.run(&["volume", "online", "c"]);
    assert_eq!(member.json(&["snapshot", "list", "c"]), json!([]));
    // Not ready, but a SANITIZE is what it takes.
    let mut host = Host::log_in(member.portal(), &member.iqn("c"), 1, &[]).unwrap();
    sanitize(&mut host, None);
    while !host.run(0, &[0; 6], 0, &[]).unwrap().is_good() {}
    member.run(&["snapshot", "create", "c", "s"]);
    member.run(&["snapshot", "clone", "c", "s", "d"]);
    assert!(read(&mut log_in(&member, "d"), 16383) == vec![0; 4096]);
    member.stop();
}

#[test]
fn what_is_set_for_the_array_and_a_volume_stays_set() {
    let home = Home::files(2, "256M");
    let member = home.start(&[]);
    let shown = member.json(&["array", "show"]);
    assert_eq!((&shown["scrub_days"], &shown["warn_percents"]), (&json!(30), &json!([80])));
    let set = ["array", "set", "--rebuild-share", "20", "--scrub-every", "7", "--warn-at", "90,1"];
    assert_eq!(member.json(&set)["rebuild_share_percent"], 20);
    member.run(&["volume", "create", "a", "64M"]);
    let twice = ["volume", "set", "a", "--read-ahead", "4M", "--read-cache", "off"];
    assert_eq!(member.json(&twice)["cached"], false);
    member.run(&["volume", "create", "once", "64M", "--no-cache"]);
    assert_eq!(member.json(&["volume", "set", "once", "--read-cache", "on"])["cached"], true);
    let set = ["array", "set", "--cache-memory", "32M"];
    assert!(member.run(&set).contains("keeps to this until the member stops"));
    assert_eq!(member.json(&set)["cache_memory"]["bytes_max"], 32 << 20);
    let refused = member.refused(&["array", "set", "--cache-memory", "1P", "--scrub-every", "3"]);
    assert!(refused.contains("more than three quarters of the memory"), "{refused}");
    member.run(&["array", "set", "--scrub-every", "0"]);
    member.crash();

    let member = home.start(&[]);
    let shown = member.json(&["array", "show"]);
    let wanted = json!({"rebuild_share_percent": 20, "scrub_days": 0, "warn_percents": [1, 90]});
    for (key, value) in wanted.as_object().unwrap() {
        assert_eq!(shown[key], *value, "{key}");
    }
    let a = member.json(&["volume", "show", "a"]);
    assert_eq!((&a["read_ahead_bytes"], &a["cached"]), (&json!(4 << 20), &json!(false)));
    assert_eq!(member.json(&["volume", "show", "once"])["cached"], true);
    // The start decides.
    assert_ne!(shown["cache_memory"]["bytes_max"], 32 << 20);
    // More than one percent of these disks.
    member.run(&["volume", "create", "b", "64M", "--thick"]);
    assert!(member.json(&["array", "show"])["warnings"][0].as_str().unwrap().contains("in use"));
    let (code, _, _) = home.ask(&["array", "set"]);
    assert_eq!(code, 2, "nothing to set");
    member.stop();
}

#[test]
fn hosts_write_to_a_snapshot_that_keeps_its_moment() {
    let home = Home::files(4, "256M");
    let member = home.start(&[]);
    member.run(&["volume", "create", "a", "64M"]);
    let mut host = log_in(&member, "a");
    write(&mut host, 0, &block(1));
    member.run(&["snapshot", "create", "a", "s"]);
    let shown = member.json(&["snapshot", "online", "a", "s"]);
    assert_eq!(shown["access"], "read-only");
    let online = member.refused(&["snapshot", "online", "a", "s", "--writable"]);
    assert!(online.contains("drystone snapshot offline a s"), "{online}");
    member.run(&["snapshot", "offline", "a", "s"]);
    let shown = member.json(&["snapshot", "online", "a", "s", "--writable"]);
    assert_eq!((&shown["access"], &shown["online"]), (&json!("read-write"), &json!(true)));
    let iqn = shown["iqn"].as_str().unwrap();
    let mut scratch = Host::log_in(member.portal(), iqn, 2, &[0]).unwrap();
    assert!(read(&mut scratch, 0) == block(1));
    write(&mut scratch, 0, &block(2));
    write(&mut scratch, 900, &block(3));
    assert!(read(&mut host, 0) == block(1), "the volume is another disk");
    assert_eq!(member.json(&["volume", "list"]).as_array().unwrap().len(), 1);
    let listed = member.json(&["snapshot", "list", "a", "--space"]);
    assert_eq!(listed[0]["space"]["written_bytes"], 2 * 65536, "{listed}");
    let table = member.run(&["snapshot", "list", "a", "--space"]);
    assert!(table.contains("read-write") && table.contains("128 KiB"), "{table}");
    let hosts = member.refused(&["volume", "rename", "a", "b"]);
    assert!(hosts.contains("logged in"), "{hosts}");
    member.crash();

    // It is online as it was, with all that was written.
    let member = home.start(&[]);
    let mut scratch = Host::log_in(member.portal(), iqn, 2, &[0]).unwrap();
    assert!(read(&mut scratch, 0) == block(2) && read(&mut scratch, 900) == block(3));
    assert_eq!(member.json(&["snapshot", "diff", "a", "s"]), json!([]));
    member.run(&["volume", "offline", "a", "--yes"]);
    let online = member.refused(&["volume", "delete", "a", "--yes"]);
    assert!(online.contains("drystone snapshot offline a s"), "{online}");
    drop(scratch);
    member.run(&["snapshot", "offline", "a", "s"]);
    // Read-only it is the moment; read-write again what was written, until it is thrown away.
    member.run(&["snapshot", "online", "a", "s"]);
    assert!(read(&mut Host::log_in(member.portal(), iqn, 2, &[0]).unwrap(), 0) == block(1));
    member.run(&["snapshot", "offline", "a", "s"]);
    member.run(&["snapshot", "online", "a", "s", "--writable"]);
    assert!(read(&mut Host::log_in(member.portal(), iqn, 2, &[0]).unwrap(), 0) == block(2));
    member.run(&["snapshot", "offline", "a", "s"]);
    let fresh = ["snapshot", "online", "a", "s", "--writable", "--fresh"];
    assert!(member.refused(&fresh).contains("write --yes"));
    member.run(&[&fresh[..], &["--yes"]].concat());
    assert!(read(&mut Host::log_in(member.portal(), iqn, 2, &[0]).unwrap(), 0) == block(1));
    member.run(&["snapshot", "offline", "a", "s"]);
    member.run(&["snapshot", "delete", "a", "s", "--yes"]);
    assert_eq!(member.json(&["snapshot", "list", "a"]), json!([]));
    member.stop();
}

//! What cannot be is told in one sentence, and changes nothing.

use crate::common::member::{Home, text};
use crate::common::{drystone, finish};
use crate::{block, log_in, start_ends, start_refused, write};
use serde_json::json;
use std::fs;

#[test]
fn a_second_member_at_one_socket_is_refused() {
    let home = Home::files(2, "256M");
    let member = home.start(&[]);
    let said = start_refused(&home, &[]);
    assert!(said.contains("answers at") && said.contains("--socket"), "{said}");
    // At another socket it finds the directory in use.
    let other = text(&home.path("run/other.sock"));
    let words = home.command_line(&[]);
    let words: Vec<&str> = words
        .iter()
        .map(|word| if word.ends_with("control.sock") { other.as_str() } else { word })
        .collect();
    let output = finish(&mut drystone(&words));
    assert_eq!(output.status.code(), Some(1));
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    let wanted = format!("another drystone (pid {}) uses", member.pid());
    assert!(said.contains(&wanted) && !said.contains("missing"), "{said}");
    // In another directory the disks.
    let elsewhere = text(&home.path("elsewhere"));
    let words: Vec<&str> =
        words.iter().map(|w| if w.ends_with("/data") { elsewhere.as_str() } else { w }).collect();
    let output = finish(&mut drystone(&words));
    assert_eq!(output.status.code(), Some(1));
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    let wanted = format!("is in use by another drystone (pid {})", member.pid());
    assert!(said.contains(&wanted) && !said.contains("missing"), "{said}");
    member.run(&["volume", "create", "a", "64M"]);
    member.stop();
}

#[test]
fn disks_that_cannot_be_an_array_are_refused() {
    let home = Home::bare();
    let disk = |name: &str| text(&home.path(name));
    let foreign = disk("foreign");
    let mut bytes = vec![0; 256 << 20];
    bytes[..512].fill(0x5a);
    fs::write(&foreign, &bytes).unwrap();
    let said = start_refused(&home, &["--disk", &foreign]);
    assert!(said.contains(&foreign) && said.contains("holds"), "{said}");
    assert!(fs::read(&foreign).unwrap() == bytes, "nothing was written to it");

    let small = format!("--disk={}:1M", disk("small"));
    let said = start_refused(&home, &[&small]);
    assert!(said.contains("small"), "{said}");
    let (one, again) = (format!("--disk={}:256M", disk("a")), format!("--disk={}", disk("a")));
    let said = start_refused(&home, &[&one, &again]);
    assert!(said.ends_with("is given twice: write it once"), "{said}");
    let said = start_refused(&home, &[&one, "--raid", "raid6"]);
    assert!(said.contains("raid6 needs 4 disks"), "{said}");
    let missing = disk("missing");
    let said = start_refused(&home, &["--disk", &missing]);
    assert_eq!(
        said,
        format!("there is no '{missing}': add a size to make it, such as {missing}:100G")
    );
    let device = start_refused(&home, &["--disk", "/dev/nope"]);
    assert_eq!(device, "there is no '/dev/nope'");
}

#[test]
fn a_restart_does_not_open_a_member_to_others() {
    let home = Home::files(2, "256M");
    let (chap, allow) = (["--chap", "alice:a-secret-of-16-b"], ["--allow", "127.0.0.1/32"]);
    home.start(&[chap, allow].concat()).stop();
    // A service manager does not try again what a restart does not mend.
    let said = start_ends(&home, &chap, 2);
    assert!(said.contains("only some hosts may log in") && said.contains("--allow"), "{said}");
    let said = start_ends(&home, &allow, 2);
    assert!(said.contains("log in by CHAP") && said.contains("--open-access"), "{said}");
    assert!(said.contains("keep all out that no access list of a volume lets in"), "{said}");
    // Other rules and another secret are what an operator wants.
    home.start(&["--chap", "bob:another-secret-16", "--allow", "192.0.2.0/24"]).stop();
    home.start(&[&allow[..], &["--open-access"]].concat()).stop();
    home.start(&allow).stop();
    start_ends(&home, &[], 2);
    home.start(&["--open-access"]).stop();
    home.start(&[]).stop();
}

#[test]
fn requests_that_cannot_be_are_refused_with_the_way_out() {
    let home = Home::files(3, "256M");
    let nobody = home.ask(&["volume", "list"]);
    assert_eq!(nobody.0, 1);
    assert!(nobody.2.contains("start one with 'drystone up'"), "{}", nobody.2);

    let member = home.start(&[]);
    member.run(&["volume", "create", "a", "64M"]);
    for (words, part) in [
        (&["volume", "create", "a", "64M"][..], "already"),
        (&["volume", "create", "A", "64M"], "the same iSCSI name as 'a'"),
        (&["volume", "create", "a b", "64M"], "cannot be a name"),
        (&["volume", "create", "b", "1G", "--raid", "raid6"], "raid6 needs 4 disks"),
        (&["volume", "create", "b", "20G", "--thick"], "make it thin"),
        (&["volume", "show", "b"], "drystone volume list"),
        (&["volume", "resize", "a", "32M"], "--shrink"),
        (&["volume", "purge", "a", "--yes"], "not in the recycle bin"),
        (&["snapshot", "rollback", "a", "x", "--yes"], "no snapshot"),
        (&["snapshot", "clone", "a", "x", "c"], "no snapshot"),
        (&["disk", "show", "17"], "drystone disk list"),
        (&["disk", "add", "disk-0"], "there is no '"),
        (&["disk", "retire", "disk-0"], "write --yes"),
    ] {
        let said = member.refused(words);
        assert!(said.contains(part), "{words:?}: {said}");
    }
    let known = text(&home.path("disk-0"));
    let said = member.refused(&["disk", "add", &known]);
    assert!(said.contains("is a disk of the array already"), "{said}");
    assert_eq!(member.json(&["volume", "list"]).as_array().unwrap().len(), 1);
    let (code, _, err) = home.ask(&["volume"]);
    assert!(code == 2 && err.contains("write one of create, list, show"), "{err}");
    assert_eq!(member.json(&["array", "rebuild-status"]), json!([]));
    member.stop();
    let other_level = start_refused(&home, &["--raid", "raid5"]);
    assert!(other_level.contains("has raid10: leave out --raid"), "{other_level}");
}

/// What could be purged is said where room is missing.
#[test]
fn who_finds_no_room_hears_what_deleted_volumes_hold() {
    let home = Home::files(2, "256M");
    let member = home.start(&[]);
    for (name, at) in [("one", 0), ("two", 100)] {
        member.run(&["volume", "create", name, "64M"]);
        write(&mut log_in(&member, name), at, &block(1));
    }
    let huge = ["volume", "create", "huge", "1T", "--thick"];
    assert!(!member.refused(&huge).contains("deleted"), "nothing is");
    for (name, said) in [
        (
            "one",
            "; 64 KiB are held by deleted volumes: 'drystone volume purge one' gives them back",
        ),
        (
            "two",
            "; 128 KiB are held by deleted volumes: 'drystone volume purge NAME' gives them back",
        ),
    ] {
        member.run(&["volume", "offline", name, "--yes"]);
        member.run(&["volume", "delete", name, "--yes"]);
        let refused = member.refused(&huge);
        assert!(refused.contains("make it thin; ") && refused.ends_with(said), "{refused}");
    }
    member.stop();
}

#[test]
fn a_refused_volume_costs_no_space() {
    let home = Home::files(4, "256M");
    let member = home.start(&[]);
    let used = |shown: &serde_json::Value| shown["used_bytes"].as_u64().unwrap();
    let empty = used(&member.json(&["array", "show"]));
    let refused = member.refused(&["volume", "create", "huge", "1T", "--thick"]);
    assert!(refused.contains("make it thin"), "{refused}");
    assert_eq!(used(&member.json(&["array", "show"])), empty, "there is no room for settings yet");
    // That comes with the first volume.
    member.run(&["volume", "create", "first", "16M"]);
    let before = member.json(&["array", "show"]);
    assert!(used(&before) - empty >= 64 << 20, "{before}");
    let refused = member.refused(&["volume", "create", "huge", "1T", "--thick"]);
    assert!(refused.contains("make it thin"), "{refused}");
    let after = member.json(&["array", "show"]);
    assert_eq!(
        (&before["free_bytes"], &before["used_bytes"]),
        (&after["free_bytes"], &after["used_bytes"])
    );
    assert_eq!(before["warnings"], after["warnings"]);

    // What is set aside is in use, once with each copy.
    member.run(&["volume", "create", "a", "64M", "--thick"]);
    let thick = member.json(&["array", "show"]);
    assert_eq!(used(&thick) - used(&before), 128 << 20);
    member.stop();
}

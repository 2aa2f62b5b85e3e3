//! A member that an earlier build left behind: its disks, its directory, all that was set. What starts it today must
//! start it for ever. A build that writes a newer format gets an image of its own beside these.

use crate::common::member::{Home, text};
use crate::{block, log_in, read, write};
use serde_json::json;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Images by their file, oldest first.
const IMAGES: [&str; 1] = ["member-1.tar.xz"];

/// Set to make the newest image anew, by hand and once: one that was promised never changes.
const WRITE: &str = "DRYSTONE_GOLDEN_WRITE";

const DISKS: usize = 3;
const DISK_SIZE: &str = "96M";

/// What stands in an image for the directory in which the member was.
const PLACE: &str = "/@home@";

/// The list of disks that are remembered, which names them by their paths.
const REMEMBERED: &str = "data/disks";

fn image(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(name)
}

fn tar(words: &[&str]) {
    let status = Command::new("tar").args(words).status().expect("tar is installed");
    assert!(status.success(), "tar {words:?}");
}

/// Replaces a text in the list of disks.
fn rewrite(home: &Home, from: &str, to: &str) {
    let path = home.path(REMEMBERED);
    let list = fs::read_to_string(&path).expect("the list of disks is there");
    assert!(list.contains(from), "{list}");
    fs::write(path, list.replace(from, to)).expect("it can be written");
}

fn home_of(home: &Home) -> String {
    text(&home.path("")).trim_end_matches('/').to_owned()
}

/// Something of all that can be set, and data.
fn make(name: &str) {
    let home = Home::files(DISKS, DISK_SIZE);
    let member = home.start(&["--raid", "raid5"]);
    let secret = |name: &str, contents: &str| {
        let path = home.path(name);
        fs::write(&path, contents).expect("it can be written");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).expect("it is ours");
        text(&path)
    };
    let (hush, other) = (secret("hush", "hush-hush-hush"), secret("other", "other-hush-hush"));
    for words in [
        &["volume", "create", "vm", "32M"][..],
        &["volume", "create", "log:1", "4M", "--raid", "raid1", "--cache", "volatile"],
        &["volume", "create", "gone", "4M"],
        &["volume", "set", "vm", "--shared", "on"],
        &["chap", "add", "al", "--secret-file", &hush],
        &["chap", "mutual", "set", "array", "--secret-file", &other],
        &["policy", "create", "rack1"],
        &["policy", "add", "rack1", "--chap", "al", "--ip", "10.1.*.*"],
        &["volume", "access", "add", "log:1", "--policy", "rack1", "--for", "snapshot"],
        &["volume", "access", "add", "log:1", "--iqn", "iqn.2026-11.com.example:a"],
        &["schedule", "create", "s", "--volume", "vm", "--every", "4h", "--keep", "3", "--paused"],
        &["account", "add", "ada", "--role", "operator", "--password-file", &hush],
        &["token", "create", "ci", "--role", "read-only"],
        &["notify", "add", "ops", "--webhook", "https://127.0.0.1:9/p4th", "--secret-file", &hush],
        &["notify", "pause", "ops"],
        &["array", "set", "--scrub-every", "7"],
        &["snapshot", "create", "vm", "first"],
        &["volume", "offline", "gone"],
        &["volume", "delete", "gone", "--yes"],
    ] {
        member.run(words);
    }
    let mut host = log_in(&member, "vm");
    for at in 0..16 {
        write(&mut host, at, &block(at as u8 + 1));
    }
    drop(host);
    fs::write(home.path("san.toml"), member.run(&["export-config"])).expect("it can be written");
    member.stop();
    rewrite(&home, &home_of(&home), PLACE);
    let (image, dir) = (text(&image(name)), home_of(&home));
    fs::create_dir_all(Path::new(&image).parent().expect("a folder")).expect("it can be made");
    let disks: Vec<String> = (0..DISKS).map(|number| format!("disk-{number}")).collect();
    let fixed = ["--sparse", "--owner=0", "--group=0", "-cJf", &image, "-C", &dir];
    let what = ["data", "san.toml", "hush"].into_iter().chain(disks.iter().map(String::as_str));
    tar(&fixed.into_iter().chain(what).collect::<Vec<_>>());
}

fn check(name: &str) {
    let mut home = Home::files(DISKS, DISK_SIZE);
    let dir = home_of(&home);
    tar(&["--sparse", "--no-same-owner", "-xJf", &text(&image(name)), "-C", &dir]);
    rewrite(&home, PLACE, &dir);
    // As after an update: nothing is named, and the member finds its disks.
    home.forget();
    let member = home.start(&[]);
    let file = text(&home.path("san.toml"));
    let (code, out, err) = home.ask(&["diff", "-f", &file]);
    assert_eq!(code, 0, "{out}{err}");
    let (code, out, err) = home.ask(&["status"]);
    assert_eq!(code, 0, "{out}{err}");

    let volumes = member.json(&["volume", "list"]);
    let of = |name: &str| {
        let all = volumes.as_array().expect("a list");
        all.iter().find(|volume| volume["name"] == name).expect("it is there").clone()
    };
    assert_eq!((&of("gone")["state"], &of("vm")["hosts"]), (&json!("deleted"), &json!("loopback")));
    let mut host = log_in(&member, "vm");
    for at in 0..16 {
        assert!(read(&mut host, at) == block(at as u8 + 1), "block {at}");
    }
    drop(host);
    let snapshots = member.json(&["snapshot", "list", "vm"]);
    assert_eq!(snapshots[0]["name"], "first", "{snapshots}");
    let users = member.json(&["chap", "list"]);
    assert_eq!(users["users"][0], json!({"user": "al", "usable": true}), "its secret is opened");
    assert_eq!(users["mutual"], json!({"user": "array", "usable": true}));
    assert_eq!(member.json(&["token", "list"])[0]["name"], "ci");
    let account = &member.json(&["account", "list"])[0];
    assert_eq!((&account["name"], &account["role"]), (&json!("ada"), &json!("operator")));
    let ops = member.json(&["notify", "show", "ops"]);
    assert_eq!((&ops["usable"], &ops["paused"]), (&json!(true), &json!(true)), "{ops}");
    assert_eq!(member.json(&["array", "show"])["scrub_days"], 7);
    let audit = member.json(&["audit"]);
    assert!(audit.to_string().contains("rack1"), "what was done before is still told");
    // It can be changed as well.
    member.run(&["schedule", "resume", "s"]);
    member.run(&["volume", "undelete", "gone"]);
    member.stop();
}

#[test]
fn what_earlier_builds_left_behind_is_found_again() {
    if std::env::var_os(WRITE).is_some() {
        make(IMAGES.last().expect("there is one"));
    }
    IMAGES.into_iter().for_each(check);
}

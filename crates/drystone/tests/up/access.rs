//! Who may use which volume: commands, and hosts that log in or are kept out.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use iscsi::chap::{Credentials, InitiatorChap};

use crate::common::member::{Home, Member, text};
use crate::host::Host;
use crate::{block, read, write};

const WEB: &str = "iqn.2026-11.com.example:web";
const DB: &str = "iqn.2026-11.com.example:db";
const SECRET: &str = "sixteen-bytes-ok";

fn log_in(member: &Member<'_>, volume: &str, name: &str) -> std::io::Result<Host> {
    Host::log_in_as(member.portal(), &member.iqn(volume), 1, &[0], (name, None))
}

/// As the CHAP user `al`, with this secret.
pub(crate) fn prove(member: &Member<'_>, volume: &str, secret: &str) -> std::io::Result<Host> {
    let al = Credentials::new("al", secret).expect("good credentials");
    let chap = InitiatorChap::new(al, None).expect("one direction");
    Host::log_in_as(member.portal(), &member.iqn(volume), 1, &[0], (DB, Some(chap)))
}

fn is_ended(host: &mut Host) -> bool {
    host.run(0, &[0; 6], 0, &[]).is_err()
}

/// A file of mode 600 in the home of a member.
fn secret_file(home: &Home, secret: &str) -> String {
    let path = home.path("secret");
    fs::write(&path, format!("{secret}\n")).expect("it is written");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).expect("its mode is set");
    text(&path)
}

#[test]
fn a_list_is_for_those_on_it_and_taking_one_off_ends_its_sessions() {
    let home = Home::files(4, "256M");
    let member = home.start(&[]);
    for name in ["vm", "open"] {
        member.run(&["volume", "create", name, "64M"]);
    }
    let none = member.run(&["volume", "access", "list", "vm"]);
    assert!(none.contains("hosts on the machine of the member"), "{none}");
    let mut before = log_in(&member, "vm", DB).expect("everybody may");
    let mut beside = log_in(&member, "open", DB).expect("everybody may");
    member.run(&["volume", "access", "add", "vm", "--iqn", WEB, "--ip", "127.*.*.*"]);
    assert!(is_ended(&mut before), "who is not on the list is out");
    assert!(!is_ended(&mut beside), "another volume is as it was");
    assert!(log_in(&member, "vm", DB).is_err());
    let mut web = log_in(&member, "vm", WEB).expect("it is on the list");
    write(&mut web, 3, &block(3));
    member.run(&["volume", "access", "add", "vm", "--iqn", DB]);
    assert!(log_in(&member, "vm", DB).is_err(), "one host at a time");
    member.run(&["volume", "set", "vm", "--shared", "on"]);
    let mut db = log_in(&member, "vm", DB).expect("it is shared");
    let list = member.json(&["volume", "access", "list", "vm"]);
    assert_eq!((&list["shared"], &list["entries"][1]["number"]), (&true.into(), &2.into()));
    member.run(&["volume", "access", "remove", "vm", "1"]);
    assert!(is_ended(&mut web), "it is off the list");
    assert!(read(&mut db, 3) == block(3), "the other one goes on");
    member.run(&["volume", "access", "remove", "vm", "2"]);
    assert!(is_ended(&mut db) && log_in(&member, "vm", DB).is_err(), "an empty list opens nothing");
    let twice = member.refused(&["volume", "access", "remove", "vm", "2"]);
    assert_eq!(twice, "there is no number 2 on the list");
    member.run(&["volume", "access", "clear", "vm", "--yes"]);
    log_in(&member, "vm", DB).expect("everybody may again");
    member.stop();
}

#[test]
fn a_volume_that_two_hosts_use_does_not_become_one_for_a_single_host() {
    let home = Home::files(4, "256M");
    let member = home.start(&[]);
    member.run(&["volume", "create", "w", "64M"]);
    let mut hosts = [DB, WEB].map(|name| log_in(&member, "w", name).expect("everybody may"));
    let two = format!(
        "2 hosts are logged in to 'w', {DB} and {WEB}: log one out or take it offline first"
    );
    // The first entry of a list makes it one; where it leaves one host alone, the other one is ended.
    let refused = member.refused(&["volume", "access", "add", "w", "--ip", "127.0.0.1"]);
    assert_eq!(refused, two);
    let list = |words: &str| {
        let path = home.path("w.toml");
        fs::write(&path, format!("[volume.w]\n{words}\n")).expect("it is written");
        text(&path)
    };
    let by_file = list("access = [\"ip=127.0.0.1 for=both\"]");
    let refused_by_file = |file: &str| {
        let (code, _, told) = home.ask(&["apply", "-f", file, "--yes"]);
        assert_eq!((code, told), (1, format!("drystone: {two}\n")));
    };
    refused_by_file(&by_file);
    assert!(hosts.iter_mut().all(|host| !is_ended(host)), "nothing was changed");
    member.run(&["volume", "set", "w", "--shared", "on"]);
    member.run(&["volume", "access", "add", "w", "--ip", "127.0.0.1"]);
    assert_eq!(member.refused(&["volume", "set", "w", "--shared", "off"]), two);
    let off = list("access = [\"ip=127.0.0.1 for=both\"]\nshared = false");
    refused_by_file(&off);
    // What leaves one of them there is no such change.
    member.run(&[
        "apply",
        "-f",
        &list(&format!("access = [\"iqn={DB} for=both\"]\nshared = false")),
        "--yes",
    ]);
    let [db, web] = &mut hosts;
    assert!(!is_ended(db) && is_ended(web));
    member.run(&["volume", "set", "w", "--shared", "off"]);
    // So it is while they are logged in to a snapshot of another one.
    member.run(&["volume", "create", "s", "64M"]);
    member.run(&["snapshot", "create", "s", "now"]);
    member.run(&["snapshot", "online", "s", "now", "--writable"]);
    let snapshot = member.json(&["snapshot", "list", "s"])[0]["iqn"].as_str().unwrap().to_owned();
    let at_snapshot = [DB, WEB].map(|name| {
        let host = Host::log_in_as(member.portal(), &snapshot, 1, &[0], (name, None));
        host.expect("everybody may")
    });
    let refused = member.refused(&["volume", "access", "add", "s", "--ip", "127.0.0.1"]);
    assert_eq!(refused, two.replace("'w'", "snapshot 'now' of 's'"));
    drop(at_snapshot);
    member.stop();
}

#[test]
fn settings_come_along_with_the_disks_and_nobody_sees_where_they_are() {
    let home = Home::files(4, "256M");
    let member = home.start(&[]);
    member.run(&["volume", "create", "vm", "64M"]);
    let used = member.json(&["array", "show"])["used_bytes"].clone();
    let refused = member.refused(&["volume", "access", "add", "vm", "--chap", "nobody"]);
    assert_eq!(refused, "there is no CHAP user 'nobody'");
    assert_eq!(member.json(&["array", "show"])["used_bytes"], used, "nothing is made for that");
    member.run(&["chap", "add", "al", "--secret-file", &secret_file(&home, SECRET)]);
    member.run(&["policy", "create", "hosts"]);
    member.run(&["policy", "add", "hosts", "--chap", "al"]);
    member.run(&["volume", "access", "add", "vm", "--policy", "hosts"]);
    member.run(&["volume", "rename", "vm", "disk"]);
    for hidden in [
        &["volume", "show", ".drystone-settings"][..],
        &["volume", "create", ".drystone-settings", "64M"],
        &["snapshot", "create", ".drystone-settings"],
        &["volume", "rename", "disk", ".drystone-settings"],
    ] {
        let said = member.refused(hidden);
        assert!(
            said.contains("is the name of a volume that the member keeps for itself"),
            "{said}"
        );
    }
    let names = |member: &Member<'_>| {
        let list = member.json(&["volume", "list"]);
        list.as_array().expect("a list").iter().map(|v| v["name"].clone()).collect::<Vec<_>>()
    };
    assert_eq!(names(&member), ["disk"]);
    member.crash();

    let member = home.start(&[]);
    assert!(log_in(&member, "disk", DB).is_err(), "a proof is asked for");
    assert!(prove(&member, "disk", "another-secret-1").is_err());
    prove(&member, "disk", SECRET).expect("al may");
    member.stop();

    // On another machine: without the data directory, and so without the key.
    fs::rename(home.path("data"), home.path("old")).expect("it moves");
    let member = home.start(&[]);
    assert_eq!(names(&member), ["disk"]);
    let users = member.json(&["chap", "list"]);
    assert_eq!(users["users"][0]["usable"], false, "{users}");
    assert!(prove(&member, "disk", SECRET).is_err() && log_in(&member, "disk", DB).is_err());
    member.run(&["chap", "set", "al", "--secret-file", &secret_file(&home, "another-secret-1")]);
    let mut host = prove(&member, "disk", "another-secret-1").expect("al may again");
    member.run(&["policy", "remove", "hosts", "1"]);
    assert!(is_ended(&mut host), "a policy that lets nobody in ends what it had let in");
    let kept = member.refused(&["policy", "delete", "hosts"]);
    assert!(kept.contains("access list of 1 volume:"), "{kept}");
    member.run(&["volume", "offline", "disk", "--yes"]);
    member.run(&["volume", "delete", "disk", "--yes"]);
    member.run(&["volume", "purge", "disk", "--yes"]);
    member.run(&["policy", "delete", "hosts"]);
    member.stop();
}

/// Its host fills the array before anything is set: who may use what can still be said, and what the host registers is
/// kept.
#[test]
fn a_host_that_fills_the_array_keeps_nobody_from_setting_access() {
    let home = Home::files(2, "96M");
    let member = home.start(&[]);
    member.run(&["volume", "create", "f", "600M"]);
    let mut host = log_in(&member, "f", WEB).expect("everybody may");
    let is_taken = |host: &mut Host, at: u32| {
        let [a, b, c, d] = (at * 128).to_be_bytes();
        let cdb = [0x2a, 0, a, b, c, d, 0, 0, 128, 0];
        host.run(0, &cdb, 0, &vec![at as u8 | 1; 64 << 10]).expect("an answer").is_good()
    };
    let full = (0..2000).find(|at| !is_taken(&mut host, *at)).expect("the array is full");
    assert!(full > 100, "{full} clusters fitted");
    let mut list = [0; 24];
    // The key to have, and that it outlives a loss of power.
    (list[15], list[20]) = (7, 1);
    let register = [0x5f, 0, 0, 0, 0, 0, 0, 0, 24, 0];
    assert!(host.run(0, &register, 0, &list).expect("an answer").is_good(), "it is registered");
    member.run(&["policy", "create", "p"]);
    member.run(&[
        "account",
        "add",
        "ada",
        "--role",
        "operator",
        "--password-file",
        &secret_file(&home, SECRET),
    ]);
    member.run(&["volume", "access", "add", "f", "--iqn", DB]);
    assert!(is_ended(&mut host) && log_in(&member, "f", WEB).is_err(), "it is not on the list");
    member.crash();
    let member = home.start(&[]);
    assert!(log_in(&member, "f", WEB).is_err());
    let mut other = log_in(&member, "f", DB).expect("it is on the list");
    let keys = other.run(0, &[0x5e, 0, 0, 0, 0, 0, 0, 0, 64, 0], 64, &[]).expect("an answer");
    assert_eq!((keys.data[7], keys.data[15]), (8, 7), "one key, which is 7");
    member.stop();
}

/// Nothing is left of a volume that leaves no room for who may use it.
#[test]
fn a_first_volume_that_leaves_no_room_for_settings_is_refused_in_a_sentence() {
    let home = Home::files(2, "96M");
    let member = home.start(&[]);
    let shown = member.json(&["array", "show"]);
    let levels = shown["free_by_level"].as_array().expect("a list");
    let of_level = levels.iter().find(|space| space["raid"] == "raid10").expect("it is there");
    let free = of_level["free_bytes"].as_u64().expect("a number");
    let size = (free - (4 << 20)).to_string();
    let refused = member.refused(&["volume", "create", "t", &size, "--thick"]);
    let wanted = "'t' is not made, as the settings of the array take 32 MiB beside it, and there is room for 4 MiB: add a \
                  disk, or delete volumes or snapshots";
    assert_eq!(refused, wanted);
    assert_eq!(member.json(&["volume", "list"]), serde_json::json!([]));
    member.run(&["volume", "create", "t", "16M", "--thick"]);
    member.stop();
}

/// On a full array access can be taken away, as the settings have their space.
#[test]
fn a_host_is_shut_out_of_a_full_array() {
    let home = Home::files(2, "128M");
    let member = home.start(&[]);
    member.run(&["volume", "create", "f", "600M"]);
    member.run(&["volume", "access", "add", "f", "--iqn", WEB]);
    let mut host = log_in(&member, "f", WEB).expect("it is on the list");
    for at in 0..2000_u32 {
        let [a, b, c, d] = (at * 128).to_be_bytes();
        let cdb = [0x2a, 0, a, b, c, d, 0, 0, 128, 0];
        if !host.run(0, &cdb, 0, &vec![at as u8 | 1; 64 << 10]).expect("an answer").is_good() {
            break;
        }
    }
    member.crash();
    let member = home.start(&[]);
    let mut host = log_in(&member, "f", WEB).expect("it is on the list");
    member.run(&["volume", "access", "remove", "f", "1"]);
    assert!(is_ended(&mut host) && log_in(&member, "f", WEB).is_err());
    member.stop();
}

#[test]
fn a_clone_is_for_those_that_its_source_is_for() {
    let home = Home::files(4, "256M");
    let member = home.start(&[]);
    member.run(&["volume", "create", "vm", "64M"]);
    member.run(&["volume", "access", "add", "vm", "--iqn", WEB]);
    member.run(&["snapshot", "create", "vm", "s"]);
    member.run(&["snapshot", "clone", "vm", "s", "copy"]);
    assert!(log_in(&member, "copy", DB).is_err(), "it is not on the list");
    log_in(&member, "copy", WEB).expect("it is");
    member.run(&["volume", "access", "clear", "vm", "--yes"]);
    assert!(log_in(&member, "copy", DB).is_err(), "the list is the clone's own");
    member.stop();
}

/// The first setting, cut off at any moment, leaves nothing that a host could write, and the next one works.
#[test]
fn a_first_setting_that_is_cut_off_serves_nothing() {
    let home = Home::files(2, "128M");
    for ms in [0_u64, 2, 4, 6, 8, 12, 20, 40] {
        let member = home.start(&[]);
        let socket = home.path("run/control.sock");
        let asked = std::thread::spawn(move || {
            let mut command = crate::common::drystone(&["policy", "create", "p"]);
            drop(command.env("DRYSTONE_SOCKET", socket).output());
        });
        std::thread::sleep(std::time::Duration::from_millis(30 + ms));
        member.crash();
        asked.join().expect("the command ends");
        let member = home.start(&[]);
        let served: Vec<_> =
            member.lines.iter().filter(|line| line.starts_with("volume ")).collect();
        assert_eq!(served.len(), 0, "{served:?}");
        member.run(&["policy", "create", &format!("q{ms}")]);
        member.stop();
    }
}

/// Only who needs a secret is kept out by a key that cannot be used.
#[test]
fn a_key_that_cannot_be_used_is_as_none() {
    let home = Home::files(2, "128M");
    let member = home.start(&[]);
    member.run(&["volume", "create", "vm", "16M"]);
    member.run(&["volume", "create", "disk", "16M"]);
    let key = home.path("data/store.key");
    assert!(key.exists(), "nobody who stores the first secret waits for its file system");
    member.run(&["chap", "add", "al", "--secret-file", &secret_file(&home, SECRET)]);
    member.run(&["volume", "access", "add", "vm", "--iqn", WEB]);
    member.run(&["volume", "access", "add", "disk", "--chap", "al"]);
    member.stop();
    let set_mode = |mode| {
        fs::set_permissions(&key, fs::Permissions::from_mode(mode)).expect("its mode is set");
    };
    set_mode(0o644);
    let member = home.start(&[]);
    log_in(&member, "vm", WEB).expect("its name lets it in");
    assert!(log_in(&member, "vm", DB).is_err() && prove(&member, "disk", SECRET).is_err());
    let refused =
        member.refused(&["chap", "set", "al", "--secret-file", &secret_file(&home, SECRET)]);
    assert!(refused.contains("run chmod 600"), "{refused}");
    member.stop();
    set_mode(0o600);
    let member = home.start(&[]);
    prove(&member, "disk", SECRET).expect("the key is there again");
    member.stop();
}

/// What to do about a key that is none, or another one, is said wherever it is in the way: with its file, and what it costs.
#[test]
fn a_wrong_key_says_which_file_it_is_and_what_to_do() {
    let home = Home::files(2, "128M");
    let member = home.start(&[]);
    member.run(&["volume", "create", "disk", "16M"]);
    let set = ["chap", "set", "al", "--secret-file", &secret_file(&home, SECRET)];
    member.run(&["chap", "add", "al", "--secret-file", &secret_file(&home, SECRET)]);
    member.run(&["volume", "access", "add", "disk", "--chap", "al"]);
    member.stop();
    let key = home.path("data/store.key");
    let right = fs::read(&key).expect("it is there");
    let said_everywhere = |member: &Member<'_>, sentence: &str| {
        let (code, status, _) = home.ask(&["status"]);
        assert!(code == 1 && status.contains(sentence), "{status}");
        let events = member.json(&["events", "--severity", "error"]);
        let mut texts = events.as_array().expect("a list").iter().map(|event| &event["text"]);
        assert!(
            texts.any(|text| text.as_str().is_some_and(|it| it.contains(sentence))),
            "{events}"
        );
        assert!(member.log().contains(sentence), "{}", member.log());
    };
    fs::write(&key, "rubbish\n").expect("it can be written");
    let member = home.start(&[]);
    let none = format!(
        "'{}' holds no key of a configuration store, which is a line of 64 hexadecimal digits: put the key that was there \
         before in its place; or move the file away, so that another key is made, and set those secrets again that were \
         encrypted with the one before, and nothing else",
        text(&key)
    );
    said_everywhere(&member, &none);
    assert_eq!(member.refused(&set), none);
    // It does what it says.
    fs::rename(&key, home.path("data/away")).expect("it can be moved");
    member.run(&set);
    prove(&member, "disk", SECRET).expect("it is set again");
    let (_, status, _) = home.ask(&["status"]);
    assert!(!status.contains(" holds no key "), "{status}");
    member.stop();
    fs::write(&key, right).expect("it can be written");
    let member = home.start(&[]);
    let other = format!(
        "the key that secrets were encrypted with is not in '{}': put it there and start the member again; without it these \
         must be set again, and nothing else: 'chap/users/al'",
        text(&key)
    );
    said_everywhere(&member, &other);
    member.run(&set);
    prove(&member, "disk", SECRET).expect("it is set again");
    let (_, status, _) = home.ask(&["status"]);
    assert!(!status.contains("the key that secrets"), "{status}");
    member.stop();
}

const LISTEN: &str = "--api-listen=127.0.0.1:0";

/// Lists volumes over TLS with the token in a file: the code, and what is said.
fn afar(member: &Member<'_>, token: &str) -> (i32, String) {
    let line = member.lines.iter().find_map(|line| line.strip_prefix("api address="));
    let (address, sha256) = line.and_then(|it| it.split_once(" sha256=")).expect("it listens");
    let server = format!("https://{address}");
    let way = ["--server", &server, "--token-file", token, "--fingerprint", sha256];
    let (code, _, said) = member.home.ask(&[&["volume", "list"][..], &way].concat());
    (code, said)
}

/// Settings that nobody can read keep all out, and are given up where an operator says so.
#[test]
fn settings_that_are_lost_keep_all_out_until_they_are_given_up() {
    let home = Home::files(2, "128M");
    let member = home.start(&[LISTEN]);
    for name in ["vm", "free"] {
        member.run(&["volume", "create", name, "16M"]);
    }
    member.run(&["volume", "access", "add", "vm", "--iqn", WEB]);
    let token = member.run(&["token", "create", "ci", "--role", "administrator"]);
    let token = secret_file(&home, &token);
    assert_eq!(afar(&member, &token), (0, String::new()));
    member.stop();
    let mut found = 0;
    for disk in ["disk-0", "disk-1"] {
        let path = home.path(disk);
        let mut bytes = fs::read(&path).expect("it is a file");
        let mark = b"drystone-sized1";
        let places = bytes.windows(mark.len()).enumerate();
        let places: Vec<usize> = places.filter(|(_, it)| *it == mark).map(|(at, _)| at).collect();
        found += places.len();
        places.iter().for_each(|at| bytes[*at..at + 36].fill(0xa5));
        fs::write(&path, bytes).expect("it can be written");
    }
    assert!(found > 1, "the store has a label in each copy");
    let member = home.start(&[LISTEN]);
    let (code, said) = afar(&member, &token);
    assert!(code == 1 && said.contains("the settings of the member cannot be read"), "{said}");
    assert!(log_in(&member, "vm", WEB).is_err() && log_in(&member, "free", WEB).is_err());
    let (_, status, _) = home.ask(&["status"]);
    assert!(status.contains("no host is let in"), "{status}");
    member.stop();
    let member = home.start(&["--open-access"]);
    log_in(&member, "vm", DB).expect("there is no list any more");
    member.run(&["volume", "access", "add", "vm", "--iqn", WEB]);
    assert!(log_in(&member, "vm", DB).is_err(), "lists can be made again");
    log_in(&member, "vm", WEB).expect("it is on the list");
    member.stop();
}

/// Two disks are away: the settings are on them, and nothing is wrong with either.
#[test]
fn settings_that_wait_for_disks_that_are_missing_are_not_given_up() {
    let mut home = Home::files(4, "128M");
    let member = home.start(&["--raid", "raid5"]);
    member.run(&["volume", "create", "vm", "16M"]);
    member.run(&["volume", "access", "add", "vm", "--iqn", WEB]);
    member.stop();
    home.forget();
    let away = |from: &str, to: &str| {
        for disk in [2, 3] {
            let path = |suffix: &str| home.path(&format!("disk-{disk}{suffix}"));
            fs::rename(path(from), path(to)).expect("it is there");
        }
    };
    away("", ".away");
    let member = home.start(&["--accept-missing", "--open-access"]);
    assert!(log_in(&member, "vm", DB).is_err(), "what its list says is not known");
    let (_, status, _) = home.ask(&["status"]);
    assert!(status.contains("no host is let in"), "{status}");
    let events = member.run(&["events"]);
    assert!(events.contains("or declare it failed first"), "{events}");
    member.stop();
    away(".away", "");
    let member = home.start(&[]);
    assert!(log_in(&member, "vm", DB).is_err(), "the list is there again");
    log_in(&member, "vm", WEB).expect("it is on the list");
    member.stop();
}

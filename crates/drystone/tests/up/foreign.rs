//! Who may use what, as initiators of others find it: libiscsi's tools and QEMU's.

use std::collections::BTreeSet;
use std::fs;
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use crate::common::finish;
use crate::common::member::{Home, Member, text};

const WEB: &str = "iqn.2026-11.com.example:web";
const DB: &str = "iqn.2026-11.com.example:db";
const SECRET: &str = "sixteen-bytes-ok";
const OTHER: &str = "another-secret-1";
/// What volumes prove.
const MUTUAL: (&str, &str) = ("array", "the-array-itself");

/// A host: its name, and the CHAP user and secret that it has.
#[derive(Debug, Clone, Copy)]
struct Host {
    name: &'static str,
    login: Option<(&'static str, &'static str)>,
}

const HOSTS: [Host; 5] = [
    Host { name: WEB, login: None },
    Host { name: DB, login: None },
    Host { name: WEB, login: Some(("al", SECRET)) },
    Host { name: DB, login: Some(("al", SECRET)) },
    Host { name: DB, login: Some(("al", OTHER)) },
];

/// What is added to a list, one after the other.
type List = &'static [&'static [&'static str]];

/// The volumes, the lists that they have, and which of the hosts may use each.
const VOLUMES: [(&str, List, [bool; 5]); 6] = [
    // Hosts of the same machine may, whatever they say of themselves; nobody asks for a proof.
    ("unlisted", &[], [true, true, true, true, true]),
    ("named", &[&["--iqn", WEB]], [true, false, true, false, false]),
    ("proved", &[&["--chap", "al"]], [false, false, true, true, false]),
    ("both", &[&["--iqn", WEB, "--chap", "al"]], [false, false, true, false, false]),
    ("elsewhere", &[&["--ip", "192.0.2.0/24"]], [false; 5]),
    (
        "either",
        &[&["--iqn", WEB], &["--chap", "al", "--ip", "127.*.*.*"]],
        [true, false, true, true, false],
    ),
];

/// The policy that lists name.
const POLICY: &str = "rules";

/// What it lets in to what.
const RULES: List =
    &[&["--iqn", WEB, "--for", "volume"], &["--chap", "al", "--iqn", DB, "--for", "snapshot"]];

/// Volumes with a snapshot, the lists that they have, and which of the hosts may use the volume, and which its
/// snapshot.
const HALVES: [(&str, List, [bool; 5], [bool; 5]); 6] = [
    ("disk", &[&["--iqn", WEB, "--for", "volume"]], [true, false, true, false, false], [false; 5]),
    (
        "past",
        &[&["--iqn", WEB, "--for", "snapshot"]],
        [false; 5],
        [true, false, true, false, false],
    ),
    (
        "whole",
        &[&["--iqn", WEB, "--for", "both"]],
        [true, false, true, false, false],
        [true, false, true, false, false],
    ),
    (
        "split",
        &[&["--iqn", WEB, "--for", "volume"], &["--chap", "al", "--for", "snapshot"]],
        [true, false, true, false, false],
        [false, false, true, true, false],
    ),
    (
        "ruled",
        &[&["--policy", POLICY]],
        [true, false, true, false, false],
        [false, false, false, true, false],
    ),
    // Of the policy only what is for snapshots.
    (
        "narrowed",
        &[&["--policy", POLICY, "--for", "snapshot"]],
        [false; 5],
        [false, false, false, true, false],
    ),
];

/// Addresses and networks, and whether they let in who comes from 127.0.0.1, and who comes from ::1.
const ADDRESSES: [(&str, bool, bool); 10] = [
    ("127.0.0.1", true, false),
    ("::ffff:127.0.0.1", true, false),
    ("0.0.0.0/0", true, false),
    ("::1", false, true),
    ("::1/128", false, true),
    ("::/127", false, true),
    ("::/0", false, true),
    // The addresses beside it.
    ("::2", false, false),
    ("::2/127", false, false),
    ("fd00::/8", false, false),
];

fn private(home: &Home, name: &str, contents: &str) -> String {
    let path = home.path(name);
    fs::write(&path, format!("{contents}\n")).expect("it can be written");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).expect("it is ours");
    text(&path)
}

/// A member with all volumes, which are shared: that a second host is refused is another matter.
fn start(home: &Home) -> Member<'_> {
    start_with(home, &[])
}

/// A member of this start with all volumes.
fn start_with<'a>(home: &'a Home, more: &[&str]) -> Member<'a> {
    let member = home.start(more);
    member.run(&["chap", "add", "al", "--secret-file", &private(home, "al", SECRET)]);
    for (name, list, _) in VOLUMES {
        member.run(&["volume", "create", name, "16M"]);
        member.run(&["volume", "set", name, "--shared", "on"]);
        for words in list {
            member.run(&[&["volume", "access", "add", name], *words].concat());
        }
    }
    member
}

fn url(portal: SocketAddr, login: Option<(&str, &str)>, rest: &str) -> String {
    let login = login.map_or_else(String::new, |(user, secret)| format!("{user}%{secret}@"));
    format!("iscsi://{login}{portal}{rest}")
}

/// Whether libiscsi reads what the disk says of itself.
fn libiscsi(portal: SocketAddr, host: Host, iqn: &str, more: &str) -> bool {
    let url = url(portal, host.login, &format!("/{iqn}/0{more}"));
    let output = finish(Command::new("iscsi-inq").args(["-i", host.name, &url]));
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(output.status.success(), said.contains("Vendor:"), "{url}: {said}");
    output.status.success()
}

/// Whether QEMU opens the disk.
fn qemu(portal: SocketAddr, host: Host, iqn: &str) -> bool {
    let mut options = format!(
        "driver=iscsi,transport=tcp,portal={portal},target={iqn},lun=0,initiator-name={}",
        host.name
    );
    let mut command = Command::new("qemu-img");
    command.args(["info", "--output=json"]);
    if let Some((user, secret)) = host.login {
        command.args(["--object", &format!("secret,id=s,data={secret}")]);
        options.push_str(&format!(",user={user},password-secret=s"));
    }
    let output = finish(command.args(["--image-opts", &options]));
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(output.status.success(), said.contains("16777216"), "{options}: {said}");
    output.status.success()
}

/// Whether both let the host in, or neither does; what they disagree about fails the test.
#[track_caller]
fn may(portal: SocketAddr, host: Host, iqn: &str) -> bool {
    let [libiscsi, qemu] = [libiscsi(portal, host, iqn, ""), qemu(portal, host, iqn)];
    assert_eq!(libiscsi, qemu, "libiscsi and QEMU, {host:?} at {iqn} by {portal}");
    libiscsi
}

#[test]
fn initiators_of_others_get_in_where_the_table_says_so_and_nowhere_else() {
    let home = Home::files(3, "256M");
    let member = start(&home);
    for (volume, _, may) in VOLUMES {
        let iqn = member.iqn(volume);
        for (host, may) in HOSTS.into_iter().zip(may) {
            assert_eq!(self::may(member.portal(), host, &iqn), may, "{host:?} at {volume}");
        }
    }
    let refused = member.run(&["audit", "--refused"]);
    assert!(refused.contains(WEB) && refused.contains(DB), "{refused}");
    member.stop();
}

/// The volumes that discovery tells a host of; `None` if it is refused.
fn told(member: &Member<'_>, host: Host) -> Option<BTreeSet<String>> {
    let (_, prefix) = member.lines.iter().find_map(|l| l.split_once(" prefix=")).expect("a portal");
    let prefix = format!("{prefix}:");
    let url = url(member.portal(), host.login, "");
    let output = finish(Command::new("iscsi-ls").args(["-i", host.name, &url]));
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let targets = said
        .lines()
        .filter_map(|line| line.strip_prefix("Target:")?.split_whitespace().next())
        .map(|iqn| iqn.strip_prefix(&prefix).expect("one of ours").to_owned());
    output.status.success().then(|| targets.collect())
}

fn names(all: &[&str]) -> BTreeSet<String> {
    all.iter().map(|name| (*name).to_owned()).collect()
}

#[test]
fn beside_a_secret_of_the_start_those_on_lists_hear_of_what_they_may_use() {
    let home = Home::files(3, "256M");
    // Of the same name as the user that lists mean, who has another secret.
    let secret = private(&home, "start", &format!("al:{OTHER}"));
    let member = start_with(&home, &["--chap-file", &secret]);
    let told = HOSTS.map(|host| told(&member, host));
    // Who proves nothing hears of what it may use so, or is not let in.
    assert_eq!(told[0], Some(names(&["named", "both", "either"])));
    assert_eq!(told[1], None);
    assert_eq!(told[2], Some(names(&["named", "proved", "both", "either"])));
    assert_eq!(told[3], Some(names(&["proved", "either"])));
    assert_eq!(told[4], Some(names(&["unlisted"])));
    member.stop();
}

#[test]
fn beside_an_address_of_the_start_those_on_lists_hear_of_what_they_may_use() {
    let home = Home::files(3, "256M");
    let member = start_with(&home, &["--allow", "192.0.2.1"]);
    let told = |host: Host| told(&member, host);
    assert_eq!(told(HOSTS[0]), Some(names(&["named", "both", "either"])));
    assert_eq!(told(HOSTS[1]), None);
    assert_eq!(told(HOSTS[3]), Some(names(&["proved", "either"])));
    assert_eq!(told(HOSTS[4]), None);
    member.run(&["volume", "access", "add", "elsewhere", "--ip", "127.0.0.1"]);
    assert_eq!(
        told(HOSTS[1]),
        Some(names(&["either", "elsewhere"])),
        "its address is beside a user"
    );
    member.stop();
}

#[test]
fn who_asks_what_there_is_hears_of_what_it_may_use() {
    let home = Home::files(3, "256M");
    let member = start(&home);
    let told = |host: Host| told(&member, host).expect("it may ask");
    // What can be used by a proof is told to those who gave it, and to those whose name or address is beside it.
    let [web, db] = [HOSTS[0], HOSTS[1]].map(told);
    assert_eq!(web, names(&["unlisted", "named", "both", "either"]));
    assert_eq!(db, names(&["unlisted", "either"]));
    let [web, db] = [HOSTS[2], HOSTS[3]].map(told);
    assert_eq!(web, names(&["unlisted", "named", "proved", "both", "either"]));
    assert_eq!(db, names(&["unlisted", "proved", "either"]));
    // A user that no list names is no reason to tell it less than without.
    member.run(&["chap", "add", "bo", "--secret-file", &private(&home, "bo", OTHER)]);
    let bo = Host { name: WEB, login: Some(("bo", OTHER)) };
    assert_eq!(told(bo), names(&["unlisted", "named", "either"]));
    member.run(&["volume", "access", "add", "elsewhere", "--iqn", DB]);
    assert!(told(HOSTS[1]).contains("elsewhere") && !told(HOSTS[0]).contains("elsewhere"));
    member.stop();
}

#[test]
fn a_volume_proves_who_it_is_to_an_initiator_that_asks() {
    let home = Home::files(3, "256M");
    let member = start(&home);
    let al = HOSTS[2];
    let iqn = member.iqn("proved");
    let asks = |user: &str, secret: &str| {
        let more = format!("?target_user={user}&target_password={secret}");
        libiscsi(member.portal(), al, &iqn, &more)
    };
    assert!(!asks(MUTUAL.0, MUTUAL.1), "it proves nothing yet");
    let secret = private(&home, "mutual", MUTUAL.1);
    member.run(&["chap", "mutual", "set", MUTUAL.0, "--secret-file", &secret]);
    assert!(asks(MUTUAL.0, MUTUAL.1));
    assert!(!asks(MUTUAL.0, OTHER), "it is told that this is another one");
    assert!(!asks("stranger", MUTUAL.1));
    assert!(libiscsi(member.portal(), al, &iqn, ""), "who does not ask gets in as before");
    member.stop();
}

/// A member with the policy, and the volumes of [`HALVES`] with a snapshot `s` that is online.
fn start_halves(home: &Home) -> Member<'_> {
    let member = home.start(&[]);
    member.run(&["chap", "add", "al", "--secret-file", &private(home, "al", SECRET)]);
    member.run(&["policy", "create", POLICY]);
    for words in RULES {
        member.run(&[&["policy", "add", POLICY], *words].concat());
    }
    for (name, list, ..) in HALVES {
        member.run(&["volume", "create", name, "16M"]);
        member.run(&["volume", "set", name, "--shared", "on"]);
        for words in list {
            member.run(&[&["volume", "access", "add", name], *words].concat());
        }
        member.run(&["snapshot", "create", name, "s"]);
        member.run(&["snapshot", "online", name, "s"]);
    }
    member
}

#[test]
fn a_record_lets_in_to_the_volume_or_its_snapshots_as_it_says_and_so_does_one_of_a_policy() {
    let home = Home::files(3, "256M");
    let member = start_halves(&home);
    for (volume, _, live, past) in HALVES {
        let iqn = member.iqn(volume);
        let snapshot = format!("{iqn}:s");
        for (at, host) in HOSTS.into_iter().enumerate() {
            let may = [&iqn, &snapshot].map(|iqn| may(member.portal(), host, iqn));
            assert_eq!(may, [live[at], past[at]], "{host:?} at {volume} and its snapshot");
        }
    }
    // What discovery tells is the same table.
    let told = |host: Host| told(&member, host);
    assert_eq!(
        told(HOSTS[0]),
        Some(names(&["disk", "past:s", "whole", "whole:s", "split", "ruled"]))
    );
    assert_eq!(told(HOSTS[3]), Some(names(&["split:s", "ruled:s", "narrowed:s"])));
    member.stop();
}

#[test]
fn what_a_policy_says_anew_counts_for_the_volumes_that_name_it() {
    let home = Home::files(3, "256M");
    let member = start_halves(&home);
    let iqn = member.iqn("ruled");
    let snapshot = format!("{iqn}:s");
    let may = |host: Host| [&iqn, &snapshot].map(|iqn| may(member.portal(), host, iqn));
    assert_eq!((may(HOSTS[0]), may(HOSTS[3])), ([true, false], [false, true]));
    member.run(&["policy", "remove", POLICY, "1"]);
    assert_eq!((may(HOSTS[0]), may(HOSTS[3])), ([false, false], [false, true]));
    member.run(&["policy", "add", POLICY, "--iqn", WEB, "--for", "snapshot"]);
    assert_eq!((may(HOSTS[0]), may(HOSTS[3])), ([false, true], [false, true]));
    let refused = member.run(&["audit", "--refused"]);
    assert!(refused.contains(&iqn) && refused.contains(&snapshot), "{refused}");
    member.stop();
}

#[test]
fn addresses_of_both_kinds_and_their_networks_are_told_apart() {
    let home = Home::files(3, "256M");
    let member = home.start(&["--portal", "[::1]:0"]);
    let [v4, v6] = member.portals()[..] else { panic!("{:?}", member.lines) };
    assert!(v4.is_ipv4() && v6.is_ipv6(), "{v4} {v6}");
    for (at, (address, by_v4, by_v6)) in ADDRESSES.into_iter().enumerate() {
        let volume = format!("a{at}");
        member.run(&["volume", "create", &volume, "16M"]);
        member.run(&["volume", "set", &volume, "--shared", "on"]);
        // Without a list it is for hosts of this machine, whichever way they come.
        let iqn = member.iqn(&volume);
        if at == 0 {
            assert_eq!([v4, v6].map(|portal| may(portal, HOSTS[0], &iqn)), [true; 2]);
        }
        member.run(&["volume", "access", "add", &volume, "--ip", address]);
        let may = [v4, v6].map(|portal| may(portal, HOSTS[0], &iqn));
        assert_eq!(may, [by_v4, by_v6], "a record of {address}, from 127.0.0.1 and from ::1");
    }
    member.stop();
}

//! Few open files, little memory, clients that say nothing, stops in the middle of work.

use crate::common::member::{Home, text};
use crate::common::{binary, drystone, finish};
use crate::host::Host;
use crate::{block, log_in, read, write};
use rustix::process::Signal;
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// A member under limits of the shell: `ulimit` with these words.
fn limited(home: &Home, limits: &str, more: &[&str]) -> Command {
    let line = home.command_line(more).join("' '");
    let mut shell = Command::new("sh");
    shell.args(["-c", &format!("ulimit {limits}; exec '{}' '{line}'", binary().display())]);
    shell.stdin(Stdio::null());
    shell
}

#[test]
fn hosts_cannot_take_the_files_that_commands_need() {
    let home = Home::files(3, "128M");
    let member = home.start_by(limited(&home, "-n 160", &[]));
    member.run(&["volume", "create", "a", "64M"]);
    assert!(member.log().contains("connections can be open at once"), "{}", member.log());
    let hosts: Vec<_> = (0..300).map(|_| TcpStream::connect(member.portal())).collect();
    let begun = Instant::now();
    assert!(member.run(&["volume", "list"]).contains("64 MiB"));
    member.run(&["snapshot", "create", "a", "s"]);
    let new = format!("{}:128M", text(&home.path("new")));
    member.run(&["disk", "add", &new]);
    assert!(begun.elapsed() < Duration::from_secs(20), "{:?}", begun.elapsed());
    drop(hosts);
    member.stop();
}

#[test]
fn a_member_without_room_in_memory_says_so_and_makes_nothing() {
    let home = Home::files(3, "128M");
    let output = finish(&mut limited(&home, "-v 400000", &[]));
    let err = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{err}");
    assert!(err.contains("the limit on address space is") && err.contains("ulimit -v"), "{err}");
    assert!(!std::fs::exists(home.path("disk-0")).unwrap());
    let few = finish(&mut limited(&home, "-n 40", &[]));
    let err = String::from_utf8_lossy(&few.stderr).into_owned();
    assert!(few.status.code() == Some(1) && err.contains("ulimit -n"), "{err}");
}

#[test]
fn a_member_with_just_enough_memory_works_and_stops() {
    let home = Home::files(4, "256M");
    // 512 MiB and 384 MiB for a core.
    let member = home.start_by(limited(&home, "-v 917504", &["--cores", "1", "--raid", "raid5"]));
    member.run(&["volume", "create", "a", "128M"]);
    let log_in = |n| Host::log_in(member.portal(), &member.iqn("a"), n, &[0]).unwrap();
    let mut hosts = [1, 2, 3].map(log_in);
    for at in 0..3000 {
        write(&mut hosts[at % 3], at as u32 * 8, &block(at as u8));
    }
    for at in 0..3000 {
        assert!(read(&mut hosts[at % 3], at as u32 * 8) == block(at as u8), "block {at}");
    }
    assert_eq!(member.json(&["array", "check"])["problems"], serde_json::json!([]));
    drop(hosts);
    let log = member.log();
    member.stop();
    assert!(!log.contains("ERROR"), "{log}");
    let log = std::fs::read_to_string(home.path("log")).unwrap();
    assert!(!log.contains("it was closed"), "{log}");
}

#[test]
fn silent_clients_do_not_lock_operators_out() {
    let home = Home::files(2, "128M");
    let member = home.start(&[]);
    let socket = home.path("run/control.sock");
    let silent: Vec<_> = (0..400).map(|_| UnixStream::connect(&socket)).collect();
    let begun = Instant::now();
    assert!(member.run(&["volume", "list"]).starts_with("there are no volumes"));
    assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
    drop(silent);
    member.stop();
}

#[test]
fn a_member_that_was_halted_is_told_of() {
    let home = Home::files(2, "128M");
    let member = home.start(&[]);
    member.signal(Signal::STOP);
    let said = member.refused(&["volume", "list"]);
    member.signal(Signal::CONT);
    assert!(said.contains("has said nothing for 20 seconds"), "{said}");
    member.stop();
}

#[test]
fn a_stop_in_the_middle_of_work_tells_the_truth() {
    let home = Home::files(4, "256M");
    let member = home.start(&["--raid", "raid5"]);
    member.run(&["volume", "create", "a", "256M"]);
    let mut host = log_in(&member, "a");
    for at in 0..2000 {
        write(&mut host, at * 16, &block(at as u8));
    }
    drop(host);
    member.run(&["array", "set", "--rebuild-share", "1"]);
    let socket = home.path("run/control.sock");
    let new = format!("{}:256M", text(&home.path("new")));
    let mut replace = drystone(&["disk", "replace", "disk-1", &new]);
    replace.env("DRYSTONE_SOCKET", &socket).stdout(Stdio::piped()).stderr(Stdio::piped());
    let replace = replace.spawn().unwrap();
    let mut scrub = drystone(&["array", "scrub"]);
    scrub.env("DRYSTONE_SOCKET", &socket).stdout(Stdio::piped()).stderr(Stdio::piped());
    let scrub = scrub.spawn().unwrap();
    std::thread::sleep(Duration::from_millis(300));
    member.stop();
    let said = |output: std::process::Output| {
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    // Either was quick enough, or so slow that it came too late, or it says what stays and what does not.
    let is_true = |code, err: &str, told: &str| {
        code == Some(0) || err.contains("no member answers") || err.contains(told)
    };
    let (code, err) = said(replace.wait_with_output().unwrap());
    assert!(is_true(code, &err, "is in the place of 'disk-1'"), "{code:?} {err}");
    let (code, err) = said(scrub.wait_with_output().unwrap());
    assert!(is_true(code, &err, "the member is stopping"), "{code:?} {err}");
    let log = std::fs::read_to_string(home.path("log")).unwrap();
    assert!(!log.contains("ERROR"), "{log}");

    let mut home = home;
    home.forget();
    let member = home.start(&[]);
    member.run(&["array", "rebuild-status", "--wait"]);
    let listed = member.run(&["disk", "list"]);
    assert!(listed.contains("/new"), "{listed}");
    member.stop();
}

//! What needs an operator is told: by `status`, `disk list`, `array check` and `rebuild-status`, and at
//! a start that cannot keep what it should.

use crate::common::member::{Home, Member, text};
use crate::common::{binary, drystone, finish};
use crate::{block, log_in, read, start_refused, write};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;
use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// A command that has an exit status and says this on both of its outputs.
fn said(member: &Member<'_>, words: &[&str]) -> (i32, String) {
    let (code, out, err) = member.home.ask(words);
    (code, format!("{out}{err}"))
}

#[test]
fn a_disk_that_is_missing_is_told_of_wherever_an_operator_looks() {
    let mut home = Home::files(4, "256M");
    let member = home.start(&["--raid", "raid5"]);
    assert!(member.run(&["status"]).starts_with("all is well\ndisks    4 of 4 online\n"));
    member.run(&["volume", "create", "a", "64M"]);
    write(&mut log_in(&member, "a"), 3, &block(1));
    assert!(member.run(&["array", "check"]).starts_with("all is well\n"));
    member.stop();
    home.forget();
    let (gone, away) = (home.path("disk-1"), home.path("elsewhere"));
    fs::rename(&gone, &away).unwrap();
    let member = home.start(&[]);
    let why = format!("there is no '{}'", gone.display());
    let listed = member.json(&["disk", "list"]);
    let reason = listed[1]["reason"].as_str().unwrap();
    assert!(reason.contains(&why), "as much as the log says: {reason}");
    assert!(reason.contains("once it has been away for 60 seconds"), "{reason}");
    let building = member.run(&["array", "rebuild-status"]);
    assert!(building.starts_with("nothing is being rebuilt\n"), "{building}");
    assert!(building.contains("once it has been away for 60 seconds"), "{building}");
    assert_eq!(member.json(&["array", "rebuild-status"]), json!([]));
    let (code, check) = said(&member, &["array", "check"]);
    assert!(code == 1 && !check.contains("all is well"), "{code} {check}");
    assert!(check.contains("is missing") && check.contains(&why), "{check}");
    let (code, status) = said(&member, &["status"]);
    let lines: Vec<&str> = status.lines().collect();
    assert!(code == 1 && lines[0].starts_with("degraded: "), "{status}");
    assert!(lines[1].starts_with("first:   disk ") && lines[1].contains(&why), "{status}");
    member.stop();
    fs::rename(&away, &gone).unwrap();
    home.start(&[]).stop();
}

#[test]
fn where_no_disk_can_take_over_an_operator_is_told_to_add_one() {
    let mut home = Home::files(3, "256M");
    let member = home.start(&["--raid", "raid5"]);
    member.run(&["volume", "create", "a", "64M"]);
    write(&mut log_in(&member, "a"), 3, &block(1));
    member.stop();
    home.forget();
    fs::rename(home.path("disk-1"), home.path("elsewhere")).unwrap();
    let member = home.start(&[]);
    let building = member.run(&["array", "rebuild-status"]);
    assert!(building.contains("connect it again, or add a disk"), "{building}");
    member.stop();
}

/// A service manager tries again every two seconds, and what each start told of the disks pushed out all other events.
#[test]
fn starts_that_wait_for_disks_tell_once_which_are_missing() {
    let mut home = Home::files(4, "256M");
    let member = home.start(&["--raid", "raid5"]);
    member.run(&["volume", "create", "a", "64M"]);
    write(&mut log_in(&member, "a"), 3, &block(1));
    member.stop();
    home.forget();
    let gone = ["disk-1", "disk-2", "disk-3"];
    let away = |name: &str| home.path(&format!("{name}-away"));
    for name in gone {
        fs::rename(home.path(name), away(name)).unwrap();
    }
    for _ in 0..3 {
        start_refused(&home, &[]);
    }
    for name in gone {
        fs::rename(away(name), home.path(name)).unwrap();
    }
    let member = home.start(&[]);
    let events = member.json(&["events"]);
    let events = events.as_array().unwrap();
    let count = |kind: &str| events.iter().filter(|event| event["kind"] == kind).count();
    let told = (count("disk_not_used"), count("member_not_started"));
    assert_eq!(told, (gone.len(), 1), "{events:#?}");
    member.stop();
}

/// A list of disks that was there and is empty is lost: nobody makes a new array instead.
#[test]
fn an_empty_list_of_disks_makes_no_new_array() {
    let home = Home::bare();
    fs::create_dir(home.path("data")).unwrap();
    fs::write(home.path("data/disks"), "").unwrap();
    let refused = start_refused(&home, &[]);
    assert!(refused.contains("list of disks is lost"), "{refused}");
    assert!(refused.contains("--disk") && refused.contains("remove the file"), "{refused}");
    assert!(!fs::exists(home.path("data/disk-0")).unwrap(), "nothing was made");
}

/// A start as it is where files cannot be made: also for root, who may write everywhere.
fn confined(home: &Home, more: &[&str]) -> Command {
    let line = home.command_line(more);
    let is_root = rustix::process::geteuid().is_root();
    let mut command = match is_root {
        false => Command::new(binary()),
        true => {
            let mut command = Command::new("setpriv");
            let without = ["--bounding-set=-dac_override", "--inh-caps=-dac_override"];
            command.args(without).arg(binary());
            command
        }
    };
    command.args(line).stdin(Stdio::null());
    command
}

/// The same command, by its environment where its socket is.
fn without_socket(command: &Command) -> Command {
    let mut other = Command::new(command.get_program());
    let mut is_value = false;
    other.args(command.get_args().filter(|word| {
        let is_it = std::mem::replace(&mut is_value, *word == "--socket");
        !is_it && !is_value
    }));
    other.envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
    other.stdin(Stdio::null());
    other
}

#[test]
fn a_directory_that_cannot_be_written_does_not_keep_the_array_from_being_opened() {
    let mut home = Home::files(3, "256M");
    let member = home.start(&["--raid", "raid5"]);
    member.run(&["volume", "create", "a", "64M"]);
    let iqn = member.iqn("a");
    write(&mut log_in(&member, "a"), 3, &block(1));
    member.stop();
    home.forget();
    let data = home.path("data");
    let allow = |mode| fs::set_permissions(&data, fs::Permissions::from_mode(mode)).unwrap();
    allow(0o555);
    let member = home.start_by(confined(&home, &[]));
    let log = member.logged("nothing can be written");
    let told: Vec<&str> =
        log.lines().filter(|line| line.contains("nothing can be written")).collect();
    assert!(told.len() == 1 && told[0].contains("is not remembered"), "{log}");
    // What hosts reserve needs no directory: it is on the array. REGISTER, key 1, with APTPL.
    let mut list = [0; 24];
    (list[15], list[20]) = (1, 1);
    let register = [0x5f, 0, 0, 0, 0, 0, 0, 0, 24, 0];
    assert!(log_in(&member, "a").run(0, &register, 0, &list).unwrap().is_good());
    assert_eq!(member.iqn("a"), iqn);
    assert!(read(&mut log_in(&member, "a"), 3) == block(1));
    // What would not be remembered is refused.
    let new = format!("{}:256M", text(&home.path("new")));
    let refused = member.refused(&["disk", "add", &new]);
    assert!(refused.contains("cannot be remembered"), "{refused}");
    // A second one finds the directory in use.
    let mut second = confined(&home, &[]);
    second.env("DRYSTONE_SOCKET", home.path("run/second.sock"));
    let second = finish(&mut without_socket(&second));
    let words = String::from_utf8_lossy(&second.stderr).into_owned();
    assert!(second.status.code() == Some(1) && words.contains(" uses '"), "{words}");
    member.stop();
    allow(0o755);
    let member = home.start(&[]);
    assert!(!member.log().contains("nothing can be written"), "{}", member.log());
    member.run(&["disk", "add", &new]);
    member.stop();
}

/// Ends a process that reads its CHAP secret from standard input on which there is none yet.
fn stopped_early(mut command: Command) -> (Option<i32>, String) {
    command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut child: Child = command.spawn().expect("it can be started");
    std::thread::sleep(Duration::from_millis(500));
    kill_process(Pid::from_child(&child), Signal::TERM).expect("it is there");
    std::thread::sleep(Duration::from_millis(100));
    if child.try_wait().expect("it can be asked").is_none() {
        let mut stdin = child.stdin.take().expect("it is a pipe");
        stdin.write_all(b"alice:a-secret-of-16-b\n").expect("it is read");
    }
    let output = child.wait_with_output().expect("it ends");
    (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
}

/// Whoever names a pipe or a device where a file should be hears so, and waits for nothing.
#[test]
fn a_secret_that_is_no_regular_file_is_refused_and_not_waited_for() {
    let home = Home::files(3, "256M");
    let pipe = home.path("secret");
    let mode = rustix::fs::Mode::from_raw_mode(0o600);
    rustix::fs::mkfifoat(rustix::fs::CWD, &pipe, mode).unwrap();
    let pipe = pipe.to_str().expect("the path is UTF-8");
    let refused = |words: &[&str]| {
        let output = finish(&mut drystone(words));
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success() && said.lines().count() == 1, "{said}");
        said
    };
    let words = home.command_line(&["--chap-file", pipe]);
    let said = refused(&words.iter().map(String::as_str).collect::<Vec<_>>());
    assert!(said.contains("it is no regular file"), "{said}");
    let token = home.path("token");
    fs::write(&token, "drystone_00\n").unwrap();
    fs::set_permissions(&token, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
    let token = token.to_str().expect("the path is UTF-8");
    let status = ["status", "--server", "https://127.0.0.1:9"];
    let by = |more: &[&str]| refused(&[&status[..], more].concat());
    assert!(by(&["--token-file", pipe]).contains("write the token to one"));
    assert!(by(&["--token-file", "/dev/zero"]).contains("write the token to one"));
    let ca = by(&["--token-file", token, "--ca-file", pipe]);
    assert!(ca.contains("cannot read the authorities") && ca.contains("no regular file"), "{ca}");
    fs::write(token, "two words\n").unwrap();
    assert!(by(&["--token-file", token]).contains("holds no token"));
}

/// Status 143 looks to a supervisor as if it had failed.
#[test]
fn a_signal_before_anything_is_served_is_a_clean_stop() {
    let home = Home::files(3, "256M");
    let chap = "--chap-file=-";
    let words = home.command_line(&[chap]);
    let up = drystone(&words.iter().map(String::as_str).collect::<Vec<_>>());
    let export = drystone(&["export", "ram:16M", "--portal", "127.0.0.1:0", chap]);
    for command in [up, export] {
        let (code, log) = stopped_early(command);
        assert!(code == Some(0) && log.contains("stopping on SIGTERM"), "{code:?} {log}");
    }
    assert!(!fs::exists(home.path("disk-0")).unwrap(), "nothing was made");
}

#[test]
fn help_and_log_filters_are_for_every_command() {
    let output = finish(&mut drystone(&["help", "volume", "create"]));
    assert!(output.status.success());
    assert!(String::from_utf8_lossy(&output.stdout).contains("Usage: drystone volume create"));
    for words in [&["status"][..], &["volume", "list"], &["completions", "bash"], &["up"]] {
        let output = finish(&mut drystone(&[words, &["--log", "bogus"]].concat()));
        let err = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{words:?} {err}");
        assert!(err.contains("--log: 'bogus' is not a log filter"), "{words:?} {err}");
    }
}

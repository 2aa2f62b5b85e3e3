//! `drystone member start` and `check`: the member as a service.

use crate::common::member::{Home, Member};
use crate::common::{drystone, finish};
use crate::host::Host;
use crate::{block, log_in, read, write};
use rustix::process::Signal;
use serde_json::{Value, json};
use std::fs;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::os::unix::net::UnixDatagram;
use std::path::PathBuf;
use std::process::Command;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

/// Writes the file of a member that lives in `home`, with two files as its disks.
fn config(home: &Home, more: &str) -> PathBuf {
    let shown = |name: &str| home.path(name).display().to_string();
    let text = format!(
        "data = '{}'\nsocket = '{}'\ndisk = '{}/disk-*'\nportal = '127.0.0.1:0'\n{more}",
        shown("data"),
        shown("run/control.sock"),
        shown("disks")
    );
    let path = home.path("member.toml");
    fs::write(&path, text).expect("the file can be written");
    path
}

fn home_with_disks(count: usize) -> Home {
    let home = Home::bare();
    fs::create_dir(home.path("disks")).expect("a directory can be made");
    for n in 0..count {
        let file =
            fs::File::create(home.path(&format!("disks/disk-{n}"))).expect("a file can be made");
        file.set_len(256 << 20).expect("it can be sparse");
    }
    home
}

fn start(config: &std::path::Path) -> Command {
    drystone(&["member", "start", "--config", config.to_str().expect("the path is UTF-8")])
}

/// Takes what is said to a service manager as soon as it is said: a socket keeps few words that nobody has read, and those
/// that follow are lost.
fn service_manager(at: impl AsRef<std::path::Path>) -> impl Fn() -> String {
    let manager = UnixDatagram::bind(at).unwrap();
    let (says, hears) = mpsc::channel();
    thread::spawn(move || {
        let mut bytes = [0; 512];
        while let Ok(len) = manager.recv(&mut bytes) {
            if says.send(String::from_utf8_lossy(&bytes[..len]).into_owned()).is_err() {
                return;
            }
        }
    });
    move || hears.recv_timeout(Duration::from_secs(60)).expect("the member speaks")
}

#[test]
fn a_member_starts_from_its_file_and_tells_the_service_manager() {
    let home = home_with_disks(2);
    let path = config(&home, "raid = 'raid1'\nlog = 'warn'\nallow = '127.0.0.0/8'\n");
    let heard = service_manager(home.path("notify"));
    let mut command = start(&path);
    command.env("NOTIFY_SOCKET", home.path("notify")).env("WATCHDOG_USEC", "300000");
    let member = home.start_by(command);
    assert_eq!(heard(), "READY=1\nSTATUS=serves 0 volumes; 2 of 2 disks online");
    assert_eq!((heard(), heard()), ("WATCHDOG=1".into(), "WATCHDOG=1".into()));
    assert!(member.lines[0].contains(" raid=raid1 disks=2 online=2 "), "{:?}", member.lines);
    assert!(!member.log().contains("INFO"), "the file says what is logged: {}", member.log());
    member.run(&["volume", "create", "a", "64M"]);
    write(&mut log_in(&member, "a"), 3, &block(1));
    member.stop();
    let last = std::iter::repeat_with(heard).find(|said| said != "WATCHDOG=1").unwrap();
    assert!(last.starts_with("STOPPING=1\n"), "{last}");

    // A disk that is gone keeps no member from its start.
    fs::remove_file(home.path("disks/disk-1")).unwrap();
    let member = home.start_by(start(&path));
    assert!(member.lines[0].contains(" disks=2 online=1 "), "{:?}", member.lines);
    assert!(read(&mut log_in(&member, "a"), 3) == block(1));
    member.stop();
}

/// What a foreign initiator sees of a member.
fn discovered(member: &Member<'_>) -> String {
    discovered_at(member.portal())
}

fn discovered_at(portal: SocketAddr) -> String {
    let url = format!("iscsi://{portal}");
    let output = finish(Command::new("iscsi-ls").arg(&url));
    let err = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "everybody may ask: {err}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn a_service_lets_nobody_use_a_volume_until_somebody_says_who() {
    const HOST: &str = "iqn.2026-11.com.example:web";
    let home = home_with_disks(2);
    let path = config(&home, "");
    let member = home.start_by(start(&path));
    let made = member.run(&["volume", "create", "vm", "64M"]);
    let says = |said: &str| {
        let sentence = "nobody may use vm yet: 'drystone volume access add vm --iqn NAME-OF-HOST' lets a host in";
        assert!(said.contains(sentence), "{said}");
    };
    says(&made);
    says(&member.run(&["volume", "show", "vm"]));
    says(&member.run(&["volume", "access", "list", "vm"]));
    let status = member.run(&["status"]);
    assert!(status.starts_with("all is well\n"), "{status}");
    says(&status);
    let log_in = |member: &Member<'_>| {
        Host::log_in_as(member.portal(), &member.iqn("vm"), 1, &[0], (HOST, None))
    };
    assert!(log_in(&member).is_err(), "nobody was let in");
    assert_eq!(discovered(&member), "");
    let audit = member.json(&["audit", "--refused"]);
    let host = &audit[0]["who"]["host"];
    assert_eq!((host, &audit[0]["reason"]), (&HOST.into(), &"not_authorized".into()), "{audit}");
    member.stop();

    let member = home.start_by(start(&path));
    says(&member.logged("nobody may use vm yet"));
    assert!(member.lines[1].contains(" hosts=nobody name=vm"), "{:?}", member.lines);
    member.run(&["volume", "access", "add", "vm", "--iqn", HOST]);
    write(&mut log_in(&member).expect("it was let in"), 3, &block(1));
    assert_eq!(discovered(&member), "", "it goes by another name");
    member.run(&["volume", "access", "add", "vm", "--ip", "127.0.0.1"]);
    assert!(discovered(&member).contains(&member.iqn("vm")));
    assert!(!member.run(&["status"]).contains("nobody"));
    member.run(&["volume", "access", "clear", "vm", "--yes"]);
    assert!(log_in(&member).is_err(), "without a list it is for nobody again");
    member.stop();

    // For one start.
    let mut open = start(&path);
    open.arg("--open-access");
    let member = home.start_by(open);
    assert!(member.lines[1].contains(" hosts=everybody name=vm"), "{:?}", member.lines);
    let (_, status, _) = home.ask(&["status"]);
    assert!(status.contains("first:   any host that reaches the member may use vm"), "{status}");
    assert!(read(&mut log_in(&member).expect("everybody may"), 3) == block(1));
    assert!(discovered(&member).contains(&member.iqn("vm")));
    member.stop();
    let member = home.start_by(start(&path));
    assert!(log_in(&member).is_err());
    member.stop();
}

#[test]
fn rules_that_are_taken_out_of_the_file_open_nothing_and_keep_no_member_from_its_start() {
    let home = home_with_disks(2);
    let member = home.start_by(start(&config(&home, "allow = '127.0.0.0/8'\n")));
    member.run(&["volume", "create", "vm", "64M"]);
    write(&mut log_in(&member, "vm"), 3, &block(1));
    member.stop();
    // What cannot be written is told too.
    for log in ["audit", "audit-changes", "audit-refused", "events"] {
        for number in [0, 1] {
            let path = home.path(&format!("data/{log}.{number}"));
            drop(fs::remove_file(&path));
            fs::create_dir(&path).unwrap();
        }
    }
    let member = home.start_by(start(&config(&home, "")));
    assert!(member.lines[1].contains(" hosts=nobody name=vm"), "{:?}", member.lines);
    let name = "iqn.2026-11.com.example:web";
    let refused = Host::log_in_as(member.portal(), &member.iqn("vm"), 1, &[0], (name, None));
    assert!(refused.is_err(), "it was let in");
    let (_, status, _) = home.ask(&["status"]);
    for log in ["audit log", "event log"] {
        let sentence = format!("the {log} cannot be written to the data directory");
        assert!(status.contains(&sentence), "{status}");
    }
    member.stop();
    // By hand it would be opened to this machine.
    let mut by_hand = drystone(&["up", "--portal", "127.0.0.1:0"]);
    by_hand.arg("--data").arg(home.path("data")).arg("--socket").arg(home.path("run/control.sock"));
    let refused = finish(&mut by_hand);
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(
        !refused.status.success() && said.contains("no access list of a volume lets in"),
        "{said}"
    );
}

/// `drystone up` is for trying: this machine may, wherever the portal is.
#[test]
fn a_member_by_hand_is_for_hosts_on_its_machine() {
    let home = Home::files(2, "256M");
    let member = home.start(&["--portal", "[::1]:0"]);
    member.run(&["volume", "create", "vm", "64M"]);
    assert_eq!(member.json(&["volume", "show", "vm"])["hosts"], "loopback");
    for portal in member.portals() {
        Host::log_in(portal, &member.iqn("vm"), 1, &[0]).expect("it comes from this machine");
    }
    assert!(discovered(&member).contains(&member.iqn("vm")));
    member.stop();
}

/// An address of this machine that is not of loopback. Nothing is sent.
fn own_address() -> Option<IpAddr> {
    let socket = UdpSocket::bind("0.0.0.0:0").ok()?;
    socket.connect("198.51.100.1:9").ok()?;
    Some(socket.local_addr().ok()?.ip())
}

#[test]
fn a_host_that_comes_from_elsewhere_is_let_in_to_a_member_by_hand_first() {
    let Some(own) = own_address() else {
        eprintln!("skipped: this machine has no address but loopback");
        return;
    };
    let home = Home::files(2, "256M");
    let member = home.start(&["--portal", "0.0.0.0:0"]);
    member.run(&["volume", "create", "vm", "64M"]);
    member.stop();
    let member = home.start(&["--portal", "0.0.0.0:0"]);
    member.logged("only hosts on this machine may use vm: ");
    let elsewhere = SocketAddr::new(own, member.portals()[1].port());
    let log_in = || Host::log_in(elsewhere, &member.iqn("vm"), 1, &[0]);
    assert!(log_in().is_err(), "it comes from {own}");
    assert_eq!(discovered_at(elsewhere), "");
    member.run(&["volume", "access", "add", "vm", "--ip", &own.to_string()]);
    log_in().expect("it was let in");
    assert!(discovered_at(elsewhere).contains(&member.iqn("vm")));
    member.stop();
}

/// A member that hangs gives no sign of life, and its manager ends it.
#[test]
fn a_member_that_was_halted_gives_no_sign_of_life() {
    let home = home_with_disks(1);
    let path = config(&home, "");
    let manager = UnixDatagram::bind(home.path("notify")).unwrap();
    let mut command = start(&path);
    command.env("NOTIFY_SOCKET", home.path("notify")).env("WATCHDOG_USEC", "300000");
    let member = home.start_by(command);
    member.signal(Signal::STOP);
    // All of its threads stand still before long.
    std::thread::sleep(Duration::from_millis(500));
    manager.set_nonblocking(true).unwrap();
    let mut bytes = [0; 512];
    while manager.recv(&mut bytes).is_ok() {}
    std::thread::sleep(Duration::from_secs(1));
    assert!(manager.recv(&mut bytes).is_err(), "it is not alive");
    member.signal(Signal::CONT);
    manager.set_nonblocking(false).unwrap();
    manager.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    manager.recv(&mut bytes).expect("it lives again");
    member.stop();
}

#[test]
fn a_file_that_does_not_read_is_refused_line_by_line() {
    let home = home_with_disks(1);
    let path = config(&home, "raed = 'raid1'\ncores = 'many'\n");
    let output = finish(&mut start(&path));
    let err = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2), "{err}");
    let shown = path.display();
    assert!(
        err.contains(&format!("{shown}: line 5: there is no key 'raed': write 'raid'")),
        "{err}"
    );
    assert!(err.contains(&format!("{shown}: line 6: ")), "{err}");
    assert!(!home.path("data").exists(), "nothing was begun");
}

/// The unit starts a member again that ends so, and none whose file is to be mended.
#[test]
fn a_start_before_any_of_its_disks_is_there_may_be_tried_again() {
    const UNIT: &str = include_str!("../../../../packaging/drystone.service");
    assert!(
        UNIT.contains("\nRestart=on-failure\n") && UNIT.contains("\nRestartPreventExitStatus=2\n")
    );
    let home = home_with_disks(0);
    let output = finish(&mut start(&config(&home, "")));
    let err = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{err}");
    assert!(err.contains("member.toml: line 3: no disk matches '"), "{err}");
}

#[test]
fn a_doctor_looks_at_the_portals_of_a_member_and_says_what_is_in_the_way() {
    let home = home_with_disks(1);
    let path = config(&home, "");
    let look = |words: &[&str]| {
        let output = finish(&mut drystone(&[&["doctor", "--json"], words].concat()));
        let findings: Vec<Value> = serde_json::from_slice(&output.stdout).expect("JSON");
        (output.status.code(), findings)
    };
    let about = |findings: &[Value], what: &str| {
        let found = findings.iter().find(|it| it["about"] == what);
        found.unwrap_or_else(|| panic!("nothing about {what}: {findings:?}")).clone()
    };
    let (code, findings) = look(&["--config", path.to_str().unwrap()]);
    assert_eq!(code, Some(0), "{findings:?}");
    assert_eq!(about(&findings, "portal 127.0.0.1:0")["severity"], "good");
    assert_eq!(about(&findings, "io_uring")["severity"], "good", "other tests of this file use it");
    // The start would be refused: a check that hosts had to pass is gone.
    fs::create_dir(home.path("data")).unwrap();
    fs::write(home.path("data/access"), "chap\n").unwrap();
    let path = config(&home, "allow = '127.0.0.0/8'\n");
    let (code, findings) = look(&["--config", path.to_str().unwrap()]);
    let data = about(&findings, "data directory");
    assert_eq!((code, &data["severity"]), (Some(1), &json!("error")), "{findings:?}");
    let started = finish(&mut start(&path));
    let told = String::from_utf8_lossy(&started.stderr).into_owned();
    let said = format!("{}: {}", data["found"].as_str().unwrap(), data["advice"].as_str().unwrap());
    assert_eq!(
        (started.status.code(), told.lines().last()),
        (Some(2), Some(&*format!("drystone: {said}")))
    );
    let (code, findings) = look(&["--portal", "192.0.2.1:3260"]);
    assert_eq!(code, Some(1));
    let portal = about(&findings, "portal 192.0.2.1:3260");
    assert_eq!(portal["severity"], "error");
    assert!(portal["advice"].as_str().unwrap().contains("no address 192.0.2.1"), "{portal}");
}

fn check(path: &std::path::Path) -> (Option<i32>, Value) {
    let words =
        ["member", "check", "--json", "--config", path.to_str().expect("the path is UTF-8")];
    let output = finish(&mut drystone(&words));
    (output.status.code(), serde_json::from_slice(&output.stdout).expect("JSON"))
}

#[test]
fn a_check_says_what_is_wrong_before_it_matters() {
    let home = home_with_disks(2);
    assert_eq!(check(&config(&home, "")).0, Some(0));
    let secret = home.path("chap");
    fs::write(&secret, "alice:sixteen-bytes-ok").unwrap();
    let more = format!("journal = '/nonexistent/sdz'\nchap-file = '{}'\n", secret.display());
    let (code, report) = check(&config(&home, &more));
    let said = |report: &Value| -> Vec<(String, u64, String)> {
        let findings = report["findings"].as_array().expect("a list").iter();
        let of = |it: &Value| {
            let text = |key: &str| it[key].as_str().expect("a text").to_owned();
            (text("severity"), it["line"].as_u64().expect("a line"), text("text"))
        };
        findings.map(of).collect()
    };
    let findings = said(&report);
    assert_eq!(code, Some(0), "an array opens without a disk: {findings:?}");
    assert_eq!(findings.len(), 2, "{findings:?}");
    assert!(findings[0].2.starts_with("disk '/nonexistent/sdz' is not there"), "{findings:?}");
    assert!(findings[1].2.contains("chmod 600"), "{findings:?}");
    assert_eq!((findings[0].1, findings[1].1), (5, 6));

    fs::remove_file(&secret).unwrap();
    let (code, report) = check(&config(&home, &format!("{more}portal = '192.0.2.1'\n")));
    assert_eq!(code, Some(1), "{report}");
    assert!(report["findings"][0]["text"].as_str().unwrap().contains("duplicate key"), "{report}");
    let (code, report) = check(&config(&home, &more));
    assert_eq!(code, Some(1), "the secret is gone: {report}");
    assert_eq!(said(&report).last().unwrap().0, "error");
}

#[test]
fn a_check_and_a_start_refuse_the_same_log_filter_in_the_same_words() {
    let home = home_with_disks(2);
    let path = config(&home, "log = 'blah=;'\n");
    let (code, report) = check(&path);
    assert_eq!(code, Some(1), "{report}");
    let finding = &report["findings"][0];
    assert_eq!((&finding["severity"], &finding["line"]), (&json!("error"), &json!(5)), "{report}");
    let said = finding["text"].as_str().expect("a text");
    assert!(said.starts_with("log: 'blah=;' is not a log filter: write error, warn"), "{said}");
    let started = finish(&mut drystone(&["member", "start", "--config", path.to_str().unwrap()]));
    let told = String::from_utf8_lossy(&started.stderr).into_owned();
    let wanted = format!("drystone: {}: line 5: {said}\n", path.display());
    assert_eq!((started.status.code(), told), (Some(2), wanted));
    // The same of an option, but for what it is called.
    let up = finish(&mut drystone(&["up", "--log", "blah=;"]));
    assert_eq!(String::from_utf8_lossy(&up.stderr), format!("drystone: --{said}\n"));
}

#[test]
fn a_check_says_what_keeps_a_member_from_being_managed_over_tls() {
    let home = home_with_disks(2);
    let listens = "api-listen = ['127.0.0.1:0', '192.0.2.1:8443']\n";
    let alone = format!("{listens}api-certificate = '/nonexistent/c'\n");
    let (code, report) = check(&config(&home, &alone));
    assert_eq!(code, Some(1), "{report}");
    let text = report.to_string();
    assert!(text.contains("write api-key FILE beside api-certificate"), "{text}");
    let (code, report) = check(&config(&home, &format!("{alone}api-key = '/nonexistent/k'\n")));
    assert_eq!(code, Some(0), "hosts are served all the same: {report}");
    let text = report.to_string();
    assert!(text.contains("'/nonexistent/c' cannot be used for TLS"), "{text}");
    assert!(text.contains("cannot listen on 192.0.2.1:8443 to be managed over TLS"), "{text}");
    assert_eq!(report["findings"].as_array().map(Vec::len), Some(2), "{text}");
}

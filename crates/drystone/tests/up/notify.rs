//! Events that go on from a member to a webhook, over its end.

use crate::common::member::{Home, Member};
use serde_json::Value;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;
use std::{fs, thread};

const PATIENCE: Duration = Duration::from_secs(60);

/// Takes one request and passes its head and its event on.
fn take(mut stream: TcpStream) -> Option<(String, Value)> {
    let mut reader = BufReader::new(stream.try_clone().ok()?);
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        if reader.read_line(&mut head).ok()? == 0 {
            return None;
        }
    }
    let length = head.lines().find_map(|line| {
        line.to_ascii_lowercase().strip_prefix("content-length: ")?.parse::<usize>().ok()
    })?;
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    stream.write_all(b"HTTP/1.1 204 No Content\r\n\r\n").ok()?;
    Some((head, serde_json::from_slice(&body).ok()?))
}

fn hook() -> (SocketAddr, Receiver<(String, Value)>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("it is bound");
    let (tell, told) = channel();
    thread::spawn(move || {
        for request in listener.incoming().flatten().filter_map(take) {
            if tell.send(request).is_err() {
                return;
            }
        }
    });
    (address, told)
}

fn kind_after(told: &Receiver<(String, Value)>) -> String {
    let (head, event) = told.recv_timeout(PATIENCE).expect("it comes");
    assert!(head.to_ascii_lowercase().contains("drystone-signature: sha256="), "{head}");
    event["kind"].as_str().expect("a kind").to_owned()
}

fn add(home: &Home, member: &Member<'_>, address: SocketAddr) -> String {
    let file = home.path("secret");
    fs::write(&file, "hush-hush-hush\n").expect("it is written");
    fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).expect("it is ours");
    let (file, url) = (file.display().to_string(), format!("http://{address}/p4th"));
    member.run(&[
        "notify",
        "add",
        "ops",
        "--webhook",
        &url,
        "--secret-file",
        &file,
        "--severity",
        "info",
    ])
}

#[test]
fn events_go_to_a_webhook_also_those_around_a_kill_and_no_secret_shows() {
    let home = Home::files(3, "128M");
    let (address, told) = hook();
    let member = home.start(&[]);
    assert!(member.run(&["notify", "list"]).starts_with("events go nowhere: "));
    let shown = add(&home, &member, address);
    assert!(shown.contains("webhook http://127.0.0.1:") && !shown.contains("p4th"), "{shown}");
    assert_eq!(member.run(&["notify", "test", "ops"]), "destination 'ops' has taken the test\n");
    assert_eq!(kind_after(&told), "destination_tested");
    member.run(&["array", "scrub"]);
    assert_eq!(kind_after(&told), "scrub_begun");
    assert_eq!(kind_after(&told), "scrub_ended");
    let shown = member.json(&["notify", "show", "ops"]);
    assert_eq!((&shown["delivered"], &shown["failed"]), (&Value::from(2), &Value::from(0)));
    let exported = member.run(&["export-config"]);
    let log = member.log();
    for text in [shown.to_string(), exported, log, member.run(&["audit"])] {
        assert!(!text.contains("hush") && !text.contains("p4th"), "{text}");
    }
    // What a place needs to be written down.
    thread::sleep(Duration::from_secs(3));
    member.crash();

    let member = home.start(&[]);
    assert_eq!(kind_after(&told), "member_started_unclean", "and none of what came before");
    member.stop();
    assert_eq!(kind_after(&told), "member_stopped");
}

#[test]
fn a_syslog_server_that_moves_keeps_the_audit_log_unless_that_is_said() {
    let home = Home::files(3, "128M");
    let member = home.start(&[]);
    let set = |more: &[&str]| {
        let server = ["notify", "set", "siem", "--syslog", "127.0.0.1:9"];
        member.run(&[&server, more].concat());
        member.json(&["notify", "show", "siem"])["to"]["syslog"]["audit"].clone()
    };
    member.run(&["notify", "add", "siem", "--syslog", "127.0.0.1:9", "--audit"]);
    assert_eq!(set(&["--transport", "tcp"]), true);
    assert_eq!(set(&["--no-audit"]), false);
    assert_eq!(set(&[]), false);
    assert_eq!(set(&["--audit"]), true);
    member.stop();
}

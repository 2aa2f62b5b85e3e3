//! Who is no member gets nothing from the ports of members.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4, TcpStream};
use std::process::{Command, Stdio};
use std::time::Duration;

use rustix::net::{self, AddressFamily, SocketType};

use crate::sites::{
    PATIENCE, Site, asked, await_states, create, joining, sites, states, ticket, wait_for, words,
};

/// More than a door takes at once.
const SILENT: u8 = 200;

/// What curl prints: whether it heard an answer of HTTP, its status, and what it was.
fn curl(url: &str, more: &[&str]) -> (bool, String, String) {
    let mut command = Command::new("curl");
    // Whose certificate it is is not looked at: a stranger need not.
    command.args(["--silent", "--insecure", "--max-time", "30", "--write-out", "\n%{http_code}"]);
    let output = command.args(more).arg(url).stdin(Stdio::null()).output().expect("there is curl");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let (body, status) = text.rsplit_once('\n').expect("the status is the last line");
    (output.status.success(), status.to_owned(), body.to_owned())
}

fn port_of(site: &Site, number: u16) -> SocketAddr {
    SocketAddr::new(site.door.ip(), site.door.port() + number)
}

#[test]
fn a_stranger_gets_nothing_at_the_ports_of_a_member() {
    let [site, _, _] = sites();
    let member = site.start();
    let group = create(&member, &site);
    let id = group["id"].as_str().expect("a text");
    let door = port_of(&site, 0);
    // The door lets nobody do more than to ask to be let in, however it is asked.
    for path in ["/", "/v1", "/v1/group", "/v1/members", "/v1/volumes", "/metrics", "/door/v1"] {
        let (is_heard, status, body) = curl(&format!("https://{door}{path}"), &[]);
        assert!(!is_heard || status == "404", "{path}: {status} {body}");
        assert!(!body.contains(id) && !body.contains("san1"), "{path}: {body}");
    }
    let join = format!("https://{door}/door/v1/join");
    let (_, status, body) = curl(&join, &[]);
    assert!(!status.starts_with('2') && !body.contains(id), "{status} {body}");
    for sent in ["", "{}", "[]", "no JSON"] {
        let more = ["--header", "Content-Type: application/json", "--data", sent];
        let (_, status, body) = curl(&join, &more);
        assert!(status.starts_with('4') && !body.contains(id), "{sent:?}: {status} {body}");
    }
    // Those of etcd are for who has a certificate of the group's authority.
    for (number, path) in
        [(1, "/version"), (1, "/health"), (1, "/metrics"), (2, "/members"), (2, "/version")]
    {
        let (is_heard, _, body) = curl(&format!("https://{}{path}", port_of(&site, number)), &[]);
        assert!(!is_heard && body.is_empty(), "port {number}: {path}: {body}");
    }
    for number in 0..3 {
        let said = without_tls(port_of(&site, number));
        assert!(!said.contains(" 200 ") && !said.contains(id), "port {number}: {said}");
    }
    assert_eq!(states(&member).expect("it answers").len(), 1);
}

/// What a port says to who does not even speak TLS.
fn without_tls(port: SocketAddr) -> String {
    let mut stream = TcpStream::connect(port).expect("it listens");
    stream.set_read_timeout(Some(Duration::from_secs(30))).expect("a time can be set");
    stream
        .write_all(b"GET /version HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
        .expect("sent");
    let mut answer = Vec::new();
    // A connection that is reset says nothing either.
    let _ = stream.read_to_end(&mut answer);
    String::from_utf8_lossy(&answer).into_owned()
}

/// A connection of the host at 127.0.0.`last_byte`.
fn connect_from(last_byte: u8, door: SocketAddr) -> TcpStream {
    let socket = net::socket(AddressFamily::INET, SocketType::STREAM, None).expect("a socket");
    let from = SocketAddrV4::new(Ipv4Addr::new(127, 0, 0, last_byte), 0);
    net::bind(&socket, &from).expect("each address of the loopback is ours");
    net::connect(&socket, &door).expect("the door or the kernel takes it");
    socket.into()
}

/// Connections that say nothing are shown out, and keep the members themselves from nothing.
#[test]
fn a_crowd_that_says_nothing_does_not_close_the_door() {
    let [site_a, site_b, _] = sites();
    let (a, b) = (site_a.start(), site_b.start());
    create(&a, &site_a);
    // Of fifty hosts, so that it is not for one of them alone that there is no room.
    let crowd: Vec<TcpStream> =
        (0..SILENT).map(|number| connect_from(50 + number % 50, site_a.door)).collect();
    await_states(&a, &[("a", "present")], PATIENCE);
    // They stay as long as they may. Who asks meanwhile tries again, with the ticket that is good for it.
    let mut ticket_now = ticket(&a);
    wait_for("b is let in", PATIENCE, || {
        let line = joining(&site_b, &site_a, &ticket_now);
        let (code, _, said) = b.home.ask(&words(&line));
        if code == 0 {
            return Ok(());
        }
        // An answer that was lost took the ticket along.
        if said.contains("wrong, was used or has expired") {
            ticket_now = ticket(&a);
        }
        Err(said)
    });
    await_states(&b, &[("a", "present"), ("b", "present")], PATIENCE);
    assert_eq!(asked(&b, &["group", "show"]).expect("it answers")["members"], 2);
    drop(crowd);
}

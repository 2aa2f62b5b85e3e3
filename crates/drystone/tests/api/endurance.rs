//! Many requests, and many connections that ask for nothing: neither leaves anything behind, and data goes on.
//!
//! `DRYSTONE_API_LOAD_SECONDS` says how long requests come (default: 6; `make soak` has ten minutes),
//! `DRYSTONE_API_IDLE` how many connections there are (default: 2,000; `make soak` has 10,000).

use crate::common::member::{Home, Member};
use crate::host::Host;
use crate::http;
use crate::process::{descriptors, resident_bytes, threads};
use crate::{ask, fill, make};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use serde_json::json;
use std::env;
use std::io::Write;
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

/// Requests of one client in a second; there are two.
const RATE: u64 = 100;

fn number(name: &str, default: u64) -> u64 {
    let text = env::var(name).ok();
    text.map_or(default, |text| text.parse().unwrap_or_else(|_| panic!("{name} is no number")))
}

/// One request of many kinds: looks, changes, refusals, repeated ones, and work that is followed for a moment.
fn one(socket: &Path, client: u64, number: u64) {
    let get = |path: &str| http::ask(socket, "GET", path, &[], None).status;
    let status = match number % 8 {
        0 => get("/v1/volumes"),
        1 => get("/v1/volumes/nothing") - 204,
        2 => {
            let body = json!({"read_ahead_bytes": number % 2 * 4096});
            http::ask(socket, "PATCH", "/v1/volumes/a", &[], Some(&body)).status
        }
        3 | 7 => {
            let key = format!("idempotency-key: {client}-{number}");
            let body = json!({"volumes": ["a"], "name": "no name"});
            http::ask(socket, "POST", "/v1/snapshots", &[&key], Some(&body)).status - 222
        }
        4 => get("/v1/events?last=20"),
        5 => get("/metrics"),
        _ => {
            let mut stream = http::connect(socket);
            let follow = b"GET /v1/jobs/stream HTTP/1.1\r\nhost: x\r\n\r\n";
            stream.write_all(follow).map_or(0, |()| 200)
        }
    };
    assert_eq!(status, 200, "request {number}");
}

/// Both clients for a while; how many requests were answered.
fn load(socket: &Path, from: u64, time: Duration) -> u64 {
    let client = |client: u64| {
        let (begun, mut done) = (Instant::now(), 0);
        while begun.elapsed() < time {
            one(socket, client, from + done);
            done += 1;
            let due = begun + Duration::from_micros(done * 1_000_000 / RATE);
            thread::sleep(due.saturating_duration_since(Instant::now()));
        }
        done
    };
    thread::scope(|scope| {
        let client = &client;
        let both: Vec<_> = (0..2).map(|which| scope.spawn(move || client(which))).collect();
        both.into_iter().map(|one| one.join().expect("it asks")).sum()
    })
}

#[test]
fn requests_by_the_thousand_leave_nothing_behind() {
    let seconds = number("DRYSTONE_API_LOAD_SECONDS", 6);
    let home = Home::files(3, "128M");
    let member = home.start(&[]);
    let socket = home.socket();
    make(&member, "a");
    // What is remembered on purpose is full then, in the long form.
    let warm = Duration::from_secs((seconds / 2).min(60));
    let mut asked = load(&socket, 0, warm);
    let settled = || {
        thread::sleep(Duration::from_millis(500));
        (resident_bytes(&member), descriptors(&member))
    };
    let (bytes, files) = settled();
    let begun = Instant::now();
    let mut answered = 0;
    while begun.elapsed() < Duration::from_secs(seconds) {
        let part = load(&socket, asked, Duration::from_secs(seconds.min(60)));
        (answered, asked) = (answered + part, asked + part);
        let kib = resident_bytes(&member) >> 10;
        eprintln!("after {:.0?}: {answered} requests, {kib} KiB", begun.elapsed());
    }
    let rate = answered as f64 / begun.elapsed().as_secs_f64();
    let (bytes_after, files_after) = settled();
    let grown_kib = bytes_after.saturating_sub(bytes) >> 10;
    eprintln!(
        "{rate:.0} requests a second; {} KiB and {grown_kib} more, {files} files and {files_after}",
        bytes >> 10
    );
    // On a machine that does much else there are fewer.
    assert!(rate > RATE as f64 / 4.0, "far fewer came than should have: {rate}");
    assert!(grown_kib < 8 << 10, "{grown_kib} KiB more after {answered} requests");
    assert!(files_after <= files + 2, "{files} files, {files_after} after {answered} requests");
    member.stop();
}

/// As many as are asked for, or as many as this process may have.
fn idle_count() -> usize {
    let limit = getrlimit(Resource::Nofile);
    let all = Rlimit { current: limit.maximum, ..limit };
    setrlimit(Resource::Nofile, all).expect("a limit may be raised to its own bound");
    let may = limit.maximum.unwrap_or(u64::MAX).saturating_sub(300);
    let count = number("DRYSTONE_API_IDLE", 2000).min(may);
    usize::try_from(count).expect("a number of files")
}

/// What holds while they are there: both doors answer, and a host reads.
fn answers(member: &Member<'_>, server: &str, host: &mut Host) {
    let begun = Instant::now();
    assert_eq!(ask(member, "GET", "/v1/volumes", None).status, 200);
    let curl = Command::new("curl")
        .args(["--silent", "--insecure", "--max-time", "20", "--output", "/dev/null"])
        .args(["--write-out", "%{http_code}", &format!("https://{server}/v1/volumes")])
        .output()
        .expect("there is curl");
    assert_eq!(String::from_utf8_lossy(&curl.stdout), "401", "it asks who that is");
    for at in 0..100 {
        let answer =
            host.run(0, &[0x28, 0, 0, 0, 0, at, 0, 0, 8, 0], 4096, &[]).expect("an answer");
        assert!(answer.is_good(), "{answer:?}");
    }
    assert!(begun.elapsed() < Duration::from_secs(9), "{:?}", begun.elapsed());
}

#[test]
fn thousands_of_idle_connections_take_no_memory_and_keep_nobody_out() {
    let count = idle_count();
    let home = Home::files(3, "128M");
    let member = home.start(&["--api-listen", "127.0.0.1:0"]);
    let line = member.lines.iter().find_map(|line| line.strip_prefix("api address="));
    let server = line.and_then(|line| line.split(' ').next()).expect("a line").to_owned();
    make(&member, "a");
    fill(&member, "a");
    let mut host = Host::log_in(member.portal(), &member.iqn("a"), 1, &[0]).expect("it is served");
    answers(&member, &server, &mut host);
    let (bytes, files) = (resident_bytes(&member), descriptors(&member));
    let told = |what: &str, held: usize| {
        let grown_kib = resident_bytes(&member).saturating_sub(bytes) >> 10;
        let more = descriptors(&member) - files;
        eprintln!("{held} connections {what}: {grown_kib} KiB and {more} files more");
        assert!(grown_kib < 16 << 10 && more <= 600, "{grown_kib} KiB, {more} files");
    };
    // Data goes on while they come.
    let read = |host: &mut Host, at: usize| {
        if at.is_multiple_of(100) {
            let answer = host.run(0, &[0x28, 0, 0, 0, 0, 0, 0, 0, 8, 0], 4096, &[]);
            assert!(answer.expect("an answer").is_good(), "at connection {at}");
        }
    };
    let mut local = Vec::new();
    for at in 0..count {
        local.push(UnixStream::connect(home.socket()).expect("it listens"));
        read(&mut host, at);
    }
    told("at the socket", local.len());
    answers(&member, &server, &mut host);
    drop(local);
    let mut afar = Vec::new();
    for at in 0..count {
        afar.push(TcpStream::connect(&server).expect("it listens"));
        read(&mut host, at);
    }
    told("over TLS", afar.len());
    answers(&member, &server, &mut host);
    drop(afar);
    let end = Instant::now() + Duration::from_secs(10);
    while descriptors(&member) > files + 2 {
        assert!(Instant::now() < end, "{} files, {files} before", descriptors(&member));
        thread::sleep(Duration::from_millis(50));
    }
    member.stop();
}

#[test]
fn who_works_on_requests_stands_back_behind_who_answers_hosts() {
    let home = Home::files(1, "256M");
    let member = home.start(&[]);
    let threads = threads(&member);
    // Whoever runs the tests may stand back already.
    let own = threads.iter().map(|(_, nice)| *nice).min().expect("it has threads");
    for (name, nice) in &threads {
        let wanted = if name == "api" { (own + 10).min(19) } else { own };
        assert_eq!(*nice, wanted, "{name} of {threads:?}");
    }
    assert!(threads.iter().any(|(name, _)| name == "api"), "{threads:?}");
    // Nobody can join a member that is in no group.
    assert!(threads.iter().all(|(name, _)| name != "members"), "{threads:?}");
    member.stop();
}

/// A terminal that was stopped, or a pager: each login and each change is a line, and none of them is waited for.
#[test]
fn nobody_waits_for_a_log_that_nobody_reads() {
    let home = Home::files(1, "256M");
    let (member, unread) = home.start_unread();
    make(&member, "a");
    let iqn = member.iqn("a");
    let log_in = |number| Host::log_in(member.portal(), &iqn, number, &[0]).expect("it is let in");
    let mut host = log_in(1);
    for number in 2..60 {
        drop(log_in(number));
        let read = [0x28, 0, 0, 0, 0, 0, 0, 0, 8, 0];
        assert!(host.run(0, &read, 4096, &[]).expect("an answer").is_good());
        let online = json!({"read_ahead_bytes": u32::from(number) * 4096});
        assert_eq!(ask(&member, "PATCH", "/v1/volumes/a", Some(&online)).status, 200);
    }
    member.stop();
    drop(unread);
}

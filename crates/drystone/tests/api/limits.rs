//! Who asks for what there is not, sends too much, too slowly or nothing at all.

use crate::common::member::Home;
use crate::http::{self, connect, hear};
use crate::{ask, fill, make};
use serde_json::json;
use std::fs;
use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::thread;
use std::time::{Duration, Instant};

#[test]
fn what_there_is_not_is_told_of() {
    let home = Home::files(3, "128M");
    let member = home.start(&[]);
    make(&member, "a");
    for path in [
        "/",
        "/v1",
        "/v2/volumes",
        "/v1/volumes/",
        "/v1//volumes",
        "/v1/volumes/a/b/c",
        "/v1/volumes/../array",
        "/v1/%2e%2e/v1/array",
        "/v1/volumes/..",
        "/v1/volumes/a%2f..%2fa",
        "/v1/volumes/%00",
        "/v1/volumes/%ff",
        "/v1/disks/%2Fdev%2Fsda",
        "/etc/passwd",
    ] {
        let reply = ask(&member, "GET", path, None);
        assert_eq!(reply.status, 404, "{path}: {}", reply.text());
        reply.problem();
    }
    // A disk that is there is not found by a path in disguise.
    let disk = home.path("disk-0").display().to_string().replace('/', "%2F");
    assert_eq!(ask(&member, "GET", &format!("/v1/disks/{disk}"), None).problem(), "no-such-disk");
    assert_eq!(ask(&member, "GET", &format!("/v1/disks?disk={disk}"), None).status, 200);
    for (method, path) in [("PUT", "/v1/volumes"), ("DELETE", "/v1/array"), ("POST", "/metrics")] {
        let reply = ask(&member, method, path, None);
        assert_eq!((reply.status, reply.problem().as_str()), (405, "method-not-allowed"));
        assert!(reply.header("allow").is_some_and(|allowed| allowed.contains("GET")), "{path}");
    }
    assert_eq!(ask(&member, "HEAD", "/v1/volumes", None).status, 200);
    member.stop();
}

#[test]
fn what_does_not_read_or_is_too_large_is_refused() {
    let home = Home::files(3, "128M");
    let member = home.start(&[]);
    let socket = home.socket();
    let send = |headers: &str, body: &str| {
        let len = body.len();
        let head =
            format!("POST /v1/volumes HTTP/1.1\r\nhost: x\r\nconnection: close\r\n{headers}");
        http::raw(&socket, format!("{head}content-length: {len}\r\n\r\n{body}").as_bytes())
    };
    const JSON: &str = "content-type: application/json\r\n";
    for (headers, body, status, code) in [
        (JSON, "{", 400, "bad-request"),
        (JSON, "[]", 422, "invalid"),
        (JSON, "", 422, "invalid"),
        (JSON, "{\"name\":7,\"size_bytes\":1}", 422, "invalid"),
        ("", "{}", 415, "not-json"),
        ("content-type: text/plain\r\n", "{}", 415, "not-json"),
    ] {
        let reply = send(headers, body);
        assert_eq!((reply.status, reply.problem().as_str()), (status, code), "{headers}{body}");
    }
    let large = format!("{{\"name\":\"{}\"}}", "x".repeat(1 << 20));
    assert_eq!(send(JSON, &large).problem(), "body-too-large");
    // Of a length that nobody has told.
    let mut chunked = format!(
        "POST /v1/volumes HTTP/1.1\r\nhost: x\r\nconnection: close\r\n{JSON}transfer-encoding: chunked\r\n\r\n"
    );
    for _ in 0..20 {
        chunked.push_str(&format!("10000\r\n{}\r\n", "x".repeat(0x10000)));
    }
    chunked.push_str("0\r\n\r\n");
    assert_eq!(http::raw(&socket, chunked.as_bytes()).problem(), "body-too-large");
    let heads = "x-filler: y\r\n".repeat(20_000);
    assert_eq!(send(&heads, "").status, 431);
    assert_eq!(http::raw(&socket, b"what?\r\n\r\n").status, 400);
    assert_eq!(ask(&member, "GET", "/v1/volumes", None).json(), json!([]));
    member.stop();
}

#[test]
fn slow_and_silent_clients_are_put_out_and_hurt_nobody() {
    let home = Home::files(3, "128M");
    let member = home.start(&[]);
    let socket = home.socket();
    // A body that does not come, a head that does not end, and an answer that nobody takes.
    let mut half = connect(&socket);
    half.write_all(b"POST /v1/volumes HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: 9\r\n\r\n{")
        .unwrap();
    let mut head = connect(&socket);
    head.write_all(b"GET /v1/volumes HT").unwrap();
    let mut greedy = connect(&socket);
    greedy.set_nonblocking(true).unwrap();
    let request = b"GET /v1/openapi.json HTTP/1.1\r\nhost: x\r\n\r\n";
    while greedy.write(request).is_ok_and(|len| len == request.len()) {}
    // Far more than may be open, one after the other: each makes room for the next.
    let begun = Instant::now();
    let mut silent = Vec::new();
    for _ in 0..10_000 {
        if silent.len() == 500 {
            silent.clear();
        }
        silent.push(UnixStream::connect(&socket).unwrap());
    }
    let reply = ask(&member, "GET", "/v1/volumes", None);
    assert_eq!(reply.json(), json!([]));
    assert!(begun.elapsed() < Duration::from_secs(9), "{:?}", begun.elapsed());
    let files = fs::read_dir(format!("/proc/{}/fd", member.pid())).unwrap().count();
    assert!(files < 400, "{files} files are open");
    // Who has asked is not put out for them.
    let reply = hear(&mut half);
    assert_eq!((reply.status, reply.problem().as_str()), (408, "body-timeout"));
    drop(head.read_to_end(&mut Vec::new()));
    assert!(begun.elapsed() < Duration::from_secs(20), "{:?}", begun.elapsed());
    drop((silent, greedy));
    member.stop();
}

#[test]
fn requests_leave_nothing_behind() {
    let home = Home::files(3, "128M");
    let member = home.start(&[]);
    make(&member, "a");
    let files = || fs::read_dir(format!("/proc/{}/fd", member.pid())).unwrap().count();
    let memory = || {
        let status = fs::read_to_string(format!("/proc/{}/status", member.pid())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
        line.trim().trim_end_matches(" kB").parse::<u64>().unwrap()
    };
    let round = |count: usize| {
        for number in 0..count {
            for path in ["/v1/volumes", "/v1/volumes/none", "/metrics", "/v1/jobs/stream"] {
                let reply = ask(&member, "GET", path, None);
                assert!([200, 404].contains(&reply.status), "{}", reply.text());
            }
            let key = format!("idempotency-key: {number}");
            let none = json!({"volumes": ["none"], "name": "s"});
            let reply = http::ask(&home.socket(), "POST", "/v1/snapshots", &[&key], Some(&none));
            assert_eq!(reply.status, 404, "{}", reply.text());
        }
    };
    round(200);
    let (files_before, kb_before) = (files(), memory());
    round(400);
    // The last of them may just be ending.
    assert!(files() <= files_before + 2, "{} files, {files_before} before", files());
    assert!(memory() < kb_before + 8192, "{} KiB, {kb_before} before", memory());
    member.stop();
}

#[test]
fn what_was_accepted_is_done_when_the_asker_goes_away() {
    let home = Home::files(3, "128M");
    let member = home.start(&[]);
    let body = json!({"name": "a", "size_bytes": 64 << 20}).to_string();
    let len = body.len();
    let request = format!(
        "POST /v1/volumes HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: {len}\r\n\r\n{body}"
    );
    let is_made = || ask(&member, "GET", "/v1/volumes/a", None).status == 200;
    // On a busy machine the asker may be gone before the request is read, and then it was not accepted.
    let is_done = (1..=20).any(|attempt| {
        let mut stream = connect(&home.socket());
        stream.write_all(request.as_bytes()).unwrap();
        thread::sleep(Duration::from_millis(attempt));
        drop(stream);
        let end = Instant::now() + Duration::from_secs(1);
        while !is_made() && Instant::now() < end {
            thread::sleep(Duration::from_millis(20));
        }
        is_made()
    });
    assert!(is_done, "it was not made");
    // It is there a moment before it is done.
    member.logged(": POST /v1/volumes: ");
    member.stop();
}

#[test]
fn one_connection_takes_many_requests_and_a_stop_does_not_wait_for_silent_ones() {
    let home = Home::files(3, "128M");
    let member = home.start(&[]);
    let socket = home.socket();
    let mode = fs::metadata(&socket).unwrap().permissions().mode() & 0o777;
    assert!([0o600, 0o660].contains(&mode), "{mode:o}");
    let mut kept = connect(&socket);
    for _ in 0..3 {
        kept.write_all(b"GET /v1/jobs HTTP/1.1\r\nhost: x\r\n\r\n").unwrap();
        let mut answer = [0; 4096];
        let len = kept.read(&mut answer).unwrap();
        let answer = String::from_utf8_lossy(&answer[..len]).into_owned();
        assert!(answer.starts_with("HTTP/1.1 200 OK\r\n") && answer.ends_with("[]"), "{answer}");
    }
    let silent = connect(&socket);
    let begun = Instant::now();
    member.stop();
    assert!(begun.elapsed() < Duration::from_secs(8), "{:?}", begun.elapsed());
    assert!(!socket.exists());
    let log = fs::read_to_string(home.path("log")).unwrap();
    assert!(!log.contains("without an answer") && !log.contains("ERROR"), "{log}");
    drop((kept, silent));
}

#[test]
fn a_stop_ends_what_is_followed_with_a_word() {
    let home = Home::files(3, "128M");
    let member = home.start(&["--raid", "raid5"]);
    make(&member, "a");
    fill(&member, "a");
    let run = ask(&member, "POST", "/v1/array/scrub", None);
    let place = run.header("location").expect("a place").to_owned();
    let mut stream = connect(&home.socket());
    let request = format!("GET {place}/stream HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).unwrap();
    // The member has read it and answers.
    let mut first = [0];
    stream.read_exact(&mut first).unwrap();
    member.stop();
    let told = hear(&mut first.chain(stream)).text();
    // It was quick enough, or says that it has to stop.
    let is_told = told.contains("event: done") || told.contains("\"code\":\"stopping\"");
    assert!(is_told, "{told}");
}

/// Each such question makes a checkpoint, which disks must write.
#[test]
fn what_walks_over_a_map_is_answered_so_often_and_no_more() {
    let home = Home::files(3, "128M");
    let member = home.start(&[]);
    make(&member, "a");
    let begun = Instant::now();
    for _ in 0..12 {
        assert_eq!(ask(&member, "GET", "/v1/volumes/a/changes", None).status, 200);
    }
    assert!(begun.elapsed() >= Duration::from_millis(500), "{:?}", begun.elapsed());
    member.stop();
}

//! Who speaks too slowly, too much, in another language or not at all.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::thread;
use std::time::{Duration, Instant};

use api::client::Client;
use group::accounts::Role;

use crate::tls::{ask, basic, bearer, head, request, rest, status, tcp, tls, tls_of, try_head};
use crate::{HELD, PASSWORD, SECOND, Served, token};

#[test]
fn idle_connections_stop_neither_the_socket_nor_other_places_nor_their_own() {
    let served = Served::begin();
    let idle: Vec<TcpStream> = (0..300).map(|_| tcp(served.address, 9)).collect();
    let begun = Instant::now();
    for _ in 0..20 {
        assert_eq!(Client::new(served.socket()).jobs().unwrap().len(), 1);
    }
    let jobs = request("GET", "/v1/jobs", &[&bearer(&token(Role::ReadOnly))], "");
    for last in [1, 9] {
        assert_eq!(status(&ask(served.address, last, &jobs)), 200, "127.0.0.{last}");
    }
    assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
    drop(idle);
    served.server.stop();
}

#[test]
fn requests_that_are_sent_by_half_keep_nobody_else_out() {
    let served = Served::begin();
    let operator = bearer(&token(Role::Operator));
    let whole = request("POST", "/v1/array/scrub", &[&operator], "{}");
    let jobs = request("GET", "/v1/jobs", &[&bearer(SECOND)], "");
    let mut half = Vec::new();
    for _ in 0..2 {
        // As many as there are places, from four addresses, and again.
        for number in 0..32 {
            let mut stream = tls(served.address, 2 + number % 4);
            stream.write_all(&whole.as_bytes()[..whole.len() - 2]).unwrap();
            half.push(stream);
        }
        thread::sleep(Duration::from_millis(300));
        let begun = Instant::now();
        assert_eq!(status(&ask(served.address, 1, &jobs)), 200);
        assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
    }
    // What comes in whole after all is done.
    let mut last = half.pop().unwrap();
    last.write_all(b"{}").unwrap();
    assert_eq!(status(&head(&mut last)), 202);
    drop(half);
    served.server.stop();
}

#[test]
fn a_login_with_much_under_way_leaves_room_for_others() {
    let served = Served::begin();
    let path = format!("/v1/tokens/{HELD}");
    let delete = |last| {
        let mut stream = tls(served.address, last);
        let login = bearer(&token(Role::Administrator));
        stream.write_all(request("DELETE", &path, &[&login], "").as_bytes()).unwrap();
        stream
    };
    let mut many: Vec<_> = (0..40).map(|number| delete(2 + number % 5)).collect();
    thread::sleep(Duration::from_millis(300));
    assert_eq!(served.held.lock().unwrap().len(), 8);
    let mut refused = many.pop().unwrap();
    assert_eq!(status(&head(&mut refused)), 503);
    let jobs = request("GET", "/v1/jobs", &[&bearer(SECOND)], "");
    assert_eq!(status(&ask(served.address, 1, &jobs)), 200);
    served.held.lock().unwrap().clear();
    served.server.stop();
}

#[test]
fn a_handshake_that_takes_too_long_is_given_up() {
    let served = Served::begin();
    let begun = Instant::now();
    let silent = tcp(served.address, 1);
    let mut slow = tcp(served.address, 2);
    // The beginning of a record that never ends.
    slow.write_all(&[22, 3, 1, 2, 0, 1]).unwrap();
    for mut stream in [silent, slow] {
        let ended = thread::spawn(move || stream.read(&mut [0; 64]).map_or(0, |len| len));
        ended.join().unwrap();
    }
    let took = begun.elapsed();
    assert!((Duration::from_secs(9)..Duration::from_secs(15)).contains(&took), "{took:?}");
    served.server.stop();
}

#[test]
fn who_speaks_no_tls_is_told_so_and_nonsense_is_hung_up_on() {
    let served = Served::begin();
    let mut plain = tcp(served.address, 1);
    plain.write_all(request("GET", "/v1/jobs", &[], "").as_bytes()).unwrap();
    let answer = head(&mut plain);
    assert_eq!(status(&answer), 400);
    assert!(answer.contains("this port speaks tls: ask with https://"), "{answer}");
    let mut nonsense = tcp(served.address, 1);
    nonsense.write_all(&[22; 4096]).unwrap();
    let begun = Instant::now();
    let (said, _) = rest(&mut nonsense);
    assert!(said.len() < 64 && begun.elapsed() < Duration::from_secs(5), "{said:?}");
    served.server.stop();
}

#[test]
fn both_versions_of_tls_are_spoken() {
    let served = Served::begin();
    for version in rustls::ALL_VERSIONS {
        let mut stream = tls_of(served.address, 1, &[*version]);
        let jobs = request("GET", "/v1/jobs", &[&bearer(&token(Role::ReadOnly))], "");
        stream.write_all(jobs.as_bytes()).unwrap();
        assert_eq!(status(&head(&mut stream)), 200, "{version:?}");
        assert_eq!(stream.conn.protocol_version(), Some(version.version));
    }
    served.server.stop();
}

#[test]
fn what_is_too_large_is_refused_and_not_read_of_those_who_have_not_logged_in() {
    let served = Served::begin();
    let large = format!("{{\"name\":\"{}\"}}", "x".repeat(1 << 20));
    let send = |lines: &[&str], body: &str| {
        status(&ask(served.address, 1, &request("POST", "/v1/volumes", lines, body)))
    };
    // It may have hung up before all of that was sent, and then the answer is lost on the way.
    let refused = |request: &str, wanted: u16| {
        let mut stream = tls(served.address, 1);
        drop(stream.write_all(request.as_bytes()));
        match try_head(&mut stream) {
            Ok(answer) => assert_eq!(status(&answer), wanted),
            Err(error) => assert_ne!(error.kind(), ErrorKind::WouldBlock, "it waits for more"),
        }
    };
    let login = bearer(&token(Role::Administrator));
    refused(&request("POST", "/v1/volumes", &[], &large), 401);
    refused(&request("POST", "/v1/volumes", &[&login], &large), 413);
    let filler = format!("x-filler: {}", "y".repeat(400 << 10));
    refused(&request("POST", "/v1/volumes", &[&login, &filler], ""), 431);
    let long = bearer(&"x".repeat(8192));
    assert_eq!(send(&[&long], ""), 401);
    assert_eq!(send(&[&login, &login], ""), 401, "twice");
    served.server.stop();
}

#[test]
fn who_guesses_waits_and_nobody_else_does() {
    let served = Served::begin();
    let get = |last, login: &str| {
        status(&ask(served.address, last, &request("GET", "/v1/jobs", &[login], "")))
    };
    for _ in 0..5 {
        assert_eq!(get(7, &basic("ada", "guess guess guess")), 401);
    }
    assert_eq!(get(7, &basic("ada", PASSWORD)), 429, "too soon, and the right one is not tried");
    // Neither the same account elsewhere, nor another login from there.
    assert_eq!(get(8, &basic("ada", PASSWORD)), 200);
    assert_eq!(get(7, &bearer(&token(Role::ReadOnly))), 200);
    thread::sleep(Duration::from_millis(1100));
    assert_eq!(get(7, &basic("ada", PASSWORD)), 200);
    served.server.stop();
}

#[test]
fn an_account_that_is_not_there_takes_as_long_as_a_wrong_password() {
    let served = Served::begin();
    let time = |from: u8, login: &str| {
        let begun = Instant::now();
        let get = request("GET", "/v1/jobs", &[login], "");
        assert_eq!(status(&ask(served.address, from, &get)), 401);
        begun.elapsed()
    };
    let (ada, nobody) = (basic("ada", "guess guess guess"), basic("nobody", "guess guess guess"));
    // By turns, and the shortest of each: others have the machine now and then for longer than one of them takes.
    let turns = (0..9).map(|number| (time(20 + number, &ada), time(40 + number, &nobody)));
    let shortest = |times: Vec<Duration>| times.into_iter().min().expect("there are some");
    let (wrong, nobody): (Vec<_>, Vec<_>) = turns.unzip();
    let (wrong, nobody) = (shortest(wrong), shortest(nobody));
    let ratio = nobody.as_secs_f64() / wrong.as_secs_f64();
    // Without a hash it would be a small part of it; the machine is busy.
    assert!((0.4..2.5).contains(&ratio), "{wrong:?} {nobody:?}");
    served.server.stop();
}

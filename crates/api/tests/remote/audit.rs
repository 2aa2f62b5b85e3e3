//! What the audit log has of those who ask over TLS.

use std::io::Write;
use std::thread;
use std::time::{Duration, Instant};

use group::accounts::Role;
use member::Answer;
use member::audit::{Action, Entry};

use crate::tls::{ask, basic, bearer, request, rest, status, tls};
use crate::{HELD, PASSWORD, Served, token};

/// How long something may take to be recorded.
const PATIENCE: Duration = Duration::from_secs(20);

/// What is recorded, oldest first.
fn entries(served: &Served) -> Vec<Entry> {
    served.logs.audit.after(0).iter().map(|record| record.what.clone()).collect()
}

#[test]
fn who_was_refused_is_named_with_what_was_asked_for() {
    let served = Served::begin();
    let send = |method: &str, path: &str, login: &str| {
        status(&ask(served.address, 1, &request(method, path, &[login], "")))
    };
    let reader = bearer(&token(Role::ReadOnly));
    assert_eq!(send("POST", "/v1/tokens", &reader), 403);
    assert_eq!(send("DELETE", "/v1/accounts/ada", &reader), 403);
    assert_eq!(send("GET", "/v1/jobs", &basic("ada", "wrong wrong")), 401);
    // There is nothing that could have been changed.
    for _ in 0..3 {
        assert_eq!(send("POST", "/v1/nothing", &reader), 404);
    }
    // What is too large has nothing to do with who sends it.
    let large = request("POST", "/v1/volumes", &[&bearer(&token(Role::Administrator))], &large());
    let mut stream = tls(served.address, 1);
    drop(stream.write_all(large.as_bytes()));
    drop(rest(&mut stream));
    let found: Vec<_> = entries(&served)
        .into_iter()
        .filter(|entry| entry.action != Action::Login)
        .map(|entry| {
            assert_eq!((entry.action, entry.done), (Action::LoginRefused, false));
            (entry.who.account.unwrap_or_default(), entry.operation, entry.reason)
        })
        .collect();
    let wanted = [
        ("token 'read-only'", "POST /v1/tokens", "forbidden"),
        ("token 'read-only'", "DELETE /v1/accounts/ada", "forbidden"),
        ("account 'ada'", "GET /v1/jobs", "not-logged-in"),
    ];
    let wanted = wanted.map(|(who, what, why)| (who.to_owned(), what.to_owned(), why.to_owned()));
    assert_eq!(found, wanted);
    served.server.stop();
}

fn large() -> String {
    format!("{{\"name\":\"{}\"}}", "x".repeat(2 << 20))
}

#[test]
fn who_logs_in_is_recorded_once_for_each_place() {
    let served = Served::begin();
    let get = |last, login: &str| {
        status(&ask(served.address, last, &request("GET", "/v1/jobs", &[login], "")))
    };
    for _ in 0..3 {
        assert_eq!(get(1, &bearer(&token(Role::ReadOnly))), 200);
        assert_eq!(get(1, &basic("ada", PASSWORD)), 200);
        assert_eq!(get(2, &basic("ada", PASSWORD)), 200);
    }
    let found: Vec<_> = entries(&served)
        .into_iter()
        .map(|entry| {
            assert_eq!((entry.action, entry.done), (Action::Login, true));
            assert!(entry.from.starts_with("127.0.0."), "{}", entry.from);
            (entry.who.account.unwrap_or_default(), entry.outcome)
        })
        .collect();
    let wanted = [
        ("token 'read-only'", "let in as read-only"),
        ("account 'ada'", "let in as operator"),
        ("account 'ada'", "let in as operator"),
    ];
    assert_eq!(found, wanted.map(|(who, what)| (who.to_owned(), what.to_owned())));
    served.server.stop();
}

#[test]
fn how_a_change_ended_is_recorded_though_nobody_waited() {
    let served = Served::begin();
    let login = bearer(&token(Role::Administrator));
    let mut stream = tls(served.address, 1);
    stream
        .write_all(request("DELETE", &format!("/v1/tokens/{HELD}"), &[&login], "").as_bytes())
        .unwrap();
    let end = Instant::now() + PATIENCE;
    let (_, done) = loop {
        if let Some(held) = served.held.lock().unwrap().pop() {
            break held;
        }
        assert!(Instant::now() < end, "it is never asked for");
        thread::sleep(Duration::from_millis(5));
    };
    drop(stream);
    thread::sleep(Duration::from_millis(200));
    let is_change = |entry: &Entry| entry.action == Action::Change;
    assert!(!entries(&served).iter().any(is_change), "before it has ended");
    done(Ok(Answer::Done));
    let entry = loop {
        if let Some(entry) = entries(&served).pop().filter(is_change) {
            break entry;
        }
        assert!(Instant::now() < end, "it is never recorded");
        thread::sleep(Duration::from_millis(5));
    };
    assert!(entry.done && entry.outcome.starts_with("204 "), "{entry:?}");
    assert_eq!(entry.who.account.as_deref(), Some("token 'administrator'"));
    assert_eq!(entry.operation, "DELETE /v1/tokens/{name}");
    served.server.stop();
}

#[test]
fn who_is_revoked_between_the_head_and_the_body_changes_nothing() {
    let served = Served::begin();
    let login = bearer(&token(Role::Operator));
    let whole = request("POST", "/v1/array/scrub", &[&login], "{}");
    let (head, body) = whole.split_at(whole.len() - 2);
    for is_revoked in [false, true] {
        let mut stream = tls(served.address, 1);
        stream.write_all(head.as_bytes()).unwrap();
        thread::sleep(Duration::from_millis(300));
        if is_revoked {
            served.logins.change(|all| drop(all.tokens.remove("operator")));
        }
        stream.write_all(body.as_bytes()).unwrap();
        let wanted = if is_revoked { 401 } else { 202 };
        assert_eq!(status(&crate::tls::head(&mut stream)), wanted);
    }
    served.server.stop();
}

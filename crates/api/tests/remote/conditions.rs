//! `If-Match` and `Idempotency-Key` of who asks over TLS.

use std::io::Write;

use group::accounts::{PasswordHash, Role, Written};
use member::audit::Action;

use crate::tls::{basic, bearer, request, rest, status, tls};
use crate::{PASSWORD, Served, token};

fn whole(served: &Served, text: &str) -> String {
    let mut stream = tls(served.address, 1);
    stream.write_all(text.as_bytes()).expect("it is taken");
    rest(&mut stream).0
}

/// The value of this header of an answer.
fn header<'a>(answer: &'a str, name: &str) -> Option<&'a str> {
    let (head, _) = answer.split_once("\r\n\r\n")?;
    head.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "))
}

#[test]
fn who_changes_a_login_or_a_user_that_is_not_as_it_was_read_is_refused() {
    let served = Served::begin();
    let admin = bearer(&token(Role::Administrator));
    let secret = r#"{"secret":"twelve-bytes-1"}"#;
    let changes = [
        ("/v1/accounts/ada", "/v1/accounts/ada", "PATCH", r#"{"disabled":true}"#),
        ("/v1/accounts/ada", "/v1/accounts/ada", "DELETE", ""),
        ("/v1/tokens/read-only", "/v1/tokens/read-only", "DELETE", ""),
        ("/v1/chap/al", "/v1/chap/al", "PUT", secret),
        ("/v1/chap/al", "/v1/chap/al", "DELETE", ""),
        ("/v1/chap", "/v1/chap-mutual", "DELETE", ""),
    ];
    for (shown, path, method, body) in changes {
        let change = |tag: &str| {
            let line = format!("if-match: {tag}");
            status(&whole(&served, &request(method, path, &[&admin, &line], body)))
        };
        assert_eq!(change("\"nope\""), 412, "{method} {path}");
        let answer = whole(&served, &request("GET", shown, &[&admin], ""));
        let tag = header(&answer, "etag").unwrap_or_else(|| panic!("{answer}"));
        assert!((200..300).contains(&change(tag)), "{method} {path}");
    }
    let gone = whole(&served, &request("GET", "/v1/accounts/bob", &[&admin], ""));
    assert!(status(&gone) == 404 && gone.contains("there is no account 'bob'"), "{gone}");
    let tag = |served: &Served| {
        let answer = whole(served, &request("GET", "/v1/accounts/ada", &[&admin], ""));
        header(&answer, "etag").expect("a tag").to_owned()
    };
    let before = tag(&served);
    // As after another password, which is not shown.
    served.logins.change(|all| {
        all.accounts_written.insert("ada".to_owned(), Written { made: 1, changed: 2 });
    });
    assert_ne!(tag(&served), before);
    served.server.stop();
}

#[test]
fn who_has_the_name_of_somebody_before_is_not_given_the_answers_of_that_one() {
    let served = Served::begin();
    let scrub = || {
        let lines = [&basic("ada", PASSWORD), "idempotency-key: nightly"];
        let answer = whole(&served, &request("POST", "/v1/array/scrub", &lines, ""));
        assert_eq!(status(&answer), 202, "{answer}");
        header(&answer, "location").expect("its run").to_owned()
    };
    let first = scrub();
    assert_eq!(scrub(), first);
    let changes = served.logs.audit.after(0);
    let changes = changes.iter().filter(|record| record.what.action == Action::Change);
    assert_eq!(changes.count(), 1, "what was answered again pushes out nothing");
    // Removed and made again, in the same second and with the same password.
    served.logins.change(|all| {
        all.accounts.get_mut("ada").unwrap().password = PasswordHash::of(PASSWORD).unwrap();
        all.accounts_written.insert("ada".to_owned(), Written { made: 9, changed: 9 });
    });
    assert_ne!(scrub(), first);
    served.server.stop();
}

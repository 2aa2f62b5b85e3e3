//! Who may do what: every operation, with every role, without one and with a wrong one.

use std::io::Write;
use std::thread;
use std::time::{Duration, Instant};

use api::server::document;
use group::accounts::{PasswordHash, Role};

use crate::tls::{ask, basic, bearer, head, request, rest, status, tls};
use crate::{PASSWORD, Served, token};

/// Method, path with words in it, and least role of all operations, as the document tells them.
fn operations() -> Vec<(String, String, Role)> {
    let document = serde_json::to_value(document()).expect("it can be written out");
    let mut all = Vec::new();
    for (path, item) in document["paths"].as_object().expect("paths") {
        let words = path.split('/').map(|word| if word.starts_with('{') { "1" } else { word });
        let path = words.collect::<Vec<_>>().join("/");
        for (method, operation) in item.as_object().expect("operations") {
            let role = operation["x-role"].as_str().expect("a role").parse().expect("a role");
            all.push((method.to_uppercase(), path.clone(), role));
        }
    }
    assert!(all.len() > 50, "{}", all.len());
    all
}

#[test]
fn every_operation_asks_for_its_role() {
    let served = Served::begin();
    for (number, (method, path, least)) in operations().into_iter().enumerate() {
        let body = if method == "GET" || method == "DELETE" { "" } else { "{}" };
        let ask =
            |last, lines: &[&str]| ask(served.address, last, &request(&method, &path, lines, body));
        let nobody = ask(1, &[]);
        assert_eq!(status(&nobody), 401, "{method} {path}");
        assert!(nobody.contains("www-authenticate: bearer realm="), "{nobody}");
        // From an address each, as failures are counted.
        let wrong = ask(u8::try_from(number + 2).unwrap(), &[&bearer("drystone_guess")]);
        assert_eq!(status(&wrong), 401, "{method} {path}");
        for role in Role::ALL {
            let answer = ask(1, &[&bearer(&token(role))]);
            let is_refused = status(&answer) == 403;
            assert_eq!(is_refused, role < least, "{method} {path} as {role}: {answer}");
            assert_ne!(status(&answer), 401, "{method} {path} as {role}");
            if is_refused {
                assert!(answer.contains("\"code\":\"forbidden\""), "{answer}");
                assert!(answer.contains(&format!("this needs the role {least}")), "{answer}");
            }
        }
    }
    served.server.stop();
}

#[test]
fn what_there_is_not_is_told_to_those_who_have_logged_in_only() {
    let served = Served::begin();
    let lowest = bearer(&token(Role::ReadOnly));
    for (method, path, code) in [("GET", "/v2", 404), ("GET", "/v1/volumes/1/2/3", 404)] {
        let ask =
            |lines: &[&str]| status(&ask(served.address, 1, &request(method, path, lines, "")));
        assert_eq!((ask(&[]), ask(&[&lowest])), (401, code), "{method} {path}");
    }
    // What no row allows is for administrators, and there is nothing for them either.
    let put = |role| request("PUT", "/v1/volumes", &[&bearer(&token(role))], "{}");
    assert_eq!(status(&ask(served.address, 1, &put(Role::Operator))), 403);
    assert_eq!(status(&ask(served.address, 1, &put(Role::Administrator))), 405);
    served.server.stop();
}

#[test]
fn a_page_of_somebody_else_changes_nothing() {
    let served = Served::begin();
    let login = basic("ada", PASSWORD);
    let scrub = |origin: &str| {
        let lines = [login.as_str(), origin];
        status(&ask(served.address, 1, &request("POST", "/v1/array/scrub", &lines, "")))
    };
    assert_eq!(scrub("origin: https://evil.example.com"), 403);
    assert_eq!(scrub("origin: null"), 403);
    assert_eq!(scrub("origin: https://san1"), 202);
    served.server.stop();
}

#[test]
fn what_changes_about_a_login_holds_for_its_next_request() {
    let served = Served::begin();
    let jobs =
        |login: &str| status(&ask(served.address, 1, &request("GET", "/v1/jobs", &[login], "")));
    let scrub = |login: &str| {
        status(&ask(served.address, 1, &request("POST", "/v1/array/scrub", &[login], "")))
    };
    let (ada, ci) = (basic("ada", PASSWORD), bearer(&token(Role::Operator)));
    assert_eq!([jobs(&ada), scrub(&ada), jobs(&ci), scrub(&ci)], [200, 202, 200, 202]);
    served.logins.change(|all| {
        all.accounts.get_mut("ada").unwrap().role = Role::ReadOnly;
        all.tokens.get_mut("operator").unwrap().role = Role::ReadOnly;
    });
    assert_eq!([jobs(&ada), scrub(&ada), jobs(&ci), scrub(&ci)], [200, 403, 200, 403]);
    served.logins.change(|all| {
        all.accounts.get_mut("ada").unwrap().disabled = true;
        all.tokens.get_mut("operator").unwrap().expires_unix_seconds = Some(5);
    });
    assert_eq!([jobs(&ada), jobs(&ci)], [401, 401]);
    served.server.stop();
}

#[test]
fn while_the_settings_cannot_be_read_nobody_is_let_in_and_nobody_is_punished() {
    let served = Served::begin();
    let get = |path: &str| {
        let request = request("GET", path, &[&bearer(&token(Role::Administrator))], "");
        let mut stream = tls(served.address, 1);
        stream.write_all(request.as_bytes()).unwrap();
        stream
    };
    let mut followed = get("/v1/jobs/stream");
    assert_eq!(status(&head(&mut followed)), 200);
    let before = served.logins.0.lock().unwrap().take();
    // More than may fail from one place.
    for _ in 0..30 {
        let (answer, _) = rest(&mut get("/v1/jobs"));
        assert_eq!(status(&answer), 503);
        assert!(answer.contains("the settings of the member cannot be read"), "{answer}");
    }
    let (text, _) = rest(&mut followed);
    assert!(text.contains("\"code\":\"unavailable\""), "{text}");
    *served.logins.0.lock().unwrap() = before;
    assert_eq!(status(&rest(&mut get("/v1/jobs")).0), 200);
    let password = request("GET", "/v1/jobs", &[&basic("ada", PASSWORD)], "");
    assert_eq!(status(&ask(served.address, 1, &password)), 200);
    let refused = served.logs.audit.after(0).iter().filter(|entry| !entry.what.done).count();
    assert_eq!(refused, 0);
    served.server.stop();
}

#[test]
fn what_is_followed_ends_with_the_right_to_follow_it() {
    let served = Served::begin();
    let follow = |path: &str, login: &str| {
        let mut stream = tls(served.address, 1);
        let request = request("GET", path, &[login], "");
        stream.write_all(request.as_bytes()).unwrap();
        assert_eq!(status(&head(&mut stream)), 200);
        stream
    };
    let streams = [
        follow("/v1/jobs/stream", &bearer(&token(Role::ReadOnly))),
        follow("/v1/figures/stream", &bearer(&token(Role::ReadOnly))),
        follow("/v1/jobs/stream", &bearer(&token(Role::Operator))),
        follow("/v1/jobs/stream", &basic("ada", PASSWORD)),
    ];
    let mut stays = follow("/v1/jobs/stream", &bearer(&token(Role::Administrator)));
    thread::sleep(Duration::from_millis(1500));
    let begun = Instant::now();
    served.logins.change(|all| {
        all.tokens.remove("read-only");
        all.tokens.get_mut("operator").unwrap().expires_unix_seconds = Some(5);
        // Another password.
        all.accounts.get_mut("ada").unwrap().password = PasswordHash::of_nobody().unwrap();
        all.tokens.get_mut("administrator").unwrap().role = Role::ReadOnly;
    });
    for mut stream in streams {
        let (text, _) = rest(&mut stream);
        assert!(text.contains("event: problem\ndata: {"), "{text}");
        assert!(text.contains("\"code\":\"not-logged-in\""), "{text}");
    }
    assert!(begun.elapsed() < Duration::from_secs(4), "{:?}", begun.elapsed());
    // The lower role is enough for this: it ends with the server.
    let ended = thread::spawn(move || rest(&mut stays));
    thread::sleep(Duration::from_millis(1500));
    assert!(!ended.is_finished());
    served.server.stop();
    let (text, _) = ended.join().unwrap();
    assert!(!text.contains("not-logged-in"), "{text}");
}

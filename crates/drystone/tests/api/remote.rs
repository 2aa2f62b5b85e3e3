//! A member that is managed over TLS, with curl and with drystone itself.

use crate::common::member::{Home, Member};
use crate::common::{drystone, finish};
use crate::{fill, make};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

const LISTEN: &str = "--api-listen=127.0.0.1:0";
const PASSWORD: &str = "correct horse battery";

/// Where it is managed, and the SHA-256 of its certificate, as its start told.
#[track_caller]
fn door(member: &Member<'_>) -> (String, String) {
    let line = member.lines.iter().find_map(|line| line.strip_prefix("api address="));
    let (address, sha256) = line.and_then(|it| it.split_once(" sha256=")).expect("a line");
    (format!("https://{address}"), sha256.to_owned())
}

fn certificate(home: &Home) -> String {
    home.path("data/api-certificate.pem").display().to_string()
}

/// A token of a role, in a file of its own.
#[track_caller]
fn token(member: &Member<'_>, name: &str, role: &str) -> PathBuf {
    let made = member.run(&["token", "create", name, "--role", role]);
    assert!(made.starts_with("drystone_") && made.lines().count() == 1, "{made}");
    secret_file(member, name, &made)
}

fn secret_file(member: &Member<'_>, name: &str, text: &str) -> PathBuf {
    let path = member.home.path(&format!("{name}.secret"));
    fs::write(&path, text).expect("it can be written");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).expect("it can be set");
    path
}

/// Runs drystone without a socket: the code, what it printed and what it said.
fn afar(words: &[&str], variables: &[(&str, &str)]) -> (i32, String, String) {
    let mut command = drystone(words);
    command.env_remove("DRYSTONE_SOCKET").envs(variables.iter().copied());
    let output = finish(&mut command);
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.code().expect("no signal"), text(&output.stdout), text(&output.stderr))
}

/// What curl prints: the answer and, in a line of its own, the status.
fn curl(words: &[&str]) -> (bool, String) {
    let mut command = Command::new("curl");
    command.args(["--silent", "--show-error", "--max-time", "30", "--write-out", "\n%{http_code}"]);
    let output = command.args(words).stdin(Stdio::null()).output().expect("there is curl");
    let text = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
    (output.status.success(), text)
}

#[test]
fn drystone_manages_a_member_over_tls_as_at_its_socket() {
    let home = Home::files(3, "128M");
    let member = home.start(&[LISTEN, "--raid", "raid5"]);
    let (url, sha256) = door(&member);
    let shown = member.json(&["member", "show"]);
    assert_eq!(shown["certificate_sha256"], sha256);
    let file = token(&member, "ops", "operator").display().to_string();
    let way = ["--server", &url, "--token-file", &file, "--fingerprint", &sha256];
    let run = |words: &[&str]| afar(&[words, &way].concat(), &[]);
    let (code, out, err) = run(&["volume", "create", "a", "64M", "--json"]);
    assert_eq!((code, err.as_str()), (0, ""), "{out}");
    assert!(out.contains("\"name\": \"a\""), "{out}");
    assert_eq!(run(&["volume", "list", "--json"]).1, member.run(&["volume", "list", "--json"]));
    let nightly = ["schedule", "create", "s", "--volume", "a", "--daily", "03:00", "--keep", "2"];
    assert_eq!(run(&nightly).0, 0);
    assert_eq!(run(&["schedule", "list", "--json"]).1, member.run(&["schedule", "list", "--json"]));
    // What the space of a volume is changes for a while afterwards.
    fill(&member, "a");
    // Work that is followed to its end, and what came of it.
    let (code, out, err) = run(&["array", "scrub", "--json"]);
    assert_eq!((code, err.as_str()), (0, ""), "{out}");
    assert!(out.contains("\"clusters\""), "{out}");
    assert_eq!(run(&["status"]).0, 0);
    // Its role is not enough: the sentence of the member.
    let (code, _, err) = run(&["token", "list"]);
    assert_eq!(code, 1);
    assert!(err.contains("needs the role administrator, and token 'ops' has operator"), "{err}");
    // The same by the environment, and by the certificate instead of its SHA-256.
    let certificate = certificate(&home);
    let variables = [
        ("DRYSTONE_SERVER", url.as_str()),
        ("DRYSTONE_TOKEN_FILE", &file),
        ("DRYSTONE_CA_FILE", &certificate),
    ];
    assert_eq!(afar(&["snapshot", "create", "a", "s"], &variables).0, 0);
    member.run(&["token", "revoke", "ops"]);
    let (code, _, err) = run(&["status"]);
    assert_eq!(code, 1);
    assert!(err.contains("the login is not right"), "{err}");
    member.logged("token 'ops' from 127.0.0.1: POST /v1/volumes: 201");
    member.stop();
}

#[test]
fn a_certificate_that_nobody_vouches_for_and_a_token_for_all_to_read_are_refused() {
    let home = Home::files(3, "128M");
    let member = home.start(&[LISTEN]);
    let (url, sha256) = door(&member);
    let path = token(&member, "ops", "operator");
    let file = path.display().to_string();
    let refused = |more: &[&str]| {
        let (code, out, err) =
            afar(&[&["status", "--server", &url, "--token-file", &file], more].concat(), &[]);
        assert_eq!((code, out.as_str(), err.lines().count()), (1, "", 1), "{err}");
        err
    };
    let err = refused(&[]);
    assert!(err.contains("--ca-file") || err.contains("not trusted"), "{err}");
    let err = refused(&["--fingerprint", &"ab".repeat(32)]);
    assert!(err.contains("not trusted") && err.contains("drystone member show"), "{err}");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
    assert!(refused(&["--fingerprint", &sha256]).contains("run chmod 600"));
    // Over plain HTTP there is nothing.
    let (code, _, err) = afar(&["status", "--server", &url.replace("https", "http")], &[]);
    assert!(code == 2 && err.contains("write https://HOST:PORT"), "{err}");
    let (code, _, err) = afar(&["status", "--server", &url], &[]);
    assert!(code == 1 && err.contains("write --token-file FILE"), "{err}");
    member.stop();
}

#[test]
fn curl_logs_in_with_an_account_or_a_token_and_roles_hold() {
    let home = Home::files(3, "128M");
    let member = home.start(&[LISTEN]);
    make(&member, "a");
    let (url, _) = door(&member);
    let certificate = certificate(&home);
    let password = secret_file(&member, "password", &format!("{PASSWORD}\n"));
    let password = password.display().to_string();
    let add = ["account", "add", "ada", "--role", "read-only", "--password-file", &password];
    let listed = member.run(&add);
    assert!(listed.contains("ada") && listed.contains("read-only"), "{listed}");
    let volumes = format!("{url}/v1/volumes");
    let ask = |words: &[&str]| {
        let (is_done, text) = curl(&[&["--cacert", &certificate, &volumes], words].concat());
        assert!(is_done, "{text}");
        text
    };
    let ada = format!("ada:{PASSWORD}");
    assert!(ask(&["--user", &ada]).ends_with("\n200"));
    assert!(ask(&["--user", &ada, "--tls-max", "1.2"]).ends_with("\n200"));
    assert!(ask(&["--user", "ada:guess guess guess"]).ends_with("\n401"));
    assert!(ask(&[]).ends_with("\n401"));
    let new = "{\"name\":\"b\",\"size_bytes\":67108864}";
    assert!(ask(&["--user", &ada, "--json", new]).ends_with("\n403"));
    member.run(&["account", "set", "ada", "--role", "operator"]);
    assert!(ask(&["--user", &ada, "--json", new]).ends_with("\n201"));
    member.run(&["account", "set", "ada", "--disable"]);
    assert!(ask(&["--user", &ada]).ends_with("\n401"));
    member.run(&["account", "set", "ada", "--enable"]);
    assert!(ask(&["--user", &ada]).ends_with("\n200"));
    // Without the file nobody vouches for the certificate.
    let (is_done, text) = curl(&[&volumes, "--user", &ada]);
    assert!(!is_done && text.contains("certificate"), "{text}");
    // A token that expires.
    let made = member.run(&["token", "create", "soon", "--role", "read-only", "--expires", "2s"]);
    let login = format!("Authorization: Bearer {}", made.trim());
    assert!(ask(&["--header", &login]).ends_with("\n200"));
    let listed = member.json(&["token", "list"]);
    assert!(listed[0]["expires_unix_seconds"].is_u64() && listed[0].get("token").is_none());
    thread::sleep(Duration::from_millis(2100));
    assert!(ask(&["--header", &login]).ends_with("\n401"));
    let log = member.log();
    assert!(!log.contains(made.trim()) && !log.contains("correct horse"), "{log}");
    member.stop();
}

/// Somebody logs in by so many programs with one account that others would have to wait.
#[test]
fn who_logs_in_too_often_at_once_is_told_of_by_the_name_of_the_account() {
    let home = Home::files(3, "128M");
    let member = home.start(&[LISTEN]);
    let (url, sha256) = door(&member);
    let certificate = certificate(&home);
    let password = secret_file(&member, "password", PASSWORD).display().to_string();
    member.run(&["account", "add", "ada", "--role", "read-only", "--password-file", &password]);
    let told = || {
        let events = member.json(&["events"]);
        let all = events.as_array().expect("a list").iter();
        all.filter(|event| event["kind"] == "logins_turned_away").cloned().collect::<Vec<_>>()
    };
    let (ada, volumes) = (format!("ada:{PASSWORD}"), format!("{url}/v1/volumes"));
    let ask = || curl(&["--cacert", &certificate, "--user", &ada, &volumes]).1;
    assert!(ask().ends_with("\n200") && told().is_empty());
    // However busy the machine is, some time three of them meet.
    let end = Instant::now() + Duration::from_secs(60);
    let refused = loop {
        let all: Vec<String> = thread::scope(|scope| {
            let all: Vec<_> = (0..8).map(|_| scope.spawn(ask)).collect();
            all.into_iter().map(|one| one.join().expect("it asks")).collect()
        });
        if let Some(refused) = all.into_iter().find(|text| !text.ends_with("\n200")) {
            break refused;
        }
        assert!(Instant::now() < end, "all of them are let in at once");
    };
    assert!(refused.ends_with("\n503") && refused.contains("\"code\":\"too-busy\""), "{refused}");
    assert!(refused.contains("too many logins of this account are under way"), "{refused}");
    let told = told();
    let event = told.first().expect("it is told of at once");
    let (text, advice) = (event["text"].as_str().unwrap(), event["advice"].as_str().unwrap());
    assert!(
        text.contains("ada") && text.contains("turned away, the last from 127.0.0.1:"),
        "{event}"
    );
    assert!(advice.contains("drystone account set"), "{event}");
    assert_eq!(
        (&event["severity"], &event["object"]["kind"]),
        (&"warning".into(), &"member".into())
    );
    // Nobody has guessed.
    assert!(!member.run(&["audit", "--refused"]).contains("ada"));
    let file = token(&member, "ops", "read-only").display().to_string();
    let way = ["--server", &url, "--token-file", &file, "--fingerprint", &sha256];
    assert_eq!(afar(&[&["status"][..], &way].concat(), &[]).0, 0, "a token gets in");
    member.stop();
}

#[test]
fn accounts_and_the_certificate_outlive_a_restart() {
    let home = Home::files(3, "128M");
    let member = home.start(&[LISTEN]);
    let (_, sha256) = door(&member);
    let file = token(&member, "ops", "operator").display().to_string();
    let used = || home.start(&[LISTEN]);
    member.stop();
    let member = used();
    let (url, again) = door(&member);
    assert_eq!(again, sha256);
    let way = ["--server", &url, "--token-file", &file, "--fingerprint", &sha256];
    assert_eq!(afar(&[&["status"][..], &way].concat(), &[]).0, 0);
    // When it was used is kept, to the hour.
    let mut listed = member.json(&["token", "list"]);
    for _ in 0..100 {
        if listed[0]["used_unix_seconds"].is_u64() {
            break;
        }
        thread::sleep(Duration::from_millis(50));
        listed = member.json(&["token", "list"]);
    }
    assert!(listed[0]["used_unix_seconds"].is_u64(), "{listed}");
    member.stop();
    // Without the option nobody gets in, and the socket works as ever.
    let member = home.start(&[]);
    assert!(!member.lines.iter().any(|line| line.starts_with("api ")), "{:?}", member.lines);
    assert!(member.run(&["member", "show"]).contains("by its socket alone: start it with"));
    assert!(member.json(&["member", "show"])["not_over_tls"].is_null());
    assert_eq!(afar(&[&["status"][..], &way].concat(), &[]).0, 1);
    member.stop();
}

#[test]
fn a_member_that_cannot_be_managed_over_tls_serves_hosts_all_the_same() {
    let home = Home::files(3, "128M");
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let listen = format!("--api-listen={}", taken.local_addr().unwrap());
    let member = home.start(&[&listen]);
    make(&member, "a");
    member.logged("the member is not managed over TLS");
    let (code, status, _) = home.ask(&["status"]);
    assert!(code == 1 && status.contains("the member is not managed over TLS"), "{status}");
    assert!(member.run(&["events"]).contains("the member is not managed over TLS"));
    let shown = member.run(&["member", "show"]);
    let wanted = format!("from afar: cannot listen on {}", taken.local_addr().unwrap());
    assert!(shown.contains("by its socket alone, although") && shown.contains(&wanted), "{shown}");
    let shown = member.json(&["member", "show"]);
    assert!(
        shown["not_over_tls"].as_str().unwrap().contains("until it is started again"),
        "{shown}"
    );
    member.stop();
    let none = home.path("none").display().to_string();
    let member = home.start(&[LISTEN, "--api-certificate", &none, "--api-key", &none]);
    assert!(member.log().contains("cannot be used for TLS"), "{}", member.log());
    member.stop();
}

#[test]
fn names_and_passwords_that_cannot_be_are_refused_in_one_sentence() {
    let home = Home::files(3, "128M");
    let member = home.start(&[]);
    let short = secret_file(&member, "short", "short").display().to_string();
    let good = secret_file(&member, "good", PASSWORD).display().to_string();
    let add = |name: &str, file: &str| {
        member.refused(&["account", "add", name, "--role", "operator", "--password-file", file])
    };
    assert!(add("ada", &short).contains("choose one of 12 to 255"));
    assert!(add("a b", &good).contains("cannot be the name"));
    let gone = member.refused(&["account", "set", "ada", "--disable"]);
    assert_eq!(gone, "there is no account 'ada': see 'drystone account list'");
    assert!(member.refused(&["account", "set", "ada"]).starts_with("nothing is to be changed"));
    let gone = member.refused(&["token", "revoke", "ci"]);
    assert_eq!(gone, "there is no token 'ci': see 'drystone token list'");
    member.run(&["account", "add", "ada", "--role", "operator", "--password-file", &good]);
    assert!(add("ada", &good).contains("an account 'ada' already"));
    member.run(&["account", "remove", "ada", "--yes"]);
    assert!(member.run(&["account", "list"]).contains("there are no accounts"));
    member.stop();
}

//! `drystone events` and `drystone audit`: what happened stays, and who did what.

use std::fs;
use std::io::{BufRead, BufReader};
use std::process::Stdio;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::common::drystone;
use crate::common::member::{Home, Member};
use crate::host::Host;

const PATIENCE: Duration = Duration::from_secs(60);

const WEB: &str = "iqn.2026-11.com.example:web";
const DB: &str = "iqn.2026-11.com.example:db";

/// What a command tells, once it tells of something that is `wanted`.
#[track_caller]
fn until(member: &Member<'_>, words: &[&str], wanted: impl Fn(&Value) -> bool) -> Vec<Value> {
    let end = Instant::now() + PATIENCE;
    loop {
        let all = member.json(words).as_array().expect("a list").clone();
        if all.iter().any(&wanted) {
            return all;
        }
        assert!(Instant::now() < end, "it is not told: {all:#?}");
        thread::sleep(Duration::from_millis(50));
    }
}

fn is(kind: &str) -> impl Fn(&Value) -> bool {
    move |event| event["kind"] == kind
}

fn kinds(events: &[Value]) -> Vec<&str> {
    events.iter().map(|event| event["kind"].as_str().expect("a word")).collect()
}

fn numbers(events: &[Value]) -> Vec<u64> {
    events.iter().map(|event| event["number"].as_u64().expect("a number")).collect()
}

fn log_in(member: &Member<'_>, volume: &str, name: &str) -> std::io::Result<Host> {
    Host::log_in_as(member.portal(), &member.iqn(volume), 1, &[0], (name, None))
}

#[test]
fn events_stay_over_a_kill_and_a_stop_and_say_what_to_do() {
    let home = Home::files(4, "256M");
    let member = home.start(&[]);
    member.run(&["volume", "create", "a", "64M"]);
    until(&member, &["events"], is("member_started"));
    member.run(&["disk", "fail", "disk-1", "--yes"]);
    let failed = until(&member, &["events"], is("disk_failed"));
    let failed = failed.iter().find(|event| is("disk_failed")(event)).expect("it is there");
    assert_eq!((&failed["severity"], &failed["object"]["kind"]), (&"error".into(), &"disk".into()));
    let name = home.path("disk-1").display().to_string();
    assert_eq!(failed["object"]["name"], name);
    let advice = failed["advice"].as_str().expect("a text");
    assert!(advice.contains(&format!("'drystone disk replace {name} NEW'")), "{advice}");
    // What was recorded is on the disk a moment later, whatever becomes of the process.
    let written = || fs::read_to_string(home.path("data/events.0")).unwrap_or_default();
    let end = Instant::now() + PATIENCE;
    while !written().contains("disk_failed") {
        assert!(Instant::now() < end, "it is not written");
        thread::sleep(Duration::from_millis(20));
    }
    member.crash();

    let member = home.start(&[]);
    let after = until(&member, &["events"], is("member_started_unclean"));
    assert!(kinds(&after).contains(&"disk_failed"), "{after:#?}");
    assert!(numbers(&after).is_sorted_by(|one, next| one < next), "{after:#?}");
    let errors = member.json(&["events", "--severity", "error"]);
    let errors = errors.as_array().expect("a list");
    let is_error =
        |event: &Value| ["error", "critical"].map(Value::from).contains(&event["severity"]);
    assert!(!errors.is_empty() && errors.iter().all(is_error), "{errors:#?}");
    let shown = member.run(&["events", "--since", "1h", "--object", "disk-1"]);
    assert!(shown.contains("  error     disk ") && shown.contains("to do: "), "{shown}");
    assert_eq!(member.run(&["events", "--since", "2200-01-01"]), "nothing has happened\n");
    let last = member.json(&["events", "--limit", "1"]);
    assert_eq!(last.as_array().map(Vec::len), Some(1));
    member.stop();

    let refused = crate::start_refused(&home, &["--raid", "raid6"]);
    let member = home.start(&[]);
    let after = until(&member, &["events"], is("member_stopped"));
    let not_started = after.iter().find(|event| is("member_not_started")(event));
    let told = not_started.expect("it is told")["text"].as_str().expect("a text");
    assert!(told.ends_with(&refused), "{told}");
    let of_member = |kind: &&str| kind.starts_with("member_");
    let starts: Vec<&str> = kinds(&after).into_iter().filter(of_member).collect();
    let wanted = [
        "member_started",
        "member_started_unclean",
        "member_stopped",
        "member_not_started",
        "member_started",
    ];
    assert_eq!(starts, wanted);
    member.stop();
}

#[test]
fn who_follows_hears_of_each_event_also_of_a_member_that_was_started_anew() {
    let home = Home::files(4, "256M");
    let member = home.start(&[]);
    member.run(&["volume", "create", "vm", "64M"]);
    let words = ["events", "--follow", "--json", "--severity", "warning", "--timeout", "20"];
    let mut child = drystone(&words)
        .env("DRYSTONE_SOCKET", home.socket())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("drystone can be started");
    let mut lines = BufReader::new(child.stdout.take().expect("stdout is a pipe")).lines();
    let mut last = 0;
    let mut next = |kind: &str| {
        loop {
            let line = lines.next().expect("it goes on").expect("it can be read");
            let event: Value = serde_json::from_str(&line).expect("a line is an event");
            let number = event["number"].as_u64().expect("a number");
            assert!(number > last, "each is told once: {event}");
            last = number;
            if event["kind"] == kind {
                return event;
            }
        }
    };
    let mut first = log_in(&member, "vm", WEB).expect("everybody may");
    assert!(log_in(&member, "vm", DB).is_ok(), "hosts without a list share it");
    member.run(&["volume", "access", "add", "vm", "--iqn", DB]);
    assert!(first.run(0, &[0; 6], 0, &[]).is_err(), "it is not on the list");
    let ended = next("sessions_ended");
    assert!(ended["text"].as_str().unwrap().contains("1 session of iqn."), "{ended}");
    member.run(&["volume", "access", "add", "vm", "--iqn", WEB]);
    let _first = log_in(&member, "vm", WEB).expect("it is on the list");
    assert!(log_in(&member, "vm", DB).is_err(), "one host at a time");
    let refused = next("second_host_refused");
    assert_eq!(refused["object"]["name"], member.iqn("vm"));
    let text = refused["text"].as_str().unwrap();
    assert!(text.contains(DB) && text.contains(WEB), "who was refused, and for whom: {text}");
    member.stop();
    let member = home.start(&[]);
    let _first = log_in(&member, "vm", WEB).expect("it is on the list");
    assert!(log_in(&member, "vm", DB).is_err(), "one host at a time");
    let again = next("second_host_refused");
    assert!(again["number"].as_u64() > refused["number"].as_u64(), "{again}");
    member.stop();
    let output = child.wait_with_output().expect("it ends");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    let lines: Vec<&str> = said.lines().collect();
    assert_eq!((output.status.code(), lines.len()), (Some(1), 3), "{said}");
    assert!(lines[0].ends_with("its events go on here when it answers again"), "{said}");
    assert!(lines[2].contains("did not come back within 20 s"), "{said}");
}

#[test]
fn a_member_serves_and_tells_where_its_records_cannot_be_written() {
    let home = Home::files(3, "256M");
    for name in ["data/events.0", "data/audit.0", "data/audit-changes.0"] {
        fs::create_dir_all(home.path(name)).expect("a directory can be made");
    }
    let member = home.start(&[]);
    member.run(&["volume", "create", "vm", "64M"]);
    drop(log_in(&member, "vm", WEB).expect("it is served"));
    let is_told = |event: &Value| {
        event["kind"] == "log_not_written"
            && event["text"].as_str().is_some_and(|text| text.starts_with("the audit log cannot"))
    };
    let events = until(&member, &["events"], is_told);
    let told = kinds(&events).into_iter().filter(|kind| *kind == "log_not_written").count();
    assert_eq!(told, 2, "once for each: {events:#?}");
    let logins = until(&member, &["audit"], |entry| entry["action"] == "login");
    assert_eq!(logins[0]["action"], "change", "{logins:#?}");
    member.stop();
}

#[test]
fn logins_refusals_and_changes_are_in_the_audit_log_and_stay_there() {
    let home = Home::files(4, "256M");
    let member = home.start(&[]);
    member.run(&["volume", "create", "vm", "64M"]);
    member.run(&["volume", "access", "add", "vm", "--iqn", WEB]);
    let refused = member.refused(&["volume", "create", "vm", "64M"]);
    assert!(refused.contains("vm"), "{refused}");
    let iqn = member.iqn("vm");
    drop(log_in(&member, "vm", WEB).expect("it is on the list"));
    for _ in 0..60 {
        assert!(log_in(&member, "vm", DB).is_err(), "it is not");
    }
    let is_counted = |entry: &Value| entry["action"] == "session_ended";
    let all = until(&member, &["audit", "--limit", "1000"], is_counted);
    let one = |action: &str, done: bool| {
        let found = all.iter().find(|entry| entry["action"] == action && entry["done"] == done);
        found.unwrap_or_else(|| panic!("{action} {done}: {all:#?}"))
    };
    let login = one("login", true);
    assert_eq!((&login["who"]["host"], &login["object"]), (&WEB.into(), &iqn.as_str().into()));
    assert!(login["from"].as_str().unwrap().starts_with("127.0.0.1:"), "{login}");
    let refusal = one("login_refused", false);
    assert_eq!(
        (&refusal["who"]["host"], &refusal["reason"]),
        (&DB.into(), &"not_authorized".into())
    );
    let refusals = all.iter().filter(|entry| entry["action"] == "login_refused").count();
    assert!(refusals <= 2, "sixty of one address and for one reason are counted: {all:#?}");
    let change = one("change", true);
    let uid = rustix::process::geteuid().as_raw();
    assert_eq!((&change["who"]["uid"], &change["from"]), (&uid.into(), &"control socket".into()));
    assert!(change["who"]["pid"].as_u64().is_some_and(|pid| pid > 1), "{change}");
    assert_eq!(
        (&change["operation"], &change["object"]),
        (&"POST /v1/volumes".into(), &"/v1/volumes".into())
    );
    let access = all.iter().find(|entry| entry["object"] == "/v1/volumes/vm/access");
    let access = access.unwrap_or_else(|| panic!("{all:#?}"));
    assert_eq!(access["operation"], "POST /v1/volumes/{name}/access");
    let failed = one("change", false);
    assert!(failed["outcome"].as_str().unwrap().starts_with("409 after "), "{failed}");
    let only = member.json(&["audit", "--refused"]);
    let only = only.as_array().expect("a list");
    assert!(only.len() >= 2 && only.iter().all(|entry| entry["done"] == false), "{only:#?}");
    let table = member.run(&["audit"]);
    assert!(table.starts_with("TIME ") && table.contains("login refused"), "{table}");
    let before = member.json(&["audit", "--limit", "1"])[0].clone();
    member.stop();

    let member = home.start(&[]);
    let after = member.json(&["audit", "--limit", "1000"]);
    let after = after.as_array().expect("a list");
    assert!(after.contains(&before), "what was told stays as it was: {after:#?}");
    let refused = after.iter().filter(|entry| entry["action"] == "login_refused");
    let counts: u64 = refused.map(|entry| entry["count"].as_u64().expect("a count")).sum();
    assert_eq!(counts, 60, "the end tells of what was counted: {after:#?}");
    member.stop();
}

/// What somebody sends as a secret stands in no log.
#[test]
fn no_secret_is_recorded() {
    use std::os::unix::fs::PermissionsExt;
    let home = Home::files(3, "256M");
    let member = home.start(&[]);
    let secret = home.path("secret");
    fs::write(&secret, "sixteen-bytes-ok\n").unwrap();
    fs::set_permissions(&secret, fs::Permissions::from_mode(0o600)).unwrap();
    member.run(&["chap", "add", "al", "--secret-file", secret.to_str().unwrap()]);
    let entries = until(&member, &["audit"], |entry| entry["operation"] == "POST /v1/chap");
    assert!(!format!("{entries:?}").contains("sixteen"), "{entries:#?}");
    member.stop();
    let files = ["audit-changes.0", "events.0"]
        .map(|name| fs::read_to_string(home.path("data").join(name)));
    for text in files.map(|read| read.expect("it is written")) {
        assert!(!text.contains("sixteen"), "{text}");
    }
    let mode =
        fs::metadata(home.path("data/audit-changes.0")).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode, 0o600);
}

/// What is removed while it is in use goes on as if nothing were wrong, until the next start.
#[test]
fn a_directory_or_disk_that_was_removed_in_use_is_told_of() {
    let home = Home::files(4, "256M");
    let member = home.start(&[]);
    member.run(&["volume", "create", "vm", "64M"]);
    let status = || home.ask(&["status"]);
    let (code, out, _) = status();
    assert!(code == 0 || !out.contains("removed"), "{out}");
    let (disk, aside) = (home.path("disk-1"), home.path("aside"));
    fs::rename(&disk, &aside).expect("it moves");
    fs::rename(home.path("data"), home.path("away")).expect("it moves");
    let (code, out, _) = status();
    let of_disk =
        format!("the file of disk {} was removed or replaced while it is in use", disk.display());
    let of_data =
        format!("the data directory {} was removed or replaced", home.path("data").display());
    assert!(code == 1 && out.contains(&of_disk) && out.contains(&of_data), "{out}");
    for kind in ["disk_file_gone", "data_directory_gone"] {
        let told = until(&member, &["events"], is(kind));
        assert_eq!(told.iter().filter(|event| is(kind)(event)).count(), 1, "{told:#?}");
    }
    fs::rename(&aside, &disk).expect("it moves");
    fs::rename(home.path("away"), home.path("data")).expect("it moves");
    let (_, out, _) = status();
    assert!(!out.contains("removed"), "all is where it was: {out}");
    member.stop();
}

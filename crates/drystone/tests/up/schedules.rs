//! Snapshots that are taken by themselves.

use crate::common::member::{Home, Member};
use serde_json::Value;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// A schedule is due every minute at most.
const PATIENCE: Duration = Duration::from_secs(90);

fn names(member: &Member<'_>, volume: &str) -> Vec<String> {
    let all = member.json(&["snapshot", "list", volume]);
    let name = |snapshot: &Value| snapshot["name"].as_str().expect("a name").to_owned();
    all.as_array().expect("a list").iter().map(name).collect()
}

/// Waits until a volume has a snapshot of a schedule that is not one of these.
fn next_run(member: &Member<'_>, schedule: &str, before: &[String]) -> String {
    let end = Instant::now() + PATIENCE;
    loop {
        let is_new = |name: &String| name.starts_with(schedule) && !before.contains(name);
        if let Some(name) = names(member, "vm").into_iter().find(is_new) {
            return name;
        }
        assert!(Instant::now() < end, "it does not run: {}", member.run(&["schedule", "list"]));
        sleep(Duration::from_millis(200));
    }
}

/// Waits until this is so.
fn wait_until(is_so: impl Fn() -> bool) {
    let end = Instant::now() + PATIENCE;
    while !is_so() {
        assert!(Instant::now() < end, "it does not come");
        sleep(Duration::from_millis(200));
    }
}

#[test]
fn schedules_are_made_changed_and_kept_over_restarts() {
    let home = Home::files(3, "128M");
    let member = home.start(&[]);
    assert!(member.run(&["schedule", "list"]).starts_with("there are no schedules: "));
    for volume in ["vm", "log"] {
        member.run(&["volume", "create", volume, "64M"]);
    }
    let nightly = ["schedule", "create", "nightly", "--volume", "vm", "--volume", "log"];
    let made = member.run(&[&nightly[..], &["--weekly", "sun", "03:00", "--keep", "8"]].concat());
    let row: Vec<&str> = made.lines().nth(1).expect("a row").split_whitespace().collect();
    assert_eq!(row[..6], ["nightly", "vm,log", "weekly", "sun", "03:00", "8"], "{made}");
    assert_eq!(row[8..], ["03:00:00Z", "-"], "{made}");
    let again = member.refused(&[&nightly[..], &["--every", "4h", "--keep", "8"]].concat());
    assert!(again.starts_with("there is a schedule 'nightly' already: "), "{again}");
    let none = member.refused(&["schedule", "show", "daily"]);
    assert_eq!(none, "there is no schedule 'daily': see 'drystone schedule list'");
    for (words, said) in [
        (&["--keep", "8"][..], "when? Write one of --every 15m, "),
        (&["--weekly", "sunny", "03:00", "--keep", "8"], "--weekly: 'sunny' is no day of the week"),
        (&["--daily", "25:00", "--keep", "8"], "'25:00' is no time of the day: write hours"),
    ] {
        let (code, _, err) =
            home.ask(&[&["schedule", "create", "x", "--volume", "vm"], words].concat());
        assert!(code == 2 && err.contains(said), "{code} {err}");
    }
    member.run(&["schedule", "set", "nightly", "--daily", "4:30", "--keep", "3", "--volume", "vm"]);
    member.run(&["schedule", "pause", "nightly"]);
    member.run(&["volume", "rename", "vm", "web"]);
    member.stop();

    let member = home.start(&[]);
    let shown = member.json(&["schedule", "show", "nightly"]);
    assert_eq!(shown["volumes"], serde_json::json!([{"name": "web", "gone": false}]));
    assert_eq!((&shown["paused"], &shown["next_unix_seconds"]), (&Value::Bool(true), &Value::Null));
    assert_eq!(member.json(&["schedule", "resume", "nightly"])["when"]["daily"]["at"], "04:30");
    for words in [&["volume", "offline", "web"][..], &["volume", "delete", "web", "-y"]] {
        member.run(words);
    }
    member.run(&["volume", "purge", "web", "-y"]);
    assert!(
        member.run(&["schedule", "list"]).contains("vm (gone)"),
        "as it was called when it was set"
    );
    let gone = member.run(&["schedule", "delete", "nightly", "-y"]);
    assert_eq!(gone, "schedule 'nightly' is gone\n");
    member.stop();
}

#[test]
fn snapshots_are_taken_at_one_moment_and_the_oldest_of_its_own_deleted() {
    let home = Home::files(3, "128M");
    let member = home.start(&[]);
    for volume in ["vm", "log"] {
        member.run(&["volume", "create", volume, "64M"]);
        member.run(&["snapshot", "create", volume, "often-mine"]);
    }
    let often = ["schedule", "create", "often", "--volume", "vm", "--volume", "log"];
    member.run(&[&often[..], &["--every", "1m", "--keep", "1"]].concat());
    let first = next_run(&member, "often-2", &[]);
    let taken = member.json(&["snapshot", "list"]);
    let taken: Vec<&Value> =
        taken.as_array().expect("a list").iter().filter(|s| s["name"] == first).collect();
    assert_eq!(taken.len(), 2, "{taken:?}");
    assert!(first.ends_with("00") && first.len() == "often-20261127-030000".len(), "{first}");
    wait_until(|| member.json(&["schedule", "show", "often"])["snapshots"] == 2);
    member.run(&["snapshot", "clone", "vm", &first, "copy"]);
    member.crash();

    let member = home.start(&[]);
    let second = next_run(&member, "often-2", std::slice::from_ref(&first));
    let kept = [String::from("often-mine"), first.clone(), second.clone()];
    wait_until(|| names(&member, "log") == ["often-mine", &second]);
    assert_eq!(names(&member, "vm"), kept, "what was cloned is kept");
    let events = member.run(&["events", "--object", "often"]);
    let told = format!(
        "keeps snapshot '{first}' of 'vm' although it has enough later ones: volumes were made of it"
    );
    assert!(events.contains(&told), "{events}");
    let shown = member.json(&["schedule", "show", "often"]);
    assert_eq!((&shown["last"]["outcome"], &shown["snapshots"]), (&"taken".into(), &3.into()));
    let gone = member.run(&["schedule", "delete", "often", "-y"]);
    assert!(gone.starts_with("schedule 'often' is gone; its 3 snapshots stay: "), "{gone}");
    assert_eq!(names(&member, "vm"), kept);
    member.stop();
}

//! A member with many volumes, each with 16 access records and 8 snapshots: what is asked of it takes no longer
//! than it may, and data goes on beside requests.
//!
//! `DRYSTONE_API_VOLUMES` says how many (default: 60; `make bench-api` has 1,000 with a release build, prints
//! what it found, and holds it against the bars themselves, where a quick test gives them four times as long).

use crate::common::finish;
use crate::common::member::{Home, Member};
use crate::host::Host;
use crate::process::resident_bytes;
use crate::{ask, beside};
use serde_json::{Value, json};
use std::process::Command;
use std::time::{Duration, Instant};

/// Volumes of the full form.
const MANY: usize = 1000;

/// Volumes that one change makes: with their lists it stays far below the longest body.
const BATCH: usize = 50;

/// The name that [`Host`] logs in with; it is on each list.
const HOST: &str = "iqn.2026-11.dev.drystone:crash-test";

const ROUNDS: usize = 9;

/// A change of who may use a volume is a transaction on the array, and does not wait for other volumes.
const RECORD_MS: u64 = 35;

fn count() -> usize {
    let text = std::env::var("DRYSTONE_API_VOLUMES").unwrap_or_else(|_| "60".to_owned());
    text.parse().expect("DRYSTONE_API_VOLUMES is a number")
}

/// The shortest of several times and the middle one: what else runs on the machine only adds to them.
fn times(mut one: impl FnMut()) -> (Duration, Duration) {
    let timed = |()| {
        let begun = Instant::now();
        one();
        begun.elapsed()
    };
    let mut all: Vec<Duration> = [(); ROUNDS].into_iter().map(timed).collect();
    all.sort();
    (all[0], all[ROUNDS / 2])
}

#[track_caller]
fn done(member: &Member<'_>, method: &str, path: &str, body: &Value) {
    let reply = ask(member, method, path, Some(body));
    assert!(reply.status < 300, "{method} {path}: {}", reply.text());
}

/// How long one more volume takes, and takes it away again.
fn creation(member: &Member<'_>) -> (Duration, Duration) {
    let mut number = 0;
    let taken = times(|| {
        number += 1;
        crate::make(member, &format!("one-more-{number}"));
    });
    for number in 1..=number {
        let path = format!("/v1/volumes/one-more-{number}");
        done(member, "PATCH", &path, &json!({"online": false}));
        assert_eq!(ask(member, "DELETE", &path, None).status, 204);
        assert_eq!(ask(member, "POST", &format!("{path}/purge"), None).status, 204);
    }
    taken
}

fn furnish(member: &Member<'_>, names: &[String]) {
    let record = |number: usize| {
        let other = format!("iqn.2026-11.com.example:host-{number}");
        json!({"record": {"iqn": if number == 0 { HOST } else { &other }}})
    };
    let list: Vec<Value> = (0..16).map(record).collect();
    for batch in names.chunks(BATCH) {
        let volume = |name: &String| json!({"volume": {"name": name, "size_bytes": 64 << 20}, "access": {"listed": list}, "online": true});
        let volumes: Vec<Value> = batch.iter().map(volume).collect();
        done(member, "PATCH", "/v1/configuration", &json!({"new_volumes": volumes}));
    }
    for batch in names.chunks(BATCH) {
        for number in 0..8 {
            let name = format!("s{number}");
            done(member, "POST", "/v1/snapshots", &json!({"volumes": batch, "name": name}));
        }
    }
}

/// What the targets are that a host may see.
fn discovered(member: &Member<'_>) -> usize {
    let url = format!("iscsi://{}", member.portal());
    let output = finish(Command::new("iscsi-ls").args(["-i", HOST, &url]));
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).lines().filter(|line| line.contains("iqn.")).count()
}

/// Says what was found, and holds it against a bar.
fn judge(what: &str, (best, median): (Duration, Duration), bar_ms: u64) {
    eprintln!("{what}: {best:.1?}, median {median:.1?} (bar: {bar_ms} ms)");
    let patience = if count() < MANY { 4 } else { 1 };
    assert!(best <= Duration::from_millis(bar_ms * patience), "{what}: {best:?}");
}

#[test]
fn many_volumes_with_many_records_and_snapshots_are_served_in_time() {
    let names: Vec<String> = (0..count()).map(|number| format!("v{number}")).collect();
    let home = Home::files(4, "4G");
    let member = home.start(&[]);
    let few = creation(&member);
    furnish(&member, &names);
    let many = creation(&member);
    eprintln!("one more volume: {few:.1?} with none, {many:.1?} with {}", names.len());
    assert!(
        many.0 < few.0 * 30 + Duration::from_millis(20),
        "it takes the longer the more there are"
    );
    member.stop();

    let begun = Instant::now();
    let member = home.start(&[]);
    let start = begun.elapsed();
    judge("start", (start, start), 5000);
    let list = times(|| {
        let shown = ask(&member, "GET", "/v1/volumes?limit=1000", None).json();
        assert_eq!(shown.as_array().map(Vec::len), Some(names.len().min(1000)));
    });
    judge("list", list, 200);
    judge("discovery", times(|| assert_eq!(discovered(&member), names.len())), 100);
    let iqn = member.iqn("v1");
    let login = times(|| drop(Host::log_in(member.portal(), &iqn, 1, &[]).expect("it is let in")));
    judge("login", login, 5);
    let mib = resident_bytes(&member) >> 20;
    eprintln!("memory: {mib} MiB (bar: 256 MiB)");
    assert!(mib < 256, "{mib} MiB");

    let record = access(&member);
    judge("one more access record", record, RECORD_MS);
    let mut host = Host::log_in(member.portal(), &iqn, 1, &[0]).expect("it is let in");
    // Else there is nothing to be read.
    let write = [0x2a, 0, 0, 0, 0, 0, 0, 0, 8, 0];
    assert!(host.run(0, &write, 0, &[7; 4096]).expect("an answer").is_good());
    let (rounds, seconds) = if count() < MANY { (1, 1) } else { (7, 3) };
    let plan = (rounds, Duration::from_secs(seconds));
    requests_beside(&member, &mut host, plan);
    // Prometheus reads them every 15 seconds unless told otherwise: once in a round.
    let plan = if count() < MANY { plan } else { (5, Duration::from_secs(15)) };
    metrics_beside(&member, &mut host, plan);
    member.stop();
}

/// How long it takes to let one more host use a volume, and to keep it out again.
fn access(member: &Member<'_>) -> (Duration, Duration) {
    let other = json!({"record": {"iqn": "iqn.2026-11.com.example:one-more"}});
    let remove = |number: u32| {
        let path = format!("/v1/volumes/v2/access/{number}");
        assert_eq!(ask(member, "DELETE", &path, None).status, 200, "{path}");
    };
    remove(16);
    let (mut number, mut all) = (16, Vec::new());
    for _ in 0..ROUNDS {
        let begun = Instant::now();
        done(member, "POST", "/v1/volumes/v2/access", &other);
        all.push(begun.elapsed());
        number += 1;
        remove(number);
    }
    all.sort();
    (all[0], all[ROUNDS / 2])
}

fn requests_beside(member: &Member<'_>, host: &mut Host, plan: (usize, Duration)) {
    let (alone, beside) = beside::requests(member, host, plan);
    let middle = |all: &[beside::Round]| {
        let mut all: Vec<Duration> = all.iter().map(|round| round.p99).collect();
        all.sort();
        (all[0], all[all.len() / 2], all[all.len() - 1])
    };
    let (alone, beside) = (middle(&alone), middle(&beside));
    eprintln!("p99 of 4 KiB reads (least, median, most of {} rounds):", plan.0);
    eprintln!("  alone {alone:.1?}; beside 100 requests a second {beside:.1?}");
    assert!(beside.1 < alone.1 * 10 + Duration::from_millis(20), "{alone:?} {beside:?}");
}

fn metrics_beside(member: &Member<'_>, host: &mut Host, plan: (usize, Duration)) {
    let (alone, beside) = beside::metrics(member, host, plan);
    let middle = |all: &[beside::Cost]| {
        let mut all: Vec<Duration> = all.iter().map(|cost| cost.cpu).collect();
        all.sort();
        all[all.len() / 2]
    };
    let rate = |all: &[beside::Cost]| {
        all.iter().map(|cost| cost.reads_per_second).sum::<f64>() / all.len() as f64
    };
    let (cpu_alone, cpu_beside) = (middle(&alone), middle(&beside));
    let percent = (cpu_beside.as_secs_f64() / cpu_alone.as_secs_f64() - 1.0) * 100.0;
    eprintln!(
        "processor time of a 4 KiB read: {cpu_alone:.2?} at {:.0} reads/s; {cpu_beside:.2?} at {:.0} reads/s with \
         metrics read every {} s: {percent:+.1} % (bar: 2 %)",
        rate(&alone),
        rate(&beside),
        plan.1.as_secs(),
    );
    if count() >= MANY {
        assert!(percent <= 2.0, "{percent} %");
    }
}

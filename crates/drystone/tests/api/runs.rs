//! Long work that is cancelled in the middle leaves nothing behind, and hosts do not notice.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::common::member::{Home, Member};
use crate::host::Host;
use crate::{ask, fill, http, make};

const PATIENCE: Duration = Duration::from_secs(60);

/// A host that writes all the time, and what it has had done.
struct Busy {
    is_over: Arc<AtomicBool>,
    writes: Arc<AtomicU32>,
    thread: thread::JoinHandle<()>,
}

impl Busy {
    fn begin(member: &Member<'_>, volume: &str) -> Self {
        let mut host = Host::log_in(member.portal(), &member.iqn(volume), 2, &[0]).expect("served");
        let (is_over, writes) = (Arc::<AtomicBool>::default(), Arc::<AtomicU32>::default());
        let (told, counted) = (is_over.clone(), writes.clone());
        let thread = thread::spawn(move || {
            while !told.load(Ordering::Relaxed) {
                let at = counted.fetch_add(1, Ordering::Relaxed) % 1024;
                let [a, b, c, d] = (at * 128).to_be_bytes();
                let write = [0x2a, 0, a, b, c, d, 0, 0, 8, 0];
                let answer = host.run(0, &write, 0, &[at as u8; 4096]).expect("an answer");
                assert!(answer.is_good(), "{answer:?}");
            }
        });
        Self { is_over, writes, thread }
    }

    fn wait_for_more(&self) {
        let before = self.writes.load(Ordering::Relaxed);
        wait_until("a host to have written", || self.writes.load(Ordering::Relaxed) > before + 10);
    }

    fn end(self) {
        self.is_over.store(true, Ordering::Relaxed);
        self.thread.join().expect("all writes were good");
    }
}

fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let end = Instant::now() + PATIENCE;
    while !is_so() {
        assert!(Instant::now() < end, "waited in vain for {what}");
        thread::sleep(Duration::from_millis(20));
    }
}

/// Begins a run and waits until it has read some data.
fn begin(member: &Member<'_>, kind: &str) -> String {
    let run = ask(member, "POST", &format!("/v1/array/{kind}"), None);
    let place = run.header("location").expect("a place").to_owned();
    wait_until("the run to have read something", || {
        let run = ask(member, "GET", &place, None).json();
        assert_eq!(run["state"], "running", "{run}");
        run["jobs"][0]["done_bytes"].as_u64() > Some(0)
    });
    place
}

fn ended(member: &Member<'_>, place: &str) -> Value {
    let mut run = Value::Null;
    wait_until("the end of the run", || {
        run = ask(member, "GET", place, None).json();
        run["state"] != "running"
    });
    run
}

#[test]
fn what_is_cancelled_ends_soon_says_how_far_it_came_and_leaves_nothing_behind() {
    let home = Home::files(4, "256M");
    let member = home.start(&["--raid", "raid5"]);
    make(&member, "a");
    fill(&member, "a");
    let set = |percent: u8| {
        let share = json!({"rebuild_share_percent": percent});
        assert_eq!(ask(&member, "PATCH", "/v1/array", Some(&share)).status, 200);
    };
    let host = Busy::begin(&member, "a");
    for kind in ["scrub", "check"] {
        // So it takes a hundred times as long while hosts are busy.
        set(1);
        let place = begin(&member, kind);
        let asked = ask(&member, "POST", &format!("{place}/cancel"), None);
        assert_eq!((asked.status, &asked.json()["kind"]), (202, &json!(kind)));
        let begun = Instant::now();
        let run = ended(&member, &place);
        assert!(begun.elapsed() < Duration::from_secs(10), "{:?}", begun.elapsed());
        assert_eq!((&run["state"], &run["problem"]), (&json!("cancelled"), &Value::Null), "{run}");
        let (done, total) = (&run["jobs"][0]["done_bytes"], &run["jobs"][0]["total_bytes"]);
        assert!(done.as_u64() < total.as_u64() && run["ended_unix_seconds"].is_u64(), "{run}");
        let again = ask(&member, "POST", &format!("{place}/cancel"), None);
        assert_eq!((again.status, again.problem().as_str()), (409, "wrong-state"));
        let jobs = ask(&member, "GET", "/v1/jobs", None).json();
        assert_eq!(jobs, json!([]), "no job is left");
        host.wait_for_more();

        // Nothing stands in the way of the next one.
        set(100);
        let run = ask(&member, "POST", &format!("/v1/array/{kind}"), None);
        let run = ended(&member, run.header("location").expect("a place"));
        assert_eq!(
            (&run["state"], &run["report"]["problems"]),
            (&json!("done"), &json!([])),
            "{run}"
        );
    }
    let events = ask(&member, "GET", "/v1/events", None).json();
    let all = events.as_array().expect("a list");
    let told = all.iter().filter(|event| event["kind"] == "scrub_cancelled");
    let told: Vec<&str> = told.map(|event| event["text"].as_str().expect("a text")).collect();
    assert!(told.len() == 2 && told[1].starts_with("the check was cancelled"), "{told:?}");

    set(1);
    let place = begin(&member, "scrub");
    let id = place.rsplit('/').next().expect("an ID");
    assert!(member.run(&["run", "list"]).contains(id));
    let said = member.run(&["run", "cancel"]);
    assert!(said.starts_with("the scrub was cancelled after "), "{said}");
    assert!(member.run(&["run", "list"]).contains("cancelled"));
    assert!(member.refused(&["run", "cancel"]).contains("nothing goes on that was asked for"));
    host.end();
    // A client that has gone away leaves its run alone.
    let socket = home.socket();
    let run = http::ask(&socket, "POST", "/v1/array/scrub", &[], None);
    assert_eq!(ended(&member, run.header("location").expect("a place"))["state"], "done");
    member.stop();
}

/// A disk that was added by mistake need not be filled; and who orders it after that gets it.
#[test]
fn a_rebalance_that_is_cancelled_moves_nothing_until_it_is_ordered_again() {
    let home = Home::files(4, "256M");
    let member = home.start(&["--raid", "raid5"]);
    make(&member, "a");
    fill(&member, "a");
    let set = |percent: u8| {
        let share = json!({"rebuild_share_percent": percent});
        assert_eq!(ask(&member, "PATCH", "/v1/array", Some(&share)).status, 200);
    };
    set(1);
    let host = Busy::begin(&member, "a");
    member.run(&["disk", "add", &format!("{}:256M", home.path("new").display())]);
    let order = || {
        let run = ask(&member, "POST", "/v1/array/rebalance", None);
        run.header("location").expect("a place").to_owned()
    };
    let (place, other) = (order(), order());
    // The later order stands, and a word about the one before ends only who waits for that.
    assert_eq!(ask(&member, "POST", &format!("{place}/cancel"), None).status, 202);
    assert_eq!(ended(&member, &place)["state"], "cancelled");
    assert_eq!(ask(&member, "GET", &other, None).json()["state"], "running");
    let id = other.rsplit('/').next().expect("an ID");
    let said = member.run(&["run", "cancel"]);
    assert!(said.starts_with("the rebalancing was cancelled "), "{said}");
    assert!(member.run(&["run", "list"]).contains(id));
    assert_eq!(ended(&member, &other)["state"], "cancelled");
    host.end();
    set(100);
    assert_eq!(ended(&member, &order())["state"], "done");
    assert_eq!(ask(&member, "GET", "/v1/jobs", None).json(), json!([]));
    member.stop();
}

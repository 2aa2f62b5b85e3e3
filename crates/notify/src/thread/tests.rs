//! The whole of it: an event log, a webhook, restarts.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Receiver;

use group::destinations::{Choice, Severity, Syslog, SyslogTransport, Way};
use member::Logs;
use member::audit::{Actor, Change};
use member::events::{Event, Kind, ObjectKind};
use target::{AccessEvent, Happened, Who};

use super::*;
use crate::send::tests::{http, sender, server, webhook};

const PATIENCE: Duration = Duration::from_secs(20);

/// Destinations at these addresses, the first of them called `a`.
fn destinations(addresses: &[SocketAddr]) -> CurrentDestinations {
    let choice = Choice { severity: Severity::Warning, fold_seconds: 300, paused: false };
    let one = |(number, address): (usize, &SocketAddr)| {
        let way = webhook(&format!("http://{address}/"), Some("hush-hush"));
        let destination = Destination { id: number as u64, begins_after: 0, choice, way };
        (["a", "b"][number].to_owned(), destination)
    };
    let current = CurrentDestinations::default();
    set(&current, addresses.iter().enumerate().map(one).collect());
    current
}

fn set(current: &CurrentDestinations, destinations: Destinations) {
    let ids = destinations.values().map(|destination| destination.id).collect();
    current.replace(destinations, ids);
}

fn start(data: &std::path::Path, logs: &Logs, destinations: CurrentDestinations) -> Notifier {
    let (events, audit) = (logs.events.clone(), logs.audit.clone());
    let config = Config { data: data.to_owned(), events, audit, destinations, sender: sender() };
    Notifier::start(config).expect("a thread")
}

fn disk_failed(name: &str) -> Event {
    Event::about(Kind::DiskFailed, ObjectKind::Disk, name, format!("disk {name} has failed"))
}

fn objects(told: &Receiver<String>, count: usize) -> Vec<String> {
    let name = |_| {
        let request = told.recv_timeout(PATIENCE).expect("it comes");
        let body = request.split_once("\r\n\r\n").expect("a body").1;
        let event: serde_json::Value = serde_json::from_str(body).expect("JSON");
        event["object"]["name"].as_str().expect("a name").to_owned()
    };
    (0..count).map(name).collect()
}

fn wait_until(is_so: impl Fn() -> bool) {
    let end = std::time::Instant::now() + PATIENCE;
    while !is_so() {
        assert!(std::time::Instant::now() < end, "it does not come");
        thread::sleep(Duration::from_millis(20));
    }
}

/// A server that is well or not.
fn moody() -> (SocketAddr, Receiver<String>, Arc<AtomicBool>) {
    let is_well = Arc::new(AtomicBool::new(true));
    let mood = is_well.clone();
    let (address, all) = server(move |stream| {
        let is_well = mood.load(Ordering::Relaxed);
        let head = if is_well { "HTTP/1.1 200 OK" } else { "HTTP/1.1 500 No" };
        let request = http(stream, head);
        if is_well { request } else { String::new() }
    });
    let (tell, told) = std::sync::mpsc::channel();
    thread::spawn(move || {
        for request in all.iter().filter(|request| !request.is_empty()) {
            if tell.send(request).is_err() {
                return;
            }
        }
    });
    (address, told, is_well)
}

#[test]
fn what_was_not_taken_before_a_restart_is_after_it_and_nothing_twice() {
    let data = tempfile::tempdir().unwrap();
    let (address, told, is_well) = moody();
    let logs = Logs::open(data.path()).unwrap();
    let notifier = start(data.path(), &logs, destinations(&[address]));
    logs.events.hear(disk_failed("sda"));
    assert_eq!(objects(&told, 1), ["sda"]);
    is_well.store(false, Ordering::Relaxed);
    logs.events.hear(disk_failed("sdb"));
    let statuses = notifier.statuses();
    wait_until(|| statuses.of("a").failed > 0);
    notifier.end();
    logs.end();

    is_well.store(true, Ordering::Relaxed);
    let logs = Logs::open(data.path()).unwrap();
    let notifier = start(data.path(), &logs, destinations(&[address]));
    assert_eq!(objects(&told, 1), ["sdb"]);
    logs.events.hear(disk_failed("sdc"));
    assert_eq!(objects(&told, 1), ["sdc"]);
    // The end sends what is there.
    logs.events.hear(disk_failed("sdd"));
    notifier.end();
    assert_eq!(objects(&told, 1), ["sdd"]);
    assert!(told.try_recv().is_err(), "nothing came twice");
    logs.end();
    for name in ["notified.json", "events.0"] {
        let text = std::fs::read_to_string(data.path().join(name)).unwrap();
        assert!(!text.contains("hush-hush"), "{name} holds no secret");
    }
}

#[test]
fn one_that_fails_is_told_to_the_others_once_and_never_to_itself() {
    let data = tempfile::tempdir().unwrap();
    let (broken, told_a, is_well) = moody();
    let (sound, told_b, _) = moody();
    is_well.store(false, Ordering::Relaxed);
    let logs = Logs::open(data.path()).unwrap();
    let notifier = start(data.path(), &logs, destinations(&[broken, sound]));
    logs.events.hear(disk_failed("sda"));
    assert_eq!(objects(&told_b, 2), ["sda", "a"], "the second is that `a` fails");
    let is_told = |kind: Kind| {
        let all = logs.events.after(0);
        all.iter().filter(|record| record.what.kind == kind.word()).count()
    };
    is_well.store(true, Ordering::Relaxed);
    wait_until(|| is_told(Kind::DestinationWorks) == 1);
    assert_eq!(objects(&told_a, 1), ["sda"]);
    assert_eq!(is_told(Kind::DestinationFailed), 1);
    notifier.end();
    assert!(told_a.try_recv().is_err(), "it is not told of itself");
    logs.end();
}

#[test]
fn a_dead_destination_does_not_hold_up_another_and_a_storm_is_a_few_messages() {
    let data = tempfile::tempdir().unwrap();
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let silent = listener.local_addr().unwrap();
    let (sound, told, _) = moody();
    let logs = Logs::open(data.path()).unwrap();
    let notifier = start(data.path(), &logs, destinations(&[silent, sound]));
    let begun = std::time::Instant::now();
    for number in 0..5000 {
        logs.events.hear(disk_failed(&format!("disk-{number}")));
    }
    assert!(begun.elapsed() < Duration::from_secs(5), "whoever records waits for nobody");
    wait_until(|| notifier.statuses().of("b").delivered >= 21);
    thread::sleep(Duration::from_secs(2));
    let came = told.try_iter().count();
    assert!((21..=25).contains(&came), "{came}");
    notifier.end();
    logs.end();
}

#[test]
fn nothing_goes_to_what_is_deleted_or_paused() {
    let data = tempfile::tempdir().unwrap();
    let (address, told, _) = moody();
    let logs = Logs::open(data.path()).unwrap();
    let current = destinations(&[address]);
    let notifier = start(data.path(), &logs, current.clone());
    logs.events.hear(disk_failed("sda"));
    assert_eq!(objects(&told, 1), ["sda"]);
    let mut paused = (*current.now()).clone();
    paused.values_mut().for_each(|destination| destination.choice.paused = true);
    set(&current, paused.clone());
    thread::sleep(2 * PAUSE);
    logs.events.hear(disk_failed("sdb"));
    thread::sleep(2 * PAUSE);
    paused.values_mut().for_each(|destination| {
        destination.choice.paused = false;
        destination.begins_after = logs.events.last_number();
    });
    set(&current, paused);
    thread::sleep(2 * PAUSE);
    logs.events.hear(disk_failed("sdc"));
    assert_eq!(objects(&told, 1), ["sdc"], "what happened meanwhile does not go there");
    set(&current, Destinations::new());
    wait_until(|| notifier.statuses().all().is_empty());
    logs.events.hear(disk_failed("sdd"));
    notifier.end();
    assert!(told.try_recv().is_err());
    logs.end();
}

#[tokio::test(start_paused = true)]
async fn without_destinations_nothing_wakes_it_but_a_change_and_the_end() {
    let data = tempfile::tempdir().unwrap();
    let logs = Logs::open(data.path()).unwrap();
    let current = CurrentDestinations::default();
    let config = Config {
        data: data.path().to_owned(),
        events: logs.events.clone(),
        audit: logs.audit.clone(),
        destinations: current.clone(),
        sender: sender(),
    };
    let (end, ending) = watch::channel(false);
    let statuses = Statuses::default();
    let mut running = std::pin::pin!(run(config, statuses.clone(), ending));
    let mut polls = 0;
    let counted = std::future::poll_fn(|cx| {
        polls += 1;
        running.as_mut().poll(cx)
    });
    assert!(timeout(Duration::from_secs(1000), counted).await.is_err(), "it goes on");
    assert!(polls < 10, "it was woken {polls} times in 1000 seconds");

    let address = "127.0.0.1:9".parse().unwrap();
    set(&current, (*destinations(&[address]).now()).clone());
    assert!(timeout(Duration::from_millis(10), &mut running).await.is_err());
    assert!(statuses.all().contains_key("a"), "it is served at once");
    end.send_replace(true);
    running.await;
    logs.end();
}

#[test]
fn who_cannot_be_told_at_a_start_goes_on_where_it_was_once_it_can() {
    let data = tempfile::tempdir().unwrap();
    let logs = Logs::open(data.path()).unwrap();
    let (address, told) = server(|stream| http(stream, "HTTP/1.1 204 No Content"));
    let notifier = start(data.path(), &logs, destinations(&[address]));
    logs.events.hear(disk_failed("one"));
    assert_eq!(objects(&told, 1), ["one"]);
    wait_until(|| notifier.statuses().of("a").delivered == 1);
    notifier.end();

    // Its disks are not there, or its secret cannot be opened.
    for is_read in [false, true] {
        let current = CurrentDestinations::default();
        if is_read {
            current.replace(Destinations::new(), [0].into());
        }
        let (after, between) = (format!("after {is_read}"), format!("between {is_read}"));
        let notifier = start(data.path(), &logs, current.clone());
        thread::sleep(Duration::from_millis(1_500));
        set(&current, (*destinations(&[address]).now()).clone());
        logs.events.hear(disk_failed(&after));
        assert_eq!(objects(&told, 1), [after.as_str()]);
        wait_until(|| notifier.statuses().of("a").delivered == 1);
        notifier.end();
        logs.events.hear(disk_failed(&between));
        let notifier = start(data.path(), &logs, destinations(&[address]));
        assert_eq!(objects(&told, 1), [between.as_str()]);
        wait_until(|| notifier.statuses().of("a").delivered == 1);
        notifier.end();
    }
    logs.end();
}

fn change(path: &str) -> Change {
    Change {
        who: Actor { account: Some("al".to_owned()), ..Actor::default() },
        from: "192.0.2.7:1".to_owned(),
        operation: "DELETE /v1/volumes/{name}".to_owned(),
        path: path.to_owned(),
        done: true,
        outcome: "204".to_owned(),
    }
}

/// The changes that lines of syslog tell of, once there are so many.
fn changed(told: &Receiver<String>, count: usize) -> Vec<String> {
    let mut all = Vec::new();
    while all.len() < count {
        let text = told.recv_timeout(PATIENCE).expect("it comes");
        let behind = text.split("object=\"").skip(1);
        all.extend(behind.filter_map(|rest| rest.split('"').next()).map(str::to_owned));
    }
    all
}

/// A destination that all of the audit log goes to.
fn audit_to(address: SocketAddr, audit: bool) -> CurrentDestinations {
    let choice = Choice { severity: Severity::Critical, fold_seconds: 300, paused: false };
    let way = Way::Syslog(Syslog {
        server: address.to_string().parse().expect("a server"),
        transport: SyslogTransport::Tcp,
        roots: None,
        audit,
    });
    let destination = Destination { id: 7, begins_after: 1, choice, way };
    let current = CurrentDestinations::default();
    set(&current, [("log".to_owned(), destination)].into());
    current
}

/// A server that takes all of each connection.
fn syslog_server() -> (SocketAddr, Receiver<String>) {
    server(|mut stream| {
        let mut text = String::new();
        _ = std::io::Read::read_to_string(&mut stream, &mut text);
        text
    })
}

/// One that leaves connections open when they end, as many do.
fn open_server() -> (SocketAddr, Receiver<String>) {
    let left = std::sync::Mutex::new(Vec::new());
    server(move |mut stream| {
        left.lock().expect("sound").push(stream.try_clone().expect("a copy"));
        let mut text = String::new();
        _ = std::io::Read::read_to_string(&mut stream, &mut text);
        text
    })
}

/// Records logins of as many hosts, which are not counted together.
fn log_in(logs: &Logs, count: u32) {
    let listener = logs.listener();
    let portal = SocketAddr::from(([192, 0, 2, 1], 3260));
    for n in 0..count {
        let from = SocketAddr::from(([192, 0, 2, 7], 1000));
        let initiator = Some(format!("iqn.x:host-{n}"));
        let who = Who { initiator, chap_user: None, target: Some("iqn.x:vm".into()), from, portal };
        let what = Happened::LoggedIn { who, tsih: 1, cid: 0 };
        listener.hear(&AccessEvent { at: std::time::SystemTime::now(), what });
    }
}

/// It was sent the same lines again and again, and none that came after them.
#[test]
fn a_server_that_ends_connections_after_some_lines_gets_all_in_the_end() {
    let data = tempfile::tempdir().unwrap();
    let logs = Logs::open(data.path()).unwrap();
    let (address, told) = server(|stream| {
        let mut lines = std::io::BufReader::new(stream);
        let mut text = String::new();
        // What follows is not read: the connection is reset.
        for _ in 0..120 {
            let mut len = Vec::new();
            _ = std::io::BufRead::read_until(&mut lines, b' ', &mut len);
            let Ok(len) = String::from_utf8_lossy(&len).trim().parse() else { break };
            let mut line = vec![0; len];
            _ = std::io::Read::read_exact(&mut lines, &mut line);
            text.push_str(&format!("{}\n", String::from_utf8_lossy(&line)));
        }
        text
    });
    logs.audit.change(change("/before"));
    let notifier = start(data.path(), &logs, audit_to(address, true));
    wait_until(|| notifier.statuses().all().contains_key("log"));
    let count = 450;
    (0..count).for_each(|n| logs.audit.change(change(&format!("/{n}"))));
    let mut missing: std::collections::BTreeSet<String> =
        (0..count).map(|n| format!("/{n}")).collect();
    let begun = std::time::Instant::now();
    while !missing.is_empty() {
        assert!(begun.elapsed() < 2 * PATIENCE, "{} have not come", missing.len());
        for path in changed(&told, 1) {
            missing.remove(&path);
        }
    }
    notifier.end();
    logs.end();
}

#[test]
fn a_change_does_not_wait_for_logins_and_all_of_those_come_without_a_pause() {
    let data = tempfile::tempdir().unwrap();
    let logs = Logs::open(data.path()).unwrap();
    let (address, told) = open_server();
    let notifier = start(data.path(), &logs, audit_to(address, true));
    wait_until(|| notifier.statuses().all().contains_key("log"));
    log_in(&logs, 8000);
    logs.audit.change(change("/vm1"));
    // What was sent while there was no change has not come before it.
    let sent = notifier.statuses().of("log").delivered as usize;
    let begun = std::time::Instant::now();
    let text = told.recv_timeout(PATIENCE).expect("it comes");
    let text = text + &told.try_iter().collect::<String>();
    let change = text.find("object=\"/vm1\"").expect("it is in the first connections");
    let before = text[..change].matches("action=\"login\"").count();
    assert!(before <= sent + 200, "{before} logins came before the change, {sent} of them early");
    wait_until(|| notifier.statuses().of("log").delivered >= 8001);
    assert!(begun.elapsed() < Duration::from_secs(10), "{:?}", begun.elapsed());
    let status = notifier.statuses().of("log");
    assert_eq!((status.audit_not_sent, status.audit_behind), (0, 0));
    notifier.end();
    logs.end();
}

#[test]
fn what_the_log_pushed_out_before_it_was_sent_is_told_at_the_server_and_in_an_event() {
    let data = tempfile::tempdir().unwrap();
    let logs = Logs::open(data.path()).unwrap();
    let (address, told) = syslog_server();
    let notifier = start(data.path(), &logs, audit_to(address, true));
    wait_until(|| notifier.statuses().all().contains_key("log"));
    notifier.end();
    log_in(&logs, 8192 + 500);
    logs.audit.change(change("/vm1"));
    let notifier = start(data.path(), &logs, audit_to(address, true));
    wait_until(|| notifier.statuses().of("log").delivered >= 8193);
    let text = told.try_iter().chain(told.recv_timeout(PATIENCE)).collect::<String>();
    let line =
        "up to 500 entries (logins and ends of sessions) with numbers from 1 to 500 were not sent";
    assert!(text.contains(line) && text.contains(r#"missing="500" first="1" last="500""#));
    assert_eq!(text.matches("were not sent").count(), 1);
    let status = notifier.statuses().of("log");
    assert_eq!((status.audit_not_sent, status.audit_behind), (500, 0));
    let events = logs.events.after(0);
    let told = events.iter().find(|it| it.what.kind == Kind::AuditNotSent.word()).expect("told");
    assert!(told.what.text.ends_with(": 500 of them"), "{}", told.what.text);
    notifier.end();
    logs.end();
}

#[test]
fn a_place_that_is_lost_leaves_no_entry_out_that_came_since_the_destination_was_made() {
    let data = tempfile::tempdir().unwrap();
    let logs = Logs::open(data.path()).unwrap();
    let (address, told) = syslog_server();
    logs.events.hear(disk_failed("sda"));
    logs.audit.change(change("/1"));
    logs.end();
    for loss in ["", "no JSON"] {
        let file = data.path().join("notified.json");
        match loss {
            "" => _ = std::fs::remove_file(&file),
            text => std::fs::write(&file, text).unwrap(),
        }
        let logs = Logs::open(data.path()).unwrap();
        let notifier = start(data.path(), &logs, audit_to(address, true));
        assert_eq!(changed(&told, 1), ["/1"], "{loss}");
        wait_until(|| notifier.statuses().of("log").delivered == 1);
        notifier.end();
        logs.end();
    }
}

#[test]
fn each_change_goes_to_a_syslog_server_that_wants_it_and_none_is_left_out_while_that_is_away() {
    let data = tempfile::tempdir().unwrap();
    let logs = Logs::open(data.path()).unwrap();
    let (address, told) = syslog_server();
    let log = |audit| audit_to(address, audit);
    // It is made in this start: what was before is not for it.
    logs.events.hear(disk_failed("sda"));
    logs.audit.change(change("/before"));
    let notifier = start(data.path(), &logs, log(true));
    wait_until(|| notifier.statuses().all().contains_key("log"));
    // More than go in one attempt, and all alike: nothing is folded.
    let count = 250;
    (0..count).for_each(|n| logs.audit.change(change(&format!("/{n}"))));
    let wanted: Vec<String> = (0..count).map(|n| format!("/{n}")).collect();
    assert_eq!(changed(&told, count), wanted);
    wait_until(|| notifier.statuses().of("log").delivered == count as u64);
    notifier.end();

    // What happens while nobody sends is sent by the next start, once.
    logs.audit.change(change("/between"));
    logs.end();
    let logs = Logs::open(data.path()).unwrap();
    let notifier = start(data.path(), &logs, log(true));
    assert_eq!(changed(&told, 1), ["/between"]);
    wait_until(|| notifier.statuses().of("log").delivered == 1);
    notifier.end();
    logs.end();

    let logs = Logs::open(data.path()).unwrap();
    let notifier = start(data.path(), &logs, log(false));
    wait_until(|| notifier.statuses().all().contains_key("log"));
    logs.audit.change(change("/not wanted"));
    thread::sleep(2 * PAUSE);
    notifier.end();
    assert!(told.try_recv().is_err());
    logs.end();
}

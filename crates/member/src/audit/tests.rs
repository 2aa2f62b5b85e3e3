//! What a flood of logins leaves in the audit log.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::SystemTime;

use target::{AccessEvent, Happened, Missed, RefusalKind, Who};

use super::{Action, Change, ELSEWHERE, Entry};
use crate::logs::Logs;
use crate::records::Recorded;

const WEB: &str = "iqn.2026-11.com.example:web";

fn who(from: u32, port: u16) -> Who {
    let from = SocketAddr::new(IpAddr::V4(Ipv4Addr::from_bits(from)), port);
    let portal = SocketAddr::from(([192, 0, 2, 1], 3260));
    let (initiator, target) = (Some(WEB.to_owned()), Some("iqn.x:vm".to_owned()));
    Who { initiator, chap_user: None, target, from, portal }
}

fn refused(from: u32, port: u16, why: RefusalKind) -> Happened {
    Happened::Refused { who: who(from, port), why, reason: "it is not for it".to_owned() }
}

/// What is recorded of this, once the log has ended.
fn recorded(all: impl IntoIterator<Item = Happened>) -> (Vec<(Entry, u64)>, Vec<String>) {
    let dir = tempfile::tempdir().expect("a directory");
    let logs = Logs::open(dir.path()).expect("threads");
    let listener = logs.listener();
    for what in all {
        listener.hear(&AccessEvent { at: SystemTime::now(), what });
    }
    logs.end();
    let entry = |record: &std::sync::Arc<crate::Record<Entry>>| (record.what.clone(), record.count);
    let events = logs.events.after(0);
    let kinds = events.iter().map(|record| record.what.kind.clone()).collect();
    (logs.audit.after(0).iter().map(entry).collect(), kinds)
}

#[test]
fn many_refusals_of_one_address_and_reason_are_a_count_whatever_their_ports() {
    let flood = (0..5000).map(|port| refused(7, port, RefusalKind::Authentication));
    let other = [refused(7, 1, RefusalKind::NoTarget)];
    let more = [Happened::RefusedMore { from: IpAddr::from([0, 0, 0, 7]), count: 300 }];
    let (all, _) = recorded(flood.chain(other).chain(more));
    let counts: Vec<(&str, u64)> =
        all.iter().map(|(entry, n)| (entry.reason.as_str(), *n)).collect();
    assert_eq!(
        counts,
        [("authentication", 1), ("no_target", 1), ("", 300), ("authentication", 4999)]
    );
    let first = &all[0].0;
    assert_eq!((first.action, first.from.as_str()), (Action::LoginRefused, "0.0.0.7:0"));
    assert_eq!((first.who.host.as_deref(), first.done), (Some(WEB), false));
}

#[test]
fn a_flood_of_many_addresses_leaves_room_for_who_is_let_in_and_for_changes() {
    let flood = (1..=10_000).map(|from| refused(from, 1, RefusalKind::NotAuthorized));
    let login = [Happened::LoggedIn { who: who(99_999, 5), tsih: 1, cid: 0 }];
    let (all, _) = recorded(flood.chain(login));
    let refusals = all.iter().filter(|(entry, _)| entry.action == Action::LoginRefused);
    let count: u64 = refusals.clone().map(|(_, count)| count).sum();
    assert_eq!((refusals.count(), count), (Entry::FOLDS_MAX + 1, 10_000));
    assert!(all.iter().any(|(entry, _)| entry.from == ELSEWHERE));
    let let_in = all.iter().find(|(entry, _)| entry.action == Action::Login);
    assert_eq!(let_in.map(|(entry, _)| entry.who.host.as_deref()), Some(Some(WEB)));
}

#[test]
fn a_second_host_is_an_event_too_and_so_is_what_came_too_fast() {
    let missed = Happened::Missed(Missed { logged_in: 1, refused: 12, ended: 2 });
    let (all, events) = recorded([refused(1, 1, RefusalKind::InUse), missed]);
    assert_eq!(events, ["second_host_refused", "events_missed"]);
    assert_eq!(all[0].0.reason.as_str(), "in_use");
    // Who was refused is counted apart from who was let in.
    let missed = all[1..].iter().map(|(entry, count)| {
        assert_eq!(entry.action, Action::Missed);
        (entry.done, entry.outcome.split(',').next().unwrap_or_default(), *count)
    });
    let wanted = [
        (false, "refused logins", 12),
        (true, "logins that were let in", 1),
        (true, "ends of sessions", 2),
    ];
    assert_eq!(missed.collect::<Vec<_>>(), wanted);
}

#[test]
fn each_change_is_recorded_by_itself_with_names_that_cannot_deceive() {
    let dir = tempfile::tempdir().unwrap();
    let logs = Logs::open(dir.path()).unwrap();
    let change = Change {
        who: super::Actor { uid: Some(1000), ..super::Actor::default() },
        from: "control socket".into(),
        operation: "DELETE /v1/volumes/{name}".into(),
        path: "/v1/volumes/a\u{1b}[2K\nnothing".into(),
        done: true,
        outcome: "204".into(),
    };
    (0..3).for_each(|_| logs.audit.change(change.clone()));
    logs.end();
    let all = logs.audit.after(0);
    assert_eq!(all.len(), 3);
    assert_eq!(all[0].what.object, "/v1/volumes/a [2K nothing");
}

#[test]
fn changes_that_failed_and_are_counted_together_say_so() {
    let dir = tempfile::tempdir().unwrap();
    let logs = Logs::open(dir.path()).unwrap();
    for n in 0..100 {
        logs.audit.change(Change { done: false, operation: format!("GET {n}"), ..change("x") });
    }
    logs.end();
    let all = logs.audit.after(0);
    let others = all.iter().find(|record| record.what.from == ELSEWHERE).expect("it has bounds");
    assert_eq!(others.what.outcome, "other changes that were refused or failed");
}

/// What was recorded of logins at the interface: who, from where, and how often.
fn let_in(logs: &Logs) -> Vec<(String, String, u64)> {
    let all = logs.audit.after(0);
    let of = |it: &std::sync::Arc<crate::Record<Entry>>| {
        (it.what.who.account.clone().unwrap_or_default(), it.what.from.clone(), it.count)
    };
    all.iter().filter(|it| it.what.action == Action::Login).map(of).collect()
}

/// A read-only token was used from 58 addresses in a minute, and so nobody saw that of an administrator was used, too.
#[test]
fn a_token_that_is_used_from_everywhere_hides_no_other_one() {
    let dir = tempfile::tempdir().unwrap();
    let logs = Logs::open(dir.path()).unwrap();
    let log_in = |name: &str, from: u32, role: &str| {
        let account = Some(format!("token '{name}'"));
        let who = super::Actor { account, ..super::Actor::default() };
        logs.audit.logged_in(who, &who_from(from), role);
    };
    let shown = |name: &str, from: u32| (format!("token '{name}'"), who_from(from), 1);
    for from in 0..58 {
        log_in("watch", from, "read-only");
    }
    // Hosts, and those that are refused, take it no room either.
    flood(&logs, 100);
    log_in("root", 99, "administrator");
    assert!(
        let_in(&logs).contains(&shown("root", 99)),
        "at once, by its name: {:?}",
        let_in(&logs)
    );
    logs.end();
    let all = let_in(&logs);
    let of = |name: &str| {
        let name = format!("token '{name}'");
        all.iter().filter(|it| it.0 == name).cloned().collect::<Vec<_>>()
    };
    assert_eq!(of("root"), [shown("root", 99)]);
    let own = u32::try_from(Entry::FOLDS_OF_OWNER_MAX).unwrap();
    let mut wanted: Vec<_> = (0..own).map(|from| shown("watch", from)).collect();
    wanted.push(("token 'watch'".to_owned(), ELSEWHERE.to_owned(), u64::from(58 - own)));
    assert_eq!(of("watch"), wanted);
}

fn who_from(from: u32) -> String {
    who(from, 1).from.to_string()
}

fn change(name: &str) -> Change {
    Change {
        who: super::Actor { uid: Some(0), ..super::Actor::default() },
        from: "control socket".into(),
        operation: "DELETE /v1/volumes/{name}".into(),
        path: format!("/v1/volumes/{name}"),
        done: true,
        outcome: "204".into(),
    }
}

/// Who logs in and out again and again, as a new host each time, and is refused under as many names of accounts.
fn flood(logs: &Logs, count: u32) {
    let listener = logs.listener();
    let hear = |what| listener.hear(&AccessEvent { at: SystemTime::now(), what });
    for n in 0..count {
        let who = Who { initiator: Some(format!("{WEB}{n}")), ..who(7, 1) };
        let reason = "it logged out".to_owned();
        hear(Happened::LoggedIn { who: who.clone(), tsih: 1, cid: 0 });
        hear(Happened::Ended { who, tsih: 1, reason });
        hear(refused(n, 1, RefusalKind::Authentication));
        logs.audit.change(Change { done: false, operation: format!("GET {n}"), ..change("x") });
    }
}

#[test]
fn who_logs_in_and_out_or_is_refused_pushes_out_no_change() {
    let dir = tempfile::tempdir().unwrap();
    let logs = Logs::open(dir.path()).unwrap();
    logs.audit.change(change("vm1"));
    flood(&logs, 10_000);
    logs.audit.change(change("vm2"));
    let changed = |logs: &Logs| {
        let all = logs.audit.after(0);
        assert!(all.is_sorted_by_key(|record| record.number) && all.len() < 3 * 8192);
        let done = all.iter().filter(|it| it.what.action == Action::Change && it.what.done);
        done.map(|record| record.what.object.clone()).collect::<Vec<_>>()
    };
    assert_eq!(changed(&logs), ["/v1/volumes/vm1", "/v1/volumes/vm2"]);
    logs.end();
    let logs = Logs::open(dir.path()).unwrap();
    assert_eq!(changed(&logs), ["/v1/volumes/vm1", "/v1/volumes/vm2"]);
    logs.end();
}

/// Lines as they were written before the log had parts, all in the files that are those of logins now.
const OF_EARLIER: [&str; 3] = [
    r#"{"number":1,"unix_seconds":5,"count":1,"action":"change","who":{"uid":0},"from":"control socket","object":"/v1/volumes/old","operation":"DELETE /v1/volumes/{name}","done":true,"reason":"","outcome":"204"}"#,
    r#"{"number":2,"unix_seconds":6,"count":3,"action":"login_refused","who":{},"from":"192.0.2.7:1","object":"iqn.x:vm","operation":"","done":false,"reason":"in_use","outcome":"no"}"#,
    r#"{"number":3,"unix_seconds":7,"count":1,"action":"login","who":{"host":"iqn.x:h"},"from":"192.0.2.7:1","object":"iqn.x:vm","done":true,"outcome":"logged in"}"#,
];

#[test]
fn the_files_of_an_earlier_version_are_read_and_their_changes_stay() {
    let dir = tempfile::tempdir().unwrap();
    let sum = |json: &str| crc_fast::checksum(crc_fast::CrcAlgorithm::Crc32Iscsi, json.as_bytes());
    let lines = OF_EARLIER.map(|json| format!("{:08x} {json}\n", sum(json)));
    std::fs::write(dir.path().join("audit.0"), lines.concat()).unwrap();
    let logs = Logs::open(dir.path()).unwrap();
    let all = logs.audit.after(0);
    let read: Vec<_> = all.iter().map(|it| (it.number, it.count, it.what.action)).collect();
    let wanted = [(1, 1, Action::Change), (2, 3, Action::LoginRefused), (3, 1, Action::Login)];
    assert_eq!(read, wanted);
    flood(&logs, 10_000);
    logs.end();
    let logs = Logs::open(dir.path()).unwrap();
    let first = logs.audit.after(0)[0].clone();
    assert_eq!((first.number, first.what.object.as_str()), (1, "/v1/volumes/old"));
    logs.end();
}

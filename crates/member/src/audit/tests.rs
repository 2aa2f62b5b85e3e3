//! What a flood of logins leaves in the audit log.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::SystemTime;

use target::{AccessEvent, Happened, RefusalKind, Who};

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
    let missed = Happened::Missed { count: 12 };
    let (all, events) = recorded([refused(1, 1, RefusalKind::InUse), missed]);
    assert_eq!(events, ["second_host_refused", "events_missed"]);
    assert_eq!(
        (all[0].0.reason.as_str(), all[1].0.action, all[1].1),
        ("in_use", Action::Missed, 12)
    );
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

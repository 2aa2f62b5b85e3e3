//! That nothing is lost, that repeats are one, and that there is a bound to all of it.

use group::destinations::FOLD_SECONDS;
use member::events::{Kind, Object};

use super::*;

fn record(number: u64, severity: Severity, kind: Kind, name: &str) -> Arc<Record<Event>> {
    let what = Event::about(kind, ObjectKind::Disk, name, format!("number {number}"));
    let what = what.with_severity(severity);
    Arc::new(Record { number, unix_seconds: 1000 + number, count: 1, what })
}

fn rule(messages_max: usize) -> Rule<'static> {
    let severity = Severity::Warning;
    let choice = Choice { severity, fold_seconds: FOLD_SECONDS, paused: false };
    Rule { choice, name: "ops", messages_max }
}

fn numbers(step: &Step) -> Vec<(u64, u64)> {
    let all = step.messages.iter();
    all.map(|message| (message.record().number, message.record().count)).collect()
}

const ERROR: Severity = Severity::Error;

#[test]
fn the_first_goes_at_once_and_the_rest_as_one_when_the_fold_is_over() {
    let log: Vec<_> = (1..=5).map(|n| record(n, ERROR, Kind::DiskFailed, "sdb")).collect();
    let first = Place::default().next(&log, rule(50), 1000);
    assert_eq!(numbers(&first), [(1, 1)]);
    assert!(
        !first.place.is_due(5, FOLD_SECONDS, 1299) && first.place.is_due(5, FOLD_SECONDS, 1300)
    );
    let again = first.place.next(&[], rule(50), 1300);
    assert_eq!(numbers(&again), [(5, 4)]);
    assert!(again.messages[0].text().ends_with("(4 more times within 5 min)"));
    let over = again.place.next(&[], rule(50), 1600);
    assert!(over.messages.is_empty() && over.place.windows.is_empty());
    // A clock that was set back holds nothing back.
    assert_eq!(numbers(&first.place.next(&[], rule(50), 10)), [(5, 4)]);
}

#[test]
fn what_counts_less_and_what_is_about_the_destination_itself_does_not_go_there() {
    let own = Event::of_destination(Kind::DestinationFailed, "ops", "it fails");
    let other = Event::of_destination(Kind::DestinationFailed, "mail", "it fails");
    let of = |number, what| Arc::new(Record { number, unix_seconds: 1, count: 1, what });
    let log = [record(1, Severity::Info, Kind::DiskAdded, "sdb"), of(2, own), of(3, other)];
    let step = Place::default().next(&log, rule(50), 1);
    assert_eq!(numbers(&step), [(3, 1)]);
    assert_eq!((step.place.after(), step.lost), (3, 0));
}

#[test]
fn thousands_at_once_are_a_few_messages_and_all_are_counted() {
    let kinds = [Kind::DiskFailed, Kind::DiskMissing, Kind::VolumeLost];
    let log: Vec<_> =
        (1..=6000).map(|n| record(n, ERROR, kinds[n as usize % 3], &format!("disk-{n}"))).collect();
    let mut place = Place::default();
    let mut told = 0;
    let mut messages = 0;
    for now in [1000, 1000, 1000, 1300, 1300, 1300] {
        let step = place.next(&log, rule(50), now);
        assert!(step.messages.len() <= 50 && step.place.is_sound());
        messages += step.messages.len();
        told += step.messages.iter().map(|message| message.record().count).sum::<u64>();
        place = step.place;
    }
    assert_eq!(told, 6000, "none is lost without a word");
    assert!(messages <= 3 * (KIND_WINDOWS_MAX + 2), "{messages}");
    let stored = serde_json::to_vec(&place).unwrap();
    assert!(stored.len() < 100_000, "{}", stored.len());
}

#[test]
fn windows_have_a_bound_whatever_kinds_there_are() {
    let log: Vec<_> = (1..=5000)
        .map(|n| {
            let what = Event::of_array(Kind::DiskFailed, "x");
            let object = Object { kind: ObjectKind::Array, name: format!("{n}") };
            let what = Event { kind: format!("of_tomorrow_{}", n % 700), object, ..what };
            Arc::new(Record { number: n, unix_seconds: 1, count: 1, what })
        })
        .collect();
    let step = Place::default().next(&log, rule(10_000), 1000);
    assert!(step.messages.len() <= WINDOWS_MAX + 2 && step.place.is_sound());
    assert_eq!(step.place.after(), 5000);
}

#[test]
fn what_the_log_gave_up_is_counted_as_lost() {
    let log = [record(10, ERROR, Kind::DiskFailed, "a"), record(12, ERROR, Kind::DiskFailed, "b")];
    let place = Place { after: 4, ..Place::default() };
    let step = place.next(&log, rule(50), 1000);
    assert_eq!((step.lost, step.place.after()), (5 + 1, 12));
}

#[test]
fn a_place_of_numbers_that_a_crash_took_back_is_not_believed() {
    // 105 was sent, a power cut took it from the log, and it is another event now.
    let stored = Place { after: 105, ..Place::default() };
    let place = Place::of(Some(stored), 0, (104, 105));
    let log = [record(105, ERROR, Kind::DiskFailed, "another")];
    assert_eq!(numbers(&place.next(&log, rule(50), 1000)), [(105, 1)]);
}

#[test]
fn a_destination_begins_where_it_was_made_and_after_a_pause_and_with_a_new_log_at_its_beginning() {
    let after = |stored: Option<Place>, begins| Place::of(stored, begins, (50, 60)).after();
    assert_eq!(after(None, 40), 40);
    assert_eq!(after(None, 5000), 0, "its disks came to another machine");
    let stored = || Some(Place { after: 45, began: 40, ..Place::default() });
    assert_eq!(after(stored(), 40), 45);
    assert_eq!(after(stored(), 48), 48, "it was paused until then");
    assert_eq!(stored().unwrap().beginning(48).after(), 48);
}

#[test]
fn old_events_are_given_up_and_newer_ones_are_not() {
    let log: Vec<_> = (1..=4).map(|n| record(n, ERROR, Kind::DiskFailed, "a")).collect();
    let mut place = Place::default();
    assert_eq!(place.give_up(&log, 1003), 2);
    assert_eq!(place.after(), 2);
}

#[test]
fn a_place_of_an_earlier_version_is_that_of_all_parts_of_the_audit_log() {
    let json = r#"{"after":1,"began":0,"windows":{},"audit_after":5}"#;
    let place: Place = serde_json::from_str(json).unwrap();
    let place = place.clone().auditing(place.audit(), true, false, (9, 9));
    assert_eq!(place.audit(), Some([5; 3]));
    let written = serde_json::to_string(&place).unwrap();
    assert_eq!(serde_json::from_str::<Place>(&written).unwrap(), place);
}

//! Settings in a store that others write to all the time.

use std::sync::atomic::{AtomicUsize, Ordering};

use super::super::GUARD_KEY;
use super::testing::*;
use super::*;
use crate::store::Selection;
use crate::store::suite::wait;

#[test]
fn what_is_no_setting_keeps_nobody_from_reading_settings() {
    let store = store();
    policy(&group(&store), "hosts", &["ip=10.0.0.1"]);
    let others = store.clone();
    let alive = move || put(&others, &[("group/alive", b"it is".as_slice())]);
    let busy = group(&Meddled::reading(&store, Box::new(alive)));
    assert_eq!(records(&busy, "hosts").expect("it is there"), ["ip=10.0.0.1 for=both"]);
    policy(&busy, "more", &["ip=10.0.0.2"]);
    assert!(shared(&busy).policies.keys().eq(["hosts", "more"]));
}

#[test]
fn what_is_changed_while_settings_are_read_is_not_read_by_halves() {
    let store = store();
    wait(group(&store).add_user("al", &secret("hush-hush-hush"))).unwrap();
    let (other, reads) = (group(&store), AtomicUsize::new(0));
    // When policies were read, and users were not: the record would name nobody, or the user be named by nothing.
    let changes = move || {
        if reads.fetch_add(1, Ordering::Relaxed) == 3 {
            policy(&other, "hosts", &["chap=al"]);
        }
    };
    let read = shared(&group(&Meddled::reading(&store, Box::new(changes))));
    assert!(read.policies.contains_key("hosts"), "{read:?}");
    let guard = wait(store.range(Selection::key(GUARD_KEY))).unwrap();
    assert_eq!((read.changed(), read.read_at()), (guard.kvs[0].mod_revision, guard.revision));
}

#[test]
fn what_is_shared_is_said_as_operators_do() {
    let keys = ["policies/esx", "chap/users/al", "chap/mutual", "accounts/ada", "tokens/ci"];
    let said_of = keys.map(said);
    let wanted = ["policy 'esx'", "CHAP user 'al'", "mutual CHAP", "account 'ada'", "token 'ci'"];
    assert!(said_of.iter().flatten().eq(wanted), "{said_of:?}");
    assert_eq!(said("destinations/ops").unwrap(), "destination 'ops'");
    for own in ["access", "volumes/00000007", "schedules/daily", "identity", "intents/vm1"] {
        assert_eq!(said(own), None, "it is of the member");
    }
}

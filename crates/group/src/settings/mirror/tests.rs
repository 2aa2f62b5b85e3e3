//! What a member has of the settings of its group, whatever happened to either.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use super::super::shared::testing::*;
use super::super::steps::STEP_OPS_MAX;
use super::super::{AccountChange, SETTINGS_BYTES_MAX};
use super::*;
use crate::access::{Entry, Scope};
use crate::accounts::Role;
use crate::destinations::DestinationChange;
use crate::secrets::{Key, KeySource, Vault};
use crate::store::Selection;
use crate::store::suite::wait;

/// Mirrors the one into the other, whose last event is of this number.
fn mirror_at(own: &mut Settings, group: &Settings, last: u64) -> Result<bool, SettingsError> {
    wait(own.mirror(&shared(group), last))
}

fn mirror(own: &mut Settings, group: &Settings) -> Result<bool, SettingsError> {
    mirror_at(own, group, 40)
}

#[test]
fn what_is_set_for_the_group_is_set_here_under_the_key_of_the_member() {
    let dir = tempfile::tempdir().unwrap();
    let (mut own, mut group) = (own(&store(), dir.path()), group(&store()));
    fill(&mut group);
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0, "no file is made for the group");
    wait(own.add_access(7, Entry::Record("ip=10.0.0.9".parse().unwrap()))).unwrap();
    assert!(mirror(&mut own, &group).unwrap());
    assert_eq!(bare(&own), bare(&group));
    assert!(shared(&own).unreadable().is_empty() && !shared(&own).is_empty());
    let (here, there) = (wait(own.read()).unwrap(), wait(group.read()).unwrap());
    assert_ne!(here.users["al"].key(), there.users["al"].key());
    let known = here.secrets(group.vault());
    assert!(known.users.is_empty() && known.mutual.is_none() && known.destinations.is_empty());
    assert_eq!(here.volumes.len(), 1, "what is set for volumes is not the group's");
    assert!(there.volumes.is_empty());
    // It follows what changes.
    wait(group.set_user("al", &secret("hush-hush-hush-2"))).unwrap();
    let lower = AccountChange { role: Some(Role::ReadOnly), ..AccountChange::default() };
    wait(group.set_account("ada", lower)).unwrap();
    wait(group.remove_from_policy("hosts", 2)).unwrap();
    assert!(mirror(&mut own, &group).unwrap());
    assert_eq!(bare(&own), bare(&group));
}

#[test]
fn what_is_the_same_is_not_touched() {
    let dir = tempfile::tempdir().unwrap();
    let (ours, theirs) = (store(), store());
    let (mut own, mut group) = (own(&ours, dir.path()), group(&theirs));
    fill(&mut group);
    assert!(mirror(&mut own, &group).unwrap());
    let before = kvs(&ours);
    assert!(!mirror_at(&mut own, &group, 90).unwrap());
    assert_eq!(kvs(&ours), before);
    // What is set beside it keeps its revision.
    policy(&group, "more", &["ip=10.0.0.3"]);
    assert!(mirror(&mut own, &group).unwrap());
    let after = kvs(&ours);
    let is_kept = |kv: &&_| after.contains(*kv);
    assert_eq!(before.iter().filter(is_kept).count(), before.len() - 1, "all but the guard");
    assert_eq!(after.len(), before.len() + 1);
    let (read, store) = (shared(&group), wait(theirs.range(Selection::key("access"))).unwrap());
    assert_eq!((read.read_at(), read.changed()), (store.revision, store.kvs[0].mod_revision));
}

#[test]
fn what_went_in_the_group_goes_here() {
    let dir = tempfile::tempdir().unwrap();
    let (mut own, mut group) = (own(&store(), dir.path()), group(&store()));
    fill(&mut group);
    mirror(&mut own, &group).unwrap();
    let hosts = Entry::Policy { name: "hosts".into(), scope: Scope::Both };
    wait(own.add_access(7, hosts)).unwrap();
    wait(group.delete_policy("hosts")).unwrap();
    wait(group.delete_user("al")).unwrap();
    wait(group.clear_mutual()).unwrap();
    wait(group.remove_account("ada")).unwrap();
    wait(group.revoke_token("ci")).unwrap();
    wait(group.delete_destination("ops")).unwrap();
    assert!(mirror(&mut own, &group).unwrap());
    assert!(shared(&own).is_empty(), "{:?}", shared(&own));
    let state = wait(own.read()).unwrap();
    assert!(state.not_there(7).policies.contains("hosts"), "its list lets nobody in by it");
    assert!(!mirror(&mut own, &group).unwrap());
}

#[test]
fn what_does_not_read_on_either_side_is_left_alone_but_for_who_is_let_in_by_it() {
    let dir = tempfile::tempdir().unwrap();
    let (ours, theirs) = (store(), store());
    let (mut own, mut group) = (own(&ours, dir.path()), group(&theirs));
    policy(&own, "later-there", &["ip=10.0.0.1"]);
    wait(own.add_user("bo", &secret("hush-hush-hush"))).unwrap();
    wait(own.add_account("ada", account(Role::Operator))).unwrap();
    wait(own.add_token("ci", token("ci"))).unwrap();
    policy(&group, "later-here", &["ip=10.0.0.2"]);
    // Of a group whose authority was another one.
    let mut other = Vault::of_key(Key::derived("test", b"other"));
    let sealed = other.seal("chap/users/bo", &secret("hush-hush-hush")).unwrap().encode();
    put(&theirs, &[("policies/later-there", LATER), ("chap/users/bo", sealed.as_slice())]);
    put(&theirs, &[("accounts/ada", LATER), ("tokens/ci", LATER)]);
    put(&ours, &[("policies/later-here", LATER), ("accounts/only-here", LATER)]);
    put(&ours, &[("volumes/00000005", LATER)]);
    let from = shared(&group);
    let unread: Vec<_> = from.unreadable().iter().map(String::as_str).collect();
    let of_group = ["accounts/ada", "chap/users/bo", "policies/later-there", "tokens/ci"];
    assert_eq!(unread, of_group);
    assert!(mirror(&mut own, &group).unwrap(), "what they were here may have been given up");
    let here = shared(&own);
    assert!(here.users.is_empty() && here.accounts.is_empty() && here.tokens.is_empty());
    let before = kvs(&ours);
    assert!(!mirror(&mut own, &group).unwrap());
    assert_eq!(kvs(&ours), before);
    let unread = shared(&own).unreadable().len();
    assert_eq!(unread, 2, "what is set for a volume is not among what is shared");
    // Beside it all goes on, and what reads again follows.
    wait(group.set_user("bo", &secret("hush-hush-hush-2"))).unwrap();
    assert!(mirror(&mut own, &group).unwrap());
    assert_eq!(shared(&own).users["bo"], secret("hush-hush-hush-2"));
    assert_eq!(records(&own, "later-there").unwrap(), ["ip=10.0.0.1 for=both"]);
}

#[test]
fn secrets_whose_key_is_lost_are_written_again() {
    let dir = tempfile::tempdir().unwrap();
    let (ours, theirs) = (store(), store());
    let mut group = group(&theirs);
    fill(&mut group);
    let mut before = own(&ours, dir.path());
    mirror_at(&mut before, &group, 40).unwrap();
    wait(before.add_user("only", &secret("only-known-here"))).unwrap();
    fs::rename(dir.path().join("key"), dir.path().join("away")).unwrap();
    let mut own = own(&ours, dir.path());
    assert_eq!(shared(&own).unreadable().len(), 4);
    assert!(mirror_at(&mut own, &group, 90).unwrap());
    assert!(wait(own.read()).unwrap().users.contains_key("only"), "its key may come back");
    let mut here = bare(&own);
    assert!(std::mem::take(&mut here.unreadable).iter().eq(["chap/users/only"]));
    assert_eq!(here, bare(&group));
    let again = &shared(&own).destinations["ops"];
    assert_eq!(again.begins_after, 40, "what was not sent yet is sent still");
}

#[test]
fn the_last_use_of_a_token_goes_forward_only() {
    let dir = tempfile::tempdir().unwrap();
    let (mut own, mut group) = (own(&store(), dir.path()), group(&store()));
    fill(&mut group);
    mirror(&mut own, &group).unwrap();
    let used = |own: &Settings| shared(own).tokens["ci"].used_unix_seconds;
    wait(group.note_use("ci", 100)).unwrap();
    assert!(mirror(&mut own, &group).unwrap());
    assert_eq!(used(&own), Some(100));
    wait(own.note_use("ci", 200)).unwrap();
    assert!(!mirror(&mut own, &group).unwrap());
    assert_eq!(used(&own), Some(200), "it was noted before the settings were the group's");
    wait(group.note_use("ci", 300)).unwrap();
    assert!(mirror(&mut own, &group).unwrap());
    assert_eq!(used(&own), Some(300));
    // Another one of the name was not used yet.
    wait(group.revoke_token("ci")).unwrap();
    wait(group.add_token("ci", token("another"))).unwrap();
    assert!(mirror(&mut own, &group).unwrap());
    assert_eq!(shared(&own).tokens["ci"], token("another"));
}

#[test]
fn a_destination_begins_where_this_member_is() {
    let dir = tempfile::tempdir().unwrap();
    let (mut own, mut group) = (own(&store(), dir.path()), group(&store()));
    wait(group.add_destination("ops", destination(7, 3))).unwrap();
    let begins = |own: &Settings| shared(own).destinations["ops"].begins_after;
    let change = |group: &mut Settings, paused, fold_seconds| {
        let change = DestinationChange { severity: None, fold_seconds, paused, way: None };
        wait(group.change_destination("ops", change, 1)).expect("it is changed");
    };
    mirror_at(&mut own, &group, 40).unwrap();
    assert_eq!(begins(&own), 40, "3 counts the events of the member that made it");
    change(&mut group, None, Some(60));
    assert!(mirror_at(&mut own, &group, 50).unwrap());
    assert_eq!((begins(&own), shared(&own).destinations["ops"].choice.fold_seconds), (40, 60));
    change(&mut group, Some(true), None);
    mirror_at(&mut own, &group, 60).unwrap();
    assert_eq!(begins(&own), 40);
    change(&mut group, Some(false), None);
    mirror_at(&mut own, &group, 70).unwrap();
    assert_eq!(begins(&own), 70, "what came while it was paused is not for it");
    wait(group.delete_destination("ops")).unwrap();
    wait(group.add_destination("ops", destination(8, 3))).unwrap();
    change(&mut group, None, Some(90));
    mirror_at(&mut own, &group, 80).unwrap();
    assert_eq!(begins(&own), 80, "it is another one");
}

#[test]
fn what_takes_rights_away_is_done_where_there_is_no_room_for_the_rest() {
    let dir = tempfile::tempdir().unwrap();
    let (ours, theirs) = (store(), store());
    let (mut own, mut group) = (own(&ours, dir.path()), group(&theirs));
    wait(group.add_user("al", &secret("hush-hush-hush"))).unwrap();
    wait(group.add_user("gone", &secret("hush-hush-hush"))).unwrap();
    policy(&group, "hosts", &["ip=10.0.0.1", "ip=10.0.0.2"]);
    mirror(&mut own, &group).unwrap();
    own.limit(wait(own.read()).unwrap().taken_bytes());
    wait(group.delete_user("gone")).unwrap();
    wait(group.set_user("al", &secret(&"long".repeat(120)))).unwrap();
    wait(group.remove_from_policy("hosts", 1)).unwrap();
    for host in 3..40 {
        let record = format!("ip=10.0.0.{host}").parse().unwrap();
        wait(group.add_to_policy("hosts", record)).unwrap();
    }
    let full = mirror(&mut own, &group).unwrap_err();
    assert!(matches!(full, SettingsError::Full { .. }), "{full}");
    assert_eq!(records(&own, "hosts").unwrap(), ["ip=10.0.0.2 for=both"]);
    assert!(shared(&own).users.is_empty(), "neither who went, nor the secret that was given up");
    let before = kvs(&ours);
    assert!(matches!(mirror(&mut own, &group), Err(SettingsError::Full { .. })));
    assert_eq!(kvs(&ours), before, "it does not write the same again and again");
    own.limit(SETTINGS_BYTES_MAX);
    assert!(mirror(&mut own, &group).unwrap());
    assert_eq!(bare(&own), bare(&group));
}

#[test]
fn without_a_key_all_but_secrets_is_done() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("key");
    let (ours, theirs) = (store(), store());
    let mut group = group(&theirs);
    fill(&mut group);
    policy(&own(&ours, dir.path()), "gone", &["ip=10.0.0.1"]);
    fs::write(&path, "ab".repeat(32)).unwrap();
    let set_mode = |mode| fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
    set_mode(0o644);
    let vault = Vault::without_key(KeySource::File(path.clone()));
    let mut own = Settings::new(ours, vault);
    let refused = mirror(&mut own, &group).unwrap_err();
    assert!(matches!(refused, SettingsError::Key(_)), "{refused}");
    let has = shared(&own);
    assert!(has.policies.keys().eq(["hosts"]) && has.accounts.len() == 1 && has.tokens.len() == 1);
    assert!(has.users.is_empty() && has.mutual.is_none() && has.destinations.is_empty());
    set_mode(0o600);
    assert!(mirror(&mut own, &group).unwrap());
    assert_eq!(bare(&own), bare(&group));
}

/// A member was cut off while it wrote more than one transaction holds.
#[test]
fn what_was_cut_off_between_lets_nobody_in_and_is_gone_on_with() {
    const COUNT: usize = STEP_OPS_MAX + 500;
    const OLD: &str = "ip=10.0.0.1 for=both";
    const NEW: &str = "ip=10.0.0.2 for=both";
    let dir = tempfile::tempdir().unwrap();
    let (ours, theirs) = (store(), store());
    put_policies(&ours, COUNT, OLD);
    put_policies(&theirs, COUNT, NEW);
    let mut group = group(&theirs);
    wait(group.add_user("al", &secret("hush-hush-hush"))).unwrap();
    let with = |settings: &Settings, record: &str| {
        let all = shared(settings).policies;
        let is_of = |policy: &&Policy| policy.records().all(|(_, it)| it.to_string() == record);
        all.values().filter(is_of).count()
    };
    let meddled = Meddled::with(&ours, vec![Act::Nothing, Act::Lost, Act::Nothing, Act::Lost]);
    let mut cut = own(&meddled, dir.path());
    assert!(matches!(mirror(&mut cut, &group), Err(SettingsError::Store(_))));
    assert_eq!((with(&cut, OLD), with(&cut, NEW)), (COUNT - STEP_OPS_MAX, 0));
    assert!(shared(&cut).users.is_empty());
    assert!(mirror(&mut cut, &group).is_err(), "it is cut off once more");
    assert_eq!((with(&cut, OLD), with(&cut, NEW)), (0, 0));
    assert!(mirror(&mut cut, &group).unwrap());
    assert_eq!((with(&cut, OLD), with(&cut, NEW)), (0, COUNT));
    assert_eq!(bare(&cut), bare(&group));
    assert!(!mirror(&mut cut, &group).unwrap());
}

#[test]
fn what_changes_here_meanwhile_is_looked_at_anew() {
    let dir = tempfile::tempdir().unwrap();
    let (ours, theirs) = (store(), store());
    let mut group = group(&theirs);
    fill(&mut group);
    let other = own(&ours, dir.path());
    let meanwhile: Work = Box::new(move || {
        wait(other.create_policy("beside")).expect("it comes first");
        wait(other.set_shared(7, true)).expect("it comes first");
    });
    let meddled = Meddled::with(&ours, vec![Act::After(meanwhile)]);
    let mut own = own(&meddled, dir.path());
    assert!(mirror(&mut own, &group).unwrap());
    assert_eq!(bare(&own), bare(&group), "it goes, since the group has it not");
    assert_eq!(wait(own.read()).unwrap().volumes.len(), 1);
}

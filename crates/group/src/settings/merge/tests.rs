//! What comes of the settings of a group and those of a member that is to share them.

use proptest::prelude::*;

use super::super::shared::testing::*;
use super::super::{Batch, GROUP_BYTES_MAX, MutualChange};
use super::*;
use crate::access::{Entry, Scope};
use crate::accounts::Role;
use crate::destinations::DestinationChange;
use crate::store::suite::wait;

/// What is in conflict.
fn merge(group: &mut Settings, own: &Settings, replace: bool) -> Vec<String> {
    let bringing = if replace { Bringing::InUse } else { Bringing::All };
    bring(group, own, bringing).err().unwrap_or_default()
}

/// Who has come to the group, or what is in conflict.
fn bring(
    group: &mut Settings,
    own: &Settings,
    bringing: Bringing,
) -> Result<Vec<String>, Vec<String>> {
    match wait(group.merge(&shared(own), bringing)).expect("there is room") {
        Merged::Made(come) => Ok(come),
        Merged::Differs(conflicts) => Err(conflicts.iter().map(ToString::to_string).collect()),
    }
}

/// The access list of a volume of the member names this.
fn list(own: &Settings, entry: Entry) {
    wait(own.add_access(7, entry)).expect("it is listed");
}

fn of_policy(name: &str) -> Entry {
    Entry::Policy { name: name.to_owned(), scope: Scope::Both }
}

/// The own settings follow those of the group.
fn mirror(own: &mut Settings, group: &Settings) -> bool {
    wait(own.mirror(&shared(group), 40)).expect("there is room")
}

#[test]
fn what_only_the_member_has_is_added_and_nothing_of_it_is_lost() {
    let dir = tempfile::tempdir().unwrap();
    let theirs = store();
    let (mut own, mut group) = (own(&store(), dir.path()), group(&theirs));
    fill(&mut own);
    wait(group.add_user("bo", &secret("hush-hush-bo"))).unwrap();
    policy(&group, "rack", &["chap=bo"]);
    let before = bare(&own);
    assert!(merge(&mut group, &own, false).is_empty());
    let state = wait(group.read()).unwrap();
    assert_eq!(state.secrets(group.vault()).users.len(), 2, "sealed for the group");
    assert!(mirror(&mut own, &group));
    let after = bare(&own);
    assert_eq!(after, bare(&group));
    assert!(before.keys().is_subset(&after.keys()) && after.users["al"] == before.users["al"]);
    assert_eq!(records(&own, "hosts").unwrap(), ["chap=al for=both", "ip=10.0.0.1 for=both"]);
    // Another member that has the same, and one that has nothing, change nothing.
    let before = kvs(&theirs);
    assert!(merge(&mut group, &own, false).is_empty());
    let nothing = wait(group.merge(&Shared::default(), Bringing::All)).unwrap();
    assert_eq!(nothing, Merged::Made(Vec::new()));
    assert_eq!(kvs(&theirs), before);
}

/// The settings of a member, and those of a group which has none of its things the same.
fn otherwise(own: &mut Settings, group: &mut Settings) {
    fill(own);
    fill(group);
    wait(group.set_user("al", &secret("hush-hush-other"))).unwrap();
    wait(group.set_mutual("disk", &secret("another-secret-2"))).unwrap();
    wait(group.remove_from_policy("hosts", 2)).unwrap();
    wait(group.revoke_token("ci")).unwrap();
    wait(group.add_token("ci", token("another"))).unwrap();
    let fold_seconds = Some(60);
    let change = DestinationChange { severity: None, fold_seconds, paused: None, way: None };
    wait(group.change_destination("ops", change, 9)).unwrap();
    policy(own, "only-here", &["ip=10.0.0.7"]);
    policy(group, "only-there", &["ip=10.0.0.8"]);
}

#[test]
fn what_both_have_otherwise_is_said_and_nothing_is_added() {
    let dir = tempfile::tempdir().unwrap();
    let theirs = store();
    let (mut own, mut group) = (own(&store(), dir.path()), group(&theirs));
    otherwise(&mut own, &mut group);
    let before = kvs(&theirs);
    let conflicts = [
        // Their passwords were given a salt each.
        "account 'ada'",
        "mutual CHAP",
        "CHAP user 'al'",
        "destination 'ops'",
        "policy 'hosts'",
        "token 'ci'",
    ];
    assert_eq!(merge(&mut group, &own, false), conflicts);
    assert_eq!(kvs(&theirs), before);
}

/// What was taken away in the group must not come back by a member that was not there; its hosts are not shut out.
#[test]
fn who_takes_the_settings_of_the_group_brings_only_what_its_lists_need() {
    let dir = tempfile::tempdir().unwrap();
    let (mut own, mut group) = (own(&store(), dir.path()), group(&store()));
    fill(&mut own);
    for user in ["bo", "cy", "mallory"] {
        wait(own.add_user(user, &secret("hush-hush-mine"))).unwrap();
    }
    policy(&own, "used", &["chap=bo", "ip=10.0.0.1"]);
    policy(&own, "unused", &["chap=mallory"]);
    policy(&own, "differs", &["chap=mallory"]);
    policy(&group, "differs", &["ip=10.0.0.9"]);
    for name in ["used", "differs"] {
        list(&own, of_policy(name));
    }
    list(&own, Entry::Record("chap=cy".parse().unwrap()));
    let come = bring(&mut group, &own, Bringing::InUse).unwrap();
    assert_eq!(come, ["CHAP user 'bo'", "CHAP user 'cy'"]);
    let there = bare(&group);
    assert!(there.policies.keys().eq(["differs", "used"]), "{there:?}");
    assert!(there.users.keys().eq(["bo", "cy"]), "{there:?}");
    assert!(there.accounts.is_empty() && there.tokens.is_empty());
    assert!(there.destinations.is_empty() && there.mutual.is_none());
    assert_eq!(records(&group, "used").unwrap(), ["chap=bo for=both", "ip=10.0.0.1 for=both"]);
    assert!(mirror(&mut own, &group));
    assert_eq!(bare(&own), there);
}

/// A deletion is nothing that differs.
#[test]
fn who_was_in_a_group_before_does_not_bring_back_what_was_taken_away_there() {
    let dir = tempfile::tempdir().unwrap();
    let theirs = store();
    let (mut own, mut group) = (own(&store(), dir.path()), group(&theirs));
    fill(&mut own);
    let before = kvs(&theirs);
    let gone = |what: &str| format!("{what}, which the group does not have");
    let conflicts = ["account 'ada'", "CHAP user 'al'", "token 'ci'"].map(gone);
    assert_eq!(bring(&mut group, &own, Bringing::Returning).unwrap_err(), conflicts);
    assert_eq!(kvs(&theirs), before);
    // Deleted here too, all else comes.
    wait(own.remove_account("ada")).unwrap();
    wait(own.revoke_token("ci")).unwrap();
    wait(own.delete_policy("hosts")).unwrap();
    wait(own.delete_user("al")).unwrap();
    policy(&own, "hosts", &["ip=10.0.0.1"]);
    assert_eq!(bring(&mut group, &own, Bringing::Returning), Ok(Vec::new()));
    assert!(records(&group, "hosts").is_some() && shared(&group).mutual.is_some());
}

#[test]
fn who_comes_to_the_group_with_a_member_is_said() {
    let dir = tempfile::tempdir().unwrap();
    let (mut own, mut group) = (own(&store(), dir.path()), group(&store()));
    fill(&mut own);
    let come = bring(&mut group, &own, Bringing::All).unwrap();
    assert_eq!(come, ["account 'ada'", "CHAP user 'al'", "token 'ci'"]);
    assert_eq!(bring(&mut group, &own, Bringing::All), Ok(Vec::new()), "they are there");
}

/// The mirror takes such a user away: its secret may have been given up.
#[test]
fn a_user_that_does_not_read_in_the_group_is_in_the_way() {
    let dir = tempfile::tempdir().unwrap();
    let theirs = store();
    let (own, mut group) = (own(&store(), dir.path()), group(&theirs));
    wait(own.add_account("ada", account(Role::Operator))).unwrap();
    put(&theirs, &[("accounts/ada", LATER)]);
    let conflict = "account 'ada', which does not read or open in the group";
    assert_eq!(merge(&mut group, &own, false), [conflict]);
}

#[test]
fn who_takes_the_settings_of_the_group_gives_up_what_differs_and_nothing_else() {
    let dir = tempfile::tempdir().unwrap();
    let (mut own, mut group) = (own(&store(), dir.path()), group(&store()));
    otherwise(&mut own, &mut group);
    list(&own, of_policy("only-here"));
    let before = bare(&group);
    assert!(merge(&mut group, &own, true).is_empty());
    let mut after = bare(&group);
    assert_eq!(records(&group, "only-here").unwrap(), ["ip=10.0.0.7 for=both"]);
    after.policies.remove("only-here");
    assert_eq!(after, before, "what the group had is as it was");
    assert!(mirror(&mut own, &group));
    assert_eq!(bare(&own), bare(&group));
}

#[test]
fn what_each_has_counted_for_itself_is_no_difference() {
    let dir = tempfile::tempdir().unwrap();
    let theirs = store();
    let (mut own, mut group) = (own(&store(), dir.path()), group(&theirs));
    let ada = account(Role::Operator);
    for (settings, begins) in [(&mut own, 1), (&mut group, 2)] {
        wait(settings.add_user("al", &secret("hush-hush-hush"))).unwrap();
        wait(settings.add_destination("ops", destination(begins, begins))).unwrap();
        let ada = Account { created_unix_seconds: begins, ..ada.clone() };
        wait(settings.add_account("ada", ada)).unwrap();
        let ci = Token { created_unix_seconds: begins, ..token("ci") };
        wait(settings.add_token("ci", ci)).unwrap();
        wait(settings.note_use("ci", begins)).unwrap();
    }
    policy(&own, "hosts", &["ip=10.0.0.1", "ip=10.0.0.2"]);
    policy(&group, "hosts", &["ip=10.0.0.3", "ip=10.0.0.2", "ip=10.0.0.1"]);
    wait(group.remove_from_policy("hosts", 1)).unwrap();
    let before = kvs(&theirs);
    assert!(merge(&mut group, &own, false).is_empty());
    assert_eq!(kvs(&theirs), before);
    mirror(&mut own, &group);
    let own = shared(&own);
    let ops = &own.destinations["ops"];
    assert_eq!((ops.id, ops.begins_after), (1, 1), "what was not sent yet is sent still");
    assert_eq!(own.policies, shared(&group).policies, "records have the numbers of the group");
}

#[test]
fn what_does_not_read_is_in_the_way_only_where_it_could_be_lost() {
    let dir = tempfile::tempdir().unwrap();
    let (ours, theirs) = (store(), store());
    let (mut own, mut group) = (own(&ours, dir.path()), group(&theirs));
    policy(&own, "later-there", &["ip=10.0.0.1"]);
    policy(&group, "later-here", &["ip=10.0.0.2"]);
    put(&ours, &[("policies/later-here", LATER), ("policies/later-both", LATER)]);
    put(&theirs, &[("policies/later-there", LATER), ("policies/later-both", LATER)]);
    assert!(merge(&mut group, &own, false).is_empty());
    let before = (kvs(&ours), kvs(&theirs));
    assert!(!mirror(&mut own, &group));
    assert_eq!((kvs(&ours), kvs(&theirs)), before);

    // With a later version the member would hear that the group has no such policy.
    put(&ours, &[("policies/only-here", LATER), ("chap/users/al", LATER)]);
    put_policies(&ours, 1, "chap=al ip=10.0.0.5");
    let there = kvs(&theirs);
    let conflicts = [
        "CHAP user 'al', which does not read or open here",
        "policy 'only-here', which does not read or open here",
    ];
    assert_eq!(merge(&mut group, &own, false), conflicts);
    assert_eq!(kvs(&theirs), there);
    list(&own, of_policy("p00000"));
    assert!(merge(&mut group, &own, true).is_empty());
    let added = records(&group, "p00000").unwrap();
    assert!(added.is_empty(), "another 'al' would be let in by it: {added:?}");
    mirror(&mut own, &group);
    let unread = shared(&own).unreadable().len();
    assert_eq!(unread, 4, "it stays where it is");
}

#[test]
fn no_secret_comes_to_serve_both_directions() {
    let dir = tempfile::tempdir().unwrap();
    let (mut own, mut group) = (own(&store(), dir.path()), group(&store()));
    wait(own.add_user("al", &secret("hush-hush-hush"))).unwrap();
    wait(group.set_mutual("disk", &secret("hush-hush-hush"))).unwrap();
    let other = ", whose secret serves the other direction of CHAP in the group";
    assert_eq!(merge(&mut group, &own, false), [format!("CHAP user 'al'{other}")]);
    assert!(merge(&mut group, &own, true).is_empty());
    assert!(shared(&group).users.is_empty());
    wait(group.clear_mutual()).unwrap();
    wait(own.delete_user("al")).unwrap();
    wait(own.set_mutual("disk", &secret("hush-hush-bo"))).unwrap();
    wait(group.add_user("bo", &secret("hush-hush-bo"))).unwrap();
    assert_eq!(merge(&mut group, &own, false), [format!("mutual CHAP{other}")]);
    assert!(merge(&mut group, &own, true).is_empty());
    assert_eq!(shared(&group).mutual, None);
}

#[test]
fn more_than_there_may_be_is_not_added() {
    let dir = tempfile::tempdir().unwrap();
    let theirs = store();
    let (own, mut group) = (own(&store(), dir.path()), group(&theirs));
    let many = account(Role::ReadOnly).encode();
    let keys: Vec<String> = (0..ACCOUNTS_MAX).map(|n| account_key(&format!("a{n}"))).collect();
    let all: Vec<_> = keys.iter().map(|key| (key.as_str(), many.as_slice())).collect();
    put(&theirs, &all);
    policy(&own, "hosts", &["ip=10.0.0.1"]);
    wait(own.add_account("ada", account(Role::Operator))).unwrap();
    let before = kvs(&theirs);
    let full = wait(group.merge(&shared(&own), Bringing::All)).unwrap_err();
    assert!(matches!(full, SettingsError::Account(AccountError::TooManyAccounts)), "{full}");
    wait(own.remove_account("ada")).unwrap();
    group.limit(wait(group.read()).unwrap().taken_bytes());
    let full = wait(group.merge(&shared(&own), Bringing::All)).unwrap_err();
    assert!(matches!(full, SettingsError::Full { .. }), "{full}");
    assert_eq!(kvs(&theirs), before);
    group.limit(GROUP_BYTES_MAX);
    assert!(merge(&mut group, &own, false).is_empty());
    assert!(records(&group, "hosts").is_some());
}

#[test]
fn the_settings_of_a_group_are_limited_by_themselves() {
    let theirs = store();
    let group = group(&theirs);
    // Each takes a power of two.
    put_policies(&theirs, 1, "ip=10.0.0.1");
    let large = vec![b' '; 60_000];
    let keys: Vec<String> = (0..48).map(|n| policy_key(&format!("q{n}"))).collect();
    for some in keys.chunks(16) {
        let all: Vec<_> = some.iter().map(|key| (key.as_str(), large.as_slice())).collect();
        put(&theirs, &all);
    }
    let full = wait(group.create_policy("one-more")).unwrap_err().to_string();
    assert!(full.contains("they take 3.0 MiB of 3.0 MiB"), "{full}");
}

#[test]
fn more_than_one_transaction_holds_is_added_as_well() {
    let dir = tempfile::tempdir().unwrap();
    let (ours, theirs) = (store(), store());
    put_policies(&ours, 2500, "ip=10.0.0.1");
    let mut own = own(&ours, dir.path());
    wait(own.add_user("al", &secret("hush-hush-hush"))).unwrap();
    let meddled = Meddled::with(&theirs, vec![Act::Nothing, Act::Nothing, Act::Lost]);
    let mut group = group(&meddled);
    let cut = wait(group.merge(&shared(&own), Bringing::All));
    assert!(matches!(cut, Err(SettingsError::Store(_))), "{cut:?}");
    assert!(shared(&group).users.contains_key("al"), "before policies, which may name users");
    assert!((1..2500).contains(&shared(&group).policies.len()));
    assert!(merge(&mut group, &own, false).is_empty());
    assert_eq!(bare(&group), bare(&own));
    assert!(!mirror(&mut own, &group));
}

/// Both looked at the group before either of them has added anything.
#[test]
fn of_two_that_come_at_the_same_instant_the_second_sees_what_the_first_has_added() {
    let dirs = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    let theirs = store();
    let [mut first, mut second] = [0, 1].map(|n: usize| own(&store(), dirs[n].path()));
    policy(&first, "of-first", &["ip=10.0.0.1"]);
    policy(&second, "of-second", &["ip=10.0.0.2"]);
    let at_once = |of_first: &Settings, of_second: &Settings| {
        let (come, mut earlier) = (shared(of_first), group(&theirs));
        let comes: Work = Box::new(move || {
            let merged = wait(earlier.merge(&come, Bringing::All)).expect("there is room");
            assert_eq!(merged, Merged::Made(Vec::new()));
        });
        merge(&mut group(&Meddled::with(&theirs, vec![Act::After(comes)])), of_second, false)
    };
    assert!(at_once(&first, &second).is_empty());
    let group = group(&theirs);
    for own in [&mut first, &mut second] {
        assert!(mirror(own, &group));
        assert!(records(own, "of-first").is_some() && records(own, "of-second").is_some());
    }
    policy(&first, "both", &["ip=10.0.0.1"]);
    policy(&second, "both", &["ip=10.0.0.2"]);
    wait(second.create_policy("alone")).unwrap();
    assert_eq!(at_once(&first, &second), ["policy 'both'"]);
    assert_eq!(records(&group, "both").unwrap(), ["ip=10.0.0.1 for=both"]);
    assert!(records(&group, "alone").is_none());
}

fn name() -> impl Strategy<Value = String> {
    "[ab]"
}

/// Users, policies and mutual CHAP, few of each, so that they meet.
fn settings_of() -> impl Strategy<Value = Batch> {
    let text = || (0..3_u8).prop_map(|n| format!("secret-number-{n}"));
    let users = prop::collection::btree_map(name(), text(), 0..3);
    let record = prop_oneof![
        name().prop_map(|user| format!("chap={user}")),
        (0..2_u8).prop_map(|host| format!("ip=10.0.0.{host}")),
    ];
    let records = prop::collection::vec(record, 0..3);
    let policies = prop::collection::btree_map(name(), records, 0..3);
    let mutual = prop::option::of(text());
    (users, policies, mutual).prop_map(|(users, policies, mutual)| {
        let secret = |text: String| Some(secret(&text));
        let is_there = |record: &&String| {
            record.strip_prefix("chap=").is_none_or(|user| users.contains_key(user))
        };
        let parsed = |records: Vec<String>| -> Option<Vec<Record>> {
            let records = records.iter().filter(is_there);
            Some(records.map(|record| record.parse().expect("a record")).collect())
        };
        let mutual = mutual.filter(|text| !users.values().any(|of_user| of_user == text));
        let set = |text: String| MutualChange::Set("disk".into(), secret(text).expect("one"));
        Batch {
            policies: policies.into_iter().map(|(name, all)| (name, parsed(all))).collect(),
            mutual: mutual.map(set),
            users: users.clone().into_iter().map(|(user, text)| (user, secret(text))).collect(),
            ..Batch::default()
        }
    })
}

/// Whether all that one has is in the other one, and is the same.
fn is_within(one: &Shared, other: &Shared) -> bool {
    one.keys().is_subset(&other.keys()) && other.conflicts_with(one).is_empty()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn a_merge_loses_nothing_on_either_side(
        mine in settings_of(),
        theirs in settings_of(),
        replace in any::<bool>(),
    ) {
        let dir = tempfile::tempdir().expect("a directory");
        let (mut own, mut group) = (own(&store(), dir.path()), group(&store()));
        wait(own.apply(&mine, 1)).expect("it can be");
        wait(group.apply(&theirs, 1)).expect("it can be");
        let (had, there) = (bare(&own), bare(&group));
        let conflicts = merge(&mut group, &own, replace);
        let now = bare(&group);
        prop_assert!(is_within(&there, &now), "the group has what it had");
        if !conflicts.is_empty() {
            prop_assert!(!replace && !is_within(&had, &now));
            prop_assert_eq!(&now, &there);
            return Ok(());
        }
        prop_assert!(replace || is_within(&had, &now), "and what the member had");
        for (_, record) in now.policies.values().flat_map(Policy::records) {
            let user = record.parts().chap.as_ref();
            prop_assert!(user.is_none_or(|user| now.users.contains_key(user)), "{}", record);
        }
        let mutual = now.mutual.as_ref().map(|(_, secret)| secret);
        prop_assert!(now.users.values().all(|secret| Some(secret) != mutual));
        mirror(&mut own, &group);
        prop_assert_eq!(bare(&own), now);
        prop_assert!(!mirror(&mut own, &group) && merge(&mut group, &own, false).is_empty());
    }
}

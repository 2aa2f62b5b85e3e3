//! Settings in a store: what is refused, what nobody else's change can break, and what lets nobody in.

use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use super::*;
use crate::access::Scope;
use crate::accounts::{Account, PasswordHash, Role, Token, TokenHash, TokenText};
use crate::schedules::{Plan, PlanChange, Schedule, ScheduledVolume, Step, Timing};
use crate::secrets::KeySource;
use crate::store::suite::wait;
use crate::store::{Embedded, LeaseId, Options, Outcome, Pending, Place, Revision, Watch};

fn store() -> Arc<dyn Store> {
    let clock = Arc::new(|| Duration::ZERO);
    Arc::new(Embedded::open(Place::Memory, clock, Options::default()).expect("it opens"))
}

fn settings(store: &Arc<dyn Store>, dir: &Path) -> Settings {
    let vault = Vault::open(KeySource::File(dir.join("key"))).expect("a key, or none yet");
    Settings::new(store.clone(), vault)
}

fn secret(text: &str) -> Secret {
    Secret::new(text.as_bytes().to_vec())
}

fn entry(text: &str) -> Entry {
    Entry::Record(text.parse().expect("a record"))
}

fn hosts(scope: Scope) -> Entry {
    Entry::Policy { name: "hosts".into(), scope }
}

/// The records of a volume, or `None` where the general rule holds.
fn records(settings: &Settings, volume: u32) -> Option<Vec<String>> {
    match wait(settings.read()).expect("they are read").rule(volume) {
        Rule::General => None,
        Rule::Records { records, .. } => Some(records.iter().map(ToString::to_string).collect()),
    }
}

#[test]
fn a_volume_with_a_list_is_for_those_on_it_until_the_list_is_cleared() {
    let dir = tempfile::tempdir().unwrap();
    let settings = settings(&store(), dir.path());
    assert_eq!(records(&settings, 7), None);
    assert!(wait(settings.read()).unwrap().is_empty());
    assert_eq!(wait(settings.add_access(7, entry("ip=10.0.0.1"))).unwrap(), 1);
    assert!(!wait(settings.read()).unwrap().is_empty());
    assert_eq!(wait(settings.add_access(7, entry("ip=10.0.0.2"))).unwrap(), 2);
    assert_eq!(records(&settings, 7).unwrap(), ["ip=10.0.0.1 for=both", "ip=10.0.0.2 for=both"]);
    assert_eq!(records(&settings, 8), None, "another volume has no list");
    wait(settings.remove_access(7, 1)).unwrap();
    wait(settings.remove_access(7, 2)).unwrap();
    assert_eq!(records(&settings, 7), Some(Vec::new()), "the last that goes opens nothing");
    let gone = wait(settings.remove_access(7, 2)).unwrap_err().to_string();
    assert_eq!(gone, "there is no number 2 on the list");
    wait(settings.clear_access(7)).unwrap();
    assert_eq!(records(&settings, 7), None);
    assert!(wait(settings.read()).unwrap().is_empty());
}

/// A store that counts how often anything beside single keys is read.
struct Counting(Arc<dyn Store>, AtomicUsize);

impl Store for Counting {
    fn range(&self, selection: Selection) -> Pending<'_, Range> {
        let is_of_many = !matches!(selection, Selection::Key(_));
        self.1.fetch_add(usize::from(is_of_many), Ordering::Relaxed);
        self.0.range(selection)
    }

    fn commit(&self, transaction: Transaction) -> Pending<'_, Outcome> {
        self.0.commit(transaction)
    }

    fn watch(&self, selection: Selection, from: Revision) -> Watch {
        self.0.watch(selection, from)
    }

    fn compact(&self, revision: Revision) -> Pending<'_, ()> {
        self.0.compact(revision)
    }

    fn grant(&self, ttl: Duration) -> Pending<'_, LeaseId> {
        self.0.grant(ttl)
    }

    fn keep_alive(&self, lease: LeaseId) -> Pending<'_, Duration> {
        self.0.keep_alive(lease)
    }

    fn revoke(&self, lease: LeaseId) -> Pending<'_, ()> {
        self.0.revoke(lease)
    }
}

/// A member makes a change, and then looks at what there is.
#[test]
fn a_change_reads_all_settings_once_and_what_others_change_is_seen() {
    let dir = tempfile::tempdir().unwrap();
    let counting = Arc::new(Counting(store(), AtomicUsize::new(0)));
    let store: Arc<dyn Store> = counting.clone();
    let reads = || counting.1.swap(0, Ordering::Relaxed);
    let (mut one, other) = (settings(&store, dir.path()), settings(&store, dir.path()));
    wait(one.read()).unwrap();
    let of_all = state::PREFIXES.len();
    assert_eq!(reads(), of_all);
    wait(one.add_access(7, entry("ip=10.0.0.1"))).unwrap();
    wait(one.read()).unwrap();
    assert_eq!(reads(), of_all);
    wait(one.add_user("al", &secret("hush-hush-hush"))).unwrap();
    wait(one.read()).unwrap();
    assert_eq!(reads(), of_all, "it is checked before its key is made, too");
    let batch = Batch { volumes: [(8, VolumeStep::default())].into(), ..Batch::default() };
    wait(one.apply(&batch, 1)).unwrap();
    assert_eq!(wait(one.read()).unwrap().volumes.len(), 2);
    assert_eq!(reads(), of_all);
    wait(one.read()).unwrap();
    assert_eq!(reads(), 0, "nothing has changed");

    wait(other.create_policy("hosts")).unwrap();
    wait(one.add_access(7, hosts(Scope::Both))).unwrap();
    wait(other.clear_access(7)).unwrap();
    wait(other.delete_policy("hosts")).unwrap();
    let refused = wait(one.add_access(7, hosts(Scope::Both))).unwrap_err();
    assert!(matches!(refused, SettingsError::NoSuchPolicy(_)), "{refused}");
    assert_eq!(records(&one, 7), None);
}

#[test]
fn settings_outlive_a_restart_and_those_of_volumes_that_are_purged_go() {
    let dir = tempfile::tempdir().unwrap();
    let store = store();
    let first = settings(&store, dir.path());
    for volume in 0..250 {
        wait(first.set_shared(volume, true)).unwrap();
    }
    drop(first);
    let second = settings(&store, dir.path());
    assert_eq!(wait(second.read()).unwrap().volumes.len(), 250);
    assert_eq!(wait(second.retain_volumes(|volume| volume == 3)).unwrap(), 249);
    let left = wait(second.read()).unwrap();
    assert_eq!(left.volumes.keys().collect::<Vec<_>>(), [&3]);
    assert!(left.volumes[&3].as_ref().unwrap().shared);
}

#[test]
fn what_records_name_must_be_there_and_stay() {
    let dir = tempfile::tempdir().unwrap();
    let mut settings = settings(&store(), dir.path());
    let said = |result: Result<u32, SettingsError>| result.unwrap_err().to_string();
    assert_eq!(said(wait(settings.add_access(1, entry("chap=al")))), "there is no CHAP user 'al'");
    assert_eq!(
        said(wait(settings.add_access(1, hosts(Scope::Both)))),
        "there is no policy 'hosts'"
    );
    assert_eq!(records(&settings, 1), None, "a refused change changes nothing");
    wait(settings.add_user("al", &secret("twelve-bytes-1"))).unwrap();
    wait(settings.create_policy("hosts")).unwrap();
    wait(settings.add_to_policy("hosts", "chap=al".parse().unwrap())).unwrap();
    wait(settings.add_access(1, hosts(Scope::Snapshot))).unwrap();
    assert_eq!(records(&settings, 1).unwrap(), ["chap=al for=snapshot"]);
    let used = wait(settings.delete_policy("hosts")).unwrap_err().to_string();
    assert!(used.contains("list of 1 volume:"), "{used}");
    let used = wait(settings.delete_user("al")).unwrap_err().to_string();
    assert!(used.contains("by policy 'hosts'"), "{used}");
    wait(settings.remove_access(1, 1)).unwrap();
    wait(settings.delete_policy("hosts")).unwrap();
    wait(settings.delete_user("al")).unwrap();
    assert!(matches!(wait(settings.delete_user("al")), Err(SettingsError::NoSuchUser(_))));
}

#[test]
fn what_is_there_twice_or_cannot_be_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let mut settings = settings(&store(), dir.path());
    let good = secret("twelve-bytes-1");
    let said = |result: Result<(), SettingsError>| result.unwrap_err().to_string();
    assert!(said(wait(settings.set_user("al", &good))).contains("no CHAP user"));
    assert!(said(wait(settings.add_user("al", &secret("short")))).contains("at least 12 bytes"));
    assert!(said(wait(settings.add_user("two words", &good))).contains("without blanks"));
    assert!(!dir.path().join("key").exists(), "no key is made for what is refused");
    wait(settings.add_user("al", &good)).unwrap();
    assert!(said(wait(settings.add_user("al", &good))).contains("already"));
    assert!(said(wait(settings.set_mutual("disk", &good))).contains("must differ"));
    wait(settings.set_mutual("disk", &secret("another-secret"))).unwrap();
    assert!(said(wait(settings.set_user("al", &secret("another-secret")))).contains("must differ"));
    wait(settings.clear_mutual()).unwrap();
    wait(settings.set_user("al", &secret("another-secret"))).unwrap();
    wait(settings.create_policy("hosts")).unwrap();
    assert!(said(wait(settings.create_policy("hosts"))).contains("already"));
    assert!(said(wait(settings.create_policy("a/b"))).contains("cannot be the name"));
}

#[test]
fn refusals_count_in_words_and_name_no_empty_list() {
    let of_user = |volumes, policies: &[&str]| {
        let policies = policies.iter().map(ToString::to_string).collect();
        SettingsError::UserInUse { user: "al".into(), volumes, policies }.to_string()
    };
    let of_policy = |volumes| SettingsError::PolicyInUse { name: "a".into(), volumes }.to_string();
    assert_eq!(
        of_user(1, &[]),
        "CHAP user 'al' is named by the access list of 1 volume: remove those records first"
    );
    let both = "CHAP user 'al' is named by the access lists of 2 volumes and policy 'a': remove those records first";
    assert_eq!(of_user(2, &["a"]), both);
    let policies = "CHAP user 'al' is named by the policies 'a', 'b': remove those records first";
    assert_eq!(of_user(0, &["a", "b"]), policies);
    assert_eq!(of_policy(1), "policy 'a' is on the access list of 1 volume: remove it there first");
    assert_eq!(
        of_policy(2),
        "policy 'a' is on the access lists of 2 volumes: remove it there first"
    );
}

#[test]
fn without_the_key_secrets_are_missing_and_nothing_else() {
    let dir = tempfile::tempdir().unwrap();
    let store = store();
    let mut first = settings(&store, dir.path());
    wait(first.add_user("al", &secret("twelve-bytes-1"))).unwrap();
    wait(first.set_mutual("disk", &secret("twelve-bytes-2"))).unwrap();
    wait(first.add_access(1, entry("chap=al"))).unwrap();
    let known = wait(first.read()).unwrap().secrets(first.vault());
    assert_eq!((known.users.len(), known.missing.len()), (1, 0));
    assert_eq!(known.mutual.unwrap().user(), "disk");
    std::fs::remove_file(dir.path().join("key")).unwrap();
    let mut moved = settings(&store, dir.path());
    let state = wait(moved.read()).unwrap();
    let known = state.secrets(moved.vault());
    assert!(known.users.is_empty() && known.mutual.is_none());
    assert_eq!(known.missing.len(), 2);
    assert_eq!(records(&moved, 1).unwrap(), ["chap=al for=both"], "al is still asked for");
    wait(moved.set_user("al", &secret("twelve-bytes-3"))).unwrap();
    let known = wait(moved.read()).unwrap().secrets(moved.vault());
    assert_eq!((known.users.len(), known.missing.len()), (1, 1));
}

#[test]
fn what_cannot_be_read_lets_nobody_in_and_is_not_written_over() {
    let dir = tempfile::tempdir().unwrap();
    let store = store();
    let mut settings = settings(&store, dir.path());
    wait(settings.create_policy("good")).unwrap();
    let later = br#"{"version":9,"value":{}}"#;
    let put = ["volumes/00000005", "policies/hosts", "chap/users/al", "chap/mutual"];
    let ops = put.map(|key| Op::put(key, &later[..])).to_vec();
    wait(store.commit(Transaction::always(ops))).unwrap();
    let state = wait(settings.read()).unwrap();
    assert_eq!(state.rule(5), Rule::Records { records: Vec::new(), shared: false });
    assert_eq!(state.unreadable.len(), 3);
    let kept = |result: Result<(), SettingsError>| match result {
        Err(SettingsError::Unreadable(why)) => assert!(why.contains("version 9"), "{why}"),
        other => panic!("{other:?}"),
    };
    kept(wait(settings.set_shared(5, true)));
    kept(wait(settings.create_policy("hosts")));
    kept(wait(settings.delete_policy("hosts")));
    let there = wait(settings.add_user("al", &secret("twelve-bytes-1")));
    assert!(matches!(there, Err(SettingsError::UserExists(_))));
    wait(settings.set_user("al", &secret("twelve-bytes-1"))).unwrap();
}

fn account(role: Role) -> Account {
    let password = PasswordHash::of_nobody().expect("it is hashed");
    Account { role, password, disabled: false, created_unix_seconds: 1 }
}

#[test]
fn accounts_and_tokens_come_change_and_go() {
    let dir = tempfile::tempdir().unwrap();
    let store = store();
    let settings = settings(&store, dir.path());
    let said = |result: Result<(), SettingsError>| result.unwrap_err().to_string();
    let ada = account(Role::Operator);
    assert!(said(wait(settings.add_account("a:b", ada.clone()))).contains("cannot be the name"));
    wait(settings.add_account("ada", ada.clone())).unwrap();
    assert!(!wait(settings.read()).unwrap().is_empty());
    assert!(said(wait(settings.add_account("ada", ada.clone()))).contains("already"));
    let lower = AccountChange { role: Some(Role::ReadOnly), disabled: Some(true), password: None };
    wait(settings.set_account("ada", lower.clone())).unwrap();
    assert!(said(wait(settings.set_account("bob", lower))).contains("no account 'bob'"));
    let text = TokenText::draw().unwrap();
    let token = Token {
        role: Role::ReadOnly,
        hash: TokenHash::of(text.as_str()),
        created_unix_seconds: 5,
        expires_unix_seconds: None,
        used_unix_seconds: None,
    };
    let late = Token { expires_unix_seconds: Some(5), ..token.clone() };
    assert!(said(wait(settings.add_token("ci", late))).contains("would have expired"));
    wait(settings.add_token("ci", token.clone())).unwrap();
    assert!(said(wait(settings.add_token("ci", token.clone()))).contains("revoke it first"));
    wait(settings.note_use("ci", 7)).unwrap();
    wait(settings.note_use("gone", 7)).unwrap();
    let logins = wait(settings.read()).unwrap().logins.clone();
    let lowered = Account { role: Role::ReadOnly, disabled: true, ..ada };
    assert_eq!(logins.accounts, [("ada".to_owned(), lowered)].into());
    let used = Token { used_unix_seconds: Some(7), ..token };
    assert_eq!(logins.tokens, [("ci".to_owned(), used)].into());
    wait(settings.remove_account("ada")).unwrap();
    wait(settings.revoke_token("ci")).unwrap();
    wait(settings.add_account("ada", account(Role::Operator))).unwrap();
    let again = wait(settings.read()).unwrap().logins.clone();
    assert!(again.accounts_written["ada"].made > logins.accounts_written["ada"].changed);
    wait(settings.remove_account("ada")).unwrap();
    assert!(said(wait(settings.remove_account("ada"))).contains("no account"));
    assert!(said(wait(settings.revoke_token("ci"))).contains("no token"));
    assert!(wait(settings.read()).unwrap().is_empty());
}

#[test]
fn who_cannot_be_read_does_not_get_in_and_can_be_removed() {
    let dir = tempfile::tempdir().unwrap();
    let store = store();
    let settings = settings(&store, dir.path());
    // Of a later version, and with a field that may mean less than it says here.
    let more = account(Role::Administrator).encode();
    let more = String::from_utf8(more).unwrap().replace("\"disabled\"", "\"only_on_mondays\"");
    let ops = vec![
        Op::put("accounts/ada", more.as_bytes()),
        Op::put("tokens/ci", &br#"{"version":9,"value":{}}"#[..]),
    ];
    wait(store.commit(Transaction::always(ops))).unwrap();
    let state = wait(settings.read()).unwrap();
    assert!(state.logins.is_empty() && !state.is_empty() && state.unreadable.len() == 2);
    let there = wait(settings.add_account("ada", account(Role::ReadOnly)));
    assert!(matches!(there, Err(SettingsError::Account(AccountError::AccountExists(_)))));
    let kept = wait(settings.set_account("ada", AccountChange::default()));
    assert!(matches!(kept, Err(SettingsError::Unreadable(_))), "{kept:?}");
    wait(settings.remove_account("ada")).unwrap();
    wait(settings.revoke_token("ci")).unwrap();
    assert!(wait(settings.read()).unwrap().is_empty());
}

/// A record that names a user and the end of that user cannot both come true.
#[test]
fn changes_at_the_same_time_do_not_undo_each_other() {
    let dir = tempfile::tempdir().unwrap();
    let store = store();
    wait(settings(&store, dir.path()).add_user("al", &secret("twelve-bytes-1"))).unwrap();
    let insist = |change: &dyn Fn() -> Result<(), SettingsError>| {
        while let Err(error) = change() {
            assert!(matches!(error, SettingsError::Contended), "{error}");
        }
    };
    std::thread::scope(|scope| {
        for writer in 0..4 {
            let settings = settings(&store, dir.path());
            scope.spawn(move || {
                for turn in 0..4 {
                    let text = format!("chap=al ip=10.0.{writer}.{turn}");
                    insist(&|| wait(settings.add_access(1, entry(&text))).map(drop));
                }
            });
        }
        let settings = settings(&store, dir.path());
        scope.spawn(move || {
            while records(&settings, 1).is_none() {}
            for _ in 0..10 {
                let refused = wait(settings.delete_user("al"));
                let is_kept = matches!(
                    refused,
                    Err(SettingsError::UserInUse { .. } | SettingsError::Contended)
                );
                assert!(is_kept, "{refused:?}");
            }
        });
    });
    let settings = settings(&store, dir.path());
    assert_eq!(records(&settings, 1).unwrap().len(), 16);
    let full = wait(settings.add_access(1, entry("ip=10.9.9.9"))).unwrap_err().to_string();
    assert!(full.contains("16 already"), "{full}");
}

#[test]
fn schedules_are_kept_with_what_came_of_them() {
    let dir = tempfile::tempdir().unwrap();
    let store = store();
    let settings = settings(&store, dir.path());
    let volumes = vec![ScheduledVolume { id: 7, name: "vm".into() }];
    let timing = Timing::Every { seconds: 3600 };
    let plan = Plan { volumes, timing, keep: 2, paused: false };
    wait(settings.add_schedule("hourly", Schedule::new(plan.clone(), 100))).unwrap();
    let again = wait(settings.add_schedule("hourly", Schedule::new(plan.clone(), 100)));
    assert!(again.unwrap_err().to_string().starts_with("there is a schedule 'hourly' already"));
    let none = wait(settings.add_schedule("x", Schedule::new(Plan { keep: 0, ..plan }, 100)));
    assert!(none.is_err());
    wait(settings.step_schedule("hourly", Step::Miss { planned: 3600 })).unwrap();
    let paused = PlanChange { paused: Some(true), ..PlanChange::default() };
    wait(settings.change_schedule("hourly", paused, 3700)).unwrap();
    let state = wait(settings.read()).unwrap();
    assert!(!state.is_empty());
    let read = &state.schedules["hourly"];
    assert!(read.plan.paused && read.last().is_some(), "{read:?}");

    let later = br#"{"version":2,"value":{}}"#.to_vec();
    let write = Transaction::when(vec![], vec![Op::put("schedules/hourly", later)]);
    wait(store.commit(write)).unwrap();
    let unread = wait(settings.step_schedule("hourly", Step::Miss { planned: 7200 }));
    assert!(unread.unwrap_err().to_string().contains("was stored in version 2"));
    wait(settings.delete_schedule("hourly")).unwrap();
    assert!(wait(settings.read()).unwrap().is_empty());
    let gone = wait(settings.delete_schedule("hourly")).unwrap_err().to_string();
    assert_eq!(gone, "there is no schedule 'hourly'");
}

#[test]
fn a_batch_is_parted_into_what_members_share_and_what_one_has() {
    let mut batch = Batch::default();
    assert!(batch.is_empty());
    batch.volumes.insert(7, VolumeStep::default());
    batch.made.push("vm1".into());
    batch.policies.insert("comes".into(), Some(vec!["ip=10.0.0.1".parse().unwrap()]));
    batch.policies.insert("goes".into(), None);
    batch.users.insert("comes".into(), Some(secret("twelve-bytes-1")));
    batch.users.insert("goes".into(), None);
    batch.mutual = Some(MutualChange::Clear);
    batch.accounts.push(("ada".into(), AccountStep::Remove));
    batch.schedules.push(("hourly".into(), ScheduleStep::Delete));
    batch.destinations.push(("ops".into(), DestinationStep::Delete));
    assert!(!batch.is_empty());

    let (of_group, of_member) = (batch.of_group(), batch.of_member());
    assert!(of_group.of_member().is_empty() && of_member.of_group().is_empty());
    assert_eq!((of_member.volumes.len(), of_member.schedules.len()), (1, 1));
    assert_eq!(of_member.made, ["vm1"]);
    assert_eq!((of_group.policies.len(), of_group.users.len()), (2, 2));
    assert!(of_group.mutual.is_some());
    assert_eq!((of_group.accounts.len(), of_group.destinations.len()), (1, 1));
}

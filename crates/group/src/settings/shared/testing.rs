//! The stores of a member and of its group, what is set in them, and what can happen between two of their answers.

use std::collections::VecDeque;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::FutureExt;

use super::*;
use crate::accounts::{PasswordHash, Role, TokenHash};
use crate::destinations::{Choice, Severity, Way, Webhook};
use crate::record::Setting;
use crate::secrets::{Key, KeySource};
use crate::store::suite::wait;
use crate::store::{
    Embedded, KeyValue, LeaseId, Op, Options, Outcome, Pending, Place, Range, Selection, Store,
    StoreError, Transaction, Watch,
};

/// What is there in a version that nobody knows yet.
pub(in crate::settings) const LATER: &[u8] = br#"{"version":9,"value":{}}"#;

pub(in crate::settings) fn store() -> Arc<dyn Store> {
    let clock = Arc::new(|| Duration::ZERO);
    Arc::new(Embedded::open(Place::Memory, clock, Options::default()).expect("it opens"))
}

/// A member's own settings, whose key lies in this directory.
pub(in crate::settings) fn own(store: &Arc<dyn Store>, dir: &Path) -> Settings {
    let vault = Vault::open(KeySource::File(dir.join("key"))).expect("a key, or none yet");
    Settings::new(store.clone(), vault)
}

/// The settings of a group, as each of its members opens them.
pub(in crate::settings) fn group(store: &Arc<dyn Store>) -> Settings {
    Settings::of_group(store.clone(), Key::derived("test", b"authority"))
}

pub(in crate::settings) fn shared(settings: &Settings) -> Shared {
    wait(settings.shared()).expect("it is read")
}

/// Without what each store and each member counts for itself.
pub(in crate::settings) fn bare(settings: &Settings) -> Shared {
    let mut bare = Shared { read_at: 0, changed: 0, named: Named::default(), ..shared(settings) };
    bare.destinations.values_mut().for_each(|destination| destination.begins_after = 0);
    bare
}

/// All that a store holds, with its revisions.
pub(in crate::settings) fn kvs(store: &Arc<dyn Store>) -> Vec<KeyValue> {
    wait(store.range(Selection::prefix(""))).expect("it is read").kvs
}

/// Puts these as they are.
pub(in crate::settings) fn put(store: &Arc<dyn Store>, all: &[(&str, &[u8])]) {
    let ops = all.iter().map(|(key, value)| Op::put(*key, *value)).collect();
    wait(store.commit(Transaction::always(ops))).expect("it is put");
}

pub(in crate::settings) fn secret(text: &str) -> Secret {
    Secret::new(text.as_bytes().to_vec())
}

pub(in crate::settings) fn account(role: Role) -> Account {
    let password = PasswordHash::of_nobody().expect("it is hashed");
    Account { role, password, disabled: false, created_unix_seconds: 1 }
}

pub(in crate::settings) fn token(text: &str) -> Token {
    Token {
        role: Role::Operator,
        hash: TokenHash::of(text),
        created_unix_seconds: 5,
        expires_unix_seconds: None,
        used_unix_seconds: None,
    }
}

pub(in crate::settings) fn destination(id: u64, begins_after: u64) -> Destination<Secret> {
    let url = "https://h.example.com/x".parse().expect("a URL");
    let secret = Some(secret("sign-sign"));
    let way = Way::Webhook(Webhook { url, roots: None, secret, token: None });
    let choice = Choice { severity: Severity::Warning, fold_seconds: 300, paused: false };
    Destination { id, begins_after, choice, way }
}

/// Makes a policy of these records.
pub(in crate::settings) fn policy(settings: &Settings, name: &str, records: &[&str]) {
    wait(settings.create_policy(name)).expect("it is new");
    for record in records {
        let record = record.parse().expect("a record");
        wait(settings.add_to_policy(name, record)).expect("it is added");
    }
}

/// The records of a policy; `None` if it is not there.
pub(in crate::settings) fn records(settings: &Settings, name: &str) -> Option<Vec<String>> {
    let shared = shared(settings);
    let policy = shared.policies.get(name)?;
    Some(policy.records().map(|(_, record)| record.to_string()).collect())
}

/// Sets one of each kind.
pub(in crate::settings) fn fill(settings: &mut Settings) {
    wait(settings.add_user("al", &secret("hush-hush-hush"))).expect("a user");
    wait(settings.set_mutual("disk", &secret("another-secret"))).expect("mutual CHAP");
    policy(settings, "hosts", &["chap=al", "ip=10.0.0.1"]);
    wait(settings.add_account("ada", account(Role::Operator))).expect("an account");
    wait(settings.add_token("ci", token("ci"))).expect("a token");
    wait(settings.add_destination("ops", destination(7, 3))).expect("a destination");
}

pub(in crate::settings) type Work = Box<dyn FnOnce() + Send>;

/// What happens to one commit.
pub(in crate::settings) enum Act {
    /// Nothing.
    Nothing,
    /// Somebody does this right before it.
    After(Work),
    /// It is not made.
    Lost,
}

/// Done before each read.
type OnRead = Box<dyn Fn() + Send + Sync>;

/// A store that others use too and that can fail.
pub(in crate::settings) struct Meddled {
    store: Arc<dyn Store>,
    acts: Mutex<VecDeque<Act>>,
    on_read: OnRead,
}

impl Meddled {
    /// Before this store; these happen to its next commits, one to each.
    pub(in crate::settings) fn with(store: &Arc<dyn Store>, acts: Vec<Act>) -> Arc<dyn Store> {
        Arc::new(Self {
            store: store.clone(),
            acts: Mutex::new(acts.into()),
            on_read: Box::new(|| {}),
        })
    }

    /// Before this store; somebody does this before each read.
    pub(in crate::settings) fn reading(store: &Arc<dyn Store>, on_read: OnRead) -> Arc<dyn Store> {
        Arc::new(Self { store: store.clone(), acts: Mutex::default(), on_read })
    }
}

impl Store for Meddled {
    fn range(&self, selection: Selection) -> Pending<'_, Range> {
        (self.on_read)();
        self.store.range(selection)
    }

    fn commit(&self, transaction: Transaction) -> Pending<'_, Outcome> {
        let act = self.acts.lock().expect("nobody panics with it").pop_front();
        match act {
            None | Some(Act::Nothing) => self.store.commit(transaction),
            Some(Act::After(work)) => async move {
                work();
                self.store.commit(transaction).await
            }
            .boxed(),
            Some(Act::Lost) => async { Err(StoreError::failed("it was cut off")) }.boxed(),
        }
    }

    fn watch(&self, selection: Selection, from: Revision) -> Watch {
        self.store.watch(selection, from)
    }

    fn compact(&self, revision: Revision) -> Pending<'_, ()> {
        self.store.compact(revision)
    }

    fn grant(&self, ttl: Duration) -> Pending<'_, LeaseId> {
        self.store.grant(ttl)
    }

    fn keep_alive(&self, lease: LeaseId) -> Pending<'_, Duration> {
        self.store.keep_alive(lease)
    }

    fn revoke(&self, lease: LeaseId) -> Pending<'_, ()> {
        self.store.revoke(lease)
    }
}

/// So many policies of this record, written past all checks.
pub(in crate::settings) fn put_policies(store: &Arc<dyn Store>, count: usize, record: &str) {
    let mut policy = crate::access::Policy::default();
    policy.add(record.parse().expect("a record")).expect("there is room");
    let value = policy.encode();
    let keys: Vec<String> = (0..count).map(|number| policy_key(&format!("p{number:05}"))).collect();
    for some in keys.chunks(1000) {
        let all: Vec<_> = some.iter().map(|key| (key.as_str(), value.as_slice())).collect();
        put(store, &all);
    }
}

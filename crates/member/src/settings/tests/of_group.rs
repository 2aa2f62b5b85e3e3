//! Settings that the members of a group have in common: two members beside a store that stands in for the group's.

use std::io;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, Mutex};
use std::time::Duration;

use group::access::{Parts, Scope};
use group::membership::GroupId;
use group::pki::Authority;
use group::secrets::Key;
use group::settings::{Bringing, ListChange, Merged};
use group::store::{
    Embedded, LeaseId, Options, Outcome, Pending, Place, Range, Revision, Selection, Store,
    Transaction, Watch,
};

use super::*;
use crate::access_request::PolicyRequest;
use crate::configuration_request::{
    ConfigurationChange, ConfigurationRequest, VolumeChange, VolumeSet,
};
use crate::login_request::TokenRequest;
use crate::running::tests::wait_until;

/// How the store of a group behaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum How {
    Answers,
    /// It answers nothing.
    Silent,
    /// It answers what it has, and not to changes.
    SilentToChanges,
    /// It begins the next change when it is let.
    HoldsNext,
    /// It has one to begin.
    Holds,
}

struct GroupStore {
    inner: Embedded,
    how: Mutex<How>,
    is_let: Condvar,
}

fn silent() -> StoreError {
    io::Error::other("its cable is out").into()
}

impl GroupStore {
    fn is(&self, how: How) {
        *self.how.lock().unwrap() = how;
        self.is_let.notify_all();
    }

    fn holds(&self) -> bool {
        *self.how.lock().unwrap() == How::Holds
    }
}

impl Store for GroupStore {
    fn range(&self, selection: Selection) -> Pending<'_, Range> {
        match *self.how.lock().unwrap() {
            How::Silent => Box::pin(std::future::ready(Err(silent()))),
            _ => self.inner.range(selection),
        }
    }

    fn commit(&self, transaction: Transaction) -> Pending<'_, Outcome> {
        let mut how = self.how.lock().unwrap();
        if *how == How::HoldsNext {
            *how = How::Holds;
        }
        while *how == How::Holds {
            how = self.is_let.wait(how).unwrap();
        }
        match *how {
            How::Silent | How::SilentToChanges => Box::pin(std::future::ready(Err(silent()))),
            _ => self.inner.commit(transaction),
        }
    }

    fn watch(&self, selection: Selection, from: Revision) -> Watch {
        self.inner.watch(selection, from)
    }

    fn compact(&self, revision: Revision) -> Pending<'_, ()> {
        self.inner.compact(revision)
    }

    fn grant(&self, ttl: Duration) -> Pending<'_, LeaseId> {
        self.inner.grant(ttl)
    }

    fn keep_alive(&self, lease: LeaseId) -> Pending<'_, Duration> {
        self.inner.keep_alive(lease)
    }

    fn revoke(&self, lease: LeaseId) -> Pending<'_, ()> {
        self.inner.revoke(lease)
    }
}

impl MemberSettings {
    /// As the member does it in its group.
    async fn share(
        &self,
        (store, key): (Arc<dyn Store>, Key),
        replace: bool,
    ) -> Result<Vec<String>, KeptError> {
        let group = self.group_settings(store, key);
        let bringing = if replace { Bringing::InUse } else { Bringing::All };
        match self.join_group(&group, bringing).await? {
            Merged::Differs(differ) => Ok(differ.iter().map(ToString::to_string).collect()),
            Merged::Made(_) => {
                self.follow(group.clone());
                self.take_over(&group).await?;
                Ok(Vec::new())
            }
        }
    }

    fn group(&self) -> Rc<GroupSettings> {
        match &*self.whose.borrow() {
            Whose::Group(group) => group.clone(),
            other => panic!("{other:?}"),
        }
    }
}

/// A group with a store and a key of secrets.
struct Group {
    store: Arc<GroupStore>,
    key: Key,
}

impl Group {
    fn new() -> Self {
        let clock = Arc::new(|| Duration::ZERO);
        let inner = Embedded::open(Place::Memory, clock, Options::default()).expect("it opens");
        let (how, is_let) = (Mutex::new(How::Answers), Condvar::new());
        let id: GroupId = "0123456789abcdef0123456789abcdef".parse().expect("an identity");
        let key = Authority::make(&id).expect("an authority").settings_key();
        Self { store: Arc::new(GroupStore { inner, how, is_let }), key }
    }

    fn of_member(&self) -> (Arc<dyn Store>, Key) {
        (self.store.clone(), self.key.clone())
    }

    /// Has a member share its settings. Says what differs.
    fn join(&self, rig: &Rig, replace: bool) -> Vec<String> {
        let group = self.of_member();
        rig.with(async move |member| {
            let shared = member.settings().share(group, replace).await;
            shared.map_err(|error| error.to_string())
        })
        .expect("the store answers")
    }
}

/// A member hears of a change.
fn hear(rig: &Rig) {
    rig.with(async |member| {
        let settings = member.settings();
        let heard = settings.take_over(&settings.group()).await;
        heard.map(drop).map_err(|error| error.to_string())
    })
    .expect("it is taken over");
}

/// Two members, with disks and data directories of their own.
fn two(dir: &Path) -> [Rig; 2] {
    ["left", "right"].map(|name| {
        let home = dir.join(name);
        Rig::start(&home, &home.join("data"))
    })
}

fn stop(rigs: [Rig; 2]) {
    rigs.into_iter().for_each(Rig::stop);
}

fn ask(rig: &Rig, request: PolicyRequest) -> Result<(), String> {
    rig.ask(Request::Policy(request)).map(drop).map_err(|error| error.to_string())
}

fn create(rig: &Rig, name: &str) -> Result<(), String> {
    ask(rig, PolicyRequest::Create { name: name.to_owned() })
}

fn delete(rig: &Rig, name: &str) -> Result<(), String> {
    ask(rig, PolicyRequest::Delete { name: name.to_owned() })
}

fn add(rig: &Rig, name: &str, host: &str) -> Result<(), String> {
    let record = Parts { iqn: Some(format!("iqn.2026-11.a:{host}")), ..Parts::default() };
    ask(rig, PolicyRequest::Add { name: name.to_owned(), record })
}

/// The policies of a member, each with how many records it has.
fn policies(rig: &Rig) -> Vec<(String, usize)> {
    match rig.ask(Request::Policy(PolicyRequest::List)) {
        Ok(Answer::Policies(all)) => {
            all.into_iter().map(|policy| (policy.name, policy.records.len())).collect()
        }
        other => panic!("{other:?}"),
    }
}

fn named(all: &[(&str, usize)]) -> Vec<(String, usize)> {
    all.iter().map(|(name, records)| ((*name).to_owned(), *records)).collect()
}

fn add_user(rig: &Rig, user: &str, secret: &str) -> Result<(), String> {
    let (user, secret) = (user.to_owned(), SecretText(secret.to_owned()));
    let added = rig.ask(Request::Chap(ChapRequest::Add { user, secret }));
    added.map(drop).map_err(|error| error.to_string())
}

/// The users whose secrets are known, with these.
fn users(rig: &Rig) -> Vec<Credentials> {
    rig.with(async |member| member.settings().known().users.clone())
}

fn entry(policy: &str) -> Entry {
    Entry::Policy { name: policy.to_owned(), scope: Scope::Both }
}

fn list(rig: &Rig, volume: &str, policy: &str) -> Result<(), String> {
    let add = AccessRequest::Add { volume: volume.to_owned(), entry: entry(policy) };
    rig.ask(Request::Access(add)).map(drop).map_err(|error| error.to_string())
}

#[test]
fn what_a_member_had_before_is_in_the_group_and_stays_here() {
    let dir = tempfile::tempdir().unwrap();
    let ([left, right], group) = (two(dir.path()), Group::new());
    create(&left, "esx").unwrap();
    add_user(&left, "al", "hush-hush-hush").unwrap();
    create(&right, "hyperv").unwrap();
    right.create("vm");
    list(&right, "vm", "hyperv").unwrap();
    assert_eq!(group.join(&left, false), [""; 0]);
    assert_eq!(group.join(&right, false), [""; 0]);
    let both = named(&[("esx", 0), ("hyperv", 0)]);
    assert_eq!(policies(&right), both, "its own stay, and the group's come");
    hear(&left);
    assert_eq!(policies(&left), both);
    assert!(users(&left) == users(&right) && users(&left).len() == 1, "with its secret");
    // What is there already is not stored again, so that nobody's logins end for it.
    let revision = |rig: &Rig| rig.with(async |member| member.settings().state().unwrap().revision);
    let before = revision(&right);
    hear(&right);
    assert_eq!(revision(&right), before);
    stop([left, right]);
}

#[test]
fn a_change_on_one_member_is_in_force_there_when_it_is_answered_and_comes_to_the_others() {
    let dir = tempfile::tempdir().unwrap();
    let ([left, right], group) = (two(dir.path()), Group::new());
    for rig in [&left, &right] {
        assert_eq!(group.join(rig, false), [""; 0]);
    }
    create(&left, "esx").unwrap();
    add(&left, "esx", "a").unwrap();
    assert_eq!(policies(&left), named(&[("esx", 1)]));
    assert_eq!(policies(&right), named(&[]), "it has not heard of it");
    hear(&right);
    assert_eq!(policies(&right), named(&[("esx", 1)]));
    // One that has not heard of a change decides on what the group has.
    delete(&right, "esx").unwrap();
    assert_eq!(add(&left, "esx", "b").unwrap_err(), "there is no policy 'esx'");
    create(&left, "esx").unwrap();
    add_user(&right, "al", "hush-hush-hush").unwrap();
    let (user, secret) = ("disk".to_owned(), SecretText("hush-hush-hush".to_owned()));
    let mutual = left.ask(Request::Chap(ChapRequest::SetMutual { user, secret }));
    assert!(mutual.is_err(), "one secret for both directions, set on two members");
    hear(&left);
    assert!(users(&left) == users(&right) && users(&left).len() == 1);
    stop([left, right]);
}

#[test]
fn settings_that_differ_stay_a_members_own_until_they_are_the_same_or_given_up() {
    let dir = tempfile::tempdir().unwrap();
    let ([left, right], group) = (two(dir.path()), Group::new());
    create(&left, "esx").unwrap();
    assert_eq!(group.join(&left, false), [""; 0]);
    create(&right, "esx").unwrap();
    add(&right, "esx", "a").unwrap();
    create(&right, "hyperv").unwrap();
    right.create("vm");
    list(&right, "vm", "hyperv").unwrap();
    assert_eq!(group.join(&right, false), ["policy 'esx'"]);
    // Nothing has come of it: not here, and not there.
    assert_eq!(policies(&right), named(&[("esx", 1), ("hyperv", 0)]));
    hear(&left);
    assert_eq!(policies(&left), named(&[("esx", 0)]));
    add(&right, "esx", "b").expect("its own are changed as before");
    hear(&left);
    assert_eq!(policies(&left), named(&[("esx", 0)]), "and nobody else's");
    assert_eq!(group.join(&right, true), [""; 0]);
    assert_eq!(policies(&right), named(&[("esx", 0), ("hyperv", 0)]), "the group's stays");
    stop([left, right]);
}

/// Members may be without the store for long: hosts must not notice, and nothing may be set on one alone.
#[test]
fn while_the_store_is_away_nothing_that_is_shared_is_changed_and_all_else_is() {
    let dir = tempfile::tempdir().unwrap();
    let ([left, right], group) = (two(dir.path()), Group::new());
    left.create("vm");
    for rig in [&left, &right] {
        group.join(rig, false);
    }
    create(&left, "esx").unwrap();
    group.store.is(How::Silent);
    let refused = create(&left, "hyperv").unwrap_err();
    assert!(
        refused.starts_with("nothing was changed, as this is set for all members"),
        "{refused}"
    );
    assert!(refused.contains("its cable is out"), "{refused}");
    assert_eq!(policies(&left), named(&[("esx", 0)]));
    list(&left, "vm", "esx").expect("lists of volumes are its own");
    let used = TokenRequest::Used { name: "ci".to_owned() };
    left.ask(Request::Token(used)).expect("who uses a token does not hear of it");
    let heard = left.with(async |member| {
        let settings = member.settings();
        settings.take_over(&settings.group()).await.map_err(|error| error.to_string())
    });
    assert!(heard.unwrap_err().contains("its cable is out"));
    assert_eq!(policies(&left), named(&[("esx", 0)]), "what was heard last holds");

    group.store.is(How::SilentToChanges);
    let unknown = create(&left, "hyperv").unwrap_err();
    assert!(unknown.starts_with("it is not known whether the change was made"), "{unknown}");
    group.store.is(How::Answers);
    create(&left, "hyperv").unwrap();
    hear(&right);
    assert_eq!(policies(&right), named(&[("esx", 0), ("hyperv", 0)]));
    stop([left, right]);
}

#[test]
fn a_member_that_leaves_keeps_what_it_has_and_sets_its_own() {
    let dir = tempfile::tempdir().unwrap();
    let ([left, right], group) = (two(dir.path()), Group::new());
    for rig in [&left, &right] {
        group.join(rig, false);
    }
    create(&left, "esx").unwrap();
    add_user(&left, "al", "hush-hush-hush").unwrap();
    hear(&right);
    right.with(async |member| {
        let settings = member.settings();
        settings.leave_group(&settings.group());
    });
    create(&right, "hyperv").unwrap();
    assert_eq!(policies(&right), named(&[("esx", 0), ("hyperv", 0)]));
    hear(&left);
    assert_eq!(policies(&left), named(&[("esx", 0)]));
    // Its secrets are sealed by its own key, which is all that its next start has.
    right.stop();
    let home = dir.path().join("right");
    let right = Rig::start(&home, &home.join("data"));
    assert!(users(&right) == users(&left) && users(&left).len() == 1);
    right.with(async |member| member.settings().knows_no_group("it does not read".to_owned()));
    let refused = create(&right, "xen").unwrap_err();
    assert!(refused.ends_with("group: it does not read"), "{refused}");
    stop([left, right]);
}

/// After a crash in between the member has settings of its own: nothing of it may be the group's alone.
#[test]
fn nothing_is_changed_before_it_is_written_down_that_a_member_shares() {
    async fn join(
        settings: &MemberSettings,
        (store, key): (Arc<dyn Store>, Key),
    ) -> Result<Merged, String> {
        let group = settings.group_settings(store, key);
        let merged = settings.join_group(&group, Bringing::All).await;
        merged.map_err(|error| error.to_string())
    }
    let dir = tempfile::tempdir().unwrap();
    let ([left, right], group) = (two(dir.path()), Group::new());
    create(&right, "hyperv").unwrap();
    let of_group = group.of_member();
    let joined = right.with(async move |member| join(member.settings(), of_group).await);
    assert_eq!(joined, Ok(Merged::Made(Vec::new())));
    let refused = create(&right, "xen").unwrap_err();
    assert!(refused.ends_with("is about to share its settings with the group"), "{refused}");
    // It was not written.
    let of_group = group.of_member();
    right.with(async move |member| {
        let (store, key) = of_group;
        let settings = member.settings();
        settings.leave_group(&settings.group_settings(store, key));
    });
    create(&right, "xen").expect("it has settings of its own");
    assert_eq!(group.join(&left, false), [""; 0]);
    assert_eq!(policies(&left), named(&[("hyperv", 0)]));
    stop([left, right]);
}

/// It is set in the member's own store, which is to be like the group's a moment later.
#[test]
fn what_is_set_while_a_member_joins_is_not_lost() {
    let dir = tempfile::tempdir().unwrap();
    let ([left, right], group) = (two(dir.path()), Group::new());
    create(&right, "hyperv").unwrap();
    group.store.is(How::HoldsNext);
    let (joined, of_group) = (Arc::new(AtomicBool::new(false)), group.of_member());
    let done = joined.clone();
    right.with(async move |member| {
        ring::spawn(async move {
            let shared = member.settings().share(of_group, false).await;
            assert_eq!(shared.expect("the store answers"), [""; 0]);
            done.store(true, Ordering::Release);
        });
    });
    wait_until("what it had is on its way", || group.store.holds());
    create(&right, "xen").expect("it has settings of its own until it shares them");
    group.store.is(How::Answers);
    wait_until("it shares them", || joined.load(Ordering::Acquire));
    let both = named(&[("hyperv", 0), ("xen", 0)]);
    assert_eq!(policies(&right), both);
    assert_eq!(group.join(&left, false), [""; 0]);
    assert_eq!(policies(&left), both);
    stop([left, right]);
}

/// It would let hosts in to volumes whose lists were not made for them.
#[test]
fn what_lists_name_that_is_gone_does_not_come_back_under_them() {
    let dir = tempfile::tempdir().unwrap();
    let ([left, right], group) = (two(dir.path()), Group::new());
    left.create("vm");
    for rig in [&left, &right] {
        group.join(rig, false);
    }
    create(&left, "esx").unwrap();
    list(&left, "vm", "esx").unwrap();
    // It was not heard of yet that the list names it.
    hear(&right);
    delete(&right, "esx").unwrap();
    hear(&left);
    let refused = "volumes of this member name policy 'esx' already, and would be for its hosts at once: take it off \
                   their access lists first";
    assert_eq!(create(&left, "esx").unwrap_err(), refused);
    let apply = |volumes: Vec<VolumeChange>| {
        let policies = vec![("esx".to_owned(), Some(Vec::new()))];
        let change = ConfigurationChange { policies, volumes, ..ConfigurationChange::default() };
        let change = ConfigurationRequest::Change(Box::new(change));
        let applied = left.ask(Request::Configuration(change));
        applied.map(drop).map_err(|error| error.to_string())
    };
    assert_eq!(apply(Vec::new()).unwrap_err(), refused);
    // Who says anew whom the volume is for means it.
    let access = Some(ListChange::Listed(vec![entry("esx")]));
    let set = VolumeSet { access, ..VolumeSet::default() };
    apply(vec![VolumeChange { name: "vm".to_owned(), set, ..VolumeChange::default() }]).unwrap();
    assert_eq!(create(&left, "esx").unwrap_err(), "there is a policy 'esx' already");
    stop([left, right]);
}

#[test]
fn what_volumes_name_does_not_go_and_goes_together_with_what_named_it() {
    let dir = tempfile::tempdir().unwrap();
    let ([left, right], group) = (two(dir.path()), Group::new());
    for rig in [&left, &right] {
        rig.create("vm");
        group.join(rig, false);
    }
    create(&left, "esx").unwrap();
    list(&left, "vm", "esx").unwrap();
    let in_use = "policy 'esx' is on the access list of 1 volume: remove it there first";
    assert_eq!(delete(&left, "esx").unwrap_err(), in_use);
    let apply = |rig: &Rig, change: ConfigurationChange| {
        let change = ConfigurationRequest::Change(Box::new(change));
        let applied = rig.ask(Request::Configuration(change));
        applied.map(drop).map_err(|error| error.to_string())
    };
    let goes = || vec![("esx".to_owned(), None)];
    let alone = ConfigurationChange { policies: goes(), ..ConfigurationChange::default() };
    assert_eq!(apply(&left, alone).unwrap_err(), in_use);
    assert_eq!(policies(&left), named(&[("esx", 0)]));

    // A list names what comes with it, and lets go what goes with it.
    let listed = |policy: &str| {
        let access = Some(ListChange::Listed(vec![entry(policy)]));
        let set = VolumeSet { access, ..VolumeSet::default() };
        vec![VolumeChange { name: "vm".to_owned(), set, ..VolumeChange::default() }]
    };
    let mut policies_of_change = goes();
    policies_of_change.push(("xen".to_owned(), Some(Vec::new())));
    let together = ConfigurationChange {
        volumes: listed("xen"),
        policies: policies_of_change,
        ..ConfigurationChange::default()
    };
    apply(&left, together).unwrap();
    hear(&right);
    for rig in [&left, &right] {
        assert_eq!(policies(rig), named(&[("xen", 0)]));
    }
    let not_there = left.with(async |member| {
        let id = member.volumes()[0].id;
        member.settings().not_there(id)
    });
    assert_eq!(not_there, NotThere::default());

    // What the group has is not taken back when the member's own part fails, and that is said.
    let half = ConfigurationChange {
        volumes: listed("nobody made it"),
        policies: vec![("kvm".to_owned(), Some(Vec::new()))],
        ..ConfigurationChange::default()
    };
    let why = "part of it is set, and the rest is not: there is no policy 'nobody made it'";
    assert_eq!(apply(&left, half).unwrap_err(), why);
    assert_eq!(policies(&left), named(&[("kvm", 0), ("xen", 0)]));
    stop([left, right]);
}

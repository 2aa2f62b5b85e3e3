//! What a member knows of the group that it is in, and by which means it takes part.

use std::cell::{Cell, Ref, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use group::cluster::{self, Seat};
use group::membership::{MemberRecord, Membership, MembershipError, Roll, is_routine};
use group::ownership::MemberId;
use group::pki::Authority;
use group::store::{Batch, Etcd, EtcdMember, EtcdOptions, EtcdTls, LeaseId, Revision, Store};
use ring::wait::{Bell, Event};
use zeroize::Zeroizing;

use super::GroupError;
use super::announced::Announcer;
use super::files::{GroupDir, Keys, MembershipFile};
use super::floating::Floating;
use super::kept::Kept;
use super::part::Part;
use super::presence::{News, Presence};
use crate::group_request::{RollNow, SecretWord};

/// How keys of a group begin in its store.
const NAMESPACE: &str = "drystone/";

/// A group that the member is in.
pub(super) struct Joined {
    kept: Rc<Kept>,
    keys: Keys,
    authority: Authority,
    etcd: Arc<Etcd>,
    /// All members are asked for it, as nobody knows who runs it.
    is_looking: Cell<bool>,
    membership: Membership,
    part: Rc<Part>,
    floating: Floating,
    /// It was removed, or the group ends.
    is_leaving: Cell<bool>,
    /// Set when the tasks are to end.
    ended: Event,
    /// What the presence of the member hangs on.
    lease: Cell<Option<LeaseId>>,
    /// It was entered in the life of this process.
    has_entered: Cell<bool>,
    heard: RefCell<Heard>,
    /// The revision of the last change that others need to know of who send hosts on.
    served: Cell<Revision>,
    /// Other threads hear of it.
    announcer: Rc<Announcer>,
    /// How often something has changed that others wait for.
    changes: Cell<u64>,
    changed: Bell,
}

/// What was heard last.
struct Heard {
    roll: Option<Roll>,
    etcds: Vec<EtcdMember>,
    /// Why nothing is heard now.
    fault: Option<String>,
    presence: Presence,
}

impl Joined {
    /// The group of this file. Nothing is asked or begun.
    ///
    /// # Errors
    /// The keys do not read, or no thread can be started.
    pub(super) fn new(
        dir: &GroupDir,
        file: MembershipFile,
        keys: Keys,
        announcer: Rc<Announcer>,
    ) -> Result<Self, GroupError> {
        let authority = Authority::read(&keys.authority, &keys.authority_key)?;
        let identity =
            (keys.certificate.as_bytes().to_vec(), Zeroizing::new(keys.key.as_bytes().to_vec()));
        let tls =
            EtcdTls { authority: keys.authority.as_bytes().to_vec(), identity: Some(identity) };
        let options = EtcdOptions {
            endpoints: file.endpoints.clone(),
            namespace: format!("{NAMESPACE}{}/", file.group).into_bytes(),
            tls: Some(tls),
            user: None,
        };
        let etcd = Arc::new(Etcd::new(options)?);
        let membership = Membership::new(etcd.clone());
        let heard = Heard {
            roll: None,
            etcds: Vec::new(),
            fault: Some("it has not answered yet".to_owned()),
            presence: Presence::default(),
        };
        Ok(Self {
            part: Rc::new(Part::new(dir)),
            floating: Floating::default(),
            kept: Rc::new(Kept::new(dir, file)),
            keys,
            authority,
            etcd,
            is_looking: Cell::new(false),
            membership,
            is_leaving: Cell::new(false),
            ended: Event::default(),
            lease: Cell::new(None),
            has_entered: Cell::new(false),
            heard: RefCell::new(heard),
            served: Cell::new(0),
            announcer,
            changes: Cell::new(0),
            changed: Bell::default(),
        })
    }

    pub(super) fn file(&self) -> Ref<'_, MembershipFile> {
        self.kept.file()
    }

    pub(super) fn me(&self) -> MemberId {
        self.file().member
    }

    /// Whether both are the same member of the same group.
    pub(super) fn is_same(&self, other: &Self) -> bool {
        let (file, others) = (self.file(), other.file());
        (&file.group, file.member) == (&others.group, others.member)
    }

    pub(super) fn group_name(&self) -> String {
        self.file().group_name.clone()
    }

    pub(super) const fn keys(&self) -> &Keys {
        &self.keys
    }

    pub(super) const fn authority(&self) -> &Authority {
        &self.authority
    }

    pub(super) const fn membership(&self) -> &Membership {
        &self.membership
    }

    pub(super) fn etcd(&self) -> &Etcd {
        &self.etcd
    }

    /// The same, for who keeps something else in it.
    pub(super) fn store(&self) -> Arc<dyn Store> {
        self.etcd.clone()
    }

    pub(super) const fn part(&self) -> &Rc<Part> {
        &self.part
    }

    pub(super) const fn floating(&self) -> &Floating {
        &self.floating
    }

    pub(super) fn is_leaving(&self) -> bool {
        self.is_leaving.get()
    }

    /// From now on it is asked nothing more.
    pub(super) fn begin_to_leave(&self) {
        self.is_leaving.set(true);
        self.announcer.withdraw();
    }

    pub(super) fn stop_tasks(&self) {
        self.ended.set();
        self.announcer.withdraw();
    }

    /// What the future gives, or `None` when the tasks are to end before.
    pub(super) async fn or_end<T>(&self, future: impl Future<Output = T>) -> Option<T> {
        self.ended.or(future).await
    }

    /// Changes what lies in the file, unless the member has left meanwhile.
    ///
    /// # Errors
    /// It cannot be written: then nothing has changed.
    pub(super) async fn change_file(
        &self,
        change: impl FnOnce(&mut MembershipFile) + 'static,
    ) -> Result<(), GroupError> {
        self.kept.change(change).await
    }

    /// Deletes all that the member keeps of the group, whose part of the store has ended.
    ///
    /// # Errors
    /// Not all of it can be deleted.
    pub(super) async fn delete_files(&self) -> Result<(), GroupError> {
        debug_assert!(self.part.state().is_none(), "etcd does not write any more");
        self.kept.delete().await
    }

    pub(super) fn has_entered(&self) -> bool {
        self.has_entered.get()
    }

    /// The member is there for the others, for as long as its lease is kept alive.
    pub(super) fn has_appeared(&self, lease: LeaseId) {
        self.has_entered.set(true);
        self.lease.set(Some(lease));
    }

    /// Lets the others know that the member goes, which they would find out by themselves.
    pub(super) async fn disappear(&self) {
        if let Some(lease) = self.lease.take()
            && let Err(error) = self.etcd.revoke(lease).await
        {
            tracing::debug!("the presence of this member ends by its time: {error}");
        }
    }

    /// The revision that was heard last; 0 before any was.
    pub(super) fn revision(&self) -> Revision {
        self.heard.borrow().roll.as_ref().map_or(0, |roll| roll.revision)
    }

    /// The revision of the last change but for those of how many connections members have; 0 before any was heard.
    pub(super) fn served_revision(&self) -> Revision {
        self.served.get()
    }

    /// Asks the roll that was heard last; `None` before any was.
    pub(super) fn with_roll<T>(&self, ask: impl FnOnce(&Roll) -> T) -> Option<T> {
        self.heard.borrow().roll.as_ref().map(ask)
    }

    /// The roll that was heard last.
    ///
    /// # Errors
    /// None was, and why.
    pub(super) fn roll(&self) -> Result<Roll, GroupError> {
        let heard = self.heard.borrow();
        let why = || GroupError::NotReached(heard.fault.clone().unwrap_or_default());
        heard.roll.clone().ok_or_else(why)
    }

    /// Asks the store for the roll.
    ///
    /// # Errors
    /// It does not answer.
    pub(super) async fn read_roll(&self) -> Result<Roll, MembershipError> {
        let roll = self.membership.read().await?;
        // Of a store that was asked before, or of a watch, something later may have been heard meanwhile.
        if !self.is_leaving() && roll.about.is_some() && roll.revision > self.revision() {
            self.hear_roll(roll.clone());
        }
        Ok(roll)
    }

    /// The roll is this from now on.
    pub(super) fn hear_roll(&self, roll: Roll) {
        self.floating.see(&roll);
        self.served.set(roll.revision);
        self.heard.borrow_mut().roll = Some(roll);
        self.note_change();
        self.announce();
    }

    /// Tells other threads how the group is now.
    pub(super) fn announce(&self) {
        if self.is_leaving() || self.ended.has_happened() {
            return;
        }
        let heard = self.heard.borrow();
        let Some(roll) = &heard.roll else { return };
        let (file, keys) = (self.file(), &self.keys);
        self.announcer.announce(RollNow {
            me: file.member,
            name: file.name.clone(),
            roll: roll.clone(),
            store_fault: heard.fault.clone(),
            authority: keys.authority.clone(),
            certificate: keys.certificate.clone(),
            key: SecretWord(keys.key.clone()),
        });
    }

    /// What a watch has said changes the roll.
    ///
    /// # Errors
    /// It does not read.
    pub(super) fn hear_batch(&self, batch: &Batch) -> Result<(), MembershipError> {
        let mut heard = self.heard.borrow_mut();
        let roll = heard.roll.as_mut().expect("a watch follows a roll");
        let who = |roll: &Roll| -> (BTreeMap<MemberId, MemberRecord>, BTreeMap<MemberId, u64>) {
            (roll.members.clone(), roll.present.clone())
        };
        let of_address = |roll: &Roll| (roll.address, roll.holder.map(|holder| holder.member));
        let (before, had) = (who(roll), of_address(roll));
        roll.hear(batch)?;
        self.floating.see(roll);
        let is_change = who(roll) != before || of_address(roll) != had;
        let revision = roll.revision;
        drop(heard);
        if is_change {
            self.note_change();
        }
        // Those come each second or two.
        if is_routine(batch) && !is_change {
            return Ok(());
        }
        self.served.set(revision);
        self.announce();
        Ok(())
    }

    /// What is new about others.
    pub(super) fn news(&self) -> Vec<News> {
        let me = self.me();
        let mut heard = self.heard.borrow_mut();
        let Heard { roll: Some(roll), presence, fault: None, .. } = &mut *heard else {
            return Vec::new();
        };
        presence.look(roll, me, Instant::now())
    }

    /// Who has given no signs of life for so long.
    pub(super) fn silent_for(&self, long: Duration) -> BTreeSet<MemberId> {
        self.heard.borrow().presence.silent_for(long, Instant::now())
    }

    /// Why nothing is heard of the group now.
    pub(super) fn fault(&self) -> Option<String> {
        self.heard.borrow().fault.clone()
    }

    /// The store answers, and the member is in the group. Says whether it did not before.
    pub(super) fn reached(&self) -> bool {
        let before = self.heard.borrow_mut().fault.take();
        self.note_change();
        self.announce();
        before.is_some()
    }

    /// Nothing is heard of the group any more.
    pub(super) fn lost(&self, why: String) {
        let mut heard = self.heard.borrow_mut();
        heard.fault = Some(why);
        heard.presence.lose_sight();
        drop(heard);
        self.note_change();
        self.announce();
    }

    /// Asks all members for the store from now on: none of those answers that ran it last.
    pub(super) fn look_for_store(&self) {
        let file = self.file();
        let all: BTreeSet<&String> = file.endpoints.iter().chain(&file.further_endpoints).collect();
        self.etcd.set_endpoints(all.into_iter().cloned().collect());
        self.is_looking.set(true);
    }

    pub(super) fn is_looking_for_store(&self) -> bool {
        self.is_looking.get()
    }

    /// The store answers here, also after the next start.
    ///
    /// # Errors
    /// That cannot be written. It is asked there all the same.
    pub(super) async fn found_store(&self, endpoints: Vec<String>) -> Result<(), GroupError> {
        debug_assert!(!endpoints.is_empty(), "who has answered runs it");
        self.etcd.set_endpoints(endpoints.clone());
        self.is_looking.set(false);
        let further = self.with_roll(client_urls);
        let change = move |file: &mut MembershipFile| {
            file.endpoints = endpoints;
            if let Some(further) = further {
                file.further_endpoints = further;
            }
        };
        self.change_file(change).await
    }

    /// The members of the store are these.
    pub(super) fn hear_etcds(&self, etcds: Vec<EtcdMember>) {
        self.heard.borrow_mut().etcds = etcds;
    }

    pub(super) fn etcds(&self) -> Vec<EtcdMember> {
        self.heard.borrow().etcds.clone()
    }

    /// The seats of the store, as they were heard of last.
    pub(super) fn seats(&self) -> Vec<Seat> {
        self.with_roll(|roll| seats_of(roll, &self.heard.borrow().etcds)).unwrap_or_default()
    }

    /// Lets those look again who wait for a change.
    pub(super) fn note_change(&self) {
        self.changes.set(self.changes.get() + 1);
        self.changed.ring();
    }

    pub(super) fn mark(&self) -> u64 {
        self.changes.get()
    }

    /// Waits for a change after the mark.
    pub(super) async fn change_after(&self, mark: u64) {
        self.changed.until(|| self.changes.get() > mark).await;
    }

    /// Waits until the store has answered and the member is in the group.
    pub(super) async fn until_reached(&self) {
        self.changed.until(|| self.heard.borrow().fault.is_none()).await;
    }
}

/// Whose seats these are.
pub(super) fn seats_of(roll: &Roll, etcds: &[EtcdMember]) -> Vec<Seat> {
    let members = roll.members.iter();
    let urls = members.map(|(id, record)| (peer_url(record), *id)).collect();
    cluster::seats(etcds, &urls)
}

/// Who is present.
pub(super) fn present(roll: &Roll) -> BTreeMap<MemberId, bool> {
    roll.members.keys().map(|id| (*id, roll.is_present(*id))).collect()
}

/// Where the etcd of each member would answer: its second port.
pub(super) fn client_urls(roll: &Roll) -> Vec<String> {
    let url = |record: &MemberRecord| cluster::client_url(record.address, record.port + 1);
    roll.members.values().map(url).collect()
}

/// Where the etcd of a member hears others: its third port.
pub(super) fn peer_url(record: &MemberRecord) -> String {
    cluster::peer_url(record.address, record.port + 2)
}

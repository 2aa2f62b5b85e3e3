//! The settings that the members of a group have in common, as far as a member has them: policies, CHAP users, mutual
//! CHAP, accounts, tokens and destinations.
//!
//! ```text
//!        join_group: all of its own is in the group's        follow: that is       change_in_group
//!   Own ─────────────────────────────────────────▶ NotKnown ─ written down ─▶ Group ◀──────────────╮
//!    ▲ ╰─ something differs: it stays its own          │                        │  ╰─▶ the group's store ─▶ take_over
//!    ╰──────────── leave_group: what lies here stays ──┴────────────────────────╯
//! ```
//!
//! Numbered:
//! 1. All is read from the member's own store, as without a group: nothing of logins or targets waits for the group's.
//! 2. Nothing is taken over before all that the member had of its own is in the group's store or was given up by its
//!    operator: what is taken over replaces it.
//! 3. A change goes to one of the two stores. Who has [`MemberSettings::turn`] looks whether it is its own, as only who
//!    has it ends that. From then until it is written down that the member shares those of the group there are none: its
//!    next start would not know that they went there.
//! 4. What is asked of the group's store is asked without the turn: it may not answer.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::fmt::{self, Debug, Formatter};
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use group::secrets::Key;
use group::settings::{Bringing, Given, Merged, Settings, SettingsError, Shared, lets_in};
use group::store::{Revision, Store, StoreError};
use ring::wait::Turn;

use super::thread::StoreThread;
use super::{Kept, KeptError, MemberSettings, gone};
use crate::events::Kind;
use crate::mutants::{self, Mutant};

/// How often a member tries to join while its own settings change all the time.
const TRIES: usize = 8;

/// A change that could not begin for so long is not made: who has asked for it does not wait any more.
const PATIENCE: Duration = Duration::from_secs(10);

/// Why nothing is changed between the last of its own and the first of the group's.
const ABOUT_TO_SHARE: &str = "this member is about to share its settings with the group";

/// Whose settings are changed by what is asked of the member.
#[derive(Debug, Default)]
pub(super) enum Whose {
    /// Its own.
    #[default]
    Own,
    /// The group's.
    Group(Rc<GroupSettings>),
    /// It is in a group that it does not know enough of, a sentence: none are changed, as it may follow that.
    NotKnown(String),
}

/// The settings of a group, in its store, on a thread of their own: that of the member's own must not wait for it.
pub(crate) struct GroupSettings {
    store: Arc<dyn Store>,
    key: Key,
    given: Given,
    /// Begun with the first that is asked.
    thread: RefCell<Option<Rc<StoreThread>>>,
    /// Who has it begins the thread.
    beginning: Turn,
    /// Who has it reads them and takes them over: nobody brings back what was read before.
    taking_over: Turn,
}

impl Debug for GroupSettings {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        out.debug_struct("GroupSettings").field("key", &self.key).finish_non_exhaustive()
    }
}

impl GroupSettings {
    async fn thread(&self) -> Result<Rc<StoreThread>, KeptError> {
        let _turn = self.beginning.take().await;
        if let Some(thread) = &*self.thread.borrow() {
            return Ok(thread.clone());
        }
        let (store, key, given) = (self.store.clone(), self.key.clone(), self.given.clone());
        let open = move || Ok::<_, StoreError>(Settings::of_group(store, key).beside(given));
        let failed = |error: &dyn std::error::Error| KeptError::GroupSilent(error.to_string());
        let begun = StoreThread::start(open).await.map_err(|error| failed(&error))?;
        let thread = Rc::new(begun.map_err(|error| failed(&error))?);
        self.thread.replace(Some(thread.clone()));
        Ok(thread)
    }

    /// What is set for the group now.
    async fn read(&self) -> Result<Shared, KeptError> {
        let thread = self.thread().await?;
        let read = thread.run(async |settings: &mut Settings| settings.shared().await).await;
        read.unwrap_or_else(|| Err(gone())).map_err(silent)
    }

    /// Adds what the group does not have of a member's own. What differs is said, and nothing is added then, unless the
    /// group's is to be taken for it.
    async fn merge(&self, own: Shared, bringing: Bringing) -> Result<Merged, KeptError> {
        let thread = self.thread().await?;
        let merge = async move |settings: &mut Settings| settings.merge(&own, bringing).await;
        // What it may have added without an answer is there when it is tried again.
        let merged = thread.run(merge).await.unwrap_or_else(|| Err(gone()));
        merged.map_err(silent)
    }

    /// Changes something.
    async fn change<T: Send + 'static>(
        &self,
        work: impl AsyncFnOnce(&mut Settings) -> Result<T, SettingsError> + Send + 'static,
    ) -> Result<T, KeptError> {
        let asked = Instant::now();
        let thread = self.thread().await?;
        let change = async move |settings: &mut Settings| {
            // Others were before it.
            check_patience(asked)?;
            // If this is not answered, nothing was changed for certain.
            if let Err(error) = settings.read().await {
                return Err(silent(error));
            }
            work(settings).await.map_err(unknown)
        };
        let changed = thread.run(change).await;
        changed.unwrap_or_else(|| Err(silent(gone())))
    }
}

/// Refuses to begin what was asked too long ago.
fn check_patience(asked: Instant) -> Result<(), KeptError> {
    if asked.elapsed() > PATIENCE {
        return Err(KeptError::GroupSilent("it takes too long".to_owned()));
    }
    Ok(())
}

/// Why nothing is heard, or changed.
fn silent(error: SettingsError) -> KeptError {
    match error {
        SettingsError::Store(error @ StoreError::Failed(_)) => {
            KeptError::GroupSilent(error.to_string())
        }
        error => error.into(),
    }
}

/// Why it is not known whether something was changed; what is refused was not.
fn unknown(error: SettingsError) -> KeptError {
    match error {
        SettingsError::Store(error @ StoreError::Failed(_)) => {
            KeptError::GroupUnknown(error.to_string())
        }
        error => error.into(),
    }
}

impl MemberSettings {
    /// Those of a group with this store, whose secrets are sealed by this key. Nothing of it is begun yet.
    pub(crate) fn group_settings(&self, store: Arc<dyn Store>, key: Key) -> Rc<GroupSettings> {
        Rc::new(GroupSettings {
            store,
            key,
            given: self.start.given.clone(),
            thread: RefCell::default(),
            beginning: Turn::default(),
            taking_over: Turn::default(),
        })
    }

    /// What is asked changes those of the group from now on, which it has joined before, as is written down.
    pub(crate) fn follow(&self, group: Rc<GroupSettings>) {
        self.whose.replace(Whose::Group(group));
        self.own_changed.ring();
    }

    /// What lies here is the member's own from now on, unless it follows another group than this one.
    pub(crate) fn leave_group(&self, group: &Rc<GroupSettings>) {
        let is_it = match &*self.whose.borrow() {
            Whose::Own => false,
            Whose::Group(now) => Rc::ptr_eq(now, group),
            Whose::NotKnown(_) => true,
        };
        if is_it {
            self.whose.replace(Whose::Own);
        }
    }

    /// It may follow a group, and does not know enough of it.
    pub(crate) fn knows_no_group(&self, why: String) {
        self.whose.replace(Whose::NotKnown(why));
    }

    /// Whether what is asked does not change what is its own.
    pub(crate) fn follows_group(&self) -> bool {
        !matches!(*self.whose.borrow(), Whose::Own)
    }

    fn follows(&self, group: &Rc<GroupSettings>) -> bool {
        matches!(&*self.whose.borrow(), Whose::Group(now) if Rc::ptr_eq(now, group))
    }

    /// How often those that it could share were changed as its own.
    pub(crate) fn own_changes(&self) -> u64 {
        self.own_changes.get()
    }

    /// Waits until they were changed more often than that, or it follows a group.
    pub(crate) async fn own_changed_after(&self, changes: u64) {
        let is_changed = || self.own_changes.get() != changes || self.follows_group();
        self.own_changed.until(is_changed).await;
    }

    /// Changes what it has of its own of what members have in common; `None` if it has begun to follow the group.
    pub(crate) async fn change_own<T: Send + 'static>(
        &self,
        work: impl AsyncFnOnce(&mut Settings) -> Result<T, SettingsError> + Clone + Send + 'static,
    ) -> Result<Option<T>, KeptError> {
        let _turn = self.turn.take().await;
        if self.follows_group() {
            return Ok(None);
        }
        // Also one that fails: part of it may have come true.
        self.own_changes.set(self.own_changes.get() + 1);
        let changed = self.change_now(work).await;
        self.own_changed.ring();
        changed.map(Some)
    }

    /// Changes what the members have in common, and takes that over; `None` if it follows no group any more. Who asks
    /// for it has no turn: the group's store may not answer.
    pub(crate) async fn change_in_group<T: Send + 'static>(
        &self,
        work: impl AsyncFnOnce(&mut Settings) -> Result<T, SettingsError> + Send + 'static,
    ) -> Result<Option<T>, KeptError> {
        let group = match &*self.whose.borrow() {
            Whose::Own => return Ok(None),
            Whose::Group(group) => group.clone(),
            Whose::NotKnown(why) => return Err(KeptError::NoGroupKnown(why.clone())),
        };
        let answer = group.change(work).await?;
        let taken_over = self.take_over(&group).await;
        taken_over.map_err(|error| KeptError::NotTakenOver(error.to_string()))?;
        Ok(Some(answer))
    }

    /// Takes over what the group has now, if the member follows one. It is to run to its end, as
    /// [`take_over`](Self::take_over).
    pub(crate) async fn catch_up(&self) -> Result<(), KeptError> {
        let group = match &*self.whose.borrow() {
            Whose::Group(group) => group.clone(),
            Whose::Own | Whose::NotKnown(_) => return Ok(()),
        };
        self.take_over(&group).await.map(drop)
    }

    /// Has the group have what the member is bringing of its own, and says what of it lets somebody in. From then on
    /// nothing is changed before it [follows](Self::follow) the group, which is written down first, or has
    /// [left](Self::leave_group) it. What differs is said: then all is as before.
    pub(crate) async fn join_group(
        &self,
        group: &Rc<GroupSettings>,
        bringing: Bringing,
    ) -> Result<Merged, KeptError> {
        let mut come = BTreeSet::new();
        if mutants::is(Mutant::MirrorBeforeMerge) {
            self.take_over(group).await?;
        }
        for _ in 0..TRIES {
            let (own, changes) = self.own_shared().await?;
            match group.merge(own, bringing).await? {
                Merged::Made(more) => come.extend(more),
                differs @ Merged::Differs(_) => return Ok(differs),
            }
            let _turn = self.turn.take().await;
            if self.follows_group() {
                // It has left this one, and follows another one by now.
                break;
            }
            if self.own_changes.get() == changes {
                self.knows_no_group(ABOUT_TO_SHARE.to_owned());
                return Ok(Merged::Made(come.into_iter().collect()));
            }
            // What was set here meanwhile is not in the group's.
        }
        Err(SettingsError::Contended.into())
    }

    /// What it has of its own, and after how many changes.
    async fn own_shared(&self) -> Result<(Shared, u64), KeptError> {
        let _turn = self.turn.take().await;
        self.look_again().await;
        let changes = self.own_changes.get();
        if matches!(**self.kept.borrow(), Kept::Nothing | Kept::NameTaken) {
            return Ok((Shared::default(), changes));
        }
        let shared = self.on_store(async |settings: &mut Settings| settings.shared().await);
        Ok((shared.await?, changes))
    }

    /// Makes the member's own store have what the group has now, and says of which revision of the group's store that
    /// is. It is to run to its end: what was stored and not read again would not be known.
    pub(crate) async fn take_over(&self, group: &Rc<GroupSettings>) -> Result<Revision, KeptError> {
        let _alone = group.taking_over.take().await;
        let shared = Arc::new(group.read().await?);
        let revision = shared.read_at();
        let _turn = self.turn.take().await;
        if !self.follows(group) && !mutants::is(Mutant::MirrorBeforeMerge) {
            // It has left meanwhile.
            return Ok(revision);
        }
        self.tell_unreadable(&shared);
        let last_event = self.events.last_number();
        let mirror =
            async move |settings: &mut Settings| settings.mirror(&shared, last_event).await;
        let mirrored = self.change_now(mirror).await;
        if mirrored.is_err() {
            // What takes rights away was stored all the same.
            drop(self.refresh().await);
        }
        mirrored.map(|_| revision)
    }

    /// Tells of what lies in the group's store and does not read here, once for as long as it is the same.
    fn tell_unreadable(&self, shared: &Shared) {
        let before = self.told_unreadable.replace(shared.unreadable().clone());
        for key in shared.unreadable().difference(&before) {
            self.tell(Kind::SettingsIncomplete, &unread(key));
        }
    }
}

/// What a member does about what does not read of the group's.
fn unread(key: &str) -> String {
    let goes_on = match lets_in(key) {
        true => "nobody is let in by it on this member",
        false => "this member keeps what it had of it before",
    };
    format!(
        "'{key}' in the settings of the group does not read here: {goes_on}, and it stays there"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_asked_too_long_ago_is_not_begun() {
        let now = Instant::now();
        assert!(check_patience(now).is_ok());
        let long_ago = now.checked_sub(PATIENCE + Duration::from_secs(1)).expect("it runs longer");
        let refused = check_patience(long_ago).unwrap_err();
        assert!(matches!(refused, KeptError::GroupSilent(_)), "{refused}");
    }

    #[test]
    fn of_what_does_not_read_it_is_said_what_becomes_of_it() {
        let goes = ["accounts/ada", "chap/users/al", "tokens/ci"].map(unread);
        assert!(goes.iter().all(|it| it.contains("nobody is let in by it")), "{goes:?}");
        let stays = ["policies/esx", "chap/mutual", "destinations/ops"].map(unread);
        assert!(stays.iter().all(|it| it.contains("keeps what it had")), "{stays:?}");
    }
}

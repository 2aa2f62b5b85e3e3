//! The settings that the members of the group have in common: this member joins them when it is in the group, and
//! follows them from then on.
//!
//! ```text
//!   Own, ToReplace, Returned ── all of its own is in the group's ──▶ waits ── written down ──▶ Shared: takes over
//!        │    ▲ ╰─────────── it cannot be written ────────────╯                                        each change
//!        ╰────╯ something differs: told, and tried again each minute, after each change here, and when it is asked for
//! ```
//!
//! What it does with its own is in [`MemberSettings`], which knows nothing of members. The group's store may be away at
//! any time: whatever is begun here ends then as [`Trouble::Store`], and begins anew when it answers.

use std::cell::{Cell, OnceCell, RefCell};
use std::rc::Rc;
use std::time::Duration;

use futures_util::StreamExt;
use group::membership::{MemberRecord, NamesUsed, Roll};
use group::ownership::MemberId;
use group::settings::{Bringing, GUARD_KEY, Merged};
use group::store::{Revision, Selection, StoreError};
use ring::wait::{Bell, Turn};

use super::error::named;
use super::files::SettingsMark;
use super::joined::Joined;
use super::trouble::Trouble;
use super::{GroupError, InGroup, Standing};
use crate::events::Kind;
use crate::settings::{GroupSettings, KeptError, MemberSettings};

/// Between two tries of what does not go, and between two looks at the group's without a word of a change.
const PAUSE: Duration = Duration::from_secs(60);

/// Between two tries while the member's own settings are not available.
const OWN_PAUSE: Duration = Duration::from_secs(10);

/// How long who has made or joined a group waits to be told whether its settings differ.
const SHOW_TIME: Duration = Duration::from_secs(10);

/// The settings of the group, as far as a member shares them.
#[derive(Debug, Default)]
pub(super) struct Sharing {
    /// Those of the member.
    settings: OnceCell<Rc<MemberSettings>>,
    /// Those of the group that it is in.
    group: RefCell<Option<Rc<GroupSettings>>>,
    /// What differs, so that it has its own.
    differ: RefCell<Vec<String>>,
    /// Why they are not taken over.
    fault: RefCell<Option<String>>,
    /// Who has it joins the group's, or takes them over.
    turn: Turn,
    /// How often that was tried since the member is in the group.
    tries: Cell<u64>,
    tried: Bell,
}

impl Sharing {
    /// The member is in this group. Asked again it changes nothing.
    pub(super) fn begin(&self, joined: &Joined) {
        let Some(settings) = self.settings.get() else { return };
        if self.group.borrow().is_some() {
            return;
        }
        let group = settings.group_settings(joined.store(), joined.authority().settings_key());
        if joined.file().settings == SettingsMark::Shared {
            settings.follow(group.clone());
        }
        self.group.replace(Some(group));
        self.tries.set(0);
    }

    /// It is in none any more, and keeps what it has.
    pub(super) fn end(&self) {
        if let (Some(settings), Some(group)) = (self.settings.get(), self.group.take()) {
            settings.leave_group(&group);
        }
        self.differ.take();
        self.fault.take();
    }

    fn both(&self) -> Option<(Rc<MemberSettings>, Rc<GroupSettings>)> {
        Some((self.settings.get()?.clone(), self.group.borrow().clone()?))
    }

    /// Waits for the first try, so that what differs can be shown.
    pub(super) async fn until_tried(&self) {
        if self.both().is_some() {
            ring::timeout(SHOW_TIME, self.tried.until(|| self.tries.get() > 0)).await;
        }
    }
}

impl InGroup {
    /// The settings of the member are these: before the first of them is changed.
    pub(crate) fn share_settings(&self, settings: &Rc<MemberSettings>) {
        let is_first = self.sharing.settings.set(settings.clone()).is_ok();
        debug_assert!(is_first, "a member has settings once");
        match &*self.standing.borrow() {
            Standing::Alone => {}
            Standing::Broken(why) => settings.knows_no_group(why.clone()),
            Standing::In(joined) => self.sharing.begin(joined),
        }
    }

    /// As which the member is to note its own settings in a group that it joins.
    pub(super) async fn mark_to_join(&self, replace: bool) -> SettingsMark {
        if replace {
            return SettingsMark::ToReplace;
        }
        let dir = self.dir.clone();
        match ring::blocking(move || dir.has_noted_settings()).await {
            true => SettingsMark::Returned,
            false => SettingsMark::Own,
        }
    }

    /// Whether the settings of the member are the group's, as far as it has heard of them: one that cannot take them
    /// over has others.
    pub(crate) fn shares(&self) -> bool {
        let joined = self.in_one().filter(|_| self.settings_fault().is_none());
        joined.is_some_and(|joined| joined.file().settings == SettingsMark::Shared)
    }

    /// What of its own differs from the group's, so that it keeps its own; empty where it shares them, and before it
    /// was compared.
    pub(crate) fn settings_differ(&self) -> Vec<String> {
        self.sharing.differ.borrow().clone()
    }

    /// Why what is set for the group is not taken over here.
    pub(crate) fn settings_fault(&self) -> Option<String> {
        self.sharing.fault.borrow().clone()
    }

    /// Why the store of the group that the member is in does not answer, if that is known.
    pub(crate) fn store_fault(&self) -> Option<String> {
        self.in_one()?.fault()
    }

    /// The name of another member that has said that access lists of its volumes name what `is_named` looks for.
    pub(crate) fn named_on_another(&self, is_named: impl Fn(&NamesUsed) -> bool) -> Option<String> {
        let joined = self.in_one()?;
        let me = joined.me();
        joined.with_roll(|roll| named_in(roll, me, is_named)).flatten()
    }

    /// Has the member share the settings of its group, as it is asked for.
    ///
    /// # Errors
    /// What differs, unless the group's is to be taken; or the store of the group, or the member's, does not answer.
    pub(super) async fn share(self: &Rc<Self>, replace: bool) -> Result<(), GroupError> {
        let joined = self.joined()?;
        if let Some(why) = joined.fault() {
            return Err(KeptError::GroupSilent(why).into());
        }
        to_its_end(self, &joined, replace).await.map(drop)
    }

    /// Joins the group's, if it has not, and takes over what there is. Says of which revision of the store that is.
    async fn share_now(&self, joined: &Joined, replace: bool) -> Result<Revision, GroupError> {
        let _turn = self.sharing.turn.take().await;
        if joined.is_leaving() {
            // It may be in another one by now.
            return Err(GroupError::Leaving);
        }
        let (settings, group) = self.sharing.both().ok_or(GroupError::Leaving)?;
        if self.runs_another_array(joined) {
            // What is set on that one is no member's, and would be lost.
            let why = "its array is not the one that it joined with".to_owned();
            settings.knows_no_group(why.clone());
            return Err(GroupError::Broken(why));
        }
        let mark = joined.file().settings;
        if mark != SettingsMark::Shared {
            match settings.join_group(&group, bringing(mark, replace)).await? {
                Merged::Made(come) => self.tell_come(joined, &come),
                Merged::Differs(conflicts) => {
                    let differ: Vec<_> = conflicts.iter().map(ToString::to_string).collect();
                    self.note_differ(joined, &differ);
                    return Err(GroupError::SettingsDiffer(differ));
                }
            }
            if let Err(error) = self.note_shared(joined).await {
                settings.leave_group(&group);
                return Err(error);
            }
            // It was not left between: nothing has waited since.
            settings.follow(group.clone());
            self.sharing.differ.take();
            let text = format!(
                "this member has the settings of the group '{}' from now on: what is set on one member is set on all",
                joined.group_name()
            );
            self.tell(Kind::SettingsShared, text);
        }
        let revision = settings.take_over(&group).await?;
        self.sharing.fault.take();
        Ok(revision)
    }

    /// Whether the group knows the member by another array than it has.
    pub(super) fn runs_another_array(&self, joined: &Joined) -> bool {
        let is_other = |record: &MemberRecord| record.array != self.array;
        let me = joined.me();
        let judged = joined.with_roll(|roll| roll.members.get(&me).is_some_and(is_other));
        judged == Some(true)
    }

    /// Whether it is known that the group knows the member by the array that it has: what lies there is what the member had.
    pub(crate) fn has_its_array(&self) -> bool {
        let Some(joined) = self.in_one() else { return false };
        let me = joined.me();
        let is_it = |record: &MemberRecord| record.array == self.array;
        joined.with_roll(|roll| roll.members.get(&me).is_some_and(is_it)) == Some(true)
    }

    /// Writes down that the member shares the settings of its group: also its next start follows them, and what it has
    /// is known to be that of a group whatever becomes of this one.
    async fn note_shared(&self, joined: &Joined) -> Result<(), GroupError> {
        let (dir, group) = (self.dir.clone(), joined.file().group.clone());
        ring::blocking(move || dir.note_settings(&group)).await?;
        joined.change_file(|file| file.settings = SettingsMark::Shared).await?;
        // A file that is deleted meanwhile is not written.
        let is_noted = joined.file().settings == SettingsMark::Shared && !joined.is_leaving();
        if is_noted { Ok(()) } else { Err(GroupError::Leaving) }
    }

    /// Tells who is let in on all members since this one has brought him to the group.
    fn tell_come(&self, joined: &Joined, come: &[String]) {
        if !come.is_empty() {
            let text = format!(
                "this member has brought to the group '{}' what that did not have: {}; if somebody had taken any of it \
                 away there, it is to be deleted again",
                joined.group_name(),
                named(come)
            );
            self.tell(Kind::SettingsShared, text);
        }
    }

    /// Notes what differs, and tells it when it is something else than before.
    fn note_differ(&self, joined: &Joined, differ: &[String]) {
        self.sharing.fault.take();
        let before = self.sharing.differ.replace(differ.to_vec());
        if before != differ {
            let text = format!(
                "the settings of this member and those of the group '{}' differ in {}: it keeps its own, and has none \
                 of what is set for the group",
                joined.group_name(),
                named(differ)
            );
            self.tell(Kind::SettingsDiffer, text);
        }
    }

    /// Notes why the group's settings are not taken over, and tells it once; what the member's own store says is told by that.
    fn note_not_taken(&self, joined: &Joined, error: &GroupError) {
        let why = error.to_string();
        let is_news = self.sharing.fault.replace(Some(why.clone())).as_ref() != Some(&why);
        self.note_answering();
        if is_news && !is_of_own_store(error) {
            let text = format!(
                "what is set for the group '{}' is not taken over here: {why}",
                joined.group_name()
            );
            self.tell(Kind::SettingsNotShared, text);
        }
    }
}

/// What a member brings to the settings of its group that has its own still.
const fn bringing(mark: SettingsMark, replace: bool) -> Bringing {
    match mark {
        SettingsMark::Own | SettingsMark::Shared if !replace => Bringing::All,
        SettingsMark::Returned if !replace => Bringing::Returning,
        _ => Bringing::InUse,
    }
}

/// The name of another member than `me` that has said that it names what `is_named` looks for.
fn named_in(roll: &Roll, me: MemberId, is_named: impl Fn(&NamesUsed) -> bool) -> Option<String> {
    let mut others = roll.inventories.iter().filter(|(id, _)| **id != me);
    others.find_map(|(id, inventory)| {
        let record = roll.members.get(id)?;
        is_named(&inventory.uses).then(|| record.name.clone())
    })
}

/// Whether the member's own store is what does not answer.
const fn is_of_own_store(error: &GroupError) -> bool {
    matches!(error, GroupError::Settings(KeptError::NotAvailable(_) | KeptError::Stopping))
}

/// Shares them to the end, whoever stops waiting: what was stored here and not read again would not be known.
async fn to_its_end(
    here: &Rc<InGroup>,
    joined: &Rc<Joined>,
    replace: bool,
) -> Result<Revision, GroupError> {
    let (member, group) = (here.clone(), joined.clone());
    let (done, result) = ring::oneshot();
    ring::spawn(async move { done.send(member.share_now(&group, replace).await) });
    let shared = result.await.unwrap_or(Err(GroupError::Stopping));
    here.note_answering();
    here.sharing.tries.set(here.sharing.tries.get() + 1);
    here.sharing.tried.ring();
    shared
}

/// Joins and follows the settings of the group for as long as nothing goes wrong.
pub(super) async fn keep(here: &Rc<InGroup>, joined: &Rc<Joined>) -> Trouble {
    let Some((settings, _)) = here.sharing.both() else { return std::future::pending().await };
    loop {
        let changes = settings.own_changes();
        match to_its_end(here, joined, false).await {
            Ok(revision) => {
                if let Err(trouble) = until_changed(joined, revision).await {
                    return trouble;
                }
            }
            Err(GroupError::Settings(
                KeptError::GroupSilent(why) | KeptError::GroupUnknown(why),
            )) => return Trouble::Store(why),
            Err(GroupError::SettingsDiffer(_)) => {
                ring::timeout(PAUSE, settings.own_changed_after(changes)).await;
            }
            Err(error) => {
                here.note_not_taken(joined, &error);
                let pause = if is_of_own_store(&error) { OWN_PAUSE } else { PAUSE };
                ring::sleep(pause).await;
            }
        }
    }
}

/// Waits until the settings of the group are others than at this revision, or for a while: then they are looked at
/// anew.
async fn until_changed(joined: &Joined, revision: Revision) -> Result<(), Trouble> {
    let mut watch = joined.store().watch(Selection::key(GUARD_KEY), revision + 1);
    match ring::timeout(PAUSE, watch.next()).await {
        // Where the history is gone, what there is now is read all the same.
        None | Some(Some(Ok(_) | Err(StoreError::Compacted { .. }))) => Ok(()),
        Some(Some(Err(error))) => Err(error.into()),
        Some(None) => Err(Trouble::Again),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use group::membership::Inventory;

    use super::*;
    use crate::membership::tests::roll_of;

    fn using(policy: &str) -> Arc<Inventory> {
        let mut inventory = Inventory::default();
        inventory.uses.policies.insert(policy.to_owned());
        Arc::new(inventory)
    }

    /// A member that is away has its lists all the same; one that was removed has none in the group.
    #[test]
    fn what_another_member_names_is_found_and_what_this_one_does_is_not() {
        let mut roll = roll_of(&[(1, true), (2, false)]);
        roll.inventories.insert(MemberId(1), using("mine"));
        roll.inventories.insert(MemberId(2), using("theirs"));
        roll.inventories.insert(MemberId(3), using("of one that was removed"));
        let found =
            |policy: &str| named_in(&roll, MemberId(1), |uses| uses.policies.contains(policy));
        assert_eq!(found("theirs").as_deref(), Some("m2"));
        assert_eq!(["mine", "of one that was removed", "other"].map(found), [None, None, None]);
        let of_user = named_in(&roll, MemberId(1), |uses| uses.users.contains("theirs"));
        assert_eq!(of_user, None, "a user of the same name is something else");
    }

    impl InGroup {
        /// What is set for the group is not taken over.
        pub(crate) fn note_fault(&self, why: &str) {
            self.sharing.fault.replace(Some(why.to_owned()));
        }
    }

    #[test]
    fn who_was_in_a_group_before_brings_nobody_back() {
        assert_eq!(bringing(SettingsMark::Own, false), Bringing::All);
        assert_eq!(bringing(SettingsMark::Returned, false), Bringing::Returning);
        assert_eq!(bringing(SettingsMark::ToReplace, false), Bringing::InUse);
        assert_eq!(bringing(SettingsMark::Returned, true), Bringing::InUse);
    }

    #[test]
    fn of_much_that_differs_the_first_is_named() {
        let all: Vec<String> = (1..=10).map(|number| format!("policy 'p{number}'")).collect();
        assert_eq!(named(&all[..2]), "policy 'p1', policy 'p2'");
        let many = GroupError::SettingsDiffer(all).to_string();
        assert!(many.ends_with("policy 'p7', policy 'p8' and 2 more"), "{many}");
    }
}

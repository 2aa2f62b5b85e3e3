//! Adding, replacing and retiring disks; scrub and check.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use block::BlockError;
use futures_util::future::join;

use super::Array;
use crate::DiskId;
use crate::api::{CheckReport, SettingsChange};
use crate::core::{Core, RETRY, State};
use crate::error::ArrayError;
use crate::label::{self, ChangeId, Found, MemberKind, MemberRecord, MemberState};
use crate::membership::{Event, SetSeats, may_return, next_label, next_number, without_place};
use crate::mutants::{self, Mutant};
use crate::open::{Member, probe, random_id};
use crate::raid::{Access, PASSING_TRIES_MAX, Set, is_passing};
use crate::space::Gives;
use crate::upkeep::{Findings, is_suspect};

/// Disks that an array can ever have: so many fit into its labels.
const MEMBERS_MAX: usize = 256;

impl Array {
    /// Takes in a disk: a blank one as a new member, or a member that was away.
    ///
    /// # Errors
    /// [`ArrayError::BadDisk`] with the reason; nothing was written to it then.
    pub async fn add_disk(&self, member: Member) -> Result<DiskId, ArrayError> {
        self.add_disk_for(MemberKind::Data, member).await
    }

    /// Takes in a blank disk for the journal alone.
    ///
    /// # Errors
    /// The same; also when the disk is a member that was away, or the array never had such a disk: the
    /// first one alone would be less than the three that hold the journal then.
    pub async fn add_journal_disk(&self, member: Member) -> Result<DiskId, ArrayError> {
        let has_some = {
            let state = self.core.lock();
            state.label.members.iter().any(|record| record.kind == MemberKind::Journal)
        };
        if !has_some {
            let what = "would be the only disk for the journal, which three disks hold now: that is \
                        chosen when an array is made";
            return Err(ArrayError::BadDisk(format!("{} {what}", member.name)));
        }
        self.add_disk_for(MemberKind::Journal, member).await
    }

    async fn add_disk_for(&self, kind: MemberKind, member: Member) -> Result<DiskId, ArrayError> {
        let _turn = self.core.disk_commands.take().await;
        let found = probe(&*self.core.env, &*member.device).await?;
        self.core.check_new(&member, &found)?;
        match found {
            Found::Label { label, .. } if !self.core.was_never_taken_in(&label) => {
                if kind == MemberKind::Journal {
                    let what = "is a disk of this array: give a blank disk for the journal";
                    return Err(ArrayError::BadDisk(format!("{} {what}", member.name)));
                }
                self.core.readmit(member, &label).await
            }
            _ => {
                let id = self.core.adopt(kind, member).await?;
                if mutants::is(Mutant::NoRebalance) {
                    return Ok(id);
                }
                // It is a member from here on, whether or not data can be moved to it.
                let made_up_for = self.core.forget_departed(None);
                let (begun, forgotten) = join(self.core.begin_rebalance(), made_up_for).await;
                if let Err(error) = begun.map(|_| ()).and(forgotten) {
                    tracing::warn!("no data is moved to the new disk: {error}");
                }
                Ok(id)
            }
        }
    }

    /// Empties a disk; it leaves when nothing is on it any more.
    ///
    /// # Errors
    /// [`ArrayError::NoSuchDisk`]; [`ArrayError::DiskNeeded`] when some of its data has no other
    /// disk to go to. Nothing has changed then.
    pub async fn retire_disk(&self, disk: &str) -> Result<(), ArrayError> {
        let _turn = self.core.disk_commands.take().await;
        let id = self.core.disk_by_name(disk)?;
        self.core.begin_to_leave(id, disk).await
    }

    /// Keeps a disk that was to leave and is not empty yet; what moved to others stays there.
    ///
    /// # Errors
    /// [`ArrayError::NoSuchDisk`]; [`ArrayError::NotRetiring`].
    pub async fn cancel_retire(&self, disk: &str) -> Result<(), ArrayError> {
        let _turn = self.core.disk_commands.take().await;
        let id = self.core.disk_by_name(disk)?;
        let (core, name) = (Arc::clone(&self.core), disk.to_owned());
        let kept = self.core.request(move |tables, state| {
            // One whose label is being written is gone.
            if state.going.contains(&id) || !tables.leaving.remove(&id) {
                return Err(ArrayError::NotRetiring(name));
            }
            // It may be empty already, and must not go while this is not on the disks yet.
            if !mutants::is(Mutant::KeepLater) {
                state.tables.leaving.remove(&id);
            }
            let gives = match state.away.contains_key(&id) {
                true => Gives::Seats,
                false => Gives::Chunks,
            };
            state.space.set_gives(id, gives);
            let is_on = |set: &Arc<Set>| {
                let new = set.replacement();
                new.is_some_and(|new| set.members()[new.member].disk == id)
            };
            // What is half copied is given up.
            core.sets.all().iter().filter(|set| is_on(set)).for_each(|set| {
                set.drop_replacement();
            });
            core.want_checkpoint(state);
            Ok(())
        });
        kept.await?;
        self.core.upkeep.ring();
        Ok(())
    }

    /// Begins to move data until all disks are equally full, as far as their sets allow; taking in a blank disk
    /// does that too. The number of this order, as others may give the same meanwhile.
    ///
    /// # Errors
    /// [`ArrayError::Stopped`].
    pub async fn begin_rebalance(&self) -> Result<u64, ArrayError> {
        self.core.begin_rebalance().await
    }

    /// Ends when nothing is left to move. False if this order was [cancelled](Self::cancel_rebalance), or one that
    /// was given after it.
    ///
    /// # Errors
    /// [`ArrayError::Stopped`].
    pub async fn balanced(&self, order: u64) -> Result<bool, ArrayError> {
        self.core.balanced(order).await
    }

    /// Ends a rebalancing, whoever began it before this order: no more data moves than what is on its way, and what
    /// has moved stays there. If the same was ordered after it, that goes on.
    ///
    /// # Errors
    /// [`ArrayError::Stopped`].
    pub async fn cancel_rebalance(&self, order: u64) -> Result<(), ArrayError> {
        self.core.cancel_rebalance(order).await
    }

    /// [Begins](Self::begin_rebalance), and [ends](Self::balanced) when it is done.
    ///
    /// # Errors
    /// [`ArrayError::Stopped`].
    pub async fn rebalance(&self) -> Result<bool, ArrayError> {
        let order = self.begin_rebalance().await?;
        self.balanced(order).await
    }

    /// Puts a blank disk in the place of another, which leaves when it is empty.
    ///
    /// # Errors
    /// Those of [`add_disk`](Self::add_disk) and [`retire_disk`](Self::retire_disk); nothing has
    /// changed then.
    pub async fn replace_disk(&self, old: &str, new: Member) -> Result<DiskId, ArrayError> {
        let _turn = self.core.disk_commands.take().await;
        let id = self.core.disk_by_name(old)?;
        let kind = self.core.lock().label.member(id).map_or(MemberKind::Data, |old| old.kind);
        let found = probe(&*self.core.env, &*new.device).await?;
        self.core.check_new(&new, &found)?;
        self.core.check_new_size(kind, &new)?;
        if !matches!(found, Found::Blank) {
            let what = "is a disk of this array: give a blank disk to replace another with";
            return Err(ArrayError::BadDisk(format!("{} {what}", new.name)));
        }
        {
            let state = self.core.lock();
            let room = self.core.layout.chunks(new.device.geometry().size_bytes());
            self.core.check_room(&state, &state.tables.leaving, id, (old, Some(room)))?;
        }
        let added = self.core.adopt(kind, new).await?;
        // Not asked again: if another disk went meanwhile, the old one waits until there is room.
        self.core.leave(id).await?;
        Ok(added)
    }

    /// Forgets the errors of a disk: whatever was wrong has been put right. If it was being
    /// emptied because of them, it stays. Of one that has [left](Self::departed), by its number, nothing is said any more.
    ///
    /// # Errors
    /// [`ArrayError::NoSuchDisk`]; [`ArrayError::Stopped`] for one that has left.
    pub async fn clear_disk(&self, disk: &str) -> Result<(), ArrayError> {
        if let Some((id, _)) = self.departed().into_iter().find(|(id, _)| id.0.to_string() == disk)
        {
            return self.core.forget_departed(Some(id)).await;
        }
        let id = self.core.disk_by_name(disk)?;
        let member = self.core.raid.disks().get(id);
        if let Some(disk) = member.filter(|_| !mutants::is(Mutant::KeepErrors)) {
            disk.forgive();
        }
        {
            let state = &mut *self.core.lock();
            let leaves = state.tables.leaving.contains(&id) || state.going.contains(&id);
            let stays = !leaves && !state.away.contains_key(&id);
            if stays && !mutants::is(Mutant::KeepClosed) {
                state.space.set_gives(id, Gives::Chunks);
            }
        }
        self.core.upkeep.ring();
        Ok(())
    }

    /// Reads and compares everything, and repairs what it can.
    ///
    /// # Errors
    /// When metadata cannot be read.
    pub async fn scrub(&self) -> Result<CheckReport, ArrayError> {
        self.core.checkpointed().await?;
        self.core.mend_labels().await;
        let mut findings = Findings::default();
        self.core.scrub_data(&mut findings).await?;
        Ok(findings.report)
    }

    /// As [`scrub`](Self::scrub), and checks that maps, free space and labels agree.
    ///
    /// # Errors
    /// When metadata cannot be read.
    pub async fn check(&self) -> Result<CheckReport, ArrayError> {
        self.core.check_all().await
    }

    /// Changes what operators set for the whole array.
    ///
    /// # Errors
    /// [`ArrayError::Stopped`].
    pub async fn set(&self, change: SettingsChange) -> Result<(), ArrayError> {
        let percent = |percent: u8| percent.clamp(1, 100);
        self.core
            .request(move |tables, _| {
                let settings = &mut tables.settings;
                if let Some(share) = change.rebuild_share_percent {
                    settings.rebuild_share_percent = percent(share);
                }
                if let Some(days) = change.scrub_days {
                    settings.scrub_days = days;
                }
                if let Some(levels) = change.warn_percents {
                    let levels: BTreeSet<u8> = levels.into_iter().map(percent).collect();
                    settings.warn_percents = levels.into_iter().collect();
                }
                Ok(())
            })
            .await
    }
}

impl Core {
    /// A member by its number or by where it was found.
    pub(super) fn disk_by_name(&self, name: &str) -> Result<DiskId, ArrayError> {
        let by_name = self.raid.disks().all().into_iter().find(|disk| disk.name() == name);
        let by_number = name.parse().ok().map(DiskId);
        let state = self.lock();
        let is_member = |id: &DiskId| state.label.member(*id).is_some() && !state.retired(*id);
        // One that was not there at the start is known by the name that it had.
        let records = state.label.members.iter().map(|record| record.disk);
        let by_old_name = records.filter(is_member).find(|disk| state.label.name_of(*disk) == name);
        let id = by_name.map(|disk| disk.id()).or(by_number).or(by_old_name);
        id.filter(is_member).ok_or_else(|| ArrayError::NoSuchDisk(name.to_owned()))
    }

    /// Whether a disk was about to join when that was cut off: nothing is on it.
    fn was_never_taken_in(&self, theirs: &label::Label) -> bool {
        let state = self.lock();
        let uuid = theirs.own().uuid;
        let is_known = state.label.members.iter().any(|record| record.uuid == uuid);
        !is_known && may_return(theirs, &state.label)
    }

    /// Refuses a disk that is neither blank nor of this array.
    fn check_new(&self, member: &Member, found: &Found) -> Result<(), ArrayError> {
        let what = match found {
            Found::Blank => return Ok(()),
            Found::Label { label, .. } if label.array == self.id => return Ok(()),
            Found::Label { label, .. } => format!("belongs to array {}", label.array),
            Found::Foreign(what) => format!("holds {what}: give a blank disk"),
            Found::Version(version) => format!(
                "is a disk of an array of format version {version}, and this program reads version {}: \
                 use the program that wrote it, or wipe it when nothing on it is needed",
                label::FORMAT_VERSION
            ),
            Found::Damaged(why) => format!("was a disk of an array, and is not used: {why}"),
        };
        Err(ArrayError::BadDisk(format!("{} {what}", member.name)))
    }

    fn check_new_size(&self, kind: MemberKind, member: &Member) -> Result<(), ArrayError> {
        let size_bytes = member.device.geometry().size_bytes();
        let fits = match kind {
            MemberKind::Data => self.layout.check_disk(size_bytes),
            MemberKind::Journal => self.layout.check_journal_disk(size_bytes),
        };
        fits.map_err(|error| ArrayError::BadDisk(format!("{}: {error}", member.name)))
    }

    /// A disk begins to be emptied, if that can end.
    async fn begin_to_leave(self: &Arc<Self>, disk: DiskId, name: &str) -> Result<(), ArrayError> {
        let (core, name) = (Arc::clone(self), name.to_owned());
        // Decided when the checkpoint takes it: what another command or a fault did until then
        // counts too.
        let decided = self.request(move |tables, state| {
            core.check_room(state, &tables.leaving, disk, (&name, None))?;
            tables.leaving.insert(disk);
            state.space.set_gives(disk, Gives::Nothing);
            Ok(())
        });
        decided.await?;
        self.upkeep.ring();
        Ok(())
    }

    /// A disk is to be emptied, whether that can end now or not.
    async fn leave(self: &Arc<Self>, disk: DiskId) -> Result<(), ArrayError> {
        let decided = self.request(move |tables, state| {
            tables.leaving.insert(disk);
            state.space.set_gives(disk, Gives::Nothing);
            Ok(())
        });
        decided.await?;
        self.upkeep.ring();
        Ok(())
    }

    /// Refuses to let a disk go when some of what it holds has nowhere to go, or when too few
    /// disks would be left. `more` is what a new disk has room for.
    fn check_room(
        &self,
        state: &State,
        leaving: &BTreeSet<DiskId>,
        disk: DiskId,
        (name, more): (&str, Option<u32>),
    ) -> Result<(), ArrayError> {
        let refuse = |reason: String| Err(ArrayError::DiskNeeded { disk: name.to_owned(), reason });
        let last = Event::Left(disk);
        if next_label(&state.label, &[last], ChangeId(0)).is_err()
            && self.usable_disks(&state.label) < 2
        {
            return refuse(
                "no other disk can hold journal and checkpoints: add a disk first".into(),
            );
        }
        let is_data = state.space.chunks.counts(disk).is_some();
        if !is_data {
            return Ok(());
        }
        let all: Vec<DiskId> = leaving.iter().copied().chain([disk]).collect();
        let homeless = self.homeless(state, &all, more);
        if homeless > 0 {
            return refuse(format!(
                "{homeless} chunks of RAID sets on it could go to no other disk, because each is in \
                 the set already or full: add a disk first"
            ));
        }
        let left = state
            .label
            .active()
            .filter(|disk| !all.contains(disk) && state.space.chunks.counts(*disk).is_some());
        let left = left.count() + usize::from(more.is_some());
        let volumes = state.tables.volumes.values().map(|volume| volume.level);
        let needed = volumes.chain([self.level]).max_by_key(|level| level.disks_min());
        match needed.filter(|level| left < level.disks_min()) {
            None => Ok(()),
            Some(level) => refuse(format!(
                "{level} needs {} disks, and {left} would be left: add a disk first",
                level.disks_min()
            )),
        }
    }

    /// Chunks on `leaving` disks that no other disk can take.
    pub(super) fn homeless(&self, state: &State, leaving: &[DiskId], more: Option<u32>) -> usize {
        let now = self.env.now();
        let is_usable = |record: &&MemberRecord| {
            let disk = self.raid.disks().get(record.disk);
            let is_in =
                disk.is_some_and(|disk| disk.access() == Access::Full && !is_suspect(&disk, now));
            is_in && record.state == MemberState::Active
        };
        let usable = state.label.members.iter().filter(is_usable).map(|record| record.disk);
        let free = usable.filter_map(|disk| {
            state.space.chunks.counts(disk).map(|(all, used)| (disk, all - used))
        });
        let new = next_number(&state.label);
        let free = free.chain(more.map(|chunks| (new, chunks)));
        let free = free.filter(|(disk, _)| !leaving.contains(disk)).collect();
        // A new disk takes all of the one that it replaces.
        let keep = |free: &mut BTreeMap<DiskId, u32>| {
            let taken = free.remove_entry(&new);
            state.space.chunks.keep_maps(free);
            free.extend(taken);
        };
        let seats = |set: &Arc<Set>| SetSeats {
            members: set.members().iter().map(|seat| seat.disk).collect(),
            replacement: set.replacement().map(|new| (new.member, new.seat.disk)),
            may_shrink: set.level().is_none(),
        };
        let sets: Vec<SetSeats> = self.sets.all().iter().map(seats).collect();
        without_place(&sets, leaving, free, keep)
    }

    /// Nothing is left on a disk of what it may have been before.
    async fn clear(&self, member: &Member) -> Result<(), ArrayError> {
        if mutants::is(Mutant::KeepAreas) {
            return Ok(());
        }
        for _ in 1..PASSING_TRIES_MAX {
            match label::clear_areas(&*member.device, &self.layout).await {
                // Not that of a flush: another one does not make up for it.
                Err(error) if is_passing(error) => self.env.sleep(RETRY).await,
                Err(error) => {
                    let what = format!("{} cannot be cleared: {error}", member.name);
                    return Err(ArrayError::BadDisk(what));
                }
                Ok(()) => return Ok(()),
            }
        }
        Err(ArrayError::Io(BlockError::NoMemory))
    }

    /// A blank disk becomes a member.
    async fn adopt(
        self: &Arc<Self>,
        kind: MemberKind,
        member: Member,
    ) -> Result<DiskId, ArrayError> {
        self.check_new_size(kind, &member)?;
        self.clear(&member).await?;
        let size_bytes = member.device.geometry().size_bytes();
        let uuid = random_id(&*self.env);
        let name = member.name.clone();
        let mut id = None;
        // The number is given in the same turn as the label that has it.
        let added = self.change_label(|label, _| {
            let number = next_number(label);
            if usize::from(number.0) >= MEMBERS_MAX {
                return Vec::new();
            }
            id = Some(number);
            self.raid.disks().add(number, &member.name, Arc::clone(&member.device));
            vec![Event::Joined { uuid, kind, size_bytes, name }]
        });
        let added = added.await;
        let Some(id) = id else {
            // It has stopped before a number was given.
            added?;
            let what = format!(
                "{}: the array has had {MEMBERS_MAX} disks, as many as there may be",
                member.name
            );
            return Err(ArrayError::BadDisk(what));
        };
        if let Err(error) = added {
            self.raid.disks().forget(id);
            return Err(match error {
                ArrayError::BadDisk(_) => {
                    ArrayError::BadDisk(format!("{} does not take its label", member.name))
                }
                error => error,
            });
        }
        let state = &mut *self.lock();
        if kind == MemberKind::Data {
            state.space.chunks.add_disk(id, self.layout.chunks(size_bytes));
            if state.away.contains_key(&id) {
                // It has failed already.
                state.space.set_gives(id, Gives::Seats);
            }
        }
        let sizes = state.label.data_sizes();
        state.space.set_spare(&self.layout, &sizes);
        state.space.set_lanes();
        state.note(self.env.unix_seconds(), format!("disk {} was added", member.name));
        self.want_checkpoint(state);
        self.work.ring();
        self.upkeep.ring();
        Ok(id)
    }

    /// A member that was away is back, maybe under another path.
    async fn readmit(
        self: &Arc<Self>,
        member: Member,
        label: &label::Label,
    ) -> Result<DiskId, ArrayError> {
        let refuse = |what: &str| Err(ArrayError::BadDisk(format!("{} {what}", member.name)));
        let turn = self.turn_to_take_back(label.disk);
        let _turn = turn.take().await;
        let known = self.lock().label.member(label.disk).cloned();
        match known {
            Some(record) if record.uuid != label.own().uuid => {
                return refuse("carries the number of another disk");
            }
            Some(record) if matches!(record.state, MemberState::Stale(_)) => {
                let member = self.raid.disks().get(record.disk);
                if member.is_some_and(|member| member.access() == Access::Full) {
                    return refuse("is in use already, and is given what it missed");
                }
            }
            Some(record) if record.state == MemberState::Active => {
                return refuse("is in use already");
            }
            _ => return refuse("has left this array: wipe it to use it anew"),
        }
        if !may_return(label, &self.lock().label) {
            return refuse(
                "was used without the others: wipe it to use it anew, when nothing that was written \
                 to it meanwhile is needed",
            );
        }
        self.raid.disks().add_shut(label.disk, &member.name, member.device);
        if self.take_back_in_turn(label.disk).await {
            self.upkeep.ring();
            Ok(label.disk)
        } else {
            Err(ArrayError::BadDisk(format!("{} does not take writes", member.name)))
        }
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::time::Duration;

    use block::BlockDevice;
    use block::testing::{Fault, FaultyDisk, Operation, Rule};
    use futures_util::FutureExt;

    use super::*;
    use crate::Level;
    use crate::testing::arrays::{disk, filled_on, on_a_core};

    /// Four disks and one that nothing is on, behind one another's faults.
    async fn with_an_empty_disk() -> (Array, Vec<Arc<FaultyDisk>>, DiskId) {
        let faulty: Vec<_> = (0..5).map(|_| Arc::new(FaultyDisk::new(disk()))).collect();
        let mut disks: Vec<_> =
            faulty.iter().map(|disk| Arc::clone(disk) as Arc<dyn BlockDevice>).collect();
        let blank = Member { name: "blank".into(), device: disks.pop().unwrap() };
        let (array, _) = filled_on(disks, Level::Raid10).await;
        let id = array.core.adopt(MemberKind::Data, blank).await.unwrap();
        let used = array.core.lock().space.chunks.counts(id).map(|(_, used)| used);
        assert_eq!(used, Some(0), "nothing was moved to it");
        (array, faulty, id)
    }

    #[test]
    fn a_disk_that_is_not_to_leave_any_more_does_not() {
        on_a_core(async {
            let (array, _, id) = with_an_empty_disk().await;
            assert!(!array.core.retire(id).await, "nobody wants it to");
            assert!(array.core.raid.disks().get(id).is_some());
        });
    }

    /// The disk was looked at before the command, and is let go before the command is on the disks.
    #[test]
    fn a_disk_that_is_being_kept_does_not_leave() {
        on_a_core(async {
            let (array, faulty, id) = with_an_empty_disk().await;
            let core = &array.core;
            // As if it had been for long, and somebody had just looked.
            core.lock().tables.leaving.insert(id);
            for disk in &faulty {
                disk.inject(Rule::always(Operation::Flush, Fault::Hang));
                disk.inject(Rule::always(Operation::Write, Fault::Hang));
            }
            let mut kept = pin!(array.cancel_retire("blank"));
            while faulty.iter().all(|disk| disk.held() == 0) {
                assert!(kept.as_mut().now_or_never().is_none(), "it is not on the disks");
                core.env.sleep(Duration::from_millis(1)).await;
            }
            let left = pin!(core.retire(id)).now_or_never();
            assert_eq!(left, Some(false), "it is not let go");
            faulty.iter().for_each(|disk| {
                disk.heal();
                disk.release();
            });
            kept.await.unwrap();
            assert!(core.raid.disks().get(id).is_some_and(|disk| disk.access() == Access::Full));
        });
    }
}

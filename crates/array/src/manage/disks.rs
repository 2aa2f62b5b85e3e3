//! Adding, failing, replacing and retiring disks; scrub and check.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::Array;
use crate::DiskId;
use crate::api::{CheckReport, SettingsChange};
use crate::core::Core;
use crate::error::ArrayError;
use crate::label::{self, Found, MemberKind, MemberRecord, MemberState};
use crate::open::{Member, random_id};
use crate::raid::Access;
use crate::upkeep::Findings;

impl Array {
    /// Takes in a disk: a blank one as a new member, or a member that was away.
    ///
    /// # Errors
    /// [`ArrayError::BadDisk`] with the reason; nothing was written to it then.
    pub async fn add_disk(&self, member: Member) -> Result<DiskId, ArrayError> {
        let found = label::read(&*member.device).await?;
        let bad = |what: String| ArrayError::BadDisk(format!("{} {what}", member.name));
        match found {
            Found::Blank => self.core.adopt(member).await,
            Found::Label { label, .. } if label.array == self.core.id => {
                self.core.readmit(member, &label).await
            }
            Found::Label { label, .. } => Err(bad(format!("belongs to array {}", label.array))),
            Found::Foreign(what) => Err(bad(format!("holds {what}: give a blank disk"))),
            Found::Version(_) | Found::Damaged(_) => {
                Err(bad("was a disk of an array and is damaged: wipe it first".into()))
            }
        }
    }

    /// Declares a disk failed: its data is restored on others at once, and it is not used again.
    ///
    /// # Errors
    /// [`ArrayError::NoSuchDisk`]; [`ArrayError::DiskNeeded`] when data would be lost.
    pub async fn fail_disk(&self, disk: &str) -> Result<(), ArrayError> {
        let id = self.core.disk_by_name(disk)?;
        self.core.check_expendable(id, disk)?;
        if let Some(member) = self.core.raid.disks().get(id) {
            member.set_access(Access::None);
        }
        self.core.sets.all().iter().for_each(|set| set.mark_all_stale(id));
        self.core.disk_failed(id, "an operator declared it failed").await;
        self.core
            .change_label(|label, _| {
                let record = label.members.iter_mut().find(|record| record.disk == id);
                let record = record.expect("members stay in the label");
                // It may have left meanwhile.
                let is_in = record.state != MemberState::Retired;
                if is_in {
                    record.state = MemberState::Failed;
                }
                is_in
            })
            .await;
        self.core.upkeep.ring();
        Ok(())
    }

    /// Empties a disk; it leaves when nothing is on it any more.
    ///
    /// # Errors
    /// [`ArrayError::NoSuchDisk`]; [`ArrayError::DiskNeeded`] when the others have no room.
    pub async fn retire_disk(&self, disk: &str) -> Result<(), ArrayError> {
        let id = self.core.disk_by_name(disk)?;
        {
            let state = &mut *self.core.lock();
            let used = state.space.chunks.counts(id).map_or(0, |(_, used)| used);
            let free_here = state.space.chunks.counts(id).map_or(0, |(all, used)| all - used);
            let free = state.space.chunks.free().saturating_sub(u64::from(free_here));
            if free < u64::from(used) {
                let reason = "the other disks have no room for its data: add a disk first".into();
                return Err(ArrayError::DiskNeeded { disk: disk.to_owned(), reason });
            }
            state.space.chunks.set_open(id, false);
            state.space.set_lanes();
        }
        self.core
            .request(move |tables, _| {
                tables.leaving.insert(id);
                Ok(())
            })
            .await?;
        self.core.upkeep.ring();
        Ok(())
    }

    /// Puts a blank disk in the place of another, which leaves when it is empty.
    ///
    /// # Errors
    /// Those of [`add_disk`](Self::add_disk) and [`retire_disk`](Self::retire_disk).
    pub async fn replace_disk(&self, old: &str, new: Member) -> Result<DiskId, ArrayError> {
        self.core.disk_by_name(old)?;
        let id = self.add_disk(new).await?;
        self.retire_disk(old).await?;
        Ok(id)
    }

    /// Forgets the errors of a disk: whatever was wrong has been put right. If it was being
    /// emptied because of them, it stays.
    ///
    /// # Errors
    /// [`ArrayError::NoSuchDisk`].
    pub async fn clear_disk(&self, disk: &str) -> Result<(), ArrayError> {
        let id = self.core.disk_by_name(disk)?;
        if let Some(disk) = self.core.raid.disks().get(id) {
            disk.forgive();
        }
        {
            let state = &mut *self.core.lock();
            let stays = !state.tables.leaving.contains(&id) && !state.away.contains_key(&id);
            if stays {
                state.space.open_disk(id, true);
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
    fn disk_by_name(&self, name: &str) -> Result<DiskId, ArrayError> {
        let by_name = self.raid.disks().all().into_iter().find(|disk| disk.name() == name);
        let by_number = name.parse().ok().map(DiskId);
        let id = by_name.map(|disk| disk.id()).or(by_number);
        let state = self.lock();
        let is_member = |id: &DiskId| state.label.member(*id).is_some() && !state.retired(*id);
        id.filter(is_member).ok_or_else(|| ArrayError::NoSuchDisk(name.to_owned()))
    }

    /// Refuses to give up a disk whose data nobody else has.
    fn check_expendable(&self, disk: DiskId, name: &str) -> Result<(), ArrayError> {
        let is_lost = |set: &std::sync::Arc<crate::raid::Set>| {
            let members = set.members();
            let is_there = |seat: &crate::raid::Seat| {
                let member = self.raid.disks().get(seat.disk);
                member.is_some_and(|member| member.access() != Access::None)
                    && !set.is_stale_on(seat.disk)
            };
            let is_on = members.iter().any(|seat| seat.disk == disk);
            let left = members.iter().filter(|seat| seat.disk != disk && is_there(seat)).count();
            is_on && left < members.len() - set.losses_max()
        };
        match self.sets.all().iter().find(|set| is_lost(set)) {
            None => Ok(()),
            Some(_) => Err(ArrayError::DiskNeeded {
                disk: name.to_owned(),
                reason: "data on it has no other copy now: retire it instead, or wait until the \
                         array is whole"
                    .into(),
            }),
        }
    }

    /// A blank disk becomes a member.
    async fn adopt(self: &Arc<Self>, member: Member) -> Result<DiskId, ArrayError> {
        let size_bytes = member.device.geometry().size_bytes();
        let fits = self.layout.check_disk(size_bytes);
        fits.map_err(|error| ArrayError::BadDisk(format!("{}: {error}", member.name)))?;
        let next = self.lock().label.members.iter().map(|record| record.disk.0 + 1).max();
        let id = DiskId(next.unwrap_or(0));
        let record = MemberRecord {
            disk: id,
            uuid: random_id(&*self.env),
            size_bytes,
            state: MemberState::Active,
            kind: MemberKind::Data,
        };
        self.raid.disks().add(id, &member.name, Arc::clone(&member.device));
        let added = self.change_label(|label, _| {
            label.members.push(record);
            true
        });
        if !added.await {
            self.raid.disks().remove(id);
            let what = format!("{} does not take its label", member.name);
            return Err(ArrayError::BadDisk(what));
        }
        let state = &mut *self.lock();
        state.space.chunks.add_disk(id, self.layout.chunks(size_bytes));
        let sizes = state.label.data_sizes();
        state.space.set_spare(&self.layout, &sizes);
        state.space.set_lanes();
        state.note(self.env.unix_seconds(), format!("disk {} was added", member.name));
        state.wants_checkpoint = true;
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
        let known = self.lock().label.member(label.disk).cloned();
        match known {
            Some(record) if record.uuid != label.own().uuid => {
                return refuse("carries the number of another disk");
            }
            Some(record) if matches!(record.state, MemberState::Stale { .. }) => {}
            Some(record) if record.state == MemberState::Active => {
                return refuse("is in use already");
            }
            _ => return refuse("has left this array: wipe it to use it anew"),
        }
        let disk = self.raid.disks().add(label.disk, &member.name, member.device);
        // Until it has been tried it is not written to.
        disk.set_access(Access::ReadOnly);
        if self.take_back(label.disk).await {
            self.upkeep.ring();
            Ok(label.disk)
        } else {
            Err(ArrayError::BadDisk(format!("{} does not take writes", member.name)))
        }
    }
}

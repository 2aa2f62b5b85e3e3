//! The newest checkpoint, and disks that have less than the labels say.

use std::sync::Arc;

use block::BlockDevice;

use super::{holders_of, refuse};
use crate::DiskId;
use crate::checkpoint::marks::{Marks, is_ahead, is_behind, set_back};
use crate::checkpoint::slots::{
    Slot, SlotError, is_old_copy, is_older_than_out, read_slots, void_other,
};
use crate::core::{Core, RETRY};
use crate::env::Env;
use crate::error::ArrayError;
use crate::label::{self, Found, Label, MemberRecord};
use crate::membership::{Lack, OpenRefusal, Opening, SetDisks};
use crate::mutants::{self, Mutant};
use crate::raid::{Disks, PASSING_TRIES_MAX};

/// The newest checkpoint.
pub(super) struct Newest {
    pub(super) slot: Slot,
    /// Holders that lack it; some of them may lack everything.
    pub(super) lagging: Vec<DiskId>,
    /// Holders that did not give one of their slots.
    pub(super) unread: Vec<DiskId>,
    /// Disks that know of a newer one, which is given up.
    pub(super) ahead: Vec<DiskId>,
}

impl Newest {
    /// The holders of the checkpoints that have it.
    pub(super) fn believed(&self, opening: &Opening) -> Vec<DiskId> {
        let lacks = |disk: &DiskId| {
            self.lagging.contains(disk) || opening.is_current(*disk) && !opening.has_all(*disk)
        };
        opening.label.holders.iter().copied().filter(|disk| !lacks(disk)).collect()
    }
}

/// Reads it. A holder that has nothing but older ones is no holder: `opening` says so then. One that lacks all
/// its data is one if nobody else has the newest.
pub(super) async fn read_newest(
    env: &dyn Env,
    disks: &Disks,
    opening: &mut Opening,
) -> Result<Newest, ArrayError> {
    let is_asked = |disk: DiskId| match mutants::is(Mutant::BlindToCut) {
        true => opening.has_all(disk),
        false => opening.may_give(disk),
    };
    let holders = holders_of(disks, &opening.label.holders, is_asked);
    let devices: Vec<_> = holders.iter().map(|holder| Arc::clone(&holder.device)).collect();
    let slot = newest_slot(env, &devices, &opening.label).await;
    let slot = slot.map_err(|error| ArrayError::Damaged(error.to_string()))?;
    if opening.goes_back {
        slot.lagging.iter().for_each(|index| opening.condemn(holders[*index].disk));
    }
    for holder in slot.lagging.iter().map(|index| &holders[*index]) {
        let (layout, array) = (opening.label.layout, opening.label.array);
        if is_old_copy(&*holder.device, &layout, array, slot.number).await {
            opening.lacks_all(holder.disk, Lack::Old);
        }
    }
    let out: Vec<DiskId> = opening.stale.iter().map(|(present, _)| present.disk).collect();
    for disk in out {
        let Some(device) = disks.get(disk).map(|disk| Arc::clone(disk.device())) else { continue };
        if let Ok(Found::Label { label, .. }) = label::read(&*device).await
            && is_older_than_out(&*device, &label, &opening.label).await
        {
            opening.lacks_all(disk, Lack::Old);
        }
    }
    let has_it = (0..holders.len()).filter(|index| !slot.lagging.contains(index));
    let has_it: Vec<DiskId> = has_it.map(|index| holders[index].disk).collect();
    let ahead = ahead_of(disks, opening, slot.number).await;
    let lacks_all =
        |disk: &DiskId| opening.label.member(*disk).is_some_and(|record| record.state.lacks_all());
    // What those know that lack all was given up before.
    let is_given_up = !ahead.iter().all(lacks_all);
    if is_given_up && !opening.accepted {
        let (array, names) =
            (opening.label.array, |all: &[DiskId]| opening.names(all.iter().copied()));
        let newer = names(&ahead);
        let unread: Vec<DiskId> = slot.unread.iter().map(|index| holders[*index].disk).collect();
        return Err(refuse(match unread.is_empty() {
            true => OpenRefusal::OldDisks { array, disks: names(&has_it), newer },
            false => OpenRefusal::UnreadCheckpoint { array, disks: names(&unread), newer },
        }));
    }
    opening.goes_back |= is_given_up;
    if opening.goes_back && !mutants::is(Mutant::KeepFuture) {
        // They were out while the others had what is given up now.
        let out: Vec<DiskId> = opening.stale.iter().map(|(present, _)| present.disk).collect();
        out.into_iter().for_each(|disk| opening.lacks_all(disk, Lack::Old));
    }
    if !has_it.iter().any(|disk| opening.has_all(*disk)) {
        has_it.into_iter().for_each(|disk| opening.waive(disk));
    }
    let disks_at = |at: &[usize]| at.iter().map(|index| holders[*index].disk).collect();
    let (lagging, unread) = (disks_at(&slot.lagging), disks_at(&slot.unread));
    Ok(Newest { slot, lagging, unread, ahead })
}

/// Disks in use that know of a newer checkpoint than this one.
async fn ahead_of(disks: &Disks, opening: &Opening, newest: u64) -> Vec<DiskId> {
    let mut ahead = Vec::new();
    let stale = opening.stale.iter().map(|(present, _)| present);
    for disk in opening.current.iter().chain(stale).map(|present| present.disk) {
        let Some(device) = disks.get(disk).map(|disk| Arc::clone(disk.device())) else { continue };
        if is_ahead(&*device, &opening.label.layout, opening.label.array, newest).await {
            ahead.push(disk);
        }
    }
    ahead
}

/// Disks that are older than the newest checkpoint says lack everything. Not those that the RAID sets need all the
/// same, which are given back: what such a disk lacks is found block by block.
pub(super) async fn leave_old_ones(
    disks: &Disks,
    opening: &mut Opening,
    marks: &Marks,
    sets: &[SetDisks],
) -> Vec<DiskId> {
    let (layout, array) = (opening.label.layout, opening.label.array);
    let (mut old, mut needed) = (Vec::new(), Vec::new());
    for (disk, number) in marks {
        let Some(device) = disks.get(*disk).map(|disk| Arc::clone(disk.device())) else { continue };
        if is_behind(&*device, &layout, array, *number).await {
            old.push(*disk);
            if !sets.iter().all(|set| opening.bears_without(set, &old)) {
                needed.extend(old.pop());
            }
        }
    }
    for disk in old {
        opening.lacks_all(disk, Lack::Old);
    }
    needed
}

/// The newest checkpoint that the holders have. What cannot be read for want of memory is asked for again.
async fn newest_slot(
    env: &dyn Env,
    devices: &[Arc<dyn BlockDevice>],
    label: &Label,
) -> Result<Slot, SlotError> {
    for _ in 1..PASSING_TRIES_MAX {
        match read_slots(devices, &label.layout, label.array).await {
            Err(SlotError::NoMemory) => env.sleep(RETRY).await,
            read => return read,
        }
    }
    Err(SlotError::NoMemory)
}

impl Core {
    /// Checkpoints that are given up are known to nobody any more: else no start would believe those that come now.
    /// Holders have the one that counts by now.
    pub(super) async fn forget_later(self: &Arc<Self>, newest: &Newest, opening: &Opening) {
        for disk in &newest.ahead {
            let number = newest.slot.number;
            let is_holder = opening.label.holders.contains(disk) && opening.has_all(*disk);
            let forget = async |device: &dyn BlockDevice| match is_holder {
                true => void_other(device, &self.layout, number).await,
                false => set_back(device, &self.layout, self.id, number).await,
            };
            self.must_take(*disk, "it does not give up a later checkpoint", forget).await;
        }
    }

    /// What lacks all that it should have is to be restored, and nothing of it counts when it is decided whether
    /// the array can be opened.
    pub(super) fn mark_lacking(&self, opening: &Opening) {
        let known = opening.stale.iter().map(|(present, _)| present.disk);
        let knows = |disk: &DiskId| {
            let lacks_all = |record: &MemberRecord| record.state.lacks_all();
            opening.label.member(*disk).is_some_and(lacks_all) && !mutants::is(Mutant::KeepLack)
        };
        let lacking = opening.lacking.iter().map(|(disk, _)| *disk);
        lacking.chain(known.filter(knows)).for_each(|disk| self.mark_lacking_all(disk));
        self.lock().waived.extend(opening.waived.iter().copied());
    }

    /// Tells operators of all that lack something, when the array can be opened.
    pub(super) fn note_lacking_all(&self, opening: &Opening) {
        for (disk, lack) in &opening.lacking {
            self.note_lacking(*disk, *lack);
        }
        for (disk, lack) in &opening.waived {
            let text = format!(
                "disk {} {}: it is used nevertheless, as no other disk has the checkpoints and the journal; \
                 all that it should hold is restored when one has",
                self.disk_name(*disk),
                lack.what()
            );
            tracing::warn!("{text}");
            self.lock().note(self.env.unix_seconds(), text);
        }
    }

    /// Tells operators of disks that are old and that nothing is left without.
    pub(super) fn note_needed(&self, disks: &[DiskId]) {
        for disk in disks {
            let text = format!(
                "disk {} {}: it is used nevertheless, as there is data that the others cannot restore; start a \
                 scrub, which finds what it lacks",
                self.disk_name(*disk),
                Lack::Old.what()
            );
            tracing::warn!("{text}");
            self.lock().note(self.env.unix_seconds(), text);
        }
    }

    /// Tells operators of it.
    pub(crate) fn note_lacking(&self, disk: DiskId, lack: Lack) {
        let (name, what) = (self.disk_name(disk), lack.what());
        let text = format!("disk {name} {what}: all that it should hold is restored");
        tracing::warn!("{text}");
        self.lock().note(self.env.unix_seconds(), text);
    }
}

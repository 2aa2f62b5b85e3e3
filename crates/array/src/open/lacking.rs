//! The newest checkpoint, and disks that have less than the labels say.

use std::sync::Arc;

use block::BlockDevice;

use super::present;
use crate::DiskId;
use crate::checkpoint::slots::{Slot, SlotError, is_old_copy, read_slots};
use crate::core::{Core, RETRY};
use crate::env::Env;
use crate::error::ArrayError;
use crate::label::{Label, MemberRecord};
use crate::membership::{Lack, Opening};
use crate::mutants::{self, Mutant};
use crate::raid::{Disks, PASSING_TRIES_MAX};

/// The newest checkpoint.
pub(super) struct Newest {
    pub(super) slot: Slot,
    /// Holders that lack it.
    pub(super) lagging: Vec<DiskId>,
    /// Holders that did not give one of their slots.
    pub(super) unread: Vec<DiskId>,
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

/// Reads it. A holder that has nothing but older ones is no holder: `opening` says so then.
pub(super) async fn read_newest(
    env: &dyn Env,
    disks: &Disks,
    opening: &mut Opening,
) -> Result<Newest, ArrayError> {
    let holders = present(disks, opening, &opening.label.holders);
    let devices: Vec<_> = holders.iter().map(|holder| Arc::clone(&holder.device)).collect();
    let slot = newest_slot(env, &devices, &opening.label).await;
    let slot = slot.map_err(|error| ArrayError::Damaged(error.to_string()))?;
    for holder in slot.lagging.iter().map(|index| &holders[*index]) {
        let (layout, array) = (opening.label.layout, opening.label.array);
        if is_old_copy(&*holder.device, &layout, array, slot.number).await {
            opening.lacks_all(holder.disk, Lack::Old);
        }
    }
    let disks_at = |at: &[usize]| {
        let disks = at.iter().map(|index| holders[*index].disk);
        disks.filter(|disk| opening.has_all(*disk)).collect::<Vec<DiskId>>()
    };
    let (lagging, unread) = (disks_at(&slot.lagging), disks_at(&slot.unread));
    Ok(Newest { slot, lagging, unread })
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
    /// What lacks all that it should have is restored. Only now, when it is known that the array can be opened:
    /// of a set that lacks more than it survives checksums tell what is right.
    pub(super) fn mark_lacking(&self, opening: &Opening) {
        let known = opening.stale.iter().map(|(present, _)| present.disk);
        let knows = |disk: &DiskId| {
            let lacks_all = |record: &MemberRecord| record.state.lacks_all();
            opening.label.member(*disk).is_some_and(lacks_all) && !mutants::is(Mutant::KeepLack)
        };
        let lacking = opening.lacking.iter().map(|(disk, _)| *disk);
        for disk in lacking.chain(known.filter(knows)) {
            self.sets.all().iter().for_each(|set| set.mark_all_stale(disk));
            self.raid.disks().set_lacks_all(disk, true);
        }
        for (disk, lack) in &opening.lacking {
            self.note_lacking(*disk, *lack);
        }
    }

    /// Tells operators of it.
    pub(crate) fn note_lacking(&self, disk: DiskId, lack: Lack) {
        let text = format!("disk {} {}", self.disk_name(disk), lack.text());
        tracing::warn!("{text}");
        self.lock().note(self.env.unix_seconds(), text);
    }
}

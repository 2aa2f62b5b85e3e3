//! Disks that an operator declares failed.
//!
//! Such a disk may be one that takes requests and does not answer them, and then everybody waits for it: hosts
//! for the journal, the checkpoint, other commands. So nothing is waited for that may wait for the disk before
//! it is [condemned](Core::condemn), which lets all of them go.

use std::pin::pin;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use futures_util::future::{Either, select};

use super::Array;
use crate::DiskId;
use crate::core::{CONDEMNED, Core};
use crate::error::ArrayError;
use crate::membership::Event;
use crate::raid::{Access, Disk, Seat, Set};

/// How long the checkpoint may take that is to bring the checkpoints to other disks than the one that failed.
const HANDOVER: Duration = Duration::from_secs(10);

impl Array {
    /// Declares a disk failed: its data is restored on others at once, and it is not used again. Whoever
    /// waits for an answer of it waits no longer. With `accepts_loss` also when nobody else has some of its
    /// data, which is lost then.
    ///
    /// It does not wait for other commands about disks: those may wait for this one.
    ///
    /// # Errors
    /// [`ArrayError::NoSuchDisk`]; [`ArrayError::DiskNeeded`] when data would be lost, or it alone has the
    /// newest checkpoint.
    pub async fn fail_disk(&self, disk: &str, accepts_loss: bool) -> Result<(), ArrayError> {
        let core = &self.core;
        let id = core.disk_by_name(disk)?;
        let check = || if accepts_loss { Ok(()) } else { core.check_expendable(id, disk) };
        check()?;
        let label = core.lock().label.clone();
        if core.is_needed_for_checkpoints(&label, id) {
            core.hand_over_checkpoints(id, disk).await?;
        }
        {
            // What one of two commands has found to be right is not changed by the other until it is done.
            let _one = core.condemning.lock().unwrap_or_else(PoisonError::into_inner);
            check()?;
            core.condemn(id);
        }
        core.declare_failed(id).await
    }
}

impl Core {
    /// Refuses to give up a disk whose data nobody else has.
    fn check_expendable(&self, disk: DiskId, name: &str) -> Result<(), ArrayError> {
        let is_lost = |set: &Arc<Set>| {
            let members = set.members();
            let is_there = |seat: &Seat| {
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
                         array is whole; if it is gone for good, accept that what only it has is lost"
                    .into(),
            }),
        }
    }

    /// Others are about to hold the checkpoints: the next one brings them there, unless it waits for the disk
    /// itself. Then those that are left have to do, if there are any.
    async fn hand_over_checkpoints(
        self: &Arc<Self>,
        disk: DiskId,
        name: &str,
    ) -> Result<(), ArrayError> {
        let checkpointed = pin!(self.checkpointed());
        match select(checkpointed, self.env.sleep(HANDOVER)).await {
            Either::Left((checkpointed, _)) => return checkpointed,
            Either::Right(_) => {}
        }
        let is_left = |other: &Arc<Disk>| other.id() != disk && other.access() == Access::Full;
        match self.holders().iter().any(is_left) {
            true => Ok(()),
            false => Err(ArrayError::DiskNeeded {
                disk: name.to_owned(),
                reason: "it alone has the newest checkpoint, and the next one does not end".into(),
            }),
        }
    }

    /// An operator says that a disk is not to be used again: from here on nothing is asked of it, and nobody
    /// waits for it. Whoever finds it so makes it durable that it failed.
    fn condemn(&self, disk: DiskId) {
        self.lock().condemned.insert(disk);
        self.give_up(disk);
        self.raid.disks().revoke(disk);
    }

    /// Makes it durable that a disk was condemned.
    async fn declare_failed(self: &Arc<Self>, disk: DiskId) -> Result<(), ArrayError> {
        let mut is_new = false;
        let changed = self.change_label(|label, state| {
            state.condemned.remove(&disk);
            is_new = self.note_away(label, state, disk, CONDEMNED);
            vec![Event::Failed(disk)]
        });
        // Writes go on without it already: what no label says must not be answered.
        if let Err(error) = changed.await {
            self.stop(&error);
            return Err(error);
        }
        if is_new {
            self.tell_out(disk, CONDEMNED);
        }
        self.journal.keep_holders(|holder| holder != disk);
        self.work.ring();
        self.upkeep.ring();
        Ok(())
    }
}

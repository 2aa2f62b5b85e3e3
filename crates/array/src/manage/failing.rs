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
use crate::mutants::{self, Mutant};
use crate::raid::Disk;

/// How long the checkpoint may take that is to bring the checkpoints to other disks than the one that failed.
const HANDOVER: Duration = Duration::from_secs(10);

impl Array {
    /// Declares a disk failed: its data is restored on others at once, and it is not used again. Whoever
    /// waits for an answer of it waits no longer. With `accepts_loss` also when nobody else has some of its
    /// data, which is lost then.
    ///
    /// A disk that is just being added and does not take its label is let go: it does not join then.
    ///
    /// It does not wait for other commands about disks: those may wait for this one.
    ///
    /// # Errors
    /// [`ArrayError::NoSuchDisk`]; [`ArrayError::DiskNeeded`] when data would be lost, or, whatever is
    /// accepted, it alone has the newest checkpoint or the journal: without those there is no array.
    pub async fn fail_disk(&self, disk: &str, accepts_loss: bool) -> Result<(), ArrayError> {
        let core = &self.core;
        let id = match core.disk_by_name(disk) {
            Err(ArrayError::NoSuchDisk(_)) if core.give_up_joining(disk) => return Ok(()),
            id => id?,
        };
        let check = || if accepts_loss { Ok(()) } else { core.check_expendable(id, disk) };
        check()?;
        let is_needed = core.is_needed_for_checkpoints(&core.lock(), id);
        if is_needed {
            core.hand_over_checkpoints(id, disk).await?;
        }
        {
            // What one of two commands has found to be right is not changed by the other until it is done.
            let _one = core.condemning.lock().unwrap_or_else(PoisonError::into_inner);
            check()?;
            core.check_others_hold(id, disk)?;
            core.condemn(id);
        }
        core.declare_failed(id).await
    }
}

impl Core {
    /// Lets a disk go that is about to join, and of which no label says so yet; whether there is one.
    fn give_up_joining(&self, name: &str) -> bool {
        let is_it =
            |disk: &Arc<Disk>| disk.name() == name && self.lock().label.member(disk.id()).is_none();
        let joining = self.raid.disks().all().into_iter().find(is_it);
        joining.iter().for_each(|disk| self.raid.disks().revoke(disk.id()));
        joining.is_some()
    }

    /// Refuses to give up a disk whose data nobody else has.
    fn check_expendable(&self, disk: DiskId, name: &str) -> Result<(), ArrayError> {
        if self.sets.bear_without(disk, self.raid.disks()) {
            return Ok(());
        }
        let reason = "data on it has no other copy now: retire it instead, or wait until the array is \
                      whole; if it is gone for good, accept that what only it has is lost";
        Err(ArrayError::DiskNeeded { disk: name.to_owned(), reason: reason.into() })
    }

    /// Refuses to give up the last disk with the checkpoints or the journal: no label could say it, and the
    /// array would stop.
    fn check_others_hold(&self, disk: DiskId, name: &str) -> Result<(), ArrayError> {
        let label = self.lock().label.clone();
        let Some(what) = self.held_alone(&label, disk).filter(|_| !mutants::is(Mutant::FailLast))
        else {
            return Ok(());
        };
        let reason =
            format!("it alone has {what}: wait until another disk is up to date, or add one");
        Err(ArrayError::DiskNeeded { disk: name.to_owned(), reason })
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
        let label = self.lock().label.clone();
        match self.is_any_left(&label.holders, disk) {
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

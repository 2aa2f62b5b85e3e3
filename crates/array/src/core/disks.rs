//! I/O on all disks together, and on those that hold journal and checkpoints.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use block::{BlockDevice, BlockError};
use futures_util::future::join_all;

use super::touched::Stripe;
use super::{Core, RETRY, State};
use crate::checkpoint::marks;
use crate::checkpoint::slots::{SlotError, write_slot};
use crate::error::ArrayError;
use crate::label::MemberState;
use crate::membership::{Event, is_unflushed};
use crate::mutants::{self, Mutant};
use crate::raid::{Access, Disk, Heal, PASSING_TRIES_MAX, Set, is_passing};
use crate::{DiskId, Place};

type Write<'a> = Pin<Box<dyn Future<Output = Result<(), BlockError>> + 'a>>;

impl Core {
    /// Destaging is about to write to these places, and not durably.
    pub(crate) fn touch(&self, places: impl Iterator<Item = Place>) {
        self.touch_stripes(places.map(|place| self.stripe_of(place)));
    }

    /// The same for stripes.
    pub(crate) fn touch_stripes(&self, stripes: impl Iterator<Item = Stripe>) {
        self.touched.change(stripes);
    }

    /// Makes durable what was written so far.
    ///
    /// # Errors
    /// [`ArrayError::Unflushed`] when some of it may be lost on more disks than a level survives:
    /// the journal must keep it, and the redo area too.
    pub(crate) async fn flush_disks(&self) -> Result<(), ArrayError> {
        self.flush_marking(None).await.map(|_| ())
    }

    /// The same, and with it the number of the checkpoint that is about to be made on each disk that was written
    /// to: these disks.
    ///
    /// # Errors
    /// As for [`flush_disks`](Self::flush_disks).
    pub(crate) async fn flush_marking(
        &self,
        number: Option<u64>,
    ) -> Result<Vec<DiskId>, ArrayError> {
        let before = self.touched.of_checkpoint();
        let sets = self.sets.all();
        // A set that has lost too many already was not written to.
        let was_whole =
            |set: &&Arc<Set>| set.losses_max() > 0 && self.missing_members(set) <= set.losses_max();
        let whole: Vec<&Arc<Set>> = sets.iter().filter(was_whole).collect();
        let mut disks = self.raid.disks().all();
        disks.retain(|disk| self.raid.is_in_use(disk));
        let mut marked = match number {
            Some(number) => self.mark_disks(number).await,
            None => Vec::new(),
        };
        sets.iter().for_each(|set| set.flush_begins());
        self.raid.flush().await;
        sets.iter().for_each(|set| set.flush_ends());
        // Who brings a set up to date may find meanwhile that it lacks more than it seemed to: that
        // loses nothing.
        disks.retain(|disk| !self.raid.is_in_use(disk));
        let is_touched = |set: &Arc<Set>| before.iter().any(|(id, _)| *id == set.id());
        let is_on = |set: &Arc<Set>, disk| set.seats().iter().any(|seat| seat.disk == disk);
        let went_out = |set: &Arc<Set>| disks.iter().any(|disk| is_on(set, disk.id()));
        let is_lost = |set: &&Arc<Set>| {
            went_out(set)
                && is_unflushed(self.missing_members(set), set.losses_max())
                && is_touched(set)
        };
        if whole.into_iter().any(|set| is_lost(&set)) {
            return Err(ArrayError::Unflushed);
        }
        self.touched.flushed(&before);
        marked.retain(|disk| self.raid.is_in_use(disk));
        Ok(marked.iter().map(|disk| disk.id()).collect())
    }

    async fn mark_disks(&self, number: u64) -> Vec<Arc<Disk>> {
        match marks::mark(&self.layout, self.id, number) {
            Some((at, mark)) => self.raid.mark(at, &mark).await,
            None => Vec::new(),
        }
    }

    /// Whether `device` is older than what the last checkpoint says of this disk.
    pub(crate) async fn is_behind(&self, disk: DiskId, device: &dyn BlockDevice) -> bool {
        let mark = self.lock().marks.get(&disk).copied();
        match mark {
            Some(number) => marks::is_behind(device, &self.layout, self.id, number).await,
            None => false,
        }
    }

    /// What was written to these stripes is where their level wants it, flushed.
    ///
    /// # Errors
    /// [`ArrayError::Unflushed`] when more disks than the level survives went out since, and what
    /// they had taken may be gone: the journal must keep it.
    pub(crate) fn check_flushed(&self, stripes: &[Stripe]) -> Result<(), ArrayError> {
        if mutants::is(Mutant::BlindFlush) {
            return Ok(());
        }
        for (id, stripe) in stripes {
            // One that was dissolved since holds nothing.
            let Some(set) = self.sets.find(*id) else { continue };
            if set.losses_max() > 0 && !self.raid.is_readable(&set, *stripe) {
                return Err(ArrayError::Unflushed);
            }
        }
        Ok(())
    }

    /// Tells disks that failed or were declared failed, and are never used again.
    pub(crate) fn gone_for_good(&self) -> impl Fn(DiskId) -> bool + use<> {
        let state = self.lock();
        let members = state.label.members.iter();
        let failed = members.filter(|record| record.state == MemberState::Failed);
        let gone: Vec<DiskId> = failed.map(|record| record.disk).collect();
        move |disk| gone.contains(&disk)
    }

    /// The stripe that a place lies in.
    pub(crate) fn stripe_of(&self, place: Place) -> Stripe {
        let (stripe, _) = self.sets.get(place.set()).shape().locate(place.slot());
        (place.set(), stripe)
    }

    /// Does `write` on every holder, and again where there is no memory for it; one that fails is out
    /// before this returns.
    pub(crate) async fn write_to_holders<'a>(
        self: &Arc<Self>,
        write: impl Fn(&Arc<dyn BlockDevice>) -> Write<'a>,
    ) -> Result<(), ArrayError> {
        let holders = self.writable_holders();
        let write = &write;
        let writes = holders.iter().map(|disk| async move {
            for _ in 1..PASSING_TRIES_MAX {
                match write(disk.device()).await {
                    Err(error) if is_passing(error) => self.env.sleep(RETRY).await,
                    result => return result,
                }
            }
            write(disk.device()).await
        });
        let results = join_all(writes).await;
        self.settle_holders(&holders, results).await
    }

    fn writable_holders(&self) -> Vec<Arc<Disk>> {
        self.holders().into_iter().filter(|disk| disk.access() == Access::Full).collect()
    }

    /// Holders that were closed a moment ago lack what the others have got, and a start that finds one of them alone
    /// must not believe it: nothing is relied on before the labels say so.
    async fn put_out_closed_holders(self: &Arc<Self>) {
        let closed = self.holders().into_iter().filter(|disk| disk.access() != Access::Full);
        for disk in closed.filter(|_| !mutants::is(Mutant::HastyHolders)) {
            let state = self.lock().label.member(disk.id()).map(|record| record.state);
            if state == Some(MemberState::Active) {
                self.disk_failed(disk.id(), "a write to it failed").await;
            }
        }
    }

    async fn settle_holders(
        self: &Arc<Self>,
        holders: &[Arc<Disk>],
        results: Vec<Result<(), BlockError>>,
    ) -> Result<(), ArrayError> {
        let mut left = 0;
        let pairs = holders.iter().zip(&results);
        // Nobody may flush the second one while the labels are told of the first.
        pairs.filter(|(_, result)| result.is_err()).for_each(|(disk, _)| self.shut(disk.id()));
        for (disk, result) in holders.iter().zip(results) {
            match result {
                Ok(()) => left += 1,
                Err(error) => {
                    disk.refused(error);
                    self.disk_failed(disk.id(), &format!("a write failed: {error}")).await;
                    disk.settle();
                }
            }
        }
        if left == 0 {
            return Err(ArrayError::Lost);
        }
        self.put_out_closed_holders().await;
        // Once the array has stopped, or is being closed, no label tells that one of them is out.
        let state = self.lock();
        if mutants::is(Mutant::LoneRecord) { state.check_working() } else { state.check_open() }
    }

    /// Writes a checkpoint record to all holders, and to disks that become holders with it: those that are
    /// `joining` and still in.
    pub(crate) async fn write_record(
        self: &Arc<Self>,
        number: u64,
        payload: &[u8],
        mut joining: Vec<Arc<Disk>>,
    ) -> Result<(), ArrayError> {
        let mut holders = self.writable_holders();
        joining.retain(|disk| disk.access() == Access::Full);
        let mut is_joined = false;
        for holder in self.joining_journal(&joining) {
            // Batches from now on reach it too, and it is given what is there already.
            let joined = loop {
                match self.journal.join(&holder).await {
                    // That there is no memory for a moment says nothing about the disk. The error of a
                    // journal that has failed does not pass.
                    Err(error) if is_passing(error) && self.journal.failure().is_none() => {
                        self.env.sleep(RETRY).await;
                    }
                    joined => break joined,
                }
            };
            match joined {
                Ok(()) => is_joined = true,
                Err(error) => {
                    let reason = format!("it cannot hold the journal: {error}");
                    self.disk_refused(holder.disk, error);
                    self.disk_failed(holder.disk, &reason).await;
                }
            }
        }
        holders.extend(joining.iter().cloned());
        let devices: Vec<_> = holders.iter().map(|disk| Arc::clone(disk.device())).collect();
        let mut tries = 0;
        let results = loop {
            tries += 1;
            let is_last = tries >= PASSING_TRIES_MAX;
            let failed = |index: usize, error| {
                if is_last || !is_passing(error) {
                    holders[index].flush_failed(error);
                }
            };
            let want = |result: &Result<(), BlockError>| result.is_err_and(is_passing);
            match write_slot(&devices, &self.layout, self.id, (number, payload), &failed).await {
                Ok(results) if is_last || !results.iter().any(want) => break results,
                Ok(_) | Err(SlotError::NoMemory) => self.env.sleep(RETRY).await,
                Err(error) => return Err(ArrayError::Damaged(error.to_string())),
            }
        };
        let is_new = |disk: &Arc<Disk>| joining.iter().any(|joined| joined.id() == disk.id());
        let pairs = holders.iter().zip(&results);
        let joined = pairs.filter(|(disk, result)| result.is_ok() && is_new(disk));
        let joined: Vec<DiskId> = joined.map(|(disk, _)| disk.id()).collect();
        self.settle_holders(&holders, results).await?;
        if is_joined || !joined.is_empty() {
            // One may have failed in the meantime: who has all of it now is asked under the turn.
            let journal = |state: &State| Event::HoldJournal(self.journal_on(state));
            self.change_label(|_, state| vec![Event::HoldCheckpoints(joined), journal(state)])
                .await?;
            let named = self.lock().label.journal.clone();
            self.journal.keep_holders(|disk| named.contains(&disk));
            // One that was needed for them may leave now.
            self.upkeep.ring();
        }
        Ok(())
    }

    /// Blocks that should be rewritten from redundancy.
    pub(crate) fn queue_heals(&self, heals: Vec<Heal>) {
        if !heals.is_empty() {
            self.lock().heals.extend(heals);
            self.upkeep.ring();
        }
    }
}

#[cfg(test)]
mod tests;

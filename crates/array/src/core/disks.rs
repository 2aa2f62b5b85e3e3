//! I/O on all disks together, and on those that hold journal and checkpoints.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use block::{BlockDevice, BlockError};
use futures_util::future::join_all;

use super::Core;
use super::touched::Stripe;
use crate::checkpoint::slots::write_slot;
use crate::error::ArrayError;
use crate::journal::Holder;
use crate::label::MemberState;
use crate::raid::{Access, Disk, Heal};
use crate::{DiskId, Place};

type Write<'a> = Pin<Box<dyn Future<Output = Result<(), BlockError>> + 'a>>;

impl Core {
    /// Destaging is about to write to these places, and not durably.
    pub(crate) fn touch(&self, places: impl Iterator<Item = Place>) {
        let stripes = places.map(|place| {
            let (stripe, _) = self.sets.get(place.set()).shape().locate(place.slot());
            (place.set(), stripe)
        });
        self.touch_stripes(stripes);
    }

    /// The same for stripes.
    pub(crate) fn touch_stripes(&self, stripes: impl Iterator<Item = Stripe>) {
        self.touched.add(stripes);
    }

    /// Makes durable what was written so far.
    pub(crate) async fn flush_disks(&self) {
        let before = self.touched.of_checkpoint();
        let sets = self.sets.all();
        sets.iter().for_each(|set| set.flush_begins());
        self.raid.flush().await;
        sets.iter().for_each(|set| set.flush_ends());
        self.touched.flushed(&before);
    }

    /// Does `write` on every holder; one that fails is out before this returns.
    pub(crate) async fn write_to_holders<'a>(
        self: &Arc<Self>,
        write: impl Fn(&Arc<dyn BlockDevice>) -> Write<'a>,
    ) -> Result<(), ArrayError> {
        let holders = self.writable_holders();
        let writes = holders.iter().map(|disk| write(disk.device()));
        let results = join_all(writes).await;
        self.settle_holders(&holders, results).await
    }

    fn writable_holders(&self) -> Vec<Arc<Disk>> {
        self.holders().into_iter().filter(|disk| disk.access() == Access::Full).collect()
    }

    async fn settle_holders(
        self: &Arc<Self>,
        holders: &[Arc<Disk>],
        results: Vec<Result<(), BlockError>>,
    ) -> Result<(), ArrayError> {
        let mut left = 0;
        for (disk, result) in holders.iter().zip(results) {
            match result {
                Ok(()) => left += 1,
                Err(error) => {
                    self.disk_failed(disk.id(), &format!("a write failed: {error}")).await;
                }
            }
        }
        if left == 0 { Err(ArrayError::Lost) } else { Ok(()) }
    }

    /// Writes a checkpoint record to all holders, and to disks that become holders with it.
    pub(crate) async fn write_record(
        self: &Arc<Self>,
        number: u64,
        payload: &[u8],
    ) -> Result<(), ArrayError> {
        let mut holders = self.writable_holders();
        let joining = self.joining_holders();
        for disk in &joining {
            if self.has_journal_disks() {
                continue;
            }
            // Batches from now on reach it too, and it is given what is there already.
            let mut all = self.journal_holders();
            let new = Holder { disk: disk.id(), device: Arc::clone(disk.device()) };
            all.push(new.clone());
            self.journal.set_holders(all);
            if let Err(error) = self.journal.fill(&new).await {
                self.disk_failed(disk.id(), &format!("it cannot hold the journal: {error}")).await;
            }
        }
        holders.extend(joining.iter().cloned());
        let devices: Vec<_> = holders.iter().map(|disk| Arc::clone(disk.device())).collect();
        let written = write_slot(&devices, &self.layout, self.id, number, payload).await;
        let results = written.map_err(|error| ArrayError::Damaged(error.to_string()))?;
        let joined: Vec<_> = holders
            .iter()
            .zip(&results)
            .filter(|(disk, result)| result.is_ok() && joining.iter().any(|j| j.id() == disk.id()))
            .map(|(disk, _)| disk.id())
            .collect();
        self.settle_holders(&holders, results).await?;
        if !joined.is_empty() {
            self.change_label(|label, _| {
                // One may have failed in the meantime.
                let is_in = |disk: &DiskId| {
                    let record = label.member(*disk);
                    record.is_some_and(|record| record.state == MemberState::Active)
                        && !label.holders.contains(disk)
                };
                let new: Vec<DiskId> = joined.iter().copied().filter(is_in).collect();
                label.holders.extend(&new);
                !new.is_empty()
            })
            .await;
            self.use_holders();
        }
        Ok(())
    }

    /// Whether the journal has disks of its own.
    fn has_journal_disks(&self) -> bool {
        !self.lock().label.journal_disks().is_empty()
    }

    /// Blocks that should be rewritten from redundancy.
    pub(crate) fn queue_heals(&self, heals: Vec<Heal>) {
        if !heals.is_empty() {
            self.lock().heals.extend(heals);
            self.upkeep.ring();
        }
    }
}

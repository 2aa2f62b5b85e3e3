//! The RAID sets of an array, and I/O on places in them.

use std::collections::HashMap;
use std::sync::{Arc, RwLock};

use block::{BlockError, WriteFlags};
use ring::Data;

use super::{Core, RETRY};
use crate::error::ArrayError;
use crate::label;
use crate::mutants::{self, Mutant};
use crate::raid::{Access, Disks, Layout, Read, ReadError, Seat, Set, WriteError};
use crate::tree::{Missing, Page, PageAddr};
use crate::{BLOCK_BYTES, DiskId, Place, SetId};

/// All sets by number. Shared by all cores.
#[derive(Debug, Default)]
pub(crate) struct Sets(RwLock<HashMap<SetId, Arc<Set>>>);

impl Sets {
    pub(crate) fn add(&self, set: Arc<Set>) {
        let before = self.0.write().expect("no panic under this lock").insert(set.id(), set);
        assert!(before.is_none(), "numbers of sets are not used again");
    }

    /// The set of this number.
    ///
    /// # Panics
    /// When there is none: maps name only sets that there are.
    pub(crate) fn get(&self, id: SetId) -> Arc<Set> {
        self.find(id).expect("maps name sets that there are")
    }

    pub(crate) fn find(&self, id: SetId) -> Option<Arc<Set>> {
        self.0.read().expect("no panic under this lock").get(&id).cloned()
    }

    /// Takes out a set, if nobody else has it at hand.
    pub(crate) fn remove_unused(&self, id: SetId) -> Option<Arc<Set>> {
        let mut sets = self.0.write().expect("no panic under this lock");
        let is_unused = sets.get(&id).is_some_and(|set| Arc::strong_count(set) == 1);
        if is_unused { sets.remove(&id) } else { None }
    }

    /// All of them, as a checkpoint keeps them.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        self.all().iter().for_each(|set| set.record().encode(&mut bytes));
        bytes
    }

    /// All of them, by number.
    pub(crate) fn all(&self) -> Vec<Arc<Set>> {
        let sets = self.0.read().expect("no panic under this lock");
        let mut all: Vec<_> = sets.values().cloned().collect();
        all.sort_by_key(|set| set.id());
        all
    }

    /// Whether others than `disk` give all that every set has.
    pub(crate) fn bear_without(&self, disk: DiskId, disks: &Disks) -> bool {
        let bears = |set: &Arc<Set>| {
            let members = set.members();
            let is_there = |seat: &Seat| {
                let member = disks.get(seat.disk);
                member.is_some_and(|member| member.access() != Access::None)
                    && !set.is_stale_on(seat.disk)
            };
            let is_on = members.iter().any(|seat| seat.disk == disk);
            let left = members.iter().filter(|seat| seat.disk != disk && is_there(seat)).count();
            !is_on || left >= members.len() - set.losses_max()
        };
        self.all().iter().all(bears)
    }
}

/// Where chunks lie on disks of this layout.
pub(crate) fn set_layout(layout: &label::Layout) -> Layout {
    Layout { data_start: layout.chunks_at(), chunk_bytes: layout.chunk_bytes }
}

impl Core {
    pub(crate) fn set_layout(&self) -> Layout {
        set_layout(&self.layout)
    }

    /// Reads blocks of a cluster.
    pub(crate) fn read_place(&self, place: Place, first: usize, crcs: &[u32]) -> Read {
        self.raid.read(&self.sets.get(place.set()), place.slot(), first, crcs)
    }

    /// Writes blocks of a cluster of a set without parity.
    pub(crate) async fn write_place(
        &self,
        place: Place,
        first: usize,
        data: Data,
        flags: WriteFlags,
    ) -> Result<(), WriteError> {
        let set = self.sets.get(place.set());
        until_done(|| self.raid.write_slot(&set, place.slot(), first, data.clone(), flags), self)
            .await
    }

    /// A page, from the first copy that verifies, up to date or not; others that do not are written
    /// again from one that is. Copies that cannot be read for a passing reason, such as memory, are
    /// tried until they can.
    pub(super) async fn read_page(&self, missing: &Missing) -> Option<Page> {
        let wanted = missing.page;
        let (slot, block) = wanted.addr.slot();
        let set = self.sets.find(wanted.addr.set())?;
        loop {
            let (mut is_bad, mut is_passing) = (false, false);
            // While its members are away a replacement may be the only one that took a page.
            let seats = match mutants::is(Mutant::MembersAlone) {
                true => 0..set.members().len(),
                false => 0..set.seats().len(),
            };
            // One that keeps others waiting comes last.
            let mut seats: Vec<usize> = seats.collect();
            let known = set.seats();
            seats.sort_by_key(|seat| known.get(*seat).is_some_and(|seat| self.raid.is_late(*seat)));
            let fresh = seats.iter().map(|seat| (*seat, false));
            for (seat, is_stale) in fresh.chain(seats.iter().map(|seat| (*seat, true))) {
                let copy = (seat, is_stale);
                let copy = self.raid.read_copy(&set, slot, block..block + 1, copy).await;
                is_passing |= matches!(copy, Err(ReadError::Later(_)));
                let Ok(data) = copy else { continue };
                let mut page: Page = [0; BLOCK_BYTES];
                data.copy_to(0, &mut page);
                if wanted.verifies(&page) {
                    // A disk that missed writes may hold what was there before: a rebuild, which
                    // knows all maps, may take it from there.
                    if is_bad && !is_stale && !mutants::is(Mutant::KeepPage) {
                        self.rewrite_page(&set, missing, page).await;
                    }
                    return Some(page);
                }
                is_bad |= !is_stale;
            }
            if !is_passing {
                return None;
            }
            self.env.sleep(RETRY).await;
        }
    }

    /// Some copy of this page was not it.
    async fn rewrite_page(&self, set: &Arc<Set>, missing: &Missing, page: Page) {
        let (slot, block) = missing.page.addr.slot();
        {
            let state = &mut *self.lock();
            if !state.is_there(missing) && !mutants::is(Mutant::BlindPage) {
                return;
            }
            // At the first, and at each power of ten: a disk may have many.
            state.rewritten_pages += 1;
            let count = state.rewritten_pages;
            if 10_u64.pow(count.ilog10()) == count {
                tracing::warn!("damaged pages of metadata are written again, {count} so far");
            }
        }
        let mut buf = self.buffer(BLOCK_BYTES).await;
        buf.copy_from_slice(&page);
        let write = self.raid.write_slot(set, slot, block, buf.freeze(), WriteFlags::VOLATILE);
        if let Err(error) = write.await {
            tracing::warn!("it could not be: {error}");
        }
    }

    /// Writes a page, not yet durably.
    pub(crate) async fn write_page(&self, addr: PageAddr, page: &Page) -> Result<(), ArrayError> {
        let (slot, block) = addr.slot();
        let set = self.sets.get(addr.set());
        let mut buf = self.buffer(BLOCK_BYTES).await;
        buf.copy_from_slice(page);
        let data = buf.freeze();
        let flags = WriteFlags::VOLATILE;
        self.touch_stripes(std::iter::once((set.id(), slot)));
        let write = || self.raid.write_slot(&set, slot, block, data.clone(), flags);
        Ok(until_done(write, self).await?)
    }
}

/// Repeats a write that could not be done for a passing reason.
pub(crate) async fn until_done<F>(write: impl Fn() -> F, core: &Core) -> Result<(), WriteError>
where
    F: Future<Output = Result<(), WriteError>>,
{
    loop {
        match write().await {
            Err(WriteError::Later(_)) => core.env.sleep(crate::core::RETRY).await,
            result => return result,
        }
    }
}

impl From<WriteError> for ArrayError {
    fn from(error: WriteError) -> Self {
        match error {
            WriteError::Lost | WriteError::Half => Self::Lost,
            WriteError::Later(error) => Self::Io(error),
        }
    }
}

impl From<ReadError> for ArrayError {
    fn from(error: ReadError) -> Self {
        match error {
            ReadError::Lost => Self::Lost,
            ReadError::Damaged { .. } | ReadError::Unproved => {
                Self::Io(BlockError::Medium { at: 0 })
            }
            ReadError::Later(error) => Self::Io(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use block::testing::{Fault, FaultyDisk, Operation, Rule};
    use block::{BlockDevice, BlockError};
    use ring::Buf;

    use super::*;
    use crate::raid::Seat;
    use crate::testing::arrays::{disk, filled_on, on_a_core, set_of};
    use crate::tree::PageRef;
    use crate::{Array, DiskId, Level};

    /// Four disks with a volume.
    async fn filled() -> (Array, Vec<Arc<FaultyDisk>>) {
        let disks: Vec<_> = (0..4).map(|_| Arc::new(FaultyDisk::new(disk()))).collect();
        let devices = disks.iter().map(|disk| Arc::clone(disk) as Arc<dyn BlockDevice>);
        (filled_on(devices.collect(), Level::Raid1).await.0, disks)
    }

    /// A page of its map, as somebody asks for it.
    fn asked(core: &Core) -> Missing {
        let state = core.lock();
        let page = state.tables.volumes.values().find_map(|volume| volume.head.root);
        let page = page.expect("a volume has a map");
        Missing { page, reader: Arc::clone(state.pages.readers()) }
    }

    /// What the first member of the set has of a page, and what it has from now on.
    async fn swap_first(core: &Core, disks: &[Arc<FaultyDisk>], page: PageRef, new: &Page) -> Page {
        let (set, (slot, block)) = (core.sets.get(page.addr.set()), page.addr.slot());
        let seat = set.members()[0];
        let (disk, at) = (&disks[usize::from(seat.disk.0)], set.byte_at(seat, slot, block));
        let mut before = [0; BLOCK_BYTES];
        disk.read(at, BLOCK_BYTES).await.unwrap().copy_to(0, &mut before);
        let mut buf = Buf::alloc(BLOCK_BYTES).unwrap();
        buf.copy_from_slice(new);
        disk.write(at, buf.freeze(), WriteFlags::DURABLE).await.unwrap();
        before
    }

    #[test]
    fn a_copy_of_a_page_that_is_wrong_is_written_again() {
        on_a_core(async {
            let (array, disks) = filled().await;
            let (core, missing) = (&array.core, asked(&array.core));
            let right = swap_first(core, &disks, missing.page, &[0; BLOCK_BYTES]).await;
            assert!(missing.page.verifies(&right));
            assert!(core.read_page(&missing).await == Some(right), "others have it");
            let found = swap_first(core, &disks, missing.page, &right).await;
            assert!(found == right, "it is as the others");
        });
    }

    /// Who asked for it before that reads it from a copy that is not written over yet.
    #[test]
    fn a_page_whose_place_is_anothers_by_now_is_not_written_over_that() {
        on_a_core(async {
            let (array, disks) = filled().await;
            let (core, missing) = (&array.core, asked(&array.core));
            let other: Page = [7; BLOCK_BYTES];
            let by_now = PageRef { crc: !missing.page.crc, ..missing.page };
            core.lock().pages.hold(by_now, Arc::new(other));
            let right = swap_first(core, &disks, missing.page, &other).await;
            assert!(core.read_page(&missing).await == Some(right));
            let found = swap_first(core, &disks, missing.page, &other).await;
            assert!(found == other, "it is the other one's");
        });
    }

    #[test]
    fn a_page_that_only_a_replacement_has_is_found() {
        on_a_core(async {
            let (array, disks) = filled().await;
            let (core, set, missing) = (&array.core, set_of(&array.core, None), asked(&array.core));
            let page = missing.page;
            assert_eq!(page.addr.set(), set.id());
            let members = set.members();
            let other = (0..4).map(DiskId).find(|id| members.iter().all(|seat| seat.disk != *id));
            let other = other.expect("metadata lies on three of four");
            let chunk = core.lock().space.chunks.allocate_on(other).expect("it has room");
            let seat = Seat { disk: other, chunk };
            set.set_replacement(0, seat).unwrap();
            let (slot, block) = page.addr.slot();
            let at = set.byte_at(seat, slot, block);
            let copy = core.raid.read_copy(&set, slot, block..block + 1, (0, false)).await.unwrap();
            let new = &disks[usize::from(other.0)];
            new.write(at, copy, WriteFlags::DURABLE).await.unwrap();
            for member in &members {
                let fault = Fault::Fail(BlockError::Medium { at: 0 });
                disks[usize::from(member.disk.0)].inject(Rule::always(Operation::Read, fault));
            }
            assert!(core.read_page(&missing).await.is_some(), "the replacement has it");
        });
    }
}

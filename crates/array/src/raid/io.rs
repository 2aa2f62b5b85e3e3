//! Reads and writes of single disks, with what their failure means.

use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use block::{BlockError, WriteFlags};
use ring::{Buf, Data};
use smallvec::SmallVec;

use crate::join::join_all;
use crate::mutants::{self, Mutant};
use crate::{BLOCK_BYTES, DiskId};

use super::disks::{Access, Disk};
use super::read::lost_parity;
use super::record::Seat;
use super::rows::{Loaded, Rows, mask_of, rows_of};
use super::set::Set;
use super::{DiskFailed, Raid, WriteError};

/// A chunk that holds a strip, on a disk that can be read.
#[derive(Debug, Clone)]
pub(super) struct Copy {
    pub(super) disk: Arc<Disk>,
    pub(super) seat: Seat,
}

/// For which disks a read waits that others can do without.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum WaitFor {
    /// For all.
    All,
    /// Not for those that do not answer.
    Answering,
    /// Nor for those that are [late](super::late).
    Prompt,
}

impl WaitFor {
    pub(super) fn is_for(self, disk: &Disk) -> bool {
        match self {
            Self::All => true,
            Self::Answering => !disk.is_silent(),
            Self::Prompt => !disk.is_silent() && !disk.is_late(),
        }
    }
}

/// A request that fails after so long was not answered: drives that work say what is wrong sooner.
const SILENCE: Duration = Duration::from_secs(10);

/// How often a write is tried whose error is [passing](is_passing), a millisecond apart, before it counts as the
/// disk's: for ten seconds.
pub(crate) const PASSING_TRIES_MAX: u32 = 10_000;

/// Whether an error says nothing about the disk.
pub(crate) fn is_passing(error: BlockError) -> bool {
    error.is_passing() && !mutants::is(Mutant::BlameMemory)
}

/// The same bytes in memory that stands still.
pub(super) fn still(data: Data) -> Result<Data, BlockError> {
    match data.as_slice() {
        Some(_) => Ok(data),
        None => Ok(data.to_buf().ok_or(BlockError::NoMemory)?.freeze()),
    }
}

/// A request that fails after a long time is one that nobody answered: the disk is asked
/// nothing more, so that hosts wait for it once and not with each block.
pub(super) fn look_at_silence(
    failed: &dyn DiskFailed,
    disk: &Disk,
    began: Duration,
    error: Option<&BlockError>,
) {
    let is_answer = error.is_none_or(|error| is_passing(*error));
    if !is_answer && failed.now().saturating_sub(began) >= SILENCE && disk.fall_silent() {
        tracing::warn!(disk = disk.name(), "it does not answer");
        failed.disk_silent(disk.id());
    }
}

/// One write to one disk.
#[derive(Debug)]
pub(super) struct Target {
    pub(super) seat: Seat,
    pub(super) at: u64,
    pub(super) data: Data,
}

impl Raid {
    pub(super) async fn read_disk(
        &self,
        disk: &Arc<Disk>,
        at: u64,
        len: usize,
    ) -> Result<Data, BlockError> {
        let _in_flight = disk.start();
        let began = self.failed.now();
        let result = disk.device().read(at, len).await;
        self.look_at_silence(disk, began, result.as_ref().err());
        result
    }

    /// Writes, and once more if that fails at once.
    async fn write_disk(
        &self,
        disk: &Arc<Disk>,
        at: u64,
        data: &Data,
        flags: WriteFlags,
    ) -> Result<(), BlockError> {
        let _in_flight = disk.start();
        let began = self.failed.now();
        let result = disk.device().write(at, data.clone(), flags).await;
        self.look_at_silence(disk, began, result.as_ref().err());
        match result {
            Err(_) if !disk.is_silent() => disk.device().write(at, data.clone(), flags).await,
            result => result,
        }
    }

    fn look_at_silence(&self, disk: &Disk, began: Duration, error: Option<&BlockError>) {
        look_at_silence(&*self.failed, disk, began, error);
    }

    /// The copies of a strip that can be read and are up to date, the idlest disk first; equal ones
    /// take turns.
    pub(super) fn copies(&self, set: &Set, stripe: u32, strip: usize) -> SmallVec<[Copy; 5]> {
        let mut copies = self.copies_that_are(set, (stripe, strip), false);
        if copies.len() > 1 {
            let turn = set.next_turn() % copies.len();
            copies.rotate_left(turn);
            copies.sort_by_key(|copy| copy.disk.in_flight());
        }
        if strip >= set.shape().columns()
            && let Some(new) = set.replacement()
        {
            // It was given what was computed of proved data; a parity that the member holds may have
            // rotted, and would go on to both with the next change.
            copies.sort_by_key(|copy| copy.seat != new.seat);
        }
        copies
    }

    /// As [`copies`](Self::copies), without disks that are not waited for where the others can do without
    /// them: each request to one takes minutes, under the stripe's lock.
    pub(super) fn copies_soon(
        &self,
        set: &Set,
        stripe: u32,
        strip: usize,
        waits: WaitFor,
    ) -> SmallVec<[Copy; 5]> {
        let mut copies = self.copies(set, stripe, strip);
        if copies.iter().any(|copy| waits.is_for(&copy.disk)) {
            copies.retain(|copy| waits.is_for(&copy.disk));
        } else if !copies.is_empty() && self.can_do_without(set, stripe, waits) {
            copies.clear();
        }
        copies
    }

    /// Whether disks that are waited for give all of a stripe, or what it is computed from.
    pub(super) fn can_do_without(&self, set: &Set, stripe: u32, waits: WaitFor) -> bool {
        let (shape, written) = (set.shape(), set.written(stripe));
        let counts = |strip: &usize| *strip >= shape.columns() || written >> *strip & 1 == 1;
        let answers = |strip: usize| {
            self.copies(set, stripe, strip).iter().any(|copy| waits.is_for(&copy.disk))
        };
        let without = (0..shape.strips()).filter(counts).filter(|strip| !answers(*strip));
        without.count() <= shape.parity()
    }

    /// Those that can be read and missed something of the stripe, which need not be this strip:
    /// what matches its checksum there is as good as anywhere, when nobody else has it.
    pub(super) fn stale_copies(&self, set: &Set, stripe: u32, strip: usize) -> SmallVec<[Copy; 5]> {
        self.copies_that_are(set, (stripe, strip), true)
    }

    fn copies_that_are(
        &self,
        set: &Set,
        (stripe, strip): (u32, usize),
        is_stale: bool,
    ) -> SmallVec<[Copy; 5]> {
        let holders = set.holders(stripe, strip).into_iter();
        let copies = holders.filter(|holder| holder.is_stale == is_stale).filter_map(|holder| {
            let disk = self.disks().get(holder.seat.disk)?;
            disk.is_readable().then_some(Copy { disk, seat: holder.seat })
        });
        let mut copies: SmallVec<[Copy; 5]> = copies.collect();
        // One that does not answer is asked when there is no other.
        if copies.iter().any(|copy| !copy.disk.is_silent()) {
            copies.retain(|copy| !copy.disk.is_silent());
        }
        copies
    }

    /// Reads blocks of a strip from one copy. Where the disk refuses the range, its blocks are
    /// read one by one: a bad sector must not cost more than its block.
    ///
    /// Errors are passing ones only; what the disk refuses is not `good`.
    pub(super) async fn load(
        &self,
        set: &Set,
        stripe: u32,
        copy: &Copy,
        rows: Range<usize>,
    ) -> Result<Loaded, BlockError> {
        assert!(!rows.is_empty(), "there is something to load");
        let at = set.byte_at(copy.seat, stripe, rows.start);
        let read = self.read_disk(&copy.disk, at, rows.len() * BLOCK_BYTES).await;
        self.loaded(set, stripe, copy, (rows, read)).await
    }

    /// The same of rows that were asked for together.
    pub(super) async fn loaded(
        &self,
        set: &Set,
        stripe: u32,
        copy: &Copy,
        (rows, read): (Range<usize>, Result<Data, BlockError>),
    ) -> Result<Loaded, BlockError> {
        match read {
            Ok(data) => {
                return Ok(Loaded { data: still(data)?, first: rows.start, good: mask_of(&rows) });
            }
            Err(error) if is_passing(error) => return Err(error),
            Err(_) => copy.disk.count_read_error(),
        }
        let mut bytes = Buf::zeroed(rows.len() * BLOCK_BYTES).ok_or(BlockError::NoMemory)?;
        let mut good = 0;
        if rows.len() > 1 {
            for (row, to) in rows.clone().zip(bytes.chunks_exact_mut(BLOCK_BYTES)) {
                let at = set.byte_at(copy.seat, stripe, row);
                // Out as well: it is not only a bad sector that takes long.
                if copy.disk.is_silent() && copy.disk.access() != Access::Full {
                    break;
                }
                if let Ok(data) = self.read_disk(&copy.disk, at, BLOCK_BYTES).await {
                    data.copy_to(0, to);
                    good |= 1 << row;
                }
            }
        }
        Ok(Loaded { data: bytes.freeze(), first: rows.start, good })
    }

    /// The same of a strip, without the blocks of a parity that were [lost](lost_parity) before they came there.
    pub(super) async fn load_strip(
        &self,
        set: &Set,
        (stripe, strip): (u32, usize),
        copy: &Copy,
        rows: Range<usize>,
    ) -> Result<Loaded, BlockError> {
        let mut loaded = self.load(set, stripe, copy, rows).await?;
        if strip >= set.shape().columns() && !mutants::is(Mutant::BareParity) {
            let is_lost = |row: &usize| {
                loaded.block(*row).is_some_and(|block| block == lost_parity(set.id(), stripe, *row))
            };
            let lost = rows_of(loaded.good).filter(is_lost).fold(0, |mask, row| mask | 1 << row);
            loaded.good &= !lost;
        }
        Ok(loaded)
    }

    /// Reads blocks of several strips of a stripe with parity (bit = strip), one copy of each;
    /// from those that are waited for.
    pub(super) async fn load_rows(
        &self,
        set: &Set,
        stripe: u32,
        strips: u16,
        rows: &Range<usize>,
        waits: WaitFor,
    ) -> Result<Rows, BlockError> {
        let shape = set.shape();
        let written = set.written(stripe);
        let load = |strip: usize| async move {
            let is_written = strip >= shape.columns() || written >> strip & 1 == 1;
            let copies = self.copies_soon(set, stripe, strip, waits);
            match copies.first() {
                Some(copy) if is_written && strips >> strip & 1 == 1 => {
                    let loaded = self.load_strip(set, (stripe, strip), copy, rows.clone()).await?;
                    Ok((Some(loaded), Some(copy.clone())))
                }
                _ => Ok((None, None)),
            }
        };
        let strips =
            join_all((0..shape.strips()).map(|strip| Box::pin(load(strip))).collect()).await;
        let strips: Vec<_> = strips.into_iter().collect::<Result<_, BlockError>>()?;
        let (strips, copies) = strips.into_iter().unzip();
        Ok(Rows { set: set.id(), stripe, shape, written, strips, copies })
    }

    /// Whether every written strip of the stripe is on a disk that is there, or can be computed
    /// from those that are.
    #[must_use]
    pub fn is_readable(&self, set: &Set, stripe: u32) -> bool {
        let shape = set.shape();
        let written = set.written(stripe);
        let counts = |strip: &usize| *strip >= shape.columns() || written >> *strip & 1 == 1;
        let away = (0..shape.strips())
            .filter(counts)
            .filter(|strip| self.copies(set, stripe, *strip).is_empty());
        away.count() <= shape.parity()
    }

    /// Whether what none of the disks gives is lost, and not only away: no more strips lie on disks
    /// that are out, or lack something, than the level bears. One that is out may refuse reads today and
    /// come back with all it has.
    pub fn is_final(&self, set: &Set, stripe: u32) -> bool {
        self.is_final_beside(set, stripe, &[])
    }

    /// The same while these chunks, which count as up to date, hold what the parity need not agree with.
    pub(super) fn is_final_beside(&self, set: &Set, stripe: u32, doubtful: &[Seat]) -> bool {
        let (shape, written) = (set.shape(), set.written(stripe));
        let counts = |strip: &usize| *strip >= shape.columns() || written >> *strip & 1 == 1;
        let is_in = |copy: &Copy| copy.disk.is_writable() && !doubtful.contains(&copy.seat);
        let away = (0..shape.strips())
            .filter(counts)
            .filter(|strip| !self.copies(set, stripe, *strip).iter().any(is_in));
        away.count() <= shape.parity()
    }

    /// Whether all disks that hold something of the stripe are in, but for those that are gone for good.
    pub(super) fn are_all_in(
        &self,
        set: &Set,
        stripe: u32,
        is_gone: &dyn Fn(DiskId) -> bool,
    ) -> bool {
        let holders = (0..set.shape().strips()).flat_map(|strip| set.holders(stripe, strip));
        let is_in = |disk| self.disks().get(disk).is_some_and(|disk| disk.is_writable());
        holders.map(|holder| holder.seat.disk).all(|disk| is_in(disk) || is_gone(disk))
    }

    /// Writes to all targets at once. A disk that is not there or fails, also while others are
    /// still being written, is noted as having missed the change, and the array knows of it when
    /// this returns. Which disk took each target.
    pub(super) async fn write_targets(
        &self,
        set: &Set,
        stripe: u32,
        targets: &[Target],
        flags: WriteFlags,
    ) -> Result<Vec<Option<Arc<Disk>>>, WriteError> {
        let write = |target| Box::pin(self.write_target(target, flags));
        let results = join_all(targets.iter().map(write).collect()).await;
        let mut passing = None;
        let mut missed: Vec<Seat> = Vec::new();
        let mut taken = Vec::with_capacity(targets.len());
        for (target, result) in targets.iter().zip(results) {
            let disk = match result {
                Some((disk, Ok(()))) => self.is_in_use(&disk).then_some(disk),
                Some((_, Err(error))) if is_passing(error) => {
                    passing = Some(error);
                    continue;
                }
                Some((_, Err(error))) => {
                    self.note_failure(target.seat, error);
                    None
                }
                None => None,
            };
            if disk.is_none() {
                missed.push(target.seat);
            }
            taken.push(disk);
        }
        for seat in &missed {
            self.mark_missed(set, stripe, seat.disk);
        }
        for seat in missed {
            self.settle(seat).await;
        }
        match passing {
            Some(error) => Err(WriteError::Later(error)),
            None => Ok(taken),
        }
    }

    /// Writes to one disk; `None` where it is not there.
    async fn write_target(
        &self,
        target: &Target,
        flags: WriteFlags,
    ) -> Option<(Arc<Disk>, Result<(), BlockError>)> {
        let disk = self.disks().get(target.seat.disk).filter(|disk| disk.is_writable())?;
        disk.changes();
        let result = self.write_disk(&disk, target.at, &target.data, flags).await;
        // Also at its end: a checkpoint may have marked the disk meanwhile.
        disk.changes();
        if !flags.durable {
            disk.took_volatile();
        }
        Some((disk, result))
    }

    /// Writes `data` at `at` of each disk that is in use and was written to since this was done last; durable with
    /// the next flush. Those that took it. One that refused is none the worse for it: nothing relies on what the
    /// others have there, and the next one tries again.
    pub async fn mark(&self, at: u64, data: &Data) -> Vec<Arc<Disk>> {
        let mut disks = self.disks().all();
        disks.retain(|disk| disk.is_writable() && !disk.is_silent() && disk.take_changed());
        let write = |disk| Box::pin(self.write_disk(disk, at, data, WriteFlags::VOLATILE));
        let results = join_all(disks.iter().map(write).collect()).await;
        let mut marked = Vec::new();
        for (disk, result) in disks.into_iter().zip(results) {
            disk.took_volatile();
            match result {
                Ok(()) => marked.push(disk),
                Err(error) => {
                    tracing::debug!(disk = disk.name(), %error, "a checkpoint could not mark it");
                    disk.changes();
                }
            }
        }
        marked
    }

    /// Whether the disk did not fail since it was taken hold of, nor failed and came back.
    pub(crate) fn is_in_use(&self, disk: &Arc<Disk>) -> bool {
        if mutants::is(Mutant::LateCredit) {
            return true;
        }
        let now = self.disks().get(disk.id());
        disk.is_writable() && now.is_some_and(|now| Arc::ptr_eq(&now, disk))
    }

    fn mark_missed(&self, set: &Set, stripe: u32, disk: DiskId) {
        set.mark_stale(stripe, disk);
        if self.disks().get(disk).is_some_and(|disk| disk.is_writable()) {
            // It failed and is back already: whoever brings it up to date may have been here.
            self.failed.disk_behind(disk);
        }
    }

    /// A disk took all that belongs in its seat of the stripe.
    pub(super) fn credit(&self, set: &Set, stripe: u32, seat: Seat, disk: &Arc<Disk>) {
        set.clear_stale(stripe, seat);
        // Whoever notes that a disk failed closes it first and marks its stripes then: if it is in
        // use here, the mark is still to come.
        if !self.is_in_use(disk) {
            self.mark_missed(set, stripe, disk.id());
        }
    }

    fn note_failure(&self, seat: Seat, error: BlockError) {
        if let Some(disk) = self.disks().get(seat.disk) {
            if !disk.is_given_up() {
                tracing::warn!(disk = disk.name(), %error, "a write failed twice: the disk is out");
            }
            disk.fail(error, Access::ReadOnly);
        }
    }

    /// WaitFor until the array knows that the disk is out.
    async fn settle(&self, seat: Seat) {
        let Some(disk) = self.disks().get(seat.disk) else { return };
        if let Some(error) = disk.unsettled() {
            self.failed.disk_failed(seat.disk, error).await;
            disk.settle();
        }
    }

    /// Makes all writes durable that completed on any disk before. A disk that fails this may have
    /// lost what it took since its last flush: nothing more is written to it, and the array has
    /// noted what that was when this returns.
    pub async fn flush(&self) {
        self.flush_disks(self.disks().all()).await;
    }

    /// The same for the disks of these sets.
    pub async fn flush_sets(&self, sets: &[Arc<Set>]) {
        let seats = sets.iter().flat_map(|set| set.seats());
        let ids: BTreeSet<DiskId> = seats.map(|seat| seat.disk).collect();
        let disks = ids.into_iter().filter_map(|id| self.disks().get(id)).collect();
        self.flush_disks(disks).await;
    }

    pub(super) async fn flush_disks(&self, disks: Vec<Arc<Disk>>) {
        let flush = |disk: &Arc<Disk>| {
            let disk = Arc::clone(disk);
            Box::pin(async move {
                let began = self.failed.now();
                let result = disk.flush().await;
                self.look_at_silence(&disk, began, result.err().as_ref());
            })
        };
        join_all(disks.iter().map(flush).collect()).await;
        // One that failed a write was not flushed: what it took before may be gone too, and the
        // array must have noted that before it counts these writes as durable.
        for disk in disks {
            // One that is back since was out before, and everybody knew.
            let is_there = self.disks().get(disk.id()).is_some_and(|now| Arc::ptr_eq(&now, &disk));
            if let Some(error) = disk.unsettled().filter(|_| is_there) {
                self.failed.disk_failed(disk.id(), error).await;
                disk.settle();
            }
        }
    }
}

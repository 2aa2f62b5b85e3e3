//! Reads: one copy if it is good, else whatever there is.

use std::future::Future;
use std::ops::Range;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use block::BlockError;
use ring::{Buf, Data};

use crate::mutants::{Mutant, is};
use crate::{BLOCK_BYTES, CLUSTER_BLOCKS, DiskId, SetId, block_checksum};

use super::heal::Heal;
use super::io::{Copy, WaitFor, is_passing, still};
use super::late::Asked;
use super::rows::{Crcs, Loaded, Rows, hull, mask_of, rows_of};
use super::set::Set;
use super::{Raid, ReadError};

/// Data that matches its checksums, and what was found broken on the way.
#[derive(Debug)]
pub struct Good {
    /// The blocks asked for.
    pub data: Data,
    /// Copies to be rewritten ([`Raid::heal`]); empty and without memory when all is well.
    pub heals: Vec<Heal>,
}

/// A read under way, or over: ask [`into_ready`](Self::into_ready) first, as with
/// [`IoFuture`](block::IoFuture).
#[must_use = "a future that is dropped loses the result of its read"]
pub struct Read(State);

enum State {
    Ready(Option<Result<Good, ReadError>>),
    Boxed(Pin<Box<dyn Future<Output = Result<Good, ReadError>>>>),
}

impl Read {
    fn ready(result: Result<Good, ReadError>) -> Self {
        Self(State::Ready(Some(result)))
    }

    /// The result if the read is over, else the future back.
    ///
    /// # Errors
    /// `Err` is not a failure: it holds the future, to be awaited.
    pub fn into_ready(self) -> Result<Result<Good, ReadError>, Self> {
        match self.0 {
            State::Ready(Some(result)) => Ok(result),
            other => Err(Self(other)),
        }
    }
}

impl Future for Read {
    type Output = Result<Good, ReadError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        match &mut self.0 {
            State::Ready(result) => {
                Poll::Ready(result.take().expect("a Read is not polled after its end"))
            }
            State::Boxed(future) => future.as_mut().poll(cx),
        }
    }
}

impl std::fmt::Debug for Read {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(if matches!(self.0, State::Ready(_)) { "Read::Ready" } else { "Read::Boxed" })
    }
}

/// What is written in the place of a block that nobody has any more: it matches no checksum, and
/// its disk is not to blame.
pub(super) fn lost_block(set: SetId, slot: u32, row: usize) -> [u8; BLOCK_BYTES] {
    lost(&format!("set {}, slot {slot}, block {row}", set.0))
}

/// What is written in the place of a block of a parity that nobody has and nobody can compute: it counts as
/// not there, so that it is made anew of the data when that is right again, and its disk is not to blame.
pub(super) fn lost_parity(set: SetId, stripe: u32, row: usize) -> [u8; BLOCK_BYTES] {
    lost(&format!("set {}, parity of stripe {stripe}, block {row}", set.0))
}

fn lost(what: &str) -> [u8; BLOCK_BYTES] {
    let mut block = [0; BLOCK_BYTES];
    let text = format!("drystone: lost before it came here: {what}");
    block[..text.len()].copy_from_slice(text.as_bytes());
    block
}

/// Blocks of one strip that are wanted.
pub(super) struct Wanted<'a> {
    pub(super) set: &'a Set,
    pub(super) stripe: u32,
    pub(super) strip: usize,
    pub(super) rows: Range<usize>,
    /// By column and block, also of other columns where known.
    pub(super) crcs: Crcs<'a>,
    /// A disk whose copy is not to be looked at.
    pub(super) without: Option<DiskId>,
    /// A disk whose copy is to be looked at first: it is under suspicion.
    pub(super) first: Option<DiskId>,
    /// To be computed from the rest of the stripe, whatever copies there are: a parity has no
    /// checksum of its own.
    pub(super) is_computed: bool,
    /// When nobody has a block as it should be, one that missed something may have it. Only for whom
    /// the checksum is beyond doubt: where it is older than what others have, it would bring back
    /// what they have overwritten.
    pub(super) may_be_stale: bool,
    /// What has no checksum is computed from the parity, which counts on it, before it is taken as
    /// it is.
    pub(super) is_by_parity: bool,
    /// The stripe holds what its parity need not agree with: nothing proves that another one is wrong.
    pub(super) is_in_doubt: bool,
}

impl<'a> Wanted<'a> {
    /// Blocks of a strip, of any copy.
    pub(super) fn any(
        set: &'a Set,
        (stripe, strip): (u32, usize),
        rows: Range<usize>,
        crcs: Crcs<'a>,
    ) -> Self {
        Self {
            set,
            stripe,
            strip,
            rows,
            crcs,
            without: None,
            first: None,
            is_computed: false,
            may_be_stale: false,
            is_by_parity: false,
            is_in_doubt: false,
        }
    }
}

/// What was found of them.
pub(super) struct Fetched {
    /// The blocks `rows`.
    pub(super) bytes: Buf,
    /// Blocks that could not be had (bit = block of the strip).
    pub(super) missing: u16,
    /// Blocks that only a copy had which missed something (bit = block of the strip): the parity
    /// need not agree with them.
    pub(super) stale: u16,
    /// Copies that could not be read or are wrong, of blocks that were found elsewhere.
    pub(super) bad: Vec<(DiskId, usize)>,
    /// Blocks of other columns (column, block) that are proved to be wrong, and on which disk.
    pub(super) wrong: Vec<(DiskId, usize, usize)>,
}

impl Fetched {
    /// A block of `rows` was found.
    fn put(&mut self, rows: &Range<usize>, row: usize, block: &[u8]) {
        self.bytes[(row - rows.start) * BLOCK_BYTES..][..BLOCK_BYTES].copy_from_slice(block);
        self.missing &= !(1 << row);
    }

    /// Says which copies are wrong: those of blocks that were found elsewhere. Where nothing
    /// matched, what was asked for may not be what should be there any more: the place has new
    /// contents that its reader does not know of, and no disk is to blame.
    fn settle(&mut self, odd: Vec<(DiskId, usize)>) {
        self.bad = odd.into_iter().filter(|(_, row)| self.missing >> row & 1 == 0).collect();
    }
}

/// Blocks of a slot, and what they must be.
#[derive(Debug, Clone, Copy)]
pub(super) struct Expected<'a> {
    pub(super) set: SetId,
    pub(super) slot: u32,
    pub(super) first: usize,
    pub(super) crcs: &'a [u32],
}

impl Expected<'_> {
    /// Whether all blocks match; always, for the mutant that trusts the disks.
    fn is_met(&self, bytes: &[u8]) -> bool {
        let blocks = (self.first..).zip(bytes.chunks_exact(BLOCK_BYTES));
        let fits = |((block, bytes), crc): ((usize, &[u8]), &u32)| {
            block_checksum(self.set, self.slot, block, bytes) == *crc
        };
        is(Mutant::NoVerify) || blocks.zip(self.crcs).all(fits)
    }
}

/// The outcome of reading the first copy; `None` sends the read on to all others.
pub(super) fn judge(
    result: Result<Data, BlockError>,
    copy: &Copy,
    expected: Expected<'_>,
) -> Option<Result<Good, ReadError>> {
    match result.and_then(still) {
        Ok(data) => {
            let bytes = data.as_slice().expect("it stands still");
            let len = expected.crcs.len() * BLOCK_BYTES;
            let is_good = bytes.len() == len && expected.is_met(bytes);
            is_good.then_some(Ok(Good { data, heals: Vec::new() }))
        }
        Err(error) if is_passing(error) => Some(Err(ReadError::Later(error))),
        Err(_) => {
            copy.disk.count_read_error();
            None
        }
    }
}

impl Raid {
    /// Reads the blocks of a slot from `first_block` on, one for each of `crcs`, and returns them
    /// only if they match. When the disk answers at once, so does this, and takes no memory but the
    /// data's.
    ///
    /// The stripe's lock is taken only when the first copy is no good.
    pub fn read(
        self: &Arc<Self>,
        set: &Arc<Set>,
        slot: u32,
        first_block: usize,
        crcs: &[u32],
    ) -> Read {
        let rows = first_block..first_block + crcs.len();
        assert!(!rows.is_empty() && rows.end <= CLUSTER_BLOCKS, "blocks of one cluster");
        let expected = Expected { set: set.id(), slot, first: first_block, crcs };
        let (stripe, column) = set.shape().locate(slot);
        let (prompt, late) = self.whom_to_ask(set, stripe, column);
        let first = prompt.as_ref().or(late.as_ref()).map(|copy| copy.disk.id());
        let mut asked = None;
        let began = self.failed.now();
        if let Some(copy) = prompt {
            let in_flight = copy.disk.start();
            let at = set.byte_at(copy.seat, stripe, first_block);
            match copy.disk.device().read(at, crcs.len() * BLOCK_BYTES).into_ready() {
                Ok(result) => {
                    if let Some(done) = judge(result, &copy, expected) {
                        self.times.read(set.level(), Duration::ZERO);
                        return Read::ready(done);
                    }
                }
                Err(future) => asked = Some(Asked::new(copy, began, in_flight, future)),
            }
        }
        let (raid, set, crcs) = (Arc::clone(self), Arc::clone(set), crcs.to_vec());
        Read(State::Boxed(Box::pin(async move {
            let asked = (asked, late, first);
            let done = raid.read_on(&set, slot, (first_block, &crcs), asked).await;
            raid.times.read(set.level(), raid.failed.now().saturating_sub(began));
            done
        })))
    }

    /// Tries everything, under the stripe's lock: without it a change half-way would look like
    /// damage. The disk that was tried `first` is looked at again, so that it is found out.
    pub(super) async fn read_hard(
        &self,
        set: &Set,
        slot: u32,
        (first_block, crcs): (usize, &[u32]),
        first: Option<DiskId>,
    ) -> Result<Good, ReadError> {
        let (stripe, column) = set.shape().locate(slot);
        let _guard = self.locks.lock(set, stripe).await;
        // One that took so long for an error is not asked for the same again.
        let silent = first.filter(|disk| self.disks().get(*disk).is_some_and(|d| d.is_silent()));
        let crc_of = |of: usize, block: usize| {
            let own = block.checked_sub(first_block).filter(|_| of == column)?;
            crcs.get(own).copied()
        };
        let rows = first_block..first_block + crcs.len();
        let any = Wanted::any(set, (stripe, column), rows, &crc_of);
        let wanted = Wanted { first, may_be_stale: true, ..any };
        let fetched = self.fetch(&wanted).await.map_err(ReadError::Later)?;
        if fetched.missing != 0 {
            let block = fetched.missing.trailing_zeros() as usize;
            let is_there = self.is_final(set, stripe);
            return Err(if is_there { ReadError::Damaged { block } } else { ReadError::Lost });
        }
        let heal = |(disk, block): (DiskId, usize)| {
            let crc = crcs[block - first_block];
            Heal { set: set.id(), slot, block, crc, disk }
        };
        let bad = fetched.bad.iter().copied();
        let unread = silent
            .into_iter()
            .flat_map(|disk| (first_block..first_block + crcs.len()).map(move |row| (disk, row)));
        let heals = bad.chain(unread).map(heal).collect();
        Ok(Good { data: fetched.bytes.freeze(), heals })
    }

    /// Reads blocks of a slot from one member, unchecked: for data that carries its own checks, so
    /// that the reader can try the next one of [`Set::seats`], and in the end those that are not up
    /// to date.
    ///
    /// # Errors
    /// [`ReadError::Lost`] when that one is not there, or is up to date or is not, other than asked
    /// for.
    pub async fn read_copy(
        &self,
        set: &Set,
        slot: u32,
        blocks: Range<usize>,
        (seat, is_stale): (usize, bool),
    ) -> Result<Data, ReadError> {
        assert!(!blocks.is_empty() && blocks.end <= CLUSTER_BLOCKS, "blocks of one cluster");
        let (stripe, column) = set.shape().locate(slot);
        let seat = *set.seats().get(seat).ok_or(ReadError::Lost)?;
        let copies = match is_stale {
            false => self.copies(set, stripe, column),
            true => self.stale_copies(set, stripe, column),
        };
        let copy = copies.iter().find(|copy| copy.seat == seat).ok_or(ReadError::Lost)?;
        let first = blocks.start;
        let wanted = mask_of(&blocks);
        let began = self.failed.now();
        let at = set.byte_at(copy.seat, stripe, first);
        let read = self.read_copy_in_time(copy, at, blocks.len() * BLOCK_BYTES, &copies).await;
        let loaded = self.loaded(set, stripe, copy, (blocks, read)).await;
        let loaded = loaded.map_err(ReadError::Later)?;
        self.times.read(set.level(), self.failed.now().saturating_sub(began));
        match wanted & !loaded.good {
            0 => Ok(loaded.data),
            bad => Err(ReadError::Damaged { block: (bad.trailing_zeros() as usize).max(first) }),
        }
    }

    /// Gets blocks of a strip from any copy, else from the rest of the stripe. Call it under the
    /// stripe's lock. Errors are passing ones.
    pub(super) async fn fetch(&self, wanted: &Wanted<'_>) -> Result<Fetched, BlockError> {
        let found = self.fetch_from(wanted, WaitFor::Answering).await?;
        let Wanted { set, stripe, .. } = *wanted;
        let is_silent = |strip| self.copies(set, stripe, strip).iter().any(|c| c.disk.is_silent());
        match found.missing != 0 && (0..set.shape().strips()).any(is_silent) {
            true => self.fetch_from(wanted, WaitFor::All).await,
            false => Ok(found),
        }
    }

    pub(super) async fn fetch_from(
        &self,
        wanted: &Wanted<'_>,
        waits: WaitFor,
    ) -> Result<Fetched, BlockError> {
        let Wanted { set, stripe, strip, ref rows, crcs, without, first, is_computed, .. } =
            *wanted;
        let bytes = Buf::zeroed(rows.len() * BLOCK_BYTES).ok_or(BlockError::NoMemory)?;
        let mut found =
            Fetched { bytes, missing: mask_of(rows), stale: 0, bad: Vec::new(), wrong: Vec::new() };
        let mut odd: Vec<(DiskId, usize)> = Vec::new();
        let is_data = strip < set.shape().columns();
        let mut raw: Vec<(usize, Loaded)> = Vec::new();
        let mut copies = self.copies_soon(set, stripe, strip, waits);
        copies.retain(|copy| Some(copy.disk.id()) != without && !is_computed);
        copies.sort_by_key(|copy| Some(copy.disk.id()) != first);
        for copy in copies {
            if found.missing == 0 {
                break;
            }
            let loaded = self.load_strip(set, (stripe, strip), &copy, hull(found.missing)).await?;
            for row in rows_of(found.missing) {
                let block = loaded.block(row);
                let fits = |block: &&[u8]| {
                    let shape = set.shape();
                    let crc = if strip < shape.columns() { crcs(strip, row) } else { None };
                    crc.is_none_or(|crc| {
                        let slot = shape.slot(stripe, strip);
                        Expected { set: set.id(), slot, first: row, crcs: &[crc] }.is_met(block)
                    })
                };
                let is_unknown = is_data && crcs(strip, row).is_none();
                if wanted.is_by_parity && is_unknown && block.is_some() {
                    raw.push((row, loaded.clone()));
                    continue;
                }
                if let Some(block) = block.filter(fits) {
                    found.put(rows, row, block);
                    continue;
                }
                odd.push((copy.disk.id(), row));
            }
        }
        if found.missing != 0 && set.shape().parity() > 0 {
            self.reconstruct(wanted, &raw, &mut found, waits).await?;
        }
        for (row, held) in &raw {
            if let Some(block) = held.block(*row).filter(|_| found.missing >> row & 1 == 1) {
                found.put(rows, *row, block);
            }
        }
        found.settle(odd);
        if found.missing != 0 && wanted.may_be_stale {
            self.take_stale(wanted, &mut found).await?;
        }
        Ok(found)
    }

    /// Takes what is missing from copies that missed something, where a checksum proves it: more
    /// disks than the level survives may have been out at once, and each lacks only a little.
    async fn take_stale(&self, wanted: &Wanted<'_>, found: &mut Fetched) -> Result<(), BlockError> {
        let Wanted { set, stripe, strip, ref rows, crcs, without, .. } = *wanted;
        if strip >= set.shape().columns() {
            return Ok(());
        }
        for copy in self.stale_copies(set, stripe, strip) {
            if found.missing == 0 || Some(copy.disk.id()) == without {
                continue;
            }
            let loaded = self.load(set, stripe, &copy, hull(found.missing)).await?;
            self.take_confirmed(wanted, &loaded, found).await?;
            for row in rows_of(found.missing) {
                let (Some(crc), Some(block)) = (crcs(strip, row), loaded.block(row)) else {
                    continue;
                };
                let slot = set.shape().slot(stripe, strip);
                let expected = Expected { set: set.id(), slot, first: row, crcs: &[crc] };
                if expected.is_met(block) || is(Mutant::BlindStale) {
                    found.put(rows, row, block);
                    found.stale |= 1 << row;
                }
            }
        }
        Ok(())
    }

    /// Takes from such a copy what nobody owns, where the parity counts on it: with it what another disk
    /// lacks comes out as its checksum says, and with anything else that would be lost.
    async fn take_confirmed(
        &self,
        wanted: &Wanted<'_>,
        held: &Loaded,
        found: &mut Fetched,
    ) -> Result<(), BlockError> {
        let Wanted { set, stripe, strip, crcs, .. } = *wanted;
        let is_unowned = |row: &usize| crcs(strip, *row).is_none() && held.block(*row).is_some();
        let unowned: Vec<usize> = rows_of(found.missing).filter(is_unowned).collect();
        if set.shape().parity() == 0 || unowned.is_empty() || is(Mutant::ForgetUnowned) {
            return Ok(());
        }
        let missing = hull(found.missing);
        let mut rows = self.load_rows(set, stripe, !(1 << strip), &missing, WaitFor::All).await?;
        rows.reject_wrong(crcs);
        // The parity may count as lacking something too.
        self.add_stale(set, &mut rows, missing, crcs).await?;
        for row in unowned {
            if rows.confirms(row, strip, held.clone(), crcs) {
                found.put(&wanted.rows, row, held.block(row).expect("looked at above"));
                found.stale |= 1 << row;
            }
        }
        Ok(())
    }

    /// Computes what is missing from the other strips; `raw` is what the strip's own holder has of
    /// blocks that nobody owns.
    async fn reconstruct(
        &self,
        wanted: &Wanted<'_>,
        raw: &[(usize, Loaded)],
        found: &mut Fetched,
        waits: WaitFor,
    ) -> Result<(), BlockError> {
        let Wanted { set, stripe, strip, crcs, .. } = *wanted;
        let missing = hull(found.missing);
        let mut rows = self.load_rows(set, stripe, !(1 << strip), &missing, waits).await?;
        if wanted.is_in_doubt && !is(Mutant::BlameDoubt) {
            rows.copies.iter_mut().for_each(|copy| *copy = None);
        }
        if strip < set.shape().columns() {
            // Its own checksum proves what comes out, whatever is known of the others: a checkpoint
            // may have changed one of them that the maps still have as it was.
            self.solve_missing(&rows, wanted, found, true);
        }
        let rejected = rows.reject_wrong(crcs).into_iter();
        let wrong = rejected.filter(|(column, row)| rows.is_proved_wrong(*column, *row, crcs));
        let on_disk = |(column, row): (usize, usize)| {
            rows.copies[column].as_ref().map(|copy| (copy.disk.id(), column, row))
        };
        found.wrong = wrong.filter_map(on_disk).collect();
        if wanted.is_computed
            && set.shape().parity() == 2
            && let Some(copy) = self.copies(set, stripe, strip).first()
        {
            let held = self.load_strip(set, (stripe, strip), copy, hull(found.missing)).await?;
            rows.reject_odd(strip, held, crcs);
        }
        // Of two parities one may have rotted: what the other gives too is right.
        for (row, held) in raw {
            if let Some(block) = held.block(*row)
                && rows.confirms(*row, strip, held.clone(), crcs)
            {
                found.put(&wanted.rows, *row, block);
            }
        }
        // What comes out of a parity in doubt proves itself, or is no better than what its holder has.
        let must_prove = wanted.is_in_doubt && !is(Mutant::ZeroBlank);
        self.solve_missing(&rows, wanted, found, must_prove && strip < set.shape().columns());
        if found.missing != 0 && wanted.may_be_stale && strip < set.shape().columns() {
            self.add_stale(set, &mut rows, hull(found.missing), crcs).await?;
            self.solve_missing(&rows, wanted, found, true);
        }
        Ok(())
    }

    /// Strips of which nobody is up to date, as they are: unless they match no checksum. What is
    /// computed with them must prove itself.
    async fn add_stale(
        &self,
        set: &Set,
        rows: &mut Rows,
        range: Range<usize>,
        crcs: Crcs<'_>,
    ) -> Result<(), BlockError> {
        let shape = set.shape();
        for strip in 0..shape.strips() {
            let is_written = strip >= shape.columns() || rows.written >> strip & 1 == 1;
            if !is_written || !self.copies(set, rows.stripe, strip).is_empty() {
                continue;
            }
            let copies = self.stale_copies(set, rows.stripe, strip);
            let Some(copy) = copies.first() else { continue };
            let at = (rows.stripe, strip);
            let mut loaded = self.load_strip(set, at, copy, range.clone()).await?;
            for row in rows_of(loaded.good) {
                let known = if strip < shape.columns() { crcs(strip, row) } else { None };
                let block = loaded.block(row).expect("its bit is set");
                if known.is_some_and(|crc| rows.checksum(strip, row, block) != crc) {
                    loaded.good &= !(1 << row);
                }
            }
            rows.strips[strip] = Some(loaded);
            // What does not agree with something that is out of date is not proved to be wrong.
            rows.copies.iter_mut().for_each(|copy| *copy = None);
        }
        Ok(())
    }

    /// Computes missing blocks; only those with a checksum, if `is_known` asks for that.
    fn solve_missing(&self, rows: &Rows, wanted: &Wanted<'_>, found: &mut Fetched, is_known: bool) {
        let Wanted { strip, rows: ref wanted_rows, crcs, .. } = *wanted;
        for row in rows_of(found.missing) {
            if is_known && crcs(strip, row).is_none() {
                continue;
            }
            let to = &mut found.bytes[(row - wanted_rows.start) * BLOCK_BYTES..][..BLOCK_BYTES];
            let Some(solved) = rows.compute(row, strip, crcs, to) else { continue };
            if let Some(wrong) = solved.wrong {
                rows.blame(wrong);
            }
            found.missing &= !(1 << row);
        }
    }

    /// Counts a block that is lost against every disk that should have it: the map says that it
    /// lies there, and said so before and after it was read. Not where it came lost, nor where a
    /// parity may be what is wrong.
    pub async fn blame_lost(&self, set: &Set, slot: u32, row: usize) {
        let (stripe, column) = set.shape().locate(slot);
        if set.shape().parity() > 0 {
            return;
        }
        for copy in self.copies(set, stripe, column) {
            let loaded = self.load(set, stripe, &copy, row..row + 1).await;
            let came_lost = loaded.is_ok_and(|loaded| {
                loaded.block(row).is_some_and(|block| block == lost_block(set.id(), slot, row))
            });
            if !came_lost {
                copy.disk.count_mismatch();
            }
        }
    }
}

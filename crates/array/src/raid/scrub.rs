//! Reading everything of a stripe and repairing what is wrong.

use std::sync::Arc;

use block::BlockError;
use ring::Buf;

use crate::mutants::{Mutant, is};
use crate::{BLOCK_BYTES, CLUSTER_BLOCKS, block_checksum};

use super::io::{Copy, WaitFor};
use super::read::{Wanted, lost_block};
use super::rows::{Crcs, NO_CRCS, Rows, compute};
use super::set::Set;
use super::{Raid, ReadError, WriteError};

/// What a scrub of a stripe found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Scrubbed {
    /// Blocks of data compared with their checksums, each copy counted.
    pub verified: u32,
    /// Rows whose parity was compared with the data.
    pub parity_rows: u32,
    /// Blocks that could not be read or were wrong, as others prove; parity included.
    pub bad: u32,
    /// How many of them are right again.
    pub repaired: u32,
    /// How many of them are known, and their disk did not take them.
    pub refused: u32,
    /// Data blocks (column, block) that no disk gives as they must be, if the checksums still hold.
    pub doubted: Vec<(usize, usize)>,
    /// The checksums were not current any more: nothing was compared.
    pub is_outdated: bool,
}

/// What the caller knows of a stripe.
#[derive(Clone, Copy)]
pub struct Contents<'a> {
    /// Checksums of live blocks (column, block), as of some moment ago.
    pub crcs: Crcs<'a>,
    /// Whether anything lives, or may live, in a column now.
    pub is_taken: &'a dyn Fn(usize) -> bool,
    /// Nobody has written, or is about to write, other contents since the checksums were looked up;
    /// asked while the stripe is locked.
    pub is_current: &'a dyn Fn() -> bool,
}

impl std::fmt::Debug for Contents<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Contents").finish_non_exhaustive()
    }
}

impl Scrubbed {
    fn doubt(&mut self, column: usize, block: usize) {
        if !self.doubted.contains(&(column, block)) {
            self.doubted.push((column, block));
        }
    }

    /// A block of `copy` was to be made right. What a disk that was given up meanwhile did not take, nobody
    /// misses.
    fn count(&mut self, copy: Option<&Copy>, is_repaired: bool) {
        if is_repaired {
            self.repaired += 1;
        } else if !copy.is_some_and(|copy| copy.disk.is_given_up()) {
            self.refused += 1;
        }
    }
}

/// Rows of a stripe, whole.
const ROWS: std::ops::Range<usize> = 0..CLUSTER_BLOCKS;

impl Raid {
    /// Verifies and repairs what the disks that are there hold of a stripe. Hosts may write beside
    /// it: a disk is wrong only where another one, or the parity, has what is expected. But a disk that
    /// lost what another one took has what was expected before: so the checksums must be current.
    /// Members that are away or stale are left to [`refresh_stripe`](Self::refresh_stripe).
    ///
    /// # Errors
    /// When the stripe cannot be read now: more members are missing than the level survives, or a
    /// passing error.
    pub async fn scrub_stripe(
        &self,
        set: &Set,
        stripe: u32,
        known: Contents<'_>,
    ) -> Result<Scrubbed, ReadError> {
        let _guard = self.locks.lock(set, stripe).await;
        if !(known.is_current)() {
            return Ok(Scrubbed { is_outdated: true, ..Scrubbed::default() });
        }
        if set.written(stripe) == 0 {
            return Ok(Scrubbed::default());
        }
        if !self.is_readable(set, stripe) {
            return Err(ReadError::Lost);
        }
        // Whoever lacks something of it has it from the others now.
        if self.has_half(set.id(), stripe) {
            self.forget_half(set.id(), stripe);
        }
        let mut found = Scrubbed::default();
        let scrubbed = if set.shape().parity() == 0 {
            self.scrub_copies(set, stripe, known.crcs, &mut found).await
        } else {
            self.scrub_parity(set, stripe, known, &mut found).await
        };
        match scrubbed {
            Ok(()) => Ok(found),
            Err(WriteError::Lost | WriteError::Half) => Err(ReadError::Lost),
            Err(WriteError::Later(error)) => Err(ReadError::Later(error)),
        }
    }

    async fn scrub_copies(
        &self,
        set: &Set,
        stripe: u32,
        crcs: Crcs<'_>,
        found: &mut Scrubbed,
    ) -> Result<(), WriteError> {
        for copy in self.copies(set, stripe, 0) {
            let loaded = self.load(set, stripe, &copy, ROWS).await.map_err(WriteError::Later)?;
            for row in ROWS {
                let Some(crc) = crcs(0, row) else { continue };
                found.verified += 1;
                let fits = |block| block_checksum(set.id(), stripe, row, block) == crc;
                if loaded.block(row).is_some_and(fits) {
                    continue;
                }
                let without = Some(copy.disk.id());
                let rows = row..row + 1;
                let compared = if is(Mutant::BlindMend) { NO_CRCS } else { crcs };
                let wanted = Wanted { without, ..Wanted::any(set, (stripe, 0), rows, compared) };
                let fetched = self.fetch(&wanted).await.map_err(WriteError::Later)?;
                if fetched.missing != 0 {
                    found.doubt(0, row);
                    continue;
                }
                found.bad += 1;
                let came_lost = lost_block(set.id(), stripe, row);
                if loaded.block(row).is_some_and(|block| block != came_lost) {
                    copy.disk.count_mismatch();
                }
                let data = fetched.bytes.freeze();
                let is_repaired = self.repair(set, stripe, &copy, row, data).await?;
                found.count(Some(&copy), is_repaired);
            }
        }
        Ok(())
    }

    async fn scrub_parity(
        &self,
        set: &Set,
        stripe: u32,
        known: Contents<'_>,
        found: &mut Scrubbed,
    ) -> Result<(), WriteError> {
        let (columns, crcs) = (set.shape().columns(), known.crcs);
        let mut rows = self
            .load_rows(set, stripe, u16::MAX, &ROWS, WaitFor::Answering)
            .await
            .map_err(WriteError::Later)?;
        let is_live = |column: usize, row| rows.block(column, row).is_some_and(|b| !b.is_empty());
        let live = (0..columns).flat_map(|column| ROWS.map(move |row| (column, row)));
        let checked = live.filter(|(column, row)| crcs(*column, *row).is_some());
        found.verified += checked.filter(|(column, row)| is_live(*column, *row)).count() as u32;
        let rejected = match is(Mutant::BlindScrub) {
            true => Vec::new(),
            false => rows.reject_wrong(crcs),
        };
        let compared = if is(Mutant::BlindSolve) { NO_CRCS } else { crcs };
        let mut proving = Vec::new();
        for row in ROWS {
            let Some(data) = rows.complete(row, compared) else {
                let is_gone = |column: &usize| rows.block(*column, row).is_none();
                (0..columns).filter(is_gone).for_each(|column| found.doubt(column, row));
                continue;
            };
            // A block that was computed without a checksum to prove it proves nothing itself.
            let is_proved =
                |column| rows.block(column, row).is_some() || crcs(column, row).is_some();
            if (0..columns).all(is_proved) {
                proving.push(row);
            }
            for (column, block) in data.iter().enumerate() {
                if rows.block(column, row).is_none() && rows.strips[column].is_some() {
                    if rejected.contains(&(column, row)) {
                        rows.blame(column);
                    }
                    found.bad += 1;
                    let is_repaired = self.mend(set, &rows, (column, row), block).await?;
                    found.count(rows.copies[column].as_ref(), is_repaired);
                }
            }
        }
        let mut is_durable = false;
        for row in proving {
            let data = rows.complete(row, compared).expect("it was complete before");
            let data: Vec<&[u8]> = data.iter().map(AsRef::as_ref).collect();
            self.scrub_parity_row(set, row, known, (&rows, &data), (&mut is_durable, found))
                .await?;
        }
        Ok(())
    }

    /// Whether these strips are durable before another parity is made anew of them. Until then the old
    /// one may be all that gives a block which was mended, or restored, a moment ago.
    pub(super) async fn make_durable(
        &self,
        rows: &Rows,
        strips: impl Iterator<Item = usize>,
    ) -> bool {
        if is(Mutant::EarlyParity) {
            return true;
        }
        let copies = strips.filter_map(|strip| rows.copies[strip].as_ref());
        let disks: Vec<_> = copies.map(|copy| Arc::clone(&copy.disk)).collect();
        self.flush_disks(disks.clone()).await;
        disks.iter().all(|disk| self.is_in_use(disk))
    }

    /// Compares the parity of a row with data that is right, where it is known what it must be.
    async fn scrub_parity_row(
        &self,
        set: &Set,
        row: usize,
        known: Contents<'_>,
        (rows, data): (&Rows, &[&[u8]]),
        (is_durable, found): (&mut bool, &mut Scrubbed),
    ) -> Result<(), WriteError> {
        let (columns, strips) = (set.shape().columns(), set.shape().strips());
        let is_covered = |column: &usize| rows.written >> *column & 1 == 1;
        let mut unknown =
            (0..columns).filter(is_covered).filter(|c| (known.crcs)(*c, row).is_none());
        // Something came there after the caller had looked: what it must be is not known.
        if unknown.clone().any(known.is_taken) {
            return Ok(());
        }
        // What nobody owns any more still counts in the parity; whether it rotted or the parity
        // did cannot be told, and matters to nobody.
        let is_all_known = unknown.next().is_none();
        found.parity_rows += 1;
        let mut parities = vec![[0; BLOCK_BYTES]; strips - columns];
        compute(data, &mut parities.iter_mut().map(|p| &mut p[..]).collect::<Vec<_>>());
        let agrees = |(strip, right): (usize, &[u8; BLOCK_BYTES])| {
            rows.block(strip, row).is_some_and(|held| held == right)
        };
        if !(columns..strips).zip(&parities).any(agrees)
            && self.restore_unowned(set, row, known.crcs, (rows, data), found).await?
        {
            return Ok(());
        }
        for (strip, right) in (columns..strips).zip(&parities) {
            let held = rows.block(strip, row);
            if held == Some(&right[..]) {
                continue;
            }
            if held.is_some() && is_all_known {
                rows.blame(strip);
            }
            if rows.strips[strip].is_some() {
                found.bad += 1;
                if !is_all_known && !*is_durable {
                    *is_durable = self.make_durable(rows, 0..columns).await;
                }
                if !is_all_known && !*is_durable {
                    found.count(rows.copies[strip].as_ref(), false);
                    continue;
                }
                let is_repaired = self.mend(set, rows, (strip, row), right).await?;
                found.count(rows.copies[strip].as_ref(), is_repaired);
            }
        }
        Ok(())
    }

    /// Writes what nobody owns as two parities agree that it was; whether they do. To make both anew of what
    /// it is would take, for a moment, what they give together: with a crash in that moment for longer.
    async fn restore_unowned(
        &self,
        set: &Set,
        row: usize,
        crcs: Crcs<'_>,
        (rows, data): (&Rows, &[&[u8]]),
        found: &mut Scrubbed,
    ) -> Result<bool, WriteError> {
        let mut right = [0; BLOCK_BYTES];
        let wrong = rows.wrong_beside(row, data, crcs, &mut right);
        let is_unowned = |strip: &usize| *strip < set.shape().columns();
        let Some(column) = wrong.filter(is_unowned) else { return Ok(false) };
        if is(Mutant::ForgetAgreed) {
            return Ok(false);
        }
        found.bad += 1;
        let is_repaired = self.mend(set, rows, (column, row), &right).await?;
        found.count(rows.copies[column].as_ref(), is_repaired);
        Ok(true)
    }

    /// Writes the right contents of a block that could not be read or is wrong; whether its disk took them.
    async fn mend(
        &self,
        set: &Set,
        rows: &Rows,
        (strip, row): (usize, usize),
        right: &[u8],
    ) -> Result<bool, WriteError> {
        let Some(copy) = &rows.copies[strip] else { return Ok(false) };
        let mut buf = Buf::alloc(right.len()).ok_or(WriteError::Later(BlockError::NoMemory))?;
        buf.copy_from_slice(right);
        self.repair(set, rows.stripe, copy, row, buf.freeze()).await
    }
}

//! Reading everything of a stripe and repairing what is wrong.

use block::BlockError;
use ring::Buf;

use crate::{BLOCK_BYTES, CLUSTER_BLOCKS, crc32c};

use super::read::Wanted;
use super::rows::{Crcs, Rows, compute};
use super::set::Set;
use super::{Raid, ReadError, WriteError};

/// What a scrub of a stripe found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Scrubbed {
    /// Blocks of data compared with their checksums, each copy counted.
    pub verified: u32,
    /// Rows whose parity was compared with the data.
    pub parity_rows: u32,
    /// Blocks that could not be read or were wrong, parity included.
    pub bad: u32,
    /// How many of them are right again.
    pub repaired: u32,
    /// How many of them are known, and their disk did not take them.
    pub refused: u32,
    /// Data blocks (column, block) that no disk can give.
    pub damaged: Vec<(usize, usize)>,
}

impl Scrubbed {
    fn count(&mut self, is_repaired: bool) {
        *(if is_repaired { &mut self.repaired } else { &mut self.refused }) += 1;
    }
}

/// Rows of a stripe, whole.
const ROWS: std::ops::Range<usize> = 0..CLUSTER_BLOCKS;

impl Raid {
    /// Verifies and repairs what the disks that are there hold of a stripe. `crcs` gives the
    /// checksums of live blocks (column, block); blocks without one are only good for parity.
    /// Members that are away or stale are left to [`refresh_stripe`](Self::refresh_stripe).
    ///
    /// # Errors
    /// When the stripe cannot be read now: more members are missing than the level survives, or a
    /// passing error.
    pub async fn scrub_stripe(
        &self,
        set: &Set,
        stripe: u32,
        crcs: &dyn Fn(usize, usize) -> Option<u32>,
    ) -> Result<Scrubbed, ReadError> {
        let _guard = self.locks.lock(set.id(), stripe).await;
        if set.written(stripe) == 0 {
            return Ok(Scrubbed::default());
        }
        if !self.is_readable(set, stripe) {
            return Err(ReadError::Lost);
        }
        let mut found = Scrubbed::default();
        let scrubbed = if set.shape().parity() == 0 {
            self.scrub_copies(set, stripe, crcs, &mut found).await
        } else {
            self.scrub_parity(set, stripe, crcs, &mut found).await
        };
        match scrubbed {
            Ok(()) => Ok(found),
            Err(WriteError::Lost) => Err(ReadError::Lost),
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
                if loaded.block(row).is_some_and(|block| crc32c(block) == crc) {
                    continue;
                }
                found.bad += 1;
                if loaded.block(row).is_some() {
                    copy.disk.count_mismatch();
                }
                let without = Some(copy.disk.id());
                let rows = row..row + 1;
                let wanted = Wanted { set, stripe, strip: 0, rows, crcs, without, first: None };
                let fetched = self.fetch(&wanted).await.map_err(WriteError::Later)?;
                if fetched.missing == 0 {
                    let data = fetched.bytes.freeze();
                    let is_done = self.repair(set, stripe, &copy, row, data).await?;
                    found.count(is_done);
                } else if !found.damaged.contains(&(0, row)) {
                    found.damaged.push((0, row));
                }
            }
        }
        Ok(())
    }

    async fn scrub_parity(
        &self,
        set: &Set,
        stripe: u32,
        crcs: Crcs<'_>,
        found: &mut Scrubbed,
    ) -> Result<(), WriteError> {
        let columns = set.shape().columns();
        let mut rows =
            self.load_rows(set, stripe, u16::MAX, &ROWS).await.map_err(WriteError::Later)?;
        let is_live = |column: usize, row| rows.block(column, row).is_some_and(|b| !b.is_empty());
        let live = (0..columns).flat_map(|column| ROWS.map(move |row| (column, row)));
        let known = live.filter(|(column, row)| crcs(*column, *row).is_some());
        found.verified += known.filter(|(column, row)| is_live(*column, *row)).count() as u32;
        for (column, row) in rows.reject_wrong(crcs) {
            self.blame(set, stripe, column, row);
        }
        for row in ROWS {
            let Some(data) = rows.complete(row, crcs) else {
                let is_gone = |column: &usize| rows.block(*column, row).is_none();
                for column in (0..columns).filter(is_gone) {
                    found.bad += u32::from(rows.strips[column].is_some());
                    found.damaged.push((column, row));
                }
                continue;
            };
            // A block that was computed without a checksum to prove it proves nothing itself.
            let is_proved =
                |column| rows.block(column, row).is_some() || crcs(column, row).is_some();
            let proves_parity = (0..columns).all(is_proved);
            for (column, block) in data.iter().enumerate() {
                if rows.block(column, row).is_none() && rows.strips[column].is_some() {
                    found.bad += 1;
                    found.count(self.mend(set, stripe, (column, row), block).await?);
                }
            }
            if proves_parity {
                let data: Vec<&[u8]> = data.iter().map(AsRef::as_ref).collect();
                self.scrub_parity_row(set, stripe, row, (&rows, &data), found).await?;
            }
        }
        Ok(())
    }

    async fn scrub_parity_row(
        &self,
        set: &Set,
        stripe: u32,
        row: usize,
        (rows, data): (&Rows, &[&[u8]]),
        found: &mut Scrubbed,
    ) -> Result<(), WriteError> {
        let (columns, strips) = (set.shape().columns(), set.shape().strips());
        found.parity_rows += 1;
        let mut parities = vec![[0; BLOCK_BYTES]; strips - columns];
        compute(data, &mut parities.iter_mut().map(|p| &mut p[..]).collect::<Vec<_>>());
        for (strip, right) in (columns..strips).zip(&parities) {
            let held = rows.block(strip, row);
            if held == Some(&right[..]) {
                continue;
            }
            if held.is_some() {
                self.blame(set, stripe, strip, row);
            }
            if rows.strips[strip].is_some() {
                found.bad += 1;
                found.count(self.mend(set, stripe, (strip, row), right).await?);
            }
        }
        Ok(())
    }

    /// Writes the right contents of a block that could not be read or is wrong; whether its disk took them.
    async fn mend(
        &self,
        set: &Set,
        stripe: u32,
        (strip, row): (usize, usize),
        right: &[u8],
    ) -> Result<bool, WriteError> {
        let copies = self.copies(set, stripe, strip);
        let Some(copy) = copies.first() else { return Ok(false) };
        let mut buf = Buf::alloc(right.len()).ok_or(WriteError::Later(BlockError::NoMemory))?;
        buf.copy_from_slice(right);
        self.repair(set, stripe, copy, row, buf.freeze()).await
    }
}

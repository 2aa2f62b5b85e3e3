//! Bringing chunks up to date that missed something: a replacement that is being filled, and a
//! member whose disk was away. Both are the same to a stripe.

use block::WriteFlags;

use crate::{BLOCK_BYTES, CLUSTER_BLOCKS};

use super::heal::Heal;
use super::io::Target;
use super::read::{Fetched, Wanted, lost_block};
use super::record::Seat;
use super::rows::{Crcs, NO_CRCS, hull, rows_of};
use super::set::Set;
use super::{Raid, ReadError, WriteError};

/// What became of a stripe.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Refreshed {
    /// Bytes written.
    pub written_bytes: u64,
    /// Data blocks (column, block) that no disk gives as they must be. Until the caller says that
    /// it is sure of their checksums whoever lacks them lacks them still; then they are lost, and
    /// stay as they are where they are lacked, so that reads find them damaged there too.
    pub unproved: Vec<(usize, usize)>,
    /// Chunks that still miss something: their disks are not there, or something is unproved.
    pub left: u32,
    /// Copies that turned out to be wrong on disks that should have been a help.
    pub heals: Vec<Heal>,
}

/// What the caller knows of the data of a stripe.
#[derive(Clone, Copy)]
pub struct Proof<'a> {
    /// The checksums of data (column, block) that lives there; what has none is nobody's, and taken
    /// as it is.
    pub crcs: Crcs<'a>,
    /// They were looked up anew: what does not match is lost.
    pub is_sure: bool,
}

impl Proof<'static> {
    /// Nothing lives there that could be proved.
    pub const NOTHING: Self = Self { crcs: NO_CRCS, is_sure: true };
}

impl std::fmt::Debug for Proof<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Proof").field("is_sure", &self.is_sure).finish_non_exhaustive()
    }
}

impl Raid {
    /// Gives everybody who missed something of a stripe what they lack, as far as their disks are
    /// there: the replacement, and members that are back. Nothing is written as data that does not
    /// match the `proof`.
    ///
    /// # Errors
    /// When the stripe cannot be read now, or a disk failed meanwhile; nothing is counted as up to
    /// date then.
    pub async fn refresh_stripe(
        &self,
        set: &Set,
        stripe: u32,
        proof: Proof<'_>,
    ) -> Result<Refreshed, ReadError> {
        let shape = set.shape();
        let mut refreshed = Refreshed::default();
        if set.stale(stripe) == 0 {
            return Ok(refreshed);
        }
        let _guard = self.locks.lock(set, stripe).await;
        let written = set.written(stripe);
        for (strip, seat) in set.stale_holders(stripe) {
            let disk = self.disks().get(seat.disk).filter(|disk| disk.is_writable());
            if disk.is_none() {
                refreshed.left += 1;
                continue;
            }
            let holds_data =
                if strip < shape.columns() { written >> strip & 1 == 1 } else { written != 0 };
            if !holds_data {
                set.clear_stale(stripe, seat.disk);
                continue;
            }
            // With too many that lack something each is asked for what it does not lack. What nobody
            // has then may still come back with a disk that is away.
            let may_come_back = !self.is_readable(set, stripe) && !self.are_all_there(set, stripe);
            self.refresh_holder(set, stripe, (strip, seat), (proof, may_come_back), &mut refreshed)
                .await?;
        }
        Ok(refreshed)
    }

    /// Writes a strip to one chunk, as far as it is proved.
    async fn refresh_holder(
        &self,
        set: &Set,
        stripe: u32,
        (strip, seat): (usize, Seat),
        (proof, may_come_back): (Proof<'_>, bool),
        refreshed: &mut Refreshed,
    ) -> Result<(), ReadError> {
        let is_parity = strip >= set.shape().columns();
        let rows = 0..CLUSTER_BLOCKS;
        let mut wanted = Wanted::any(set, (stripe, strip), rows, proof.crcs);
        wanted.is_computed = is_parity;
        wanted.may_be_stale = proof.is_sure && !is_parity;
        wanted.is_by_parity = set.shape().parity() > 0;
        let mut fetched = self.fetch(&wanted).await.map_err(ReadError::Later)?;
        refreshed.heals.extend(self.heals_of(&wanted, &fetched));
        let unproved = match is_parity {
            true if fetched.missing != 0 => self.unproved_data(&wanted, fetched.missing).await?,
            _ => rows_of(fetched.missing).map(|row| (strip, row)).collect(),
        };
        // What lives nowhere needs no proof.
        let is_live = |(column, row): &(usize, usize)| (proof.crcs)(*column, *row).is_some();
        let unproved: Vec<_> = unproved.into_iter().filter(is_live).collect();
        let is_proved = unproved.is_empty();
        refreshed.unproved.extend(unproved);
        if !is_proved && !proof.is_sure {
            refreshed.left += 1;
            return Ok(());
        }
        if may_come_back && fetched.missing != 0 {
            return Err(ReadError::Lost);
        }
        if is_parity && fetched.missing != 0 {
            // The parity as its member holds it, or of what there is, right or wrong: it still
            // gives the other columns.
            (wanted.crcs, wanted.is_computed) = (NO_CRCS, false);
            let raw = self.fetch(&wanted).await.map_err(ReadError::Later)?;
            for row in rows_of(fetched.missing & !raw.missing) {
                let at = row * BLOCK_BYTES..(row + 1) * BLOCK_BYTES;
                fetched.bytes[at.clone()].copy_from_slice(&raw.bytes[at]);
            }
            fetched.missing &= raw.missing;
        }
        let lost_blocks = fetched.missing.count_ones();
        if set.shape().parity() == 0 && set.level().is_some() {
            for row in rows_of(fetched.missing) {
                let lost = lost_block(set.id(), set.shape().slot(stripe, strip), row);
                fetched.bytes[row * BLOCK_BYTES..][..BLOCK_BYTES].copy_from_slice(&lost);
            }
            fetched.missing = 0;
        }
        let bytes = fetched.bytes.freeze();
        let target = |first: usize, end: usize| Target {
            seat,
            at: set.byte_at(seat, stripe, first),
            data: bytes.slice(first * BLOCK_BYTES..end * BLOCK_BYTES),
        };
        let targets: Vec<_> = match fetched.missing {
            0 => vec![target(0, CLUSTER_BLOCKS)],
            missing => rows_of(!missing).map(|row| target(row, row + 1)).collect(),
        };
        match self.write_targets(set, stripe, &targets, WriteFlags::VOLATILE).await {
            Ok(done) if done.iter().all(Option::is_some) => {
                match done.first() {
                    Some(disk) => disk.iter().for_each(|disk| self.credit(set, stripe, disk)),
                    // All of it is lost, so there was nothing to write.
                    None => set.clear_stale(stripe, seat.disk),
                }
                let blocks = u64::from(u16::BITS - lost_blocks);
                refreshed.written_bytes += blocks * BLOCK_BYTES as u64;
                Ok(())
            }
            Ok(_) => {
                refreshed.left += 1;
                Ok(())
            }
            Err(WriteError::Later(error)) => Err(ReadError::Later(error)),
            Err(WriteError::Lost) => Err(ReadError::Lost),
        }
    }

    /// Blocks of data columns that keep these rows of the parity from being proved: what cannot be
    /// read and fits what the parity that its member holds makes of it proves that.
    async fn unproved_data(
        &self,
        wanted: &Wanted<'_>,
        missing: u16,
    ) -> Result<Vec<(usize, usize)>, ReadError> {
        let Wanted { set, stripe, crcs, .. } = *wanted;
        let loaded = self.load_rows(set, stripe, u16::MAX, &hull(missing)).await;
        let mut rows = loaded.map_err(ReadError::Later)?;
        rows.reject_wrong(crcs);
        let columns = 0..set.shape().columns();
        let gone = rows_of(missing).flat_map(|row| {
            let rows = &rows;
            columns
                .clone()
                .filter(move |column| rows.get(*column, row, crcs).is_none())
                .map(move |column| (column, row))
        });
        Ok(gone.collect())
    }

    /// What a look at a strip found wrong, to be rewritten.
    fn heals_of(&self, wanted: &Wanted<'_>, fetched: &Fetched) -> Vec<Heal> {
        let Wanted { set, stripe, strip, crcs, .. } = *wanted;
        let shape = set.shape();
        let heal = |column: usize, block: usize, disk| {
            let slot =
                if column < shape.columns() { shape.slot(stripe, column) } else { return None };
            Some(Heal { set: set.id(), slot, block, crc: crcs(column, block)?, disk })
        };
        let own = fetched.bad.iter().filter_map(|(disk, row)| heal(strip, *row, *disk));
        let wrong = fetched.wrong.iter();
        let others = wrong.filter_map(|(disk, column, row)| heal(*column, *row, *disk));
        own.chain(others).collect()
    }
}

//! Rewriting blocks that a read found broken.

use block::WriteFlags;
use ring::Data;

use crate::mutants::{Mutant, is};
use crate::{BLOCK_BYTES, DiskId, SetId, block_checksum};

use super::io::{Copy, Target};
use super::read::{Wanted, lost_block};
use super::rows::{Crcs, NO_CRCS};
use super::set::Set;
use super::{Raid, WriteError};

/// A copy of a block that could not be read or was wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Heal {
    /// The set.
    pub set: SetId,
    /// The slot.
    pub slot: u32,
    /// The block of the slot.
    pub block: usize,
    /// What it must be.
    pub crc: u32,
    /// Where it is broken.
    pub disk: DiskId,
}

/// What became of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Healed {
    /// Rewritten, and read back.
    Healed,
    /// It is as it must be.
    Fine,
    /// Nothing matches the checksum: the data is lost, or something else lies there now.
    NoSource,
    /// The disk did not take it, or has no part in the stripe any more.
    NotWritten,
}

impl Raid {
    /// Rewrites a broken copy, after a second look.
    ///
    /// # Errors
    /// [`WriteError::Later`] only.
    pub async fn heal(&self, set: &Set, heal: &Heal) -> Result<Healed, WriteError> {
        assert!(heal.set == set.id(), "the heal is for this set");
        let (stripe, strip) = set.shape().locate(heal.slot);
        let _guard = self.locks.lock(set, stripe).await;
        let copies = self.copies(set, stripe, strip);
        let Some(copy) = copies.iter().find(|copy| copy.disk.id() == heal.disk) else {
            return Ok(Healed::NotWritten);
        };
        if !copy.disk.is_writable() || copy.disk.is_silent() {
            // Hosts wait for this stripe: nobody asks a disk for minutes that would not take it.
            return Ok(Healed::NotWritten);
        }
        let rows = heal.block..heal.block + 1;
        let found = self.load(set, stripe, copy, rows.clone()).await.map_err(WriteError::Later)?;
        let fits = |block| block_checksum(set.id(), heal.slot, heal.block, block) == heal.crc;
        if found.block(heal.block).is_some_and(fits) {
            return Ok(Healed::Fine);
        }
        let crc_of = |column, block| (column == strip && block == heal.block).then_some(heal.crc);
        let without = Some(heal.disk);
        let crcs: Crcs<'_> = if is(Mutant::BlindHeal) { NO_CRCS } else { &crc_of };
        let wanted = Wanted { without, ..Wanted::any(set, (stripe, strip), rows, crcs) };
        let fetched = self.fetch(&wanted).await.map_err(WriteError::Later)?;
        if fetched.missing != 0 {
            return Ok(Healed::NoSource);
        }
        let came_lost = lost_block(set.id(), heal.slot, heal.block);
        if found.block(heal.block).is_some_and(|block| block != came_lost) {
            // The right contents are elsewhere: it is this copy that is wrong.
            copy.disk.count_mismatch();
        }
        let is_done = self.repair(set, stripe, copy, heal.block, fetched.bytes.freeze()).await?;
        Ok(if is_done { Healed::Healed } else { Healed::NotWritten })
    }

    /// Writes a block of one copy and reads it back; whether it is there. Call it under the
    /// stripe's lock.
    pub(super) async fn repair(
        &self,
        set: &Set,
        stripe: u32,
        copy: &Copy,
        block: usize,
        data: Data,
    ) -> Result<bool, WriteError> {
        debug_assert_eq!(data.len(), BLOCK_BYTES);
        if !copy.disk.is_writable() {
            return Ok(false);
        }
        let at = set.byte_at(copy.seat, stripe, block);
        let target = Target { seat: copy.seat, at, data: data.clone() };
        let done = self.write_targets(set, stripe, &[target], WriteFlags::VOLATILE).await?;
        if done[0].is_none() {
            return Ok(false);
        }
        let again = self.load(set, stripe, copy, block..block + 1).await;
        let again = again.map_err(WriteError::Later)?;
        let is_there = again.block(block).is_some_and(|found| data.as_slice() == Some(found))
            || is(Mutant::BlindRepair);
        if is_there {
            copy.disk.count_healed();
        } else {
            copy.disk.count_mismatch();
        }
        Ok(is_there)
    }
}

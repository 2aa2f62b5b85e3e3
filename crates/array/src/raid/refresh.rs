//! Bringing chunks up to date that missed something: a replacement that is being filled, and a
//! member whose disk was away. Both are the same to a stripe.

use block::WriteFlags;

use crate::{BLOCK_BYTES, CLUSTER_BLOCKS};

use super::io::Target;
use super::read::Wanted;
use super::record::Seat;
use super::rows::{Crcs, rows_of};
use super::set::Set;
use super::{Raid, ReadError, WriteError};

/// What became of a stripe.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Refreshed {
    /// Bytes written.
    pub written_bytes: u64,
    /// Blocks that no disk could give: they stay as they are, and reads will find them damaged.
    pub damaged_blocks: u32,
    /// Chunks that still miss something, because their disks are not there.
    pub left: u32,
}

impl Raid {
    /// Gives everybody who missed something of a stripe what they lack, as far as their disks are
    /// there: the replacement, and members that are back. `crcs` are the checksums that the caller
    /// knows (column, block); without them what other disks hold is believed.
    ///
    /// # Errors
    /// When the stripe cannot be read now, or a disk failed meanwhile; nothing is counted as up to
    /// date then.
    pub async fn refresh_stripe(
        &self,
        set: &Set,
        stripe: u32,
        crcs: &dyn Fn(usize, usize) -> Option<u32>,
    ) -> Result<Refreshed, ReadError> {
        let shape = set.shape();
        let mut refreshed = Refreshed::default();
        if set.stale(stripe) == 0 {
            return Ok(refreshed);
        }
        let _guard = self.locks.lock(set.id(), stripe).await;
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
            if !self.is_readable(set, stripe) {
                return Err(ReadError::Lost);
            }
            match self.refresh_holder(set, stripe, (strip, seat), crcs).await? {
                Some((bytes, damaged)) => {
                    refreshed.written_bytes += bytes;
                    refreshed.damaged_blocks += damaged;
                }
                None => refreshed.left += 1,
            }
        }
        Ok(refreshed)
    }

    /// Writes a strip to one chunk: the bytes written and the blocks that could not be had, or
    /// `None` when its disk did not take them.
    async fn refresh_holder(
        &self,
        set: &Set,
        stripe: u32,
        (strip, seat): (usize, Seat),
        crcs: Crcs<'_>,
    ) -> Result<Option<(u64, u32)>, ReadError> {
        let wanted = Wanted {
            set,
            stripe,
            strip,
            rows: 0..CLUSTER_BLOCKS,
            crcs,
            without: None,
            first: None,
        };
        let fetched = self.fetch(&wanted).await.map_err(ReadError::Later)?;
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
                done.iter().flatten().for_each(|disk| self.credit(set, stripe, disk));
                let blocks = u64::from(fetched.missing.count_zeros());
                Ok(Some((blocks * BLOCK_BYTES as u64, fetched.missing.count_ones())))
            }
            Ok(_) => Ok(None),
            Err(WriteError::Later(error)) => Err(ReadError::Later(error)),
            Err(WriteError::Lost) => Err(ReadError::Lost),
        }
    }
}

//! Writes: to every copy and parity that is there, and a note for those that are not.

use block::{BlockError, WriteFlags};
use ring::{Buf, Data};

use crate::mutants::{Mutant, is};
use crate::{BLOCK_BYTES, CLUSTER_BLOCKS, CLUSTER_BYTES};

use super::geometry::{COLUMNS_MAX, MEMBERS_MAX};
use super::io::{Target, still};
use super::record::Seat;
use super::rows::{compute, mask_of};
use super::set::Set;
use super::{Raid, WriteError};

/// New contents of blocks of one strip, on whichever members hold it.
#[derive(Debug, Clone)]
pub struct Put {
    /// Data columns count from 0; P and Q follow.
    pub strip: usize,
    /// The block of the strip that it begins with.
    pub first_block: usize,
    /// Whole blocks.
    pub data: Data,
}

impl Put {
    /// The blocks it covers (bit = block of the strip).
    pub(super) fn coverage(&self) -> u16 {
        let blocks = self.data.len() / BLOCK_BYTES;
        assert!(blocks > 0 && self.data.len().is_multiple_of(BLOCK_BYTES), "whole blocks");
        assert!(self.first_block + blocks <= CLUSTER_BLOCKS, "blocks of one strip");
        mask_of(&(self.first_block..self.first_block + blocks))
    }
}

/// What of each strip is written: by strip, a bit for each block.
pub(super) type Coverage = [u16; MEMBERS_MAX];

pub(super) fn coverage_of(puts: &[Put]) -> Coverage {
    let mut coverage = [0; MEMBERS_MAX];
    for put in puts {
        coverage[put.strip] |= put.coverage();
    }
    coverage
}

impl Raid {
    /// Writes `columns`, 64 KiB each, and the parity of all into a stripe that holds no live data.
    /// Columns that are not named count as zeroes and are not touched.
    ///
    /// # Errors
    /// Those of every write; the stripe then holds nothing.
    pub async fn write_fresh(
        &self,
        set: &Set,
        stripe: u32,
        columns: &[(usize, Data)],
        flags: WriteFlags,
    ) -> Result<(), WriteError> {
        let shape = set.shape();
        let mut written = 0u8;
        let mut puts = Vec::with_capacity(shape.strips());
        for (column, data) in columns {
            assert!(*column < shape.columns() && written >> column & 1 == 0, "columns, each once");
            assert!(data.len() == CLUSTER_BYTES, "a fresh strip is written as a whole");
            written |= 1 << column;
            // Parity must be that of the bytes that are written, so they must not move.
            let data = if shape.parity() == 0 { data.clone() } else { still_now(data)? };
            puts.push(Put { strip: *column, first_block: 0, data });
        }
        if shape.parity() > 0 {
            let mut data: [&[u8]; COLUMNS_MAX] = [&[]; COLUMNS_MAX];
            for put in &puts {
                data[put.strip] = put.data.as_slice().expect("made still above");
            }
            let parities = parity_of(&data[..shape.columns()], shape.parity())?;
            puts.extend(parities.into_iter().enumerate().map(|(i, buf)| Put {
                strip: shape.columns() + i,
                first_block: 0,
                data: buf.freeze(),
            }));
        }
        let _guard = self.locks.lock(set, stripe).await;
        self.forget_half(set.id(), stripe);
        set.set_written(stripe, 0);
        self.put(set, stripe, written, &puts, flags).await?;
        set.set_written(stripe, written);
        Ok(())
    }

    /// Writes blocks of a slot in place, on every copy. Sets with parity have
    /// [`plan_update`](Self::plan_update) for that.
    ///
    /// # Errors
    /// Those of every write.
    pub async fn write_slot(
        &self,
        set: &Set,
        slot: u32,
        first_block: usize,
        data: Data,
        flags: WriteFlags,
    ) -> Result<(), WriteError> {
        assert!(set.shape().parity() == 0, "parity changes by plan and update");
        let (stripe, strip) = set.shape().locate(slot);
        // Copies must be alike, so the bytes must not move between them.
        let data = if set.shape().members() == 1 { data } else { still_now(&data)? };
        let _guard = self.locks.lock(set, stripe).await;
        self.put(set, stripe, 1, &[Put { strip, first_block, data }], flags).await
    }

    /// Does `puts` on all members and the replacement; afterwards the stripe holds `written`. Call
    /// it under the stripe's lock.
    pub(super) async fn put(
        &self,
        set: &Set,
        stripe: u32,
        written: u8,
        puts: &[Put],
        flags: WriteFlags,
    ) -> Result<(), WriteError> {
        if !self.survives(set, stripe, written, &coverage_of(puts)) {
            return Err(WriteError::Lost);
        }
        self.put_anyway(set, (stripe, written), puts, flags, None).await
    }

    /// As [`put`](Self::put), also where the stripe cannot be read back from what is there. Of an update it
    /// is told who was `sound` before it began: such a member lacks nothing afterwards if it takes all of it.
    /// And a parity of an update comes out of the one before: of a disk that turned out to lack all, that
    /// was something else, and it lacks the parity still.
    pub(super) async fn put_anyway(
        &self,
        set: &Set,
        (stripe, written): (u32, u8),
        puts: &[Put],
        flags: WriteFlags,
        sound: Option<&[Seat]>,
    ) -> Result<(), WriteError> {
        let coverage = coverage_of(puts);
        let is_covered = |strip: usize, seat: Seat| {
            let is_parity = strip >= set.shape().columns() && !is(Mutant::CreditParity);
            let is_doubtful = is_parity && sound.is_some() && self.disks().lacks_all(seat.disk);
            let was_sound = sound.is_some_and(|sound| self.is_sound(sound, seat));
            coverage[strip] == u16::MAX && !is_doubtful || was_sound
        };
        let mut targets = Vec::with_capacity(puts.len());
        let mut covered = Vec::with_capacity(puts.len());
        for put in puts {
            for holder in set.holders(stripe, put.strip) {
                let at = set.byte_at(holder.seat, stripe, put.first_block);
                targets.push(Target { seat: holder.seat, at, data: put.data.clone() });
                covered.push(is_covered(put.strip, holder.seat));
            }
        }
        let began = self.failed.now();
        let done = self.write_targets(set, stripe, &targets, flags).await?;
        self.times.written(set.level(), self.failed.now().saturating_sub(began));
        for ((target, disk), is_covered) in targets.iter().zip(&done).zip(covered) {
            let mut parts = targets.iter().zip(&done);
            let is_missed = parts.any(|(part, done)| part.seat == target.seat && done.is_none());
            if let Some(disk) = disk.as_ref().filter(|_| is_covered && !is_missed) {
                self.credit(set, stripe, target.seat, disk);
            }
        }
        let is_safe = self.survives(set, stripe, written, &[0; MEMBERS_MAX]);
        if is_safe { Ok(()) } else { Err(WriteError::Half) }
    }

    /// Whether the stripe can be read back once `coverage` is written: at most as many strips may
    /// lack a good copy as there are parities. A disk that is out has none: it may be dead.
    pub(super) fn survives(
        &self,
        set: &Set,
        stripe: u32,
        written: u8,
        coverage: &Coverage,
    ) -> bool {
        let shape = set.shape();
        let is_sound = |strip: usize| {
            set.holders(stripe, strip).iter().any(|holder| {
                let Some(disk) = self.disks().get(holder.seat.disk) else { return false };
                match coverage[strip] {
                    0 => (disk.is_writable() || is(Mutant::TrustOut)) && !holder.is_stale,
                    u16::MAX => disk.is_writable(),
                    _ => disk.is_writable() && !holder.is_stale,
                }
            })
        };
        let counts = |strip: &usize| *strip >= shape.columns() || written >> *strip & 1 == 1;
        let unsound = (0..shape.strips()).filter(counts).filter(|strip| !is_sound(*strip)).count();
        unsound <= shape.parity()
    }
}

/// The same bytes in memory that stands still.
pub(super) fn still_now(data: &Data) -> Result<Data, WriteError> {
    still(data.clone()).map_err(WriteError::Later)
}

/// New buffers with the parities of `data`.
fn parity_of(data: &[&[u8]], parities: usize) -> Result<Vec<Buf>, WriteError> {
    let bufs: Option<Vec<Buf>> = (0..parities).map(|_| Buf::alloc(CLUSTER_BYTES)).collect();
    let mut bufs = bufs.ok_or(WriteError::Later(BlockError::NoMemory))?;
    let mut slices: Vec<&mut [u8]> = bufs.iter_mut().map(|buf| &mut buf[..]).collect();
    compute(data, &mut slices);
    Ok(bufs)
}

//! The two slots on each holder that checkpoint records are written to in turn.

use std::sync::Arc;

use block::{BlockDevice, BlockError, WriteFlags};
use ring::Region;

use crate::join::join_all;
use crate::label::{ArrayId, Label, Layout, MemberState};
use crate::mutants::{self, Mutant};
use crate::raid::is_passing;
use crate::wire::{array_at, put, u32_at, u64_at};
use crate::{BLOCK_BYTES, crc32c};

const MAGIC: [u8; 8] = *b"DRYSCKPT";
const MARK_MAGIC: [u8; 8] = *b"DRYSMARK";
const HEAD_CRC_AT: usize = 60;
/// Slots are transferred in pieces of this size, so that records of any size need little memory.
const PIECE_BYTES: usize = 1 << 20;

/// The header of a slot, a block of its own before the payload.
///
/// ```text
/// 0       8       24       32           40           44           60        64      4 KiB
/// +-------+-------+--------+------------+------------+------------+---------+--------+---------+
/// | magic | array | number | payload len| crc payload| zeroes     | crc head| zeroes | payload |
/// +-------+-------+--------+------------+------------+------------+---------+--------+---------+
/// ```
///
/// 1. `crc payload` covers the payload, padded with zeroes to whole blocks; `crc head` covers all
///    other bytes of the header's block.
/// 2. Record `n` lies in slot `n % 2`, so record `n - 1` stays whole while `n` is written.
/// 3. A record is whole on every holder that [`write_slot`] did not fail on, before anything that
///    only record `n - 1` refers to is used again.
/// 4. Before record `n` is written, disks get a [mark](super::marks) in that place: the same block, with another
///    magic and no payload. It is never taken for a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Head {
    array: ArrayId,
    number: u64,
    len_bytes: u64,
    crc: u32,
}

/// A record that was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Slot {
    /// Counts checkpoints from 1 on.
    pub number: u64,
    /// What was written.
    pub payload: Vec<u8>,
    /// Devices, by their place in the list, that do not hold this record whole: write it again to
    /// them, or leave them out.
    pub lagging: Vec<usize>,
    /// Devices that did not give one of their slots: it may have a newer record, which must not be found
    /// when what it refers to has been used again. [Void](void_other) it before.
    pub unread: Vec<usize>,
}

/// Why there is no checkpoint to start from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SlotError {
    /// None of the slots holds a whole record.
    #[error("no disk of array {array} holds a whole checkpoint: its volumes cannot be found")]
    NoneWhole {
        /// The array.
        array: ArrayId,
    },
    /// None is whole, and a disk could not be read.
    #[error("no whole checkpoint of array {array} can be read: {error}")]
    Unreadable {
        /// The array.
        array: ArrayId,
        /// What the last disk that failed said.
        error: BlockError,
    },
    /// The machine has no memory for it now; nothing was written.
    #[error("there is no memory for a checkpoint")]
    NoMemory,
    /// More than a slot holds.
    #[error("a checkpoint of {len_bytes} bytes exceeds the {max_bytes} bytes of its slot")]
    TooLong {
        /// What was to be written.
        len_bytes: u64,
        /// What fits.
        max_bytes: u64,
    },
}

impl Head {
    fn encode(&self, magic: &[u8; 8], block: &mut [u8]) {
        assert_eq!(block.len(), BLOCK_BYTES, "a header is a block");
        block.fill(0);
        put(block, 0, magic);
        put(block, 8, &self.array.0);
        put(block, 24, &self.number.to_le_bytes());
        put(block, 32, &self.len_bytes.to_le_bytes());
        put(block, 40, &self.crc.to_le_bytes());
        let crc = crc32c(block);
        put(block, HEAD_CRC_AT, &crc.to_le_bytes());
    }

    /// The header of a whole record of `array`, or a mark by the other magic, that can lie in slot `slot` of
    /// `layout`.
    fn decode(
        magic: &[u8; 8],
        block: &[u8],
        array: ArrayId,
        layout: &Layout,
        slot: u64,
    ) -> Option<Self> {
        let mut covered = block.to_vec();
        put(&mut covered, HEAD_CRC_AT, &[0; 4]);
        if block[..8] != *magic || crc32c(&covered) != u32_at(block, HEAD_CRC_AT) {
            return None;
        }
        let head = Self {
            array: ArrayId(array_at(block, 8)),
            number: u64_at(block, 24),
            len_bytes: u64_at(block, 32),
            crc: u32_at(block, 40),
        };
        let fits = head.len_bytes <= payload_bytes_max(layout);
        (head.array == array && head.number % 2 == slot && fits).then_some(head)
    }
}

/// The longest payload of a record.
#[must_use]
pub fn payload_bytes_max(layout: &Layout) -> u64 {
    layout.checkpoint_bytes - BLOCK_BYTES as u64
}

/// Writes record `number` to its slot on all `devices`, durably; gives each device's result in the
/// same order. Of one that fails `failed` is told at once, with its index: what was written to it since
/// its last flush may be gone, and another flush of it would not say so.
///
/// # Errors
/// [`SlotError::TooLong`] and [`SlotError::NoMemory`]; then nothing was written.
pub async fn write_slot(
    devices: &[Arc<dyn BlockDevice>],
    layout: &Layout,
    array: ArrayId,
    (number, payload): (u64, &[u8]),
    failed: &dyn Fn(usize, BlockError),
) -> Result<Vec<Result<(), BlockError>>, SlotError> {
    let (len_bytes, max_bytes) = (payload.len() as u64, payload_bytes_max(layout));
    if len_bytes > max_bytes {
        return Err(SlotError::TooLong { len_bytes, max_bytes });
    }
    let mut bytes = vec![0; BLOCK_BYTES + payload.len().next_multiple_of(BLOCK_BYTES)];
    put(&mut bytes, BLOCK_BYTES, payload);
    let crc = crc32c(&bytes[BLOCK_BYTES..]);
    Head { array, number, len_bytes, crc }.encode(&MAGIC, &mut bytes[..BLOCK_BYTES]);
    let at = layout.checkpoint_at(number % 2);
    assert!(bytes.len() as u64 <= layout.checkpoint_bytes, "a record fits its slot");
    // Memory of its own, once for all devices: hosts may have used up the pool.
    let image = Region::new(bytes.len()).map_err(|_| SlotError::NoMemory)?;
    image.write(0, &bytes);
    let image = &image;
    let write = |(index, device): (usize, &Arc<dyn BlockDevice>)| {
        let device = Arc::clone(device);
        Box::pin(async move {
            let written = write_image(&*device, at, image).await;
            written.inspect_err(|error| failed(index, *error))
        })
    };
    Ok(join_all(devices.iter().enumerate().map(write).collect()).await)
}

async fn write_image(device: &dyn BlockDevice, at: u64, image: &Region) -> Result<(), BlockError> {
    for from in (0..image.len()).step_by(PIECE_BYTES) {
        let piece = image.slice(from, PIECE_BYTES.min(image.len() - from));
        device.write(at + from as u64, piece, WriteFlags::VOLATILE).await?;
    }
    // Whatever a flush fails for, another one does not make up for it.
    device.flush().await.map_err(|error| match is_passing(error) {
        true => BlockError::LostWrites,
        false => error,
    })
}

/// Takes back what the slot that has not record `number` may hold, durably.
///
/// # Errors
/// Those of the device.
pub async fn void_other(
    device: &dyn BlockDevice,
    layout: &Layout,
    number: u64,
) -> Result<(), BlockError> {
    let nothing = Region::new(BLOCK_BYTES).map_err(|_| BlockError::NoMemory)?;
    let at = layout.checkpoint_at((number + 1) % 2);
    device.write(at, nothing.slice(0, BLOCK_BYTES), WriteFlags::DURABLE).await
}

/// Finds the newest record of `array` that is whole on any of `devices`.
///
/// # Errors
/// [`SlotError`] when there is none. [`SlotError::NoMemory`] may pass: an older record that happens to be
/// read is not taken for the newest.
pub async fn read_slots(
    devices: &[Arc<dyn BlockDevice>],
    layout: &Layout,
    array: ArrayId,
) -> Result<Slot, SlotError> {
    let mut failure = None;
    let mut unread = Vec::new();
    let mut heads = Vec::new();
    for (index, device) in devices.iter().enumerate() {
        for slot in 0..2 {
            match read_head(&**device, layout, array, slot).await {
                Ok(Some(head)) => heads.push((index, head)),
                Ok(None) => {}
                Err(error) => note_unread(&mut unread, index, failure.insert(error))?,
            }
        }
    }
    // The newest first; one payload is in memory at a time, besides the one that is kept.
    heads.sort_by_key(|(index, head)| (std::cmp::Reverse(head.number), *index));
    let mut best: Option<(Head, Slot)> = None;
    for (index, head) in heads {
        match &mut best {
            Some((best_head, _)) if head != *best_head => continue,
            _ => {}
        }
        match read_payload(&*devices[index], layout, &head).await {
            Ok(Some(payload)) => {
                let all = || (0..devices.len()).collect();
                let (_, slot) = best.get_or_insert_with(|| {
                    let (number, lagging, unread) = (head.number, all(), Vec::new());
                    (head, Slot { number, payload, lagging, unread })
                });
                slot.lagging.retain(|lagging| *lagging != index);
            }
            Ok(None) => {}
            Err(error) => note_unread(&mut unread, index, failure.insert(error))?,
        }
    }
    match (best, failure) {
        (Some((_, slot)), _) => Ok(Slot { unread, ..slot }),
        (None, Some(error)) => Err(SlotError::Unreadable { array, error }),
        (None, None) => Err(SlotError::NoneWhole { array }),
    }
}

/// A device did not give a slot. That there is no memory says nothing about what it has.
fn note_unread(unread: &mut Vec<usize>, index: usize, error: &BlockError) -> Result<(), SlotError> {
    if is_passing(*error) && !mutants::is(Mutant::HastySlot) {
        return Err(SlotError::NoMemory);
    }
    if !unread.contains(&index) {
        unread.push(index);
    }
    Ok(())
}

/// The block that marks a disk before record `number` is written.
pub(super) fn encode_mark(array: ArrayId, number: u64, block: &mut [u8]) {
    Head { array, number, len_bytes: 0, crc: 0 }.encode(&MARK_MAGIC, block);
}

/// What a disk knows of checkpoints, by one of its slots.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Known {
    /// The slot is blank.
    Nothing,
    /// The number of a record, or of a mark.
    Number(u64),
    /// It is damaged, or cannot be read.
    Unclear,
}

/// What a disk has in slot `slot`.
pub(super) async fn number_in(
    device: &dyn BlockDevice,
    layout: &Layout,
    array: ArrayId,
    slot: u64,
) -> Known {
    let Ok(data) = read_patiently(device, layout.checkpoint_at(slot), BLOCK_BYTES).await else {
        return Known::Unclear;
    };
    let mut block = [0; BLOCK_BYTES];
    data.copy_to(0, &mut block);
    if block.iter().all(|byte| *byte == 0) {
        return Known::Nothing;
    }
    let head = |magic| Head::decode(magic, &block, array, layout, slot);
    head(&MAGIC).or_else(|| head(&MARK_MAGIC)).map_or(Known::Unclear, |h| Known::Number(h.number))
}

/// Whether a device that should have record `newest`, or the one before when it fell behind with this one, has
/// nothing but older ones: it is an old copy. One with a damaged slot is none.
pub async fn is_old_copy(
    device: &dyn BlockDevice,
    layout: &Layout,
    array: ArrayId,
    newest: u64,
) -> bool {
    for slot in 0..2 {
        match number_in(device, layout, array, slot).await {
            Known::Nothing => {}
            Known::Number(number) if number + 1 < newest => {}
            Known::Number(_) | Known::Unclear => return false,
        }
    }
    !mutants::is(Mutant::KeepOldCopy)
}

/// Whether a disk that is out in `newest` is not even what it was when it went out: it holds checkpoints by its own
/// label `theirs`, and has none of that time.
pub async fn is_older_than_out(device: &dyn BlockDevice, theirs: &Label, newest: &Label) -> bool {
    let record = newest.member(theirs.disk).filter(|record| record.uuid == theirs.own().uuid);
    let Some(MemberState::Stale(since)) = record.map(|record| record.state) else { return false };
    let was_holder =
        theirs.own().state == MemberState::Active && theirs.holders.contains(&theirs.disk);
    was_holder && is_old_copy(device, &newest.layout, newest.array, since.checkpoint).await
}

/// A read, at the second attempt if need be: one that fails once must not make an older record the newest.
async fn read_patiently(
    device: &dyn BlockDevice,
    at: u64,
    len: usize,
) -> Result<ring::Data, BlockError> {
    match device.read(at, len).await {
        Err(error) if !is_passing(error) => device.read(at, len).await,
        read => read,
    }
}

async fn read_head(
    device: &dyn BlockDevice,
    layout: &Layout,
    array: ArrayId,
    slot: u64,
) -> Result<Option<Head>, BlockError> {
    let data = read_patiently(device, layout.checkpoint_at(slot), BLOCK_BYTES).await?;
    let mut block = [0; BLOCK_BYTES];
    data.copy_to(0, &mut block);
    Ok(Head::decode(&MAGIC, &block, array, layout, slot))
}

/// The payload that belongs to `head`; `None` when it is not whole.
async fn read_payload(
    device: &dyn BlockDevice,
    layout: &Layout,
    head: &Head,
) -> Result<Option<Vec<u8>>, BlockError> {
    let at = layout.checkpoint_at(head.number % 2) + BLOCK_BYTES as u64;
    let len = head.len_bytes as usize;
    let mut payload = vec![0; len.next_multiple_of(BLOCK_BYTES)];
    for (piece, bytes) in payload.chunks_mut(PIECE_BYTES).enumerate() {
        let at = at + (piece * PIECE_BYTES) as u64;
        let data = read_patiently(device, at, bytes.len()).await?;
        data.copy_to(0, bytes);
    }
    let whole = crc32c(&payload) == head.crc;
    payload.truncate(len);
    Ok(whole.then_some(payload))
}

#[cfg(test)]
mod tests;

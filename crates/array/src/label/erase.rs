//! Taking off a disk what it has of an array.

use block::{BlockDevice, BlockError, WriteFlags};
use ring::{Buf, Region};

use super::disk::{HEAD_BYTES, read_bytes};
use super::format::{Copy, decode};
use super::{LABEL_BYTES, Layout};

/// Writes zeroes where a disk must hold them to count as blank: its first 256 KiB and its last
/// 64 KiB. What lies between stays until an array [takes it in](clear_areas).
///
/// Label A goes last. If this is cut off, what is left says of itself that it is a disk of an
/// array, or of one whose making was cut off, and never that it is blank.
///
/// # Errors
/// Those of the device; the disk may then still carry labels.
pub async fn erase(device: &dyn BlockDevice) -> Result<(), BlockError> {
    let size_bytes = device.geometry().size_bytes();
    let Some(b_at) = Layout::label_b_at(size_bytes) else { return Ok(()) };
    let head_bytes = HEAD_BYTES.min(b_at);
    let parts = [(b_at, LABEL_BYTES), (LABEL_BYTES, head_bytes - LABEL_BYTES), (0, LABEL_BYTES)];
    for (at, len) in parts {
        if len == 0 {
            continue;
        }
        let zeroes = Buf::zeroed(len as usize).ok_or(BlockError::NoMemory)?;
        device.write(at, zeroes.freeze(), WriteFlags::DURABLE).await?;
    }
    Ok(())
}

/// Pieces in which areas are looked at and cleared.
const PIECE_BYTES: u64 = 256 << 10;

/// Makes sure, durably, that a disk that is about to join has no checkpoint, no redo wave and no batch
/// of the journal. Its labels may have been taken off while it was a disk of this very array, which two
/// parts of it went on with by themselves: what it has may be newer than anything that the others have,
/// and fit behind it. Only what is not zero is written, so that a sparse file stays one.
///
/// # Errors
/// Those of the device.
pub async fn clear_areas(device: &dyn BlockDevice, layout: &Layout) -> Result<(), BlockError> {
    let (mut at, end) = (layout.label_bytes, layout.chunks_at());
    let zeroes = Region::new(PIECE_BYTES as usize).map_err(|_| BlockError::NoMemory)?;
    while at < end {
        let len = PIECE_BYTES.min(end - at);
        let is_zero = match device.read(at, len as usize).await {
            Ok(data) => {
                let mut bytes = vec![0; len as usize];
                data.copy_to(0, &mut bytes);
                bytes.chunks_exact(64).all(|piece| *piece == [0; 64])
            }
            Err(BlockError::NoMemory) => return Err(BlockError::NoMemory),
            // What cannot be read now may be read later.
            Err(_) => false,
        };
        if !is_zero {
            device.write(at, zeroes.slice(0, len as usize), WriteFlags::VOLATILE).await?;
        }
        at += len;
    }
    device.flush().await.map_err(|error| match error {
        // Whatever it fails for, another one does not make up for it.
        BlockError::NoMemory | BlockError::Busy => BlockError::LostWrites,
        error => error,
    })
}

/// Whether the very first label of this disk was cut off while it was written: label A is one
/// and is not whole, and there is no label B, which is written after it. So does a disk look on
/// which [`erase`] was cut off.
///
/// # Errors
/// Those of the device.
pub async fn is_cut_off(device: &dyn BlockDevice) -> Result<bool, BlockError> {
    let size_bytes = device.geometry().size_bytes();
    let Some(b_at) = Layout::label_b_at(size_bytes) else { return Ok(false) };
    let first = read_bytes(device, 0, LABEL_BYTES).await?;
    let tail = read_bytes(device, b_at, LABEL_BYTES).await?;
    let is_torn = matches!(decode(&first, 0), Copy::Damaged(_));
    Ok(is_torn && tail.iter().all(|byte| *byte == 0))
}

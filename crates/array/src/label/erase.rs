//! Taking the labels off a disk.

use block::{BlockDevice, BlockError, WriteFlags};
use ring::Buf;

use super::disk::{HEAD_BYTES, read_bytes};
use super::format::{Copy, decode};
use super::{LABEL_BYTES, Layout};

/// Writes zeroes where a disk must hold them to count as blank: its first 256 KiB and its last
/// 64 KiB. What lies between stays, and is never read again.
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

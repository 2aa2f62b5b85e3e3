//! Zeroing of any length without holding a device or a core up.

use crate::{BlockDevice, BlockError, WriteFlags};

/// What one step zeroes: long enough to cost little per byte on disks, short enough that an
/// abort or another request comes through soon.
const STEP_BYTES: u64 = 64 << 20;

/// Zeroes `len` bytes at `at` in bounded steps, for SANITIZE, FORMAT UNIT and long WRITE SAME: the
/// caller may drop the future between steps to abort.
///
/// # Errors
/// That of the first step that fails; the range is then zeroed in part.
pub async fn zero_range(
    device: &dyn BlockDevice,
    at: u64,
    len: u64,
    may_unmap: bool,
    flags: WriteFlags,
) -> Result<(), BlockError> {
    // The whole range is checked before any of it changes.
    device.geometry().check_change(at, len)?;
    let end = at + len;
    let mut at = at;
    while at < end {
        let step = STEP_BYTES.min(end - at);
        device.write_zeroes(at, step, may_unmap, flags).await?;
        at += step;
        if at < end {
            ring::turn_end().await;
        }
    }
    Ok(())
}

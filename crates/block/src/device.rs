//! The one joint of the system: everything that stores blocks looks like this from above.

use std::fmt::Debug;
use std::sync::Arc;

use ring::Data;

use crate::{BlockError, Compared, Extent, Geometry, IoFuture, WriteFlags};

/// A disk.
///
/// `at` and `len` count bytes and must be multiples of the logical block; each device has them
/// judged by [`arguments`](crate::arguments). An empty range inside the device succeeds without effect.
/// What these words promise is checked by [`testing::check_device`](crate::testing::check_device),
/// which every device passes.
///
/// **Where it runs.** Devices are shared by all cores. A call must come from a core of the
/// engine and its future must be polled there, or dropped: a call starts its work at once, but later
/// steps, and the stripes it holds, wait for the next poll. Dropping a future does not undo or
/// stop a change that the kernel or a task of the device has begun; it may keep one from beginning.
///
/// **Order.** Operations that overlap in time have no order, and two plain writes to the same
/// blocks may mix block by block. `compare_and_write`, `or_write` and writes with
/// [`WriteFlags::atomic`] are atomic against every other change and against each other, and
/// readers see all of their effect or none of it. Against a loss of power or of the process
/// they are atomic per 4 KiB only, like any write.
///
/// **Reads may lend memory.** What [`read`](Self::read) returns can be the device's own memory
/// (a RAM disk): a plain write to the same blocks shows through until the `Data` is dropped, which
/// SCSI allows to a read that runs beside a write. [`Data::as_slice`] is `None` for such memory;
/// who needs bytes that stand still, as for a data digest (RFC 7143 11.7) or a comparison, copies
/// it first ([`Data::to_buf`]).
pub trait BlockDevice: Send + Sync + Debug {
    /// The shape of the device. Cheap. Only `blocks` may differ from call to call: a device may
    /// grow, and shrink where nobody uses the end, while it is open. Whoever changes it tells those
    /// who serve it.
    fn geometry(&self) -> Geometry;

    /// Reads `len` bytes from `at`; never-written and unmapped blocks give zeroes.
    fn read(&self, at: u64, len: usize) -> IoFuture<Data>;

    /// Writes straight from `bytes` if that can finish now, without waiting and without a copy
    /// kept. `None` means that nothing was decided (a part may be on the medium already): pass
    /// the same bytes to [`write`](Self::write).
    fn write_now(&self, at: u64, bytes: &[u8], flags: WriteFlags)
    -> Option<Result<(), BlockError>>;

    /// Writes `data` at `at`.
    fn write(&self, at: u64, data: Data, flags: WriteFlags) -> IoFuture<()>;

    /// Makes every write that completed before this call durable (SYNCHRONIZE CACHE).
    fn flush(&self) -> IoFuture<()>;

    /// Gives the range's space back; later reads give zeroes, also where a piece is smaller
    /// than the device's unit and stays allocated. Volatile until a flush. A remote disk that is
    /// not [`thin`](Geometry::thin) may leave what was there, or have no such operation.
    fn unmap(&self, at: u64, len: u64) -> IoFuture<()>;

    /// Makes the range read as zeroes; `may_unmap` allows giving the space back (WRITE SAME with
    /// UNMAP), without it the range is mapped afterwards. `flags.atomic` is not supported, and
    /// refused.
    fn write_zeroes(&self, at: u64, len: u64, may_unmap: bool, flags: WriteFlags) -> IoFuture<()>;

    /// Writes `write` if the medium holds `compare`, both of the same length, as one atomic step.
    fn compare_and_write(
        &self,
        at: u64,
        compare: Data,
        write: Data,
        flags: WriteFlags,
    ) -> IoFuture<Compared>;

    /// ORs `data` into the medium as one atomic step (SBC-4 5.16).
    fn or_write(&self, at: u64, data: Data, flags: WriteFlags) -> IoFuture<()>;

    /// The provisioning state from `at` on, which must lie inside the device.
    fn extent(&self, at: u64) -> IoFuture<Extent>;

    /// The same device as if it were opened anew, where that makes a difference: one that fails for
    /// good after a lost write ([`BlockError::LostWrites`]) starts afresh, and what was not durable on
    /// it counts as lost. For who keeps the same data elsewhere too. This one stays as it is.
    fn reopened(&self) -> Option<Arc<dyn BlockDevice>> {
        None
    }
}

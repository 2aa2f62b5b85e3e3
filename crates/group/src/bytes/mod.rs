//! Devices of bytes that a store can live on.

mod resizable;

use std::fmt::Debug;
use std::io;

pub use resizable::{Contents, Resizable, SizeError, contents};

/// A device of a fixed number of bytes. Its calls may block, and come from any thread.
pub trait Bytes: Debug + Send + Sync {
    /// Its size in bytes.
    fn len_bytes(&self) -> u64;

    /// Fills `out` with what is at `offset` (in bytes).
    ///
    /// # Errors
    /// It cannot be read, or ends before.
    fn read_at(&self, offset: u64, out: &mut [u8]) -> io::Result<()>;

    /// Writes `data` at `offset` (in bytes). It outlives a loss of power after the next
    /// [`Self::sync`]; until then each sector of 512 bytes may be the old or the new one.
    ///
    /// # Errors
    /// It cannot be written, or ends before.
    fn write_at(&self, offset: u64, data: &[u8]) -> io::Result<()>;

    /// Returns when all that was written will outlive a loss of power.
    ///
    /// # Errors
    /// It is not known what will.
    fn sync(&self) -> io::Result<()>;
}

#[cfg(test)]
pub(crate) mod testing;

//! What operations are asked for with, and what they tell.

use crate::locks::Access;

/// How a write is to be done.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct WriteFlags {
    /// Completes only once the data would survive a loss of power (FUA, or a write-through
    /// volume). A volatile write survives a crash of this process, but is durable only after
    /// [`BlockDevice::flush`](crate::BlockDevice::flush).
    pub durable: bool,
    /// Readers and other atomic operations see all of the write or none of it (SBC-4 4.29).
    /// At most [`Geometry::atomic_bytes_max`](crate::Geometry::atomic_bytes_max) bytes.
    pub atomic: bool,
}

impl WriteFlags {
    /// Neither durable nor atomic.
    pub const VOLATILE: Self = Self { durable: false, atomic: false };
    /// Durable when it completes.
    pub const DURABLE: Self = Self { durable: true, atomic: false };

    /// How such a write holds the stripes it changes.
    pub(crate) fn access(self) -> Access {
        if self.atomic { Access::Exclusive } else { Access::Shared }
    }
}

/// The answer to a compare-and-write (SBC-4 5.3).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Compared {
    /// The medium held the compared bytes, and now holds the new ones.
    Equal,
    /// Nothing was written.
    Miscompare {
        /// First byte that differs, counted from the start of the compared range: what goes to
        /// the INFORMATION field of the sense data.
        offset_bytes: usize,
    },
}

/// The provisioning state of a range (SBC-4 4.7.4).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExtentState {
    /// Holds space, and possibly data.
    Mapped,
    /// Holds no space; reads give zeroes.
    Deallocated,
    /// Holds space but no data; reads give zeroes.
    Anchored,
}

/// A range of one provisioning state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Extent {
    /// Length in bytes: at least one block, whole blocks, and never past the end. A device may
    /// cut a long extent, so the next one can have the same state.
    pub len_bytes: u64,
    /// State of all of it.
    pub state: ExtentState,
}

//! Every operation, as something that is begun on a range with known contents.

use super::data;
use crate::{BlockDevice, Geometry, IoFuture, WriteFlags};

/// What a range holds before.
pub(super) const OLD: u8 = 0x11;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Work {
    Read,
    Write,
    AtomicWrite,
    Zeroes,
    MappedZeroes,
    Unmap,
    CompareAndWrite,
    OrWrite,
    Flush,
    Extent,
}

impl Work {
    pub(super) const COUNT: usize = 10;

    const ALL: [Self; Self::COUNT] = [
        Self::Read,
        Self::Write,
        Self::AtomicWrite,
        Self::Zeroes,
        Self::MappedZeroes,
        Self::Unmap,
        Self::CompareAndWrite,
        Self::OrWrite,
        Self::Flush,
        Self::Extent,
    ];

    /// All that a device of this shape has.
    pub(super) fn of(geometry: &Geometry) -> Vec<Self> {
        let has = |work: &Self| match work {
            Self::AtomicWrite | Self::CompareAndWrite | Self::OrWrite => {
                geometry.atomic_bytes_max > 0
            }
            Self::Unmap => geometry.thin,
            _ => true,
        };
        Self::ALL.into_iter().filter(has).collect()
    }

    /// What the range holds afterwards.
    pub(super) fn new_byte(self) -> u8 {
        match self {
            Self::Read | Self::Flush | Self::Extent => OLD,
            Self::Write => 0x22,
            Self::AtomicWrite => 0x24,
            Self::Zeroes | Self::MappedZeroes | Self::Unmap => 0,
            Self::CompareAndWrite => 0x25,
            Self::OrWrite => OLD | 0x22,
        }
    }

    pub(super) fn is_change(self) -> bool {
        self.new_byte() != OLD
    }

    /// Whether nobody may ever see half of it.
    pub(super) fn is_atomic(self) -> bool {
        matches!(self, Self::AtomicWrite | Self::CompareAndWrite | Self::OrWrite)
    }

    /// Whether it takes flags, and can be durable of itself.
    pub(super) fn has_flags(self) -> bool {
        self.is_change() && self != Self::Unmap
    }

    pub(super) fn begin(
        self,
        device: &dyn BlockDevice,
        at: u64,
        len: usize,
        durable: bool,
    ) -> IoFuture<()> {
        let flags = WriteFlags { durable, atomic: self == Self::AtomicWrite };
        let new = || data(&vec![self.new_byte(); len]);
        match self {
            Self::Read => {
                let read = device.read(at, len);
                IoFuture::boxed(async { read.await.map(drop) })
            }
            Self::Write | Self::AtomicWrite => device.write(at, new(), flags),
            Self::Zeroes => device.write_zeroes(at, len as u64, true, flags),
            Self::MappedZeroes => device.write_zeroes(at, len as u64, false, flags),
            Self::Unmap => device.unmap(at, len as u64),
            Self::CompareAndWrite => {
                let compared = device.compare_and_write(at, data(&vec![OLD; len]), new(), flags);
                IoFuture::boxed(async { compared.await.map(drop) })
            }
            Self::OrWrite => device.or_write(at, data(&vec![0x22; len]), flags),
            Self::Flush => device.flush(),
            Self::Extent => {
                let extent = device.extent(at);
                IoFuture::boxed(async { extent.await.map(drop) })
            }
        }
    }
}

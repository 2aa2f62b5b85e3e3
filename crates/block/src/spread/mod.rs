//! A volume whose pages lie on several devices, at the home of a volume that is spread over members.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use ring::Data;

use crate::mutants::{self, Mutant};
use crate::{BlockDevice, BlockError, Compared, Extent, Geometry, IoFuture, WriteFlags, arguments};

mod crossing;
mod dealing;
mod error;
mod join;
mod shape;
mod slices;
#[cfg(test)]
mod tests;
mod under_way;

pub use dealing::Dealing;
pub use error::SpreadError;

use slices::Slices;

/// The most slices of one volume.
const SLICES_MAX: usize = 16;

/// A volume over slices, each of which has an address for every block of it: a page is at the same place on its
/// slice as in the volume. The slices have no other users, and the first one is the home's own.
///
/// **Durable.** Whatever is answered is durable on its slice, also what gives space back: a slice that restarts has
/// lost nothing that was answered. So [`flush`](BlockDevice::flush) has nothing to do, and no slice has to be there
/// for it.
///
/// **Requests** within the pages of one slice go to it as they are, and what it lends is passed on. Others are cut
/// where the slice changes, and their pieces run side by side. An error of one slice is told to requests that need
/// that slice, and to no others.
///
/// **Atomic operations** within one slice are the slice's. Over a border they hold stripes of the volume while both
/// sides are changed, one after the other. If one side fails then, or the home ends, the other one may be changed
/// already: as a loss of power may leave it on any device. While a slice that is part of one does not answer, whoever
/// works on the same stripes of another waits with it. There are 256 KiB in a stripe, near a border, and stripes that
/// lie a multiple of 256 MiB apart share their lock.
#[derive(Debug)]
pub struct SpreadDisk {
    slices: Arc<Slices>,
    /// All but its blocks.
    shape: Geometry,
    blocks: AtomicU64,
}

impl SpreadDisk {
    /// A volume of `blocks` blocks over 1 to 16 `slices`, whose pages are dealt as `dealing` says.
    ///
    /// # Errors
    /// [`SpreadError::Slices`], [`SpreadError::NoSuchSlice`], [`SpreadError::OtherBlocks`] and
    /// [`SpreadError::SmallSlice`].
    pub fn new(
        slices: Vec<Arc<dyn BlockDevice>>,
        dealing: Dealing,
        blocks: u64,
    ) -> Result<Self, SpreadError> {
        if !(1..=SLICES_MAX).contains(&slices.len()) {
            return Err(SpreadError::Slices { slices: slices.len() });
        }
        let is_missing = |slice: &&u8| usize::from(**slice) >= slices.len();
        if let Some(slice) = dealing.pattern().iter().find(is_missing) {
            return Err(SpreadError::NoSuchSlice { slice: *slice, slices: slices.len() });
        }
        let shape = shape::shape_of(&slices, &dealing, blocks)?;
        let slices = Arc::new(Slices::new(slices, dealing, shape.atomic_bytes_max));
        Ok(Self { slices, shape, blocks: AtomicU64::new(blocks) })
    }

    /// Has `blocks` blocks from now on. The slices have grown before.
    ///
    /// # Errors
    /// [`SpreadError::SmallSlice`], and [`SpreadError::Shrinks`] where it has more already: nothing is changed then.
    pub fn grow(&self, blocks: u64) -> Result<(), SpreadError> {
        if !mutants::is(Mutant::GrowBlind) {
            shape::check_room(self.slices.devices(), blocks)?;
        }
        let now = self.blocks.fetch_max(blocks, Ordering::AcqRel);
        if now > blocks { Err(SpreadError::Shrinks { now, blocks }) } else { Ok(()) }
    }

    #[inline]
    fn shape(&self) -> Geometry {
        Geometry { blocks: self.blocks.load(Ordering::Acquire), ..self.shape }
    }
}

/// Slices are asked for nothing less.
#[inline]
fn durable(flags: WriteFlags) -> WriteFlags {
    if mutants::is(Mutant::VolatileSlices) { flags } else { WriteFlags { durable: true, ..flags } }
}

impl BlockDevice for SpreadDisk {
    fn geometry(&self) -> Geometry {
        self.shape()
    }

    #[inline]
    fn read(&self, at: u64, len: usize) -> IoFuture<Data> {
        if let Some(answer) = arguments::read(&self.shape(), at, len) {
            return IoFuture::ready(answer);
        }
        match self.slices.is_on_one(at, len as u64) {
            true => self.slices.read_on_one(at, len),
            false => crossing::read(&self.slices, at, len),
        }
    }

    #[inline]
    fn write_now(
        &self,
        at: u64,
        bytes: &[u8],
        flags: WriteFlags,
    ) -> Option<Result<(), BlockError>> {
        if let Some(answer) = arguments::write(&self.shape(), at, bytes.len(), flags) {
            return Some(answer);
        }
        match self.slices.is_on_one(at, bytes.len() as u64) {
            true => self.slices.write_on_one_now(at, bytes, durable(flags)),
            false => None,
        }
    }

    fn write(&self, at: u64, data: Data, flags: WriteFlags) -> IoFuture<()> {
        if let Some(answer) = arguments::write(&self.shape(), at, data.len(), flags) {
            return IoFuture::ready(answer);
        }
        let (len, flags) = (data.len() as u64, durable(flags));
        if self.slices.is_on_one(at, len) {
            return self.slices.change_on_one(at, len, move |slice| slice.write(at, data, flags));
        }
        match flags.atomic {
            true => crossing::write_atomic(&self.slices, at, data, flags),
            false => crossing::write(&self.slices, at, data, flags),
        }
    }

    fn flush(&self) -> IoFuture<()> {
        IoFuture::ready(Ok(()))
    }

    fn unmap(&self, at: u64, len: u64) -> IoFuture<()> {
        if let Some(answer) = arguments::unmap(&self.shape(), at, len) {
            return IoFuture::ready(answer);
        }
        if self.slices.is_on_one(at, len) {
            return self
                .slices
                .change_on_one(at, len, move |slice| crossing::unmap_on_one(slice, at, len));
        }
        crossing::unmap(&self.slices, at, len)
    }

    fn write_zeroes(&self, at: u64, len: u64, may_unmap: bool, flags: WriteFlags) -> IoFuture<()> {
        if let Some(answer) = arguments::write_zeroes(&self.shape(), at, len, flags) {
            return IoFuture::ready(answer);
        }
        let flags = durable(flags);
        if self.slices.is_on_one(at, len) {
            return self.slices.change_on_one(at, len, move |slice| {
                slice.write_zeroes(at, len, may_unmap, flags)
            });
        }
        crossing::write_zeroes(&self.slices, at, len, may_unmap, flags)
    }

    fn compare_and_write(
        &self,
        at: u64,
        compare: Data,
        write: Data,
        flags: WriteFlags,
    ) -> IoFuture<Compared> {
        let answer = arguments::compare_and_write(&self.shape(), at, &compare, &write);
        if let Some(answer) = answer {
            return IoFuture::ready(answer);
        }
        let (len, flags) = (write.len() as u64, durable(flags));
        if self.slices.is_on_one(at, len) {
            return self.slices.change_on_one(at, len, move |slice| {
                slice.compare_and_write(at, compare, write, flags)
            });
        }
        crossing::compare_and_write(&self.slices, at, compare, write, flags)
    }

    fn or_write(&self, at: u64, data: Data, flags: WriteFlags) -> IoFuture<()> {
        if let Some(answer) = arguments::or_write(&self.shape(), at, data.len()) {
            return IoFuture::ready(answer);
        }
        let (len, flags) = (data.len() as u64, durable(flags));
        if self.slices.is_on_one(at, len) {
            return self
                .slices
                .change_on_one(at, len, move |slice| slice.or_write(at, data, flags));
        }
        crossing::or_write(&self.slices, at, data, flags)
    }

    fn extent(&self, at: u64) -> IoFuture<Extent> {
        let shape = self.shape();
        if let Err(error) = arguments::extent(&shape, at) {
            return IoFuture::ready(Err(error));
        }
        let left = shape.size_bytes() - at;
        let run = match mutants::is(Mutant::UncutExtent) {
            true => left,
            false => self.slices.run_bytes(at, left),
        };
        // What a slice has behind the run is not the volume's.
        let cut = move |found: Extent| Extent { len_bytes: found.len_bytes.min(run), ..found };
        match self.slices.at(at).extent(at).into_ready() {
            Ok(found) => IoFuture::ready(found.map(cut)),
            Err(found) => IoFuture::boxed(async move { found.await.map(cut) }),
        }
    }
}

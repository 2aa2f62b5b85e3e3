//! Volumes and snapshots as block devices.

mod ahead;
mod exclusive;
mod extent;
mod plan;
mod read;
mod throttle;
mod whole;
mod write;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use block::{BlockDevice, BlockError, Compared, Extent, Geometry, IoFuture, WriteFlags};
use ring::Data;

use crate::cache::VolumeCache;
use crate::core::Core;
use crate::journal::PAYLOAD_BLOCKS_MAX;
use crate::mutants::{self, Mutant};
use crate::{BLOCK_BYTES, CLUSTER_BYTES};

pub(crate) use ahead::Ahead;
pub(crate) use plan::Of;
pub(crate) use throttle::Throttle;

/// An atomic change is one record of the journal, with the ends of its first and last block.
const ATOMIC_BYTES_MAX: u32 = (PAYLOAD_BLOCKS_MAX as u32 - 1) * BLOCK_BYTES as u32;

/// A volume or snapshot of an array, as targets see it.
///
/// Whatever changes a volume comes through [`enter`](Self::enter), where holds keep it back.
#[derive(Debug, Clone)]
pub(crate) struct Device {
    core: Arc<Core>,
    of: Of,
    /// What is counted of its volume's blocks in memory.
    cached: Arc<VolumeCache>,
    geometry: Geometry,
    /// The capacity that operations are checked against: that of the last call of `geometry`, so
    /// that the path of an I/O needs no look into the tables.
    blocks: Arc<AtomicU64>,
}

impl Device {
    pub(crate) fn new(core: Arc<Core>, of: Of, size_bytes: u64, block_bytes: u32) -> Self {
        let geometry = Geometry {
            atomic_bytes_max: ATOMIC_BYTES_MAX,
            unmap_granularity_bytes: CLUSTER_BYTES as u32,
            thin: true,
            read_only: matches!(of, Of::Snapshot(..)),
            ..Geometry::new(block_bytes, size_bytes / u64::from(block_bytes))
        };
        let blocks = Arc::new(AtomicU64::new(geometry.blocks));
        let (Of::Head(volume) | Of::Snapshot(volume, _)) = of;
        let cached = core.cache.volume(volume);
        Self { core, of, cached, geometry, blocks }
    }

    /// Begins a change of the volume, now or when no hold keeps it back any more.
    fn enter<T: 'static>(
        &self,
        change: impl FnOnce(&Self) -> IoFuture<T> + 'static,
    ) -> IoFuture<T> {
        match self.of {
            Of::Head(volume) if self.core.holds.is_any() => {
                let device = self.clone();
                IoFuture::boxed(async move {
                    let core = &device.core;
                    core.holds.pass(&*core.env, volume).await;
                    change(&device).await
                })
            }
            // Nothing changes a snapshot.
            Of::Head(_) | Of::Snapshot(..) => change(self),
        }
    }

    /// The shape, as of the last call of [`BlockDevice::geometry`].
    pub(super) fn shape(&self) -> Geometry {
        Geometry { blocks: self.blocks.load(Ordering::Relaxed), ..self.geometry }
    }
}

impl BlockDevice for Device {
    /// A volume may have been resized.
    fn geometry(&self) -> Geometry {
        if let Of::Head(id) = self.of
            && let Some(volume) = self.core.lock().tables.volumes.get(&id)
        {
            let blocks = volume.size_bytes / u64::from(self.geometry.block_bytes);
            self.blocks.store(blocks, Ordering::Relaxed);
        }
        self.shape()
    }

    fn read(&self, at: u64, len: usize) -> IoFuture<Data> {
        self.read_device(at, len)
    }

    /// Every change waits for the journal.
    fn write_now(&self, _: u64, _: &[u8], _: WriteFlags) -> Option<Result<(), BlockError>> {
        None
    }

    fn write(&self, at: u64, data: Data, flags: WriteFlags) -> IoFuture<()> {
        self.enter(move |device| device.write_device(at, data, flags))
    }

    fn flush(&self) -> IoFuture<()> {
        let core = Arc::clone(&self.core);
        IoFuture::boxed(async move { core.journal.flush().await })
    }

    fn unmap(&self, at: u64, len: u64) -> IoFuture<()> {
        self.enter(move |device| device.zero_device(at, len, false))
    }

    fn write_zeroes(&self, at: u64, len: u64, may_unmap: bool, flags: WriteFlags) -> IoFuture<()> {
        self.enter(move |device| match may_unmap {
            true => device.zero_device(at, len, flags.durable),
            false => device.map_zeroes(at, len, flags.durable),
        })
    }

    fn compare_and_write(
        &self,
        at: u64,
        compare: Data,
        write: Data,
        flags: WriteFlags,
    ) -> IoFuture<Compared> {
        if mutants::is(Mutant::HoldLeaks) {
            return self.compare_device(at, compare, write, flags);
        }
        self.enter(move |device| device.compare_device(at, compare, write, flags))
    }

    fn or_write(&self, at: u64, data: Data, flags: WriteFlags) -> IoFuture<()> {
        self.enter(move |device| device.or_device(at, data, flags))
    }

    fn extent(&self, at: u64) -> IoFuture<Extent> {
        if let Err(error) = self.shape().check(at, u64::from(self.geometry.block_bytes)) {
            return IoFuture::ready(Err(error));
        }
        IoFuture::boxed(self.clone().find_extent(at))
    }
}

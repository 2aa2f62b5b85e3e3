//! The conformance suite of [`BlockDevice`]: what its documentation promises, as checks.
//!
//! One seed makes one history, compared with a plain vector of bytes. Around it stand what must be
//! refused ([`arguments`]), what operations that overlap may see of each other ([`overlap`]), what a
//! future leaves behind that is dropped early ([`dropped`]), devices that refuse every change
//! ([`read_only`]), and, for devices that sit on another one, what that one's faults become
//! ([`faults`]).

mod arguments;
mod dropped;
mod faults;
mod history;
mod join;
mod overlap;
mod random;
mod read_only;
#[cfg(test)]
mod tests;
mod work;

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use ring::{Buf, Data, Region};

use crate::{BlockDevice, ExtentState, Geometry};

pub use faults::{check_durable_faults, check_faults};
pub(in crate::testing) use random::Random;
pub use read_only::check_read_only;

/// The longest time that a stage takes on the slowest device, many times over: whoever has not
/// ended by then hangs.
const PATIENCE: Duration = Duration::from_secs(120);

/// Runs a random history on `device` and panics, naming `seed`, where the device differs from a
/// plain vector of bytes or breaks another promise of [`BlockDevice`]. The device must be writable,
/// of 1 to 64 MiB, and nobody else may use it meanwhile. It is not of use for anything else
/// afterwards: what was dropped early may still be written.
///
/// What a device may lack it says in its geometry: without
/// [`atomic_bytes_max`](Geometry::atomic_bytes_max) it refuses the atomic operations, and one that is
/// not [`thin`](Geometry::thin) may keep what was unmapped.
///
/// Must run on a core of the engine. Takes some milliseconds for a device in memory.
///
/// # Panics
/// Whenever the device does not conform.
pub async fn check_device(device: Arc<dyn BlockDevice>, seed: u64) {
    let mut suite = Suite::new(device, seed, Keeps::Everything).await;
    assert!(!suite.geometry.read_only, "the suite writes");
    stage("arguments", suite.arguments()).await;
    stage("history", suite.history()).await;
    stage("overlap", suite.overlap()).await;
    stage("end", suite.end()).await;
    stage("dropped futures", suite.dropped()).await;
}

/// As [`check_device`], for a device that answers as if it wrote and keeps nothing: it reads as
/// zeroes for ever.
///
/// # Panics
/// Whenever the device does not conform.
pub async fn check_null_device(device: Arc<dyn BlockDevice>, seed: u64) {
    let mut suite = Suite::new(device, seed, Keeps::Nothing).await;
    suite.whole_device("before the first write").await;
    stage("arguments", suite.arguments()).await;
    stage("history", suite.history()).await;
    stage("end", suite.end()).await;
}

/// Ends with the stage, or panics in its name.
async fn stage(name: &str, work: impl Future<Output = ()>) {
    assert!(ring::timeout(PATIENCE, work).await.is_some(), "it hangs: {name}");
}

/// What a device has of what was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Keeps {
    Everything,
    Nothing,
}

struct Suite {
    device: Arc<dyn BlockDevice>,
    geometry: Geometry,
    /// What the device holds.
    model: Vec<u8>,
    keeps: Keeps,
    random: Random,
    seed: u64,
}

impl Suite {
    async fn new(device: Arc<dyn BlockDevice>, seed: u64, keeps: Keeps) -> Self {
        let geometry = device.geometry();
        assert!((1 << 20..=64 << 20).contains(&geometry.size_bytes()), "1 to 64 MiB");
        check_geometry(&geometry);
        let random = Random::new(seed);
        let model = Vec::new();
        let mut suite = Self { device, geometry, model, keeps, random, seed };
        suite.model = match keeps {
            Keeps::Everything => suite.read(0, geometry.size_bytes() as usize).await,
            Keeps::Nothing => vec![0; geometry.size_bytes() as usize],
        };
        suite
    }

    fn block(&self) -> usize {
        self.geometry.block_bytes as usize
    }

    fn has_atomics(&self) -> bool {
        self.geometry.atomic_bytes_max > 0
    }

    async fn read(&self, at: u64, len: usize) -> Vec<u8> {
        let mut bytes = vec![0; len];
        // Pieces, so that the buffers of a small pool are enough.
        for start in (0..len).step_by(1 << 20) {
            let piece = (len - start).min(1 << 20);
            let data = self.device.read(at + start as u64, piece).await.expect("read works");
            assert_eq!(data.len(), piece, "reads give all they were asked for");
            data.copy_to(0, &mut bytes[start..start + piece]);
        }
        bytes
    }

    async fn read_range(&self, range: &Range<usize>) -> Vec<u8> {
        self.read(range.start as u64, range.len()).await
    }

    async fn same(&self, range: Range<usize>, after: &str) {
        let found = self.read_range(&range).await;
        let wanted = &self.model[range.clone()];
        if let Some(place) = found.iter().zip(wanted).position(|(a, b)| a != b) {
            panic!(
                "seed {}: byte {} is {:#x}, should be {:#x}, {after}",
                self.seed,
                range.start + place,
                found[place],
                wanted[place]
            );
        }
    }

    /// All of it is as it should be, and of the same shape as at first.
    async fn whole_device(&self, after: &str) {
        self.same(0..self.model.len(), after).await;
        assert_eq!(self.device.geometry(), self.geometry, "another geometry {after}");
    }

    /// The device holds `bytes` at `range` now, if it holds anything.
    fn keep(&mut self, range: &Range<usize>, bytes: &[u8]) {
        if self.keeps == Keeps::Everything {
            self.model[range.clone()].copy_from_slice(bytes);
        }
    }

    /// Takes over what an unmap left: zeroes, or what was there if the device is not thin.
    async fn keep_unmapped(&mut self, range: &Range<usize>) {
        if self.geometry.thin {
            self.model[range.clone()].fill(0);
            return;
        }
        let found = self.read_range(range).await;
        let zeroes = vec![0; range.len()];
        let allowed = [&self.model[range.clone()], &zeroes];
        blocks_are_of(&found, &allowed, self.block(), "after an unmap");
        self.model[range.clone()].copy_from_slice(&found);
    }

    /// A range of 1 to `blocks_max` blocks, often where others are, sometimes at the very end.
    fn range(&mut self, blocks_max: u64) -> Range<usize> {
        let block = u64::from(self.geometry.block_bytes);
        let blocks = 1 + self.random.below(blocks_max);
        let last = self.geometry.blocks - blocks;
        let first = match self.random.below(8) {
            0 => last,
            1..4 => self.random.below(last.min(64) + 1),
            _ => self.random.below(last + 1),
        };
        (first * block) as usize..((first + blocks) * block) as usize
    }

    /// Memory of every kind that a device may be given: its own pages, some other place in them, or
    /// a region, which has no slice.
    fn any_data(&mut self, bytes: &[u8]) -> Data {
        match self.random.below(4) {
            0 => {
                let region = Region::new(bytes.len()).expect("address space");
                region.write(0, bytes);
                region.slice(0, bytes.len())
            }
            1 => {
                let mut buf = Buf::alloc(bytes.len() + 3).expect("a buffer");
                buf[3..].copy_from_slice(bytes);
                buf.freeze().slice(3..3 + bytes.len())
            }
            _ => data(bytes),
        }
    }

    /// Extents cover the device without a gap, in whole blocks, and holes hold no data.
    async fn extents_are_true(&self) {
        let mut at = 0;
        while at < self.geometry.size_bytes() {
            let extent = self.device.extent(at).await.expect("extent works");
            let end = at + extent.len_bytes;
            assert!(extent.len_bytes > 0 && end <= self.geometry.size_bytes(), "{extent:?}");
            assert_eq!(end % u64::from(self.geometry.block_bytes), 0, "{extent:?}");
            let zero = self.model[at as usize..end as usize].iter().all(|&byte| byte == 0);
            assert!(
                extent.state == ExtentState::Mapped || zero,
                "seed {}: {extent:?} at {at} holds data",
                self.seed
            );
            at = end;
        }
    }
}

/// The numbers of a shape fit together.
fn check_geometry(geometry: &Geometry) {
    let Geometry { block_bytes, physical_block_bytes, .. } = *geometry;
    assert!(block_bytes == 512 || block_bytes == 4096, "{geometry:?}");
    assert!(physical_block_bytes > 0 && physical_block_bytes.is_multiple_of(block_bytes));
    assert!(geometry.transfer_granularity_bytes.is_multiple_of(physical_block_bytes));
    assert!(geometry.unmap_granularity_bytes > 0, "{geometry:?}");
    for bytes in [
        geometry.unmap_granularity_bytes,
        geometry.unmap_alignment_bytes,
        geometry.atomic_bytes_max,
        geometry.optimal_transfer_bytes,
    ] {
        assert!(bytes.is_multiple_of(block_bytes), "no whole blocks in {geometry:?}");
    }
}

/// Each block of `found` is that of one of `allowed`, whole.
fn blocks_are_of(found: &[u8], allowed: &[&[u8]], block: usize, what: &str) {
    for at in (0..found.len()).step_by(block) {
        let is_of = allowed.iter().any(|one| one[at..at + block] == found[at..at + block]);
        assert!(is_of, "the block at {at} is none of those that were there or written: {what}");
    }
}

fn data(bytes: &[u8]) -> Data {
    let mut buf = Buf::alloc(bytes.len()).expect("the suite needs buffers for single operations");
    buf.copy_from_slice(bytes);
    buf.freeze()
}

fn bytes_of(data: &Data) -> Vec<u8> {
    let mut bytes = vec![0; data.len()];
    data.copy_to(0, &mut bytes);
    bytes
}

//! Verified blocks in memory: what hosts read again, what was just written, and what is fetched ahead.
//!
//! What is kept is named by its [`Place`], so that what snapshots and clones share is there once. A place has
//! other contents in time, and these rules keep old ones from being taken for new ones:
//! 1. Whoever writes blocks of a place [ends](BlockCache::end) what is known of them first.
//! 2. A reader notes the place's [generation](Generation) in the moment, under the array's lock, in which a map
//!    says that blocks lie there, and what it read is kept only if nothing of the place was ended since.
//!    Blocks that a checkpoint is changing in their place are in the journal for all readers, so that none of
//!    them looks for what lies beneath.
//! 3. A place that was freed is not used again while someone reads who was told of it before
//!    ([`PageCache::readers`](crate::pages::PageCache::readers)).
//! 4. Checksums are compared besides; alone they would not do, because different contents may have the same.
//!
//! What goes when memory is short is decided by S3-FIFO: a small queue takes what is new, of which most is never
//! asked for again; what is, goes to the main queue, and so does what comes back soon after it went. Asks in the same
//! [moment](clock::Clock) are one, and what is fetched ahead is used for the first time when a host asks for it.

mod clock;
mod entry;
mod shard;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use ring::{Data, SharedPool};

use crate::api::CacheFigures;
use crate::mutants::{self, Mutant};
use crate::{BLOCK_BYTES, CLUSTER_BLOCKS, CLUSTER_BYTES, Place, VersionId};

use entry::{Run, mask_of};
use shard::Shard;

/// Shards, each with a lock of its own: as many that cores seldom meet at one.
const SHARDS_MAX: usize = 64;
/// A shard is worth having when it holds so much.
const SHARD_BYTES_MIN: u64 = 4 << 20;
/// Generations are counted for places that share one of so many numbers (1 MiB of memory): some that are ended keep
/// others, which are being read at that moment, from being kept.
const GENERATIONS: usize = 1 << 18;
/// Of a reader that fetches ahead so much at most is in memory and not asked for yet, as a part of the cache.
const AHEAD_SHARE: u64 = 64;

/// What had happened to a place when a reader was told of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Generation(u32);

/// Where blocks come from that are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Origin {
    /// A host has just asked for them: the next time is the second, when a moment has passed.
    Host,
    /// They were written, or fetched ahead: nobody has asked for them yet.
    Nobody,
}

/// What was found, and whether nobody had asked for the last block of it since it came.
#[derive(Debug)]
pub(crate) struct Hit {
    pub(crate) data: Data,
    pub(crate) is_first: bool,
}

/// Blocks that lie together in a place: the first of them, and the checksum of each.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Blocks<'a> {
    pub(crate) place: Place,
    pub(crate) first: usize,
    pub(crate) crcs: &'a [u32],
}

impl Blocks<'_> {
    /// Bit = block of the cluster.
    fn mask(&self) -> u16 {
        mask_of(self.first, self.crcs.len())
    }
}

/// What is counted of a volume and its snapshots, and whether what is read of it is kept.
#[derive(Debug, Default)]
pub(crate) struct VolumeCache {
    hits: AtomicU64,
    misses: AtomicU64,
    /// Hosts keep it themselves: nothing is kept here but what is fetched ahead.
    is_left_out: AtomicBool,
}

impl VolumeCache {
    /// Blocks that were in memory when a host read them, since the array was opened.
    pub(crate) fn hits(&self) -> u64 {
        self.hits.load(Ordering::Relaxed)
    }

    /// Blocks that had to be read from disks.
    pub(crate) fn misses(&self) -> u64 {
        self.misses.load(Ordering::Relaxed)
    }

    /// Whether what is read of it is kept.
    pub(crate) fn is_cached(&self) -> bool {
        !self.is_left_out.load(Ordering::Relaxed)
    }

    pub(crate) fn set_cached(&self, is_cached: bool) {
        self.is_left_out.store(!is_cached, Ordering::Relaxed);
    }

    pub(crate) fn count_hits(&self, blocks: usize) {
        self.hits.fetch_add(blocks as u64, Ordering::Relaxed);
    }

    pub(crate) fn count_misses(&self, blocks: usize) {
        self.misses.fetch_add(blocks as u64, Ordering::Relaxed);
    }
}

/// Verified blocks of an array. Shared by all cores.
///
/// Invariant: its shards together hold no more than `bytes_max`, as soon as they have [shrunk](Self::shrink_some).
#[derive(Debug)]
pub(crate) struct BlockCache {
    shards: Box<[Mutex<Shard>]>,
    generations: Box<[AtomicU32]>,
    pool: SharedPool,
    bytes_max: AtomicU64,
    /// Somebody lets go what is beyond that.
    is_shrinking: AtomicBool,
    volumes: Mutex<Volumes>,
}

/// What is counted.
#[derive(Debug, Default)]
struct Volumes {
    by_id: BTreeMap<VersionId, Arc<VolumeCache>>,
    /// Of those that are gone: what is counted of all never goes back.
    gone: VolumeCache,
}

impl BlockCache {
    /// An empty one that holds so much.
    pub(crate) fn new(bytes_max: u64) -> Self {
        let shards = (bytes_max / SHARD_BYTES_MIN).clamp(1, SHARDS_MAX as u64).ilog2();
        let cache = Self {
            shards: (0..1 << shards).map(|_| Mutex::default()).collect(),
            generations: (0..GENERATIONS).map(|_| AtomicU32::default()).collect(),
            pool: SharedPool::new(0),
            bytes_max: AtomicU64::default(),
            is_shrinking: AtomicBool::default(),
            volumes: Mutex::default(),
        };
        cache.set_bytes_max(bytes_max);
        cache
    }

    /// It takes no more than so much from now on. What it has beyond goes by [`shrink_some`](Self::shrink_some).
    pub(crate) fn set_bytes_max(&self, bytes_max: u64) {
        self.bytes_max.store(bytes_max, Ordering::Relaxed);
        let of_shard = bytes_max / self.shards.len() as u64;
        for shard in &self.shards {
            lock(shard).set_bytes_max(of_shard);
        }
        self.pool.set_budget(usize::try_from(bytes_max).unwrap_or(usize::MAX));
    }

    /// Lets some of what is too much go; whether there may be more.
    pub(crate) fn shrink_some(&self) -> bool {
        self.shards.iter().any(|shard| lock(shard).shrink_some())
    }

    /// Whether nobody lets it shrink yet: then the caller does, for as long as it [goes on](Self::goes_on_shrinking).
    pub(crate) fn begin_to_shrink(&self) -> bool {
        !self.is_shrinking.swap(true, Ordering::SeqCst)
    }

    /// Lets some more go; whether there is more for the one who has begun.
    pub(crate) fn goes_on_shrinking(&self) -> bool {
        if self.shrink_some() {
            return true;
        }
        self.is_shrinking.store(false, Ordering::SeqCst);
        // Whoever lowered the limit since has left it to this one.
        self.shrink_some() && self.begin_to_shrink()
    }

    /// Clusters that one reader may have fetched ahead.
    pub(crate) fn ahead_clusters_max(&self) -> u64 {
        self.bytes_max.load(Ordering::Relaxed) / AHEAD_SHARE / CLUSTER_BYTES as u64
    }

    /// Whether what is read and written of a volume is kept; not if there is no such volume any more.
    pub(crate) fn keeps(&self, id: VersionId) -> bool {
        lock(&self.volumes).by_id.get(&id).is_some_and(|volume| volume.is_cached())
    }

    /// What is counted of a volume that there is.
    pub(crate) fn volume(&self, id: VersionId) -> Arc<VolumeCache> {
        Arc::clone(lock(&self.volumes).by_id.entry(id).or_default())
    }

    /// The volume is gone.
    pub(crate) fn forget_volume(&self, id: VersionId) {
        let volumes = &mut *lock(&self.volumes);
        if let Some(volume) = volumes.by_id.remove(&id) {
            volumes.gone.hits.fetch_add(volume.hits(), Ordering::Relaxed);
            volumes.gone.misses.fetch_add(volume.misses(), Ordering::Relaxed);
        }
    }

    pub(crate) fn figures(&self) -> CacheFigures {
        let bytes_max = self.bytes_max.load(Ordering::Relaxed);
        let mut figures = CacheFigures { bytes_max, ..CacheFigures::default() };
        for shard in &self.shards {
            let shard = lock(shard);
            figures.bytes += shard.bytes();
            figures.evicted += shard.evicted();
        }
        let volumes = lock(&self.volumes);
        let gone = std::iter::once(&volumes.gone);
        for volume in volumes.by_id.values().map(|volume| &**volume).chain(gone) {
            figures.hits += volume.hits();
            figures.misses += volume.misses();
        }
        figures
    }

    /// What has happened to a place so far. To be asked for under the lock under which a map says what lies there.
    pub(crate) fn generation(&self, place: Place) -> Generation {
        Generation(self.generations[spread(place) % GENERATIONS].load(Ordering::Acquire))
    }

    /// Blocks of a place, if they are here. They count as asked for once more, if a moment has passed since they were.
    pub(crate) fn find(&self, blocks: Blocks<'_>) -> Option<Hit> {
        let (found, is_first) = self.shard(blocks.place).find(blocks)?;
        Some(Hit { data: found.data(blocks.crcs.len())?, is_first })
    }

    /// The same for whoever reads for no host: they do not count as asked for.
    pub(crate) fn peek(&self, blocks: Blocks<'_>) -> Option<Data> {
        let found = self.shard(blocks.place).look(blocks)?;
        found.data(blocks.crcs.len())
    }

    /// Whether all these blocks are here. They do not count as asked for.
    pub(crate) fn has(&self, blocks: Blocks<'_>) -> bool {
        self.shard(blocks.place).has(blocks)
    }

    /// Keeps blocks that were read and verified, or written, if nothing of their place was ended since
    /// `generation` was noted.
    pub(crate) fn keep(
        &self,
        blocks: Blocks<'_>,
        data: &Data,
        (generation, origin): (Generation, Origin),
    ) {
        let len = blocks.crcs.len() * BLOCK_BYTES;
        assert!(data.len() == len && len > 0, "a checksum for each block");
        let bytes = SharedPool::capacity_of(len) as u64;
        {
            let shard = &mut *self.shard(blocks.place);
            if !shard.admits(blocks, origin) || !shard.make_room(bytes) {
                return;
            }
        }
        let Some(mut buf) = self.pool.take(len) else { return };
        data.copy_to(0, &mut buf);
        let run = Run::new(blocks.first, blocks.crcs, buf.freeze());
        let shard = &mut *self.shard(blocks.place);
        // Under the lock that whoever ends it takes.
        if self.generation(blocks.place) == generation || mutants::is(Mutant::LateKeep) {
            shard.keep(blocks.place, run, origin);
        }
    }

    /// These blocks of places (bit = block of the cluster) are about to be written: what is known of them ends.
    pub(crate) fn end(&self, places: impl Iterator<Item = (Place, u16)>) {
        for (place, mask) in places {
            let shard = &mut *self.shard(place);
            self.generations[spread(place) % GENERATIONS].fetch_add(1, Ordering::Release);
            if !mutants::is(Mutant::KeepEnded) {
                shard.end(place, mask);
            }
        }
    }

    fn shard(&self, place: Place) -> MutexGuard<'_, Shard> {
        lock(&self.shards[spread(place) / GENERATIONS % self.shards.len()])
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().expect("no panic under this lock")
}

/// Neighbours far from each other.
fn spread(place: Place) -> usize {
    (place.raw().wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as usize
}

/// All blocks of a cluster.
pub(crate) const WHOLE: u16 = u16::MAX;
const _: () = assert!(CLUSTER_BLOCKS == 16, "a bit of a mask for each block of a cluster");

/// Blocks from one of a cluster on, as a mask.
pub(crate) fn blocks_mask(first: usize, bytes: usize) -> u16 {
    mask_of(first, bytes.div_ceil(BLOCK_BYTES))
}

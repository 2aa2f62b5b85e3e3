//! Reading a volume or snapshot.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use block::{BlockError, IoFuture};
use futures_util::future::join_all;
use ring::{Buf, Data};

use smallvec::SmallVec;

use super::plan::{Piece, Plan, Source, plan};
use super::{Device, Of};
use crate::cache::{Blocks as Lying, Generation, Hit, Origin, VolumeCache};
use crate::core::{Core, State};
use crate::error::ArrayError;
use crate::raid::{Good, Read, ReadError};
use crate::{BLOCK_BYTES, CLUSTER_BLOCKS, CLUSTER_BYTES, Place};

/// How often a read whose data does not match is tried anew while the place of the data changes
/// under it: a checkpoint moves a cluster once in seconds.
const ATTEMPTS_MAX: usize = 8;

#[repr(align(4096))]
struct Aligned([u8; CLUSTER_BYTES]);
static ZEROES: Aligned = Aligned([0; CLUSTER_BYTES]);

/// The blocks that cover a range of bytes.
#[derive(Debug, Clone, Copy)]
pub(super) struct Blocks {
    pub(super) first: u64,
    pub(super) count: usize,
    /// Bytes of the first block before the range.
    pub(super) skip: usize,
}

impl Blocks {
    pub(super) fn covering(at: u64, len: usize) -> Self {
        assert!(len > 0, "an empty range has no blocks");
        let first = at / BLOCK_BYTES as u64;
        let skip = (at % BLOCK_BYTES as u64) as usize;
        Self { first, count: (skip + len).div_ceil(BLOCK_BYTES), skip }
    }
}

impl Device {
    pub(super) fn read_device(&self, at: u64, len: usize) -> IoFuture<Data> {
        if let Err(error) = self.shape().check(at, len as u64) {
            return IoFuture::ready(Err(error));
        }
        if len == 0 {
            return IoFuture::ready(Ok(Data::default()));
        }
        let blocks = Blocks::covering(at, len);
        let cut = move |data: Data| data.into_slice(blocks.skip..blocks.skip + len);
        self.core.host_ops.fetch_add(1, Ordering::Relaxed);
        match self.begin(blocks) {
            Begun::Done(result) => IoFuture::ready(result.map(cut)),
            Begun::Reading(read, seen) => {
                let (core, cached, of) =
                    (Arc::clone(&self.core), Arc::clone(&self.cached), self.of);
                core.read_ahead(of, blocks.first, blocks.count);
                IoFuture::boxed(async move {
                    let data = match read.await {
                        Ok(good) => core.took(good, &seen, &cached)?,
                        // It may have moved meanwhile: looked up anew.
                        Err(_) => {
                            drop(seen);
                            core.read(of, blocks.first, blocks.count, &cached).await?
                        }
                    };
                    Ok(cut(data))
                })
            }
            Begun::Not => {
                let (core, cached, of) =
                    (Arc::clone(&self.core), Arc::clone(&self.cached), self.of);
                core.read_ahead(of, blocks.first, blocks.count);
                IoFuture::boxed(async move {
                    core.read(of, blocks.first, blocks.count, &cached).await.map(cut)
                })
            }
        }
    }

    /// Reads what is at hand, in memory or on disks that answer at once; begins to read what lies
    /// together on disk.
    fn begin(&self, blocks: Blocks) -> Begun {
        let seen = {
            let mut state = self.core.lock();
            if let Err(error) = state.check_served(self.of).and(self.core.check_kept()) {
                return Begun::Done(Err(error));
            }
            let Ok(found) = plan(&mut state, self.of, blocks.first, blocks.count) else {
                return Begun::Not;
            };
            if found.iter().all(|piece| !matches!(piece.source, Source::Disk { .. })) {
                // Positions in the journal hold as long as the lock does.
                self.cached.count_hits(blocks.count);
                return Begun::Done(self.core.gather(&found, blocks.count));
            }
            self.core.seen(found, &state)
        };
        let [Piece { source: Source::Disk { place, first, crcs }, .. }] = &seen.plan[..] else {
            return self.gather_hits(&seen, blocks).unwrap_or(Begun::Not);
        };
        let lying = Lying { place: *place, first: *first, crcs };
        if let Some(hit) = self.core.cache.find(lying) {
            return Begun::Done(Ok(self.hit(hit, blocks)));
        }
        match self.core.read_place(*place, *first, crcs).into_ready() {
            Ok(Ok(good)) => Begun::Done(self.core.took(good, &seen, &self.cached)),
            Ok(Err(_)) => Begun::Not,
            Err(read) => Begun::Reading(read, seen),
        }
    }

    /// What a host gets from memory; the stream that it may be part of goes on.
    fn hit(&self, hit: Hit, blocks: Blocks) -> Data {
        self.cached.count_hits(blocks.count);
        if hit.is_first {
            self.core.read_ahead(self.of, blocks.first, blocks.count);
        }
        hit.data
    }

    /// Blocks of several clusters, if what lies on disks of them is in memory.
    fn gather_hits(&self, seen: &Seen, blocks: Blocks) -> Option<Begun> {
        let lying = |piece: &Piece| match &piece.source {
            Source::Disk { place, first, crcs } => {
                self.core.cache.has(Lying { place: *place, first: *first, crcs })
            }
            Source::Zero => true,
            Source::Journal(_) => false,
        };
        if !seen.plan.iter().all(lying) {
            return None;
        }
        let mut buf = Buf::alloc(blocks.count * BLOCK_BYTES)?;
        let mut is_first = false;
        for Piece { at, blocks: count, source } in &seen.plan {
            let into = &mut buf[at * BLOCK_BYTES..][..count * BLOCK_BYTES];
            match source {
                Source::Disk { place, first, crcs } => {
                    let hit = self.core.cache.find(Lying { place: *place, first: *first, crcs })?;
                    is_first |= hit.is_first;
                    hit.data.copy_to(0, into);
                }
                _ => into.fill(0),
            }
        }
        Some(Begun::Done(Ok(self.hit(Hit { data: buf.freeze(), is_first }, blocks))))
    }
}

/// Where blocks are, as a map says, and what holds for as long as this lives.
struct Seen {
    plan: Plan,
    /// Of each piece that lies on disks, in the order of the plan.
    generations: SmallVec<[Generation; 1]>,
    /// What lies in these places is not used again as long as this lives.
    _readers: Arc<()>,
}

/// How far a read has come.
enum Begun {
    Done(Result<Data, BlockError>),
    /// Under way: one piece that lies on disks.
    Reading(Read, Seen),
    Not,
}

impl Core {
    /// Refuses hosts what they would read as soon as the journal has failed: what it has, or where it
    /// says that something lies, may never be durable, and nobody must have seen what is gone after a
    /// restart.
    fn check_kept(&self) -> Result<(), BlockError> {
        self.journal.failure().map_or(Ok(()), Err)
    }

    /// What a plan says, under the lock under which it was made.
    fn seen(&self, plan: Plan, state: &State) -> Seen {
        let generation = |piece: &Piece| match &piece.source {
            Source::Disk { place, .. } => Some(self.cache.generation(*place)),
            Source::Zero | Source::Journal(_) => None,
        };
        let generations = plan.iter().filter_map(generation).collect();
        Seen { plan, generations, _readers: Arc::clone(state.pages.readers()) }
    }

    /// What disks gave of a plan of one piece, for the host.
    fn took(&self, good: Good, seen: &Seen, cached: &VolumeCache) -> Result<Data, BlockError> {
        let [Piece { source: Source::Disk { place, first, crcs }, .. }] = &seen.plan[..] else {
            unreachable!("one piece that lies on disks")
        };
        let lying = Lying { place: *place, first: *first, crcs };
        self.keep_read(lying, &good.data, seen.generations[0], cached);
        self.queue_heals(good.heals);
        self.check_kept().map(|()| good.data)
    }

    /// Keeps what a host has read from disks.
    fn keep_read(
        &self,
        lying: Lying<'_>,
        data: &Data,
        generation: Generation,
        cached: &VolumeCache,
    ) {
        cached.count_misses(lying.crcs.len());
        if cached.is_cached() {
            self.cache.keep(lying, data, (generation, Origin::Host));
        }
    }

    /// What is not on disks.
    fn gather(&self, found: &Plan, count: usize) -> Result<Data, BlockError> {
        if let [Piece { source: Source::Zero, .. }] = &found[..]
            && count * BLOCK_BYTES <= CLUSTER_BYTES
        {
            return Ok(Data::from(&ZEROES.0[..count * BLOCK_BYTES]));
        }
        let mut buf = Buf::alloc(count * BLOCK_BYTES).ok_or(BlockError::NoMemory)?;
        for piece in found {
            let into = &mut buf[piece.at * BLOCK_BYTES..][..piece.blocks * BLOCK_BYTES];
            match &piece.source {
                Source::Zero => into.fill(0),
                Source::Journal(position) => self.journal.read(*position, into),
                Source::Disk { .. } => unreachable!("the caller has looked"),
            }
        }
        Ok(buf.freeze())
    }

    /// Reads `count` blocks from block `first` on.
    ///
    /// # Errors
    /// [`BlockError::Medium`] with the first block that no redundancy could give back.
    pub(crate) async fn read(
        self: &Arc<Self>,
        of: Of,
        first: u64,
        count: usize,
        cached: &VolumeCache,
    ) -> Result<Data, BlockError> {
        let mut before: Option<Plan> = None;
        for _ in 0..ATTEMPTS_MAX {
            let mut buf = Buf::alloc(count * BLOCK_BYTES).ok_or(BlockError::NoMemory)?;
            let planned = self.with_pages(|state| {
                if let Err(error) = state.check_served(of) {
                    return Ok(Err(error));
                }
                let found = plan(state, of, first, count)?;
                for piece in &found {
                    let into = &mut buf[piece.at * BLOCK_BYTES..][..piece.blocks * BLOCK_BYTES];
                    match piece.source {
                        Source::Zero => into.fill(0),
                        // Under the lock: a checkpoint may trim this position afterwards.
                        Source::Journal(position) => self.journal.read(position, into),
                        Source::Disk { .. } => {}
                    }
                }
                Ok(Ok(self.seen(found, state)))
            });
            let seen = planned.await.map_err(|error| in_block(&error, first))??;
            let Some(bad) = self.fetch(&seen, &mut buf, cached).await else {
                return self.check_kept().map(|()| buf.freeze());
            };
            // Data that moved while it was read is no damage: it is where the map says now.
            if bad.is_final && before.as_ref() == Some(&seen.plan) {
                if let Some((place, crc)) = bad.lost {
                    let block = first + bad.block as u64;
                    self.doubt((of, block / CLUSTER_BLOCKS as u64), block, (place, crc));
                }
                return Err(BlockError::Medium {
                    at: (first + bad.block as u64) * BLOCK_BYTES as u64,
                });
            }
            before = Some(seen.plan);
        }
        Err(BlockError::Busy)
    }

    /// Reads the pieces that are on disks into `buf`; `Some` when one could not be had.
    async fn fetch(
        self: &Arc<Self>,
        seen: &Seen,
        buf: &mut Buf,
        cached: &VolumeCache,
    ) -> Option<Bad> {
        let on_disks = seen.plan.iter().filter_map(|piece| match &piece.source {
            Source::Disk { place, first, crcs } => {
                Some((piece.at, Lying { place: *place, first: *first, crcs }))
            }
            Source::Zero | Source::Journal(_) => None,
        });
        let reads = on_disks.zip(&seen.generations).map(|((at, lying), generation)| {
            let hit = self.cache.find(lying);
            async move {
                if let Some(hit) = hit {
                    cached.count_hits(lying.crcs.len());
                    return (at, lying, Ok(Good { data: hit.data, heals: Vec::new() }));
                }
                let read = self.read_place(lying.place, lying.first, lying.crcs).await;
                if let Ok(good) = &read {
                    self.keep_read(lying, &good.data, *generation, cached);
                }
                (at, lying, read)
            }
        });
        let mut bad = None;
        for (at, Lying { place, first, crcs }, result) in join_all(reads).await {
            match result {
                Ok(good) => {
                    good.data.copy_to(0, &mut buf[at * BLOCK_BYTES..][..good.data.len()]);
                    self.queue_heals(good.heals);
                }
                Err(ReadError::Later(_) | ReadError::Unproved) => {
                    bad = bad.or(Some(Bad { block: at, is_final: false, lost: None }));
                }
                Err(ReadError::Damaged { block }) => {
                    // It counts from the start of the cluster.
                    let lost = Some((place, crcs[block - first]));
                    bad = bad.or(Some(Bad { block: at + block - first, is_final: true, lost }));
                }
                Err(ReadError::Lost) => {
                    bad = bad.or(Some(Bad { block: at, is_final: true, lost: None }));
                }
            }
        }
        bad
    }
}

/// A block that could not be read.
struct Bad {
    /// Counted from the first block of the read.
    block: usize,
    /// Trying the same again gives the same.
    is_final: bool,
    /// All disks that should have it are there, and none does: its cluster's place, and its checksum.
    lost: Option<(Place, u32)>,
}

/// An error of the array as hosts are told it.
pub(super) fn in_block(error: &ArrayError, first: u64) -> BlockError {
    match error {
        ArrayError::Io(error) => *error,
        _ => BlockError::Medium { at: first * BLOCK_BYTES as u64 },
    }
}

impl State {
    /// Whether this volume or snapshot may be read and written now.
    pub(super) fn check_served(&self, of: Of) -> Result<(), BlockError> {
        let (Of::Head(volume) | Of::Snapshot(volume, _)) = of;
        let gone = Err(BlockError::Os { errno: libc::ENODEV });
        if self.stopped.is_some() {
            return gone;
        }
        match self.live.get(&volume) {
            Some(live) if live.lost.is_none() => Ok(()),
            _ => gone,
        }
    }
}

//! Where the bytes of a read are.

use smallvec::SmallVec;

use crate::core::State;
use crate::overlay::{Base, Block};
use crate::tree::leaf::{self, Entry};
use crate::tree::{Missing, Root};
use crate::{CLUSTER_BLOCKS, Place, VersionId};

/// What is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Of {
    /// The present contents of a volume.
    Head(VersionId),
    /// A snapshot, and its volume.
    Snapshot(VersionId, VersionId),
}

/// Where some blocks are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Source {
    /// Nowhere: they are zeroes.
    Zero,
    /// In the journal from this position on.
    Journal(u64),
    /// On disks, from a block of a cluster on, with their checksums.
    Disk { place: Place, first: usize, crcs: SmallVec<[u32; CLUSTER_BLOCKS]> },
}

/// Blocks that lie together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Piece {
    /// First block, counted from the first block of the read.
    pub(crate) at: usize,
    pub(crate) blocks: usize,
    pub(crate) source: Source,
}

pub(crate) type Plan = SmallVec<[Piece; 1]>;

/// Where the blocks `first..first + count` are now.
pub(crate) fn plan(state: &mut State, of: Of, first: u64, count: usize) -> Result<Plan, Missing> {
    let mut plan = Plan::new();
    let mut at = 0;
    while at < count {
        let block = first + at as u64;
        let inside = (block % CLUSTER_BLOCKS as u64) as usize;
        let blocks = (CLUSTER_BLOCKS - inside).min(count - at);
        let found = state.cluster(of, block / CLUSTER_BLOCKS as u64)?;
        for index in inside..inside + blocks {
            push(&mut plan, at + index - inside, found.source(index), found.crc(index));
        }
        at += blocks;
    }
    debug_assert_eq!(plan.iter().map(|piece| piece.blocks).sum::<usize>(), count);
    Ok(plan)
}

/// All that is known of a cluster.
#[derive(Debug)]
pub(crate) struct Cluster {
    /// Its blocks that are not where the base says.
    pub(crate) blocks: [Block; CLUSTER_BLOCKS],
    /// The base; `None` for zeroes.
    pub(crate) base: Option<(Place, [u32; CLUSTER_BLOCKS])>,
}

impl Cluster {
    fn source(&self, index: usize) -> Source {
        match (self.blocks[index], &self.base) {
            (Block::Journal(position), _) => Source::Journal(position),
            (Block::Zero, _) | (Block::Base, None) => Source::Zero,
            (Block::Base, Some((place, _))) => {
                Source::Disk { place: *place, first: index, crcs: SmallVec::new() }
            }
        }
    }

    fn crc(&self, index: usize) -> u32 {
        self.base.as_ref().map_or(0, |(_, crcs)| crcs[index])
    }

    /// Where a block lies on disks, and its checksum; `None` when it is zero or in the journal.
    pub(crate) fn on_disk(&self, index: usize) -> Option<(Place, u32)> {
        let (place, crcs) = self.base.as_ref()?;
        (self.blocks[index] == Block::Base).then_some((*place, crcs[index]))
    }

    /// Whether it holds space.
    pub(crate) fn is_mapped(&self) -> bool {
        let in_journal = |block: &Block| matches!(block, Block::Journal(_));
        self.base.is_some() || self.blocks.iter().any(in_journal)
    }
}

impl State {
    /// All that is known of a cluster.
    ///
    /// # Errors
    /// [`Missing`] when a page of the map has to be loaded first.
    pub(crate) fn cluster(&mut self, of: Of, cluster: u64) -> Result<Cluster, Missing> {
        let (patch, root) = match of {
            Of::Head(volume) => {
                let patch = self.live.get(&volume).map(|live| live.overlay.resolve(cluster));
                (patch, self.tables.volumes.get(&volume).and_then(|volume| volume.head.root))
            }
            Of::Snapshot(volume, id) => {
                let live = self.live.get(&volume);
                match live.and_then(|live| live.overlay.resolve_at(id, cluster)) {
                    Some(patch) => (Some(patch), self.tables.volumes[&volume].head.root),
                    None => (None, self.tables.versions.get(&id).and_then(|v| v.contents.root)),
                }
            }
        };
        let patch = patch.unwrap_or_default();
        let base = match patch.base {
            Base::At(place, crcs) => Some((place, *crcs)),
            Base::Zero => None,
            Base::Below if patch.blocks.iter().all(|block| *block != Block::Base) => None,
            Base::Below => self.mapped(root, cluster)?.map(|entry| (entry.place, entry.crcs)),
        };
        Ok(Cluster { blocks: patch.blocks, base })
    }

    /// What a map has of a cluster.
    ///
    /// # Errors
    /// [`Missing`] when a page of it has to be loaded first.
    pub(crate) fn mapped(&mut self, root: Root, cluster: u64) -> Result<Option<Entry>, Missing> {
        let (number, index) = leaf::position(cluster);
        let page = crate::tree::lookup(&mut self.pages, root, number)?;
        Ok(page.and_then(|page| leaf::get(&page, index)))
    }
}

/// Adds one block, to the last piece where it continues it.
fn push(plan: &mut Plan, at: usize, mut source: Source, crc: u32) {
    if let Some(last) = plan.last_mut() {
        let continues = match (&mut last.source, &source) {
            (Source::Zero, Source::Zero) => true,
            (Source::Journal(from), Source::Journal(position)) => {
                *from + (last.blocks * crate::BLOCK_BYTES) as u64 == *position
            }
            (
                Source::Disk { place, first, crcs },
                Source::Disk { place: other, first: next, .. },
            ) if place == other && *first + last.blocks == *next => {
                crcs.push(crc);
                true
            }
            _ => false,
        };
        if continues {
            last.blocks += 1;
            return;
        }
    }
    if let Source::Disk { crcs, .. } = &mut source {
        crcs.push(crc);
    }
    plan.push(Piece { at, blocks: 1, source });
}

//! What the journal holds of a volume beyond its map: the newest state of every cluster that
//! changed since the last checkpoint.
//!
//! ```text
//!   map (last checkpoint) <- segment <- snapshot <- segment | segment (open)
//!                            `------ frozen: being destaged ------´
//! ```
//!
//! A segment ends where a snapshot is taken and where a checkpoint begins. Only the last one takes
//! changes. Reading looks from the newest segment to the oldest, then into the map.
//!
//! Invariants:
//! 1. There is always an open segment, the last one.
//! 2. A patch in a segment is newer than a zeroed range of the same segment that covers it.
//! 3. Journal positions in it are not trimmed: a checkpoint trims only what it has taken out here.

mod patch;
mod ranges;
mod segment;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::sync::Arc;

use crate::{Epoch, Place, VersionId};

pub(crate) use patch::{Base, Block, Patch, Room};
pub(crate) use segment::{Segment, Taken};

/// What lies under a change when it is destaged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Under {
    /// What the map has.
    Map,
    /// Nothing.
    Zero,
    /// A cluster that older changes have got.
    Data,
}

/// The changes of one volume.
#[derive(Debug)]
pub(crate) struct Overlay {
    /// Only frozen ones are shared with a checkpoint.
    segments: VecDeque<Arc<Segment>>,
}

impl Overlay {
    /// No changes; what comes is born at `epoch`.
    pub(crate) fn new(epoch: Epoch) -> Self {
        Self { segments: VecDeque::from([Arc::new(Segment::new(epoch))]) }
    }

    /// Of what its oldest changes write.
    pub(crate) fn epoch(&self) -> Epoch {
        self.segments.front().expect("invariant 1").epoch
    }

    /// The segment that takes changes.
    pub(crate) fn open(&mut self) -> &mut Segment {
        let open = self.segments.back_mut().expect("invariant 1");
        Arc::get_mut(open).expect("the open segment is not shared")
    }

    /// The patch of `cluster` that takes changes, if it has one.
    pub(crate) fn newest(&self, cluster: u64) -> Option<&Patch> {
        self.segments.back().expect("invariant 1").patch(cluster)
    }

    /// The newest state of `cluster`, as far as it is known here.
    pub(crate) fn resolve(&self, cluster: u64) -> Patch {
        Self::resolve_in(self.segments.iter().rev(), cluster)
    }

    /// As [`resolve`](Self::resolve), at the time when `snapshot` was taken; `None` when it is not
    /// one of those that wait for a checkpoint.
    pub(crate) fn resolve_at(&self, snapshot: VersionId, cluster: u64) -> Option<Patch> {
        let last = self.segments.iter().position(|segment| segment.is_end_of(snapshot))?;
        Some(Self::resolve_in(self.segments.range(..=last).rev(), cluster))
    }

    /// Whether somebody needs what lies in a block of `cluster` at `here`, the volume or a snapshot
    /// that waits for a checkpoint: all have it in the journal, or elsewhere, if not. `here` is where
    /// the map has the cluster, or a place that it was given since.
    pub(crate) fn needs(&self, cluster: u64, block: usize, here: Place) -> bool {
        let waiting = self.waiting().filter_map(|taken| self.resolve_at(taken.snapshot, cluster));
        let views: Vec<Patch> = waiting.chain([self.resolve(cluster)]).collect();
        let lies_here = |patch: &Patch| matches!(&patch.base, Base::At(at, _) if *at == here);
        let is_new = views.iter().any(lies_here);
        let is_base = |patch: &&Patch| patch.blocks[block] == Block::Base;
        views.iter().filter(is_base).any(|patch| match patch.base {
            Base::Below => !is_new,
            Base::Zero => false,
            Base::At(..) => lies_here(patch),
        })
    }

    fn resolve_in<'a>(newest_first: impl Iterator<Item = &'a Arc<Segment>>, cluster: u64) -> Patch {
        let mut found = Patch::default();
        for segment in newest_first {
            if segment.lay_under(cluster, &mut found) {
                break;
            }
        }
        found
    }

    /// What lies under a change of `cluster` in segment number `segment`, and whether a snapshot
    /// that is not in the maps yet has it.
    pub(crate) fn under(&self, segment: usize, cluster: u64) -> (Under, bool) {
        let own = self.segments[segment].base(cluster);
        let mut older = self.segments.range(..segment).rev();
        let under = own.or_else(|| older.find_map(|segment| segment.leaves(cluster)));
        let is_taken = self.segments.range(..segment).any(|segment| segment.taken().is_some());
        (under.unwrap_or(Under::Map), is_taken)
    }

    /// The number of the open segment.
    pub(crate) fn last(&self) -> usize {
        self.segments.len() - 1
    }

    /// Patches of which it is not known where they will go, by segment and cluster, oldest first:
    /// after a replay.
    pub(crate) fn undecided(&self) -> impl Iterator<Item = (usize, u64)> {
        let segments = self.segments.iter().enumerate();
        segments.flat_map(|(number, segment)| {
            let patches = segment.patches().filter(|(_, patch)| patch.room == Room::Undecided);
            patches.map(move |(cluster, _)| (number, cluster))
        })
    }

    /// Says where a cluster of segment number `segment` will go.
    ///
    /// # Panics
    /// When a checkpoint has the segment.
    pub(crate) fn decide(&mut self, segment: usize, cluster: u64, room: Room) {
        let segment = Arc::get_mut(&mut self.segments[segment]);
        segment.expect("no checkpoint runs").patch_mut(cluster).room = room;
    }

    /// Clusters that are set aside for its changes.
    pub(crate) fn promised(&self) -> u64 {
        self.rooms().filter(|room| room.is_promised()).count() as u64
    }

    /// Those of them that were kept for a thick volume.
    pub(crate) fn drawn(&self) -> u64 {
        self.rooms().filter(|room| *room == Room::Thick).count() as u64
    }

    /// All patches, oldest segment first.
    pub(crate) fn patches(&self) -> impl Iterator<Item = (u64, &Patch)> {
        self.segments.iter().flat_map(|segment| segment.patches())
    }

    /// Ranges of clusters that were zeroed whole.
    pub(crate) fn zeroed(&self) -> impl Iterator<Item = std::ops::Range<u64>> {
        self.segments.iter().flat_map(|segment| segment.zeroed())
    }

    /// Where clusters lie that were written directly, and that no map has yet.
    pub(crate) fn placed(&self) -> impl Iterator<Item = Place> {
        self.patches().filter_map(|(_, patch)| match patch.base {
            Base::At(place, _) => Some(place),
            Base::Below | Base::Zero => None,
        })
    }

    fn rooms(&self) -> impl Iterator<Item = Room> {
        self.patches().map(|(_, patch)| patch.room)
    }

    /// Ends the open segment with a snapshot; changes from now on are born at `epoch`.
    pub(crate) fn take(&mut self, taken: Taken, epoch: Epoch) {
        self.open().end_with(taken);
        self.segments.push_back(Arc::new(Segment::new(epoch)));
    }

    /// The snapshots that wait for a checkpoint, oldest first.
    pub(crate) fn waiting(&self) -> impl Iterator<Item = &Taken> {
        self.segments.iter().filter_map(|segment| segment.taken())
    }

    /// Begins a checkpoint: all that is here is frozen, changes go to a new segment. Returns how
    /// many segments are frozen; none when nothing changed.
    pub(crate) fn freeze(&mut self, epoch: Epoch) -> usize {
        // What was frozen before may be here still: its checkpoint could not take it out.
        if !self.open().is_empty() {
            self.segments.push_back(Arc::new(Segment::new(epoch)));
        }
        self.segments.len() - 1
    }

    /// The oldest `count` segments, which are frozen.
    ///
    /// # Panics
    /// When the open segment would be among them.
    pub(crate) fn frozen(&self, count: usize) -> Vec<Arc<Segment>> {
        assert!(count < self.segments.len(), "the open segment is not frozen");
        self.segments.range(..count).cloned().collect()
    }

    /// All segments, oldest first.
    pub(crate) fn into_segments(self) -> impl Iterator<Item = Arc<Segment>> {
        self.segments.into_iter()
    }

    /// Ends a checkpoint: the map has the first `count` segments now.
    ///
    /// # Panics
    /// When the open segment would be among them.
    pub(crate) fn drop_frozen(&mut self, count: usize) {
        assert!(count < self.segments.len(), "the open segment stays");
        self.segments.drain(..count);
    }
}

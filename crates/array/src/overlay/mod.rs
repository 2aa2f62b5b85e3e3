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

use crate::{Epoch, VersionId};

pub(crate) use patch::{Base, Block, Patch};
pub(crate) use segment::{Segment, Taken};

/// The changes of one volume.
#[derive(Debug)]
pub(crate) struct Overlay {
    segments: VecDeque<Segment>,
}

impl Overlay {
    /// No changes; what comes is born at `epoch`.
    pub(crate) fn new(epoch: Epoch) -> Self {
        Self { segments: VecDeque::from([Segment::new(epoch)]) }
    }

    /// The segment that takes changes.
    pub(crate) fn open(&mut self) -> &mut Segment {
        self.segments.back_mut().expect("invariant 1")
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

    fn resolve_in<'a>(newest_first: impl Iterator<Item = &'a Segment>, cluster: u64) -> Patch {
        let mut found = Patch::default();
        for segment in newest_first {
            if segment.lay_under(cluster, &mut found) {
                break;
            }
        }
        found
    }

    /// The first cluster from `from` on that has any change here: what lies before it is as the map
    /// says.
    pub(crate) fn next_change(&self, from: u64) -> Option<u64> {
        self.segments.iter().filter_map(|segment| segment.next_change(from)).min()
    }

    /// Ends the open segment with a snapshot; changes from now on are born at `epoch`.
    pub(crate) fn take(&mut self, taken: Taken, epoch: Epoch) {
        self.open().end_with(taken);
        self.segments.push_back(Segment::new(epoch));
    }

    /// The snapshots that wait for a checkpoint, oldest first.
    pub(crate) fn waiting(&self) -> impl Iterator<Item = &Taken> {
        self.segments.iter().filter_map(Segment::taken)
    }

    /// Begins a checkpoint: all that is here is frozen, changes go to a new segment. Returns how
    /// many segments are frozen; none when nothing changed.
    pub(crate) fn freeze(&mut self, epoch: Epoch) -> usize {
        if self.segments.len() == 1 && self.open().is_empty() {
            return 0;
        }
        self.segments.push_back(Segment::new(epoch));
        self.segments.len() - 1
    }

    /// A frozen segment.
    ///
    /// # Panics
    /// When there are not that many.
    pub(crate) fn frozen(&self, index: usize) -> &Segment {
        assert!(index + 1 < self.segments.len(), "the open segment is not frozen");
        &self.segments[index]
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

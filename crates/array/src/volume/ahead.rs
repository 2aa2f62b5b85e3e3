//! Read-ahead: a host that reads on and on finds the next clusters in [the cache](crate::cache).

use std::collections::{HashSet, VecDeque};
use std::sync::{Arc, Mutex};

use futures_util::future::join_all;

use super::plan::{Of, Piece, Source, plan};
use crate::cache::{Blocks, Origin};
use crate::core::Core;
use crate::{CLUSTER_BLOCKS, CLUSTER_BYTES, Place};

/// Clusters that are fetched for a stream before a host asks for them: 4 MiB.
const CLUSTERS_MAX: u64 = 64;
/// Streams that are told apart.
const STREAMS_MAX: usize = 32;
/// Reads in a row that make a stream.
const RUN_MIN: u32 = 3;

/// Reads that follow each other.
#[derive(Debug, Clone, Copy)]
struct Stream {
    of: Of,
    /// The block after the last read.
    next: u64,
    run: u32,
    /// Clusters below this were fetched.
    fetched: u64,
}

/// The streams of an array.
#[derive(Debug, Default)]
pub(crate) struct Ahead(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    streams: VecDeque<Stream>,
    /// Being read from disks.
    fetching: HashSet<Place>,
}

impl Ahead {
    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        self.0.lock().expect("no panic under this lock")
    }

    /// A place is going to be read, unless somebody does so already.
    fn begin(&self, place: Place) -> bool {
        self.lock().fetching.insert(place)
    }

    /// It was read, or could not be.
    fn end(&self, place: Place) {
        self.lock().fetching.remove(&place);
    }

    /// Notes a read; the clusters to be fetched, if it continues a stream.
    fn note(&self, of: Of, first: u64, count: u64, ahead: u64) -> Option<std::ops::Range<u64>> {
        let state = &mut *self.lock();
        let end = first + count;
        // Who reads from the middle of a block on begins in the one in which the read before has ended.
        let follows = |next: u64| next == first || next == first + 1 && end > next;
        let known = state.streams.iter().position(|s| s.of == of && follows(s.next));
        let mut stream = match known {
            Some(index) => state.streams.remove(index).expect("just found"),
            None => Stream { of, next: first, run: 0, fetched: 0 },
        };
        stream.next = end;
        stream.run += 1;
        let here = stream.next / CLUSTER_BLOCKS as u64;
        let from = stream.fetched.max(here);
        let wanted = here + ahead;
        // Half of it at a time, so that disks get large pieces to do.
        let is_due = stream.run >= RUN_MIN && wanted >= from + ahead.div_ceil(2);
        if is_due {
            stream.fetched = wanted;
        }
        state.streams.push_back(stream);
        if state.streams.len() > STREAMS_MAX {
            state.streams.pop_front();
        }
        is_due.then_some(from..wanted)
    }
}

impl Core {
    /// Notes a read that had to wait for disks, and fetches what will be read next.
    pub(super) fn read_ahead(self: &Arc<Self>, of: Of, first: u64, count: usize) {
        let (Of::Head(volume) | Of::Snapshot(volume, _)) = of;
        let Some((ahead_bytes, size_bytes)) = self
            .lock()
            .tables
            .volumes
            .get(&volume)
            .map(|volume| (u64::from(volume.read_ahead_bytes), volume.size_bytes))
        else {
            return;
        };
        let cluster = CLUSTER_BYTES as u64;
        let ahead = (ahead_bytes / cluster).min(CLUSTERS_MAX).min(self.cache.ahead_clusters_max());
        if ahead == 0 {
            return;
        }
        let Some(range) = self.ahead.note(of, first, count as u64, ahead) else { return };
        let range = range.start..range.end.min(size_bytes / cluster);
        let core = Arc::clone(self);
        self.env.spawn(Box::pin(async move {
            join_all(range.map(|cluster| core.fetch_ahead(of, cluster))).await;
        }));
    }

    async fn fetch_ahead(self: &Arc<Self>, of: Of, cluster: u64) {
        let first = cluster * CLUSTER_BLOCKS as u64;
        let planned = self.with_pages(|state| {
            let found = plan(state, of, first, CLUSTER_BLOCKS)?;
            let [Piece { source: Source::Disk { place, crcs, .. }, .. }] = &found[..] else {
                return Ok(None);
            };
            // Noted in the moment in which the map says so: whoever changes the place comes later.
            let generation = self.cache.generation(*place);
            Ok(Some((*place, crcs.clone(), generation, Arc::clone(state.pages.readers()))))
        });
        let Ok(Some((place, crcs, generation, _readers))) = planned.await else { return };
        if self.cache.has(Blocks { place, first: 0, crcs: &crcs }) || !self.ahead.begin(place) {
            return;
        }
        if let Ok(good) = self.read_place(place, 0, &crcs).await {
            let blocks = Blocks { place, first: 0, crcs: &crcs };
            self.cache.keep(blocks, &good.data, (generation, Origin::Nobody));
            self.queue_heals(good.heals);
        }
        self.ahead.end(place);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{SetId, VersionId};

    const OF: Of = Of::Head(VersionId(1));

    #[test]
    fn only_reads_in_a_row_fetch_and_each_cluster_once() {
        let ahead = Ahead::default();
        assert_eq!(ahead.note(OF, 500, 16, 8), None);
        for (at, wanted) in [(0, None), (16, None), (32, Some(3..11)), (48, None)] {
            assert_eq!(ahead.note(OF, at, 16, 8), wanted, "at {at}");
        }
        assert_eq!(ahead.note(OF, 64, 16, 8), None);
        assert_eq!(ahead.note(OF, 80, 16, 8), None);
        assert_eq!(ahead.note(OF, 96, 16, 8), Some(11..15));
    }

    /// 64 KiB each, 512 bytes behind a border of blocks.
    #[test]
    fn reads_that_begin_in_the_middle_of_a_block_are_a_stream_too() {
        let ahead = Ahead::default();
        for (at, wanted) in [(0, None), (16, None), (32, Some(3..11)), (48, None)] {
            assert_eq!(ahead.note(OF, at, 17, 8), wanted, "at {at}");
        }
        // Again and again within the last block is no stream.
        for _ in 0..9 {
            assert_eq!(ahead.note(OF, 1000, 1, 8), None);
        }
    }

    #[test]
    fn a_place_is_fetched_by_one_at_a_time() {
        let (ahead, place) = (Ahead::default(), Place::new(SetId(1), 1));
        assert!(ahead.begin(place));
        assert!(!ahead.begin(place), "one reads it already");
        ahead.end(place);
        assert!(ahead.begin(place));
    }
}

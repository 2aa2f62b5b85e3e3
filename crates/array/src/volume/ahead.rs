//! Read-ahead: a host that reads on and on finds the next clusters in memory.
//!
//! What is kept is named by its place, and ended by whoever writes to that place
//! ([`Ahead::end`]), also while it is still being fetched. Checksums are compared besides; alone
//! they would not do, because different contents may have the same.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::{Arc, Mutex};

use futures_util::future::join_all;
use ring::{Buf, Data};

use super::plan::{Of, Piece, Source, plan};
use crate::core::Core;
use crate::{BLOCK_BYTES, CLUSTER_BLOCKS, CLUSTER_BYTES, Place};

/// Clusters in memory: 16 MiB.
const CLUSTERS_MAX: usize = 256;
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

#[derive(Debug)]
struct Kept {
    crcs: [u32; CLUSTER_BLOCKS],
    bytes: Vec<u8>,
}

/// The streams of an array and what was fetched for them.
#[derive(Debug, Default)]
pub(crate) struct Ahead(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    streams: VecDeque<Stream>,
    kept: HashMap<Place, Arc<Kept>>,
    order: VecDeque<Place>,
    /// Being read from disks, and not written to since that was decided.
    fetching: HashSet<Place>,
}

impl Ahead {
    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        self.0.lock().expect("no panic under this lock")
    }

    /// Blocks of a cluster, if they were fetched and are what they should be.
    pub(super) fn find(&self, place: Place, first: usize, crcs: &[u32]) -> Option<Data> {
        let kept = Arc::clone(self.lock().kept.get(&place)?);
        let blocks = first..first + crcs.len();
        if kept.crcs[blocks.clone()] != *crcs {
            return None;
        }
        let mut buf = Buf::alloc(crcs.len() * BLOCK_BYTES)?;
        buf.copy_from_slice(&kept.bytes[blocks.start * BLOCK_BYTES..blocks.end * BLOCK_BYTES]);
        Some(buf.freeze())
    }

    /// These are about to be written: what is known of them ends.
    pub(crate) fn end(&self, places: impl Iterator<Item = Place>) {
        let state = &mut *self.lock();
        if state.kept.is_empty() && state.fetching.is_empty() {
            return;
        }
        for place in places {
            state.kept.remove(&place);
            state.fetching.remove(&place);
        }
        // Otherwise places would come to stand in it twice.
        let kept = &state.kept;
        state.order.retain(|place| kept.contains_key(place));
    }

    /// A place is going to be read, unless somebody does so already.
    fn begin(&self, place: Place) -> bool {
        self.lock().fetching.insert(place)
    }

    /// What was read from a place, if it was.
    fn keep(&self, place: Place, read: Option<([u32; CLUSTER_BLOCKS], &Data)>) {
        let read = read.map(|(crcs, data)| {
            let mut bytes = vec![0; CLUSTER_BYTES];
            data.copy_to(0, &mut bytes);
            Kept { crcs, bytes }
        });
        let state = &mut *self.lock();
        let is_current = state.fetching.remove(&place);
        let Some(Kept { crcs, bytes }) = read.filter(|_| is_current) else { return };
        if state.kept.insert(place, Arc::new(Kept { crcs, bytes })).is_none() {
            state.order.push_back(place);
        }
        while state.order.len() > CLUSTERS_MAX {
            let oldest = state.order.pop_front().expect("it is longer than that");
            state.kept.remove(&oldest);
        }
    }

    /// Notes a read; the clusters to be fetched, if it continues a stream.
    fn note(&self, of: Of, first: u64, count: u64, ahead: u64) -> Option<std::ops::Range<u64>> {
        let state = &mut *self.lock();
        let known = state.streams.iter().position(|s| s.of == of && s.next == first);
        let mut stream = match known {
            Some(index) => state.streams.remove(index).expect("just found"),
            None => Stream { of, next: first, run: 0, fetched: 0 },
        };
        stream.next = first + count;
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
        let ahead = (ahead_bytes / cluster).min(CLUSTERS_MAX as u64 / 4);
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
            if self.ahead.find(*place, 0, &crcs[..1]).is_some() || !self.ahead.begin(*place) {
                return Ok(None);
            }
            // Begun in the moment in which the map says so: whoever changes the place comes later.
            let crcs: [u32; CLUSTER_BLOCKS] = crcs[..].try_into().expect("a whole cluster");
            Ok(Some((*place, crcs, Arc::clone(state.pages.readers()))))
        });
        let Ok(Some((place, crcs, _readers))) = planned.await else { return };
        let read = self.read_place(place, 0, &crcs).await.ok();
        self.ahead.keep(place, read.as_ref().map(|good| (crcs, &good.data)));
        self.queue_heals(read.map(|good| good.heals).unwrap_or_default());
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

    #[test]
    fn what_was_changed_is_not_found() {
        let ahead = Ahead::default();
        let place = Place::new(SetId(1), 3);
        let mut buf = Buf::zeroed(CLUSTER_BYTES).unwrap();
        buf[BLOCK_BYTES] = 7;
        let crcs: [u32; CLUSTER_BLOCKS] = std::array::from_fn(|block| block as u32);
        assert!(ahead.begin(place));
        ahead.keep(place, Some((crcs, &buf.freeze())));
        let found = ahead.find(place, 1, &[1, 2]).unwrap();
        assert_eq!((found.len(), found.as_slice().unwrap()[0]), (2 * BLOCK_BYTES, 7));
        assert!(ahead.find(place, 1, &[1, 3]).is_none());
        assert!(ahead.find(Place::new(SetId(1), 4), 1, &[1]).is_none());
    }

    fn place(slot: u32) -> Place {
        Place::new(SetId(1), slot)
    }

    fn cluster(byte: u8) -> Data {
        let mut buf = Buf::alloc(CLUSTER_BYTES).unwrap();
        buf.fill(byte);
        buf.freeze()
    }

    const CRCS: [u32; CLUSTER_BLOCKS] = [7; CLUSTER_BLOCKS];

    #[test]
    fn a_write_ends_what_is_kept_of_its_place_although_the_checksums_are_the_same() {
        let ahead = Ahead::default();
        for slot in [1, 2] {
            assert!(ahead.begin(place(slot)));
            ahead.keep(place(slot), Some((CRCS, &cluster(1))));
        }
        assert!(ahead.find(place(1), 3, &CRCS[..2]).is_some());
        ahead.end([place(1)].into_iter());
        assert!(ahead.find(place(1), 3, &CRCS[..2]).is_none());
        assert!(ahead.find(place(2), 3, &CRCS[..2]).is_some(), "others stay");
        assert!(ahead.find(place(2), 3, &[8]).is_none(), "other checksums");
    }

    #[test]
    fn what_was_read_beside_a_write_is_not_kept() {
        let ahead = Ahead::default();
        assert!(ahead.begin(place(1)));
        assert!(!ahead.begin(place(1)), "one reads it already");
        ahead.end([place(1)].into_iter());
        ahead.keep(place(1), Some((CRCS, &cluster(1))));
        assert!(ahead.find(place(1), 0, &CRCS[..1]).is_none());
        assert!(ahead.begin(place(1)));
        ahead.keep(place(1), None);
        assert!(ahead.begin(place(1)), "a read that failed is over too");
    }

    #[test]
    fn the_oldest_go_first_and_each_place_stands_in_the_order_once() {
        let ahead = Ahead::default();
        for round in 0..3 {
            for slot in 0..CLUSTERS_MAX as u32 + 2 {
                ahead.begin(place(slot));
                ahead.keep(place(slot), Some((CRCS, &cluster(round))));
            }
            ahead.end([place(5)].into_iter());
            let state = ahead.lock();
            assert!(state.kept.len() < CLUSTERS_MAX && state.order.len() == state.kept.len());
        }
        assert!(ahead.find(place(0), 0, &CRCS[..1]).is_none());
    }
}

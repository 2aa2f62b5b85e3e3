//! Read-ahead: a host that reads on and on finds the next clusters in memory.
//!
//! What is kept is named by its place and checksums, as the map has them. So it cannot be stale: a
//! cluster that was changed has other checksums, one that was moved another place.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex};

use futures_util::future::join_all;
use ring::{Buf, Data};

use super::plan::{Of, Source, plan};
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

    fn keep(&self, place: Place, crcs: [u32; CLUSTER_BLOCKS], data: &Data) {
        let mut bytes = vec![0; CLUSTER_BYTES];
        data.copy_to(0, &mut bytes);
        let state = &mut *self.lock();
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
            Ok((found, Arc::clone(&state.readers)))
        });
        let Ok((found, _readers)) = planned.await else { return };
        let [piece] = &found[..] else { return };
        if let Source::Disk { place, crcs, .. } = &piece.source
            && self.ahead.find(*place, 0, &crcs[..1]).is_none()
            && let Ok(good) = self.read_place(*place, 0, crcs).await
        {
            let all = crcs[..].try_into().expect("a whole cluster");
            self.ahead.keep(*place, all, &good.data);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::VersionId;

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
        let place = Place::new(crate::SetId(1), 3);
        let mut buf = Buf::zeroed(CLUSTER_BYTES).unwrap();
        buf[BLOCK_BYTES] = 7;
        let crcs: [u32; CLUSTER_BLOCKS] = std::array::from_fn(|block| block as u32);
        ahead.keep(place, crcs, &buf.freeze());
        let found = ahead.find(place, 1, &[1, 2]).unwrap();
        assert_eq!((found.len(), found.as_slice().unwrap()[0]), (2 * BLOCK_BYTES, 7));
        assert!(ahead.find(place, 1, &[1, 3]).is_none());
        assert!(ahead.find(Place::new(crate::SetId(1), 4), 1, &[1]).is_none());
    }
}

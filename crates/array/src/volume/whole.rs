//! Large writes: clusters that are replaced as a whole go to new space at once, and the journal
//! gets only the news of it.

use std::sync::Arc;

use block::{BlockError, IoFuture, WriteFlags};
use futures_util::future::join_all;
use ring::Data;

use super::Device;
use super::plan::Of;
use super::write::{Change, RECORD_BLOCKS_MAX, Wait, Waited};
use crate::cache::{self, Blocks, Generation, Origin};
use crate::core::{Core, State, until_done};
use crate::journal::{Placed as Moved, Record, Ticket};
use crate::mutants::{self, Mutant};
use crate::overlay::{Base, Room};
use crate::raid::WriteError;
use crate::sync::Reply;
use crate::{BLOCK_BYTES, CLUSTER_BLOCKS, CLUSTER_BYTES, Place, SetId, VersionId};

/// Clusters that one request has on their way at the same time.
const CLUSTERS_MAX: usize = 64;

/// Whole clusters with their new place.
struct Placed {
    cluster: u64,
    place: Place,
    data: Data,
}

/// Columns of a stripe of a set.
type Stripe = (SetId, u32, Vec<(usize, Data)>);

impl Device {
    pub(super) fn write_large(
        &self,
        volume: VersionId,
        first: u64,
        data: Data,
        durable: bool,
    ) -> IoFuture<()> {
        // A task of its own: dropped half-way, it would leave writes under way to space that
        // counts as free.
        let reply = Reply::new();
        let (core, sender) = (Arc::clone(&self.core), reply.clone());
        self.core.env.spawn(Box::pin(async move {
            sender.give(core.write_large(volume, first, data, durable).await);
        }));
        IoFuture::boxed(reply.taken())
    }
}

impl Core {
    /// Writes blocks from block `first` on: whole clusters directly, what is left at the ends
    /// through the journal.
    async fn write_large(
        self: &Arc<Self>,
        volume: VersionId,
        first: u64,
        data: Data,
        durable: bool,
    ) -> Result<(), BlockError> {
        let data = match data.as_slice() {
            Some(_) => data,
            None => data.to_buf().ok_or(BlockError::NoMemory)?.freeze(),
        };
        let end = first + (data.len() / BLOCK_BYTES) as u64;
        let per = CLUSTER_BLOCKS as u64;
        let whole = (first.next_multiple_of(per), end / per * per);
        let mut tickets = Vec::new();
        if whole.0 >= whole.1 {
            return self.write_small(volume, first, data, durable).await;
        }
        let cut = |from: u64, to: u64| {
            let at = |block: u64| (block - first) as usize * BLOCK_BYTES;
            data.slice(at(from)..at(to))
        };
        let parts = async {
            if first < whole.0 {
                tickets.push(self.change(volume, first, Change::Write(cut(first, whole.0))).await?);
            }
            if whole.1 < end {
                tickets.push(self.change(volume, whole.1, Change::Write(cut(whole.1, end))).await?);
            }
            let mut at = whole.0;
            while at < whole.1 {
                let to = whole.1.min(at + CLUSTERS_MAX as u64 * per);
                self.write_clusters(volume, at / per, cut(at, to), &mut tickets).await?;
                at = to;
            }
            Ok(())
        };
        let done = parts.await;
        // Also when some of it failed: what readers see of the rest from here on must stay.
        let answered = tickets.into_iter().map(|ticket| self.journal.answered(ticket, durable));
        let answered: Result<(), BlockError> = join_all(answered).await.into_iter().collect();
        done.and(answered)
    }

    /// All of it through the journal.
    async fn write_small(
        self: &Arc<Self>,
        volume: VersionId,
        first: u64,
        data: Data,
        durable: bool,
    ) -> Result<(), BlockError> {
        let mut ticket = None;
        for (index, from) in (0..data.len()).step_by(RECORD_BLOCKS_MAX * BLOCK_BYTES).enumerate() {
            let to = data.len().min(from + RECORD_BLOCKS_MAX * BLOCK_BYTES);
            let at = first + (index * RECORD_BLOCKS_MAX) as u64;
            ticket = Some(self.change(volume, at, Change::Write(data.slice(from..to))).await?);
        }
        match ticket {
            Some(ticket) => self.journal.answered(ticket, durable).await,
            None => Ok(()),
        }
    }

    /// Writes whole clusters. Those of zeroes give their space back; those that fill no stripe of
    /// a parity set go through the journal, to be destaged together with others.
    async fn write_clusters(
        self: &Arc<Self>,
        volume: VersionId,
        first: u64,
        data: Data,
        tickets: &mut Vec<Ticket>,
    ) -> Result<(), BlockError> {
        let mut clusters = Vec::new();
        for (index, from) in (0..data.len()).step_by(CLUSTER_BYTES).enumerate() {
            let cluster = first + index as u64;
            let data = data.slice(from..from + CLUSTER_BYTES);
            if data.as_slice().is_some_and(is_zero) {
                let block = cluster * CLUSTER_BLOCKS as u64;
                let zeroed = self.change_counted(volume, block, CLUSTER_BLOCKS, &Change::Zero);
                tickets.push(zeroed.await?);
            } else {
                clusters.push((cluster, data));
            }
        }
        let (placed, left) = self.find_places(volume, clusters)?;
        if !placed.is_empty() {
            tickets.push(self.write_placed(volume, placed).await?);
        }
        for (cluster, data) in left {
            let block = cluster * CLUSTER_BLOCKS as u64;
            tickets.push(self.change(volume, block, Change::Write(data)).await?);
        }
        Ok(())
    }

    /// New places for as many of these as can be written directly.
    #[allow(clippy::type_complexity)]
    fn find_places(
        &self,
        volume: VersionId,
        mut clusters: Vec<(u64, Data)>,
    ) -> Result<(Vec<Placed>, Vec<(u64, Data)>), BlockError> {
        let state = &mut *self.lock();
        state.check_changeable(volume)?;
        let level = state.tables.volumes[&volume].level;
        let mut placed = Vec::new();
        if level.parity() == 0 {
            if !self.reserve(state, level, clusters.len() as u64) {
                return Ok((placed, clusters));
            }
            let count = clusters.len();
            // What was set aside is there: it cannot fail.
            if let Ok(places) = self.take_places(state, level, count, count) {
                let pairs = clusters.drain(..).zip(places);
                placed.extend(pairs.map(|((cluster, data), place)| Placed {
                    cluster,
                    place,
                    data,
                }));
            }
            return Ok((placed, clusters));
        }
        let mut rest = clusters.into_iter().peekable();
        while rest.peek().is_some() {
            let Some(places) = self.take_stripe(state, level, rest.len()) else { break };
            let pairs = places.into_iter().zip(rest.by_ref());
            placed.extend(pairs.map(|(place, (cluster, data))| Placed { cluster, place, data }));
        }
        Ok((placed, rest.collect()))
    }

    /// Writes clusters durably to new places, then makes them what the volume holds.
    async fn write_placed(
        self: &Arc<Self>,
        volume: VersionId,
        placed: Vec<Placed>,
    ) -> Result<Ticket, BlockError> {
        self.cache.end(placed.iter().map(|placed| (placed.place, cache::WHOLE)));
        let generation = |placed: &Placed| self.cache.generation(placed.place);
        let generations: Vec<_> = placed.iter().map(generation).collect();
        if let Err(error) = self.write_data(&placed).await {
            let places = placed.iter().map(|placed| placed.place);
            self.lock().abandoned.extend(places);
            tracing::warn!("{} clusters could not be written: {error}", placed.len());
            return Err(BlockError::Medium { at: placed[0].cluster * CLUSTER_BYTES as u64 });
        }
        let moved: Vec<Moved> = placed
            .iter()
            .map(|placed| Moved {
                volume,
                cluster: placed.cluster,
                place: placed.place,
                crcs: crate::engine::crcs_of(placed.place, &placed.data),
            })
            .collect();
        let record = Record::Map { clusters: moved };
        let first = placed[0].cluster * CLUSTER_BLOCKS as u64;
        let mut waits = Waited::default();
        loop {
            match self.try_map(volume, &record) {
                Ok(ticket) => {
                    self.keep_placed(volume, (&record, &placed), &generations);
                    return Ok(ticket);
                }
                Err(wait) => {
                    let waited = self.wait(wait, first, &mut waits).await;
                    waited.inspect_err(|_| {
                        let places = placed.iter().map(|placed| placed.place);
                        self.lock().abandoned.extend(places);
                    })?;
                }
            }
        }
    }

    /// Keeps clusters that were written in memory.
    fn keep_placed(
        &self,
        volume: VersionId,
        (record, placed): (&Record, &[Placed]),
        generations: &[Generation],
    ) {
        let Record::Map { clusters } = record else { unreachable!("only maps come here") };
        if !self.cache.keeps(volume) {
            return;
        }
        for ((moved, placed), generation) in clusters.iter().zip(placed).zip(generations) {
            let blocks = Blocks { place: moved.place, first: 0, crcs: &moved.crcs };
            self.cache.keep(blocks, &placed.data, (*generation, Origin::Nobody));
        }
    }

    /// Writes to new space. The disks may take it in any order; one flush of each, shared with
    /// others who write, makes it durable.
    async fn write_data(self: &Arc<Self>, placed: &[Placed]) -> Result<(), WriteError> {
        let located = placed.iter().map(|Placed { place, .. }| {
            let (stripe, _) = self.sets.get(place.set()).shape().locate(place.slot());
            (place.set(), stripe)
        });
        let mut stripes: Vec<_> = located.collect();
        stripes.sort_unstable();
        stripes.dedup();
        let _held = self.touched.hold(stripes.clone());
        self.write_stripes(placed).await?;
        if !mutants::is(Mutant::EarlyMap) {
            let mut sets: Vec<_> = stripes.iter().map(|(set, _)| self.sets.get(*set)).collect();
            sets.dedup_by_key(|set| set.id());
            self.raid.flush_sets(&sets).await;
        }
        // A disk whose flush failed has lost it.
        let is_there = |(set, stripe): &(SetId, u32)| {
            let set = self.sets.get(*set);
            self.raid.is_readable(&set, *stripe)
        };
        if stripes.iter().all(is_there) { Ok(()) } else { Err(WriteError::Lost) }
    }

    async fn write_stripes(self: &Arc<Self>, placed: &[Placed]) -> Result<(), WriteError> {
        let flags = WriteFlags::VOLATILE;
        let shape_of = |place: &Place| self.sets.get(place.set()).shape();
        if shape_of(&placed[0].place).parity() == 0 {
            let writes = placed
                .iter()
                .map(|placed| self.write_place(placed.place, 0, placed.data.clone(), flags));
            return join_all(writes).await.into_iter().collect();
        }
        let mut stripes: Vec<Stripe> = Vec::new();
        for Placed { place, data, .. } in placed {
            let (stripe, column) = shape_of(place).locate(place.slot());
            match stripes.last_mut() {
                Some((set, last, columns)) if *set == place.set() && *last == stripe => {
                    columns.push((column, data.clone()));
                }
                _ => stripes.push((place.set(), stripe, vec![(column, data.clone())])),
            }
        }
        let writes = stripes.into_iter().map(|(set, stripe, columns)| async move {
            let set = self.sets.get(set);
            until_done(|| self.raid.write_fresh(&set, stripe, &columns, flags), self).await
        });
        join_all(writes).await.into_iter().collect()
    }

    fn try_map(&self, volume: VersionId, record: &Record) -> Result<Ticket, Wait> {
        let Record::Map { clusters } = record else { unreachable!("only maps come here") };
        let state = &mut *self.lock();
        state.check_changeable(volume).map_err(Wait::Never)?;
        let locked = &state.live[&volume].locked;
        if clusters.iter().any(|moved| locked.contains(&moved.cluster)) {
            return Err(Wait::Unlock);
        }
        let added = self.append(state, volume, record, None)?;
        for moved in clusters {
            state.enter_moved(moved);
        }
        self.look_for_work(state, added.used_blocks);
        Ok(added.ticket)
    }
}

impl State {
    /// A cluster that was written whole to new space is what the volume holds.
    pub(crate) fn enter_moved(&mut self, moved: &Moved) {
        let live = self.live.get_mut(&moved.volume).expect("a volume in use is live");
        let patch = live.overlay.open().patch_mut(moved.cluster);
        let room = std::mem::replace(&mut patch.room, Room::InPlace);
        let before = std::mem::take(&mut patch.base);
        patch.rebase(Base::At(moved.place, Box::new(moved.crcs)));
        if let Base::At(place, _) = before {
            self.replaced.push(place);
        }
        self.moved += 1;
        self.give_back(moved.volume, room);
    }

    /// Whether this volume may be changed now.
    pub(super) fn check_changeable(&self, volume: VersionId) -> Result<(), BlockError> {
        self.check_served(Of::Head(volume))?;
        match self.live[&volume].is_sealed {
            true => Err(BlockError::Busy),
            false => Ok(()),
        }
    }
}

fn is_zero(bytes: &[u8]) -> bool {
    // The first bytes tell almost always; then whole words.
    bytes[..64].iter().all(|byte| *byte == 0) && bytes.chunks_exact(64).all(|c| *c == [0; 64])
}

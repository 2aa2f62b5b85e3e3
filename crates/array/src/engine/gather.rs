//! Where destaged clusters go: copies and single disks in place, parity in whole stripes as far as
//! possible.

use std::collections::BTreeMap;

use block::WriteFlags;
use futures_util::future::join_all;
use ring::Data;
use smallvec::SmallVec;

use super::Checkpoint;
use super::destage::Target;
use super::merge::{Fresh, InPlace, Written};
use crate::cache::{BlockCache, Blocks, Generation, Origin, blocks_mask};
use crate::core::{Knowledge, State, Stripe, until_done};
use crate::error::ArrayError;
use crate::mutants::{self, Mutant};
use crate::raid::{Change, WriteError};
use crate::tree::leaf::Entry;
use crate::{CLUSTER_BLOCKS, Place, VersionId};

/// Blocks on their way to a place.
struct Put {
    place: Place,
    first: usize,
    data: Data,
    /// Checksums of what lies there, where a map knows them.
    old: Option<[u32; CLUSTER_BLOCKS]>,
    /// Those of a whole cluster that is new there.
    new: Option<[u32; CLUSTER_BLOCKS]>,
    /// Those of what is written here, if it may be read from memory when it is in its place.
    readable: Option<SmallVec<[u32; 2]>>,
}

/// Blocks that were written, for those who read them again.
struct Kept {
    place: Place,
    first: usize,
    crcs: SmallVec<[u32; 2]>,
    data: Data,
    generation: Generation,
}

impl Kept {
    /// Of what is about to be written, when what was known of the place has ended.
    fn of(put: &Put, cache: &BlockCache) -> Option<Self> {
        let (place, first, data) = (put.place, put.first, put.data.clone());
        let crcs = put.readable.clone()?;
        Some(Self { place, first, crcs, data, generation: cache.generation(place) })
    }

    fn keep(&self, cache: &BlockCache) {
        let blocks = Blocks { place: self.place, first: self.first, crcs: &self.crcs };
        cache.keep(blocks, &self.data, (self.generation, Origin::Nobody));
    }
}

/// Columns, and the checksums of what is in them.
type Columns = Vec<(usize, [u32; CLUSTER_BLOCKS])>;

/// What is written to one stripe.
#[derive(Default)]
pub(super) struct Writes {
    pub(super) changes: Vec<Change>,
    /// Checksums of what columns hold now.
    old: Columns,
    /// Clusters among them that are new there, with their checksums.
    fresh: Columns,
}

impl Writes {
    /// The checksum of a block that changes, as it is now.
    pub(super) fn old_crc(&self, column: usize, block: usize) -> Option<u32> {
        self.old.iter().find(|(other, _)| *other == column).map(|(_, crcs)| crcs[block])
    }
}

impl Checkpoint {
    /// Whether a column of a stripe has something that no map and no journal knows yet, since whoever writes
    /// whole clusters there is about to say so: until then nobody can tell whether a disk holds it rightly,
    /// and the parity that there is may be all that gives it.
    pub(super) fn has_unknown(
        &self,
        (id, stripe): Stripe,
        writes: &Writes,
        known: &Knowledge,
    ) -> bool {
        let set = self.core.sets.get(id);
        let state = self.core.lock();
        let slots = state.space.pool.slots(id).filter(|_| !mutants::is(Mutant::BlindAnew));
        let Some(slots) = slots else { return false };
        let is_known = |column: usize| {
            known.columns(id, stripe).iter().any(|(other, _)| *other == column)
                || writes.changes.iter().any(|change| change.column == column)
                || state.redone.contains_key(&(id, stripe, column))
        };
        let covered = set.written(stripe);
        (0..set.shape().columns()).any(|column| {
            let slot = set.shape().slot(stripe, column);
            let place = Place::new(id, slot);
            // What is in no map any more is nobody's, and free before long.
            let is_over = || {
                let mut limbo = state.limbo.iter();
                state.abandoned.contains(&place)
                    || state.replaced.contains(&place)
                    || self.freed.contains(&place)
                    || limbo.any(|limbo| limbo.places.contains(&place))
            };
            covered >> column & 1 == 1 && slots.is_used(slot) && !is_known(column) && !is_over()
        })
    }

    /// Writes clusters to new places and changed blocks to old ones.
    pub(super) async fn place(
        &mut self,
        target: &Target,
        fresh: Vec<Fresh>,
        in_place: Vec<InPlace>,
        reserved: usize,
    ) -> Result<Vec<Written>, ArrayError> {
        let places = self.take(target, fresh.len(), reserved)?;
        let mut written = Vec::with_capacity(fresh.len() + in_place.len());
        let mut writes: Vec<Put> = Vec::new();
        for (fresh, place) in fresh.into_iter().zip(places) {
            let (birth, crcs) = (target.draft.epoch(), fresh.crcs_at(place));
            let readable = fresh.is_sound().then(|| SmallVec::from_slice(&crcs));
            written.push(fresh.work.written(Some(Entry { place, birth, crcs })));
            let (first, data) = (0, fresh.data);
            writes.push(Put { place, first, data, old: None, new: Some(crcs), readable });
        }
        for InPlace { work, entry, runs } in in_place {
            written.push(work.written(Some(entry)));
            let old = work.base.map(|base| base.crcs);
            writes.extend(runs.into_iter().map(|run| Put {
                place: entry.place,
                first: run.first,
                readable: Some(SmallVec::from_slice(run.crcs_in(&entry))),
                data: run.data,
                old,
                new: None,
            }));
        }
        let kept = self.end_cached(target.volume, &writes);
        let stripes = writes.iter().map(|put| self.core.stripe_of(put.place));
        let stripes: Vec<Stripe> = stripes.collect();
        if target.level.parity() == 0 {
            self.write_copies(writes).await?;
        } else {
            self.write_stripes(writes).await?;
        }
        kept.iter().for_each(|kept| kept.keep(&self.core.cache));
        self.written.extend(stripes);
        Ok(written)
    }

    /// What is known in memory of blocks that are about to be written ends; what is to be known of them
    /// when they are.
    fn end_cached(&self, volume: VersionId, writes: &[Put]) -> Vec<Kept> {
        let cache = &self.core.cache;
        cache.end(writes.iter().map(|put| (put.place, blocks_mask(put.first, put.data.len()))));
        if !cache.keeps(volume) {
            return Vec::new();
        }
        writes.iter().filter_map(|put| Kept::of(put, cache)).collect()
    }

    /// New places; what was reserved and is not needed is free again.
    fn take(
        &mut self,
        target: &Target,
        count: usize,
        reserved: usize,
    ) -> Result<Vec<Place>, ArrayError> {
        let state = &mut *self.core.lock();
        debug_assert!(count <= reserved, "every change has set aside what it needs");
        let places = self.core.take_places(state, target.level, count, reserved)?;
        state.space.unreserve(target.level, reserved.saturating_sub(count) as u64);
        self.paid += reserved as u64;
        self.gained.extend(&places);
        Ok(places)
    }

    async fn write_copies(&self, writes: Vec<Put>) -> Result<(), ArrayError> {
        let core = &self.core;
        core.touch(writes.iter().map(|put| put.place));
        let writes = writes.into_iter().map(|Put { place, first, data, .. }| async move {
            core.write_place(place, first, data, WriteFlags::VOLATILE).await
        });
        all_done(writes).await
    }

    /// Writes to parity sets.
    async fn write_stripes(&mut self, writes: Vec<Put>) -> Result<(), ArrayError> {
        let mut stripes: BTreeMap<Stripe, Writes> = BTreeMap::new();
        for Put { place, first: first_block, data, old, new, .. } in writes {
            let (stripe, column) = self.core.sets.get(place.set()).shape().locate(place.slot());
            let entry = stripes.entry((place.set(), stripe)).or_default();
            entry.changes.push(Change { column, first_block, data });
            entry.old.extend(old.map(|crcs| (column, crcs)));
            entry.fresh.extend(new.map(|crcs| (column, crcs)));
        }
        let mut updates = Vec::new();
        let mut whole = Vec::new();
        for (stripe, writes) in stripes {
            let list = if self.core.lock().begins_anew(stripe, writes.fresh.len()) {
                &mut whole
            } else {
                &mut updates
            };
            list.push((stripe, writes));
        }
        let core = &self.core;
        core.touch_stripes(whole.iter().map(|(stripe, _)| *stripe));
        let fresh = |(stripe, writes): &(Stripe, Writes)| (*stripe, writes.fresh.clone());
        let fresh: Vec<_> = whole.iter().map(fresh).collect();
        let whole = whole.into_iter().map(|((set, stripe), writes)| async move {
            let set = core.sets.get(set);
            let columns: Vec<(usize, Data)> =
                writes.changes.into_iter().map(|change| (change.column, change.data)).collect();
            let flags = WriteFlags::VOLATILE;
            until_done(|| core.raid.write_fresh(&set, stripe, &columns, flags), core).await
        });
        all_done(whole).await?;
        core.lock().note_fresh(fresh);
        self.update_stripes(updates).await
    }
}

impl State {
    /// Whoever looks at these stripes again in this checkpoint must know what they hold: no map says so yet.
    fn note_fresh(&mut self, stripes: Vec<(Stripe, Columns)>) {
        if mutants::is(Mutant::KeepRedone) {
            return;
        }
        for ((set, stripe), columns) in stripes {
            let of = |(column, crcs): (usize, [u32; CLUSTER_BLOCKS])| {
                ((set, stripe, column), crcs.map(Some))
            };
            self.redone.extend(columns.into_iter().map(of));
        }
    }

    /// Whether nothing but `fresh` new clusters lies in a stripe, so that nothing can be lost when it is
    /// written as if it were new. What a checkpoint that did not end has put there is gone then.
    fn begins_anew(&mut self, stripe: Stripe, fresh: usize) -> bool {
        let slots = self.space.pool.slots(stripe.0).expect("places lie in sets");
        let is_empty = slots.is_opened(stripe.1) && slots.taken_in(stripe.1) as usize == fresh;
        if is_empty && !mutants::is(Mutant::KeepRedone) {
            let all = (stripe.0, stripe.1, 0)..=(stripe.0, stripe.1, usize::MAX);
            let gone: Vec<_> = self.redone.range(all).map(|(key, _)| *key).collect();
            gone.iter().for_each(|key| _ = self.redone.remove(key));
        }
        is_empty
    }
}

/// Waits for the end of all writes, also after one has failed: a write that nobody waits for any
/// more could reach its place when that holds something else.
pub(super) async fn all_done<F>(writes: impl Iterator<Item = F>) -> Result<(), ArrayError>
where
    F: Future<Output = Result<(), WriteError>>,
{
    let done: Result<(), WriteError> = join_all(writes).await.into_iter().collect();
    Ok(done?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Level;
    use crate::testing::arrays::{filled, on_a_core, set_of};

    #[test]
    fn a_column_that_no_map_tells_of_is_unknown_until_it_is_written_here() {
        on_a_core(async {
            let (array, _volume) = filled(Level::Raid5, 3).await;
            let core = &array.core;
            let set = set_of(core, Some(Level::Raid5));
            let shapes = [(set.id(), set.shape())].into_iter().collect();
            let known = core.knowledge(shapes, &|_, _| true).await.unwrap();
            let (stripe, columns) = known.stripes.first_key_value().expect("something is written");
            let checkpoint = core.freeze();
            let (nothing, none) = (Knowledge::default(), Writes::default());
            assert!(!checkpoint.has_unknown(*stripe, &none, &known));
            assert!(checkpoint.has_unknown(*stripe, &none, &nothing));
            let fresh = columns.iter().map(|(column, _)| (*column, [7; CLUSTER_BLOCKS])).collect();
            core.lock().note_fresh(vec![(*stripe, fresh)]);
            assert!(
                !checkpoint.has_unknown(*stripe, &none, &nothing),
                "this checkpoint put it there"
            );
        });
    }
}

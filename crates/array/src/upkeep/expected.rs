//! What the blocks of a stripe must be, for whoever copies or repairs them.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use super::refresh::Run;
use crate::core::{Core, Knowledge, Layer, Shapes};
use crate::mutants::{self, Mutant};
use crate::raid::Set;
use crate::{Place, SetId};

/// What was looked up of a stripe since the maps were walked, by column and row: checksums, and `None`
/// for what the journal has and cannot put in its place before the stripe is well.
pub(super) type Newer = HashMap<(usize, usize), Option<u32>>;

impl Core {
    /// What lives in these stripes, which are all of metadata or all of data.
    pub(super) async fn know_work(self: &Arc<Self>, work: &[Run]) -> Option<Knowledge> {
        let stripes_of = |(set, run): &Run| {
            let id = set.id();
            run.clone().map(move |stripe| (id, stripe))
        };
        let wanted: HashSet<(SetId, u32)> = work.iter().flat_map(stripes_of).collect();
        let is_wanted = |set, stripe| wanted.contains(&(set, stripe));
        let shapes: Shapes = work.iter().map(|(set, _)| (set.id(), set.shape())).collect();
        let witness = self.touched.watch(wanted.clone());
        let known = if work.iter().all(|(set, _)| set.level().is_some()) {
            self.passing_knowledge(shapes, &is_wanted, witness).await
        } else {
            self.knowledge(shapes, &is_wanted).await.map(|known| known.beside(witness))
        };
        known.inspect_err(|error| tracing::error!("what to restore is not known: {error}")).ok()
    }

    /// Looks up what these blocks of a stripe must be now. Whether that is as before; `None` when it
    /// cannot be said.
    pub(super) async fn look_anew(
        self: &Arc<Self>,
        set: &Set,
        stripe: u32,
        (known, layer): (&Knowledge, Layer),
        (blocks, newer): (Vec<(usize, usize)>, &mut Newer),
    ) -> Option<bool> {
        let mut are_as_before = true;
        for (column, row) in blocks {
            let crc = self.expected_in(layer, set, (stripe, column), row, known).await;
            let is_nobodys = || {
                self.is_left_to_journal(set, (stripe, column), row, known)
                    || set.level().is_some() && !self.is_taken(set, stripe, column)
            };
            if crc.is_none() && !is_nobodys() {
                return None;
            }
            let before = newer.insert((column, row), crc);
            let before = before.unwrap_or_else(|| known.crc(set, stripe, column, row));
            are_as_before &= before == crc || crc.is_none() && mutants::is(Mutant::HastySure);
        }
        Some(are_as_before)
    }

    /// Whether something came into a stripe since the maps were walked that is somebody's and not known.
    /// What only a snapshot has that was taken during the walk is not, and copies of it are not all as good.
    pub(super) fn has_unknown(
        &self,
        set: &Set,
        stripe: u32,
        known: &Knowledge,
        changed: bool,
    ) -> bool {
        if set.level().is_none() {
            // Pages that are new are not known.
            return changed;
        }
        let state = self.lock();
        let Some(slots) = state.space.pool.slots(set.id()) else { return false };
        (0..set.shape().columns()).any(|column| {
            let slot = set.shape().slot(stripe, column);
            slots.is_used(slot)
                && !state.abandoned.contains(&Place::new(set.id(), slot))
                && known.column(set, stripe, column).is_none()
        })
    }

    /// Whether a cluster of a stripe is somebody's, or was and is being read still.
    pub(super) fn is_taken(&self, set: &Set, stripe: u32, column: usize) -> bool {
        let state = self.lock();
        let slots = state.space.pool.slots(set.id());
        slots.is_some_and(|slots| slots.is_used(set.shape().slot(stripe, column)))
    }

    /// What a block must be now; `None` when that cannot be said: something else lives there by
    /// now, or the journal is about to overwrite it.
    pub(super) async fn expected(
        &self,
        set: &Set,
        (stripe, column): (u32, usize),
        row: usize,
        known: &Knowledge,
    ) -> Option<u32> {
        self.expected_in(Layer::Newest, set, (stripe, column), row, known).await
    }

    async fn expected_in(
        &self,
        layer: Layer,
        set: &Set,
        (stripe, column): (u32, usize),
        row: usize,
        known: &Knowledge,
    ) -> Option<u32> {
        if set.level().is_none() {
            // Pages do not change where they lie, and are kept as long as they are known.
            return known.crc(set, stripe, column, row);
        }
        let owner = known.column(set, stripe, column)?;
        let place = Place::new(set.id(), set.shape().slot(stripe, column));
        self.look_up(place, owner, row, layer).await.ok().flatten()
    }

    /// Whether a block is of volumes that are lost, and in the journal or by now elsewhere: nobody
    /// needs what is in its place, and until the stripe is well no checkpoint can say so.
    pub(super) fn is_left_to_journal(
        &self,
        set: &Set,
        (stripe, column): (u32, usize),
        row: usize,
        known: &Knowledge,
    ) -> bool {
        if set.level().is_none() {
            return false;
        }
        let Some(owner) = known.column(set, stripe, column) else { return false };
        let here = Place::new(set.id(), set.shape().slot(stripe, column));
        self.lock().is_left(owner, here, row)
    }
}

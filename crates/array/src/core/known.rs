//! What stripes must hold, by the maps: the checksums of all that lives in them.
//!
//! Maps lead from volumes to places; whoever copies, proves or repairs a stripe needs the way back.
//! It is found by a walk over all maps, as of the moment when the walk begins. Afterwards a place
//! may get other contents: so a checksum that does not match proves nothing by itself. Either the
//! right contents turn up elsewhere, or [`look_up`](super::Core::look_up) says what holds now. And one
//! that matches proves nothing where a [`Witness`] tells that the stripe was written meanwhile: a disk
//! may have gone back to what was there before.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use smallvec::SmallVec;

use super::layers::Layer;
use super::{Core, Live, Redone, State, Witness};
use crate::error::ArrayError;
use crate::mutants::{self, Mutant};
use crate::overlay::{Base, Patch};
use crate::raid::{Set, Shape};
use crate::tree::{self, Root, Seen, leaf};
use crate::volume::Of;
use crate::{CLUSTER_BLOCKS, Place, SetId, VersionId};

/// Pages that are looked at under one lock.
const STEP_PAGES: usize = 256;

/// Whose a snapshot is that has been deleted, or what a deleted volume left: the first volume is number 1.
const NO_VOLUME: VersionId = VersionId(0);

/// What is to be looked up in: sets, and how they are built.
pub(crate) type Shapes = HashMap<SetId, Shape>;

/// A cluster that some map has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Known {
    pub(crate) crcs: [u32; CLUSTER_BLOCKS],
    /// Blocks that nobody needs where they lie (bit = block), and that may be what was there before or
    /// what a checkpoint has put there.
    pub(crate) left: u16,
    /// Who has it, to look again.
    pub(crate) of: Of,
    pub(crate) cluster: u64,
    /// All volumes that share it with a snapshot or with another volume, and which cluster it is there.
    pub(crate) shared_by: SmallVec<[(VersionId, u64); 1]>,
}

impl Known {
    fn new(crcs: [u32; CLUSTER_BLOCKS], of: Of, cluster: u64) -> Self {
        Self { crcs, left: 0, of, cluster, shared_by: SmallVec::new() }
    }
}

/// What the walk over one map comes by.
pub(crate) enum Met {
    /// A page: its address and checksum.
    Page(u64, u32),
    Cluster(Place, Known),
}

/// What lives in stripes.
#[derive(Debug, Default)]
pub(crate) struct Knowledge {
    /// Clusters by stripe and column.
    pub(crate) stripes: BTreeMap<(SetId, u32), Vec<(usize, Known)>>,
    /// Checksums of pages of maps by set and page.
    pages: HashMap<(SetId, u32), u32>,
    /// As long as somebody reads, pages that are freed are not written over.
    _readers: Option<Arc<()>>,
    /// What is written to these stripes since before the walk.
    witness: Option<Arc<Witness>>,
}

impl Knowledge {
    /// The checksum that a block of a column must have, as far as the walk has seen it.
    pub(crate) fn crc(&self, set: &Set, stripe: u32, column: usize, row: usize) -> Option<u32> {
        if set.level().is_none() {
            let page = stripe * CLUSTER_BLOCKS as u32 + row as u32;
            return self.pages.get(&(set.id(), page)).copied();
        }
        let known = self.column(set, stripe, column)?;
        (known.left >> row & 1 == 0).then(|| known.crcs[row])
    }

    /// The same with a witness of what it tells of, from before the walk.
    pub(crate) fn beside(self, witness: Arc<Witness>) -> Self {
        Self { witness: Some(witness), ..self }
    }

    /// How often a stripe that has a witness was about to be written since the walk began: what is known
    /// of it may be what was there before.
    pub(crate) fn changes(&self, set: &Set, stripe: u32) -> u64 {
        let witness = self.witness.as_ref().filter(|_| !mutants::is(Mutant::OldProof));
        witness.map_or(0, |witness| witness.count((set.id(), stripe)))
    }

    /// What is known of a cluster of a stripe.
    pub(crate) fn column(&self, set: &Set, stripe: u32, column: usize) -> Option<&Known> {
        let mut columns = self.columns(set.id(), stripe).iter();
        columns.find(|(other, _)| *other == column).map(|(_, known)| known)
    }

    /// What is known of the clusters of a stripe.
    pub(crate) fn columns(&self, set: SetId, stripe: u32) -> &[(usize, Known)] {
        self.stripes.get(&(set, stripe)).map_or(&[], Vec::as_slice)
    }

    /// All stripes in which something lives, by set.
    pub(crate) fn all_stripes(&self) -> Vec<(SetId, u32)> {
        let pages = self.pages.keys().map(|(set, page)| (*set, page / CLUSTER_BLOCKS as u32));
        let all: BTreeSet<(SetId, u32)> = self.stripes.keys().copied().chain(pages).collect();
        all.into_iter().collect()
    }

    /// Keeps what a walk came by, if it is in one of these sets, in a stripe that is wanted.
    fn meet(&mut self, met: Met, sets: &Shapes, is_wanted: &dyn Fn(SetId, u32) -> bool) {
        match met {
            Met::Page(raw, crc) => {
                let (set, page) = (SetId((raw >> 32) as u32), raw as u32);
                let stripe = page / CLUSTER_BLOCKS as u32;
                if sets.contains_key(&set) && is_wanted(set, stripe) {
                    self.pages.insert((set, page), crc);
                }
            }
            Met::Cluster(place, one) => {
                if let Some(shape) = sets.get(&place.set()) {
                    let (stripe, column) = shape.locate(place.slot());
                    if is_wanted(place.set(), stripe) {
                        self.keep((place.set(), stripe), column, one);
                    }
                }
            }
        }
    }

    fn keep(&mut self, stripe: (SetId, u32), column: usize, known: Known) {
        let columns = self.stripes.entry(stripe).or_default();
        // Versions that share a cluster agree on its contents.
        match columns.iter_mut().find(|(other, _)| *other == column) {
            None => columns.push((column, known)),
            Some((_, first)) => {
                let sharer = match known.of {
                    Of::Head(volume) => (volume, known.cluster),
                    Of::Snapshot(..) => return,
                };
                if !first.shared_by.contains(&sharer) {
                    first.shared_by.push(sharer);
                }
            }
        }
    }
}

impl State {
    /// A map, and what else sees it: snapshots that wait for a checkpoint still have what was changed
    /// after them.
    fn views(&self, of: Of) -> Vec<Of> {
        let Of::Head(volume) = of else { return vec![of] };
        let live = self.live.get(&volume);
        let waiting = live.into_iter().flat_map(|live| live.overlay.waiting());
        [of].into_iter().chain(waiting.map(|taken| Of::Snapshot(volume, taken.snapshot))).collect()
    }

    /// The root of a map now, and the first leaf that still counts; `None` if it is gone.
    pub(super) fn root_now(&self, of: Of) -> Option<(Root, u32)> {
        match of {
            Of::Head(id) => Some((self.tables.volumes.get(&id)?.head.root, 0)),
            Of::Snapshot(_, id) => {
                let version = self.tables.versions.get(&id)?;
                Some((version.contents.root, version.deleting_from_leaf.unwrap_or(0)))
            }
        }
    }

    /// It is a snapshot that is being deleted, or has been: its volume may write where the two lie.
    fn is_leaving(&self, of: Of) -> bool {
        let Of::Snapshot(_, id) = of else { return false };
        let version = self.tables.versions.get(&id);
        version.is_none_or(|version| version.deleting_from_leaf.is_some())
    }

    /// Whether nobody can ask for a cluster any more: a walk met it in the map of a volume or a snapshot alone
    /// that had been deleted by then, and from which nothing is made. What lies there is given back, whatever
    /// it is: a checkpoint may have changed it that set the volume aside, and then its map is of before.
    pub(crate) fn is_abandoned(&self, known: &Known) -> bool {
        let is_deleted = matches!(known.of, Of::Snapshot(NO_VOLUME, _));
        debug_assert!(!is_deleted || self.is_leaving(known.of), "a deletion is not taken back");
        is_deleted && known.shared_by.is_empty() && !mutants::is(Mutant::BlameAbandoned)
    }

    /// Whether nobody needs what lies in a block of a cluster `here`: all who have it are volumes that are
    /// set aside, and have it in the journal or by now elsewhere.
    pub(crate) fn is_left(&self, known: &Known, here: Place, row: usize) -> bool {
        let Of::Head(volume) = known.of else { return false };
        let shared = known.shared_by.iter().copied();
        let mut sharers = [(volume, known.cluster)].into_iter().chain(shared);
        sharers.all(|(volume, cluster)| {
            let live = self.live.get(&volume);
            live.is_some_and(|live| live.is_aside() && !live.overlay.needs(cluster, row, here))
        })
    }

    /// Its map tells nothing of this cluster any more.
    pub(crate) fn has_passed(&self, of: Of, cluster: u64) -> bool {
        match of {
            Of::Head(_) => false,
            Of::Snapshot(_, id) => self.tables.has_passed(id, leaf::position(cluster).0),
        }
    }
}

impl Core {
    /// All maps there are: whose, the root, and the first leaf that still counts. Snapshots come
    /// first: what they share with a volume they need as it is, also when the volume has changed.
    pub(crate) fn roots(&self) -> Vec<(Of, Root, u32)> {
        let state = self.lock();
        let heads = state.tables.volumes.iter();
        let heads = heads.map(|(id, volume)| (Of::Head(*id), volume.head.root, 0));
        let frozen = state.tables.versions.iter().map(|(id, version)| {
            let volume = version.snapshot.as_ref().map_or(NO_VOLUME, |s| s.volume);
            // What a deletion has passed was given back.
            let from = version.deleting_from_leaf.unwrap_or(0);
            (Of::Snapshot(volume, *id), version.contents.root, from)
        });
        // A volume writes over what only snapshots share that are being deleted.
        let (kept, leaving): (Vec<_>, Vec<_>) =
            frozen.partition(|(of, _, _)| !state.is_leaving(*of));
        kept.into_iter().chain(heads).chain(leaving).collect()
    }

    /// Shows every page and cluster of a map. Whoever calls this keeps its pages from being used again.
    pub(crate) async fn walk(
        &self,
        (of, root, from): (Of, Root, u32),
        show: &mut dyn FnMut(Met),
    ) -> Result<(), ArrayError> {
        let mut next = Some(from);
        while let Some(from) = next {
            next = self.walk_step(of, from, &|_| Some((root, 0)), show).await?;
        }
        Ok(())
    }

    /// The same of a map as it is at each step: nothing is held for longer than one, and of what changes
    /// meanwhile either may be shown, or none.
    async fn walk_now(&self, of: Of, show: &mut dyn FnMut(Met)) -> Result<(), ArrayError> {
        let mut next = Some(0);
        while let Some(from) = next {
            next = self.walk_step(of, from, &|state| state.root_now(of), show).await?;
        }
        Ok(())
    }

    /// Shows what comes from a leaf on in a map, some hundred pages at most, and returns where to go on.
    /// `root` gives its root, and the first leaf that counts; `None`: it is gone.
    async fn walk_step(
        &self,
        of: Of,
        from: u32,
        root: &dyn Fn(&State) -> Option<(Root, u32)>,
        show: &mut dyn FnMut(Met),
    ) -> Result<Option<u32>, ArrayError> {
        let mut met: Vec<Met> = Vec::new();
        let step = self.with_pages(|state| {
            met.clear();
            let Some((root, first)) = root(state) else { return Ok(None) };
            let from = from.max(first);
            tree::visit(&mut state.pages, root, from, STEP_PAGES, |part| match part {
                Seen::Interior(page) => met.push(Met::Page(page.addr.raw(), page.crc)),
                Seen::Leaf { leaf: number, r, page } => {
                    met.push(Met::Page(r.addr.raw(), r.crc));
                    for (i, entry) in leaf::entries(page) {
                        let cluster = leaf::cluster(number, i);
                        let known = Known::new(entry.crcs, of, cluster);
                        met.push(Met::Cluster(entry.place, known));
                    }
                }
            })
        });
        let next = step.await?;
        met.into_iter().for_each(show);
        Ok(next)
    }

    /// Pages of a map as it is now that are not among `done`, from a leaf on, some hundred at most; and
    /// where to go on. They stay where they are as long as they are known: that is to be short, as
    /// nothing that a checkpoint frees comes back meanwhile.
    pub(crate) async fn some_pages(
        &self,
        of: Of,
        from: u32,
        done: &mut HashSet<u64>,
    ) -> Result<(Knowledge, Option<u32>), ArrayError> {
        // From before the root is looked up.
        let readers = Arc::clone(self.lock().pages.readers());
        let mut known = Knowledge { _readers: Some(readers), ..Knowledge::default() };
        let (mut next, mut count) = (Some(from), 0);
        // With a cold cache each step is of one page.
        while let Some(from) = next.filter(|_| count < STEP_PAGES) {
            let show = &mut |met: Met| {
                let Met::Page(raw, crc) = met else { return };
                count += 1;
                if done.insert(raw) {
                    known.pages.insert((SetId((raw >> 32) as u32), raw as u32), crc);
                }
            };
            next = self.walk_step(of, from, &|state| state.root_now(of), show).await?;
        }
        Ok((known, next))
    }

    /// What lives in the stripes of these sets for which `is_wanted` says so.
    pub(crate) async fn knowledge(
        &self,
        shapes: Shapes,
        is_wanted: &dyn Fn(SetId, u32) -> bool,
    ) -> Result<Knowledge, ArrayError> {
        let mut known = Knowledge::default();
        // Pages that are freed from here on are not written over before the walk has ended; those
        // that are asked for not before whoever asks is done.
        let readers = Arc::clone(self.lock().pages.readers());
        let is_metadata = |id: &SetId| self.sets.find(*id).is_some_and(|set| set.level().is_none());
        known._readers = shapes.keys().any(is_metadata).then(|| Arc::clone(&readers));
        self.know_overlays(&shapes, &mut known);
        for map in self.roots() {
            self.walk(map, &mut |met| known.meet(met, &shapes, is_wanted)).await?;
        }
        drop(readers);
        self.know_aside(&shapes, &mut known);
        self.know_redone(&mut known);
        Ok(known)
    }

    /// What lives in the stripes of these sets of data for which `is_wanted` says so, and which `witness`
    /// has watched from before this call, but for those that it has seen being written. The walk may take
    /// hours, and holds nothing. What only a map has that is made meanwhile, of what a volume was until then,
    /// may be missing.
    pub(crate) async fn passing_knowledge(
        &self,
        shapes: Shapes,
        is_wanted: &dyn Fn(SetId, u32) -> bool,
        witness: Arc<Witness>,
    ) -> Result<Knowledge, ArrayError> {
        let mut known = Knowledge::default();
        self.know_overlays(&shapes, &mut known);
        for (of, _, _) in self.roots() {
            self.walk_now(of, &mut |met| known.meet(met, &shapes, is_wanted)).await?;
        }
        self.know_aside(&shapes, &mut known);
        self.know_redone(&mut known);
        Ok(known.beside(witness))
    }

    /// Clusters that were written directly to new space, and that no map has yet.
    fn know_overlays(&self, sets: &Shapes, known: &mut Knowledge) {
        let state = self.lock();
        for (volume, live) in &state.live {
            for (cluster, patch) in live.overlay.patches() {
                let Base::At(place, crcs) = &patch.base else { continue };
                if let Some(shape) = sets.get(&place.set()) {
                    let (stripe, column) = shape.locate(place.slot());
                    let one = Known::new(**crcs, Of::Head(*volume), cluster);
                    known.keep((place.set(), stripe), column, one);
                }
            }
        }
    }

    /// What volumes that are set aside have in the journal: a checkpoint may have put it in place and ended
    /// without it, so that the maps go on to tell of what was there before.
    fn know_aside(&self, sets: &Shapes, known: &mut Knowledge) {
        let state = self.lock();
        if !state.live.values().any(Live::is_aside) || mutants::is(Mutant::OldAside) {
            return;
        }
        for ((set, stripe), columns) in &mut known.stripes {
            let Some(shape) = sets.get(set) else { continue };
            for (column, one) in columns {
                let Of::Head(volume) = one.of else { continue };
                // Most are of others, or of nothing that the journal has.
                let live = state.live.get(&volume).filter(|live| live.is_aside());
                if live.is_none_or(|live| live.overlay.resolve(one.cluster) == Patch::default()) {
                    continue;
                }
                let here = Place::new(*set, shape.slot(*stripe, *column));
                let left = (0..CLUSTER_BLOCKS).filter(|row| state.is_left(one, here, *row));
                one.left = left.fold(0, |mask, row| mask | 1 << row);
            }
        }
    }

    /// Blocks that a checkpoint has changed in place, and the maps do not know yet.
    fn know_redone(&self, known: &mut Knowledge) {
        let state = self.lock();
        for ((set, stripe, column), crcs) in &state.redone {
            let Some(columns) = known.stripes.get_mut(&(*set, *stripe)) else { continue };
            let Some((_, one)) = columns.iter_mut().find(|(other, _)| other == column) else {
                continue;
            };
            let crcs: &Redone = crcs;
            for (row, new) in crcs.iter().enumerate().filter_map(|(row, new)| Some((row, (*new)?)))
            {
                one.crcs[row] = new;
                one.left &= !(1 << row);
            }
        }
    }

    /// What a block that was known must be now, as a `layer` of its volume has it. `None`: the place holds
    /// something else by now, or, for what is newest, the block is about to be overwritten by what the
    /// journal has.
    pub(crate) async fn look_up(
        &self,
        place: Place,
        known: &Known,
        row: usize,
        layer: Layer,
    ) -> Result<Option<u32>, ArrayError> {
        self.with_pages(|state| {
            let heads = || known.shared_by.iter().map(|(volume, at)| (Of::Head(*volume), *at));
            let is_leaving = state.is_leaving(known.of);
            for (of, cluster) in heads().filter(|_| is_leaving) {
                if let Some(crc) = state.crc_at(place, (of, cluster, row), layer)? {
                    return Ok(crc);
                }
            }
            // A volume that nobody knew then may have written over what a deletion has passed.
            let owner = (known.of, known.cluster);
            let owner = Some(owner).filter(|(of, cluster)| !state.has_passed(*of, *cluster));
            for (of, cluster) in owner.into_iter().chain(heads()) {
                for of in state.views(of) {
                    if let Some(Some(crc)) = state.crc_at(place, (of, cluster, row), layer)? {
                        return Ok(Some(crc));
                    }
                }
            }
            Ok(None)
        })
        .await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everybody_who_shares_a_cluster_is_known() {
        let mut all = Knowledge::default();
        let stripe = (SetId(1), 7);
        // Three clones of a snapshot that is deleted and waits for two of them to go.
        for volume in [4, 5, 6, 5] {
            let of = Of::Head(VersionId(volume));
            all.keep(stripe, 2, Known::new([9; CLUSTER_BLOCKS], of, 3));
        }
        let [(2, known)] = all.columns(stripe.0, stripe.1) else { panic!("one column: {all:?}") };
        assert_eq!(known.of, Of::Head(VersionId(4)));
        assert_eq!(known.shared_by[..], [(VersionId(5), 3), (VersionId(6), 3)]);
    }
}

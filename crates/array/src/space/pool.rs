//! All sets of an array, by what they hold: where new clusters go.

use std::collections::{BTreeMap, BTreeSet};

use super::{Kind, Slots};
use crate::{DiskId, Place, SetId};

/// A set with less than this share of its slots free counts as full when disks are chosen for the
/// next one: sets that are filled side by side end at nearly the same time.
const NEARLY_FULL_SHARE: u64 = 8;

/// No set of this kind has room: a new one is needed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("no set for {0:?} has room")]
pub struct NeedSet(pub Kind);

/// Which room is taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Claim {
    /// What nobody has reserved.
    Free,
    /// What was reserved before, and not more than that: it is used up.
    Reserved,
    /// What nobody has reserved, also what is kept for somebody.
    Kept,
}

/// The sets of an array and their slots.
///
/// Of each kind a few sets are filled side by side, its lanes. When one is full another takes its
/// place: one that shares the fewest disks with the other lanes, and of those the emptiest.
///
/// Slots are set aside in two ways. *Reserved* ones are promised: each belongs to a change that was
/// accepted, and there are never more of them than free ones, so that such a change finds its place
/// for sure. *Kept* ones are for those who were told that there is room for them (thick volumes):
/// nobody else gets them, but there may be fewer free slots than are kept, because what was freed
/// comes back a checkpoint later. Slots that come free are theirs first.
///
/// Invariants: `free` of a kind is the sum over its open sets; every lane is open and has room;
/// as long as no set is closed and nothing was [promised](Self::promise) again, `reserved` is at most `free`.
#[derive(Debug, Default)]
pub struct Pool {
    sets: BTreeMap<SetId, Set>,
    groups: BTreeMap<Kind, Group>,
}

#[derive(Debug)]
struct Set {
    kind: Kind,
    slots: Slots,
    disks: Vec<DiskId>,
    /// Whether clusters may be put there: not while it misses a disk, say.
    is_open: bool,
}

impl Set {
    fn room(&self) -> u64 {
        if self.is_open { u64::from(self.slots.free_count()) } else { 0 }
    }

    fn is_empty(&self) -> bool {
        self.slots.free_count() == self.slots.len()
    }
}

/// The sets of a kind.
#[derive(Debug)]
struct Group {
    members: BTreeSet<SetId>,
    lanes: Vec<SetId>,
    lanes_max: usize,
    /// The lane that comes next.
    turn: usize,
    /// A set that is no lane may have got room since the lanes were chosen.
    is_stale: bool,
    free: u64,
    reserved: u64,
    kept: u64,
}

impl Default for Group {
    fn default() -> Self {
        Self {
            members: BTreeSet::new(),
            lanes: Vec::new(),
            lanes_max: 1,
            turn: 0,
            is_stale: false,
            free: 0,
            reserved: 0,
            kept: 0,
        }
    }
}

impl Group {
    fn drop_lane(&mut self, id: SetId) {
        if let Some(at) = self.lanes.iter().position(|lane| *lane == id) {
            self.lanes.remove(at);
            // The lanes behind it move up; whose turn it was keeps its turn.
            self.turn -= usize::from(at < self.turn);
        }
        self.is_stale = true;
    }
}

impl Pool {
    /// Adds a set that takes new slots.
    ///
    /// # Panics
    /// When there is a set of this number.
    pub fn add(&mut self, id: SetId, kind: impl Into<Kind>, slots: Slots, disks: Vec<DiskId>) {
        let set = Set { kind: kind.into(), slots, disks, is_open: true };
        let group = self.groups.entry(set.kind).or_default();
        group.members.insert(id);
        group.free += set.room();
        group.is_stale = true;
        assert!(self.sets.insert(id, set).is_none(), "{id:?} is here already");
    }

    /// Takes out a set that holds nothing, so that its chunks can be released; what is reserved
    /// must fit into the others ([`available`](Self::available)).
    ///
    /// # Panics
    /// When the set is in use.
    pub fn remove(&mut self, id: SetId) {
        let set = self.sets.remove(&id).expect("only sets of the array are removed");
        assert_eq!(set.slots.free_count(), set.slots.len(), "{id:?} is in use");
        let group = group(&mut self.groups, set.kind);
        group.free -= set.room();
        group.members.remove(&id);
        group.drop_lane(id);
    }

    /// Sets of a kind that hold nothing and can be removed one after the other, the youngest first.
    /// If the kind is in use as many sets with room are left as are filled side by side.
    #[must_use]
    pub fn idle_sets(&self, kind: impl Into<Kind>, is_used: bool) -> Vec<SetId> {
        let kind = kind.into();
        let Some(group) = self.groups.get(&kind) else { return Vec::new() };
        let with_room = group.members.iter().filter(|id| self.sets[id].room() > 0).count();
        let kept = if is_used { group.lanes_max } else { 0 };
        let idle = group.members.iter().rev().filter(|id| self.sets[id].is_empty());
        let mut left = self.available(kind);
        let fits = |id: &SetId| {
            let room = self.sets[id].room();
            let fits = room <= left;
            left -= if fits { room } else { 0 };
            fits
        };
        idle.copied().take(with_room.saturating_sub(kept)).filter(fits).collect()
    }

    /// Says whether a set takes new slots.
    pub fn set_open(&mut self, id: SetId, is_open: bool) {
        let set = self.sets.get_mut(&id).expect("only sets of the array change");
        let group = group(&mut self.groups, set.kind);
        group.free -= set.room();
        set.is_open = is_open;
        group.free += set.room();
        group.drop_lane(id);
    }

    /// A rebuild gave a set other disks.
    pub fn set_disks(&mut self, id: SetId, disks: Vec<DiskId>) {
        self.sets.get_mut(&id).expect("only sets of the array change").disks = disks;
    }

    /// How many sets of a kind are filled side by side ([`lanes`](super::lanes)).
    pub fn set_lanes(&mut self, kind: impl Into<Kind>, lanes_max: usize) {
        assert!(lanes_max > 0, "something must be filled");
        let group = self.groups.entry(kind.into()).or_default();
        group.lanes_max = lanes_max;
        group.lanes.truncate(lanes_max);
        group.is_stale = true;
    }

    /// The disks of sets that are being filled and will be for a while.
    #[must_use]
    pub fn busy_disks(&self, kind: impl Into<Kind>) -> Vec<DiskId> {
        let lanes = self.groups.get(&kind.into()).map_or(&[][..], |group| &group.lanes);
        let sets = lanes.iter().map(|lane| &self.sets[lane]);
        let busy = sets.filter(|set| set.room() > u64::from(set.slots.len()) / NEARLY_FULL_SHARE);
        busy.flat_map(|set| set.disks.iter().copied()).collect()
    }

    /// Whether fewer sets have room than should be filled side by side: time for a new set, as
    /// long as there are chunks.
    #[must_use]
    pub fn wants_set(&self, kind: impl Into<Kind>) -> bool {
        let Some(group) = self.groups.get(&kind.into()) else { return true };
        let with_room = group.members.iter().filter(|id| self.sets[id].room() > 0);
        with_room.take(group.lanes_max).count() < group.lanes_max
    }

    /// The slots of a set.
    #[must_use]
    pub fn slots(&self, id: SetId) -> Option<&Slots> {
        self.sets.get(&id).map(|set| &set.slots)
    }

    /// All sets, their kind and their slots.
    pub fn sets(&self) -> impl Iterator<Item = (SetId, Kind, &Slots)> {
        self.sets.iter().map(|(id, set)| (*id, set.kind, &set.slots))
    }

    /// The sets whose bitmap may have changed since this was last asked.
    pub fn take_dirty(&mut self) -> Vec<SetId> {
        let dirty = self.sets.iter_mut().filter_map(|(id, set)| {
            let is_dirty = set.slots.take_dirty();
            is_dirty.then_some(*id)
        });
        dirty.collect()
    }

    /// All slots of a kind.
    #[must_use]
    pub fn slots_of(&self, kind: impl Into<Kind>) -> u64 {
        let Some(group) = self.groups.get(&kind.into()) else { return 0 };
        group.members.iter().map(|id| u64::from(self.sets[id].slots.len())).sum()
    }

    /// Slots that can be taken, reserved ones as well.
    #[must_use]
    pub fn free_slots(&self, kind: impl Into<Kind>) -> u64 {
        self.groups.get(&kind.into()).map_or(0, |group| group.free)
    }

    /// Slots that were promised.
    #[must_use]
    pub fn reserved(&self, kind: impl Into<Kind>) -> u64 {
        self.groups.get(&kind.into()).map_or(0, |group| group.reserved)
    }

    /// Slots that are kept, and not reserved yet; there may be fewer free ones.
    #[must_use]
    pub fn kept(&self, kind: impl Into<Kind>) -> u64 {
        self.groups.get(&kind.into()).map_or(0, |group| group.kept)
    }

    /// Slots that anybody can take or reserve.
    #[must_use]
    pub fn available(&self, kind: impl Into<Kind>) -> u64 {
        let kind = kind.into();
        self.unreserved(kind).saturating_sub(self.kept(kind))
    }

    /// Slots that are free and not for anybody: reserved or kept.
    #[must_use]
    pub fn set_aside(&self, kind: impl Into<Kind>) -> u64 {
        let kind = kind.into();
        self.free_slots(kind) - self.available(kind)
    }

    /// Free slots that nobody was promised.
    fn unreserved(&self, kind: Kind) -> u64 {
        // A set that was closed may have taken reserved room along.
        self.free_slots(kind).saturating_sub(self.reserved(kind))
    }

    /// Keeps slots from others, also such as are not free yet.
    pub fn keep(&mut self, kind: impl Into<Kind>, slots: u64) {
        self.groups.entry(kind.into()).or_default().kept += slots;
    }

    /// Others may have these again.
    ///
    /// # Panics
    /// When so much is not kept.
    pub fn unkeep(&mut self, kind: impl Into<Kind>, slots: u64) {
        let group = self.groups.entry(kind.into()).or_default();
        group.kept = group.kept.checked_sub(slots).expect("only what is kept is given up");
    }

    /// Reserves slots that are kept; `false`, and nothing is, when so many are not free.
    ///
    /// # Panics
    /// When so much is not kept.
    #[must_use]
    pub fn reserve_kept(&mut self, kind: impl Into<Kind>, slots: u64) -> bool {
        let kind = kind.into();
        let fits = slots <= self.unreserved(kind);
        if fits {
            self.unkeep(kind, slots);
            self.groups.entry(kind).or_default().reserved += slots;
        }
        fits
    }

    /// Sets slots aside; `false`, and nothing is, when there are not so many.
    #[must_use]
    pub fn reserve(&mut self, kind: impl Into<Kind>, slots: u64) -> bool {
        let kind = kind.into();
        let fits = slots <= self.available(kind);
        if fits {
            self.groups.entry(kind).or_default().reserved += slots;
        }
        fits
    }

    /// Promises slots again that were taken for a change, and are free when the checkpoint that
    /// did so has ended. Until then there may be fewer free ones than are reserved.
    pub fn promise(&mut self, kind: impl Into<Kind>, slots: u64) {
        self.groups.entry(kind.into()).or_default().reserved += slots;
    }

    /// Gives back what was set aside and not taken.
    ///
    /// # Panics
    /// When so much is not set aside.
    pub fn unreserve(&mut self, kind: impl Into<Kind>, slots: u64) {
        let group = self.groups.entry(kind.into()).or_default();
        let left = group.reserved.checked_sub(slots);
        group.reserved = left.expect("only what was reserved is given back");
    }

    /// Takes `count` slots for neighbouring clusters, in their order: of parity sets stripe by
    /// stripe, of others from lane to lane.
    ///
    /// # Errors
    /// [`NeedSet`] when there are not so many; nothing is taken then.
    ///
    /// # Panics
    /// When so much is to be taken as reserved, but is not.
    pub fn take(
        &mut self,
        kind: impl Into<Kind>,
        count: usize,
        claim: Claim,
    ) -> Result<Vec<Place>, NeedSet> {
        let kind = kind.into();
        self.pay(kind, count as u64, claim)?;
        let mut places = Vec::with_capacity(count);
        while places.len() < count {
            let left = count - places.len();
            let lane = self.lane(kind).expect("there is room, so there is a lane");
            self.take_in(lane, left, &mut places);
        }
        debug_assert_eq!(places.len(), count);
        Ok(places)
    }

    /// Takes all slots of a fresh stripe, `count_max` at most; `None` when there is no such stripe
    /// that may be taken.
    pub fn take_stripe(
        &mut self,
        kind: impl Into<Kind>,
        count_max: usize,
        claim: Claim,
    ) -> Option<Vec<Place>> {
        let kind = kind.into();
        let reserved_max = match claim {
            Claim::Free | Claim::Kept => u64::MAX,
            Claim::Reserved => self.reserved(kind),
        };
        let k_max = reserved_max.min(count_max as u64);
        // Lanes first, from the one whose turn it is.
        self.lane(kind)?;
        let group = &self.groups[&kind];
        let (ahead, behind) = (&group.lanes[group.turn..], &group.lanes[..group.turn]);
        let order = ahead.iter().chain(behind).chain(&group.members);
        let fresh = |id: &&SetId| {
            let Set { slots, is_open, .. } = &self.sets[id];
            *is_open && slots.fresh_count() > 0 && u64::from(slots.k()) <= k_max
        };
        let id = *order.into_iter().find(fresh)?;
        let k = self.sets[&id].slots.k();
        self.pay(kind, u64::from(k), claim).ok()?;
        let slots = self.sets.get_mut(&id).and_then(|set| set.slots.take_stripe());
        self.settle_lanes(id, true);
        Some(slots.expect("it has a fresh stripe").map(|slot| Place::new(id, slot)).collect())
    }

    /// Takes this very place, as a record says; `false` when it is no place of a set, or taken.
    #[must_use]
    pub fn claim(&mut self, place: Place) -> bool {
        let Some(set) = self.sets.get_mut(&place.set()) else { return false };
        let group = group(&mut self.groups, set.kind);
        group.free -= set.room();
        let claimed = set.slots.claim(place.slot());
        group.free += set.room();
        if set.room() == 0 {
            group.drop_lane(place.set());
        }
        claimed
    }

    /// Nothing that is changed from now on refers to the place; see [`Slots`].
    pub fn free(&mut self, place: Place) {
        self.set_of(place).slots.free(place.slot());
    }

    /// The places can be taken again: the checkpoint that freed them is durable, and nobody reads
    /// what came before.
    ///
    /// Whether a set holds nothing any more.
    pub fn settle(&mut self, places: impl IntoIterator<Item = Place>) -> bool {
        let mut has_emptied = false;
        for place in places {
            let set = self.set_of(place);
            set.slots.settle(place.slot());
            has_emptied |= set.is_empty();
            let (kind, is_open) = (set.kind, set.is_open);
            let group = group(&mut self.groups, kind);
            group.free += u64::from(is_open);
            group.is_stale = true;
        }
        has_emptied
    }

    /// From now on what was taken is relied on; see [`Slots::seal`].
    pub fn seal(&mut self) {
        self.sets.values_mut().for_each(|set| set.slots.seal());
    }

    fn set_of(&mut self, place: Place) -> &mut Set {
        self.sets.get_mut(&place.set()).expect("places lie in sets of the array")
    }

    /// Takes room off the books, before the slots themselves.
    fn pay(&mut self, kind: Kind, slots: u64, claim: Claim) -> Result<(), NeedSet> {
        let room = match claim {
            Claim::Free => self.available(kind),
            Claim::Reserved => self.free_slots(kind),
            Claim::Kept => self.unreserved(kind),
        };
        if slots > room {
            return Err(NeedSet(kind));
        }
        let group = self.groups.entry(kind).or_default();
        group.free -= slots;
        if claim == Claim::Reserved {
            let left = group.reserved.checked_sub(slots);
            group.reserved = left.expect("only what was reserved is taken as such");
        }
        Ok(())
    }

    /// Takes up to `left` slots of a lane: a stripe, or one slot.
    fn take_in(&mut self, id: SetId, left: usize, places: &mut Vec<Place>) {
        let slots = &mut self.sets.get_mut(&id).expect("lanes are sets").slots;
        let is_whole = slots.k() > 1 && !slots.is_filling() && left >= slots.k() as usize;
        if let Some(stripe) = is_whole.then(|| slots.take_stripe()).flatten() {
            places.extend(stripe.map(|slot| Place::new(id, slot)));
        } else {
            let slot = slots.take_slot().expect("lanes have room");
            places.push(Place::new(id, slot));
        }
        let is_stripe_done = !slots.is_filling();
        self.settle_lanes(id, is_stripe_done);
    }

    /// After slots of `id` were taken: the next lane's turn, without those that are full.
    fn settle_lanes(&mut self, id: SetId, is_next: bool) {
        let set = &self.sets[&id];
        let group = group(&mut self.groups, set.kind);
        let is_turn = group.lanes.get(group.turn) == Some(&id);
        if set.room() == 0 {
            group.drop_lane(id);
        } else if is_turn && is_next {
            group.turn += 1;
        }
        if group.turn >= group.lanes.len() {
            group.turn = 0;
        }
    }

    /// The lane whose turn it is; `None` when no set has room.
    fn lane(&mut self, kind: Kind) -> Option<SetId> {
        let group = self.groups.get_mut(&kind)?;
        if group.is_stale {
            group.is_stale = false;
            while group.lanes.len() < group.lanes_max {
                let candidates = group
                    .members
                    .iter()
                    .filter(|id| self.sets[id].room() > 0 && !group.lanes.contains(id));
                let shared = |id: &SetId| {
                    let others = group.lanes.iter().flat_map(|lane| &self.sets[lane].disks);
                    others.filter(|disk| self.sets[id].disks.contains(disk)).count()
                };
                let best = candidates
                    .min_by_key(|id| (shared(id), std::cmp::Reverse(self.sets[id].room()), **id));
                let Some(best) = best.copied() else { break };
                group.lanes.push(best);
            }
        }
        if group.turn >= group.lanes.len() {
            group.turn = 0;
        }
        group.lanes.get(group.turn).copied()
    }
}

fn group(groups: &mut BTreeMap<Kind, Group>, kind: Kind) -> &mut Group {
    groups.get_mut(&kind).expect("the kind of every set has its group")
}

#[cfg(test)]
mod tests;

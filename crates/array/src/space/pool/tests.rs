//! The pool, one rule at a time and then against a model.

use proptest::prelude::*;

use super::*;
use crate::Level;

const RAID10: Kind = Kind::Data(Level::Raid10);
const RAID5: Kind = Kind::Data(Level::Raid5);

fn disks(ids: &[u16]) -> Vec<DiskId> {
    ids.iter().map(|id| DiskId(*id)).collect()
}

/// Pairs on these disks, with `slots` slots each, numbered from 1.
fn pairs(kind: Kind, slots: u32, on: &[[u16; 2]]) -> Pool {
    let mut pool = Pool::default();
    for (at, pair) in on.iter().enumerate() {
        pool.add(SetId(at as u32 + 1), kind, Slots::new(1, slots), disks(pair));
    }
    pool
}

fn sets(places: &[Place]) -> Vec<u32> {
    places.iter().map(|place| place.set().0).collect()
}

fn take(pool: &mut Pool, kind: Kind, count: usize) -> Vec<Place> {
    pool.take(kind, count, Claim::Free).unwrap()
}

#[test]
fn raid1_fills_a_set_before_the_next() {
    let mut pool = pairs(Level::Raid1.into(), 3, &[[0, 1], [2, 3]]);
    let places = take(&mut pool, Level::Raid1.into(), 5);
    assert_eq!(sets(&places), [1, 1, 1, 2, 2]);
}

#[test]
fn neighbours_go_to_different_disks() {
    let mut pool = pairs(RAID10, 3, &[[0, 1], [0, 1], [2, 3], [1, 2]]);
    pool.set_lanes(RAID10, 2);
    let places = take(&mut pool, RAID10, 8);
    assert_eq!(sets(&places[..6]), [1, 3, 1, 3, 1, 3], "2 and 4 would share a disk with 1");
    assert_eq!(sets(&places[6..]), [2, 4]);
    let more = take(&mut pool, RAID10, 1);
    assert_eq!(sets(&more), [2], "calls go on where the last one ended");
}

#[test]
fn a_pool_says_when_it_wants_sets_and_when_it_needs_them() {
    let mut pool = Pool::default();
    assert!(pool.wants_set(RAID10));
    assert_eq!(pool.take(RAID10, 1, Claim::Free), Err(NeedSet(RAID10)));
    pool.set_lanes(RAID10, 2);
    pool.add(SetId(1), RAID10, Slots::new(1, 2), disks(&[0, 1]));
    assert!(pool.wants_set(RAID10), "one set, two lanes");
    assert_eq!(pool.take(RAID10, 3, Claim::Free), Err(NeedSet(RAID10)));
    assert_eq!(pool.free_slots(RAID10), 2, "nothing was taken");
    pool.add(SetId(2), RAID10, Slots::new(1, 2), disks(&[2, 3]));
    assert!(!pool.wants_set(RAID10));
    assert_eq!(sets(&take(&mut pool, RAID10, 3)), [1, 2, 1]);
    assert!(pool.wants_set(RAID10));
}

#[test]
fn reserved_room_is_not_for_others() {
    let mut pool = pairs(RAID10, 4, &[[0, 1]]);
    assert!(pool.reserve(RAID10, 3) && !pool.reserve(RAID10, 2));
    assert_eq!((pool.available(RAID10), pool.reserved(RAID10)), (1, 3));
    take(&mut pool, RAID10, 1);
    assert_eq!(pool.take(RAID10, 1, Claim::Free), Err(NeedSet(RAID10)));
    pool.take(RAID10, 2, Claim::Reserved).unwrap();
    pool.unreserve(RAID10, 1);
    take(&mut pool, RAID10, 1);
    assert_eq!((pool.free_slots(RAID10), pool.reserved(RAID10)), (0, 0));
}

#[test]
fn what_is_kept_need_not_be_free_yet_and_is_never_in_the_way_of_what_was_promised() {
    let mut pool = pairs(RAID10, 4, &[[0, 1]]);
    assert!(pool.reserve(RAID10, 2));
    pool.keep(RAID10, 5);
    assert_eq!((pool.available(RAID10), pool.set_aside(RAID10)), (0, 4));
    assert!(!pool.reserve(RAID10, 1), "what is left is kept");
    let places = pool.take(RAID10, 2, Claim::Reserved).unwrap();
    assert!(pool.reserve_kept(RAID10, 2) && !pool.reserve_kept(RAID10, 1), "no more are free");
    assert_eq!((pool.kept(RAID10), pool.reserved(RAID10)), (3, 2));
    // What comes free is for those whom it is kept for.
    places.iter().for_each(|place| pool.free(*place));
    pool.settle(places);
    assert!(!pool.reserve(RAID10, 1) && pool.reserve_kept(RAID10, 2));
    pool.unkeep(RAID10, 1);
    assert_eq!((pool.available(RAID10), pool.reserved(RAID10)), (0, 4));
    pool.take(RAID10, 4, Claim::Reserved).unwrap();
}

#[test]
fn parity_sets_give_stripe_after_stripe() {
    let mut pool = Pool::default();
    pool.set_lanes(RAID5, 2);
    pool.add(SetId(1), RAID5, Slots::new(3, 4), disks(&[0, 1, 2, 3]));
    pool.add(SetId(2), RAID5, Slots::new(2, 4), disks(&[4, 5, 6]));
    let places = take(&mut pool, RAID5, 6);
    assert_eq!(sets(&places), [1, 1, 1, 2, 2, 1], "what is left begins a stripe");
    assert_eq!(sets(&take(&mut pool, RAID5, 3)), [1, 1, 2], "which is filled first");
    assert!(pool.slots(SetId(2)).unwrap().is_opened(1));
    pool.seal();
    assert!(!pool.slots(SetId(2)).unwrap().is_opened(1));
    let stripe = pool.take_stripe(RAID5, 9, Claim::Free).unwrap();
    assert!(stripe.len() == 2 && stripe.iter().all(|place| place.set() == SetId(2)));
    assert_eq!(pool.take_stripe(RAID5, 9, Claim::Free).unwrap().len(), 3, "the other lane's turn");
}

#[test]
fn a_whole_stripe_must_be_free_to_be_taken() {
    let mut pool = Pool::default();
    pool.add(SetId(1), RAID5, Slots::new(3, 2), disks(&[0, 1, 2, 3]));
    assert_eq!(pool.take_stripe(RAID5, 2, Claim::Free), None, "three are too many");
    assert_eq!(pool.take_stripe(RAID5, 9, Claim::Reserved), None, "nothing is reserved");
    assert!(pool.reserve(RAID5, 4));
    assert_eq!(pool.take_stripe(RAID5, 9, Claim::Free), None, "two slots are not reserved");
    assert!(pool.take_stripe(RAID5, 9, Claim::Reserved).is_some());
    take(&mut pool, RAID5, 1);
    pool.unreserve(RAID5, 1);
    assert_eq!(pool.take_stripe(RAID5, 9, Claim::Free), None, "two slots are left of a stripe");
    assert_eq!(Pool::default().take_stripe(RAID5, 9, Claim::Free), None);
}

#[test]
fn closed_sets_take_nothing_new() {
    let mut pool = pairs(RAID10, 4, &[[0, 1], [2, 3]]);
    take(&mut pool, RAID10, 1);
    pool.set_open(SetId(1), false);
    assert_eq!(pool.free_slots(RAID10), 4);
    assert_eq!(sets(&take(&mut pool, RAID10, 2)), [2, 2]);
    pool.free(Place::new(SetId(1), 0));
    pool.settle([Place::new(SetId(1), 0)]);
    assert_eq!(pool.free_slots(RAID10), 2, "what is freed in a closed set is no room");
    pool.set_disks(SetId(1), disks(&[4, 1]));
    pool.set_open(SetId(1), true);
    assert_eq!(pool.free_slots(RAID10), 6);
    pool.remove(SetId(1));
    assert_eq!((pool.free_slots(RAID10), pool.slots(SetId(1)).is_some()), (2, false));
}

#[test]
fn a_lane_that_goes_does_not_cost_the_next_its_turn() {
    let mut pool = pairs(RAID10, 4, &[[0, 1], [2, 3], [4, 5]]);
    pool.set_lanes(RAID10, 3);
    assert_eq!(sets(&take(&mut pool, RAID10, 1)), [1]);
    pool.set_open(SetId(1), false);
    assert_eq!(sets(&take(&mut pool, RAID10, 3)), [2, 3, 2]);
}

#[test]
#[should_panic(expected = "in use")]
fn a_set_in_use_stays() {
    let mut pool = pairs(RAID10, 4, &[[0, 1]]);
    take(&mut pool, RAID10, 1);
    pool.remove(SetId(1));
}

#[derive(Debug, Clone, Copy)]
enum Op {
    AddSet(u8, u32),
    RemoveIdle,
    Lanes(usize),
    Take(usize, Claim),
    Stripe(usize, Claim),
    Claim(u32, u32),
    Free(usize),
    Settle,
    Reserve(u64),
    Unreserve(u64),
    Keep(u64),
    Unkeep(u64),
    ReserveKept(u64),
    Open(usize, bool),
    Seal,
}

fn claim() -> impl Strategy<Value = Claim> {
    prop_oneof![3 => Just(Claim::Free), 3 => Just(Claim::Reserved), 1 => Just(Claim::Kept)]
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        2 => (1..4_u8, 1..8_u32).prop_map(|(k, stripes)| Op::AddSet(k, stripes)),
        1 => Just(Op::RemoveIdle),
        1 => (1..4_usize).prop_map(Op::Lanes),
        6 => (1..10_usize, claim()).prop_map(|(n, claim)| Op::Take(n, claim)),
        2 => (1..4_usize, claim()).prop_map(|(n, claim)| Op::Stripe(n, claim)),
        1 => (0..6_u32, 0..20_u32).prop_map(|(set, slot)| Op::Claim(set, slot)),
        6 => (0..100_usize).prop_map(Op::Free),
        2 => Just(Op::Settle),
        2 => (0..10_u64).prop_map(Op::Reserve),
        1 => (0..10_u64).prop_map(Op::Unreserve),
        1 => (0..10_u64).prop_map(Op::Keep),
        1 => (0..10_u64).prop_map(Op::Unkeep),
        1 => (0..10_u64).prop_map(Op::ReserveKept),
        2 => (0..6_usize, any::<bool>()).prop_map(|(n, open)| Op::Open(n, open)),
        1 => Just(Op::Seal),
    ]
}

/// What the pool should hold.
#[derive(Debug, Default)]
struct Model {
    /// Slots of each set, and whether it is open.
    sets: BTreeMap<SetId, (u32, bool)>,
    used: BTreeSet<Place>,
    pending: BTreeSet<Place>,
    reserved: u64,
    kept: u64,
    next: u32,
}

impl Model {
    fn taken_in(&self, id: SetId) -> u64 {
        self.used.iter().chain(&self.pending).filter(|place| place.set() == id).count() as u64
    }

    fn free(&self) -> u64 {
        let open = self.sets.iter().filter(|(_, (_, is_open))| *is_open);
        open.map(|(id, (slots, _))| u64::from(*slots) - self.taken_in(*id)).sum()
    }

    /// How many may be taken as that.
    fn room(&self, claim: Claim) -> u64 {
        match claim {
            Claim::Reserved => self.free().min(self.reserved),
            Claim::Free => self.free().saturating_sub(self.reserved + self.kept),
            Claim::Kept => self.free().saturating_sub(self.reserved),
        }
    }

    fn took(&mut self, places: &[Place], claim: Claim) {
        for place in places {
            let (slots, is_open) = self.sets[&place.set()];
            assert!(is_open && place.slot() < slots, "{place:?} may not be taken");
            assert!(!self.pending.contains(place), "{place:?} is not settled");
            assert!(self.used.insert(*place), "{place:?} is taken twice");
        }
        if claim == Claim::Reserved {
            self.reserved -= places.len() as u64;
        }
    }

    fn set_aside(&mut self, pool: &mut Pool, op: Op) {
        match op {
            Op::Reserve(slots) => {
                let fits = slots <= self.room(Claim::Free);
                assert_eq!(pool.reserve(RAID5, slots), fits);
                self.reserved += if fits { slots } else { 0 };
            }
            Op::Unreserve(slots) => {
                let slots = slots.min(self.reserved);
                pool.unreserve(RAID5, slots);
                self.reserved -= slots;
            }
            Op::Keep(slots) => {
                pool.keep(RAID5, slots);
                self.kept += slots;
            }
            Op::Unkeep(slots) => {
                let slots = slots.min(self.kept);
                pool.unkeep(RAID5, slots);
                self.kept -= slots;
            }
            Op::ReserveKept(slots) => {
                let slots = slots.min(self.kept);
                let fits = slots <= self.room(Claim::Kept);
                assert_eq!(pool.reserve_kept(RAID5, slots), fits);
                let moved = if fits { slots } else { 0 };
                (self.kept, self.reserved) = (self.kept - moved, self.reserved + moved);
            }
            _ => unreachable!("the others take and give"),
        }
    }

    fn apply(&mut self, pool: &mut Pool, op: Op) {
        match op {
            Op::AddSet(k, stripes) => {
                self.next += 1;
                let id = SetId(self.next);
                pool.add(id, RAID5, Slots::new(k, stripes), disks(&[k.into(), stripes as u16]));
                self.sets.insert(id, (u32::from(k) * stripes, true));
            }
            Op::RemoveIdle => {
                let idle = self.sets.keys().copied().find(|id| self.taken_in(*id) == 0);
                if let Some(id) = idle {
                    pool.remove(id);
                    self.sets.remove(&id);
                }
            }
            Op::Lanes(lanes) => pool.set_lanes(RAID5, lanes),
            Op::Take(count, claim) => {
                let room = self.room(claim);
                // More than is reserved must not be asked for as such.
                let most = if claim == Claim::Reserved { self.reserved } else { u64::MAX };
                let count = count.min(most as usize);
                match pool.take(RAID5, count, claim) {
                    Ok(places) => {
                        assert_eq!(places.len(), count);
                        self.took(&places, claim);
                    }
                    Err(NeedSet(_)) => assert!(count as u64 > room),
                }
            }
            Op::Stripe(most, claim) => {
                let room = self.room(claim);
                if let Some(places) = pool.take_stripe(RAID5, most, claim) {
                    assert!(places.len() <= most && places.len() as u64 <= room);
                    self.took(&places, claim);
                }
            }
            Op::Claim(set, slot) => {
                let place = Place::new(SetId(set + 1), slot);
                let slots = self.sets.get(&place.set()).map_or(0, |(slots, _)| *slots);
                let taken = self.used.contains(&place) || self.pending.contains(&place);
                assert_eq!(pool.claim(place), slot < slots && !taken);
                if slot < slots && !taken {
                    self.used.insert(place);
                }
            }
            Op::Free(n) => {
                if let Some(place) = self.used.iter().nth(n % self.used.len().max(1)).copied() {
                    pool.free(place);
                    self.used.remove(&place);
                    self.pending.insert(place);
                }
            }
            Op::Settle => {
                let has_emptied = pool.settle(std::mem::take(&mut self.pending));
                let is_empty = pool.sets().any(|(_, _, slots)| slots.free_count() == slots.len());
                assert!(!has_emptied || is_empty, "a set that holds nothing");
            }
            Op::Reserve(_) | Op::Unreserve(_) => self.set_aside(pool, op),
            Op::Keep(_) | Op::Unkeep(_) | Op::ReserveKept(_) => self.set_aside(pool, op),
            Op::Open(n, open) => {
                if let Some((id, set)) = self.sets.iter_mut().nth(n) {
                    pool.set_open(*id, open);
                    set.1 = open;
                }
            }
            Op::Seal => pool.seal(),
        }
    }
}

proptest! {
    #[test]
    fn the_pool_keeps_its_books(ops in prop::collection::vec(op(), 1..120)) {
        let (mut pool, mut model) = (Pool::default(), Model::default());
        let mut has_lost_room = false;
        for op in ops {
            // These ask nobody what is promised.
            has_lost_room |= matches!(op, Op::Open(..) | Op::Claim(..) | Op::RemoveIdle);
            model.apply(&mut pool, op);
            prop_assert_eq!(pool.free_slots(RAID5), model.free());
            prop_assert_eq!(pool.reserved(RAID5), model.reserved);
            prop_assert_eq!(pool.kept(RAID5), model.kept);
            prop_assert_eq!(pool.available(RAID5), model.room(Claim::Free));
            // Nothing that is kept is in the way of what was promised.
            prop_assert!(has_lost_room || model.reserved <= model.free());
            for (id, _, slots) in pool.sets() {
                let used = model.used.iter().filter(|place| place.set() == id).count();
                prop_assert_eq!(slots.used_count() as usize, used);
            }
        }
        // All that is free can be had.
        pool.unreserve(RAID5, model.reserved);
        model.reserved = 0;
        pool.unkeep(RAID5, model.kept);
        model.kept = 0;
        let all = pool.take(RAID5, model.free() as usize, Claim::Free);
        model.took(&all.unwrap(), Claim::Free);
        prop_assert_eq!(model.free(), 0);
    }
}

//! The slots of one RAID set.

use std::collections::BTreeSet;
use std::ops::Range;

use super::bits::Bits;
use crate::BLOCK_BYTES;

const PAGE_BITS: u32 = BLOCK_BYTES as u32 * 8;
const PAGE_WORDS: usize = BLOCK_BYTES / 8;

/// A bitmap that does not fit its set.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the bitmap of a set of {slots} slots has other pages, or marks slots beyond its end")]
pub struct BadBitmap {
    /// Slots of the set.
    pub slots: u32,
}

/// The slots of a set: slot `s` is column `s % k` of stripe `s / k`.
///
/// ```text
///         take             free               settle
///  free ────────▶ in use ────────▶ pending ───────────▶ free
/// ```
/// A pending slot still holds what the last durable checkpoint refers to, and perhaps what someone
/// reads; so it is settled only when that checkpoint is history and its readers are gone.
///
/// Invariants: pending slots are among the taken ones; a stripe is fresh exactly if none of its
/// slots is taken.
#[derive(Debug, Clone)]
pub struct Slots {
    k: u32,
    /// In use or pending.
    taken: Bits,
    pending: Bits,
    /// Taken slots of each stripe.
    live: Vec<u8>,
    /// Stripes that are not fresh.
    lived_in: Bits,
    /// Stripes that were fresh when they were first taken from, since [`seal`](Self::seal).
    opened: BTreeSet<u32>,
    /// The one of them that single slots come from.
    filling: Option<u32>,
    /// Where to look for the next slot, so that slots taken together lie together.
    cursor: u32,
    is_dirty: bool,
}

impl Slots {
    /// A set of `stripes` stripes with `k` data strips each, all free.
    ///
    /// # Panics
    /// Without strips or stripes.
    #[must_use]
    pub fn new(k: u8, stripes: u32) -> Self {
        assert!(k > 0 && stripes > 0, "a set has room");
        let slots = u32::from(k).checked_mul(stripes).expect("slots are counted in 32 bits");
        Self {
            k: k.into(),
            taken: Bits::new(slots),
            pending: Bits::new(slots),
            live: vec![0; stripes as usize],
            lived_in: Bits::new(stripes),
            opened: BTreeSet::new(),
            filling: None,
            cursor: 0,
            // Nothing of it is on disk.
            is_dirty: true,
        }
    }

    /// The same with the slots in use that [`pages`](Self::pages) said.
    ///
    /// # Errors
    /// When they are not the pages of such a set.
    pub fn load(k: u8, stripes: u32, pages: &[[u8; BLOCK_BYTES]]) -> Result<Self, BadBitmap> {
        let mut new = Self::new(k, stripes);
        let slots = new.len();
        let mut is_good = pages.len() == slots.div_ceil(PAGE_BITS) as usize;
        let bytes = pages.as_flattened().iter().enumerate();
        for (at, byte) in bytes.filter(|(_, byte)| **byte != 0) {
            for bit in (0..8).filter(|bit| byte & (1 << bit) != 0) {
                let slot = at as u32 * 8 + bit;
                is_good = is_good && new.claim(slot);
            }
        }
        new.is_dirty = false;
        if is_good { Ok(new) } else { Err(BadBitmap { slots }) }
    }

    /// The slots in use as bits, for the checkpoint that frees the pending ones.
    #[must_use]
    pub fn pages(&self) -> Vec<[u8; BLOCK_BYTES]> {
        let words: Vec<u64> = self.used_after_pending().collect();
        let page = |words: &[u64]| {
            let mut page = [0; BLOCK_BYTES];
            for (bytes, word) in page.chunks_exact_mut(8).zip(words) {
                bytes.copy_from_slice(&word.to_le_bytes());
            }
            page
        };
        words.chunks(PAGE_WORDS).map(page).collect()
    }

    /// The slots in use, without the pending ones, 64 in a word from the lowest bit on.
    pub fn used_after_pending(&self) -> impl Iterator<Item = u64> {
        self.taken.words().iter().zip(self.pending.words()).map(|(taken, pending)| taken & !pending)
    }

    /// Whether [`pages`](Self::pages) may have changed since this was last asked.
    pub fn take_dirty(&mut self) -> bool {
        std::mem::take(&mut self.is_dirty)
    }

    /// Data strips of a stripe.
    #[must_use]
    pub fn k(&self) -> u32 {
        self.k
    }

    /// All slots.
    #[must_use]
    #[allow(clippy::len_without_is_empty)] // A set always has slots.
    pub fn len(&self) -> u32 {
        self.taken.len()
    }

    /// Slots that can be taken.
    #[must_use]
    pub fn free_count(&self) -> u32 {
        self.taken.zeros()
    }

    /// Slots that are freed and not settled.
    #[must_use]
    pub fn pending_count(&self) -> u32 {
        self.pending.ones()
    }

    /// Slots that hold something.
    #[must_use]
    pub fn used_count(&self) -> u32 {
        self.taken.ones() - self.pending.ones()
    }

    /// Whether a slot holds something; pending ones do not any more.
    #[must_use]
    pub fn is_used(&self, slot: u32) -> bool {
        self.taken.get(slot) && !self.pending.get(slot)
    }

    /// Stripes without a taken slot.
    #[must_use]
    pub fn fresh_count(&self) -> u32 {
        self.lived_in.zeros()
    }

    /// Whether no slot of the stripe is taken.
    #[must_use]
    pub fn is_fresh(&self, stripe: u32) -> bool {
        !self.lived_in.get(stripe)
    }

    /// Whether the stripe was fresh when it was first taken from since the last
    /// [`seal`](Self::seal): nothing in it can be lost by writing it without precautions, as long
    /// as nothing relies on what was taken from it.
    #[must_use]
    pub fn is_opened(&self, stripe: u32) -> bool {
        self.opened.contains(&stripe)
    }

    /// How many slots of a stripe are taken.
    #[must_use]
    pub fn taken_in(&self, stripe: u32) -> u32 {
        self.live[stripe as usize].into()
    }

    /// From now on what was taken is relied on: stripes that were opened are like others.
    pub fn seal(&mut self) {
        self.opened.clear();
        self.filling = None;
    }

    /// A slot: of the stripe being filled, or else of a fresh stripe, or else any free one.
    pub fn take_slot(&mut self) -> Option<u32> {
        let slot = self.slot_of_filling().or_else(|| self.slot_of_fresh());
        let slot = slot.or_else(|| self.taken.next_zero(self.cursor))?;
        self.take(slot);
        self.cursor = slot + 1;
        if self.filling.is_some() && self.slot_of_filling().is_none() {
            self.filling = None;
        }
        Some(slot)
    }

    /// All slots of a fresh stripe.
    pub fn take_stripe(&mut self) -> Option<Range<u32>> {
        let stripe = self.next_fresh()?;
        let slots = stripe * self.k..(stripe + 1) * self.k;
        self.opened.insert(stripe);
        for slot in slots.clone() {
            self.take(slot);
        }
        self.cursor = slots.end;
        Some(slots)
    }

    /// Whether the next single slot continues a stripe that is being filled.
    #[must_use]
    pub fn is_filling(&self) -> bool {
        self.filling.is_some()
    }

    /// Takes this very slot, as a record says; `false` when there is no such slot, or it is taken.
    #[must_use]
    pub fn claim(&mut self, slot: u32) -> bool {
        let is_free = slot < self.len() && !self.taken.get(slot);
        if is_free {
            self.take(slot);
        }
        is_free
    }

    /// Nothing that is changed from now on refers to the slot.
    ///
    /// # Panics
    /// When it is not in use.
    pub fn free(&mut self, slot: u32) {
        assert!(self.is_used(slot), "slot {slot} is freed twice");
        self.pending.set(slot);
        self.is_dirty = true;
    }

    /// A freed slot can be taken again.
    ///
    /// # Panics
    /// When it was not freed.
    pub fn settle(&mut self, slot: u32) {
        assert!(self.pending.get(slot), "slot {slot} was not freed");
        self.pending.clear(slot);
        self.taken.clear(slot);
        let stripe = slot / self.k;
        let live = &mut self.live[stripe as usize];
        *live -= 1;
        if *live == 0 {
            self.lived_in.clear(stripe);
        }
        debug_assert_eq!(self.is_fresh(stripe), self.live[stripe as usize] == 0);
    }

    fn slot_of_filling(&self) -> Option<u32> {
        let stripe = self.filling?;
        (stripe * self.k..(stripe + 1) * self.k).find(|slot| !self.taken.get(*slot))
    }

    fn slot_of_fresh(&mut self) -> Option<u32> {
        // Without parity stripes are single slots, and no stripe is better than another.
        let stripe = if self.k > 1 { self.next_fresh()? } else { return None };
        self.opened.insert(stripe);
        self.filling = Some(stripe);
        Some(stripe * self.k)
    }

    fn next_fresh(&self) -> Option<u32> {
        self.lived_in.next_zero(self.cursor.div_ceil(self.k))
    }

    fn take(&mut self, slot: u32) {
        self.taken.set(slot);
        let stripe = slot / self.k;
        let live = &mut self.live[stripe as usize];
        *live += 1;
        assert!(u32::from(*live) <= self.k, "a stripe has {} slots", self.k);
        if *live == 1 {
            self.lived_in.set(stripe);
        }
        self.is_dirty = true;
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn single_slots_fill_fresh_stripes_before_holes() {
        let mut slots = Slots::new(3, 4);
        assert_eq!(slots.take_stripe(), Some(0..3));
        slots.free(1);
        slots.settle(1);
        let taken: Vec<_> = (0..4).map(|_| slots.take_slot().unwrap()).collect();
        assert_eq!(taken, [3, 4, 5, 6]);
        assert!(slots.is_opened(2) && slots.is_filling());
        slots.seal();
        assert!(!slots.is_opened(2) && !slots.is_filling());
        let taken: Vec<_> = (0..6).map_while(|_| slots.take_slot()).collect();
        assert_eq!(taken, [9, 10, 11, 1, 7, 8], "the last fresh stripe, then holes");
        assert!(slots.is_opened(3) && !slots.is_opened(2));
    }

    #[test]
    fn pending_slots_keep_their_stripe_from_being_fresh() {
        let mut slots = Slots::new(2, 1);
        let stripe = slots.take_stripe().unwrap();
        stripe.clone().for_each(|slot| slots.free(slot));
        assert_eq!((slots.used_count(), slots.pending_count(), slots.free_count()), (0, 2, 0));
        assert_eq!(
            (slots.is_fresh(0), slots.take_stripe(), slots.take_slot()),
            (false, None, None)
        );
        slots.settle(0);
        assert_eq!((slots.is_fresh(0), slots.take_stripe()), (false, None));
        slots.settle(1);
        assert_eq!(slots.take_stripe(), Some(stripe));
    }

    #[test]
    fn without_parity_slots_come_one_after_the_other() {
        let mut slots = Slots::new(1, 3);
        assert_eq!(slots.take_slot(), Some(0));
        slots.free(0);
        slots.settle(0);
        let taken: Vec<_> = (0..4).map_while(|_| slots.take_slot()).collect();
        assert_eq!(taken, [1, 2, 0]);
    }

    #[test]
    fn bitmaps_are_checked() {
        let mut slots = Slots::new(1, 65_536);
        assert!(slots.claim(65_535) && slots.claim(9));
        let pages = slots.pages();
        assert_eq!((pages.len(), pages[0][1], pages[1][4095]), (2, 2, 128));
        assert!(Slots::load(1, 65_536, &pages).is_ok());
        let bad = BadBitmap { slots: 65_535 };
        assert_eq!(Slots::load(1, 65_535, &pages).unwrap_err(), bad, "a slot beyond the end");
        assert!(Slots::load(1, 65_536, &pages[..1]).is_err());
        assert!(Slots::load(1, 10, &pages).is_err());
    }

    #[test]
    #[should_panic(expected = "freed twice")]
    fn a_slot_is_freed_once() {
        let mut slots = Slots::new(1, 3);
        assert!(slots.claim(2));
        slots.free(2);
        slots.free(2);
    }

    #[derive(Debug, Clone, Copy)]
    enum Op {
        Slot,
        Stripe,
        Claim(u32),
        Free(usize),
        Settle(usize),
        Seal,
        Reload,
    }

    fn op() -> impl Strategy<Value = Op> {
        prop_oneof![
            6 => Just(Op::Slot),
            3 => Just(Op::Stripe),
            1 => (0..100_u32).prop_map(Op::Claim),
            6 => (0..100_usize).prop_map(Op::Free),
            5 => (0..100_usize).prop_map(Op::Settle),
            1 => Just(Op::Seal),
            1 => Just(Op::Reload),
        ]
    }

    /// Slots that are taken, and whether they are pending.
    type Model = BTreeMap<u32, bool>;

    fn pick(model: &Model, n: usize, pending: bool) -> Option<u32> {
        let fitting: Vec<_> = model.iter().filter(|(_, is)| **is == pending).collect();
        (!fitting.is_empty()).then(|| *fitting[n % fitting.len()].0)
    }

    fn apply(slots: &mut Slots, model: &mut Model, op: Op) {
        let (k, stripes) = (slots.k(), slots.len() / slots.k());
        let fresh = |model: &Model, stripe| model.range(stripe * k..(stripe + 1) * k).count() == 0;
        let fresh_any = (0..stripes).any(|stripe| fresh(model, stripe));
        match op {
            Op::Slot => {
                let taken = slots.take_slot();
                assert_eq!(taken.is_some(), (model.len() as u32) < slots.len());
                let Some(slot) = taken else { return };
                let was_fresh = fresh(model, slot / k);
                assert!(model.insert(slot, false).is_none(), "{slot} was taken");
                assert!(k == 1 || !was_fresh || slots.is_opened(slot / k));
                assert!(k == 1 || !fresh_any || slots.is_opened(slot / k), "holes come last");
            }
            Op::Stripe => {
                let taken = slots.take_stripe();
                assert_eq!(taken.is_some(), fresh_any);
                for slot in taken.into_iter().flatten() {
                    assert!(model.insert(slot, false).is_none() && slots.is_opened(slot / k));
                }
            }
            Op::Claim(slot) => {
                let is_free = slot < slots.len() && !model.contains_key(&slot);
                assert_eq!(slots.claim(slot), is_free);
                if is_free {
                    model.insert(slot, false);
                }
            }
            Op::Free(n) => {
                if let Some(slot) = pick(model, n, false) {
                    slots.free(slot);
                    model.insert(slot, true);
                }
            }
            Op::Settle(n) => {
                if let Some(slot) = pick(model, n, true) {
                    slots.settle(slot);
                    model.remove(&slot);
                }
            }
            Op::Seal => slots.seal(),
            Op::Reload => {
                *slots = Slots::load(k as u8, stripes, &slots.pages()).unwrap();
                model.retain(|_, pending| !*pending);
            }
        }
    }

    proptest! {
        #[test]
        fn slots_are_handed_out_once_and_counted(
            k in 1..5_u8,
            stripes in 1..20_u32,
            ops in prop::collection::vec(op(), 1..120),
        ) {
            let mut slots = Slots::new(k, stripes);
            let mut model = Model::new();
            for op in ops {
                let before = slots.pages();
                slots.take_dirty();
                apply(&mut slots, &mut model, op);
                prop_assert!(slots.take_dirty() || slots.pages() == before);
                let pending = model.values().filter(|pending| **pending).count() as u32;
                let taken = model.len() as u32;
                prop_assert_eq!(slots.pending_count(), pending);
                prop_assert_eq!(slots.used_count(), taken - pending);
                prop_assert_eq!(slots.free_count(), slots.len() - taken);
                for slot in 0..slots.len() {
                    prop_assert_eq!(slots.is_used(slot), model.get(&slot) == Some(&false));
                }
                let k = u32::from(k);
                let is_fresh = |s: &u32| model.range(s * k..(s + 1) * k).count() == 0;
                let fresh: Vec<u32> = (0..stripes).filter(is_fresh).collect();
                prop_assert_eq!(slots.fresh_count() as usize, fresh.len());
                prop_assert!(fresh.iter().all(|stripe| slots.is_fresh(*stripe)));
            }
        }
    }
}

//! Stripes that were written and are not durable yet.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, Weak};

use crate::SetId;
use crate::mutants::{self, Mutant};

/// A stripe of a set.
pub(crate) type Stripe = (SetId, u32);

/// Stripes that a disk which fails now may have lost although it took them: it is to lack them
/// when it is back.
#[derive(Debug, Default)]
pub(crate) struct Touched(Mutex<Inner>);

#[derive(Debug, Default)]
struct Inner {
    /// Until a checkpoint has flushed all disks.
    until_checkpoint: BTreeSet<Stripe>,
    /// Until who writes them has had them flushed; by how many.
    held: BTreeMap<Stripe, u32>,
    /// Stripes with contents that no map in memory tells of: they change before the maps do.
    unrecorded: BTreeSet<Stripe>,
    witnesses: Vec<Weak<Witness>>,
}

/// Counts how often some stripes are about to be written, or something in them is freed. Who looks at maps,
/// and at disks later, sees by it that the two do not belong together.
#[derive(Debug)]
pub(crate) struct Witness {
    stripes: HashSet<Stripe>,
    counts: Mutex<HashMap<Stripe, u64>>,
}

impl Witness {
    fn note(&self, stripe: &Stripe) {
        if self.stripes.contains(stripe) {
            let mut counts = self.counts.lock().expect("no panic under this lock");
            *counts.entry(*stripe).or_default() += 1;
        }
    }

    /// How often since it was asked for, and once if maps did not tell of all of it then.
    pub(crate) fn count(&self, stripe: Stripe) -> u64 {
        let counts = self.counts.lock().expect("no panic under this lock");
        counts.get(&stripe).copied().unwrap_or(0)
    }
}

impl Inner {
    fn note(&mut self, stripes: &[Stripe]) {
        self.unrecorded.extend(stripes);
        self.tell(stripes);
    }

    fn tell(&mut self, stripes: &[Stripe]) {
        self.witnesses.retain(|witness| witness.strong_count() > 0);
        for witness in self.witnesses.iter().filter_map(Weak::upgrade) {
            stripes.iter().for_each(|stripe| witness.note(stripe));
        }
    }
}

/// Stripes that somebody writes and flushes.
#[derive(Debug)]
pub(crate) struct Held<'a> {
    touched: &'a Touched,
    stripes: Vec<Stripe>,
}

impl Touched {
    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().expect("no panic under this lock")
    }

    /// These are about to get other contents, durable with the next checkpoint. To be called before
    /// the locks of the stripes are asked for.
    pub(crate) fn change(&self, stripes: impl IntoIterator<Item = Stripe>) {
        let stripes: Vec<Stripe> = stripes.into_iter().collect();
        let inner = &mut *self.lock();
        inner.note(&stripes);
        inner.until_checkpoint.extend(stripes);
    }

    /// The maps in memory tell of all that was written, but for what is held. In these stripes something is
    /// nobody's from here on: a disk that takes a part of them now need not get it any more.
    pub(crate) fn recorded(&self, freed: impl Iterator<Item = Stripe>) {
        let inner = &mut *self.lock();
        inner.unrecorded.clear();
        if !inner.witnesses.is_empty() && !mutants::is(Mutant::UnheardFree) {
            let freed: Vec<Stripe> = freed.collect();
            inner.tell(&freed);
        }
    }

    /// Watches these stripes from here on.
    pub(crate) fn watch(&self, stripes: HashSet<Stripe>) -> Arc<Witness> {
        let witness = Arc::new(Witness { stripes, counts: Mutex::default() });
        let inner = &mut *self.lock();
        let held: BTreeSet<Stripe> = inner.held.keys().copied().collect();
        inner.unrecorded.union(&held).for_each(|stripe| witness.note(stripe));
        inner.witnesses.push(Arc::downgrade(&witness));
        witness
    }

    /// These are about to be written as they are, and durable with the next checkpoint.
    pub(crate) fn add(&self, stripes: impl IntoIterator<Item = Stripe>) {
        self.lock().until_checkpoint.extend(stripes);
    }

    /// These are about to be written, and durable when what is returned is dropped.
    pub(crate) fn hold(&self, stripes: Vec<Stripe>) -> Held<'_> {
        let inner = &mut *self.lock();
        inner.note(&stripes);
        let held = &mut inner.held;
        for stripe in &stripes {
            *held.entry(*stripe).or_default() += 1;
        }
        Held { touched: self, stripes }
    }

    /// All of them.
    pub(crate) fn all(&self) -> BTreeSet<Stripe> {
        let inner = self.lock();
        inner.until_checkpoint.iter().chain(inner.held.keys()).copied().collect()
    }

    /// Those that a checkpoint which flushes now makes durable.
    pub(super) fn of_checkpoint(&self) -> BTreeSet<Stripe> {
        self.lock().until_checkpoint.clone()
    }

    /// The checkpoint has flushed these.
    pub(super) fn flushed(&self, stripes: &BTreeSet<Stripe>) {
        self.lock().until_checkpoint.retain(|stripe| !stripes.contains(stripe));
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        let held = &mut self.touched.lock().held;
        for stripe in &self.stripes {
            let count = held.get_mut(stripe).expect("held until now");
            *count -= 1;
            if *count == 0 {
                held.remove(stripe);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stripe_counts_until_all_who_write_it_have_flushed() {
        let touched = Touched::default();
        let (a, b) = ((SetId(1), 7), (SetId(2), 7));
        touched.add([a]);
        let first = touched.hold(vec![a, b]);
        let second = touched.hold(vec![b]);
        touched.flushed(&touched.of_checkpoint());
        assert_eq!(touched.all(), BTreeSet::from([a, b]), "held all the same");
        drop(first);
        assert_eq!(touched.all(), BTreeSet::from([b]));
        drop(second);
        assert_eq!(touched.all(), BTreeSet::new());
    }

    fn counts(witness: &Witness) -> [u64; 4] {
        [0, 1, 2, 3].map(|stripe| witness.count((SetId(1), stripe)))
    }

    #[test]
    fn a_witness_counts_what_is_written_from_before_its_walk() {
        let touched = Touched::default();
        let stripe = |stripe| (SetId(1), stripe);
        touched.change([stripe(0)]);
        touched.change([stripe(0)]);
        touched.recorded(std::iter::empty());
        touched.change([stripe(1), stripe(1)]);
        let held = touched.hold(vec![stripe(2)]);
        let first = touched.watch([0, 1, 2].map(stripe).into());
        assert_eq!(counts(&first), [0, 1, 1, 0]);
        touched.recorded(std::iter::empty());
        let second = touched.watch([0, 1, 2, 3].map(stripe).into());
        assert_eq!(
            counts(&second),
            [0, 0, 1, 0],
            "maps tell of what was recorded, not of what is held"
        );
        drop(held);
        touched.recorded(std::iter::empty());
        let third = touched.watch([0, 1, 2, 3].map(stripe).into());
        touched.add([stripe(3)]);
        touched.change([stripe(0), stripe(3)]);
        drop(touched.hold(vec![stripe(0)]));
        assert_eq!(counts(&third), [2, 0, 0, 1]);
        assert_eq!(first.count(stripe(3)), 0, "nobody asked");
        assert!(counts(&first)[0] == 2 && counts(&second)[0] == 2);
    }
}

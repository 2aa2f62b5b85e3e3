//! Stripes that were written and are not durable yet.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard};

use crate::SetId;

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

    /// These are about to be written, and durable with the next checkpoint.
    pub(crate) fn add(&self, stripes: impl IntoIterator<Item = Stripe>) {
        self.lock().until_checkpoint.extend(stripes);
    }

    /// These are about to be written, and durable when what is returned is dropped.
    pub(crate) fn hold(&self, stripes: Vec<Stripe>) -> Held<'_> {
        let held = &mut self.lock().held;
        for stripe in &stripes {
            *held.entry(*stripe).or_default() += 1;
        }
        Held { touched: self, stripes }
    }

    /// All of them.
    pub(super) fn all(&self) -> BTreeSet<Stripe> {
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
}

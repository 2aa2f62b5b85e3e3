//! The proof that redundancy is real: as many disks as the levels bear are taken away, one
//! combination after another, and everything is read.
//!
//! It is done with copies of the drives, so what the opening writes is thrown away and the history
//! goes on as if nothing had been. What a level bears decides for its volumes alone: with two disks
//! away those of RAID 6 must be whole, and those of RAID 5 are not looked at.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::rc::Rc;

use super::History;
use crate::disk::Drive;
use crate::executor::Ended;
use crate::machine::in_time;
use crate::subject::Maker;
use crate::verify;

impl<M: Maker> History<'_, M> {
    /// Shows that the drives, as the last machine left them, hold everything without any one of the
    /// combinations that must not be missed: all of them, or `most` chosen by chance.
    pub(super) fn prove(&self, most: usize) {
        let levels = self.scenario.levels.iter().map(|level| level.losses_max());
        let drives = self.data_drives();
        // Of a level that bears the loss of all there are, there can be nothing.
        let some = levels.filter(|losses| (1..drives.len()).contains(losses));
        let losses: BTreeSet<usize> = some.collect();
        for away in losses {
            let mut all = combinations(drives.len(), away);
            self.random.shuffle(&mut all);
            for combination in all.iter().take(most) {
                let missing: Vec<&Drive> = combination.iter().map(|&at| &drives[at]).collect();
                let left: Vec<Drive> = self.installed().iter().map(Drive::copy).collect();
                self.without(&left, &missing, away);
            }
        }
        // Two disks for the journal mirror each other; one is not to be missed. Then another stands in
        // for it, and after an end without warning the second one is not, either.
        let journal: Vec<_> = self.drives.iter().filter(|drive| drive.is_for_journal()).collect();
        if journal.len() > 1 {
            let left: Vec<Drive> = self.installed().iter().map(Drive::copy).collect();
            self.without(&left, &[*self.random.pick(&journal)], 0);
            left.iter().for_each(Drive::release);
            self.without(&left, &journal, 0);
        }
    }

    /// Without the drives that are hurt everything can be read, and nobody has looked before what is wrong with
    /// them: each of them may fail at any moment. The history goes on as without it.
    ///
    /// A blank one that came in a victim's place stays: what the old one held is gone already, and the only copy of
    /// it may lie there by now (seeds 7090 and 7114 of rot).
    pub(super) fn prove_beside_victims(&self) {
        let victims = self.budget.victims.borrow().clone();
        let is_borne = victims.len() <= self.scenario.losses() && !self.was_overtaxed.get();
        let holds_all = |drive: &Drive| drive.is_for_journal();
        let may_go = is_borne && !victims.iter().any(holds_all) && !self.parted.get();
        let is_old = |drive: &&Drive| !self.budget.swapped.borrow().contains(&drive.number());
        let missing: Vec<&Drive> = victims.iter().filter(is_old).collect();
        if missing.is_empty() || !may_go {
            return;
        }
        self.random.aside(|| {
            self.env.aside(|| {
                let left: Vec<Drive> = self.installed().iter().map(Drive::copy).collect();
                self.without(&left, &missing, victims.len());
            });
        });
    }

    /// Without these drives everything can be read of the levels that bear so many losses.
    fn without(&self, drives: &[Drive], missing: &[&Drive], losses: usize) {
        let is_left =
            |drive: &&Drive| missing.iter().all(|missing| missing.number() != drive.number());
        let left: Vec<Drive> = drives.iter().filter(is_left).cloned().collect();
        let context = format!("without {missing:?}: ");
        self.env.note(format!("proof {context}"));
        let model = Rc::new(RefCell::new(self.model.borrow().clone()));
        let ended = self.power_on(None, async {
            // Levels that bear less are lost then, and somebody has to say that this is known.
            let accepts = losses > self.scenario.losses();
            let opening = in_time(&self.env, self.maker.open(&self.env, &left, accepts));
            let array = match opening.await {
                Some(Ok(array)) => array,
                Some(Err(refusal)) => panic!("{context}the array does not open: {refusal}"),
                None => panic!("{context}the array does not open, and does not say why"),
            };
            let mut machine = self.machine(array);
            (machine.model, machine.away, machine.context) = (model, losses, context);
            machine.budget = Rc::default();
            let reconciled = machine.model.borrow_mut().reconcile(&machine.listing());
            machine.must("after the start", reconciled);
            verify::everything(&machine).await;
        });
        assert!(matches!(ended, Ended::Done(())), "nobody cuts the power of a proof");
        self.env.note("proof ends");
    }
}

/// All ways to take `away` of `count`.
fn combinations(count: usize, away: usize) -> Vec<Vec<usize>> {
    if away == 0 {
        return vec![Vec::new()];
    }
    let with = |last: usize| {
        combinations(last, away - 1).into_iter().map(move |mut before| {
            before.push(last);
            before
        })
    };
    (0..count).flat_map(with).collect()
}

#[cfg(test)]
mod tests {
    use super::combinations;

    #[test]
    fn combinations_are_all_and_each_once() {
        assert_eq!(combinations(3, 1), [[0], [1], [2]]);
        assert_eq!(combinations(4, 2), [[0, 1], [0, 2], [1, 2], [0, 3], [1, 3], [2, 3]]);
        assert_eq!(combinations(12, 2).len(), 66);
    }
}

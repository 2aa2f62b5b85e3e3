//! Some drives are put back as they were when the machine was off before: the wrong ones were taken for those
//! that are broken, or a backup of a machine is not of all of its drives.
//!
//! It is done with copies of the drives. Either the array is whole, or says what it lacks, or does not open
//! and is whole when the right drives are there again: what is old never counts as what is now.

use std::cell::RefCell;
use std::rc::Rc;

use array::api::VolumeState;

use super::History;
use crate::disk::Drive;
use crate::executor::Ended;
use crate::machine::in_time;
use crate::model::Model;
use crate::scenario::Theme;
use crate::subject::{Maker, Refusal};
use crate::verify;

impl<M: Maker> History<'_, M> {
    pub(super) fn put_images_back(&self) {
        if self.scenario.theme != Theme::Images || !self.made.get() {
            return;
        }
        if !self.images.borrow().is_empty() && !self.random.one_in(4) {
            self.put_some_back();
        }
        if self.images.borrow().is_empty() || self.random.one_in(2) {
            self.env.note("images are made");
            self.images.replace(self.copies());
        }
    }

    fn copies(&self) -> Vec<Drive> {
        self.installed().iter().map(Drive::copy).collect()
    }

    fn put_some_back(&self) {
        let right = self.copies();
        let mixed = self.copies();
        let old = self.chosen(right.len());
        let images = self.images.borrow();
        let put = |at: usize, drives: &[Drive]| match old.contains(&at) {
            true => drives[at].copy(),
            false => mixed[at].clone(),
        };
        let all = |drives: &[Drive]| (0..mixed.len()).map(|at| put(at, drives)).collect::<Vec<_>>();
        self.env.note(format!("drives {old:?} are put back as they were"));
        let with_images = all(&images);
        let opened = self.open_with(&with_images, old.len());
        if let Err(refusal) = &opened {
            self.env.note(format!("it does not open: {refusal}"));
            // The only drive for the journal has what nobody else has.
            let has_all = self.scenario.shape.journal_disks == 0;
            let is_borne = old.len() <= self.scenario.losses() && has_all;
            assert!(!is_borne, "{} old drives keep it from opening: {refusal}", old.len());
        }
        self.env.note("the right drives are back");
        // If it went on without them, they are what is old.
        let are_old = if opened.is_ok() { old.len() } else { 0 };
        let Err(refusal) = self.open_with(&all(&right), are_old) else { return };
        self.env.note(format!("it does not open: {refusal}"));
        assert!(opened.is_ok(), "with the right drives it does not open: {refusal}");
        let again = self.open_with(&with_images, old.len());
        again.unwrap_or_else(|refusal| panic!("with what it was it does not open: {refusal}"));
    }

    /// The first drives hold the checkpoints as a rule.
    fn chosen(&self, drives: usize) -> Vec<usize> {
        let most = (drives - 1) as u64;
        if self.random.one_in(2) {
            return (0..self.random.between(1, most.min(4)) as usize).collect();
        }
        let mut all: Vec<usize> = (0..drives).collect();
        self.random.shuffle(&mut all);
        all.truncate(self.random.between(1, most) as usize);
        all
    }

    /// Opens the array with these drives, of which so many are old, and compares what it gives.
    fn open_with(&self, drives: &[Drive], old: usize) -> Result<(), Refusal> {
        drives.iter().for_each(Drive::release);
        let model: Rc<RefCell<Model>> = Rc::new(RefCell::new(self.model.borrow().clone()));
        let ended = self.power_on(None, async {
            let opening = in_time(&self.env, self.maker.open(&self.env, drives, false)).await;
            let array = opening.expect("the array does not open, and does not say why")?;
            let mut machine = self.machine(array);
            (machine.model, machine.budget) = (model, Rc::default());
            machine.context = format!("with {old} old drives: ");
            machine.budget.overtaxed.set(old > self.scenario.losses());
            let listing = machine.listing();
            let is_lost = |state| state == VolumeState::Lost;
            if machine.is_overtaxed() && listing.volumes.iter().any(|one| is_lost(one.state)) {
                return Ok(());
            }
            let reconciled = machine.model.borrow_mut().reconcile(&listing);
            machine.must("after the start", reconciled);
            verify::everything(&machine).await;
            Ok(())
        });
        drives.iter().for_each(Drive::release);
        match ended {
            Ended::Done(answer) => answer,
            Ended::Cut => unreachable!("nobody cuts the power of a proof"),
        }
    }
}

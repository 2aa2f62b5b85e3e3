//! What people do about drives that are not well, until the array is whole.

use std::future::Future;
use std::rc::Rc;
use std::time::Duration;

use array::Env;
use array::api::{DiskRole, DiskState};

use super::Saboteur;
use crate::disk::{Condition, Drive};
use crate::machine::Machine;
use crate::scenario::Theme;
use crate::subject::Subject;
use crate::verify;

/// Repairs, each with ten seconds for the array to do its part, after which it must be whole.
const ROUNDS_MAX: u32 = 30;
/// After so many nobody waits any longer for disks that were to leave.
const PATIENCE_ROUNDS: u32 = 12;

impl<S: Subject> Saboteur<'_, S> {
    pub(super) async fn fail(&self, drive: &Drive) {
        self.0.env.note(format!("{drive:?} is declared failed"));
        let Some(disk) = self.0.disk(drive) else { return };
        let failed = self.0.answer("fail", self.0.array.fail_disk(&disk.name)).await;
        // Beside other things that are wrong or under way it may be the only one to have something.
        if let Err(refusal) = failed {
            self.0.env.note(refusal.to_string());
        }
    }

    pub(super) async fn retire(&self, name: &str) {
        self.0.env.note(format!("{name} is to leave"));
        // There may be no room for its data elsewhere; then it stays.
        if let Err(refusal) = self.0.answer("retire", self.0.array.retire_disk(name)).await {
            self.0.env.note(refusal.to_string());
        }
    }

    /// The spare drive comes in, and this one goes when it is empty.
    pub(super) async fn replace(&self, drive: &Drive) {
        let (Some(spare), Some(old)) = (self.0.shelf().pop(), self.0.disk(drive)) else { return };
        spare.set_installed(true);
        if self.0.random.one_in(2) {
            self.swap(&spare).await;
            return self.retire(&old.name).await;
        }
        spare.wipe();
        self.0.env.note(format!("{spare:?} is to take the place of {drive:?}"));
        let asked = self.0.array.replace_disk(&old.name, &spare);
        let asked = self.coming(&spare, asked);
        if let Err(refusal) = self.0.answer("replace", asked).await {
            self.0.env.note(refusal.to_string());
            // Nothing may have changed then.
            if self.0.state(&spare).is_some() {
                self.0.fail(format_args!("{refusal}, but {spare:?} was taken in"));
            }
            spare.set_installed(false);
        }
    }

    /// Does the next thing to get a drive back, or another one in its place.
    pub(super) async fn repair(&self, drive: &Drive) {
        self.0.pause(50_000).await;
        let is_coming = self.0.coming.borrow().contains(&drive.number());
        if !drive.is_installed() || is_coming {
            // It lies on the shelf, or somebody brings it: what is left to do is up to the others.
            return self.heal_now().await;
        }
        drive.disarm();
        drive.set_condition(Condition::default());
        if drive.is_absent() {
            drive.set_absent(false);
        }
        match self.0.state(drive) {
            Some(DiskState::Online) if self.is_unplugged(drive) => self.fail(drive).await,
            Some(DiskState::Missing) if self.0.random.one_in(2) => self.bring_back(drive).await,
            Some(DiskState::Missing) => {
                let old = self.0.disk(drive).expect("it was asked for").name;
                self.swap(drive).await;
                self.retire(&old).await;
            }
            // It has left.
            None if self.0.shelf().len() < self.0.scenario.spares => drive.set_installed(false),
            Some(DiskState::Failed) | None => self.swap(drive).await,
            Some(_) => {}
        }
    }

    async fn bring_back(&self, drive: &Drive) {
        self.0.env.note(format!("{drive:?} comes back"));
        let known = self.0.disk(drive).map(|disk| disk.id);
        let back = self.0.answer("return", self.0.array.add_disk(drive)).await;
        // Its label had rotted: what it held is gone as with one that was wiped, and what is moved to it from now
        // on may be the only copy (seed 169 of rot).
        if self.0.disk(drive).map(|disk| disk.id) != known {
            self.came_blank(drive);
        }
        // The array may have found it already; and what was damaged too much to be known
        // again is as good as another drive.
        match back {
            _ if self.0.state(drive) != Some(DiskState::Missing) => {
                self.0.unplugged.borrow_mut().remove(&drive.number());
            }
            Err(refusal) if drive.damaged() > 0 => {
                self.0.env.note(refusal.to_string());
                self.swap(drive).await;
            }
            back => self.0.must("return", back),
        }
    }

    /// Disks that were to leave stay where nobody can take over from them.
    async fn keep(&self) {
        for disk in self.0.array.disks() {
            if disk.state == DiskState::Retiring {
                self.0.env.note(format!("{} is to stay: {}", disk.name, disk.reason));
                let kept = self.0.answer("keep", self.0.array.keep_disk(&disk.name)).await;
                // It may have left by now.
                if let Err(refusal) = kept {
                    self.0.env.note(refusal.to_string());
                }
            }
        }
    }

    /// The drive is used as a blank one.
    fn came_blank(&self, drive: &Drive) {
        if matches!(self.0.scenario.theme, Theme::Crowd | Theme::Rot) {
            self.0.budget.swap(drive);
        }
    }

    /// A blank drive comes in place of this one.
    pub(super) async fn swap(&self, drive: &Drive) {
        drive.wipe();
        self.came_blank(drive);
        self.0.unplugged.borrow_mut().remove(&drive.number());
        self.0.env.note(format!("{drive:?} is a blank one now"));
        let added = self.coming(drive, self.0.array.add_disk(drive));
        let added = self.0.answer("add", added).await;
        // Somebody else may have done something to it meanwhile.
        if let Err(refusal) = &added
            && drive.is_hurt()
        {
            return self.0.env.note(refusal.to_string());
        }
        self.0.must("add", added);
    }

    /// Until this is answered nobody wonders why the drive is no member.
    async fn coming<T>(&self, drive: &Drive, answer: impl Future<Output = T>) -> T {
        self.0.coming.borrow_mut().insert(drive.number());
        let answer = answer.await;
        self.0.coming.borrow_mut().remove(&drive.number());
        answer
    }

    /// Members without a drive are given up.
    async fn dismiss(&self) {
        let names: Vec<String> =
            self.0.drives().iter().filter_map(|drive| self.0.disk(drive)).map(|d| d.name).collect();
        for disk in self.0.array.disks() {
            // One for the journal alone that was declared failed waits for that word, too.
            let is_gone = match disk.role {
                DiskRole::Journal => {
                    matches!(disk.state, DiskState::Missing | DiskState::Failed)
                }
                DiskRole::Data => disk.state == DiskState::Missing,
            };
            if is_gone && !names.contains(&disk.name) {
                self.retire(&disk.name).await;
            }
        }
    }

    /// Members are missing, or have failed, that nobody can take over from: a blank drive of the shelf
    /// comes.
    async fn supply(&self) {
        let is_out = |state| matches!(state, DiskState::Missing | DiskState::Failed);
        let is_any_out = self.0.array.disks().iter().any(|disk| is_out(disk.state));
        if let Some(drive) = self.0.shelf().into_iter().next().filter(|_| is_any_out) {
            drive.set_installed(true);
            self.swap(&drive).await;
        }
    }

    /// Has the array find and repair all damage. If it is whole again, other drives may be hurt.
    pub(super) async fn heal(&self) -> bool {
        let machine = self.0;
        for drive in machine.drives() {
            drive.disarm();
            drive.set_condition(Condition { slow: drive.condition().slow, ..Condition::default() });
        }
        let under_way = machine.writes.borrow().clone();
        let was_whole = machine.is_whole();
        let generation = machine.array.info().generation;
        let scrubbed = machine.answer("scrub", machine.array.scrub()).await;
        let Some(report) = machine.may("scrub", scrubbed) else { return false };
        verify::idle(machine).await;
        if !machine.is_whole() {
            return false;
        }
        // A drive that had failed before may go out only now; what it lacks cannot be repaired then.
        let stayed_whole = was_whole && machine.array.info().generation == generation;
        if stayed_whole && !report.problems.is_empty() {
            machine.fail(format_args!("the scrub found {:#?}", report.problems));
        }
        // Where nothing is ever damaged a scrub repairs nothing: what it had to repair was lost before it,
        // had a disk gone.
        let nothing_rots = !machine.scenario.theme.damages() && !machine.is_overtaxed();
        if stayed_whole && nothing_rots && report.wrong_blocks > 0 {
            machine.fail(format_args!("the scrub repaired what nobody had damaged: {report:?}"));
        }
        // Where a write is under way to nobody refers yet: what had rotted there no scrub has seen.
        if !under_way.is_disjoint(&machine.writes.borrow()) {
            return false;
        }
        verify::check(machine).await;
        // A disk that somebody has just declared failed is not well, even if it is not out yet.
        if machine.orders.get() > 0 || !machine.is_whole() {
            return false;
        }
        machine.accuse_nobody();
        machine.drives().iter().for_each(Drive::forgive);
        machine.env.note("all drives are well");
        machine.budget.recovered();
        true
    }
}

/// Ends all trouble: every drive is there and online, and nothing is damaged.
pub(crate) async fn peace<S: Subject>(machine: &Rc<Machine<S>>) {
    for drive in machine.drives() {
        drive.set_condition(Condition::default());
    }
    let saboteur = Saboteur(machine);
    // An array may notice only in the scrub that a drive is gone.
    let mut rounds = 0;
    while !saboteur.heal().await {
        rounds += 1;
        if rounds > ROUNDS_MAX {
            let states = machine.drives().into_iter().map(|drive| (machine.state(&drive), drive));
            machine.fail(format_args!(
                "the array does not become whole: {:?}, {:?}",
                machine.array.jobs(),
                states.collect::<Vec<_>>()
            ));
        }
        for drive in machine.drives() {
            saboteur.repair(&drive).await;
        }
        saboteur.dismiss().await;
        if rounds == PATIENCE_ROUNDS && machine.array.jobs().is_empty() {
            saboteur.keep().await;
            saboteur.supply().await;
        }
        // Disks that are missing count as such only after a while.
        machine.env.sleep(Duration::from_secs(10)).await;
    }
}

/// After a start with all drives there and well: within minutes the array is whole by itself. Only a drive
/// that has left it, because all that was on it was restored on others, must be given to it anew.
pub(crate) async fn settle<S: Subject>(machine: &Rc<Machine<S>>) {
    for _ in 0..ROUNDS_MAX {
        for drive in machine.drives().iter().filter(|drive| machine.state(drive).is_none()) {
            Saboteur(machine).swap(drive).await;
        }
        machine.believe();
        if machine.budget.victims.borrow().is_empty() {
            return;
        }
        machine.env.sleep(Duration::from_secs(10)).await;
    }
    machine.fail("all drives are there and well, but the array does not become whole");
}

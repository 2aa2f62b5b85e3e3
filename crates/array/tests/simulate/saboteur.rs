//! Breaks drives, within what the array must survive, and has them replaced.
//!
//! The budget, and why it is sound: at most one drive, the victim, may not be what it should be,
//! and every level in use survives the loss of any one drive. Another drive can become the victim
//! only after the array has all drives online, has scrubbed them and has found nothing wrong in a
//! check of everything. What is still damaged on the victim then lies in space that nobody refers
//! to; so that it cannot matter later beside the damage of another drive, it is forgiven.

use std::rc::Rc;
use std::time::Duration;

use array::Env;
use array::api::DiskState;

use crate::disk::{Condition, Drive};
use crate::machine::Machine;
use crate::scenario::Theme;
use crate::subject::Subject;
use crate::verify;

/// Repairs, each with ten seconds for the array to do its part, after which it must be whole.
const ROUNDS_MAX: u32 = 30;

/// Breaks things for ever: the boot ends it.
pub(crate) async fn saboteur<S: Subject>(machine: Rc<Machine<S>>) {
    let saboteur = Saboteur(&machine);
    loop {
        machine.pause(20_000).await;
        match machine.scenario.theme {
            _ if machine.random.one_in(8) => saboteur.slow().await,
            Theme::Faults => saboteur.damage().await,
            Theme::Disks => saboteur.membership().await,
            Theme::Plain | Theme::Full | Theme::Snapshots => {}
        }
    }
}

struct Saboteur<'a, S>(&'a Rc<Machine<S>>);

impl<S: Subject> Saboteur<'_, S> {
    /// The drive that may be hurt.
    fn victim(&self) -> Drive {
        let mut victim = self.0.victim.borrow_mut();
        victim.get_or_insert_with(|| self.0.random.pick(&self.0.drives()).clone()).clone()
    }

    /// Harmless, and in nobody's budget.
    async fn slow(&self) {
        let drives = self.0.drives();
        let drive = self.0.random.pick(&drives);
        let slow = !drive.condition().slow;
        drive.set_condition(Condition { slow, ..drive.condition() });
        self.0.pause(5_000).await;
    }

    /// A fault of the medium, of a write, or of the way to it.
    async fn damage(&self) {
        let drive = self.victim();
        if self.state(&drive) != Some(DiskState::Online) {
            return self.repair(&drive).await;
        }
        match self.0.random.below(9) {
            0 | 1 => drop(drive.latent_error()),
            2 | 3 => drop(drive.flip_bit()),
            4 => drive.lose_write(),
            5 => drive.misdirect_write(),
            6 => {
                let failing_writes = self.0.random.between(1, 3) as u32;
                drive.set_condition(Condition { failing_writes, ..drive.condition() });
            }
            7 => {
                let (unreachable, full) = *self.0.random.pick(&[(true, false), (false, true)]);
                drive.set_condition(Condition { unreachable, full, ..drive.condition() });
                self.0.pause(20_000).await;
                let (unreachable, full) = (false, false);
                drive.set_condition(Condition { unreachable, full, ..drive.condition() });
            }
            _ => drop(heal(self.0).await),
        }
    }

    /// Drives go and come, by accident or by order.
    async fn membership(&self) {
        let drive = self.victim();
        if !drive.is_installed() {
            heal(self.0).await;
            return;
        }
        if self.state(&drive) != Some(DiskState::Online) || self.is_unplugged(&drive) {
            return self.repair(&drive).await;
        }
        match self.0.random.below(6) {
            0..2 => {
                self.0.env.note(format!("{drive:?} is unplugged"));
                drive.unplug();
                self.0.unplugged.borrow_mut().insert(drive.number());
            }
            2 => self.fail(&drive).await,
            3 => self.replace(&drive).await,
            4 => drop(heal(self.0).await),
            _ => {}
        }
    }

    fn state(&self, drive: &Drive) -> Option<DiskState> {
        let disks = self.0.array.disks();
        disks.iter().find(|disk| disk.name == drive.name()).map(|disk| disk.state)
    }

    fn is_unplugged(&self, drive: &Drive) -> bool {
        self.0.unplugged.borrow().contains(&drive.number())
    }

    async fn fail(&self, drive: &Drive) {
        self.0.env.note(format!("{drive:?} is declared failed"));
        let failed = self.0.array.fail_disk(&drive.name()).await;
        self.0.must("fail", failed);
    }

    async fn retire(&self, name: &str) {
        self.0.env.note(format!("{name} is to leave"));
        // There may be no room for its data elsewhere; then it stays.
        if let Err(refusal) = self.0.array.retire_disk(name).await {
            self.0.env.note(refusal.to_string());
        }
    }

    /// The spare drive comes in, and this one goes when it is empty.
    async fn replace(&self, drive: &Drive) {
        if let Some(spare) = self.0.spare() {
            spare.set_installed(true);
            self.swap(&spare).await;
            self.retire(&drive.name()).await;
        }
    }

    /// Does the next thing to get a drive back, or another one in its place.
    async fn repair(&self, drive: &Drive) {
        self.0.pause(50_000).await;
        drive.disarm();
        drive.set_condition(Condition::default());
        match self.state(drive) {
            Some(DiskState::Online) if self.is_unplugged(drive) => self.fail(drive).await,
            Some(DiskState::Missing) if self.0.random.one_in(2) => {
                self.0.env.note(format!("{drive:?} comes back"));
                let back = self.0.array.add_disk(drive).await;
                // The array may have found it already; and what was damaged too much to be known
                // again is as good as another drive.
                match back {
                    _ if self.state(drive) != Some(DiskState::Missing) => {
                        self.0.unplugged.borrow_mut().remove(&drive.number());
                    }
                    Err(refusal) if drive.damaged() > 0 => {
                        self.0.env.note(refusal.to_string());
                        self.swap(drive).await;
                    }
                    back => self.0.must("return", back),
                }
            }
            Some(DiskState::Missing) => {
                let old = drive.name();
                self.swap(drive).await;
                self.retire(&old).await;
            }
            // It has left.
            None if self.0.spare().is_none() => {
                drive.set_installed(false);
            }
            Some(DiskState::Failed) | None => self.swap(drive).await,
            Some(_) => {}
        }
    }

    /// A blank drive comes in place of this one.
    async fn swap(&self, drive: &Drive) {
        drive.wipe();
        self.0.unplugged.borrow_mut().remove(&drive.number());
        self.0.env.note(format!("{drive:?} is a blank one now"));
        let added = self.0.array.add_disk(drive).await;
        self.0.must("add", added);
    }

    /// Members without a drive are given up.
    async fn dismiss(&self) {
        let names: Vec<String> = self.0.drives().iter().map(Drive::name).collect();
        for disk in self.0.array.disks() {
            if disk.state == DiskState::Missing && !names.contains(&disk.name) {
                self.retire(&disk.name).await;
            }
        }
    }

    /// Whether every drive is a member that is well, and every member such a drive.
    fn is_whole(&self) -> bool {
        let drives = self.0.drives();
        // One that erred too often stays in use where nothing can take its place.
        let may_err = self.0.scenario.theme == Theme::Faults;
        let is_used = |state| state == DiskState::Online || may_err && state == DiskState::Suspect;
        let well =
            |drive: &Drive| self.state(drive).is_some_and(is_used) && !self.is_unplugged(drive);
        drives.iter().all(well) && self.0.array.disks().len() == drives.len()
    }
}

/// Has the array find and repair all damage. If it is whole again, another drive may be hurt.
async fn heal<S: Subject>(machine: &Rc<Machine<S>>) -> bool {
    for drive in machine.drives() {
        drive.disarm();
        drive.set_condition(Condition { slow: drive.condition().slow, ..Condition::default() });
    }
    let was_whole = Saboteur(machine).is_whole();
    let generation = machine.array.info().generation;
    let report = machine.must("scrub", machine.array.scrub().await);
    verify::idle(machine).await;
    if !Saboteur(machine).is_whole() {
        return false;
    }
    // A drive that had failed before may go out only now; what it lacks cannot be repaired then.
    let stayed_whole = was_whole && machine.array.info().generation == generation;
    if stayed_whole && !report.problems.is_empty() {
        machine.fail(format_args!("the scrub found {:#?}", report.problems));
    }
    verify::check(machine).await;
    if machine.scenario.theme != Theme::Faults {
        // Where no drive erred, whatever had to be repaired was the array's own mistake.
        for disk in machine.array.disks() {
            if disk.healed_blocks == 0 || disk.errors_read == 0 {
                continue;
            }
            machine.fail(format_args!("blocks were rewritten on a drive that is well: {disk:?}"));
        }
    }
    for drive in machine.drives() {
        drive.forgive();
    }
    machine.env.note("all drives are well");
    *machine.victim.borrow_mut() = None;
    true
}

/// Ends all trouble: every drive is there and online, and nothing is damaged.
pub(crate) async fn peace<S: Subject>(machine: &Rc<Machine<S>>) {
    for drive in machine.drives() {
        drive.set_condition(Condition::default());
    }
    let saboteur = Saboteur(machine);
    // An array may notice only in the scrub that a drive is gone.
    let mut rounds = 0;
    while !heal(machine).await {
        rounds += 1;
        if rounds > ROUNDS_MAX {
            machine
                .fail(format_args!("the array does not become whole: {:?}", machine.array.jobs()));
        }
        for drive in machine.drives() {
            saboteur.repair(&drive).await;
        }
        saboteur.dismiss().await;
        // Disks that are missing count as such only after a while.
        machine.env.sleep(Duration::from_secs(10)).await;
    }
}

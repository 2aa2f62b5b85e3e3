//! Breaks drives, within what the array must survive, and has them replaced.
//!
//! The budget, and why it is sound: at most so many drives as every level in use survives, the
//! victims, may not be what they should be. Another drive can become one only after the array has
//! all drives online, has scrubbed them and has found nothing wrong in a check of everything. What
//! is still damaged on a victim then lies in space that nobody refers to, under a parity that was
//! proved with it. Nobody refers yet to what a write that is under way has put on a drive, so it must
//! be answered before that check. Where drives come and go but keep what they were given, the array's
//! word that it is whole is enough.
//!
//! In two themes faults that pass hit more drives than that. The array may refuse anything until its
//! next start then; but nothing is gone for good, so nothing may be lost.

mod orders;
mod repair;

use std::rc::Rc;
use std::time::Duration;

use array::Env;
use array::api::DiskState;
use futures_util::future::select;

use crate::disk::{Condition, Drive};
use crate::machine::Machine;
use crate::memory;
use crate::scenario::Theme;
use crate::subject::Subject;

pub(crate) use orders::disk_operator;
pub(crate) use repair::{peace, settle};

/// Breaks things for ever: the boot ends it.
pub(crate) async fn saboteur<S: Subject>(machine: Rc<Machine<S>>) {
    let saboteur = Saboteur(&machine);
    loop {
        machine.pause(20_000).await;
        machine.believe();
        match machine.scenario.theme {
            _ if machine.random.one_in(8) => saboteur.slow().await,
            Theme::Faults => saboteur.damage().await,
            Theme::Disks => saboteur.membership().await,
            Theme::Pairs | Theme::Crowd if machine.random.one_in(2) => saboteur.damage().await,
            Theme::Pairs | Theme::Crowd => saboteur.membership().await,
            Theme::Starts => saboteur.come_and_go().await,
            Theme::Passing => saboteur.passing().await,
            Theme::Beyond => saboteur.beyond().await,
            Theme::Moments => saboteur.moments().await,
            Theme::Scarcity => saboteur.scarcity().await,
            Theme::Rot => saboteur.rot().await,
            Theme::Silence => saboteur.silence().await,
            Theme::Walks if machine.random.one_in(2) => saboteur.membership().await,
            Theme::Plain | Theme::Full | Theme::Snapshots | Theme::Walks | Theme::Images => {}
        }
    }
}

struct Saboteur<'a, S>(&'a Rc<Machine<S>>);

impl<S: Subject> Saboteur<'_, S> {
    /// A drive that may be hurt, and is a victim from now on; or one to be repaired first, which
    /// [`may_hurt`](Machine::may_hurt) tells. `None` when there is only one that is needed.
    fn victim(&self) -> Option<Drive> {
        let drives = self.0.drives();
        let allowed: Vec<_> = drives.iter().filter(|drive| self.0.may_hurt(drive)).collect();
        if allowed.is_empty() {
            // It was put on the shelf while it was one, or is a new one in its place.
            return self.0.budget.victims.borrow().first().cloned();
        }
        let victim = (*self.0.random.pick(&allowed)).clone();
        self.0.hurts(&victim);
        Some(victim)
    }

    /// Whether nothing more can be done to a drive before it is repaired.
    fn is_to_repair(&self, drive: &Drive) -> bool {
        !self.0.may_hurt(drive) || self.0.state(drive) != Some(DiskState::Online)
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
        let Some(drive) = self.victim() else { return };
        if self.is_to_repair(&drive) {
            return self.repair(&drive).await;
        }
        match self.0.random.below(11) {
            0 | 1 => drop(drive.latent_error()),
            2 | 3 => drop(drive.flip_bit()),
            4 => drive.lose_write(),
            5 => drive.misdirect_write(),
            6..10 => self.fault(&[drive]).await,
            _ => self.heal_now().await,
        }
    }

    /// Something is wrong with all of these at once, and passes.
    async fn fault(&self, drives: &[Drive]) {
        let random = &self.0.random;
        let some = random.between(1, 3) as u32;
        let well = Condition::default();
        let (fault, lasts) = *random.pick(&[
            (Condition { failing_writes: some, ..well }, false),
            (Condition { failing_reads: some, ..well }, false),
            (Condition { failing_flushes: some, ..well }, false),
            (Condition { failing_writes: u32::MAX, ..well }, true),
            (Condition { failing_flushes: u32::MAX, ..well }, true),
            (Condition { unreachable: true, ..well }, true),
            (Condition { full: true, ..well }, true),
        ]);
        for drive in drives {
            drive.set_condition(Condition { slow: drive.condition().slow, ..fault });
        }
        if !lasts {
            return;
        }
        self.0.pause(20_000).await;
        for drive in drives {
            drive.set_condition(Condition { slow: drive.condition().slow, ..well });
        }
    }

    /// Drives go and come, by accident or by order.
    async fn membership(&self) {
        let Some(drive) = self.victim() else { return };
        let is_there = drive.is_installed() && !self.is_unplugged(&drive);
        if !is_there || self.is_to_repair(&drive) {
            return self.repair(&drive).await;
        }
        match self.0.random.below(6) {
            0 => self.pull(&drive),
            1 => {
                self.pull(&drive);
                // Whoever brings it back has restored it from a backup. The array had it in since it was
                // made, so that the labels tell.
                if self.0.scenario.theme == Theme::Disks {
                    drive.turn_back();
                }
            }
            2 => self.fail(&drive).await,
            3 => self.replace(&drive).await,
            4 => self.heal_now().await,
            _ => {}
        }
    }

    fn pull(&self, drive: &Drive) {
        drive.pull();
        self.0.unplugged.borrow_mut().insert(drive.number());
    }

    /// Drives that were away come back, others go; nothing is ever damaged.
    async fn come_and_go(&self) {
        self.0.pause(100_000).await;
        let victims = self.0.budget.victims.borrow().clone();
        for drive in &victims {
            match self.0.random.below(4) {
                0 if drive.is_installed() => self.repair(drive).await,
                // Long enough to be given up.
                1 if self.0.random.one_in(4) => self.0.env.sleep(Duration::from_secs(70)).await,
                _ => {}
            }
        }
        if victims.is_empty() && self.0.random.one_in(4) {
            let Some(drive) = self.victim() else { return };
            match self.0.random.below(3) {
                0 => self.pull(&drive),
                _ => self.fault(&[drive]).await,
            }
        }
    }

    /// Faults of a few drives or of all, at once, that pass.
    async fn passing(&self) {
        let mut drives = self.0.drives();
        self.0.random.shuffle(&mut drives);
        let few = self.0.scenario.losses();
        let count = match self.0.random.below(8) {
            0 => drives.len(),
            1 => self.0.random.between(1, drives.len() as u64) as usize,
            2..6 => few,
            _ => return self.0.env.sleep(Duration::from_secs(7)).await,
        };
        drives.truncate(count);
        for drive in &drives {
            self.0.hurts(drive);
            // Of the disks for the journal alone it may need every one.
            if drive.is_for_journal() && !self.0.budget.overtaxed.replace(true) {
                self.0.env.note("a journal disk is hurt");
            }
        }
        self.fault(&drives).await;
        self.0.env.sleep(Duration::from_millis(self.0.random.below(8_000))).await;
    }

    /// One or two drives more than a level bears refuse writes for some seconds, or for more than a
    /// minute, and most often come back one after the other.
    async fn beyond(&self) {
        let random = &self.0.random;
        let mut drives = self.0.drives();
        drives.retain(|drive| !drive.is_for_journal());
        random.shuffle(&mut drives);
        drives.truncate(self.0.scenario.losses() + random.between(1, 2) as usize);
        self.0.env.sleep(Duration::from_millis(random.below(12_000))).await;
        let well = Condition::default();
        let fault = *random.pick(&[
            Condition { failing_writes: u32::MAX, ..well },
            Condition { failing_flushes: u32::MAX, ..well },
            Condition { unreachable: true, ..well },
            Condition { full: true, ..well },
        ]);
        let (is_long, is_staggered) = (random.one_in(4), random.one_in(3));
        for drive in &drives {
            self.0.hurts(drive);
            drive.set_condition(fault);
            let pause = if is_staggered { random.below(15_000) } else { 0 };
            self.0.env.sleep(Duration::from_millis(pause)).await;
        }
        let grace = if is_long { 60_000 } else { 0 };
        self.0.env.sleep(Duration::from_millis(grace + random.below(20_000))).await;
        for drive in &drives {
            drive.set_condition(well);
            let pause = if is_long { 80_000 } else { 3_000 };
            self.0.env.sleep(Duration::from_millis(random.below(pause))).await;
        }
    }

    /// Several drives refuse writes for moments, one after the other or at once: most of them are back
    /// before anybody has noticed, and have missed a part of what was under way.
    async fn moments(&self) {
        let random = &self.0.random;
        let mut drives = self.0.drives();
        random.shuffle(&mut drives);
        drives.truncate(random.between(1, drives.len() as u64) as usize);
        self.moment().await;
        let well = Condition::default();
        let fault = *random.pick(&[
            Condition { failing_writes: u32::MAX, ..well },
            Condition { failing_flushes: u32::MAX, ..well },
            Condition { full: true, ..well },
        ]);
        let spread = *random.pick(&[300, 3_000, 60_000]);
        let mut turns = Vec::new();
        for drive in &drives {
            self.0.hurts(drive);
            let begins = random.below(spread);
            let lasts = random.below(*random.pick(&[500, 5_000, 100_000]));
            turns.extend([(begins, drive, fault), (begins + lasts, drive, well)]);
        }
        turns.sort_by_key(|(at, ..)| *at);
        let mut now = 0;
        for (at, drive, condition) in turns {
            self.0.env.sleep(Duration::from_micros(at - now)).await;
            drive.set_condition(condition);
            now = at;
        }
    }

    /// Buffers are refused, and are there again: what was asked for meanwhile may be refused, but
    /// nothing stops for good.
    async fn scarcity(&self) {
        let (random, env) = (&self.0.random, &self.0.env);
        self.0.budget.overtaxed.set(true);
        if self.0.closing.get() {
            std::future::pending::<()>().await;
        }
        let one_in = *random.pick(&[1, 2, 4, 20]);
        env.note(format!("one in {one_in} buffers is refused"));
        memory::refuse(one_in, random.word());
        env.sleep(Duration::from_millis(random.below(*random.pick(&[5, 100, 3_000])))).await;
        memory::refuse(0, 0);
        env.note("there is memory again");
        env.sleep(Duration::from_millis(random.below(6_000))).await;
    }

    /// Any moment, or one in the middle of a checkpoint.
    async fn moment(&self) {
        let (random, env) = (&self.0.random, &self.0.env);
        if random.one_in(3) {
            let pause = *random.pick(&[200, 1_500, 12_000]);
            return env.sleep(Duration::from_millis(random.below(pause))).await;
        }
        let writes = random.between(1, 4);
        let telling = async {
            for _ in 0..writes {
                env.next_telling_write().await;
            }
        };
        let patience = env.sleep(Duration::from_secs(30));
        select(std::pin::pin!(telling), std::pin::pin!(patience)).await;
    }

    /// A drive rots where nobody looks, in data and in free space.
    async fn rot(&self) {
        let Some(drive) = self.victim() else { return };
        if self.is_to_repair(&drive) {
            return self.repair(&drive).await;
        }
        match self.0.random.below(8) {
            0..3 => {
                let percent = *self.0.random.pick(&[1, 5, 30, 100]);
                drive.rot(percent, self.0.random.one_in(8));
                self.0.pause(50_000).await;
            }
            3 => drop(drive.latent_error()),
            4 => self.heal_now().await,
            _ => self.0.pause(50_000).await,
        }
    }

    /// A drive does not answer for a while, or never again: each request fails after minutes then.
    async fn silence(&self) {
        let Some(drive) = self.victim() else { return };
        if self.is_to_repair(&drive) {
            return self.repair(&drive).await;
        }
        let seconds = match self.0.random.below(4) {
            0 => self.0.random.between(1, 20),
            1 => self.0.random.between(20, 400),
            // The end of the boot ends it.
            2 => u64::MAX,
            _ => return self.heal_now().await,
        };
        drive.set_condition(Condition { silent: true, ..drive.condition() });
        match seconds {
            u64::MAX => std::future::pending().await,
            _ => self.0.env.sleep(Duration::from_secs(seconds)).await,
        }
        drive.set_condition(Condition { silent: false, ..drive.condition() });
    }

    /// Whether it works or not: there may be more to repair first.
    pub(super) async fn heal_now(&self) {
        self.heal().await;
    }

    fn is_unplugged(&self, drive: &Drive) -> bool {
        self.0.unplugged.borrow().contains(&drive.number())
    }
}

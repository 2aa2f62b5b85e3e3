//! Nothing waits for ever: when nothing bad happens any more, whatever is under way ends.
//!
//! From each world one way is followed on which all disks work and are there, and nobody asks for anything: an
//! opening ends, disks that were out are taken back and given what they missed, what the journal has gets into its
//! place. Only two histories wait for somebody to choose.

use std::collections::HashSet;
use std::hash::BuildHasher;

use super::*;

/// More steps than it ever takes.
const STEPS_MAX: usize = 200;

impl World {
    /// Whether all ends well from here, if nothing bad happens any more. `settled` knows of worlds of which it does.
    pub(in crate::membership::tests) fn settles<S: BuildHasher>(
        &self,
        limits: &Limits,
        settled: &mut HashSet<u64, S>,
    ) -> Result<(), String> {
        let mut world = self.clone();
        for _ in 0..STEPS_MAX {
            if !settled.insert(world.key(limits)) {
                return Ok(());
            }
            match world.calm_step(limits)? {
                Some(next) => world = next,
                None => return world.check_settled(),
            }
        }
        Err(format!("it goes on for ever: {}", world.brief()))
    }

    /// One step in which nothing bad happens; `None` when there is nothing to do.
    fn calm_step(&self, limits: &Limits) -> Result<Option<Self>, String> {
        if self.disks.iter().any(|disk| disk.refuses) {
            let mut next = self.clone();
            next.disks.iter_mut().for_each(|disk| disk.refuses = false);
            return Ok(Some(next));
        }
        let (crashes, faults) = (self.crashes, self.faults);
        let (orders, writes) = (limits.orders, self.writes);
        let calm = Limits { crashes, faults, orders, writes, ..*limits };
        let mut out = Vec::new();
        match self.run.as_ref().map(|run| run.phase.clone()) {
            None => self.start_with(self.labelled(), &calm, Flaw::None, &mut out),
            Some(Phase::Idle) => {
                self.returns(Flaw::None, &mut out);
                let run = self.run();
                if out.is_empty() && self.written() != run.known {
                    let mut own = self.clone();
                    own.run_mut().phase = Phase::Wave;
                    out.push(Ok(own));
                }
            }
            Some(phase) => self.clone().go(phase, &calm, Flaw::None, &mut out),
        }
        out.into_iter().next().transpose()
    }

    /// Nothing is to be done any more: all disks are in, and have all, or it is known why not.
    fn check_settled(&self) -> Result<(), String> {
        let tips = self.newest_labels();
        let is_one = tips.iter().any(|tip| tips.iter().all(|other| other.led_to(tip)));
        // What is lost with disks that have lost all may be beyond what the level survives.
        if !is_one || self.cuts > 0 || self.images > 0 {
            return Ok(());
        }
        let Some(run) = &self.run else { return Err("it is never opened".into()) };
        // So may be what disks were given that were out, as many as that, until a record says that they have it: that they
        // have it all the same is told by checksums, which disks have here not.
        let lack = run.now.seats.iter().filter(|seat| run.now.stale & bit(**seat) != 0).count();
        if lack > self.losses {
            return Ok(());
        }
        let used = run.label.members.iter().filter(|record| record.is_used());
        for record in used {
            let number = record.disk.0 as u8;
            if self.proof_has_left(run, number) || self.waits_for_a_start(run, number) {
                continue;
            }
            if record.state != MemberState::Active || run.full & bit(number) == 0 {
                return Err(format!("disk {number} is never taken back"));
            }
            if run.now.seats.contains(&number) && run.now.stale & bit(number) != 0
                || run.now.lacks[usize::from(number)] != 0
            {
                return Err(format!("disk {number} never gets what it lacks"));
            }
        }
        if self.written() != run.known {
            return Err("what the journal has never gets into its place".into());
        }
        Ok(())
    }

    /// Whether a disk carries a label of which those that are in cannot show that it was cut off, and others that are out
    /// can: who comes back is looked at alone, and a start looks at all (docs/array.md, what is not there yet).
    fn waits_for_a_start(&self, run: &Run, number: u8) -> bool {
        let label = |number: u8| self.disks[usize::from(number)].label.as_deref();
        let is_known = label(number).is_none_or(|theirs| may_return(theirs, &run.label));
        let all = ids(self.labelled()).into_iter().filter_map(|disk| label(disk.0 as u8));
        let found: Vec<_> = all.map(|label| (String::new(), found_cut(label, false))).collect();
        let uses = |opening: &Opening| {
            run.label.led_to(&opening.label)
                && opening.stale.iter().any(|(present, _)| present.disk == DiskId(number.into()))
        };
        !is_known && choose(&found, false).is_ok_and(|opening| uses(&opening))
    }

    /// Whether a disk carries a label that was cut off, and who shows that has left the array: it passes for a part
    /// that went on alone, and is to be taken in as a blank disk (docs/array.md, what is not there yet).
    fn proof_has_left(&self, run: &Run, number: u8) -> bool {
        let theirs = self.disks[usize::from(number)].label.as_deref();
        let has_left = |disk: DiskId| {
            let record = run.label.member(disk);
            record.is_some_and(|record| record.state == MemberState::Retired)
        };
        theirs.is_some_and(|theirs| {
            !may_return(theirs, &run.label)
                && theirs.lineage().next().is_some_and(|(g, c)| run.label.came_of(g, c, theirs))
                && theirs.active().any(has_left)
        })
    }

    /// A refusal names a disk with which there is more: it ends when what is missing comes back.
    pub(super) fn check_named(
        &self,
        there: u8,
        labelled: u8,
        refusal: &OpenRefusal,
    ) -> Result<(), String> {
        let away = |name: &String| {
            let number = name.strip_prefix("disk ").and_then(|number| number.parse::<u8>().ok());
            number.is_some_and(|number| labelled & !there & bit(number) != 0)
        };
        let names = refusal.missing();
        // Of old copies nobody can say where the right disks are.
        let may_not =
            matches!(refusal, OpenRefusal::TwoHistories { .. } | OpenRefusal::OldDisks { .. });
        if there == labelled || may_not || names.iter().any(away) {
            return Ok(());
        }
        Err(format!("refused, and names nobody who would help: {refusal}"))
    }
}

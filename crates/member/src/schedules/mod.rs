//! Takes snapshots when schedules say so, and deletes the oldest of those that it took itself.
//!
//! What is due follows from the schedule, its record and the clock ([`Schedule::due`]); each step is stored
//! before the next one is made. So whenever the process ends:
//!
//! - before [`Step::Begin`] is stored, the moment is run after the start, or missed;
//! - after it, the moment is never run again. What was taken is found by its name before anybody else can
//!   have taken one ([`adopt`]), and by its number from [`Step::End`] on.
//!
//! Schedules run one after the other, each while nobody else takes snapshots ([`World::alone`]).

#[cfg(test)]
mod tests;
pub(crate) mod world;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use group::calendar::Moment;
use group::schedules::{Begun, Due, Own, Run, Schedule, Step, snapshot_name};

use crate::events::{Event, Kind, ObjectKind};
use crate::mutants::{self, Mutant};
use world::{Deleted, World};

/// The clock is looked at this often while there are schedules: it may have jumped.
const NAP_SECONDS: u64 = 30;

/// Runs schedules.
#[derive(Debug)]
pub(crate) struct Runner<W> {
    world: W,
    /// This process has looked at its schedules before.
    has_looked: bool,
    /// Steps that end a run and could not be stored.
    unstored: BTreeMap<String, Step>,
    /// Moments whose run could not even be begun.
    not_begun: BTreeMap<String, u64>,
    /// Snapshots of which it was told that they are in use.
    told: BTreeSet<(u32, u32)>,
}

impl<W: World> Runner<W> {
    pub(crate) fn new(world: W) -> Self {
        Self {
            world,
            has_looked: false,
            unstored: BTreeMap::new(),
            not_begun: BTreeMap::new(),
            told: BTreeSet::new(),
        }
    }

    /// Runs schedules until the member stops.
    pub(crate) async fn run(mut self) {
        while !self.world.is_stopping() {
            let at_most = self.look().await;
            self.world.rest(at_most).await;
        }
    }

    /// Does what is due, and says when to look again at the latest; `None` if there is nothing to look for.
    async fn look(&mut self) -> Option<Duration> {
        let Some(names) = self.world.names() else {
            return Some(Duration::from_secs(NAP_SECONDS));
        };
        let now = self.world.now_unix_seconds();
        let is_first = !std::mem::replace(&mut self.has_looked, true);
        for name in &names {
            if self.world.is_stopping() {
                return None;
            }
            if is_first {
                self.prune_all(name).await;
            }
            self.attend(name, now).await;
        }
        let now = self.world.now_unix_seconds();
        let next =
            names.iter().filter_map(|name| self.world.schedule(name)?.next_unix_seconds(now));
        let seconds = next.min()?.saturating_sub(now).clamp(1, NAP_SECONDS);
        Some(Duration::from_secs(seconds))
    }

    /// Does what is due of one schedule.
    async fn attend(&mut self, name: &str, now: u64) {
        let is_idle = |schedule: &Schedule| {
            schedule.begun().is_none() && matches!(schedule.due(now), Due::At(_) | Due::Never)
        };
        if self.world.schedule(name).is_none_or(|schedule| is_idle(&schedule)) {
            return;
        }
        let _alone = self.world.alone().await;
        // It may have changed meanwhile.
        let Some(schedule) = self.world.schedule(name) else { return };
        if let Some(begun) = schedule.begun()
            && !self.store_end(name, begun).await
        {
            return;
        }
        let Some(schedule) = self.world.schedule(name) else { return };
        match schedule.due(now) {
            Due::At(_) | Due::Never => {}
            Due::Run { planned, .. } if self.not_begun.get(name) == Some(&planned) => {}
            Due::Run { planned, missed } => self.run_one(name, &schedule, planned, missed).await,
            Due::Missed { planned, .. } if mutants::is(Mutant::CatchUp) => {
                self.run_one(name, &schedule, planned, 0).await;
            }
            Due::Missed { planned, missed } => {
                // Why was told when it could not be begun.
                let is_told = self.not_begun.get(name) == Some(&planned);
                let step = if is_told { Step::Fail { planned } } else { Step::Miss { planned } };
                match self.world.step(name, step).await {
                    Ok(()) if is_told => {
                        self.tell_missed_before(name, &schedule, planned, missed - 1);
                    }
                    Ok(()) => self.tell_missed(name, planned, missed),
                    Err(why) => self.cannot_begin(name, planned, &why),
                }
            }
            Due::SetBack { from } => {
                if self.world.step(name, Step::SetBack { now }).await.is_ok() {
                    let text = format!(
                        "the clock was set back from {} or later to {}: schedule '{name}' goes on from there",
                        Moment::of(from),
                        Moment::of(now)
                    );
                    self.tell(Kind::ScheduleMissed, name, text);
                }
            }
        }
    }

    /// Stores the end of a run whose end is not. What is not known of it is given up: a snapshot that may be
    /// somebody else's is nobody's.
    async fn store_end(&mut self, name: &str, begun: &Begun) -> bool {
        if let Some(step) = self.unstored.get(name) {
            let is_stored = self.world.step(name, step.clone()).await.is_ok();
            if is_stored {
                self.unstored.remove(name);
            }
            return is_stored;
        }
        if self.world.step(name, Step::Abandon).await.is_err() {
            return false;
        }
        let Begun { planned_unix_seconds, name: snapshot, .. } = begun;
        let text = format!(
            "schedule '{name}' was cut short at its run of {}: if there is a snapshot '{snapshot}', the schedule does not count it and will never delete it",
            Moment::of(*planned_unix_seconds)
        );
        self.tell(Kind::ScheduleFailed, name, text);
        true
    }

    /// Takes the snapshots of one moment, then deletes those that are too many.
    async fn run_one(&mut self, name: &str, schedule: &Schedule, planned: u64, missed: u64) {
        let is_there = |id: &u32| self.world.volume(*id).is_some();
        let all = &schedule.plan.volumes;
        let volumes: Vec<u32> = all.iter().map(|volume| volume.id).filter(is_there).collect();
        let absent = all.iter().filter(|volume| !volumes.contains(&volume.id));
        let absent: Vec<String> = absent.map(|volume| format!("'{}'", volume.name)).collect();
        if volumes.is_empty() {
            match self.world.step(name, Step::Fail { planned }).await {
                Ok(()) => {
                    self.tell_missed_before(name, schedule, planned, missed);
                    self.tell_failed(name, planned, "none of its volumes is there");
                }
                Err(why) => self.cannot_begin(name, planned, &why),
            }
            return;
        }
        let known = volumes.iter().filter_map(|id| self.world.snapshots(*id));
        let taken: BTreeSet<String> = known.flatten().map(|seen| seen.name).collect();
        let snapshot = snapshot_name(name, planned, |name| taken.contains(name));
        let begun = Begun {
            planned_unix_seconds: planned,
            name: snapshot.clone(),
            volumes: volumes.clone(),
        };
        let begin = Step::Begin(begun);
        if !mutants::is(Mutant::LateBegin)
            && let Err(why) = self.world.step(name, begin.clone()).await
        {
            self.cannot_begin(name, planned, &why);
            return;
        }
        self.tell_missed_before(name, schedule, planned, missed);
        let snapshots = match self.world.take(&volumes, &snapshot).await {
            Ok(snapshots) => snapshots,
            Err(why) => {
                self.tell_failed(name, planned, &why);
                self.end(name, Step::Fail { planned }).await;
                return;
            }
        };
        if mutants::is(Mutant::LateBegin) && self.world.step(name, begin).await.is_err() {
            return;
        }
        let in_part = !absent.is_empty();
        if in_part {
            let text = format!(
                "schedule '{name}' took '{snapshot}' without {}: not there, in the recycle bin, or without its disks",
                absent.join(", ")
            );
            self.tell(Kind::ScheduleIncomplete, name, text);
        }
        let run = Run { planned_unix_seconds: planned, snapshots };
        self.end(name, Step::End { run, in_part }).await;
        self.prune(name, volumes).await;
    }

    /// Stores how a run ended, now or later.
    async fn end(&mut self, name: &str, step: Step) {
        if let Err(why) = self.world.step(name, step.clone()).await {
            self.unstored.insert(name.to_owned(), step);
            let text = format!("how schedule '{name}' goes on cannot be stored for now: {why}");
            self.tell(Kind::ScheduleFailed, name, text);
        }
    }

    fn cannot_begin(&mut self, name: &str, planned: u64, why: &str) {
        let before = self.not_begun.insert(name.to_owned(), planned);
        if before != Some(planned) {
            self.tell_failed(name, planned, why);
        }
    }

    async fn prune_all(&mut self, name: &str) {
        let _alone = self.world.alone().await;
        let Some(schedule) = self.world.schedule(name) else { return };
        let volumes = schedule.plan.volumes.iter().map(|volume| volume.id);
        let volumes = volumes.filter(|id| self.world.volume(*id).is_some()).collect();
        self.prune(name, volumes).await;
    }

    /// Deletes what is too many of each volume, and notes all of it at once.
    async fn prune(&mut self, name: &str, volumes: Vec<u32>) {
        let mut gone = Vec::new();
        for volume in volumes {
            self.prune_volume(name, volume, &mut gone).await;
        }
        // If this is not stored, they are found to be gone next time.
        if !gone.is_empty()
            && let Err(why) = self.world.step(name, Step::Forget(gone)).await
        {
            tracing::warn!("what schedule '{name}' has deleted is not noted: {why}");
        }
    }

    /// Deletes the oldest own snapshots of a volume until there are as many as are to be kept, apart from
    /// those in use. `gone` gets those that are not there any more.
    async fn prune_volume(&mut self, name: &str, volume: u32, gone: &mut Vec<Own>) {
        let Some(schedule) = self.world.schedule(name) else { return };
        let Some(seen) = self.world.snapshots(volume) else { return };
        let is_there = |own: &Own| seen.iter().any(|seen| seen.id == own.snapshot);
        let (there, not_there): (Vec<Own>, Vec<Own>) = if mutants::is(Mutant::OwnByName) {
            let own = seen.iter().filter(|seen| seen.name.starts_with(name));
            (own.map(|seen| Own { volume, snapshot: seen.id }).collect(), Vec::new())
        } else {
            schedule.own(volume).partition(is_there)
        };
        gone.extend(not_there);
        let extra = there.len().saturating_sub(schedule.plan.keep as usize);
        for own in &there[..extra] {
            let named = seen.iter().find(|seen| seen.id == own.snapshot);
            let named = named.map_or("", |seen| seen.name.as_str());
            match self.world.delete(*own).await {
                Ok(Deleted::Gone) => gone.push(*own),
                Ok(Deleted::InUse(why)) => self.tell_kept(name, *own, named, why),
                Err(why) => {
                    let text =
                        format!("schedule '{name}' could not delete its snapshot '{named}': {why}");
                    self.tell(Kind::ScheduleFailed, name, text);
                }
            }
        }
    }

    /// Once for each snapshot.
    fn tell_kept(&mut self, name: &str, own: Own, snapshot: &str, why: &str) {
        if self.told.insert((own.volume, own.snapshot)) {
            let volume = self.world.volume(own.volume).unwrap_or_default();
            let text = format!(
                "schedule '{name}' keeps snapshot '{snapshot}' of '{volume}' although it has enough later ones: {why}"
            );
            self.tell(Kind::SnapshotKept, name, text);
        }
    }

    /// So many before the moment that is run.
    fn tell_missed_before(&self, name: &str, schedule: &Schedule, planned: u64, missed: u64) {
        let before = schedule.plan.timing.last_until(planned - 1).filter(|_| missed > 0);
        if let Some(last) = before {
            self.tell_missed(name, last, missed);
        }
    }

    fn tell_missed(&self, name: &str, last: u64, missed: u64) {
        let last = Moment::of(last);
        let runs = match missed {
            1 => format!("the run of {last}"),
            _ => format!("{missed} runs, the last of them that of {last}"),
        };
        let text = format!(
            "schedule '{name}' missed {runs}, as the member was not running or its clock passed over: it goes on as planned"
        );
        self.tell(Kind::ScheduleMissed, name, text);
    }

    fn tell_failed(&self, name: &str, planned: u64, why: &str) {
        let text = format!(
            "schedule '{name}' took no snapshot at its run of {}, and goes on with the next: {why}",
            Moment::of(planned)
        );
        self.tell(Kind::ScheduleFailed, name, text);
    }

    fn tell(&self, kind: Kind, name: &str, text: String) {
        tell(&self.world, kind, name, text);
    }
}

fn tell(world: &impl World, kind: Kind, name: &str, text: String) {
    world.tell(Event::about(kind, ObjectKind::Schedule, name, text));
}

/// Settles runs that the end of the last process cut short. To be called before anybody can ask for a
/// snapshot: so a snapshot that has the name of such a run is its own, as the name was free when it began,
/// and nobody else took snapshots from then on.
pub(crate) async fn adopt(world: &impl World) {
    for name in world.names().unwrap_or_default() {
        let Some(begun) = world.schedule(&name).and_then(|schedule| schedule.begun().cloned())
        else {
            continue;
        };
        let Begun { planned_unix_seconds: planned, name: snapshot, volumes } = begun;
        let find = |volume: u32| {
            let seen = world.snapshots(volume)?.into_iter().find(|seen| seen.name == snapshot)?;
            Some(Own { volume, snapshot: seen.id })
        };
        let snapshots: Vec<Own> = volumes.into_iter().filter_map(find).collect();
        let is_taken = !snapshots.is_empty();
        let step = match is_taken {
            true => Step::Adopt(Run { planned_unix_seconds: planned, snapshots }),
            false => Step::Fail { planned },
        };
        // If it cannot be stored, what was taken is given up at the first look.
        let is_stored = world.step(&name, step).await.is_ok();
        if is_stored && !is_taken {
            let text = format!(
                "schedule '{name}' took no snapshot at its run of {}, as the member ended meanwhile",
                Moment::of(planned)
            );
            tell(world, Kind::ScheduleFailed, &name, text);
        }
    }
}

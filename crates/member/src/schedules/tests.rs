//! Random histories in virtual time: clocks that jump, ends of the process at any step, failures, operators.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::future::{pending, ready};
use std::pin::pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use group::schedules::{Plan, PlanChange, ScheduledVolume, Timing};
use proptest::prelude::*;

use super::*;
use world::Seen;

/// 2026-11-27 00:00:00 UTC.
const MIDNIGHT: u64 = 1_795_737_600;
const DAY: u64 = 86_400;

/// A snapshot, and what the test knows of it.
#[derive(Debug, Clone)]
struct Snapshot {
    id: u32,
    name: String,
    /// The schedule that has it; none has what an operator took and what was given up.
    of: Option<String>,
    is_used: bool,
}

/// What fails.
#[derive(Debug, Default)]
struct Faults {
    take: Cell<bool>,
    store: Cell<bool>,
    delete: Cell<bool>,
    unreadable: Cell<bool>,
    /// Calls of the world until the process ends.
    end_after: Cell<Option<u32>>,
}

#[derive(Debug, Default)]
struct Inner {
    now: Cell<u64>,
    schedules: RefCell<BTreeMap<String, Schedule>>,
    volumes: RefCell<BTreeMap<u32, Vec<Snapshot>>>,
    absent: RefCell<BTreeSet<u32>>,
    next_id: Cell<u32>,
    faults: Faults,
    /// How often each moment of each schedule has taken snapshots, since the clock was found to be wrong.
    taken: RefCell<BTreeMap<String, u32>>,
    /// Volumes of which snapshots were taken in this look.
    just_taken: RefCell<Vec<(String, u32)>>,
    /// How many snapshots each note says are gone.
    forgotten: RefCell<Vec<usize>>,
    /// What this process has said.
    said: RefCell<Vec<Event>>,
}

#[derive(Debug, Clone, Default)]
struct Sim(Rc<Inner>);

impl Sim {
    fn new() -> Self {
        let sim = Self::default();
        sim.0.now.set(MIDNIGHT + 100);
        // Names that begin like each other, and a volume of both.
        let schedules =
            [("a", 900, vec![1, 2], 3), ("a-b", 3600, vec![2], 2), ("c", DAY, vec![3], 1)];
        for (name, seconds, volumes, keep) in schedules {
            let volume = |id: u32| ScheduledVolume { id, name: format!("v{id}") };
            let volumes = volumes.into_iter().map(volume).collect();
            let plan = Plan { volumes, timing: Timing::Every { seconds }, keep, paused: false };
            let schedule = Schedule::new(plan, sim.0.now.get());
            sim.0.schedules.borrow_mut().insert(name.to_owned(), schedule);
        }
        for volume in 1..=3 {
            sim.0.volumes.borrow_mut().insert(volume, Vec::new());
        }
        sim
    }

    /// The process may end here.
    async fn step_of_process(&self) {
        match self.0.faults.end_after.get() {
            Some(0) => pending().await,
            Some(left) => self.0.faults.end_after.set(Some(left - 1)),
            None => ready(()).await,
        }
    }

    fn new_id(&self) -> u32 {
        self.0.next_id.set(self.0.next_id.get() + 1);
        self.0.next_id.get()
    }

    /// The schedule whose run has this name, and the name without a number behind it.
    fn of_run(&self, snapshot: &str) -> (String, String) {
        let schedules = self.0.schedules.borrow();
        let stamped = |name: &&String| {
            let rest = snapshot.strip_prefix(name.as_str()).and_then(|rest| rest.strip_prefix('-'));
            rest.is_some_and(|rest| rest.len() >= 15 && rest.as_bytes()[8] == b'-')
        };
        let name = schedules.keys().find(stamped).expect("the name of a run");
        (name.clone(), snapshot[..name.len() + 16].to_owned())
    }

    /// Those of a schedule that it may count, oldest first.
    fn own(&self, schedule: &str, volume: u32) -> Vec<Snapshot> {
        let volumes = self.0.volumes.borrow();
        let own = volumes[&volume].iter().filter(|s| s.of.as_deref() == Some(schedule));
        own.cloned().collect()
    }

    fn keep(&self, schedule: &str) -> usize {
        self.0.schedules.borrow()[schedule].plan.keep as usize
    }

    /// Own snapshots beyond those that are to be kept are in use.
    fn check_kept(&self, schedule: &str, volume: u32) {
        let own = self.own(schedule, volume);
        let extra = own.len().saturating_sub(self.keep(schedule));
        let unused = own[..extra].iter().filter(|s| !s.is_used).count();
        assert_eq!(unused, 0, "'{schedule}' keeps too much of {volume}: {own:?}");
        let free = own.iter().filter(|s| !s.is_used).count();
        assert!(free <= self.keep(schedule), "{own:?}");
    }

    /// Stores a step.
    fn note(&self, name: &str, step: Step) {
        let mut schedules = self.0.schedules.borrow_mut();
        let schedule = schedules.get_mut(name).expect("none is deleted while it runs");
        if step == Step::Abandon {
            let begun = schedule.begun().expect("it is told so");
            let mut volumes = self.0.volumes.borrow_mut();
            let all = volumes.values_mut().flatten();
            all.filter(|s| s.name == begun.name).for_each(|s| s.of = None);
        }
        if let Step::SetBack { now } = step {
            let ahead = format!("{name}-{}", stamp(now));
            let is_ahead = |run: &str| self_is_of(run, name) && *run > *ahead;
            self.0.taken.borrow_mut().retain(|run, _| !is_ahead(run));
            self.0.said.borrow_mut().clear();
        }
        schedule.step(step);
    }

    /// Deletes a snapshot that may be deleted.
    fn remove(&self, own: Own) {
        let mut volumes = self.0.volumes.borrow_mut();
        volumes.get_mut(&own.volume).expect("it is there").retain(|s| s.id != own.snapshot);
    }
}

impl World for Sim {
    type Alone = ();

    fn now_unix_seconds(&self) -> u64 {
        self.0.now.get()
    }

    fn is_stopping(&self) -> bool {
        false
    }

    async fn rest(&self, _: Option<Duration>) {}

    async fn alone(&self) {
        self.step_of_process().await;
    }

    fn names(&self) -> Option<Vec<String>> {
        let is_there = !self.0.faults.unreadable.get();
        is_there.then(|| self.0.schedules.borrow().keys().cloned().collect())
    }

    fn schedule(&self, name: &str) -> Option<Schedule> {
        let is_there = !self.0.faults.unreadable.get();
        is_there.then(|| self.0.schedules.borrow().get(name).cloned())?
    }

    async fn step(&self, name: &str, step: Step) -> Result<(), String> {
        self.step_of_process().await;
        if self.0.faults.store.get() {
            return Err("the store is full".to_owned());
        }
        if let Step::Forget(gone) = &step {
            self.0.forgotten.borrow_mut().push(gone.len());
        }
        self.note(name, step);
        self.step_of_process().await;
        Ok(())
    }

    fn volume(&self, id: u32) -> Option<String> {
        (!self.0.absent.borrow().contains(&id)).then(|| format!("v{id}"))
    }

    fn snapshots(&self, volume: u32) -> Option<Vec<Seen>> {
        self.volume(volume)?;
        let volumes = self.0.volumes.borrow();
        let seen = |s: &Snapshot| Seen { id: s.id, name: s.name.clone() };
        Some(volumes[&volume].iter().map(seen).collect())
    }

    async fn take(&self, volumes: &[u32], name: &str) -> Result<Vec<Own>, String> {
        self.step_of_process().await;
        if self.0.faults.take.get() {
            return Err("the array is full".to_owned());
        }
        let (schedule, run) = self.of_run(name);
        if let Some(begun) = self.0.schedules.borrow()[&schedule].begun() {
            let late = self.0.now.get().saturating_sub(begun.planned_unix_seconds);
            assert!(late < 60, "'{name}' comes {late} seconds late");
        }
        let times = *self.0.taken.borrow_mut().entry(run).and_modify(|n| *n += 1).or_insert(1);
        assert_eq!(times, 1, "'{name}' is taken again");
        let mut own = Vec::new();
        for volume in volumes {
            let all = &mut *self.0.volumes.borrow_mut();
            let all = all.get_mut(volume).expect("it is there");
            assert!(all.iter().all(|s| s.name != name), "there is a snapshot '{name}'");
            let id = self.new_id();
            let (of, is_used) = (Some(schedule.clone()), false);
            all.push(Snapshot { id, name: name.to_owned(), of, is_used });
            own.push(Own { volume: *volume, snapshot: id });
            self.0.just_taken.borrow_mut().push((schedule.clone(), *volume));
        }
        self.step_of_process().await;
        Ok(own)
    }

    async fn delete(&self, own: Own) -> Result<Deleted, String> {
        self.step_of_process().await;
        if self.0.faults.delete.get() {
            return Err("the disks are slow".to_owned());
        }
        let found = {
            let volumes = self.0.volumes.borrow();
            volumes[&own.volume].iter().find(|s| s.id == own.snapshot).cloned()
        };
        let Some(found) = found else { return Ok(Deleted::Gone) };
        if found.is_used {
            return Ok(Deleted::InUse("volumes were made of it"));
        }
        let schedule = found.of.as_deref().expect("nobody's snapshot is deleted");
        let all = self.own(schedule, own.volume);
        let newest = &all[all.len().saturating_sub(self.keep(schedule))..];
        assert!(newest.iter().all(|s| s.id != found.id), "{found:?} is to be kept");
        self.remove(own);
        self.step_of_process().await;
        Ok(Deleted::Gone)
    }

    fn tell(&self, event: Event) {
        let is_missed = event.kind == Kind::ScheduleMissed.word();
        let mut said = self.0.said.borrow_mut();
        assert!(!is_missed || !said.contains(&event), "it was said before: {event:?}");
        said.push(event);
    }
}

fn stamp(unix_seconds: u64) -> String {
    snapshot_name("", unix_seconds, |_| false)[1..].to_owned()
}

/// Whether this is a run of the schedule, not of one whose name begins like it.
fn self_is_of(run: &str, schedule: &str) -> bool {
    run.len() == schedule.len() + 16 && run.starts_with(schedule)
}

/// One process, and those after it.
struct Life {
    sim: Sim,
    runner: Runner<Sim>,
}

impl Life {
    /// Runs this until it is done; `None` if the process ends before.
    fn until_end<T>(work: impl Future<Output = T>) -> Option<T> {
        match pin!(work).poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(value) => Some(value),
            Poll::Pending => None,
        }
    }

    fn restart(&mut self) {
        // A start may be cut short as well, and only once.
        loop {
            self.sim.0.said.borrow_mut().clear();
            self.runner = Runner::new(self.sim.clone());
            let adopted = Self::until_end(adopt(&self.sim)).is_some();
            if adopted {
                return;
            }
            self.sim.0.faults.end_after.set(None);
        }
    }

    /// One look, and a start if the process ends.
    fn look(&mut self) -> Option<Duration> {
        self.sim.0.just_taken.borrow_mut().clear();
        match Self::until_end(self.runner.look()) {
            Some(at_most) => {
                let faults = &self.sim.0.faults;
                let taken = self.sim.0.just_taken.borrow().clone();
                let schedules: Vec<&(String, u32)> = taken.iter().collect();
                for (at, one) in schedules.iter().enumerate() {
                    assert!(!schedules[..at].contains(one), "a burst: {taken:?}");
                }
                if !faults.store.get() && !faults.delete.get() {
                    for (schedule, volume) in &taken {
                        self.sim.check_kept(schedule, *volume);
                    }
                }
                at_most
            }
            None => {
                self.sim.0.faults.end_after.set(None);
                self.restart();
                Some(Duration::from_secs(1))
            }
        }
    }

    fn advance(&mut self, seconds: u64) {
        let mut left = seconds;
        loop {
            let rest = self.look().map_or(left, |rest| rest.as_secs());
            let slept = rest.min(left);
            self.sim.0.now.set(self.sim.0.now.get() + slept);
            left -= slept;
            if left == 0 {
                self.look();
                return;
            }
        }
    }
}

/// What happens in a history.
#[derive(Debug, Clone, Copy)]
enum Happening {
    Advance(u64),
    /// The clock on the wall jumps.
    Jump(i64),
    Restart,
    /// The process ends after so many calls.
    EndAfter(u32),
    /// The member does not run for so long.
    Off(u64),
    Faults {
        take: bool,
        store: bool,
        delete: bool,
        unreadable: bool,
    },
    /// An operator takes a snapshot that is called as the next run of a schedule would be, or like one.
    Imitate {
        schedule: usize,
        volume: u32,
        exact: bool,
    },
    /// An operator deletes a snapshot, or begins or ends to use it.
    Delete {
        volume: u32,
        which: usize,
    },
    Use {
        volume: u32,
        which: usize,
        is_used: bool,
    },
    Absent {
        volume: u32,
        is_absent: bool,
    },
    Pause {
        schedule: usize,
        paused: bool,
    },
    Keep {
        schedule: usize,
        keep: u32,
    },
}

fn happenings() -> impl Strategy<Value = Happening> {
    use Happening::{
        Absent, Advance, Delete, EndAfter, Faults, Imitate, Jump, Keep, Off, Pause, Restart, Use,
    };
    let jump = prop_oneof![-100_i64..100, -7200_i64..7200, -40 * DAY as i64..40 * DAY as i64];
    let rare = || prop::bool::weighted(0.2);
    let volume = || 1_u32..=3;
    prop_oneof![
        6 => (1_u64..7200).prop_map(Advance),
        3 => jump.prop_map(Jump),
        2 => Just(Restart),
        6 => (0_u32..14).prop_map(EndAfter),
        1 => (1_u64..2 * DAY).prop_map(Off),
        3 => (rare(), rare(), rare(), rare())
            .prop_map(|(take, store, delete, unreadable)| Faults { take, store, delete, unreadable }),
        3 => (0_usize..3, volume(), any::<bool>())
            .prop_map(|(schedule, volume, exact)| Imitate { schedule, volume, exact }),
        1 => (volume(), any::<usize>()).prop_map(|(volume, which)| Delete { volume, which }),
        2 => (volume(), any::<usize>(), any::<bool>())
            .prop_map(|(volume, which, is_used)| Use { volume, which, is_used }),
        1 => (volume(), rare()).prop_map(|(volume, is_absent)| Absent { volume, is_absent }),
        1 => (0_usize..3, rare()).prop_map(|(schedule, paused)| Pause { schedule, paused }),
        1 => (0_usize..3, 1_u32..5).prop_map(|(schedule, keep)| Keep { schedule, keep }),
    ]
}

const NAMES: [&str; 3] = ["a", "a-b", "c"];

impl Life {
    fn happen(&mut self, happening: Happening) {
        let sim = self.sim.clone();
        let faults = &sim.0.faults;
        match happening {
            Happening::Advance(seconds) => self.advance(seconds),
            Happening::Jump(seconds) => {
                sim.0.now.set(sim.0.now.get().saturating_add_signed(seconds));
            }
            Happening::Restart => self.restart(),
            Happening::EndAfter(calls) => {
                faults.end_after.set(Some(calls));
                self.advance(1200);
                faults.end_after.set(None);
            }
            Happening::Off(seconds) => {
                sim.0.now.set(sim.0.now.get() + seconds);
                self.restart();
            }
            Happening::Faults { take, store, delete, unreadable } => {
                faults.take.set(take);
                faults.store.set(store);
                faults.delete.set(delete);
                faults.unreadable.set(unreadable);
            }
            Happening::Imitate { schedule, volume, exact } => self.imitate(schedule, volume, exact),
            Happening::Delete { volume, which } => {
                let mut volumes = sim.0.volumes.borrow_mut();
                let all = volumes.get_mut(&volume).expect("it is there");
                if !all.is_empty() {
                    let at = which % all.len();
                    all.remove(at);
                }
            }
            Happening::Use { volume, which, is_used } => {
                let mut volumes = sim.0.volumes.borrow_mut();
                let all = volumes.get_mut(&volume).expect("it is there");
                if !all.is_empty() {
                    let at = which % all.len();
                    all[at].is_used = is_used;
                }
            }
            Happening::Absent { volume, is_absent } => {
                let mut absent = sim.0.absent.borrow_mut();
                if is_absent {
                    absent.insert(volume)
                } else {
                    absent.remove(&volume)
                };
            }
            Happening::Pause { schedule, paused } => {
                let paused = Some(paused);
                self.change(schedule, PlanChange { paused, ..PlanChange::default() });
            }
            Happening::Keep { schedule, keep } => {
                self.change(schedule, PlanChange { keep: Some(keep), ..PlanChange::default() });
            }
        }
    }

    fn change(&self, schedule: usize, change: PlanChange) {
        let mut schedules = self.sim.0.schedules.borrow_mut();
        let schedule = schedules.get_mut(NAMES[schedule]).expect("it is there");
        schedule.change(change, self.sim.0.now.get()).expect("it can be so");
    }

    /// As a member lets operators take snapshots.
    fn imitate(&self, schedule: usize, volume: u32, exact: bool) {
        let sim = &self.sim.0;
        let name = NAMES[schedule];
        let planned = {
            let schedules = sim.schedules.borrow();
            let begun = schedules[name].begun().map(|begun| begun.planned_unix_seconds);
            begun.unwrap_or_else(|| schedules[name].plan.timing.next_after(sim.now.get()))
        };
        let called =
            if exact { format!("{name}-{}", stamp(planned)) } else { format!("{name}-mine") };
        let is_refused = match sim.faults.unreadable.get() {
            true => group::schedules::is_name_of_run(&called),
            false => sim.schedules.borrow().values().any(|s| s.reserves(volume, &called)),
        };
        let mut volumes = sim.volumes.borrow_mut();
        let all = volumes.get_mut(&volume).expect("it is there");
        if !is_refused && all.iter().all(|s| s.name != called) {
            all.push(Snapshot { id: self.sim.new_id(), name: called, of: None, is_used: false });
        }
    }

    /// With nothing wrong any more, all is as it should be and goes on.
    fn end_well(&mut self) {
        let sim = self.sim.clone();
        self.happen(Happening::Faults {
            take: false,
            store: false,
            delete: false,
            unreadable: false,
        });
        sim.0.absent.borrow_mut().clear();
        for schedule in 0..NAMES.len() {
            self.happen(Happening::Pause { schedule, paused: false });
        }
        self.restart();
        self.look();
        for name in NAMES {
            let volumes = sim.0.schedules.borrow()[name].plan.volumes.clone();
            volumes.iter().for_each(|volume| sim.check_kept(name, volume.id));
        }
        // A clock that was set back by less than a day makes a schedule wait that long.
        let before = sim.0.next_id.get();
        sim.0.now.set(sim.0.now.get() + DAY);
        self.advance(DAY + 60);
        // All but those that are there from before the clock was set back.
        let due = 24 * (2 * 4 + 1) + 1;
        assert!(sim.0.next_id.get() >= before + due - 3 * 8, "it does not go on");
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 128,
        // What planted mistakes fail with is of no use to others.
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn no_moment_runs_twice_no_more_is_kept_and_nobody_elses_is_deleted(
        history in prop::collection::vec(happenings(), 1..60),
    ) {
        let sim = Sim::new();
        let mut life = Life { runner: Runner::new(sim.clone()), sim };
        for happening in history {
            life.happen(happening);
        }
        life.end_well();
    }
}

fn texts(sim: &Sim, kind: Kind) -> Vec<String> {
    let said = sim.0.said.borrow();
    let of_kind = said.iter().filter(|event| event.kind == kind.word());
    of_kind.map(|event| event.text.clone()).collect()
}

#[test]
fn what_is_missed_is_told_once_and_the_next_run_is_as_planned() {
    let sim = Sim::new();
    let mut life = Life { runner: Runner::new(sim.clone()), sim: sim.clone() };
    life.happen(Happening::Off(2 * 3600));
    life.advance(300);
    assert_eq!(
        texts(&sim, Kind::ScheduleMissed),
        [
            "schedule 'a' missed 8 runs, the last of them that of 2026-11-27 02:00:00Z, as the member was not running or its clock passed over: it goes on as planned",
            "schedule 'a-b' missed 2 runs, the last of them that of 2026-11-27 02:00:00Z, as the member was not running or its clock passed over: it goes on as planned",
        ]
    );
    assert_eq!(sim.own("a", 1).len(), 0);
    life.advance(900);
    let names: Vec<String> = sim.own("a", 1).into_iter().map(|s| s.name).collect();
    assert_eq!(names, ["a-20261127-021500"]);
}

#[test]
fn what_fails_is_told_with_its_reason_and_the_schedule_goes_on() {
    let sim = Sim::new();
    let mut life = Life { runner: Runner::new(sim.clone()), sim: sim.clone() };
    sim.0.faults.take.set(true);
    life.advance(900);
    assert_eq!(
        texts(&sim, Kind::ScheduleFailed),
        [
            "schedule 'a' took no snapshot at its run of 2026-11-27 00:15:00Z, and goes on with the next: the array is full"
        ]
    );
    sim.0.faults.take.set(false);
    sim.0.absent.borrow_mut().insert(2);
    life.advance(900);
    assert_eq!((sim.own("a", 1).len(), sim.own("a", 2).len()), (1, 0));
    let part = texts(&sim, Kind::ScheduleIncomplete);
    assert!(
        part[0].starts_with("schedule 'a' took 'a-20261127-003000' without 'v2': "),
        "{part:?}"
    );
    sim.0.faults.store.set(true);
    life.advance(900);
    sim.0.faults.store.set(false);
    assert_eq!(sim.own("a", 1).len(), 1, "what cannot be noted is not taken");
    life.advance(900);
    assert_eq!(sim.own("a", 1).len(), 2);
    let failed = texts(&sim, Kind::ScheduleFailed);
    assert_eq!(failed.len(), 3, "{failed:?}");
    assert!(
        failed[1].ends_with("00:45:00Z, and goes on with the next: the store is full"),
        "{failed:?}"
    );
    assert!(
        failed[2].starts_with("schedule 'a-b'") && failed[2].ends_with("is there"),
        "{failed:?}"
    );
    assert_eq!(texts(&sim, Kind::ScheduleMissed).len(), 0, "why it was not taken is told");
}

#[test]
fn a_snapshot_in_use_is_kept_and_told_of_once() {
    let sim = Sim::new();
    let mut life = Life { runner: Runner::new(sim.clone()), sim: sim.clone() };
    life.advance(900);
    life.happen(Happening::Use { volume: 1, which: 0, is_used: true });
    life.advance(6 * 900);
    let names: Vec<String> = sim.own("a", 1).into_iter().map(|s| s.name).collect();
    let stamps = ["001500", "011500", "013000", "014500"];
    assert_eq!(names, stamps.map(|time| format!("a-20261127-{time}")));
    let told = texts(&sim, Kind::SnapshotKept);
    assert_eq!(told.len(), 1, "{told:?}");
    life.happen(Happening::Use { volume: 1, which: 0, is_used: false });
    life.advance(900);
    assert_eq!(sim.own("a", 1).len(), 3);
}

/// Each note writes the whole record of a schedule.
#[test]
fn what_a_run_deletes_of_all_volumes_is_noted_at_once() {
    let sim = Sim::new();
    let mut life = Life { runner: Runner::new(sim.clone()), sim: sim.clone() };
    // Schedule 'a' keeps 3 of each of its two volumes.
    for _ in 0..6 {
        life.advance(900);
    }
    assert_eq!((sim.own("a", 1).len(), sim.own("a", 2).len()), (3, 3));
    assert_eq!(*sim.0.forgotten.borrow(), [2, 2, 2]);
}

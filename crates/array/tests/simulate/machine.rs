//! What the tasks of one boot share, and how a history fails.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::future::Future;
use std::rc::Rc;
use std::time::Duration;

use array::api::{DiskInfo, DiskState, JobKind, VolumeInfo, VolumeState};
use array::{DiskId, Env};
use futures_util::future::{Either, select};

use crate::disk::Drive;
use crate::env::SimEnv;
use crate::model::{Listing, Model, view_name};
use crate::random::Random;
use crate::scenario::Scenario;
use crate::subject::Subject;

/// Simulated time in which every request of a host and of an operator must be answered, however
/// slow the drives are: many times what the slowest checkpoint of these small arrays takes. A drive
/// that does not answer costs each of its steps minutes, until the kernel gives up.
const ANSWER_MAX: Duration = Duration::from_secs(3600);

/// How long an array may say that it is whole when it is not any more: labels of slow disks have to
/// be written before it counts that a disk is out.
const WORD_TIME: Duration = Duration::from_secs(4);

/// The answer to a request, if it comes in time.
pub(crate) async fn in_time<T>(env: &SimEnv, request: impl Future<Output = T>) -> Option<T> {
    match select(std::pin::pin!(request), env.sleep(ANSWER_MAX)).await {
        Either::Left((answer, _)) => Some(answer),
        Either::Right(_) => None,
    }
}

/// Drives that may be hurt, and the numbers under which the array knows drives: both outlive the
/// boots of a machine.
#[derive(Debug, Default)]
pub(crate) struct Budget {
    pub(crate) victims: RefCell<Vec<Drive>>,
    /// Victims, by number, in whose place a blank one came while others acted too, or while what was
    /// on it was not restored: the array may need both the old one's data, if it comes back, and what the new one was given since.
    pub(crate) swapped: RefCell<BTreeSet<usize>>,
    /// More was done to the machine than it can bear: until its next start it may refuse anything,
    /// but it must neither forget nor make up data.
    pub(crate) overtaxed: Cell<bool>,
    ids: RefCell<BTreeMap<String, DiskId>>,
}

impl Budget {
    fn is_victim(&self, drive: &Drive) -> bool {
        self.victims.borrow().iter().any(|victim| victim.number() == drive.number())
    }

    /// The drive is a victim from now on.
    pub(crate) fn hurt(&self, drive: &Drive) {
        if !self.is_victim(drive) {
            self.victims.borrow_mut().push(drive.clone());
        }
    }

    /// A blank drive comes in the place of this one.
    pub(crate) fn swap(&self, drive: &Drive) {
        if self.is_victim(drive) {
            self.swapped.borrow_mut().insert(drive.number());
        }
    }

    /// Nobody is a victim any more; whether somebody was.
    pub(crate) fn recovered(&self) -> bool {
        self.swapped.borrow_mut().clear();
        !self.victims.take().is_empty()
    }
}

/// A running machine.
pub(crate) struct Machine<S> {
    pub(crate) env: SimEnv,
    pub(crate) random: Random,
    pub(crate) model: Rc<RefCell<Model>>,
    pub(crate) scenario: Rc<Scenario>,
    /// Those in the machine, and a spare one on the shelf.
    pub(crate) all_drives: Rc<Vec<Drive>>,
    pub(crate) budget: Rc<Budget>,
    /// Since when the array says without a break that it is whole.
    pub(crate) whole_since: Cell<Option<Duration>>,
    /// Writes of hosts that were not answered yet, by number, and how many there were.
    pub(crate) writes: RefCell<BTreeSet<u64>>,
    pub(crate) writes_begun: Cell<u64>,
    /// Orders to disks that were not answered yet.
    pub(crate) orders: Cell<u32>,
    /// An operator was refused because of that, and asks for nothing more.
    pub(crate) gave_up: Cell<bool>,
    /// The array is being closed, whoever else asks it for something.
    pub(crate) closing: Cell<bool>,
    /// Drives, by number, that the array is being given.
    pub(crate) coming: RefCell<BTreeSet<usize>>,
    /// Drives, by number, that lost their power since the boot: their handles are dead.
    pub(crate) unplugged: RefCell<BTreeSet<usize>>,
    /// Disks that were taken away: levels that do not bear so many are not looked at.
    pub(crate) away: usize,
    /// Said before each failure.
    pub(crate) context: String,
    pub(crate) array: S,
}

impl<S: Subject> Machine<S> {
    /// The drives in the machine.
    pub(crate) fn drives(&self) -> Vec<Drive> {
        self.all_drives.iter().filter(|drive| drive.is_installed()).cloned().collect()
    }

    /// The drives on the shelf.
    pub(crate) fn shelf(&self) -> Vec<Drive> {
        self.all_drives.iter().filter(|drive| !drive.is_installed()).cloned().collect()
    }

    pub(crate) fn is_overtaxed(&self) -> bool {
        self.budget.overtaxed.get()
    }

    /// What the array knows of a drive; by its number, if it does not know its name now.
    pub(crate) fn disk(&self, drive: &Drive) -> Option<DiskInfo> {
        let (disks, name) = (self.array.disks(), drive.name());
        let mut ids = self.budget.ids.borrow_mut();
        // One whose label had rotted may be in use again beside the member that it was.
        let mut all = disks.iter().filter(|disk| disk.name == name).collect::<Vec<_>>();
        all.sort_by_key(|disk| disk.state == DiskState::Missing);
        let by_name = all.first().copied();
        if let Some(disk) = by_name {
            ids.insert(name, disk.id);
            return by_name.cloned();
        }
        let id = ids.get(&name)?;
        disks.into_iter().find(|disk| disk.id == *id)
    }

    pub(crate) fn state(&self, drive: &Drive) -> Option<DiskState> {
        self.disk(drive).map(|disk| disk.state)
    }

    /// A host begins a write; its number.
    pub(crate) fn write_begins(&self) -> u64 {
        let number = self.writes_begun.get();
        self.writes_begun.set(number + 1);
        self.writes.borrow_mut().insert(number);
        number
    }

    /// It was answered.
    pub(crate) fn write_ends(&self, number: u64) {
        self.writes.borrow_mut().remove(&number);
    }

    /// Whether a drive may be hurt now, beside those that are.
    pub(crate) fn may_hurt(&self, drive: &Drive) -> bool {
        let budget = &self.budget;
        match budget.is_victim(drive) {
            true => !budget.swapped.borrow().contains(&drive.number()),
            false => {
                budget.victims.borrow().len() < self.scenario.losses() && self.others_hold_it(drive)
            }
        }
    }

    /// Whether a member is left that is well, without this one: operators may have taken out so many
    /// that held nothing that the last one has journal and checkpoints alone.
    fn others_hold_it(&self, drive: &Drive) -> bool {
        let others = self.all_drives.iter().filter(|other| other.number() != drive.number());
        others
            .filter(|other| !self.budget.is_victim(other))
            .any(|other| self.state(other) == Some(DiskState::Online))
    }

    /// A drive is hurt from now on, until the array has healed. If it is one too many, anything may
    /// be refused.
    pub(crate) fn hurts(&self, drive: &Drive) {
        if !self.may_hurt(drive) && !self.budget.overtaxed.replace(true) {
            self.env.note("that is more than the array bears");
        }
        // What it said so far was before this.
        self.whole_since.set(None);
        self.budget.hurt(drive);
    }

    /// Whether every drive is a member that is well, and every member such a drive.
    pub(crate) fn is_whole(&self) -> bool {
        let drives = self.drives();
        // One that erred too often stays in use where nothing can take its place.
        let may_err = self.scenario.theme.damages();
        let is_used = |state| state == DiskState::Online || may_err && state == DiskState::Suspect;
        let well = |drive: &Drive| {
            let is_there = !drive.is_absent() && drive.condition().is_well();
            let is_plugged = !self.unplugged.borrow().contains(&drive.number());
            is_there && is_plugged && self.state(drive).is_some_and(is_used)
        };
        drives.iter().all(well) && self.array.disks().len() == drives.len()
    }

    /// Where drives do not lie: if the array goes on saying that it is whole, it must be, and another
    /// drive may be hurt.
    pub(crate) fn believe(&self) {
        let jobs = self.array.jobs();
        let idle = jobs.iter().all(|job| matches!(job.kind, JobKind::Delete | JobKind::Scrub));
        if self.scenario.theme.damages() || self.is_overtaxed() || !idle || !self.is_whole() {
            return self.whole_since.set(None);
        }
        let since = self.whole_since.get().unwrap_or(self.env.now());
        self.whole_since.set(Some(since));
        if self.env.now() - since < WORD_TIME {
            return;
        }
        if self.budget.recovered() {
            self.env.note("the array says that it is whole");
        }
    }

    /// Nobody complains of a drive that did nothing wrong, nor of blocks that no drive has.
    pub(crate) fn accuse_nobody(&self) {
        if self.is_overtaxed() {
            return;
        }
        let is_lost = |text: &str| text.contains("blocks could not be restored");
        if let Some(event) = self.array.events().iter().find(|event| is_lost(event))
            && !self.scenario.theme.damages()
        {
            self.fail(format_args!("all of it is on some drive: {event}"));
        }
        for drive in self.drives().iter().filter(|drive| !drive.is_hurt()) {
            let Some(disk) = self.disk(drive) else { continue };
            let is_away = matches!(disk.state, DiskState::Suspect | DiskState::Missing);
            // It is out, and the answer to the operator who said so still to come.
            let is_condemned = disk.reason.starts_with("an operator declared it failed");
            let is_blamed =
                disk.errors_read > 0 || disk.errors_write > 0 || is_away && !is_condemned;
            if is_blamed {
                self.fail(format_args!("a drive is accused that did nothing wrong: {disk:?}"));
            }
        }
    }

    /// The answer to a request, which has to come in time.
    pub(crate) async fn answer<T>(&self, what: &str, request: impl Future<Output = T>) -> T {
        let answer = in_time(&self.env, request).await.unwrap_or_else(|| {
            self.fail(format_args!("{what} is not answered; jobs: {:?}", self.array.jobs()))
        });
        if self.closing.get() {
            // It may say no, and the end comes anyway.
            std::future::pending::<()>().await;
        }
        answer
    }

    /// An answer to something that must work unless the array is overtaxed: `None` then.
    pub(crate) fn may<T, E: fmt::Display>(&self, what: &str, answer: Result<T, E>) -> Option<T> {
        match answer {
            Err(error) if self.is_overtaxed() => {
                self.env.note(format!("{what}: {error}"));
                self.gave_up.set(true);
                None
            }
            answer => Some(self.must(what, answer)),
        }
    }

    /// Ends the history: the array did what it must not do.
    pub(crate) fn fail(&self, what: impl fmt::Display) -> ! {
        for event in self.array.events() {
            self.env.note(format!("event: {event}"));
        }
        for disk in self.array.disks() {
            self.env.note(format!("{disk:?}"));
        }
        panic!("{}{what}", self.context);
    }

    /// The answer to something that must work.
    pub(crate) fn must<T, E: fmt::Display>(&self, what: &str, answer: Result<T, E>) -> T {
        answer.unwrap_or_else(|error| self.fail(format_args!("{what}: {error}")))
    }

    /// Somebody who asked for so many bytes of disks was told that there is no space: there must
    /// not be much more.
    pub(crate) fn out_of_space(&self, what: &str, text: &str, asked_bytes: u64) {
        let info = self.array.info();
        self.env.note(format!("{what}: {text}; {} bytes free", info.free_bytes));
        let sizes = &self.scenario.disk_bytes;
        let is_online = |drive: &Drive| self.state(drive) == Some(DiskState::Online);
        let drives = self.drives();
        let are_online = drives.len() >= self.scenario.installed()
            && drives.iter().all(is_online)
            && !self.is_overtaxed();
        if !are_online || sizes.iter().any(|size| *size != sizes[0]) {
            // A level may need more disks than there are with space.
            return;
        }
        // What one cannot use: a part of each set, and what a checkpoint has not yet given back.
        let tight = info.size_bytes / 4 + 16 * info.chunk_bytes;
        if info.free_bytes > tight + asked_bytes {
            self.fail(format_args!("{what}: {text}, but there is space: {info:?}"));
        }
    }

    /// What the array says that it has.
    pub(crate) fn listing(&self) -> Listing {
        let volumes = self.array.volumes();
        let of = |name: &str| self.must("list snapshots", self.array.snapshots(name));
        let there = volumes.iter().filter(|volume| volume.state != VolumeState::Deleted);
        let snapshots: Vec<_> = there.flat_map(|volume| of(&volume.name)).collect();
        let written = snapshots.iter().filter(|snapshot| snapshot.view_id.is_some());
        let written = written.filter(|snapshot| !snapshot.deleting);
        let views: Vec<_> = written
            .map(|snapshot| {
                let name = view_name(&snapshot.volume, &snapshot.name);
                let view = self.array.view(&snapshot.volume, &snapshot.name);
                VolumeInfo { name, ..self.must("what hosts see of a snapshot", view) }
            })
            .collect();
        Listing { volumes: [volumes, views].concat(), snapshots }
    }

    pub(crate) async fn pause(&self, micros_max: u64) {
        let time = Duration::from_micros(self.random.below(micros_max));
        self.env.sleep(time).await;
    }

    /// Keeps hosts away from a volume and waits for what they have begun.
    pub(crate) async fn close(&self, volume: &str) {
        self.model.borrow_mut().volume(volume).closed = true;
        while self.model.borrow_mut().volume(volume).users > 0 {
            self.env.sleep(Duration::from_millis(1)).await;
        }
    }

    /// Lets hosts in again, if the volume is still there.
    pub(crate) fn reopen(&self, volume: &str) {
        if let Some(volume) = self.model.borrow_mut().find(volume) {
            volume.closed = false;
        }
    }
}

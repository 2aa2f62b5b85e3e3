//! What the tasks of one boot share, and how a history fails.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::fmt;
use std::rc::Rc;
use std::time::Duration;

use array::Env;
use array::api::{VolumeInfo, VolumeState};

use crate::disk::Drive;
use crate::env::SimEnv;
use crate::model::{Listing, Model, view_name};
use crate::random::Random;
use crate::scenario::Scenario;
use crate::subject::Subject;

/// A running machine.
pub(crate) struct Machine<S> {
    pub(crate) env: SimEnv,
    pub(crate) random: Random,
    pub(crate) model: Rc<RefCell<Model>>,
    pub(crate) scenario: Rc<Scenario>,
    /// Those in the machine, and a spare one on the shelf.
    pub(crate) all_drives: Rc<Vec<Drive>>,
    /// The one drive that may be hurt, also after a crash.
    pub(crate) victim: Rc<RefCell<Option<Drive>>>,
    /// Drives, by number, that lost their power since the boot: their handles are dead.
    pub(crate) unplugged: RefCell<BTreeSet<usize>>,
    pub(crate) array: S,
}

impl<S: Subject> Machine<S> {
    /// The drives in the machine.
    pub(crate) fn drives(&self) -> Vec<Drive> {
        self.all_drives.iter().filter(|drive| drive.is_installed()).cloned().collect()
    }

    /// The drive on the shelf.
    pub(crate) fn spare(&self) -> Option<Drive> {
        self.all_drives.iter().find(|drive| !drive.is_installed()).cloned()
    }

    /// Ends the history: the array did what it must not do.
    pub(crate) fn fail(&self, what: impl fmt::Display) -> ! {
        for event in self.array.events() {
            self.env.note(format!("event: {event}"));
        }
        for disk in self.array.disks() {
            self.env.note(format!("{disk:?}"));
        }
        panic!("{what}");
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
        if (info.disks_online as usize) < sizes.len() || sizes.iter().any(|size| *size != sizes[0])
        {
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

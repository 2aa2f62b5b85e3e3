//! Which disks take part, as their labels say it.
//!
//! Invariant: before anything relies on a disk being out, the labels of all disks that are in say
//! so, with a higher generation than the one that the disk itself may carry.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, OnceLock, Weak};

use block::BlockError;
use futures_util::future::join_all;

use super::{Core, State};
use crate::DiskId;
use crate::journal::Holder;
use crate::label::{self, Label, MemberKind, MemberState};
use crate::mutants::{self, Mutant};
use crate::raid::{Access, Disk, DiskFailed};

/// Disks that hold journal and checkpoints, if there are so many.
pub(crate) const HOLDERS: usize = 3;

/// Tells the array of disks that fail. It is made before the array itself.
#[derive(Debug, Default)]
pub(crate) struct Alarm(OnceLock<Weak<Core>>);

impl Alarm {
    pub(crate) fn connect(&self, core: &Arc<Core>) {
        self.0.set(Arc::downgrade(core)).expect("an alarm belongs to one array");
    }
}

impl DiskFailed for Alarm {
    fn disk_failed(&self, disk: DiskId, error: BlockError) -> Pin<Box<dyn Future<Output = ()>>> {
        let core = self.0.get().and_then(Weak::upgrade);
        Box::pin(async move {
            if let Some(core) = core {
                core.disk_failed(disk, &format!("a write failed: {error}")).await;
            }
        })
    }

    fn disk_behind(&self, _: DiskId) {
        if let Some(core) = self.0.get().and_then(Weak::upgrade) {
            core.upkeep.ring();
        }
    }
}

impl Core {
    /// Puts a disk out; returns when that is durable.
    pub(crate) async fn disk_failed(self: &Arc<Self>, disk: DiskId, reason: &str) {
        let Some(member) = self.raid.disks().get(disk) else { return };
        if member.access() == Access::Full {
            member.set_access(Access::ReadOnly);
        }
        // What it took since the last flush may be gone when it is back.
        for (set, stripe) in self.touched.all() {
            let set = self.sets.get(set);
            // With too many away already nobody else could tell what it should be.
            if self.missing_members(&set) <= set.losses_max() {
                set.mark_stale(stripe, disk);
            }
        }
        for set in self.sets.all() {
            set.take_back(disk);
            if member.access() == Access::None {
                set.mark_all_stale(disk);
            }
        }
        let changed = self.change_label(|label, state| {
            let checkpoint = state.checkpoint;
            let Some(record) = label.members.iter_mut().find(|record| record.disk == disk) else {
                return false;
            };
            // One that came back and was not up to date yet can fail again.
            let is_new = match record.state {
                MemberState::Active => true,
                MemberState::Stale { .. } => !state.away.contains_key(&disk),
                MemberState::Failed | MemberState::Retired => false,
            };
            if is_new {
                state.away.insert(disk, (self.env.now(), reason.to_owned()));
                state.space.open_disk(disk, false);
            }
            if record.state == MemberState::Active {
                record.state = MemberState::Stale { since_checkpoint: checkpoint };
                label.holders.retain(|holder| *holder != disk);
            }
            is_new
        });
        if changed.await {
            let text = format!("disk {} is out: {reason}", member.name());
            tracing::warn!("{text}");
            let state = &mut *self.lock();
            state.note(self.env.unix_seconds(), text);
            // The journal gets another holder with the next checkpoint.
            state.wants_checkpoint = true;
        }
        self.use_holders();
        self.work.ring();
        self.upkeep.ring();
    }

    /// Changes the labels of all disks; false when there was nothing to change.
    ///
    /// One change at a time, each with a generation of its own. What belongs together with a
    /// disk's state is changed in the same moment.
    pub(crate) async fn change_label(
        self: &Arc<Self>,
        change: impl FnOnce(&mut Label, &mut State) -> bool,
    ) -> bool {
        let _turn = self.labelling.take().await;
        let label = {
            let state = &mut *self.lock();
            let mut label = state.label.clone();
            if !change(&mut label, state) {
                return false;
            }
            label.generation += 1;
            label
        };
        if !self.write_joining(&label).await {
            return false;
        }
        if !mutants::is(Mutant::NoGeneration) {
            self.write_labels(&label).await;
        }
        self.lock().label = label;
        true
    }

    /// Writes the label of disks that are new in it, before any other disk relies on them: if
    /// the power goes in between, they are members or they are not, but never missing. False if
    /// one does not take it.
    async fn write_joining(&self, label: &Label) -> bool {
        let old = self.lock().label.clone();
        for record in &label.members {
            if old.member(record.disk).is_some() {
                continue;
            }
            let disk = self.raid.disks().get(record.disk).expect("it is added before its label");
            if let Err(error) = label::write(&**disk.device(), &label.for_disk(disk.id())).await {
                tracing::warn!(disk = disk.name(), %error, "its label could not be written");
                return false;
            }
        }
        true
    }

    /// Writes a label to every disk that is in. One that cannot take it is out too: what it says
    /// is older than what the others say, which is all that matters.
    async fn write_labels(&self, label: &Label) {
        let disks = self.raid.disks().all();
        // A disk that is being taken in is not a member yet.
        let is_member = |disk: &&Arc<Disk>| label.member(disk.id()).is_some();
        let members = disks.iter().filter(|disk| disk.access() == Access::Full).filter(is_member);
        let writes = members.map(|disk| async move {
            let result = label::write(&**disk.device(), &label.for_disk(disk.id())).await;
            (disk, result)
        });
        for (disk, result) in join_all(writes).await {
            if let Err(error) = result {
                tracing::warn!(disk = disk.name(), %error, "its label could not be written");
            }
        }
    }

    /// The disks that hold journal and checkpoints, as the label says.
    pub(crate) fn holders(&self) -> Vec<Arc<Disk>> {
        let holders = self.lock().label.holders.clone();
        holders.iter().filter_map(|holder| self.raid.disks().get(*holder)).collect()
    }

    /// The journal goes to the disks that the label names.
    pub(crate) fn use_holders(&self) {
        self.journal.set_holders(self.journal_holders());
    }

    /// The disks that hold the journal: those that are there for nothing else, if there are any.
    pub(super) fn journal_holders(&self) -> Vec<Holder> {
        let own = self.lock().label.journal_disks();
        let disks = match own.is_empty() {
            true => self.holders(),
            false => own.iter().filter_map(|disk| self.raid.disks().get(*disk)).collect(),
        };
        let holders = disks.into_iter().filter(|disk| disk.access() == Access::Full);
        holders.map(|d| Holder { disk: d.id(), device: Arc::clone(d.device()) }).collect()
    }

    /// Disks that should hold the journal too, when some have gone.
    pub(crate) fn joining_holders(&self) -> Vec<Arc<Disk>> {
        let label = self.lock().label.clone();
        let mut wanted = HOLDERS.saturating_sub(label.holders.len());
        let mut joining = Vec::new();
        for record in &label.members {
            let is_free = record.state == MemberState::Active
                && record.kind == MemberKind::Data
                && !label.holders.contains(&record.disk);
            if wanted == 0 || !is_free {
                continue;
            }
            if let Some(disk) = self.raid.disks().get(record.disk)
                && disk.access() == Access::Full
            {
                joining.push(disk);
                wanted -= 1;
            }
        }
        joining
    }
}

//! Making an array, and finding one again.
//!
//! ```text
//!  labels ─▶ checkpoint record ─▶ sets, space, tables ─▶ journal ─▶ redo ─▶ first checkpoint
//! ```
//!
//! The first checkpoint brings all copies of the journal to the same state: only then is the
//! array open.

mod create;
mod replay;

use std::sync::{Arc, Mutex};

use block::BlockDevice;
use futures_util::future::join_all;

use crate::checkpoint::slots::read_slots;
use crate::core::{Alarm, Core, Space, State, Touched};
use crate::engine::Payload;
use crate::env::Env;
use crate::error::ArrayError;
use crate::journal::{self, Holder, HolderFailed, Journal};
use crate::label::{self, Found, Label, MemberKind, Membership};
use crate::manage::Array;
use crate::raid::{Access, Raid, Set, SetRecord};
use crate::sync::{Bell, Turn};
use crate::{DiskId, Task};

pub use create::CreateOptions;
pub(crate) use create::random_id;

/// A disk as the caller found it.
#[derive(Debug, Clone)]
pub struct Member {
    /// Its path, or another word for people.
    pub name: String,
    /// The disk.
    pub device: Arc<dyn BlockDevice>,
}

/// How an array is opened.
#[derive(Debug, Clone, Copy)]
pub struct OpenOptions {
    /// Go on although so many disks are missing that newer data could be on them.
    pub accept_missing: bool,
    /// Memory for metadata pages.
    pub cache_bytes: usize,
}

impl Default for OpenOptions {
    fn default() -> Self {
        Self { accept_missing: false, cache_bytes: 128 << 20 }
    }
}

impl HolderFailed for Alarm {
    fn holder_failed(&self, disk: DiskId, error: block::BlockError) -> Task {
        crate::raid::DiskFailed::disk_failed(self, disk, error)
    }
}

/// What a disk is, for `disk list` and the like; writes nothing.
///
/// # Errors
/// Those of the disk.
pub async fn probe(device: &dyn BlockDevice) -> Result<Found, ArrayError> {
    Ok(label::read(device).await?)
}

impl Array {
    /// Opens the array on these disks, whatever their order.
    ///
    /// # Errors
    /// [`ArrayError::Refused`] with the disk and the reason; then nothing was written.
    pub async fn open(
        env: Arc<dyn Env>,
        disks: Vec<Member>,
        options: OpenOptions,
    ) -> Result<Self, ArrayError> {
        let found = find(&disks).await;
        let membership = label::choose(&found, options.accept_missing);
        let membership = membership.map_err(|refusal| ArrayError::Refused(refusal.to_string()))?;
        for (index, reason) in &membership.foreign {
            tracing::warn!("{} is not used: {reason}", disks[*index].name);
        }
        let core = load(env, &disks, &membership, options).await?;
        let array = Self { core };
        array.core.checkpointed().await?;
        array.core.greet(&membership).await;
        Ok(array)
    }
}

/// What the disks are. One that cannot be read is as good as not there.
async fn find(disks: &[Member]) -> Vec<(String, Found)> {
    let reads = disks.iter().map(|disk| label::read(&*disk.device));
    let names = disks.iter().map(|disk| disk.name.clone());
    let found = join_all(reads).await.into_iter().map(|found| {
        found.unwrap_or_else(|error| Found::Foreign(format!("a disk that cannot be read: {error}")))
    });
    names.zip(found).collect()
}

async fn load(
    env: Arc<dyn Env>,
    disks: &[Member],
    membership: &Membership,
    options: OpenOptions,
) -> Result<Arc<Core>, ArrayError> {
    let label = &membership.label;
    let holders = label.holders.iter().filter_map(|holder| {
        let present = membership.current.iter().find(|present| present.disk == *holder)?;
        Some((*holder, Arc::clone(&disks[present.index].device)))
    });
    let holders: Vec<Holder> = holders.map(|(disk, device)| Holder { disk, device }).collect();
    let devices: Vec<_> = holders.iter().map(|holder| Arc::clone(&holder.device)).collect();
    let damaged = |error: &dyn std::fmt::Display| ArrayError::Damaged(error.to_string());
    let journal_holders = journal_disks(disks, membership, &holders)?;
    let slot = read_slots(&devices, &label.layout, label.array).await;
    let slot = slot.map_err(|error| damaged(&error))?;
    let payload = Payload::decode(&slot.payload)?;
    let mut records = Vec::new();
    let mut keep = |record, position| records.push((record, position));
    let scanned =
        journal::scan(&journal_holders, &label.layout, label.array, payload.mark, &mut keep);
    let scanned = scanned.await.map_err(|error| damaged(&error))?;
    let lagging = scanned.lagging.clone();
    let alarm = Arc::new(Alarm::default());
    let raid = Raid::new(Arc::clone(&alarm) as Arc<dyn crate::raid::DiskFailed>);
    for present in membership.current.iter().chain(membership.stale.iter().map(|(p, _)| p)) {
        let member = &disks[present.index];
        raid.disks().add(present.disk, &member.name, Arc::clone(&member.device));
    }
    let journal = Journal::new(label.array, &label.layout, journal_holders, payload.mark, scanned);
    let core = Arc::new(Core {
        env,
        id: label.array,
        layout: label.layout,
        level: payload.level,
        raid: Arc::new(raid),
        sets: crate::core::Sets::default(),
        journal: Arc::new(journal),
        state: Mutex::new(fresh_state(label, membership, &payload, options)),
        alarm: Arc::clone(&alarm),
        touched: Touched::default(),
        ahead: crate::volume::Ahead::default(),
        host_ops: std::sync::atomic::AtomicU64::new(0),
        checkpointing: Turn::default(),
        labelling: Turn::default(),
        work: Bell::default(),
        upkeep: Bell::default(),
        committed: Bell::default(),
        unlocked: Bell::default(),
    });
    alarm.connect(&core);
    core.load_sets(&payload)?;
    // The redo area may be about sets that only the journal knows.
    core.replay(membership, &records)?;
    core.redo(&devices, payload.number + 1).await?;
    core.decide_rooms().await?;
    core.start();
    for disk in lagging {
        core.catch_up(disk).await;
    }
    Ok(core)
}

/// The disks that hold the journal.
fn journal_disks(
    disks: &[Member],
    membership: &Membership,
    holders: &[Holder],
) -> Result<Vec<Holder>, ArrayError> {
    let own = membership.label.journal_disks();
    if own.is_empty() {
        return Ok(holders.to_vec());
    }
    let present = membership.current.iter().filter(|present| own.contains(&present.disk));
    let found: Vec<Holder> = present
        .map(|p| Holder { disk: p.disk, device: Arc::clone(&disks[p.index].device) })
        .collect();
    if found.is_empty() {
        let what = "the disk that holds the journal is missing, and with it writes that were \
                    acknowledged: bring it back";
        return Err(ArrayError::Refused(what.into()));
    }
    Ok(found)
}

fn fresh_state(
    label: &Label,
    membership: &Membership,
    payload: &Payload,
    options: OpenOptions,
) -> State {
    let mut space = Space::default();
    for record in &label.members {
        let is_there = record.is_used() && !membership.missing.contains(&record.disk);
        // One that failed has chunks until all of them were restored elsewhere.
        if record.kind == MemberKind::Data && record.state != label::MemberState::Retired {
            space.chunks.add_disk(record.disk, label.layout.chunks(record.size_bytes));
            let stays = !payload.tables.leaving.contains(&record.disk);
            space.chunks.set_open(record.disk, is_there && stays);
        }
    }
    space.set_spare(&label.layout, &label.data_sizes());
    space.set_lanes();
    space.next_set = payload.next_set;
    State::new(payload, label, space, options.cache_bytes)
}

impl Core {
    fn load_sets(self: &Arc<Self>, payload: &Payload) -> Result<(), ArrayError> {
        let damaged = |what: &dyn std::fmt::Display| ArrayError::Damaged(what.to_string());
        let mut bytes = &payload.sets[..];
        while !bytes.is_empty() {
            let record = SetRecord::decode(&mut bytes).map_err(|error| damaged(&error))?;
            let set = Set::new(record, self.set_layout()).map_err(|error| damaged(&error))?;
            let set = Arc::new(set);
            let state = &mut *self.lock();
            let seats = set.members().into_iter().chain(set.replacement().map(|new| new.seat));
            for seat in seats {
                if !state.space.chunks.claim(seat.disk, seat.chunk) {
                    let what =
                        format!("two sets share chunk {} of disk {}", seat.chunk, seat.disk.0);
                    return Err(ArrayError::Damaged(what));
                }
            }
            state.space.load_set(&set, payload.space.get(&set.id().0))?;
            self.sets.add(set);
        }
        self.lock().adopt_volumes();
        Ok(())
    }

    /// The tasks of an open array.
    fn start(self: &Arc<Self>) {
        let hook = Arc::clone(&self.alarm) as Arc<dyn HolderFailed>;
        self.env.spawn(Box::pin(Arc::clone(&self.journal).run(hook)));
        self.env.spawn(Box::pin(Arc::clone(self).run_checkpoints()));
        self.env.spawn(Box::pin(Arc::clone(self).run_upkeep()));
    }

    /// A holder that lacks some of the journal gets it, or is out.
    async fn catch_up(self: &Arc<Self>, disk: DiskId) {
        let Some(member) = self.raid.disks().get(disk) else { return };
        // A checkpoint would trim what is being copied.
        let _turn = self.checkpointing.take().await;
        let holder = Holder { disk, device: Arc::clone(member.device()) };
        if let Err(error) = self.journal.fill(&holder).await {
            self.disk_failed(disk, &format!("it cannot hold the journal: {error}")).await;
        }
    }

    /// Labels that are behind are written again, now that the array is open.
    async fn greet(self: &Arc<Self>, membership: &Membership) {
        if !membership.rewrite.is_empty() {
            self.change_label(|_, _| true).await;
        }
        let now = self.env.now();
        for disk in &membership.missing {
            let text = format!("disk {} is missing", disk.0);
            tracing::warn!("{text}");
            let state = &mut *self.lock();
            state.note(self.env.unix_seconds(), text);
            state.away.insert(*disk, (now, "it was not there when the array was opened".into()));
        }
        // A member that is missing may come back later, and must then know that it was away.
        let missing = membership.missing.clone();
        for disk in missing {
            self.disk_missing(disk).await;
        }
        self.upkeep.ring();
    }

    /// A disk that is not there counts as failed until it is back.
    async fn disk_missing(self: &Arc<Self>, disk: DiskId) {
        self.change_label(|label, state| {
            let record = label.members.iter_mut().find(|record| record.disk == disk);
            match record {
                Some(record) if record.state == label::MemberState::Active => {
                    let since_checkpoint = state.checkpoint;
                    record.state = label::MemberState::Stale { since_checkpoint };
                    label.holders.retain(|holder| *holder != disk);
                    true
                }
                _ => false,
            }
        })
        .await;
    }

    /// Disks that can be written to.
    pub(crate) fn usable_disks(&self) -> usize {
        let all = self.raid.disks().all();
        let label = self.lock().label.clone();
        let is_data = |id| label.member(id).is_some_and(|record| record.kind == MemberKind::Data);
        all.iter().filter(|disk| disk.access() == Access::Full && is_data(disk.id())).count()
    }
}

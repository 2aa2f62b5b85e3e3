//! Volumes that cannot be destaged, because their sets miss more disks than their level survives.
//!
//! The journal keeps what it has of them, and cannot be trimmed further than to there. When that
//! makes it short for all others, all of it is written to the journal once more, and the rest is
//! trimmed. Others leave room for that from the moment on at which too many disks are out. If there is
//! none all the same, as what it has is nearly half of the journal or was there before, the others have what
//! is left until the disks are back.

use std::collections::BTreeSet;
use std::sync::Arc;

use ring::Data;

use super::{Checkpoint, Kept};
use crate::core::{Core, Live, State};
use crate::error::ArrayError;
use crate::journal::{self, AGAIN_BYTES, Appended, Mark, Placed, Record};
use crate::label::{MemberRecord, MemberState};
use crate::overlay::{Base, Block, Overlay, Patch, Segment};
use crate::raid::{Access, Set};
use crate::tables::Volume;
use crate::{BLOCK_BYTES, CLUSTER_BLOCKS, Epoch, Level, VersionId};

/// What a checkpoint had done before it came to a volume.
pub(super) struct Before {
    volume: VersionId,
    table: Volume,
    versions: Vec<VersionId>,
    gained: usize,
    freed: usize,
    freed_pages: usize,
    pages: usize,
    written: usize,
    paid: u64,
}

impl Checkpoint {
    pub(super) fn before(&self, volume: VersionId) -> Before {
        Before {
            volume,
            table: self.next.volumes[&volume].clone(),
            versions: self.next.versions.keys().copied().collect(),
            gained: self.gained.len(),
            freed: self.freed.len(),
            freed_pages: self.freed_pages.len(),
            pages: self.pages.len(),
            written: self.written.len(),
            paid: self.paid,
        }
    }

    /// Takes back what was done for a volume, and keeps its changes in the journal.
    pub(super) fn set_aside(&mut self, before: Before) {
        let volume = before.volume;
        // What was taken for it is free again when this checkpoint has ended.
        let (level, paid) = (before.table.level, self.paid - before.paid);
        self.core.lock().space.pool.promise(level, paid);
        tracing::error!("volume {} goes offline: {LOST}", before.table.name);
        let mut is_news = false;
        if let Some(live) = self.core.lock().live.get_mut(&volume) {
            is_news = !live.may_be_kept();
            live.lost.get_or_insert_with(|| LOST.into());
            live.aside_in = Some(self.number);
        }
        self.next.versions.retain(|id, _| before.versions.contains(id));
        self.next.volumes.insert(volume, before.table);
        self.freed.truncate(before.freed);
        self.freed_pages.truncate(before.freed_pages);
        self.written.truncate(before.written);
        // Places that were taken for it hold nothing; those of direct writes still do.
        let direct = self.direct_places(volume);
        let unused = self.gained.split_off(before.gained);
        self.unused.extend(unused.into_iter().filter(|place| !direct.contains(place)));
        let pages = self.pages.split_off(before.pages);
        self.unused_pages.extend(pages.into_iter().map(|(page, _)| page.addr));
        self.aside.push(volume);
        self.frozen.retain(|(other, _)| *other != volume);
        if is_news {
            self.core.keep_room();
        }
    }

    /// Sees to it that the journal goes on to hold what could not be destaged.
    pub(super) async fn keep_aside(&mut self) -> Result<(), ArrayError> {
        let aside = std::mem::take(&mut self.aside);
        let well = |(id, _): &(&VersionId, &mut Live)| !aside.contains(*id);
        self.core.lock().live.iter_mut().filter(well).for_each(|(_, live)| {
            (live.kept, live.aside_in) = (None, None);
        });
        let is_again = self.core.log_again(&aside, self.mark)?;
        if !aside.is_empty() {
            self.core.keep_room();
        }
        if is_again {
            return Ok(self.core.journal.flush().await?);
        }
        self.core.keep_in_journal(&aside);
        Ok(())
    }

    fn direct_places(&self, volume: VersionId) -> Vec<crate::Place> {
        let frozen = self.frozen.iter().filter(|(other, _)| *other == volume);
        let patches = frozen.flat_map(|(_, segments)| segments.iter().flat_map(|s| s.patches()));
        let place = |(_, patch): (u64, &Patch)| match patch.base {
            Base::At(place, _) => Some(place),
            _ => None,
        };
        patches.filter_map(place).collect()
    }
}

/// So much of the journal may be in use until what it keeps is written once more.
const SHORT_SHARE: u64 = 4;

/// Why a volume is set aside.
const LOST: &str = "its RAID sets miss too many disks";

impl Core {
    /// Puts all changes of these volumes that are not in their maps to the end of the journal. Not as
    /// long as the others have room without that, and not where it has no room for them, or would have none
    /// the next time, with a journal that begins at `mark`.
    fn log_again(&self, volumes: &[VersionId], mark: Mark) -> Result<bool, ArrayError> {
        let state = &mut *self.lock();
        let live = volumes.iter().filter_map(|volume| state.live.get(volume));
        let needed = live.map(|live| blocks_again(&live.overlay)).sum::<u64>();
        let is_short = self.journal.used_blocks() > self.journal.blocks() / SHORT_SHARE;
        let is_short = is_short || self.journal.is_full();
        if needed == 0 || !is_short || !self.journal.has_room_again(needed, mark) {
            return Ok(false);
        }
        for volume in volumes {
            let epoch = state.epoch;
            let Some(live) = state.live.get_mut(volume) else { continue };
            live.kept = None;
            let old = std::mem::replace(&mut live.overlay, Overlay::new(epoch));
            let segments: Vec<Arc<Segment>> = old.into_segments().collect();
            // A snapshot that waits is of an earlier epoch than what is written now.
            let epoch = segments.first().map_or(epoch, |first| first.epoch);
            live.overlay = Overlay::new(epoch);
            self.log_mark(&Record::AgainBegins { volume: *volume, epoch })?;
            for segment in segments {
                self.log_segment(state, *volume, &segment)?;
            }
            self.log_mark(&Record::AgainEnds { volume: *volume })?;
        }
        Ok(true)
    }

    /// Hosts leave room in the journal for what it has of volumes that could not be destaged, or would not be now.
    /// What hosts write to those from now on counts by itself.
    pub(crate) fn keep_room(&self) {
        let levels = self.levels_at_risk();
        let state = &mut *self.lock();
        let (mut blocks, mut is_any) = (0, false);
        for live in state.live.values_mut() {
            live.is_at_risk = live.level.is_some_and(|level| levels.contains(&level));
            if live.may_be_kept() {
                (blocks, is_any) = (blocks + blocks_again(&live.overlay), true);
            }
        }
        self.journal.keep_again(is_any.then_some(blocks));
    }

    /// Levels that miss more disks than they survive, in one of their sets at least.
    fn levels_at_risk(&self) -> BTreeSet<Level> {
        let is_in = |record: &MemberRecord| {
            matches!(record.state, MemberState::Active | MemberState::Retired)
        };
        let are_all_in = self.lock().label.members.iter().all(is_in)
            && self.raid.disks().all().iter().all(|disk| disk.access() == Access::Full);
        if are_all_in {
            return BTreeSet::new();
        }
        let is_short = |set: &Arc<Set>| self.missing_members(set) > set.losses_max();
        let short = self.sets.all().into_iter().filter(is_short);
        short.filter_map(|set| set.level()).collect()
    }

    /// The journal holds on to all that it has of these volumes.
    fn keep_in_journal(&self, volumes: &[VersionId]) {
        let state = &mut *self.lock();
        for volume in volumes {
            let from = state.since;
            let Some(live) = state.live.get_mut(volume) else { continue };
            let epoch = live.overlay.epoch();
            if live.kept.replace(live.kept.unwrap_or(Kept { from, epoch })).is_some() {
                continue;
            }
            let text = format!(
                "the journal keeps what was written to volume {}: when it is full of that, writes to \
                 other volumes wait until the disks are back, or the volume is deleted",
                state.tables.volumes[volume].name
            );
            tracing::warn!("{text}");
            state.note(self.env.unix_seconds(), text);
        }
    }

    pub(crate) fn log_mark(&self, record: &Record) -> Result<(), ArrayError> {
        self.append_again(record, None).map(drop)
    }

    /// Room was looked for: what is refused all the same is so because the journal has failed.
    fn append_again(&self, record: &Record, data: Option<&Data>) -> Result<Appended, ArrayError> {
        self.journal.append_again(record, data).map_err(|refused| match self.journal.failure() {
            Some(error) => error.into(),
            None => ArrayError::Damaged(format!("what a lost volume wrote has no room: {refused}")),
        })
    }

    fn log_segment(
        &self,
        state: &mut State,
        volume: VersionId,
        segment: &Segment,
    ) -> Result<(), ArrayError> {
        let per = CLUSTER_BLOCKS as u64;
        for range in segment.zeroed() {
            let (block, blocks) = (range.start * per, (range.end - range.start) * per);
            let record = Record::Zero { volume, block, blocks };
            self.append_again(&record, None)?;
            state.zero(volume, block, blocks);
        }
        for (cluster, patch) in segment.patches() {
            self.log_patch(state, volume, cluster, patch)?;
        }
        let Some(taken) = segment.taken() else { return Ok(()) };
        let one = journal::Taken { volume, snapshot: taken.snapshot, name: taken.name.clone() };
        let (epoch, unix_seconds) = (taken.epoch, taken.unix_seconds);
        let record = Record::Snapshot { epoch, unix_seconds, taken: vec![one] };
        self.append_again(&record, None)?;
        let next = Epoch(taken.epoch.0 + 1);
        let live = state.live.get_mut(&volume).expect("a lost volume stays");
        live.overlay.take(taken.clone(), next);
        Ok(())
    }

    fn log_patch(
        &self,
        state: &mut State,
        volume: VersionId,
        cluster: u64,
        patch: &Patch,
    ) -> Result<(), ArrayError> {
        let first = cluster * CLUSTER_BLOCKS as u64;
        match &patch.base {
            Base::Below => {}
            Base::Zero => {
                let blocks = CLUSTER_BLOCKS as u64;
                let record = Record::Zero { volume, block: first, blocks };
                self.append_again(&record, None)?;
                state.zero(volume, first, blocks);
            }
            Base::At(place, crcs) => {
                let placed = Placed { volume, cluster, place: *place, crcs: **crcs };
                let record = Record::Map { clusters: vec![placed] };
                self.append_again(&record, None)?;
                state.enter_moved(&placed);
            }
        }
        for (index, block) in patch.blocks.iter().enumerate() {
            let block_at = first + index as u64;
            match block {
                Block::Base => {}
                Block::Zero => {
                    let record = Record::Zero { volume, block: block_at, blocks: 1 };
                    self.append_again(&record, None)?;
                    state.zero(volume, block_at, 1);
                }
                Block::Journal(position) => {
                    let record = Record::Data { volume, block: block_at, blocks: 1 };
                    let data = self.journal.payload(*position, BLOCK_BYTES);
                    let added = self.append_again(&record, Some(&data))?;
                    open(state, volume).write(block_at, 1, added.position);
                }
            }
        }
        // Changes of several segments become one, which needs one place.
        let kept = &mut open(state, volume).patch_mut(cluster).room;
        match kept.is_promised() {
            false => *kept = patch.room,
            true => state.give_back(volume, patch.room),
        }
        Ok(())
    }

    /// Volumes whose disks are back are served again.
    pub(crate) fn return_volumes(&self) {
        let lost: Vec<VersionId> = {
            let state = self.lock();
            // Not before the checkpoint has ended that set it aside: what is asked of that one must find
            // it so.
            let may_return =
                |live: &&Live| live.lost.is_some() && live.aside_in <= Some(state.checkpoint);
            let lost = state.live.iter().filter(|(_, live)| may_return(live));
            lost.map(|(id, _)| *id).collect()
        };
        for id in lost {
            let level = self.lock().tables.volumes[&id].level;
            let sets = self.sets.all();
            let mut mine = sets.iter().filter(|set| set.level() == Some(level));
            if mine.all(|set| self.missing_members(set) <= set.losses_max()) {
                let state = &mut *self.lock();
                if let Some(live) = state.live.get_mut(&id) {
                    live.lost = None;
                    let name = &state.tables.volumes[&id].name;
                    let text = format!("volume {name} is back: its disks are");
                    tracing::info!("{text}");
                    state.note(self.env.unix_seconds(), text);
                }
            }
        }
        self.keep_room();
    }
}

fn open(state: &mut State, volume: VersionId) -> &mut Segment {
    state.live.get_mut(&volume).expect("a lost volume stays").overlay.open()
}

/// Blocks that the journal needs to take all of these changes again, at most.
fn blocks_again(overlay: &Overlay) -> u64 {
    let (mut blocks, mut records) = (0, 2);
    for (_, patch) in overlay.patches() {
        let in_journal = patch.blocks.iter().filter(|block| matches!(block, Block::Journal(_)));
        blocks += in_journal.count() as u64;
        records += 1 + patch.blocks.iter().filter(|block| **block != Block::Base).count() as u64;
    }
    records += overlay.zeroed().count() as u64 + overlay.waiting().count() as u64;
    blocks + (records * AGAIN_BYTES).div_ceil(BLOCK_BYTES as u64)
}

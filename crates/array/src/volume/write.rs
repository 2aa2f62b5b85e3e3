//! Changing a volume: every change is a record of the journal and, in the same moment under the
//! lock, part of the overlay.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use block::{BlockError, IoFuture, WriteFlags};
use ring::Data;
use smallvec::SmallVec;

use super::plan::Of;
use super::read::in_block;
use super::{Device, exclusive};
use crate::api::Cache;
use crate::core::{Core, Live, State};
use crate::journal::{Appended, PAYLOAD_BLOCKS_MAX, Record, Ticket};
use crate::overlay::{Base, Room, Under};
use crate::tree::{Missing, PageRef, leaf};
use crate::{BLOCK_BYTES, CLUSTER_BLOCKS, CLUSTER_BYTES, VersionId};

/// Blocks of one record of a change that may be split.
pub(super) const RECORD_BLOCKS_MAX: usize = 128;

/// A change of some blocks.
#[derive(Debug, Clone)]
pub(super) enum Change {
    /// These bytes, whole blocks.
    Write(Data),
    /// Zeroes, and no space.
    Zero,
}

/// Why a change could not be made now.
#[derive(Debug)]
pub(super) enum Wait {
    /// This page of the map is needed to know whether it takes space.
    Page(Missing),
    /// The journal is full.
    Room,
    /// The journal has no room for what it may have to keep of the volume, or is full.
    Keep,
    /// An atomic operation holds some of the clusters.
    Unlock,
    /// There is no space; maybe a checkpoint gives some back.
    Space,
    /// It cannot be made at all.
    Never(BlockError),
}

/// Who writes to a volume that may have to be kept looks so often whether it is to be, or there is room. Within a minute
/// of the disks' going it is set aside, or they are back.
const KEEP_PAUSE: Duration = Duration::from_millis(10);

/// How often a change waits for space: for what checkpoints give back, then for the recycle bin.
const SPACE_WAITS: u8 = 2;

/// What a change has waited for in vain: it does not do so again.
#[derive(Debug, Default)]
pub(super) struct Waited {
    /// How often.
    for_space: u8,
    for_page: Option<PageRef>,
}

impl From<Missing> for Wait {
    fn from(missing: Missing) -> Self {
        Self::Page(missing)
    }
}

impl Device {
    pub(super) fn volume(&self) -> Result<VersionId, BlockError> {
        match self.of {
            Of::Head(volume) => Ok(volume),
            Of::Snapshot(..) => Err(BlockError::ReadOnly),
        }
    }

    pub(super) fn write_device(&self, at: u64, data: Data, flags: WriteFlags) -> IoFuture<()> {
        let len = data.len();
        let checked = match flags.atomic {
            true => self.shape().check_atomic(at, len as u64),
            false => self.shape().check_change(at, len as u64),
        };
        let volume = match checked.and_then(|()| self.volume()) {
            Ok(volume) => volume,
            Err(error) => return IoFuture::ready(Err(error)),
        };
        if len == 0 {
            return IoFuture::ready(Ok(()));
        }
        self.core.host_ops.fetch_add(1, Ordering::Relaxed);
        let core = Arc::clone(&self.core);
        if flags.atomic {
            let writing = exclusive::write_atomic(core, volume, at, data, flags.durable);
            return IoFuture::boxed(writing);
        }
        let is_whole = (at | len as u64).is_multiple_of(BLOCK_BYTES as u64);
        if !is_whole {
            return IoFuture::boxed(exclusive::write_parts(core, volume, at, data, flags.durable));
        }
        let first = at / BLOCK_BYTES as u64;
        if len > CLUSTER_BYTES || len == CLUSTER_BYTES && at.is_multiple_of(CLUSTER_BYTES as u64) {
            return self.write_large(volume, first, data, flags.durable);
        }
        let count = len / BLOCK_BYTES;
        let change = Change::Write(data.clone());
        let tried =
            core.may_go(count as u64).then(|| core.try_change(volume, first, count, &change));
        match tried {
            Some(Ok(ticket)) => {
                IoFuture::boxed(async move { core.journal.answered(ticket, flags.durable).await })
            }
            _ => IoFuture::boxed(async move {
                let ticket = core.change(volume, first, Change::Write(data)).await?;
                core.journal.answered(ticket, flags.durable).await
            }),
        }
    }

    pub(super) fn zero_device(&self, at: u64, len: u64, durable: bool) -> IoFuture<()> {
        let volume = match self.shape().check_change(at, len).and_then(|()| self.volume()) {
            Ok(volume) => volume,
            Err(error) => return IoFuture::ready(Err(error)),
        };
        if len == 0 {
            return IoFuture::ready(Ok(()));
        }
        let core = Arc::clone(&self.core);
        IoFuture::boxed(exclusive::zero_parts(core, volume, at, len, durable))
    }
}

impl Device {
    /// Zeroes that hold space: they are written.
    pub(super) fn map_zeroes(&self, at: u64, len: u64, durable: bool) -> IoFuture<()> {
        let volume = match self.shape().check_change(at, len).and_then(|()| self.volume()) {
            Ok(volume) => volume,
            Err(error) => return IoFuture::ready(Err(error)),
        };
        let core = Arc::clone(&self.core);
        IoFuture::boxed(async move {
            let mut done = 0;
            let mut last = None;
            while done < len {
                let from = at + done;
                // Up to a border of records, so that only the outer ends are parts of blocks.
                let record = (RECORD_BLOCKS_MAX * BLOCK_BYTES) as u64;
                let piece = (record - from % record).min(len - done);
                let zeroes = exclusive::zeroes(piece)?;
                if (from | piece).is_multiple_of(BLOCK_BYTES as u64) {
                    let first = from / BLOCK_BYTES as u64;
                    last = Some(core.change(volume, first, Change::Write(zeroes)).await?);
                } else {
                    let core = Arc::clone(&core);
                    exclusive::write_parts(core, volume, from, zeroes, durable).await?;
                }
                done += piece;
            }
            match last {
                Some(ticket) => core.journal.answered(ticket, durable).await,
                None => Ok(()),
            }
        })
    }
}

impl Core {
    /// Makes a change if nothing has to be waited for.
    pub(super) fn try_change(
        &self,
        volume: VersionId,
        first: u64,
        count: usize,
        change: &Change,
    ) -> Result<Ticket, Wait> {
        let state = &mut *self.lock();
        let last = (first + count as u64 - 1) / CLUSTER_BLOCKS as u64;
        let live = state.live.get(&volume);
        let live = live.ok_or(Wait::Never(BlockError::Os { errno: libc::ENODEV }))?;
        if live.locked.range(first / CLUSTER_BLOCKS as u64..=last).next().is_some() {
            return Err(Wait::Unlock);
        }
        self.change_now(state, volume, first, count, change)
    }

    /// Makes a change, whoever holds the clusters.
    pub(super) fn change_now(
        &self,
        state: &mut State,
        volume: VersionId,
        first: u64,
        count: usize,
        change: &Change,
    ) -> Result<Ticket, Wait> {
        state.check_changeable(volume).map_err(Wait::Never)?;
        match change {
            Change::Write(data) => {
                assert_eq!(data.len(), count * BLOCK_BYTES, "a change of whole blocks");
                self.reserve_for(state, volume, first, count)?;
                let record = Record::Data { volume, block: first, blocks: count as u16 };
                let added = self.append(state, volume, &record, Some(data))?;
                let live = state.live.get_mut(&volume).expect("checked above");
                live.overlay.open().write(first, count as u64, added.position);
                Ok(added.ticket)
            }
            Change::Zero => {
                let record = Record::Zero { volume, block: first, blocks: count as u64 };
                let added = self.append(state, volume, &record, None)?;
                state.zero(volume, first, count as u64);
                Ok(added.ticket)
            }
        }
    }

    /// Puts a change of a volume into the journal; the volume says when it is answered.
    pub(super) fn append(
        &self,
        state: &mut State,
        volume: VersionId,
        record: &Record,
        payload: Option<&Data>,
    ) -> Result<Appended, Wait> {
        let is_durable = state.tables.volumes[&volume].cache == Cache::Durable;
        let is_at_risk = state.live.get(&volume).is_some_and(|live| live.is_at_risk);
        let added = match (is_at_risk, is_durable) {
            (true, _) => self.journal.append_at_risk(record, payload, is_durable),
            (false, true) => self.journal.append(record, payload),
            (false, false) => self.journal.append_volatile(record, payload),
        };
        let added = added.map_err(|_| if is_at_risk { Wait::Keep } else { Wait::Room })?;
        self.look_for_work(state, added.used_blocks);
        Ok(added)
    }

    /// Waits for what a change was refused for.
    ///
    /// # Errors
    /// When it cannot be had: what was waited for in vain is in `waited`.
    pub(super) async fn wait(
        self: &Arc<Self>,
        wait: Wait,
        first: u64,
        waited: &mut Waited,
    ) -> Result<(), BlockError> {
        match wait {
            Wait::Page(missing) => {
                let brought = self.bring(missing, &mut waited.for_page).await;
                brought.map_err(|error| in_block(&error, first))
            }
            Wait::Room => {
                self.work.ring();
                self.journal.room(PAYLOAD_BLOCKS_MAX).await
            }
            Wait::Keep => match self.journal.failure() {
                Some(error) => Err(error),
                None => {
                    self.work.ring();
                    self.env.sleep(KEEP_PAUSE).await;
                    Ok(())
                }
            },
            Wait::Unlock => {
                // Looked at again after the mark: the lock may just have gone.
                let mark = self.unlocked.mark();
                if self.lock().live.values().any(|live| !live.locked.is_empty()) {
                    self.unlocked.after(mark).await;
                }
                Ok(())
            }
            Wait::Space if waited.for_space == SPACE_WAITS => Err(BlockError::NoSpace),
            Wait::Space => {
                waited.for_space += 1;
                self.wait_for_space(waited.for_space == SPACE_WAITS).await
            }
            Wait::Never(error) => Err(error),
        }
    }

    /// Makes a change of at most [`RECORD_BLOCKS_MAX`] blocks, waiting for whatever it needs.
    pub(super) async fn change(
        self: &Arc<Self>,
        volume: VersionId,
        first: u64,
        change: Change,
    ) -> Result<Ticket, BlockError> {
        let Change::Write(data) = &change else { unreachable!("zeroes have their own count") };
        let count = data.len() / BLOCK_BYTES;
        self.change_counted(volume, first, count, &change).await
    }

    pub(super) async fn change_counted(
        self: &Arc<Self>,
        volume: VersionId,
        first: u64,
        count: usize,
        change: &Change,
    ) -> Result<Ticket, BlockError> {
        // What is no more than a record takes a block, if that.
        let blocks = if matches!(change, Change::Zero) { 1 } else { count as u64 };
        self.wait_to_go(volume, blocks).await;
        let mut waited = Waited::default();
        loop {
            match self.try_change(volume, first, count, change) {
                Ok(ticket) => return Ok(ticket),
                Err(wait) => self.wait(wait, first, &mut waited).await?,
            }
        }
    }
}

impl Core {
    /// Sets space aside for every cluster of the range that will need new space when it is
    /// destaged; all or nothing.
    fn reserve_for(
        &self,
        state: &mut State,
        volume: VersionId,
        first: u64,
        count: usize,
    ) -> Result<(), Wait> {
        let last = (first + count as u64 - 1) / CLUSTER_BLOCKS as u64;
        let mut rooms: SmallVec<[(u64, Room); 2]> = SmallVec::new();
        for cluster in first / CLUSTER_BLOCKS as u64..=last {
            let room = state.room_of(volume, cluster)?;
            rooms.push((cluster, room));
        }
        let level = state.tables.volumes[&volume].level;
        let Live { overlay, thick_left, .. } = &state.live[&volume];
        let (mut thick, mut more) = (0, 0);
        for (cluster, room) in &mut rooms {
            let patch = overlay.newest(*cluster);
            if patch.is_some_and(|patch| patch.room != Room::Undecided) {
                continue;
            }
            match room {
                Room::Thick if thick < *thick_left => thick += 1,
                Room::Thick | Room::Reserved => (*room, more) = (Room::Reserved, more + 1),
                Room::InPlace | Room::Undecided => {}
            }
        }
        if more > 0 && !self.reserve(state, level, more) {
            return Err(Wait::Space);
        }
        if thick > 0 && !self.reserve_kept(state, level, thick) {
            state.space.unreserve(level, more);
            return Err(Wait::Space);
        }
        let live = state.live.get_mut(&volume).expect("a volume in use is live");
        live.thick_left -= thick;
        for (cluster, room) in rooms {
            live.overlay.open().patch_mut(cluster).room = room;
        }
        Ok(())
    }
}

impl State {
    /// Where a change of `cluster` will go.
    pub(crate) fn room_of(&mut self, volume: VersionId, cluster: u64) -> Result<Room, Missing> {
        let live = &self.live[&volume];
        if let Some(patch) = live.overlay.newest(cluster)
            && patch.room != Room::Undecided
        {
            return Ok(patch.room);
        }
        self.room_at(volume, live.overlay.last(), cluster)
    }

    /// Where a change of `cluster` in this segment of the overlay will go.
    ///
    /// What a replay of the journal finds must never need more than was set aside before the crash:
    /// a full array would not have it. After a replay there are only the segments that snapshots
    /// divide, and one change of a cluster in each; before it there may be more, and each of them
    /// has what it needs.
    pub(crate) fn room_at(
        &mut self,
        volume: VersionId,
        segment: usize,
        cluster: u64,
    ) -> Result<Room, Missing> {
        let table = &self.tables.volumes[&volume];
        let fresh = if table.thick { Room::Thick } else { Room::Reserved };
        let (under, is_taken) = self.live[&volume].overlay.under(segment, cluster);
        match under {
            Under::Zero => return Ok(fresh),
            // A snapshot gets what is there; what it does not get is the volume's own by then.
            Under::Data if is_taken => return Ok(Room::Reserved),
            Under::Data => return Ok(Room::InPlace),
            Under::Map => {}
        }
        let (number, index) = leaf::position(cluster);
        let page = crate::tree::lookup(&mut self.pages, table.head.root, number)?;
        let sharing = self.tables.sharing(table.head.parent);
        Ok(match page.and_then(|page| leaf::get(&page, index)) {
            Some(entry) if is_taken || sharing.shares(entry.birth, number) => Room::Reserved,
            Some(_) => Room::InPlace,
            None => fresh,
        })
    }

    /// Blocks read as zeroes from now on; what was set aside for them is free again.
    pub(crate) fn zero(&mut self, volume: VersionId, first: u64, count: u64) {
        let live = self.live.get_mut(&volume).expect("a volume in use is live");
        let gone = live.overlay.open().zero(first, count);
        for gone in gone {
            self.give_back(volume, gone.room);
            if let Base::At(place, _) = gone.base {
                self.replaced.push(place);
            }
        }
    }
}

//! What is in memory and changes.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use crate::api::Event;

use super::{RecordRoom, Space};
use crate::checkpoint::marks::Marks;
use crate::engine::{CLOSED, Kept, Payload};
use crate::error::ArrayError;
use crate::journal::Mark;
use crate::label::{Label, MemberKind};
use crate::membership::Lack;
use crate::mutants::{self, Mutant};
use crate::overlay::{Overlay, Room};
use crate::pages::PageCache;
use crate::raid::Left;
use crate::sync::Reply;
use crate::tables::Tables;
use crate::tree::{Missing, PageAddr};
use crate::upkeep::{HealQueue, LostBlocks, Progress, Return};
use crate::{CLUSTER_BLOCKS, DiskId, Epoch, Level, Place, SetId, VersionId};

/// Events that are kept for those who ask.
const EVENTS_MAX: usize = 1000;

/// A change of the tables that waits for the next checkpoint.
pub(crate) struct Request {
    /// Makes the change, or refuses.
    #[allow(clippy::type_complexity)]
    pub(crate) change: Box<dyn FnOnce(&mut Tables, &mut State) -> Result<(), ArrayError> + Send>,
    /// Told when the checkpoint that has it is durable.
    pub(crate) asker: Asker,
}

/// Who asked for a change and waits for the answer.
///
/// Whatever becomes of the change, they are answered: one that is dropped says that the array has
/// stopped.
#[derive(Debug)]
pub(crate) struct Asker(Option<Reply<Result<(), ArrayError>>>);

impl Asker {
    pub(crate) fn new(reply: Reply<Result<(), ArrayError>>) -> Self {
        Self(Some(reply))
    }

    pub(crate) fn answer(mut self, result: Result<(), ArrayError>) {
        let reply = self.0.take().expect("an answer is given once");
        reply.give(result);
    }
}

impl Drop for Asker {
    fn drop(&mut self) {
        if let Some(reply) = self.0.take() {
            reply.give(Err(ArrayError::Stopped("a checkpoint did not end".into())));
        }
    }
}

/// What a checkpoint freed, and who may still be reading it.
#[derive(Debug, Default)]
pub(crate) struct Limbo {
    /// Readers that began before the checkpoint hold it.
    pub(crate) readers: Arc<()>,
    pub(crate) places: Vec<Place>,
    pub(crate) pages: Vec<PageAddr>,
}

/// Checksums of the blocks of a cluster, where they are known.
pub(crate) type Redone = [Option<u32>; CLUSTER_BLOCKS];

/// What goes on with a volume.
#[derive(Debug)]
pub(crate) struct Live {
    pub(crate) overlay: Overlay,
    /// Clusters that an atomic operation is changing.
    pub(crate) locked: BTreeSet<u64>,
    /// Clusters that are kept for a thick volume because nothing is written to them yet, and of
    /// which level.
    pub(crate) thick_left: u64,
    pub(crate) level: Option<Level>,
    /// An operation is under way that no change may get between.
    pub(crate) is_sealed: bool,
    /// Why it cannot be served, if its sets lost too many disks.
    pub(crate) lost: Option<String>,
    /// The last checkpoint could not destage it, and let the journal keep what it has of it.
    pub(crate) kept: Option<Kept>,
    /// The last checkpoint that could not destage it: what it has is not in its map.
    pub(crate) aside_in: Option<u64>,
    /// Its sets miss so many disks that a checkpoint could not destage it.
    pub(crate) is_at_risk: bool,
}

impl Live {
    pub(crate) fn new(epoch: Epoch) -> Self {
        Self {
            overlay: Overlay::new(epoch),
            locked: BTreeSet::new(),
            thick_left: 0,
            level: None,
            is_sealed: false,
            lost: None,
            kept: None,
            aside_in: None,
            is_at_risk: false,
        }
    }

    /// Whether the journal has changes of it that did not get into its map when they were to.
    pub(crate) fn is_aside(&self) -> bool {
        self.lost.is_some() || self.aside_in.is_some()
    }

    /// Whether the journal has to hold on to what it has of it, or would if a checkpoint came now.
    pub(crate) fn may_be_kept(&self) -> bool {
        self.is_at_risk || self.is_aside() || self.kept.is_some()
    }

    /// As it is before the journal, when that keeps what a checkpoint could not destage.
    pub(crate) fn keep(&mut self, kept: Kept) {
        self.overlay = Overlay::new(kept.epoch);
        self.kept = Some(kept);
    }
}

/// The state of an array.
pub(crate) struct State {
    /// As the last checkpoint has them.
    pub(crate) tables: Tables,
    /// By volume; the same keys as `tables.volumes`.
    pub(crate) live: BTreeMap<VersionId, Live>,
    pub(crate) pages: PageCache,
    pub(crate) space: Space,
    /// Of what is written now.
    pub(crate) epoch: Epoch,
    pub(crate) next_version: u32,
    /// How long the next checkpoint record may get.
    pub(crate) record: RecordRoom,
    /// The last one that is durable.
    pub(crate) checkpoint: u64,
    /// It was made since the array was opened.
    pub(crate) has_settled: bool,
    /// Where that one had the journal begin, but for what it keeps.
    pub(crate) since: Mark,
    /// What it says of disks that hold no checkpoints.
    pub(crate) marks: Marks,
    pub(crate) requests: Vec<Request>,
    /// What the checkpoint that runs keeps for thick volumes that it makes.
    pub(crate) promised: Vec<(Level, u64)>,
    /// Clusters that were replaced in the overlay itself: no map ever had them.
    pub(crate) replaced: Vec<Place>,
    /// Places whose first write failed: taken until the next opening, since it may still be under way
    /// on some disk, and in no map.
    pub(crate) abandoned: BTreeSet<Place>,
    /// How many clusters were written to new places since the last checkpoint began; as many old
    /// places may wait for the next one to be free.
    pub(crate) moved: u64,
    /// What lets the checkpointer look for work; none while it does not wait for that.
    pub(crate) wanted_for: Option<Wanted>,
    pub(crate) limbo: Vec<Limbo>,
    /// As it stands on the disks.
    pub(crate) label: Label,
    /// Disks that are out: since when, and why.
    pub(crate) away: BTreeMap<DiskId, (Duration, String)>,
    /// Disks that lack all and count as having it until others have the checkpoints and the journal too.
    pub(crate) waived: BTreeMap<DiskId, Lack>,
    /// Disks that an operator is declaring failed.
    pub(crate) condemned: BTreeSet<DiskId>,
    /// Disks that are empty and whose labels say in a moment that they have left: nothing may come
    /// onto them any more.
    pub(crate) going: BTreeSet<DiskId>,
    /// Disks that came back.
    pub(crate) returns: BTreeMap<DiskId, Return>,
    /// What happened, the oldest first; and how many were dropped before those.
    pub(crate) events: VecDeque<Event>,
    pub(crate) events_dropped: u64,
    /// Long work under way.
    pub(crate) jobs: BTreeMap<u64, Progress>,
    pub(crate) next_job: u64,
    /// How often a rebalancing was begun since the array was opened, and which of these was cancelled last.
    pub(crate) rebalances: u64,
    pub(crate) rebalance_cancelled: u64,
    /// Chunks that a set has left; free after the next checkpoint.
    pub(crate) left_chunks: Vec<Left>,
    /// Those that no record has any more; free when nobody uses them.
    pub(crate) vacated: Vec<Left>,
    /// The next one of the redo area. It goes on where it was after a crash: of two waves of one
    /// checkpoint the one with the higher number is the later one, whichever attempt it is of.
    pub(crate) next_wave: u64,
    /// What a checkpoint that did not end has left in place, and the maps do not know: checksums
    /// by set, stripe and column.
    pub(crate) redone: BTreeMap<(SetId, u32, usize), Redone>,
    /// Copies of pages that were wrong, since the array was opened.
    pub(crate) rewritten_pages: u64,
    /// Blocks to be rewritten from redundancy.
    pub(crate) heals: HealQueue,
    pub(crate) lost: LostBlocks,
    /// Something in the journal has waited for long enough.
    pub(crate) is_aged: bool,
    /// Somebody waits for space that the next checkpoint may give back.
    pub(crate) wants_checkpoint: bool,
    /// Blocks that were in the journal when the last checkpoint had trimmed it.
    pub(crate) kept_blocks: u64,
    /// Why nothing works any more.
    pub(crate) stopped: Option<String>,
    /// Who closed it waits for nothing any more: labels that are still being changed stay as they are.
    pub(crate) has_ended: bool,
}

/// How much must have happened for a checkpoint to be worth a look.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Wanted {
    /// Of the journal in use.
    pub(crate) used_blocks: u64,
    /// As [`State::moved`] counts.
    pub(crate) moved: u64,
}

impl State {
    /// As a checkpoint and the labels have it, before the journal.
    pub(crate) fn new(
        (payload, payload_bytes): (&Payload, usize),
        label: &Label,
        space: Space,
        cache_bytes: usize,
    ) -> Self {
        Self {
            tables: payload.tables.clone(),
            live: BTreeMap::new(),
            pages: PageCache::new(cache_bytes),
            space,
            epoch: payload.epoch,
            next_version: payload.next_version,
            record: RecordRoom::new(&label.layout, payload.tables_bytes(payload_bytes)),
            checkpoint: payload.number,
            has_settled: false,
            since: payload.since,
            marks: payload.marks.clone(),
            requests: Vec::new(),
            promised: Vec::new(),
            replaced: Vec::new(),
            abandoned: BTreeSet::new(),
            moved: 0,
            wanted_for: None,
            limbo: Vec::new(),
            label: label.clone(),
            away: BTreeMap::new(),
            waived: BTreeMap::new(),
            condemned: BTreeSet::new(),
            going: BTreeSet::new(),
            returns: BTreeMap::new(),
            events: VecDeque::new(),
            events_dropped: 0,
            jobs: BTreeMap::new(),
            next_job: 0,
            rebalances: 0,
            rebalance_cancelled: 0,
            left_chunks: Vec::new(),
            vacated: Vec::new(),
            next_wave: 0,
            redone: BTreeMap::new(),
            rewritten_pages: 0,
            heals: HealQueue::default(),
            lost: LostBlocks::default(),
            is_aged: false,
            wants_checkpoint: false,
            kept_blocks: 0,
            stopped: None,
            has_ended: false,
        }
    }

    pub(crate) fn check_running(&self) -> Result<(), ArrayError> {
        match &self.stopped {
            Some(reason) => Err(ArrayError::Stopped(reason.clone())),
            None => Ok(()),
        }
    }

    /// Whether it has not stopped by itself; one that is being closed ends in order, until it has ended.
    pub(crate) fn check_working(&self) -> Result<(), ArrayError> {
        match &self.stopped {
            Some(reason)
                if (self.has_ended || reason != CLOSED) && !mutants::is(Mutant::LoneLabel) =>
            {
                Err(ArrayError::Stopped(reason.clone()))
            }
            _ => Ok(()),
        }
    }

    /// Nothing is begun any more on an array that has stopped or was closed: others may have its disks.
    ///
    /// # Errors
    /// [`ArrayError::Stopped`].
    pub(crate) fn check_open(&self) -> Result<(), ArrayError> {
        match &self.stopped {
            Some(reason) if !mutants::is(Mutant::LoneLabel) => {
                Err(ArrayError::Stopped(reason.clone()))
            }
            _ => Ok(()),
        }
    }

    /// What people are told of an array that has stopped by itself: nothing on it is served.
    pub(crate) fn stop_reason(&self) -> Option<String> {
        let reason = self.stopped.as_ref()?;
        Some(format!("the array has stopped, nothing on it is served: {reason}"))
    }

    /// Members that nothing is on and nothing comes onto any more: they leave as soon as others hold what they
    /// hold of the journal and the checkpoints. One for the journal alone leaves when it is told to.
    pub(crate) fn about_to_leave(&self) -> Vec<DiskId> {
        if mutants::is(Mutant::HastyLeave) {
            return Vec::new();
        }
        let is_told = |disk: DiskId| self.tables.leaving.contains(&disk);
        let chunks = &self.space.chunks;
        let leaves = |disk: &DiskId| match chunks.counts(*disk) {
            Some((_, used)) => used == 0 && (is_told(*disk) || !chunks.is_open(*disk)),
            None => is_told(*disk),
        };
        self.label.active().filter(leaves).collect()
    }

    /// Whether new sets of a level in use, or of the one that volumes get, need `disk`.
    pub(crate) fn needs_open(&self, disk: DiskId, level: Level) -> bool {
        let used = self.tables.volumes.values().map(|volume| volume.level);
        let levels: BTreeSet<Level> = used.chain([level]).collect();
        levels.into_iter().any(|level| self.space.level_needs(level, disk))
    }

    /// Whether a disk has left the array.
    pub(crate) fn retired(&self, disk: DiskId) -> bool {
        let record = self.label.member(disk);
        record.is_none_or(|record| record.state == crate::label::MemberState::Retired)
    }

    /// Whether a disk that nothing is on does not leave by itself: it has left already, or it is for the
    /// journal alone. No rebuild makes up for one of those, so who looks must find that it is gone.
    pub(crate) fn stays(&self, disk: DiskId) -> bool {
        let is_journal =
            self.label.member(disk).is_some_and(|record| record.kind == MemberKind::Journal);
        self.retired(disk) || is_journal && !self.tables.leaving.contains(&disk)
    }

    /// Remembers that something happened.
    pub(crate) fn note(&mut self, unix_seconds: u64, text: String) {
        if self.events.len() == EVENTS_MAX {
            self.events.pop_front();
            self.events_dropped += 1;
        }
        self.events.push_back(Event { unix_seconds, text });
    }

    /// What was promised to a change of `volume` is not needed: it is free again, or kept for its
    /// thick volume as before.
    pub(crate) fn give_back(&mut self, volume: VersionId, room: Room) {
        let level = self.tables.volumes[&volume].level;
        self.space.unreserve(level, u64::from(room.is_promised()));
        if room == Room::Thick {
            self.space.pool.keep(level, 1);
            self.live.get_mut(&volume).expect("a volume in use is live").thick_left += 1;
        }
    }

    /// Whether a page that somebody has asked for and holds the reader of must still be at its address:
    /// that is not given to another as long as the reader counts here, and none is known there.
    pub(crate) fn is_there(&self, missing: &Missing) -> bool {
        let is_it = |readers: &Arc<()>| Arc::ptr_eq(readers, &missing.reader);
        let counts = is_it(self.pages.readers()) || self.limbo.iter().any(|l| is_it(&l.readers));
        let addr = missing.page.addr;
        counts && self.space.is_page_used(addr) && !self.pages.is_other(missing.page)
    }

    /// A number for a new volume or snapshot.
    pub(crate) fn take_version(&mut self) -> VersionId {
        let id = VersionId(self.next_version);
        self.next_version = id.0.checked_add(1).expect("4 billion volumes and snapshots");
        id
    }
}

//! Making an array, and finding one again.
//!
//! ```text
//!  labels ─▶ checkpoint record ─▶ sets, space, tables ─▶ journal ─▶ redo area      read
//!    ─▶ labels say who is not there ─▶ redo ─▶ first checkpoint                    written
//! ```
//!
//! Whether the array is opened at all, and what is believed, is decided in
//! [`membership`], before anything is written. The first that is written are the
//! labels: who is not there now is not believed later. The first checkpoint brings all copies to
//! the same state: only then is the array open.

mod create;
mod lacking;
mod options;
mod replay;

use std::pin::pin;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use block::{BlockDevice, BlockError};
use futures_util::future::{Either, join_all, select};

use crate::DiskId;
use crate::cache::BlockCache;
use crate::checkpoint::slots::{Slot, SlotError, void_other, write_slot};
use crate::core::{Alarm, Core, RESERVE_BYTES, RETRY, Space, State, Touched, set_layout};
use crate::engine::{Payload, Unfinished, is_said_again, sound_for};
use crate::env::Env;
use crate::error::ArrayError;
use crate::journal::{
    self, Believed, Holder, HolderFailed, Journal, JournalDamage, Record, Scanned,
};
use crate::label::{self, Found, Label, MemberKind};
use crate::manage::Array;
use crate::membership::{self, Event, OpenRefusal, Opening, SetDisks};
use crate::mutants::{self, Mutant};
use crate::raid::{
    Access, Disks, Layout as SetLayout, PASSING_TRIES_MAX, Raid, Set, SetRecord, Update, is_passing,
};
use crate::space::Gives;
use crate::sync::{Bell, Turn};
use crate::watch::Beat;
use lacking::{Newest, leave_old_ones, read_newest};

use replay::check_newest;

pub use create::CreateOptions;
pub(crate) use create::random_id;
pub use options::OpenOptions;

/// A disk as the caller found it.
#[derive(Debug, Clone)]
pub struct Member {
    /// Its path, or another word for people.
    pub name: String,
    /// The disk.
    pub device: Arc<dyn BlockDevice>,
}

/// So long a disk may take to say what it is: as long as the kernel gives one command to a SCSI disk. One that takes
/// longer is as good as not there; when it answers again, somebody gives it to the array like one that was unplugged.
const PATIENCE: Duration = Duration::from_secs(30);

/// What a disk is, for `disk list` and the like; writes nothing.
///
/// # Errors
/// [`ArrayError::Silent`] when it does not say so in half a minute; those of the disk.
pub async fn probe(env: &dyn Env, device: &dyn BlockDevice) -> Result<Found, ArrayError> {
    match select(pin!(label::read(device)), env.sleep(PATIENCE)).await {
        Either::Left((found, _)) => Ok(found?),
        Either::Right(_) => Err(ArrayError::Silent { seconds: PATIENCE.as_secs() }),
    }
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
        let found = find(&*env, &disks).await;
        let mut opening = membership::choose(&found, options.accept_missing).map_err(refuse)?;
        for (index, reason) in &opening.foreign {
            tracing::warn!("{} is not used: {reason}", disks[*index].name);
        }
        let alarm = Arc::new(Alarm::default());
        let raid = raid_over(&disks, &opening, &alarm);
        let newest = read_newest(&*env, raid.disks(), &mut opening).await?;
        let loaded = load(env, (raid, alarm), &mut opening, newest, &options).await?;
        let core = Arc::clone(&loaded.core);
        core.note_missing(&found, &options.absent, &opening);
        let opened = core.bring_up(&found, &opening, loaded).await;
        if let Err(error) = opened {
            // Whoever runs already must not go on alone.
            core.stop(&error);
            return Err(core.reason_of(&error));
        }
        Ok(Self { core })
    }
}

fn refuse(refusal: OpenRefusal) -> ArrayError {
    match refusal.missing() {
        [] => ArrayError::Refused(refusal.to_string()),
        _ => ArrayError::Incomplete(refusal),
    }
}

/// What was read, before anything is written.
struct Loaded {
    core: Arc<Core>,
    newest: Newest,
    /// Holders of the journal that lack some of it.
    journal_lagging: Vec<DiskId>,
    /// What a checkpoint that was cut off has half done.
    waves: Vec<Unfinished>,
    /// The journal is lost, and the operator has accepted that.
    is_given_up: bool,
}

/// What the disks are. One that cannot be read is as good as not there; want of memory says nothing about it.
async fn find(env: &dyn Env, disks: &[Member]) -> Vec<(String, Found)> {
    let reads = disks.iter().map(|disk| async move {
        for _ in 1..PASSING_TRIES_MAX {
            match probe(env, &*disk.device).await {
                Err(ArrayError::Io(error)) if is_passing(error) => env.sleep(RETRY).await,
                read => return read,
            }
        }
        Err(BlockError::NoMemory.into())
    });
    let names = disks.iter().map(|disk| disk.name.clone());
    let found = join_all(reads).await.into_iter().map(|found| {
        found.unwrap_or_else(|error| Found::Foreign(format!("a disk that cannot be read: {error}")))
    });
    names.zip(found).collect()
}

async fn load(
    env: Arc<dyn Env>,
    (raid, alarm): (Raid, Arc<Alarm>),
    opening: &mut Opening,
    newest: Newest,
    options: &OpenOptions,
) -> Result<Loaded, ArrayError> {
    let payload = Payload::decode(&newest.slot.payload)?;
    let sets = sets_of(&payload, set_layout(&opening.label.layout))?;
    let their_disks: Vec<SetDisks> = sets.iter().map(set_disks).collect();
    let needed = leave_old_ones(raid.disks(), opening, &payload.marks, &their_disks).await;
    let Read { records, mut scanned, is_given_up } =
        read_journal(raid.disks(), opening, &newest, &payload).await?;
    let (opening, label) = (&*opening, &opening.label);
    let holders = present(raid.disks(), opening, &label.holders);
    let journal_holders = present(raid.disks(), opening, &label.journal);
    check_newest(&payload, &records, opening.accepted)?;
    scanned.stand_apart(env.random());
    let journal_lagging = scanned.lagging.clone();
    let journal = Journal::new(label.array, &label.layout, journal_holders, payload.mark, scanned);
    let core = Arc::new(Core {
        env,
        id: label.array,
        layout: label.layout,
        level: payload.level,
        raid: Arc::new(raid),
        sets: crate::core::Sets::default(),
        journal: Arc::new(journal),
        state: Mutex::new(fresh_state(
            label,
            opening,
            (&payload, newest.slot.payload.len()),
            options,
        )),
        alarm: Arc::clone(&alarm),
        touched: Touched::default(),
        cache: BlockCache::new(options.block_cache_bytes),
        ahead: crate::volume::Ahead::default(),
        host_ops: AtomicU64::new(0),
        checkpointing: Turn::default(),
        labelling: Turn::default(),
        disk_commands: Turn::default(),
        condemning: Mutex::default(),
        taking_back: Mutex::default(),
        work: Bell::default(),
        upkeep: Bell::default(),
        settled: AtomicU64::new(u64::MAX),
        unlocked: Bell::default(),
        holds: crate::core::Holds::default(),
        balanced: Bell::default(),
        checkpoint_beat: Beat::default(),
        throttle: crate::volume::Throttle::default(),
        upkeep_beat: Beat::default(),
        repair_beat: Beat::default(),
        watch: Mutex::default(),
    });
    alarm.connect(&core);
    core.load_sets(&payload, sets)?;
    // The redo area may be about sets that only the journal knows.
    let anew = core.replay(&records)?;
    let waves = core.unfinished(&holders, payload.number, &anew).await;
    opening.check_old(core.sets.all().iter().map(|set| set_disks(set))).map_err(refuse)?;
    core.mark_lacking(opening);
    core.check_disks(opening, &waves)?;
    core.note_lacking_all(opening);
    core.note_needed(&needed);
    Ok(Loaded { core, newest, journal_lagging, waves, is_given_up })
}

/// The RAID layer over the disks that are there. All that is asked of them from here on goes through it.
fn raid_over(disks: &[Member], opening: &Opening, alarm: &Arc<Alarm>) -> Raid {
    let raid = Raid::new(Arc::clone(alarm) as Arc<dyn crate::raid::DiskFailed>);
    for present in opening.current.iter().chain(opening.stale.iter().map(|(p, _)| p)) {
        let member = &disks[present.index];
        raid.disks().add(present.disk, &member.name, Arc::clone(&member.device));
    }
    raid
}

/// What the journal has.
struct Read {
    /// Its records, and where each has its payload.
    records: Vec<(Record, u64)>,
    scanned: Scanned,
    /// It is lost, and the operator has accepted that.
    is_given_up: bool,
}

/// Reads the journal of those that have all, or also of those that were cut short if they do not give it: then
/// `opening` counts those as having all.
async fn read_journal(
    disks: &Disks,
    opening: &mut Opening,
    newest: &Newest,
    payload: &Payload,
) -> Result<Read, ArrayError> {
    let (read, found) = scan_journal(disks, opening, newest, payload).await;
    let mut wider = opening.clone();
    let cut = opening.label.journal.iter().filter(|disk| opening.may_give(**disk));
    cut.for_each(|disk| wider.waive(*disk));
    if found.is_err() && wider != *opening && !mutants::is(Mutant::BlindToCut) {
        let (read, found) = scan_journal(disks, &wider, newest, payload).await;
        if let Ok(scanned) = found {
            *opening = wider;
            return Ok(Read { records: read, scanned, is_given_up: false });
        }
    }
    let (label, from) = (&opening.label, payload.mark);
    let holders = present(disks, opening, &label.journal);
    let is_given_up = match &found {
        Err(JournalDamage::Old { .. }) => opening.accepted,
        // It went on with what is given up.
        Err(JournalDamage::Lost { .. }) => opening.goes_back,
        _ => false,
    };
    if is_given_up {
        let scanned = journal::given_up(&holders, &label.layout, from, label.generation);
        let scanned = scanned.map_err(|error| ArrayError::Damaged(error.to_string()))?;
        return Ok(Read { records: Vec::new(), scanned, is_given_up });
    }
    match found {
        Err(JournalDamage::Old { .. }) => {
            let disks = opening.names(holders.iter().map(|holder| holder.disk));
            Err(refuse(OpenRefusal::OldJournal { array: label.array, disks }))
        }
        Err(error) => Err(ArrayError::Damaged(error.to_string())),
        Ok(scanned) => Ok(Read { records: read, scanned, is_given_up: false }),
    }
}

/// What those have of the journal that have all, with its records.
async fn scan_journal(
    disks: &Disks,
    opening: &Opening,
    newest: &Newest,
    payload: &Payload,
) -> (Vec<(Record, u64)>, Result<Scanned, JournalDamage>) {
    let (label, from) = (&opening.label, payload.mark);
    let holders = present(disks, opening, &label.journal);
    if opening.accepted && holders.is_empty() {
        return (Vec::new(), Err(JournalDamage::Old { position: from.position }));
    }
    let since = payload.since.position;
    let believed = Believed { from, since, holders: newest.believed(opening) };
    let mut records = Vec::new();
    let mut each = |record, position| records.push((record, position));
    let scanned = journal::scan(&holders, &label.layout, label.array, &believed, &mut each).await;
    (records, scanned)
}

/// Those of the `wanted` members that are there and hold everything.
fn present(disks: &Disks, opening: &Opening, wanted: &[DiskId]) -> Vec<Holder> {
    holders_of(disks, wanted, |disk| opening.has_all(disk))
}

/// Those of the `wanted` members that are to be asked.
fn holders_of(disks: &Disks, wanted: &[DiskId], is_asked: impl Fn(DiskId) -> bool) -> Vec<Holder> {
    let holder = |disk: &DiskId| {
        Some(Holder { disk: *disk, device: Arc::clone(disks.get(*disk)?.device()) })
    };
    wanted.iter().filter(|disk| is_asked(**disk)).filter_map(holder).collect()
}

fn fresh_state(
    label: &Label,
    opening: &Opening,
    (payload, payload_bytes): (&Payload, usize),
    options: &OpenOptions,
) -> State {
    let mut space = Space::default();
    for record in &label.members {
        let is_there = record.is_used() && !opening.missing.contains(&record.disk);
        // One that failed has chunks until all of them were restored elsewhere.
        if record.kind == MemberKind::Data && record.state != label::MemberState::Retired {
            space.chunks.add_disk(record.disk, label.layout.chunks(record.size_bytes));
            let stays = !payload.tables.leaving.contains(&record.disk);
            let gives = match (is_there, stays) {
                (true, true) => Gives::Chunks,
                (true, false) => Gives::Nothing,
                (false, _) => Gives::Seats,
            };
            space.chunks.set_gives(record.disk, gives);
        }
    }
    space.set_spare(&label.layout, &label.data_sizes());
    space.set_lanes();
    space.next_set = payload.next_set;
    State::new((payload, payload_bytes), label, space, options.cache_bytes)
}

impl Core {
    fn load_sets(self: &Arc<Self>, payload: &Payload, sets: Vec<Set>) -> Result<(), ArrayError> {
        for set in sets {
            let set = Arc::new(set);
            let state = &mut *self.lock();
            for seat in set.seats() {
                if !state.space.chunks.claim(seat.disk, seat.chunk) {
                    let what =
                        format!("two sets share chunk {} of disk {}", seat.chunk, seat.disk.0);
                    return Err(ArrayError::Damaged(what));
                }
            }
            state.space.load_set(&set, payload.space.get(&set.id().0))?;
            self.sets.add(set);
        }
        let state = &mut *self.lock();
        state.adopt_volumes();
        for (volume, kept) in &payload.kept {
            state.live.entry(*volume).and_modify(|live| live.keep(*kept));
        }
        Ok(())
    }

    /// Refuses to open with disks that do not suffice.
    fn check_disks(&self, opening: &Opening, waves: &[Unfinished]) -> Result<(), ArrayError> {
        let sets = self.sets.all();
        opening.check_sets(sets.iter().map(|set| set_disks(set))).map_err(refuse)?;
        if !opening.accepted {
            self.check_waves(opening, waves)?;
        }
        Ok(())
    }

    /// What is half done would be forgotten with the next checkpoint: whoever is to take some of it
    /// must be there, or it must come out of what the others have.
    fn check_waves(&self, opening: &Opening, waves: &[Unfinished]) -> Result<(), ArrayError> {
        let is_gone = self.gone_for_good();
        let updates = waves.iter().enumerate().flat_map(|(index, unfinished)| {
            unfinished.wave.updates.iter().map(move |update| (index, update))
        });
        let mut updates = updates.filter(|(index, update)| !is_said_again(waves, *index, update));
        let is_lost = |(index, update): (usize, &Update)| {
            let (set, sound) = (self.sets.find(update.set), sound_for(waves, index, update));
            set.is_some_and(|set| !self.raid.can_redo(&set, update, &sound, &is_gone))
        };
        if !updates.any(is_lost) || mutants::is(Mutant::DropRedo) {
            return Ok(());
        }
        let is_away = |disk: DiskId| {
            self.raid.disks().get(disk).is_none_or(|member| member.access() != Access::Full)
        };
        let members = self.lock().label.members.clone();
        let away = members.iter().filter(|record| record.is_used() && is_away(record.disk));
        let missing = opening.names(away.map(|record| record.disk));
        Err(refuse(OpenRefusal::Unfinished { array: self.id, missing }))
    }

    /// From what was read to an open array.
    async fn bring_up(
        self: &Arc<Self>,
        found: &[(String, Found)],
        opening: &Opening,
        loaded: Loaded,
    ) -> Result<(), ArrayError> {
        let Loaded { newest, journal_lagging, waves, is_given_up, .. } = loaded;
        let mut first = opening.first_events(found, self.since());
        if is_given_up {
            self.note_given_up();
            first.insert(0, Event::JournalLost(self.since()));
            // Should this life be lost too, the next one that gives a journal up is told apart by the label.
            first.push(Event::Behind);
        }
        self.change_label(|_, _| first).await?;
        self.seal_start().await?;
        ring::keep_pool_reserve(RESERVE_BYTES);
        let hook = Arc::clone(&self.alarm) as Arc<dyn HolderFailed>;
        self.journal.begin_life();
        self.env.spawn(Box::pin(Arc::clone(&self.journal).run(hook)));
        for disk in journal_lagging {
            self.catch_up(disk).await;
        }
        // After that: who has the checkpoint is believed to have the journal.
        let has_all = |disk: &&DiskId| opening.has_all(**disk);
        self.renew_slots(&newest.slot, newest.lagging.iter().filter(has_all)).await;
        self.void_unread(&newest.slot, newest.unread.iter().filter(has_all)).await;
        self.forget_later(&newest, opening).await;
        self.renew_waves(&waves).await;
        self.redo(&waves).await?;
        if !opening.accepted {
            // A disk may have failed meanwhile.
            self.check_waves(opening, &waves)?;
        }
        self.decide_rooms().await?;
        let checkpoints = ring::with_reserve(Arc::clone(self).run_checkpoints());
        self.env.spawn(Box::pin(checkpoints));
        self.env.spawn(Box::pin(Arc::clone(self).run_upkeep()));
        self.env.spawn(Box::pin(Arc::clone(self).run_repairs()));
        self.env.spawn(Box::pin(Arc::clone(self).run_returns()));
        self.env.spawn(Box::pin(Arc::clone(self).run_watch()));
        self.checkpointed().await?;
        self.upkeep.ring();
        Ok(())
    }

    /// One more label, before anything relies on this start. The first one alone is no history: with disks of
    /// two copies of an array it looks as if it had been cut off, and they pass for one array. So it does where the next
    /// one puts a disk out, to the copy of that disk: until it puts none out, another one follows.
    async fn seal_start(self: &Arc<Self>) -> Result<(), ArrayError> {
        let mut puts_out = !mutants::is(Mutant::HastyStart);
        while puts_out {
            self.change_label(|_, _| vec![Event::Behind]).await?;
            puts_out = self.lock().label.puts_out() && !mutants::is(Mutant::LoneSeal);
        }
        Ok(())
    }

    /// What was in the journal alone is gone, as the operator said.
    fn note_given_up(&self) {
        let text = "the journal is lost and was given up, as was accepted: what was not in its place yet is gone";
        tracing::warn!("{text}");
        self.lock().note(self.env.unix_seconds(), text.to_owned());
    }

    /// Holders that lack the newest checkpoint get it: it must not hang on one disk while the next
    /// one is written.
    async fn renew_slots<'a>(
        self: &Arc<Self>,
        slot: &Slot,
        lagging: impl Iterator<Item = &'a DiskId>,
    ) {
        for disk in lagging.filter(|_| membership::gets_checkpoint(false)) {
            let Some(member) = self.raid.disks().get(*disk) else { continue };
            let devices = [Arc::clone(member.device())];
            let record = (slot.number, slot.payload.as_slice());
            let written = loop {
                match write_slot(&devices, &self.layout, self.id, record, &|_, _| {}).await {
                    Err(SlotError::NoMemory) => self.env.sleep(RETRY).await,
                    written => break written,
                }
            };
            if let Ok([Err(error)]) = written.as_deref() {
                let reason = format!("it does not take the newest checkpoint: {error}");
                self.disk_refused(*disk, *error);
                self.disk_failed(*disk, &reason).await;
            }
        }
    }

    /// What a holder did not give may be a newer checkpoint, of a moment before the power went. It is not
    /// believed any more, also when it can be read again: its pages are about to be used for others.
    async fn void_unread<'a>(
        self: &Arc<Self>,
        slot: &Slot,
        unread: impl Iterator<Item = &'a DiskId>,
    ) {
        if mutants::is(Mutant::KeepUnread) {
            return;
        }
        for disk in unread {
            let void = async |device: &dyn BlockDevice| {
                void_other(device, &self.layout, slot.number).await
            };
            self.must_take(*disk, "it does not give up an old checkpoint", void).await;
        }
    }

    /// Has a disk take something; one that does not is out, and why is told. Want of memory says nothing about it.
    async fn must_take(
        self: &Arc<Self>,
        disk: DiskId,
        why: &str,
        give: impl AsyncFn(&dyn BlockDevice) -> Result<(), BlockError>,
    ) {
        let Some(member) = self.raid.disks().get(disk) else { return };
        let device = Arc::clone(member.device());
        let taken = loop {
            match give(&*device).await {
                Err(error) if is_passing(error) => self.env.sleep(RETRY).await,
                taken => break taken,
            }
        };
        if let Err(error) = taken {
            self.disk_refused(disk, error);
            self.disk_failed(disk, &format!("{why}: {error}")).await;
        }
    }

    /// A holder that lacks some of the journal gets it, or is out.
    async fn catch_up(self: &Arc<Self>, disk: DiskId) {
        let Some(member) = self.raid.disks().get(disk) else { return };
        let holder = Holder { disk, device: Arc::clone(member.device()) };
        if let Err(error) = self.journal.fill(&holder).await {
            self.disk_refused(disk, error);
            self.disk_failed(disk, &format!("it cannot hold the journal: {error}")).await;
        }
    }

    /// A member that is missing may come back later. One may be where it was, and not be used. Of some it is
    /// known why they are `absent`.
    fn note_missing(
        &self,
        found: &[(String, Found)],
        absent: &[(String, String)],
        opening: &Opening,
    ) {
        let now = self.env.now();
        for (disk, name) in opening.missing.iter().zip(opening.missing_names()) {
            let mut foreign = opening.foreign.iter();
            let (text, reason) = match foreign.find(|(index, _)| found[*index].0 == name) {
                Some((_, why)) => (
                    format!("disk {name} cannot be used: {why}"),
                    format!("it cannot be used: {why}"),
                ),
                None => {
                    let why = absent.iter().find(|(other, _)| *other == name);
                    let why = why.map_or(String::new(), |(_, why)| format!(": {why}"));
                    (
                        format!("disk {name} is missing{why}"),
                        format!("it was not there when the array was opened{why}"),
                    )
                }
            };
            tracing::warn!("{text}");
            let state = &mut *self.lock();
            state.note(self.env.unix_seconds(), text);
            state.away.insert(*disk, (now, reason));
        }
    }

    /// Disks that can be written to.
    pub(crate) fn usable_disks(&self, label: &Label) -> usize {
        let all = self.raid.disks().all();
        let is_data = |id| label.member(id).is_some_and(|record| record.kind == MemberKind::Data);
        all.iter().filter(|disk| disk.access() == Access::Full && is_data(disk.id())).count()
    }
}

/// The RAID sets that a checkpoint has.
fn sets_of(payload: &Payload, layout: SetLayout) -> Result<Vec<Set>, ArrayError> {
    let damaged = |what: &dyn std::fmt::Display| ArrayError::Damaged(what.to_string());
    let (mut bytes, mut sets) = (&payload.sets[..], Vec::new());
    while !bytes.is_empty() {
        let record = SetRecord::decode(&mut bytes).map_err(|error| damaged(&error))?;
        sets.push(Set::new(record, layout).map_err(|error| damaged(&error))?);
    }
    Ok(sets)
}

fn set_disks(set: &Set) -> SetDisks {
    let members = set.members().into_iter();
    let members = members.map(|seat| (seat.disk, set.is_stale_on(seat.disk))).collect();
    SetDisks { members, losses_max: set.losses_max() }
}

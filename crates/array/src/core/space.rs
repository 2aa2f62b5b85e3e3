//! Free space: sets are made of chunks when they are needed, places are taken from sets.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::record::set_bytes_max;
use super::{Core, State};
use crate::error::ArrayError;
use crate::journal::Record;
use crate::label::Layout;
use crate::mutants::{self, Mutant};
use crate::raid::{Seat, Set};
use crate::space::{COPIES_MIN, Chunks, Claim, Gives, Kind, Pool, Slots, lanes, width};
use crate::tree::PageAddr;
use crate::{BLOCK_BYTES, CLUSTER_BYTES, DiskId, Level, Place, SetId};

/// One chunk in so many is kept for metadata, times its copies: maps take 80 bytes for a cluster.
const METADATA_SHARE: u64 = 256;
/// A run takes up to three bytes: sets have less than two million slots.
const RUNS_PER_WORD: usize = 2;
/// Pages of a strip.
const STRIP_PAGES: u32 = (CLUSTER_BYTES / BLOCK_BYTES) as u32;

/// The slots of each set that the maps have: what a checkpoint record says.
///
/// It is not what is taken: a cluster that was written directly to new space is taken before its
/// record is in the journal, and if that record never gets there, the cluster must be free after
/// a crash.
pub(crate) type Image = BTreeMap<u32, Vec<u8>>;

/// Space of an array.
#[derive(Debug, Default)]
pub(crate) struct Space {
    pub(crate) pool: Pool,
    pub(crate) chunks: Chunks,
    image: BTreeMap<SetId, Vec<u64>>,
    pub(crate) next_set: u32,
    /// What a checkpoint record says about all sets, at its longest.
    pub(crate) record_bytes: u64,
    /// The last slot of some set became free.
    has_emptied: bool,
}

/// What a new set looks like.
#[derive(Debug, Clone, Copy)]
struct Form {
    width: usize,
    /// Members that are away.
    seats: usize,
}

/// How a set's slots are kept: as they are, or as runs, whichever is shorter.
#[derive(Debug, Serialize, Deserialize)]
enum Packed {
    Bytes(Vec<u8>),
    /// Lengths, in turn of slots not taken and of slots taken.
    Runs(Vec<u32>),
}

impl Space {
    pub(crate) fn unreserve(&mut self, level: Level, count: u64) {
        self.pool.unreserve(level, count);
    }

    /// What is kept for a thick volume changes from `old` to `new`. That need not be free yet: what
    /// it unmapped comes back to it with the next checkpoint.
    pub(crate) fn change_kept(&mut self, level: Level, old: u64, new: u64) {
        self.pool.unkeep(level, old);
        self.pool.keep(level, new);
    }

    /// A page of metadata; there is room, see [`Core::make_room_for_pages`].
    pub(crate) fn take_page(&mut self) -> PageAddr {
        let place = self.pool.take(Kind::Metadata, 1, Claim::Free).expect("room was made");
        PageAddr::new(place[0].set(), place[0].slot())
    }

    /// Whether a map may name this page.
    pub(crate) fn is_page_used(&self, page: PageAddr) -> bool {
        let slots = self.pool.slots(page.set());
        slots.is_some_and(|slots| slots.is_used(page.index()))
    }

    /// A checkpoint is about to be durable: these places are in the maps now, those are not.
    pub(crate) fn settle_maps(&mut self, gained: &[Place], freed: &[Place], pages: &[PageAddr]) {
        for place in gained {
            self.mark(*place, true);
        }
        for place in freed {
            self.mark(*place, false);
            if !mutants::is(Mutant::EarlyFree) {
                self.pool.free(*place);
            }
        }
        for page in pages {
            self.pool.free(Place::new(page.set(), page.index()));
        }
        self.pool.seal();
    }

    /// These were taken for nothing.
    pub(crate) fn give_up(&mut self, places: &[Place], pages: &[PageAddr]) {
        let pages = pages.iter().map(|page| Place::new(page.set(), page.index()));
        for place in places.iter().copied().chain(pages) {
            self.pool.free(place);
        }
    }

    fn mark(&mut self, place: Place, is_mapped: bool) {
        let slots = self.pool.slots(place.set()).map_or(0, Slots::len);
        let words = self.image.entry(place.set()).or_default();
        words.resize(slots.div_ceil(64) as usize, 0);
        let word = &mut words[place.slot() as usize / 64];
        let bit = 1 << (place.slot() % 64);
        *word = if is_mapped { *word | bit } else { *word & !bit };
    }

    /// All places that maps have.
    pub(crate) fn mapped(&self) -> BTreeSet<Place> {
        let all = self.image.iter().flat_map(|(id, words)| {
            words.iter().enumerate().flat_map(move |(index, word)| {
                let bits = (0..64).filter(move |bit| word >> bit & 1 == 1);
                bits.map(move |bit| Place::new(*id, index as u32 * 64 + bit))
            })
        });
        all.collect()
    }

    /// What the record of a checkpoint keeps.
    pub(crate) fn image(&self) -> Image {
        let mut image = Image::new();
        for (id, kind, slots) in self.pool.sets() {
            let words: Vec<u64> = match kind {
                // Pages are taken by checkpoints only, so what is taken is what counts.
                Kind::Metadata => slots.used_after_pending().collect(),
                Kind::Data(_) => self.image.get(&id).cloned().unwrap_or_default(),
            };
            let packed = Packed::of(&words);
            let bytes = postcard::to_stdvec(&packed).expect("plain data can be encoded");
            image.insert(id.0, bytes);
        }
        image
    }

    /// Takes in a set as a checkpoint record has it.
    pub(crate) fn load_set(
        &mut self,
        set: &Set,
        packed: Option<&Vec<u8>>,
    ) -> Result<(), ArrayError> {
        let damaged =
            || ArrayError::Damaged(format!("the space of set {} makes no sense", set.id().0));
        let words = match packed {
            None => Vec::new(),
            Some(bytes) => {
                let packed: Packed = postcard::from_bytes(bytes).map_err(|_| damaged())?;
                packed.words()
            }
        };
        let mut slots = empty_slots(set);
        let marked = words.iter().enumerate().flat_map(|(index, word)| {
            (0..64).filter(move |bit| word >> bit & 1 == 1).map(move |bit| index as u32 * 64 + bit)
        });
        for slot in marked {
            if !slots.claim(slot) {
                return Err(damaged());
            }
        }
        slots.seal();
        if set.level().is_some() {
            self.image.insert(set.id(), words);
        }
        self.add_set(set, slots);
        Ok(())
    }

    fn add_set(&mut self, set: &Set, slots: Slots) {
        let disks = set.members().iter().map(|seat| seat.disk).collect();
        self.next_set = self.next_set.max(set.id().0 + 1);
        self.record_bytes += record_bytes(set);
        self.pool.add(set.id(), kind_of(set), slots, disks);
    }

    /// Sets below `before` that hold nothing and can be done without. Where `is_used`, as many as
    /// are filled side by side stay, so that sets are not made and dissolved in turn.
    pub(crate) fn idle_sets(&self, before: u32, is_used: impl Fn(Kind) -> bool) -> Vec<SetId> {
        let kinds = Level::ALL.map(Kind::Data).into_iter().chain([Kind::Metadata]);
        let idle = kinds.flat_map(|kind| self.pool.idle_sets(kind, is_used(kind)));
        idle.filter(|id| id.0 < before).collect()
    }

    /// Whether a set became empty since this was last asked.
    pub(crate) fn take_emptied(&mut self) -> bool {
        std::mem::take(&mut self.has_emptied)
    }

    /// A set that holds nothing; its chunks are still in use.
    pub(crate) fn remove_set(&mut self, set: &Set) {
        self.pool.remove(set.id());
        self.image.remove(&set.id());
        self.record_bytes -= record_bytes(set);
    }

    /// Places and pages that nobody reads any more are free.
    pub(crate) fn release(&mut self, places: &[Place], pages: &[PageAddr]) {
        let pages = pages.iter().map(|page| Place::new(page.set(), page.index()));
        let places = if mutants::is(Mutant::EarlyFree) { &[] } else { places };
        self.has_emptied |= self.pool.settle(places.iter().copied().chain(pages));
    }

    /// What [`Mutant::EarlyFree`] does.
    pub(crate) fn release_early(&mut self, place: Place) {
        self.pool.free(place);
        self.pool.settle([place]);
    }

    /// Keeps as much free as a rebuild of the largest disk could need, where there are disks
    /// enough for that, and as metadata could need when everything else is full.
    pub(crate) fn set_spare(&mut self, layout: &Layout, sizes: &[u64]) {
        let largest = sizes.iter().map(|size| u64::from(layout.chunks(*size))).max().unwrap_or(0);
        let rebuild = if sizes.len() > 3 { largest } else { 0 };
        let all: u64 = sizes.iter().map(|size| u64::from(layout.chunks(*size))).sum();
        let copies = width(Kind::Metadata, sizes.len()).unwrap_or(1) as u64;
        let sets = all / METADATA_SHARE + 1;
        self.chunks.set_spare(rebuild + copies * sets);
        self.chunks.set_spare_sets(sets, copies as usize);
    }

    /// Clusters of this level that could be set aside, of sets that could be made too.
    pub(crate) fn available(&self, level: Level, layout: &Layout) -> u64 {
        let stripes = layout.chunk_bytes / CLUSTER_BYTES as u64;
        let more = self.form(level).map_or(0, |Form { width, seats }| {
            let columns = match level.parity() {
                0 => 1,
                parity => width - parity,
            };
            let sets = self.chunks.sets_possible_with_seats(width, seats);
            sets * stripes * columns as u64
        });
        self.pool.available(level) + more
    }

    /// What a new set looks like; `None` when there are too few disks, even with those that are
    /// away, of which a set bears no more than its level may lose.
    fn form(&self, kind: impl Into<Kind>) -> Option<Form> {
        let (kind, open) = (kind.into(), self.chunks.disks_open());
        if let Some(width) = width(kind, open) {
            return Some(Form { width, seats: 0 });
        }
        let Kind::Data(level) = kind else { return None };
        let away = self.chunks.disks_away().min(level.losses_max());
        let width = (1..=away).find_map(|away| width(level, open + away))?;
        Some(Form { width, seats: width.saturating_sub(open) })
    }

    /// Whether new sets of this level need `disk`: without it there are too few disks, or no room
    /// although there is some with it.
    pub(crate) fn level_needs(&self, level: Level, disk: DiskId) -> bool {
        let is_open = self.chunks.is_open(disk);
        let all = self.chunks.disks_open() + usize::from(!is_open);
        let Some(width) = width(level, all.saturating_sub(1)) else {
            return all >= level.disks_min();
        };
        let has_room = self.pool.available(level) > 0;
        let possible = self.chunks.sets_possible_without(disk, width);
        let has_some = self.chunks.counts(disk).is_some_and(|(chunks, used)| used < chunks);
        !has_room && possible == 0 && has_some
    }

    /// What a disk gives to new sets; one for the journal alone never gives anything.
    pub(crate) fn set_gives(&mut self, disk: DiskId, gives: Gives) {
        if self.chunks.counts(disk).is_some() {
            self.chunks.set_gives(disk, gives);
            self.set_lanes();
        }
    }

    /// A disk has left, and data disks of these `sizes` in bytes stay.
    pub(crate) fn remove_disk(&mut self, disk: DiskId, layout: &Layout, sizes: &[u64]) {
        if self.chunks.counts(disk).is_some() {
            self.chunks.remove_disk(disk);
            self.set_spare(layout, sizes);
            self.set_lanes();
        }
    }

    /// Disks came or went: how many sets are filled side by side.
    pub(crate) fn set_lanes(&mut self) {
        let disks = self.chunks.disks_open();
        for level in Level::ALL {
            self.pool.set_lanes(level, lanes(level, disks));
        }
        self.pool.set_lanes(Kind::Metadata, 1);
    }
}

pub(crate) fn kind_of(set: &Set) -> Kind {
    set.level().map_or(Kind::Metadata, Kind::Data)
}

fn record_bytes(set: &Set) -> u64 {
    set_bytes_max(kind_of(set), set.members().len(), set.stripes())
}

fn empty_slots(set: &Set) -> Slots {
    match set.level() {
        None => Slots::new(1, set.stripes() * STRIP_PAGES),
        Some(_) => Slots::new(set.shape().columns() as u8, set.stripes()),
    }
}

impl Packed {
    fn of(words: &[u64]) -> Self {
        let mut runs = vec![0u32];
        let mut is_taken = false;
        for index in 0..words.len() * 64 {
            if (words[index / 64] >> (index % 64) & 1 == 1) != is_taken {
                is_taken = !is_taken;
                runs.push(0);
                // Longer than the words themselves: no use.
                if runs.len() > words.len() * RUNS_PER_WORD {
                    return Self::Bytes(words.iter().flat_map(|word| word.to_le_bytes()).collect());
                }
            }
            *runs.last_mut().expect("it has one from the start") += 1;
        }
        Self::Runs(runs)
    }

    fn words(self) -> Vec<u64> {
        let runs = match self {
            Self::Bytes(bytes) => {
                let words = bytes.chunks_exact(8).map(|word| word.try_into().expect("eight bytes"));
                return words.map(u64::from_le_bytes).collect();
            }
            Self::Runs(runs) => runs,
        };
        // A damaged record must not make us allocate without end: no set has that many slots.
        let len = runs.iter().map(|run| u64::from(*run)).sum::<u64>().min(1 << 32);
        let mut words = vec![0u64; len.div_ceil(64) as usize];
        let mut at = 0u64;
        for (index, run) in runs.into_iter().enumerate() {
            for slot in at..(at + u64::from(run)).min(len) {
                words[slot as usize / 64] |= u64::from(index % 2 == 1) << (slot % 64);
            }
            at += u64::from(run);
        }
        words
    }
}

impl Core {
    /// Sets `count` clusters aside, of new sets if need be.
    pub(crate) fn reserve(&self, state: &mut State, level: Level, count: u64) -> bool {
        if state.space.pool.reserve(level, count) {
            return true;
        }
        // What cannot be had must not cost sets: they would keep their chunks.
        if state.space.available(level, &self.layout) < count {
            return false;
        }
        while !state.space.pool.reserve(level, count) {
            if !self.make_set(state, level.into(), false) {
                return false;
            }
        }
        true
    }

    /// As [`reserve`](Self::reserve), of what is kept for the one who asks.
    pub(crate) fn reserve_kept(&self, state: &mut State, level: Level, count: u64) -> bool {
        while !state.space.pool.reserve_kept(level, count) {
            if !self.make_set(state, level.into(), false) {
                return false;
            }
        }
        true
    }

    /// Takes `count` places, of which `reserved` were set aside before.
    ///
    /// # Errors
    /// [`ArrayError::Io`] with no space, when what was not set aside cannot be had.
    pub(crate) fn take_places(
        &self,
        state: &mut State,
        level: Level,
        count: usize,
        reserved: usize,
    ) -> Result<Vec<Place>, ArrayError> {
        if state.space.pool.wants_set(level) {
            // Wider spreading is worth a set as long as there are chunks enough.
            self.make_set(state, level.into(), false);
        }
        let paid = count.min(reserved);
        let pool = &mut state.space.pool;
        // Fewer may be free while a set is closed, and until a checkpoint has ended that took places for
        // what it had to set aside: then it is found as for anybody.
        let mut places = pool.take(level, paid, Claim::Reserved).unwrap_or_else(|_| {
            pool.unreserve(level, paid as u64);
            Vec::new()
        });
        while places.len() < count {
            let rest = count - places.len();
            let pool = &mut state.space.pool;
            let taken = pool.take(level, rest, Claim::Free);
            // Better somebody waits for space than that a checkpoint cannot end.
            match taken.or_else(|_| pool.take(level, rest, Claim::Kept)) {
                Ok(more) => places.extend(more),
                Err(_) if self.make_set(state, level.into(), true) => {}
                Err(_) => {
                    state.space.give_up(&places, &[]);
                    return Err(block::BlockError::NoSpace.into());
                }
            }
        }
        Ok(places)
    }

    /// All places of a stripe that nothing lives in, if there are `count` clusters for it.
    pub(crate) fn take_stripe(
        &self,
        state: &mut State,
        level: Level,
        count: usize,
    ) -> Option<Vec<Place>> {
        if state.space.pool.wants_set(level) {
            self.make_set(state, level.into(), false);
        }
        if let Some(places) = state.space.pool.take_stripe(level, count, Claim::Free) {
            return Some(places);
        }
        let Form { width, .. } = state.space.form(level)?;
        let fits = count >= width - level.parity();
        if fits && self.make_set(state, level.into(), false) {
            state.space.pool.take_stripe(level, count, Claim::Free)
        } else {
            None
        }
    }

    /// Makes a set of free chunks and writes that down; `spare` chunks may be used too.
    fn make_set(&self, state: &mut State, kind: Kind, spare: bool) -> bool {
        let Some(Form { width, seats }) = state.space.form(kind) else { return false };
        if !state.has_record_for(kind, width, &self.layout) {
            return false;
        }
        let busy = state.space.pool.busy_disks(kind);
        let Space { chunks, .. } = &mut state.space;
        let mut chosen = match seats {
            0 => chunks.allocate_apart(width, &busy).or_else(|| chunks.allocate(width, &[])),
            _ => chunks.allocate_seats(width, seats, spare),
        };
        if spare && seats == 0 {
            chosen = chosen.or_else(|| state.space.allocate_spare(kind, width));
        }
        if spare && kind == Kind::Metadata {
            chosen = chosen.or_else(|| state.space.allocate_beside_away());
            chosen = chosen.or_else(|| state.space.allocate_narrow(width));
        }
        let Some(chunks) = chosen else { return false };
        let level = match kind {
            Kind::Metadata => None,
            Kind::Data(level) => Some(level),
        };
        let id = SetId(state.space.next_set);
        let record = Record::NewSet { id, level, members: chunks.clone() };
        if self.journal.append_reserved(&record, None).is_err() {
            for (disk, chunk) in chunks {
                state.space.chunks.release(disk, chunk);
            }
            return false;
        }
        self.enter_set(state, id, level, &chunks);
        true
    }

    /// A set that is in the journal.
    pub(crate) fn enter_set(
        &self,
        state: &mut State,
        id: SetId,
        level: Option<Level>,
        chunks: &[(DiskId, u32)],
    ) {
        let seats = chunks.iter().map(|&(disk, chunk)| Seat { disk, chunk }).collect();
        let set =
            Set::empty(id, level, seats, self.set_layout()).expect("chunks of distinct disks");
        let set = Arc::new(set);
        state.space.add_set(&set, empty_slots(&set));
        self.sets.add(set);
    }

    /// Makes sure that so many pages can be taken.
    pub(crate) fn make_room_for_pages(&self, count: usize) -> Result<(), ArrayError> {
        let state = &mut *self.lock();
        while state.space.pool.available(Kind::Metadata) < count as u64 {
            if !self.make_set(state, Kind::Metadata, true) {
                return Err(block::BlockError::NoSpace.into());
            }
        }
        Ok(())
    }
}

impl Space {
    /// Chunks for metadata where too few of the disks that are there have one left: they are on as many
    /// as possible, and the copies that are missing come onto disks that are away when they are back.
    fn allocate_beside_away(&mut self) -> Option<Vec<(DiskId, u32)>> {
        let width = width(Kind::Metadata, self.chunks.disks_open() + self.chunks.disks_away())?;
        (1..width).find_map(|seats| self.chunks.allocate_seats(width, seats, true))
    }

    /// Chunks for metadata where fewer disks than it has copies have one left. It gets the others when
    /// there is room for them.
    fn allocate_narrow(&mut self, width: usize) -> Option<Vec<(DiskId, u32)>> {
        (COPIES_MIN..width).rev().find_map(|width| self.allocate_spare(Kind::Metadata, width))
    }

    /// Chunks of different disks, of those that are kept for rebuilds too. Data takes what is kept for
    /// metadata last of all.
    fn allocate_spare(&mut self, kind: Kind, width: usize) -> Option<Vec<(DiskId, u32)>> {
        let beside_maps = |chunks: &mut Chunks, taken: &[DiskId]| match kind {
            Kind::Metadata => None,
            Kind::Data(_) => chunks.allocate_beside_maps(taken, &[]),
        };
        let any = |chunks: &mut Chunks, taken: &[DiskId]| chunks.allocate_one(taken);
        let first = self.allocate_each(width, beside_maps);
        first.or_else(|| self.allocate_each(width, any))
    }

    fn allocate_each(
        &mut self,
        width: usize,
        one: impl Fn(&mut Chunks, &[DiskId]) -> Option<(DiskId, u32)>,
    ) -> Option<Vec<(DiskId, u32)>> {
        let mut chunks: Vec<(DiskId, u32)> = Vec::with_capacity(width);
        while chunks.len() < width {
            let taken: Vec<_> = chunks.iter().map(|(disk, _)| *disk).collect();
            let Some(chunk) = one(&mut self.chunks, &taken) else {
                chunks.into_iter().for_each(|(disk, chunk)| self.chunks.release(disk, chunk));
                return None;
            };
            chunks.push(chunk);
        }
        Some(chunks)
    }
}

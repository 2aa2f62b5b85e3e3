//! A part of the cache under one lock: its entries, and which of them go first (S3-FIFO).

use std::collections::hash_map::Entry as Slot;
use std::collections::{HashMap, VecDeque};
use std::hash::BuildHasherDefault;

use super::clock::{Asked, Clock};
use super::entry::{Entry, Found, Run};
use super::{Blocks, Origin};
use crate::mutants::{self, Mutant};
use crate::pages::NumberHasher;
use crate::{CLUSTER_BYTES, Place};

type Hasher = BuildHasherDefault<NumberHasher>;

/// The small queue has one in so many of the bytes.
const SMALL_SHARE: u64 = 10;
/// A moment of the [clock](Clock) is one in so many of the small queue. What is asked for again while it stands there can
/// count then, and the place is remembered for much longer: nothing that hosts use goes unseen for ever. Measured with
/// skewed reads, the whole queue costs half a percent of the hits more, and a quarter of it gains nothing.
const MOMENT_SHARE: u64 = 2;
/// Entries that go under one lock: a fraction of a millisecond, also when their memory goes back to the system.
const GO_AT_ONCE: usize = 256;
/// So many blocks that hosts read for the first time are looked at before it is decided whether such are worth a copy.
const LOOKED_AT: u32 = 512;
/// They are when one in so many is asked for again soon.
const WANTED_SHARE: u32 = 8;
/// Else one in so many is kept all the same, to see whether that is still so.
const TRIED_SHARE: u32 = 8;
/// It is full when it has less room: what went last may have been a whole cluster, and leaves room for many blocks.
const FULL_BYTES: u64 = 2 * CLUSTER_BYTES as u64;
/// Marks in the queues beyond two for each entry: then those of entries that are gone are taken out.
const MARKS_SPARE: usize = 64;

/// Entries in the order in which they came, each by its place and its [mark](Entry::mark).
type Queue = VecDeque<(Place, u32)>;

/// Part of the cache.
///
/// Invariant: `small_bytes` and `main_bytes` are what the entries of each queue take, together no more than
/// `bytes_max` unless that was lowered and some are still to go; each entry has one mark, in the queue that it stands in.
#[derive(Debug, Default)]
pub(super) struct Shard {
    entries: HashMap<u64, Entry, Hasher>,
    small: Queue,
    main: Queue,
    small_bytes: u64,
    main_bytes: u64,
    bytes_max: u64,
    /// It was to hold more before.
    has_to_shrink: bool,
    /// Places with blocks that a host asked for once and that are not here, the oldest first: what comes back soon was
    /// worth keeping, unless that is in the same [moment](Clock).
    ghosts: VecDeque<u64>,
    remembered: HashMap<u64, Asked, Hasher>,
    clock: Clock,
    next_mark: u32,
    evicted: u64,
    /// Of those that a host reads for the first time, how many were looked at, and were asked for again soon.
    looked_at: u32,
    wanted: u32,
    /// Few of them are: most are only remembered, which costs much less than to copy them and let others go.
    is_scanned: bool,
    /// Counts those that were only remembered.
    passed_over: u32,
}

impl Shard {
    /// What its entries take.
    pub(super) fn bytes(&self) -> u64 {
        self.small_bytes + self.main_bytes
    }

    /// Blocks that went for want of room.
    pub(super) fn evicted(&self) -> u64 {
        self.evicted
    }

    pub(super) fn set_bytes_max(&mut self, bytes_max: u64) {
        self.has_to_shrink |= bytes_max < self.bytes_max;
        self.bytes_max = bytes_max;
        self.clock.set_moment(bytes_max / SMALL_SHARE / MOMENT_SHARE);
    }

    /// Lets some of what is beyond the limit go, and in the end the room in the tables; whether something did.
    pub(super) fn shrink_some(&mut self) -> bool {
        if self.bytes() > self.bytes_max {
            self.shrink_to(self.bytes_max);
            return true;
        }
        let has_to_shrink = std::mem::take(&mut self.has_to_shrink);
        if has_to_shrink && self.entries.capacity() / 2 > self.entries.len() {
            self.give_up_room();
        }
        has_to_shrink
    }

    /// Lets entries go until there is room for one more of so many bytes; `false` if there is none now.
    pub(super) fn make_room(&mut self, bytes: u64) -> bool {
        let wanted = bytes + super::entry::ENTRY_BYTES;
        // While it gives way that is somebody's work already.
        let may_grow = wanted <= self.bytes_max && self.bytes() <= self.bytes_max;
        may_grow && self.shrink_to(self.bytes_max - wanted)
    }

    /// The tables have grown for more than is to be here from now on.
    fn give_up_room(&mut self) {
        self.forget_ghosts();
        self.forget_marks(0);
        self.entries.shrink_to_fit();
        self.remembered.shrink_to_fit();
        self.ghosts.shrink_to_fit();
        self.small.shrink_to_fit();
        self.main.shrink_to_fit();
    }

    /// Whether blocks that have just come are worth a copy: what was written or fetched ahead is, unless a host has read it
    /// itself meanwhile and it is here.
    pub(super) fn admits(&mut self, blocks: Blocks<'_>, origin: Origin) -> bool {
        self.clock.tick(blocks.crcs.len());
        match origin {
            Origin::Nobody => !self.has(blocks),
            Origin::Host => self.admits_read(blocks),
        }
    }

    /// The same of what a host has read from disks: what is known is, and all while there is room; while hosts read on
    /// and on what they do not read again, one in some.
    fn admits_read(&mut self, blocks: Blocks<'_>) -> bool {
        let (key, asked) = (blocks.place.raw(), Asked::first(blocks.mask(), self.clock));
        let has_room = self.bytes() + FULL_BYTES <= self.bytes_max;
        if self.entries.contains_key(&key) || has_room || !self.is_scanned {
            return true;
        }
        if let Some(ghost) = self.remembered.get_mut(&key) {
            // The next blocks of a cluster are passed over as those before them were.
            let is_known = ghost.has_some(asked.blocks());
            ghost.note(asked);
            return is_known;
        }
        self.passed_over = self.passed_over.wrapping_add(1);
        if self.passed_over.is_multiple_of(TRIED_SHARE) {
            return true;
        }
        self.remember(key, asked);
        self.look_at(false);
        false
    }

    /// One that a host read for the first time was asked for again soon, or was not.
    fn look_at(&mut self, is_wanted: bool) {
        self.looked_at += 1;
        self.wanted += u32::from(is_wanted);
        if self.looked_at >= LOOKED_AT {
            self.is_scanned = self.wanted * WANTED_SHARE < self.looked_at;
            (self.looked_at, self.wanted) = (0, 0);
        }
    }

    /// Lets entries go, some at a time at most, as others wait for the lock; whether no more than so much is left.
    fn shrink_to(&mut self, bytes: u64) -> bool {
        for _ in 0..GO_AT_ONCE {
            if self.bytes() <= bytes {
                return true;
            }
            self.evict();
        }
        self.bytes() <= bytes
    }

    pub(super) fn has(&self, blocks: Blocks<'_>) -> bool {
        self.entries.get(&blocks.place.raw()).is_some_and(|entry| entry.has(blocks))
    }

    pub(super) fn find(&mut self, blocks: Blocks<'_>) -> Option<(Found, bool)> {
        let hit = self.entries.get_mut(&blocks.place.raw())?.find(blocks, self.clock)?;
        self.clock.tick(blocks.crcs.len());
        Some(hit)
    }

    /// The same, and they do not count as asked for.
    pub(super) fn look(&self, blocks: Blocks<'_>) -> Option<Found> {
        self.entries.get(&blocks.place.raw())?.look(blocks)
    }

    /// Takes in blocks of a place.
    pub(super) fn keep(&mut self, place: Place, run: Run, origin: Origin) {
        let key = place.raw();
        if mutants::is(Mutant::KeepEnded) && self.entries.contains_key(&key) {
            return;
        }
        let (mask, is_read) = (run.valid(), origin == Origin::Host);
        let asked = if is_read { Asked::first(mask, self.clock) } else { Asked::default() };
        if !self.entries.contains_key(&key) {
            // What is fetched ahead or written does not come back, although it may be what a host has just read.
            let may_come_back = is_read || mutants::is(Mutant::CountFetched);
            let is_main = may_come_back && self.comes_back(key, mask);
            if is_main {
                self.look_at(true);
            }
            self.next_mark = self.next_mark.wrapping_add(1);
            let entry = Entry::new(self.next_mark, is_main);
            *self.bytes_of(is_main) += entry.bytes();
            self.queue_of(is_main).push_back((place, entry.mark));
            self.entries.insert(key, entry);
        }
        self.change(key, |entry| entry.keep(run, asked));
        self.shrink_to(self.bytes_max);
        self.forget_marks(MARKS_SPARE);
    }

    /// Forgets blocks of a place.
    pub(super) fn end(&mut self, place: Place, mask: u16) {
        let key = place.raw();
        if !self.entries.contains_key(&key) {
            return;
        }
        self.change(key, |entry| entry.end(mask));
        if self.entries[&key].is_empty() {
            self.remove(key);
            self.forget_marks(MARKS_SPARE);
        }
    }

    /// Changes an entry, and what its queue counts of it.
    fn change(&mut self, key: u64, change: impl FnOnce(&mut Entry)) {
        let entry = self.entries.get_mut(&key).expect("the caller has looked");
        let (before, is_main) = (entry.bytes(), entry.is_main);
        change(entry);
        let after = entry.bytes();
        let bytes = self.bytes_of(is_main);
        *bytes = *bytes - before + after;
    }

    fn remove(&mut self, key: u64) -> Option<Entry> {
        let entry = self.entries.remove(&key)?;
        *self.bytes_of(entry.is_main) -= entry.bytes();
        Some(entry)
    }

    fn bytes_of(&mut self, is_main: bool) -> &mut u64 {
        if is_main { &mut self.main_bytes } else { &mut self.small_bytes }
    }

    fn queue_of(&mut self, is_main: bool) -> &mut Queue {
        if is_main { &mut self.main } else { &mut self.small }
    }

    /// Lets one entry go, of the small queue where that has more than its share.
    fn evict(&mut self) {
        let is_small = self.small_bytes > self.bytes_max / SMALL_SHARE || self.main_bytes == 0;
        if is_small { self.evict_small() } else { self.evict_main() }
    }

    /// Passes what was asked for again to the main queue, until one was not.
    fn evict_small(&mut self) {
        while let Some((place, mark)) = self.small.pop_front() {
            let key = place.raw();
            let Some(entry) = self.entries.get_mut(&key).filter(|e| e.mark == mark) else {
                continue;
            };
            if entry.times == 0 {
                let asked = entry.asked();
                self.evicted += u64::from(entry.blocks());
                self.remove(key);
                // What nobody has asked for does not come back: it comes for the first time.
                if asked.blocks() != 0 {
                    self.remember(key, asked);
                    self.look_at(false);
                }
                return;
            }
            entry.times = 0;
            entry.is_main = true;
            let bytes = entry.bytes();
            self.small_bytes -= bytes;
            self.main_bytes += bytes;
            self.main.push_back((place, mark));
            self.look_at(true);
        }
    }

    /// Gives what was asked for another round, until one was not.
    fn evict_main(&mut self) {
        while let Some((place, mark)) = self.main.pop_front() {
            let key = place.raw();
            let Some(entry) = self.entries.get_mut(&key).filter(|e| e.mark == mark) else {
                continue;
            };
            if entry.times == 0 {
                self.evicted += u64::from(entry.blocks());
                self.remove(key);
                return;
            }
            entry.times -= 1;
            self.main.push_back((place, mark));
        }
    }

    /// Remembers a place: as many as there are entries.
    fn remember(&mut self, key: u64, asked: Asked) {
        match self.remembered.entry(key) {
            Slot::Occupied(mut ghost) => ghost.get_mut().note(asked),
            Slot::Vacant(ghost) => {
                ghost.insert(asked);
                self.ghosts.push_back(key);
            }
        }
        self.forget_ghosts();
    }

    /// Whether blocks of a place that is not here were asked for before, and now again: then it is no ghost any more.
    fn comes_back(&mut self, key: u64, mask: u16) -> bool {
        let is_used = |ghost: &Asked| ghost.is_used_again(mask, self.clock);
        let comes_back = self.remembered.get(&key).is_some_and(is_used);
        if comes_back {
            self.remembered.remove(&key);
        }
        comes_back
    }

    fn forget_ghosts(&mut self) {
        while self.ghosts.len() > self.entries.len().max(1) {
            let oldest = self.ghosts.pop_front().expect("it is longer than that");
            self.remembered.remove(&oldest);
        }
    }

    /// Takes out the marks of entries that are gone, when there are many.
    fn forget_marks(&mut self, spare: usize) {
        if self.small.len() + self.main.len() <= 2 * self.entries.len() + spare {
            return;
        }
        let entries = &self.entries;
        let is_there = |(place, mark): &(Place, u32)| {
            entries.get(&place.raw()).is_some_and(|entry| entry.mark == *mark)
        };
        self.small.retain(is_there);
        self.main.retain(is_there);
    }

    /// How many entries and ghosts its tables have room for.
    #[cfg(test)]
    pub(super) fn capacity(&self) -> usize {
        self.entries.capacity() + self.remembered.capacity()
    }

    /// Whether what it says of itself is so.
    #[cfg(test)]
    pub(super) fn check(&self) {
        let bytes = |is_main| {
            let of_queue = self.entries.values().filter(|entry| entry.is_main == is_main);
            of_queue.map(Entry::bytes).sum::<u64>()
        };
        assert_eq!((self.small_bytes, self.main_bytes), (bytes(false), bytes(true)));
        for (key, entry) in &self.entries {
            let queue = if entry.is_main { &self.main } else { &self.small };
            let own = |(place, mark): &&(Place, u32)| place.raw() == *key && *mark == entry.mark;
            assert_eq!(queue.iter().filter(own).count(), 1, "one mark in its queue");
            assert!(!entry.is_empty(), "an entry has a block");
            entry.check();
        }
        assert!(self.remembered.len() <= self.ghosts.len());
        assert!(self.remembered.values().all(|ghost| ghost.blocks() != 0), "somebody asked");
    }
}

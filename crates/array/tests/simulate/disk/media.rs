//! The contents of a simulated disk: what reads give now, what would survive a loss of power, and
//! what both would be had the disk not erred.
//!
//! Invariants, per page:
//! - without unsynced versions, `now` is what is durable (outside of damage);
//! - `truth` has an entry exactly where the disk's own faults made `real` differ from what was
//!   written, or unreadable.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::Arc;

use block::BlockError;

use super::page::{Bytes, Fate, Mask, PAGE_BYTES, same};
use crate::random::Random;

/// One page in its two states.
#[derive(Debug, Clone, Default)]
struct Page {
    now: Bytes,
    durable: Bytes,
}

/// Pages that copies of a medium share until one of them changes.
#[derive(Debug, Clone)]
struct Pages {
    groups: Vec<Arc<Vec<Page>>>,
    len: usize,
}

/// Pages that are copied together.
const GROUP: usize = 64;
/// What a disk must hold nothing in to count as blank: its first pages, and its last ones.
const HEAD_PAGES: u64 = 64;
const LABEL_PAGES: u64 = 16;

impl Pages {
    fn new(len: usize) -> Self {
        let blank = Arc::new(vec![Page::default(); GROUP]);
        Self { groups: vec![blank; len.div_ceil(GROUP)], len }
    }

    fn get(&self, page: u64) -> &Page {
        assert!((page as usize) < self.len, "the device checks ranges");
        &self.groups[page as usize / GROUP][page as usize % GROUP]
    }

    fn get_mut(&mut self, page: u64) -> &mut Page {
        assert!((page as usize) < self.len, "the device checks ranges");
        &mut Arc::make_mut(&mut self.groups[page as usize / GROUP])[page as usize % GROUP]
    }

    /// What is durable is all there is.
    fn forget_cache(&mut self) {
        let differs = |page: &Page| !same(&page.now, &page.durable);
        for group in self.groups.iter_mut().filter(|group| group.iter().any(differs)) {
            for page in Arc::make_mut(group) {
                page.now.clone_from(&page.durable);
            }
        }
    }
}

/// Which contents a version belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Into {
    /// As it should be.
    Both,
    /// The write was lost: only the truth knows of it.
    Truth,
    /// The write should not be here: only the medium knows of it.
    Real,
}

/// One page of a write that is on the medium, but may go with the power.
#[derive(Debug, Clone)]
struct Version {
    write: u64,
    /// Which page of its write.
    index: usize,
    bytes: Bytes,
    into: Into,
}

/// A write as it was asked for.
#[derive(Debug, Clone)]
pub(crate) struct Write {
    /// First page.
    pub(crate) page: u64,
    pub(crate) pages: Vec<Bytes>,
    pub(crate) durable: bool,
}

impl Write {
    fn range(&self) -> Range<u64> {
        self.page..self.page + self.pages.len() as u64
    }
}

/// What becomes of a write other than what it should.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mishap {
    /// It is acknowledged and never arrives.
    Lost,
    /// It lands at this page instead, as far as it fits.
    Misdirected(u64),
}

/// The contents of one disk.
#[derive(Debug, Clone)]
pub(crate) struct Media {
    real: Pages,
    truth: BTreeMap<u64, Page>,
    /// Pages that cannot be read until they are written.
    unreadable: BTreeSet<u64>,
    /// Completed and not yet durable, by page, oldest first.
    unsynced: BTreeMap<u64, Vec<Version>>,
    /// Length in pages of each write that has unsynced versions; a cut decides by write.
    lengths: BTreeMap<u64, usize>,
    in_flight: BTreeMap<u64, Write>,
    /// Numbers of writes, given when they begin; and of completions, which order versions.
    next: u64,
    /// Completion number of each unsynced write.
    completed: BTreeMap<u64, u64>,
    next_mishap: Option<Mishap>,
}

impl Media {
    pub(crate) fn new(pages: usize) -> Self {
        Self {
            real: Pages::new(pages),
            truth: BTreeMap::new(),
            unreadable: BTreeSet::new(),
            unsynced: BTreeMap::new(),
            lengths: BTreeMap::new(),
            in_flight: BTreeMap::new(),
            next: 1,
            completed: BTreeMap::new(),
            next_mishap: None,
        }
    }

    pub(crate) fn pages(&self) -> u64 {
        self.real.len as u64
    }

    fn number(&mut self) -> u64 {
        self.next += 1;
        self.next - 1
    }

    /// Whether the page takes space.
    pub(crate) fn holds(&self, page: u64) -> bool {
        self.real.get(page).now.is_some()
    }

    /// Reads a page; where a write is in flight each sector may be the old or the new one.
    pub(crate) fn read(&self, page: u64, random: &Random) -> Result<Bytes, BlockError> {
        if self.unreadable.contains(&page) {
            return Err(BlockError::Medium { at: page * PAGE_BYTES as u64 });
        }
        let mut bytes = self.real.get(page).now.clone();
        for write in self.in_flight.values().filter(|write| write.range().contains(&page)) {
            let new = &write.pages[(page - write.page) as usize];
            let mask = if random.one_in(2) { Mask(random.word() as u8) } else { Mask(0) };
            bytes = mask.mix(&bytes, new);
        }
        Ok(bytes)
    }

    /// Starts a write; from here on a cut may leave some of it.
    pub(crate) fn begin(&mut self, write: Write) -> u64 {
        assert!(write.range().end <= self.pages(), "the device checks ranges");
        let number = self.number();
        self.in_flight.insert(number, write);
        number
    }

    /// The bytes of a write in flight, as they lie in memory by now.
    pub(crate) fn refresh(&mut self, number: u64, pages: Vec<Bytes>) {
        if let Some(write) = self.in_flight.get_mut(&number) {
            assert_eq!(write.pages.len(), pages.len(), "it is the same write");
            write.pages = pages;
        }
    }

    /// Ends a write: its data is what reads give. `None` if it is in flight no more, because the
    /// disk has lost its power meanwhile.
    pub(crate) fn complete(&mut self, number: u64) -> Option<()> {
        let write = self.in_flight.remove(&number)?;
        let order = self.number();
        match self.next_mishap.take() {
            None => self.place(number, order, &write, write.page, Into::Both),
            Some(Mishap::Lost) => self.place(number, order, &write, write.page, Into::Truth),
            Some(Mishap::Misdirected(page)) => {
                let fits = (self.pages() - page).min(write.pages.len() as u64) as usize;
                let astray = Write { pages: write.pages[..fits].to_vec(), ..write.clone() };
                self.place(number, order, &write, write.page, Into::Truth);
                // A second write for the cut: one of the two may be kept without the other.
                let other = self.number();
                self.place(other, order, &astray, page, Into::Real);
            }
        }
        Some(())
    }

    /// Ends a write without success: any part of it may have arrived.
    pub(crate) fn fail(&mut self, number: u64, random: &Random) {
        let Some(write) = self.in_flight.remove(&number) else { return };
        let fate = Fate::draw(random, write.pages.len());
        let mut torn = write.clone();
        for (index, bytes) in torn.pages.iter_mut().enumerate() {
            let old = &self.real.get(write.page + index as u64).now;
            *bytes = fate.mask(index, random).mix(old, bytes);
        }
        let order = self.number();
        self.place(number, order, &torn, write.page, Into::Both);
    }

    fn place(&mut self, number: u64, order: u64, write: &Write, first: u64, into: Into) {
        for (index, bytes) in write.pages.iter().enumerate() {
            let page = first + index as u64;
            if into != Into::Both {
                self.damage(page);
            }
            if write.durable {
                self.supersede(page, into);
                self.settle(page, bytes, Mask::ALL, into);
            } else {
                let version = Version { write: number, index, bytes: bytes.clone(), into };
                self.unsynced.entry(page).or_default().push(version);
            }
            self.show(page, bytes, into);
        }
        if !write.durable {
            self.lengths.insert(number, write.pages.len());
            self.completed.insert(number, order);
        }
    }

    /// Nothing older may come back over a durable write, where that write is.
    fn supersede(&mut self, page: u64, into: Into) {
        let Some(versions) = self.unsynced.get_mut(&page) else { return };
        let kept = match into {
            Into::Both => None,
            Into::Truth => Some(Into::Real),
            Into::Real => Some(Into::Truth),
        };
        versions.retain_mut(|version| match (version.into, kept) {
            (_, None) => false,
            (Into::Both, Some(kept)) => {
                version.into = kept;
                true
            }
            (other, Some(kept)) => other == kept,
        });
        if versions.is_empty() {
            self.unsynced.remove(&page);
        }
    }

    /// Makes `bytes` what reads of the page give.
    fn show(&mut self, page: u64, bytes: &Bytes, into: Into) {
        if into != Into::Truth {
            self.real.get_mut(page).now.clone_from(bytes);
            // A rewrite makes a disk use a spare sector.
            self.unreadable.remove(&page);
        }
        if into != Into::Real
            && let Some(truth) = self.truth.get_mut(&page)
        {
            truth.now.clone_from(bytes);
        }
        self.heal(page);
    }

    /// Makes the masked sectors of `bytes` survive.
    fn settle(&mut self, page: u64, bytes: &Bytes, mask: Mask, into: Into) {
        if into != Into::Truth {
            let durable = &mut self.real.get_mut(page).durable;
            *durable = mask.mix(durable, bytes);
        }
        if into != Into::Real
            && let Some(truth) = self.truth.get_mut(&page)
        {
            truth.durable = mask.mix(&truth.durable, bytes);
        }
    }

    /// From here on the truth about this page is kept apart.
    fn damage(&mut self, page: u64) {
        let real = self.real.get(page);
        self.truth.entry(page).or_insert_with(|| real.clone());
    }

    /// Forgets the truth about a page where the medium tells it.
    fn heal(&mut self, page: u64) {
        let Some(truth) = self.truth.get(&page) else { return };
        let real = self.real.get(page);
        let equal = same(&truth.now, &real.now) && same(&truth.durable, &real.durable);
        let faulty = |version: &Version| version.into != Into::Both;
        let pending = self.unsynced.get(&page).is_some_and(|list| list.iter().any(faulty));
        if equal && !pending && !self.unreadable.contains(&page) {
            self.truth.remove(&page);
        }
    }

    /// What a flush that begins now makes durable: writes completed before this number.
    pub(crate) fn flush_begins(&mut self) -> u64 {
        self.number()
    }

    /// Makes all writes that completed before `until` durable.
    pub(crate) fn flush_ends(&mut self, until: u64) {
        let done: BTreeSet<u64> =
            self.completed.iter().filter(|&(_, &order)| order < until).map(|(&w, _)| w).collect();
        let mut unsynced = std::mem::take(&mut self.unsynced);
        for (&page, versions) in &mut unsynced {
            // Versions of a page stand in order of completion, so the done ones come first.
            let end = versions.iter().take_while(|version| done.contains(&version.write)).count();
            for version in versions.drain(..end) {
                self.settle(page, &version.bytes, Mask::ALL, version.into);
            }
        }
        unsynced.retain(|_, versions| !versions.is_empty());
        self.unsynced = unsynced;
        for write in done {
            self.completed.remove(&write);
            self.lengths.remove(&write);
        }
        let damaged: Vec<u64> = self.truth.keys().copied().collect();
        damaged.into_iter().for_each(|page| self.heal(page));
    }

    /// The power goes: of every write that is not durable any part may be left.
    pub(crate) fn power_cut(&mut self, random: &Random) {
        self.land(random);
        let mut fates = BTreeMap::new();
        for (&write, &pages) in &self.lengths {
            fates.insert(write, Fate::draw(random, pages));
        }
        for (page, mut versions) in std::mem::take(&mut self.unsynced) {
            // A cache writes back in any order, so an older version may be the last to arrive.
            random.shuffle(&mut versions);
            for version in versions {
                let mask = fates[&version.write].mask(version.index, random);
                self.settle(page, &version.bytes, mask, version.into);
            }
        }
        self.forget_cache();
    }

    /// The process ends but the power stays: of what is in flight any part arrives.
    pub(crate) fn process_ends(&mut self, random: &Random) {
        for number in self.in_flight.keys().copied().collect::<Vec<_>>() {
            self.fail(number, random);
        }
    }

    /// Makes writes in flight unsynced ones, for the cut to decide.
    fn land(&mut self, random: &Random) {
        let mut numbers: Vec<u64> = self.in_flight.keys().copied().collect();
        random.shuffle(&mut numbers);
        for number in numbers {
            let mut write = self.in_flight.remove(&number).expect("it was listed");
            // Even a durable write has promised nothing before it completed.
            write.durable = false;
            let order = self.number();
            self.place(number, order, &write, write.page, Into::Both);
        }
    }

    /// What is durable is all there is.
    fn forget_cache(&mut self) {
        self.completed.clear();
        self.lengths.clear();
        self.real.forget_cache();
        for page in self.truth.values_mut() {
            page.now.clone_from(&page.durable);
        }
        let damaged: Vec<u64> = self.truth.keys().copied().collect();
        damaged.into_iter().for_each(|page| self.heal(page));
    }
}

/// Faults of the disk itself.
impl Media {
    /// A page that holds something, and nothing unsynced; `None` if none is found.
    fn settled_page(&self, random: &Random) -> Option<u64> {
        let held: Vec<u64> = (0..self.pages())
            .filter(|&page| self.real.get(page).now.is_some())
            .filter(|page| !self.unsynced.contains_key(page))
            .filter(|page| !self.in_flight.values().any(|write| write.range().contains(page)))
            .collect();
        (!held.is_empty()).then(|| *random.pick(&held))
    }

    /// What some page holds, before page `end` if that is given.
    pub(crate) fn peek(&self, end: Option<u64>, random: &Random) -> Option<Arc<[u8; PAGE_BYTES]>> {
        let end = end.unwrap_or(self.pages()).min(self.pages());
        let first = random.below(end);
        let mut near = first..end.min(first + 4 * GROUP as u64);
        near.find_map(|page| self.real.get(page).now.clone())
    }

    /// A run of up to 16 pages becomes unreadable. Gives the first.
    pub(crate) fn latent_error(&mut self, random: &Random) -> Option<u64> {
        let first = self.settled_page(random)?;
        let end = (first + random.between(1, 16)).min(self.pages());
        for page in first..end {
            self.damage(page);
            self.unreadable.insert(page);
        }
        Some(first)
    }

    /// So many of a hundred pages from `first` on become something else, all of them zeroes or all
    /// chance. Gives how many.
    pub(crate) fn rot(&mut self, first: u64, percent: u64, random: &Random) -> usize {
        let in_flight: BTreeSet<u64> = self.in_flight.values().flat_map(Write::range).collect();
        let zeroes = random.one_in(3);
        let mut rotten = 0;
        for page in first..self.pages() {
            let is_settled = !self.unsynced.contains_key(&page) && !in_flight.contains(&page);
            if !self.holds(page) || !is_settled || random.below(100) >= percent {
                continue;
            }
            self.damage(page);
            let mut bytes = [0; PAGE_BYTES];
            for word in bytes.chunks_mut(8).filter(|_| !zeroes) {
                word.copy_from_slice(&random.word().to_le_bytes());
            }
            let bytes = (!zeroes).then(|| Arc::new(bytes));
            *self.real.get_mut(page) = Page { now: bytes.clone(), durable: bytes };
            self.heal(page);
            rotten += 1;
        }
        rotten
    }

    /// One bit of a page turns over. Gives the page.
    pub(crate) fn flip_bit(&mut self, random: &Random) -> Option<u64> {
        let page = self.settled_page(random)?;
        self.damage(page);
        let bytes = self.real.get(page).now.as_deref().expect("only held pages are chosen");
        let mut bytes = *bytes;
        bytes[random.index(PAGE_BYTES)] ^= 1 << random.below(8);
        let bytes = Some(Arc::new(bytes));
        *self.real.get_mut(page) = Page { now: bytes.clone(), durable: bytes };
        Some(page)
    }

    /// What happens to the next write that completes.
    pub(crate) fn arm(&mut self, mishap: Option<Mishap>) {
        self.next_mishap = mishap;
    }

    /// Whether something is to happen to the next write.
    pub(crate) fn is_armed(&self) -> bool {
        self.next_mishap.is_some()
    }

    /// How many pages are not what they should be.
    pub(crate) fn damaged(&self) -> usize {
        self.truth.len()
    }

    /// Undoes all damage before page `end`. What is behind it stays as it is from now on, and what
    /// cannot be read there does not become readable.
    pub(crate) fn forgive(&mut self, end: u64) {
        for (page, truth) in std::mem::take(&mut self.truth) {
            if page < end {
                *self.real.get_mut(page) = truth;
            } else if self.unreadable.contains(&page) {
                self.truth.insert(page, truth);
            }
        }
        self.unreadable.retain(|&page| page >= end);
        for (&page, versions) in &mut self.unsynced {
            let wrong = if page < end { Into::Real } else { Into::Truth };
            versions.retain(|version| version.into != wrong);
            versions.iter_mut().for_each(|version| version.into = Into::Both);
        }
        self.unsynced.retain(|_, versions| !versions.is_empty());
    }

    /// What `past` has that is durable, but for its labels: zeroes where `erase` puts them.
    pub(crate) fn begin_as(&mut self, past: &Self) {
        self.restore(past);
        let pages = self.pages();
        let head = 0..HEAD_PAGES.min(pages);
        for page in head.chain(pages.saturating_sub(LABEL_PAGES)..pages) {
            *self.real.get_mut(page) = Page::default();
        }
    }

    /// What `past` has that is durable: an image of it is put back.
    pub(crate) fn restore(&mut self, past: &Self) {
        assert_eq!(past.real.len, self.real.len, "drives of one make");
        let mut real = past.real.clone();
        real.forget_cache();
        self.wipe();
        self.real = real;
    }

    /// Everything as new: the disk was swapped or wiped.
    pub(crate) fn wipe(&mut self) {
        *self = Self { next: self.next, ..Self::new(self.real.len) };
    }
}

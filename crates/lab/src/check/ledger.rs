//! What was written last, of each block of each volume.

use std::collections::{BTreeMap, HashMap};

use super::record::Record;
use super::stamp::{SECTOR_BYTES, Stamp};
use super::{Mismatch, Seen, unix_ns};

/// Blocks of one page of the ledger. Pages are made when something in them is written first.
const PAGE_BLOCKS: u64 = 1 << 16;
/// The time of a write is known to the nearest of these, in sequence numbers.
const TIMES_EVERY: u64 = 256;
/// So many writes that were given up are remembered, then the oldest is forgotten: each thread has one in a
/// `--path-timeout`, so that these are of hours.
const GIVEN_UP_MAX: usize = 1 << 16;

/// The last write of each block.
///
/// Invariant: the entry of a block is the largest sequence number of which a write of the block was
/// answered as done, or 0 if there is none. Writes that failed, or were never answered, stand in `doubts`
/// until a read shows what became of them. Those that nobody can call back stand in `given_up` too, whatever
/// reads and later writes do: if one comes late, its number takes the entry over.
#[derive(Debug)]
pub struct Ledger {
    /// Marks all that is written while this ledger is kept.
    pub(crate) key: u64,
    block_bytes: u32,
    volumes: Vec<Book>,
    sequence: u64,
    /// Sequence numbers and when they were drawn, rising.
    times: Vec<(u64, u64)>,
    /// Writes without an answer yet: volume, place and length, by sequence number.
    under_way: HashMap<u64, (u16, u64, u64)>,
    /// Writes that failed here and that a target may still do: volume, place and length.
    given_up: BTreeMap<u64, (u16, u64, u64)>,
    /// Whether sequence numbers above the known ones may be on the disks: after a crash of the lab.
    may_be_newer: bool,
}

#[derive(Debug)]
struct Book {
    name: String,
    lba_bytes: u32,
    pages: Vec<Option<Box<[u64]>>>,
    blocks: u64,
    /// Sequence numbers of failed writes, by block.
    doubts: HashMap<u64, Vec<u64>>,
    written: u64,
}

impl Ledger {
    /// A ledger in which nothing is written yet, of blocks of `block_bytes`.
    #[must_use]
    pub fn new(key: u64, block_bytes: u32) -> Self {
        assert!(block_bytes as usize >= SECTOR_BYTES && block_bytes.is_power_of_two());
        Self {
            key,
            block_bytes,
            volumes: Vec::new(),
            sequence: 0,
            times: Vec::new(),
            under_way: HashMap::new(),
            given_up: BTreeMap::new(),
            may_be_newer: false,
        }
    }

    /// Adds a volume of so many bytes, whose disk has logical blocks of `lba_bytes`; gives its number.
    pub fn add_volume(&mut self, name: &str, size_bytes: u64, lba_bytes: u32) -> u16 {
        let blocks = size_bytes / u64::from(self.block_bytes);
        let pages = usize::try_from(blocks.div_ceil(PAGE_BLOCKS)).expect("a disk has fewer pages");
        let pages = (0..pages).map(|_| None).collect();
        let (name, doubts) = (name.to_owned(), HashMap::new());
        self.volumes.push(Book { name, lba_bytes, pages, blocks, doubts, written: 0 });
        u16::try_from(self.volumes.len() - 1).expect("a run has fewer than 65,536 volumes")
    }

    /// The size of a block.
    #[must_use]
    pub fn block_bytes(&self) -> u32 {
        self.block_bytes
    }

    /// The number of the next write.
    pub(crate) fn next_sequence(&mut self, now_unix_ns: u64) -> u64 {
        self.sequence += 1;
        let due = self.times.last().is_none_or(|(last, _)| self.sequence - last >= TIMES_EVERY);
        if due {
            self.times.push((self.sequence, now_unix_ns));
        }
        self.sequence
    }

    /// A write begins; gives its number.
    pub(crate) fn begin(&mut self, volume: u16, at: u64, len: u64, now_unix_ns: u64) -> u64 {
        let sequence = self.next_sequence(now_unix_ns);
        self.under_way.insert(sequence, (volume, at, len));
        sequence
    }

    /// Nobody waits any longer for the writes that have no answer: each may be there or not.
    pub(crate) fn give_up(&mut self) {
        for (sequence, (volume, at, len)) in std::mem::take(&mut self.under_way) {
            self.failed(volume, at, len, sequence);
        }
    }

    /// Whether it knows of any write.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.volumes.iter().all(|book| book.written == 0)
    }

    /// A write was answered as done.
    pub(crate) fn done(&mut self, volume: u16, at: u64, len: u64, sequence: u64) {
        self.under_way.remove(&sequence);
        for block in self.blocks(at, len) {
            let book = &mut self.volumes[usize::from(volume)];
            let entry = book.entry(block);
            // Two writes of a block are never under way at once, so the later one is the larger.
            book.written += u64::from(*entry == 0);
            let entry = book.entry(block);
            *entry = (*entry).max(sequence);
            if !book.doubts.is_empty() {
                book.doubts.remove(&block);
            }
        }
    }

    /// A write failed: each of its blocks may hold it or not.
    pub(crate) fn failed(&mut self, volume: u16, at: u64, len: u64, sequence: u64) {
        self.under_way.remove(&sequence);
        for block in self.blocks(at, len) {
            self.volumes[usize::from(volume)].doubts.entry(block).or_default().push(sequence);
        }
    }

    /// A write failed that its target may still do: over a connection that was given up, say.
    pub(crate) fn given_up(&mut self, volume: u16, at: u64, len: u64, sequence: u64) {
        self.failed(volume, at, len, sequence);
        self.may_come(volume, at, len, sequence);
    }

    fn may_come(&mut self, volume: u16, at: u64, len: u64, sequence: u64) {
        self.given_up.insert(sequence, (volume, at, len));
        if self.given_up.len() > GIVEN_UP_MAX {
            self.given_up.pop_first();
        }
    }

    /// Compares what was read; calls `found` for each block that is wrong. Gives the number of bytes
    /// that could be compared: blocks that were never written cannot.
    pub(crate) fn check(
        &mut self,
        volume: u16,
        at: u64,
        bytes: &[u8],
        found: &mut dyn FnMut(Mismatch),
    ) -> u64 {
        let mut compared = 0;
        let unit = self.block_bytes as usize;
        for (block, bytes) in self.blocks(at, bytes.len() as u64).zip(bytes.chunks_exact(unit)) {
            match self.look(volume, block, bytes) {
                Ok(false) => {}
                Ok(true) => compared += unit as u64,
                Err((expected, seen)) => {
                    compared += unit as u64;
                    found(self.mismatch(volume, block, expected, seen));
                }
            }
        }
        compared
    }

    /// `Ok(false)` for a block of which nothing is known.
    fn look(&mut self, volume: u16, block: u64, bytes: &[u8]) -> Result<bool, (u64, Seen)> {
        let (key, may_be_newer) = (self.key, self.may_be_newer);
        let at_bytes = block * u64::from(self.block_bytes);
        let first_sector = at_bytes / SECTOR_BYTES as u64;
        let book = &mut self.volumes[usize::from(volume)];
        let expected = book.peek(block);
        let stamp = Stamp::read(bytes).filter(|stamp| stamp.key == key);
        let Some(stamp) = stamp else {
            if expected == 0 {
                return Ok(false);
            }
            let is_empty = bytes.iter().all(|&byte| byte == 0);
            return Err((expected, if is_empty { Seen::Zeroes } else { Seen::Foreign }));
        };
        if stamp.volume != volume || stamp.sector != first_sector {
            let expected_place = Stamp { volume, sector: first_sector, ..stamp };
            return Err((expected, elsewhere(&stamp, &expected_place, &bytes[..SECTOR_BYTES])));
        }
        let came_late = |sequence: u64| is_of(&self.given_up, sequence, volume, at_bytes);
        if let Err(seen) = intact(&stamp, bytes) {
            let late = match seen {
                Seen::Torn { sequences: (one, other) } => {
                    [one, other].into_iter().find(|sequence| came_late(*sequence))
                }
                _ => None,
            };
            return Err((expected, late.map_or(seen, |sequence| Seen::Late { sequence })));
        }
        let sequence = stamp.sequence;
        if sequence == expected {
            return Ok(true);
        }
        let is_late = came_late(sequence);
        let is_doubted = book.doubts.get(&block).is_some_and(|doubts| doubts.contains(&sequence));
        if is_doubted || (may_be_newer && sequence > expected) {
            // What a read has shown once must stay.
            *book.entry(block) = sequence;
            book.doubts.remove(&block);
            self.sequence = self.sequence.max(sequence);
            return Ok(true);
        }
        if is_late {
            *book.entry(block) = sequence;
            return Err((expected, Seen::Late { sequence }));
        }
        if sequence > expected {
            return Err((expected, Seen::Newer { sequence }));
        }
        Err((expected, Seen::Old { sequence, written_unix_ns: stamp.unix_ns }))
    }

    fn mismatch(&self, volume: u16, block: u64, expected: u64, seen: Seen) -> Mismatch {
        let book = &self.volumes[usize::from(volume)];
        let at_bytes = block * u64::from(self.block_bytes);
        Mismatch {
            volume: book.name.clone(),
            lba: at_bytes / u64::from(book.lba_bytes),
            at_bytes,
            expected,
            written_unix_ns: self.time_of(expected),
            seen,
            found_unix_ns: unix_ns(),
        }
    }

    /// About when a write was begun.
    fn time_of(&self, sequence: u64) -> u64 {
        if sequence == 0 {
            return 0;
        }
        let after = self.times.partition_point(|(known, _)| *known <= sequence);
        after.checked_sub(1).map_or(0, |index| self.times[index].1)
    }

    /// The ranges of a volume that were written, each of `bytes_max` at most.
    #[must_use]
    pub fn written(&self, volume: u16, bytes_max: u64) -> Vec<(u64, u64)> {
        let unit = u64::from(self.block_bytes);
        let mut ranges: Vec<(u64, u64)> = Vec::new();
        let book = &self.volumes[usize::from(volume)];
        for (page, entries) in book.pages.iter().enumerate() {
            let Some(entries) = entries else { continue };
            for (index, _) in entries.iter().enumerate().filter(|(_, entry)| **entry > 0) {
                let at = (page as u64 * PAGE_BLOCKS + index as u64) * unit;
                match ranges.last_mut() {
                    Some((from, len)) if *from + *len == at && *len + unit <= bytes_max => {
                        *len += unit;
                    }
                    _ => ranges.push((at, unit)),
                }
            }
        }
        ranges
    }

    /// Blocks of a volume that were written.
    #[must_use]
    pub fn written_blocks(&self, volume: u16) -> u64 {
        self.volumes[usize::from(volume)].written
    }

    /// Takes over what a journal tells.
    pub(super) fn restore(&mut self, record: &Record) {
        let Record { volume, at, len, sequence, time_unix_ns, is_given_up } = *record;
        self.may_be_newer = true;
        self.sequence = self.sequence.max(sequence);
        if self.times.last().is_none_or(|(last, _)| sequence >= last + TIMES_EVERY) {
            self.times.push((sequence, time_unix_ns));
        }
        match is_given_up {
            true => self.may_come(volume, at, len, sequence),
            false => self.done(volume, at, len, sequence),
        }
    }

    /// After a crash, sequence numbers that nobody knows of may be in use: begin well above them.
    pub(super) fn skip_unknown(&mut self) {
        const MORE_THAN_A_CRASH_LOSES: u64 = 1 << 24;
        self.sequence += MORE_THAN_A_CRASH_LOSES;
    }

    fn blocks(&self, at: u64, len: u64) -> impl Iterator<Item = u64> + use<> {
        let unit = u64::from(self.block_bytes);
        debug_assert!(at.is_multiple_of(unit) && len.is_multiple_of(unit));
        at / unit..(at + len) / unit
    }
}

impl Book {
    fn peek(&self, block: u64) -> u64 {
        let page = self.pages.get((block / PAGE_BLOCKS) as usize).and_then(Option::as_ref);
        page.map_or(0, |page| page[(block % PAGE_BLOCKS) as usize])
    }

    fn entry(&mut self, block: u64) -> &mut u64 {
        assert!(block < self.blocks, "a block of the volume");
        let page = &mut self.pages[(block / PAGE_BLOCKS) as usize];
        let page = page.get_or_insert_with(|| vec![0; PAGE_BLOCKS as usize].into_boxed_slice());
        &mut page[(block % PAGE_BLOCKS) as usize]
    }
}

/// Whether a write is one of these, and has this byte of this volume.
fn is_of(
    writes: &BTreeMap<u64, (u16, u64, u64)>,
    sequence: u64,
    volume: u16,
    at_bytes: u64,
) -> bool {
    writes.get(&sequence).is_some_and(|&(of, at, len)| {
        of == volume && (at..at.saturating_add(len)).contains(&at_bytes)
    })
}

/// What a sector is whose stamp names another place than it was read from: a whole one that belongs
/// there, or one of here with a damaged name, which must not be believed.
fn elsewhere(stamp: &Stamp, expected: &Stamp, sector: &[u8]) -> Seen {
    if stamp.first_difference(sector).is_some() {
        return Seen::Damaged {
            offset_bytes: expected.first_difference(sector).unwrap_or(0) as u32,
        };
    }
    let Stamp { volume, sequence, .. } = *stamp;
    // A server that makes up whole stamps may name any sector.
    Seen::Elsewhere { volume, at_bytes: stamp.sector.saturating_mul(SECTOR_BYTES as u64), sequence }
}

/// Whether all sectors of a block are of the write of its first one, and as that left them.
fn intact(first: &Stamp, bytes: &[u8]) -> Result<(), Seen> {
    for (index, sector) in bytes.chunks_exact(SECTOR_BYTES).enumerate() {
        let damaged =
            |offset: usize| Seen::Damaged { offset_bytes: (index * SECTOR_BYTES + offset) as u32 };
        let Some(stamp) = Stamp::read(sector) else { return Err(damaged(0)) };
        let expected = Stamp { sector: first.sector + index as u64, ..*first };
        if stamp.sequence != first.sequence && stamp.sector == expected.sector {
            return Err(Seen::Torn { sequences: (first.sequence, stamp.sequence) });
        }
        if let Some(offset) = expected.first_difference(sector) {
            return Err(damaged(offset));
        }
        if stamp != expected {
            return Err(damaged(0));
        }
    }
    Ok(())
}

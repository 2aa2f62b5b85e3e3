//! What was written and what was acknowledged, block by block, and what a disk may hold after a
//! crash: of each block the last acknowledged write, or the one under way, and no mixture.

use std::ops::Range;

/// What must never be torn: the page of the file.
pub(crate) const BLOCK_BYTES: usize = 4096;
const RECORD_BYTES: usize = 32;

/// A block never has two writes under way, so one of two sequence numbers must be found.
#[derive(Debug, Clone, Copy, Default)]
struct Entry {
    /// 0 is "never written".
    acknowledged: u64,
    under_way: Option<u64>,
}

/// All blocks of one disk.
#[derive(Debug, Clone)]
pub(crate) struct Ledger {
    entries: Vec<Entry>,
    last_sequence: u64,
}

impl Ledger {
    pub(crate) fn new(blocks: usize) -> Self {
        Self { entries: vec![Entry::default(); blocks], last_sequence: 0 }
    }

    pub(crate) fn blocks(&self) -> usize {
        self.entries.len()
    }

    /// Whether none of these has a write under way.
    pub(crate) fn is_idle(&self, blocks: Range<usize>) -> bool {
        self.entries[blocks].iter().all(|entry| entry.under_way.is_none())
    }

    /// Begins a write of these blocks; returns what to write.
    pub(crate) fn begin(&mut self, blocks: Range<usize>) -> Vec<u8> {
        assert!(self.is_idle(blocks.clone()));
        let mut data = Vec::with_capacity(blocks.len() * BLOCK_BYTES);
        for number in blocks {
            self.last_sequence += 1;
            self.entries[number].under_way = Some(self.last_sequence);
            data.extend(stamped(number, self.last_sequence));
        }
        data
    }

    /// The target has said that the write is done.
    pub(crate) fn acknowledge(&mut self, blocks: Range<usize>) {
        for entry in &mut self.entries[blocks] {
            entry.acknowledged = entry.under_way.take().expect("a write was begun");
        }
    }

    /// Judges a block read after a crash, and takes what it holds as what it has to hold from now
    /// on.
    pub(crate) fn judge(&mut self, number: usize, bytes: &[u8]) -> Result<(), String> {
        let found = sequence_of(number, bytes)?;
        let entry = &mut self.entries[number];
        let Entry { acknowledged, under_way } = *entry;
        if found != acknowledged && Some(found) != under_way {
            return Err(format!(
                "block {number} holds write {found}: write {acknowledged} was acknowledged, \
                 {under_way:?} was under way"
            ));
        }
        *entry = Entry { acknowledged: found, under_way: None };
        Ok(())
    }
}

/// A mark that other numbers, sequences and places do not have.
fn checksum(number: u64, sequence: u64, place: u64) -> u64 {
    [number, sequence, place].iter().fold(0xcbf2_9ce4_8422_2325, |sum, part| {
        (sum ^ part).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(23)
    })
}

/// A block full of records: number, sequence, place in the block, checksum.
fn stamped(number: usize, sequence: u64) -> Vec<u8> {
    let number = number as u64;
    let places = 0..(BLOCK_BYTES / RECORD_BYTES) as u64;
    let record = |place| [number, sequence, place, checksum(number, sequence, place)];
    places.flat_map(record).flat_map(u64::to_be_bytes).collect()
}

/// The sequence that every record of a block carries; 0 for a block of zeroes.
fn sequence_of(number: usize, bytes: &[u8]) -> Result<u64, String> {
    assert_eq!(bytes.len(), BLOCK_BYTES);
    if bytes.iter().all(|byte| *byte == 0) {
        return Ok(0);
    }
    let (second, _) = bytes[8..].split_first_chunk().expect("a block holds records");
    let sequence = u64::from_be_bytes(*second);
    if bytes == stamped(number, sequence) {
        return Ok(sequence);
    }
    let good = stamped(number, sequence);
    let at = bytes.iter().zip(&good).position(|(found, good)| found != good);
    Err(format!("block {number} is torn or of another place, from byte {at:?} on"))
}

#[test]
fn a_block_holds_the_last_acknowledged_write_or_the_one_under_way() {
    let mut ledger = Ledger::new(4);
    let first = ledger.begin(1..3);
    assert!(ledger.is_idle(0..1) && !ledger.is_idle(2..4));
    ledger.acknowledge(1..3);
    let second = ledger.begin(1..2);
    let (one, two) = first.split_at(BLOCK_BYTES);
    assert_eq!(ledger.judge(2, two), Ok(()));
    assert_eq!(ledger.judge(0, &[0; BLOCK_BYTES]), Ok(()));
    assert_eq!(ledger.judge(1, &second), Ok(()), "it was under way");
    assert!(ledger.judge(1, one).is_err(), "once it was seen it stays");
    assert_eq!(ledger.judge(1, &second), Ok(()));
}

#[test]
fn what_is_lost_torn_or_misplaced_is_found() {
    let mut ledger = Ledger::new(2);
    let old = ledger.begin(0..1);
    ledger.acknowledge(0..1);
    let new = ledger.begin(0..1);
    ledger.acknowledge(0..1);
    let message = |found: Result<(), String>| found.unwrap_err();
    assert!(message(ledger.judge(0, &old)).contains("write 2 was acknowledged"));
    assert!(message(ledger.judge(0, &[0; BLOCK_BYTES])).contains("holds write 0"));
    let torn = [&new[..512], &old[512..]].concat();
    assert!(message(ledger.judge(0, &torn)).contains("torn"));
    assert!(message(ledger.judge(1, &new)).contains("another place"));
    assert_eq!(ledger.judge(0, &new), Ok(()));
}

//! A batch as bytes; the drawing is at the module.

use crc_fast::Digest;
use ring::{Buf, Data};

use super::{BATCH_BLOCKS_MAX, BLOCK, Mark, PAYLOAD_BLOCKS_MAX, RECORD_BYTES_MAX, Record};
use crate::checksum::{checksum, digest, finish};
use crate::label::ArrayId;
use crate::mutants::{self, Mutant};
use crate::wire::{array_at, put, u32_at, u64_at};
use crate::{BLOCK_BYTES, crc32c};

const MAGIC: [u8; 8] = *b"DRYSJRNL";
pub(super) const HEAD_BYTES: usize = 96;
const HEAD_CRC_AT: usize = 92;
/// Bytes of records before the payload.
const FIRST_BYTES: usize = BLOCK_BYTES - HEAD_BYTES;

/// The head of a batch that was read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Head {
    pub(super) array: ArrayId,
    pub(super) sequence: u64,
    pub(super) previous: u64,
    pub(super) start: u64,
    /// Everything before was durable.
    pub(super) durable: u64,
    /// All of the batch.
    pub(super) blocks: u64,
    pub(super) payload_blocks: u64,
    pub(super) record_bytes: usize,
    pub(super) records: u32,
    pub(super) skip_blocks: u64,
    pub(super) payload_crc: u32,
    pub(super) records_crc: u32,
}

/// Blocks behind the payload for so many bytes of records.
fn second_blocks(record_bytes: usize) -> u64 {
    record_bytes.saturating_sub(FIRST_BYTES).div_ceil(BLOCK_BYTES) as u64
}

/// All blocks of a batch.
pub(super) fn blocks_for(payload_blocks: u64, record_bytes: usize) -> u64 {
    1 + payload_blocks + second_blocks(record_bytes)
}

impl Head {
    fn encode(&self, to: &mut [u8]) {
        to[..HEAD_BYTES].fill(0);
        put(to, 0, &MAGIC);
        put(to, 8, &self.array.0);
        put(to, 24, &self.sequence.to_le_bytes());
        put(to, 32, &self.previous.to_le_bytes());
        put(to, 40, &self.start.to_le_bytes());
        put(to, 48, &self.durable.to_le_bytes());
        put(to, 56, &(self.blocks as u32).to_le_bytes());
        put(to, 60, &(self.payload_blocks as u32).to_le_bytes());
        put(to, 64, &(self.record_bytes as u32).to_le_bytes());
        put(to, 68, &self.records.to_le_bytes());
        put(to, 72, &(self.skip_blocks as u32).to_le_bytes());
        put(to, 76, &self.payload_crc.to_le_bytes());
        put(to, 80, &self.records_crc.to_le_bytes());
        let crc = crc32c(&to[..HEAD_CRC_AT]);
        put(to, HEAD_CRC_AT, &crc.to_le_bytes());
    }

    /// Reads the first block of what may be a batch of `array`.
    pub(super) fn decode(block: &[u8], array: ArrayId) -> Option<Self> {
        assert!(block.len() >= BLOCK_BYTES, "a batch begins with a whole block");
        if block[..8] != MAGIC || u32_at(block, HEAD_CRC_AT) != crc32c(&block[..HEAD_CRC_AT]) {
            return None;
        }
        let head = Self {
            array: ArrayId(array_at(block, 8)),
            sequence: u64_at(block, 24),
            previous: u64_at(block, 32),
            start: u64_at(block, 40),
            durable: u64_at(block, 48),
            blocks: u64::from(u32_at(block, 56)),
            payload_blocks: u64::from(u32_at(block, 60)),
            record_bytes: u32_at(block, 64) as usize,
            records: u32_at(block, 68),
            skip_blocks: u64::from(u32_at(block, 72)),
            payload_crc: u32_at(block, 76),
            records_crc: u32_at(block, 80),
        };
        let fits = head.blocks <= BATCH_BLOCKS_MAX
            && head.blocks == blocks_for(head.payload_blocks, head.record_bytes)
            && head.start.checked_add((head.blocks + head.skip_blocks) * BLOCK).is_some();
        (head.array == array && fits).then_some(head)
    }

    /// Where the next batch starts.
    pub(super) fn end(&self) -> Mark {
        let position = self.start + (self.blocks + self.skip_blocks) * BLOCK;
        Mark { position, sequence: self.sequence }
    }

    /// A block that says of a disk that it has the journal up to `end`, where nothing of it is left: the
    /// head of a batch that begins so many `blocks` before that, and ends there. `None` without memory.
    pub(super) fn last_before(array: ArrayId, end: Mark, blocks: u64) -> Option<Data> {
        let start = end.position - blocks * BLOCK;
        let head = Self {
            array,
            sequence: end.sequence,
            previous: 0,
            start,
            // An opening that begins before it, with an older checkpoint, must not pass over what was answered.
            durable: if mutants::is(Mutant::OldAnchor) { start } else { end.position },
            blocks: 1,
            payload_blocks: 0,
            record_bytes: 0,
            records: 0,
            skip_blocks: blocks - 1,
            payload_crc: 0,
            records_crc: 0,
        };
        let mut block = Buf::zeroed(BLOCK_BYTES)?;
        head.encode(&mut block);
        Some(block.freeze())
    }

    /// Whether `bytes`, which begin with this head, are the whole batch.
    pub(super) fn is_whole(&self, bytes: &[u8]) -> bool {
        assert_eq!(bytes.len() as u64, self.blocks * BLOCK, "cut to its length");
        let payload_end = BLOCK_BYTES + self.payload_blocks as usize * BLOCK_BYTES;
        let mut records = digest();
        records.update(&bytes[HEAD_BYTES..BLOCK_BYTES]);
        records.update(&bytes[payload_end..]);
        finish(&records, self.sequence) == self.records_crc
            && checksum(&bytes[BLOCK_BYTES..payload_end], self.sequence) == self.payload_crc
    }

    /// Gives each record of a whole batch, found at `start`, with the position of its payload;
    /// `false` when the bytes make no sense although they are what was written.
    pub(super) fn each_record(
        &self,
        start: u64,
        bytes: &[u8],
        each: &mut dyn FnMut(Record, u64),
    ) -> bool {
        let payload_end = BLOCK_BYTES + self.payload_blocks as usize * BLOCK_BYTES;
        let mut encoded = bytes[HEAD_BYTES..BLOCK_BYTES].to_vec();
        encoded.extend_from_slice(&bytes[payload_end..]);
        let Some(mut rest) = encoded.get(..self.record_bytes) else { return false };
        let mut position = start + BLOCK;
        for _ in 0..self.records {
            let Some((record, left)) = Record::decode(rest) else { return false };
            rest = left;
            let blocks = record.payload_blocks();
            each(record, position);
            position += blocks * BLOCK;
        }
        rest.is_empty() && position == start + BLOCK + self.payload_blocks * BLOCK
    }
}

/// A batch that is being made.
#[derive(Debug)]
pub(super) struct Batch {
    pub(super) sequence: u64,
    pub(super) previous: u64,
    pub(super) start: u64,
    pub(super) payload_blocks: u64,
    pub(super) payload: Digest,
    pub(super) encoded: Vec<u8>,
    pub(super) records: u32,
    pub(super) skip_blocks: u64,
    /// Whether any of it is answered only when it is durable.
    pub(super) is_durable: bool,
}

impl Batch {
    pub(super) fn new(sequence: u64, after: Mark) -> Self {
        assert!(sequence > after.sequence, "sequence numbers grow");
        Self {
            sequence,
            previous: after.sequence,
            start: after.position,
            payload_blocks: 0,
            payload: digest(),
            encoded: Vec::new(),
            records: 0,
            skip_blocks: 0,
            is_durable: false,
        }
    }

    /// What is written.
    pub(super) fn blocks(&self) -> u64 {
        blocks_for(self.payload_blocks, self.encoded.len())
    }

    /// Where the next batch starts.
    pub(super) fn end(&self) -> Mark {
        let position = self.start + (self.blocks() + self.skip_blocks) * BLOCK;
        Mark { position, sequence: self.sequence }
    }

    /// Its first block and those behind its payload.
    pub(super) fn encode(&self, array: ArrayId, durable: u64) -> (Vec<u8>, Vec<u8>) {
        assert!(self.payload_blocks <= BATCH_BLOCKS_MAX && durable <= self.start);
        let (first, second) = self.encoded.split_at(self.encoded.len().min(FIRST_BYTES));
        let mut block = vec![0; BLOCK_BYTES];
        put(&mut block, HEAD_BYTES, first);
        let mut behind = second.to_vec();
        behind.resize(second.len().next_multiple_of(BLOCK_BYTES), 0);
        let mut records = digest();
        records.update(&block[HEAD_BYTES..]);
        records.update(&behind);
        let head = Head {
            array,
            sequence: self.sequence,
            previous: self.previous,
            start: self.start,
            durable,
            blocks: self.blocks(),
            payload_blocks: self.payload_blocks,
            record_bytes: self.encoded.len(),
            records: self.records,
            skip_blocks: self.skip_blocks,
            payload_crc: finish(&self.payload, self.sequence),
            records_crc: finish(&records, self.sequence),
        };
        head.encode(&mut block);
        (block, behind)
    }
}

// The largest record fits into a batch of its own.
const _: () =
    assert!(1 + PAYLOAD_BLOCKS_MAX + (RECORD_BYTES_MAX / BLOCK_BYTES) as u64 <= BATCH_BLOCKS_MAX);

//! What is written, and what a verified read must give back.

use std::ops::Range;

use super::plan::XorShift;

/// Starting points that a pattern can be read from; one of them belongs to each address.
const SHIFTS: u64 = 1024;
/// Distance between two starting points, in bytes.
const SHIFT_BYTES: u64 = 8;

/// A small table of random bytes. The content of an I/O is a run of it that starts at a place
/// chosen by the I/O's address, so that writing needs no copy, checking needs no memory, and data
/// that comes back from a wrong address is caught 1023 times out of 1024.
#[derive(Debug)]
pub(crate) struct Pattern {
    table: Vec<u8>,
}

impl Pattern {
    /// A table for I/Os of at most `io_bytes_max`.
    pub(crate) fn new(io_bytes_max: usize) -> Self {
        let len = io_bytes_max + (SHIFTS * SHIFT_BYTES) as usize;
        let mut random = XorShift::new(0x5eed);
        let mut table = Vec::with_capacity(len + 8);
        while table.len() < len {
            table.extend_from_slice(&random.draw().to_le_bytes());
        }
        Self { table }
    }

    /// The whole table: what [`Pattern::range`] indexes.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.table
    }

    /// Where in the table the bytes `[offset, offset + len)` of the I/O at address `at` stand.
    pub(crate) fn range(at: u64, offset: usize, len: usize) -> Range<usize> {
        // Fibonacci hashing: neighbours in address get far apart starting points.
        let shift = (at.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) % SHIFTS;
        let start = (shift * SHIFT_BYTES) as usize + offset;
        start..start + len
    }

    /// Whether `bytes`, found `offset` bytes into the I/O at address `at`, are what was written.
    pub(crate) fn matches(&self, at: u64, offset: usize, bytes: &[u8]) -> bool {
        self.table.get(Self::range(at, offset, bytes.len())) == Some(bytes)
    }
}

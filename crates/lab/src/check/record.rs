//! A line of the journal: what became of a write.

/// Four words, and a checksum that the journal adds.
pub(super) const RECORD_BYTES: usize = 40;

/// What a record tells of a write.
#[derive(Debug)]
pub(super) struct Record {
    pub(super) volume: u16,
    pub(super) at: u64,
    pub(super) len: u64,
    pub(super) sequence: u64,
    pub(super) time_unix_ns: u64,
    /// It failed and may still come; else it was answered as done.
    pub(super) is_given_up: bool,
}

impl Record {
    /// The bit above the length, beside the volume.
    const GIVEN_UP: u64 = 1 << 47;

    pub(super) fn words(&self) -> [u64; 4] {
        debug_assert!(self.len < Self::GIVEN_UP);
        let mark = if self.is_given_up { Self::GIVEN_UP } else { 0 };
        let first = u64::from(self.volume) << 48 | mark | self.len;
        [first, self.at, self.sequence, self.time_unix_ns]
    }

    pub(super) fn parse(bytes: &[u8; RECORD_BYTES]) -> Self {
        let word =
            |at: usize| u64::from_le_bytes(bytes[at * 8..at * 8 + 8].try_into().expect("8 bytes"));
        Self {
            volume: (word(0) >> 48) as u16,
            at: word(1),
            len: word(0) & (Self::GIVEN_UP - 1),
            sequence: word(2),
            time_unix_ns: word(3),
            is_given_up: word(0) & Self::GIVEN_UP != 0,
        }
    }
}

//! What a sector that the lab writes looks like.
//!
//! 64 little-endian words: magic, sector number, volume and sequence number, key, time, then words
//! that follow from these. So each bit that flips is seen, and each sector tells where it belongs.

/// The unit of stamps.
pub(crate) const SECTOR_BYTES: usize = 512;
const WORD: usize = 8;
const HEADER_WORDS: usize = 5;
const MAGIC: u64 = u64::from_le_bytes(*b"drystLab");
/// Odd, with bits all over: neighbouring words differ in many bits.
const STRIDE: u64 = 0x9e37_79b9_7f4a_7c15;
const SEQUENCE_BITS: u32 = 48;

/// What a sector says of itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Stamp {
    /// The sector's number on its volume.
    pub(crate) sector: u64,
    /// The volume's number.
    pub(crate) volume: u16,
    /// Counts the writes of a run, from 1; 48 bits.
    pub(crate) sequence: u64,
    /// The key of the run.
    pub(crate) key: u64,
    /// When it was written, in nanoseconds since 1970.
    pub(crate) unix_ns: u64,
}

impl Stamp {
    fn words(&self) -> [u64; HEADER_WORDS] {
        debug_assert!(self.sequence < 1 << SEQUENCE_BITS);
        let which = u64::from(self.volume) << SEQUENCE_BITS | self.sequence;
        [MAGIC, self.sector, which, self.key, self.unix_ns]
    }

    /// Where the words after the header begin.
    fn seed(words: &[u64; HEADER_WORDS]) -> u64 {
        words.iter().fold(0, |seed, word| (seed.rotate_left(23) ^ word).wrapping_mul(STRIDE))
    }

    /// Writes one sector.
    fn write(&self, sector: &mut [u8]) {
        let words = self.words();
        let mut next = Self::seed(&words);
        let (header, body) = sector.split_at_mut(HEADER_WORDS * WORD);
        for (bytes, word) in header.chunks_exact_mut(WORD).zip(words) {
            bytes.copy_from_slice(&word.to_le_bytes());
        }
        for bytes in body.chunks_exact_mut(WORD) {
            bytes.copy_from_slice(&next.to_le_bytes());
            next = next.wrapping_add(STRIDE);
        }
    }

    /// What a sector says; `None` if it is no stamp.
    pub(crate) fn read(sector: &[u8]) -> Option<Self> {
        let word = |at: usize| {
            let bytes = sector.get(at * WORD..(at + 1) * WORD)?;
            Some(u64::from_le_bytes(bytes.try_into().ok()?))
        };
        let which = word(2)?;
        let stamp = Self {
            sector: word(1)?,
            volume: (which >> SEQUENCE_BITS) as u16,
            sequence: which & ((1 << SEQUENCE_BITS) - 1),
            key: word(3)?,
            unix_ns: word(4)?,
        };
        (word(0)? == MAGIC).then_some(stamp)
    }

    /// The first byte of a sector that is not as the stamp in its header says.
    pub(crate) fn first_difference(&self, sector: &[u8]) -> Option<usize> {
        let mut next = Self::seed(&self.words());
        let body = HEADER_WORDS * WORD;
        // All words first: the common answer is "none", at the speed of memory.
        let mut differs = 0;
        for bytes in sector[body..].chunks_exact(WORD) {
            let word = u64::from_le_bytes(bytes.try_into().expect("chunks have 8 bytes"));
            differs |= word ^ next;
            next = next.wrapping_add(STRIDE);
        }
        if differs == 0 {
            return None;
        }
        let mut expected = [0; SECTOR_BYTES];
        self.write(&mut expected);
        expected.iter().zip(sector).position(|(a, b)| a != b)
    }
}

/// Stamps each sector of `bytes`, the first of which is `first.sector`.
pub(crate) fn fill(bytes: &mut [u8], first: Stamp) {
    for (sector, number) in bytes.chunks_exact_mut(SECTOR_BYTES).zip(first.sector..) {
        Stamp { sector: number, ..first }.write(sector);
    }
}

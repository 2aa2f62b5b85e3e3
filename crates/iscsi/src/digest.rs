//! CRC32C digests (RFC 7143 11.2.3 and 13.1).
//!
//! The wire carries the CRC least significant byte first, which is how the bit-reversed definition of
//! 13.1 comes out on the usual reflected CRC32C: 32 zero bytes give `aa 36 91 8a` (RFC 7143 A.4).

/// Length of a digest on the wire.
pub const DIGEST_LEN_BYTES: usize = 4;

/// The digest of bytes that lie in one piece: a header with its additional segments, or a data segment
/// with its padding.
#[must_use]
#[inline]
pub fn digest(bytes: &[u8]) -> [u8; DIGEST_LEN_BYTES] {
    crc_fast::crc32_iscsi(bytes).to_le_bytes()
}

/// A digest over several pieces, in their order.
#[derive(Debug, Clone)]
pub struct Digest(crc_fast::Digest);

impl Digest {
    /// Of no bytes yet.
    #[must_use]
    pub fn new() -> Self {
        Self(crc_fast::Digest::new(crc_fast::CrcAlgorithm::Crc32Iscsi))
    }

    /// Takes the next piece.
    #[inline]
    pub fn update(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    /// The digest of all pieces. What was received is checked with this, its padding included as it came (13.1).
    #[must_use]
    pub fn finish(&self) -> [u8; DIGEST_LEN_BYTES] {
        u32::try_from(self.0.finalize()).expect("CRC32C has 32 bits").to_le_bytes()
    }

    /// As [`Self::finish`], after zero padding to a 4-byte boundary: for sending a data segment.
    #[must_use]
    pub fn finish_padded(mut self) -> [u8; DIGEST_LEN_BYTES] {
        self.update(&[0; 3][..padding_len_bytes(self.0.get_amount())]);
        self.finish()
    }
}

impl Default for Digest {
    fn default() -> Self {
        Self::new()
    }
}

/// Bytes from `len_bytes` to the next 4-byte boundary.
const fn padding_len_bytes(len_bytes: u64) -> usize {
    (len_bytes.wrapping_neg() % 4) as usize
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// CRC32C one byte at a time from a table: the oracle.
    fn by_table(bytes: &[u8]) -> [u8; 4] {
        let table: Vec<u32> = (0..256_u32)
            .map(|n| (0..8).fold(n, |crc, _| (crc >> 1) ^ (0x82f6_3b78 * (crc & 1))))
            .collect();
        let crc = bytes
            .iter()
            .fold(u32::MAX, |crc, byte| table[usize::from(crc as u8 ^ byte)] ^ (crc >> 8));
        (!crc).to_le_bytes()
    }

    #[test]
    fn examples_of_appendix_a_4() {
        let rising: Vec<u8> = (0..32).collect();
        let falling: Vec<u8> = (0..32).rev().collect();
        assert_eq!(digest(&[0; 32]), [0xaa, 0x36, 0x91, 0x8a]);
        assert_eq!(digest(&[0xff; 32]), [0x43, 0xab, 0xa8, 0x62]);
        assert_eq!(digest(&rising), [0x4e, 0x79, 0xdd, 0x46]);
        assert_eq!(digest(&falling), [0x5c, 0xdb, 0x3f, 0x11]);
    }

    #[test]
    fn padding_counts_as_zeroes() {
        for len in 0..9_usize {
            let mut sent = Digest::new();
            sent.update(&vec![7; len]);
            let mut padded = vec![7; len];
            padded.resize(len.next_multiple_of(4), 0);
            assert_eq!(sent.finish_padded(), digest(&padded), "{len} bytes");
        }
    }

    proptest! {
        #[test]
        fn agrees_with_the_table_in_one_piece_and_in_many(
            bytes in proptest::collection::vec(any::<u8>(), 0..5000),
            cuts in proptest::collection::vec(any::<proptest::sample::Index>(), 0..5),
        ) {
            let expected = by_table(&bytes);
            prop_assert_eq!(digest(&bytes), expected);
            let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut.index(bytes.len() + 1)).collect();
            cuts.sort_unstable();
            let mut pieces = Digest::new();
            let mut at = 0;
            for cut in cuts.into_iter().chain([bytes.len()]) {
                pieces.update(&bytes[at..cut]);
                at = cut;
            }
            prop_assert_eq!(pieces.finish(), expected);
        }
    }
}

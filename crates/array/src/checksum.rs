//! Checksums of what hosts write: blocks of clusters, pages of maps, payload of the journal.
//!
//! Not CRC32C: a block that ends in its own CRC32C, as the superblock of ext4 does, has the same
//! CRC32C whatever it holds, so an old version of it would pass for the current one. CRC-64/NVME
//! has another polynomial, and as nothing stores it in its own data, equal checksums come about by
//! chance only (decision 0020). It is mixed with the address and cut to 32 bits: what a disk wrote
//! to another place does not match there.

use crc_fast::{CrcAlgorithm, Digest};

use crate::{BLOCK_BYTES, CLUSTER_BLOCKS, SetId};

/// Spreads a number over all its bits (the finalizer of `SplitMix64`).
pub(crate) fn mix(number: u64) -> u64 {
    let mut mixed = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

/// The checksum of bytes that were written in parts, as [`digest`] has them; `salt` says what they
/// are.
pub(crate) fn finish(digest: &Digest, salt: u64) -> u32 {
    (mix(digest.finalize() ^ mix(salt)) >> 32) as u32
}

/// For bytes that come in parts.
pub(crate) fn digest() -> Digest {
    Digest::new(CrcAlgorithm::Crc64Nvme)
}

/// The checksum of `bytes`; `salt` says what they are.
pub(crate) fn checksum(bytes: &[u8], salt: u64) -> u32 {
    let crc = crc_fast::checksum(CrcAlgorithm::Crc64Nvme, bytes);
    (mix(crc ^ mix(salt)) >> 32) as u32
}

/// The checksum of a block in this place: block `block` of slot `slot` of `set`.
#[must_use]
pub fn block_checksum(set: SetId, slot: u32, block: usize, bytes: &[u8]) -> u32 {
    debug_assert!(block < CLUSTER_BLOCKS && bytes.len() == BLOCK_BYTES, "one block of a slot");
    let address = u64::from(slot) * CLUSTER_BLOCKS as u64 + block as u64;
    checksum(bytes, u64::from(set.0) << 40 ^ address)
}

#[cfg(test)]
mod tests {
    use super::*;

    use crate::crc32c;

    /// A block that ends in the CRC32C of what is before.
    fn self_checked(byte: u8) -> Vec<u8> {
        let mut block = vec![byte; BLOCK_BYTES];
        let crc = crc32c(&block[..BLOCK_BYTES - 4]).to_le_bytes();
        block[BLOCK_BYTES - 4..].copy_from_slice(&crc);
        block
    }

    #[test]
    fn blocks_that_end_in_their_own_crc32c_are_told_apart() {
        let blocks: Vec<_> = (0..64).map(self_checked).collect();
        assert!(blocks.iter().all(|block| crc32c(block) == crc32c(&blocks[0])), "CRC32C cannot");
        let sums: std::collections::BTreeSet<u32> =
            blocks.iter().map(|block| block_checksum(SetId(1), 2, 3, block)).collect();
        assert_eq!(sums.len(), blocks.len());
    }

    #[test]
    fn a_block_in_another_place_has_another_checksum() {
        let zeroes = [0; BLOCK_BYTES];
        let places = [(1, 0, 0), (1, 0, 1), (1, 1, 0), (2, 0, 0), (1, u32::MAX, 15)];
        let sums: std::collections::BTreeSet<u32> = places
            .into_iter()
            .map(|(set, slot, block)| block_checksum(SetId(set), slot, block, &zeroes))
            .collect();
        assert_eq!(sums.len(), places.len());
    }

    #[test]
    fn bytes_in_parts_have_the_checksum_of_the_whole() {
        let bytes = self_checked(7);
        let mut parts = digest();
        bytes.chunks(1000).for_each(|part| parts.update(part));
        assert_eq!(finish(&parts, 9), checksum(&bytes, 9));
        assert_ne!(checksum(&bytes, 9), checksum(&bytes, 10));
    }
}

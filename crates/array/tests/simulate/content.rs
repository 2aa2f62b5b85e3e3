//! Data that says who wrote it and where: any sector is recognised, and one in a wrong place too.

use std::fmt;

use crate::random::mix;

/// The smallest piece that a host can write.
pub(crate) const SECTOR_BYTES: usize = 512;
/// Sectors of a block of the array.
pub(crate) const BLOCK_SECTORS: usize = array::BLOCK_BYTES / SECTOR_BYTES;

/// The write that data comes from; 0 stands for zeroes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub(crate) struct Tag(pub(crate) u32);

/// What the sectors of a block hold.
pub(crate) type Content = [Tag; BLOCK_SECTORS];

/// A block of zeroes.
pub(crate) const ZERO: Content = [Tag(0); BLOCK_SECTORS];

/// Data that no write can have left there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Strange {
    /// The whole sector belongs to another address.
    Misplaced { tag: Tag, sector: u32 },
    /// Neither zeroes nor what any write writes.
    Garbage,
}

impl fmt::Display for Strange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Misplaced { tag, sector } => {
                write!(f, "what write {} put into sector {sector}", tag.0)
            }
            Self::Garbage => f.write_str("garbage, or parts of several writes"),
        }
    }
}

/// The eight-byte words of a sector: who and where, then a row that depends on both.
fn words(tag: Tag, sector: u32) -> impl Iterator<Item = [u8; 8]> {
    let head = u64::from(tag.0) << 32 | u64::from(sector);
    let start = mix(head);
    // Every word tells the sector, so that no part of it can come from another one unnoticed.
    (0..SECTOR_BYTES as u64 / 8).map(move |at| {
        let word = if at == 0 { head } else { start.wrapping_add(at.wrapping_mul(start | 1)) };
        word.to_le_bytes()
    })
}

/// Writes the data of write `tag` for the sectors from `sector` on.
pub(crate) fn fill(tag: Tag, sector: u64, bytes: &mut [u8]) {
    assert!(bytes.len().is_multiple_of(SECTOR_BYTES), "whole sectors");
    if tag == Tag(0) {
        bytes.fill(0);
        return;
    }
    for (at, bytes) in bytes.chunks_mut(SECTOR_BYTES).enumerate() {
        let sector = u32::try_from(sector).expect("volumes of a test are small") + at as u32;
        for (to, word) in bytes.chunks_mut(8).zip(words(tag, sector)) {
            to.copy_from_slice(&word);
        }
    }
}

/// Who wrote this sector.
pub(crate) fn recognise(sector: u64, bytes: &[u8]) -> Result<Tag, Strange> {
    assert_eq!(bytes.len(), SECTOR_BYTES, "one sector");
    let head = u64::from_le_bytes(bytes[..8].try_into().expect("eight bytes"));
    if head == 0 && bytes.iter().all(|&byte| byte == 0) {
        return Ok(Tag(0));
    }
    let (tag, found) = (Tag((head >> 32) as u32), head as u32);
    let whole = tag != Tag(0) && bytes.chunks(8).zip(words(tag, found)).all(|(a, b)| a == b);
    match whole {
        true if u64::from(found) == sector => Ok(tag),
        true => Err(Strange::Misplaced { tag, sector: found }),
        false => Err(Strange::Garbage),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sector_is_recognised_in_its_place_only() {
        let mut bytes = vec![0xff; 4 * SECTOR_BYTES];
        fill(Tag(7), 100, &mut bytes);
        for at in 0..4 {
            let sector = &bytes[at * SECTOR_BYTES..][..SECTOR_BYTES];
            assert_eq!(recognise(100 + at as u64, sector), Ok(Tag(7)));
            let misplaced = Strange::Misplaced { tag: Tag(7), sector: 100 + at as u32 };
            assert_eq!(recognise(99, sector), Err(misplaced));
        }
    }

    #[test]
    fn zeroes_are_nobody_s_and_every_byte_counts() {
        let mut bytes = [0; SECTOR_BYTES];
        assert_eq!(recognise(3, &bytes), Ok(Tag(0)));
        for at in 0..SECTOR_BYTES {
            for tag in [0, 5] {
                fill(Tag(tag), 3, &mut bytes);
                bytes[at] ^= 0x40;
                assert!(recognise(3, &bytes).is_err(), "byte {at} of write {tag}");
            }
        }
    }

    #[test]
    fn a_mixture_of_two_writes_is_garbage() {
        let (mut one, mut two) = ([0; SECTOR_BYTES], [0; SECTOR_BYTES]);
        fill(Tag(1), 3, &mut one);
        fill(Tag(2), 3, &mut two);
        one[256..].copy_from_slice(&two[256..]);
        assert_eq!(recognise(3, &one), Err(Strange::Garbage));
        assert!(Strange::Garbage.to_string().contains("garbage"));
    }
}

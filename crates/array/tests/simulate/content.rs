//! Data that says who wrote it and where: any sector is recognised, and one in a wrong place too.
//!
//! Hosts do not write chance alone. Most data says its write and its sector in random words; a
//! share of it ends in its own CRC32C, sector by sector, so that all of these blocks have one and
//! the same CRC32C, as superblocks and directories of file systems have. Other writes are zeroes,
//! ones, or the same everywhere; and some are copies of what the array itself wrote to its disks:
//! labels, records of checkpoints, batches of the journal, redo waves, pages of maps.

use std::cell::RefCell;
use std::collections::HashMap;
use std::fmt;

use crc_fast::CrcAlgorithm;

use crate::random::mix;

/// The smallest piece that a host can write.
pub(crate) const SECTOR_BYTES: usize = 512;
/// Sectors of a block of the array.
pub(crate) const BLOCK_SECTORS: usize = array::BLOCK_BYTES / SECTOR_BYTES;

/// What a sector holds: the number of the write that it comes from, or something that many writes
/// write; 0 stands for zeroes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub(crate) struct Tag(pub(crate) u32);

/// Nothing but ones.
const ONES: Tag = Tag(u32::MAX - 1);
/// The same words, wherever they stand.
const EQUAL: Tag = Tag(u32::MAX - 2);
/// What was copied from a disk, counted from here.
const COPIED: u32 = 1 << 31;

/// What the sectors of a block hold.
pub(crate) type Content = [Tag; BLOCK_SECTORS];

/// A block of zeroes.
pub(crate) const ZERO: Content = [Tag(0); BLOCK_SECTORS];

type Sector = [u8; SECTOR_BYTES];

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

/// Sectors that were copied from disks.
#[derive(Default)]
struct Copies {
    sectors: Vec<Sector>,
    numbers: HashMap<Sector, u32>,
}

thread_local! {
    /// They live with the thread, as the tasks of the machine do: one history at a time.
    static COPIES: RefCell<Copies> = RefCell::default();
}

/// Another history begins.
pub(crate) fn forget_copies() {
    COPIES.with(|copies| *copies.borrow_mut() = Copies::default());
}

/// Makes a block as it lies on a disk one that hosts may write. `None` if it is data of hosts.
pub(crate) fn copy(block: &[u8; array::BLOCK_BYTES]) -> Option<Content> {
    let mut content = ZERO;
    for (tag, bytes) in content.iter_mut().zip(block.chunks(SECTOR_BYTES)) {
        *tag = match recognise(0, bytes) {
            Ok(Tag(number)) if is_shared(Tag(number)) => Tag(number),
            Ok(_) | Err(Strange::Misplaced { .. }) => return None,
            Err(Strange::Garbage) => COPIES.with(|copies| {
                let copies = &mut *copies.borrow_mut();
                let bytes: Sector = bytes.try_into().expect("a chunk is a sector");
                let next = COPIED + copies.sectors.len() as u32;
                let number = *copies.numbers.entry(bytes).or_insert(next);
                if number == next {
                    copies.sectors.push(bytes);
                }
                Tag(number)
            }),
        };
    }
    Some(content)
}

/// Whether more than one write may write this.
fn is_shared(tag: Tag) -> bool {
    tag == Tag(0) || tag.0 >= COPIED
}

/// What a write of this number writes.
pub(crate) fn of_write(op: u32) -> Tag {
    assert!(op > 0 && op < COPIED, "numbers of writes are small");
    match mix(u64::from(op)) % 32 {
        0 => Tag(0),
        1 => ONES,
        2 => EQUAL,
        _ => Tag(op),
    }
}

/// Whether what a write writes ends in its own checksum.
fn is_summed(tag: Tag) -> bool {
    mix(u64::from(tag.0)) % 32 >= 16
}

/// The sector as a write leaves it.
fn sector_of(tag: Tag, sector: u32) -> Sector {
    let mut bytes = [0; SECTOR_BYTES];
    match tag {
        Tag(0) => return bytes,
        ONES => return [0xff; SECTOR_BYTES],
        EQUAL => {
            bytes.chunks_mut(8).for_each(|word| word.copy_from_slice(b"the same"));
            return bytes;
        }
        Tag(number) if number >= COPIED => {
            return COPIES.with(|copies| copies.borrow().sectors[(number - COPIED) as usize]);
        }
        Tag(_) => {}
    }
    // Who and where, then a row that depends on both: every word tells the sector, so that no part
    // of it can come from another one unnoticed.
    let head = u64::from(tag.0) << 32 | u64::from(sector);
    let start = mix(head);
    for (at, to) in bytes.chunks_mut(8).enumerate() {
        let at = at as u64;
        let word = if at == 0 { head } else { start.wrapping_add(at.wrapping_mul(start | 1)) };
        to.copy_from_slice(&word.to_le_bytes());
    }
    if is_summed(tag) {
        let (data, end) = bytes.split_at_mut(SECTOR_BYTES - 4);
        let sum = crc_fast::checksum(CrcAlgorithm::Crc32Iscsi, data) as u32;
        end.copy_from_slice(&sum.to_le_bytes());
    }
    bytes
}

/// Writes `content` to the sectors from `sector` on, block by block.
pub(crate) fn fill(content: &Content, sector: u64, bytes: &mut [u8]) {
    assert!(bytes.len().is_multiple_of(SECTOR_BYTES), "whole sectors");
    for (at, bytes) in bytes.chunks_mut(SECTOR_BYTES).enumerate() {
        let sector = u32::try_from(sector).expect("volumes of a test are small") + at as u32;
        let tag = content[sector as usize % BLOCK_SECTORS];
        bytes.copy_from_slice(&sector_of(tag, sector));
    }
}

/// Who wrote this sector.
pub(crate) fn recognise(sector: u64, bytes: &[u8]) -> Result<Tag, Strange> {
    let bytes: &Sector = bytes.try_into().expect("one sector");
    let is = |tag| *bytes == sector_of(tag, 0);
    if let Some(tag) = [Tag(0), ONES, EQUAL].into_iter().find(|&tag| is(tag)) {
        return Ok(tag);
    }
    let head = u64::from_le_bytes(bytes[..8].try_into().expect("eight bytes"));
    let (tag, found) = (Tag((head >> 32) as u32), head as u32);
    if !is_shared(tag) && *bytes == sector_of(tag, found) {
        let is_here = u64::from(found) == sector;
        return if is_here { Ok(tag) } else { Err(Strange::Misplaced { tag, sector: found }) };
    }
    let copied = COPIES.with(|copies| copies.borrow().numbers.get(bytes).copied());
    copied.map(Tag).ok_or(Strange::Garbage)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Sectors of one write, from `sector` on.
    fn written(op: u32, sector: u64, bytes: &mut [u8]) {
        fill(&[Tag(op); BLOCK_SECTORS], sector, bytes);
    }

    /// Numbers of writes that end in their own checksum, or do not.
    fn ops(summed: bool) -> impl Iterator<Item = u32> {
        (1..200).filter(move |&op| of_write(op) == Tag(op) && is_summed(Tag(op)) == summed)
    }

    #[test]
    fn a_sector_is_recognised_in_its_place_only() {
        for op in ops(false).take(3).chain(ops(true).take(3)) {
            let mut bytes = vec![0xff; 4 * SECTOR_BYTES];
            written(op, 100, &mut bytes);
            for at in 0..4 {
                let sector = &bytes[at * SECTOR_BYTES..][..SECTOR_BYTES];
                assert_eq!(recognise(100 + at as u64, sector), Ok(Tag(op)));
                let misplaced = Strange::Misplaced { tag: Tag(op), sector: 100 + at as u32 };
                assert_eq!(recognise(99, sector), Err(misplaced));
            }
        }
    }

    #[test]
    fn what_many_write_is_the_same_everywhere_and_every_byte_counts() {
        let mut bytes = [0; SECTOR_BYTES];
        for at in 0..SECTOR_BYTES {
            for tag in [Tag(0), ONES, EQUAL, Tag(ops(false).next().unwrap())] {
                fill(&[tag; BLOCK_SECTORS], 3, &mut bytes);
                assert_eq!(recognise(3, &bytes), Ok(tag));
                bytes[at] ^= 0x40;
                assert!(recognise(3, &bytes).is_err(), "byte {at} of {tag:?}");
            }
        }
    }

    #[test]
    fn a_mixture_of_two_writes_is_garbage() {
        let (mut one, mut two) = ([0; SECTOR_BYTES], [0; SECTOR_BYTES]);
        written(101, 3, &mut one);
        written(102, 3, &mut two);
        one[256..].copy_from_slice(&two[256..]);
        assert_eq!(recognise(3, &one), Err(Strange::Garbage));
        assert!(Strange::Garbage.to_string().contains("garbage"));
    }

    #[test]
    fn blocks_that_end_in_their_own_checksum_all_have_the_same() {
        let sums = ops(true).take(20).enumerate().map(|(at, op)| {
            let mut block = [0; array::BLOCK_BYTES];
            written(op, at as u64 * 8, &mut block);
            crc_fast::checksum(CrcAlgorithm::Crc32Iscsi, &block)
        });
        let sums: Vec<u64> = sums.collect();
        assert!(sums.iter().all(|sum| *sum == sums[0]), "{sums:x?}");
    }

    #[test]
    fn copies_of_what_lies_on_disks_are_known_again_and_data_of_hosts_is_not_copied() {
        forget_copies();
        let mut block = [0; array::BLOCK_BYTES];
        block[700..2000].fill(0x5a);
        let content = copy(&block).expect("nobody's data");
        assert_eq!(content[4..], [Tag(0); 4]);
        let mut bytes = [1; array::BLOCK_BYTES];
        fill(&content, 80, &mut bytes);
        assert_eq!(bytes, block);
        assert_eq!(recognise(17, &block[512..1024]), Ok(content[1]), "in any place");
        assert_eq!(copy(&block), Some(content), "it is interned once");
        written(ops(true).next().unwrap(), 9, &mut block[..512]);
        assert_eq!(copy(&block), None);
        forget_copies();
        assert_eq!(recognise(17, &block[512..1024]), Err(Strange::Garbage));
    }
}

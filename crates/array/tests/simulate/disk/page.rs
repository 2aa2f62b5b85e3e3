//! The unit of a simulated medium, and what a loss of power leaves of it.

use std::sync::Arc;

use crate::random::Random;

/// Disks of an array are read and written in whole pages.
pub(crate) const PAGE_BYTES: usize = 4096;
/// What a disk writes in one go, whatever happens to the power.
pub(crate) const SECTOR_BYTES: usize = 512;
/// Sectors of a page.
pub(crate) const SECTORS: usize = PAGE_BYTES / SECTOR_BYTES;

/// Contents of a page; `None` is zeroes. Cheap to share between the states of a medium.
pub(crate) type Bytes = Option<Arc<[u8; PAGE_BYTES]>>;

/// Whether two pages read alike.
pub(crate) fn same(a: &Bytes, b: &Bytes) -> bool {
    match (a, b) {
        (None, None) => true,
        (Some(a), Some(b)) => Arc::ptr_eq(a, b) || a == b,
        (Some(some), None) | (None, Some(some)) => some.iter().all(|&byte| byte == 0),
    }
}

/// Which sectors of a page survive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Mask(pub(crate) u8);

impl Mask {
    pub(crate) const ALL: Self = Self(0xff);

    /// `new` where the mask says so, `old` elsewhere.
    pub(crate) fn mix(self, old: &Bytes, new: &Bytes) -> Bytes {
        match self.0 {
            0 => return old.clone(),
            0xff => return new.clone(),
            _ => {}
        }
        let mut mixed = old.as_deref().copied().unwrap_or([0; PAGE_BYTES]);
        let new = new.as_deref().copied().unwrap_or([0; PAGE_BYTES]);
        for sector in (0..SECTORS).filter(|sector| self.0 >> sector & 1 == 1) {
            let range = sector * SECTOR_BYTES..(sector + 1) * SECTOR_BYTES;
            mixed[range.clone()].copy_from_slice(&new[range]);
        }
        Some(Arc::new(mixed))
    }
}

/// What a loss of power does to one write that was not durable yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fate {
    /// Nothing arrived.
    Lost,
    /// All of it did.
    Kept,
    /// The first so many sectors did.
    Prefix(usize),
    /// All but the first so many did.
    Suffix(usize),
    /// Each sector for itself.
    Coins,
}

impl Fate {
    /// Draws one for a write of `pages`.
    pub(crate) fn draw(random: &Random, pages: usize) -> Self {
        let sectors = pages * SECTORS;
        match random.below(8) {
            0..3 => Self::Lost,
            3..5 => Self::Kept,
            5 => Self::Prefix(random.index(sectors + 1)),
            6 => Self::Suffix(random.index(sectors + 1)),
            _ => Self::Coins,
        }
    }

    /// What is left of the write's page number `index`.
    pub(crate) fn mask(self, index: usize, random: &Random) -> Mask {
        let first = index * SECTORS;
        let sectors = |keep: &dyn Fn(usize) -> bool| {
            Mask((0..SECTORS).fold(0, |mask, at| mask | u8::from(keep(first + at)) << at))
        };
        match self {
            Self::Lost => Mask(0),
            Self::Kept => Mask::ALL,
            Self::Prefix(end) => sectors(&|sector| sector < end),
            Self::Suffix(start) => sectors(&|sector| sector >= start),
            Self::Coins => Mask(random.word() as u8),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(byte: u8) -> Bytes {
        Some(Arc::new([byte; PAGE_BYTES]))
    }

    #[test]
    fn a_mask_takes_whole_sectors() {
        let mixed = Mask(0b0000_0110).mix(&page(1), &page(2)).unwrap();
        for (at, &byte) in mixed.iter().enumerate() {
            assert_eq!(byte, if (512..1536).contains(&at) { 2 } else { 1 }, "byte {at}");
        }
        assert!(same(&Mask(0).mix(&page(1), &page(2)), &page(1)));
        assert!(same(&Mask::ALL.mix(&page(1), &None), &None));
    }

    #[test]
    fn zeroes_are_the_same_whether_stored_or_not() {
        assert!(same(&page(0), &None) && same(&None, &page(0)) && same(&page(3), &page(3)));
        assert!(!same(&page(1), &None) && !same(&page(1), &page(2)));
    }

    #[test]
    fn fates_cut_where_they_say() {
        let random = Random::new(1);
        assert_eq!(Fate::Prefix(11).mask(0, &random), Mask::ALL);
        assert_eq!(Fate::Prefix(11).mask(1, &random), Mask(0b0000_0111));
        assert_eq!(Fate::Suffix(11).mask(0, &random), Mask(0));
        assert_eq!(Fate::Suffix(11).mask(1, &random), Mask(0b1111_1000));
        assert_eq!(Fate::Lost.mask(0, &random), Mask(0));
        assert_eq!(Fate::Kept.mask(9, &random), Mask::ALL);
    }

    #[test]
    fn every_fate_is_met() {
        let random = Random::new(2);
        let fates: Vec<_> = (0..200).map(|_| Fate::draw(&random, 4)).collect();
        assert!(fates.contains(&Fate::Lost) && fates.contains(&Fate::Kept));
        assert!(fates.contains(&Fate::Coins));
        assert!(fates.iter().any(|fate| matches!(fate, Fate::Prefix(1..32))));
        assert!(fates.iter().any(|fate| matches!(fate, Fate::Suffix(1..32))));
    }
}

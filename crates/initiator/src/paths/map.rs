//! Which target port groups lead to the owner of each page of a disk.

use std::ops::Range;

/// Pages that a map holds at most, a byte for each: 256 TiB in pages of 16 MiB. The pages of a disk
/// that would have more count as larger ones.
const PAGES_MAX: u64 = 1 << 24;

/// Owners that a map tells apart, the one that nobody knows included.
const SETS_MAX: usize = 1 << u8::BITS;

/// The page map of a disk: from each byte to the target port groups through which its owner is
/// reached directly. To look up is one step, whatever the size of the disk.
///
/// Invariant: `page_bytes` is a power of two, `pages` are as many as `size_bytes` has of them, and
/// each is an index of `sets`, whose first is empty.
#[derive(Debug, Clone)]
pub struct PageMap {
    size_bytes: u64,
    page_bytes: u64,
    /// The owners of each page, as an index in `sets`.
    pages: Vec<u8>,
    sets: Vec<Vec<u16>>,
}

impl PageMap {
    /// The map of a disk of which nothing is known yet.
    #[must_use]
    pub fn new(size_bytes: u64) -> Self {
        let page_bytes = size_bytes.min(1 << 63).next_power_of_two();
        // One page, or two of the largest disk that there can be.
        let pages = (0..size_bytes.div_ceil(page_bytes)).map(|_| 0).collect();
        Self { size_bytes, page_bytes, pages, sets: vec![Vec::new()] }
    }

    /// Takes over what is told of some bytes: the groups that lead to their owner. The others stay as
    /// they are. Of a page that cannot be divided any more, what is told of a part holds for all of
    /// it: whoever goes there in vain is told of the other part.
    pub fn learn(&mut self, runs: impl IntoIterator<Item = (Range<u64>, Vec<u16>)>) {
        for (bytes, groups) in runs {
            self.divide(bytes.start);
            self.divide(bytes.end);
            let owners = self.number_of(groups);
            let (first, end) = (self.page_of(bytes.start), bytes.end.min(self.size_bytes));
            let end = usize::try_from(end.div_ceil(self.page_bytes)).unwrap_or(usize::MAX);
            if let Some(told) = self.pages.get_mut(first..end) {
                told.fill(owners);
            }
        }
    }

    /// Makes pages so small that one begins at byte `at`, or as small as they may be.
    fn divide(&mut self, at: u64) {
        if at >= self.size_bytes || at.is_multiple_of(self.page_bytes) {
            return;
        }
        let least = self.size_bytes.div_ceil(PAGES_MAX).next_power_of_two();
        let page_bytes = least.max(1 << at.trailing_zeros());
        if page_bytes >= self.page_bytes {
            return;
        }
        let factor = usize::try_from(self.page_bytes / page_bytes).expect("within PAGES_MAX");
        let len = usize::try_from(self.size_bytes.div_ceil(page_bytes)).expect("within PAGES_MAX");
        let divided = self.pages.iter().flat_map(|&page| std::iter::repeat_n(page, factor));
        self.pages = divided.take(len).collect();
        self.page_bytes = page_bytes;
        debug_assert_eq!(self.pages.len(), len, "every byte of the disk has its page");
    }

    fn page_of(&self, at: u64) -> usize {
        usize::try_from(at / self.page_bytes).unwrap_or(usize::MAX)
    }

    /// The number of a set of owners. When there are too many of them, nobody knows the owner.
    fn number_of(&mut self, groups: Vec<u16>) -> u8 {
        // Few sets: as many as there are members, or pairs of them.
        let known = self.sets.iter().position(|set| *set == groups);
        let number = known.unwrap_or_else(|| {
            if self.sets.len() == SETS_MAX {
                return 0;
            }
            self.sets.push(groups);
            self.sets.len() - 1
        });
        u8::try_from(number).expect("there are no more than SETS_MAX")
    }

    fn owners_number(&self, at: u64) -> u8 {
        self.pages.get(self.page_of(at)).copied().unwrap_or(0)
    }

    /// The groups that lead to the owner of the byte `at`; empty if it is not known.
    #[must_use]
    pub fn owners(&self, at: u64) -> &[u16] {
        &self.sets[usize::from(self.owners_number(at))]
    }

    /// Up to where the bytes have the owner of the first one: what spans that is cut there. It looks
    /// at each page of `bytes`.
    #[must_use]
    pub fn run_end(&self, bytes: Range<u64>) -> u64 {
        let owners = self.owners_number(bytes.start);
        let mut at = bytes.start;
        loop {
            let next = (at / self.page_bytes + 1).saturating_mul(self.page_bytes);
            let is_last = next >= bytes.end || self.page_of(at) >= self.pages.len();
            if is_last {
                return bytes.end;
            }
            if self.owners_number(next) != owners {
                return next;
            }
            at = next;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const PAGE: u64 = 16 << 20;
    const TIB: u64 = 1 << 40;

    fn check(map: &PageMap) {
        assert!(map.page_bytes.is_power_of_two());
        assert_eq!(map.pages.len() as u64, map.size_bytes.div_ceil(map.page_bytes));
        assert!(map.pages.iter().all(|&page| usize::from(page) < map.sets.len()));
        assert!(map.sets[0].is_empty() && map.sets.len() <= SETS_MAX);
    }

    /// One owner for each page.
    fn pages(owners: &[u16]) -> PageMap {
        let len = owners.len() as u64;
        let page = |(n, &owner): (u64, &u16)| (n * PAGE..(n + 1) * PAGE, vec![owner]);
        told(len * PAGE, (0..).zip(owners).map(page))
    }

    fn told(size_bytes: u64, runs: impl IntoIterator<Item = (Range<u64>, Vec<u16>)>) -> PageMap {
        let mut map = PageMap::new(size_bytes);
        map.learn(runs);
        check(&map);
        map
    }

    #[test]
    fn every_byte_has_the_owner_of_its_page() {
        let map = pages(&[1, 1, 2]);
        assert_eq!(map.owners(0), [1]);
        assert_eq!(map.owners(2 * PAGE - 1), [1]);
        assert_eq!(map.owners(2 * PAGE), [2]);
        assert_eq!(map.owners(3 * PAGE), [0; 0], "behind the last page");
        assert_eq!(map.run_end(5..4 * PAGE), 2 * PAGE, "pages of one owner are one run");
        assert_eq!(map.run_end(2 * PAGE..2 * PAGE + 7), 2 * PAGE + 7);
        assert_eq!(map.run_end(2 * PAGE..u64::MAX), 3 * PAGE);
        assert_eq!(map.run_end(3 * PAGE..u64::MAX), u64::MAX);
    }

    #[test]
    fn what_is_not_told_has_no_owner() {
        let map = PageMap::new(100);
        assert_eq!((map.owners(7), map.run_end(7..9)), (&[][..], 9));
        let map = told(41, [(10..20, vec![3]), (30..41, vec![3])]);
        assert_eq!((map.owners(9), map.run_end(9..40)), (&[][..], 10));
        assert_eq!((map.owners(25), map.run_end(25..40)), (&[][..], 30));
        assert_eq!(map.owners(40), [3]);
        assert_eq!(map.page_bytes, 2, "where the disk ends is in nobody's way");
        let nothing = told(0, [(0..5, vec![1])]);
        assert_eq!((nothing.owners(0), nothing.run_end(0..7)), (&[][..], 7));
    }

    #[test]
    fn what_is_told_of_some_pages_leaves_the_others() {
        let owners = |map: &PageMap| [0, PAGE, 2 * PAGE].map(|at| map.owners(at).to_vec());
        let mut map = pages(&[1, 1, 2]);
        map.learn([(PAGE..2 * PAGE, vec![3]), (9 * PAGE..10 * PAGE, vec![5])]);
        assert_eq!(owners(&map), [[1], [3], [2]]);
        map.learn([(PAGE + 512..PAGE + 1024, vec![4])]);
        assert_eq!(owners(&map), [[1], [3], [2]]);
        assert_eq!((map.owners(PAGE + 512), map.owners(PAGE + 1024)), (&[4][..], &[3][..]));
        map.learn([(0..3 * PAGE, vec![2])]);
        assert_eq!(map.run_end(0..3 * PAGE), 3 * PAGE);
        map.learn(Vec::new());
        assert_eq!(owners(&map), [[2], [2], [2]]);
    }

    #[test]
    fn a_large_disk_has_a_byte_for_each_page() {
        let owner = |n: u64| (n * PAGE..(n + 1) * PAGE, vec![(n % 16) as u16]);
        let map = told(15 * TIB, (0..15 * TIB / PAGE).map(owner));
        assert_eq!((map.pages.len(), map.page_bytes), (983_040, PAGE));
        assert_eq!(map.owners(15 * TIB - 1), [15]);
        // Pages that would be too many have the owner that was told last of a part of them.
        let odd = [(0..512, vec![1]), (512..TIB, vec![2]), (TIB..9 * TIB, vec![3])];
        let odd = told(9 * TIB, odd);
        assert_eq!((odd.pages.len() as u64, odd.page_bytes), ((9 * TIB) >> 20, 1 << 20));
        assert_eq!([0, TIB - 1, TIB].map(|at| odd.owners(at)), [[2], [2], [3]]);
        assert_eq!(told(u64::MAX, [(5..6, vec![1])]).owners(5), [1]);
    }

    #[test]
    fn owners_beyond_what_a_byte_tells_apart_are_not_known() {
        let owner = |n: u64| (n..n + 1, vec![n as u16 + 1]);
        let map = told(300, (0..300).map(owner));
        assert_eq!((map.owners(254), map.owners(255)), (&[255][..], &[][..]));
        assert_eq!(map.sets.len(), SETS_MAX);
    }

    proptest! {
        #[test]
        fn what_is_told_last_counts(
            runs in proptest::collection::vec((0_u64..60, 1_u64..20, 0_u16..3), 1..20),
            at in 0_u64..80,
        ) {
            let found = runs.iter().rev().find(|(start, len, _)| (*start..start + len).contains(&at));
            let expected: Vec<u16> = found.map(|(.., owner)| *owner).into_iter().collect();
            let ranges = runs.iter().map(|&(start, len, owner)| (start..start + len, vec![owner]));
            let map = told(80, ranges);
            prop_assert_eq!(map.owners(at), &expected[..]);
            let end = map.run_end(at..120);
            prop_assert!(end > at);
            for byte in at..end.min(80) {
                prop_assert_eq!(map.owners(byte), map.owners(at));
            }
            prop_assert!(end == 120 || map.owners(end) != map.owners(at));
        }
    }
}

//! Which target port groups lead to the owner of each page of a disk.

use std::ops::Range;

/// Runs that a map holds at most: 16 TiB of pages of 16 MiB that change owners page by page. What
/// lies behind them has no known owner, and goes any path.
pub const RUNS_MAX: usize = 1 << 20;

/// Bytes from `start` to the next run that have the same owners.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Run {
    start: u64,
    /// Index in `sets`; set 0 is empty.
    owners: u32,
}

/// The page map of a disk: from each byte to the target port groups through which its owner is
/// reached directly. Pages that lie side by side and have the same owners are one run.
///
/// Invariant: `runs` is in the order of its starts, and no two neighbours have the same owners.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PageMap {
    runs: Vec<Run>,
    sets: Vec<Vec<u16>>,
}

impl Default for PageMap {
    /// No page has a known owner.
    fn default() -> Self {
        Self { runs: Vec::new(), sets: vec![Vec::new()] }
    }
}

impl PageMap {
    /// The map of `pages`: bytes of the disk, and the groups that lead to their owner. Of pages that
    /// overlap, the one that begins first counts.
    #[must_use]
    pub fn new(mut pages: Vec<(Range<u64>, Vec<u16>)>) -> Self {
        pages.sort_by_key(|(bytes, _)| bytes.start);
        let mut map = Self::default();
        let mut end = 0;
        for (bytes, groups) in pages {
            let start = bytes.start.max(end);
            if start >= bytes.end || map.runs.len() + 2 > RUNS_MAX {
                continue;
            }
            if start > end {
                map.push(end, &[]);
            }
            map.push(start, &groups);
            end = bytes.end;
        }
        map.push(end, &[]);
        debug_assert!(map.runs.windows(2).all(|it| it[0].start < it[1].start), "runs are in order");
        map
    }

    /// Takes over what is told of some pages; the others stay as they are.
    pub fn learn(&mut self, pages: Vec<(Range<u64>, Vec<u16>)>) {
        let told = Self::new(pages);
        // Where the owners may change: at the start of a run of either map.
        let of_both = self.runs.iter().chain(&told.runs);
        let mut starts: Vec<u64> = of_both.map(|run| run.start).collect();
        starts.sort_unstable();
        starts.dedup();
        let owners =
            |at: u64| if told.owners(at).is_empty() { self.owners(at) } else { told.owners(at) };
        if starts.iter().all(|&at| owners(at) == self.owners(at)) {
            return;
        }
        let mut merged = Self::default();
        for at in starts.into_iter().take(RUNS_MAX) {
            merged.push(at, owners(at));
        }
        *self = merged;
    }

    fn push(&mut self, start: u64, groups: &[u16]) {
        // Few sets: as many as there are members, or pairs of them.
        let known = self.sets.iter().position(|set| set == groups);
        let owners = known.unwrap_or_else(|| {
            self.sets.push(groups.to_vec());
            self.sets.len() - 1
        });
        let owners = u32::try_from(owners).expect("there are no more sets than runs");
        if self.runs.last().map_or(owners != 0, |last| last.owners != owners) {
            self.runs.push(Run { start, owners });
        }
    }

    /// Whether nothing is known of any page.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.runs.is_empty()
    }

    /// The groups that lead to the owner of the byte `at`; empty if it is not known.
    #[must_use]
    pub fn owners(&self, at: u64) -> &[u16] {
        let next = self.runs.partition_point(|run| run.start <= at);
        let run = next.checked_sub(1).map(|n| self.runs[n].owners);
        &self.sets[run.unwrap_or(0) as usize]
    }

    /// Where the run of the byte `at` ends: what spans that is cut there.
    #[must_use]
    pub fn run_end(&self, at: u64) -> u64 {
        let next = self.runs.partition_point(|run| run.start <= at);
        self.runs.get(next).map_or(u64::MAX, |run| run.start)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const PAGE: u64 = 16 << 20;

    fn pages(owners: &[u16]) -> PageMap {
        let page =
            |(n, &owner): (usize, &u16)| (n as u64 * PAGE..(n as u64 + 1) * PAGE, vec![owner]);
        PageMap::new(owners.iter().enumerate().map(page).collect())
    }

    #[test]
    fn every_byte_has_the_owner_of_its_page() {
        let map = pages(&[1, 1, 2]);
        assert_eq!(map.owners(0), [1]);
        assert_eq!(map.owners(2 * PAGE - 1), [1]);
        assert_eq!(map.owners(2 * PAGE), [2]);
        assert_eq!(map.owners(3 * PAGE), [0; 0], "behind the last page");
        assert_eq!(map.run_end(0), 2 * PAGE, "pages of one owner are one run");
        assert_eq!(map.run_end(2 * PAGE), 3 * PAGE);
        assert_eq!(map.run_end(3 * PAGE), u64::MAX);
    }

    #[test]
    fn what_is_not_told_has_no_owner() {
        let map = PageMap::default();
        assert!(map.is_empty());
        assert_eq!((map.owners(7), map.run_end(7)), (&[][..], u64::MAX));
        let map = PageMap::new(vec![(10..20, vec![3]), (30..40, vec![3])]);
        assert_eq!((map.owners(9), map.run_end(9)), (&[][..], 10));
        assert_eq!((map.owners(25), map.run_end(25)), (&[][..], 30));
    }

    #[test]
    fn what_is_told_of_some_pages_leaves_the_others() {
        let mut map = pages(&[1, 1, 2]);
        map.learn(vec![(PAGE..2 * PAGE, vec![3])]);
        assert_eq!(map, pages(&[1, 3, 2]));
        map.learn(vec![(0..3 * PAGE, vec![2])]);
        assert_eq!(map, pages(&[2, 2, 2]));
        let mut map = PageMap::default();
        map.learn(vec![(PAGE..2 * PAGE, vec![3])]);
        assert_eq!(
            (map.owners(0), map.owners(PAGE), map.owners(2 * PAGE)),
            (&[][..], &[3][..], &[][..])
        );
        map.learn(Vec::new());
        assert_eq!(map.run_end(0), PAGE);
    }

    #[test]
    fn a_map_without_end_is_cut_short() {
        let page = |n: u64| (n..n + 1, vec![(n % 2) as u16]);
        let map = PageMap::new((0..RUNS_MAX as u64 + 10).map(page).collect());
        assert!(map.runs.len() <= RUNS_MAX);
        assert_eq!(map.owners(1000), [0]);
    }

    proptest! {
        #[test]
        fn the_first_page_that_has_a_byte_counts(
            pages in proptest::collection::vec((0_u64..60, 1_u64..20, 0_u16..3), 0..20),
            at in 0_u64..100,
        ) {
            let mut sorted = pages.clone();
            sorted.sort_by_key(|(start, ..)| *start);
            let found = sorted.iter().find(|(start, len, _)| (*start..start + len).contains(&at));
            let expected: Vec<u16> = found.map(|(.., owner)| *owner).into_iter().collect();
            let ranges = pages.iter().map(|&(start, len, owner)| (start..start + len, vec![owner]));
            let map = PageMap::new(ranges.collect());
            // A long page that begins first hides shorter ones, and may hide nothing behind them.
            let covered = |it: &&(u64, u64, u16)| (it.0..it.0 + it.1).contains(&at);
            prop_assert_eq!(map.owners(at).is_empty(), !sorted.iter().any(|it| covered(&it)));
            if sorted.iter().filter(covered).count() == 1 {
                prop_assert_eq!(map.owners(at), &expected[..]);
            }
            let end = map.run_end(at);
            prop_assert!(end > at);
            for byte in at..end.min(100) {
                prop_assert_eq!(map.owners(byte), map.owners(at));
            }
        }
    }
}

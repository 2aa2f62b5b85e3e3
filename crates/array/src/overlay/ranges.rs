//! A set of ranges of cluster numbers.

use std::collections::BTreeMap;
use std::ops::Range;

/// Ranges that neither overlap nor touch, by their start.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Ranges(BTreeMap<u64, u64>);

impl Ranges {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn insert(&mut self, range: Range<u64>) {
        if range.is_empty() {
            return;
        }
        let (mut start, mut end) = (range.start, range.end);
        // All that begin up to the end (touching counts) and do not end before the start.
        while let Some((&at, &until)) = self.0.range(..=end).next_back() {
            if until < start {
                break;
            }
            start = start.min(at);
            end = end.max(until);
            self.0.remove(&at);
        }
        self.0.insert(start, end);
    }

    pub(super) fn contains(&self, value: u64) -> bool {
        self.0.range(..=value).next_back().is_some_and(|(_, &end)| value < end)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = Range<u64>> {
        self.0.iter().map(|(&start, &end)| start..end)
    }
}

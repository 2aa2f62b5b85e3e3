//! Figures for those who watch over an array. They only look.

use std::collections::BTreeMap;

use super::Array;
use crate::Level;
use crate::api::{ArrayFigures, SetFigures};
use crate::raid::SetTimes;

impl Array {
    /// RAID sets by their level, the cache of metadata and that of blocks.
    #[must_use]
    pub fn figures(&self) -> ArrayFigures {
        let mut sets: BTreeMap<Option<String>, SetFigures> = BTreeMap::new();
        for set in self.core.sets.all() {
            let raid = set.level();
            let of_level = sets.entry(raid.map(|raid: Level| raid.to_string()));
            let figures = of_level.or_insert_with(|| {
                let SetTimes { reads, writes } = self.core.raid.times(raid);
                SetFigures { raid, sets: 0, degraded: 0, reads, writes }
            });
            figures.sets += 1;
            figures.degraded += u64::from(self.core.missing_members(&set) > 0);
        }
        let state = self.core.lock();
        let ((cache_bytes, cache_bytes_max), asked) = (state.pages.bytes(), state.pages.asked());
        let (journal_writes, journal_flushes) = self.core.journal.times();
        ArrayFigures {
            journal_writes,
            journal_flushes,
            sets: sets.into_values().collect(),
            cache_bytes,
            cache_bytes_max,
            cache_hits: asked.hits,
            cache_misses: asked.misses,
            block_cache: self.core.cache.figures(),
        }
    }
}

//! Figures for those who watch over an array. They only look.

use std::collections::BTreeMap;

use super::Array;
use crate::Level;
use crate::api::{ArrayFigures, SetFigures};
use crate::raid::Access;

impl Array {
    /// RAID sets by their level, and the cache of metadata.
    #[must_use]
    pub fn figures(&self) -> ArrayFigures {
        let disks = self.core.raid.disks();
        let is_out = |disk| disks.get(disk).is_none_or(|disk| disk.access() != Access::Full);
        let mut sets: BTreeMap<Option<String>, SetFigures> = BTreeMap::new();
        for set in self.core.sets.all() {
            let raid = set.level();
            let of_level = sets.entry(raid.map(|raid: Level| raid.to_string()));
            let figures = of_level.or_insert(SetFigures { raid, sets: 0, degraded: 0 });
            figures.sets += 1;
            figures.degraded += u64::from(set.seats().iter().any(|seat| is_out(seat.disk)));
        }
        let (cache_bytes, cache_bytes_max) = self.core.lock().pages.bytes();
        ArrayFigures { sets: sets.into_values().collect(), cache_bytes, cache_bytes_max }
    }
}

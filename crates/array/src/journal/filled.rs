//! Holders that have been given what was there before they came.

use super::{Journal, Mark};
use crate::DiskId;

impl Journal {
    /// `disk` has all up to `end`.
    pub(super) fn note_filled(&self, disk: DiskId, end: Mark) {
        let filled = &mut self.lock().filled;
        filled.retain(|(other, _)| *other != disk);
        filled.push((disk, end));
    }

    /// Whether some holder was given all up to `end`.
    pub(super) fn was_filled_to(&self, end: Mark) -> bool {
        let state = self.lock();
        let has_all = |(_, to): &&(DiskId, Mark)| to.sequence >= end.sequence;
        let mut full = state.filled.iter().filter(has_all).map(|(disk, _)| *disk);
        full.any(|disk| state.holders.iter().any(|holder| holder.disk == disk))
    }

    /// Holders that were filled, and have all of the journal.
    pub fn filled_holders(&self) -> Vec<DiskId> {
        let state = self.lock();
        let is_holder = |disk: &DiskId| state.holders.iter().any(|holder| holder.disk == *disk);
        state.filled.iter().map(|(disk, _)| *disk).filter(is_holder).collect()
    }
}

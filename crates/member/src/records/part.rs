//! One part of a log: what may push out only its like.

use std::collections::VecDeque;
use std::sync::Arc;

use super::fold::Folds;
use super::{FILE_LINES_MAX, KEPT_MAX, Record, Recorded};

/// The records of one part, with the repeats that are counted in it.
///
/// Invariant: numbers grow, at most [`KEPT_MAX`] records are kept, and those up to `written` are in its files.
#[derive(Debug)]
pub(super) struct Part<T> {
    records: VecDeque<Arc<Record<T>>>,
    written: u64,
    /// How many were pushed out of memory in this start.
    gone: u64,
    pub(super) folds: Folds<T>,
}

impl<T: Recorded> Part<T> {
    /// Begins with what was read of it from any file, in any order; up to the number `written` it is in its own.
    pub(super) fn new(mut read: Vec<Record<T>>, written: u64) -> Self {
        let key = |record: &Record<T>| (record.number, record.unix_seconds);
        read.sort_by_key(key);
        read.dedup_by_key(|record| key(record));
        read.drain(..read.len().saturating_sub(KEPT_MAX));
        let records = read.into_iter().map(Arc::new).collect();
        Self { records, written, gone: 0, folds: Folds::new() }
    }

    /// Takes in one more; the oldest one goes if there are too many.
    pub(super) fn push(&mut self, record: Record<T>) {
        debug_assert!(record.number > self.written && record.what.part() < T::PARTS.len());
        if self.records.len() == KEPT_MAX {
            self.records.pop_front();
            self.gone += 1;
        }
        self.records.push_back(Arc::new(record));
    }

    /// Those behind this number, oldest first.
    pub(super) fn after(&self, number: u64) -> impl Iterator<Item = Arc<Record<T>>> {
        let from = self.records.partition_point(|record| record.number <= number);
        self.records.range(from..).cloned()
    }

    /// How many of this start are up to this number, with those that were pushed out.
    pub(super) fn passed(&self, number: u64) -> u64 {
        self.gone + self.records.partition_point(|record| record.number <= number) as u64
    }

    /// How many there are behind so many, and how many of those were pushed out.
    pub(super) fn behind(&self, passed: u64) -> (u64, u64) {
        let all = self.gone + self.records.len() as u64;
        (all.saturating_sub(passed), self.gone.saturating_sub(passed))
    }

    /// Whether it is so full that some may have been pushed out of its files: then one of them at least is full, of
    /// lines or of long ones.
    pub(super) fn may_have_pushed_out(&self) -> bool {
        self.records.len() >= FILE_LINES_MAX / 4
    }

    /// Those that are not in its files.
    pub(super) fn unwritten(&self) -> Vec<Arc<Record<T>>> {
        self.after(self.written).collect()
    }

    /// The last record of its files but so many: the newest that is lost when those alone are left.
    pub(super) fn last_but(&self, lines: usize) -> Option<&Record<T>> {
        let written = self.records.partition_point(|record| record.number <= self.written);
        let at = written.checked_sub(lines + 1)?;
        self.records.get(at).map(|record| &**record)
    }

    /// Up to which number all are in its files.
    #[cfg(test)]
    pub(super) const fn written(&self) -> u64 {
        self.written
    }

    /// All up to this number are in its files.
    pub(super) fn set_written(&mut self, number: u64) {
        debug_assert!(number >= self.written, "what was written stays so");
        self.written = number;
    }
}

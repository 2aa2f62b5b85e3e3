//! What the unit has answered and may hold in a volatile cache alone.
//!
//! A target that restarts is found again without a word to whoever uses the disk. But what it had
//! answered and not yet made durable is gone, and a flush after that must not say that all is well:
//! the first one fails, as `fsync` does.

use std::cell::{Cell, RefCell};
use std::fmt;

use block::BlockError;

/// Remembers a loss that no user has been told of, beyond the end of this process: whoever takes its
/// users over tells them ([`super::Disk::take_over`]).
pub trait LossNote: fmt::Debug + Send {
    /// Something was lost. Called on the core of the disk, before anything else is sent: it should take
    /// no longer than a few file operations.
    fn lost(&self);

    /// All users know.
    fn told(&self);
}

/// See the module's page. It counts answered writes, not blocks.
#[derive(Debug, Default)]
pub(crate) struct WriteBack {
    /// WCE: the unit may answer before data is durable.
    is_volatile: Cell<bool>,
    written: Cell<u64>,
    /// How many of these are durable, or were told to be lost.
    settled: Cell<u64>,
    losses: Cell<u64>,
    told: Cell<u64>,
    /// The unit has started when those who may be taken over had written already.
    had_started: Cell<bool>,
    note: RefCell<Option<Box<dyn LossNote>>>,
    /// The note says that something was lost.
    is_noted: Cell<bool>,
}

impl WriteBack {
    pub(crate) fn new(is_volatile: bool) -> Self {
        Self { is_volatile: Cell::new(is_volatile), ..Self::default() }
    }

    /// WCE as it is now. What was answered while it was set stays in doubt.
    pub(crate) fn set_volatile(&self, is_volatile: bool) {
        if self.is_dirty() && !is_volatile {
            return;
        }
        self.is_volatile.set(is_volatile);
    }

    /// A write without FUA has its answer.
    pub(crate) fn wrote(&self) {
        self.written.set(self.written.get() + 1);
    }

    /// Whether something would be lost with the cache.
    pub(crate) fn is_dirty(&self) -> bool {
        self.is_volatile.get() && self.settled.get() < self.written.get()
    }

    /// The unit said that it has started when nothing of ours was in its cache: at the attach, or since. Who
    /// writes from then on has lost nothing.
    pub(crate) fn note_start(&self) {
        self.had_started.set(true);
    }

    /// Those who use the disk did so before it was attached here, through a process that is gone: what
    /// they have written may be in the cache alone, or have been lost with it: that process `knew` it, or
    /// the unit says so now.
    pub(crate) fn take_over(&self, knew: bool) -> bool {
        self.wrote();
        let is_loss = knew || self.had_started.get() && self.is_dirty();
        if is_loss {
            self.lost();
        }
        is_loss
    }

    /// Losses are noted from now on.
    pub(crate) fn keep(&self, note: Box<dyn LossNote>) {
        self.note.replace(Some(note));
    }

    /// The cache is lost.
    pub(crate) fn power_lost(&self) -> bool {
        let is_loss = self.is_dirty();
        if is_loss {
            self.lost();
        }
        is_loss
    }

    /// Writes that were answered are lost, as a deferred error tells.
    pub(crate) fn lost(&self) {
        self.losses.set(self.losses.get() + 1);
        self.settled.set(self.written.get());
        if let Some(note) = &*self.note.borrow() {
            note.lost();
            self.is_noted.set(true);
        }
    }

    /// Before a flush is sent: what it will cover.
    pub(crate) fn mark(&self) -> u64 {
        self.written.get()
    }

    /// What the flush that began with `mark` has made durable.
    pub(crate) fn flushed(&self, mark: u64) {
        self.settled.set(self.settled.get().max(mark));
    }

    /// How often something was lost so far.
    pub(crate) fn losses(&self) -> u64 {
        self.losses.get()
    }

    /// Tells each loss once. It is noted until the next flush: that one comes from somebody who has heard
    /// the answer of this one.
    pub(crate) fn tell(&self) -> Result<(), BlockError> {
        let losses = self.losses.get();
        if self.told.replace(losses) < losses {
            return Err(BlockError::LostWrites);
        }
        if self.is_noted.take()
            && let Some(note) = &*self.note.borrow()
        {
            note.told();
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_loss_is_told_once_and_only_if_there_was_one() {
        let cache = WriteBack::new(true);
        assert!(!cache.power_lost(), "nothing was written");
        cache.wrote();
        let mark = cache.mark();
        cache.wrote();
        cache.flushed(mark);
        assert!(cache.is_dirty(), "the second write came after the flush began");
        assert!(cache.power_lost());
        assert!(!cache.power_lost(), "it is gone already");
        assert_eq!(cache.tell(), Err(BlockError::LostWrites));
        assert_eq!(cache.tell(), Ok(()));
        cache.flushed(mark);
        assert!(!cache.is_dirty(), "an old flush undoes nothing");
    }

    #[test]
    fn what_others_have_written_before_is_lost_with_the_cache_too() {
        let cache = WriteBack::new(true);
        assert!(!cache.take_over(false) && cache.is_dirty());
        assert!(cache.power_lost());
        let late = WriteBack::new(true);
        late.note_start();
        assert!(!late.is_dirty(), "nobody has written yet");
        assert!(late.take_over(false));
        assert_eq!(late.tell(), Err(BlockError::LostWrites));
        let without = WriteBack::new(false);
        without.note_start();
        assert!(!without.take_over(false));
    }

    #[test]
    fn a_unit_without_a_cache_loses_none() {
        let cache = WriteBack::new(false);
        cache.wrote();
        assert!(!cache.power_lost());
        cache.lost();
        assert_eq!(
            cache.tell(),
            Err(BlockError::LostWrites),
            "a deferred error counts all the same"
        );
    }

    #[test]
    fn a_cache_that_is_switched_off_may_still_be_lost() {
        let cache = WriteBack::new(true);
        cache.wrote();
        cache.set_volatile(false);
        assert!(cache.power_lost());
        cache.set_volatile(false);
        cache.wrote();
        assert!(!cache.power_lost());
    }
}

//! The time, asked once for each look at those who wait.
//!
//! A look compares many levels of many accounts with it, and nothing of what it is compared with is finer than
//! a second. Where hundreds wait who kept room for nothing, asking the system each time was two
//! thirds of all that a core did.

use std::cell::Cell;
use std::time::Instant;

/// Invariant: while somebody looks the time stands still from when it was first asked; else it is asked
/// each time.
#[derive(Debug, Default)]
pub(super) struct Clock {
    looks: Cell<usize>,
    at: Cell<Option<Instant>>,
    #[cfg(test)]
    asked: Cell<usize>,
    #[cfg(test)]
    levels: Cell<usize>,
}

impl Clock {
    /// Begins to look, until what this returns goes. One look may be part of another.
    #[inline]
    pub(super) fn look(&self) -> Look<'_> {
        self.looks.set(self.looks.get() + 1);
        Look(self)
    }

    pub(super) fn now(&self) -> Instant {
        if let Some(at) = self.at.get() {
            return at;
        }
        #[cfg(test)]
        self.asked.set(self.asked.get() + 1);
        let now = Instant::now();
        if self.looks.get() > 0 {
            self.at.set(Some(now));
        }
        now
    }

    /// Somebody's level is worked out: tests count what a look costs.
    #[inline]
    pub(super) fn count_level(&self) {
        #[cfg(test)]
        self.levels.set(self.levels.get() + 1);
    }

    /// How often the system was asked, and how many levels were worked out, since this was last called.
    #[cfg(test)]
    pub(super) fn take_counts(&self) -> [usize; 2] {
        [self.asked.take(), self.levels.take()]
    }
}

/// A look that goes on.
pub(super) struct Look<'a>(&'a Clock);

impl Drop for Look<'_> {
    fn drop(&mut self) {
        let others = self.0.looks.get() - 1;
        self.0.looks.set(others);
        if others == 0 {
            self.0.at.set(None);
        }
    }
}

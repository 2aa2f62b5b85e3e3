//! Which borders between pages a request is near, and their locks.

use std::sync::Arc;

use super::dealing::Dealing;
use super::under_way::Held;
use crate::locks::{Access, STRIPE_BYTES, StripeGuard, StripeLocks};
use crate::mutants::{self, Mutant};

/// The locks of a volume's borders. Each end of a page counts as one, and border `b` is in front of page `b`.
///
/// An atomic operation over a border reaches no further from it than its greatest length, and whoever is about a byte
/// that near to a border holds its lock: so two that meet over a border have one lock in common.
///
/// **Words.** A border has a word of its own. There are fewer words than borders: a round of the pattern has as many
/// as the next power of two, which the number of all words is a multiple of. So borders that share one are at the same
/// place of the pattern, between the same two slices, and who waits for a slice at one of them waits for it at all.
#[derive(Debug)]
pub(super) struct Borders {
    locks: Arc<StripeLocks>,
    page_shift: u32,
    /// Pages in a round of the pattern.
    round_pages: u64,
    round_words: u64,
    /// The greatest length of an atomic operation; zero where none is over a border.
    reach: u64,
}

/// Borders that follow each other, as the bytes whose stripes are their words.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Near {
    at: u64,
    len: u64,
}

impl Borders {
    pub(super) fn new(dealing: &Dealing, atomic_bytes_max: u32) -> Self {
        let round_pages = dealing.pattern().len() as u64;
        Self {
            locks: Arc::default(),
            page_shift: dealing.page_bytes().trailing_zeros(),
            round_pages,
            round_words: round_pages.next_power_of_two(),
            reach: if dealing.is_uniform() { 0 } else { atomic_bytes_max.into() },
        }
    }

    /// The borders over which an atomic operation may be about some of these bytes.
    #[inline]
    pub(super) fn near(&self, at: u64, len: u64) -> Option<Near> {
        if self.reach == 0 || len == 0 {
            return None;
        }
        let before = at.checked_sub(self.reach);
        let first = before.map_or(0, |before| (before >> self.page_shift) + 1);
        let last = (at + len - 1 + self.reach) >> self.page_shift;
        (first <= last).then(|| self.words(first, last))
    }

    fn words(&self, first: u64, last: u64) -> Near {
        let last = if mutants::is(Mutant::FirstBorder) { first } else { last };
        let (first, last) = (self.word(first), self.word(last));
        debug_assert!(first <= last, "words are in the order of their borders");
        Near { at: first * STRIPE_BYTES, len: (last + 1 - first) * STRIPE_BYTES }
    }

    fn word(&self, border: u64) -> u64 {
        border / self.round_pages * self.round_words + border % self.round_pages
    }

    /// Takes these borders if all are free now.
    #[inline]
    pub(super) fn try_lock(&self, near: Near, access: Access) -> Option<StripeGuard<&StripeLocks>> {
        self.locks.try_lock(near.at, near.len, access)
    }

    /// The same hold, for a future to keep.
    pub(super) fn keep(&self, held: StripeGuard<&StripeLocks>) -> Held {
        held.into_owned(&self.locks)
    }

    /// Waits for these borders.
    pub(super) async fn lock(&self, near: Near, access: Access) -> Held {
        Arc::clone(&self.locks).lock(near.at, near.len, access).await
    }

    /// Whether an atomic operation was ever over one of these borders.
    #[inline]
    pub(super) fn is_marked(&self, near: Near) -> bool {
        self.locks.is_marked(near.at, near.len)
    }
}

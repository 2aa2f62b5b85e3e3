//! Which slice has which page.

use std::iter;

use super::error::SpreadError;

/// The smallest page. An atomic operation, of 1 MiB at most, so never meets more than two of them.
pub(super) const PAGE_BYTES_MIN: u64 = 1 << 20;
/// Enough to deal to 16 slices by their room to a hundredth.
pub(super) const PATTERN_MAX: usize = 1024;

/// How the pages of a volume are dealt to its slices: page `p` lies on slice `pattern[p % pattern.len()]`.
///
/// Invariant: pages are a power of two, and the pattern has 1 to 1024 entries.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Dealing {
    page_shift: u32,
    pattern: Box<[u8]>,
    /// One slice has all pages.
    is_uniform: bool,
}

/// Neighbouring bytes that one slice has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Piece {
    pub(super) slice: usize,
    pub(super) at: u64,
    pub(super) len: u64,
}

impl Piece {
    pub(super) fn end(&self) -> u64 {
        self.at + self.len
    }
}

impl Dealing {
    /// The page that volumes are dealt in.
    pub const PAGE_BYTES: u64 = 16 << 20;

    /// Deals pages of `page_bytes` by `pattern`, over and over.
    ///
    /// # Errors
    /// [`SpreadError::Page`] where a page is no power of two or has less than 1 MiB, [`SpreadError::Pattern`]
    /// where the pattern has no entry, or more than 1024.
    pub fn new(page_bytes: u64, pattern: Vec<u8>) -> Result<Self, SpreadError> {
        if page_bytes < PAGE_BYTES_MIN {
            return Err(SpreadError::Page { page_bytes });
        }
        Self::of_any_pages(page_bytes, pattern)
    }

    /// As [`new`](Self::new), with pages that may be smaller than an atomic operation.
    pub(super) fn of_any_pages(page_bytes: u64, pattern: Vec<u8>) -> Result<Self, SpreadError> {
        if !page_bytes.is_power_of_two() {
            return Err(SpreadError::Page { page_bytes });
        }
        if !(1..=PATTERN_MAX).contains(&pattern.len()) {
            return Err(SpreadError::Pattern { entries: pattern.len() });
        }
        let is_uniform = pattern.iter().all(|slice| *slice == pattern[0]);
        Ok(Self { page_shift: page_bytes.trailing_zeros(), pattern: pattern.into(), is_uniform })
    }

    /// Bytes of a page.
    #[must_use]
    pub fn page_bytes(&self) -> u64 {
        1 << self.page_shift
    }

    /// The slices of the first pages, which repeat.
    #[must_use]
    pub fn pattern(&self) -> &[u8] {
        &self.pattern
    }

    /// Whether there is no border between two slices.
    #[inline]
    pub(super) fn is_uniform(&self) -> bool {
        self.is_uniform
    }

    /// The slice that has the byte `at`.
    #[inline]
    pub(super) fn slice_at(&self, at: u64) -> usize {
        let page = at >> self.page_shift;
        usize::from(self.pattern[(page % self.pattern.len() as u64) as usize])
    }

    /// How far into its page the byte `at` lies.
    #[inline]
    pub(super) fn place_in_page(&self, at: u64) -> u64 {
        at & (self.page_bytes() - 1)
    }

    /// How many of `len` bytes from `at` on follow each other on one slice.
    #[inline]
    pub(super) fn run_bytes(&self, at: u64, len: u64) -> u64 {
        let in_page = self.page_bytes() - self.place_in_page(at);
        if len <= in_page || self.is_uniform {
            return len;
        }
        self.run_over_pages(at, len, in_page)
    }

    /// The same where they leave the page. It ends within the pattern, which has other slices too.
    fn run_over_pages(&self, at: u64, len: u64, in_page: u64) -> u64 {
        let slice = self.slice_at(at);
        let mut run = in_page;
        while run < len && self.slice_at(at + run) == slice {
            run += self.page_bytes();
        }
        run.min(len)
    }

    /// Cuts `len` bytes from `at` on at the borders between slices: pieces that follow each other lie on
    /// different slices.
    pub(super) fn pieces(&self, at: u64, len: u64) -> impl Iterator<Item = Piece> + '_ {
        let end = at + len;
        let mut at = at;
        iter::from_fn(move || {
            if at == end {
                return None;
            }
            let piece = Piece { slice: self.slice_at(at), at, len: self.run_bytes(at, end - at) };
            debug_assert!(piece.len > 0 && piece.end() <= end, "{piece:?} of what ends at {end}");
            at = piece.end();
            Some(piece)
        })
    }
}

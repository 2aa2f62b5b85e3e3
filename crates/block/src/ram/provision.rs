//! Which 4 KiB pages of a RAM disk were written: one bit each.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering, fence};

/// The unit of provisioning, the page of the machine.
pub(super) const PAGE_BYTES: u64 = 4096;
const WORDS_PER_CHUNK: usize = 512;
const PAGES_PER_WORD: u64 = 64;
/// A chunk of the map speaks for 128 MiB and comes into being with the first write there, so a
/// sparse terabyte costs 128 KiB of map.
const PAGES_PER_CHUNK: u64 = WORDS_PER_CHUNK as u64 * PAGES_PER_WORD;
/// Pages that one [`ProvisionMap::run`] looks at: 16 GiB of words that all must be read
/// are 32 KiB of them, some microseconds.
const RUN_PAGES_MAX: u64 = 128 * PAGES_PER_CHUNK;

type Chunk = Box<[AtomicU64]>;

#[derive(Debug)]
pub(super) struct ProvisionMap {
    chunks: Box<[OnceLock<Chunk>]>,
    pages: u64,
}

/// The part of a page range that lies in one word.
struct Piece {
    chunk: usize,
    word: usize,
    mask: u64,
}

fn pieces(first: u64, end: u64) -> impl Iterator<Item = Piece> {
    let mut page = first;
    std::iter::from_fn(move || {
        if page >= end {
            return None;
        }
        let bit = page % PAGES_PER_WORD;
        let count = (PAGES_PER_WORD - bit).min(end - page);
        let piece = Piece {
            chunk: (page / PAGES_PER_CHUNK) as usize,
            word: (page % PAGES_PER_CHUNK / PAGES_PER_WORD) as usize,
            mask: (u64::MAX >> (PAGES_PER_WORD - count)) << bit,
        };
        page += count;
        Some(piece)
    })
}

impl ProvisionMap {
    pub(super) fn new(size_bytes: u64) -> Self {
        let pages = size_bytes.div_ceil(PAGE_BYTES);
        let chunks = pages.div_ceil(PAGES_PER_CHUNK);
        Self { chunks: (0..chunks).map(|_| OnceLock::new()).collect(), pages }
    }

    fn chunk_or_new(&self, index: usize) -> &Chunk {
        self.chunks[index].get_or_init(|| (0..WORDS_PER_CHUNK).map(|_| AtomicU64::new(0)).collect())
    }

    /// Marks the pages of `len` bytes at `at`. Call it *after* the bytes were written, as
    /// [`clear`](Self::clear) comes *before* memory is given back: then a write that survives a
    /// concurrent unmap is always marked, and no page with data ever counts as deallocated.
    #[inline]
    pub(super) fn set(&self, at: u64, len: u64) {
        if len == 0 {
            return;
        }
        // The check of the bit must not pass the store of the bytes.
        fence(Ordering::SeqCst);
        for piece in pieces(at / PAGE_BYTES, (at + len).div_ceil(PAGE_BYTES)) {
            let word = &self.chunk_or_new(piece.chunk)[piece.word];
            if word.load(Ordering::Relaxed) & piece.mask != piece.mask {
                word.fetch_or(piece.mask, Ordering::SeqCst);
            }
        }
    }

    /// Clears pages `first..end`.
    pub(super) fn clear(&self, first: u64, end: u64) {
        for piece in pieces(first, end) {
            if let Some(chunk) = self.chunks[piece.chunk].get() {
                chunk[piece.word].fetch_and(!piece.mask, Ordering::SeqCst);
            }
        }
    }

    /// The state of `page` and how many pages from there on share it (at least one; a long run
    /// may be cut).
    pub(super) fn run(&self, page: u64) -> (bool, u64) {
        assert!(page < self.pages, "the page lies on the device");
        let state = self.word_of(page) >> (page % PAGES_PER_WORD) & 1 == 1;
        let end = self.pages.min(page.saturating_add(RUN_PAGES_MAX));
        let mut next = page;
        while next < end {
            let absent = self.chunks[(next / PAGES_PER_CHUNK) as usize].get().is_none();
            if absent && !state {
                next = (next / PAGES_PER_CHUNK + 1) * PAGES_PER_CHUNK;
                continue;
            }
            // Turn "same state" into zero bits, drop what lies before `next`, look for a one.
            let word = self.word_of(next) ^ if state { u64::MAX } else { 0 };
            let differs = word >> (next % PAGES_PER_WORD);
            if differs != 0 {
                next += u64::from(differs.trailing_zeros());
                break;
            }
            next = (next / PAGES_PER_WORD + 1) * PAGES_PER_WORD;
        }
        // Another core may have flipped the first page since; a run still has a page.
        (state, (next.min(end) - page).max(1))
    }

    fn word_of(&self, page: u64) -> u64 {
        self.chunks[(page / PAGES_PER_CHUNK) as usize].get().map_or(0, |chunk| {
            chunk[(page % PAGES_PER_CHUNK / PAGES_PER_WORD) as usize].load(Ordering::SeqCst)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const GIB: u64 = 1 << 30;

    #[test]
    fn an_untouched_map_is_one_deallocated_run() {
        let map = ProvisionMap::new(GIB);
        assert_eq!(map.run(0), (false, GIB / PAGE_BYTES));
        assert_eq!(map.run(5), (false, GIB / PAGE_BYTES - 5));
    }

    #[test]
    fn runs_end_at_the_end_of_the_device() {
        let map = ProvisionMap::new(3 * PAGE_BYTES + 512);
        map.set(0, 3 * PAGE_BYTES + 512);
        assert_eq!(map.run(0), (true, 4));
        assert_eq!(map.run(3), (true, 1));
    }

    #[test]
    fn runs_cross_words_and_chunks() {
        let map = ProvisionMap::new(GIB);
        let first = PAGES_PER_CHUNK - 3;
        map.set(first * PAGE_BYTES, 200 * PAGE_BYTES);
        assert_eq!(map.run(0), (false, first));
        assert_eq!(map.run(first), (true, 200));
        assert!(!map.run(first + 200).0);
        map.clear(first + 1, first + 2);
        assert_eq!(map.run(first), (true, 1));
        assert_eq!(map.run(first + 1), (false, 1));
    }

    proptest! {
        #[test]
        fn runs_agree_with_a_plain_vector(
            changes in prop::collection::vec((any::<bool>(), 0u64..300, 1u64..150), 1..20)
        ) {
            let pages = 450u64;
            let map = ProvisionMap::new(pages * PAGE_BYTES);
            let mut model = vec![false; pages as usize];
            for (set, first, count) in changes {
                if set {
                    map.set(first * PAGE_BYTES, count * PAGE_BYTES);
                } else {
                    map.clear(first, first + count);
                }
                model[first as usize..(first + count) as usize].fill(set);
            }
            let mut page = 0;
            while page < pages {
                let (state, count) = map.run(page);
                let run = &model[page as usize..(page + count) as usize];
                prop_assert!(run.iter().all(|&mapped| mapped == state));
                let next = model.get((page + count) as usize);
                prop_assert!(next.is_none_or(|&mapped| mapped != state));
                page += count;
            }
        }
    }
}

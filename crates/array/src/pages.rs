//! Metadata pages in memory: a bounded cache of verified pages.

use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::Arc;

use crate::mutants::{self, Mutant};
use crate::tree::{Missing, Page, PageAddr, PageRef, Pages};

/// Page addresses are dense numbers: one multiplication spreads them.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct NumberHasher(u64);

impl Hasher for NumberHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_u64(u64::from(*byte));
        }
    }

    fn write_u64(&mut self, number: u64) {
        let mixed = (self.0 ^ number).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.0 = mixed ^ (mixed >> 32);
    }
}

type ByNumber<V> = HashMap<u64, V, BuildHasherDefault<NumberHasher>>;

#[derive(Debug)]
struct Cached {
    page: Arc<Page>,
    /// Addresses are used again: only this tells which page it is.
    crc: u32,
    /// Was asked for since the clock's hand passed by.
    is_hot: bool,
}

/// The cache. A page enters it when it was read and verified, or when a checkpoint made it.
///
/// Invariant: at most `pages_max` pages, besides those that are not on disk yet.
#[derive(Debug)]
pub(crate) struct PageCache {
    cached: ByNumber<Cached>,
    /// The clock: addresses in the order in which the hand meets them.
    clock: VecDeque<u64>,
    pages_max: usize,
    /// Pages of the running checkpoint: they cannot be read back yet.
    unwritten: ByNumber<(u32, Arc<Page>)>,
    /// Given to whoever has to load a page; a new one with every checkpoint.
    readers: Arc<()>,
    asked: Asked,
}

/// How often pages were asked for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Asked {
    /// They were in memory.
    pub(crate) hits: u64,
    /// They had to be loaded; then they are asked for again, which is a hit.
    pub(crate) misses: u64,
}

impl PageCache {
    pub(crate) fn new(bytes_max: usize) -> Self {
        let pages_max = (bytes_max / size_of::<Page>()).max(16);
        Self {
            cached: HashMap::default(),
            clock: VecDeque::new(),
            pages_max,
            unwritten: HashMap::default(),
            readers: Arc::default(),
            asked: Asked::default(),
        }
    }

    /// How often pages were asked for since the array was opened.
    pub(crate) fn asked(&self) -> Asked {
        self.asked
    }

    /// What is in memory, with what is not on disk yet, and how much it may be without that.
    pub(crate) fn bytes(&self) -> (u64, u64) {
        let bytes = |pages: usize| (pages * size_of::<Page>()) as u64;
        (bytes(self.cached.len() + self.unwritten.len()), bytes(self.pages_max))
    }

    /// Held by those who read, of maps or of what they lead to: what the next checkpoint frees is
    /// not used again before they have ended.
    pub(crate) fn readers(&self) -> &Arc<()> {
        &self.readers
    }

    /// A checkpoint is durable: who reads from here on sees the new trees. Those who read before
    /// hold what this returns.
    pub(crate) fn change_readers(&mut self) -> Arc<()> {
        std::mem::take(&mut self.readers)
    }

    /// Whether another page than this one is known to be at its address.
    pub(crate) fn is_other(&self, page_ref: PageRef) -> bool {
        let key = page_ref.addr.raw();
        let cached = self.cached.get(&key).map(|cached| cached.crc);
        let unwritten = self.unwritten.get(&key).map(|(crc, _)| *crc);
        cached.into_iter().chain(unwritten).any(|crc| crc != page_ref.crc)
    }

    /// Takes in a page that was read and verified.
    pub(crate) fn insert(&mut self, page_ref: PageRef, page: Arc<Page>) {
        let key = page_ref.addr.raw();
        let fresh = Cached { page, crc: page_ref.crc, is_hot: true };
        if self.cached.insert(key, fresh).is_none() {
            self.clock.push_back(key);
        }
        while self.cached.len() > self.pages_max {
            self.evict();
        }
    }

    fn evict(&mut self) {
        let key = self.clock.pop_front().expect("every cached page is on the clock");
        let cached = self.cached.get_mut(&key).expect("the clock names cached pages");
        if std::mem::take(&mut cached.is_hot) {
            self.clock.push_back(key);
        } else {
            self.cached.remove(&key);
        }
    }

    /// Keeps a page of the running checkpoint until it is on disk. What was known of its address
    /// ends.
    pub(crate) fn hold(&mut self, page_ref: PageRef, page: Arc<Page>) {
        let key = page_ref.addr.raw();
        if self.cached.remove(&key).is_some() {
            self.clock.retain(|other| *other != key);
        }
        self.unwritten.insert(page_ref.addr.raw(), (page_ref.crc, page));
    }

    /// The pages of the checkpoint are on disk: they are cached like others now.
    pub(crate) fn release(&mut self) {
        for (addr, (crc, page)) in std::mem::take(&mut self.unwritten) {
            let addr = PageAddr::from_raw(addr).expect("it came from an address");
            self.insert(PageRef { addr, birth: crate::Epoch(0), crc }, page);
        }
    }
}

impl Pages for PageCache {
    fn page(&mut self, page_ref: PageRef) -> Result<Arc<Page>, Missing> {
        let key = page_ref.addr.raw();
        if let Some(cached) = self.cached.get_mut(&key)
            && cached.crc == page_ref.crc
        {
            cached.is_hot = true;
            self.asked.hits += 1;
            return Ok(Arc::clone(&cached.page));
        }
        if let Some((crc, page)) = self.unwritten.get(&key)
            && *crc == page_ref.crc
        {
            self.asked.hits += 1;
            return Ok(Arc::clone(page));
        }
        self.asked.misses += 1;
        let reader = match mutants::is(Mutant::LoneReader) {
            true => Arc::default(),
            false => Arc::clone(&self.readers),
        };
        Err(Missing { page: page_ref, reader })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Epoch, SetId};

    #[test]
    fn who_has_to_load_a_page_keeps_it_at_its_address() {
        let mut cache = PageCache::new(0);
        let addr = PageAddr::new(SetId(1), 7);
        let wanted = PageRef { addr, birth: Epoch(1), crc: 5 };
        let missing = cache.page(wanted).unwrap_err();
        assert_eq!(cache.asked(), Asked { hits: 0, misses: 1 });
        // The checkpoint that frees it.
        let readers = cache.change_readers();
        assert!(Arc::strong_count(&readers) > 1, "somebody reads what it freed");
        assert!(!Arc::ptr_eq(cache.readers(), &readers), "nobody what the next one frees");
        drop(missing);
        assert_eq!(Arc::strong_count(&readers), 1);
    }

    #[test]
    fn another_page_at_the_address_is_known() {
        let mut cache = PageCache::new(0);
        let addr = PageAddr::new(SetId(1), 7);
        let page = |crc| PageRef { addr, birth: Epoch(1), crc };
        assert!(!cache.is_other(page(5)), "nothing is known");
        cache.insert(page(5), Arc::new([0; 4096]));
        assert!(!cache.is_other(page(5)));
        assert!(cache.page(page(5)).is_ok());
        assert_eq!(cache.asked(), Asked { hits: 1, misses: 0 });
        cache.hold(page(6), Arc::new([0; 4096]));
        assert!(cache.is_other(page(5)), "the running checkpoint uses it again");
        cache.release();
        assert!(cache.is_other(page(5)) && !cache.is_other(page(6)));
    }
}

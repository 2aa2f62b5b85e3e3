//! Trees against a plain model of what they must do.

mod model;
mod single;

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use super::{Missing, Page, PageAddr, PageRef, Pages};
use crate::{Epoch, Place, SetId};

/// Metadata pages in memory, which pretends that every page has to be loaded first.
#[derive(Debug, Default)]
struct Store {
    pages: HashMap<PageAddr, Arc<Page>>,
    loaded: HashSet<PageAddr>,
    free: Vec<PageAddr>,
    next: u32,
    /// Pages that were asked for successfully.
    reads: usize,
}

impl Pages for Store {
    fn page(&mut self, r: PageRef) -> Result<Arc<Page>, Missing> {
        if !self.loaded.contains(&r.addr) {
            return Err(Missing { page: r, reader: Arc::default() });
        }
        self.reads += 1;
        Ok(self.pages[&r.addr].clone())
    }
}

impl Store {
    /// Calls again until nothing is missing, from an empty cache.
    fn retry<T>(&mut self, mut call: impl FnMut(&mut Self) -> Result<T, Missing>) -> T {
        self.loaded.clear();
        loop {
            match call(self) {
                Ok(answer) => return answer,
                Err(missing) => self.load(missing.page),
            }
        }
    }

    fn load(&mut self, r: PageRef) {
        let page = self.pages.get(&r.addr).unwrap_or_else(|| panic!("{r:?} was freed"));
        assert!(r.verifies(page), "{r:?} names another page");
        assert!(self.loaded.insert(r.addr), "{r:?} is there already");
    }

    /// Ends a draft, and makes it durable.
    fn commit(&mut self, draft: super::Draft) -> super::Root {
        let writes_max = draft.writes_max();
        let (free, next) = (&mut self.free, &mut self.next);
        let done = draft.commit(&mut || {
            free.pop().unwrap_or_else(|| {
                *next += 1;
                PageAddr::new(SetId(1), *next)
            })
        });
        assert!(done.writes.len() <= writes_max);
        for (r, page) in done.writes {
            assert!(self.pages.insert(r.addr, page).is_none(), "{r:?} was in use");
        }
        self.release(done.freed);
        done.root
    }

    /// Gives pages back, to be used again as soon as possible.
    fn release(&mut self, freed: Vec<PageAddr>) {
        for addr in freed {
            assert!(self.pages.remove(&addr).is_some(), "{addr:?} was freed twice");
            self.free.push(addr);
        }
    }
}

/// Places of clusters.
#[derive(Debug, Default)]
struct Places {
    used: BTreeSet<Place>,
    free: Vec<Place>,
    next: u32,
}

impl Places {
    fn take(&mut self) -> Place {
        let place = self.free.pop().unwrap_or_else(|| {
            self.next += 1;
            Place::new(SetId(2), self.next)
        });
        assert!(self.used.insert(place));
        place
    }

    fn release(&mut self, place: Place) {
        assert!(self.used.remove(&place), "{place:?} was freed twice");
        self.free.push(place);
    }
}

fn entry(place: Place, birth: u32, fill: u32) -> super::leaf::Entry {
    super::leaf::Entry { place, birth: Epoch(birth), crcs: [fill; crate::CLUSTER_BLOCKS] }
}

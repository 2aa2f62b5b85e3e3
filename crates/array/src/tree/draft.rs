//! A tree while a checkpoint changes it.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry as Slot;
use std::sync::Arc;

use super::node::{self, FANOUT_BITS, Span};
use super::{INTERIOR_LEVELS, LEAVES_MAX, Missing, Page, PageAddr, PageRef, Pages, Parent, Root};
use crate::Epoch;

/// A tree being changed.
///
/// Leaves are changed in memory; the pages above them are only gathered, so that
/// [`commit`](Self::commit) needs no more pages, and get their new references there. Until then
/// the tree that the draft began with stands as it was.
#[derive(Debug)]
pub struct Draft {
    root: Root,
    parent: Parent,
    epoch: Epoch,
    leaves: BTreeMap<u32, Leaf>,
    /// Interior pages on the way to the leaves, by height - 1 and index, as they were.
    interiors: [BTreeMap<u32, Interior>; INTERIOR_LEVELS],
}

/// A leaf that may have changed: `page` is `None` when it is to go.
#[derive(Debug)]
struct Leaf {
    old: Option<PageRef>,
    page: Option<Arc<Page>>,
}

#[derive(Debug)]
struct Interior {
    old: Option<PageRef>,
    page: Arc<Page>,
}

/// What a draft came to.
#[derive(Debug, PartialEq, Eq)]
pub struct Committed {
    /// The new tree.
    pub root: Root,
    /// Pages to write before anything refers to the new root; each after those that it names.
    pub writes: Vec<(PageRef, Arc<Page>)>,
    /// Pages that no version needs when the checkpoint that holds the new root is durable.
    pub freed: Vec<PageAddr>,
}

impl Draft {
    /// Begins to change the tree `root` of a version with this parent, at `epoch`.
    ///
    /// # Panics
    /// When the tree is younger than `epoch`, or the parent is not older.
    #[must_use]
    pub fn new(root: Root, parent: impl Into<Parent>, epoch: Epoch) -> Self {
        let parent = parent.into();
        assert!(root.is_none_or(|root| root.birth <= epoch), "a tree is not changed in the past");
        assert!(!parent.shares(epoch, LEAVES_MAX - 1), "the parent's contents are frozen");
        Self { root, parent, epoch, leaves: BTreeMap::new(), interiors: Default::default() }
    }

    /// The epoch at which what is changed now is born.
    #[must_use]
    pub fn epoch(&self) -> Epoch {
        self.epoch
    }

    /// The parent, which tells whether an entry may be changed in its place.
    #[must_use]
    pub fn parent(&self) -> &Parent {
        &self.parent
    }

    /// How many pages the commit will write at most, so that there is room for them.
    #[must_use]
    pub fn writes_max(&self) -> usize {
        let left = self.leaves.values().filter(|leaf| leaf.page.is_some());
        left.count() + self.interiors.iter().map(BTreeMap::len).sum::<usize>()
    }

    /// A leaf as the draft has it.
    ///
    /// # Errors
    /// [`Missing`] when a page has to be loaded first.
    pub fn leaf(&self, pages: &mut dyn Pages, leaf: u32) -> Result<Option<Arc<Page>>, Missing> {
        match self.leaves.get(&leaf) {
            Some(leaf) => Ok(leaf.page.clone()),
            // Interior pages do not change before the commit.
            None => super::lookup(pages, self.root, leaf),
        }
    }

    /// A leaf to be changed; one that did not exist begins with zeroes.
    ///
    /// # Errors
    /// [`Missing`] when a page has to be loaded first; the draft is as before then.
    pub fn leaf_mut(&mut self, pages: &mut dyn Pages, leaf: u32) -> Result<&mut Page, Missing> {
        if !self.leaves.contains_key(&leaf) {
            let old = self.gather(pages, leaf)?;
            let page = old.map(|r| pages.page(r)).transpose()?;
            self.leaves.insert(leaf, Leaf { old, page });
        }
        let page = &mut self.leaves.get_mut(&leaf).expect("just put there").page;
        Ok(Arc::make_mut(page.get_or_insert_with(zeroes)))
    }

    /// Unmaps all of a leaf, without looking at it: what to do about its places is the caller's.
    ///
    /// # Errors
    /// [`Missing`] when a page above it has to be loaded first; the draft is as before then.
    pub fn remove_leaf(&mut self, pages: &mut dyn Pages, leaf: u32) -> Result<(), Missing> {
        if let Some(leaf) = self.leaves.get_mut(&leaf) {
            leaf.page = None;
        } else if let old @ Some(_) = self.gather(pages, leaf)? {
            self.leaves.insert(leaf, Leaf { old, page: None });
        }
        Ok(())
    }

    /// Gathers the interior pages above a leaf; the answer is the leaf's own reference.
    fn gather(&mut self, pages: &mut dyn Pages, leaf: u32) -> Result<Option<PageRef>, Missing> {
        assert!(leaf < LEAVES_MAX, "leaf {leaf} is beyond the tree");
        let mut at = self.root;
        for level in (0..INTERIOR_LEVELS).rev() {
            let index = Span::above(leaf, level + 1).index;
            let interior = match self.interiors[level].entry(index) {
                Slot::Occupied(there) => there.into_mut(),
                Slot::Vacant(free) => {
                    let page = at.map_or_else(|| Ok(zeroes()), |r| pages.page(r))?;
                    free.insert(Interior { old: at, page })
                }
            };
            debug_assert_eq!(interior.old, at, "interior pages stay as they were");
            at = node::get(&interior.page, node::slot(leaf, level));
        }
        Ok(at)
    }

    /// Ends the draft: every changed page, from the leaves up, gets an address from `alloc` and
    /// this epoch as its birth; pages that map nothing go. Without a change the root stays.
    ///
    /// A page that this replaces is freed if it was this version's alone; one that the parent has
    /// as well stays the parent's.
    pub fn commit(self, alloc: &mut dyn FnMut() -> PageAddr) -> Committed {
        let Self { root, parent, epoch, leaves, interiors } = self;
        let mut out = Commit { parent, epoch, alloc, writes: Vec::new(), freed: Vec::new() };
        let mut changed = Vec::new();
        for (index, Leaf { old, page }) in leaves {
            let new = out.replace(Span { height: 0, index }, old, page);
            if new != old {
                changed.push((index, new));
            }
        }
        for (level, mut interiors) in interiors.into_iter().enumerate() {
            let height = level + 1;
            let mut above = Vec::new();
            for below in changed.chunk_by(|(a, _), (b, _)| a >> FANOUT_BITS == b >> FANOUT_BITS) {
                let index = below[0].0 >> FANOUT_BITS;
                let Interior { old, mut page } =
                    interiors.remove(&index).expect("leaves were reached through it");
                let refs = Arc::make_mut(&mut page);
                for (child, r) in below {
                    node::set(refs, node::slot(*child, 0), *r);
                }
                let new = out.replace(Span { height, index }, old, Some(page));
                above.push((index, new));
            }
            changed = above;
        }
        let root = changed.first().map_or(root, |(_, new)| *new);
        Committed { root, writes: out.writes, freed: out.freed }
    }
}

/// The outcome of a commit, as it grows.
struct Commit<'a> {
    parent: Parent,
    epoch: Epoch,
    alloc: &'a mut dyn FnMut() -> PageAddr,
    writes: Vec<(PageRef, Arc<Page>)>,
    freed: Vec<PageAddr>,
}

impl Commit<'_> {
    /// Puts `page` in the place of `old`; the answer is what refers to it now.
    fn replace(
        &mut self,
        span: Span,
        old: Option<PageRef>,
        page: Option<Arc<Page>>,
    ) -> Option<PageRef> {
        if let Some(old) = old {
            assert!(old.birth <= self.epoch, "nothing is born after its tree");
            if !self.parent.shares(old.birth, span.last()) {
                self.freed.push(old.addr);
            }
        }
        let page = page.filter(|page| page.iter().any(|byte| *byte != 0))?;
        let addr = (self.alloc)();
        let r = PageRef { addr, birth: self.epoch, crc: addr.checksum(&page) };
        assert!(old.is_none_or(|old| old.addr != r.addr), "a page is never changed where it lies");
        self.writes.push((r, page));
        Some(r)
    }
}

fn zeroes() -> Arc<Page> {
    Arc::new([0; crate::BLOCK_BYTES])
}

//! The map of a volume or snapshot: a copy-on-write tree of 4 KiB pages.
//!
//! ```text
//! root ─ 256 refs ─ 256 refs ─ 256 refs ─ leaf: 51 clusters, each with its place and 16 checksums
//! ```
//!
//! A page is never changed where it lies: a checkpoint writes what changed to new addresses, up to
//! a new root. So the trees of a volume and of its snapshots share every page that is the same in
//! both, and each reference carries the checksum of the page it names: who trusts the root can
//! verify everything below.
//!
//! Invariant: below a reference born at epoch `e` nothing is born later than `e`. That is why one
//! look at a reference tells whether a whole subtree belongs to an older version ([`Parent`]).
//!
//! Everything here is computation: pages come from [`Pages`], and one that is not in memory is
//! reported as [`Missing`], for the caller to load it and call again.

mod draft;
pub mod leaf;
mod node;
#[cfg(test)]
mod tests;
mod walk;

use std::sync::Arc;

use crate::Epoch;

pub use draft::{Committed, Draft};
pub use node::{PageAddr, PageRef};
pub use walk::{Changed, Mapped, Owned, Seen, diff, exclusive, mapped, visit};

/// A page of metadata.
pub type Page = [u8; crate::BLOCK_BYTES];

/// A tree; `None` maps nothing.
pub type Root = Option<PageRef>;

/// Leaves that a tree may have: with 51 clusters of 64 KiB each, room for 51 TiB.
pub const LEAVES_MAX: u32 = 1 << (node::FANOUT_BITS * INTERIOR_LEVELS as u32);

/// Levels of references above the leaves.
const INTERIOR_LEVELS: usize = 3;

/// This page is needed, and not in memory.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("metadata page {:#x} is not in memory", .page.addr.raw())]
pub struct Missing {
    /// What names it.
    pub page: PageRef,
    /// As long as this is held nothing else is written to its address, if the tree that it is of
    /// was current when it was asked for.
    pub reader: Arc<()>,
}

/// Where pages come from: a cache, which has verified them against the checksum of the reference.
pub trait Pages {
    /// The page behind `r`.
    ///
    /// # Errors
    /// [`Missing`] when it has to be loaded first.
    fn page(&mut self, r: PageRef) -> Result<Arc<Page>, Missing>;
}

/// The version that another was made from, as far as their sharing goes: whatever of the younger
/// one was born at or before the parent's epoch is the parent's as well.
///
/// A parent being deleted is walked from the first leaf to the last ([`exclusive`]). What the walk
/// has passed belongs to the child alone, as far as the grandparent does not have it; so while the
/// deletion lasts, the boundary lies lower there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Parent {
    epoch: Option<Epoch>,
    deleted_below: u32,
    epoch_below: Option<Epoch>,
}

impl Parent {
    /// A parent frozen at `epoch`; `None` for a version without a parent.
    #[must_use]
    pub const fn new(epoch: Option<Epoch>) -> Self {
        Self { epoch, deleted_below: 0, epoch_below: None }
    }

    /// The same while it is being deleted: the walk has come to leaf `below` (its `next_leaf`), and
    /// `grandparent` is what the version's parent will be afterwards.
    ///
    /// The cursor and the root of the child that the walk compared with belong to the same moment:
    /// a draft of the child that starts from that root uses the cursor after the step.
    ///
    /// # Panics
    /// When there is no parent, or the grandparent is not older.
    #[must_use]
    pub fn deleted_below(self, below: u32, grandparent: Option<Epoch>) -> Self {
        assert!(self.epoch.is_some() && grandparent < self.epoch, "a parent is older");
        Self { deleted_below: below, epoch_below: grandparent, ..self }
    }

    /// Whether what was born at `birth` and lies in leaf `leaf` is the parent's as well.
    #[must_use]
    pub fn shares(&self, birth: Epoch, leaf: u32) -> bool {
        // A page that covers several leaves was decided with the last of them: see `Span::last`.
        let epoch = if leaf < self.deleted_below { self.epoch_below } else { self.epoch };
        epoch.is_some_and(|epoch| birth <= epoch)
    }
}

impl From<Option<Epoch>> for Parent {
    fn from(epoch: Option<Epoch>) -> Self {
        Self::new(epoch)
    }
}

/// The leaf with this number, if the tree has it.
///
/// # Errors
/// [`Missing`] for the first page on the way that is not in memory.
///
/// # Panics
/// When there can be no such leaf.
pub fn lookup(pages: &mut dyn Pages, root: Root, leaf: u32) -> Result<Option<Arc<Page>>, Missing> {
    assert!(leaf < LEAVES_MAX, "leaf {leaf} is beyond the tree");
    let mut at = root;
    for level in (0..INTERIOR_LEVELS).rev() {
        let Some(r) = at else { return Ok(None) };
        at = node::get(&*pages.page(r)?, node::slot(leaf, level));
    }
    at.map(|r| pages.page(r)).transpose()
}

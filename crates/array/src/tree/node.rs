//! Interior pages: 256 references of 16 bytes.
//!
//! ```text
//! 0        8         12        16
//! | address | birth    | checksum |     all zero: nothing there; little-endian
//! ```

use std::num::NonZeroU64;

use serde::{Deserialize, Serialize};

use super::{INTERIOR_LEVELS, LEAVES_MAX, Page};
use crate::{CLUSTER_BLOCKS, Epoch, SetId, block_checksum};

/// References of a page, as a power of two.
pub(super) const FANOUT_BITS: u32 = 8;
/// References of a page.
pub(super) const FANOUT: usize = 1 << FANOUT_BITS;
const REF_BYTES: usize = 16;

/// Where a metadata page lies: a page of a metadata set.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct PageAddr(NonZeroU64);

impl PageAddr {
    /// Page `index` of `set`.
    ///
    /// # Panics
    /// When `set` is 0.
    #[must_use]
    pub fn new(set: SetId, index: u32) -> Self {
        assert!(set.0 != 0, "sets count from 1");
        let raw = u64::from(set.0) << 32 | u64::from(index);
        Self(NonZeroU64::new(raw).expect("the set is not 0"))
    }

    /// From its 8 bytes on disk; `None` for 0 and for set 0.
    #[must_use]
    pub fn from_raw(raw: u64) -> Option<Self> {
        if raw >> 32 == 0 { None } else { NonZeroU64::new(raw).map(Self) }
    }

    /// As it stands on disk.
    #[must_use]
    pub fn raw(self) -> u64 {
        self.0.get()
    }

    /// The metadata set.
    #[must_use]
    pub fn set(self) -> SetId {
        SetId((self.raw() >> 32) as u32)
    }

    /// The page in the set.
    #[must_use]
    pub fn index(self) -> u32 {
        self.raw() as u32
    }

    /// The slot of the set that it is a block of, and which one.
    #[must_use]
    pub fn slot(self) -> (u32, usize) {
        let blocks = CLUSTER_BLOCKS as u32;
        (self.index() / blocks, (self.index() % blocks) as usize)
    }

    /// The checksum of a page here.
    #[must_use]
    pub fn checksum(self, page: &Page) -> u32 {
        let (slot, block) = self.slot();
        block_checksum(self.set(), slot, block, page)
    }
}

/// Names a page, and tells what it must contain.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct PageRef {
    /// Where it lies.
    pub addr: PageAddr,
    /// The epoch of the checkpoint that wrote it.
    pub birth: Epoch,
    /// [Checksum](PageAddr::checksum) of its 4 KiB.
    pub crc: u32,
}

impl PageRef {
    /// Whether `page` is what this reference names.
    #[must_use]
    pub fn verifies(&self, page: &Page) -> bool {
        self.addr.checksum(page) == self.crc
    }
}

/// Reference `slot` of an interior page.
pub(super) fn get(page: &Page, slot: usize) -> Option<PageRef> {
    assert!(slot < FANOUT, "a page has {FANOUT} references");
    let at = &page[slot * REF_BYTES..][..REF_BYTES];
    let u32_at = |n: usize| u32::from_le_bytes(at[n..n + 4].try_into().expect("4 bytes"));
    let raw = u64::from_le_bytes(at[..8].try_into().expect("8 bytes"));
    Some(PageRef { addr: PageAddr::from_raw(raw)?, birth: Epoch(u32_at(8)), crc: u32_at(12) })
}

/// Changes reference `slot` of an interior page.
pub(super) fn set(page: &mut Page, slot: usize, r: Option<PageRef>) {
    assert!(slot < FANOUT, "a page has {FANOUT} references");
    let at = &mut page[slot * REF_BYTES..][..REF_BYTES];
    at.fill(0);
    if let Some(r) = r {
        at[..8].copy_from_slice(&r.addr.raw().to_le_bytes());
        at[8..12].copy_from_slice(&r.birth.0.to_le_bytes());
        at[12..].copy_from_slice(&r.crc.to_le_bytes());
    }
}

/// Which reference of the page at interior level `level` (0 is next to the leaves) leads to `leaf`.
pub(super) fn slot(leaf: u32, level: usize) -> usize {
    (leaf >> (FANOUT_BITS * level as u32)) as usize % FANOUT
}

/// A position in the tree: everything below one reference.
///
/// `height` is 0 for a leaf and 3 for the root; `index` counts the positions of that height.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Span {
    pub(super) height: usize,
    pub(super) index: u32,
}

impl Span {
    /// The whole tree.
    pub(super) const ALL: Self = Self { height: INTERIOR_LEVELS, index: 0 };

    /// The position of this height above `leaf`.
    pub(super) fn above(leaf: u32, height: usize) -> Self {
        debug_assert!(leaf < LEAVES_MAX && height <= INTERIOR_LEVELS, "inside the tree");
        Self { height, index: leaf >> (FANOUT_BITS * height as u32) }
    }

    /// What lies behind reference `slot` of the interior page at this position.
    pub(super) fn child(self, slot: usize) -> Self {
        debug_assert!(self.height > 0 && slot < FANOUT, "a leaf has no references");
        Self { height: self.height - 1, index: self.index << FANOUT_BITS | slot as u32 }
    }

    /// First leaf below.
    pub(super) fn first(self) -> u32 {
        self.index << (FANOUT_BITS * self.height as u32)
    }

    /// Last leaf below. A page is settled together with it: an interior page is needed as long as
    /// a walk has not left it.
    pub(super) fn last(self) -> u32 {
        self.first() + ((1 << (FANOUT_BITS * self.height as u32)) - 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn references_keep_what_they_are_given() {
        let mut page = [0; 4096];
        let r = PageRef { addr: PageAddr::new(SetId(3), 77), birth: Epoch(5), crc: 0xdead_beef };
        set(&mut page, 255, Some(r));
        assert_eq!(get(&page, 255), Some(r));
        assert_eq!(get(&page, 254), None);
        assert_eq!(page[4080..], [77, 0, 0, 0, 3, 0, 0, 0, 5, 0, 0, 0, 0xef, 0xbe, 0xad, 0xde]);
        set(&mut page, 255, None);
        assert_eq!(page, [0; 4096]);
    }

    #[test]
    fn spans_cover_their_children() {
        assert_eq!((Span::ALL.first(), Span::ALL.last()), (0, LEAVES_MAX - 1));
        let leaf = 0x0012_3456;
        assert_eq!(
            [slot(leaf, 2), slot(leaf, 1), slot(leaf, 0)],
            [0x12, 0x34, 0x56],
            "one byte per level"
        );
        let low = Span::ALL.child(0x12).child(0x34);
        assert_eq!((low.first(), low.last()), (0x0012_3400, 0x0012_34ff));
        assert_eq!(low, Span::above(leaf, 1));
        assert_eq!(low.child(0x56), Span::above(leaf, 0));
    }

    #[test]
    fn an_address_is_its_set_and_page() {
        let addr = PageAddr::new(SetId(2), 65535);
        assert_eq!((addr.set(), addr.index()), (SetId(2), 65535));
        assert_eq!(PageAddr::from_raw(addr.raw()), Some(addr));
        assert_eq!(PageAddr::from_raw(65535), None);
    }
}

//! Leaf pages: 51 clusters of a volume, each with where it lies and what it must contain.
//!
//! ```text
//! 0       8       12      16                          80
//! | place | birth | flags | checksums of 16 blocks    |    place 0: not mapped, reads as zeroes
//! ```
//! The last 16 bytes of the page are zero, and so are the flags.

use super::Page;
use crate::{CLUSTER_BLOCKS, Epoch, Place};

/// Clusters of a leaf.
pub const ENTRIES: usize = 51;

const ENTRY_BYTES: usize = 16 + 4 * CLUSTER_BLOCKS;
const CRCS_AT: usize = 16;
const _: () = assert!(ENTRIES * ENTRY_BYTES <= crate::BLOCK_BYTES);

/// A mapped cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Entry {
    /// Where it lies.
    pub place: Place,
    /// The epoch in which that place became the cluster's.
    pub birth: Epoch,
    /// Checksum of each of its blocks.
    pub crcs: [u32; CLUSTER_BLOCKS],
}

/// The leaf and the entry in it that map this cluster of a volume.
///
/// # Panics
/// When no tree reaches so far.
#[must_use]
pub fn position(cluster: u64) -> (u32, usize) {
    let leaf = cluster / ENTRIES as u64;
    assert!(leaf < u64::from(super::LEAVES_MAX), "cluster {cluster} is beyond the tree");
    (leaf as u32, (cluster % ENTRIES as u64) as usize)
}

/// The cluster that entry `i` of a leaf maps.
#[must_use]
pub fn cluster(leaf: u32, i: usize) -> u64 {
    assert!(i < ENTRIES, "a leaf has {ENTRIES} entries");
    u64::from(leaf) * ENTRIES as u64 + i as u64
}

/// Entry `i`; `None` where nothing is mapped.
#[must_use]
pub fn get(page: &Page, i: usize) -> Option<Entry> {
    let at = bytes(page, i);
    let place = place(page, i)?;
    let u32_at = |n: usize| u32::from_le_bytes(at[n..n + 4].try_into().expect("4 bytes"));
    let crcs = std::array::from_fn(|block| u32_at(CRCS_AT + 4 * block));
    Some(Entry { place, birth: Epoch(u32_at(8)), crcs })
}

/// Where the cluster of entry `i` lies; the short form of [`get`].
#[must_use]
pub fn place(page: &Page, i: usize) -> Option<Place> {
    let raw = bytes(page, i)[..8].try_into().expect("8 bytes");
    Place::from_raw(u64::from_le_bytes(raw))
}

/// Changes entry `i`.
pub fn set(page: &mut Page, i: usize, entry: Option<&Entry>) {
    assert!(i < ENTRIES, "a leaf has {ENTRIES} entries");
    let at = &mut page[i * ENTRY_BYTES..][..ENTRY_BYTES];
    at.fill(0);
    let Some(entry) = entry else { return };
    at[..8].copy_from_slice(&entry.place.raw().to_le_bytes());
    at[8..12].copy_from_slice(&entry.birth.0.to_le_bytes());
    for (bytes, crc) in at[CRCS_AT..].chunks_exact_mut(4).zip(entry.crcs) {
        bytes.copy_from_slice(&crc.to_le_bytes());
    }
}

/// The mapped entries, in order.
pub fn entries(page: &Page) -> impl Iterator<Item = (usize, Entry)> {
    (0..ENTRIES).filter_map(|i| Some((i, get(page, i)?)))
}

/// The 80 bytes of entry `i`.
fn bytes(page: &Page, i: usize) -> &[u8] {
    assert!(i < ENTRIES, "a leaf has {ENTRIES} entries");
    &page[i * ENTRY_BYTES..][..ENTRY_BYTES]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::SetId;

    #[test]
    fn entries_keep_what_they_are_given() {
        let mut page = [0; 4096];
        let crcs = std::array::from_fn(|block| 0x0101_0101 * block as u32);
        let entry = Entry { place: Place::new(SetId(9), 0x1234), birth: Epoch(6), crcs };
        set(&mut page, 0, Some(&entry));
        set(&mut page, 50, Some(&entry));
        assert_eq!(get(&page, 0), Some(entry));
        assert_eq!(entries(&page).collect::<Vec<_>>(), [(0, entry), (50, entry)]);
        assert_eq!(page[4000..4016], [0x34, 0x12, 0, 0, 9, 0, 0, 0, 6, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(page[4020..4024], [1, 1, 1, 1]);
        set(&mut page, 50, None);
        set(&mut page, 0, None);
        assert_eq!(page, [0; 4096], "nothing is left of an entry");
    }

    #[test]
    fn clusters_fill_leaf_after_leaf() {
        assert_eq!(position(0), (0, 0));
        assert_eq!(position(50), (0, 50));
        assert_eq!(position(51), (1, 0));
        for at in [0, 50, 51, 1_000_000] {
            let (leaf, i) = position(at);
            assert_eq!(cluster(leaf, i), at);
        }
    }

    #[test]
    #[should_panic(expected = "beyond the tree")]
    fn a_cluster_beyond_the_tree_is_a_mistake() {
        let _ = position(51 << 24);
    }
}

//! Where the strips of a set lie: arithmetic only.
//!
//! A stripe is one row of 64 KiB strips, one per member. With parity the strips are numbered data
//! columns first, then P, then Q, and move by one member from stripe to stripe (left-symmetric, here
//! for four members and one parity):
//!
//! ```text
//!            member 0  1  2  3
//! stripe 0        0    1  2  P
//! stripe 1        1    2  P  0
//! stripe 2        2    P  0  1
//! stripe 3        P    0  1  2
//! ```
//!
//! Slots that follow each other then lie on members that follow each other, so that long reads use
//! all of them in turn. Without parity every member holds the only column: one copy or several.

use crate::{BLOCK_BYTES, CLUSTER_BYTES, Level};

/// Most data columns of a stripe.
pub const COLUMNS_MAX: usize = 8;
/// Most members of a set.
pub const MEMBERS_MAX: usize = COLUMNS_MAX + 2;
/// Most copies of a metadata set.
const COPIES_MAX: usize = 4;

/// How a set is built.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shape {
    members: usize,
    columns: usize,
    parity: usize,
}

impl Shape {
    /// The shape of a set of this level (`None`: metadata, mirrored), if it can have so many members.
    #[must_use]
    pub fn of(level: Option<Level>, members: usize) -> Option<Self> {
        let parity = level.map_or(0, Level::parity);
        let columns = if parity == 0 { 1 } else { members.checked_sub(parity)? };
        let fits = match level {
            None => (1..=COPIES_MAX).contains(&members),
            Some(Level::Raid0) => members == 1,
            Some(Level::Raid1 | Level::Raid10) => members == 2,
            Some(Level::Raid5 | Level::Raid50 | Level::Raid6) => {
                (2..=COLUMNS_MAX).contains(&columns)
            }
        };
        fits.then_some(Self { members, columns, parity })
    }

    /// The same with so many copies; of sets with parity it never changes.
    #[must_use]
    pub fn with_members(self, members: usize) -> Self {
        assert!(members == self.members || self.parity == 0, "only copies are added");
        Self { members, ..self }
    }

    /// How many members.
    #[must_use]
    pub fn members(self) -> usize {
        self.members
    }

    /// Data columns of a stripe.
    #[must_use]
    pub fn columns(self) -> usize {
        self.columns
    }

    /// Parity strips of a stripe.
    #[must_use]
    pub fn parity(self) -> usize {
        self.parity
    }

    /// Strips of different content: data columns and parity.
    #[must_use]
    pub fn strips(self) -> usize {
        self.columns + self.parity
    }

    /// The stripe and column of a slot.
    #[must_use]
    pub fn locate(self, slot: u32) -> (u32, usize) {
        let columns = self.columns as u32;
        (slot / columns, (slot % columns) as usize)
    }

    /// The slot of a column of a stripe.
    #[must_use]
    pub fn slot(self, stripe: u32, column: usize) -> u32 {
        assert!(column < self.columns, "a slot is a data strip");
        stripe * self.columns as u32 + column as u32
    }

    /// Whether `member` holds `strip` of `stripe`.
    #[must_use]
    pub fn holds(self, stripe: u32, member: usize, strip: usize) -> bool {
        self.strip_of(stripe, member) == strip
    }

    /// The strip of `stripe` that `member` holds.
    #[must_use]
    pub fn strip_of(self, stripe: u32, member: usize) -> usize {
        assert!(member < self.members, "the set has such a member");
        if self.parity == 0 {
            return 0;
        }
        let first = self.members - 1 - stripe as usize % self.members;
        let behind = (member + self.members - first) % self.members;
        if behind < self.parity { self.columns + behind } else { behind - self.parity }
    }
}

/// Where chunks lie on a disk: the same on every disk of an array.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Layout {
    /// First byte of chunk 0.
    pub data_start: u64,
    /// A multiple of 64 KiB.
    pub chunk_bytes: u64,
}

impl Layout {
    /// Stripes of every set.
    #[must_use]
    pub fn stripes(self) -> u32 {
        (self.chunk_bytes / CLUSTER_BYTES as u64) as u32
    }

    /// The byte of the disk where block `block` of a chunk's strip in `stripe` begins.
    #[must_use]
    pub fn at(self, chunk: u32, stripe: u32, block: usize) -> u64 {
        assert!(stripe < self.stripes(), "the stripe lies in its chunk");
        let in_chunk = u64::from(stripe) * CLUSTER_BYTES as u64 + (block * BLOCK_BYTES) as u64;
        self.data_start + u64::from(chunk) * self.chunk_bytes + in_chunk
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn shapes() -> impl Strategy<Value = Shape> {
        let level = prop::sample::select(Level::ALL.map(Some).to_vec());
        (prop_oneof![level, Just(None)], 1usize..=MEMBERS_MAX)
            .prop_filter_map("no such set", |(level, members)| Shape::of(level, members))
    }

    proptest! {
        #[test]
        fn every_strip_of_a_stripe_has_its_own_member(shape in shapes(), stripe in 0u32..100) {
            let mut strips: Vec<_> = (0..shape.members()).map(|m| shape.strip_of(stripe, m)).collect();
            strips.sort_unstable();
            if shape.parity() == 0 {
                prop_assert!(strips.iter().all(|strip| *strip == 0));
            } else {
                prop_assert_eq!(strips, (0..shape.strips()).collect::<Vec<_>>());
            }
        }

        #[test]
        fn slots_and_columns_are_the_same_thing(shape in shapes(), slot in 0u32..1 << 20) {
            let (stripe, column) = shape.locate(slot);
            prop_assert!(column < shape.columns());
            prop_assert_eq!(shape.slot(stripe, column), slot);
        }

        #[test]
        fn long_runs_of_slots_use_the_members_in_turn(shape in shapes(), slot in 0u32..1000) {
            if shape.parity() == 0 {
                return Ok(());
            }
            let member_of = |slot| {
                let (stripe, column) = shape.locate(slot);
                (0..shape.members()).find(|m| shape.holds(stripe, *m, column)).unwrap()
            };
            let run: std::collections::BTreeSet<_> =
                (slot..slot + shape.members() as u32).map(member_of).collect();
            // With two parities the next stripe begins one member further.
            prop_assert!(run.len() + shape.parity() > shape.members());
        }
    }

    #[test]
    fn the_picture_is_right() {
        let shape = Shape::of(Some(Level::Raid5), 4).unwrap();
        let row = |stripe| [0, 1, 2, 3].map(|member| shape.strip_of(stripe, member));
        assert_eq!(
            [row(0), row(1), row(2), row(3)],
            [[0, 1, 2, 3], [1, 2, 3, 0], [2, 3, 0, 1], [3, 0, 1, 2]]
        );
    }

    #[test]
    fn sets_have_as_many_members_as_their_level_says() {
        assert!(Shape::of(Some(Level::Raid0), 2).is_none());
        assert!(Shape::of(Some(Level::Raid10), 3).is_none());
        assert!(Shape::of(Some(Level::Raid6), 3).is_none());
        assert!(Shape::of(Some(Level::Raid5), 10).is_none());
        assert!(Shape::of(None, 5).is_none());
        assert_eq!(Shape::of(Some(Level::Raid6), 10).unwrap().columns(), 8);
    }

    #[test]
    fn blocks_lie_in_their_chunk() {
        let layout = Layout { data_start: 1 << 20, chunk_bytes: 1 << 19 };
        assert_eq!(layout.stripes(), 8);
        assert_eq!(layout.at(2, 3, 1), (1 << 20) + 2 * (1 << 19) + 3 * 65536 + 4096);
    }
}

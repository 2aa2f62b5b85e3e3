//! The two labels that say what a disk is: of which array, which disk of it, and what that disk
//! last knew about all others.
//!
//! [`read`] and [`write`](fn@write) are the only ones that touch a disk; [`choose`](fn@choose)
//! decides from what was read which array is opened and which disks it can rely on.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::DiskId;

mod choose;
mod disk;
mod foreign;
mod format;
mod layout;
#[cfg(test)]
mod tests;

pub use choose::{Membership, OpenRefusal, Present, choose};
pub use disk::{Found, read, write};
pub use format::{FORMAT_VERSION, LabelError};
pub use layout::{LABEL_BYTES, Layout, LayoutError};

/// An array, drawn at random when it is made.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ArrayId(pub [u8; 16]);

impl fmt::Display for ArrayId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for ArrayId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// How far a member can be relied on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum MemberState {
    /// Holds everything it should.
    Active,
    /// Was away: lacks what changed after this checkpoint.
    Stale {
        /// The last checkpoint that it took part in.
        since_checkpoint: u64,
    },
    /// Failed, or was declared failed: never used again.
    Failed,
    /// Was emptied and left.
    Retired,
}

/// What a member is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum MemberKind {
    /// Its chunks hold data; it can hold the journal too.
    Data,
    /// Holds journal and checkpoints only.
    Journal,
}

/// What a label says of a member.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct MemberRecord {
    /// Its number.
    pub disk: DiskId,
    /// Drawn at random when it joined: tells a disk from another that got its number by mistake.
    pub uuid: [u8; 16],
    /// Its size when it joined.
    pub size_bytes: u64,
    /// How far it can be relied on.
    pub state: MemberState,
    /// What it is for.
    pub kind: MemberKind,
}

impl MemberRecord {
    /// Whether it is there, or may come back.
    #[must_use]
    pub fn is_used(&self) -> bool {
        matches!(self.state, MemberState::Active | MemberState::Stale { .. })
    }
}

/// A label.
///
/// ```text
/// 0      8        12       16     32          40    42  44        48   56  60        64
/// +------+--------+--------+------+-----------+-----+---+---------+----+---+---------+------+---+
/// |magic |version |body len|array |generation |disk |0 0|crc body |at  |0 0|crc head |body  |0 0|
/// +------+--------+--------+------+-----------+-----+---+---------+----+---+---------+------+---+
/// ```
///
/// 1. `crc head` covers bytes 0..60, `crc body` all bytes from 64 to the end, zeroes included: no
///    bit is without cover.
/// 2. `at` is where this copy lies on its disk, so that a copy in the wrong place is no label.
/// 3. The body is [`Layout`], members and holders in postcard form. The disk itself is among the
///    members, no two of which share a number; each holder is an active member.
/// 4. Both copies are written one after the other, each durable before the next step, so that
///    one of them is whole at any time.
/// 5. Of one array, labels differ only in `disk` and `generation`; two labels of the same
///    generation that differ in more were written by parts of an array that did not see each
///    other.
/// 6. Generation 0 marks an array that is being made: its first checkpoint may be missing. The
///    maker writes labels of generation 0, then the checkpoint, then labels of generation 1.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Label {
    /// The array.
    pub array: ArrayId,
    /// Grows with every change of the rest.
    pub generation: u64,
    /// The disk that carries this label.
    pub disk: DiskId,
    /// Where things lie on each disk.
    pub layout: Layout,
    /// All that belong to the array, and those that did.
    pub members: Vec<MemberRecord>,
    /// The members that hold journal and checkpoints.
    pub holders: Vec<DiskId>,
}

impl Label {
    /// The record of `disk`.
    #[must_use]
    pub fn member(&self, disk: DiskId) -> Option<&MemberRecord> {
        self.members.iter().find(|member| member.disk == disk)
    }

    /// The record of the disk that carries this label.
    ///
    /// # Panics
    /// When the label breaks invariant 3; none that was decoded does.
    #[must_use]
    pub fn own(&self) -> &MemberRecord {
        self.member(self.disk).expect("a label's own disk is among its members")
    }

    /// The same label for another member.
    #[must_use]
    pub fn for_disk(&self, disk: DiskId) -> Self {
        assert!(self.member(disk).is_some(), "labels are for members");
        Self { disk, ..self.clone() }
    }

    /// Whether both say the same of the array; they may be of different disks.
    #[must_use]
    pub fn agrees(&self, other: &Self) -> bool {
        *self == Self { disk: self.disk, ..other.clone() }
    }

    /// The members in use that hold the journal and nothing else.
    #[must_use]
    pub fn journal_disks(&self) -> Vec<DiskId> {
        let active = self.members.iter().filter(|record| record.state == MemberState::Active);
        let journal = active.filter(|record| record.kind == MemberKind::Journal);
        journal.map(|record| record.disk).collect()
    }

    /// Sizes of the disks that hold data, or should.
    #[must_use]
    pub fn data_sizes(&self) -> Vec<u64> {
        let used = self.members.iter().filter(|record| record.is_used());
        let data = used.filter(|record| record.kind == MemberKind::Data);
        data.map(|record| record.size_bytes).collect()
    }

    /// The members in use, by number.
    pub fn active(&self) -> impl Iterator<Item = DiskId> {
        let active = self.members.iter().filter(|member| member.state == MemberState::Active);
        active.map(|member| member.disk)
    }
}

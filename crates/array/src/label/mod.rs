//! The two labels that say what a disk is: of which array, which disk of it, and what that disk
//! last knew about all others.
//!
//! [`read`], [`renew`] and [`write`](fn@write) are the only ones that touch a disk. What a label says after
//! something has happened, and which of several labels is believed, is decided in
//! [`membership`](crate::membership).

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::DiskId;
use crate::mutants::{self, Mutant};

mod disk;
mod erase;
mod foreign;
mod format;
mod layout;
#[cfg(test)]
mod tests;

pub use disk::{Found, read, renew, write};
pub use erase::{clear_areas, erase, is_cut_off};
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
    /// Was away: lacks what changed since then.
    Stale(Since),
    /// Failed, or was declared failed: never used again.
    Failed,
    /// Was emptied and left.
    Retired,
}

/// When a disk went out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Since {
    /// The last checkpoint that it took part in.
    pub checkpoint: u64,
    /// Where the journal ended: what its records before that say was written, the disk has.
    pub position: u64,
}

impl Since {
    /// Before the first checkpoint, which has number 1: nothing that the disk has counts.
    pub const NEVER: Self = Self { checkpoint: 0, position: 0 };
}

impl MemberState {
    /// Whether nothing that it has counts, also what it was given since it went out.
    #[must_use]
    pub fn lacks_all(self) -> bool {
        matches!(self, Self::Stale(since) if since.checkpoint == Since::NEVER.checkpoint)
    }
}

/// A change of the label, drawn at random when it is made: tells it from another change of the
/// same generation that was made elsewhere.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct ChangeId(pub u64);

/// Changes that a label remembers. Of a disk that was away for more of them it is told by who stayed in
/// whether it has the same history ([`Label::led_to`]).
pub const ANCESTORS_MAX: usize = 512;

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
    /// Where it was found last: so people know it when it is missing.
    pub name: String,
}

impl MemberRecord {
    /// Whether it is there, or may come back.
    #[must_use]
    pub fn is_used(&self) -> bool {
        matches!(self.state, MemberState::Active | MemberState::Stale(_))
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
/// 3. The body is in postcard form: [`Layout`], this change and those before it, members, holders.
///    The disk itself is among the members, no two of which share a number; each holder of
///    checkpoints or of the journal is an active member.
/// 4. Both copies are written one after the other, each durable before the next step, so that
///    one of them is whole at any time.
/// 5. Each change makes a new label of the next generation, which names the changes before it. So of
///    two labels it can be told whether one came of the other, or both went their own ways.
///    Beside members that are out it names the change that put them out, in postcard form behind the body,
///    after its length in four bytes: programs that do not know it see no more than the body.
/// 6. A label is relied on only when all members that it calls active carry it. A disk that does not
///    take it is out, by one more change, before anything goes on.
/// 7. The array never gives up its last holder: the label keeps the last disk with the journal,
///    and the last with the checkpoints, whatever becomes of them.
/// 8. Generation 0 marks an array that is being made: its first checkpoint may be missing. The
///    maker writes labels of generation 0, then the checkpoint, then labels of generation 1.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Label {
    /// The array.
    pub array: ArrayId,
    /// Grows by one with every change of the rest.
    pub generation: u64,
    /// The change that made this label.
    pub change: ChangeId,
    /// Those before it, the newest first.
    pub ancestors: Vec<ChangeId>,
    /// The disk that carries this label.
    pub disk: DiskId,
    /// Where things lie on each disk.
    pub layout: Layout,
    /// All that belong to the array, and those that did.
    pub members: Vec<MemberRecord>,
    /// The members that hold checkpoints and the redo area.
    pub holders: Vec<DiskId>,
    /// The members that hold the journal: all that was acknowledged is on each of them.
    pub journal: Vec<DiskId>,
    /// Members that are out, and the generation of the label that put each out. Older builds say nothing
    /// of it.
    pub went_out: Vec<(DiskId, u64)>,
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

    /// The generation of the label that put `disk` out, if it is out and that is known.
    #[must_use]
    pub fn went_out_in(&self, disk: DiskId) -> Option<u64> {
        self.went_out.iter().find(|(other, _)| *other == disk).map(|(_, generation)| *generation)
    }

    /// Whether this label itself has put a disk out.
    #[must_use]
    pub fn puts_out(&self) -> bool {
        self.members.iter().any(|it| self.went_out_in(it.disk) == Some(self.generation))
    }

    /// The same label for another member.
    #[must_use]
    pub fn for_disk(&self, disk: DiskId) -> Self {
        assert!(self.member(disk).is_some(), "labels are for members");
        Self { disk, ..self.clone() }
    }

    /// Whether this label is `other`, or `other` came of it.
    #[must_use]
    pub fn led_to(&self, other: &Self) -> bool {
        other.came_of(self.generation, self.change, self)
    }

    /// The changes that this label came of, with their generations, the last one first.
    pub fn lineage(&self) -> impl Iterator<Item = (u64, ChangeId)> {
        (0..self.generation).rev().zip(self.ancestors.iter().copied())
    }

    /// Whether this label is the one of that change, which `theirs` says or came of, or came of it.
    #[must_use]
    pub fn came_of(&self, generation: u64, change: ChangeId, theirs: &Self) -> bool {
        match self.generation.checked_sub(generation) {
            None => false,
            Some(0) => self.change == change,
            Some(ago) => match self.ancestors.get(ago as usize - 1) {
                Some(other) => *other == change,
                None => self.went_on_with(theirs),
            },
        }
    }

    /// Whether this label may have come of one that is older than all that it remembers: somebody who was in
    /// then is in now. Two parts of an array that went on without each other have nobody in common, and
    /// a part that starts again and again makes so many changes in days. A disk that has left may
    /// have been alone with others that left; it is not used.
    fn went_on_with(&self, older: &Self) -> bool {
        let same = |disk: DiskId| {
            let record = self.member(disk)?;
            older.member(disk).is_some_and(|other| other.uuid == record.uuid).then_some(record)
        };
        if !same(older.disk).is_some_and(MemberRecord::is_used) || mutants::is(Mutant::FarHalves) {
            return true;
        }
        let is_in = |record: &MemberRecord| record.state == MemberState::Active;
        older.active().any(|disk| same(disk).is_some_and(is_in))
    }

    /// The member's name for people: where it was found last.
    #[must_use]
    pub fn name_of(&self, disk: DiskId) -> String {
        let name = self.member(disk).map(|record| record.name.clone()).unwrap_or_default();
        if name.is_empty() { format!("disk {}", disk.0) } else { name }
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

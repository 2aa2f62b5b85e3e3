//! Disks that have less than the labels say of them.

use crate::label::{Label, MemberState};
use crate::mutants::{self, Mutant};

/// Why a disk lacks all that it should have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lack {
    /// It was cut short and made as large again: what lay in its tail is zeroes.
    Cut,
    /// It is as it was long ago: an image of it was put back.
    Old,
}

impl Lack {
    /// What has happened to the disk, for operators.
    #[must_use]
    pub fn what(self) -> &'static str {
        match self {
            Self::Cut => "was cut short and is as large again",
            Self::Old => "is older than the others, as an image is that was put back",
        }
    }
}

/// What is wrong with a disk that carries `theirs`, if anything is, when `newest` is believed.
#[must_use]
pub fn lack_of(theirs: &Label, is_cut: bool, newest: &Label) -> Option<Lack> {
    let record = newest.member(theirs.disk).filter(|record| record.uuid == theirs.own().uuid)?;
    // It knows that it lacked all, and was cut off before the others did.
    let knows = theirs.own().state.lacks_all() && !record.state.lacks_all();
    let is_old = match record.state {
        MemberState::Active => is_old(theirs, newest),
        MemberState::Stale(_) => was_old(theirs, newest),
        MemberState::Failed | MemberState::Retired => false,
    };
    // An image may be cut short, too, and then what is in its head is none the newer.
    is_old.then_some(Lack::Old).or((is_cut || knows).then_some(Lack::Cut))
}

/// Whether a disk with the label `theirs` is not even what it was when `newest`, or one before it, put it out. It
/// carried the one before that then. Or the one before: what puts it out in a start may come of a change that
/// was cut off, of which the disks that are there cannot tell.
fn was_old(theirs: &Label, newest: &Label) -> bool {
    let is_old = |out: u64| theirs.generation + 2 < out;
    newest.went_out_in(theirs.disk).is_some_and(is_old) && !mutants::is(Mutant::KeepOldImage)
}

/// Whether a disk with the label `theirs` cannot be all that `newest` takes it for, which calls it active. A
/// label is relied on when all carry it that it calls active, and the next one comes of it: who is in carries
/// the newest, the one before, or one that came of that too and was cut off.
fn is_old(theirs: &Label, newest: &Label) -> bool {
    let parent = newest.ancestors.first();
    let is_sibling = theirs.generation == newest.generation && theirs.ancestors.first() == parent;
    let is_known = theirs.change == newest.change || parent == Some(&theirs.change) || is_sibling;
    !is_known && !mutants::is(Mutant::KeepOldLabel)
}

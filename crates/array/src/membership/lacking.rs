//! Disks that have less than the labels say of them.

use crate::label::Label;

/// Why a disk lacks all that it should have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lack {
    /// It was cut short and made as large again: what lay in its tail is zeroes.
    Cut,
}

impl Lack {
    /// What operators are told of the disk.
    #[must_use]
    pub fn text(self) -> &'static str {
        match self {
            Self::Cut => "was cut short and is as large again: all that it should hold is restored",
        }
    }
}

/// What is wrong with a disk that carries `theirs`, if anything is, when `newest` is believed.
pub(super) fn by_label(theirs: &Label, is_cut: bool, newest: &Label) -> Option<Lack> {
    let record = newest.member(theirs.disk).filter(|record| record.uuid == theirs.own().uuid)?;
    // It knows that it lacked all, and was cut off before the others did.
    let knows = theirs.own().state.lacks_all() && !record.state.lacks_all();
    (is_cut || knows).then_some(Lack::Cut)
}

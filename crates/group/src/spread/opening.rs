//! By what a home and its slices notice that the array of one of them was put back from an older image.
//!
//! Each opening of a slice has a number, and bits that were drawn for it. The home stores that it begins one, then the
//! slice that it was begun, then the home that it has heard so, then the slice that the home has; only then data go to
//! and fro:
//!
//! ```text
//!  home    opened 4, begun 4 ──▶ opened 4, begun 5 ─────────────▶ opened 5, begun 5 ─────────────▶ reads and writes
//!  slice   opened 4, begun 4 ───────────────────────▶ begun 5 ──────────────────────▶ opened 5 ──▶ it lets the home in
//! ```
//!
//! A slice that is behind what its home has heard is an older one. One that is ahead of all that its home has begun has
//! served a later home than this, and so has one that knows of a home that has heard what this one has not. As the bits
//! are drawn, a home that was put back does not come to the same by beginning the same number anew. What was put back to
//! a moment after the last opening is not noticed.

use std::cmp::Ordering;

use serde::{Deserialize, Serialize};

use super::{SliceRecord, SliceRefusal, SliceStage};
use crate::mutants::{self, Mutant};

/// The bits that are drawn: the number stands above them.
const DRAWN_BITS: u32 = 32;

/// One opening of a slice by its home, or that there was none. A later one is more.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Opening(u64);

impl Opening {
    /// Before the first one: nothing was ever read from the slice, or written to it.
    pub const NEVER: Self = Self(0);

    /// How many there were, with this one.
    #[must_use]
    pub const fn number(self) -> u64 {
        self.0 >> DRAWN_BITS
    }

    /// The one after it, with bits that were drawn for it.
    #[must_use]
    pub fn next(self, drawn: u32) -> Self {
        Self((self.number() + 1) << DRAWN_BITS | u64::from(drawn))
    }
}

/// What the home of a volume knows of the openings of one slice.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Openings {
    /// The last one that the slice has answered.
    pub opened: Opening,
    /// The last one that was begun: that one, or the one after it.
    pub begun: Opening,
}

impl Openings {
    /// As they are when the slice has answered this one.
    #[must_use]
    pub const fn answered(opening: Opening) -> Self {
        Self { opened: opening, begun: opening }
    }

    /// With one begun. One that is begun and was not answered is begun again: the slice may have stored it.
    #[must_use]
    pub fn begin(self, drawn: u32) -> Self {
        match self.begun > self.opened {
            true => self,
            false => Self { begun: self.opened.next(drawn), ..self },
        }
    }

    /// Whether the home knows of all openings that the slice has stored.
    #[must_use]
    pub fn know(self, slice: &SliceRecord) -> bool {
        let has_heard = slice.opened <= self.opened || mutants::is(Mutant::OldBegun);
        let is_known = slice.begun <= self.opened || slice.begun == self.begun;
        is_known && has_heard || mutants::is(Mutant::OldHome)
    }

    /// Whether they can be.
    pub(super) const fn are_sound(self) -> bool {
        self.begun.0 == self.opened.0 || self.begun.number() == self.opened.number() + 1
    }
}

/// What a slice stores before it says that an opening is begun there; it may be so already.
///
/// # Errors
/// It is not there, or it or its home is an older one.
pub fn check_begun(slice: &SliceRecord, asked: Openings) -> Result<Opening, SliceRefusal> {
    check_here(slice)?;
    if !asked.are_sound() || asked.begun == asked.opened {
        return Err(SliceRefusal::Unsound("no opening was begun".to_owned()));
    }
    if !asked.know(slice) {
        return Err(SliceRefusal::OldHome(slice.home));
    }
    if slice.begun < asked.opened && !mutants::is(Mutant::OldSlice) {
        return Err(SliceRefusal::OldSlice);
    }
    Ok(asked.begun)
}

/// Whether a slice lets its home in, which has stored that this opening was begun there. It stores that it is opened
/// before; it may be so already.
///
/// # Errors
/// It is not there, or it or its home is an older one.
pub fn check_opened(slice: &SliceRecord, opening: Opening) -> Result<(), SliceRefusal> {
    check_here(slice)?;
    if opening == Opening::NEVER {
        return Err(SliceRefusal::Unsound("no opening was begun".to_owned()));
    }
    match slice.begun.cmp(&opening) {
        Ordering::Equal => Ok(()),
        Ordering::Less => Err(SliceRefusal::OldSlice),
        Ordering::Greater => Err(SliceRefusal::OldHome(slice.home)),
    }
}

const fn check_here(slice: &SliceRecord) -> Result<(), SliceRefusal> {
    match slice.stage {
        SliceStage::Making => Err(SliceRefusal::NotThere),
        SliceStage::Going => Err(SliceRefusal::Going),
        SliceStage::Here => Ok(()),
    }
}

//! By what a home and its slices notice that the array of one of them was put back from an older image.
//!
//! Each opening of a slice has a number, and bits that were drawn for it. The home stores that it begins one, then the
//! slice that it is opened, then the home that it has heard so; only then data go to and fro:
//!
//! ```text
//!  home    opened 4, begun 4 ──▶ opened 4, begun 5 ──────────────────────▶ opened 5, begun 5 ──▶ reads and writes
//!  slice   4 ─────────────────────────────────────▶ 5 ──▶ it answers
//! ```
//!
//! A slice that is behind what its home has heard is an older one. One that is ahead of all that its home has begun has
//! served a later home than this. As the bits are drawn, a home that was put back does not come to the same by beginning
//! the same number anew. What was put back to a moment after the last opening is not noticed.

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

    /// Whether the home knows of all openings up to the one that the slice has stored last.
    #[must_use]
    pub fn know(self, last: Opening) -> bool {
        last <= self.opened || last == self.begun || mutants::is(Mutant::OldHome)
    }

    /// Whether they can be.
    pub(super) const fn are_sound(self) -> bool {
        self.begun.0 == self.opened.0 || self.begun.number() == self.opened.number() + 1
    }
}

/// What a slice stores before it answers an opening; it may be so already.
///
/// # Errors
/// It is not there, or it or its home is an older one.
pub fn check_opening(record: &SliceRecord, asked: Openings) -> Result<Opening, SliceRefusal> {
    match record.stage {
        SliceStage::Making => return Err(SliceRefusal::NotThere),
        SliceStage::Going => return Err(SliceRefusal::Going),
        SliceStage::Here => {}
    }
    if !asked.are_sound() || asked.begun == asked.opened {
        return Err(SliceRefusal::Unsound("no opening was begun".to_owned()));
    }
    if !asked.know(record.opening) {
        return Err(SliceRefusal::OldHome(record.home));
    }
    if record.opening < asked.opened && !mutants::is(Mutant::OldSlice) {
        return Err(SliceRefusal::OldSlice);
    }
    Ok(asked.begun)
}

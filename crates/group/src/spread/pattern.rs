//! Which page of a volume lies in which slice.

use std::fmt::{self, Debug, Formatter};

use serde::{Deserialize, Serialize};

use crate::mutants::{self, Mutant};

/// Places of the longest pattern.
pub const PATTERN_MAX: usize = 64;

/// Slices that a volume may have, and so members.
pub const SLICES_MAX: usize = 16;

/// Why pages cannot be dealt so.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum PatternError {
    /// Nothing, or more than is ever written.
    #[error("a pattern has 1 to {PATTERN_MAX} places, and this has {0}")]
    Places(usize),
    /// A number that no slice has.
    #[error("slices are numbered from 0 and fewer than {SLICES_MAX}, and slice {0} is named")]
    Number(u8),
    /// A slice without pages, though one of a higher number has some.
    #[error("the pattern gives no page to slice {0}")]
    Unused(u8),
}

/// Page `p` lies in the slice that place `p % len` names. Slice 0 is the home's own.
///
/// Invariant: it has 1 to [`PATTERN_MAX`] places, and names each slice from 0 to the highest at least once.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "Vec<u8>", into = "Vec<u8>")]
pub struct Pattern(Vec<u8>);

impl Pattern {
    /// Deals to each slice as many places as it weighs, each as evenly over the whole as the others let it: of two
    /// that wait as long the lower number is first.
    pub(super) fn deal(weights: &[u8]) -> Self {
        assert!(weights.iter().all(|weight| *weight > 0), "each slice has a page");
        if mutants::is(Mutant::DealtInBlocks) {
            let blocks = (0_u8..)
                .zip(weights)
                .flat_map(|(slice, weight)| std::iter::repeat_n(slice, usize::from(*weight)));
            return Self(blocks.collect());
        }
        let places: i32 = weights.iter().copied().map(i32::from).sum();
        // What each slice is behind by what it should have had by now, in parts of a place.
        let mut behind = vec![0; weights.len()];
        let mut next = || {
            for (behind, weight) in behind.iter_mut().zip(weights) {
                *behind += i32::from(*weight);
            }
            let most = behind.iter().copied().max().expect("there is a slice");
            let slice = behind.iter().position(|it| *it == most).expect("it is one of them");
            behind[slice] -= places;
            u8::try_from(slice).expect("there are few slices")
        };
        let dealt = (0..places).map(|_| next()).collect::<Vec<_>>();
        Self::try_from(dealt).expect("each slice has a place, and they are few")
    }

    /// The slice that has a page.
    #[must_use]
    pub fn slice_of(&self, page: u64) -> u8 {
        self.0[(page % self.0.len() as u64) as usize]
    }

    /// How many of the first so many pages a slice has.
    #[must_use]
    pub fn pages_of(&self, slice: u8, pages: u64) -> u64 {
        let count = |places: &[u8]| places.iter().filter(|it| **it == slice).count() as u64;
        let len = self.0.len() as u64;
        let rest = &self.0[..(pages % len) as usize];
        pages / len * count(&self.0) + count(rest)
    }

    /// How many slices there are.
    #[must_use]
    pub fn slices(&self) -> usize {
        self.0.iter().max().map_or(0, |highest| usize::from(*highest) + 1)
    }

    /// The slice of each place.
    #[must_use]
    pub fn places(&self) -> &[u8] {
        &self.0
    }
}

impl TryFrom<Vec<u8>> for Pattern {
    type Error = PatternError;

    fn try_from(places: Vec<u8>) -> Result<Self, PatternError> {
        if !(1..=PATTERN_MAX).contains(&places.len()) {
            return Err(PatternError::Places(places.len()));
        }
        let highest = places.iter().copied().max().unwrap_or_default();
        if usize::from(highest) >= SLICES_MAX {
            return Err(PatternError::Number(highest));
        }
        match (0..highest).find(|slice| !places.contains(slice)) {
            Some(unused) => Err(PatternError::Unused(unused)),
            None => Ok(Self(places)),
        }
    }
}

impl From<Pattern> for Vec<u8> {
    fn from(pattern: Pattern) -> Self {
        pattern.0
    }
}

/// Slices of one volume, by number.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "Vec<u8>", into = "Vec<u8>")]
pub struct SliceSet(u16);

impl SliceSet {
    /// The first so many.
    #[must_use]
    pub fn first(count: usize) -> Self {
        assert!(count <= SLICES_MAX, "{count} slices");
        Self(((1_u32 << count) - 1) as u16)
    }

    /// With one more.
    #[must_use]
    pub fn with(self, slice: u8) -> Self {
        assert!(usize::from(slice) < SLICES_MAX, "slice {slice}");
        Self(self.0 | 1 << slice)
    }

    /// Those that are not among these.
    #[must_use]
    pub const fn without(self, others: Self) -> Self {
        Self(self.0 & !others.0)
    }

    /// Whether a slice is one of them.
    #[must_use]
    pub fn has(self, slice: u8) -> bool {
        self.iter().any(|it| it == slice)
    }

    /// Whether all of these are among them.
    #[must_use]
    pub const fn has_all(self, others: Self) -> bool {
        others.0 & !self.0 == 0
    }

    /// Whether there are none.
    #[must_use]
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Their numbers, in order.
    pub fn iter(self) -> impl Iterator<Item = u8> {
        (0..SLICES_MAX as u8).filter(move |slice| self.0 & 1 << slice != 0)
    }
}

impl Debug for SliceSet {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        out.debug_set().entries(self.iter()).finish()
    }
}

impl TryFrom<Vec<u8>> for SliceSet {
    type Error = PatternError;

    fn try_from(slices: Vec<u8>) -> Result<Self, PatternError> {
        match slices.iter().find(|slice| usize::from(**slice) >= SLICES_MAX) {
            Some(number) => Err(PatternError::Number(*number)),
            None => Ok(slices.into_iter().fold(Self::default(), Self::with)),
        }
    }
}

impl From<SliceSet> for Vec<u8> {
    fn from(slices: SliceSet) -> Self {
        slices.iter().collect()
    }
}

//! Planted mistakes: each leaves out one mechanism that guards what is stored, and the test that `scripts/planted.sh`
//! names for it must notice.
//!
//! They exist only with the feature `mutants`, which no product is built with; without it [`is`] is
//! the constant `false` and the code behind it is gone.

/// A mechanism to leave out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(not(feature = "mutants"), allow(dead_code))]
pub(crate) enum Mutant {
    /// Let others change what an atomic operation over several slices is about.
    SharedAtomic,
    /// Change one side of a border beside an atomic operation over it.
    UnheldChange,
    /// Read both sides of a border beside an atomic operation over it.
    UnheldRead,
    /// Read one side of a border beside an atomic operation over it.
    IgnoreMark,
    /// Let go of a border with the future of a change that is still under way at a slice.
    ReleaseDropped,
    /// Answer a change that was not asked to be durable before it is.
    VolatileSlices,
    /// Answer that space was given back before that is durable.
    UnflushedUnmap,
    /// Write the home's own side of a border first.
    OwnSideFirst,
    /// Say of an atomic operation that is half done that the same request can work a moment later.
    PassHalfDone,
    /// Tell of pages of other slices what the slice in front of them says.
    UncutExtent,
    /// Become larger without a look at the slices.
    GrowBlind,
}

/// Whether this mistake is planted, by `DRYSTONE_BLOCK_MUTANT=NAME`. The array has a variable of its own, and ends over a
/// name that it does not know.
#[cfg(feature = "mutants")]
pub(crate) fn is(mutant: Mutant) -> bool {
    static NAME: std::sync::LazyLock<Option<String>> =
        std::sync::LazyLock::new(|| std::env::var("DRYSTONE_BLOCK_MUTANT").ok());
    NAME.as_ref().is_some_and(|name| *name == format!("{mutant:?}"))
}

/// Whether this mistake is planted: never.
#[cfg(not(feature = "mutants"))]
pub(crate) const fn is(_mutant: Mutant) -> bool {
    false
}

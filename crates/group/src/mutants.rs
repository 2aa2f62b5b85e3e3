//! Planted mistakes: each leaves out one mechanism that guards what is set, and the test that `scripts/planted.sh` names
//! for it must notice.
//!
//! They exist only with the feature `mutants`, which no product is built with; without it [`is`] is
//! the constant `false` and the code behind it is gone.

/// A mechanism to leave out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(not(feature = "mutants"), allow(dead_code))]
pub(crate) enum Mutant {
    /// Answer that something is committed before it is on the device of the store.
    EarlyAnswer,
    /// Leave a token to join with where it is when it has let a server in.
    TokenTwice,
    /// Take a token to join with for as good as ever when its time is over.
    TokenForever,
    /// Give the number of a member that was removed to the next one.
    NumberAgain,
    /// Change the group without a look at who else has changed it meanwhile.
    NoGuard,
    /// Claim the name of a volume without a look at who has it.
    NameTwice,
    /// Leave the name of a volume with a member that was removed.
    NameForever,
    /// Release the name of a volume, whoever has it.
    NameOfOthers,
    /// Hand the name of a volume over without a look at whose it is.
    HandOverBlind,
    /// Keep a volume that was to move without making sure that it is not handed over later.
    UndoUnfenced,
    /// Leave a member that goes to another pool in the one that it was in.
    PoolForgotten,
    /// Leave a member that is removed in its pool.
    GoneInPool,
    /// Place a volume on the member that it was asked of, and not on the one with the most room.
    PlacedHere,
    /// Keep what went from the settings of the group in those of a member.
    MirrorKeepsGone,
    /// Write settings of the group over what does not read, or forget it.
    MirrorUnread,
    /// Change what the group is set to where a member that comes has it otherwise.
    MergeOverwrites,
}

/// Whether this mistake is planted, by `DRYSTONE_GROUP_MUTANT=NAME`. The array has a variable of its own, and ends over a
/// name that it does not know.
#[cfg(feature = "mutants")]
pub(crate) fn is(mutant: Mutant) -> bool {
    static NAME: std::sync::LazyLock<Option<String>> =
        std::sync::LazyLock::new(|| std::env::var("DRYSTONE_GROUP_MUTANT").ok());
    NAME.as_ref().is_some_and(|name| *name == format!("{mutant:?}"))
}

/// Whether this mistake is planted: never.
#[cfg(not(feature = "mutants"))]
pub(crate) const fn is(_mutant: Mutant) -> bool {
    false
}

//! Planted mistakes: each leaves out one mechanism that guards what is written, and the test that `scripts/planted.sh`
//! names for it must notice.
//!
//! They exist only with the feature `mutants`, which no product is built with; without it [`is`] is
//! the constant `false` and the code behind it is gone.

/// A mechanism to leave out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(not(feature = "mutants"), allow(dead_code))]
pub(crate) enum Mutant {
    /// Say of a change that was sent and given up that nothing could be reached.
    ForgetSent,
    /// Take an opening for over before another one is answered.
    EarlyFence,
    /// Leave the session of an opening that is over as it is.
    KeepSession,
    /// Keep the path to an opening that is over.
    KeepPath,
    /// Have commands that get one number of the router, one after the other, share what it decides.
    SharedSteps,
    /// Use a path that is not to be used, once a command has been aborted there.
    EarlyReturn,
    /// Take an extent that begins before the block that was asked for as one that begins there.
    WholeExtent,
    /// Open a unit anew as soon as an opening is lost, however short it was.
    NoPause,
}

/// Whether this mistake is planted, by `DRYSTONE_INITIATOR_MUTANT=NAME`. What is tested beside it has variables of its own.
#[cfg(feature = "mutants")]
pub(crate) fn is(mutant: Mutant) -> bool {
    static NAME: std::sync::LazyLock<Option<String>> =
        std::sync::LazyLock::new(|| std::env::var("DRYSTONE_INITIATOR_MUTANT").ok());
    NAME.as_ref().is_some_and(|name| *name == format!("{mutant:?}"))
}

/// Whether this mistake is planted: never.
#[cfg(not(feature = "mutants"))]
pub(crate) const fn is(_mutant: Mutant) -> bool {
    false
}

//! Planted mistakes: each leaves out one mechanism that guards events on their way, and the test that
//! `scripts/planted.sh` names for it must notice.
//!
//! They exist only with the feature `mutants`, which no product is built with; without it [`is`] is
//! the constant `false` and the code behind it is gone.

/// A mechanism to leave out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(not(feature = "mutants"), allow(dead_code))]
pub(crate) enum Mutant {
    /// Move on before a destination has taken what is sent.
    EarlyPlace,
    /// Believe a place whatever the log has lost by a crash.
    OldPlace,
    /// Begin with the last entry of the audit log after a start, whatever was told before it.
    ForgetAudit,
    /// Begin with the last entry, too, where what was told before is forgotten.
    SkipAudit,
    /// Give a syslog server the audit log in the order of its numbers, whatever is behind.
    LoginsFirst,
    /// Say nothing of entries that the log has pushed out.
    HideMissing,
    /// Send all of the audit log again and again to a server that takes a part of it at a time.
    AllAgain,
    /// Tell a destination that it fails.
    TellItself,
}

/// Whether this mistake is planted, by `DRYSTONE_MUTANT=NAME`.
#[cfg(feature = "mutants")]
pub(crate) fn is(mutant: Mutant) -> bool {
    static NAME: std::sync::LazyLock<Option<String>> =
        std::sync::LazyLock::new(|| std::env::var("DRYSTONE_MUTANT").ok());
    NAME.as_ref().is_some_and(|name| *name == format!("{mutant:?}"))
}

/// Whether this mistake is planted: never.
#[cfg(not(feature = "mutants"))]
pub(crate) const fn is(_mutant: Mutant) -> bool {
    false
}

//! Planted mistakes: each leaves out one mechanism that guards data or a good host, and the test that
//! `scripts/planted.sh` names for it must notice.
//!
//! They exist only with the feature `mutants`, which no product is built with; without it [`is`] is
//! the constant `false` and the code behind it is gone.

/// A mechanism to leave out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(not(feature = "mutants"), allow(dead_code))]
pub(crate) enum Mutant {
    /// Say BUSY to a write that the disk has taken at its second try.
    BusyThoughRan,
    /// Answer a task management function before the disk lets go of the tasks that it ends.
    EarlyAbort,
    /// Let a host write whose reservation was taken away while its data came.
    LateFence,
    /// Let a session begin at a portal that another server has next.
    StayAfloat,
    /// Answer a change of reservations that could not be saved.
    EarlyReservation,
    /// Change reservations of a unit in no order.
    NoTurn,
    /// Let a change of reservations count before it is saved.
    EarlyInstall,
    /// Run commands that come while a reset waits for a disk.
    OpenDuringReset,
    /// Count what a host was told as heard as soon as it is sent.
    UnheardCounts,
    /// Run an ORDERED task, and those behind it, at once.
    NoOrder,
    /// Know no challenge of another connection.
    OwnKeys,
    /// Let strangers that wait for memory keep everybody waiting.
    OneLine,
    /// Keep memory for data that does not come while others need it.
    KeepRoom,
    /// Do long work of all hosts at one unit at once.
    AllAtOnce,
    /// Look through a map for GET LBA STATUS in one step.
    WholeWalk,
    /// Let those who are a little late have all memory together.
    LateAreMany,
    /// Begin a SANITIZE that no restart knows of.
    ForgetSanitize,
    /// Do work of many pieces at once.
    NoPieces,
    /// Wait without end for the flush of a disk whose target goes.
    EndlessFlush,
    /// Trust others as before when one that was known kept room for nothing.
    NoAlarm,
    /// Let those who are not known have all memory for data.
    NoStrangers,
    /// Trust those who have sent just enough as those who have sent much more.
    NoTrust,
    /// Let a login end by the rules with which it began.
    OldRules,
    /// Let a user in whom another rule names.
    OthersUser,
    /// Leave sessions alone that the rules do not let in any more.
    KeepSessions,
    /// Let a user stay whose secret is another now.
    OldSecret,
    /// Take a user for another of the same name.
    NameAlone,
    /// Let several hosts use a target that is not shared.
    SecondHost,
    /// Count registrations by the name that a host claims.
    OwnName,
    /// Lose what a session has counted when it ends.
    ForgetFigures,
    /// Let hosts have more connections than they may have.
    BeyondLimit,
    /// Let one address have all connections.
    OneHasAll,
    /// Refuse a host that comes back to its session where all connections are taken.
    NoReturn,
    /// Send a host to another server as often as it comes.
    SendRound,
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

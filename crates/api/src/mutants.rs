//! Planted mistakes: each leaves out one mechanism that guards snapshots of several members or who answers for a group,
//! and the test that `scripts/planted.sh` names for it must notice.
//!
//! They exist only with the feature `mutants`, which no product is built with; without it [`is`] is
//! the constant `false` and the code behind it is gone.

/// A mechanism to leave out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(not(feature = "mutants"), allow(dead_code))]
pub(crate) enum Mutant {
    /// Have a member take its snapshots before all hold.
    TakeEarly,
    /// Leave it to the members to let hosts go on when a set has failed.
    KeepHolds,
    /// Go on with who has come to the address of the group when that has left.
    StayAtGroup,
    /// Answer at the address of the group as this member alone where it must not answer there.
    AnswerAsOwn,
    /// Take who has come to the address of the group by a listener for all addresses of both families for one who asks
    /// this member alone: there an address of IPv4 looks like one of IPv6.
    MappedAsOwn,
    /// Do for one member what the group is asked at its address, whichever member that is by then.
    UnnamedAtGroup,
    /// Answer at the address of the group in a network in which the operator has not the member listen.
    AnswerInAnyNetwork,
    /// Prove the group by a certificate of the operator's whose time is over.
    ProveByOld,
    /// Prove the group by a certificate that this member has made for itself.
    ProveByOwn,
    /// Take it that a member that is silent has done what the home of a volume has asked it for.
    SilenceIsDone,
    /// Take it that a home that is silent has no volume of a slice.
    SilenceIsGone,
    /// Take what any member says for the word of the home of a slice.
    ObeyAnyMember,
    /// Take what a member tells of what another one has of a volume.
    TellForOthers,
}

/// Whether this mistake is planted, by `DRYSTONE_API_MUTANT=NAME`. The array below has a variable of its own, and ends
/// over a name that it does not know.
#[cfg(feature = "mutants")]
pub(crate) fn is(mutant: Mutant) -> bool {
    static NAME: std::sync::LazyLock<Option<String>> =
        std::sync::LazyLock::new(|| std::env::var("DRYSTONE_API_MUTANT").ok());
    NAME.as_ref().is_some_and(|name| *name == format!("{mutant:?}"))
}

/// Whether this mistake is planted: never.
#[cfg(not(feature = "mutants"))]
pub(crate) const fn is(_mutant: Mutant) -> bool {
    false
}

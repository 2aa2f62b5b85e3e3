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
    /// Take the name of a volume that has arrived without a look at who has it by then.
    AdoptBlind,
    /// Throw away what has come as its source knows nothing of it, whether that has the volume or not.
    DiscardUnknown,
    /// Leave it to a source that has lost all what becomes of a volume that has come from it.
    StrandedWaits,
    /// Leave it to a source that cannot be asked what becomes of a volume that nobody can name any more.
    UnnamedWaits,
    /// Decide about a set of snapshots without a look at whether it is decided.
    DecideBlind,
    /// Delete snapshots of a set that nobody has decided about.
    VoidUnwritten,
    /// Call a set of snapshots whole before all of them are taken.
    WholeEarly,
    /// Have a member take its snapshots before all hold.
    TakeEarly,
    /// Be done with a set of snapshots for the others before what was decided is carried out.
    SettleFirst,
    /// Be done with a set of snapshots that was not heard of, although its coordinator may have it heard of yet.
    SweepEarly,
    /// Let what was decided about a set of snapshots go although its coordinator has not seen it.
    ForgetCoordinator,
    /// Let a new volume have what the claim of its name says of one that was there before.
    KeepMarks,
    /// Leave a member that goes to another pool in the one that it was in.
    PoolForgotten,
    /// Leave a member that is removed in its pool.
    GoneInPool,
    /// Leave it to a member of an earlier version to tell of limits.
    OlderTells,
    /// Found a group without limits on connections.
    FoundUnlimited,
    /// Place a volume on the member that it was asked of, and not on the one with the most room.
    PlacedHere,
    /// Keep what went from the settings of the group in those of a member.
    MirrorKeepsGone,
    /// Write settings of the group over what does not read, or forget it.
    MirrorUnread,
    /// Change what the group is set to where a member that comes has it otherwise.
    MergeOverwrites,
    /// Take the address of the group for this member's although another one has its key.
    HeldUnkeyed,
    /// Put the address of the group on an interface for longer than others leave its key alone.
    LongLifetime,
    /// Take the key of the group's address without a look at whether it was written since.
    AddressTwice,
    /// Take the key of the group's address although it was just written.
    TakenEarly,
    /// Make the certificate of the group's address one that a member proves itself with.
    GroupAsMember,
    /// Let the certificate of the group's address begin by the clock of the member that makes it.
    GroupByClock,
    /// Let hosts in without a look at what other members have.
    OthersUncounted,
    /// Take the number that a member has told for one that is there, although it has gone.
    CountForever,
    /// Give a slice to each member, also to one with hardly any room.
    SliceForAll,
    /// Deal the pages of a spread volume in blocks, and not in turn.
    DealtInBlocks,
    /// Ask for slices before it is stored that the volume is being made.
    AskUnstored,
    /// Call a spread volume whole when the first of its slices is made.
    WholeUnmade,
    /// Let hosts use a spread volume whose slices are being made.
    ServeMaking,
    /// Show hosts the size that a spread volume is to have before all of its slices have it.
    GrowFirst,
    /// Have slices deleted while hosts use their volume.
    AskServed,
    /// Forget a spread volume when the first of its slices has gone.
    ForgetEarly,
    /// Take an answer for one to what is asked for now.
    LateAnswer,
    /// Give a slice up that its member can delete.
    ForgetPresent,
    /// Store something else over a spread volume, or a slice, that is being deleted.
    GoneComesBack,
    /// Take what is stored of a spread volume as it comes, also what cannot be.
    UnsoundRecord,
    /// Do what anybody asks for about a slice.
    ObeyAnybody,
    /// Make the volume of a slice before anything is stored of it.
    MakeUnrecorded,
    /// Forget a slice whose volume is on the array.
    ForgetWithVolume,
    /// Say of a spread volume that it has gone although what is stored cannot be read.
    GoneUnread,
    /// Say of a spread volume that it has gone although the home's own slice of it is there.
    GoneRecordLost,
    /// Believe whoever says that a spread volume has gone.
    GoneOfOthers,
    /// Delete slices of a home that was removed from the group.
    GoWithHome,
    /// Delete slices of a home that does not answer.
    GoOnSilence,
    /// Let a member go without a look at the slices that members have.
    SlicesUnasked,
    /// Store a spread volume, or a slice, over another one.
    SpreadTwice,
    /// Delete a slice that was used when its home says that there is no such volume.
    GoneOpened,
    /// Say of a spread volume that it has gone although the home has another array.
    GoneOtherArray,
    /// Make a volume of its slices again although not all members have told.
    RebuildPart,
    /// Make a volume of its slices again as large as the largest of them.
    RebuildLarger,
    /// Store a volume that was made of its slices again over what is stored of it.
    RebuildStored,
    /// Forget that hosts are in when something was not stored.
    ForgetServed,
    /// Store the size that a slice is to have before its volume has it.
    GrowStored,
    /// Throw away what a later version has stored of a spread volume.
    DiscardLater,
    /// Pass over keys of spread volumes that cannot be read.
    PassUnknownKeys,
    /// Do what the letter of a home asks for that goes to itself.
    LetterToItself,
    /// Store what cannot be.
    StoreUnsound,
    /// Let what is stored of a slice name the volume of another one.
    VolumeOfOther,
    /// Take what is stored of a spread volume for one of the number that its key says.
    KeyUnasked,
    /// Have a volume that is being deleted hold the members that its slices were at.
    GoingHolds,
    /// Serve a slice that is older than its home knows.
    OldSlice,
    /// Obey a home that is older than what its slice has served.
    OldHome,
    /// Obey a home that was put back to when it had begun an opening, and had not heard of it.
    OldBegun,
    /// Have an older home go on although no operator has said so.
    ForwardUnsaid,
    /// Have a home that goes on forget what an older slice lacks.
    ForwardBack,
    /// Store what a home is to know of later ones over what has changed meanwhile.
    ForwardChanged,
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

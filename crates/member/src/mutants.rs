//! Planted mistakes: each leaves out one mechanism that guards disks, snapshots, reservations or access, and the test that
//! `scripts/planted.sh` names for it must notice.
//!
//! They exist only with the feature `mutants`, which no product is built with; without it [`is`] is
//! the constant `false` and the code behind it is gone.

/// A mechanism to leave out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(not(feature = "mutants"), allow(dead_code))]
pub(crate) enum Mutant {
    /// Give the names of snapshots to others of which it is not decided whether they stay.
    FreeNames,
    /// Hold back writes for a set of which hosts were to wait no more before.
    LateHold,
    /// Take part in a set without a look at what has begun to move while that was stored.
    PrepareBlind,
    /// Take it for deleted what a set that is void could not delete.
    ForgetLeft,
    /// Settle a set while snapshots are being taken.
    SettleMeanwhile,
    /// Take what cannot be read of sets for nothing.
    IgnoreUnread,
    /// Store that a run has begun after it has taken its snapshots.
    LateBegin,
    /// Know the snapshots of a schedule by how their names begin.
    OwnByName,
    /// Run each moment that was missed.
    CatchUp,
    /// Move files of an earlier version aside before what they say is stored on the array.
    HastyAside,
    /// Answer that what a unit keeps is saved before it is.
    EarlyUnits,
    /// Leave a host no room for its reservations once others have filled it.
    NoOwnRoom,
    /// Make room for settings with the first of them: hosts may have filled the array by then.
    LateSettings,
    /// Take settings until their device is full.
    EndlessSettings,
    /// Leave a volume half made whose making was cut off.
    ForgetIntent,
    /// Make a volume before it is stored what it is to become.
    NoIntent,
    /// Have the general rule hold for a volume that is not yet what it is to become.
    OpenIntent,
    /// Leave two hosts at a volume that is to be one for a single host.
    TwoStay,
    /// Look at the hosts of a volume alone, and not at those of its snapshots.
    VolumeAlone,
    /// Let hosts come to it between the look at who is there and the new rule.
    LateRule,
    /// Write a list of disks over one that does not read in part.
    LoseDamaged,
    /// Leave it to the next start that the key of secrets is gone.
    LoseKey,
    /// Give the name of a volume back to the group that a request under way is to use.
    GiveBackAwaited,
    /// Take over what is set for the group before the group has what was set here.
    MirrorBeforeMerge,
    /// Serve a volume of which it is stored that it leaves.
    ServeLeaving,
    /// Hand a volume over without what hosts have written since its last round.
    LastDifference,
    /// Serve a volume that has arrived without a look whose it is.
    AdoptUncommitted,
    /// Serve a volume that has arrived by what was read of its claim, which somebody may have taken since.
    AdoptUnclaimed,
    /// Throw away what has come when it was kept meanwhile, and is served.
    DiscardAdopted,
    /// Serve a volume that has arrived and whose data are not on the disks that are there.
    AdoptLost,
    /// Take it for proof that a destination has a volume that it lists it, although it has lost the data.
    CountLost,
    /// Take it for proof that a destination had a volume that it is in its recycle bin, although it has lost the data.
    CountBinned,
    /// Throw away what has come as its source has told once that it has the volume, be that of before the move.
    BelieveList,
    /// Say to the destination of a move that nothing is known of that the volume stays, although its data are lost here.
    VouchLost,
    /// Forget the departure that a volume has when a move of before is decided.
    ForgetNewer,
    /// Tell the destination of a move that its volume stays as that was given up in this life, although its data are lost
    /// here since.
    GiveUpLost,
    /// Say of a volume that it stays, or was adopted, although it is about to leave.
    VouchLeaving,
    /// The same of what has come, and has not its name.
    VouchHidden,
    /// Delete what is left of a volume as its destination has told once that it has it, although it says that it knows nothing
    /// of it.
    PurgeListed,
    /// Serve a copy by word of an operator although another member has told that it has that volume.
    KeepTwice,
    /// Delete of a void set what was known of it before its turn came.
    SettleStale,
    /// Move a volume of which a snapshot is undecided.
    MoveUndecided,
    /// Keep the name of a volume that an operator was refused to keep.
    KeepRefusedName,
    /// Keep the name of what an operator throws away until it is gone.
    KeepGivenName,
    /// Take it for proof that a volume was at its destination that its name has passed on by another move.
    BlindProof,
    /// Answer at the address of the group by accounts and tokens of this member alone.
    AnswerByOwn,
    /// Go on to answer at the address of the group when that has left.
    AnswerAfter,
    /// Answer whoever manages the group while this member leaves it.
    AnswerLeaving,
    /// Leave registrations of a volume that has moved with the portal group of the member that it was on.
    KeepOldPort,
    /// Answer an opening of a slice before what was sent through the one before is over.
    OpenEarly,
    /// Let in whoever has the secrets of an earlier opening of a slice.
    KeepOpening,
    /// Give each opening of a slice the same name and the same secrets.
    OldSecrets,
    /// Open a slice for any member.
    AnyHome,
    /// Say that a slice is withdrawn while requests are under way.
    WithdrawEarly,
    /// Use a slice that is smaller than it should be.
    AnyShape,
    /// Have each request wait for a slice that is known to be out of reach.
    WaitAgain,
    /// Take a comparison for done, at the home of a volume, where the slice has what it was to write.
    ResolveAtLink,
    /// Open a slice for a life of its home that another one has replaced.
    FormerLife,
    /// Answer what hosts write to a slice before it is durable.
    CachedSlice,
    /// Open a slice of another size again and again.
    AskAgain,
    /// Say that a slice is withdrawn while its disk is being flushed.
    WithdrawUnflushed,
    /// Remove the slice that has the name of one that is withdrawn, whichever it is.
    WithdrawNewer,
    /// Do not ask whether a disk still works on what was sent to a slice.
    BlindToWork,
    /// Let homes in whose data is not checked on its way.
    NoDigests,
    /// Serve a volume that lies on several members although another member is its home.
    ServeForeign,
    /// Serve a volume that lies on several members before all its slices are there, or while it goes.
    SeeMaking,
    /// Show and serve a slice as if it were a volume.
    SliceAsVolume,
    /// Have the home's own slice in the place of each other one.
    OwnForAll,
    /// Delete a slice by whoever's word that is not left over.
    DiscardNeeded,
    /// Delete the volume of a slice while its home has it open.
    DeleteOpen,
    /// Do with a volume that lies on several members what only others can.
    ChangeSpread,
    /// Remove a member whatever it has of volumes that lie on several members.
    RemoveWithSlices,
    /// Say that there is no such volume although the own slice of it is there.
    SayGoneWithSlice,
    /// Have operators purge slices of which something is stored.
    PurgeStored,
    /// Serve a slice to its home although it was given to this server as another member.
    OpenForeign,
    /// Answer for a change that the disk of a link goes on with.
    LeaveBehind,
    /// Let a home in that was removed from the group.
    ServeRemoved,
    /// Serve a volume before its slices have been asked.
    ServeUnasked,
    /// Serve a volume although nobody could be asked whether there is a later home.
    ServeUnheard,
    /// Serve a volume although one of its slices has seen a later home than this.
    ServeOldHome,
    /// Open a slice before it is stored that it is opened.
    OpenUnstored,
    /// Use a slice before it is stored that it has answered an opening.
    OpenedUnstored,
    /// Say that there is no such volume out of another array than the group knows the member by.
    SayByOtherArray,
    /// Make a volume of its slices again out of another array than its home had.
    RebuildOtherArray,
    /// Serve a volume that was made of its slices again before somebody has looked at it.
    RebuildOnline,
    /// Serve a volume whose home goes on as the latest before its slices have been asked again.
    ForwardUnasked,
    /// Have a home go on as the latest although who has said that it is not has not told what it has.
    ForwardUntold,
    /// Serve a volume whose home goes on as the latest before somebody has looked at it.
    ForwardOnline,
}

/// Whether this mistake is planted, by `DRYSTONE_MEMBER_MUTANT=NAME`. The array below has a variable of its own, and ends over
/// a name that it does not know.
#[cfg(feature = "mutants")]
pub(crate) fn is(mutant: Mutant) -> bool {
    static NAME: std::sync::LazyLock<Option<String>> =
        std::sync::LazyLock::new(|| std::env::var("DRYSTONE_MEMBER_MUTANT").ok());
    NAME.as_ref().is_some_and(|name| *name == format!("{mutant:?}"))
}

/// Whether this mistake is planted: never.
#[cfg(not(feature = "mutants"))]
pub(crate) const fn is(_mutant: Mutant) -> bool {
    false
}

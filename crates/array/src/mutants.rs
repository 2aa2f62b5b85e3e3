//! Planted mistakes: each leaves out one mechanism that guards data, and the simulation must notice.
//!
//! They exist only with the feature `mutants`, which no product is built with; without it
//! [`is`] is the constant `false` and the code behind it is gone.

macro_rules! mutants {
    ($($(#[$doc:meta])+ $name:ident,)+) => {
        /// A mechanism to leave out.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        #[cfg_attr(not(feature = "mutants"), allow(dead_code))]
        pub enum Mutant {
            $($(#[$doc])+ $name,)+
        }

        #[cfg(feature = "mutants")]
        impl Mutant {
            const ALL: &[Self] = &[$(Self::$name),+];
        }
    };
}

mutants! {
    /// Change stripes with live data without a redo record.
    NoRedo,
    /// Do not raise the label's generation when a disk fails.
    NoGeneration,
    /// Reuse the chunks of an empty set before the record without it is durable.
    EarlyChunks,
    /// Reuse a freed cluster before the checkpoint that freed it has committed.
    EarlyFree,
    /// Return data without looking at its checksum.
    NoVerify,
    /// Answer a write before its journal batch is durable.
    EarlyAck,
    /// Write the checkpoint record without flushing what it refers to.
    NoFlush,
    /// Map clusters that were written whole before they are flushed.
    EarlyMap,
    /// Count a volatile batch of the journal as durable without a flush.
    NoJournalFlush,
    /// An opening believes a journal that ends before the last checkpoint.
    OldJournal,
    /// An opening believes the checkpoints of disks that are older than others.
    BelieveOld,
    /// Old disks lack all, also where the sets need what was there in their place.
    CondemnOld,
    /// Nobody looks whether disks know of newer checkpoints.
    BlindToLater,
    /// Who is not there when an array goes back is taken for what it was.
    KeepFuture,
    /// Who went out beyond where a journal begins anew is taken for having what it says from there on.
    OldDates,
    /// A disk joins with what it has of another life of the array in its areas.
    KeepAreas,
    /// An opening takes an older checkpoint when there is no memory to read the newest one.
    HastySlot,
    /// A checkpoint that an opening could not read is left where it is.
    KeepUnread,
    /// What nobody owns on a disk that lacks something is written over, whatever counts on it.
    ZeroBlank,
    /// A rebuild of data takes the chunks that are kept for metadata.
    TakeMaps,
    /// A journal of which nothing is left does not say on its disks that all of it was durable.
    OldAnchor,
    /// A disk that becomes a holder of an empty journal gets nothing that says so.
    NoAnchor,
    /// Answer a volatile write before it is written.
    EarlyVolatileAck,
    /// Overwrite clusters that a snapshot shares in place.
    NoCopyOnWrite,
    /// Forget which stripes changed while a disk was away.
    NoStaleBits,
    /// Count a disk as up to date that failed while others took the same write.
    LateCredit,
    /// Take a journal batch from a former lap of the ring for a current one.
    NoSequence,
    /// Drop the journal at the start of a checkpoint instead of at its end.
    EarlyTrim,
    /// Take what a rebuild looked up for right, although the stripe was written since.
    OldProof,
    /// Count as lost, once some blocks of a stripe were looked up anew, also others of it that were not.
    HastySure,
    /// Count as lost what a disk has that does not answer for a moment.
    HastyLoss,
    /// Do not tell who has walked the maps that something was freed since.
    UnheardFree,
    /// Copy long runs in a rebuild although something in them is somebody's and not known.
    BlindRun,
    /// Take what maps tell of for what lies there, although a checkpoint left something half done.
    HastyHold,
    /// Copy long runs in a rebuild without comparing them with their checksums.
    BlindRebuild,
    /// Use a freed column of a parity stripe again without proving its parity first.
    BlindReuse,
    /// Leave a parity as it is that does not agree with the other one, which was made anew.
    PartedParities,
    /// Take it for an error of a disk that there is no memory for a request.
    BlameMemory,
    /// Make a parity anew in a scrub before what was mended beside it is durable.
    EarlyParity,
    /// Go on with a checkpoint whose flush failed on more disks than a level survives.
    BlindFlush,
    /// Forget, when a journal is replayed, that a disk that is away missed a parity update.
    ForgetWritten,
    /// Forget, when a journal is replayed, what a checkpoint that did not end has put in place.
    ForgetChanged,
    /// Do not note in the journal what the redo of a wave has put in place.
    ForgetRedone,
    /// Give up what nobody owns of a disk that lacks something, though another one comes out of it.
    ForgetUnowned,
    /// Forget what disks that went out in the middle of an update are to get of it.
    ForgetHalf,
    /// Do not carry that on to the next checkpoint.
    DropHalf,
    /// Forget it as soon as it is given, before a record says so.
    EarlyForget,
    /// Do it again in a stripe that was written as new since.
    KeepHalf,
    /// Open although what a checkpoint had half done is lost with disks that are away.
    DropRedo,
    /// Remember what a checkpoint that did not end has put in a stripe that is written as new.
    KeepRedone,
    /// Put a replacement in its member's place before the checkpoint that says so is durable.
    EarlyPromotion,
    /// Give a chunk that a set has left away while somebody still reads or writes it.
    EarlyLeave,
    /// Give places back that were freed while somebody still reads them.
    ForgetReaders,
    /// Forget, when a journal is replayed, that a disk that is away missed a cluster that was placed.
    ForgetPlaced,
    /// Do not mark what a disk lacks when it goes out beside a write of others.
    ForgetLacking,
    /// Take a disk back although somebody else is about to, and may be long about its label.
    TwoReturns,
    /// Trim the journal of what it has of a volume that could not be destaged.
    TrimKept,
    /// Take a disk for up to date in the seat that it has now, whichever it was given something in.
    CreditDisk,
    /// Write labels although the array has stopped.
    LoneLabel,
    /// Who closes an array does not wait for labels that are being written.
    HastyEnd,
    /// Go on with the disks of an array that was closed.
    KeepDisks,
    /// Who closes an array waits for its last checkpoint, whether it gets on or not.
    KeepClosing,
    /// Ask whether a journal that is closed is well only when labels have been waited for.
    AskLater,
    /// Go on with labels that are being changed when who closes the array waits for them no more.
    KeepChanging,
    /// Give a disk that comes back its label although the array was closed meanwhile.
    ReturnLate,
    /// What holders got while the array was being closed counts, though no label says who of them did not.
    LoneRecord,
    /// Disks that lack something get a label beside those that must have it, before it counts.
    EarlyOthers,
    /// A new member gets its first label beside the others, not before them.
    JoinBeside,
    /// Take a disk that was cut short and made as large again for what it was.
    KeepCut,
    /// Forget at the next start that a disk lacks all that it should have.
    KeepLack,
    /// The last disk with the journal, or the checkpoints, leaves the label, which then names nobody.
    LastLeaves,
    /// When the last disk with the journal leaves, all others count as having it, who were not given it.
    BareHolders,
    /// A disk that was out counts as having what the journal says was written meanwhile.
    ForgetMissed,
    /// Work that waits for nothing gives nobody else on its core a turn.
    KeepCore,
    /// A label that was cut off is forgotten with all that it came of, whether that was relied on or not.
    TrustLine,
    /// Take halves for one history that were changed too often to remember what they came of.
    FarHalves,
    /// A start at which nothing has changed writes no label of its own.
    QuietStart,
    /// Rely on a start whose first label may still pass for one that was cut off.
    HastyStart,
    /// Let a start rely on a label that has put a disk out.
    LoneSeal,
    /// Take a disk for current by its label, however old that is.
    KeepOldLabel,
    /// Take a holder for current that has nothing but old checkpoints.
    KeepOldCopy,
    /// Leave the journal on one disk when the other one that is for it alone is gone.
    NoStandIn,
    /// Make both parities anew in a scrub although they agree on what has rotted.
    ForgetAgreed,
    /// Make a parity anew for one row although another block of its stripe comes out of it alone.
    HastyParity,
    /// Make a parity anew of what is just being written, and nobody can verify yet.
    BlindAnew,
    /// What a disk had before an update that was half done counts, although it has lost all since.
    KeepSound,
    /// Forget that a parity was made without what some column holds.
    ForgetGivenUp,
    /// Count a disk as up to date that was given what the parity need not agree with.
    ForgetDoubt,
    /// Write over a parity that counts as lacking something and alone gives a block.
    BlindParity,
    /// Take it for proof of a parity that a column would have to be wrong which is right.
    ChanceProof,
    /// Take what stands in the place of a parity that nobody has for what that parity is.
    BareParity,
    /// Blame a disk for what it was given, where the parity need not agree with that.
    BlameDoubt,
    /// Take the maps for right about what the journal has of a volume that is set aside.
    OldAside,
    /// Look for a page on the members of its set alone, not on what replaces one.
    MembersAlone,
    /// Ask for ever for a page of a map that no disk can give.
    AskForEver,
    /// Go on in the trees that a walk began with, though nothing keeps their pages.
    OldRoots,
    /// Ask for a page without keeping it at its address until it is read.
    LoneReader,
    /// Let those wait who wait for a disk that is declared failed.
    KeepWaiting,
    /// Take a disk back that is being declared failed.
    TakeCondemned,
    /// Blame disks for what a deleted volume had, and nobody has any more.
    BlameAbandoned,
    /// A life that gives the journal up counts on as any other does.
    NearLife,
    /// An opening drops what the journal has of volumes that its checkpoint does not know.
    OldRecord,
    /// Declare the last disk with the checkpoints failed.
    FailLast,
    /// Take back what is older than the disk was when it went out.
    KeepOldImage,
    /// Mark disks, and do not remember with what.
    ForgetMarks,
    /// Do not look at what a disk was given by the last checkpoint that it saw.
    BlindToMarks,
    /// Take a disk that was made larger for one that was cut short when a read of it fails.
    BlameGrown,
    /// Do not ask a disk that was cut short for the checkpoint and the journal that nobody else has.
    BlindToCut,
    /// Forget that a disk was cut short that was the only one with the checkpoints.
    ForgetWaived,
    /// Say of a disk that lacked all that what it lacks is recorded, before it is.
    HastyRecord,
    /// Make a parity of what disks give now, not of what was seen to agree.
    LookAgain,
    /// Count a parity that was changed, not made anew, as what a disk should have that lacks all.
    CreditParity,
    /// Count a disk that takes no writes as one that still has what it had.
    TrustOut,
    /// Write labels over the blank end of a disk that was cut short.
    BlindLabel,
    /// Let an empty disk go that an operator keeps since it was looked at.
    LeaveAnyway,
    /// Keep a disk that was to leave only once that is on the disks.
    KeepLater,
    /// Make a parity anew without what disks that are out, or lack something, may still give.
    AnewBeyond,
    /// Leave an update that was refused at once in the redo area as one to be done.
    LiveRefused,
    /// Do not note what a redone update gave up, if its data is no news.
    UnnotedRedo,
    /// Take what was half done for given when nobody is known to have been sound before.
    NobodySound,
    /// Give up in a merge what a disk has that gives nothing at all for a moment.
    HastyMerge,
    /// Keep room for the leaves of maps that an UNMAP has emptied.
    KeepEmptied,
    /// Rely on what holders have got before the labels say that another one is out.
    HastyHolders,
    /// A disk that leaves counts as a holder of journal and checkpoints until it has left.
    HastyLeave,
    /// Give a chunk what others have of a stripe without comparing that with its checksums.
    BlindRefresh,
    /// Count as lost what does not match a checksum before that was looked up anew.
    BlindLoss,
    /// Give a new disk zeroes for a block that nobody has, not the mark that it is lost.
    BareLoss,
    /// Take for what nobody else has what a disk that missed something holds, whatever that is.
    BlindStale,
    /// Heal a block with what another disk or the parity gives, whatever that is.
    BlindHeal,
    /// Count a block as repaired without reading it back.
    BlindRepair,
    /// Repair a copy in a scrub with what another one has, whatever that is.
    BlindMend,
    /// Make a parity anew in a scrub of data that was not compared with its checksums.
    BlindScrub,
    /// Repair a block in a scrub with what a parity gives, whatever that is.
    BlindSolve,
    /// Leave a copy of a page of a map as it is when it turns out to be wrong.
    KeepPage,
    /// Write a page of a map again although its place is another's by now.
    BlindPage,
    /// A disk that becomes a holder of the journal gets nothing of what there is.
    NoFill,
    /// Count a holder of the journal as having all before it has that durably.
    VolatileFill,
    /// Count a holder as having all of a journal that failed while it was given that.
    FailedFill,
    /// A start leaves the newest checkpoint on the disks alone that have it.
    LoneSlot,
    /// A start leaves a wave that it does again on the disks alone that have it.
    LoneWave,
    /// Change a parity by what a disk has of the old contents without comparing that.
    BlindChange,
    /// Take blocks that nobody has for zeroes when the rest of their cluster is written elsewhere.
    BlindMerge,
    /// Keep the errors of a disk that an operator forgives.
    KeepErrors,
    /// A disk whose errors are forgiven takes no new chunks.
    KeepClosed,
    /// A disk that is added gets nothing of what the others have until somebody asks for that.
    NoRebalance,
    /// What is in memory of blocks stays when they are written, and counts whatever their checksums.
    KeepEnded,
    /// What was read beside a write is kept in memory.
    LateKeep,
    /// Count a block in memory as used again each time that it is touched, however soon.
    CountTouches,
    /// Count what is fetched ahead as used again when a host has read it itself meanwhile.
    CountFetched,
    /// Blocks that nobody has are kept in memory as what a merge made of them.
    KeepPoison,
    /// Writers go on at their own pace while a checkpoint runs, until the journal is full.
    RushOn,
    /// Writers are held back no more while a checkpoint gets on than while it stands still.
    HastyWriters,
    /// What others give instead of a disk that is late is taken for right.
    TrustOthers,
    /// A read waits for its disk, however long that takes.
    WaitForLate,
    /// Hosts may have the room in the journal in which that of lost volumes is written once more.
    LendAgain,
    /// A compare-and-write does not wait while changes of its volume are held back.
    HoldLeaks,
    /// Changes are held back until somebody lets them go, however long that takes.
    HoldForever,
    /// A snapshot of a held moment does not ask whether the hold is still in force.
    LateCut,
    /// A snapshot of a held moment is taken also if the hold is one of another array.
    HoldOfOther,
    /// A volume is rolled back while its changes are held back.
    HeldRollback,
}

/// Chooses the mistake for this thread; `None` for an honest run.
#[cfg(feature = "mutants")]
pub fn plant(mutant: Option<Mutant>) {
    PLANTED.with(|planted| planted.set(mutant));
}

#[cfg(feature = "mutants")]
thread_local! {
    static PLANTED: std::cell::Cell<Option<Mutant>> = std::cell::Cell::new(of_environment());
}

/// `DRYSTONE_MUTANT=NAME cargo test --features mutants` shows which tests notice a mistake.
#[cfg(feature = "mutants")]
fn of_environment() -> Option<Mutant> {
    let name = std::env::var("DRYSTONE_MUTANT").ok()?;
    let mutant = Mutant::ALL.iter().find(|mutant| format!("{mutant:?}") == name);
    Some(*mutant.unwrap_or_else(|| panic!("DRYSTONE_MUTANT={name} is no planted mistake")))
}

/// Whether this mistake is planted.
#[cfg(feature = "mutants")]
#[must_use]
pub fn is(mutant: Mutant) -> bool {
    PLANTED.with(|planted| planted.get() == Some(mutant))
}

/// Whether this mistake is planted: never.
#[cfg(not(feature = "mutants"))]
#[must_use]
pub const fn is(_mutant: Mutant) -> bool {
    false
}

//! Why what is asked about volumes that lie on several members is refused.

use group::membership::SliceId;
use group::spread::{InTheWay, NotRebuilt, SliceRefusal, SpreadError, WhyLeft};
use thiserror::Error;

use crate::slices::{OpenError, WithdrawError};

/// Why nothing came of what was asked about a volume that lies on several members.
#[derive(Debug, Error)]
pub enum SpreadRefusal {
    /// Who asks believes this member to be another one.
    #[error("this member is not in that group any more, or is another member of it: ask again")]
    OtherSeat,
    /// Nothing is known of it.
    #[error(
        "this member is not the home of such a spread volume, or it is gone: look at the volumes of the group"
    )]
    NoSuch,
    /// This member has no such slice.
    #[error("this member has no such slice of a spread volume")]
    NoSuchSlice,
    /// What is stored of it cannot be read.
    #[error("what is stored of spread volumes cannot be read, so nothing is done with them: {0}")]
    Unread(String),
    /// Its opening is to be begun anew.
    #[error("the slice was not opened since this member started: its home begins that anew")]
    NotBegun,
    /// Its name is not free yet.
    #[error(
        "the spread volume '{0}' is being deleted, and its name is free when no member has a part of it any more: see \
         'drystone volume slices' for those that are awaited, or choose another name"
    )]
    Awaited(String),
    /// This home is an older one.
    #[error(
        "nothing is done with the spread volume '{name}' here: {why}. Where these are the newest disks that there are, have it \
         go on with them ('drystone volume rebuild DIGITS --despite-later', 'drystone volume slices' has the digits)"
    )]
    OldHome {
        /// The volume.
        name: String,
        /// What a slice has said.
        why: String,
    },
    /// It cannot be made so.
    #[error("such a spread volume cannot be made: {0}")]
    Plan(String),
    /// Hosts may use it.
    #[error(
        "the spread volume '{0}' is online: take it offline first, as what is deleted of it does not come back"
    )]
    Online(String),
    /// Hosts still use it.
    #[error(
        "hosts are still at work on the spread volume '{0}', as disks do not answer: it is tried again"
    )]
    AtWork(String),
    /// A slice is being changed.
    #[error("slice {0} is being changed, and its disks do not answer: it is tried again")]
    SliceAtWork(SliceId),
    /// What only volumes can do that lie on one member.
    #[error(
        "'{name}' is spread over several members, and {what} is not there for such a volume yet: make a volume on one member \
         for what needs it"
    )]
    NotSpread {
        /// The volume.
        name: String,
        /// What was asked for.
        what: &'static str,
    },
    /// It goes in another way.
    #[error(
        "'{0}' is spread over several members, and such a volume has no recycle bin: purge it once it is \
         offline, which gives up what is in it for good"
    )]
    NoBin(String),
    /// It grows in another way.
    #[error(
        "'{0}' is spread over several members, which grow with it: its size is changed by itself, and not with other settings"
    )]
    GrowsAlone(String),
    /// It is being made, or goes.
    #[error("the spread volume '{name}' is being {doing}: wait until that has ended")]
    Busy {
        /// The volume.
        name: String,
        /// What is done with it.
        doing: &'static str,
    },
    /// A slice is needed, or nothing is known of its volume.
    #[error(
        "slice {slice} is one of the spread volume '{name}', and it is not known that nobody needs it: delete that volume at \
         its home, which has its slices deleted"
    )]
    Needed {
        /// The slice.
        slice: SliceId,
        /// Its volume.
        name: String,
    },
    /// A slice is left over, and may be needed again.
    #[error("slice {slice} stays: {why}")]
    Stays {
        /// The slice.
        slice: SliceId,
        /// Why.
        why: WhyLeft,
    },
    /// A volume is stored that was to be made of its slices again, or may be.
    #[error("the volume is not made of its slices again: {0}")]
    Stored(String),
    /// Its home has another array than it had.
    #[error(
        "the volume is not made of its slices again: its home had the array {was}, and this member has {has}, on which there is \
         nothing of it"
    )]
    OtherArray {
        /// The array that the home had.
        was: String,
        /// The one that this member has.
        has: String,
    },
    /// It is served nowhere.
    #[error("this member does not serve its slices: {0}")]
    NoPortal(String),
    /// A member has something of spread volumes.
    #[error("'{member}' stays in the group: {found}")]
    InTheWay {
        /// Which member.
        member: String,
        /// What.
        found: InTheWay,
    },
    /// The rules of spread volumes say no.
    #[error(transparent)]
    Rules(#[from] SpreadError),
    /// The rules of slices say no.
    #[error(transparent)]
    Slice(#[from] SliceRefusal),
    /// The rules say no to a volume that is to be made of its slices again.
    #[error("the volume is not made of its slices again: {0}")]
    NotRebuilt(#[from] NotRebuilt),
    /// A slice is not opened.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// A slice is still in use.
    #[error(transparent)]
    Withdraw(#[from] WithdrawError),
}

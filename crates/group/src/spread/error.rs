//! Why a volume is not spread, changed or deleted.

use super::SLICES_MAX;
use crate::ownership::MemberId;
use crate::words::bytes_in_words;

/// Why a volume is not spread, changed or deleted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SpreadError {
    /// No pool has this name.
    #[error("the group has no pool '{0}'")]
    NoSuchPool(String),
    /// A volume of nothing.
    #[error("a volume of no size cannot be spread: say how large it is to be")]
    NoSize,
    /// Too few, or too many.
    #[error("a volume is spread over 1 to {SLICES_MAX} members, and {0} were asked for")]
    Members(usize),
    /// The home is not in the pool, is not there, or has not said what it has.
    #[error(
        "{0} is to be the home of the volume, and is not among the members of the pool that are present and have said \
         how much room they have: choose another home, or try again when it is present"
    )]
    NoHome(MemberId),
    /// The home has no room.
    #[error(
        "{0} is to be the home of the volume and has no room: choose another home, add disks there, or delete volumes \
         or snapshots of it"
    )]
    HomeFull(MemberId),
    /// A volume that is to be smaller.
    #[error(
        "the volume has {}, and a spread volume cannot be made smaller: make a new one of {} and copy what is needed",
        bytes_in_words(*.size_bytes),
        bytes_in_words(*.to_bytes)
    )]
    Smaller {
        /// What it has.
        size_bytes: u64,
        /// What is asked for.
        to_bytes: u64,
    },
    /// It is being made, or changed.
    #[error("the spread volume is being {0}: wait until that has ended, and try again")]
    Busy(&'static str),
    /// A slice is to be given up of a volume that stays.
    #[error(
        "a slice can be given up only of a spread volume that is being deleted, and this one is not: delete it first"
    )]
    NotGoing,
    /// A slice is to be given up whose member can delete it.
    #[error(
        "{0} is a member of the group and deletes its slice when it is reached: start it, or remove it from the group \
         first"
    )]
    StillMember(MemberId),
    /// The home's own slice is to be given up.
    #[error(
        "this slice is on the home of the volume, which deletes it itself: it cannot be given up"
    )]
    OwnSlice,
    /// A number that no slice of it has.
    #[error("the spread volume has no slice {0}")]
    NoSuchSlice(u8),
}

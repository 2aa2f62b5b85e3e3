//! Why what is asked about volumes that lie on several members is refused.

use group::spread::{SliceRefusal, SpreadError};
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
    /// The rules of spread volumes say no.
    #[error(transparent)]
    Rules(#[from] SpreadError),
    /// The rules of slices say no.
    #[error(transparent)]
    Slice(#[from] SliceRefusal),
    /// A slice is not opened.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// A slice is still in use.
    #[error(transparent)]
    Withdraw(#[from] WithdrawError),
    /// It is not there yet.
    #[error("volumes that lie on several members are not there yet")]
    NotYet,
}

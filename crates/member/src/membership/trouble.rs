//! Why a member does not take part in its group.

use group::membership::MembershipError;
use group::store::StoreError;

/// Why a member does not take part any more.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Trouble {
    /// Nothing that lasts: it begins anew.
    Again,
    /// The store does not answer.
    Store(String),
    /// The store answers, and what it says is not to be relied on, or acted upon.
    Damaged(String),
    /// The member is not in the group.
    Removed,
    /// The group has ended, as its last member was told to end it.
    Deleted,
}

impl From<MembershipError> for Trouble {
    fn from(error: MembershipError) -> Self {
        match error {
            MembershipError::Store(error) => error.into(),
            MembershipError::Unknown(_) => Self::Store(error.to_string()),
            // Whether the member is in the group is read from the roll alone.
            MembershipError::Removed
            | MembershipError::NoGroup
            | MembershipError::Contended
            | MembershipError::OtherLife => Self::Again,
            error => Self::Damaged(error.to_string()),
        }
    }
}

impl From<StoreError> for Trouble {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::NoLease(_) | StoreError::Compacted { .. } => Self::Again,
            error => Self::Store(error.to_string()),
        }
    }
}

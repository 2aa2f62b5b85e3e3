//! Why settings are not there, or not changed.

use group::settings::SettingsError;

use super::hidden;
use crate::spec::size;

/// Why settings are not there, or not changed.
#[derive(Debug, thiserror::Error)]
pub enum KeptError {
    /// What the settings say.
    #[error(transparent)]
    Settings(#[from] SettingsError),
    /// They cannot be kept.
    #[error("no settings can be stored: {0}")]
    NotMade(String),
    /// The volume for them cannot be made.
    #[error("no settings can be stored, as no volume can be made for them: {0}")]
    Volume(#[from] array::ArrayError),
    /// The array has no room for them.
    #[error(
        "no settings can be stored, as the volume for them takes {}, and there is room for {}: add a disk, or delete \
         volumes or snapshots",
        size::in_words(*.asked_bytes), size::in_words(*.free_bytes)
    )]
    NoRoom {
        /// What there is.
        free_bytes: u64,
        /// What they take.
        asked_bytes: u64,
    },
    /// A volume of the operator has the name.
    #[error(
        "no settings can be stored, as there is a volume '{}' that is not one of settings: rename it",
        hidden::NAME
    )]
    NameTaken,
    /// The store has no room for a change, although the settings are no larger than they may be.
    #[error(
        "the configuration store on the array is full, and nothing was changed: delete access policies that are not \
         needed, or let hosts that are gone for good be unregistered"
    )]
    Full,
    /// The store is closed.
    #[error("the member is stopping")]
    Stopping,
    /// They cannot be read: nobody is let in.
    #[error("the settings on the array are not available, and no host is let in: {0}")]
    NotAvailable(String),
    /// The store of the group does not answer.
    #[error(
        "nothing was changed, as this is set for all members of the group, and its store does not answer: {0}; what \
         was set before goes on"
    )]
    GroupSilent(String),
    /// It did not answer to a change.
    #[error(
        "it is not known whether the change was made, as the store of the group did not answer to it: {0}; see what \
         is set before you try again"
    )]
    GroupUnknown(String),
    /// The group has the change, and the member does not.
    #[error("the group has the change, and this member has not taken it over yet: {0}")]
    NotTakenOver(String),
    /// The member is in a group that it does not know enough of.
    #[error("nothing was changed, as it may be set for all members of the group: {0}")]
    NoGroupKnown(String),
}

impl KeptError {
    /// Whether the group is what says no, and not the settings or the member.
    pub(crate) const fn is_of_group(&self) -> bool {
        matches!(
            self,
            Self::GroupSilent(_)
                | Self::GroupUnknown(_)
                | Self::NotTakenOver(_)
                | Self::NoGroupKnown(_)
        )
    }
}

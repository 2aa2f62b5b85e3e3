//! What can be asked of a running member about access, and what it answers.

use std::fmt::{self, Debug, Formatter};

use group::access::{Entry, Parts};
use group::store::Revision;

use crate::settings::Hosts;

/// About who may use a volume.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names of the fields say what they are")]
pub enum AccessRequest {
    /// → [`VolumeAccess`].
    List { volume: String },
    /// Let hosts in that the entry is for → [`VolumeAccess`].
    Add { volume: String, entry: Entry },
    /// Take an entry away, and end the sessions that it had let in → [`VolumeAccess`].
    Remove { volume: String, number: u32 },
    /// Take the whole list away: the rule for volumes without one holds again → [`VolumeAccess`].
    Clear { volume: String },
}

impl AccessRequest {
    /// The volume that it is about.
    pub(crate) fn volume(&self) -> &str {
        match self {
            Self::List { volume }
            | Self::Add { volume, .. }
            | Self::Remove { volume, .. }
            | Self::Clear { volume } => volume,
        }
    }
}

/// About CHAP users and what targets prove.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names of the fields say what they are")]
pub enum ChapRequest {
    /// → [`ChapUsers`].
    List,
    /// A new user.
    Add { user: String, secret: SecretText },
    /// Another secret for a user.
    Set { user: String, secret: SecretText },
    /// A user that no record names.
    Delete { user: String },
    /// What targets prove to hosts that ask for it.
    SetMutual { user: String, secret: SecretText },
    /// They prove nothing any more.
    ClearMutual,
}

/// About policies, which are records that several volumes share.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names of the fields say what they are")]
pub enum PolicyRequest {
    /// → [`PolicyShown`]s.
    List,
    /// → [`PolicyShown`].
    Show { name: String },
    /// One without records, which lets nobody in → [`PolicyShown`].
    Create { name: String },
    /// → [`PolicyShown`].
    Add { name: String, record: Parts },
    /// Take a record away, and end the sessions that it had let in → [`PolicyShown`].
    Remove { name: String, number: u32 },
    /// One that no volume names.
    Delete { name: String },
}

/// A secret on its way. Not shown.
#[derive(Clone, PartialEq, Eq)]
pub struct SecretText(pub String);

impl Debug for SecretText {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        out.write_str("SecretText(..)")
    }
}

/// Who may use a volume.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VolumeAccess {
    /// Its name.
    pub volume: String,
    /// `None` where the rule for all volumes without a list holds.
    pub entries: Option<Vec<Numbered<Entry>>>,
    /// Hosts of several names at the same time.
    pub shared: bool,
    /// Which hosts that are.
    pub hosts: Hosts,
}

/// Something on a list, with the number that it goes by.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Numbered<T> {
    /// Never that of something else.
    pub number: u32,
    /// What it is.
    pub item: T,
}

/// CHAP users, and what targets prove.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChapUsers {
    /// In the order of their names.
    pub users: Vec<ChapUser>,
    /// The name by which targets prove themselves.
    pub mutual: Option<ChapUser>,
}

/// A CHAP user.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChapUser {
    /// Its name.
    pub user: String,
    /// The secret can be used. Otherwise it must be set again, as the key that it was encrypted with is
    /// not here.
    pub usable: bool,
    /// When it was set, in the numbers of the store.
    pub changed: Revision,
}

/// A policy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PolicyShown {
    /// Its name.
    pub name: String,
    /// Its records.
    pub records: Vec<Numbered<Parts>>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_show_no_secret() {
        let secret = SecretText("hush-hush-hush".to_owned());
        let set = ChapRequest::Set { user: "al".to_owned(), secret };
        let shown = format!("{set:?}");
        assert!(shown.contains("al") && !shown.contains("hush"), "{shown}");
    }
}

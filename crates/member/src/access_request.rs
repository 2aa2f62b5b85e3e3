//! What can be asked of a running member about access, and what it answers.

use std::fmt::{self, Debug, Formatter};

use group::access::{Entry, Parts};
use serde::{Deserialize, Serialize};

/// About who may use a volume.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
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
    /// Let hosts of several names in at the same time, or one → [`VolumeAccess`].
    SetShared { volume: String, shared: bool },
}

impl AccessRequest {
    /// The volume that it is about.
    pub(crate) fn volume(&self) -> &str {
        match self {
            Self::List { volume }
            | Self::Add { volume, .. }
            | Self::Remove { volume, .. }
            | Self::Clear { volume }
            | Self::SetShared { volume, .. } => volume,
        }
    }
}

/// About CHAP users and what targets prove.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
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
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
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
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct SecretText(pub String);

impl Debug for SecretText {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        out.write_str("SecretText(..)")
    }
}

/// Who may use a volume.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct VolumeAccess {
    /// Its name.
    pub volume: String,
    /// `None` where the rule for all volumes without a list holds.
    pub entries: Option<Vec<Numbered<Entry>>>,
    /// Hosts of several names at the same time.
    pub shared: bool,
}

/// Something on a list, with the number that it goes by.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Numbered<T> {
    /// Never that of something else.
    pub number: u32,
    /// What it is.
    #[serde(flatten)]
    pub item: T,
}

/// CHAP users, and what targets prove.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChapUsers {
    /// In the order of their names.
    pub users: Vec<ChapUser>,
    /// The name by which targets prove themselves.
    pub mutual: Option<ChapUser>,
}

/// A CHAP user.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChapUser {
    /// Its name.
    pub user: String,
    /// The secret can be used. Otherwise it must be set again, as the key that it was encrypted with is
    /// not here.
    pub usable: bool,
}

/// A policy.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PolicyShown {
    /// Its name.
    pub name: String,
    /// Its records.
    pub records: Vec<Numbered<Parts>>,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Other programs may speak this language: the test changes only together with the changelog.
    #[test]
    fn requests_keep_their_form_and_show_no_secret() {
        let parts = Parts { chap: Some("al".to_owned()), ..Parts::default() };
        let entry = Entry::Record(group::access::Record::new(parts).unwrap());
        let add = AccessRequest::Add { volume: "vm".to_owned(), entry };
        let written = r#"{"add":{"volume":"vm","entry":{"record":{"chap":"al","for":"both"}}}}"#;
        assert_eq!(serde_json::to_string(&add).unwrap(), written);
        assert_eq!(serde_json::from_str::<AccessRequest>(written).unwrap(), add);
        let open = written.replace(r#""chap":"al","#, "");
        assert!(serde_json::from_str::<AccessRequest>(&open).is_err(), "it would be for everybody");
        let secret = SecretText("hush-hush-hush".to_owned());
        let set = ChapRequest::Set { user: "al".to_owned(), secret };
        assert_eq!(
            serde_json::to_string(&set).unwrap(),
            r#"{"set":{"user":"al","secret":"hush-hush-hush"}}"#
        );
        assert!(!format!("{set:?}").contains("hush"));
    }
}

//! Who may use which volume.

use std::fmt::{self, Debug, Formatter};

use group::access::{AccessError, AddressPattern, Parts, Record};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::{Hosts, same_words};

/// What hosts are let in to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum Scope {
    /// The volume.
    Volume,
    /// Its snapshots.
    Snapshot,
    /// The volume and its snapshots.
    #[default]
    Both,
}

same_words!(Scope, group::access::Scope: Volume, Snapshot, Both);

/// Hosts of which all of this holds; at least one of `chap`, `iqn` and `address` is there.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct HostRecord {
    /// The CHAP user that a host proves to be.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub chap: Option<String>,
    /// Its iSCSI name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub iqn: Option<String>,
    /// Its address: `10.1.2.3`, `10.1.0.0/16`, `fd00::/8` or `10.1.*.*`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub address: Option<String>,
    /// What it is let in to.
    #[serde(default, rename = "for")]
    pub scope: Scope,
}

impl From<Parts> for HostRecord {
    fn from(parts: Parts) -> Self {
        let Parts { chap, iqn, address, scope } = parts;
        let address = address.map(|pattern| pattern.to_string());
        Self { chap, iqn, address, scope: scope.into() }
    }
}

impl TryFrom<HostRecord> for Parts {
    type Error = AccessError;

    fn try_from(record: HostRecord) -> Result<Self, AccessError> {
        let HostRecord { chap, iqn, address, scope } = record;
        let address = address.map(|text| text.parse::<AddressPattern>()).transpose()?;
        Ok(Self { chap, iqn, address, scope: scope.into() })
    }
}

/// All hosts of a policy.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct PolicyUse {
    /// Its name.
    pub name: String,
    /// What they are let in to, as far as their records are for that too.
    #[serde(default, rename = "for")]
    pub scope: Scope,
}

/// Who is let in.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum Entry {
    /// Hosts.
    Record(HostRecord),
    /// Those of a policy.
    Policy(PolicyUse),
}

impl From<group::access::Entry> for Entry {
    fn from(entry: group::access::Entry) -> Self {
        match entry {
            group::access::Entry::Record(record) => Self::Record(record.parts().clone().into()),
            group::access::Entry::Policy { name, scope } => {
                Self::Policy(PolicyUse { name, scope: scope.into() })
            }
        }
    }
}

impl TryFrom<Entry> for group::access::Entry {
    type Error = AccessError;

    fn try_from(entry: Entry) -> Result<Self, AccessError> {
        Ok(match entry {
            Entry::Record(record) => Self::Record(Record::new(record.try_into()?)?),
            Entry::Policy(PolicyUse { name, scope }) => Self::Policy { name, scope: scope.into() },
        })
    }
}

/// An entry of an access list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct NumberedEntry {
    /// It goes by this number, which no other entry of the list ever has.
    pub number: u32,
    /// Who is let in.
    #[serde(flatten)]
    pub entry: Entry,
}

/// Who may use a volume.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Access {
    /// Its name.
    pub volume: String,
    /// Its access list: hosts that are not on it are kept out. `null` where there is none: then `hosts` tells who
    /// may use the volume.
    pub entries: Option<Vec<NumberedEntry>>,
    /// Hosts of several names may use it at the same time.
    pub shared: bool,
    /// Which hosts may use it.
    pub hosts: Hosts,
}

impl From<member::VolumeAccess> for Access {
    fn from(access: member::VolumeAccess) -> Self {
        let member::VolumeAccess { volume, entries, shared, hosts } = access;
        let numbered = |member::Numbered::<group::access::Entry> { number, item }| NumberedEntry {
            number,
            entry: item.into(),
        };
        let entries = entries.map(|all| all.into_iter().map(numbered).collect());
        Self { volume, entries, shared, hosts: hosts.into() }
    }
}

/// A policy to be made, without records at first.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewPolicy {
    /// Unique: 1 to 63 letters, digits, `-`, `.` or `_`.
    pub name: String,
}

/// Hosts that several volumes let in.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Policy {
    /// Its name.
    pub name: String,
    /// Which hosts.
    pub records: Vec<PolicyRecord>,
}

/// A record of a policy: hosts of which all of this holds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PolicyRecord {
    /// It goes by this number, which no other record of the policy ever has.
    pub number: u32,
    /// The CHAP user that a host proves to be.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub chap: Option<String>,
    /// Its iSCSI name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub iqn: Option<String>,
    /// Its address.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub address: Option<String>,
    /// What it is let in to.
    #[serde(rename = "for")]
    pub scope: Scope,
}

impl From<member::PolicyShown> for Policy {
    fn from(policy: member::PolicyShown) -> Self {
        let member::PolicyShown { name, records } = policy;
        let numbered = |member::Numbered::<Parts> { number, item }| {
            let HostRecord { chap, iqn, address, scope } = item.into();
            PolicyRecord { number, chap, iqn, address, scope }
        };
        Self { name, records: records.into_iter().map(numbered).collect() }
    }
}

/// A CHAP secret of 12 to 255 bytes. It is taken and never given or shown.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(transparent)]
#[schema(value_type = String, format = Password, min_length = 3, max_length = 255)]
pub struct Secret(pub String);

impl Debug for Secret {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        out.write_str("Secret(..)")
    }
}

impl From<Secret> for member::SecretText {
    fn from(Secret(text): Secret) -> Self {
        Self(text)
    }
}

/// A CHAP user and what it proves to know.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Login {
    /// Its name, without blanks.
    pub user: String,
    /// Its secret.
    pub secret: Secret,
}

/// Another secret for a CHAP user.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewSecret {
    /// What it proves to know from now on.
    pub secret: Secret,
}

/// A CHAP user.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ChapUser {
    /// Its name.
    pub user: String,
    /// Its secret can be used. Otherwise it must be set again, as the key that it was encrypted with is not
    /// here.
    pub usable: bool,
    /// The number of its last change, which its tag is made of and which does not travel.
    #[serde(skip)]
    pub(crate) changed: u64,
}

impl From<member::ChapUser> for ChapUser {
    fn from(known: member::ChapUser) -> Self {
        let member::ChapUser { user, usable, changed } = known;
        Self { user, usable, changed }
    }
}

/// CHAP users, and what volumes with an access list prove to hosts that ask for it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ChapUsers {
    /// In the order of their names.
    pub users: Vec<ChapUser>,
    /// As whom volumes prove themselves; `null` if they do not.
    pub mutual: Option<ChapUser>,
}

impl From<member::ChapUsers> for ChapUsers {
    fn from(known: member::ChapUsers) -> Self {
        let member::ChapUsers { users, mutual } = known;
        Self { users: users.into_iter().map(Into::into).collect(), mutual: mutual.map(Into::into) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_is_let_in_keeps_its_form_and_nobody_lets_everybody_in() {
        let read = |text: &str| serde_json::from_str::<Entry>(text);
        let entry = |text: &str| group::access::Entry::try_from(read(text).unwrap());
        for text in [
            r#"{"record":{"chap":"al","iqn":"iqn.2026-11.com.example:a","for":"snapshot"}}"#,
            r#"{"record":{"address":"10.1.*.*","for":"both"}}"#,
            r#"{"policy":{"name":"rack1","for":"volume"}}"#,
        ] {
            let back = Entry::from(entry(text).unwrap());
            assert_eq!(serde_json::to_string(&back).unwrap(), text);
        }
        assert_eq!(entry(r#"{"record":{}}"#).unwrap_err(), AccessError::NoPart);
        let address = entry(r#"{"record":{"address":"10.1.2.3/16"}}"#).unwrap_err();
        assert!(matches!(address, AccessError::Address(_)), "{address}");
        for unread in [
            r#"{"record":{"colour":"red"}}"#,
            r#"{"record":{"chap":"al"},"policy":{"name":"rack1"}}"#,
            "{}",
        ] {
            assert!(read(unread).is_err(), "{unread}");
        }
    }

    #[test]
    fn a_secret_is_not_shown() {
        let secret = Secret("hush-hush-hush".to_owned());
        let shown = format!("{:?}", Login { user: "al".to_owned(), secret });
        assert!(shown.contains("al") && !shown.contains("hush"), "{shown}");
    }
}

//! One access record: what a host must be and prove.

use std::fmt::{self, Display, Formatter};
use std::net::IpAddr;
use std::str::FromStr;

use iscsi::address::AddressPattern;
use iscsi::chap::USER_LEN_BYTES_MAX;
use iscsi::text::IscsiName;
use serde::{Deserialize, Serialize};

use super::AccessError;

/// What a host wants to use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Object {
    /// A volume.
    Volume,
    /// One of its snapshots.
    Snapshot,
}

/// What a record is for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Scope {
    /// The volume alone.
    Volume,
    /// Its snapshots alone.
    Snapshot,
    /// The volume and its snapshots.
    #[default]
    Both,
}

impl Scope {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Volume, Self::Snapshot, Self::Both];

    /// Whether it is for this.
    #[must_use]
    pub const fn includes(self, object: Object) -> bool {
        match self {
            Self::Volume => matches!(object, Object::Volume),
            Self::Snapshot => matches!(object, Object::Snapshot),
            Self::Both => true,
        }
    }

    /// The word for it.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Volume => "volume",
            Self::Snapshot => "snapshot",
            Self::Both => "both",
        }
    }
}

impl FromStr for Scope {
    type Err = AccessError;

    fn from_str(text: &str) -> Result<Self, AccessError> {
        let found = Self::ALL.into_iter().find(|scope| scope.word() == text);
        found.ok_or_else(|| AccessError::Scope(text.to_owned()))
    }
}

/// A host that comes, as far as the network tells.
#[derive(Debug, Clone, Copy)]
pub struct Host<'a> {
    /// The name that it says it has, in any case.
    pub iqn: &'a str,
    /// Where it comes from.
    pub address: IpAddr,
}

/// One combination of what a host must be, all parts of which must hold. It has at least one.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "Parts", into = "Parts")]
pub struct Record {
    parts: Parts,
}

/// The parts of a record; what is `None` may be anything.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Parts {
    /// The CHAP user that it proves to be.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub chap: Option<String>,
    /// Its iSCSI name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub iqn: Option<String>,
    /// Its address.
    #[serde(default, skip_serializing_if = "Option::is_none", with = "address_text")]
    pub address: Option<AddressPattern>,
    /// What it is for.
    #[serde(default, rename = "for")]
    pub scope: Scope,
}

/// Addresses as they are stored: as text.
mod address_text {
    use super::AddressPattern;
    use serde::de::Error;
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    pub(super) fn serialize<S: Serializer>(
        pattern: &Option<AddressPattern>,
        out: S,
    ) -> Result<S::Ok, S::Error> {
        pattern.as_ref().map(ToString::to_string).serialize(out)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        text: D,
    ) -> Result<Option<AddressPattern>, D::Error> {
        let text = Option::<String>::deserialize(text)?;
        text.map(|text| text.parse().map_err(D::Error::custom)).transpose()
    }
}

impl Record {
    /// A record of these parts, the iSCSI name in its normal form.
    ///
    /// # Errors
    /// There is no part, or one that no host can have.
    pub fn new(mut parts: Parts) -> Result<Self, AccessError> {
        if parts.chap.is_none() && parts.iqn.is_none() && parts.address.is_none() {
            return Err(AccessError::NoPart);
        }
        if let Some(user) = &parts.chap {
            check_user(user)?;
        }
        if let Some(iqn) = &mut parts.iqn {
            let parsed = IscsiName::parse(iqn);
            let wrong = |error| AccessError::Iqn { iqn: iqn.clone(), error };
            *iqn = parsed.map_err(wrong)?.as_str().to_owned();
        }
        Ok(Self { parts })
    }

    /// What it is made of.
    #[must_use]
    pub const fn parts(&self) -> &Parts {
        &self.parts
    }

    /// The same for what both this and `scope` are for; `None` if that is nothing.
    #[must_use]
    pub fn within(&self, scope: Scope) -> Option<Self> {
        let both = |object| self.parts.scope.includes(object) && scope.includes(object);
        let scope = match (both(Object::Volume), both(Object::Snapshot)) {
            (true, true) => Scope::Both,
            (true, false) => Scope::Volume,
            (false, true) => Scope::Snapshot,
            (false, false) => return None,
        };
        Some(Self { parts: Parts { scope, ..self.parts.clone() } })
    }

    /// Whether it is for this host and object, whatever the host has proved.
    pub(super) fn is_for(&self, object: Object, host: Host<'_>) -> bool {
        let Parts { iqn, address, scope, .. } = &self.parts;
        scope.includes(object)
            && iqn.as_ref().is_none_or(|iqn| iqn.eq_ignore_ascii_case(host.iqn))
            && address.as_ref().is_none_or(|pattern| pattern.includes(host.address))
    }
}

/// A CHAP user that records and secrets can name: printable, so that it can be told from others on a
/// screen, and without blanks, so that it stands in one word.
///
/// # Errors
/// [`AccessError::User`]
pub fn check_user(user: &str) -> Result<(), AccessError> {
    let is_plain = |c: char| !c.is_control() && !c.is_whitespace();
    if (1..=USER_LEN_BYTES_MAX).contains(&user.len()) && user.chars().all(is_plain) {
        return Ok(());
    }
    Err(AccessError::User)
}

impl TryFrom<Parts> for Record {
    type Error = AccessError;

    fn try_from(parts: Parts) -> Result<Self, AccessError> {
        Self::new(parts)
    }
}

impl From<Record> for Parts {
    fn from(record: Record) -> Self {
        record.parts
    }
}

impl Display for Record {
    /// `chap=alice iqn=iqn.2026-11.com.example:host ip=10.1.*.* for=volume`, without what may be
    /// anything.
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        let Parts { chap, iqn, address, scope } = &self.parts;
        if let Some(user) = chap {
            write!(out, "chap={user} ")?;
        }
        if let Some(iqn) = iqn {
            write!(out, "iqn={iqn} ")?;
        }
        if let Some(address) = address {
            write!(out, "ip={address} ")?;
        }
        write!(out, "for={}", scope.word())
    }
}

impl FromStr for Record {
    type Err = AccessError;

    /// As it is displayed; without `for` it is for both.
    fn from_str(text: &str) -> Result<Self, AccessError> {
        let mut parts = Parts::default();
        let mut seen = Vec::new();
        for word in text.split_whitespace() {
            let wrong = || AccessError::Word(word.to_owned());
            let (key, value) = word.split_once('=').ok_or_else(wrong)?;
            match key {
                _ if seen.contains(&key) => return Err(AccessError::Twice(key.to_owned())),
                "chap" => parts.chap = Some(value.to_owned()),
                "iqn" => parts.iqn = Some(value.to_owned()),
                "ip" => parts.address = Some(value.parse()?),
                "for" => parts.scope = value.parse()?,
                _ => return Err(wrong()),
            }
            seen.push(key);
        }
        Self::new(parts)
    }
}

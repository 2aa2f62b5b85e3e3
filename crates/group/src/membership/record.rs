//! What the store says of a group and its members.

use std::net::{IpAddr, SocketAddr};

use serde::{Deserialize, Serialize};

use super::GroupId;
use crate::accounts::TokenHash;
use crate::record::Setting;

/// The group itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct About {
    /// Drawn when it was made; stays when it is renamed.
    pub id: GroupId,
    /// Unique among the groups of an operator: 1 to 63 letters, digits, `-`, `.` or `_`.
    pub name: String,
    /// When it was made, in seconds since 1970 (UTC).
    pub created_unix_seconds: u64,
    /// The highest number that a member was ever given: none is given twice.
    pub last_member: u16,
}

impl Setting for About {
    const WHAT: &'static str = "what the group is";
}

/// A member of the group.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemberRecord {
    /// Unique in the group: 1 to 63 letters, digits, `-`, `.` or `_`.
    pub name: String,
    /// Where the other members reach it.
    pub address: IpAddr,
    /// The first of its three ports in a row: for members, for clients of its etcd, for other etcds.
    pub port: u16,
    /// The SHA-256 of its certificate, in hexadecimal digits.
    pub certificate_sha256: String,
    /// The identity of its array, in hexadecimal digits: a copy of a member is none.
    pub array: String,
    /// The version of drystone that it ran when it was entered last.
    pub version: String,
    /// When it was admitted, in seconds since 1970 (UTC).
    pub joined_unix_seconds: u64,
    /// Drawn by each start of it; 0 until the first after it was admitted.
    pub incarnation: u64,
}

impl Setting for MemberRecord {
    const WHAT: &'static str = "what is known of a member";
}

impl MemberRecord {
    /// Where it answers members.
    #[must_use]
    pub const fn door(&self) -> SocketAddr {
        SocketAddr::new(self.address, self.port)
    }
}

/// What lets one server join, once.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct JoinToken {
    /// What its secret is known by.
    pub hash: TokenHash,
    /// When it was made, in seconds since 1970 (UTC).
    pub created_unix_seconds: u64,
    /// From when on it is worth nothing.
    pub expires_unix_seconds: u64,
}

impl Setting for JoinToken {
    const WHAT: &'static str = "a token to join with";
}

/// What a member serves, as it has told the others.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Inventory {
    /// Where hosts reach it.
    pub portals: Vec<SocketAddr>,
    /// Its volumes.
    pub volumes: Vec<ListedVolume>,
    /// Further targets of it: snapshots that are online.
    pub snapshots: Vec<String>,
}

impl Setting for Inventory {
    const WHAT: &'static str = "what a member serves";
}

/// A volume of a member.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ListedVolume {
    /// Its name on that member.
    pub name: String,
    /// The name of its target.
    pub iqn: String,
    /// Its size.
    pub size_bytes: u64,
    /// Hosts can use it.
    pub is_online: bool,
}

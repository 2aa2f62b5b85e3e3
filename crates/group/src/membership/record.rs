//! What the store says of a group and its members.

use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};

use serde::{Deserialize, Serialize};

use super::GroupId;
use crate::access::AccessList;
use crate::accounts::TokenHash;
use crate::ownership::MemberId;
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
    /// The first of its [`PORTS`](super::PORTS) ports in a row: its door for servers that join, for clients of its
    /// etcd, for other etcds, for requests that members carry to it.
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

/// Members among whose disks new volumes are spread. Who is in none of those that are kept is in the
/// [default one](super::DEFAULT_POOL).
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pool {
    /// Its members, each of which is in no other one.
    pub members: BTreeSet<MemberId>,
}

impl Setting for Pool {
    const WHAT: &'static str = "a pool of the group";
}

/// What a member serves, as it has told the others. What an earlier version does not say has its default.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Inventory {
    /// Where hosts reach it.
    pub portals: Vec<SocketAddr>,
    /// Its volumes.
    pub volumes: Vec<ListedVolume>,
    /// Further targets of it: snapshots that are online.
    pub snapshots: Vec<String>,
    /// What a new volume of the usual level of its array may take, rounded down to 64 MiB (of a small one to 1 MiB), so that not each write is
    /// news for all members.
    #[serde(default)]
    pub free_bytes: u64,
    /// What volumes of that level may take in all; 0 where it is not known.
    #[serde(default)]
    pub capacity_bytes: u64,
    /// The portal group tag of its portals (RFC 7143 §13.9); 0 where it is not known.
    #[serde(default)]
    pub portal_group: u16,
    /// The names of its schedules.
    #[serde(default)]
    pub schedules: Vec<String>,
    /// The names of its volumes in the recycle bin.
    #[serde(default)]
    pub deleted: Vec<String>,
    /// Those of them that disks with their data are missing of: who had a copy of one keeps it. Members of earlier versions
    /// do not tell.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub deleted_lost: Vec<String>,
    /// What the access lists of its volumes name, which others must not delete.
    #[serde(default)]
    pub uses: NamesUsed,
    /// What it is set to for people and hosts is what the group is set to.
    #[serde(default)]
    pub shares: bool,
    /// The targets that it has handed over to other members, as long as it is not sure that all have heard of it: hosts
    /// that ask for one are to ask again, until a member lists it.
    #[serde(default)]
    pub leaving: Vec<String>,
    /// The volumes that move to it or away from it, until nothing is left to do for it.
    #[serde(default)]
    pub moves: Vec<ListedMove>,
    /// The volumes that lie on several members and of which it has something, also of those that are made or deleted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub spreads: Vec<ListedSpread>,
}

/// A volume that lies on several members, as one of them knows it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ListedSpread {
    /// Its name, as far as the member knows it.
    pub volume: String,
    /// The home.
    pub home: MemberId,
    /// The members that have slices of it, as far as the member knows: its home knows all.
    pub members: BTreeSet<MemberId>,
}

/// A part that a member has in moving a volume.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ListedMove {
    /// The volume.
    pub volume: String,
    /// The member that has the other part.
    pub other: MemberId,
}

impl Setting for Inventory {
    const WHAT: &'static str = "what a member serves";
}

impl Inventory {
    /// As it lies in the store. One that is longer than so many bytes is said without whom its volumes are shown to,
    /// which takes the most: others do not tell hosts of them then, and redirect those that know of them all the same.
    pub(super) fn encode_within(&self, bytes_max: usize) -> Vec<u8> {
        let whole = self.encode();
        if whole.len() <= bytes_max {
            return whole;
        }
        let mut short = self.clone();
        for volume in &mut short.volumes {
            volume.shown = Shown::Nobody;
        }
        short.encode()
    }
}

/// Settings of the group that the access lists of a member's volumes name. Users that only policies name are not meant.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct NamesUsed {
    /// Policies.
    pub policies: BTreeSet<String>,
    /// CHAP users.
    pub users: BTreeSet<String>,
}

/// A volume of a member.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ListedVolume {
    /// Its name on that member.
    pub name: String,
    /// The name of its target.
    pub iqn: String,
    /// Its serial number: a volume that moves has the same on both members. Members of earlier versions tell none.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub serial: String,
    /// Its size.
    pub size_bytes: u64,
    /// Hosts can use it.
    pub is_online: bool,
    /// Disks that have its data are missing: who had a copy of it must not take this for one. Members of earlier
    /// versions do not tell.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_lost: bool,
    /// Which hosts may be told of it when they ask another member for targets.
    #[serde(default)]
    pub shown: Shown,
}

/// Which hosts other members may tell of a target. Whether a host may log in is asked where the target is.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Shown {
    /// None: nothing was said of it.
    #[default]
    Nobody,
    /// All.
    Everybody,
    /// Those that this list lets in.
    Listed(AccessList),
}

//! Members that are one group.

use std::collections::BTreeMap;
use std::fmt::{self, Debug, Formatter};

use member::GroupShown;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// A group, as one of its members knows it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Group {
    /// Drawn at random when the group was made; 32 hexadecimal digits. It stays when the group is renamed.
    pub id: String,
    /// Its name.
    pub name: String,
    /// The name of the member that was asked.
    pub member: String,
    /// Where that one answers other members.
    #[schema(example = "10.0.0.1:3262")]
    pub door: String,
    /// How many members there are.
    pub members: usize,
    /// The names of those that give no sign of life.
    pub away: Vec<String>,
    /// How many connections hosts have to the volumes of all members that are present, as these have told it within the
    /// last seconds; null before anything was heard of the group.
    #[serde(default)]
    pub connections: Option<u64>,
    /// How many they may have: a login that would be one more is refused. Null where there is no limit, as in a group that
    /// was founded before there were any.
    #[serde(default)]
    pub connections_limit: Option<u32>,
    /// How many they may have to the members of a pool that has no limit of its own; null where there is no limit.
    #[serde(default)]
    pub pool_connections_limit: Option<u32>,
    /// How many they have to each member that is present and tells it, by the names of members.
    #[serde(default)]
    pub member_connections: BTreeMap<String, u32>,
    /// The address at which hosts find the volumes of all members, with the length of the prefix of its network; null
    /// where the group has none.
    #[serde(default)]
    #[schema(example = "10.0.0.100/24")]
    pub address: Option<String>,
    /// The name of the member that has this address now; null while none has, and while that is not known.
    #[serde(default)]
    pub address_member: Option<String>,
    /// Why the address does not come to the member that was asked, or is of no use there; null while it could.
    #[serde(default)]
    pub address_fault: Option<String>,
    /// Where the member that was asked answers for the management of the group while it has the address; null where it
    /// does not, and where the group has no address.
    #[serde(default)]
    #[schema(example = "https://10.0.0.100:8443")]
    pub management: Option<String>,
    /// Why it does not, although the address may come to it; null where it does, and where the group has no address.
    #[serde(default)]
    pub management_fault: Option<String>,
    /// The names of the members that run the store of the group.
    pub store: Vec<String>,
    /// Why the store cannot be reached, so that nothing of the group changes; null while it can.
    pub store_fault: Option<String>,
    /// Why the part of the store that this member runs does not run; null while it does, and where it runs none. The
    /// store answers all the same while more than half of its parts run.
    pub store_part_fault: Option<String>,
    /// The settings of this member are those of the group: policies, CHAP users, what volumes prove, accounts, tokens and
    /// destinations of events.
    #[serde(default)]
    pub shares: bool,
    /// What this member has set in another way than the group, so that it keeps settings of its own.
    #[serde(default)]
    pub settings_differ: Vec<String>,
    /// Why this member cannot take over what is set for the group, so that it goes on with what was set before; null
    /// while it can.
    #[serde(default)]
    pub settings_fault: Option<String>,
}

impl From<member::GroupState> for Group {
    fn from(state: member::GroupState) -> Self {
        let (now, pool_limit) = match state.connections {
            Some(member::GroupConnections { now, pool_limit }) => (Some(now), pool_limit),
            None => (None, None),
        };
        Self {
            connections: now.as_ref().map(|now| now.taken),
            connections_limit: now.as_ref().and_then(|now| now.limit),
            pool_connections_limit: pool_limit,
            member_connections: now.map(|now| now.members).unwrap_or_default(),
            id: state.id,
            name: state.name,
            member: state.here,
            door: state.door.to_string(),
            members: state.members,
            away: state.away,
            address: state.address.map(|address| address.to_string()),
            address_member: state.address_member,
            address_fault: state.address_fault,
            // The interface knows where it listens.
            management: None,
            management_fault: None,
            store: state.store,
            store_fault: state.store_fault,
            store_part_fault: state.store_part_fault,
            shares: state.shares,
            settings_differ: state.settings_differ,
            settings_fault: state.settings_fault,
        }
    }
}

/// What a member tells of its group: there may be none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum KnownGroup {
    /// It is in none.
    None,
    /// It was in one, and cannot be now: a sentence.
    Broken(String),
    /// It is in one.
    In(Box<Group>),
}

impl From<GroupShown> for KnownGroup {
    fn from(shown: GroupShown) -> Self {
        match shown {
            GroupShown::None => Self::None,
            GroupShown::Broken(why) => Self::Broken(why),
            GroupShown::In(state) => Self::In(Box::new((*state).into())),
        }
    }
}

/// A group to be made, whose first member is the one that is asked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewGroup {
    /// 1 to 63 letters, digits, `-`, `.` or `_`.
    pub name: String,
    /// What this member is called in it: 1 to 63 letters, digits, `-`, `.` or `_`. If it is left out, as its machine
    /// is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub member: Option<String>,
    /// Where the other members reach this one: `ADDR` or `ADDR:PORT`. The port is the first of five in a row; 3262 if
    /// it is left out.
    #[schema(example = "10.0.0.1:3262")]
    pub listen: String,
    /// The address at which hosts find the volumes of all members, with the length of the prefix of its network. If it is
    /// left out, the group has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(example = "10.0.0.100/24")]
    pub address: Option<String>,
}

/// By what the group is known to who manages it at its address.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct GroupCertificate {
    /// The certificate of the group's authority, in PEM. Each member that has the address proves the group by one that
    /// this has issued for the address.
    pub certificate: String,
    /// The SHA-256 of it, in hexadecimal digits.
    pub certificate_sha256: String,
}

/// The address that a group is to have.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewGroupAddress {
    /// An address that no server has, in a network in which members have theirs, with the length of the prefix of that.
    #[schema(example = "10.0.0.100/24")]
    pub address: String,
}

/// How many connections of hosts a group takes: a number, or a profile.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, rename_all = "snake_case")]
pub enum GroupConnections {
    /// So many to all members together, 1 to 4,194,304; the limits of pools stay.
    Limit(u32),
    /// So many as the profile has, for the group and for pools without a limit of their own.
    Profile(ConnectionsProfile),
}

/// Limits for a size of arrays.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum ConnectionsProfile {
    /// 4,096 for the group and 1,024 for a pool, as in a new group.
    Default,
    /// 512 for the group and 256 for a pool.
    Small,
    /// No limit for the group and for pools without a limit of their own: each member takes what its own bound says.
    None,
}

/// How many connections of hosts a pool takes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct PoolConnections {
    /// So many to all members of the pool together; null, which has to be written, for as many as pools without a limit of
    /// their own.
    #[serde(deserialize_with = "Option::deserialize")]
    #[schema(required, minimum = 1, maximum = 4_194_304)]
    pub limit: Option<u32>,
}

/// What is to be changed of a group.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct GroupChange {
    /// Another name: 1 to 63 letters, digits, `-`, `.` or `_`.
    pub name: String,
}

/// A token to be made, which lets one server join the group once.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewJoinToken {
    /// How long it is worth something, at most 7 days; a day if it is left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1, maximum = 604_800)]
    pub expires_seconds: Option<u64>,
}

/// A token to join with that was made, with what it is: this is not shown again.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct CreatedJoinToken {
    /// What the server that is to join is given.
    pub token: String,
    /// What it is known by in the group; no secret.
    pub id: String,
    /// From when on it is worth nothing.
    pub expires_unix_seconds: u64,
}

impl Debug for CreatedJoinToken {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        out.debug_struct("CreatedJoinToken").field("id", &self.id).finish_non_exhaustive()
    }
}

/// A token to join with that was made and not used, without what it is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct JoinToken {
    /// What it is known by.
    #[schema(example = "00c0ffee")]
    pub id: String,
    /// When it was made.
    pub created_unix_seconds: u64,
    /// From when on it is worth nothing.
    pub expires_unix_seconds: u64,
}

impl From<member::KeptTicket> for JoinToken {
    fn from(kept: member::KeptTicket) -> Self {
        let member::KeptTicket { id, created_unix_seconds, expires_unix_seconds } = kept;
        Self { id, created_unix_seconds, expires_unix_seconds }
    }
}

/// The group that a member is to join.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct JoinGroup {
    /// Where any member of the group answers members: `ADDR` or `ADDR:PORT`; the port is 3262 if it is left out.
    #[schema(example = "10.0.0.1:3262")]
    pub group: String,
    /// What `POST /v1/group/tokens` gave at a member of the group.
    pub token: String,
    /// What this member is to be called in it: 1 to 63 letters, digits, `-`, `.` or `_`. If it is left out, as its
    /// machine is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub member: Option<String>,
    /// Where the other members reach this one: `ADDR` or `ADDR:PORT`. The port is the first of five in a row; 3262 if
    /// it is left out.
    #[schema(example = "10.0.0.2:3262")]
    pub listen: String,
    /// What the group has set comes in the place of what this member has. It gives the group only policies and CHAP
    /// users that its access lists need. If it is left out, and the member has set something in another way than the
    /// group, it keeps settings of its own.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub replace_settings: bool,
}

impl Debug for JoinGroup {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        out.debug_struct("JoinGroup")
            .field("group", &self.group)
            .field("member", &self.member)
            .field("listen", &self.listen)
            .field("replace_settings", &self.replace_settings)
            .finish_non_exhaustive()
    }
}

/// How a member is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum MemberState {
    /// It was admitted and has not been there yet.
    Joining,
    /// It gives signs of life.
    Present,
    /// It gives none.
    Away,
    /// The store of the group does not answer, so nobody knows.
    Unknown,
}

impl MemberState {
    /// The word for it, as in JSON.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Joining => "joining",
            Self::Present => "present",
            Self::Away => "away",
            Self::Unknown => "unknown",
        }
    }
}

impl From<member::MemberState> for MemberState {
    fn from(theirs: member::MemberState) -> Self {
        match theirs {
            member::MemberState::Joining => Self::Joining,
            member::MemberState::Present => Self::Present,
            member::MemberState::Away => Self::Away,
            member::MemberState::Unknown => Self::Unknown,
        }
    }
}

/// A member of a group.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Member {
    /// Its number, which no other member of the group ever has.
    pub number: u16,
    /// Its name.
    pub name: String,
    /// How it is.
    pub state: MemberState,
    /// It is the one that was asked.
    pub here: bool,
    /// Where it answers other members.
    #[schema(example = "10.0.0.1:3262")]
    pub door: String,
    /// Where hosts reach it.
    pub portals: Vec<String>,
    /// How many volumes it has.
    pub volumes: usize,
    /// The version of drystone that it runs.
    pub version: String,
    /// When it was admitted.
    pub joined_unix_seconds: u64,
    /// It runs a part of the store of the group.
    pub store: bool,
    /// The pool that it is in.
    #[serde(default)]
    pub pool: String,
    /// What a new volume of its array's usual level may take there.
    #[serde(default)]
    pub free_bytes: u64,
    /// What all volumes of that level may take there.
    #[serde(default)]
    pub capacity_bytes: u64,
    /// Its settings are those of the group; null while nothing was heard of that.
    #[serde(default)]
    pub shares: Option<bool>,
}

/// What is to be changed of a member.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct MemberChange {
    /// Another pool.
    pub pool: String,
}

/// Members of a group among which new volumes are shared out.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Pool {
    /// Its name. Members that were put into no other one are in `default`, which is always there.
    pub name: String,
    /// The names of its members.
    pub members: Vec<String>,
    /// How many of them give signs of life.
    pub present: usize,
    /// How many volumes they have.
    pub volumes: usize,
    /// What new volumes of the usual level may take on all of them. Each is whole on one member.
    pub free_bytes: u64,
    /// What all volumes of that level may take there.
    pub capacity_bytes: u64,
    /// How many connections hosts have to those that are present, as these have told it within the last seconds.
    #[serde(default)]
    pub connections: u64,
    /// How many they may have: a login that would be one more is refused. Null where there is no limit.
    #[serde(default)]
    pub connections_limit: Option<u32>,
    /// That limit was set for this pool; else it is that of all pools for which none was, if there is one.
    #[serde(default)]
    pub own_connections_limit: bool,
    /// How many they have to each member that is present and tells it, by the names of members.
    #[serde(default)]
    pub member_connections: BTreeMap<String, u32>,
}

impl From<member::PoolShown> for Pool {
    fn from(shown: member::PoolShown) -> Self {
        let member::PoolShown { name, members, present, volumes, .. } = shown;
        Self {
            name,
            members,
            present,
            volumes,
            free_bytes: shown.free_bytes,
            capacity_bytes: shown.capacity_bytes,
            connections: shown.connections.taken,
            connections_limit: shown.connections.limit,
            own_connections_limit: shown.has_own_limit,
            member_connections: shown.connections.members,
        }
    }
}

/// A pool to be made, which has no members at first.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewPool {
    /// 1 to 63 letters, digits, `-`, `.` or `_`.
    pub name: String,
}

/// Which pool the members of one are to be in, which is no more then.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct PoolMerge {
    /// The name of that pool.
    pub into: String,
}

/// How the settings of a member become those of the group.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ShareSettings {
    /// What the group has set comes in the place of what the member has, which gives the group only policies and CHAP
    /// users that its access lists need. If it is left out, nothing is changed where both differ.
    #[serde(default)]
    pub replace: bool,
}

impl From<member::MemberShown> for Member {
    fn from(shown: member::MemberShown) -> Self {
        Self {
            number: shown.number.0,
            name: shown.name,
            state: shown.state.into(),
            here: shown.is_here,
            door: shown.door.to_string(),
            portals: shown.portals.iter().map(ToString::to_string).collect(),
            volumes: shown.volumes,
            version: shown.version,
            joined_unix_seconds: shown.joined_unix_seconds,
            store: shown.store,
            pool: shown.pool,
            free_bytes: shown.free_bytes,
            capacity_bytes: shown.capacity_bytes,
            shares: shown.shares,
        }
    }
}

/// A volume, and the member that serves it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct GroupVolume {
    /// The name of the member.
    pub member: String,
    /// How that member is.
    pub member_state: MemberState,
    /// The name of the volume on that member.
    pub name: String,
    /// The name of its target.
    pub iqn: String,
    /// Its size.
    pub size_bytes: u64,
    /// Hosts can use it, as that member told last.
    pub online: bool,
}

impl From<member::VolumeOfMember> for GroupVolume {
    fn from(theirs: member::VolumeOfMember) -> Self {
        let member::VolumeOfMember { member, state, volume } = theirs;
        // Whom discovery may tell of it is for members.
        let group::membership::ListedVolume { name, iqn, size_bytes, is_online, .. } = volume;
        Self { member, member_state: state.into(), name, iqn, size_bytes, online: is_online }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_to_join_with_are_not_shown() {
        let made = CreatedJoinToken {
            token: "hush".to_owned(),
            id: "00c0ffee".to_owned(),
            expires_unix_seconds: 7,
        };
        let join = JoinGroup {
            group: "192.0.2.1:3262".to_owned(),
            token: "hush".to_owned(),
            member: Some("san2".to_owned()),
            listen: "192.0.2.2".to_owned(),
            replace_settings: true,
        };
        let shown = format!("{made:?} {join:?}");
        assert!(shown.contains("00c0ffee") && shown.contains("192.0.2.1:3262"), "{shown}");
        assert!(shown.contains("san2") && !shown.contains("hush"), "{shown}");
    }

    #[test]
    fn states_are_written_as_their_words() {
        for state in
            [MemberState::Joining, MemberState::Present, MemberState::Away, MemberState::Unknown]
        {
            assert_eq!(serde_json::to_value(state).unwrap(), state.word());
        }
    }
}

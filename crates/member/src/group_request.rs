//! What can be asked of a member about its group, and what it answers.

use std::collections::BTreeMap;
use std::fmt::{self, Debug, Formatter};
use std::net::SocketAddr;
use std::time::Duration;

use group::address::GroupAddress;
use group::connections::{ConnectionLimit, GroupLimit};
use group::membership::{Applicant, ListedVolume, Roll};
use group::ownership::MemberId;
use group::pki::Ticket;
use zeroize::Zeroizing;

use crate::current::Current;

/// About the group of members.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names of the fields say what they are")]
pub enum GroupRequest {
    /// → [`GroupShown`], also of a member that is in none.
    Show,
    /// Make a group whose first member this one is → [`GroupShown`].
    Create {
        name: String,
        member: Option<String>,
        listen: SocketAddr,
        address: Option<GroupAddress>,
    },
    /// → [`GroupShown`].
    Rename { name: String },
    /// The address at which hosts find all members, or that there is none → [`GroupShown`].
    SetAddress { address: Option<GroupAddress> },
    /// How many connections of hosts the group takes → [`GroupShown`].
    SetConnections { limit: GroupLimit },
    /// End the group, whose last member this one is.
    Delete,
    /// → [`JoinTicket`].
    CreateTicket { lifetime: Duration },
    /// The tickets that were made and not used → [`KeptTicket`]s.
    Tickets,
    /// Make a ticket worthless.
    RevokeTicket { id: String },
    /// What this member is, for a group that it is to join; refused where it cannot join any → [`Applicant`], without
    /// a certificate.
    Prepare { member: Option<String>, listen: SocketAddr },
    /// A server at the door of members asks to be let in → [`Admission`].
    Admit { id: String, secret: SecretWord, applicant: Applicant },
    /// Join the group that has admitted this member; with `replace_settings` its own give way to the group's →
    /// [`GroupShown`].
    Join { applicant: Applicant, admission: Box<Admission>, replace_settings: bool },
    /// Have the settings of this member be the group's, which it has not done by itself as they differ; with `replace`
    /// those of the group are taken for its own → [`GroupShown`].
    Share { replace: bool },
    /// → [`MemberShown`]s.
    Members,
    /// Let a member go, which keeps its array; with `despite_moves` also one that has a part in moving volumes, and with
    /// `despite_spreads` one that volumes lie on which lie on other members too: they are lost.
    Remove { member: String, despite_moves: bool, despite_spreads: bool },
    /// What all members serve → [`VolumeOfMember`]s.
    Volumes,
    /// Into which pools the members are grouped → [`PoolShown`]s.
    Pools,
    /// → [`PoolShown`].
    ShowPool { name: String },
    /// A pool that has no members yet → [`PoolShown`].
    CreatePool { name: String },
    /// It has no members any more.
    DeletePool { name: String },
    /// All members of `from` are of `into` from now on, and `from` is gone → that of `into`.
    MergePool { from: String, into: String },
    /// How many connections of hosts a pool takes; `None` as pools do without a limit of their own → [`PoolShown`].
    SetPoolConnections { name: String, limit: Option<ConnectionLimit> },
    /// Volumes that the member has stay there.
    MoveMember { member: String, pool: String },
}

/// A word that is not shown.
#[derive(Clone, PartialEq, Eq)]
pub struct SecretWord(pub Zeroizing<String>);

impl Debug for SecretWord {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        out.write_str("SecretWord(..)")
    }
}

/// What a server needs to be a member.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Admission {
    /// The group's identity, 32 hexadecimal digits.
    pub group: String,
    /// Its name.
    pub group_name: String,
    /// The number that the new member has.
    pub member: MemberId,
    /// The certificate of the group's authority, in PEM.
    pub authority: String,
    /// Its key.
    pub authority_key: SecretWord,
    /// The certificate of the new member.
    pub certificate: String,
    /// Its key.
    pub key: SecretWord,
    /// Where the store answers.
    pub endpoints: Vec<String>,
    /// Where other members may know where it does, when none of those answers any more.
    pub further_endpoints: Vec<String>,
}

/// A ticket that was made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JoinTicket {
    /// What the joining server is given.
    pub ticket: Ticket,
    /// From when on it is worth nothing, in seconds since 1970 (UTC).
    pub expires_unix_seconds: u64,
}

/// What is kept of a ticket: not its secret. It may have expired.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeptTicket {
    /// By which it is revoked: 8 hexadecimal digits.
    pub id: String,
    /// When it was made, in seconds since 1970 (UTC).
    pub created_unix_seconds: u64,
    /// From when on it is worth nothing, in seconds since 1970 (UTC).
    pub expires_unix_seconds: u64,
}

/// The group as a member knows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum GroupShown {
    /// It is in none.
    None,
    /// Its files do not read, or it cannot be in it for another reason: a sentence.
    Broken(String),
    /// It is in one.
    In(Box<GroupState>),
}

/// A group that a member is in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GroupState {
    /// Its identity, 32 hexadecimal digits.
    pub id: String,
    /// Its name.
    pub name: String,
    /// The name of the member that was asked.
    pub here: String,
    /// Where that one answers members.
    pub door: SocketAddr,
    /// How many members there are.
    pub members: usize,
    /// The names of those that are not present.
    pub away: Vec<String>,
    /// How many connections of hosts there are, and may be; `None` before anything was heard of the group.
    pub connections: Option<GroupConnections>,
    /// The address at which hosts find all members, if it has one.
    pub address: Option<GroupAddress>,
    /// The name of the member that has it now; `None` where none has, and where that is not known.
    pub address_member: Option<String>,
    /// Why it does not come to the member that was asked, or is of no use there; `None` while it could.
    pub address_fault: Option<String>,
    /// Why the store cannot be reached; `None` while it is.
    pub store_fault: Option<String>,
    /// Why the part of the store that this member runs does not run, for some seconds at least; `None` while it does,
    /// and where it has none.
    pub store_part_fault: Option<String>,
    /// The names of the members that run the store.
    pub store: Vec<String>,
    /// The settings of the member that was asked are those that the members have in common.
    pub shares: bool,
    /// What of its own differs from those, so that it keeps its own: a few words each.
    pub settings_differ: Vec<String>,
    /// Why what is set for the group is not taken over here; `None` while it is, and where settings differ.
    pub settings_fault: Option<String>,
}

/// A member of the group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MemberShown {
    /// Its number.
    pub number: MemberId,
    /// Its name.
    pub name: String,
    /// How it is.
    pub state: MemberState,
    /// It is the one that was asked.
    pub is_here: bool,
    /// Where it answers members.
    pub door: SocketAddr,
    /// Where hosts reach it.
    pub portals: Vec<SocketAddr>,
    /// How many volumes it has.
    pub volumes: usize,
    /// The version of drystone that it runs.
    pub version: String,
    /// When it was admitted, in seconds since 1970 (UTC).
    pub joined_unix_seconds: u64,
    /// It runs a part of the store.
    pub store: bool,
    /// The pool that it is of.
    pub pool: String,
    /// What a new volume there may take; 0 also before that was heard.
    pub free_bytes: u64,
    /// What its volumes of the array's usual level have, and what is free for them; 0 before that was heard.
    pub capacity_bytes: u64,
    /// Its settings are the group's; `None` before that was heard.
    pub shares: Option<bool>,
}

/// A pool: members of which one is chosen for a new volume.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PoolShown {
    /// Its name.
    pub name: String,
    /// The names of its members.
    pub members: Vec<String>,
    /// How many of them are present.
    pub present: usize,
    /// How many volumes all of them have.
    pub volumes: usize,
    /// What is free at those that are present.
    pub free_bytes: u64,
    /// What the volumes of all of them have, and what is free.
    pub capacity_bytes: u64,
    /// How many connections hosts have to those that are present, and may have.
    pub connections: ConnectionsShown,
    /// That limit is the pool's own.
    pub has_own_limit: bool,
}

/// Connections of hosts to members that are under one limit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConnectionsShown {
    /// How many there may be; `None` where there is no limit.
    pub limit: Option<u32>,
    /// How many there are, as members have told it last.
    pub taken: u64,
    /// Of each member that is present and tells it, by name.
    pub members: BTreeMap<String, u32>,
}

/// Connections of hosts to all members of a group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GroupConnections {
    /// How many there are, and may be.
    pub now: ConnectionsShown,
    /// How many there may be to a pool that has no limit of its own; `None` where there is no limit.
    pub pool_limit: Option<u32>,
}

/// How a member is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MemberState {
    /// It was admitted and has not been there yet.
    Joining,
    /// It gives signs of life.
    Present,
    /// It gives none.
    Away,
    /// The store does not answer, so nobody knows.
    Unknown,
}

/// A volume, and whose it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VolumeOfMember {
    /// The name of the member.
    pub member: String,
    /// How that member is.
    pub state: MemberState,
    /// The volume.
    pub volume: ListedVolume,
}

/// What it takes to answer at the door of members.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Door {
    /// Where.
    pub address: SocketAddr,
    /// The certificate of the group's authority, in PEM.
    pub authority: String,
    /// The member's own certificate, which that has issued.
    pub certificate: String,
    /// Its key.
    pub key: SecretWord,
}

/// The door of members as it is to be now, for any thread; `None` where the member is in no group.
pub type CurrentDoor = Current<Door>;

/// The group as a member knows it at one moment, and what it takes to ask other members.
#[derive(Debug, Clone)]
pub struct RollNow {
    /// The number of this member, which is among those of the roll.
    pub me: MemberId,
    /// Its name.
    pub name: String,
    /// The members, as they were heard of last; what this one serves is as it is here, which may be newer than what it
    /// has told the others.
    pub roll: Roll,
    /// Why nothing is heard of the group now, so that the roll may be old; `None` while all is heard.
    pub store_fault: Option<String>,
    /// The certificate of the group's authority, in PEM.
    pub authority: String,
    /// The member's own certificate, which that has issued.
    pub certificate: String,
    /// Its key.
    pub key: SecretWord,
}

/// The address of the group, as this member stands to it at one moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AddressNow {
    /// Who comes there means the group, and no member by itself.
    pub address: GroupAddress,
    /// Whether this member answers there whoever manages the group.
    pub answering: Answering,
}

/// Whether a member answers at the address of its group whoever manages that.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answering {
    /// It does: the address is here.
    Here(AddressProof),
    /// Not now: the address is not here, or the member is about to be none.
    Elsewhere,
    /// Not although the address may come to it: a sentence why.
    Never(String),
}

/// What is proved to who comes to the address of the group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AddressProof {
    /// The certificate that this member has made for the address by the group's authority, in PEM.
    pub certificate: String,
    /// Its key.
    pub key: SecretWord,
}

/// The address of the group as it stands now, for any thread; `None` where the member is in no group, or that has none.
pub type CurrentAddress = Current<AddressNow>;

/// What other threads go by of the group that a member is in.
#[derive(Debug, Clone, Default)]
pub(crate) struct OfGroup {
    pub(crate) door: CurrentDoor,
    pub(crate) roll: CurrentRoll,
    pub(crate) address: CurrentAddress,
}

/// The group as it is known now, for any thread; `None` where the member is in no group, is leaving or ends, and before
/// anything was heard of the group since its start: then what is asked is answered by this member alone.
pub type CurrentRoll = Current<RollNow>;

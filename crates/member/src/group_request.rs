//! What can be asked of a member about its group, and what it answers.

use std::fmt::{self, Debug, Formatter};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use group::membership::{Applicant, ListedVolume};
use group::ownership::MemberId;
use group::pki::Ticket;
use zeroize::Zeroizing;

/// About the group of members.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names of the fields say what they are")]
pub enum GroupRequest {
    /// → [`GroupShown`], also of a member that is in none.
    Show,
    /// Make a group whose first member this one is → [`GroupShown`].
    Create { name: String, member: Option<String>, listen: SocketAddr },
    /// → [`GroupShown`].
    Rename { name: String },
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
    /// Join the group that has admitted this member → [`GroupShown`].
    Join { applicant: Applicant, admission: Box<Admission> },
    /// → [`MemberShown`]s.
    Members,
    /// Let a member go, which keeps its array.
    Remove { member: String },
    /// What all members serve → [`VolumeOfMember`]s.
    Volumes,
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
    /// Why the store cannot be reached; `None` while it is.
    pub store_fault: Option<String>,
    /// Why the part of the store that this member runs does not run, for some seconds at least; `None` while it does,
    /// and where it has none.
    pub store_part_fault: Option<String>,
    /// The names of the members that run the store.
    pub store: Vec<String>,
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

type Heard = Box<dyn Fn() + Send>;

/// The door of members as it is to be now, for any thread; `None` where the member is in no group.
#[derive(Clone, Default)]
pub struct CurrentDoor(Arc<Mutex<DoorNow>>);

#[derive(Default)]
struct DoorNow {
    door: Option<Arc<Door>>,
    heard: Option<Heard>,
}

impl Debug for CurrentDoor {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        out.debug_tuple("CurrentDoor").field(&self.now()).finish()
    }
}

impl CurrentDoor {
    fn held(&self) -> MutexGuard<'_, DoorNow> {
        // Each change is one assignment.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// As it is at this moment.
    #[must_use]
    pub fn now(&self) -> Option<Arc<Door>> {
        self.held().door.clone()
    }

    /// From now on it is this one.
    pub fn replace(&self, door: Option<Door>) {
        let mut now = self.held();
        now.door = door.map(Arc::new);
        if let Some(heard) = &now.heard {
            heard();
        }
    }

    /// `heard` is called with each change from now on, under a lock: it must neither wait nor ask.
    pub fn on_change(&self, heard: impl Fn() + Send + 'static) {
        self.held().heard = Some(Box::new(heard));
    }
}

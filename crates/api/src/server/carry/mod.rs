//! Members that are managed as one: what one of them is asked, another one does where it is that one's to do.
//!
//! ```text
//!  who asks ─▶ admit ─▶ way: whose is it? ─▶ here
//!                           │
//!                           ╰▶ send ══ TLS 1.3, both prove who they are ══▶ entrance ─▶ admission ─▶ there
//! ```
//!
//! 1. Each member answers the others at the last of its ports. Who comes there shows a certificate of the group's
//!    authority, which has to be that of another member in the roll as it is now: who was removed has no way in,
//!    whatever its certificate says. The other way round, who sends says nothing before the one that it means has proved
//!    that it is that one.
//! 2. Who asks was let in where it asked. The sending member says who that is ([`Behalf`]) and what it may do; that is
//!    held against the role of the route once more. The audit logs of both have what was changed.
//! 3. What a member asks for itself, as a volume moves, names nobody: it is answered on paths of its own, which are not
//!    those of the interface ([`OwnLine`]).
//! 4. What was carried is done where it came, or refused there. It is never carried on, and nothing is carried twice:
//!    where an answer is lost, whoever asked hears that nobody knows what came of it.
//!
//! Members come from [`CurrentRoll`](member::CurrentRoll), which waits for nobody: nothing here asks the store.

mod admission;
mod behalf;
mod doubt;
mod entrance;
mod error;
mod fetch;
mod gather;
mod lines;
mod looking;
mod naming;
mod own_line;
mod placing;
mod send;
#[cfg(test)]
mod tests;
mod tls;
mod way;
mod whereabouts;
mod whose;

use std::net::SocketAddr;

use axum::http::HeaderName;
use group::membership::{CARRIED_BEHIND, MemberRecord, Roll};
use group::ownership::MemberId;
use member::RollNow;

pub(super) use admission::{AskingMember, admit_carried, admit_member};
pub(super) use behalf::{Behalf, Carried};
pub(super) use entrance::attend;
pub(super) use fetch::{Budget, fetch};
pub(super) use gather::{Meant, OfMember, count_elsewhere, gather, gather_with, here, one_here};
pub(super) use lines::Lines;
pub(super) use own_line::{OwnError, OwnLine};
pub(super) use send::send;
pub(super) use way::carry;
pub(super) use whereabouts::Whereabouts;

pub(super) use crate::headers::MEMBER;

/// In a request between members: who asks.
const ON_BEHALF: HeaderName = HeaderName::from_static("drystone-on-behalf");

/// In an answer between members: it was given before, and nothing was done.
const REPEATED: HeaderName = HeaderName::from_static("drystone-repeated");

/// How far behind the door of a member the port is at which it answers others of its group: the last of its own.
const PORT_OFFSET: u16 = CARRIED_BEHIND;

/// The other member that has answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct AnsweredBy(pub(super) String);

/// Where a member answers others of its group; `None` of one of earlier versions that has no port left for it, or has
/// another member behind the ports that it had then.
fn address(roll: &Roll, record: &MemberRecord) -> Option<SocketAddr> {
    let port = record.port.checked_add(PORT_OFFSET)?;
    let has_it = |other: &MemberRecord| {
        let behind = port.checked_sub(other.port);
        other.address == record.address && behind.is_some_and(|behind| behind < PORT_OFFSET)
    };
    if roll.members.values().any(has_it) {
        return None;
    }
    Some(SocketAddr::new(record.address, port))
}

/// The other member whose certificate has this SHA-256, as the group is now.
fn member_of<'a>(now: &'a RollNow, sha256: &[u8; 32]) -> Option<(MemberId, &'a MemberRecord)> {
    let digits: String = sha256.iter().map(|byte| format!("{byte:02x}")).collect();
    let mut all = now.roll.members.iter();
    let found = all.find(|(_, record)| record.certificate_sha256.eq_ignore_ascii_case(&digits));
    let (number, record) = found.filter(|(number, _)| **number != now.me)?;
    Some((*number, record))
}

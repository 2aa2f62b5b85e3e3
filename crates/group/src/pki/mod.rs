//! By what the members of a group know each other: certificates (X.509, RFC 5280) of the group's own authority.
//!
//! ```text
//!   Authority ──issue──▶ Issued: the certificate and the key of one member
//!       │                  │ at the door of members it presents [its certificate, the authority's]
//!       ├──issue for the group──▶ Issued: for its address, by whichever member has that; no member proves itself by it
//!       ╰─ its SHA-256 ─▶ Ticket ─▶ a server that joins trusts exactly the chain that ends there
//! ```
//!
//! 1. A group has one authority, which is made with it and stays. Nobody else vouches for a member, and it vouches for
//!    nothing but members of this group, and the group itself at its address.
//! 2. Every member has the key of the authority, so that each can let another server in when the first one is gone.
//!    What a member is worth to a thief is therefore the group: a member that was removed still has the key.
//! 3. The key of a member is made with its certificate, and travels to a joining server over the connection on which
//!    that server has proved its ticket.
//! 4. A certificate is valid for what [`SERVER_NAME`] names, besides the address of its member: who has only a ticket
//!    asks for that name, at whatever address it was told. That of the group's address has not this name, and is for a
//!    server alone: it opens no port of members, at either end.
//!
//! How certificates are checked over TLS is up to the room that speaks it. This is the one module of this room that
//! looks at the clock of the system: a certificate says from when on it is valid.

mod authority;
mod error;
mod ticket;

use sha2::{Digest, Sha256};

use crate::secrets::hex;

pub use authority::{Authority, Issued, is_over, only_certificate};
pub use error::PkiError;
pub use ticket::{Ticket, TicketError};

/// The name that every member's certificate is valid for. No DNS has it (`internal` is reserved for private use).
pub const SERVER_NAME: &str = "member.drystone.internal";

/// What a certificate is known by: the SHA-256 of its DER, in hexadecimal digits.
#[must_use]
pub fn fingerprint(der: &[u8]) -> String {
    hex::encode(&Sha256::digest(der))
}

#[cfg(test)]
mod tests;

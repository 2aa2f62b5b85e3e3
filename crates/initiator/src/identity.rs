//! Who a session says it is: its ISID, and the right to have it.

use std::fmt;
use std::io;
use std::net::IpAddr;

use iscsi::discovery::PortalAddress;
use iscsi::pdu::Isid;

use crate::address::TargetAddress;

/// Gives the sessions of a plan their ISIDs. A session that gets the ISID of one that ended without
/// a logout, between the same ports, ends what is left of that at the target with its login (RFC 7143
/// 6.3.5); so the same ends should get the same ISID again (RFC 7143 4.4.3). No two sessions that
/// live at one time may have the same.
pub trait Identities: fmt::Debug + Send + Sync {
    /// An identity for one more session to `volume`, from the address `local` to its portal. Called
    /// on the core of the disk: it should take no longer than a few file operations.
    ///
    /// # Errors
    /// A [`ClaimError`]; the session is then not opened.
    fn claim(&self, volume: &TargetAddress, local: Option<IpAddr>) -> Result<Identity, ClaimError>;

    /// The sessions to `volume` that nobody has any more and that did not log out: what they sent
    /// may still be done. Nobody else gets their ISIDs while they are held.
    ///
    /// # Errors
    /// A [`ClaimError`]; the volume is then not attached.
    fn leftovers(&self, volume: &TargetAddress) -> Result<Vec<Leftover>, ClaimError>;
}

/// An ISID, for as long as this lives.
#[derive(Debug)]
pub struct Identity {
    /// To log in with.
    pub isid: Isid,
    /// What keeps others from having it; dropped when the session has ended.
    pub hold: Box<dyn Hold>,
}

/// A session that ended without a logout.
#[derive(Debug)]
pub struct Leftover {
    /// What it had logged in with.
    pub isid: Isid,
    /// Where it was, and where something of it may have been left before, each with the tag of the
    /// portal group if the target told it: in each of these groups it has to be ended.
    pub places: Vec<PortalAddress>,
    /// What keeps others from having the ISID.
    pub hold: Box<dyn Hold>,
}

/// The right to an ISID, and what is noted of the session that has it.
pub trait Hold: fmt::Debug + Send {
    /// The session, or what may still be under way of it, is at these `places` and nowhere else, each
    /// with the tag of its portal group. There are several after a login that ended in another group,
    /// until what the first one had is over. Called before anything is written there.
    ///
    /// # Errors
    /// Those of the system; the session is then not used.
    fn logged_in(&self, places: &[PortalAddress]) -> io::Result<()>;

    /// Nothing of the session is left at the target.
    fn logged_out(&self);
}

/// Why there is no identity.
#[derive(Debug, thiserror::Error)]
pub enum ClaimError {
    /// All are taken.
    #[error("this host has {0} sessions already, and may have no more")]
    Full(u32),
    /// It cannot be noted which are.
    #[error("cannot note which sessions this host has: {0}")]
    Io(#[from] io::Error),
}

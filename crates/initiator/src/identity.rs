//! Who a session says it is: its ISID, and the right to have it.

use std::any::Any;
use std::fmt;
use std::io;
use std::net::IpAddr;

use iscsi::discovery::PortalAddress;
use iscsi::pdu::Isid;
use iscsi::text::IscsiName;

/// Gives the sessions of a plan their ISIDs. A session that gets the ISID of one that ended without
/// a logout, between the same ports, ends what is left of that at the target with its login (RFC 7143
/// 6.3.5); so the same ends should get the same ISID again (RFC 7143 4.4.3). No two sessions that
/// live at one time may have the same.
pub trait Identities: fmt::Debug + Send + Sync {
    /// An identity for one more session to `target`, from the address `local` to `portal`. Called on
    /// the core of the disk: it should take no longer than a few file operations.
    ///
    /// # Errors
    /// A [`ClaimError`]; the session is then not opened.
    fn claim(
        &self,
        target: &IscsiName,
        local: Option<IpAddr>,
        portal: &PortalAddress,
    ) -> Result<Identity, ClaimError>;
}

/// An ISID, for as long as this lives.
#[derive(Debug)]
pub struct Identity {
    /// To log in with.
    pub isid: Isid,
    /// What keeps others from having it; dropped when the session has ended.
    pub hold: Box<dyn Any + Send>,
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

//! Why there is no certificate.

use std::net::IpAddr;

/// Why an authority or a certificate cannot be made or used. None of it shows a key.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PkiError {
    /// The keys or certificates cannot be made.
    #[error("a certificate of the group cannot be made: {0}")]
    Made(#[from] rcgen::Error),
    /// What should be the certificate of the authority is none.
    #[error("the certificate of the group's authority does not read: {0}")]
    Certificate(String),
    /// It is a certificate, of somebody else.
    #[error("the certificate is none of a group's authority")]
    NoAuthority,
    /// What should be the key of the authority is none.
    #[error("the key of the group's authority does not read: it is no private key in PEM")]
    Key,
    /// It is the key of somebody else.
    #[error("the key does not belong to the certificate of the group's authority")]
    OtherKey,
    /// The time of the authority is over, or so the clock says.
    #[error(
        "the group's authority issues nothing any more, as its time is over: is the clock right?"
    )]
    Over,
    /// No certificate can be made out to it.
    #[error("'{0}' cannot be the name in a certificate: write 1 to 64 characters")]
    Name(String),
    /// Nobody can be reached there.
    #[error("'{0}' cannot be the address of a member: it is none of a single machine")]
    Address(IpAddr),
}

//! The other end of a connection.

use std::fmt;
use std::net::SocketAddr;

use tokio::net::UnixStream;

/// The other end of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Peer {
    /// A process of this machine, at the socket.
    Process {
        /// The number of its user; of nobody, if the kernel does not tell.
        uid: u32,
        /// Its own number.
        pid: Option<i32>,
    },
    /// Somebody at this address, over TLS.
    Remote(SocketAddr),
}

impl Peer {
    pub(super) fn of(stream: &UnixStream) -> Self {
        match stream.peer_cred() {
            Ok(credentials) => Self::Process { uid: credentials.uid(), pid: credentials.pid() },
            Err(_) => Self::Process { uid: u32::MAX, pid: None },
        }
    }
}

impl fmt::Display for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Process { uid, pid: None } => write!(f, "user {uid}"),
            Self::Process { uid, pid: Some(pid) } => write!(f, "user {uid} (process {pid})"),
            Self::Remote(address) => write!(f, "{}", address.ip().to_canonical()),
        }
    }
}

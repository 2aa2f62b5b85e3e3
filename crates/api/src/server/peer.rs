//! The other end of a connection.

use std::fmt;
use std::fs;
use std::net::SocketAddr;

use member::audit::Actor;
use rustls::pki_types::CertificateDer;
use sha2::{Digest, Sha256};
use tokio::net::UnixStream;

/// Where those come from who ask at the socket.
const SOCKET: &str = "control socket";

/// Where the names of users stand.
const USERS: &str = "/etc/passwd";

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
    /// Another member of the group, who has proved that a certificate is its own.
    Member {
        /// Where it is.
        from: SocketAddr,
        /// The SHA-256 of that certificate.
        certificate: [u8; 32],
    },
}

impl Peer {
    pub(super) fn of(stream: &UnixStream) -> Self {
        match stream.peer_cred() {
            Ok(credentials) => Self::Process { uid: credentials.uid(), pid: credentials.pid() },
            Err(_) => Self::Process { uid: u32::MAX, pid: None },
        }
    }

    /// Who has come from there over TLS, with the certificates that it has shown: members alone are asked for theirs.
    pub(super) fn over_tls(from: SocketAddr, shown: Option<&[CertificateDer<'_>]>) -> Self {
        match shown.and_then(<[_]>::first) {
            Some(own) => Self::Member { from, certificate: Sha256::digest(own).into() },
            None => Self::Remote(from),
        }
    }

    /// As the audit log has it.
    pub(super) fn actor(self) -> Actor {
        let Self::Process { uid, pid } = self else { return Actor::default() };
        let users = fs::read_to_string(USERS).unwrap_or_default();
        Actor { uid: Some(uid), user: user_in(&users, uid), pid, ..Actor::default() }
    }

    /// Where it is, as the audit log has it.
    pub(super) fn place(self) -> String {
        match self {
            Self::Process { .. } => SOCKET.to_owned(),
            Self::Remote(from) | Self::Member { from, .. } => from.to_string(),
        }
    }
}

impl fmt::Display for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Process { uid, pid: None } => write!(f, "user {uid}"),
            Self::Process { uid, pid: Some(pid) } => write!(f, "user {uid} (process {pid})"),
            Self::Remote(from) => write!(f, "{}", from.ip().to_canonical()),
            Self::Member { from, .. } => {
                write!(f, "a member of the group at {}", from.ip().to_canonical())
            }
        }
    }
}

/// The name of a user in the words of [`USERS`]: name, password, number, and more.
fn user_in(users: &str, uid: u32) -> Option<String> {
    users.lines().find_map(|line| {
        let mut words = line.split(':');
        let name = words.next()?;
        let is_it = words.nth(1)?.parse() == Ok(uid);
        is_it.then(|| name.to_owned())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_shows_a_certificate_is_a_member_and_who_shows_none_is_somebody() {
        let from = "192.0.2.1:9".parse().unwrap();
        assert_eq!(Peer::over_tls(from, None), Peer::Remote(from));
        assert_eq!(Peer::over_tls(from, Some(&[])), Peer::Remote(from));
        let shown = [CertificateDer::from(b"own".to_vec()), CertificateDer::from(b"root".to_vec())];
        let certificate = Sha256::digest(b"own").into();
        let member = Peer::over_tls(from, Some(&shown));
        assert_eq!(member, Peer::Member { from, certificate });
        assert_eq!(member.place(), "192.0.2.1:9");
        assert_eq!(member.actor(), Actor::default());
    }

    #[test]
    fn a_user_has_the_name_that_its_number_stands_behind() {
        let users = "root:x:0:0:root:/root:/bin/sh\n#\nada:x:1000:1000::/home/ada:/bin/sh\n";
        assert_eq!(user_in(users, 1000).as_deref(), Some("ada"));
        assert_eq!((user_in(users, 0).as_deref(), user_in(users, 100)), (Some("root"), None));
    }
}

//! Where a member listens over TLS by itself, and what it hears there.

use std::io;
use std::net::{SocketAddr, TcpListener};

use group::address::GroupAddress;
use rustix::net::sockopt::ipv6_v6only;

/// One address at which a member listens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::server) struct Listens {
    pub(super) at: SocketAddr,
    /// One of IPv6 for all addresses hears IPv4 too, if the system does not have it otherwise (`net.ipv6.bindv6only`).
    pub(super) is_v6_only: bool,
}

impl Listens {
    /// Of this listener.
    ///
    /// # Errors
    /// The system does not say.
    pub(in crate::server) fn of(listener: &TcpListener) -> io::Result<Self> {
        let at = listener.local_addr()?;
        Ok(Self { at, is_v6_only: at.is_ipv6() && ipv6_v6only(listener)? })
    }

    /// Whether it hears all addresses of the family that this one is of.
    fn is_of_all_beside(&self, other: SocketAddr) -> bool {
        let is_of_both = self.at.is_ipv6() && !self.is_v6_only;
        self.at.ip().is_unspecified() && (is_of_both || self.at.is_ipv6() == other.is_ipv6())
    }

    /// Whether it hears what comes there.
    pub(super) fn hears(&self, at: SocketAddr) -> bool {
        let is_it = self.at.ip().to_canonical() == at.ip();
        self.at.port() == at.port() && (is_it || self.is_of_all_beside(at))
    }

    /// Whether it is managed in the network of this address, as its operator wants it.
    pub(super) fn is_in_network_of(&self, address: GroupAddress) -> bool {
        let there = SocketAddr::new(address.ip(), self.at.port());
        self.is_of_all_beside(there) || address.is_beside(self.at.ip())
    }
}

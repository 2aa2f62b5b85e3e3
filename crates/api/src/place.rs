//! Where somebody is.

use std::net::{IpAddr, Ipv6Addr};

/// Where somebody is: an IPv4 address, or an IPv6 network of 64 bits, all of which one machine has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Place(IpAddr);

impl From<IpAddr> for Place {
    fn from(address: IpAddr) -> Self {
        match address.to_canonical() {
            IpAddr::V6(v6) => {
                let network = u128::from(v6) & !u128::from(u64::MAX);
                Self(Ipv6Addr::from(network).into())
            }
            v4 => Self(v4),
        }
    }
}

impl std::fmt::Display for Place {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

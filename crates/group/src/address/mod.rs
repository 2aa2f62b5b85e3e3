//! The address of a group: one that hosts find all members at, and that one member has at a time.
//!
//! [`GroupAddress`] is what an operator writes. [`Holding`] says for how long a member may have it on an interface, and
//! [`Sighting`] when another one may take it: they know neither the store nor the kernel, and are given the time.

mod holding;

use std::fmt::{self, Display, Formatter};
use std::net::IpAddr;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::record::Setting;

pub use holding::{Holding, RENEWAL, Sighting};

/// An address, and how many of its bits are those of its network. Invariant: it is one that a single host of that
/// network can have, and it leaves room for at least one other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct GroupAddress {
    ip: IpAddr,
    prefix_bits: u8,
}

/// Why a text is no address of a group.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum GroupAddressError {
    /// It does not read.
    #[error(
        "'{0}' is no address with its network: write IP/PREFIX, such as 192.0.2.100/24 or 2001:db8::100/64"
    )]
    Form(String),
    /// The network has no other address.
    #[error(
        "'{0}' leaves its network no other address, and members have theirs in it: write the prefix of the network \
         that members are in"
    )]
    Alone(String),
    /// It is the first one of the network.
    #[error("'{0}' is the address of the network itself: choose another one of it")]
    Network(String),
    /// It is the last one of the network.
    #[error("'{0}' is the broadcast address of its network: choose another one of it")]
    Broadcast(String),
    /// No host has such an address, or not on one network alone.
    #[error(
        "'{0}' cannot be the address of a group, as it is unspecified, multicast or link-local: choose one of the \
         network that hosts reach members in"
    )]
    Kind(String),
}

impl GroupAddress {
    /// Without the network.
    #[must_use]
    pub const fn ip(self) -> IpAddr {
        self.ip
    }

    /// How many bits are the network's.
    #[must_use]
    pub const fn prefix_bits(self) -> u8 {
        self.prefix_bits
    }

    /// Whether that address lies in the same network, or is this one.
    #[must_use]
    pub fn is_beside(self, other: IpAddr) -> bool {
        match (self.ip, other.to_canonical()) {
            (IpAddr::V4(own), IpAddr::V4(other)) => {
                let apart = (own.to_bits() ^ other.to_bits()).leading_zeros();
                apart >= u32::from(self.prefix_bits)
            }
            (IpAddr::V6(own), IpAddr::V6(other)) => {
                let apart = (own.to_bits() ^ other.to_bits()).leading_zeros();
                apart >= u32::from(self.prefix_bits)
            }
            (IpAddr::V4(_), IpAddr::V6(_)) | (IpAddr::V6(_), IpAddr::V4(_)) => false,
        }
    }

    /// How many bits are those of a host in the network.
    fn host_bits(self) -> u32 {
        let all: u32 = if self.ip.is_ipv4() { 32 } else { 128 };
        all.saturating_sub(u32::from(self.prefix_bits))
    }

    fn check(self) -> Result<Self, GroupAddressError> {
        let text = self.to_string();
        let is_of_one = match self.ip {
            IpAddr::V4(v4) => {
                !(v4.is_unspecified()
                    || v4.is_multicast()
                    || v4.is_broadcast()
                    || v4.is_link_local())
            }
            // Which interface a link-local address belongs to is different on each server.
            IpAddr::V6(v6) => {
                !(v6.is_unspecified() || v6.is_multicast() || v6.is_unicast_link_local())
            }
        };
        if !is_of_one {
            return Err(GroupAddressError::Kind(text));
        }
        let (host_bits, bits) = (self.host_bits(), bits_of(self.ip));
        if host_bits == 0 {
            return Err(GroupAddressError::Alone(text));
        }
        let hosts = u128::MAX >> (128 - host_bits);
        // A network of two has neither (RFC 3021, RFC 6164).
        match (bits & hosts, self.ip.is_ipv4()) {
            _ if host_bits == 1 => Ok(self),
            (0, _) => Err(GroupAddressError::Network(text)),
            (host, true) if host == hosts => Err(GroupAddressError::Broadcast(text)),
            _ => Ok(self),
        }
    }
}

fn bits_of(ip: IpAddr) -> u128 {
    match ip {
        IpAddr::V4(v4) => u128::from(v4.to_bits()),
        IpAddr::V6(v6) => v6.to_bits(),
    }
}

impl Display for GroupAddress {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        write!(out, "{}/{}", self.ip, self.prefix_bits)
    }
}

impl FromStr for GroupAddress {
    type Err = GroupAddressError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let form = || GroupAddressError::Form(text.to_owned());
        let (ip, prefix) = text.split_once('/').ok_or_else(form)?;
        let ip: IpAddr = ip.parse().map_err(|_| form())?;
        let is_number = !prefix.is_empty() && prefix.bytes().all(|byte| byte.is_ascii_digit());
        let prefix_bits = prefix.parse::<u8>().ok().filter(|_| is_number).ok_or_else(form)?;
        let most = if ip.is_ipv4() { 32 } else { 128 };
        // An address of IPv4 in one of IPv6 has the prefix of neither.
        if prefix_bits == 0 || prefix_bits > most || ip.to_canonical() != ip {
            return Err(form());
        }
        Self { ip, prefix_bits }.check()
    }
}

impl TryFrom<String> for GroupAddress {
    type Error = GroupAddressError;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse()
    }
}

impl From<GroupAddress> for String {
    fn from(address: GroupAddress) -> Self {
        address.to_string()
    }
}

/// What the store says of the address.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct AddressRecord {
    pub(crate) address: GroupAddress,
}

impl Setting for AddressRecord {
    const WHAT: &'static str = "the address of the group";
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<GroupAddress, GroupAddressError> {
        text.parse()
    }

    #[test]
    fn an_address_has_its_network_and_is_one_of_a_host() {
        for text in ["192.0.2.100/24", "127.0.0.9/8", "10.0.0.0/31", "2001:db8::100/64"] {
            let address = read(text).unwrap();
            assert_eq!(address.to_string(), text);
            let record = AddressRecord { address };
            let lies = record.encode();
            assert_eq!(
                String::from_utf8_lossy(&lies),
                format!(r#"{{"version":1,"value":{{"address":"{text}"}}}}"#)
            );
            assert_eq!(AddressRecord::decode(&lies).unwrap(), record);
        }
        assert!(
            AddressRecord::decode(br#"{"version":1,"value":{"address":"192.0.2.0/24"}}"#).is_err()
        );
    }

    #[test]
    fn what_no_single_host_can_have_is_refused_and_says_why() {
        let form = ["", "192.0.2.1", "192.0.2.1/", "192.0.2.1/x", "192.0.2.1/+8", "192.0.2.1/33"];
        let form = form.into_iter().chain(["::1/129", "host/24", "192.0.2.1/0", "[::1]/64"]);
        for text in form.chain(["::ffff:192.0.2.1/24", "192.0.2.1/24/24"]) {
            assert_eq!(read(text), Err(GroupAddressError::Form(text.to_owned())));
        }
        let kinds = ["0.0.0.0/8", "224.0.0.9/24", "255.255.255.255/24", "169.254.1.1/16"];
        for text in kinds.into_iter().chain(["::/64", "ff02::1/64", "fe80::1/64"]) {
            assert_eq!(read(text), Err(GroupAddressError::Kind(text.to_owned())));
        }
        for text in ["192.0.2.0/24", "10.4.0.0/14", "2001:db8::/64"] {
            assert_eq!(read(text), Err(GroupAddressError::Network(text.to_owned())));
        }
        for text in ["192.0.2.255/24", "127.255.255.255/8"] {
            assert_eq!(read(text), Err(GroupAddressError::Broadcast(text.to_owned())));
        }
        for text in ["192.0.2.1/32", "::1/128"] {
            assert_eq!(read(text), Err(GroupAddressError::Alone(text.to_owned())));
        }
    }

    #[test]
    fn beside_it_lies_what_its_network_has() {
        let is_beside = |text: &str, other: &str| {
            read(text).expect("it is one").is_beside(other.parse().expect("an address"))
        };
        assert!(is_beside("192.0.2.100/24", "192.0.2.1"));
        assert!(is_beside("192.0.2.100/24", "::ffff:192.0.2.1"));
        assert!(!is_beside("192.0.2.100/24", "192.0.3.1"));
        assert!(!is_beside("192.0.2.100/24", "2001:db8::1"));
        assert!(is_beside("127.0.0.9/8", "127.1.2.3"));
        assert!(is_beside("2001:db8::100/64", "2001:db8::1"));
        assert!(!is_beside("2001:db8::100/64", "2001:db8:0:1::1"));
    }
}

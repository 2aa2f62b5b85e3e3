//! Addresses of hosts, as an access record names them.

use std::fmt::{self, Display, Formatter};
use std::net::{IpAddr, Ipv4Addr};
use std::str::FromStr;

use ipnet::IpNet;
use serde::{Deserialize, Serialize};

/// Which addresses a record is for: `10.1.2.3`, `10.1.0.0/16`, `fd00::/8` or `10.1.*.*`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum AddressPattern {
    /// Those of a network; of one address alone, if it has all bits.
    Network(IpNet),
    /// IPv4 with these octets; `None` is any.
    Octets([Option<u8>; 4]),
}

/// Why a text is no address pattern.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AddressError {
    /// Not one of the forms.
    #[error(
        "'{0}' is no address of hosts: write one such as 192.0.2.7 or 2001:db8::7, a network such as 192.0.2.0/24, or 192.0.*.*"
    )]
    Form(String),
    /// Bits set behind the prefix: it is not clear what was meant.
    #[error(
        "'{text}' has address bits behind its prefix: write {network} for the network or {address} for the one host"
    )]
    HostBits {
        /// As written.
        text: String,
        /// The network, with those bits cleared.
        network: IpNet,
        /// The address alone.
        address: IpAddr,
    },
}

impl AddressPattern {
    /// Whether it is for this address. IPv4 that comes in the clothes of IPv6 (`::ffff:10.1.2.3`) counts
    /// as IPv4.
    #[must_use]
    pub fn includes(&self, address: IpAddr) -> bool {
        let address = address.to_canonical();
        match self {
            Self::Network(network) => network.contains(&address),
            Self::Octets(octets) => match address {
                IpAddr::V4(address) => octets
                    .iter()
                    .zip(address.octets())
                    .all(|(wanted, octet)| wanted.is_none_or(|wanted| wanted == octet)),
                IpAddr::V6(_) => false,
            },
        }
    }
}

impl FromStr for AddressPattern {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<Self, AddressError> {
        let wrong = || AddressError::Form(text.to_owned());
        if text.contains('*') {
            return octets(text).map(Self::Octets).ok_or_else(wrong);
        }
        if let Ok(address) = text.parse::<IpAddr>() {
            return Ok(Self::Network(canonical(address.into())));
        }
        // What `u8` would take beside digits is no prefix.
        let prefix = text.split_once('/').map(|(_, prefix)| prefix);
        let is_number = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
        let network = text.parse::<IpNet>().ok().filter(|_| prefix.is_some_and(is_number));
        let network = network.ok_or_else(wrong)?;
        if network.addr() != network.network() {
            let (address, network) = (network.addr(), network.trunc());
            return Err(AddressError::HostBits { text: text.to_owned(), network, address });
        }
        Ok(Self::Network(canonical(network)))
    }
}

/// IPv4 in the clothes of IPv6 (RFC 4291 2.5.5.2) as IPv4: hosts that come over IPv4 are compared as such.
#[must_use]
pub fn canonical(network: IpNet) -> IpNet {
    /// The bits of such an address in front of the IPv4 address.
    const MAPPED_BITS: u8 = 96;
    let IpAddr::V4(address) = network.addr().to_canonical() else { return network };
    match network {
        IpNet::V6(v6) => v6
            .prefix_len()
            .checked_sub(MAPPED_BITS)
            .and_then(|bits| IpNet::new(address.into(), bits).ok())
            .unwrap_or(network),
        IpNet::V4(_) => network,
    }
}

/// Four octets of which some are stars.
fn octets(text: &str) -> Option<[Option<u8>; 4]> {
    let parts: Vec<&str> = text.split('.').collect();
    let parts: [&str; 4] = parts.try_into().ok()?;
    let filled = parts.map(|part| if part == "*" { "0" } else { part }).join(".");
    let address: Ipv4Addr = filled.parse().ok()?;
    let mut octets = address.octets().map(Some);
    for (octet, part) in octets.iter_mut().zip(parts) {
        *octet = octet.filter(|_| part != "*");
    }
    Some(octets)
}

impl Display for AddressPattern {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Network(network) if network.prefix_len() == network.max_prefix_len() => {
                write!(out, "{}", network.addr())
            }
            Self::Network(network) => write!(out, "{network}"),
            Self::Octets(octets) => {
                let parts =
                    octets.map(|octet| octet.map_or("*".to_owned(), |octet| octet.to_string()));
                out.write_str(&parts.join("."))
            }
        }
    }
}

impl From<AddressPattern> for String {
    fn from(pattern: AddressPattern) -> Self {
        pattern.to_string()
    }
}

impl TryFrom<String> for AddressPattern {
    type Error = AddressError;

    fn try_from(text: String) -> Result<Self, AddressError> {
        text.parse()
    }
}

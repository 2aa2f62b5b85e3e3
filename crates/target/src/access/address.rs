//! Addresses that a rule is for: a network, or IPv4 with octets left open.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr};
use std::str::FromStr;

use thiserror::Error;

/// Which addresses a rule is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AddressPattern {
    /// Addresses that share the first `prefix_bits` bits with `address`.
    Network {
        /// Network address.
        address: IpAddr,
        /// 0 to 32, or 0 to 128 for IPv6.
        prefix_bits: u8,
    },
    /// IPv4 addresses with these octets; `None` is any, as the stars of `10.1.*.*`.
    Octets([Option<u8>; 4]),
}

/// A text that is no pattern of addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error(
    "an address is an IPv4 or IPv6 address, a network as 10.1.0.0/16 or fd00::/8, or IPv4 with stars \
     as 10.1.*.*"
)]
pub struct AddressPatternError;

impl AddressPattern {
    /// Whether an address is one of them. IPv4 that came over an IPv6 socket counts as IPv4.
    #[must_use]
    pub fn matches(&self, from: IpAddr) -> bool {
        let from = from.to_canonical();
        match self {
            Self::Network { address, prefix_bits } => same_network(*address, from, *prefix_bits),
            Self::Octets(octets) => match from {
                IpAddr::V4(from) => {
                    let mut pairs = octets.iter().zip(from.octets());
                    pairs.all(|(wanted, octet)| wanted.is_none_or(|wanted| wanted == octet))
                }
                IpAddr::V6(_) => false,
            },
        }
    }
}

fn same_network(network: IpAddr, address: IpAddr, prefix_bits: u8) -> bool {
    let (a, b, width) = match (network, address) {
        (IpAddr::V4(a), IpAddr::V4(b)) => (u128::from(a.to_bits()), u128::from(b.to_bits()), 32),
        (IpAddr::V6(a), IpAddr::V6(b)) => (a.to_bits(), b.to_bits(), 128),
        _ => return false,
    };
    let shift = width - u32::from(prefix_bits).min(width);
    a.checked_shr(shift).unwrap_or(0) == b.checked_shr(shift).unwrap_or(0)
}

/// The bits of an address.
const fn width_bits(address: IpAddr) -> u8 {
    match address {
        IpAddr::V4(_) => 32,
        IpAddr::V6(_) => 128,
    }
}

impl From<IpAddr> for AddressPattern {
    /// This address alone.
    fn from(address: IpAddr) -> Self {
        let address = address.to_canonical();
        Self::Network { address, prefix_bits: width_bits(address) }
    }
}

impl FromStr for AddressPattern {
    type Err = AddressPatternError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if text.contains('*') {
            return octets(text).ok_or(AddressPatternError);
        }
        let Some((address, prefix)) = text.split_once('/') else {
            return text.parse::<IpAddr>().map(Self::from).map_err(|_| AddressPatternError);
        };
        let address: IpAddr = address.parse().map_err(|_| AddressPatternError)?;
        // A sign or spaces are no part of a number here.
        let is_number = !prefix.is_empty() && prefix.bytes().all(|digit| digit.is_ascii_digit());
        let prefix_bits = prefix.parse().ok().filter(|bits| *bits <= width_bits(address));
        match prefix_bits.filter(|_| is_number) {
            Some(prefix_bits) => Ok(canonical(address, prefix_bits)),
            None => Err(AddressPatternError),
        }
    }
}

/// IPv4 in the clothes of IPv6 (RFC 4291 2.5.5.2) as IPv4: it is compared as such.
fn canonical(address: IpAddr, prefix_bits: u8) -> AddressPattern {
    let bare = address.to_canonical();
    let dressed_bits = width_bits(address) - width_bits(bare);
    match prefix_bits.checked_sub(dressed_bits) {
        Some(prefix_bits) => AddressPattern::Network { address: bare, prefix_bits },
        None => AddressPattern::Network { address, prefix_bits },
    }
}

/// `10.1.*.*`: each star is any octet.
fn octets(text: &str) -> Option<AddressPattern> {
    let parts: Vec<&str> = text.split('.').collect();
    let parts: [&str; 4] = parts.try_into().ok()?;
    // The standard's own parser says what an octet is, without leading zeros.
    let digits = parts.map(|part| if part == "*" { "0" } else { part });
    let address: Ipv4Addr = digits.join(".").parse().ok()?;
    let mut octets = address.octets().map(Some);
    for (octet, part) in octets.iter_mut().zip(parts) {
        if part == "*" {
            *octet = None;
        }
    }
    Some(AddressPattern::Octets(octets))
}

impl fmt::Display for AddressPattern {
    /// As it is read.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Network { address, prefix_bits } if *prefix_bits == width_bits(*address) => {
                write!(f, "{address}")
            }
            Self::Network { address, prefix_bits } => write!(f, "{address}/{prefix_bits}"),
            Self::Octets(octets) => {
                let text = octets.map(|octet| octet.map_or("*".to_owned(), |o| o.to_string()));
                f.write_str(&text.join("."))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pattern(text: &str) -> AddressPattern {
        text.parse().unwrap()
    }

    #[test]
    fn networks_match_by_prefix_and_family() {
        let matches = |text: &str, from: &str| pattern(text).matches(from.parse().unwrap());
        assert!(matches("10.1.0.0/16", "10.1.255.3"));
        assert!(!matches("10.1.0.0/16", "10.2.0.1"));
        assert!(matches("0.0.0.0/0", "192.0.2.1"));
        assert!(matches("10.1.2.3", "::ffff:10.1.2.3"));
        assert!(
            matches("::ffff:10.1.2.3", "10.1.2.3") && matches("::ffff:10.1.0.0/112", "10.1.9.9")
        );
        assert!(matches("::ffff:0:0/96", "10.1.2.3") && !matches("::ffff:0:0/96", "fd12::1"));
        assert!(!matches("::ffff:10.1.0.0/112", "10.2.0.1"));
        assert!(!matches("10.1.2.3", "10.1.2.4"));
        assert!(matches("fd00::/8", "fd12::1"));
        assert!(!matches("fd00::/8", "10.0.0.1"));
        assert!(matches("::/0", "fe80::1"));
        assert!(matches("10.1.*.*", "10.1.255.3") && matches("10.*.0.3", "10.77.0.3"));
        assert!(matches("10.1.*.*", "::ffff:10.1.2.3"));
        assert!(!matches("10.1.*.*", "10.2.0.3") && !matches("10.*.0.3", "10.77.0.4"));
        assert!(!matches("*.*.*.*", "fd12::1"), "stars are for IPv4");
    }

    #[test]
    fn what_was_read_is_written_again() {
        for text in ["10.1.2.3", "10.1.0.0/16", "0.0.0.0/0", "fd00::/8", "fe80::1", "10.1.*.*"] {
            assert_eq!(pattern(text).to_string(), text);
        }
        assert_eq!(pattern("10.1.2.3/32"), pattern("10.1.2.3"));
    }

    #[test]
    fn what_is_no_pattern_is_refused() {
        for text in [
            "",
            "*",
            "10.1.*",
            "10.1.*.*.*",
            "10.1.*.256",
            "10.1.*.01",
            "10.1.*.*/8",
            "10.0.0.0/33",
            "10.0.0.0/+8",
            "10.0.0.0/",
            "fd00::/129",
            "fd00::*",
            "host",
            "10.1.*. 1",
        ] {
            assert_eq!(text.parse::<AddressPattern>(), Err(AddressPatternError), "{text}");
        }
    }
}

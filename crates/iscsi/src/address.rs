//! Addresses of hosts, as whoever says who may log in names them.

use core::net::{IpAddr, Ipv4Addr};
use std::fmt::{self, Display, Formatter};
use std::str::FromStr;

use ipnet::IpNet;

/// Which addresses are meant: `10.1.2.3`, `10.1.0.0/16`, `fd00::/8` or `10.1.*.*`.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
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
    /// More bits than an address has.
    #[error("'{text}' asks for more bits than the address has: write a prefix of 0 to {bits_max}")]
    Prefix {
        /// As written.
        text: String,
        /// 32 or 128.
        bits_max: u8,
    },
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
    /// Whether this address is one of them. IPv4 that comes in the clothes of IPv6 (`::ffff:10.1.2.3`) counts
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
        let (address, prefix) = match text.split_once('/') {
            Some((address, prefix)) => (address, Some(prefix)),
            None => (text, None),
        };
        let address: IpAddr = address.parse().map_err(|_| wrong())?;
        let bits_max = if address.is_ipv4() { 32 } else { 128 };
        // What `u8` would take beside digits is no prefix.
        let is_number = |digits: &str| digits.bytes().all(|byte| byte.is_ascii_digit());
        let bits = match prefix {
            None => bits_max,
            Some(digits) if digits.is_empty() || !is_number(digits) => return Err(wrong()),
            Some(digits) => digits.parse().unwrap_or(u8::MAX),
        };
        let too_many = |_| AddressError::Prefix { text: text.to_owned(), bits_max };
        let network = IpNet::new(address, bits).map_err(too_many)?;
        if network.trunc() != network {
            let network = network.trunc();
            return Err(AddressError::HostBits { text: text.to_owned(), network, address });
        }
        Ok(Self::Network(canonical(network)))
    }
}

impl From<IpAddr> for AddressPattern {
    /// This address alone.
    fn from(address: IpAddr) -> Self {
        Self::Network(address.to_canonical().into())
    }
}

/// IPv4 in the clothes of IPv6 (RFC 4291 §2.5.5.2) as IPv4: hosts that come over IPv4 are compared as such.
fn canonical(network: IpNet) -> IpNet {
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

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn addresses_are_of_a_network_or_have_its_octets() {
        let cases = [
            ("10.1.2.3", "10.1.2.3", true),
            ("10.1.2.3", "10.1.2.4", false),
            ("10.1.2.3", "::ffff:10.1.2.3", true),
            ("10.1.*.*", "10.1.200.7", true),
            ("10.1.*.*", "::ffff:10.1.2.3", true),
            ("10.1.*.*", "10.2.0.1", false),
            ("10.*.3.*", "10.9.3.1", true),
            ("10.*.3.*", "10.9.4.1", false),
            ("*.*.*.*", "203.0.113.1", true),
            ("*.*.*.*", "2001:db8::1", false),
            ("10.1.0.0/16", "10.1.255.255", true),
            ("10.1.0.0/16", "10.2.0.0", false),
            ("10.1.0.0/16", "::ffff:10.1.0.1", true),
            ("0.0.0.0/0", "2001:db8::1", false),
            ("0.0.0.0/0", "192.0.2.1", true),
            ("::/0", "192.0.2.1", false),
            ("::/0", "fe80::1", true),
            ("fd00::/8", "fd12::1", true),
            ("fd00::/8", "10.0.0.1", false),
            ("2001:db8::/32", "2001:db8:ffff::1", true),
            ("2001:db8::/32", "2001:db9::1", false),
            ("::ffff:10.1.2.3", "10.1.2.3", true),
            ("::ffff:10.1.0.0/112", "10.1.2.3", true),
            ("::ffff:10.1.0.0/112", "10.2.2.3", false),
            ("::ffff:0:0/96", "10.2.2.3", true),
            ("::ffff:0:0/96", "fd12::1", false),
            ("::1", "::1", true),
        ];
        for (pattern, address, is_in) in cases {
            let parsed: AddressPattern = pattern.parse().unwrap();
            let address: IpAddr = address.parse().unwrap();
            assert_eq!(parsed.includes(address), is_in, "{pattern} {address}");
        }
    }

    #[test]
    fn what_was_read_is_written_again() {
        let pattern = |text: &str| text.parse::<AddressPattern>().unwrap();
        for text in ["10.1.2.3", "10.1.0.0/16", "0.0.0.0/0", "fd00::/8", "fe80::1", "10.1.*.*"] {
            assert_eq!(pattern(text).to_string(), text);
        }
        assert_eq!(pattern("10.1.2.3/32"), pattern("10.1.2.3"));
        let address: IpAddr = "::ffff:10.1.2.3".parse().unwrap();
        assert_eq!(AddressPattern::from(address), pattern("10.1.2.3"));
        assert_eq!(pattern("::ffff:192.0.2.0/120").to_string(), "192.0.2.0/24");
    }

    #[test]
    fn what_is_no_pattern_is_refused_with_what_to_write() {
        let form = "is no address of hosts: write one such as 192.0.2.7 or 2001:db8::7";
        for (text, what) in [
            ("", form),
            ("*", form),
            ("10.1.*", form),
            ("10.1.*.*.*", form),
            ("10.1.*.256", form),
            ("10.1.*.01", form),
            ("10.1.*.*/8", form),
            ("10.1.*. 1", form),
            ("10.0.0.0/", form),
            ("10.0.0.0/+8", form),
            ("10.0.0.0/255.0.0.0", form),
            ("2001:db8::*", form),
            ("host.example.com", form),
            ("10.0.0", form),
            ("10.0.0.0/33", "more bits than the address has: write a prefix of 0 to 32"),
            ("::/129", "more bits than the address has: write a prefix of 0 to 128"),
            ("::/999", "more bits than the address has: write a prefix of 0 to 128"),
            ("10.1.2.3/16", "write 10.1.0.0/16 for the network or 10.1.2.3 for the one host"),
        ] {
            let said = text.parse::<AddressPattern>().unwrap_err().to_string();
            assert!(said.starts_with(&format!("'{text}' ")) && said.contains(what), "{said}");
        }
    }

    proptest! {
        #[test]
        fn a_network_is_read_as_it_is_written(address in any::<IpAddr>(), bits in 0u8..=32) {
            let network = IpNet::new(address, bits).expect("both have so many").trunc();
            let pattern = network.to_string().parse::<AddressPattern>();
            prop_assert_eq!(pattern.as_ref(), Ok(&AddressPattern::Network(canonical(network))));
            prop_assert_eq!(&pattern.unwrap().to_string().parse(), &Ok(AddressPattern::Network(canonical(network))));
        }

        #[test]
        fn no_text_panics(text in ".{0,40}") {
            drop(text.parse::<AddressPattern>());
        }
    }
}

//! Allow rules: which initiators may log in, by name or by address.

use crate::access::name::{self, NameError};
use group::access::canonical;
use ipnet::IpNet;
use std::net::IpAddr;
use thiserror::Error;

/// One `--allow`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Allow {
    /// The initiator with this iSCSI name.
    Initiator(String),
    /// Initiators that connect from this network.
    Network {
        /// Its address; the bits below the prefix are zero.
        address: IpAddr,
        /// How many leading bits an initiator's address must share with it.
        prefix_bits: u8,
    },
}

/// Why an allow rule was refused.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub(crate) enum AllowError {
    /// Neither a name nor a network.
    #[error(
        "'{0}' is neither an initiator nor a network: write an iSCSI name or a network such as 192.0.2.0/24, 192.0.2.7 or 2001:db8::/32"
    )]
    Neither(String),
    /// Meant as a name, but not one.
    #[error(transparent)]
    Name(#[from] NameError),
    /// More bits than an address has.
    #[error("'{text}' asks for more bits than the address has: write a prefix of 0 to {bits_max}")]
    Prefix {
        /// The rule as written.
        text: String,
        /// 32 or 128.
        bits_max: u8,
    },
    /// Bits set behind the prefix: it is not clear what was meant.
    #[error(
        "'{text}' has address bits behind its prefix: write {network} for the network or {address} for the one host"
    )]
    HostBits {
        /// The rule as written.
        text: String,
        /// The network, with those bits cleared.
        network: String,
        /// The address alone.
        address: IpAddr,
    },
}

/// Reads an iSCSI name, a network in CIDR form or a single address.
pub(crate) fn parse(text: &str) -> Result<Allow, AllowError> {
    if name::looks_like_name(text) {
        return Ok(Allow::Initiator(name::parse(text)?));
    }
    let neither = || AllowError::Neither(text.to_owned());
    let (address, prefix) = match text.split_once('/') {
        Some((address, prefix)) => (address, Some(prefix)),
        None => (text, None),
    };
    let address: IpAddr = address.parse().map_err(|_| neither())?;
    let bits_max = if address.is_ipv4() { 32 } else { 128 };
    let prefix_bits = match prefix {
        None => bits_max,
        Some(digits) if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_digit()) => {
            return Err(neither());
        }
        Some(digits) => digits
            .parse()
            .ok()
            .filter(|bits| *bits <= bits_max)
            .ok_or_else(|| AllowError::Prefix { text: text.to_owned(), bits_max })?,
    };
    let network = masked(address, prefix_bits);
    if network != address {
        let network = format!("{network}/{prefix_bits}");
        return Err(AllowError::HostBits { text: text.to_owned(), network, address });
    }
    let network = IpNet::new(address, prefix_bits).map_or_else(|_| address.into(), canonical);
    Ok(Allow::Network { address: network.addr(), prefix_bits: network.prefix_len() })
}

/// `address` with the bits behind the prefix cleared.
fn masked(address: IpAddr, prefix_bits: u8) -> IpAddr {
    let prefix_bits = u32::from(prefix_bits);
    match address {
        IpAddr::V4(v4) => {
            let mask = u32::MAX.checked_shl(32 - prefix_bits).unwrap_or(0);
            IpAddr::V4((v4.to_bits() & mask).into())
        }
        IpAddr::V6(v6) => {
            let mask = u128::MAX.checked_shl(128 - prefix_bits).unwrap_or(0);
            IpAddr::V6((v6.to_bits() & mask).into())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn network(address: &str, prefix_bits: u8) -> Allow {
        Allow::Network { address: address.parse().unwrap(), prefix_bits }
    }

    #[test]
    fn names_networks_and_single_addresses() {
        let name = "iqn.1993-08.org.debian:01:abc";
        let cases = [
            (name, Allow::Initiator(name.to_owned())),
            ("192.0.2.0/24", network("192.0.2.0", 24)),
            ("192.0.2.7", network("192.0.2.7", 32)),
            ("192.0.2.7/32", network("192.0.2.7", 32)),
            ("0.0.0.0/0", network("0.0.0.0", 0)),
            ("2001:db8::/32", network("2001:db8::", 32)),
            ("::/0", network("::", 0)),
            ("::1", network("::1", 128)),
            ("::ffff:192.0.2.7", network("192.0.2.7", 32)),
            ("::ffff:192.0.2.0/120", network("192.0.2.0", 24)),
            ("::ffff:0:0/96", network("0.0.0.0", 0)),
        ];
        for (text, rule) in cases {
            assert_eq!(parse(text), Ok(rule), "{text}");
        }
    }

    #[test]
    fn each_refusal_says_what_to_write_instead() {
        let neither = "is neither an initiator nor a network: write an iSCSI name or a network such as 192.0.2.0/24, 192.0.2.7 or 2001:db8::/32";
        let cases = [
            ("", format!("'' {neither}")),
            ("all", format!("'all' {neither}")),
            ("host.example.com", format!("'host.example.com' {neither}")),
            ("192.0.2.0/", format!("'192.0.2.0/' {neither}")),
            ("192.0.2.0/+24", format!("'192.0.2.0/+24' {neither}")),
            ("192.0.2.0/255.255.255.0", format!("'192.0.2.0/255.255.255.0' {neither}")),
            (
                "192.0.2.0/33",
                "'192.0.2.0/33' asks for more bits than the address has: write a prefix of 0 to 32".to_owned(),
            ),
            (
                "::/999",
                "'::/999' asks for more bits than the address has: write a prefix of 0 to 128".to_owned(),
            ),
            (
                "192.0.2.7/24",
                "'192.0.2.7/24' has address bits behind its prefix: write 192.0.2.0/24 for the network or 192.0.2.7 for the one host".to_owned(),
            ),
            (
                "iqn.2026-11.Com.example",
                "'iqn.2026-11.Com.example' has capital letters: write iqn.2026-11.com.example".to_owned(),
            ),
        ];
        for (text, sentence) in cases {
            assert_eq!(parse(text).unwrap_err().to_string(), sentence, "{text}");
        }
    }

    proptest! {
        #[test]
        fn a_masked_address_is_its_own_network(address in any::<IpAddr>(), bits in 0u8..=32) {
            let network = masked(address, bits);
            prop_assert_eq!(masked(network, bits), network);
            let rule = Allow::Network { address: network, prefix_bits: bits };
            prop_assert_eq!(parse(&format!("{network}/{bits}")), Ok(rule));
        }

        #[test]
        fn no_text_panics(text in ".{0,40}") {
            let _ = parse(&text);
        }
    }
}

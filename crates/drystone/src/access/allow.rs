//! Allow rules: which initiators may log in, by name or by address.

use crate::access::name::{self, NameError};
use iscsi::address::{AddressError, AddressPattern};
use thiserror::Error;

/// One `--allow`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Allow {
    /// The initiator with this iSCSI name.
    Initiator(String),
    /// Initiators that connect from these addresses.
    From(AddressPattern),
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
    /// Meant as a network, but not one.
    #[error(transparent)]
    Address(AddressError),
}

/// Reads an iSCSI name, a network in CIDR form, a single address, or IPv4 with stars.
pub(crate) fn parse(text: &str) -> Result<Allow, AllowError> {
    if name::looks_like_name(text) {
        return Ok(Allow::Initiator(name::parse(text)?));
    }
    text.parse().map(Allow::From).map_err(|error| match error {
        AddressError::Form(text) => AllowError::Neither(text),
        error => AllowError::Address(error),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn network(text: &str) -> Allow {
        Allow::From(text.parse().unwrap())
    }

    #[test]
    fn names_networks_and_single_addresses() {
        let name = "iqn.1993-08.org.debian:01:abc";
        let cases = [
            (name, Allow::Initiator(name.to_owned())),
            ("192.0.2.0/24", network("192.0.2.0/24")),
            ("192.0.2.7", network("192.0.2.7")),
            ("192.0.2.7/32", network("192.0.2.7")),
            ("0.0.0.0/0", network("0.0.0.0/0")),
            ("2001:db8::/32", network("2001:db8::/32")),
            ("::1", network("::1")),
            ("::ffff:192.0.2.7", network("192.0.2.7")),
            ("::ffff:192.0.2.0/120", network("192.0.2.0/24")),
            ("192.0.*.*", network("192.0.*.*")),
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
}

//! Portals: the addresses a target listens on.

use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use thiserror::Error;

/// The port that IANA gave to iSCSI (RFC 7143 15).
pub(crate) const PORT: u16 = 3260;

/// Why a portal was refused.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub(crate) enum PortalError {
    /// Not an address with a port.
    #[error(
        "'{0}' is not a portal: write ADDRESS:PORT with an IP address, such as 192.0.2.10:3260 or [2001:db8::10]:3260"
    )]
    NotAPortal(String),
    /// An IPv6 address without the brackets that part it from the port.
    #[error("the portal '{0}' needs brackets around its IPv6 address: write [{0}]:{PORT}")]
    Brackets(Ipv6Addr),
}

/// Reads `ADDRESS[:PORT]`; port 0 takes a free one.
pub(crate) fn parse(text: &str) -> Result<SocketAddr, PortalError> {
    if let Ok(portal) = text.parse() {
        return Ok(portal);
    }
    match text.parse::<IpAddr>() {
        Ok(IpAddr::V4(address)) => return Ok((address, PORT).into()),
        Ok(IpAddr::V6(address)) => return Err(PortalError::Brackets(address)),
        Err(_) => {}
    }
    let bracketed = text.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
    bracketed
        .and_then(|address| address.parse::<Ipv6Addr>().ok())
        .map(|address| (address, PORT).into())
        .ok_or_else(|| PortalError::NotAPortal(text.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn addresses_of_both_families_with_and_without_a_port() {
        let cases = [
            ("127.0.0.1:3260", "127.0.0.1:3260"),
            ("127.0.0.1:0", "127.0.0.1:0"),
            ("192.0.2.10", "192.0.2.10:3260"),
            ("0.0.0.0:860", "0.0.0.0:860"),
            ("[::1]:3261", "[::1]:3261"),
            ("[2001:db8::10]", "[2001:db8::10]:3260"),
            ("[fe80::1%2]:3260", "[fe80::1%2]:3260"),
        ];
        for (text, portal) in cases {
            assert_eq!(parse(text), Ok(portal.parse().unwrap()), "{text}");
        }
    }

    #[test]
    fn each_refusal_says_what_to_write_instead() {
        let form = "is not a portal: write ADDRESS:PORT with an IP address, such as 192.0.2.10:3260 or [2001:db8::10]:3260";
        let cases = [
            ("", format!("'' {form}")),
            ("localhost:3260", format!("'localhost:3260' {form}")),
            ("san.example.com", format!("'san.example.com' {form}")),
            (":3260", format!("':3260' {form}")),
            ("127.0.0.1:", format!("'127.0.0.1:' {form}")),
            ("127.0.0.1:99999", format!("'127.0.0.1:99999' {form}")),
            ("127.0.0.1:iscsi", format!("'127.0.0.1:iscsi' {form}")),
            ("300.0.0.1:3260", format!("'300.0.0.1:3260' {form}")),
            ("[::1", format!("'[::1' {form}")),
            (
                "2001:db8::10",
                "the portal '2001:db8::10' needs brackets around its IPv6 address: write [2001:db8::10]:3260".to_owned(),
            ),
        ];
        for (text, sentence) in cases {
            assert_eq!(parse(text).unwrap_err().to_string(), sentence, "{text}");
        }
    }

    proptest! {
        #[test]
        fn a_printed_portal_reads_back(address in any::<IpAddr>(), port in any::<u16>()) {
            let portal = SocketAddr::from((address, port));
            prop_assert_eq!(parse(&portal.to_string()), Ok(portal));
        }
    }
}

//! SendTargets: what is asked for, and the records that answer it (RFC 7143 13.3, 13.8 and appendix C).

use crate::text::{IscsiName, TextError, TextWriter, parse_pairs};
use core::net::{IpAddr, Ipv6Addr, SocketAddr};

/// The port of a TargetAddress that names none (13.8).
pub const DEFAULT_PORT: u16 = 3260;

/// Which targets a SendTargets asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SendTargets {
    /// All that the initiator may see; only in discovery sessions.
    All,
    /// One by name.
    One(IscsiName),
    /// The one of this normal session.
    Current,
}

impl SendTargets {
    /// Reads the value of the key; `None` if it is neither `All`, a name nor empty.
    #[must_use]
    pub fn parse(value: &str) -> Option<Self> {
        match value {
            "All" => Some(Self::All),
            "" => Some(Self::Current),
            name => IscsiName::parse(name).ok().map(Self::One),
        }
    }
}

/// An address that a target is served on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Portal {
    /// Where it listens, as initiators reach it.
    pub address: SocketAddr,
    /// Its portal group (13.9).
    pub group_tag: u16,
}

impl std::fmt::Display for Portal {
    /// `a.b.c.d:port,tag` or `[v6]:port,tag` (13.8).
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // Rebuilt from its parts: a scope id means nothing to the other side.
        let address = SocketAddr::new(self.address.ip(), self.address.port());
        write!(f, "{address},{}", self.group_tag)
    }
}

/// Writes the record of one target: its name and each of its addresses.
pub fn write_record(name: &IscsiName, portals: &[Portal], out: &mut TextWriter) {
    out.push("TargetName", name);
    for portal in portals {
        out.push("TargetAddress", portal);
    }
}

/// A TargetAddress as an initiator reads it: the host may be a name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PortalAddress {
    /// IPv4 address, IPv6 address without brackets, or domain name.
    pub host: String,
    /// TCP port.
    pub port: u16,
    /// Portal group; missing in redirections.
    pub group_tag: Option<u16>,
}

/// A TargetAddress that cannot be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a TargetAddress reads host[:port][,portal group tag], with IPv6 in brackets")]
pub struct AddressError;

impl std::str::FromStr for PortalAddress {
    type Err = AddressError;

    fn from_str(value: &str) -> Result<Self, AddressError> {
        let (endpoint, tag) = match value.rsplit_once(',') {
            Some((endpoint, tag)) => (endpoint, Some(tag)),
            None => (value, None),
        };
        let group_tag = tag.map(str::parse).transpose().map_err(|_| AddressError)?;
        let (host, port) = match endpoint.strip_prefix('[') {
            Some(rest) => {
                let (host, rest) = rest.split_once(']').ok_or(AddressError)?;
                host.parse::<Ipv6Addr>().map_err(|_| AddressError)?;
                (host, rest)
            }
            None => endpoint.split_at(endpoint.find(':').unwrap_or(endpoint.len())),
        };
        let port = match port.strip_prefix(':') {
            Some(port) => port.parse().map_err(|_| AddressError)?,
            None if port.is_empty() => DEFAULT_PORT,
            None => return Err(AddressError),
        };
        let is_host = |c: char| c.is_ascii_alphanumeric() || ".-:".contains(c);
        if host.is_empty() || !host.chars().all(is_host) {
            return Err(AddressError);
        }
        Ok(Self { host: host.to_owned(), port, group_tag })
    }
}

impl PortalAddress {
    /// The address, if the host is not a name.
    #[must_use]
    pub fn socket_addr(&self) -> Option<SocketAddr> {
        let ip: IpAddr = self.host.parse().ok()?;
        Some(SocketAddr::new(ip, self.port))
    }
}

/// A target that an initiator found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DiscoveredTarget {
    /// Its name.
    pub name: IscsiName,
    /// Its addresses; none means the address that was asked (appendix C).
    pub addresses: Vec<PortalAddress>,
}

/// Reads the records of a SendTargets response. Names and addresses that cannot be read are left out:
/// one odd target must not hide the others.
///
/// # Errors
/// A [`TextError`] if the text as a whole is malformed.
pub fn parse_records(text: &[u8]) -> Result<Vec<DiscoveredTarget>, TextError> {
    // Bounded by the text, which was bounded when it was collected.
    let pairs = parse_pairs(text, usize::MAX)?;
    let mut targets: Vec<DiscoveredTarget> = Vec::new();
    let mut is_in_record = false;
    for pair in pairs {
        match pair.key {
            "TargetName" => {
                let name = IscsiName::parse(pair.value);
                is_in_record = name.is_ok();
                targets.extend(name.map(|name| DiscoveredTarget { name, addresses: Vec::new() }));
            }
            "TargetAddress" if is_in_record => {
                let record = targets.last_mut().expect("a record was begun");
                record.addresses.extend(pair.value.parse::<PortalAddress>());
            }
            _ => {}
        }
    }
    Ok(targets)
}

//! Where members reach each other, as people write it.

use std::fmt::{self, Display, Formatter};
use std::net::{IpAddr, SocketAddr};
use std::str::FromStr;

use group::membership::PORT;
use rustls::pki_types::ServerName;

/// What is no such address.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum AddressError {
    /// It does not read, or is a name.
    #[error(
        "'{0}' is no address at which members reach this one: write ADDR or ADDR:PORT, as 10.0.0.1:3262"
    )]
    Listen(String),
    /// It does not read.
    #[error(
        "'{0}' is no address of a member of a group: write ADDR or ADDR:PORT, as 10.0.0.1:3262"
    )]
    Door(String),
}

/// Where a member is to be reached by others: `ADDR` or `ADDR:PORT`. Whether it can be there, the member says.
pub(super) fn listen(text: &str) -> Result<SocketAddr, AddressError> {
    let with_port = || text.parse::<IpAddr>().map(|address| SocketAddr::new(address, PORT));
    let parsed = text.parse::<SocketAddr>().or_else(|_| with_port());
    parsed.map_err(|_| AddressError::Listen(text.to_owned()))
}

/// Where a member of a group answers members: `HOST` or `HOST:PORT`, of which the host may be an address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct DoorAddress {
    /// A name or an address, without brackets.
    pub(super) host: String,
    pub(super) port: u16,
}

impl FromStr for DoorAddress {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<Self, AddressError> {
        let no_address = || AddressError::Door(text.to_owned());
        let (host, port) = match (text.parse::<SocketAddr>(), text.parse::<IpAddr>()) {
            (Ok(address), _) => (address.ip().to_string(), address.port()),
            (_, Ok(address)) => (address.to_string(), PORT),
            _ => match text.split_once(':') {
                Some((host, port)) => (host.to_owned(), port.parse().map_err(|_| no_address())?),
                None => (text.to_owned(), PORT),
            },
        };
        if port == 0 || ServerName::try_from(host.as_str()).is_err() {
            return Err(no_address());
        }
        Ok(Self { host, port })
    }
}

impl Display for DoorAddress {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        let Self { host, port } = self;
        match host.contains(':') {
            true => write!(out, "[{host}]:{port}"),
            false => write!(out, "{host}:{port}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_member_listens_at_an_address_and_no_name() {
        let read = |text: &str| listen(text).map(|address| address.to_string());
        for (text, address) in [
            ("192.0.2.1", "192.0.2.1:3262"),
            ("192.0.2.1:4000", "192.0.2.1:4000"),
            ("2001:db8::1", "[2001:db8::1]:3262"),
            ("[2001:db8::1]:65533", "[2001:db8::1]:65533"),
        ] {
            assert_eq!(read(text).as_deref(), Ok(address), "{text}");
        }
        for wrong in ["", "san1", "san1:3262", "192.0.2.1:", "192.0.2.1:70000", "[2001:db8::1]"] {
            assert_eq!(read(wrong), Err(AddressError::Listen(wrong.to_owned())), "{wrong}");
        }
    }

    #[test]
    fn a_door_is_at_an_address_or_a_name() {
        let read = |text: &str| text.parse::<DoorAddress>().map(|door| door.to_string());
        for (text, door) in [
            ("192.0.2.1", "192.0.2.1:3262"),
            ("192.0.2.1:4000", "192.0.2.1:4000"),
            ("2001:db8::1", "[2001:db8::1]:3262"),
            ("[2001:db8::1]:4000", "[2001:db8::1]:4000"),
            ("san1.example.com", "san1.example.com:3262"),
            ("san1:4000", "san1:4000"),
        ] {
            assert_eq!(read(text).as_deref(), Ok(door), "{text}");
        }
        for wrong in
            ["", ":3262", "san1:", "san1:0", "san1:x", "san1:70000", "https://san1", "a b", "[::1"]
        {
            assert_eq!(read(wrong), Err(AddressError::Door(wrong.to_owned())), "{wrong}");
        }
    }
}

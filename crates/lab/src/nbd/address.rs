//! `nbd://HOST[:PORT][/EXPORT]` and `nbd+unix:///[EXPORT]?socket=PATH`, as the NBD project writes them.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

/// The port that IANA gave to NBD.
const PORT: u16 = 10_809;
const TCP: &str = "nbd://";
const UNIX: &str = "nbd+unix://";

/// Where a server listens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Place {
    /// A host, by name or address, and a port.
    Tcp(String, u16),
    /// A Unix socket.
    Unix(PathBuf),
}

/// An export of a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NbdAddress {
    /// The server.
    pub place: Place,
    /// The export; the empty name is the server's own choice.
    pub export: String,
}

/// Why a text is no [`NbdAddress`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NbdAddressError {
    /// Neither of the two schemes.
    #[error("write nbd://HOST[:PORT][/EXPORT] or nbd+unix:///[EXPORT]?socket=PATH")]
    Form,
    /// A host or port that cannot be.
    #[error("'{0}' is no HOST[:PORT]")]
    Host(String),
    /// A Unix socket without its path.
    #[error("the path of the socket is missing: write nbd+unix:///EXPORT?socket=/run/nbd.sock")]
    Socket,
    /// A percent sign without two hexadecimal digits, or bytes that are no text.
    #[error("'{0}' has a % that stands for no letter: write %25 for the sign itself")]
    Escape(String),
}

impl FromStr for NbdAddress {
    type Err = NbdAddressError;

    fn from_str(text: &str) -> Result<Self, NbdAddressError> {
        if let Some(rest) = text.strip_prefix(UNIX) {
            let (path, query) = rest.split_once('?').ok_or(NbdAddressError::Socket)?;
            let socket = query.split('&').find_map(|word| word.strip_prefix("socket="));
            let socket = socket.filter(|path| !path.is_empty()).ok_or(NbdAddressError::Socket)?;
            let export = path.strip_prefix('/').ok_or(NbdAddressError::Form)?;
            let place = Place::Unix(PathBuf::from(decoded(socket)?));
            return Ok(Self { place, export: decoded(export)? });
        }
        let rest = text.strip_prefix(TCP).ok_or(NbdAddressError::Form)?;
        let (host, export) = rest.split_once('/').unwrap_or((rest, ""));
        let (name, port) = host_and_port(host).ok_or(NbdAddressError::Host(host.to_owned()))?;
        Ok(Self { place: Place::Tcp(name.to_owned(), port), export: decoded(export)? })
    }
}

/// IPv6 addresses stand in brackets.
fn host_and_port(text: &str) -> Option<(&str, u16)> {
    let (name, port) = match text.strip_prefix('[') {
        Some(rest) => rest.split_once(']')?,
        None => text.split_at(text.find(':').unwrap_or(text.len())),
    };
    let port = match port.strip_prefix(':') {
        Some(port) => port.parse().ok()?,
        None if port.is_empty() => PORT,
        None => return None,
    };
    let is_name =
        !name.is_empty() && !name.contains(|c: char| c.is_whitespace() || "@?#".contains(c));
    is_name.then_some((name, port))
}

fn decoded(text: &str) -> Result<String, NbdAddressError> {
    let wrong = || NbdAddressError::Escape(text.to_owned());
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, after @ ..] = rest {
        rest = after;
        if *first != b'%' {
            bytes.push(*first);
            continue;
        }
        let (digits, after) = rest.split_at_checked(2).ok_or_else(wrong)?;
        let digits = std::str::from_utf8(digits).map_err(|_| wrong())?;
        let is_plain = digits.bytes().all(|digit| digit.is_ascii_hexdigit());
        bytes.push(u8::from_str_radix(digits, 16).ok().filter(|_| is_plain).ok_or_else(wrong)?);
        rest = after;
    }
    String::from_utf8(bytes).map_err(|_| wrong())
}

impl fmt::Display for NbdAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let escaped = |text: &str| {
            let text = text.replace('%', "%25").replace('?', "%3F");
            text.replace('&', "%26").replace('#', "%23").replace(' ', "%20")
        };
        let export = escaped(&self.export);
        match &self.place {
            Place::Tcp(host, port) if host.contains(':') => {
                write!(f, "{TCP}[{host}]:{port}/{export}")
            }
            Place::Tcp(host, port) => write!(f, "{TCP}{host}:{port}/{export}"),
            Place::Unix(path) => {
                write!(f, "{UNIX}/{export}?socket={}", escaped(&path.to_string_lossy()))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn tcp(host: &str, port: u16, export: &str) -> NbdAddress {
        NbdAddress { place: Place::Tcp(host.into(), port), export: export.into() }
    }

    #[test]
    fn both_forms_are_read() {
        let parse = |text: &str| text.parse::<NbdAddress>();
        assert_eq!(parse("nbd://host"), Ok(tcp("host", PORT, "")));
        assert_eq!(parse("nbd://192.0.2.1:99/a%20b/c"), Ok(tcp("192.0.2.1", 99, "a b/c")));
        assert_eq!(parse("nbd://[fd00::1]/x"), Ok(tcp("fd00::1", PORT, "x")));
        let unix = |path: &str, export: &str| {
            Ok(NbdAddress { place: Place::Unix(path.into()), export: export.into() })
        };
        assert_eq!(parse("nbd+unix:///?socket=/run/a.sock"), unix("/run/a.sock", ""));
        assert_eq!(parse("nbd+unix:///v?x=1&socket=s%3F"), unix("s?", "v"));
        assert_eq!(parse("nbd+unix:///v"), Err(NbdAddressError::Socket));
        assert_eq!(parse("nbds://host/x"), Err(NbdAddressError::Form));
        assert_eq!(parse("nbd://ho st/x"), Err(NbdAddressError::Host("ho st".into())));
        assert_eq!(parse("nbd://h:x/"), Err(NbdAddressError::Host("h:x".into())));
        assert_eq!(parse("nbd://h/%zz"), Err(NbdAddressError::Escape("%zz".into())));
    }

    proptest! {
        #[test]
        fn what_is_shown_reads_as_itself(export in "\\PC{0,12}", path in "/\\PC{1,12}", port: u16) {
            for place in [Place::Tcp("h".into(), port), Place::Unix(path.into())] {
                let address = NbdAddress { place, export: export.clone() };
                prop_assert_eq!(address.to_string().parse(), Ok(address));
            }
        }

        #[test]
        fn no_text_makes_it_panic(text in "\\PC{0,30}") {
            let _ = format!("nbd://{text}").parse::<NbdAddress>();
            let _ = format!("nbd+unix://{text}").parse::<NbdAddress>();
        }
    }
}

//! Addresses of servers, people and webhooks, as they are written. Each holds plain characters only: nothing in
//! it ends a line, a header or a word.

use std::fmt::{self, Display, Formatter};
use std::net::Ipv6Addr;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// The longest name of a server (RFC 1035 §2.3.4).
const HOST_BYTES_MAX: usize = 253;

/// The longest address of a mailbox (RFC 5321 §4.5.3.1.3).
const MAILBOX_BYTES_MAX: usize = 254;

/// The longest URL.
const URL_BYTES_MAX: usize = 1024;

/// What is no address.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AddressError {
    /// No server.
    #[error("'{}' is no server: write HOST or HOST:PORT, such as mail.example.com:587 or [2001:db8::1]:514", .0.escape_debug())]
    Server(String),
    /// No mailbox.
    #[error("'{}' is no e-mail address: write one such as ops@example.com", .0.escape_debug())]
    Mailbox(String),
    /// No URL.
    #[error("'{}' is no URL of a webhook: write https://HOST/PATH, or http://HOST/PATH, without a user and without '#'", .0.escape_debug())]
    Url(String),
}

/// A server, and its port if one is written.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct HostPort {
    /// A name or an address, without brackets.
    pub host: String,
    /// `None` for the usual one.
    pub port: Option<u16>,
}

impl HostPort {
    /// Its port, or the usual one.
    #[must_use]
    pub fn port_or(&self, usual: u16) -> u16 {
        self.port.unwrap_or(usual)
    }
}

/// Whether it is the name of a server, or an address.
fn is_host(text: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_');
    let begins_well = text.bytes().next().is_some_and(|first| first.is_ascii_alphanumeric());
    begins_well && text.len() <= HOST_BYTES_MAX && text.bytes().all(is_plain)
}

impl FromStr for HostPort {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<Self, AddressError> {
        let read = || {
            let (host, rest) = match text.strip_prefix('[') {
                Some(rest) => {
                    let (host, rest) = rest.split_once(']')?;
                    host.parse::<Ipv6Addr>().ok()?;
                    (host, rest)
                }
                None => {
                    let (host, rest) = text.split_at(text.find(':').unwrap_or(text.len()));
                    (is_host(host).then_some(host)?, rest)
                }
            };
            let port = match rest {
                "" => None,
                rest => {
                    let digits = rest.strip_prefix(':')?;
                    let is_number = digits.bytes().all(|byte| byte.is_ascii_digit());
                    let port = digits.parse().ok().filter(|port: &u16| *port > 0 && is_number);
                    Some(port?)
                }
            };
            Some(Self { host: host.to_owned(), port })
        };
        read().ok_or_else(|| AddressError::Server(text.to_owned()))
    }
}

impl Display for HostPort {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Self { host, port } = self;
        match host.contains(':') {
            true => write!(f, "[{host}]")?,
            false => f.write_str(host)?,
        }
        port.map_or(Ok(()), |port| write!(f, ":{port}"))
    }
}

/// A mailbox: a plain local part, and a domain.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct MailAddress(String);

impl MailAddress {
    /// As it is written.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for MailAddress {
    type Err = AddressError;

    /// A dot-atom and a domain (RFC 5322 §3.4.1); what would have to be quoted is refused.
    fn from_str(text: &str) -> Result<Self, AddressError> {
        let is_atom = |part: &str| {
            let is_text =
                |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-/=?^_`{|}~".contains(&byte);
            !part.is_empty() && part.bytes().all(is_text)
        };
        let is_one = text.rsplit_once('@').is_some_and(|(local, domain)| {
            local.len() <= 64
                && local.split('.').all(is_atom)
                && is_host(domain)
                && !domain.contains('_')
                && domain.split('.').all(|label| !label.is_empty() && !label.ends_with('-'))
        });
        if is_one && text.len() <= MAILBOX_BYTES_MAX {
            return Ok(Self(text.to_owned()));
        }
        Err(AddressError::Mailbox(text.to_owned()))
    }
}

impl Display for MailAddress {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A URL that a webhook is at.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct WebhookUrl {
    text: String,
    server: HostPort,
    /// Where the path begins.
    path: usize,
}

impl WebhookUrl {
    /// Whether it goes over TLS.
    #[must_use]
    pub fn is_https(&self) -> bool {
        self.text.starts_with("https://")
    }

    /// The server.
    #[must_use]
    pub const fn server(&self) -> &HostPort {
        &self.server
    }

    /// Its port.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.server.port_or(if self.is_https() { 443 } else { 80 })
    }

    /// The path and the query; `/` where there is none.
    #[must_use]
    pub fn path(&self) -> &str {
        match &self.text[self.path..] {
            "" => "/",
            path => path,
        }
    }

    /// Without the path and the query, which often hold what nobody else is to know.
    #[must_use]
    pub fn place(&self) -> &str {
        &self.text[..self.path]
    }

    /// As it is written.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.text
    }
}

impl FromStr for WebhookUrl {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<Self, AddressError> {
        let read = || {
            let is_plain = text
                .bytes()
                .all(|byte| byte.is_ascii_graphic() && !b"#\"<>\\^`{|}".contains(&byte));
            if !is_plain || text.len() > URL_BYTES_MAX {
                return None;
            }
            let rest = text.strip_prefix("https://").or_else(|| text.strip_prefix("http://"))?;
            let end = rest.find(['/', '?']).unwrap_or(rest.len());
            if rest[end..].starts_with('?') {
                return None;
            }
            let server = rest[..end].parse().ok()?;
            let path = text.len() - rest.len() + end;
            Some(Self { text: text.to_owned(), server, path })
        };
        read().ok_or_else(|| AddressError::Url(text.to_owned()))
    }
}

impl Display for WebhookUrl {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// Each is stored as it is written, and read by the same rule.
macro_rules! as_text {
    ($($what:ident),+) => {$(
        impl TryFrom<String> for $what {
            type Error = AddressError;

            fn try_from(text: String) -> Result<Self, AddressError> {
                text.parse()
            }
        }

        impl From<$what> for String {
            fn from(it: $what) -> String {
                it.to_string()
            }
        }
    )+};
}

as_text!(HostPort, MailAddress, WebhookUrl);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_keep_their_form_and_others_are_refused() {
        for text in ["mail.example.com:587", "10.0.0.1", "[2001:db8::1]:514", "[::1]", "log_1"] {
            assert_eq!(text.parse::<HostPort>().unwrap().to_string(), text);
        }
        for bad in [
            "", ":25", "a:", "a:0", "a:65536", "a:+25", "a b", "a\r\nb", "::1", "[a]:1", "-a",
            "a/b",
        ] {
            let error = bad.parse::<HostPort>().unwrap_err().to_string();
            assert!(error.contains("write HOST or HOST:PORT") && !error.contains('\n'), "{error}");
        }
    }

    #[test]
    fn mailboxes_are_plain() {
        for good in ["ops@example.com", "a.b+c@x", "o'neil@mail-1.example.com"] {
            assert_eq!(good.parse::<MailAddress>().unwrap().as_str(), good);
        }
        for bad in [
            "",
            "ops",
            "@x",
            "a@",
            "a b@x",
            "a@x\r\nBcc: b@y",
            "a..b@x",
            "\"a\"@x",
            "a@[10.0.0.1]",
            "a,b@x",
            "a@x,b@y",
            "<a@x>",
            "ä@x",
            "a@x.",
            "a@-x",
            "a@x_y",
        ] {
            assert!(bad.parse::<MailAddress>().is_err(), "{bad:?}");
        }
    }

    #[test]
    fn a_url_is_taken_apart_and_shown_without_what_is_nobody_elses() {
        let url: WebhookUrl = "https://h.example.com:8443/hook/s3cret?a=b".parse().unwrap();
        assert_eq!((url.server().host.as_str(), url.port()), ("h.example.com", 8443));
        assert_eq!((url.path(), url.place()), ("/hook/s3cret?a=b", "https://h.example.com:8443"));
        let bare: WebhookUrl = "http://[::1]".parse().unwrap();
        assert_eq!((bare.port(), bare.path(), bare.is_https()), (80, "/", false));
        for bad in [
            "",
            "ftp://h/x",
            "https://",
            "https:///x",
            "https://u:p@h/x",
            "https://h/x#y",
            "https://h/a b",
            "https://h/\r\nX: y",
            "https://h?x",
            "h/x",
        ] {
            assert!(bad.parse::<WebhookUrl>().is_err(), "{bad:?}");
        }
    }
}

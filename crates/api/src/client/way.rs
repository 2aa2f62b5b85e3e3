//! The way to a member: its socket, or TLS.

use std::fmt::{self, Debug, Display, Formatter};
use std::io;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;

use axum::http::HeaderValue;
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect, socket_with};
use rustls::pki_types::ServerName;
use rustls::{CertificateError, ClientConfig};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use zeroize::Zeroizing;

use super::error::{ClientError, SILENCE};
use super::trust::{Trust, client_config};

/// The port of `https://` where none is written.
const PORT: u16 = 443;

/// What a request goes over.
pub(super) trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<S: AsyncRead + AsyncWrite + Send + Unpin> Stream for S {}

/// Where a member is managed from afar: `https://HOST[:PORT]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerUrl {
    /// A name or an address, without brackets.
    host: String,
    port: u16,
}

/// What is no such URL.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("'{0}' is no member's address: write https://HOST:PORT")]
pub struct UrlError(String);

impl FromStr for ServerUrl {
    type Err = UrlError;

    fn from_str(text: &str) -> Result<Self, UrlError> {
        let read = || {
            let rest = text.strip_prefix("https://")?;
            let rest = rest.strip_suffix('/').unwrap_or(rest);
            let (host, port) = match rest.strip_prefix('[') {
                Some(rest) => rest.split_once(']')?,
                None => rest.split_at(rest.find(':').unwrap_or(rest.len())),
            };
            let port = match port {
                "" => PORT,
                port => port.strip_prefix(':')?.parse().ok().filter(|port| *port > 0)?,
            };
            ServerName::try_from(host).ok()?;
            Some(Self { host: host.to_owned(), port })
        };
        read().ok_or_else(|| UrlError(text.to_owned()))
    }
}

impl ServerUrl {
    /// As `Host` has it.
    fn authority(&self) -> String {
        let Self { host, port } = self;
        if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") }
    }
}

impl Display for ServerUrl {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "https://{}", self.authority())
    }
}

/// A member that is managed from afar.
pub struct Remote {
    /// Where it is.
    pub url: ServerUrl,
    /// What it is asked with.
    pub token: Zeroizing<String>,
    /// How its certificate is checked.
    pub trust: Trust,
}

impl Debug for Remote {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.debug_struct("Remote").field("url", &self.url).finish_non_exhaustive()
    }
}

/// The way to a member.
#[derive(Debug)]
pub(super) enum Way {
    /// At a socket of this machine.
    Socket(PathBuf),
    /// Over TLS.
    Tls(Box<Tls>),
}

/// What TLS takes.
#[derive(Debug)]
pub(super) struct Tls {
    url: ServerUrl,
    config: Arc<ClientConfig>,
    /// The value of `Authorization`, which is not shown.
    login: HeaderValue,
}

impl Display for Way {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Socket(path) => Display::fmt(&path.display(), f),
            Self::Tls(tls) => Display::fmt(&tls.url, f),
        }
    }
}

impl Way {
    /// Over TLS.
    pub(super) fn remote(remote: Remote) -> Result<Self, ClientError> {
        let Remote { url, token, trust } = remote;
        let login = Zeroizing::new(format!("Bearer {}", *token));
        let mut login = HeaderValue::try_from(&**login).map_err(|_| ClientError::Token)?;
        login.set_sensitive(true);
        let config = client_config(trust).map_err(|why| {
            let place = url.to_string();
            ClientError::Untrusted { place, why }
        })?;
        Ok(Self::Tls(Box::new(Tls { url, config: Arc::new(config), login })))
    }

    /// Connects; waits for as long only as a member may be silent.
    pub(super) async fn connect(&self) -> Result<Box<dyn Stream>, ClientError> {
        let reaching = |error| ClientError::reaching(self, error);
        match self {
            Self::Socket(path) => Ok(Box::new(reach(path).map_err(reaching)?)),
            Self::Tls(tls) => {
                let connected = timeout(SILENCE, tls.connect(self)).await;
                connected.unwrap_or_else(|_| Err(ClientError::Silent(self.to_string())))
            }
        }
    }

    /// The value of `Host`.
    pub(super) fn host(&self) -> String {
        match self {
            Self::Socket(_) => "localhost".to_owned(),
            Self::Tls(tls) => tls.url.authority(),
        }
    }

    /// The value of `Authorization`, where one is needed.
    pub(super) fn login(&self) -> Option<&HeaderValue> {
        match self {
            Self::Socket(_) => None,
            Self::Tls(tls) => Some(&tls.login),
        }
    }
}

impl Tls {
    async fn connect(&self, way: &Way) -> Result<Box<dyn Stream>, ClientError> {
        let ServerUrl { host, port } = &self.url;
        let reaching = |source| ClientError::Unreachable { place: way.to_string(), source };
        let stream = tokio::net::TcpStream::connect((host.as_str(), *port)).await;
        let stream = stream.map_err(reaching)?;
        stream.set_nodelay(true).map_err(reaching)?;
        let name = ServerName::try_from(host.clone()).expect("it was one when it was read");
        let connector = TlsConnector::from(self.config.clone());
        let shaken = connector.connect(name, stream).await;
        Ok(Box::new(shaken.map_err(|error| refused(way, error))?))
    }
}

/// Why no TLS came about.
fn refused(way: &Way, error: io::Error) -> ClientError {
    let place = way.to_string();
    match error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>()) {
        Some(rustls::Error::InvalidCertificate(why)) => {
            ClientError::Untrusted { place, why: wrong_with(why) }
        }
        Some(other) => ClientError::Strange { place, what: other.to_string() },
        None => ClientError::Unreachable { place, source: error },
    }
}

/// What is wrong with a certificate, for people.
fn wrong_with(error: &CertificateError) -> String {
    match error {
        CertificateError::UnknownIssuer => {
            "it is none that is trusted here, and nobody who is vouches for it".to_owned()
        }
        CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
            "it was made for other names than this one".to_owned()
        }
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
            "it has expired".to_owned()
        }
        CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
            "it is not valid yet: is the clock right?".to_owned()
        }
        other => other.to_string(),
    }
}

fn reach(path: &Path) -> io::Result<tokio::net::UnixStream> {
    let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
    set_socket_timeout(&socket, Timeout::Send, Some(SILENCE))?;
    connect(&socket, &SocketAddrUnix::new(path)?)?;
    let stream = UnixStream::from(socket);
    stream.set_nonblocking(true)?;
    tokio::net::UnixStream::from_std(stream)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_member_has_an_https_url_and_nothing_behind_it() {
        let shown = |text: &str| text.parse::<ServerUrl>().map(|url| url.to_string());
        for (text, url) in [
            ("https://san1.example.com:8443", "https://san1.example.com:8443"),
            ("https://san1/", "https://san1:443"),
            ("https://192.0.2.1:8443", "https://192.0.2.1:8443"),
            ("https://[2001:db8::1]:8443", "https://[2001:db8::1]:8443"),
        ] {
            assert_eq!(shown(text).unwrap(), url);
        }
        for wrong in [
            "",
            "san1:8443",
            "http://san1:8443",
            "https://",
            "https://san1:",
            "https://san1:0",
            "https://san1:99999",
            "https://san1:8443/v1",
            "https://ada:secret@san1",
            "https://[::1",
            "https://2001:db8::1",
            "https://a b",
        ] {
            let error = shown(wrong).unwrap_err().to_string();
            assert!(error.contains("write https://HOST:PORT"), "{wrong}: {error}");
        }
    }
}

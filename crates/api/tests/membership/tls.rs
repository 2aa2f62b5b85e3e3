//! The door by hand, from any address of this machine.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use group::pki::SERVER_NAME;
use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, connect, socket_with};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

use crate::Lab;

/// TCP from this address of the loopback network: `127.0.0.LAST`.
pub(crate) fn tcp(to: SocketAddr, last: u8) -> TcpStream {
    try_tcp(to, last).expect("it listens")
}

/// The same where nobody may listen. From another address than that, so that no port is connected to itself.
pub(crate) fn try_tcp(to: SocketAddr, last: u8) -> io::Result<TcpStream> {
    let flags = SocketFlags::CLOEXEC;
    let socket = socket_with(AddressFamily::INET, SocketType::STREAM, flags, None)?;
    bind(&socket, &SocketAddr::from(([127, 0, 0, last], 0)))?;
    connect(&socket, &to)?;
    let stream = TcpStream::from(socket);
    stream.set_read_timeout(Some(Duration::from_secs(30)))?;
    Ok(stream)
}

pub(crate) type Stream = StreamOwned<ClientConnection, TcpStream>;

/// TLS over that, with a member of this group.
pub(crate) fn tls(lab: &Lab, to: SocketAddr, last: u8) -> Stream {
    let pem = lab.authority.certificate_pem().as_bytes();
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(pem).expect("a certificate")).expect("an authority");
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("versions that there are")
        .with_root_certificates(roots)
        .with_no_client_auth();
    let name = ServerName::try_from(SERVER_NAME).expect("a name");
    let connection = ClientConnection::new(Arc::new(config), name).expect("a client");
    StreamOwned::new(connection, tcp(to, last))
}

/// A request to the door.
pub(crate) fn request(method: &str, path: &str, body: &str) -> String {
    let len = body.len();
    format!(
        "{method} {path} HTTP/1.1\r\nhost: san1\r\ncontent-type: application/json\r\ncontent-length: {len}\r\n\r\n{body}"
    )
}

/// What is answered.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    /// In lower case.
    pub(crate) head: String,
    pub(crate) body: String,
}

impl Reply {
    /// Hears until the other side hangs up.
    pub(crate) fn hear(stream: &mut impl Read) -> Self {
        let mut bytes = Vec::new();
        match stream.read_to_end(&mut bytes) {
            // Not everybody says good-bye as TLS wants it.
            Err(error) if error.kind() != io::ErrorKind::UnexpectedEof => {
                panic!("no whole answer: {error}: {}", String::from_utf8_lossy(&bytes))
            }
            _ => {}
        }
        let text = String::from_utf8(bytes).expect("text");
        let (head, body) = text.split_once("\r\n\r\n").expect("an answer");
        let status = head.split(' ').nth(1).and_then(|status| status.parse().ok());
        Self { status: status.expect("a status"), head: head.to_lowercase(), body: body.to_owned() }
    }

    /// The code of a problem.
    pub(crate) fn code(&self) -> String {
        let problem: serde_json::Value = serde_json::from_str(&self.body).expect("a problem");
        problem["code"].as_str().expect("a code").to_owned()
    }
}

/// Asks at the door from there, and hears the answer to its end: the door hangs up.
pub(crate) fn ask(lab: &Lab, to: SocketAddr, last: u8, request: &str) -> Reply {
    let mut stream = tls(lab, to, last);
    stream.write_all(request.as_bytes()).expect("it is taken");
    Reply::hear(&mut stream)
}

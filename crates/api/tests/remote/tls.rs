//! HTTP over TLS by hand, from any address of this machine.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use base64ct::{Base64, Encoding};
use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, connect, socket_with};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{
    ClientConfig, ClientConnection, DigitallySignedStruct, Error, SignatureScheme, StreamOwned,
    SupportedProtocolVersion,
};

/// Trusts anybody: what is tried here is the other end.
#[derive(Debug)]
struct Anybody;

impl ServerCertVerifier for Anybody {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn verify_tls13_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        rustls::crypto::ring::default_provider()
            .signature_verification_algorithms
            .supported_schemes()
    }
}

pub(crate) type Stream = StreamOwned<ClientConnection, TcpStream>;

/// TCP from this address of the loopback network: `127.0.0.LAST`.
pub(crate) fn tcp(to: SocketAddr, last: u8) -> TcpStream {
    let flags = SocketFlags::CLOEXEC;
    let socket = socket_with(AddressFamily::INET, SocketType::STREAM, flags, None);
    let socket = socket.expect("a socket");
    bind(&socket, &SocketAddr::from(([127, 0, 0, last], 0))).expect("an address of loopback");
    connect(&socket, &to).expect("it listens");
    let stream = TcpStream::from(socket);
    stream.set_read_timeout(Some(Duration::from_secs(30))).expect("it can be set");
    stream
}

/// TLS over that, in one of these versions.
pub(crate) fn tls_of(
    to: SocketAddr,
    last: u8,
    versions: &[&'static SupportedProtocolVersion],
) -> Stream {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(versions)
        .expect("versions that there are")
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(Anybody))
        .with_no_client_auth();
    let name = ServerName::try_from("localhost").expect("a name");
    let connection = ClientConnection::new(Arc::new(config), name).expect("a client");
    StreamOwned::new(connection, tcp(to, last))
}

pub(crate) fn tls(to: SocketAddr, last: u8) -> Stream {
    tls_of(to, last, rustls::ALL_VERSIONS)
}

/// A request with these lines as its head.
pub(crate) fn request(method: &str, path: &str, lines: &[&str], body: &str) -> String {
    let mut head = format!("{method} {path} HTTP/1.1\r\nhost: san1\r\nconnection: close\r\n");
    lines.iter().for_each(|line| head.push_str(&format!("{line}\r\n")));
    if !body.is_empty() {
        let len = body.len();
        head.push_str(&format!("content-type: application/json\r\ncontent-length: {len}\r\n"));
    }
    format!("{head}\r\n{body}")
}

/// Asks from there; the head of the answer, in lower case, and what came of the body with it.
pub(crate) fn ask(to: SocketAddr, last: u8, request: &str) -> String {
    let mut stream = tls(to, last);
    // One that is refused early may be closed before all was sent.
    drop(stream.write_all(request.as_bytes()));
    head(&mut stream)
}

/// Hears until the head of an answer is there.
pub(crate) fn head(stream: &mut impl Read) -> String {
    try_head(stream).expect("an answer")
}

/// The same of one that may hang up before what it was sent is read.
pub(crate) fn try_head(stream: &mut impl Read) -> io::Result<String> {
    let mut text = Vec::new();
    while !text.windows(4).any(|four| four == b"\r\n\r\n") {
        let mut piece = [0; 4096];
        let len = stream.read(&mut piece)?;
        if len == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        text.extend_from_slice(&piece[..len]);
    }
    Ok(String::from_utf8_lossy(&text).to_lowercase())
}

/// The status in the head of an answer.
pub(crate) fn status(answer: &str) -> u16 {
    answer.split(' ').nth(1).and_then(|status| status.parse().ok()).expect("a status")
}

pub(crate) fn bearer(token: &str) -> String {
    format!("authorization: Bearer {token}")
}

pub(crate) fn basic(account: &str, password: &str) -> String {
    let both = format!("{account}:{password}");
    format!("authorization: Basic {}", Base64::encode_string(both.as_bytes()))
}

/// Hears to the end, however that comes about.
pub(crate) fn rest(stream: &mut impl Read) -> (String, io::Result<()>) {
    let mut bytes = Vec::new();
    let end = stream.read_to_end(&mut bytes).map(drop);
    (String::from_utf8_lossy(&bytes).into_owned(), end)
}

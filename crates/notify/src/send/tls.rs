//! TLS to destinations. Certificates are always checked.

use std::io;
use std::sync::Arc;

use group::destinations::HostPort;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use super::{SendError, has_cause};

/// Shakes hands with a server that was reached.
pub(super) async fn shake(
    stream: TcpStream,
    server: &HostPort,
    roots: Option<&str>,
    place: &str,
) -> Result<TlsStream<TcpStream>, SendError> {
    let config = config(roots).map_err(|error| SendError::untrusted(place, &error))?;
    let name = ServerName::try_from(server.host.clone());
    let name = name.map_err(|error| SendError::untrusted(place, &error))?;
    let shaken = TlsConnector::from(Arc::new(config)).connect(name, stream).await;
    shaken.map_err(|error| match is_of_tls(&error) {
        true => SendError::untrusted(place, &error),
        false => SendError::unreachable(place, &error),
    })
}

/// Whether TLS is at the bottom of an error: then who is there was reached, and is not who it should be.
pub(super) fn is_of_tls(error: &(dyn std::error::Error + 'static)) -> bool {
    has_cause::<rustls::Error>(error)
}

/// Trusts the authorities in PEM, or without those the ones that the system trusts.
fn config(roots: Option<&str>) -> io::Result<ClientConfig> {
    let mut store = RootCertStore::empty();
    match roots {
        Some(pem) => {
            for one in CertificateDer::pem_slice_iter(pem.as_bytes()) {
                let one = one.map_err(|error| {
                    io::Error::other(format!("the certificates to trust do not read: {error}"))
                })?;
                store.add(one).map_err(io::Error::other)?;
            }
        }
        None => {
            let system = rustls_native_certs::load_native_certs();
            store.add_parsable_certificates(system.certs);
        }
    }
    if store.is_empty() {
        return Err(io::Error::other("there are no certificates to trust"));
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider);
    let config = config.with_safe_default_protocol_versions().map_err(io::Error::other)?;
    Ok(config.with_root_certificates(store).with_no_client_auth())
}

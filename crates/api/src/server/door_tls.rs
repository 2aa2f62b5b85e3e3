//! What the door of members proves to who comes: that this is a member of its group.

use std::sync::Arc;

use group::pki::only_certificate;
use rustls::ServerConfig;
use rustls::pki_types::PrivateKeyDer;
use rustls::pki_types::pem::PemObject;
use rustls::version::TLS13;

/// TLS 1.3 with the certificate of this member and, behind it, that of its group's authority, by which alone a server
/// that joins knows the group. Nobody is asked for a certificate: who joins has none yet. All are in PEM.
pub(super) fn door_server_config(
    certificate_pem: &str,
    authority_pem: &str,
    key_pem: &str,
) -> Result<Arc<ServerConfig>, String> {
    let certificate = |pem: &str, whose: &str| {
        only_certificate(pem)
            .map_err(|why| format!("the certificate of {whose} does not read: {why}"))
    };
    let chain = vec![
        certificate(certificate_pem, "this member")?,
        certificate(authority_pem, "the group's authority")?,
    ];
    // What does not read is not told: it may be most of a key.
    let key = PrivateKeyDer::from_pem_slice(key_pem.as_bytes()).map_err(|_| {
        "the key of this member does not read: it is no private key in PEM".to_owned()
    })?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&TLS13])
        .map_err(|error| error.to_string())?;
    let mut config = config
        .with_no_client_auth()
        .with_single_cert(chain, key)
        .map_err(|error| format!("the certificate of this member cannot be used: {error}"))?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    // A server joins once: it has no session to come back to.
    config.send_tls13_tickets = 0;
    Ok(Arc::new(config))
}

#[cfg(test)]
mod tests;

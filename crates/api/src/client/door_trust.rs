//! How the door of a group's members is checked by who has nothing of the group but a ticket.

use std::sync::Arc;

use group::pki::SERVER_NAME;
use rustls::client::danger::ServerCertVerifier;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::ServerName;
use rustls::version::TLS13;
use rustls::{ClientConfig, Error, RootCertStore};

use super::trust::{Fingerprint, Presented, Trusted, Verifier, check_time, unknown, verifier};

/// A client of TLS 1.3 that trusts the members of one group: who presents its own certificate and that of the authority
/// with this SHA-256, which has issued the first one for [`SERVER_NAME`]. The name or address that is connected to does
/// not matter: no ticket vouches for it. Why it can trust nobody.
pub(crate) fn door_client_config(authority_sha256: &str) -> Result<ClientConfig, String> {
    let sha256 = authority_sha256.parse::<Fingerprint>().map_err(|error| error.to_string())?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider.clone())
        .with_protocol_versions(&[&TLS13])
        .map_err(|error| error.to_string())?;
    let trusted = OfAuthority { sha256, provider: provider.clone() };
    let mut config = config
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(Verifier { trusted, provider }))
        .with_no_client_auth();
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(config)
}

/// Whom one authority has issued a certificate. Of that authority only the SHA-256 is known, so it has to be presented
/// too.
#[derive(Debug)]
struct OfAuthority {
    sha256: Fingerprint,
    provider: Arc<CryptoProvider>,
}

impl Trusted for OfAuthority {
    fn check(&self, presented: &Presented<'_>) -> Result<(), Error> {
        let [authority] = presented.intermediates else { return Err(unknown()) };
        if !self.sha256.is_of(authority) {
            return Err(unknown());
        }
        // The time of what is trusted is nobody's concern below: it is taken for a root.
        check_time(authority, presented.now)?;
        let mut roots = RootCertStore::empty();
        roots.add(authority.clone())?;
        let verifier = verifier(roots, &self.provider).map_err(Error::General)?;
        let name = ServerName::try_from(SERVER_NAME).expect("it is the name of a server");
        let Presented { end_entity, ocsp_response, now, .. } = *presented;
        // No other certificate comes in between.
        verifier.verify_server_cert(end_entity, &[], &name, ocsp_response, now).map(drop)
    }
}

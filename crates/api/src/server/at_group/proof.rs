//! What is proved to who comes to the address of the group.

use std::net::IpAddr;
use std::sync::Arc;

use group::pki::{is_over, only_certificate};
use member::AddressProof;
use rustls::ServerConfig;
use rustls::crypto::ring::default_provider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{PrivateKeyDer, ServerName};
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;

use crate::mutants::{self, Mutant};
use crate::server::tls::{Identity, server_config_of};

/// TLS as the interface of the member has it, with the certificate that the group's authority has issued for its
/// address; or with the one that the operator has given to this member, where that is made out to what the client asks
/// for and its time is not over. Why there can be none.
pub(super) fn server_config(
    proof: &AddressProof,
    address: IpAddr,
    given: Identity,
) -> Result<Arc<ServerConfig>, String> {
    let certificate = only_certificate(&proof.certificate)
        .map_err(|why| format!("the certificate for its address does not read: {why}"))?;
    // What does not read is not told: it may be most of a key.
    let key = PrivateKeyDer::from_pem_slice(proof.key.0.as_bytes())
        .map_err(|_| "the key for its address is no private key in PEM".to_owned())?;
    let of_group = CertifiedKey::from_der(vec![certificate], key, &default_provider())
        .map_err(|error| format!("the certificate for its address cannot be used: {error}"))?;
    let proves = Proves { address, of_group: Arc::new(of_group), given };
    let config = server_config_of(Arc::new(proves)).map_err(|error| error.to_string())?;
    Ok(Arc::new(config))
}

/// Whether somebody could still believe it: who forgot to renew one has that of the group there.
fn lasts(own: &CertifiedKey) -> bool {
    own.cert.first().is_some_and(|own| !is_over(own)) || mutants::is(Mutant::ProveByOld)
}

/// Chooses by what the client asks for: a name, or, as it tells none then, the address.
#[derive(Debug)]
struct Proves {
    address: IpAddr,
    of_group: Arc<CertifiedKey>,
    given: Identity,
}

impl ResolvesServerCert for Proves {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let name = match hello.server_name().map(ServerName::try_from) {
            Some(Ok(name)) => name,
            _ => ServerName::from(self.address),
        };
        let is_wanted = |own: &Identity| own.is_given() || mutants::is(Mutant::ProveByOwn);
        let given = Some(&self.given).filter(|own| is_wanted(own));
        let given = given.and_then(|own| own.made_out_to(&name)).filter(|own| lasts(own));
        Some(given.unwrap_or_else(|| self.of_group.clone()))
    }
}

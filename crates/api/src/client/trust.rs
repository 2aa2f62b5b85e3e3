//! How the certificate of a member is checked. There is no way to leave that out.

use std::fmt::Debug;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use group::pki::fingerprint;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{WebPkiServerVerifier, verify_server_name};
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, Error, RootCertStore, SignatureScheme,
};

use x509_cert::Certificate;
use x509_cert::der::Decode;
use x509_cert::ext::pkix::BasicConstraints;
use x509_cert::time::Validity;

/// By what the certificate of a member is trusted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Trust {
    /// By the authorities that this system trusts.
    System,
    /// By the authorities among those of a file in PEM, or because it is one of the certificates in there.
    Authorities(Vec<u8>),
    /// Because it is the one with this fingerprint.
    Fingerprint(Fingerprint),
}

/// The SHA-256 of a certificate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fingerprint(String);

/// What is no fingerprint.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("'{0}' is no SHA-256 of a certificate: write its 64 hexadecimal digits")]
pub struct FingerprintError(String);

impl FromStr for Fingerprint {
    type Err = FingerprintError;

    /// With colons between its bytes, as other programs print it, or without.
    fn from_str(text: &str) -> Result<Self, FingerprintError> {
        let digits: String = text.chars().filter(|c| *c != ':').collect();
        let digits = digits.to_ascii_lowercase();
        if digits.len() == 64 && digits.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return Ok(Self(digits));
        }
        Err(FingerprintError(text.to_owned()))
    }
}

impl Fingerprint {
    /// Whether this certificate has it.
    pub(super) fn is_of(&self, certificate: &CertificateDer<'_>) -> bool {
        self.0 == fingerprint(certificate)
    }
}

/// A client of TLS that trusts so; why it can trust nobody.
pub(crate) fn client_config(trust: Trust) -> Result<ClientConfig, String> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider.clone())
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?;
    let (authorities, exactly) = match trust {
        Trust::System => (Some(of_system(&provider)?), Exactly::OneOf(Vec::new())),
        Trust::Authorities(pem) => {
            let all: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&pem).collect();
            let all =
                all.map_err(|error| format!("the file of authorities does not read: {error}"))?;
            if all.is_empty() {
                return Err("the file of authorities holds no certificate in PEM".to_owned());
            }
            let mut roots = RootCertStore::empty();
            for one in &all {
                let read = Certificate::from_der(one);
                let read = read
                    .map_err(|error| format!("a certificate in the file does not read: {error}"))?;
                // Others vouch for themselves alone: who has the key of one member is not all of them.
                if is_authority(&read) {
                    roots.add_parsable_certificates([one.clone()]);
                }
            }
            let authorities = verifier(roots, &provider).ok();
            (authorities, Exactly::OneOf(all))
        }
        Trust::Fingerprint(fingerprint) => (None, Exactly::Fingerprint(fingerprint)),
    };
    let verifier = Verifier { trusted: Known { authorities, exactly }, provider };
    let mut config = config
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(verifier))
        .with_no_client_auth();
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(config)
}

fn of_system(provider: &Arc<CryptoProvider>) -> Result<Arc<WebPkiServerVerifier>, String> {
    let found = rustls_native_certs::load_native_certs();
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(found.certs);
    verifier(roots, provider)
        .map_err(|_| "this system knows no authorities (package ca-certificates)".to_owned())
}

/// Whether it may sign others (RFC 5280 4.2.1.9).
fn is_authority(certificate: &Certificate) -> bool {
    let constraints = certificate.tbs_certificate.get::<BasicConstraints>();
    constraints.is_ok_and(|found| found.is_some_and(|(_, constraints)| constraints.ca))
}

/// Refuses one whose time is not now (RFC 5280 4.1.2.5).
pub(super) fn check_time(certificate: &CertificateDer<'_>, now: UnixTime) -> Result<(), Error> {
    let read = Certificate::from_der(certificate)
        .map_err(|_| Error::InvalidCertificate(CertificateError::BadEncoding))?;
    let Validity { not_before, not_after } = read.tbs_certificate.validity;
    let now = Duration::from_secs(now.as_secs());
    if now < not_before.to_unix_duration() {
        return Err(Error::InvalidCertificate(CertificateError::NotValidYet));
    }
    if now > not_after.to_unix_duration() {
        return Err(Error::InvalidCertificate(CertificateError::Expired));
    }
    Ok(())
}

pub(super) fn verifier(
    roots: RootCertStore,
    provider: &Arc<CryptoProvider>,
) -> Result<Arc<WebPkiServerVerifier>, String> {
    let builder =
        WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider.clone()).build();
    builder.map_err(|error| error.to_string())
}

/// Certificates that are trusted for being what they are.
#[derive(Debug)]
enum Exactly {
    OneOf(Vec<CertificateDer<'static>>),
    Fingerprint(Fingerprint),
}

/// What a server presents to prove who it is.
pub(super) struct Presented<'a> {
    pub(super) end_entity: &'a CertificateDer<'a>,
    pub(super) intermediates: &'a [CertificateDer<'a>],
    pub(super) server_name: &'a ServerName<'a>,
    pub(super) ocsp_response: &'a [u8],
    pub(super) now: UnixTime,
}

/// Whose certificates are trusted.
pub(super) trait Trusted: Debug + Send + Sync {
    /// Refuses what a server presents that is not trusted.
    fn check(&self, presented: &Presented<'_>) -> Result<(), Error>;
}

/// Trusts the certificates that are trusted so. That who presents one has its key is checked in any case.
#[derive(Debug)]
pub(super) struct Verifier<T> {
    pub(super) trusted: T,
    pub(super) provider: Arc<CryptoProvider>,
}

/// By authorities, or for being one of some certificates.
#[derive(Debug)]
struct Known {
    authorities: Option<Arc<WebPkiServerVerifier>>,
    exactly: Exactly,
}

impl Trusted for Known {
    fn check(&self, presented: &Presented<'_>) -> Result<(), Error> {
        let Presented { end_entity, intermediates, server_name, ocsp_response, now } = *presented;
        match &self.exactly {
            // Whatever name it was made for: it is this one.
            Exactly::Fingerprint(fingerprint) if fingerprint.is_of(end_entity) => return Ok(()),
            Exactly::Fingerprint(_) => return Err(unknown()),
            // One that vouches for itself, which no chain of authorities leads to.
            Exactly::OneOf(all) if all.iter().any(|known| known == end_entity) => {
                verify_server_name(&ParsedCertificate::try_from(end_entity)?, server_name)?;
                return check_time(end_entity, now);
            }
            Exactly::OneOf(_) => {}
        }
        let authorities = self.authorities.as_ref().ok_or_else(unknown)?;
        authorities
            .verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now)
            .map(drop)
    }
}

impl<T: Trusted> ServerCertVerifier for Verifier<T> {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let presented = Presented { end_entity, intermediates, server_name, ocsp_response, now };
        self.trusted.check(&presented).map(|()| ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls12_signature(message, cert, dss, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls13_signature(message, cert, dss, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}

pub(super) fn unknown() -> Error {
    Error::InvalidCertificate(CertificateError::UnknownIssuer)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fingerprint_is_written_as_others_print_it() {
        let plain = "ab".repeat(32);
        let colons = vec!["AB"; 32].join(":");
        assert_eq!(plain.parse::<Fingerprint>(), colons.parse());
        for wrong in ["", "ab", &"g0".repeat(32), &plain[1..]] {
            let error = wrong.parse::<Fingerprint>().unwrap_err().to_string();
            assert!(error.contains("64 hexadecimal digits"), "{error}");
        }
    }

    #[test]
    fn a_file_without_certificates_is_trusted_by_nobody() {
        for pem in [&b""[..], b"-----BEGIN NOTHING-----\n", b"plain"] {
            assert!(client_config(Trust::Authorities(pem.to_vec())).is_err());
        }
    }
}

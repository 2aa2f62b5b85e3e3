//! What two members of a group prove to each other: each, that it is the one that the roll knows.

use std::sync::Arc;

use group::pki::{fingerprint, only_certificate};
use member::{CurrentRoll, SecretWord};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{Resumption, WebPkiServerVerifier};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::version::TLS13;
use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, DistinguishedName, Error, RootCertStore,
    ServerConfig, SignatureScheme,
};
use sha2::{Digest, Sha256};

use super::member_of;

/// What a member proves with, and the authority that vouches for all of its group.
#[derive(Clone, Copy)]
pub(super) struct Proof<'a> {
    /// The certificate of the group's authority, in PEM.
    pub(super) authority: &'a str,
    /// That of this member.
    pub(super) certificate: &'a str,
    /// Its key.
    pub(super) key: &'a SecretWord,
}

impl Proof<'_> {
    fn roots(&self) -> Result<Arc<RootCertStore>, String> {
        let mut roots = RootCertStore::empty();
        let added = roots.add(certificate(self.authority, "the group's authority")?);
        added.map_err(|error| {
            format!("the certificate of the group's authority cannot be used: {error}")
        })?;
        Ok(Arc::new(roots))
    }

    fn chain(&self) -> Result<Vec<CertificateDer<'static>>, String> {
        Ok(vec![certificate(self.certificate, "this member")?])
    }

    fn key(&self) -> Result<PrivateKeyDer<'static>, String> {
        // What does not read is not told: it may be most of a key.
        PrivateKeyDer::from_pem_slice(self.key.0.as_bytes()).map_err(|_| {
            "the key of this member does not read: it is no private key in PEM".to_owned()
        })
    }
}

fn certificate(pem: &str, whose: &str) -> Result<CertificateDer<'static>, String> {
    only_certificate(pem).map_err(|why| format!("the certificate of {whose} does not read: {why}"))
}

fn unusable(error: &Error) -> String {
    format!("the certificate of this member cannot be used: {error}")
}

/// TLS 1.3 with whoever shows the certificate of another member that is in the group now; why there can be none.
pub(super) fn server_config(
    proof: Proof<'_>,
    roll: CurrentRoll,
) -> Result<Arc<ServerConfig>, String> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    // Strangers need not hear what the authority is called.
    let of_authority =
        WebPkiClientVerifier::builder_with_provider(proof.roots()?, provider.clone())
            .clear_root_hint_subjects()
            .build()
            .map_err(|error| error.to_string())?;
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&TLS13])
        .map_err(|error| error.to_string())?
        .with_client_cert_verifier(Arc::new(OtherMembers { of_authority, roll }))
        .with_single_cert(proof.chain()?, proof.key()?)
        .map_err(|error| unusable(&error))?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    // A session that is gone on with would let in who was removed meanwhile.
    config.send_tls13_tickets = 0;
    Ok(Arc::new(config))
}

/// TLS 1.3 with the member whose certificate has this SHA-256, and nobody else; why there can be none.
pub(super) fn client_config(proof: Proof<'_>, sha256: &str) -> Result<Arc<ClientConfig>, String> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let of_authority =
        WebPkiServerVerifier::builder_with_provider(proof.roots()?, provider.clone())
            .build()
            .map_err(|error| error.to_string())?;
    let one = OneMember { of_authority, sha256: sha256.to_ascii_lowercase() };
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&TLS13])
        .map_err(|error| error.to_string())?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(one))
        .with_client_auth_cert(proof.chain()?, proof.key()?)
        .map_err(|error| unusable(&error))?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    config.resumption = Resumption::disabled();
    Ok(Arc::new(config))
}

/// Of this group, and not the one that is meant.
const fn not_meant() -> Error {
    Error::InvalidCertificate(CertificateError::ApplicationVerificationFailure)
}

/// Lets in who has the certificate of another member, as the roll is at that moment.
#[derive(Debug)]
struct OtherMembers {
    of_authority: Arc<dyn ClientCertVerifier>,
    roll: CurrentRoll,
}

impl ClientCertVerifier for OtherMembers {
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        self.of_authority.root_hint_subjects()
    }

    fn verify_client_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        // The authority issues to members alone: no other certificate comes in between.
        let verified = self.of_authority.verify_client_cert(end_entity, &[], now)?;
        let group = self.roll.now().ok_or_else(not_meant)?;
        let sha256 = Sha256::digest(end_entity).into();
        member_of(&group, &sha256).map(|_| verified).ok_or_else(not_meant)
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.of_authority.verify_tls12_signature(message, certificate, signed)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.of_authority.verify_tls13_signature(message, certificate, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.of_authority.supported_verify_schemes()
    }
}

/// Goes on with one member alone, at whatever address it answers.
#[derive(Debug)]
struct OneMember {
    of_authority: Arc<WebPkiServerVerifier>,
    sha256: String,
}

impl ServerCertVerifier for OneMember {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let verifier = &self.of_authority;
        let verified =
            verifier.verify_server_cert(end_entity, &[], server_name, ocsp_response, now)?;
        if fingerprint(end_entity) == self.sha256 { Ok(verified) } else { Err(not_meant()) }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.of_authority.verify_tls12_signature(message, certificate, signed)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.of_authority.verify_tls13_signature(message, certificate, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.of_authority.supported_verify_schemes()
    }
}

//! The authority of a group, and what it issues.

use std::fmt::{self, Debug, Formatter};
use std::net::{IpAddr, Ipv4Addr};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose, PublicKeyData, date_time_ymd,
};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use x509_cert::Certificate;
use x509_cert::der::asn1::ObjectIdentifier;
use x509_cert::der::{Decode, Encode};
use x509_cert::ext::pkix;
use zeroize::Zeroizing;

use super::{PkiError, SERVER_NAME, fingerprint};
use crate::membership::GroupId;
use crate::mutants::{self, Mutant};
use crate::secrets::Key;

/// How long before it is made a certificate begins: the clocks of members differ.
const EARLIER: Duration = Duration::from_secs(24 * 60 * 60);

/// How long an authority lasts, and all that it issues: 100 years of 365.25 days. A certificate that ends before its
/// member does would end the group on a day that nobody remembers.
const LIFETIME: Duration = Duration::from_secs(100 * 31_557_600);

/// The end of 9999, the last moment that a certificate can tell (RFC 5280 §4.1.2.5), since 1970.
const LATEST: Duration = Duration::from_secs(253_402_300_799);

/// How long a common name may be (`ub-common-name`, RFC 5280 appendix A.1).
const COMMON_NAME_CHARS_MAX: usize = 64;

/// What the key of the group's settings is derived for.
const SETTINGS: &str = "settings of a group";

/// `id-at-commonName`.
const COMMON_NAME: ObjectIdentifier = ObjectIdentifier::new_unwrap("2.5.4.3");

/// The authority that vouches for the members of one group.
///
/// Invariant: the key belongs to the certificate, which is one of an authority, whose name all that it issues has as
/// that of its issuer.
pub struct Authority {
    issuer: Issuer<'static, KeyPair>,
    certificate_pem: String,
    key_pem: Zeroizing<String>,
    sha256: String,
    /// When its certificate begins, since 1970.
    begins: Duration,
    /// When it ends: so does all that it issues.
    ends: Duration,
}

/// A certificate that was issued, with the key that was made for it.
#[derive(Clone, PartialEq, Eq)]
pub struct Issued {
    /// The certificate, in PEM.
    pub certificate_pem: String,
    /// The private key, in PEM (PKCS #8).
    pub key_pem: Zeroizing<String>,
    /// The SHA-256 of the certificate, in hexadecimal digits.
    pub sha256: String,
}

impl Debug for Authority {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        out.debug_struct("Authority").field("sha256", &self.sha256).finish_non_exhaustive()
    }
}

impl Debug for Issued {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        out.debug_struct("Issued").field("sha256", &self.sha256).finish_non_exhaustive()
    }
}

impl Authority {
    /// Makes the authority of a group that is being made.
    ///
    /// # Errors
    /// The system has no randomness.
    pub fn make(group: &GroupId) -> Result<Self, PkiError> {
        Self::make_at(group, now())
    }

    pub(super) fn make_at(group: &GroupId, now: Duration) -> Result<Self, PkiError> {
        let (begins, ends) = (begin(now), now.saturating_add(LIFETIME).min(LATEST));
        let key = KeyPair::generate()?;
        let mut params = params(&format!("drystone group {group}"));
        last(&mut params, begins, ends);
        let certificate = params.self_signed(&key)?;
        Ok(Self {
            certificate_pem: certificate.pem(),
            key_pem: Zeroizing::new(key.serialize_pem()),
            sha256: fingerprint(certificate.der()),
            issuer: Issuer::new(params, key),
            begins,
            ends,
        })
    }

    /// The one that was made before.
    ///
    /// # Errors
    /// They do not read, or do not belong together.
    pub fn read(certificate_pem: &str, key_pem: &str) -> Result<Self, PkiError> {
        let der = only_certificate(certificate_pem).map_err(PkiError::Certificate)?;
        let unread = |error: x509_cert::der::Error| PkiError::Certificate(error.to_string());
        let certificate = Certificate::from_der(&der).map_err(unread)?;
        let name = name_of_authority(&certificate).ok_or(PkiError::NoAuthority)?;
        // What does not read is not told: it may be most of a key.
        let key = KeyPair::from_pem(key_pem).map_err(|_| PkiError::Key)?;
        let tbs = &certificate.tbs_certificate;
        if tbs.subject_public_key_info.to_der().map_err(unread)? != key.subject_public_key_info() {
            return Err(PkiError::OtherKey);
        }
        Ok(Self {
            certificate_pem: certificate_pem.to_owned(),
            key_pem: Zeroizing::new(key_pem.to_owned()),
            sha256: fingerprint(&der),
            issuer: Issuer::new(params(&name), key),
            begins: tbs.validity.not_before.to_unix_duration(),
            ends: tbs.validity.not_after.to_unix_duration(),
        })
    }

    /// Its certificate, in PEM.
    #[must_use]
    pub fn certificate_pem(&self) -> &str {
        &self.certificate_pem
    }

    /// Its private key, in PEM (PKCS #8).
    #[must_use]
    pub const fn key_pem(&self) -> &Zeroizing<String> {
        &self.key_pem
    }

    /// The key that secrets of the group's settings are sealed with: each member has it, as each has this authority.
    #[must_use]
    pub fn settings_key(&self) -> Key {
        Key::derived(SETTINGS, self.issuer.key().serialized_der())
    }

    /// The SHA-256 of its certificate, in hexadecimal digits.
    #[must_use]
    pub fn sha256(&self) -> String {
        self.sha256.clone()
    }

    /// Makes a key, and vouches for it as that of the member of this name at this address: as a server and as a client.
    ///
    /// # Errors
    /// A name or an address that no certificate has, or the system has no randomness.
    pub fn issue(&self, name: &str, address: IpAddr) -> Result<Issued, PkiError> {
        self.issue_at(name, address, now())
    }

    pub(super) fn issue_at(
        &self,
        name: &str,
        address: IpAddr,
        now: Duration,
    ) -> Result<Issued, PkiError> {
        if !(1..=COMMON_NAME_CHARS_MAX).contains(&name.chars().count()) {
            return Err(PkiError::Name(name.to_owned()));
        }
        let address = of_one_machine(address)?;
        let mut params = CertificateParams::new(names(address))?;
        params.distinguished_name.push(DnType::CommonName, name);
        params.extended_key_usages =
            vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
        self.sign(params, (begin(now), now))
    }

    /// Makes a key, and vouches for it as that of the group at its address, whichever member has that: as a server, for
    /// who manages the group. It has no name of a member and is no client's, so that nobody takes it for one of a
    /// member. It begins with the authority: a clock that is ahead now and is set later makes it worth nothing to nobody.
    ///
    /// # Errors
    /// An address that no certificate has, or the system has no randomness.
    pub fn issue_for_group(&self, group: &GroupId, address: IpAddr) -> Result<Issued, PkiError> {
        self.issue_for_group_at(group, address, now())
    }

    pub(super) fn issue_for_group_at(
        &self,
        group: &GroupId,
        address: IpAddr,
        now: Duration,
    ) -> Result<Issued, PkiError> {
        let address = of_one_machine(address)?;
        let mut names = vec![group_server_name(group), address.to_string()];
        let mut usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        if mutants::is(Mutant::GroupAsMember) {
            names.push(SERVER_NAME.to_owned());
            usages.push(ExtendedKeyUsagePurpose::ClientAuth);
        }
        let mut params = CertificateParams::new(names)?;
        // Not the name of the authority: a certificate that names itself as its issuer is taken for one that does so.
        params.distinguished_name.push(DnType::CommonName, group.to_string());
        params.extended_key_usages = usages;
        let begins = if mutants::is(Mutant::GroupByClock) { begin(now) } else { self.begins };
        self.sign(params, (begins, now))
    }

    /// Makes a key, and signs for it what is the same in all that an authority issues.
    fn sign(
        &self,
        mut params: CertificateParams,
        (begins, now): (Duration, Duration),
    ) -> Result<Issued, PkiError> {
        if now >= self.ends {
            return Err(PkiError::Over);
        }
        let key = KeyPair::generate()?;
        params.is_ca = IsCa::ExplicitNoCa;
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.use_authority_key_identifier_extension = true;
        last(&mut params, begins, self.ends);
        let certificate = params.signed_by(&key, &self.issuer)?;
        Ok(Issued {
            certificate_pem: certificate.pem(),
            key_pem: Zeroizing::new(key.serialize_pem()),
            sha256: fingerprint(certificate.der()),
        })
    }
}

/// The address as certificates have it.
fn of_one_machine(address: IpAddr) -> Result<IpAddr, PkiError> {
    let address = address.to_canonical();
    if address.is_unspecified() || address.is_multicast() {
        return Err(PkiError::Address(address));
    }
    Ok(address)
}

/// The name by which the group itself is known, beside its address. No DNS has it.
fn group_server_name(group: &GroupId) -> String {
    format!("{group}.group.drystone.internal")
}

/// The time by the clock of the system, since 1970 and in whole seconds, as certificates tell it.
fn now() -> Duration {
    // A clock that was never set may be earlier than any.
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Duration::from_secs(now.as_secs())
}

/// How the certificate of an authority looks, but for its time; what it issues names it by the same.
fn params(name: &str) -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name.push(DnType::CommonName, name);
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
    params
}

/// When a certificate begins that is made now.
fn begin(now: Duration) -> Duration {
    now.min(LATEST).saturating_sub(EARLIER)
}

/// Lets a certificate last from then until then.
fn last(params: &mut CertificateParams, begins: Duration, ends: Duration) {
    debug_assert!(begins < ends && ends <= LATEST, "{begins:?} to {ends:?}");
    let epoch = date_time_ymd(1970, 1, 1);
    params.not_before = epoch + begins;
    params.not_after = epoch + ends;
}

/// What the certificate of a member is valid for. The loopback address is among it for etcd, which looks where a peer
/// comes from: between members on one machine the kernel chooses that one.
fn names(address: IpAddr) -> Vec<String> {
    let mut names = vec![SERVER_NAME.to_owned(), address.to_string()];
    let loopback = Ipv4Addr::LOCALHOST.to_string();
    if !names.contains(&loopback) {
        names.push(loopback);
    }
    names
}

/// The certificate in a text in PEM that holds exactly one.
///
/// # Errors
/// Why it is not that, as the end of a sentence that says whose certificate it is.
pub fn only_certificate(pem: &str) -> Result<CertificateDer<'static>, String> {
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem.as_bytes()).collect();
    let mut found = found.map_err(|error| error.to_string())?;
    let count = found.len();
    match found.pop() {
        Some(only) if count == 1 => Ok(only),
        _ => Err(format!("it holds {count} certificates in PEM, not one")),
    }
}

/// Whether the time of a certificate is over, by the clock of the system. One that does not read has none.
#[must_use]
pub fn is_over(certificate: &CertificateDer<'_>) -> bool {
    let read = Certificate::from_der(certificate);
    read.is_ok_and(|read| read.tbs_certificate.validity.not_after.to_unix_duration() < now())
}

/// The name of an authority as [`params`] takes it; `None` for a certificate that was not made so.
fn name_of_authority(certificate: &Certificate) -> Option<String> {
    let tbs = &certificate.tbs_certificate;
    let (_, constraints) = tbs.get::<pkix::BasicConstraints>().ok()??;
    let [relative] = tbs.subject.0.as_slice() else { return None };
    let [attribute] = relative.0.as_slice() else { return None };
    if !constraints.ca || attribute.oid != COMMON_NAME {
        return None;
    }
    attribute.value.decode_as::<String>().ok()
}

//! What a member proves to who comes over TLS: its certificate and key, given or made.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::net::IpAddr;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rcgen::{CertificateParams, DnType, ExtendedKeyUsagePurpose, KeyPair};
use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use sha2::{Digest, Sha256};
use zeroize::Zeroizing;

/// The certificate and the key that are made, in the data directory of the member.
const CERTIFICATE_FILE: &str = "api-certificate.pem";
const KEY_FILE: &str = "api-key.pem";

/// A file that is longer holds neither.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// The bits of a file's mode that let anybody read or change it.
const MODE_ANYBODY: u32 = 0o007;

/// Why there is no certificate to prove anything with.
#[derive(Debug, thiserror::Error)]
pub enum IdentityError {
    /// A file is not there, or cannot be read or written.
    #[error("'{}' cannot be used for TLS: {error}", path.display())]
    System {
        /// Which.
        path: PathBuf,
        /// What the system says.
        error: io::Error,
    },
    /// A file holds something else.
    #[error("'{}' holds no {what} in PEM: {why}", path.display())]
    Malformed {
        /// Which.
        path: PathBuf,
        /// What it should hold.
        what: &'static str,
        /// What does not read.
        why: String,
    },
    /// The key is no secret.
    #[error("anybody may read or change '{}', the key for TLS: run chmod 600 on it", .0.display())]
    Exposed(PathBuf),
    /// They do not go together, or are of a kind that is not known.
    #[error("the certificate '{}' and its key cannot be used: {why}", path.display())]
    Unusable {
        /// The certificate.
        path: PathBuf,
        /// Why.
        why: String,
    },
}

/// A certificate with its key, ready for use.
#[derive(Debug, Clone)]
pub struct Identity {
    config: Arc<ServerConfig>,
    fingerprint: String,
}

impl Identity {
    /// From files in PEM: the certificate with those that vouch for it behind it, and its key.
    ///
    /// # Errors
    /// [`IdentityError`]
    pub fn load(certificate: &Path, key: &Path) -> Result<Self, IdentityError> {
        let text = read(certificate)?;
        let malformed = |why: String| IdentityError::Malformed {
            path: certificate.to_owned(),
            what: "certificate",
            why,
        };
        let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&text).collect();
        let chain = chain.map_err(|error| malformed(error.to_string()))?;
        let own = chain.first().ok_or_else(|| malformed("there is none".to_owned()))?;
        let fingerprint = fingerprint(own);
        let config = server_config(chain, private_key(key)?);
        let unusable = |error: rustls::Error| IdentityError::Unusable {
            path: certificate.to_owned(),
            why: error.to_string(),
        };
        Ok(Self { config: Arc::new(config.map_err(unusable)?), fingerprint })
    }

    /// From the data directory of a member; made there if there is none yet, for these names.
    ///
    /// # Errors
    /// [`IdentityError`]
    pub fn load_or_make(data: &Path, listens: &[IpAddr]) -> Result<Self, IdentityError> {
        let (certificate, key) = (data.join(CERTIFICATE_FILE), data.join(KEY_FILE));
        // The certificate is written last: where it is, the key is.
        if !certificate.exists() {
            make(&certificate, &key, listens)?;
        }
        Self::load(&certificate, &key)
    }

    /// The SHA-256 of the certificate, in hexadecimal digits.
    #[must_use]
    pub fn fingerprint(&self) -> &str {
        &self.fingerprint
    }

    pub(super) fn config(&self) -> Arc<ServerConfig> {
        self.config.clone()
    }
}

/// TLS 1.3, or 1.2 for those that know no better.
fn server_config(
    chain: Vec<CertificateDer<'static>>,
    key: PrivateKeyDer<'static>,
) -> Result<ServerConfig, rustls::Error> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_no_client_auth();
    let mut config = config.with_single_cert(chain, key)?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(config)
}

/// The SHA-256 of a certificate (of its DER), in hexadecimal digits.
pub(crate) fn fingerprint(certificate: &CertificateDer<'_>) -> String {
    Sha256::digest(certificate.as_ref()).iter().map(|byte| format!("{byte:02x}")).collect()
}

fn read(path: &Path) -> Result<Zeroizing<Vec<u8>>, IdentityError> {
    let failed = |error| IdentityError::System { path: path.to_owned(), error };
    // A pipe would be waited for.
    if !fs::metadata(path).map_err(failed)?.is_file() {
        return Err(failed(io::Error::other("it is no regular file")));
    }
    let mut bytes = Zeroizing::new(Vec::new());
    let file = File::open(path).map_err(failed)?;
    file.take(FILE_BYTES_MAX).read_to_end(&mut bytes).map_err(failed)?;
    Ok(bytes)
}

fn private_key(path: &Path) -> Result<PrivateKeyDer<'static>, IdentityError> {
    let text = read(path)?;
    let failed = |error| IdentityError::System { path: path.to_owned(), error };
    if fs::metadata(path).map_err(failed)?.permissions().mode() & MODE_ANYBODY != 0 {
        return Err(IdentityError::Exposed(path.to_owned()));
    }
    PrivateKeyDer::from_pem_slice(&text).map_err(|error| IdentityError::Malformed {
        path: path.to_owned(),
        what: "private key",
        why: error.to_string(),
    })
}

/// Makes a key and a certificate that vouches for itself. It does not expire: who trusts it trusts this
/// one, and it is replaced by deleting it.
fn make(certificate: &Path, key: &Path, listens: &[IpAddr]) -> Result<(), IdentityError> {
    let failed = |error: rcgen::Error| IdentityError::Unusable {
        path: certificate.to_owned(),
        why: error.to_string(),
    };
    let host = host_name();
    let mut names = vec!["localhost".to_owned(), host.clone()];
    names.dedup();
    let local = [IpAddr::from([127, 0, 0, 1]), IpAddr::from(std::net::Ipv6Addr::LOCALHOST)];
    let all = local.iter().chain(listens.iter().filter(|it| !it.is_unspecified()));
    for address in all.map(ToString::to_string) {
        if !names.contains(&address) {
            names.push(address);
        }
    }
    let mut params = CertificateParams::new(names).map_err(failed)?;
    params.distinguished_name.push(DnType::CommonName, format!("drystone on {host}"));
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    let pair = KeyPair::generate().map_err(failed)?;
    let made = params.self_signed(&pair).map_err(failed)?;
    let secret = Zeroizing::new(pair.serialize_pem());
    write_whole(key, secret.as_bytes(), 0o600)?;
    write_whole(certificate, made.pem().as_bytes(), 0o644)
}

/// The name of this machine, as far as a certificate can hold it.
fn host_name() -> String {
    let name = rustix::system::uname().nodename().to_string_lossy().into_owned();
    let belongs = |byte: u8| byte.is_ascii_alphanumeric() || b"-.".contains(&byte);
    let is_plain = (1..=63).contains(&name.len()) && name.bytes().all(belongs);
    if is_plain { name } else { "localhost".to_owned() }
}

/// Writes a file that outlives a loss of power, or none.
fn write_whole(path: &Path, bytes: &[u8], mode: u32) -> Result<(), IdentityError> {
    let half = path.with_extension("half-made");
    let write = || {
        match fs::remove_file(&half) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let mut file = OpenOptions::new().write(true).create_new(true).mode(mode).open(&half)?;
        file.write_all(bytes)?;
        file.sync_all()?;
        fs::rename(&half, path)?;
        let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty());
        File::open(directory.unwrap_or(Path::new(".")))?.sync_all()
    };
    write().map_err(|error| IdentityError::System { path: path.to_owned(), error })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_certificate_is_made_once_and_its_key_is_a_secret() {
        let dir = tempfile::tempdir().unwrap();
        let listens = [IpAddr::from([192, 0, 2, 1]), IpAddr::from([0, 0, 0, 0])];
        let first = Identity::load_or_make(dir.path(), &listens).unwrap();
        assert_eq!(first.fingerprint().len(), 64);
        let mode = fs::metadata(dir.path().join(KEY_FILE)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        let again = Identity::load_or_make(dir.path(), &[]).unwrap();
        assert_eq!(again.fingerprint(), first.fingerprint());
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 2, "nothing else is left");
        fs::remove_file(dir.path().join(CERTIFICATE_FILE)).unwrap();
        let other = Identity::load_or_make(dir.path(), &listens).unwrap();
        assert_ne!(other.fingerprint(), first.fingerprint());
    }

    #[test]
    fn what_cannot_prove_anything_is_refused_with_its_file() {
        let (dir, elsewhere) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        for made in [&dir, &elsewhere] {
            Identity::load_or_make(made.path(), &[]).unwrap();
        }
        let (certificate, key) = (dir.path().join(CERTIFICATE_FILE), dir.path().join(KEY_FILE));
        let said = |certificate: &Path, key: &Path| {
            Identity::load(certificate, key).unwrap_err().to_string()
        };
        assert!(
            said(&certificate, &elsewhere.path().join(KEY_FILE)).contains("and its key cannot")
        );
        assert!(said(&key, &key).contains("holds no certificate"));
        assert!(said(&certificate, &certificate).contains("anybody may read"));
        assert!(said(&dir.path().join("none"), &key).contains("cannot be used for TLS"));
        assert!(said(dir.path(), &key).contains("no regular file"));
        fs::set_permissions(&certificate, fs::Permissions::from_mode(0o600)).unwrap();
        assert!(said(&certificate, &certificate).contains("holds no private key"));
        fs::set_permissions(&key, fs::Permissions::from_mode(0o604)).unwrap();
        assert!(said(&certificate, &key).contains("run chmod 600"));
    }
}

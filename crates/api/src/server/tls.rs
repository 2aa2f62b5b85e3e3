//! What a member proves to who comes over TLS: its certificate and key, given or made.

use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, Write};
use std::net::IpAddr;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use group::pki::fingerprint;
use group::regular;
use rcgen::{CertificateParams, DnType, ExtendedKeyUsagePurpose, KeyPair};
use rustls::ServerConfig;
use rustls::client::verify_server_name;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::server::{ClientHello, ParsedCertificate, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use zeroize::Zeroizing;

/// The certificate and the key that are made, in the data directory of the member.
const CERTIFICATE_FILE: &str = "api-certificate.pem";
const KEY_FILE: &str = "api-key.pem";

/// A file that is longer holds neither.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// How long a file has not been written to when it is taken anew: of two files one is written first.
const SETTLED: Duration = Duration::from_secs(2);

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
    /// A certificate that was made, without the key that was made with it.
    #[error(
        "'{}' is not there, the key of '{}': bring it back, or move the certificate away; without both files a new \
         pair is made, which clients that know this one do not trust", key.display(), certificate.display()
    )]
    KeyGone {
        /// The certificate.
        certificate: PathBuf,
        /// Where its key was.
        key: PathBuf,
    },
    /// The key is no secret.
    #[error("anybody may read or change '{}', the key for TLS: run chmod 600 on it", .0.display())]
    Exposed(PathBuf),
    /// They do not go together, or are of a kind that is not known.
    #[error("the certificate or key '{}' cannot be used: {why}", path.display())]
    Unusable {
        /// The certificate.
        path: PathBuf,
        /// Why.
        why: String,
    },
}

/// A certificate with its key, ready for use, and taken anew when it was renewed. All copies are one.
#[derive(Debug, Clone)]
pub struct Identity {
    config: Arc<ServerConfig>,
    current: Arc<Current>,
}

impl Identity {
    /// From files in PEM that an operator gives: the certificate with those that vouch for it behind it, and its key.
    ///
    /// # Errors
    /// [`IdentityError`]
    pub fn load(certificate: &Path, key: &Path) -> Result<Self, IdentityError> {
        Self::of_files(certificate, key, true)
    }

    fn of_files(certificate: &Path, key: &Path, is_given: bool) -> Result<Self, IdentityError> {
        let looked = stamps(certificate, key);
        let proof = Proof::load(certificate, key)?;
        let current = Arc::new(Current {
            certificate: certificate.to_owned(),
            key: key.to_owned(),
            is_given,
            proof: Mutex::new(proof),
            looked: Mutex::new(looked),
        });
        let config = server_config_of(current.clone()).map_err(|error| {
            IdentityError::Unusable { path: certificate.to_owned(), why: error.to_string() }
        })?;
        Ok(Self { config: Arc::new(config), current })
    }

    /// From the data directory of a member; made there if there is none yet, for these names. A key that is
    /// there is kept: it gets another certificate.
    ///
    /// # Errors
    /// [`IdentityError`]
    pub fn load_or_make(data: &Path, listens: &[IpAddr]) -> Result<Self, IdentityError> {
        let (certificate, key) = (data.join(CERTIFICATE_FILE), data.join(KEY_FILE));
        // The certificate is written last: where it is, the key is.
        if !certificate.exists() {
            make(&certificate, &key, listens)?;
        }
        Self::load_made(certificate, key)
    }

    /// From files that were made.
    fn load_made(certificate: PathBuf, key: PathBuf) -> Result<Self, IdentityError> {
        match key.try_exists() {
            Ok(false) => Err(IdentityError::KeyGone { certificate, key }),
            _ => Self::of_files(&certificate, &key, false),
        }
    }

    /// From what was made in the data directory of a member; `None` if nothing was yet.
    ///
    /// # Errors
    /// [`IdentityError`]
    #[must_use]
    pub fn of_directory(data: &Path) -> Option<Result<Self, IdentityError>> {
        let (certificate, key) = (data.join(CERTIFICATE_FILE), data.join(KEY_FILE));
        certificate.exists().then(|| Self::load_made(certificate, key))
    }

    /// The SHA-256 of the certificate, in hexadecimal digits.
    #[must_use]
    pub fn fingerprint(&self) -> String {
        self.current.proof().fingerprint.clone()
    }

    /// Takes the certificate and the key anew if their files have changed; `None` if they have not. What cannot
    /// be used is told once, and the one before stays. Who calls this before each handshake needs no clock that
    /// wakes an idle member.
    pub(super) fn renew(&self) -> Option<Result<(), IdentityError>> {
        let Current { certificate, key, proof, looked, .. } = &*self.current;
        // Files that are not there are about to come, or were taken away.
        let now = stamps(certificate, key)?;
        if *held(looked) == Some(now) || !now.iter().all(Stamp::is_settled) {
            return None;
        }
        *held(looked) = Some(now);
        match Proof::load(certificate, key) {
            Ok(renewed) => {
                let mut proof = held(proof);
                let is_another = renewed.fingerprint != proof.fingerprint;
                *proof = renewed;
                is_another.then_some(Ok(()))
            }
            Err(error) => Some(Err(error)),
        }
    }

    /// Whether an operator has given it, who may give the same to all members.
    pub(super) fn is_given(&self) -> bool {
        self.current.is_given
    }

    /// What proves this name, if it does.
    pub(super) fn made_out_to(&self, name: &ServerName<'_>) -> Option<Arc<CertifiedKey>> {
        let certified = self.current.proof().certified.clone();
        let certificate = ParsedCertificate::try_from(certified.cert.first()?).ok()?;
        verify_server_name(&certificate, name).ok().map(|()| certified)
    }

    pub(super) fn config(&self) -> Arc<ServerConfig> {
        self.config.clone()
    }
}

/// What is proved at this moment, and from which files.
#[derive(Debug)]
struct Current {
    certificate: PathBuf,
    key: PathBuf,
    /// An operator has given them: they were not made here.
    is_given: bool,
    proof: Mutex<Proof>,
    /// How the files were when they were read last.
    looked: Mutex<Option<[Stamp; 2]>>,
}

impl Current {
    fn proof(&self) -> MutexGuard<'_, Proof> {
        held(&self.proof)
    }
}

fn held<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Each change is one assignment.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl ResolvesServerCert for Current {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(self.proof().certified.clone())
    }
}

/// A certificate and its key.
#[derive(Debug)]
struct Proof {
    certified: Arc<CertifiedKey>,
    fingerprint: String,
}

impl Proof {
    fn load(certificate: &Path, key: &Path) -> Result<Self, IdentityError> {
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
        let provider = rustls::crypto::ring::default_provider();
        let certified = CertifiedKey::from_der(chain, private_key(key)?, &provider);
        let certified = certified.map_err(|error| IdentityError::Unusable {
            path: certificate.to_owned(),
            why: error.to_string(),
        })?;
        Ok(Self { certified: Arc::new(certified), fingerprint })
    }
}

/// What tells one version of a file from another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Stamp {
    inode: u64,
    bytes: u64,
    written: SystemTime,
    /// When anything about it changed, its mode too: seconds and nanoseconds.
    changed: (i64, i64),
}

impl Stamp {
    /// Whether nobody writes it at this moment, or the other file of the two.
    fn is_settled(&self) -> bool {
        // One that is to come was not written now.
        SystemTime::now().duration_since(self.written).map_or(true, |age| age >= SETTLED)
    }
}

/// How the certificate and the key are.
fn stamps(certificate: &Path, key: &Path) -> Option<[Stamp; 2]> {
    let stamp = |path: &Path| {
        let found = fs::metadata(path).ok()?;
        Some(Stamp {
            inode: found.ino(),
            bytes: found.len(),
            written: found.modified().ok()?,
            changed: (found.ctime(), found.ctime_nsec()),
        })
    };
    Some([stamp(certificate)?, stamp(key)?])
}

/// TLS 1.3, or 1.2 for those that know no better.
pub(super) fn server_config_of(
    proves: Arc<dyn ResolvesServerCert>,
) -> Result<ServerConfig, rustls::Error> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_no_client_auth();
    let mut config = config.with_cert_resolver(proves);
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(config)
}

fn read(path: &Path) -> Result<Zeroizing<Vec<u8>>, IdentityError> {
    let failed = |error| IdentityError::System { path: path.to_owned(), error };
    regular::read(path, FILE_BYTES_MAX).map_err(failed)
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

/// The key that is there.
fn pair_of(path: &Path) -> Result<KeyPair, IdentityError> {
    let key = private_key(path)?;
    KeyPair::try_from(&key).map_err(|error| IdentityError::Unusable {
        path: path.to_owned(),
        why: format!("{error}: move it away, and both are made anew"),
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
    let pair = if fs::symlink_metadata(key).is_ok() {
        tracing::warn!(
            "there is a key for TLS and no certificate '{}': another one is made for it, and its fingerprint is \
             another one too",
            certificate.display()
        );
        pair_of(key)?
    } else {
        let pair = KeyPair::generate().map_err(failed)?;
        let secret = Zeroizing::new(pair.serialize_pem());
        write_whole(key, secret.as_bytes(), 0o600)?;
        pair
    };
    let made = params.self_signed(&pair).map_err(failed)?;
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
        // Whatever the umask of a service is.
        file.set_permissions(Permissions::from_mode(mode))?;
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

    /// A service with umask 0077 made a certificate that Prometheus could not read.
    #[test]
    fn files_have_their_mode_whatever_the_umask_is() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        write_whole(&path, b"text", 0o666).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o666);
    }

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
        let key = fs::read(dir.path().join(KEY_FILE)).unwrap();
        let other = Identity::load_or_make(dir.path(), &listens).unwrap();
        assert_ne!(other.fingerprint(), first.fingerprint());
        assert_eq!(fs::read(dir.path().join(KEY_FILE)).unwrap(), key, "the key is kept");
        fs::remove_file(dir.path().join(CERTIFICATE_FILE)).unwrap();
        fs::write(dir.path().join(KEY_FILE), "no key").unwrap();
        let refused = Identity::load_or_make(dir.path(), &listens).unwrap_err().to_string();
        assert!(refused.contains("holds no private key"), "{refused}");
        assert_eq!(fs::read(dir.path().join(KEY_FILE)).unwrap(), b"no key");
    }

    #[test]
    fn a_certificate_whose_key_is_gone_says_when_a_new_pair_is_made() {
        let dir = tempfile::tempdir().unwrap();
        let first = Identity::load_or_make(dir.path(), &[]).unwrap().fingerprint();
        fs::remove_file(dir.path().join(KEY_FILE)).unwrap();
        let refused = Identity::load_or_make(dir.path(), &[]).unwrap_err().to_string();
        assert!(refused.contains("without both files a new pair is made"), "{refused}");
        let looked = Identity::of_directory(dir.path()).expect("there is a certificate");
        assert!(matches!(looked, Err(IdentityError::KeyGone { .. })), "{looked:?}");
        fs::remove_file(dir.path().join(CERTIFICATE_FILE)).unwrap();
        assert_ne!(Identity::load_or_make(dir.path(), &[]).unwrap().fingerprint(), first);
    }

    #[test]
    fn what_was_renewed_is_taken_and_what_cannot_be_used_is_told_once() {
        let (dir, new) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let identity = Identity::load_or_make(dir.path(), &[]).unwrap();
        let first = identity.fingerprint();
        let second = Identity::load_or_make(new.path(), &[]).unwrap().fingerprint();
        let aged = |file: &str| {
            let path = dir.path().join(file);
            File::options().append(true).open(path).unwrap().set_modified(SystemTime::UNIX_EPOCH)
        };
        let bring = |file: &str| {
            fs::remove_file(dir.path().join(file)).unwrap();
            fs::copy(new.path().join(file), dir.path().join(file)).unwrap();
        };
        assert!(identity.renew().is_none(), "nothing has changed");
        aged(KEY_FILE).unwrap();
        aged(CERTIFICATE_FILE).unwrap();
        assert!(identity.renew().is_none(), "it is the same as before");
        bring(CERTIFICATE_FILE);
        assert!(identity.renew().is_none(), "the other one may be written now");
        aged(CERTIFICATE_FILE).unwrap();
        assert!(matches!(identity.renew(), Some(Err(IdentityError::Unusable { .. }))));
        assert!(identity.renew().is_none(), "it was told");
        assert_eq!(identity.fingerprint(), first, "the one before stays");
        bring(KEY_FILE);
        aged(KEY_FILE).unwrap();
        assert!(matches!(identity.renew(), Some(Ok(()))));
        assert_eq!(identity.fingerprint(), second);
        fs::remove_file(dir.path().join(CERTIFICATE_FILE)).unwrap();
        assert!(identity.renew().is_none());
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
        assert!(said(&certificate, &elsewhere.path().join(KEY_FILE)).contains("cannot be used: "));
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

//! The client over TLS: whom it trusts, and that it does what it does at a socket.

use std::fs;

use api::client::{Client, ClientError, Remote, Trust};
use api::problem::Code;
use api::server::Identity;
use api::types::ArrayWork;
use group::accounts::Role;
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};

use crate::{Served, token};

fn client(served: &Served, host: &str, trust: Trust) -> Client {
    let url = format!("https://{host}:{}", served.address.port());
    let url = url.parse().expect("a URL");
    let token = token(Role::Operator).into();
    Client::remote(Remote { url, token, trust }).expect("a client")
}

/// Its own certificate, as a file of authorities.
fn own(served: &Served) -> Trust {
    let pem = fs::read(served.dir.path().join("api-certificate.pem"));
    Trust::Authorities(pem.expect("it was made"))
}

fn is_untrusted<T: std::fmt::Debug>(outcome: &Result<T, ClientError>) -> bool {
    matches!(outcome, Err(ClientError::Untrusted { .. }))
}

#[test]
fn a_certificate_is_trusted_for_a_reason_only() {
    let served = Served::begin();
    let fingerprint = |text: &str| Trust::Fingerprint(text.parse().expect("a fingerprint"));
    for host in ["localhost", "127.0.0.1"] {
        assert_eq!(client(&served, host, own(&served)).jobs().unwrap().len(), 1, "{host}");
    }
    let colons: Vec<&str> =
        served.fingerprint.as_bytes().chunks(2).map(|two| str::from_utf8(two).unwrap()).collect();
    for text in [served.fingerprint.clone(), colons.join(":").to_uppercase()] {
        client(&served, "127.0.0.1", fingerprint(&text)).jobs().unwrap();
    }
    assert!(is_untrusted(&client(&served, "127.0.0.1", fingerprint(&"ab".repeat(32))).jobs()));
    if let Ok(by_system) = Client::remote(Remote {
        url: format!("https://localhost:{}", served.address.port()).parse().unwrap(),
        token: token(Role::Operator).into(),
        trust: Trust::System,
    }) {
        assert!(is_untrusted(&by_system.jobs()));
    }
    let other = Served::begin();
    assert!(is_untrusted(&client(&served, "localhost", own(&other)).jobs()));
    other.server.stop();
    served.server.stop();
}

#[test]
fn a_renewed_certificate_is_proved_to_the_next_that_comes_and_a_bad_one_to_nobody() {
    let (served, new) = (Served::begin(), tempfile::tempdir().unwrap());
    let renewed = Identity::load_or_make(new.path(), &[]).unwrap().fingerprint();
    let client = |text: &str| {
        let trust = Trust::Fingerprint(text.parse().expect("a fingerprint"));
        client(&served, "127.0.0.1", trust)
    };
    let bring = |file: &str, bytes: &[u8]| {
        let path = served.dir.path().join(file);
        fs::write(&path, bytes).unwrap();
        let long_ago = std::time::SystemTime::UNIX_EPOCH;
        fs::File::options().append(true).open(path).unwrap().set_modified(long_ago).unwrap();
    };
    let kinds = || -> Vec<String> {
        served.logs.events.after(0).iter().map(|event| event.what.kind.clone()).collect()
    };
    let of_new = |file: &str| fs::read(new.path().join(file)).unwrap();
    bring("api-key.pem", &of_new("api-key.pem"));
    bring("api-certificate.pem", b"half of it");
    for _ in 0..2 {
        client(&served.fingerprint).jobs().unwrap();
    }
    assert_eq!(kinds(), ["certificate_not_used"]);
    bring("api-certificate.pem", &of_new("api-certificate.pem"));
    let shown = client(&renewed).interface().unwrap();
    assert_eq!(shown.certificate_sha256, Some(renewed));
    assert!(is_untrusted(&client(&served.fingerprint).jobs()));
    assert_eq!(kinds(), ["certificate_not_used", "certificate_renewed"]);
    served.server.stop();
}

#[test]
fn a_certificate_that_an_authority_vouches_for_is_trusted() {
    let dir = tempfile::tempdir().unwrap();
    let ca_key = KeyPair::generate().unwrap();
    let mut ca = CertificateParams::new(Vec::new()).unwrap();
    ca.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let ca_pem = ca.self_signed(&ca_key).unwrap().pem();
    let issuer = Issuer::new(ca, &ca_key);
    let key = KeyPair::generate().unwrap();
    let leaf = CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
    let leaf = leaf.signed_by(&key, &issuer).unwrap();
    let home = dir.path().to_owned();
    let at = |name: &str| home.join(name);
    fs::write(at("cert"), leaf.pem()).unwrap();
    fs::write(at("key"), key.serialize_pem()).unwrap();
    fs::set_permissions(at("key"), std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
    let identity = Identity::load(&at("cert"), &at("key")).unwrap();
    let served = Served::with(dir, identity, 8);
    let trust = || Trust::Authorities(ca_pem.clone().into_bytes());
    client(&served, "localhost", trust()).jobs().unwrap();
    assert!(is_untrusted(&client(&served, "127.0.0.1", trust()).jobs()), "another name");
    served.server.stop();
}

#[test]
fn one_that_vouches_for_itself_as_an_authority_is_trusted_by_its_file() {
    let dir = tempfile::tempdir().unwrap();
    let key = KeyPair::generate().unwrap();
    let mut params = CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
    // As `openssl req -x509` makes them.
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let pem = params.self_signed(&key).unwrap().pem();
    let home = dir.path().to_owned();
    let at = |name: &str| home.join(name);
    fs::write(at("cert"), &pem).unwrap();
    fs::write(at("key"), key.serialize_pem()).unwrap();
    fs::set_permissions(at("key"), std::os::unix::fs::PermissionsExt::from_mode(0o640)).unwrap();
    let served = Served::with(dir, Identity::load(&at("cert"), &at("key")).unwrap(), 8);
    let trust = || Trust::Authorities(pem.clone().into_bytes());
    client(&served, "localhost", trust()).jobs().unwrap();
    assert!(is_untrusted(&client(&served, "127.0.0.1", trust()).jobs()), "another name");
    served.server.stop();
}

#[test]
fn refusals_are_the_sentences_of_the_member_and_a_silent_port_has_its_own() {
    let served = Served::begin();
    let operator = client(&served, "localhost", own(&served));
    let refused = operator.accounts().unwrap_err();
    let ClientError::Problem(problem) = refused else { panic!("{refused}") };
    assert_eq!(problem.code, Code::Forbidden);
    assert!(problem.detail.contains("token 'operator' has operator"), "{}", problem.detail);
    // A run is followed over TLS; the member does nothing.
    let failed = operator.run(ArrayWork::Scrub, |_| {}, &mut |_| {}).unwrap_err();
    assert_eq!(failed.to_string(), "the work ended without a result");
    let shown = operator.interface().unwrap();
    assert_eq!(shown.addresses, [served.address.to_string()]);
    assert_eq!(shown.certificate_sha256.as_deref(), Some(&*served.fingerprint));
    served.server.stop();
    let gone = operator.jobs().unwrap_err();
    assert!(matches!(gone, ClientError::Unreachable { .. }), "{gone}");
    let strange = Remote {
        url: "https://localhost:1".parse().unwrap(),
        token: "two\nlines".to_owned().into(),
        trust: Trust::Fingerprint("ab".repeat(32).parse().expect("it works")),
    };
    assert!(matches!(Client::remote(strange), Err(ClientError::Token)));
}

/// Serves with a certificate.
fn serving(pem: &str, key: &KeyPair) -> Served {
    let dir = tempfile::tempdir().expect("it works");
    let at = |name: &str| dir.path().join(name);
    fs::write(at("cert"), pem).expect("it works");
    fs::write(at("key"), key.serialize_pem()).expect("it works");
    fs::set_permissions(at("key"), std::os::unix::fs::PermissionsExt::from_mode(0o600))
        .expect("it works");
    let identity = Identity::load(&at("cert"), &at("key")).expect("it works");
    Served::with(dir, identity, 8)
}

#[test]
fn who_has_the_key_of_one_member_is_no_other_one() {
    let stolen = KeyPair::generate().expect("it works");
    let member = CertificateParams::new(vec!["one".to_owned()]).expect("it works");
    let pem = member.self_signed(&stolen).expect("it works").pem();
    let key = KeyPair::generate().expect("it works");
    let forged = CertificateParams::new(vec!["localhost".to_owned()]).expect("it works");
    let forged = forged.signed_by(&key, &Issuer::new(member, &stolen)).expect("it works");
    let served = serving(&forged.pem(), &key);
    let trust = Trust::Authorities(pem.into_bytes());
    assert!(is_untrusted(&client(&served, "localhost", trust).jobs()));
    served.server.stop();
}

#[test]
fn a_certificate_whose_time_is_over_is_not_trusted_by_its_file() {
    let key = KeyPair::generate().expect("it works");
    let mut params = CertificateParams::new(vec!["localhost".to_owned()]).expect("it works");
    params.not_after = rcgen::date_time_ymd(2020, 1, 1);
    let pem = params.self_signed(&key).expect("it works").pem();
    let served = serving(&pem, &key);
    let trust = Trust::Authorities(pem.into_bytes());
    assert!(is_untrusted(&client(&served, "localhost", trust).jobs()));
    served.server.stop();
}

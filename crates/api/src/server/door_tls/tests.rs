//! Both ends of the door: who is let in by a ticket, and whose door is believed.

use std::net::IpAddr;

use group::membership::GroupId;
use group::pki::{Authority, Issued, SERVER_NAME, fingerprint};
use rcgen::{
    BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair, PublicKeyData,
    date_time_ymd,
};
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::version::TLS12;
use rustls::{
    CertificateError, ClientConnection, Connection, Error, ProtocolVersion, ServerConnection,
};

use super::*;
use crate::client::door_client_config;

fn authority() -> Authority {
    Authority::make(&GroupId::draw().unwrap()).unwrap()
}

fn issued(authority: &Authority) -> Issued {
    authority.issue("one", IpAddr::from([192, 0, 2, 1])).unwrap()
}

/// The door of a member.
fn door(own: &Issued, authority: &Authority) -> Arc<ServerConfig> {
    let authority = authority.certificate_pem();
    door_server_config(&own.certificate_pem, authority, &own.key_pem).unwrap()
}

/// What one has to say reaches the other.
fn pass(from: &mut Connection, to: &mut Connection) -> Result<(), Error> {
    let mut bytes = Vec::new();
    while from.wants_write() {
        from.write_tls(&mut bytes).unwrap();
    }
    let mut rest = bytes.as_slice();
    while !rest.is_empty() {
        to.read_tls(&mut rest).unwrap();
        to.process_new_packets()?;
    }
    Ok(())
}

/// Knocks with the SHA-256 of a ticket, calling the door by a name; the client's end, if it believes the door.
fn knock_at(name: &str, sha256: &str, door: Arc<ServerConfig>) -> Result<Connection, Error> {
    let config = Arc::new(door_client_config(sha256).unwrap());
    let name = ServerName::try_from(name.to_owned()).unwrap();
    let mut client = Connection::from(ClientConnection::new(config, name).unwrap());
    let mut server = Connection::from(ServerConnection::new(door).unwrap());
    for _ in 0..8 {
        pass(&mut client, &mut server)?;
        pass(&mut server, &mut client)?;
        if !client.is_handshaking() && !server.is_handshaking() {
            return Ok(client);
        }
    }
    panic!("the handshake does not end");
}

fn knock(sha256: &str, door: Arc<ServerConfig>) -> Result<Connection, Error> {
    knock_at(SERVER_NAME, sha256, door)
}

/// What the client finds wrong with the door's certificate.
fn wrong(sha256: &str, door: Arc<ServerConfig>) -> CertificateError {
    match knock(sha256, door) {
        Err(Error::InvalidCertificate(why)) => why,
        other => panic!("{other:?}"),
    }
}

/// A server that joins brings its ticket to members alone.
#[test]
fn what_proves_the_group_at_its_address_is_no_door() {
    let authority = authority();
    let group = GroupId::draw().unwrap();
    let of_group = authority.issue_for_group(&group, IpAddr::from([192, 0, 2, 100])).unwrap();
    let why = wrong(&authority.sha256(), door(&of_group, &authority));
    assert!(matches!(why, CertificateError::NotValidForNameContext { .. }), "{why:?}");
}

/// An authority that is not as a group makes it, and what it signs.
struct Crafted {
    issuer: Issuer<'static, KeyPair>,
    pem: String,
    sha256: String,
}

impl Crafted {
    fn new(change: impl FnOnce(&mut CertificateParams)) -> Self {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, "crafted");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        change(&mut params);
        let made = params.self_signed(&key).unwrap();
        let (pem, sha256) = (made.pem(), fingerprint(made.der()));
        Self { issuer: Issuer::new(params, key), pem, sha256 }
    }

    /// A certificate for these names, in PEM.
    fn sign(
        &self,
        names: &[&str],
        key: &impl PublicKeyData,
        change: impl FnOnce(&mut CertificateParams),
    ) -> String {
        let names: Vec<String> = names.iter().map(|&name| name.to_owned()).collect();
        let mut params = CertificateParams::new(names).unwrap();
        params.distinguished_name.push(DnType::CommonName, "signed");
        change(&mut params);
        params.signed_by(key, &self.issuer).unwrap().pem()
    }

    /// A door that presents such a certificate and this authority.
    fn door(
        &self,
        names: &[&str],
        change: impl FnOnce(&mut CertificateParams),
    ) -> Arc<ServerConfig> {
        let key = KeyPair::generate().unwrap();
        let certificate = self.sign(names, &key, change);
        door_server_config(&certificate, &self.pem, &key.serialize_pem()).unwrap()
    }
}

#[test]
fn a_ticket_leads_to_its_group_at_whatever_address() {
    let authority = authority();
    let own = issued(&authority);
    for name in [SERVER_NAME, "192.0.2.1", "198.51.100.7", "san1.example.com"] {
        let client = knock_at(name, &authority.sha256(), door(&own, &authority)).unwrap();
        assert_eq!(client.protocol_version(), Some(ProtocolVersion::TLSv1_3));
        assert_eq!(client.alpn_protocol(), Some(&b"http/1.1"[..]));
        let chain = client.peer_certificates().unwrap();
        let presented: Vec<String> = chain.iter().map(|one| fingerprint(one)).collect();
        assert_eq!(presented, [own.sha256.clone(), authority.sha256()]);
    }
    // The authority as it was read again is the same one.
    let read = Authority::read(authority.certificate_pem(), authority.key_pem()).unwrap();
    let later = issued(&read);
    assert!(knock(&authority.sha256(), door(&later, &read)).is_ok());
}

#[test]
fn the_door_of_another_group_is_not_believed() {
    let group = GroupId::draw().unwrap();
    let ours = Authority::make(&group).unwrap();
    // One of another name, and one that only calls itself the same.
    for theirs in [authority(), Authority::make(&group).unwrap()] {
        let strange = issued(&theirs);
        let why = wrong(&ours.sha256(), door(&strange, &theirs));
        assert_eq!(why, CertificateError::UnknownIssuer);
        // The certificate of our authority is no secret: everybody may present it.
        let why = wrong(&ours.sha256(), door(&strange, &ours));
        let is_known =
            matches!(why, CertificateError::UnknownIssuer | CertificateError::BadSignature);
        assert!(is_known, "{why:?}");
    }
}

#[test]
fn one_digit_of_the_ticket_makes_it_another_group() {
    let authority = authority();
    let own = issued(&authority);
    let right = authority.sha256();
    for at in [0, 31, 63] {
        let other = if &right[at..=at] == "0" { "1" } else { "0" };
        let mut sha256 = right.clone();
        sha256.replace_range(at..=at, other);
        let why = wrong(&sha256, door(&own, &authority));
        assert_eq!(why, CertificateError::UnknownIssuer);
    }
    // The member's own certificate is not its group.
    assert_eq!(wrong(&own.sha256, door(&own, &authority)), CertificateError::UnknownIssuer);
}

#[test]
fn a_door_without_exactly_its_authority_behind_it_is_not_believed() {
    let authority = authority();
    let own = issued(&authority);
    let pem = |text: &str| CertificateDer::from_pem_slice(text.as_bytes()).unwrap();
    let (leaf, root) = (pem(&own.certificate_pem), pem(authority.certificate_pem()));
    for chain in [
        vec![leaf.clone()],
        vec![leaf.clone(), root.clone(), root.clone()],
        vec![leaf.clone(), leaf.clone(), root.clone()],
    ] {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(chain, PrivateKeyDer::from_pem_slice(own.key_pem.as_bytes()).unwrap())
            .unwrap();
        let why = wrong(&authority.sha256(), Arc::new(config));
        assert_eq!(why, CertificateError::UnknownIssuer);
    }
}

#[test]
fn certificates_whose_time_is_not_now_are_not_believed() {
    let crafted = Crafted::new(|_| {});
    let is_over = |why: &CertificateError| {
        matches!(why, CertificateError::Expired | CertificateError::ExpiredContext { .. })
    };
    let is_early = |why: &CertificateError| {
        matches!(why, CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. })
    };
    assert!(knock(&crafted.sha256, crafted.door(&[SERVER_NAME], |_| {})).is_ok());
    let expired = crafted.door(&[SERVER_NAME], |it| it.not_after = date_time_ymd(2020, 1, 1));
    let why = wrong(&crafted.sha256, expired);
    assert!(is_over(&why), "{why:?}");
    let early = crafted.door(&[SERVER_NAME], |it| it.not_before = date_time_ymd(3000, 1, 1));
    let why = wrong(&crafted.sha256, early);
    assert!(is_early(&why), "{why:?}");
    // That of the authority counts as well.
    let old = Crafted::new(|it| it.not_after = date_time_ymd(2020, 1, 1));
    let why = wrong(&old.sha256, old.door(&[SERVER_NAME], |_| {}));
    assert!(is_over(&why), "{why:?}");
    let young = Crafted::new(|it| it.not_before = date_time_ymd(3000, 1, 1));
    let why = wrong(&young.sha256, young.door(&[SERVER_NAME], |_| {}));
    assert!(is_early(&why), "{why:?}");
}

#[test]
fn a_certificate_without_the_name_of_members_is_not_believed() {
    let crafted = Crafted::new(|_| {});
    for names in [&["192.0.2.1"][..], &["drystone.internal"], &["x.member.drystone.internal"], &[]]
    {
        let why = wrong(&crafted.sha256, crafted.door(names, |_| {}));
        let is_name = matches!(
            why,
            CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. }
        );
        assert!(is_name, "{names:?}: {why:?}");
    }
    // Nor does it help to call the door by the name that the certificate has.
    let named = crafted.door(&["192.0.2.1"], |_| {});
    let knocked = knock_at("192.0.2.1", &crafted.sha256, named);
    assert!(matches!(knocked, Err(Error::InvalidCertificate(_))), "{knocked:?}");
}

#[test]
fn an_authority_is_no_member_and_a_member_is_no_authority() {
    let group = authority();
    let own = group.certificate_pem();
    let posing = door_server_config(own, own, group.key_pem()).unwrap();
    let why = wrong(&group.sha256(), posing);
    assert!(matches!(why, CertificateError::Other(_)), "it is one of an authority: {why:?}");
    // Even with the name in it.
    let named = CertificateParams::new(vec![SERVER_NAME.to_owned()]).unwrap();
    let crafted = Crafted::new(|it| it.subject_alt_names = named.subject_alt_names);
    let key = crafted.issuer.key().serialize_pem();
    let posing = door_server_config(&crafted.pem, &crafted.pem, &key).unwrap();
    let why = wrong(&crafted.sha256, posing);
    assert!(matches!(why, CertificateError::Other(_)), "{why:?}");
    // What a member has signed is not what its authority has: the ticket names that one.
    let key = KeyPair::generate().unwrap();
    let member = crafted.sign(&[SERVER_NAME], &key, |_| {});
    let mut params = CertificateParams::new(vec![SERVER_NAME.to_owned()]).unwrap();
    params.distinguished_name.push(DnType::CommonName, "signed");
    let below = KeyPair::generate().unwrap();
    let forged = params.signed_by(&below, &Issuer::new(params.clone(), key)).unwrap().pem();
    for behind in [&crafted.pem, &member] {
        let door = door_server_config(&forged, behind, &below.serialize_pem()).unwrap();
        assert_eq!(wrong(&crafted.sha256, door), CertificateError::UnknownIssuer);
    }
}

#[test]
fn a_door_that_knows_only_older_tls_is_not_talked_to() {
    let authority = authority();
    let own = issued(&authority);
    let pem = |text: &str| CertificateDer::from_pem_slice(text.as_bytes()).unwrap();
    let chain = vec![pem(&own.certificate_pem), pem(authority.certificate_pem())];
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&TLS12])
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(chain, PrivateKeyDer::from_pem_slice(own.key_pem.as_bytes()).unwrap())
        .unwrap();
    let knocked = knock(&authority.sha256(), Arc::new(config));
    assert!(matches!(knocked, Err(Error::PeerIncompatible(_))), "{knocked:?}");
}

#[test]
fn what_cannot_be_used_is_refused_with_a_sentence() {
    for wrong in ["", "ab", &"g0".repeat(32)] {
        let said = door_client_config(wrong).unwrap_err();
        assert!(said.contains("64 hexadecimal digits"), "{said}");
    }
    let (ours, theirs) = (authority(), authority());
    let (own, other) = (issued(&ours), issued(&theirs));
    let root = ours.certificate_pem();
    let two = format!("{}{root}", own.certificate_pem);
    let refused = |certificate: &str, authority: &str, key: &str| {
        door_server_config(certificate, authority, key).unwrap_err()
    };
    for text in ["", "no certificate", &two, &own.key_pem] {
        let said = refused(text, root, &own.key_pem);
        assert!(said.starts_with("the certificate of this member does not read"), "{said}");
        let said = refused(&own.certificate_pem, text, &own.key_pem);
        assert!(said.starts_with("the certificate of the group's authority does"), "{said}");
    }
    // A reader of PEM tells the line that it stumbles over, which may be the key.
    let damaged = own.key_pem.replace("KEY-----\n", "KEY");
    for text in ["", "no key", root, &damaged] {
        let said = refused(&own.certificate_pem, root, text);
        assert_eq!(said, "the key of this member does not read: it is no private key in PEM");
    }
    let said = refused(&own.certificate_pem, root, &other.key_pem);
    assert!(said.starts_with("the certificate of this member cannot be used"), "{said}");
    let said = refused(&other.certificate_pem, root, &own.key_pem);
    assert!(said.starts_with("the certificate of this member cannot be used"), "{said}");
}

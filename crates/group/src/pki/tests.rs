//! Certificates as TLS takes them, and tickets as people copy them.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use proptest::prelude::*;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::server::WebPkiClientVerifier;
use rustls::{
    CertificateError, ClientConfig, ClientConnection, Connection, Error, RootCertStore,
    ServerConfig, ServerConnection,
};
use x509_cert::Certificate;
use x509_cert::der::Decode;
use zeroize::Zeroizing;

use super::*;
use crate::accounts::TokenText;
use crate::membership::GroupId;

const DAY: u64 = 24 * 60 * 60;

/// 2026-11-28, in seconds since 1970.
const TODAY: u64 = 1_795_824_000;

fn authority() -> Authority {
    Authority::make(&GroupId::draw().unwrap()).unwrap()
}

fn address(text: &str) -> IpAddr {
    text.parse().unwrap()
}

fn provider() -> Arc<CryptoProvider> {
    Arc::new(rustls::crypto::ring::default_provider())
}

fn certificates(pem: &str) -> Vec<CertificateDer<'static>> {
    CertificateDer::pem_slice_iter(pem.as_bytes()).collect::<Result<_, _>>().unwrap()
}

fn key(issued: &Issued) -> PrivateKeyDer<'static> {
    PrivateKeyDer::from_pem_slice(issued.key_pem.as_bytes()).unwrap()
}

fn roots(authority: &Authority) -> Arc<RootCertStore> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates(authority.certificate_pem()) {
        roots.add(certificate).unwrap();
    }
    Arc::new(roots)
}

/// A member that serves whom its authority vouches for.
fn server(own: &Issued, trusted: &Authority) -> Connection {
    let verifier = WebPkiClientVerifier::builder_with_provider(roots(trusted), provider());
    let config = ServerConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_client_cert_verifier(verifier.build().unwrap())
        .with_single_cert(certificates(&own.certificate_pem), key(own))
        .unwrap();
    ServerConnection::new(Arc::new(config)).unwrap().into()
}

/// A member that calls another one by this name.
fn client(own: &Issued, trusted: &Authority, name: &str) -> Connection {
    let config = ClientConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots(trusted))
        .with_client_auth_cert(certificates(&own.certificate_pem), key(own))
        .unwrap();
    let name = ServerName::try_from(name.to_owned()).unwrap();
    ClientConnection::new(Arc::new(config), name).unwrap().into()
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

/// Until both believe each other, or one of them does not.
fn shake(mut client: Connection, mut server: Connection) -> Result<(), Error> {
    for _ in 0..8 {
        pass(&mut client, &mut server)?;
        pass(&mut server, &mut client)?;
        if !client.is_handshaking() && !server.is_handshaking() {
            return Ok(());
        }
    }
    panic!("the handshake does not end");
}

/// What is wrong with the certificate that one of them presented.
fn wrong(shaken: Result<(), Error>) -> CertificateError {
    match shaken {
        Err(Error::InvalidCertificate(why)) => why,
        other => panic!("{other:?}"),
    }
}

#[test]
fn members_prove_themselves_to_each_other() {
    let authority = authority();
    let one = authority.issue("one", address("192.0.2.1")).unwrap();
    let two = authority.issue("two", address("2001:db8::2")).unwrap();
    let mapped = authority.issue("three", address("::ffff:192.0.2.3")).unwrap();
    for (server_of, names) in [
        (&one, ["192.0.2.1", "127.0.0.1", SERVER_NAME]),
        (&two, ["2001:db8::2", "127.0.0.1", SERVER_NAME]),
        (&mapped, ["192.0.2.3", "127.0.0.1", SERVER_NAME]),
    ] {
        for name in names {
            for client_of in [&one, &two] {
                let client = client(client_of, &authority, name);
                assert_eq!(shake(client, server(server_of, &authority)), Ok(()), "{name}");
            }
        }
        let elsewhere = client(&one, &authority, "192.0.2.99");
        let why = wrong(shake(elsewhere, server(server_of, &authority)));
        assert!(matches!(why, CertificateError::NotValidForNameContext { .. }), "{why:?}");
    }
    assert_ne!(one.sha256, two.sha256);
}

#[test]
fn a_member_of_another_group_is_believed_by_nobody() {
    let group = GroupId::draw().unwrap();
    let ours = Authority::make(&group).unwrap();
    let own = ours.issue("one", address("192.0.2.1")).unwrap();
    // One of another name, and one that only calls itself the same.
    for theirs in [authority(), Authority::make(&group).unwrap()] {
        assert_ne!(theirs.sha256(), ours.sha256());
        let strange = theirs.issue("one", address("192.0.2.1")).unwrap();
        let at_server = shake(client(&strange, &ours, SERVER_NAME), server(&own, &ours));
        let at_client = shake(client(&own, &ours, SERVER_NAME), server(&strange, &ours));
        for why in [wrong(at_server), wrong(at_client)] {
            let is_known =
                matches!(why, CertificateError::UnknownIssuer | CertificateError::BadSignature);
            assert!(is_known, "{why:?}");
        }
    }
}

/// Who manages the group: trusts its authority, and has no certificate.
fn manager(trusted: &Authority, name: &str) -> Connection {
    let config = ClientConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots(trusted))
        .with_no_client_auth();
    let name = ServerName::try_from(name.to_owned()).unwrap();
    ClientConnection::new(Arc::new(config), name).unwrap().into()
}

/// The member that has the address, for whoever comes there.
fn at_address(issued: &Issued) -> Connection {
    let config = ServerConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(certificates(&issued.certificate_pem), key(issued))
        .unwrap();
    ServerConnection::new(Arc::new(config)).unwrap().into()
}

#[test]
fn a_group_is_believed_at_its_address_whichever_member_has_that() {
    let group = GroupId::draw().unwrap();
    let ours = Authority::make(&group).unwrap();
    let read = Authority::read(ours.certificate_pem(), ours.key_pem()).unwrap();
    let own_name = format!("{group}.group.drystone.internal");
    for place in ["192.0.2.100", "::ffff:192.0.2.100", "2001:db8::100"] {
        for member in [&ours, &read] {
            let issued = member.issue_for_group(&group, address(place)).unwrap();
            let canonical = address(place).to_canonical().to_string();
            for name in [canonical.as_str(), &own_name] {
                assert_eq!(shake(manager(&ours, name), at_address(&issued)), Ok(()), "{name}");
            }
            for name in ["192.0.2.99", "127.0.0.1", "san1.example.com"] {
                let why = wrong(shake(manager(&ours, name), at_address(&issued)));
                let is_name = matches!(why, CertificateError::NotValidForNameContext { .. });
                assert!(is_name, "{name}: {why:?}");
            }
        }
    }
    // Another group at that address, also one that only calls itself the same.
    for theirs in [authority(), Authority::make(&group).unwrap()] {
        let strange = theirs.issue_for_group(&group, address("192.0.2.100")).unwrap();
        let why = wrong(shake(manager(&ours, "192.0.2.100"), at_address(&strange)));
        let is_known =
            matches!(why, CertificateError::UnknownIssuer | CertificateError::BadSignature);
        assert!(is_known, "{why:?}");
    }
    for place in ["0.0.0.0", "ff02::1"] {
        let refused = ours.issue_for_group(&group, address(place));
        assert!(matches!(refused, Err(PkiError::Address(_))), "{place}: {refused:?}");
    }
}

#[test]
fn what_proves_the_group_at_its_address_proves_no_member() {
    let group = GroupId::draw().unwrap();
    let authority = Authority::make(&group).unwrap();
    let member = authority.issue("one", address("192.0.2.1")).unwrap();
    let of_group = authority.issue_for_group(&group, address("192.0.2.100")).unwrap();
    // As one that calls a member.
    let why = wrong(shake(client(&of_group, &authority, SERVER_NAME), server(&member, &authority)));
    let is_purpose = matches!(
        why,
        CertificateError::InvalidPurpose | CertificateError::InvalidPurposeContext { .. }
    );
    assert!(is_purpose, "{why:?}");
    // As one that is called by a member, or by a server that joins: by its name, or by a member's address.
    for name in [SERVER_NAME, "192.0.2.1", "127.0.0.1"] {
        let called = shake(client(&member, &authority, name), server(&of_group, &authority));
        let why = wrong(called);
        assert!(matches!(why, CertificateError::NotValidForNameContext { .. }), "{name}: {why:?}");
    }
}

#[test]
fn an_authority_that_was_read_goes_on_as_the_same() {
    let made = authority();
    let read = Authority::read(made.certificate_pem(), made.key_pem()).unwrap();
    assert_eq!(read.sha256(), made.sha256());
    assert_eq!(read.sha256().len(), 64);
    assert_eq!(read.certificate_pem(), made.certificate_pem());
    assert_eq!(read.key_pem(), made.key_pem());
    let before = made.issue("one", address("192.0.2.1")).unwrap();
    let after = read.issue("two", address("192.0.2.2")).unwrap();
    // Each trusts what the other has issued.
    assert_eq!(shake(client(&before, &read, SERVER_NAME), server(&after, &made)), Ok(()));
    assert_eq!(shake(client(&after, &made, SERVER_NAME), server(&before, &read)), Ok(()));
}

#[test]
fn what_is_no_authority_is_refused_and_no_key_is_told() {
    let (ours, theirs) = (authority(), authority());
    let member = ours.issue("one", address("192.0.2.1")).unwrap();
    let refused = |certificate: &str, key: &str| Authority::read(certificate, key).unwrap_err();
    assert_eq!(refused(ours.certificate_pem(), theirs.key_pem()), PkiError::OtherKey);
    assert_eq!(refused(&member.certificate_pem, &member.key_pem), PkiError::NoAuthority);
    let cut = &ours.key_pem()[..ours.key_pem().len() / 2];
    for key in ["", "no key", cut, ours.certificate_pem()] {
        assert_eq!(refused(ours.certificate_pem(), key), PkiError::Key);
    }
    let two = format!("{}{}", ours.certificate_pem(), theirs.certificate_pem());
    let cut = &ours.certificate_pem()[..ours.certificate_pem().len() / 2];
    for certificate in ["", "no certificate", cut, &two, ours.key_pem()] {
        let said = refused(certificate, ours.key_pem());
        assert!(matches!(said, PkiError::Certificate(_)), "{said}");
    }
    // Its first bytes are others.
    let damaged = ours.certificate_pem().replacen("MII", "AAA", 1);
    let said = refused(&damaged, ours.key_pem());
    assert!(matches!(said, PkiError::Certificate(_)), "{said}");
}

/// From when to when it is valid, in seconds since 1970.
fn validity(pem: &str) -> (u64, u64) {
    let der = certificates(pem).remove(0);
    let read = Certificate::from_der(&der).unwrap().tbs_certificate.validity;
    let seconds = |time: x509_cert::time::Time| time.to_unix_duration().as_secs();
    (seconds(read.not_before), seconds(read.not_after))
}

#[test]
fn certificates_begin_a_day_earlier_and_end_with_their_authority() {
    const CENTURY: u64 = 100 * 31_557_600;
    const LATEST: u64 = 253_402_300_799;
    let group = GroupId::draw().unwrap();
    // Never set, before and after 2050 (where the form of dates changes), and past all that can be told.
    for (now, begins, ends) in [
        (0, 0, CENTURY),
        (TODAY, TODAY - DAY, TODAY + CENTURY),
        (2_600_000_000, 2_600_000_000 - DAY, 2_600_000_000 + CENTURY),
        (LATEST - 1, LATEST - 1 - DAY, LATEST),
        (u64::MAX, LATEST - DAY, LATEST),
    ] {
        let made = Authority::make_at(&group, Duration::from_secs(now)).unwrap();
        assert_eq!(validity(made.certificate_pem()), (begins, ends), "{now}");
        let read = Authority::read(made.certificate_pem(), made.key_pem()).unwrap();
        for authority in [&made, &read] {
            let day = ends - 10 * DAY;
            let issued = authority.issue_at("one", address("::1"), Duration::from_secs(day));
            assert_eq!(validity(&issued.unwrap().certificate_pem), (day - DAY, ends));
            let over = authority.issue_at("one", address("::1"), Duration::from_secs(ends));
            assert_eq!(over, Err(PkiError::Over));
        }
    }
}

#[test]
fn a_certificate_whose_time_is_not_now_is_not_believed() {
    let authority = Authority::make_at(&GroupId::draw().unwrap(), Duration::ZERO).unwrap();
    let good = authority.issue("one", address("192.0.2.1")).unwrap();
    // The clock of who issued it was decades ahead: in 2061.
    let ahead = Duration::from_secs(2_900_000_000);
    let early = authority.issue_at("two", address("192.0.2.2"), ahead).unwrap();
    let why = wrong(shake(client(&good, &authority, SERVER_NAME), server(&early, &authority)));
    assert!(matches!(why, CertificateError::NotValidYetContext { .. }), "{why:?}");
}

/// The process goes on with it for years after its clock was set.
#[test]
fn what_proves_the_group_is_believed_although_the_clock_was_ahead() {
    let group = GroupId::draw().unwrap();
    let made = Authority::make(&group).unwrap();
    let read = Authority::read(made.certificate_pem(), made.key_pem()).unwrap();
    let ahead = Duration::from_secs(2_900_000_000);
    for authority in [&made, &read] {
        let place = "192.0.2.100";
        let issued = authority.issue_for_group_at(&group, address(place), ahead).unwrap();
        assert_eq!(validity(&issued.certificate_pem), validity(made.certificate_pem()));
        assert_eq!(shake(manager(&made, place), at_address(&issued)), Ok(()));
        let over = Duration::from_secs(validity(made.certificate_pem()).1);
        let refused = authority.issue_for_group_at(&group, address(place), over);
        assert_eq!(refused, Err(PkiError::Over));
    }
}

#[test]
fn a_certificate_is_over_when_its_time_is() {
    let key = rcgen::KeyPair::generate().unwrap();
    for (ends, is) in [(2020, true), (2099, false)] {
        let mut params = rcgen::CertificateParams::default();
        params.not_after = rcgen::date_time_ymd(ends, 12, 31);
        let made = params.self_signed(&key).unwrap();
        assert_eq!(is_over(made.der()), is, "{ends}");
    }
    assert!(!is_over(&CertificateDer::from(b"no certificate".to_vec())));
}

#[test]
fn nobody_gets_a_certificate_for_what_is_no_member() {
    let authority = authority();
    for name in [String::new(), "x".repeat(65)] {
        let refused = authority.issue(&name, address("192.0.2.1"));
        assert_eq!(refused, Err(PkiError::Name(name)));
    }
    assert!(authority.issue(&"x".repeat(64), address("192.0.2.1")).is_ok());
    for place in ["0.0.0.0", "::", "224.0.0.1", "ff02::1", "::ffff:0.0.0.0"] {
        let refused = authority.issue("one", address(place));
        assert!(matches!(refused, Err(PkiError::Address(_))), "{place}: {refused:?}");
    }
}

#[test]
fn secrets_are_not_shown() {
    let authority = authority();
    let issued = authority.issue("one", address("192.0.2.1")).unwrap();
    let secret = Zeroizing::new(TokenText::draw().unwrap().as_str().to_owned());
    let ticket = Ticket { authority_sha256: authority.sha256(), id: "0123abcd".into(), secret };
    let shown = format!("{authority:?} {issued:?} {ticket:?}");
    // Each is there, by what it is known by.
    for part in [&authority.sha256(), &issued.sha256, &ticket.id] {
        assert!(shown.contains(part.as_str()), "{shown}");
    }
    let digits = &ticket.secret["drystone_".len()..];
    assert!(!shown.contains("PRIVATE") && !shown.contains(digits), "{shown}");
    // The second line of a key in PEM is a part of its secret.
    for key in [authority.key_pem(), &issued.key_pem] {
        assert!(!shown.contains(key.lines().nth(1).unwrap()), "{shown}");
    }
}

#[test]
fn a_ticket_is_one_word_that_is_taken_as_it_was_copied() {
    let secret = Zeroizing::new(TokenText::draw().unwrap().as_str().to_owned());
    let ticket = Ticket { authority_sha256: "ab".repeat(32), id: "0123abcd".into(), secret };
    let text = ticket.as_text();
    assert_eq!(text.len(), "drystonejoin_".len() + 64 + 1 + 8 + 1 + 64);
    assert!(text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_'), "{}", *text);
    assert_eq!(text.parse::<Ticket>(), Ok(ticket.clone()));
    assert_eq!(format!("  {}\r\n", *text).parse::<Ticket>(), Ok(ticket));
}

#[test]
fn what_cannot_be_of_a_ticket_is_known_by_its_form() {
    let secret = format!("drystone_{}", "0a".repeat(32));
    assert!(Ticket::has_form("0123abcd", &secret));
    for id in ["", "0123abc", "0123abcde", "0123ABCD", "0123abcg"] {
        assert!(!Ticket::has_form(id, &secret), "{id}");
    }
    for wrong in ["", "drystone_", &secret[1..], &secret[..72], &format!("{secret}0")] {
        assert!(!Ticket::has_form("0123abcd", wrong), "{wrong}");
    }
}

#[test]
fn what_is_no_ticket_is_refused_without_repeating_it() {
    let token = TokenText::draw().unwrap();
    let upper = format!("drystonejoin_{}_{}_{}", "AB".repeat(32), "0123abcd", "cd".repeat(32));
    let split = format!("drystonejoin_{} _{}_{}", "ab".repeat(32), "0123abcd", "cd".repeat(32));
    let fourth = format!("drystonejoin_{}_{}_{}_", "ab".repeat(32), "0123abcd", "cd".repeat(32));
    for text in ["", "drystonejoin_", "drystonejoin___", token.as_str(), &upper, &split, &fourth] {
        let said = text.parse::<Ticket>().unwrap_err().to_string();
        assert!(said.contains("begins with 'drystonejoin_'"), "{said}");
        assert!(!said.contains(&"cd".repeat(32)) && !said.contains(token.as_str()), "{said}");
    }
}

fn ticket() -> impl Strategy<Value = Ticket> {
    let parts = ("[0-9a-f]{64}", "[0-9a-f]{8}", "[0-9a-f]{64}");
    parts.prop_map(|(authority_sha256, id, digits)| {
        let secret = Zeroizing::new(format!("drystone_{digits}"));
        Ticket { authority_sha256, id, secret }
    })
}

proptest! {
    #[test]
    fn every_ticket_reads_back(ticket in ticket()) {
        prop_assert!(Ticket::has_form(&ticket.id, &ticket.secret));
        prop_assert_eq!(ticket.as_text().parse::<Ticket>(), Ok(ticket));
    }

    /// A character that was changed makes it none, or one that is another: never the same one.
    #[test]
    fn a_damaged_ticket_is_never_taken_for_what_it_was(
        ticket in ticket(),
        at in 0_usize..151,
        by in prop::sample::select((b' '..=b'~').map(char::from).collect::<Vec<_>>()),
    ) {
        let text = ticket.as_text();
        let damaged = format!("{}{by}{}", &text[..at], &text[at + 1..]);
        prop_assume!(damaged != *text);
        if let Ok(read) = damaged.parse::<Ticket>() {
            prop_assert_ne!(&read, &ticket);
            prop_assert!(*read.as_text() == damaged);
        }
    }

    #[test]
    fn a_part_of_a_ticket_is_none(
        ticket in ticket(),
        end in 0_usize..151,
        more in "[0-9a-f_]{1,9}",
    ) {
        let text = ticket.as_text();
        prop_assert_eq!(text[..end].parse::<Ticket>(), Err(TicketError));
        prop_assert_eq!(text[151 - end..].parse::<Ticket>(), Err(TicketError));
        prop_assert_eq!(format!("{}{more}", *text).parse::<Ticket>(), Err(TicketError));
    }

    #[test]
    fn no_text_is_too_strange(text in any::<String>()) {
        let _ = text.parse::<Ticket>();
        let _ = format!("drystonejoin_{text}").parse::<Ticket>();
    }
}

/// Each member has read the authority from its own files.
#[test]
fn all_who_have_an_authority_have_one_key_for_settings() {
    let made = authority();
    let read = Authority::read(made.certificate_pem(), made.key_pem()).unwrap();
    assert_eq!(read.settings_key().name(), made.settings_key().name());
    assert_ne!(authority().settings_key().name(), made.settings_key().name());
    let shown = format!("{:?}", made.settings_key());
    assert!(!shown.contains(made.key_pem().as_str()), "{shown}");
}

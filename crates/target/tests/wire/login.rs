//! Login (RFC 7143 §6.3, §11.12, §12.1): who gets in, who does not, and what they are told.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use block::testing::{Fault, Operation, Rule};
use iscsi::address::AddressPattern;
use iscsi::chap::{Algorithm, Credentials, InitiatorChap};
use iscsi::login::InitiatorError;
use iscsi::pdu::{BHS_LEN_BYTES, LoginRequest, LoginResponse, LoginStatus, Stage};
use iscsi::text::{decode_binary, encode_hex};
use target::{Access, AccessRule, Config, Elsewhere, Redirect};

use crate::common::{
    ByHand, Command, Login, NoLogin, PATIENCE, Rig, WHERE, WHO, config, faulty, ram, wait_until,
};

fn credentials(user: &str, secret: &str) -> Credentials {
    Credentials::new(user, secret).unwrap()
}

fn ours() -> Credentials {
    credentials("host", "the host's secret")
}

fn theirs() -> Credentials {
    credentials("disk", "the target's secret")
}

fn guarded(mutual: bool) -> Config {
    let mut config = config([ram()]);
    config.access = Access::uniform(Vec::new(), Some(ours()), mutual.then(theirs));
    config
}

fn with_chap(us: Credentials, them: Option<Credentials>) -> Login {
    Login { chap: Some(InitiatorChap::new(us, them).unwrap()), ..Login::new("host") }
}

const REFUSED: NoLogin = NoLogin::Refused(LoginStatus::AUTHENTICATION_FAILURE);

#[test]
fn each_chap_algorithm_proves_both_sides() {
    let rig = Rig::start(guarded(true));
    for algorithm in Algorithm::ALL {
        for mutual in [false, true] {
            let chap = InitiatorChap::new(ours(), mutual.then(theirs)).unwrap();
            let chap = Some(chap.with_algorithms(&[algorithm]));
            let login = Login { chap: chap.clone(), ..Login::new("host") };
            let mut session = login.connect(rig.portal()).unwrap();
            session.take_attentions(0);
            let login = Login { chap, ..Login::discovery() };
            assert_eq!(login.connect(rig.portal()).unwrap().text("SendTargets=All").len(), 2);
        }
    }
}

#[test]
fn who_does_not_know_the_secret_stays_out() {
    let rig = Rig::start(guarded(true));
    let portal = rig.portal();
    let error = |login: Login| login.connect(portal).err().unwrap();
    assert_eq!(error(with_chap(credentials("host", "another secret!"), None)), REFUSED);
    assert_eq!(error(with_chap(credentials("guest", "the host's secret"), None)), REFUSED);
    assert_eq!(error(Login::new("host")), REFUSED, "without CHAP");
    assert_eq!(error(Login::discovery()), REFUSED, "discovery without CHAP");
    // A target with another secret is found out by the initiator.
    let liar = with_chap(ours(), Some(credentials("disk", "not their secret")));
    assert_eq!(error(liar), NoLogin::Wrong(InitiatorError::TargetNotProved));
    assert_eq!(rig.server().sessions(), 0);
}

#[test]
fn a_target_without_a_secret_of_its_own_does_not_pretend() {
    let rig = Rig::start(guarded(false));
    let login = with_chap(ours(), Some(theirs()));
    assert_eq!(login.connect(rig.portal()).err().unwrap(), REFUSED);
}

/// A connection that has been sent a challenge for SHA-256: its identifier, and the challenge.
fn challenged(portal: SocketAddr) -> (ByHand, u8, String) {
    let mut thief = ByHand::in_security(portal);
    assert!(thief.status(&[WHO, WHERE, "AuthMethod=CHAP"]).is_success());
    let (_, text) = thief.say(&["CHAP_A=7"]);
    let value = |key: &str| {
        let pair = text.split('\0').find_map(|pair| pair.strip_prefix(key));
        pair.unwrap_or_else(|| panic!("{key} in {text:?}")).to_owned()
    };
    (thief, value("CHAP_I=").parse().unwrap(), value("CHAP_C="))
}

/// RFC 7143 §12.1.3: who sends a challenge of ours back wants us to answer it for him, also on another connection, at
/// another target, where he may have a secret of his own.
#[test]
fn a_reflected_challenge_is_refused() {
    let rigs = [Rig::start(guarded(true)), Rig::start(guarded(true))];
    let answer = |challenge: &str, identifier| {
        let bytes = decode_binary(challenge, 1024).unwrap();
        encode_hex(&ours().respond(Algorithm::Sha256, identifier, &bytes))
    };
    let (_open, _, others) = challenged(rigs[0].portal());
    for rig in &rigs {
        for own in [true, false] {
            let (mut thief, identifier, challenge) = challenged(rig.portal());
            let reflected = if own { &challenge } else { &others };
            let right = format!("CHAP_R={}", answer(&challenge, identifier));
            let asks = ["CHAP_I=1", &format!("CHAP_C={reflected}")];
            let status = thief.status(&["CHAP_N=host", &right, asks[0], asks[1]]);
            assert_eq!(status, LoginStatus::AUTHENTICATION_FAILURE, "own: {own}");
            thief.connection.expect_closed();
        }
        let (mut honest, identifier, challenge) = challenged(rig.portal());
        let right = format!("CHAP_R={}", answer(&challenge, identifier));
        let status =
            honest.status(&["CHAP_N=host", &right, "CHAP_I=1", "CHAP_C=0x0123456789abcdef"]);
        assert!(status.is_success(), "a challenge of the initiator's is answered");
    }
}

#[test]
fn an_unknown_target_is_not_found() {
    let rig = Rig::ram();
    let login = Login { target: Some("iqn.2026-11.example:other".into()), ..Login::new("host") };
    assert_eq!(login.connect(rig.portal()).err(), Some(NoLogin::Refused(LoginStatus::NOT_FOUND)));
}

#[test]
fn who_is_not_on_the_list_is_not_allowed() {
    let mut config = config([ram()]);
    let places = vec![
        AccessRule::initiator("iqn.2026-11.example:friend"),
        AccessRule::from("192.0.2.0/24".parse::<AddressPattern>().unwrap()),
    ];
    config.access = Access::uniform(places, None, None);
    let rig = Rig::start(config);
    let stranger = Login::new("stranger").connect(rig.portal());
    assert_eq!(stranger.err(), Some(NoLogin::Refused(LoginStatus::AUTHORIZATION_FAILURE)));
    let finder = Login::discovery().connect(rig.portal());
    assert_eq!(finder.err(), Some(NoLogin::Refused(LoginStatus::AUTHORIZATION_FAILURE)));
    Login::new("friend").connect(rig.portal()).unwrap().take_attentions(0);
}

#[derive(Debug)]
struct Moved(bool);

impl Redirect for Moved {
    fn elsewhere(&self, portal: SocketAddr) -> Option<Elsewhere> {
        let address = format!("192.0.2.1:{}", portal.port());
        Some(Elsewhere { address, permanent: self.0 })
    }
}

#[test]
fn a_target_that_moved_says_where_to_and_for_how_long() {
    for permanent in [false, true] {
        let mut config = config([ram()]);
        config.redirect = Some(Arc::new(Moved(permanent)));
        let rig = Rig::start(config);
        let address = format!("192.0.2.1:{}", rig.portal().port());
        let moved = NoLogin::Moved { address, is_temporary: !permanent };
        assert_eq!(Login::new("host").connect(rig.portal()).err(), Some(moved));
        let mut by_hand = ByHand::new(rig.portal());
        let expected = if permanent { 0x0102 } else { 0x0101 };
        assert_eq!(by_hand.status(&[WHO, WHERE]), LoginStatus(expected));
        // Discovery is not redirected: it is how the new place is found.
        assert_eq!(
            Login::discovery().connect(rig.portal()).unwrap().text("SendTargets=All").len(),
            2
        );
    }
}

#[test]
fn each_way_to_begin_wrongly_has_its_status() {
    let rig = Rig::ram();
    let status = |change: fn(&mut LoginRequest), pairs: &[&str]| {
        let mut by_hand = ByHand::new(rig.portal());
        change(&mut by_hand.request);
        let status = by_hand.status(pairs);
        if !status.is_success() {
            by_hand.connection.expect_closed();
        }
        status.0
    };
    let same = |_: &mut LoginRequest| {};
    assert_eq!(status(same, &[WHO, WHERE]), 0, "the least that a login needs");
    assert_eq!(status(same, &[WHERE]), 0x0207, "no InitiatorName");
    assert_eq!(status(same, &[WHO]), 0x0207, "no TargetName");
    assert_eq!(status(same, &[WHO, WHERE, "SessionType=Copy"]), 0x0209);
    assert_eq!(status(|request| request.tsih = 0x4711, &[WHO, WHERE]), 0x020a);
    assert_eq!(status(|request| request.version_min = 1, &[WHO, WHERE]), 0x0205);
    assert_eq!(status(|request| request.stage = Stage::FULL_FEATURE, &[WHO, WHERE]), 0x0200);
}

#[test]
fn unknown_keys_are_not_understood_and_do_no_harm() {
    let rig = Rig::ram();
    let mut by_hand = ByHand::new(rig.portal());
    let (response, text) = by_hand.say(&[WHO, WHERE, "X-org.example.Colour=blue", "Taste=sweet"]);
    assert!(response.status.is_success() && response.is_transit);
    assert!(text.contains("X-org.example.Colour=NotUnderstood\0"), "{text:?}");
    assert!(text.contains("Taste=NotUnderstood\0"), "{text:?}");
    // A value that makes no sense is rejected by itself (RFC 7143 §6.2), and the default holds.
    let mut by_hand = ByHand::new(rig.portal());
    let (response, text) = by_hand.say(&[WHO, WHERE, "MaxBurstLength=fast"]);
    assert!(response.status.is_success());
    assert!(text.contains("MaxBurstLength=Reject\0"), "{text:?}");
}

#[test]
fn a_session_takes_as_many_connections_as_were_agreed() {
    let rig = Rig::two_cores();
    let mut login = Login::new("host");
    login.limits.max_connections = 2;
    let first = login.connect(rig.portal()).unwrap();
    assert_eq!(first.session.max_connections, 2);
    let _second = login.joining(&first, 1).connect(rig.portal()).unwrap();
    let third = login.joining(&first, 2).connect(rig.portal());
    assert_eq!(third.err(), Some(NoLogin::Refused(LoginStatus::TOO_MANY_CONNECTIONS)));
    assert_eq!(rig.server().sessions(), 1);
}

#[test]
fn who_does_not_log_in_is_shown_out() {
    let mut config = config([ram()]);
    config.limits.login_timeout = Duration::from_millis(100);
    let rig = Rig::start(config);
    let mut host = rig.ready("host");
    let mut silent = TcpStream::connect(rig.portal()).unwrap();
    silent.set_read_timeout(Some(PATIENCE)).unwrap();
    assert_eq!(silent.read(&mut [0; 1]).unwrap(), 0, "closed");
    // Half a login counts for nothing either.
    let mut by_hand = ByHand::in_security(rig.portal());
    assert!(by_hand.status(&[WHO, WHERE, "AuthMethod=None"]).is_success());
    by_hand.connection.expect_closed();
    host.expect_alive();
}

#[test]
fn what_is_no_login_is_refused_or_dropped() {
    let rig = Rig::ram();
    let mut host = rig.ready("host");
    // A SCSI command before login: 020b, with its own tag.
    let mut early = ByHand::new(rig.portal());
    let (bhs, _) = Command::read(0, 1).to_pdu(0x77, 1, 0);
    early.connection.send(&bhs, &[]);
    let reply = LoginResponse::parse(&early.connection.receive().bhs).unwrap();
    assert_eq!((reply.status, reply.itt), (LoginStatus::INVALID_DURING_LOGIN, 0x77));
    early.connection.expect_closed();
    // Other protocols.
    for words in [
        &b"GET / HTTP/1.1\r\nHost: disk.example\r\nAccept: text/html,text/plain\r\n\r\n"[..],
        &[0xff; 300],
    ] {
        let mut stream = TcpStream::connect(rig.portal()).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.write_all(words).unwrap();
        let mut answer = Vec::new();
        // A reset is an answer too.
        drop(stream.read_to_end(&mut answer));
        assert!(answer.len() <= BHS_LEN_BYTES, "{answer:02x?}");
    }
    host.expect_alive();
}

/// A disk hangs, and with it the end of a session: its host tries again and again, and nobody else
/// notices.
#[test]
fn a_hung_disk_keeps_nobody_else_from_logging_in() {
    let (disk, device) = faulty();
    let mut config = config([device]);
    config.limits.logins = 4;
    config.limits.logins_per_address = 4;
    config.limits.login_timeout = Duration::from_secs(1);
    let rig = Rig::start(config);
    let mut host = rig.ready("hung");
    disk.inject(Rule::always(Operation::Write, Fault::Hang));
    let itt = host.issue(&Command::write(0, &[1; 512]).immediate_data());
    host.expect_silence(Duration::from_millis(50));
    let portal = rig.portal();
    let tries: Vec<_> = (0..12)
        .map(|_| std::thread::spawn(move || Login::new("hung").connect(portal).err()))
        .collect();
    std::thread::sleep(Duration::from_millis(100));
    for name in ["a", "b", "c", "d", "e", "f"] {
        Login::new(name).connect(portal).unwrap();
    }
    // It is told that it cannot be served now, but where a newer try came before it had said who it is.
    let answers: Vec<_> = tries.into_iter().map(|refused| refused.join().unwrap()).collect();
    let told = Some(NoLogin::Refused(LoginStatus::SERVICE_UNAVAILABLE));
    assert!(answers.contains(&told), "{answers:?}");
    assert!(answers.iter().all(|answer| *answer == told || *answer == Some(NoLogin::Closed)));
    disk.heal();
    disk.release();
    wait_until("the host is let in again", || Login::new("hung").connect(portal).is_ok());
    drop((host, itt));
}

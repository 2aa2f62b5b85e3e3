//! Logins: the target's side against any requests, the initiator's against any responses.

use super::input::Input;
use iscsi::chap::{AuthPolicy, ChallengeKey, ChapPolicy, Credentials, InitiatorChap};
use iscsi::login::{
    InitiatorConfig, InitiatorLogin, InitiatorStep, LOGIN_REQUESTS_MAX, LoginEnv, LoginOutcome,
    LoginStep, SessionDecision, SessionRequest, TargetLogin, TargetLoginConfig, TargetLookup,
};
use iscsi::params::{DigestPolicy, LocalLimits, SessionParams};
use iscsi::pdu::{BHS_LEN_BYTES, Bhs, LoginRequest, LoginResponse, LoginStatus, Stage};
use iscsi::text::IscsiName;
use std::sync::{Arc, LazyLock};

/// The only name that is authorized.
pub const INITIATOR: &str = "iqn.2001-04.com.example:host";
/// The only target there is.
pub const TARGET: &str = "iqn.2026-11.dev.drystone:export";
const USER: &str = "alice";
/// Bits of the first byte.
const AS_INITIATOR: u8 = 0x80;
/// Of byte 1 of a header, in reserved bits: all of the header comes from the input.
const RAW: u8 = 0x30;
/// Likewise: the request is to join a session.
pub(crate) const JOINS: u8 = 0x10;

/// Settings, then the PDUs of the peer.
pub fn run(input: &[u8]) {
    let mut input = Input::new(input);
    let flags = input.byte();
    if flags & AS_INITIATOR == 0 { as_target(flags, input) } else { as_initiator(flags, input) }
}

fn name(text: &str) -> IscsiName {
    IscsiName::parse(text).expect("a sound name")
}

fn credentials(user: &str, secret: &str) -> Credentials {
    Credentials::new(user, secret).expect("a sound secret")
}

/// What each side proves itself with, if it does.
pub(crate) fn user() -> Credentials {
    credentials(USER, "secret-of-alice")
}

pub(crate) fn node() -> Credentials {
    credentials("node", "secret-of-the-node")
}

/// The initiator's random bytes: the same in each run, so that a seed can answer the challenge, and
/// not the target's, since a challenge that comes back is refused.
pub(crate) fn random(bytes: &mut [u8]) {
    bytes.fill(0x5a);
}

/// A target node whose answers are set by the first byte of the input.
pub(crate) struct Node {
    pub(crate) flags: u8,
}

impl Node {
    fn is_mutual(&self) -> bool {
        self.flags & 3 == 2
    }

    fn auth(&self) -> AuthPolicy {
        if self.flags & 3 == 0 {
            return AuthPolicy::None;
        }
        let target = self.is_mutual().then(node);
        AuthPolicy::Chap(Arc::new(ChapPolicy::new(vec![user()], target).expect("two secrets")))
    }
}

impl LoginEnv for Node {
    fn find_target(&mut self, name: &IscsiName) -> TargetLookup {
        let address = "[::1]:3260,1".to_owned();
        match self.flags >> 4 & 3 {
            0 | 1 if name.as_str() != TARGET => TargetLookup::NotFound,
            0 | 1 => {
                let alias = Some("alias".to_owned());
                TargetLookup::Found { portal_group_tag: 1, alias }
            }
            2 if name.as_str() == TARGET => TargetLookup::Removed,
            2 => TargetLookup::Offline,
            _ => TargetLookup::Moved { address, is_temporary: name.as_str() == TARGET },
        }
    }

    fn authorize(&mut self, initiator: &IscsiName, _: Option<&IscsiName>) -> Option<AuthPolicy> {
        (initiator.as_str() == INITIATOR).then(|| self.auth())
    }

    fn session(&mut self, request: &SessionRequest<'_>) -> SessionDecision {
        match (self.flags >> 2 & 3, request.tsih) {
            (3, _) => SessionDecision::Refuse(LoginStatus::OUT_OF_RESOURCES),
            (1, 0) => SessionDecision::Reinstate { tsih: 8 },
            (_, 0) => SessionDecision::Start { tsih: 7 },
            _ => {
                let session = SessionParams::default();
                SessionDecision::Join { session, exp_cmd_sn: 9, max_cmd_sn: 19 }
            }
        }
    }

    fn random(&mut self, bytes: &mut [u8]) {
        bytes.fill(0xa5);
    }

    fn challenge_key(&self) -> &ChallengeKey {
        static KEY: LazyLock<ChallengeKey> = LazyLock::new(|| ChallengeKey::new(&mut |_| {}));
        &KEY
    }
}

pub(crate) fn target_limits(flags: u8) -> LocalLimits {
    let digest = if flags & 0x40 == 0 { DigestPolicy::Allow } else { DigestPolicy::Require };
    LocalLimits { header_digest: digest, ..LocalLimits::default() }
}

fn as_target(flags: u8, mut input: Input<'_>) {
    let mut node = Node { flags };
    let limits = target_limits(flags);
    let config = TargetLoginConfig { limits, first_stat_sn: u32::MAX, command_window: 64 };
    let mut login = TargetLogin::new(config);
    let mut stat_sn = config.first_stat_sn;
    for _ in 0..LOGIN_REQUESTS_MAX {
        if input.is_empty() {
            return;
        }
        let (bhs, text) = request(&mut input);
        let step = login.on_request(&bhs, text, &mut node);
        let (LoginStep::Respond { bhs, data }
        | LoginStep::Accept { bhs, data, .. }
        | LoginStep::Fail { bhs, data, .. }) = &step;
        let response = LoginResponse::parse(Bhs::from_ref(bhs)).expect("a Login Response");
        assert_eq!(response.data_segment_len_bytes as usize, data.len());
        assert!(data.len() <= 8192, "a response fits the default segment");
        // Without success this field means nothing (RFC 7143 11.13.4).
        assert!(response.stat_sn == stat_sn || !response.status.is_success());
        stat_sn = stat_sn.wrapping_add(1);
        match step {
            LoginStep::Respond { .. } => assert!(response.status.is_success()),
            LoginStep::Accept { outcome, .. } => return accepted(&node, &response, &outcome),
            LoginStep::Fail { refusal, .. } => {
                assert_eq!(response.status, refusal.status());
                assert!(!response.status.is_success() && !response.is_transit);
                return;
            }
        }
    }
    let (bhs, text) = request(&mut input);
    let last = login.on_request(&bhs, text, &mut node);
    assert!(matches!(last, LoginStep::Fail { .. }), "a login has an end");
}

/// Nobody gets in who should not.
fn accepted(node: &Node, response: &LoginResponse, outcome: &LoginOutcome) {
    assert!(response.status.is_success() && response.is_transit);
    assert_eq!(response.next_stage, Stage::FULL_FEATURE);
    assert_eq!(outcome.initiator_name.as_str(), INITIATOR);
    assert!(outcome.target_name.as_ref().is_none_or(|name| name.as_str() == TARGET));
    let wants_user = !matches!(node.auth(), AuthPolicy::None);
    assert_eq!(outcome.chap_user(), wants_user.then_some(USER));
    assert!(outcome.connection.header_digest || node.flags & 0x40 == 0);
    let decided = match outcome.decision {
        SessionDecision::Start { tsih } | SessionDecision::Reinstate { tsih } => Some(tsih),
        SessionDecision::Join { .. } => None,
        SessionDecision::NotAuthorized => panic!("accepted although it is not authorised"),
        SessionDecision::Refuse(status) => panic!("accepted although {status}"),
    };
    assert!(decided.is_none_or(|tsih| tsih == outcome.tsih));
    assert!(outcome.session.first_burst_len_bytes <= outcome.session.max_burst_len_bytes);
}

/// A Login Request: byte 1 of its header and its text, unless the input wants more say.
fn request<'a>(input: &mut Input<'a>) -> (Bhs, &'a [u8]) {
    let flags = input.byte();
    if flags & RAW == RAW {
        return (Bhs::new(input.bytes()), input.chunk());
    }
    let request = LoginRequest {
        is_immediate: true,
        is_transit: flags & 0x80 != 0,
        is_continued: flags & 0x40 != 0,
        stage: Stage(flags >> 2 & 3),
        next_stage: Stage(flags & 3),
        version_max: 0,
        version_min: 0,
        total_ahs_words: 0,
        data_segment_len_bytes: 0,
        isid: [0x80, 0, 0, 0, 0, 1],
        tsih: if flags & JOINS == 0 { 0 } else { 7 },
        itt: 1,
        cid: 1,
        cmd_sn: 1,
        exp_stat_sn: 0,
    };
    (request.to_bhs(), input.chunk())
}

pub(crate) fn initiator(flags: u8) -> InitiatorConfig {
    let target = (flags & 3 == 2).then(node);
    let chap = InitiatorChap::new(user(), target).expect("two secrets");
    InitiatorConfig {
        initiator_name: name(INITIATOR),
        initiator_alias: Some("my host".to_owned()),
        target_name: (flags & 4 == 0).then(|| name(TARGET)),
        isid: [0x80, 0, 0, 0, 0, 1],
        tsih: 0,
        cid: 1,
        itt: 1,
        cmd_sn: 1,
        limits: LocalLimits::default(),
        chap: (flags & 3 != 0).then_some(chap),
    }
}

fn as_initiator(flags: u8, mut input: Input<'_>) {
    let mut login = InitiatorLogin::new(initiator(flags));
    let mut sent = login.start();
    for stat_sn in 0..=LOGIN_REQUESTS_MAX {
        let request = LoginRequest::parse(Bhs::from_ref(&sent.bhs)).expect("a Login Request");
        assert_eq!(request.data_segment_len_bytes as usize, sent.data.len());
        assert!(sent.data.len() <= 8192, "a request fits the default segment");
        if input.is_empty() {
            return;
        }
        let bhs = response(&mut input, stat_sn);
        match login.on_response(&bhs, input.chunk(), &mut random) {
            Ok(InitiatorStep::Send(next)) => sent = next,
            Ok(InitiatorStep::Done(outcome)) => {
                let session = outcome.session;
                assert!(session.first_burst_len_bytes <= session.max_burst_len_bytes);
                return;
            }
            Ok(InitiatorStep::Redirect { .. }) | Err(_) => return,
        }
    }
    panic!("a login has an end");
}

fn response(input: &mut Input<'_>, stat_sn: u32) -> Bhs {
    let flags = input.byte();
    if flags & RAW == RAW {
        return Bhs::new(input.bytes::<BHS_LEN_BYTES>());
    }
    let response = LoginResponse {
        is_transit: flags & 0x80 != 0,
        is_continued: flags & 0x40 != 0,
        stage: Stage(flags >> 2 & 3),
        next_stage: Stage(flags & 3),
        version_max: 0,
        version_active: 0,
        data_segment_len_bytes: 0,
        isid: [0x80, 0, 0, 0, 0, 1],
        tsih: 7,
        itt: 1,
        stat_sn,
        exp_cmd_sn: 1,
        max_cmd_sn: 64,
        status: if flags & 0x10 == 0 { LoginStatus::SUCCESS } else { LoginStatus(input.be16()) },
    };
    response.to_bhs()
}

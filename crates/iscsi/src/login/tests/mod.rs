//! Both sides of login against each other, and each against a peer that breaks the rules.

mod agreement;
mod authentication;
mod initiator;
mod refusals;
mod sequence;

use super::*;
use crate::chap::{ChallengeKey, ChapPolicy, Credentials, InitiatorChap};
use crate::params::LocalLimits;
use crate::pdu::{Bhs, LoginRequest, LoginResponse, Stage};
use std::sync::Arc;

pub(super) const INITIATOR: &str = "iqn.2001-04.com.example:host";
pub(super) const TARGET: &str = "iqn.2026-11.dev.drystone:export";

pub(super) fn name(text: &str) -> IscsiName {
    IscsiName::parse(text).unwrap()
}

/// A target node whose answers are set by the test.
pub(super) struct Env {
    pub(super) lookup: TargetLookup,
    /// For a target, and for discovery; `None` is not authorised.
    pub(super) auth: Option<AuthPolicy>,
    pub(super) discovery_auth: AuthPolicy,
    pub(super) decision: SessionDecision,
    pub(super) seed: u8,
    pub(super) key: ChallengeKey,
}

impl Default for Env {
    fn default() -> Self {
        Self {
            lookup: found(),
            auth: Some(AuthPolicy::None),
            discovery_auth: AuthPolicy::None,
            decision: SessionDecision::Start { tsih: 7 },
            seed: 0,
            key: ChallengeKey::new(&mut |bytes| bytes.fill(7)),
        }
    }
}

pub(super) fn found() -> TargetLookup {
    TargetLookup::Found { portal_group_tag: 3, alias: Some("the alias".to_owned()) }
}

impl LoginEnv for Env {
    fn find_target(&mut self, name: &IscsiName) -> TargetLookup {
        assert_eq!(name.as_str(), TARGET);
        self.lookup.clone()
    }

    fn authorize(
        &mut self,
        initiator: &IscsiName,
        target: Option<&IscsiName>,
    ) -> Option<AuthPolicy> {
        assert_eq!(initiator.as_str(), INITIATOR);
        if target.is_some() { self.auth.clone() } else { Some(self.discovery_auth.clone()) }
    }

    fn session(&mut self, request: &SessionRequest<'_>) -> SessionDecision {
        // Only a session that is joined has a TSIH before: this target has none.
        match self.decision {
            SessionDecision::Start { .. } | SessionDecision::Reinstate { .. }
                if request.tsih != 0 =>
            {
                SessionDecision::Refuse(LoginStatus::SESSION_DOES_NOT_EXIST)
            }
            decision => decision,
        }
    }

    fn random(&mut self, bytes: &mut [u8]) {
        self.seed += 1;
        bytes.fill(self.seed);
    }

    fn challenge_key(&self) -> &ChallengeKey {
        &self.key
    }
}

pub(super) fn target_login(limits: &LocalLimits) -> TargetLogin {
    TargetLogin::new(TargetLoginConfig { limits: *limits, first_stat_sn: 100, command_window: 64 })
}

pub(super) fn initiator_config(limits: &LocalLimits) -> InitiatorConfig {
    InitiatorConfig {
        initiator_name: name(INITIATOR),
        initiator_alias: Some("my host".to_owned()),
        target_name: Some(name(TARGET)),
        isid: [0x80, 1, 2, 3, 4, 5],
        tsih: 0,
        cid: 9,
        itt: 0x1234,
        cmd_sn: 42,
        limits: *limits,
        chap: None,
    }
}

pub(super) fn credentials(user: &str, secret: &str) -> Credentials {
    Credentials::new(user, secret).unwrap()
}

pub(super) fn alice() -> Credentials {
    credentials("alice", "secret-of-alice")
}

pub(super) fn node() -> Credentials {
    credentials("node", "secret-of-the-node")
}

pub(super) fn chap(target: Option<Credentials>) -> AuthPolicy {
    AuthPolicy::Chap(Arc::new(ChapPolicy::new(vec![alice()], target).unwrap()))
}

pub(super) fn initiator_chap(target: Option<Credentials>) -> Option<InitiatorChap> {
    Some(InitiatorChap::new(alice(), target).unwrap())
}

/// How a login between both sides ended.
#[derive(Debug)]
pub(super) enum End {
    Done(Box<InitiatorOutcome>, Box<LoginOutcome>),
    Refused(LoginRefusal, Result<InitiatorStep, InitiatorError>),
    InitiatorError(InitiatorError),
}

/// Runs both sides until one of them ends the login.
pub(super) fn run(config: InitiatorConfig, limits: &LocalLimits, env: &mut Env) -> End {
    let mut target = target_login(limits);
    let mut initiator = InitiatorLogin::new(config);
    let mut pdu = initiator.start();
    let mut random = |bytes: &mut [u8]| bytes.fill(0xab);
    loop {
        let mut outcome = None;
        let (bhs, data) = match target.on_request(Bhs::from_ref(&pdu.bhs), &pdu.data, env) {
            LoginStep::Respond { bhs, data } => (bhs, data),
            LoginStep::Accept { bhs, data, outcome: settled } => {
                outcome = Some(settled);
                (bhs, data)
            }
            LoginStep::Fail { bhs, data, refusal } => {
                let seen = initiator.on_response(Bhs::from_ref(&bhs), &data, &mut random);
                return End::Refused(refusal, seen);
            }
        };
        assert!(data.len() <= 8192, "a login response fits the default segment");
        match initiator.on_response(Bhs::from_ref(&bhs), &data, &mut random) {
            Ok(InitiatorStep::Send(next)) => pdu = next,
            Ok(InitiatorStep::Done(seen)) => {
                return End::Done(seen, outcome.expect("both sides are done at once"));
            }
            Ok(other) => panic!("{other:?}"),
            Err(error) => return End::InitiatorError(error),
        }
        assert!(outcome.is_none(), "both sides are done at once");
    }
}

/// Runs both sides, which must succeed.
pub(super) fn run_done(
    config: InitiatorConfig,
    limits: &LocalLimits,
    env: &mut Env,
) -> (InitiatorOutcome, LoginOutcome) {
    match run(config, limits, env) {
        End::Done(initiator, target) => (*initiator, *target),
        other => panic!("{other:?}"),
    }
}

/// A Login Request of a well-behaved initiator, to be changed by the test.
pub(super) fn request(stage: Stage, next_stage: Option<Stage>) -> LoginRequest {
    LoginRequest {
        is_immediate: true,
        is_transit: next_stage.is_some(),
        is_continued: false,
        stage,
        next_stage: next_stage.unwrap_or(Stage::SECURITY),
        version_max: 0,
        version_min: 0,
        total_ahs_words: 0,
        data_segment_len_bytes: 0,
        isid: [0x80, 1, 2, 3, 4, 5],
        tsih: 0,
        itt: 0x1234,
        cid: 9,
        cmd_sn: 42,
        exp_stat_sn: 0,
    }
}

/// The text that begins a normal session, and `more`.
pub(super) fn hello(more: &str) -> String {
    format!("InitiatorName={INITIATOR}\0TargetName={TARGET}\0{more}")
}

/// Sends one request; returns the parsed response, its text with spaces for NULs, and the step.
pub(super) fn send(
    target: &mut TargetLogin,
    request: LoginRequest,
    text: &str,
    env: &mut Env,
) -> (LoginResponse, String, LoginStep) {
    let step = target.on_request(&request.to_bhs(), text.as_bytes(), env);
    let (bhs, data) = match &step {
        LoginStep::Respond { bhs, data }
        | LoginStep::Accept { bhs, data, .. }
        | LoginStep::Fail { bhs, data, .. } => (bhs, data),
    };
    let response = LoginResponse::parse(Bhs::from_ref(bhs)).unwrap();
    assert_eq!(response.data_segment_len_bytes as usize, data.len());
    assert_eq!(response.itt, request.itt);
    let text = String::from_utf8(data.clone()).unwrap();
    (response, text.trim_end_matches('\0').replace('\0', " "), step)
}

/// Sends one request, which must be refused; returns why and with which status.
pub(super) fn refused(
    target: &mut TargetLogin,
    request: LoginRequest,
    text: &str,
    env: &mut Env,
) -> (LoginRefusal, LoginStatus) {
    let (response, _, step) = send(target, request, text, env);
    let LoginStep::Fail { refusal, .. } = step else {
        panic!("{step:?}");
    };
    assert_eq!(response.status, refusal.status());
    assert!(!response.is_transit && !response.is_continued);
    (refusal, response.status)
}

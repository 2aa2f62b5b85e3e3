//! The target's side of login.

use super::target_auth::TargetAuth;
use super::{
    AuthRefusal, LOGIN_REQUESTS_MAX, LOGIN_TEXT_LEN_BYTES_MAX, LoginClaim, LoginEnv, LoginOutcome,
    LoginRefusal, LoginStep, SessionDecision, SessionRequest, SessionType, TargetLookup, VERSION,
    value_of,
};
use crate::params::LocalLimits;
use crate::pdu::{Bhs, LoginRequest, LoginResponse, LoginStatus, Stage};
use crate::text::{
    IscsiName, Negotiation, PAIRS_MAX, Pair, Reassembly, Role, TEXT_LEN_BYTES_MAX, TextWriter,
    parse_pairs, refuse_repeated_keys,
};

/// What a target brings to each login.
#[derive(Debug, Clone, Copy)]
pub struct TargetLoginConfig {
    /// What we offer.
    pub limits: LocalLimits,
    /// StatSN of the first response; any value will do.
    pub first_stat_sn: u32,
    /// Commands that a new session may send at once: MaxCmdSN is ExpCmdSN and this minus 1. Not 0.
    pub command_window: u32,
}

/// The login of one connection, from its first Login Request to full feature phase or refusal.
#[derive(Debug)]
pub struct TargetLogin {
    config: TargetLoginConfig,
    stat_sn: u32,
    requests: u32,
    text_len_bytes: usize,
    first: Option<LoginRequest>,
    stage: Stage,
    text: Reassembly,
    /// The names that came first.
    claim: LoginClaim,
    peer: Option<Peer>,
}

/// What the first complete text told, and what follows from it.
#[derive(Debug)]
struct Peer {
    session_type: SessionType,
    initiator: IscsiName,
    initiator_alias: Option<String>,
    target: Option<IscsiName>,
    portal_group_tag: u16,
    auth: TargetAuth,
    negotiation: Negotiation,
}

/// What becomes of a request that is in order: what to say, and whether login is over.
struct Progress {
    data: Vec<u8>,
    next_stage: Option<Stage>,
    accepted: Option<Box<LoginOutcome>>,
}

impl Progress {
    /// Login goes on in the same stage.
    const fn staying(data: Vec<u8>) -> Self {
        Self { data, next_stage: None, accepted: None }
    }
}

impl TargetLogin {
    /// A connection of which nothing was received.
    #[must_use]
    pub fn new(config: TargetLoginConfig) -> Self {
        debug_assert!(config.command_window > 0);
        Self {
            config,
            stat_sn: config.first_stat_sn,
            requests: 0,
            text_len_bytes: 0,
            first: None,
            stage: Stage::SECURITY,
            text: Reassembly::new(TEXT_LEN_BYTES_MAX),
            claim: LoginClaim::default(),
            peer: None,
        }
    }

    /// Who the initiator says it is and what it wants, as far as it has.
    #[must_use]
    pub fn claim(&self) -> LoginClaim {
        let user = self.peer.as_ref().and_then(|peer| peer.auth.claimed());
        LoginClaim { chap_user: user.map(str::to_owned), ..self.claim.clone() }
    }

    /// Takes one PDU of the Login Phase, `text` being its data segment without padding, and says what to
    /// send. After [`LoginStep::Accept`] and [`LoginStep::Fail`] the login is over.
    pub fn on_request(&mut self, bhs: &Bhs, text: &[u8], env: &mut dyn LoginEnv) -> LoginStep {
        let request = match LoginRequest::parse(bhs) {
            Ok(request) => request,
            Err(_) => return fail_other(bhs),
        };
        match self.advance(&request, text, env) {
            Ok(progress) => self.respond(&request, progress),
            Err(refusal) => fail(&request, refusal),
        }
    }

    fn advance(
        &mut self,
        request: &LoginRequest,
        text: &[u8],
        env: &mut dyn LoginEnv,
    ) -> Result<Progress, LoginRefusal> {
        self.check_header(request, text.len())?;
        let Some(text) = self.text.push(text, request.is_continued)? else {
            return Ok(Progress::staying(Vec::new()));
        };
        let pairs = parse_pairs(&text, PAIRS_MAX)?;
        refuse_repeated_keys(&pairs)?;
        let mut out = TextWriter::new();
        if self.peer.is_none() {
            self.peer = Some(self.meet(request, &pairs, env, &mut out)?);
        }
        let peer = self.peer.as_mut().expect("set above");
        if self.stage == Stage::SECURITY {
            peer.auth.take(&pairs, env, &mut out)?;
        }
        let may_leave = peer.auth.is_satisfied();
        // Whoever leaves security, or begins behind it, without a word about it has skipped it.
        let is_leaving = request.is_transit || self.stage != Stage::SECURITY;
        if is_leaving && !may_leave && peer.auth.is_untouched() {
            return Err(AuthRefusal::Skipped.into());
        }
        peer.negotiation.take_all(&pairs, &mut out)?;
        if self.stage == Stage::OPERATIONAL {
            peer.negotiation.write_declaration(&mut out);
        }
        let data = out.into_bytes();
        if !(request.is_transit && may_leave) {
            return Ok(Progress::staying(data));
        }
        self.stage = request.next_stage;
        let accepted = match self.stage {
            Stage::FULL_FEATURE => Some(self.place(request, env)?),
            _ => None,
        };
        Ok(Progress { data, next_stage: Some(request.next_stage), accepted })
    }

    /// What can be refused on the header alone (11.12, 6.3.3).
    fn check_header(
        &mut self,
        request: &LoginRequest,
        len_bytes: usize,
    ) -> Result<(), LoginRefusal> {
        self.requests += 1;
        self.text_len_bytes += len_bytes;
        if self.requests > LOGIN_REQUESTS_MAX || self.text_len_bytes > LOGIN_TEXT_LEN_BYTES_MAX {
            return Err(LoginRefusal::TooLong);
        }
        if request.version_min > VERSION {
            return Err(LoginRefusal::Version(request.version_min));
        }
        match &self.first {
            None => {
                self.first = Some(*request);
                self.stage = request.stage;
            }
            Some(first) => {
                let identity = |it: &LoginRequest| (it.isid, it.tsih, it.cid, it.itt);
                if identity(first) != identity(request) {
                    return Err(LoginRefusal::Changed);
                }
            }
        }
        let is_stage = matches!(request.stage, Stage::SECURITY | Stage::OPERATIONAL);
        let is_next = match request.next_stage {
            Stage::OPERATIONAL => request.stage == Stage::SECURITY,
            Stage::FULL_FEATURE => true,
            _ => false,
        };
        let is_transit_wrong = request.is_transit && (request.is_continued || !is_next);
        if !is_stage || request.stage != self.stage || is_transit_wrong {
            return Err(LoginRefusal::Stage);
        }
        Ok(())
    }

    /// Reads who wants what from the first complete text, and whether that is possible (6.3.1).
    fn meet(
        &mut self,
        request: &LoginRequest,
        pairs: &[Pair<'_>],
        env: &mut dyn LoginEnv,
        out: &mut TextWriter,
    ) -> Result<Peer, LoginRefusal> {
        let session_type = match value_of(pairs, "SessionType") {
            None | Some("Normal") => SessionType::Normal,
            Some("Discovery") => SessionType::Discovery,
            Some(_) => return Err(LoginRefusal::SessionType),
        };
        let initiator =
            parse_name(pairs, "InitiatorName")?.ok_or(LoginRefusal::Missing("InitiatorName"))?;
        self.claim.initiator = Some(initiator.clone());
        // A discovery session is with the node, whatever target it names (4.3).
        let target = match session_type {
            SessionType::Normal => parse_name(pairs, "TargetName")?,
            SessionType::Discovery => None,
        };
        self.claim.target.clone_from(&target);
        let portal_group_tag = match (session_type, &target) {
            (SessionType::Discovery, _) => 0,
            (SessionType::Normal, None) => return Err(LoginRefusal::Missing("TargetName")),
            (SessionType::Normal, Some(target)) => find(env, target, out)?,
        };
        let auth = env.authorize(&initiator, target.as_ref()).ok_or(LoginRefusal::NotAuthorized)?;
        let is_discovery = session_type == SessionType::Discovery;
        let is_leading = request.tsih == 0;
        let limits = &self.config.limits;
        Ok(Peer {
            session_type,
            initiator,
            initiator_alias: value_of(pairs, "InitiatorAlias").map(str::to_owned),
            target,
            portal_group_tag,
            auth: TargetAuth::new(auth),
            negotiation: Negotiation::new(Role::Target, limits, is_leading, is_discovery),
        })
    }

    /// All is negotiated: finds the connection its place in a session.
    fn place(
        &mut self,
        request: &LoginRequest,
        env: &mut dyn LoginEnv,
    ) -> Result<Box<LoginOutcome>, LoginRefusal> {
        let peer = self.peer.take().expect("a login is placed after it was met");
        let (connection, mut session) = peer.negotiation.finish()?;
        let decision = env.session(&SessionRequest {
            session_type: peer.session_type,
            initiator: &peer.initiator,
            target: peer.target.as_ref(),
            proved: peer.auth.proved().map(|proved| &**proved),
            isid: request.isid,
            tsih: request.tsih,
            cid: request.cid,
        });
        let mut exp_cmd_sn = request.cmd_sn;
        let mut max_cmd_sn = self.max_cmd_sn(request);
        let tsih = match decision {
            SessionDecision::Start { tsih } | SessionDecision::Reinstate { tsih } => {
                debug_assert!(tsih != 0 && request.tsih == 0);
                tsih
            }
            SessionDecision::Join { session: joined, exp_cmd_sn: exp, max_cmd_sn: max } => {
                debug_assert!(request.tsih != 0);
                (session, exp_cmd_sn, max_cmd_sn) = (joined, exp, max);
                request.tsih
            }
            SessionDecision::NotAuthorized => return Err(LoginRefusal::NotAuthorized),
            SessionDecision::Refuse(status) => return Err(LoginRefusal::Session(status)),
        };
        Ok(Box::new(LoginOutcome {
            session_type: peer.session_type,
            decision,
            initiator_name: peer.initiator,
            initiator_alias: peer.initiator_alias,
            proved: peer.auth.proved().cloned(),
            target_name: peer.target,
            portal_group_tag: peer.portal_group_tag,
            isid: request.isid,
            tsih,
            cid: request.cid,
            connection,
            session,
            exp_cmd_sn,
            max_cmd_sn,
            next_stat_sn: self.stat_sn.wrapping_add(1),
        }))
    }

    const fn max_cmd_sn(&self, request: &LoginRequest) -> u32 {
        request.cmd_sn.wrapping_add(self.config.command_window).wrapping_sub(1)
    }

    fn respond(&mut self, request: &LoginRequest, progress: Progress) -> LoginStep {
        let Progress { data, next_stage, accepted } = progress;
        let mut response = response_to(request, LoginStatus::SUCCESS, data.len());
        response.is_transit = next_stage.is_some();
        response.next_stage = next_stage.unwrap_or(Stage::SECURITY);
        response.stat_sn = self.stat_sn;
        response.exp_cmd_sn = request.cmd_sn;
        response.max_cmd_sn = self.max_cmd_sn(request);
        self.stat_sn = self.stat_sn.wrapping_add(1);
        match accepted {
            None => LoginStep::Respond { bhs: *response.to_bhs().bytes(), data },
            Some(outcome) => {
                response.tsih = outcome.tsih;
                response.exp_cmd_sn = outcome.exp_cmd_sn;
                response.max_cmd_sn = outcome.max_cmd_sn;
                LoginStep::Accept { bhs: *response.to_bhs().bytes(), data, outcome }
            }
        }
    }
}

/// Looks the target up, and tells the initiator of its portal group and alias (13.9: in the first response).
fn find(
    env: &mut dyn LoginEnv,
    target: &IscsiName,
    out: &mut TextWriter,
) -> Result<u16, LoginRefusal> {
    match env.find_target(target) {
        TargetLookup::Found { portal_group_tag, alias } => {
            if let Some(alias) = alias {
                out.push("TargetAlias", alias);
            }
            out.push("TargetPortalGroupTag", portal_group_tag);
            Ok(portal_group_tag)
        }
        TargetLookup::NotFound => Err(LoginRefusal::TargetNotFound),
        TargetLookup::Removed => Err(LoginRefusal::TargetRemoved),
        TargetLookup::Offline => Err(LoginRefusal::TargetOffline),
        TargetLookup::Moved { address, is_temporary } => {
            Err(LoginRefusal::Moved { address, is_temporary })
        }
    }
}

fn parse_name(pairs: &[Pair<'_>], key: &'static str) -> Result<Option<IscsiName>, LoginRefusal> {
    let name = value_of(pairs, key).map(IscsiName::parse).transpose();
    name.map_err(|error| LoginRefusal::Name { key, error })
}

/// The fields of a response that follow from the request and the outcome.
fn response_to(
    request: &LoginRequest,
    status: LoginStatus,
    data_len_bytes: usize,
) -> LoginResponse {
    LoginResponse {
        is_transit: false,
        is_continued: false,
        stage: request.stage,
        next_stage: Stage::SECURITY,
        version_max: VERSION,
        version_active: VERSION,
        data_segment_len_bytes: u32::try_from(data_len_bytes)
            .expect("answers are bounded by the number of keys"),
        isid: request.isid,
        tsih: request.tsih,
        itt: request.itt,
        stat_sn: 0,
        exp_cmd_sn: 0,
        max_cmd_sn: 0,
        status,
    }
}

fn fail(request: &LoginRequest, refusal: LoginRefusal) -> LoginStep {
    let mut out = TextWriter::new();
    if let LoginRefusal::Moved { address, .. } = &refusal {
        out.push("TargetAddress", address);
    }
    let data = out.into_bytes();
    LoginStep::Fail {
        bhs: *response_to(request, refusal.status(), data.len()).to_bhs().bytes(),
        data,
        refusal,
    }
}

/// Another PDU than a Login Request: of its header only the task tag means anything to us (7.3).
fn fail_other(bhs: &Bhs) -> LoginStep {
    let mut raw = [0; crate::pdu::BHS_LEN_BYTES];
    raw[0] = LoginRequest::OPCODE.0;
    raw[16..20].copy_from_slice(&bhs.itt().to_be_bytes());
    let request = LoginRequest::parse(&Bhs::new(raw)).expect("the opcode is set above");
    fail(&request, LoginRefusal::NotALogin(bhs.opcode()))
}

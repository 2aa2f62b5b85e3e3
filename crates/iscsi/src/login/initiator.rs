//! The initiator's side of login.

use super::{LOGIN_REQUESTS_MAX, VERSION, value_of};
use crate::chap::{Algorithm, Challenge, InitiatorChap};
use crate::params::{ConnectionParams, LocalLimits, SessionParams};
use crate::pdu::{
    BHS_LEN_BYTES, Bhs, Isid, LoginRequest, LoginResponse, LoginStatus, PduError, Stage,
};
use crate::text::{
    BINARY_LEN_BYTES_MAX, IscsiName, Negotiation, NegotiationError, PAIRS_MAX, Pair, Reassembly,
    Role, TEXT_LEN_BYTES_MAX, TextError, TextWriter, decode_binary, encode_hex, parse_number,
    parse_pairs, refuse_repeated_keys,
};

/// What an initiator brings to a login.
#[derive(Debug, Clone)]
pub struct InitiatorConfig {
    /// Our name.
    pub initiator_name: IscsiName,
    /// Our alias.
    pub initiator_alias: Option<String>,
    /// The target to log in to; `None` asks for a discovery session.
    pub target_name: Option<IscsiName>,
    /// Initiator Session ID.
    pub isid: Isid,
    /// 0 for a new session, otherwise the session to join.
    pub tsih: u16,
    /// Connection ID.
    pub cid: u16,
    /// Initiator Task Tag of the login.
    pub itt: u32,
    /// First CmdSN of a new session, or the next one of the session to join.
    pub cmd_sn: u32,
    /// What we offer.
    pub limits: LocalLimits,
    /// What we authenticate with. Without the target's half, a target that asks for nothing is accepted too.
    pub chap: Option<InitiatorChap>,
}

/// A Login Request to send.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoginPdu {
    /// Its header.
    pub bhs: [u8; BHS_LEN_BYTES],
    /// Its data segment, without padding.
    pub data: Vec<u8>,
}

/// What to do after a Login Response.
#[derive(Debug)]
pub enum InitiatorStep {
    /// Send this and wait for the next response.
    Send(LoginPdu),
    /// The connection is in full feature phase.
    Done(Box<InitiatorOutcome>),
    /// The target is elsewhere: close, and log in there.
    Redirect {
        /// TargetAddress: `host[:port][,portal group tag]`.
        address: String,
        /// Whether the old address will serve again.
        is_temporary: bool,
    },
}

/// A login that succeeded, as the initiator sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InitiatorOutcome {
    /// TSIH of the session.
    pub tsih: u16,
    /// TargetAlias.
    pub target_alias: Option<String>,
    /// TargetPortalGroupTag.
    pub portal_group_tag: Option<u16>,
    /// What holds for this connection.
    pub connection: ConnectionParams,
    /// What holds for the session, if this is its first connection.
    pub session: SessionParams,
    /// ExpCmdSN of the last response.
    pub exp_cmd_sn: u32,
    /// MaxCmdSN of the last response.
    pub max_cmd_sn: u32,
    /// The StatSN to expect next.
    pub exp_stat_sn: u32,
}

/// Why a login failed, as the initiator sees it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InitiatorError {
    /// The target said no.
    #[error("the target refused the login: {0}")]
    Refused(LoginStatus),
    /// Another PDU than a Login Response.
    #[error(transparent)]
    Pdu(#[from] PduError),
    /// A response that answers nothing we asked: another tag, version or stage.
    #[error("the Login Response does not follow from the request")]
    Unexpected,
    /// More responses than a login may take.
    #[error("the login takes too many requests")]
    TooLong,
    /// Malformed text.
    #[error(transparent)]
    Text(#[from] TextError),
    /// A key that cannot be settled.
    #[error(transparent)]
    Negotiation(#[from] NegotiationError),
    /// The target chose a method or algorithm that we did not offer, or its CHAP keys are malformed.
    #[error("the target's authentication keys are malformed")]
    Authentication,
    /// The target's user or response is wrong: it may be another one.
    #[error("the target did not prove itself")]
    TargetNotProved,
}

/// What we wait for.
#[derive(Debug)]
enum State {
    /// The choice of a method.
    Method,
    /// The target's challenge.
    Challenge,
    /// The target's verdict, and its response to our challenge.
    Verdict(Option<Challenge>),
    /// The end of security negotiation; nothing more is to be proved.
    Proved,
    /// Answers to our offers.
    Operational,
}

/// The login of one connection.
#[derive(Debug)]
pub struct InitiatorLogin {
    config: InitiatorConfig,
    state: State,
    requests: u32,
    text: Reassembly,
    negotiation: Negotiation,
    exp_stat_sn: u32,
    target_alias: Option<String>,
    portal_group_tag: Option<u16>,
}

impl InitiatorLogin {
    /// A login of which nothing was sent.
    #[must_use]
    pub fn new(config: InitiatorConfig) -> Self {
        let is_discovery = config.target_name.is_none();
        let is_leading = config.tsih == 0;
        let limits = &config.limits;
        Self {
            negotiation: Negotiation::new(Role::Initiator, limits, is_leading, is_discovery),
            state: State::Method,
            requests: 0,
            text: Reassembly::new(TEXT_LEN_BYTES_MAX),
            exp_stat_sn: 0,
            target_alias: None,
            portal_group_tag: None,
            config,
        }
    }

    /// The first request: who we are, what we want, and how we can authenticate.
    pub fn start(&mut self) -> LoginPdu {
        let mut out = TextWriter::new();
        out.push("InitiatorName", &self.config.initiator_name);
        if let Some(alias) = &self.config.initiator_alias {
            out.push("InitiatorAlias", alias);
        }
        match &self.config.target_name {
            Some(target) => {
                out.push("TargetName", target);
                out.push("SessionType", "Normal");
            }
            None => out.push("SessionType", "Discovery"),
        }
        let methods = match &self.config.chap {
            None => "None",
            Some(chap) if chap.target().is_some() => "CHAP",
            Some(_) => "CHAP,None",
        };
        out.push("AuthMethod", methods);
        let is_transit = self.config.chap.is_none();
        self.request(Stage::SECURITY, is_transit, out)
    }

    /// Takes one Login Response, `text` being its data segment without padding. `random` fills in
    /// unpredictable bytes, for our challenge.
    ///
    /// # Errors
    /// An [`InitiatorError`], after which the connection is to be closed.
    pub fn on_response(
        &mut self,
        bhs: &Bhs,
        text: &[u8],
        random: &mut dyn FnMut(&mut [u8]),
    ) -> Result<InitiatorStep, InitiatorError> {
        let response = LoginResponse::parse(bhs)?;
        if response.itt != self.config.itt {
            return Err(InitiatorError::Unexpected);
        }
        // A refusal counts whatever else is in it: tgtd refuses with an ISID of zeroes.
        if response.status.class() > 1 {
            return Err(InitiatorError::Refused(response.status));
        }
        if response.isid != self.config.isid {
            return Err(InitiatorError::Unexpected);
        }
        if response.status.class() == 1 {
            return redirect(response.status, text);
        }
        let is_shape_wrong = response.is_transit && response.is_continued;
        if response.version_active != VERSION || response.stage != self.stage() || is_shape_wrong {
            return Err(InitiatorError::Unexpected);
        }
        if self.requests >= LOGIN_REQUESTS_MAX {
            return Err(InitiatorError::TooLong);
        }
        self.exp_stat_sn = response.stat_sn.wrapping_add(1);
        let Some(text) = self.text.push(text, response.is_continued)? else {
            return Ok(InitiatorStep::Send(self.request(self.stage(), false, TextWriter::new())));
        };
        let pairs = parse_pairs(&text, PAIRS_MAX)?;
        refuse_repeated_keys(&pairs)?;
        self.note_declarations(&pairs);
        if matches!(self.state, State::Operational) {
            self.operate(&response, &pairs)
        } else {
            self.authenticate(&response, &pairs, random)
        }
    }

    /// The stage that our last request belonged to.
    const fn stage(&self) -> Stage {
        match self.state {
            State::Operational => Stage::OPERATIONAL,
            _ => Stage::SECURITY,
        }
    }

    fn note_declarations(&mut self, pairs: &[Pair<'_>]) {
        if let Some(alias) = value_of(pairs, "TargetAlias") {
            self.target_alias = Some(alias.to_owned());
        }
        if let Some(tag) = value_of(pairs, "TargetPortalGroupTag").and_then(parse_number) {
            self.portal_group_tag = u16::try_from(tag).ok();
        }
    }

    fn authenticate(
        &mut self,
        response: &LoginResponse,
        pairs: &[Pair<'_>],
        random: &mut dyn FnMut(&mut [u8]),
    ) -> Result<InitiatorStep, InitiatorError> {
        let mut out = TextWriter::new();
        match std::mem::replace(&mut self.state, State::Proved) {
            State::Method => self.take_method(pairs, &mut out)?,
            State::Challenge => self.take_challenge(pairs, random, &mut out)?,
            State::Verdict(challenge) => {
                // A target that still hesitates has not judged our response.
                if response.is_transit || value_of(pairs, "CHAP_R").is_some() {
                    self.take_verdict(challenge.as_ref(), pairs)?;
                } else {
                    self.state = State::Verdict(challenge);
                }
            }
            State::Proved | State::Operational => {}
        }
        if response.is_transit {
            let is_proved = matches!(self.state, State::Proved);
            if !is_proved || response.next_stage != Stage::OPERATIONAL {
                return Err(InitiatorError::Unexpected);
            }
            self.state = State::Operational;
            self.negotiation.write_offers(&mut out);
            self.negotiation.write_declaration(&mut out);
            return Ok(InitiatorStep::Send(self.request(Stage::OPERATIONAL, true, out)));
        }
        // T goes with all but the offer of algorithms, which cannot be the last word.
        let is_transit = !matches!(self.state, State::Challenge);
        Ok(InitiatorStep::Send(self.request(Stage::SECURITY, is_transit, out)))
    }

    fn take_method(
        &mut self,
        pairs: &[Pair<'_>],
        out: &mut TextWriter,
    ) -> Result<(), InitiatorError> {
        match (value_of(pairs, "AuthMethod"), &self.config.chap) {
            (Some("CHAP"), Some(chap)) => {
                let numbers = chap.algorithms().iter().map(|it| it.number().to_string());
                out.push("CHAP_A", numbers.collect::<Vec<_>>().join(","));
                self.state = State::Challenge;
                Ok(())
            }
            // A target that says nothing about the method asks for none.
            (Some("None") | None, chap) => {
                let must_prove = chap.as_ref().is_some_and(|chap| chap.target().is_some());
                if must_prove {
                    return Err(InitiatorError::TargetNotProved);
                }
                self.state = State::Proved;
                Ok(())
            }
            _ => Err(InitiatorError::Authentication),
        }
    }

    fn take_challenge(
        &mut self,
        pairs: &[Pair<'_>],
        random: &mut dyn FnMut(&mut [u8]),
        out: &mut TextWriter,
    ) -> Result<(), InitiatorError> {
        let chap = self.config.chap.as_ref().ok_or(InitiatorError::Authentication)?;
        let (algorithm, identifier, challenge) =
            parse_challenge(pairs).ok_or(InitiatorError::Authentication)?;
        if !chap.algorithms().contains(&algorithm) {
            return Err(InitiatorError::Authentication);
        }
        let response = chap.initiator().respond(algorithm, identifier, &challenge);
        out.push("CHAP_N", chap.initiator().user());
        out.push("CHAP_R", encode_hex(&response));
        let ours = chap.target().map(|_| Challenge::new(algorithm, random));
        if let Some(ours) = &ours {
            out.push("CHAP_I", ours.identifier);
            out.push("CHAP_C", encode_hex(&ours.bytes));
        }
        self.state = State::Verdict(ours);
        Ok(())
    }

    /// With mutual authentication, the target must have answered our challenge rightly.
    fn take_verdict(
        &mut self,
        challenge: Option<&Challenge>,
        pairs: &[Pair<'_>],
    ) -> Result<(), InitiatorError> {
        if let Some(challenge) = challenge {
            let target = self.config.chap.as_ref().and_then(InitiatorChap::target);
            let user = value_of(pairs, "CHAP_N");
            let response = value_of(pairs, "CHAP_R")
                .and_then(|value| decode_binary(value, BINARY_LEN_BYTES_MAX));
            let (Some(target), Some(user), Some(response)) = (target, user, response) else {
                return Err(InitiatorError::TargetNotProved);
            };
            if !target.verify(challenge, user, &response) {
                return Err(InitiatorError::TargetNotProved);
            }
        }
        self.state = State::Proved;
        Ok(())
    }

    fn operate(
        &mut self,
        response: &LoginResponse,
        pairs: &[Pair<'_>],
    ) -> Result<InitiatorStep, InitiatorError> {
        let mut out = TextWriter::new();
        self.negotiation.take_all(pairs, &mut out)?;
        if !response.is_transit {
            return Ok(InitiatorStep::Send(self.request(Stage::OPERATIONAL, true, out)));
        }
        if response.next_stage != Stage::FULL_FEATURE || response.tsih == 0 {
            return Err(InitiatorError::Unexpected);
        }
        let (connection, session) = self.negotiation.finish()?;
        Ok(InitiatorStep::Done(Box::new(InitiatorOutcome {
            tsih: response.tsih,
            target_alias: self.target_alias.take(),
            portal_group_tag: self.portal_group_tag,
            connection,
            session,
            exp_cmd_sn: response.exp_cmd_sn,
            max_cmd_sn: response.max_cmd_sn,
            exp_stat_sn: self.exp_stat_sn,
        })))
    }

    fn request(&mut self, stage: Stage, is_transit: bool, out: TextWriter) -> LoginPdu {
        self.requests += 1;
        let data = out.into_bytes();
        let next_stage = match stage {
            _ if !is_transit => Stage::SECURITY,
            Stage::SECURITY => Stage::OPERATIONAL,
            _ => Stage::FULL_FEATURE,
        };
        let request = LoginRequest {
            is_immediate: true,
            is_transit,
            is_continued: false,
            stage,
            next_stage,
            version_max: VERSION,
            version_min: VERSION,
            total_ahs_words: 0,
            data_segment_len_bytes: u32::try_from(data.len()).expect("our keys are few"),
            isid: self.config.isid,
            tsih: self.config.tsih,
            itt: self.config.itt,
            cid: self.config.cid,
            cmd_sn: self.config.cmd_sn,
            exp_stat_sn: self.exp_stat_sn,
        };
        LoginPdu { bhs: *request.to_bhs().bytes(), data }
    }
}

/// CHAP_A, CHAP_I and CHAP_C of the target.
fn parse_challenge(pairs: &[Pair<'_>]) -> Option<(Algorithm, u8, Vec<u8>)> {
    let number = |key| value_of(pairs, key).and_then(parse_number);
    let algorithm = Algorithm::from_number(number("CHAP_A")?)?;
    let identifier = u8::try_from(number("CHAP_I")?).ok()?;
    let challenge = decode_binary(value_of(pairs, "CHAP_C")?, BINARY_LEN_BYTES_MAX)?;
    Some((algorithm, identifier, challenge))
}

fn redirect(status: LoginStatus, text: &[u8]) -> Result<InitiatorStep, InitiatorError> {
    let pairs = parse_pairs(text, PAIRS_MAX)?;
    let address = value_of(&pairs, "TargetAddress").ok_or(InitiatorError::Refused(status))?;
    Ok(InitiatorStep::Redirect {
        address: address.to_owned(),
        is_temporary: status == LoginStatus::MOVED_TEMPORARILY,
    })
}

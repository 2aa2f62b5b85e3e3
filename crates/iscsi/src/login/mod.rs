//! The Login Phase (RFC 7143 section 6.3, 11.12 and 11.13), as a state machine for each side.
//!
//! ```text
//!            CSG=0                     CSG=1                 NSG=3
//! start --> SecurityNegotiation --T--> OperationalNegotiation --T--> FullFeaturePhase
//!       \_______________________________^   (only if no authentication is asked for)
//! ```
//!
//! [`TargetLogin`] takes one Login Request at a time and returns what to send and whether to go on; what
//! it must know about targets, sessions and initiators it asks its [`LoginEnv`]. [`InitiatorLogin`] is
//! its counterpart.

mod initiator;
mod refusal;
mod target;
mod target_auth;
#[cfg(test)]
mod tests;

pub use initiator::{
    InitiatorConfig, InitiatorError, InitiatorLogin, InitiatorOutcome, InitiatorStep, LoginPdu,
};
pub use refusal::{AuthRefusal, LoginRefusal};
pub use target::{TargetLogin, TargetLoginConfig};

use crate::chap::{AuthPolicy, ChallengeKey, Credentials};
use crate::params::{ConnectionParams, SessionParams};
use crate::pdu::{BHS_LEN_BYTES, Isid, LoginStatus};
use crate::text::{IscsiName, Pair};
use std::sync::Arc;

/// Login Requests that one login may take: four are usual, and a text in many pieces takes some more.
pub const LOGIN_REQUESTS_MAX: u32 = 32;

/// Text that one login may bring, over all of its requests.
pub const LOGIN_TEXT_LEN_BYTES_MAX: usize = 64 << 10;

/// The only version of the protocol (11.12.3).
const VERSION: u8 = 0;

/// What kind of session a login asks for (13.21).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SessionType {
    /// Everything a target serves.
    Normal,
    /// Only SendTargets and Logout.
    Discovery,
}

/// What the target side knows about a target's name.
#[derive(Debug, Clone)]
pub enum TargetLookup {
    /// It is served through the portal that the connection came in on.
    Found {
        /// Portal group of this portal (13.9).
        portal_group_tag: u16,
        /// TargetAlias (13.6).
        alias: Option<String>,
    },
    /// There is no such target.
    NotFound,
    /// There was such a target, but no more.
    Removed,
    /// There is such a target, but it is not served now: the initiator may try again later.
    Offline,
    /// It is served elsewhere.
    Moved {
        /// Where, as TargetAddress without a portal group tag: `host:port`, IPv6 in brackets (13.8).
        address: String,
        /// Whether the old address will serve again.
        is_temporary: bool,
    },
}

/// A login that went through all negotiation and asks for its place in a session.
#[derive(Debug, Clone, Copy)]
pub struct SessionRequest<'a> {
    /// The kind of session.
    pub session_type: SessionType,
    /// The initiator.
    pub initiator: &'a IscsiName,
    /// The target; `None` in a discovery session.
    pub target: Option<&'a IscsiName>,
    /// What the initiator authenticated with, if it did.
    pub proved: Option<&'a Credentials>,
    /// Initiator Session ID.
    pub isid: Isid,
    /// 0 for a new session, otherwise the session to join.
    pub tsih: u16,
    /// Connection ID.
    pub cid: u16,
}

/// Where a login belongs (6.3.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SessionDecision {
    /// A new session: TSIH was 0, and there is none of this initiator, ISID and portal group.
    Start {
        /// Its TSIH, not 0.
        tsih: u16,
    },
    /// A new session in place of the one there is, whose tasks and connections end (6.3.5).
    Reinstate {
        /// Its TSIH, not 0.
        tsih: u16,
    },
    /// Another connection of the session that TSIH names; one of the same CID ends (6.3.4).
    Join {
        /// What the session has settled.
        session: SessionParams,
        /// ExpCmdSN of the session.
        exp_cmd_sn: u32,
        /// MaxCmdSN of the session.
        max_cmd_sn: u32,
    },
    /// No: who may use the target has changed since the login began.
    NotAuthorized,
    /// No: for example [`LoginStatus::SESSION_DOES_NOT_EXIST`], [`LoginStatus::TOO_MANY_CONNECTIONS`],
    /// [`LoginStatus::CANT_INCLUDE_IN_SESSION`] or [`LoginStatus::OUT_OF_RESOURCES`].
    Refuse(LoginStatus),
}

/// What a target's login must ask of the world. All calls return at once.
pub trait LoginEnv {
    /// Looks up the target that an initiator names.
    fn find_target(&mut self, name: &IscsiName) -> TargetLookup;

    /// What this initiator must prove before it may use the target; a target of `None` is discovery.
    /// Returns `None` if it may not use it, whatever it proves.
    fn authorize(
        &mut self,
        initiator: &IscsiName,
        target: Option<&IscsiName>,
    ) -> Option<AuthPolicy>;

    /// Finds the place of a login that is otherwise complete. Whatever this starts or ends is done by
    /// the caller when it gets the [`LoginOutcome`].
    fn session(&mut self, request: &SessionRequest<'_>) -> SessionDecision;

    /// Fills in unpredictable bytes, for challenges.
    fn random(&mut self, bytes: &mut [u8]);

    /// What challenges are made with: the same for all logins that could be told one another's.
    fn challenge_key(&self) -> &ChallengeKey;
}

/// What to do after a Login Request.
#[derive(Debug)]
pub enum LoginStep {
    /// Send this and wait for the next request.
    Respond {
        /// Header of the Login Response.
        bhs: [u8; BHS_LEN_BYTES],
        /// Its data segment, without padding.
        data: Vec<u8>,
    },
    /// Send this, then the connection is in full feature phase.
    Accept {
        /// Header of the Login Response.
        bhs: [u8; BHS_LEN_BYTES],
        /// Its data segment, without padding.
        data: Vec<u8>,
        /// What was settled.
        outcome: Box<LoginOutcome>,
    },
    /// Send this, then close the connection.
    Fail {
        /// Header of the Login Response.
        bhs: [u8; BHS_LEN_BYTES],
        /// Its data segment, without padding.
        data: Vec<u8>,
        /// Why, for the log.
        refusal: LoginRefusal,
    },
}

/// A login that succeeded, as the target sees it.
#[derive(Debug, Clone)]
pub struct LoginOutcome {
    /// The kind of session.
    pub session_type: SessionType,
    /// Where the connection belongs: a session to start, to reinstate or to join.
    pub decision: SessionDecision,
    /// The initiator.
    pub initiator_name: IscsiName,
    /// InitiatorAlias.
    pub initiator_alias: Option<String>,
    /// The CHAP user that authenticated.
    pub proved: Option<Arc<Credentials>>,
    /// The target; `None` in a discovery session.
    pub target_name: Option<IscsiName>,
    /// Portal group through which the target was reached; 0 in a discovery session.
    pub portal_group_tag: u16,
    /// Initiator Session ID.
    pub isid: Isid,
    /// TSIH of the session.
    pub tsih: u16,
    /// Connection ID.
    pub cid: u16,
    /// What holds for this connection.
    pub connection: ConnectionParams,
    /// What holds for the session.
    pub session: SessionParams,
    /// ExpCmdSN that the last response announced: of a new session the first CmdSN.
    pub exp_cmd_sn: u32,
    /// MaxCmdSN that the last response announced.
    pub max_cmd_sn: u32,
    /// The next StatSN of this connection.
    pub next_stat_sn: u32,
}

impl LoginOutcome {
    /// The name of the CHAP user that authenticated.
    #[must_use]
    pub fn chap_user(&self) -> Option<&str> {
        self.proved.as_deref().map(Credentials::user)
    }
}

/// Who wants what, as the initiator of a login says: all of it is still to be proved. For the record of a
/// login that is refused.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LoginClaim {
    /// InitiatorName.
    pub initiator: Option<IscsiName>,
    /// TargetName.
    pub target: Option<IscsiName>,
    /// CHAP_N.
    pub chap_user: Option<String>,
}

/// The value of a key in a text.
fn value_of<'a>(pairs: &[Pair<'a>], key: &str) -> Option<&'a str> {
    pairs.iter().find(|pair| pair.key == key).map(|pair| pair.value)
}

//! From a portal's address to a connection in full feature phase.

mod connect;

use std::io;

pub(crate) use connect::{answer_within, can_connect};

use iscsi::chap::Algorithm;
use iscsi::discovery::PortalAddress;
use iscsi::framing::{FrameError, FrameHeader, FrameLimits};
use iscsi::login::{
    InitiatorConfig, InitiatorError, InitiatorLogin, InitiatorOutcome, InitiatorStep, LoginPdu,
};
use iscsi::pdu::{BHS_LEN_BYTES, Bhs, Isid, LoginStatus, padded_len_bytes};
use iscsi::text::IscsiName;
use ring::{SendBatch, Stream};

use crate::address::show;
use crate::options::{SessionOptions, random};

/// Redirections that one login follows: a group redirects once, and once more if it moves meanwhile.
const REDIRECTIONS_MAX: usize = 4;

/// The tag of all our Login Requests: nothing else is under way then.
const LOGIN_TAG: u32 = 0;

/// The CmdSN that our sessions begin with. All connections of a session log in before its first
/// command, so it is that of each login.
pub(crate) const FIRST_CMD_SN: u32 = 1;

/// Why there is no session.
#[derive(Debug, thiserror::Error)]
pub enum LoginError {
    /// No TCP connection.
    #[error("cannot connect to {portal}: {source}")]
    Connect {
        /// Where to.
        portal: String,
        /// What the system says.
        source: io::Error,
    },
    /// The connection broke.
    #[error("the connection to {portal} broke during login: {source}")]
    Io {
        /// Where to.
        portal: String,
        /// What the system says.
        source: io::Error,
    },
    /// Refused by the target, or a target that breaks the protocol.
    #[error("login at {portal}: {source}")]
    Refused {
        /// Where.
        portal: String,
        /// Why.
        source: InitiatorError,
    },
    /// What came is no PDU of a login.
    #[error("login at {portal}: {source}")]
    Frame {
        /// Where.
        portal: String,
        /// Why.
        source: FrameError,
    },
    /// A redirection that leads nowhere.
    #[error("{portal} redirects to {address:?}, which is no address")]
    Address {
        /// Who says so.
        portal: String,
        /// TargetAddress as received.
        address: String,
    },
    /// Redirected again and again.
    #[error("{portal} redirects, as {REDIRECTIONS_MAX} portals before it did")]
    TooManyRedirections {
        /// The last one.
        portal: String,
    },
    /// Another portal group than the session's: a login there does not end what is left of it.
    #[error("{portal} belongs to another portal group")]
    AnotherGroup {
        /// Where.
        portal: String,
    },
    /// No end within the time allowed.
    #[error("{portal} did not finish the login in time")]
    TimedOut {
        /// Where.
        portal: String,
    },
}

impl LoginError {
    /// Whether our proof was not accepted; some targets say no more than "initiator error".
    fn is_authentication(&self) -> bool {
        let Self::Refused { source: InitiatorError::Refused(status), .. } = self else {
            return false;
        };
        matches!(*status, LoginStatus::AUTHENTICATION_FAILURE | LoginStatus::INITIATOR_ERROR)
    }

    /// Whether trying again is of no use until somebody changes a setting (status class 2). A target
    /// that is not found may just not be there yet.
    #[must_use]
    pub fn is_final(&self) -> bool {
        match self {
            Self::Refused { source: InitiatorError::Refused(status), .. } => {
                status.class() == 2 && *status != LoginStatus::NOT_FOUND
            }
            Self::Refused { source, .. } => {
                matches!(source, InitiatorError::Authentication | InitiatorError::TargetNotProved)
            }
            _ => false,
        }
    }
}

/// A connection in full feature phase.
#[derive(Debug)]
pub(crate) struct LoggedIn {
    pub(crate) stream: Stream,
    pub(crate) outcome: InitiatorOutcome,
    /// Where redirections ended.
    pub(crate) portal: PortalAddress,
    /// What came behind the last Login Response.
    pub(crate) early: Vec<u8>,
}

/// Who logs in, and as what.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Role<'a> {
    /// The target; `None` for discovery.
    pub(crate) target: Option<&'a IscsiName>,
    pub(crate) isid: Isid,
    /// The session that the connection joins; 0 for a new one.
    pub(crate) tsih: u16,
    /// Its number in the session.
    pub(crate) cid: u16,
}

impl<'a> Role<'a> {
    /// The first connection of a session, or the only one of a discovery session.
    pub(crate) fn first(target: Option<&'a IscsiName>, isid: Isid) -> Self {
        Self { target, isid, tsih: 0, cid: 0 }
    }
}

/// Logs in at `portal` and follows redirections.
pub(crate) async fn log_in(
    portal: &PortalAddress,
    role: Role<'_>,
    options: &SessionOptions,
) -> Result<LoggedIn, LoginError> {
    let attempt = async {
        let result = follow(portal, role, options).await;
        match (&result, md5_only(options)) {
            (Err(error), Some(plain)) if error.is_authentication() => {
                follow(portal, role, &plain).await
            }
            _ => result,
        }
    };
    match ring::timeout(options.login_timeout, attempt).await {
        Some(result) => result,
        None => Err(LoginError::TimedOut { portal: show(portal) }),
    }
}

/// The same, offering MD5 alone; `None` if that is no other offer. Some targets choose an algorithm
/// that they get wrong: tgtd 1.0.85 takes no SHA-256 response. It gives nothing away, for whoever
/// sits in between could have chosen MD5 from the longer list as well.
fn md5_only(options: &SessionOptions) -> Option<SessionOptions> {
    let chap = options.chap.as_ref()?;
    let algorithms = chap.algorithms();
    if algorithms.len() < 2 || !algorithms.contains(&Algorithm::Md5) {
        return None;
    }
    let chap = chap.clone().with_algorithms(&[Algorithm::Md5]);
    Some(SessionOptions { chap: Some(chap), ..options.clone() })
}

async fn follow(
    portal: &PortalAddress,
    role: Role<'_>,
    options: &SessionOptions,
) -> Result<LoggedIn, LoginError> {
    let mut portal = portal.clone();
    for _ in 0..=REDIRECTIONS_MAX {
        match attempt(&portal, role, options).await? {
            Attempt::Done(logged_in) => return Ok(*logged_in),
            Attempt::Redirect(address) => {
                let place = address.parse();
                portal =
                    place.map_err(|_| LoginError::Address { portal: show(&portal), address })?;
            }
        }
    }
    Err(LoginError::TooManyRedirections { portal: show(&portal) })
}

enum Attempt {
    Done(Box<LoggedIn>),
    Redirect(String),
}

async fn attempt(
    portal: &PortalAddress,
    role: Role<'_>,
    options: &SessionOptions,
) -> Result<Attempt, LoginError> {
    let refused = |source| LoginError::Refused { portal: show(portal), source };
    let stream = connect::connect(portal, options)
        .await
        .map_err(|source| LoginError::Connect { portal: show(portal), source })?;
    let mut login = InitiatorLogin::new(InitiatorConfig {
        initiator_name: options.initiator_name.clone(),
        initiator_alias: None,
        target_name: role.target.cloned(),
        isid: role.isid,
        tsih: role.tsih,
        cid: role.cid,
        itt: LOGIN_TAG,
        cmd_sn: FIRST_CMD_SN,
        limits: options.limits,
        chap: options.chap.clone(),
    });
    let mut wire = Wire { portal, stream, received: Vec::new() };
    let mut request = login.start();
    loop {
        wire.send(&request).await?;
        let (bhs, text) = wire.receive().await?;
        match login.on_response(&bhs, &text, &mut random).map_err(refused)? {
            InitiatorStep::Send(next) => request = next,
            InitiatorStep::Redirect { address, .. } => return Ok(Attempt::Redirect(address)),
            InitiatorStep::Done(outcome) => {
                return Ok(Attempt::Done(Box::new(LoggedIn {
                    stream: wire.stream,
                    outcome: *outcome,
                    portal: portal.clone(),
                    early: wire.received,
                })));
            }
        }
    }
}

/// A connection during login: one PDU at a time, no digests (RFC 7143 7.1).
struct Wire<'a> {
    portal: &'a PortalAddress,
    stream: Stream,
    received: Vec<u8>,
}

impl Wire<'_> {
    fn broke(&self, source: io::Error) -> LoginError {
        LoginError::Io { portal: show(self.portal), source }
    }

    async fn send(&self, pdu: &LoginPdu) -> Result<(), LoginError> {
        let mut batch = SendBatch::new();
        batch.push_bytes(&pdu.bhs);
        batch.push_bytes(&pdu.data);
        batch.push_bytes(&[0; 3][..padded_len_bytes(pdu.data.len()) - pdu.data.len()]);
        self.stream.send(batch).await.1.map_err(|source| self.broke(source))
    }

    async fn receive(&mut self) -> Result<(Bhs, Vec<u8>), LoginError> {
        let bad_frame = |source| LoginError::Frame { portal: show(self.portal), source };
        self.fill(BHS_LEN_BYTES).await?;
        let bhs = *Bhs::from_prefix(&self.received).expect("that many bytes are there");
        let frame = FrameHeader::new(&bhs, &FrameLimits::LOGIN).map_err(bad_frame)?;
        self.fill(frame.total_len_bytes()).await?;
        let start = frame.header_len_bytes();
        let text = self.received[start..start + frame.data_len_bytes()].to_vec();
        self.received.drain(..frame.total_len_bytes());
        Ok((bhs, text))
    }

    async fn fill(&mut self, len_bytes: usize) -> Result<(), LoginError> {
        while self.received.len() < len_bytes {
            let chunk = self.stream.recv().await.map_err(|source| self.broke(source))?;
            if chunk.is_empty() {
                return Err(self.broke(io::ErrorKind::UnexpectedEof.into()));
            }
            self.received.extend_from_slice(&chunk);
        }
        Ok(())
    }
}

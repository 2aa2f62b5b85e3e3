//! The exchange of login PDUs over a socket (RFC 7143 §6.3).

use std::net::SocketAddr;
use std::sync::Arc;

use iscsi::framing::{FrameError, FrameHeader, FrameLimits};
use iscsi::login::{
    LoginClaim, LoginOutcome, LoginRefusal, LoginStep, TargetLogin, TargetLoginConfig,
};
use iscsi::params::{DigestPolicy, LocalLimits};
use iscsi::pdu::{BHS_LEN_BYTES, Bhs, padded_len_bytes};
use ring::{SendBatch, Stream};

use super::env::{Env, Room};
use crate::datamover::Ends;
use crate::memory;
use crate::session;
use crate::shared::Shared;

/// Why there was no login.
pub(super) enum Failed {
    /// The connection broke.
    Io,
    /// What came was no login PDU.
    Frame(FrameError),
    /// The login was refused, and the initiator told so.
    Refused(LoginRefusal, LoginClaim),
}

impl From<std::io::Error> for Failed {
    fn from(_: std::io::Error) -> Self {
        Self::Io
    }
}

/// A login that has been accepted; its last response has not been sent yet.
pub(super) struct Accepted {
    pub(super) outcome: LoginOutcome,
    pub(super) header: [u8; BHS_LEN_BYTES],
    pub(super) data: Vec<u8>,
    /// What came behind the last request.
    pub(super) rest: Vec<u8>,
}

/// Answers login requests until one is accepted or refused.
pub(super) async fn run(
    shared: &Arc<Shared>,
    stream: &Stream,
    ends: Ends,
    room: Room,
) -> Result<Accepted, Failed> {
    let usual = LocalLimits::default();
    let others = session::sessions().len();
    let first_burst_len_bytes = memory::first_burst_bytes(others, usual.first_burst_len_bytes);
    let digest = match shared.limits.must_digest {
        true => DigestPolicy::Require,
        false => usual.header_digest,
    };
    let limits =
        LocalLimits { first_burst_len_bytes, header_digest: digest, data_digest: digest, ..usual };
    let mut machine = TargetLogin::new(TargetLoginConfig {
        limits,
        first_stat_sn: 1,
        command_window: shared.limits.queue_depth,
    });
    let mut received = Vec::new();
    loop {
        let frame = receive(stream, &mut received).await?;
        let bhs = *Bhs::from_prefix(&received).expect("a whole PDU was received");
        let head = frame.header_len_bytes();
        let text = received[head..head + frame.data_len_bytes()].to_vec();
        received.drain(..frame.total_len_bytes());
        match machine.on_request(&bhs, &text, &mut Env::new(shared, ends, room)) {
            LoginStep::Respond { bhs, data } => send(stream, &bhs, &data).await?,
            LoginStep::Fail { bhs, data, refusal } => {
                send(stream, &bhs, &data).await?;
                return Err(Failed::Refused(refusal, machine.claim()));
            }
            LoginStep::Accept { bhs, data, outcome } => {
                let rest = received;
                return Ok(Accepted { outcome: *outcome, header: bhs, data, rest });
            }
        }
    }
}

/// Receives until a whole PDU is at the start of `received`.
async fn receive(stream: &Stream, received: &mut Vec<u8>) -> Result<FrameHeader, Failed> {
    loop {
        if let Some(bhs) = Bhs::from_prefix(received) {
            let frame = FrameHeader::new(bhs, &FrameLimits::LOGIN).map_err(Failed::Frame)?;
            if received.len() >= frame.total_len_bytes() {
                return Ok(frame);
            }
        }
        let chunk = stream.recv().await?;
        if chunk.is_empty() {
            return Err(Failed::Io);
        }
        received.extend_from_slice(&chunk);
    }
}

pub(super) async fn send(
    stream: &Stream,
    header: &[u8; BHS_LEN_BYTES],
    data: &[u8],
) -> Result<(), Failed> {
    let mut batch = SendBatch::new();
    batch.push_bytes(header);
    batch.push_bytes(data);
    batch.push_bytes(&[0; 3][..padded_len_bytes(data.len()) - data.len()]);
    let (_, result) = stream.send(batch).await;
    Ok(result?)
}

/// For the log.
pub(super) fn describe(outcome: &LoginOutcome, peer: SocketAddr) -> String {
    format!("{} at {peer}", outcome.initiator_name)
}

//! SendTargets in a discovery session (RFC 7143 4.3 and appendix C).

use iscsi::discovery::{
    DiscoveredTarget, InitiatorText, InitiatorTextError, InitiatorTextStep, PortalAddress, TextPdu,
    parse_records,
};
use iscsi::framing::{FrameError, FrameHeader, FrameLimits};
use iscsi::login::InitiatorOutcome;
use iscsi::params::LocalLimits;
use iscsi::pdu::{BHS_LEN_BYTES, Bhs, Opcode, TextRequest, TextResponse, padded_len_bytes};
use iscsi::text::{IscsiName, TextError, TextWriter};
use ring::{SendBatch, Stream};

use crate::login::{FIRST_CMD_SN, LoginError, Role, log_in};
use crate::options::{SessionOptions, random_isid};

/// Why discovery has no result.
#[derive(Debug, thiserror::Error)]
pub enum DiscoveryError {
    /// The login failed.
    #[error(transparent)]
    Login(#[from] LoginError),
    /// The connection broke.
    #[error("the connection broke during discovery: {0}")]
    Io(#[from] std::io::Error),
    /// What came is no PDU.
    #[error(transparent)]
    Frame(#[from] FrameError),
    /// What came is no answer.
    #[error(transparent)]
    Exchange(#[from] InitiatorTextError),
    /// The answer is no text.
    #[error(transparent)]
    Text(#[from] TextError),
    /// Another PDU than a Text Response.
    #[error("the target answered SendTargets with {0:?}")]
    Unexpected(Opcode),
    /// The session in which it was asked has no connection, has lost it, or may not ask.
    #[error("the session did not get an answer to SendTargets")]
    NotConnected,
    /// No end within the login time.
    #[error("the target did not finish the discovery in time")]
    TimedOut,
}

/// Asks a portal for all targets that we may see. A target without addresses is served where it was
/// asked for; that portal is then filled in.
///
/// # Errors
/// A [`DiscoveryError`].
pub async fn discover(
    portal: &PortalAddress,
    options: &SessionOptions,
) -> Result<Vec<DiscoveredTarget>, DiscoveryError> {
    send_targets(portal, "All", options).await
}

/// Asks a portal for the portals of one target, which costs a target with a thousand of them a
/// thousandth. None if the portal does not serve it, or not to us.
///
/// # Errors
/// A [`DiscoveryError`].
pub(crate) async fn portals_of(
    target: &IscsiName,
    portal: &PortalAddress,
    options: &SessionOptions,
) -> Result<Vec<PortalAddress>, DiscoveryError> {
    let found = send_targets(portal, target.as_str(), options).await?;
    let ours = found.into_iter().filter(|it| it.name == *target);
    Ok(ours.flat_map(|target| target.addresses).collect())
}

async fn send_targets(
    portal: &PortalAddress,
    which: &str,
    options: &SessionOptions,
) -> Result<Vec<DiscoveredTarget>, DiscoveryError> {
    let mut options = options.clone();
    // One question needs no digests, and its answer then has one shape.
    options.limits = LocalLimits {
        header_digest: iscsi::params::DigestPolicy::Refuse,
        data_digest: iscsi::params::DigestPolicy::Refuse,
        ..options.limits
    };
    let work = async {
        let logged_in = log_in(portal, Role::first(None, random_isid()), &options).await?;
        let exchange =
            Exchange { stream: logged_in.stream, received: logged_in.early, cmd_sn: FIRST_CMD_SN };
        let text = exchange.run(which, &logged_in.outcome).await?;
        let mut targets = parse_records(&text)?;
        for target in targets.iter_mut().filter(|target| target.addresses.is_empty()) {
            target.addresses.push(logged_in.portal.clone());
        }
        Ok(targets)
    };
    ring::timeout(options.login_timeout * 2, work).await.unwrap_or(Err(DiscoveryError::TimedOut))
}

struct Exchange {
    stream: Stream,
    received: Vec<u8>,
    cmd_sn: u32,
}

impl Exchange {
    async fn run(
        mut self,
        which: &str,
        outcome: &InitiatorOutcome,
    ) -> Result<Vec<u8>, DiscoveryError> {
        let mut request = TextWriter::new();
        request.push("SendTargets", which);
        let segment = outcome.connection.max_recv_data_segment_peer_bytes;
        let mut text = InitiatorText::new(request.into_bytes(), segment);
        let limits = FrameLimits::from(&outcome.connection);
        let mut exp_stat_sn = outcome.exp_stat_sn;
        let mut next = text.start();
        loop {
            self.send(&next, exp_stat_sn).await?;
            let (bhs, data) = self.receive(&limits).await?;
            let response =
                TextResponse::parse(&bhs).map_err(|_| DiscoveryError::Unexpected(bhs.opcode()))?;
            exp_stat_sn = response.stat_sn.wrapping_add(1);
            match text.on_response(&response, &data)? {
                InitiatorTextStep::Send(more) => next = more,
                InitiatorTextStep::Done(answer) => return Ok(answer),
            }
        }
    }

    async fn send(&mut self, pdu: &TextPdu, exp_stat_sn: u32) -> Result<(), DiscoveryError> {
        const TAG: u32 = 1;
        let request = TextRequest {
            is_immediate: true,
            is_final: pdu.is_final,
            is_continued: pdu.is_continued,
            data_segment_len_bytes: u32::try_from(pdu.data.len()).expect("a segment is short"),
            lun: pdu.lun,
            itt: TAG,
            ttt: pdu.ttt,
            cmd_sn: self.cmd_sn,
            exp_stat_sn,
        };
        let mut batch = SendBatch::new();
        batch.push_bytes(request.to_bhs().bytes());
        batch.push_bytes(&pdu.data);
        batch.push_bytes(&[0; 3][..padded_len_bytes(pdu.data.len()) - pdu.data.len()]);
        Ok(self.stream.send(batch).await.1?)
    }

    async fn receive(&mut self, limits: &FrameLimits) -> Result<(Bhs, Vec<u8>), DiscoveryError> {
        loop {
            self.fill(BHS_LEN_BYTES).await?;
            let bhs = *Bhs::from_prefix(&self.received).expect("that many bytes are there");
            let frame = FrameHeader::new(&bhs, limits)?;
            self.fill(frame.total_len_bytes()).await?;
            let start = frame.header_len_bytes();
            let data = self.received[start..start + frame.data_len_bytes()].to_vec();
            self.received.drain(..frame.total_len_bytes());
            // A ping in a session that lasts milliseconds needs no answer.
            if bhs.opcode() != Opcode::NOP_IN {
                return Ok((bhs, data));
            }
        }
    }

    async fn fill(&mut self, len_bytes: usize) -> Result<(), DiscoveryError> {
        while self.received.len() < len_bytes {
            let chunk = self.stream.recv().await?;
            if chunk.is_empty() {
                return Err(std::io::Error::from(std::io::ErrorKind::UnexpectedEof).into());
            }
            self.received.extend_from_slice(&chunk);
        }
        Ok(())
    }
}

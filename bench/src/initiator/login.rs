//! From a TCP connection to a session that may read and write.

use std::io::{Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::rc::Rc;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use iscsi::login::{InitiatorConfig, InitiatorLogin, InitiatorOutcome, InitiatorStep};
use iscsi::params::{DigestPolicy, LocalLimits};
use iscsi::pdu::{
    BHS_LEN_BYTES, Bhs, DataIn, LogoutReason, LogoutRequest, Opcode, ScsiCommand, ScsiResponse,
    TaskAttribute, padded_len_bytes, split_sense_segment,
};
use iscsi::text::IscsiName;

use super::wire::{IscsiWire, Start};
use super::{Route, Url};
use crate::load::{Io, Pattern, Peer, Plan};

/// Longest wait for any answer before the load begins.
const ANSWER_MAX: Duration = Duration::from_secs(10);
/// Longest wait for the answer to a logout; the run is over, so little depends on it.
const LOGOUT_MAX: Duration = Duration::from_secs(1);
/// Longest data segment that we take, declared at login.
const RECEIVE_SEGMENT_BYTES_MAX: u32 = 256 << 10;
/// A new session starts with unit attentions (SAM-5 5.14); more than these are a fault.
const UNIT_ATTENTIONS_MAX: usize = 16;

/// What the login settled about sending data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Limits {
    /// The target's MaxRecvDataSegmentLength (RFC 7143 13.12).
    pub(super) segment_bytes_max: u32,
    /// FirstBurstLength (13.14).
    pub(super) first_burst_bytes: u32,
    /// ImmediateData (13.11).
    pub(super) immediate_data: bool,
    /// InitialR2T (13.10).
    pub(super) initial_r2t: bool,
}

impl Default for Limits {
    /// What holds for keys that the target does not name.
    fn default() -> Self {
        Self {
            segment_bytes_max: 8192,
            first_burst_bytes: 65_536,
            immediate_data: true,
            initial_r2t: true,
        }
    }
}

impl Limits {
    /// How much of a write goes with the command, and how much in all goes before any R2T.
    pub(super) fn first_burst(&self, io: &Io) -> (u32, u32) {
        if io.read {
            return (0, 0);
        }
        let burst = io.len.min(self.first_burst_bytes);
        let immediate = if self.immediate_data { burst.min(self.segment_bytes_max) } else { 0 };
        (immediate, if self.initial_r2t { immediate } else { burst })
    }

    fn of(outcome: &InitiatorOutcome) -> Result<Self> {
        // Segments end on four bytes, so that only the last of a sequence may need padding.
        let segment_bytes_max = outcome.connection.max_recv_data_segment_peer_bytes & !3;
        ensure!(segment_bytes_max >= 512, "MaxRecvDataSegmentLength is below 512");
        Ok(Self {
            segment_bytes_max,
            first_burst_bytes: outcome.session.first_burst_len_bytes,
            immediate_data: outcome.session.immediate_data,
            initial_r2t: outcome.session.initial_r2t,
        })
    }
}

/// A session in its full feature phase, and what its disk looks like.
#[derive(Debug)]
pub(crate) struct Session {
    socket: TcpStream,
    pub(super) start: Start,
    /// Logical blocks of the disk.
    pub(crate) blocks: u64,
}

impl Session {
    /// Hands the session to the load engine.
    pub(super) fn into_peer(self, plan: &Plan, pattern: &Rc<Pattern>) -> Peer<IscsiWire> {
        let verify = plan.verify.then(|| Rc::clone(pattern));
        let wire = IscsiWire::new(self.start, plan.depth, verify);
        Peer { socket: self.socket, wire }
    }

    /// Hands the session over to sit idle: it answers pings and does nothing else.
    pub(crate) fn into_idle(self) -> Peer<IscsiWire> {
        let wire = IscsiWire::new(self.start, 0, None);
        Peer { socket: self.socket, wire }
    }
}

/// Connects, logs in (no authentication, no digests), and waits until the disk is ready.
/// `index` makes the session differ from others of this process.
///
/// # Errors
/// Says in one sentence what the target did not do.
pub(crate) fn connect(route: &Route, index: u32) -> Result<Session> {
    let url = &route.url;
    let socket = open(route)?;
    let mut session = Session {
        socket,
        start: Start {
            // Single-level peripheral addressing: the LUN is the second of the eight bytes.
            lun: u64::from(url.lun) << 48,
            cmd_sn: 1,
            max_cmd_sn: 1,
            ..Start::default()
        },
        blocks: 0,
    };
    session.login(url, index).with_context(|| format!("login to {url}"))?;
    session.wait_ready().with_context(|| format!("TEST UNIT READY on {url}"))?;
    session.read_capacity().with_context(|| format!("READ CAPACITY on {url}"))?;
    Ok(session)
}

fn open(route: &Route) -> Result<TcpStream> {
    let url = &route.url;
    let address = (url.host.as_str(), url.port)
        .to_socket_addrs()
        .with_context(|| format!("{}: no such host", url.host))?
        .next()
        .with_context(|| format!("{}: no address", url.host))?;
    let socket = TcpStream::connect_timeout(&address, ANSWER_MAX)
        .with_context(|| format!("connect to {address}"))?;
    socket.set_nodelay(true)?;
    socket.set_read_timeout(Some(ANSWER_MAX))?;
    socket.set_write_timeout(Some(ANSWER_MAX))?;
    if let Some(congestion) = &route.congestion {
        rustix::net::sockopt::set_tcp_congestion(&socket, congestion)
            .with_context(|| format!("congestion control {congestion}"))?;
    }
    Ok(socket)
}

/// Logs out if the target still listens; a run is not spoiled by a target that does not.
pub(super) fn logout(mut peer: Peer<IscsiWire>) {
    let (cmd_sn, exp_stat_sn) = peer.wire.numbers();
    let request = LogoutRequest {
        is_immediate: true,
        reason: LogoutReason::CLOSE_SESSION,
        itt: u32::MAX - 1,
        cid: 0,
        cmd_sn,
        exp_stat_sn,
    };
    let socket = &mut peer.socket;
    let asked = socket
        .set_nonblocking(false)
        .and_then(|()| socket.set_read_timeout(Some(LOGOUT_MAX)))
        .and_then(|()| socket.write_all(request.to_bhs().bytes()));
    if asked.is_ok() {
        // Whatever comes, answer or end of stream, the connection is closed next.
        let _ = socket.read(&mut [0; BHS_LEN_BYTES]);
    }
}

/// What every session asks for: no authentication, no digests, one connection, and the bursts that
/// targets of all ages agree to.
fn config(url: &Url, index: u32) -> Result<InitiatorConfig> {
    let name = format!("iqn.2026-11.dev.drystone:bench-{}", std::process::id());
    Ok(InitiatorConfig {
        initiator_name: IscsiName::parse(&name)?,
        initiator_alias: None,
        target_name: Some(IscsiName::parse(&url.iqn)?),
        isid: isid(index),
        tsih: 0,
        cid: 0,
        itt: 0,
        cmd_sn: 1,
        limits: LocalLimits {
            header_digest: DigestPolicy::Refuse,
            data_digest: DigestPolicy::Refuse,
            max_recv_data_segment_len_bytes: RECEIVE_SEGMENT_BYTES_MAX,
            max_burst_len_bytes: 256 << 10,
            first_burst_len_bytes: 64 << 10,
            max_outstanding_r2t: 1,
            max_connections: 1,
            protocol_level: 1,
            ..LocalLimits::default()
        },
        chap: None,
    })
}

impl Session {
    fn login(&mut self, url: &Url, index: u32) -> Result<()> {
        let mut machine = InitiatorLogin::new(config(url, index)?);
        let mut request = machine.start();
        loop {
            self.send(&Bhs::new(request.bhs), &request.data)?;
            let (bhs, text) = self.receive()?;
            // Without CHAP there is no challenge to be drawn.
            let mut random = |_: &mut [u8]| {};
            match machine.on_response(&bhs, &text, &mut random)? {
                InitiatorStep::Send(next) => request = next,
                InitiatorStep::Redirect { address, .. } => bail!("the target is at {address}"),
                InitiatorStep::Done(outcome) => {
                    self.start.limits = Limits::of(&outcome)?;
                    self.start.exp_stat_sn = outcome.exp_stat_sn;
                    self.start.max_cmd_sn = outcome.max_cmd_sn;
                    return Ok(());
                }
            }
        }
    }

    fn wait_ready(&mut self) -> Result<()> {
        let mut last = String::new();
        for _ in 0..UNIT_ATTENTIONS_MAX {
            match self.command([0; 16], 0) {
                Ok(_) => return Ok(()),
                Err(error) => last = format!("{error:#}"),
            }
        }
        bail!("still not ready: {last}")
    }

    /// READ CAPACITY (16) (SBC-4 5.21).
    fn read_capacity(&mut self) -> Result<()> {
        let mut cdb = [0; 16];
        (cdb[0], cdb[1], cdb[13]) = (0x9e, 0x10, 32);
        let data = self.command(cdb, 32)?;
        let (Some(last), Some(block)) = (
            data.first_chunk::<8>().map(|bytes| u64::from_be_bytes(*bytes)),
            data.get(8..12).and_then(|bytes| bytes.first_chunk::<4>()),
        ) else {
            bail!("the answer has only {} bytes", data.len());
        };
        self.start.block_bytes = u32::from_be_bytes(*block);
        ensure!(
            self.start.block_bytes.is_power_of_two(),
            "blocks of {} bytes",
            self.start.block_bytes
        );
        self.blocks = last + 1;
        Ok(())
    }

    /// Runs one command that sends no data, and returns what it read.
    fn command(&mut self, cdb: [u8; 16], read_bytes: u32) -> Result<Vec<u8>> {
        let request = ScsiCommand {
            is_immediate: false,
            is_final: true,
            is_read: read_bytes > 0,
            is_write: false,
            attribute: TaskAttribute::SIMPLE,
            total_ahs_words: 0,
            data_segment_len_bytes: 0,
            lun: self.start.lun,
            itt: 0,
            expected_data_transfer_len_bytes: read_bytes,
            cmd_sn: self.start.cmd_sn,
            exp_stat_sn: self.start.exp_stat_sn,
            cdb,
        };
        self.start.cmd_sn = self.start.cmd_sn.wrapping_add(1);
        self.send(&request.to_bhs(), &[])?;
        let mut read = Vec::new();
        loop {
            let (bhs, data) = self.receive()?;
            self.start.max_cmd_sn = bhs.max_cmd_sn();
            match bhs.opcode() {
                Opcode::DATA_IN => {
                    let pdu = DataIn::parse(&bhs)?;
                    read.extend_from_slice(&data);
                    ensure!(read.len() <= read_bytes as usize, "more data than was asked for");
                    if pdu.has_status {
                        self.start.exp_stat_sn = pdu.stat_sn.wrapping_add(1);
                        ensure!(pdu.status == 0, "SCSI status {:#04x}", pdu.status);
                        return Ok(read);
                    }
                }
                Opcode::SCSI_RESPONSE => {
                    let pdu = ScsiResponse::parse(&bhs)?;
                    self.start.exp_stat_sn = pdu.stat_sn.wrapping_add(1);
                    if pdu.status == 0 {
                        return Ok(read);
                    }
                    let (sense, _) = split_sense_segment(&data)?;
                    let (key, asc, ascq) = sense_codes(sense);
                    bail!("SCSI status {:#04x}, sense {key:#x}/{asc:02x}/{ascq:02x}", pdu.status);
                }
                // Pings and messages may come at any time; none needs an answer this early.
                Opcode::NOP_IN | Opcode::ASYNC_MESSAGE => {}
                other => bail!("unexpected {other:?} PDU"),
            }
        }
    }

    fn send(&mut self, bhs: &Bhs, data: &[u8]) -> Result<()> {
        let mut bytes = bhs.bytes().to_vec();
        bytes.extend_from_slice(data);
        bytes.resize(padded_len_bytes(bytes.len()), 0);
        self.socket.write_all(&bytes).context("send")
    }

    fn receive(&mut self) -> Result<(Bhs, Vec<u8>)> {
        let mut head = [0; BHS_LEN_BYTES];
        self.socket.read_exact(&mut head).context("no answer")?;
        let bhs = Bhs::new(head);
        let ahs = bhs.total_ahs_len_bytes();
        let len = bhs.data_segment_len_bytes();
        ensure!(len <= RECEIVE_SEGMENT_BYTES_MAX as usize, "a data segment of {len} bytes");
        let mut data = vec![0; ahs + padded_len_bytes(len)];
        self.socket.read_exact(&mut data).context("no data")?;
        data.drain(..ahs);
        data.truncate(len);
        Ok((bhs, data))
    }
}

/// An ISID of the "random" type (RFC 7143 11.12.5): unique by process and session.
fn isid(index: u32) -> [u8; 6] {
    let process = std::process::id().to_be_bytes();
    let index = index.to_be_bytes();
    [0x80, process[2], process[3], index[1], index[2], index[3]]
}

/// Sense key, ASC and ASCQ of fixed or descriptor sense data (SPC-5 4.4).
pub(super) fn sense_codes(sense: &[u8]) -> (u8, u8, u8) {
    let byte = |at: usize| sense.get(at).copied().unwrap_or(0);
    match byte(0) & 0x7f {
        0x72 | 0x73 => (byte(1) & 0xf, byte(2), byte(3)),
        _ => (byte(2) & 0xf, byte(12), byte(13)),
    }
}

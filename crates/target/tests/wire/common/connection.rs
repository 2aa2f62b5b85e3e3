//! PDUs over a socket, with digests, and with faults where a test wants them.

use std::collections::HashMap;
use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use iscsi::digest::digest;
use iscsi::framing::{FrameHeader, FrameLimits};
use iscsi::login::InitiatorOutcome;
use iscsi::params::{ConnectionParams, SessionParams};
use iscsi::pdu::{BHS_LEN_BYTES, Bhs, DataIn, Opcode, R2t, RESERVED_TAG, padded_len_bytes};

use super::PATIENCE;
use super::login::before_login;

/// A PDU as it came.
#[derive(Clone, Debug)]
pub(crate) struct Pdu {
    pub(crate) bhs: Bhs,
    pub(crate) data: Vec<u8>,
}

impl Pdu {
    pub(crate) fn opcode(&self) -> Opcode {
        self.bhs.opcode()
    }
}

/// What came within a time.
#[derive(Debug)]
pub(crate) enum Got {
    Pdu(Pdu),
    Closed,
    Nothing,
}

/// Which part of a PDU to send broken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Broken {
    Nothing,
    HeaderDigest,
    DataDigest,
}

/// One connection as an initiator has it. Reading checks what must hold for every PDU of a target:
/// digests, the segment length that was declared, StatSN without gaps, MaxCmdSN that never goes
/// back.
pub(crate) struct Connection {
    stream: TcpStream,
    received: Vec<u8>,
    pub(crate) params: ConnectionParams,
    pub(crate) session: SessionParams,
    pub(crate) tsih: u16,
    pub(crate) cid: u16,
    pub(crate) cmd_sn: Arc<AtomicU32>,
    pub(crate) exp_stat_sn: u32,
    pub(crate) exp_cmd_sn: u32,
    pub(crate) max_cmd_sn: u32,
    pub(crate) next_itt: u32,
    in_full_feature: bool,
    /// PDUs that came while another was waited for.
    pub(super) parked: Vec<Pdu>,
    /// Data of writes under way, sent as R2Ts ask for it.
    pub(super) outgoing: HashMap<u32, Vec<u8>>,
}

impl Connection {
    /// A connection that has not logged in.
    pub(crate) fn over(stream: TcpStream, cmd_sn: Arc<AtomicU32>) -> Self {
        stream.set_nodelay(true).unwrap();
        stream.set_write_timeout(Some(PATIENCE)).unwrap();
        Self {
            stream,
            received: Vec::new(),
            params: before_login(),
            session: SessionParams::default(),
            tsih: 0,
            cid: 0,
            cmd_sn,
            exp_stat_sn: 0,
            exp_cmd_sn: 0,
            max_cmd_sn: 0,
            next_itt: 1,
            in_full_feature: false,
            parked: Vec::new(),
            outgoing: HashMap::new(),
        }
    }

    pub(super) fn enter_full_feature(&mut self, outcome: &InitiatorOutcome, cid: u16) {
        self.params = outcome.connection;
        self.session = outcome.session;
        self.tsih = outcome.tsih;
        self.cid = cid;
        self.exp_stat_sn = outcome.exp_stat_sn;
        self.exp_cmd_sn = outcome.exp_cmd_sn;
        self.max_cmd_sn = outcome.max_cmd_sn;
        // Tags must differ between the connections of a session.
        self.next_itt = u32::from(cid) << 16 | 1;
        self.in_full_feature = true;
    }

    pub(crate) fn socket(&self) -> &TcpStream {
        &self.stream
    }

    /// The CmdSN that the next numbered request will have.
    pub(crate) fn next_cmd_sn(&self) -> u32 {
        self.cmd_sn.load(Ordering::Relaxed)
    }

    pub(crate) fn take_cmd_sn(&self) -> u32 {
        self.cmd_sn.fetch_add(1, Ordering::Relaxed)
    }

    pub(crate) fn new_itt(&mut self) -> u32 {
        self.next_itt += 1;
        self.next_itt
    }

    /// Sends a PDU whole.
    pub(crate) fn send(&mut self, bhs: &Bhs, data: &[u8]) {
        self.send_raw(bhs.bytes(), &[], data);
    }

    pub(crate) fn send_raw(&mut self, bhs: &[u8; BHS_LEN_BYTES], ahs: &[u8], data: &[u8]) {
        let bytes = self.frame(bhs, ahs, data, Broken::Nothing);
        self.send_bytes(&bytes);
    }

    pub(crate) fn send_broken(&mut self, bhs: &Bhs, data: &[u8], broken: Broken) {
        let bytes = self.frame(bhs.bytes(), &[], data, broken);
        self.send_bytes(&bytes);
    }

    /// The bytes of a PDU on this connection.
    pub(crate) fn frame(
        &self,
        bhs: &[u8; BHS_LEN_BYTES],
        ahs: &[u8],
        data: &[u8],
        broken: Broken,
    ) -> Vec<u8> {
        let mut bytes = bhs.to_vec();
        bytes[4] = u8::try_from(ahs.len() / 4).unwrap();
        bytes[5..8].copy_from_slice(&u32::try_from(data.len()).unwrap().to_be_bytes()[1..]);
        bytes.extend_from_slice(ahs);
        if self.params.header_digest {
            let mut crc = digest(&bytes);
            crc[0] ^= u8::from(broken == Broken::HeaderDigest);
            bytes.extend_from_slice(&crc);
        }
        if !data.is_empty() {
            let mut segment = data.to_vec();
            segment.resize(padded_len_bytes(data.len()), 0);
            let mut crc = digest(&segment);
            crc[0] ^= u8::from(broken == Broken::DataDigest);
            bytes.append(&mut segment);
            if self.params.data_digest {
                bytes.extend_from_slice(&crc);
            }
        }
        bytes
    }

    pub(crate) fn send_bytes(&mut self, bytes: &[u8]) {
        self.try_send_bytes(bytes).unwrap();
    }

    /// The target may have closed the connection already.
    pub(crate) fn try_send_bytes(&mut self, bytes: &[u8]) -> std::io::Result<()> {
        self.stream.write_all(bytes)
    }

    pub(crate) fn close(&self) {
        self.stream.shutdown(Shutdown::Both).ok();
    }

    #[track_caller]
    pub(crate) fn receive(&mut self) -> Pdu {
        match self.try_receive(PATIENCE) {
            Got::Pdu(pdu) => pdu,
            other => panic!("wanted a PDU: {other:?}"),
        }
    }

    /// The next PDU of this opcode; others are kept for those who want them.
    #[track_caller]
    pub(crate) fn receive_kind(&mut self, opcode: Opcode) -> Pdu {
        self.receive_where(|pdu| pdu.opcode() == opcode)
    }

    #[track_caller]
    pub(crate) fn receive_where(&mut self, wanted: impl Fn(&Pdu) -> bool) -> Pdu {
        if let Some(at) = self.parked.iter().position(&wanted) {
            return self.parked.remove(at);
        }
        loop {
            let pdu = self.receive();
            if wanted(&pdu) {
                return pdu;
            }
            // Data that others may wait for is not kept back.
            match R2t::parse(&pdu.bhs) {
                Ok(r2t) if self.outgoing.contains_key(&r2t.itt) => self.answer_r2t(&r2t),
                _ => self.parked.push(pdu),
            }
        }
    }

    /// What has come meanwhile for other commands.
    pub(crate) fn parked(&self) -> &[Pdu] {
        &self.parked
    }

    /// Nothing has come for this tag, beyond what was taken.
    #[track_caller]
    pub(crate) fn expect_no_answer(&self, itt: u32) {
        let answer = self.parked.iter().find(|pdu| pdu.bhs.itt() == itt);
        assert!(answer.is_none(), "wanted no answer: {answer:?}");
    }

    #[track_caller]
    pub(crate) fn expect_closed(&mut self) {
        loop {
            match self.try_receive(PATIENCE) {
                Got::Pdu(_) => {}
                Got::Closed => return,
                Got::Nothing => panic!("the target keeps the connection open"),
            }
        }
    }

    /// Nothing comes for a moment.
    #[track_caller]
    pub(crate) fn expect_silence(&mut self, time: Duration) {
        match self.try_receive(time) {
            Got::Nothing => {}
            other => panic!("wanted silence: {other:?}"),
        }
    }

    pub(crate) fn try_receive(&mut self, time: Duration) -> Got {
        let deadline = Instant::now() + time;
        loop {
            if let Some(pdu) = self.take_pdu() {
                return Got::Pdu(pdu);
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Got::Nothing;
            }
            self.stream.set_read_timeout(Some(left)).unwrap();
            let mut chunk = [0; 64 << 10];
            match self.stream.read(&mut chunk) {
                Ok(0) => return Got::Closed,
                Ok(len) => self.received.extend_from_slice(&chunk[..len]),
                Err(error)
                    if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) =>
                {
                    return Got::Nothing;
                }
                Err(_) => return Got::Closed,
            }
        }
    }

    fn take_pdu(&mut self) -> Option<Pdu> {
        let bhs = *Bhs::from_prefix(&self.received)?;
        let limits = FrameLimits::from(&self.params);
        let frame = FrameHeader::new(&bhs, &limits).expect("the target keeps to our limits");
        if self.received.len() < frame.total_len_bytes() {
            return None;
        }
        let bytes: Vec<u8> = self.received.drain(..frame.total_len_bytes()).collect();
        let (head, payload) = bytes.split_at(frame.header_len_bytes());
        frame.verify_header(head).expect("the target's header digest holds");
        frame.verify_payload(payload).expect("the target's data digest holds");
        if self.in_full_feature {
            self.check_numbers(&bhs);
        }
        Some(Pdu { bhs, data: payload[..frame.data_len_bytes()].to_vec() })
    }

    /// StatSN counts what carries status, and MaxCmdSN never goes back (RFC 7143 §4.2.2).
    fn check_numbers(&mut self, bhs: &Bhs) {
        let takes_stat_sn = match bhs.opcode() {
            Opcode::DATA_IN => DataIn::parse(bhs).unwrap().has_status,
            Opcode::R2T => false,
            Opcode::NOP_IN => bhs.itt() != RESERVED_TAG,
            _ => true,
        };
        if takes_stat_sn {
            assert_eq!(bhs.stat_sn(), self.exp_stat_sn, "StatSN of {bhs:?}");
            self.exp_stat_sn = self.exp_stat_sn.wrapping_add(1);
        }
        let ahead = |new: u32, old: u32| (new.wrapping_sub(old) as i32) >= 0;
        assert!(ahead(bhs.exp_cmd_sn(), self.exp_cmd_sn), "ExpCmdSN went back: {bhs:?}");
        assert!(ahead(bhs.max_cmd_sn(), self.max_cmd_sn), "MaxCmdSN went back: {bhs:?}");
        let room = bhs.max_cmd_sn().wrapping_sub(bhs.exp_cmd_sn()).wrapping_add(1);
        assert!(room < 0x8000_0000, "MaxCmdSN is behind ExpCmdSN - 1: {bhs:?}");
        self.exp_cmd_sn = bhs.exp_cmd_sn();
        self.max_cmd_sn = bhs.max_cmd_sn();
    }
}

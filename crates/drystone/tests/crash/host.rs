//! A small blocking initiator: commands with immediate data, several under way.

use iscsi::chap::InitiatorChap;
use iscsi::login::{InitiatorConfig, InitiatorLogin, InitiatorOutcome, InitiatorStep};
use iscsi::params::{DigestPolicy, LocalLimits};
use iscsi::pdu::{
    BHS_LEN_BYTES, Bhs, DataIn, NopIn, NopOut, Opcode, RESERVED_TAG, ScsiCommand, ScsiResponse,
    TaskAttribute, padded_len_bytes, split_sense_segment,
};
use iscsi::text::IscsiName;
use scsi::{Sense, SenseKey, Status};
use std::collections::HashMap;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// The name that a host has unless it is given another.
const NAME: &str = "iqn.2026-11.dev.drystone:crash-test";

/// How long an answer may take on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// A session of one connection. Any error of its socket means that the target is gone.
#[derive(Debug)]
pub(crate) struct Host {
    socket: TcpStream,
    cmd_sn: u32,
    exp_stat_sn: u32,
    next_itt: u32,
    /// Data-In that has come for commands under way.
    data_in: HashMap<u32, Vec<u8>>,
}

/// How a command ended.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) itt: u32,
    pub(crate) status: Status,
    pub(crate) sense: Option<Sense>,
    pub(crate) data: Vec<u8>,
}

impl Answer {
    pub(crate) fn is_good(&self) -> bool {
        self.status == Status::Good
    }

    /// Nothing was done; the same command may be sent again.
    pub(crate) fn is_to_repeat(&self) -> bool {
        matches!(self.status, Status::Busy | Status::TaskSetFull)
            || self.key() == Some(SenseKey::UnitAttention)
    }

    pub(crate) fn key(&self) -> Option<SenseKey> {
        self.sense.as_ref().map(|sense| sense.key)
    }
}

impl Host {
    /// Logs in as initiator port `number`, and hears what each of `luns` has to tell first.
    pub(crate) fn log_in(
        portal: SocketAddr,
        iqn: &str,
        number: u8,
        luns: &[u8],
    ) -> io::Result<Self> {
        Self::log_in_as(portal, iqn, number, luns, (NAME, None))
    }

    /// The same by a name, and with what it proves to be, if anything.
    pub(crate) fn log_in_as(
        portal: SocketAddr,
        iqn: &str,
        number: u8,
        luns: &[u8],
        who: (&str, Option<InitiatorChap>),
    ) -> io::Result<Self> {
        let socket = TcpStream::connect(portal)?;
        socket.set_nodelay(true)?;
        socket.set_read_timeout(Some(PATIENCE))?;
        socket.set_write_timeout(Some(PATIENCE))?;
        let mut host =
            Self { socket, cmd_sn: 1, exp_stat_sn: 0, next_itt: 0, data_in: HashMap::new() };
        host.negotiate(iqn, number, who)?;
        for lun in luns {
            let ready = host.run(*lun, &[0; 6], 0, &[])?;
            assert!(ready.is_good(), "LUN {lun} is not ready: {ready:?}");
        }
        Ok(host)
    }

    fn negotiate(
        &mut self,
        iqn: &str,
        number: u8,
        (initiator, chap): (&str, Option<InitiatorChap>),
    ) -> io::Result<()> {
        let name = |text: &str| IscsiName::parse(text).expect("a sound name");
        let limits = LocalLimits {
            header_digest: DigestPolicy::Refuse,
            data_digest: DigestPolicy::Refuse,
            ..LocalLimits::default()
        };
        let mut login = InitiatorLogin::new(InitiatorConfig {
            initiator_name: name(initiator),
            initiator_alias: None,
            target_name: Some(name(iqn)),
            isid: [0x80, 0, 0, 0, 0, number],
            tsih: 0,
            cid: 0,
            itt: 0,
            cmd_sn: self.cmd_sn,
            limits,
            chap,
        });
        let mut pdu = login.start();
        loop {
            self.send(&Bhs::new(pdu.bhs), &pdu.data)?;
            let (bhs, data) = self.receive()?;
            match login.on_response(&bhs, &data, &mut |bytes| bytes.fill(7)) {
                Ok(InitiatorStep::Send(next)) => pdu = next,
                Ok(InitiatorStep::Done(outcome)) => {
                    let InitiatorOutcome { exp_cmd_sn, exp_stat_sn, .. } = *outcome;
                    (self.cmd_sn, self.exp_stat_sn) = (exp_cmd_sn, exp_stat_sn);
                    return Ok(());
                }
                Ok(InitiatorStep::Redirect { address, .. }) => {
                    return Err(io::Error::other(format!("redirected to {address}")));
                }
                Err(error) => return Err(io::Error::other(error.to_string())),
            }
        }
    }

    /// Runs one command to its end, again while the target asks for that.
    pub(crate) fn run(
        &mut self,
        lun: u8,
        cdb: &[u8],
        read_bytes: u32,
        data_out: &[u8],
    ) -> io::Result<Answer> {
        loop {
            self.start(lun, cdb, read_bytes, data_out)?;
            let answer = self.finish()?;
            if !answer.is_to_repeat() {
                return Ok(answer);
            }
        }
    }

    /// Sends a command with all of its data; returns its tag.
    pub(crate) fn start(
        &mut self,
        lun: u8,
        cdb: &[u8],
        read_bytes: u32,
        data_out: &[u8],
    ) -> io::Result<u32> {
        let itt = self.next_itt;
        self.next_itt = (itt + 1) % RESERVED_TAG;
        let mut padded = [0; 16];
        padded[..cdb.len()].copy_from_slice(cdb);
        let write_bytes = data_out.len() as u32;
        let command = ScsiCommand {
            is_immediate: false,
            is_final: true,
            is_read: read_bytes > 0,
            is_write: write_bytes > 0,
            attribute: TaskAttribute::SIMPLE,
            total_ahs_words: 0,
            data_segment_len_bytes: write_bytes,
            lun: u64::from(lun) << 48,
            itt,
            expected_data_transfer_len_bytes: read_bytes.max(write_bytes),
            cmd_sn: self.cmd_sn,
            exp_stat_sn: self.exp_stat_sn,
            cdb: padded,
        };
        self.cmd_sn = self.cmd_sn.wrapping_add(1);
        self.send(&command.to_bhs(), data_out)?;
        Ok(itt)
    }

    /// Waits for the end of any command under way.
    pub(crate) fn finish(&mut self) -> io::Result<Answer> {
        loop {
            let (bhs, data) = self.receive()?;
            let opcode = bhs.opcode();
            if opcode == Opcode::DATA_IN {
                let pdu = DataIn::parse(&bhs).expect("a Data-In PDU");
                self.data_in.entry(pdu.itt).or_default().extend(data);
                if pdu.has_status {
                    return Ok(self.ended(&bhs, pdu.status, &[]));
                }
            } else if opcode == Opcode::SCSI_RESPONSE {
                let pdu = ScsiResponse::parse(&bhs).expect("a SCSI Response PDU");
                return Ok(self.ended(&bhs, pdu.status, &data));
            } else if opcode == Opcode::NOP_IN {
                self.pong(&bhs, &data)?;
            } else if opcode == Opcode::ASYNC_MESSAGE {
                return Err(io::Error::other("the target is about to end the session"));
            } else {
                panic!("unexpected {bhs:?}");
            }
        }
    }

    fn ended(&mut self, bhs: &Bhs, status: u8, data: &[u8]) -> Answer {
        self.exp_stat_sn = bhs.stat_sn().wrapping_add(1);
        let (sense, _) = split_sense_segment(data).expect("a whole sense segment");
        Answer {
            itt: bhs.itt(),
            status: Status::from_code(status).expect("a status"),
            sense: Sense::parse(sense).ok(),
            data: self.data_in.remove(&bhs.itt()).unwrap_or_default(),
        }
    }

    fn pong(&mut self, bhs: &Bhs, data: &[u8]) -> io::Result<()> {
        let ping = NopIn::parse(bhs).expect("a NOP-In PDU");
        if ping.ttt == RESERVED_TAG {
            return Ok(());
        }
        let pong = NopOut {
            is_immediate: true,
            data_segment_len_bytes: data.len() as u32,
            lun: ping.lun,
            itt: RESERVED_TAG,
            ttt: ping.ttt,
            cmd_sn: self.cmd_sn,
            exp_stat_sn: self.exp_stat_sn,
        };
        self.send(&pong.to_bhs(), data)
    }

    fn send(&mut self, bhs: &Bhs, data: &[u8]) -> io::Result<()> {
        let mut bytes = [&bhs.bytes()[..], data].concat();
        bytes.resize(padded_len_bytes(bytes.len()), 0);
        self.socket.write_all(&bytes)
    }

    fn receive(&mut self) -> io::Result<(Bhs, Vec<u8>)> {
        let mut header = [0; BHS_LEN_BYTES];
        self.socket.read_exact(&mut header)?;
        let bhs = Bhs::new(header);
        let mut data = vec![0; padded_len_bytes(bhs.data_segment_len_bytes())];
        self.socket.read_exact(&mut data)?;
        data.truncate(bhs.data_segment_len_bytes());
        Ok((bhs, data))
    }
}

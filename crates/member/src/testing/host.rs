//! A host over the wire: it logs in, and sends one command after the other.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use iscsi::login::{InitiatorConfig, InitiatorError, InitiatorLogin, InitiatorStep};
use iscsi::params::LocalLimits;
use iscsi::pdu::{
    BHS_LEN_BYTES, Bhs, LoginStatus, Opcode, ScsiCommand, ScsiResponse, TaskAttribute,
    padded_len_bytes,
};
use iscsi::text::IscsiName;

/// Longer than anything takes that a test waits for.
const PATIENCE: Duration = Duration::from_secs(60);

/// The status CONDITION of a unit attention, which a host hears of once (SAM-5 §5.3.1).
const CHECK_CONDITION: u8 = 2;

/// A session of one connection.
pub(crate) struct Host {
    stream: TcpStream,
    cmd_sn: u32,
    exp_stat_sn: u32,
    next_itt: u32,
}

impl Host {
    /// Logs in to a target, and takes its unit attentions.
    ///
    /// # Errors
    /// How the login was refused.
    pub(crate) fn log_in(
        portal: SocketAddr,
        name: &str,
        target: &str,
    ) -> Result<Self, LoginStatus> {
        let parsed = |name: &str| IscsiName::parse(name).expect("a name");
        let stream = TcpStream::connect_timeout(&portal, PATIENCE).expect("a portal");
        stream.set_read_timeout(Some(PATIENCE)).expect("it can be set");
        let mut host = Self { stream, cmd_sn: 1, exp_stat_sn: 0, next_itt: 1 };
        let mut machine = InitiatorLogin::new(InitiatorConfig {
            initiator_name: parsed(name),
            initiator_alias: None,
            target_name: Some(parsed(target)),
            isid: [0x80, 0, 0, 1, 0, 0],
            tsih: 0,
            cid: 0,
            itt: 0,
            cmd_sn: host.cmd_sn,
            limits: LocalLimits::default(),
            chap: None,
        });
        let mut request = machine.start();
        loop {
            host.send(&request.bhs, &request.data);
            let (bhs, data) = host.receive().expect("an answer to a login");
            match machine.on_response(&bhs, &data, &mut |bytes| bytes.fill(7)) {
                Ok(InitiatorStep::Send(next)) => request = next,
                Ok(InitiatorStep::Done(outcome)) => {
                    host.exp_stat_sn = outcome.exp_stat_sn;
                    break;
                }
                Ok(InitiatorStep::Redirect { .. }) => return Err(LoginStatus::MOVED_TEMPORARILY),
                Err(InitiatorError::Refused(status)) => return Err(status),
                other => panic!("in the course of a login: {other:?}"),
            }
        }
        while host.test() == Some(CHECK_CONDITION) {}
        Ok(host)
    }

    /// TEST UNIT READY. The status, or `None` if the connection is over.
    pub(crate) fn test(&mut self) -> Option<u8> {
        self.issue(&[0; 6], &[]);
        self.answer()
    }

    /// REGISTER of PERSISTENT RESERVE OUT, to outlive a loss of power (SPC-5 §6.16). Does not wait for its end.
    pub(crate) fn register(&mut self, key: u64) {
        self.register_with(key, 1);
    }

    /// The same, until the next loss of power.
    pub(crate) fn register_for_now(&mut self, key: u64) {
        self.register_with(key, 0);
    }

    fn register_with(&mut self, key: u64, flags: u8) {
        let mut list = [0; 24];
        list[8..16].copy_from_slice(&key.to_be_bytes());
        list[20] = flags;
        self.issue(&[0x5f, 0, 0, 0, 0, 0, 0, 0, 24, 0], &list);
    }

    /// RESERVE of the type Exclusive Access with a key that is registered. Does not wait for its end.
    pub(crate) fn reserve(&mut self, key: u64) {
        let mut list = [0; 24];
        list[..8].copy_from_slice(&key.to_be_bytes());
        self.issue(&[0x5f, 1, 3, 0, 0, 0, 0, 0, 24, 0], &list);
    }

    /// Writes the first block. The status, but for a unit attention, or `None` if the connection is over.
    pub(crate) fn write(&mut self) -> Option<u8> {
        loop {
            self.issue(&[0x2a, 0, 0, 0, 0, 0, 0, 0, 1, 0], &[7; 512]);
            match self.answer() {
                Some(CHECK_CONDITION) => {}
                other => return other,
            }
        }
    }

    fn issue(&mut self, cdb: &[u8], writes: &[u8]) {
        let mut padded = [0; 16];
        padded[..cdb.len()].copy_from_slice(cdb);
        self.next_itt += 1;
        let len_bytes = u32::try_from(writes.len()).expect("a short list");
        let command = ScsiCommand {
            is_immediate: false,
            is_final: true,
            is_read: false,
            is_write: !writes.is_empty(),
            attribute: TaskAttribute::SIMPLE,
            total_ahs_words: 0,
            data_segment_len_bytes: len_bytes,
            lun: 0,
            itt: self.next_itt,
            expected_data_transfer_len_bytes: len_bytes,
            cmd_sn: self.cmd_sn,
            exp_stat_sn: self.exp_stat_sn,
            cdb: padded,
        };
        self.cmd_sn += 1;
        self.send(command.to_bhs().bytes(), writes);
    }

    /// How the command ends that was sent last; `None` if the connection does first.
    pub(crate) fn answer(&mut self) -> Option<u8> {
        loop {
            let (bhs, _) = self.receive()?;
            if bhs.opcode() == Opcode::SCSI_RESPONSE && bhs.itt() == self.next_itt {
                self.exp_stat_sn = bhs.stat_sn().wrapping_add(1);
                return Some(ScsiResponse::parse(&bhs).expect("a response").status);
            }
        }
    }

    /// What was sent to a connection that is over is lost.
    fn send(&mut self, bhs: &[u8; BHS_LEN_BYTES], data: &[u8]) {
        let mut bytes = bhs.to_vec();
        let len_bytes = u32::try_from(data.len()).expect("a short segment").to_be_bytes();
        bytes[5..8].copy_from_slice(&len_bytes[1..]);
        bytes.extend_from_slice(data);
        bytes.resize(BHS_LEN_BYTES + padded_len_bytes(data.len()), 0);
        drop(self.stream.write_all(&bytes));
    }

    fn receive(&mut self) -> Option<(Bhs, Vec<u8>)> {
        let mut head = [0; BHS_LEN_BYTES];
        self.stream.read_exact(&mut head).ok()?;
        let len_bytes = u32::from_be_bytes([0, head[5], head[6], head[7]]) as usize;
        let mut data = vec![0; padded_len_bytes(len_bytes)];
        self.stream.read_exact(&mut data).ok()?;
        data.truncate(len_bytes);
        Some((*Bhs::from_prefix(&head)?, data))
    }
}

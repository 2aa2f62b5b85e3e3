//! iSCSI's full feature phase as a load client needs it: reads and writes, R2Ts, pings.

use std::rc::Rc;

use anyhow::{Result, bail};
use iscsi::pdu::{
    Bhs, DataIn, DataOut, NopIn, NopOut, Opcode, R2t, RESERVED_TAG, ScsiCommand, ScsiResponse,
    ServiceResponse, TaskAttribute, padded_len_bytes, split_sense_segment,
};

use super::login::Limits;
use crate::load::{Completion, Frame, Frames, Io, Output, Pattern, Wire};

/// Sense data that is kept to say what went wrong.
const SENSE_BYTES_MAX: usize = 256;

/// What the payload now arriving is, and what its end means.
#[derive(Debug)]
enum Arriving {
    /// Nothing that matters.
    Ignored,
    /// Data of a read.
    Data { tag: u32, offset: usize, end: Option<Status> },
    /// Sense data of a command that failed.
    Sense { tag: u32, status: Status, bytes: Vec<u8> },
}

/// How a command ended.
#[derive(Debug, Clone, Copy)]
struct Status {
    scsi: u8,
    service: ServiceResponse,
    residual: bool,
}

/// Where a login left a connection: what it settled, and the numbers to go on with.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Start {
    pub(super) limits: Limits,
    /// The eight bytes of the LUN.
    pub(super) lun: u64,
    pub(super) cmd_sn: u32,
    pub(super) exp_stat_sn: u32,
    pub(super) max_cmd_sn: u32,
    /// Bytes of a logical block.
    pub(super) block_bytes: u32,
}

/// One connection in its full feature phase.
#[derive(Debug)]
pub(crate) struct IscsiWire {
    now: Start,
    frames: Frames,
    arriving: Arriving,
    /// Bytes of a read that have come, by tag; and whether one of them was wrong.
    received: Vec<u32>,
    corrupt: Vec<bool>,
    verify: Option<Rc<Pattern>>,
}

impl IscsiWire {
    /// A connection that a login has brought this far. `depth` tags are in use; with `verify` reads
    /// are compared with the pattern.
    pub(super) fn new(start: Start, depth: u32, verify: Option<Rc<Pattern>>) -> Self {
        Self {
            now: start,
            frames: Frames::default(),
            arriving: Arriving::Ignored,
            received: vec![0; depth as usize],
            corrupt: vec![false; depth as usize],
            verify,
        }
    }

    /// The numbers that the next request must carry: CmdSN and ExpStatSN.
    pub(super) fn numbers(&self) -> (u32, u32) {
        (self.now.cmd_sn, self.now.exp_stat_sn)
    }

    fn head(
        &mut self,
        bhs: &Bhs,
        ios: &[Io],
        out: &mut Output,
        done: &mut Vec<Completion>,
    ) -> Result<()> {
        let len = bhs.data_segment_len_bytes();
        self.frames.expect_payload(bhs.total_ahs_len_bytes() + padded_len_bytes(len));
        self.arriving = Arriving::Ignored;
        // RFC 7143 4.2.2.1: MaxCmdSN only moves forward, by serial number arithmetic.
        if (bhs.max_cmd_sn().wrapping_sub(self.now.max_cmd_sn) as i32) > 0 {
            self.now.max_cmd_sn = bhs.max_cmd_sn();
        }
        match bhs.opcode() {
            Opcode::DATA_IN => self.data_in(bhs, done)?,
            Opcode::SCSI_RESPONSE => self.response(bhs, done)?,
            Opcode::R2T => self.answer_r2t(bhs, ios, out)?,
            Opcode::NOP_IN => self.answer_ping(bhs, out)?,
            Opcode::ASYNC_MESSAGE => self.now.exp_stat_sn = bhs.stat_sn().wrapping_add(1),
            other => bail!("unexpected {other:?} PDU"),
        }
        Ok(())
    }

    fn data_in(&mut self, bhs: &Bhs, done: &mut Vec<Completion>) -> Result<()> {
        let pdu = DataIn::parse(bhs)?;
        let end = pdu.has_status.then(|| {
            self.now.exp_stat_sn = pdu.stat_sn.wrapping_add(1);
            Status {
                scsi: pdu.status,
                service: ServiceResponse::COMPLETED,
                residual: pdu.is_overflow || pdu.is_underflow,
            }
        });
        match (pdu.data_segment_len_bytes, end) {
            (0, Some(status)) => self.complete(pdu.itt, status, None, done),
            (0, None) => {}
            (_, end) => {
                let offset = pdu.buffer_offset_bytes as usize;
                self.arriving = Arriving::Data { tag: pdu.itt, offset, end };
            }
        }
        Ok(())
    }

    fn response(&mut self, bhs: &Bhs, done: &mut Vec<Completion>) -> Result<()> {
        let pdu = ScsiResponse::parse(bhs)?;
        self.now.exp_stat_sn = pdu.stat_sn.wrapping_add(1);
        let status = Status {
            scsi: pdu.status,
            service: pdu.response,
            residual: pdu.is_overflow || pdu.is_underflow,
        };
        if pdu.data_segment_len_bytes == 0 {
            self.complete(pdu.itt, status, None, done);
        } else {
            self.arriving = Arriving::Sense { tag: pdu.itt, status, bytes: Vec::new() };
        }
        Ok(())
    }

    fn answer_r2t(&self, bhs: &Bhs, ios: &[Io], out: &mut Output) -> Result<()> {
        let pdu = R2t::parse(bhs)?;
        let Some(io) = ios.get(pdu.itt as usize) else {
            bail!("R2T for a command never sent: {}", pdu.itt);
        };
        let (from, len) = (pdu.buffer_offset_bytes, pdu.desired_data_transfer_len_bytes);
        if from.checked_add(len).is_none_or(|end| end > io.len) || io.read {
            bail!("R2T for {len} bytes at {from} of a command of {} bytes", io.len);
        }
        self.data_out(pdu.itt, pdu.ttt, io, from..from + len, out);
        Ok(())
    }

    /// Queues one sequence of Data-Out PDUs (RFC 7143 11.7).
    fn data_out(
        &self,
        itt: u32,
        ttt: u32,
        io: &Io,
        mut range: std::ops::Range<u32>,
        out: &mut Output,
    ) {
        let mut data_sn = 0;
        while !range.is_empty() {
            let len = (range.end - range.start).min(self.now.limits.segment_bytes_max);
            let pdu = DataOut {
                is_final: range.start + len == range.end,
                data_segment_len_bytes: len,
                lun: self.now.lun,
                itt,
                ttt,
                exp_stat_sn: self.now.exp_stat_sn,
                data_sn,
                buffer_offset_bytes: range.start,
            };
            out.push_head(pdu.to_bhs().bytes());
            push_payload(io, range.start, len, out);
            range.start += len;
            data_sn += 1;
        }
    }

    fn answer_ping(&mut self, bhs: &Bhs, out: &mut Output) -> Result<()> {
        let ping = NopIn::parse(bhs)?;
        if ping.ttt == RESERVED_TAG {
            return Ok(());
        }
        let pong = NopOut {
            is_immediate: true,
            data_segment_len_bytes: 0,
            lun: ping.lun,
            itt: RESERVED_TAG,
            ttt: ping.ttt,
            cmd_sn: self.now.cmd_sn,
            exp_stat_sn: self.now.exp_stat_sn,
        };
        out.push_head(pong.to_bhs().bytes());
        Ok(())
    }

    fn payload(
        &mut self,
        bytes: &[u8],
        last: bool,
        ios: &[Io],
        done: &mut Vec<Completion>,
    ) -> Result<()> {
        match &mut self.arriving {
            Arriving::Ignored => {}
            Arriving::Data { tag, offset, end } => {
                let (tag, at, end) = (*tag, *offset, *end);
                *offset += bytes.len();
                let Some((io, received)) =
                    ios.get(tag as usize).zip(self.received.get_mut(tag as usize))
                else {
                    bail!("data for a command never sent: {tag}");
                };
                *received = received.saturating_add(bytes.len() as u32);
                if let Some(pattern) = &self.verify
                    && !pattern.matches(io.at, at, bytes)
                {
                    self.corrupt[tag as usize] = true;
                }
                if let (true, Some(status)) = (last, end) {
                    self.complete(tag, status, Some(io), done);
                }
            }
            Arriving::Sense { tag, status, bytes: sense } => {
                let room = SENSE_BYTES_MAX - sense.len();
                sense.extend_from_slice(&bytes[..bytes.len().min(room)]);
                if last {
                    let (tag, status) = (*tag, *status);
                    let failure = describe(status, sense);
                    self.forget(tag);
                    done.push(Completion { tag, failure: Some(failure) });
                }
            }
        }
        Ok(())
    }

    fn forget(&mut self, tag: u32) {
        if let Some(received) = self.received.get_mut(tag as usize) {
            *received = 0;
            self.corrupt[tag as usize] = false;
        }
    }

    /// `read` is the I/O when data came, whose amount is then checked.
    fn complete(
        &mut self,
        tag: u32,
        status: Status,
        read: Option<&Io>,
        done: &mut Vec<Completion>,
    ) {
        let slot = tag as usize;
        let received = self.received.get(slot).copied().unwrap_or(0);
        let failure = if status.scsi != 0 || status.service != ServiceResponse::COMPLETED {
            Some(describe(status, &[]))
        } else if status.residual {
            Some("a residual where there should be none".to_owned())
        } else if let Some(io) = read.filter(|io| io.len != received) {
            Some(format!("{received} bytes came of a read of {}", io.len))
        } else if self.corrupt.get(slot).copied().unwrap_or(false) {
            Some("the data read is not the data written".to_owned())
        } else {
            None
        };
        self.forget(tag);
        done.push(Completion { tag, failure });
    }
}

impl Wire for IscsiWire {
    fn room(&self) -> u32 {
        // The window holds CmdSN to MaxCmdSN, both included; a closed one has MaxCmdSN = CmdSN - 1.
        let room = self.now.max_cmd_sn.wrapping_sub(self.now.cmd_sn).wrapping_add(1);
        if room > u32::MAX / 2 { 0 } else { room }
    }

    fn submit(&mut self, tag: u32, io: &Io, out: &mut Output) {
        let (immediate, unsolicited) = self.now.limits.first_burst(io);
        let pdu = ScsiCommand {
            is_immediate: false,
            is_final: unsolicited == immediate,
            is_read: io.read,
            is_write: !io.read,
            attribute: TaskAttribute::SIMPLE,
            total_ahs_words: 0,
            data_segment_len_bytes: immediate,
            lun: self.now.lun,
            itt: tag,
            expected_data_transfer_len_bytes: io.len,
            cmd_sn: self.now.cmd_sn,
            exp_stat_sn: self.now.exp_stat_sn,
            cdb: cdb(io, self.now.block_bytes),
        };
        self.now.cmd_sn = self.now.cmd_sn.wrapping_add(1);
        out.push_head(pdu.to_bhs().bytes());
        push_payload(io, 0, immediate, out);
        self.data_out(tag, RESERVED_TAG, io, immediate..unsolicited, out);
    }

    fn receive(
        &mut self,
        mut bytes: &[u8],
        ios: &[Io],
        out: &mut Output,
        done: &mut Vec<Completion>,
    ) -> Result<()> {
        while let Some(frame) = self.frames.next(&mut bytes) {
            match frame {
                Frame::Head(head) => self.head(Bhs::from_ref(&head), ios, out, done)?,
                Frame::Payload { bytes, last } => self.payload(bytes, last, ios, done)?,
            }
        }
        Ok(())
    }
}

/// READ or WRITE, with 10 bytes where the address fits and 16 where not (SBC-4 5.16, 5.18, 5.40,
/// 5.42).
fn cdb(io: &Io, block_bytes: u32) -> [u8; 16] {
    let lba = io.at / u64::from(block_bytes);
    let blocks = io.len / block_bytes;
    let mut cdb = [0; 16];
    if let (Ok(lba), Ok(blocks)) = (u32::try_from(lba), u16::try_from(blocks)) {
        cdb[0] = if io.read { 0x28 } else { 0x2a };
        cdb[2..6].copy_from_slice(&lba.to_be_bytes());
        cdb[7..9].copy_from_slice(&blocks.to_be_bytes());
    } else {
        cdb[0] = if io.read { 0x88 } else { 0x8a };
        cdb[2..10].copy_from_slice(&lba.to_be_bytes());
        cdb[10..14].copy_from_slice(&blocks.to_be_bytes());
    }
    cdb
}

/// Payload of a write, by reference into the pattern, padded to four bytes.
fn push_payload(io: &Io, offset: u32, len: u32, out: &mut Output) {
    out.push_table(Pattern::range(io.at, offset as usize, len as usize));
    let padding = padded_len_bytes(len as usize) - len as usize;
    if padding > 0 {
        out.push_head(&[0; 4][..padding]);
    }
}

fn describe(status: Status, segment: &[u8]) -> String {
    if status.service != ServiceResponse::COMPLETED {
        return format!("target failure ({:?})", status.service);
    }
    let mut text = format!("SCSI status {:#04x}", status.scsi);
    if let Ok((sense, _)) = split_sense_segment(segment)
        && !sense.is_empty()
    {
        let (key, asc, ascq) = super::login::sense_codes(sense);
        text.push_str(&format!(", sense {key:#x}/{asc:02x}/{ascq:02x}"));
    }
    text
}

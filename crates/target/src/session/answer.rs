//! How a command answers: status, sense, data and exact residuals.

use std::rc::Rc;

use block::{BlockError, stable};
use iscsi::ffp::DataInPlan;
use iscsi::pdu::{
    BHS_LEN_BYTES, DataIn, RESERVED_TAG, ScsiCommand, ScsiResponse, ServiceResponse,
    ahs::CommandAhs,
};
use ring::Data;
use scsi::{Sense, Status};

use super::Connection;
use crate::outcome::Outcome;

/// Lengths that the initiator expects (RFC 7143 §11.3.4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Expected {
    /// Bytes it has room for.
    pub(crate) read: u32,
    /// Bytes it has to send.
    pub(crate) write: u32,
}

impl Expected {
    pub(crate) fn of(pdu: &ScsiCommand, ahs: &CommandAhs<'_>) -> Self {
        let edtl = pdu.expected_data_transfer_len_bytes;
        match (pdu.is_read, pdu.is_write) {
            (true, true) => {
                Self { read: ahs.bidirectional_read_len_bytes.unwrap_or(0), write: edtl }
            }
            (true, false) => Self { read: edtl, write: 0 },
            (false, true) => Self { read: 0, write: edtl },
            // EDTL without a direction: nothing can move, all of it is residual.
            (false, false) => Self { read: 0, write: 0 },
        }
    }
}

/// What a command needs to answer, wherever and whenever it ends.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) conn: Rc<Connection>,
    pub(crate) itt: u32,
    pub(crate) lun: u64,
    pub(crate) expected: Expected,
    /// EDTL as it stands in the PDU: what residuals refer to.
    pub(crate) announced: u32,
    /// It holds a place in the command window.
    pub(crate) numbered: bool,
}

impl Answer {
    /// Ends the command in the command window, before its response is stamped.
    pub(crate) fn release(&self) {
        if self.numbered {
            self.conn.session.release_window(&self.conn.owner);
        }
    }

    /// Data that may be sent by reference. A data digest is taken before the bytes leave, so they
    /// must not change in between.
    #[inline]
    pub(crate) fn sendable(&self, data: Data) -> Result<Data, BlockError> {
        if self.conn.params().data_digest { stable(data) } else { Ok(data) }
    }

    /// A plan for `available` bytes of Data-In, cut to what the initiator has room for.
    #[inline]
    pub(crate) fn plan(&self, available: usize) -> DataInPlan {
        let total = available.min(self.expected.read as usize) as u32;
        let segment = self.conn.params().max_recv_data_segment_peer_bytes;
        DataInPlan::new(total, segment, self.conn.session.params.max_burst_len_bytes)
    }

    /// Sends the next `data` of a read that goes on. The last part does not carry the status;
    /// [`Answer::status`] follows.
    pub(crate) fn stream(&self, plan: &mut DataInPlan, data: &Data) {
        let mut at = 0;
        while let Some(part) = plan.next_part((data.len() - at) as u32) {
            let mut header = self.data_in_header(part.data_sn, part.offset);
            header.is_final = part.final_in_burst;
            header.data_segment_len_bytes = part.len;
            let len = part.len as usize;
            self.conn.mover.put_data(&header, data.slice(at..at + len));
            at += len;
        }
    }

    /// Sends all data of a read that succeeded, with the status in the last PDU (RFC 7143
    /// §11.7.3). The window must have been released.
    #[inline]
    pub(crate) fn data_and_good(&self, data: Data) {
        let total = data.len();
        let mut plan = self.plan(total);
        let mut data = data;
        let mut sent = 0;
        while let Some(part) = plan.next_part((total - sent) as u32) {
            let mut header = self.data_in_header(part.data_sn, part.offset);
            header.is_final = part.final_in_burst;
            header.data_segment_len_bytes = part.len;
            if part.last {
                self.finish_header(&mut header, total as u64);
                return self.conn.mover.put_data(&header, data.into_slice(0..part.len as usize));
            }
            let len = part.len as usize;
            self.conn.mover.put_data(&header, data.slice(0..len));
            let left = data.len();
            data = data.into_slice(len..left);
            sent += len;
        }
        self.status(Status::Good, None, total as u64, 0);
    }

    /// Sends parameter data and GOOD.
    pub(crate) fn parameters_and_good(&self, bytes: &[u8]) {
        let mut plan = self.plan(bytes.len());
        let mut pushed = false;
        while let Some(part) = plan.next_part(u32::MAX) {
            let mut header = self.data_in_header(part.data_sn, part.offset);
            header.is_final = part.final_in_burst;
            header.data_segment_len_bytes = part.len;
            if part.last {
                self.finish_header(&mut header, bytes.len() as u64);
                pushed = true;
            }
            let mut bhs = [0; BHS_LEN_BYTES];
            header.emit(&mut bhs);
            let from = part.offset as usize;
            self.conn.mover.send_control(&bhs, &bytes[from..from + part.len as usize]);
        }
        if !pushed {
            self.status(Status::Good, None, bytes.len() as u64, 0);
        }
    }

    /// Sends a SCSI Response. `moved` is what the command would have moved: the residual is its
    /// difference to what was announced. `data_pdus` went before it.
    pub(crate) fn status(&self, status: Status, sense: Option<Sense>, moved: u64, data_pdus: u32) {
        let mut segment = Vec::new();
        if let Some(sense) = sense {
            let descriptor = self.descriptor_sense();
            iscsi::pdu::sense_segment(&sense.to_bytes(descriptor), &mut segment);
        }
        let stamp = self.conn.stamp();
        let response = ScsiResponse {
            is_bidirectional_overflow: false,
            is_bidirectional_underflow: false,
            is_overflow: false,
            is_underflow: false,
            response: ServiceResponse::COMPLETED,
            status: status.code(),
            data_segment_len_bytes: segment.len() as u32,
            itt: self.itt,
            snack_tag: 0,
            stat_sn: stamp.stat_sn,
            exp_cmd_sn: stamp.exp_cmd_sn,
            max_cmd_sn: stamp.max_cmd_sn,
            exp_data_sn: data_pdus,
            bidirectional_residual_bytes: 0,
            residual_bytes: 0,
        }
        .with_residual(self.announced, moved);
        let mut bhs = [0; BHS_LEN_BYTES];
        response.emit(&mut bhs);
        self.conn.mover.send_control(&bhs, &segment);
    }

    /// Sends CHECK CONDITION; nothing was moved.
    pub(crate) fn check(&self, sense: Sense) {
        self.status(Status::CheckCondition, Some(sense), 0, 0);
    }

    /// Sends the response of a command that has left the window.
    pub(crate) fn send(&self, outcome: Outcome) {
        match outcome {
            Outcome::Good { moved } => self.status(Status::Good, None, moved, 0),
            Outcome::Parameters(bytes) => self.parameters_and_good(&bytes),
            Outcome::Data(data) => self.data_and_good(data),
            Outcome::Streamed { pdus, moved } => self.status(Status::Good, None, moved, pdus),
            Outcome::Check(sense) => self.check(sense),
            Outcome::Short { sense, moved } => {
                self.status(Status::CheckCondition, Some(sense), moved, 0);
            }
            Outcome::Status(status) => self.status(status, None, 0, 0),
            Outcome::Aborted => {}
        }
    }

    fn descriptor_sense(&self) -> bool {
        let place = self.conn.session.unit(self.lun);
        place.is_some_and(|place| place.unit.logical.descriptor_sense())
    }

    #[inline]
    fn data_in_header(&self, data_sn: u32, offset: u32) -> DataIn {
        let stamp = self.conn.peek_stamp();
        DataIn {
            is_final: false,
            is_ack_wanted: false,
            is_overflow: false,
            is_underflow: false,
            has_status: false,
            status: 0,
            data_segment_len_bytes: 0,
            lun: 0,
            itt: self.itt,
            ttt: RESERVED_TAG,
            stat_sn: 0,
            exp_cmd_sn: stamp.exp_cmd_sn,
            max_cmd_sn: stamp.max_cmd_sn,
            data_sn,
            buffer_offset_bytes: offset,
            residual_bytes: 0,
        }
    }

    /// Puts GOOD and the residual into the last Data-In PDU.
    #[inline]
    fn finish_header(&self, header: &mut DataIn, moved: u64) {
        let expected = u64::from(self.announced);
        header.has_status = true;
        header.status = Status::Good.code();
        header.stat_sn = self.conn.stamp().stat_sn;
        header.is_overflow = moved > expected;
        header.is_underflow = moved < expected;
        header.residual_bytes = u32::try_from(moved.abs_diff(expected)).unwrap_or(u32::MAX);
    }
}

//! Data-Out: the data of write commands (RFC 7143 §11.7).

use std::rc::Rc;

use iscsi::ffp::DataOutHeader;
use iscsi::pdu::{BHS_LEN_BYTES, Bhs, DataOut, Opcode, R2t, RESERVED_TAG, RejectReason};
use scsi::{AdditionalSense, Sense, SenseKey};

use super::{Judged, command};
use crate::outcome::Outcome;
use crate::session::{Connection, Fault, Inbound, Task, finish};

/// Finds the task that a Data-Out header belongs to and counts its payload as received.
pub(super) fn judge(conn: &Rc<Connection>, bhs: &Bhs) -> Result<Judged, Fault> {
    let pdu = DataOut::parse(bhs).map_err(|_| Fault::Protocol("malformed Data-Out"))?;
    let session = &conn.session;
    let unsolicited = pdu.ttt == RESERVED_TAG;
    let found =
        if unsolicited { session.task_by_itt(pdu.itt) } else { session.task_by_ttt(pdu.ttt) };
    let Some(task) = found.filter(|task| task.answer.itt == pdu.itt) else {
        if unsolicited && session.early.borrow().is_kept(conn, pdu.itt) {
            return Ok(Judged::Take);
        }
        let tag = if unsolicited { pdu.itt } else { pdu.ttt };
        if !session.is_stray(tag) {
            conn.push_reject(RejectReason::INVALID_PDU_FIELD, bhs.bytes());
        }
        return Ok(Judged::Skip);
    };
    if !Rc::ptr_eq(task.conn(), conn) {
        return Err(Fault::Protocol("data for a command of another connection"));
    }
    let mut inbound = task.inbound.borrow_mut();
    let Inbound::Filling { transfer, .. } = &mut *inbound else {
        return Err(Fault::Protocol("data for a command that wants none"));
    };
    transfer.data_out(&DataOutHeader {
        ttt: pdu.ttt,
        data_sn: pdu.data_sn,
        offset: pdu.buffer_offset_bytes,
        len: pdu.data_segment_len_bytes,
        is_final: pdu.is_final,
    })?;
    drop(inbound);
    Ok(Judged::Write { task, offset: pdu.buffer_offset_bytes as usize })
}

/// The payload that [`judge`] announced is in place.
pub(crate) fn data_arrived(conn: &Rc<Connection>, task: &Rc<Task>) {
    if task.is_aborted() || task.ended.has_happened() {
        return;
    }
    request_data(conn, task);
    if !task.awaits_data() {
        task.note_pace();
        command::start(task);
    } else if has_lost_data(task) {
        let crc = Sense::new(SenseKey::AbortedCommand, AdditionalSense::PROTOCOL_SERVICE_CRC_ERROR);
        finish(task, Outcome::Check(crc));
    }
}

/// A part of the data was lost, and nothing of the rest is under way any more: only now may the
/// task end (RFC 7143 §7.8).
fn has_lost_data(task: &Task) -> bool {
    match &*task.inbound.borrow() {
        Inbound::Filling { transfer, .. } => transfer.is_spoiled() && transfer.is_settled(),
        Inbound::Nothing => false,
    }
}

/// Sends the R2Ts that are due (RFC 7143 §11.8).
pub(super) fn request_data(conn: &Connection, task: &Task) {
    let mut inbound = task.inbound.borrow_mut();
    let Inbound::Filling { transfer, .. } = &mut *inbound else { return };
    while let Some(request) = transfer.next_r2t() {
        let stamp = conn.peek_stamp();
        let r2t = R2t {
            lun: task.answer.lun,
            itt: task.answer.itt,
            ttt: task.ttt.get(),
            stat_sn: stamp.stat_sn,
            exp_cmd_sn: stamp.exp_cmd_sn,
            max_cmd_sn: stamp.max_cmd_sn,
            r2t_sn: request.r2t_sn,
            buffer_offset_bytes: request.offset,
            desired_data_transfer_len_bytes: request.len,
        };
        let mut bhs = [0; BHS_LEN_BYTES];
        r2t.emit(&mut bhs);
        conn.mover.send_control(&bhs, &[]);
    }
}

/// A data digest did not match (RFC 7143 §7.8): the PDU is rejected and dropped. The command that
/// lost a part of its data ends when the rest is there; a request that was lost whole will be sent
/// again, with its number.
pub(crate) fn bad_data_digest(conn: &Rc<Connection>, bhs: &Bhs) {
    conn.push_reject(RejectReason::DATA_DIGEST_ERROR, bhs.bytes());
    let session = &conn.session;
    if bhs.opcode() == Opcode::SCSI_COMMAND && !bhs.is_final() {
        session.expect_stray(bhs.itt());
    }
    if bhs.opcode() != Opcode::DATA_OUT {
        return;
    }
    let found = if bhs.ttt() == RESERVED_TAG {
        session.task_by_itt(bhs.itt())
    } else {
        session.task_by_ttt(bhs.ttt())
    };
    if session.early.borrow().is_kept(conn, bhs.itt()) {
        session.early.borrow_mut().follow(bhs, None);
    }
    if let Some(task) = found {
        if let Inbound::Filling { transfer, .. } = &mut *task.inbound.borrow_mut() {
            transfer.spoil();
        }
        data_arrived(conn, &task);
    }
}

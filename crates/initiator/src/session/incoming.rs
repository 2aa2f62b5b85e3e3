//! What comes from the target in full feature phase.

use std::rc::Rc;
use std::time::Duration;

use iscsi::pdu::{
    AsyncEvent, AsyncMessage, Bhs, DataIn, LogoutResponse, NopIn, NopOut, Opcode, R2t,
    RESERVED_TAG, Reject, ScsiResponse, ServiceResponse, TaskResponse, split_sense_segment,
};
use scsi::referrals::parse_sense;
use scsi::{Sense, Status};

use super::connection::{Connection, Ending, Fault, take_stat_sn};
use super::task::{Phase, Task};
use super::{CommandError, Inner, Reply, management, send_data};

impl Inner {
    /// The data of a Data-In PDU is in place.
    pub(crate) fn data_in_arrived(
        &self,
        conn: &Connection,
        task: &Task,
        bhs: &Bhs,
    ) -> Result<(), Fault> {
        let pdu = DataIn::parse(bhs).map_err(|_| Fault::Protocol("no Data-In"))?;
        self.note_window(pdu.exp_cmd_sn, pdu.max_cmd_sn);
        task.data_sn.set(pdu.data_sn + 1);
        task.received_bytes.set(pdu.buffer_offset_bytes + pdu.data_segment_len_bytes);
        if pdu.has_status {
            take_stat_sn(conn, pdu.stat_sn)?;
            let data = task.take_data();
            let reply =
                Reply { status: status_of(pdu.status), sense: None, referrals: Vec::new(), data };
            self.finish(task, Ok(reply));
        } else {
            self.pump();
        }
        Ok(())
    }

    /// Any other PDU, with its data segment.
    pub(crate) fn arrived(
        self: &Rc<Self>,
        conn: &Rc<Connection>,
        bhs: &Bhs,
        data: &[u8],
    ) -> Result<(), Fault> {
        self.note_window(bhs.exp_cmd_sn(), bhs.max_cmd_sn());
        match bhs.opcode() {
            Opcode::SCSI_RESPONSE => self.response(conn, bhs, data)?,
            Opcode::R2T => self.r2t(conn, bhs)?,
            Opcode::NOP_IN => nop_in(conn, bhs, data)?,
            Opcode::TASK_RESPONSE => {
                take_stat_sn(conn, bhs.stat_sn())?;
                let Ok(pdu) = TaskResponse::parse(bhs) else { return Ok(()) };
                if let Some(waiting) = self.management.borrow_mut().remove(&pdu.itt) {
                    waiting.set(pdu.response);
                }
            }
            Opcode::LOGOUT_RESPONSE => {
                take_stat_sn(conn, bhs.stat_sn())?;
                if LogoutResponse::parse(bhs).is_ok() {
                    conn.logout.set(());
                    // Here, for the target closes the connection right behind it.
                    conn.end(Ending::LoggedOut);
                }
            }
            Opcode::ASYNC_MESSAGE => {
                take_stat_sn(conn, bhs.stat_sn())?;
                async_message(conn, bhs);
            }
            Opcode::TEXT_RESPONSE => {
                take_stat_sn(conn, bhs.stat_sn())?;
                self.text_arrived(bhs, data);
            }
            Opcode::REJECT => {
                take_stat_sn(conn, bhs.stat_sn())?;
                if reject(bhs, data)? == Opcode::TEXT_REQUEST {
                    self.end_texts();
                }
            }
            _ => return Err(Fault::Protocol("a PDU that has no place in full feature phase")),
        }
        self.pump();
        Ok(())
    }

    fn response(&self, conn: &Connection, bhs: &Bhs, data: &[u8]) -> Result<(), Fault> {
        let pdu = ScsiResponse::parse(bhs).map_err(|_| Fault::Protocol("no SCSI Response"))?;
        take_stat_sn(conn, pdu.stat_sn)?;
        let task =
            self.task(conn, pdu.itt).ok_or(Fault::Protocol("a response to no task of ours"))?;
        if pdu.response != ServiceResponse::COMPLETED {
            self.finish(&task, Err(CommandError::TargetFailure));
            return Ok(());
        }
        let is_whole = !pdu.is_underflow && !pdu.is_overflow || task.data_out.is_empty();
        if pdu.status == Status::Good as u8 && !is_whole {
            // It says that it has done what it was told, and that it has not taken all of the data.
            self.finish(&task, Err(CommandError::TargetFailure));
            return Ok(());
        }
        let (sense, _) = split_sense_segment(data)
            .map_err(|_| Fault::Protocol("sense data longer than its segment"))?;
        let referrals = parse_sense(sense);
        let sense = if sense.is_empty() { None } else { Sense::parse(sense).ok() };
        let data = task.take_data();
        self.finish(&task, Ok(Reply { status: status_of(pdu.status), sense, referrals, data }));
        Ok(())
    }

    fn r2t(&self, conn: &Connection, bhs: &Bhs) -> Result<(), Fault> {
        let pdu = R2t::parse(bhs).map_err(|_| Fault::Protocol("no R2T"))?;
        let task = self.task(conn, pdu.itt).ok_or(Fault::Protocol("an R2T for no task of ours"))?;
        let len = pdu.desired_data_transfer_len_bytes;
        let end = pdu.buffer_offset_bytes.saturating_add(len);
        if len == 0 || len > conn.terms.max_burst_len_bytes || end as usize > task.data_out.len() {
            return Err(Fault::Protocol("an R2T outside the command's data"));
        }
        if pdu.r2t_sn != task.r2t_sn.get() || pdu.ttt == RESERVED_TAG {
            return Err(Fault::Protocol("an R2T out of order"));
        }
        task.r2t_sn.set(pdu.r2t_sn + 1);
        // The target knows what it has aborted; until it says so, it gets what it asks for.
        debug_assert!(matches!(task.phase.get(), Phase::Sent | Phase::Aborting));
        send_data(conn, &task, pdu.buffer_offset_bytes, end, (pdu.lun, pdu.ttt));
        Ok(())
    }
}

/// An unknown status tells nothing but that the command did not succeed: it is tried again.
fn status_of(code: u8) -> Status {
    Status::from_code(code).unwrap_or(Status::Busy)
}

/// A ping is answered; the answer to ours has done its work by being heard.
fn nop_in(conn: &Connection, bhs: &Bhs, data: &[u8]) -> Result<(), Fault> {
    let pdu = NopIn::parse(bhs).map_err(|_| Fault::Protocol("no NOP-In"))?;
    if pdu.itt != RESERVED_TAG {
        take_stat_sn(conn, pdu.stat_sn)?;
        conn.ping_since.set(None);
        conn.pongs.set(conn.pongs.get() + 1);
        conn.pong.ring();
    }
    if pdu.ttt == RESERVED_TAG {
        return Ok(());
    }
    // As much of the ping's data as the target takes back.
    let len = data.len().min(conn.params.max_recv_data_segment_peer_bytes as usize);
    let reply = NopOut {
        is_immediate: true,
        data_segment_len_bytes: u32::try_from(len).expect("a data segment is below 16 MiB"),
        lun: pdu.lun,
        itt: RESERVED_TAG,
        ttt: pdu.ttt,
        cmd_sn: conn.session.cmd_sn.get(),
        exp_stat_sn: conn.exp_stat_sn.get(),
    };
    conn.mover.send_control(reply.to_bhs().bytes(), &data[..len]);
    Ok(())
}

/// The target says what it is about to do (RFC 7143 11.9.1).
fn async_message(conn: &Rc<Connection>, bhs: &Bhs) {
    let Ok(pdu) = AsyncMessage::parse(bhs) else { return };
    match pdu.event {
        AsyncEvent::LOGOUT_REQUEST => {
            let time = Duration::from_secs(pdu.parameter3.into());
            ring::spawn(management::leave_as_asked(conn.clone(), time));
        }
        AsyncEvent::CONNECTION_DROP | AsyncEvent::SESSION_DROP => conn.end(Ending::Dropped),
        // SCSI events say what the next unit attention says too; negotiation is never wanted.
        _ => {}
    }
}

/// What is rejected is lost, and only a ping or a question may be (RFC 7143 11.17).
fn reject(bhs: &Bhs, data: &[u8]) -> Result<Opcode, Fault> {
    let reason = Reject::parse(bhs).map_err(|_| Fault::Protocol("no Reject"))?.reason;
    match Bhs::from_prefix(data).map(Bhs::opcode) {
        Some(opcode @ (Opcode::NOP_OUT | Opcode::TEXT_REQUEST)) => Ok(opcode),
        Some(opcode) => Err(Fault::Rejected(format!("{opcode:?}, {reason:?}"))),
        None => Err(Fault::Rejected(format!("{reason:?}"))),
    }
}

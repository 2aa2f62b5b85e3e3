//! Full-feature phase: what each PDU of an initiator does (RFC 7143 §11).
//!
//! A PDU passes twice. [`judge`] sees the header and the announced length and refuses what must
//! not take memory; [`arrive`] or [`data_arrived`] act when the payload is there.

mod answer;
mod command;
mod data_out;
mod logout;
mod nop;
mod task_management;
mod text;

use std::rc::Rc;

use iscsi::ffp::Placement;
use iscsi::pdu::{Bhs, Opcode, RejectReason};

use crate::conn::{Connection, Fault, Payload, reject_unknown};
use crate::session::{EarlyPdu, Session};
use crate::task::Task;

pub(crate) use answer::{Answer, Expected};
pub(crate) use command::{Outcome, READ_CHUNK_BYTES};
pub(crate) use data_out::{bad_data_digest, data_arrived};
pub(crate) use task_management::{Scope, abort, abort_tasks, tasks_in};

/// What to do with the payload that a header announces.
pub(crate) enum Judged {
    /// Read it and forget it: the PDU was refused, or is a duplicate.
    Skip,
    /// It belongs to the PDU: hand both to [`arrive`].
    Take,
    /// It is a part of this command's data.
    Write { task: Rc<Task>, offset: usize },
}

/// Judges a header before its payload is taken.
///
/// # Errors
/// What a connection cannot survive.
pub(crate) fn judge(conn: &Rc<Connection>, bhs: &Bhs, data_len: usize) -> Result<Judged, Fault> {
    let session = &conn.session;
    match bhs.opcode() {
        Opcode::DATA_OUT => data_out::judge(conn, bhs),
        Opcode::SCSI_COMMAND if session.is_discovery => {
            Err(Fault::Protocol("a SCSI command in a discovery session"))
        }
        Opcode::SCSI_COMMAND => {
            if data_len > 0 && !session.params.immediate_data {
                return Err(Fault::Protocol("immediate data was negotiated away"));
            }
            if data_len > session.params.first_burst_len_bytes as usize {
                return Err(Fault::Protocol("immediate data beyond FirstBurstLength"));
            }
            Ok(Judged::Take)
        }
        Opcode::NOP_OUT | Opcode::TASK_REQUEST | Opcode::TEXT_REQUEST | Opcode::LOGOUT_REQUEST => {
            Ok(Judged::Take)
        }
        Opcode::LOGIN_REQUEST => Err(Fault::Protocol("a login request in full-feature phase")),
        _ => {
            reject_unknown(conn, bhs);
            Ok(Judged::Skip)
        }
    }
}

/// A PDU other than Data-Out is complete: puts it in command order and runs what is due.
///
/// # Errors
/// What a connection cannot survive.
pub(crate) fn arrive(
    conn: &Rc<Connection>,
    bhs: &Bhs,
    ahs: &[u8],
    payload: Payload<'_>,
) -> Result<(), Fault> {
    if bhs.is_immediate() {
        return run(conn, bhs, ahs, payload, false);
    }
    match conn.session.place(bhs.cmd_sn()) {
        Placement::InOrder => {
            run(conn, bhs, ahs, payload, true)?;
            run_early(&conn.session)
        }
        Placement::Early => {
            let data = payload.into_buf().ok_or(Fault::NoMemory)?;
            let pdu = EarlyPdu { conn: conn.clone(), bhs: *bhs, ahs: ahs.into(), data };
            conn.session.early.borrow_mut().keep(pdu);
            Ok(())
        }
        Placement::Ignore => {
            tracing::debug!(cmd_sn = bhs.cmd_sn(), "ignored a command outside the window");
            Ok(())
        }
    }
}

/// Runs early commands whose turn has come.
fn run_early(session: &Rc<Session>) -> Result<(), Fault> {
    loop {
        let (next, _) = session.window_edges();
        let Some(pdu) = session.early.borrow_mut().take(next) else { return Ok(()) };
        let placed = session.place(next);
        debug_assert_eq!(placed, Placement::InOrder, "what was early is now due");
        run(&pdu.conn, &pdu.bhs, &pdu.ahs, Payload::Own(pdu.data), true)?;
    }
}

/// Runs one request. A `numbered` one has a place in the command window, which whoever ends the
/// request gives back.
fn run(
    conn: &Rc<Connection>,
    bhs: &Bhs,
    ahs: &[u8],
    payload: Payload<'_>,
    numbered: bool,
) -> Result<(), Fault> {
    if numbered && conn.session.early.borrow_mut().was_aborted(bhs.cmd_sn()) {
        conn.session.expect_stray(bhs.itt());
        conn.session.release_window();
        return Ok(());
    }
    if bhs.opcode() == Opcode::SCSI_COMMAND {
        return command::run(conn, bhs, ahs, payload, numbered);
    }
    if numbered {
        conn.session.release_window();
    }
    match bhs.opcode() {
        Opcode::NOP_OUT => nop::run(conn, bhs, payload.bytes()),
        Opcode::TASK_REQUEST => task_management::run(conn, bhs),
        Opcode::TEXT_REQUEST => text::run(conn, bhs, payload.bytes()),
        Opcode::LOGOUT_REQUEST => logout::run(conn, bhs),
        _ => conn.push_reject(RejectReason::COMMAND_NOT_SUPPORTED, bhs.bytes()),
    }
    Ok(())
}

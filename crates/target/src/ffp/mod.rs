//! Full-feature phase: what each PDU of an initiator does (RFC 7143 §11).
//!
//! [`serve()`] reads a connection to its end. A PDU passes twice: [`judge`] sees the header and the announced length and refuses what must
//! not take memory; [`arrive`] or [`data_arrived`] act when the payload is there.

mod command;
mod data_out;
mod logout;
mod nop;
mod receive;
mod serve;
mod task_management;
mod text;

use std::rc::Rc;

use iscsi::ffp::Placement;
use iscsi::pdu::{Bhs, Opcode, RejectReason};

use crate::memory::Held;
use crate::session::{Connection, Due, EarlyPdu, Fault, Task};

use data_out::data_arrived;
use receive::Payload;

pub(crate) use serve::serve;

/// What to do with the payload that a header announces.
enum Judged {
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
fn judge(conn: &Rc<Connection>, bhs: &Bhs, data_len: usize) -> Result<Judged, Fault> {
    let session = &conn.session;
    match bhs.opcode() {
        Opcode::DATA_OUT => data_out::judge(conn, bhs),
        Opcode::SCSI_COMMAND if session.is_discovery() => {
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

/// A PDU that belongs to no running task is complete: puts it in command order and runs what is
/// due. Data-Out comes here only if its command waits for its turn.
///
/// # Errors
/// What a connection cannot survive.
fn arrive(conn: &Rc<Connection>, bhs: &Bhs, ahs: &[u8], payload: Payload<'_>) -> Result<(), Fault> {
    let session = &conn.session;
    if bhs.opcode() == Opcode::DATA_OUT {
        let data = payload.into_held(conn);
        session.early.borrow_mut().follow(bhs, data);
        return Ok(());
    }
    if bhs.is_immediate() {
        if task_management::waits_for_order(session, bhs) {
            keep_function(conn, bhs);
            return Ok(());
        }
        run(conn, bhs, ahs, payload, false)?;
        return run_due(conn);
    }
    match session.place(bhs.cmd_sn()) {
        Placement::InOrder => {
            run(conn, bhs, ahs, payload, true)?;
            run_due(conn)
        }
        Placement::Early => {
            let data = payload.into_held(conn);
            session.early.borrow_mut().keep(early(conn, bhs, ahs, data));
            Ok(())
        }
        Placement::Ignore => {
            tracing::debug!(cmd_sn = bhs.cmd_sn(), "ignored a command outside the window");
            if bhs.opcode() == Opcode::SCSI_COMMAND && !bhs.is_final() {
                session.expect_stray(bhs.itt());
            }
            Ok(())
        }
    }
}

fn early(conn: &Rc<Connection>, bhs: &Bhs, ahs: &[u8], data: Option<Held>) -> EarlyPdu {
    let since = ring::now();
    let followers = Vec::new();
    EarlyPdu { conn: conn.clone(), bhs: *bhs, ahs: ahs.into(), data, followers, since }
}

/// Keeps an immediate function until the commands before it have come.
fn keep_function(conn: &Rc<Connection>, bhs: &Bhs) {
    let pdu = early(conn, bhs, &[], None);
    if !conn.session.early.borrow_mut().keep_function(pdu) {
        conn.push_reject(RejectReason::IMMEDIATE_COMMAND_REJECT, bhs.bytes());
    }
}

/// Runs what waited for the number that is expected now. What came over a connection that has
/// ended since uses up its number and nothing else.
fn run_due(conn: &Rc<Connection>) -> Result<(), Fault> {
    let session = &conn.session;
    loop {
        let (next, _) = session.window_edges();
        let Some(due) = session.early.borrow_mut().take_due(next) else { return Ok(()) };
        let command = match due {
            Due::Function(pdu) => {
                task_management::run(&pdu.conn, &pdu.bhs);
                continue;
            }
            Due::Aborted(itt) => {
                itt.into_iter().for_each(|itt| session.expect_stray(itt));
                None
            }
            Due::Command(pdu) => Some(pdu).filter(|pdu| !pdu.conn.is_ending()),
        };
        let placed = session.place(next);
        debug_assert_eq!(placed, Placement::InOrder, "the window is open where something waits");
        match command {
            Some(pdu) => run_early(pdu)?,
            None => session.release_window(&conn.owner),
        }
    }
}

/// Runs a command whose turn has come, and gives it the data that followed it.
fn run_early(pdu: EarlyPdu) -> Result<(), Fault> {
    let payload = pdu.data.map_or(Payload::Lost, Payload::Own);
    run(&pdu.conn, &pdu.bhs, &pdu.ahs, payload, true)?;
    for (bhs, data) in pdu.followers {
        if let Judged::Write { task, offset } = data_out::judge(&pdu.conn, &bhs)? {
            task.fill(offset, &data.buf);
            data_arrived(&pdu.conn, &task);
        }
    }
    Ok(())
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
    if bhs.opcode() == Opcode::SCSI_COMMAND {
        return command::run(conn, bhs, ahs, payload, numbered);
    }
    conn.session.hear(conn, bhs);
    if numbered {
        conn.session.release_window(&conn.owner);
    }
    if matches!(payload, Payload::Lost) {
        conn.push_reject(RejectReason::LONG_OPERATION_REJECT, bhs.bytes());
        return Ok(());
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

/// Opcodes that only a target sends, or that nobody does, are a protocol error (RFC 7143 §11.17.1).
fn reject_unknown(conn: &Connection, bhs: &Bhs) {
    let reason = if bhs.opcode() == Opcode::SNACK {
        RejectReason::SNACK_REJECT
    } else if bhs.opcode().is_from_initiator() {
        RejectReason::COMMAND_NOT_SUPPORTED
    } else {
        RejectReason::PROTOCOL_ERROR
    };
    conn.push_reject(reason, bhs.bytes());
}

//! SCSI commands: from the PDU to the task, and from its outcome to the response.
//!
//! A READ or WRITE that the device can do at once, which memory and page cache can, never becomes
//! a task: it is answered where it arrived. Everything else is entered into the session.

use std::rc::Rc;
use std::time::Duration;

use block::{IoFuture, WriteFlags};
use iscsi::ffp::{TransferLimits, WriteTransfer};
use iscsi::pdu::{Bhs, RejectReason, ScsiCommand, TaskAttribute};
use ring::Data;
use ring::wait::{Either, first};
use scsi::Sense;
use scsi::cdb::{Command, CommandSpec};
use scsi::reservation::Refusal;

use super::data_out;
use super::receive::Payload;
use crate::exec::{self, OutputRoom, READ_CHUNK_BYTES};
use crate::figures::Direction;
use crate::memory::{self, Held, Use};
use crate::mutants::{self, Mutant};
use crate::outcome::{Doing, Outcome, failed, refused};
use crate::session::{
    Answer, Connection, Expected, Fault, Inbound, Pace, Room, Task, UnitNexus, finish, watch_room,
};

/// The most Data-Out that one command may bring; VPD page B0h announces less.
const DATA_OUT_BYTES_MAX: u64 = 8 << 20;

/// Runs a SCSI Command PDU whose turn in the session has come.
pub(super) fn run(
    conn: &Rc<Connection>,
    bhs: &Bhs,
    ahs: &[u8],
    payload: Payload<'_>,
    numbered: bool,
) -> Result<(), Fault> {
    conn.count_command(payload.len());
    let parsed = ScsiCommand::parse(bhs).and_then(|pdu| Ok((pdu, pdu.parse_ahs(ahs)?)));
    let Ok((pdu, extra)) = parsed else {
        if numbered {
            conn.session.release_window(&conn.owner);
        }
        conn.push_reject(RejectReason::INVALID_PDU_FIELD, bhs.bytes());
        return Ok(());
    };
    let answer = Answer {
        conn: conn.clone(),
        itt: pdu.itt,
        lun: pdu.lun,
        expected: Expected::of(&pdu, &extra),
        announced: pdu.expected_data_transfer_len_bytes,
        numbered,
    };
    let Some(place) = conn.session.unit(pdu.lun) else {
        refuse(&answer, &pdu, None, exec::absent_unit(&answer, &pdu.cdb));
        return Ok(());
    };
    let logical = &place.unit.logical;
    let (spec, command) = match scsi::cdb::decode(&pdu.cdb) {
        Ok(decoded) => decoded,
        Err(sense) => {
            refuse(&answer, &pdu, Some((place, Direction::Other)), Outcome::Check(sense));
            return Ok(());
        }
    };
    let known = Some((&**place, Direction::of(&command)));
    if let Some(reset) = place.hear(conn, bhs, spec) {
        refuse(&answer, &pdu, known, Outcome::Check(reset));
        return Ok(());
    }
    if let Err(refusal) = logical.admit(&place.nexus, spec, &command) {
        if let Refusal::Check(sense) = &refusal {
            place.tell(conn, sense);
        }
        refuse(&answer, &pdu, known, refused(refusal));
        return Ok(());
    }
    let mut begun = None;
    // A tag that is in use is refused below; without tasks, which is the rule, this costs nothing.
    let is_new = conn.session.task_by_itt(pdu.itt).is_none();
    if is_new && pdu.attribute == TaskAttribute::SIMPLE && place.order.borrow().is_open() {
        match quick(&answer, &pdu, place, &command, &payload) {
            Quick::Done => return Ok(()),
            Quick::Begun(future, room) => begun = Some((future, room)),
            Quick::No => {}
        }
    }
    enter(answer, &pdu, place.clone(), (spec, command), payload, begun)
}

/// Answers a command that is not run, and counts it at its unit, if it is known which. Data that is still
/// under way for it is dropped.
fn refuse(
    answer: &Answer,
    pdu: &ScsiCommand,
    known: Option<(&UnitNexus, Direction)>,
    outcome: Outcome,
) {
    if !pdu.is_final {
        answer.conn.session.expect_stray(pdu.itt);
    }
    answer.release();
    if let Some((place, direction)) = known {
        place.count(answer, direction, &outcome, Duration::ZERO);
    }
    answer.send(outcome);
}

fn reject(answer: &Answer, pdu: &ScsiCommand, reason: RejectReason) {
    if !pdu.is_final {
        answer.conn.session.expect_stray(pdu.itt);
    }
    answer.release();
    answer.conn.push_reject(reason, pdu.to_bhs().bytes());
}

enum Quick {
    /// Answered.
    Done,
    /// The device is at work.
    Begun(IoFuture<Data>, OutputRoom),
    /// Not of the quick kind.
    No,
}

/// Reads and writes that end here and now.
#[inline]
fn quick(
    answer: &Answer,
    pdu: &ScsiCommand,
    place: &UnitNexus,
    command: &Command,
    payload: &Payload<'_>,
) -> Quick {
    let unit = &place.unit;
    match *command {
        Command::Read { range, .. } if pdu.is_read && !pdu.is_write => {
            let len = unit.bytes_of(range.blocks.into());
            let conn = &answer.conn;
            let is_long = len == 0 || len > READ_CHUNK_BYTES;
            if is_long
                || !conn.mover.has_place(len as usize)
                || !memory::has_room(&conn.owner, Use::Read, len as usize)
            {
                return Quick::No;
            }
            let at = unit.bytes_of(range.lba);
            match unit.device.read(at, len as usize).into_ready() {
                Ok(Err(error)) if exec::passes(error) => Quick::No,
                Ok(result) => {
                    answer.release();
                    match result.and_then(|data| answer.sendable(data)) {
                        Ok(data) => {
                            let bytes = data.len().min(answer.expected.read as usize) as u64;
                            place.count_answer(answer, Direction::Read, bytes, Duration::ZERO);
                            answer.data_and_good(data);
                        }
                        Err(error) => {
                            let outcome = failed(unit, error, Doing::Reading);
                            place.count(answer, Direction::Read, &outcome, Duration::ZERO);
                            answer.send(outcome);
                        }
                    }
                    Quick::Done
                }
                Err(future) => Quick::Begun(future, OutputRoom::new(conn, Use::Read, len as usize)),
            }
        }
        Command::Write { range, fua, .. } if pdu.is_final && !pdu.is_read => {
            let len = unit.bytes_of(range.blocks.into());
            if len == 0 || payload.len() as u64 != len || u64::from(answer.expected.write) != len {
                return Quick::No;
            }
            let flags = WriteFlags { durable: unit.is_durable(fua), atomic: false };
            unit.tokens.changed(range.lba, range.blocks.into());
            match unit.device.write_now(unit.bytes_of(range.lba), payload.bytes(), flags) {
                None => Quick::No,
                Some(Err(error)) if exec::passes(error) => Quick::No,
                Some(result) => {
                    answer.release();
                    let outcome = match result {
                        Ok(()) => Outcome::Good { moved: len },
                        Err(error) => failed(unit, error, Doing::Writing),
                    };
                    place.count(answer, Direction::Write, &outcome, Duration::ZERO);
                    answer.send(outcome);
                    Quick::Done
                }
            }
        }
        _ => Quick::No,
    }
}

/// Makes a task of a command.
fn enter(
    answer: Answer,
    pdu: &ScsiCommand,
    place: Rc<UnitNexus>,
    (spec, command): (&'static CommandSpec, Command),
    payload: Payload<'_>,
    begun: Option<(IoFuture<Data>, OutputRoom)>,
) -> Result<(), Fault> {
    let session = answer.conn.session.clone();
    if session.task_by_itt(pdu.itt).is_some() {
        reject(&answer, pdu, RejectReason::TASK_IN_PROGRESS);
        return Ok(());
    }
    if !answer.numbered && !session.has_room_for_immediate() {
        reject(&answer, pdu, RejectReason::IMMEDIATE_COMMAND_REJECT);
        return Ok(());
    }
    let inbound = match inbound(&answer, pdu, &place, (spec, &command), payload)? {
        Ok(inbound) => inbound,
        Err(outcome) => {
            refuse(&answer, pdu, Some((&place, Direction::of(&command))), outcome);
            return Ok(());
        }
    };
    let task = Rc::new(Task::new(answer, place, (spec, command), inbound));
    session.enter(&task);
    if pdu.attribute != TaskAttribute::HEAD_OF_QUEUE {
        let ordered = pdu.attribute == TaskAttribute::ORDERED;
        task.ticket.set(Some(task.place.order.borrow_mut().enter(ordered)));
    }
    if let Some((future, room)) = begun {
        go_on_reading(task, future, room);
    } else if let Some(wanted) = task.waits_for_room() {
        wait_for_room(task, wanted);
    } else if task.awaits_data() {
        data_out::request_data(task.conn(), &task);
    } else {
        start(&task);
    }
    Ok(())
}

/// Answers a read that the device has begun.
fn go_on_reading(task: Rc<Task>, future: IoFuture<Data>, room: OutputRoom) {
    task.runs.set(true);
    ring::spawn(async move {
        let outcome = exec::go_on_reading(&task, future).await;
        finish(&task, outcome);
        drop(room);
    });
}

/// Prepares the Data-Out of a command: what came with it, and room for the rest. The inner error
/// ends the command, the outer one the connection.
fn inbound(
    answer: &Answer,
    pdu: &ScsiCommand,
    place: &UnitNexus,
    (spec, command): (&CommandSpec, &Command),
    payload: Payload<'_>,
) -> Result<Result<Inbound, Outcome>, Fault> {
    let announced = answer.expected.write;
    let needed = command.data_out_bytes(place.unit.block_bytes);
    if is_misdirected(pdu, command, needed) {
        return Ok(Err(Outcome::Check(Sense::invalid_field_in_information_unit())));
    }
    if let Err(sense) = place.unit.logical.admit_data_out(spec, command, announced.into()) {
        return Ok(Err(match needed > announced.into() {
            true => Outcome::Short { sense, moved: needed },
            false => Outcome::Check(sense),
        }));
    }
    if needed > DATA_OUT_BYTES_MAX {
        return Ok(Err(Outcome::Check(Sense::parameter_list_length_error())));
    }
    let params = &answer.conn.session.params;
    let limits = TransferLimits {
        initial_r2t: params.initial_r2t,
        immediate_data: params.immediate_data,
        first_burst_len_bytes: params.first_burst_len_bytes,
        max_burst_len_bytes: params.max_burst_len_bytes,
        max_outstanding_r2t: u16::try_from(params.max_outstanding_r2t).unwrap_or(u16::MAX),
    };
    let wanted = u32::try_from(needed).map_or(announced, |needed| needed.min(announced));
    let transfer =
        WriteTransfer::start(&limits, announced, wanted, payload.len() as u32, pdu.is_final)?;
    if wanted == 0 && transfer.is_complete() {
        return Ok(Ok(Inbound::Nothing));
    }
    let room = room_for(answer, wanted as usize, pdu.is_final, payload);
    let refused = || exec::out_of_memory(&answer.conn.session);
    let (comes_unasked, pace) = (!pdu.is_final, Pace::of(&answer.conn));
    Ok(room
        .map(|room| Inbound::Filling { transfer, room, comes_unasked, pace })
        .ok_or_else(refused))
}

/// Data is announced, but none for the way it goes: a WRITE as a read, or a READ neither way
/// (RFC 7143 §11.3.1 forbids the latter). A READ announced as a write runs and moves nothing:
/// libiscsi's suite wants that answered GOOD.
fn is_misdirected(pdu: &ScsiCommand, command: &Command, needed: u64) -> bool {
    let is_announced = pdu.expected_data_transfer_len_bytes > 0;
    let reads = matches!(command, Command::Read { range, .. } if range.blocks > 0);
    is_announced && !pdu.is_write && (needed > 0 || reads && !pdu.is_read)
}

/// Memory for `wanted` bytes. Those that are asked for are waited for; if others come unasked
/// (`is_final` is not set), or all are here, there must be room now.
fn room_for(answer: &Answer, wanted: usize, is_final: bool, payload: Payload<'_>) -> Option<Room> {
    let owner = &answer.conn.owner;
    if matches!(payload, Payload::Lost) {
        return None;
    }
    if payload.len() >= wanted {
        let mut held = payload.into_held(&answer.conn)?;
        held.buf.truncate(wanted);
        return Some(Room::Here(held));
    }
    let whole = match is_final {
        true => Held::new(owner, Use::Pulled, wanted),
        false => answer.conn.room_for(wanted),
    };
    match whole {
        Some(held) => Some(Room::Here(held.with_first(payload.bytes()))),
        None if !is_final => None,
        None if payload.len() == 0 => Some(Room::Awaited { wanted, first: None }),
        None => Some(Room::Awaited { wanted, first: Some(payload.into_held(&answer.conn)?) }),
    }
}

/// Waits for memory for the data of a command, and asks for it then.
fn wait_for_room(task: Rc<Task>, wanted: usize) {
    watch_room();
    ring::spawn(async move {
        let room = Held::wait(&task.conn().owner, Use::Pulled, wanted);
        if let Either::Left(held) = first(room, task.wait_aborted()).await
            && !task.ended.has_happened()
        {
            task.set_room(held);
            data_out::request_data(task.conn(), &task);
        }
    });
}

/// All data is there: runs the task when its turn has come.
pub(super) fn start(task: &Rc<Task>) {
    let task = task.clone();
    ring::spawn(async move {
        let waits =
            task.ticket.get().filter(|_| !mutants::is(Mutant::NoOrder)).is_some_and(|ticket| {
                !task.place.order.borrow_mut().may_run(ticket, || task.clone())
            });
        if waits {
            task.turn.wait().await;
        }
        let room = exec::room_for_answer(&task).await;
        if task.ended.has_happened() {
            return; // aborted before its turn
        }
        task.runs.set(true);
        let outcome = exec::run(&task).await;
        finish(&task, outcome);
        drop(room);
    });
}

//! Task management functions, with their real effect on running tasks (RFC 7143 §11.5, SAM-5 §7).
//!
//! A task that waits for data or for its turn ends at once. One that a disk is working on cannot
//! be stopped: its answer is suppressed, and the function's own response waits until the disk is
//! done, so that nothing of the task comes after it. Tasks of other nexuses than the function's own
//! are answered TASK ABORTED when they are over (control mode page, TAS=1).
//!
//! A reset closes its units first: no command that is read after it runs before its host has heard.

use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;

use iscsi::ffp::{serial_le, serial_lt};
use iscsi::pdu::{
    BHS_LEN_BYTES, Bhs, RejectReason, TaskFunction, TaskRequest, TaskResponse, TaskResult,
};
use scsi::param::decode_lun;
use scsi::unit::Effect;

use crate::audit::{Happened, Who};
use crate::mutants::{self, Mutant};
use crate::session::{
    Connection, Ending, Scope, Session, abort, abort_everywhere, abort_tasks, all_ended, tasks_in,
};
use crate::shared::Shared;
use crate::unit::Unit;

/// Functions of one session that may wait for tasks at the same time: they stand outside the
/// command window, and each holds memory until a disk lets go.
const WAITING_FUNCTIONS_MAX: usize = 64;

pub(super) fn run(conn: &Rc<Connection>, bhs: &Bhs) {
    let Ok(request) = TaskRequest::parse(bhs) else { return };
    if conn.session.is_discovery() {
        return conn.push_reject(RejectReason::PROTOCOL_ERROR, bhs.bytes());
    }
    if too_many_wait(&conn.session) {
        return respond(conn, &request, TaskResult::REJECTED);
    }
    match request.function {
        TaskFunction::ABORT_TASK => abort_one(conn, request),
        TaskFunction::QUERY_TASK => {
            let found = known(&conn.session, &request);
            respond(
                conn,
                &request,
                if found { TaskResult::SUCCEEDED } else { TaskResult::COMPLETE },
            );
        }
        TaskFunction::QUERY_TASK_SET => query_set(conn, &request),
        TaskFunction::QUERY_ASYNCHRONOUS_EVENT => query_event(conn, &request),
        TaskFunction::ABORT_TASK_SET
        | TaskFunction::CLEAR_TASK_SET
        | TaskFunction::LOGICAL_UNIT_RESET
        | TaskFunction::TARGET_WARM_RESET
        | TaskFunction::I_T_NEXUS_RESET => many(conn, request),
        // It would end the sessions of all hosts, and one does not speak for them.
        TaskFunction::TARGET_COLD_RESET => {
            respond(conn, &request, TaskResult::AUTHORIZATION_FAILED);
        }
        TaskFunction::TASK_REASSIGN => {
            respond(conn, &request, TaskResult::REASSIGN_NOT_SUPPORTED);
        }
        _ => respond(conn, &request, TaskResult::NOT_SUPPORTED),
    }
}

/// Whether an immediate function must wait for commands that were sent before it over other
/// connections: they are among the tasks it ends (RFC 7143 §4.2.3.3 d).
pub(super) fn waits_for_order(session: &Session, bhs: &Bhs) -> bool {
    let Ok(request) = TaskRequest::parse(bhs) else { return false };
    let many = matches!(
        request.function,
        TaskFunction::ABORT_TASK_SET
            | TaskFunction::CLEAR_TASK_SET
            | TaskFunction::LOGICAL_UNIT_RESET
    );
    let (expected, max) = session.window_edges();
    many && serial_lt(expected, request.cmd_sn) && serial_le(request.cmd_sn, max.wrapping_add(1))
}

/// Commands sent before a function that ends all tasks count as received and ended (RFC 7143
/// §4.2.3.3 d).
fn plug(session: &Session, request: &TaskRequest) {
    let (mut next, max) = session.window_edges();
    let mut early = session.early.borrow_mut();
    while serial_lt(next, request.cmd_sn) && serial_le(next, max) {
        early.abort(next);
        next = next.wrapping_add(1);
    }
}

/// The unit a function is for; a LUN that does not exist is answered here.
fn unit_of(conn: &Connection, request: &TaskRequest) -> Option<Arc<Unit>> {
    let units = &conn.session.target().units;
    let unit = decode_lun(request.lun).and_then(|index| units.get(usize::from(index)));
    if unit.is_none() {
        respond(conn, request, TaskResult::LUN_DOES_NOT_EXIST);
    }
    unit.cloned()
}

fn known(session: &Session, request: &TaskRequest) -> bool {
    let tag = request.referenced_task_tag;
    session.task_by_itt(tag).is_some_and(|task| task.answer.lun == request.lun)
        || session.early.borrow().by_itt(tag).is_some()
}

/// No further function of this session may wait for tasks.
pub(super) fn too_many_wait(session: &Session) -> bool {
    session.functions.get() >= WAITING_FUNCTIONS_MAX
}

/// Answers when `ended` is through; further commands of the session run meanwhile.
pub(super) fn wait_beside(
    conn: &Rc<Connection>,
    ended: impl Future<Output = ()> + 'static,
    answer: impl FnOnce(&Rc<Connection>) + 'static,
) {
    let conn = conn.clone();
    conn.session.functions.set(conn.session.functions.get() + 1);
    ring::spawn(async move {
        ended.await;
        conn.session.functions.set(conn.session.functions.get() - 1);
        answer(&conn);
    });
}

/// ABORT TASK (RFC 7143 §11.5.1, §11.6.1).
fn abort_one(conn: &Rc<Connection>, request: TaskRequest) {
    let session = &conn.session;
    if let Some(task) = session.task_by_itt(request.referenced_task_tag) {
        if task.answer.lun != request.lun {
            return respond(conn, &request, TaskResult::TASK_DOES_NOT_EXIST);
        }
        abort(&task);
        return wait_beside(conn, all_ended(vec![task]), move |conn| {
            respond(conn, &request, TaskResult::COMPLETE);
        });
    }
    // A command that has not arrived yet, but must have been sent before this request, counts as
    // received and aborted: its number is used up (RFC 7143 11.6.1 b), and late data is dropped.
    let (expected, max) = session.window_edges();
    let under_way = serial_le(expected, request.ref_cmd_sn)
        && serial_le(request.ref_cmd_sn, max)
        && serial_lt(request.ref_cmd_sn, request.cmd_sn);
    if under_way {
        session.early.borrow_mut().abort(request.ref_cmd_sn);
        session.expect_stray(request.referenced_task_tag);
        respond(conn, &request, TaskResult::COMPLETE);
    } else {
        respond(conn, &request, TaskResult::TASK_DOES_NOT_EXIST);
    }
}

fn query_set(conn: &Connection, request: &TaskRequest) {
    let Some(_) = unit_of(conn, request) else { return };
    let any = !conn.session.tasks_where(|task| task.answer.lun == request.lun).is_empty();
    respond(conn, request, if any { TaskResult::SUCCEEDED } else { TaskResult::COMPLETE });
}

/// QUERY ASYNCHRONOUS EVENT (SAM-5 §7.9): whether a unit attention or deferred error is pending.
fn query_event(conn: &Connection, request: &TaskRequest) {
    let Some(_) = unit_of(conn, request) else { return };
    let place = conn.session.unit(request.lun).expect("the unit exists");
    let pending = place.nexus.has_attention();
    respond(conn, request, if pending { TaskResult::SUCCEEDED } else { TaskResult::COMPLETE });
}

/// The functions that end many tasks. What is there now is marked now, in command order; waiting
/// for disks happens beside further commands.
fn many(conn: &Rc<Connection>, request: TaskRequest) {
    let session = conn.session.clone();
    let shared = session.shared.clone();
    let target = session.target().clone();
    let key = session.nexus_key();
    let (aborted, reset): (Pin<Box<dyn Future<Output = ()>>>, _) = match request.function {
        TaskFunction::ABORT_TASK_SET | TaskFunction::CLEAR_TASK_SET => {
            // One task set per I_T nexus (TST=001b), so both mean the same tasks.
            let Some(unit) = unit_of(conn, &request) else { return };
            (Box::pin(abort_tasks(tasks_in(&Scope::UnitOfNexus(unit, key)))), Vec::new())
        }
        TaskFunction::LOGICAL_UNIT_RESET => {
            let Some(unit) = unit_of(conn, &request) else { return };
            if !mutants::is(Mutant::OpenDuringReset) {
                unit.logical.reset_begins();
            }
            let scope = Scope::Unit(unit.clone());
            (Box::pin(abort_everywhere(&shared, &scope, &key, None)), vec![unit])
        }
        TaskFunction::I_T_NEXUS_RESET => {
            plug(&session, &request);
            (Box::pin(abort_tasks(session.tasks_where(|_| true))), Vec::new())
        }
        _ => {
            plug(&session, &request);
            target.units.iter().for_each(|unit| unit.logical.reset_begins());
            let scope = Scope::Target(target.clone());
            (Box::pin(abort_everywhere(&shared, &scope, &key, None)), target.units.clone())
        }
    };
    let copies: Vec<_> = reset.iter().map(|unit| shared.copies.stop_at(unit)).collect();
    let who = conn.who();
    let ended = async move {
        aborted.await;
        for stopped in copies {
            stopped.wait().await;
        }
        for unit in &reset {
            reset_unit(&shared, unit, &who).await;
        }
    };
    wait_beside(conn, ended, move |conn| {
        respond(conn, &request, TaskResult::COMPLETE);
        if request.function == TaskFunction::I_T_NEXUS_RESET {
            session.end(&Ending::LoggedOut);
        }
    });
}

/// Resets a unit. A write cache that this turns off is written out first (SPC-5 §6.13).
async fn reset_unit(shared: &Shared, unit: &Arc<Unit>, by: &Who) {
    shared.copies.reset(unit).await;
    for effect in unit.logical.logical_unit_reset() {
        if let Effect::WriteProtection { on } = effect {
            let (who, unit) = (by.clone(), unit.name.clone());
            shared.feed.push(|| Happened::WriteProtection { who, unit, on });
        } else if let Err(error) = unit.device.flush().await {
            tracing::error!("{}: cannot be flushed at its reset: {error}", unit.name);
        }
    }
}

fn respond(conn: &Connection, request: &TaskRequest, response: TaskResult) {
    let stamp = conn.stamp();
    let reply = TaskResponse {
        response,
        itt: request.itt,
        stat_sn: stamp.stat_sn,
        exp_cmd_sn: stamp.exp_cmd_sn,
        max_cmd_sn: stamp.max_cmd_sn,
        additional_response: 0,
    };
    let mut header = [0; BHS_LEN_BYTES];
    reply.emit(&mut header);
    conn.mover.send_control(&header, &[]);
}

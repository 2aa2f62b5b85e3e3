//! What is not a SCSI command: pings, task management, logout.

use std::rc::Rc;
use std::time::{Duration, Instant};

use iscsi::ffp::serial_lt;
use iscsi::pdu::{
    LogoutReason, LogoutRequest, NopOut, RESERVED_TAG, TaskFunction, TaskRequest, TaskResult,
};
use ring::Data;
use ring::wait::Answer;

use super::connection::{Connection, Ending};
use super::task::{Phase, Task};
use super::{CommandError, Inner, Session};

/// Sending as often in a row without an acknowledgement takes the kernel 0.6 s and more.
const SILENT: u8 = 2;

/// The longest time that a logout waits for commands under way.
const DRAIN_MAX: Duration = Duration::from_secs(10);

/// The longest time that a session which was asked to log out goes on until there is another one.
const REPLACE_MAX: Duration = Duration::from_secs(1);

/// After a reset that fenced another nexus: for what the target had received of that nexus without
/// having looked at it. It is a matter of milliseconds for a target that works at all.
pub(crate) const SETTLE: Duration = Duration::from_secs(1);

/// Why a task management function has no effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum TaskError {
    /// There is no connection, or it broke before the answer came.
    #[error("there is no connection to the target")]
    NotConnected,
    /// The target did not answer in time. It may yet do what it was asked for.
    #[error("the target did not answer a task management function")]
    TimedOut,
    /// The target says no.
    #[error("the target answered {0:?}")]
    Refused(TaskResult),
}

impl Session {
    /// LOGICAL UNIT RESET: ends all tasks of all nexuses on the unit (SAM-5 7.4).
    ///
    /// # Errors
    /// A [`TaskError`].
    pub async fn reset_unit(&self, lun: u64) -> Result<(), TaskError> {
        let conn = self.inner().first_usable().ok_or(TaskError::NotConnected)?;
        end_all(&conn, TaskFunction::LOGICAL_UNIT_RESET, lun).await
    }

    /// Whether commands are under way and nothing is heard of the target, which should have answered
    /// a ping at least.
    #[must_use]
    pub fn is_silent(&self) -> bool {
        self.inner().is_silent.get()
    }

    /// Waits no longer for the answers to reads: they end as [`CommandError::Abandoned`]. What comes
    /// for them yet is thrown away.
    pub fn abandon_reads(&self) {
        let inner = self.inner();
        let is_read = |task: &Task| task.phase.get() == Phase::Sent && task.is_read;
        for task in inner.tasks_where(is_read) {
            task.answer.set(Err(CommandError::Abandoned));
        }
    }

    /// Logs out, when the commands under way are over, and in again.
    pub fn step_aside(&self) {
        if let Some(conn) = self.inner().first_usable() {
            ring::spawn(leave(conn, DRAIN_MAX));
        }
    }

    /// Ends the connections that are silent, if the network does not even deliver what is sent: there
    /// is nothing to wait for, and a login may find another way.
    pub fn give_up_silent(&self) {
        let inner = self.inner();
        let is_dead =
            |conn: &&Rc<Connection>| conn.is_silent.get() && conn.mover.is_undelivered(SILENT);
        if let Some(conns) = inner.usable() {
            conns.iter().filter(is_dead).for_each(|conn| conn.end(Ending::Stalled("is silent")));
        }
    }

    /// Takes back the commands that wait for the target's window: nothing of them was sent.
    pub fn withdraw_queued(&self) {
        self.inner().withdraw_queued();
    }

    /// Ends every command of this session on the unit (ABORT TASK SET).
    ///
    /// # Errors
    /// A [`TaskError`].
    pub async fn abort_task_set(&self, lun: u64) -> Result<(), TaskError> {
        let conn = self.inner().first_usable().ok_or(TaskError::NotConnected)?;
        end_all(&conn, TaskFunction::ABORT_TASK_SET, lun).await
    }

    /// Lets the commands under way end, logs out, and closes the session.
    /// Whether that was answered, and no earlier nexus of the session is in doubt: then nothing of the
    /// session is left at the target.
    pub async fn logout(&self) -> bool {
        let inner = self.inner();
        let is_certain = inner.fenced.get() == inner.losses.get();
        let mut has_left = inner.has_left.get();
        if let Some(conn) = inner.first_usable() {
            leave(conn.clone(), DRAIN_MAX).await;
            has_left = conn.ending() == Ending::LoggedOut;
        }
        inner.close();
        has_left && is_certain
    }
}

impl Inner {
    fn withdraw_queued(&self) {
        for task in self.queue.take() {
            task.phase.set(Phase::Over);
            task.answer.set(Err(CommandError::NotSent));
        }
    }

    fn tasks_where(&self, wanted: impl Fn(&Task) -> bool) -> Vec<Rc<Task>> {
        let tasks = self.tasks.borrow();
        tasks.iter().map(|(_, task)| task).filter(|task| wanted(task)).cloned().collect()
    }

    /// Asks the target for a sign of life.
    pub(crate) fn ping(&self, conn: &Connection) {
        let nop = NopOut {
            is_immediate: true,
            data_segment_len_bytes: 0,
            lun: 0,
            itt: self.other_tag(),
            ttt: RESERVED_TAG,
            cmd_sn: self.cmd_sn.get(),
            exp_stat_sn: conn.exp_stat_sn.get(),
        };
        conn.ping_since.set(Some(ring::now()));
        conn.mover.put_data(&nop.to_bhs(), Data::default());
    }

    /// Ends commands whose time is up.
    pub(crate) fn abort_late(self: &Rc<Self>, conn: &Rc<Connection>, now: Instant) {
        let mut late = Vec::new();
        self.queue.borrow_mut().retain(|task| {
            let is_late = now >= task.deadline;
            if is_late {
                late.push(task.clone());
            }
            !is_late
        });
        for task in late {
            task.phase.set(Phase::Over);
            task.answer.set(Err(CommandError::Crowded));
        }
        // Each connection looks after its own: a task is aborted where it was sent (RFC 7143
        // 11.5.1), so that the request comes behind the command.
        let is_late = |task: &Task| {
            task.phase.get() == Phase::Sent && task.cid.get() == conn.cid && now >= task.deadline
        };
        for task in self.tasks_where(is_late) {
            task.phase.set(Phase::Aborting);
            ring::spawn(abort(conn.clone(), task));
        }
    }
}

/// Aborts one task. When the target does not confirm that it is over, only the end of the
/// connection brings certainty.
///
/// A task that does not exist is over, too: on its connection the command came before the request to
/// abort it, and its answer, had there been one, before the answer to that.
async fn abort(conn: Rc<Connection>, task: Rc<Task>) {
    let answer = manage(&conn, TaskFunction::ABORT_TASK, task.lun, Some(&task)).await;
    if task.phase.get() == Phase::Over {
        return; // its answer came first
    }
    match answer {
        Ok(()) | Err(TaskError::Refused(TaskResult::TASK_DOES_NOT_EXIST)) => {
            conn.session.finish(&task, Err(CommandError::Aborted));
        }
        Err(_) => conn.end(Ending::Stalled("did not abort a command whose time was up")),
    }
}

/// Ends all tasks on a unit. Those of this session that were sent before the function, and have no
/// answer when it is complete, will have none; those sent after it live.
async fn end_all(conn: &Rc<Connection>, function: TaskFunction, lun: u64) -> Result<(), TaskError> {
    let session = &conn.session;
    let first_alive = session.cmd_sn.get();
    manage(conn, function, lun, None).await?;
    settle_others(conn).await?;
    let is_dead = |task: &Task| task.lun == lun && serial_lt(task.cmd_sn.get(), first_alive);
    for task in session.tasks_where(is_dead) {
        session.finish(&task, Err(CommandError::Ended));
    }
    Ok(())
}

/// Waits for the answer to a ping.
async fn pong(conn: &Connection) -> Result<(), TaskError> {
    let before = conn.pongs.get();
    conn.session.ping(conn);
    let has_come = || conn.pongs.get() > before || conn.is_ending();
    let limit = conn.session.options.abort_timeout;
    match ring::timeout(limit, conn.pong.until(has_come)).await {
        None => Err(TaskError::TimedOut),
        Some(()) if conn.is_ending() => Err(TaskError::NotConnected),
        Some(()) => Ok(()),
    }
}

/// Waits until answers that were on their way on the other connections have come: the target queued
/// them before it answered on this one, so an answer to a ping comes behind them.
async fn settle_others(conn: &Rc<Connection>) -> Result<(), TaskError> {
    let session = &conn.session;
    let conns = session.usable().ok_or(TaskError::NotConnected)?;
    for other in conns.iter().filter(|other| other.cid != conn.cid) {
        pong(other).await?;
    }
    Ok(())
}

/// Sends a task management function, which overtakes the commands, and waits for its answer.
async fn manage(
    conn: &Rc<Connection>,
    function: TaskFunction,
    lun: u64,
    task: Option<&Task>,
) -> Result<(), TaskError> {
    let session = &conn.session;
    let itt = session.other_tag();
    let answer = Rc::new(Answer::default());
    session.management.borrow_mut().insert(itt, answer.clone());
    let request = TaskRequest {
        is_immediate: true,
        function,
        lun,
        itt,
        referenced_task_tag: task.map_or(RESERVED_TAG, |task| task.itt.get()),
        cmd_sn: session.cmd_sn.get(),
        exp_stat_sn: conn.exp_stat_sn.get(),
        ref_cmd_sn: task.map_or(0, |task| task.cmd_sn.get()),
        exp_data_sn: 0,
    };
    conn.mover.put_data(&request.to_bhs(), Data::default());
    match ring::timeout(session.options.abort_timeout, answer.wait()).await {
        Some(TaskResult::COMPLETE) => Ok(()),
        Some(_) if conn.is_ending() => Err(TaskError::NotConnected),
        Some(other) => Err(TaskError::Refused(other)),
        None => {
            session.management.borrow_mut().remove(&itt);
            Err(TaskError::TimedOut)
        }
    }
}

/// The target wants a logout within `time` (RFC 7143 11.9.1). Whoever uses the session has a part of
/// that to find another way first.
pub(super) async fn leave_as_asked(conn: Rc<Connection>, time: Duration) {
    let session = conn.session.clone();
    let time = time.min(DRAIN_MAX);
    session.is_asked_to_leave.set(true);
    session.changed.ring();
    let is_over = || session.is_leaving.get() || conn.is_ending();
    let patience = (time / 3).min(REPLACE_MAX);
    ring::timeout(patience, session.changed.until(is_over)).await;
    leave(conn, time - patience).await;
}

/// Takes no more commands, waits for those under way, half of `time` at most, and logs out.
pub(super) async fn leave(conn: Rc<Connection>, time: Duration) {
    let session = conn.session.clone();
    // In this order: one that has ended by itself does not leave.
    if conn.is_ending() || session.is_leaving.replace(true) {
        return;
    }
    session.withdraw_queued();
    session.changed.ring();
    let is_idle = || session.tasks.borrow().is_empty() || conn.is_ending();
    ring::timeout(time.min(DRAIN_MAX) / 2, session.idle.until(is_idle)).await;
    let request = LogoutRequest {
        is_immediate: true,
        reason: LogoutReason::CLOSE_SESSION,
        itt: session.other_tag(),
        cid: conn.cid,
        cmd_sn: session.cmd_sn.get(),
        exp_stat_sn: conn.exp_stat_sn.get(),
    };
    conn.mover.put_data(&request.to_bhs(), Data::default());
    let limit = session.options.abort_timeout;
    match ring::timeout(limit, conn.logout.wait()).await {
        Some(()) => conn.end(Ending::LoggedOut),
        None => conn.end(Ending::Stalled("did not answer a logout")),
    }
}

//! A clean stop: ask, wait, end, stop the copies of others, flush. And the end of those sessions that the
//! rules of a target do not let in any more.

use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use block::BlockError;
use iscsi::pdu::{AsyncEvent, AsyncMessage, BHS_LEN_BYTES, RESERVED_TAG};
use ring::wait::join_all;

use crate::cores::on_cores;
use crate::mutants::{self, Mutant};
use crate::session::{Connection, Ending, Session, abort, all_sessions, sessions};
use crate::shared::Shared;
use crate::targets::{Target, TargetError};
use crate::unit::Unit;

/// How long tasks that a disk works on may take after all connections are gone, and then its last flush.
const DISK_WAIT: Duration = Duration::from_secs(10);

/// Ends all sessions and flushes all disks; the targets are gone then. Runs on a core.
pub(crate) async fn stop(shared: &Arc<Shared>, grace: Duration) -> Result<(), TargetError> {
    let targets = shared.targets.take_all();
    let cores = shared.cores().to_vec();
    let end_all = move || end_sessions(all_sessions(), grace);
    on_cores(cores, end_all).await;
    let copied = end_copies(shared, &targets, shared.registry.len() > 0).await;
    let flushed = flush(&targets).await;
    copied.and(flushed)
}

/// Ends the sessions of one target, which takes no new ones any more, and flushes its disks.
pub(crate) async fn end_target(
    shared: &Arc<Shared>,
    target: &Arc<Target>,
    grace: Duration,
) -> Result<(), TargetError> {
    assert!(target.is_closing(), "a session that begins now would stay");
    let ending = target.clone();
    let end_its_own = move || {
        let mut sessions = sessions();
        sessions.retain(|session| session.is_of(&ending));
        end_sessions(sessions, grace)
    };
    on_cores(shared.cores().to_vec(), end_its_own).await;
    let is_busy = || shared.registry.count(target.name.as_str()) > 0;
    let copied = end_copies(shared, std::slice::from_ref(target), is_busy()).await;
    let flushed = flush(std::slice::from_ref(target)).await;
    if is_busy() {
        return Err(busy(target));
    }
    copied.and(flushed)
}

fn busy(target: &Target) -> TargetError {
    TargetError::Busy(target.name.as_str().to_owned())
}

/// Stops the copies that touch units of these targets, whichever target they were sent to, and waits
/// for them; none begins after that. If the targets' own sessions have not ended in time either,
/// their disks had their time, and nothing is waited for.
async fn end_copies(
    shared: &Shared,
    targets: &[Arc<Target>],
    is_late: bool,
) -> Result<(), TargetError> {
    let stop = |target: &Arc<Target>| shared.copies.retire(&target.units);
    let ends: Vec<_> = targets.iter().map(stop).collect();
    let all = async {
        for each in ends {
            each.wait().await;
        }
    };
    let patience = if is_late { Duration::ZERO } else { DISK_WAIT };
    if ring::timeout(patience, all).await.is_some() {
        return Ok(());
    }
    let late = targets.iter().find(|target| !stop(target).is_empty());
    late.map_or(Ok(()), |target| Err(busy(target)))
}

/// Makes what was written durable, on all disks at once: those that do not answer in time are not waited
/// for, however many they are. The first failure is returned, all are logged.
async fn flush(targets: &[Arc<Target>]) -> Result<(), TargetError> {
    let flush = |unit: Arc<Unit>| async move {
        // What hosts still had at the disk is over or has had its time: only that it is durable is not known.
        let patience = if mutants::is(Mutant::EndlessFlush) { Duration::MAX } else { DISK_WAIT };
        let flushed = ring::timeout(patience, unit.device.flush()).await;
        flushed.unwrap_or(Err(BlockError::Busy)).map_err(|source| {
            let failure = TargetError::Flush { unit: unit.name.clone(), source };
            tracing::error!("{failure}");
            failure
        })
    };
    let units = targets.iter().flat_map(|target| target.units.iter().cloned());
    join_all(units.map(flush)).await
}

/// Ends the sessions of a target, with all of their connections, of which one is not let in any more by the
/// rules that it has now. Their tasks are aborted, and they are told. Returns how many there were, when
/// they have ended.
///
/// # Errors
/// A disk did not finish the tasks of one in time; no host is connected that should not be all the same.
pub(crate) async fn end_unadmitted(
    shared: &Arc<Shared>,
    target: &Arc<Target>,
) -> Result<usize, TargetError> {
    if mutants::is(Mutant::KeepSessions) {
        return Ok(0);
    }
    let (ended, late) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicBool::new(false)));
    let (counts, ending, is_late) = (ended.clone(), target.clone(), late.clone());
    let end_its_own = move || {
        let mut unadmitted = sessions();
        unadmitted.retain(|session| session.is_of(&ending) && !is_admitted(session));
        unadmitted.iter().for_each(end_now);
        counts.fetch_add(unadmitted.len(), Ordering::Relaxed);
        async move {
            if !have_ended(&unadmitted, DISK_WAIT).await {
                is_late.store(true, Ordering::Relaxed);
            }
        }
    };
    on_cores(shared.cores().to_vec(), end_its_own).await;
    if late.load(Ordering::Relaxed) {
        return Err(busy(target));
    }
    Ok(ended.load(Ordering::Relaxed))
}

/// Whether the rules let all connections of a session in.
fn is_admitted(session: &Rc<Session>) -> bool {
    let connections = session.connections();
    connections.iter().all(|conn| conn.is_ending() || conn.is_admitted())
}

/// Ends a session now: none of its tasks begins any more, and its host is told that it is over.
fn end_now(session: &Rc<Session>) {
    session.tasks_where(|_| true).iter().for_each(abort);
    for conn in session.connections() {
        notify(&conn, AsyncEvent::SESSION_DROP, 0);
    }
    session.end(&Ending::NotAdmitted);
}

/// Waits until these sessions have ended, for so long.
async fn have_ended(sessions: &[Rc<Session>], patience: Duration) -> bool {
    let all = async {
        for session in sessions {
            session.wait_ended().await;
        }
    };
    ring::timeout(patience, all).await.is_some()
}

/// Ends these sessions of this core: by request first, by force after `grace`.
async fn end_sessions(sessions: Vec<Rc<Session>>, grace: Duration) {
    let grace_s = u16::try_from(grace.as_secs()).unwrap_or(u16::MAX);
    for session in sessions.iter().filter(|session| !session.is_discovery()) {
        if let Some(conn) = session.connections().first() {
            notify(conn, AsyncEvent::LOGOUT_REQUEST, grace_s);
        }
    }
    let left = |session: &&Rc<Session>| !session.is_discovery();
    ring::timeout(grace, async {
        for session in sessions.iter().filter(left) {
            session.wait_ended().await;
        }
    })
    .await;
    for session in &sessions {
        for conn in session.connections() {
            if !session.is_discovery() {
                notify(&conn, AsyncEvent::SESSION_DROP, 0);
            }
            conn.end(Ending::Shutdown);
        }
    }
    have_ended(&sessions, DISK_WAIT).await;
}

/// Sends an Async Message (RFC 7143 §11.9). For a logout request `parameter3` is the time to do
/// so; for a dropped session, 2 and 3 are the times to wait before and to retain after.
fn notify(conn: &Connection, event: AsyncEvent, parameter3: u16) {
    let stamp = conn.stamp();
    let message = AsyncMessage {
        data_segment_len_bytes: 0,
        lun: 0,
        itt: RESERVED_TAG,
        stat_sn: stamp.stat_sn,
        exp_cmd_sn: stamp.exp_cmd_sn,
        max_cmd_sn: stamp.max_cmd_sn,
        event,
        vendor_code: 0,
        parameter1: 0,
        parameter2: 0,
        parameter3,
    };
    let mut header = [0; BHS_LEN_BYTES];
    message.emit(&mut header);
    conn.mover.send_control(&header, &[]);
}

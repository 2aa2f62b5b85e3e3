//! What lives on one core: its sessions, and the word to stop.

use std::cell::RefCell;
use std::collections::HashMap;
use std::future::Future;
use std::rc::Rc;
use std::sync::Arc;

use ring::Remote;
use scsi::nexus::NexusKey;

use crate::conn::Ending;
use crate::event::Event;
use crate::ffp::{Scope, abort_tasks_by, tasks_in};
use crate::session::Session;
use crate::shared::Shared;
use crate::task::Task;

#[derive(Default)]
struct CoreState {
    sessions: RefCell<HashMap<u16, Rc<Session>>>,
    /// Discovery sessions: they have no place in the registry, but end with the target too.
    discoveries: RefCell<Vec<Rc<Session>>>,
    stop: Rc<Event>,
}

thread_local! {
    static CORE: CoreState = CoreState::default();
}

pub(crate) fn remember_session(session: &Rc<Session>) {
    CORE.with(|core| {
        if session.is_discovery() {
            core.discoveries.borrow_mut().push(session.clone());
        } else {
            core.sessions.borrow_mut().insert(session.tsih, session.clone());
        }
    });
}

pub(crate) fn forget_session(session: &Rc<Session>) {
    CORE.with(|core| {
        if session.is_discovery() {
            core.discoveries.borrow_mut().retain(|other| !Rc::ptr_eq(other, session));
        } else {
            core.sessions.borrow_mut().remove(&session.tsih);
        }
    });
}

/// The session of this core with this TSIH.
pub(crate) fn session(tsih: u16) -> Option<Rc<Session>> {
    CORE.with(|core| core.sessions.borrow().get(&tsih).cloned())
}

/// All normal sessions of this core.
pub(crate) fn sessions() -> Vec<Rc<Session>> {
    CORE.with(|core| core.sessions.borrow().values().cloned().collect())
}

/// All sessions of this core, discovery sessions included.
pub(crate) fn all_sessions() -> Vec<Rc<Session>> {
    let mut all = sessions();
    CORE.with(|core| all.extend(core.discoveries.borrow().iter().cloned()));
    all
}

/// Tells this core to end.
pub(crate) fn stop() {
    CORE.with(|core| core.stop.set());
}

/// Waits for [`stop`].
pub(crate) async fn stopped() {
    let stopped = CORE.with(|core| core.stop.clone());
    stopped.wait().await;
}

/// Runs `job` on each of `cores`; the future waits until all are through. A core that has ended
/// counts as through.
pub(crate) fn on_cores<Job, Work>(
    cores: Vec<Remote>,
    job: Job,
) -> impl Future<Output = ()> + use<Job, Work>
where
    Job: FnOnce() -> Work + Clone + Send + 'static,
    Work: Future<Output = ()> + 'static,
{
    let ask = |core: Remote| {
        let (done, through) = ring::oneshot();
        let job = job.clone();
        core.run(move || {
            let work = job();
            ring::spawn(async move {
                work.await;
                done.send(());
            });
        });
        through
    };
    let answers: Vec<_> = cores.into_iter().map(ask).collect();
    async move {
        for answer in answers {
            answer.await;
        }
    }
}

/// Ends the tasks that `scope` names, on all cores. Those of this core are marked before this
/// returns, so that later commands of the caller's connection are not among them. The nexus `by`
/// asks for it, and `task` is what it asks with, if that is a task: it would wait for ever for its
/// own end.
pub(crate) fn abort_everywhere(
    shared: &Arc<Shared>,
    scope: &Scope,
    by: &NexusKey,
    task: Option<&Rc<Task>>,
) -> impl Future<Output = ()> + use<> {
    let mut tasks = tasks_in(scope);
    tasks.retain(|found| task.is_none_or(|task| !Rc::ptr_eq(found, task)));
    let here = abort_tasks_by(by, tasks);
    let this = ring::core_id();
    let others = shared.cores().iter().filter(|core| core.id() != this).cloned().collect();
    let (scope, by) = (scope.clone(), by.clone());
    let there = on_cores(others, move || abort_tasks_by(&by, tasks_in(&scope)));
    async move {
        here.await;
        there.await;
    }
}

/// Ends a session that lives on this core.
pub(crate) fn end_session(tsih: u16, why: &Ending) {
    if let Some(session) = session(tsih) {
        session.end(why);
    }
}

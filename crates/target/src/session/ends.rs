//! How tasks end: by themselves, for want of memory, or aborted, on this core or on all.

use std::future::Future;
use std::rc::Rc;
use std::sync::Arc;

use scsi::Status;
use scsi::nexus::NexusKey;

use super::per_core::sessions;
use super::task::{Aborted, Task};
use crate::cores::on_cores;
use crate::figures::Direction;
use crate::mutants::{self, Mutant};
use crate::outcome::Outcome;
use crate::shared::Shared;
use crate::targets::Target;
use crate::unit::Unit;

/// Ends a task: gives its place in the window and in the order to others, and answers unless its
/// own nexus has aborted it.
pub(crate) fn finish(task: &Rc<Task>, outcome: Outcome) {
    if task.ended.has_happened() {
        return;
    }
    let answer = &task.answer;
    answer.conn.session.remove(task);
    if let Some(ticket) = task.ticket.take() {
        for next in task.place.order.borrow_mut().leave(ticket) {
            next.turn.set();
        }
    }
    answer.release();
    let direction = Direction::of(&task.command);
    if task.aborted().is_some() {
        task.place.count_aborted(direction);
    } else {
        task.place.count(answer, direction, &outcome, ring::now() - task.since);
    }
    match task.aborted() {
        None => answer.send(outcome),
        Some(Aborted::Silently) => {}
        // Control mode page, TAS (SPC-5 7.5.8).
        Some(Aborted::ByOther) => {
            answer.status(Status::TaskAborted, None, 0, task.data_pdus.get());
        }
    }
    task.ended.set();
}

/// Ends a task whose data does not come, while others have no room for theirs: what comes of it
/// later is dropped.
pub(super) fn give_way(task: &Rc<Task>) {
    finish(task, Outcome::Status(Status::Busy));
    task.forget_data();
}

/// Which tasks a function ends.
#[derive(Clone, Debug)]
pub(crate) enum Scope {
    /// All tasks of one logical unit, whoever sent them.
    Unit(Arc<Unit>),
    /// The tasks of one nexus in one logical unit.
    UnitOfNexus(Arc<Unit>, NexusKey),
    /// All tasks of the target.
    Target(Arc<Target>),
}

/// The tasks of this core that `scope` names.
pub(crate) fn tasks_in(scope: &Scope) -> Vec<Rc<Task>> {
    let mut found = Vec::new();
    for session in sessions() {
        let hit = |task: &Task| match scope {
            Scope::Target(target) => session.is_of(target),
            Scope::Unit(unit) => Arc::ptr_eq(&task.place.unit, unit),
            Scope::UnitOfNexus(unit, key) => {
                Arc::ptr_eq(&task.place.unit, unit) && session.nexus_key() == *key
            }
        };
        found.extend(session.tasks_where(hit));
    }
    found
}

/// Ends these tasks of the caller's own nexus now; the future waits until the last of them is over.
pub(crate) fn abort_tasks(tasks: Vec<Rc<Task>>) -> impl Future<Output = ()> {
    tasks.iter().for_each(abort);
    all_ended(tasks)
}

/// Ends these tasks now, in the name of the nexus `by`; the initiators of others are told.
pub(crate) fn abort_tasks_by(
    by: &NexusKey,
    tasks: Vec<Rc<Task>>,
) -> impl Future<Output = ()> + use<> {
    for task in &tasks {
        let is_own = task.conn().session.nexus_key() == *by;
        end_task(task, if is_own { Aborted::Silently } else { Aborted::ByOther });
    }
    all_ended(tasks)
}

pub(crate) async fn all_ended(tasks: Vec<Rc<Task>>) {
    if mutants::is(Mutant::EarlyAbort) {
        return;
    }
    for task in tasks {
        task.ended.wait().await;
    }
}

/// Ends one task without an answer: at once, or when the disk is done with it.
pub(crate) fn abort(task: &Rc<Task>) {
    end_task(task, Aborted::Silently);
}

fn end_task(task: &Rc<Task>, how: Aborted) {
    task.mark_aborted(how);
    if !task.runs.get() && !task.ended.has_happened() {
        finish(task, Outcome::Aborted);
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

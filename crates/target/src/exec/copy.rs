//! Commands of the copy manager: who asks, and which units its host may reach.

use std::rc::Rc;
use std::sync::Arc;

use scsi::Sense;
use scsi::cdb::Command;

use crate::copy::{Request, extended_copy, populate_token, receive_results, write_using_token};
use crate::outcome::Outcome;
use crate::session::Task;
use crate::shared::Shared;
use crate::targets::Target;
use crate::unit::Unit;

/// Runs a command of the copy manager.
pub(super) async fn run(task: &Rc<Task>) -> Outcome {
    let unit = task.place.unit.clone();
    let target = task.conn().session.target();
    let moved = task.command.data_out_bytes(unit.block_bytes);
    let data = task.take_data();
    let Some(list) = data.as_deref().unwrap_or_default().get(..moved as usize) else {
        return Outcome::Check(Sense::parameter_list_length_error());
    };
    let aborted = task.clone();
    let shared = &task.conn().session.shared;
    let request = Request {
        copies: shared.copies.clone(),
        unit,
        key: task.place.nexus.key().clone(),
        host: task.conn().peer.ip(),
        aborted: Box::new(move || aborted.is_aborted()),
    };
    let units = || reachable(shared, target);
    let done = match task.command {
        Command::ExtendedCopy { .. } => extended_copy(&request, &units(), list).await,
        Command::PopulateToken { list_id, .. } => populate_token(&request, list_id, list),
        Command::WriteUsingToken { list_id, .. } => {
            write_using_token(request, &units(), list_id, list).await
        }
        command => return receive_results(&request, &target.units, command),
    };
    match done {
        Ok(()) => Outcome::Good { moved },
        Err(outcome) => outcome,
    }
}

/// The units that a host of `target` may copy from and to: the target's own first, then those of the
/// other targets that have the rules of the server, too. One with rules of its own might not have let that
/// host in, and one that is not shared may be another's.
fn reachable(shared: &Shared, target: &Arc<Target>) -> Vec<Arc<Unit>> {
    let (served, rules) = (shared.targets.served(), target.rules());
    let others = served
        .iter()
        .filter(|other| !Arc::ptr_eq(other, target) && Arc::ptr_eq(&other.rules(), &rules))
        .filter(|_| rules.is_shared);
    std::iter::once(target).chain(others).flat_map(|each| &each.units).cloned().collect()
}

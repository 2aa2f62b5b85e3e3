//! The copy manager (SPC-4 §5.17, SBC-4 §4.28): copies between logical units of this server, or
//! within one, without the data going over the network. There is one for all targets; a host reaches
//! the units of those that let in the same hosts as the one it is logged in to.
//!
//! What the commands mean is the business of [`scsi::copy`]. Here it is done: [`extended`] is
//! EXTENDED COPY(LID1), [`offload`] the token commands of Windows (ODX), [`results`] tells what
//! became of either, [`transfer`] moves the data through the
//! memory that [`slots`] count, and [`manager`] keeps what outlives a command.
//!
//! **Tokens.** A token stands for blocks, not for a copy of them: there are no snapshots. Yet whoever
//! uses one expects the data of the time it was made. So each change to such a block, by whatever
//! command, revokes the token before the block changes, and a copy looks at its token again after
//! each read and before the data goes on: what arrives is the data of that time, or an error that
//! sends the host back to reading and writing itself. See
//! [`UnitTokens::changed`](crate::tokens::UnitTokens::changed).

mod extended;
mod job;
mod manager;
mod offload;
mod results;
mod slots;
#[cfg(test)]
mod tests;
mod transfer;

use std::net::IpAddr;
use std::rc::Rc;
use std::sync::Arc;

use scsi::Sense;
use scsi::cdb::Command;
use scsi::copy::{CopyAction, CopyId};
use scsi::nexus::NexusKey;

use crate::ffp::Outcome;
use crate::shared::Shared;
use crate::targets::Target;
use crate::task::Task;
use crate::unit::Unit;

pub(crate) use manager::CopyManager;

/// Who wants something copied, and to which unit the command was sent.
struct Request {
    copies: Arc<CopyManager>,
    unit: Arc<Unit>,
    key: NexusKey,
    /// Where it comes from.
    host: IpAddr,
    /// The command was aborted: nothing more is copied, and nobody waits for an answer.
    aborted: Box<dyn Fn() -> bool>,
}

impl Request {
    fn copy_id(&self, action: CopyAction, list_id: u32) -> CopyId {
        CopyId { nexus: self.key.clone(), action, list_id }
    }
}

/// Runs a command of the copy manager.
pub(crate) async fn run(task: &Rc<Task>) -> Outcome {
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
        Command::ExtendedCopy { .. } => extended::copy(&request, &units(), list).await,
        Command::PopulateToken { list_id, .. } => offload::populate(&request, list_id, list),
        Command::WriteUsingToken { list_id, .. } => {
            offload::write(request, &units(), list_id, list).await
        }
        command => return results::receive(&request, &target.units, command),
    };
    match done {
        Ok(()) => Outcome::Good { moved },
        Err(outcome) => outcome,
    }
}

/// The units that a host of `target` may copy from and to: the target's own first, then those of the
/// other targets with the same rules. One with a secret or allow rules of its own might not have let
/// that host in.
fn reachable(shared: &Shared, target: &Arc<Target>) -> Vec<Arc<Unit>> {
    let served = shared.targets.served();
    let others = served
        .iter()
        .filter(|other| !Arc::ptr_eq(other, target) && Arc::ptr_eq(&other.rules, &target.rules));
    std::iter::once(target).chain(others).flat_map(|each| &each.units).cloned().collect()
}

//! What commands do, once all their data is here and it is their turn.

mod cache;
mod control;
mod copy;
mod output;
mod provisioning;
mod read;
mod sanitize;
mod verify;
mod write;

use std::rc::Rc;
use std::time::Instant;

use block::BlockError;
use scsi::cdb::{Command, Executor};
use scsi::{Sense, Status};

use crate::memory::POOL_PAUSE;
use crate::outcome::Outcome;
use crate::session::{Session, Task};

pub(crate) use control::absent_unit;
pub(crate) use output::{OutputRoom, room_for_answer};
pub(crate) use read::go_on_reading;

/// The longest read that is asked of the device in one piece.
pub(crate) const READ_CHUNK_BYTES: u64 = 256 << 10;

/// How much of the time after which a connection counts as stalled a command waits for memory that a
/// disk does not have, before its host hears of it: 10 s, where hosts wait for 30.
const PATIENCE: u32 = 3;

/// The disk is short of something that it will have again.
pub(crate) fn passes(error: BlockError) -> bool {
    matches!(error, BlockError::NoMemory | BlockError::Busy)
}

/// There is no buffer for a command: TASK SET FULL while others of the session are under way, so
/// that the host lowers its queue depth; BUSY otherwise (SAM-5 §5.3.1).
pub(crate) fn out_of_memory(session: &Session) -> Outcome {
    let others = !session.tasks_where(|_| true).is_empty();
    Outcome::Status(if others { Status::TaskSetFull } else { Status::Busy })
}

/// The patience of one command with a disk that is short of memory.
struct Patience {
    since: Instant,
}

impl Patience {
    fn new() -> Self {
        Self { since: ring::now() }
    }

    /// Waits a moment, if the error is one that passes; whether the command is to be tried again.
    async fn bears(&self, error: BlockError, task: &Task) -> bool {
        let limit = task.conn().session.shared.limits.stall_timeout / PATIENCE;
        if !passes(error) || task.is_aborted() || ring::now() - self.since >= limit {
            return false;
        }
        ring::sleep(POOL_PAUSE).await;
        true
    }
}

/// Copy tokens for blocks that a command is about to change end here. UNMAP, whose blocks are in
/// its data, does the same itself.
fn announce_change(task: &Task) {
    let unit = &task.place.unit;
    let blocks = match task.command {
        Command::Write { range, .. }
        | Command::WriteAtomic { range, .. }
        | Command::WriteAndVerify { range, .. }
        | Command::CompareAndWrite { range, .. }
        | Command::OrWrite { range, .. } => Some((range.lba, range.blocks.into())),
        Command::WriteSame { range, .. } => {
            unit.logical.blocks_to_end(range).ok().map(|blocks| (range.lba, blocks))
        }
        _ => None,
    };
    if let Some((lba, blocks)) = blocks {
        unit.tokens.changed(lba, blocks);
    }
}

/// Runs a task whose data is complete.
pub(crate) async fn run(task: &Rc<Task>) -> Outcome {
    match task.spec.executor {
        Executor::Control => control::run(task).await,
        Executor::CopyManager => copy::run(task).await,
        Executor::Medium => medium(task).await,
    }
}

async fn medium(task: &Rc<Task>) -> Outcome {
    announce_change(task);
    match task.command {
        Command::Read { range, .. } => read::read(task, range).await,
        Command::Write { range, fua, .. } => write::write(task, range, fua).await,
        Command::WriteAtomic { range, fua, .. } => write::write_atomic(task, range, fua).await,
        Command::WriteAndVerify { range, check } => {
            write::write_and_verify(task, range, check).await
        }
        Command::CompareAndWrite { range, fua, .. } => {
            write::compare_and_write(task, range, fua).await
        }
        Command::OrWrite { range, fua, .. } => write::or_write(task, range, fua).await,
        Command::Verify { range, check } => verify::verify(task, range, check).await,
        Command::SynchronizeCache { .. } => cache::synchronize(task).await,
        Command::PreFetch { .. } => cache::pre_fetch(),
        Command::Unmap { .. } => provisioning::unmap(task).await,
        Command::WriteSame { range, unmap, .. } => {
            provisioning::write_same(task, range, unmap).await
        }
        Command::GetLbaStatus { lba, allocation_bytes } => {
            provisioning::get_lba_status(task, lba, allocation_bytes).await
        }
        _ => Outcome::Check(Sense::internal_failure()),
    }
}

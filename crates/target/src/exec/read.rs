//! Reads that are too long, or a disk too slow, to be answered at once.

use std::rc::Rc;

use scsi::cdb::BlockRange;

use super::{Doing, failed};
use crate::ffp::{Outcome, READ_CHUNK_BYTES};
use crate::task::Task;

/// Reads chunk by chunk and sends each when it is there, so that a long read holds little memory
/// and a slow reader slows only itself.
pub(super) async fn read(task: &Rc<Task>, range: BlockRange) -> Outcome {
    let unit = &task.place.unit;
    let answer = &task.answer;
    let total = unit.bytes_of(range.blocks.into());
    let wanted = total.min(answer.expected.read.into());
    let start = unit.bytes_of(range.lba);
    let mut plan = answer.plan(total as usize);
    let mut at = 0;
    while at < wanted {
        let len = READ_CHUNK_BYTES.min((wanted - at).next_multiple_of(unit.block_bytes.into()));
        let read = unit.device.read(start + at, len as usize).await;
        let data = match read.and_then(|data| answer.sendable(data)) {
            Ok(data) => data,
            Err(error) => return failed(unit, error, Doing::Reading),
        };
        answer.conn.wait_for_room().await;
        if task.is_aborted() || answer.conn.is_ending() {
            return Outcome::Aborted;
        }
        let take = len.min(wanted - at);
        answer.stream(&mut plan, &data.into_slice(0..take as usize));
        at += take;
    }
    Outcome::Streamed { pdus: plan.pdus(), moved: total }
}

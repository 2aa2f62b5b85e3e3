//! Reads that are too long, or a disk too slow, to be answered at once.

use std::rc::Rc;

use block::{BlockError, IoFuture};
use ring::{Buf, Data};
use scsi::cdb::{BlockRange, Command};

use super::{OutputRoom, Patience, READ_CHUNK_BYTES};
use crate::memory::Use;
use crate::outcome::{Doing, Outcome, failed};
use crate::session::Task;

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
        // Room first: what was read and cannot be sent would keep it from others.
        let bytes = Buf::capacity_of(len as usize);
        let Some(room) = OutputRoom::wait(task, Use::Read, bytes).await else {
            return Outcome::Aborted;
        };
        let data = match chunk(task, None, (start + at, len as usize)).await {
            Ok(data) => data,
            Err(error) => return failed(unit, error, Doing::Reading),
        };
        if task.is_aborted() || answer.conn.is_ending() {
            return Outcome::Aborted;
        }
        let take = len.min(wanted - at);
        answer.stream(&mut plan, &data.into_slice(0..take as usize));
        task.data_pdus.set(plan.pdus());
        // What is sent is counted with the connection now.
        drop(room);
        at += take;
    }
    // Where only data of the host was announced, none of that was moved.
    let is_announced_as_write = answer.expected.read == 0 && answer.expected.write > 0;
    let moved = if is_announced_as_write { 0 } else { total };
    Outcome::Streamed { pdus: plan.pdus(), moved }
}

/// Ends a read of one chunk that the device has begun.
pub(crate) async fn go_on_reading(task: &Rc<Task>, begun: IoFuture<Data>) -> Outcome {
    let unit = &task.place.unit;
    let Command::Read { range, .. } = task.command else { unreachable!("it reads") };
    let at = unit.bytes_of(range.lba);
    let len = unit.bytes_of(range.blocks.into()) as usize;
    match chunk(task, Some(begun), (at, len)).await {
        Ok(data) => Outcome::Data(data),
        Err(error) => failed(unit, error, Doing::Reading),
    }
}

/// Reads a chunk that can be sent, and waits for memory if the disk has none for it.
async fn chunk(
    task: &Rc<Task>,
    begun: Option<IoFuture<Data>>,
    (at, len): (u64, usize),
) -> Result<Data, BlockError> {
    let device = &task.place.unit.device;
    let patience = Patience::new();
    let mut reading = begun.unwrap_or_else(|| device.read(at, len));
    loop {
        let read = reading.await.and_then(|data| task.answer.sendable(data));
        match read {
            Err(error) if patience.bears(error, task).await => reading = device.read(at, len),
            read => return read,
        }
    }
}

//! Room for what a command answers, before there is any of it.

use std::pin::pin;
use std::rc::Rc;

use ring::wait::{Either, first};

use crate::datamover::Promise;
use crate::memory::{self, Claim, Use};
use crate::session::{Connection, Task};

/// How often one who finds no memory lets others know.
const PAUSE: std::time::Duration = std::time::Duration::from_millis(100);

/// The longest parameter data that room is kept for: longer than nearly all of it.
const PARAMETERS_BYTES_MAX: u32 = 64 << 10;

/// A place in the output of a connection, and memory, until what comes there is queued.
#[derive(Debug)]
pub(crate) struct OutputRoom {
    _promise: Promise,
    _claim: Claim,
}

impl OutputRoom {
    /// However much that is.
    pub(crate) fn new(conn: &Rc<Connection>, of: Use, bytes: usize) -> Self {
        let mut claim = Claim::none(&conn.owner, of);
        claim.grow(bytes);
        Self { _promise: Promise::new(&conn.mover, bytes), _claim: claim }
    }

    /// Waits for it; `None` when nobody wants it any more.
    pub(super) async fn wait(task: &Rc<Task>, of: Use, bytes: usize) -> Option<Self> {
        match first(wait(task.conn(), of, bytes), task.wait_aborted()).await {
            Either::Left(room) => Some(room),
            Either::Right(()) => None,
        }
    }
}

/// The place first: who has memory must not wait for its own peer to take something.
async fn wait(conn: &Rc<Connection>, of: Use, bytes: usize) -> OutputRoom {
    let promise = Promise::wait(&conn.mover, bytes).await;
    OutputRoom { _promise: promise, _claim: memory(conn, of, bytes).await }
}

/// Waits for memory for something that is read and not sent; `None` when nobody wants it any more.
pub(super) async fn room_to_read(task: &Task, bytes: usize) -> Option<Claim> {
    match first(memory(task.conn(), Use::Read, bytes), task.wait_aborted()).await {
        Either::Left(claim) => Some(claim),
        Either::Right(()) => None,
    }
}

async fn memory(conn: &Rc<Connection>, of: Use, bytes: usize) -> Claim {
    if !memory::has_room(&conn.owner, of, bytes) {
        conn.mover.note_taken();
    }
    let mut claim = pin!(Claim::wait(&conn.owner, of, bytes));
    loop {
        if let Some(claim) = ring::timeout(PAUSE, claim.as_mut()).await {
            return claim;
        }
        conn.miss_output();
    }
}

/// Room for the parameter data of a command, which a read does not need: it looks after itself.
/// Nor is there any when the task has been aborted meanwhile.
pub(crate) async fn room_for_answer(task: &Rc<Task>) -> Option<OutputRoom> {
    let is_read = matches!(task.command, scsi::cdb::Command::Read { .. });
    let bytes = if is_read { 0 } else { task.answer.expected.read.min(PARAMETERS_BYTES_MAX) };
    match bytes {
        0 => None,
        bytes => OutputRoom::wait(task, Use::Answer, bytes as usize).await,
    }
}

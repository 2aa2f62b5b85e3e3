//! A command under way.

use std::cell::{Cell, RefCell};
use std::time::Instant;

use ring::{Buf, Data};

use super::command::{CommandError, Reply};
use crate::answer::Answer;

/// How far a task is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Phase {
    /// Waits for the target's window.
    Queued,
    /// The target has it.
    Sent,
    /// Its time was up, and the target was told to abort it.
    Aborting,
    /// Answered.
    Over,
}

/// One command of one session.
#[derive(Debug)]
pub(crate) struct Task {
    pub(crate) lun: u64,
    pub(crate) cdb: [u8; 16],
    pub(crate) is_read: bool,
    /// Expected Data Transfer Length.
    pub(crate) expected_bytes: u32,
    pub(crate) data_out: Data,
    /// Where Data-In goes; lent out while a long payload is received straight into it.
    pub(crate) data_in: RefCell<Option<Buf>>,
    /// Data-In bytes that have come: they come in order (DataPDUInOrder, DataSequenceInOrder).
    pub(crate) received_bytes: Cell<u32>,
    pub(crate) data_sn: Cell<u32>,
    pub(crate) r2t_sn: Cell<u32>,
    pub(crate) itt: Cell<u32>,
    pub(crate) cmd_sn: Cell<u32>,
    /// The connection that it was sent on.
    pub(crate) cid: Cell<u16>,
    pub(crate) phase: Cell<Phase>,
    pub(crate) deadline: Instant,
    pub(crate) answer: Answer<Result<Reply, CommandError>>,
}

impl Task {
    /// Takes what was read, `residual` bytes less than expected.
    pub(crate) fn take_data(&self) -> Data {
        let len = self.received_bytes.get() as usize;
        match self.data_in.take() {
            Some(mut buf) => {
                buf.truncate(len);
                buf.freeze()
            }
            None => Data::default(),
        }
    }

    /// Copies a part of the data into place; its bounds were checked with the header.
    pub(crate) fn fill(&self, at: usize, part: &[u8]) {
        if let Some(buf) = self.data_in.borrow_mut().as_mut() {
            buf[at..at + part.len()].copy_from_slice(part);
        }
    }
}

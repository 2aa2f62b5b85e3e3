//! A command under way.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Instant;

use iscsi::pdu::RESERVED_TAG;
use ring::wait::Answer;
use ring::{Buf, Data};

use super::command::{CommandError, Reply, Request, Transfer};

/// Tasks that are kept to be used again: as many as several busy sessions have under way.
const SPARE_MAX: usize = 1024;

thread_local! {
    /// Tasks that are over, so that a command allocates none.
    static SPARE: RefCell<Vec<Rc<Task>>> = const { RefCell::new(Vec::new()) };
}

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
    /// Finds room for what a command reads, and a quiet place for what it writes if that has a digest;
    /// `None` without memory.
    pub(super) fn new(is_digested: bool, request: Request) -> Option<Rc<Self>> {
        let task = Self::of(is_digested, request)?;
        let Some(mut spare) = SPARE.with_borrow_mut(Vec::pop) else { return Some(Rc::new(task)) };
        *Rc::get_mut(&mut spare).expect("what is kept has no other owner") = task;
        Some(spare)
    }

    /// Lets go of a task, and keeps its memory if nobody else has it.
    pub(super) fn recycle(mut task: Rc<Self>) {
        let Some(only) = Rc::get_mut(&mut task) else { return };
        // Buffers are short, and go back at once.
        only.data_in.take();
        only.data_out = Data::default();
        SPARE.with_borrow_mut(|spare| {
            if spare.len() < SPARE_MAX {
                spare.push(task);
            }
        });
    }

    fn of(is_digested: bool, request: Request) -> Option<Self> {
        let (expected_bytes, data_in, data_out) = match request.transfer {
            Transfer::None => (0, None, Data::default()),
            Transfer::In(len) => (len, Some(Buf::alloc(len as usize)?), Data::default()),
            Transfer::Out(data) => {
                let data = if is_digested { data.into_stable()? } else { data };
                (u32::try_from(data.len()).ok()?, None, data)
            }
        };
        Some(Self {
            lun: request.lun,
            cdb: request.cdb,
            is_read: data_in.is_some(),
            expected_bytes,
            data_out,
            data_in: RefCell::new(data_in),
            received_bytes: Cell::new(0),
            data_sn: Cell::new(0),
            r2t_sn: Cell::new(0),
            itt: Cell::new(RESERVED_TAG),
            cmd_sn: Cell::new(0),
            cid: Cell::new(0),
            phase: Cell::new(Phase::Queued),
            deadline: ring::now() + request.timeout,
            answer: Answer::default(),
        })
    }

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

//! One SCSI command that could not end at once: it waits for data, for its turn, or for a disk.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Instant;

use iscsi::ffp::WriteTransfer;
use ring::Buf;
use scsi::cdb::{Command, CommandSpec};

use crate::conn::Connection;
use crate::event::Event;
use crate::ffp::Answer;
use crate::order::Ticket;
use crate::session::UnitNexus;

/// Where the data of a write command is.
#[derive(Debug)]
pub(crate) enum Inbound {
    /// The command takes no data, or execution has taken it.
    Nothing,
    /// Data is on its way, or all here. The buffer is away while the socket fills it.
    Filling { transfer: WriteTransfer, buffer: Option<Buf> },
}

/// A task (SAM-5 §3.1): one command from its arrival to its end.
#[derive(Debug)]
pub(crate) struct Task {
    /// How and to whom it answers.
    pub(crate) answer: Answer,
    pub(crate) place: Rc<UnitNexus>,
    pub(crate) spec: &'static CommandSpec,
    pub(crate) command: Command,
    pub(crate) inbound: RefCell<Inbound>,
    /// Memory for its data, counted against its session until it ends.
    pub(crate) held_bytes: usize,
    /// Tag of its R2Ts; also its slot in the session's table.
    pub(crate) ttt: Cell<u32>,
    pub(crate) ticket: Cell<Option<Ticket>>,
    pub(crate) progress_at: Cell<Instant>,
    /// Whether `run` has begun: such a task can only be waited for.
    pub(crate) runs: Cell<bool>,
    aborted: Event,
    /// It is its turn (or it was aborted).
    pub(crate) turn: Event,
    /// It is over: no effect of it comes after this.
    pub(crate) ended: Event,
}

impl Task {
    pub(crate) fn new(
        answer: Answer,
        place: Rc<UnitNexus>,
        spec: &'static CommandSpec,
        command: Command,
        inbound: Inbound,
    ) -> Self {
        let held_bytes = match &inbound {
            Inbound::Filling { buffer: Some(buffer), .. } => buffer.len(),
            _ => 0,
        };
        Self {
            answer,
            place,
            spec,
            command,
            inbound: RefCell::new(inbound),
            held_bytes,
            ttt: Cell::new(0),
            ticket: Cell::new(None),
            progress_at: Cell::new(ring::now()),
            runs: Cell::new(false),
            aborted: Event::default(),
            turn: Event::default(),
            ended: Event::default(),
        }
    }

    pub(crate) fn conn(&self) -> &Rc<Connection> {
        &self.answer.conn
    }

    pub(crate) fn is_aborted(&self) -> bool {
        self.aborted.has_happened()
    }

    pub(crate) fn mark_aborted(&self) {
        self.aborted.set();
        self.turn.set();
    }

    /// Waits until nobody waits for this task's answer any more.
    pub(crate) async fn wait_aborted(&self) {
        self.aborted.wait().await;
    }

    /// Waits for data that the initiator announced.
    pub(crate) fn awaits_data(&self) -> bool {
        match &*self.inbound.borrow() {
            Inbound::Nothing => false,
            Inbound::Filling { transfer, .. } => !transfer.is_complete(),
        }
    }

    /// Copies a part of the data to its place; what lies beyond the wanted length is dropped.
    pub(crate) fn fill(&self, offset: usize, part: &[u8]) {
        if let Inbound::Filling { buffer: Some(buffer), .. } = &mut *self.inbound.borrow_mut() {
            let end = (offset + part.len()).min(buffer.len());
            if offset < end {
                buffer[offset..end].copy_from_slice(&part[..end - offset]);
            }
        }
    }

    /// Takes the buffer away, for the socket to fill it.
    pub(crate) fn lend_buffer(&self) -> Option<Buf> {
        match &mut *self.inbound.borrow_mut() {
            Inbound::Filling { buffer, .. } if !self.is_aborted() => buffer.take(),
            _ => None,
        }
    }

    /// Brings the buffer back; an aborted task no longer wants it.
    pub(crate) fn return_buffer(&self, place: Buf) {
        if let Inbound::Filling { buffer, .. } = &mut *self.inbound.borrow_mut() {
            *buffer = Some(place);
        }
    }

    /// All data, when it is complete.
    pub(crate) fn take_data(&self) -> Option<Buf> {
        match self.inbound.replace(Inbound::Nothing) {
            Inbound::Filling { buffer, .. } => buffer,
            Inbound::Nothing => None,
        }
    }
}

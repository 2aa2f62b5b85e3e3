//! One SCSI command that could not end at once: it waits for data, for its turn, or for a disk.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::{Duration, Instant};

use iscsi::ffp::WriteTransfer;
use ring::Buf;
use ring::wait::Event;
use scsi::cdb::{Command, CommandSpec};

use super::{Answer, Connection, Pace, UnitNexus, shortage};
use crate::memory::{Claim, Held, Level};
use crate::order::Ticket;

/// How long data that was announced may not come whose memory others could use. Shorter than a command
/// waits for room.
const UNASKED_TIME: Duration = Duration::from_secs(1);

/// Where the data of a write command is.
#[derive(Debug)]
pub(crate) enum Inbound {
    /// The command takes no data, or execution has taken it.
    Nothing,
    /// Data is on its way, or all here.
    Filling {
        transfer: WriteTransfer,
        room: Room,
        /// It was announced to come unasked.
        comes_unasked: bool,
        /// How fast it comes since there is room for it.
        pace: Pace,
    },
}

/// The memory for the data of a command.
#[derive(Debug)]
pub(crate) enum Room {
    /// Empty while the socket fills the buffer.
    Here(Held),
    /// There is none yet for so many bytes, of which these came with the command.
    Awaited { wanted: usize, first: Option<Held> },
}

/// Room for data that does not come.
#[derive(Clone, Copy, Debug)]
pub(crate) struct IdleRoom {
    /// For how long next to nothing has come.
    pub(crate) time: Duration,
    /// That is too long where others find none.
    pub(crate) gives_way: bool,
    /// The socket is filling it: it cannot be taken away.
    pub(crate) is_filled: bool,
    /// It does not come unasked.
    pub(crate) was_asked: bool,
    pub(crate) bytes: usize,
    /// How well its owner was known when it was given to it.
    pub(crate) level: Level,
}

/// How a task was aborted (SAM-5 §5.6).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Aborted {
    /// By its own nexus, or with it: nobody waits for an answer.
    Silently,
    /// By another nexus: its initiator is told, when nothing of the task can follow.
    ByOther,
}

/// A task (SAM-5 §3.1): one command from its arrival to its end.
#[derive(Debug)]
pub(crate) struct Task {
    /// How and to whom it answers.
    pub(crate) answer: Answer,
    pub(crate) place: Rc<UnitNexus>,
    pub(crate) spec: &'static CommandSpec,
    pub(crate) command: Command,
    /// When its command came.
    pub(crate) since: Instant,
    pub(crate) inbound: RefCell<Inbound>,
    /// To memory for data that execution has taken.
    claim: RefCell<Option<Claim>>,
    /// Tag of its R2Ts; also its slot in the session's table.
    pub(crate) ttt: Cell<u32>,
    pub(crate) ticket: Cell<Option<Ticket>>,
    /// Whether `run` has begun: such a task can only be waited for.
    pub(crate) runs: Cell<bool>,
    is_aborted: Event,
    aborted: Cell<Option<Aborted>>,
    /// Data-In PDUs that have been sent for it.
    pub(crate) data_pdus: Cell<u32>,
    /// It is its turn (or it was aborted).
    pub(crate) turn: Event,
    /// It is over: no effect of it comes after this.
    pub(crate) ended: Event,
}

impl Task {
    pub(crate) fn new(
        answer: Answer,
        place: Rc<UnitNexus>,
        (spec, command): (&'static CommandSpec, Command),
        inbound: Inbound,
    ) -> Self {
        Self {
            answer,
            place,
            spec,
            command,
            since: ring::now(),
            inbound: RefCell::new(inbound),
            claim: RefCell::default(),
            ttt: Cell::new(0),
            ticket: Cell::new(None),
            runs: Cell::new(false),
            is_aborted: Event::default(),
            aborted: Cell::new(None),
            data_pdus: Cell::new(0),
            turn: Event::default(),
            ended: Event::default(),
        }
    }

    pub(crate) fn conn(&self) -> &Rc<Connection> {
        &self.answer.conn
    }

    pub(crate) fn is_aborted(&self) -> bool {
        self.is_aborted.has_happened()
    }

    /// Whether it was, and how.
    pub(crate) fn aborted(&self) -> Option<Aborted> {
        self.aborted.get()
    }

    /// Once its own nexus has aborted it there is no answer, whoever else did.
    pub(crate) fn mark_aborted(&self, how: Aborted) {
        if self.aborted.get() != Some(Aborted::Silently) {
            self.aborted.set(Some(how));
        }
        self.is_aborted.set();
        self.turn.set();
    }

    /// Waits until nobody waits for this task's answer any more.
    pub(crate) async fn wait_aborted(&self) {
        self.is_aborted.wait().await;
    }

    /// Waits for data that the initiator announced.
    pub(crate) fn awaits_data(&self) -> bool {
        match &*self.inbound.borrow() {
            Inbound::Nothing => false,
            Inbound::Filling { transfer, .. } => !transfer.is_complete(),
        }
    }

    /// Bytes that its initiator was asked for, or sends unasked, and that have not come.
    pub(crate) fn missing_bytes(&self) -> u64 {
        match &*self.inbound.borrow() {
            Inbound::Nothing | Inbound::Filling { room: Room::Awaited { .. }, .. } => 0,
            Inbound::Filling { transfer, .. } => transfer.missing_bytes().into(),
        }
    }

    /// The room that is kept for its data, of which not all has come, where `missing` bytes of its
    /// connection have not, in whose PDU nothing has come for `stopped`.
    pub(crate) fn idle_room(&self, missing: u64, stopped: Duration) -> Option<IdleRoom> {
        match &mut *self.inbound.borrow_mut() {
            Inbound::Filling { transfer, room: Room::Here(held), comes_unasked, pace }
                if !transfer.is_complete() =>
            {
                let is_filled = held.buf.is_empty();
                let time = match is_filled {
                    true => stopped,
                    false => pace.idle_time(self.conn(), missing),
                };
                let limit = if *comes_unasked { UNASKED_TIME } else { shortage::asked_time() };
                let gives_way = !is_filled && time >= limit;
                let (bytes, level) = (held.claim.bytes(), held.claim.level());
                let was_asked = !*comes_unasked;
                Some(IdleRoom { time, gives_way, is_filled, was_asked, bytes, level })
            }
            _ => None,
        }
    }

    /// All its data is here. How long that took shows others' patience where to end.
    pub(crate) fn note_pace(&self) {
        if let Inbound::Filling { comes_unasked: false, pace, .. } = &*self.inbound.borrow() {
            shortage::came_in(pace.age());
        }
    }

    /// Gives the memory for its data back, and takes no more of it.
    pub(crate) fn forget_data(&self) {
        self.inbound.replace(Inbound::Nothing);
    }

    /// How much memory it waits for before data can be asked for.
    pub(crate) fn waits_for_room(&self) -> Option<usize> {
        match &*self.inbound.borrow() {
            Inbound::Filling { room: Room::Awaited { wanted, .. }, .. } => Some(*wanted),
            _ => None,
        }
    }

    /// The memory is there.
    pub(crate) fn set_room(&self, held: Held) {
        if let Inbound::Filling { room, pace, .. } = &mut *self.inbound.borrow_mut()
            && let Room::Awaited { first, .. } = room
        {
            *pace = Pace::of(self.conn());
            let first = first.take();
            let bytes = first.as_ref().map_or(&[][..], |first| &first.buf);
            *room = Room::Here(held.with_first(bytes));
        }
    }

    /// Copies a part of the data to its place; what lies beyond the wanted length is dropped.
    pub(crate) fn fill(&self, offset: usize, part: &[u8]) {
        let mut inbound = self.inbound.borrow_mut();
        if let Inbound::Filling { room: Room::Here(Held { buf, .. }), .. } = &mut *inbound {
            let end = (offset + part.len()).min(buf.len());
            if offset < end {
                buf[offset..end].copy_from_slice(&part[..end - offset]);
            }
        }
    }

    /// Takes the buffer away, for the socket to fill it.
    pub(crate) fn lend_buffer(&self) -> Option<Buf> {
        match &mut *self.inbound.borrow_mut() {
            Inbound::Filling { room: Room::Here(held), .. } if !self.is_aborted() => {
                let buf = std::mem::replace(&mut held.buf, Buf::empty());
                (!buf.is_empty()).then_some(buf)
            }
            _ => None,
        }
    }

    /// Brings the buffer back.
    pub(crate) fn return_buffer(&self, place: Buf) {
        if let Inbound::Filling { room: Room::Here(held), .. } = &mut *self.inbound.borrow_mut() {
            held.buf = place;
        }
    }

    /// All data, when it is complete. Its memory is counted until the task is over.
    pub(crate) fn take_data(&self) -> Option<Buf> {
        match self.inbound.replace(Inbound::Nothing) {
            Inbound::Filling { room: Room::Here(Held { buf, claim }), .. } => {
                *self.claim.borrow_mut() = Some(claim);
                Some(buf)
            }
            _ => None,
        }
    }
}

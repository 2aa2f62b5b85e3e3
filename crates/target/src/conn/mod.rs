//! One connection in full-feature phase: what is shared by its reader, its sender, its supervisor
//! and the tasks that answer through it.

mod out;
mod pace;
mod receive;
mod run;
mod window;

use std::cell::{Cell, RefCell};
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::{Duration, Instant};

use iscsi::discovery::TargetText;
use iscsi::login::LoginOutcome;
use iscsi::params::ConnectionParams;
use ring::{Buf, SendBatch, Stream};

use crate::event::{Bell, Event};
use crate::login::Ends;
use crate::memory::{self, Claim, Held, Owner, Use};
use crate::session::Session;
use crate::shortage;

use window::OutputWindow;

pub(crate) use pace::Pace;
pub(crate) use receive::{Fault, Payload, reject_unknown};
pub(crate) use run::serve;
pub(crate) use window::Promise;

/// Why a connection ends. The first reason stays.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    /// The initiator closed it or it broke.
    Closed,
    /// The initiator logged out: what is queued is still sent.
    LoggedOut,
    /// The peer broke the protocol.
    Fault(Fault),
    /// The peer went silent, or stopped reading or sending.
    Stalled(&'static str),
    /// A new connection with the same CID takes its place.
    Replaced,
    /// The session was reinstated, reset or logged out over another connection.
    SessionEnded,
    /// The target stops.
    Shutdown,
}

/// An outstanding NOP-In that asks for a sign of life (RFC 7143 §11.19).
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ping {
    pub(crate) ttt: u32,
    pub(crate) since: Instant,
}

/// What is queued for a peer that has not even said what it wants to use.
const DISCOVERY_OUTPUT_BYTES: usize = 64 << 10;

/// Bytes that a peer had acknowledged, or sent, at some time.
#[derive(Clone, Copy, Debug)]
struct Counted {
    bytes: u64,
    at: Instant,
}

/// One connection of a session; lives on the session's core.
#[derive(Debug)]
pub(crate) struct Connection {
    pub(crate) cid: u16,
    pub(crate) peer: SocketAddr,
    pub(crate) local: SocketAddr,
    pub(crate) params: Cell<ConnectionParams>,
    pub(crate) session: Rc<Session>,
    /// Whom its memory is counted against.
    pub(crate) owner: Rc<Owner>,
    stream: Stream,
    stat_sn: Cell<u32>,
    /// Output that the sender takes at the end of the turn.
    out: RefCell<SendBatch>,
    /// Memory of the pool that `out` keeps.
    out_claim: RefCell<Claim>,
    /// Memory of the heap that it keeps.
    answers_claim: RefCell<Claim>,
    window: OutputWindow,
    /// What its peer had acknowledged when that was last asked.
    acknowledged_bytes: Cell<u64>,
    /// What its peer had acknowledged when somebody first missed the memory of what it is to take.
    missed: Cell<Option<Counted>>,
    /// What it had sent when somebody first missed the memory of the PDU that it sends.
    stopped: Cell<Option<Counted>>,
    out_rings: Bell,
    /// Rings when output has left.
    pub(crate) room: Bell,
    ending: RefCell<Option<Ending>>,
    pub(crate) ended: Event,
    /// The sender has sent what was to be sent, and stopped.
    drained: Event,
    pub(crate) heard_at: Cell<Instant>,
    /// When the payload that is being received last made progress.
    receiving_since: Cell<Option<Instant>>,
    pub(crate) ping: Cell<Option<Ping>>,
    next_ping: Cell<u32>,
    /// Bytes of Data-Out that have come for commands.
    data_out_bytes: Cell<u64>,
    pub(crate) text: RefCell<TargetText>,
}

impl Connection {
    pub(crate) fn new(
        stream: Stream,
        ends: Ends,
        session: Rc<Session>,
        outcome: &LoginOutcome,
    ) -> Self {
        let owner = Owner::new(&session.initiator, ends.peer.ip());
        let most = match session.is_discovery() {
            true => DISCOVERY_OUTPUT_BYTES,
            false => session.shared.limits.output_bytes,
        };
        Self {
            cid: outcome.cid,
            peer: ends.peer,
            local: ends.local,
            params: Cell::new(outcome.connection),
            session,
            out_claim: RefCell::new(Claim::none(&owner, Use::Read)),
            answers_claim: RefCell::new(Claim::none(&owner, Use::Answer)),
            window: OutputWindow::new(most),
            acknowledged_bytes: Cell::new(0),
            missed: Cell::new(None),
            stopped: Cell::new(None),
            owner,
            stream,
            stat_sn: Cell::new(outcome.next_stat_sn),
            out: RefCell::new(SendBatch::new()),
            out_rings: Bell::default(),
            room: Bell::default(),
            ending: RefCell::new(None),
            ended: Event::default(),
            drained: Event::default(),
            heard_at: Cell::new(ring::now()),
            receiving_since: Cell::new(None),
            ping: Cell::new(None),
            next_ping: Cell::new(1),
            data_out_bytes: Cell::new(0),
            text: RefCell::default(),
        }
    }

    /// So many bytes of data have come for a command.
    #[inline]
    fn count_data_out(&self, bytes: usize) {
        self.data_out_bytes.set(self.data_out_bytes.get() + bytes as u64);
        self.owner.delivered(bytes);
    }

    /// What data that comes unasked now is counted as.
    fn unasked(&self, bytes: usize) -> Use {
        let is_full = !memory::has_room(&self.owner, Use::Pushed, bytes);
        if is_full && self.session.missing_bytes(self) > 0 { Use::Behind } else { Use::Pushed }
    }

    /// Whether there is room for so much that comes unasked.
    fn has_room_for(&self, len: usize) -> bool {
        let bytes = Buf::capacity_of(len);
        memory::has_room(&self.owner, self.unasked(bytes), bytes)
    }

    /// Room for `len` bytes that come unasked.
    pub(crate) fn room_for(&self, len: usize) -> Option<Held> {
        let room = || Held::new(&self.owner, self.unasked(Buf::capacity_of(len)), len);
        room().or_else(|| {
            shortage::make_room();
            room()
        })
    }

    /// For how long nothing has come of a PDU that is coming, since somebody first asked.
    pub(crate) fn stopped_in_a_pdu(&self) -> Duration {
        let bytes = self.stream.received_bytes().ok();
        let (Some(_), Some(bytes)) = (self.receiving_since.get(), bytes) else {
            return Duration::ZERO;
        };
        let now = Counted { bytes, at: ring::now() };
        let before = self.stopped.get().filter(|before| before.bytes == bytes).unwrap_or(now);
        self.stopped.set(Some(before));
        now.at - before.at
    }

    /// Something has come from its peer that this core is late to read. While its peer takes no answers
    /// it is not read from, which is no excuse.
    pub(crate) fn has_unread(&self) -> bool {
        self.has_room() && self.stream.unread_bytes().is_ok_and(|bytes| bytes > 0)
    }

    /// Ends the connection: the reader stops, and the sender after what is queued (logout) or at
    /// once (all else).
    pub(crate) fn end(&self, why: Ending) {
        let mut ending = self.ending.borrow_mut();
        if ending.is_some() {
            return;
        }
        self.note_taken();
        let graceful = matches!(why, Ending::LoggedOut | Ending::Shutdown);
        *ending = Some(why);
        drop(ending);
        self.ended.set();
        self.out_rings.ring();
        self.room.ring();
        if !graceful {
            self.close();
        }
    }

    /// Shuts the socket down in both directions, which ends all waiting on it. The kernel would go on
    /// for a while to send what a peer does not take that has been given up: that is thrown away.
    fn close(&self) {
        let is_given_up = matches!(*self.ending.borrow(), Some(Ending::Stalled(_)));
        let is_closed = is_given_up && self.stream.abort().is_ok();
        if !is_closed {
            // It fails when the peer has closed already, which is what is wanted.
            drop(self.stream.shutdown());
        }
    }

    pub(crate) fn is_ending(&self) -> bool {
        self.ended.has_happened()
    }

    /// A logout's answer is still sent; after anything else the socket is gone.
    fn drains_at_end(&self) -> bool {
        matches!(*self.ending.borrow(), Some(Ending::LoggedOut | Ending::Shutdown))
    }

    pub(crate) fn ending(&self) -> Option<Ending> {
        self.ending.borrow().clone()
    }
}

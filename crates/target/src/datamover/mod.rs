//! The datamover between a connection of a session and its socket (RFC 5047): it moves PDUs and data, and
//! knows neither sessions nor tasks.
//!
//! | RFC 5047 | here |
//! |---|---|
//! | Send_Control | [`Tcp::send_control`] |
//! | Put_Data | [`Tcp::put_data`]: by reference, out of the memory of the disk |
//! | Get_Data | an R2T, which on TCP is a PDU like any other; the data comes as Data-Out |
//! | Control_Notify, Data_Completion_Notify | [`Tcp::receive`], whose bytes `ffp` takes apart |
//! | Connection_Terminate | [`Tcp::end`] |
//!
//! TCP is the only one so far. What iSER does in another way stands behind these calls: who makes a task's
//! answer does not know whether its data goes as Data-In or as RDMA Write.

mod out;
mod window;

use std::cell::{Cell, RefCell};
use std::io;
use std::net::SocketAddr;
use std::ops::Range;
use std::rc::Rc;
use std::time::{Duration, Instant};

use iscsi::params::ConnectionParams;
use ring::wait::{Bell, Event};
use ring::{Buf, RecvBuf, SendBatch, Stream};

use crate::memory::{Claim, Owner, Use};

use window::OutputWindow;

pub(crate) use window::Promise;

/// Of what is to be taken at least this part must be, in the time that there is for it.
const PART: u64 = 4;

/// Where a connection comes from and came to.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ends {
    pub(crate) peer: SocketAddr,
    pub(crate) local: SocketAddr,
}

/// How a connection is closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Close {
    /// After what is queued has been sent.
    Drained,
    /// At once.
    Shut,
    /// At once, and what its peer has not taken is thrown away.
    Aborted,
}

/// Bytes that a peer had acknowledged, or sent, at some time.
#[derive(Clone, Copy, Debug)]
struct Counted {
    bytes: u64,
    at: Instant,
}

/// One TCP connection, from its login to its end; lives on the core of its session.
#[derive(Debug)]
pub(crate) struct Tcp {
    pub(crate) params: Cell<ConnectionParams>,
    /// Whom its memory is counted against.
    pub(crate) owner: Rc<Owner>,
    stream: Stream,
    /// Output that the sender takes at the end of the turn.
    out: RefCell<SendBatch>,
    /// Memory of the pool that `out` keeps.
    out_claim: RefCell<Claim>,
    /// Memory of the heap that it keeps.
    answers_claim: RefCell<Claim>,
    window: OutputWindow,
    /// Bytes of Data-In that were queued for its peer, ever.
    data_in_bytes: Cell<u64>,
    /// What its peer had acknowledged when that was last asked.
    acknowledged_bytes: Cell<u64>,
    /// What its peer had acknowledged when somebody first missed the memory of what it is to take.
    missed: Cell<Option<Counted>>,
    /// What it had sent when somebody first missed the memory of the PDU that it sends.
    stopped: Cell<Option<Counted>>,
    out_rings: Bell,
    /// Rings when output has left.
    room: Bell,
    close: Cell<Option<Close>>,
    /// It takes and sends nothing more, but for what is to be drained.
    pub(crate) ended: Event,
    /// The sender has sent what was to be sent, and stopped.
    pub(crate) drained: Event,
    /// When something last came.
    pub(crate) heard_at: Cell<Instant>,
    /// When the payload that is being received last made progress.
    pub(crate) receiving_since: Cell<Option<Instant>>,
}

impl Tcp {
    /// Takes a connection over when it has logged in. Of its output no more than `output_bytes_max`
    /// waits for its peer.
    pub(crate) fn new(
        stream: Stream,
        params: ConnectionParams,
        owner: Rc<Owner>,
        output_bytes_max: usize,
    ) -> Self {
        Self {
            params: Cell::new(params),
            out_claim: RefCell::new(Claim::none(&owner, Use::Read)),
            answers_claim: RefCell::new(Claim::none(&owner, Use::Answer)),
            window: OutputWindow::new(output_bytes_max),
            data_in_bytes: Cell::new(0),
            acknowledged_bytes: Cell::new(0),
            missed: Cell::new(None),
            stopped: Cell::new(None),
            owner,
            stream,
            out: RefCell::new(SendBatch::new()),
            out_rings: Bell::default(),
            room: Bell::default(),
            close: Cell::new(None),
            ended: Event::default(),
            drained: Event::default(),
            heard_at: Cell::new(ring::now()),
            receiving_since: Cell::new(None),
        }
    }

    // ---- what comes ----------------------------------------------------------------------------

    /// The next bytes; none at the end.
    pub(crate) async fn receive(&self) -> io::Result<RecvBuf> {
        let chunk = self.stream.recv().await?;
        if !chunk.is_empty() {
            self.heard_at.set(ring::now());
        }
        Ok(chunk)
    }

    /// Receives straight into `range` of a buffer, which comes back in any case.
    pub(crate) async fn receive_into(
        &self,
        place: Buf,
        range: Range<usize>,
    ) -> (Buf, io::Result<()>) {
        let (place, result) = self.stream.recv_exact(place, range).await;
        self.heard_at.set(ring::now());
        (place, result)
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

    // ---- what its peer takes -------------------------------------------------------------------

    /// Its owner is known for what its peer has taken by now. That is asked of the system, so only when it
    /// matters, and returned.
    pub(crate) fn note_taken(&self) -> Option<u64> {
        let before = self.acknowledged_bytes.get();
        // The system has forgotten it when the connection has been thrown away.
        let bytes = self.stream.acknowledged_bytes().ok()?.max(before);
        self.acknowledged_bytes.set(bytes);
        self.owner.taken(usize::try_from(bytes - before).unwrap_or(usize::MAX));
        Some(bytes)
    }

    /// Since when the socket takes what it was given last.
    pub(crate) fn sending_since(&self) -> Option<Instant> {
        self.window.sending_since()
    }

    /// Of its output too little was taken for so long, since somebody first asked.
    pub(crate) fn takes_nothing(&self, limit: Duration) -> bool {
        let (Some(_), Some(bytes)) = (self.window.sending_since(), self.note_taken()) else {
            return false;
        };
        let now = Counted { bytes, at: ring::now() };
        let before = self.missed.get().unwrap_or(now);
        let taken = now.bytes - before.bytes;
        let is_much = taken > self.window.held_bytes() as u64 / PART;
        self.missed.set(Some(if is_much { now } else { before }));
        !is_much && now.at - before.at >= limit
    }

    // ---- its end -------------------------------------------------------------------------------

    /// Ends it; only the first call counts.
    pub(crate) fn end(&self, how: Close) {
        if self.is_ending() {
            return;
        }
        self.note_taken();
        self.close.set(Some(how));
        self.ended.set();
        self.out_rings.ring();
        self.room.ring();
        if how != Close::Drained {
            self.close();
        }
    }

    /// Shuts the socket down in both directions, which ends all waiting on it. The kernel would go on
    /// for a while to send what a peer does not take that has been given up: that is thrown away.
    pub(crate) fn close(&self) {
        let is_given_up = self.close.get() == Some(Close::Aborted);
        let is_closed = is_given_up && self.stream.abort().is_ok();
        if !is_closed {
            // It fails when the peer has closed already, which is what is wanted.
            drop(self.stream.shutdown());
        }
    }

    #[inline]
    pub(crate) fn is_ending(&self) -> bool {
        self.ended.has_happened()
    }
}

//! The datamover between a connection of a session and its socket (RFC 5047): it moves PDUs and data, and
//! knows neither sessions nor tasks. TCP is the only one so far.

mod out;

use std::cell::{Cell, RefCell};
use std::io;
use std::ops::Range;
use std::time::Instant;

use iscsi::params::ConnectionParams;
use ring::wait::Bell;
use ring::{Buf, RecvBuf, SendBatch, Stream};

/// One TCP connection, from its login to its end.
#[derive(Debug)]
pub(crate) struct Tcp {
    pub(crate) params: ConnectionParams,
    stream: Stream,
    /// Output that the sender takes at the end of the turn.
    out: RefCell<SendBatch>,
    out_bell: Bell,
    sending_since: Cell<Option<Instant>>,
    /// When something last came.
    heard_at: Cell<Instant>,
    ended: Cell<bool>,
}

impl Tcp {
    pub(crate) fn new(stream: Stream, params: ConnectionParams) -> Self {
        Self {
            params,
            stream,
            out: RefCell::new(SendBatch::new()),
            out_bell: Bell::default(),
            sending_since: Cell::new(None),
            heard_at: Cell::new(ring::now()),
            ended: Cell::new(false),
        }
    }

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

    pub(crate) fn heard_at(&self) -> Instant {
        self.heard_at.get()
    }

    /// Since when the socket takes what it was given last.
    pub(crate) fn sending_since(&self) -> Option<Instant> {
        self.sending_since.get()
    }

    /// Whether the network loses what we send: the kernel has sent `times` times in a row again and
    /// not heard that any of it arrived.
    pub(crate) fn is_undelivered(&self, times: u8) -> bool {
        self.stream.retransmits().is_ok_and(|now| now >= times)
    }

    /// Ends it: nothing more is sent or received. What the socket still holds is thrown away, but for a
    /// peer that `has_read_all`.
    pub(crate) fn end(&self, has_read_all: bool) {
        // Both fail when the peer has closed already, which is what is wanted.
        match has_read_all {
            true => drop(self.stream.shutdown()),
            false => drop(self.stream.abort()),
        }
        self.ended.set(true);
        self.out_bell.ring();
    }

    pub(crate) fn is_ending(&self) -> bool {
        self.ended.get()
    }
}

//! One connection in full feature phase: what is shared by its reader, its sender and its watch.

mod out;
mod receive;
mod run;

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Instant;

use iscsi::params::{ConnectionParams, SessionParams};
use ring::{Notify, SendBatch, Stream};

use crate::answer::Answer;
use crate::login::LoggedIn;
use crate::session::Inner;

pub(crate) use out::still;
pub(crate) use receive::{Fault, take_stat_sn};
pub(crate) use run::serve;

/// Why a connection ends. The first reason stays.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Ending {
    /// The target closed it or it broke.
    #[error("the connection was closed or broke")]
    Closed,
    /// We logged out.
    #[error("logged out")]
    LoggedOut,
    /// The target broke the protocol.
    #[error("the target broke the protocol: {0}")]
    Fault(#[from] Fault),
    /// The target went silent or stopped reading.
    #[error("the target {0}")]
    Stalled(&'static str),
    /// Another connection of the session has ended: at ErrorRecoveryLevel 0 its commands cannot be
    /// handed over to this one, so all go (RFC 7143 7.1.4.4).
    #[error("another connection of the session ended")]
    Sibling,
    /// Nobody holds the session any more, and there was no logout.
    #[error("the session was given up")]
    Abandoned,
    /// The target says that it drops us (RFC 7143 11.9.1).
    #[error("the target drops the session")]
    Dropped,
}

/// One connection.
#[derive(Debug)]
pub(crate) struct Connection {
    pub(crate) session: Rc<Inner>,
    /// Its number in the session; 0 is the one that logged in first.
    pub(crate) cid: u16,
    /// Commands under way on it.
    pub(crate) in_flight: Cell<u32>,
    /// Whether its watch looks often; rings when it should.
    is_watched: Cell<bool>,
    busy: Notify,
    /// Nothing is heard although an answer is due.
    pub(crate) is_silent: Cell<bool>,
    pub(crate) params: ConnectionParams,
    pub(crate) terms: SessionParams,
    stream: Stream,
    /// Output that the sender takes at the end of the turn.
    out: RefCell<SendBatch>,
    out_bell: Notify,
    sending_since: Cell<Option<Instant>>,
    /// The StatSN that comes next.
    pub(crate) exp_stat_sn: Cell<u32>,
    pub(crate) heard_at: Cell<Instant>,
    /// When an answer to our ping began to be waited for.
    pub(crate) ping_since: Cell<Option<Instant>>,
    /// Answers to pings, and a bell for each.
    pub(crate) pongs: Cell<u64>,
    pub(crate) pong: Notify,
    pub(crate) logout: Answer<()>,
    ending: RefCell<Option<Ending>>,
    ended: Notify,
    drained: Cell<bool>,
}

impl Connection {
    /// `terms` are those of the session's first connection.
    pub(crate) fn new(
        session: Rc<Inner>,
        cid: u16,
        terms: SessionParams,
        logged_in: LoggedIn,
    ) -> (Rc<Self>, Vec<u8>) {
        let LoggedIn { stream, outcome, early, .. } = logged_in;
        let conn = Self {
            session,
            cid,
            in_flight: Cell::new(0),
            is_watched: Cell::new(true),
            busy: Notify::new(),
            is_silent: Cell::new(false),
            params: outcome.connection,
            terms,
            stream,
            out: RefCell::new(SendBatch::new()),
            out_bell: Notify::new(),
            sending_since: Cell::new(None),
            exp_stat_sn: Cell::new(outcome.exp_stat_sn),
            heard_at: Cell::new(ring::now()),
            ping_since: Cell::new(None),
            pongs: Cell::new(0),
            pong: Notify::new(),
            logout: Answer::default(),
            ending: RefCell::new(None),
            ended: Notify::new(),
            drained: Cell::new(false),
        };
        (Rc::new(conn), early)
    }

    /// Ends the connection: nothing more is sent or received.
    pub(crate) fn end(&self, why: impl Into<Ending>) {
        if self.is_ending() {
            return;
        }
        let why = why.into();
        // Both fail when the peer has closed already, which is what is wanted.
        match why {
            // The target has read all there was: it said so.
            Ending::LoggedOut => drop(self.stream.shutdown()),
            _ => drop(self.stream.abort()),
        }
        *self.ending.borrow_mut() = Some(why);
        self.ended.notify();
        self.out_bell.notify();
        self.pong.notify();
    }

    /// One more command is under way.
    pub(crate) fn begin_command(&self) {
        self.in_flight.set(self.in_flight.get() + 1);
        if !self.is_watched.get() {
            self.busy.notify();
        }
    }

    /// Whether the network loses what we send: the kernel has sent `times` times in a row again and
    /// not heard that any of it arrived.
    pub(crate) fn is_undelivered(&self, times: u8) -> bool {
        self.stream.retransmits().is_ok_and(|now| now >= times)
    }

    pub(crate) fn is_ending(&self) -> bool {
        self.ending.borrow().is_some()
    }

    /// Why it ended.
    pub(crate) fn ending(&self) -> Ending {
        self.ending.borrow().clone().unwrap_or(Ending::Closed)
    }
}

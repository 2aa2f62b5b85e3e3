//! One connection of a session in full feature phase: what is shared by its reader and its watch. Its bytes
//! are moved by a [`datamover`](crate::datamover).

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Instant;

use iscsi::ffp::serial_lt;
use iscsi::framing::FrameError;
use iscsi::params::{ConnectionParams, SessionParams};
use ring::wait::{Answer, Bell};

use super::Inner;
use crate::datamover::Tcp;
use crate::login::LoggedIn;

/// How a target broke the protocol. The connection ends: at ErrorRecoveryLevel 0 nothing smaller
/// can be mended (RFC 7143 7).
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Fault {
    #[error("{0}")]
    Frame(#[from] FrameError),
    #[error("{0}")]
    Protocol(&'static str),
    #[error("it rejected a PDU: {0}")]
    Rejected(String),
}

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
    pub(super) is_watched: Cell<bool>,
    pub(super) busy: Bell,
    /// Nothing is heard although an answer is due.
    pub(crate) is_silent: Cell<bool>,
    pub(crate) mover: Tcp,
    pub(crate) params: ConnectionParams,
    pub(crate) terms: SessionParams,
    /// The StatSN that comes next.
    pub(crate) exp_stat_sn: Cell<u32>,
    /// When an answer to our ping began to be waited for.
    pub(crate) ping_since: Cell<Option<Instant>>,
    /// Answers to pings, and a bell for each.
    pub(crate) pongs: Cell<u64>,
    pub(crate) pong: Bell,
    pub(crate) logout: Answer<()>,
    ending: RefCell<Option<Ending>>,
    pub(super) ended: Bell,
    pub(super) drained: Cell<bool>,
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
            busy: Bell::default(),
            is_silent: Cell::new(false),
            mover: Tcp::new(stream, outcome.connection),
            params: outcome.connection,
            terms,
            exp_stat_sn: Cell::new(outcome.exp_stat_sn),
            ping_since: Cell::new(None),
            pongs: Cell::new(0),
            pong: Bell::default(),
            logout: Answer::default(),
            ending: RefCell::new(None),
            ended: Bell::default(),
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
        // The target has read all there was where it let us log out.
        self.mover.end(why == Ending::LoggedOut);
        *self.ending.borrow_mut() = Some(why);
        self.ended.ring();
        self.pong.ring();
    }

    /// One more command is under way.
    pub(crate) fn begin_command(&self) {
        self.in_flight.set(self.in_flight.get() + 1);
        if !self.is_watched.get() {
            self.busy.ring();
        }
    }

    pub(crate) fn is_ending(&self) -> bool {
        self.mover.is_ending()
    }

    /// Why it ended.
    pub(crate) fn ending(&self) -> Ending {
        self.ending.borrow().clone().unwrap_or(Ending::Closed)
    }
}

/// Takes the StatSN of a PDU that carries one: they come without gaps on a connection that works.
pub(crate) fn take_stat_sn(conn: &Connection, stat_sn: u32) -> Result<(), Fault> {
    let expected = conn.exp_stat_sn.get();
    if stat_sn != expected {
        let what = if serial_lt(stat_sn, expected) { "StatSN again" } else { "StatSN is missing" };
        return Err(Fault::Protocol(what));
    }
    conn.exp_stat_sn.set(expected.wrapping_add(1));
    Ok(())
}

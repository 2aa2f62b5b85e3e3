//! Whether an initiator has heard what its nexus was told.
//!
//! A unit attention is told once and goes (SPC-5 7.5.8, UA_INTLCK_CTRL 00b). But the commands behind
//! it may have been sent before, and wait in sockets: after a reset by another nexus they must not run,
//! since whoever asked for it may be about to write the same blocks over another path. So the word of
//! a reset is repeated to every command that was sent before its initiator heard it, which is known:
//! a later request, of whatever kind, acknowledges the answer (ExpStatSN, RFC 7143 §11.3.3). In the same way the first word
//! of a nexus counts as told only once it is acknowledged.

use std::cell::{Cell, RefCell};

use iscsi::ffp::{serial_le, serial_lt};
use iscsi::pdu::Bhs;
use scsi::cdb::CommandSpec;
use scsi::{AdditionalSense, Sense};

use super::{Connection, UnitNexus};
use crate::mutants::{self, Mutant};

const RESET: AdditionalSense = AdditionalSense::BUS_DEVICE_RESET_FUNCTION_OCCURRED;

/// See the module's page. Invariant: `is_open` while anything is left to be heard.
#[derive(Debug)]
pub(super) struct Hearing {
    is_open: Cell<bool>,
    greeting: Cell<Greeting>,
    /// The connections over which commands may come that were sent before the last reset was heard.
    resets: RefCell<Vec<Unheard>>,
}

/// The first word of a nexus: what it is told because it is new.
#[derive(Clone, Copy, Debug)]
enum Greeting {
    NotTold,
    Told(u16, Mark),
    Heard,
}

/// One connection, and the answer that told of the reset over it.
#[derive(Clone, Copy, Debug)]
struct Unheard {
    cid: u16,
    told: Option<Mark>,
}

/// Where the numbers of a connection stood when it was told something.
#[derive(Clone, Copy, Debug)]
struct Mark {
    next_stat_sn: u32,
    max_cmd_sn: u32,
}

impl Mark {
    /// After all that the connection has been told.
    fn of(conn: &Connection) -> Self {
        let stamp = conn.peek_stamp();
        Self { next_stat_sn: stamp.stat_sn, max_cmd_sn: stamp.max_cmd_sn }
    }

    /// After the answer that is given next, too.
    fn of_next_answer(conn: &Connection) -> Self {
        let now = Self::of(conn);
        Self { next_stat_sn: now.next_stat_sn.wrapping_add(1), ..now }
    }

    /// The command was sent after the answer had arrived: it acknowledges it, or has a number that
    /// the window did not allow before (for initiators that acknowledge nothing).
    fn is_heard_by(self, bhs: &Bhs) -> bool {
        mutants::is(Mutant::UnheardCounts)
            || serial_le(self.next_stat_sn, bhs.exp_stat_sn())
            || !bhs.is_immediate() && serial_lt(self.max_cmd_sn, bhs.cmd_sn())
    }
}

impl Default for Hearing {
    fn default() -> Self {
        Self {
            is_open: Cell::new(true),
            greeting: Cell::new(Greeting::NotTold),
            resets: RefCell::default(),
        }
    }
}

impl UnitNexus {
    /// A command has come. Whether it is to be answered with the word of a reset that its sender had
    /// not heard of.
    #[inline]
    pub(crate) fn hear(&self, conn: &Connection, bhs: &Bhs, spec: &CommandSpec) -> Option<Sense> {
        if self.hearing.is_open.get() { self.hear_news(conn, bhs, spec) } else { None }
    }

    #[cold]
    fn hear_news(&self, conn: &Connection, bhs: &Bhs, spec: &CommandSpec) -> Option<Sense> {
        self.acknowledge(conn, bhs);
        let mut resets = self.hearing.resets.borrow_mut();
        let unheard = resets.iter_mut().find(|unheard| unheard.cid == conn.cid)?;
        if spec.ignores_attention {
            return None;
        }
        unheard.told.get_or_insert(Mark::of_next_answer(conn));
        Some(Sense::unit_attention(RESET))
    }

    /// A request has come: its sender had heard what it acknowledges.
    pub(super) fn acknowledge(&self, conn: &Connection, bhs: &Bhs) {
        if !self.hearing.is_open.get() {
            return;
        }
        self.hear_greeting(conn, bhs);
        let mut resets = self.hearing.resets.borrow_mut();
        let is_heard = |told: Option<Mark>| told.is_some_and(|told| told.is_heard_by(bhs));
        resets.retain(|unheard| unheard.cid != conn.cid || !is_heard(unheard.told));
        let is_greeted = matches!(self.hearing.greeting.get(), Greeting::Heard);
        self.hearing.is_open.set(!is_greeted || !resets.is_empty());
    }

    fn hear_greeting(&self, conn: &Connection, bhs: &Bhs) {
        let (cid, mark) = match self.hearing.greeting.get() {
            Greeting::Heard => return,
            // It is still to be told, with whatever else is.
            Greeting::NotTold if self.nexus.has_attention() => return,
            Greeting::NotTold => (conn.cid, Mark::of(conn)),
            Greeting::Told(cid, mark) => (cid, mark),
        };
        if cid == conn.cid && mark.is_heard_by(bhs) {
            self.hearing.greeting.set(Greeting::Heard);
            self.unit.logical.greeting_was_heard(&self.nexus);
        } else {
            self.hearing.greeting.set(Greeting::Told(cid, mark));
        }
    }

    /// A command is about to be answered with `sense`.
    pub(crate) fn tell(&self, conn: &Connection, sense: &Sense) {
        if *sense != Sense::unit_attention(RESET) {
            return;
        }
        let told = |other: u16| (other == conn.cid).then(|| Mark::of_next_answer(conn));
        let unheard = |cid| Unheard { cid, told: told(cid) };
        let all = conn.session.connections();
        self.hearing.resets.replace(all.iter().map(|conn| unheard(conn.cid)).collect());
        self.hearing.is_open.set(true);
    }
}

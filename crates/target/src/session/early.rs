//! Requests that overtook others on a faster connection of the same session (RFC 7143 §4.2.2.1):
//! they wait here until it is their turn. The command window bounds their number.

use std::collections::{HashMap, HashSet};
use std::rc::Rc;
use std::time::Instant;

use iscsi::pdu::Bhs;

use super::Connection;
use crate::memory::Held;

/// Task management functions that may wait for the commands before them.
const FUNCTIONS_MAX: usize = 16;

/// Unsolicited Data-Out PDUs that one early command may have behind it: 256 KiB in the shortest
/// segments.
const FOLLOWERS_MAX: usize = 512;

/// A whole PDU that came early.
#[derive(Debug)]
pub(crate) struct EarlyPdu {
    pub(crate) conn: Rc<Connection>,
    pub(crate) bhs: Bhs,
    pub(crate) ahs: Box<[u8]>,
    /// Its data segment; `None` if there was no memory for it or for what followed.
    pub(crate) data: Option<Held>,
    /// Unsolicited Data-Out PDUs that came behind it.
    pub(crate) followers: Vec<(Bhs, Held)>,
    pub(crate) since: Instant,
}

/// What is due when a number is expected.
#[derive(Debug)]
pub(crate) enum Due {
    /// An immediate function that waited for all numbers before this one.
    Function(EarlyPdu),
    /// The command with this number.
    Command(EarlyPdu),
    /// The number is used up: its command was aborted, whether it came (`Some`: its tag) or not.
    Aborted(Option<u32>),
}

/// Early PDUs by CmdSN, and numbers that were aborted before they came.
#[derive(Debug, Default)]
pub(crate) struct EarlyPdus {
    kept: HashMap<u32, EarlyPdu>,
    functions: Vec<EarlyPdu>,
    aborted: HashSet<u32>,
}

impl EarlyPdus {
    /// Keeps one; a second with the same number is a duplicate and dropped.
    pub(crate) fn keep(&mut self, pdu: EarlyPdu) {
        self.kept.entry(pdu.bhs.cmd_sn()).or_insert(pdu);
    }

    /// Keeps an immediate function until all commands before it have come; `false` if too many
    /// wait already.
    pub(crate) fn keep_function(&mut self, pdu: EarlyPdu) -> bool {
        let has_room = self.functions.len() < FUNCTIONS_MAX;
        if has_room {
            self.functions.push(pdu);
        }
        has_room
    }

    /// Takes what is due when `cmd_sn` is expected next.
    pub(crate) fn take_due(&mut self, cmd_sn: u32) -> Option<Due> {
        if let Some(at) = self.functions.iter().position(|pdu| pdu.bhs.cmd_sn() == cmd_sn) {
            return Some(Due::Function(self.functions.remove(at)));
        }
        if self.kept.is_empty() && self.aborted.is_empty() {
            return None;
        }
        let command = self.kept.remove(&cmd_sn);
        if self.aborted.remove(&cmd_sn) {
            return Some(Due::Aborted(command.map(|pdu| pdu.bhs.itt())));
        }
        command.map(Due::Command)
    }

    /// The command with this number shall not run, whether it has come or not; the window bounds
    /// how many there are.
    pub(crate) fn abort(&mut self, cmd_sn: u32) {
        self.aborted.insert(cmd_sn);
    }

    pub(crate) fn by_itt(&self, itt: u32) -> Option<&EarlyPdu> {
        self.kept.values().find(|pdu| pdu.bhs.itt() == itt)
    }

    /// A command of this connection with this tag waits for its turn.
    pub(crate) fn is_kept(&self, conn: &Rc<Connection>, itt: u32) -> bool {
        self.by_itt(itt).is_some_and(|pdu| Rc::ptr_eq(&pdu.conn, conn))
    }

    /// Keeps unsolicited data for a command that [`EarlyPdus::is_kept`]. Without `data`, for which
    /// there was no memory or whose digest was wrong, the command as a whole is told to come again.
    pub(crate) fn follow(&mut self, bhs: &Bhs, data: Option<Held>) {
        let Some(pdu) = self.kept.values_mut().find(|pdu| pdu.bhs.itt() == bhs.itt()) else {
            return;
        };
        match data {
            Some(data) if pdu.data.is_some() && pdu.followers.len() < FOLLOWERS_MAX => {
                pdu.followers.push((*bhs, data));
            }
            _ => {
                pdu.data = None;
                pdu.followers.clear();
            }
        }
    }

    /// Since when the oldest of this connection waits.
    pub(crate) fn waiting_since(&self, conn: &Rc<Connection>) -> Option<Instant> {
        let all = self.kept.values().chain(&self.functions);
        all.filter(|pdu| Rc::ptr_eq(&pdu.conn, conn)).map(|pdu| pdu.since).min()
    }

    pub(crate) fn clear(&mut self) {
        self.kept.clear();
        self.functions.clear();
        self.aborted.clear();
    }
}

//! Commands that overtook others on a faster connection of the same session (RFC 7143 §4.2.2.1):
//! they wait here until it is their turn. The command window bounds their number.

use std::collections::{HashMap, HashSet};
use std::rc::Rc;

use iscsi::pdu::Bhs;
use ring::Buf;

use crate::conn::Connection;

/// A whole PDU that came early.
#[derive(Debug)]
pub(crate) struct EarlyPdu {
    pub(crate) conn: Rc<Connection>,
    pub(crate) bhs: Bhs,
    pub(crate) ahs: Box<[u8]>,
    pub(crate) data: Buf,
}

/// Early PDUs by CmdSN, and numbers that were aborted before they came.
#[derive(Debug, Default)]
pub(crate) struct EarlyPdus {
    kept: HashMap<u32, EarlyPdu>,
    aborted: HashSet<u32>,
}

impl EarlyPdus {
    /// Keeps one; a second with the same number is a duplicate and dropped.
    pub(crate) fn keep(&mut self, pdu: EarlyPdu) {
        self.kept.entry(pdu.bhs.cmd_sn()).or_insert(pdu);
    }

    pub(crate) fn take(&mut self, cmd_sn: u32) -> Option<EarlyPdu> {
        if self.kept.is_empty() { None } else { self.kept.remove(&cmd_sn) }
    }

    /// The command with this number shall not run when it comes; the window bounds their number.
    pub(crate) fn abort(&mut self, cmd_sn: u32) {
        self.aborted.insert(cmd_sn);
    }

    /// Whether `abort` was called for this number; forgets it.
    pub(crate) fn was_aborted(&mut self, cmd_sn: u32) -> bool {
        !self.aborted.is_empty() && self.aborted.remove(&cmd_sn)
    }

    pub(crate) fn by_itt(&self, itt: u32) -> Option<&EarlyPdu> {
        self.kept.values().find(|pdu| pdu.bhs.itt() == itt)
    }

    pub(crate) fn clear(&mut self) {
        self.kept.clear();
        self.aborted.clear();
    }
}

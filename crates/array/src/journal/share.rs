//! Who may use how much of the ring.
//!
//! ```text
//!   begin                                                              begin + ring
//!     |  hosts                        |  once more  |  notes of a checkpoint  |
//!     |------------------------------>|             |   an eighth             |
//!                                     `- Journal::keep_again
//! ```
//!
//! What the journal keeps of volumes that cannot be destaged is written to it once more, so that it can be
//! trimmed. As long as there are such volumes there is room for that which hosts do not get:
//!
//! 1. Between two checkpoints there is room for all of it, but for what checkpoints note.
//! 2. It is written once more only where there is room for as much again afterwards.
//!
//! Where hosts would be left with next to nothing by that, nothing is kept away from them.

use std::task::Waker;

use ring::Data;

use super::log::State;
use super::{
    Appended, BATCH_BLOCKS_MAX, BLOCK, Fill, Journal, Mark, PAYLOAD_BLOCKS_MAX, Record, Refused,
};
use crate::mutants::{self, Mutant};

/// The part of the ring that only [`Journal::append_reserved`] uses. Each wave of a checkpoint notes
/// down what it did in a block of its own, and there is one for some clusters that the ring holds.
pub(super) const RESERVE_PART: u64 = 8;

/// What hosts have at least beside what is kept away from them, in parts of the ring ...
const HOSTS_PART: u64 = 16;
/// ... and in blocks: twice the longest record, as the end of the ring may be too short for it.
const HOSTS_BLOCKS: u64 = 2 * (PAYLOAD_BLOCKS_MAX + 3);

/// What a record of one change takes when it is written once more, without its payload: of a cluster the place
/// and 16 checksums, of a snapshot a name.
pub(crate) const AGAIN_BYTES: u64 = 160;
/// Records that become of zeroes: one of the clusters in the middle, and one of each block beside.
const OF_ZEROES: u64 = 40;
/// Blocks for what is not counted: snapshots of volumes that may have to be kept.
const UNCOUNTED_BLOCKS: u64 = 16;

/// Who appends a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Share {
    /// A host, to a volume that can be destaged for all that is known.
    Host,
    /// A host, to one that may have to be kept.
    AtRisk,
    /// A checkpoint, of what it has done.
    Notes,
    /// A checkpoint, of what the journal had before.
    Again,
}

impl Journal {
    /// Puts `record` and its payload, [`Record::Data`] only, into the journal.
    ///
    /// It is in order and readable at once, and durable when [`durable`](Self::durable) says so.
    ///
    /// # Errors
    /// [`Refused`]; nothing changed.
    ///
    /// # Panics
    /// When the payload is not what the record says.
    pub fn append(&self, record: &Record, payload: Option<&Data>) -> Result<Appended, Refused> {
        self.put(record, payload, Share::Host, true)
    }

    /// As [`append`](Self::append), for what is answered before it is durable.
    ///
    /// # Errors
    /// [`Refused`]; nothing changed.
    pub fn append_volatile(
        &self,
        record: &Record,
        payload: Option<&Data>,
    ) -> Result<Appended, Refused> {
        self.put(record, payload, Share::Host, false)
    }

    /// As [`append`](Self::append) and [`append_volatile`](Self::append_volatile), for a volume that may have to be
    /// kept: it takes the room for being written once more, too. Whom it refuses [`room`](Self::room) may tell that
    /// there is some, for others.
    ///
    /// # Errors
    /// [`Refused`]; nothing changed.
    pub fn append_at_risk(
        &self,
        record: &Record,
        payload: Option<&Data>,
        is_durable: bool,
    ) -> Result<Appended, Refused> {
        self.put(record, payload, Share::AtRisk, is_durable)
    }

    /// As [`append`](Self::append), for what a checkpoint needs to end: it may use the last bit
    /// of room, because it is what makes room again.
    ///
    /// # Errors
    /// [`Refused`]; nothing changed.
    pub fn append_reserved(
        &self,
        record: &Record,
        payload: Option<&Data>,
    ) -> Result<Appended, Refused> {
        self.put(record, payload, Share::Notes, true)
    }

    /// As [`append_reserved`](Self::append_reserved), for what was looked for by
    /// [`has_room_again`](Self::has_room_again).
    ///
    /// # Errors
    /// [`Refused`]; nothing changed.
    pub fn append_again(
        &self,
        record: &Record,
        payload: Option<&Data>,
    ) -> Result<Appended, Refused> {
        self.put(record, payload, Share::Again, true)
    }

    /// Bytes at the end of the ring that a record must leave alone; `None` when it is not to be taken at all.
    pub(super) fn away_bytes(&self, state: &State, share: Share, again: u64) -> Option<u64> {
        let kept = state.again_bytes.unwrap_or(0);
        match share {
            Share::Host => Some(self.reserve_bytes + kept),
            Share::AtRisk if state.again_bytes.is_none() => Some(self.reserve_bytes),
            Share::AtRisk => {
                let kept = kept + again;
                self.can_keep(kept).then_some(self.reserve_bytes + kept)
            }
            // What is not noted a crash may cost more than room.
            Share::Notes | Share::Again => Some(0),
        }
    }

    /// How much there is of the ring for hosts and what is kept away from them.
    fn limit_bytes(&self) -> u64 {
        self.ring_bytes - self.reserve_bytes
    }

    /// Whether hosts have enough when so much is kept away from them and in use as well.
    fn can_keep(&self, bytes: u64) -> bool {
        let least = (self.ring_bytes / HOSTS_PART).max(HOSTS_BLOCKS * BLOCK);
        2 * bytes + least <= self.limit_bytes()
    }

    /// Keeps room for `blocks`, payload and records, away from hosts, where they have enough beside it. `None` when
    /// nothing may have to be written once more.
    pub fn keep_again(&self, blocks: Option<u64>) {
        let bytes = blocks.map(with_heads).filter(|bytes| self.can_keep(*bytes));
        let waiting = {
            let state = &mut *self.lock();
            let is_less = bytes < state.again_bytes;
            state.again_bytes = bytes.filter(|_| !mutants::is(Mutant::LendAgain));
            if is_less { std::mem::take(&mut state.room) } else { Vec::new() }
        };
        waiting.into_iter().for_each(Waker::wake);
    }

    /// Whether hosts leave room for something.
    pub fn keeps_again(&self) -> bool {
        self.lock().again_bytes.is_some()
    }

    /// Whether records with `blocks` in all, payload and their own, fit in once more, when none of them is longer than
    /// a block; and after a trim to `mark` as much again, unless nothing is kept for that.
    pub fn has_room_again(&self, blocks: u64, mark: Mark) -> bool {
        let state = self.lock();
        self.fits_again(&state, with_heads(blocks), mark.position)
    }

    fn fits_again(&self, state: &State, bytes: u64, begin: u64) -> bool {
        let (end, limit) = (state.end().position, self.limit_bytes());
        // What was noted has its own part, until it is trimmed.
        let noted = state.noted_bytes.min(self.reserve_bytes);
        let fits = end + bytes <= state.kept + limit + noted;
        let fits_after = end + 2 * bytes <= begin + limit;
        fits && (fits_after || state.again_bytes.is_none())
    }

    /// Whether hosts have no room, or the longest of their records has none.
    pub fn is_full(&self) -> bool {
        self.is_full_for_hosts(&self.lock())
    }

    fn is_full_for_hosts(&self, state: &State) -> bool {
        let bytes = self.away_bytes(state, Share::Host, 0).expect("hosts are not refused for good");
        self.plan(state, PAYLOAD_BLOCKS_MAX, BLOCK as usize, bytes).is_none()
    }

    /// Whether hosts have no room, and get some when what is kept is written once more.
    pub fn is_to_be_trimmed(&self) -> bool {
        let state = self.lock();
        let Some(bytes) = state.again_bytes else { return false };
        self.is_full_for_hosts(&state) && self.fits_again(&state, bytes, state.end().position)
    }

    /// How much is in use of what writers may use.
    pub fn fill_level(&self) -> Fill {
        let state = self.lock();
        let used = state.end().position - state.kept;
        let limit = self.limit_bytes() - state.again_bytes.unwrap_or(0);
        Fill { used: used / BLOCK, limit: limit / BLOCK }
    }
}

impl State {
    /// A record of that share has taken so much of the ring.
    pub(super) fn count(&mut self, share: Share, bytes: u64, again: u64) {
        match (share, &mut self.again_bytes) {
            (Share::Notes, _) => self.noted_bytes += bytes,
            (Share::AtRisk, Some(kept)) => *kept += again,
            (Share::AtRisk | Share::Host | Share::Again, _) => {}
        }
    }
}

/// Bytes that a record of a host takes when it is written once more, at most.
pub(super) fn again_bytes(record: &Record, encoded_bytes: usize) -> u64 {
    let blocks = record.payload_blocks();
    // Of each block one record, of each cluster another one; of clusters that were placed those that tell of them.
    let records = if blocks > 0 { 2 * blocks + 2 } else { OF_ZEROES };
    let bytes = blocks * BLOCK + records * AGAIN_BYTES + 2 * encoded_bytes as u64;
    bytes + bytes / (BATCH_BLOCKS_MAX / 2)
}

/// Bytes of so many blocks with the head of each batch, which takes what comes as long as it is not full or wraps, and
/// the block before the wrap that nothing fits into.
fn with_heads(blocks: u64) -> u64 {
    (blocks + blocks / (BATCH_BLOCKS_MAX / 2) + 4 + UNCOUNTED_BLOCKS) * BLOCK
}

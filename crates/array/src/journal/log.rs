//! The journal in memory: what is appended, waits, becomes durable and is trimmed.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::future::poll_fn;
use std::sync::{Mutex, MutexGuard};
use std::task::{Poll, Waker};

use block::{BlockError, SharedLatency};
use ring::{Data, Region};

use super::batch::{Batch, blocks_for};
use super::scan::Scanned;
use super::share::{RESERVE_PART, Share, again_bytes};
use super::{
    Appended, BATCH_BLOCKS_MAX, BLOCK, Holder, IN_FLIGHT_MAX, Mark, PAYLOAD_BLOCKS_MAX,
    RECORD_BYTES_MAX, Record, Refused, Ticket,
};
use crate::label::{ArrayId, Layout};
use crate::{BLOCK_BYTES, DiskId};

/// Memory that is given back at once: a millisecond's worth.
const GIVE_BACK_BYTES: u64 = 8 << 20;

/// The journal of an array. Any core may call it; its own lock is held for the copy of one
/// record's payload at most.
pub struct Journal {
    pub(super) array: ArrayId,
    /// Where the ring begins on each holder.
    pub(super) at: u64,
    pub(super) ring_bytes: u64,
    /// What is for the notes of checkpoints alone.
    pub(super) reserve_bytes: u64,
    /// The ring in memory; its bytes from `tail` to `end` are what will be or is on disk.
    pub(super) image: Region,
    state: Mutex<State>,
    giving_back: Mutex<()>,
    /// How long holders took for batches ...
    pub(super) writes: SharedLatency,
    /// ... and for flushes.
    pub(super) flushes: SharedLatency,
}

pub(super) struct State {
    /// What may be read begins here ...
    tail: u64,
    /// ... and what must not be overwritten here: it is lower while a trim gives memory back.
    pub(super) kept: u64,
    /// What hosts leave for what may have to be written once more; none while nothing is kept.
    pub(super) again_bytes: Option<u64>,
    /// What checkpoints have noted since it was trimmed.
    pub(super) noted_bytes: u64,
    pub(super) durable: Mark,
    /// All that came before is on every holder, but a loss of power may undo what is not durable.
    pub(super) written: Mark,
    /// The last batch that was not written durably: whatever follows needs a flush as long as this
    /// one is not durable.
    last_volatile: u64,
    /// Where the first batch of this life goes.
    begin: Mark,
    /// The end of the last batch that was submitted: all before it is complete in the image.
    submitted: Mark,
    /// The end of the last sealed batch.
    sealed_end: Mark,
    next_sequence: u64,
    pub(super) open: Option<Batch>,
    pub(super) sealed: VecDeque<Batch>,
    /// How many batches are submitted and not written.
    pub(super) in_flight: usize,
    pub(super) holders: Vec<Holder>,
    /// How many holders are being filled: as long as there are any, what is trimmed is not used
    /// again, or the copy of what was there before could overwrite what came after.
    filling: usize,
    /// Holders that were given all up to there, and get all that is submitted since.
    pub(super) filled: Vec<(DiskId, Mark)>,
    pub(super) failure: Option<BlockError>,
    /// The writer, when it has nothing to do.
    pub(super) writer: Option<Waker>,
    /// Whether the holders are being flushed.
    pub(super) is_flushing: bool,
    /// Who waits for a batch to be durable, by its sequence number.
    pub(super) acks: BTreeMap<u64, Vec<Waker>>,
    /// Who waits for a batch to be written.
    pub(super) written_acks: BTreeMap<u64, Vec<Waker>>,
    /// Who waits for room.
    pub(super) room: Vec<Waker>,
}

/// A batch on its way to the disks.
#[derive(Debug)]
pub(super) struct Submission {
    pub(super) end: Mark,
    /// In the ring.
    pub(super) offset: usize,
    pub(super) len: usize,
    pub(super) holders: Vec<Holder>,
    /// Durable are it and all before it once it is written.
    pub(super) is_durable: bool,
}

/// Where a record goes.
pub(super) enum Plan {
    Join,
    /// A batch of its own, after so many skipped blocks.
    New {
        skip_blocks: u64,
    },
}

impl Journal {
    /// A journal that goes on where `scanned` ended and begins at `tail`.
    ///
    /// # Panics
    /// When `scanned` is of a ring of another size.
    #[must_use]
    pub fn new(
        array: ArrayId,
        layout: &Layout,
        holders: Vec<Holder>,
        tail: Mark,
        scanned: Scanned,
    ) -> Self {
        assert_eq!(scanned.image.len() as u64, layout.journal_bytes, "one ring");
        assert!(tail.position <= scanned.end.position, "it ends behind its begin");
        let state = State {
            tail: tail.position,
            kept: tail.position,
            again_bytes: None,
            noted_bytes: 0,
            // The process before may have been killed with some of it in the caches of disks.
            durable: tail,
            written: scanned.end,
            last_volatile: scanned.end.sequence,
            begin: scanned.end,
            submitted: scanned.end,
            sealed_end: scanned.end,
            filling: 0,
            filled: Vec::new(),
            next_sequence: scanned.next_sequence,
            open: None,
            sealed: VecDeque::new(),
            in_flight: 0,
            holders,
            failure: None,
            writer: None,
            is_flushing: false,
            acks: BTreeMap::new(),
            written_acks: BTreeMap::new(),
            room: Vec::new(),
        };
        Self {
            array,
            at: layout.journal_at(),
            ring_bytes: layout.journal_bytes,
            reserve_bytes: layout.journal_bytes / RESERVE_PART,
            image: scanned.image,
            state: Mutex::new(state),
            giving_back: Mutex::default(),
            writes: SharedLatency::default(),
            flushes: SharedLatency::default(),
        }
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        // A panic under the lock may have left half a record: nothing may go on from there.
        self.state.lock().expect("the state of the journal is whole")
    }

    pub(super) fn put(
        &self,
        record: &Record,
        payload: Option<&Data>,
        share: Share,
        is_durable: bool,
    ) -> Result<Appended, Refused> {
        let blocks = record.payload_blocks();
        assert_eq!(payload.map_or(0, Data::len) as u64, blocks * BLOCK, "payload of the record");
        assert!(blocks <= PAYLOAD_BLOCKS_MAX, "long writes are split");
        let encoded = record.encode();
        if encoded.len() > RECORD_BYTES_MAX {
            return Err(Refused::TooLong { bytes: encoded.len() });
        }
        let (appended, writer) = {
            let state = &mut *self.lock();
            if state.failure.is_some() {
                return Err(Refused::Full);
            }
            let again = again_bytes(record, encoded.len());
            let away = self.away_bytes(state, share, again).ok_or(Refused::Full)?;
            let before = state.end().position;
            let plan = self.plan(state, blocks, encoded.len(), away);
            if let Plan::New { skip_blocks } = plan.ok_or(Refused::Full)? {
                state.seal();
                if skip_blocks > 0 {
                    let skipped = state.open_batch();
                    skipped.skip_blocks = skip_blocks - 1;
                    skipped.is_durable = is_durable;
                    state.seal();
                }
                state.open_batch();
            }
            let batch = state.open.as_mut().expect("planned to be open");
            let position = batch.start + (1 + batch.payload_blocks) * BLOCK;
            if let Some(payload) = payload {
                self.copy_in(batch, position, payload);
            }
            batch.payload_blocks += blocks;
            batch.encoded.extend_from_slice(&encoded);
            batch.records += 1;
            batch.is_durable |= is_durable;
            let ticket = Ticket { batch: batch.sequence, is_durable };
            assert!(batch.end().position <= state.kept + self.ring_bytes, "room was looked for");
            let end = batch.end().position;
            let used_blocks = (end - state.kept) / BLOCK;
            state.count(share, end - before, again);
            (Appended { position, ticket, used_blocks }, state.writer.take())
        };
        writer.into_iter().for_each(Waker::wake);
        Ok(appended)
    }

    /// Where a record of this size can go; `None` when there is no room.
    pub(super) fn plan(
        &self,
        state: &State,
        blocks: u64,
        bytes: usize,
        away_bytes: u64,
    ) -> Option<Plan> {
        let limit = state.kept + self.ring_bytes - away_bytes;
        let end = state.end();
        if let Some(open) = &state.open {
            let total = blocks_for(open.payload_blocks + blocks, open.encoded.len() + bytes);
            if total <= BATCH_BLOCKS_MAX && total <= self.blocks_to_wrap(open.start) {
                return (open.start + total * BLOCK <= limit).then_some(Plan::Join);
            }
        }
        let total = blocks_for(blocks, bytes);
        let to_wrap = self.blocks_to_wrap(end.position);
        let skip_blocks = if total <= to_wrap { 0 } else { to_wrap };
        let fits = end.position + (skip_blocks + total) * BLOCK <= limit;
        fits.then_some(Plan::New { skip_blocks })
    }

    /// Blocks from `position` to the end of the ring; all of them at its begin.
    fn blocks_to_wrap(&self, position: u64) -> u64 {
        (self.ring_bytes - position % self.ring_bytes) / BLOCK
    }

    fn copy_in(&self, batch: &mut Batch, position: u64, payload: &Data) {
        let offset = self.offset(position);
        self.image.write_data(offset, payload);
        if let Some(bytes) = payload.as_slice() {
            batch.payload.update(bytes);
            return;
        }
        // Somebody may still change these bytes: what counts is what the image got.
        let mut block = [0; BLOCK_BYTES];
        for at in (0..payload.len()).step_by(BLOCK_BYTES) {
            self.image.read_into(offset + at, &mut block);
            batch.payload.update(&block);
        }
    }

    pub(super) fn offset(&self, position: u64) -> usize {
        (position % self.ring_bytes) as usize
    }

    /// Waits until a record with `blocks` of payload may fit; others may be faster, so try
    /// again. A record longer than a block counts its own blocks too.
    ///
    /// # Errors
    /// When the journal has failed or was stopped: there will be no room.
    pub async fn room(&self, blocks: u64) -> Result<(), BlockError> {
        let payload = blocks.min(PAYLOAD_BLOCKS_MAX);
        let bytes = (1 + blocks - payload) as usize * BLOCK_BYTES;
        poll_fn(|cx| {
            let state = &mut *self.lock();
            if let Some(error) = state.failure {
                return Poll::Ready(Err(error));
            }
            let away =
                self.away_bytes(state, Share::Host, 0).expect("hosts are not refused for good");
            if self.plan(state, payload, bytes, away).is_some() {
                return Poll::Ready(Ok(()));
            }
            register(&mut state.room, cx.waker());
            Poll::Pending
        })
        .await
    }

    /// Puts a batch of this life behind what there is: what an earlier one left there, and could not
    /// be read, must never be found again, whatever disks are there then. Its answer is that of what
    /// comes after it. A ring without room for it has nothing there but its own begin.
    pub fn begin_life(&self) {
        let writer = {
            let state = &mut *self.lock();
            let end = state.end();
            if end != state.begin || end.position + BLOCK > state.kept + self.ring_bytes {
                return;
            }
            state.open_batch().is_durable = true;
            state.seal();
            state.writer.take()
        };
        writer.into_iter().for_each(Waker::wake);
    }

    /// Ends the open batch: what is appended from now on comes after the mark, and what was
    /// appended before.
    pub fn cut(&self) -> Mark {
        let state = &mut *self.lock();
        state.seal();
        state.end()
    }

    /// Lets the journal begin at `mark`.
    ///
    /// # Panics
    /// When not everything before it is durable, or it was trimmed further already.
    pub fn trim(&self, mark: Mark) {
        self.let_go(mark);
        self.give_back();
    }

    /// The same, but nobody gets the room before [`give_back_some`](Self::give_back_some).
    ///
    /// # Panics
    /// As [`trim`](Self::trim).
    pub fn let_go(&self, mark: Mark) {
        let state = &mut *self.lock();
        assert!(state.tail <= mark.position, "a journal is trimmed forwards");
        assert!(mark.position <= state.durable.position, "what is not durable stays");
        if state.tail < mark.position {
            state.noted_bytes = 0;
        }
        state.tail = mark.position;
    }

    /// Lets what was trimmed be used again.
    fn give_back(&self) {
        while self.give_back_some() {}
    }

    /// Lets some of what was trimmed be used again; whether there is more of it.
    pub fn give_back_some(&self) -> bool {
        // Who gave back the same on another core, but later, would take what was written there meanwhile.
        let _giving = self.giving_back.lock().expect("nothing panics under it");
        let (from, tail) = {
            let state = self.lock();
            if state.filling > 0 {
                return false;
            }
            (state.kept, state.tail)
        };
        let to = from + GIVE_BACK_BYTES;
        // Not into the last batch: a disk that joins gets what there is from `kept` on, and must know that batch by it.
        let to = if tail - from <= GIVE_BACK_BYTES + BATCH_BLOCKS_MAX * BLOCK { tail } else { to };
        // Not under the lock. No one reads there any more, and no one writes there before `kept` has moved.
        let mut at = from;
        while at < to {
            let end = to.min(at + self.ring_bytes - at % self.ring_bytes);
            self.image.discard(self.offset(at), (end - at) as usize);
            at = end;
        }
        let waiting = {
            let state = &mut *self.lock();
            state.kept = state.kept.max(to);
            std::mem::take(&mut state.room)
        };
        waiting.into_iter().for_each(Waker::wake);
        to < tail
    }

    /// Copies payload from `position` on.
    ///
    /// # Panics
    /// When any of it was trimmed or not yet appended.
    pub fn read(&self, position: u64, into: &mut [u8]) {
        let state = self.lock();
        let end = position + into.len() as u64;
        assert!(position >= state.tail, "position {position} was trimmed");
        assert!(end <= state.end().position, "position {end} lies in the future");
        self.image.read_into(self.offset(position), into);
    }

    /// The payload from `position` on, by reference, for [`append`](Self::append) to take again; it
    /// is what it is until the journal is trimmed.
    ///
    /// # Panics
    /// As [`read`](Self::read).
    pub fn payload(&self, position: u64, len: usize) -> Data {
        let state = self.lock();
        assert!(position >= state.tail, "position {position} was trimmed");
        assert!(position + len as u64 <= state.end().position, "it lies in the future");
        self.image.slice(self.offset(position), len)
    }

    /// Where the next record goes, at the earliest.
    pub fn position(&self) -> u64 {
        self.lock().end().position
    }

    /// Where the journal begins.
    pub fn tail(&self) -> u64 {
        self.lock().tail
    }

    /// Blocks in use.
    pub fn used_blocks(&self) -> u64 {
        let state = self.lock();
        (state.end().position - state.kept) / BLOCK
    }

    /// What is waited for: the disks, and room. Each with a count that moves as long as it goes on.
    pub fn waits(&self) -> (Option<u64>, Option<u64>) {
        let state = self.lock();
        let is_awaited = !state.acks.is_empty() || !state.written_acks.is_empty();
        let written = state.written.sequence + state.durable.sequence;
        let away = self.away_bytes(&state, Share::Host, 0).expect("hosts are not refused for good");
        let is_full = self.plan(&state, 1, 1, away).is_none();
        let waits_for_room = is_full && !state.room.is_empty();
        (is_awaited.then_some(written), waits_for_room.then_some(state.kept))
    }

    /// Blocks of the ring.
    pub fn blocks(&self) -> u64 {
        self.ring_bytes / BLOCK
    }

    /// What a record that is appended from now on comes after.
    pub fn since(&self) -> u64 {
        self.lock().sealed_end.position
    }

    /// The disks that writes go to.
    pub fn holders(&self) -> Vec<Holder> {
        self.lock().holders.clone()
    }

    /// What a holder has to be given: from where to where. Until [`filled`](Self::filled) nothing
    /// of it is overwritten.
    pub(super) fn begin_to_fill(&self) -> (u64, Mark) {
        let _giving = self.giving_back.lock().expect("nothing panics under it");
        let state = &mut *self.lock();
        state.filling += 1;
        (state.kept, state.submitted)
    }

    /// Whether a batch of this life was submitted.
    pub(super) fn has_begun(&self) -> bool {
        let state = self.lock();
        state.submitted != state.begin
    }

    /// Where in the ring the next batch will be that is submitted, if nothing is there that counts.
    pub(super) fn end_offset(&self) -> Option<usize> {
        let State { kept, submitted, .. } = *self.lock();
        (submitted.position - kept < self.ring_bytes).then(|| self.offset(submitted.position))
    }

    /// Where it ends, if nothing of it is left.
    pub(super) fn trimmed_end(&self) -> Option<Mark> {
        let state = self.lock();
        (state.kept == state.submitted.position).then_some(state.submitted)
    }

    /// A holder has it, or does not take it.
    pub(super) fn filled(&self) {
        self.lock().filling -= 1;
        self.give_back();
    }

    /// Ends it: nothing is written any more, and everybody who waits gets an error. For an
    /// orderly end wait for [`flush`](Self::flush) first.
    pub fn stop(&self) {
        self.fail(BlockError::LostWrites);
    }

    pub(super) fn fail(&self, error: BlockError) {
        let waiting = {
            let state = &mut *self.lock();
            state.failure.get_or_insert(error);
            let acks = std::mem::take(&mut state.acks).into_values();
            let written = std::mem::take(&mut state.written_acks).into_values();
            let room = std::mem::take(&mut state.room);
            acks.chain(written).flatten().chain(room).chain(state.writer.take()).collect::<Vec<_>>()
        };
        waiting.into_iter().for_each(Waker::wake);
    }

    /// The next batch to write, whose bytes are then complete in the image. One in which all is
    /// volatile is not written durably, nor one behind it until a flush has ended.
    pub(super) fn take(&self) -> Option<Submission> {
        let state = &mut *self.lock();
        if state.in_flight >= IN_FLIGHT_MAX || state.failure.is_some() {
            return None;
        }
        if state.sealed.is_empty() {
            state.seal();
        }
        if state.is_in_doubt() {
            return None;
        }
        let batch = state.sealed.pop_front()?;
        state.in_flight += 1;
        // One that is written durably says nothing about those before it.
        let is_durable = batch.is_durable && state.last_volatile <= state.durable.sequence;
        if !is_durable {
            state.last_volatile = batch.sequence;
        }
        let (first, behind) = batch.encode(self.array, state.durable.position);
        let offset = self.offset(batch.start);
        let len = batch.blocks() as usize * BLOCK_BYTES;
        self.image.write(offset, &first);
        self.image.write(offset + len - behind.len(), &behind);
        let (end, holders) = (batch.end(), state.holders.clone());
        state.submitted = end;
        Some(Submission { end, offset, len, holders, is_durable })
    }

    /// Whether there is something to write or to end for; if not, `waker` is told.
    pub(super) fn has_work(&self, waker: &Waker) -> bool {
        let state = &mut *self.lock();
        let waits = state.open.is_some() || !state.sealed.is_empty();
        let may_write = waits && state.in_flight < IN_FLIGHT_MAX && !state.is_in_doubt();
        if state.failure.is_some() || may_write || state.wants_flush() {
            return true;
        }
        state.writer = Some(waker.clone());
        false
    }

    /// Why nothing is written any more.
    pub fn failure(&self) -> Option<BlockError> {
        self.lock().failure
    }
}

/// A task that is polled twice waits once.
pub(super) fn register(waiting: &mut Vec<Waker>, waker: &Waker) {
    if !waiting.iter().any(|other| other.will_wake(waker)) {
        waiting.push(waker.clone());
    }
}

impl State {
    pub(super) fn end(&self) -> Mark {
        self.open.as_ref().map_or(self.sealed_end, Batch::end)
    }

    fn seal(&mut self) {
        let Some(batch) = self.open.take() else { return };
        assert!(batch.start == self.sealed_end.position, "batches follow each other");
        self.sealed_end = batch.end();
        self.sealed.push_back(batch);
    }

    fn open_batch(&mut self) -> &mut Batch {
        assert!(self.open.is_none(), "one batch is open at a time");
        let sequence = self.next_sequence;
        self.next_sequence += 1;
        self.open.insert(Batch::new(sequence, self.sealed_end))
    }
}

impl fmt::Debug for Journal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Journal").field("array", &self.array).finish_non_exhaustive()
    }
}

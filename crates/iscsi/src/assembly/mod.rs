//! PDUs out of a byte stream that comes in pieces, without a socket and without memory of its own.
//!
//! ```text
//! bytes --> step() --> Whole             a PDU that lies in one piece, lent where it lies
//!                  --> Head, open(sink)  the header alone: whoever judged it says where its data goes
//!                  --> Done              its data has gone there
//! ```
//!
//! A header is handed out before there is room for its payload: what is refused takes no memory, and
//! where there is none the header is handed out again by the next step. A long data segment may be
//! received straight into its place, past the assembler: see [`Assembler::missing`].

#[cfg(test)]
mod tests;

use std::ops::Range;

use crate::digest::{DIGEST_LEN_BYTES, Digest};
use crate::framing::{AHS_LEN_BYTES_MAX, FrameError, FrameHeader, FrameLimits};
use crate::pdu::{BHS_LEN_BYTES, Bhs};

const HEAD_LEN_BYTES_MAX: usize = BHS_LEN_BYTES + AHS_LEN_BYTES_MAX + DIGEST_LEN_BYTES;

/// Padding and digest.
const TAIL_LEN_BYTES_MAX: usize = 3 + DIGEST_LEN_BYTES;

/// Where the data segment of a PDU goes that comes in pieces.
pub trait Sink {
    /// Takes the next part of it, which begins `offset` bytes from its start.
    fn take(&mut self, offset: usize, part: &[u8]);
}

/// A PDU that lies in one piece in what was received. Its header digest was right.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Whole<'a> {
    /// Its header.
    pub bhs: &'a Bhs,
    /// Additional header segments, padding included.
    pub ahs: &'a [u8],
    /// The data segment without padding.
    pub data: &'a [u8],
    /// Its data digest was right, or it has none.
    pub is_intact: bool,
}

/// What came of the bytes.
#[derive(Debug)]
pub enum Step<'a, S> {
    /// All of them were taken; more are needed.
    Idle,
    /// A PDU in one piece.
    Whole(Whole<'a>),
    /// A header whose payload is still to come, or was not to be lent. [`Assembler::open`] goes on with
    /// it; without that the next step gives it again.
    Head(Bhs),
    /// An opened PDU is complete. [`Assembler::ahs`] has its additional header segments until the next step.
    Done {
        /// Its header.
        bhs: Bhs,
        /// What it was opened with.
        sink: S,
        /// Its data digest was right, or it has none.
        is_intact: bool,
    },
}

/// A PDU whose payload is on its way.
#[derive(Debug)]
struct Body<S> {
    frame: FrameHeader,
    sink: S,
    /// Bytes of the data segment that have come.
    have: usize,
    digest: Digest,
    tail: [u8; TAIL_LEN_BYTES_MAX],
    tail_have: usize,
}

/// The receiving half of a connection. `S` is where data goes of which the header came first.
#[derive(Debug)]
pub struct Assembler<S> {
    head: Box<[u8; HEAD_LEN_BYTES_MAX]>,
    /// Bytes of a header that have come. Invariant: all of it while there is a body.
    head_have: usize,
    /// The header that the last step gave.
    announced: Option<FrameHeader>,
    body: Option<Body<S>>,
    split_pdus: u64,
}

impl<S: Sink> Assembler<S> {
    /// At the first byte of a PDU.
    #[must_use]
    pub fn new() -> Self {
        let head = Box::new([0; HEAD_LEN_BYTES_MAX]);
        Self { head, head_have: 0, announced: None, body: None, split_pdus: 0 }
    }

    /// The number of the PDU of which a part has come; the same as long as it is the same one.
    #[must_use]
    pub fn current(&self) -> Option<u64> {
        (self.head_have > 0).then_some(self.split_pdus)
    }

    /// All of an opened PDU has come: the next step needs no bytes.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.body.as_ref().is_some_and(|body| {
            let frame = &body.frame;
            body.have + body.tail_have == frame.payload_len_bytes()
        })
    }

    /// Takes bytes until something has come of them. A PDU that lies in one piece is lent if `may_lend`
    /// its header and the length of its data, and else is taken as one that comes in pieces.
    ///
    /// # Errors
    /// A header that cannot be taken: the connection cannot go on (7.7).
    #[inline]
    pub fn step<'a>(
        &mut self,
        bytes: &mut &'a [u8],
        limits: &FrameLimits,
        may_lend: impl FnOnce(&Bhs, usize) -> bool,
    ) -> Result<Step<'a, S>, FrameError> {
        if self.head_have == 0
            && let Some(bhs) = Bhs::from_prefix(bytes)
        {
            let frame = FrameHeader::new(bhs, limits)?;
            let total = frame.total_len_bytes();
            if bytes.len() >= total && may_lend(bhs, frame.data_len_bytes()) {
                let (pdu, rest) = bytes.split_at(total);
                *bytes = rest;
                return Ok(Step::Whole(whole(bhs, &frame, pdu)?));
            }
        }
        self.step_in_pieces(bytes, limits)
    }

    fn step_in_pieces<'a>(
        &mut self,
        bytes: &mut &'a [u8],
        limits: &FrameLimits,
    ) -> Result<Step<'a, S>, FrameError> {
        if let Some(body) = &mut self.body {
            body.feed(bytes);
            return Ok(if self.is_complete() { self.close() } else { Step::Idle });
        }
        self.keep_head(bytes, BHS_LEN_BYTES);
        let Some(bhs) = Bhs::from_prefix(&self.head[..self.head_have]).copied() else {
            return Ok(Step::Idle);
        };
        let frame = FrameHeader::new(&bhs, limits)?;
        let len = frame.header_len_bytes();
        self.keep_head(bytes, len);
        if self.head_have < len {
            return Ok(Step::Idle);
        }
        frame.verify_header(&self.head[..len])?;
        self.announced = Some(frame);
        Ok(Step::Head(bhs))
    }

    /// Goes on with the header that the last step gave: its data goes to `sink`.
    ///
    /// # Panics
    /// If the last step gave none.
    pub fn open(&mut self, sink: S) {
        let frame = self.announced.take().expect("the last step gave a header");
        let (digest, tail) = (Digest::new(), [0; TAIL_LEN_BYTES_MAX]);
        self.body = Some(Body { frame, sink, have: 0, digest, tail, tail_have: 0 });
    }

    /// Additional header segments of the PDU that was opened last, padding included.
    #[must_use]
    pub fn ahs(&self) -> &[u8] {
        let len = Bhs::from_prefix(&self.head[..]).map_or(0, Bhs::total_ahs_len_bytes);
        &self.head[BHS_LEN_BYTES..BHS_LEN_BYTES + len.min(AHS_LEN_BYTES_MAX)]
    }

    /// The part of an opened data segment that has not come, and where it goes. It may be received into
    /// its place by other means: then [`Assembler::came`] is to be told.
    pub fn missing(&mut self) -> Option<(Range<usize>, &mut S)> {
        let body = self.body.as_mut()?;
        Some((body.have..body.frame.data_len_bytes(), &mut body.sink))
    }

    /// The next `part` of the data segment is in its place. Gives back the sink that it is the place of.
    ///
    /// # Panics
    /// If no PDU is open, or no such part is missing.
    pub fn came(&mut self, part: &[u8]) -> &mut S {
        let body = self.body.as_mut().expect("a part of an opened PDU");
        assert!(part.len() <= body.frame.data_len_bytes() - body.have, "no more than is missing");
        body.count(part);
        &mut body.sink
    }

    fn keep_head(&mut self, bytes: &mut &[u8], len: usize) {
        let missing = len.saturating_sub(self.head_have).min(bytes.len());
        let (part, rest) = bytes.split_at(missing);
        self.head[self.head_have..self.head_have + missing].copy_from_slice(part);
        self.head_have += missing;
        *bytes = rest;
    }

    fn close<'a>(&mut self) -> Step<'a, S> {
        let body = self.body.take().expect("called with a body");
        let bhs = *Bhs::from_prefix(&self.head[..]).expect("the head has 48 bytes");
        self.head_have = 0;
        self.split_pdus += 1;
        let is_intact = body.digest_holds();
        Step::Done { bhs, sink: body.sink, is_intact }
    }
}

impl<S: Sink> Default for Assembler<S> {
    fn default() -> Self {
        Self::new()
    }
}

impl<S: Sink> Body<S> {
    fn feed(&mut self, bytes: &mut &[u8]) {
        let missing = (self.frame.data_len_bytes() - self.have).min(bytes.len());
        let (part, rest) = bytes.split_at(missing);
        if missing > 0 {
            self.sink.take(self.have, part);
            self.count(part);
        }
        let tail_len = self.frame.payload_len_bytes() - self.frame.data_len_bytes();
        let tail_missing = (tail_len - self.tail_have).min(rest.len());
        let (part, rest) = rest.split_at(tail_missing);
        self.tail[self.tail_have..self.tail_have + tail_missing].copy_from_slice(part);
        self.tail_have += tail_missing;
        *bytes = rest;
    }

    fn count(&mut self, part: &[u8]) {
        if self.frame.has_data_digest() {
            self.digest.update(part);
        }
        self.have += part.len();
    }

    fn digest_holds(&self) -> bool {
        if !self.frame.has_data_digest() {
            return true;
        }
        let (padding, rest) = self.tail.split_at(self.frame.padding_len_bytes());
        let mut digest = self.digest.clone();
        digest.update(padding);
        digest.finish() == rest[..DIGEST_LEN_BYTES]
    }
}

/// Cuts a PDU that lies in one piece.
#[inline]
fn whole<'a>(bhs: &'a Bhs, frame: &FrameHeader, pdu: &'a [u8]) -> Result<Whole<'a>, FrameError> {
    let (head, payload) = pdu.split_at(frame.header_len_bytes());
    frame.verify_header(head)?;
    Ok(Whole {
        bhs,
        ahs: &head[BHS_LEN_BYTES..BHS_LEN_BYTES + frame.ahs_len_bytes()],
        data: &payload[..frame.data_len_bytes()],
        is_intact: frame.verify_payload(payload).is_ok(),
    })
}

//! Bytes in, PDUs out: the receiving half of a connection, without a socket.
//!
//! A PDU that lies whole in the received chunk is handled where it lies. Of one that does not, the
//! header is kept, judged, and only then is room made for its payload ("refuse on the 48 bytes,
//! allocate afterwards"); a long payload is received straight into its place.

use std::ops::Range;
use std::rc::Rc;

use iscsi::digest::{DIGEST_LEN_BYTES, Digest};
use iscsi::framing::{AHS_LEN_BYTES_MAX, FrameError, FrameHeader, FrameLimits};
use iscsi::pdu::{BHS_LEN_BYTES, Bhs, Opcode, RejectReason};
use ring::Buf;
use thiserror::Error;

use super::Connection;
use crate::ffp;
use crate::memory::Held;
use crate::task::Task;

/// A payload of which more than this is missing is received straight into its place; less than
/// that comes along with the PDUs behind it.
const DIRECT_BYTES_MIN: usize = 32 << 10;

const HEAD_LEN_BYTES_MAX: usize = BHS_LEN_BYTES + AHS_LEN_BYTES_MAX + DIGEST_LEN_BYTES;

/// Why a connection must be dropped (RFC 7143 §7: at ErrorRecoveryLevel 0 a connection that broke
/// the protocol cannot be mended).
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub(crate) enum Fault {
    #[error("{0}")]
    Frame(#[from] FrameError),
    #[error("{0}")]
    Transfer(#[from] iscsi::ffp::TransferError),
    #[error("{0}")]
    Protocol(&'static str),
}

/// The data segment of a PDU.
#[derive(Debug)]
pub(crate) enum Payload<'a> {
    /// Where it was received; to be copied if it must stay.
    Lent(&'a [u8]),
    /// In a buffer of its own.
    Own(Held),
    /// It came, but there was no memory for it.
    Lost,
}

impl Payload<'_> {
    pub(crate) fn bytes(&self) -> &[u8] {
        match self {
            Self::Lent(bytes) => bytes,
            Self::Own(held) => &held.buf,
            Self::Lost => &[],
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.bytes().len()
    }

    /// The payload in a buffer of its own; `None` without memory.
    pub(crate) fn into_held(self, conn: &Connection) -> Option<Held> {
        match self {
            Self::Own(held) => Some(held),
            Self::Lost => None,
            Self::Lent(bytes) => Some(conn.room_for(bytes.len())?.with_first(bytes)),
        }
    }
}

/// Where the payload of a split PDU goes.
enum Sink {
    /// Nobody wants it: it is read and forgotten.
    Skip,
    /// A buffer of its own.
    Own(Held),
    /// There is no memory for it: its command will be told so.
    Lost,
    /// The buffer of a write command, from this offset on.
    Write { task: Rc<Task>, offset: usize },
}

/// A PDU whose header has been judged and whose payload is on its way.
struct Body {
    frame: FrameHeader,
    sink: Sink,
    /// Payload bytes received.
    have: usize,
    digest: Digest,
    /// Padding and digest behind the payload.
    tail: [u8; 8],
    tail_have: usize,
}

/// What the receiver wants next.
pub(crate) enum Want {
    /// Whatever comes.
    Chunk,
    /// Exactly this range of the buffer; give it back to [`Receiver::direct_done`].
    Direct(Buf, Range<usize>),
    /// Memory for the next payload: feed the rest of the chunk again when there is some.
    Memory,
}

/// The receiving half of one connection.
pub(crate) struct Receiver {
    conn: Rc<Connection>,
    head: Box<[u8; HEAD_LEN_BYTES_MAX]>,
    head_have: usize,
    /// How many PDUs came in more than one piece.
    split_pdus: u64,
    body: Option<Body>,
    /// There was no memory for the payload of the header in `head`.
    starved: bool,
    /// A command has waited long enough for memory; those behind it do not, until there is some.
    gives_up: bool,
}

impl Receiver {
    pub(crate) fn new(conn: Rc<Connection>) -> Self {
        Self {
            conn,
            head: Box::new([0; HEAD_LEN_BYTES_MAX]),
            head_have: 0,
            split_pdus: 0,
            body: None,
            starved: false,
            gives_up: false,
        }
    }

    /// What waits for memory is not to wait any longer, if it is a command, which a host can try
    /// again.
    pub(crate) fn give_up(&mut self) {
        self.gives_up = true;
    }

    /// The number of the PDU of which a part has come, so that silence means a stall.
    pub(crate) fn current_pdu(&self) -> Option<u64> {
        (self.head_have > 0).then_some(self.split_pdus)
    }

    /// Handles `chunk` and returns how much of it: all, unless memory is wanted first, or the output
    /// must drain before more is asked for.
    pub(crate) fn feed(&mut self, chunk: &[u8]) -> Result<(usize, Want), Fault> {
        let mut at = 0;
        while at < chunk.len() && !self.conn.is_ending() && self.conn.has_room() {
            let rest = &chunk[at..];
            let used = if self.body.is_some() {
                self.feed_body(rest)?
            } else if self.head_have > 0 {
                self.feed_head(rest)?
            } else {
                self.feed_whole(rest)?
            };
            at += used;
            if self.starved {
                return Ok((at, Want::Memory));
            }
            debug_assert!(used > 0, "each step takes something");
        }
        Ok((at, self.want()))
    }

    fn frame(&self, bhs: &Bhs) -> Result<FrameHeader, Fault> {
        Ok(FrameHeader::new(bhs, &FrameLimits::from(&self.conn.params.get()))?)
    }

    /// The common case: header and payload lie in the chunk.
    fn feed_whole(&mut self, chunk: &[u8]) -> Result<usize, Fault> {
        let Some(bhs) = Bhs::from_prefix(chunk) else {
            return Ok(self.keep_head(chunk));
        };
        let frame = self.frame(bhs)?;
        let total = frame.total_len_bytes();
        if chunk.len() < total {
            return Ok(self.keep_head(&chunk[..chunk.len().min(frame.header_len_bytes())]));
        }
        let (head, rest) = chunk[..total].split_at(frame.header_len_bytes());
        if self.would_starve(bhs, frame.data_len_bytes()) {
            return Ok(self.keep_head(head));
        }
        frame.verify_header(head)?;
        let judged = ffp::judge(&self.conn, bhs, frame.data_len_bytes())?;
        if frame.verify_payload(rest).is_err() {
            ffp::bad_data_digest(&self.conn, bhs);
            return Ok(total);
        }
        let data = &rest[..frame.data_len_bytes()];
        match judged {
            ffp::Judged::Skip => {}
            ffp::Judged::Take => {
                let ahs = &head[BHS_LEN_BYTES..BHS_LEN_BYTES + frame.ahs_len_bytes()];
                ffp::arrive(&self.conn, bhs, ahs, Payload::Lent(data))?;
            }
            ffp::Judged::Write { task, offset } => {
                self.conn.count_data_out(data.len());
                task.fill(offset, data);
                ffp::data_arrived(&self.conn, &task);
            }
        }
        Ok(total)
    }

    /// The data of a command is not waited for any longer, nor that of one ahead of its turn: what
    /// comes before it could be behind it.
    fn may_lose(&self, bhs: &Bhs) -> bool {
        let (expected, _) = self.conn.session.window_edges();
        let is_early = !bhs.is_immediate() && bhs.cmd_sn() != expected;
        bhs.opcode() == Opcode::SCSI_COMMAND && (self.gives_up || is_early)
    }

    /// There is no memory for the data of a command, if it has to be kept.
    fn would_starve(&self, bhs: &Bhs, len: usize) -> bool {
        let is_command = bhs.opcode() == Opcode::SCSI_COMMAND && len > 0;
        is_command && !self.conn.has_room_for(len)
    }

    fn keep_head(&mut self, part: &[u8]) -> usize {
        self.head[self.head_have..self.head_have + part.len()].copy_from_slice(part);
        self.head_have += part.len();
        part.len()
    }

    /// The rest of a header, and the first of its payload.
    fn feed_head(&mut self, chunk: &[u8]) -> Result<usize, Fault> {
        let mut used = 0;
        if self.head_have < BHS_LEN_BYTES {
            used = (BHS_LEN_BYTES - self.head_have).min(chunk.len());
            self.keep_head(&chunk[..used]);
            if self.head_have < BHS_LEN_BYTES {
                return Ok(used);
            }
        }
        let bhs = *Bhs::from_prefix(&self.head[..]).expect("48 bytes are there");
        let frame = self.frame(&bhs)?;
        let missing = (frame.header_len_bytes() - self.head_have).min(chunk.len() - used);
        self.keep_head(&chunk[used..used + missing]);
        used += missing;
        if self.head_have == frame.header_len_bytes() {
            self.open_body(&bhs, frame)?;
        }
        if used == 0 && self.body.is_some() { self.feed_body(chunk) } else { Ok(used) }
    }

    /// The header is complete: judge it, and make room for the payload.
    fn open_body(&mut self, bhs: &Bhs, frame: FrameHeader) -> Result<(), Fault> {
        frame.verify_header(&self.head[..frame.header_len_bytes()])?;
        // Only data that is taken changes something by being judged: a header that has to wait can
        // be judged again.
        let sink = match ffp::judge(&self.conn, bhs, frame.data_len_bytes())? {
            ffp::Judged::Skip => Sink::Skip,
            ffp::Judged::Write { task, offset } => Sink::Write { task, offset },
            ffp::Judged::Take => match self.conn.room_for(frame.data_len_bytes()) {
                Some(held) => {
                    self.gives_up = false;
                    Sink::Own(held)
                }
                None if self.may_lose(bhs) => Sink::Lost,
                None if Buf::capacity_of(frame.data_len_bytes()) > memory_bytes() => {
                    return Err(Fault::Protocol("its data is longer than all memory"));
                }
                None => {
                    self.starved = true;
                    return Ok(());
                }
            },
        };
        self.starved = false;
        self.body =
            Some(Body { frame, sink, have: 0, digest: Digest::new(), tail: [0; 8], tail_have: 0 });
        if frame.payload_len_bytes() == 0 { self.close_body() } else { Ok(()) }
    }

    fn feed_body(&mut self, chunk: &[u8]) -> Result<usize, Fault> {
        let body = self.body.as_mut().expect("called with a body");
        let used = (body.frame.data_len_bytes() - body.have).min(chunk.len());
        body.take(&chunk[..used]);
        if matches!(body.sink, Sink::Write { .. }) {
            self.conn.count_data_out(used);
        }
        let tail_len = body.frame.payload_len_bytes() - body.frame.data_len_bytes();
        let mut tail_used = 0;
        if body.have == body.frame.data_len_bytes() {
            tail_used = (tail_len - body.tail_have).min(chunk.len() - used);
            let tail = &chunk[used..used + tail_used];
            body.tail[body.tail_have..body.tail_have + tail_used].copy_from_slice(tail);
            body.tail_have += tail_used;
            if body.tail_have == tail_len {
                self.close_body()?;
            }
        }
        Ok(used + tail_used)
    }

    /// The PDU is complete.
    fn close_body(&mut self) -> Result<(), Fault> {
        let body = self.body.take().expect("called with a body");
        let bhs = *Bhs::from_prefix(&self.head[..]).expect("48 bytes are there");
        let head_have = std::mem::replace(&mut self.head_have, 0);
        self.split_pdus += 1;
        if !body.digest_holds() {
            ffp::bad_data_digest(&self.conn, &bhs);
            return Ok(());
        }
        match body.sink {
            Sink::Skip => Ok(()),
            Sink::Write { task, .. } => {
                ffp::data_arrived(&self.conn, &task);
                Ok(())
            }
            Sink::Own(held) => self.arrive(&bhs, head_have, Payload::Own(held)),
            Sink::Lost => self.arrive(&bhs, head_have, Payload::Lost),
        }
    }

    fn arrive(&self, bhs: &Bhs, head_have: usize, payload: Payload<'_>) -> Result<(), Fault> {
        let ahs_end = BHS_LEN_BYTES + bhs.total_ahs_len_bytes();
        let ahs = &self.head[BHS_LEN_BYTES..ahs_end.min(head_have)];
        ffp::arrive(&self.conn, bhs, ahs, payload)
    }

    /// A long payload goes straight into its buffer.
    fn want(&mut self) -> Want {
        let Some(body) = &mut self.body else { return Want::Chunk };
        let missing = body.frame.data_len_bytes() - body.have;
        if missing < DIRECT_BYTES_MIN {
            return Want::Chunk;
        }
        match &mut body.sink {
            Sink::Own(held) => {
                let place = std::mem::replace(&mut held.buf, Buf::empty());
                Want::Direct(place, body.have..body.have + missing)
            }
            Sink::Write { task, offset } => match task.lend_buffer() {
                Some(place) if *offset + body.have + missing <= place.len() => {
                    let from = *offset + body.have;
                    Want::Direct(place, from..from + missing)
                }
                Some(place) => {
                    task.return_buffer(place);
                    Want::Chunk
                }
                None => Want::Chunk,
            },
            Sink::Skip | Sink::Lost => Want::Chunk,
        }
    }

    /// The range that [`Want::Direct`] asked for has been filled.
    pub(crate) fn direct_done(&mut self, place: Buf, range: Range<usize>) -> Result<Want, Fault> {
        let body = self.body.as_mut().expect("a direct payload has a body");
        if body.frame.has_data_digest() {
            body.digest.update(&place[range.clone()]);
        }
        body.have += range.len();
        match &mut body.sink {
            Sink::Own(held) => held.buf = place,
            Sink::Write { task, .. } => {
                self.conn.count_data_out(range.len());
                task.return_buffer(place);
            }
            Sink::Skip | Sink::Lost => {}
        }
        if body.frame.payload_len_bytes() == body.frame.data_len_bytes() {
            self.close_body()?;
        }
        Ok(self.want())
    }
}

impl Body {
    fn take(&mut self, part: &[u8]) {
        if self.frame.has_data_digest() {
            self.digest.update(part);
        }
        match &mut self.sink {
            Sink::Skip | Sink::Lost => {}
            Sink::Own(held) => held.buf[self.have..self.have + part.len()].copy_from_slice(part),
            Sink::Write { task, offset } => task.fill(*offset + self.have, part),
        }
        self.have += part.len();
    }

    fn digest_holds(&self) -> bool {
        if !self.frame.has_data_digest() {
            return true;
        }
        let pad = self.frame.padding_len_bytes();
        let mut digest = self.digest.clone();
        digest.update(&self.tail[..pad]);
        digest.finish() == self.tail[pad..pad + 4]
    }
}

/// What could be had if nobody had anything.
fn memory_bytes() -> usize {
    ring::pool_usage().budget_bytes
}

/// Opcodes that only a target sends, or that nobody does, are a protocol error (RFC 7143 §11.17.1).
pub(crate) fn reject_unknown(conn: &Connection, bhs: &Bhs) {
    let reason = if bhs.opcode() == Opcode::SNACK {
        RejectReason::SNACK_REJECT
    } else if bhs.opcode().is_from_initiator() {
        RejectReason::COMMAND_NOT_SUPPORTED
    } else {
        RejectReason::PROTOCOL_ERROR
    };
    conn.push_reject(reason, bhs.bytes());
}

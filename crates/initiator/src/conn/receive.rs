//! Bytes in: the receiving half of a connection, without a socket.
//!
//! A PDU that lies whole in the received chunk is handled where it lies. Of one that does not, the
//! header is kept and judged first; read data that is long goes from the socket straight into the
//! buffer of its command.

use std::ops::Range;
use std::rc::Rc;

use iscsi::digest::{DIGEST_LEN_BYTES, Digest};
use iscsi::ffp::serial_lt;
use iscsi::framing::{AHS_LEN_BYTES_MAX, FrameError, FrameHeader, FrameLimits};
use iscsi::pdu::{BHS_LEN_BYTES, Bhs, Opcode};
use ring::Buf;

use super::Connection;
use crate::session::Task;

/// Read data of which more than this is missing is received straight into its place; less than
/// that comes along with the PDUs behind it.
const DIRECT_BYTES_MIN: usize = 32 << 10;

/// The longest data segment of anything but Data-In: sense data, text, a rejected header.
const SMALL_BYTES_MAX: usize = 64 << 10;

const HEAD_LEN_BYTES_MAX: usize = BHS_LEN_BYTES + AHS_LEN_BYTES_MAX + DIGEST_LEN_BYTES;

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

/// Where a data segment goes.
enum Sink {
    /// It is short and is collected.
    Small(Vec<u8>),
    /// The buffer of a read, from this offset on.
    Read { task: Rc<Task>, offset: usize },
}

/// A PDU whose header has been judged and whose data segment is on its way.
struct Body {
    frame: FrameHeader,
    sink: Sink,
    have: usize,
    digest: Digest,
    /// Padding and digest behind the data.
    tail: [u8; 8],
    tail_have: usize,
}

/// What the receiver wants next.
pub(super) enum Want {
    /// Whatever comes.
    Chunk,
    /// Exactly this range of the buffer, which is to be given back in any case.
    Direct(Buf, Range<usize>),
}

/// The receiving half of one connection.
pub(super) struct Receiver {
    conn: Rc<Connection>,
    limits: FrameLimits,
    head: Box<[u8; HEAD_LEN_BYTES_MAX]>,
    head_have: usize,
    body: Option<Body>,
}

impl Receiver {
    pub(super) fn new(conn: Rc<Connection>) -> Self {
        let limits = FrameLimits::from(&conn.params);
        Self { conn, limits, head: Box::new([0; HEAD_LEN_BYTES_MAX]), head_have: 0, body: None }
    }

    /// Handles all of `chunk`.
    pub(super) fn feed(&mut self, chunk: &[u8]) -> Result<Want, Fault> {
        let mut at = 0;
        while at < chunk.len() && !self.conn.is_ending() {
            let rest = &chunk[at..];
            let used = if self.body.is_some() {
                self.feed_body(rest)?
            } else if self.head_have > 0 {
                self.feed_head(rest)?
            } else {
                self.feed_whole(rest)?
            };
            debug_assert!(used > 0 || self.body.is_some(), "each step takes or begins something");
            at += used;
        }
        Ok(self.want())
    }

    /// The common case: header and data lie in the chunk.
    fn feed_whole(&mut self, chunk: &[u8]) -> Result<usize, Fault> {
        let Some(bhs) = Bhs::from_prefix(chunk) else { return Ok(self.keep_head(chunk)) };
        let frame = FrameHeader::new(bhs, &self.limits)?;
        let total = frame.total_len_bytes();
        if chunk.len() < total {
            return Ok(self.keep_head(&chunk[..chunk.len().min(frame.header_len_bytes())]));
        }
        let (head, rest) = chunk[..total].split_at(frame.header_len_bytes());
        frame.verify_header(head)?;
        frame.verify_payload(rest)?;
        let data = &rest[..frame.data_len_bytes()];
        if bhs.opcode() == Opcode::DATA_IN {
            let (task, offset) = judge_data_in(&self.conn, bhs)?;
            task.fill(offset, data);
            self.conn.session.data_in_arrived(&self.conn, &task, bhs)?;
        } else {
            self.conn.session.arrived(&self.conn, bhs, data)?;
        }
        Ok(total)
    }

    fn keep_head(&mut self, part: &[u8]) -> usize {
        self.head[self.head_have..self.head_have + part.len()].copy_from_slice(part);
        self.head_have += part.len();
        part.len()
    }

    fn feed_head(&mut self, chunk: &[u8]) -> Result<usize, Fault> {
        let mut used = 0;
        if self.head_have < BHS_LEN_BYTES {
            used = chunk.len().min(BHS_LEN_BYTES - self.head_have);
            self.keep_head(&chunk[..used]);
            if self.head_have < BHS_LEN_BYTES {
                return Ok(used);
            }
        }
        let bhs = *Bhs::from_prefix(&self.head[..]).expect("48 bytes are there");
        let frame = FrameHeader::new(&bhs, &self.limits)?;
        let missing = frame.header_len_bytes() - self.head_have;
        let more = missing.min(chunk.len() - used);
        self.keep_head(&chunk[used..used + more]);
        used += more;
        if more == missing {
            self.open_body(&bhs, frame)?;
        }
        Ok(used)
    }

    /// The header is complete.
    fn open_body(&mut self, bhs: &Bhs, frame: FrameHeader) -> Result<(), Fault> {
        frame.verify_header(&self.head[..self.head_have])?;
        let sink = if bhs.opcode() == Opcode::DATA_IN {
            let (task, offset) = judge_data_in(&self.conn, bhs)?;
            Sink::Read { task, offset }
        } else if frame.data_len_bytes() <= SMALL_BYTES_MAX {
            Sink::Small(Vec::with_capacity(frame.data_len_bytes()))
        } else {
            return Err(Fault::Protocol("a data segment too long for its PDU"));
        };
        self.body =
            Some(Body { frame, sink, have: 0, digest: Digest::new(), tail: [0; 8], tail_have: 0 });
        if frame.payload_len_bytes() == 0 { self.close_body() } else { Ok(()) }
    }

    fn feed_body(&mut self, chunk: &[u8]) -> Result<usize, Fault> {
        let body = self.body.as_mut().expect("called with a body");
        let used = (body.frame.data_len_bytes() - body.have).min(chunk.len());
        body.take(&chunk[..used]);
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
        self.head_have = 0;
        if !body.digest_holds() {
            return Err(Fault::Frame(FrameError::DataDigest));
        }
        match body.sink {
            Sink::Small(data) => self.conn.session.arrived(&self.conn, &bhs, &data),
            Sink::Read { task, .. } => self.conn.session.data_in_arrived(&self.conn, &task, &bhs),
        }
    }

    fn want(&mut self) -> Want {
        let Some(body) = &mut self.body else { return Want::Chunk };
        let missing = body.frame.data_len_bytes() - body.have;
        if missing < DIRECT_BYTES_MIN {
            return Want::Chunk;
        }
        match &body.sink {
            Sink::Read { task, offset } => match task.data_in.take() {
                Some(place) => {
                    let from = *offset + body.have;
                    Want::Direct(place, from..from + missing)
                }
                None => Want::Chunk,
            },
            Sink::Small(_) => Want::Chunk,
        }
    }

    /// Returns the buffer that [`Want::Direct`] lent.
    pub(super) fn give_back(&mut self, place: Buf) {
        if let Some(Body { sink: Sink::Read { task, .. }, .. }) = &self.body {
            *task.data_in.borrow_mut() = Some(place);
        }
    }

    /// The range that [`Want::Direct`] asked for has been filled.
    pub(super) fn direct_done(&mut self, range: &Range<usize>) -> Result<Want, Fault> {
        let body = self.body.as_mut().expect("a direct payload has a body");
        if body.frame.has_data_digest()
            && let Sink::Read { task, .. } = &body.sink
            && let Some(place) = task.data_in.borrow().as_ref()
        {
            body.digest.update(&place[range.clone()]);
        }
        body.have += range.len();
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
            Sink::Small(data) => data.extend_from_slice(part),
            Sink::Read { task, offset } => task.fill(*offset + self.have, part),
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
        digest.finish() == self.tail[pad..pad + DIGEST_LEN_BYTES]
    }
}

/// The task of a Data-In PDU and the place of its data, checked before a byte of it is taken.
fn judge_data_in(conn: &Connection, bhs: &Bhs) -> Result<(Rc<Task>, usize), Fault> {
    let task =
        conn.session.task(conn, bhs.itt()).ok_or(Fault::Protocol("Data-In for no task of ours"))?;
    let pdu = iscsi::pdu::DataIn::parse(bhs).expect("the opcode was looked at");
    if !task.is_read {
        return Err(Fault::Protocol("Data-In for a command that reads nothing"));
    }
    if pdu.data_sn != task.data_sn.get() || pdu.buffer_offset_bytes != task.received_bytes.get() {
        return Err(Fault::Protocol("Data-In out of order"));
    }
    let end = u64::from(pdu.buffer_offset_bytes) + u64::from(pdu.data_segment_len_bytes);
    if end > u64::from(task.expected_bytes) {
        return Err(Fault::Protocol("Data-In beyond the expected length"));
    }
    Ok((task, pdu.buffer_offset_bytes as usize))
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

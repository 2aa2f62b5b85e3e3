//! What becomes of the bytes of a connection, without a socket.
//!
//! A PDU that lies whole in the received chunk is handled where it lies. Of one that does not, the
//! header is judged, and only then is room made for its payload ("refuse on the 48 bytes,
//! allocate afterwards"); a long payload is received straight into its place.

use std::ops::Range;
use std::rc::Rc;

use iscsi::assembly::{Assembler, Sink, Step, Whole};
use iscsi::framing::FrameLimits;
use iscsi::pdu::{Bhs, Opcode};
use ring::Buf;

use super::data_out::{bad_data_digest, data_arrived};
use super::{Judged, arrive, judge};
use crate::memory::Held;
use crate::session::{Connection, Fault, Task};

/// A payload of which more than this is missing is received straight into its place; less than
/// that comes along with the PDUs behind it.
const DIRECT_BYTES_MIN: usize = 32 << 10;

/// The data segment of a PDU.
#[derive(Debug)]
pub(super) enum Payload<'a> {
    /// Where it was received; to be copied if it must stay.
    Lent(&'a [u8]),
    /// In a buffer of its own.
    Own(Held),
    /// It came, but there was no memory for it.
    Lost,
}

impl Payload<'_> {
    pub(super) fn bytes(&self) -> &[u8] {
        match self {
            Self::Lent(bytes) => bytes,
            Self::Own(held) => &held.buf,
            Self::Lost => &[],
        }
    }

    pub(super) fn len(&self) -> usize {
        self.bytes().len()
    }

    /// The payload in a buffer of its own; `None` without memory.
    pub(super) fn into_held(self, conn: &Connection) -> Option<Held> {
        match self {
            Self::Own(held) => Some(held),
            Self::Lost => None,
            Self::Lent(bytes) => Some(conn.room_for(bytes.len())?.with_first(bytes)),
        }
    }
}

/// Where the payload of a split PDU goes.
#[derive(Debug)]
enum Place {
    /// Nobody wants it: it is read and forgotten.
    Nowhere,
    /// A buffer of its own.
    Own(Held),
    /// There is no memory for it: its command will be told so.
    Lost,
    /// The buffer of a write command, from this offset on.
    Write { task: Rc<Task>, offset: usize },
}

impl Sink for Place {
    fn take(&mut self, at: usize, part: &[u8]) {
        match self {
            Self::Nowhere | Self::Lost => {}
            Self::Own(held) => held.buf[at..at + part.len()].copy_from_slice(part),
            Self::Write { task, offset } => {
                task.conn().count_data_out(part.len());
                task.fill(*offset + at, part);
            }
        }
    }
}

/// What the receiver wants next.
pub(super) enum Want {
    /// Whatever comes.
    Chunk,
    /// Exactly this range of the buffer; give it back to [`Receiver::direct_done`].
    Direct(Buf, Range<usize>),
    /// Memory for the next payload: feed the rest of the chunk again when there is some.
    Memory,
}

/// The receiving half of one connection.
pub(super) struct Receiver {
    conn: Rc<Connection>,
    assembler: Assembler<Place>,
    /// A command has waited long enough for memory; those behind it do not, until there is some.
    gives_up: bool,
}

impl Receiver {
    pub(super) fn new(conn: Rc<Connection>) -> Self {
        Self { conn, assembler: Assembler::new(), gives_up: false }
    }

    /// What waits for memory is not to wait any longer, if it is a command, which a host can try
    /// again.
    pub(super) fn give_up(&mut self) {
        self.gives_up = true;
    }

    /// The number of the PDU of which a part has come, so that silence means a stall.
    pub(super) fn current_pdu(&self) -> Option<u64> {
        self.assembler.current()
    }

    /// Handles `chunk` and returns how much of it: all, unless memory is wanted first, or the output
    /// must drain before more is asked for.
    pub(super) fn feed(&mut self, chunk: &[u8]) -> Result<(usize, Want), Fault> {
        let mut rest = chunk;
        while self.goes_on() {
            // Text negotiation may have changed them with the PDU before.
            let limits = FrameLimits::from(&self.conn.params());
            let conn = &self.conn;
            match self
                .assembler
                .step(&mut rest, &limits, |bhs, len| !would_starve(conn, bhs, len))?
            {
                Step::Idle => break,
                Step::Whole(pdu) => self.take_whole(pdu)?,
                Step::Head(bhs) => {
                    let Some(place) = self.place_for(&bhs)? else {
                        return Ok((chunk.len() - rest.len(), Want::Memory));
                    };
                    self.assembler.open(place);
                }
                Step::Done { bhs, sink, is_intact } => self.take_split(&bhs, sink, is_intact)?,
            }
        }
        Ok((chunk.len() - rest.len(), self.want()))
    }

    /// What is complete is handled also without room for answers: no more bytes of it would come. Nothing
    /// is done for a connection that ends, of which the last answers may still be on their way.
    fn goes_on(&self) -> bool {
        !self.conn.is_ending() && (self.assembler.is_complete() || self.conn.mover.has_room())
    }

    /// The common case: header and payload lie in the chunk.
    #[inline]
    fn take_whole(&self, pdu: Whole<'_>) -> Result<(), Fault> {
        let Whole { bhs, ahs, data, is_intact } = pdu;
        let judged = judge(&self.conn, bhs, data.len())?;
        if !is_intact {
            bad_data_digest(&self.conn, bhs);
            return Ok(());
        }
        match judged {
            Judged::Skip => Ok(()),
            Judged::Take => arrive(&self.conn, bhs, ahs, Payload::Lent(data)),
            Judged::Write { task, offset } => {
                self.conn.count_data_out(data.len());
                task.fill(offset, data);
                data_arrived(&self.conn, &task);
                Ok(())
            }
        }
    }

    /// A header is complete: judges it, and makes room for the payload; `None` while there is none.
    /// Only data that is taken changes something by being judged: a header that has to wait can
    /// be judged again.
    fn place_for(&mut self, bhs: &Bhs) -> Result<Option<Place>, Fault> {
        let len = bhs.data_segment_len_bytes();
        Ok(Some(match judge(&self.conn, bhs, len)? {
            Judged::Skip => Place::Nowhere,
            Judged::Write { task, offset } => Place::Write { task, offset },
            Judged::Take => match self.conn.room_for(len) {
                Some(held) => {
                    self.gives_up = false;
                    Place::Own(held)
                }
                None if self.may_lose(bhs) => Place::Lost,
                None if Buf::capacity_of(len) > memory_bytes() => {
                    return Err(Fault::Protocol("its data is longer than all memory"));
                }
                None => return Ok(None),
            },
        }))
    }

    /// The data of a command is not waited for any longer, nor that of one ahead of its turn: what
    /// comes before it could be behind it.
    fn may_lose(&self, bhs: &Bhs) -> bool {
        let (expected, _) = self.conn.session.window_edges();
        let is_early = !bhs.is_immediate() && bhs.cmd_sn() != expected;
        bhs.opcode() == Opcode::SCSI_COMMAND && (self.gives_up || is_early)
    }

    /// A PDU that came in pieces is complete.
    fn take_split(&self, bhs: &Bhs, place: Place, is_intact: bool) -> Result<(), Fault> {
        if !is_intact {
            bad_data_digest(&self.conn, bhs);
            return Ok(());
        }
        let payload = match place {
            Place::Nowhere => return Ok(()),
            Place::Write { task, .. } => {
                data_arrived(&self.conn, &task);
                return Ok(());
            }
            Place::Own(held) => Payload::Own(held),
            Place::Lost => Payload::Lost,
        };
        arrive(&self.conn, bhs, self.assembler.ahs(), payload)
    }

    /// A long payload goes straight into its buffer.
    fn want(&mut self) -> Want {
        let Some((missing, place)) = self.assembler.missing() else { return Want::Chunk };
        if missing.len() < DIRECT_BYTES_MIN {
            return Want::Chunk;
        }
        match place {
            Place::Own(held) => {
                Want::Direct(std::mem::replace(&mut held.buf, Buf::empty()), missing)
            }
            Place::Write { task, offset } => match task.lend_buffer() {
                Some(buf) if *offset + missing.end <= buf.len() => {
                    Want::Direct(buf, *offset + missing.start..*offset + missing.end)
                }
                Some(buf) => {
                    task.return_buffer(buf);
                    Want::Chunk
                }
                None => Want::Chunk,
            },
            Place::Nowhere | Place::Lost => Want::Chunk,
        }
    }

    /// The range that [`Want::Direct`] asked for has been filled.
    pub(super) fn direct_done(&mut self, buf: Buf, range: Range<usize>) -> Result<Want, Fault> {
        let len = range.len();
        match self.assembler.came(&buf[range]) {
            Place::Own(held) => held.buf = buf,
            Place::Write { task, .. } => {
                self.conn.count_data_out(len);
                task.return_buffer(buf);
            }
            Place::Nowhere | Place::Lost => unreachable!("they lent no buffer"),
        }
        // Nothing more may be missing.
        let (_, want) = self.feed(&[])?;
        Ok(want)
    }
}

/// There is no memory for the data of a command, if it has to be kept.
#[inline]
fn would_starve(conn: &Connection, bhs: &Bhs, len: usize) -> bool {
    let is_command = bhs.opcode() == Opcode::SCSI_COMMAND && len > 0;
    is_command && !conn.has_room_for(len)
}

/// What could be had if nobody had anything.
fn memory_bytes() -> usize {
    ring::pool_usage().budget_bytes
}

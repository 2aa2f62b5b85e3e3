//! What becomes of the bytes of a connection, without a socket.
//!
//! A PDU that lies whole in the received chunk is handled where it lies. Of one that does not, the
//! header is judged first; read data that is long goes from the socket straight into the
//! buffer of its command.

use std::ops::Range;
use std::rc::Rc;

use iscsi::assembly::{Assembler, Sink, Step, Whole};
use iscsi::framing::{FrameError, FrameLimits};
use iscsi::pdu::{Bhs, Opcode};
use ring::Buf;

use super::connection::{Connection, Fault};
use super::task::Task;

/// Read data of which more than this is missing is received straight into its place; less than
/// that comes along with the PDUs behind it.
const DIRECT_BYTES_MIN: usize = 32 << 10;

/// The longest data segment of anything but Data-In: sense data, text, a rejected header.
const SMALL_BYTES_MAX: usize = 64 << 10;

/// Where a data segment goes that comes in pieces.
#[derive(Debug)]
enum Place {
    /// It is short and is collected.
    Small(Vec<u8>),
    /// The buffer of a read, from this offset on.
    Read { task: Rc<Task>, offset: usize },
}

impl Sink for Place {
    fn take(&mut self, at: usize, part: &[u8]) {
        match self {
            Self::Small(data) => data.extend_from_slice(part),
            Self::Read { task, offset } => task.fill(*offset + at, part),
        }
    }
}

/// What the receiver wants next.
pub(super) enum Want {
    /// Whatever comes.
    Chunk,
    /// Exactly this range of the buffer; give it back to [`Receiver::direct_done`] in any case.
    Direct(Buf, Range<usize>),
}

/// The receiving half of one connection.
pub(super) struct Receiver {
    conn: Rc<Connection>,
    limits: FrameLimits,
    assembler: Assembler<Place>,
}

impl Receiver {
    pub(super) fn new(conn: Rc<Connection>) -> Self {
        let limits = FrameLimits::from(&conn.params);
        Self { conn, limits, assembler: Assembler::new() }
    }

    /// Handles all of `chunk`.
    pub(super) fn feed(&mut self, mut chunk: &[u8]) -> Result<Want, Fault> {
        while self.assembler.is_complete() || !self.conn.is_ending() {
            match self.assembler.step(&mut chunk, &self.limits, |_, _| true)? {
                Step::Idle => break,
                Step::Whole(pdu) => self.take_whole(pdu)?,
                Step::Head(bhs) => {
                    let place = self.place_for(&bhs)?;
                    self.assembler.open(place);
                }
                Step::Done { is_intact: false, .. } => return Err(FrameError::DataDigest.into()),
                Step::Done { bhs, sink: Place::Small(data), .. } => {
                    self.conn.session.arrived(&self.conn, &bhs, &data)?;
                }
                Step::Done { bhs, sink: Place::Read { task, .. }, .. } => {
                    self.conn.session.data_in_arrived(&self.conn, &task, &bhs)?;
                }
            }
        }
        Ok(self.want())
    }

    /// The common case: header and data lie in the chunk.
    #[inline]
    fn take_whole(&self, pdu: Whole<'_>) -> Result<(), Fault> {
        let Whole { bhs, data, is_intact, .. } = pdu;
        if !is_intact {
            return Err(FrameError::DataDigest.into());
        }
        if bhs.opcode() == Opcode::DATA_IN {
            let (task, offset) = judge_data_in(&self.conn, bhs)?;
            task.fill(offset, data);
            self.conn.session.data_in_arrived(&self.conn, &task, bhs)
        } else {
            self.conn.session.arrived(&self.conn, bhs, data)
        }
    }

    /// A header is complete.
    fn place_for(&self, bhs: &Bhs) -> Result<Place, Fault> {
        let len = bhs.data_segment_len_bytes();
        if bhs.opcode() == Opcode::DATA_IN {
            let (task, offset) = judge_data_in(&self.conn, bhs)?;
            Ok(Place::Read { task, offset })
        } else if len <= SMALL_BYTES_MAX {
            Ok(Place::Small(Vec::with_capacity(len)))
        } else {
            Err(Fault::Protocol("a data segment too long for its PDU"))
        }
    }

    fn want(&mut self) -> Want {
        match self.assembler.missing() {
            Some((missing, Place::Read { task, offset })) if missing.len() >= DIRECT_BYTES_MIN => {
                match task.data_in.take() {
                    Some(buf) => Want::Direct(buf, *offset + missing.start..*offset + missing.end),
                    None => Want::Chunk,
                }
            }
            _ => Want::Chunk,
        }
    }

    /// The buffer that [`Want::Direct`] lent is back, `filled` in the range that was asked for or not.
    pub(super) fn direct_done(
        &mut self,
        buf: Buf,
        range: Range<usize>,
        filled: bool,
    ) -> Result<Want, Fault> {
        let Some((_, Place::Read { task, .. })) = self.assembler.missing() else {
            unreachable!("it lent no buffer");
        };
        let task = task.clone();
        if !filled {
            task.data_in.replace(Some(buf));
            return Ok(Want::Chunk);
        }
        self.assembler.came(&buf[range]);
        task.data_in.replace(Some(buf));
        self.feed(&[])
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

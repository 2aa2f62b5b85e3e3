//! A device of a fixed size as storage that grows and shrinks, as a database wants it.
//!
//! ```text
//! 0      slot 0 ┐ magic "drystone-sized1\n" (16) | sequence (8) | length (8) | CRC-32C (4), little-endian,
//! 4096   slot 1 ┘ zero up to the end of the 4 KiB
//! 8192   the data, up to its length
//! ```
//!
//! 1. The length is that of the slot with the higher sequence, of those whose checksum holds.
//! 2. A slot lies within one sector, and only the older one is written, after a sync. So while one is on its
//!    way to the device the other is there, whole.
//! 3. When a length is there, all bytes below it have been there or are zero.

use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crc_fast::CrcAlgorithm::Crc32Iscsi;
use redb::StorageBackend;

use super::Bytes;

const MAGIC: [u8; 16] = *b"drystone-sized1\n";
const SLOT_BYTES: u64 = 4096;
const DATA_OFFSET: u64 = 2 * SLOT_BYTES;
/// What must be zero before a device is taken: the slots, and where data begins.
const BEGIN_BYTES: usize = 64 * 1024;
const SIZE_BYTES_MIN: u64 = BEGIN_BYTES as u64;
/// What of a slot is written and checked.
const LABEL_BYTES: usize = 36;

/// Why a device is not taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SizeError {
    /// Too small for the slots.
    #[error(
        "a device of {0} bytes is too small for a configuration store: give it at least 64 KiB"
    )]
    TooSmall(u64),
    /// Neither empty nor a store.
    #[error(
        "the device holds something that is not a configuration store, or its label is damaged: nothing was written to it"
    )]
    Foreign,
    /// The data do not fit any more.
    #[error("the configuration store is full: it needs {wanted} bytes and its device has {len}")]
    Full {
        /// Bytes that were asked for.
        wanted: u64,
        /// Bytes that there are for data.
        len: u64,
    },
    /// A place beyond the length.
    #[error("bytes {offset} to {end} are beyond the end at {len}")]
    Beyond {
        /// Where it begins.
        offset: u64,
        /// Where it ends.
        end: u64,
        /// The length.
        len: u64,
    },
}

impl From<SizeError> for io::Error {
    fn from(error: SizeError) -> Self {
        let kind = match error {
            SizeError::TooSmall(_) | SizeError::Foreign => io::ErrorKind::InvalidData,
            SizeError::Full { .. } => io::ErrorKind::StorageFull,
            SizeError::Beyond { .. } => io::ErrorKind::InvalidInput,
        };
        Self::new(kind, error)
    }
}

/// One slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Label {
    sequence: u64,
    len: u64,
}

impl Label {
    /// Where it is written: even and odd sequences in turn.
    const fn offset(self) -> u64 {
        self.sequence % 2 * SLOT_BYTES
    }

    fn emit(self) -> [u8; LABEL_BYTES] {
        let mut bytes = [0; LABEL_BYTES];
        bytes[..16].copy_from_slice(&MAGIC);
        bytes[16..24].copy_from_slice(&self.sequence.to_le_bytes());
        bytes[24..32].copy_from_slice(&self.len.to_le_bytes());
        let crc = checksum(&bytes[..32]);
        bytes[32..].copy_from_slice(&crc.to_le_bytes());
        bytes
    }

    fn parse(bytes: &[u8; LABEL_BYTES]) -> Option<Self> {
        let word = |at: usize| {
            let mut word = [0; 8];
            word.copy_from_slice(&bytes[at..at + 8]);
            u64::from_le_bytes(word)
        };
        let label = Self { sequence: word(16), len: word(24) };
        (label.emit() == *bytes).then_some(label)
    }
}

fn checksum(bytes: &[u8]) -> u32 {
    u32::try_from(crc_fast::checksum(Crc32Iscsi, bytes)).unwrap_or_default()
}

/// A device of a fixed size as storage that grows and shrinks.
#[derive(Debug)]
pub struct Resizable {
    bytes: Arc<dyn Bytes>,
    label: Mutex<Label>,
}

impl Resizable {
    /// Takes a device, and makes it storage of no bytes if it is empty.
    ///
    /// # Errors
    /// [`SizeError::TooSmall`] or [`SizeError::Foreign`], or it cannot be read or written.
    pub fn open(bytes: Arc<dyn Bytes>) -> io::Result<Self> {
        if bytes.len_bytes() < SIZE_BYTES_MIN {
            return Err(SizeError::TooSmall(bytes.len_bytes()).into());
        }
        let slots = [read_label(&*bytes, 0)?, read_label(&*bytes, SLOT_BYTES)?];
        let label = match slots.into_iter().flatten().max_by_key(|label| label.sequence) {
            Some(label) if label.len <= bytes.len_bytes() - DATA_OFFSET => label,
            Some(label) => {
                let len = bytes.len_bytes() - DATA_OFFSET;
                return Err(SizeError::Full { wanted: label.len, len }.into());
            }
            None => format(&*bytes)?,
        };
        Ok(Self { bytes, label: Mutex::new(label) })
    }

    fn label(&self) -> MutexGuard<'_, Label> {
        self.label.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The place of `len` bytes at `offset` on the device.
    fn place(&self, offset: u64, len: usize) -> io::Result<u64> {
        let end = offset.saturating_add(len as u64);
        let len = self.label().len;
        if end > len {
            return Err(SizeError::Beyond { offset, end, len }.into());
        }
        Ok(DATA_OFFSET + offset)
    }
}

fn read_label(bytes: &dyn Bytes, offset: u64) -> io::Result<Option<Label>> {
    let mut found = [0; LABEL_BYTES];
    bytes.read_at(offset, &mut found)?;
    Ok(Label::parse(&found).filter(|label| label.offset() == offset))
}

/// What a device holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Contents {
    /// Zeroes, where a store would begin.
    Nothing,
    /// A label of a store that is whole.
    Store,
    /// Something else.
    Other,
}

/// Looks at what a device holds, and changes nothing.
///
/// # Errors
/// It cannot be read.
pub fn contents(bytes: &dyn Bytes) -> io::Result<Contents> {
    if bytes.len_bytes() < SIZE_BYTES_MIN {
        return Ok(Contents::Other);
    }
    if read_label(bytes, 0)?.is_some() || read_label(bytes, SLOT_BYTES)?.is_some() {
        return Ok(Contents::Store);
    }
    let mut start = vec![0; BEGIN_BYTES];
    bytes.read_at(0, &mut start)?;
    let is_zero = start.iter().all(|byte| *byte == 0);
    Ok(if is_zero { Contents::Nothing } else { Contents::Other })
}

/// Writes the first label, if there is nothing in front of the data and where they begin.
fn format(bytes: &dyn Bytes) -> io::Result<Label> {
    if contents(bytes)? != Contents::Nothing {
        return Err(SizeError::Foreign.into());
    }
    let label = Label { sequence: 0, len: 0 };
    bytes.write_at(label.offset(), &label.emit())?;
    bytes.sync()?;
    Ok(label)
}

fn write_zeros(bytes: &dyn Bytes, mut offset: u64, end: u64) -> io::Result<()> {
    let zeros = vec![0; 64 * 1024];
    while offset < end {
        let len = (end - offset).min(zeros.len() as u64);
        bytes.write_at(offset, &zeros[..usize::try_from(len).unwrap_or(zeros.len())])?;
        offset += len;
    }
    Ok(())
}

impl StorageBackend for Resizable {
    fn len(&self) -> io::Result<u64> {
        Ok(self.label().len)
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let place = self.place(offset, out.len())?;
        self.bytes.read_at(place, out)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        let available = self.bytes.len_bytes() - DATA_OFFSET;
        if len > available {
            return Err(SizeError::Full { wanted: len, len: available }.into());
        }
        let mut label = self.label();
        write_zeros(&*self.bytes, DATA_OFFSET + label.len, DATA_OFFSET + len)?;
        // The zeros are there before the length is, and the other slot before this one changes.
        self.bytes.sync()?;
        let next = Label { sequence: label.sequence + 1, len };
        debug_assert_ne!(next.offset(), label.offset(), "the slot that holds is not written");
        self.bytes.write_at(next.offset(), &next.emit())?;
        *label = next;
        Ok(())
    }

    fn sync_data(&self) -> io::Result<()> {
        self.bytes.sync()
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        let place = self.place(offset, data.len())?;
        self.bytes.write_at(place, data)
    }
}

#[cfg(test)]
mod tests;

//! The ledger beyond the end of the process: a file of answered writes, and of those that may still come.
//!
//! A head of 32 bytes with a table of volumes and a checksum, then records of 40 bytes, each with a
//! checksum, appended once a turn of the engine. A crash of the lab may lose the last of them; the blocks
//! they were of then hold a later write than the journal knows, which counts as right. A record that is
//! not whole with others behind it is no crash, and nothing is believed of such a journal.

use std::fs::{File, OpenOptions};
use std::io::{self, BufReader, Read, Write};
use std::path::{Path, PathBuf};

use super::record::{RECORD_BYTES, Record};
use super::{Ledger, unix_ns};

const MAGIC: &[u8; 8] = b"drylabj2";
/// Records that are kept in memory before they are written, at most.
const PENDING_BYTES_MAX: usize = 1 << 16;

/// Why a journal cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum JournalError {
    /// The file.
    #[error("the journal {path} cannot be used: {source}")]
    Io {
        /// Which one.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// What was to be added to it.
    #[error(
        "the journal {path} cannot be written: {source}; it is right as far as it goes, and nothing more is \
         measured that could not be checked later"
    )]
    Write {
        /// Which one.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// Something else.
    #[error("{0} is no journal of the lab")]
    NoJournal(PathBuf),
    /// Something in it is not what was written.
    #[error(
        "the journal {path} is damaged at byte {at}, and not by a crash: what it knows cannot be trusted, and it \
         was left as it is"
    )]
    Damaged {
        /// The file.
        path: PathBuf,
        /// Where what does not read begins.
        at: u64,
    },
    /// Of other volumes.
    #[error("the journal {path} is of {theirs}, not of {ours}")]
    OtherVolumes {
        /// Which one.
        path: PathBuf,
        /// The volumes it is of.
        theirs: String,
        /// The volumes that are worked on.
        ours: String,
    },
}

/// A file to which answered writes are appended.
#[derive(Debug)]
pub struct Journal {
    path: PathBuf,
    file: File,
    pending: Vec<u8>,
    /// Nothing is added behind what could not be added: it would stand behind half a record.
    is_broken: bool,
}

/// What a volume is for the journal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JournalVolume {
    /// Its name.
    pub name: String,
    /// Its size.
    pub size_bytes: u64,
    /// The logical block of its disk.
    pub lba_bytes: u32,
}

impl Journal {
    /// Opens a journal, or begins one; gives it with the ledger that it tells of.
    ///
    /// # Errors
    /// A [`JournalError`].
    pub fn open(
        path: &Path,
        key: u64,
        block_bytes: u32,
        volumes: &[JournalVolume],
    ) -> Result<(Self, Ledger), JournalError> {
        let failed = |source| JournalError::Io { path: path.to_owned(), source };
        let exists = path.metadata().is_ok_and(|metadata| metadata.len() > 0);
        let (key, block_bytes) = match exists {
            true => read_head(path, volumes)?,
            false => (key, block_bytes),
        };
        let mut ledger = Ledger::new(key, block_bytes);
        for volume in volumes {
            ledger.add_volume(&volume.name, volume.size_bytes, volume.lba_bytes);
        }
        let mut file = OpenOptions::new();
        let mut file = file.read(true).append(true).create(true).open(path).map_err(failed)?;
        if exists {
            let good_bytes = replay(path, &head(key, block_bytes, volumes), &mut ledger)?;
            // A record that was cut off would shift all that come after it.
            file.set_len(good_bytes).map_err(failed)?;
            ledger.skip_unknown();
        } else {
            file.write_all(&head(key, block_bytes, volumes)).map_err(failed)?;
        }
        Ok((Self { path: path.to_owned(), file, pending: Vec::new(), is_broken: false }, ledger))
    }

    /// Notes a write that was answered as done. It is in the file after the next [`flush`](Self::flush).
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn note(
        &mut self,
        volume: u16,
        at: u64,
        len: u64,
        sequence: u64,
    ) -> Result<(), JournalError> {
        let (time_unix_ns, is_given_up) = (unix_ns(), false);
        self.add(&Record { volume, at, len, sequence, time_unix_ns, is_given_up })
    }

    /// Notes a write that failed and may still come.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn note_given_up(
        &mut self,
        volume: u16,
        at: u64,
        len: u64,
        sequence: u64,
    ) -> Result<(), JournalError> {
        let (time_unix_ns, is_given_up) = (unix_ns(), true);
        self.add(&Record { volume, at, len, sequence, time_unix_ns, is_given_up })
    }

    fn add(&mut self, record: &Record) -> Result<(), JournalError> {
        let start = self.pending.len();
        record.words().iter().for_each(|word| self.pending.extend_from_slice(&word.to_le_bytes()));
        let sum = checksum(&self.pending[start..]);
        self.pending.extend_from_slice(&sum.to_le_bytes());
        if self.pending.len() >= PENDING_BYTES_MAX { self.flush() } else { Ok(()) }
    }

    /// Hands what was noted to the kernel, where it survives the end of this process.
    ///
    /// # Errors
    /// The file cannot be written: told once, and nothing is added from then on.
    pub fn flush(&mut self) -> Result<(), JournalError> {
        let pending = std::mem::take(&mut self.pending);
        if self.is_broken || pending.is_empty() {
            return Ok(());
        }
        let written = self.file.write_all(&pending);
        // Its room is used again.
        self.pending = pending;
        self.pending.clear();
        self.is_broken = written.is_err();
        written.map_err(|source| JournalError::Write { path: self.path.clone(), source })
    }
}

fn head(key: u64, block_bytes: u32, volumes: &[JournalVolume]) -> Vec<u8> {
    let mut head = MAGIC.to_vec();
    head.extend_from_slice(&key.to_le_bytes());
    head.extend_from_slice(&u64::from(block_bytes).to_le_bytes());
    let table = table(volumes);
    head.extend_from_slice(&(table.len() as u64).to_le_bytes());
    head.extend_from_slice(table.as_bytes());
    let sum = checksum(&head);
    head.extend_from_slice(&sum.to_le_bytes());
    head
}

/// One line for each volume.
fn table(volumes: &[JournalVolume]) -> String {
    let line = |volume: &JournalVolume| {
        format!("{} {} {}\n", volume.size_bytes, volume.lba_bytes, volume.name)
    };
    volumes.iter().map(line).collect()
}

/// Key and block size, if the journal is of these volumes.
fn read_head(path: &Path, volumes: &[JournalVolume]) -> Result<(u64, u32), JournalError> {
    const TABLE_BYTES_MAX: u64 = 1 << 24;
    let failed = |source| JournalError::Io { path: path.to_owned(), source };
    let none = || JournalError::NoJournal(path.to_owned());
    let mut file = File::open(path).map_err(failed)?;
    let mut fixed = [0; 32];
    file.read_exact(&mut fixed).map_err(|_| none())?;
    let word = |at: usize| u64::from_le_bytes(fixed[at..at + 8].try_into().expect("8 bytes"));
    let (key, block_bytes, table_bytes) = (word(8), word(16), word(24));
    let block_bytes = u32::try_from(block_bytes).ok().filter(|bytes| bytes.is_power_of_two());
    if !fixed.starts_with(MAGIC) {
        return Err(none());
    }
    let damaged = || JournalError::Damaged { path: path.to_owned(), at: 0 };
    let mut whole = fixed.to_vec();
    let rest = table_bytes.min(TABLE_BYTES_MAX) + 8;
    file.take(rest).read_to_end(&mut whole).map_err(failed)?;
    let (signed, sum) = whole.split_at(whole.len().saturating_sub(8));
    if sum != checksum(signed).to_le_bytes() {
        return Err(damaged());
    }
    let block_bytes = block_bytes.filter(|bytes| *bytes >= 512).ok_or_else(damaged)?;
    let theirs = String::from_utf8_lossy(&signed[fixed.len()..]).into_owned();
    let ours = table(volumes);
    if theirs != ours {
        let tidy = |text: &str| text.trim_end().replace('\n', ", ");
        let (theirs, ours) = (tidy(&theirs), tidy(&ours));
        return Err(JournalError::OtherVolumes { path: path.to_owned(), theirs, ours });
    }
    Ok((key, block_bytes))
}

/// Reads all records; gives the length of the file up to the last good one.
fn replay(path: &Path, head: &[u8], ledger: &mut Ledger) -> Result<u64, JournalError> {
    let failed = |source| JournalError::Io { path: path.to_owned(), source };
    let mut file = BufReader::new(File::open(path).map_err(failed)?);
    io::copy(&mut (&mut file).take(head.len() as u64), &mut io::sink()).map_err(failed)?;
    let mut good_bytes = head.len() as u64;
    let mut record = [0; RECORD_BYTES];
    while file.read_exact(&mut record).is_ok() {
        if !is_whole(&record) {
            // The rest of a crash is the end of the file.
            while file.read_exact(&mut record).is_ok() {
                if is_whole(&record) {
                    return Err(JournalError::Damaged { path: path.to_owned(), at: good_bytes });
                }
            }
            break;
        }
        ledger.restore(&Record::parse(&record));
        good_bytes += RECORD_BYTES as u64;
    }
    Ok(good_bytes)
}

fn is_whole(record: &[u8; RECORD_BYTES]) -> bool {
    let (signed, sum) = record.split_at(RECORD_BYTES - 8);
    sum == checksum(signed).to_le_bytes()
}

/// FNV-1a over words, the last one filled up with zeroes: enough to tell a record that was cut off, or has a
/// flipped bit, from one that was not.
fn checksum(bytes: &[u8]) -> u64 {
    bytes.chunks(8).fold(0xcbf2_9ce4_8422_2325, |sum, part| {
        let mut word = [0; 8];
        word[..part.len()].copy_from_slice(part);
        (sum ^ u64::from_le_bytes(word)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

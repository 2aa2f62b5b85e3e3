//! The two files that take turns.

use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind, Read};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use group::regular;
use serde::de::DeserializeOwned;

use super::{FILE_BYTES_MAX, FILE_LINES_MAX, Record, line};

/// Two files in a directory.
#[derive(Debug)]
pub(crate) struct Files {
    paths: [PathBuf; 2],
    /// Which one is written to.
    current: usize,
    /// Its lines and bytes that count.
    lines: usize,
    bytes: u64,
    /// It, while it can be written.
    open: Option<File>,
    /// Lines of the other one, once that held some and was emptied.
    left: Option<usize>,
}

/// What is left of a file.
#[derive(Debug)]
struct Left<T> {
    records: Vec<Record<T>>,
    lines: usize,
    /// Up to the end of its last whole line.
    bytes: u64,
}

impl Files {
    /// `name.0` and `name.1` in `dir`. Nothing is made yet.
    pub(crate) fn new(dir: &Path, name: &str) -> Self {
        let paths = [0, 1].map(|number| dir.join(format!("{name}.{number}")));
        Self { paths, current: 0, lines: 0, bytes: 0, open: None, left: None }
    }

    /// What was recorded before, oldest first. From now on it goes on behind the last of it.
    ///
    /// # Errors
    /// A file cannot be read; what can be is given all the same.
    pub(crate) fn read<T: DeserializeOwned>(&mut self) -> (Vec<Record<T>>, io::Result<()>) {
        let (first, second) = (read(&self.paths[0]), read(&self.paths[1]));
        let mut outcome = Ok(());
        let mut left = |read: io::Result<Left<T>>| {
            read.unwrap_or_else(|error| {
                outcome = Err(error);
                Left { records: Vec::new(), lines: 0, bytes: 0 }
            })
        };
        let left = [left(first), left(second)];
        let last = |left: &Left<T>| left.records.last().map(|record| record.number);
        self.current = usize::from(last(&left[1]) > last(&left[0]));
        (self.lines, self.bytes) = (left[self.current].lines, left[self.current].bytes);
        let mut records: Vec<_> = left.into_iter().flat_map(|left| left.records).collect();
        records.sort_by_key(|record| record.number);
        records.dedup_by_key(|record| record.number);
        (records, outcome)
    }

    /// Writes lines behind the last one, and has them on the disk. What fails may be tried again: it begins
    /// at the same place.
    ///
    /// # Errors
    /// What the system says. None of the lines counts then.
    pub(crate) fn append(&mut self, lines: &[Vec<u8>]) -> io::Result<()> {
        let mut rest = lines;
        while !rest.is_empty() {
            self.turn_if_full(rest[0].len() as u64)?;
            let room = FILE_LINES_MAX - self.lines;
            let mut text = Vec::new();
            let mut taken = 0;
            for line in rest.iter().take(room) {
                if taken > 0 && self.bytes + (text.len() + line.len()) as u64 > FILE_BYTES_MAX {
                    break;
                }
                text.extend_from_slice(line);
                taken += 1;
            }
            self.write(&text).inspect_err(|_| self.open = None)?;
            self.bytes += text.len() as u64;
            self.lines += taken;
            rest = &rest[taken..];
        }
        Ok(())
    }

    /// How many lines were left to a file when the other one, which was older, was emptied, if that was so since it
    /// was asked last.
    pub(crate) fn take_left(&mut self) -> Option<usize> {
        self.left.take()
    }

    fn write(&mut self, text: &[u8]) -> io::Result<()> {
        let file = match &mut self.open {
            Some(file) => file,
            closed => {
                let file = open(&self.paths[self.current])?;
                // What a crash, or a write that failed, has left behind the last line.
                file.set_len(self.bytes)?;
                closed.insert(file)
            }
        };
        file.write_all_at(text, self.bytes)?;
        file.sync_data()
    }

    /// Goes over to the other file, which is emptied, if this one has no room for so many bytes.
    fn turn_if_full(&mut self, more_bytes: u64) -> io::Result<()> {
        let is_full = self.lines >= FILE_LINES_MAX
            || self.lines > 0 && self.bytes + more_bytes > FILE_BYTES_MAX;
        if !is_full {
            return Ok(());
        }
        let other = 1 - self.current;
        let file = open(&self.paths[other])?;
        if file.metadata()?.len() > 0 {
            self.left = Some(self.lines);
        }
        file.set_len(0)?;
        (self.current, self.lines, self.bytes, self.open) = (other, 0, 0, Some(file));
        Ok(())
    }
}

/// For its owner alone: what hosts and people are called is nobody else's business.
fn open(path: &Path) -> io::Result<File> {
    match regular::check(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(path)
}

fn read<T: DeserializeOwned>(path: &Path) -> io::Result<Left<T>> {
    let mut bytes = Vec::new();
    match regular::check(path).and_then(|()| File::open(path)) {
        // No file of this program is longer.
        Ok(file) => drop(file.take(2 * FILE_BYTES_MAX).read_to_end(&mut bytes)?),
        Err(error) if error.kind() == ErrorKind::NotFound => {}
        Err(error) => return Err(error),
    }
    let whole = bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
    bytes.truncate(whole);
    let lines = bytes.split_inclusive(|byte| *byte == b'\n');
    let lines: Vec<&[u8]> = lines.map(|line| line.strip_suffix(b"\n").unwrap_or(line)).collect();
    let records = lines.iter().filter_map(|line| line::decode(line)).collect();
    Ok(Left { records, lines: lines.len(), bytes: whole as u64 })
}

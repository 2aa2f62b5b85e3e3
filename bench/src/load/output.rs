//! One connection's output queue: everything that a turn wants to say leaves in one call.

use std::io::{self, IoSlice, Write};
use std::ops::Range;

/// Slices per call. Depth 32 writes need 64; more than this gains nothing measurable.
const SLICES_MAX: usize = 256;

#[derive(Debug, Clone)]
enum Piece {
    /// A run of `Output::heads`.
    Heads(Range<usize>),
    /// A run of the payload table that the caller passes to `flush`.
    Table(Range<usize>),
}

/// Headers held inline, payloads by reference into a table that outlives the queue.
#[derive(Debug, Default)]
pub(crate) struct Output {
    heads: Vec<u8>,
    pieces: Vec<Piece>,
    /// Pieces that have left, and bytes of the next one that have.
    sent_pieces: usize,
    sent_bytes: usize,
    queued_bytes: usize,
}

impl Output {
    /// Queues header bytes (copied).
    pub(crate) fn push_head(&mut self, bytes: &[u8]) {
        let start = self.heads.len();
        self.heads.extend_from_slice(bytes);
        self.queued_bytes += bytes.len();
        if let Some(Piece::Heads(run)) = self.pieces.last_mut()
            && run.end == start
        {
            run.end += bytes.len();
            return;
        }
        self.pieces.push(Piece::Heads(start..start + bytes.len()));
    }

    /// Queues a run of the payload table (by reference).
    pub(crate) fn push_table(&mut self, run: Range<usize>) {
        if run.is_empty() {
            return;
        }
        self.queued_bytes += run.len();
        self.pieces.push(Piece::Table(run));
    }

    /// Bytes queued and not yet sent.
    pub(crate) fn queued_bytes(&self) -> usize {
        self.queued_bytes
    }

    /// Sends what is queued, until it is empty or the socket takes no more.
    /// Returns the number of system calls.
    ///
    /// # Errors
    /// What the socket says, except "would block", which leaves the rest queued.
    pub(crate) fn flush(&mut self, socket: &mut impl Write, table: &[u8]) -> io::Result<u64> {
        let mut calls = 0;
        while self.queued_bytes > 0 {
            calls += 1;
            match self.send_once(socket, table) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(sent) => self.advance(sent),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(calls),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(calls)
    }

    fn send_once(&self, socket: &mut impl Write, table: &[u8]) -> io::Result<usize> {
        let mut slices = [IoSlice::new(&[]); SLICES_MAX];
        let mut used = 0;
        let mut skip = self.sent_bytes;
        for (slice, piece) in slices.iter_mut().zip(&self.pieces[self.sent_pieces..]) {
            let bytes = match piece {
                Piece::Heads(run) => &self.heads[run.clone()],
                Piece::Table(run) => &table[run.clone()],
            };
            *slice = IoSlice::new(&bytes[skip..]);
            skip = 0;
            used += 1;
        }
        match &slices[..used] {
            [one] => socket.write(one),
            many => socket.write_vectored(many),
        }
    }

    fn advance(&mut self, sent: usize) {
        self.queued_bytes -= sent;
        if self.queued_bytes == 0 {
            self.heads.clear();
            self.pieces.clear();
            self.sent_pieces = 0;
            self.sent_bytes = 0;
            return;
        }
        let mut at = self.sent_bytes + sent;
        while let Some(Piece::Heads(run) | Piece::Table(run)) = self.pieces.get(self.sent_pieces)
            && at >= run.len()
        {
            at -= run.len();
            self.sent_pieces += 1;
        }
        self.sent_bytes = at;
        // What has left is cut off, or a queue that never empties would grow for ever.
        if self.sent_pieces > 4 * SLICES_MAX {
            self.compact();
        }
    }

    fn compact(&mut self) {
        self.pieces.drain(..self.sent_pieces);
        self.sent_pieces = 0;
        let first = self.pieces.iter().find_map(|piece| match piece {
            Piece::Heads(run) => Some(run.start),
            Piece::Table(_) => None,
        });
        let cut = first.unwrap_or(self.heads.len());
        self.heads.drain(..cut);
        for piece in &mut self.pieces {
            if let Piece::Heads(run) = piece {
                *run = run.start - cut..run.end - cut;
            }
        }
    }
}

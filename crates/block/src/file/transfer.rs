//! One plain read, write or sync of a file, as a future without allocation.

use std::future::Future;
use std::io;
use std::mem;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::task::{Context, Poll};

use ring::{Buf, BufIo, Data, DataIo};

use super::Store;
use super::commit::Joined;
use crate::BlockError;
use crate::locks::{StripeGuard, StripeLocks};

/// The stripes that a transfer holds until its bytes are moved.
pub(super) type Held = Option<StripeGuard<Arc<StripeLocks>>>;

/// A transfer that is under way. It ends with the data that it read, if it was a read.
///
/// Short reads and writes are continued where they stopped, so an error names the first byte that
/// could not be moved. A write whose future is dropped goes on as a task of its own:
/// the host may be told that it was aborted, but the stripes must not be let go
/// while the kernel still writes.
pub(crate) struct Transfer {
    store: Arc<Store>,
    at: u64,
    held: Held,
    step: Step,
}

enum Step {
    /// `done` bytes are in the buffer that the operation holds.
    Read {
        io: BufIo,
        done: usize,
        len: usize,
    },
    /// `done` bytes of `data` are written; `durable` asks for a durable write past the page cache
    /// and for a sync after one into it.
    Write {
        io: DataIo,
        done: usize,
        data: Data,
        durable: bool,
    },
    Sync(Joined),
    /// Nothing left to do, also for the task that a dropped transfer becomes.
    Over,
}

impl Transfer {
    /// Reads into `buf`, of which `done` bytes are there already.
    pub(super) fn read(store: &Arc<Store>, held: Held, at: u64, buf: Buf, done: usize) -> Self {
        let len = buf.len();
        let io = store.start_read(buf, done..len, at + done as u64);
        Self { store: Arc::clone(store), at, held, step: Step::Read { io, done, len } }
    }

    pub(super) fn write(
        store: &Arc<Store>,
        held: Held,
        at: u64,
        data: Data,
        durable: bool,
    ) -> Self {
        let io = store.start_write(data.clone(), at, durable);
        let step = Step::Write { io, done: 0, data, durable };
        Self { store: Arc::clone(store), at, held, step }
    }

    /// Makes durable what is in the page cache; errors speak of byte `at`.
    pub(super) fn sync(store: &Arc<Store>, at: u64) -> Self {
        let step = Step::Sync(store.join_sync(at));
        Self { store: Arc::clone(store), at, held: None, step }
    }

    /// The place of an error `done` bytes into the transfer.
    fn error(&self, error: &io::Error, done: usize) -> BlockError {
        let block_bytes = u64::from(self.store.geometry.block_bytes);
        let place = self.at + done as u64;
        BlockError::from_io(error, place - place % block_bytes)
    }

    /// Somebody cut the file behind our back.
    fn ends_early(&self, done: usize) -> BlockError {
        self.store.is_cut.store(true, Relaxed);
        self.error(&io::ErrorKind::UnexpectedEof.into(), done)
    }

    /// Takes the count of one operation: how many bytes are done now, or why there are no more.
    fn progress(&self, moved: io::Result<usize>, done: usize) -> Result<usize, BlockError> {
        match moved {
            Ok(0) => Err(self.ends_early(done)),
            Ok(count) => Ok(done + count),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(done),
            Err(error) => Err(self.error(&error, done)),
        }
    }

    fn moved(&mut self, moved: io::Result<usize>) -> Result<Option<Data>, BlockError> {
        let step = mem::replace(&mut self.step, Step::Over);
        let Step::Write { done, data, durable, .. } = step else {
            unreachable!("only writes report here");
        };
        let done = self.progress(moved, done)?;
        let at = self.at + done as u64;
        self.step = if done < data.len() {
            let io = self.store.start_write(data.slice(done..data.len()), at, durable);
            Step::Write { io, done, data, durable }
        } else {
            self.held = None;
            match durable && self.store.direct.is_none() {
                true => Step::Sync(self.store.join_sync(self.at)),
                false => Step::Over,
            }
        };
        Ok(None)
    }

    fn filled(
        &mut self,
        buf: Buf,
        filled: io::Result<usize>,
        done: usize,
        len: usize,
    ) -> Result<Option<Data>, BlockError> {
        let done = self.progress(filled, done)?;
        if done == len {
            self.step = Step::Over;
            return Ok(Some(buf.into()));
        }
        if !(done as u64).is_multiple_of(u64::from(self.store.geometry.block_bytes)) {
            // Only the end of a file that was cut lies inside a block, and direct I/O cannot even
            // ask from there.
            return Err(self.ends_early(done));
        }
        let io = self.store.start_read(buf, done..len, self.at + done as u64);
        self.step = Step::Read { io, done, len };
        Ok(None)
    }
}

impl Future for Transfer {
    /// The data of a read; empty data for anything else.
    type Output = Result<Data, BlockError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        loop {
            let result = match &mut self.step {
                Step::Read { io, done, len } => {
                    let (done, len) = (*done, *len);
                    let Poll::Ready((buf, filled)) = Pin::new(io).poll(cx) else {
                        return Poll::Pending;
                    };
                    self.filled(buf, filled, done, len)
                }
                Step::Write { io, .. } => {
                    let Poll::Ready(moved) = Pin::new(io).poll(cx) else {
                        return Poll::Pending;
                    };
                    self.moved(moved)
                }
                Step::Sync(joined) => {
                    let Poll::Ready(synced) = Pin::new(joined).poll(cx) else {
                        return Poll::Pending;
                    };
                    self.step = Step::Over;
                    synced.map(|()| None)
                }
                Step::Over => Ok(Some(Data::default())),
            };
            match result {
                Ok(None) => {}
                Ok(Some(data)) => {
                    self.held = None;
                    return Poll::Ready(Ok(data));
                }
                Err(error) => {
                    self.step = Step::Over;
                    self.held = None;
                    return Poll::Ready(Err(error));
                }
            }
        }
    }
}

impl Drop for Transfer {
    fn drop(&mut self) {
        let step = mem::replace(&mut self.step, Step::Over);
        let Step::Write { mut io, .. } = step else { return };
        // The locks of the file go with the last of these: nobody opens it anew while the kernel still writes.
        let held = (self.held.take(), Arc::clone(&self.store));
        // One operation is left in the kernel; a rest after a short write is not begun any more.
        // The task owns no `Transfer`, so a core that ends and drops it starts nothing new.
        ring::spawn(async move {
            // The result has nobody to go to: the task it belonged to was aborted.
            let _moved = Pin::new(&mut io).await;
            drop(held);
        });
    }
}

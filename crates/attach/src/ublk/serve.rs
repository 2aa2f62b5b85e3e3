//! The requests of a device, on a core: one task for each that can be under way.

use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use block::{BlockError, WriteFlags};
use ring::{Buf, UblkQueue};

use super::wire::{Command, Request};
use crate::errno::errno;
use crate::pieces::pieces;
use crate::stats::Kind;
use crate::{Disk, User, Zeroing};

/// How the tasks do, for the thread that owns the device.
#[derive(Debug, Default)]
pub(super) struct Progress {
    /// A request is not waited for any more: the device goes, or never came.
    broken: AtomicBool,
    /// No task is left.
    over: AtomicBool,
}

impl Progress {
    pub(super) fn is_broken(&self) -> bool {
        self.broken.load(Ordering::Acquire)
    }

    pub(super) fn is_over(&self) -> bool {
        self.over.load(Ordering::Acquire)
    }
}

/// What the tasks share. It goes with the last of them, or with a core that ends or never began.
pub(super) struct Service {
    pub(super) queue: Arc<UblkQueue>,
    pub(super) disk: Arc<Disk>,
    /// The kernel, whoever uses the device.
    pub(super) user: User,
    pub(super) progress: Arc<Progress>,
    pub(super) on_end: Option<Box<dyn FnOnce() + Send>>,
}

impl Drop for Service {
    fn drop(&mut self) {
        self.progress.broken.store(true, Ordering::Release);
        self.progress.over.store(true, Ordering::Release);
        if let Some(on_end) = self.on_end.take() {
            on_end();
        }
    }
}

impl Service {
    /// Serves on the core that this is called on, until the device goes.
    pub(super) fn start(self) {
        // What the kernel allocates for this thread may not wait until dirty pages are written to
        // this very device.
        if let Err(error) = rustix::process::configure_io_flusher_behavior(true) {
            tracing::debug!("the core is not marked as one that writes pages back: {error}");
        }
        let service = Rc::new(self);
        for tag in 0..service.queue.depth() {
            ring::spawn(service.clone().serve(tag));
        }
    }

    /// Serves one request after the other.
    async fn serve(self: Rc<Self>, tag: u16) {
        let mut next = self.queue.fetch(tag);
        let end = loop {
            if let Err(end) = next.await {
                break end;
            }
            let result = self.answer(tag).await;
            next = self.queue.commit(tag, result);
        };
        if end.raw_os_error() != Some(libc::ENODEV) {
            tracing::error!("the kernel does not take a request's answer: {end}");
        }
        self.progress.broken.store(true, Ordering::Release);
    }

    /// Carries out the request of `tag`: the bytes done, or a negative error number.
    async fn answer(&self, tag: u16) -> i32 {
        let request = Request::of_bytes(&self.queue.descriptor(tag));
        let since = self.disk.stats().begin();
        let result = self.perform(tag, &request).await;
        self.disk.stats().end(since, kind(&request), result.is_ok());
        result.unwrap_or_else(|error| -errno(&error))
    }

    async fn perform(&self, tag: u16, request: &Request) -> Result<i32, BlockError> {
        let Request { at, len, .. } = *request;
        let flags = if request.durable { WriteFlags::DURABLE } else { WriteFlags::VOLATILE };
        match request.command {
            Command::Read => return self.read(tag, at, len).await,
            Command::Write => return self.write(tag, at, len, flags).await,
            Command::Flush => self.disk.flush_for(&self.user).await?,
            Command::Trim => self.disk.trim(at, len, request.durable).await?,
            Command::WriteZeroes => {
                let how = Zeroing { may_unmap: !request.keep_space, fast: false };
                self.disk.write_zeroes(at, len, how, flags).await?;
            }
            Command::Other(_) => return Err(BlockError::Unsupported),
        }
        Ok(0)
    }

    async fn read(&self, tag: u16, at: u64, len: u64) -> Result<i32, BlockError> {
        let mut filled = 0;
        for part in self.disk.read(at, len as usize).await? {
            self.queue.give(tag, filled, &part).map_err(|error| lost(&error))?;
            filled += part.len();
        }
        Ok(filled as i32)
    }

    async fn write(
        &self,
        tag: u16,
        at: u64,
        len: u64,
        flags: WriteFlags,
    ) -> Result<i32, BlockError> {
        let mut parts = Vec::new();
        let mut taken = 0;
        for piece in pieces(at..at.saturating_add(len)) {
            let mut buf =
                Buf::alloc((piece.end - piece.start) as usize).ok_or(BlockError::NoMemory)?;
            self.queue.take(tag, taken, &mut buf).map_err(|error| lost(&error))?;
            taken += buf.len();
            parts.push(buf.freeze());
        }
        self.disk.write_parts(at, parts, flags).await?;
        Ok(taken as i32)
    }
}

/// A copy from or to the kernel failed.
fn lost(error: &io::Error) -> BlockError {
    BlockError::Os { errno: error.raw_os_error().unwrap_or(libc::EIO) }
}

/// How the request is counted.
fn kind(request: &Request) -> Kind {
    match request.command {
        Command::Read => Kind::Read(request.len),
        Command::Write => Kind::Write(request.len),
        Command::WriteZeroes => Kind::Write(0),
        _ => Kind::Other,
    }
}

#[cfg(test)]
mod tests;

//! A logical unit of a target as a [`BlockDevice`], over one session or several.
//!
//! All sessions of a disk live on the core that attached it. Calls from that core go straight to a
//! session. Calls from other cores are handed to it, and their data is copied once on the way, into
//! memory that belongs to no core. A host that wants its full speed on several cores attaches the unit
//! once per core.

mod attach;
pub(crate) mod cache;
mod cdb;
mod core;
mod facts;
mod inspect;
mod judge;
mod leftovers;
mod news;
mod operations;
mod planner;
mod ports;
mod reads;
mod remote;
mod reopening;
mod routes;
mod survey;
mod tend;
mod tries;
mod ways;

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::ThreadId;

use block::{BlockDevice, BlockError, Compared, Extent, Geometry, IoFuture, WriteFlags, arguments};
use ring::{Data, Remote};

pub use attach::{AttachError, DiskOptions, PathReport, PlanOptions};

pub use cache::LossNote;
pub use reopening::{Opened, Opener, Pace, REOPEN_PAUSE_MAX, REOPEN_PAUSE_MIN};
pub use ways::HostWays;

use remote::Home;

/// A remote disk. Dropping it ends its sessions; [`Disk::detach`] does so in order.
pub struct Disk {
    /// As it was when it was attached.
    geometry: Geometry,
    /// How many blocks there are now.
    blocks: Arc<AtomicU64>,
    address: String,
    naa: Option<Vec<u8>>,
    identity: Vec<u8>,
    home: Home,
}

/// Where a disk lives.
#[derive(Debug)]
struct Owner {
    thread: ThreadId,
    remote: Remote,
    key: usize,
}

impl fmt::Debug for Disk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Disk").field("address", &self.address).finish_non_exhaustive()
    }
}

impl BlockDevice for Disk {
    fn geometry(&self) -> Geometry {
        Geometry { blocks: self.blocks.load(Ordering::Relaxed), ..self.geometry }
    }

    fn read(&self, at: u64, len: usize) -> IoFuture<Data> {
        if let Some(answer) = arguments::read(&self.geometry(), at, len) {
            return IoFuture::ready(answer);
        }
        self.home.read(at, len)
    }

    fn write_now(
        &self,
        _at: u64,
        _bytes: &[u8],
        _flags: WriteFlags,
    ) -> Option<Result<(), BlockError>> {
        None
    }

    fn write(&self, at: u64, data: Data, flags: WriteFlags) -> IoFuture<()> {
        if let Some(answer) = arguments::write(&self.geometry(), at, data.len(), flags) {
            return IoFuture::ready(answer);
        }
        self.home.send(data, move |core, data| core.write(at, data, flags))
    }

    fn flush(&self) -> IoFuture<()> {
        self.home.call(|core| core.flush())
    }

    fn unmap(&self, at: u64, len: u64) -> IoFuture<()> {
        if let Some(answer) = arguments::unmap(&self.geometry(), at, len) {
            return IoFuture::ready(answer);
        }
        self.home.call(move |core| core.unmap(at, len))
    }

    fn write_zeroes(&self, at: u64, len: u64, may_unmap: bool, flags: WriteFlags) -> IoFuture<()> {
        if let Some(answer) = arguments::write_zeroes(&self.geometry(), at, len, flags) {
            return IoFuture::ready(answer);
        }
        self.home.call(move |core| core.zero(at, len, may_unmap, flags.durable))
    }

    fn compare_and_write(
        &self,
        at: u64,
        compare: Data,
        write: Data,
        flags: WriteFlags,
    ) -> IoFuture<Compared> {
        let answer = arguments::compare_and_write(&self.geometry(), at, &compare, &write);
        if let Some(answer) = answer {
            return IoFuture::ready(answer);
        }
        self.home.send_two(compare, write, move |core, compare, write| {
            core.compare_and_write(at, compare, write, flags.durable)
        })
    }

    fn or_write(&self, at: u64, data: Data, flags: WriteFlags) -> IoFuture<()> {
        if let Some(answer) = arguments::or_write(&self.geometry(), at, data.len()) {
            return IoFuture::ready(answer);
        }
        self.home.send(data, move |core, data| core.or_write(at, data, flags.durable))
    }

    fn extent(&self, at: u64) -> IoFuture<Extent> {
        if let Err(error) = arguments::extent(&self.geometry(), at) {
            return IoFuture::ready(Err(error));
        }
        self.home.call(move |core| core.extent(at))
    }
}

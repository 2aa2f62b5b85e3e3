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
mod routes;
mod survey;
mod tend;
mod tries;
mod ways;

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::ThreadId;

use block::{BlockDevice, BlockError, Compared, Extent, Geometry, IoFuture, WriteFlags};
use ring::{Data, Remote};

pub use attach::{AttachError, DiskOptions, PathReport, PlanOptions};

pub use cache::LossNote;
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
        if let Err(error) = self.geometry().check(at, len as u64) {
            return IoFuture::ready(Err(error));
        }
        if len == 0 {
            return IoFuture::ready(Ok(Data::default()));
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
        let checked = match flags.atomic {
            true => self.geometry().check_atomic(at, data.len() as u64),
            false => self.geometry().check_change(at, data.len() as u64),
        };
        if checked.is_err() || data.is_empty() {
            return IoFuture::ready(checked);
        }
        self.home.send(data, move |core, data| core.write(at, data, flags))
    }

    fn flush(&self) -> IoFuture<()> {
        self.home.call(|core| core.flush())
    }

    fn unmap(&self, at: u64, len: u64) -> IoFuture<()> {
        let checked = self.geometry().check_change(at, len);
        if checked.is_err() || len == 0 {
            return IoFuture::ready(checked);
        }
        self.home.call(move |core| core.unmap(at, len))
    }

    fn write_zeroes(&self, at: u64, len: u64, may_unmap: bool, flags: WriteFlags) -> IoFuture<()> {
        let checked = self.geometry().check_change(at, len);
        if checked.is_err() || len == 0 {
            return IoFuture::ready(checked);
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
        if compare.len() != write.len() {
            return IoFuture::ready(Err(BlockError::PayloadMismatch));
        }
        let checked = self.geometry().check_atomic(at, compare.len() as u64);
        if checked.is_err() || compare.is_empty() {
            return IoFuture::ready(checked.map(|()| Compared::Equal));
        }
        self.home.send_two(compare, write, move |core, compare, write| {
            core.compare_and_write(at, compare, write, flags.durable)
        })
    }

    fn or_write(&self, at: u64, data: Data, flags: WriteFlags) -> IoFuture<()> {
        let checked = self.geometry().check_atomic(at, data.len() as u64);
        if checked.is_err() || data.is_empty() {
            return IoFuture::ready(checked);
        }
        self.home.send(data, move |core, data| core.or_write(at, data, flags.durable))
    }

    fn extent(&self, at: u64) -> IoFuture<Extent> {
        if let Err(error) = self.geometry().check(at, u64::from(self.geometry.block_bytes)) {
            return IoFuture::ready(Err(error));
        }
        self.home.call(move |core| core.extent(at))
    }
}

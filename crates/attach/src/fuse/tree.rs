//! The file system as the kernel sees it: a directory, and the disk in it.

use std::ffi::OsStr;
use std::future::Future;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use block::{BlockError, ExtentState, WriteFlags};
use fuser::{
    BsdFileFlags, Errno, FileAttr, FileHandle, FileType, Filesystem, FopenFlags, Generation,
    INodeNo, InitFlags, KernelConfig, LockOwner, OpenFlags, ReplyAttr, ReplyData, ReplyDirectory,
    ReplyEmpty, ReplyEntry, ReplyLseek, ReplyOpen, ReplyWrite, Request, TimeOrNow,
    WriteFlags as FuseWriteFlags,
};
use ring::{Buf, Data, Remote};

use super::FILE_NAME;
use super::handles::Handles;
use super::room::Room;
use crate::stats::Kind;
use crate::{Disk, Zeroing};

const FILE: INodeNo = INodeNo(2);

/// How long the kernel may trust names and attributes. They change only through it, but for the length
/// of a disk that grows.
const TTL: Duration = Duration::from_secs(1);

/// The longest read or write that the kernel sends in one request (256 pages, its own limit).
const TRANSFER_BYTES_MAX: u32 = 1 << 20;

/// Reads and writes of loop devices and asynchronous I/O that the kernel has under way.
const BACKGROUND_MAX: u16 = 128;

/// Who may open the file; changed by chmod and chown, and gone with the mount.
#[derive(Debug, Clone, Copy)]
struct Owner {
    mode: u16,
    uid: u32,
    gid: u32,
}

pub(super) struct Tree {
    disk: Arc<Disk>,
    core: Remote,
    room: Arc<Room>,
    owner: Mutex<Owner>,
    handles: Handles,
    made: SystemTime,
    on_end: Option<Box<dyn FnOnce() + Send + Sync>>,
}

impl Tree {
    pub(super) fn new(
        disk: Arc<Disk>,
        core: Remote,
        on_end: Box<dyn FnOnce() + Send + Sync>,
    ) -> Tree {
        let mode = if disk.geometry().read_only { 0o400 } else { 0o600 };
        let uid = rustix::process::geteuid().as_raw();
        let gid = rustix::process::getegid().as_raw();
        let owner = Mutex::new(Owner { mode, uid, gid });
        let (room, made) = (Arc::default(), SystemTime::now());
        let handles = Handles::default();
        Tree { disk, core, room, owner, handles, made, on_end: Some(on_end) }
    }

    fn owner(&self) -> MutexGuard<'_, Owner> {
        self.owner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn attributes(&self, inode: INodeNo) -> Option<FileAttr> {
        let owner = *self.owner();
        let (kind, perm, nlink, size) = match inode {
            INodeNo::ROOT => (FileType::Directory, 0o755, 2, 0),
            FILE => (FileType::RegularFile, owner.mode, 1, self.disk.size_bytes()),
            _ => return None,
        };
        Some(FileAttr {
            ino: inode,
            size,
            blocks: size.div_ceil(512),
            atime: self.made,
            mtime: self.made,
            ctime: self.made,
            crtime: self.made,
            kind,
            perm,
            nlink,
            uid: owner.uid,
            gid: owner.gid,
            rdev: 0,
            blksize: self.disk.geometry().physical_block_bytes.max(4096),
            flags: 0,
        })
    }

    fn answer(&self, inode: INodeNo, reply: ReplyAttr) {
        match self.attributes(inode) {
            Some(attributes) => reply.attr(&TTL, &attributes),
            None => reply.error(Errno::ENOENT),
        }
    }

    /// Runs `job` on the core. Where that has ended the job is dropped, and the reply in it says
    /// EIO.
    fn on_core<F>(&self, payload_bytes: usize, job: impl FnOnce(Arc<Disk>) -> F + Send + 'static)
    where
        F: Future<Output = ()> + 'static,
    {
        let place = self.room.take(payload_bytes);
        let disk = self.disk.clone();
        self.core.run(move || {
            ring::spawn(async move {
                job(disk).await;
                drop(place);
            });
        });
    }
}

/// The number that the caller of a system call gets to see.
fn errno(error: BlockError) -> Errno {
    Errno::from_i32(crate::errno::errno(&error))
}

/// Counts `work` and gives its result.
async fn counted<T>(
    disk: &Disk,
    kind: Kind,
    work: impl Future<Output = Result<T, BlockError>>,
) -> Result<T, BlockError> {
    let since = disk.stats().begin();
    let result = work.await;
    disk.stats().end(since, kind, result.is_ok());
    result
}

/// Reads into one run of bytes, as the kernel takes them.
async fn read(disk: &Disk, at: u64, len: usize) -> Result<Data, BlockError> {
    let mut parts = disk.read(at, len).await?;
    if parts.len() == 1 && parts[0].as_slice().is_some() {
        return Ok(parts.remove(0));
    }
    let mut buf = Buf::alloc(len).ok_or(BlockError::NoMemory)?;
    let mut filled = 0;
    for part in parts {
        part.copy_to(0, &mut buf[filled..filled + part.len()]);
        filled += part.len();
    }
    Ok(buf.freeze())
}

async fn write(disk: &Disk, at: u64, bytes: &[u8], flags: WriteFlags) -> Result<(), BlockError> {
    if disk.is_plain(at, bytes.len())
        && let Some(result) = disk.write_now(at, bytes, flags)
    {
        return result;
    }
    let mut buf = Buf::alloc(bytes.len()).ok_or(BlockError::NoMemory)?;
    buf.copy_from_slice(bytes);
    disk.write(at, buf.freeze(), flags).await
}

/// The first byte from `at` on that holds data, or that is a hole (`lseek`); `None` when there is
/// no data up to the end. The end of the file is a hole.
async fn seek(disk: &Disk, at: u64, data: bool) -> Result<Option<u64>, BlockError> {
    let size_bytes = disk.size_bytes();
    let mut at = at;
    while at < size_bytes {
        let extents = disk.extents(at, size_bytes - at, 1).await?;
        let Some(extent) = extents.first() else { break };
        if (extent.state == ExtentState::Mapped) == data {
            return Ok(Some(at));
        }
        at += extent.len_bytes;
    }
    Ok((!data).then_some(size_bytes))
}

impl Filesystem for Tree {
    fn init(&mut self, _: &Request, config: &mut KernelConfig) -> io::Result<()> {
        // Each refusal gives the nearest value that the kernel takes; an older one has less.
        if let Err(nearest) = config.set_max_write(TRANSFER_BYTES_MAX) {
            let _ = config.set_max_write(nearest);
        }
        let _ = config.set_max_background(BACKGROUND_MAX);
        for wish in [InitFlags::FUSE_ASYNC_DIO, InitFlags::FUSE_DIRECT_IO_ALLOW_MMAP] {
            let _ = config.add_capabilities(wish);
        }
        Ok(())
    }

    fn destroy(&mut self) {
        if let Some(on_end) = self.on_end.take() {
            on_end();
        }
    }

    fn lookup(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let found = parent == INodeNo::ROOT && name == FILE_NAME;
        match self.attributes(FILE).filter(|_| found) {
            Some(attributes) => reply.entry(&TTL, &attributes, Generation(0)),
            None => reply.error(Errno::ENOENT),
        }
    }

    fn getattr(&self, _: &Request, inode: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        self.answer(inode, reply);
    }

    /// The size of a disk does not change. Truncation to nothing is what O_TRUNC asks for, and is
    /// passed over as block devices do; any other size is an error. Times are not kept.
    fn setattr(
        &self,
        _: &Request,
        inode: INodeNo,
        mode: Option<u32>,
        uid: Option<u32>,
        gid: Option<u32>,
        size: Option<u64>,
        _: Option<TimeOrNow>,
        _: Option<TimeOrNow>,
        _: Option<SystemTime>,
        _: Option<FileHandle>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        if inode != FILE {
            return reply.error(Errno::EPERM);
        }
        if size.is_some_and(|size| size != 0 && size != self.disk.size_bytes()) {
            return reply.error(Errno::EINVAL);
        }
        let mut owner = self.owner();
        owner.mode = mode.map_or(owner.mode, |mode| (mode & 0o777) as u16);
        owner.uid = uid.unwrap_or(owner.uid);
        owner.gid = gid.unwrap_or(owner.gid);
        drop(owner);
        self.answer(inode, reply);
    }

    fn readdir(
        &self,
        _: &Request,
        inode: INodeNo,
        _: FileHandle,
        offset: u64,
        mut reply: ReplyDirectory,
    ) {
        if inode != INodeNo::ROOT {
            return reply.error(Errno::ENOTDIR);
        }
        let entries = [
            (INodeNo::ROOT, FileType::Directory, "."),
            (INodeNo::ROOT, FileType::Directory, ".."),
            (FILE, FileType::RegularFile, FILE_NAME),
        ];
        for (next, (inode, kind, name)) in (1..).zip(entries).skip(offset as usize) {
            if reply.add(inode, next, kind, name) {
                break; // it is full
            }
        }
        reply.ok();
    }

    fn open(&self, _: &Request, inode: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        if inode != FILE {
            return reply.error(Errno::EISDIR);
        }
        let flags = FopenFlags::FOPEN_DIRECT_IO | FopenFlags::FOPEN_PARALLEL_DIRECT_WRITES;
        reply.opened(self.handles.open(self.disk.user()), flags);
    }

    fn read(
        &self,
        _: &Request,
        _: INodeNo,
        _: FileHandle,
        at: u64,
        len: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        // A read over the end is cut to it, as with any file.
        let len = u64::from(len).min(self.disk.size_bytes().saturating_sub(at));
        self.on_core(len as usize, move |disk| async move {
            match counted(&disk, Kind::Read(len), read(&disk, at, len as usize)).await {
                Ok(data) => reply.data(data.as_slice().unwrap_or_default()),
                Err(error) => reply.error(errno(error)),
            }
        });
    }

    fn write(
        &self,
        _: &Request,
        _: INodeNo,
        _: FileHandle,
        at: u64,
        data: &[u8],
        _: FuseWriteFlags,
        flags: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        let left = usize::try_from(self.disk.size_bytes().saturating_sub(at)).unwrap_or(usize::MAX);
        if left == 0 && !data.is_empty() {
            return reply.error(Errno::ENOSPC);
        }
        // What does not fit is not written, and the caller is told how much was.
        let bytes = data[..data.len().min(left)].to_vec();
        let durable = flags.0 & libc::O_DSYNC != 0;
        let flags = WriteFlags { durable, ..WriteFlags::VOLATILE };
        self.on_core(bytes.len(), move |disk| async move {
            let kind = Kind::Write(bytes.len() as u64);
            match counted(&disk, kind, write(&disk, at, &bytes, flags)).await {
                Ok(()) => reply.written(bytes.len() as u32),
                Err(error) => reply.error(errno(error)),
            }
        });
    }

    /// Called at each close, where block devices too promise nothing.
    fn flush(&self, _: &Request, _: INodeNo, _: FileHandle, _: LockOwner, reply: ReplyEmpty) {
        reply.ok();
    }

    fn release(
        &self,
        _: &Request,
        _: INodeNo,
        handle: FileHandle,
        _: OpenFlags,
        _: Option<LockOwner>,
        _: bool,
        reply: ReplyEmpty,
    ) {
        self.handles.close(handle);
        reply.ok();
    }

    fn fsync(&self, _: &Request, _: INodeNo, handle: FileHandle, _: bool, reply: ReplyEmpty) {
        let Some(user) = self.handles.user(handle) else { return reply.error(Errno::EBADF) };
        self.on_core(0, move |disk| async move {
            match counted(&disk, Kind::Other, disk.flush_for(&user)).await {
                Ok(()) => reply.ok(),
                Err(error) => reply.error(errno(error)),
            }
        });
    }

    /// Punching a hole gives space back, zeroing a range keeps it; both read as zeroes after.
    fn fallocate(
        &self,
        _: &Request,
        _: INodeNo,
        _: FileHandle,
        at: u64,
        len: u64,
        mode: i32,
        reply: ReplyEmpty,
    ) {
        const PUNCH: i32 = libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE;
        const ZERO: i32 = libc::FALLOC_FL_ZERO_RANGE;
        const ZERO_KEEP: i32 = libc::FALLOC_FL_ZERO_RANGE | libc::FALLOC_FL_KEEP_SIZE;
        let may_unmap = match mode {
            PUNCH => true,
            ZERO | ZERO_KEEP => false,
            _ => return reply.error(Errno::EOPNOTSUPP),
        };
        let len = len.min(self.disk.size_bytes().saturating_sub(at));
        self.on_core(0, move |disk| async move {
            let how = Zeroing { may_unmap, fast: false };
            let work = disk.write_zeroes(at, len, how, WriteFlags::VOLATILE);
            match counted(&disk, Kind::Write(0), work).await {
                Ok(()) => reply.ok(),
                Err(error) => reply.error(errno(error)),
            }
        });
    }

    fn lseek(
        &self,
        _: &Request,
        _: INodeNo,
        _: FileHandle,
        offset: i64,
        whence: i32,
        reply: ReplyLseek,
    ) {
        let data = match whence {
            libc::SEEK_DATA => true,
            libc::SEEK_HOLE => false,
            _ => return reply.error(Errno::EINVAL), // the kernel does the others itself
        };
        let at = u64::try_from(offset).ok().filter(|at| *at < self.disk.size_bytes());
        let Some(at) = at else { return reply.error(Errno::ENXIO) };
        self.on_core(0, move |disk| async move {
            match counted(&disk, Kind::Other, seek(&disk, at, data)).await {
                Ok(Some(found)) => reply.offset(found.cast_signed()),
                Ok(None) => reply.error(Errno::ENXIO),
                Err(error) => reply.error(errno(error)),
            }
        });
    }
}

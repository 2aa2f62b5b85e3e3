//! Opening files.

use std::fs;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::Path;
use std::sync::Arc;

use super::{File, Now};

/// How to open a file. The default is to read an existing file through the page cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OpenOptions {
    /// Also allow writes.
    pub write: bool,
    /// Create the file, empty, when it is missing. Needs `write`.
    pub create: bool,
    /// Bypass the page cache (`O_DIRECT`); `EINVAL` where the file system cannot.
    pub direct: bool,
    /// Every write is durable when it ends (`O_DSYNC`).
    pub durable: bool,
    /// For a block device: fail with `EBUSY` when it is mounted or otherwise in use (`O_EXCL`).
    pub claim_device: bool,
}

impl File {
    /// Opens `path`, a regular file or a block device. A system call that may wait for a disk: for
    /// start-up and control work.
    ///
    /// # Errors
    /// Those of `open(2)`; `InvalidInput` for anything that is neither file nor block device.
    pub fn open(path: &Path, options: OpenOptions) -> io::Result<File> {
        let flags = [
            (options.direct, libc::O_DIRECT),
            (options.durable, libc::O_DSYNC),
            // Without O_CREAT, O_EXCL is a claim on block devices and has no meaning elsewhere.
            (options.claim_device && !options.create, libc::O_EXCL),
        ];
        let flags = flags.iter().filter(|(on, _)| *on).fold(libc::O_CLOEXEC, |all, (_, f)| all | f);
        let file = fs::OpenOptions::new()
            .read(true)
            .write(options.write)
            .create(options.create && options.write)
            .custom_flags(flags)
            .open(path)?;
        let kind = file.metadata()?.file_type();
        if !kind.is_file() && !kind.is_block_device() {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                "neither a regular file nor a block device",
            ));
        }
        let fd = Arc::new(OwnedFd::from(file));
        let now = match is_on_memory_fs(&fd)? {
            true if !kind.is_block_device() => Now::Plain,
            _ if options.direct || options.durable => Now::Never,
            _ => Now::NoWait,
        };
        Ok(File { fd, is_block_device: kind.is_block_device(), now })
    }

    /// Whether this is a block device.
    pub fn is_block_device(&self) -> bool {
        self.is_block_device
    }
}

fn is_on_memory_fs(fd: &OwnedFd) -> io::Result<bool> {
    const RAMFS_MAGIC: i64 = 0x8584_58f6; // linux/magic.h; libc has only that of tmpfs
    // SAFETY: the structure is numbers, for which zeroes are valid.
    let mut stat: libc::statfs64 = unsafe { std::mem::zeroed() };
    // SAFETY: the kernel fills exactly this structure.
    if unsafe { libc::fstatfs64(fd.as_raw_fd(), &raw mut stat) } < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok([libc::TMPFS_MAGIC, RAMFS_MAGIC].contains(&stat.f_type))
}

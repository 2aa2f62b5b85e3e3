//! Opening: everything that can be wrong with a file or device is said here, in one sentence with
//! what to do instead.

use std::fs::{self, TryLockError};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use super::probe::{self, Queue};
use super::{FileDisk, Store};
use crate::Geometry;

/// How to serve a file or block device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileOptions {
    /// Logical block: 512 or 4096 bytes.
    pub block_bytes: u32,
    /// Refuse every change; several processes may then serve the same file.
    pub read_only: bool,
    /// Size of the file. A missing one is created with it, sparse; an existing one must have it.
    /// Not for block devices.
    pub size_bytes: Option<u64>,
    /// Every write is durable when it completes, whatever its flags say: for volumes with
    /// `cache=durable`. They then bypass the page cache where the file system can do that.
    pub write_through: bool,
    /// Reads and writes bypass the page cache where the file system can do that, and volatile
    /// writes stay so: for who keeps a cache of its own, such as an array for its members.
    pub direct: bool,
}

/// Why a file or device cannot be served.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// Missing, and no size to create it with (or read-only).
    #[error("{path} does not exist; to create it, add a size and leave out ro: file:{path}:10G")]
    Missing {
        /// What was asked for.
        path: PathBuf,
    },
    /// `file:` on something else.
    #[error("{path} is no regular file; for a block device write disk:{path}")]
    NotAFile {
        /// What was asked for.
        path: PathBuf,
    },
    /// `disk:` on something else.
    #[error("{path} is no block device; for a regular file write file:{path}")]
    NotADisk {
        /// What was asked for.
        path: PathBuf,
    },
    /// A file is smaller than the size asked for.
    #[error(
        "{path} has {found} bytes, not {asked}; leave out the size to serve it as it is, \
         or grow it first: truncate -s {asked} {path}"
    )]
    Smaller {
        /// What was asked for.
        path: PathBuf,
        /// Its size in bytes.
        found: u64,
        /// The size asked for in bytes.
        asked: u64,
    },
    /// A file is larger than the size asked for; it is never cut.
    #[error(
        "{path} has {found} bytes, more than {asked}, and is not cut to them; \
         leave out the size to serve it as it is"
    )]
    Larger {
        /// What was asked for.
        path: PathBuf,
        /// Its size in bytes.
        found: u64,
        /// The size asked for in bytes.
        asked: u64,
    },
    /// The size is zero or no multiple of the block.
    #[error("{path} has {size_bytes} bytes, which is not one or more blocks of {block_bytes}")]
    NotBlocks {
        /// What was asked for.
        path: PathBuf,
        /// Its size in bytes.
        size_bytes: u64,
        /// The block asked for.
        block_bytes: u32,
    },
    /// The device cannot address blocks as small as asked for.
    #[error("{path} has blocks of {device_block_bytes} bytes; add block={device_block_bytes}")]
    BlockTooSmall {
        /// What was asked for.
        path: PathBuf,
        /// The logical block of the device.
        device_block_bytes: u64,
    },
    /// Another process serves it, or, for a device, it is mounted.
    #[error("{path} is in use: another process serves it, or it is mounted; stop that first")]
    InUse {
        /// What was asked for.
        path: PathBuf,
    },
    /// The operating system refuses.
    #[error("cannot {action} {path}: {source}")]
    System {
        /// What was tried.
        action: &'static str,
        /// What was asked for.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
}

/// Turns the failure of `action` on `path` into an [`OpenError`].
fn system<'a>(action: &'static str, path: &'a Path) -> impl FnOnce(io::Error) -> OpenError + 'a {
    move |source| match source.raw_os_error() {
        Some(libc::EBUSY) => OpenError::InUse { path: path.to_owned() },
        _ => OpenError::System { action, path: path.to_owned(), source },
    }
}

impl FileDisk {
    /// Opens a regular file, or creates it sparse. Waits for the disk: for start-up only.
    ///
    /// The file is locked against a second server (`flock`, exclusive, or shared when read-only).
    ///
    /// # Errors
    /// [`OpenError`].
    pub fn open_file(path: &Path, options: &FileOptions) -> Result<Self, OpenError> {
        let (handle, created) = open_or_create(path, options)?;
        let opened = lock(&handle, path, options)
            .and_then(|()| if created { make(&handle, path, options) } else { Ok(()) })
            .and_then(|()| Self::of_file(handle, path, options));
        if opened.is_err() && created {
            // Leave nothing half-made behind; the error that matters is the first one.
            let _ = fs::remove_file(path);
        }
        opened
    }

    fn of_file(handle: fs::File, path: &Path, options: &FileOptions) -> Result<Self, OpenError> {
        let metadata = handle.metadata().map_err(system("examine", path))?;
        let found = metadata.len();
        match options.size_bytes {
            Some(asked) if found < asked => {
                return Err(OpenError::Smaller { path: path.to_owned(), found, asked });
            }
            Some(asked) if found > asked => {
                return Err(OpenError::Larger { path: path.to_owned(), found, asked });
            }
            _ => {}
        }
        let in_memory = probe::is_in_memory(&metadata);
        let geometry = Geometry {
            rotational: !in_memory && Queue::of(metadata.dev()).is_rotational(),
            ..base_geometry(path, found, options)?
        };
        Self::assemble((handle, None), path, geometry, options, in_memory)
    }

    /// Opens a block device. Waits for the disk: for start-up only.
    ///
    /// The device is claimed (`O_EXCL`), so that it can neither be mounted nor served twice; of a loop device
    /// the file behind it is locked too.
    ///
    /// # Errors
    /// [`OpenError`].
    pub fn open_disk(path: &Path, options: &FileOptions) -> Result<Self, OpenError> {
        let metadata = fs::metadata(path).map_err(system("find", path))?;
        if !metadata.file_type().is_block_device() {
            return Err(OpenError::NotADisk { path: path.to_owned() });
        }
        let handle = fs::OpenOptions::new()
            .read(true)
            .write(!options.read_only)
            .open(path)
            .map_err(system("open", path))?;
        lock(&handle, path, options)?;
        let behind = lock_behind(metadata.rdev(), options)?;
        let queue = Queue::of(metadata.rdev());
        let device_block_bytes = queue.number("logical_block_size").unwrap_or(512);
        if device_block_bytes > u64::from(options.block_bytes) {
            return Err(OpenError::BlockTooSmall { path: path.to_owned(), device_block_bytes });
        }
        let size_bytes = size_of(&handle).map_err(system("measure", path))?;
        // A tail that is no whole block is out of reach, as on any disk.
        let size_bytes = size_bytes - size_bytes % u64::from(options.block_bytes);
        let bytes = |name| queue.number(name).and_then(|bytes| u32::try_from(bytes).ok());
        let base = base_geometry(path, size_bytes, options)?;
        let physical_block_bytes =
            bytes("physical_block_size").unwrap_or(0).max(options.block_bytes);
        let geometry = Geometry {
            physical_block_bytes,
            transfer_granularity_bytes: base.transfer_granularity_bytes.max(physical_block_bytes),
            unmap_granularity_bytes: bytes("discard_granularity")
                .unwrap_or(0)
                .max(options.block_bytes),
            optimal_transfer_bytes: bytes("optimal_io_size")
                .filter(|bytes| *bytes > 0)
                .unwrap_or(base.optimal_transfer_bytes),
            rotational: queue.is_rotational(),
            thin: queue.is_thin(),
            ..base
        };
        Self::assemble((handle, behind), path, geometry, options, false)
    }

    fn assemble(
        (handle, behind): (fs::File, Option<fs::File>),
        path: &Path,
        geometry: Geometry,
        wanted: &FileOptions,
        in_memory: bool,
    ) -> Result<Self, OpenError> {
        // Through the open descriptor, so that it is the file that was checked and locked,
        // whatever its name means by now.
        let same = PathBuf::from(format!("/proc/self/fd/{}", handle.as_raw_fd()));
        let options = ring::OpenOptions { write: !geometry.read_only, ..Default::default() };
        // The claim must be with the descriptor that discards: to a device that somebody else
        // claims, be it this very process, the kernel refuses a discard with EBUSY.
        let file_type = handle.metadata().map_err(system("examine", path))?.file_type();
        let claim_device = file_type.is_block_device() && !geometry.read_only;
        let file = ring::File::open(&same, ring::OpenOptions { claim_device, ..options })
            .map_err(system("open", path))?;
        let past_cache = wanted.direct || (wanted.write_through && !geometry.read_only);
        let direct = match past_cache && !in_memory && does_direct(&same, &geometry) {
            true => {
                let options = ring::OpenOptions { direct: true, ..options };
                Some(ring::File::open(&same, options).map_err(system("open", path))?)
            }
            false => None,
        };
        let behind = behind.map(Arc::new);
        let store = Store::new(file, direct, handle, geometry, wanted, in_memory);
        Ok(Self(Arc::new(Store { behind, ..store })))
    }
}

/// The size in bytes of a file or a block device, as it is now.
pub(super) fn size_of(handle: &fs::File) -> io::Result<u64> {
    let metadata = handle.metadata()?;
    match metadata.file_type().is_block_device() {
        true => io::Seek::seek(&mut &*handle, io::SeekFrom::End(0)),
        false => Ok(metadata.len()),
    }
}

/// Whether single blocks can go past the page cache: some file systems refuse O_DIRECT
/// altogether, and some disks have sectors that are larger than the block.
fn does_direct(path: &Path, geometry: &Geometry) -> bool {
    let block_bytes = geometry.block_bytes as usize;
    let direct = fs::OpenOptions::new().read(true).custom_flags(libc::O_DIRECT).open(path);
    let (Ok(file), Some(mut buf)) = (direct, ring::Buf::alloc(block_bytes)) else { return false };
    // The second block, if there is one, shows what offsets are taken.
    let at = u64::from(geometry.block_bytes) * (geometry.blocks - 1).min(1);
    // A block that cannot be read is no reason to go through the cache ever after.
    !matches!(file.read_at(&mut buf, at), Err(error) if error.raw_os_error() == Some(libc::EINVAL))
}

/// The file, and whether it still has to be made: it was created, or found empty.
fn open_or_create(path: &Path, options: &FileOptions) -> Result<(fs::File, bool), OpenError> {
    let mut open = fs::OpenOptions::new();
    open.read(true).write(!options.read_only);
    match fs::metadata(path) {
        Ok(metadata) if !metadata.file_type().is_file() => {
            Err(OpenError::NotAFile { path: path.to_owned() })
        }
        Ok(metadata) => {
            // An empty one is what is left when making it was cut off: it gets its size now.
            let made = metadata.len() == 0 && options.size_bytes.is_some() && !options.read_only;
            open.open(path).map(|file| (file, made)).map_err(system("open", path))
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            if options.read_only || options.size_bytes.is_none() {
                return Err(OpenError::Missing { path: path.to_owned() });
            }
            // A disk image is nobody else's to read.
            let made = open.create_new(true).mode(0o600).open(path);
            made.map(|file| (file, true)).map_err(system("create", path))
        }
        Err(error) => Err(system("find", path)(error)),
    }
}

/// Gives a new file its size, and makes its existence durable: writes to it will be.
fn make(handle: &fs::File, path: &Path, options: &FileOptions) -> Result<(), OpenError> {
    let size_bytes = options.size_bytes.unwrap_or(0);
    // Checked before the file grows: a bad size must not cost an unlink of something large.
    base_geometry(path, size_bytes, options)?;
    handle
        .set_len(size_bytes)
        .and_then(|()| handle.sync_all())
        .and_then(|()| ring::sync_parent(path))
        .map_err(system("create", path))
}

/// How often a lock is tried again that another process has, and after how long. A process that is just being
/// started from one that has closed the file has it still for a moment, until it executes its program.
const LOCK_TRIES_MAX: u32 = 10;
const LOCK_RETRY: Duration = Duration::from_millis(5);

fn lock(handle: &fs::File, path: &Path, options: &FileOptions) -> Result<(), OpenError> {
    let lock = || if options.read_only { handle.try_lock_shared() } else { handle.try_lock() };
    let mut locked = lock();
    for _ in 0..LOCK_TRIES_MAX {
        if !matches!(locked, Err(TryLockError::WouldBlock)) {
            break;
        }
        thread::sleep(LOCK_RETRY);
        locked = lock();
    }
    locked.map_err(|error| match error {
        TryLockError::WouldBlock => OpenError::InUse { path: path.to_owned() },
        TryLockError::Error(source) => {
            OpenError::System { action: "lock", path: path.to_owned(), source }
        }
    })
}

/// Locks the file behind a loop device, which may be served as a file at the same time: the two have no
/// lock in common. One that is not there any more is nobody else's.
fn lock_behind(device: u64, options: &FileOptions) -> Result<Option<fs::File>, OpenError> {
    let Some(path) = probe::file_behind(device) else { return Ok(None) };
    let Ok(file) = fs::File::open(&path) else { return Ok(None) };
    lock(&file, &path, options)?;
    Ok(Some(file))
}

fn base_geometry(
    path: &Path,
    size_bytes: u64,
    options: &FileOptions,
) -> Result<Geometry, OpenError> {
    let block_bytes = options.block_bytes;
    if size_bytes == 0 || !size_bytes.is_multiple_of(u64::from(block_bytes)) {
        return Err(OpenError::NotBlocks { path: path.to_owned(), size_bytes, block_bytes });
    }
    let blocks = size_bytes / u64::from(block_bytes);
    Ok(Geometry { read_only: options.read_only, ..Geometry::new(block_bytes, blocks) })
}

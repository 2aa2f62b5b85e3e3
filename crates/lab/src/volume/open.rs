//! Opening what addresses lead to, on the core that calls.

use std::fmt;
use std::io;
use std::os::unix::fs::FileTypeExt;
use std::path::Path;
use std::sync::Arc;

use block::{BlockDevice, FileDisk, FileOptions, ModelDisk, NullDisk, RamDisk};
use initiator::{
    AttachError, DiscoveryError, Disk, DiskOptions, PlanOptions, SessionOptions, TargetAddress,
};
use iscsi::chap::CredentialsError;

use super::address::{Address, fits};
use super::twins::{self, Unit};
use crate::nbd::{NbdAddress, NbdDisk, NbdError, NbdOptions};
use crate::workload::OpenFlags;

/// The logical block of memory and of files.
const BLOCK_BYTES: u32 = 512;

/// How sessions are made.
#[derive(Debug, Clone)]
pub struct Sessions {
    /// Name, CHAP and times of each session; policy and limits of each disk.
    pub disk: DiskOptions,
    /// How many, and where.
    pub plan: PlanOptions,
}

/// A disk that a workload can run on.
#[derive(Clone)]
pub struct OpenTarget {
    /// Where it is, without secrets.
    pub name: String,
    /// The device.
    pub device: Arc<dyn BlockDevice>,
    /// The device again, if it has paths.
    pub disk: Option<Arc<Disk>>,
}

impl fmt::Debug for OpenTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OpenTarget").field("name", &self.name).finish_non_exhaustive()
    }
}

/// Why a target cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// It cannot be attached.
    #[error("cannot attach {address}: {error}")]
    Attach {
        /// Which one.
        address: String,
        /// Why.
        error: Box<AttachError>,
    },
    /// A portal does not tell of its targets.
    #[error("cannot ask {address} for its targets: {error}")]
    Discovery {
        /// Which one.
        address: String,
        /// Why.
        error: Box<DiscoveryError>,
    },
    /// An export of an NBD server.
    #[error(transparent)]
    Nbd(#[from] NbdError),
    /// CHAP credentials that must not be used.
    #[error(transparent)]
    Credentials(#[from] CredentialsError),
    /// A portal has none that fit.
    #[error("{0} has no target that fits")]
    NoTarget(String),
    /// Fewer sessions than targets, or none that has any.
    #[error("{total} sessions cannot be divided among {targets} iscsi:// or nbd:// targets")]
    Sessions {
        /// What was asked for.
        total: u32,
        /// What there is.
        targets: usize,
    },
    /// An export or unit that is named twice.
    #[error(
        "{0} is named twice: a disk can be named once in a run, for its data would be written over"
    )]
    Twice(String),
    /// Two addresses of one disk.
    #[error(
        "{other} is the same disk as {one}: a disk can be named once in a run, for its data would be written over"
    )]
    Twins {
        /// The first.
        one: String,
        /// The second.
        other: String,
    },
    /// A file or device.
    #[error(transparent)]
    File(#[from] block::OpenError),
    /// A path that leads nowhere.
    #[error("cannot use {path}: {error}")]
    Path {
        /// The path.
        path: String,
        /// Why.
        error: io::Error,
    },
    /// A file that is not there: how large it should be nobody said.
    #[error("there is no {0}; a file must exist and have its size: truncate -s 1G {0}")]
    NoFile(String),
    /// A directory, a socket and the like.
    #[error("{0} is neither a file nor a block device")]
    NoDisk(String),
    /// Memory.
    #[error("no memory for {name}: {error}")]
    Memory {
        /// Which one.
        name: String,
        /// Why.
        error: io::Error,
    },
}

/// Opens all targets that the addresses lead to; with `read_only`, files and devices so. `total` sessions
/// are divided among the targets that have sessions; without it each has its own number.
///
/// # Errors
/// The first target that cannot be opened.
///
/// # Panics
/// Outside of a core of the engine.
pub async fn open_all(
    addresses: &[Address],
    sessions: &Sessions,
    flags: OpenFlags,
    read_only: bool,
    total: Option<u32>,
) -> Result<Vec<OpenTarget>, OpenError> {
    let mut found = Vec::new();
    for address in addresses {
        match address {
            Address::Portal { .. } => {
                found.extend(discover(address, sessions).await?.into_iter().map(Address::Iscsi));
            }
            address => found.push(address.clone()),
        }
    }
    if !read_only {
        twins::refuse_same(&found)?;
    }
    let has_sessions = |address: &&Address| matches!(address, Address::Iscsi(_) | Address::Nbd(_));
    let count = found.iter().filter(has_sessions).count();
    if let Some(total) = total.filter(|total| count == 0 || (*total as usize) < count) {
        return Err(OpenError::Sessions { total, targets: count });
    }
    let mut targets: Vec<OpenTarget> = Vec::new();
    for (index, address) in found.iter().enumerate() {
        let share = total.map(|total| part(total, index, count));
        let mut sessions = sessions.clone();
        sessions.plan.sessions = share.or(sessions.plan.sessions);
        match address {
            Address::Iscsi(address) => {
                targets.push(attach(address, &sessions).await?);
                if !read_only {
                    refuse_last(&found, &targets)?;
                }
            }
            Address::Nbd(address) => targets.push(connect(address, &sessions).await?),
            _ => targets.push(local(address, flags, read_only)?),
        }
    }
    Ok(targets)
}

fn unit<'a>((address, target): (&'a Address, &'a OpenTarget)) -> Option<Unit<'a>> {
    let (Address::Iscsi(address), Some(disk)) = (address, &target.disk) else { return None };
    Some(Unit { address, identity: disk.identity() })
}

/// Refuses the last of the targets if its unit is one of those before it.
fn refuse_last(addresses: &[Address], targets: &[OpenTarget]) -> Result<(), OpenError> {
    let mut units: Vec<Unit<'_>> = addresses.iter().zip(targets).filter_map(unit).collect();
    match units.pop() {
        Some(last) => twins::refuse_known(units.into_iter(), &last),
        None => Ok(()),
    }
}

/// What one of `count` has of a number that is divided as evenly as it can be.
fn part(total: u32, index: usize, count: usize) -> u32 {
    let count = u32::try_from(count.max(1)).unwrap_or(u32::MAX);
    let index = u32::try_from(index).unwrap_or(u32::MAX);
    total / count + u32::from(index % count < total % count)
}

async fn connect(address: &NbdAddress, sessions: &Sessions) -> Result<OpenTarget, OpenError> {
    let options = NbdOptions {
        connections: sessions.plan.sessions.unwrap_or(1),
        limit: sessions.disk.router.limit,
        ..NbdOptions::default()
    };
    let device = Arc::new(NbdDisk::open(address, &options).await?);
    Ok(OpenTarget { name: address.to_string(), device, disk: None })
}

async fn attach(address: &TargetAddress, sessions: &Sessions) -> Result<OpenTarget, OpenError> {
    let (options, plan) = (sessions.disk.clone(), sessions.plan.clone());
    let failed = |error| OpenError::Attach { address: address.to_string(), error: Box::new(error) };
    let disk = Arc::new(Disk::attach_planned(address, options, plan).await.map_err(failed)?);
    Ok(OpenTarget { name: address.to_string(), device: disk.clone(), disk: Some(disk) })
}

/// The targets of a portal that fit its pattern, by name.
async fn discover(address: &Address, sessions: &Sessions) -> Result<Vec<TargetAddress>, OpenError> {
    let Address::Portal { portal, pattern, login } = address else { return Ok(Vec::new()) };
    let mut options: SessionOptions = sessions.disk.session.clone();
    let with_login =
        |name| TargetAddress { login: login.clone(), ..TargetAddress::new(portal.clone(), name) };
    let found = {
        let probe = with_login(options.initiator_name.clone());
        if let Some(chap) = probe.chap()? {
            options.chap = Some(chap);
        }
        let failed =
            |error| OpenError::Discovery { address: address.to_string(), error: Box::new(error) };
        initiator::discover(portal, &options).await.map_err(failed)?
    };
    let mut names: Vec<_> = found.into_iter().map(|target| target.name).collect();
    names.retain(|name| fits(pattern, &name.to_string()));
    names.sort_by_key(ToString::to_string);
    names.dedup();
    if names.is_empty() {
        return Err(OpenError::NoTarget(address.to_string()));
    }
    Ok(names.into_iter().map(with_login).collect())
}

fn local(address: &Address, flags: OpenFlags, read_only: bool) -> Result<OpenTarget, OpenError> {
    let name = address.to_string();
    let blocks = |bytes: u64| bytes / u64::from(BLOCK_BYTES);
    let memory = |bytes| {
        let failed = |error| OpenError::Memory { name: name.clone(), error };
        RamDisk::new(BLOCK_BYTES, blocks(bytes)).map_err(failed)
    };
    let device: Arc<dyn BlockDevice> = match address {
        Address::Ram(bytes) => Arc::new(memory(*bytes)?),
        Address::Null(bytes) => Arc::new(NullDisk::new(BLOCK_BYTES, blocks(*bytes))),
        Address::Sim(class, bytes) => Arc::new(ModelDisk::new(*class, Arc::new(memory(*bytes)?))),
        Address::Path(path) => Arc::new(open_path(path, flags, read_only)?),
        Address::Iscsi(_) | Address::Portal { .. } | Address::Nbd(_) => {
            unreachable!("these are attached")
        }
    };
    Ok(OpenTarget { name, device, disk: None })
}

fn open_path(path: &Path, flags: OpenFlags, read_only: bool) -> Result<FileDisk, OpenError> {
    let shown = || path.display().to_string();
    let failed = |error: io::Error| match error.kind() {
        io::ErrorKind::NotFound if !path.starts_with("/dev") => OpenError::NoFile(shown()),
        _ => OpenError::Path { path: shown(), error },
    };
    let metadata = path.metadata().map_err(failed)?;
    let mut options = FileOptions {
        block_bytes: BLOCK_BYTES,
        read_only,
        size_bytes: None,
        write_through: false,
        direct: flags.direct,
    };
    let kind = metadata.file_type();
    if !kind.is_file() && !kind.is_block_device() {
        return Err(OpenError::NoDisk(shown()));
    }
    if kind.is_file() {
        return Ok(FileDisk::open_file(path, &options)?);
    }
    match FileDisk::open_disk(path, &options) {
        Err(block::OpenError::BlockTooSmall { .. }) => {
            options.block_bytes = 4096;
            Ok(FileDisk::open_disk(path, &options)?)
        }
        outcome => Ok(outcome?),
    }
}

/// Logs out of all targets. References to the disks that others still hold keep their sessions.
pub async fn detach_all(targets: Vec<OpenTarget>) {
    for target in targets {
        let OpenTarget { device, disk, .. } = target;
        drop(device);
        if let Some(Ok(disk)) = disk.map(Arc::try_unwrap) {
            disk.detach().await;
        }
    }
}

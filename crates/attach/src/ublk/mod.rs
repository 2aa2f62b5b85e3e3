//! A block device of the kernel: `/dev/ublkbN`, served by a core through io_uring.
//!
//! ```text
//! UblkControl: add, set_params ---> start ------------> stop ----> delete      the owner's thread
//!                      |              |                  |
//! serve.rs:            +-> fetch all -+-> commit, fetch -+-> ENODEV             the core
//! ```
//!
//! The kernel has one queue of [`DEPTH`] requests under way; each is carried out like those of the
//! other servers and its data copied straight between the kernel's pages and the disk's buffers.
//! Requests have no time limit of the kernel's: what waits for a path waits here.

mod leftovers;
mod serve;
mod users;
mod wire;

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use ring::{Remote, UBLK_CONTROL, UblkControl, UblkQueue};

use crate::Disk;
use serve::{Progress, Service};
use wire::{INFO_BYTES, Info, feature};

/// Requests that the kernel has under way.
pub const DEPTH: u16 = 128;

/// Says in the kernel's own records that a device is ours (`ublksrv_flags`).
const MARK: u64 = u64::from_le_bytes(*b"drystone");

/// How long a device may take to appear in /dev, where that is udev's work.
const NODE_TIME: Duration = Duration::from_secs(5);

/// How long a device may be in use, as by udev, before it counts.
const USED_TIME: Duration = Duration::from_secs(2);

/// How long the requests may take to end when the device has gone.
const END_TIME: Duration = Duration::from_secs(5);

/// How often it is looked.
const PAUSE: Duration = Duration::from_millis(10);

/// Why there is no block device, or why it stays.
#[derive(Debug, thiserror::Error)]
pub enum UblkError {
    /// The kernel has no ublk, or has not loaded it.
    #[error(
        "this machine has no {UBLK_CONTROL}: load the kernel's driver with 'modprobe ublk_drv'"
    )]
    NoDriver,
    /// The device belongs to root.
    #[error("only root may make block devices ({UBLK_CONTROL}: permission denied)")]
    NotRoot,
    /// Root of a container.
    #[error(
        "the kernel lets only CAP_SYS_ADMIN make block devices: a container needs --privileged"
    )]
    NotPermitted,
    /// Linux before 6.5.
    #[error("the ublk of this kernel is too old: Linux 6.5 or newer is needed")]
    TooOld,
    /// A container with a /dev of its own.
    #[error("the kernel has made '{}', but it is not there: a container needs the host's /dev", .0.display())]
    NoNode(PathBuf),
    /// A step failed.
    #[error("cannot {step}: {source}")]
    Failed {
        /// What was tried.
        step: &'static str,
        /// What the system said.
        source: io::Error,
    },
    /// A mount, a program or another device still uses it.
    #[error("'{}' is in use: unmount it, end what uses it (lsblk shows mounts, fuser -v programs, losetup -a loop devices)", .0.display())]
    Busy(PathBuf),
}

fn failed(step: &'static str) -> impl Fn(io::Error) -> UblkError {
    move |source| UblkError::Failed { step, source }
}

/// A block device. To be used from threads that are no core: these calls block. Dropping it takes the
/// device away, whoever uses it.
#[derive(Debug)]
pub struct Device {
    control: UblkControl,
    number: u32,
    path: PathBuf,
    /// Kept open until the device is deleted, so that nobody takes it for one that a crash has left.
    queue: Option<Arc<UblkQueue>>,
    progress: Arc<Progress>,
    is_deleted: bool,
}

/// Whether block devices can be made here, as far as that can be told.
///
/// # Errors
/// See [`UblkError`].
pub fn check() -> Result<(), UblkError> {
    open().map(drop)
}

fn open() -> Result<UblkControl, UblkError> {
    UblkControl::open().map_err(|error| match error.raw_os_error() {
        Some(libc::ENOENT | libc::ENODEV | libc::ENXIO) => UblkError::NoDriver,
        Some(libc::EACCES) => UblkError::NotRoot,
        Some(libc::EPERM) => UblkError::NotPermitted,
        _ => failed("use ublk")(error),
    })
}

/// `/dev/ublkbN`, the block device, or `/dev/ublkcN`, its server's end.
fn node(kind: char, number: u32) -> PathBuf {
    Path::new("/dev").join(format!("ublk{kind}{number}"))
}

impl Device {
    /// Makes a block device. The disk's I/O runs on `core`, which must live for as long as this.
    /// `announce` is called with the path of the block device before it appears there, when nobody
    /// else can get that number any more; `on_end` once when the device has gone, whoever stopped it.
    ///
    /// # Errors
    /// See [`UblkError`].
    pub fn start(
        disk: Arc<Disk>,
        core: &Remote,
        announce: impl FnOnce(&Path),
        on_end: impl FnOnce() + Send + 'static,
    ) -> Result<Device, UblkError> {
        let mut control = open()?;
        let info = {
            let _turn = turn()?;
            leftovers::delete(&mut control);
            add(&mut control)?
        };
        let (number, progress) = (info.number, Arc::new(Progress::default()));
        let path = node('b', number);
        let mut device = Device { control, number, path, queue: None, progress, is_deleted: false };
        if info.features & feature::USER_COPY == 0 {
            return Err(UblkError::TooOld);
        }
        let mut params = wire::params(&disk.geometry(), info.transfer_bytes_max);
        let set = device.control.set_params(number, &mut params);
        set.map_err(failed("tell the kernel about the block device"))?;
        let server_node = wait_for_node(node('c', number))?;
        let queue = UblkQueue::open(&server_node, info.depth);
        let queue = Arc::new(queue.map_err(failed("open the ublk device"))?);
        device.queue = Some(queue.clone());
        let progress = device.progress.clone();
        let service = Service { queue, disk, progress, on_end: Some(Box::new(on_end)) };
        core.run(move || service.start());
        announce(&device.path);
        let progress = device.progress.clone();
        let started = device.control.start(number, || !progress.is_broken());
        started.map_err(failed("start the block device"))?;
        wait_for_node(device.path.clone())?;
        Ok(device)
    }

    /// The block device.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Takes the device away, once what the kernel has cached of it is written.
    ///
    /// # Errors
    /// [`UblkError::Busy`] gives the device back, unchanged.
    pub fn stop(mut self) -> Result<(), (UblkError, Option<Box<Device>>)> {
        if !self.progress.is_over() {
            match users::claim(&self.path, USED_TIME) {
                // Held until it is stopped: nobody can mount it meanwhile.
                Ok(Some(_claim)) => match self.control.stop(self.number) {
                    Ok(()) => {}
                    Err(error) => return Err(self.stays(failed("stop the block device")(error))),
                },
                Ok(None) => {
                    let busy = UblkError::Busy(self.path.clone());
                    return Err(self.stays(busy));
                }
                // Somebody else stopped it just now.
                Err(_) if wait_for(END_TIME, || self.progress.is_over()) => {}
                Err(error) => return Err(self.stays(failed("see who uses the device")(error))),
            }
        }
        self.delete().map_err(|error| (failed("delete the block device")(error), None))
    }

    fn stays(self, error: UblkError) -> (UblkError, Option<Box<Device>>) {
        (error, Some(Box::new(self)))
    }

    /// Waits up to `grace` for its users to go, and takes the device away from those that are left;
    /// they get errors. False when there were some.
    pub fn force(mut self, grace: Duration) -> bool {
        let claim = users::claim(&self.path, grace).ok().flatten();
        if let Err(error) = self.end() {
            tracing::warn!("cannot take '{}' away: {error}", self.path.display());
        }
        claim.is_some()
    }

    /// Stops and deletes.
    fn end(&mut self) -> io::Result<()> {
        self.control.stop(self.number)?;
        self.delete()
    }

    /// Deletes the device, which is stopped, and lets go of it.
    fn delete(&mut self) -> io::Result<()> {
        self.is_deleted = true;
        let deleted = self.control.delete(self.number);
        // The requests have been told; the core still has to hear it.
        if self.queue.take().is_some() {
            wait_for(END_TIME, || self.progress.is_over());
        }
        match deleted {
            Err(error) if error.raw_os_error() != Some(libc::ENODEV) => {
                // An older kernel. It waits for the last user, where we do not.
                let end = Instant::now() + END_TIME;
                match self.control.delete_and_wait(self.number, || Instant::now() < end) {
                    Err(error) if error.kind() != io::ErrorKind::TimedOut => Err(error),
                    _ => Ok(()),
                }
            }
            _ => Ok(()),
        }
    }
}

impl Drop for Device {
    fn drop(&mut self) {
        if !self.is_deleted
            && let Err(error) = self.end()
        {
            tracing::warn!("cannot take '{}' away: {error}", self.path.display());
        }
    }
}

/// One after the other, in all processes: what somebody else has found left and is about to delete may
/// have been deleted meanwhile, and its number be that of a device which has just been made.
fn turn() -> Result<fs::File, UblkError> {
    let taken = || {
        let file = fs::File::open(UBLK_CONTROL)?;
        file.lock()?;
        Ok(file)
    };
    taken().map_err(failed("take turns in making block devices"))
}

/// Has the kernel make a device, still without a block device.
fn add(control: &mut UblkControl) -> Result<Info, UblkError> {
    let mut info: [u8; INFO_BYTES] = Info::wanted(DEPTH, std::process::id(), MARK).to_bytes();
    control.add(&mut info).map_err(|error| match error.raw_os_error() {
        Some(libc::EPERM | libc::EACCES) => UblkError::NotPermitted,
        // Before 6.4 it knows none of these commands.
        Some(libc::EOPNOTSUPP | libc::EINVAL | ENOTSUPP) => UblkError::TooOld,
        _ => failed("make a ublk device")(error),
    })?;
    Ok(Info::of_bytes(&info))
}

/// What drivers say to commands that they do not know; programs should never see it, but do.
const ENOTSUPP: i32 = 524;

fn wait_for_node(path: PathBuf) -> Result<PathBuf, UblkError> {
    let there = wait_for(NODE_TIME, || fs::exists(&path).unwrap_or(false));
    if there { Ok(path) } else { Err(UblkError::NoNode(path)) }
}

/// Waits until `done`; false when it has not come in time.
fn wait_for(time: Duration, done: impl Fn() -> bool) -> bool {
    let end = Instant::now() + time;
    while !done() {
        if Instant::now() >= end {
            return false;
        }
        thread::sleep(PAUSE);
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_have_the_names_of_the_kernel() {
        assert_eq!(node('b', 0), Path::new("/dev/ublkb0"));
        assert_eq!(node('c', 12), Path::new("/dev/ublkc12"));
    }

    #[test]
    fn a_machine_without_ublk_is_told_what_to_load() {
        if fs::exists(UBLK_CONTROL).unwrap() {
            return;
        }
        let said = check().unwrap_err().to_string();
        assert!(said.contains("modprobe ublk_drv") && said.contains(UBLK_CONTROL), "{said}");
    }
}

//! A block device of the kernel: `/dev/ublkbN`, served by a core through io_uring.
//!
//! ```text
//! UblkControl: add, set_params ---> start ------------> stop ----> delete      the owner's thread
//!                      |              |                  |
//! serve.rs:            +-> fetch all -+-> commit, fetch -+-> ENODEV             the core
//! ```
//!
//! A device whose server was killed stays, if it was made with a name ([`Keeping`]): its users wait, and
//! the next server of the same disk takes it over.
//!
//! ```text
//!          killed                begin_recovery            end_recovery
//! served ---------> left alone ----------------> fetch all ------------> served        recovery.rs
//!                        |
//!                        +-- take_away: its users get errors
//! ```
//!
//! The kernel has one queue of [`DEPTH`] requests under way; each is carried out like those of the
//! other servers and its data copied straight between the kernel's pages and the disk's buffers.
//! Requests have no time limit of the kernel's: what waits for a path waits here.

mod leftovers;
mod mark;
mod recovery;
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
use wire::{INFO_BYTES, Info, SECTOR_BYTES, feature};

pub use recovery::{Keeping, left, take_away};

/// Requests that the kernel has under way.
pub const DEPTH: u16 = 128;

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
    /// A device that was left cannot be this disk any more.
    #[error(
        "'{}' was left by a process that is gone, and cannot be taken over: {reason}", .path.display()
    )]
    Changed {
        /// The device.
        path: PathBuf,
        /// What is different.
        reason: &'static str,
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
    /// As long as the kernel takes it to be.
    size_bytes: u64,
    /// What the kernel caches of it is written before it is stopped: the driver fails the requests of
    /// a device that can outlive its server while it stops that. (The 6.12 of Debian has written it all
    /// the same; the code of others says otherwise.)
    outlives_its_server: bool,
    /// Whether dropping this takes it away: not a second time, and not before it is ours.
    takes_away: bool,
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
    /// Makes a block device, or takes over the one that a process which is gone has left of this
    /// disk. The disk's I/O runs on `core`, which must live for as long as this. `announce` is called
    /// with the path of the block device before it appears there, when nobody else can get that number
    /// any more, and with whether it is taken over, before the requests of its users come; `on_end` once when the device has gone, whoever stopped it.
    ///
    /// # Errors
    /// See [`UblkError`]. A device that was left stays then.
    pub fn start(
        disk: Arc<Disk>,
        core: &Remote,
        keeping: Option<&Keeping<'_>>,
        announce: impl FnOnce(&Path, bool),
        on_end: impl FnOnce() + Send + 'static,
    ) -> Result<Device, UblkError> {
        let mut control = open()?;
        let turn = turn()?;
        leftovers::delete(&mut control);
        let left = keeping.and_then(|keeping| recovery::find(&mut control, keeping));
        let is_new = left.is_none();
        let mut device = match left {
            Some(info) => recovery::begin(control, &info, &disk.geometry())?,
            None => Device::make(control, &disk, keeping)?,
        };
        let server_node = wait_for_node(node('c', device.number))?;
        let queue = UblkQueue::open(&server_node, DEPTH);
        let queue = Arc::new(queue.map_err(failed("open the ublk device"))?);
        drop(turn);
        device.queue = Some(queue.clone());
        let progress = device.progress.clone();
        let service = Service {
            queue,
            user: disk.user(),
            disk,
            progress: progress.clone(),
            on_end: Some(Box::new(on_end)),
        };
        core.run(move || service.start());
        announce(&device.path, !is_new);
        let go_on = || !progress.is_broken();
        if is_new {
            let started = device.control.start(device.number, go_on);
            started.map_err(failed("start the block device"))?;
            wait_for_node(device.path.clone())?;
        } else {
            let taken = device.control.end_recovery(device.number, go_on);
            taken.map_err(failed("take the block device over"))?;
            device.takes_away = true;
            tracing::info!("took '{}' over from a process that is gone", device.path.display());
        }
        Ok(device)
    }

    /// Has the kernel make one, still without a block device.
    fn make(
        mut control: UblkControl,
        disk: &Disk,
        keeping: Option<&Keeping<'_>>,
    ) -> Result<Device, UblkError> {
        let info = add(&mut control, keeping)?;
        let geometry = disk.geometry();
        let mut device = Device::of(control, &info, geometry.size_bytes());
        device.takes_away = true;
        if info.features & feature::USER_COPY == 0 {
            return Err(UblkError::TooOld);
        }
        let mut params = wire::params(&geometry, info.transfer_bytes_max);
        let set = device.control.set_params(info.number, &mut params);
        set.map_err(failed("tell the kernel about the block device"))?;
        Ok(device)
    }

    /// One that is not served yet.
    fn of(control: UblkControl, info: &Info, size_bytes: u64) -> Device {
        Device {
            control,
            number: info.number,
            path: node('b', info.number),
            queue: None,
            progress: Arc::default(),
            size_bytes,
            outlives_its_server: info.outlives_its_server(),
            takes_away: false,
        }
    }

    /// Makes the block device longer where the disk has grown to `size_bytes`; false if it is as long
    /// already. It is tried once for each size.
    ///
    /// # Errors
    /// Linux before 6.16 cannot do this: its users see the old size until the device is made anew.
    pub fn grow(&mut self, size_bytes: u64) -> io::Result<bool> {
        if size_bytes <= self.size_bytes {
            return Ok(false);
        }
        self.size_bytes = size_bytes;
        self.control.update_size(self.number, size_bytes / SECTOR_BYTES)?;
        Ok(true)
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
                Ok(Some(_claim)) => {
                    self.write_back();
                    if let Err(error) = self.control.stop(self.number) {
                        return Err(self.stays(failed("stop the block device")(error)));
                    }
                }
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

    /// Has the kernel write what it caches of the device and its file systems, while there is somebody
    /// to take it.
    fn write_back(&self) {
        if !self.outlives_its_server || self.progress.is_broken() {
            return;
        }
        let device = self.path.clone();
        // A device that is not served any more would hold this up for ever. The end of the device ends
        // the thread in any case.
        let writer = thread::Builder::new().name("write-back".to_owned()).spawn(move || {
            for part in users::parts(&device) {
                let written = fs::File::open(&part).and_then(|part| ring::write_back(&part));
                if let Err(error) = written {
                    tracing::warn!("what is cached of '{}' is lost: {error}", part.display());
                }
            }
        });
        match writer {
            Ok(writer) => {
                while !writer.is_finished() && !self.progress.is_broken() {
                    thread::sleep(PAUSE);
                }
            }
            Err(error) => tracing::warn!("what is cached is not written: no thread: {error}"),
        }
    }

    /// Stops and deletes.
    fn end(&mut self) -> io::Result<()> {
        self.write_back();
        self.control.stop(self.number)?;
        self.delete()
    }

    /// Deletes the device, which is stopped, and lets go of it.
    fn delete(&mut self) -> io::Result<()> {
        self.takes_away = false;
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
        if self.takes_away
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
fn add(control: &mut UblkControl, keeping: Option<&Keeping<'_>>) -> Result<Info, UblkError> {
    let mark = mark::of(keeping.map(|keeping| keeping.name));
    let wanted = Info::wanted(DEPTH, std::process::id(), mark, keeping.is_some());
    let mut info: [u8; INFO_BYTES] = wanted.to_bytes();
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

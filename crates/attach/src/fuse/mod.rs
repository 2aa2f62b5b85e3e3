//! A FUSE file system of one file: `DIR/disk` holds the bytes of the disk.
//!
//! A thread of its own reads what the kernel asks; each request runs on the core that serves the
//! disk and is answered from there. The file is opened for direct I/O, so the kernel keeps no copy
//! of its bytes: what another path or host writes is seen, and a write is with the disk when it
//! returns. `fsync` and O_SYNC make it durable there.

mod handles;
mod leftovers;
mod room;
mod tree;

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use fuser::{BackgroundSession, Config, MountOption, Session, SessionACL};
use ring::Remote;
use rustix::io::Errno;
use rustix::mount::{UnmountFlags, unmount};

use crate::Disk;
use tree::Tree;

/// The name of the file in its directory.
pub const FILE_NAME: &str = "disk";

/// What is mounted, in the kernel's list of mounts.
const NAME: &str = "drystone";

/// How the kernel is reached.
const DEVICE: &str = "/dev/fuse";

/// How often a lazy unmount looks whether the last user has gone.
const PAUSE: Duration = Duration::from_millis(10);

/// How long the end of a file system may take that is unmounted already.
const UNMOUNTED_TIME: Duration = Duration::from_secs(2);

/// Why a directory could not be mounted on, or not be given back.
#[derive(Debug, thiserror::Error)]
pub enum MountError {
    /// The kernel has no FUSE.
    #[error(
        "this machine has no {DEVICE}: load the kernel module 'fuse', or pass the device into the container"
    )]
    NoDevice,
    /// There is nothing to mount on.
    #[error("'{}' is not a directory: make it first", .0.display())]
    NotADirectory(PathBuf),
    /// Mounting failed.
    #[error("cannot mount on '{}': {source}", dir.display())]
    Mount {
        /// Where.
        dir: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// A program, a loop device or a shell's working directory still uses it.
    #[error("'{}' is in use: end what uses it (fuser -vm shows programs, losetup -a loop devices)", .0.display())]
    Busy(PathBuf),
    /// Another mount namespace has a copy of the mount.
    #[error("'{}' is unmounted here, and still in another mount namespace: end the container or program there (grep -l {NAME} /proc/[0-9]*/mounts shows it)", .0.display())]
    Elsewhere(PathBuf),
    /// Unmounting failed.
    #[error("cannot unmount '{}': {source}", dir.display())]
    Unmount {
        /// Where.
        dir: PathBuf,
        /// What the system said.
        source: io::Error,
    },
}

/// A mounted disk. To be used from threads that are no core: these calls block. Dropping it
/// unmounts as far as that goes.
#[derive(Debug)]
pub struct Mount {
    session: BackgroundSession,
    dir: PathBuf,
    /// It is unmounted, and not over: the directory may be another mount's by now.
    is_elsewhere: bool,
}

impl Mount {
    /// Mounts on `dir`. The disk's I/O runs on `core`, which must live for as long as this.
    /// `on_end` is called once when the file system has ended, by whomever it was unmounted.
    ///
    /// # Errors
    /// See [`MountError`].
    pub fn start(
        disk: Arc<Disk>,
        dir: &Path,
        core: Remote,
        on_end: impl FnOnce() + Send + Sync + 'static,
    ) -> Result<Mount, MountError> {
        if !Path::new(DEVICE).exists() {
            return Err(MountError::NoDevice);
        }
        let failed = |source| MountError::Mount { dir: dir.to_owned(), source };
        leftovers::unmount(dir);
        if !fs::metadata(dir).is_ok_and(|found| found.is_dir()) {
            return Err(MountError::NotADirectory(dir.to_owned()));
        }
        let dir = dir.canonicalize().map_err(failed)?;
        let mut config = Config::default();
        config.mount_options = vec![
            MountOption::FSName(NAME.to_owned()),
            MountOption::DefaultPermissions,
            MountOption::NoSuid,
            MountOption::NoDev,
        ];
        if disk.geometry().read_only {
            config.mount_options.push(MountOption::RO);
        }
        // Root can let others in (a VM's own user, by chown); users may only where an
        // administrator allowed it in fuse.conf.
        if rustix::process::geteuid().is_root() {
            config.acl = SessionACL::All;
        }
        let tree = Tree::new(disk, core, Box::new(on_end));
        let session = Session::new(tree, &dir, &config).map_err(failed)?.spawn().map_err(failed)?;
        Ok(Mount { session, dir, is_elsewhere: false })
    }

    /// The mounted directory.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// The file that is the disk.
    pub fn file(&self) -> PathBuf {
        self.dir.join(FILE_NAME)
    }

    /// Unmounts and waits until every request was answered.
    ///
    /// # Errors
    /// [`MountError::Busy`] gives the mount back, unchanged; [`MountError::Elsewhere`] without its directory.
    pub fn unmount(mut self) -> Result<(), (MountError, Option<Box<Mount>>)> {
        if self.is_elsewhere {
            return match self.forget_within(UNMOUNTED_TIME) {
                Ok(()) => Ok(()),
                Err(left) => Err((MountError::Elsewhere(left.dir.clone()), Some(Box::new(left)))),
            };
        }
        match unmount(&self.dir, UnmountFlags::NOFOLLOW) {
            Ok(()) => {}
            // Somebody else unmounted it. Where that was lazily, files may still be open.
            Err(Errno::INVAL) if self.ends_within(UNMOUNTED_TIME) => {}
            Err(Errno::INVAL | Errno::BUSY) => {
                return Err((MountError::Busy(self.dir.clone()), Some(Box::new(self))));
            }
            // Only root may, and fusermount for everybody else.
            Err(Errno::PERM) => match by_helper(&self.dir, false) {
                Ok(()) => {}
                Err(_) if self.ends_within(Duration::ZERO) => {}
                Err(error) if error.kind() == io::ErrorKind::ResourceBusy => {
                    return Err((MountError::Busy(self.dir.clone()), Some(Box::new(self))));
                }
                Err(error) => return Err((failed(self.dir.clone(), error), Some(Box::new(self)))),
            },
            Err(error) => {
                return Err((failed(self.dir.clone(), error.into()), Some(Box::new(self))));
            }
        }
        if !self.ends_within(UNMOUNTED_TIME) {
            self.is_elsewhere = true;
            return Err((MountError::Elsewhere(self.dir.clone()), Some(Box::new(self))));
        }
        match self.session.guard.join() {
            Ok(ended) => ended.map_err(|source| (failed(self.dir, source), None)),
            Err(panic) => std::panic::resume_unwind(panic),
        }
    }

    /// Waits until the file system has ended; false when it has not in time.
    fn ends_within(&self, time: Duration) -> bool {
        let end = Instant::now() + time;
        while !self.session.guard.is_finished() && Instant::now() < end {
            thread::sleep(PAUSE);
        }
        self.session.guard.is_finished()
    }

    /// Waits for the end of a copy elsewhere. Then what `fuser` has of it is left to the end of the process:
    /// it would unmount the directory.
    fn forget_within(self, time: Duration) -> Result<(), Self> {
        if !self.ends_within(time) {
            return Err(self);
        }
        std::mem::forget(self.session);
        Ok(())
    }

    /// Takes the directory away from new users at once, and waits up to `grace` for the old ones;
    /// those that are left then get errors. False when there were some.
    pub fn detach(self, grace: Duration) -> bool {
        if self.is_elsewhere {
            return self.forget_within(grace).map_err(std::mem::forget).is_ok();
        }
        if let Err(error) = unmount_lazily(&self.dir) {
            tracing::warn!("cannot take '{}' away: {error}", self.dir.display());
        }
        self.ends_within(grace)
    }
}

/// Takes a directory away from new users at once.
fn unmount_lazily(dir: &Path) -> io::Result<()> {
    match unmount(dir, UnmountFlags::DETACH | UnmountFlags::NOFOLLOW) {
        // Only root may, and fusermount for everybody else.
        Err(Errno::PERM) => by_helper(dir, true),
        // Somebody else was faster.
        Ok(()) | Err(Errno::INVAL) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Unmounts by the program that may, for users that may not: at once, or once nobody uses it any more
/// (`lazily`). `ResourceBusy` when somebody does.
fn by_helper(dir: &Path, lazily: bool) -> io::Result<()> {
    let flags = if lazily { "-uz" } else { "-u" };
    let mut missing = io::Error::from(io::ErrorKind::NotFound);
    for program in ["fusermount3", "fusermount"] {
        let said = match Command::new(program).arg(flags).arg(dir).env("LC_ALL", "C").output() {
            Ok(output) if output.status.success() => return Ok(()),
            Ok(output) => String::from_utf8_lossy(&output.stderr).trim().to_owned(),
            Err(error) => {
                missing = io::Error::new(error.kind(), format!("{program}: {error}"));
                continue;
            }
        };
        let is_busy = said.ends_with("Device or resource busy");
        let kind = if is_busy { io::ErrorKind::ResourceBusy } else { io::ErrorKind::Other };
        return Err(io::Error::new(kind, said));
    }
    Err(missing)
}

fn failed(dir: PathBuf, source: io::Error) -> MountError {
    MountError::Unmount { dir, source }
}

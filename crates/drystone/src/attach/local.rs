//! What makes the disk a local one beside NBD, which the core serves by itself: a mounted directory or
//! a block device of the kernel. The kernel knows who uses them.

use crate::attach::volume::Volume;
use crate::cli::attach::AttachArgs;
use ::attach::fuse::{Mount, MountError};
use ::attach::ublk::{Device, UblkError};
use std::path::Path;
use std::time::Duration;
use thiserror::Error;

/// Why it could not be made, or stays.
#[derive(Debug, Error)]
pub(crate) enum LocalError {
    /// The directory.
    #[error(transparent)]
    Mount(#[from] MountError),
    /// The block device.
    #[error(transparent)]
    Ublk(#[from] UblkError),
}

/// A place that has to be taken away before the disk can go.
#[derive(Debug)]
pub(crate) enum Local {
    /// The directory with the file.
    Mount(Box<Mount>),
    /// The block device.
    Device(Box<Device>),
}

impl Local {
    /// Makes what the command line asks for, if any; `on_end` is called when it has gone.
    pub(crate) fn start(
        args: &AttachArgs,
        volume: &Volume,
        on_end: impl FnOnce() + Send + Sync + 'static,
    ) -> Result<Option<Local>, LocalError> {
        let disk = volume.disk.clone();
        if let Some(dir) = &args.fuse {
            let mount = Mount::start(disk, dir, volume.core.clone(), on_end)?;
            return Ok(Some(Local::Mount(Box::new(mount))));
        }
        if args.ublk {
            let device = Device::start(disk, &volume.core, on_end)?;
            return Ok(Some(Local::Device(Box::new(device))));
        }
        Ok(None)
    }

    /// Where users find it.
    pub(crate) fn place(&self) -> &Path {
        match self {
            Local::Mount(mount) => mount.dir(),
            Local::Device(device) => device.path(),
        }
    }

    /// Takes it away, unless it is in use: then it is given back.
    pub(crate) fn take_away(self) -> Result<(), (LocalError, Option<Local>)> {
        match self {
            Local::Mount(mount) => {
                mount.unmount().map_err(|(error, left)| (error.into(), left.map(Local::Mount)))
            }
            Local::Device(device) => {
                device.stop().map_err(|(error, left)| (error.into(), left.map(Local::Device)))
            }
        }
    }

    /// Takes it away from those who still use it after `grace` too; false when there were some.
    pub(crate) fn force(self, grace: Duration) -> bool {
        match self {
            Local::Mount(mount) => mount.detach(grace),
            Local::Device(device) => device.force(grace),
        }
    }
}

//! What makes the disk a local one beside NBD, which the core serves by itself: a mounted directory or
//! a block device of the kernel. The kernel knows who uses them.

use crate::attach::plan::Place;
use crate::attach::udev::Note;
use crate::attach::volume::Volume;
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
    /// The block device, and what udev is told of it for as long as it is there.
    Device(Box<Device>, Option<Note>),
}

impl Local {
    /// Makes what `place` asks for, if any; `note` is what udev is told of a block device of that
    /// path, and `on_end` is called when it has gone.
    pub(crate) fn start(
        place: &Place,
        volume: &Volume,
        note: impl FnOnce(&Path) -> Option<Note>,
        on_end: impl FnOnce() + Send + Sync + 'static,
    ) -> Result<Option<Local>, LocalError> {
        let disk = volume.disk.clone();
        match place {
            Place::Nbd(_) => Ok(None),
            Place::Fuse(dir) => {
                let mount = Mount::start(disk, dir, volume.core.clone(), on_end)?;
                Ok(Some(Local::Mount(Box::new(mount))))
            }
            Place::Ublk => {
                let mut noted = None;
                let announce = |path: &Path| noted = note(path);
                let device = Device::start(disk, &volume.core, announce, on_end)?;
                Ok(Some(Local::Device(Box::new(device), noted)))
            }
        }
    }

    /// Where users find it.
    pub(crate) fn place(&self) -> &Path {
        match self {
            Local::Mount(mount) => mount.dir(),
            Local::Device(device, _) => device.path(),
        }
    }

    /// Takes it away, unless it is in use: then it is given back.
    pub(crate) fn take_away(self) -> Result<(), (LocalError, Option<Local>)> {
        match self {
            Local::Mount(mount) => {
                mount.unmount().map_err(|(error, left)| (error.into(), left.map(Local::Mount)))
            }
            Local::Device(device, note) => device.stop().map_err(|(error, left)| {
                (error.into(), left.map(|device| Local::Device(device, note)))
            }),
        }
    }

    /// Takes it away from those who still use it after `grace` too; false when there were some.
    pub(crate) fn force(self, grace: Duration) -> bool {
        match self {
            Local::Mount(mount) => mount.detach(grace),
            Local::Device(device, _note) => device.force(grace),
        }
    }
}

//! What makes the disk a local one beside NBD, which the core serves by itself: a mounted directory or
//! a block device of the kernel. The kernel knows who uses them.

use crate::attach::plan::Place;
use crate::attach::udev::{Behind, Note, Notes};
use crate::attach::volume::Volume;
use ::attach::fuse::{Mount, MountError};
use ::attach::ublk::{Device, Keeping, UblkError, left};
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
    #[error("{}{}", .0, way_out(.0))]
    Ublk(UblkError),
    /// Its users would write what waits in them over what others write meanwhile.
    #[error(
        "'{path}' is of this volume, its process is gone, and what uses it waits: attach the volume with --ublk, which takes it over, or take it away with 'drystone detach {path}'"
    )]
    Left {
        /// The block device.
        path: String,
    },
}

/// Said whole by the error itself: it is no cause behind it.
impl From<UblkError> for LocalError {
    fn from(error: UblkError) -> Self {
        Self::Ublk(error)
    }
}

/// What to do about a block device that cannot be had.
fn way_out(error: &UblkError) -> String {
    match error {
        UblkError::Changed { path, .. } => format!(
            ". End what uses it, and take it away with 'drystone detach {}'",
            path.display()
        ),
        _ => String::new(),
    }
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
    /// Makes what `place` asks for, if any; of a block device `notes` says that it is `behind` it, and
    /// `on_end` is called when it has gone.
    pub(crate) fn start(
        place: &Place,
        volume: &Volume,
        notes: &Notes,
        behind: &Behind,
        on_end: impl FnOnce() + Send + Sync + 'static,
    ) -> Result<Option<Local>, LocalError> {
        let disk = volume.disk.clone();
        let is_noted = |path: &Path| {
            let of = notes.read(path).and_then(|noted| noted.disk);
            of.is_some() && of == behind.disk
        };
        if !matches!(place, Place::Ublk)
            && let Some(path) = left().into_iter().find(|path| is_noted(path))
        {
            return Err(LocalError::Left { path: path.display().to_string() });
        }
        match place {
            Place::Nbd(_) => Ok(None),
            Place::Fuse(dir) => {
                let mount = Mount::start(disk, dir, volume.core.clone(), on_end)?;
                Ok(Some(Local::Mount(Box::new(mount))))
            }
            Place::Ublk => {
                let (mut noted, mut is_old) = (None::<Note>, false);
                let announce = |path: &Path, is_taken_over| {
                    is_old = is_taken_over;
                    noted = notes.write(path, behind);
                    volume.answer_for_users(notes.losses(path, is_old), is_old);
                };
                let name = behind.disk.as_ref();
                let keeping =
                    name.map(|name| Keeping { name: name.as_bytes(), is_noted: &is_noted });
                match Device::start(disk, &volume.core, keeping.as_ref(), announce, on_end) {
                    Ok(device) => Ok(Some(Local::Device(Box::new(device), noted))),
                    Err(error) => {
                        // One that was not taken over stays, and with it the note, for the next try.
                        if let Some(note) = noted.filter(|_| is_old) {
                            note.keep();
                        }
                        Err(error.into())
                    }
                }
            }
        }
    }

    /// Tells those who use it that the volume is `size_bytes` long now, where they do not see it by
    /// themselves.
    pub(crate) fn grow(&mut self, size_bytes: u64) {
        let Local::Device(device, _) = self else { return };
        let path = device.path().display().to_string();
        match device.grow(size_bytes) {
            Ok(true) => tracing::info!("'{path}' has grown to {size_bytes} bytes"),
            Ok(false) => {}
            Err(error) => tracing::warn!(
                "the volume has grown, but '{path}' keeps its size until it is attached anew, as Linux before 6.16 does: {error}"
            ),
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

//! Where an embedded store keeps its bytes.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use redb::backends::{FileBackend, InMemoryBackend};
use redb::{Builder, Database, StorageBackend};

use crate::bytes::{Bytes, Resizable};
use crate::store::error::StoreError;

/// Where an embedded store keeps its bytes.
#[derive(Debug)]
pub enum Place {
    /// In memory, until it is dropped.
    Memory,
    /// In this file, which is made if it is missing.
    File(PathBuf),
    /// On a device that has its size and no other use, all of it zero when it is first used.
    Device(Arc<dyn Bytes>),
}

impl Place {
    /// Opens the database, or makes an empty one where there is nothing.
    pub(super) fn open(&self, builder: &Builder) -> Result<Database, StoreError> {
        let database = match self {
            Self::Memory => builder.create_with_backend(InMemoryBackend::new()),
            Self::File(path) => {
                let file = open_file(path)?;
                builder.create_with_backend(FileBackend::new(file).map_err(super::failed)?)
            }
            Self::Device(bytes) => {
                let storage = Resizable::open(bytes.clone())?;
                forget_half_made(
                    storage.len()?,
                    |start| storage.read(0, start),
                    || storage.set_len(0),
                )?;
                builder.create_with_backend(storage)
            }
        };
        database.map_err(super::failed)
    }
}

fn open_file(path: &Path) -> io::Result<File> {
    let file = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path)?;
    let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    File::open(directory.unwrap_or(Path::new(".")))?.sync_all()?;
    let len = file.metadata()?.len();
    forget_half_made(len, |start| file.read_exact_at(start, 0), || file.set_len(0))?;
    Ok(file)
}

/// A database that was never finished is made again. redb writes its first bytes last of all when it
/// makes one, and refuses what does not begin with them: so if they are zero, nothing was ever kept.
fn forget_half_made(
    len: u64,
    read_start: impl FnOnce(&mut [u8]) -> io::Result<()>,
    empty: impl FnOnce() -> io::Result<()>,
) -> io::Result<()> {
    let mut start = [0; 9];
    if len >= start.len() as u64 {
        read_start(&mut start)?;
        if start == [0; 9] {
            return empty();
        }
    }
    Ok(())
}

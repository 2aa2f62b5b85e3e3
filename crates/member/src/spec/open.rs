//! From a medium to an open disk.

use block::{
    BlockDevice, FileDisk, FileOptions, ModelDisk, NullDisk, OpenError, RamDisk, VolatileDisk,
};
use std::path::Path;
use std::sync::Arc;

use super::{DiskError, Medium};

/// The logical block when neither the user nor the medium says otherwise.
const BLOCK_BYTES_DEFAULT: u32 = 512;

/// How a disk is to be opened.
#[derive(Debug, Clone, Copy)]
pub struct How {
    /// Logical block; `None`: 512, or that of a block device with larger ones.
    pub block_bytes: Option<u32>,
    /// Refuse every write.
    pub read_only: bool,
    /// Every write is durable when it is answered.
    pub write_through: bool,
    /// Bypass the page cache in both directions.
    pub direct: bool,
}

/// Opens what is called `name`.
///
/// # Errors
/// Why it cannot be had.
pub fn open(medium: &Medium, name: &str, how: How) -> Result<Arc<dyn BlockDevice>, DiskError> {
    let block_bytes = how.block_bytes.unwrap_or(BLOCK_BYTES_DEFAULT);
    let How { read_only, write_through, direct, .. } = how;
    let options =
        |size_bytes| FileOptions { block_bytes, read_only, size_bytes, write_through, direct };
    let ram = |size_bytes| open_ram(name, read_only, block_bytes, size_bytes);
    Ok(match medium {
        Medium::Ram { size_bytes } => Arc::new(ram(*size_bytes)?),
        Medium::Null { size_bytes } => {
            let open = if read_only { NullDisk::new_read_only } else { NullDisk::new };
            Arc::new(open(block_bytes, size_bytes / u64::from(block_bytes)))
        }
        Medium::File { path, size_bytes } => {
            Arc::new(FileDisk::open_file(path, &options(*size_bytes))?)
        }
        Medium::Volatile { size_bytes, path } => {
            Arc::new(VolatileDisk::open(path, &options(Some(*size_bytes)))?)
        }
        Medium::Disk { path } => Arc::new(open_disk(path, &options(None), how.block_bytes)?),
        Medium::Sim { class, size_bytes, path } => {
            let below: Arc<dyn BlockDevice> = match path {
                Some(path) => Arc::new(FileDisk::open_file(path, &options(Some(*size_bytes)))?),
                None => Arc::new(ram(*size_bytes)?),
            };
            Arc::new(ModelDisk::new(*class, below))
        }
    })
}

fn open_ram(
    name: &str,
    read_only: bool,
    block_bytes: u32,
    size_bytes: u64,
) -> Result<RamDisk, DiskError> {
    let open = if read_only { RamDisk::new_read_only } else { RamDisk::new };
    open(block_bytes, size_bytes / u64::from(block_bytes))
        .map_err(|source| DiskError::AddressSpace { name: name.to_owned(), source })
}

/// Opens a block device; one with larger blocks than usual keeps its own unless told otherwise.
fn open_disk(
    path: &Path,
    options: &FileOptions,
    wanted_bytes: Option<u32>,
) -> Result<FileDisk, DiskError> {
    match FileDisk::open_disk(path, options) {
        Err(OpenError::BlockTooSmall { device_block_bytes, .. }) if wanted_bytes.is_none() => {
            let block_bytes =
                u32::try_from(device_block_bytes).ok().filter(|bytes| *bytes <= 4096).ok_or_else(
                    || DiskError::Blocks { path: path.to_owned(), block_bytes: device_block_bytes },
                )?;
            Ok(FileDisk::open_disk(path, &FileOptions { block_bytes, ..*options })?)
        }
        opened => Ok(opened?),
    }
}

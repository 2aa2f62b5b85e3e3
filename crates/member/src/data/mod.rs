//! What a member keeps in its data directory: which disks it has, and which hosts had to prove themselves. What
//! hosts know its array by, and what they reserved, is on the array; what earlier versions kept of that here is
//! taken over.

mod damage;
pub mod doors;
mod error;
pub mod portal_group;
pub mod remembered;
mod replace;
pub(crate) mod unit_files;

use std::path::Path;

use crate::lock::{LockError, LockFile};

pub use error::DataError;

/// Where earlier versions kept reservations, in the directory of the member.
pub(crate) const RESERVATIONS: &str = "reservations";

/// The lock of a directory lies in it.
const LOCK: &str = "lock";

/// A file that is longer was written by nobody here.
const FILE_BYTES_MAX: u64 = 4 << 20;

/// Whether the directory of a member takes what is to be remembered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Keeps {
    /// As it should.
    All,
    /// It can be read only.
    Nothing,
}

/// The locks of a directory: of a file in it, where that can be made, and of itself.
pub type Locks = (Option<LockFile>, LockFile);

/// Locks the directory `data`: one member uses it, as what two remember would be mixed up.
///
/// # Errors
/// [`DataError::Taken`] if another process has it, and [`DataError::Lock`].
pub fn lock(data: &Path, keeps: Keeps) -> Result<Locks, DataError> {
    let path = data.to_owned();
    LockFile::take_with_dir(&data.join(LOCK), keeps == Keeps::All).map_err(|error| match error {
        LockError::Taken(holder) => DataError::Taken { path, holder },
        LockError::System(source) => DataError::Lock { path, source },
    })
}

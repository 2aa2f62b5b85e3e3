//! A small file that is replaced as a whole.

use std::fs;
use std::io::{self, Write};
use std::path::Path;

use super::DataError;

/// Replaces a file, so that after a crash either the old or the new one is there. Nobody else may be
/// doing that.
///
/// # Errors
/// [`DataError::Write`].
pub fn replace(path: &Path, text: &str) -> Result<(), DataError> {
    let written = || -> io::Result<()> {
        let fresh = path.with_extension("new");
        let mut file = fs::File::create(&fresh)?;
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        fs::rename(&fresh, path)?;
        fs::File::open(path.parent().unwrap_or(Path::new(".")))?.sync_all()
    };
    written().map_err(|source| DataError::Write { path: path.to_owned(), source })
}

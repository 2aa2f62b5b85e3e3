//! A small file that is replaced as a whole.

use std::path::Path;

use super::DataError;

/// Replaces a file, so that after a crash either the old or the new one is there. Nobody else may be
/// doing that.
///
/// # Errors
/// [`DataError::Write`].
pub(super) fn replace(path: &Path, text: &str) -> Result<(), DataError> {
    let failed = |source| DataError::Write { path: path.to_owned(), source };
    ring::replace_file(path, text.as_bytes()).map_err(failed)
}

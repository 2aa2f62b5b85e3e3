//! Small files that are there as a whole or not at all, also after a crash.
//!
//! These calls block: a task makes them by [`blocking`](super::blocking).

use std::ffi::OsStr;
use std::fs;
use std::io::{self, Write};
use std::path::Path;

/// What is behind the name of a file that is being written.
const FRESH: &str = ".new";

/// Replaces a file, or makes it, so that after a crash either the old or the new one is there, whole.
///
/// It is written beside its place, with `.new` behind its name, synced, renamed, and its directory synced.
/// Nobody else may replace the same file at the same time; what a crash left beside it is overwritten.
///
/// # Errors
/// Those of the file system. Unless it was the last step that failed, the old file is there.
pub fn replace_file(path: &Path, contents: &[u8]) -> io::Result<()> {
    let mut fresh = path.as_os_str().to_owned();
    fresh.push(FRESH);
    write(&fresh, contents)?;
    fs::rename(&fresh, path)?;
    sync_parent(path)
}

fn write(path: &OsStr, contents: &[u8]) -> io::Result<()> {
    let mut file = fs::File::create(path)?;
    file.write_all(contents)?;
    file.sync_all()
}

/// Removes a file, if there is one, so that it does not come back after a crash.
///
/// # Errors
/// Those of the file system.
pub fn remove_file(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => sync_parent(path),
    }
}

/// Makes durable that a file has come to its directory, or left it.
///
/// # Errors
/// Those of the file system.
pub fn sync_parent(path: &Path) -> io::Result<()> {
    let parent = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    fs::File::open(parent)?.sync_all()
}

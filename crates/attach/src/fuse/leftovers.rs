//! What a server that was killed leaves behind: a directory that is still mounted, and in which nothing
//! works any more (ENOTCONN). Nothing can be lost with it: who still had the file open has got errors.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use super::{NAME, unmount_lazily};

/// Unmounts `dir` if it is one of ours that nobody serves.
pub(super) fn unmount(dir: &Path) {
    let Err(error) = fs::metadata(dir) else { return };
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap_or_default();
    let Some(dir) = real(dir) else { return };
    if error.kind() != ErrorKind::NotConnected || !is_ours(&mounts, &dir) {
        return;
    }
    match unmount_lazily(&dir) {
        Ok(()) => tracing::info!("unmounted '{}', which a crash had left", dir.display()),
        Err(error) => tracing::warn!("cannot unmount '{}': {error}", dir.display()),
    }
}

/// The path as the kernel knows it. The directory itself cannot be asked.
fn real(dir: &Path) -> Option<PathBuf> {
    let dir = std::path::absolute(dir).ok()?;
    Some(dir.parent()?.canonicalize().ok()?.join(dir.file_name()?))
}

/// Whether the words of `/proc/self/mounts` say that `dir` is ours: source, directory, type.
fn is_ours(mounts: &str, dir: &Path) -> bool {
    let mut escaped = String::new();
    for c in dir.to_string_lossy().chars() {
        match c {
            ' ' | '\t' | '\n' | '\\' => escaped.push_str(&format!("\\{:03o}", u32::from(c))),
            other => escaped.push(other),
        }
    }
    mounts.lines().any(|line| {
        let words: Vec<&str> = line.split(' ').collect();
        matches!(words[..], [source, at, "fuse", ..] if source == NAME && at == escaped)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_bears_our_name_is_ours() {
        let mounts = "drystone /mnt/a fuse rw 0 0\nsshfs /mnt/b fuse rw 0 0\n\
                      drystone /mnt/c\\040d fuse ro 0 0\ndrystone /mnt/e ext4 rw 0 0\n";
        for (dir, wanted) in [
            ("/mnt/a", true),
            ("/mnt/b", false),
            ("/mnt/c d", true),
            ("/mnt/e", false),
            ("/", false),
        ] {
            assert_eq!(is_ours(mounts, Path::new(dir)), wanted, "{dir}");
        }
    }

    #[test]
    fn a_directory_that_works_is_left_alone() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("file"), b"precious").unwrap();
        unmount(dir.path());
        assert_eq!(fs::read(dir.path().join("file")).unwrap(), b"precious");
    }
}

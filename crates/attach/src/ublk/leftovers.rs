//! What a server that was killed leaves behind.
//!
//! A device that nobody would know again goes with its server: the kernel takes its block device away by
//! itself, but keeps `/dev/ublkcN` and the number until somebody deletes them. Devices of ours carry a
//! mark, by which whoever makes the next one finds them. Those that stay are for `recovery`.

use std::fs;
use std::path::Path;

use ring::UblkControl;

use super::wire::{INFO_BYTES, Info};
use super::{mark, node};

/// Deletes the devices of ours that nobody serves.
pub(super) fn delete(control: &mut UblkControl) {
    for entry in fs::read_dir("/dev").into_iter().flatten().flatten() {
        let name = entry.file_name();
        let Some(number) = number(&name.to_string_lossy()) else { continue };
        let mut info = [0; INFO_BYTES];
        if control.info(number, &mut info).is_err() {
            continue; // gone meanwhile
        }
        if is_left(&Info::of_bytes(&info)) && is_closed(number) {
            match control.delete(number) {
                Ok(()) => tracing::info!("deleted ublk device {number}, which a crash had left"),
                Err(error) => tracing::debug!("cannot delete ublk device {number}: {error}"),
            }
        }
    }
}

/// N of `ublkcN`.
pub(super) fn number(name: &str) -> Option<u32> {
    name.strip_prefix("ublkc")?.parse().ok()
}

/// It is ours, has no block device, and the process that began to make it is gone.
fn is_left(info: &Info) -> bool {
    mark::is_ours(info.mark) && info.is_dead() && (info.pid <= 0 || !is_running(info.pid))
}

/// Whether there is such a process, other than one that is dead and was not asked how it ended.
pub(super) fn is_running(pid: i32) -> bool {
    let stat = fs::read_to_string(Path::new("/proc").join(pid.to_string()).join("stat"));
    // The name, in parentheses, can hold any character.
    stat.is_ok_and(|stat| {
        let state = stat.rsplit(')').next().unwrap_or("").trim_start();
        !state.starts_with(['Z', 'X'])
    })
}

/// A server that is ending deletes its device before it closes it, and only one can have it open.
pub(super) fn is_closed(number: u32) -> bool {
    fs::OpenOptions::new().read(true).write(true).open(node('c', number)).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_devices_are_looked_at() {
        assert_eq!(number("ublkc12"), Some(12));
        for other in ["ublkb1", "ublkc", "ublkcx", "ublk-control", "sda"] {
            assert_eq!(number(other), None);
        }
    }

    #[test]
    fn only_dead_devices_of_ours_without_a_process_are_left() {
        let own = Info::wanted(1, std::process::id(), mark::of(None), false);
        assert!(!is_left(&own), "another process is about to start it");
        let left = Info { pid: -1, ..own };
        assert!(is_left(&left) && is_left(&Info { pid: i32::MAX, ..own }));
        assert!(!is_left(&Info { mark: 0, ..left }), "a device of another server");
        assert!(!is_left(&Info { state: 1, ..left }), "it has a block device");
    }
}

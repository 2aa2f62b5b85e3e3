//! What the system knows about the place where a file lives.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;

/// Whether the file system of `metadata` keeps its files in memory (tmpfs, ramfs): there a read
/// or write is a copy that never waits for a disk, and a sync has nothing to do.
pub(super) fn is_in_memory(metadata: &fs::Metadata) -> bool {
    let (major, minor) = (libc::major(metadata.dev()), libc::minor(metadata.dev()));
    fs::read_to_string("/proc/self/mountinfo")
        .is_ok_and(|table| mount_type(&table, major, minor).is_some_and(in_memory_type))
}

fn in_memory_type(name: &str) -> bool {
    matches!(name, "tmpfs" | "ramfs")
}

/// The type of the file system on device `major:minor`, from the text of proc_pid_mountinfo(5):
/// the third field is the device, the type follows a lone dash.
fn mount_type(table: &str, major: u32, minor: u32) -> Option<&str> {
    let device = format!("{major}:{minor}");
    table.lines().find_map(|line| {
        let (mount, kind) = line.split_once(" - ")?;
        (mount.split(' ').nth(2)? == device).then_some(kind.split(' ').next()?)
    })
}

/// The file behind a loop device, or behind the one that a partition is of.
pub(super) fn file_behind(device: u64) -> Option<PathBuf> {
    let (major, minor) = (libc::major(device), libc::minor(device));
    let node = PathBuf::from(format!("/sys/dev/block/{major}:{minor}"));
    let read = |file: &str| fs::read_to_string(node.join(file)).ok();
    let path = read("loop/backing_file").or_else(|| read("../loop/backing_file"))?;
    Some(PathBuf::from(path.trim_end_matches('\n')))
}

/// The request queue of a block device, as the kernel describes it in sysfs.
#[derive(Debug, Clone)]
pub(super) struct Queue(PathBuf);

impl Queue {
    /// Of the block device with number `device`.
    pub(super) fn of(device: u64) -> Self {
        let (major, minor) = (libc::major(device), libc::minor(device));
        let node = PathBuf::from(format!("/sys/dev/block/{major}:{minor}"));
        let own = node.join("queue");
        // A partition has no queue of its own: it is its parent's.
        Self(if own.is_dir() { own } else { node.join("../queue") })
    }

    /// The number in a file of the queue; `None` when the device has no such file.
    pub(super) fn number(&self, name: &str) -> Option<u64> {
        fs::read_to_string(self.0.join(name)).ok()?.trim().parse().ok()
    }

    /// Whether the device gives space back and then reads zeroes.
    pub(super) fn is_thin(&self) -> bool {
        ["discard_max_bytes", "write_zeroes_max_bytes"]
            .iter()
            .all(|name| self.number(name).is_some_and(|bytes| bytes > 0))
    }

    pub(super) fn is_rotational(&self) -> bool {
        self.number("rotational") == Some(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &str = "\
22 28 0:21 / /proc rw,nosuid - proc proc rw
28 1 254:0 / / rw,relatime - ext4 /dev/vda rw
31 28 0:25 / /dev/shm rw shared:4 - tmpfs tmpfs rw,size=24g
";

    #[test]
    fn the_type_of_a_mount_is_found_by_its_device() {
        assert_eq!(mount_type(TABLE, 0, 25), Some("tmpfs"));
        assert_eq!(mount_type(TABLE, 254, 0), Some("ext4"));
        assert_eq!(mount_type(TABLE, 254, 1), None);
        assert!(in_memory_type("tmpfs") && !in_memory_type("ext4"));
    }

    #[test]
    fn shared_memory_is_in_memory() {
        assert!(is_in_memory(&fs::metadata("/dev/shm").unwrap()));
        assert!(!is_in_memory(&fs::metadata("/proc").unwrap()));
    }

    #[test]
    fn an_unknown_device_has_no_numbers() {
        let queue = Queue::of(libc::makedev(4095, 77));
        assert_eq!(queue.number("rotational"), None);
        assert!(!queue.is_thin() && !queue.is_rotational());
    }
}

//! Who uses a block device.
//!
//! The kernel tells of those that claim it for themselves: mounts, swap, RAID and the device mapper.
//! Programs that just open it, such as a virtual machine, and loop devices are looked for.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// How often it is looked again.
const PAUSE: Duration = Duration::from_millis(50);

/// A claim that keeps others from mounting the device; `None` when it was in use for all of `time`.
pub(super) fn claim(device: &Path, time: Duration) -> io::Result<Option<File>> {
    let end = Instant::now() + time;
    loop {
        match OpenOptions::new().read(true).custom_flags(libc::O_EXCL).open(device) {
            // udev looks into a device that has just been closed, so that one look is not enough.
            Ok(claim) if !is_open(device)? => return Ok(Some(claim)),
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::ResourceBusy => {}
            Err(error) => return Err(error),
        }
        if Instant::now() >= end {
            return Ok(None);
        }
        std::thread::sleep(PAUSE);
    }
}

/// Whether another process or a loop device has the device or a partition of it open.
fn is_open(device: &Path) -> io::Result<bool> {
    let name = device.file_name().unwrap_or_default().to_string_lossy();
    let numbers = numbers(device, &name)?;
    Ok(is_open_by_a_loop(device) || is_open_by_a_process(&numbers))
}

/// The device numbers of the device and of its partitions.
fn numbers(device: &Path, name: &str) -> io::Result<Vec<u64>> {
    let mut numbers = vec![fs::metadata(device)?.rdev()];
    // A partition may go meanwhile.
    let found = partitions(device, name).into_iter().filter_map(|part| fs::metadata(part).ok());
    numbers.extend(found.map(|found| found.rdev()));
    Ok(numbers)
}

/// The partitions of the device, then the device itself.
pub(super) fn parts(device: &Path) -> Vec<PathBuf> {
    let name = device.file_name().unwrap_or_default().to_string_lossy();
    let mut parts = partitions(device, &name);
    parts.push(device.to_owned());
    parts
}

fn partitions(device: &Path, name: &str) -> Vec<PathBuf> {
    let parent = device.parent().unwrap_or(Path::new("/dev"));
    let entries = fs::read_dir(Path::new("/sys/block").join(name));
    let names = entries.into_iter().flatten().flatten().map(|entry| entry.file_name());
    let parts = names.filter(|part| part.to_string_lossy().starts_with(&format!("{name}p")));
    parts.map(|part| parent.join(part)).collect()
}

fn is_open_by_a_loop(device: &Path) -> bool {
    let loops = fs::read_dir("/sys/block").into_iter().flatten().flatten();
    loops.filter(|entry| entry.file_name().to_string_lossy().starts_with("loop")).any(|entry| {
        let file = fs::read_to_string(entry.path().join("loop/backing_file"));
        file.is_ok_and(|file| is_part(file.trim_end(), device))
    })
}

/// Whether `path` is the device or a partition of it.
fn is_part(path: &str, device: &Path) -> bool {
    let Some(rest) = device.to_str().and_then(|device| path.strip_prefix(device)) else {
        return false;
    };
    let number = rest.strip_prefix('p').unwrap_or_default();
    rest.is_empty() || (!number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit()))
}

fn is_open_by_a_process(numbers: &[u64]) -> bool {
    let own = std::process::id().to_string();
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    processes
        .filter(|entry| {
            let name = entry.file_name();
            let name = name.to_string_lossy();
            name.bytes().all(|byte| byte.is_ascii_digit()) && *name != *own
        })
        // Processes and files come and go meanwhile.
        .flat_map(|entry| fs::read_dir(entry.path().join("fd")).into_iter().flatten().flatten())
        .any(|file| {
            // Only what is a device by its name is looked at: a file on a dead server would hang us.
            let is_device = fs::read_link(file.path()).is_ok_and(|link| link.starts_with("/dev"));
            is_device
                && fs::metadata(file.path()).is_ok_and(|found| {
                    found.file_type().is_block_device() && numbers.contains(&found.rdev())
                })
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn partitions_are_parts_and_other_devices_are_not() {
        let device = Path::new("/dev/ublkb1");
        for part in ["/dev/ublkb1", "/dev/ublkb1p1", "/dev/ublkb1p12"] {
            assert!(is_part(part, device), "{part}");
        }
        for other in ["/dev/ublkb12", "/dev/ublkb", "/dev/ublkb1p", "/dev/ublkb1px", "/mnt/disk"] {
            assert!(!is_part(other, device), "{other}");
        }
    }

    #[test]
    fn a_device_that_is_gone_is_an_error_and_not_in_use() {
        let dir = tempfile::tempdir().unwrap();
        let error = claim(&dir.path().join("ublkb0"), Duration::ZERO).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::NotFound);
        assert!(!is_open_by_a_process(&[u64::MAX]));
    }
}

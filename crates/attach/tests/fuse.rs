//! The FUSE file as programs and the kernel use it.

mod common;

use attach::fuse::{Mount, MountError};
use block::testing::{Fault, FaultyDisk, Operation, Rule};
use block::{BlockDevice, BlockError, RamDisk};
use common::{Serving, run_tool, tool};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{FileExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::{Arc, mpsc};
use std::time::Duration;

const SIZE_BYTES: u64 = 64 << 20;

fn ram() -> Arc<dyn BlockDevice> {
    common::ram(512, SIZE_BYTES)
}

/// Mounts the disk; `None`, with the reason on stderr, where the machine has no FUSE for us.
fn mount(serving: &Serving, dir: &Path) -> Option<Mount> {
    match Mount::start(serving.disk.clone(), dir, serving.core.clone(), || ()) {
        Ok(mount) => Some(mount),
        Err(error @ (MountError::NoDevice | MountError::Mount { .. })) => {
            eprintln!("SKIPPED, for this machine cannot mount: {error}");
            None
        }
        Err(error) => panic!("{error}"),
    }
}

/// Unmounts what is out of use, which may take a moment to be so: a loop device lets go of its file
/// a moment after it was detached, and a program that another test starts holds all open files
/// between its `fork` and its `exec`.
fn unmount(mount: Mount) {
    let mut left = Some(mount);
    for _ in 0..500 {
        match left.take().expect("given back below").unmount() {
            Ok(()) => return,
            // Or another test has a copy of it in a mount namespace.
            Err((MountError::Busy(_) | MountError::Elsewhere(_), mount)) => {
                left = mount.map(|mount| *mount);
            }
            Err((error, _)) => panic!("{error}"),
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    panic!("the mount stays busy");
}

fn open(mount: &Mount) -> File {
    OpenOptions::new().read(true).write(true).open(mount.file()).expect("ours to open")
}

#[test]
fn the_file_reads_back_what_was_written_at_any_byte() {
    let serving = Serving::start(ram(), None);
    let dir = tempfile::tempdir().unwrap();
    let Some(mount) = mount(&serving, dir.path()) else { return };
    let names: Vec<_> =
        fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names, ["disk"]);
    let file = open(&mount);
    assert_eq!(file.metadata().unwrap().len(), SIZE_BYTES);
    let mut model = vec![0; SIZE_BYTES as usize];
    for (at, len) in [(0_usize, 4096), (1, 1), (513, 3_000_000), (4095, 2), (1 << 20, 8 << 20)] {
        let bytes: Vec<u8> = (0..len).map(|i| (i ^ (i >> 8) ^ at) as u8 | 1).collect();
        model[at..at + len].copy_from_slice(&bytes);
        file.write_all_at(&bytes, at as u64).unwrap();
    }
    file.sync_all().unwrap();
    let mut all = Vec::new();
    (&file).read_to_end(&mut all).unwrap();
    assert!(all == model);
    let counts = serving.disk.stats().counts();
    assert!(counts.writes >= 5 && counts.others >= 1 && counts.failed == 0, "{counts:?}");
    drop(file);
    unmount(mount);
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
}

#[test]
fn the_size_stays_and_the_end_is_the_end() {
    let serving = Serving::start(ram(), None);
    let dir = tempfile::tempdir().unwrap();
    let Some(mount) = mount(&serving, dir.path()) else { return };
    let file = OpenOptions::new().write(true).read(true).truncate(true).open(mount.file()).unwrap();
    assert_eq!(file.metadata().unwrap().len(), SIZE_BYTES, "O_TRUNC is passed over");
    assert_eq!(file.set_len(4096).unwrap_err().raw_os_error(), Some(libc::EINVAL));
    let end = SIZE_BYTES;
    assert_eq!(file.write_at(&[1; 100], end - 10).unwrap(), 10);
    assert_eq!(file.write_at(&[1], end).unwrap_err().kind(), io::ErrorKind::StorageFull);
    let mut bytes = [0; 100];
    assert_eq!(file.read_at(&mut bytes, end - 10).unwrap(), 10);
    assert_eq!(file.read_at(&mut bytes, end).unwrap(), 0);
    assert!(fs::remove_file(mount.file()).is_err());
    assert!(fs::write(dir.path().join("other"), b"").is_err());
    fs::set_permissions(mount.file(), fs::Permissions::from_mode(0o640)).unwrap();
    assert_eq!(file.metadata().unwrap().permissions().mode() & 0o777, 0o640);
    drop(file);
    unmount(mount);
}

#[test]
fn holes_are_punched_and_found() {
    let serving = Serving::start(ram(), None);
    let dir = tempfile::tempdir().unwrap();
    let Some(mount) = mount(&serving, dir.path()) else { return };
    let path = mount.file();
    let path = path.to_str().unwrap();
    let file = open(&mount);
    file.write_all_at(&[7; 1 << 20], 1 << 20).unwrap();
    tool("fallocate", &["--punch-hole", "--offset", "1052672", "--length", "8192", path]);
    tool("fallocate", &["--zero-range", "--offset", "1572864", "--length", "100", path]);
    assert!(!run_tool("fallocate", &["--length", "128M", path]).status.success());
    let mut bytes = vec![1; 1 << 20];
    file.read_exact_at(&mut bytes, 1 << 20).unwrap();
    let mut wanted = vec![7; 1 << 20];
    wanted[4096..4096 + 8192].fill(0);
    wanted[1 << 19..(1 << 19) + 100].fill(0);
    assert!(bytes == wanted);
    let seek = |at, whence| {
        let whence = if whence == "data" {
            rustix::fs::SeekFrom::Data(at)
        } else {
            rustix::fs::SeekFrom::Hole(at)
        };
        rustix::fs::seek(&file, whence)
    };
    assert_eq!(seek(0, "data"), Ok(1 << 20));
    assert_eq!(seek(1 << 20, "hole"), Ok((1 << 20) + 4096));
    assert_eq!(seek((1 << 20) + 4096, "data"), Ok((1 << 20) + 4096 + 8192));
    assert_eq!(seek(3 << 20, "hole"), Ok(3 << 20));
    assert_eq!(seek(3 << 20, "data"), Err(rustix::io::Errno::NXIO));
    drop(file);
    unmount(mount);
}

#[test]
fn device_errors_reach_the_caller() {
    let faulty = Arc::new(FaultyDisk::new(ram()));
    let serving = Serving::start(faulty.clone(), None);
    let dir = tempfile::tempdir().unwrap();
    let Some(mount) = mount(&serving, dir.path()) else { return };
    let file = open(&mount);
    let errno = |result: io::Result<()>| result.unwrap_err().raw_os_error().unwrap();
    let fail = |operation, error| faulty.inject(Rule::always(operation, Fault::Fail(error)));
    fail(Operation::Read, BlockError::Medium { at: 0 });
    assert_eq!(errno(file.read_exact_at(&mut [0; 512], 0)), libc::EIO);
    fail(Operation::Write, BlockError::NoSpace);
    assert_eq!(errno(file.write_all_at(&[0; 512], 0)), libc::ENOSPC);
    fail(Operation::Flush, BlockError::LostWrites);
    assert_eq!(errno(file.sync_data()), libc::EIO);
    faulty.heal();
    file.write_all_at(&[1; 512], 0).unwrap();
    drop(file);
    unmount(mount);
}

#[test]
fn a_read_only_disk_is_mounted_read_only() {
    let serving = Serving::start(Arc::new(RamDisk::new_read_only(512, 2048).unwrap()), None);
    let dir = tempfile::tempdir().unwrap();
    let Some(mount) = mount(&serving, dir.path()) else { return };
    let error = OpenOptions::new().write(true).open(mount.file()).unwrap_err();
    assert_eq!(error.raw_os_error(), Some(libc::EROFS));
    assert_eq!(fs::read(mount.file()).unwrap(), vec![0; 1 << 20]);
    unmount(mount);
}

#[test]
fn a_mount_in_use_is_kept_until_it_is_taken_away() {
    let serving = Serving::start(ram(), None);
    let dir = tempfile::tempdir().unwrap();
    let Some(mount) = mount(&serving, dir.path()) else { return };
    let mut file = open(&mount);
    let (error, mount) = mount.unmount().unwrap_err();
    assert!(matches!(error, MountError::Busy(_)), "{error}");
    file.write_all(&[1; 512]).unwrap();
    let mount = mount.expect("a busy mount is given back");
    assert!(!mount.detach(Duration::from_millis(50)), "the file is still open");
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
    drop(file);
}

/// Nobody here uses it, and it does not end: a container copied it.
#[test]
fn a_copy_in_another_mount_namespace_does_not_hold_up_the_end() {
    let serving = Serving::start(ram(), None);
    let dir = tempfile::tempdir().unwrap();
    let Some(mount) = mount(&serving, dir.path()) else { return };
    let mut command = Command::new("unshare");
    command.args(["--mount", "sh", "-c", "echo; exec sleep 60"]).stdout(Stdio::piped());
    let mut copy = command.spawn().unwrap();
    copy.stdout.take().unwrap().read_exact(&mut [0]).expect("root may unshare");
    let (error, mount) = mount.unmount().unwrap_err();
    assert!(matches!(error, MountError::Elsewhere(_)), "{error}");
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
    // The directory may be another one's by now: it is left alone.
    let other = self::mount(&serving, dir.path()).expect("it could be mounted before");
    let (error, mount) = mount.expect("it is given back").unmount().unwrap_err();
    assert!(matches!(error, MountError::Elsewhere(_)), "{error}");
    copy.kill().unwrap();
    copy.wait().unwrap();
    unmount(*mount.expect("it is given back"));
    assert!(other.file().exists());
    unmount(other);
}

#[test]
fn whoever_has_the_file_open_hears_of_a_loss() {
    let faulty = Arc::new(FaultyDisk::new(ram()));
    let serving = Serving::start(faulty.clone(), None);
    let dir = tempfile::tempdir().unwrap();
    let Some(mount) = mount(&serving, dir.path()) else { return };
    let files = [open(&mount), open(&mount)];
    faulty.inject(Rule::always(Operation::Flush, Fault::Fail(BlockError::LostWrites)).times(1));
    for file in &files {
        assert_eq!(file.sync_all().unwrap_err().raw_os_error(), Some(libc::EIO));
        file.sync_all().unwrap();
    }
    open(&mount).sync_all().unwrap();
    drop(files);
    unmount(mount);
}

#[test]
fn an_unmount_by_hand_is_noticed() {
    let serving = Serving::start(ram(), None);
    let dir = tempfile::tempdir().unwrap();
    let (ended, end) = mpsc::channel();
    let on_end = move || ended.send(()).unwrap();
    let Ok(mount) = Mount::start(serving.disk.clone(), dir.path(), serving.core.clone(), on_end)
    else {
        return;
    };
    assert!(end.try_recv().is_err());
    tool("umount", &[dir.path().to_str().unwrap()]);
    end.recv_timeout(Duration::from_secs(10)).expect("the end is told");
    unmount(mount);
    let missing = dir.path().join("missing");
    let refused = Mount::start(serving.disk.clone(), &missing, serving.core.clone(), || ());
    assert!(matches!(refused, Err(MountError::NotADirectory(_))));
}

/// A loop device, detached with its value.
struct Loop(String);

impl Loop {
    /// `None`, with the reason on stderr, where the machine gives us none.
    fn attach(file: &Path) -> Option<Loop> {
        let output = Command::new("losetup").args(["--find", "--show"]).arg(file).output();
        let output = output.expect("util-linux is there");
        if !output.status.success() {
            eprintln!("no loop device here: {}", String::from_utf8_lossy(&output.stderr));
            return None;
        }
        Some(Loop(String::from_utf8_lossy(&output.stdout).trim().to_owned()))
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        let _ = Command::new("losetup").args(["--detach", &self.0]).status();
    }
}

/// A mounted file system, unmounted with its value.
struct Mounted<'a>(&'a Path);

impl Drop for Mounted<'_> {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(self.0).status();
    }
}

#[test]
fn a_file_system_on_a_loop_device_holds_its_files() {
    let serving = Serving::start(ram(), None);
    let (dir, at) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let Some(mount) = mount(&serving, dir.path()) else { return };
    let bytes: Vec<u8> = (0..20_000_000_u32).map(|i| (i ^ (i >> 9)) as u8).collect();
    if let Some(device) = Loop::attach(&mount.file()) {
        tool("mkfs.ext4", &["-q", &device.0]);
        for round in 0..2 {
            tool("mount", &["-o", "discard", &device.0, at.path().to_str().unwrap()]);
            let mounted = Mounted(at.path());
            let file = at.path().join("file");
            if round == 0 {
                let options = OpenOptions::new()
                    .write(true)
                    .create_new(true)
                    .custom_flags(libc::O_DSYNC)
                    .open(&file);
                options.unwrap().write_all(&bytes).unwrap();
            }
            assert!(fs::read(&file).unwrap() == bytes, "round {round}");
            drop(mounted);
        }
        tool("e2fsck", &["-fn", &device.0]);
    }
    unmount(mount);
}

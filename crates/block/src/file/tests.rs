use super::*;

use std::cell::Cell;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use proptest::prelude::*;
use ring::CoreConfig;

use crate::testing::{check_device, check_read_only};

mod direct;

const MIB: u64 = 1 << 20;

/// A directory that goes with the test.
struct Scratch(PathBuf);

impl Scratch {
    fn under(parent: &Path) -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let path = parent.join(format!("drystone-block-{}-{number}", std::process::id()));
        fs::create_dir(&path).unwrap();
        Self(path)
    }

    fn on_disk() -> Self {
        Self::under(&std::env::temp_dir())
    }

    fn in_memory() -> Self {
        Self::under(Path::new("/dev/shm"))
    }

    fn file(&self) -> PathBuf {
        self.0.join("disk.img")
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        fs::remove_dir_all(&self.0).unwrap();
    }
}

fn options(block_bytes: u32, size_bytes: u64) -> FileOptions {
    FileOptions {
        block_bytes,
        read_only: false,
        size_bytes: Some(size_bytes),
        write_through: false,
        direct: false,
    }
}

fn on_a_core(test: impl Future<Output = ()> + 'static) {
    ring::block_on(&CoreConfig::default(), test).unwrap();
}

fn buf(len: usize, byte: u8) -> Data {
    let mut buf = Buf::alloc(len).unwrap();
    buf.fill(byte);
    buf.into()
}

#[test]
fn passes_the_device_suite_on_disk_and_in_memory() {
    for (seed, block_bytes, write_through) in [(11, 512, false), (12, 4096, false), (13, 512, true)]
    {
        for scratch in [Scratch::on_disk(), Scratch::in_memory()] {
            let options = FileOptions { write_through, ..options(block_bytes, 2 * MIB) };
            let disk = FileDisk::open_file(&scratch.file(), &options);
            let disk = Arc::new(disk.unwrap());
            on_a_core(check_device(disk, seed));
        }
    }
}

#[test]
fn passes_the_read_only_suite_on_disk_and_in_memory() {
    for scratch in [Scratch::on_disk(), Scratch::in_memory()] {
        let written: Vec<u8> = (0..2 * MIB).map(|at| (at / 4096) as u8).collect();
        fs::write(scratch.file(), written).unwrap();
        for direct in [false, true] {
            let options = FileOptions { read_only: true, direct, ..options(512, 2 * MIB) };
            let disk = FileDisk::open_file(&scratch.file(), &options).unwrap();
            on_a_core(check_read_only(Arc::new(disk)));
        }
    }
}

/// A loop device over a file; none where the machine does not let us (root, not in a container).
struct Loop(String);

impl Loop {
    fn over(file: &Path) -> Option<Self> {
        let made = Self::tool(&["--find", "--show", file.to_str()?])?;
        made.status.success().then(|| Self(String::from_utf8(made.stdout).unwrap().trim().into()))
    }

    fn tool(arguments: &[&str]) -> Option<std::process::Output> {
        let path = std::env::join_paths(["/usr/sbin", "/sbin", "/usr/bin"]).unwrap();
        std::process::Command::new("losetup").env("PATH", path).args(arguments).output().ok()
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        Self::tool(&["--detach", &self.0]).unwrap();
    }
}

#[test]
fn passes_the_device_suite_on_a_block_device() {
    let scratch = Scratch::on_disk();
    fs::File::create(scratch.file()).unwrap().set_len(2 * MIB).unwrap();
    let Some(made) = Loop::over(&scratch.file()) else {
        return eprintln!("no loop device can be made here: not tested");
    };
    for write_through in [false, true] {
        let options = FileOptions { size_bytes: None, write_through, ..options(512, 0) };
        let disk = FileDisk::open_disk(Path::new(&made.0), &options).unwrap();
        assert_eq!(disk.geometry().size_bytes(), 2 * MIB);
        let second = FileDisk::open_disk(Path::new(&made.0), &options);
        assert!(matches!(second, Err(OpenError::InUse { .. })));
        on_a_core(check_device(Arc::new(disk), 14));
    }
}

/// Two servers lost the data of both that way: the file and the loop device over it have no lock in common.
#[test]
fn a_file_and_the_loop_device_over_it_are_not_served_at_the_same_time() {
    let scratch = Scratch::on_disk();
    fs::File::create(scratch.file()).unwrap().set_len(2 * MIB).unwrap();
    let Some(made) = Loop::over(&scratch.file()) else {
        return eprintln!("no loop device can be made here: not tested");
    };
    let (file, device) = (scratch.file(), Path::new(&made.0));
    let options = FileOptions { size_bytes: None, ..options(512, 0) };
    let is_in_use = |opened| matches!(opened, Err(OpenError::InUse { .. }));
    let first = FileDisk::open_file(&file, &options).unwrap();
    assert!(is_in_use(FileDisk::open_disk(device, &options)));
    drop(first);
    let first = FileDisk::open_disk(device, &options).unwrap();
    assert!(is_in_use(FileDisk::open_file(&file, &options)));
    drop(first);
    FileDisk::open_file(&file, &options).unwrap();
}

#[test]
fn a_write_through_device_needs_no_sync_and_takes_data_at_any_address() {
    let scratch = Scratch::on_disk();
    on_a_core(async move {
        let options = FileOptions { write_through: true, ..options(512, MIB) };
        let disk = FileDisk::open_file(&scratch.file(), &options).unwrap();
        if disk.0.direct.is_none() {
            return eprintln!("no O_DIRECT in the directory for temporary files: not tested");
        }
        let odd = buf(4096 + 3, 8).into_slice(3..4099);
        disk.write(512, odd, WriteFlags::DURABLE).await.unwrap();
        assert_eq!(disk.0.commit.syncs(), 0);
        let read = disk.read(0, 8192).await.unwrap();
        assert_eq!(read.as_slice().unwrap()[511..513], [0, 8]);
        assert_eq!(read.as_slice().unwrap()[4607..4609], [8, 0]);
        disk.unmap(0, 4096).await.unwrap();
        disk.flush().await.unwrap();
        assert_eq!(disk.0.commit.syncs(), 1, "what unmap changed still needs one");
    });
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(8))]
    #[test]
    fn any_history_agrees_with_the_model(
        seed: u64, small: bool, memory: bool, write_through: bool, direct: bool, odd in 0u64..8
    ) {
        let block_bytes = if small { 512 } else { 4096 };
        let scratch = if memory { Scratch::in_memory() } else { Scratch::on_disk() };
        let size_bytes = MIB + odd * u64::from(block_bytes);
        let options = FileOptions { write_through, direct, ..options(block_bytes, size_bytes) };
        let disk = FileDisk::open_file(&scratch.file(), &options);
        on_a_core(check_device(Arc::new(disk.unwrap()), seed));
    }
}

#[test]
fn only_files_in_memory_finish_within_the_call() {
    let (slow, fast) = (Scratch::on_disk(), Scratch::in_memory());
    on_a_core(async move {
        let disk = FileDisk::open_file(&fast.file(), &options(4096, MIB)).unwrap();
        assert_eq!(disk.write_now(0, &[7; 4096], WriteFlags::DURABLE), Some(Ok(())));
        let data = disk.read(0, 4096).into_ready().expect("a copy").unwrap();
        assert_eq!(data.as_slice().unwrap(), [7; 4096]);
        assert!(disk.flush().into_ready().is_ok());

        let disk = FileDisk::open_file(&slow.file(), &options(4096, MIB)).unwrap();
        assert_eq!(disk.write_now(0, &[7; 4096], WriteFlags::VOLATILE), None);
        disk.write(0, buf(4096, 7), WriteFlags::DURABLE).await.unwrap();
        let cached = disk.read(0, 4096).into_ready().expect("in the page cache").unwrap();
        assert_eq!(cached.as_slice().unwrap(), [7; 4096]);
    });
}

#[test]
fn contents_survive_a_reopening_and_an_unmap_frees_the_file() {
    let scratch = Scratch::on_disk();
    let path = scratch.file();
    let used_bytes = |path: &Path| fs::metadata(path).unwrap().blocks() * 512;
    {
        let path = path.clone();
        on_a_core(async move {
            let disk = FileDisk::open_file(&path, &options(512, 16 * MIB)).unwrap();
            assert_eq!(used_bytes(&path), 0, "created sparse");
            disk.write(MIB, buf(MIB as usize, 9), WriteFlags::DURABLE).await.unwrap();
        });
    }
    assert!(used_bytes(&path) >= MIB);
    on_a_core(async move {
        let reopen = FileOptions { size_bytes: None, ..options(512, 0) };
        let disk = FileDisk::open_file(&path, &reopen).unwrap();
        assert_eq!(disk.geometry().size_bytes(), 16 * MIB);
        let hole = Extent { len_bytes: MIB, state: ExtentState::Deallocated };
        assert_eq!(disk.extent(0).await.unwrap(), hole);
        let data = Extent { len_bytes: MIB, state: ExtentState::Mapped };
        assert_eq!(disk.extent(MIB).await.unwrap(), data);
        assert_eq!(disk.read(MIB, 512).await.unwrap().as_slice().unwrap(), [9; 512]);
        disk.unmap(MIB, MIB).await.unwrap();
        disk.flush().await.unwrap();
        assert_eq!(used_bytes(&path), 0, "punched out");
        assert_eq!(disk.read(MIB, 512).await.unwrap().as_slice().unwrap(), [0; 512]);
    });
}

#[test]
fn a_file_that_was_cut_behind_our_back_is_a_medium_error_with_its_place() {
    for scratch in [Scratch::on_disk(), Scratch::in_memory()] {
        on_a_core(async move {
            let disk = FileDisk::open_file(&scratch.file(), &options(512, MIB)).unwrap();
            fs::OpenOptions::new().write(true).open(scratch.file()).unwrap().set_len(5000).unwrap();
            let error = disk.read(4096, 4096).await.unwrap_err();
            assert_eq!(error, BlockError::Medium { at: 4608 });
        });
    }
}

/// A write beyond its end made it as long as it had been, and nothing told any more that its tail was lost.
#[test]
fn a_file_that_was_cut_behind_our_back_is_not_made_longer() {
    for scratch in [Scratch::on_disk(), Scratch::in_memory()] {
        on_a_core(async move {
            let (path, direct) =
                (scratch.file(), FileOptions { direct: true, ..options(4096, MIB) });
            let disk = FileDisk::open_file(&path, &direct).unwrap();
            let resize = |len| fs::OpenOptions::new().write(true).open(&path).unwrap().set_len(len);
            let len = || fs::metadata(&path).unwrap().len();
            resize(64 << 10).unwrap();
            assert!(disk.read(MIB - 4096, 4096).await.is_err(), "nothing is there");
            let at = MIB - 4096;
            let refused = Err(BlockError::Medium { at });
            assert_eq!(disk.write(at, buf(4096, 1), WriteFlags::DURABLE).await, refused);
            assert_eq!(disk.write_zeroes(at, 4096, false, WriteFlags::DURABLE).await, refused);
            assert_ne!(disk.write_now(at, &[1; 4096], WriteFlags::DURABLE), Some(Ok(())));
            assert_eq!(disk.write(0, buf(4096, 1), WriteFlags::DURABLE).await, Ok(()));
            assert_eq!(len(), 64 << 10);
            let size_bytes = |disk: &FileDisk| disk.reopened().unwrap().geometry().size_bytes();
            assert_eq!(size_bytes(&disk), 64 << 10, "it is a smaller device");
            resize(0).unwrap();
            assert_eq!(size_bytes(&disk), 4096, "of one block at least");
            resize(2 * MIB).unwrap();
            assert_eq!(size_bytes(&disk), MIB);
            assert_eq!(disk.write(at, buf(4096, 1), WriteFlags::DURABLE).await, Ok(()));
        });
    }
}

#[test]
fn an_aborted_write_still_happens_and_frees_its_stripes_only_then() {
    let scratch = Scratch::on_disk();
    on_a_core(async move {
        let disk = FileDisk::open_file(&scratch.file(), &options(4096, MIB)).unwrap();
        let write = disk.write(0, buf(4096, 5), WriteFlags::VOLATILE).into_ready().unwrap_err();
        drop(write);
        assert!(disk.0.locks.try_lock(0, 4096, Access::Exclusive).is_none(), "still writing");
        let read = disk.compare_and_write(0, buf(4096, 5), buf(4096, 6), WriteFlags::VOLATILE);
        assert_eq!(read.await, Ok(Compared::Equal), "waits for the write, then sees it");
    });
}

/// A disk that was given up was wiped and taken in anew while a write to it was still under way, which would have
/// come over what was written then.
#[test]
fn a_file_is_locked_until_writes_that_were_given_up_have_ended() {
    for direct in [false, true] {
        let scratch = Scratch::on_disk();
        on_a_core(async move {
            let options = FileOptions { direct, ..options(4096, MIB) };
            let open = || FileDisk::open_file(&scratch.file(), &options);
            let disk = open().unwrap();
            drop(disk.write(0, buf(4096, 5), WriteFlags::DURABLE).into_ready().unwrap_err());
            drop(disk);
            // The core looks for no answer of the kernel meanwhile.
            assert!(matches!(open(), Err(OpenError::InUse { .. })));
            ring::sleep(Duration::from_millis(100)).await;
            let disk = open().unwrap();
            assert_eq!(disk.read(0, 4096).await.unwrap().as_slice().unwrap(), [5; 4096]);
        });
    }
}

#[test]
fn many_durable_writes_share_few_syncs() {
    let scratch = Scratch::on_disk();
    on_a_core(async move {
        let disk = FileDisk::open_file(&scratch.file(), &options(4096, MIB)).unwrap();
        let left = Rc::new(Cell::new(64));
        for n in 0..64 {
            let (disk, left) = (disk.clone(), Rc::clone(&left));
            ring::spawn(async move {
                let data = buf(4096, n as u8);
                disk.write(n * 4096, data, WriteFlags::DURABLE).await.unwrap();
                left.set(left.get() - 1);
            });
        }
        while left.get() > 0 {
            ring::sleep(Duration::from_micros(100)).await;
        }
        let syncs = disk.0.commit.syncs();
        assert!((1..32).contains(&syncs), "{syncs} syncs for 64 writes");
    });
}

#[test]
fn a_failed_flush_is_reported_and_never_forgotten() {
    let scratch = Scratch::on_disk();
    on_a_core(async move {
        let disk = FileDisk::open_file(&scratch.file(), &options(4096, MIB)).unwrap();
        disk.write(0, buf(4096, 1), WriteFlags::VOLATILE).await.unwrap();
        disk.0.sync_errno.store(libc::EIO, Ordering::Relaxed);
        let first = disk.write(4096, buf(4096, 1), WriteFlags::DURABLE);
        let second = disk.write(8192, buf(4096, 1), WriteFlags::DURABLE);
        // Who is in the page cache first is synced; the other joins that sync, or comes too late.
        let told = [(first.await, 4096), (second.await, 8192)];
        let is_medium = |(result, at): &(_, u64)| *result == Err(BlockError::Medium { at: *at });
        assert!(told.iter().any(is_medium), "{told:?}");
        assert!(told.iter().all(|(result, _)| result.is_err()), "{told:?}");
        // The next fdatasync would succeed: the kernel has forgotten. The device has not.
        disk.0.sync_errno.store(0, Ordering::Relaxed);
        assert_eq!(disk.flush().await, Err(BlockError::LostWrites));
        let lost = Err(BlockError::LostWrites);
        assert_eq!(disk.write(0, buf(4096, 2), WriteFlags::DURABLE).await, lost);
        assert_eq!(disk.write_zeroes(0, 4096, true, WriteFlags::DURABLE).await, lost);
        let swap = disk.compare_and_write(0, buf(4096, 1), buf(4096, 2), WriteFlags::DURABLE);
        assert_eq!(swap.await, Err(BlockError::LostWrites));
        assert_eq!(disk.write(0, buf(4096, 3), WriteFlags::VOLATILE).await, Ok(()));
        assert_eq!(disk.read(0, 4096).await.unwrap().as_slice().unwrap(), [3; 4096]);
        // Who has what is on it elsewhere begins anew, and the one that failed goes on failing.
        let anew = disk.reopened().expect("a file can be opened anew");
        assert_eq!(anew.write(0, buf(4096, 4), WriteFlags::DURABLE).await, Ok(()));
        assert_eq!(anew.flush().await, Ok(()));
        assert_eq!(disk.flush().await, Err(BlockError::LostWrites));
        drop((disk, anew));
        let again = FileDisk::open_file(&scratch.file(), &options(4096, MIB)).unwrap();
        assert_eq!(again.write(0, buf(4096, 2), WriteFlags::DURABLE).await, Ok(()));
    });
}

/// As that of a process which is just being started, and has had the files of the one that started it.
#[test]
fn a_lock_that_is_given_back_in_a_moment_is_waited_for() {
    let scratch = Scratch::on_disk();
    drop(FileDisk::open_file(&scratch.file(), &options(4096, MIB)).unwrap());
    let held = fs::File::open(scratch.file()).unwrap();
    held.lock().unwrap();
    let holder = std::thread::spawn(move || {
        std::thread::sleep(std::time::Duration::from_millis(12));
        drop(held);
    });
    let opened = FileDisk::open_file(&scratch.file(), &options(4096, MIB));
    holder.join().unwrap();
    assert!(opened.is_ok(), "{opened:?}");
}

#[test]
fn a_flush_that_finds_no_space_says_so() {
    let scratch = Scratch::on_disk();
    on_a_core(async move {
        let disk = FileDisk::open_file(&scratch.file(), &options(4096, MIB)).unwrap();
        disk.0.sync_errno.store(libc::ENOSPC, Ordering::Relaxed);
        let write = disk.write(0, buf(4096, 1), WriteFlags::DURABLE);
        assert_eq!(write.await, Err(BlockError::NoSpace));
        assert_eq!(disk.flush().await, Err(BlockError::LostWrites));
    });
}

mod opening {
    use super::*;

    fn message(result: Result<FileDisk, OpenError>) -> String {
        result.unwrap_err().to_string()
    }

    #[test]
    fn a_missing_file_needs_a_size() {
        let scratch = Scratch::in_memory();
        let path = scratch.file();
        let unsized_ = FileOptions { size_bytes: None, ..options(512, 0) };
        let text = message(FileDisk::open_file(&path, &unsized_));
        assert!(text.contains("to create it, add a size"), "{text}");
        let read_only = FileOptions { read_only: true, ..options(512, MIB) };
        assert!(matches!(FileDisk::open_file(&path, &read_only), Err(OpenError::Missing { .. })));
        assert!(!path.exists());
    }

    #[test]
    fn an_existing_file_is_neither_cut_nor_grown() {
        let scratch = Scratch::in_memory();
        let path = scratch.file();
        drop(FileDisk::open_file(&path, &options(512, MIB)).unwrap());
        let text = message(FileDisk::open_file(&path, &options(512, 2 * MIB)));
        assert!(text.contains("truncate -s 2097152"), "{text}");
        let text = message(FileDisk::open_file(&path, &options(512, 4096)));
        assert!(text.contains("leave out the size"), "{text}");
        assert_eq!(fs::metadata(&path).unwrap().len(), MIB);
        assert!(FileDisk::open_file(&path, &options(512, MIB)).is_ok());
    }

    #[test]
    fn sizes_are_whole_blocks_and_a_refused_file_is_not_left_behind() {
        let scratch = Scratch::in_memory();
        for size_bytes in [0, 4096 + 512] {
            let text = message(FileDisk::open_file(&scratch.file(), &options(4096, size_bytes)));
            assert!(text.contains("not one or more blocks of 4096"), "{text}");
            assert!(!scratch.file().exists());
        }
    }

    #[test]
    fn one_server_writes_or_several_read() {
        let scratch = Scratch::in_memory();
        let path = scratch.file();
        let read_only = FileOptions { read_only: true, size_bytes: None, ..options(512, 0) };
        let writer = FileDisk::open_file(&path, &options(512, MIB)).unwrap();
        for second in [options(512, MIB), read_only] {
            assert!(matches!(FileDisk::open_file(&path, &second), Err(OpenError::InUse { .. })));
        }
        drop(writer);
        let readers = [(); 2].map(|()| FileDisk::open_file(&path, &read_only).unwrap());
        assert!(readers[0].geometry().read_only);
        let write = readers[0].write_now(0, &[0; 512], WriteFlags::VOLATILE);
        assert_eq!(write, Some(Err(BlockError::ReadOnly)));
        let refused = FileDisk::open_file(&path, &options(512, MIB));
        assert!(matches!(refused, Err(OpenError::InUse { .. })));
    }

    #[test]
    fn files_and_devices_are_told_apart() {
        let text = message(FileDisk::open_file(Path::new("/dev/shm"), &options(512, MIB)));
        assert!(text.contains("no regular file"), "{text}");
        let scratch = Scratch::in_memory();
        fs::write(scratch.file(), [0; 4096]).unwrap();
        let text = message(FileDisk::open_disk(&scratch.file(), &options(512, MIB)));
        assert!(text.contains("for a regular file write file:"), "{text}");
        let missing = FileDisk::open_disk(&scratch.0.join("none"), &options(512, MIB));
        assert!(message(missing).contains("cannot find"));
    }

    #[test]
    fn a_new_image_is_private_to_its_owner() {
        let scratch = Scratch::in_memory();
        drop(FileDisk::open_file(&scratch.file(), &options(512, MIB)).unwrap());
        assert_eq!(fs::metadata(scratch.file()).unwrap().mode() & 0o077, 0);
    }
}

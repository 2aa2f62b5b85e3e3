//! Devices past the page cache for both directions: what the members of an array are.

use std::path::Path;
use std::process::Command;

use super::*;

fn direct(size_bytes: u64) -> FileOptions {
    FileOptions { direct: true, ..options(4096, size_bytes) }
}

/// A direct device on the disk, unless its file system has no such thing.
fn open(scratch: &Scratch, size_bytes: u64) -> Option<FileDisk> {
    let disk = FileDisk::open_file(&scratch.file(), &direct(size_bytes)).unwrap();
    if disk.0.direct.is_none() {
        eprintln!("no O_DIRECT in the directory for temporary files: not tested");
        return None;
    }
    assert!(disk.0.direct_reads && !disk.0.write_through);
    Some(disk)
}

#[test]
fn passes_the_device_suite_on_disk_and_in_memory() {
    for (seed, write_through) in [(21, false), (22, true)] {
        for scratch in [Scratch::on_disk(), Scratch::in_memory()] {
            let options = FileOptions { write_through, ..direct(2 * MIB) };
            let disk = FileDisk::open_file(&scratch.file(), &options).unwrap();
            on_a_core(check_device(Arc::new(disk), seed));
        }
    }
}

#[test]
fn passes_the_device_suite_on_a_block_device() {
    let scratch = Scratch::on_disk();
    fs::File::create(scratch.file()).unwrap().set_len(2 * MIB).unwrap();
    let Some(made) = Loop::over(&scratch.file()) else {
        return eprintln!("no loop device can be made here: not tested");
    };
    let options = FileOptions { size_bytes: None, ..direct(0) };
    let disk = FileDisk::open_disk(Path::new(&made.0), &options).unwrap();
    assert!(disk.0.direct_reads);
    on_a_core(check_device(Arc::new(disk), 23));
}

#[test]
fn a_disk_that_loses_its_blocks_is_a_medium_error() {
    let scratch = Scratch::on_disk();
    fs::File::create(scratch.file()).unwrap().set_len(2 * MIB).unwrap();
    let Some(made) = Loop::over(&scratch.file()) else {
        return eprintln!("no loop device can be made here: not tested");
    };
    on_a_core(async move {
        let options = FileOptions { size_bytes: None, ..direct(0) };
        let disk = FileDisk::open_disk(Path::new(&made.0), &options).unwrap();
        fs::OpenOptions::new().write(true).open(scratch.file()).unwrap().set_len(MIB).unwrap();
        assert_eq!(disk.read(0, 4096).await.unwrap().len(), 4096);
        let beyond = disk.read(MIB + 8192, 4096).await;
        assert_eq!(beyond.unwrap_err(), BlockError::Medium { at: MIB + 8192 });
    });
}

#[test]
fn memory_of_a_region_is_written_where_it_lies() {
    let scratch = Scratch::on_disk();
    on_a_core(async move {
        let Some(disk) = open(&scratch, MIB) else { return };
        let region = ring::Region::new(16 << 10).unwrap();
        region.write(4096, &[3; 8192]);
        let lent = region.slice(4096, 8192);
        let used_bytes = ring::pool_usage().used_bytes;
        assert!(disk.0.writable(lent.clone()).unwrap().as_slice().is_none(), "no copy was made");
        let write = disk.write(4096, lent, WriteFlags::DURABLE);
        assert_eq!(ring::pool_usage().used_bytes, used_bytes);
        write.await.unwrap();
        // From an address that direct I/O cannot take a copy is written instead.
        disk.write(16 << 10, region.slice(4097, 4096), WriteFlags::VOLATILE).await.unwrap();
        let read = disk.read(0, 20 << 10).await.unwrap();
        let read = read.as_slice().unwrap();
        assert!(read[..4096].iter().chain(&read[12 << 10..16 << 10]).all(|byte| *byte == 0));
        assert!(read[4096..12 << 10].iter().chain(&read[16 << 10..]).all(|byte| *byte == 3));
    });
}

#[test]
fn durable_writes_need_no_sync_and_a_flush_is_one() {
    let scratch = Scratch::on_disk();
    on_a_core(async move {
        let Some(disk) = open(&scratch, MIB) else { return };
        disk.write(0, buf(4096, 1), WriteFlags::DURABLE).await.unwrap();
        disk.write(8192, buf(4096, 2), WriteFlags::VOLATILE).await.unwrap();
        assert_eq!(disk.0.commit.syncs(), 0);
        disk.flush().await.unwrap();
        assert_eq!(disk.0.commit.syncs(), 1);
        disk.write_zeroes(0, 4096, false, WriteFlags::DURABLE).await.unwrap();
        assert_eq!(disk.0.commit.syncs(), 2, "zeroes are written volatile, then synced once");
    });
}

/// Pages of a file that the kernel holds in memory. A read that must not wait is no way to ask: the
/// kernel begins to read ahead then.
fn cached_pages(path: &Path) -> u64 {
    let mut fincore = Command::new("fincore");
    let said = fincore
        .args(["--noheadings", "--output", "PAGES"])
        .arg(path)
        .output()
        .expect("fincore is part of util-linux");
    String::from_utf8_lossy(&said.stdout).trim().parse().expect("a number of pages")
}

#[test]
fn nothing_stays_in_the_page_cache() {
    let scratch = Scratch::on_disk();
    let path = scratch.file();
    on_a_core(async move {
        let Some(disk) = open(&scratch, MIB) else { return };
        for at in (0..MIB).step_by(64 << 10) {
            disk.write(at, buf(64 << 10, 7), WriteFlags::VOLATILE).await.unwrap();
            let back = disk.read(at, 64 << 10);
            let waits = back.into_ready().expect_err("a direct read waits for the disk");
            assert_eq!(waits.await.unwrap().as_slice().unwrap(), [7; 64 << 10]);
        }
        assert_eq!(cached_pages(&path), 0, "pages in the page cache");
        disk.unmap(0, MIB).await.unwrap();
        assert_eq!(fs::metadata(&path).unwrap().blocks(), 0, "punched out");
        assert_eq!(disk.read(4096, 4096).await.unwrap().as_slice().unwrap(), [0; 4096]);
    });
}

#[test]
fn a_failed_flush_fails_what_is_to_be_durable_from_then_on() {
    let scratch = Scratch::on_disk();
    on_a_core(async move {
        let Some(disk) = open(&scratch, MIB) else { return };
        disk.write(0, buf(4096, 1), WriteFlags::VOLATILE).await.unwrap();
        disk.0.sync_errno.store(libc::EIO, Ordering::Relaxed);
        assert_eq!(disk.flush().await, Err(BlockError::Medium { at: 0 }));
        disk.0.sync_errno.store(0, Ordering::Relaxed);
        assert_eq!(disk.flush().await, Err(BlockError::LostWrites));
        let lost = disk.write(0, buf(4096, 2), WriteFlags::DURABLE).await;
        assert_eq!(lost, Err(BlockError::LostWrites));
        assert_eq!(disk.write(0, buf(4096, 3), WriteFlags::VOLATILE).await, Ok(()));
        assert_eq!(disk.read(0, 4096).await.unwrap().as_slice().unwrap(), [3; 4096]);
    });
}

#[test]
fn a_file_that_was_cut_inside_a_block_is_a_medium_error_with_its_place() {
    let scratch = Scratch::on_disk();
    on_a_core(async move {
        let Some(disk) = open(&scratch, MIB) else { return };
        fs::OpenOptions::new().write(true).open(scratch.file()).unwrap().set_len(9000).unwrap();
        let error = disk.read(0, 64 << 10).await.unwrap_err();
        assert_eq!(error, BlockError::Medium { at: 8192 });
    });
}

#[test]
fn readers_that_may_not_write_read_past_the_cache_too() {
    let scratch = Scratch::on_disk();
    on_a_core(async move {
        let Some(disk) = open(&scratch, MIB) else { return };
        disk.write(4096, buf(4096, 9), WriteFlags::DURABLE).await.unwrap();
        drop(disk);
        let options = FileOptions { read_only: true, size_bytes: None, ..direct(0) };
        let disk = FileDisk::open_file(&scratch.file(), &options).unwrap();
        assert!(disk.0.direct_reads);
        assert_eq!(disk.read(4096, 4096).await.unwrap().as_slice().unwrap(), [9; 4096]);
        let write = disk.write(0, buf(4096, 1), WriteFlags::VOLATILE).await;
        assert_eq!(write, Err(BlockError::ReadOnly));
        assert_eq!(disk.flush().await, Ok(()));
    });
}

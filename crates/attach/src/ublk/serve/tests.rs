//! A plain file stands in for the queue's device: descriptors and data lie where the kernel has them,
//! but nobody sends requests.

use super::*;
use block::testing::{Fault, FaultyDisk, Operation, Rule};
use block::{BlockDevice, RamDisk};
use ring::{CoreConfig, Remote, block_on};
use std::fs::OpenOptions;
use std::os::unix::fs::FileExt;
use std::sync::mpsc;
use tempfile::NamedTempFile;

const DEPTH: u16 = 4;
const MIB: u64 = 1 << 20;

/// Where the data of tag 1 is.
const DATA_AT: u64 = 0x8000_0000 + (1 << 25);

fn run<T: 'static>(main: impl Future<Output = T> + 'static) -> T {
    block_on(&CoreConfig::default(), main).unwrap()
}

/// A service of which tag 1 is tried, and the file that is its kernel.
fn service(device: Arc<dyn BlockDevice>) -> (Service, NamedTempFile) {
    let file = NamedTempFile::new().unwrap();
    file.as_file().set_len(DATA_AT + 4 * MIB).unwrap();
    let queue = Arc::new(UblkQueue::open(file.path(), DEPTH).unwrap());
    let disk = Arc::new(Disk::new(device));
    let user = disk.user();
    let service = Service { queue, disk, user, progress: Arc::default(), on_end: None };
    (service, file)
}

fn ram() -> Arc<dyn BlockDevice> {
    Arc::new(RamDisk::new(512, 4 * MIB / 512).unwrap())
}

/// Has the kernel ask for something: `op`, with its flags, of whole sectors.
fn ask(kernel: &NamedTempFile, op: u32, at: u64, len: u64) {
    let mut descriptor = [0; 24];
    descriptor[0..4].copy_from_slice(&op.to_ne_bytes());
    descriptor[4..8].copy_from_slice(&((len / 512) as u32).to_ne_bytes());
    descriptor[8..16].copy_from_slice(&(at / 512).to_ne_bytes());
    let file = OpenOptions::new().write(true).open(kernel.path()).unwrap();
    file.write_all_at(&descriptor, 24).unwrap();
}

#[test]
fn what_is_written_is_read_over_pieces() {
    let (service, kernel) = service(ram());
    let (at, len) = (MIB - 1024, 64 << 10);
    let bytes: Vec<u8> = (0..len).map(|i| (i * 7 + i / 251) as u8).collect();
    kernel.as_file().write_all_at(&bytes, DATA_AT).unwrap();
    run(async move {
        ask(&kernel, 1 | 1 << 13, at, len);
        assert_eq!(service.answer(1).await, len as i32);
        kernel.as_file().write_all_at(&vec![0; len as usize], DATA_AT).unwrap();
        ask(&kernel, 0, at, len);
        assert_eq!(service.answer(1).await, len as i32);
        let mut back = vec![0; len as usize];
        kernel.as_file().read_exact_at(&mut back, DATA_AT).unwrap();
        assert_eq!(back, bytes);
        // Zeroes, trim and flush carry no bytes.
        for (op, at, len) in [(5 | 1 << 15, at, len), (5, 0, MIB), (3, 0, MIB), (2, 0, 0)] {
            ask(&kernel, op, at, len);
            assert_eq!(service.answer(1).await, 0, "{op}");
        }
        ask(&kernel, 0, at, 512);
        assert_eq!(service.answer(1).await, 512);
        kernel.as_file().read_exact_at(&mut back[..512], DATA_AT).unwrap();
        assert_eq!(back[..512], [0; 512]);
        let counts = service.disk.stats().counts();
        assert_eq!((counts.reads, counts.writes, counts.others), (2, 3, 2));
        assert_eq!((counts.read_bytes, counts.written_bytes), (len + 512, len));
    });
}

#[test]
fn errors_of_the_disk_are_numbers_for_the_kernel() {
    let faulty = FaultyDisk::new(ram());
    faulty.inject(Rule::always(Operation::Write, Fault::Fail(BlockError::NoSpace)));
    let (service, kernel) = service(Arc::new(faulty));
    run(async move {
        for (op, at, wanted) in [
            (1, 0, -libc::ENOSPC),
            (0, 4 * MIB, -libc::EINVAL),
            (18, 0, -libc::EOPNOTSUPP),
            (0, 0, 512),
        ] {
            ask(&kernel, op, at, 512);
            assert_eq!(service.answer(1).await, wanted, "{op} at {at}");
        }
        assert_eq!(service.disk.stats().counts().failed, 3);
    });
}

#[test]
fn a_device_that_takes_no_requests_is_over_and_says_so() {
    let (mut service, _kernel) = service(ram());
    let (progress, (sender, receiver)) = (service.progress.clone(), mpsc::channel());
    service.on_end = Some(Box::new(move || sender.send(()).unwrap()));
    assert!(!progress.is_broken() && !progress.is_over());
    let seen = progress.clone();
    run(async move {
        service.start();
        while !seen.is_over() {
            ring::sleep(std::time::Duration::from_millis(1)).await;
        }
    });
    assert!(progress.is_broken());
    receiver.try_recv().unwrap();
}

#[test]
fn a_core_that_has_ended_is_the_end_of_the_device() {
    let core: Remote = run(async { ring::remote(ring::core_id()) });
    let (service, _kernel) = service(ram());
    let progress = service.progress.clone();
    core.run(move || service.start());
    assert!(progress.is_over());
}

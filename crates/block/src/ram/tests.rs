use super::*;

use std::time::Duration;

use proptest::prelude::*;
use ring::CoreConfig;

use crate::testing::{check_device, check_read_only};

const MIB: u64 = 1 << 20;

fn on_a_core(test: impl Future<Output = ()> + 'static) {
    ring::block_on(&CoreConfig::default(), test).unwrap();
}

fn done<T>(future: IoFuture<T>) -> Result<T, BlockError> {
    future.into_ready().expect("uncontended operations end within the call")
}

fn states(disk: &RamDisk) -> Vec<(u64, ExtentState)> {
    let mut all = Vec::new();
    let mut at = 0;
    while at < disk.geometry().size_bytes() {
        let extent = done(disk.extent(at)).unwrap();
        all.push((extent.len_bytes, extent.state));
        at += extent.len_bytes;
    }
    all
}

#[test]
fn passes_the_device_suite() {
    for (seed, block_bytes) in [(1, 512), (2, 4096)] {
        on_a_core(async move {
            let disk = RamDisk::new(block_bytes, 2 * MIB / u64::from(block_bytes)).unwrap();
            check_device(Arc::new(disk), seed).await;
        });
    }
}

#[test]
fn passes_the_read_only_suite() {
    on_a_core(check_read_only(Arc::new(RamDisk::new_read_only(512, 4096).unwrap())));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(8))]
    #[test]
    fn any_history_agrees_with_the_model(seed: u64, small: bool, odd in 0u64..8) {
        let block_bytes = if small { 512 } else { 4096 };
        on_a_core(async move {
            // An odd end: with small blocks the device ends inside of a page.
            let blocks = MIB / u64::from(block_bytes) + odd;
            let disk = RamDisk::new(block_bytes, blocks).unwrap();
            check_device(Arc::new(disk), seed).await;
        });
    }
}

#[test]
fn reads_lend_memory_until_an_atomic_operation_comes_by() {
    let disk = RamDisk::new(4096, 1024).unwrap();
    let lent = done(disk.read(0, 8192)).unwrap();
    assert!(lent.as_slice().is_none(), "region memory");
    let atomic = WriteFlags { atomic: true, durable: false };
    assert_eq!(disk.write_now(4096, &[1; 4096], atomic), Some(Ok(())));
    let copied = done(disk.read(0, 8192)).unwrap();
    assert_eq!(copied.as_slice().unwrap()[4095..4097], [0, 1]);
    let elsewhere = done(disk.read(1 << 20, 4096)).unwrap();
    assert!(elsewhere.as_slice().is_none(), "other stripes still lend");
}

#[test]
fn a_fresh_disk_holds_nothing_and_tells_the_truth_about_writes() {
    let disk = RamDisk::new(512, 64).unwrap();
    assert_eq!(states(&disk), [(32768, ExtentState::Deallocated)]);
    disk.write_now(4608, &[1; 512], WriteFlags::VOLATILE).unwrap().unwrap();
    let page_two = [
        (4096, ExtentState::Deallocated),
        (4096, ExtentState::Mapped),
        (24576, ExtentState::Deallocated),
    ];
    assert_eq!(states(&disk), page_two);
    // Half a page cannot be given back: it is zeroed and stays.
    done(disk.unmap(4096, 2048)).unwrap();
    assert_eq!(states(&disk), page_two);
    done(disk.unmap(4096, 4096)).unwrap();
    assert_eq!(states(&disk), [(32768, ExtentState::Deallocated)]);
}

#[test]
fn unmap_and_zeroes_of_a_sparse_terabyte_take_no_time() {
    on_a_core(async {
        let blocks = (1u64 << 40) / 4096;
        let disk = RamDisk::new(4096, blocks).unwrap();
        for at in [0, 1 << 30, (1 << 40) - 4096] {
            disk.write_now(at, &[1; 4096], WriteFlags::VOLATILE).unwrap().unwrap();
        }
        assert_eq!(states(&disk).iter().filter(|(_, s)| *s == ExtentState::Mapped).count(), 3);
        disk.unmap(0, 1 << 40).await.unwrap();
        assert!(states(&disk).iter().all(|(_, state)| *state == ExtentState::Deallocated));
    });
}

#[test]
fn a_long_unmap_goes_on_when_its_future_is_dropped() {
    on_a_core(async {
        let disk = RamDisk::new(4096, 64 * MIB / 4096).unwrap();
        for at in (0..64 * MIB).step_by(8 << 20) {
            disk.write_now(at, &[1; 4096], WriteFlags::VOLATILE).unwrap().unwrap();
        }
        drop(disk.unmap(0, 64 * MIB).into_ready().unwrap_err());
        ring::sleep(Duration::from_millis(1)).await;
        assert_eq!(states(&disk), [(64 * MIB, ExtentState::Deallocated)]);
    });
}

#[test]
fn a_read_only_disk_refuses_every_change() {
    let disk = RamDisk::new_read_only(512, 8).unwrap();
    let data = || Data::from(&[0; 512][..]);
    let flags = WriteFlags::VOLATILE;
    assert_eq!(disk.write_now(0, &[0; 512], flags), Some(Err(BlockError::ReadOnly)));
    assert_eq!(done(disk.write(0, data(), flags)), Err(BlockError::ReadOnly));
    assert_eq!(done(disk.unmap(0, 512)), Err(BlockError::ReadOnly));
    assert_eq!(done(disk.write_zeroes(0, 512, false, flags)), Err(BlockError::ReadOnly));
    assert_eq!(done(disk.or_write(0, data(), flags)), Err(BlockError::ReadOnly));
    let swap = disk.compare_and_write(0, data(), data(), flags);
    assert_eq!(done(swap), Err(BlockError::ReadOnly));
    assert!(done(disk.read(0, 512)).is_ok());
}

#[test]
fn contended_operations_wait_for_the_stripe() {
    on_a_core(async {
        let disk = RamDisk::new(512, 64).unwrap();
        let held = disk.0.locks.try_lock_owned(0, 512, Access::Exclusive).unwrap();
        assert_eq!(disk.write_now(0, &[1; 512], WriteFlags::VOLATILE), None);
        let write = disk.write(0, Data::from(&[1; 512][..]), WriteFlags::VOLATILE);
        let read = disk.read(0, 512);
        let (write, read) = (write.into_ready().unwrap_err(), read.into_ready().unwrap_err());
        drop(held);
        write.await.unwrap();
        assert_eq!(read.await.unwrap().as_slice().unwrap(), [1; 512]);
    });
}

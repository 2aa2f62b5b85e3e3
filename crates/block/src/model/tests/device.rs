//! The device: real time, and the data.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use ring::{Buf, CoreConfig, Data};

use crate::testing::{
    Fault, FaultyDisk, Operation, Rule, check_device, check_faults, check_read_only,
};
use crate::{BlockDevice, BlockError, DriveClass, ModelDisk, RamDisk, WriteFlags};

const MIB: u64 = 1 << 20;

fn on_a_core(test: impl Future<Output = ()> + 'static) {
    ring::block_on(&CoreConfig::default(), test).unwrap();
}

fn disk(class: DriveClass, size_bytes: u64) -> ModelDisk {
    ModelDisk::new(class, Arc::new(RamDisk::new(4096, size_bytes / 4096).unwrap()))
}

fn buf(byte: u8) -> Data {
    let mut buf = Buf::alloc(4096).unwrap();
    buf.fill(byte);
    buf.into()
}

#[test]
fn passes_the_device_suite() {
    for class in [DriveClass::SataSsd, DriveClass::Nvme] {
        for block_bytes in [512, 4096] {
            let below = RamDisk::new(block_bytes, MIB / u64::from(block_bytes)).unwrap();
            let disk = ModelDisk::new(class, Arc::new(below));
            on_a_core(check_device(Arc::new(disk), 31));
        }
    }
}

#[test]
fn passes_on_the_faults_of_the_device_below() {
    let below = Arc::new(FaultyDisk::new(Arc::new(RamDisk::new(512, 4096).unwrap())));
    let disk = ModelDisk::new(DriveClass::Nvme, below.clone());
    on_a_core(check_faults(below.clone(), Arc::new(disk), 32));
    // A device below that is never well again after a failed flush, until it is opened anew.
    below.remember_failures();
    let disk = ModelDisk::new(DriveClass::Nvme, below.clone());
    on_a_core(check_faults(below, Arc::new(disk), 33));
}

#[test]
fn passes_the_read_only_suite() {
    let below = RamDisk::new_read_only(512, 4096).unwrap();
    on_a_core(check_read_only(Arc::new(ModelDisk::new(DriveClass::Nvme, Arc::new(below)))));
}

#[test]
fn a_spinning_disk_keeps_its_data_too() {
    // The suite would take minutes at such a pace.
    on_a_core(async {
        let disk = disk(DriveClass::Sas15k, 64 * MIB);
        for n in 0..8u8 {
            let at = u64::from(n * 5 % 8) * 8 * MIB;
            disk.write(at, buf(n + 1), WriteFlags { durable: n % 2 == 0, atomic: false })
                .await
                .unwrap();
        }
        disk.flush().await.unwrap();
        for n in 0..8u8 {
            let at = u64::from(n * 5 % 8) * 8 * MIB;
            let read = disk.read(at, 4096).await.unwrap().to_buf().unwrap();
            assert!(read.iter().all(|byte| *byte == n + 1));
        }
        disk.unmap(0, 64 * MIB).await.unwrap();
        let read = disk.read(0, 4096).await.unwrap().to_buf().unwrap();
        assert!(read.iter().all(|byte| *byte == 0));
    });
}

#[test]
fn geometry_tells_what_kind_of_drive_it_is() {
    assert!(disk(DriveClass::NlSas, MIB).geometry().rotational);
    let flash = disk(DriveClass::Nvme, MIB).geometry();
    assert!(!flash.rotational && flash.thin);
    assert_eq!(flash.size_bytes(), MIB);
}

/// Runs `ops` random reads at `depth` and tells how long they took.
async fn random_reads(disk: &ModelDisk, ops: u64, depth: u64) -> Duration {
    let blocks = disk.geometry().size_bytes() / 4096;
    let (next, left) = (Rc::new(Cell::new(0)), Rc::new(Cell::new(depth)));
    let begun = Instant::now();
    for _ in 0..depth {
        let (disk, next, left) = (disk.clone(), Rc::clone(&next), Rc::clone(&left));
        ring::spawn(async move {
            while next.get() < ops {
                next.set(next.get() + 1);
                let block = next.get() * 2_654_435_761 % blocks;
                disk.read(block * 4096, 4096).await.unwrap();
            }
            left.set(left.get() - 1);
        });
    }
    while left.get() > 0 {
        ring::sleep(Duration::from_micros(200)).await;
    }
    begun.elapsed()
}

#[test]
fn real_time_is_not_faster_than_the_model() {
    on_a_core(async {
        let spinning = disk(DriveClass::Sas15k, 1 << 40);
        // 5.3 ms each on average; the places here are a few.
        assert!(random_reads(&spinning, 20, 1).await > Duration::from_millis(60));
        // 458 a second.
        assert!(random_reads(&spinning, 64, 32).await > Duration::from_millis(90));
        let flash = disk(DriveClass::SataSsd, 1 << 34);
        assert!(random_reads(&flash, 50, 1).await >= Duration::from_micros(50 * 109));
        // 75,000 a second.
        assert!(random_reads(&flash, 3000, 32).await > Duration::from_millis(35));
    });
}

#[test]
fn commands_overlap_and_a_lone_one_is_not_late() {
    on_a_core(async {
        let disk = disk(DriveClass::Nvme, 1 << 34);
        // One after the other 400 reads take 34 ms at least; the model needs 2 ms for them. The
        // best of some tries, since this machine has other things to do.
        let mut best = Duration::MAX;
        for _ in 0..10 {
            best = best.min(random_reads(&disk, 400, 128).await);
        }
        assert!(best < Duration::from_millis(30), "{best:?}");
    });
}

#[test]
fn a_read_that_nobody_waits_for_holds_nobody_up() {
    on_a_core(async {
        let disk = disk(DriveClass::Sas15k, 1 << 40);
        for n in 0..50 {
            drop(disk.read(n << 33, 4096));
        }
        let begun = Instant::now();
        disk.read(0, 4096).await.unwrap();
        assert!(
            begun.elapsed() > Duration::from_millis(4),
            "the heads are on their way all the same"
        );
        assert!(disk.clock.state().waiting.is_empty());
        // The timekeeper ends with the last one that waits.
        ring::turn_end().await;
        assert!(matches!(disk.clock.state().keeper, super::super::disk::Keeper::None));
    });
}

#[test]
fn errors_of_the_device_below_come_at_once() {
    on_a_core(async {
        let faulty = FaultyDisk::new(Arc::new(RamDisk::new(4096, 1 << 30).unwrap()));
        faulty.inject(Rule::always(Operation::Read, Fault::Fail(BlockError::Busy)).times(1));
        let disk = ModelDisk::new(DriveClass::NlSas, Arc::new(faulty));
        assert_eq!(disk.read(1 << 40, 4096).await.unwrap_err(), BlockError::Busy);
        disk.read(1 << 40, 4096).await.unwrap();
        let outside = disk.read(1 << 42, 4096).into_ready().expect("no need to ask the drive");
        assert!(matches!(outside, Err(BlockError::OutOfRange { .. })));
        assert!(disk.write(0, Data::default(), WriteFlags::DURABLE).into_ready().is_ok());
    });
}

#[test]
fn two_cores_share_one_drive() {
    let disk = disk(DriveClass::SataSsd, 1 << 34);
    let begun = Instant::now();
    ring::launch(2, &CoreConfig::default(), move |_| {
        let disk = disk.clone();
        async move {
            random_reads(&disk, 1500, 16).await;
        }
    })
    .unwrap()
    .join()
    .unwrap();
    assert!(begun.elapsed() > Duration::from_millis(35), "75,000 a second, not twice that");
}

#[test]
fn the_time_goes_on_when_the_core_that_kept_it_ends() {
    let disk = disk(DriveClass::Sas15k, 1 << 40);
    for _ in 0..3 {
        let disk = disk.clone();
        on_a_core(async move {
            // Left behind with the core, and the timekeeper with it.
            let read = disk.read(1 << 39, 4096).into_ready().unwrap_err();
            ring::spawn(async move { drop(read.await) });
            ring::turn_end().await;
        });
    }
    on_a_core(async move {
        disk.read(0, 4096).await.unwrap();
    });
}

//! Disks against our own target: every way to move data, every operation.

#![allow(clippy::unwrap_used, reason = "helpers of tests fail like tests")]

mod common;

use std::sync::Arc;

use block::testing::{FaultyDisk, check_device, check_faults, check_null_device, check_read_only};
use block::{BlockDevice, BlockError, NullDisk, RamDisk, WriteFlags};
use common::{address, bytes, config, data, disk_options, on_core, ram, serve};
use initiator::{Disk, DiskOptions};
use iscsi::params::DigestPolicy;

/// The whole suite over the network, with these options.
fn check(disk: Arc<dyn BlockDevice>, seed: u64, options: DiskOptions) {
    let server = serve(config(disk));
    on_core(async move {
        let disk = Disk::attach(&[address(server.portals()[0])], options).await.unwrap();
        let disk: Arc<dyn BlockDevice> = Arc::new(disk);
        check_device(disk, seed).await;
    });
}

#[test]
fn conforms() {
    check(ram(2), 1, disk_options());
}

#[test]
fn conforms_with_blocks_of_4096_bytes() {
    check(Arc::new(RamDisk::new(4096, 1024).unwrap()), 2, disk_options());
}

#[test]
fn conforms_over_a_disk_that_keeps_nothing() {
    let server = serve(config(Arc::new(NullDisk::new(512, 4096))));
    on_core(async move {
        let disk = Disk::attach(&[address(server.portals()[0])], disk_options()).await.unwrap();
        check_null_device(Arc::new(disk), 7).await;
    });
}

#[test]
fn conforms_as_a_read_only_disk() {
    let inner = ram(1);
    on_core({
        let inner = Arc::clone(&inner);
        async move {
            let bytes: Vec<u8> = (0..64 << 10).map(|at| (at / 512) as u8).collect();
            inner.write(512, data(&bytes), WriteFlags::VOLATILE).await.unwrap();
        }
    });
    let mut config = config(inner);
    config.targets[0].units[0].read_only = true;
    let server = serve(config);
    on_core(async move {
        let disk = Disk::attach(&[address(server.portals()[0])], disk_options()).await.unwrap();
        check_read_only(Arc::new(disk)).await;
    });
}

/// The unit's own disk fails, hangs and cannot flush; with a write cache what is durable is not so of
/// itself.
#[test]
fn conforms_when_the_disk_of_the_unit_fails() {
    for write_cache in [false, true] {
        let below = Arc::new(FaultyDisk::new(ram(2)));
        let mut config = config(below.clone());
        config.targets[0].units[0].write_cache = write_cache;
        let server = serve(config);
        on_core(async move {
            let disk = Disk::attach(&[address(server.portals()[0])], disk_options()).await.unwrap();
            check_faults(below, Arc::new(disk), 8).await;
        });
    }
}

#[test]
fn conforms_with_digests() {
    let mut options = disk_options();
    options.session.limits.header_digest = DigestPolicy::Require;
    options.session.limits.data_digest = DigestPolicy::Require;
    check(ram(1), 3, options);
}

/// Nothing goes unasked, in bursts and segments as small as the standard allows.
#[test]
fn conforms_when_every_byte_is_asked_for() {
    let mut options = disk_options();
    let limits = &mut options.session.limits;
    limits.initial_r2t = true;
    limits.immediate_data = false;
    limits.max_burst_len_bytes = 1024;
    limits.first_burst_len_bytes = 512;
    limits.max_recv_data_segment_len_bytes = 512;
    limits.max_outstanding_r2t = 1;
    limits.data_digest = DigestPolicy::Require;
    options.session.queue_depth = 2;
    check(ram(1), 4, options);
}

#[test]
fn conforms_over_four_sessions() {
    let server = serve(config(ram(1)));
    on_core(async move {
        let mut options = disk_options();
        options.router.policy = "round-robin:1".parse().unwrap();
        let paths = vec![address(server.portals()[0]); 4];
        let disk = Arc::new(Disk::attach(&paths, options).await.unwrap());
        check_device(disk.clone(), 5).await;
        let used = disk.paths().await.iter().filter(|path| path.status.commands > 50).count();
        assert_eq!(used, 4, "round-robin uses them all");
    });
}

#[test]
fn tells_the_shape_of_the_disk() {
    let inner = RamDisk::new(512, 8192).unwrap();
    let physical_block_bytes = inner.geometry().physical_block_bytes;
    let server = serve(config(Arc::new(inner)));
    let read_only = {
        let mut config = config(ram(1));
        config.targets[0].units[0].read_only = true;
        serve(config)
    };
    on_core(async move {
        let disk = Disk::attach(&[address(server.portals()[0])], disk_options()).await.unwrap();
        let geometry = disk.geometry();
        assert_eq!((geometry.block_bytes, geometry.blocks), (512, 8192));
        assert!(geometry.thin && !geometry.read_only && !geometry.rotational);
        assert_eq!(geometry.physical_block_bytes, physical_block_bytes);
        disk.detach().await;
        let disk = Disk::attach(&[address(read_only.portals()[0])], disk_options()).await.unwrap();
        let refused = disk.write(0, data(&[1; 512]), WriteFlags::VOLATILE).await;
        assert_eq!(refused, Err(BlockError::ReadOnly));
    });
}

#[test]
fn long_transfers_are_split_and_put_together() {
    let server = serve(config(ram(8)));
    on_core(async move {
        let disk = Disk::attach(&[address(server.portals()[0])], disk_options()).await.unwrap();
        let long: Vec<u8> = (0..5_u32 << 20).map(|n| (n / 512 * 7 + n) as u8).collect();
        disk.write(4096, data(&long), WriteFlags::DURABLE).await.unwrap();
        let found = disk.read(4096, long.len()).await.unwrap();
        assert!(bytes(&found) == long);
        assert_eq!(bytes(&disk.read(0, 4096).await.unwrap()), [0; 4096]);
    });
}

#[test]
fn a_disk_is_used_from_other_cores() {
    let server = serve(config(ram(1)));
    let portal = server.portals()[0];
    let (give, take) = std::sync::mpsc::channel::<Arc<Disk>>();
    let owner = std::thread::spawn(move || {
        on_core(async move {
            let disk = Disk::attach(&[address(portal)], disk_options()).await.unwrap();
            let disk = Arc::new(disk);
            give.send(disk.clone()).unwrap();
            while Arc::strong_count(&disk) > 1 {
                ring::sleep(std::time::Duration::from_millis(10)).await;
            }
        });
    });
    let disk = take.recv().unwrap();
    on_core(check_device(disk.clone(), 6));
    drop(disk);
    owner.join().unwrap();
}

#[test]
fn a_reservation_of_another_host_is_told_as_such() {
    let server = serve(config(ram(1)));
    on_core(async move {
        let disk = Disk::attach(&[address(server.portals()[0])], disk_options()).await.unwrap();
        let other = common::session_options();
        let other = initiator::Session::open(&address(server.portals()[0]), other).await.unwrap();
        let run = async |cdb: [u8; 16], list: &[u8]| {
            for _ in 0..5 {
                let transfer = match list {
                    [] => initiator::Transfer::None,
                    list => initiator::Transfer::Out(data(list)),
                };
                let timeout = std::time::Duration::from_secs(5);
                let request = initiator::Request { lun: 0, cdb, transfer, timeout };
                if other.execute(request).await.unwrap().is_good() {
                    return;
                }
            }
            panic!("refused");
        };
        let mut list = [0; 24];
        list[15] = 7; // SERVICE ACTION RESERVATION KEY
        let mut register = [0; 16];
        (register[0], register[1], register[8]) = (0x5f, 0x06, 24);
        run(register, &list).await;
        let mut key = [0; 24];
        key[7] = 7;
        let mut reserve = [0; 16];
        (reserve[0], reserve[1], reserve[2], reserve[8]) = (0x5f, 0x01, 0x01, 24);
        run(reserve, &key).await;
        let refused = disk.write(0, data(&[1; 512]), WriteFlags::VOLATILE).await;
        assert_eq!(refused, Err(BlockError::Reserved));
        assert!(disk.read(0, 512).await.is_ok(), "Write Exclusive lets others read");
    });
}

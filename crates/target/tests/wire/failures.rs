//! What a host hears when a disk fails. Nothing that failed is GOOD.

use std::time::Duration;

use block::BlockError;
use block::testing::{Fault, FaultyDisk, Operation, Rule};

use crate::common::{
    Command, Connection, Done, Rig, config, faulty, mode_select, mode_sense, pattern,
    synchronize_cache, write10,
};

fn rig() -> (Rig, FaultyDisk, Connection) {
    let (disk, device) = faulty();
    let rig = Rig::start(config([device]));
    let host = rig.ready("host");
    (rig, disk, host)
}

/// Block `lba` fails with an error of the medium.
fn bad_block(disk: &FaultyDisk, operation: Operation, lba: u64) {
    let fault = Fault::Fail(BlockError::Medium { at: lba * 512 });
    disk.inject(Rule::always(operation, fault).at(lba * 512..(lba + 1) * 512));
}

/// VALID and INFORMATION of fixed-format sense data (SPC-5 §4.4.3).
fn fixed_information(done: &Done) -> Option<u64> {
    assert_eq!(done.sense[0] & 0x7f, 0x70);
    let information = u32::from_be_bytes(done.sense[3..7].try_into().unwrap());
    (done.sense[0] & 0x80 != 0).then_some(information.into())
}

/// The information descriptor of descriptor-format sense data (SPC-5 §4.4.2.2).
fn descriptor_information(done: &Done) -> Option<u64> {
    assert_eq!(done.sense[0], 0x72);
    let mut rest = &done.sense[8..];
    while let [kind, len, ..] = *rest {
        if kind == 0 {
            assert_eq!((len, rest[2] & 0x80), (10, 0x80), "length and VALID");
            return Some(u64::from_be_bytes(rest[4..12].try_into().unwrap()));
        }
        rest = &rest[2 + usize::from(len)..];
    }
    None
}

fn set_descriptor_sense(host: &mut Connection, on: bool) {
    let sensed = host.run(&Command::new(mode_sense(0x0a)).reading(252)).good();
    let mut list = sensed.clone();
    (list[0], list[2]) = (0, 0);
    list[4] &= 0x3f;
    list[6] = list[6] & !0x04 | if on { 0x04 } else { 0 };
    let select = Command::new(mode_select(list.len() as u8)).writing(&list);
    host.run(&select).good();
}

#[test]
fn a_bad_block_is_a_medium_error_that_names_it() {
    let (_rig, disk, mut host) = rig();
    bad_block(&disk, Operation::Read, 77);
    bad_block(&disk, Operation::Write, 99);
    for descriptor in [false, true] {
        set_descriptor_sense(&mut host, descriptor);
        let information = if descriptor { descriptor_information } else { fixed_information };
        // Short, and so long that some of it has been sent before the failure.
        for (lba, blocks) in [(77, 1), (70, 16), (0, 2048)] {
            let done = host.run(&Command::read(lba, blocks));
            assert_eq!(done.check(), (3, 0x11, 0), "UNRECOVERED READ ERROR");
            assert_eq!(information(&done), Some(77));
        }
        for write in [
            Command::write(99, &pattern(512, 1)).immediate_data(),
            Command::write(90, &pattern(64 * 512, 1)),
        ] {
            let done = host.run(&write);
            assert_eq!(done.check(), (3, 0x0c, 0), "WRITE ERROR");
            assert_eq!(information(&done), Some(99));
        }
    }
    host.run(&Command::read(100, 8)).good();
}

#[test]
fn a_disk_without_space_is_write_protected_for_as_long() {
    let (_rig, disk, mut host) = rig();
    disk.inject(Rule::always(Operation::Write, Fault::Fail(BlockError::NoSpace)));
    for write in [
        Command::write(0, &pattern(512, 1)).immediate_data(),
        Command::write(0, &pattern(64 * 512, 1)),
    ] {
        assert_eq!(host.run(&write).check(), (7, 0x27, 0x07));
    }
    host.run(&Command::read(0, 8)).good();
    disk.heal();
    host.run(&Command::write(0, &pattern(512, 1))).good();
}

#[test]
fn a_flush_that_fails_is_no_success() {
    let (_rig, disk, mut host) = rig();
    let sync = Command::new(synchronize_cache());
    host.run(&sync).good();
    let fault = Fault::Fail(BlockError::Medium { at: 0 });
    disk.inject(Rule::always(Operation::Flush, fault).times(1));
    let (key, asc, _) = host.run(&sync).check();
    assert_eq!((key, asc), (3, 0x0c));
    disk.inject(Rule::always(Operation::Flush, Fault::Fail(BlockError::LostWrites)));
    let (key, asc, _) = host.run(&sync).check();
    assert_eq!((key, asc), (3, 0x0c));
    disk.heal();
    host.run(&sync).good();
}

/// Memory that a disk does not have for a moment is waited for: the host hears nothing of it.
#[test]
fn a_disk_that_is_short_of_memory_for_a_moment_is_waited_for() {
    let (_rig, disk, mut host) = rig();
    let data = pattern(1 << 20, 3);
    for error in [BlockError::NoMemory, BlockError::Busy] {
        for operation in [Operation::Read, Operation::Write] {
            disk.inject(Rule { times: 3, ..Rule::always(operation, Fault::Fail(error)) });
        }
        host.run(&Command::write(0, &data)).good();
        assert!(host.run(&Command::read(0, 2048)).good() == data);
        disk.inject(Rule { times: 2, ..Rule::always(Operation::Read, Fault::Fail(error)) });
        assert!(host.run(&Command::read(0, 8)).good() == data[..4096]);
    }
}

#[test]
fn each_failure_of_a_disk_is_told_whatever_the_command() {
    let (disk, device) = faulty();
    let mut config = config([device]);
    // What may pass is waited for, a third of this.
    config.limits.stall_timeout = Duration::from_millis(600);
    let rig = Rig::start(config);
    let mut host = rig.ready("host");
    let errors = [
        BlockError::ReadOnly,
        BlockError::NoMemory,
        BlockError::Busy,
        BlockError::LostWrites,
        BlockError::Unsupported,
        BlockError::Unreachable,
        BlockError::InDoubt,
        BlockError::Os { errno: 22 },
    ];
    for error in errors {
        disk.inject(Rule {
            operations: Vec::new(),
            bytes: 0..u64::MAX,
            times: u32::MAX,
            fault: Fault::Fail(error),
        });
        // READ, WRITE, WRITE with FUA, SYNCHRONIZE CACHE, VERIFY.
        let mut durable = Command::write(0, &pattern(512, 1));
        durable.cdb[1] |= 0x08;
        let mut verify = Command::new(write10(0, 1));
        verify.cdb[0] = 0x2f;
        for command in [
            Command::read(0, 1),
            Command::read(0, 2048),
            Command::write(0, &pattern(512, 1)),
            durable,
            Command::new(synchronize_cache()),
            verify,
        ] {
            let done = host.run(&command);
            assert_ne!(done.status, 0, "{error} for {:02x}", command.cdb[0]);
            assert!(done.status == 2 || done.status == 8, "{error}: {done:?}");
        }
        disk.heal();
    }
    host.run(&Command::read(0, 1)).good();
}

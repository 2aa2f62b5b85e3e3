//! SANITIZE (SBC-4 §4.11) over a restart: who asks whether it has ended well hears the truth.

use std::time::Duration;

use block::testing::{Fault, FaultyDisk, Operation, Rule};
use tempfile::TempDir;

use crate::common::{
    Command, Connection, Rig, config, faulty, pattern, ram, sanitize_exit, sanitize_overwrite,
    test_unit_ready, wait_until,
};

const IN_PROGRESS: (u8, u8, u8) = (0x02, 0x04, 0x1b);
const FAILED: (u8, u8, u8) = (0x03, 0x31, 0x03);
const BLOCKS: u32 = 32 << 10;

/// A target that ended while a SANITIZE was at the disk, of which nothing was written.
fn cut_off(exit_allowed: bool) -> (FaultyDisk, TempDir, Vec<u8>) {
    let (disk, device) = faulty();
    let rig = Rig::start(config([device]));
    let mut host = rig.ready("host");
    let old = pattern(512, 1);
    host.run(&Command::write(BLOCKS - 1, &old)).good();
    disk.inject(Rule::always(Operation::Write, Fault::Hang));
    host.run(&sanitize_overwrite(0xaa, exit_allowed)).good();
    wait_until("it is at the disk", || disk.held() == 1);
    assert_eq!(host.run(&Command::new(test_unit_ready())).check(), IN_PROGRESS);
    drop(host);
    let (_, state) = rig.stop(Duration::ZERO);
    disk.heal();
    (disk, state, old)
}

/// Logged in again, and told of the start.
fn come_back(rig: &Rig) -> Connection {
    let mut host = rig.login();
    assert_eq!(host.run(&Command::new(test_unit_ready())).check().0, 0x06);
    host
}

#[test]
fn a_sanitize_that_was_cut_off_has_failed_until_one_ends_well() {
    let (disk, mut state, _) = cut_off(false);
    let device = || std::sync::Arc::new(disk.clone()) as _;
    for _ in 0..2 {
        let rig = Rig::restart(config([device()]), state);
        let mut host = come_back(&rig);
        for command in [&Command::new(test_unit_ready()), &Command::read(BLOCKS - 1, 1)] {
            assert_eq!(host.run(command).check(), FAILED);
        }
        assert_eq!(host.run(&sanitize_exit()).check().0, 0x05, "nobody allowed that");
        drop(host);
        state = rig.stop(Duration::ZERO).1;
    }
    let rig = Rig::restart(config([device()]), state);
    let mut host = come_back(&rig);
    host.run(&sanitize_overwrite(0xaa, false)).good();
    while host.run(&Command::new(test_unit_ready())).status != 0 {}
    assert!(host.run(&Command::read(BLOCKS - 1, 1)).good() == [0xaa; 512]);
    drop(host);
    let (_, state) = rig.stop(Duration::ZERO);
    let rig = Rig::restart(config([device()]), state);
    rig.ready("host").run(&Command::read(0, 1)).good();
}

#[test]
fn who_was_allowed_to_exit_from_the_failure_may_do_so_after_a_restart_too() {
    let (disk, state, old) = cut_off(true);
    let device = || std::sync::Arc::new(disk.clone()) as _;
    let rig = Rig::restart(config([device()]), state);
    let mut host = come_back(&rig);
    assert_eq!(host.run(&Command::new(test_unit_ready())).check(), FAILED);
    host.run(&sanitize_exit()).good();
    assert!(host.run(&Command::read(BLOCKS - 1, 1)).good() == old);
    drop(host);
    let (_, state) = rig.stop(Duration::ZERO);
    let rig = Rig::restart(config([device()]), state);
    rig.ready("host").run(&Command::read(0, 1)).good();
}

/// Nothing is begun that would be forgotten.
#[test]
fn a_sanitize_that_cannot_be_noted_is_refused() {
    let state = tempfile::tempdir().unwrap();
    let in_the_way = state.path().join("test-0.unsanitized.new");
    let rig = Rig::restart(config([ram()]), state);
    let mut host = rig.ready("host");
    let old = pattern(512, 1);
    host.run(&Command::write(0, &old)).good();
    std::fs::create_dir(&in_the_way).unwrap();
    assert_eq!(host.run(&sanitize_overwrite(0xaa, true)).check(), (0x04, 0x44, 0x00));
    assert_eq!(host.run(&Command::new(test_unit_ready())).check(), FAILED);
    host.run(&sanitize_exit()).good();
    assert!(host.run(&Command::read(0, 1)).good() == old);
}

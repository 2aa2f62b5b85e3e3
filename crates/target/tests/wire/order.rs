//! Task attributes (SAM-5 §8.9) while a disk takes its time.

use block::testing::{Fault, FaultyDisk, Operation, Rule};
use iscsi::pdu::{TaskAttribute, TaskFunction, TaskResult};

use crate::common::{A_MOMENT, Command, Connection, Rig, config, faulty, pattern, wait_until};

/// A host, and a disk that holds a first write of block 0.
fn held_up() -> (Rig, FaultyDisk, Connection, u32) {
    let (disk, device) = faulty();
    let rig = Rig::start(config([device]));
    let mut host = rig.ready("host");
    disk.inject(Rule::always(Operation::Write, Fault::Hang).times(1));
    let first = host.issue(&write(0, 1));
    wait_until("the write is at the disk", || disk.held() == 1);
    (rig, disk, host, first)
}

fn write(lba: u32, seed: u32) -> Command {
    Command::write(lba, &pattern(512, seed)).immediate_data()
}

#[test]
fn simple_tasks_pass_each_other() {
    let (_rig, disk, mut host, first) = held_up();
    host.run(&write(0, 2)).good();
    host.run(&Command::read(9, 1)).good();
    disk.release();
    host.finish(first).good();
}

#[test]
fn an_ordered_task_waits_for_the_older_and_holds_up_the_younger() {
    let (_rig, disk, mut host, first) = held_up();
    let ordered = host.issue(&write(0, 2).with(TaskAttribute::ORDERED));
    let younger_write = host.issue(&write(0, 3));
    let younger_read = host.issue(&Command::read(5, 1));
    host.expect_silence(A_MOMENT);
    disk.release();
    // The order of the answers is the order of the tasks, as far as it is settled.
    let seen: Vec<_> = (0..4).map(|_| host.receive().bhs.itt()).collect();
    assert_eq!(seen[..2], [first, ordered]);
    assert!(seen.contains(&younger_write) && seen.contains(&younger_read));
    assert!(host.run(&Command::read(0, 1)).good() == pattern(512, 3));
}

#[test]
fn the_head_of_the_queue_waits_for_nobody() {
    let (_rig, disk, mut host, first) = held_up();
    let ordered = host.issue(&write(1, 2).with(TaskAttribute::ORDERED));
    let head = Command::read(7, 1).with(TaskAttribute::HEAD_OF_QUEUE);
    host.run(&head).good();
    disk.release();
    host.finish(first).good();
    host.finish(ordered).good();
}

#[test]
fn other_hosts_are_not_held_up() {
    let (rig, disk, mut host, first) = held_up();
    let ordered = host.issue(&write(1, 2).with(TaskAttribute::ORDERED));
    let mut other = rig.ready("other");
    other.run(&write(2, 3).with(TaskAttribute::ORDERED)).good();
    disk.release();
    host.finish(first).good();
    host.finish(ordered).good();
}

#[test]
fn an_ordered_task_that_is_aborted_lets_the_younger_pass() {
    let (_rig, disk, mut host, first) = held_up();
    let cmd_sn = host.next_cmd_sn();
    let ordered = host.issue(&write(0, 2).with(TaskAttribute::ORDERED));
    let younger = host.issue(&Command::read(3, 1));
    host.expect_silence(A_MOMENT);
    let abort = host.manage(TaskFunction::ABORT_TASK, 0, ordered, cmd_sn);
    assert_eq!(host.managed(abort), TaskResult::COMPLETE);
    disk.release();
    host.finish(first).good();
    host.finish(younger).good();
    assert!(host.run(&Command::read(0, 1)).good() == pattern(512, 1), "it never ran");
}

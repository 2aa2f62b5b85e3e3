//! Task management (RFC 7143 §11.5, RFC 7144 §4, SAM-5 §7): what becomes of the tasks, and when.

use std::sync::atomic::Ordering;
use std::time::Duration;

use block::testing::{Fault, FaultyDisk, Operation, Rule};
use iscsi::pdu::{RESERVED_TAG, TaskFunction, TaskResult};

use crate::common::{
    A_MOMENT, Command, Connection, Login, Rig, config, faulty, pattern, ram,
    set_target_port_groups, stop_unit, wait_until,
};

/// Two cores, two disks; the first can be told to hang.
fn rig() -> (Rig, FaultyDisk) {
    let (disk, device) = faulty();
    let mut config = config([device, ram()]);
    config.cores = 2;
    (Rig::start(config), disk)
}

/// The status TASK ABORTED (SAM-5 §5.3.1).
const TASK_ABORTED: u8 = 0x40;

fn hang(disk: &FaultyDisk, operation: Operation) {
    disk.inject(Rule::always(operation, Fault::Hang));
}

fn stuck_write(host: &mut Connection, disk: &FaultyDisk) -> u32 {
    let before = disk.held();
    hang(disk, Operation::Write);
    let itt = host.issue(&Command::write(0, &pattern(512, 1)).immediate_data());
    wait_until("the write is at the disk", || disk.held() == before + 1);
    disk.heal();
    itt
}

#[test]
fn a_task_that_waits_for_data_ends_at_once_and_its_data_is_swallowed() {
    let (rig, _disk) = rig();
    let mut host = rig.ready("host");
    let cmd_sn = host.next_cmd_sn();
    let itt = host.issue(&Command::unsent_write(0, 8));
    let r2t = host.receive_r2t(itt);
    let abort = host.manage(TaskFunction::ABORT_TASK, 0, itt, cmd_sn);
    assert_eq!(host.managed(abort), TaskResult::COMPLETE);
    host.send_burst(itt, r2t.ttt, 0, 0, &[1; 4096]);
    host.expect_silence(A_MOMENT);
    assert_eq!(host.run(&Command::read(0, 8)).good(), vec![0; 4096]);
    // Its tag is free for another command, whose data is its own.
    let data = pattern(4096, 4);
    host.issue_as(&Command::write(0, &data), itt);
    host.finish(itt).good();
    assert!(host.run(&Command::read(0, 8)).good() == data);
}

/// The socket fills the buffer of a task that is aborted meanwhile over another connection.
#[test]
fn an_abort_in_the_middle_of_a_data_out_pdu() {
    let (rig, _disk) = rig();
    let login = Login::new("host");
    let mut a = rig.ready("host");
    let mut b = login.joining(&a, 1).connect(rig.portal()).unwrap();
    let data = pattern(256 << 10, 1);
    for cut in [48, 100, 40_000, 250_000] {
        let cmd_sn = a.next_cmd_sn();
        let itt = a.issue(&Command { answers_r2t: false, ..Command::write(0, &data) });
        let r2t = a.receive_r2t(itt);
        let header = iscsi::pdu::DataOut {
            is_final: true,
            data_segment_len_bytes: data.len() as u32,
            lun: 0,
            itt,
            ttt: r2t.ttt,
            exp_stat_sn: a.exp_stat_sn,
            data_sn: 0,
            buffer_offset_bytes: 0,
        };
        let bytes = a.frame(header.to_bhs().bytes(), &[], &data, crate::common::Broken::Nothing);
        a.send_bytes(&bytes[..cut]);
        std::thread::sleep(Duration::from_millis(10));
        let abort = b.manage(TaskFunction::ABORT_TASK, 0, itt, cmd_sn);
        assert_eq!(b.managed(abort), TaskResult::COMPLETE);
        // Another write takes the freed memory while the old data goes on coming.
        let other = pattern(64 << 10, 2);
        b.run(&Command::write(1000, &other)).good();
        a.send_bytes(&bytes[cut..]);
        assert_eq!(a.run(&Command::read(0, 512)).good(), vec![0; 256 << 10]);
        assert!(a.run(&Command::read(1000, 128)).good() == other);
        a.expect_no_answer(itt);
    }
}

#[test]
fn a_task_at_the_disk_is_over_only_when_the_disk_lets_go() {
    let (rig, disk) = rig();
    let mut host = rig.ready("host");
    let cmd_sn = host.next_cmd_sn();
    let itt = stuck_write(&mut host, &disk);
    let abort = host.manage(TaskFunction::ABORT_TASK, 0, itt, cmd_sn);
    host.expect_silence(A_MOMENT);
    host.expect_alive();
    disk.release();
    assert_eq!(host.managed(abort), TaskResult::COMPLETE);
    host.expect_silence(A_MOMENT);
    host.expect_no_answer(itt);
}

#[test]
fn abort_task_of_a_tag_that_nobody_has() {
    let (rig, _disk) = rig();
    let mut host = rig.ready("host");
    let past = host.next_cmd_sn() - 1;
    for cmd_sn in [past, host.max_cmd_sn + 1] {
        let abort = host.manage(TaskFunction::ABORT_TASK, 0, 0x4444, cmd_sn);
        assert_eq!(host.managed(abort), TaskResult::TASK_DOES_NOT_EXIST);
    }
    // The right tag on the wrong unit.
    let cmd_sn = host.next_cmd_sn();
    let itt = host.issue(&Command::unsent_write(0, 8));
    host.receive_r2t(itt);
    let abort = host.manage(TaskFunction::ABORT_TASK, 1, itt, cmd_sn);
    assert_eq!(host.managed(abort), TaskResult::TASK_DOES_NOT_EXIST);
}

/// RFC 7143 §11.6.1 b: a number that was lost is used up by its abort, and those behind it go on.
#[test]
fn abort_task_fills_the_hole_of_a_command_that_was_lost() {
    let (rig, _disk) = rig();
    let mut host = rig.ready("host");
    let lost = host.next_cmd_sn();
    host.cmd_sn.fetch_add(1, Ordering::Relaxed);
    let behind = host.issue(&Command::read(0, 1));
    host.expect_silence(A_MOMENT);
    let abort = host.manage(TaskFunction::ABORT_TASK, 0, 0x4444, lost);
    assert_eq!(host.managed(abort), TaskResult::COMPLETE);
    host.finish(behind).good();
    // Should it come after all, it is not run.
    host.issue_as(&Command::write(0, &[1; 512]).immediate_data().numbered(lost), 0x4444);
    host.expect_silence(A_MOMENT);
    assert_eq!(host.run(&Command::read(0, 1)).good(), vec![0; 512]);
}

#[test]
fn abort_task_of_a_command_that_waits_for_its_turn() {
    let (rig, _disk) = rig();
    let login = Login::new("host");
    let mut a = rig.ready("host");
    let mut b = login.joining(&a, 1).connect(rig.portal()).unwrap();
    let first = a.next_cmd_sn();
    a.cmd_sn.fetch_add(2, Ordering::Relaxed);
    let write =
        Command { more_follows: true, ..Command::write(0, &pattern(512, 1)).numbered(first + 1) };
    let early = b.issue(&write);
    b.send_burst(early, RESERVED_TAG, 0, 0, &pattern(512, 1));
    std::thread::sleep(Duration::from_millis(20));
    let abort = a.manage(TaskFunction::ABORT_TASK, 0, early, first + 1);
    assert_eq!(a.managed(abort), TaskResult::COMPLETE);
    a.run(&Command::read(0, 1).numbered(first)).good();
    b.expect_silence(A_MOMENT);
    assert_eq!(b.run(&Command::read(0, 1)).good(), vec![0; 512]);
}

#[test]
fn abort_and_clear_task_set_end_the_tasks_of_this_nexus_on_this_unit() {
    let (rig, disk) = rig();
    for function in [TaskFunction::ABORT_TASK_SET, TaskFunction::CLEAR_TASK_SET] {
        let mut host = rig.ready("host");
        let mut other = rig.ready("other");
        host.take_attentions(1);
        let stuck = stuck_write(&mut host, &disk);
        let waiting = host.issue(&Command::unsent_write(0, 1));
        let elsewhere = host.issue(&Command::unsent_write(0, 1).on(1));
        let theirs = other.issue(&Command::unsent_write(9, 1));
        let r2t_elsewhere = host.receive_r2t(elsewhere);
        let r2t_theirs = other.receive_r2t(theirs);
        let itt = host.manage(function, 0, RESERVED_TAG, 0);
        host.receive_r2t(waiting);
        host.expect_silence(A_MOMENT);
        disk.release();
        assert_eq!(host.managed(itt), TaskResult::COMPLETE);
        host.send_burst(elsewhere, r2t_elsewhere.ttt, 0, 0, &[1; 512]);
        host.finish(elsewhere).good();
        other.send_burst(theirs, r2t_theirs.ttt, 0, 0, &[2; 512]);
        other.finish(theirs).good();
        for tag in [stuck, waiting] {
            host.expect_no_answer(tag);
        }
        assert_eq!(host.take_attentions(0), []);
        assert_eq!(other.take_attentions(0), []);
    }
}

/// RFC 7143 §4.2.3.3 d: commands sent before the function over another connection are among those
/// it ends, so it waits for them.
#[test]
fn abort_task_set_waits_for_commands_that_are_still_under_way() {
    let (rig, _disk) = rig();
    let login = Login::new("host");
    let mut a = rig.ready("host");
    let mut b = login.joining(&a, 1).connect(rig.portal()).unwrap();
    let first = a.next_cmd_sn();
    a.cmd_sn.fetch_add(2, Ordering::Relaxed);
    let second = b.issue(&Command::unsent_write(0, 1).numbered(first + 1));
    let function = b.manage(TaskFunction::ABORT_TASK_SET, 0, RESERVED_TAG, 0);
    b.expect_silence(A_MOMENT);
    a.issue(&Command::unsent_write(8, 1).numbered(first));
    assert_eq!(b.managed(function), TaskResult::COMPLETE);
    b.receive_r2t(second);
    assert_eq!(a.manage_unit(TaskFunction::QUERY_TASK_SET, 0), TaskResult::COMPLETE, "no tasks");
    a.expect_alive();
}

#[test]
fn a_unit_reset_ends_the_tasks_of_all_and_tells_the_others() {
    let (rig, disk) = rig();
    let mut host = rig.ready("host");
    let mut others = [rig.ready("b"), rig.ready("c"), rig.ready("d")];
    let stuck = stuck_write(&mut others[1], &disk);
    let waiting = others[2].issue(&Command::unsent_write(0, 1));
    others[2].receive_r2t(waiting);
    others[0].take_attentions(1);
    let elsewhere = others[0].issue(&Command::unsent_write(0, 1).on(1));
    others[0].receive_r2t(elsewhere);
    let reset = host.manage(TaskFunction::LOGICAL_UNIT_RESET, 0, RESERVED_TAG, 0);
    host.expect_silence(A_MOMENT);
    disk.release();
    assert_eq!(host.managed(reset), TaskResult::COMPLETE);
    for other in &mut others {
        let attentions = other.take_attentions(0);
        assert!(matches!(attentions[..], [(0x29, _)]), "once and no more: {attentions:x?}");
    }
    // TAS=1: each answer came when the task was over, before what tells of the reset.
    assert_eq!(others[1].finish(stuck).status, TASK_ABORTED);
    assert_eq!(others[2].finish(waiting).status, TASK_ABORTED);
    let none_left = others[2].manage_unit(TaskFunction::QUERY_TASK_SET, 0);
    assert_eq!(none_left, TaskResult::COMPLETE, "on each core");
    assert_eq!(others[0].take_attentions(1), [], "the other unit was not reset");
    let alive = others[0].manage(TaskFunction::QUERY_TASK, 1, elsewhere, 0);
    assert_eq!(others[0].managed(alive), TaskResult::SUCCEEDED);
}

#[test]
fn a_warm_reset_is_for_all_units_and_keeps_the_sessions() {
    let (rig, _disk) = rig();
    let mut host = rig.ready("host");
    let mut other = rig.ready("other");
    other.take_attentions(1);
    let itt = other.issue(&Command::unsent_write(0, 1).on(1));
    other.receive_r2t(itt);
    assert_eq!(host.manage_unit(TaskFunction::TARGET_WARM_RESET, 0), TaskResult::COMPLETE);
    for lun in [0, 1] {
        assert!(matches!(other.take_attentions(lun)[..], [(0x29, _)]));
    }
    assert_eq!(other.manage_unit(TaskFunction::QUERY_TASK_SET, 1), TaskResult::COMPLETE);
    assert_eq!(other.finish(itt).status, TASK_ABORTED);
    host.take_attentions(0);
    host.expect_alive();
}

/// What a nexus aborts of its own it hears nothing more of.
#[test]
fn a_reset_answers_the_tasks_of_others_only() {
    let (rig, _disk) = rig();
    let mut host = rig.ready("host");
    let own = host.issue(&Command::unsent_write(0, 1));
    host.receive_r2t(own);
    assert_eq!(host.manage_unit(TaskFunction::LOGICAL_UNIT_RESET, 0), TaskResult::COMPLETE);
    host.take_attentions(0);
    host.expect_no_answer(own);
}

#[test]
fn no_host_ends_the_sessions_of_others_or_stops_their_disk() {
    let (rig, _disk) = rig();
    let mut host = rig.ready("host");
    let mut other = rig.ready("other");
    let refused = TaskResult::AUTHORIZATION_FAILED;
    assert_eq!(host.manage_unit(TaskFunction::TARGET_COLD_RESET, 0), refused);
    host.run(&Command::new(stop_unit())).good();
    let unavailable = [0, 0, 0, 0, 3, 0, 0, 1];
    let set = Command::new(set_target_port_groups(8)).writing(&unavailable);
    assert_eq!(host.run(&set).check(), (0x05, 0x24, 0x00));
    host.expect_alive();
    other.run(&Command::read(0, 1)).good();
    assert_eq!(other.take_attentions(0), [], "it has heard of nothing");
}

#[test]
fn a_nexus_reset_ends_the_session_after_its_answer() {
    let (rig, _disk) = rig();
    let mut host = rig.ready("host");
    let mut other = rig.ready("other");
    host.issue(&Command::unsent_write(0, 1));
    assert_eq!(host.manage_unit(TaskFunction::I_T_NEXUS_RESET, 0), TaskResult::COMPLETE);
    host.expect_closed();
    wait_until("the session is gone", || rig.server().sessions() == 1);
    assert_eq!(other.take_attentions(0), [], "it concerns nobody else");
}

#[test]
fn queries_tell_what_is_there() {
    let (rig, _disk) = rig();
    let mut host = rig.ready("host");
    let none = TaskResult::COMPLETE;
    assert_eq!(host.manage_unit(TaskFunction::QUERY_TASK_SET, 0), none);
    let itt = host.issue(&Command::unsent_write(0, 1));
    let r2t = host.receive_r2t(itt);
    assert_eq!(host.manage_unit(TaskFunction::QUERY_TASK_SET, 0), TaskResult::SUCCEEDED);
    assert_eq!(host.manage_unit(TaskFunction::QUERY_TASK_SET, 1), none);
    let query = host.manage(TaskFunction::QUERY_TASK, 0, itt, 0);
    assert_eq!(host.managed(query), TaskResult::SUCCEEDED);
    let query = host.manage(TaskFunction::QUERY_TASK, 0, itt + 1000, 0);
    assert_eq!(host.managed(query), none);
    host.send_burst(itt, r2t.ttt, 0, 0, &[0; 512]);
    host.finish(itt).good();
    assert_eq!(host.manage_unit(TaskFunction::QUERY_TASK_SET, 0), none);
    // A unit attention is an asynchronous event.
    assert_eq!(host.manage_unit(TaskFunction::QUERY_ASYNCHRONOUS_EVENT, 0), none);
    let mut other = rig.ready("other");
    assert_eq!(other.manage_unit(TaskFunction::LOGICAL_UNIT_RESET, 0), TaskResult::COMPLETE);
    let pending = host.manage_unit(TaskFunction::QUERY_ASYNCHRONOUS_EVENT, 0);
    assert_eq!(pending, TaskResult::SUCCEEDED);
}

#[test]
fn what_cannot_be_done_is_refused_by_name() {
    let (rig, _disk) = rig();
    let mut host = rig.ready("host");
    let reassign = host.manage_unit(TaskFunction::TASK_REASSIGN, 0);
    assert_eq!(reassign, TaskResult::REASSIGN_NOT_SUPPORTED);
    assert_eq!(host.manage_unit(TaskFunction::CLEAR_ACA, 0), TaskResult::NOT_SUPPORTED);
    assert_eq!(host.manage_unit(TaskFunction(99), 0), TaskResult::NOT_SUPPORTED);
    for function in [
        TaskFunction::ABORT_TASK_SET,
        TaskFunction::CLEAR_TASK_SET,
        TaskFunction::LOGICAL_UNIT_RESET,
        TaskFunction::QUERY_TASK_SET,
    ] {
        assert_eq!(host.manage_unit(function, 7), TaskResult::LUN_DOES_NOT_EXIST, "{function:?}");
    }
    host.expect_alive();
}

/// Functions stand outside the command window: a flood of them must not pile up.
#[test]
fn functions_that_wait_are_bounded_in_number() {
    let (rig, disk) = rig();
    let mut host = rig.ready("host");
    let cmd_sn = host.next_cmd_sn();
    let itt = stuck_write(&mut host, &disk);
    let tags: Vec<_> =
        (0..200).map(|_| host.manage(TaskFunction::ABORT_TASK, 0, itt, cmd_sn)).collect();
    host.ping(b"");
    disk.release();
    let results: Vec<_> = tags.into_iter().map(|tag| host.managed(tag)).collect();
    let refused = results.iter().filter(|&&result| result == TaskResult::REJECTED).count();
    assert!(refused > 100 && refused < 199, "{refused} of 200 were refused");
    assert!(
        results
            .iter()
            .all(|&result| { [TaskResult::REJECTED, TaskResult::COMPLETE].contains(&result) })
    );
    host.expect_alive();
}

/// Immediate commands stand outside the command window, too.
#[test]
fn immediate_commands_are_bounded_in_number() {
    let (disk, device) = faulty();
    let mut config = config([device]);
    config.limits.queue_depth = 8;
    let rig = Rig::start(config);
    let mut host = rig.ready("host");
    hang(&disk, Operation::Read);
    let read = Command { is_immediate: true, ..Command::read(0, 1) };
    let tags: Vec<_> = (0..40).map(|_| host.issue(&read)).collect();
    let mut rejected = 0;
    while rejected < 24 {
        assert_eq!(host.receive_reject(), iscsi::pdu::RejectReason::IMMEDIATE_COMMAND_REJECT);
        rejected += 1;
    }
    assert_eq!(disk.held(), 16);
    disk.heal();
    disk.release();
    for itt in &tags[..16] {
        host.finish(*itt).good();
    }
    host.expect_alive();
}

//! What a host is told of starts, lost nexuses and resets, and that it hears before anything else
//! happens (SAM-5 §5.14, §6.3).

use std::time::Duration;

use block::testing::{Fault, Operation, Rule};
use iscsi::pdu::{LogoutReason, RESERVED_TAG, TaskFunction, TaskResult};

use crate::common::{
    Command, Connection, IQN, Login, Rig, config, faulty, on_core, pattern, ram, target_of,
    wait_until,
};

const POWER_ON: (u8, u8) = (0x29, 0x01);
const RESET: (u8, u8, u8) = (0x06, 0x29, 0x03);
const NEXUS_LOSS: (u8, u8) = (0x29, 0x07);

fn login(rig: &Rig, name: &str) -> Connection {
    Login::new(name).connect(rig.portal()).unwrap()
}

/// A disk with a volatile cache may have lost what a host has written only if it was started since.
#[test]
fn a_start_is_told_once_to_each_host_and_a_new_login_is_a_lost_nexus() {
    let disk = ram();
    let mut rig = Rig::start(config([disk.clone()]));
    for _ in 0..2 {
        for name in ["a", "b"] {
            assert_eq!(login(&rig, name).take_attentions(0), [POWER_ON]);
            let mut again = login(&rig, name);
            assert_eq!(again.take_attentions(0), [NEXUS_LOSS]);
            again.logout(LogoutReason::CLOSE_SESSION, 0);
            assert_eq!(login(&rig, name).take_attentions(0), [NEXUS_LOSS]);
        }
        let other_port = Login { isid: [0x80, 0, 0, 2, 0, 0], ..Login::new("a") };
        let mut other_port = other_port.connect(rig.portal()).unwrap();
        assert_eq!(other_port.take_attentions(0), [POWER_ON]);
        let (result, state) = rig.stop(Duration::ZERO);
        result.unwrap();
        rig = Rig::restart(config([disk.clone()]), state);
    }
}

/// The answer that told of the start may be lost with its connection.
#[test]
fn a_start_counts_as_told_only_once_its_answer_is_acknowledged() {
    let rig = Rig::ram();
    for _ in 0..3 {
        let mut host = login(&rig, "host");
        let told = host.issue(&Command::read(0, 1));
        let sent_before_the_answer = host.issue(&Command::read(0, 1));
        assert_eq!(host.finish(told).check(), (0x06, 0x29, 0x01));
        host.finish(sent_before_the_answer).good();
    }
    let mut host = login(&rig, "host");
    let told = host.issue(&Command::read(0, 1));
    host.finish(told);
    host.run(&Command::read(0, 1)).good();
    assert_eq!(login(&rig, "host").take_attentions(0), [NEXUS_LOSS]);
}

/// So do a ping and a logout.
#[test]
fn whatever_request_acknowledges_an_answer_its_initiator_has_heard_it() {
    let rig = Rig::ram();
    type Acknowledge = fn(&mut Connection);
    let ways: [(&str, Acknowledge); 2] = [
        ("pings", |host| _ = host.ping(b"")),
        ("logs-out", |host| _ = host.logout(LogoutReason::CLOSE_SESSION, 0)),
    ];
    for (name, acknowledge) in ways {
        let mut host = login(&rig, name);
        let told = host.issue(&Command::read(0, 1));
        assert_eq!(host.finish(told).check(), (0x06, 0x29, 0x01));
        acknowledge(&mut host);
        assert_eq!(login(&rig, name).take_attentions(0), [NEXUS_LOSS], "who {name}");
    }
}

/// Between two services of a disk anything may have happened to it.
#[test]
fn a_disk_that_was_away_has_started() {
    let rig = Rig::ram();
    let mut host = rig.ready("host");
    on_core(rig.server(), |targets| async move {
        targets.set_offline(IQN, Duration::ZERO).await.unwrap();
        targets.add(target_of(IQN, [ram()])).unwrap();
    });
    host.expect_closed();
    assert_eq!(login(&rig, "host").take_attentions(0), [POWER_ON]);
}

/// Writes that wait in the socket of a nexus when another one resets the unit are older than what the
/// latter writes next: none of them may run, not only not the first.
#[test]
fn no_command_that_was_sent_before_a_reset_was_heard_of_runs_after_it() {
    let mut config = config([ram()]);
    config.cores = 2;
    let rig = Rig::start(config);
    let mut old = rig.ready("old");
    let mut new = rig.ready("new");
    assert_eq!(new.manage_unit(TaskFunction::LOGICAL_UNIT_RESET, 0), TaskResult::COMPLETE);
    new.take_attentions(0);
    let newer = pattern(512 * 8, 9);
    new.run(&Command::write(0, &newer)).good();
    // It knows of nothing: what it sends is what would have waited in its socket.
    let lost: Vec<_> =
        (0..8).map(|lba| old.issue(&Command::write(lba, &[1; 512]).immediate_data())).collect();
    for itt in lost {
        assert_eq!(old.finish(itt).check(), RESET);
    }
    assert!(new.run(&Command::read(0, 8)).good() == newer);
    // From the first command on that was sent after that.
    old.run(&Command::write(0, &[2; 512])).good();
    assert_eq!(old.take_attentions(0), []);
    assert_eq!(new.run(&Command::read(0, 1)).good(), [2; 512]);
}

/// One that acknowledges nothing is not kept out for ever: a number beyond the window says the same.
#[test]
fn a_host_that_acknowledges_nothing_gets_on_after_a_window_full() {
    let mut config = config([ram()]);
    config.limits.queue_depth = 4;
    let rig = Rig::start(config);
    let mut mute = rig.ready("mute");
    let mut other = rig.ready("other");
    let heard = mute.exp_stat_sn;
    assert_eq!(other.manage_unit(TaskFunction::LOGICAL_UNIT_RESET, 0), TaskResult::COMPLETE);
    let mut refused = 0;
    loop {
        let now = std::mem::replace(&mut mute.exp_stat_sn, heard);
        let itt = mute.issue(&Command::read(0, 1));
        mute.exp_stat_sn = now;
        let done = mute.finish(itt);
        if done.status == 0 {
            break;
        }
        assert_eq!(done.check(), RESET);
        refused += 1;
        assert!(refused < 10);
    }
    assert_eq!(refused, 4, "the commands that its window allowed before it was told");
}

/// With several connections each may hold such commands.
#[test]
fn a_reset_is_told_over_each_connection_of_a_session() {
    let rig = Rig::two_cores();
    let mut a = rig.ready("host");
    let mut b = Login::new("host").joining(&a, 1).connect(rig.portal()).unwrap();
    let mut other = rig.ready("other");
    assert_eq!(other.manage_unit(TaskFunction::LOGICAL_UNIT_RESET, 0), TaskResult::COMPLETE);
    for host in [&mut a, &mut b] {
        assert_eq!(host.run(&Command::write(0, &[1; 512]).immediate_data()).check(), RESET);
    }
    for host in [&mut a, &mut b] {
        host.run(&Command::write(0, &[1; 512]).immediate_data()).good();
    }
    // One that joins later has nothing old to send.
    assert_eq!(other.manage_unit(TaskFunction::LOGICAL_UNIT_RESET, 0), TaskResult::COMPLETE);
    assert_eq!(b.run(&Command::read(0, 1)).check(), RESET);
    let mut c = Login::new("host").joining(&a, 2).connect(rig.portal()).unwrap();
    c.run(&Command::read(0, 1)).good();
    assert_eq!(a.run(&Command::read(0, 1)).check(), RESET);
}

/// A reset that waits for a disk has closed the unit already: what came after it would otherwise be
/// neither ended by it nor told of it.
#[test]
fn what_comes_while_a_reset_waits_for_a_disk_does_not_run() {
    let (disk, device) = faulty();
    let mut config = config([device]);
    config.cores = 2;
    let rig = Rig::start(config);
    let mut old = rig.ready("old");
    let mut new = rig.ready("new");
    disk.inject(Rule::always(Operation::Write, Fault::Hang).times(1));
    let stuck = old.issue(&Command::write(0, &[1; 512]).immediate_data());
    wait_until("the write is at the disk", || disk.held() == 1);
    let reset = new.manage(TaskFunction::LOGICAL_UNIT_RESET, 0, RESERVED_TAG, 0);
    assert_eq!(new.manage_unit(TaskFunction::QUERY_TASK_SET, 0), TaskResult::COMPLETE);
    let late = old.issue(&Command::write(1, &[1; 512]).immediate_data());
    assert_eq!(old.finish(late).check(), RESET);
    disk.release();
    assert_eq!(new.managed(reset), TaskResult::COMPLETE);
    assert_eq!(old.finish(stuck).status, 0x40, "TASK ABORTED");
    new.take_attentions(0);
    assert_eq!(new.run(&Command::read(1, 1)).good(), [0; 512]);
    assert_eq!(old.take_attentions(0), [], "the reset is told once");
}

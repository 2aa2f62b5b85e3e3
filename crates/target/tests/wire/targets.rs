//! Targets that come and go while the server runs, and units that grow.

use std::time::{Duration, Instant};

use block::BlockError;
use block::testing::{Fault, Operation, Rule};
use iscsi::pdu::{
    AsyncEvent, AsyncMessage, LoginStatus, LogoutReason, LogoutResult, Opcode, TaskFunction,
    TaskResult,
};
use target::{Access, AccessRule, TargetError};

use crate::common::{
    Command, Connection, IQN, Login, NoLogin, Rig, config, faulty, on_core, pattern, ram,
    reserve_in, reserve_list, reserve_out, target_of, test_unit_ready, wait_until,
};

const SECOND: &str = "iqn.2026-11.dev.drystone:second";
const THIRD: &str = "iqn.2026-11.dev.drystone:third";
const GRACE: Duration = Duration::from_secs(5);
const NOT_FOUND: Option<NoLogin> = Some(NoLogin::Refused(LoginStatus::NOT_FOUND));
const UNAVAILABLE: Option<NoLogin> = Some(NoLogin::Refused(LoginStatus::SERVICE_UNAVAILABLE));

fn to(target: &str) -> Login {
    Login { target: Some(target.to_owned()), ..Login::new("host") }
}

fn ready(rig: &Rig, target: &str) -> Connection {
    let mut host = to(target).connect(rig.portal()).unwrap();
    host.take_attentions(0);
    host
}

/// The targets that discovery shows to `name`.
fn discovered(rig: &Rig, name: &str) -> Vec<String> {
    let finder = Login { target: None, ..Login::new(name) };
    let text = finder.connect(rig.portal()).unwrap().text("SendTargets=All");
    let names = text.into_iter().filter(|(key, _)| key == "TargetName");
    names.map(|(_, name)| name).collect()
}

fn empty() -> Rig {
    let mut config = config([ram()]);
    config.targets.clear();
    config.cores = 2;
    Rig::start(config)
}

fn next_event(host: &mut Connection) -> AsyncMessage {
    AsyncMessage::parse(&host.receive_kind(Opcode::ASYNC_MESSAGE).bhs).unwrap()
}

/// Names that are not known yet are no reason for hosts to give up.
#[test]
fn while_names_are_missing_those_who_ask_for_one_are_to_come_back() {
    let rig = empty();
    let targets = rig.server().targets();
    targets.add(target_of(IQN, [ram()])).unwrap();
    targets.set_incomplete(true);
    assert_eq!(to(SECOND).connect(rig.portal()).err(), UNAVAILABLE);
    ready(&rig, IQN).expect_alive();
    assert_eq!(discovered(&rig, "host"), [IQN], "nobody is shown what is not known");
    let taken = |targets: target::Targets| async move { targets.remove(IQN, Duration::ZERO).await };
    on_core(rig.server(), taken).unwrap();
    assert_eq!(to(IQN).connect(rig.portal()).err(), UNAVAILABLE);
    targets.set_incomplete(false);
    for name in [IQN, SECOND] {
        assert_eq!(to(name).connect(rig.portal()).err(), NOT_FOUND);
    }
}

#[test]
fn targets_come_while_the_server_runs_and_each_has_its_own_disks() {
    let rig = empty();
    let targets = rig.server().targets();
    assert_eq!(discovered(&rig, "host"), Vec::<String>::new());
    assert_eq!(to(IQN).connect(rig.portal()).err(), NOT_FOUND);

    targets.add(target_of(IQN, [ram()])).unwrap();
    targets.add(target_of(SECOND, [ram(), ram()])).unwrap();
    assert_eq!(discovered(&rig, "host"), [SECOND, IQN]);

    // One initiator port with the same ISID to both: two sessions that know nothing of each other.
    let (mut first, mut second) = (ready(&rig, IQN), ready(&rig, SECOND));
    assert_eq!(rig.server().sessions(), 2);
    let sessions: Vec<_> = targets.list().into_iter().map(|info| info.sessions).collect();
    assert_eq!(sessions, [1, 1]);
    let (one, other) = (pattern(4096, 1), pattern(4096, 2));
    first.run(&Command::write(0, &one)).good();
    second.run(&Command::write(0, &other)).good();
    assert!(first.run(&Command::read(0, 8)).good() == one);
    assert!(second.run(&Command::read(0, 8)).good() == other);
    second.take_attentions(1);
    second.run(&Command::read(0, 1).on(1)).good();
    assert_eq!(first.run(&Command::read(0, 1).on(1)).check(), (5, 0x25, 0x00), "no such LUN");
    assert_eq!(first.text("SendTargets=")[0].1, IQN);
    assert_eq!(second.text(&format!("SendTargets={IQN}"))[0].1, "Reject");
}

#[test]
fn a_target_that_goes_takes_its_sessions_along_and_no_others() {
    let rig = empty();
    let targets = rig.server().targets();
    targets.add(target_of(IQN, [ram()])).unwrap();
    let (disk, device) = faulty();
    targets.add(target_of(SECOND, [device])).unwrap();
    let mut stays = ready(&rig, IQN);
    let mut hosts: Vec<_> = ["a", "b", "c"]
        .map(|name| Login { target: Some(SECOND.to_owned()), ..Login::new(name) })
        .iter()
        .map(|login| login.connect(rig.portal()).unwrap())
        .collect();
    disk.inject(Rule::always(Operation::Flush, Fault::Delay(Duration::from_millis(50))));
    let removal = {
        let targets = rig.server().targets();
        let first = rig.server().first_core();
        std::thread::spawn(move || {
            let (done, answer) = std::sync::mpsc::channel();
            first.run(move || {
                ring::spawn(async move {
                    done.send(targets.remove(SECOND, GRACE).await).unwrap();
                });
            });
            answer.recv().unwrap()
        })
    };
    for host in &mut hosts {
        assert_eq!(next_event(host).event, AsyncEvent::LOGOUT_REQUEST);
        let again = Login { target: Some(SECOND.to_owned()), ..Login::new("late") };
        assert_eq!(again.connect(rig.portal()).err(), NOT_FOUND, "as soon as it is to go");
        host.take_attentions(0);
        assert_eq!(host.logout(LogoutReason::CLOSE_SESSION, 0), LogoutResult::SUCCESS);
        host.expect_closed();
    }
    removal.join().unwrap().unwrap();
    assert_eq!(rig.server().sessions(), 1);
    assert_eq!(discovered(&rig, "host"), [IQN]);
    stays.expect_alive();

    // It may come back under its name, with another disk.
    targets.add(target_of(SECOND, [ram()])).unwrap();
    ready(&rig, SECOND).run(&Command::read(0, 1)).good();
}

/// A task that hangs at a disk is found by whoever ends the tasks of its unit. A second unit over the same
/// disk would not know of it: the old write could come after new ones.
#[test]
fn a_target_is_not_served_anew_while_a_disk_works_for_its_last_hosts() {
    let rig = empty();
    let targets = rig.server().targets();
    let (disk, device) = faulty();
    let again = || targets.add(target_of(SECOND, [device.clone()]));
    again().unwrap();
    let mut host = ready(&rig, SECOND);
    disk.inject(Rule::always(Operation::Write, Fault::Hang).times(1));
    host.issue(&Command::write(0, &pattern(512, 1)).immediate_data());
    wait_until("the write is at the disk", || disk.held() == 1);
    let ended = on_core(rig.server(), |targets| async move {
        targets.set_offline(SECOND, Duration::ZERO).await
    });
    assert!(matches!(ended, Err(TargetError::Busy(_))), "{ended:?}");
    let refused = again();
    assert!(matches!(refused, Err(TargetError::Busy(_))), "{refused:?}");
    let mut renamed = target_of(THIRD, [device.clone()]);
    renamed.units[0].serial = target_of(SECOND, [device.clone()]).units[0].serial.clone();
    assert!(matches!(targets.add(renamed), Err(TargetError::Busy(_))), "nor under another name");
    let serial = target_of(SECOND, [device.clone()]).units[0].serial.clone();
    assert!(targets.is_at_work(&serial));
    disk.release();
    wait_until("the last task is over", || !targets.is_at_work(&serial));
    again().unwrap();
    let mut host = ready(&rig, SECOND);
    host.run(&Command::write(0, &pattern(512, 2)).immediate_data()).good();
    assert!(host.run(&Command::read(0, 1)).good() == pattern(512, 2));
}

/// A disk that does not answer a flush kept whoever took its target away waiting, and with it all commands that
/// change volumes, and the stop of the member.
#[test]
fn a_target_goes_although_its_disks_answer_no_flush() {
    let rig = empty();
    let targets = rig.server().targets();
    let hung = || {
        let (disk, device) = faulty();
        disk.inject(Rule::always(Operation::Flush, Fault::Hang));
        (disk, device)
    };
    let ((one, first), (other, second)) = (hung(), hung());
    targets.add(target_of(SECOND, [first.clone(), second])).unwrap();
    ready(&rig, SECOND).run(&Command::write(0, &pattern(512, 1)).immediate_data()).good();
    let begun = Instant::now();
    let ended = on_core(rig.server(), |targets| async move {
        targets.set_offline(SECOND, Duration::ZERO).await
    });
    assert!(begun.elapsed() < Duration::from_secs(15), "{:?}", begun.elapsed());
    let Err(TargetError::Flush { unit, source: BlockError::Busy }) = ended else {
        panic!("what may be lost is told: {ended:?}");
    };
    assert!(unit.starts_with("disk 0"), "{unit}");
    assert_eq!((one.held(), other.held()), (1, 1), "both were asked");
    // No task is at work: it may be served anew at once.
    targets.add(target_of(SECOND, [first])).unwrap();
    let mut host = ready(&rig, SECOND);
    assert!(host.run(&Command::read(0, 1)).good() == pattern(512, 1));
    one.heal();
}

/// The image of the moment in which a target is taken away is too old where its hosts went on until they were
/// logged out, also where a disk does not let go of the last of them.
#[test]
fn what_hosts_reserve_while_a_target_ends_counts_although_a_disk_hangs() {
    let rig = empty();
    let targets = rig.server().targets();
    let (disk, device) = faulty();
    let again = || targets.add(target_of(SECOND, [device.clone()]));
    again().unwrap();
    let mut host = ready(&rig, SECOND);
    disk.inject(Rule::always(Operation::Write, Fault::Hang).times(1));
    host.issue(&Command::write(0, &pattern(512, 1)).immediate_data());
    wait_until("the write is at the disk", || disk.held() == 1);
    let ending = {
        let targets = rig.server().targets();
        let first = rig.server().first_core();
        let (done, ended) = std::sync::mpsc::channel();
        first.run(move || {
            ring::spawn(async move {
                done.send(targets.set_offline(SECOND, Duration::from_secs(1)).await).unwrap();
            });
        });
        ended
    };
    assert_eq!(next_event(&mut host).event, AsyncEvent::LOGOUT_REQUEST);
    let list = reserve_list(0, 0xaaaa, false);
    host.run(&Command::new(reserve_out(0, 0)).writing(&list)).good();
    let ended = ending.recv().unwrap();
    assert!(matches!(ended, Err(TargetError::Busy(_))), "{ended:?}");
    disk.release();
    wait_until("the last task is over", || again().is_ok());
    let keys = ready(&rig, SECOND).run(&Command::new(reserve_in(0)).reading(256)).good();
    assert_eq!(keys[8..], 0xaaaa_u64.to_be_bytes(), "its registration counts");
}

#[test]
fn who_does_not_log_out_is_dropped_and_may_try_again_while_the_target_is_offline() {
    let rig = Rig::two_cores();
    let mut deaf = rig.ready("host");
    let short = Duration::from_millis(50);
    on_core(rig.server(), move |targets| async move { targets.set_offline(IQN, short).await })
        .unwrap();
    assert_eq!(next_event(&mut deaf).event, AsyncEvent::LOGOUT_REQUEST);
    assert_eq!(next_event(&mut deaf).event, AsyncEvent::SESSION_DROP);
    deaf.expect_closed();
    assert_eq!(to(IQN).connect(rig.portal()).err(), UNAVAILABLE);
    assert_eq!(discovered(&rig, "host"), Vec::<String>::new());

    // One that was never served can be offline too; one that is removed is forgotten.
    on_core(rig.server(), move |targets| async move { targets.set_offline(THIRD, short).await })
        .unwrap();
    assert_eq!(to(THIRD).connect(rig.portal()).err(), UNAVAILABLE);
    on_core(rig.server(), move |targets| async move { targets.remove(THIRD, short).await })
        .unwrap();
    assert_eq!(to(THIRD).connect(rig.portal()).err(), NOT_FOUND);

    rig.server().targets().add(target_of(IQN, [ram()])).unwrap();
    rig.ready("host").expect_alive();
}

#[test]
fn a_removal_waits_for_the_disk_and_later_writes_do_not_reach_it() {
    let (disk, device) = faulty();
    let rig = Rig::start(config([device]));
    let mut host = rig.ready("host");
    disk.inject(Rule::always(Operation::Write, Fault::Hang));
    host.issue(&Command::write(0, &pattern(64 << 10, 3)));
    let r2t = host.receive_kind(Opcode::R2T);
    host.answer_r2t(&iscsi::pdu::R2t::parse(&r2t.bhs).unwrap());
    wait_until("the disk works on it", || disk.held() == 1);
    let release = disk.clone();
    std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(200));
        release.release();
    });
    let start = Instant::now();
    let no_grace = Duration::ZERO;
    on_core(rig.server(), move |targets| async move { targets.remove(IQN, no_grace).await })
        .unwrap();
    assert!(start.elapsed() >= Duration::from_millis(150), "{:?}", start.elapsed());
    assert_eq!(disk.held(), 0);
}

#[test]
fn a_target_may_have_rules_of_its_own() {
    let rig = empty();
    let targets = rig.server().targets();
    targets.add(target_of(IQN, [ram()])).unwrap();
    let mut guarded = target_of(SECOND, [ram()]);
    let friend = AccessRule::initiator("iqn.2026-11.example:friend");
    guarded.access = Some(Access::uniform(vec![friend], None, None));
    targets.add(guarded).unwrap();
    assert_eq!(discovered(&rig, "host"), [IQN], "what it may not use it does not see");
    assert_eq!(discovered(&rig, "friend"), [SECOND, IQN]);
    let refused = Some(NoLogin::Refused(LoginStatus::AUTHORIZATION_FAILURE));
    assert_eq!(to(SECOND).connect(rig.portal()).err(), refused);
    Login { target: Some(SECOND.to_owned()), ..Login::new("friend") }
        .connect(rig.portal())
        .unwrap();
}

#[test]
fn a_target_that_cannot_be_is_refused_and_changes_nothing() {
    let rig = Rig::ram();
    let targets = rig.server().targets();
    assert!(matches!(targets.add(target_of(IQN, [ram()])), Err(TargetError::Taken(_))));
    assert!(matches!(targets.add(target_of(SECOND, [])), Err(TargetError::Empty(_))));
    let nameless = targets.add(target_of("second", [ram()]));
    assert!(matches!(nameless, Err(TargetError::Name { .. })));
    assert_eq!(targets.list().len(), 1);
    rig.ready("host").expect_alive();
}

#[test]
fn nobody_gets_in_before_the_server_listens() {
    let mut config = config([]);
    config.targets.clear();
    let mut server = target::Server::launch(config).unwrap();
    server.targets().add(target_of(IQN, [ram()])).unwrap();
    server.listen().unwrap();
    to(IQN).connect(server.portals()[0]).unwrap().take_attentions(0);

    // The targets end first, then the cores: what is below can be closed in between.
    server.end_targets(Duration::ZERO).unwrap();
    assert_eq!(server.sessions(), 0);
    assert!(matches!(server.targets().add(target_of(IQN, [ram()])), Err(TargetError::Stopping)));
    server.shutdown(Duration::ZERO).unwrap();
}

#[test]
fn a_reset_of_one_target_leaves_the_tasks_of_another_alone() {
    let rig = empty();
    let targets = rig.server().targets();
    targets.add(target_of(IQN, [ram()])).unwrap();
    let (disk, device) = faulty();
    targets.add(target_of(SECOND, [device])).unwrap();
    let (mut resets, mut works) = (ready(&rig, IQN), ready(&rig, SECOND));
    disk.inject(Rule::always(Operation::Read, Fault::Hang).times(1));
    let read = works.issue(&Command::read(0, 8));
    wait_until("the disk works on it", || disk.held() == 1);
    for function in [TaskFunction::LOGICAL_UNIT_RESET, TaskFunction::TARGET_WARM_RESET] {
        assert_eq!(resets.manage_unit(function, 0), TaskResult::COMPLETE);
    }
    disk.release();
    works.finish(read).good();
    assert_eq!(works.take_attentions(0), [], "it was not its unit");
}

#[test]
fn every_host_hears_that_a_unit_has_grown() {
    let (disk, device) = faulty();
    disk.resize(1000);
    let mut config = config([device]);
    config.cores = 2;
    let rig = Rig::start(config);
    let mut hosts = [rig.ready("a"), rig.ready("b")];
    assert_eq!(hosts[0].run(&Command::read(1000, 1)).check(), (5, 0x21, 0x00));
    disk.resize(2000);
    rig.server().targets().resized(IQN);
    for host in &mut hosts {
        let done = host.run(&Command::new(test_unit_ready()));
        assert_eq!(done.check(), (6, 0x2a, 0x09), "CAPACITY DATA HAS CHANGED");
        host.run(&Command::read(1999, 1)).good();
    }
    rig.server().targets().resized(IQN);
    hosts[0].run(&Command::new(test_unit_ready())).good();

    rig.server().targets().warn_of_space();
    let done = hosts[1].run(&Command::new(test_unit_ready()));
    assert_eq!(done.check(), (6, 0x38, 0x07), "THIN PROVISIONING SOFT THRESHOLD REACHED");
}

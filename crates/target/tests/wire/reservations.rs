//! Persistent reservations (SPC-5 §5.14) between hosts, and over a restart of the target.

use std::sync::Arc;
use std::time::Duration;

use block::testing::{Fault, Operation, Rule};
use iscsi::pdu::LoginStatus;
use target::{Config, FileStore, REGISTRATIONS_MAX, Record, TargetError};

use crate::common::{
    A_MOMENT, Command, Connection, HeldStore, IQN, Login, NoLogin, Rig, config, faulty,
    mode_select, on_core, pattern, ram, reserve_in, reserve_list, reserve_out, target_of,
    wait_until,
};

const SECOND: &str = "iqn.2026-11.dev.drystone:second";
const THIRD: &str = "iqn.2026-11.dev.drystone:third";

const REGISTER: u8 = 0;
const RESERVE: u8 = 1;
const CLEAR: u8 = 3;
const PREEMPT: u8 = 4;
const PREEMPT_AND_ABORT: u8 = 5;
const WRITE_EXCLUSIVE: u8 = 1;
const EXCLUSIVE_ACCESS: u8 = 3;
/// The status TASK ABORTED (SAM-5 §5.3.1).
const TASK_ABORTED: u8 = 0x40;
const CONFLICT: u8 = 0x18;

fn reserve(host: &mut Connection, action: u8, kind: u8, list: &[u8]) {
    host.run(&Command::new(reserve_out(action, kind)).writing(list)).good();
}

fn register(host: &mut Connection, key: u64, aptpl: bool) {
    reserve(host, REGISTER, 0, &reserve_list(0, key, aptpl));
}

fn keys(host: &mut Connection) -> Vec<u64> {
    let list = host.run(&Command::new(reserve_in(0)).reading(256)).good();
    list[8..].chunks(8).map(|key| u64::from_be_bytes(key.try_into().unwrap())).collect()
}

fn write(seed: u32) -> Command {
    Command::write(4, &pattern(512, seed)).immediate_data()
}

#[test]
fn a_reservation_keeps_others_out_on_all_cores() {
    let rig = Rig::two_cores();
    let mut host = rig.ready("host");
    let mut others = [rig.ready("b"), rig.ready("c")];
    register(&mut host, 0xaaaa, false);
    reserve(&mut host, RESERVE, WRITE_EXCLUSIVE, &reserve_list(0xaaaa, 0, false));
    host.run(&write(1)).good();
    for other in &mut others {
        assert_eq!(other.run(&write(2)).status, CONFLICT);
        assert!(other.run(&Command::read(4, 1)).good() == pattern(512, 1));
        // A write whose data is on its way is refused before any data is asked for.
        assert_eq!(other.run(&Command::unsent_write(4, 8)).status, CONFLICT);
    }
    reserve(&mut host, CLEAR, 0, &reserve_list(0xaaaa, 0, false));
    others[0].run(&write(3)).good();
}

#[test]
fn reservations_with_aptpl_survive_a_restart_and_others_do_not() {
    let disk = ram();
    let rig = Rig::start(config([disk.clone()]));
    let mut host = rig.ready("host");
    register(&mut host, 0xaaaa, true);
    reserve(&mut host, RESERVE, EXCLUSIVE_ACCESS, &reserve_list(0xaaaa, 0, false));
    host.run(&write(1)).good();
    host.close();
    let (result, state) = rig.stop(Duration::ZERO);
    result.unwrap();

    let rig = Rig::restart(config([disk.clone()]), state);
    let mut other = rig.ready("other");
    assert_eq!(other.run(&Command::read(4, 1)).status, CONFLICT);
    let mut host = rig.ready("host");
    assert_eq!(keys(&mut host), [0xaaaa]);
    assert!(host.run(&Command::read(4, 1)).good() == pattern(512, 1));
    // APTPL=0 with a new key: forgotten at the next restart.
    reserve(&mut host, REGISTER, 0, &reserve_list(0xaaaa, 0xbbbb, false));
    host.close();
    let (result, state) = rig.stop(Duration::ZERO);
    result.unwrap();

    let rig = Rig::restart(config([disk]), state);
    let mut other = rig.ready("other");
    other.run(&Command::read(4, 1)).good();
    assert_eq!(keys(&mut other), []);
}

#[test]
fn a_target_that_is_away_for_a_while_keeps_others_out_when_it_is_back() {
    let rig = Rig::ram();
    let disk = ram();
    let back = || rig.server().targets().add(target_of(SECOND, [disk.clone()])).unwrap();
    let to_second = |name: &str| {
        let login = Login { target: Some(SECOND.to_owned()), ..Login::new(name) };
        let mut host = login.connect(rig.portal()).unwrap();
        host.take_attentions(0);
        host
    };
    back();
    let mut host = to_second("host");
    register(&mut host, 0xaaaa, false);
    reserve(&mut host, RESERVE, EXCLUSIVE_ACCESS, &reserve_list(0xaaaa, 0, false));
    for _ in 0..2 {
        on_core(rig.server(), |targets| async move {
            // Twice: it is offline already.
            targets.set_offline(SECOND, Duration::ZERO).await.unwrap();
            targets.set_offline(SECOND, Duration::ZERO).await
        })
        .unwrap();
        back();
        assert_eq!(to_second("other").run(&write(2)).status, CONFLICT, "without APTPL, too");
    }
    let mut host = to_second("host");
    assert_eq!(keys(&mut host), [0xaaaa]);
    host.run(&write(1)).good();
    // One that was taken away for good knows nobody.
    on_core(rig.server(), |targets| async move { targets.remove(SECOND, Duration::ZERO).await })
        .unwrap();
    back();
    to_second("other").run(&write(2)).good();
}

/// Nothing of it is saved, and a server of another portal group goes on with it.
#[test]
fn reservations_without_aptpl_pass_to_another_server_and_end_with_its_power() {
    let disk = ram();
    let from = Rig::ram();
    let to = Rig::start(Config { port_group: 7, ..config([ram()]) });
    let serve = |rig: &Rig| rig.server().targets().add(target_of(SECOND, [disk.clone()])).unwrap();
    let log_in = |rig: &Rig, name: &str| {
        let login = Login { target: Some(SECOND.to_owned()), ..Login::new(name) };
        let mut host = login.connect(rig.portal()).unwrap();
        host.take_attentions(0);
        host
    };
    let offline = |rig: &Rig| {
        on_core(rig.server(), |targets| async move {
            targets.set_offline(SECOND, Duration::ZERO).await
        })
        .unwrap();
        rig.server().targets().kept_reservations("second-0")
    };
    serve(&from);
    assert_eq!(from.server().targets().kept_reservations("second-0"), None, "it is served");
    let mut host = log_in(&from, "host");
    register(&mut host, 0xaaaa, false);
    reserve(&mut host, RESERVE, EXCLUSIVE_ACCESS, &reserve_list(0xaaaa, 0, false));
    let kept = offline(&from).expect("it was served");
    assert_eq!(target::is_persistent(&kept), Ok(false));

    let image = target::with_port(&kept, 1, 7).unwrap();
    to.server().targets().keep_reservations("second-0", Some(image.clone()));
    serve(&to);
    assert_eq!(log_in(&to, "other").run(&write(1)).status, CONFLICT, "who was kept out is");
    let mut host = log_in(&to, "host");
    host.run(&write(2)).good();
    assert_eq!(keys(&mut host), [0xaaaa]);

    // It has lost its power, and so has what was kept of it.
    let again = offline(&to).expect("it was served");
    assert_eq!(target::with_port(&again, 7, 1).unwrap(), kept);
    to.server().targets().keep_reservations("second-0", None);
    serve(&to);
    log_in(&to, "other").run(&write(3)).good();
}

#[test]
fn a_unit_keeps_its_reservations_under_another_name_and_old_ones_never_come_back() {
    let rig = Rig::ram();
    let disk = ram();
    let serve = |iqn: &str| {
        let mut spec = target_of(iqn, [disk.clone()]);
        "the same volume".clone_into(&mut spec.units[0].serial);
        rig.server().targets().add(spec).unwrap();
    };
    let rename = |from: &'static str, to: &'static str| {
        on_core(rig.server(), move |targets| async move {
            targets.set_offline(from, Duration::ZERO).await
        })
        .unwrap();
        serve(to);
        rig.server().targets().retain_names(|name| name != from);
    };
    let to = |iqn: &str, name: &str| {
        let login = Login { target: Some(iqn.to_owned()), ..Login::new(name) };
        let mut host = login.connect(rig.portal()).unwrap();
        host.take_attentions(0);
        host
    };
    serve(SECOND);
    let mut first = to(SECOND, "first");
    register(&mut first, 0xaaaa, false);
    reserve(&mut first, RESERVE, EXCLUSIVE_ACCESS, &reserve_list(0xaaaa, 0, false));

    rename(SECOND, THIRD);
    let mut second = to(THIRD, "second");
    assert_eq!(second.run(&write(2)).status, CONFLICT, "whoever was kept out is");
    let late = Login { target: Some(SECOND.to_owned()), ..Login::new("late") };
    let not_found = Some(NoLogin::Refused(LoginStatus::NOT_FOUND));
    assert_eq!(late.connect(rig.portal()).err(), not_found, "nobody has this name now");
    register(&mut second, 0xbbbb, true);
    reserve(&mut second, PREEMPT, EXCLUSIVE_ACCESS, &reserve_list(0xbbbb, 0xaaaa, true));

    rename(THIRD, SECOND);
    assert_eq!(keys(&mut to(SECOND, "second")), [0xbbbb], "the first was fenced off meanwhile");
    assert_eq!(to(SECOND, "first").run(&write(1)).status, CONFLICT);
}

#[test]
fn preempt_and_abort_ends_the_running_task_of_the_other() {
    for action in [PREEMPT, PREEMPT_AND_ABORT] {
        let (disk, device) = faulty();
        let mut config = config([device]);
        config.cores = 2;
        let rig = Rig::start(config);
        let mut victim = rig.ready("victim");
        let mut host = rig.ready("host");
        register(&mut victim, 0xaaaa, false);
        register(&mut host, 0xbbbb, false);
        reserve(&mut victim, RESERVE, EXCLUSIVE_ACCESS, &reserve_list(0xaaaa, 0, false));
        disk.inject(Rule::always(Operation::Write, Fault::Hang).times(1));
        let stuck = victim.issue(&write(1));
        wait_until("the write is at the disk", || disk.held() == 1);
        let waiting = victim.issue(&Command::unsent_write(9, 1));
        let r2t = victim.receive_r2t(waiting);
        let list = reserve_list(0xbbbb, 0xaaaa, false);
        let preempt = host.issue(
            &Command::new(reserve_out(action, EXCLUSIVE_ACCESS)).writing(&list).immediate_data(),
        );
        if action == PREEMPT_AND_ABORT {
            host.expect_silence(A_MOMENT);
            disk.release();
            host.finish(preempt).good();
            for ended in [waiting, stuck] {
                assert_eq!(victim.finish(ended).status, TASK_ABORTED);
            }
            victim.send_burst(waiting, r2t.ttt, 0, 0, &[1; 512]);
            victim.expect_silence(A_MOMENT);
        } else {
            // Tasks that have begun go on.
            host.finish(preempt).good();
            disk.release();
            victim.finish(stuck).good();
        }
        // The victim hears of it, once, by a command that the reservation lets through (SAM-5
        // §5.3.3 ranks the conflict above it).
        assert_eq!(victim.run(&Command::read(0, 1)).status, CONFLICT);
        let attentions = victim.take_attentions(0);
        assert_eq!(attentions, [(0x2a, 0x05)], "REGISTRATIONS PREEMPTED");
        assert_eq!(victim.run(&Command::read(0, 1)).status, CONFLICT);
        assert_eq!(keys(&mut host), [0xbbbb]);
    }
}

/// A host may preempt itself; the command that does so must not wait for its own end.
#[test]
fn preempt_and_abort_of_oneself_does_not_hang() {
    let rig = Rig::two_cores();
    let mut host = rig.ready("host");
    register(&mut host, 0xaaaa, false);
    reserve(&mut host, RESERVE, EXCLUSIVE_ACCESS, &reserve_list(0xaaaa, 0, false));
    let list = reserve_list(0xaaaa, 0xaaaa, false);
    let preempt = Command::new(reserve_out(PREEMPT_AND_ABORT, EXCLUSIVE_ACCESS)).writing(&list);
    let itt = host.issue(&preempt);
    host.finish(itt);
    host.take_attentions(0);
    host.run(&write(1)).good();
}

#[test]
fn a_unit_attention_comes_once_to_each_nexus_whichever_connection_asks() {
    let rig = Rig::two_cores();
    let mut a = rig.ready("host");
    let login = crate::common::Login::new("host");
    let mut b = login.joining(&a, 1).connect(rig.portal()).unwrap();
    let mut other = rig.ready("other");
    // WCE=0 in the caching page.
    let mut uncached = [0; 24];
    uncached[4..7].copy_from_slice(&[0x08, 0x12, 0]);
    other.run(&Command::new(mode_select(24)).writing(&uncached)).good();
    // INQUIRY neither reports nor clears it.
    a.expect_alive();
    assert_eq!(b.run(&Command::read(0, 1)).check(), (0x06, 0x2a, 0x01));
    a.run(&Command::read(0, 1)).good();
    b.run(&Command::read(0, 1)).good();
}

#[test]
fn a_target_whose_saved_reservations_are_damaged_does_not_start() {
    let state = tempfile::tempdir().unwrap();
    std::fs::write(state.path().join("test-0.reservations"), b"not a reservation").unwrap();
    let mut config = config([ram()]);
    config.store = Arc::new(FileStore::new(state.path()).unwrap());
    let error = target::Server::start(config).unwrap_err();
    assert!(error.to_string().contains("test-0.reservations"), "{error}");
}

#[test]
fn who_is_registered_is_known_by_what_is_proved() {
    let rig = Rig::two_cores();
    let targets = rig.server().targets();
    assert_eq!(targets.registrations(), []);
    let (mut a, mut b) = (rig.ready("a"), rig.ready("b"));
    register(&mut a, 1, false);
    register(&mut b, 2, true);
    let [unit] = &targets.registrations()[..] else { panic!("one unit has registrations") };
    let hosts: Vec<_> = unit.hosts.iter().map(|(name, count)| (&**name, *count)).collect();
    assert_eq!((unit.serial.as_str(), &hosts[..]), ("test-0", &[("address 127.0.0.1", 2)][..]));
    reserve(&mut a, CLEAR, 0, &reserve_list(1, 0, false));
    assert_eq!(targets.registrations(), []);
}

/// Hosts that change their registrations at the same time: what each was told holds for good.
#[test]
fn registrations_of_many_hosts_at_once_all_last() {
    const HOSTS: u64 = 7;
    const ROUNDS: u64 = 30;
    let disk = ram();
    let mut first = config([disk.clone()]);
    first.cores = 2;
    let rig = Rig::start(first);
    let hosts: Vec<_> = (0..HOSTS).map(|index| rig.ready(&format!("host{index}"))).collect();
    std::thread::scope(|scope| {
        for (index, mut host) in (1..).zip(hosts) {
            scope.spawn(move || {
                for round in 0..ROUNDS {
                    let (old, new) = (round << 8 | index, (round + 1) << 8 | index);
                    let old = if round == 0 { 0 } else { old };
                    reserve(&mut host, REGISTER, 0, &reserve_list(old, new, true));
                }
            });
        }
    });
    let expected: Vec<u64> = (1..=HOSTS).map(|index| ROUNDS << 8 | index).collect();
    let all = |host: &mut Connection| {
        let mut all = keys(host);
        all.sort_unstable();
        all
    };
    assert_eq!(all(&mut rig.ready("reader")), expected);
    let (result, state) = rig.stop(Duration::ZERO);
    result.unwrap();
    let rig = Rig::restart(config([disk]), state);
    assert_eq!(all(&mut rig.ready("reader")), expected, "and after a restart");
}

/// A fence waits for its turn, not for all that others have to register.
#[test]
fn no_host_keeps_others_from_changing_reservations() {
    let mut config = config([ram()]);
    config.cores = 2;
    let rig = Rig::start(config);
    let hosts: Vec<_> = (0..6).map(|index| rig.ready(&format!("host{index}"))).collect();
    let begun = std::time::Instant::now();
    let counts: Vec<u64> = std::thread::scope(|scope| {
        let run = |mut host: Connection| {
            scope.spawn(move || {
                let mut count = 0;
                while begun.elapsed() < Duration::from_secs(1) {
                    reserve(&mut host, REGISTER, 0, &reserve_list(count, count + 1, true));
                    count += 1;
                }
                count
            })
        };
        let threads: Vec<_> = hosts.into_iter().map(run).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    let (least, most) = (counts.iter().min().unwrap(), counts.iter().max().unwrap());
    assert!(least * 4 > *most, "each is to have its turn: {counts:?}");
}

/// A reservation that cannot be made to last has not happened.
#[test]
fn a_reservation_that_cannot_be_saved_fails() {
    let state = tempfile::tempdir().unwrap();
    let path = state.path().to_owned();
    let rig = Rig::restart(config([ram()]), state);
    let mut host = rig.ready("host");
    std::fs::remove_dir_all(&path).unwrap();
    let command = Command::new(reserve_out(REGISTER, 0)).writing(&reserve_list(0, 0xaaaa, true));
    assert_ne!(host.run(&command).status, 0);
    assert_eq!(keys(&mut host), []);
}

/// Nor has its end by an operator, which none of its hosts would know of after a loss of power.
#[test]
fn a_reservation_whose_end_cannot_be_saved_stands() {
    let state = tempfile::tempdir().unwrap();
    let path = state.path().to_owned();
    let rig = Rig::restart(config([ram()]), state);
    let mut host = rig.ready("host");
    let mut other = rig.ready("other");
    register(&mut host, 0xaaaa, true);
    reserve(&mut host, RESERVE, EXCLUSIVE_ACCESS, &reserve_list(0xaaaa, 0, false));
    let clear =
        || on_core(rig.server(), |targets| async move { targets.clear_reservations(IQN).await });
    std::fs::rename(&path, path.with_extension("away")).unwrap();
    assert!(matches!(clear(), Err(TargetError::Unsaved { .. })));
    assert_eq!(other.run(&write(1)).status, CONFLICT);
    std::fs::rename(path.with_extension("away"), &path).unwrap();
    assert_eq!(clear().unwrap(), 1);
    other.run(&write(2)).good();
    assert_eq!(host.run(&write(3)).check(), (0x06, 0x2a, 0x03), "RESERVATIONS PREEMPTED");
    assert_eq!(clear().unwrap(), 0, "there is nothing more");
    // A RESERVE of SPC-2 ends, too.
    let mut reserve_6 = [0; 16];
    reserve_6[0] = 0x16;
    other.run(&Command::new(reserve_6)).good();
    assert_eq!(host.run(&write(4)).status, CONFLICT);
    clear().unwrap();
    host.run(&write(5)).good();
}

/// A name is a claim, and costs nothing: who comes under a thousand of them leaves to others what it takes to fence him
/// off.
#[test]
fn registrations_are_counted_for_what_is_proved_and_not_for_a_name() {
    let rig = Rig::ram();
    let come = |login: Login| {
        let mut host = login.connect(rig.portal()).unwrap();
        while host.run(&Command::new([0; 16])).status != 0 {}
        host
    };
    let registers = |host: &mut Connection| {
        let list = reserve_list(0, 0x666, true);
        host.run(&Command::new(reserve_out(REGISTER, 0)).writing(&list)).status == 0
    };
    let evil = |n: usize| come(Login::new(&format!("evil{n}")));
    let half = REGISTRATIONS_MAX / 2;
    assert_eq!((0..=half).filter(|n| registers(&mut evil(*n))).count(), half);
    reserve(&mut evil(0), RESERVE, EXCLUSIVE_ACCESS, &reserve_list(0x666, 0, true));
    // From another address, or as a user: somebody else.
    let mut good = come(Login::new("evil0").from(2));
    assert_eq!(good.run(&write(1)).status, 0, "it has taken the name, and the nexus");
    let mut good = come(Login::new("good").from(2));
    assert_eq!(good.run(&write(1)).status, CONFLICT);
    assert!(registers(&mut good));
    reserve(&mut good, CLEAR, 0, &reserve_list(0x666, 0, true));
    good.run(&write(1)).good();
}

/// What is being saved is in nobody's way and seen by nobody, and if it cannot be saved it has never been:
/// nothing that others were told meanwhile is taken back.
#[test]
fn what_is_being_saved_is_seen_by_nobody() {
    for well in [true, false] {
        let store = HeldStore::default();
        let mut config = config([ram()]);
        config.cores = 2;
        config.store = Arc::new(store.clone());
        let rig = Rig::with_store(config);
        let mut host = rig.ready("host");
        let mut other = rig.ready("other");
        register(&mut host, 0xaaaa, true);
        store.hold();
        let list = reserve_list(0xaaaa, 0, true);
        let reserving = host.issue(
            &Command::new(reserve_out(RESERVE, EXCLUSIVE_ACCESS)).writing(&list).immediate_data(),
        );
        wait_until("it is being saved", || store.held() == 1);
        other.run(&write(1)).good();
        assert_eq!(keys(&mut other), [0xaaaa]);
        store.release(well);
        assert_eq!(host.finish(reserving).status == 0, well);
        assert_eq!(other.run(&write(2)).status == CONFLICT, well);
    }
}

/// Changes that come while one is being saved are saved together, and each is answered for what came
/// before it.
#[test]
fn changes_that_wait_are_saved_together() {
    const HOSTS: u64 = 6;
    for well in [true, false] {
        let store = HeldStore::default();
        let mut config = config([ram()]);
        config.cores = 2;
        config.store = Arc::new(store.clone());
        let rig = Rig::with_store(config);
        let mut first = rig.ready("first");
        let mut hosts: Vec<_> = (0..HOSTS).map(|n| rig.ready(&format!("host{n}"))).collect();
        register(&mut first, 0xff, true);
        let before = store.saves();
        store.hold();
        let change = |host: &mut Connection, action, list: &[u8]| {
            host.issue(
                &Command::new(reserve_out(action, WRITE_EXCLUSIVE)).writing(list).immediate_data(),
            )
        };
        let mut all = vec![change(&mut first, RESERVE, &reserve_list(0xff, 0, true))];
        wait_until("it is being saved", || store.held() == 1);
        for (n, host) in (1..).zip(&mut hosts) {
            all.push(change(host, REGISTER, &reserve_list(0, n, true)));
        }
        // All have come: on two cores what is sent later is not always received later.
        hosts.iter_mut().for_each(|host| assert!(host.ping(b"").is_empty()));
        // A fence that comes last, of one that has been registered just before.
        let fence = first.issue(
            &Command::new(reserve_out(PREEMPT, WRITE_EXCLUSIVE))
                .writing(&reserve_list(0xff, 1, true))
                .immediate_data(),
        );
        assert!(first.ping(b"").is_empty());
        std::thread::sleep(A_MOMENT);
        assert_eq!(store.held(), 1, "one at a time");
        store.release(well);
        assert_eq!(first.finish(all[0]).status == 0, well, "the one that was being saved");
        for (host, itt) in hosts.iter_mut().zip(&all[1..]) {
            host.finish(*itt).good();
        }
        first.finish(fence).good();
        assert_eq!(store.saves() - before, 2);
        let mut left = keys(&mut first);
        left.sort_unstable();
        let expected: Vec<u64> = (2..=HOSTS).chain([0xff]).collect();
        assert_eq!(left, expected);
        let image = store.image("test-0", Record::Reservations);
        drop((first, hosts));
        rig.stop_with_store();
        let mut config = crate::common::config([ram()]);
        config.store = Arc::new(store.clone());
        let again = Rig::with_store(config);
        let mut left = keys(&mut again.ready("reader"));
        left.sort_unstable();
        assert_eq!(left, expected, "and after a restart, by {image:x?}");
    }
}

/// Changes that cannot be saved together are made one by one: each fails for itself, and who only asked for
/// what it has anyway is not told otherwise.
#[test]
fn changes_that_cannot_be_saved_fail_each_for_itself() {
    let store = HeldStore::default();
    let mut config = config([ram()]);
    config.store = Arc::new(store.clone());
    let rig = Rig::with_store(config);
    let mut hosts: Vec<_> = (0..4).map(|n| rig.ready(&format!("host{n}"))).collect();
    register(&mut hosts[0], 1, true);
    store.hold();
    let change = |host: &mut Connection, old, new| {
        let list = reserve_list(old, new, true);
        host.issue(&Command::new(reserve_out(REGISTER, 0)).writing(&list).immediate_data())
    };
    let first = change(&mut hosts[0], 1, 2);
    wait_until("it is being saved", || store.held() == 1);
    let failing = change(&mut hosts[1], 0, 5);
    // Another key than it has: a conflict, with and without those before it.
    let conflict = change(&mut hosts[2], 7, 8);
    // It is not registered, and does not want to be.
    let nothing = change(&mut hosts[3], 0, 0);
    hosts.iter_mut().for_each(|host| assert!(host.ping(b"").is_empty()));
    std::thread::sleep(A_MOMENT);
    store.end(true);
    hosts[0].finish(first).good();
    wait_until("the others are being saved", || store.held() == 1);
    store.end(false);
    wait_until("the first of them again, for itself", || store.held() == 1);
    store.release(false);
    assert_eq!(hosts[1].finish(failing).check(), (0x04, 0x44, 0x00));
    assert_eq!(hosts[2].finish(conflict).status, CONFLICT);
    hosts[3].finish(nothing).good();
    assert_eq!(keys(&mut hosts[0]), [2]);
}

//! What is counted of commands: which way, how many bytes, how long, and how they ended.

use std::net::SocketAddr;
use std::sync::mpsc;
use std::time::Duration;

use block::testing::{Fault, Operation, Rule};
use target::{Config, Figures, UnitFigures};

use crate::common::{
    A_MOMENT, Command, IQN, Login, Rig, config, faulty, on_core, pattern, ram, target_of,
    wait_until,
};

fn figures(rig: &Rig) -> Figures {
    on_core(rig.server(), |targets| async move { targets.figures().await })
}

fn of_unit(rig: &Rig) -> UnitFigures {
    figures(rig).units[0].figures
}

/// Reads and writes that were answered.
fn answered(rig: &Rig) -> (u64, u64) {
    let unit = of_unit(rig);
    (unit.reads.latency.count(), unit.writes.latency.count())
}

#[test]
fn commands_are_counted_by_their_way_their_bytes_and_how_they_ended() {
    let rig = Rig::ram();
    let mut host = rig.ready("host");
    let before = of_unit(&rig);
    host.run(&Command::write(0, &pattern(8 * 512, 1))).good();
    host.run(&Command::write(8, &pattern(512, 2)).immediate_data()).good();
    for _ in 0..3 {
        host.run(&Command::read(0, 8)).good();
    }
    // Long enough to be sent in several chunks by a task.
    host.run(&Command::read(0, 2048)).good();
    // Beyond the end of the medium.
    host.run(&Command::read(u32::MAX - 8, 1));
    let now = of_unit(&rig);
    let reads = now.reads.latency.count() - before.reads.latency.count();
    assert_eq!((reads, now.reads.errors - before.reads.errors), (5, 1));
    assert_eq!(now.reads.bytes, (3 * 8 + 2048) * 512);
    assert_eq!((now.writes.latency.count(), now.writes.bytes), (2, 9 * 512));
    assert_eq!((now.writes.errors, now.writes.aborted, now.reads.aborted), (0, 0, 0));
    assert_eq!(now.others.errors, before.others.errors, "unit attentions are none");
    let all = figures(&rig);
    let [portal] = &all.portals[..] else { panic!("{:?}", all.portals) };
    assert_eq!((portal.portal, portal.connections), (rig.portal(), 1));
    assert_eq!((portal.read_bytes, portal.written_bytes), (now.reads.bytes, now.writes.bytes));
    let [core] = &all.cores[..] else { panic!("{:?}", all.cores) };
    assert!(core.connections == 1 && core.cpu > Duration::ZERO, "{core:?}");
}

#[test]
fn what_takes_long_is_counted_with_its_time_and_waits_until_then() {
    let (faults, disk) = faulty();
    let rig = Rig::start(config([disk]));
    let mut host = rig.ready("host");
    faults.inject(Rule::always(Operation::Read, Fault::Hang).times(1));
    let slow = host.issue(&Command::read(0, 8));
    wait_until("the read is at the disk", || figures(&rig).units[0].waiting == 1);
    std::thread::sleep(A_MOMENT);
    faults.release();
    host.finish(slow).good();
    let reads = of_unit(&rig).reads;
    let took = Duration::from_nanos(reads.latency.sum_ns);
    assert!(took >= A_MOMENT, "{took:?}");
    assert_eq!(reads.latency.counts[..10].iter().sum::<u64>(), 0, "{reads:?}");
    assert_eq!((reads.latency.count(), figures(&rig).units[0].waiting), (1, 0));
    let connections = on_core(rig.server(), |targets| async move { targets.connections().await });
    assert!(connections[0].latency.sum_ns >= reads.latency.sum_ns, "{connections:?}");
}

#[test]
fn an_aborted_command_counts_as_that_and_as_nothing_else() {
    let (faults, disk) = faulty();
    let rig = Rig::start(config([disk]));
    let mut host = rig.ready("host");
    faults.inject(Rule::always(Operation::Read, Fault::Hang).times(1));
    host.issue(&Command::read(0, 8));
    wait_until("the read is at the disk", || figures(&rig).units[0].waiting == 1);
    drop(host);
    wait_until("the connection is gone", || figures(&rig).cores[0].connections == 0);
    assert_eq!(
        (rig.server().sessions(), figures(&rig).units[0].waiting),
        (1, 1),
        "it waits for the disk"
    );
    faults.release();
    wait_until("the session is gone", || rig.server().sessions() == 0);
    let reads = of_unit(&rig).reads;
    assert_eq!((reads.aborted, reads.latency.count(), reads.bytes), (1, 0, 0));
}

#[test]
fn what_a_session_did_stays_counted_when_it_ends_and_when_its_target_was_away() {
    let rig = Rig::ram();
    for round in 1..=3 {
        let mut host = rig.ready("host");
        host.run(&Command::write(0, &pattern(512, round))).good();
        host.run(&Command::read(0, 1)).good();
        assert_eq!(answered(&rig), (round.into(), round.into()));
        drop(host);
        wait_until("the session is gone", || rig.server().sessions() == 0);
        assert_eq!(answered(&rig), (round.into(), round.into()));
    }
    assert_eq!(figures(&rig).portals[0].written_bytes, 3 * 512);
    on_core(rig.server(), |targets| async move {
        targets.set_offline(IQN, Duration::ZERO).await.unwrap();
        assert_eq!(targets.figures().await.units, []);
        targets.add(target_of(IQN, [ram()])).unwrap();
    });
    assert_eq!(answered(&rig), (3, 3));
}

/// The server asks its cores one after the other. The first one has told of its session when that ends; the
/// second one tells what it knows afterwards.
#[test]
fn a_session_that_ends_between_two_cores_is_counted_once() {
    let rig = Rig::two_cores();
    // One on each core.
    let mut hosts = [rig.ready("one"), rig.ready("two")];
    for host in &mut hosts {
        host.run(&Command::read(0, 1)).good();
    }
    assert_eq!(answered(&rig), (2, 0));
    let per_core: Vec<_> = figures(&rig).cores.iter().map(|core| core.connections).collect();
    assert_eq!(per_core, [1, 1]);
    // It goes to the first core, where there are no more connections than on the second one.
    let mut guest = rig.ready("guest");
    guest.run(&Command::read(0, 1)).good();
    let per_core: Vec<_> = figures(&rig).cores.iter().map(|core| core.connections).collect();
    assert_eq!(per_core, [2, 1]);
    let (release, held) = mpsc::channel::<()>();
    let (asked, answer) = mpsc::channel();
    on_core(rig.server(), move |targets| async move {
        ring::remote(ring::CoreId::from(1)).run(move || held.recv().unwrap());
        ring::spawn(async move { drop(asked.send(targets.figures().await)) });
    });
    drop(guest);
    wait_until("the guest has gone", || rig.server().sessions() == 2);
    assert!(answer.try_recv().is_err(), "the second core is held");
    release.send(()).unwrap();
    let figures = answer.recv().unwrap();
    assert_eq!(figures.units[0].figures.reads.latency.count(), 3);
    drop(hosts);
}

#[test]
fn figures_never_go_back_while_hosts_come_and_go_on_two_cores() {
    const LOGINS: u64 = 40;
    let rig = Rig::two_cores();
    let portal = rig.portal();
    let hosts: Vec<_> = (0..2)
        .map(|number| {
            std::thread::spawn(move || {
                for _ in 0..LOGINS {
                    let login = Login::new(&format!("host-{number}"));
                    let mut host = login.connect(portal).unwrap();
                    host.take_attentions(0);
                    host.run(&Command::read(0, 1)).good();
                }
            })
        })
        .collect();
    let mut last = 0;
    while hosts.iter().any(|host| !host.is_finished()) {
        let now = answered(&rig).0;
        assert!(last <= now && now <= 2 * LOGINS, "{last}, then {now}");
        last = now;
    }
    hosts.into_iter().for_each(|host| host.join().unwrap());
    assert_eq!(answered(&rig).0, 2 * LOGINS);
}

/// Each address of 127.0.0.0/8 that a host came to had figures of its own, for ever.
#[test]
fn a_portal_on_all_addresses_has_figures_of_so_many_of_them_and_no_more() {
    const ADDRESSES: u8 = 70;
    let rig = Rig::start(Config {
        portals: vec![SocketAddr::from(([0, 0, 0, 0], 0))],
        ..config([ram()])
    });
    for address in 1..=ADDRESSES {
        let at = SocketAddr::from(([127, 0, 0, address], rig.portal().port()));
        let mut host = Login::new("host").connect(at).unwrap();
        host.take_attentions(0);
        host.run(&Command::read(0, 1)).good();
    }
    let portals = figures(&rig).portals;
    assert_eq!(portals.len(), 64 + 1, "{portals:?}");
    let rest = portals.iter().find(|one| one.portal == rig.portal()).expect("the portal itself");
    assert_eq!(rest.read_bytes, 6 * 512);
    let all: u64 = portals.iter().map(|one| one.read_bytes).sum();
    assert_eq!(all, u64::from(ADDRESSES) * 512);
}

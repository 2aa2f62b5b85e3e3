//! Trouble: targets that restart, paths that are cut, frozen or spoiled, under load that is verified.

#![allow(clippy::unwrap_used, reason = "helpers of tests fail like tests")]

mod common;

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use block::testing::{Fault, FaultyDisk, Operation, Rule};
use block::{BlockDevice, BlockError, Compared, WriteFlags};
use common::{
    Load, Proxy, address, bytes, config, data, disk_options, door, on_core, ram, serve, servers,
    session_options,
};
use initiator::paths::PathState;
use initiator::{Disk, DiskOptions};

#[test]
fn a_target_restarts_under_verified_load() {
    let medium = ram(1);
    let mut server = Some(serve(config(medium.clone())));
    let portal = server.as_ref().unwrap().portals()[0];
    on_core(async move {
        let disk = Arc::new(Disk::attach(&[address(portal)], disk_options()).await.unwrap());
        let load = Load::start(&disk);
        for _ in 0..3 {
            load.progress(100).await;
            drop(server.take());
            let mut again = config(medium.clone());
            again.portals = vec![portal];
            server = Some(serve(again));
        }
        load.progress(100).await;
        load.end().await;
    });
}

#[test]
fn a_target_that_stops_in_order_is_left_and_found_again() {
    let medium = ram(1);
    let server = serve(config(medium.clone()));
    let portal = server.portals()[0];
    on_core(async move {
        let disk = Arc::new(Disk::attach(&[address(portal)], disk_options()).await.unwrap());
        let load = Load::start(&disk);
        load.progress(50).await;
        let (ended, end) = std::sync::mpsc::channel();
        std::thread::spawn(move || ended.send(server.shutdown(Duration::from_secs(10))).unwrap());
        let since = Instant::now();
        while let Err(std::sync::mpsc::TryRecvError::Empty) = end.try_recv() {
            ring::sleep(Duration::from_millis(10)).await;
        }
        assert!(since.elapsed() < Duration::from_secs(8), "it was asked to log out, and did");
        let mut again = config(medium.clone());
        again.portals = vec![portal];
        let _server = serve(again);
        load.progress(50).await;
        load.end().await;
    });
}

/// A member asks for a logout, and its sessions are sent elsewhere, as when a group spreads them anew:
/// nothing has failed, so the path is used again at once.
#[test]
fn a_path_that_was_asked_to_leave_need_not_prove_itself() {
    let [stays, leaves, takes] = servers(&ram(1));
    let (door, to) = door(leaves.portals()[0]);
    on_core(async move {
        let paths = [address(stays.portals()[0]), address(door.portals()[0])];
        let disk = Arc::new(Disk::attach(&paths, disk_options()).await.unwrap());
        let load = Load::start(&disk);
        load.progress(50).await;
        to.set(takes.portals()[0]);
        let stopped = std::thread::spawn(move || leaves.shutdown(Duration::from_secs(10)));
        while takes.sessions() == 0 || !stopped.is_finished() {
            let state = disk.paths().await[1].status.state;
            assert!(matches!(state, PathState::Active | PathState::Suspended), "{state:?}");
            ring::sleep(Duration::from_millis(2)).await;
        }
        stopped.join().unwrap().unwrap();
        until_state(&disk, 1, |state| state == PathState::Active).await;
        assert_eq!(disk.paths().await[1].status.losses, 0);
        load.end().await;
    });
}

/// A disk over two paths, each with a network of its own.
async fn two_paths(paths: &[&Proxy], options: DiskOptions) -> Arc<Disk> {
    let addresses: Vec<_> = paths.iter().map(|path| address(path.address)).collect();
    Arc::new(Disk::attach(&addresses, options).await.unwrap())
}

async fn until_state(disk: &Disk, path: usize, wanted: fn(PathState) -> bool) {
    while !wanted(disk.paths().await[path].status.state) {
        ring::sleep(Duration::from_millis(10)).await;
    }
}

/// Waits until the path has been lost once more than `before`: it may be back, over another portal, before
/// anybody sees it gone.
async fn until_lost(disk: &Disk, path: usize, before: u64) {
    while disk.paths().await[path].status.losses == before {
        ring::sleep(Duration::from_millis(10)).await;
    }
}

/// Breaks each path in turn, in one way, under load.
fn break_paths(how: fn(&Proxy)) {
    let server = serve(config(ram(1)));
    let one = Proxy::to(server.portals()[0]);
    let two = Proxy::to(server.portals()[0]);
    on_core(async move {
        let disk = two_paths(&[&one, &two], disk_options()).await;
        let load = Load::start(&disk);
        for (path, proxy) in [(0, &one), (1, &two), (0, &one)] {
            load.progress(50).await;
            let losses = disk.paths().await[path].status.losses;
            how(proxy);
            until_lost(&disk, path, losses).await;
            load.progress(50).await;
            proxy.open();
            until_state(&disk, path, |state| state != PathState::Failed).await;
            until_state(&disk, path, |state| state == PathState::Active).await;
        }
        load.progress(50).await;
        load.end().await;
        let reports = disk.paths().await;
        let is_fine = |text: &str| text.is_empty() || text.starts_with("reached through ");
        assert!(
            reports.iter().all(|path| path.status.commands > 50 && is_fine(&path.trouble)),
            "{reports:?}"
        );
    });
}

#[test]
fn paths_are_cut_and_return() {
    break_paths(Proxy::cut);
}

#[test]
fn paths_are_half_open_and_return() {
    break_paths(Proxy::freeze);
}

#[test]
fn paths_answer_garbage_and_return() {
    break_paths(Proxy::spoil);
}

/// At ErrorRecoveryLevel 0 the connections of a session end together, and return together.
#[test]
fn a_session_of_four_connections_outlives_each_of_them() {
    let server = serve(config(ram(1)));
    let proxy = Proxy::to(server.portals()[0]);
    on_core(async move {
        let mut options = disk_options();
        options.session.connections = 4;
        let disk = two_paths(&[&proxy], options).await;
        let load = Load::start(&disk);
        load.progress(100).await;
        for round in 0..4 {
            assert_eq!((proxy.connections(), server.sessions()), (4 * (round + 1), 1));
            proxy.cut_one(4 * round + round);
            until_lost(&disk, 0, round as u64).await;
            load.progress(100).await;
        }
        load.end().await;
        assert_eq!(disk.paths().await[0].status.losses, 4);
    });
}

/// The target is slow to run a write; its path is lost; the same write goes through another path;
/// then another one to the same block. The first copy must not come last.
#[test]
fn a_write_that_hangs_in_the_target_is_waited_for() {
    let faulty = FaultyDisk::new(ram(1));
    let server = serve(config(Arc::new(faulty.clone())));
    let one = Proxy::to(server.portals()[0]);
    let two = Proxy::to(server.portals()[0]);
    on_core(async move {
        let mut options = disk_options();
        options.router.policy = "failover".parse().unwrap();
        // Only the lost session's own return counts here.
        options.router.reinstate_wait = Duration::from_secs(30);
        let disk = two_paths(&[&one, &two], options).await;
        faulty.inject(Rule::always(Operation::Write, Fault::Hang).times(1));
        let first = disk.write(0, data(&[1; 512]), WriteFlags::VOLATILE);
        while faulty.held() == 0 {
            ring::sleep(Duration::from_millis(5)).await;
        }
        one.cut();
        until_lost(&disk, 0, 0).await;
        let second = disk.write(0, data(&[2; 512]), WriteFlags::VOLATILE);
        assert_eq!(disk.write(4096, data(&[3; 512]), WriteFlags::VOLATILE).await, Ok(()));
        let over = Rc::new(Cell::new(false));
        let flag = over.clone();
        ring::spawn(async move {
            assert_eq!(first.await, Ok(()));
            assert_eq!(second.await, Ok(()));
            flag.set(true);
        });
        ring::sleep(Duration::from_secs(3)).await;
        assert!(!over.get(), "the first copy can still be written");
        faulty.release();
        while !over.get() {
            ring::sleep(Duration::from_millis(10)).await;
        }
        assert_eq!(bytes(&disk.read(0, 512).await.unwrap()), [2; 512]);
    });
}

/// A COMPARE AND WRITE whose answer was lost has happened: repeating it must not say otherwise.
#[test]
fn a_repeated_compare_and_write_knows_its_own_work() {
    let faulty = FaultyDisk::new(ram(1));
    let server = serve(config(Arc::new(faulty.clone())));
    let proxy = Proxy::to(server.portals()[0]);
    on_core(async move {
        let disk = two_paths(&[&proxy], disk_options()).await;
        faulty.inject(Rule::always(Operation::ReadModifyWrite, Fault::HoldAnswer).times(1));
        let (old, new) = (data(&[0; 512]), data(&[9; 512]));
        let swap = disk.compare_and_write(0, old.clone(), new.clone(), WriteFlags::VOLATILE);
        while faulty.held() == 0 {
            ring::sleep(Duration::from_millis(5)).await;
        }
        proxy.cut();
        faulty.release();
        proxy.open();
        assert_eq!(swap.await, Ok(Compared::Equal));
        let again = disk.compare_and_write(0, old, new, WriteFlags::VOLATILE).await;
        assert_eq!(again, Ok(Compared::Miscompare { offset_bytes: 0 }), "this one is not its own");
    });
}

#[test]
fn all_paths_down_is_an_error_only_after_the_limit() {
    let server = serve(config(ram(1)));
    let proxy = Proxy::to(server.portals()[0]);
    on_core(async move {
        let mut options = disk_options();
        options.router.limit = Duration::from_secs(4);
        let disk = two_paths(&[&proxy, &proxy], options).await;
        proxy.cut();
        let since = Instant::now();
        let read = disk.read(0, 512);
        ring::sleep(Duration::from_secs(1)).await;
        proxy.open();
        assert!(read.await.is_ok(), "back in time");
        assert!(since.elapsed() >= Duration::from_secs(1));
        proxy.cut();
        let since = Instant::now();
        let failed = disk.write(0, data(&[1; 512]), WriteFlags::VOLATILE).await;
        // It was sent if it came before the loss was noticed.
        let is_told = matches!(failed, Err(BlockError::Unreachable | BlockError::InDoubt));
        assert!(is_told, "{failed:?}");
        let took = since.elapsed();
        assert!((3500..9000).contains(&took.as_millis()), "{took:?}");
        proxy.open();
        assert_eq!(disk.write(0, data(&[2; 512]), WriteFlags::VOLATILE).await, Ok(()));
    });
}

#[test]
fn a_path_to_another_disk_is_not_used() {
    let server = serve(config(ram(1)));
    let other = serve({
        let mut config = config(ram(1));
        config.targets[0].units[0].serial = "TEST-2".to_owned();
        config
    });
    on_core(async move {
        let paths = [address(server.portals()[0]), address(other.portals()[0])];
        let disk = Disk::attach(&paths, disk_options()).await.unwrap();
        for _ in 0..20 {
            disk.write(0, data(&[1; 512]), WriteFlags::VOLATILE).await.unwrap();
        }
        until_state(&disk, 1, |state| state == PathState::Failed).await;
        ring::sleep(Duration::from_millis(500)).await;
        let reports = disk.paths().await;
        assert_eq!(reports[1].status.commands, 0);
        assert!(reports[1].trouble.contains("another disk"), "{}", reports[1].trouble);
    });
}

#[test]
fn a_path_that_was_away_at_attach_joins_later() {
    let server = serve(config(ram(1)));
    let proxy = Proxy::to(server.portals()[0]);
    proxy.cut();
    on_core(async move {
        let paths = [address(server.portals()[0]), address(proxy.address)];
        let disk = Disk::attach(&paths, disk_options()).await.unwrap();
        assert_eq!(disk.paths().await[1].status.state, PathState::Failed);
        proxy.open();
        until_state(&disk, 1, |state| state == PathState::Active).await;
    });
}

#[test]
fn sessions_are_many_and_small() {
    const SESSIONS: usize = 200;
    let server = serve(config(ram(1)));
    on_core(async move {
        let since = Instant::now();
        let mut sessions = Vec::new();
        for _ in 0..SESSIONS {
            let portal = address(server.portals()[0]);
            let session = initiator::Session::open(&portal, session_options()).await.unwrap();
            sessions.push(session);
        }
        assert_eq!(server.sessions(), SESSIONS);
        assert!(since.elapsed() < Duration::from_secs(20));
        drop(sessions);
    });
}

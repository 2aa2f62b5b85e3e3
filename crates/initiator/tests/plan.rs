//! Sessions as they are planned, against a target whose portals come and go.

#![allow(clippy::unwrap_used, reason = "helpers of tests fail like tests")]

mod common;

use std::cell::Cell;
use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use block::{BlockDevice, WriteFlags};
use common::{address, bytes, config, data, disk_options, door, on_core, ram, serve, servers};
use initiator::paths::PathState;
use initiator::{Disk, PlanOptions};
use target::Server;

fn plan() -> PlanOptions {
    PlanOptions {
        look_interval: Duration::from_millis(300),
        host_ports: Some(vec![IpAddr::from([127, 0, 0, 1]), IpAddr::from([127, 0, 0, 2])]),
        ..PlanOptions::default()
    }
}

fn target(medium: &Arc<dyn BlockDevice>, portals: &[SocketAddr]) -> Server {
    let mut config = config(medium.clone());
    config.portals = portals.to_vec();
    serve(config)
}

fn any_portals(count: usize) -> Vec<SocketAddr> {
    vec![([127, 0, 0, 1], 0).into(); count]
}

/// The ports of the target that paths which work lead to, in order.
async fn ports(disk: &Disk) -> Vec<u16> {
    let paths = disk.paths().await;
    let work = paths.iter().filter(|path| path.status.state != PathState::Failed);
    let mut ports: Vec<u16> = work.map(|path| path.address.portal.port).collect();
    ports.sort_unstable();
    ports
}

async fn until_ports(disk: &Disk, wanted: &[SocketAddr]) {
    let mut wanted: Vec<u16> = wanted.iter().map(SocketAddr::port).collect();
    wanted.sort_unstable();
    loop {
        let all_listed = disk.paths().await.len() == wanted.len();
        if all_listed && ports(disk).await == wanted {
            return;
        }
        ring::sleep(Duration::from_millis(20)).await;
    }
}

#[test]
fn the_ports_of_both_sides_are_filled() {
    let server = target(&ram(1), &any_portals(4));
    on_core(async move {
        let portal = address(server.portals()[0]);
        let disk = Disk::attach_planned(&portal, disk_options(), plan()).await.unwrap();
        let two = ports(&disk).await;
        assert_eq!(two.len(), 2, "two for the slice, although the target has four ports");
        assert_ne!(two[0], two[1]);
        assert_eq!(server.sessions(), 2);
        disk.detach().await;

        let one_host = PlanOptions { host_ports: None, ..plan() };
        let disk = Disk::attach_planned(&portal, disk_options(), one_host.clone()).await.unwrap();
        assert_eq!(ports(&disk).await.len(), 1, "the one port of the host is filled with one");
        disk.detach().await;

        let eight = PlanOptions { sessions: Some(8), ..one_host };
        let disk = Disk::attach_planned(&portal, disk_options(), eight).await.unwrap();
        let eight = ports(&disk).await;
        assert_eq!(eight.len(), 8);
        assert_eq!(eight.iter().collect::<BTreeSet<_>>().len(), 4, "evenly: {eight:?}");
        disk.detach().await;
    });
}

#[test]
fn what_is_not_there_is_told() {
    let dead = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    on_core(async move {
        let error = Disk::attach_planned(&address(dead), disk_options(), plan()).await.unwrap_err();
        assert!(error.to_string().contains("cannot connect"), "{error}");
    });
}

/// The only session of a disk is asked to leave: there is another one before it does.
#[test]
fn a_session_that_was_asked_to_leave_is_replaced_first() {
    let [leaves, takes, _] = servers(&ram(1));
    let (door, to) = door(leaves.portals()[0]);
    on_core(async move {
        // Each server names its own portal only, so another look would plan anew.
        let look_interval = Duration::from_secs(60);
        let one = PlanOptions { host_ports: None, sessions: Some(1), look_interval, ..plan() };
        let portal = address(door.portals()[0]);
        let disk = Disk::attach_planned(&portal, disk_options(), one).await.unwrap();
        assert_eq!((leaves.sessions(), takes.sessions()), (1, 0));
        to.set(takes.portals()[0]);
        let stopped = std::thread::spawn(move || leaves.shutdown(Duration::from_secs(10)));
        let (mut are_both, mut slowest, mut n) = (false, Duration::ZERO, 0_u8);
        while !stopped.is_finished() {
            let is_old_there = disk.paths().await[0].status.state == PathState::Active;
            are_both |= is_old_there && takes.sessions() == 1;
            n = n.wrapping_add(1);
            let began = Instant::now();
            assert_eq!(disk.write(0, data(&[n; 4096]), WriteFlags::VOLATILE).await, Ok(()));
            slowest = slowest.max(began.elapsed());
            assert!(bytes(&disk.read(0, 4096).await.unwrap()) == [n; 4096]);
        }
        stopped.join().unwrap().unwrap();
        // Both are there for milliseconds, which nobody may see; without a second one there is the
        // pause before a login.
        let pause = disk_options().session.backoff_min;
        assert!(are_both || slowest < pause, "it was replaced before it left: {slowest:?}");
        assert!(takes.sessions() >= 1, "each server names its own portal, so there may be more");
        assert!(disk.paths().await.iter().any(|it| it.status.state != PathState::Failed));
    });
}

/// A portal goes and comes back, under load that is verified and sees no error.
#[test]
fn sessions_follow_the_portals_of_the_target() {
    let medium = ram(1);
    let server = target(&medium, &any_portals(2));
    let both = server.portals().to_vec();
    on_core(async move {
        let options = disk_options();
        let disk = Disk::attach_planned(&address(both[0]), options, plan()).await.unwrap();
        let disk = Arc::new(disk);
        until_ports(&disk, &both).await;
        let (stop, steps) = (Rc::new(Cell::new(false)), Rc::new(Cell::new(0_u64)));
        let load = (disk.clone(), stop.clone(), steps.clone());
        ring::spawn(async move {
            let (disk, stop, steps) = load;
            while !stop.get() {
                steps.set(steps.get() + 1);
                let (at, new) = (steps.get() % 16 * 4096, [steps.get() as u8; 4096]);
                assert_eq!(disk.write(at, data(&new), WriteFlags::VOLATILE).await, Ok(()));
                assert!(bytes(&disk.read(at, 4096).await.unwrap()) == new);
            }
        });
        drop(server);
        let server = target(&medium, &both[1..]);
        until_ports(&disk, &both[1..]).await;
        let before = steps.get();
        drop(server);
        let server = target(&medium, &both);
        until_ports(&disk, &both).await;
        while steps.get() < before + 50 {
            ring::sleep(Duration::from_millis(5)).await;
        }
        stop.set(true);
        // A path counts as lost as soon as that is noticed, which takes an idle one a moment.
        while server.sessions() != 2 {
            ring::sleep(Duration::from_millis(10)).await;
        }
        until_ports(&disk, &both).await;
    });
}

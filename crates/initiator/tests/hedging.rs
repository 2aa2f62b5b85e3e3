//! What a second path gains when one goes silent: the slowest read, with hedging and without.

#![allow(clippy::unwrap_used, reason = "helpers of tests fail like tests")]

mod common;

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use block::BlockDevice;
use common::{Proxy, address, config, disk_options, on_core, ram, serve};
use initiator::{Disk, DiskOptions};

/// Reads 4 KiB again and again, one after the other, over two paths of which one goes silent after a
/// while. The slowest of them.
fn slowest_read(hedge_after: Option<Duration>) -> Duration {
    let server = serve(config(ram(8)));
    let portal = server.portals()[0];
    let proxies = Arc::new([Proxy::to(portal), Proxy::to(portal)]);
    let frozen = proxies.clone();
    let slowest = on_core(async move {
        let mut options: DiskOptions = disk_options();
        options.router.hedge_after = hedge_after;
        // As by default: silence counts after a second.
        options.session.nop_interval = Duration::from_secs(5);
        options.session.nop_timeout = Duration::from_secs(5);
        let paths = [address(frozen[0].address), address(frozen[1].address)];
        let disk = Arc::new(Disk::attach(&paths, options).await.unwrap());
        let (slowest, left) = (Rc::new(Cell::new(Duration::ZERO)), Rc::new(Cell::new(4)));
        let end = Instant::now() + Duration::from_secs(4);
        for reader in 0..4 {
            let (disk, slowest, left) = (disk.clone(), slowest.clone(), left.clone());
            ring::spawn(async move {
                while Instant::now() < end {
                    let began = Instant::now();
                    disk.read(reader * 4096, 4096).await.unwrap();
                    slowest.set(slowest.get().max(began.elapsed()));
                }
                left.set(left.get() - 1);
            });
        }
        ring::sleep(Duration::from_millis(500)).await;
        frozen[0].freeze();
        while left.get() > 0 {
            ring::sleep(Duration::from_millis(10)).await;
        }
        frozen[0].open();
        Arc::into_inner(disk).unwrap().detach().await;
        slowest.get()
    });
    drop(proxies);
    drop(server);
    slowest
}

/// On a machine that stands still for moments, any read takes long: it is tried more than once.
#[test]
fn a_silent_path_delays_a_read_by_half_a_second() {
    let mut said = String::new();
    for _ in 0..4 {
        let (with, without) = (slowest_read(Some(Duration::from_millis(500))), slowest_read(None));
        said = format!("slowest read with hedging {with:?}, without {without:?}");
        eprintln!("{said}");
        assert!(with >= Duration::from_millis(400), "nothing has gone silent: {said}");
        if with < Duration::from_millis(800) && without > with + Duration::from_millis(200) {
            return;
        }
    }
    panic!("{said}");
}

/// After a pause of the whole process the answers of reads are there, and the time for their second
/// copies has come, in the same turn. Copies that were decided on and never sent counted as under way for
/// good.
#[test]
fn after_a_pause_of_the_process_no_path_counts_copies_that_were_never_sent() {
    let server = serve(config(ram(8)));
    let portal = server.portals()[0];
    on_core(async move {
        let mut options: DiskOptions = disk_options();
        options.router.hedge_after = Some(Duration::from_millis(200));
        let disk =
            Arc::new(Disk::attach(&[address(portal), address(portal)], options).await.unwrap());
        let (is_over, left) = (Rc::new(Cell::new(false)), Rc::new(Cell::new(32)));
        for reader in 0..32 {
            let (disk, is_over, left) = (disk.clone(), is_over.clone(), left.clone());
            ring::spawn(async move {
                while !is_over.get() {
                    disk.read(reader * 4096, 4096).await.unwrap();
                }
                left.set(left.get() - 1);
            });
        }
        for _ in 0..4 {
            ring::sleep(Duration::from_millis(300)).await;
            std::thread::sleep(Duration::from_millis(400));
        }
        is_over.set(true);
        while left.get() > 0 {
            ring::sleep(Duration::from_millis(10)).await;
        }
        // Those that were sent come to their end.
        let mut under_way = Vec::new();
        for _ in 0..500 {
            under_way = disk.paths().await.iter().map(|path| path.status.in_flight).collect();
            if under_way == [0, 0] {
                break;
            }
            ring::sleep(Duration::from_millis(10)).await;
        }
        assert_eq!(under_way, [0, 0], "commands that are under way with nobody asking");
        Arc::into_inner(disk).unwrap().detach().await;
    });
    drop(server);
}

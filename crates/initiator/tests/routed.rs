//! A disk that two servers serve together: I/O goes to the one that owns the page.

#![allow(clippy::unwrap_used, reason = "helpers of tests fail like tests")]

mod common;

use std::sync::Arc;
use std::time::Duration;

use block::{BlockDevice, WriteFlags};
use common::{Proxy, TARGET, address, bytes, config, data, disk_options, on_core, ram, serve};
use initiator::paths::{PathState, Policy};
use initiator::{Disk, DiskOptions};
use scsi::alua::AccessState::{ActiveNonOptimized, ActiveOptimized};
use scsi::referrals::{GroupAccess, ReferralMap, Segment};
use target::Server;

const PAGE: usize = 1 << 20;
const PAGE_BLOCKS: u64 = PAGE as u64 / 512;

/// Page by page, the port group of its owner; the other one forwards.
fn map(owners: &[u16]) -> Arc<ReferralMap> {
    let segment = |(n, &owner): (usize, &u16)| Segment {
        first_lba: n as u64 * PAGE_BLOCKS,
        last_lba: (n as u64 + 1) * PAGE_BLOCKS - 1,
        groups: vec![
            GroupAccess::new(owner, ActiveOptimized),
            GroupAccess::new(3 - owner, ActiveNonOptimized),
        ],
    };
    Arc::new(ReferralMap::new(owners.iter().enumerate().map(segment).collect()).unwrap())
}

/// Two servers over one medium of four pages.
fn members(owners: &[u16]) -> [Server; 2] {
    let medium = ram(4);
    [1, 2].map(|port_group| {
        let mut config = config(medium.clone());
        config.port_group = port_group;
        config.targets[0].units[0].referrals = Some(map(owners));
        serve(config)
    })
}

fn options() -> DiskOptions {
    let mut options = disk_options();
    options.router.policy = Policy::Routed;
    options
}

async fn commands(disk: &Disk) -> Vec<u64> {
    disk.paths().await.iter().map(|path| path.status.commands).collect()
}

/// Writes and reads each block of each page once; what each path has done of it.
async fn sweep(disk: &Disk, pages: &[u64]) -> Vec<u64> {
    const STEPS: u64 = 8;
    let before = commands(disk).await;
    for page in pages {
        for step in 0..STEPS {
            let at = page * PAGE as u64 + step * 4096;
            disk.write(at, data(&[step as u8; 4096]), WriteFlags::VOLATILE).await.unwrap();
            assert_eq!(bytes(&disk.read(at, 4096).await.unwrap()), [step as u8; 4096]);
        }
    }
    let after = commands(disk).await;
    after.iter().zip(before).map(|(after, before)| after - before).collect()
}

/// Waits until the map has been asked for, which begins with the attachment or a unit attention.
async fn until_routed(disk: &Disk, page: u64, path: usize) {
    loop {
        let done = sweep(disk, &[page]).await;
        if done.iter().enumerate().all(|(n, &count)| (count > 0) == (n == path)) {
            return;
        }
        ring::sleep(Duration::from_millis(20)).await;
    }
}

#[test]
fn every_page_is_read_and_written_at_its_owner() {
    let [one, two] = members(&[1, 2, 2, 1]);
    on_core(async move {
        let paths = [address(one.portals()[0]), address(two.portals()[0])];
        let disk = Disk::attach(&paths, options()).await.unwrap();
        until_routed(&disk, 1, 1).await;
        assert_eq!(sweep(&disk, &[0, 3]).await, [32, 0]);
        assert_eq!(sweep(&disk, &[1, 2]).await, [0, 32]);
        // What spans pages is cut where the owner changes, and only there.
        let before = commands(&disk).await;
        let wide: Vec<u8> = (0..4 * PAGE / 2).map(|n| (n / 512) as u8).collect();
        let at = PAGE as u64 / 2;
        disk.write(at, data(&wide), WriteFlags::VOLATILE).await.unwrap();
        assert!(bytes(&disk.read(at, wide.len()).await.unwrap()) == wide);
        let after = commands(&disk).await;
        // Half a page at the first, a page and a half at the second in two commands of up to 1 MiB.
        assert_eq!([after[0] - before[0], after[1] - before[1]], [2, 4]);
    });
}

#[test]
fn pages_that_move_are_followed() {
    let [one, two] = members(&[1, 1, 2, 2]);
    on_core(async move {
        let paths = [address(one.portals()[0]), address(two.portals()[0])];
        let disk = Disk::attach(&paths, options()).await.unwrap();
        until_routed(&disk, 2, 1).await;
        assert_eq!(sweep(&disk, &[0, 1]).await, [32, 0]);
        for server in [&one, &two] {
            server.targets().set_referrals(TARGET, 0, map(&[2, 1, 2, 1]));
        }
        // The next command is told; it, and a few that are on their way, may go the old path.
        until_routed(&disk, 0, 1).await;
        until_routed(&disk, 3, 0).await;
        assert_eq!(sweep(&disk, &[0, 2]).await, [0, 32]);
        assert_eq!(sweep(&disk, &[1, 3]).await, [32, 0]);
    });
}

#[test]
fn the_other_member_serves_while_the_owner_is_away() {
    let [one, two] = members(&[1, 2, 1, 2]);
    let proxy = Proxy::to(two.portals()[0]);
    on_core(async move {
        let paths = [address(one.portals()[0]), address(proxy.address)];
        let disk = Disk::attach(&paths, options()).await.unwrap();
        until_routed(&disk, 1, 1).await;
        proxy.cut();
        assert_eq!(sweep(&disk, &[1]).await[0], 16);
        proxy.open();
        while disk.paths().await[1].status.state != PathState::Active {
            ring::sleep(Duration::from_millis(10)).await;
        }
        until_routed(&disk, 1, 1).await;
        assert_eq!(sweep(&disk, &[0, 1]).await, [16, 16]);
    });
}

#[test]
fn a_disk_without_referrals_is_used_evenly() {
    let server = serve(config(ram(4)));
    on_core(async move {
        let portal = address(server.portals()[0]);
        let disk = Disk::attach(&[portal.clone(), portal], options()).await.unwrap();
        assert_eq!(sweep(&disk, &[0, 1]).await, [16, 16]);
    });
}

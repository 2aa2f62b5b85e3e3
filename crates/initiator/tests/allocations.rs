//! A command costs one allocation at most: the place where its caller finds the answer.

#![allow(clippy::unwrap_used, reason = "helpers of tests fail like tests")]

mod common;

use std::rc::Rc;

use block::{BlockDevice, WriteFlags};
use common::{address, config, data, disk_options, on_core, ram, serve};
use initiator::Disk;
use ring::testing::{CountingAllocator, allocations};

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

/// Commands under way at once, and commands in a row of each of these.
const DEPTH: u32 = 32;
const ROUNDS: u32 = 200;

#[derive(Clone, Copy)]
enum Kind {
    Read,
    Write,
}

/// Keeps `DEPTH` commands under way, as the tasks of NBD requests do.
async fn run(disk: &Rc<Disk>, kind: Kind) {
    let left = Rc::new(std::cell::Cell::new(DEPTH));
    for n in 0..u64::from(DEPTH) {
        let (disk, left) = (disk.clone(), left.clone());
        ring::spawn(async move {
            let at = n * 4096;
            let payload = data(&[7; 4096]);
            for _ in 0..ROUNDS {
                match kind {
                    Kind::Read => drop(disk.read(at, 4096).await.unwrap()),
                    Kind::Write => {
                        disk.write(at, payload.clone(), WriteFlags::VOLATILE).await.unwrap();
                    }
                }
            }
            left.set(left.get() - 1);
        });
    }
    while left.get() > 0 {
        ring::sleep(std::time::Duration::from_millis(1)).await;
    }
}

#[test]
fn a_command_allocates_once_at_most() {
    let server = serve(config(ram(1)));
    on_core(async move {
        let here = [address(server.portals()[0])];
        let disk = Rc::new(Disk::attach(&here, disk_options()).await.unwrap());
        for kind in [Kind::Read, Kind::Write] {
            // Everything has its size by then.
            run(&disk, kind).await;
            let before = allocations();
            run(&disk, kind).await;
            let each = (allocations() - before) as f64 / f64::from(DEPTH * ROUNDS);
            let name = if matches!(kind, Kind::Read) { "read" } else { "write" };
            println!("{name}: {each:.3} allocations");
            // The watch of time, and the tasks of this test.
            assert!(each <= 1.05, "{each:.3} allocations for each {name}");
            assert!(each > 0.5, "nothing was counted");
        }
    });
}

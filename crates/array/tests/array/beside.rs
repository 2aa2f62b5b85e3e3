//! Hosts beside a checkpoint on its core.

use std::cell::Cell;
use std::sync::Arc;
use std::time::Duration;

use array::Level;
use block::BlockDevice;
use futures_util::future::join;

use crate::common::{Shelf, bytes, read, run, sound, spec, write};

const MIB: u64 = 1 << 20;
const BLOCK: usize = 4096;
/// What a leaf of a map tells of, a bit more.
const LEAF_BYTES: u64 = 52 << 16;
/// Leaves that change; fewer than begin a checkpoint by themselves.
const LEAVES: u64 = 700;

/// A host reads again and again, until it is over; how often it was answered.
async fn answers(device: &Arc<dyn BlockDevice>, is_over: &Cell<bool>) -> u64 {
    let mut answers = 0;
    while !is_over.get() {
        ring::sleep(Duration::from_micros(1)).await;
        read(device, 0, BLOCK).await;
        answers += 1;
    }
    answers
}

/// Disks that answer at once keep nobody busy but the core itself: whoever else is on it got nothing as long as a
/// checkpoint had work. Turns are counted, as a time would tell of who else has the machine.
#[test]
fn a_checkpoint_of_many_pages_lets_hosts_on_its_core_go_on() {
    run(async {
        let shelf = Shelf::new(4, 1024);
        let array = shelf.create(Level::Raid1).await;
        array.create_volume(spec("wide", LEAVES * LEAF_BYTES / MIB + 4)).await.unwrap();
        array.create_volume(spec("host", 16)).await.unwrap();
        let (wide, host) = (array.device("wide").unwrap(), array.device("host").unwrap());
        write(&host, 0, &bytes(BLOCK, 10)).await;
        array.checkpoint().await.unwrap();
        for round in 0..3 {
            for leaf in 0..LEAVES {
                write(&wide, leaf * LEAF_BYTES, &bytes(BLOCK, 20 + round)).await;
            }
            let is_over = Cell::new(false);
            let checkpoint = async {
                array.checkpoint().await.unwrap();
                is_over.set(true);
            };
            let ((), answers) = join(checkpoint, answers(&host, &is_over)).await;
            eprintln!("{answers} answers beside a checkpoint of {LEAVES} leaves");
            assert!(answers >= LEAVES / 50, "{answers} answers beside {LEAVES} leaves");
        }
        sound(&array).await;
    });
}

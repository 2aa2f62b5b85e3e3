//! Hosts beside a checkpoint on its core.

use std::cell::Cell;
use std::sync::Arc;
use std::time::{Duration, Instant};

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
/// What a host does between two requests.
const THOUGHT: Duration = Duration::from_micros(50);

/// A host reads again and again; the longest that an answer took, with what its core did before it came to it.
async fn longest(device: &Arc<dyn BlockDevice>, is_over: &Cell<bool>) -> Duration {
    let mut longest = Duration::ZERO;
    while !is_over.get() {
        let began = Instant::now();
        ring::sleep(THOUGHT).await;
        read(device, 0, BLOCK).await;
        longest = longest.max(began.elapsed());
    }
    longest
}

/// Disks that answer at once keep nobody busy but the core itself: whoever else is on it got nothing as long as a
/// checkpoint had work.
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
        let mut ratios = Vec::new();
        for round in 0..3 {
            for leaf in 0..LEAVES {
                write(&wide, leaf * LEAF_BYTES, &bytes(BLOCK, 20 + round)).await;
            }
            let is_over = Cell::new(false);
            let checkpoint = async {
                let began = Instant::now();
                array.checkpoint().await.unwrap();
                is_over.set(true);
                began.elapsed()
            };
            let (took, longest) = join(checkpoint, longest(&host, &is_over)).await;
            eprintln!("a checkpoint of {took:?}, the longest answer {longest:?}");
            ratios.push(took.as_secs_f64() / longest.as_secs_f64());
        }
        let best = ratios.iter().copied().fold(0.0, f64::max);
        assert!(best > 3.0, "of {ratios:?} parts of a checkpoint a host waits for one");
        sound(&array).await;
    });
}

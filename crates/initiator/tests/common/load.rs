//! Load that is verified.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use block::{BlockDevice, WriteFlags};
use initiator::Disk;

use super::{bytes, data};

const BLOCK: usize = 4096;
const WORKERS: u64 = 8;
const BLOCKS_EACH: u64 = 16;

fn pattern(block: u64, version: u64) -> Vec<u8> {
    let word = (block << 32 | version).to_le_bytes();
    word.iter().copied().cycle().take(BLOCK).collect()
}

/// Workers that write and read back blocks of their own until told to stop; each knows what every
/// block must hold. No error is allowed.
#[derive(Debug)]
pub(crate) struct Load {
    stop: Rc<Cell<bool>>,
    left: Rc<Cell<u64>>,
    done: Rc<Cell<u64>>,
}

impl Load {
    pub(crate) fn start(disk: &Arc<Disk>) -> Self {
        let load =
            Self { stop: Rc::default(), left: Rc::new(Cell::new(WORKERS)), done: Rc::default() };
        for worker in 0..WORKERS {
            let (disk, stop) = (disk.clone(), load.stop.clone());
            let (left, done) = (load.left.clone(), load.done.clone());
            ring::spawn(async move {
                let mut versions = vec![0; BLOCKS_EACH as usize];
                let mut n = worker;
                while !stop.get() {
                    n = n.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                    let own = (n >> 33) % BLOCKS_EACH;
                    let block = worker * BLOCKS_EACH + own;
                    let version = &mut versions[own as usize];
                    *version += 1;
                    let (at, new) = (block * BLOCK as u64, pattern(block, *version));
                    let written = disk.write(at, data(&new), WriteFlags::VOLATILE).await;
                    assert_eq!(written, Ok(()));
                    let found = disk.read(at, BLOCK).await.expect("the disk works");
                    assert!(bytes(&found) == new, "block {block} is not version {version}");
                    done.set(done.get() + 1);
                }
                for (own, &version) in versions.iter().enumerate().filter(|(_, v)| **v > 0) {
                    let block = worker * BLOCKS_EACH + own as u64;
                    let found =
                        disk.read(block * BLOCK as u64, BLOCK).await.expect("the disk works");
                    assert!(bytes(&found) == pattern(block, version), "at the end");
                }
                left.set(left.get() - 1);
            });
        }
        load
    }

    /// Waits until so much more has been done.
    pub(crate) async fn progress(&self, more: u64) {
        let goal = self.done.get() + more;
        let since = Instant::now();
        while self.done.get() < goal {
            assert!(since.elapsed() < Duration::from_secs(30), "the load stands still");
            ring::sleep(Duration::from_millis(5)).await;
        }
    }

    pub(crate) async fn end(self) {
        self.stop.set(true);
        while self.left.get() > 0 {
            ring::sleep(Duration::from_millis(5)).await;
        }
    }
}

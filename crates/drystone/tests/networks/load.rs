//! Load that is verified: blocks with versions. A read never finds a version older than the last one
//! that was acknowledged when it began, nor one that was never written.

use super::nbd::Nbd;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

pub(crate) const BLOCK_BYTES: usize = 4096;
/// A block's number and its version, over and over.
const UNIT_BYTES: usize = 16;
const WRITERS: usize = 6;
const READERS: usize = 6;
const BLOCKS_EACH: usize = 32;
/// A breath between two requests: the load is to be everywhere, not everything.
const BREATH: Duration = Duration::from_millis(2);

/// What is known of a block.
#[derive(Debug, Default)]
struct Known {
    acknowledged: AtomicU64,
    /// The last version that a write was begun with.
    begun: AtomicU64,
}

/// All blocks of the load. It outlives attachments.
#[derive(Debug)]
pub(crate) struct Ledger {
    first_block: u64,
    blocks: Vec<Known>,
}

fn bytes_of(block: u64, version: u64) -> Vec<u8> {
    let mut one = block.to_be_bytes().to_vec();
    one.extend(version.to_be_bytes());
    one.repeat(BLOCK_BYTES / UNIT_BYTES)
}

impl Ledger {
    /// Blocks from `first_block` on.
    pub(crate) fn new(first_block: u64) -> Arc<Ledger> {
        let blocks = (0..WRITERS * BLOCKS_EACH).map(|_| Known::default()).collect();
        Arc::new(Ledger { first_block, blocks })
    }

    /// Writes the next version; it may be done even if that fails.
    fn write(&self, nbd: &mut Nbd, index: usize) -> io::Result<()> {
        let (block, known) = (self.first_block + index as u64, &self.blocks[index]);
        let version = known.begun.load(SeqCst) + 1;
        known.begun.store(version, SeqCst);
        nbd.write(block * BLOCK_BYTES as u64, &bytes_of(block, version))?;
        known.acknowledged.store(version, SeqCst);
        Ok(())
    }

    fn read(&self, nbd: &mut Nbd, index: usize) -> io::Result<()> {
        let (block, known) = (self.first_block + index as u64, &self.blocks[index]);
        let least = known.acknowledged.load(SeqCst);
        let mut bytes = vec![0; BLOCK_BYTES];
        nbd.read(block * BLOCK_BYTES as u64, &mut bytes)?;
        let most = known.begun.load(SeqCst);
        // A read may show a write beside it in part (decision 0005), but no other version.
        for unit in bytes.chunks_exact(UNIT_BYTES) {
            let [of, version] = [0, 8].map(|at| {
                u64::from_be_bytes(*unit[at..].first_chunk().expect("a unit is two numbers"))
            });
            assert_eq!(of, if version == 0 { 0 } else { block }, "block {block} holds another one");
            assert!(
                (least..=most).contains(&version),
                "block {block} holds version {version}; {least} was acknowledged, {most} begun"
            );
        }
        Ok(())
    }

    /// Reads every block once.
    pub(crate) fn verify(&self, path: &Path) {
        let mut nbd = Nbd::open(path).expect("it is attached");
        for index in 0..self.blocks.len() {
            self.read(&mut nbd, index).expect("it can be read");
        }
    }

    /// Writes every block once.
    pub(crate) fn write_all(&self, path: &Path) {
        let mut nbd = Nbd::open(path).expect("it is attached");
        for index in 0..self.blocks.len() {
            self.write(&mut nbd, index).expect("it can be written");
        }
    }

    pub(crate) fn acknowledged(&self) -> u64 {
        self.blocks.iter().map(|known| known.acknowledged.load(SeqCst)).sum()
    }
}

/// The longest requests.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Slowest {
    pub(crate) read: Duration,
    pub(crate) write: Duration,
}

/// Readers and writers.
#[derive(Debug)]
pub(crate) struct Load {
    stop: Arc<AtomicBool>,
    workers: Vec<JoinHandle<Slowest>>,
}

impl Load {
    /// Where requests may fail, as when the attachment is killed, a worker ends with the first one.
    pub(crate) fn start(ledger: &Arc<Ledger>, path: &Path, may_fail: bool) -> Load {
        let stop = Arc::new(AtomicBool::new(false));
        let worker = |n: usize| {
            let (ledger, stop) = (ledger.clone(), stop.clone());
            let mut nbd = Nbd::open(path).expect("it is attached");
            thread::spawn(move || {
                let (mut random, mut slowest) = (fastrand::Rng::new(), Slowest::default());
                while !stop.load(SeqCst) {
                    let since = Instant::now();
                    let over = match n < WRITERS {
                        true => {
                            let own = n * BLOCKS_EACH + random.usize(..BLOCKS_EACH);
                            ledger.write(&mut nbd, own)
                        }
                        false => ledger.read(&mut nbd, random.usize(..ledger.blocks.len())),
                    };
                    let most = if n < WRITERS { &mut slowest.write } else { &mut slowest.read };
                    *most = since.elapsed().max(*most);
                    match over {
                        Ok(()) => thread::sleep(BREATH),
                        Err(_) if may_fail => break,
                        Err(error) => panic!("after {:?}: {error}", since.elapsed()),
                    }
                }
                slowest
            })
        };
        let workers = (0..WRITERS + READERS).map(worker).collect();
        Load { stop, workers }
    }

    /// Lets it end, and gives the longest requests.
    pub(crate) fn end(self) -> Slowest {
        self.stop.store(true, SeqCst);
        self.workers.into_iter().fold(Slowest::default(), |all, worker| {
            let one = worker.join().expect("no request failed, and no block was wrong");
            Slowest { read: all.read.max(one.read), write: all.write.max(one.write) }
        })
    }
}

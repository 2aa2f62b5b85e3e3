use super::*;

use std::pin::Pin;
use std::task::Poll;
use std::time::Duration;

use ring::{Buf, CoreConfig};

use crate::testing::{Fault, FaultyDisk, Operation, Rule};
use crate::{ExtentState, RamDisk};

mod atomics;
mod borders;
mod cores;
mod dropped;
mod durable;
mod faults;
mod half_done;
mod model;
mod shape;
mod suite;

const MIB: u64 = 1 << 20;
const BLOCK_BYTES: u32 = 512;
const BLOCK: u64 = BLOCK_BYTES as u64;

const VOLATILE: WriteFlags = WriteFlags::VOLATILE;
const ATOMIC: WriteFlags = WriteFlags { durable: false, atomic: true };

/// What a host must not repeat.
const HALF_DONE: BlockError = BlockError::Os { errno: libc::EIO };

/// Turns of the core in which whatever does not wait for a disk or a lock ends.
const TURNS: usize = 16;

fn on_a_core(test: impl Future<Output = ()> + 'static) {
    ring::block_on(&CoreConfig::default(), test).unwrap();
}

fn ram(size_bytes: u64) -> Arc<dyn BlockDevice> {
    Arc::new(RamDisk::new(BLOCK_BYTES, size_bytes / BLOCK).unwrap())
}

fn dealing(page_bytes: u64, pattern: &[u8]) -> Dealing {
    Dealing::of_any_pages(page_bytes, pattern.to_vec()).unwrap()
}

/// A volume over devices that fail, wait and hang on order, which are as large.
struct Faulty {
    slices: Vec<Arc<FaultyDisk>>,
    disk: Arc<SpreadDisk>,
}

impl Faulty {
    fn new(slices: usize, dealing: Dealing, size_bytes: u64) -> Self {
        let slices: Vec<_> =
            (0..slices).map(|_| Arc::new(FaultyDisk::new(ram(size_bytes)))).collect();
        let devices = slices.iter().map(|slice| Arc::clone(slice) as Arc<dyn BlockDevice>);
        let disk = SpreadDisk::new(devices.collect(), dealing, size_bytes / BLOCK).unwrap();
        Self { slices, disk: Arc::new(disk) }
    }

    /// How long what is half done is gone on with, from now on.
    fn be_patient_for(&mut self, patience: Duration) {
        let disk = Arc::get_mut(&mut self.disk).expect("nobody else has it");
        Arc::get_mut(&mut disk.slices).expect("nothing is under way").patience = patience;
    }

    /// Two slices, in turns, of 4 MiB.
    fn of_two() -> Self {
        Self::new(2, dealing(MIB, &[0, 1]), 4 * MIB)
    }
}

/// CRC-32C, bit by bit.
fn crc32c(bytes: &[u8]) -> u32 {
    let mut crc = !0u32;
    for byte in bytes {
        crc ^= u32::from(*byte);
        for _ in 0..8 {
            crc = (crc >> 1) ^ if crc & 1 == 1 { 0x82f6_3b78 } else { 0 };
        }
    }
    !crc
}

/// Blocks that differ, each of which ends in its own checksum.
fn summed(len: u64, seed: u32) -> Data {
    let mut buf = Buf::alloc(len as usize).unwrap();
    for (number, block) in buf.chunks_exact_mut(BLOCK as usize).enumerate() {
        let (body, sum) = block.split_at_mut(BLOCK as usize - 4);
        let start = seed.wrapping_mul(0x9e37_79b9).wrapping_add(number as u32);
        for (at, byte) in body.iter_mut().enumerate() {
            *byte = (start.rotate_left(at as u32 % 32) >> (at % 7)) as u8;
        }
        sum.copy_from_slice(&crc32c(body).to_le_bytes());
    }
    buf.freeze()
}

fn data(bytes: Vec<u8>) -> Data {
    Data::from(Arc::<[u8]>::from(bytes))
}

fn equal(len: u64, byte: u8) -> Data {
    let mut buf = Buf::alloc(len as usize).unwrap();
    buf.fill(byte);
    buf.freeze()
}

fn bytes_of(data: &Data) -> Vec<u8> {
    let mut bytes = vec![0; data.len()];
    data.copy_to(0, &mut bytes);
    bytes
}

async fn read(device: &dyn BlockDevice, at: u64, len: u64) -> Vec<u8> {
    bytes_of(&device.read(at, len as usize).await.unwrap())
}

/// The result, if it is there when it is asked for once.
async fn polled<T>(future: &mut IoFuture<T>) -> Option<Result<T, BlockError>> {
    std::future::poll_fn(|cx| {
        Poll::Ready(match Pin::new(&mut *future).poll(cx) {
            Poll::Ready(result) => Some(result),
            Poll::Pending => None,
        })
    })
    .await
}

/// Whether it still waits after all that can be done without a disk or a lock.
async fn is_waiting<T>(future: &mut IoFuture<T>) -> bool {
    for _ in 0..TURNS {
        if polled(future).await.is_some() {
            return false;
        }
        ring::turn_end().await;
    }
    true
}

/// Until so many operations hang, or hold their answer, at this slice.
async fn until_held(slice: &FaultyDisk, held: usize) {
    while slice.held() != held {
        ring::turn_end().await;
    }
}

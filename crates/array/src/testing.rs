//! What the tests of several modules need.

pub(crate) mod arrays;

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use block::{BlockDevice, RamDisk, WriteFlags};
use ring::Data;

/// Runs `future` on disks that never wait for anything but each other.
pub(crate) fn run<T>(future: impl Future<Output = T>) -> T {
    let mut future = pin!(future);
    let mut cx = Context::from_waker(Waker::noop());
    for _ in 0..10_000_000 {
        if let Poll::Ready(result) = future.as_mut().poll(&mut cx) {
            return result;
        }
    }
    panic!("nothing happens any more");
}

/// An empty disk.
pub(crate) fn ram_disk(size_bytes: u64) -> Arc<dyn BlockDevice> {
    Arc::new(RamDisk::new(512, size_bytes / 512).unwrap())
}

/// The bytes at `at`.
pub(crate) fn peek(disk: &dyn BlockDevice, at: u64, len: usize) -> Vec<u8> {
    let mut bytes = vec![0; len];
    run(disk.read(at, len)).unwrap().copy_to(0, &mut bytes);
    bytes
}

/// Overwrites the bytes at `at`.
pub(crate) fn poke(disk: &dyn BlockDevice, at: u64, bytes: &[u8]) {
    let mut buf = ring::Buf::alloc(bytes.len()).unwrap();
    buf.copy_from_slice(bytes);
    run(disk.write(at, Data::from(buf), WriteFlags::VOLATILE)).unwrap();
}

/// Flips one bit.
pub(crate) fn flip(disk: &dyn BlockDevice, bit: u64) {
    let at = bit / 8 / 512 * 512;
    let mut sector = peek(disk, at, 512);
    sector[(bit / 8 - at) as usize] ^= 1 << (bit % 8);
    poke(disk, at, &sector);
}

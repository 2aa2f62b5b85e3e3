//! For tests: what a thread allocates, and ports that nobody else has.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::net::{IpAddr, TcpListener};
use std::process;
use std::sync::atomic::{AtomicU32, Ordering};

/// Where ports of tests are: below those that the system gives to connections, which would take one that is free.
const PORTS_FROM: u16 = 12_000;

/// Ports that are given out together.
pub const PORTS_TOGETHER: u16 = 5;

/// How many times as many there are.
const PLACES: u16 = 4_100;

/// How far the places of two processes with numbers beside each other are apart.
const PLACES_APART: u32 = 211;

/// The first of [`PORTS_TOGETHER`] ports in a row at this address that nobody listens on, and that no other test of
/// this process is given. Other processes begin elsewhere.
///
/// # Panics
///
/// Where somebody listens on all of them.
#[must_use]
pub fn free_ports(address: IpAddr) -> u16 {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let begin = process::id().wrapping_mul(PLACES_APART);
    let is_free = |port: u16| TcpListener::bind((address, port)).is_ok();
    let places = (0..PLACES).map(|_| begin.wrapping_add(NEXT.fetch_add(1, Ordering::Relaxed)));
    let mut firsts = places.map(|place| {
        let place = place % u32::from(PLACES);
        PORTS_FROM + PORTS_TOGETHER * u16::try_from(place).expect("it is one of the places")
    });
    let first = firsts.find(|first| (*first..first + PORTS_TOGETHER).all(is_free));
    first.expect("nobody listens on some ports in a row")
}

thread_local! {
    static COUNT: Cell<u64> = const { Cell::new(0) };
}

/// The allocator of the system, which counts for each thread. A test makes it its `#[global_allocator]`.
#[derive(Debug)]
pub struct CountingAllocator;

/// How often this thread has allocated so far, or made an allocation larger. Nothing is counted where
/// [`CountingAllocator`] is not the allocator.
#[must_use]
pub fn allocations() -> u64 {
    COUNT.get()
}

fn count() {
    // A thread that ends allocates too, and counts no more.
    let _ = COUNT.try_with(|count| count.set(count.get() + 1));
}

// SAFETY: every call is passed on to the allocator of the system as it is; counting allocates nothing.
unsafe impl GlobalAlloc for CountingAllocator {
    // SAFETY: the caller's promises are those of the system's allocator.
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: passed on to the caller.
        unsafe { System.alloc(layout) }
    }

    // SAFETY: the caller's promises are those of the system's allocator.
    unsafe fn dealloc(&self, place: *mut u8, layout: Layout) {
        // SAFETY: passed on to the caller.
        unsafe { System.dealloc(place, layout) };
    }

    // SAFETY: the caller's promises are those of the system's allocator.
    unsafe fn realloc(&self, place: *mut u8, layout: Layout, len: usize) -> *mut u8 {
        count();
        // SAFETY: passed on to the caller.
        unsafe { System.realloc(place, layout, len) }
    }
}

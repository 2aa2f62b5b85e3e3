//! For tests: what a thread allocates.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

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

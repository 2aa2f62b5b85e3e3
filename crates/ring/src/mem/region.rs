//! A large piece of memory that all cores read and write: what a RAM disk is made of.

use std::io;
use std::ptr::NonNull;
use std::sync::Arc;

use super::{Data, Map, PAGE_BYTES};

/// Zero-filled memory of a fixed length, resident only where it was written, shared by reference.
///
/// Cores may read and write the same bytes at the same time, as processes do with a shared mapping
/// and hosts with a disk: each byte read is one that somebody wrote, a larger read may be a mix.
/// To keep that sound no Rust reference to the contents is ever made; they are copied through raw
/// pointers, or handed to the kernel.
///
/// All methods panic when a range lies outside the region: the device above checks first.
#[derive(Clone, Debug)]
pub struct Region {
    map: Arc<Map>,
    len: usize,
}

impl Region {
    /// Maps `len` bytes. Fails with `ENOMEM` when address space or overcommit limits forbid it.
    pub fn new(len: usize) -> io::Result<Region> {
        let map = Map::anonymous(len.max(1).next_multiple_of(PAGE_BYTES))?;
        Ok(Region { map: Arc::new(map), len })
    }

    /// Length in bytes.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether it has no bytes.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    fn at(&self, at: usize, len: usize) -> NonNull<u8> {
        assert!(at.checked_add(len).is_some_and(|end| end <= self.len), "outside the region");
        // SAFETY: `at` is inside the mapping, checked above.
        unsafe { self.map.ptr().add(at) }
    }

    /// The bytes at `at` by reference, not as a snapshot: a later write shows through.
    pub fn slice(&self, at: usize, len: usize) -> Data {
        Data::of_map(self.map.clone(), self.at(at, len), len)
    }

    /// Copies the bytes at `at` into `to`.
    pub fn read_into(&self, at: usize, to: &mut [u8]) {
        let from = self.at(at, to.len());
        // SAFETY: the source is inside the mapping; `to` is exclusively borrowed and no Rust
        // reference into a region exists, so they do not overlap. Races: see the type's text.
        unsafe { std::ptr::copy_nonoverlapping(from.as_ptr(), to.as_mut_ptr(), to.len()) };
    }

    /// Copies `bytes` to `at`.
    pub fn write(&self, at: usize, bytes: &[u8]) {
        let to = self.at(at, bytes.len());
        // SAFETY: the destination is inside the mapping and no Rust reference into a region
        // exists, so `bytes` does not overlap it. Races: see the type's text.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), to.as_ptr(), bytes.len()) };
    }

    /// Copies `data` to `at`; `data` may be a part of this same region.
    pub fn write_data(&self, at: usize, data: &Data) {
        let (from, len) = data.raw();
        let to = self.at(at, len);
        // SAFETY: both ranges are inside live memory; `copy` allows them to overlap.
        unsafe { std::ptr::copy(from, to.as_ptr(), len) };
    }

    /// Makes `len` bytes from `at` read as zeroes and frees the whole pages among them.
    pub fn discard(&self, at: usize, len: usize) {
        let start = self.at(at, len);
        let end = at + len;
        let first_page = at.next_multiple_of(PAGE_BYTES).min(end);
        let last_page = (end - end % PAGE_BYTES).max(first_page);
        // SAFETY: `at..first_page` and `last_page..end` are parts of the range checked above.
        unsafe {
            start.write_bytes(0, first_page - at);
            start.add(last_page - at).write_bytes(0, end - last_page);
        }
        if last_page > first_page {
            self.map.release(first_page, last_page - first_page);
        }
    }
}

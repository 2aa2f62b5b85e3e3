//! A mapping that is unmapped when its last owner goes.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::ptr::NonNull;

/// `len` bytes of page-aligned memory: zero-filled, private and resident as it is touched, or shared
/// with the kernel.
#[derive(Debug)]
pub(crate) struct Map {
    ptr: NonNull<u8>,
    len: usize,
}

// SAFETY: a mapping belongs to the process, not to the thread that made it, and `Map` itself only
// hands out a raw pointer: what is done with the contents is for its users to keep sound.
unsafe impl Send for Map {}
// SAFETY: as above; `&Map` gives no access to the contents.
unsafe impl Sync for Map {}

impl Map {
    /// Maps `len` bytes (not zero) without reserving swap for them.
    pub(crate) fn anonymous(len: usize) -> io::Result<Map> {
        // SAFETY: a fresh anonymous mapping at an address of the kernel's choice touches no
        // existing memory.
        let ptr = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                len,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE,
                -1,
                0,
            )
        };
        Map::made(ptr, len)
    }

    /// Maps the first `len` bytes of what `fd` offers, to be read while the kernel writes to them.
    pub(crate) fn of_file(fd: &OwnedFd, len: usize) -> io::Result<Map> {
        let (prot, flags) = (libc::PROT_READ, libc::MAP_SHARED | libc::MAP_POPULATE);
        // SAFETY: a fresh mapping at an address of the kernel's choice touches no existing memory.
        let ptr = unsafe { libc::mmap(std::ptr::null_mut(), len, prot, flags, fd.as_raw_fd(), 0) };
        Map::made(ptr, len)
    }

    /// What `mmap` returned for `len` bytes.
    fn made(ptr: *mut libc::c_void, len: usize) -> io::Result<Map> {
        if ptr == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let ptr =
            NonNull::new(ptr.cast()).ok_or_else(|| io::Error::from_raw_os_error(libc::ENOMEM))?;
        Ok(Map { ptr, len })
    }

    pub(crate) fn ptr(&self) -> NonNull<u8> {
        self.ptr
    }

    /// Asks the kernel for small pages only: it would back a range of which one page is in use with a huge one, and
    /// what was given back would be resident again. A kernel without huge pages refuses, and needs no asking.
    pub(crate) fn use_small_pages(&self) {
        // SAFETY: the range is this mapping; the advice changes neither its contents nor its address.
        unsafe { libc::madvise(self.ptr.as_ptr().cast(), self.len, libc::MADV_NOHUGEPAGE) };
    }

    /// Gives the pages of `at..at + len` of an anonymous mapping back to the kernel; they read as
    /// zeroes from now on.
    pub(crate) fn release(&self, at: usize, len: usize) {
        assert!(at.checked_add(len).is_some_and(|end| end <= self.len), "release outside the map");
        // SAFETY: the range lies inside this mapping (checked above), which lives as long as
        // `self`; dropping private anonymous pages leaves them mapped and zero.
        let rc =
            unsafe { libc::madvise(self.ptr.as_ptr().add(at).cast(), len, libc::MADV_DONTNEED) };
        assert_eq!(rc, 0, "MADV_DONTNEED refuses only ranges that are not mapped or not aligned");
    }
}

impl Drop for Map {
    fn drop(&mut self) {
        // SAFETY: the mapping was made with this length and nobody else unmaps it;
        // users keep the `Map` alive while they hold pointers into it.
        unsafe { libc::munmap(self.ptr.as_ptr().cast(), self.len) };
    }
}

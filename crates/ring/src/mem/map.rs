//! An anonymous mapping that is unmapped when its last owner goes.

use std::io;
use std::ptr::NonNull;

/// `len` bytes of zero-filled, page-aligned, private memory that becomes resident as it is touched.
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

    /// Gives the pages of `at..at + len` back to the kernel; they read as zeroes from now on.
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
        // SAFETY: the mapping was made by `anonymous` with this length and nobody else unmaps it;
        // users keep the `Map` alive while they hold pointers into it.
        unsafe { libc::munmap(self.ptr.as_ptr().cast(), self.len) };
    }
}

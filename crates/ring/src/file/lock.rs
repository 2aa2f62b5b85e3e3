//! One process per file.

use std::io;
use std::os::fd::AsRawFd;

use super::File;

impl File {
    /// Locks the file for this opening of it, until all its clones are dropped, so that two
    /// processes do not serve the same disk. Advisory: it binds only those that ask (`flock(2)`).
    ///
    /// # Errors
    /// `WouldBlock` when somebody else holds the lock.
    pub fn lock_exclusive(&self) -> io::Result<()> {
        // SAFETY: takes two numbers.
        let rc = unsafe { libc::flock(self.fd.as_raw_fd(), libc::LOCK_EX | libc::LOCK_NB) };
        if rc == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }
}

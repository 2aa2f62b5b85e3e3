//! What the kernel caches of a block device.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;

/// `BLKFLSBUF` of `linux/fs.h`.
const FLUSH_BUFFERS: libc::Ioctl = 0x1261;

/// Writes back what the kernel caches of a block device, with that of the file system mounted on it.
/// It blocks until the server has answered, so it is for threads that are no core.
///
/// # Errors
/// Those of `ioctl(2)`: `EACCES` without `CAP_SYS_ADMIN`, `ENOTTY` for what is no block device.
pub fn write_back(device: &File) -> io::Result<()> {
    // SAFETY: the request takes no argument.
    let done = unsafe { libc::ioctl(device.as_raw_fd(), FLUSH_BUFFERS) };
    if done < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_block_device_has_such_a_cache() {
        let file = File::open(std::env::current_exe().unwrap()).unwrap();
        assert_eq!(write_back(&file).unwrap_err().raw_os_error(), Some(libc::ENOTTY));
    }
}

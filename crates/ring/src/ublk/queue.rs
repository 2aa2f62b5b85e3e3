//! The one queue of a device.

use std::fs;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::Path;
use std::sync::Arc;

use io_uring::opcode;

use super::{BOTH, ioc};
use crate::file::UnitIo;
use crate::mem::{Data, Map, PAGE_BYTES};
use crate::runtime::{FdRef, Kept, Op};

/// The size of `struct ublksrv_io_desc`.
pub const UBLK_DESCRIPTOR_BYTES: usize = 24;

/// The size of `struct ublksrv_io_cmd`.
const COMMAND_BYTES: u32 = 16;

/// Commands, as `UBLK_U_IO_*`.
mod code {
    use super::{BOTH, COMMAND_BYTES, ioc};

    pub(super) const FETCH: u32 = ioc(BOTH, 0x20, COMMAND_BYTES);
    pub(super) const COMMIT_AND_FETCH: u32 = ioc(BOTH, 0x21, COMMAND_BYTES);
}

/// Where the data of requests begins in the device (`UBLKSRV_IO_BUF_OFFSET`), and how far apart those
/// of two tags are (`UBLK_TAG_OFF`).
const DATA_AT: u64 = 0x8000_0000;
const TAG_SHIFT: u32 = 25;

/// The requests of one ublk device. Each of its `depth` tags is fetched, then committed again and again;
/// all of that must happen on one core. Between, the tag's descriptor and data are those of a request.
///
/// Data is copied from and to the kernel by plain calls, which touch memory alone: a copy takes no
/// longer than one out of a socket, and neither side ever sees the other's addresses.
#[derive(Debug)]
pub struct UblkQueue {
    fd: Arc<OwnedFd>,
    descriptors: Map,
    depth: u16,
}

impl UblkQueue {
    /// Opens a device's `/dev/ublkcN`, with `depth` tags as it was made.
    ///
    /// # Errors
    /// Those of `open(2)`, `EBUSY` when somebody else serves it; those of `mmap(2)`.
    pub fn open(path: &Path, depth: u16) -> io::Result<UblkQueue> {
        let device = fs::OpenOptions::new().read(true).write(true).open(path)?;
        let fd = Arc::new(OwnedFd::from(device));
        let len = (usize::from(depth) * UBLK_DESCRIPTOR_BYTES).next_multiple_of(PAGE_BYTES);
        let descriptors = Map::of_file(&fd, len)?;
        Ok(UblkQueue { fd, descriptors, depth })
    }

    /// How many requests can be under way.
    pub fn depth(&self) -> u16 {
        self.depth
    }

    /// Waits for the first request of `tag`.
    ///
    /// # Panics
    /// Outside of a core.
    pub fn fetch(&self, tag: u16) -> UnitIo {
        self.send(code::FETCH, tag, 0)
    }

    /// Ends the request of `tag` with the bytes done or a negative error number, and waits for the
    /// next one. It fails with `ENODEV` when the device goes.
    ///
    /// # Panics
    /// Outside of a core.
    pub fn commit(&self, tag: u16, result: i32) -> UnitIo {
        self.send(code::COMMIT_AND_FETCH, tag, result)
    }

    fn send(&self, code: u32, tag: u16, result: i32) -> UnitIo {
        let fd = FdRef::Shared(self.fd.clone());
        let entry = opcode::UringCmd16::new(fd.raw(), code).cmd(encode(tag, result)).build();
        // SAFETY: the entry holds all of its command and no address.
        UnitIo(unsafe { Op::start(entry, fd, Kept::Nothing) })
    }

    /// The request of `tag`, a `struct ublksrv_io_desc`. It means something while the request is ours.
    ///
    /// # Panics
    /// When there is no such tag.
    pub fn descriptor(&self, tag: u16) -> [u8; UBLK_DESCRIPTOR_BYTES] {
        assert!(tag < self.depth, "no such tag");
        let at = usize::from(tag) * UBLK_DESCRIPTOR_BYTES;
        // SAFETY: `at` and the descriptor behind it are inside the mapping, by the check above and the
        // length in `open`; it is aligned to eight bytes, as 24 is. The kernel may write meanwhile,
        // so no reference is made, and any bits are valid.
        let words = unsafe { self.descriptors.ptr().add(at).cast::<[u64; 3]>().read_volatile() };
        let mut bytes = [0; UBLK_DESCRIPTOR_BYTES];
        for (to, word) in bytes.chunks_exact_mut(8).zip(words) {
            to.copy_from_slice(&word.to_ne_bytes());
        }
        bytes
    }

    /// Copies what the request of `tag`, a write, is to write, from its byte `at` on.
    ///
    /// # Errors
    /// When the request is no write, shorter, or gone with its device.
    pub fn take(&self, tag: u16, at: usize, to: &mut [u8]) -> io::Result<()> {
        let (fd, from) = (self.fd.as_raw_fd(), position(tag, at)?);
        // SAFETY: the bytes are exclusively borrowed.
        let count = unsafe { libc::pread(fd, to.as_mut_ptr().cast(), to.len(), from) };
        copied(count, to.len())
    }

    /// Copies what the request of `tag`, a read, has read, to its byte `at` on.
    ///
    /// # Errors
    /// When the request is no read, shorter, or gone with its device.
    pub fn give(&self, tag: u16, at: usize, from: &Data) -> io::Result<()> {
        let (fd, to) = (self.fd.as_raw_fd(), position(tag, at)?);
        let (bytes, len) = from.raw();
        // SAFETY: the data keeps its bytes in place, and the kernel only reads them.
        let count = unsafe { libc::pwrite(fd, bytes.cast(), len, to) };
        copied(count, len)
    }
}

/// A `struct ublksrv_io_cmd` of queue 0.
fn encode(tag: u16, result: i32) -> [u8; 16] {
    let mut command = [0; 16];
    command[2..4].copy_from_slice(&tag.to_ne_bytes());
    command[4..8].copy_from_slice(&result.to_ne_bytes());
    command
}

/// Where byte `at` of the request of `tag` is found in the device.
fn position(tag: u16, at: usize) -> io::Result<i64> {
    if at >= 1 << TAG_SHIFT {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let position = DATA_AT + (u64::from(tag) << TAG_SHIFT) + at as u64;
    i64::try_from(position).map_err(|_| io::ErrorKind::InvalidInput.into())
}

fn copied(count: isize, len: usize) -> io::Result<()> {
    match usize::try_from(count) {
        Ok(count) if count == len => Ok(()),
        Ok(_) => Err(io::ErrorKind::UnexpectedEof.into()),
        Err(_) => Err(io::Error::last_os_error()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_have_the_numbers_of_the_kernel() {
        // As a C compiler computes them from linux/ublk_cmd.h.
        assert_eq!(code::FETCH, 0xc010_7520);
        assert_eq!(code::COMMIT_AND_FETCH, 0xc010_7521);
    }

    #[test]
    fn a_command_names_queue_tag_and_result_and_no_address() {
        let command = encode(0x0102, -5);
        assert_eq!(command[0..2], [0, 0]);
        assert_eq!(command[2..4], 0x0102_u16.to_ne_bytes());
        assert_eq!(command[4..8], (-5_i32).to_ne_bytes());
        assert_eq!(command[8..16], [0; 8]);
    }

    #[test]
    fn only_a_device_takes_commands_and_only_its_tags_have_descriptors() {
        let path = std::env::temp_dir().join(format!("drystone-ring-ublk-{}", std::process::id()));
        let file = fs::File::create(&path).unwrap();
        file.set_len(PAGE_BYTES as u64).unwrap();
        let queue = UblkQueue::open(&path, 2);
        fs::remove_file(&path).unwrap();
        let queue = queue.unwrap();
        crate::block_on(&crate::CoreConfig::default(), async move {
            assert_eq!((queue.depth(), queue.descriptor(1)), (2, [0; UBLK_DESCRIPTOR_BYTES]));
            assert_eq!(queue.fetch(0).await.unwrap_err().raw_os_error(), Some(libc::EOPNOTSUPP));
            assert_eq!(
                queue.commit(1, 512).await.unwrap_err().raw_os_error(),
                Some(libc::EOPNOTSUPP)
            );
            let at_end = queue.take(0, 0, &mut [0; 512]).unwrap_err();
            assert_eq!(at_end.kind(), io::ErrorKind::UnexpectedEof);
            let descriptor =
                std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| queue.descriptor(2)));
            assert!(descriptor.is_err());
        })
        .unwrap();
    }

    #[test]
    fn the_data_of_a_tag_has_its_place() {
        assert_eq!(position(0, 0).unwrap(), 0x8000_0000);
        assert_eq!(position(1, 4096).unwrap(), 0x8200_1000);
        assert_eq!(position(4095, 0).unwrap(), 0x8000_0000 + (4095 << 25));
        assert!(position(0, 1 << 25).is_err());
    }
}

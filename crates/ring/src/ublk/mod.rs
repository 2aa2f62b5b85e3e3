//! The kernel's user-space block devices (ublk): `/dev/ublkbN` whose requests a core serves.
//!
//! ```text
//! UblkControl --- /dev/ublk-control    make, start, stop, delete; blocks, for threads that are no core
//! UblkQueue ----- /dev/ublkcN          requests in, results out, on a core; the bytes are copied
//! write_back ---- /dev/ublkbN          what the kernel caches above it reaches the server
//! ```
//!
//! What travels in the structures is for the room above; here is what makes it sound. Names and
//! numbers are those of `linux/ublk_cmd.h`. Devices must be made with `UBLK_F_USER_COPY`, so that the
//! kernel is never told an address of ours: it refuses every request of any other device.

mod cache;
mod control;
mod queue;

pub use cache::write_back;
pub use control::{UBLK_CONTROL, UblkControl};
pub use queue::{UBLK_DESCRIPTOR_BYTES, UblkQueue};

/// `_IOC` of `asm-generic/ioctl.h` for the type `u`.
const fn ioc(direction: u32, number: u32, argument_bytes: u32) -> u32 {
    direction << 30 | argument_bytes << 16 | (b'u' as u32) << 8 | number
}

/// The argument is read.
const OUT: u32 = 2;
/// The argument is read and written.
const BOTH: u32 = 3;

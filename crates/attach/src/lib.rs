//! A `BlockDevice` as a local disk: an NBD server, a FUSE file and a block device of the kernel.
//!
//! [`nbd::Server`], [`fuse::Mount`] and [`ublk::Device`] make any device of `block` usable by what
//! runs on this machine: virtual machines, containers, tools. They run on a core of `ring` and share a
//! [`Disk`], which lets their clients read and write any bytes, and a [`Stats`] that counts what
//! they do.

mod disk;
mod errno;
pub mod fuse;
pub mod nbd;
mod pieces;
mod stats;
pub mod ublk;

pub use disk::{Disk, User, Zeroing};
pub use stats::{Counts, Stats};

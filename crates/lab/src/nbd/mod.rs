//! An export of an NBD server as a disk: a client of the protocol's fixed newstyle handshake and simple
//! replies (`doc/proto.md` of the NBD project). Numbers and requests are those of `attach`, which has the
//! server.
//!
//! [`connect`] is all of the handshake, on a blocking socket, for whoever brings a loop of its own.

mod address;
mod connection;
mod disk;
mod faults;
mod handshake;
#[cfg(test)]
mod tests;

pub use address::{NbdAddress, NbdAddressError, Place};
pub use disk::{NbdDisk, NbdOptions};
pub(crate) use faults::take_faults;
pub use handshake::{Export, NbdError, connect};

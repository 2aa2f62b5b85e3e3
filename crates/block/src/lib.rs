//! The BlockDevice trait where all layers meet; RAM, null, file and disk devices.

mod device;
mod error;
mod future;
mod geometry;

pub use device::{BlockDevice, Compared, Extent, ExtentState, WriteFlags};
pub use error::BlockError;
pub use future::IoFuture;
pub use geometry::{ATOMIC_BYTES_MAX, Geometry};

//! The BlockDevice trait where all layers meet; RAM, null, file and disk devices.
//!
//! [`RamDisk`] and [`NullDisk`] live in memory, [`FileDisk`] on a file or a block device of the
//! machine. [`ModelDisk`] takes the time of a real drive over any of them, [`VolatileDisk`] loses what was not
//! flushed when the process is killed. [`SpreadDisk`] is one volume over several of them. All of them run on the
//! cores of `ring`. [`testing`] holds the suite that every device passes, and a device that fails on
//! order.

pub mod arguments;
mod bytes;
mod device;
mod error;
mod file;
mod future;
mod geometry;
mod latency;
mod locks;
mod model;
mod mutants;
mod null;
mod operation;
mod ram;
mod spread;
pub mod testing;
mod volatile;
mod zero;

pub use bytes::{ZEROES, stable, with_stable, zeroes};
pub use device::BlockDevice;
pub use error::BlockError;
pub use file::{FileDisk, FileOptions, OpenError};
pub use future::{Answers, IoFuture};
pub use geometry::{ATOMIC_BYTES_MAX, Geometry};
pub use latency::{LATENCY_BOUNDS, LATENCY_CLASSES, Latency, SharedLatency};
pub use model::{DriveClass, ModelDisk, Time as ModelTime};
pub use null::NullDisk;
pub use operation::{Compared, Extent, ExtentState, WriteFlags};
pub use ram::RamDisk;
pub use spread::{Dealing, SpreadDisk, SpreadError};
pub use volatile::VolatileDisk;
pub use zero::zero_range;

//! One member's disks: RAID sets over chunks, thin volumes, snapshots, checksums, scrub, rebuild.

pub mod api;
mod env;
pub mod mutants;
mod overlay;
pub mod space;
pub mod tree;
pub mod raid;
mod words;

pub use env::{Env, RingEnv, Task};
pub use words::{
    BLOCK_BYTES, CLUSTER_BLOCKS, CLUSTER_BYTES, DiskId, Epoch, Level, Place, SetId, UnknownLevel,
    VersionId, crc32c,
};

//! One member's disks: RAID sets over chunks, thin volumes, snapshots, checksums, scrub, rebuild.

pub mod api;
pub mod checkpoint;
mod env;
mod join;
pub mod journal;
pub mod label;
pub mod mutants;
mod overlay;
pub mod raid;
pub mod space;
#[cfg(test)]
mod testing;
pub mod tree;
mod wire;
mod words;

pub use env::{Env, RingEnv, Task};
pub use words::{
    BLOCK_BYTES, CLUSTER_BLOCKS, CLUSTER_BYTES, DiskId, Epoch, Level, Place, SetId, UnknownLevel,
    VersionId, crc32c,
};

//! One member's disks: RAID sets over chunks, thin volumes, snapshots, checksums, scrub, rebuild.

pub mod api;
mod cache;
pub mod checkpoint;
mod checksum;
mod core;
mod engine;
mod env;
mod error;
mod join;
pub mod journal;
pub mod label;
mod manage;
pub mod membership;
pub mod mutants;
mod open;
mod overlay;
mod pages;
pub mod raid;
pub mod space;
mod sync;
mod tables;
#[cfg(test)]
mod testing;
pub mod tree;
mod upkeep;
mod volume;
mod watch;
mod wire;
mod words;

pub use checksum::block_checksum;
pub use env::{Env, RingEnv, Task};
pub use error::ArrayError;
pub use manage::{Array, Hold, SNAPSHOTS_MAX, check_name};
pub use open::{CreateOptions, Member, OpenOptions, probe};
pub use words::{
    BLOCK_BYTES, CLUSTER_BLOCKS, CLUSTER_BYTES, DiskId, Epoch, Level, Place, SetId, UnknownLevel,
    VersionId, crc32c,
};

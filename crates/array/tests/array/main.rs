//! An array on the engine of `ring`, over disks in memory.

mod basics;
mod common;
mod disks;
mod full;
mod membership;
mod property;
mod rot;
mod snapshots;

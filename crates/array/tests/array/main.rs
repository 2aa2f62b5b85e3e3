//! An array on the engine of `ring`, over disks in memory.

mod balance;
mod basics;
mod beyond;
mod checkpoints;
mod common;
mod copies;
mod crashes;
mod degraded;
mod disks;
mod full;
mod golden;
mod halves;
mod hardship;
mod journal;
mod kept;
mod liveness;
mod many;
mod membership;
mod process;
mod property;
mod reader;
mod rot;
mod scrubbed;
mod snapshots;
mod stalls;
mod walks;

//! Deterministic simulation: the array on simulated disks, clock and chance. One seed, one history.

mod array_subject;
mod content;
mod disk;
mod env;
mod executor;
mod held;
mod history;
mod host;
mod machine;
mod memory;
mod model;
#[cfg(feature = "mutants")]
mod mutants;
mod operator;
mod plain;
mod plain_device;
mod pressure;
mod random;
mod saboteur;
mod scenario;
mod slow;
mod subject;
mod themes;
mod trace;
mod verify;

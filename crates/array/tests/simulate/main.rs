//! Deterministic simulation: the array on simulated disks, clock and chance. One seed, one history.

mod disk;
mod env;
mod executor;
mod random;
mod trace;

//! iSCSI in, BlockDevice out: portals, sessions, task execution.
//!
//! A server has [`targets`], which may come and go while it runs.
//! A connection is accepted on the first core and dealt to the one with the fewest ([`portal`]).
//! There it logs in ([`login`]) and joins a [`session`], with which it stays. What it receives
//! ([`conn`]) is judged and run ([`ffp`]); SCSI commands act on the disks ([`exec`], [`copy`]).

mod config;
mod conn;
mod copy;
mod core;
mod doors;
mod event;
mod exec;
mod ffp;
mod login;
mod memory;
mod mutants;
mod order;
mod pieces;
mod portal;
mod quiet;
mod server;
mod session;
mod share;
mod shared;
mod shortage;
mod stopping;
mod store;
mod targets;
mod task;
mod tokens;
mod turns;
mod unit;

pub use config::{Access, AllowRule, Config, Elsewhere, Limits, Redirect, TargetSpec, UnitSpec};
pub use doors::GIVING_WAY_MAX;
pub use portal::REFUSALS_MAX;
pub use server::{Server, ShutdownError, StartError};
pub use store::{FileStore, Place, Record, UnitStore};
pub use targets::{TargetError, TargetInfo, Targets};
pub use unit::ReservationsError;

//! iSCSI in, BlockDevice out: portals, sessions, task execution.
//!
//! A server has [`targets`], which may come and go while it runs.
//! A connection is accepted on the first core and dealt to the one with the fewest ([`portal`]).
//! There it logs in ([`login`]) and joins a [`session`], with which it stays. What its [`datamover`]
//! brings is judged and run ([`ffp`]); SCSI commands act on the disks ([`exec`], [`copy`]).
//!
//! Each module uses only those below it:
//!
//! ```text
//! server, portal, stopping
//! login
//! ffp                     what each PDU does
//! exec                    what each command does
//! session                 connections, tasks and their ends, on one core
//! shared                  what all cores have in common
//! copy  targets           the copy manager; units by name
//! unit  outcome           a disk and its SCSI state; how a command ended
//! access  audit           who may use what; who hears of logins
//! datamover  doors  elsewhere  figures  registry  memory  tokens  store  ...
//! ```

mod access;
mod audit;
mod config;
mod copy;
mod cores;
mod crowded;
mod datamover;
mod doors;
mod elsewhere;
mod exec;
mod ffp;
mod figures;
mod floating;
mod login;
mod memory;
mod mutants;
mod order;
mod outcome;
mod pieces;
mod portal;
mod quiet;
mod registry;
mod server;
mod session;
mod share;
mod shared;
mod stopping;
mod store;
mod targets;
mod tokens;
mod unit;

pub use access::{Access, AccessError, AccessRule};
pub use audit::{
    AccessEvent, AccessListener, Happened, Missed, REFUSALS_TOLD_MAX, RefusalKind, Who,
};
pub use config::{Config, Elsewhere, Limits, Redirect, TargetSpec, UnitSpec};
pub use crowded::CrowdedOut;
pub use doors::GIVING_WAY_MAX;
pub use elsewhere::{RemoteTarget, ShownTo};
pub use figures::{UnitFigures, WorkFigures};
pub use floating::{FloatingListener, FloatingPortal};
pub use portal::REFUSALS_MAX;
pub use scsi::reservation::{
    ImageError, REGISTRATIONS_MAX, RegistrantInfo, ReservationType, ReservationsInfo,
    is_persistent, with_port,
};
pub use server::{
    ConnectionInfo, CoreFigures, Figures, PortalFigures, Server, ShutdownError, StartError,
    TargetInfo, Targets, UnitInfo, UnitRegistrations,
};
pub use store::{FileStore, Place, Record, UnitStore};
pub use targets::{Hold, TargetError};
pub use unit::ReservationsError;

//! iSCSI out, BlockDevice on top: discovery, sessions, multipath.
//!
//! A [`Session`] is one I_T nexus: it logs in, carries commands, and after a loss of its connection
//! logs in again by itself; it never repeats a command. A [`Disk`] is a logical unit behind one or
//! more sessions ([`block::BlockDevice`]): it chooses the path of each command and repeats what was
//! lost. When a command may be repeated, and where, is decided by [`paths::Router`], which is pure.
//!
//! Everything of a session, and of a disk with all its sessions, lives on one core.

mod address;
mod datamover;
mod discovery;
mod disk;
mod identity;
mod login;
mod mutants;
mod options;
pub mod paths;
mod session;

pub use address::{AddressError, TargetAddress};
pub use discovery::{DiscoveryError, discover};
pub use disk::{
    AttachError, Disk, DiskOptions, HostWays, LossNote, Opened, Opener, Pace, PathReport,
    PlanOptions, REOPEN_PAUSE_MAX, REOPEN_PAUSE_MIN,
};
pub use identity::{ClaimError, Hold, Identities, Identity, Leftover};
pub use iscsi::discovery::{DiscoveredTarget, PortalAddress};
pub use login::LoginError;
pub use options::SessionOptions;
pub use session::{CommandError, Pending, Reply, Request, Session, TaskError, Transfer};

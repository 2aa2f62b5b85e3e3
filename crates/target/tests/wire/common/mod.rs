//! What the tests of the target share: a server in this process, and an initiator that is told
//! every step and checks every PDU it is sent.

mod access;
mod by_hand;
mod cdb;
mod connection;
mod exchange;
mod login;
mod queues;
mod rig;
mod store;

pub(crate) use access::{
    UNAUTHORIZED, UNAVAILABLE, UNPROVED, access, as_user, at, host, set_access, user,
};
pub(crate) use by_hand::{ByHand, WHERE, WHO};
pub(crate) use cdb::*;
pub(crate) use connection::{Broken, Connection, Got, Pdu};
pub(crate) use exchange::{Command, Done};
pub(crate) use login::{Login, NoLogin};
pub(crate) use queues::Queues;
pub(crate) use rig::{
    IQN, Rig, config, disk_of, faulty, file, on_core, pattern, ram, target_of, wait_until,
};
pub(crate) use store::HeldStore;

use std::time::Duration;

/// Nothing in these tests takes longer, unless it hangs.
pub(crate) const PATIENCE: Duration = Duration::from_secs(10);

/// Long enough for an answer that must not come to show itself.
pub(crate) const A_MOMENT: Duration = Duration::from_millis(80);

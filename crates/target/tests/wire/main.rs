//! The target from a client's side: every test starts a server in this process and talks iSCSI to
//! it over the loopback, PDU by PDU. One binary, so that their many small waits run side by side.

#![allow(clippy::unwrap_used, reason = "helpers of tests may unwrap as tests do")]

mod access;
mod access_changes;
mod attentions;
mod audit;
mod common;
mod connections;
mod copies;
mod copies_across;
mod crowd;
mod crowded;
mod digests;
mod discovery;
mod doors;
mod elsewhere;
mod failures;
mod figures;
mod floating;
mod heavy;
mod late;
mod login;
mod malformed;
mod management;
mod many;
mod memory;
mod nop;
mod order;
mod reservations;
mod sanitize;
mod scarcity;
mod strangers;
mod targets;
mod unmap;
mod unread;
mod writes;

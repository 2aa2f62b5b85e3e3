//! The etcd that the members of a group run themselves, for the store that they share.
//!
//! Some of the members have a [`Seat`] in its cluster: one of up to two, three of up to four, five of more. Who has one
//! runs an etcd beside it ([`Server`]). Which seat comes or goes next is worked out by [`next`] alone, from who is
//! present, so that whichever member does it does the same; the changes themselves are
//! requests to the cluster ([`Etcd`](crate::store::Etcd)).
//!
//! All connections, of clients as well as between the seats, are TLS with certificates of the group's authority on both
//! ends.

mod admin;
mod config;
mod keeper;
mod log;
mod plan;
mod server;

#[cfg(test)]
mod tests;

pub use admin::{client_url, endpoints, etcd_name, peer_url, seats};
pub use config::{Begin, ServerConfig, forget, has_data};
pub use keeper::{STOP_TIME, ServerState};
pub use plan::{Seat, Step, heard, next, survives_without};
pub use server::{ClusterError, Server, find_etcd};

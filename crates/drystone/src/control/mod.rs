//! How commands reach a running member: typed requests over a Unix socket.
//!
//! One request for each connection, as a line of JSON; then lines of JSON come back
//! ([`frame::Frame`]): any number that tell of progress, and a last one that holds the answer or the
//! sentence why there is none. While a request takes its time an empty line of progress comes every
//! two seconds, so that a member that hangs is told from one that works.

mod callers;
pub(crate) mod client;
mod frame;
pub(crate) mod line;
pub(crate) mod path;
pub(crate) mod server;

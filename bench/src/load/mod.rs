//! The load client: one thread, one epoll, many connections, and as few system calls as the
//! work allows. What travels on the connections is a [`Wire`]: iSCSI, or the plain loop.

mod engine;
mod frames;
mod output;
mod pattern;
mod plan;
mod tally;

pub(crate) use engine::{Completion, Edge, Peer, Wire, run};
pub(crate) use frames::{Frame, Frames, HEAD_BYTES};
pub(crate) use output::Output;
pub(crate) use pattern::Pattern;
pub(crate) use plan::{Io, Order, Plan};
pub(crate) use tally::{LoadReport, Tally};

#[cfg(test)]
mod tests;

//! The plan from any state, what etcd says, and etcds that members run: one, several, killed, stopped, in the way of
//! others.

mod bed;
mod growth;
mod log;
mod naming;
mod plan;
mod servers;

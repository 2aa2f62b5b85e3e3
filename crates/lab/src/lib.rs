//! Measures a SAN, checks every byte, and plans its connections.
//!
//! [`workload`] reads what people have: parameter files of Vdbench and command lines of fio.
//! [`connections`] does the arithmetic of iSCSI connections. Both are pure.

pub mod connections;
pub mod workload;

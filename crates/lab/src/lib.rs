//! Measures a SAN, checks every byte, and plans its connections.
//!
//! [`workload`] reads what people have: parameter files of Vdbench and command lines of fio.
//! [`connections`] does the arithmetic of iSCSI connections. Both are pure.

pub mod check;
pub mod connections;
pub mod engine;
pub mod experiment;
pub mod measure;
pub mod nbd;
pub mod report;
pub mod volume;
pub mod workload;

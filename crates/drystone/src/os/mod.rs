//! What the binary asks of the operating system besides I/O.

pub(crate) mod congestion;
pub(crate) mod files;
pub(crate) mod machine;
pub(crate) mod memory;
pub(crate) mod notify;
pub(crate) mod runtime_dir;
pub(crate) mod signals;
pub(crate) mod state_dir;

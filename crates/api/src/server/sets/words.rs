//! What members say to each other of snapshots of one moment: on which paths. All bodies are JSON.
//!
//! ```text
//!  the coordinator drives                    a participant
//!  POST /v1/sets               plan      ─▶  stores that it takes part
//!  POST /v1/sets/{id}/hold               ─▶  holds back what hosts write
//!  POST /v1/sets/{id}/take               ─▶  takes the snapshots, and answers with them
//!  POST /v1/sets/{id}/release            ─▶  lets hosts write on, as the set will not be whole
//!  POST /v1/sets/{id}/settle             ─▶  does what the store of the group says
//! ```

/// A set is to be taken.
pub(in crate::server) const PREPARE_PATH: &str = "/v1/sets";

/// Writes are to wait.
pub(in crate::server) const HOLD_PATH: &str = "/v1/sets/{id}/hold";

/// Snapshots are to be taken.
pub(in crate::server) const TAKE_PATH: &str = "/v1/sets/{id}/take";

/// Writes are to go on.
pub(in crate::server) const RELEASE_PATH: &str = "/v1/sets/{id}/release";

/// It is decided.
pub(in crate::server) const SETTLE_PATH: &str = "/v1/sets/{id}/settle";

//! iSCSI PDUs, text negotiation, CHAP, digests and session state machines. Pure: bytes in, bytes and events out.
//!
//! Nothing here opens a socket, reads a clock or draws random numbers: callers bring the bytes, the
//! randomness and the decisions, and carry out what is returned. Both roles, target and initiator, are
//! served by the same types. Clause numbers refer to RFC 7143 unless another document is named.

pub mod address;
pub mod assembly;
pub mod chap;
pub mod digest;
pub mod discovery;
pub mod ffp;
pub mod framing;
pub mod login;
pub mod params;
pub mod pdu;
pub mod text;

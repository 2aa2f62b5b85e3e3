//! The plain loop: the least that any server must do to answer requests of 48 bytes with payloads
//! over TCP. No protocol, no disk; replies of a turn leave together. It is the floor that the
//! targets are measured against.
//!
//! A request is 48 bytes: the length of the payload after it, the length wanted back, the offset
//! of that in the server's memory, and a tag, all little-endian. The answer is 48 bytes with
//! the tag and the length of the payload after them.

mod client;
mod server;

pub(crate) use client::{load, server_ready};
pub(crate) use server::serve;

use crate::load::HEAD_BYTES;

#[cfg(test)]
mod tests;

/// The header of both directions.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Head {
    /// Bytes of payload after this header.
    payload_bytes: u32,
    /// Bytes of payload wanted in the answer; 0 in an answer.
    wanted_bytes: u32,
    /// Where they stand in the server's memory; 0 in an answer.
    offset: u64,
    /// Returned as it came.
    tag: u32,
}

impl Head {
    fn emit(&self) -> [u8; HEAD_BYTES] {
        let mut bytes = [0; HEAD_BYTES];
        bytes[0..4].copy_from_slice(&self.payload_bytes.to_le_bytes());
        bytes[4..8].copy_from_slice(&self.wanted_bytes.to_le_bytes());
        bytes[8..16].copy_from_slice(&self.offset.to_le_bytes());
        bytes[16..20].copy_from_slice(&self.tag.to_le_bytes());
        bytes
    }

    fn parse(bytes: &[u8; HEAD_BYTES]) -> Self {
        let word = |at: usize| {
            u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
        };
        Self {
            payload_bytes: word(0),
            wanted_bytes: word(4),
            offset: u64::from(word(8)) | u64::from(word(12)) << 32,
            tag: word(16),
        }
    }
}

//! Third-party copy (SPC-4 5.17): the form of it. What is copied where, and when, is the copy
//! manager's business, outside this crate. Clauses and tables are numbered as in SPC-4, whose rules SPC-5
//! took over.
//!
//! - EXTENDED COPY(LID1), as VMware's XCOPY sends it: [`ExtendedCopy`] is the plan of a copy.
//! - The token copy of Windows (ODX): [`PopulateToken`], [`WriteUsingToken`], and the
//!   [`TokenRegistry`] that knows what a [`RodToken`] of a unit stands for.
//! - What became of a copy: [`CopyRegistry`] answers RECEIVE COPY RESULTS and RECEIVE ROD TOKEN
//!   INFORMATION.
//! - VPD page 8Fh, RECEIVE COPY OPERATING PARAMETERS: the limits below, from one place.

mod designator;
mod extended;
mod limits;
mod offload;
mod registry;
mod status;
#[cfg(test)]
mod tests;
mod token;
mod token_registry;

pub use designator::{DESIGNATOR_BYTES_MAX, Designator};
pub use extended::{CopyTarget, Cscd, ExtendedCopy, Segment, segment_failure};
pub use limits::{
    CSCD_MAX, INACTIVITY_TIMEOUT_DEFAULT_S, INACTIVITY_TIMEOUT_MAX_S, SEGMENTS_MAX,
    TOKEN_BYTES_MAX, TOKEN_RANGES_MAX, operating_parameters, third_party_copy_page,
};
pub use offload::{PopulateToken, TokenRange, WriteUsingToken, underrun};
pub use registry::{COPIES_MAX, CopyAction, CopyId, CopyRegistry};
pub use status::{CopyOutcome, CopyProgress, OperationStatus};
pub use token::{ROD_TOKEN_BYTES, RodToken, TokenKind, TokenSource};
pub use token_registry::{TOKENS_MAX, TokenContents, TokenRegistry, report_all};

fn be16(bytes: &[u8], at: usize) -> u16 {
    u16::from_be_bytes([bytes[at], bytes[at + 1]])
}

fn be32(bytes: &[u8], at: usize) -> u32 {
    u32::from(be16(bytes, at)) << 16 | u32::from(be16(bytes, at + 2))
}

fn be64(bytes: &[u8], at: usize) -> u64 {
    u64::from(be32(bytes, at)) << 32 | u64::from(be32(bytes, at + 4))
}

/// A byte offset as a field pointer has it.
fn pointer(byte: usize) -> u16 {
    u16::try_from(byte).unwrap_or(u16::MAX)
}

//! Text in full feature phase (RFC 7143 11.10, 11.11 and appendix C): SendTargets, declarations, and
//! texts that are longer than one PDU, for each side.

mod initiator;
mod send_targets;
mod target;
#[cfg(test)]
mod tests;

pub use initiator::{InitiatorText, InitiatorTextError, InitiatorTextStep, TextPdu};
pub use send_targets::{
    AddressError, DEFAULT_PORT, DiscoveredTarget, Portal, PortalAddress, SendTargets,
    parse_records, write_record,
};
pub use target::{TargetText, TextEnv, TextStep};

/// Longest text that an initiator collects from the responses of one request: some thousand targets.
pub const RESPONSE_LEN_BYTES_MAX: usize = 4 << 20;

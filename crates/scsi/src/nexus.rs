//! Who talks to a logical unit: the I_T nexus (SAM-5 4.8).

use std::fmt;
use std::sync::Arc;

/// An I_T nexus by name: initiator port and target port. It outlives a session, so a registration
/// is found again when the initiator comes back.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct NexusKey {
    /// iSCSI name of the initiator node.
    pub initiator: Arc<str>,
    /// Initiator part of the session identifier; with the name it is the initiator port
    /// (RFC 7143 4.4.1).
    pub isid: [u8; 6],
    /// Relative target port identifier.
    pub target_port: u16,
}

impl NexusKey {
    /// The nexus of initiator port `initiator` + `isid` and the target port `target_port`.
    pub fn new(initiator: &str, isid: [u8; 6], target_port: u16) -> Self {
        Self { initiator: initiator.into(), isid, target_port }
    }
}

impl fmt::Display for NexusKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{},i,0x", self.initiator)?;
        for byte in self.isid {
            write!(f, "{byte:02x}")?;
        }
        write!(f, " on port {}", self.target_port)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn display_is_the_scsi_name_of_the_initiator_port() {
        let key = NexusKey::new("iqn.x:h", [0x80, 0, 0, 0, 0, 0x0a], 2);
        assert_eq!(key.to_string(), "iqn.x:h,i,0x80000000000a on port 2");
    }
}

//! REPORT TARGET PORT GROUPS (SPC-4 6.37).

use super::PortGroups;

/// T_SUP, O_SUP, U_SUP, S_SUP, AN_SUP and AO_SUP (SPC-4 6.37).
const SUPPORTED_STATES: u8 = 0x80 | 0x40 | 0x08 | 0x04 | 0x02 | 0x01;
const PREF: u8 = 0x80;
/// FORMAT TYPE 001b in the extended header.
const FORMAT_EXTENDED: u8 = 0b001 << 4;

impl PortGroups {
    /// The parameter data in full, with the length only or the extended header; the caller cuts
    /// it at the allocation length.
    pub fn report(&self, extended_header: bool) -> Vec<u8> {
        let mut body = Vec::new();
        if extended_header {
            body.extend([FORMAT_EXTENDED, self.implicit_transition_s, 0, 0]);
        }
        for group in &self.groups {
            let preferred = if group.preferred { PREF } else { 0 };
            body.extend([preferred | group.state as u8, SUPPORTED_STATES]);
            body.extend(group.id.to_be_bytes());
            // TARGET PORT COUNT has one byte; a group of a SAN member has a handful of ports.
            let ports = &group.ports[..group.ports.len().min(usize::from(u8::MAX))];
            body.extend([0, group.cause as u8, 0, ports.len() as u8]);
            for port in ports {
                body.extend([0, 0]);
                body.extend(port.to_be_bytes());
            }
        }
        let mut data = Vec::with_capacity(4 + body.len());
        data.extend((body.len() as u32).to_be_bytes());
        data.extend(body);
        data
    }
}

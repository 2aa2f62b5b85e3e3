//! Device identification (VPD page 83h, SPC-5 7.7.6).

use super::ascii;
use crate::config::UnitConfig;

const BINARY: u8 = 1;
const ASCII: u8 = 2;
const UTF8: u8 = 3;

/// What a designator names. The discriminants are the wire values.
#[derive(Clone, Copy)]
enum Association {
    LogicalUnit = 0,
    TargetPort = 1,
    TargetDevice = 2,
}

/// The unit's designators, then those of the port that the command came through, then the target
/// device's.
pub(super) fn page(config: &UnitConfig, relative_port: u16) -> Vec<u8> {
    use Association::{LogicalUnit, TargetDevice, TargetPort};
    let identity = &config.identity;
    let port = config.port(relative_port);
    let mut out = Vec::new();
    push(&mut out, LogicalUnit, BINARY, 0x3, &identity.naa);

    let mut t10 = vec![0; 8];
    ascii(&identity.vendor, &mut t10);
    t10.extend(identity.serial.bytes());
    push(&mut out, LogicalUnit, ASCII, 0x1, &t10);

    let [high, low] = port.relative_id.to_be_bytes();
    push(&mut out, TargetPort, BINARY, 0x4, &[0, 0, high, low]);
    if let Some(group) = config.port_groups.group_of(port.relative_id) {
        let [high, low] = group.id.to_be_bytes();
        push(&mut out, TargetPort, BINARY, 0x5, &[0, 0, high, low]);
    }
    let name = format!("{},t,0x{:04x}", config.target_name, port.portal_group_tag);
    push(&mut out, TargetPort, UTF8, 0x8, &scsi_name(&name));
    push(&mut out, TargetDevice, UTF8, 0x8, &scsi_name(&config.target_name));
    out
}

/// A SCSI name string: ended by a NUL, padded with more of them to a multiple of four.
fn scsi_name(name: &str) -> Vec<u8> {
    let mut bytes = name.as_bytes().to_vec();
    bytes.resize((name.len() + 1).next_multiple_of(4), 0);
    bytes
}

fn push(out: &mut Vec<u8>, association: Association, code_set: u8, kind: u8, designator: &[u8]) {
    const ISCSI: u8 = 0x50;
    const PIV: u8 = 0x80;
    // PROTOCOL IDENTIFIER means something only for ports and devices.
    let (protocol, piv) = match association {
        Association::LogicalUnit => (0, 0),
        Association::TargetPort | Association::TargetDevice => (ISCSI, PIV),
    };
    let length = u8::try_from(designator.len()).unwrap_or(u8::MAX);
    out.extend([protocol | code_set, piv | (association as u8) << 4 | kind, 0, length]);
    out.extend(&designator[..usize::from(length)]);
}

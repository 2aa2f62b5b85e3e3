//! Standard INQUIRY data (SPC-5 6.6.2).

use super::ascii;
use crate::config::UnitConfig;

const STANDARD_BYTES: usize = 96;

/// SPC-4. Initiators look at this byte and know 04h to 06h; 07h, SPC-5, some of them refuse as
/// unknown (libiscsi's suite among them). What is used of SPC-5 stands in the version descriptors.
const VERSION: u8 = 0x06;

/// SAM-5, iSCSI, SPC-5, SBC-4, and those before them that the answers also hold to: SPC-4, SBC-3.
const VERSION_DESCRIPTORS: [u16; 6] = [0x00a0, 0x0960, 0x05c0, 0x0600, 0x0460, 0x04c0];

pub(super) fn standard(config: &UnitConfig) -> Vec<u8> {
    const HISUP_AND_FORMAT_2: u8 = 0x12;
    const THIRD_PARTY_COPY: u8 = 0x08;
    const MULTI_PORT: u8 = 0x10;
    const CMDQUE: u8 = 0x02;
    let mut data = vec![0; STANDARD_BYTES];
    data[2] = VERSION;
    data[3] = HISUP_AND_FORMAT_2;
    data[4] = (STANDARD_BYTES - 5) as u8;
    data[5] = config.port_groups.tpgs() << 4 | THIRD_PARTY_COPY;
    data[6] = if config.ports.len() > 1 { MULTI_PORT } else { 0 };
    data[7] = CMDQUE;
    ascii(&config.identity.vendor, &mut data[8..16]);
    ascii(&config.identity.product, &mut data[16..32]);
    ascii(&config.identity.revision, &mut data[32..36]);
    for (at, descriptor) in VERSION_DESCRIPTORS.iter().enumerate() {
        data[58 + at * 2..60 + at * 2].copy_from_slice(&descriptor.to_be_bytes());
    }
    data
}

/// What INQUIRY tells about a logical unit number behind which there is nothing: peripheral
/// qualifier 011b, device type unknown (SPC-5 6.6.2).
pub fn absent() -> Vec<u8> {
    const NOT_CAPABLE_OF_A_UNIT: u8 = 0x7f;
    let mut data = vec![0; 36];
    data[0] = NOT_CAPABLE_OF_A_UNIT;
    data[2] = VERSION;
    data[3] = 0x12;
    data[4] = 36 - 5;
    ascii("DRYSTONE", &mut data[8..16]);
    data[16..36].fill(b' ');
    data
}

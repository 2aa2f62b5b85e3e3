//! Logical unit numbers (SAM-5 4.7) and REPORT LUNS (SPC-5 6.33).

use crate::Sense;

/// The 64-bit wire form of logical unit `index`: peripheral device addressing below 256, flat
/// space addressing above (SAM-5 4.7.7.2, 4.7.7.3). `None` beyond 16383.
pub fn encode_lun(index: u16) -> Option<u64> {
    const FLAT_SPACE: u64 = 0x4000;
    match index {
        0..=0xff => Some(u64::from(index) << 48),
        0x100..=0x3fff => Some((FLAT_SPACE | u64::from(index)) << 48),
        _ => None,
    }
}

/// The index in a single-level wire LUN of either form; `None` for anything else.
pub fn decode_lun(lun: u64) -> Option<u16> {
    let first = (lun >> 48) as u16;
    if lun & 0xffff_ffff_ffff != 0 {
        return None;
    }
    match first >> 14 {
        // Bus identifier zero, one level.
        0b00 if first <= 0xff => Some(first),
        0b01 => Some(first & 0x3fff),
        _ => None,
    }
}

/// REPORT LUNS parameter data: `luns` are in wire form. There are no well-known logical units, so
/// SELECT REPORT 01h gives an empty list, and 00h and 02h the same list.
pub fn report_luns(select_report: u8, luns: &[u64]) -> Result<Vec<u8>, Sense> {
    let listed = match select_report {
        0x00 | 0x02 => luns,
        0x01 => &[],
        _ => return Err(Sense::invalid_field_in_cdb(2, None)),
    };
    let mut data = Vec::with_capacity(8 + listed.len() * 8);
    data.extend(((listed.len() * 8) as u32).to_be_bytes());
    data.extend([0; 4]);
    for lun in listed {
        data.extend(lun.to_be_bytes());
    }
    Ok(data)
}

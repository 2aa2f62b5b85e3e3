//! READ CAPACITY(10) and (16) parameter data (SBC-4 5.19, 5.20).

use crate::config::MediumInfo;

/// The last LBA, or FFFF_FFFFh for "ask READ CAPACITY(16)", and the block length.
pub fn read_capacity10(medium: &MediumInfo) -> [u8; 8] {
    let last = u32::try_from(medium.blocks.get() - 1).unwrap_or(u32::MAX);
    let mut data = [0; 8];
    data[..4].copy_from_slice(&last.to_be_bytes());
    data[4..].copy_from_slice(&medium.block_bytes.to_be_bytes());
    data
}

/// Adds physical block size and logical block provisioning. Unmapped blocks read as zeroes.
pub fn read_capacity16(medium: &MediumInfo) -> [u8; 32] {
    const LBPME: u8 = 0x80;
    const LBPRZ: u8 = 0x40;
    let mut data = [0; 32];
    data[..8].copy_from_slice(&(medium.blocks.get() - 1).to_be_bytes());
    data[8..12].copy_from_slice(&medium.block_bytes.to_be_bytes());
    data[13] = medium.physical_exponent & 0x0f;
    if medium.thin {
        data[14] = LBPME | LBPRZ;
    }
    data
}

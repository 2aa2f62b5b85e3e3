//! The block device pages B0h, B1h and B2h (SBC-4 6.6.4, 6.6.2, 6.6.7).

use crate::config::MediumInfo;

/// Length of pages B0h and B1h after their header.
const BODY_BYTES: usize = 60;

fn put(body: &mut [u8], at: usize, value: &[u8]) {
    // Offsets are the standard's, which count the header of four bytes.
    body[at - 4..at - 4 + value.len()].copy_from_slice(value);
}

/// Block limits. There is no boundary inside atomic writes.
pub(super) fn limits(medium: &MediumInfo) -> Vec<u8> {
    /// A WRITE SAME of zero blocks is refused: with it, one damaged field wipes the medium.
    const WSNZ: u8 = 0x01;
    const UGAVALID: u32 = 1 << 31;
    let limits = &medium.limits;
    let granularity = limits.transfer_blocks_granularity;
    let mut body = vec![0; BODY_BYTES];
    put(&mut body, 4, &[WSNZ, limits.compare_blocks_max]);
    put(&mut body, 6, &granularity.to_be_bytes());
    put(&mut body, 8, &limits.transfer_blocks_max.to_be_bytes());
    put(&mut body, 12, &limits.transfer_blocks_optimal.to_be_bytes());
    if medium.thin {
        put(&mut body, 20, &limits.unmap_blocks_max.to_be_bytes());
        put(&mut body, 24, &limits.unmap_descriptors_max.to_be_bytes());
    }
    // One block is no granularity: zero, "not told", says the same. QEMU (7.2, block/iscsi.c)
    // makes an allocation map from a granularity of 4096 bytes, and where that is one block it
    // dies of an assertion in its first large read.
    if medium.thin && medium.unmap_granularity_blocks > 1 {
        put(&mut body, 28, &medium.unmap_granularity_blocks.to_be_bytes());
        put(&mut body, 32, &(UGAVALID | medium.unmap_alignment_blocks).to_be_bytes());
    }
    put(&mut body, 36, &limits.write_same_blocks_max.to_be_bytes());
    // ATOMIC ALIGNMENT and ATOMIC TRANSFER LENGTH GRANULARITY zero: one block.
    put(&mut body, 44, &limits.atomic_blocks_max.to_be_bytes());
    body
}

/// Block device characteristics.
pub(super) fn characteristics(medium: &MediumInfo) -> Vec<u8> {
    /// Blocks can be read without an error after SANITIZE: BLOCK ERASE (table "WABEREQ").
    const WABEREQ_READABLE: u8 = 0x40;
    /// VERIFY with BYTCHK compares unmapped blocks as zeroes.
    const VBULS: u8 = 0x01;
    let mut body = vec![0; BODY_BYTES];
    put(&mut body, 4, &medium.rotation_rate.to_be_bytes());
    if medium.thin {
        put(&mut body, 7, &[WABEREQ_READABLE]);
        put(&mut body, 8, &[VBULS]);
    }
    body
}

/// Logical block provisioning.
pub(super) fn provisioning(medium: &MediumInfo) -> Vec<u8> {
    const LBPU_LBPWS_LBPWS10: u8 = 0xe0;
    const LBPRZ_ZEROES: u8 = 0x04;
    const ANC_SUP: u8 = 0x02;
    const THIN: u8 = 0x02;
    if !medium.thin {
        return vec![0; 4];
    }
    let anchors = if medium.anchors { ANC_SUP } else { 0 };
    vec![0, LBPU_LBPWS_LBPWS10 | LBPRZ_ZEROES | anchors, THIN, 0]
}

//! What the kernel keeps of a device for its server (`ublksrv_flags`): that it is ours, and whose.
//!
//! ```text
//! byte 0            3                        8
//!      |  "dst"     | of the name of the disk |
//! ```
//!
//! These 40 bits do not tell all disks of the world apart: whoever takes a device over looks at the note
//! of the process that made it as well. A note alone would not do either, for a number may have gone to
//! another disk since.

/// Three bytes.
const OURS: u64 = u64::from_le_bytes(*b"dst\0\0\0\0\0");
const OURS_MASK: u64 = 0xff_ffff;

/// As versions before marked theirs.
const OURS_BEFORE: u64 = u64::from_le_bytes(*b"drystone");

/// That of a disk of this name; one without a name is nobody's.
pub(super) fn of(name: Option<&[u8]>) -> u64 {
    OURS | (name.map_or(0, digest) & !OURS_MASK)
}

/// Whether it says that a device is ours.
pub(super) fn is_ours(mark: u64) -> bool {
    mark & OURS_MASK == OURS || mark == OURS_BEFORE
}

/// FNV-1a, and the last step of MurmurHash3 behind it so that the upper bits depend on all of the name.
/// It stays the same in all versions: the next one takes over what this one leaves.
fn digest(name: &[u8]) -> u64 {
    let step = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
    let mut hash = name.iter().fold(0xcbf2_9ce4_8422_2325, step);
    for factor in [0xff51_afd7_ed55_8ccd, 0xc4ce_b9fe_1a85_ec53] {
        hash = (hash ^ (hash >> 33)).wrapping_mul(factor);
    }
    hash ^ (hash >> 33)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_says_whose_device_it_is() {
        let [a, b] = ["a", "b"].map(|name| of(Some(name.as_bytes())));
        assert!(is_ours(a) && is_ours(b) && is_ours(of(None)) && is_ours(OURS_BEFORE));
        assert!(!is_ours(0) && !is_ours(1));
        assert_ne!(a, b);
        assert_ne!(a, of(None));
        assert_eq!(a, of(Some(b"a")));
    }

    /// A later version must find what an earlier one has left.
    #[test]
    fn marks_stay_the_same() {
        assert_eq!(of(Some(b"6000c29")), 0x5d9e_c330_1b74_7364);
    }
}

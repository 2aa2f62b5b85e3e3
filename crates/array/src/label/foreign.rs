//! What a disk without a label looks like, so that an operator knows which disk was about to be
//! lost.

/// Byte strings that tell whose a disk is: position, string, name. The first that fits is taken,
/// so what a partition table or another layer wraps comes after its wrapper.
const SIGNS: &[(usize, &[u8], &str)] = &[
    (0, b"XFSB", "an XFS file system"),
    (0, b"LUKS\xba\xbe", "an encrypted LUKS volume"),
    (0, &0xa92b_4efc_u32.to_le_bytes(), "a member of a Linux md array"),
    (4096, &0xa92b_4efc_u32.to_le_bytes(), "a member of a Linux md array"),
    (512, b"LABELONE", "a physical volume of LVM"),
    (3, b"NTFS    ", "an NTFS file system"),
    (3, b"EXFAT   ", "an exFAT file system"),
    (54, b"FAT1", "a FAT file system"),
    (82, b"FAT32", "a FAT file system"),
    (0x438, &[0x53, 0xef], "an ext2, ext3 or ext4 file system"),
    (0x1_0040, b"_BHRfS_M", "a btrfs file system"),
    (4086, b"SWAPSPACE2", "swap space"),
    (512, b"EFI PART", "a GPT partition table"),
    (4096, b"EFI PART", "a GPT partition table"),
    (510, &[0x55, 0xaa], "an MBR partition table"),
];

/// What the first bytes of a disk look like; `None` when nothing is known of them.
pub(super) fn name_of(head: &[u8]) -> Option<&'static str> {
    let fits = |(at, sign, _): &&(usize, &[u8], &str)| {
        head.get(*at..).is_some_and(|bytes| bytes.starts_with(sign))
    };
    SIGNS.iter().find(fits).map(|(_, _, name)| *name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_sign_is_recognised_where_it_stands_and_nowhere_else() {
        for (at, sign, name) in SIGNS {
            let mut head = vec![0; 128 << 10];
            head[*at..at + sign.len()].copy_from_slice(sign);
            assert_eq!(name_of(&head), Some(*name));
            assert_eq!(name_of(&head[1..]), None, "{name} is looked for in its place only");
            assert_eq!(name_of(&head[..at + sign.len() - 1]), None, "{name} cut short");
        }
        assert_eq!(name_of(&[]), None);
    }
}

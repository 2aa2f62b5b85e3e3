//! The offsets here are those that a C compiler gives for `linux/ublk_cmd.h`.

use super::*;
use proptest::prelude::*;

fn word(bytes: &[u8], at: usize) -> u32 {
    u32::from_ne_bytes(part(bytes, at))
}

/// A `struct ublksrv_io_desc`.
fn descriptor(op_flags: u32, sectors: u32, start: u64) -> [u8; UBLK_DESCRIPTOR_BYTES] {
    let mut bytes = [0; UBLK_DESCRIPTOR_BYTES];
    bytes[0..4].copy_from_slice(&op_flags.to_ne_bytes());
    bytes[4..8].copy_from_slice(&sectors.to_ne_bytes());
    bytes[8..16].copy_from_slice(&start.to_ne_bytes());
    bytes
}

#[test]
fn a_device_is_asked_for_by_where_the_kernel_looks() {
    let bytes = Info::wanted(128, 4711, 0x0102_0304_0506_0708, false).to_bytes();
    assert_eq!(u16::from_ne_bytes(part(&bytes, 0)), 1, "nr_hw_queues");
    assert_eq!(u16::from_ne_bytes(part(&bytes, 2)), 128, "queue_depth");
    assert_eq!(word(&bytes, 8), 1 << 20, "max_io_buf_bytes");
    assert_eq!(word(&bytes, 12), u32::MAX, "dev_id: any");
    assert_eq!(word(&bytes, 16), 4711, "ublksrv_pid");
    assert_eq!(u64::from_ne_bytes(part(&bytes, 24)), 0x480, "flags: USER_COPY, UPDATE_SIZE");
    assert_eq!(u64::from_ne_bytes(part(&bytes, 32)), 0x0102_0304_0506_0708, "ublksrv_flags");
    assert!(bytes[40..].iter().all(|byte| *byte == 0));
    let kept = Info::wanted(128, 4711, 0, true);
    assert!(kept.outlives_its_server());
    assert_eq!(kept.features, 0x498, "USER_RECOVERY and its REISSUE as well");
}

#[test]
fn what_a_device_was_told_to_be_is_read_back() {
    let told = params(&Geometry::new(4096, 1 << 20), 1 << 20);
    assert_eq!(shape(&told), (4096, 4096 << 20));
    assert_eq!(word(&params_wanted(), 0), 60, "len");
}

#[test]
fn a_device_without_a_block_device_is_dead() {
    let mut bytes = Info::wanted(1, 1, 0, false).to_bytes();
    assert!(Info::of_bytes(&bytes).is_dead());
    bytes[4..6].copy_from_slice(&1_u16.to_ne_bytes());
    assert!(!Info::of_bytes(&bytes).is_dead());
}

#[test]
fn the_block_device_has_the_shape_of_the_disk() {
    let disk = Geometry {
        physical_block_bytes: 4096,
        transfer_granularity_bytes: 3 << 16,
        optimal_transfer_bytes: 1 << 20,
        unmap_granularity_bytes: 1 << 16,
        unmap_alignment_bytes: 1 << 15,
        rotational: true,
        ..Geometry::new(512, 1 << 21)
    };
    let bytes = params(&disk, 1 << 20);
    assert_eq!((word(&bytes, 0), word(&bytes, 4)), (60, 0b11), "len, types");
    assert_eq!(word(&bytes, 8), 0b1110, "attrs: rotational, volatile cache, FUA");
    assert_eq!(bytes[12..16], [9, 12, 20, 16], "shifts; three times 64 KiB is no power of two");
    assert_eq!(word(&bytes, 16), 2048, "max_sectors");
    assert_eq!(u64::from_ne_bytes(part(&bytes, 24)), 1 << 21, "dev_sectors");
    assert_eq!((word(&bytes, 40), word(&bytes, 44)), (1 << 15, 1 << 16), "discard");
    assert_eq!((word(&bytes, 48), word(&bytes, 52)), (1 << 21, 1 << 18), "max sectors");
    assert_eq!(bytes[56..60], [1_u16.to_ne_bytes(), [0; 2]].concat(), "max_discard_segments");
}

#[test]
fn what_the_disk_does_not_do_is_not_offered() {
    let thick = params(&Geometry { thin: false, ..Geometry::new(4096, 1 << 20) }, 1 << 20);
    assert_eq!((word(&thick, 48), word(&thick, 52)), (0, 1 << 18));
    assert_eq!(thick[12..14], [12, 12]);
    assert_eq!(u64::from_ne_bytes(part(&thick, 24)), 1 << 23, "sectors stay 512 bytes");
    let fixed = params(&Geometry { read_only: true, ..Geometry::new(512, 8) }, 1 << 20);
    assert_eq!((word(&fixed, 8), word(&fixed, 48), word(&fixed, 52)), (0b1101, 0, 0));
}

#[test]
fn requests_are_read() {
    let read = Request::of_bytes(&descriptor(0, 8, 100));
    assert_eq!((read.command, read.at, read.len), (Command::Read, 51_200, 4096));
    assert!(!read.durable && !read.keep_space);
    let write = Request::of_bytes(&descriptor(1 | 1 << 13 | 1 << 11, 1, 0));
    assert!(write.command == Command::Write && write.durable && !write.keep_space);
    assert_eq!(Request::of_bytes(&descriptor(2, 0, 0)).command, Command::Flush);
    assert_eq!(Request::of_bytes(&descriptor(3, 1 << 21, 0)).len, 1 << 30);
    let zeroes = Request::of_bytes(&descriptor(5 | 1 << 15, u32::MAX, 0));
    assert!(zeroes.command == Command::WriteZeroes && zeroes.keep_space);
    assert_eq!(zeroes.len, u64::from(u32::MAX) * 512);
    assert_eq!(Request::of_bytes(&descriptor(18, 1, 0)).command, Command::Other(18));
}

proptest! {
    #[test]
    fn what_is_told_of_a_device_is_read_back(
        (queues, depth, state) in any::<(u16, u16, u16)>(),
        (transfer_bytes_max, number, pid) in any::<(u32, u32, i32)>(),
        (features, mark) in any::<(u64, u64)>(),
    ) {
        let info =
            Info { queues, depth, state, transfer_bytes_max, number, pid, features, mark };
        prop_assert_eq!(Info::of_bytes(&info.to_bytes()), info);
    }

    #[test]
    fn no_descriptor_is_too_odd(bytes in any::<[u8; UBLK_DESCRIPTOR_BYTES]>()) {
        let request = Request::of_bytes(&bytes);
        prop_assert!(request.len.is_multiple_of(512));
    }
}

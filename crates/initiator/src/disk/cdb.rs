//! The CDBs that a disk sends (SPC-5 6, SBC-4 5).

use std::time::Duration;

/// A CDB with zeroes behind its end.
pub(super) type Cdb = [u8; 16];

/// SERVICE ACTION IN(16).
const SERVICE_ACTION_IN: u8 = 0x9e;
const FUA: u8 = 0x08;
const UNMAP: u8 = 0x08;

/// Blocks that a command is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Blocks {
    pub(super) lba: u64,
    pub(super) count: u32,
}

fn with_blocks(opcode: u8, flags: u8, blocks: Blocks) -> Cdb {
    let mut cdb = [0; 16];
    cdb[0] = opcode;
    cdb[1] = flags;
    cdb[2..10].copy_from_slice(&blocks.lba.to_be_bytes());
    cdb[10..14].copy_from_slice(&blocks.count.to_be_bytes());
    cdb
}

const fn fua(durable: bool) -> u8 {
    if durable { FUA } else { 0 }
}

pub(super) const TEST_UNIT_READY: Cdb = [0; 16];

/// INQUIRY, standard data or a vital product data page.
pub(super) fn inquiry(page: Option<u8>, allocation_bytes: u16) -> Cdb {
    let mut cdb = [0; 16];
    cdb[0] = 0x12;
    if let Some(page) = page {
        cdb[1] = 1;
        cdb[2] = page;
    }
    cdb[3..5].copy_from_slice(&allocation_bytes.to_be_bytes());
    cdb
}

/// MODE SENSE(6) of one page.
pub(super) fn mode_sense(page: u8, allocation_bytes: u8) -> Cdb {
    let mut cdb = [0; 16];
    cdb[0] = 0x1a;
    cdb[1] = 0x08; // DBD
    cdb[2] = page;
    cdb[4] = allocation_bytes;
    cdb
}

pub(super) fn read_capacity_10() -> Cdb {
    let mut cdb = [0; 16];
    cdb[0] = 0x25;
    cdb
}

pub(super) fn read_capacity_16(allocation_bytes: u32) -> Cdb {
    let mut cdb = [0; 16];
    cdb[0] = SERVICE_ACTION_IN;
    cdb[1] = 0x10;
    cdb[10..14].copy_from_slice(&allocation_bytes.to_be_bytes());
    cdb
}

pub(super) fn report_target_port_groups(allocation_bytes: u32) -> Cdb {
    let mut cdb = [0; 16];
    cdb[0] = 0xa3;
    cdb[1] = 0x0a;
    cdb[6..10].copy_from_slice(&allocation_bytes.to_be_bytes());
    cdb
}

pub(super) fn get_lba_status(lba: u64, allocation_bytes: u32) -> Cdb {
    let mut cdb = with_blocks(SERVICE_ACTION_IN, 0x12, Blocks { lba, count: 0 });
    cdb[10..14].copy_from_slice(&allocation_bytes.to_be_bytes());
    cdb
}

/// All segments from the one with block `lba` on.
pub(super) fn report_referrals(lba: u64, allocation_bytes: u32) -> Cdb {
    with_blocks(SERVICE_ACTION_IN, 0x13, Blocks { lba, count: allocation_bytes })
}

pub(super) fn read(blocks: Blocks) -> Cdb {
    with_blocks(0x88, 0, blocks)
}

pub(super) fn write(blocks: Blocks, durable: bool) -> Cdb {
    with_blocks(0x8a, fua(durable), blocks)
}

/// WRITE ATOMIC(16): the count has two bytes, and there is no boundary inside.
pub(super) fn write_atomic(blocks: Blocks, durable: bool) -> Cdb {
    let mut cdb = with_blocks(0x9c, fua(durable), Blocks { count: 0, ..blocks });
    let count = u16::try_from(blocks.count).expect("the atomic limit is below 65536 blocks");
    cdb[12..14].copy_from_slice(&count.to_be_bytes());
    cdb
}

pub(super) fn or_write(blocks: Blocks, durable: bool) -> Cdb {
    with_blocks(0x8b, fua(durable), blocks)
}

/// COMPARE AND WRITE: the count has one byte.
pub(super) fn compare_and_write(blocks: Blocks, durable: bool) -> Cdb {
    let mut cdb = with_blocks(0x89, fua(durable), Blocks { count: 0, ..blocks });
    cdb[13] = u8::try_from(blocks.count).expect("the compare limit is below 256 blocks");
    cdb
}

pub(super) fn write_same(blocks: Blocks, unmap: bool) -> Cdb {
    with_blocks(0x93, if unmap { UNMAP } else { 0 }, blocks)
}

/// UNMAP with a parameter list of so many bytes.
pub(super) fn unmap(list_bytes: usize) -> Cdb {
    let mut cdb = [0; 16];
    cdb[0] = 0x42;
    let len = u16::try_from(list_bytes).expect("there is one descriptor");
    cdb[7..9].copy_from_slice(&len.to_be_bytes());
    cdb
}

/// The parameter list of UNMAP with one block descriptor (SBC-4 5.35.2).
pub(super) fn unmap_list(blocks: Blocks) -> [u8; 24] {
    let mut list = [0; 24];
    list[1] = 22;
    list[3] = 16;
    list[8..16].copy_from_slice(&blocks.lba.to_be_bytes());
    list[16..20].copy_from_slice(&blocks.count.to_be_bytes());
    list
}

/// SYNCHRONIZE CACHE(16) of the whole medium.
pub(super) fn synchronize_cache() -> Cdb {
    with_blocks(0x91, 0, Blocks { lba: 0, count: 0 })
}

/// Setting a disk up takes no longer than this per command.
pub(super) const SETUP_TIMEOUT: Duration = Duration::from_secs(15);

#[cfg(test)]
mod tests {
    use super::*;
    use scsi::cdb::{BlockRange, Command};
    use scsi::decode;

    /// What the target's decoder makes of it.
    fn decoded(cdb: &Cdb) -> Command {
        decode(cdb).unwrap().1
    }

    const HERE: Blocks = Blocks { lba: 0x1_0000_0002, count: 200 };

    fn range() -> BlockRange {
        BlockRange { lba: HERE.lba, blocks: HERE.count }
    }

    #[test]
    fn the_decoder_of_the_target_reads_what_was_meant() {
        let shown = |cdb: &Cdb| format!("{:?}", decoded(cdb));
        let lba = format!("{:?}", range());
        for cdb in [
            read(HERE),
            write(HERE, true),
            write_atomic(HERE, false),
            or_write(HERE, true),
            compare_and_write(HERE, false),
            write_same(HERE, true),
        ] {
            assert!(shown(&cdb).contains(&lba), "{}", shown(&cdb));
        }
        for (cdb, name) in [
            (TEST_UNIT_READY, "TestUnitReady"),
            (inquiry(Some(0x83), 255), "Inquiry"),
            (mode_sense(8, 255), "ModeSense"),
            (read_capacity_10(), "ReadCapacity10"),
            (read_capacity_16(32), "ReadCapacity16"),
            (report_target_port_groups(255), "ReportTargetPortGroups"),
            (get_lba_status(7, 24), "GetLbaStatus"),
            (report_referrals(7, 24), "ReportReferrals { lba: 7, one_segment: false, alloc"),
            (unmap(24), "Unmap { anchor: false, list_bytes: 24 }"),
            (synchronize_cache(), "SynchronizeCache"),
        ] {
            assert!(shown(&cdb).starts_with(name), "{} should be {name}", shown(&cdb));
        }
    }

    #[test]
    fn the_target_reads_the_list_of_an_unmap() {
        let medium = scsi::unit::MediumInfo::new(512, HERE.lba + 1000);
        let ranges = scsi::param::parse_unmap(&unmap_list(HERE), &medium).unwrap();
        assert_eq!(ranges, [range()]);
    }

    #[test]
    fn durable_is_fua() {
        assert!(format!("{:?}", decoded(&write(HERE, true))).contains("fua: true"));
        assert!(format!("{:?}", decoded(&write(HERE, false))).contains("fua: false"));
        assert!(format!("{:?}", decoded(&write_same(HERE, true))).contains("unmap: true"));
    }
}

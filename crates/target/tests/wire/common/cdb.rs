//! CDBs, as an initiator writes them.

pub(crate) type Cdb = [u8; 16];

fn cdb(bytes: &[u8]) -> Cdb {
    let mut cdb = [0; 16];
    cdb[..bytes.len()].copy_from_slice(bytes);
    cdb
}

fn transfer10(opcode: u8, lba: u32, blocks: u16) -> Cdb {
    let (lba, blocks) = (lba.to_be_bytes(), blocks.to_be_bytes());
    cdb(&[opcode, 0, lba[0], lba[1], lba[2], lba[3], 0, blocks[0], blocks[1]])
}

pub(crate) fn test_unit_ready() -> Cdb {
    cdb(&[0])
}

pub(crate) fn read10(lba: u32, blocks: u16) -> Cdb {
    transfer10(0x28, lba, blocks)
}

pub(crate) fn write10(lba: u32, blocks: u16) -> Cdb {
    transfer10(0x2a, lba, blocks)
}

pub(crate) fn synchronize_cache() -> Cdb {
    transfer10(0x35, 0, 0)
}

pub(crate) fn inquiry(allocation_bytes: u8) -> Cdb {
    cdb(&[0x12, 0, 0, 0, allocation_bytes])
}

/// MODE SELECT(6) of a list of this length, PF=1.
pub(crate) fn mode_select(len_bytes: u8) -> Cdb {
    cdb(&[0x15, 0x10, 0, 0, len_bytes])
}

/// MODE SENSE(6) of one page, without block descriptors.
pub(crate) fn mode_sense(page: u8) -> Cdb {
    cdb(&[0x1a, 0x08, page, 0, 252])
}

/// PERSISTENT RESERVE OUT with a basic parameter list of 24 bytes.
pub(crate) fn stop_unit() -> Cdb {
    cdb(&[0x1b, 0, 0, 0, 0, 0])
}

pub(crate) fn set_target_port_groups(len_bytes: u8) -> Cdb {
    cdb(&[0xa4, 0x0a, 0, 0, 0, 0, 0, 0, 0, len_bytes, 0, 0])
}

pub(crate) fn reserve_out(action: u8, kind: u8) -> Cdb {
    cdb(&[0x5f, action, kind, 0, 0, 0, 0, 0, 24])
}

/// The basic parameter list of PERSISTENT RESERVE OUT.
pub(crate) fn reserve_list(key: u64, action_key: u64, aptpl: bool) -> Vec<u8> {
    let mut list = vec![0; 24];
    list[..8].copy_from_slice(&key.to_be_bytes());
    list[8..16].copy_from_slice(&action_key.to_be_bytes());
    list[20] = u8::from(aptpl);
    list
}

/// PERSISTENT RESERVE IN, READ FULL STATUS, of as much as there may be.
pub(crate) fn reserve_in_full() -> Cdb {
    cdb(&[0x5e, 3, 0, 0, 0, 0, 0, 0xff, 0])
}

/// PERSISTENT RESERVE IN.
pub(crate) fn reserve_in(action: u8) -> Cdb {
    cdb(&[0x5e, action, 0, 0, 0, 0, 0, 1, 0])
}

/// INQUIRY of a VPD page.
pub(crate) fn inquiry_page(page: u8) -> Cdb {
    cdb(&[0x12, 1, page, 0, 252])
}

/// UNMAP of these ranges: LBA and number of blocks.
pub(crate) fn unmap(ranges: &[(u64, u32)]) -> super::Command {
    let len = u16::try_from(ranges.len() * 16).unwrap();
    let mut list = [(len + 6).to_be_bytes(), len.to_be_bytes(), [0; 2], [0; 2]].concat();
    for (lba, blocks) in ranges {
        list.extend([&lba.to_be_bytes()[..], &blocks.to_be_bytes(), &[0; 4]].concat());
    }
    let [high, low] = (len + 8).to_be_bytes();
    super::Command::new(cdb(&[0x42, 0, 0, 0, 0, 0, 0, high, low])).writing(&list)
}

/// SANITIZE, OVERWRITE once with this byte; IMMED=1, and AUSE as asked for.
pub(crate) fn sanitize_overwrite(byte: u8, exit_allowed: bool) -> super::Command {
    let action = 0x81 | if exit_allowed { 0x20 } else { 0 };
    let list = [1, 0, 0, 1, byte];
    super::Command::new(cdb(&[0x48, action, 0, 0, 0, 0, 0, 0, 5])).writing(&list).immediate_data()
}

/// The same so and so often, answered as soon as it has begun.
pub(crate) fn sanitize_overwrites(count: u8, byte: u8) -> super::Command {
    let list = [count, 0, 0, 1, byte];
    super::Command::new(cdb(&[0x48, 0x81, 0, 0, 0, 0, 0, 0, 5])).writing(&list).immediate_data()
}

/// SANITIZE, EXIT FAILURE MODE.
pub(crate) fn sanitize_exit() -> super::Command {
    super::Command::new(cdb(&[0x48, 0x1f]))
}

/// VERIFY(16): that all these blocks hold what the one block does that comes with it.
pub(crate) fn verify_same(lba: u64, blocks: u32, block: &[u8]) -> super::Command {
    super::Command::new(transfer16(0x8f, 0x06, lba, blocks)).writing(block).immediate_data()
}

/// WRITE SAME(16).
pub(crate) fn write_same(lba: u64, blocks: u32, block: &[u8]) -> super::Command {
    super::Command::new(transfer16(0x93, 0, lba, blocks)).writing(block).immediate_data()
}

fn transfer16(opcode: u8, flags: u8, lba: u64, blocks: u32) -> Cdb {
    cdb(&[&[opcode, flags][..], &lba.to_be_bytes(), &blocks.to_be_bytes()].concat())
}

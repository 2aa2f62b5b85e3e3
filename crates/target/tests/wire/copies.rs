//! Third-party copy as hosts see it (SPC-4 §5.17, SBC-4 §4.28): between sessions and cores, beside
//! other commands, and cut short.

use block::testing::{Fault, FaultyDisk, Operation, Rule};
use iscsi::pdu::{LogoutReason, RESERVED_TAG, TaskFunction, TaskResult};

use crate::common::{
    A_MOMENT, Cdb, Command, Connection, Rig, config, faulty, pattern, ram, wait_until,
};

pub(crate) const MIB: usize = 1 << 20;
const REVOKED: (u8, u8, u8) = (5, 0x23, 0x06);
pub(crate) const IMMED: u8 = 0x01;

pub(crate) fn cdb(bytes: &[u8]) -> Cdb {
    let mut cdb = [0; 16];
    cdb[..bytes.len()].copy_from_slice(bytes);
    cdb
}

/// POPULATE TOKEN or WRITE USING TOKEN with this list.
fn token_command(action: u8, list_id: u8, list: &[u8]) -> Command {
    let mut cdb = cdb(&[0x83, action, 0, 0, 0, 0, 0, 0, 0, list_id]);
    cdb[10..14].copy_from_slice(&(list.len() as u32).to_be_bytes());
    Command::new(cdb).writing(list).immediate_data()
}

fn one_range(list: &mut Vec<u8>, lba: u64, blocks: u32) {
    list.extend(16_u16.to_be_bytes());
    list.extend(lba.to_be_bytes());
    list.extend(blocks.to_be_bytes());
    list.extend([0; 4]);
    let length = (list.len() - 2) as u16;
    list[..2].copy_from_slice(&length.to_be_bytes());
}

/// RECEIVE ROD TOKEN INFORMATION: COPY OPERATION STATUS, and what is behind the header.
pub(crate) fn information(host: &mut Connection, lun: u64, list_id: u8) -> (u8, Vec<u8>) {
    let asked = cdb(&[0x84, 0x07, 0, 0, 0, list_id, 0, 0, 0, 0, 0, 0, 4, 0]);
    let data = host.run(&Command::new(asked).on(lun).reading(1024)).good();
    (data[5], data[32..].to_vec())
}

/// Makes a token for blocks of LUN 0.
pub(crate) fn token(host: &mut Connection, lba: u64, blocks: u32) -> Vec<u8> {
    let mut list = vec![0; 14];
    one_range(&mut list, lba, blocks);
    host.run(&token_command(0x10, 1, &list)).good();
    let (status, token) = information(host, 0, 1);
    assert_eq!((status, token.len()), (0x01, 4 + 2 + 512));
    token[6..].to_vec()
}

/// Writes the token's data to LUN 1, from its first block on.
fn use_token(flags: u8, token: &[u8], blocks: u32) -> Command {
    write_using_token(flags, token, blocks).on(1)
}

pub(crate) fn write_using_token(flags: u8, token: &[u8], blocks: u32) -> Command {
    let mut list = vec![0; 16];
    list[2] = flags;
    list.extend(token);
    list.extend([0; 6]);
    one_range(&mut list, 0, blocks);
    token_command(0x11, 2, &list)
}

/// The NAA name of a unit, as a designation descriptor.
pub(crate) fn naa(host: &mut Connection, lun: u64) -> Vec<u8> {
    let page = host.run(&Command::new(cdb(&[0x12, 1, 0x83, 0, 255])).on(lun).reading(255)).good();
    let naa = &page[4..24];
    assert_eq!((naa[1] & 0x3f, naa[3]), (0x03, 16), "the unit's NAA name comes first");
    naa.to_vec()
}

/// EXTENDED COPY from the unit it is sent to, by its short identifier, to LUN 1, by its name.
fn extended_copy(host: &mut Connection, blocks: u16) -> Command {
    copy_between(&naa(host, 1), (0xffff, 0), blocks)
}

/// EXTENDED COPY of the first blocks: `ends` are source and destination, 0 for the unit of this name
/// and ffffh for the one that the command is sent to.
pub(crate) fn copy_between(naa: &[u8], ends: (u16, u16), blocks: u16) -> Command {
    let mut list = vec![7, 0, 0, 32, 0, 0, 0, 0, 0, 0, 0, 28, 0, 0, 0, 0];
    list.extend([0xe4, 0, 0, 0]);
    list.extend(naa);
    list.extend([0, 0, 0, 0, 0, 0, 2, 0]);
    list.extend([0x02, 0, 0, 0x18]);
    list.extend(ends.0.to_be_bytes());
    list.extend(ends.1.to_be_bytes());
    list.extend([0, 0]);
    list.extend(blocks.to_be_bytes());
    list.extend([0; 16]);
    let mut cdb = cdb(&[0x83, 0x00]);
    cdb[13] = list.len() as u8;
    Command::new(cdb).writing(&list).immediate_data()
}

pub(crate) fn fill(host: &mut Connection, data: &[u8]) {
    for (n, part) in data.chunks(MIB).enumerate() {
        host.run(&Command::write((n * MIB / 512) as u32, part)).good();
    }
}

/// A rig of two units; the second hangs at its second mebibyte.
fn hanging() -> (Rig, FaultyDisk) {
    let (disk, device) = faulty();
    let second = MIB as u64..MIB as u64 + 1;
    disk.inject(Rule::always(Operation::Write, Fault::Hang).at(second));
    (Rig::start(config([ram(), device])), disk)
}

/// What is on the unit after its first mebibyte that was not let through, is zeroes.
fn expect_cut_short(host: &mut Connection, data: &[u8]) {
    let first = host.run(&Command::read(0, 2048).on(1)).good();
    assert!(first == data[..MIB]);
    let rest = host.run(&Command::read(4096, 2048).on(1)).good();
    assert!(rest.iter().all(|&byte| byte == 0), "nothing follows the chunk under way");
}

#[test]
fn a_token_goes_from_session_to_session_and_from_core_to_core() {
    let mut config = config([ram(), ram()]);
    config.cores = 2;
    let rig = Rig::start(config);
    let (mut first, mut second) = (rig.ready("first"), rig.ready("second"));
    second.take_attentions(1);
    let data = pattern(3 * MIB, 1);
    fill(&mut first, &data);
    let token = token(&mut first, 0, 6144);
    second.run(&use_token(IMMED, &token, 6144)).good();
    while information(&mut second, 1, 2).0 == 0x12 {}
    assert_eq!(information(&mut second, 1, 2).0, 0x01);
    for (n, part) in data.chunks(MIB).enumerate() {
        assert!(second.run(&Command::read(n as u32 * 2048, 2048).on(1)).good() == part);
    }
    first.take_attentions(1);
    let asked = cdb(&[0x84, 0x07, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 4, 0]);
    let other = first.run(&Command::new(asked).on(1).reading(1024));
    assert_eq!(other.check(), (5, 0x24, 0), "what becomes of it is told to its host alone");
}

#[test]
fn whatever_changes_a_block_of_a_token_revokes_it() {
    let rig = Rig::start(config([ram(), ram()]));
    let mut host = rig.ready("host");
    host.take_attentions(1);
    let block = pattern(512, 1);
    let unmap = [&[0, 22, 0, 16, 0, 0, 0, 0][..], &[0; 7], &[10, 0, 0, 0, 1, 0, 0, 0, 0]].concat();
    let lba_10 = |opcode: u8, blocks| cdb(&[opcode, 0, 0, 0, 0, 10, 0, 0, blocks]);
    let lba_16 = |opcode: u8| cdb(&[opcode, 0, 0, 0, 0, 0, 0, 0, 0, 10, 0, 0, 0, 1]);
    let compare = {
        let mut compare = lba_16(0x89);
        compare[13] = 1;
        compare
    };
    let changes = [
        ("immediate data", Command::write(10, &block).immediate_data()),
        ("solicited data", Command::write(10, &block)),
        ("WRITE AND VERIFY", Command::new(lba_10(0x2e, 1)).writing(&block)),
        ("WRITE SAME", Command::new(lba_10(0x41, 1)).writing(&block)),
        ("COMPARE AND WRITE", Command::new(compare).writing(&block.repeat(2))),
        ("ORWRITE", Command::new(lba_16(0x8b)).writing(&block)),
        ("UNMAP", Command::new(cdb(&[0x42, 0, 0, 0, 0, 0, 0, 0, 24])).writing(&unmap)),
        ("EXTENDED COPY", extended_copy(&mut host, 11)),
    ];
    for (name, change) in changes {
        let lun = if name == "EXTENDED COPY" { 1 } else { 0 };
        let token = if lun == 0 { token(&mut host, 8, 3) } else { token_of_lun_1(&mut host) };
        host.run(&Command::read(0, 64)).good();
        host.run(&Command::write(11, &block)).good();
        assert_eq!(host.run(&use_token(0, &token, 3)).status, 0, "{name}: not yet");
        let token = if lun == 0 { token } else { token_of_lun_1(&mut host) };
        host.run(&change).good();
        assert_eq!(host.run(&use_token(0, &token, 3)).check(), REVOKED, "{name}");
    }
}

/// Blocks 8 to 10 of LUN 1.
fn token_of_lun_1(host: &mut Connection) -> Vec<u8> {
    let mut list = vec![0; 14];
    one_range(&mut list, 8, 3);
    host.run(&token_command(0x10, 1, &list).on(1)).good();
    information(host, 1, 1).1[6..].to_vec()
}

#[test]
fn abort_task_ends_a_copy_before_it_answers() {
    let (rig, disk) = hanging();
    let mut host = rig.ready("host");
    host.take_attentions(1);
    let data = pattern(4 * MIB, 2);
    fill(&mut host, &data);
    let copy = extended_copy(&mut host, 8192);
    let copy = host.issue(&copy);
    wait_until("the copy hangs", || disk.held() == 1);
    let abort = host.manage(TaskFunction::ABORT_TASK, 0, copy, 0);
    host.expect_alive();
    disk.release();
    assert_eq!(host.managed(abort), TaskResult::COMPLETE);
    disk.heal();
    expect_cut_short(&mut host, &data);
    let status = cdb(&[0x84, 0x00, 7, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 12]);
    let status = host.run(&Command::new(status).reading(12)).good();
    assert_eq!(status[4], 0x02, "terminated");
}

#[test]
fn a_reset_of_the_destination_ends_copies_sent_to_another_unit() {
    let (rig, disk) = hanging();
    let (mut host, mut other) = (rig.ready("host"), rig.ready("other"));
    host.take_attentions(1);
    let data = pattern(4 * MIB, 3);
    fill(&mut host, &data);
    let copy = extended_copy(&mut host, 8192);
    let copy = host.issue(&copy);
    wait_until("the copy hangs", || disk.held() == 1);
    let reset = other.manage(TaskFunction::LOGICAL_UNIT_RESET, 1, RESERVED_TAG, 0);
    other.expect_alive();
    disk.release();
    assert_eq!(other.managed(reset), TaskResult::COMPLETE);
    disk.heal();
    assert_eq!(host.finish(copy).check(), (0xa, 0x0d, 0x01), "COPY ABORTED");
    host.take_attentions(1);
    expect_cut_short(&mut host, &data);
}

#[test]
fn a_copy_in_the_background_ends_with_its_session() {
    let (rig, disk) = hanging();
    let (mut host, mut other) = (rig.ready("host"), rig.ready("other"));
    host.take_attentions(1);
    other.take_attentions(1);
    let data = pattern(4 * MIB, 4);
    fill(&mut host, &data);
    let token = token(&mut host, 0, 8192);
    host.run(&use_token(IMMED, &token, 8192)).good();
    wait_until("the copy hangs", || disk.held() == 1);
    host.logout(LogoutReason::CLOSE_SESSION, 0);
    // The answer to the logout comes a moment before the session ends what it has under way.
    std::thread::sleep(A_MOMENT);
    assert_eq!(rig.server().sessions(), 2, "it still writes");
    disk.release();
    wait_until("the session is gone", || rig.server().sessions() == 1);
    disk.heal();
    expect_cut_short(&mut other, &data);
}

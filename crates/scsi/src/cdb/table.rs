//! The command table: every command there is, once.

use super::parse;
use super::spec::AccessClass::{Always, Read, Reservation, Write};
use super::spec::Direction::{None as NoData, Out};
use super::spec::Executor::{CopyManager, Medium};
use super::spec::{Cdb, CommandSpec};
use crate::Sense;

type Parse = fn(&Cdb) -> Result<super::Command, Sense>;

const fn command(opcode: u8, name: &'static str, usage: &[u8], parse: Parse) -> CommandSpec {
    CommandSpec::new(opcode, name, usage, parse)
}

/// Works on the medium. GROUP NUMBER stands where the layout of that CDB length has it.
const fn medium(opcode: u8, name: &'static str, usage: &[u8], parse: Parse) -> CommandSpec {
    let spec = command(opcode, name, usage, parse).run_by(Medium);
    match usage.len() {
        9 => spec.group_number(6),
        11 => spec.group_number(10),
        15 => spec.group_number(14),
        _ => spec,
    }
}

/// Reads blocks, or only tells about them.
const fn reads(opcode: u8, name: &'static str, usage: &[u8], parse: Parse) -> CommandSpec {
    medium(opcode, name, usage, parse).access(Read)
}

/// Writes blocks from Data-Out.
const fn writes(opcode: u8, name: &'static str, usage: &[u8], parse: Parse) -> CommandSpec {
    medium(opcode, name, usage, parse).access(Write).data(Out)
}

const fn prin(action: u8, name: &'static str, parse: Parse) -> CommandSpec {
    command(0x5e, name, &[0, 0, 0, 0, 0, 0, 0xff, 0xff, 0], parse).action(action)
}

const fn prout(action: u8, name: &'static str, parse: Parse) -> CommandSpec {
    let usage = [0, 0xff, 0, 0, 0xff, 0xff, 0xff, 0xff, 0];
    command(0x5f, name, &usage, parse).action(action).access(Reservation).data(Out)
}

const fn sanitize(action: u8, name: &'static str, usage: &[u8], parse: Parse) -> CommandSpec {
    // How long it takes is the medium's size: no honest number fits here.
    command(0x48, name, usage, parse).action(action).access(Write).timeout_s(0)
}

const fn copy_out(action: u8, name: &'static str, usage: &[u8], parse: Parse) -> CommandSpec {
    let spec = command(0x83, name, usage, parse).action(action);
    spec.access(Write).run_by(CopyManager).data(Out).timeout_s(60)
}

const fn copy_in(action: u8, name: &'static str, usage: &[u8], parse: Parse) -> CommandSpec {
    command(0x84, name, usage, parse).action(action).access(Write).run_by(CopyManager)
}

const FF: u8 = 0xff;
/// CDB bytes 2.. of the layouts: LBA, GROUP NUMBER (not evaluated), length, CONTROL.
const fn ten(flags: u8) -> [u8; 9] {
    [flags, FF, FF, FF, FF, 0, FF, FF, 0]
}
const fn twelve(flags: u8) -> [u8; 11] {
    [flags, FF, FF, FF, FF, FF, FF, FF, FF, 0, 0]
}
const fn sixteen(flags: u8) -> [u8; 15] {
    [flags, FF, FF, FF, FF, FF, FF, FF, FF, FF, FF, FF, FF, 0, 0]
}
/// Only the four bytes before GROUP NUMBER and CONTROL, as most service actions have it.
const LENGTH_ONLY_16: [u8; 15] = [0, 0, 0, 0, 0, 0, 0, 0, 0, FF, FF, FF, FF, 0, 0];
const LIST_ID8_16: [u8; 15] = [0, FF, 0, 0, 0, 0, 0, 0, 0, FF, FF, FF, FF, 0, 0];
const LIST_ID32_16: [u8; 15] = [0, FF, FF, FF, FF, 0, 0, 0, 0, FF, FF, FF, FF, 0, 0];
const LENGTH_ONLY_12: [u8; 11] = [0, 0, 0, 0, 0, FF, FF, FF, FF, 0, 0];

const DPO_FUA: u8 = 0x18;
const DPO_BYTCHK: u8 = 0x16;
const IMMED: u8 = 0x02;

/// The commands by operation code, then by service action.
pub(super) const COMMANDS: &[CommandSpec] = &[
    command(0x00, "TEST UNIT READY", &[0; 5], parse::test_unit_ready).data(NoData),
    command(0x03, "REQUEST SENSE", &[0x01, 0, 0, FF, 0], parse::request_sense)
        .access(Always)
        .ignores_attention(),
    reads(0x08, "READ(6)", &[0x1f, FF, FF, FF, 0], parse::read6),
    writes(0x0a, "WRITE(6)", &[0x1f, FF, FF, FF, 0], parse::write6),
    command(0x12, "INQUIRY", &[0x01, FF, FF, FF, 0], parse::inquiry)
        .access(Always)
        .ignores_attention(),
    command(0x15, "MODE SELECT(6)", &[0x10, 0, 0, FF, 0], parse::mode_select6)
        .access(Write)
        .data(Out),
    command(0x16, "RESERVE(6)", &[0; 5], parse::reserve).access(Reservation).data(NoData),
    command(0x17, "RELEASE(6)", &[0; 5], parse::release).access(Reservation).data(NoData),
    command(0x1a, "MODE SENSE(6)", &[0x08, FF, FF, FF, 0], parse::mode_sense6).access(Write),
    command(0x1b, "START STOP UNIT", &[0x01, 0, 0, 0xf7, 0], parse::start_stop_unit)
        .access(Write)
        .data(NoData),
    command(0x1d, "SEND DIAGNOSTIC", &[0x07, 0, FF, FF, 0], parse::send_diagnostic)
        .access(Write)
        .data(Out),
    command(0x1e, "PREVENT ALLOW MEDIUM REMOVAL", &[0, 0, 0, 0x01, 0], parse::prevent_allow)
        .access(Write)
        .data(NoData),
    command(0x25, "READ CAPACITY(10)", &[0; 9], parse::read_capacity10).access(Always),
    reads(0x28, "READ(10)", &ten(DPO_FUA), parse::read10),
    writes(0x2a, "WRITE(10)", &ten(DPO_FUA), parse::write10),
    writes(0x2e, "WRITE AND VERIFY(10)", &ten(DPO_BYTCHK), parse::write_verify10),
    reads(0x2f, "VERIFY(10)", &ten(DPO_BYTCHK), parse::verify10).data(Out),
    reads(0x34, "PRE-FETCH(10)", &ten(IMMED), parse::pre_fetch10).data(NoData),
    writes(0x35, "SYNCHRONIZE CACHE(10)", &ten(IMMED), parse::synchronize10)
        .data(NoData)
        .timeout_s(60),
    command(
        0x37,
        "READ DEFECT DATA(10)",
        &[0, 0x1f, 0, 0, 0, 0, FF, FF, 0],
        parse::read_defect_data10,
    )
    .access(Read),
    writes(0x41, "WRITE SAME(10)", &ten(0x18), parse::write_same10).timeout_s(60),
    writes(0x42, "UNMAP", &[0x01, 0, 0, 0, 0, 0, FF, FF, 0], parse::unmap).timeout_s(60),
    sanitize(
        0x01,
        "SANITIZE: OVERWRITE",
        &[0xa0, 0, 0, 0, 0, 0, FF, FF, 0],
        parse::sanitize_overwrite,
    )
    .data(Out),
    sanitize(
        0x02,
        "SANITIZE: BLOCK ERASE",
        &[0xa0, 0, 0, 0, 0, 0, FF, FF, 0],
        parse::sanitize_block_erase,
    )
    .data(NoData),
    sanitize(
        0x1f,
        "SANITIZE: EXIT FAILURE MODE",
        &[0x80, 0, 0, 0, 0, 0, FF, FF, 0],
        parse::sanitize_exit_failure_mode,
    )
    .data(NoData),
    command(0x4d, "LOG SENSE", &[0, FF, FF, 0, FF, FF, FF, FF, 0], parse::log_sense).access(Always),
    command(0x55, "MODE SELECT(10)", &[0x10, 0, 0, 0, 0, 0, FF, FF, 0], parse::mode_select10)
        .access(Write)
        .data(Out),
    command(0x56, "RESERVE(10)", &[0; 9], parse::reserve).access(Reservation).data(NoData),
    command(0x57, "RELEASE(10)", &[0; 9], parse::release).access(Reservation).data(NoData),
    command(0x5a, "MODE SENSE(10)", &[0x18, FF, FF, 0, 0, 0, FF, FF, 0], parse::mode_sense10)
        .access(Write),
    prin(0x00, "PERSISTENT RESERVE IN: READ KEYS", parse::prin_read_keys),
    prin(0x01, "PERSISTENT RESERVE IN: READ RESERVATION", parse::prin_read_reservation),
    prin(0x02, "PERSISTENT RESERVE IN: REPORT CAPABILITIES", parse::prin_report_capabilities),
    prin(0x03, "PERSISTENT RESERVE IN: READ FULL STATUS", parse::prin_read_full_status),
    prout(0x00, "PERSISTENT RESERVE OUT: REGISTER", parse::prout_register),
    prout(0x01, "PERSISTENT RESERVE OUT: RESERVE", parse::prout_reserve),
    prout(0x02, "PERSISTENT RESERVE OUT: RELEASE", parse::prout_release),
    prout(0x03, "PERSISTENT RESERVE OUT: CLEAR", parse::prout_clear),
    prout(0x04, "PERSISTENT RESERVE OUT: PREEMPT", parse::prout_preempt),
    prout(0x05, "PERSISTENT RESERVE OUT: PREEMPT AND ABORT", parse::prout_preempt_and_abort),
    prout(
        0x06,
        "PERSISTENT RESERVE OUT: REGISTER AND IGNORE EXISTING KEY",
        parse::prout_register_and_ignore,
    ),
    prout(0x07, "PERSISTENT RESERVE OUT: REGISTER AND MOVE", parse::prout_register_and_move),
    copy_out(0x00, "EXTENDED COPY(LID1)", &LENGTH_ONLY_16, parse::extended_copy),
    copy_out(
        0x10,
        "POPULATE TOKEN",
        &[0, 0, 0, 0, 0, FF, FF, FF, FF, FF, FF, FF, FF, 0, 0],
        parse::populate_token,
    )
    .group_number(14)
    .access(Read),
    copy_out(
        0x11,
        "WRITE USING TOKEN",
        &[0, 0, 0, 0, 0, FF, FF, FF, FF, FF, FF, FF, FF, 0, 0],
        parse::write_using_token,
    )
    .group_number(14),
    copy_in(0x00, "RECEIVE COPY STATUS(LID1)", &LIST_ID8_16, parse::receive_copy_status),
    copy_in(0x01, "RECEIVE COPY DATA(LID1)", &LIST_ID8_16, parse::receive_copy_data),
    copy_in(
        0x03,
        "RECEIVE COPY OPERATING PARAMETERS",
        &LENGTH_ONLY_16,
        parse::receive_copy_operating_parameters,
    ),
    copy_in(
        0x04,
        "RECEIVE COPY FAILURE DETAILS(LID1)",
        &LIST_ID8_16,
        parse::receive_copy_failure_details,
    ),
    copy_in(0x05, "RECEIVE COPY STATUS(LID4)", &LIST_ID32_16, parse::receive_copy_status_lid4),
    copy_in(
        0x07,
        "RECEIVE ROD TOKEN INFORMATION",
        &LIST_ID32_16,
        parse::receive_rod_token_information,
    ),
    copy_in(0x08, "REPORT ALL ROD TOKENS", &LENGTH_ONLY_16, parse::report_all_rod_tokens),
    reads(0x88, "READ(16)", &sixteen(DPO_FUA), parse::read16),
    writes(
        0x89,
        "COMPARE AND WRITE",
        &[DPO_FUA, FF, FF, FF, FF, FF, FF, FF, FF, 0, 0, 0, FF, 0, 0],
        parse::compare_and_write,
    ),
    writes(0x8a, "WRITE(16)", &sixteen(DPO_FUA), parse::write16),
    writes(0x8b, "ORWRITE(16)", &sixteen(DPO_FUA), parse::or_write),
    writes(0x8e, "WRITE AND VERIFY(16)", &sixteen(DPO_BYTCHK), parse::write_verify16),
    reads(0x8f, "VERIFY(16)", &sixteen(DPO_BYTCHK), parse::verify16).data(Out),
    reads(0x90, "PRE-FETCH(16)", &sixteen(IMMED), parse::pre_fetch16).data(NoData),
    writes(0x91, "SYNCHRONIZE CACHE(16)", &sixteen(IMMED), parse::synchronize16)
        .data(NoData)
        .timeout_s(60),
    writes(0x93, "WRITE SAME(16)", &sixteen(0x19), parse::write_same16).timeout_s(60),
    writes(
        0x9c,
        "WRITE ATOMIC(16)",
        &[DPO_FUA, FF, FF, FF, FF, FF, FF, FF, FF, 0, 0, FF, FF, 0, 0],
        parse::write_atomic,
    ),
    command(0x9e, "READ CAPACITY(16)", &LENGTH_ONLY_16, parse::read_capacity16)
        .action(0x10)
        .access(Always),
    // Byte 14 is REPORT TYPE here: zero, all descriptors, is the only one (SBC-4 5.6).
    command(0x9e, "GET LBA STATUS(16)", &sixteen(0), parse::get_lba_status)
        .action(0x12)
        .access(Read)
        .run_by(Medium),
    command(
        0x9e,
        "REPORT REFERRALS",
        &[0, FF, FF, FF, FF, FF, FF, FF, FF, FF, FF, FF, FF, 0x01, 0],
        parse::report_referrals,
    )
    .action(0x13),
    command(0xa0, "REPORT LUNS", &[0, FF, 0, 0, 0, FF, FF, FF, FF, 0, 0], parse::report_luns)
        .access(Always)
        .ignores_attention(),
    command(
        0xa3,
        "REPORT TARGET PORT GROUPS",
        &[0x20, 0, 0, 0, 0, FF, FF, FF, FF, 0, 0],
        parse::report_target_port_groups,
    )
    .action(0x0a),
    command(
        0xa3,
        "REPORT SUPPORTED OPERATION CODES",
        &[0, 0x87, FF, FF, FF, FF, FF, FF, FF, 0, 0],
        parse::report_supported_opcodes,
    )
    .action(0x0c),
    command(
        0xa3,
        "REPORT SUPPORTED TASK MANAGEMENT FUNCTIONS",
        &[0, 0x80, 0, 0, 0, FF, FF, FF, FF, 0, 0],
        parse::report_supported_task_management,
    )
    .action(0x0d),
    command(0xa4, "SET TARGET PORT GROUPS", &LENGTH_ONLY_12, parse::set_target_port_groups)
        .action(0x0a)
        .access(Write)
        .data(Out),
    reads(0xa8, "READ(12)", &twelve(DPO_FUA), parse::read12),
    writes(0xaa, "WRITE(12)", &twelve(DPO_FUA), parse::write12),
    writes(0xae, "WRITE AND VERIFY(12)", &twelve(DPO_BYTCHK), parse::write_verify12),
    reads(0xaf, "VERIFY(12)", &twelve(DPO_BYTCHK), parse::verify12).data(Out),
    command(
        0xb7,
        "READ DEFECT DATA(12)",
        &[0x1f, FF, FF, FF, FF, FF, FF, FF, FF, 0, 0],
        parse::read_defect_data12,
    )
    .access(Read),
];

/// For each operation code: where its rows start in [`COMMANDS`], and how many there are.
pub(super) const INDEX: [(u8, u8); 256] = index();

const fn index() -> [(u8, u8); 256] {
    let mut index = [(0, 0); 256];
    let mut row = 0;
    while row < COMMANDS.len() {
        let opcode = COMMANDS[row].opcode as usize;
        assert!(row == 0 || COMMANDS[row - 1].opcode as usize <= opcode, "rows out of order");
        if index[opcode].1 == 0 {
            index[opcode].0 = row as u8;
        }
        index[opcode].1 += 1;
        row += 1;
    }
    index
}

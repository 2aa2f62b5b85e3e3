//! From checked CDB bytes to [`Command`]s: one small function per layout.

use super::command::{
    BlockRange, ByteCheck, Command, DefectLists, LogSense, ModeHeader, ModeSense, PrinAction,
    ProutAction, ReportSupportedOpcodes, SanitizeAction,
};
use super::spec::Cdb;
use crate::Sense;

type Parsed = Result<Command, Sense>;

/// Where the LBA and the transfer length stand: the 10, 12 and 16 byte layouts (SBC-4 4.2).
pub(super) type Layout = fn(&Cdb) -> BlockRange;

pub(super) fn range6(cdb: &Cdb) -> BlockRange {
    // A TRANSFER LENGTH of zero is 256 blocks here, and only here (SBC-4 5.14).
    let blocks = match cdb.byte(4) {
        0 => 256,
        blocks => u32::from(blocks),
    };
    BlockRange { lba: u64::from(cdb.u32(0) & 0x1f_ffff), blocks }
}

pub(super) fn range10(cdb: &Cdb) -> BlockRange {
    BlockRange { lba: cdb.u32(2).into(), blocks: cdb.u16(7).into() }
}

pub(super) fn range12(cdb: &Cdb) -> BlockRange {
    BlockRange { lba: cdb.u32(2).into(), blocks: cdb.u32(6) }
}

pub(super) fn range16(cdb: &Cdb) -> BlockRange {
    BlockRange { lba: cdb.u64(2), blocks: cdb.u32(10) }
}

/// Defines one parse function per layout from one body.
macro_rules! per_layout {
    ($($name:ident = $body:ident($layout:ident);)*) => {
        $(pub(super) fn $name(cdb: &Cdb) -> Parsed { $body(cdb, $layout) })*
    };
}

per_layout! {
    read10 = read(range10);
    read12 = read(range12);
    read16 = read(range16);
    write10 = write(range10);
    write12 = write(range12);
    write16 = write(range16);
    write_verify10 = write_verify(range10);
    write_verify12 = write_verify(range12);
    write_verify16 = write_verify(range16);
    verify10 = verify(range10);
    verify12 = verify(range12);
    verify16 = verify(range16);
    synchronize10 = synchronize(range10);
    synchronize16 = synchronize(range16);
    pre_fetch10 = pre_fetch(range10);
    pre_fetch16 = pre_fetch(range16);
    write_same10 = write_same(range10);
    write_same16 = write_same(range16);
}

pub(super) fn read6(cdb: &Cdb) -> Parsed {
    Ok(Command::Read { range: range6(cdb), dpo: false, fua: false })
}

pub(super) fn write6(cdb: &Cdb) -> Parsed {
    Ok(Command::Write { range: range6(cdb), dpo: false, fua: false })
}

fn read(cdb: &Cdb, layout: Layout) -> Parsed {
    Ok(Command::Read { range: layout(cdb), dpo: cdb.bit(1, 4), fua: cdb.bit(1, 3) })
}

fn write(cdb: &Cdb, layout: Layout) -> Parsed {
    Ok(Command::Write { range: layout(cdb), dpo: cdb.bit(1, 4), fua: cdb.bit(1, 3) })
}

fn write_verify(cdb: &Cdb, layout: Layout) -> Parsed {
    // 10b and 11b are reserved here (SBC-4 5.48).
    match byte_check(cdb)? {
        ByteCheck::OneBlock => Err(Sense::invalid_field_in_cdb(1, Some(2))),
        check => Ok(Command::WriteAndVerify { range: layout(cdb), check }),
    }
}

fn verify(cdb: &Cdb, layout: Layout) -> Parsed {
    Ok(Command::Verify { range: layout(cdb), check: byte_check(cdb)? })
}

fn byte_check(cdb: &Cdb) -> Result<ByteCheck, Sense> {
    match cdb.byte(1) >> 1 & 0x03 {
        0b00 => Ok(ByteCheck::MediumOnly),
        0b01 => Ok(ByteCheck::EachBlock),
        0b11 => Ok(ByteCheck::OneBlock),
        _ => Err(Sense::invalid_field_in_cdb(1, Some(2))),
    }
}

fn synchronize(cdb: &Cdb, layout: Layout) -> Parsed {
    Ok(Command::SynchronizeCache { range: layout(cdb), immediate: cdb.bit(1, 1) })
}

fn pre_fetch(cdb: &Cdb, layout: Layout) -> Parsed {
    Ok(Command::PreFetch { range: layout(cdb), immediate: cdb.bit(1, 1) })
}

fn write_same(cdb: &Cdb, layout: Layout) -> Parsed {
    let (anchor, unmap, no_data_out) = (cdb.bit(1, 4), cdb.bit(1, 3), cdb.bit(1, 0));
    if anchor && !unmap {
        return Err(Sense::invalid_field_in_cdb(1, Some(4)));
    }
    Ok(Command::WriteSame { range: layout(cdb), unmap, anchor, no_data_out })
}

pub(super) fn compare_and_write(cdb: &Cdb) -> Parsed {
    let range = BlockRange { lba: cdb.u64(2), blocks: cdb.byte(13).into() };
    Ok(Command::CompareAndWrite { range, dpo: cdb.bit(1, 4), fua: cdb.bit(1, 3) })
}

pub(super) fn or_write(cdb: &Cdb) -> Parsed {
    Ok(Command::OrWrite { range: range16(cdb), dpo: cdb.bit(1, 4), fua: cdb.bit(1, 3) })
}

pub(super) fn write_atomic(cdb: &Cdb) -> Parsed {
    let range = BlockRange { lba: cdb.u64(2), blocks: cdb.u16(12).into() };
    Ok(Command::WriteAtomic { range, dpo: cdb.bit(1, 4), fua: cdb.bit(1, 3) })
}

pub(super) fn get_lba_status(cdb: &Cdb) -> Parsed {
    Ok(Command::GetLbaStatus { lba: cdb.u64(2), allocation_bytes: cdb.u32(10) })
}

pub(super) fn report_referrals(cdb: &Cdb) -> Parsed {
    Ok(Command::ReportReferrals {
        lba: cdb.u64(2),
        one_segment: cdb.bit(14, 0),
        allocation_bytes: cdb.u32(10),
    })
}

pub(super) fn unmap(cdb: &Cdb) -> Parsed {
    Ok(Command::Unmap { anchor: cdb.bit(1, 0), list_bytes: cdb.u16(7).into() })
}

pub(super) fn test_unit_ready(_: &Cdb) -> Parsed {
    Ok(Command::TestUnitReady)
}

pub(super) fn request_sense(cdb: &Cdb) -> Parsed {
    Ok(Command::RequestSense { descriptor: cdb.bit(1, 0), allocation_bytes: cdb.byte(4).into() })
}

pub(super) fn inquiry(cdb: &Cdb) -> Parsed {
    let (evpd, page_code) = (cdb.bit(1, 0), cdb.byte(2));
    if !evpd && page_code != 0 {
        return Err(Sense::invalid_field_in_cdb(2, None));
    }
    Ok(Command::Inquiry { evpd, page_code, allocation_bytes: cdb.u16(3).into() })
}

pub(super) fn report_luns(cdb: &Cdb) -> Parsed {
    Ok(Command::ReportLuns { select_report: cdb.byte(2), allocation_bytes: cdb.u32(6) })
}

pub(super) fn mode_sense6(cdb: &Cdb) -> Parsed {
    Ok(mode_sense(cdb, ModeHeader::Short, cdb.byte(4).into()))
}

pub(super) fn mode_sense10(cdb: &Cdb) -> Parsed {
    Ok(mode_sense(cdb, ModeHeader::Long, cdb.u16(7).into()))
}

fn mode_sense(cdb: &Cdb, header: ModeHeader, allocation_bytes: u32) -> Command {
    Command::ModeSense(ModeSense {
        header,
        disable_block_descriptors: cdb.bit(1, 3),
        long_lba_accepted: cdb.bit(1, 4),
        page_control: cdb.byte(2) >> 6,
        page: cdb.byte(2) & 0x3f,
        subpage: cdb.byte(3),
        allocation_bytes,
    })
}

pub(super) fn mode_select6(cdb: &Cdb) -> Parsed {
    Ok(Command::ModeSelect {
        header: ModeHeader::Short,
        page_format: cdb.bit(1, 4),
        list_bytes: cdb.byte(4).into(),
    })
}

pub(super) fn mode_select10(cdb: &Cdb) -> Parsed {
    Ok(Command::ModeSelect {
        header: ModeHeader::Long,
        page_format: cdb.bit(1, 4),
        list_bytes: cdb.u16(7).into(),
    })
}

pub(super) fn log_sense(cdb: &Cdb) -> Parsed {
    Ok(Command::LogSense(LogSense {
        page_control: cdb.byte(2) >> 6,
        page: cdb.byte(2) & 0x3f,
        subpage: cdb.byte(3),
        parameter_pointer: cdb.u16(5),
        allocation_bytes: cdb.u16(7).into(),
    }))
}

pub(super) fn read_capacity10(_: &Cdb) -> Parsed {
    Ok(Command::ReadCapacity10)
}

pub(super) fn read_capacity16(cdb: &Cdb) -> Parsed {
    Ok(Command::ReadCapacity16 { allocation_bytes: cdb.u32(10) })
}

/// Defines the parse functions of commands whose service action is a field of [`Command`].
macro_rules! per_action {
    ($($name:ident = $body:ident($action:expr);)*) => {
        $(pub(super) fn $name(cdb: &Cdb) -> Parsed { Ok($body(cdb, $action)) })*
    };
}

per_action! {
    prin_read_keys = prin(PrinAction::ReadKeys);
    prin_read_reservation = prin(PrinAction::ReadReservation);
    prin_report_capabilities = prin(PrinAction::ReportCapabilities);
    prin_read_full_status = prin(PrinAction::ReadFullStatus);
    prout_register = prout(ProutAction::Register);
    prout_reserve = prout(ProutAction::Reserve);
    prout_release = prout(ProutAction::Release);
    prout_clear = prout(ProutAction::Clear);
    prout_preempt = prout(ProutAction::Preempt);
    prout_preempt_and_abort = prout(ProutAction::PreemptAndAbort);
    prout_register_and_ignore = prout(ProutAction::RegisterAndIgnoreExistingKey);
    prout_register_and_move = prout(ProutAction::RegisterAndMove);
    sanitize_overwrite = sanitize(SanitizeAction::Overwrite);
    sanitize_block_erase = sanitize(SanitizeAction::BlockErase);
    sanitize_exit_failure_mode = sanitize(SanitizeAction::ExitFailureMode);
}

fn prin(cdb: &Cdb, action: PrinAction) -> Command {
    Command::PersistentReserveIn { action, allocation_bytes: cdb.u16(7).into() }
}

fn prout(cdb: &Cdb, action: ProutAction) -> Command {
    Command::PersistentReserveOut {
        action,
        scope: cdb.byte(2) >> 4,
        kind: cdb.byte(2) & 0x0f,
        list_bytes: cdb.u32(5),
    }
}

fn sanitize(cdb: &Cdb, action: SanitizeAction) -> Command {
    Command::Sanitize {
        action,
        immediate: cdb.bit(1, 7),
        unrestricted_exit: cdb.bit(1, 5),
        list_bytes: cdb.u16(7).into(),
    }
}

pub(super) fn reserve(_: &Cdb) -> Parsed {
    Ok(Command::Reserve)
}

pub(super) fn release(_: &Cdb) -> Parsed {
    Ok(Command::Release)
}

pub(super) fn report_target_port_groups(cdb: &Cdb) -> Parsed {
    Ok(Command::ReportTargetPortGroups {
        extended_header: cdb.bit(1, 5),
        allocation_bytes: cdb.u32(6),
    })
}

pub(super) fn set_target_port_groups(cdb: &Cdb) -> Parsed {
    Ok(Command::SetTargetPortGroups { list_bytes: cdb.u32(6) })
}

pub(super) fn extended_copy(cdb: &Cdb) -> Parsed {
    Ok(Command::ExtendedCopy { list_bytes: cdb.u32(10) })
}

pub(super) fn populate_token(cdb: &Cdb) -> Parsed {
    Ok(Command::PopulateToken { list_id: cdb.u32(6), list_bytes: cdb.u32(10) })
}

pub(super) fn write_using_token(cdb: &Cdb) -> Parsed {
    Ok(Command::WriteUsingToken { list_id: cdb.u32(6), list_bytes: cdb.u32(10) })
}

pub(super) fn receive_copy_status(cdb: &Cdb) -> Parsed {
    Ok(Command::ReceiveCopyStatus { list_id: cdb.byte(2), allocation_bytes: cdb.u32(10) })
}

pub(super) fn receive_copy_data(cdb: &Cdb) -> Parsed {
    Ok(Command::ReceiveCopyData { list_id: cdb.byte(2), allocation_bytes: cdb.u32(10) })
}

pub(super) fn receive_copy_operating_parameters(cdb: &Cdb) -> Parsed {
    Ok(Command::ReceiveCopyOperatingParameters { allocation_bytes: cdb.u32(10) })
}

pub(super) fn receive_copy_failure_details(cdb: &Cdb) -> Parsed {
    Ok(Command::ReceiveCopyFailureDetails { list_id: cdb.byte(2), allocation_bytes: cdb.u32(10) })
}

pub(super) fn receive_copy_status_lid4(cdb: &Cdb) -> Parsed {
    Ok(Command::ReceiveCopyStatusLid4 { list_id: cdb.u32(2), allocation_bytes: cdb.u32(10) })
}

pub(super) fn receive_rod_token_information(cdb: &Cdb) -> Parsed {
    Ok(Command::ReceiveRodTokenInformation { list_id: cdb.u32(2), allocation_bytes: cdb.u32(10) })
}

pub(super) fn report_all_rod_tokens(cdb: &Cdb) -> Parsed {
    Ok(Command::ReportAllRodTokens { allocation_bytes: cdb.u32(10) })
}

/// START STOP UNIT (SBC-4 5.31). Of the power conditions there is only ACTIVE, which is what START
/// leads to; with one, START and LOEJ mean nothing. A fixed medium cannot be ejected.
pub(super) fn start_stop_unit(cdb: &Cdb) -> Parsed {
    const START_VALID: u8 = 0;
    const ACTIVE: u8 = 1;
    let start = match cdb.byte(4) >> 4 {
        ACTIVE => true,
        START_VALID if cdb.bit(4, 1) => return Err(Sense::invalid_field_in_cdb(4, Some(1))),
        START_VALID => cdb.bit(4, 0),
        _ => return Err(Sense::invalid_field_in_cdb(4, Some(7))),
    };
    Ok(Command::StartStopUnit { immediate: cdb.bit(1, 0), no_flush: cdb.bit(4, 2), start })
}

pub(super) fn prevent_allow(cdb: &Cdb) -> Parsed {
    Ok(Command::PreventAllow { prevent: cdb.bit(4, 0) })
}

fn defect_lists(flags: u8) -> DefectLists {
    DefectLists { primary: flags & 0x10 != 0, grown: flags & 0x08 != 0, format: flags & 0x07 }
}

pub(super) fn read_defect_data10(cdb: &Cdb) -> Parsed {
    Ok(Command::ReadDefectData10 {
        lists: defect_lists(cdb.byte(2)),
        allocation_bytes: cdb.u16(7).into(),
    })
}

pub(super) fn read_defect_data12(cdb: &Cdb) -> Parsed {
    Ok(Command::ReadDefectData12 {
        lists: defect_lists(cdb.byte(1)),
        address_index: cdb.u32(2),
        allocation_bytes: cdb.u32(6),
    })
}

pub(super) fn report_supported_opcodes(cdb: &Cdb) -> Parsed {
    Ok(Command::ReportSupportedOpcodes(ReportSupportedOpcodes {
        timeouts: cdb.bit(2, 7),
        options: cdb.byte(2) & 0x07,
        opcode: cdb.byte(3),
        service_action: cdb.u16(4),
        allocation_bytes: cdb.u32(6),
    }))
}

pub(super) fn report_supported_task_management(cdb: &Cdb) -> Parsed {
    Ok(Command::ReportSupportedTaskManagement {
        extended: cdb.bit(2, 7),
        allocation_bytes: cdb.u32(6),
    })
}

pub(super) fn send_diagnostic(cdb: &Cdb) -> Parsed {
    Ok(Command::SendDiagnostic { self_test: cdb.bit(1, 2), list_bytes: cdb.u16(3).into() })
}

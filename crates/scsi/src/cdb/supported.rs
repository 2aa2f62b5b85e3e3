//! REPORT SUPPORTED OPERATION CODES and REPORT SUPPORTED TASK MANAGEMENT FUNCTIONS
//! (SPC-5 6.34, 6.35).

use super::{CommandSpec, ReportSupportedOpcodes, commands, rows};
use crate::Sense;

const TIMEOUTS_BYTES: usize = 12;

/// The parameter data for `request`, not yet cut to the allocation length, with only those
/// commands that the logical unit has: `supports` says which.
pub fn report_opcodes(
    request: &ReportSupportedOpcodes,
    supports: impl Fn(&CommandSpec) -> bool,
) -> Result<Vec<u8>, Sense> {
    let rows: Vec<&CommandSpec> = rows(request.opcode).iter().filter(|row| supports(row)).collect();
    let has_actions = rows.iter().any(|row| row.service_action.is_some());
    let with_action = || {
        let action = Some(request.service_action);
        rows.iter().find(|row| row.service_action.map(u16::from) == action).copied()
    };
    let found = match request.options {
        0b000 => return Ok(all_commands(request.timeouts, supports)),
        // The requested operation code must be one without service actions.
        0b001 if has_actions => return Err(Sense::invalid_field_in_cdb(2, Some(2))),
        0b001 => rows.first().copied(),
        // It must be one with service actions.
        0b010 if !rows.is_empty() && !has_actions => {
            return Err(Sense::invalid_field_in_cdb(2, Some(2)));
        }
        0b010 => with_action(),
        // Either; an operation code without service actions goes with service action zero.
        0b011 if has_actions => with_action(),
        0b011 => rows.first().filter(|_| request.service_action == 0).copied(),
        _ => return Err(Sense::invalid_field_in_cdb(2, Some(2))),
    };
    Ok(one_command(found, request.timeouts))
}

fn all_commands(timeouts: bool, supports: impl Fn(&CommandSpec) -> bool) -> Vec<u8> {
    let mut data = vec![0; 4];
    for row in commands().iter().filter(|row| supports(row)) {
        let action = row.service_action;
        let flags = u8::from(timeouts) << 1 | u8::from(action.is_some());
        data.extend([row.opcode, 0, 0, action.unwrap_or(0), 0, flags, 0, row.cdb_bytes]);
        if timeouts {
            data.extend(timeouts_descriptor(row));
        }
    }
    let list_bytes = (data.len() - 4) as u32;
    data[..4].copy_from_slice(&list_bytes.to_be_bytes());
    data
}

fn one_command(row: Option<&CommandSpec>, timeouts: bool) -> Vec<u8> {
    const NOT_SUPPORTED: u8 = 0b001;
    const AS_THE_STANDARD_SAYS: u8 = 0b011;
    let Some(row) = row else { return vec![0, NOT_SUPPORTED, 0, 0] };
    let mut data = vec![0, u8::from(timeouts) << 7 | AS_THE_STANDARD_SAYS, 0, row.cdb_bytes];
    data.extend(&row.usage_data()[..usize::from(row.cdb_bytes)]);
    if timeouts {
        data.extend(timeouts_descriptor(row));
    }
    data
}

/// Command timeouts descriptor (SPC-5 6.34.4): no nominal time, and the recommended timeout.
fn timeouts_descriptor(row: &CommandSpec) -> [u8; TIMEOUTS_BYTES] {
    let mut descriptor = [0; TIMEOUTS_BYTES];
    descriptor[1] = TIMEOUTS_BYTES as u8 - 2;
    descriptor[8..].copy_from_slice(&row.timeout_s.to_be_bytes());
    descriptor
}

/// The task management functions of RFC 7143 11.5.1 that the target has: ABORT TASK, ABORT TASK
/// SET, CLEAR TASK SET, LOGICAL UNIT RESET and TARGET RESET.
pub fn report_task_management(extended: bool) -> Vec<u8> {
    const ABORT_TASK: u8 = 0x80;
    const ABORT_TASK_SET: u8 = 0x40;
    const CLEAR_TASK_SET: u8 = 0x10;
    const LOGICAL_UNIT_RESET: u8 = 0x08;
    const TARGET_RESET: u8 = 0x02;
    let functions =
        ABORT_TASK | ABORT_TASK_SET | CLEAR_TASK_SET | LOGICAL_UNIT_RESET | TARGET_RESET;
    if extended {
        // REPD: the same, then timeouts in 100 ms, zero for "not given".
        let mut data = vec![0; 16];
        data[0] = functions;
        data[3] = 0x0c;
        data
    } else {
        vec![functions, 0, 0, 0]
    }
}

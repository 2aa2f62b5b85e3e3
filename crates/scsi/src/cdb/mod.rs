//! Command descriptor blocks: one table, and what is derived from it.
//!
//! [`decode`] looks the operation code up, refuses every bit that the row's usage bitmap does not
//! have, and hands the rest to the row's parse function. REPORT SUPPORTED OPERATION CODES
//! ([`supported`]) and the documentation ([`table_markdown`]) read the same rows.

mod command;
mod markdown;
mod parse;
mod spec;
pub mod supported;
mod table;
#[cfg(test)]
mod tests;

pub use command::{
    BlockRange, ByteCheck, Command, DefectLists, LogSense, ModeHeader, ModeSense, PrinAction,
    ProutAction, ReportSupportedOpcodes, SanitizeAction,
};
pub use markdown::table_markdown;
pub use spec::{AccessClass, CommandSpec, Direction, Executor};

use crate::Sense;
use spec::Cdb;
use table::{COMMANDS, INDEX};

/// Every command, by operation code and then service action.
pub fn commands() -> &'static [CommandSpec] {
    COMMANDS
}

/// The rows with operation code `opcode`: none, one, or one per service action.
pub fn rows(opcode: u8) -> &'static [CommandSpec] {
    let (start, count) = INDEX[usize::from(opcode)];
    &COMMANDS[usize::from(start)..usize::from(start) + usize::from(count)]
}

/// Decodes a CDB; bytes beyond the command's length are padding and not looked at.
///
/// Refusals are ILLEGAL REQUEST: an unknown operation code, or INVALID FIELD IN CDB that points at
/// the most significant bit of the first field that holds what it must not.
pub fn decode(cdb: &[u8]) -> Result<(&'static CommandSpec, Command), Sense> {
    let opcode = *cdb.first().ok_or(Sense::invalid_opcode())?;
    let spec = match rows(opcode) {
        [] => return Err(Sense::invalid_opcode()),
        [only] if only.service_action.is_none() => only,
        actions => {
            let wanted = cdb.get(1).map(|byte| byte & 0x1f);
            let found = actions.iter().find(|row| row.service_action == wanted);
            found.ok_or(Sense::invalid_field_in_cdb(1, Some(4)))?
        }
    };
    // Transports carry 16 bytes; shorter input is for those who hold the exact CDB.
    let padded = match cdb.first_chunk() {
        Some(whole) => *whole,
        None if cdb.len() < usize::from(spec.cdb_bytes) => {
            return Err(Sense::invalid_field_in_cdb(cdb.len() as u16, None));
        }
        None => std::array::from_fn(|at| cdb.get(at).copied().unwrap_or(0)),
    };
    let significant = spec.significant(padded);
    let stray = significant & !(spec.usage | spec.ignored);
    if stray != 0 {
        return Err(stray_bits(spec, stray));
    }
    let command = (spec.parse)(&Cdb(significant.to_be_bytes()))?;
    Ok((spec, command))
}

/// Points at the first field that has a bit set outside the usage bitmap.
#[cold]
fn stray_bits(spec: &CommandSpec, stray: u128) -> Sense {
    let position = stray.leading_zeros() as u16;
    let (byte, bit) = (position / 8, 7 - (position % 8) as u8);
    // RDPROTECT, WRPROTECT, VRPROTECT and ORPROTECT are one field of three bits.
    let protect = spec.touches_medium() && spec.service_action.is_none() && byte == 1 && bit >= 5;
    Sense::invalid_field_in_cdb(byte, Some(if protect { 7 } else { bit }))
}

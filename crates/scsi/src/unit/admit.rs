//! Whether a command may run.

use super::gate::Gate;
use super::{LogicalUnit, Nexus};
use crate::alua;
use crate::cdb::{AccessClass, BlockRange, Command, CommandSpec, Executor, SanitizeAction};
use crate::nexus::NexusKey;
use crate::reservation::Refusal;
use crate::{AdditionalSense, Sense};
use std::sync::atomic::Ordering;

/// The smallest block that any host counts in.
const SECTOR_BYTES: u64 = 512;

/// What the copy manager does with a range of blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CopyAccess {
    /// It is the source.
    Read,
    /// It is the destination.
    Write,
}

impl LogicalUnit {
    /// Whether `command` may run now, on this nexus. In the order of SAM-5 5.3.3: reset
    /// conditions, reservation conflict, other unit attentions, the access state of the port,
    /// readiness, write protection; then
    /// for commands that touch the medium the LBA range and the limits of VPD page B0h.
    ///
    /// A unit attention condition that is reported is thereby cleared.
    #[inline]
    pub fn admit(
        &self,
        nexus: &Nexus,
        spec: &CommandSpec,
        command: &Command,
    ) -> Result<(), Refusal> {
        let gate = nexus.gate();
        if gate != Gate(0) {
            self.pass_gate(gate, nexus, spec, command)?;
        }
        if spec.executor == Executor::Control {
            return match command {
                Command::ReportReferrals { .. } => Ok(self.check_supported(spec)?),
                _ => Ok(()),
            };
        }
        Ok(self.check_medium(spec, command)?)
    }

    /// Whether the copy manager may read or write `range` of this unit for the initiator `key`
    /// (SPC-5 5.18.3): no reservation in the way, medium ready, not protected, range inside it.
    /// Unit attention conditions are for commands and stay pending.
    pub fn admit_copy(
        &self,
        key: &NexusKey,
        range: BlockRange,
        access: CopyAccess,
    ) -> Result<(), Refusal> {
        let state = self.state();
        let writes = access == CopyAccess::Write;
        let class = if writes { AccessClass::Write } else { AccessClass::Read };
        if state.reservations.conflicts(key, class) {
            return Err(Refusal::Conflict);
        }
        if let Some(sense) = self.unready(&state) {
            return Err(sense.into());
        }
        if writes && (self.medium().read_only || state.modes.software_write_protect()) {
            return Err(Sense::write_protected().into());
        }
        Ok(self.medium().check_range(range)?)
    }

    #[cold]
    fn pass_gate(
        &self,
        gate: Gate,
        nexus: &Nexus,
        spec: &CommandSpec,
        command: &Command,
    ) -> Result<(), Refusal> {
        let attentive = gate.has(Gate::ATTENTION) && !spec.ignores_attention;
        if attentive && let Some(reset) = nexus.change_attentions(|queue| queue.take_reset()) {
            return Err(Sense::unit_attention(reset).into());
        }
        if !gate.reservation().allows(command.access(spec.access)) {
            return Err(Refusal::Conflict);
        }
        if attentive && let Some(condition) = nexus.change_attentions(|queue| queue.take()) {
            return Err(Sense::unit_attention(condition).into());
        }
        alua::admits(gate.alua(), command)?;
        self.check_ready(gate, spec, command)?;
        if gate.has(Gate::PROTECTED) && changes_medium(command) {
            return Err(Sense::write_protected().into());
        }
        Ok(())
    }

    fn check_ready(&self, gate: Gate, spec: &CommandSpec, command: &Command) -> Result<(), Sense> {
        let uses_medium = spec.executor == Executor::Medium
            || matches!(
                command,
                Command::TestUnitReady
                    | Command::ExtendedCopy { .. }
                    | Command::PopulateToken { .. }
                    | Command::WriteUsingToken { .. }
            );
        if gate.has(Gate::SANITIZING) && !runs_while_sanitizing(spec, command) {
            let progress = self.sanitize_progress.load(Ordering::Relaxed);
            return Err(Sense::not_ready_sanitizing(progress));
        }
        if gate.has(Gate::SANITIZE_FAILED) && uses_medium {
            return Err(Sense::sanitize_failed());
        }
        Ok(())
    }

    /// Whether the Data-Out that the initiator announces suits an admitted command.
    ///
    /// READ, WRITE and VERIFY move what both sides have and leave a residual (RFC 7143 11.4.5).
    /// The commands here mean something else with other data: half a COMPARE AND WRITE compares
    /// with the wrong blocks. Whoever announces another length than the CDB's number of blocks
    /// asks for has that number wrong. So has who announces no whole number of sectors: of the last
    /// one nothing could be written, nor be told of as a residual that was not.
    pub fn admit_data_out(
        &self,
        spec: &CommandSpec,
        command: &Command,
        announced_bytes: u64,
    ) -> Result<(), Sense> {
        let block_bytes = self.medium().block_bytes;
        let needed_bytes = command.data_out_bytes(block_bytes);
        let field = match command {
            Command::Write { .. } | Command::WriteAndVerify { .. } => {
                // Not by the block of this disk: libiscsi's suite announces 512 bytes for one of
                // 4,096, and wants that answered GOOD, with the rest as a residual.
                let is_whole = announced_bytes.is_multiple_of(SECTOR_BYTES);
                return match is_whole || announced_bytes >= needed_bytes {
                    true => Ok(()),
                    false => Err(Sense::invalid_field_in_information_unit()),
                };
            }
            Command::CompareAndWrite { .. } => 13,
            Command::WriteAtomic { .. } => 12,
            Command::OrWrite { .. } | Command::WriteSame { .. } => length_at(spec),
            _ => return Ok(()),
        };
        if announced_bytes == needed_bytes {
            Ok(())
        } else {
            Err(Sense::invalid_field_in_cdb(field, None))
        }
    }

    /// Whether this unit has the command at all: the block provisioning commands go with a thin
    /// medium, WRITE ATOMIC with a limit for it, REPORT REFERRALS with referrals, SET TARGET PORT GROUPS
    /// with groups that hosts may change.
    pub fn supports(&self, spec: &CommandSpec) -> bool {
        const UNMAP: u8 = 0x42;
        const WRITE_ATOMIC_16: u8 = 0x9c;
        const GET_LBA_STATUS: (u8, Option<u8>) = (0x9e, Some(0x12));
        const REPORT_REFERRALS: (u8, Option<u8>) = (0x9e, Some(0x13));
        const BLOCK_ERASE: (u8, Option<u8>) = (0x48, Some(0x02));
        const SET_TARGET_PORT_GROUPS: (u8, Option<u8>) = (0xa4, Some(0x0a));
        match (spec.opcode, spec.service_action) {
            SET_TARGET_PORT_GROUPS => self.config().port_groups.is_explicit(),
            (UNMAP, _) | GET_LBA_STATUS | BLOCK_ERASE => self.medium().thin,
            (WRITE_ATOMIC_16, _) => self.medium().limits.atomic_blocks_max > 0,
            REPORT_REFERRALS => self.config().referrals.is_some(),
            _ => true,
        }
    }

    pub(super) fn check_supported(&self, spec: &CommandSpec) -> Result<(), Sense> {
        match (self.supports(spec), spec.service_action) {
            (true, _) => Ok(()),
            (false, None) => Err(Sense::invalid_opcode()),
            (false, Some(_)) => Err(Sense::invalid_field_in_cdb(1, Some(4))),
        }
    }

    fn check_medium(&self, spec: &CommandSpec, command: &Command) -> Result<(), Sense> {
        let medium = self.medium();
        let limits = &medium.limits;
        match *command {
            Command::Read { range, .. }
            | Command::Write { range, .. }
            | Command::Verify { range, .. }
            | Command::WriteAndVerify { range, .. } => {
                medium.check_range(range)?;
                at_most(range.blocks.into(), limits.transfer_blocks_max.into(), length_at(spec))
            }
            Command::OrWrite { range, .. } => {
                medium.check_range(range)?;
                at_most(range.blocks.into(), limits.or_write_blocks_max.into(), length_at(spec))
            }
            Command::CompareAndWrite { range, .. } => {
                medium.check_range(range)?;
                at_most(range.blocks.into(), limits.compare_blocks_max.into(), 13)
            }
            Command::WriteAtomic { range, .. } => {
                self.check_supported(spec)?;
                medium.check_range(range)?;
                at_most(range.blocks.into(), limits.atomic_blocks_max.into(), 12)
            }
            Command::WriteSame { range, unmap, anchor, .. } => {
                if unmap && !medium.thin {
                    return Err(Sense::invalid_field_in_cdb(1, Some(3)));
                }
                self.check_anchor(anchor, 4)?;
                medium.check_range(range)?;
                if range.blocks == 0 {
                    return Err(Sense::invalid_field_in_cdb(length_at(spec), None));
                }
                let max = match limits.write_same_blocks_max {
                    0 => u64::MAX,
                    max => max,
                };
                at_most(range.blocks.into(), max, length_at(spec))
            }
            Command::SynchronizeCache { range, .. } | Command::PreFetch { range, .. } => {
                self.blocks_to_end(range).map(drop)
            }
            Command::Unmap { anchor, .. } => {
                self.check_supported(spec)?;
                self.check_anchor(anchor, 0)
            }
            Command::GetLbaStatus { lba, .. } => {
                self.check_supported(spec)?;
                medium.check_range(BlockRange { lba, blocks: 1 })
            }
            _ => Ok(()),
        }
    }

    /// The length of `range` where zero blocks mean "to the end of the medium": SYNCHRONIZE CACHE
    /// and PRE-FETCH. The first block must exist in any case.
    pub fn blocks_to_end(&self, range: BlockRange) -> Result<u64, Sense> {
        let medium = self.medium();
        let end = medium.blocks.get();
        let first = BlockRange { blocks: range.blocks.max(1), ..range };
        medium.check_range(first)?;
        // The capacity may have shrunk since the admission.
        let rest = end.saturating_sub(range.lba);
        Ok(if range.blocks == 0 { rest } else { range.blocks.into() })
    }

    fn check_anchor(&self, anchor: bool, bit: u8) -> Result<(), Sense> {
        if anchor && !self.medium().anchors {
            return Err(Sense::invalid_field_in_cdb(1, Some(bit)));
        }
        Ok(())
    }

    /// Clears a condition that REPORT LUNS has told by its data (SPC-5 5.14).
    pub(super) fn luns_were_reported(nexus: &Nexus) {
        nexus.change_attentions(|queue| {
            queue.clear(AdditionalSense::REPORTED_LUNS_DATA_HAS_CHANGED);
        });
    }
}

/// Where TRANSFER LENGTH, or NUMBER OF LOGICAL BLOCKS, starts in a CDB of this length.
fn length_at(spec: &CommandSpec) -> u16 {
    match spec.cdb_bytes {
        6 => 4,
        10 => 7,
        12 => 6,
        _ => 10,
    }
}

fn at_most(blocks: u64, max: u64, field: u16) -> Result<(), Sense> {
    if blocks > max { Err(Sense::invalid_field_in_cdb(field, None)) } else { Ok(()) }
}

/// Whether write protection refuses the command.
fn changes_medium(command: &Command) -> bool {
    use Command::*;
    match command {
        Write { .. }
        | WriteAndVerify { .. }
        | Unmap { .. }
        | WriteSame { .. }
        | CompareAndWrite { .. }
        | OrWrite { .. }
        | WriteAtomic { .. }
        | WriteUsingToken { .. } => true,
        Sanitize { action, .. } => *action != SanitizeAction::ExitFailureMode,
        _ => false,
    }
}

/// SBC-4 4.11.2: what is still answered while the medium is sanitized. None of it looks at the
/// medium or changes the unit.
fn runs_while_sanitizing(spec: &CommandSpec, command: &Command) -> bool {
    spec.ignores_attention
        || matches!(
            command,
            Command::ReadCapacity10
                | Command::ReadCapacity16 { .. }
                | Command::ModeSense(_)
                | Command::LogSense(_)
                | Command::PersistentReserveIn { .. }
                | Command::ReportTargetPortGroups { .. }
                | Command::ReportSupportedOpcodes(_)
                | Command::ReportSupportedTaskManagement { .. }
        )
}

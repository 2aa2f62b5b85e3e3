//! The commands that a logical unit answers from its own state.

use super::outcome::{Effect, Outcome, Reply};
use super::sanitize::SanitizeRequest;
use super::{ControlContext, LogicalUnit, Nexus, State};
use crate::cdb::{BlockRange, Command, DefectLists, ModeHeader, SanitizeAction, supported};
use crate::inquiry::inquiry;
use crate::log::log_sense;
use crate::nexus::NexusKey;
use crate::param::{read_capacity10, read_capacity16, report_luns};
use crate::reservation::Refusal;
use crate::{AdditionalSense, Sense};

impl LogicalUnit {
    /// Runs an admitted command whose table row says [`Executor::Control`](crate::cdb::Executor), but
    /// for PERSISTENT RESERVE OUT, which [`persistent_out`](Self::persistent_out) runs.
    /// `data_out` is all that came, which may be more or less than the CDB announces.
    pub fn execute(
        &self,
        nexus: &Nexus,
        command: &Command,
        data_out: &[u8],
        context: &ControlContext<'_>,
    ) -> Outcome {
        let announced = command.data_out_bytes(self.medium().block_bytes) as usize;
        let reply = match data_out.get(..announced) {
            Some(list) => self.run(nexus, command, list, context),
            None => Err(Sense::parameter_list_length_error().into()),
        };
        match reply {
            Ok(Reply { data_in, effects }) => Outcome { effects, ..Outcome::data(data_in) },
            Err(refusal) => refusal.into(),
        }
    }

    fn run(
        &self,
        nexus: &Nexus,
        command: &Command,
        list: &[u8],
        context: &ControlContext<'_>,
    ) -> Result<Reply, Refusal> {
        use Command::*;
        let state = &mut *self.state();
        match *command {
            TestUnitReady | PreventAllow { .. } => Ok(Reply::default()),
            RequestSense { descriptor, allocation_bytes } => {
                let sense = self.request_sense(state, nexus).to_bytes(descriptor);
                Ok(Reply::cut(sense.to_vec(), allocation_bytes))
            }
            ReportLuns { select_report, allocation_bytes } => {
                let data = report_luns(select_report, context.luns)?;
                Self::luns_were_reported(nexus);
                Ok(Reply::cut(data, allocation_bytes))
            }
            ModeSelect { header, page_format, .. } => {
                Ok(self.mode_select(state, nexus, header, page_format, list)?)
            }
            PersistentReserveIn { action, allocation_bytes } => {
                Ok(Reply::cut(state.reservations.persistent_in(action)?, allocation_bytes))
            }
            Reserve => {
                state.reservations.reserve(nexus.key())?;
                self.refresh(state);
                Ok(Reply::default())
            }
            Release => {
                state.reservations.release_legacy(nexus.key())?;
                self.refresh(state);
                Ok(Reply::default())
            }
            SetTargetPortGroups { .. } => {
                let changed = state.port_groups.set_explicit(list)?;
                self.port_groups_changed(state, &changed, Some(nexus.key()));
                Ok(Reply::default())
            }
            StartStopUnit { start, no_flush, .. } => Ok(start_stop(start, no_flush)),
            Sanitize { action, immediate, unrestricted_exit, .. } => {
                if action == SanitizeAction::BlockErase && !self.medium().thin {
                    return Err(Sense::invalid_field_in_cdb(1, Some(4)).into());
                }
                let request = SanitizeRequest { action, immediate, unrestricted_exit, list };
                Ok(self.sanitize(state, request)?)
            }
            _ => Ok(self.inform(state, nexus.key(), command)?),
        }
    }

    /// The commands that only report.
    fn inform(&self, state: &State, key: &NexusKey, command: &Command) -> Result<Reply, Sense> {
        use Command::*;
        let (data, allocation_bytes) = match *command {
            Inquiry { evpd, page_code, allocation_bytes } => {
                let page = evpd.then_some(page_code);
                (inquiry(&self.config, page, key.target_port)?, allocation_bytes)
            }
            ModeSense(request) => {
                (state.modes.sense(&request, self.medium())?, request.allocation_bytes)
            }
            LogSense(request) => (log_sense(&request)?, request.allocation_bytes),
            ReadCapacity10 => (read_capacity10(self.medium()).to_vec(), u32::MAX),
            ReadCapacity16 { allocation_bytes } => {
                (read_capacity16(self.medium()).to_vec(), allocation_bytes)
            }
            ReadDefectData10 { lists, allocation_bytes } => {
                let flags = defect_flags(lists, 2)?;
                (vec![0, flags, 0, 0], allocation_bytes)
            }
            ReadDefectData12 { lists, address_index, allocation_bytes } => {
                let flags = defect_flags(lists, 1)?;
                if address_index != 0 {
                    return Err(Sense::invalid_field_in_cdb(2, None));
                }
                (vec![0, flags, 0, 0, 0, 0, 0, 0], allocation_bytes)
            }
            ReportSupportedOpcodes(request) => {
                let data = supported::report_opcodes(&request, |row| self.supports(row))?;
                (data, request.allocation_bytes)
            }
            ReportSupportedTaskManagement { extended, allocation_bytes } => {
                (supported::report_task_management(extended), allocation_bytes)
            }
            ReportTargetPortGroups { extended_header, allocation_bytes } => {
                (state.port_groups.report(extended_header), allocation_bytes)
            }
            ReportReferrals { lba, one_segment, allocation_bytes } => {
                self.medium().check_range(BlockRange { lba, blocks: 1 })?;
                (state.referrals.report(lba, one_segment), allocation_bytes)
            }
            SendDiagnostic { list_bytes, .. } => {
                // The default self-test has nothing to find: it passes. Pages there are none.
                if list_bytes != 0 {
                    return Err(Sense::invalid_field_in_cdb(3, None));
                }
                (Vec::new(), 0)
            }
            // Commands for the medium or the copy manager do not come here, nor those that change a
            // draft of the reservations.
            _ => {
                debug_assert!(false, "not a command of the logical unit: {command:?}");
                return Err(Sense::internal_failure());
            }
        };
        Ok(Reply::cut(data, allocation_bytes))
    }

    /// REQUEST SENSE: a unit attention if one is pending, which it clears, or else the state of
    /// the unit (SPC-5 6.39).
    fn request_sense(&self, state: &State, nexus: &Nexus) -> Sense {
        if let Some(condition) = nexus.change_attentions(|queue| queue.take()) {
            return Sense::unit_attention(condition);
        }
        self.unready(state).unwrap_or(Sense::NONE)
    }

    fn mode_select(
        &self,
        state: &mut State,
        nexus: &Nexus,
        header: ModeHeader,
        page_format: bool,
        list: &[u8],
    ) -> Result<Reply, Sense> {
        let (cached, protected) =
            (state.modes.write_cache_enabled(), state.modes.software_write_protect());
        if !state.modes.select(header, page_format, list, self.medium())? {
            return Ok(Reply::default());
        }
        for other in state.nexuses.iter().filter(|other| other.key() != nexus.key()) {
            other.establish(AdditionalSense::MODE_PARAMETERS_CHANGED);
        }
        let on = state.modes.software_write_protect();
        let is_news = on != protected;
        if is_news {
            state.protected_by = on.then(|| nexus.key().initiator.clone());
        }
        self.refresh(state);
        // What was answered while the cache was on must not stay volatile once it is off.
        let flush = cached && !state.modes.write_cache_enabled();
        let told = is_news.then_some(Effect::WriteProtection { on });
        let effects = told.into_iter().chain(flush.then_some(Effect::SynchronizeCache)).collect();
        Ok(Reply::effects(effects))
    }
}

/// START STOP UNIT (SBC-4 5.31). One host does not stop a unit for all: that it wants to means for the
/// unit what comes before it stops, that the cache is written back.
fn start_stop(start: bool, no_flush: bool) -> Reply {
    let flush = !start && !no_flush;
    Reply::effects(if flush { vec![Effect::SynchronizeCache] } else { Vec::new() })
}

/// The lists asked for are there, and empty: a defect of the media below is no defect here.
fn defect_flags(lists: DefectLists, field: u16) -> Result<u8, Sense> {
    const RESERVED_FORMAT: u8 = 0b111;
    if lists.format == RESERVED_FORMAT {
        return Err(Sense::invalid_field_in_cdb(field, Some(2)));
    }
    Ok(u8::from(lists.primary) << 4 | u8::from(lists.grown) << 3 | lists.format)
}

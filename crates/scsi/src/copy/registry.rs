//! The copies of one logical unit that hosts may ask about.

use super::status::{CopyOutcome, CopyProgress, CopyRecord, OperationStatus};
use crate::nexus::NexusKey;
use crate::sense::{AdditionalSense, Sense, SenseKey};
use std::collections::VecDeque;

/// Copies that are remembered, under way or ended; the oldest that has ended makes room. No
/// initiator has more of them under way than are left for all others, and so half of them alone.
pub const COPIES_MAX: usize = 64;

/// SERVICE ACTION of the command that began a copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
#[allow(missing_docs, reason = "the names are the standard's own")]
pub enum CopyAction {
    ExtendedCopy = 0x00,
    PopulateToken = 0x10,
    WriteUsingToken = 0x11,
}

/// Which copy: the nexus that began it and the LIST IDENTIFIER it gave (SPC-4 5.17.4.2). The
/// identifiers of EXTENDED COPY(LID1), of one byte, and of the other commands are apart.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CopyId {
    /// Who.
    pub nexus: NexusKey,
    /// Which command, and so the length of the identifier.
    pub action: CopyAction,
    /// LIST IDENTIFIER.
    pub list_id: u32,
}

impl CopyId {
    fn same_name(&self, other: &Self) -> bool {
        let short = |id: &Self| id.action == CopyAction::ExtendedCopy;
        self.list_id == other.list_id && short(self) == short(other) && self.nexus == other.nexus
    }
}

/// The copies of one logical unit, oldest first.
#[derive(Debug, Default)]
pub struct CopyRegistry {
    records: VecDeque<(CopyId, CopyRecord)>,
}

impl CopyRegistry {
    /// None yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// A copy begins; `background` if its command is answered at once. An earlier one of the same
    /// name is forgotten.
    ///
    /// ILLEGAL REQUEST with OPERATION IN PROGRESS if that one still runs (SPC-4 5.17.4.2),
    /// INSUFFICIENT RESOURCES if too many others do ([`COPIES_MAX`]).
    pub fn begin(&mut self, id: CopyId, background: bool) -> Result<(), Sense> {
        if let Some(at) = self.records.iter().position(|(other, _)| other.same_name(&id)) {
            if self.records[at].1.status.is_in_progress() {
                let code = AdditionalSense::OPERATION_IN_PROGRESS;
                return Err(Sense::new(SenseKey::IllegalRequest, code));
            }
            self.records.remove(at);
        }
        let running = self.records.iter().filter(|(_, record)| record.status.is_in_progress());
        let own = running.clone().filter(|(other, _)| other.nexus.initiator == id.nexus.initiator);
        if own.count() >= COPIES_MAX - running.count() {
            return Err(Sense::insufficient_resources());
        }
        if self.records.len() >= COPIES_MAX {
            let ended = self.records.iter().position(|(_, record)| !record.status.is_in_progress());
            self.records.remove(ended.ok_or(Sense::insufficient_resources())?);
        }
        let status =
            if background { OperationStatus::InBackground } else { OperationStatus::InForeground };
        let progress = CopyProgress::default();
        let record = CopyRecord { status, progress, sense: None, token: None, details_told: false };
        self.records.push_back((id, record));
        Ok(())
    }

    /// How far a copy is. Ignored if it is not under way.
    pub fn progress(&mut self, id: &CopyId, progress: CopyProgress) {
        if let Some(record) = self.running(id) {
            record.progress = progress;
        }
    }

    /// A copy ends. Ignored if it is not under way: it was [terminated](Self::terminate) before.
    pub fn finish(&mut self, id: &CopyId, progress: CopyProgress, outcome: CopyOutcome) {
        debug_assert!(!outcome.status.is_in_progress(), "an outcome is an end");
        if let Some(record) = self.running(id) {
            record.progress = progress;
            record.status = outcome.status;
            record.sense = outcome.sense;
            record.token = outcome.token;
        }
    }

    /// All copies of `nexus` that are under way are stopped: PREEMPT AND ABORT, or an aborted task.
    pub fn terminate(&mut self, nexus: &NexusKey) {
        for (_, record) in self.records.iter_mut().filter(|(id, _)| id.nexus == *nexus) {
            if record.status.is_in_progress() {
                record.status = OperationStatus::Terminated;
            }
        }
    }

    /// I_T nexus loss: nobody can ask about its copies any more.
    pub fn nexus_lost(&mut self, nexus: &NexusKey) {
        self.records.retain(|(id, _)| id.nexus != *nexus);
    }

    /// Logical unit reset: forgets everything.
    pub fn logical_unit_reset(&mut self) {
        self.records.clear();
    }

    /// RECEIVE COPY STATUS(LID1). A copy that has ended is told once (SPC-4 6.25), except that
    /// its failed segment details stay until they are fetched.
    ///
    /// This and the following refuse an unknown copy with INVALID FIELD IN CDB.
    pub fn status_lid1(&mut self, nexus: &NexusKey, list_id: u8) -> Result<Vec<u8>, Sense> {
        let at = self.find_short(nexus, list_id)?;
        let record = &self.records[at].1;
        let data = record.status_lid1();
        let failed = record.sense.is_some() && !record.details_told;
        if !record.status.is_in_progress() && !failed {
            self.records.remove(at);
        }
        Ok(data)
    }

    /// RECEIVE COPY FAILURE DETAILS(LID1) of a copy that has ended. The details are dropped once
    /// `allocation_bytes` has room for all of them, or is zero (SPC-4 6.23).
    pub fn failure_details(
        &mut self,
        nexus: &NexusKey,
        list_id: u8,
        descriptor_format: bool,
        allocation_bytes: u32,
    ) -> Result<Vec<u8>, Sense> {
        let at = self.find_ended(nexus, list_id)?;
        let record = &mut self.records[at].1;
        let data = record.failure_details(descriptor_format);
        record.details_told |= is_told(&data, allocation_bytes);
        Ok(data)
    }

    /// RECEIVE COPY DATA(LID1): no segment descriptor here holds data, so there is none.
    pub fn held_data(&self, nexus: &NexusKey, list_id: u8) -> Result<Vec<u8>, Sense> {
        self.find_ended(nexus, list_id).map(|_| vec![0; 4])
    }

    /// RECEIVE COPY STATUS(LID4).
    pub fn status_lid4(
        &self,
        nexus: &NexusKey,
        list_id: u32,
        descriptor_format: bool,
    ) -> Result<Vec<u8>, Sense> {
        let (id, record) = &self.records[self.find_long(nexus, list_id)?];
        Ok(record.status_lid4(id.action as u8, descriptor_format))
    }

    /// RECEIVE ROD TOKEN INFORMATION. The token, not the rest, is dropped here once
    /// `allocation_bytes` has room for it, or is zero (SPC-4 6.26).
    pub fn token_information(
        &mut self,
        nexus: &NexusKey,
        list_id: u32,
        descriptor_format: bool,
        allocation_bytes: u32,
    ) -> Result<Vec<u8>, Sense> {
        let at = self.find_long(nexus, list_id)?;
        let (id, record) = &mut self.records[at];
        let data = record.token_information(id.action as u8, descriptor_format);
        if is_told(&data, allocation_bytes) {
            record.token = None;
        }
        Ok(data)
    }

    fn running(&mut self, id: &CopyId) -> Option<&mut CopyRecord> {
        let (_, record) = self.records.iter_mut().find(|(other, _)| other == id)?;
        record.status.is_in_progress().then_some(record)
    }

    fn find_short(&self, nexus: &NexusKey, list_id: u8) -> Result<usize, Sense> {
        self.records
            .iter()
            .position(|(id, _)| {
                id.action == CopyAction::ExtendedCopy
                    && id.list_id == u32::from(list_id)
                    && id.nexus == *nexus
            })
            .ok_or(unknown())
    }

    fn find_ended(&self, nexus: &NexusKey, list_id: u8) -> Result<usize, Sense> {
        let at = self.find_short(nexus, list_id)?;
        if self.records[at].1.status.is_in_progress() { Err(unknown()) } else { Ok(at) }
    }

    fn find_long(&self, nexus: &NexusKey, list_id: u32) -> Result<usize, Sense> {
        self.records
            .iter()
            .position(|(id, _)| {
                id.action != CopyAction::ExtendedCopy && id.list_id == list_id && id.nexus == *nexus
            })
            .ok_or(unknown())
    }
}

/// Whether the initiator has got all of `data`, or has asked for none of it.
fn is_told(data: &[u8], allocation_bytes: u32) -> bool {
    allocation_bytes == 0 || allocation_bytes as usize >= data.len()
}

/// Points at LIST IDENTIFIER, which is at byte 2 in all of the commands.
fn unknown() -> Sense {
    Sense::invalid_field_in_cdb(2, None)
}

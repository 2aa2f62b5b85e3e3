//! What an opening believes of journal and redo area.

use crate::DiskId;
use crate::label::{Label, MemberKind, MemberState};

/// Whether a member in this state lacks what a record of the journal at `position` says was
/// written to the disks. Who was in then has it: the record came after its flush.
#[must_use]
pub fn has_missed(state: MemberState, position: u64) -> bool {
    match state {
        MemberState::Active => false,
        MemberState::Stale(since) => position >= since.position,
        MemberState::Failed | MemberState::Retired => true,
    }
}

/// A wave of the redo area.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct WaveId {
    /// The checkpoint that it is of.
    pub checkpoint: u64,
    /// Its number: of two waves that with the higher number is the later one.
    pub wave: u64,
}

/// Which of the waves that were `found` on the disks that hold the newest checkpoint are to be
/// done again, in order: those of the checkpoint that did not end, each once.
#[must_use]
pub fn waves_to_redo(found: &[WaveId], newest: u64) -> Vec<usize> {
    let unfinished = found.iter().enumerate().filter(|(_, id)| id.checkpoint == newest + 1);
    let mut waves: Vec<(u64, usize)> = unfinished.map(|(index, id)| (id.wave, index)).collect();
    waves.sort_unstable();
    waves.dedup_by_key(|(wave, _)| *wave);
    waves.into_iter().map(|(_, index)| index).collect()
}

/// The disks that take the journal over when those that hold it fail, of those that are `usable`:
/// disks for the journal alone before others, and those that hold checkpoints before the rest.
#[must_use]
pub fn journal_successors(label: &Label, usable: &[DiskId], wanted: usize) -> Vec<DiskId> {
    let is_usable = |disk: &DiskId| usable.contains(disk);
    let own: Vec<DiskId> = label.active().filter(|disk| is_usable(disk)).collect();
    let of_kind = |kind: MemberKind| {
        let is_kind = move |disk: &DiskId| label.member(*disk).is_some_and(|r| r.kind == kind);
        own.iter().copied().filter(move |disk| is_kind(disk))
    };
    let alone: Vec<DiskId> = of_kind(MemberKind::Journal).collect();
    if !alone.is_empty() {
        return alone;
    }
    let mut data: Vec<DiskId> = of_kind(MemberKind::Data).collect();
    data.sort_by_key(|disk| !label.holders.contains(disk));
    data.truncate(wanted);
    data
}

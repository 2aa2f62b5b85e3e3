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
    /// It only carries on what others have left half done: it was written before the checkpoint that
    /// comes before its own was the newest.
    pub carries: bool,
}

/// Which of the waves that were `found` on the disks that hold the newest checkpoint are to be
/// done again, in order: those of the checkpoint that did not end, each once. Those that were written for
/// the one after it count too, unless that end was never reached and another start has written since.
#[must_use]
pub fn waves_to_redo(found: &[WaveId], newest: u64) -> Vec<usize> {
    let is_overtaken = |id: &WaveId| {
        let mut later = found.iter().filter(|other| other.wave > id.wave);
        id.carries && later.any(|other| (newest..id.checkpoint).contains(&other.checkpoint))
    };
    let counts = |id: &WaveId| match id.carries {
        true => id.checkpoint > newest && !is_overtaken(id),
        false => id.checkpoint == newest + 1,
    };
    let unfinished = found.iter().enumerate().filter(|(_, id)| counts(id));
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waves_of_the_checkpoint_that_did_not_end_count_and_what_is_carried_to_the_next() {
        let wave = |checkpoint, wave| WaveId { checkpoint, wave, carries: false };
        let carry = |checkpoint, wave| WaveId { checkpoint, wave, carries: true };
        let redo = |found: &[WaveId], newest| -> Vec<u64> {
            waves_to_redo(found, newest).into_iter().map(|index| found[index].wave).collect()
        };
        assert_eq!(redo(&[wave(8, 4), wave(8, 3), wave(8, 4)], 7), [3, 4]);
        assert_eq!(redo(&[wave(8, 4), wave(7, 3)], 7), [4]);
        assert_eq!(redo(&[wave(8, 4), wave(8, 3)], 8), []);
        // The end of checkpoint 8: its record may be durable or not.
        let end = [wave(8, 4), carry(9, 5)];
        assert_eq!([redo(&end, 7), redo(&end, 8), redo(&end, 9)], [vec![4, 5], vec![5], vec![]]);
        // It was not, and another start has carried on what it found.
        let again = [carry(8, 6), carry(9, 5)];
        assert_eq!([redo(&again, 7), redo(&again, 8)], [vec![6], vec![]]);
        let twice = [carry(8, 6), carry(9, 7)];
        assert_eq!([redo(&twice, 7), redo(&twice, 8)], [vec![6, 7], vec![7]]);
        // Waves had smaller numbers once.
        assert_eq!(redo(&[wave(3, 50), carry(9, 0)], 8), [0]);
    }
}

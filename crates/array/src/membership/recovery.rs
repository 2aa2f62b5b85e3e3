//! What an opening believes of journal and redo area.

use crate::DiskId;
use crate::label::{Label, MemberKind, MemberState};
use crate::mutants::{self, Mutant};

/// Whether a member in this state lacks what a record of the journal at `position` says was
/// written to the disks. Who was in then has it: the record came after its flush.
#[must_use]
pub fn has_missed(state: MemberState, position: u64) -> bool {
    match state {
        MemberState::Active => false,
        MemberState::Stale(since) => {
            position >= since.position && !mutants::is(Mutant::ForgetMissed)
        }
        MemberState::Failed | MemberState::Retired => true,
    }
}

/// Whether a holder is given the newest checkpoint by a start, before the next one is written: it must not hang
/// on one disk meanwhile.
#[must_use]
pub fn gets_checkpoint(has_it: bool) -> bool {
    !has_it && !mutants::is(Mutant::LoneSlot)
}

/// Whether a holder is given a wave that is about to be done again: if the only one that had it went, nobody
/// could end that.
#[must_use]
pub fn gets_wave(has_it: bool) -> bool {
    !has_it && !mutants::is(Mutant::LoneWave)
}

/// Whether what a wave that was done again has put in place is noted in the journal, before anything can overwrite
/// the wave: another crash would leave stripes that nobody knows any more.
#[must_use]
pub fn notes_redone(is_news: bool) -> bool {
    is_news && !mutants::is(Mutant::ForgetRedone)
}

/// Whether what was put in place is lost with the disks whose flush has failed, of which the level survives
/// `losses_max`: then the journal must keep it, and the checkpoint does not go on.
#[must_use]
pub fn is_unflushed(missing: usize, losses_max: usize) -> bool {
    missing > losses_max && !mutants::is(Mutant::BlindFlush)
}

/// Whether what replaces a member counts as that member: with the record that says so, when that is durable.
/// A crash before would revive the old one, and what it missed since would be forgotten.
#[must_use]
pub fn takes_place(is_recorded: bool) -> bool {
    is_recorded || mutants::is(Mutant::EarlyPromotion)
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

/// Which of the waves that were `found` on the disks that hold the checkpoints, whether or not each has
/// the newest one, are to be done again, in order: those of the checkpoint that did not end, each once. Those that were written for
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

/// Copies of the journal that an array keeps which has, or ever had, disks for it alone: two once there
/// were two. Where such disks are gone, others stand in for them.
fn journal_copies(label: &Label) -> usize {
    let alone = label.members.iter().filter(|record| record.kind == MemberKind::Journal);
    alone.count().min(JOURNAL_COPIES)
}

/// So many disks for the journal alone mirror each other.
const JOURNAL_COPIES: usize = 2;

/// The disks that should hold the journal, of those that are `usable`: those for it alone, with others
/// beside them in place of such ones as are gone or `leaving`. Without any it is up to `wanted` others,
/// first those that hold checkpoints, last those that leave.
#[must_use]
pub fn journal_successors(
    label: &Label,
    usable: &[DiskId],
    leaving: &[DiskId],
    wanted: usize,
) -> Vec<DiskId> {
    let is_usable = |disk: &DiskId| usable.contains(disk);
    let own: Vec<DiskId> = label.active().filter(|disk| is_usable(disk)).collect();
    let of_kind = |kind: MemberKind| {
        let is_kind = move |disk: &DiskId| label.member(*disk).is_some_and(|r| r.kind == kind);
        own.iter().copied().filter(move |disk| is_kind(disk))
    };
    let leaves = |disk: &DiskId| leaving.contains(disk);
    let mut chosen: Vec<DiskId> = of_kind(MemberKind::Journal).collect();
    let mut data: Vec<DiskId> = of_kind(MemberKind::Data).collect();
    // Among equals first who has it already: nobody is given the journal again and again.
    let (has_it, holds) = (|d: &_| label.journal.contains(d), |d: &_| label.holders.contains(d));
    let staying = chosen.iter().filter(|disk| !leaves(disk)).count();
    if staying == 0 {
        data.sort_by_key(|disk| (leaves(disk), !holds(disk), !has_it(disk)));
        data.truncate(wanted);
        data.sort_unstable();
    } else {
        data.sort_by_key(|disk| (leaves(disk), !has_it(disk), !holds(disk)));
        let copies = if mutants::is(Mutant::NoStandIn) { 1 } else { journal_copies(label) };
        data.truncate(copies.saturating_sub(staying));
    }
    chosen.append(&mut data);
    chosen
}

/// The disks that are to hold the checkpoints as well, of those that are `usable`, until `wanted` hold them
/// that are not `leaving`; ones that leave only where there are no others.
#[must_use]
pub fn checkpoint_successors(
    label: &Label,
    usable: &[DiskId],
    leaving: &[DiskId],
    wanted: usize,
) -> Vec<DiskId> {
    let is_free = |disk: &DiskId| {
        let is_data = label.member(*disk).is_some_and(|record| record.kind == MemberKind::Data);
        is_data && usable.contains(disk) && !label.holders.contains(disk)
    };
    let free = label.active().filter(is_free);
    let (mut last, mut chosen): (Vec<_>, Vec<_>) = free.partition(|disk| leaving.contains(disk));
    let staying = label.holders.iter().filter(|disk| !leaving.contains(disk)).count();
    chosen.truncate(wanted.saturating_sub(staying));
    last.truncate(wanted.saturating_sub(label.holders.len() + chosen.len()));
    chosen.append(&mut last);
    chosen
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::label::ChangeId;
    use crate::membership::tests::fresh;
    use crate::membership::{Event, next_label};

    fn ids(numbers: &[u16]) -> Vec<DiskId> {
        numbers.iter().map(|number| DiskId(*number)).collect()
    }

    fn without(label: &Label, disk: u16) -> Label {
        let gone = [Event::Failed(DiskId(disk))];
        next_label(label, &gone, ChangeId(2)).unwrap().expect("a change")
    }

    #[test]
    fn a_data_disk_stands_in_for_one_of_two_for_the_journal_alone_and_not_for_one_of_one() {
        let all = ids(&[0, 1, 2, 3, 4, 5]);
        let two = fresh(4, 2);
        assert_eq!(journal_successors(&two, &all, &[], 3), ids(&[4, 5]));
        let mut one_left = without(&two, 5);
        assert_eq!(journal_successors(&one_left, &all[..5], &[], 3), ids(&[4, 0]));
        // Who stands in goes on to, whoever else could.
        one_left.journal = ids(&[2, 4]);
        assert_eq!(journal_successors(&one_left, &all[..5], &[], 3), ids(&[4, 2]));
        let mut none_left = without(&one_left, 4);
        none_left.journal = ids(&[2]);
        assert_eq!(
            journal_successors(&none_left, &all[..4], &[], 3),
            ids(&[0, 1, 2]),
            "as without any"
        );
        let one = fresh(4, 1);
        assert_eq!(journal_successors(&one, &all[..5], &[], 3), ids(&[4]));
        let three = fresh(4, 3);
        assert_eq!(journal_successors(&without(&three, 6), &all, &[], 3), ids(&[4, 5]));
    }

    #[test]
    fn who_leaves_does_not_count_as_one_that_holds_the_journal() {
        let all = ids(&[0, 1, 2, 3, 4, 5]);
        let four = fresh(4, 0);
        let next =
            |label: &Label, leaving: &[u16]| journal_successors(label, &all, &ids(leaving), 3);
        assert_eq!(next(&four, &[1]), ids(&[0, 2, 3]));
        assert_eq!(next(&four, &[1, 2]), ids(&[0, 1, 3]), "where there are no others");
        // It stays after all, when others have the journal by now.
        let kept = Label { holders: ids(&[0, 1, 2, 3]), journal: ids(&[0, 2, 3]), ..four };
        assert_eq!(next(&kept, &[]), ids(&[0, 2, 3]));
        let two = fresh(4, 2);
        assert_eq!(next(&two, &[5]), ids(&[4, 5, 0]));
        assert_eq!(next(&two, &[5, 0]), ids(&[4, 5, 1]));
        assert_eq!(next(&two, &[4, 5]), ids(&[4, 5, 0, 1, 2]), "as without any");
        let stands_in = Label { journal: ids(&[0, 4]), ..without(&two, 5) };
        assert_eq!(journal_successors(&stands_in, &all[..5], &ids(&[0]), 3), ids(&[4, 1]));
    }

    #[test]
    fn who_leaves_does_not_count_as_one_that_holds_the_checkpoints() {
        let all = ids(&[0, 1, 2, 3, 4, 5]);
        let next = |label: &Label, usable: &[DiskId], leaving: &[u16]| {
            checkpoint_successors(label, usable, &ids(leaving), 3)
        };
        let five = fresh(5, 1);
        assert_eq!(next(&five, &all, &[]), []);
        assert_eq!(next(&five, &all, &[1]), ids(&[3]));
        assert_eq!(next(&five, &all, &[1, 2]), ids(&[3, 4]), "and not one for the journal alone");
        assert_eq!(next(&five, &all, &[1, 3]), ids(&[4]));
        assert_eq!(next(&five, &all[..3], &[1]), [], "there are no others");
        let taken_over = Label { holders: ids(&[0, 1, 2, 3]), ..five.clone() };
        assert_eq!(next(&taken_over, &all, &[1]), []);
        let gone = without(&five, 2);
        assert_eq!(next(&gone, &all[..4], &[3]), ids(&[3]), "rather than nobody");
        assert_eq!(next(&gone, &all, &[1, 3]), ids(&[4]));
        assert_eq!(next(&five, &all, &[1, 2, 3, 4]), []);
    }

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

//! Disks that never come back, beside others that missed something.

use super::*;
use crate::raid::redo::{self, Wave};
use crate::raid::{Access, WriteError};

/// A disk is declared failed and a checkpoint changes blocks of the column that it had; then the
/// disk with the other column fails a flush. What was changed is in the journal, and in no map.
async fn two_out(is_taken: bool) -> (Rig, impl Fn(usize, usize) -> Option<u32>) {
    let rig = Rig::new(Some(Level::Raid5), 3);
    rig.fill(1, &[0, 1], 10).await;
    let all = rig.known(1, 10);
    let (failed, _) = rig.place(1, 0, 0);
    rig.raid.disks().remove(DiskId(failed as u16));
    let changes = [change(0, 0, &[4711, 4712, 4713])];
    let update = rig.raid.plan_update(&rig.set, 1, &changes, &all).await.unwrap();
    rig.set.mark_stale(1, DiskId(failed as u16));
    if is_taken {
        rig.raid.apply(&rig.set, &update, FLAGS, &[]).await.unwrap();
    }
    rig.set.mark_stale(1, DiskId(rig.place(1, 1, 0).0 as u16));
    rig.set.set_replacement(failed, Seat { disk: DiskId(3), chunk: 1 }).unwrap();
    (rig, move |column: usize, row: usize| (column != 0 || row >= 3).then(|| all(column, row))?)
}

#[test]
fn what_the_journal_has_keeps_nobody_waiting_for_a_disk_that_has_failed() {
    on_a_core(async {
        for is_taken in [true, false] {
            let (rig, known) = two_out(is_taken).await;
            let mut proof = Proof { crcs: &known, is_sure: true, ..Proof::NOTHING };
            let waits = rig.raid.refresh_stripe(&rig.set, 1, proof).await;
            assert_eq!(waits, Err(ReadError::Lost), "it may come back");
            let (failed, _) = rig.place(1, 0, 0);
            let is_gone = |disk: DiskId| usize::from(disk.0) == failed;
            proof.is_gone = &is_gone;
            // First the columns, then the parity, which is made anew of them.
            for _ in 0..2 {
                let done = rig.raid.refresh_stripe(&rig.set, 1, proof).await.unwrap();
                assert_eq!((done.left, done.unproved), (1, vec![]), "only who is gone lacks it");
            }
            let lacking = rig.set.stale_seats(1);
            assert!(lacking.iter().all(|seat| usize::from(seat.disk.0) == failed), "{lacking:?}");
            // Each column from the other one and the parity.
            let slots = [0, 1].map(|column| rig.set.shape().slot(1, column));
            let other = rig.place(1, 1, 0).0;
            rig.raid.disks().remove(DiskId(other as u16));
            assert!(rig.read(slots[1], 0, &cluster(11)).await.is_ok());
            rig.bring_back(other);
            rig.raid.disks().remove(DiskId(3));
            assert!(rig.read(slots[0], 3, &cluster(10)[3..]).await.is_ok());
        }
    });
}

#[test]
fn what_was_cut_off_is_done_again_on_all_who_are_there() {
    on_a_core(async {
        let rig = Rig::new(Some(Level::Raid5), 3);
        rig.fill(1, &[0, 1], 10).await;
        let all = rig.known(1, 10);
        let changes = [change(0, 4, &[4711])];
        let update = rig.raid.plan_update(&rig.set, 1, &changes, &all).await.unwrap();
        // Both that change missed something, and are there.
        for strip in [0, 2] {
            rig.set.mark_stale(1, DiskId(rig.place(1, strip, 0).0 as u16));
        }
        assert_eq!(rig.raid.apply(&rig.set, &update, FLAGS, &[]).await, Err(WriteError::Lost));
        let slot = rig.set.shape().slot(1, 0);
        assert!(rig.read(slot, 4, &cluster(10)[4..5]).await.is_ok(), "nothing was written");
        assert_eq!(rig.raid.apply_again(&rig.set, &update, FLAGS).await, Err(WriteError::Half));
        let new = crcs(slot, 4, &[4711])[0];
        let known = |column: usize, row: usize| {
            if (column, row) == (0, 4) { Some(new) } else { all(column, row) }
        };
        let proof = Proof { crcs: &known, is_sure: true, ..Proof::NOTHING };
        for _ in 0..2 {
            let done = rig.raid.refresh_stripe(&rig.set, 1, proof).await.unwrap();
            assert_eq!((done.left, done.unproved), (0, vec![]));
        }
        assert_eq!(rig.set.stale(1), 0);
        for gone in 0..3 {
            rig.raid.disks().remove(DiskId(gone as u16));
            assert!(rig.read(slot, 4, &[4711]).await.is_ok(), "{gone}");
            rig.expect(1, 1, &cluster(11)).await;
            rig.bring_back(gone);
        }
    });
}

/// A column has what the journal brought, both parities are from before: which of them is old cannot
/// be told, and none of them has rotted.
#[test]
fn what_does_not_agree_with_parities_that_missed_something_is_not_accused() {
    on_a_core(async {
        let rig = Rig::new(Some(Level::Raid6), 4);
        rig.fill(1, &[0, 1], 10).await;
        let all = rig.known(1, 10);
        let changes = [change(1, 4, &[4711])];
        let update = rig.raid.plan_update(&rig.set, 1, &changes, &all).await.unwrap();
        let parities = [2, 3].map(|strip| rig.place(1, strip, 0).0);
        parities.iter().for_each(|disk| drop(rig.raid.disks().remove(DiskId(*disk as u16))));
        rig.raid.apply(&rig.set, &update, FLAGS, &[]).await.unwrap();
        parities.iter().for_each(|disk| rig.bring_back(*disk));
        let (failed, _) = rig.place(1, 0, 0);
        rig.raid.disks().remove(DiskId(failed as u16));
        rig.set.mark_stale(1, DiskId(failed as u16));
        rig.set.set_replacement(failed, Seat { disk: DiskId(4), chunk: 1 }).unwrap();
        let known =
            |column: usize, row: usize| ((column, row) != (1, 4)).then(|| all(column, row))?;
        let is_gone = |disk: DiskId| usize::from(disk.0) == failed;
        let proof = Proof { crcs: &known, is_sure: true, is_gone: &is_gone, ..Proof::NOTHING };
        for _ in 0..2 {
            let done = rig.raid.refresh_stripe(&rig.set, 1, proof).await.unwrap();
            assert_eq!(done.unproved, vec![]);
        }
        rig.expect(1, 0, &cluster(10)).await;
        for disk in rig.raid.disks().all() {
            assert_eq!(disk.counts().mismatches, 0, "{}", disk.name());
        }
    });
}

/// Disks that do not take writes are out; while they do not give what they have either, nothing is lost.
#[test]
fn what_disks_that_are_out_refuse_to_give_is_not_given_up() {
    on_a_core(async {
        let rig = Rig::new(Some(Level::Raid5), 3);
        rig.fill(1, &[0, 1], 10).await;
        let known = rig.known(1, 10);
        let place = |strip: usize| rig.place(1, strip, 4);
        // One lacks what another one has, which is out and cannot be read for now.
        let lacking = place(0).0;
        rig.set.mark_stale(1, DiskId(lacking as u16));
        rig.corrupt(1, 0, 4);
        let (out, _) = place(1);
        rig.raid.disks().get(DiskId(out as u16)).unwrap().close();
        rig.disks[out].kill();
        let proof = Proof { crcs: &known, is_sure: true, ..Proof::NOTHING };
        let waits = rig.raid.refresh_stripe(&rig.set, 1, proof).await;
        assert_eq!(waits, Err(ReadError::Lost));
        let slot = rig.set.shape().slot(1, 0);
        let read = rig.read(slot, 4, &cluster(10)[4..5]).await;
        assert_eq!(read.unwrap_err(), ReadError::Lost, "no medium error");
        let changes = [change(1, 4, &[4711])];
        let planned = rig.raid.plan_update(&rig.set, 1, &changes, &known).await;
        assert_eq!(planned.unwrap_err(), ReadError::Lost, "nothing is made anew without it");
        rig.bring_back(out);
        let done = rig.raid.refresh_stripe(&rig.set, 1, proof).await.unwrap();
        assert_eq!((done.left, done.unproved), (0, vec![]));
        rig.expect(1, 0, &cluster(10)).await;
    });
}

/// The maps have a column as it was before a checkpoint that did not end: the other one, whose disk is
/// dead, comes out of what is in place all the same.
#[test]
fn a_parity_made_anew_keeps_what_only_the_newest_contents_give() {
    on_a_core(async {
        for (level, members) in [(Level::Raid5, 3), (Level::Raid6, 4)] {
            let rig = Rig::new(Some(level), members);
            rig.fill(1, &[0, 1], 10).await;
            let old = rig.known(1, 10);
            let changes = [change(0, 4, &[4711])];
            let update = rig.raid.plan_update(&rig.set, 1, &changes, &old).await.unwrap();
            rig.raid.apply(&rig.set, &update, FLAGS, &[]).await.unwrap();
            // The disk of column 1, and of one of two parities.
            let strips = if level == Level::Raid6 { vec![1, 3] } else { vec![1] };
            for strip in strips {
                rig.raid.disks().remove(DiskId(rig.place(1, strip, 0).0 as u16));
            }
            // The same change once more, by the same maps.
            let planned = rig.raid.plan_update(&rig.set, 1, &changes, &old).await;
            assert_eq!(planned.unwrap_err(), ReadError::Damaged { block: 4 }, "{level}");
            let update = rig.raid.plan_anew(&rig.set, 1, &changes, 0b11, &old).await.unwrap();
            rig.raid.apply(&rig.set, &update, FLAGS, &[]).await.unwrap();
            rig.expect(1, 1, &cluster(11)).await;
        }
    });
}

/// Nobody gives a column, nor the parity, when a change of another one comes, so that the parity is made
/// without it. Then all ends before a record says so, and they are back.
#[test]
fn a_parity_that_was_made_without_a_column_is_made_anew_after_a_crash_too() {
    on_a_core(async {
        let rig = Rig::new(Some(Level::Raid5), 4);
        rig.fill(1, &[0, 1, 2], 10).await;
        let all = rig.known(1, 10);
        // Its disk is out, and the parity has rotted.
        let away = [rig.place(1, 1, 0).0];
        (0..CLUSTER_BLOCKS).for_each(|row| _ = rig.corrupt(1, 3, row));
        away.iter().for_each(|disk| _ = rig.raid.disks().remove(DiskId(*disk as u16)));
        let changes = [change(0, 4, &[4711])];
        let update = rig.raid.plan_anew(&rig.set, 1, &changes, 0b111, &all).await.unwrap();
        assert_eq!(update.given_up, 0b010);
        // As the last record has the stripe, and the redo area the update.
        rig.set.stale_seats(1).into_iter().for_each(|seat| rig.set.clear_stale(1, seat));
        let (updates, halves) = (vec![update], Vec::new());
        let wave = Wave { checkpoint: 1, wave: 1, updates, halves, since: 0 };
        let bytes = redo::encode(&[7; 16], &wave).unwrap().freeze();
        let wave = redo::decode(&[7; 16], &bytes).unwrap();
        away.iter().for_each(|disk| rig.bring_back(*disk));
        rig.raid.apply_again(&rig.set, &wave.updates[0], FLAGS).await.unwrap();
        let known =
            |column: usize, row: usize| (column != 0 || row != 4).then(|| all(column, row))?;
        let proof = Proof { crcs: &known, is_sure: true, ..Proof::NOTHING };
        rig.refresh_twice(proof).await;
        assert_eq!(rig.set.stale(1), 0);
        rig.lose(&away);
        rig.expect(1, 1, &cluster(11)).await;
    });
}

/// A column joins a stripe of which one disk is out, and its own disk refuses it.
#[test]
fn a_parity_that_covers_a_column_which_its_disk_refused_says_so() {
    on_a_core(async {
        let rig = Rig::new(Some(Level::Raid5), 5);
        rig.fill(1, &[0, 1], 10).await;
        let (out, joins) = (rig.place(1, 1, 0).0, rig.place(1, 2, 0).0);
        let changes = [change(2, 0, &cluster(77))];
        let update = rig.raid.plan_update(&rig.set, 1, &changes, NO_CRCS).await.unwrap();
        rig.raid.disks().remove(DiskId(out as u16));
        rig.lose(&[joins]);
        assert_eq!(rig.raid.apply(&rig.set, &update, FLAGS, &[]).await, Err(WriteError::Half));
        assert_eq!(rig.set.written(1), 0b111, "as its parity is");
        rig.bring_back(out);
        rig.bring_back(joins);
        let known = rig.known(1, 10);
        let all = |column: usize, row: usize| (column < 2).then(|| known(column, row))?;
        let proof = Proof { crcs: &all, is_sure: true, ..Proof::NOTHING };
        rig.raid.refresh_stripe(&rig.set, 1, proof).await.unwrap();
        assert_eq!(rig.set.stale(1), 0);
        rig.raid.disks().remove(DiskId(out as u16));
        let slot = rig.set.shape().slot(1, 1);
        assert!(rig.read(slot, 0, &cluster(11)).await.is_ok(), "the other columns are covered");
        rig.bring_back(out);
        let scrubbed = rig.raid.scrub_stripe(&rig.set, 1, contents(&all)).await.unwrap();
        assert_eq!((scrubbed.bad, scrubbed.repaired), (0, 0), "{scrubbed:?}");
    });
}

/// Of an update of a stripe of which one disk is out another one refuses its part, and is back soon.
#[test]
fn a_member_that_takes_all_of_an_update_at_last_lacks_nothing_if_it_lacked_nothing_before() {
    on_a_core(async {
        for lacked_before in [false, true] {
            let rig = Rig::new(Some(Level::Raid5), 3);
            rig.fill(1, &[0, 1], 10).await;
            let all = rig.known(1, 10);
            let (out, refuses) = (rig.place(1, 1, 0).0, rig.place(1, 0, 0).0);
            let changes = [change(0, 4, &[4711])];
            let update = rig.raid.plan_update(&rig.set, 1, &changes, &all).await.unwrap();
            rig.raid.disks().remove(DiskId(out as u16));
            rig.set.mark_stale(1, DiskId(out as u16));
            let sound = rig.set.sound_seats(1);
            rig.lose(&[refuses]);
            assert_eq!(rig.raid.apply(&rig.set, &update, FLAGS, &[]).await, Err(WriteError::Half));
            let is_gone = |_| false;
            assert!(!rig.raid.can_redo(&rig.set, &update, &[], &is_gone), "it waits for its disk");
            rig.bring_back(refuses);
            assert!(rig.raid.can_redo(&rig.set, &update, &[], &is_gone));
            let sound = if lacked_before { &[][..] } else { &sound };
            let done = rig.raid.apply(&rig.set, &update, FLAGS, sound).await;
            assert_eq!(done.is_ok(), !lacked_before);
            let read = rig.read(rig.set.shape().slot(1, 1), 0, &cluster(11)).await;
            assert_eq!(read.is_ok(), !lacked_before, "out of the others");
        }
    });
}

/// One disk is dead, and another one refuses its part of an update, for as long as it takes: a column's,
/// or the parity's. It gets it when it is back, or nobody ever reads the column of the dead one.
#[test]
fn what_a_disk_missed_in_the_middle_of_an_update_waits_for_it() {
    on_a_core(async {
        for (refusing, is_gone_for_good) in [(0, true), (2, true), (0, false), (2, false)] {
            let rig = Rig::new(Some(Level::Raid5), 3);
            rig.fill(1, &[0, 1], 10).await;
            let all = rig.known(1, 10);
            let (dead, refuses) = (rig.place(1, 1, 0).0, rig.place(1, refusing, 0).0);
            // Or it went while the array runs, and may be back any moment for all that is known.
            match is_gone_for_good {
                true => _ = rig.raid.disks().remove(DiskId(dead as u16)),
                false => {
                    rig.lose(&[dead]);
                    let disk = rig.raid.disks().get(DiskId(dead as u16)).unwrap();
                    disk.fail(BlockError::Medium { at: 0 }, Access::ReadOnly);
                }
            }
            let changes = [change(0, 4, &[4711])];
            let update = rig.raid.plan_update(&rig.set, 1, &changes, &all).await.unwrap();
            let sound = rig.set.sound_seats(1);
            rig.lose(&[refuses]);
            let done = rig.raid.apply(&rig.set, &update, FLAGS, &sound).await;
            assert_eq!(done, Err(WriteError::Half));
            let proof = Proof { crcs: &all, is_sure: true, ..Proof::NOTHING };
            rig.disks[refuses].revive();
            let waits = rig.raid.refresh_stripe(&rig.set, 1, proof).await;
            assert_eq!(waits, Err(ReadError::Lost), "it is not in yet");
            rig.bring_back(refuses);
            let done = rig.raid.refresh_stripe(&rig.set, 1, proof).await.unwrap();
            assert_eq!((done.left, done.unproved), (0, vec![]));
            let slot = rig.set.shape().slot(1, 0);
            assert!(rig.read(slot, 4, &[4711]).await.is_ok(), "the new contents");
            rig.expect(1, 1, &cluster(11)).await;
            // It is not done once more over what comes later.
            let new = crcs(slot, 4, &[4711])[0];
            let known = |column: usize, row: usize| {
                if (column, row) == (0, 4) { Some(new) } else { all(column, row) }
            };
            let changes = [change(0, 4, &[4712])];
            let update = rig.raid.plan_update(&rig.set, 1, &changes, &known).await.unwrap();
            rig.raid.apply(&rig.set, &update, FLAGS, &[]).await.unwrap();
            rig.set.mark_stale(1, DiskId(refuses as u16));
            drop(rig.raid.refresh_stripe(&rig.set, 1, Proof::NOTHING).await);
            let seats = rig.set.stale_seats(1).into_iter();
            seats
                .filter(|seat| seat.disk == DiskId(refuses as u16))
                .for_each(|seat| rig.set.clear_stale(1, seat));
            assert!(rig.read(slot, 4, &[4712]).await.is_ok());
        }
    });
}

/// Of an update that was half done a disk has got its part, goes out before a record says so, and may have lost
/// it: it gets it once more.
#[test]
fn a_disk_that_was_given_its_part_and_went_out_again_gets_it_once_more() {
    on_a_core(async {
        for refusing in [0, 2] {
            let rig = Rig::new(Some(Level::Raid5), 3);
            let refuses = half_done(&rig, refusing).await;
            let all = rig.known(1, 10);
            rig.bring_back(refuses);
            let proof = Proof { crcs: &all, is_sure: true, ..Proof::NOTHING };
            let is_gone = |_| false;
            rig.raid.end_half(&rig.set, 1, &is_gone).await.unwrap();
            assert!(!rig.raid.has_half(SET, 1), "it was given");
            // What it took was in its cache.
            let (seat, at) = rig.place(1, refusing, 4);
            assert_eq!(seat, refuses);
            rig.disks[refuses].flip(at + 100);
            rig.set.mark_stale(1, DiskId(refuses as u16));
            rig.raid.take_halves_back(DiskId(refuses as u16), &|_| true);
            assert!(rig.raid.has_half(SET, 1), "it is to be given again");
            let set_of = |_| Some(Arc::clone(&rig.set));
            assert_eq!(rig.raid.given_halves(&set_of), [], "no record may say that it has it");
            let done = rig.raid.refresh_stripe(&rig.set, 1, proof).await.unwrap();
            assert_eq!((done.left, done.unproved), (1, vec![]), "only the dead one lacks it");
            assert!(rig.read(rig.set.shape().slot(1, 0), 4, &[4711]).await.is_ok());
            rig.expect(1, 1, &cluster(11)).await;
        }
    });
}

/// The disk that is to get its part of an update dies while it is given: it waits for it as before.
#[test]
fn a_disk_that_dies_while_it_gets_its_part_is_waited_for() {
    on_a_core(async {
        for refusing in [0, 2] {
            let rig = Rig::new(Some(Level::Raid5), 3);
            let refuses = half_done(&rig, refusing).await;
            let all = rig.known(1, 10);
            rig.bring_back(refuses);
            rig.fuse.kill_after(0, &rig.disks[refuses]);
            let is_gone = |_| false;
            let ended = rig.raid.end_half(&rig.set, 1, &is_gone).await;
            assert_eq!(ended, Err(ReadError::Lost));
            assert!(rig.fuse.is_blown() && rig.raid.has_half(SET, 1));
            rig.fuse.mend();
            rig.bring_back(refuses);
            let proof = Proof { crcs: &all, is_sure: true, ..Proof::NOTHING };
            let done = rig.raid.refresh_stripe(&rig.set, 1, proof).await.unwrap();
            assert_eq!((done.left, done.unproved), (1, vec![]), "only the dead one lacks it");
            assert!(rig.read(rig.set.shape().slot(1, 0), 4, &[4711]).await.is_ok());
            rig.expect(1, 1, &cluster(11)).await;
        }
    });
}

/// A set of which one disk is dead and another one, with this strip of stripe 1, refused its part of a change
/// of block 4 of the first column; that one.
async fn half_done(rig: &Rig, refusing: usize) -> usize {
    rig.fill(1, &[0, 1], 10).await;
    let all = rig.known(1, 10);
    let (dead, refuses) = (rig.place(1, 1, 0).0, rig.place(1, refusing, 0).0);
    rig.raid.disks().remove(DiskId(dead as u16));
    rig.set.mark_stale(1, DiskId(dead as u16));
    let changes = [change(0, 4, &[4711])];
    let update = rig.raid.plan_update(&rig.set, 1, &changes, &all).await.unwrap();
    let sound = rig.set.sound_seats(1);
    rig.lose(&[refuses]);
    let done = rig.raid.apply(&rig.set, &update, FLAGS, &sound).await;
    assert_eq!(done, Err(WriteError::Half));
    refuses
}

/// The disk that is to get its part of an update has lost all that it had when it is back: that part makes
/// nothing whole of it, and the stripe waits for the dead one.
#[test]
fn a_disk_that_lost_all_is_not_made_whole_by_what_was_half_done() {
    on_a_core(async {
        for refusing in [0, 2] {
            let rig = Rig::new(Some(Level::Raid5), 3);
            let lost = half_done(&rig, refusing).await;
            let (slot, old) = (rig.set.shape().slot(1, 0), rig.known(1, 10));
            let new = crcs(slot, 4, &[4711])[0];
            let all =
                |column, row| if (column, row) == (0, 4) { Some(new) } else { old(column, row) };
            (0..CLUSTER_BLOCKS).for_each(|row| _ = rig.corrupt(1, refusing, row));
            rig.bring_back(lost);
            rig.set.mark_all_stale(DiskId(lost as u16));
            rig.raid.disks().set_lacks_all(DiskId(lost as u16), true);
            let proof = Proof { crcs: &all, is_sure: true, ..Proof::NOTHING };
            let waits = rig.raid.refresh_stripe(&rig.set, 1, proof).await;
            let lacks =
                |disk| rig.set.stale_seats(1).iter().any(|seat| seat.disk == DiskId(disk as u16));
            assert!(lacks(lost), "{refusing}: {waits:?}");
            rig.bring_back(rig.place(1, 1, 0).0);
            let done = rig.raid.refresh_stripe(&rig.set, 1, proof).await.unwrap();
            assert_eq!((done.left, done.unproved), (0, vec![]), "{refusing}");
            let mut seeds = cluster(10);
            seeds[4] = 4711;
            rig.expect(1, 0, &seeds).await;
            rig.expect(1, 1, &cluster(11)).await;
            // And the parity agrees with them.
            let found = rig.raid.scrub_stripe(&rig.set, 1, contents(&all)).await.unwrap();
            assert_eq!((found.bad, found.parity_rows), (0, 16), "{refusing}: {found:?}");
        }
    });
}

/// An update was not begun, because one disk was dead and another one went out beside it: that one counts
/// as having lost what it took, and it took nothing.
#[test]
fn a_disk_that_went_out_before_an_update_began_lacks_nothing_when_it_is_back() {
    on_a_core(async {
        let rig = Rig::new(Some(Level::Raid5), 3);
        rig.fill(1, &[0, 1], 10).await;
        let all = rig.known(1, 10);
        let (dead, out) = (rig.place(1, 1, 0).0, rig.place(1, 0, 0).0);
        rig.raid.disks().remove(DiskId(dead as u16));
        let changes = [change(0, 4, &[4711])];
        let update = rig.raid.plan_update(&rig.set, 1, &changes, &all).await.unwrap();
        let sound = rig.set.sound_seats(1);
        rig.raid.disks().remove(DiskId(out as u16));
        rig.set.mark_stale(1, DiskId(out as u16));
        assert_eq!(rig.raid.apply(&rig.set, &update, FLAGS, &sound).await, Err(WriteError::Lost));
        rig.raid.keep_half(&Update { puts: Vec::new(), ..update }, &sound);
        let proof = Proof { crcs: &all, is_sure: true, ..Proof::NOTHING };
        let waits = rig.raid.refresh_stripe(&rig.set, 1, proof).await;
        assert_eq!(waits, Err(ReadError::Lost), "it is not in yet");
        rig.bring_back(out);
        let done = rig.raid.refresh_stripe(&rig.set, 1, proof).await.unwrap();
        assert_eq!((done.left, done.unproved), (0, vec![]));
        rig.expect(1, 0, &cluster(10)).await;
        rig.expect(1, 1, &cluster(11)).await;
    });
}

/// Two disks lack a stripe, as far as anybody knows. What the one has of blocks that the journal writes over
/// nobody owns any more, and what the other one lacks comes out of it all the same.
#[test]
fn what_nobody_owns_on_a_disk_that_lacks_something_gives_what_another_one_lacks() {
    on_a_core(async {
        let sets = [(Level::Raid5, 3), (Level::Raid50, 4), (Level::Raid6, 5)];
        for ((level, members), more) in sets.into_iter().flat_map(|set| [(set, false), (set, true)])
        {
            let rig = Rig::new(Some(level), members);
            let shape = rig.set.shape();
            let columns: Vec<usize> = (0..shape.columns()).collect();
            rig.fill(1, &columns, 10).await;
            let all = rig.known(1, 10);
            let known =
                |column: usize, row: usize| (column != 0 || row < 13).then(|| all(column, row))?;
            let lacking = [0, 1].map(|column| rig.place(1, column, 0).0);
            (0..CLUSTER_BLOCKS).for_each(|row| _ = rig.corrupt(1, 1, row));
            lacking.iter().for_each(|disk| rig.set.mark_stale(1, DiskId(*disk as u16)));
            // Those with the parities went out beside something that never touched the stripe.
            for strip in (shape.columns()..shape.strips()).filter(|_| more) {
                rig.set.mark_stale(1, DiskId(rig.place(1, strip, 0).0 as u16));
            }
            let proof = Proof { crcs: &known, is_sure: true, ..Proof::NOTHING };
            for _ in 0..2 {
                let done = rig.raid.refresh_stripe(&rig.set, 1, proof).await.unwrap();
                assert_eq!((done.left, done.unproved), (0, vec![]), "{level}");
            }
            assert_eq!(rig.set.stale(1), 0);
            rig.expect(1, 1, &cluster(11)).await;
            rig.raid.disks().remove(DiskId(lacking[1] as u16));
            rig.expect(1, 1, &cluster(11)).await;
        }
    });
}

/// Three disks lack a stripe. Nobody owns anything on the first, which has something else, and not all on the
/// second, which has what was written: with that what the third lacks comes out, in whatever order they are.
#[test]
fn what_nobody_owns_stays_as_it_is_where_the_parity_counts_on_it() {
    on_a_core(async {
        let orders = [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]];
        for ([first, second, third], owned) in orders.into_iter().flat_map(|o| [(o, 0), (o, 9)]) {
            let rig = Rig::new(Some(Level::Raid6), 5);
            rig.fill(1, &[0, 1, 2], 10).await;
            let all = rig.known(1, 10);
            let is_owned = |column, row| column == third || column == second && row < owned;
            let known =
                |column: usize, row: usize| is_owned(column, row).then(|| all(column, row))?;
            for column in [first, third] {
                (0..CLUSTER_BLOCKS).for_each(|row| _ = rig.corrupt(1, column, row));
            }
            for column in 0..3 {
                rig.set.mark_stale(1, DiskId(rig.place(1, column, 0).0 as u16));
            }
            let mut proof = Proof { crcs: &known, is_sure: false, ..Proof::NOTHING };
            rig.raid.refresh_stripe(&rig.set, 1, proof).await.unwrap();
            proof.is_sure = true;
            let done = rig.raid.refresh_stripe(&rig.set, 1, proof).await.unwrap();
            assert_eq!((done.left, done.unproved), (0, vec![]), "{first} {second} {third} {owned}");
            rig.expect(1, third, &cluster(10 + third as u64)).await;
            let third_disk = rig.place(1, third, 0).0 as u16;
            rig.raid.disks().remove(DiskId(third_disk));
            rig.expect(1, third, &cluster(10 + third as u64)).await;
        }
    });
}

/// A column changes while its disk and that of the second parity are away, and is freed. They are back,
/// and the disk of the other column is out: what it has comes out of the two that lack the change, or of
/// itself when it is back. The three of them.
async fn change_that_two_missed() -> (Rig, [usize; 3]) {
    let rig = Rig::new(Some(Level::Raid6), 4);
    rig.fill(1, &[0, 1], 10).await;
    let all = rig.known(1, 10);
    let update = rig.raid.plan_update(&rig.set, 1, &[change(1, 4, &[4711])], &all).await;
    let [own, second, out] = [1, 3, 0].map(|strip| rig.place(1, strip, 0).0);
    rig.lose(&[own, second]);
    rig.raid.apply(&rig.set, &update.unwrap(), FLAGS, &[]).await.unwrap();
    [own, second].into_iter().for_each(|disk| rig.bring_back(disk));
    rig.lose(&[out]);
    rig.raid.disks().get(DiskId(out as u16)).unwrap().close();
    (rig, [own, second, out])
}

/// The disk that is out never comes back. What it had is there until another one has been given it, and
/// after that without any two disks.
#[test]
fn a_parity_that_alone_gives_what_a_disk_had_that_is_gone_for_good_stays_as_it_is() {
    on_a_core(async {
        let (rig, [.., out]) = change_that_two_missed().await;
        rig.raid.disks().remove(DiskId(out as u16));
        let all = rig.known(1, 10);
        let known = |column: usize, row: usize| (column == 0).then(|| all(column, row))?;
        let is_gone = |disk: DiskId| usize::from(disk.0) == out;
        let proof = Proof { crcs: &known, is_sure: true, is_gone: &is_gone, ..Proof::NOTHING };
        for _ in 0..2 {
            let done = rig.raid.refresh_stripe(&rig.set, 1, proof).await.unwrap();
            assert_eq!(done.unproved, vec![]);
            rig.expect(1, 0, &cluster(10)).await;
        }
        rig.set.set_replacement(out, Seat { disk: DiskId(4), chunk: 1 }).unwrap();
        for stripe in [1, 1, 0, 2, 3] {
            let proof = if stripe == 1 { proof } else { Proof::NOTHING };
            let done = rig.raid.refresh_stripe(&rig.set, stripe, proof).await.unwrap();
            assert_eq!(done.unproved, vec![]);
        }
        rig.set.flush_begins();
        rig.set.flush_ends();
        assert!(promote(&rig.set).is_some());
        let disks: Vec<usize> = rig.set.members().iter().map(|seat| seat.disk.0.into()).collect();
        for gone in choices(4, 2) {
            gone.iter().for_each(|at| _ = rig.raid.disks().remove(DiskId(disks[*at] as u16)));
            rig.expect(1, 0, &cluster(10)).await;
            gone.iter().for_each(|at| rig.bring_back(disks[*at]));
        }
    });
}

/// Until it is back the second parity must not be made of what cannot be proved.
#[test]
fn a_parity_is_not_made_of_what_was_given_beside_a_disk_that_may_come_back() {
    on_a_core(async {
        let (rig, [own, second, out]) = change_that_two_missed().await;
        let all = rig.known(1, 10);
        let known = |column: usize, row: usize| (column == 0).then(|| all(column, row))?;
        let proof = Proof { crcs: &known, is_sure: true, ..Proof::NOTHING };
        for _ in 0..2 {
            let waits = rig.raid.refresh_stripe(&rig.set, 1, proof).await;
            assert_eq!(waits, Err(ReadError::Lost), "it may come back");
            rig.expect(1, 0, &cluster(10)).await;
        }
        assert_eq!(rig.set.stale_seats(1).len(), 2, "nobody counts as up to date");
        rig.bring_back(out);
        let done = rig.raid.refresh_stripe(&rig.set, 1, proof).await.unwrap();
        assert_eq!((done.left, done.unproved, rig.set.stale(1)), (0, vec![], 0));
        for other in [own, second, rig.place(1, 2, 0).0] {
            rig.lose(&[out, other]);
            rig.expect(1, 0, &cluster(10)).await;
            [out, other].into_iter().for_each(|disk| rig.bring_back(disk));
        }
    });
}

/// What nobody owns on one of three disks that lack something is not what the parities count on, and
/// becomes zeroes: who has it is not to blame that they do not agree.
#[test]
fn who_was_given_what_the_parity_does_not_count_on_is_not_accused() {
    on_a_core(async {
        let rig = Rig::new(Some(Level::Raid6), 5);
        rig.fill(1, &[0, 1, 2], 10).await;
        let all = rig.known(1, 10);
        (0..9).for_each(|row| _ = rig.corrupt(1, 0, row));
        for column in 0..3 {
            rig.set.mark_stale(1, DiskId(rig.place(1, column, 0).0 as u16));
        }
        let known =
            |column: usize, row: usize| (column > 0 || row >= 9).then(|| all(column, row))?;
        let proof = Proof { crcs: &known, is_sure: true, ..Proof::NOTHING };
        for _ in 0..2 {
            let done = rig.raid.refresh_stripe(&rig.set, 1, proof).await.unwrap();
            assert_eq!((done.left, done.unproved), (0, vec![]));
            assert_eq!(done.heals, vec![]);
        }
        assert_eq!(rig.set.stale(1), 0);
        for disk in rig.raid.disks().all() {
            assert_eq!(disk.counts().mismatches, 0, "{}", disk.name());
        }
        for gone in choices(5, 2) {
            gone.iter().for_each(|disk| _ = rig.raid.disks().remove(DiskId(*disk as u16)));
            rig.expect(1, 1, &cluster(11)).await;
            rig.expect(1, 2, &cluster(12)).await;
            gone.into_iter().for_each(|disk| rig.bring_back(disk));
        }
    });
}

/// A disk with a parity is gone for good while two columns cannot be read for a moment: that row of the
/// parity nobody has and nobody can compute. When the data is back it is made anew, and who came for it has
/// done nothing wrong.
#[test]
fn a_parity_that_nobody_has_is_no_rot_of_who_was_to_hold_it() {
    on_a_core(async {
        let rig = Rig::new(Some(Level::Raid6), 6);
        rig.fill(1, &[0, 1, 2, 3], 10).await;
        let known = rig.known(1, 10);
        let (gone, _) = rig.place(1, 4, 0);
        rig.raid.disks().remove(DiskId(gone as u16));
        rig.set.mark_stale(1, DiskId(gone as u16));
        for column in [0, 2] {
            let (disk, at) = rig.place(1, column, 4);
            rig.disks[disk].refuse(at..at + BLOCK_BYTES as u64);
        }
        rig.set.set_replacement(gone, Seat { disk: DiskId(6), chunk: 1 }).unwrap();
        let is_gone = |disk: DiskId| usize::from(disk.0) == gone;
        let proof = Proof { crcs: &known, is_sure: true, is_gone: &is_gone, ..Proof::NOTHING };
        rig.refresh_all(proof).await;
        assert!(promote(&rig.set).is_some());
        let new = rig.raid.disks().get(DiskId(6)).unwrap();
        // One of them is back, and the other one comes out of the parity that is left.
        rig.disks[rig.place(1, 2, 4).0].answer();
        rig.expect(1, 0, &cluster(10)).await;
        assert_eq!(new.counts().mismatches, 0, "it was not to have that row");
        rig.disks[rig.place(1, 0, 4).0].answer();
        let scrubbed = rig.raid.scrub_stripe(&rig.set, 1, contents(&known)).await.unwrap();
        assert_eq!((scrubbed.bad, scrubbed.repaired), (1, 1), "the row of the parity");
        assert_eq!(new.counts().mismatches, 0, "nor is it to blame now");
        let disks: Vec<usize> = rig.set.members().iter().map(|seat| seat.disk.0.into()).collect();
        for out in choices(6, 2) {
            out.iter().for_each(|at| _ = rig.raid.disks().remove(DiskId(disks[*at] as u16)));
            for column in 0..4 {
                rig.expect(1, column, &cluster(10 + column as u64)).await;
            }
            out.iter().for_each(|at| rig.bring_back(disks[*at]));
        }
    });
}

/// One of two columns is zeroes, and has rotted; so has the second parity, into zeroes. What a chunk holds
/// before it was given anything goes with that if the other column were wrong, which is right: it proves
/// nothing, and the parity is taken from who has it.
#[test]
fn what_a_new_chunk_holds_by_chance_is_not_what_a_parity_was() {
    on_a_core(async {
        let rig = Rig::new(Some(Level::Raid6), 4);
        let zeroes = || Buf::zeroed(CLUSTER_BYTES).unwrap().freeze();
        let columns = [(0, zeroes()), (1, blocks(&cluster(11)))];
        rig.raid.write_fresh(&rig.set, 1, &columns, FLAGS).await.unwrap();
        let (all, slot) = (rig.known(1, 10), rig.set.shape().slot(1, 0));
        let known = |column: usize, row: usize| match column {
            0 => Some(block_checksum(SET, slot, row, &[0; BLOCK_BYTES])),
            _ => all(column, row),
        };
        let (old, _) = rig.place(1, 2, 0);
        rig.corrupt(1, 0, 4);
        let (second, at) = rig.place(1, 3, 4);
        rig.disks[second].blank(at);
        rig.set.set_replacement(old, Seat { disk: DiskId(4), chunk: 1 }).unwrap();
        rig.refresh_all(Proof { crcs: &known, is_sure: true, ..Proof::NOTHING }).await;
        assert!(promote(&rig.set).is_some());
        rig.corrupt(1, 0, 4);
        let scrubbed = rig.raid.scrub_stripe(&rig.set, 1, contents(&known)).await.unwrap();
        assert_eq!((scrubbed.bad, scrubbed.repaired), (1, 1), "the second parity");
        let mismatches =
            |disk: usize| rig.raid.disks().get(DiskId(disk as u16)).unwrap().counts().mismatches;
        assert_eq!((mismatches(4), mismatches(second)), (0, 1));
    });
}

/// A column comes out of a parity whose disk was out for a moment and counts as lacking the stripe. Beside a third one
/// that joins again the parity was made anew without it, and it was lost with all disks back.
#[test]
fn what_too_few_disks_give_for_now_is_not_given_up() {
    on_a_core(async {
        let rig = Rig::new(Some(Level::Raid5), 3);
        rig.fill(1, &[0, 1], 10).await;
        let all = rig.known(1, 10);
        // Column 0 was freed, and nobody knows what it should be.
        let known = |column: usize, row: usize| (column == 1).then(|| all(column, row))?;
        (0..CLUSTER_BLOCKS).for_each(|row| _ = rig.corrupt(1, 1, row));
        let lacking = [1, 2].map(|strip| DiskId(rig.place(1, strip, 0).0 as u16));
        lacking.iter().for_each(|disk| rig.set.mark_stale(1, *disk));
        let changes = [change(0, 0, &[4711; CLUSTER_BLOCKS])];
        let planned = rig.raid.plan_update(&rig.set, 1, &changes, &known).await;
        assert_eq!(planned.unwrap_err(), ReadError::Unproved, "too little is there to tell");
        let anew = rig.raid.plan_anew(&rig.set, 1, &changes, 0b10, &known).await;
        assert_eq!(anew.unwrap_err(), ReadError::Lost);
        let proof = Proof { crcs: &known, is_sure: true, ..Proof::NOTHING };
        rig.refresh_twice(proof).await;
        rig.expect(1, 1, &cluster(11)).await;
    });
}

/// Nobody is known to have had all of the stripe before an update that was left in the middle: it is not given before
/// he has his part who is to get it, nor forgotten before he lacks nothing.
#[test]
fn what_nobody_was_sound_for_is_given_when_all_have_their_parts() {
    on_a_core(async {
        let rig = Rig::new(Some(Level::Raid5), 3);
        rig.fill(1, &[0, 1], 10).await;
        let all = rig.known(1, 10);
        let changes = [change(0, 4, &[4711])];
        let update = rig.raid.plan_update(&rig.set, 1, &changes, &all).await.unwrap();
        let [refuses, lacks] = [0, 1].map(|strip| rig.place(1, strip, 0).0);
        rig.set.mark_stale(1, DiskId(lacks as u16));
        rig.lose(&[refuses]);
        let done = rig.raid.apply(&rig.set, &update, FLAGS, &[]).await;
        assert_eq!(done, Err(WriteError::Half));
        let nobody = |_: DiskId| false;
        let waits = rig.raid.end_half(&rig.set, 1, &nobody).await;
        assert_eq!(waits, Err(ReadError::Lost), "who is to get it is out");
        rig.bring_back(refuses);
        assert_eq!(rig.raid.end_half(&rig.set, 1, &nobody).await, Ok(()));
        let set_of = |_| Some(Arc::clone(&rig.set));
        assert_eq!(rig.raid.given_halves(&set_of), [], "he lacks something yet");
        rig.raid.take_halves_back(DiskId(3), &|_| false);
        assert!(!rig.raid.has_half(rig.set.id(), 1), "a disk of others took nothing");
        rig.raid.take_halves_back(DiskId(refuses as u16), &|_| true);
        assert!(rig.raid.has_half(rig.set.id(), 1), "and may lose it again");
        let new = crcs(rig.set.shape().slot(1, 0), 4, &[4711])[0];
        let known = |column: usize, row: usize| {
            if (column, row) == (0, 4) { Some(new) } else { all(column, row) }
        };
        let proof = Proof { crcs: &known, is_sure: true, ..Proof::NOTHING };
        rig.refresh_twice(proof).await;
        assert_eq!(rig.set.stale(1), 0);
        rig.set.flush_begins();
        rig.set.flush_ends();
        assert_eq!(rig.raid.given_halves(&set_of), [(rig.set.id(), 1)]);
    });
}

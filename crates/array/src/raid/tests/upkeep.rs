//! Heal, rebuild, resync and scrub.

use std::task::{Context, Waker};

use block::BlockDevice;

use super::*;
use crate::raid::{Heal, Healed, Scrubbed, WriteError};

pub(super) fn redundant() -> impl Iterator<Item = (Option<Level>, u16)> {
    SETS.into_iter().filter(|set| set.0 != Some(Level::Raid0))
}

async fn filled(level: Option<Level>, members: u16) -> (Rig, Vec<usize>) {
    let rig = Rig::new(level, members);
    let columns: Vec<_> = (0..rig.set.shape().columns()).collect();
    for stripe in 0..STRIPES - 1 {
        rig.fill(stripe, &columns, u64::from(stripe) * 10).await;
    }
    (rig, columns)
}

async fn expect_all(rig: &Rig, columns: &[usize]) {
    for stripe in 0..STRIPES - 1 {
        for column in columns {
            rig.expect(stripe, *column, &cluster(u64::from(stripe) * 10 + *column as u64)).await;
        }
    }
}

fn heal_of(rig: &Rig, stripe: u32, block: usize, seed: u64) -> Heal {
    let (disk, _) = rig.place(stripe, 0, block);
    let slot = rig.set.shape().slot(stripe, 0);
    let crc = crcs(slot, 0, &cluster(seed))[block];
    Heal { set: SetId(5), slot, block, crc, disk: DiskId(disk as u16) }
}

#[test]
fn a_broken_block_is_rewritten_once() {
    on_a_core(async {
        for (level, members) in redundant() {
            let (rig, _) = filled(level, members).await;
            let heal = heal_of(&rig, 1, 7, 10);
            assert_eq!(rig.raid.heal(&rig.set, &heal).await, Ok(Healed::Fine));
            let disk = rig.corrupt(1, 0, 7);
            assert_eq!(rig.raid.heal(&rig.set, &heal).await, Ok(Healed::Healed));
            let (_, at) = rig.place(1, 0, 7);
            assert_eq!(rig.disks[disk].held(at), block(cluster(10)[7]));
            assert_eq!(rig.raid.heal(&rig.set, &heal).await, Ok(Healed::Fine));
            assert_eq!(rig.raid.disks().get(heal.disk).unwrap().counts().healed, 1);
            // A sector that cannot be read is given a new chance by being written.
            rig.disks[disk].refuse(at..at + 4096);
            assert_eq!(rig.raid.heal(&rig.set, &heal).await, Ok(Healed::Healed));
        }
    });
}

#[test]
fn a_heal_that_came_too_late_changes_nothing() {
    on_a_core(async {
        for (level, members) in redundant() {
            let (rig, columns) = filled(level, members).await;
            let old = heal_of(&rig, 1, 7, 999);
            assert_eq!(rig.raid.heal(&rig.set, &old).await, Ok(Healed::NoSource));
            rig.set.mark_stale(1, old.disk);
            let heal = heal_of(&rig, 1, 7, 10);
            assert_eq!(rig.raid.heal(&rig.set, &heal).await, Ok(Healed::NotWritten));
            expect_all(&rig, &columns).await;
        }
    });
}

/// Who missed a change matches the checksum from before it: that proves nothing.
#[test]
fn what_a_disk_missed_does_not_come_back_from_it() {
    on_a_core(async {
        for (level, members) in redundant() {
            let (rig, _) = filled(level, members).await;
            let old = rig.known(1, 10);
            let newest = [change(0, 4, &[4711])];
            let has_parity = rig.set.shape().parity() > 0;
            // Once the holder of the data is away, once somebody else.
            for away in 0..usize::from(members) {
                let rig = filled(level, members).await.0;
                rig.raid.disks().remove(DiskId(away as u16));
                if has_parity {
                    let update = rig.raid.plan_update(&rig.set, 1, &newest, &old).await.unwrap();
                    rig.raid.apply(&rig.set, &update, FLAGS, &[]).await.unwrap();
                } else {
                    let slot = rig.set.shape().slot(1, 0);
                    rig.raid.write_slot(&rig.set, slot, 4, blocks(&[4711]), FLAGS).await.unwrap();
                }
                rig.bring_back(away);
                for disk in 0..usize::from(members) {
                    let heal = Heal { disk: DiskId(disk as u16), ..heal_of(&rig, 1, 4, 10) };
                    let healed = rig.raid.heal(&rig.set, &heal).await.unwrap();
                    assert!(matches!(healed, Healed::NoSource | Healed::NotWritten), "{level:?}");
                }
                let proof = Proof { crcs: &old, is_sure: false, ..Proof::NOTHING };
                let done = rig.raid.refresh_stripe(&rig.set, 1, proof).await.unwrap();
                let is_known = done.left == 0 && done.unproved.is_empty();
                assert!(is_known || done.unproved == [(0, 4)], "{level:?} {away} {done:?}");
                let slot = rig.set.shape().slot(1, 0);
                assert!(rig.read(slot, 4, &[4711]).await.is_ok(), "{level:?} {away}");
                let all = |column: usize, row: usize| match (column, row) {
                    (0, 4) => Some(crcs(slot, 4, &[4711])[0]),
                    other => old(other.0, other.1),
                };
                let proof = Proof { crcs: &all, is_sure: true, ..Proof::NOTHING };
                let done = rig.raid.refresh_stripe(&rig.set, 1, proof).await.unwrap();
                assert_eq!((done.left, done.unproved), (0, vec![]), "{level:?} {away}");
                for other in (0..usize::from(members)).filter(|other| *other != away) {
                    rig.lose(&[other]);
                    assert!(rig.read(slot, 4, &[4711]).await.is_ok(), "{level:?} {away} {other}");
                    rig.bring_back(other);
                }
            }
        }
    });
}

#[test]
fn a_heal_waits_for_a_write_to_the_same_stripe() {
    on_a_core(async {
        let rig = Rig::new(Some(Level::Raid1), 2);
        rig.fill(0, &[0], 1).await;
        rig.disks[1].slow_down();
        let mut write = Box::pin(rig.raid.write_slot(&rig.set, 0, 0, blocks(&cluster(2)), FLAGS));
        let mut cx = std::task::Context::from_waker(std::task::Waker::noop());
        assert!(write.as_mut().poll(&mut cx).is_pending());
        // Disk 0 holds the new data, disk 1 the old; the heal must not undo the write.
        let heal = heal_of(&rig, 0, 3, 1);
        let mut healing = Box::pin(rig.raid.heal(&rig.set, &heal));
        assert!(healing.as_mut().poll(&mut cx).is_pending());
        write.await.unwrap();
        assert_eq!(healing.await, Ok(Healed::NoSource));
        rig.expect(0, 0, &cluster(2)).await;
    });
}

#[test]
fn a_lost_disk_is_rebuilt_on_another_while_writes_go_on() {
    on_a_core(async {
        for (level, members) in redundant() {
            for lost in 0..usize::from(members) {
                let (rig, columns) = filled(level, members).await;
                rig.raid.disks().remove(DiskId(lost as u16));
                let seat = Seat { disk: DiskId(members), chunk: 1 };
                rig.set.set_replacement(lost, seat).unwrap();
                rig.raid.refresh_stripe(&rig.set, 0, Proof::NOTHING).await.unwrap();
                rig.fill(0, &columns, 0).await;
                rig.fill(2, &columns, 20).await;
                assert_eq!(promote(&rig.set), None);
                // It goes on where it was after a restart.
                let record = rig.set.record();
                let rig = rig.restarted(record);
                rig.raid.disks().remove(DiskId(lost as u16));
                for stripe in 0..STRIPES {
                    rig.raid.refresh_stripe(&rig.set, stripe, Proof::NOTHING).await.unwrap();
                }
                rig.set.flush_begins();
                rig.set.flush_ends();
                assert!(promote(&rig.set).is_some());
                for away in choices(rig.members(), rig.losses_max()) {
                    let disks: Vec<_> = away
                        .iter()
                        .map(|member| usize::from(rig.set.members()[*member].disk.0))
                        .collect();
                    rig.lose(&disks);
                    expect_all(&rig, &columns).await;
                    disks.iter().for_each(|disk| rig.disks[*disk].revive());
                }
            }
        }
    });
}

#[test]
fn a_disk_is_copied_out_before_it_dies_even_without_redundancy() {
    on_a_core(async {
        for (level, members) in SETS {
            let (rig, columns) = filled(level, members).await;
            let seat = Seat { disk: DiskId(members), chunk: 0 };
            rig.set.set_replacement(0, seat).unwrap();
            let stripes = rig.set.stale_stripes();
            assert_eq!(stripes.len(), STRIPES as usize);
            for stripe in stripes {
                let done = rig.raid.refresh_stripe(&rig.set, stripe, Proof::NOTHING).await.unwrap();
                assert_eq!((done.left, done.unproved), (0, vec![]));
            }
            rig.set.flush_begins();
            rig.set.flush_ends();
            assert_eq!(promote(&rig.set).unwrap().disk, DiskId(0));
            rig.raid.disks().remove(DiskId(0));
            expect_all(&rig, &columns).await;
        }
    });
}

#[test]
fn what_only_a_replacement_took_is_read_from_it() {
    on_a_core(async {
        let (rig, _) = filled(None, 3).await;
        rig.set.set_replacement(1, Seat { disk: DiskId(3), chunk: 0 }).unwrap();
        rig.raid.refresh_stripe(&rig.set, 0, Proof::NOTHING).await.unwrap();
        rig.lose(&[0, 1, 2]);
        let page = blocks(&[77]);
        rig.raid.write_slot(&rig.set, 0, 5, page, FLAGS).await.unwrap();
        (0..3).for_each(|disk| rig.bring_back(disk));
        assert_eq!(rig.set.seats().len(), 4);
        for seat in 0..4 {
            let copy = rig.raid.read_copy(&rig.set, 0, 5..6, (seat, false)).await;
            match seat {
                3 => assert_eq!(copy.unwrap().as_slice(), Some(&block(77)[..])),
                _ => assert_eq!(copy.unwrap_err(), ReadError::Lost, "seat {seat}"),
            }
        }
    });
}

#[test]
fn a_replacement_that_fails_stays_stale() {
    on_a_core(async {
        let (rig, columns) = filled(Some(Level::Raid5), 3).await;
        rig.set.set_replacement(1, Seat { disk: DiskId(3), chunk: 0 }).unwrap();
        rig.lose(&[3]);
        let done = rig.raid.refresh_stripe(&rig.set, 0, Proof::NOTHING).await.unwrap();
        assert_eq!(done.left, 1);
        assert_eq!(rig.heard(), [DiskId(3)]);
        assert_eq!(promote(&rig.set), None);
        assert!(rig.set.drop_replacement());
        let _ = rig.set.record();
        assert!(rig.set.recorded().is_some());
        assert!(rig.set.stale_stripes().is_empty());
        expect_all(&rig, &columns).await;
    });
}

#[test]
fn a_proof_of_what_was_there_before_restores_nothing() {
    on_a_core(async {
        for (level, members) in redundant() {
            let (rig, columns) = filled(level, members).await;
            let member = usize::from(members) - 1;
            rig.raid.disks().remove(DiskId(members - 1));
            appoint(&rig, member);
            let known = rig.known(1, 10);
            let asked = std::cell::Cell::new(0);
            let is_current = || {
                asked.set(asked.get() + 1);
                let lock = std::pin::pin!(rig.raid.locks.lock(&rig.set, 1));
                let poll = lock.poll(&mut Context::from_waker(Waker::noop()));
                assert!(poll.is_pending(), "nobody can write it after the answer");
                false
            };
            let proof =
                Proof { crcs: &known, is_sure: true, is_current: &is_current, ..Proof::NOTHING };
            let done = rig.raid.refresh_stripe(&rig.set, 1, proof).await.unwrap();
            assert!(done.is_outdated && done.written_bytes == 0, "{level:?} {done:?}");
            let run = |_: u32, column: usize, row: usize| known(column, row);
            let is_first = |stripe: u32| stripe == 0;
            assert!(!rig.raid.refresh_run(&rig.set, 0..2, &run, &is_first).await, "{level:?}");
            assert!(
                rig.set.stale(0) != 0 && rig.set.stale(1) != 0,
                "{level:?}: nothing is restored"
            );
            assert_eq!(asked.get(), 1);
            expect_all(&rig, &columns).await;
        }
    });
}

#[test]
fn what_cannot_be_read_is_lost_alone_in_a_rebuild() {
    on_a_core(async {
        let (rig, _) = filled(Some(Level::Raid1), 2).await;
        let at = rig.set.byte_at(rig.set.members()[0], 1, 4);
        rig.disks[0].refuse(at..at + 4096);
        rig.raid.disks().remove(DiskId(1));
        rig.set.set_replacement(1, Seat { disk: DiskId(2), chunk: 1 }).unwrap();
        let known = rig.known(1, 10);
        let proof = Proof { crcs: &known, is_sure: true, ..Proof::NOTHING };
        let done = rig.raid.refresh_stripe(&rig.set, 1, proof).await.unwrap();
        assert_eq!((done.unproved, done.written_bytes), (vec![(0, 4)], 15 * 4096));
        rig.raid.disks().remove(DiskId(0));
        let read = rig.read(1, 3, &cluster(10)[3..6]).await;
        assert_eq!(read.unwrap_err(), ReadError::Damaged { block: 4 });
        assert!(rig.read(1, 5, &cluster(10)[5..]).await.is_ok());
        // With no disk left there is nothing to rebuild from, and nothing is taken for done.
        let lost = rig.raid.refresh_stripe(&rig.set, 2, Proof::NOTHING).await;
        assert_eq!(lost.unwrap_err(), ReadError::Lost);
        assert!(rig.set.stale(2) != 0);
    });
}

#[test]
fn a_scrub_finds_and_repairs_every_strip() {
    on_a_core(async {
        for (level, members) in redundant() {
            let (rig, columns) = filled(level, members).await;
            let known = rig.known(1, 10);
            let clean = rig.raid.scrub_stripe(&rig.set, 1, contents(&known)).await.unwrap();
            let shape = rig.set.shape();
            let (copies, rows) = if shape.parity() == 0 { (shape.members(), 0) } else { (1, 16) };
            let verified = (columns.len() * copies * CLUSTER_BLOCKS) as u32;
            let expected = Scrubbed { verified, parity_rows: rows, ..Scrubbed::default() };
            assert_eq!(clean, expected);
            for member in 0..rig.members() {
                let seat = rig.set.members()[member];
                let disk = &rig.disks[usize::from(seat.disk.0)];
                disk.flip(rig.set.byte_at(seat, 1, member));
                let at = rig.set.byte_at(seat, 1, 15);
                disk.refuse(at..at + 4096);
                let found = rig.raid.scrub_stripe(&rig.set, 1, contents(&known)).await.unwrap();
                assert_eq!((found.bad, found.repaired), (2, 2), "{level:?} member {member}");
                assert!(found.doubted.is_empty());
                let again = rig.raid.scrub_stripe(&rig.set, 1, contents(&known)).await.unwrap();
                assert_eq!(again, expected);
            }
            let empty =
                rig.raid.scrub_stripe(&rig.set, STRIPES - 1, contents(NO_CRCS)).await.unwrap();
            assert_eq!(empty, Scrubbed::default());
        }
    });
}

/// Simulation: rot 2000373. What was wrong on a disk matters no more once an operator gave it up, whenever
/// that is, and is no finding of a check.
#[test]
fn what_a_disk_that_is_given_up_does_not_take_is_no_failed_repair() {
    on_a_core(async {
        for (level, members) in redundant() {
            let mut in_between = 0;
            for turns in 0..40 {
                let (rig, _) = filled(level, members).await;
                let known = rig.known(1, 10);
                let member = rig.members() - 1;
                let seat = rig.set.members()[member];
                rig.disks.iter().for_each(TestDisk::slow_down);
                rig.disks[usize::from(seat.disk.0)].flip(rig.set.byte_at(seat, 1, 4));
                let scrub = rig.raid.scrub_stripe(&rig.set, 1, contents(&known));
                let give_up = async {
                    for _ in 0..turns {
                        turn().await;
                    }
                    rig.raid.disks().revoke(seat.disk);
                };
                let (found, ()) = futures_util::future::join(scrub, give_up).await;
                let found = found.unwrap();
                assert_eq!(found.refused, 0, "{level:?} after {turns} turns: {found:?}");
                in_between += u32::from(found.bad > found.repaired);
            }
            assert!(in_between > 0, "{level:?}: the disk never went between the two");
        }
    });
}

#[test]
fn a_scrub_says_what_is_beyond_repair() {
    on_a_core(async {
        let (rig, _) = filled(Some(Level::Raid5), 3).await;
        let known = rig.known(1, 10);
        rig.corrupt(1, 0, 3);
        rig.corrupt(1, 1, 3);
        rig.corrupt(1, 1, 5);
        let found = rig.raid.scrub_stripe(&rig.set, 1, contents(&known)).await.unwrap();
        assert_eq!(found.doubted, [(0, 3), (1, 3)]);
        assert_eq!((found.bad, found.repaired), (1, 1));
        rig.raid.disks().remove(DiskId(0));
        rig.raid.disks().remove(DiskId(1));
        let lost = rig.raid.scrub_stripe(&rig.set, 1, contents(&known)).await;
        assert_eq!(lost.unwrap_err(), ReadError::Lost);
    });
}

#[test]
fn refresh_and_heal_say_when_it_is_not_the_moment() {
    on_a_core(async {
        let rig = Rig::new(Some(Level::Raid1), 2);
        rig.fill(0, &[0], 1).await;
        let heal = heal_of(&rig, 0, 3, 1);
        rig.disks[0].be_busy(1);
        let later = WriteError::Later(BlockError::Busy);
        assert_eq!(rig.raid.heal(&rig.set, &heal).await, Err(later));
        rig.set.mark_stale(0, DiskId(1));
        rig.disks[0].be_busy(1);
        let refreshed = rig.raid.refresh_stripe(&rig.set, 0, Proof::NOTHING).await;
        assert_eq!(refreshed.unwrap_err(), ReadError::Later(BlockError::Busy));
        assert_eq!(rig.set.stale(0), 2);
    });
}

/// What a rebuild must not do: put what is wrong in the place of what is right.
#[test]
fn a_rebuild_takes_nothing_that_is_not_proved() {
    on_a_core(async {
        for ((level, members), is_gone) in redundant().flat_map(|set| [(set, false), (set, true)]) {
            for rotten in 0..usize::from(members) {
                let (rig, columns) = filled(level, members).await;
                if is_gone && rig.losses_max() < 2 {
                    continue;
                }
                let seat = rig.set.members()[rotten];
                for stripe in 0..STRIPES - 1 {
                    let block = stripe as usize * 5;
                    rig.disks[rotten].flip(rig.set.byte_at(seat, stripe, block));
                }
                // The operator replaces another disk, which is well, and then the rotten one goes.
                let healthy = (rotten + 1) % usize::from(members);
                rig.set.set_replacement(healthy, Seat { disk: DiskId(members), chunk: 1 }).unwrap();
                if is_gone {
                    rig.raid.disks().remove(DiskId(healthy as u16));
                }
                let known = |stripe: u32, column, row| {
                    rig.known(stripe, u64::from(stripe) * 10)(column, row)
                };
                for stripe in 0..STRIPES - 1 {
                    rig.raid.refresh_run(&rig.set, stripe..stripe + 1, &known, &|_| true).await;
                }
                for stripe in 0..STRIPES {
                    let is_filled = stripe < STRIPES - 1;
                    let crc_of = |column: usize, row: usize| {
                        is_filled.then(|| known(stripe, column, row))?
                    };
                    let proof = Proof { crcs: &crc_of, is_sure: false, ..Proof::NOTHING };
                    let done = rig.raid.refresh_stripe(&rig.set, stripe, proof).await.unwrap();
                    assert_eq!((done.left, done.unproved), (0, vec![]), "{level:?} {rotten}");
                    for heal in done.heals {
                        assert_eq!(usize::from(heal.disk.0), rotten);
                    }
                }
                rig.set.flush_begins();
                rig.set.flush_ends();
                assert!(promote(&rig.set).is_some());
                rig.raid.disks().remove(DiskId(rotten as u16));
                expect_all(&rig, &columns).await;
                for other in rig.set.members().iter().map(|seat| usize::from(seat.disk.0)) {
                    if is_gone && other != rotten {
                        rig.lose(&[other]);
                        expect_all(&rig, &columns).await;
                        rig.bring_back(other);
                    }
                }
            }
        }
    });
}

#[test]
fn of_two_parities_the_one_that_rotted_does_not_decide_what_a_freed_column_gets() {
    on_a_core(async {
        for parity in [2, 3] {
            let (rig, _) = filled(Some(Level::Raid6), 4).await;
            let all = rig.known(1, 10);
            let known = |column: usize, row: usize| (column == 0).then(|| all(column, row))?;
            let (member, _) = rig.place(1, 1, 0);
            rig.corrupt(1, parity, 6);
            appoint(&rig, member);
            let run = |_: u32, column: usize, row: usize| known(column, row);
            assert!(
                !rig.raid.refresh_run(&rig.set, 1..2, &run, &|_| true).await,
                "nothing proves it"
            );
            replace(&rig, &known).await;
            // The parity that is right still gives the column that lives, whoever goes.
            rig.lose(&[rig.place(1, 0, 0).0, rig.place(1, parity, 0).0]);
            rig.expect(1, 0, &cluster(10)).await;
        }
    });
}

/// Begins to replace a member by the disk that is left.
fn appoint(rig: &Rig, member: usize) {
    let spare = DiskId(rig.disks.len() as u16 - 1);
    rig.set.set_replacement(member, Seat { disk: spare, chunk: 1 }).unwrap();
}

/// Gives the replacement stripe 1, knowing what `known` says, and the others, and lets it take over.
async fn replace(rig: &Rig, known: Crcs<'_>) {
    let proof = Proof { crcs: known, is_sure: true, ..Proof::NOTHING };
    rig.raid.refresh_stripe(&rig.set, 1, proof).await.unwrap();
    for stripe in [0, 2, 3] {
        rig.raid.refresh_stripe(&rig.set, stripe, Proof::NOTHING).await.unwrap();
    }
    rig.set.flush_begins();
    rig.set.flush_ends();
    assert!(promote(&rig.set).is_some());
}

#[test]
fn rot_in_a_freed_column_does_not_part_the_two_parities() {
    on_a_core(async {
        // Whoever is replaced: another freed column, or a parity.
        for strip in [0, 1, 4, 5] {
            let (rig, _) = filled(Some(Level::Raid6), 6).await;
            let all = rig.known(1, 10);
            let known = |column: usize, row: usize| (column == 3).then(|| all(column, row))?;
            (0..CLUSTER_BLOCKS).for_each(|row| _ = rig.corrupt(1, 2, row));
            appoint(&rig, rig.place(1, strip, 0).0);
            replace(&rig, &known).await;
            // Two disks gone, one of them the one that rotted: what lives comes from both parities.
            rig.lose(&[rig.place(1, 2, 0).0, rig.place(1, 3, 0).0]);
            rig.expect(1, 3, &cluster(10 + 3)).await;
        }
    });
}

#[test]
fn a_parity_that_nobody_had_does_not_part_from_the_other_where_a_freed_column_rotted() {
    on_a_core(async {
        for parity in [2, 3] {
            let (rig, _) = filled(Some(Level::Raid6), 4).await;
            let all = rig.known(1, 10);
            let known = |column: usize, row: usize| (column == 0).then(|| all(column, row))?;
            (0..CLUSTER_BLOCKS).for_each(|row| _ = rig.corrupt(1, 1, row));
            // With its disk goes what would have told that the freed column is odd.
            let (gone, _) = rig.place(1, parity, 0);
            rig.raid.disks().remove(DiskId(gone as u16));
            appoint(&rig, gone);
            replace(&rig, &known).await;
            rig.lose(&[rig.place(1, 0, 0).0, rig.place(1, 1, 0).0]);
            rig.expect(1, 0, &cluster(10)).await;
        }
    });
}

#[test]
fn a_parity_that_alone_gives_a_block_is_not_made_anew_for_another_row() {
    on_a_core(async {
        // Column 1 is free in row 3 alone, and there the first parity has rotted; in row 9 a block
        // that lives has, and the other parity.
        let (rig, _) = filled(Some(Level::Raid6), 5).await;
        let all = rig.known(1, 10);
        let known =
            |column: usize, row: usize| (row != 3 || column != 1).then(|| all(column, row))?;
        rig.corrupt(1, 3, 3);
        rig.corrupt(1, 0, 9);
        rig.corrupt(1, 4, 9);
        let (disk, at) = rig.place(1, 3, 0);
        let parity = async || {
            let mut bytes = vec![0; CLUSTER_BYTES];
            rig.disks[disk].read(at, CLUSTER_BYTES).await.unwrap().copy_to(0, &mut bytes);
            bytes
        };
        let before = parity().await;
        appoint(&rig, rig.place(1, 2, 0).0);
        replace(&rig, &known).await;
        assert!(parity().await == before, "as long as it is written a host could not read row 9");
        rig.expect(1, 0, &cluster(10)).await;
    });
}

#[test]
fn what_nobody_owns_and_nobody_can_read_does_not_spoil_a_rebuild() {
    on_a_core(async {
        for (level, members) in [(Level::Raid5, 3), (Level::Raid6, 4)] {
            // Column 1 is free, and has a bad sector when the parity is rebuilt.
            let (rig, columns) = filled(Some(level), members).await;
            let all = rig.known(1, 10);
            let known = |column: usize, row: usize| (column == 0).then(|| all(column, row))?;
            let (free, at) = rig.place(1, 1, 4);
            rig.disks[free].refuse(at..at + 4096);
            let (parity, _) = rig.place(1, columns.len(), 0);
            rig.raid.disks().remove(DiskId(parity as u16));
            if level == Level::Raid6 {
                rig.raid.disks().remove(DiskId(rig.place(1, columns.len() + 1, 0).0 as u16));
            }
            appoint(&rig, parity);
            replace(&rig, &known).await;
            rig.lose(&[rig.place(1, 0, 0).0]);
            rig.expect(1, 0, &cluster(10)).await;
        }
    });
}

#[test]
fn a_parity_that_rotted_does_not_follow_to_the_disk_that_replaces_its_own() {
    on_a_core(async {
        for (level, members) in [(Level::Raid5, 3), (Level::Raid6, 4)] {
            let (rig, columns) = filled(Some(level), members).await;
            let (member, _) = rig.place(1, columns.len(), 0);
            (0..CLUSTER_BLOCKS).for_each(|row| _ = rig.corrupt(1, columns.len(), row));
            rig.set.set_replacement(member, Seat { disk: DiskId(members), chunk: 1 }).unwrap();
            let known = rig.known(1, 10);
            let proof = Proof { crcs: &known, is_sure: true, ..Proof::NOTHING };
            rig.raid.refresh_stripe(&rig.set, 1, proof).await.unwrap();
            // Whoever changes a block knows nothing of the other columns.
            let own = |column: usize, row: usize| (column == 0).then(|| known(column, row))?;
            let mut seeds = cluster(10);
            for row in 0..8 {
                seeds[row] = 4711 + row as u64;
                let changes = [change(0, row, &seeds[row..=row])];
                let update = rig.raid.plan_update(&rig.set, 1, &changes, &own).await.unwrap();
                rig.raid.apply(&rig.set, &update, FLAGS, &[]).await.unwrap();
            }
            for stripe in [0, 2, 3] {
                rig.raid.refresh_stripe(&rig.set, stripe, Proof::NOTHING).await.unwrap();
            }
            rig.set.flush_begins();
            rig.set.flush_ends();
            assert!(promote(&rig.set).is_some());
            let mut gone = vec![rig.place(1, 0, 0).0];
            // Of two parities the other one is gone too.
            gone.extend((level == Level::Raid6).then(|| rig.place(1, columns.len() + 1, 0).0));
            rig.lose(&gone);
            rig.expect(1, 0, &seeds).await;
        }
    });
}

#[test]
fn a_parity_that_rotted_does_not_follow_to_a_disk_that_comes_between_plan_and_update() {
    on_a_core(async {
        // It may have got the stripe before the update comes, which is done at once, or after a crash.
        for (is_first, is_cut_off) in [(false, false), (true, false), (true, true)] {
            let (rig, columns) = filled(Some(Level::Raid5), 3).await;
            let (member, _) = rig.place(1, columns.len(), 0);
            (0..CLUSTER_BLOCKS).for_each(|row| _ = rig.corrupt(1, columns.len(), row));
            let known = rig.known(1, 10);
            let own = |column: usize, row: usize| (column == 0).then(|| known(column, row))?;
            let changes = [change(0, 0, &cluster(4711))];
            let update = rig.raid.plan_update(&rig.set, 1, &changes, &own).await.unwrap();
            rig.set.set_replacement(member, Seat { disk: DiskId(3), chunk: 1 }).unwrap();
            if is_first {
                let proof = Proof { crcs: &known, is_sure: true, ..Proof::NOTHING };
                rig.raid.refresh_stripe(&rig.set, 1, proof).await.unwrap();
            }
            match is_cut_off {
                true => rig.raid.apply_again(&rig.set, &update, FLAGS).await.unwrap(),
                false => rig.raid.apply(&rig.set, &update, FLAGS, &[]).await.unwrap(),
            }
            let slot = rig.set.shape().slot(1, 0);
            let new = crcs(slot, 0, &cluster(4711));
            let all = |column: usize, row: usize| {
                if column == 0 { Some(new[row]) } else { known(column, row) }
            };
            let proof = Proof { crcs: &all, is_sure: true, ..Proof::NOTHING };
            for stripe in [1, 0, 2, 3] {
                let proof = if stripe == 1 { proof } else { Proof::NOTHING };
                rig.raid.refresh_stripe(&rig.set, stripe, proof).await.unwrap();
            }
            rig.set.flush_begins();
            rig.set.flush_ends();
            assert!(promote(&rig.set).is_some());
            let scrubbed = rig.raid.scrub_stripe(&rig.set, 1, contents(&all)).await.unwrap();
            assert_eq!((scrubbed.bad, scrubbed.parity_rows), (0, 16), "{scrubbed:?}");
        }
    });
}

#[test]
fn what_does_not_match_is_left_out_until_it_is_sure() {
    on_a_core(async {
        let (rig, _) = filled(Some(Level::Raid5), 3).await;
        let (away, _) = rig.place(1, 0, 0);
        rig.raid.disks().remove(DiskId(away as u16));
        rig.set.set_replacement(away, Seat { disk: DiskId(3), chunk: 1 }).unwrap();
        rig.corrupt(1, 1, 4);
        let known = rig.known(1, 10);
        let mut proof = Proof { crcs: &known, is_sure: false, ..Proof::NOTHING };
        let done = rig.raid.refresh_stripe(&rig.set, 1, proof).await.unwrap();
        assert_eq!((done.left, done.unproved, done.written_bytes), (1, vec![(0, 4)], 0));
        proof.is_sure = true;
        let done = rig.raid.refresh_stripe(&rig.set, 1, proof).await.unwrap();
        assert_eq!((done.left, done.unproved, done.written_bytes), (0, vec![(0, 4)], 15 * 4096));
        let slot = rig.set.shape().slot(1, 0);
        let read = rig.read(slot, 0, &cluster(10)).await;
        assert_eq!(read.unwrap_err(), ReadError::Damaged { block: 4 });
        assert!(rig.read(slot, 5, &cluster(10)[5..]).await.is_ok());
        let rotten = rig.raid.disks().all();
        assert!(rotten.iter().all(|disk| disk.counts().mismatches == 0), "nothing is proved");
    });
}

#[test]
fn a_scrub_of_rot_in_freed_columns_accuses_nobody() {
    on_a_core(async {
        let (rig, _) = filled(Some(Level::Raid5), 4).await;
        let all = rig.known(1, 10);
        let known = |column: usize, row: usize| (column != 1).then(|| all(column, row))?;
        (0..CLUSTER_BLOCKS).for_each(|row| _ = rig.corrupt(1, 1, row));
        let taken =
            Contents { crcs: &known, is_taken: &|column| column == 1, is_current: &|| true };
        let found = rig.raid.scrub_stripe(&rig.set, 1, taken).await.unwrap();
        assert_eq!(found.bad, 0, "it came there a moment ago: nothing is known of it");
        let found = rig.raid.scrub_stripe(&rig.set, 1, contents(&known)).await.unwrap();
        assert_eq!((found.bad, found.repaired), (16, 16), "the parity agrees with it now");
        for disk in rig.raid.disks().all() {
            assert_eq!(disk.counts().mismatches, 0, "{}", disk.name());
        }
        rig.lose(&[rig.place(1, 0, 0).0]);
        rig.expect(1, 0, &cluster(10)).await;
    });
}

#[test]
fn a_rebuild_beside_a_checkpoint_loses_no_block_of_others() {
    on_a_core(async {
        for (level, members) in [(Level::Raid5, 3), (Level::Raid6, 5)] {
            let (rig, columns) = filled(Some(level), members).await;
            let (away, _) = rig.place(1, 0, 0);
            rig.raid.disks().remove(DiskId(away as u16));
            rig.set.set_replacement(away, Seat { disk: DiskId(members), chunk: 1 }).unwrap();
            // Column 1 has changed in place, and the maps do not know it yet.
            let all = rig.known(1, 10);
            let changes = [change(1, 4, &[4711])];
            let update = rig.raid.plan_update(&rig.set, 1, &changes, &all).await.unwrap();
            rig.raid.apply(&rig.set, &update, FLAGS, &[]).await.unwrap();
            let proof = Proof { crcs: &all, is_sure: true, ..Proof::NOTHING };
            let done = rig.raid.refresh_stripe(&rig.set, 1, proof).await.unwrap();
            assert_eq!((done.left, done.unproved), (0, vec![]), "{level}");
            assert!(columns.len() > 1);
            rig.expect(1, 0, &cluster(10)).await;
        }
    });
}

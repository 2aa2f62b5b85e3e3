//! Changes of live parity stripes: torn, degraded, and both.

use super::*;

use crate::raid::redo;

/// Parity levels with two columns at least.
const PARITY_SETS: [(Option<Level>, u16); 4] = [
    (Some(Level::Raid5), 3),
    (Some(Level::Raid5), 5),
    (Some(Level::Raid6), 4),
    (Some(Level::Raid6), 6),
];

/// A stripe with its last column unwritten, changes to it, and what it holds afterwards.
struct Story {
    old: Vec<usize>,
    changes: Vec<Change>,
    after: Vec<[u64; CLUSTER_BLOCKS]>,
}

fn story(columns: usize) -> Story {
    let last = columns - 1;
    let mut after: Vec<_> = (0..columns).map(|c| cluster(1 + c as u64)).collect();
    after[0][2..5].copy_from_slice(&[901, 902, 903]);
    after[last] = cluster(77);
    let changes = vec![change(0, 2, &[901, 902, 903]), change(last, 0, &cluster(77))];
    Story { old: (0..last).collect(), changes, after }
}

async fn expect_all(rig: &Rig, after: &[[u64; CLUSTER_BLOCKS]], tag: &str) {
    for (column, seeds) in after.iter().enumerate() {
        let slot = rig.set.shape().slot(1, column);
        let read = rig.read(slot, 0, seeds).await;
        assert!(read.is_ok(), "{tag}: column {column}: {read:?}");
    }
}

#[test]
fn a_torn_update_is_repaired_by_doing_it_again_with_any_disks_gone() {
    on_a_core(async {
        let array = [3; 16];
        for (level, members) in PARITY_SETS {
            let max = level.unwrap().losses_max();
            for away in choices(members.into(), max) {
                for writes in 0.. {
                    let rig = Rig::new(level, members);
                    let Story { old, changes, after } = story(rig.set.shape().columns());
                    rig.fill(1, &old, 1).await;
                    let update = rig.plan(1, &changes).await;
                    let wave = redo::Wave {
                        checkpoint: 8,
                        wave: 1,
                        updates: vec![update.clone()],
                        halves: Vec::new(),
                        since: 0,
                    };
                    let wave = redo::encode(&array, &wave).unwrap().freeze();
                    let record = rig.set.record();
                    rig.fuse.cut_after(writes);
                    let _ = rig.raid.apply(&rig.set, &update, FLAGS, &[]).await;
                    let is_cut = rig.fuse.is_blown();
                    let rig = rig.restarted(record);
                    rig.lose(&away);
                    let wave = redo::decode(&array, &wave).unwrap();
                    rig.raid.apply(&rig.set, &wave.updates[0], FLAGS, &[]).await.unwrap();
                    let tag = format!("{level:?} of {members}, cut at {writes}, {away:?} away");
                    expect_all(&rig, &after, &tag).await;
                    if !is_cut {
                        assert!(writes > 3, "every strip that changes is written");
                        break;
                    }
                }
            }
        }
    });
}

#[test]
fn a_disk_that_dies_inside_an_update_costs_nothing() {
    on_a_core(async {
        for (level, members) in PARITY_SETS {
            let max = level.unwrap().losses_max();
            for victim in 0..usize::from(members) {
                for writes in 0.. {
                    let rig = Rig::new(level, members);
                    let Story { old, changes, after } = story(rig.set.shape().columns());
                    rig.fill(1, &old, 1).await;
                    let update = rig.plan(1, &changes).await;
                    rig.fuse.kill_after(writes, &rig.disks[victim]);
                    rig.raid.apply(&rig.set, &update, FLAGS, &[]).await.unwrap();
                    let is_over = !rig.fuse.is_blown();
                    rig.lose(&[victim]);
                    let tag = format!("{level:?} of {members}, {victim} died at {writes}");
                    expect_all(&rig, &after, &tag).await;
                    // Its old contents are back, and as many others go as the level allows.
                    rig.bring_back(victim);
                    expect_all(&rig, &after, &tag).await;
                    if max == 2 {
                        rig.lose(&[(victim + 1) % usize::from(members)]);
                        expect_all(&rig, &after, &tag).await;
                    }
                    if is_over {
                        break;
                    }
                }
            }
        }
    });
}

#[test]
fn updates_with_disks_away_reach_them_when_they_are_back() {
    on_a_core(async {
        for (level, members) in PARITY_SETS {
            let max = level.unwrap().losses_max();
            for away in choices(members.into(), max) {
                let rig = Rig::new(level, members);
                let Story { old, changes, after } = story(rig.set.shape().columns());
                rig.fill(1, &old, 1).await;
                rig.lose(&away);
                let update = rig.plan(1, &changes).await;
                rig.raid.apply(&rig.set, &update, FLAGS, &[]).await.unwrap();
                let tag = format!("{level:?} of {members}, {away:?} away");
                expect_all(&rig, &after, &tag).await;
                away.iter().for_each(|disk| rig.bring_back(*disk));
                expect_all(&rig, &after, &tag).await;
                for stripe in rig.set.stale_stripes() {
                    let done =
                        rig.raid.refresh_stripe(&rig.set, stripe, Proof::NOTHING).await.unwrap();
                    assert_eq!((done.left, done.unproved), (0, vec![]));
                }
                assert!(rig.set.stale_stripes().is_empty());
                for gone in choices(members.into(), max) {
                    rig.lose(&gone);
                    expect_all(&rig, &after, &format!("{tag}, then {gone:?}")).await;
                    gone.iter().for_each(|disk| rig.disks[*disk].revive());
                }
            }
        }
    });
}

#[test]
fn a_small_change_reads_only_what_changes_and_the_parity() {
    on_a_core(async {
        let rig = Rig::new(Some(Level::Raid6), 6);
        rig.fill(1, &[0, 1, 2, 3], 1).await;
        let update = rig.plan(1, &[change(1, 3, &[500])]).await;
        assert_eq!(rig.disks.iter().map(TestDisk::reads).sum::<u64>(), 3);
        let mut puts: Vec<_> =
            update.puts.iter().map(|p| (p.strip, p.first_block, p.data.len())).collect();
        puts.sort_unstable();
        assert_eq!(puts, [(1, 3, 4096), (4, 3, 4096), (5, 3, 4096)]);
        // All columns change: nothing of them is needed.
        let all: Vec<_> = (0..4).map(|c| change(c, 0, &cluster(50 + c as u64))).collect();
        let update = rig.plan(1, &all).await;
        assert_eq!(rig.disks.iter().map(TestDisk::reads).sum::<u64>(), 3);
        assert_eq!((update.puts.len(), update.written), (6, 0b1111));
    });
}

#[test]
fn a_silent_error_elsewhere_is_not_made_final_by_an_update() {
    on_a_core(async {
        for (level, members) in PARITY_SETS {
            let rig = Rig::new(level, members);
            let columns = rig.set.shape().columns();
            rig.fill(1, &(0..columns).collect::<Vec<_>>(), 1).await;
            rig.corrupt(1, columns - 1, 4);
            let update = rig.plan(1, &[change(0, 3, &[500, 501])]).await;
            rig.raid.apply(&rig.set, &update, FLAGS, &[]).await.unwrap();
            rig.expect(1, columns - 1, &cluster(columns as u64)).await;
        }
    });
}

#[test]
fn a_damaged_block_that_changes_does_not_damage_the_parity() {
    on_a_core(async {
        for (level, members) in PARITY_SETS {
            let rig = Rig::new(level, members);
            let columns = rig.set.shape().columns();
            rig.fill(1, &(0..columns).collect::<Vec<_>>(), 1).await;
            rig.corrupt(1, 0, 3);
            let known =
                |column: usize, row: usize| (column == 0).then(|| rig.known(1, 1)(0, row))?;
            let changes = [change(0, 3, &[500])];
            let update = rig.raid.plan_update(&rig.set, 1, &changes, &known).await.unwrap();
            rig.raid.apply(&rig.set, &update, FLAGS, &[]).await.unwrap();
            for away in choices(members.into(), level.unwrap().losses_max()) {
                rig.lose(&away);
                for column in 1..columns {
                    rig.expect(1, column, &cluster(1 + column as u64)).await;
                }
                away.iter().for_each(|disk| rig.disks[*disk].revive());
            }
        }
    });
}

/// An old image of it was put back, and that is told after a change was planned and before it is done. Then what
/// it had as its parity was nothing to go by, however much of it changes.
#[test]
fn a_parity_that_was_changed_does_not_count_on_a_disk_that_lacks_all() {
    on_a_core(async {
        for (level, members) in PARITY_SETS {
            let shape = Rig::new(level, members).set.shape();
            let columns = shape.columns();
            for (parity, is_again) in
                (columns..shape.strips()).flat_map(|parity| [(parity, false), (parity, true)])
            {
                let rig = Rig::new(level, members);
                rig.fill(1, &(0..columns).collect::<Vec<_>>(), 1).await;
                (0..CLUSTER_BLOCKS).for_each(|row| _ = rig.corrupt(1, parity, row));
                let update = rig.plan(1, &[change(0, 0, &cluster(70))]).await;
                let id = DiskId(rig.place(1, parity, 0).0 as u16);
                rig.set.mark_all_stale(id);
                rig.raid.disks().set_lacks_all(id, true);
                match is_again {
                    true => rig.raid.apply_again(&rig.set, &update, FLAGS).await.unwrap(),
                    false => rig.raid.apply(&rig.set, &update, FLAGS, &[]).await.unwrap(),
                }
                let stale: Vec<_> = rig.set.stale_seats(1).iter().map(|seat| seat.disk).collect();
                assert_eq!(stale, [id], "{level:?} of {members}");
                let done = rig.raid.refresh_stripe(&rig.set, 1, Proof::NOTHING).await.unwrap();
                assert_eq!((done.left, rig.set.stale(1)), (0, 0));
                let mut after: Vec<_> = (0..columns).map(|c| cluster(1 + c as u64)).collect();
                after[0] = cluster(70);
                for away in choices(members.into(), level.unwrap().losses_max()) {
                    rig.lose(&away);
                    expect_all(&rig, &after, &format!("{level:?}, strip {parity}, {away:?}")).await;
                    away.iter().for_each(|disk| rig.disks[*disk].revive());
                }
            }
        }
    });
}

#[test]
fn a_part_of_a_new_column_leaves_zeroes_around_it_also_in_an_empty_stripe() {
    on_a_core(async {
        for old in [vec![], vec![0]] {
            let rig = Rig::new(Some(Level::Raid5), 3);
            // Whatever was there before must not show.
            rig.fill(1, &[0, 1], 60).await;
            rig.set.forget(1);
            if !old.is_empty() {
                rig.fill(1, &old, 1).await;
            }
            let update = rig.plan(1, &[change(1, 6, &[321])]).await;
            rig.raid.apply(&rig.set, &update, FLAGS, &[]).await.unwrap();
            assert_eq!(rig.set.written(1), if old.is_empty() { 0b10 } else { 0b11 });
            let slot = rig.set.shape().slot(1, 1);
            let zero = |row| block_checksum(SET, slot, row, &[0; BLOCK_BYTES]);
            for away in choices(3, 1) {
                rig.lose(&away);
                let want = [zero(5), crcs(slot, 6, &[321])[0], zero(7)];
                rig.raid.read(&rig.set, slot, 5, &want).await.unwrap();
                rig.raid.read(&rig.set, slot, 15, &[zero(15)]).await.unwrap();
                away.iter().for_each(|disk| rig.disks[*disk].revive());
            }
        }
    });
}

#[test]
fn a_degraded_read_never_sees_an_update_half_way() {
    on_a_core(async {
        let rig = Rig::new(Some(Level::Raid5), 3);
        rig.fill(1, &[0, 1], 1).await;
        let (away, _) = rig.place(1, 1, 0);
        rig.raid.disks().remove(DiskId(away as u16));
        let update = rig.plan(1, &[change(0, 0, &cluster(30))]).await;
        // The parity is written at once, the data later: a reader would compute nonsense.
        let (data_disk, _) = rig.place(1, 0, 0);
        rig.disks[data_disk].slow_down();
        let mut apply = Box::pin(rig.raid.apply(&rig.set, &update, FLAGS, &[]));
        let slot = rig.set.shape().slot(1, 1);
        let mut read = Box::pin(rig.read(slot, 0, &[200, 201]));
        let mut cx = std::task::Context::from_waker(std::task::Waker::noop());
        assert!(apply.as_mut().poll(&mut cx).is_pending());
        for _ in 0..9 {
            assert!(read.as_mut().poll(&mut cx).is_pending(), "it waits for the update");
        }
        apply.await.unwrap();
        read.await.unwrap();
    });
}

/// A stripe whose column 1 was freed, with rot in it or in the parity.
async fn with_rot(level: Option<Level>, members: u16, strip: usize) -> Rig {
    let rig = Rig::new(level, members);
    rig.fill(1, &(0..rig.set.shape().columns()).collect::<Vec<_>>(), 1).await;
    (0..CLUSTER_BLOCKS).for_each(|row| _ = rig.corrupt(1, strip, row));
    rig
}

#[test]
fn rot_in_a_freed_column_does_not_get_into_the_parity() {
    on_a_core(async {
        for (level, members) in PARITY_SETS {
            let shape = Rig::new(level, members).set.shape();
            for strip in (1..2).chain(shape.columns()..shape.strips()) {
                let rig = with_rot(level, members, strip).await;
                let columns = shape.columns();
                let changes = [change(1, 0, &cluster(70))];
                let plan = rig.raid.plan_update(&rig.set, 1, &changes, NO_CRCS).await;
                assert_eq!(plan.unwrap_err(), ReadError::Unproved, "{level:?} strip {strip}");
                // Of four columns the last one was freed too.
                let live = if columns > 3 { (1 << (columns - 1)) - 1 } else { (1 << columns) - 1 };
                let known = |column: usize, row: usize| {
                    (column != 1 && live >> column & 1 == 1)
                        .then(|| rig.known(1, 1)(column, row))?
                };
                let update = rig.raid.plan_anew(&rig.set, 1, &changes, live, &known).await.unwrap();
                assert_eq!(update.written, live);
                rig.raid.apply(&rig.set, &update, FLAGS, &[]).await.unwrap();
                assert_eq!(rig.set.written(1), live, "the parity covers nothing else");
                for away in choices(members.into(), level.unwrap().losses_max()) {
                    rig.lose(&away);
                    for column in (0..columns).filter(|column| live >> column & 1 == 1) {
                        let seed = if column == 1 { 70 } else { 1 + column as u64 };
                        rig.expect(1, column, &cluster(seed)).await;
                    }
                    away.iter().for_each(|disk| rig.disks[*disk].revive());
                }
            }
        }
    });
}

/// A disk gave the right thing once, and data and parity agreed: what it gives next is not looked at.
#[test]
fn parity_is_made_of_what_was_seen_to_agree() {
    on_a_core(async {
        for (level, members) in PARITY_SETS {
            let shape = Rig::new(level, members).set.shape();
            for strip in (1..2).chain(shape.columns()..shape.strips()) {
                let rig = Rig::new(level, members);
                rig.fill(1, &(0..shape.columns()).collect::<Vec<_>>(), 1).await;
                let (disk, at) = rig.place(1, strip, 4);
                rig.disks[disk].flip_after(1, at);
                let changes = [change(1, 0, &cluster(70))];
                let update = rig.raid.plan_update(&rig.set, 1, &changes, NO_CRCS).await.unwrap();
                rig.disks[disk].flip_after(u64::MAX, at);
                rig.raid.apply(&rig.set, &update, FLAGS, &[]).await.unwrap();
                let mut after: Vec<_> =
                    (0..shape.columns()).map(|c| cluster(1 + c as u64)).collect();
                after[1] = cluster(70);
                for away in choices(members.into(), level.unwrap().losses_max()) {
                    rig.lose(&away);
                    expect_all(&rig, &after, &format!("{level:?}, strip {strip}, {away:?}")).await;
                    away.iter().for_each(|disk| rig.disks[*disk].revive());
                }
            }
        }
    });
}

#[test]
fn rot_in_a_parity_does_not_follow_it_to_another_disk() {
    on_a_core(async {
        for (level, members) in PARITY_SETS {
            let shape = Rig::new(level, members).set.shape();
            for strip in shape.columns()..shape.strips() {
                let rig = Rig::new(level, members);
                let columns: Vec<usize> = (0..shape.columns()).collect();
                rig.fill(1, &columns, 1).await;
                rig.corrupt(1, strip, 4);
                let (member, _) = rig.place(1, strip, 0);
                let changes = [change(0, 0, &cluster(70))];
                let known = rig.known(1, 1);
                let plan = rig.raid.plan_update(&rig.set, 1, &changes, &known).await;
                assert!(plan.is_ok(), "{level:?}: where it is, it is that disk's fault");
                rig.set.set_replacement(member, Seat { disk: DiskId(members), chunk: 1 }).unwrap();
                let plan = rig.raid.plan_update(&rig.set, 1, &changes, &known).await;
                assert_eq!(plan.unwrap_err(), ReadError::Unproved, "{level:?} strip {strip}");
                let live = rig.set.written(1);
                let update = rig.raid.plan_anew(&rig.set, 1, &changes, live, &known).await.unwrap();
                rig.raid.apply(&rig.set, &update, FLAGS, &[]).await.unwrap();
                let new = crcs(shape.slot(1, 0), 0, &cluster(70));
                let now = |column: usize, row: usize| match column {
                    0 => Some(new[row]),
                    _ => known(column, row),
                };
                let proof = Proof { crcs: &now, is_sure: true, ..Proof::NOTHING };
                rig.raid.refresh_stripe(&rig.set, 1, proof).await.unwrap();
                rig.lose(&[member]);
                for away in 0..shape.columns() {
                    let (disk, _) = rig.place(1, away, 0);
                    rig.lose(&[disk]);
                    for column in 0..shape.columns() {
                        let seed = if column == 0 { 70 } else { 1 + column as u64 };
                        rig.expect(1, column, &cluster(seed)).await;
                    }
                    rig.disks[disk].revive();
                }
            }
        }
    });
}

#[test]
fn a_freed_column_without_rot_is_used_again_at_the_price_of_a_look() {
    on_a_core(async {
        let rig = Rig::new(Some(Level::Raid6), 6);
        rig.fill(1, &[0, 1, 2, 3], 1).await;
        let changes = [change(1, 0, &cluster(70))];
        let update = rig.raid.plan_update(&rig.set, 1, &changes, NO_CRCS).await.unwrap();
        rig.raid.apply(&rig.set, &update, FLAGS, &[]).await.unwrap();
        assert_eq!(update.written, 0b1111);
        // With one disk gone the other parity still tells; with two nothing does.
        for (gone, is_told) in [(1, true), (2, false)] {
            let rig = with_rot(Some(Level::Raid6), 6, 1).await;
            for strip in [2, 3].into_iter().take(gone) {
                let (disk, _) = rig.place(1, strip, 0);
                rig.raid.disks().remove(DiskId(disk as u16));
            }
            let changes = [change(1, 0, &cluster(70))];
            let plan = rig.raid.plan_update(&rig.set, 1, &changes, NO_CRCS).await;
            assert_eq!(plan.is_err(), is_told);
        }
    });
}

//! Whole stripes and mirrors, written while disks are away or fail.

use super::*;

use crate::raid::{Access, WriteError};

#[test]
fn a_disk_that_dies_at_any_write_is_left_behind_and_everybody_knows() {
    on_a_core(async {
        for (level, members) in SETS.into_iter().filter(|set| set.0 != Some(Level::Raid0)) {
            for writes in 0..u64::from(members) {
                for victim in 0..usize::from(members) {
                    let rig = Rig::new(level, members);
                    let columns: Vec<_> = (0..rig.set.shape().columns()).collect();
                    rig.fuse.kill_after(writes, &rig.disks[victim]);
                    rig.fill(1, &columns, 1).await;
                    let is_stale = rig.set.stale(1) == 1 << victim;
                    let has_failed = !rig.heard().is_empty();
                    assert_eq!(is_stale, has_failed, "who missed it is known");
                    for column in &columns {
                        rig.expect(1, *column, &cluster(1 + *column as u64)).await;
                    }
                    // It comes back with old contents, which nobody must see.
                    rig.bring_back(victim);
                    for column in &columns {
                        rig.expect(1, *column, &cluster(1 + *column as u64)).await;
                    }
                }
            }
        }
    });
}

#[test]
fn a_write_waits_until_the_loss_of_a_disk_is_known() {
    on_a_core(async {
        let rig = Rig::new(Some(Level::Raid1), 2);
        rig.disks[1].kill();
        let data = blocks(&cluster(1));
        let first = rig.raid.write_slot(&rig.set, 0, 0, data.clone(), FLAGS);
        let second = rig.raid.write_slot(&rig.set, 1, 0, data, FLAGS);
        let (mut first, mut second) = (Box::pin(first), Box::pin(second));
        let mut cx = std::task::Context::from_waker(std::task::Waker::noop());
        assert!(first.as_mut().poll(&mut cx).is_pending(), "the alarm takes a moment");
        assert_eq!(rig.raid.disks().get(DiskId(1)).unwrap().access(), Access::ReadOnly);
        // This one never touches the dead disk, but is done without it all the same.
        assert!(second.as_mut().poll(&mut cx).is_pending());
        assert!(rig.heard().is_empty());
        first.await.unwrap();
        second.await.unwrap();
        assert_eq!(rig.heard(), [DiskId(1)]);
        assert_eq!(rig.set.stale_stripes(), [0, 1]);
    });
}

#[test]
fn a_disk_that_goes_out_beside_a_write_is_not_credited_with_it() {
    on_a_core(async {
        let rig = Rig::new(Some(Level::Raid1), 2);
        rig.fill(0, &[0], 1).await;
        rig.disks[1].slow_down();
        let data = blocks(&cluster(2));
        let mut write = Box::pin(rig.raid.write_slot(&rig.set, 0, 0, data, FLAGS));
        let mut cx = std::task::Context::from_waker(std::task::Waker::noop());
        assert!(write.as_mut().poll(&mut cx).is_pending());
        // It failed somebody else's flush: what it takes from now on may be gone.
        rig.raid.disks().get(DiskId(1)).unwrap().close();
        write.await.unwrap();
        assert_eq!(rig.set.stale(0), 0b10);
    });
}

#[test]
fn writes_beyond_the_level_are_refused_and_touch_nothing() {
    on_a_core(async {
        for (level, members) in SETS {
            let rig = Rig::new(level, members);
            let columns: Vec<_> = (0..rig.set.shape().columns()).collect();
            rig.fill(0, &columns, 1).await;
            let held: Vec<_> = rig.disks.iter().map(|disk| disk.held(LAYOUT.data_start)).collect();
            for disk in 0..=rig.losses_max() {
                rig.raid.disks().get(DiskId(disk as u16)).unwrap().set_access(Access::None);
            }
            let data: Vec<_> = columns.iter().map(|c| (*c, blocks(&cluster(9)))).collect();
            let write = rig.raid.write_fresh(&rig.set, 0, &data, FLAGS).await;
            assert_eq!(write, Err(WriteError::Lost), "{level:?}");
            let now: Vec<_> = rig.disks.iter().map(|disk| disk.held(LAYOUT.data_start)).collect();
            assert_eq!(held, now);
            assert_eq!(rig.set.stale(0), 0);
        }
    });
}

#[test]
fn a_second_try_is_no_failure() {
    on_a_core(async {
        let rig = Rig::new(Some(Level::Raid1), 2);
        rig.disks[0].be_busy(1);
        rig.fill(0, &[0], 1).await;
        assert!(rig.heard().is_empty() && rig.set.stale(0) == 0);
        rig.disks[0].be_busy(2);
        let write = rig.raid.write_slot(&rig.set, 0, 0, blocks(&cluster(2)), FLAGS).await;
        assert_eq!(write, Err(WriteError::Later(BlockError::Busy)));
        assert!(rig.heard().is_empty());
        rig.raid.write_slot(&rig.set, 0, 0, blocks(&cluster(2)), FLAGS).await.unwrap();
        for disk in [0, 1] {
            rig.lose(&[disk]);
            rig.expect(0, 0, &cluster(2)).await;
            rig.disks[disk].revive();
        }
    });
}

#[test]
fn writing_all_of_a_strip_makes_up_for_what_was_missed() {
    on_a_core(async {
        for (level, members) in [(Some(Level::Raid10), 2), (Some(Level::Raid5), 3)] {
            let rig = Rig::new(level, members);
            let columns: Vec<_> = (0..rig.set.shape().columns()).collect();
            rig.raid.disks().remove(DiskId(0));
            rig.fill(0, &columns, 1).await;
            assert_eq!(rig.set.stale(0), 1);
            rig.bring_back(0);
            rig.fill(0, &columns, 20).await;
            assert_eq!(rig.set.stale(0), 0);
            rig.lose(&[1]);
            rig.expect(0, 0, &cluster(20)).await;
        }
        let rig = Rig::new(Some(Level::Raid10), 2);
        rig.fill(0, &[0], 1).await;
        rig.set.mark_stale(0, DiskId(0));
        rig.raid.write_slot(&rig.set, 0, 3, blocks(&[7]), FLAGS).await.unwrap();
        assert_eq!(rig.set.stale(0), 1, "a part does not");
    });
}

#[test]
fn a_region_is_written_and_read_by_copy() {
    on_a_core(async {
        let region = ring::Region::new(CLUSTER_BYTES).unwrap();
        region.write(0, blocks(&cluster(4)).as_slice().unwrap());
        let rig = Rig::new(Some(Level::Raid6), 4);
        let data = [(1, region.slice(0, CLUSTER_BYTES))];
        rig.raid.write_fresh(&rig.set, 3, &data, FLAGS).await.unwrap();
        for away in choices(4, 2) {
            rig.lose(&away);
            rig.expect(3, 1, &cluster(4)).await;
            away.iter().for_each(|disk| rig.disks[*disk].revive());
        }
    });
}

#[test]
fn a_failed_flush_takes_the_disk_out_and_leaves_what_was_durable() {
    on_a_core(async {
        let rig = Rig::new(Some(Level::Raid1), 2);
        rig.fill(0, &[0], 1).await;
        rig.raid.flush().await;
        assert!(rig.heard().is_empty());
        rig.fill(1, &[0], 2).await;
        rig.disks[0].kill();
        rig.raid.flush().await;
        assert_eq!(rig.heard(), [DiskId(0)]);
        assert_eq!(rig.raid.disks().get(DiskId(0)).unwrap().access(), Access::ReadOnly);
    });
}

//! Reads of sound, degraded and damaged stripes.

use super::*;

use crate::raid::Heal;

#[test]
fn a_healthy_read_is_over_within_the_call() {
    on_a_core(async {
        for (level, members) in SETS {
            let rig = Rig::new(level, members);
            rig.fill(1, &[0], 3).await;
            let slot = rig.set.shape().slot(1, 0);
            let seeds = &cluster(3)[7..8];
            let read = rig.raid.read(&rig.set, slot, 7, &crcs(slot, 7, seeds));
            let good = read.into_ready().unwrap().unwrap();
            assert_eq!(good.data.as_slice().unwrap(), block(seeds[0]));
            assert!(good.heals.is_empty());
            assert_eq!(rig.disks.iter().map(TestDisk::reads).sum::<u64>(), 1);
        }
    });
}

#[test]
fn every_level_reads_with_as_many_disks_away_as_it_may() {
    on_a_core(async {
        for (level, members) in SETS {
            let rig = Rig::new(level, members);
            let columns: Vec<_> = (0..rig.set.shape().columns()).collect();
            for stripe in 0..STRIPES {
                rig.fill(stripe, &columns, u64::from(stripe) * 10).await;
            }
            for away in choices(rig.members(), rig.losses_max()) {
                rig.lose(&away);
                for stripe in 0..STRIPES {
                    for column in &columns {
                        let seed = u64::from(stripe) * 10 + *column as u64;
                        rig.expect(stripe, *column, &cluster(seed)).await;
                    }
                }
                away.iter().for_each(|disk| rig.disks[*disk].revive());
            }
        }
    });
}

#[test]
fn one_disk_more_is_one_too_many_and_is_said_so() {
    on_a_core(async {
        for (level, members) in SETS {
            let rig = Rig::new(level, members);
            rig.fill(0, &[0], 1).await;
            let (data_disk, _) = rig.place(0, 0, 0);
            let others = (0..rig.members()).filter(|disk| *disk != data_disk);
            for disk in std::iter::once(data_disk).chain(others.take(rig.losses_max())) {
                // Two columns of this stripe are not written, so only parity disks count as well.
                rig.raid.disks().remove(DiskId(disk as u16));
            }
            if rig.set.shape().parity() == 0 {
                let read = rig.read(0, 0, &cluster(1)[..1]).await;
                assert_eq!(read.unwrap_err(), ReadError::Lost, "{level:?}");
            }
        }
        let rig = Rig::new(Some(Level::Raid5), 3);
        rig.fill(0, &[0, 1], 1).await;
        rig.raid.disks().remove(DiskId(0));
        rig.raid.disks().remove(DiskId(1));
        assert_eq!(rig.read(0, 0, &cluster(1)[..1]).await.unwrap_err(), ReadError::Lost);
    });
}

#[test]
fn a_flipped_bit_is_noticed_corrected_and_reported() {
    on_a_core(async {
        for (level, members) in SETS.into_iter().filter(|set| set.0 != Some(Level::Raid0)) {
            let rig = Rig::new(level, members);
            let columns: Vec<_> = (0..rig.set.shape().columns()).collect();
            rig.fill(2, &columns, 1).await;
            let slot = rig.set.shape().slot(2, 0);
            let disk = rig.corrupt(2, 0, 4);
            let mut heals = Vec::new();
            // Mirrors take turns: one of so many reads meets the bad copy.
            for _ in 0..rig.members() {
                heals.extend(rig.read(slot, 3, &cluster(1)[3..6]).await.unwrap().heals);
            }
            let crc = crcs(slot, 0, &cluster(1))[4];
            let id = DiskId(disk as u16);
            heals.dedup();
            assert_eq!(heals, [Heal { set: SetId(5), slot, block: 4, crc, disk: id }]);
            let counts = || rig.raid.disks().get(id).unwrap().counts();
            assert_eq!(counts().mismatches, 0, "reads may have looked for something old");
            rig.raid.heal(&rig.set, &heals[0]).await.unwrap();
            assert_eq!((counts().mismatches, counts().healed), (1, 1));
        }
    });
}

#[test]
fn a_bad_sector_costs_its_block_alone() {
    on_a_core(async {
        let rig = Rig::new(Some(Level::Raid5), 4);
        rig.fill(0, &[0, 1, 2], 1).await;
        for (column, block) in [(0, 2), (1, 9)] {
            let (disk, at) = rig.place(0, column, block);
            rig.disks[disk].refuse(at..at + 4096);
        }
        let good = rig.read(0, 0, &cluster(1)).await.unwrap();
        assert_eq!(good.heals.iter().map(|heal| heal.block).collect::<Vec<_>>(), [2]);
        rig.expect(0, 1, &cluster(2)).await;
        let (disk, _) = rig.place(0, 0, 0);
        let counts = rig.raid.disks().get(DiskId(disk as u16)).unwrap().counts();
        assert!(counts.read_errors > 0 && counts.mismatches == 0);
    });
}

#[test]
fn raid_6_survives_a_lost_disk_and_a_silently_wrong_one() {
    on_a_core(async {
        for wrong in 1..6 {
            let rig = Rig::new(Some(Level::Raid6), 6);
            rig.fill(1, &[0, 1, 2, 3], 1).await;
            let (lost, _) = rig.place(1, 0, 0);
            rig.raid.disks().remove(DiskId(lost as u16));
            (0..CLUSTER_BLOCKS).for_each(|row| _ = rig.corrupt(1, wrong, row));
            for column in 0..4 {
                rig.expect(1, column, &cluster(1 + column as u64)).await;
            }
        }
    });
}

#[test]
fn what_no_disk_can_give_is_damaged() {
    on_a_core(async {
        for (level, members) in SETS {
            let rig = Rig::new(level, members);
            let columns: Vec<_> = (0..rig.set.shape().columns()).collect();
            rig.fill(0, &columns, 1).await;
            for (i, seat) in rig.set.members().into_iter().enumerate() {
                // Another byte on each, or the parity would make it right again.
                rig.disks[i].flip(rig.set.byte_at(seat, 0, 6) + i as u64);
            }
            let read = rig.read(0, 5, &cluster(1)[5..8]).await;
            assert_eq!(read.unwrap_err(), ReadError::Damaged { block: 6 }, "{level:?}");
            assert!(rig.read(0, 7, &cluster(1)[7..9]).await.is_ok(), "the others are sound");
        }
    });
}

#[test]
fn a_passing_error_is_no_fault_of_the_disk() {
    on_a_core(async {
        let rig = Rig::new(Some(Level::Raid0), 1);
        rig.fill(0, &[0], 1).await;
        rig.disks[0].be_busy(1);
        let read = rig.read(0, 0, &cluster(1)).await;
        assert_eq!(read.unwrap_err(), ReadError::Later(BlockError::Busy));
        assert_eq!(rig.raid.disks().get(DiskId(0)).unwrap().counts().read_errors, 0);
        assert!(rig.read(0, 0, &cluster(1)).await.is_ok());
    });
}

#[test]
fn mirrors_share_the_reads() {
    on_a_core(async {
        let rig = Rig::new(Some(Level::Raid1), 2);
        rig.fill(0, &[0], 1).await;
        for _ in 0..20 {
            rig.read(0, 0, &cluster(1)[..1]).await.unwrap();
        }
        assert_eq!((rig.disks[0].reads(), rig.disks[1].reads()), (10, 10));
        // One with a long queue is left alone.
        rig.disks.iter().for_each(TestDisk::slow_down);
        let _busy = rig.raid.disks().get(DiskId(0)).unwrap().start();
        for _ in 0..5 {
            rig.read(0, 0, &cluster(1)[..1]).await.unwrap();
        }
        assert_eq!((rig.disks[0].reads(), rig.disks[1].reads()), (10, 15));
    });
}

#[test]
fn single_copies_can_be_read_unchecked() {
    on_a_core(async {
        let rig = Rig::new(None, 3);
        rig.fill(0, &[0], 1).await;
        rig.disks[1].flip(rig.set.byte_at(rig.set.members()[1], 0, 2));
        let expected = block(cluster(1)[2]);
        for member in 0..3 {
            let data = rig.raid.read_copy(&rig.set, 0, 2..3, (member, false)).await.unwrap();
            assert_eq!(data.as_slice() == Some(&expected[..]), member != 1);
        }
        rig.set.mark_stale(0, DiskId(2));
        let away = rig.raid.read_copy(&rig.set, 0, 2..3, (2, false)).await;
        assert_eq!(away.unwrap_err(), ReadError::Lost);
        rig.disks[0].kill();
        let broken = rig.raid.read_copy(&rig.set, 0, 2..3, (0, false)).await;
        assert_eq!(broken.unwrap_err(), ReadError::Damaged { block: 2 });
    });
}

#[test]
fn a_reader_that_asks_for_what_was_there_before_accuses_nobody() {
    on_a_core(async {
        for (level, members) in SETS {
            let rig = Rig::new(level, members);
            let columns: Vec<_> = (0..rig.set.shape().columns()).collect();
            rig.fill(0, &columns, 1).await;
            // A checkpoint has written the cluster in place; the reader does not know it yet.
            let slot = rig.set.shape().slot(0, 0);
            let read = rig.raid.read(&rig.set, slot, 0, &crcs(slot, 0, &cluster(500))).await;
            assert_eq!(read.unwrap_err(), ReadError::Damaged { block: 0 });
            let old =
                |column: usize, row: usize| (column == 0).then(|| rig.known(0, 500)(0, row))?;
            let found = rig.raid.scrub_stripe(&rig.set, 0, contents(&old)).await.unwrap();
            assert_eq!((found.bad, found.doubted.len()), (0, CLUSTER_BLOCKS), "{level:?}");
            for disk in rig.raid.disks().all() {
                assert_eq!(disk.counts().mismatches, 0, "{level:?}: {}", disk.name());
            }
        }
    });
}

//! What is written beside a rebuild: nothing is copied of which it is not known what it must be.

use std::sync::Arc;

use block::testing::{Fault, FaultyDisk, Operation, Rule};
use block::{BlockDevice, BlockError, WriteFlags};
use ring::Buf;

use super::*;
use crate::tables::Version;
use crate::testing::arrays::{disk, filled, filled_on, on_a_core, set_of, write};
use crate::{Level, VersionId};

#[test]
fn a_stripe_is_looked_up_anew_when_it_was_written_since_the_walk_or_left_for_later() {
    on_a_core(async {
        // In the second case the journal has another block of it.
        for is_about_to_change in [false, true] {
            let (array, volume) = filled(Level::Raid1, 2).await;
            let (core, set) = (&array.core, set_of(&array.core, Some(Level::Raid1)));
            let known = core.know_work(&[(Arc::clone(&set), 0..set.stripes())]).await.unwrap();
            let first = known.stripes.iter().find(|(_, columns)| columns[0].1.cluster == 0);
            let stripe = first.unwrap().0.1;
            write(&volume, 0, 1).await;
            array.checkpoint().await.unwrap();
            assert!(known.changes(&set, stripe) > 0, "in place");
            if is_about_to_change {
                write(&volume, 1, 1).await;
            }
            set.mark_stale(stripe, set.members()[1].disk);
            let outcome = core.refresh_one(&set, stripe, &known, Layer::Newest).await;
            assert_eq!(outcome.is_unsure, is_about_to_change, "{outcome:?}");
            assert_eq!(set.stale(stripe) != 0, is_about_to_change, "{outcome:?}");
        }
    });
}

#[test]
fn what_came_into_a_stripe_since_the_walk_is_not_known() {
    on_a_core(async {
        let (array, _volume) = filled(Level::Raid5, 3).await;
        let (core, nothing) = (&array.core, Knowledge::default());
        let pages = set_of(core, None);
        for stripe in 0..pages.stripes() {
            assert!(core.has_unknown(&pages, stripe, &nothing, true), "a page may be new");
            assert!(!core.has_unknown(&pages, stripe, &nothing, false));
        }
        let set = set_of(core, Some(Level::Raid5));
        let known = core.know_work(&[(Arc::clone(&set), 0..set.stripes())]).await.unwrap();
        let stripe = known.stripes.keys().next().unwrap().1;
        for changed in [false, true] {
            assert!(core.has_unknown(&set, stripe, &nothing, changed), "no map told of it");
            assert!(!core.has_unknown(&set, stripe, &known, changed));
        }
        // Nor is what is nobody's.
        let free = (0..set.stripes()).find(|stripe| core.is_dead(&set, *stripe)).unwrap();
        assert!(!core.has_unknown(&set, free, &nothing, false));
    });
}

/// What only a snapshot has that was taken during the walk is not known: a copy that nothing proves must not
/// make the other one a disk's that is up to date.
#[test]
fn a_run_in_which_something_is_not_known_is_not_copied() {
    on_a_core(async {
        let (array, _volume) = filled(Level::Raid1, 2).await;
        let (core, set) = (&array.core, set_of(&array.core, Some(Level::Raid1)));
        let whole = 0..set.stripes();
        for is_known in [false, true] {
            let mut known = core.know_work(&[(Arc::clone(&set), whole.clone())]).await.unwrap();
            if !is_known {
                known.stripes.retain(|(_, stripe), _| *stripe != 3);
            }
            let disk = set.members()[1].disk;
            whole.clone().for_each(|stripe| set.mark_stale(stripe, disk));
            let outcome = core.refresh_run(&set, &whole, &known, false).await;
            assert_eq!(outcome.is_unsure, !is_known, "{outcome:?}");
            assert_eq!(set.stale(3) != 0, !is_known, "{outcome:?}");
            assert_eq!(set.stale(4), 0);
        }
    });
}

/// A disk that takes part in a stripe from then on need not have what nobody has any more.
#[test]
fn what_was_freed_since_the_walk_is_not_taken_for_known() {
    on_a_core(async {
        let (array, volume) = filled(Level::Raid1, 2).await;
        let (core, set) = (&array.core, set_of(&array.core, Some(Level::Raid1)));
        let known = core.know_work(&[(Arc::clone(&set), 0..set.stripes())]).await.unwrap();
        volume.unmap(0, CLUSTER_BYTES as u64).await.unwrap();
        array.checkpoint().await.unwrap();
        let cluster = |columns: &[(usize, crate::core::Known)]| columns[0].1.cluster;
        for ((_, stripe), columns) in &known.stripes {
            assert_eq!(known.changes(&set, *stripe) > 0, cluster(columns) == 0);
        }
    });
}

/// A checkpoint that could not end may have put in place what the map does not tell of.
#[test]
fn what_the_journal_has_of_a_volume_that_is_set_aside_is_not_taken_from_its_map() {
    on_a_core(async {
        let (array, volume) = filled(Level::Raid1, 2).await;
        let (core, set) = (&array.core, set_of(&array.core, Some(Level::Raid1)));
        write(&volume, 0, 1).await;
        let live = |state: &mut State| state.live.values_mut().next().unwrap().aside_in = Some(1);
        live(&mut core.lock());
        let known = core.know_work(&[(Arc::clone(&set), 0..set.stripes())]).await.unwrap();
        let first = known.stripes.iter().find(|(_, columns)| columns[0].1.cluster == 0);
        let stripe = first.unwrap().0.1;
        assert_eq!(known.crc(&set, stripe, 0, 0), None);
        assert!(known.crc(&set, stripe, 0, 1).is_some());
    });
}

/// What the journal got since the walk is not as before: what else was not found was asked for beside it, and
/// is looked for once more.
#[test]
fn what_the_journal_got_since_the_walk_is_not_as_before() {
    on_a_core(async {
        let (array, volume) = filled(Level::Raid1, 2).await;
        let (core, set) = (&array.core, set_of(&array.core, Some(Level::Raid1)));
        let known = core.know_work(&[(Arc::clone(&set), 0..set.stripes())]).await.unwrap();
        let first = known.stripes.iter().find(|(_, columns)| columns[0].1.cluster == 0);
        let stripe = first.unwrap().0.1;
        write(&volume, 0, 1).await;
        core.lock().live.values_mut().next().unwrap().aside_in = Some(1);
        let mut newer = Newer::new();
        let mut looks = Vec::new();
        for _ in 0..2 {
            let blocks = (vec![(0, 0), (0, 1)], &mut newer);
            looks.push(core.look_anew(&set, stripe, (&known, Layer::Newest), blocks).await);
        }
        assert_eq!(looks, [Some(false), Some(true)]);
        assert_eq!(newer[&(0, 0)], None);
    });
}

/// A block that hosts write all the time is in the journal whenever anybody looks, and was changed in its
/// place since the walk.
#[test]
fn a_stripe_that_never_rests_is_restored_while_checkpoints_wait() {
    on_a_core(async {
        for (level, disks) in [(Level::Raid1, 2), (Level::Raid5, 3)] {
            let (array, volume) = filled(level, disks).await;
            let (core, set) = (&array.core, set_of(&array.core, Some(level)));
            let known = core.know_work(&[(Arc::clone(&set), 0..set.stripes())]).await.unwrap();
            let mut stripes = known.stripes.iter();
            let is_first = |(_, known): &(usize, crate::core::Known)| known.cluster == 0;
            let stripe = stripes.find(|(_, columns)| columns.iter().any(is_first)).unwrap().0.1;
            write(&volume, 0, 1).await;
            array.checkpoint().await.unwrap();
            write(&volume, 0, 1).await;
            set.mark_stale(stripe, set.members()[0].disk);
            let refresh = |layer| core.refresh_one(&set, stripe, &known, layer);
            assert!(refresh(Layer::Newest).await.is_unsure, "the journal has it");
            let outcome = refresh(Layer::OnDisks).await;
            assert!((outcome.refreshed, outcome.is_unsure) == (1, false), "{outcome:?}");
            assert_eq!(set.stale(stripe), 0);
            array.checkpoint().await.unwrap();
            array.close().await.unwrap();
        }
    });
}

/// Nobody has the one, and the journal the other: what lies beneath that is not asked for.
#[test]
fn beside_a_block_that_never_rests_a_lost_one_is_lost() {
    on_a_core(async {
        let disks = [disk(), disk()];
        let (array, volume) = filled_on(disks.to_vec(), Level::Raid1).await;
        let (core, set) = (&array.core, set_of(&array.core, Some(Level::Raid1)));
        let known = core.know_work(&[(Arc::clone(&set), 0..set.stripes())]).await.unwrap();
        let first = known.stripes.iter().find(|(_, columns)| columns[0].1.cluster == 0);
        let stripe = first.unwrap().0.1;
        write(&volume, 2, 1).await;
        write(&volume, 6, 1).await;
        array.checkpoint().await.unwrap();
        write(&volume, 2, 1).await;
        rot(&disks[0], &[3; BLOCK_BYTES]).await;
        let stale = set.members().into_iter().find(|seat| core.disk_name(seat.disk) == "disk-1");
        let refreshed = async || {
            set.mark_stale(stripe, stale.unwrap().disk);
            core.refresh_one(&set, stripe, &known, Layer::OnDisks).await
        };
        let outcome = refreshed().await;
        assert!(outcome.is_unsure, "the journal has what rotted: {outcome:?}");
        rot(&disks[0], &[7; BLOCK_BYTES]).await;
        rot(&disks[1], &[7; BLOCK_BYTES]).await;
        write(&volume, 2, 1).await;
        array.checkpoint().await.unwrap();
        write(&volume, 0, 1).await;
        let outcome = refreshed().await;
        assert!((outcome.lost, outcome.is_unsure) == (1, false), "{outcome:?}");
    });
}

/// A checkpoint may have changed blocks of a volume in their places before it set that aside. The map that is
/// left when the volume is purged does not know: healthy disks were blamed for what nobody has any more.
#[test]
fn what_a_purged_volume_leaves_behind_is_not_lost() {
    on_a_core(async {
        for is_purged in [false, true] {
            let disks = [disk(), disk()];
            let (array, volume) = filled_on(disks.to_vec(), Level::Raid1).await;
            let (core, set) = (&array.core, set_of(&array.core, Some(Level::Raid1)));
            write(&volume, 2, 1).await;
            array.checkpoint().await.unwrap();
            for disk in &disks {
                rot(disk, &[3; BLOCK_BYTES]).await;
            }
            if is_purged {
                let state = &mut *core.lock();
                let (_, gone) = state.tables.volumes.pop_first().unwrap();
                let version = Version {
                    contents: gone.head,
                    epoch: state.epoch,
                    snapshot: None,
                    deleting_from_leaf: Some(0),
                };
                state.tables.versions.insert(VersionId(state.next_version), version);
            }
            let known = core.know_work(&[(Arc::clone(&set), 0..set.stripes())]).await.unwrap();
            let is_first = |columns: &[(usize, crate::core::Known)]| columns[0].1.cluster == 0;
            let first = known.stripes.iter().find(|(_, columns)| is_first(columns)).unwrap();
            let ((_, stripe), columns) = first;
            let (column, one) = &columns[0];
            set.mark_stale(*stripe, set.members()[1].disk);
            let outcome = core.refresh_one(&set, *stripe, &known, Layer::Newest).await;
            assert_eq!(outcome.lost, u64::from(!is_purged), "{outcome:?}");
            assert_eq!(set.stale(*stripe), 0, "{outcome:?}");
            let lost = core.is_lost(&set, (*stripe, *column), 2, one).await;
            assert_eq!(lost.is_some(), !is_purged);
            let all = core.raid.disks().all();
            let blamed = all.iter().any(|disk| disk.counts().mismatches > 0);
            assert_eq!(blamed, !is_purged, "{all:?}");
        }
    });
}

/// A disk is restored while the one that it is restored from does not answer for a moment: it had the stripe
/// for up to date, without what it lacked, and was blamed for that after the next start.
#[test]
fn what_a_disk_has_that_is_silent_for_a_moment_is_not_lost() {
    on_a_core(async {
        let faulty: Vec<_> = (0..3).map(|_| Arc::new(FaultyDisk::new(disk()))).collect();
        let disks = faulty.iter().map(|disk| Arc::clone(disk) as Arc<dyn BlockDevice>);
        let (array, _volume) = filled_on(disks.collect(), Level::Raid5).await;
        let (core, set) = (&array.core, set_of(&array.core, Some(Level::Raid5)));
        let known = core.know_work(&[(Arc::clone(&set), 0..set.stripes())]).await.unwrap();
        let stripe = known.stripes.keys().next().unwrap().1;
        let behind = set.members()[0].disk;
        let silent = set.members()[1].disk;
        let silent =
            core.disk_name(silent).strip_prefix("disk-").unwrap().parse::<usize>().unwrap();
        let fault = Fault::Fail(BlockError::Os { errno: libc::EIO });
        faulty[silent].inject(Rule::always(Operation::Read, fault));
        set.mark_stale(stripe, behind);
        let outcome = core.refresh_one(&set, stripe, &known, Layer::Newest).await;
        assert!((outcome.lost, outcome.refreshed) == (0, 0), "{outcome:?}");
        assert!(set.stale(stripe) > 0, "it lacks the stripe still");
    });
}

/// Spoils all blocks of a disk that hold this.
async fn rot(disk: &Arc<dyn BlockDevice>, contents: &[u8]) {
    for at in (0..disk.geometry().size_bytes()).step_by(BLOCK_BYTES) {
        let mut block = [0; BLOCK_BYTES];
        disk.read(at, BLOCK_BYTES).await.unwrap().copy_to(0, &mut block);
        if block == contents {
            let rotten = Buf::zeroed(BLOCK_BYTES).unwrap().freeze();
            disk.write(at, rotten, WriteFlags::VOLATILE).await.unwrap();
        }
    }
}

#[test]
fn nothing_is_taken_from_disks_where_a_checkpoint_left_something_half_done() {
    on_a_core(async {
        let (array, _volume) = filled(Level::Raid1, 2).await;
        let (core, set) = (&array.core, set_of(&array.core, Some(Level::Raid1)));
        let change = |change: fn(&mut State)| change(&mut core.lock());
        let id = set.id();
        let stripe = (0..set.stripes()).find(|stripe| !core.is_dead(&set, *stripe)).unwrap();
        let refreshed = async || {
            set.mark_stale(stripe, set.members()[1].disk);
            core.refresh_held(&[(id, stripe)]).await.refreshed
        };
        assert_eq!(refreshed().await, 1);
        change(|state| state.live.values_mut().next().unwrap().aside_in = Some(1));
        assert_eq!(refreshed().await, 0, "what the volume has may lie there");
        change(|state| state.live.values_mut().next().unwrap().aside_in = None);
        change(|state| state.has_settled = false);
        assert_eq!(refreshed().await, 0, "the last start may have ended in a checkpoint");
        change(|state| state.has_settled = true);
        let redone = |stripe| core.lock().redone.insert((id, stripe, 0), Default::default());
        redone(stripe + 1);
        assert_eq!(refreshed().await, 1, "another stripe");
        redone(stripe);
        assert_eq!(refreshed().await, 0, "what a start has done again no map tells of");
        core.lock().redone.clear();
        core.raid.disks().get(set.members()[1].disk).unwrap().set_access(Access::ReadOnly);
        assert_eq!(refreshed().await, 0, "a disk may be silent for minutes");
    });
}

//! Reads beside a disk that keeps them waiting.

use std::time::{Duration, Instant};

use block::BlockDevice;
use block::testing::{Fault, FaultyDisk, Operation, Rule};

use super::*;

#[cfg(feature = "mutants")]
use crate::mutants::{Mutant, plant};

/// Hangs reads of the disk of this number.
fn hang(rig: &Rig, disk: usize) -> Arc<FaultyDisk> {
    let faulty = Arc::new(FaultyDisk::new(Arc::new(rig.disks[disk].clone())));
    faulty.inject(Rule::always(Operation::Read, Fault::Hang));
    rig.raid.disks().add(DiskId(disk as u16), "hung", Arc::clone(&faulty) as Arc<dyn BlockDevice>);
    faulty
}

fn let_go(disk: &FaultyDisk) {
    disk.heal();
    disk.release();
}

async fn soon<T>(what: impl Future<Output = T>) -> Option<T> {
    ring::timeout(Duration::from_secs(5), what).await
}

fn levels() -> impl Iterator<Item = (Option<Level>, u16)> {
    SETS.into_iter().filter(|(level, _)| *level != Some(Level::Raid0))
}

/// Waits for what comes a moment after an answer.
async fn until(what: &str, is_so: impl AsyncFn() -> bool) {
    let begun = Instant::now();
    while !is_so().await {
        assert!(begun.elapsed() < Duration::from_secs(60), "in vain: {what}");
        ring::sleep(Duration::from_millis(5)).await;
    }
}

#[test]
fn what_a_disk_that_hangs_has_is_given_by_the_others() {
    on_a_core(async {
        for (level, members) in levels() {
            let rig = Rig::new(level, members);
            let columns: Vec<_> = (0..rig.set.shape().columns()).collect();
            rig.fill(1, &columns, 3).await;
            let (disk, _) = rig.place(1, 0, 0);
            let hung = hang(&rig, disk);
            for row in 0..8 {
                // Mirrors take turns.
                let slot = rig.set.shape().slot(1, 0);
                let read = soon(rig.read(slot, row, &cluster(3)[row..=row])).await;
                let read = read.unwrap_or_else(|| panic!("{level:?}: it waits for the disk"));
                assert!(read.is_ok_and(|good| good.heals.is_empty()), "nothing is wrong");
            }
            assert_eq!(hung.held(), 1, "{level:?}: it is asked no more until it has answered");
            let held = rig.disks[disk].reads();
            let_go(&hung);
            until("it answers", async || rig.disks[disk].reads() > held).await;
            let before = rig.disks[disk].reads();
            until("it is asked again", async || {
                rig.expect(1, 0, &cluster(3)).await;
                rig.disks[disk].reads() > before
            })
            .await;
            assert_eq!(rig.heard(), [], "nobody is out");
        }
    });
}

/// A drive that tries a bad sector for long, and gives it up when its reader has gone on.
#[test]
fn a_late_error_is_counted_and_the_block_rewritten() {
    on_a_core(async {
        let rig = Rig::new(Some(Level::Raid5), 3);
        rig.fill(0, &[0, 1], 3).await;
        let (disk, at) = rig.place(0, 0, 2);
        let hung = hang(&rig, disk);
        assert!(soon(rig.read(0, 2, &cluster(3)[2..4])).await.is_some_and(|read| read.is_ok()));
        rig.disks[disk].refuse(at..at + BLOCK_BYTES as u64);
        let_go(&hung);
        let id = DiskId(disk as u16);
        let healed = || -> Vec<_> {
            rig.heals.lock().unwrap().iter().map(|heal| (heal.disk, heal.block)).collect()
        };
        until("blocks are rewritten", async || healed().len() >= 2).await;
        assert_eq!(rig.raid.disks().get(id).unwrap().counts().read_errors, 1);
        assert_eq!(healed(), [(id, 2), (id, 3)], "both were read together");
    });
}

#[test]
fn what_nobody_else_has_is_waited_for() {
    on_a_core(async {
        for (level, members, away) in [(Level::Raid0, 1, None), (Level::Raid5, 3, Some(1))] {
            let rig = Rig::new(Some(level), members);
            let columns: Vec<_> = (0..rig.set.shape().columns()).collect();
            rig.fill(0, &columns, 3).await;
            let (disk, _) = rig.place(0, 0, 0);
            let away = away.map(|by| (disk + by) % usize::from(members));
            away.iter().for_each(|disk| _ = rig.raid.disks().remove(DiskId(*disk as u16)));
            let hung = hang(&rig, disk);
            let seeds = cluster(3);
            let read = rig.read(0, 0, &seeds[..1]);
            let later = async {
                ring::sleep(Duration::from_millis(100)).await;
                let_go(&hung);
            };
            let (read, ()) = soon(ring::wait::both(read, later)).await.expect("it has answered");
            assert!(read.is_ok(), "{level}");
        }
    });
}

/// The parity is not what the disks hold, as in the middle of a change. Whether what was given instead is right.
async fn beside_a_wrong_parity() -> bool {
    let rig = Rig::new(Some(Level::Raid5), 3);
    rig.fill(0, &[0, 1], 3).await;
    let (disk, _) = rig.place(0, 0, 0);
    rig.corrupt(0, 2, 0);
    let hung = hang(&rig, disk);
    let crcs = crcs(0, 0, &cluster(3)[..1]);
    let read = rig.raid.read(&rig.set, 0, 0, &crcs);
    let later = async {
        ring::sleep(Duration::from_millis(100)).await;
        let_go(&hung);
    };
    let (read, ()) = soon(ring::wait::both(read, later)).await.expect("it has answered");
    read.unwrap().data.as_slice().unwrap() == block(cluster(3)[0])
}

#[test]
fn what_others_give_is_proved_or_the_disk_is_waited_for() {
    on_a_core(async {
        assert!(beside_a_wrong_parity().await);
    });
}

#[cfg(feature = "mutants")]
#[test]
fn what_is_not_proved_would_be_wrong() {
    on_a_core(async {
        plant(Some(Mutant::TrustOthers));
        assert!(!beside_a_wrong_parity().await);
        plant(None);
    });
}

#[test]
fn a_copy_of_a_page_is_not_waited_for_where_another_one_answers() {
    on_a_core(async {
        let rig = Rig::new(None, 3);
        rig.fill(0, &[0], 3).await;
        let hung = hang(&rig, 0);
        let read = async |seat| rig.raid.read_copy(&rig.set, 0, 0..1, (seat, false)).await;
        let first = soon(read(0)).await.expect("it is not waited for");
        assert_eq!(first.err(), Some(ReadError::Later(BlockError::Busy)));
        assert!(rig.raid.is_late(rig.set.seats()[0]) && !rig.raid.is_late(rig.set.seats()[1]));
        assert!(read(1).await.is_ok());
        let_go(&hung);
        assert!(soon(read(0)).await.is_some_and(|read| read.is_ok()));
    });
}

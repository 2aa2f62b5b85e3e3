//! Disks that fail, come back, leave and join.

use std::sync::Arc;
use std::time::Duration;

use array::api::{DiskState, JobKind, VolumeSpec, VolumeState};
use array::{Array, ArrayError, Level, Member, OpenOptions, RingEnv};
use block::testing::{Fault, Operation, Rule};
use block::{BlockDevice, BlockError, WriteFlags};
use futures_util::future::join;

use crate::common::{Hasty, Shelf, all_online, bytes, read, run, sound, spec, until, write};
use crate::process::crash;

const MIB: usize = 1 << 20;

fn state(array: &Array, disk: usize) -> DiskState {
    array.disks()[disk].state
}

#[test]
fn every_level_goes_on_without_as_many_disks_as_it_may_lose() {
    for (level, losses) in [(Level::Raid10, 1), (Level::Raid5, 1), (Level::Raid6, 2)] {
        run(async move {
            let shelf = Shelf::new(6, 32);
            let array = shelf.create(level).await;
            array.create_volume(spec("v", 24)).await.unwrap();
            let volume = array.device("v").unwrap();
            let (one, two) = (bytes(4 * MIB, 1), bytes(3 * MIB, 2));
            write(&volume, 0, &one).await;
            array.checkpoint().await.unwrap();
            for disk in 0..losses {
                shelf.pull(disk);
            }
            assert_eq!(read(&volume, 0, one.len()).await, one, "{level}");
            write(&volume, MIB as u64, &two).await;
            write(&volume, 12 * MIB as u64, &one[..5000 / 512 * 512]).await;
            array.checkpoint().await.unwrap();
            let mut now = one.clone();
            now[MIB..].copy_from_slice(&two);
            assert_eq!(read(&volume, 0, now.len()).await, now, "{level}");
            assert_eq!(state(&array, 0), DiskState::Missing, "{level}");
            // They come back, and get what they missed.
            for disk in 0..losses {
                shelf.0[disk].heal();
            }
            until(&array, "disks are back", |array| {
                (0..losses).all(|d| state(array, d) == DiskState::Online)
            })
            .await;
            assert_eq!(read(&volume, 0, now.len()).await, now, "{level}");
            sound(&array).await;
            // What they were given is good: others may go now.
            for disk in losses..2 * losses {
                shelf.pull(disk);
            }
            assert_eq!(read(&volume, 0, now.len()).await, now, "{level}");
            array.close().await.unwrap();
        });
    }
}

#[test]
fn a_failed_disk_is_rebuilt_on_the_others() {
    for level in [Level::Raid10, Level::Raid5, Level::Raid6] {
        run(async move {
            let shelf = Shelf::new(6, 32);
            let array = shelf.create(level).await;
            array.create_volume(spec("v", 24)).await.unwrap();
            let volume = array.device("v").unwrap();
            let one = bytes(8 * MIB, 1);
            write(&volume, 0, &one).await;
            array.fail_disk("disk-1", false).await.unwrap();
            let later = bytes(MIB, 9);
            write(&volume, 9 * MIB as u64, &later).await;
            until(&array, "the disk has left", |array| array.disks().len() == 5).await;
            // Whole again: any other may go.
            shelf.pull(4);
            assert_eq!(read(&volume, 0, one.len()).await, one, "{level}");
            assert_eq!(read(&volume, 9 * MIB as u64, MIB).await, later, "{level}");
            array.close().await.unwrap();
        });
    }
}

#[test]
fn a_disk_is_added_and_another_retired() {
    run(async {
        let shelf = Shelf::new(5, 32);
        let array = shelf.create(Level::Raid5).await;
        array.create_volume(spec("v", 16)).await.unwrap();
        let volume = array.device("v").unwrap();
        let one = bytes(6 * MIB, 1);
        write(&volume, 0, &one).await;
        let new = Shelf::new(1, 32);
        let member = Member { name: "new".into(), ..new.members().remove(0) };
        array.replace_disk("disk-0", member).await.unwrap();
        until(&array, "the old disk has left", |array| {
            array.disks().iter().all(|d| d.name != "disk-0")
        })
        .await;
        shelf.pull(0);
        assert_eq!(read(&volume, 0, one.len()).await, one);
        sound(&array).await;
        array.close().await.unwrap();
        let mut members = shelf.members();
        members.extend(new.members());
        let array = Array::open(Arc::new(RingEnv), members, OpenOptions::default()).await.unwrap();
        let volume = array.device("v").unwrap();
        assert_eq!(read(&volume, 0, one.len()).await, one);
        array.close().await.unwrap();
    });
}

#[test]
fn a_damaged_block_is_healed_and_counted() {
    run(async {
        let shelf = Shelf::new(4, 32);
        let array = shelf.create(Level::Raid10).await;
        array.create_volume(spec("v", 8)).await.unwrap();
        let volume = array.device("v").unwrap();
        let one = bytes(2 * MIB, 1);
        write(&volume, 0, &one).await;
        array.checkpoint().await.unwrap();
        // Rot: everywhere in the data area of one disk.
        let disk = &shelf.0[2];
        let device: Arc<dyn block::BlockDevice> = Arc::clone(disk) as _;
        let size = 32 * MIB as u64;
        let mut rotten = 0;
        for at in (0..size - (1 << 20)).step_by(4096) {
            let block = read(&device, at, 4096).await;
            if rotten < 20 && one.chunks(4096).any(|chunk| chunk == block) {
                let mut bad = block.clone();
                bad[100] ^= 4;
                write(&device, at, &bad).await;
                rotten += 1;
            }
        }
        assert!(rotten > 10, "{rotten} blocks");
        for _ in 0..4 {
            assert_eq!(read(&volume, 0, one.len()).await, one);
        }
        sound(&array).await;
        until(&array, "healed", |array| array.disks()[2].healed_blocks >= rotten).await;
        assert!(array.disks()[2].errors_read >= 1);
        array.close().await.unwrap();
    });
}

#[test]
fn bad_disks_are_refused_with_a_reason_and_left_alone() {
    run(async {
        let shelf = Shelf::new(4, 32);
        let array = shelf.create(Level::Raid5).await;
        array.create_volume(spec("v", 8)).await.unwrap();
        write(&array.device("v").unwrap(), 0, &bytes(MIB, 1)).await;
        array.close().await.unwrap();
        let again = Array::create(Arc::new(RingEnv), shelf.members(), Default::default()).await;
        let text = again.unwrap_err().to_string();
        assert!(text.contains("belongs to array") && text.contains("disk-0"), "{text}");
        let few = Shelf::new(2, 32);
        let options = array::CreateOptions { level: Level::Raid6, ..Default::default() };
        let made = Array::create(Arc::new(RingEnv), few.members(), options).await;
        assert!(matches!(made, Err(ArrayError::TooFewDisks { .. })), "{made:?}");
        // Half of the disks do not have all data of RAID 5.
        let half: Vec<Member> = shelf.members().into_iter().take(2).collect();
        let opened = Array::open(Arc::new(RingEnv), half, OpenOptions::default()).await;
        let text = opened.unwrap_err().to_string();
        assert!(text.contains("2 of the 4") && text.contains("disk-2, disk-3"), "{text}");
        // Any order will do.
        let mut reversed = shelf.members();
        reversed.reverse();
        let opened = Array::open(Arc::new(RingEnv), reversed, OpenOptions::default()).await;
        opened.unwrap().close().await.unwrap();
    });
}

#[test]
fn a_volume_that_lost_too_many_disks_waits_for_them_and_others_go_on() {
    run(async {
        let shelf = Shelf::new(6, 48);
        let array = shelf.create(Level::Raid6).await;
        array
            .create_volume(VolumeSpec { level: Some(Level::Raid0), ..spec("weak", 8) })
            .await
            .unwrap();
        array.create_volume(spec("strong", 8)).await.unwrap();
        let (weak, strong) = (array.device("weak").unwrap(), array.device("strong").unwrap());
        let (one, two) = (bytes(4 * MIB, 1), bytes(2 * MIB, 2));
        write(&weak, 0, &one).await;
        write(&strong, 0, &one).await;
        array.checkpoint().await.unwrap();
        // In the journal when the disk goes: it must not get lost there.
        write(&weak, 4096, &two[..4096]).await;
        shelf.pull(5);
        for round in 0..20u64 {
            write(&strong, round * 8192, &two[..8192]).await;
            array.checkpoint().await.unwrap();
        }
        until(&array, "the weak volume is lost", |array| {
            array.volume("weak").unwrap().state == VolumeState::Lost
        })
        .await;
        assert_eq!(read(&strong, 0, 8192).await, two[..8192]);
        assert!(weak.read(0, 4 * MIB).await.is_err());
        shelf.0[5].heal();
        until(&array, "the weak volume is back", |array| {
            array.volume("weak").unwrap().state == VolumeState::Online
        })
        .await;
        ring::sleep(Duration::from_millis(50)).await;
        let mut now = one.clone();
        now[4096..8192].copy_from_slice(&two[..4096]);
        assert_eq!(read(&weak, 0, now.len()).await, now);
        write(&weak, MIB as u64, &two).await;
        array.checkpoint().await.unwrap();
        sound(&array).await;
        array.close().await.unwrap();
    });
}

#[test]
fn a_journal_of_its_own_is_needed_and_mirrored_when_there_are_two() {
    run(async {
        let (shelf, fast) = (Shelf::new(4, 32), Shelf::new(2, 16));
        let array = shelf.create_with_journal(&fast).await;
        array.create_volume(spec("v", 8)).await.unwrap();
        let volume = array.device("v").unwrap();
        let one = bytes(12288, 1);
        write(&volume, 4096, &one).await;
        crash((volume, array));
        let env = Arc::new(RingEnv);
        let without = Array::open(env.clone(), shelf.members(), OpenOptions::default()).await;
        let text = without.unwrap_err().to_string();
        assert!(text.contains("journal"), "{text}");
        let members = [shelf.members(), fast.members()].concat();
        let array = Array::open(env.clone(), members, OpenOptions::default()).await.unwrap();
        let volume = array.device("v").unwrap();
        // One of the two dies with its half of the mirror.
        fast.pull(0);
        write(&volume, 65536, &one).await;
        crash((volume, array));
        let mut members = shelf.members();
        members.push(fast.members().remove(1));
        let array = Array::open(env, members, OpenOptions::default()).await.unwrap();
        let volume = array.device("v").unwrap();
        assert_eq!(read(&volume, 4096, one.len()).await, one);
        assert_eq!(read(&volume, 65536, one.len()).await, one);
        array.close().await.unwrap();
    });
}

/// Where each data disk keeps its chunks.
const CHUNKS_AT: u64 = 8 << 20;

#[test]
fn a_suspect_disk_that_others_cannot_do_without_stays_in_use_and_says_so() {
    run(async {
        let shelf = Shelf::new(3, 64);
        let array = shelf.create(Level::Raid5).await;
        array.create_volume(spec("v", 64)).await.unwrap();
        let volume = array.device("v").unwrap();
        write(&volume, 0, &bytes(8 * MIB, 1)).await;
        array.checkpoint().await.unwrap();
        let fault = Fault::Fail(block::BlockError::Medium { at: 0 });
        shelf.0[1].inject(Rule::always(Operation::Read, fault).at(CHUNKS_AT..63 << 20));
        for at in (0..8 * MIB).step_by(16 << 10) {
            read(&volume, at as u64, 4096).await;
        }
        until(&array, "the disk is suspect", |array| state(array, 1) == DiskState::Suspect).await;
        let reason = array.disks()[1].reason.clone();
        assert!(reason.contains("add a disk"), "{reason}");
        // All that the disks can take is still there for hosts.
        let free = array.info().free_by_level;
        let free =
            free.iter().find(|space| space.raid == Level::Raid5).map(|space| space.free_bytes);
        assert!(free.is_some_and(|bytes| bytes > 16 << 20), "{free:?}");
        write(&volume, 16 * MIB as u64, &bytes(16 * MIB, 2)).await;
        array.checkpoint().await.unwrap();
        assert_eq!(read(&volume, 16 * MIB as u64, 16 * MIB).await, bytes(16 * MIB, 2));
        // With a disk that can take over it is emptied, and leaves.
        let new = Shelf::new(1, 64);
        let member = Member { name: "new".into(), ..new.members().remove(0) };
        array.add_disk(member).await.unwrap();
        until(&array, "it has left", |array| {
            array.disks().iter().all(|disk| disk.name != "disk-1")
        })
        .await;
        shelf.0[1].heal();
        assert_eq!(read(&volume, 0, 8 * MIB).await, bytes(8 * MIB, 1));
        array.close().await.unwrap();
    });
}

/// What the array says of disks that have left.
fn departed(array: &Array) -> Vec<String> {
    let mut warnings = array.info().warnings;
    warnings.retain(|text| text.contains("has left the array"));
    warnings
}

/// A disk that makes errors is emptied and leaves: the array says so, also after a restart, until it is dealt with.
#[test]
fn a_disk_that_has_left_by_itself_is_told_of_until_somebody_has_dealt_with_it() {
    for is_added in [true, false] {
        run(async move {
            let shelf = Shelf::new(5, 64);
            let array = shelf.create(Level::Raid10).await;
            array.create_volume(spec("v", 64)).await.unwrap();
            let volume = array.device("v").unwrap();
            write(&volume, 0, &bytes(8 * MIB, 1)).await;
            array.checkpoint().await.unwrap();
            let fault = Fault::Fail(BlockError::Medium { at: 0 });
            shelf.0[1].inject(Rule::always(Operation::Read, fault).at(CHUNKS_AT..63 << 20));
            for at in (0..8 * MIB).step_by(4 << 10) {
                read(&volume, at as u64, 4096).await;
            }
            until(&array, "it has left", |array| array.disks().len() == 4).await;
            let told = departed(&array);
            assert!(told.len() == 1 && told[0].contains("disk disk-1 has left"), "{told:?}");
            assert!(told[0].contains("it made too many errors"), "{told:?}");
            assert_eq!(array.departed().len(), 1);
            // One that an operator sends away is no news to him.
            array.retire_disk("disk-2").await.unwrap();
            until(&array, "it has left too", |array| array.disks().len() == 3).await;
            assert_eq!(departed(&array), told);
            drop(volume);
            array.close().await.unwrap();
            let left = [0, 3, 4].map(|disk| shelf.members().remove(disk));
            let options = OpenOptions::default();
            let array = Array::open(Arc::new(RingEnv), left.into(), options).await.unwrap();
            assert_eq!(departed(&array), told, "a restart deals with nothing");
            if is_added {
                let new = Shelf::new(1, 64).members().remove(0);
                array.add_disk(Member { name: "new".into(), ..new }).await.unwrap();
            } else {
                let number = array.departed()[0].0.0.to_string();
                array.clear_disk(&number).await.unwrap();
                assert!(array.clear_disk(&number).await.is_err(), "it is no disk any more");
            }
            assert_eq!(departed(&array), Vec::<String>::new());
            assert_eq!(array.departed(), []);
            sound(&array).await;
            array.close().await.unwrap();
        });
    }
}

#[test]
fn a_disk_whose_cable_was_mended_is_forgiven() {
    run(async {
        let shelf = Shelf::new(3, 64);
        let array = shelf.create(Level::Raid5).await;
        array.create_volume(spec("v", 64)).await.unwrap();
        let volume = array.device("v").unwrap();
        write(&volume, 0, &bytes(8 * MIB, 1)).await;
        array.checkpoint().await.unwrap();
        let fault = Fault::Fail(block::BlockError::Medium { at: 0 });
        shelf.0[1].inject(Rule::always(Operation::Read, fault).at(CHUNKS_AT..63 << 20));
        for at in (0..8 * MIB).step_by(16 << 10) {
            read(&volume, at as u64, 4096).await;
        }
        until(&array, "the disk is suspect", |array| state(array, 1) == DiskState::Suspect).await;
        shelf.0[1].heal();
        array.clear_disk("disk-1").await.unwrap();
        until(&array, "it is as the others", |array| state(array, 1) == DiskState::Online).await;
        let disk = array.disks().remove(1);
        assert_eq!(
            (disk.errors_read, disk.errors_write, disk.healed_blocks),
            (0, 0, 0),
            "{disk:?}"
        );
        // It takes its part of what is new, and is emptied by nobody.
        write(&volume, 16 * MIB as u64, &bytes(16 * MIB, 2)).await;
        array.checkpoint().await.unwrap();
        assert!(array.disks()[1].used_bytes > disk.used_bytes, "{:?}", array.disks());
        assert_eq!(read(&volume, 0, 8 * MIB).await, bytes(8 * MIB, 1));
        sound(&array).await;
        array.close().await.unwrap();
    });
}

/// Its data is on its way to other disks when the cable is mended: what is on its way arrives, but the disk does not
/// leave, and takes new data as the others do.
#[test]
fn a_disk_that_is_forgiven_while_it_is_emptied_stays_and_is_used() {
    run(async {
        let shelf = Shelf::new(6, 64);
        let array = shelf.create(Level::Raid5).await;
        array.create_volume(spec("v", 128)).await.unwrap();
        let volume = array.device("v").unwrap();
        write(&volume, 0, &bytes(16 * MIB, 1)).await;
        array.checkpoint().await.unwrap();
        let fault = Fault::Fail(BlockError::Medium { at: 0 });
        shelf.0[1].inject(Rule::always(Operation::Read, fault).at(CHUNKS_AT..63 << 20));
        // The others take nothing until it is forgiven, so that it has not left by then.
        let others = || shelf.0.iter().enumerate().filter(|(disk, _)| *disk != 1);
        for (_, disk) in others() {
            disk.inject(Rule::always(Operation::Write, Fault::Hang).at(CHUNKS_AT..63 << 20));
        }
        for at in (0..16 * MIB).step_by(16 << 10) {
            read(&volume, at as u64, 4096).await;
        }
        until(&array, "it is emptied", |array| {
            let disk = array.disks().remove(1);
            disk.state == DiskState::Suspect
                && disk.reason.contains("being copied to other disks")
                && others().any(|(_, disk)| disk.held() > 0)
        })
        .await;
        shelf.0[1].heal();
        array.clear_disk("disk-1").await.unwrap();
        for (_, disk) in others() {
            disk.heal();
            disk.release();
        }
        until(&array, "it is as the others", |array| state(array, 1) == DiskState::Online).await;
        until(&array, "nothing moves", Array::is_settled).await;
        let before = array.disks().remove(1);
        write(&volume, 32 * MIB as u64, &bytes(64 * MIB, 2)).await;
        array.checkpoint().await.unwrap();
        let after = array.disks().remove(1);
        assert!(after.used_bytes > before.used_bytes, "{after:?} after {before:?}");
        assert_eq!(read(&volume, 0, 16 * MIB).await, bytes(16 * MIB, 1));
        assert_eq!(read(&volume, 32 * MIB as u64, 64 * MIB).await, bytes(64 * MIB, 2));
        sound(&array).await;
        array.close().await.unwrap();
    });
}

#[test]
fn blocks_are_healed_while_a_rebuild_runs() {
    run(async {
        let shelf = Shelf::new(6, 64);
        let array = shelf.create(Level::Raid10).await;
        array.create_volume(spec("v", 64)).await.unwrap();
        let volume = array.device("v").unwrap();
        let whole = bytes(32 * MIB, 1);
        write(&volume, 0, &whole).await;
        array.checkpoint().await.unwrap();
        let rot = crate::common::data(&bytes(4 * MIB, 77));
        shelf.0[0].write(CHUNKS_AT, rot, WriteFlags::VOLATILE).await.unwrap();
        // A rebuild that takes seconds: all disks but the rotten one are slow.
        for disk in &shelf.0[1..] {
            let slow = Rule::always(Operation::Write, Fault::Delay(Duration::from_secs(3)));
            disk.inject(slow.at(CHUNKS_AT..63 << 20));
        }
        array.fail_disk("disk-5", false).await.unwrap();
        let rebuilds = |array: &Array| array.jobs().iter().any(|job| job.kind == JobKind::Rebuild);
        until(&array, "the rebuild runs", rebuilds).await;
        for at in (0..32 * MIB).step_by(64 << 10) {
            assert_eq!(read(&volume, at as u64, 4096).await, whole[at..at + 4096]);
            assert_eq!(read(&volume, at as u64, 4096).await, whole[at..at + 4096]);
        }
        until(&array, "a block is healed", |array| array.disks()[0].healed_blocks > 0).await;
        assert!(rebuilds(&array), "it did not wait for the rebuild");
        array.close().await.unwrap();
    });
}

/// A disk is long about the label with which it is to come back, and an operator adds it meanwhile: the
/// first label must not come over those that it has got since.
#[test]
fn a_disk_that_is_taken_back_twice_at_once_keeps_its_newest_label() {
    run(async {
        let shelf = Shelf::new(4, 32);
        let array = shelf.create_in(Arc::new(Hasty), Level::Raid5).await;
        array.create_volume(spec("v", 8)).await.unwrap();
        let volume = array.device("v").unwrap();
        shelf.pull(3);
        write(&volume, 0, &bytes(4 * MIB, 1)).await;
        array.checkpoint().await.unwrap();
        until(&array, "out", |array| state(array, 3) == DiskState::Missing).await;
        shelf.0[3].heal();
        let label = Rule::always(Operation::Write, Fault::Hang).at(0..64 << 10).times(1);
        shelf.0[3].inject(label);
        until(&array, "it is asked whether it is back", |_| shelf.0[3].held() > 0).await;
        let added = array.add_disk(shelf.members().swap_remove(3));
        let answer = async {
            ring::sleep(Duration::from_millis(500)).await;
            shelf.0[3].release();
        };
        // Whoever is second finds it in use.
        _ = join(added, answer).await;
        all_online(&array).await;
        ring::sleep(Duration::from_millis(100)).await;
        sound(&array).await;
        crash((volume, array));
        let array = shelf.open().await;
        let volume = array.device("v").unwrap();
        assert!(read(&volume, 0, 4 * MIB).await == bytes(4 * MIB, 1));
        sound(&array).await;
    });
}

/// A flush began before a disk was out and ends when it is back: what it has to say of it is old.
#[test]
fn a_disk_that_is_back_is_not_put_out_for_what_failed_before() {
    run(async {
        let shelf = Shelf::new(5, 32);
        let array = shelf.create_in(Arc::new(Hasty), Level::Raid6).await;
        array.create_volume(spec("v", 8)).await.unwrap();
        let volume = array.device("v").unwrap();
        write(&volume, 0, &bytes(4 * MIB, 1)).await;
        shelf.0[0].inject(Rule::always(Operation::Flush, Fault::Hang).times(1));
        let flush = array.checkpoint();
        let story = async {
            until(&array, "it is being flushed", |_| shelf.0[0].held() > 0).await;
            // It goes out for its label, which another one that goes out changes.
            let no = Fault::Fail(BlockError::Medium { at: 0 });
            shelf.0[3].inject(Rule::always(Operation::Write, no).at(0..64 << 10));
            array.fail_disk("disk-4", false).await.unwrap();
            until(&array, "out", |array| state(array, 3) == DiskState::Missing).await;
            shelf.0[3].heal();
            until(&array, "back", |array| state(array, 3) != DiskState::Missing).await;
            shelf.0[0].release();
        };
        join(flush, story).await.0.unwrap();
        until(&array, "up to date", |array| state(array, 3) == DiskState::Online).await;
        let events = array.events(0).0;
        let outs = events.iter().filter(|event| event.text.contains("disk-3 is out")).count();
        assert_eq!(outs, 1, "{events:?}");
    });
}

/// While a disk that is back is given what it missed, the next one that is lost takes data along: until then its
/// sets count as degraded, as the volume does.
#[test]
fn sets_are_degraded_until_a_disk_that_is_back_has_what_it_missed() {
    run(async {
        let shelf = Shelf::new(4, 32);
        let array = shelf.create_in(Arc::new(Hasty), Level::Raid5).await;
        array.create_volume(spec("v", 16)).await.unwrap();
        let volume = array.device("v").unwrap();
        let degraded = |array: &Array| {
            let sets = array.figures().sets;
            assert!(sets.iter().all(|set| set.degraded <= set.sets), "{sets:?}");
            sets.iter().map(|set| set.degraded).sum::<u64>()
        };
        write(&volume, 0, &bytes(4 * MIB, 1)).await;
        array.checkpoint().await.unwrap();
        assert_eq!(degraded(&array), 0);
        shelf.pull(3);
        write(&volume, 0, &bytes(4 * MIB, 2)).await;
        array.checkpoint().await.unwrap();
        until(&array, "out", |array| state(array, 3) == DiskState::Missing).await;
        assert!(degraded(&array) > 0);
        shelf.0[3].heal();
        shelf.0[3].inject(Rule::always(Operation::Write, Fault::Hang).at(CHUNKS_AT..31 << 20));
        until(&array, "it is given what it missed", |_| shelf.0[3].held() > 0).await;
        assert_eq!(state(&array, 3), DiskState::Resyncing);
        let there = array.volumes().remove(0);
        assert_eq!(there.state, VolumeState::Degraded, "{}", there.reason);
        assert!(degraded(&array) > 0, "it is back, and has not got all");
        shelf.0[3].heal();
        shelf.0[3].release();
        all_online(&array).await;
        until(&array, "whole", |array| degraded(array) == 0).await;
        sound(&array).await;
    });
}

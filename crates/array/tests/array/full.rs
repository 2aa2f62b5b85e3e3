//! Arrays without free space: a write is refused when it comes, and what was accepted finds its
//! place.

use std::ops::Range;
use std::sync::Arc;

use array::{Array, Level, OpenOptions, RingEnv};
use block::testing::{Fault, Operation, Rule};
use block::{BlockDevice, BlockError, WriteFlags};
use futures_util::future::join_all;

use crate::common::{Hasty, Shelf, all_online, bytes, data, read, run, sound, spec, until, write};
use crate::process::crash;

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;
const CLUSTER: u64 = 64 * KIB;
/// More than the chunks that are kept for metadata could give.
const CLUSTERS: u64 = 64;

/// Mirrored disks, with a thick volume `thick` and a volume `filler` that is larger than they are.
async fn small() -> (Shelf, Array) {
    let shelf = Shelf::new(2, 32);
    let array = shelf.create(Level::Raid1).await;
    let thick = array::api::VolumeSpec { thick: true, ..spec("thick", (CLUSTERS * CLUSTER) >> 20) };
    array.create_volume(thick).await.expect("there is room");
    array.create_volume(spec("filler", 64)).await.expect("thin volumes may be larger");
    (shelf, array)
}

/// Writes a block into each of these clusters, as far as there is space; how many were written.
async fn put(device: &Arc<dyn BlockDevice>, clusters: std::ops::Range<u64>, seed: u8) -> u64 {
    let mut done = 0;
    for cluster in clusters {
        let block = data(&bytes(4096, seed));
        match device.write(cluster * CLUSTER, block, WriteFlags::DURABLE).await {
            Ok(()) => done += 1,
            Err(BlockError::NoSpace) => {}
            Err(error) => panic!("cluster {cluster}: {error}"),
        }
    }
    done
}

/// Leaves no space for others; how many clusters that took.
async fn fill(array: &Array) -> u64 {
    let filler = array.device("filler").expect("it is there");
    for cluster in 0..1024 {
        let whole = data(&bytes(CLUSTER as usize, 9));
        if filler.write(cluster * CLUSTER, whole, WriteFlags::DURABLE).await.is_err() {
            return cluster;
        }
    }
    panic!("the disks have no end");
}

#[test]
fn what_a_thick_volume_unmaps_is_for_itself_again() {
    run(async {
        let (_shelf, array) = small().await;
        let thick = array.device("thick").unwrap();
        assert_eq!(put(&thick, 0..CLUSTERS, 1).await, CLUSTERS);
        array.checkpoint().await.unwrap();
        let filled = fill(&array).await;
        let filler = array.device("filler").unwrap();
        // The space comes back with a checkpoint, and the filler is the first who asks for it.
        thick.unmap(0, CLUSTERS * CLUSTER).await.unwrap();
        array.checkpoint().await.unwrap();
        put(&filler, filled..filled + CLUSTERS, 2).await;
        assert_eq!(put(&thick, 0..CLUSTERS, 3).await, CLUSTERS, "it has room for its size");
        array.checkpoint().await.expect("what was accepted has a place");
        assert_eq!(read(&thick, 5 * CLUSTER, 4096).await, bytes(4096, 3));
        sound(&array).await;
        array.close().await.unwrap();
    });
}

#[test]
fn what_a_snapshot_of_a_thick_volume_keeps_takes_other_space() {
    run(async {
        let (_shelf, array) = small().await;
        let thick = array.device("thick").unwrap();
        let half = CLUSTERS / 2;
        assert_eq!(put(&thick, 0..half, 1).await, half);
        fill(&array).await;
        array.snapshot(&[("thick", Some("s"))]).await.unwrap();
        assert_eq!(put(&thick, half..CLUSTERS, 2).await, half, "what was never written has room");
        assert_eq!(put(&thick, 0..half, 3).await, 0, "no room for two versions of these");
        array.checkpoint().await.expect("nothing was accepted that has no place");
        assert_eq!(read(&thick, 0, 4096).await, bytes(4096, 1), "what was refused did not happen");
        // The filler gives some back: now there is room for two.
        array.device("filler").unwrap().unmap(0, CLUSTERS * CLUSTER).await.unwrap();
        assert_eq!(put(&thick, 0..half, 3).await, half);
        array.checkpoint().await.unwrap();
        let snapshot = array.snapshot_device("thick", "s").unwrap();
        assert_eq!(read(&snapshot, 0, 4096).await, bytes(4096, 1));
        sound(&array).await;
        array.close().await.unwrap();
    });
}

/// The maps have their set before the array is full. Those of one that is filled before its first checkpoint is through
/// take what is kept for them, and that much is kept again of what is given back, before others get any of it.
async fn maps_first(array: &Array, name: &str) {
    write(&array.device(name).expect("it is there"), 0, &bytes(4096, 9)).await;
    array.checkpoint().await.expect("there is room");
}

/// Leaves no space for others, all of it taken before a checkpoint comes to its maps; how many clusters that took.
async fn fill_at_once(array: &Array, name: &str) -> u64 {
    let device = array.device(name).expect("it is there");
    let piece = || data(&bytes(MIB as usize, 9));
    let writes = (0..48).map(|mib| device.write(mib * MIB, piece(), WriteFlags::DURABLE));
    let written: Vec<bool> = join_all(writes).await.iter().map(Result::is_ok).collect();
    let first = written.iter().take_while(|is_written| **is_written).count();
    assert!(first < written.len() && !written[first..].contains(&true), "{written:?}");
    first as u64 * MIB / CLUSTER
}

#[test]
fn what_was_accepted_before_a_crash_has_its_place_afterwards() {
    for is_share_used in [false, true] {
        run(accept_and_crash(is_share_used));
    }
}

/// On an array whose maps have their set beside what is kept for them, or have used that.
async fn accept_and_crash(is_share_used: bool) {
    let (shelf, array) = small().await;
    array.create_volume(spec("v", 16)).await.expect("there is room");
    let filled = if is_share_used {
        fill_at_once(&array, "filler").await
    } else {
        maps_first(&array, "filler").await;
        fill(&array).await
    };
    let used = if is_share_used { 24 } else { 23 };
    assert_eq!(used_mib(&array), [used, used], "one chunk of 24 is kept for maps");
    let filler = array.device("filler").expect("it is there");
    filler.unmap(0, 2 * CLUSTERS * CLUSTER).await.expect("no disk fails");
    array.checkpoint().await.expect("no disk fails");
    array.checkpoint().await.expect("no disk fails");
    // Both versions wait in the journal, and take all of that, but for what is kept for maps anew.
    let volume = array.device("v").expect("it is there");
    write(&volume, 0, &bytes(4096, 1)).await;
    assert_eq!(put(&volume, 1..CLUSTERS, 1).await, CLUSTERS - 1);
    array.snapshot(&[("v", Some("s"))]).await.expect("there is room");
    let twice = if is_share_used { CLUSTERS - MIB / CLUSTER } else { CLUSTERS };
    assert_eq!(put(&volume, 0..twice, 2).await, twice);
    crash((volume, filler, array));

    let array = shelf.open().await;
    let filler = array.device("filler").expect("it is there");
    let more = put(&filler, filled..filled + CLUSTERS, 3).await;
    array.checkpoint().await.expect("what was accepted has a place");
    assert!(more < CLUSTERS / 4, "{more} clusters were left");
    let volume = array.device("v").expect("it is there");
    let snapshot = array.snapshot_device("v", "s").expect("it is there");
    for cluster in 0..CLUSTERS {
        let seed = if cluster < twice { 2 } else { 1 };
        assert!(read(&volume, cluster * CLUSTER, 4096).await == bytes(4096, seed), "{cluster}");
        assert!(read(&snapshot, cluster * CLUSTER, 4096).await == bytes(4096, 1), "{cluster}");
    }
    assert_eq!(put(&array.device("thick").expect("it is there"), 0..CLUSTERS, 4).await, CLUSTERS);
    sound(&array).await;
    array.close().await.expect("no disk fails");
}

/// What a thick volume may have at most.
async fn room(array: &Array) -> u64 {
    let huge = array::api::VolumeSpec { thick: true, ..spec("huge", 1 << 20) };
    match array.create_volume(huge).await {
        Err(array::ArrayError::NoSpace { free_bytes, .. }) => free_bytes,
        other => panic!("a terabyte fits: {other:?}"),
    }
}

#[test]
fn of_two_thick_volumes_at_once_one_is_refused_if_both_do_not_fit() {
    run(async {
        let shelf = Shelf::new(2, 64);
        let array = shelf.create(Level::Raid1).await;
        let mib = (room(&array).await >> 20) * 6 / 10;
        let thick = |name| array::api::VolumeSpec { thick: true, ..spec(name, mib) };
        let (one, two) = (array.create_volume(thick("one")), array.create_volume(thick("two")));
        let made = futures_util::future::join(one, two).await;
        let name = match made {
            (Ok(_), Err(array::ArrayError::NoSpace { .. })) => "one",
            (Err(array::ArrayError::NoSpace { .. }), Ok(_)) => "two",
            other => panic!("one of them has room: {other:?}"),
        };
        let (device, clusters) = (array.device(name).unwrap(), (mib << 20) / CLUSTER);
        assert_eq!(put(&device, 0..clusters, 1).await, clusters);
        array.close().await.unwrap();
    });
}

#[test]
fn a_thick_volume_that_is_made_beside_writers_has_room_for_all_of_it() {
    run(async {
        let shelf = Shelf::new(2, 64);
        let array = shelf.create(Level::Raid1).await;
        array.create_volume(spec("filler", 256)).await.unwrap();
        let mib = (room(&array).await >> 20) * 6 / 10;
        let filler = array.device("filler").unwrap();
        let writer = async {
            for cluster in 0..2048 {
                let whole = data(&bytes(CLUSTER as usize, 9));
                if filler.write(cluster * CLUSTER, whole, WriteFlags::DURABLE).await.is_err() {
                    return;
                }
            }
        };
        let thick = array::api::VolumeSpec { thick: true, ..spec("thick", mib) };
        let (made, ()) = futures_util::future::join(array.create_volume(thick), writer).await;
        made.expect("there was room when it was asked for");
        let (device, clusters) = (array.device("thick").unwrap(), (mib << 20) / CLUSTER);
        assert_eq!(put(&device, 0..clusters, 1).await, clusters, "what was promised is there");
        // In the recycle bin nothing is kept for it, and others may have taken it.
        device.unmap(0, clusters * CLUSTER).await.unwrap();
        array.set_volume_online("thick", false).await.unwrap();
        array.delete_volume("thick").await.unwrap();
        fill(&array).await;
        let back = array.undelete_volume("thick").await;
        assert!(
            matches!(
                back,
                Err(array::ArrayError::NoSpace { .. } | array::ArrayError::NotDeleted(_))
            ),
            "{back:?}"
        );
        sound(&array).await;
        array.close().await.unwrap();
    });
}

#[test]
fn maps_find_room_when_only_one_of_the_disks_that_are_left_has_some() {
    run(async {
        let mut shelf = Shelf::new(4, 24);
        shelf.0[2] = Shelf::new(1, 16).0.remove(0);
        let array = shelf.create(Level::Raid6).await;
        array.create_volume(spec("v", 16)).await.unwrap();
        let volume = array.device("v").unwrap();
        let mut clusters = 0;
        // Sets come to all of the small disk, and no page of a map is anywhere yet.
        while array.disks()[2].used_bytes < 8 << 20 {
            write(&volume, clusters * CLUSTER, &bytes(CLUSTER as usize, clusters as u8)).await;
            clusters += 1;
        }
        crash((volume, array));
        let mut members = shelf.members();
        members.remove(3);
        members.remove(1);
        let opened = Array::open(Arc::new(RingEnv), members, OpenOptions::default()).await;
        let array = opened.expect("two may be away");
        let volume = array.device("v").unwrap();
        for cluster in 0..clusters {
            let found = read(&volume, cluster * CLUSTER, CLUSTER as usize).await;
            assert!(found == bytes(CLUSTER as usize, cluster as u8), "cluster {cluster}");
        }
        crash((volume, array));
        // The maps get their other copies when the disks are back.
        let array = shelf.open().await;
        all_online(&array).await;
        shelf.pull(0);
        let volume = array.device("v").unwrap();
        for cluster in 0..clusters {
            let found = read(&volume, cluster * CLUSTER, CLUSTER as usize).await;
            assert!(found == bytes(CLUSTER as usize, cluster as u8), "cluster {cluster}");
        }
        array.checkpoint().await.unwrap();
        crash((volume, array));
        let mut members = shelf.members();
        members.remove(0);
        let opened = Array::open(Arc::new(RingEnv), members, OpenOptions::default()).await;
        sound(&opened.expect("one may be away")).await;
    });
}

/// A file system under sparse files gives no new blocks; what they have can be written.
fn fill_beneath(shelf: &Shelf, bytes: Range<u64>) {
    for disk in &shelf.0 {
        let fault = Fault::Fail(BlockError::NoSpace);
        disk.inject(Rule::always(Operation::Write, fault).at(bytes.clone()));
    }
}

/// Where the labels and the checkpoints end, and the data begins.
const RING: u64 = 64 * KIB + 2 * MIB + 1536 * KIB;
const DATA: u64 = RING + 4 * MIB;

/// With the journal so full that what it keeps of a volume is written once more, part of the ring, all of
/// it or all of the disks take nothing.
#[test]
fn an_array_on_a_full_file_system_says_so_at_every_start_and_opens_when_there_is_room() {
    for from in [0, RING, RING + 2 * MIB, RING + 2 * MIB + 256 * KIB, DATA] {
        run(async move {
            let shelf = Shelf::new(4, 32);
            let array = shelf.create(Level::Raid5).await;
            let weak = array::api::VolumeSpec { level: Some(Level::Raid0), ..spec("weak", 8) };
            array.create_volume(weak).await.unwrap();
            array.create_volume(spec("other", 8)).await.unwrap();
            let (weak, other) = (array.device("weak").unwrap(), array.device("other").unwrap());
            write(&weak, 0, &bytes(4 * MIB as usize, 10)).await;
            array.checkpoint().await.unwrap();
            for block in 0..380 {
                write(&weak, block * 8 * KIB, &bytes(4096, 20)).await;
                write(&other, block % 8 * 8 * KIB, &bytes(4096, 30)).await;
            }
            // As after a crash.
            crash((weak, other, array));
            fill_beneath(&shelf, from..u64::MAX);
            for start in 0..4 {
                let env = Arc::new(RingEnv);
                let opened = Array::open(env, shelf.members(), OpenOptions::default()).await;
                let error = match opened {
                    Err(error) => error.to_string(),
                    // It opens with a volume set aside, as nothing else needs new blocks.
                    Ok(_) if from == DATA => continue,
                    Ok(_) => panic!("start {start} from {from:#x}: it opens"),
                };
                let told = error.starts_with("no space is left where disk-");
                assert!(told && error.contains("make room there"), "{from:#x} {start}: {error}");
            }
            shelf.0.iter().for_each(|disk| disk.heal());
            let array = shelf.open().await;
            all_online(&array).await;
            array.checkpoint().await.unwrap();
            let (weak, other) = (array.device("weak").unwrap(), array.device("other").unwrap());
            for block in 0..380 {
                assert!(read(&weak, block * 8 * KIB, 4096).await == bytes(4096, 20), "{block}");
                assert!(
                    read(&other, block % 8 * 8 * KIB, 4096).await == bytes(4096, 30),
                    "{block}"
                );
            }
            sound(&array).await;
        });
    }
}

#[test]
fn a_rebuild_on_an_array_that_is_full_leaves_what_maps_need() {
    run(async {
        let shelf = Shelf::new(4, 64);
        let array = Shelf(shelf.0[..3].to_vec()).create(Level::Raid1).await;
        let mib = (room(&array).await >> 20) * 8 / 10;
        let thick = array::api::VolumeSpec { thick: true, ..spec("thick", mib) };
        array.create_volume(thick).await.unwrap();
        array.create_volume(spec("thin", 64)).await.unwrap();
        array.fail_disk("disk-0", false).await.unwrap();
        until(&array, "the disks that are left are full", |array| {
            array.disks()[1..3].iter().all(|disk| disk.used_bytes >= 55 * MIB)
        })
        .await;
        let (device, clusters) = (array.device("thick").unwrap(), (mib << 20) / CLUSTER);
        assert_eq!(put(&device, 0..clusters, 1).await, clusters);
        array.checkpoint().await.expect("there is room for maps");
        array.add_disk(shelf.members().remove(3)).await.unwrap();
        all_online(&array).await;
        sound(&array).await;
        array.close().await.unwrap();
    });
}

/// Fills a thin volume until a write is refused; how many clusters it took.
async fn fill_up(array: &Array, name: &str) -> u64 {
    let device = array.device(name).expect("it is there");
    for cluster in 0.. {
        let whole = data(&bytes(CLUSTER as usize, 9));
        if device.write(cluster * CLUSTER, whole, WriteFlags::DURABLE).await.is_err() {
            return cluster;
        }
    }
    unreachable!("the disks have an end")
}

fn used_mib(array: &Array) -> Vec<u64> {
    array.disks().iter().map(|disk| disk.used_bytes >> 20).collect()
}

#[test]
fn after_the_largest_disk_has_left_the_others_are_used() {
    run(async {
        let mut shelf = Shelf::new(4, 24);
        shelf.0[0] = Shelf::new(1, 128).0.remove(0);
        let array = shelf.create(Level::Raid1).await;
        array.create_volume(spec("v", 256)).await.unwrap();
        array.retire_disk("disk-0").await.unwrap();
        until(&array, "the large disk is gone", |array| array.disks().len() == 3).await;
        let clusters = fill_up(&array, "v").await;
        assert!(clusters * CLUSTER >= 16 * MIB, "{clusters} clusters, {:?} MiB", used_mib(&array));
        sound(&array).await;
        array.close().await.unwrap();
    });
}

#[test]
fn a_small_disk_is_no_end_for_large_ones() {
    run(async {
        let mut shelf = Shelf::new(3, 64);
        shelf.0[2] = Shelf::new(1, 24).0.remove(0);
        let array = Shelf(shelf.0[..2].to_vec()).create(Level::Raid1).await;
        array.create_volume(spec("v", 256)).await.unwrap();
        array.add_disk(shelf.members().remove(2)).await.unwrap();
        assert!(array.rebalance().await.unwrap());
        let clusters = fill_up(&array, "v").await;
        assert!(clusters * CLUSTER >= 50 * MIB, "{clusters} clusters, {:?} MiB", used_mib(&array));
        sound(&array).await;
        array.close().await.unwrap();
    });
}

#[test]
fn a_full_array_has_its_failed_disk_replaced_by_one_as_large() {
    run(async {
        for fails in [false, true] {
            let shelf = Shelf::new(4, 24);
            let array = Shelf(shelf.0[..3].to_vec()).create(Level::Raid5).await;
            array.create_volume(spec("v", 256)).await.unwrap();
            fill_up(&array, "v").await;
            let new = shelf.members().remove(3);
            if fails {
                array.fail_disk("disk-2", false).await.unwrap();
                array.add_disk(new).await.unwrap();
            } else {
                array.replace_disk("disk-2", new).await.unwrap();
            }
            all_online(&array).await;
            assert_eq!(array.disks().len(), 3, "the old one is gone");
            shelf.pull(1);
            let volume = array.device("v").unwrap();
            assert!(read(&volume, 0, CLUSTER as usize).await == bytes(CLUSTER as usize, 9));
        }
    });
}

#[test]
fn after_a_rebuild_on_a_full_array_and_a_disk_away_maps_find_room() {
    run(async {
        let shelf = Shelf::new(5, 24);
        let array = shelf.create_in(Arc::new(Hasty), Level::Raid1).await;
        array.create_volume(spec("v", 256)).await.unwrap();
        maps_first(&array, "v").await;
        let clusters = fill_up(&array, "v").await;
        array.fail_disk("disk-4", false).await.unwrap();
        until(&array, "the failed disk is empty", |array| array.disks().len() == 4).await;
        shelf.pull(3);
        // Longer than an absent disk is waited for.
        ring::sleep(std::time::Duration::from_millis(1500)).await;
        array.snapshot(&[("v", Some("s"))]).await.expect("there is room in the checkpoint");
        let volume = array.device("v").unwrap();
        let written = put(&volume, 0..clusters, 3).await;
        array.checkpoint().await.expect("there is room for maps");
        crash((volume, array));
        let mut members = shelf.members();
        members.remove(3);
        let opened = Array::open(Arc::new(RingEnv), members, OpenOptions::default()).await;
        sound(&opened.unwrap_or_else(|error| panic!("after {written} writes: {error}"))).await;
    });
}

/// Its maps have used what is kept for them: there is not room for all of the disk and for two copies of maps.
#[test]
fn a_rebuild_on_a_full_array_without_room_for_more_maps_ends_when_a_disk_is_added() {
    run(async {
        let shelf = Shelf::new(6, 24);
        let array = Shelf(shelf.0[..5].to_vec()).create_in(Arc::new(Hasty), Level::Raid1).await;
        array.create_volume(spec("v", 256)).await.unwrap();
        let clusters = fill_at_once(&array, "v").await;
        array.checkpoint().await.expect("maps have what is kept for them");
        array.fail_disk("disk-4", false).await.unwrap();
        until(&array, "all has moved that has room", |array| {
            let failed = &array.disks()[4];
            failed.reason.contains("no other disk can take its place") && failed.used_bytes <= MIB
        })
        .await;
        let used = used_mib(&array);
        assert_eq!(used.iter().sum::<u64>(), 4 * 16 - 2 + used[4], "two for maps: {used:?}");
        assert!(used[..4].iter().all(|used| *used >= 15), "on two disks: {used:?}");
        array.snapshot(&[("v", Some("s"))]).await.expect("there is room in the checkpoint");
        let volume = array.device("v").unwrap();
        put(&volume, 0..clusters, 3).await;
        array.checkpoint().await.expect("there is room for maps");
        array.add_disk(shelf.members().remove(5)).await.unwrap();
        until(&array, "the failed disk is gone", |array| array.disks().len() == 5).await;
        all_online(&array).await;
        sound(&array).await;
        let second = &bytes(CLUSTER as usize, 9)[4096..8192];
        for cluster in 0..clusters {
            assert!(read(&volume, cluster * CLUSTER + 4096, 4096).await == second, "{cluster}");
        }
        array.close().await.unwrap();
    });
}

/// A volume that was written in many places is discarded on an array that is full. That took room for a page of each of
/// its leaves, none of which was to be written: the array stopped, and no start got further.
#[test]
fn what_is_given_back_on_a_full_array_needs_no_room() {
    run(async {
        const LEAVES: u64 = 800;
        const LEAF: u64 = 51 * CLUSTER;
        let shelf = Shelf::new(3, 64);
        let array = shelf.create_in(Arc::new(Hasty), Level::Raid0).await;
        array.create_volume(spec("sparse", LEAVES * LEAF / MIB)).await.expect("it is thin");
        array.create_volume(spec("filler", 1024)).await.expect("it is thin");
        let sparse = array.device("sparse").expect("it is there");
        for leaf in 0..LEAVES - 1 {
            write(&sparse, leaf * LEAF, &bytes(4096, 1)).await;
            if leaf % 50 == 0 {
                array.checkpoint().await.expect("there is room");
            }
        }
        let filler = array.device("filler").expect("it is there");
        let mut at = 0;
        for step in [MIB, CLUSTER] {
            let piece = || data(&bytes(step as usize, 9));
            while filler.write(at, piece(), WriteFlags::DURABLE).await.is_ok() {
                at += step;
            }
        }
        array.checkpoint().await.expect("what was taken has its place");
        sparse.unmap(0, (LEAVES - 1) * LEAF).await.expect("it is given back");
        array.checkpoint().await.expect("to give back needs no room");
        let mapped = |array: &Array| array.volume("sparse").expect("it is there").used_bytes;
        assert_eq!(mapped(&array), 0);
        sound(&array).await;
        array.close().await.expect("it closes");
        drop(array);
        let array = Array::open(Arc::new(Hasty), shelf.members(), OpenOptions::default()).await;
        sound(&array.expect("it opens")).await;
    });
}

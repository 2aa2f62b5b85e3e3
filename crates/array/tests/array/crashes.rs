//! What a checkpoint that did not end leaves behind.

use std::sync::Arc;

use array::{Array, BLOCK_BYTES, Level, OpenOptions, RingEnv};
use block::testing::{Fault, Operation, Rule};
use block::{BlockDevice, BlockError, WriteFlags};

use crate::common::{Shelf, all_online, bytes, data, read, run, sound, spec, until, write};
use crate::process::crash;

const CLUSTER: u64 = 64 << 10;
/// One of each stripe changes, which makes several waves of parity updates: the redo area keeps
/// the last two.
const CLUSTERS: u64 = 128;
const COLUMNS: u64 = 4;
const MIB: usize = 1 << 20;
/// Most of a cluster, so that it is changed where it lies; all of them together do not fill so much of the journal that
/// a checkpoint begins before it is asked for.
const CHANGED: usize = 44 << 10;

fn old(cluster: u64) -> Vec<u8> {
    bytes(CLUSTER as usize, cluster as u8)
}

fn new(cluster: u64) -> Vec<u8> {
    bytes(CHANGED, 100 + cluster as u8)
}

/// Nobody's record of a checkpoint comes onto its disk.
fn hold_records(shelf: &Shelf) {
    (0..shelf.0.len()).for_each(|disk| shelf.at_records(disk, Fault::Hang));
}

/// Begins a checkpoint and waits until it has done all but its record.
async fn checkpoint_but_its_record(shelf: &Shelf, array: &Array) {
    hold_records(shelf);
    let asking = array.clone();
    ring::spawn(async move { drop(asking.checkpoint().await) });
    until(array, "the record", |_| shelf.0.iter().any(|disk| disk.held() > 0)).await;
}

/// An array of five disks with a volume that was changed, and ended before a checkpoint's record.
async fn interrupted(away: Option<usize>) -> Shelf {
    let shelf = Shelf::new(5, 32);
    let array = shelf.create(Level::Raid5).await;
    array.create_volume(spec("v", 8)).await.expect("it works");
    let volume = array.device("v").expect("it works");
    for cluster in 0..CLUSTERS {
        write(&volume, cluster * CLUSTER, &old(cluster)).await;
    }
    array.checkpoint().await.expect("it works");
    if let Some(disk) = away {
        shelf.pull(disk);
        // What finds the disk out wants a checkpoint for that: it must have ended, or the record that is held
        // would be its own, and nothing that comes now in it.
        write(&volume, 0, &new(0)).await;
        for _ in 0..2 {
            array.checkpoint().await.expect("it works");
        }
    }
    for cluster in (0..CLUSTERS).step_by(COLUMNS as usize) {
        write(&volume, cluster * CLUSTER, &new(cluster)).await;
    }
    checkpoint_but_its_record(&shelf, &array).await;
    crash((volume, array));
    shelf.0.iter().for_each(|disk| disk.heal());
    shelf
}

/// Nothing was found that had to be mended.
fn nothing_was_wrong(array: &Array) {
    for disk in array.disks() {
        assert_eq!((disk.errors_read, disk.healed_blocks), (0, 0), "{disk:?}");
    }
    let events = format!("{:?}", array.events(0));
    assert!(!events.contains("disagree"), "{events}");
}

async fn holds_all(array: &Array) {
    let volume = array.device("v").expect("it works");
    for cluster in 0..CLUSTERS {
        let found = read(&volume, cluster * CLUSTER, CLUSTER as usize).await;
        let mut wanted = old(cluster);
        if cluster.is_multiple_of(COLUMNS) {
            wanted[..CHANGED].copy_from_slice(&new(cluster));
        }
        assert!(found == wanted, "cluster {cluster}");
    }
}

#[test]
fn what_a_checkpoint_without_its_record_put_in_place_is_nobodys_fault() {
    run(async {
        let shelf = interrupted(None).await;
        let array = shelf.open().await;
        holds_all(&array).await;
        array.checkpoint().await.expect("it works");
        nothing_was_wrong(&array);
        holds_all(&array).await;
        sound(&array).await;
    });
}

#[test]
fn what_a_checkpoint_without_its_record_put_in_place_is_known_beside_a_missing_disk() {
    run(async {
        for away in 0..5 {
            let shelf = interrupted(None).await;
            let mut members = shelf.members();
            members.remove(away);
            let opened = Array::open(Arc::new(RingEnv), members, OpenOptions::default()).await;
            let array = opened.expect("one may be away");
            array.checkpoint().await.expect("it works");
            nothing_was_wrong(&array);
            holds_all(&array).await;
        }
    });
}

#[test]
fn what_a_checkpoint_without_its_record_put_where_others_are_written_now_is_forgotten() {
    run(async {
        let pattern = |of: u64| bytes(CLUSTER as usize, of as u8);
        for away in 0..5 {
            let shelf = Shelf::new(5, 32);
            let array = shelf.create(Level::Raid5).await;
            array.create_volume(spec("a", 8)).await.expect("it works");
            array.create_volume(spec("b", 8)).await.expect("it works");
            let (a, b) = (array.device("a").expect("a"), array.device("b").expect("b"));
            write(&a, 0, &pattern(10)).await;
            write(&b, 0, &pattern(20)).await;
            // The cluster of `a` begins a stripe, that of `b` joins it.
            checkpoint_but_its_record(&shelf, &array).await;
            // The next time there are two of `a`: the second takes the place of that of `b`.
            write(&a, CLUSTER, &pattern(30)).await;
            crash((a, b, array));
            shelf.0.iter().for_each(|disk| disk.heal());
            let mut members = shelf.members();
            members.remove(away);
            let opened = Array::open(Arc::new(RingEnv), members, OpenOptions::default()).await;
            let array = opened.expect("one may be away");
            nothing_was_wrong(&array);
            let (a, b) = (array.device("a").expect("a"), array.device("b").expect("b"));
            for (device, at, of) in [(&a, 0, 10), (&a, CLUSTER, 30), (&b, 0, 20)] {
                assert!(
                    read(device, at, CLUSTER as usize).await == pattern(of),
                    "{of} without {away}"
                );
            }
        }
    });
}

#[test]
fn what_a_disk_missed_of_a_checkpoint_without_its_record_it_is_given() {
    run(async {
        let shelf = interrupted(Some(4)).await;
        let array = shelf.open().await;
        all_online(&array).await;
        array.checkpoint().await.expect("it works");
        nothing_was_wrong(&array);
        shelf.pull(0);
        holds_all(&array).await;
    });
}

/// A disk was out, and when it is back another one is not there.
#[test]
fn what_a_disk_that_is_not_there_is_to_take_of_a_checkpoint_without_its_record_is_not_forgotten() {
    run(async {
        let mut refusals = 0;
        for away in 1..5 {
            let shelf = interrupted(Some(0)).await;
            let open = |accept_missing| {
                let mut members = shelf.members();
                members.remove(away);
                let options = OpenOptions { accept_missing, ..Default::default() };
                Array::open(Arc::new(RingEnv), members, options)
            };
            if let Err(refusal) = open(false).await {
                let text = format!("(missing: disk-{away}): add the missing disks, or accept");
                assert!(refusal.to_string().contains(&text), "{refusal}");
                refusals += 1;
            }
            let array = shelf.open().await;
            all_online(&array).await;
            holds_all(&array).await;
            nothing_was_wrong(&array);
            sound(&array).await;
            crash(array);
            open(true).await.expect("whatever that loses");
        }
        assert!(refusals > 0, "of two that have the same stripes");
    });
}

#[test]
fn a_disk_that_fails_while_a_checkpoint_without_its_record_is_done_again_gets_it_the_next_time() {
    run(async {
        let mut refusals = 0;
        for fails in 1..5 {
            let shelf = interrupted(Some(0)).await;
            let fault = Fault::Fail(BlockError::Medium { at: 0 });
            let rule = Rule::always(Operation::Write, fault).at(7 * MIB as u64..u64::MAX);
            shelf.0[fails].inject(rule);
            let options = OpenOptions::default();
            let opened = Array::open(Arc::new(RingEnv), shelf.members(), options).await;
            if let Err(refusal) = opened {
                let text = format!("(missing: disk-{fails})");
                assert!(refusal.to_string().contains(&text), "{refusal}");
                refusals += 1;
            }
            shelf.0[fails].heal();
            let array = shelf.open().await;
            all_online(&array).await;
            holds_all(&array).await;
            nothing_was_wrong(&array);
            sound(&array).await;
        }
        assert!(refusals > 0, "of two that have the same stripes");
    });
}

/// Lets the record that is held go and holds the next one.
async fn let_a_record_go(shelf: &Shelf, array: &Array) {
    shelf.0.iter().for_each(|disk| disk.heal());
    hold_records(shelf);
    shelf.0.iter().for_each(|disk| disk.release());
    until(array, "the record to be written", |_| held(shelf) == 0).await;
    checkpoint_but_its_record(shelf, array).await;
}

/// A volume goes, and `checkpoints` later its RAID set; another volume grows meanwhile.
async fn give_up_a_set(checkpoints: usize) {
    let shelf = Shelf::new(2, 32);
    let array = shelf.create(Level::Raid1).await;
    let of = |name, level| array::api::VolumeSpec { level: Some(level), ..spec(name, 4) };
    array.create_volume(of("gone", Level::Raid1)).await.expect("it works");
    array.create_volume(of("other", Level::Raid0)).await.expect("it works");
    let volume = array.device("gone").expect("it works");
    write(&volume, 0, &bytes(1 << 20, 1)).await;
    drop(volume);
    array.checkpoint().await.expect("it works");
    array.set_volume_online("gone", false).await.expect("it works");
    array.delete_volume("gone").await.expect("it works");
    // Each checkpoint from here on is seen.
    hold_records(&shelf);
    let purging = array.clone();
    ring::spawn(async move { drop(purging.purge_volume("gone").await) });
    until(&array, "the record", |_| shelf.0.iter().any(|disk| disk.held() > 0)).await;
    for _ in 0..checkpoints {
        let_a_record_go(&shelf, &array).await;
    }
    let volume = array.device("other").expect("it works");
    write(&volume, 0, &bytes(1 << 20, 2)).await;
    crash((volume, array));
    shelf.0.iter().for_each(|disk| disk.heal());
    let array = shelf.open().await;
    let volume = array.device("other").expect("it works");
    assert_eq!(read(&volume, 0, 1 << 20).await, bytes(1 << 20, 2));
    sound(&array).await;
}

#[test]
fn chunks_of_a_set_that_was_given_up_are_not_used_before_a_record_says_so() {
    run(async {
        // Until the record without the set is durable its chunks are the old record's.
        for checkpoints in 0..6 {
            give_up_a_set(checkpoints).await;
        }
    });
}

/// Where the redo area lies on the disks of an array: both halves were in use.
async fn redo_area(shelf: &Shelf) -> std::ops::Range<u64> {
    let disk = Arc::clone(&shelf.0[0]) as Arc<dyn BlockDevice>;
    let head = read(&disk, 0, 7 * MIB).await;
    let waves = head.chunks(BLOCK_BYTES).enumerate().filter(|(_, b)| b.starts_with(b"DRYSREDO"));
    let at: Vec<u64> = waves.map(|(index, _)| (index * BLOCK_BYTES) as u64).collect();
    assert_eq!(at.len(), 2, "a wave in each half");
    at[0]..at[0] + 2 * (at[1] - at[0])
}

fn held(shelf: &Shelf) -> usize {
    shelf.0.iter().map(|disk| disk.held()).sum()
}

/// Waits until more operations are held than `before`.
async fn more_held(shelf: &Shelf, before: usize) {
    for _ in 0..2000 {
        if held(shelf) > before {
            return;
        }
        ring::sleep(std::time::Duration::from_millis(5)).await;
    }
    panic!("nothing is held");
}

/// A crash before a checkpoint has noted what it put in place, a start that does it again, and a crash in
/// the middle of its first wave, which is written over the one that was done.
async fn done_again_and_written_over() -> Shelf {
    let shelf = Shelf::new(5, 32);
    let array = shelf.create(Level::Raid5).await;
    array.create_volume(spec("v", 8)).await.expect("it works");
    let volume = array.device("v").expect("it works");
    for cluster in 0..CLUSTERS {
        write(&volume, cluster * CLUSTER, &old(cluster)).await;
    }
    for _ in 0..2 {
        array.checkpoint().await.expect("it works");
        write(&volume, 0, &old(0)[..CHANGED]).await;
    }
    array.checkpoint().await.expect("it works");
    let redo = redo_area(&shelf).await;
    for cluster in (0..CLUSTERS).step_by(COLUMNS as usize).take(4) {
        write(&volume, cluster * CLUSTER, &new(cluster)).await;
    }
    let hold = |bytes: std::ops::Range<u64>| {
        let rule = || Rule::always(Operation::Write, Fault::Hang).at(bytes.clone());
        shelf.0.iter().for_each(|disk| disk.inject(rule()));
    };
    hold(redo.clone());
    let asking = array.clone();
    ring::spawn(async move { drop(asking.checkpoint().await) });
    more_held(&shelf, 0).await;
    // The wave goes to its place, and the journal gets no word of it.
    shelf.0.iter().for_each(|disk| disk.heal());
    hold(redo.end..7 * MIB as u64);
    shelf.0.iter().for_each(|disk| disk.release());
    until(&array, "the wave", |_| held(&shelf) == 0).await;
    more_held(&shelf, 0).await;
    crash((volume, array));
    shelf.0.iter().for_each(|disk| disk.heal());
    hold(redo.clone());
    let (members, before) = (shelf.members(), held(&shelf));
    ring::spawn(async move {
        drop(Array::open(Arc::new(RingEnv), members, OpenOptions::default()).await);
    });
    more_held(&shelf, before).await;
    shelf.0.iter().for_each(|disk| disk.heal());
    let zeroes = vec![0; (redo.end - redo.start) as usize];
    for disk in &shelf.0 {
        disk.write(redo.start, data(&zeroes), WriteFlags::DURABLE).await.expect("it works");
    }
    shelf
}

#[test]
fn what_a_start_has_done_again_is_known_when_its_own_waves_are_written_over_that() {
    run(async {
        for away in 0..5 {
            let shelf = done_again_and_written_over().await;
            let mut members = shelf.members();
            members.remove(away);
            let opened = Array::open(Arc::new(RingEnv), members, OpenOptions::default()).await;
            let array = opened.expect("one may be away");
            array.checkpoint().await.expect("it works");
            nothing_was_wrong(&array);
            let volume = array.device("v").expect("it works");
            for cluster in 0..CLUSTERS {
                let found = read(&volume, cluster * CLUSTER, CLUSTER as usize).await;
                let mut wanted = old(cluster);
                if cluster.is_multiple_of(COLUMNS) && cluster < 4 * COLUMNS {
                    wanted[..CHANGED].copy_from_slice(&new(cluster));
                }
                assert!(found == wanted, "cluster {cluster} without {away}");
            }
        }
    });
}

/// The newest batch of the journal on a disk: its number, and where on the disk it ends.
async fn newest_batch(disk: &Arc<dyn BlockDevice>) -> (u64, u64) {
    let mut newest = (0, 0);
    for at in (0..disk.geometry().size_bytes()).step_by(MIB) {
        let part = read(disk, at, MIB).await;
        for (index, block) in part.chunks(BLOCK_BYTES).enumerate() {
            if block.starts_with(b"DRYSJRNL") {
                let number = u64::from_le_bytes(block[24..32].try_into().expect("eight bytes"));
                let blocks = u32::from_le_bytes(block[56..60].try_into().expect("four bytes"));
                let end = at + (index as u64 + u64::from(blocks)) * BLOCK_BYTES as u64;
                newest = newest.max((number, end));
            }
        }
    }
    newest
}

/// What an earlier life left behind the end of the journal fits there no more: each holder gets a
/// batch of the new life before anything is served, and the word that nothing follows at the close.
#[test]
fn a_life_of_the_journal_has_a_begin_and_an_end() {
    run(async {
        let shelf = Shelf::new(2, 32);
        let array = shelf.create(Level::Raid10).await;
        array.create_volume(spec("v", 2)).await.unwrap();
        write(&array.device("v").unwrap(), 0, &bytes(BLOCK_BYTES, 1)).await;
        array.checkpoint().await.unwrap();
        let disks = || shelf.0.iter().map(|disk| Arc::clone(disk) as Arc<dyn BlockDevice>);
        let mut before = Vec::new();
        for disk in disks() {
            let (number, end) = newest_batch(&disk).await;
            disk.write(end, data(&bytes(BLOCK_BYTES, 2)), WriteFlags::VOLATILE).await.unwrap();
            before.push((number, end));
        }
        array.close().await.unwrap();
        for (disk, (number, end)) in disks().zip(&before) {
            assert_eq!(newest_batch(&disk).await, (*number, *end), "the close adds nothing");
            assert!(read(&disk, *end, BLOCK_BYTES).await.iter().all(|byte| *byte == 0));
        }
        let array = shelf.open().await;
        for (disk, (number, _)) in disks().zip(&before) {
            assert!(newest_batch(&disk).await.0 > *number, "nothing is served before that");
        }
        array.close().await.unwrap();
    });
}

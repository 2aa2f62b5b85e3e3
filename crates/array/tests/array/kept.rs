//! What the journal keeps for a volume that is set aside while it has no room to write it again.

use std::ops::Range;
use std::sync::Arc;

use array::api::{DiskState, VolumeSpec, VolumeState};
use array::{Array, Level};
use block::testing::{Fault, Operation, Rule};
use block::{BlockDevice, BlockError, WriteFlags};
use futures_util::future::{join, join_all};

use crate::common::{
    Paced, Shelf, all_online, bytes, data, in_turns, read, run, sound, spec, until, write,
};
use crate::process::crash;

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;
const BLOCK: usize = 4096;
const CLUSTER: usize = 16 * BLOCK;

/// Where data lies on the disks of a shelf.
const DATA: Range<u64> = 7 * MIB..u64::MAX;

fn refuse_data(shelf: &Shelf, disk: usize) {
    let fault = Fault::Fail(BlockError::Medium { at: 0 });
    shelf.0[disk].inject(Rule::always(Operation::Write, fault).at(DATA));
}

fn weak(name: &str) -> VolumeSpec {
    VolumeSpec { level: Some(Level::Raid0), ..spec(name, 8) }
}

/// Writes block by block until one write waits; how many were answered.
async fn write_until_full(device: &Arc<dyn BlockDevice>, seed: u8) -> u64 {
    let blocks = device.geometry().size_bytes() / BLOCK as u64;
    for block in 0..blocks {
        let one = data(&bytes(BLOCK, seed));
        let write = device.write(block * BLOCK as u64, one, WriteFlags::DURABLE);
        match in_turns(500, write).await {
            Some(written) => written.expect("it waits, or is written"),
            None => return block,
        }
    }
    panic!("the journal has room for {blocks} blocks");
}

fn is_aside(array: &Array, name: &str) -> bool {
    array.volume(name).is_ok_and(|volume| volume.state == VolumeState::Lost)
}

/// An array to which nobody can write any more: a lost volume has the journal.
struct Full {
    array: Array,
    /// Blocks of `weak` that are those of seed 20, from its begin on. The others are as in `BASE`.
    changed: u64,
    /// Blocks of `other`, from its begin on, that are those of seed 30.
    written: u64,
}

/// What was in `weak` before, of seed 10.
const BASE: usize = 4 << 20;

async fn full(shelf: &Shelf) -> Full {
    let array = shelf.create(Level::Raid1).await;
    array.create_volume(weak("weak")).await.expect("it works");
    array.create_volume(spec("other", 16)).await.expect("it works");
    let (volume, other) =
        (array.device("weak").expect("it works"), array.device("other").expect("it works"));
    write(&volume, 0, &bytes(BASE, 10)).await;
    array.checkpoint().await.expect("it works");
    // A checkpoint that a disk holds up, while more comes than can be written once more.
    shelf.0[3].inject(Rule::always(Operation::Write, Fault::Hang).at(DATA));
    let changed = array.info().journal_bytes / BLOCK as u64 / 100 * 70;
    write_blocks(&volume, 0..64).await;
    let checkpoint = array.checkpoint();
    let more = async {
        write_blocks(&volume, 64..changed).await;
        shelf.0[3].heal();
        refuse_data(shelf, 3);
        shelf.0[3].release();
    };
    join(checkpoint, more).await.0.expect("it works");
    until(&array, "set aside", |array| is_aside(array, "weak")).await;
    let written = write_until_full(&other, 30).await;
    assert!(written > 0, "it has what is left of the journal");
    Full { array, changed, written }
}

/// Blocks of seed 20, all at the same time.
async fn write_blocks(volume: &Arc<dyn BlockDevice>, blocks: Range<u64>) {
    let blocks = blocks.map(|block| (block * 4 * KIB, data(&bytes(BLOCK, 20))));
    let writes = blocks.map(|(at, one)| volume.write(at, one, WriteFlags::DURABLE));
    for written in join_all(writes).await {
        written.expect("the journal has room");
    }
}

async fn has_all(array: &Array, changed: u64, written: u64) {
    let (volume, other) =
        (array.device("weak").expect("it works"), array.device("other").expect("it works"));
    let base = bytes(BASE, 10);
    for (block, old) in (0..).zip(base.chunks_exact(BLOCK)) {
        let found = read(&volume, block * 4 * KIB, BLOCK).await;
        assert!(if block < changed { found == bytes(BLOCK, 20) } else { found == old }, "{block}");
    }
    for block in 0..written {
        assert!(read(&other, block * 4 * KIB, BLOCK).await == bytes(BLOCK, 30), "other {block}");
    }
}

#[test]
fn an_array_whose_journal_a_lost_volume_fills_goes_on_when_its_disk_is_back() {
    run(async {
        let shelf = Shelf::new(4, 32);
        let Full { array, changed, written } = full(&shelf).await;
        let other = array.device("other").unwrap();
        assert!(read(&other, 0, BLOCK).await == bytes(BLOCK, 30), "it is read");
        array.checkpoint().await.expect("the array has not stopped");
        shelf.0[3].heal();
        all_online(&array).await;
        until(&array, "back", |array| !is_aside(array, "weak")).await;
        write(&other, 15 * MIB, &bytes(BLOCK, 40)).await;
        array.checkpoint().await.unwrap();
        has_all(&array, changed, written).await;
        sound(&array).await;
        let info = array.info();
        assert!(info.journal_used_bytes < info.journal_bytes / 8, "{info:?}");
    });
}

#[test]
fn an_array_whose_journal_a_lost_volume_fills_opens_with_and_without_the_disk() {
    run(async {
        let shelf = Shelf::new(4, 32);
        let Full { array, changed, written } = full(&shelf).await;
        // As after a crash.
        crash(array);
        for _ in 0..2 {
            let array = shelf.open().await;
            array.checkpoint().await.expect("it is open");
            crash(array);
        }
        shelf.0[3].heal();
        let array = shelf.open().await;
        all_online(&array).await;
        until(&array, "back", |array| !is_aside(array, "weak")).await;
        array.checkpoint().await.unwrap();
        has_all(&array, changed, written).await;
        sound(&array).await;
        crash(array);
        let array = shelf.open().await;
        has_all(&array, changed, written).await;
        sound(&array).await;
    });
}

#[test]
fn a_lost_volume_is_deleted_and_the_journal_has_room_again() {
    run(async {
        let shelf = Shelf::new(4, 32);
        let array = full(&shelf).await.array;
        array.set_volume_online("weak", false).await.unwrap();
        array.delete_volume("weak").await.unwrap();
        array.purge_volume("weak").await.unwrap();
        array.checkpoint().await.unwrap();
        let other = array.device("other").unwrap();
        write(&other, 15 * MIB, &bytes(BLOCK, 40)).await;
        crash((other, array));
        let array = shelf.open().await;
        let other = array.device("other").unwrap();
        assert!(read(&other, 15 * MIB, BLOCK).await == bytes(BLOCK, 40));
    });
}

/// Clusters that were overwritten before the volume was set aside are free, and others get them.
#[test]
fn what_was_overwritten_in_the_journal_and_is_somebody_elses_now_stays_theirs() {
    run(async {
        let shelf = Shelf::new(4, 32);
        let array = shelf.create(Level::Raid1).await;
        for name in ["weak", "beside"] {
            array.create_volume(weak(name)).await.unwrap();
        }
        let (volume, beside) = (array.device("weak").unwrap(), array.device("beside").unwrap());
        write(&volume, 0, &bytes(MIB as usize, 10)).await;
        array.checkpoint().await.unwrap();
        // To new places, and again to others; a snapshot, and blocks for old places.
        write(&volume, 4 * MIB, &bytes(2 * MIB as usize, 20)).await;
        write(&volume, 4 * MIB, &bytes(2 * MIB as usize, 30)).await;
        array.snapshot(&[("weak", Some("s"))]).await.unwrap();
        for block in 0..256 {
            write(&volume, block * 4 * KIB, &bytes(BLOCK, 40)).await;
        }
        refuse_data(&shelf, 3);
        array.checkpoint().await.unwrap();
        until(&array, "set aside", |array| is_aside(array, "weak")).await;
        array.checkpoint().await.unwrap();
        // What does not come to the disk that is out.
        let mut written = Vec::new();
        for cluster in 0..64 {
            let (at, seed) = (cluster * 64 * KIB, 50 + cluster as u8 * 2);
            let whole = data(&bytes(64 * KIB as usize, seed));
            if beside.write(at, whole, WriteFlags::DURABLE).await.is_ok() {
                written.push((at, seed));
            }
        }
        assert!(written.len() >= 32, "{written:?}");
        array.checkpoint().await.unwrap();
        crash((volume, beside, array));
        for _ in 0..2 {
            crash(shelf.open().await);
        }
        shelf.0[3].heal();
        let array = shelf.open().await;
        all_online(&array).await;
        until(&array, "back", |array| !is_aside(array, "weak")).await;
        array.checkpoint().await.unwrap();
        let (volume, beside) = (array.device("weak").unwrap(), array.device("beside").unwrap());
        for (at, seed) in written {
            assert!(read(&beside, at, 64 * KIB as usize).await == bytes(64 * KIB as usize, seed));
        }
        assert!(read(&volume, 4 * MIB, 2 * MIB as usize).await == bytes(2 * MIB as usize, 30));
        assert!(read(&volume, 255 * 4 * KIB, BLOCK).await == bytes(BLOCK, 40));
        array.clone_snapshot("weak", "s", "clone", true).await.unwrap();
        let clone = array.device("clone").unwrap();
        assert!(read(&clone, 0, MIB as usize).await == bytes(MIB as usize, 10));
        assert!(read(&clone, 4 * MIB, 2 * MIB as usize).await == bytes(2 * MIB as usize, 30));
        sound(&array).await;
    });
}

/// As long as there is room, the others do not wait: what is kept is written once more.
#[test]
fn a_journal_that_gets_short_takes_what_it_keeps_once_more_and_others_go_on() {
    run(async {
        let shelf = Shelf::new(4, 32);
        let array = shelf.create(Level::Raid1).await;
        array.create_volume(weak("weak")).await.unwrap();
        array.create_volume(spec("other", 16)).await.unwrap();
        let (volume, other) = (array.device("weak").unwrap(), array.device("other").unwrap());
        write(&volume, 0, &bytes(BASE, 10)).await;
        array.checkpoint().await.unwrap();
        refuse_data(&shelf, 3);
        write_blocks(&volume, 0..128).await;
        array.snapshot(&[("weak", Some("s"))]).await.unwrap();
        array.checkpoint().await.unwrap();
        until(&array, "set aside", |array| is_aside(array, "weak")).await;
        // Three times what the journal holds.
        let blocks = array.info().journal_bytes / BLOCK as u64;
        for block in 0..blocks * 3 {
            let at = block % 1024 * 4 * KIB;
            write(&other, at, &bytes(BLOCK, 30)).await;
        }
        crash((volume, other, array));
        shelf.0[3].heal();
        let array = shelf.open().await;
        all_online(&array).await;
        until(&array, "back", |array| !is_aside(array, "weak")).await;
        array.checkpoint().await.unwrap();
        has_all(&array, 128, 1024).await;
        array.clone_snapshot("weak", "s", "clone", true).await.unwrap();
        let clone = array.device("clone").unwrap();
        assert!(read(&clone, 0, BLOCK).await == bytes(BLOCK, 20));
        sound(&array).await;
    });
}

/// Hosts of a healthy volume write more than the journal has room for, and none waits for long.
async fn goes_on(array: &Array, other: &Arc<dyn BlockDevice>) {
    for block in 0..array.info().journal_bytes / BLOCK as u64 * 2 {
        let one = data(&bytes(BLOCK, 30));
        let write = other.write(block % 1024 * 4 * KIB, one, WriteFlags::DURABLE);
        let written = in_turns(20_000, write).await;
        written.unwrap_or_else(|| panic!("write {block} has no room")).expect("it is healthy");
    }
}

/// A checkpoint that takes long beside a lost volume: what that has would have had no room once more, and whoever
/// wrote to healthy volumes waited until its disks were back.
#[test]
fn hosts_that_fill_the_journal_during_a_checkpoint_leave_room_for_what_it_keeps() {
    run(async {
        let shelf = Shelf::new(4, 32);
        let array = shelf.create(Level::Raid1).await;
        array.create_volume(weak("weak")).await.unwrap();
        array.create_volume(spec("other", 16)).await.unwrap();
        let (volume, other) = (array.device("weak").unwrap(), array.device("other").unwrap());
        write(&volume, 0, &bytes(BASE, 10)).await;
        array.checkpoint().await.unwrap();
        refuse_data(&shelf, 3);
        write_blocks(&volume, 0..96).await;
        array.checkpoint().await.unwrap();
        until(&array, "set aside", |array| is_aside(array, "weak")).await;
        write(&other, 0, &bytes(MIB as usize / 2, 30)).await;
        let rules = |disk: usize| {
            shelf.0[disk].inject(Rule::always(Operation::Write, Fault::Hang).at(DATA));
        };
        (0..3).for_each(rules);
        let hosts = async {
            let written = write_until_full(&other, 30).await;
            (0..3).for_each(|disk| (shelf.0[disk].heal(), shelf.0[disk].release()).1);
            written
        };
        let (checkpoint, written) = join(array.checkpoint(), hosts).await;
        checkpoint.unwrap();
        assert!(written > array.info().journal_bytes / BLOCK as u64 / 4, "{written} were written");
        goes_on(&array, &other).await;
        crash((volume, other, array));
        shelf.0[3].heal();
        let array = shelf.open().await;
        all_online(&array).await;
        until(&array, "back", |array| !is_aside(array, "weak")).await;
        array.checkpoint().await.unwrap();
        has_all(&array, 96, 1024).await;
        sound(&array).await;
    });
}

/// The same in the checkpoint that finds out: it waits for the disks for a minute, beside hosts of both volumes.
#[test]
fn hosts_that_fill_the_journal_while_disks_are_waited_for_leave_room_for_what_those_lack() {
    run(async {
        let shelf = Shelf::new(6, 32);
        let paced = Paced::new();
        let array = shelf.create_in(Arc::new(paced.clone()), Level::Raid6).await;
        let weak = VolumeSpec { level: Some(Level::Raid5), ..spec("weak", 8) };
        array.create_volume(weak).await.unwrap();
        array.create_volume(spec("other", 16)).await.unwrap();
        let (volume, other) = (array.device("weak").unwrap(), array.device("other").unwrap());
        write(&volume, 0, &bytes(BASE, 10)).await;
        array.checkpoint().await.unwrap();
        for cluster in 0..BASE / CLUSTER {
            write(&volume, (cluster * CLUSTER) as u64, &bytes(BLOCK, 20)).await;
        }
        [4, 5].iter().for_each(|disk| refuse_data(&shelf, *disk));
        let are_out =
            |array: &Array| array.disks()[4..].iter().all(|disk| disk.state != DiskState::Online);
        // As many as are answered before it is set aside.
        let risky = async {
            until(&array, "out", are_out).await;
            for block in 0..1024 {
                let at = BASE as u64 + block * 4 * KIB;
                if volume.write(at, data(&bytes(BLOCK, 50)), WriteFlags::DURABLE).await.is_err() {
                    return block;
                }
            }
            1024
        };
        // The disks are waited for until the journal is full, however long that takes on this machine.
        let hosts = async {
            until(&array, "out", are_out).await;
            paced.slowly();
            let written = write_until_full(&other, 30).await;
            paced.fast();
            written
        };
        let (checkpoint, (risky, written)) = join(array.checkpoint(), join(risky, hosts)).await;
        checkpoint.unwrap();
        assert!(risky > 0 && written > 0, "{risky} and {written} were written");
        until(&array, "set aside", |array| is_aside(array, "weak")).await;
        goes_on(&array, &other).await;
        crash((volume, other, array));
        [4, 5].iter().for_each(|disk: &usize| shelf.0[*disk].heal());
        let array = shelf.open().await;
        all_online(&array).await;
        until(&array, "back", |array| !is_aside(array, "weak")).await;
        array.checkpoint().await.unwrap();
        let volume = array.device("weak").unwrap();
        let base = bytes(BASE, 10);
        for (at, old) in (0..).step_by(BLOCK).zip(base.chunks_exact(BLOCK)) {
            let found = read(&volume, at, BLOCK).await;
            let is_changed = at % CLUSTER as u64 == 0;
            assert!(if is_changed { found == bytes(BLOCK, 20) } else { found == old }, "at {at}");
        }
        for block in 0..1024 {
            let other = array.device("other").unwrap();
            assert!(
                read(&other, block * 4 * KIB, BLOCK).await == bytes(BLOCK, 30),
                "other {block}"
            );
        }
        for block in 0..risky {
            assert!(read(&volume, BASE as u64 + block * 4 * KIB, BLOCK).await == bytes(BLOCK, 50));
        }
        sound(&array).await;
    });
}

//! Changes that are held back, and the snapshots for which they are.

use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::Poll;
use std::time::{Duration, Instant};

use array::api::{Cache, VolumeSpec};
use array::{Array, ArrayError, Level};
use block::testing::{Fault, Operation, Rule};
use block::{BlockDevice, BlockError, Compared, IoFuture, WriteFlags};
use futures_util::future::{Either, join, select};
use ring::Data;

use crate::common::{Hasty, Shelf, bytes, data, read, run, sound, spec, write};

const KIB: u64 = 1 << 10;
const CLUSTER: u64 = 64 * KIB;
/// As long as a hold can be.
const LONG: Duration = Duration::from_secs(3);
const SHORT: Duration = Duration::from_millis(60);

type Change = Pin<Box<dyn Future<Output = Result<(), BlockError>>>>;

async fn with_volumes(level: Level) -> (Shelf, Array) {
    with_cache(level, Cache::Durable).await
}

async fn with_cache(level: Level, cache: Cache) -> (Shelf, Array) {
    let shelf = Shelf::new(4, 32);
    let array = shelf.create(level).await;
    for name in ["v", "w"] {
        array.create_volume(VolumeSpec { cache, ..spec(name, 8) }).await.expect("it works");
    }
    (shelf, array)
}

/// Lets a change do what it can now; whether it is done.
async fn is_done(change: &mut Change) -> bool {
    poll_fn(|cx| Poll::Ready(change.as_mut().poll(cx).is_ready())).await
}

/// Whether a change is not done after a while.
async fn waits(change: &mut Change) -> bool {
    matches!(select(change, Box::pin(ring::sleep(SHORT))).await, Either::Right(_))
}

/// Writes `byte` all over.
async fn fill(device: &Arc<dyn BlockDevice>, at: u64, len: u64, byte: u8) {
    write(device, at, &vec![byte; usize::try_from(len).expect("short")]).await;
}

/// Every kind of change, at a place of its own, and what is there afterwards.
fn changes(device: &Arc<dyn BlockDevice>) -> Vec<(&'static str, Change, u64, Vec<u8>)> {
    let at = |number: u64| number * 8 * CLUSTER;
    let flags = WriteFlags::DURABLE;
    let atomic = WriteFlags { atomic: true, ..flags };
    let (block, part, large) = (bytes(4096, 7), bytes(512, 8), bytes(5 * 65536, 9));
    let zeroes = |len: usize| vec![0; len];
    let compare: Change = {
        let device = Arc::clone(device);
        let new = data(&bytes(512, 4));
        Box::pin(async move {
            let old = data(&[5; 512]);
            let compared = device.compare_and_write(at(6), old, new, flags).await?;
            assert_eq!(compared, Compared::Equal);
            Ok(())
        })
    };
    let boxed = |change: IoFuture<()>| -> Change { Box::pin(change) };
    vec![
        ("a block", boxed(device.write(at(0), data(&block), flags)), at(0), block.clone()),
        ("a part", boxed(device.write(at(1), data(&part), flags)), at(1), part.clone()),
        ("clusters", boxed(device.write(at(2), data(&large), flags)), at(2), large.clone()),
        ("atomic", boxed(device.write(at(3), data(&part), atomic)), at(3), part),
        ("volatile", boxed(device.write(at(4), data(&block), WriteFlags::VOLATILE)), at(4), block),
        ("or", boxed(device.or_write(at(5), data(&[0x50; 512]), flags)), at(5), vec![0x55; 512]),
        ("compare", compare, at(6), bytes(512, 4)),
        ("unmap", boxed(device.unmap(at(7), CLUSTER)), at(7), zeroes(65536)),
        ("a part unmapped", boxed(device.unmap(at(8), 512)), at(8), zeroes(512)),
        ("zeroes", boxed(device.write_zeroes(at(9), CLUSTER, false, flags)), at(9), zeroes(65536)),
        ("unmapping", boxed(device.write_zeroes(at(10), 4096, true, flags)), at(10), zeroes(4096)),
    ]
}

#[test]
fn all_kinds_of_change_wait_and_are_done_afterwards() {
    for (level, cache) in [(Level::Raid10, Cache::Durable), (Level::Raid5, Cache::Volatile)] {
        run(async move {
            let (_shelf, array) = with_cache(level, cache).await;
            let volume = array.device("v").unwrap();
            fill(&volume, 0, 8 << 20, 5).await;
            let hold = array.hold(&["v"], LONG).expect("it is there");
            let mut held = changes(&volume);
            for (kind, change, ..) in &mut held {
                assert!(!is_done(change).await, "{kind}");
            }
            ring::sleep(SHORT).await;
            for (kind, change, at, after) in &mut held {
                assert!(!is_done(change).await, "{kind}");
                let now = read(&volume, *at, after.len()).await;
                assert_eq!(now, vec![5; after.len()], "{kind}: nothing has changed");
            }
            let taken = array.snapshot_held(&hold, &[("v", Some("s"))]).await.expect("it works");
            assert_eq!(taken.expect("it is held")[0].name, "s");
            assert!(hold.is_in_force());
            drop(hold);
            let snapshot = array.snapshot_device("v", "s").unwrap();
            for (kind, change, at, after) in held {
                change.await.unwrap_or_else(|error| panic!("{kind}: {error}"));
                assert_eq!(read(&volume, at, after.len()).await, after, "{kind}");
                let then = read(&snapshot, at, after.len()).await;
                assert_eq!(then, vec![5; after.len()], "{kind}: it came after the snapshot");
            }
            sound(&array).await;
            array.close().await.unwrap();
        });
    }
}

#[test]
fn writes_that_waited_are_all_done_and_later_ones_are_kept() {
    run(async {
        let (_shelf, array) = with_volumes(Level::Raid10).await;
        let volume = array.device("v").unwrap();
        let hold = array.hold(&["v"], LONG).unwrap();
        let change = |byte: u8| -> Change {
            let at = u64::from(byte) * 4096;
            Box::pin(volume.write(at, data(&[byte; 4096]), WriteFlags::DURABLE))
        };
        let mut all: Vec<Change> = (1..=50).map(change).collect();
        for change in &mut all {
            assert!(!is_done(change).await);
        }
        drop(hold);
        for change in all {
            change.await.unwrap();
        }
        for byte in 1..=50 {
            assert_eq!(read(&volume, u64::from(byte) * 4096, 4096).await, [byte; 4096]);
        }
        // What comes after their answers comes after them.
        fill(&volume, 4096, 4096, 99).await;
        assert_eq!(read(&volume, 4096, 4096).await, [99; 4096]);
        array.close().await.unwrap();
    });
}

#[test]
fn a_hold_ends_by_itself_and_then_nothing_is_taken() {
    run(async {
        let (_shelf, array) = with_volumes(Level::Raid10).await;
        let volume = array.device("v").unwrap();
        fill(&volume, 0, 4096, 1).await;
        let began = Instant::now();
        let hold = array.hold(&["v"], SHORT).unwrap();
        let change = pin!(volume.write(0, data(&[2; 4096]), WriteFlags::DURABLE));
        let done = select(change, Box::pin(ring::sleep(LONG))).await;
        let Either::Left((done, _)) = done else { panic!("it is held for longer than was said") };
        done.unwrap();
        assert!(began.elapsed() >= SHORT, "it was held: {:?}", began.elapsed());
        assert!(!hold.is_in_force(), "who asks is told");
        assert_eq!(array.snapshot_held(&hold, &[("v", Some("late"))]).await, Ok(None));
        assert_eq!(array.snapshots("v").unwrap(), []);
        array.close().await.unwrap();
    });
}

#[test]
fn a_snapshot_of_a_hold_that_has_ended_is_not_taken() {
    run(async {
        let (_shelf, array) = with_volumes(Level::Raid10).await;
        let hold = array.hold(&["v"], SHORT).unwrap();
        ring::sleep(SHORT).await;
        let taken = array.snapshot_held(&hold, &[("v", Some("late"))]).await;
        assert_eq!(taken, Ok(None));
        assert_eq!(array.snapshots("v").unwrap(), []);
        // What is wrong is said all the same, and nothing else is held or taken for it.
        let taken = array.snapshot_held(&hold, &[("v", Some("a b"))]).await;
        assert!(matches!(taken, Err(ArrayError::BadName(_))));
        array.close().await.unwrap();
    });
}

#[test]
fn no_hold_lasts_for_longer_than_hosts_bear() {
    run(async {
        let shelf = Shelf::new(4, 32);
        let array = shelf.create_in(Arc::new(Hasty), Level::Raid10).await;
        array.create_volume(spec("v", 8)).await.expect("there is room");
        let volume = array.device("v").unwrap();
        let (began, hour) = (Instant::now(), Duration::from_secs(3600));
        let hold = array.hold(&["v"], hour).unwrap();
        let change = pin!(volume.write(0, data(&[2; 4096]), WriteFlags::DURABLE));
        // An hour is two minutes here, and three seconds are a tenth of one.
        let done = select(change, Box::pin(ring::sleep(10 * LONG))).await;
        let Either::Left((done, _)) = done else { panic!("it is held for an hour") };
        done.unwrap();
        assert!(began.elapsed() >= LONG / 30, "it was held: {:?}", began.elapsed());
        assert!(!hold.is_in_force());
        array.close().await.unwrap();
    });
}

/// Changes of `w` that fill the journal, as no disk answers any more.
async fn fill_journal(shelf: &Shelf, array: &Array) -> Vec<Change> {
    // The checkpoint that has made the volumes is to end before: else writes would go at its pace, and it never ends.
    ring::sleep(SHORT).await;
    for disk in &shelf.0 {
        disk.inject(Rule::always(Operation::Write, Fault::Hang));
    }
    let other = array.device("w").expect("it is there");
    // Parts of clusters, which the journal has whole: more than it has room for, and then what fits in beside the last
    // of them.
    let write = |at, part: &Data| -> Change {
        Box::pin(other.write(at, part.clone(), WriteFlags::DURABLE))
    };
    let (large, small) = (data(&bytes(60 << 10, 3)), data(&bytes(4096, 3)));
    let large = (0..120).map(|number| write(number * CLUSTER, &large));
    let small = (0..64).map(|number| write(120 * CLUSTER + number * 8192, &small));
    let mut writes: Vec<Change> = large.chain(small).collect();
    for _ in 0..20 {
        for write in &mut writes {
            assert!(!is_done(write).await, "no disk answers");
        }
        ring::sleep(Duration::from_millis(5)).await;
    }
    writes
}

#[test]
fn a_snapshot_waits_for_room_in_the_journal_while_it_is_held() {
    run(async {
        let (shelf, array) = with_volumes(Level::Raid10).await;
        let writes = fill_journal(&shelf, &array).await;
        let (began, longest) = (Instant::now(), 5 * SHORT);
        let hold = array.hold(&["v"], longest).unwrap();
        let late = [("v", Some("late"))];
        let taken = ring::timeout(10 * longest, array.snapshot_held(&hold, &late)).await;
        assert_eq!(taken, Some(Ok(None)), "it is told when the hold has ended");
        assert!(began.elapsed() >= longest, "there is no room: {:?}", began.elapsed());
        assert_eq!(array.snapshots("v").unwrap(), []);
        // Where there is room in time it is taken.
        let hold = array.hold(&["v"], LONG).unwrap();
        let taking = array.snapshot_held(&hold, &[("v", Some("s"))]);
        let releasing = async {
            ring::sleep(SHORT).await;
            for disk in &shelf.0 {
                disk.heal();
                disk.release();
            }
        };
        let (taken, ()) = join(taking, releasing).await;
        assert_eq!(taken.unwrap().expect("there is room in time")[0].name, "s");
        drop(hold);
        for write in writes {
            write.await.expect("the disks answer again");
        }
        sound(&array).await;
        array.close().await.unwrap();
    });
}

#[test]
fn a_snapshot_of_what_is_not_held_is_not_taken() {
    run(async {
        let (_shelf, array) = with_volumes(Level::Raid10).await;
        let (_other_shelf, other) = with_volumes(Level::Raid10).await;
        let hold = array.hold(&["v"], LONG).unwrap();
        // Of the same number, and of a volume with the same one.
        let of_other = other.hold(&["v"], LONG).unwrap();
        let both = [("v", Some("s")), ("w", Some("s"))];
        assert_eq!(array.snapshot_held(&hold, &both).await, Ok(None));
        assert_eq!(other.snapshot_held(&hold, &both[..1]).await, Ok(None));
        assert_eq!(other.snapshots("v").unwrap(), []);
        let taken = other.snapshot_held(&of_other, &both[..1]).await.unwrap();
        assert_eq!(taken.expect("its own is in force").len(), 1);
        assert_eq!(array.snapshots("v").unwrap(), []);
        let more = array.hold(&["w", "v"], LONG).unwrap();
        let taken = array.snapshot_held(&more, &both).await.unwrap();
        assert_eq!(taken.expect("both are held").len(), 2);
        let missing = array.hold(&["v", "x"], LONG);
        assert_eq!(missing.map(drop), Err(ArrayError::NoSuchVolume("x".into())));
        array.close().await.unwrap();
        other.close().await.unwrap();
        let closed = array.hold(&["v"], LONG);
        assert!(matches!(closed.map(drop), Err(ArrayError::Stopped(_))));
    });
}

#[test]
fn what_waits_for_several_holds_waits_for_the_last_of_them() {
    run(async {
        let (_shelf, array) = with_volumes(Level::Raid10).await;
        let volume = array.device("v").unwrap();
        let first = array.hold(&["v", "w"], LONG).unwrap();
        let second = array.hold(&["v"], LONG).unwrap();
        let mut change: Change = Box::pin(volume.write(0, data(&[2; 4096]), WriteFlags::DURABLE));
        assert!(waits(&mut change).await);
        drop(first);
        assert!(waits(&mut change).await);
        let other = array.device("w").unwrap();
        fill(&other, 0, 4096, 3).await;
        assert!(second.is_in_force());
        drop(second);
        change.await.unwrap();
        array.close().await.unwrap();
    });
}

#[test]
fn a_held_change_that_is_given_up_is_not_done() {
    run(async {
        let (_shelf, array) = with_volumes(Level::Raid10).await;
        let volume = array.device("v").unwrap();
        fill(&volume, 0, 8 << 20, 5).await;
        let hold = array.hold(&["v"], LONG).unwrap();
        let mut held = changes(&volume);
        for (kind, change, ..) in &mut held {
            assert!(!is_done(change).await, "{kind}");
        }
        let places: Vec<(u64, usize)> =
            held.into_iter().map(|(_, _, at, after)| (at, after.len())).collect();
        drop(hold);
        fill(&volume, 4096, 4096, 6).await;
        ring::sleep(SHORT).await;
        for (at, len) in places {
            assert_eq!(read(&volume, at, len).await, vec![5; len]);
        }
        array.close().await.unwrap();
    });
}

#[test]
fn what_operators_change_is_refused_or_waits() {
    run(async {
        let (_shelf, array) = with_volumes(Level::Raid10).await;
        let volume = array.device("v").unwrap();
        fill(&volume, 0, 4096, 1).await;
        array.snapshot(&[("v", Some("first"))]).await.unwrap();
        fill(&volume, 0, 4096, 2).await;
        array.set_volume_online("v", false).await.unwrap();
        array.checkpoint().await.unwrap();
        let hold = array.hold(&["v"], LONG).unwrap();
        // Nobody waits here: others may wait for him.
        let refusal = array.rollback("v", "first").await.expect_err("it is held");
        let text = "changes of volume \"v\" are held back for a snapshot of several members: \
                    ask again in some seconds";
        assert_eq!(refusal.to_string(), text);
        // More of a volume is no change of what it has.
        assert_eq!(array.resize_volume("v", 10 << 20).await.unwrap().size_bytes, 10 << 20);
        let asked = array.clone();
        let mut shrink: Change = Box::pin(async move {
            asked.resize_volume("v", 4 << 20).await.expect("it is offline");
            Ok(())
        });
        assert!(waits(&mut shrink).await);
        let taken = array.snapshot_held(&hold, &[("v", Some("second"))]).await.unwrap();
        assert_eq!(taken.expect("it is held")[0].size_bytes, 10 << 20);
        drop(hold);
        shrink.await.unwrap();
        array.rollback("v", "first").await.expect("nothing is held any more");
        array.snapshot(&[("v", Some("third"))]).await.unwrap();
        for (name, byte) in [("first", 1), ("second", 2), ("third", 1)] {
            let snapshot = array.snapshot_device("v", name).unwrap();
            assert_eq!(read(&snapshot, 0, 4096).await, [byte; 4096], "{name}");
        }
        assert_eq!(array.volume("v").unwrap().size_bytes, 8 << 20);
        sound(&array).await;
        array.close().await.unwrap();
    });
}

#[test]
fn an_array_that_is_closed_ends_holds() {
    run(async {
        let (shelf, array) = with_volumes(Level::Raid10).await;
        let volume = array.device("v").unwrap();
        fill(&volume, 0, 4096, 1).await;
        let hold = array.hold(&["v"], LONG).unwrap();
        let mut change: Change = Box::pin(volume.write(0, data(&[2; 4096]), WriteFlags::DURABLE));
        assert!(!is_done(&mut change).await);
        let began = Instant::now();
        array.close().await.unwrap();
        assert!(!hold.is_in_force());
        change.await.expect_err("the array is closed");
        assert!(began.elapsed() < LONG, "{:?}", began.elapsed());
        let taken = array.snapshot_held(&hold, &[("v", None)]).await;
        assert!(matches!(taken, Err(ArrayError::Stopped(_))));
        drop((hold, volume, array));
        let array = shelf.open().await;
        let volume = array.device("v").unwrap();
        assert_eq!(read(&volume, 0, 4096).await, [1; 4096]);
        array.close().await.unwrap();
    });
}

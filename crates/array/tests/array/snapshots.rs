//! Snapshots, clones, rollback, differences and the space they hold.

use std::time::{Duration, Instant};

use array::api::{ChangedExtent, SnapshotAccess, SpaceInfo};
use array::{Array, ArrayError, Level};
use futures_util::future::join;

use crate::common::{Shelf, bytes, read, run, sound, spec, write};
use crate::process::crash;

const MIB: u64 = 1 << 20;
const CLUSTER: u64 = 64 << 10;

async fn with_volume(level: Level) -> (Shelf, Array) {
    let shelf = Shelf::new(6, 32);
    let array = shelf.create(level).await;
    array.create_volume(spec("v", 16)).await.expect("it works");
    (shelf, array)
}

async fn take(array: &Array, name: &str) {
    array.snapshot(&[("v", Some(name))]).await.expect("it works");
}

/// Deletions and their checkpoints come to an end.
async fn settle(array: &Array) {
    for _ in 0..20 {
        array.checkpoint().await.expect("it works");
    }
    assert_eq!(array.jobs(), []);
}

#[test]
fn a_snapshot_keeps_what_was_there_whatever_comes_after() {
    for level in [Level::Raid10, Level::Raid5] {
        run(async move {
            let (shelf, array) = with_volume(level).await;
            let volume = array.device("v").unwrap();
            let (one, two, three) = (bytes(200_704, 1), bytes(200_704, 2), bytes(4096, 3));
            write(&volume, MIB, &one).await;
            take(&array, "first").await;
            write(&volume, MIB, &two).await;
            take(&array, "second").await;
            write(&volume, MIB + 8192, &three).await;
            volume.unmap(MIB, CLUSTER).await.unwrap();
            for pass in 0..2 {
                let first = array.snapshot_device("v", "first").unwrap();
                let second = array.snapshot_device("v", "second").unwrap();
                assert_eq!(read(&first, MIB, one.len()).await, one, "{level} pass {pass}");
                assert_eq!(read(&second, MIB, two.len()).await, two, "{level} pass {pass}");
                let now = read(&volume, MIB, two.len()).await;
                assert!(now[..CLUSTER as usize].iter().all(|byte| *byte == 0));
                assert_eq!(now[CLUSTER as usize..], two[CLUSTER as usize..]);
                array.checkpoint().await.unwrap();
            }
            drop(volume);
            sound(&array).await;
            let array = {
                crash(array);
                shelf.open().await
            };
            let first = array.snapshot_device("v", "first").unwrap();
            assert_eq!(read(&first, MIB, one.len()).await, one);
            array.close().await.unwrap();
        });
    }
}

#[test]
fn snapshots_wait_in_the_journal_and_survive_there() {
    run(async {
        let (shelf, array) = with_volume(Level::Raid10).await;
        let volume = array.device("v").unwrap();
        let one = bytes(8192, 1);
        write(&volume, 0, &one).await;
        take(&array, "early").await;
        write(&volume, 0, &bytes(8192, 2)).await;
        crash((volume, array));
        let array = shelf.open().await;
        let early = array.snapshot_device("v", "early").unwrap();
        assert_eq!(read(&early, 0, 8192).await, one);
        assert_eq!(array.snapshots("v").unwrap().len(), 1);
        array.close().await.unwrap();
    });
}

/// Also from the journal alone, and as a tree of its own: the first start repeats its record, the second reads its table.
#[test]
fn a_snapshot_of_a_copy_has_the_time_of_what_was_copied() {
    run(async {
        let (shelf, array) = with_volume(Level::Raid10).await;
        let volume = array.device("v").unwrap();
        let (old, new) = (bytes(8192, 1), bytes(8192, 2));
        write(&volume, 0, &old).await;
        let taken = array.snapshot_at("v", "monday", 1_000_000_007).await.expect("it is taken");
        assert_eq!((taken.name.as_str(), taken.created_unix_seconds), ("monday", 1_000_000_007));
        write(&volume, 0, &new).await;
        take(&array, "now").await;
        let twice = array.snapshot_at("v", "monday", 5).await;
        assert!(matches!(twice, Err(ArrayError::SnapshotExists { .. })), "{twice:?}");
        let badly_named = array.snapshot_at("v", "a name", 5).await;
        assert!(matches!(badly_named, Err(ArrayError::BadName(_))), "{badly_named:?}");
        drop((volume, array));
        for _ in 0..2 {
            let array = shelf.open().await;
            let all = array.snapshots("v").unwrap();
            let times = all.iter().map(|s| (s.name.as_str(), s.created_unix_seconds));
            let times: Vec<_> = times.collect();
            assert_eq!((times.len(), times[0]), (2, ("monday", 1_000_000_007)));
            assert!(times[1].1 > 1_700_000_000, "the clock has not gone back: {times:?}");
            let monday = array.snapshot_device("v", "monday").unwrap();
            assert_eq!(read(&monday, 0, old.len()).await, old);
            drop(monday);
            array.close().await.unwrap();
        }
    });
}

#[test]
fn clones_and_rollback_begin_with_what_the_snapshot_holds() {
    run(async {
        let (_shelf, array) = with_volume(Level::Raid6).await;
        let volume = array.device("v").unwrap();
        let (one, two) = (bytes(CLUSTER as usize * 3, 1), bytes(CLUSTER as usize, 2));
        write(&volume, 0, &one).await;
        take(&array, "base").await;
        write(&volume, 0, &two).await;
        let id = array.snapshots("v").unwrap()[0].id;
        assert!(!array.has_clones("v", id).unwrap(), "what came later of the volume is no clone");
        array.clone_snapshot("v", "base", "copy", true).await.unwrap();
        assert!(array.has_clones("v", id).unwrap());
        // Also where what the clone has of it was frozen since.
        array.snapshot(&[("copy", Some("later"))]).await.unwrap();
        array.checkpoint().await.unwrap();
        assert!(array.has_clones("v", id).unwrap());
        let copy = array.device("copy").unwrap();
        assert_eq!(read(&copy, 0, one.len()).await, one);
        write(&copy, CLUSTER, &two).await;
        assert_eq!(array.volume("copy").unwrap().origin.as_deref(), Some("v@base"));
        let refused = array.rollback("v", "base").await.unwrap_err();
        assert!(matches!(refused, ArrayError::NotOffline(_)), "{refused}");
        array.set_volume_online("v", false).await.unwrap();
        array.rollback("v", "base").await.unwrap();
        assert_eq!(read(&volume, 0, one.len()).await, one);
        // The snapshot goes, its clone and the volume stay as they are.
        array.delete_snapshot("v", "base").await.unwrap();
        settle_hidden(&array).await;
        write(&volume, 0, &two).await;
        assert_eq!(read(&copy, 0, CLUSTER as usize).await, one[..CLUSTER as usize]);
        assert_eq!(read(&copy, CLUSTER, two.len()).await, two);
        sound(&array).await;
        array.close().await.unwrap();
    });
}

/// As [`settle`], where a version stays hidden because two others share it.
async fn settle_hidden(array: &Array) {
    for _ in 0..20 {
        array.checkpoint().await.expect("it works");
    }
}

fn counted(unique_bytes: u64, shared_bytes: u64, written_bytes: u64) -> SpaceInfo {
    SpaceInfo { unique_bytes, shared_bytes, written_bytes }
}

#[test]
fn space_is_known_to_the_cluster_and_comes_back() {
    run(async {
        let (_shelf, array) = with_volume(Level::Raid10).await;
        let volume = array.device("v").unwrap();
        write(&volume, 0, &bytes(4 * CLUSTER as usize, 1)).await;
        take(&array, "a").await;
        write(&volume, 0, &bytes(2 * CLUSTER as usize, 2)).await;
        let a = array.space("v", Some("a")).await.unwrap();
        assert_eq!(a, counted(2 * CLUSTER, 2 * CLUSTER, 0));
        let now = array.space("v", None).await.unwrap();
        assert_eq!(now, counted(2 * CLUSTER, 2 * CLUSTER, 0));
        let changed = array.diff("v", Some("a"), None).await.unwrap();
        assert_eq!(changed, [ChangedExtent { at: 0, len_bytes: 2 * CLUSTER }]);
        array.delete_snapshot("v", "a").await.unwrap();
        settle(&array).await;
        let now = array.space("v", None).await.unwrap();
        assert_eq!(now, counted(4 * CLUSTER, 0, 0));
        volume.unmap(0, 16 * MIB).await.unwrap();
        array.checkpoint().await.unwrap();
        assert_eq!(array.volume("v").unwrap().used_bytes, 0);
        sound(&array).await;
        array.close().await.unwrap();
    });
}

#[test]
fn a_volume_goes_to_the_bin_comes_back_and_is_purged() {
    run(async {
        let (_shelf, array) = with_volume(Level::Raid5).await;
        let volume = array.device("v").unwrap();
        let one = bytes(8 * CLUSTER as usize, 1);
        write(&volume, 0, &one).await;
        take(&array, "s").await;
        let refused = array.delete_volume("v").await.unwrap_err();
        assert!(matches!(refused, ArrayError::NotOffline(_)), "{refused}");
        array.set_volume_online("v", false).await.unwrap();
        array.delete_volume("v").await.unwrap();
        assert!(array.device("v").is_err());
        array.undelete_volume("v").await.unwrap();
        assert_eq!(read(&array.device("v").unwrap(), 0, one.len()).await, one);
        array.delete_volume("v").await.unwrap();
        array.purge_volume("v").await.unwrap();
        settle(&array).await;
        assert_eq!(array.volumes(), []);
        sound(&array).await;
        array.close().await.unwrap();
    });
}

#[test]
fn a_volume_that_leaves_the_bin_first_is_not_purged() {
    run(async {
        let (_shelf, array) = with_volume(Level::Raid5).await;
        let volume = array.device("v").unwrap();
        let one = bytes(8 * CLUSTER as usize, 1);
        write(&volume, 0, &one).await;
        array.set_volume_online("v", false).await.unwrap();
        array.delete_volume("v").await.unwrap();
        // Both find it in the bin, and one checkpoint does what both want.
        let (undeleted, purged) = join(array.undelete_volume("v"), array.purge_volume("v")).await;
        undeleted.unwrap();
        assert!(purged.unwrap_err().to_string().contains("not in the recycle bin"));
        let volume = array.device("v").unwrap();
        assert_eq!(read(&volume, 0, one.len()).await, one);
        write(&volume, 0, &bytes(4096, 2)).await;
        sound(&array).await;
        array.close().await.unwrap();
    });
}

#[test]
fn five_hundred_snapshots_are_taken_quickly_and_all_hold() {
    run(async {
        let (_shelf, array) = with_volume(Level::Raid10).await;
        let volume = array.device("v").unwrap();
        let mut times = Vec::new();
        for number in 0..512u32 {
            write(&volume, u64::from(number % 16) * 4096, &bytes(4096, number as u8)).await;
            let began = Instant::now();
            take(&array, &format!("s{number}")).await;
            times.push(began.elapsed());
        }
        // A machine with other work may hold up a few.
        times.sort_unstable();
        assert!(times[500] < Duration::from_millis(100), "{:?}", &times[490..]);
        for number in (0..512u32).step_by(37) {
            let snapshot = array.snapshot_device("v", &format!("s{number}")).unwrap();
            let at = u64::from(number % 16) * 4096;
            assert_eq!(read(&snapshot, at, 4096).await, bytes(4096, number as u8), "{number}");
        }
        sound(&array).await;
        array.close().await.unwrap();
    });
}

#[test]
fn a_snapshot_that_is_written_to_keeps_its_moment_and_what_was_written() {
    run(async {
        let (shelf, array) = with_volume(Level::Raid10).await;
        let volume = array.device("v").unwrap();
        let (one, two, three) = (bytes(4 * CLUSTER as usize, 1), bytes(8192, 2), bytes(8192, 3));
        write(&volume, 0, &one).await;
        take(&array, "s").await;
        assert!(array.snapshot_view("v", "s").is_err(), "nobody wrote to it");
        array.set_snapshot_writable("v", "s", false).await.unwrap();
        let view = array.snapshot_view_device("v", "s").unwrap();
        assert_eq!(read(&view, 0, one.len()).await, one);
        write(&view, 4096, &two).await;
        write(&view, 8 * CLUSTER, &two).await;
        write(&volume, 4096, &three).await;
        assert_eq!(array.volumes().len(), 1, "it is no volume");
        let info = array.snapshots("v").unwrap().remove(0);
        assert_eq!((info.online, info.access), (true, SnapshotAccess::ReadWrite));
        let space = array.space("v", Some("s")).await.unwrap();
        assert_eq!(space, counted(CLUSTER, 3 * CLUSTER, 2 * CLUSTER));
        array.set_volume_online("v", false).await.unwrap();
        for refused in [
            array.delete_volume("v").await,
            array.delete_snapshot("v", "s").await,
            array.set_snapshot_writable("v", "s", true).await,
            array.set_snapshot_online("v", "s", true).await,
        ] {
            let text = refused.unwrap_err().to_string();
            assert!(text.contains("\"s\" of volume \"v\" is online"), "{text}");
        }
        crash((volume, view, array));

        // After a crash all three are what they were.
        let array = shelf.open().await;
        let (volume, moment) = (array.device("v").unwrap(), array.snapshot_device("v", "s"));
        let view = array.snapshot_view_device("v", "s").unwrap();
        assert_eq!(read(&volume, 4096, 8192).await, three);
        assert_eq!(read(&moment.unwrap(), 0, one.len()).await, one);
        assert_eq!(read(&view, 4096, 8192).await, two);
        let id = array.snapshots("v").unwrap()[0].id;
        assert!(!array.has_clones("v", id).unwrap(), "what hosts wrote to it goes with it");
        // A clone and a rollback begin with the moment.
        array.clone_snapshot("v", "s", "c", true).await.unwrap();
        assert_eq!(read(&array.device("c").unwrap(), 0, one.len()).await, one);
        array.rollback("v", "s").await.unwrap();
        assert_eq!(read(&volume, 0, one.len()).await, one);
        // Offline it is kept; a fresh one begins again.
        let id = array.snapshot_view("v", "s").unwrap().id;
        array.set_snapshot_online("v", "s", false).await.unwrap();
        array.set_snapshot_writable("v", "s", false).await.unwrap();
        assert_eq!(array.snapshot_view("v", "s").unwrap().id, id);
        assert_eq!(read(&view, 4096, 8192).await, two);
        array.set_snapshot_online("v", "s", false).await.unwrap();
        array.set_snapshot_writable("v", "s", true).await.unwrap();
        assert_ne!(array.snapshot_view("v", "s").unwrap().id, id);
        let view = array.snapshot_view_device("v", "s").unwrap();
        assert_eq!(read(&view, 0, one.len()).await, one);
        write(&view, 0, &two).await;
        array.rename_volume("v", "w").await.unwrap();
        array.set_snapshot_online("w", "s", false).await.unwrap();
        sound(&array).await;
        let kept = read(&array.device("c").unwrap(), 0, one.len()).await;
        array.delete_volume("w").await.unwrap();
        array.purge_volume("w").await.unwrap();
        settle_hidden(&array).await;
        assert!(view.read(0, 4096).await.is_err(), "it went with its volume");
        assert_eq!(read(&array.device("c").unwrap(), 0, one.len()).await, kept);
        sound(&array).await;
        array.close().await.unwrap();
    });
}

#[test]
fn the_space_of_what_was_written_to_a_snapshot_comes_back_with_it() {
    run(async {
        let (_shelf, array) = with_volume(Level::Raid5).await;
        let volume = array.device("v").unwrap();
        write(&volume, 0, &bytes(4 * CLUSTER as usize, 1)).await;
        take(&array, "s").await;
        array.set_snapshot_writable("v", "s", false).await.unwrap();
        let view = array.snapshot_view_device("v", "s").unwrap();
        write(&view, 0, &bytes(9 * CLUSTER as usize, 2)).await;
        array.set_snapshot_online("v", "s", false).await.unwrap();
        array.delete_snapshot("v", "s").await.unwrap();
        settle(&array).await;
        assert_eq!(array.space("v", None).await.unwrap(), counted(4 * CLUSTER, 0, 0));
        let report = array.check().await.unwrap();
        assert_eq!((report.clusters, report.problems), (4, Vec::new()));
        array.close().await.unwrap();
    });
}

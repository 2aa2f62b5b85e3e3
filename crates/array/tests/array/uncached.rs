//! Volumes of which nothing is kept in memory stay so.

use std::collections::BTreeMap;

use array::api::VolumeSpec;
use array::{Array, ArrayError, Level};

use crate::common::{Shelf, run, sound, spec};
use crate::process::crash;

/// The volumes, and whether they are cached.
fn cached(array: &Array) -> BTreeMap<String, bool> {
    array.volumes().into_iter().map(|volume| (volume.name, volume.cached)).collect()
}

fn wanted<const N: usize>(all: [(&str, bool); N]) -> BTreeMap<String, bool> {
    all.into_iter().map(|(name, cached)| (name.to_owned(), cached)).collect()
}

#[test]
fn what_is_not_cached_stays_so_over_restarts_and_in_clones_and_views() {
    run(async {
        let shelf = Shelf::new(4, 64);
        let array = shelf.create(Level::Raid5).await;
        let plain = VolumeSpec { cached: false, ..spec("plain", 4) };
        assert!(!array.create_volume(plain).await.expect("it works").cached);
        assert!(array.create_volume(spec("kept", 4)).await.expect("it works").cached);
        array.snapshot(&[("plain", Some("s")), ("kept", Some("s"))]).await.expect("it works");
        for (volume, clone) in [("plain", "of-plain"), ("kept", "of-kept")] {
            array.clone_snapshot(volume, "s", clone, true).await.expect("it works");
            array.set_snapshot_writable(volume, "s", false).await.expect("it works");
        }
        assert!(!array.snapshot_view("plain", "s").expect("it works").cached);
        assert!(array.snapshot_view("kept", "s").expect("it works").cached);
        let all = [("plain", false), ("kept", true), ("of-plain", false), ("of-kept", true)];
        assert_eq!(cached(&array), wanted(all));
        // No orderly end: what was answered is in a record.
        crash(array);
        let array = shelf.open().await;
        assert_eq!(cached(&array), wanted(all));
        assert!(!array.snapshot_view("plain", "s").expect("it works").cached);

        // A view is as its volume, a clone is not.
        assert!(array.set_volume_cached("plain", true).await.expect("it works").cached);
        assert!(array.snapshot_view("plain", "s").expect("it works").cached);
        assert!(!array.set_volume_cached("kept", false).await.expect("it works").cached);
        assert!(!array.set_volume_cached("kept", false).await.expect("twice is once").cached);
        array.rename_volume("kept", "other").await.expect("it works");
        let all = [("plain", true), ("other", false), ("of-plain", false), ("of-kept", true)];
        array.close().await.expect("it works");
        drop(array);
        let array = shelf.open().await;
        assert_eq!(cached(&array), wanted(all));
        let refused = array.set_volume_cached("kept", true).await;
        assert!(matches!(refused, Err(ArrayError::NoSuchVolume(_))), "{refused:?}");
        sound(&array).await;
        array.close().await.expect("it works");
    });
}

#[test]
fn a_volume_that_is_purged_leaves_nothing_behind() {
    run(async {
        let shelf = Shelf::new(2, 32);
        let array = shelf.create(Level::Raid1).await;
        let plain = || VolumeSpec { cached: false, ..spec("v", 4) };
        for _ in 0..2 {
            array.create_volume(plain()).await.expect("it works");
            array.set_volume_online("v", false).await.expect("it works");
            array.delete_volume("v").await.expect("it works");
            assert_eq!(cached(&array), wanted([("v", false)]), "in the bin it is as it was");
            array.undelete_volume("v").await.expect("it works");
            assert!(!array.volume("v").expect("it works").cached);
            array.delete_volume("v").await.expect("it works");
            // The record says so of volumes that are there, and of no others: that is checked with each checkpoint.
            array.purge_volume("v").await.expect("it works");
        }
        assert!(array.create_volume(spec("v", 4)).await.expect("it works").cached);
        array.close().await.expect("it works");
        drop(array);
        let array = shelf.open().await;
        assert_eq!(cached(&array), wanted([("v", true)]));
        array.close().await.expect("it works");
    });
}

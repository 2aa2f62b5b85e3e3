//! What is written beside a rebuild: nothing is copied of which it is not known what it must be.

use std::sync::Arc;

use block::{BlockDevice, RamDisk, WriteFlags};
use ring::Buf;

use super::*;
use crate::api::{Cache, VolumeSpec};
use crate::{Array, CreateOptions, Level, Member, RingEnv};

fn on_a_core(test: impl Future<Output = ()> + 'static) {
    ring::block_on(&ring::CoreConfig::default(), test).unwrap();
}

/// An array of so many disks with a volume of one MiB, all of it written and in its place.
async fn filled(level: Level, disks: usize) -> (Array, Arc<dyn BlockDevice>) {
    let member = |index| Member {
        name: format!("disk-{index}"),
        device: Arc::new(RamDisk::new(4096, 8192).unwrap()),
    };
    let options = CreateOptions { level, chunk_bytes: Some(1 << 20), ..Default::default() };
    let members = (0..disks).map(member).collect();
    let array = Array::create(Arc::new(RingEnv), members, options).await.unwrap();
    let spec = VolumeSpec {
        name: "v".into(),
        size_bytes: 1 << 20,
        level: None,
        thick: false,
        block_bytes: 4096,
        cache: Cache::Durable,
        read_ahead_bytes: None,
    };
    array.create_volume(spec).await.unwrap();
    let volume = array.device("v").unwrap();
    write(&volume, 0, 256).await;
    array.checkpoint().await.unwrap();
    (array, volume)
}

async fn write(volume: &Arc<dyn BlockDevice>, block: u64, blocks: usize) {
    let mut data = Buf::alloc(blocks * BLOCK_BYTES).unwrap();
    data.fill(block as u8 | 1);
    volume.write(block * BLOCK_BYTES as u64, data.freeze(), WriteFlags::DURABLE).await.unwrap();
}

/// The first set of this kind.
fn set_of(core: &Core, level: Option<Level>) -> Arc<Set> {
    core.sets.all().into_iter().find(|set| set.level() == level).unwrap()
}

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
            let outcome = core.refresh_one(&set, stripe, &known).await;
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
    });
}

use proptest::prelude::*;

use super::*;
use crate::{CLUSTER_BLOCKS, Place, SetId};

const CLUSTERS: u64 = 6;
const BLOCKS: u64 = CLUSTERS * CLUSTER_BLOCKS as u64;

/// What one block is, after everything: `None` as the map says.
type Truth = Vec<Option<Block>>;

#[derive(Debug, Clone)]
enum Step {
    Write(u64, u64),
    Zero(u64, u64),
    Whole(u64),
    Snapshot,
    Freeze,
    Drop,
}

fn step() -> impl Strategy<Value = Step> {
    let range = (0..BLOCKS).prop_flat_map(|first| (Just(first), 1..=BLOCKS - first));
    prop_oneof![
        4 => range.clone().prop_map(|(first, count)| Step::Write(first, count.min(20))),
        3 => range.prop_map(|(first, count)| Step::Zero(first, count)),
        2 => (0..CLUSTERS).prop_map(Step::Whole),
        1 => Just(Step::Snapshot),
        1 => Just(Step::Freeze),
        1 => Just(Step::Drop),
    ]
}

fn taken(id: u32, epoch: Epoch) -> Taken {
    Taken { snapshot: VersionId(id), name: String::new(), epoch, size_bytes: 0, unix_seconds: 0 }
}

/// What `patch` says of a block, told apart by the place of the base.
fn seen(patch: &Patch, block: u64) -> Option<Block> {
    match (patch.blocks[(block % CLUSTER_BLOCKS as u64) as usize], &patch.base) {
        (Block::Base, Base::Below) => None,
        (Block::Base, Base::Zero) => Some(Block::Zero),
        (Block::Base, Base::At(place, _)) => Some(Block::Journal(u64::MAX - place.raw())),
        (known, _) => Some(known),
    }
}

proptest! {
    #[test]
    fn every_view_is_what_was_written_last(steps in prop::collection::vec(step(), 1..60)) {
        let mut overlay = Overlay::new(Epoch(1));
        let mut now: Truth = vec![None; BLOCKS as usize];
        let mut snapshots: Vec<(u32, Truth)> = Vec::new();
        let (mut position, mut epoch, mut frozen) = (0u64, 1u32, 0usize);
        for (number, step) in steps.iter().enumerate() {
            match *step {
                Step::Write(first, count) => {
                    overlay.open().write(first, count, position);
                    for index in 0..count {
                        let place = position + index * 4096;
                        now[(first + index) as usize] = Some(Block::Journal(place));
                    }
                    position += count * 4096;
                }
                Step::Zero(first, count) => {
                    overlay.open().zero(first, count);
                    now[first as usize..(first + count) as usize].fill(Some(Block::Zero));
                }
                Step::Whole(cluster) => {
                    let place = Place::new(SetId(1), number as u32);
                    overlay.open().patch_mut(cluster).rebase(Base::At(place, Box::default()));
                    let start = cluster as usize * CLUSTER_BLOCKS;
                    let mark = Block::Journal(u64::MAX - place.raw());
                    now[start..start + CLUSTER_BLOCKS].fill(Some(mark));
                }
                Step::Snapshot => {
                    overlay.take(taken(number as u32 + 1, Epoch(epoch)), Epoch(epoch + 1));
                    epoch += 1;
                    snapshots.push((number as u32 + 1, now.clone()));
                }
                Step::Freeze if frozen == 0 => frozen = overlay.freeze(Epoch(epoch)),
                // A checkpoint ends: what it took out is the map's business now, so the model
                // forgets it where nothing newer lies above.
                Step::Drop if frozen > 0 => {
                    let gone = overlay.waiting().take_while(|waiting| {
                        overlay.frozen(frozen).iter().any(|segment| segment.is_end_of(waiting.snapshot))
                    }).count();
                    overlay.drop_frozen(frozen);
                    frozen = 0;
                    snapshots.drain(..gone);
                    for block in 0..BLOCKS {
                        let left = seen(&overlay.resolve(block / CLUSTER_BLOCKS as u64), block);
                        prop_assert!(left.is_none() || left == now[block as usize]);
                        now[block as usize] = left;
                    }
                    for (id, truth) in &mut snapshots {
                        for block in 0..BLOCKS {
                            let cluster = block / CLUSTER_BLOCKS as u64;
                            let patch = overlay.resolve_at(VersionId(*id), cluster).unwrap();
                            let left = seen(&patch, block);
                            prop_assert!(left.is_none() || left == truth[block as usize]);
                            truth[block as usize] = left;
                        }
                    }
                }
                Step::Freeze | Step::Drop => {}
            }
            for block in 0..BLOCKS {
                let cluster = block / CLUSTER_BLOCKS as u64;
                prop_assert_eq!(seen(&overlay.resolve(cluster), block), now[block as usize]);
                for (id, truth) in &snapshots {
                    let patch = overlay.resolve_at(VersionId(*id), cluster).unwrap();
                    prop_assert_eq!(seen(&patch, block), truth[block as usize]);
                }
            }
        }
    }

    #[test]
    fn ranges_are_a_set(inserts in prop::collection::vec((0u64..60, 0u64..20), 0..30)) {
        let mut ranges = ranges::Ranges::default();
        let mut truth = [false; 100];
        for (start, len) in inserts {
            ranges.insert(start..start + len);
            truth[start as usize..(start + len) as usize].fill(true);
        }
        for value in 0..100u64 {
            prop_assert_eq!(ranges.contains(value), truth[value as usize]);
        }
        let mut last = None;
        for range in ranges.iter() {
            prop_assert!(last.is_none_or(|end| end < range.start) && !range.is_empty());
            last = Some(range.end);
        }
    }
}

#[test]
fn zeroing_hands_out_what_it_covers() {
    let mut overlay = Overlay::new(Epoch(1));
    overlay.open().patch_mut(1).room = Room::Reserved;
    overlay.open().patch_mut(2).rebase(Base::At(Place::new(SetId(1), 5), Box::default()));
    let gone = overlay.open().zero(16, 32);
    assert_eq!(gone.len(), 2);
    assert!(gone[0].room == Room::Reserved && matches!(gone[1].base, Base::At(..)));
    assert!(overlay.open().patch(1).is_none());
    assert_eq!(overlay.resolve(2).base, Base::Zero);
}

#[test]
fn an_untouched_volume_freezes_nothing() {
    let mut overlay = Overlay::new(Epoch(1));
    assert_eq!(overlay.freeze(Epoch(1)), 0);
    overlay.take(taken(9, Epoch(1)), Epoch(2));
    assert_eq!(overlay.freeze(Epoch(2)), 1);
}

#[test]
fn what_is_in_a_place_is_needed_by_snapshots_that_wait() {
    let (old, new) = (Place::new(SetId(1), 1), Place::new(SetId(1), 2));
    let mut overlay = Overlay::new(Epoch(1));
    overlay.open().write(0, 1, 4096);
    let needed = |overlay: &Overlay, at| [0, 1, 2].map(|block| overlay.needs(0, block, at));
    assert_eq!(needed(&overlay, old), [false, true, true], "the journal has the first");
    overlay.take(taken(9, Epoch(1)), Epoch(2));
    overlay.open().write(0, 2, 8192);
    assert_eq!(needed(&overlay, old), [false, true, true], "the snapshot has the second");
    overlay.open().patch_mut(0).rebase(Base::At(new, Box::default()));
    assert_eq!(needed(&overlay, new), [true; 3], "the volume lies there");
    overlay.open().write(0, CLUSTER_BLOCKS as u64, 16384);
    assert_eq!(needed(&overlay, new), [false; 3], "and the snapshot never did");
}

#[test]
fn what_a_checkpoint_could_not_take_out_is_frozen_again_and_does_not_grow() {
    let mut overlay = Overlay::new(Epoch(1));
    overlay.open().write(0, 1, 4096);
    assert_eq!(overlay.freeze(Epoch(1)), 1);
    assert_eq!(overlay.freeze(Epoch(2)), 1, "nothing came since");
    overlay.open().write(0, 1, 8192);
    assert_eq!((overlay.freeze(Epoch(3)), overlay.epoch()), (2, Epoch(1)));
    assert_eq!(overlay.resolve(0).blocks[0], Block::Journal(8192));
    overlay.drop_frozen(2);
    assert_eq!((overlay.freeze(Epoch(4)), overlay.resolve(0)), (0, Patch::default()));
}

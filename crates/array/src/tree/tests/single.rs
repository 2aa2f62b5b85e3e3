//! One thing at a time, with its cost.

use std::ops::Range;

use super::super::{
    Changed, Draft, Parent, Root, Seen, diff, exclusive, leaf, lookup, mapped, visit,
};
use super::{Store, entry};
use crate::{Epoch, Place, SetId};

/// Maps entry 0 of these leaves, at `epoch`, in a tree with a parent of epoch `parent`.
fn write(store: &mut Store, root: Root, parent: Option<u32>, epoch: u32, leaves: &[u32]) -> Root {
    let mut draft = Draft::new(root, parent.map(Epoch), Epoch(epoch));
    for number in leaves {
        let place = Place::new(SetId(epoch), *number);
        store.retry(|pages| {
            leaf::set(draft.leaf_mut(pages, *number)?, 0, Some(&entry(place, epoch, 7)));
            Ok(())
        });
    }
    store.commit(draft)
}

#[test]
fn a_draft_without_changes_is_the_same_tree() {
    let mut store = Store::default();
    let root = write(&mut store, None, None, 1, &[5]);
    let mut draft = Draft::new(root, None, Epoch(2));
    store.retry(|pages| draft.leaf_mut(pages, 6).map(drop));
    store.retry(|pages| draft.remove_leaf(pages, 7));
    assert_eq!(store.retry(|pages| draft.leaf(pages, 6)), Some([0; 4096].into()));
    let done = draft.commit(&mut || panic!("nothing is to be written"));
    assert_eq!((done.root, done.writes.len(), done.freed.len()), (root, 0, 0));
}

#[test]
fn the_last_cluster_takes_the_tree_along() {
    let mut store = Store::default();
    let root = write(&mut store, None, None, 1, &[5, 70_000]);
    assert_eq!(store.pages.len(), 7, "two ways of three pages below one root");
    let mut draft = Draft::new(root, None, Epoch(1));
    store.retry(|pages| draft.remove_leaf(pages, 5));
    assert_eq!(store.retry(|pages| draft.leaf(pages, 5)), None);
    store.retry(|pages| {
        leaf::set(draft.leaf_mut(pages, 70_000)?, 0, None);
        Ok(())
    });
    assert_eq!(store.commit(draft), None);
    assert!(store.pages.is_empty());
}

#[test]
fn pages_are_written_after_those_they_name() {
    let mut store = Store::default();
    let root = write(&mut store, None, None, 1, &[1]);
    let mut draft = Draft::new(root, Some(Epoch(1)), Epoch(2));
    store.retry(|pages| {
        draft.leaf_mut(pages, 2)?[0..16].fill(1);
        Ok(())
    });
    let mut next = 100;
    let done = draft.commit(&mut || {
        next += 1;
        super::PageAddr::new(SetId(1), next)
    });
    assert_eq!(done.writes.len(), 4);
    assert_eq!(done.root, Some(done.writes[3].0));
    assert!(done.writes.iter().all(|(r, page)| r.verifies(page) && r.birth == Epoch(2)));
    assert!(done.freed.is_empty(), "the old pages are the parent's");
}

#[test]
fn lookup_reads_one_way_and_stops_where_nothing_is() {
    let mut store = Store::default();
    let root = write(&mut store, None, None, 1, &[0, (1 << 24) - 1]);
    assert!(store.retry(|pages| lookup(pages, root, (1 << 24) - 1)).is_some());
    store.reads = 0;
    assert!(lookup(&mut store, root, 1 << 20).unwrap().is_none());
    assert_eq!(store.reads, 1);
    assert!(lookup(&mut store, None, 3).unwrap().is_none());
}

/// The only range of a diff.
fn only(changed: &Changed) -> Range<u64> {
    assert_eq!(changed.clusters.len(), 1);
    changed.clusters[0].clone()
}

/// A volume with many leaves, and a snapshot that differs from it in one.
fn pair(store: &mut Store) -> (Root, Root) {
    let many: Vec<u32> = (0..600).chain(70_000..70_100).collect();
    let snapshot = write(store, None, None, 1, &many);
    let head = write(store, snapshot, Some(1), 2, &[70_050]);
    for addr in store.pages.keys() {
        store.loaded.insert(*addr);
    }
    store.reads = 0;
    (snapshot, head)
}

#[test]
fn what_is_shared_is_not_read() {
    let mut store = Store::default();
    let (snapshot, head) = pair(&mut store);
    let owned = exclusive(&mut store, head, Some(Epoch(1)), &[], 0, 1000).unwrap();
    assert_eq!(owned.places, [Place::new(SetId(2), 70_050)]);
    assert_eq!((owned.pages.len(), owned.next_leaf), (4, None));
    assert_eq!(owned.pages.last().copied(), head.map(|r| r.addr), "the root comes last");
    assert_eq!(store.reads, 4, "the way to the one leaf");

    store.reads = 0;
    let owned = exclusive(&mut store, snapshot, None, &[head], 0, 1000).unwrap();
    assert_eq!(owned.places, [Place::new(SetId(1), 70_050)]);
    assert_eq!((owned.pages.len(), store.reads), (4, 8));

    store.reads = 0;
    let changed = diff(&mut store, snapshot, head, 0, 1000, 1000).unwrap();
    let cluster = leaf::cluster(70_050, 0);
    assert_eq!(only(&changed), cluster..cluster + 1);
    assert_eq!(store.reads, 8);
}

#[test]
fn steps_are_bounded_and_go_on_where_they_ended() {
    let mut store = Store::default();
    let (snapshot, _) = pair(&mut store);
    let mut seen = (0, 0);
    let mut from = Some(0);
    while let Some(at) = from {
        let before = seen;
        from = visit(&mut store, snapshot, at, 10, |it| match it {
            Seen::Leaf { leaf, r, page } => {
                assert!(leaf >= at && r.verifies(page));
                seen.0 += 1;
            }
            Seen::Interior(_) => seen.1 += 1,
        })
        .unwrap();
        let shown = seen.0 + seen.1 - before.0 - before.1;
        assert!(shown <= 10 + 3, "pages that end with the last leaf come with it, got {shown}");
    }
    assert_eq!(seen, (700, 7), "five pages above the leaves, two above them, less one shared root");
    assert_eq!(mapped(&mut store, snapshot, 0, 10_000).unwrap().clusters, 700);
}

#[test]
fn a_step_that_got_somewhere_keeps_what_it_has() {
    let mut store = Store::default();
    let (snapshot, _) = pair(&mut store);
    let cold = lookup(&mut store, snapshot, 3).unwrap().unwrap();
    let cold = *store.pages.iter().find(|(_, page)| **page == cold).unwrap().0;
    store.loaded.remove(&cold);
    let step = mapped(&mut store, snapshot, 0, 1000).unwrap();
    assert_eq!((step.clusters, step.next_leaf), (3, Some(3)));
    assert_eq!(mapped(&mut store, snapshot, 3, 1000).unwrap_err().page.addr, cold);
}

#[test]
fn diff_names_no_more_than_it_may() {
    let mut store = Store::default();
    let (snapshot, _) = pair(&mut store);
    let step = diff(&mut store, None, snapshot, 0, 1000, 100).unwrap();
    let named: u64 = step.clusters.iter().map(|range| range.end - range.start).sum();
    assert_eq!((named, step.next_leaf), (50, Some(50)), "another leaf might have 51");
    let step = diff(&mut store, None, snapshot, 50, 1000, 1).unwrap();
    assert_eq!(step.next_leaf, Some(51), "one leaf is always named");
}

#[test]
fn neighbours_in_a_diff_are_joined() {
    let mut store = Store::default();
    let mut draft = Draft::new(None, None, Epoch(1));
    store.retry(|pages| {
        leaf::set(draft.leaf_mut(pages, 0)?, 50, Some(&entry(Place::new(SetId(1), 1), 1, 0)));
        leaf::set(draft.leaf_mut(pages, 1)?, 0, Some(&entry(Place::new(SetId(1), 2), 1, 0)));
        Ok(())
    });
    let root = store.commit(draft);
    let changed = store.retry(|pages| diff(pages, root, None, 0, 1000, 1000));
    assert_eq!((only(&changed), changed.next_leaf), (50..51, Some(1)), "leaf 1 was missing");
    store.loaded.extend(store.pages.keys());
    assert_eq!(only(&diff(&mut store, root, None, 0, 1000, 1000).unwrap()), 50..52);
}

#[test]
fn a_parent_shares_what_is_not_younger() {
    let parent = Parent::new(Some(Epoch(5)));
    assert!(parent.shares(Epoch(5), 0) && !parent.shares(Epoch(6), 0));
    assert!(!Parent::new(None).shares(Epoch(0), 0));
    let going = parent.deleted_below(10, Some(Epoch(3)));
    assert!(going.shares(Epoch(4), 10) && !going.shares(Epoch(4), 9) && going.shares(Epoch(3), 9));
    assert!(!parent.deleted_below(10, None).shares(Epoch(0), 9));
}

#[test]
#[should_panic(expected = "frozen")]
fn a_snapshot_is_not_changed() {
    let _ = Draft::new(None, Some(Epoch(4)), Epoch(4));
}

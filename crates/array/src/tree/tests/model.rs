//! Many versions at once: whatever is written, snapshotted, cloned and deleted, every version
//! reads as it should, and space is in use exactly as long as some version needs it.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use super::super::leaf::{self, Entry};
use super::super::{Draft, Parent, Root, Seen, diff, exclusive, lookup, mapped, visit};
use super::{PageAddr, Places, Store, entry};
use crate::{Epoch, Place};

/// Leaves on both sides of every border in the tree.
const LEAVES: [u32; 8] = [0, 1, 255, 256, 65_535, 65_536, 0x007f_ffff, (1 << 24) - 1];
/// Entries used of each leaf.
const ENTRIES: [usize; 3] = [0, 1, 50];
const CLUSTERS: usize = LEAVES.len() * ENTRIES.len();

fn cluster(n: usize) -> u64 {
    let n = n % CLUSTERS;
    leaf::cluster(LEAVES[n / ENTRIES.len()], ENTRIES[n % ENTRIES.len()])
}

#[derive(Debug, Clone)]
enum Op {
    /// Changes a head: `true` maps a cluster, `false` unmaps it.
    Change(usize, Vec<(usize, bool)>),
    /// Unmaps a whole leaf of a head.
    RemoveLeaf(usize, usize),
    Snapshot(usize),
    Clone(usize),
    /// Deletes a version, with changes to its child between the steps.
    Delete(usize, usize, Vec<(usize, bool)>),
}

fn op() -> impl Strategy<Value = Op> {
    let changes = || prop::collection::vec((0..CLUSTERS, prop::bool::weighted(0.7)), 1..8);
    let any = 0..64_usize;
    prop_oneof![
        6 => (any.clone(), changes()).prop_map(|(v, changes)| Op::Change(v, changes)),
        1 => (any.clone(), 0..LEAVES.len()).prop_map(|(v, leaf)| Op::RemoveLeaf(v, leaf)),
        3 => any.clone().prop_map(Op::Snapshot),
        2 => any.clone().prop_map(Op::Clone),
        3 => (any, 1..6_usize, changes()).prop_map(|(v, n, changes)| Op::Delete(v, n, changes)),
    ]
}

#[derive(Debug, Clone)]
struct Version {
    root: Root,
    parent: Option<usize>,
    /// When it was frozen; `None` for a head.
    epoch: Option<Epoch>,
    /// Deleted, but still needed because it has several children.
    hidden: bool,
    content: BTreeMap<u64, Entry>,
}

#[derive(Debug)]
struct World {
    store: Store,
    places: Places,
    versions: BTreeMap<usize, Version>,
    next: usize,
    epoch: u32,
}

impl World {
    fn new() -> Self {
        let head =
            Version { root: None, parent: None, epoch: None, hidden: false, content: [].into() };
        Self {
            store: Store::default(),
            places: Places::default(),
            versions: [(0, head)].into(),
            next: 1,
            epoch: 1,
        }
    }

    /// One of the versions that `fits`.
    fn pick(&self, n: usize, fits: impl Fn(&Version) -> bool) -> Option<usize> {
        let fitting: Vec<_> = self.versions.iter().filter(|(_, v)| fits(v)).collect();
        (!fitting.is_empty()).then(|| *fitting[n % fitting.len()].0)
    }

    fn add(&mut self, version: Version) -> usize {
        self.next += 1;
        self.versions.insert(self.next, version);
        self.next
    }

    fn epoch_of(&self, id: Option<usize>) -> Option<Epoch> {
        id.map(|id| self.versions[&id].epoch.expect("parents are frozen"))
    }

    fn children(&self, id: usize) -> Vec<usize> {
        self.versions.iter().filter(|(_, v)| v.parent == Some(id)).map(|(id, _)| *id).collect()
    }

    fn apply(&mut self, op: Op) {
        let head = |v: &Version| v.epoch.is_none();
        match op {
            Op::Change(n, changes) => {
                if let Some(id) = self.pick(n, head) {
                    let parent = Parent::new(self.epoch_of(self.versions[&id].parent));
                    self.change(id, parent, &changes);
                }
            }
            Op::RemoveLeaf(n, leaf) => {
                if let Some(id) = self.pick(n, head) {
                    self.remove_leaf(id, LEAVES[leaf]);
                }
            }
            Op::Snapshot(n) => {
                if let Some(id) = self.pick(n, head) {
                    let mut frozen = self.versions[&id].clone();
                    frozen.epoch = Some(Epoch(self.epoch));
                    self.epoch += 1;
                    let frozen = self.add(frozen);
                    self.versions.get_mut(&id).unwrap().parent = Some(frozen);
                }
            }
            Op::Clone(n) => {
                if let Some(id) = self.pick(n, |v| v.epoch.is_some() && !v.hidden) {
                    let origin = self.versions[&id].clone();
                    self.add(Version { parent: Some(id), epoch: None, ..origin });
                }
            }
            Op::Delete(n, step, changes) => {
                if let Some(id) = self.pick(n, |v| !v.hidden) {
                    self.delete(id, step, &changes);
                }
            }
        }
    }

    /// One checkpoint of a head.
    fn change(&mut self, id: usize, parent: Parent, changes: &[(usize, bool)]) {
        let Self { store, places, versions, epoch, .. } = self;
        let version = versions.get_mut(&id).unwrap();
        let mut draft = Draft::new(version.root, parent, Epoch(*epoch));
        let mut freed = Vec::new();
        for (n, map) in changes {
            let at = cluster(*n);
            let (number, i) = leaf::position(at);
            let old = version.content.get(&at).copied();
            let ours = old.filter(|old| !parent.shares(old.birth, number));
            let new = match (map, ours) {
                // What nobody shares is overwritten where it lies.
                (true, Some(old)) => Some(Entry { crcs: [old.crcs[0] + 1; 16], ..old }),
                (true, None) => Some(entry(places.take(), *epoch, 0)),
                (false, ours) => {
                    freed.extend(ours.map(|old| old.place));
                    None
                }
            };
            let before = store.retry(|pages| draft.leaf(pages, number));
            assert_eq!(before.and_then(|page| leaf::get(&page, i)), old);
            store.retry(|pages| {
                leaf::set(draft.leaf_mut(pages, number)?, i, new.as_ref());
                Ok(())
            });
            match new {
                Some(new) => version.content.insert(at, new),
                None => version.content.remove(&at),
            };
        }
        version.root = store.commit(draft);
        freed.into_iter().for_each(|place| places.release(place));
    }

    fn remove_leaf(&mut self, id: usize, number: u32) {
        let parent = Parent::new(self.epoch_of(self.versions[&id].parent));
        let version = self.versions.get_mut(&id).unwrap();
        let mut draft = Draft::new(version.root, parent, Epoch(self.epoch));
        self.store.retry(|pages| draft.remove_leaf(pages, number));
        version.root = self.store.commit(draft);
        let gone = |at: &u64| leaf::position(*at).0 == number;
        for (_, old) in version.content.extract_if(.., |at, _| gone(at)) {
            if !parent.shares(old.birth, number) {
                self.places.release(old.place);
            }
        }
    }

    /// Deletes a version in steps; its child goes on in between.
    fn delete(&mut self, id: usize, step_pages: usize, changes: &[(usize, bool)]) {
        let children = self.children(id);
        if children.len() > 1 {
            self.versions.get_mut(&id).unwrap().hidden = true;
            return;
        }
        let child = children.first().copied();
        let Version { root, parent, epoch, .. } = self.versions[&id].clone();
        let grandparent = self.epoch_of(parent);
        let mut from = 0;
        let mut changes = changes.iter();
        loop {
            let child_root: Vec<Root> = child.iter().map(|id| self.versions[id].root).collect();
            let owned = self
                .store
                .retry(|pages| exclusive(pages, root, grandparent, &child_root, from, step_pages));
            owned.places.into_iter().for_each(|place| self.places.release(place));
            self.store.release(owned.pages);
            let Some(next) = owned.next_leaf else { break };
            from = next;
            let head = child.filter(|id| self.versions[id].epoch.is_none());
            if let (Some(head), Some(change)) = (head, changes.next()) {
                let going = Parent::new(epoch).deleted_below(from, grandparent);
                self.change(head, going, &[*change]);
            }
        }
        self.versions.remove(&id);
        if let Some(child) = child {
            self.versions.get_mut(&child).unwrap().parent = parent;
        }
        // A hidden parent that has one child left can go now.
        if let Some(parent) = parent.filter(|id| self.versions[id].hidden)
            && self.children(parent).len() <= 1
        {
            self.delete(parent, step_pages, &[]);
        }
    }

    /// Every page of a version's tree.
    fn pages(&mut self, id: usize, step_pages: usize) -> BTreeSet<PageAddr> {
        let version = &self.versions[&id];
        let (mut all, mut content) = (BTreeSet::new(), BTreeMap::new());
        let mut from = Some(0);
        while let Some(at) = from {
            from = self.store.retry(|pages| {
                visit(pages, version.root, at, step_pages, |seen| {
                    let r = match seen {
                        Seen::Interior(r) => r,
                        Seen::Leaf { leaf, r, page } => {
                            let entries = leaf::entries(page);
                            content.extend(entries.map(|(i, e)| (leaf::cluster(leaf, i), e)));
                            r
                        }
                    };
                    assert!(all.insert(r.addr), "{r:?} came twice");
                })
            });
        }
        assert_eq!(content, version.content, "version {id} reads wrong");
        all
    }

    fn check(&mut self, step_pages: usize) {
        let ids: Vec<usize> = self.versions.keys().copied().collect();
        let trees: BTreeMap<_, _> =
            ids.iter().map(|id| (*id, self.pages(*id, step_pages))).collect();
        let places = |v: &Version| v.content.values().map(|e| e.place).collect::<BTreeSet<_>>();
        let contents: BTreeMap<_, _> =
            self.versions.iter().map(|(id, v)| (*id, places(v))).collect();

        let used: BTreeSet<PageAddr> = trees.values().flatten().copied().collect();
        assert_eq!(used, self.store.pages.keys().copied().collect(), "pages in use");
        let used: BTreeSet<Place> = contents.values().flatten().copied().collect();
        assert_eq!(used, self.places.used, "places in use");

        for id in &ids {
            self.check_alone(*id, &trees, &contents, step_pages);
            self.check_counts(*id, trees[id].len());
        }
        for pair in ids.windows(2) {
            self.check_diff(pair[0], pair[1], step_pages);
        }
    }

    /// What a version is said to hold alone is what no other version has.
    fn check_alone(
        &mut self,
        id: usize,
        trees: &BTreeMap<usize, BTreeSet<PageAddr>>,
        contents: &BTreeMap<usize, BTreeSet<Place>>,
        step_pages: usize,
    ) {
        let root = self.versions[&id].root;
        let parent = self.epoch_of(self.versions[&id].parent);
        let children: Vec<_> =
            self.children(id).iter().map(|child| self.versions[child].root).collect();
        let (mut places, mut pages) = (Vec::new(), Vec::new());
        let mut from = Some(0);
        while let Some(at) = from {
            let step =
                self.store.retry(|store| exclusive(store, root, parent, &children, at, step_pages));
            places.extend(step.places);
            pages.extend(step.pages);
            from = step.next_leaf;
        }
        assert_eq!(sorted(places), alone(id, contents), "places of {id} alone");
        assert_eq!(sorted(pages), alone(id, trees), "pages of {id} alone");
    }

    fn check_counts(&mut self, id: usize, pages_expected: usize) {
        let Version { root, content, .. } = &self.versions[&id];
        let (mut clusters, mut count, mut from) = (0, 0, Some(0));
        while let Some(at) = from {
            let step = self.store.retry(|pages| mapped(pages, *root, at, 3));
            clusters += step.clusters;
            count += step.pages;
            from = step.next_leaf;
        }
        assert_eq!((clusters, count), (content.len() as u64, pages_expected as u64));
        for number in LEAVES {
            let page = self.store.retry(|pages| lookup(pages, *root, number));
            let mapped = content.keys().any(|at| leaf::position(*at).0 == number);
            assert_eq!(page.is_some(), mapped, "empty leaves go");
        }
    }

    fn check_diff(&mut self, a: usize, b: usize, step_pages: usize) {
        let (a, b) = (&self.versions[&a], &self.versions[&b]);
        let mut changed = Vec::new();
        let mut from = Some(0);
        while let Some(at) = from {
            let step =
                self.store.retry(|pages| diff(pages, a.root, b.root, at, step_pages, step_pages));
            changed.extend(step.clusters.into_iter().flatten());
            from = step.next_leaf;
        }
        let different = |at: &u64| a.content.get(at) != b.content.get(at);
        let expected: Vec<u64> = (0..CLUSTERS).map(cluster).filter(different).collect();
        assert_eq!(changed, expected);
    }
}

/// What only `id` has.
fn alone<T: Ord + Copy>(id: usize, all: &BTreeMap<usize, BTreeSet<T>>) -> Vec<T> {
    let others = |it: &T| all.iter().any(|(other, has)| *other != id && has.contains(it));
    all[&id].iter().filter(|it| !others(it)).copied().collect()
}

fn sorted<T: Ord>(mut all: Vec<T>) -> Vec<T> {
    all.sort();
    all
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, ..ProptestConfig::default() })]

    #[test]
    fn versions_keep_what_they_need_and_nothing_else(
        ops in prop::collection::vec(op(), 1..40),
        step_pages in 1..6_usize,
    ) {
        let mut world = World::new();
        for op in ops {
            world.apply(op);
            world.check(step_pages);
        }
        // In any order: what is hidden goes with the last of its children but one.
        while let Some(id) = world.pick(step_pages, |v| !v.hidden) {
            world.delete(id, step_pages, &[]);
        }
        world.check(step_pages);
        prop_assert!(world.versions.is_empty() && world.store.pages.is_empty());
    }
}

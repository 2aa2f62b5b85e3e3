//! Volumes, snapshots, clones, what hosts write to snapshots, differences and space against a plain
//! model: whatever is done, every version holds what it should, and not a cluster too much.

use std::collections::{BTreeMap, BTreeSet};

use array::api::{SpaceInfo, VolumeState};
use array::{Array, Level};
use block::BlockDevice;
use proptest::prelude::*;
use std::sync::Arc;

use crate::common::{Shelf, bytes, spec, write};

const CLUSTER: u64 = 64 << 10;
const BLOCK: usize = 4096;
/// Clusters in use, on both sides of the borders of leaves (51 clusters each).
const CLUSTERS: [u64; 8] = [0, 1, 49, 50, 51, 52, 101, 127];
const MIB: u64 = 8;
const DISKS: [&str; 3] = ["a", "b", "c"];

#[derive(Debug, Clone, Copy)]
enum Op {
    /// A block of a cluster, its second one.
    Block(usize, usize),
    Cluster(usize, usize),
    Unmap(usize, usize),
    Snapshot(usize),
    /// Of a snapshot, a volume that has no name yet.
    Clone(usize),
    Rollback(usize),
    Delete(usize),
    /// Writes to a snapshot.
    Serve(usize, bool),
    View(usize, usize),
    Checkpoint,
}

fn op() -> impl Strategy<Value = Op> {
    let (any, cluster) = (0..64_usize, 0..CLUSTERS.len());
    prop_oneof![
        5 => (any.clone(), cluster.clone()).prop_map(|(n, c)| Op::Block(n, c)),
        5 => (any.clone(), cluster.clone()).prop_map(|(n, c)| Op::Cluster(n, c)),
        3 => (any.clone(), cluster.clone()).prop_map(|(n, c)| Op::Unmap(n, c)),
        4 => any.clone().prop_map(Op::Snapshot),
        1 => any.clone().prop_map(Op::Clone),
        1 => any.clone().prop_map(Op::Rollback),
        2 => any.clone().prop_map(Op::Delete),
        2 => (any.clone(), prop::bool::ANY).prop_map(|(n, fresh)| Op::Serve(n, fresh)),
        4 => (any, cluster).prop_map(|(n, c)| Op::View(n, c)),
        2 => Just(Op::Checkpoint),
    ]
}

/// A cluster: which write made it what it is, and the seeds of its first two blocks. Two versions
/// share it exactly if it is of the same write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Cell {
    write: u32,
    seeds: [u8; 2],
}

type Cells = BTreeMap<u64, Cell>;

#[derive(Debug, Clone, Default)]
struct Version {
    cells: Cells,
    /// The snapshot that it was made from.
    parent: Option<u32>,
}

#[derive(Debug)]
struct Snapshot {
    volume: String,
    version: Version,
    view: Option<Cells>,
}

/// What is wrong with the model, to see that the comparison sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Flaw {
    None,
    /// Takes what is unmapped for still there.
    KeepsUnmapped,
    /// Takes a write to a shared cluster for one in place.
    SharesWrites,
    /// Lets what is written to a snapshot show in it.
    WritesThrough,
}

struct Model {
    array: Array,
    flaw: Flaw,
    heads: BTreeMap<String, Version>,
    snapshots: BTreeMap<u32, Snapshot>,
    writes: u32,
    /// Snapshots ever: the name of one that is deleted is free only when all of it is given back.
    taken: u32,
}

fn pick<'a, T>(mut all: impl Iterator<Item = T> + Clone + 'a, n: usize) -> Option<T> {
    let count = all.clone().count();
    all.nth(n.checked_rem(count)?)
}

fn name_of(id: u32) -> String {
    format!("s{id}")
}

impl Model {
    async fn new(flaw: Flaw) -> Self {
        let array = Shelf::new(1, 48).create(Level::Raid0).await;
        array.create_volume(spec(DISKS[0], MIB)).await.expect("there is room");
        let heads = BTreeMap::from([(DISKS[0].to_owned(), Version::default())]);
        Self { array, flaw, heads, snapshots: BTreeMap::new(), writes: 0, taken: 0 }
    }

    fn head(&self, n: usize) -> String {
        pick(self.heads.keys(), n).expect("there is one").clone()
    }

    fn snapshot(&self, n: usize) -> Option<u32> {
        pick(self.snapshots.keys(), n).copied()
    }

    /// Writes a cluster, or its second block.
    async fn put(
        &mut self,
        device: Arc<dyn BlockDevice>,
        cells: &mut Cells,
        cluster: u64,
        whole: bool,
    ) {
        self.writes += 1;
        let seed = self.writes as u8;
        let (at, len) = match whole {
            true => (cluster * CLUSTER, CLUSTER as usize),
            false => (cluster * CLUSTER + BLOCK as u64, BLOCK),
        };
        write(&device, at, &bytes(len, seed)).await;
        let old = cells.get(&cluster).copied();
        let seeds = old.map_or([0, 0], |cell| cell.seeds);
        let seeds = if whole { [seed, seed] } else { [seeds[0], seed] };
        let kept = old.filter(|_| self.flaw == Flaw::SharesWrites);
        let write = kept.map_or(self.writes, |cell| cell.write);
        cells.insert(cluster, Cell { write, seeds });
    }

    async fn write_head(&mut self, n: usize, c: usize, whole: bool) {
        let name = self.head(n);
        let device = self.array.device(&name).expect("it is there");
        let mut cells = self.heads[&name].cells.clone();
        self.put(device, &mut cells, CLUSTERS[c], whole).await;
        self.heads.get_mut(&name).expect("it is there").cells = cells;
    }

    async fn write_view(&mut self, n: usize, c: usize) {
        let written = self.snapshots.iter().filter(|(_, snapshot)| snapshot.view.is_some());
        let Some(id) = pick(written.map(|(id, _)| *id), n) else { return };
        let of = &self.snapshots[&id];
        let device = self.array.snapshot_view_device(&of.volume, &name_of(id));
        let mut cells = of.view.clone().expect("filtered above");
        self.put(device.expect("it was served"), &mut cells, CLUSTERS[c], n.is_multiple_of(2))
            .await;
        let of = self.snapshots.get_mut(&id).expect("it is there");
        if self.flaw == Flaw::WritesThrough {
            of.version.cells = cells.clone();
        }
        of.view = Some(cells);
    }

    async fn unmap(&mut self, n: usize, c: usize) {
        let name = self.head(n);
        let device = self.array.device(&name).expect("it is there");
        device.unmap(CLUSTERS[c] * CLUSTER, CLUSTER).await.expect("it is done");
        if self.flaw != Flaw::KeepsUnmapped {
            self.heads.get_mut(&name).expect("it is there").cells.remove(&CLUSTERS[c]);
        }
    }

    async fn take(&mut self, n: usize) {
        let volume = self.head(n);
        let id = self.taken;
        self.taken += 1;
        let name = name_of(id);
        self.array.snapshot(&[(&volume, Some(&name))]).await.expect("it is taken");
        let head = self.heads.get_mut(&volume).expect("it is there");
        let version = head.clone();
        head.parent = Some(id);
        self.snapshots.insert(id, Snapshot { volume, version, view: None });
    }

    async fn clone_one(&mut self, n: usize) {
        let free = DISKS.iter().find(|name| !self.heads.contains_key(**name));
        let Some((id, name)) = self.snapshot(n).zip(free) else { return };
        let of = &self.snapshots[&id];
        let made = self.array.clone_snapshot(&of.volume, &name_of(id), name, true).await;
        made.expect("it is cloned");
        let head = Version { cells: of.version.cells.clone(), parent: Some(id) };
        self.heads.insert((*name).to_owned(), head);
    }

    async fn rollback(&mut self, n: usize) {
        let Some(id) = self.snapshot(n) else { return };
        let of = &self.snapshots[&id];
        self.array.set_volume_online(&of.volume, false).await.expect("it is offline");
        self.array.rollback(&of.volume, &name_of(id)).await.expect("it is done");
        let head = Version { cells: of.version.cells.clone(), parent: Some(id) };
        self.heads.insert(of.volume.clone(), head);
    }

    /// Deletes a snapshot that at most one version was made from: others wait.
    async fn delete(&mut self, n: usize) {
        let Some(id) = self.snapshot(n) else { return };
        let frozen = self.snapshots.values().map(|snapshot| &snapshot.version);
        let children = self.heads.values().chain(frozen);
        if children.filter(|version| version.parent == Some(id)).count() > 1 {
            return;
        }
        let gone = self.snapshots.remove(&id).expect("it is there");
        let (volume, name) = (&gone.volume, name_of(id));
        self.array.set_snapshot_online(volume, &name, false).await.expect("it is offline");
        self.array.delete_snapshot(volume, &name).await.expect("it is deleted");
        let frozen = self.snapshots.values_mut().map(|snapshot| &mut snapshot.version);
        for version in self.heads.values_mut().chain(frozen) {
            if version.parent == Some(id) {
                version.parent = gone.version.parent;
            }
        }
    }

    async fn serve(&mut self, n: usize, fresh: bool) {
        let Some(id) = self.snapshot(n) else { return };
        let of = self.snapshots.get_mut(&id).expect("it is there");
        let (volume, name) = (&of.volume, name_of(id));
        self.array.set_snapshot_online(volume, &name, false).await.expect("it is offline");
        self.array.set_snapshot_writable(volume, &name, fresh).await.expect("it is served");
        if fresh || of.view.is_none() {
            of.view = Some(of.version.cells.clone());
        }
    }

    async fn apply(&mut self, op: Op) {
        match op {
            Op::Block(n, c) => self.write_head(n, c, false).await,
            Op::Cluster(n, c) => self.write_head(n, c, true).await,
            Op::Unmap(n, c) => self.unmap(n, c).await,
            Op::Snapshot(n) => self.take(n).await,
            Op::Clone(n) => self.clone_one(n).await,
            Op::Rollback(n) => self.rollback(n).await,
            Op::Delete(n) => self.delete(n).await,
            Op::Serve(n, fresh) => self.serve(n, fresh).await,
            Op::View(n, c) => self.write_view(n, c).await,
            Op::Checkpoint => self.array.checkpoint().await.expect("it is done"),
        }
    }
}

/// Whether a disk holds this.
async fn holds(device: Arc<dyn BlockDevice>, cells: &Cells, what: &str) -> Result<(), String> {
    for cluster in CLUSTERS {
        let seeds = cells.get(&cluster).map_or([0, 0], |cell| cell.seeds);
        let data = device.read(cluster * CLUSTER, 2 * BLOCK).await;
        let mut found = vec![0; 2 * BLOCK];
        data.map_err(|error| format!("{what}: {error}"))?.copy_to(0, &mut found);
        for (block, seed) in seeds.into_iter().enumerate() {
            let wanted = match seed {
                0 => vec![0; BLOCK],
                // A whole cluster goes on where its first block ends.
                _ => {
                    let whole = bytes(2 * BLOCK, seed);
                    let own = if seeds[0] == seed { block } else { 0 };
                    whole[own * BLOCK..][..BLOCK].to_vec()
                }
            };
            if found[block * BLOCK..][..BLOCK] != wanted {
                return Err(format!("{what}: block {block} of cluster {cluster} is not of {seed}"));
            }
        }
    }
    Ok(())
}

impl Model {
    /// What a version holds alone, by writes.
    fn alone(&self, own: &Cells, others: &[&Cells]) -> u64 {
        let elsewhere: BTreeSet<u32> =
            others.iter().flat_map(|cells| cells.values()).map(|cell| cell.write).collect();
        own.values().filter(|cell| !elsewhere.contains(&cell.write)).count() as u64
    }

    /// All that there is but `own` and what was written to it.
    fn others(&self, own: u32) -> Vec<&Cells> {
        let others = self.snapshots.iter().filter(|(id, _)| **id != own);
        let others = others.flat_map(|(_, one)| [Some(&one.version.cells), one.view.as_ref()]);
        self.heads.values().map(|head| &head.cells).chain(others.flatten()).collect()
    }

    /// What is said of all snapshots is what is said of those of each volume, also of such as wait for a checkpoint.
    fn compare_lists(&self) -> Result<(), String> {
        let all = self.array.all_snapshots();
        let volumes = self.array.volumes();
        for volume in volumes.iter().filter(|volume| volume.state != VolumeState::Deleted) {
            let own = self.array.snapshots(&volume.name).map_err(|error| error.to_string())?;
            let alike = all.get(&volume.id).cloned().unwrap_or_default() == own;
            if !alike || volume.snapshots as usize != own.len() {
                return Err(format!("snapshots of {}: {own:?}, {all:?}", volume.name));
            }
        }
        Ok(())
    }

    async fn compare(&self) -> Result<(), String> {
        let failed = |what: &str| format!("{what} failed");
        self.compare_lists()?;
        // What is counted is counted in the maps.
        self.array.checkpoint().await.map_err(|error| error.to_string())?;
        while !self.array.jobs().is_empty() {
            self.array.checkpoint().await.map_err(|error| error.to_string())?;
        }
        let mut all = BTreeSet::new();
        for (name, head) in &self.heads {
            holds(self.array.device(name).map_err(|_| failed(name))?, &head.cells, name).await?;
            all.extend(head.cells.values().map(|cell| cell.write));
            let used = self.array.volume(name).map_err(|_| failed(name))?.used_bytes / CLUSTER;
            if used != head.cells.len() as u64 {
                return Err(format!("{name} uses {used} clusters, not {}", head.cells.len()));
            }
        }
        for (id, one) in &self.snapshots {
            let (volume, name) = (&one.volume, name_of(*id));
            let device = self.array.snapshot_device(volume, &name).map_err(|_| failed(&name))?;
            holds(device, &one.version.cells, &name).await?;
            all.extend(one.version.cells.values().map(|cell| cell.write));
            let mut written = 0;
            if let Some(view) = &one.view {
                let device = self.array.snapshot_view_device(volume, &name);
                holds(device.map_err(|_| failed(&name))?, view, "what was written").await?;
                all.extend(view.values().map(|cell| cell.write));
                written = self.alone(view, &[&one.version.cells]);
            }
            let alone = self.alone(&one.version.cells, &self.others(*id));
            let wanted = SpaceInfo {
                unique_bytes: alone * CLUSTER,
                shared_bytes: (one.version.cells.len() as u64 - alone) * CLUSTER,
                written_bytes: written * CLUSTER,
            };
            let space = self.array.space(volume, Some(&name)).await.map_err(|_| failed(&name))?;
            if space != wanted {
                return Err(format!("{name} has {space:?}, not {wanted:?}"));
            }
            self.compare_diff(volume, &name, &one.version.cells).await?;
        }
        let report = self.array.check().await.map_err(|error| error.to_string())?;
        if report.clusters != all.len() as u64 || !report.problems.is_empty() {
            return Err(format!("{} clusters are in use, not {}", report.clusters, all.len()));
        }
        Ok(())
    }

    /// What differs from the present contents, cluster by cluster.
    async fn compare_diff(&self, volume: &str, name: &str, then: &Cells) -> Result<(), String> {
        let now = &self.heads[volume].cells;
        let write = |cells: &Cells, cluster: &u64| cells.get(cluster).map(|cell| cell.write);
        let differs = |cluster: &u64| write(then, cluster) != write(now, cluster);
        let wanted: Vec<u64> = CLUSTERS.into_iter().filter(differs).collect();
        let found = self.array.diff(volume, Some(name), None).await;
        let found = found.map_err(|error| error.to_string())?;
        let found: Vec<u64> = found
            .iter()
            .flat_map(|extent| extent.at / CLUSTER..(extent.at + extent.len_bytes) / CLUSTER)
            .collect();
        match found == wanted {
            true => Ok(()),
            false => Err(format!("{volume} differs from {name} in {found:?}, not {wanted:?}")),
        }
    }
}

/// Does all of it and compares; the comparison fails where the model has a flaw.
fn run(ops: Vec<Op>, flaw: Flaw) -> Result<(), String> {
    let work = async move {
        let mut model = Model::new(flaw).await;
        for op in ops {
            model.apply(op).await;
        }
        let compared = model.compare().await;
        model.array.close().await.map_err(|error| error.to_string())?;
        compared
    };
    ring::block_on(&ring::CoreConfig::default(), work).expect("a core can be made")
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]
    #[test]
    fn every_version_holds_what_it_should_and_no_cluster_too_much(
        ops in prop::collection::vec(op(), 1..50)
    ) {
        prop_assert_eq!(run(ops, Flaw::None), Ok(()));
    }
}

#[test]
fn a_version_that_is_not_as_it_should_be_is_seen() {
    let ops = vec![
        Op::Cluster(0, 0),
        Op::Cluster(0, 3),
        Op::Snapshot(0),
        Op::Block(0, 0),
        Op::Serve(0, false),
        Op::View(0, 3),
        Op::Unmap(0, 3),
    ];
    assert_eq!(run(ops.clone(), Flaw::None), Ok(()));
    for flaw in [Flaw::KeepsUnmapped, Flaw::SharesWrites, Flaw::WritesThrough] {
        let seen = run(ops.clone(), flaw);
        assert!(seen.is_err(), "{flaw:?} is not seen");
    }
}

/// The same of the array: it overwrites in place what a snapshot has.
#[cfg(feature = "mutants")]
#[test]
fn an_array_that_does_not_copy_on_write_is_seen() {
    use array::mutants::{Mutant, plant};
    plant(Some(Mutant::NoCopyOnWrite));
    let ops = vec![Op::Cluster(0, 0), Op::Snapshot(0), Op::Checkpoint, Op::Block(0, 0)];
    let seen = run(ops.clone(), Flaw::None);
    plant(None);
    assert!(seen.is_err());
    assert_eq!(run(ops, Flaw::None), Ok(()));
}

//! A subject without disks, correct by its simplicity, or wrong in one chosen way: it shows that
//! the checks see what they should see, and nothing else.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use array::api::{
    ArrayInfo, ChangedExtent, CheckReport, DiskInfo, DiskRole, DiskState, JobInfo, SnapshotAccess,
    SnapshotInfo, VolumeInfo, VolumeSpec, VolumeState,
};
use array::{BLOCK_BYTES, CLUSTER_BYTES, DiskId, Env};
use block::BlockDevice;

use crate::disk::Drive;
use crate::env::SimEnv;
use crate::model::view_name;
use crate::plain_device::PlainDevice;
use crate::subject::{Answer, Maker, Refusal, Shape, Subject};

/// What is wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Flaw {
    None,
    /// Answers some writes without doing them.
    LosesWrites,
    /// A crash can leave half of a block.
    TearsBlocks,
    /// Some writes go to another place.
    Misplaces,
    /// Some reads give what was there before the last write.
    ReadsStale,
    /// A crash takes the last answered writes along.
    ForgetsAtCrash,
    /// Writes after a snapshot show in it.
    SharesSnapshots,
    /// A snapshot lacks the last write before it.
    SnapshotsLate,
    /// Takes the snapshots of a set one after the other.
    SplitsSets,
    /// New volumes hold what deleted ones held.
    LeaksOldData,
    /// Unmapped data stays.
    IgnoresUnmap,
    /// Compares less than it should.
    EqualAtOnce,
    /// Says nothing of a changed cluster.
    DiffsTooLittle,
    /// Space of deleted volumes is not given back.
    LeaksSpace,
    /// What was deleted is back after a crash.
    Resurrects,
    /// Its own check finds something.
    FailsItsCheck,
    /// Never answers some flush.
    Hangs,
}

impl Flaw {
    pub(crate) const ALL: [Self; 16] = [
        Self::LosesWrites,
        Self::TearsBlocks,
        Self::Misplaces,
        Self::ReadsStale,
        Self::ForgetsAtCrash,
        Self::SharesSnapshots,
        Self::SnapshotsLate,
        Self::SplitsSets,
        Self::LeaksOldData,
        Self::IgnoresUnmap,
        Self::EqualAtOnce,
        Self::DiffsTooLittle,
        Self::LeaksSpace,
        Self::Resurrects,
        Self::FailsItsCheck,
        Self::Hangs,
    ];
}

/// A snapshot and its bytes.
pub(crate) type Taken = (SnapshotInfo, Vec<u8>);

/// A volume and its bytes.
#[derive(Debug, Clone)]
pub(crate) struct PlainVolume {
    pub(crate) info: VolumeInfo,
    pub(crate) bytes: Vec<u8>,
    /// Before the last write; and what a crash falls back to.
    pub(crate) before: Vec<u8>,
    pub(crate) snapshots: BTreeMap<String, Taken>,
}

/// All that is stored; it survives everything.
#[derive(Debug, Default)]
pub(crate) struct Store {
    pub(crate) volumes: BTreeMap<String, PlainVolume>,
    pub(crate) dead: Vec<u8>,
    deleted: Vec<(String, Taken)>,
    leaked: u64,
    drives: usize,
    names: BTreeMap<usize, String>,
}

/// Makes plain subjects over one store.
pub(crate) struct PlainMaker {
    store: Arc<Mutex<Store>>,
    flaw: Flaw,
}

impl PlainMaker {
    pub(crate) fn new(flaw: Flaw) -> Self {
        Self { store: Arc::default(), flaw }
    }

    fn subject(&self, env: &SimEnv) -> Plain {
        Plain { env: env.clone(), store: Arc::clone(&self.store), flaw: self.flaw }
    }
}

impl Maker for PlainMaker {
    type Subject = Plain;

    /// All there is is in memory.
    fn keeps_all_on_drives(&self) -> bool {
        false
    }

    async fn create(&self, env: &SimEnv, drives: &[Drive], _: &Shape) -> Answer<Plain> {
        let plain = self.subject(env);
        let names = drives.iter().map(|drive| (drive.number(), drive.name())).collect();
        *plain.store() = Store { drives: drives.len(), names, ..Store::default() };
        plain.moment().await;
        Ok(plain)
    }

    async fn open(&self, env: &SimEnv, _: &[Drive], _: bool) -> Answer<Plain> {
        let plain = self.subject(env);
        plain.moment().await;
        let mut store = plain.store();
        if store.drives == 0 {
            return Err(Refusal::Other("nothing was made yet".into()));
        }
        if plain.flaw == Flaw::ForgetsAtCrash {
            store.volumes.values_mut().for_each(|volume| volume.bytes = volume.before.clone());
        }
        if plain.flaw == Flaw::Resurrects
            && let Some((volume, taken)) = store.deleted.pop()
            && let Some(volume) = store.volumes.get_mut(&volume)
        {
            volume.snapshots.insert(taken.0.name.clone(), taken);
        }
        drop(store);
        Ok(plain)
    }
}

/// The subject.
#[derive(Debug, Clone)]
pub(crate) struct Plain {
    pub(crate) env: SimEnv,
    pub(crate) store: Arc<Mutex<Store>>,
    pub(crate) flaw: Flaw,
}

impl Plain {
    pub(crate) fn store(&self) -> MutexGuard<'_, Store> {
        self.store.lock().expect("nothing panics while it holds the store")
    }

    /// Takes some time.
    pub(crate) async fn moment(&self) {
        self.env.sleep(Duration::from_micros(self.env.random() % 300)).await;
    }

    /// Whether the flaw shows this time.
    pub(crate) fn errs(&self, flaw: Flaw) -> bool {
        self.flaw == flaw && self.env.random().is_multiple_of(8)
    }

    /// Changes a volume at some moment between request and answer.
    async fn change<T>(&self, name: &str, change: impl FnOnce(&mut PlainVolume) -> T) -> Answer<T> {
        self.moment().await;
        let result = match self.store().volumes.get_mut(name) {
            Some(volume) => Ok(change(volume)),
            None => Err(Refusal::Other(format!("no volume {name}"))),
        };
        self.moment().await;
        result
    }

    async fn set_state(&self, name: &str, state: VolumeState) -> Answer<()> {
        self.change(name, |volume| volume.info.state = state).await
    }

    fn insert(&self, spec: &VolumeSpec, bytes: Vec<u8>) {
        let info = VolumeInfo {
            id: 1,
            name: spec.name.clone(),
            size_bytes: spec.size_bytes,
            raid: spec.level.unwrap_or(array::Level::Raid0),
            state: VolumeState::Online,
            reason: String::new(),
            thick: spec.thick,
            block_bytes: spec.block_bytes,
            cache: spec.cache,
            read_ahead_bytes: 0,
            used_bytes: 0,
            reserved_bytes: 0,
            snapshots: 0,
            origin: None,
            created_unix_seconds: self.env.unix_seconds(),
            cached: spec.cached,
            cache_hits: 0,
            cache_misses: 0,
        };
        let (before, snapshots) = (bytes.clone(), BTreeMap::new());
        let volume = PlainVolume { info, bytes, before, snapshots };
        self.store().volumes.insert(spec.name.clone(), volume);
    }

    fn take(&self, volume: &str, name: &str) {
        let mut store = self.store();
        let of = store.volumes.get_mut(volume).expect("the operator names volumes that are there");
        let info = SnapshotInfo {
            id: 1,
            volume: volume.to_owned(),
            name: name.to_owned(),
            size_bytes: of.info.size_bytes,
            created_unix_seconds: self.env.unix_seconds(),
            online: false,
            access: SnapshotAccess::ReadOnly,
            view_id: None,
            deleting: false,
        };
        let late = self.flaw == Flaw::SnapshotsLate;
        let bytes = if late { of.before.clone() } else { of.bytes.clone() };
        of.snapshots.insert(name.to_owned(), (info, bytes));
    }

    fn bytes_of(&self, volume: &str, snapshot: Option<&str>) -> Vec<u8> {
        let store = self.store();
        let volume = &store.volumes[volume];
        snapshot.map_or_else(|| volume.bytes.clone(), |name| volume.snapshots[name].1.clone())
    }
}

fn spec_of(info: &VolumeInfo, name: &str, size_bytes: u64) -> VolumeSpec {
    VolumeSpec {
        name: name.to_owned(),
        size_bytes,
        level: Some(info.raid),
        thick: info.thick,
        block_bytes: info.block_bytes,
        cache: info.cache,
        read_ahead_bytes: None,
        cached: info.cached,
    }
}

impl Subject for Plain {
    fn info(&self) -> ArrayInfo {
        let store = self.store();
        let used_bytes = store.volumes.values().map(|volume| volume.info.size_bytes).sum::<u64>();
        ArrayInfo {
            id: "0".repeat(32),
            raid: array::Level::Raid0,
            size_bytes: 1 << 30,
            used_bytes,
            free_bytes: (1 << 30) - used_bytes,
            spare_bytes: 0,
            chunk_bytes: 1 << 20,
            disks: store.drives as u32,
            disks_online: store.drives as u32,
            journal_bytes: 0,
            journal_used_bytes: 0,
            checkpoint: 0,
            generation: 1,
            scrubbed_unix_seconds: 0,
            settings: array::api::Settings::default(),
            warnings: Vec::new(),
            free_by_level: Vec::new(),
            promised_bytes: 0,
            stalls: Vec::new(),
            cache_memory: array::api::CacheFigures::default(),
        }
    }

    fn volumes(&self) -> Vec<VolumeInfo> {
        let store = self.store();
        let volumes = store.volumes.values().filter(|volume| !volume.info.name.contains('@'));
        volumes.map(|volume| volume.info.clone()).collect()
    }

    fn snapshots(&self, volume: &str) -> Answer<Vec<SnapshotInfo>> {
        let store = self.store();
        Ok(store.volumes[volume].snapshots.values().map(|taken| taken.0.clone()).collect())
    }

    fn disks(&self) -> Vec<DiskInfo> {
        let store = self.store();
        let disk = |(number, name): (&usize, &String)| DiskInfo {
            id: DiskId(*number as u16),
            name: name.clone(),
            role: DiskRole::Data,
            state: DiskState::Online,
            reason: String::new(),
            size_bytes: 1 << 20,
            used_bytes: 0,
            errors_read: 0,
            errors_write: 0,
            healed_blocks: 0,
        };
        store.names.iter().map(disk).collect()
    }

    fn jobs(&self) -> Vec<JobInfo> {
        Vec::new()
    }

    fn events(&self) -> Vec<String> {
        Vec::new()
    }

    fn view(&self, volume: &str, snapshot: &str) -> Answer<VolumeInfo> {
        Ok(self.store().volumes[&view_name(volume, snapshot)].info.clone())
    }

    fn device(&self, volume: &str) -> Answer<Arc<dyn BlockDevice>> {
        Ok(Arc::new(PlainDevice::new(self.clone(), volume, None)))
    }

    fn snapshot_device(&self, volume: &str, snapshot: &str) -> Answer<Arc<dyn BlockDevice>> {
        Ok(Arc::new(PlainDevice::new(self.clone(), volume, Some(snapshot))))
    }

    async fn create_volume(&self, spec: VolumeSpec) -> Answer<()> {
        self.moment().await;
        let mut bytes = vec![0; spec.size_bytes as usize];
        if self.flaw == Flaw::LeaksOldData {
            let store = self.store();
            bytes.iter_mut().zip(&store.dead).for_each(|(to, byte)| *to = *byte);
        }
        self.insert(&spec, bytes);
        self.moment().await;
        Ok(())
    }

    async fn resize_volume(&self, volume: &str, size_bytes: u64) -> Answer<()> {
        let resize = |volume: &mut PlainVolume| {
            volume.info.size_bytes = size_bytes;
            volume.bytes.resize(size_bytes as usize, 0);
            volume.before.resize(size_bytes as usize, 0);
        };
        self.change(volume, resize).await
    }

    async fn serve_volume(&self, volume: &str, online: bool) -> Answer<()> {
        let state = if online { VolumeState::Online } else { VolumeState::Offline };
        self.set_state(volume, state).await
    }

    async fn delete_volume(&self, volume: &str) -> Answer<()> {
        self.set_state(volume, VolumeState::Deleted).await
    }

    async fn undelete_volume(&self, volume: &str) -> Answer<()> {
        self.set_state(volume, VolumeState::Offline).await
    }

    async fn purge_volume(&self, volume: &str) -> Answer<()> {
        self.moment().await;
        let mut store = self.store();
        let gone = store.volumes.remove(volume).expect("the operator purges what is there");
        if self.flaw == Flaw::LeaksSpace {
            store.leaked += gone.info.size_bytes;
        }
        store.dead = gone.bytes;
        let views = view_name(volume, "");
        store.volumes.retain(|name, _| !name.starts_with(&views));
        Ok(())
    }

    async fn snapshot(&self, set: &[(String, String)]) -> Answer<()> {
        self.moment().await;
        for (volume, name) in set {
            self.take(volume, name);
            if self.flaw == Flaw::SplitsSets {
                self.env.sleep(Duration::from_millis(2)).await;
            }
        }
        self.moment().await;
        Ok(())
    }

    async fn rollback(&self, volume: &str, snapshot: &str) -> Answer<()> {
        let (info, bytes) = self.store().volumes[volume].snapshots[snapshot].clone();
        let back = |volume: &mut PlainVolume| {
            (volume.before, volume.bytes) = (bytes.clone(), bytes);
            volume.info.size_bytes = info.size_bytes;
        };
        self.change(volume, back).await
    }

    async fn clone_snapshot(&self, volume: &str, snapshot: &str, name: &str) -> Answer<()> {
        self.moment().await;
        let (bytes, info) = {
            let store = self.store();
            let of = &store.volumes[volume];
            (of.snapshots[snapshot].1.clone(), of.info.clone())
        };
        self.insert(&spec_of(&info, name, bytes.len() as u64), bytes);
        Ok(())
    }

    async fn delete_snapshot(&self, volume: &str, snapshot: &str) -> Answer<()> {
        let gone = self.change(volume, |volume| volume.snapshots.remove(snapshot)).await?;
        let (info, bytes) = gone.expect("it is there");
        let mut store = self.store();
        store.volumes.remove(&view_name(volume, snapshot));
        store.deleted.push((volume.to_owned(), (SnapshotInfo { view_id: None, ..info }, bytes)));
        Ok(())
    }

    async fn serve_snapshot(&self, volume: &str, snapshot: &str, online: bool) -> Answer<()> {
        let serve = |volume: &mut PlainVolume| {
            let info = &mut volume.snapshots.get_mut(snapshot).expect("it is there").0;
            info.online = online;
            if online {
                info.access = SnapshotAccess::ReadOnly;
            }
        };
        self.change(volume, serve).await?;
        if let Some(view) = self.store().volumes.get_mut(&view_name(volume, snapshot)) {
            view.info.state = VolumeState::Offline;
        }
        Ok(())
    }

    async fn write_snapshot(&self, volume: &str, snapshot: &str, fresh: bool) -> Answer<()> {
        self.moment().await;
        let view = view_name(volume, snapshot);
        let is_there = self.store().volumes.contains_key(&view);
        if fresh || !is_there {
            let bytes = self.bytes_of(volume, Some(snapshot));
            let spec = {
                let info = &self.store().volumes[volume].info;
                spec_of(info, &view, bytes.len() as u64)
            };
            self.insert(&spec, bytes);
        }
        let mut store = self.store();
        let of = store.volumes.get_mut(volume).expect("the operator names what is there");
        let info = &mut of.snapshots.get_mut(snapshot).expect("it is there").0;
        (info.online, info.access) = (true, SnapshotAccess::ReadWrite);
        info.view_id = Some(1);
        store.volumes.get_mut(&view).expect("made above").info.state = VolumeState::Online;
        Ok(())
    }

    async fn diff(
        &self,
        volume: &str,
        from: Option<&str>,
        to: Option<&str>,
    ) -> Answer<Vec<ChangedExtent>> {
        self.moment().await;
        let after = self.bytes_of(volume, to);
        let mut before = if from.is_some() { self.bytes_of(volume, from) } else { Vec::new() };
        before.resize(after.len(), 0);
        let pairs = before.chunks(CLUSTER_BYTES).zip(after.chunks(CLUSTER_BYTES)).enumerate();
        let changed = pairs.filter(|(_, (before, after))| before != after);
        let extent = |at: usize| ChangedExtent {
            at: (at * CLUSTER_BYTES) as u64,
            len_bytes: CLUSTER_BYTES as u64,
        };
        let skipped = usize::from(self.flaw == Flaw::DiffsTooLittle);
        Ok(changed.skip(skipped).map(|(at, _)| extent(at)).collect())
    }

    async fn space(&self, volume: &str, snapshot: Option<&str>) -> Answer<u64> {
        self.moment().await;
        Ok(self.bytes_of(volume, snapshot).len() as u64)
    }

    async fn add_disk(&self, drive: &Drive) -> Answer<()> {
        self.store().names.insert(drive.number(), drive.name());
        Ok(())
    }

    async fn keep_disk(&self, _: &str) -> Answer<()> {
        Ok(())
    }

    async fn replace_disk(&self, name: &str, drive: &Drive) -> Answer<()> {
        self.retire_disk(name).await?;
        self.add_disk(drive).await
    }

    async fn fail_disk(&self, _: &str) -> Answer<()> {
        Ok(())
    }

    async fn retire_disk(&self, name: &str) -> Answer<()> {
        self.store().names.retain(|_, other| other != name);
        Ok(())
    }

    async fn clear_disk(&self, _: &str) -> Answer<()> {
        Ok(())
    }

    async fn rebalance(&self) -> Answer<()> {
        self.moment().await;
        Ok(())
    }

    async fn cancel_rebalance(&self) -> Answer<()> {
        Ok(())
    }

    async fn scrub(&self) -> Answer<CheckReport> {
        self.moment().await;
        Ok(CheckReport::default())
    }

    async fn check(&self) -> Answer<CheckReport> {
        self.moment().await;
        let mut report = CheckReport { clusters: self.store().leaked, ..CheckReport::default() };
        if self.errs(Flaw::FailsItsCheck) {
            report.problems.push(format!("a block of {BLOCK_BYTES} bytes is wrong"));
        }
        Ok(report)
    }

    async fn close(&self) -> Answer<()> {
        self.moment().await;
        let mut store = self.store();
        store.volumes.values_mut().for_each(|volume| volume.before = volume.bytes.clone());
        Ok(())
    }
}

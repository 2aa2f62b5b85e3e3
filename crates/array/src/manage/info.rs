//! What there is and how it does.

use std::collections::{BTreeMap, HashMap};

use super::Array;
use crate::api::{
    ArrayInfo, DiskInfo, DiskRole, DiskState, Event, JobInfo, JobKind, LevelSpace, SnapshotAccess,
    SnapshotInfo, VolumeInfo, VolumeState,
};
use crate::core::{Core, State};
use crate::error::{ArrayError, size};
use crate::label::{MemberKind, MemberRecord, MemberState};
use crate::overlay::Taken;
use crate::raid::{Access, Set};
use crate::space::Kind;
use crate::tables::{Snapshot, Version, Volume};
use crate::upkeep::{GRACE, is_suspect};
use crate::{BLOCK_BYTES, CLUSTER_BYTES, DiskId, Level, VersionId};

impl Array {
    /// All volumes, those in the recycle bin too.
    #[must_use]
    pub fn volumes(&self) -> Vec<VolumeInfo> {
        let state = self.core.lock();
        let volumes = state.tables.volumes.iter().filter(|(_, volume)| volume.view_of.is_none());
        let mut durable: HashMap<VersionId, usize> = HashMap::new();
        for snapshot in
            state.tables.versions.values().filter_map(|version| version.snapshot.as_ref())
        {
            *durable.entry(snapshot.volume).or_default() += 1;
        }
        let count = |id| durable.get(&id).copied().unwrap_or_default();
        volumes.map(|(id, _)| self.core.volume_with(&state, *id, count(*id))).collect()
    }

    /// One volume.
    ///
    /// # Errors
    /// [`ArrayError::NoSuchVolume`].
    pub fn volume(&self, name: &str) -> Result<VolumeInfo, ArrayError> {
        let state = self.core.lock();
        let (id, _) = state
            .tables
            .volume_named(name)
            .ok_or_else(|| ArrayError::NoSuchVolume(name.to_owned()))?;
        Ok(self.core.volume_info(&state, id))
    }

    /// Whether disks are missing that have data of a volume, also of one in the recycle bin, whose state does not say so.
    ///
    /// # Errors
    /// [`ArrayError::NoSuchVolume`].
    pub fn lacks_data(&self, name: &str) -> Result<bool, ArrayError> {
        let state = self.core.lock();
        let (_, volume) = state
            .tables
            .volume_named(name)
            .ok_or_else(|| ArrayError::NoSuchVolume(name.to_owned()))?;
        Ok(self.core.why_lost(&state, volume).is_some())
    }

    /// The snapshots of a volume, oldest first.
    ///
    /// # Errors
    /// [`ArrayError::NoSuchVolume`].
    pub fn snapshots(&self, volume: &str) -> Result<Vec<SnapshotInfo>, ArrayError> {
        let state = self.core.lock();
        let (id, _) = state.volume(volume)?;
        let views = state.tables.views();
        let durable = state.tables.snapshots_of(id);
        let durable = durable.map(|(id, version, s)| {
            let view_id = views.get(&id).map(|id| id.0);
            SnapshotInfo { view_id, ..snapshot_info(volume, id, version, s) }
        });
        let waiting = state.live[&id].overlay.waiting();
        Ok(durable.chain(waiting.map(|taken| state.waiting_info(id, taken))).collect())
    }

    /// The same of all volumes that have some, by their numbers: asking for each costs a walk over all each time.
    #[must_use]
    pub fn all_snapshots(&self) -> BTreeMap<u32, Vec<SnapshotInfo>> {
        let state = self.core.lock();
        let views = state.tables.views();
        let mut all: BTreeMap<u32, Vec<SnapshotInfo>> = BTreeMap::new();
        for (&id, version) in &state.tables.versions {
            let Some(snapshot) = &version.snapshot else { continue };
            let Some(volume) = state.tables.volumes.get(&snapshot.volume) else { continue };
            let view_id = views.get(&id).map(|id| id.0);
            let info = snapshot_info(&volume.name, id, version, snapshot);
            all.entry(snapshot.volume.0).or_default().push(SnapshotInfo { view_id, ..info });
        }
        for (&id, live) in state.live.iter() {
            let waiting = live.overlay.waiting().map(|taken| state.waiting_info(id, taken));
            let mut waiting = waiting.peekable();
            if waiting.peek().is_some() {
                all.entry(id.0).or_default().extend(waiting);
            }
        }
        all
    }

    /// Whether volumes that are there were made of this snapshot, which goes by its number. Deleted, it
    /// would hold its space and its name until they are gone.
    ///
    /// # Errors
    /// [`ArrayError::NoSuchVolume`].
    pub fn has_clones(&self, volume: &str, snapshot_id: u32) -> Result<bool, ArrayError> {
        let state = self.core.lock();
        let (id, _) = state.volume(volume)?;
        Ok(state.tables.has_clones(id, VersionId(snapshot_id)))
    }

    /// All disks, also those that have failed; not those that have left.
    #[must_use]
    pub fn disks(&self) -> Vec<DiskInfo> {
        let state = self.core.lock();
        let here = state.label.members.iter().filter(|record| record.state != MemberState::Retired);
        here.map(|record| self.core.disk_info(&state, record)).collect()
    }

    /// Disks that have left without anybody's order, by their numbers and the names that they had: warnings tell of them
    /// until a disk is added, or [`clear_disk`](Self::clear_disk) leaves it at that.
    #[must_use]
    pub fn departed(&self) -> Vec<(DiskId, String)> {
        let state = self.core.lock();
        state.departed().map(|(disk, _)| (disk, state.label.name_of(disk))).collect()
    }

    /// What runs in the background.
    #[must_use]
    pub fn jobs(&self) -> Vec<JobInfo> {
        let state = self.core.lock();
        let running = state.jobs.values().map(|progress| progress.info.clone());
        // One that has to wait for others is nothing to wait for.
        let deleting = state.tables.deletions().into_iter().map(|(_, version, from)| {
            let from = u64::from(from);
            let bytes = crate::tree::leaf::ENTRIES as u64 * CLUSTER_BYTES as u64;
            let total_bytes = version.contents.mapped * CLUSTER_BYTES as u64;
            let done_bytes = (from * bytes).min(total_bytes);
            let subject = version.snapshot.as_ref().map_or("volume", |snapshot| &snapshot.name);
            let subject = subject.to_owned();
            JobInfo { kind: JobKind::Delete, subject, done_bytes, total_bytes, rate_bytes: 0 }
        });
        running.chain(deleting).collect()
    }

    /// Whether redundancy and balance are as good as the disks that are there allow: nothing is being
    /// restored or moved, and nothing is about to be.
    #[must_use]
    pub fn is_settled(&self) -> bool {
        self.core.is_settled()
    }

    /// What happened from event number `since` on, and the number of the next one.
    #[must_use]
    pub fn events(&self, since: u64) -> (Vec<Event>, u64) {
        let state = self.core.lock();
        let skip = since.saturating_sub(state.events_dropped) as usize;
        let events = state.events.iter().skip(skip).cloned().collect();
        (events, state.events_dropped + state.events.len() as u64)
    }

    /// The array as a whole.
    #[must_use]
    pub fn info(&self) -> ArrayInfo {
        let disks = self.disks();
        let state = &mut *self.core.lock();
        let chunk_bytes = self.core.layout.chunk_bytes;
        let counts = state.label.members.iter().filter_map(|r| state.space.chunks.counts(r.disk));
        let used = counts.map(|(_, used)| u64::from(used)).sum::<u64>();
        let spare = state.space.chunks.spare();
        let free = state.space.chunks.free().saturating_sub(spare);
        let idle_bytes = self.core.idle_bytes(state);
        let used_bytes = (used * chunk_bytes).saturating_sub(idle_bytes);
        let free_bytes = free * chunk_bytes + idle_bytes;
        let blocks = BLOCK_BYTES as u64;
        let mut info = ArrayInfo {
            id: self.core.id.to_string(),
            raid: self.core.level,
            size_bytes: used_bytes + free_bytes,
            used_bytes,
            free_bytes,
            spare_bytes: spare * chunk_bytes,
            chunk_bytes,
            disks: disks.len() as u32,
            disks_online: disks.iter().filter(|d| d.state == DiskState::Online).count() as u32,
            journal_bytes: self.core.journal.blocks() * blocks,
            journal_used_bytes: self.core.journal.used_blocks() * blocks,
            checkpoint: state.checkpoint,
            generation: state.label.generation,
            scrubbed_unix_seconds: state.tables.scrubbed_unix_seconds,
            settings: state.tables.settings.clone(),
            free_by_level: self.core.free_by_level(state),
            promised_bytes: promised_bytes(state),
            stalls: self.core.watch().stalls(self.core.env.now()),
            cache_memory: self.core.cache.figures(),
            warnings: Vec::new(),
        };
        info.warnings = warnings(state, &info, &disks);
        info.warnings.extend(state.lost_warning());
        if let Some(percent) = state.record_warning(&self.core.layout) {
            info.warnings.push(format!(
                "volumes and snapshots use {percent} % of what the array can keep track of: delete some"
            ));
        }
        info
    }
}

fn warnings(state: &State, info: &ArrayInfo, disks: &[DiskInfo]) -> Vec<String> {
    let mut warnings = Vec::new();
    warnings.extend(state.stop_reason());
    for disk in disks.iter().filter(|disk| disk.state != DiskState::Online) {
        warnings.push(format!("disk {}: {}", disk.name, disk.reason));
    }
    warnings.extend(state.departed_warnings());
    for space in &info.free_by_level {
        let percent = space.used_percent();
        let is_used = state.tables.volumes.values().any(|volume| volume.level == space.raid);
        if is_used && info.settings.warn_percents.iter().any(|from| percent >= u64::from(*from)) {
            let (raid, free) = (space.raid, size(space.free_bytes));
            warnings.push(format!(
                "{percent} % of the space for volumes of {raid} is in use, {free} more can be \
                 stored: add a disk or delete volumes"
            ));
        }
    }
    warnings
}

/// What hosts were told that they may store.
fn promised_bytes(state: &State) -> u64 {
    let volumes = state.tables.volumes.values();
    let kept = volumes.filter(|volume| volume.deleted_unix_seconds.is_none());
    kept.map(|volume| volume.size_bytes).sum()
}

fn snapshot_info(
    volume: &str,
    id: VersionId,
    version: &Version,
    snapshot: &Snapshot,
) -> SnapshotInfo {
    SnapshotInfo {
        id: id.0,
        volume: volume.to_owned(),
        name: snapshot.name.clone(),
        size_bytes: snapshot.size_bytes,
        created_unix_seconds: snapshot.created_unix_seconds,
        online: snapshot.online,
        access: snapshot.access,
        view_id: None,
        deleting: version.deleting_from_leaf.is_some(),
    }
}

impl State {
    /// A snapshot that waits for a checkpoint.
    pub(super) fn waiting_info(&self, volume: VersionId, taken: &Taken) -> SnapshotInfo {
        let volume = self.tables.volumes.get(&volume);
        SnapshotInfo {
            id: taken.snapshot.0,
            volume: volume.map_or_else(String::new, |volume| volume.name.clone()),
            name: taken.name.clone(),
            size_bytes: taken.size_bytes,
            created_unix_seconds: taken.unix_seconds,
            online: false,
            access: SnapshotAccess::default(),
            view_id: None,
            deleting: false,
        }
    }
}

impl Core {
    pub(super) fn volume_info(&self, state: &State, id: VersionId) -> VolumeInfo {
        self.volume_with(state, id, state.tables.snapshots_of(id).count())
    }

    /// The same, with so many snapshots that are durable.
    fn volume_with(&self, state: &State, id: VersionId, durable: usize) -> VolumeInfo {
        let volume = &state.tables.volumes[&id];
        let live = &state.live[&id];
        let (vol_state, reason) = self.volume_state(state, volume);
        let clusters = |count: u64| count * CLUSTER_BYTES as u64;
        let snapshots = durable + live.overlay.waiting().count();
        let cache = self.cache.volume(id);
        VolumeInfo {
            id: id.0,
            name: volume.name.clone(),
            size_bytes: volume.size_bytes,
            raid: volume.level,
            state: vol_state,
            reason,
            thick: volume.thick,
            block_bytes: volume.block_bytes,
            cache: volume.cache,
            read_ahead_bytes: volume.read_ahead_bytes,
            used_bytes: clusters(volume.head.mapped),
            reserved_bytes: clusters(live.thick_left),
            snapshots: snapshots as u32,
            origin: volume.origin.clone(),
            created_unix_seconds: volume.created_unix_seconds,
            cached: state.tables.is_cached(id),
            cache_hits: cache.hits(),
            cache_misses: cache.misses(),
        }
    }

    /// Whether a volume is set aside, and its disks are missing yet: no checkpoint changes anything of it.
    pub(super) fn is_out_of_reach(&self, state: &State, id: VersionId) -> bool {
        let volume = state.tables.volumes.get(&id);
        let is_aside = state.live.get(&id).is_some_and(|live| live.is_aside());
        is_aside && volume.is_some_and(|it| self.volume_state(state, it).0 == VolumeState::Lost)
    }

    fn volume_state(&self, state: &State, volume: &Volume) -> (VolumeState, String) {
        if volume.deleted_unix_seconds.is_some() {
            return (VolumeState::Deleted, "it waits in the recycle bin".into());
        }
        if let Some(reason) = self.why_lost(state, volume) {
            return (VolumeState::Lost, reason);
        }
        if !volume.online {
            return (VolumeState::Offline, "an operator took it offline".into());
        }
        let worst = self.worst_set(volume);
        if worst > 0 {
            let reason = format!("{worst} disks of one of its RAID sets are missing");
            return (VolumeState::Degraded, reason);
        }
        (VolumeState::Online, String::new())
    }

    /// Why its data are not to be had.
    fn why_lost(&self, state: &State, volume: &Volume) -> Option<String> {
        if let Some(reason) = state.stop_reason() {
            return Some(reason);
        }
        let worst = self.worst_set(volume);
        let is_lost = worst > volume.level.losses_max();
        is_lost.then(|| format!("{worst} disks of one of its RAID sets are missing"))
    }

    /// How many disks are missing of that set of its level which misses most.
    fn worst_set(&self, volume: &Volume) -> usize {
        let sets: Vec<_> = self.sets.all();
        let mine = sets.iter().filter(|set| set.level() == Some(volume.level));
        mine.map(|set| self.missing_members(set)).max().unwrap_or(0)
    }

    /// Members of a set that cannot give what they should hold.
    pub(crate) fn missing_members(&self, set: &Set) -> usize {
        let is_there = |seat: &crate::raid::Seat| {
            let disk = self.raid.disks().get(seat.disk);
            disk.is_some_and(|disk| disk.access() == Access::Full) && !set.is_stale_on(seat.disk)
        };
        set.members().iter().filter(|seat| !is_there(seat)).count()
    }

    fn disk_info(&self, state: &State, record: &MemberRecord) -> DiskInfo {
        let disk = self.raid.disks().get(record.disk);
        let counts = disk.as_ref().map(|disk| disk.counts()).unwrap_or_default();
        let away = state.away.get(&record.disk).map(|(_, reason)| reason.clone());
        let suspect = disk.as_ref().is_some_and(|disk| is_suspect(disk, self.env.now()));
        let (disk_state, reason) = match (record.state, away) {
            (MemberState::Failed, reason) => {
                (DiskState::Failed, reason.unwrap_or_else(|| "it has failed".into()))
            }
            (MemberState::Stale(_), Some(reason)) => (DiskState::Missing, reason),
            (MemberState::Stale(_), None) => {
                (DiskState::Resyncing, "it is given what it missed".into())
            }
            _ if disk.as_ref().is_none_or(|disk| disk.access() != Access::Full) => {
                (DiskState::Resyncing, "a write to it failed a moment ago".into())
            }
            _ if state.tables.leaving.contains(&record.disk) => {
                let leaving: Vec<_> = state.tables.leaving.iter().copied().collect();
                let reason = match self.homeless(state, &leaving, None) {
                    0 => "its data is moving to other disks",
                    _ => "no other disk can take its data: add a disk, or keep this one",
                };
                (DiskState::Retiring, reason.into())
            }
            _ if suspect => {
                let disk = disk.as_ref().expect("a suspect disk is there");
                (DiskState::Suspect, self.suspicion(state, disk))
            }
            _ if self.is_to_hold(state, record.disk) => {
                (DiskState::Resyncing, "it is about to hold journal and checkpoints too".into())
            }
            _ => (DiskState::Online, String::new()),
        };
        let is_gone = matches!(disk_state, DiskState::Missing | DiskState::Failed);
        let reason = match record.kind {
            MemberKind::Journal if is_gone => {
                format!("{reason}; {}", self.without_journal(state, disk_state))
            }
            MemberKind::Data if is_gone => [reason]
                .into_iter()
                .chain(self.what_restores(state, record))
                .collect::<Vec<_>>()
                .join("; "),
            _ => reason,
        };
        let used = state.space.chunks.counts(record.disk).map_or(0, |(_, used)| u64::from(used));
        let name =
            disk.map_or_else(|| state.label.name_of(record.disk), |disk| disk.name().to_owned());
        debug_assert!(record.kind == MemberKind::Data || used == 0, "journal disks hold no chunks");
        DiskInfo {
            id: record.disk,
            name,
            role: match record.kind {
                MemberKind::Data => DiskRole::Data,
                MemberKind::Journal => DiskRole::Journal,
            },
            state: disk_state,
            reason,
            size_bytes: record.size_bytes,
            used_bytes: used * self.layout.chunk_bytes,
            errors_read: counts.read_errors + counts.mismatches,
            errors_write: counts.write_errors,
            healed_blocks: counts.healed,
        }
    }

    /// What becomes of the data of a disk that is gone, and what to do; nothing if there is none.
    fn what_restores(&self, state: &State, record: &MemberRecord) -> Option<String> {
        let is_used = state.space.chunks.counts(record.disk).is_some_and(|(_, used)| used > 0);
        let is_due = match state.away.get(&record.disk) {
            Some((since, _)) => self.env.now().saturating_sub(*since) >= GRACE,
            None => true,
        };
        let is_due = is_due || record.state == MemberState::Failed;
        is_used.then(|| match (self.can_be_emptied(state, record.disk), is_due) {
            (false, _) => {
                "no other disk can take its place: connect it again, or add a disk".to_owned()
            }
            (true, true) => "its data is being restored on other disks".to_owned(),
            (true, false) => format!(
                "its data is restored on other disks once it has been away for {} seconds",
                GRACE.as_secs()
            ),
        })
    }

    /// What it means that a disk for the journal alone is gone, and what to do.
    fn without_journal(&self, state: &State, gone: DiskState) -> String {
        let holders: Vec<String> =
            state.label.journal.iter().map(|disk| self.disk_name(*disk)).collect();
        let alone = if holders.len() == 1 { " alone" } else { "" };
        let way_out = match gone {
            DiskState::Failed => "retire the disk when it has been taken out",
            _ => "connect the disk again, or retire it if it is gone for good",
        };
        format!("the journal is on {}{alone}: {way_out}", holders.join(", "))
    }

    /// Of chunks that are in sets what holds nothing and is set aside for nothing, with the copies
    /// or parity that it would have.
    fn idle_bytes(&self, state: &State) -> u64 {
        let mut idle_bytes = 0;
        let mut raw_of_level = BTreeMap::new();
        for (id, kind, slots) in state.space.pool.sets() {
            let Kind::Data(level) = kind else { continue };
            let members = self.sets.get(id).members().len() as u64;
            let raw_bytes = CLUSTER_BYTES as u64 * members / u64::from(slots.k());
            raw_of_level.insert(level, raw_bytes);
            idle_bytes += u64::from(slots.free_count()) * raw_bytes;
        }
        let reserved = raw_of_level
            .into_iter()
            .map(|(level, raw_bytes)| state.space.pool.set_aside(level) * raw_bytes);
        idle_bytes.saturating_sub(reserved.sum())
    }

    /// What volumes of each level hold, and what they could hold besides if only they grew.
    fn free_by_level(&self, state: &State) -> Vec<LevelSpace> {
        let bytes = CLUSTER_BYTES as u64;
        let fitting = Level::ALL.into_iter().filter(|level| {
            level.disks_min() <= state.space.chunks.disks_open()
                || state.tables.volumes.values().any(|volume| volume.level == *level)
        });
        let space = fitting.map(|raid| LevelSpace {
            raid,
            free_bytes: state.space.available(raid, &self.layout) * bytes,
            used_bytes: (state.space.pool.slots_of(raid) - state.space.pool.available(raid))
                * bytes,
        });
        space.collect()
    }

    /// Keeps space for a thick volume from this moment on; the checkpoint that makes the volume
    /// hands it over.
    ///
    /// # Errors
    /// [`ArrayError::NoSpace`]; nothing is kept then.
    pub(super) fn promise(
        &self,
        state: &mut State,
        level: Level,
        clusters: u64,
    ) -> Result<(), ArrayError> {
        if self.reserve(state, level, clusters) {
            state.space.unreserve(level, clusters);
            state.space.change_kept(level, 0, clusters);
            state.promised.push((level, clusters));
            return Ok(());
        }
        let free_bytes = state.space.available(level, &self.layout) * CLUSTER_BYTES as u64;
        let asked_bytes = clusters * CLUSTER_BYTES as u64;
        Err(ArrayError::NoSpace { free_bytes, asked_bytes })
    }
}

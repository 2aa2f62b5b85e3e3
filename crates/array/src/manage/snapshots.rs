//! Snapshots, clones, rollback, differences.

use std::pin::pin;
use std::sync::Arc;

use futures_util::future::{Either, select};

use super::held::{Hold, refused_while_held};
use super::views::{give_up_view, serve};
use super::{Array, check_name};
use crate::api::{ChangedExtent, SnapshotAccess, SnapshotInfo, SpaceInfo, VolumeInfo};
use crate::core::{Core, State, UNCACHED_BYTES, VERSION_BYTES, VOLUME_BYTES, taken_bytes};
use crate::error::ArrayError;
use crate::journal::{self, RECORD_BYTES_MAX, Record, Ticket};
use crate::mutants::{self, Mutant};
use crate::overlay::Taken;
use crate::tables::{Contents, Volume};
use crate::tree::{self, Root};
use crate::volume::Of;
use crate::{BLOCK_BYTES, CLUSTER_BYTES, Epoch, VersionId};

/// Snapshots that one volume may have.
pub const SNAPSHOTS_MAX: usize = 4096;
/// Pages that one step of a walk looks at under the lock.
const STEP_PAGES: usize = 256;

/// What became of an attempt to take snapshots.
enum Tried {
    Taken(Ticket, Vec<SnapshotInfo>),
    /// The journal is full.
    NoRoom,
    /// The hold is not in force, or not for all of the volumes.
    NotHeld,
}

impl Array {
    /// Takes snapshots of several volumes at the same moment.
    ///
    /// # Errors
    /// What is wrong with a name; then none is taken.
    pub async fn snapshot(
        &self,
        volumes: &[(&str, Option<&str>)],
    ) -> Result<Vec<SnapshotInfo>, ArrayError> {
        let taken = self.take(volumes, self.core.env.unix_seconds(), None).await?;
        Ok(taken.expect("it is refused for holds alone"))
    }

    /// Takes a snapshot that says of itself that it was taken then, in seconds since 1970 (UTC): that of a volume which
    /// is a copy of another one, and has by now what the other one had at that time.
    ///
    /// # Errors
    /// What is wrong with a name; then it is not taken.
    pub async fn snapshot_at(
        &self,
        volume: &str,
        name: &str,
        unix_seconds: u64,
    ) -> Result<SnapshotInfo, ArrayError> {
        let taken = self.take(&[(volume, Some(name))], unix_seconds, None).await?;
        let mut taken = taken.expect("it is refused for holds alone");
        debug_assert_eq!(taken.len(), 1, "there is one for each volume");
        Ok(taken.swap_remove(0))
    }

    /// Takes snapshots at one moment; none if there is a hold which is not in force at that moment.
    pub(super) async fn take(
        &self,
        volumes: &[(&str, Option<&str>)],
        unix_seconds: u64,
        hold: Option<&Hold>,
    ) -> Result<Option<Vec<SnapshotInfo>>, ArrayError> {
        for name in volumes.iter().filter_map(|(_, name)| *name) {
            check_name(name)?;
        }
        let (ticket, infos) = loop {
            match self.core.try_snapshot(volumes, unix_seconds, hold)? {
                Tried::Taken(ticket, infos) => break (ticket, infos),
                Tried::NotHeld => return Ok(None),
                Tried::NoRoom => {
                    self.core.work.ring();
                    // Where there is room for less it would be asked for again at once, and nobody else run.
                    let longest = RECORD_BYTES_MAX.div_ceil(BLOCK_BYTES) as u64 + 1;
                    let room = pin!(self.core.journal.room(longest));
                    // With the mistake it would be asked for again and again.
                    match hold.filter(|_| !mutants::is(Mutant::LateCut)) {
                        None => room.await?,
                        // Who asked learns in time that it was in vain.
                        Some(hold) => match select(room, hold.time_left()).await {
                            Either::Left((room, _)) => room?,
                            Either::Right(((), _)) => {}
                        },
                    }
                }
            }
        };
        self.core.journal.durable(ticket).await?;
        Ok(Some(infos))
    }

    /// Brings a volume back to what a snapshot holds. It must be offline.
    ///
    /// # Errors
    /// [`ArrayError::NotOffline`]; [`ArrayError::Lost`] while its disks are missing; [`ArrayError::Refused`] while
    /// its changes are [held back](Self::hold): whoever waits here may keep others waiting; those of names.
    pub async fn rollback(&self, volume: &str, snapshot: &str) -> Result<(), ArrayError> {
        let (id, version) = self.core.materialized(volume, snapshot).await?;
        {
            let mut state = self.core.lock();
            let (now_id, table) = state.volume(volume)?;
            // The name may have gone to another volume since it was looked up.
            if now_id != id {
                return Err(ArrayError::NoSuchVolume(volume.to_owned()));
            }
            if table.online {
                return Err(ArrayError::NotOffline(volume.to_owned()));
            }
            // Under the lock under which holds begin: of a sealed volume no snapshot is taken.
            let is_held = self.core.holds.is_held(id, self.core.env.now());
            if is_held && !mutants::is(Mutant::HeldRollback) {
                return Err(refused_while_held(volume));
            }
            state.live.get_mut(&id).expect("a volume of the tables is live").is_sealed = true;
        }
        let name = snapshot.to_owned();
        let core = Arc::clone(&self.core);
        let result = self.core.request(move |tables, state| {
            // What the journal keeps of it would come over what the snapshot holds.
            if state.live.get(&id).is_some_and(|live| live.is_aside()) {
                return Err(ArrayError::Lost);
            }
            core.grant_record(state, VERSION_BYTES)?;
            let source = tables.versions.get(&version);
            let source = source.filter(|source| source.deleting_from_leaf.is_none());
            let Some(source) = source.cloned() else { return Err(ArrayError::Deleting(name)) };
            let volume = tables.volumes.get_mut(&id).expect("a sealed volume stays");
            let contents = Contents { parent: Some(version), ..source.contents };
            if volume.thick {
                let size_bytes =
                    source.snapshot.as_ref().map_or(volume.size_bytes, |s| s.size_bytes);
                let unmapped = (size_bytes / CLUSTER_BYTES as u64).saturating_sub(contents.mapped);
                let kept = state.live.get(&id).map_or(0, |live| live.thick_left);
                core.promise(state, volume.level, unmapped.saturating_sub(kept))?;
            }
            let old = std::mem::replace(&mut volume.head, contents);
            volume.size_bytes = source.snapshot.map_or(volume.size_bytes, |s| s.size_bytes);
            super::volumes::abandon(tables, state, old);
            Ok(())
        });
        let result = result.await;
        if let Some(live) = self.core.lock().live.get_mut(&id) {
            live.is_sealed = false;
        }
        result
    }

    /// Makes a volume that begins with what a snapshot holds and shares its space, online or not. It is cached
    /// if the volume of the snapshot is.
    ///
    /// # Errors
    /// Those of names; [`ArrayError::Deleting`].
    pub async fn clone_snapshot(
        &self,
        volume: &str,
        snapshot: &str,
        name: &str,
        online: bool,
    ) -> Result<VolumeInfo, ArrayError> {
        check_name(name)?;
        let (id, version) = self.core.materialized(volume, snapshot).await?;
        let made = {
            let state = self.core.lock();
            let source = &state.tables.versions[&version];
            let size_bytes = source.snapshot.as_ref().map_or(0, |snapshot| snapshot.size_bytes);
            Volume {
                name: name.to_owned(),
                size_bytes,
                created_unix_seconds: self.core.env.unix_seconds(),
                online,
                deleted_unix_seconds: None,
                origin: Some(format!("{volume}@{snapshot}")),
                view_of: None,
                thick: false,
                head: Contents { parent: Some(version), ..source.contents.clone() },
                ..state.tables.volumes[&id].clone()
            }
        };
        let (gone, wanted) = (snapshot.to_owned(), name.to_owned());
        let bytes = VOLUME_BYTES + UNCACHED_BYTES + (made.name.len() + 2 * 64) as u64;
        let core = Arc::clone(&self.core);
        self.core
            .request(move |tables, state| {
                super::volumes::check_free(tables, &wanted)?;
                core.grant_record(state, bytes)?;
                let source = tables.versions.get(&version);
                if source.is_none_or(|source| source.deleting_from_leaf.is_some()) {
                    return Err(ArrayError::Deleting(gone));
                }
                let clone = state.take_version();
                tables.volumes.insert(clone, made);
                if !tables.is_cached(id) {
                    tables.uncached.insert(clone);
                }
                Ok(())
            })
            .await?;
        self.volume(name)
    }

    /// Deletes a snapshot with what hosts wrote to it; its space comes back in the background.
    ///
    /// # Errors
    /// Those of names; [`ArrayError::SnapshotOnline`] while hosts may write to it.
    pub async fn delete_snapshot(&self, volume: &str, snapshot: &str) -> Result<(), ArrayError> {
        let (_, version) = self.core.materialized(volume, snapshot).await?;
        {
            let state = &mut *self.core.lock();
            if state.tables.view_of(version).is_some_and(|(_, view)| view.online) {
                let (volume, snapshot) = (volume.to_owned(), snapshot.to_owned());
                return Err(ArrayError::SnapshotOnline { volume, snapshot });
            }
            state.seal_view(version, true);
        }
        self.core
            .request(move |tables, state| {
                give_up_view(tables, state, version);
                if let Some(version) = tables.versions.get_mut(&version) {
                    version.deleting_from_leaf.get_or_insert(0);
                }
                Ok(())
            })
            .await
    }

    /// Says whether hosts may read a snapshot as it was taken. Offline, what they wrote to it is
    /// kept.
    ///
    /// # Errors
    /// Those of names.
    pub async fn set_snapshot_online(
        &self,
        volume: &str,
        snapshot: &str,
        online: bool,
    ) -> Result<(), ArrayError> {
        let (_, version) = self.core.materialized(volume, snapshot).await?;
        let is_written = self.core.lock().tables.view_of(version).is_some_and(|(_, v)| v.online);
        if online && is_written {
            let (volume, snapshot) = (volume.to_owned(), snapshot.to_owned());
            return Err(ArrayError::SnapshotOnline { volume, snapshot });
        }
        self.core
            .request(move |tables, _| {
                let was = tables.versions.get(&version).and_then(|v| v.snapshot.as_ref());
                let was = was.map(|snapshot| snapshot.access).unwrap_or_default();
                let access = if online { SnapshotAccess::ReadOnly } else { was };
                serve(tables, version, online, access);
                Ok(())
            })
            .await
    }

    /// Where two snapshots of a volume differ, or a snapshot (`None`: nothing) and the present
    /// contents (`None` for `to`).
    ///
    /// Whatever was different when this was called is in it; what hosts change while it runs may be in
    /// or not.
    ///
    /// # Errors
    /// Those of names, also when what is compared is deleted meanwhile; [`ArrayError::Lost`] when what is to be compared is of a volume whose disks are
    /// missing, and in the journal still.
    pub async fn diff(
        &self,
        volume: &str,
        from: Option<&str>,
        to: Option<&str>,
    ) -> Result<Vec<ChangedExtent>, ArrayError> {
        // All of it into the maps first: they are all that is compared.
        self.core.checkpointed().await?;
        let (from, to) = {
            let state = self.core.lock();
            let from = from.map(|name| state.snapshot_map(volume, name)).transpose()?;
            let to =
                to.map_or_else(|| state.head_map(volume), |name| state.snapshot_map(volume, name))?;
            (from, to)
        };
        let mut changed: Vec<ChangedExtent> = Vec::new();
        let mut next = Some(0);
        let mut first = None;
        while let Some(leaf) = next {
            let step = self.core.with_pages(|state| {
                let roots = || {
                    let from = from.as_ref().map_or(Ok(None), |map| state.root(map))?;
                    Ok((from, state.root(&to)?))
                };
                let (from, to) = match current(&mut first, roots) {
                    Ok(roots) => roots,
                    Err(error) => return Ok(Err(error)),
                };
                tree::diff(&mut state.pages, from, to, leaf, STEP_PAGES, usize::MAX).map(Ok)
            });
            let step = step.await??;
            for range in step.clusters {
                let at = range.start * CLUSTER_BYTES as u64;
                let len_bytes = (range.end - range.start) * CLUSTER_BYTES as u64;
                match changed.last_mut() {
                    Some(last) if last.at + last.len_bytes == at => last.len_bytes += len_bytes,
                    _ => changed.push(ChangedExtent { at, len_bytes }),
                }
            }
            next = step.next_leaf;
        }
        Ok(changed)
    }

    /// What a snapshot (`None`: the present contents) holds alone and with others.
    ///
    /// What changes while it is counted may be in or not.
    ///
    /// # Errors
    /// Those of names; that of its name too when it is deleted meanwhile.
    pub async fn space(
        &self,
        volume: &str,
        snapshot: Option<&str>,
    ) -> Result<SpaceInfo, ArrayError> {
        self.core.checkpointed().await?;
        let (map, view) = {
            let state = self.core.lock();
            let map = state.map(volume, snapshot)?;
            let view = map.snapshot().and_then(|version| state.tables.view_of(version));
            let view = view.map(|(id, _)| Map { of: Of::Head(id), ..map.clone() });
            (map, view)
        };
        let bytes = CLUSTER_BYTES as u64;
        let written_bytes = match view {
            Some(view) => self.core.count_alone(&view).await? * bytes,
            None => 0,
        };
        let alone = self.core.count_alone(&map).await?;
        let mapped = self.core.lock().contents(&map)?.mapped;
        let (unique_bytes, shared_bytes) = (alone * bytes, mapped.saturating_sub(alone) * bytes);
        Ok(SpaceInfo { unique_bytes, shared_bytes, written_bytes })
    }
}

/// A map that is walked, and by which names it was asked for.
#[derive(Debug, Clone)]
struct Map {
    of: Of,
    volume: String,
    snapshot: Option<String>,
}

impl Map {
    fn snapshot(&self) -> Option<VersionId> {
        match self.of {
            Of::Head(_) => None,
            Of::Snapshot(_, version) => Some(version),
        }
    }

    /// It is not there any more.
    fn gone(&self) -> ArrayError {
        let volume = self.volume.clone();
        match self.snapshot.clone() {
            Some(name) => ArrayError::NoSuchSnapshot { volume, name },
            None => ArrayError::NoSuchVolume(volume),
        }
    }
}

/// The roots that a step of a walk begins with: those of now, since no page of others is sure to be
/// at its address.
fn current<T: Clone>(
    first: &mut Option<T>,
    roots: impl FnOnce() -> Result<T, ArrayError>,
) -> Result<T, ArrayError> {
    if mutants::is(Mutant::OldRoots) && first.is_some() {
        return Ok(first.clone().expect("looked at above"));
    }
    let roots = roots()?;
    if mutants::is(Mutant::OldRoots) {
        *first = Some(roots.clone());
    }
    Ok(roots)
}

impl Core {
    /// Takes snapshots if the journal has room, and the hold is in force.
    fn try_snapshot(
        &self,
        volumes: &[(&str, Option<&str>)],
        now: u64,
        hold: Option<&Hold>,
    ) -> Result<Tried, ArrayError> {
        let state = &mut *self.lock();
        state.check_running()?;
        let taken = self.look_for_snapshots(state, volumes, now)?;
        // Under the lock that fixes the moment: what the hold kept back comes after it.
        let ids: Vec<VersionId> = taken.iter().map(|(id, _)| *id).collect();
        let is_held = hold.is_none_or(|hold| hold.covers(self, state, &ids));
        if !is_held && !mutants::is(Mutant::LateCut) {
            return Ok(Tried::NotHeld);
        }
        let record = Record::Snapshot {
            epoch: state.epoch,
            unix_seconds: now,
            taken: taken
                .iter()
                .map(|(id, taken)| crate::journal::Taken {
                    volume: *id,
                    snapshot: taken.snapshot,
                    name: taken.name.clone(),
                })
                .collect(),
        };
        let added = match self.journal.append(&record, None) {
            Ok(added) => added,
            Err(journal::Refused::Full) => return Ok(Tried::NoRoom),
            Err(error @ journal::Refused::TooLong { .. }) => {
                let text = format!("these are too many volumes for one moment: {error}");
                return Err(ArrayError::Refused(text));
            }
        };
        let infos = taken.iter().map(|(id, taken)| state.waiting_info(*id, taken)).collect();
        for (id, taken) in taken {
            state.enter_snapshot(id, taken);
        }
        Ok(Tried::Taken(added.ticket, infos))
    }

    /// The snapshots of these volumes as they would be taken now.
    fn look_for_snapshots(
        &self,
        state: &State,
        volumes: &[(&str, Option<&str>)],
        now: u64,
    ) -> Result<Vec<(VersionId, Taken)>, ArrayError> {
        let epoch = state.epoch;
        let mut taken = Vec::new();
        for (volume, name) in volumes {
            let (id, table) = state.volume(volume)?;
            let live = &state.live[&id];
            if live.lost.is_some() {
                return Err(ArrayError::Lost);
            }
            if live.is_sealed || taken.iter().any(|(other, _)| *other == id) {
                return Err(ArrayError::NoSuchVolume((*volume).to_owned()));
            }
            let names: Vec<&str> = state.snapshot_names(id);
            if names.len() >= SNAPSHOTS_MAX {
                let volume = (*volume).to_owned();
                return Err(ArrayError::TooManySnapshots { volume, max: SNAPSHOTS_MAX });
            }
            let name = name.map_or_else(|| free_name(&names, now), ToOwned::to_owned);
            if names.contains(&&*name) {
                return Err(ArrayError::SnapshotExists { volume: (*volume).to_owned(), name });
            }
            let size_bytes = table.size_bytes;
            let snapshot = VersionId(state.next_version + taken.len() as u32);
            taken.push((id, Taken { snapshot, name, epoch, size_bytes, unix_seconds: now }));
        }
        let bytes = taken.iter().map(|(_, taken)| taken_bytes(taken)).sum();
        state.check_record(&self.layout, bytes)?;
        Ok(taken)
    }

    /// Clusters that a map shares neither with its parent nor with any of its children.
    async fn count_alone(&self, map: &Map) -> Result<u64, ArrayError> {
        let mut alone = 0;
        let mut next = Some(0);
        let mut first = None;
        while let Some(leaf) = next {
            let step = self.with_pages(|state| {
                let family = match current(&mut first, || state.family(map)) {
                    Ok(family) => family,
                    Err(error) => return Ok(Err(error)),
                };
                let (root, parent, children) = family;
                tree::exclusive(&mut state.pages, root, parent, &children, leaf, STEP_PAGES).map(Ok)
            });
            let step = step.await??;
            alone += step.places.len() as u64;
            next = step.next_leaf;
        }
        Ok(alone)
    }

    /// A snapshot by name, after the checkpoint that makes it a tree of its own.
    pub(super) async fn materialized(
        self: &Arc<Self>,
        volume: &str,
        snapshot: &str,
    ) -> Result<(VersionId, VersionId), ArrayError> {
        let find = || {
            let state = self.lock();
            let id = state.volume(volume)?.0;
            let version = state.snapshot(id, volume, snapshot)?.0;
            let is_there = state.tables.versions.contains_key(&version);
            // Nobody waits in vain for a checkpoint that makes it.
            if !is_there && self.is_out_of_reach(&state, id) {
                return Err(ArrayError::Lost);
            }
            Ok((id, version, is_there))
        };
        let (id, version, is_there) = find()?;
        if is_there {
            return Ok((id, version));
        }
        self.checkpointed().await?;
        let (id, version, is_there) = find()?;
        // Not of a volume that misses too many disks to be changed.
        if is_there { Ok((id, version)) } else { Err(ArrayError::Lost) }
    }
}

impl State {
    /// The map of a snapshot, or of what a volume holds now.
    fn map(&self, volume: &str, snapshot: Option<&str>) -> Result<Map, ArrayError> {
        let id = self.volume(volume)?.0;
        let of = match snapshot {
            None => Of::Head(id),
            Some(name) => Of::Snapshot(id, self.snapshot(id, volume, name)?.0),
        };
        let snapshot = snapshot.map(ToOwned::to_owned);
        Ok(Map { of, volume: volume.to_owned(), snapshot })
    }

    /// What the maps have of a volume, if that is all there is.
    fn head_map(&self, volume: &str) -> Result<Map, ArrayError> {
        let id = self.volume(volume)?.0;
        let is_aside = self.live.get(&id).is_some_and(|live| live.is_aside());
        if is_aside { Err(ArrayError::Lost) } else { self.map(volume, None) }
    }

    /// The same of a snapshot.
    fn snapshot_map(&self, volume: &str, name: &str) -> Result<Map, ArrayError> {
        let map = self.map(volume, Some(name))?;
        let is_there = |version| self.tables.versions.contains_key(&version);
        if map.snapshot().is_some_and(is_there) { Ok(map) } else { Err(ArrayError::Lost) }
    }

    /// What a map leads to now.
    fn contents(&self, map: &Map) -> Result<&Contents, ArrayError> {
        let found = match map.of {
            Of::Head(id) => self.tables.volumes.get(&id).map(|volume| &volume.head),
            Of::Snapshot(_, id) => {
                let version = self.tables.versions.get(&id);
                let version = version.filter(|version| version.deleting_from_leaf.is_none());
                version.map(|version| &version.contents)
            }
        };
        found.ok_or_else(|| map.gone())
    }

    fn root(&self, map: &Map) -> Result<Root, ArrayError> {
        Ok(self.contents(map)?.root)
    }

    /// The root of a map, what it shares with its parent, and the roots of its children. What hosts
    /// wrote to a snapshot goes with it: that is none.
    fn family(&self, map: &Map) -> Result<(Root, tree::Parent, Vec<Root>), ArrayError> {
        let contents = self.contents(map)?;
        let parent = self.tables.sharing(contents.parent);
        let Some(version) = map.snapshot() else { return Ok((contents.root, parent, Vec::new())) };
        let mut children = self.tables.children_of(version);
        if let Some((_, view)) = self.tables.view_of(version) {
            let at = children.iter().position(|child| *child == view.head.root);
            children.swap_remove(at.expect("a view is a child"));
        }
        Ok((contents.root, parent, children))
    }

    /// Names of all snapshots of a volume.
    fn snapshot_names(&self, volume: VersionId) -> Vec<&str> {
        let durable = self.tables.snapshots_of(volume).map(|(_, _, snapshot)| &*snapshot.name);
        let waiting = self.live[&volume].overlay.waiting().map(|taken| &*taken.name);
        durable.chain(waiting).collect()
    }

    /// A snapshot whose record is in the journal: what is written from now on comes after it.
    pub(crate) fn enter_snapshot(&mut self, volume: VersionId, taken: Taken) {
        self.next_version = self.next_version.max(taken.snapshot.0 + 1);
        // Not the epoch of now: a snapshot that is repeated in the journal is of long ago.
        let epoch = Epoch(taken.epoch.0 + 1);
        self.epoch = self.epoch.max(epoch);
        if let Some(live) = self.live.get_mut(&volume) {
            live.overlay.take(taken, epoch);
        }
    }
}

/// A name by the time, as no other snapshot has it.
fn free_name(names: &[&str], now: u64) -> String {
    let base = format!("at-{now}");
    let numbered = (2..).map(|number| format!("{base}-{number}"));
    let mut all = std::iter::once(base.clone()).chain(numbered);
    all.find(|name| !names.contains(&&**name)).expect("there is always a further number")
}

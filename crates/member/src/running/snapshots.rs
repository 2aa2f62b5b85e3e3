//! What is asked about snapshots. A change takes its target away first where hosts must not see it
//! happen, and ends with the targets in line again, also when it failed.

use std::collections::HashMap;

use array::ArrayError;
use array::api::{SnapshotInfo, VolumeInfo, VolumeState};
use group::settings::Intent;

use super::error::KeptSnapshot;
use super::{Member, RequestError};
use crate::reply::{Answer, Snapshot};
use crate::request::SnapshotRequest;

impl Member {
    pub(super) async fn snapshot(&self, request: SnapshotRequest) -> Result<Answer, RequestError> {
        self.check_snapshot_decided(&request)?;
        let array = &self.array;
        match request {
            SnapshotRequest::List { volume } => {
                return Ok(Answer::Snapshots(self.list(volume.as_deref())?));
            }
            SnapshotRequest::Count { snapshots } => {
                return Ok(Answer::Snapshots(self.count(&snapshots).await?));
            }
            SnapshotRequest::Diff { volume, from, to } => {
                let extents = array.diff(&volume, from.as_deref(), to.as_deref()).await?;
                return Ok(Answer::Extents(extents));
            }
            SnapshotRequest::Reservations { volume, name } => {
                return self.show_reservations(&self.served_snapshot(volume, name)?);
            }
            SnapshotRequest::ClearReservations { volume, name } => {
                return self.clear_reservations(|it| it.served_snapshot(volume, name)).await;
            }
            SnapshotRequest::Create { volumes, name } => {
                let is_twice = |at: &usize| volumes[..*at].contains(&volumes[*at]);
                if let Some(twice) = (0..volumes.len()).find(is_twice) {
                    return Err(RequestError::NamedTwice(volumes[twice].clone()));
                }
                let _alone = self.taking.take().await;
                self.check_staying(volumes.iter().map(String::as_str))?;
                self.check_name_of_run(&volumes, name.as_deref())?;
                let taken = self.take_snapshots(&volumes, name.as_deref()).await?.into_iter();
                let taken = taken.map(|info| self.shown_snapshot(self.id_of(&info), info));
                let taken = taken.collect();
                return Ok(Answer::Snapshots(taken));
            }
            _ => {}
        }
        let _claim = match &request {
            SnapshotRequest::Clone { to, .. } => Some(self.claim(vec![to.clone()]).await?),
            _ => None,
        };
        let _turn = self.turn.take().await;
        self.check_staying(request.volumes())?;
        // It may have begun while the turn was waited for.
        self.check_snapshot_decided(&request)?;
        let changed = self.change_snapshot(request).await;
        self.serving.settle().await;
        changed
    }

    /// Snapshots of one moment. None is left that may hold what a SANITIZE has still to erase: it would
    /// keep that for good, and so would its clones.
    pub(super) async fn take_snapshots(
        &self,
        volumes: &[String],
        name: Option<&str>,
    ) -> Result<Vec<SnapshotInfo>, RequestError> {
        self.check_sanitized(volumes)?;
        if let Some(name) = name {
            volumes.iter().try_for_each(|volume| self.check_decided_name(volume, name))?;
        }
        let set: Vec<_> = volumes.iter().map(|volume| (volume.as_str(), name)).collect();
        let taken = self.array.snapshot(&set).await?;
        // A host may have begun one meanwhile, and a name that the array has chosen may be that of a set.
        let checked = self.check_sanitized(volumes).and_then(|()| self.check_names_decided(&taken));
        if let Err(refusal) = checked {
            for SnapshotInfo { volume, name, .. } in &taken {
                let deleted = self.array.delete_snapshot(volume, name).await;
                if let Err(source) = deleted {
                    let (volume, name) = (volume.clone(), name.clone());
                    let kept = KeptSnapshot { refusal, volume, name, source };
                    return Err(RequestError::SnapshotKept(Box::new(kept)));
                }
            }
            return Err(refusal);
        }
        Ok(taken)
    }

    pub(super) fn check_sanitized(&self, volumes: &[String]) -> Result<(), RequestError> {
        for name in volumes {
            // One that is not there is refused by the array.
            let Ok(info) = self.find(name) else { continue };
            let serial = self.serving.names().volume_serial(&info);
            let unknown = |source| RequestError::SanitizeUnknown { volume: name.clone(), source };
            if self.serving.targets().is_unsanitized(&serial).map_err(unknown)? {
                return Err(RequestError::Sanitized(name.clone()));
            }
        }
        Ok(())
    }

    async fn change_snapshot(&self, request: SnapshotRequest) -> Result<Answer, RequestError> {
        let array = &self.array;
        match request {
            SnapshotRequest::Rollback { volume, name } => {
                array.rollback(&volume, &name).await?;
                Ok(Answer::Done)
            }
            SnapshotRequest::Clone { volume, name, to } => {
                let clone = self.clone_snapshot(&volume, &name, &to).await?;
                Ok(Answer::Volume(Box::new(self.shown(clone))))
            }
            SnapshotRequest::Delete { volume, name } => {
                let info = self.find_snapshot(&volume, &name)?;
                if info.online {
                    return Err(RequestError::SnapshotOnline { volume, name });
                }
                array.delete_snapshot(&volume, &name).await?;
                self.forget_units().await;
                Ok(Answer::Done)
            }
            SnapshotRequest::SetOnline { volume, name, online } => {
                if online {
                    self.check_snapshot_target(&volume, &name)?;
                } else {
                    self.find_snapshot(&volume, &name)?;
                    let iqn = self.serving.iqn_of_snapshot(&volume, &name);
                    self.serving.withdraw(&iqn).await?;
                }
                array.set_snapshot_online(&volume, &name, online).await?;
                self.show_snapshot(&volume, &name)
            }
            SnapshotRequest::SetWritable { volume, name, fresh } => {
                self.check_snapshot_target(&volume, &name)?;
                array.set_snapshot_writable(&volume, &name, fresh).await?;
                self.forget_units().await;
                self.show_snapshot(&volume, &name)
            }
            SnapshotRequest::List { .. }
            | SnapshotRequest::Count { .. }
            | SnapshotRequest::Diff { .. }
            | SnapshotRequest::Reservations { .. }
            | SnapshotRequest::ClearReservations { .. }
            | SnapshotRequest::Create { .. } => Ok(Answer::Done),
        }
    }

    /// A clone is for those that its source is for.
    async fn clone_snapshot(
        &self,
        volume: &str,
        name: &str,
        to: &str,
    ) -> Result<VolumeInfo, RequestError> {
        for involved in [volume, to] {
            self.complete(involved).await?;
        }
        self.check_free(to, None)?;
        let source = self.find(volume)?.id;
        let settings = Self::set_for(&*self.settings.state()?, source)?.cloned();
        if let Some(settings) = settings {
            let intent = Intent { settings, online: true };
            return self.clone_with((volume, name, to), intent).await;
        }
        if self.settings.are_to_be_made() && self.make_room_for(to).await? {
            let intent = Intent { online: true, ..Intent::default() };
            return self.clone_with((volume, name, to), intent).await;
        }
        Ok(self.array.clone_snapshot(volume, name, to, true).await?)
    }

    fn list(&self, volume: Option<&str>) -> Result<Vec<Snapshot>, RequestError> {
        let volumes = match volume {
            Some(name) => vec![self.find(name)?],
            None => self.volumes(),
        };
        let mut snapshots = self.array.all_snapshots();
        let mut all = Vec::new();
        for volume in volumes.iter().filter(|volume| volume.state != VolumeState::Deleted) {
            let infos = snapshots.remove(&volume.id).unwrap_or_default();
            let is_decided =
                |info: &SnapshotInfo| self.settings.undecided_of(volume.id, &info.name).is_none();
            let infos = infos.into_iter().filter(is_decided);
            all.extend(infos.map(|info| self.shown_snapshot(volume.id, info)));
        }
        Ok(all)
    }

    /// Counts what some hold. Those that have gone since they were listed are left out.
    async fn count(&self, snapshots: &[(String, String)]) -> Result<Vec<Snapshot>, RequestError> {
        let there = self.array.all_snapshots().into_iter();
        let there = there.flat_map(|(id, all)| all.into_iter().map(move |info| (id, info)));
        let keyed = |(id, info): (u32, SnapshotInfo)| {
            let key = (info.volume.clone(), info.name.clone());
            (key, (id, info))
        };
        let mut there: HashMap<(String, String), (u32, SnapshotInfo)> = there.map(keyed).collect();
        let mut all = Vec::new();
        for key in snapshots {
            let Some((id, info)) = there.remove(key) else { continue };
            let counted = match self.array.space(&key.0, Some(&key.1)).await {
                Err(ArrayError::NoSuchVolume(_) | ArrayError::NoSuchSnapshot { .. }) => continue,
                counted => counted?,
            };
            all.push(Snapshot { space: Some(counted), ..self.shown_snapshot(id, info) });
        }
        Ok(all)
    }

    pub(super) fn find_snapshot(
        &self,
        volume: &str,
        name: &str,
    ) -> Result<SnapshotInfo, RequestError> {
        let snapshots = self.array.snapshots(volume)?;
        let found = snapshots.into_iter().find(|snapshot| snapshot.name == name);
        found.ok_or_else(|| RequestError::NoSuchSnapshot {
            volume: volume.to_owned(),
            name: name.to_owned(),
        })
    }

    fn show_snapshot(&self, volume: &str, name: &str) -> Result<Answer, RequestError> {
        let info = self.find_snapshot(volume, name)?;
        Ok(Answer::Snapshot(Box::new(self.shown_snapshot(self.id_of(&info), info))))
    }

    /// The number of the volume of a snapshot; 0 of one that has just gone.
    fn id_of(&self, snapshot: &SnapshotInfo) -> u32 {
        self.array.volume(&snapshot.volume).map_or(0, |volume| volume.id)
    }

    /// A snapshot of the volume of this number.
    pub(super) fn shown_snapshot(&self, volume: u32, info: SnapshotInfo) -> Snapshot {
        let iqn = self.serving.names().snapshot((volume, &info.volume), &info.name);
        Snapshot { iqn: info.online.then_some(iqn), info, space: None }
    }

    /// Refuses to serve a snapshot under the name of another target.
    fn check_snapshot_target(&self, volume: &str, name: &str) -> Result<(), RequestError> {
        if self.find_snapshot(volume, name)?.online {
            // It is its own.
            return Ok(());
        }
        self.check_target_free(&self.serving.iqn_of_snapshot(volume, name), name)
    }
}

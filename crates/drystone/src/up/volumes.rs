//! What is asked about volumes and snapshots. A change takes its target away first where hosts
//! must not see it happen, and ends with the targets in line again, also when it failed.

use super::member::{Member, value};
use crate::control::reply::{Snapshot, Volume};
use crate::control::request::{SnapshotRequest, VolumeRequest};
use crate::serve::plan::first_repeated;
use anyhow::{Context, bail};
use array::ArrayError;
use array::api::{SnapshotInfo, VolumeInfo, VolumeState};
use serde_json::Value;

impl Member {
    pub(super) async fn volume(&self, request: VolumeRequest) -> anyhow::Result<Value> {
        match request {
            VolumeRequest::List => {
                let volumes = self.array.volumes();
                return value(volumes.into_iter().map(|info| self.shown(info)).collect::<Vec<_>>());
            }
            VolumeRequest::Show { name } => return value(self.shown(self.find(&name)?)),
            _ => {}
        }
        let opens = matches!(request, VolumeRequest::SetOnline { online: true, .. });
        let _turn = self.turn.take().await;
        let changed = self.change_volume(request).await;
        self.serving.settle().await;
        match changed? {
            Some(name) if opens => {
                self.check_served(&name, &self.serving.names().volume(&name))?;
                value(self.shown(self.find(&name)?))
            }
            Some(name) => value(self.shown(self.find(&name)?)),
            None => value(()),
        }
    }

    /// Changes a volume, and returns the name under which it is there afterwards.
    async fn change_volume(&self, request: VolumeRequest) -> anyhow::Result<Option<String>> {
        let array = &self.array;
        Ok(match request {
            VolumeRequest::List | VolumeRequest::Show { .. } => None,
            VolumeRequest::Create(spec) => {
                self.check_free(&spec.name, None)?;
                Some(array.create_volume(spec).await?.name)
            }
            VolumeRequest::Resize { name, size_bytes, shrink } => {
                let info = self.find(&name)?;
                if size_bytes < info.size_bytes && !shrink {
                    bail!(
                        "'{name}' would lose what lies behind its new end: write --shrink if that is meant"
                    );
                }
                array.resize_volume(&name, size_bytes).await?;
                self.serving.targets().resized(&self.serving.names().volume(&name));
                Some(name)
            }
            VolumeRequest::Rename { name, to } => {
                self.check_free(&to, Some(&name))?;
                self.check_no_hosts(&name)?;
                self.serving.withdraw(&self.serving.names().volume(&name)).await?;
                array.rename_volume(&name, &to).await?;
                Some(to)
            }
            VolumeRequest::SetReadAhead { name, bytes } => {
                Some(array.set_read_ahead(&name, bytes).await?.name)
            }
            VolumeRequest::SetOnline { name, online } => {
                if !online {
                    self.find(&name)?;
                    self.serving.withdraw(&self.serving.names().volume(&name)).await?;
                }
                array.set_volume_online(&name, online).await?;
                Some(name)
            }
            VolumeRequest::Delete { name } => {
                array.delete_volume(&name).await?;
                None
            }
            VolumeRequest::Undelete { name } => Some(array.undelete_volume(&name).await?.name),
            VolumeRequest::Purge { name } => {
                array.purge_volume(&name).await?;
                None
            }
        })
    }

    pub(super) async fn snapshot(&self, request: SnapshotRequest) -> anyhow::Result<Value> {
        let array = &self.array;
        match request {
            SnapshotRequest::List { volume, space } => {
                return value(self.list(volume.as_deref(), space).await?);
            }
            SnapshotRequest::Diff { volume, from, to } => {
                return value(array.diff(&volume, from.as_deref(), to.as_deref()).await?);
            }
            SnapshotRequest::Create { volumes, name } => {
                if let Some(twice) = first_repeated(volumes.iter()) {
                    bail!("'{twice}' is named twice: write it once");
                }
                let taken = self.take_snapshots(&volumes, name.as_deref()).await?.into_iter();
                return value(taken.map(|info| self.shown_snapshot(info)).collect::<Vec<_>>());
            }
            _ => {}
        }
        let _turn = self.turn.take().await;
        let changed = self.change_snapshot(request).await;
        self.serving.settle().await;
        changed
    }

    /// Snapshots of one moment. None is left that may hold what a SANITIZE has still to erase: it would
    /// keep that for good, and so would its clones.
    async fn take_snapshots(
        &self,
        volumes: &[String],
        name: Option<&str>,
    ) -> anyhow::Result<Vec<SnapshotInfo>> {
        self.check_sanitized(volumes)?;
        let set: Vec<_> = volumes.iter().map(|volume| (volume.as_str(), name)).collect();
        let taken = self.array.snapshot(&set).await?;
        // A host may have begun one meanwhile.
        if let Err(refusal) = self.check_sanitized(volumes) {
            for SnapshotInfo { volume, name, .. } in &taken {
                let deleted = self.array.delete_snapshot(volume, name).await;
                deleted.with_context(|| {
                    format!("{refusal}; delete snapshot '{name}' of '{volume}', which could not be")
                })?;
            }
            return Err(refusal);
        }
        Ok(taken)
    }

    fn check_sanitized(&self, volumes: &[String]) -> anyhow::Result<()> {
        for name in volumes {
            // One that is not there is refused by the array.
            let Ok(info) = self.find(name) else { continue };
            let serial = self.serving.names().volume_serial(&info);
            let unknown = || format!("cannot tell whether '{name}' is being sanitized");
            if self.serving.targets().is_unsanitized(&serial).with_context(unknown)? {
                bail!(
                    "a SANITIZE of '{name}' has not ended well yet, and a snapshot would keep what it is to erase: wait for its end, or let a host send it again"
                );
            }
        }
        Ok(())
    }

    async fn change_snapshot(&self, request: SnapshotRequest) -> anyhow::Result<Value> {
        let array = &self.array;
        match request {
            SnapshotRequest::Rollback { volume, name } => {
                value(array.rollback(&volume, &name).await?)
            }
            SnapshotRequest::Clone { volume, name, to } => {
                self.check_free(&to, None)?;
                value(self.shown(array.clone_snapshot(&volume, &name, &to).await?))
            }
            SnapshotRequest::Delete { volume, name } => {
                let info = self.find_snapshot(&volume, &name)?;
                if info.online {
                    bail!(
                        "snapshot '{name}' is online: take it offline first ('drystone snapshot offline {volume} {name}')"
                    );
                }
                value(array.delete_snapshot(&volume, &name).await?)
            }
            SnapshotRequest::SetOnline { volume, name, online } => {
                if online {
                    self.check_snapshot_target(&volume, &name)?;
                } else {
                    self.find_snapshot(&volume, &name)?;
                    let iqn = self.serving.names().snapshot(&volume, &name);
                    self.serving.withdraw(&iqn).await?;
                }
                array.set_snapshot_online(&volume, &name, online).await?;
                value(self.shown_snapshot(self.find_snapshot(&volume, &name)?))
            }
            SnapshotRequest::SetWritable { volume, name, fresh } => {
                self.check_snapshot_target(&volume, &name)?;
                array.set_snapshot_writable(&volume, &name, fresh).await?;
                value(self.shown_snapshot(self.find_snapshot(&volume, &name)?))
            }
            SnapshotRequest::List { .. }
            | SnapshotRequest::Diff { .. }
            | SnapshotRequest::Create { .. } => value(()),
        }
    }

    async fn list(&self, volume: Option<&str>, space: bool) -> anyhow::Result<Vec<Snapshot>> {
        let volumes = match volume {
            Some(name) => vec![self.find(name)?],
            None => self.array.volumes(),
        };
        let mut all = Vec::new();
        for volume in volumes.iter().filter(|volume| volume.state != VolumeState::Deleted) {
            for info in self.array.snapshots(&volume.name)? {
                let mut shown = self.shown_snapshot(info);
                if space {
                    let name = Some(shown.info.name.as_str());
                    shown.space = Some(self.array.space(&volume.name, name).await?);
                }
                all.push(shown);
            }
        }
        Ok(all)
    }

    /// A volume, in the recycle bin or not.
    fn find(&self, name: &str) -> anyhow::Result<VolumeInfo> {
        let found = self.array.volumes().into_iter().find(|volume| volume.name == name);
        found.with_context(|| format!("there is no volume '{name}': see 'drystone volume list'"))
    }

    fn find_snapshot(&self, volume: &str, name: &str) -> anyhow::Result<SnapshotInfo> {
        let snapshots = self.array.snapshots(volume)?;
        snapshots.into_iter().find(|snapshot| snapshot.name == name).with_context(|| {
            format!(
                "volume '{volume}' has no snapshot '{name}': see 'drystone snapshot list {volume}'"
            )
        })
    }

    /// What an operator is told. The array knows of no recycle bin where it wants a volume that
    /// can be used, and of no volume where it looks into the bin.
    pub(super) fn sentence(&self, error: &anyhow::Error) -> String {
        use ArrayError::{NoSuchVolume, NotDeleted};
        let Some(NoSuchVolume(name) | NotDeleted(name)) = error.downcast_ref() else {
            return format!("{error:#}");
        };
        match (self.find(name), error.downcast_ref()) {
            (Err(missing), _) => missing.to_string(),
            (Ok(volume), Some(NoSuchVolume(_))) if volume.state == VolumeState::Deleted => format!(
                "'{name}' is in the recycle bin: 'drystone volume undelete {name}' brings it back"
            ),
            _ => format!("{error:#}"),
        }
    }

    fn shown(&self, info: VolumeInfo) -> Volume {
        let iqn = self.serving.names().volume(&info.name);
        let sessions = self.serving.sessions().get(&iqn).copied().unwrap_or(0);
        let not_served = self.serving.refusal(&iqn);
        Volume { info, iqn, sessions, not_served }
    }

    fn check_served(&self, name: &str, iqn: &str) -> anyhow::Result<()> {
        match self.serving.refusal(iqn) {
            Some(why) => bail!("'{name}' is online, but cannot be served: {why}"),
            None => Ok(()),
        }
    }

    fn shown_snapshot(&self, info: SnapshotInfo) -> Snapshot {
        let iqn = self.serving.names().snapshot(&info.volume, &info.name);
        Snapshot { iqn: info.online.then_some(iqn), info, space: None }
    }

    /// Refuses a name whose target would be that of another volume: iSCSI names know no capitals
    /// and no underscores.
    fn check_free(&self, name: &str, except: Option<&str>) -> anyhow::Result<()> {
        let iqn = self.serving.names().volume(name);
        let volumes = self.array.volumes();
        let mut others = volumes.iter().filter(|other| other.name != name);
        let same = others.find(|other| {
            Some(other.name.as_str()) != except && self.serving.names().volume(&other.name) == iqn
        });
        match same {
            Some(other) => bail!(
                "'{name}' would have the same iSCSI name as '{}': choose a name that differs in more than capitals, '-', '_' and ':'",
                other.name
            ),
            None => self.check_target_free(&iqn, name),
        }
    }

    /// Refuses to serve a snapshot under the name of another target.
    fn check_snapshot_target(&self, volume: &str, name: &str) -> anyhow::Result<()> {
        if self.find_snapshot(volume, name)?.online {
            // It is its own.
            return Ok(());
        }
        self.check_target_free(&self.serving.names().snapshot(volume, name), name)
    }

    /// Refuses the name of a target that a snapshot has.
    fn check_target_free(&self, iqn: &str, name: &str) -> anyhow::Result<()> {
        let sessions = self.serving.sessions();
        let is_volume =
            self.array.volumes().iter().any(|v| self.serving.names().volume(&v.name) == *iqn);
        if sessions.contains_key(iqn) && !is_volume {
            bail!("the iSCSI name of '{name}', {iqn}, is in use: choose another name");
        }
        Ok(())
    }

    /// A target cannot be renamed under its hosts.
    fn check_no_hosts(&self, name: &str) -> anyhow::Result<()> {
        let hosts = self.shown(self.find(name)?).sessions;
        if hosts > 0 {
            bail!(
                "{} logged in to '{name}' by its old name: log out, or take it offline first ('drystone volume offline {name}')",
                if hosts == 1 { "1 host is".to_owned() } else { format!("{hosts} hosts are") }
            );
        }
        let sessions = self.serving.sessions();
        for snapshot in self.array.snapshots(name)? {
            let iqn = self.serving.names().snapshot(name, &snapshot.name);
            if sessions.get(&iqn).is_some_and(|hosts| *hosts > 0) {
                let snapshot = snapshot.name;
                bail!(
                    "hosts are logged in to snapshot '{snapshot}' by the old name of '{name}': take it offline first ('drystone snapshot offline {name} {snapshot}')"
                );
            }
        }
        Ok(())
    }
}

//! What is asked about volumes. A change takes its target away first where hosts must not see it
//! happen, and ends with the targets in line again, also when it failed.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use array::ArrayError;
use array::api::{VolumeInfo, VolumeSpec, VolumeState};

use super::{Member, RequestError, SpreadRefusal};
use crate::membership::Claim;
use crate::reply::{Answer, Registrations, Volume};
use crate::request::VolumeRequest;

/// Why a volume is for nobody that is not yet what it is to become.
const HALF_MADE: &str = "it is half made: who may use it is not stored yet";

/// What hosts have done with all volumes: it is asked once for many of them.
struct OfHosts {
    /// Those of all targets, by name.
    sessions: BTreeMap<String, usize>,
    /// Volumes that are low on registrations, by serial number.
    low: BTreeMap<String, Registrations>,
    /// Who has write-protected volumes, by their serial numbers.
    protected: BTreeMap<String, Arc<str>>,
}

impl Member {
    pub(super) async fn volume(&self, request: VolumeRequest) -> Result<Answer, RequestError> {
        match request {
            VolumeRequest::Purge { name } if self.is_stray_slice(&name) => {
                return self.purge_stray(&name).await.map(|()| Answer::Done);
            }
            VolumeRequest::List => return Ok(Answer::Volumes(self.all_volumes())),
            VolumeRequest::Show { name } => return self.show(&name),
            VolumeRequest::Reservations { name } => {
                return self.show_reservations(&self.served_volume(name)?);
            }
            VolumeRequest::ClearReservations { name } => {
                return self.clear_reservations(|it| it.served_volume(name)).await;
            }
            _ => {}
        }
        let opens = matches!(request, VolumeRequest::SetOnline { online: true, .. });
        let _claim = self.claim_for(&request).await?;
        let _turn = self.turn.take().await;
        self.check_staying(request.volumes())?;
        self.check_volume_decided(&request)?;
        let changed = self.change_volume(request).await;
        self.serving.settle().await;
        match changed? {
            Some(name) if opens => {
                self.check_served(&name, &self.serving.iqn_of(&name))?;
                self.show(&name)
            }
            Some(name) => self.show(&name),
            None => Ok(Answer::Done),
        }
    }

    /// Has the group promise the name that a volume is to have. What is there while a name may become free has the group
    /// look behind it.
    async fn claim_for(&self, request: &VolumeRequest) -> Result<Option<Claim>, RequestError> {
        let names = match request {
            VolumeRequest::Create(spec) => vec![spec.name.clone()],
            VolumeRequest::Rename { to, .. } => vec![to.clone()],
            VolumeRequest::Purge { .. } => Vec::new(),
            _ => return Ok(None),
        };
        self.claim(names).await.map(Some)
    }

    pub(super) fn all_volumes(&self) -> Vec<Volume> {
        let (volumes, hosts) = (self.volumes(), self.of_hosts());
        volumes.into_iter().map(|info| self.shown_with(info, &hosts)).collect()
    }

    fn show(&self, name: &str) -> Result<Answer, RequestError> {
        Ok(Answer::Volume(Box::new(self.shown(self.find(name)?))))
    }

    /// Changes a volume, and returns the name under which it is there afterwards.
    pub(super) async fn change_volume(
        &self,
        request: VolumeRequest,
    ) -> Result<Option<String>, RequestError> {
        let array = &self.array;
        Ok(match request {
            VolumeRequest::List
            | VolumeRequest::Show { .. }
            | VolumeRequest::Reservations { .. }
            | VolumeRequest::ClearReservations { .. } => None,
            VolumeRequest::Create(spec) => {
                self.complete(&spec.name).await?;
                self.check_free(&spec.name, None)?;
                Some(self.create(spec, true).await?.name)
            }
            VolumeRequest::Resize { name, size_bytes, shrink } => {
                let info = self.find(&name)?;
                if size_bytes < info.size_bytes && !shrink {
                    return Err(RequestError::WouldShrink(name));
                }
                array.resize_volume(&name, size_bytes).await?;
                self.serving.targets().resized(&self.serving.iqn_of_volume(&info));
                Some(name)
            }
            VolumeRequest::Rename { name, to } => {
                for involved in [&name, &to] {
                    self.complete(involved).await?;
                }
                self.check_free(&to, Some(&name))?;
                self.check_no_hosts(&name)?;
                self.serving.withdraw(&self.serving.iqn_of(&name)).await?;
                array.rename_volume(&name, &to).await?;
                Some(to)
            }
            VolumeRequest::SetReadAhead { name, bytes } => {
                Some(array.set_read_ahead(&name, bytes).await?.name)
            }
            VolumeRequest::SetCached { name, cached } => {
                Some(array.set_volume_cached(&name, cached).await?.name)
            }
            VolumeRequest::SetShared { name, shared } => {
                self.set_shared(&name, shared).await?;
                Some(name)
            }
            VolumeRequest::SetOnline { name, online } => {
                self.complete(&name).await?;
                if !online {
                    let info = self.find(&name)?;
                    self.serving.withdraw(&self.serving.iqn_of_volume(&info)).await?;
                }
                let on_array = self.serving.spread().on_array(&name);
                array.set_volume_online(&on_array, online).await?;
                Some(name)
            }
            VolumeRequest::Delete { name } => {
                array.delete_volume(&name).await?;
                None
            }
            VolumeRequest::Undelete { name } => Some(array.undelete_volume(&name).await?.name),
            VolumeRequest::Purge { name } => {
                array.purge_volume(&name).await?;
                self.settings.forget_purged().await;
                self.forget_units().await;
                None
            }
        })
    }

    /// Makes a volume.
    pub(super) async fn create(
        &self,
        spec: VolumeSpec,
        online: bool,
    ) -> Result<VolumeInfo, RequestError> {
        if self.settings.are_to_be_made() {
            return self.create_first(spec, online).await;
        }
        Ok(match online {
            true => self.array.create_volume(spec).await?,
            false => self.array.create_volume_offline(spec).await?,
        })
    }

    /// Takes volumes back that were made for what was refused.
    pub(super) async fn taken_back(
        &self,
        made: Vec<String>,
        refusal: RequestError,
    ) -> RequestError {
        for volume in made {
            if let Err(source) = self.unmake(&volume).await {
                self.serving.settle().await;
                let refusal = Box::new(refusal);
                return RequestError::NotTakenBack { refusal, volume, source };
            }
        }
        self.forget_unmade().await;
        refusal
    }

    /// Nobody has ever seen it.
    async fn unmake(&self, name: &str) -> Result<(), ArrayError> {
        self.array.set_volume_online(name, false).await?;
        self.array.delete_volume(name).await?;
        self.array.purge_volume(name).await
    }

    /// Forgets what units have kept that are no more: their volumes, snapshots or what was written to those are gone.
    /// Nothing while it does not read whose something is.
    pub(super) async fn forget_units(&self) {
        if !self.settings.all_adopted_read() {
            return;
        }
        let owners = || {
            // Not before: a volume of another array may have come while the settings were waited for.
            let names = self.serving.names();
            let volumes = self.array.volumes();
            let mut serials: BTreeSet<_> =
                volumes.iter().map(|volume| names.volume_serial(volume)).collect();
            for snapshot in self.array.all_snapshots().into_values().flatten() {
                serials.extend(snapshot.view_id.map(|view| names.serial_of(view)));
                serials.insert(names.snapshot_serial(&snapshot));
            }
            serials
        };
        self.settings.forget_ownerless(owners).await;
    }

    /// A volume, in the recycle bin or not.
    pub(super) fn find(&self, name: &str) -> Result<VolumeInfo, RequestError> {
        // Not among all of them: what is said of each costs as much as there are snapshots.
        let found = self.serving.volume(name);
        found.ok_or_else(|| RequestError::NoSuchVolume(name.to_owned()))
    }

    /// What is said of an error. The array knows of no recycle bin where it wants a volume that can be
    /// used, and of no volume where it looks into the bin; and it gives up what is in the bin for hosts alone.
    pub(super) fn explained(&self, error: RequestError) -> RequestError {
        use ArrayError::{NoSuchVolume, NotDeleted};
        if error.is_want_of_room() {
            return self.with_bin(error);
        }
        let RequestError::Array(NoSuchVolume(name) | NotDeleted(name)) = &error else {
            return error;
        };
        match self.find(name) {
            Err(missing) => missing,
            Ok(volume) => match &error {
                RequestError::Array(NoSuchVolume(name)) if volume.state == VolumeState::Deleted => {
                    RequestError::InRecycleBin(name.clone())
                }
                _ => error,
            },
        }
    }

    /// That there is no room, and what could make some.
    fn with_bin(&self, error: RequestError) -> RequestError {
        let mut volumes = self.volumes();
        volumes.retain(|volume| volume.state == VolumeState::Deleted && volume.used_bytes > 0);
        let held_bytes = volumes.iter().map(|volume| volume.used_bytes).sum();
        let name = match &volumes[..] {
            [] => return error,
            [one] => Some(one.name.clone()),
            _ => None,
        };
        RequestError::BinHolds { source: Box::new(error), held_bytes, name }
    }

    fn of_hosts(&self) -> OfHosts {
        OfHosts {
            sessions: self.serving.sessions(),
            low: self.low_on_registrations(),
            protected: self.serving.targets().write_protections(),
        }
    }

    pub(super) fn shown(&self, info: VolumeInfo) -> Volume {
        self.shown_with(info, &self.of_hosts())
    }

    fn shown_with(&self, mut info: VolumeInfo, of_hosts: &OfHosts) -> Volume {
        info.snapshots = info.snapshots.saturating_sub(self.snapshots_of_move(&info));
        let iqn = self.serving.iqn_of_volume(&info);
        let sessions = of_hosts.sessions.get(&iqn).copied().unwrap_or(0);
        let is_half_made = self.settings.is_half_made(info.id);
        if is_half_made && info.state == VolumeState::Offline {
            HALF_MADE.clone_into(&mut info.reason);
        }
        let half_made = || is_half_made.then(|| HALF_MADE.to_owned());
        let fault = || self.settings.fault().or_else(half_made);
        let withheld = self.why_withheld(info.id);
        if let Some(why) = withheld.as_ref().filter(|_| info.state == VolumeState::Offline) {
            why.clone_into(&mut info.reason);
        }
        let not_served = withheld.or_else(|| self.serving.refusal(&iqn)).or_else(fault);
        let shared = self.is_shared(info.id);
        let hosts = self.hosts(info.id);
        let serial = self.serving.names().volume_serial(&info);
        let registrations = of_hosts.low.get(&serial).cloned();
        let write_protected_by = of_hosts.protected.get(&serial).map(ToString::to_string);
        let not_there = self.settings.not_there(info.id);
        Volume {
            info,
            iqn,
            sessions,
            not_served,
            shared,
            hosts,
            registrations,
            write_protected_by,
            not_there,
        }
    }

    pub(super) fn check_served(&self, name: &str, iqn: &str) -> Result<(), RequestError> {
        match self.serving.refusal(iqn) {
            Some(why) => Err(RequestError::NotServed { name: name.to_owned(), why }),
            None => Ok(()),
        }
    }

    /// Refuses a name whose target would be that of another volume: iSCSI names know no capitals
    /// and no underscores. Nor may that part of them be the same where they begin otherwise, as volumes have moved here:
    /// each may move on.
    pub(super) fn check_free(&self, name: &str, except: Option<&str>) -> Result<(), RequestError> {
        if except != Some(name) && self.serving.spread().takes_name(name) {
            return Err(match self.serving.spread().is_going(name) {
                true => SpreadRefusal::Awaited(name.to_owned()).into(),
                false => ArrayError::VolumeExists(name.to_owned()).into(),
            });
        }
        let names = self.serving.names();
        let folded = names.new_volume(name);
        let iqn = match except.and_then(|former| self.array.volume(former).ok()) {
            Some(former) => names.volume(former.id, name),
            None => folded.clone(),
        };
        let volumes = self.volumes();
        let mut others = volumes.iter().filter(|other| other.name != name);
        let same = others.find(|other| {
            Some(other.name.as_str()) != except && names.new_volume(&other.name) == folded
        });
        match same {
            Some(other) => {
                Err(RequestError::SameTarget { name: name.to_owned(), other: other.name.clone() })
            }
            None => self.check_target_free(&iqn, name),
        }
    }

    /// Refuses the name of a target that a snapshot has.
    pub(super) fn check_target_free(&self, iqn: &str, name: &str) -> Result<(), RequestError> {
        let sessions = self.serving.sessions();
        let is_volume = self.volumes().iter().any(|v| self.serving.iqn_of_volume(v) == *iqn);
        if sessions.contains_key(iqn) && !is_volume {
            return Err(RequestError::TargetInUse { name: name.to_owned(), iqn: iqn.to_owned() });
        }
        Ok(())
    }

    /// A target cannot be renamed under its hosts.
    fn check_no_hosts(&self, name: &str) -> Result<(), RequestError> {
        let info = self.find(name)?;
        let id = info.id;
        let hosts = self.shown(info).sessions;
        if hosts > 0 {
            return Err(RequestError::HostsLoggedIn { name: name.to_owned(), hosts });
        }
        let sessions = self.serving.sessions();
        for snapshot in self.array.snapshots(name)? {
            let iqn = self.serving.names().snapshot((id, name), &snapshot.name);
            if sessions.get(&iqn).is_some_and(|hosts| *hosts > 0) {
                let (volume, snapshot) = (name.to_owned(), snapshot.name);
                return Err(RequestError::SnapshotInUse { volume, snapshot });
            }
        }
        Ok(())
    }
}

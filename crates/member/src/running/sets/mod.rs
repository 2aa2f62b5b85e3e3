//! Snapshots of one moment of volumes of several members of the group.
//!
//! ```text
//!  Prepare ─ checks, is stored ─▶ undecided ─ Hold ─▶ writes wait ─ Take ─▶ snapshots, writes go on ─▶ Settle
//! ```
//!
//! Numbered, for all that lies here:
//! 1. The store of the group says whether a set is whole, and nothing else ([`group::sets`]).
//! 2. While it is undecided its snapshots are for nobody, and their names and volumes stay as they are: what is deleted
//!    in the end is what was taken for the set.
//! 3. Snapshots are taken only in a hold that has never ended since all members hold, and only while the set is
//!    undecided. A set is settled only while none is being taken.
//! 4. Hosts never wait for longer than the hold lasts by itself, whoever has ended.

mod settling;
mod taking;

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use array::Hold;
use array::api::{SnapshotInfo, VolumeState};
use group::membership::SetId;
use ring::wait::Turn;

use super::{Member, RequestError, SetError};
use crate::mutants::{self, Mutant};
use crate::reply::Answer;
use crate::request::{SnapshotRequest, VolumeRequest};
use crate::set_request::SetRequest;

/// Volumes of one set, at most: so many fit into what one member answers another.
const VOLUMES_MAX: usize = 64;

/// How long hosts may wait for a set.
const HOLD_TIME: Duration = Duration::from_secs(2);

/// For how long nothing was heard of a set before who takes part in it decides itself.
const SILENCE: Duration = Duration::from_secs(30);

/// The sets that go on in this life of the member.
#[derive(Debug, Default)]
pub(super) struct Sets {
    holds: RefCell<BTreeMap<SetId, Hold>>,
    /// Those of which hosts are to wait no more: a hold that is asked for before that may come to its turn behind it.
    released: RefCell<BTreeSet<SetId>>,
    /// Sets are settled one after the other. Who has this may take the turns of the member, not the other way round.
    settling: Turn,
    /// When something was heard of each.
    heard: RefCell<BTreeMap<SetId, Instant>>,
}

impl Sets {
    fn hear(&self, id: &SetId) {
        self.heard.borrow_mut().insert(id.clone(), Instant::now());
    }

    /// Whether nobody drives a set any more, as far as is known here: one of a life before is driven by nobody.
    fn is_due(&self, id: &SetId) -> bool {
        self.heard.borrow().get(id).is_none_or(|heard| heard.elapsed() >= SILENCE)
    }

    /// Hosts wait no more for a set, neither for a hold that there is nor for one that waits for its turn.
    fn release_for_good(&self, id: &SetId) {
        drop(self.release(id));
        self.released.borrow_mut().insert(id.clone());
    }

    fn is_released(&self, id: &SetId) -> bool {
        self.released.borrow().contains(id) && !mutants::is(Mutant::LateHold)
    }

    /// Ends the hold of a set, if there is one.
    fn release(&self, id: &SetId) -> Option<Hold> {
        self.holds.borrow_mut().remove(id)
    }

    fn end(&self, id: &SetId) {
        drop(self.release(id));
        self.released.borrow_mut().remove(id);
        self.heard.borrow_mut().remove(id);
    }
}

impl Member {
    /// Carries out what is asked about sets of snapshots.
    pub(super) async fn snapshot_set(&self, request: SetRequest) -> Result<Answer, RequestError> {
        match request {
            SetRequest::Prepare { plan } => self.prepare_set(plan).await.map(|()| Answer::Done),
            SetRequest::Hold { id } => self.hold_set(&id).await.map(|()| Answer::Done),
            SetRequest::Take { id } => self.take_set(&id).await.map(Answer::Snapshots),
            SetRequest::Release { id } => {
                // Of one that is not known nothing would take this away again.
                if self.settings.set(&id).is_some() {
                    self.sets.release_for_good(&id);
                }
                Ok(Answer::Done)
            }
            SetRequest::Decide { id, verdict } => {
                self.decide_set(&id, verdict).await.map(Answer::Decided)
            }
            SetRequest::Settle { id, is_told } => {
                self.settle_set(&id, is_told).await.map(Answer::SetSettled)
            }
            SetRequest::List => Ok(Answer::Sets(self.settings.sets())),
            SetRequest::Sweep => self.sweep_sets().await.map(|()| Answer::Done),
        }
    }

    /// Refuses what would change which volume it is whose snapshot may be deleted yet, and what may wait for the end of
    /// its hold, which the set would wait for in turn.
    pub(super) fn check_volume_decided(&self, request: &VolumeRequest) -> Result<(), RequestError> {
        match request {
            VolumeRequest::Rename { name, .. } => self.check_decided_of(name),
            // Of one that is lost a snapshot may not be deleted: the set is settled when the volume is gone.
            VolumeRequest::Delete { name } | VolumeRequest::SetOnline { name, online: false }
                if self.is_lost(name) =>
            {
                Ok(())
            }
            VolumeRequest::Delete { name } => self.check_decided_of(name),
            VolumeRequest::Resize { name, .. } | VolumeRequest::SetOnline { name, .. } => {
                self.check_not_undecided(name)
            }
            _ => Ok(()),
        }
    }

    fn is_lost(&self, volume: &str) -> bool {
        self.find(volume).is_ok_and(|info| info.state == VolumeState::Lost)
    }

    /// Refuses what is asked about snapshots of which nobody knows whether they stay, and their names.
    pub(super) fn check_snapshot_decided(
        &self,
        request: &SnapshotRequest,
    ) -> Result<(), RequestError> {
        match request {
            SnapshotRequest::Create { volumes, name: Some(name) } => {
                self.check_sets_known(SetError::NamesUnknown)?;
                volumes.iter().try_for_each(|volume| self.check_decided_name(volume, name))
            }
            SnapshotRequest::Rollback { volume, .. } => self.check_decided_of(volume),
            // What hosts write there, and what is made of it, would go with a set that is void.
            SnapshotRequest::Clone { volume, name, .. }
            | SnapshotRequest::Delete { volume, name }
            | SnapshotRequest::SetOnline { volume, name, .. }
            | SnapshotRequest::SetWritable { volume, name, .. } => {
                self.check_known_of(volume)?;
                self.check_decided_name(volume, name)
            }
            SnapshotRequest::Reservations { volume, name }
            | SnapshotRequest::ClearReservations { volume, name } => {
                self.check_decided_name(volume, name)
            }
            SnapshotRequest::Diff { volume, from, to } => {
                let mut names = from.iter().chain(to);
                names.try_for_each(|name| self.check_decided_name(volume, name))
            }
            SnapshotRequest::Create { name: None, .. }
            | SnapshotRequest::List { .. }
            | SnapshotRequest::Count { .. } => Ok(()),
        }
    }

    /// Refuses to change a volume of which a snapshot is undecided, or may be.
    pub(super) fn check_decided_of(&self, volume: &str) -> Result<(), RequestError> {
        self.check_known_of(volume)?;
        self.check_not_undecided(volume)
    }

    /// Refuses to change a volume or a snapshot of it that may be of a set which cannot be read.
    fn check_known_of(&self, volume: &str) -> Result<(), RequestError> {
        self.check_sets_known(|why| SetError::VolumeUnknown { volume: volume.to_owned(), why })
    }

    /// Refuses what must not be done while sets are undecided that cannot be read. Who is in no group deletes nothing
    /// for a set, and has no part in one.
    fn check_sets_known(
        &self,
        unknown: impl FnOnce(String) -> SetError,
    ) -> Result<(), RequestError> {
        if matches!(self.membership.group_id(), Ok(None)) {
            return Ok(());
        }
        match self.settings.unknown_sets() {
            Some(why) if !mutants::is(Mutant::IgnoreUnread) => Err(unknown(why).into()),
            _ => Ok(()),
        }
    }

    /// Refuses to change a volume of which a snapshot is known to be undecided.
    pub(super) fn check_not_undecided(&self, volume: &str) -> Result<(), RequestError> {
        let found = self.array.volume(volume).ok();
        match found.and_then(|found| self.settings.undecided_of_any(found.id)) {
            Some(id) => {
                let (volume, is_driven) = (volume.to_owned(), !self.sets.is_due(&id));
                Err(SetError::VolumeUndecided { volume, is_driven }.into())
            }
            None => Ok(()),
        }
    }

    /// Refuses a snapshot that is undecided, or a new one of its name.
    pub(super) fn check_decided_name(&self, volume: &str, name: &str) -> Result<(), RequestError> {
        let found = self.array.volume(volume).ok();
        match found.and_then(|found| self.settings.undecided_of(found.id, name)) {
            Some(id) if !mutants::is(Mutant::FreeNames) => {
                let is_driven = !self.sets.is_due(&id);
                let (volume, name) = (volume.to_owned(), name.to_owned());
                Err(SetError::Undecided { volume, name, is_driven }.into())
            }
            _ => Ok(()),
        }
    }

    /// Refuses snapshots that have got a name which is undecided, as the array has chosen it.
    pub(super) fn check_names_decided(&self, taken: &[SnapshotInfo]) -> Result<(), RequestError> {
        taken.iter().try_for_each(|info| self.check_decided_name(&info.volume, &info.name))
    }
}

#[cfg(test)]
mod tests;

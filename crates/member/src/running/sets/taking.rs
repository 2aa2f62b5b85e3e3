//! Taking part in a set, up to its snapshots.

use array::api::VolumeState;
use array::{ArrayError, SNAPSHOTS_MAX, check_name};
use group::membership::{SetId, Verdict};
use group::settings::{SetIntent, SetStage};

use super::super::{Member, RequestError, SetError};
use super::{HOLD_TIME, VOLUMES_MAX};
use crate::membership::GroupError;
use crate::mutants::{self, Mutant};
use crate::reply::Snapshot;
use crate::set_request::SetPlan;

/// Hosts wait no more, or never did.
fn too_late() -> RequestError {
    SetError::TooLate { seconds: HOLD_TIME.as_secs() }.into()
}

impl Member {
    /// Stores that this member takes part, after it was looked at all that could keep it from that.
    pub(super) async fn prepare_set(&self, plan: SetPlan) -> Result<(), RequestError> {
        let me = self.membership.me()?;
        let group = self.membership.group_id()?.ok_or(GroupError::NotInGroup)?;
        let is_part = plan.coordinator == me || plan.participants.contains(&me);
        if group != plan.group || !is_part {
            return Err(SetError::OtherSeat.into());
        }
        if plan.volumes.len() > VOLUMES_MAX {
            return Err(SetError::TooMany { max: VOLUMES_MAX }.into());
        }
        if plan.coordinator == me {
            // While the store is silent nothing would be decided: it is refused before anybody has stored anything.
            self.membership.set_record(&group, &plan.id).await?;
        }
        let _alone = self.taking.take().await;
        let _turn = self.turn.take().await;
        let volumes = self.check_set(&plan)?;
        let SetPlan { id, coordinator, participants, name, .. } = plan;
        let stage = SetStage::Undecided;
        let intent = SetIntent { id, group, me, coordinator, participants, volumes, name, stage };
        self.sets.hear(&intent.id);
        self.settings.prepare_set(&intent).await?;
        // One of them may have begun to move while that was stored: then the set becomes void.
        match mutants::is(Mutant::PrepareBlind) {
            true => Ok(()),
            false => self.names_in(&intent)?.iter().try_for_each(|name| self.check_no_source(name)),
        }
    }

    /// Refuses a volume that moves away, in this life.
    fn check_no_source(&self, volume: &str) -> Result<(), RequestError> {
        match self.moving.under_way().remove(volume) {
            Some(to) => Err(SetError::Moves { name: volume.to_owned(), to }.into()),
            None => Ok(()),
        }
    }

    /// The numbers of the volumes of a set, all of which can have such a snapshot.
    fn check_set(&self, plan: &SetPlan) -> Result<Vec<u32>, RequestError> {
        // While these cannot be read it is not known what is under way.
        self.settings.state()?;
        check_name(&plan.name)?;
        self.check_staying(plan.volumes.iter().map(String::as_str))?;
        self.check_name_of_run(&plan.volumes, Some(&plan.name))?;
        let mut numbers = Vec::new();
        for name in &plan.volumes {
            let volume = self.find(name)?;
            match volume.state {
                VolumeState::Deleted => return Err(RequestError::InRecycleBin(name.clone())),
                VolumeState::Lost => return Err(ArrayError::Lost.into()),
                VolumeState::Online | VolumeState::Degraded | VolumeState::Offline => {}
            }
            if self.settings.is_half_made(volume.id) {
                return Err(SetError::HalfMade(name.clone()).into());
            }
            self.check_no_source(name)?;
            // One at a time: while the store is silent they would pile up, and nobody sees them.
            self.check_decided_of(name)?;
            let snapshots = self.array.snapshots(name)?;
            if snapshots.iter().any(|info| info.name == plan.name) {
                let (volume, name) = (name.clone(), plan.name.clone());
                return Err(ArrayError::SnapshotExists { volume, name }.into());
            }
            if snapshots.len() >= SNAPSHOTS_MAX {
                let (volume, max) = (name.clone(), SNAPSHOTS_MAX);
                return Err(ArrayError::TooManySnapshots { volume, max }.into());
            }
            if numbers.contains(&volume.id) {
                return Err(RequestError::NamedTwice(name.clone()));
            }
            numbers.push(volume.id);
        }
        self.check_sanitized(&plan.volumes)?;
        Ok(numbers)
    }

    /// Holds back what hosts write to the volumes of a set.
    pub(super) async fn hold_set(&self, id: &SetId) -> Result<(), RequestError> {
        // Behind snapshots that are being taken: hosts would wait for them, too.
        let _alone = self.taking.take().await;
        let intent = self.undecided(id)?;
        if self.sets.is_released(id) {
            return Err(too_late());
        }
        self.sets.hear(id);
        let names = self.names_in(&intent)?;
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let hold = self.array.hold(&names, HOLD_TIME)?;
        self.sets.holds.borrow_mut().insert(id.clone(), hold);
        Ok(())
    }

    /// Takes the snapshots of a set while its hold is in force, and ends that.
    pub(super) async fn take_set(&self, id: &SetId) -> Result<Vec<Snapshot>, RequestError> {
        let _alone = self.taking.take().await;
        let hold = self.sets.release(id).ok_or_else(too_late)?;
        // It may have been settled while the turn was waited for.
        let intent = self.undecided(id)?;
        self.sets.hear(id);
        let names = self.names_in(&intent)?;
        self.check_sanitized(&names)?;
        let set: Vec<_> =
            names.iter().map(|name| (name.as_str(), Some(intent.name.as_str()))).collect();
        let taken = self.array.snapshot_held(&hold, &set).await?;
        drop(hold);
        let taken = taken.ok_or_else(too_late)?;
        // A host may have begun one meanwhile. What was taken goes, as the set is void by this.
        self.check_sanitized(&names)?;
        self.sets.hear(id);
        let shown = intent.volumes.iter().zip(taken);
        Ok(shown.map(|(volume, info)| self.shown_snapshot(*volume, info)).collect())
    }

    /// Has the store of the group decide about a set.
    pub(super) async fn decide_set(
        &self,
        id: &SetId,
        verdict: Verdict,
    ) -> Result<Verdict, RequestError> {
        let intent = self.undecided(id)?;
        self.check_seat_in(&intent)?;
        let record = group::sets::record(&intent, verdict);
        Ok(self.membership.decide_set(&intent.group, id, &record).await?)
    }

    /// What is stored of a set about which nothing is done yet.
    pub(super) fn undecided(&self, id: &SetId) -> Result<SetIntent, RequestError> {
        let intent = self.settings.set(id);
        let is_it = |it: &SetIntent| it.stage == SetStage::Undecided;
        intent.filter(is_it).ok_or_else(|| SetError::NoSuch.into())
    }

    /// Refuses to do something as who this member is not any more.
    pub(super) fn check_seat_in(&self, intent: &SetIntent) -> Result<(), RequestError> {
        let is_it = self.membership.group_id()?.as_ref() == Some(&intent.group)
            && self.membership.me()? == intent.me;
        if is_it { Ok(()) } else { Err(SetError::OtherSeat.into()) }
    }

    /// The names of the volumes of a set, which stay as long as it is undecided.
    fn names_in(&self, intent: &SetIntent) -> Result<Vec<String>, RequestError> {
        let all = self.volumes();
        let named = |id: &u32| {
            let found = all.iter().find(|volume| volume.id == *id);
            found.map(|volume| volume.name.clone()).ok_or_else(|| SetError::NoSuch.into())
        };
        intent.volumes.iter().map(named).collect()
    }
}

//! What an operator has done where records are lost: a home has a volume made anew of what its other slices have stored, or
//! goes on although they have seen a later one, and a record that is damaged is thrown away.

use array::ArrayError;
use array::api::VolumeState;
use group::membership::{SliceId, SpreadId};
use group::ownership::MemberId;
use group::spread::{
    NotRebuilt, Seat, SliceRecord, SpreadRecord, SpreadStage, brought_forward, hidden_name, rebuilt,
};

use super::super::{Member, RequestError, SpreadRefusal};
use crate::mutants::{self, Mutant};
use crate::reply::Answer;

impl Member {
    /// What is stored of the slice here that has the volume of this slice, for the home of that.
    pub(super) fn tell_home(
        &self,
        from: MemberId,
        slice: &SliceId,
    ) -> Result<Answer, RequestError> {
        let who = self.serving.spread().who();
        let who = who.as_ref().map(|(group, me)| (group, *me));
        let is_it = |record: &SliceRecord| {
            let is_of_volume = record.dealt.seats.iter().any(|seat| seat.slice == *slice);
            is_of_volume && record.home == from && record.is_of(who)
        };
        match self.settings.slices().into_iter().find(is_it) {
            Some(record) => Ok(Answer::SliceRecord(Some(Box::new(record)))),
            None => {
                // What does not read may be of it.
                self.check_spreads_known()?;
                Ok(Answer::SliceRecord(None))
            }
        }
    }

    /// Makes a volume anew of what its other slices have stored. Hosts are served when somebody has looked at it.
    pub(super) async fn rebuild_spread(
        &self,
        records: &[SliceRecord],
    ) -> Result<Answer, RequestError> {
        let name = self.remade(records)?.name;
        // Before any turn, as it may wait for the group's store; kept until the name is stored.
        let _claim = self.claim(vec![name.clone()]).await?;
        let _changing = self.spreads.changing.take().await;
        let record = self.remade(records)?;
        let _turn = self.turn.take().await;
        if self.array.volume(&name).is_ok() {
            return Err(ArrayError::VolumeExists(name).into());
        }
        self.check_free(&name, None)?;
        if !mutants::is(Mutant::RebuildOnline) {
            self.array.set_volume_online(&hidden_name(&record.id), false).await?;
        }
        let stored = self.settings.rebuild_spread(&record).await;
        // What was thought of it before it was lost is over; what is stored counts, also where that is not known.
        self.spreads.homes.borrow_mut().remove(&record.id);
        self.membership.look_at_names();
        self.serving.settle().await;
        stored?;
        tracing::info!("the spread volume '{name}' was made of its slices again");
        self.shown_spread(record)
    }

    /// Has a home go on that its slices take for an older one. Hosts are served when somebody has looked at it.
    pub(super) async fn bring_forward(
        &self,
        id: &SpreadId,
        records: &[SliceRecord],
        is_right: bool,
    ) -> Result<Answer, RequestError> {
        let _changing = self.spreads.changing.take().await;
        let record = self.record_of(id)?;
        if !self.serving.spread().is_of(&record) {
            return Err(SpreadRefusal::OtherSeat.into());
        }
        if !matches!(record.stage, SpreadStage::Whole | SpreadStage::Growing { .. }) {
            return Err(SpreadRefusal::Stored("it is being made or deleted".to_owned()).into());
        }
        let objectors = self.serving.spread().objectors(id);
        Self::check_told((&record, &objectors), records)?;
        let next = match brought_forward(&record, records, is_right) {
            // It was brought so far already, and has not heard since that it is so.
            Err(NotRebuilt::NotOlder) if is_right && !objectors.is_empty() => record.clone(),
            next => next.map_err(SpreadRefusal::from)?,
        };
        let _turn = self.turn.take().await;
        if !mutants::is(Mutant::ForwardOnline) {
            self.array.set_volume_online(&hidden_name(id), false).await?;
        }
        if next != record {
            self.settings.bring_forward(&record, &next).await?;
        }
        self.serving.spread().is_right(id);
        self.serving.settle().await;
        tracing::info!("this home of the spread volume '{}' is the latest from now on", next.name);
        self.shown_spread(next)
    }

    /// Refuses to go on without those that have said that there is a later home.
    fn check_told(
        (record, objectors): (&SpreadRecord, &[SliceId]),
        records: &[SliceRecord],
    ) -> Result<(), SpreadRefusal> {
        let is_missing = |seat: &&Seat| {
            objectors.contains(&seat.slice) && !records.iter().any(|told| told.id == seat.slice)
        };
        let missing = record.seats.iter().filter(is_missing).map(|seat| seat.member);
        let missing: Vec<MemberId> = missing.collect();
        if missing.is_empty() || mutants::is(Mutant::ForwardUntold) {
            return Ok(());
        }
        Err(NotRebuilt::Missing(missing).into())
    }

    /// What these records make, if this is the home, with the array that it had, and has lost what it had stored.
    fn remade(&self, records: &[SliceRecord]) -> Result<SpreadRecord, RequestError> {
        let first = records.first().ok_or(SpreadRefusal::NotRebuilt(NotRebuilt::Nothing))?;
        let has = self.array.info().id;
        if first.home_array != has && !mutants::is(Mutant::RebuildOtherArray) {
            let was = first.home_array.clone();
            return Err(SpreadRefusal::OtherArray { was, has }.into());
        }
        if let Some(why) = self.settings.forbids_rebuild(&first.spread) {
            return Err(SpreadRefusal::Stored(why).into());
        }
        // One that is being deleted, or whose disks are missing, is not there.
        let own = self.array.volume(&hidden_name(&first.spread)).ok();
        let own = own.filter(|own| !matches!(own.state, VolumeState::Deleted | VolumeState::Lost));
        let record =
            rebuilt(records, own.map(|own| own.size_bytes)).map_err(SpreadRefusal::from)?;
        match self.serving.spread().is_of(&record) {
            true => Ok(record),
            false => Err(SpreadRefusal::OtherSeat.into()),
        }
    }

    /// Throws away what is stored under this number and is damaged. What the array has of it stays.
    pub(super) async fn discard_damaged(&self, id: &str) -> Result<(), RequestError> {
        let none = || RequestError::from(SpreadRefusal::NoSuchSlice);
        let damaged = self.settings.damaged_spreads().into_iter().find(|record| record.id == id);
        if damaged.ok_or_else(none)?.is_home {
            let _changing = self.spreads.changing.take().await;
            self.settings.discard_spread(&id.parse().map_err(|_| none())?).await?;
        } else {
            let slice = id.parse().map_err(|_| none())?;
            let _slicing = self.slice_turn(&slice).await?;
            self.settings.discard_slice(&slice).await?;
        }
        // Nothing is stored any more of what is there.
        self.spreads.told_strays.set(false);
        self.tell_of_strays();
        Ok(())
    }
}

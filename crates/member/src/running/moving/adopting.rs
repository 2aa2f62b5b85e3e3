//! The destination of a move, from where the volume is prepared: it is served here if the group's store says that it is
//! this member's, and thrown away if it never can.
//!
//! ```text
//!  prepared ─ the claim is this member's ─▶ has its name ─▶ online ─▶ no record: adopted
//!      │  ╰─ it is not, and the source may hand it over yet ─▶ prepared
//!      ╰──── it is not, and never can be ─▶ no record ─▶ deleted, purged
//! ```
//!
//! Each arrow may be cut off, and is done again: by who asks next, or by the next start.

use std::sync::Arc;

use array::api::{VolumeInfo, VolumeState};
use group::handover::{DestinationStep, SourceSays, decide_at_destination};
use group::membership::MoveId;
use group::settings::{Arrival, State};

use super::super::{Member, MoveError, RequestError};
use super::arrival::hidden_name;
use crate::move_request::ArrivalStep;
use crate::mutants::{self, Mutant};
use crate::settings::hidden::is_hidden_name;

impl Member {
    /// Looks whose a volume is that has arrived, and does what follows. `says` is what the source has answered *before*
    /// this: the store is read behind it.
    pub(super) async fn adopt(
        &self,
        id: &MoveId,
        says: Option<SourceSays>,
    ) -> Result<ArrivalStep, RequestError> {
        let Some(arrival) = self.arrival(id)? else { return self.without_record(id) };
        let done = self.do_step(&arrival, says).await;
        self.moving.arriving().note_fault(id, done.as_ref().err().map(ToString::to_string));
        done
    }

    async fn do_step(
        &self,
        arrival: &Arrival,
        says: Option<SourceSays>,
    ) -> Result<ArrivalStep, RequestError> {
        match self.step_of(arrival, says).await? {
            DestinationStep::Adopt => self.take_over(arrival).await,
            DestinationStep::AskSource => Ok(ArrivalStep::AskSource),
            DestinationStep::Wait => Ok(ArrivalStep::Waiting),
            DestinationStep::Discard => self.discard_prepared(arrival).await,
        }
    }

    /// The record of an arrival. While it is not known whether there is one, that is an error: the source deletes what
    /// it has when there is none.
    pub(super) fn arrival(&self, id: &MoveId) -> Result<Option<Arrival>, RequestError> {
        match self.settings.state()?.arrivals.get(id) {
            None => Ok(None),
            Some(Ok(arrival)) => Ok(Some(arrival.clone())),
            Some(Err(error)) => {
                let (id, why) = (id.to_string(), error.to_string());
                Err(RequestError::Move(MoveError::ArrivalUnreadable { id, why }))
            }
        }
    }

    /// What is said where there is no record: as long as there is a copy, nobody has adopted it.
    fn without_record(&self, id: &MoveId) -> Result<ArrivalStep, RequestError> {
        let is_there = self.array.volume(&hidden_name(id)).is_ok();
        Ok(if is_there { ArrivalStep::Waiting } else { ArrivalStep::Unknown })
    }

    async fn step_of(
        &self,
        arrival: &Arrival,
        says: Option<SourceSays>,
    ) -> Result<DestinationStep, RequestError> {
        if mutants::is(Mutant::AdoptUncommitted) {
            return Ok(DestinationStep::Adopt);
        }
        if let Some(why) = self.why_undecided_arrival(arrival).await? {
            return Err(MoveError::NotDecided { name: arrival.name.clone(), why }.into());
        }
        let holder = self.membership.holder_of(&arrival.name).await?;
        Ok(decide_at_destination(holder.as_ref(), says, &arrival.id))
    }

    /// Why only an operator ends this arrival; `None` where the group does. A source that was removed gives the volume
    /// away no more, and may have been gone with its disks: what has come can be all that there is.
    pub(super) async fn why_undecided_arrival(
        &self,
        arrival: &Arrival,
    ) -> Result<Option<String>, RequestError> {
        let foreign = self.of_another_group(&arrival.group)?;
        // Asked before the claim is read: members alone give names away, and numbers of members are not given twice.
        if foreign.is_some() || self.membership.is_member(arrival.from).await? {
            return Ok(foreign);
        }
        let holder = self.membership.holder_of(&arrival.name).await?;
        let is_given = holder.is_some_and(|holder| holder.moved.as_ref() == Some(&arrival.id));
        Ok((!is_given).then(|| {
            "the member that it comes from was removed from the group before it gave the volume away".to_owned()
        }))
    }

    /// Has the volume served under its name. Whoever calls this has read that it is this member's.
    pub(super) async fn take_over(&self, arrival: &Arrival) -> Result<ArrivalStep, RequestError> {
        let _turn = self.turn.take().await;
        if self.arrival(&arrival.id)?.is_none() {
            // Somebody else has done it meanwhile.
            return Ok(ArrivalStep::Adopted);
        }
        let taken = self.give_name(arrival).await;
        self.serving.apply_access().await;
        self.serving.settle().await;
        taken?;
        self.membership.look_at_names();
        self.moving.arriving().end(&arrival.id);
        Ok(ArrivalStep::Adopted)
    }

    async fn give_name(&self, arrival: &Arrival) -> Result<(), RequestError> {
        let Some(volume) = self.arrived_volume(arrival) else {
            // Never that it is unknown: the source would delete what it has.
            return Err(RequestError::Move(MoveError::ArrivalMissing(arrival.name.clone())));
        };
        if volume.name != arrival.name {
            self.array.rename_volume(&volume.name, &arrival.name).await?;
        }
        if arrival.online {
            self.array.set_volume_online(&arrival.name, true).await?;
        }
        Ok(self.settings.forget_arrival(&arrival.id).await?)
    }

    fn arrived_volume(&self, arrival: &Arrival) -> Option<VolumeInfo> {
        let mut volumes = self.array.volumes().into_iter();
        volumes.find(|volume| volume.id == arrival.volume)
    }

    /// Throws a prepared volume away. Whoever calls this has found that its source keeps it for good.
    pub(super) async fn discard_prepared(
        &self,
        arrival: &Arrival,
    ) -> Result<ArrivalStep, RequestError> {
        let _turn = self.turn.take().await;
        let serial = self.settings.all_adopted().remove(&arrival.volume).map(|it| it.serial);
        self.hide_again(arrival).await?;
        // Cut off behind this, the next start finds a hidden volume without a record.
        self.settings.forget_arrival(&arrival.id).await?;
        self.delete_hidden(&hidden_name(&arrival.id)).await?;
        if let Some(serial) = serial {
            self.serving.targets().keep_reservations(&serial, None);
        }
        self.moving.arriving().end(&arrival.id);
        Ok(ArrivalStep::Discarded)
    }

    /// Takes a volume back that has its name already, as its adoption was cut off: no host has it before its record is
    /// gone, and none is to have it behind that.
    async fn hide_again(&self, arrival: &Arrival) -> Result<(), RequestError> {
        let named = self.arrived_volume(arrival).filter(|volume| !is_hidden_name(&volume.name));
        if let Some(volume) = named {
            self.array.set_volume_online(&volume.name, false).await?;
            self.array.rename_volume(&volume.name, &hidden_name(&arrival.id)).await?;
        }
        Ok(())
    }

    /// Deletes a hidden volume and what is set for it, if it is there. For who has the turn.
    pub(super) async fn delete_hidden(&self, hidden: &str) -> Result<(), RequestError> {
        debug_assert!(is_hidden_name(hidden), "nothing else is deleted unasked");
        let Ok(volume) = self.array.volume(hidden) else { return Ok(()) };
        if volume.state != VolumeState::Deleted {
            self.array.delete_volume(hidden).await?;
        }
        self.array.purge_volume(hidden).await?;
        self.settings.forget_purged().await;
        self.forget_units().await;
        Ok(())
    }

    /// Deletes hidden volumes that nothing is stored of and nobody sends pieces for: their moves were cut off. Not
    /// while it is not known what is stored. For who has the turn.
    pub(in super::super) async fn discard_strays(&self) {
        let Ok(state) = self.settings.state() else { return };
        for hidden in self.strays(&state) {
            match self.delete_hidden(&hidden).await {
                Ok(()) => tracing::info!("{hidden} is deleted: its move was cut off"),
                Err(error) => tracing::warn!("{hidden} is kept for now: {error}"),
            }
        }
    }

    /// The same for who has no turn.
    pub(crate) async fn discard_cut_off(&self) {
        let _turn = self.turn.take().await;
        self.discard_strays().await;
    }

    fn strays(&self, state: &Arc<State>) -> Vec<String> {
        let names = self.array.volumes().into_iter().map(|volume| volume.name);
        // Records that do not read count: they are of a later version.
        let is_stored = |name: &str| state.arrivals.keys().any(|id| hidden_name(id) == name);
        let is_stray = |name: &String| {
            let arrives = self.moving.arriving().has_hidden(name);
            is_hidden_name(name) && !is_stored(name) && !arrives
        };
        names.filter(is_stray).collect()
    }
}

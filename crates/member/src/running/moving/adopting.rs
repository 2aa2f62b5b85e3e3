//! The destination of a move, from where the volume is prepared: it is served here if the group's store says that it is
//! this member's, and thrown away if it never can.
//!
//! ```text
//!  prepared ─ the claim is given ─▶ it says: adopted ─▶ has its name ─▶ online ─▶ no record: adopted
//!      │  │                         ╰─ somebody has taken it since ─▶ prepared
//!      │  ╰─ it is not, and the source may hand it over yet ─▶ prepared
//!      ╰──── it is not, and never can be ─▶ no record ─▶ deleted, purged
//! ```
//!
//! Each arrow may be cut off, and is done again: by who asks next, or by the next start.
//!
//! What was read of the claim is old when something is done about it: an operator may settle at the source meanwhile
//! that the volume stays there, where the member that it was given to is none any more, as it is another one now. So
//! the claim is written anew, if it is what it was, and the volume is served behind that alone.

use std::sync::Arc;

use array::api::{VolumeInfo, VolumeState};
use group::handover::{
    DestinationStep, Heard, SourceSays, Stranded, Told, decide_at_destination, why_stranded,
};
use group::membership::{MoveId, folded};
use group::ownership::MemberId;
use group::settings::{Adopted, Arrival, State};

use super::super::{Member, MoveError, RequestError};
use super::arrival::hidden_name;
use super::handing::is_same;
use super::undecided::Seat;
use crate::move_request::ArrivalStep;
use crate::mutants::{self, Mutant};
use crate::settings::hidden::is_hidden_name;

impl Member {
    /// Looks whose a volume is that has arrived, and does what follows. `says` is what the source has answered *before*
    /// this: the store is read behind it. A source that asks says by which serial number hosts know the volume.
    pub(super) async fn adopt(
        &self,
        id: &MoveId,
        says: Option<SourceSays>,
        serial: Option<&str>,
    ) -> Result<ArrivalStep, RequestError> {
        let Some(arrival) = self.arrival(id)? else { return self.without_record(id, serial) };
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
            DestinationStep::Adopt => self.adopt_given(arrival).await,
            DestinationStep::AskSource => Ok(ArrivalStep::AskSource),
            DestinationStep::Wait => Ok(ArrivalStep::Waiting),
            DestinationStep::Discard => self.discard_prepared(arrival).await,
        }
    }

    /// The record of an arrival. While it is not known whether there is one, that is an error: older
    /// sources delete what they have when there is none.
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

    /// What is prepared here, each with the serial number by which its source is asked for it, as far as that is known.
    pub(super) fn arrivals_that_wait(&self) -> Vec<Arrival> {
        let mut known = self.settings.all_adopted();
        let mut all = self.settings.arrivals();
        for arrival in &mut all {
            arrival.serial = serial_of(arrival, known.remove(&arrival.volume)).unwrap_or_default();
        }
        all
    }

    /// What is said where there is no record: as long as there is a copy, nobody has adopted it. Otherwise the source deletes
    /// what it has where the volume of this serial number is here, and has its data.
    fn without_record(
        &self,
        id: &MoveId,
        serial: Option<&str>,
    ) -> Result<ArrivalStep, RequestError> {
        Ok(match self.array.volume(&hidden_name(id)) {
            Ok(_) => ArrivalStep::Waiting,
            Err(_) if serial.is_some_and(|serial| self.has_adopted(serial)) => ArrivalStep::Adopted,
            Err(_) => ArrivalStep::Unknown,
        })
    }

    pub(super) async fn step_of(
        &self,
        arrival: &Arrival,
        says: Option<SourceSays>,
    ) -> Result<DestinationStep, RequestError> {
        if mutants::is(Mutant::AdoptUncommitted) {
            return Ok(DestinationStep::Adopt);
        }
        if let Some(why) = self.why_undecided_arrival(arrival).await?
            && !self.may_be_given_up(arrival, says).await?
        {
            return Err(MoveError::NotDecided { name: arrival.name.clone(), why }.into());
        }
        let says = match (says, self.heard_of_source(arrival)) {
            (Some(SourceSays::Unknown), Heard::Of(Told { has_it: true, has_part: false }))
                if mutants::is(Mutant::BelieveList) =>
            {
                Some(SourceSays::GivenUp)
            }
            _ => says,
        };
        let holder = self.membership.holder_of(&arrival.name).await?;
        Ok(decide_at_destination(holder.as_ref(), says, &arrival.id))
    }

    /// Whether the source may say that it has given the move up, or has said so: then it has served the volume again,
    /// and what has come is of before, whatever has become of that since.
    async fn may_be_given_up(
        &self,
        arrival: &Arrival,
        says: Option<SourceSays>,
    ) -> Result<bool, RequestError> {
        if !matches!(says, None | Some(SourceSays::GivenUp)) {
            return Ok(false);
        }
        let is_own = self.of_another_group(&arrival.group)?.is_none();
        if !is_own || !self.membership.is_member(arrival.from).await? {
            return Ok(false);
        }
        let holder = self.membership.holder_of(&arrival.name).await?;
        Ok(!holder.is_some_and(|holder| holder.is_given_by(&arrival.id)))
    }

    /// By which hosts know the volume of an arrival: its serial number and the names of its targets; `None` where that is not
    /// stored here any more.
    fn known_by(&self, arrival: &Arrival) -> Option<(String, Vec<String>)> {
        let known = self.settings.all_adopted().remove(&arrival.volume);
        let name = folded(&arrival.name);
        let iqns = known.iter().map(|known| format!("{}:{name}", known.prefix)).collect();
        serial_of(arrival, known).map(|serial| (serial, iqns))
    }

    /// Another member that has told that it has the volume of an arrival.
    pub(super) fn who_has_arrived(&self, arrival: &Arrival) -> Option<MemberId> {
        let (serial, iqns) = self.known_by(arrival)?;
        self.who_has(&serial, &iqns)
    }

    /// What the source of an arrival has told the others of that volume.
    fn heard_of_source(&self, arrival: &Arrival) -> Heard {
        let Some(inventory) = self.told_by(arrival.from) else { return Heard::Nothing };
        let name = folded(&arrival.name);
        let has_part = inventory.moves.iter().any(|part| folded(&part.volume) == name);
        let Some((serial, iqns)) = self.known_by(arrival) else {
            return Heard::Unnamed { has_part };
        };
        let has_it = inventory.volumes.iter().any(|it| is_same(it, &serial, &iqns));
        Heard::Of(Told { has_it, has_part })
    }

    /// Why only an operator ends this arrival; `None` where the group does. A source that was removed, or that has lost
    /// all that it had, gives the volume away no more: what has come can be all that there is.
    pub(super) async fn why_undecided_arrival(
        &self,
        arrival: &Arrival,
    ) -> Result<Option<String>, RequestError> {
        let foreign = self.of_another_group(&arrival.group)?;
        if foreign.is_some() {
            return Ok(foreign);
        }
        // Asked before the claim is read: members alone give names away, and numbers of members are not given twice.
        let is_source_there = self.membership.is_member(arrival.from).await?;
        let heard = self.heard_of_source(arrival);
        let holder = self.membership.holder_of(&arrival.name).await?;
        if holder.as_ref().is_some_and(|holder| holder.is_given_by(&arrival.id)) {
            // The group has done its part, and the source deletes nothing as long as this is not served.
            let is_there = self.arrived_volume(arrival).is_some();
            return Ok((!is_there).then(|| {
                "it was given to this member, and what had come of it is not on its array: connect all disks that the \
                 array had, or discard this part, and keep what the other member has"
                    .to_owned()
            }));
        }
        let stranded = why_stranded(arrival, holder.as_ref(), (is_source_there, heard));
        let why = stranded.map(|stranded| match stranded {
            Stranded::SourceRemoved => {
                "the member that it comes from was removed from the group before it gave the volume away"
                    .to_owned()
            }
            Stranded::SourceWithout => {
                "the member that it comes from has it no more, and nothing stored of its move: what has come can be \
                 all that there is"
                    .to_owned()
            }
            Stranded::NameElsewhere => self.whose_now(holder.as_ref()),
            Stranded::Unnamed => {
                "what hosts know it by is not stored here any more, so that the member that it comes from cannot be asked \
                 for it: look there, connect all disks that the array here had, or discard this part if it is there"
                    .to_owned()
            }
        });
        Ok(why.map(|why| self.or_who_has_it(why, self.who_has_arrived(arrival))))
    }

    /// Has the volume served that the group has given to this member, if it still is when the claim is written anew.
    pub(super) async fn adopt_given(&self, arrival: &Arrival) -> Result<ArrivalStep, RequestError> {
        if mutants::is(Mutant::AdoptUncommitted) || mutants::is(Mutant::AdoptUnclaimed) {
            return self.take_over(arrival, self.seat()?.as_ref()).await;
        }
        let Arrival { group, name, id, .. } = arrival;
        match self.membership.adopt_name(group, name, id).await? {
            Some(me) => self.take_over(arrival, Some(&(group.clone(), me))).await,
            // Whoever asks next finds whose it is now.
            None => Ok(ArrivalStep::Waiting),
        }
    }

    /// Has the volume served under its name. Whoever calls this has just had the group's store write that it is this
    /// member's, which had this seat then, or was told so by an operator where there is no group.
    pub(super) async fn take_over(
        &self,
        arrival: &Arrival,
        seat: Option<&Seat>,
    ) -> Result<ArrivalStep, RequestError> {
        let _turn = self.turn.take().await;
        if self.arrival(&arrival.id)?.is_none() {
            // Somebody else has done it meanwhile, or has thrown it away.
            let known = self.settings.all_adopted().remove(&arrival.volume);
            return self.without_record(&arrival.id, serial_of(arrival, known).as_deref());
        }
        self.check_seat(&arrival.name, seat)?;
        let taken = self.give_name(arrival).await;
        self.serving.apply_access().await;
        self.serving.settle().await;
        // Whether it is done or not: the name has passed to this member.
        self.membership.look_at_names();
        taken?;
        self.moving.arriving().end(&arrival.id);
        Ok(ArrivalStep::Adopted)
    }

    async fn give_name(&self, arrival: &Arrival) -> Result<(), RequestError> {
        let Some(volume) = self.arrived_volume(arrival) else {
            // Never that it is unknown: older sources would delete what they have.
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

    /// The volume that has come. One that somebody has deleted by hand is not to be served, nor one whose data are not
    /// there: the source would delete all that there is.
    pub(super) fn arrived_volume(&self, arrival: &Arrival) -> Option<VolumeInfo> {
        let is_whole =
            |it: &VolumeInfo| it.state != VolumeState::Lost || mutants::is(Mutant::AdoptLost);
        self.volume_to_hide(arrival).filter(is_whole)
    }

    /// The same, with its data or without.
    fn volume_to_hide(&self, arrival: &Arrival) -> Option<VolumeInfo> {
        let mut volumes = self.array.volumes().into_iter();
        volumes.find(|it| it.id == arrival.volume && it.state != VolumeState::Deleted)
    }

    /// Throws a prepared volume away. Whoever calls this has found that its source keeps it for good.
    pub(super) async fn discard_prepared(
        &self,
        arrival: &Arrival,
    ) -> Result<ArrivalStep, RequestError> {
        let _turn = self.turn.take().await;
        // Kept by an operator meanwhile it is served, and is nobody's to delete.
        if self.arrival(&arrival.id)?.is_none() && !mutants::is(Mutant::DiscardAdopted) {
            return self.without_record(&arrival.id, None);
        }
        self.throw_away(arrival).await
    }

    /// The same by word of an operator. What the group has given is given back before: a volume of that name that is
    /// made here afterwards is not the one that has come, and its claim must not say so.
    pub(super) async fn discard_settled(
        &self,
        arrival: &Arrival,
    ) -> Result<ArrivalStep, RequestError> {
        let _turn = self.turn.take().await;
        if self.arrival(&arrival.id)?.is_none() {
            return self.without_record(&arrival.id, None);
        }
        let is_own = self.of_another_group(&arrival.group)?.is_none();
        if is_own && !mutants::is(Mutant::KeepGivenName) {
            let Arrival { group, name, id, .. } = arrival;
            self.membership.give_back_given(group, name, id).await?;
        }
        self.throw_away(arrival).await
    }

    /// For who has the turn, and has seen that there is a record.
    async fn throw_away(&self, arrival: &Arrival) -> Result<ArrivalStep, RequestError> {
        let serial = serial_of(arrival, self.settings.all_adopted().remove(&arrival.volume));
        self.hide_again(arrival).await?;
        // Cut off behind this, the next start finds a hidden volume without a record.
        self.settings.forget_arrival(&arrival.id).await?;
        self.delete_hidden(&hidden_name(&arrival.id)).await?;
        if let Some(serial) = serial {
            self.serving.targets().keep_reservations(&serial, None);
        }
        self.moving.arriving().end(&arrival.id);
        // If the group has given it to this member, it is to give the name back.
        self.membership.look_at_names();
        Ok(ArrivalStep::Discarded)
    }

    /// Takes a volume back that has its name already, as its adoption was cut off: no host has it before its record is
    /// gone, and none is to have it behind that.
    async fn hide_again(&self, arrival: &Arrival) -> Result<(), RequestError> {
        let named = self.volume_to_hide(arrival).filter(|volume| !is_hidden_name(&volume.name));
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

/// The serial number of a volume that has come, also where that is gone, and what is known of it here; `None` where it is
/// stored nowhere.
fn serial_of(arrival: &Arrival, known: Option<Adopted>) -> Option<String> {
    match arrival.serial.is_empty() {
        false => Some(arrival.serial.clone()),
        true => known.map(|known| known.serial),
    }
}

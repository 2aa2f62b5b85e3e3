//! The end of a move at its source: the name is given away, or the volume stays, and what is left of it here goes.
//!
//! What is decided follows [`group::handover`], from what the group's store says of the name.

use std::sync::Arc;
use std::time::Duration;

use array::api::VolumeState;
use group::handover::{SourceStep, decide_at_source};
use group::membership::{HandOver, Inventory, ListedMove, ListedVolume, MoveId, folded};
use group::ownership::MemberId;
use group::settings::{Departure, SettingsError, Stage};

use super::super::{Member, MoveError, RequestError};
use super::copying::is_of_move;
use super::source::Step;
use crate::move_request::ArrivalStep;
use crate::mutants::{self, Mutant};
use crate::settings::KeptError;

/// Numbers of moves that were given up which are remembered: the destination asks soon, or hears that nothing is known.
pub(super) const GIVEN_UP_MAX: usize = 64;

/// How long the end of a move waits for the others to hear where the volume is, and how often it looks.
const HEARD_TIME: Duration = Duration::from_secs(10);
const HEARD_PAUSE: Duration = Duration::from_millis(250);

impl Member {
    /// Has the group give the name of the volume to the destination, which is prepared. Says whether it has.
    pub(super) async fn commit_move(&self, id: &MoveId) -> Result<bool, RequestError> {
        let Ok(source) = self.moving.source(id) else {
            // The answer to one that asked before was lost.
            let is_gone = self.departure_of(id)?.is_some_and(|it| it.stage == Stage::Gone);
            return is_gone
                .then_some(true)
                .ok_or_else(|| RequestError::Move(MoveError::NoSuch(id.to_string())));
        };
        let _its_turn = source.turn.take().await;
        self.moving.source(id)?;
        source.check_step(&[Step::Sealed, Step::Asked])?;
        let departure = self.departure_of(id)?;
        let departure =
            departure.ok_or_else(|| RequestError::Move(MoveError::NoSuch(id.to_string())))?;
        // It may have left the group, and be another member of it now.
        let is_foreign = self.of_another_group(&departure.group)?.is_some();
        if is_foreign || self.membership.me()? != departure.from {
            return self.decide(&departure).await;
        }
        // From here on what the store was asked for may be done late.
        source.reached(Step::Asked);
        match self.membership.hand_over((&departure.group, source.to), &source.name, id).await {
            Ok(HandOver::Done) => self.handed_over(&departure).await.map(|()| true),
            Ok(_) => self.decide(&departure).await,
            Err(error) => {
                let holder = self.membership.holder_of(&source.name).await;
                match holder.map(|holder| decide_at_source(&departure, holder.as_ref())) {
                    Ok(SourceStep::Gone) => self.handed_over(&departure).await.map(|()| true),
                    _ => Err(self.unsure(&departure, error.into())),
                }
            }
        }
    }

    /// Has the volume stay. Before the store was asked to give it away, nobody has to be asked.
    pub(super) async fn give_up_move(&self, id: &MoveId) -> Result<(), RequestError> {
        let Ok(source) = self.moving.source(id) else { return self.decide_leaving(id).await };
        // Kept until it is decided: the store must not be asked for it again behind the fence.
        let _its_turn = source.turn.take().await;
        if self.moving.source(id).is_err() || source.step() == Step::Asked {
            return self.decide_leaving(id).await;
        }
        if source.has_departure() {
            self.settings.forget_departure(source.volume).await?;
        }
        self.stays(id, source.volume).await;
        Ok(())
    }

    /// Decides a departure of which it may have been asked that the store gives the name away.
    async fn decide_leaving(&self, id: &MoveId) -> Result<(), RequestError> {
        match self.departure_of(id)? {
            Some(departure) if departure.stage == Stage::Leaving => {
                self.decide(&departure).await.map(drop)
            }
            _ => Ok(()),
        }
    }

    /// Departures that nobody drives in this life, and those of volumes that were handed over, each with the serial number
    /// by which its destination is asked for it.
    pub(super) fn departures_that_wait(&self) -> Vec<Departure> {
        let mut all = self.settings.departures();
        all.retain(|it| it.stage == Stage::Gone || self.moving.source(&it.id).is_err());
        // Its number says nothing of a member of this group.
        all.retain(|it| matches!(self.of_another_group(&it.group), Ok(None)));
        for departure in all.iter_mut().filter(|it| it.serial.is_empty()) {
            // Of an earlier version.
            departure.serial = self.serial_of(departure);
        }
        all
    }

    /// The destination has said this of the volume. What is left of it here goes when it has said that it has it, and the
    /// group knows that too: the destination lists it, or its name has passed on since. What it has told the others counts
    /// for nothing by itself: it may have lost since what it lists there.
    pub(super) async fn move_is_done(
        &self,
        id: &MoveId,
        found: ArrivalStep,
    ) -> Result<(), RequestError> {
        let Some(departure) = self.departure_of(id)? else { return Ok(()) };
        self.check_group(&departure.name, &departure.group)?;
        if departure.stage != Stage::Gone {
            return Err(RequestError::Move(MoveError::OutOfStep {
                name: departure.name,
                step: "not handed over",
            }));
        }
        if !self.array.volumes().iter().any(|volume| volume.id == departure.volume) {
            // It was cut off behind the deletion.
            return self.let_go(&departure).await;
        }
        let may_go = match found {
            ArrivalStep::Adopted => true,
            ArrivalStep::Unknown if mutants::is(Mutant::PurgeListed) => true,
            ArrivalStep::Unknown => self.has_passed_on(&departure).await?,
            ArrivalStep::AskSource | ArrivalStep::Waiting | ArrivalStep::Discarded => false,
        };
        if !may_go {
            // It is asked again.
            return Ok(());
        }
        let heard = async {
            // Hosts that ask here are to be sent there, and not to hear that there is no such target.
            let is_known = |iqn: &String| self.serving.is_elsewhere(&iqn.to_ascii_lowercase());
            while !self.lists_it(&departure) || !departure.iqns.iter().all(is_known) {
                ring::sleep(HEARD_PAUSE).await;
            }
        };
        let is_heard = ring::timeout(HEARD_TIME, heard).await.is_some();
        if !is_heard && !self.lists_it(&departure) && !self.is_proved(&departure).await? {
            return Ok(());
        }
        self.let_go(&departure).await
    }

    /// Whether the group's store shows that the destination has adopted the volume, and that its name has passed on since.
    /// Who has lost all that it had stored says nothing of it either, and may have another volume of that name by now,
    /// and have moved that: what the destination has written into the claim alone is proof.
    async fn has_passed_on(&self, departure: &Departure) -> Result<bool, RequestError> {
        let holder = self.membership.holder_of(&departure.name).await?;
        let Some(holder) = holder.filter(|holder| !holder.is_given_by(&departure.id)) else {
            return Ok(false);
        };
        let is_believed = mutants::is(Mutant::BlindProof) && holder.moved.is_some();
        Ok(holder.was_adopted_by(&departure.id) || is_believed)
    }

    /// Whether the group shows of a volume that its destination has, and does not list, that it has adopted it: it is in its
    /// recycle bin, or has moved on.
    async fn is_proved(&self, departure: &Departure) -> Result<bool, RequestError> {
        if self.has_passed_on(departure).await? {
            return Ok(true);
        }
        let Some(holder) = self.membership.holder_of(&departure.name).await? else {
            return Ok(false);
        };
        // It may have another number than the name was given to. What it has lost and thrown away it had no copy of then:
        // nobody has said that what is here may go.
        let is_binned =
            || self.bins_it(departure, holder.member) && !self.bins_lost(departure, holder.member);
        let is_there = || is_binned() || self.is_listed_by(holder.member, departure);
        Ok(holder.was_adopted_by(&departure.id) && is_there())
    }

    /// Deletes for good what is left here of a volume that is another member's.
    pub(super) async fn let_go(&self, departure: &Departure) -> Result<(), RequestError> {
        let _turn = self.turn.take().await;
        self.check_stands(departure)?;
        self.purge_departed(departure).await?;
        self.settings.forget_departure(departure.volume).await?;
        self.settings.forget_purged().await;
        self.forget_units().await;
        self.serving.settle().await;
        // One that was taken to keep the volume is to be had for the other copy.
        self.membership.look_at_names();
        Ok(())
    }

    /// Whether the destination has told the others of the volume, with its data, and that it is not on its way there.
    pub(super) fn lists_it(&self, departure: &Departure) -> bool {
        self.is_listed_by(departure.to, departure)
    }

    /// The same of any member.
    fn is_listed_by(&self, member: MemberId, departure: &Departure) -> bool {
        let serial = self.serial_of(departure);
        let is_it = |other: &ListedVolume| is_same(other, &serial, &departure.iqns);
        let is_part = |other: &ListedMove| folded(&other.volume) == folded(&departure.name);
        self.told_by(member).is_some_and(|inventory| {
            inventory.volumes.iter().any(is_it) && !inventory.moves.iter().any(is_part)
        })
    }

    /// Another member that has told that it has a volume, with its data: hosts have it there, or it has no part in a move
    /// of it. What a move has left there, or what has not come yet, is another copy, of which an operator says whether it
    /// counts.
    ///
    /// It is as old as what that one has told, so nothing is deleted by it: it only keeps a second copy from being served.
    pub(super) fn who_has(&self, serial: &str, iqns: &[String]) -> Option<MemberId> {
        if mutants::is(Mutant::KeepTwice) {
            return None;
        }
        let (roll, me) = (self.membership.roll_now().ok()?, self.membership.me().ok());
        let has_it = |inventory: &Inventory| {
            let is_part = |it: &ListedVolume| {
                inventory.moves.iter().any(|part| folded(&part.volume) == folded(&it.name))
            };
            let is_it =
                |it: &ListedVolume| is_same(it, serial, iqns) && (it.is_online || !is_part(it));
            inventory.volumes.iter().any(is_it)
        };
        let mut others = roll.inventories.iter().filter(|(member, _)| Some(**member) != me);
        others.find(|(_, inventory)| has_it(inventory)).map(|(member, _)| *member)
    }

    /// The same of the volume of a departure.
    pub(super) fn who_has_departed(&self, departure: &Departure) -> Option<MemberId> {
        self.who_has(&self.serial_of(departure), &departure.iqns)
    }

    /// The serial number of the volume of a departure; empty where that is not here any more.
    fn serial_of(&self, departure: &Departure) -> String {
        let all = self.array.volumes();
        let here = all.into_iter().find(|volume| volume.id == departure.volume);
        here.map_or_else(String::new, |volume| self.serving.names().volume_serial(&volume))
    }

    /// Whether the destination has told that it has lost the data of the volume.
    pub(super) fn lost_it(&self, departure: &Departure) -> bool {
        let serial = self.serial_of(departure);
        let is_it = |other: &ListedVolume| other.is_lost && other.serial == serial;
        let all = self.told_by(departure.to).filter(|_| !serial.is_empty());
        all.is_some_and(|inventory| inventory.volumes.iter().any(is_it))
    }

    /// Whether the destination has told of another volume of that name, by its serial number.
    pub(super) fn lists_another(&self, departure: &Departure) -> bool {
        let (name, serial) = (folded(&departure.name), self.serial_of(departure));
        let is_another = |other: &ListedVolume| {
            let has_own = !other.serial.is_empty() && other.serial != serial;
            folded(&other.name) == name && has_own
        };
        let all = self.told_by(departure.to);
        let is_some = all.is_some_and(|inventory| inventory.volumes.iter().any(is_another));
        is_some && !self.lists_it(departure)
    }

    /// Whether a member has told of one of that name in its recycle bin.
    pub(super) fn bins_it(&self, departure: &Departure, member: MemberId) -> bool {
        let name = folded(&departure.name);
        let is_it = |deleted: &String| folded(deleted) == name;
        self.told_by(member).is_some_and(|inventory| inventory.deleted.iter().any(is_it))
    }

    /// The same of one that disks with its data are missing of.
    pub(super) fn bins_lost(&self, departure: &Departure, member: MemberId) -> bool {
        let name = folded(&departure.name);
        let is_it = |deleted: &String| folded(deleted) == name;
        let is_counted = !mutants::is(Mutant::CountBinned);
        is_counted
            && self
                .told_by(member)
                .is_some_and(|inventory| inventory.deleted_lost.iter().any(is_it))
    }

    /// What a member has told the others.
    pub(super) fn told_by(&self, member: MemberId) -> Option<Arc<Inventory>> {
        self.membership.roll_now().ok()?.inventories.get(&member).cloned()
    }

    /// Deletes a volume for good that is another member's now. For who has the turn.
    async fn purge_departed(&self, departure: &Departure) -> Result<(), RequestError> {
        let all = self.array.volumes();
        let Some(volume) = all.into_iter().find(|volume| volume.id == departure.volume) else {
            return Ok(());
        };
        if volume.state != VolumeState::Deleted {
            self.array.set_volume_online(&volume.name, false).await?;
            self.array.delete_volume(&volume.name).await?;
        }
        self.array.purge_volume(&volume.name).await?;
        Ok(())
    }

    /// The departure of this move. One that does not read may be it: then nothing is known.
    pub(super) fn departure_of(&self, id: &MoveId) -> Result<Option<Departure>, RequestError> {
        let state = self.settings.state()?;
        let mut unreadable = None;
        for found in state.departures.values() {
            match found {
                Ok(departure) if departure.id == *id => return Ok(Some(departure.clone())),
                Ok(_) => {}
                Err(error) => unreadable = Some(error.to_string()),
            }
        }
        match unreadable {
            None => Ok(None),
            Some(why) => Err(KeptError::from(SettingsError::Unreadable(why)).into()),
        }
    }

    /// Asks the store whose the volume is, and has it be so here. Says whether it was handed over.
    pub(super) async fn decide(&self, departure: &Departure) -> Result<bool, RequestError> {
        let handed_over = self.ask_whose(departure).await;
        if let Err(RequestError::Move(MoveError::NotDecided { .. })) = &handed_over {
            // Nobody drives it any more: an operator is to settle it.
            self.moving.sources.borrow_mut().remove(&departure.id);
        }
        let handed_over = handed_over.map_err(|error| self.unsure(departure, error))?;
        if handed_over {
            self.handed_over(departure).await?;
        } else {
            {
                let _turn = self.turn.take().await;
                if !mutants::is(Mutant::ForgetNewer) {
                    self.check_stands(departure)?;
                }
                self.settings.forget_departure(departure.volume).await?;
            }
            self.stays(&departure.id, departure.volume).await;
        }
        Ok(handed_over)
    }

    /// Whether it was handed over. If it was not, it cannot be any more: the claim is written anew.
    async fn ask_whose(&self, departure: &Departure) -> Result<bool, RequestError> {
        self.check_group(&departure.name, &departure.group)?;
        let holder = self.membership.holder_of(&departure.name).await?;
        match decide_at_source(departure, holder.as_ref()) {
            SourceStep::Gone => Ok(true),
            SourceStep::UndoAfterFence => {
                let Departure { group, name, id, .. } = departure;
                Ok(!self.membership.keep_name(group, name, id).await?)
            }
            SourceStep::Wait => {
                let (name, why) =
                    (departure.name.clone(), "its name is another volume's".to_owned());
                Err(RequestError::Move(MoveError::NotDecided { name, why }))
            }
        }
    }

    fn unsure(&self, departure: &Departure, why: RequestError) -> RequestError {
        // The store will not say it either.
        if matches!(why, RequestError::Move(MoveError::NotDecided { .. })) {
            return why;
        }
        let (name, to) =
            (departure.name.clone(), self.name_in_move(departure.to, &departure.to_name));
        RequestError::Move(MoveError::Unsure { name, to, why: why.to_string() })
    }

    /// The group has given the name away: hosts are to find the volume at the destination.
    pub(super) async fn handed_over(&self, departure: &Departure) -> Result<(), RequestError> {
        let gone = Departure { stage: Stage::Gone, ..departure.clone() };
        let _turn = self.turn.take().await;
        // Somebody else may have noted just that.
        if self.departure_of(&departure.id)?.as_ref() != Some(&gone) {
            self.check_stands(departure)?;
            self.settings.depart(&gone).await?;
        }
        self.membership.look_at_names();
        self.moving.sources.borrow_mut().remove(&departure.id);
        // The array knows it too, should the settings be given up one day.
        if let Err(error) = self.array.set_volume_online(&departure.name, false).await {
            tracing::warn!("volume {} is not offline on the array: {error}", departure.name);
        }
        self.serving.settle().await;
        Ok(())
    }

    /// The volume stays, and nothing says any more that it leaves: it is served again.
    pub(super) async fn stays(&self, id: &MoveId, volume: u32) {
        self.moving.sources.borrow_mut().remove(id);
        if let Some(it) = self.array.volumes().into_iter().find(|it| it.id == volume) {
            self.moving.note_given_up(id, &self.serving.names().volume_serial(&it));
        }
        {
            let _turn = self.turn.take().await;
            self.serving.settle().await;
        }
        self.delete_leftovers(self.leftovers()).await;
    }

    /// The snapshots of moves that no move of this life has, with their volumes.
    pub(crate) fn leftovers(&self) -> Vec<(String, String)> {
        let all = self.array.all_snapshots().into_iter();
        let idle = all.filter(|(volume, _)| self.moving.source_of(*volume).is_none());
        let snapshots = idle.flat_map(|(_, snapshots)| snapshots);
        let left = snapshots.filter(|it| is_of_move(&it.name) && !it.deleting && !it.online);
        left.map(|it| (it.volume, it.name)).collect()
    }

    /// Deletes them. What cannot be is tried again at the next start.
    pub(crate) async fn delete_leftovers(&self, all: Vec<(String, String)>) {
        for (volume, name) in all {
            if let Err(error) = self.array.delete_snapshot(&volume, &name).await {
                tracing::warn!("snapshot {name} of {volume}, which a move took, is kept: {error}");
            }
        }
    }
}

/// Whether what a member has told of is this volume, with its data: by its serial number, as another one may have the
/// name of its target. Members of earlier versions tell none.
pub(super) fn is_same(other: &ListedVolume, serial: &str, iqns: &[String]) -> bool {
    let has_data = !other.is_lost || mutants::is(Mutant::CountLost);
    has_data
        && match other.serial.is_empty() || serial.is_empty() {
            false => other.serial == serial,
            true => iqns.iter().any(|iqn| iqn.eq_ignore_ascii_case(&other.iqn)),
        }
}

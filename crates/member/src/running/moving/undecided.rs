//! Moves that nobody decides any more, and the operator who does.
//!
//! The claim of a name in the group's store says whose a volume is. There are ends of a group after which nothing says it:
//! its store is lost and a new group is made, a member is removed, the destination is removed before it has said that
//! it has the volume. What is stored of the move keeps the volume from everybody then, until an operator says which of
//! the copies counts. As long as the group can decide, nobody else may.

use std::time::{Duration, Instant};

use group::handover::{Doubt, SourceStep, decide_at_source, doubt_at_source};
use group::membership::{GroupId, Holder, ListedMove, MembershipError, MoveId};
use group::ownership::MemberId;
use group::settings::{Arrival, Departure, Stage};

use super::super::{Member, MoveError, RequestError};
use crate::events::{Event, Kind, ObjectKind};
use crate::membership::GroupError;
use crate::move_request::{ArrivalStep, Transit, TransitState, Way};
use crate::mutants::{self, Mutant};

/// Who a member is, in which group: it takes a name as that.
pub(super) type Seat = (GroupId, MemberId);

/// How long the store is waited for by who looks: what is stored here is to be seen while it is silent.
const STORE_TIME: Duration = Duration::from_secs(3);

impl Member {
    /// What is stored here of volumes that move, and how each stands.
    pub(super) async fn transits(&self) -> Result<Vec<Transit>, RequestError> {
        // While they cannot be read it is not known which there are.
        self.settings.state()?;
        let mut all = Vec::new();
        let end = Instant::now() + STORE_TIME;
        for departure in self.settings.departures() {
            let is_driven = self.moving.source(&departure.id).is_ok();
            let (state, why) = match is_driven {
                true => (TransitState::UnderWay, None),
                false => stands(until(end, self.why_undecided(&departure)).await),
            };
            let other = self.member_of_move(&departure.group, (departure.to, &departure.to_name));
            let (id, name) = (departure.id, departure.name);
            all.push(Transit { id, name, way: Way::Leaves, other, state, why });
        }
        for arrival in self.settings.arrivals() {
            let (state, why) = stands(until(end, self.why_undecided_arrival(&arrival)).await);
            let why = why.or_else(|| self.moving.arriving().fault_of(&arrival.id));
            let other = self.member_of_move(&arrival.group, (arrival.from, &arrival.from_name));
            let (id, name) = (arrival.id, arrival.name);
            all.push(Transit { id, name, way: Way::Arrives, other, state, why });
        }
        Ok(all)
    }

    /// Does what an operator has decided about a move: the volume is this member's, or goes from here.
    pub(super) async fn settle_move(&self, id: &MoveId, keep: bool) -> Result<(), RequestError> {
        if let Some(departure) = self.departure_of(id)? {
            if self.moving.source(id).is_ok() {
                // It is driven.
                return Err(RequestError::Move(MoveError::GroupDecides(departure.name)));
            }
            match (self.why_undecided(&departure).await?.is_some(), keep) {
                (true, true) => self.keep_departed(&departure).await?,
                (true, false) => self.let_go(&departure).await?,
                (false, true) if self.has_stayed(&departure).await? => {}
                (false, _) => {
                    return Err(RequestError::Move(MoveError::GroupDecides(departure.name)));
                }
            }
            self.tell_settled(&departure.name, keep);
            return Ok(());
        }
        let arrival = self
            .arrival(id)?
            .ok_or_else(|| RequestError::Move(MoveError::NoSuch(id.to_string())))?;
        if self.why_undecided_arrival(&arrival).await?.is_none() {
            return Err(RequestError::Move(MoveError::GroupDecides(arrival.name)));
        }
        match keep {
            true => self.keep_arrived(&arrival).await?,
            false => {
                let step = self.discard_settled(&arrival).await?;
                if step != ArrivalStep::Discarded {
                    return Err(RequestError::Move(MoveError::NoSuch(id.to_string())));
                }
            }
        }
        self.tell_settled(&arrival.name, keep);
        Ok(())
    }

    fn tell_settled(&self, name: &str, keep: bool) {
        let text = match keep {
            true => format!("an operator has settled the move of '{name}': it is this member's"),
            false => {
                format!("an operator has settled the move of '{name}': what was here is deleted")
            }
        };
        let about = (Kind::VolumeMoveSettled, ObjectKind::Volume);
        self.events.tell(Event::about(about.0, about.1, name, text));
    }

    /// Whether the group says that the volume of a departure stays, which is carried out then. Whoever keeps it wants
    /// just that: an operator may have taken its name for it already, and been cut off behind that.
    async fn has_stayed(&self, departure: &Departure) -> Result<bool, RequestError> {
        Ok(departure.stage == Stage::Leaving && !self.decide(departure).await?)
    }

    /// The volume of an arrival is served here. One that is not there any more leaves its name to whoever has it.
    pub(super) async fn keep_arrived(&self, arrival: &Arrival) -> Result<(), RequestError> {
        if self.arrived_volume(arrival).is_none() {
            return Err(MoveError::ArrivalMissing(arrival.name.clone()).into());
        }
        self.check_nobody_has(&arrival.name, self.who_has_arrived(arrival))?;
        let seat = self.take_name_to_keep(&arrival.name).await?;
        if !mutants::is(Mutant::KeepRefusedName) {
            // If there is no arrival any more, it is given back.
            self.membership.look_at_names();
        }
        match self.take_over(arrival, seat.as_ref()).await? {
            ArrivalStep::Adopted => Ok(()),
            _ => Err(MoveError::NoSuch(arrival.id.to_string()).into()),
        }
    }

    /// The volume of a departure is served here again. What fails behind its name leaves it undecided, for who has that
    /// name: whoever keeps it once more goes on.
    async fn keep_departed(&self, departure: &Departure) -> Result<(), RequestError> {
        self.check_nobody_has(&departure.name, self.who_has_departed(departure))?;
        let seat = self.take_name_to_keep(&departure.name).await?;
        // If there is no departure any more, the name is given back.
        self.membership.look_at_names();
        {
            let _turn = self.turn.take().await;
            self.check_stands(departure)?;
            self.check_seat(&departure.name, seat.as_ref())?;
            if departure.stage == Stage::Gone {
                // That was undone when it was handed over, and whoever keeps it wants it served.
                self.array.set_volume_online(&departure.name, true).await?;
            }
            self.settings.forget_departure(departure.volume).await?;
        }
        self.stays(&departure.id, departure.volume).await;
        self.membership.look_at_names();
        Ok(())
    }

    /// Refuses to serve a copy of a volume that this member has: it may have another name there, and have moved on since, so
    /// that whose the name is says nothing of it.
    fn check_nobody_has(&self, name: &str, has_it: Option<MemberId>) -> Result<(), RequestError> {
        let Some(member) = has_it else { return Ok(()) };
        let (name, member) = (name.to_owned(), self.member_name(member));
        Err(MoveError::HasItNow { name, member }.into())
    }

    /// Has the group say, if this member is in one, that the volume is here: before it is served. Another member may
    /// adopt what the move has given it until then, and has the name if it has. Says as whom it was taken.
    pub(super) async fn take_name_to_keep(&self, name: &str) -> Result<Option<Seat>, RequestError> {
        let Some(group) = self.membership.group_id()? else { return Ok(None) };
        match self.membership.take_name(&group, name).await {
            Err(GroupError::Membership(MembershipError::VolumeNameTaken {
                member_name, ..
            })) => Err(MoveError::NameToKeep { name: name.to_owned(), member: member_name }.into()),
            taken => Ok(Some((group, taken?))),
        }
    }

    /// Who this member is, and in which group; `None` in no group.
    pub(super) fn seat(&self) -> Result<Option<Seat>, RequestError> {
        let Some(group) = self.membership.group_id()? else { return Ok(None) };
        Ok(Some((group, self.membership.me()?)))
    }

    /// Refuses to serve a volume whose name was taken by who this member is not any more: anybody may take it from that
    /// one. To be asked by who has the turn, directly before.
    pub(super) fn check_seat(&self, name: &str, seat: Option<&Seat>) -> Result<(), RequestError> {
        match self.seat()?.as_ref() == seat {
            true => Ok(()),
            false => Err(MoveError::SeatChanged(name.to_owned()).into()),
        }
    }

    /// Refuses where something else was done about it while the turn was waited for. For who has that.
    pub(super) fn check_stands(&self, departure: &Departure) -> Result<(), RequestError> {
        match self.departure_of(&departure.id)?.as_ref() == Some(departure) {
            true => Ok(()),
            false => Err(MoveError::NoSuch(departure.id.to_string()).into()),
        }
    }

    /// Why only an operator ends this departure, which nobody drives; `None` where the group does. Where another member has
    /// the volume he is told so first: he is refused to keep it here.
    async fn why_undecided(&self, departure: &Departure) -> Result<Option<String>, RequestError> {
        let why = self.why_nobody_decides(departure).await?;
        Ok(why.map(|why| self.or_who_has_it(why, self.who_has_departed(departure))))
    }

    /// Why only an operator ends a part, or that another member has the volume, where one has.
    pub(super) fn or_who_has_it(&self, why: String, has_it: Option<MemberId>) -> String {
        let Some(member) = has_it else { return why };
        let member = self.member_name(member);
        format!(
            "member '{member}' has told that it has this volume now: discard this part if it is there"
        )
    }

    /// The same, whoever has the volume.
    async fn why_nobody_decides(
        &self,
        departure: &Departure,
    ) -> Result<Option<String>, RequestError> {
        let foreign = self.of_another_group(&departure.group)?;
        if foreign.is_some() {
            return Ok(foreign);
        }
        Ok(match departure.stage {
            Stage::Leaving => {
                let holder = self.membership.holder_of(&departure.name).await?;
                let is_open = decide_at_source(departure, holder.as_ref()) == SourceStep::Wait;
                is_open.then(|| self.whose_now(holder.as_ref()))
            }
            Stage::Gone if self.lists_it(departure) => None,
            Stage::Gone if self.lost_it(departure) => Some(
                "the member that it was given to has it, and disks that have its data are missing there: connect these"
                    .to_owned(),
            ),
            Stage::Gone => self.why_not_there(departure).await?,
        })
    }

    /// Why nobody can say that a volume is where it was handed over to, which has not told of it: the one may be no member
    /// any more, or have lost all that it had stored. `None` where it may say so yet, or has had it and passed it on.
    async fn why_not_there(&self, departure: &Departure) -> Result<Option<String>, RequestError> {
        let is_member = self.membership.is_member(departure.to).await?;
        let holder = self.membership.holder_of(&departure.name).await?;
        let is_holder = match &holder {
            Some(holder) => self.membership.is_member(holder.member).await?,
            None => false,
        };
        match doubt_at_source(departure, holder.as_ref(), (is_member, is_holder)) {
            Some(Doubt::NameElsewhere) => return Ok(Some(self.whose_now(holder.as_ref()))),
            Some(Doubt::DestinationRemoved) => {
                let why = "it was given to a member that was removed from the group since";
                return Ok(Some(why.to_owned()));
            }
            None => {}
        }
        let Some(holder) = holder.filter(|holder| holder.is_given_by(&departure.id)) else {
            // It has had it, and passed it on.
            return Ok(None);
        };
        // A member of an earlier version has not written that it had the volume, which it may have had.
        let is_unproved = !holder.was_adopted_by(&departure.id);
        if is_unproved && self.bins_it(departure, holder.member) {
            return Ok(Some(
                "the member that it was given to has a volume of that name in its recycle bin, and has not said that \
                 it is this one"
                    .to_owned(),
            ));
        }
        if self.bins_lost(departure, holder.member) {
            return Ok(Some(
                "the member that it was given to has it in its recycle bin, and disks that have its data are missing \
                 there: connect these, or purge it there and keep it here"
                    .to_owned(),
            ));
        }
        Ok(self.lists_another(departure).then(|| self.whose_now(Some(&holder))))
    }

    /// Whose volume has the name of one that has left.
    pub(super) fn whose_now(&self, holder: Option<&Holder>) -> String {
        let me = self.membership.me().ok();
        match holder.map(|holder| holder.member) {
            None => "its name is no volume's any more".to_owned(),
            Some(member) if Some(member) == me => {
                "its name is this member's again, and the volume is not served yet".to_owned()
            }
            Some(member) => {
                format!("its name is that of a volume of member '{}' now", self.member_name(member))
            }
        }
    }

    /// Why the group that this member is in says nothing of a move of that one; `None` where it is the same.
    pub(in super::super) fn of_another_group(
        &self,
        group: &GroupId,
    ) -> Result<Option<String>, RequestError> {
        Ok(match self.membership.group_id()? {
            Some(own) if own == *group => None,
            Some(_) => Some("it was moved in another group than this member is in now".to_owned()),
            None => Some("this member is in no group any more".to_owned()),
        })
    }

    /// Refuses to ask the group about the move of another one.
    pub(super) fn check_group(&self, name: &str, group: &GroupId) -> Result<(), RequestError> {
        match self.of_another_group(group)? {
            None => Ok(()),
            Some(why) => {
                Err(RequestError::Move(MoveError::NotDecided { name: name.to_owned(), why }))
            }
        }
    }

    /// The name of the other member of a move. A number of another group says nothing of who it was, and records of
    /// earlier versions have no name.
    fn member_of_move(&self, group: &GroupId, (member, written): (MemberId, &str)) -> String {
        match (self.of_another_group(group), written) {
            (Ok(None), _) => self.name_in_move(member, written),
            (_, "") => format!("member {} of another group", member.0),
            _ => format!("{written} of another group"),
        }
    }

    /// The name of a member of this group, or by which it was known when it took part in a move; its number where
    /// neither is known.
    pub(in super::super) fn name_in_move(&self, member: MemberId, written: &str) -> String {
        let known = self.known_name(member).or_else(|| Some(written.to_owned()));
        known.filter(|name| !name.is_empty()).unwrap_or_else(|| member.0.to_string())
    }

    /// The parts that this member has in moves, for the others.
    pub(in super::super) fn moves_in_hand(&self) -> Vec<ListedMove> {
        let entry = |volume: String, other| ListedMove { volume, other };
        let departures = self.settings.departures().into_iter().map(|it| entry(it.name, it.to));
        let arrivals = self.settings.arrivals().into_iter().map(|it| entry(it.name, it.from));
        let mut all: Vec<_> = departures.chain(arrivals).collect();
        for further in self.moving.parts() {
            if !all.iter().any(|it| it.volume == further.volume) {
                all.push(further);
            }
        }
        all
    }
}

/// What the store of the group says, or that it has not said it until then.
async fn until(
    end: Instant,
    asked: impl Future<Output = Result<Option<String>, RequestError>>,
) -> Result<Option<String>, RequestError> {
    let slow = || GroupError::StoreSlow { seconds: STORE_TIME.as_secs() };
    let answer = ring::timeout(end.saturating_duration_since(Instant::now()), asked).await;
    answer.unwrap_or_else(|| Err(slow().into()))
}

fn stands(why: Result<Option<String>, RequestError>) -> (TransitState, Option<String>) {
    match why {
        Ok(Some(why)) => (TransitState::Undecided, Some(why)),
        Ok(None) => (TransitState::Waits, None),
        Err(error) => (TransitState::Waits, Some(error.to_string())),
    }
}

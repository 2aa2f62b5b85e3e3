//! Moves that nobody decides any more, and the operator who does.
//!
//! The claim of a name in the group's store says whose a volume is. There are ends of a group after which nothing says it:
//! its store is lost and a new group is made, a member is removed, the destination is removed before it has said that
//! it has the volume. What is stored of the move keeps the volume from everybody then, until an operator says which of
//! the copies counts. As long as the group can decide, nobody else may.

use std::time::{Duration, Instant};

use group::handover::{SourceStep, decide_at_source};
use group::membership::{GroupId, ListedMove, MembershipError, MoveId};
use group::ownership::MemberId;
use group::settings::{Departure, Stage};

use super::super::{Member, MoveError, RequestError};
use crate::events::{Event, Kind, ObjectKind};
use crate::membership::GroupError;
use crate::move_request::{Transit, TransitState, Way};

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
            let other = self.member_of_move(&departure.group, departure.to);
            let (id, name) = (departure.id, departure.name);
            all.push(Transit { id, name, way: Way::Leaves, other, state, why });
        }
        for arrival in self.settings.arrivals() {
            let (state, why) = stands(until(end, self.why_undecided_arrival(&arrival)).await);
            let why = why.or_else(|| self.moving.arriving().fault_of(&arrival.id));
            let other = self.member_of_move(&arrival.group, arrival.from);
            let (id, name) = (arrival.id, arrival.name);
            all.push(Transit { id, name, way: Way::Arrives, other, state, why });
        }
        Ok(all)
    }

    /// Does what an operator has decided about a move: the volume is this member's, or goes from here.
    pub(super) async fn settle_move(&self, id: &MoveId, keep: bool) -> Result<(), RequestError> {
        if let Some(departure) = self.departure_of(id)? {
            let is_driven = self.moving.source(id).is_ok();
            if is_driven || self.why_undecided(&departure).await?.is_none() {
                return Err(RequestError::Move(MoveError::GroupDecides(departure.name)));
            }
            match keep {
                true => self.keep_departed(&departure).await?,
                false => self.let_go(&departure).await?,
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
            true => {
                self.take_name_to_keep(&arrival.name).await?;
                self.take_over(&arrival).await?;
            }
            false => {
                self.discard_prepared(&arrival).await?;
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

    /// The volume of a departure is served here again.
    async fn keep_departed(&self, departure: &Departure) -> Result<(), RequestError> {
        self.take_name_to_keep(&departure.name).await?;
        {
            let _turn = self.turn.take().await;
            self.check_stands(departure)?;
            if departure.stage == Stage::Gone {
                // That was undone when it was handed over, and whoever keeps it wants it served.
                self.array.set_volume_online(&departure.name, true).await?;
            }
            self.settings.forget_departure(departure.volume).await?;
        }
        self.stays(&departure.id).await;
        self.membership.look_at_names();
        Ok(())
    }

    /// Has the group say, if this member is in one, that the volume is here: before it is served. Another member may
    /// adopt what the move has given it until then, and has the name if it has.
    async fn take_name_to_keep(&self, name: &str) -> Result<(), RequestError> {
        if self.membership.group_id()?.is_none() {
            return Ok(());
        }
        match self.membership.take_name(name).await {
            Err(GroupError::Membership(MembershipError::VolumeNameTaken {
                member_name, ..
            })) => Err(MoveError::NameToKeep { name: name.to_owned(), member: member_name }.into()),
            taken => Ok(taken?),
        }
    }

    /// Refuses where something else was done about it while the turn was waited for. For who has that.
    pub(super) fn check_stands(&self, departure: &Departure) -> Result<(), RequestError> {
        match self.departure_of(&departure.id)?.as_ref() == Some(departure) {
            true => Ok(()),
            false => Err(MoveError::NoSuch(departure.id.to_string()).into()),
        }
    }

    /// Why only an operator ends this departure, which nobody drives; `None` where the group does.
    async fn why_undecided(&self, departure: &Departure) -> Result<Option<String>, RequestError> {
        let foreign = self.of_another_group(&departure.group)?;
        if foreign.is_some() {
            return Ok(foreign);
        }
        Ok(match departure.stage {
            Stage::Leaving => {
                let holder = self.membership.holder_of(&departure.name).await?;
                let is_open = decide_at_source(departure, holder.as_ref()) == SourceStep::Wait;
                is_open.then(|| match holder {
                    Some(holder) => {
                        let member = self.member_name(holder.member);
                        format!("its name is that of a volume of member '{member}' now")
                    }
                    None => "its name is no volume's any more".to_owned(),
                })
            }
            Stage::Gone if self.lists_it(departure) => None,
            Stage::Gone => self.why_not_there(departure).await?,
        })
    }

    /// Why nobody can say that a volume is where it was handed over to, which has not told of it: the one may be no member
    /// any more, or have lost all that it had stored. `None` where it may say so yet, or has passed it on.
    async fn why_not_there(&self, departure: &Departure) -> Result<Option<String>, RequestError> {
        let is_member = self.membership.is_member(departure.to).await?;
        let holder = self.membership.holder_of(&departure.name).await?;
        let Some(holder) = holder else {
            return Ok(Some("its name is no volume's any more".to_owned()));
        };
        let (member, is_given) =
            (self.member_name(holder.member), holder.moved.as_ref() == Some(&departure.id));
        Ok(match is_member {
            // By another move.
            _ if !is_given && holder.moved.is_some() => None,
            true if is_given && holder.member == departure.to => None,
            _ if self.membership.is_member(holder.member).await? => {
                Some(format!("its name is that of a volume of member '{member}' now"))
            }
            _ => Some("it was given to a member that was removed from the group since".to_owned()),
        })
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

    /// The name of the other member of a move. A number of another group says nothing of who it was.
    fn member_of_move(&self, group: &GroupId, member: MemberId) -> String {
        match self.of_another_group(group) {
            Ok(None) => self.member_name(member),
            _ => format!("member {} of another group", member.0),
        }
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

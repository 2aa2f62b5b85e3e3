//! Volumes that leave for another member, or have come from one: nobody changes what was sent already, and who asks for
//! one hears whose it is.

use array::ArrayError;
use group::membership::{GroupId, folded};
use group::ownership::MemberId;
use group::settings::{Arrival, SettingsError, Stage};

use super::{Member, MoveError, RequestError};
use crate::access_request::AccessRequest;
use crate::configuration_request::ConfigurationRequest;
use crate::request::{Request, SnapshotRequest, VolumeRequest};
use crate::schedule_request::ScheduleRequest;
use crate::settings::{KeptError, Withheld};

impl Member {
    /// Whether a volume is for nobody, whatever operators have set, as it moves.
    pub(crate) fn withholds(&self, volume: u32) -> bool {
        self.settings.withheld(volume).is_some()
    }

    /// Why that is so, for operators.
    pub(super) fn why_withheld(&self, volume: u32) -> Option<String> {
        Some(match self.settings.withheld(volume)? {
            Withheld::Leaves(departure) => {
                self.why_foreign(&departure.group).unwrap_or_else(|| {
                    format!(
                        "it is being handed over to member '{}'",
                        self.name_in_move(departure.to, &departure.to_name)
                    )
                })
            }
            Withheld::Arrives(arrival) => self.why_foreign(&arrival.group).unwrap_or_else(|| {
                let from = self.name_in_move(arrival.from, &arrival.from_name);
                format!("it is being taken over from member '{from}'")
            }),
            Withheld::Unreadable(why) => why,
        })
    }

    fn why_foreign(&self, group: &GroupId) -> Option<String> {
        let why = self.of_another_group(group).ok()??;
        Some(format!("its move was never decided, and an operator has to settle it: {why}"))
    }

    /// Refuses to answer for volumes that have left, and to change those that leave.
    pub(super) fn check_here(&self, request: &Request) -> Result<(), RequestError> {
        // What is asked about moves is decided there.
        if !self.settings.has_moves() || matches!(request, Request::Move(_)) {
            return Ok(());
        }
        let made = made_by(request);
        for name in request.volumes().into_iter().filter(|name| !made.contains(name)) {
            self.check_not_moved(name)?;
        }
        if is_read(request) {
            return Ok(());
        }
        self.check_staying(request.volumes())?;
        match request {
            Request::Schedule(request) => self.check_schedules_staying(request.changed()),
            // Of all that is set at once it is asked when it is their turn.
            _ => Ok(()),
        }
    }

    /// Refuses to answer for a volume that is another member's, or is about to be this one's: that there is none of the
    /// name is not true.
    fn check_not_moved(&self, name: &str) -> Result<(), RequestError> {
        let volume = self.array.volume(name).ok();
        let departure = volume.as_ref().and_then(|volume| self.settings.departure(volume.id));
        if let Some(departure) = departure.filter(|it| it.stage == Stage::Gone) {
            self.check_decided(name, &departure.group, departure.to)?;
            let to = self.name_in_move(departure.to, &departure.to_name);
            return Err(RequestError::Move(MoveError::MovedAway { name: name.to_owned(), to }));
        }
        let arrivals = self.settings.arrivals();
        let comes = arrivals.iter().find(|arrival| folded(&arrival.name) == folded(name));
        match comes.filter(|_| volume.is_none()) {
            Some(arrival) => Err(self.why_not_yet(name, arrival)),
            None => Ok(()),
        }
    }

    /// Refuses the names of volumes that have come and have hidden names, or have left and are not here: the group has
    /// promised them to this member for these. In a group, while they cannot be read, it is not known which they are.
    pub(super) fn check_not_in_hands(&self, names: &[String]) -> Result<(), RequestError> {
        if names.is_empty() {
            return Ok(());
        }
        if !matches!(self.membership.group_id(), Ok(None)) {
            self.settings.state()?;
        }
        let volumes = self.array.volumes();
        let is_gone = |id: u32| !volumes.iter().any(|volume| volume.id == id);
        let leave = self.settings.departures().into_iter().filter(|it| is_gone(it.volume));
        let come = self.settings.arrivals().into_iter().map(|it| it.name);
        let all: Vec<String> = come.chain(leave.map(|it| it.name)).collect();
        let is_of_move = |name: &&String| all.iter().any(|other| folded(other) == folded(name));
        match names.iter().find(is_of_move) {
            Some(name) => Err(ArrayError::VolumeExists(name.clone()).into()),
            None => Ok(()),
        }
    }

    /// Why a volume that arrives is not this member's.
    fn why_not_yet(&self, name: &str, arrival: &Arrival) -> RequestError {
        if let Err(error) = self.check_decided(name, &arrival.group, arrival.from) {
            return error;
        }
        let me = self.membership.me().ok();
        let to = me.map_or_else(String::new, |me| self.member_name(me));
        MoveError::MovesAlready { name: name.to_owned(), to }.into()
    }

    /// Refuses to say that a move goes on of which only an operator says where the volume is, as far as that is known
    /// without the group's store.
    fn check_decided(
        &self,
        name: &str,
        group: &GroupId,
        other: MemberId,
    ) -> Result<(), RequestError> {
        let foreign = self.of_another_group(group).ok().flatten();
        let roll = self.membership.roll_now();
        let is_removed = roll.is_ok_and(|roll| !roll.members.contains_key(&other));
        let removed = || "the other member of its move was removed from the group".to_owned();
        match foreign.or_else(|| is_removed.then(removed)) {
            None => Ok(()),
            Some(why) => Err(MoveError::NotDecided { name: name.to_owned(), why }.into()),
        }
    }

    /// Refuses to change volumes that leave, or to name others so. To be asked by who has the turn for the change: one
    /// may have begun to leave while that was waited for.
    pub(super) fn check_staying<'a>(
        &self,
        names: impl IntoIterator<Item = &'a str>,
    ) -> Result<(), RequestError> {
        if !self.settings.has_moves() {
            return Ok(());
        }
        for name in names {
            if let Ok(volume) = self.array.volume(name) {
                self.check_stays(volume.id, name)?;
            }
        }
        Ok(())
    }

    /// Refuses to change schedules of volumes that leave.
    pub(super) fn check_schedules_staying<'a>(
        &self,
        names: impl IntoIterator<Item = &'a str>,
    ) -> Result<(), RequestError> {
        // While they cannot be read nothing is changed.
        let Ok(state) = self.settings.state() else { return Ok(()) };
        for schedule in names.into_iter().filter_map(|name| state.schedules.get(name)) {
            for volume in &schedule.plan.volumes {
                self.check_stays(volume.id, &volume.name)?;
            }
        }
        Ok(())
    }

    fn check_stays(&self, volume: u32, name: &str) -> Result<(), RequestError> {
        let name = name.to_owned();
        match self.settings.departing(volume) {
            Some(Ok(departure)) => {
                self.check_decided(&name, &departure.group, departure.to)?;
                let to = self.name_in_move(departure.to, &departure.to_name);
                Err(MoveError::Leaving { name, to }.into())
            }
            // It may be another member's.
            Some(Err(why)) => Err(KeptError::from(SettingsError::Unreadable(why)).into()),
            None => match self.settings.withheld(volume) {
                Some(Withheld::Arrives(arrival)) => Err(self.why_not_yet(&name, &arrival)),
                _ => Ok(()),
            },
        }
    }
}

/// The names that a request gives to volumes.
fn made_by(request: &Request) -> Vec<&str> {
    match request {
        Request::Volume(VolumeRequest::Create(spec)) => vec![&spec.name],
        Request::Volume(VolumeRequest::Rename { to, .. })
        | Request::Snapshot(SnapshotRequest::Clone { to, .. }) => vec![to],
        Request::Configuration(ConfigurationRequest::Change(change)) => {
            change.new_volumes.iter().map(|new| new.spec.name.as_str()).collect()
        }
        _ => Vec::new(),
    }
}

/// Whether a request changes nothing of the volumes that it names.
const fn is_read(request: &Request) -> bool {
    matches!(
        request,
        Request::Volume(
            VolumeRequest::List | VolumeRequest::Show { .. } | VolumeRequest::Reservations { .. }
        ) | Request::Snapshot(
            SnapshotRequest::List { .. }
                | SnapshotRequest::Count { .. }
                | SnapshotRequest::Diff { .. }
                | SnapshotRequest::Reservations { .. }
        ) | Request::Access(AccessRequest::List { .. })
            | Request::Schedule(ScheduleRequest::List | ScheduleRequest::Show { .. })
            | Request::Configuration(ConfigurationRequest::Show)
    )
}

//! What is refused of volumes that lie on several members, as it is not there for them yet.

use array::api::VolumeState;
use group::spread::SpreadStage;

use super::super::{Member, RequestError, SpreadRefusal};
use crate::configuration_request::{ConfigurationChange, ConfigurationRequest};
use crate::move_request::MoveRequest;
use crate::mutants::{self, Mutant};
use crate::request::{Request, SnapshotRequest, VolumeRequest};
use crate::schedule_request::{NewSchedule, ScheduleChange, ScheduleRequest};
use crate::set_request::SetRequest;

impl Member {
    /// Refuses what only a volume can do that lies on one member, and what is asked of one that is being made or goes.
    pub(in crate::running) fn check_spread(&self, request: &Request) -> Result<(), RequestError> {
        if !self.settings.has_spreads() || matches!(request, Request::Spread(_)) {
            return Ok(());
        }
        let is_new = made_by(request);
        for name in request.volumes().into_iter().filter(|name| !is_new.contains(name)) {
            self.check_there(name)?;
        }
        for (name, why) in refused(request) {
            let is_spread = self.serving.spread().seen_id(name).is_some();
            if is_spread && !mutants::is(Mutant::ChangeSpread) {
                let name = name.to_owned();
                return Err(match why {
                    Why::NotYet(what) => SpreadRefusal::NotSpread { name, what },
                    Why::NoBin => SpreadRefusal::NoBin(name),
                    Why::GrowsAlone => SpreadRefusal::GrowsAlone(name),
                }
                .into());
            }
        }
        Ok(())
    }

    /// Refuses one that is not there yet, or not any more: that there is none of the name is not true.
    fn check_there(&self, name: &str) -> Result<(), RequestError> {
        let record = self.serving.spread().named(name);
        let is_other = self.array.volume(name).is_ok_and(|it| it.state != VolumeState::Deleted);
        let Some(record) = record.filter(|_| !is_other) else { return Ok(()) };
        let doing = match record.stage {
            SpreadStage::Making => "made",
            SpreadStage::Going { .. } => "deleted",
            SpreadStage::Whole | SpreadStage::Growing { .. } => return Ok(()),
        };
        Err(SpreadRefusal::Busy { name: record.name, doing }.into())
    }
}

/// Why something is refused.
#[derive(Debug, Clone, Copy)]
enum Why {
    /// This is not there yet.
    NotYet(&'static str),
    /// It does not come back.
    NoBin,
    /// It grows by itself.
    GrowsAlone,
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

/// The volumes with which something is to be done that is not there for those that lie on several members.
fn refused(request: &Request) -> Vec<(&str, Why)> {
    match request {
        Request::Volume(VolumeRequest::Rename { name, .. }) => {
            one(name, Why::NotYet("another name"))
        }
        Request::Volume(VolumeRequest::Resize { name, .. }) => one(name, Why::GrowsAlone),
        Request::Volume(VolumeRequest::SetReadAhead { name, .. }) => {
            one(name, Why::NotYet("another read-ahead"))
        }
        Request::Volume(VolumeRequest::SetCached { name, .. }) => {
            one(name, Why::NotYet("another use of memory"))
        }
        Request::Volume(
            VolumeRequest::Delete { name }
            | VolumeRequest::Undelete { name }
            | VolumeRequest::Purge { name },
        ) => one(name, Why::NoBin),
        Request::Snapshot(request) => of_snapshots(request),
        Request::Set(SetRequest::Prepare { plan }) => {
            let volumes = plan.volumes.iter();
            volumes.map(|name| (name.as_str(), Why::NotYet("a snapshot"))).collect()
        }
        Request::Schedule(
            ScheduleRequest::Create(NewSchedule { volumes, .. })
            | ScheduleRequest::Set { change: ScheduleChange { volumes: Some(volumes), .. }, .. },
        ) => volumes.iter().map(|name| (name.as_str(), Why::NotYet("a schedule"))).collect(),
        Request::Move(MoveRequest::Begin { name, .. }) => one(name, Why::NotYet("a move")),
        Request::Configuration(ConfigurationRequest::Change(change)) => of_configuration(change),
        _ => Vec::new(),
    }
}

fn one(name: &str, why: Why) -> Vec<(&str, Why)> {
    vec![(name, why)]
}

fn of_snapshots(request: &SnapshotRequest) -> Vec<(&str, Why)> {
    match request {
        // There are none, which is an answer.
        SnapshotRequest::List { .. } | SnapshotRequest::Count { .. } => Vec::new(),
        SnapshotRequest::Clone { volume, .. } => one(volume, Why::NotYet("a clone")),
        SnapshotRequest::Rollback { volume, .. } => one(volume, Why::NotYet("a rollback")),
        request => {
            let volumes = request.volumes().into_iter();
            volumes.map(|name| (name, Why::NotYet("a snapshot"))).collect()
        }
    }
}

fn of_configuration(change: &ConfigurationChange) -> Vec<(&str, Why)> {
    let mut all = Vec::new();
    for volume in &change.volumes {
        let name = volume.name.as_str();
        if volume.size_bytes.is_some() {
            all.push((name, Why::GrowsAlone));
        }
        if volume.read_ahead_bytes.is_some() {
            all.push((name, Why::NotYet("another read-ahead")));
        }
        if volume.cached.is_some() {
            all.push((name, Why::NotYet("another use of memory")));
        }
    }
    for schedule in change.schedules.iter().flat_map(|schedule| schedule.volumes()) {
        all.push((schedule, Why::NotYet("a schedule")));
    }
    all
}

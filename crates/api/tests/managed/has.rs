//! What a member has: volumes, each with one snapshot, a schedule, and a job of each volume.

use std::sync::{Arc, Mutex, MutexGuard};

use api::server::{Ask, Done, Follower};
use array::ArrayError;
use array::api::{JobInfo, JobKind, SnapshotInfo, SpaceInfo, VolumeInfo};
use group::accounts::Logins;
use group::schedules::Timing;
use group::settings::NotThere;
use member::{
    Answer, ArrayRequest, Hosts, Request, RequestError, ScheduleRequest, ScheduleShown, Snapshot,
    SnapshotRequest, Volume, VolumeRequest,
};

use crate::moves::Moves;

/// Names of volumes, in the order in which they were made, and of schedules.
#[derive(Default)]
pub(crate) struct Has {
    volumes: Mutex<Vec<String>>,
    schedules: Mutex<Vec<String>>,
    /// How many changes it was asked for.
    changes: Mutex<usize>,
    /// Of its volumes to others, and of theirs to it.
    pub(crate) moves: Moves,
}

impl Has {
    fn volumes(&self) -> MutexGuard<'_, Vec<String>> {
        self.volumes.lock().expect("no test has failed")
    }

    pub(crate) fn make(&self, volume: &str) {
        self.volumes().push(volume.to_owned());
    }

    pub(crate) fn names(&self) -> Vec<String> {
        self.volumes().clone()
    }

    pub(crate) fn schedule(&self, name: &str) {
        self.schedules.lock().expect("no test has failed").push(name.to_owned());
    }

    pub(crate) fn schedules(&self) -> Vec<String> {
        self.schedules.lock().expect("no test has failed").clone()
    }

    pub(crate) fn changes(&self) -> usize {
        *self.changes.lock().expect("no test has failed")
    }

    fn count_change(&self) {
        *self.changes.lock().expect("no test has failed") += 1;
    }

    fn of_volumes(&self, request: VolumeRequest) -> Result<Answer, RequestError> {
        let mut all = self.volumes();
        let at = |all: &[String], name: &str| all.iter().position(|its| its == name);
        match request {
            VolumeRequest::List => {
                Ok(Answer::Volumes(all.iter().map(|name| volume(name)).collect()))
            }
            VolumeRequest::Show { name } | VolumeRequest::SetOnline { name, .. } => {
                let found = at(&all, &name).map(|_| Answer::Volume(Box::new(volume(&name))));
                found.ok_or(RequestError::NoSuchVolume(name))
            }
            VolumeRequest::Create(spec) => {
                self.count_change();
                if at(&all, &spec.name).is_some() {
                    return Err(ArrayError::VolumeExists(spec.name).into());
                }
                all.push(spec.name.clone());
                Ok(Answer::Volume(Box::new(volume(&spec.name))))
            }
            VolumeRequest::Rename { name, to } => {
                self.count_change();
                let found = at(&all, &name);
                let at = found.ok_or(RequestError::NoSuchVolume(name))?;
                all[at].clone_from(&to);
                Ok(Answer::Volume(Box::new(volume(&to))))
            }
            VolumeRequest::Delete { name } => {
                self.count_change();
                let found = at(&all, &name);
                all.remove(found.ok_or(RequestError::NoSuchVolume(name))?);
                Ok(Answer::Done)
            }
            _ => Err(RequestError::NoResult),
        }
    }

    fn of_snapshots(&self, request: SnapshotRequest) -> Result<Answer, RequestError> {
        let all = self.volumes();
        match request {
            SnapshotRequest::List { volume: None } => {
                Ok(Answer::Snapshots(all.iter().map(|volume| snapshot(volume, None)).collect()))
            }
            SnapshotRequest::List { volume: Some(volume) } if all.contains(&volume) => {
                Ok(Answer::Snapshots(vec![snapshot(&volume, None)]))
            }
            SnapshotRequest::List { volume: Some(volume) } => {
                Err(RequestError::NoSuchVolume(volume))
            }
            SnapshotRequest::Count { snapshots } => {
                let space = Some(SpaceInfo { unique_bytes: 7, ..SpaceInfo::default() });
                let counted = snapshots.iter().map(|(volume, _)| snapshot(volume, space));
                Ok(Answer::Snapshots(counted.collect()))
            }
            SnapshotRequest::Create { volumes, .. } => {
                self.count_change();
                let taken = volumes.iter().map(|volume| snapshot(volume, None));
                Ok(Answer::Snapshots(taken.collect()))
            }
            _ => Err(RequestError::NoResult),
        }
    }

    fn answer(&self, request: Request) -> Result<Answer, RequestError> {
        match request {
            Request::Volume(request) => self.of_volumes(request),
            Request::Snapshot(request) => self.of_snapshots(request),
            Request::Schedule(ScheduleRequest::List) => {
                let all = self.schedules();
                Ok(Answer::Schedules(all.into_iter().map(schedule).collect()))
            }
            Request::Array(ArrayRequest::Jobs) => {
                Ok(Answer::Jobs(self.names().into_iter().map(job).collect()))
            }
            Request::Move(request) => self.moves.answer(request, &mut self.volumes()),
            Request::Connections => Ok(Answer::Connections(Vec::new())),
            _ => Err(RequestError::NoResult),
        }
    }
}

/// A member that has this.
pub(crate) struct Asked(pub(crate) Arc<Has>);

impl Ask for Asked {
    fn ask(&self, request: Request, _: Follower, done: Done) {
        let done = match &request {
            Request::Move(request) => self.0.moves.unless_it_hangs(request, done),
            _ => Some(done),
        };
        if let Some(done) = done {
            done(self.0.answer(request));
        }
    }

    fn logins(&self) -> Option<Arc<Logins>> {
        Some(Arc::default())
    }
}

fn volume(name: &str) -> Volume {
    let json = serde_json::json!({
        "id": 1, "name": name, "size_bytes": 1 << 30, "raid": "raid1", "state": "online", "reason": "",
        "thick": false, "block_bytes": 512, "cache": "durable", "read_ahead_bytes": 0, "used_bytes": 0,
        "reserved_bytes": 0, "snapshots": 1, "origin": null, "created_unix_seconds": 7,
    });
    let info: VolumeInfo = serde_json::from_value(json).expect("a volume");
    Volume {
        info,
        iqn: format!("iqn.2026-11.dev.drystone:{name}"),
        sessions: 0,
        not_served: None,
        shared: Some(false),
        hosts: Hosts::Nobody,
        registrations: None,
        write_protected_by: None,
        not_there: NotThere::default(),
    }
}

fn snapshot(volume: &str, space: Option<SpaceInfo>) -> Snapshot {
    let json = serde_json::json!({
        "id": 1, "volume": volume, "name": "s", "size_bytes": 1, "created_unix_seconds": 1,
        "online": false, "access": "read-only", "view_id": null, "deleting": false,
    });
    let info: SnapshotInfo = serde_json::from_value(json).expect("a snapshot");
    Snapshot { info, iqn: None, space }
}

fn schedule(name: String) -> ScheduleShown {
    ScheduleShown {
        name,
        volumes: Vec::new(),
        timing: Timing::Every { seconds: 60 },
        keep: 7,
        paused: false,
        created_unix_seconds: 7,
        next_unix_seconds: None,
        waits: false,
        last: None,
        snapshots: 0,
    }
}

fn job(subject: String) -> JobInfo {
    JobInfo { kind: JobKind::Delete, subject, done_bytes: 0, total_bytes: 1, rate_bytes: 0 }
}

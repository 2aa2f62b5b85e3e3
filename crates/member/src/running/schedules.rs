//! What is asked about snapshot schedules, and the member as the world in which they run.

use std::rc::Rc;
use std::time::Duration;

use array::api::{SnapshotInfo, VolumeInfo, VolumeState};
use group::schedules::{
    Own, Plan, PlanChange, Schedule, ScheduleError, ScheduledVolume, Step, is_name_of_run,
};
use group::settings::{Settings, SettingsError};
use ring::wait::Guard;

use super::logins::unix_seconds;
use super::{Member, RequestError};
use crate::events::Event;
use crate::reply::Answer;
use crate::schedule_request::{
    LastRun, NewSchedule, ScheduleChange, ScheduleRequest, ScheduleShown, VolumeShown,
};
use crate::schedules::world::{Deleted, Seen, World};
use crate::settings::KeptError;

impl Member {
    pub(super) async fn schedule(&self, request: ScheduleRequest) -> Result<Answer, RequestError> {
        let name = match &request {
            ScheduleRequest::List => return Ok(Answer::Schedules(self.all_schedules()?)),
            ScheduleRequest::Show { name } => return self.show_schedule(name),
            ScheduleRequest::Create(NewSchedule { name, .. })
            | ScheduleRequest::Set { name, .. }
            | ScheduleRequest::Delete { name } => name.clone(),
        };
        let is_deleted = matches!(request, ScheduleRequest::Delete { .. });
        // None of it runs meanwhile.
        let _alone = self.taking.take().await;
        self.check_staying(request.volumes())?;
        self.check_schedules_staying(request.changed())?;
        self.change_schedule(request).await?;
        self.schedules_changed.ring();
        if is_deleted { Ok(Answer::Done) } else { self.show_schedule(&name) }
    }

    async fn change_schedule(&self, request: ScheduleRequest) -> Result<(), RequestError> {
        let now = unix_seconds();
        match request {
            ScheduleRequest::List | ScheduleRequest::Show { .. } => Ok(()),
            ScheduleRequest::Create(NewSchedule { name, volumes, timing, keep, paused }) => {
                let volumes = self.scheduled(volumes)?;
                let schedule = Schedule::new(Plan { volumes, timing, keep, paused }, now);
                let add = async move |settings: &mut Settings| {
                    settings.add_schedule(&name, schedule).await
                };
                self.set_unseen(add).await
            }
            ScheduleRequest::Set { name, change } => {
                let ScheduleChange { volumes, timing, keep, paused } = change;
                let volumes = volumes.map(|volumes| self.scheduled(volumes)).transpose()?;
                let change = PlanChange { volumes, timing, keep, paused };
                let set = async move |settings: &mut Settings| {
                    settings.change_schedule(&name, change, now).await
                };
                self.set_unseen(set).await
            }
            ScheduleRequest::Delete { name } => {
                let delete =
                    async move |settings: &mut Settings| settings.delete_schedule(&name).await;
                self.set_unseen(delete).await
            }
        }
    }

    pub(super) fn all_schedules(&self) -> Result<Vec<ScheduleShown>, RequestError> {
        let state = self.settings.state()?;
        let all = state.schedules.iter();
        Ok(all.map(|(name, schedule)| self.shown_schedule(name, schedule)).collect())
    }

    /// The volumes of these names, none of them twice and none in the recycle bin.
    pub(super) fn scheduled(
        &self,
        names: Vec<String>,
    ) -> Result<Vec<ScheduledVolume>, RequestError> {
        let mut volumes: Vec<ScheduledVolume> = Vec::new();
        for name in names {
            let VolumeInfo { id, state, .. } = self.find(&name)?;
            if state == VolumeState::Deleted {
                return Err(RequestError::InRecycleBin(name));
            }
            if volumes.iter().any(|volume| volume.id == id) {
                return Err(RequestError::NamedTwice(name));
            }
            volumes.push(ScheduledVolume { id, name });
        }
        Ok(volumes)
    }

    fn show_schedule(&self, name: &str) -> Result<Answer, RequestError> {
        let state = self.settings.state()?;
        let gone = || ScheduleError::NoSuchSchedule(name.to_owned());
        let schedule = state.schedules.get(name).ok_or_else(gone);
        let schedule = schedule.map_err(|error| KeptError::from(SettingsError::from(error)))?;
        Ok(Answer::Schedule(Box::new(self.shown_schedule(name, schedule))))
    }

    fn shown_schedule(&self, name: &str, schedule: &Schedule) -> ScheduleShown {
        let all = self.volumes();
        let Plan { volumes, timing, keep, paused } = &schedule.plan;
        let shown = |volume: &ScheduledVolume| {
            let there = all.iter().find(|info| info.id == volume.id);
            let name = there.map_or(&volume.name, |info| &info.name).clone();
            VolumeShown { name, is_gone: there.is_none() }
        };
        let last = schedule.last().map(|last| LastRun {
            planned_unix_seconds: last.planned_unix_seconds,
            outcome: last.outcome,
        });
        let now = unix_seconds();
        ScheduleShown {
            name: name.to_owned(),
            volumes: volumes.iter().map(shown).collect(),
            timing: *timing,
            keep: *keep,
            paused: *paused,
            created_unix_seconds: schedule.created_unix_seconds,
            next_unix_seconds: schedule.next_unix_seconds(now),
            waits: schedule.waits(now),
            last,
            snapshots: schedule.own_count(),
        }
    }

    /// Refuses a name that the snapshot of a run may have of which it is not stored yet what it took: whoever
    /// finds one must know that it is the schedule's.
    pub(super) fn check_name_of_run(
        &self,
        volumes: &[String],
        name: Option<&str>,
    ) -> Result<(), RequestError> {
        let Some(name) = name else { return Ok(()) };
        let is_one = match self.settings.state() {
            Err(_) => is_name_of_run(name),
            Ok(state) => {
                let ids = volumes.iter().filter_map(|volume| self.find(volume).ok());
                let ids: Vec<u32> = ids.map(|info| info.id).collect();
                let mut all = state.schedules.values();
                all.any(|schedule| ids.iter().any(|id| schedule.reserves(*id, name)))
            }
        };
        if is_one { Err(RequestError::NameOfRun(name.to_owned())) } else { Ok(()) }
    }

    /// A volume by its number, in the recycle bin or not.
    fn numbered(&self, id: u32) -> Option<VolumeInfo> {
        self.volumes().into_iter().find(|volume| volume.id == id)
    }

    /// Why a snapshot must stay, if it must.
    fn in_use(&self, snapshot: &SnapshotInfo) -> Option<&'static str> {
        // What cannot be told must not be deleted.
        let has_clones = self.array.has_clones(&snapshot.volume, snapshot.id).unwrap_or(true);
        match snapshot {
            SnapshotInfo { online: true, .. } => Some("it is online"),
            SnapshotInfo { view_id: Some(_), .. } => Some("hosts have written to it"),
            _ => has_clones.then_some("volumes were made of it"),
        }
    }
}

impl World for Rc<Member> {
    type Alone = Guard<()>;

    fn now_unix_seconds(&self) -> u64 {
        unix_seconds()
    }

    fn is_stopping(&self) -> bool {
        Member::is_stopping(self)
    }

    async fn rest(&self, at_most: Option<Duration>) {
        let changed = self.schedules_changed.rung();
        match at_most {
            Some(time) => drop(ring::timeout(time, changed).await),
            None => changed.await,
        }
    }

    async fn alone(&self) -> Guard<()> {
        self.taking.take().await
    }

    fn names(&self) -> Option<Vec<String>> {
        let state = self.settings.state().ok()?;
        Some(state.schedules.keys().cloned().collect())
    }

    fn schedule(&self, name: &str) -> Option<Schedule> {
        self.settings.state().ok()?.schedules.get(name).cloned()
    }

    async fn step(&self, name: &str, step: Step) -> Result<(), String> {
        let name = name.to_owned();
        let note = async move |settings: &mut Settings| settings.step_schedule(&name, step).await;
        self.set_unseen(note).await.map_err(|error| error.to_string())
    }

    fn volume(&self, id: u32) -> Option<String> {
        let info = self.numbered(id)?;
        let is_lost = matches!(info.state, VolumeState::Deleted | VolumeState::Lost);
        (!is_lost).then_some(info.name)
    }

    fn snapshots(&self, volume: u32) -> Option<Vec<Seen>> {
        let name = self.numbered(volume)?.name;
        let all = self.array.snapshots(&name).ok()?;
        let there = all.into_iter().filter(|snapshot| !snapshot.deleting);
        Some(there.map(|info| Seen { id: info.id, name: info.name }).collect())
    }

    async fn take(&self, volumes: &[u32], name: &str) -> Result<Vec<Own>, String> {
        // No volume passes its name on meanwhile.
        let _turn = self.turn.take().await;
        let named = |id: &u32| World::volume(self, *id).ok_or("a volume has just gone");
        let names: Vec<String> = volumes.iter().map(named).collect::<Result<_, _>>()?;
        let taken = self.take_snapshots(&names, Some(name)).await;
        let taken = taken.map_err(|error| error.to_string())?;
        let own = |(volume, info): (&u32, SnapshotInfo)| Own { volume: *volume, snapshot: info.id };
        Ok(volumes.iter().zip(taken).map(own).collect())
    }

    async fn delete(&self, own: Own) -> Result<Deleted, String> {
        let _turn = self.turn.take().await;
        let volume = World::volume(self, own.volume).ok_or("its volume has just gone")?;
        let all = self.array.snapshots(&volume).map_err(|error| error.to_string())?;
        let Some(snapshot) = all.into_iter().find(|s| s.id == own.snapshot && !s.deleting) else {
            return Ok(Deleted::Gone);
        };
        if let Some(why) = self.in_use(&snapshot) {
            return Ok(Deleted::InUse(why));
        }
        // Its name is its own until then: it could only pass on by a deletion and a snapshot.
        let deleted = self.array.delete_snapshot(&volume, &snapshot.name).await;
        self.forget_units().await;
        deleted.map(|()| Deleted::Gone).map_err(|error| error.to_string())
    }

    fn tell(&self, event: Event) {
        self.events.tell(event);
    }
}

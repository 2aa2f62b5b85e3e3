//! Snapshot schedules in the store.

use super::state::schedule_key;
use super::{Settings, SettingsError, State};
use crate::record::Setting;
use crate::schedules::{PlanChange, SCHEDULES_MAX, Schedule, ScheduleError, Step, check_name};
use crate::store::{Op, Selection};

impl State {
    /// A schedule, to be changed.
    pub(super) fn schedule(&self, name: &str) -> Result<&Schedule, SettingsError> {
        if let Some(error) = self.unreadable.get(&schedule_key(name)) {
            return Err(SettingsError::Unreadable(error.to_string()));
        }
        let found = self.schedules.get(name);
        found.ok_or_else(|| ScheduleError::NoSuchSchedule(name.to_owned()).into())
    }

    /// Whether there is one, also one that cannot be read.
    pub(super) fn has_schedule(&self, name: &str) -> bool {
        self.schedules.contains_key(name) || self.unreadable.contains_key(&schedule_key(name))
    }

    /// Refuses a schedule that cannot be, or is there.
    pub(super) fn check_new_schedule(
        &self,
        name: &str,
        schedule: &Schedule,
    ) -> Result<(), ScheduleError> {
        check_name(name)?;
        schedule.plan.check()?;
        if self.has_schedule(name) {
            return Err(ScheduleError::ScheduleExists(name.to_owned()));
        }
        if self.schedules.len() >= SCHEDULES_MAX {
            return Err(ScheduleError::TooManySchedules);
        }
        Ok(())
    }
}

impl Settings {
    /// Adds a schedule.
    ///
    /// # Errors
    /// [`ScheduleError`], or the store does not do it.
    pub async fn add_schedule(&self, name: &str, schedule: Schedule) -> Result<(), SettingsError> {
        self.change(|state| {
            state.check_new_schedule(name, &schedule)?;
            Ok((vec![Op::put(schedule_key(name), schedule.encode())], ()))
        })
        .await
    }

    /// Changes what is planned.
    ///
    /// # Errors
    /// There is none, it cannot be read, it cannot be so, or the store does not do it.
    pub async fn change_schedule(
        &self,
        name: &str,
        change: PlanChange,
        now_unix_seconds: u64,
    ) -> Result<(), SettingsError> {
        self.rewrite(name, |schedule| Ok(schedule.change(change.clone(), now_unix_seconds)?)).await
    }

    /// Notes how a schedule goes on.
    ///
    /// # Errors
    /// There is none, it cannot be read, or the store does not do it.
    pub async fn step_schedule(&self, name: &str, step: Step) -> Result<(), SettingsError> {
        let steps = |schedule: &mut Schedule| {
            schedule.step(step.clone());
            Ok(())
        };
        self.rewrite(name, steps).await
    }

    async fn rewrite(
        &self,
        name: &str,
        change: impl Fn(&mut Schedule) -> Result<(), SettingsError>,
    ) -> Result<(), SettingsError> {
        self.change(|state| {
            let mut schedule = state.schedule(name)?.clone();
            change(&mut schedule)?;
            Ok((vec![Op::put(schedule_key(name), schedule.encode())], ()))
        })
        .await
    }

    /// Deletes a schedule, also one that cannot be read. Its snapshots are nobody's from then on.
    ///
    /// # Errors
    /// There is none, or the store does not do it.
    pub async fn delete_schedule(&self, name: &str) -> Result<(), SettingsError> {
        self.change(|state| {
            if !state.has_schedule(name) {
                return Err(ScheduleError::NoSuchSchedule(name.to_owned()).into());
            }
            Ok((vec![Op::Delete(Selection::key(schedule_key(name)))], ()))
        })
        .await
    }
}

//! `drystone schedule`.

use super::{Desk, confirm::confirm};
use crate::Failure;
use crate::cli::schedule::{ScheduleArgs, ScheduleCommand};
use crate::print::table::Column::{Number, Text};
use crate::print::table::table_of_members;
use crate::print::units;
use anyhow::Context;
use api::client::{Client, ClientError};
use api::types::{NewSchedule, Schedule, ScheduleChange, ScheduledVolume};
use group::schedules::Timing;

/// Does what the command line says.
pub(crate) fn run(args: ScheduleArgs) -> Result<(), Failure> {
    let desk = Desk::new(&args.member)?;
    carry_out(&desk, args.command)
}

fn carry_out(desk: &Desk, command: ScheduleCommand) -> Result<(), Failure> {
    let pause = |name: &str, paused: bool| {
        let change = ScheduleChange { paused: Some(paused), ..ScheduleChange::default() };
        Ok(show(desk, |member| member.change_schedule(name, &change))?)
    };
    match command {
        ScheduleCommand::Create { name, volumes, when, keep, paused } => {
            let when = when.read()?.ok_or_else(|| {
                let sentence =
                    "when? Write one of --every 15m, --daily 03:00 and --weekly sun 03:00";
                Failure::Usage(sentence.to_owned())
            })?;
            let new = NewSchedule { name, volumes, when, keep, paused };
            Ok(show(desk, |member| member.create_schedule(&new))?)
        }
        ScheduleCommand::List => {
            let schedules = desk.ask_all(|member| member.schedules())?;
            Ok(desk.show(&schedules, |schedules| list(schedules))?)
        }
        ScheduleCommand::Show { name } => Ok(show(desk, |member| member.schedule(&name))?),
        ScheduleCommand::Set { name, volumes, when, keep } => {
            let volumes = (!volumes.is_empty()).then_some(volumes);
            let change = ScheduleChange { volumes, when: when.read()?, keep, paused: None };
            if change == ScheduleChange::default() {
                let sentence = "nothing is to be changed: write --volume, --keep, or one of --every, --daily and --weekly";
                return Err(Failure::Usage(sentence.to_owned()));
            }
            Ok(show(desk, |member| member.change_schedule(&name, &change))?)
        }
        ScheduleCommand::Pause { name } => pause(&name, true),
        ScheduleCommand::Resume { name } => pause(&name, false),
        ScheduleCommand::Delete { name, confirm: asked } => {
            let known = desk.ask(|member| member.schedule(&name))?;
            confirm(&asked, &format!("Take no more snapshots by schedule '{name}'?"))?;
            desk.ask(|member| member.delete_schedule(&name))?;
            let stay = match known.snapshots {
                0 => String::new(),
                snapshots => format!(
                    "; its {} stay: 'drystone snapshot delete' gives their space back",
                    units::count(snapshots as usize, "snapshot")
                ),
            };
            Ok(desk.done(&format!("schedule '{name}' is gone{stay}"))?)
        }
    }
}

fn show(
    desk: &Desk,
    call: impl FnOnce(&Client) -> Result<Schedule, ClientError>,
) -> anyhow::Result<()> {
    let schedule = desk.ask(call)?;
    desk.show(&schedule, |schedule| list(std::slice::from_ref(schedule)))
}

fn list(schedules: &[Schedule]) -> anyhow::Result<String> {
    if schedules.is_empty() {
        return Ok("there are no schedules: 'drystone schedule create NAME' makes one\n".to_owned());
    }
    let columns = [
        Text("SCHEDULE"),
        Text("VOLUMES"),
        Text("WHEN (UTC)"),
        Number("KEEP"),
        Number("SNAPSHOTS"),
        Text("NEXT"),
        Text("LAST"),
    ];
    let rows: anyhow::Result<Vec<_>> = schedules.iter().map(row).collect();
    Ok(table_of_members(columns, rows?))
}

fn row(schedule: &Schedule) -> anyhow::Result<(Option<String>, [String; 7])> {
    let named = |volume: &ScheduledVolume| match volume.gone {
        true => format!("{} (gone)", volume.name),
        false => volume.name.clone(),
    };
    let volumes: Vec<String> = schedule.volumes.iter().map(named).collect();
    let when = Timing::try_from(schedule.when.clone()).context("the answer does not read")?;
    let next = schedule.next_unix_seconds.map_or_else(|| "paused".to_owned(), units::time);
    let last = schedule.last.as_ref().map_or_else(
        || "-".to_owned(),
        |last| format!("{} {}", units::time(last.planned_unix_seconds), last.outcome.word()),
    );
    let cells = [
        schedule.name.clone(),
        volumes.join(","),
        when.to_string(),
        schedule.keep.to_string(),
        schedule.snapshots.to_string(),
        next,
        last,
    ];
    Ok((schedule.member.clone(), cells))
}

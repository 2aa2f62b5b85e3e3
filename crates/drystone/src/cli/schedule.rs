//! The options of `drystone schedule`.

use crate::Failure;
use crate::cli::logins::parse_time;
use crate::cli::manage::{Confirm, MemberArgs};
use api::types::When;
use clap::{Args, Subcommand};
use group::schedules::{TimeOfDay, Timing, Weekday};
use std::fmt::Display;
use std::time::Duration;

/// Examples at the foot of `drystone schedule --help`.
pub(crate) const EXAMPLES: &str = "\
Examples:
  drystone schedule create nightly --volume vm1 --daily 03:00 --keep 7
  drystone schedule create often --volume db --volume log --every 15m --keep 96
          Two volumes at the same moment, for a day
  drystone schedule create weekly --volume vm1 --weekly sun 03:00 --keep 8
  drystone schedule list
  drystone schedule set nightly --keep 14
  drystone schedule pause nightly

All times are UTC. Snapshots are called after the schedule and the moment, such as nightly-20261127-030000.
When a new one was taken, the oldest of those that the schedule itself took are deleted; one that is online,
that hosts have written to, or that was cloned, is kept.";

/// What to do with schedules.
#[derive(Debug, Args)]
pub(crate) struct ScheduleArgs {
    /// What to do.
    #[command(subcommand)]
    pub(crate) command: ScheduleCommand,

    /// Which member, and how to print.
    #[command(flatten)]
    pub(crate) member: MemberArgs,
}

/// When a schedule is due.
#[derive(Debug, Args)]
#[group(id = "when", multiple = false)]
pub(crate) struct WhenArgs {
    /// Again and again: a number and m, h or d, such as 15m or 4h. Counted from midnight UTC where a day is a
    /// multiple of it.
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    every: Option<Duration>,

    /// Each day at this time (UTC), such as 03:00.
    #[arg(long, value_name = "HH:MM")]
    daily: Option<TimeOfDay>,

    /// Each week on this day and at this time (UTC), such as sun 03:00.
    #[arg(long, value_names = ["DAY", "HH:MM"], num_args = 2)]
    weekly: Vec<String>,
}

impl WhenArgs {
    /// What was written, if anything.
    ///
    /// # Errors
    /// The day or the time of `--weekly` does not read.
    pub(crate) fn read(&self) -> Result<Option<When>, Failure> {
        let unread = |error: &dyn Display| Failure::Usage(format!("--weekly: {error}"));
        let timing = match (self.every, self.daily, &self.weekly[..]) {
            (Some(every), ..) => Timing::Every { seconds: every.as_secs() },
            (_, Some(at), _) => Timing::Daily { at },
            (_, _, [day, at]) => {
                let day = day.parse::<Weekday>().map_err(|error| unread(&error))?;
                let at = at.parse::<TimeOfDay>().map_err(|error| unread(&error))?;
                Timing::Weekly { day, at }
            }
            _ => return Ok(None),
        };
        Ok(Some(timing.into()))
    }
}

/// What to do with schedules.
#[derive(Debug, Subcommand)]
pub(crate) enum ScheduleCommand {
    /// Have snapshots taken by themselves.
    #[command(
        after_long_help = "Examples:\n  drystone schedule create nightly --volume vm1 --daily 03:00 --keep 7\n  drystone schedule create often --volume db --volume log --every 15m --keep 96"
    )]
    Create {
        /// Its name, with which those of its snapshots begin.
        #[arg(value_name = "NAME")]
        name: String,

        /// A volume; write it again for several, which are taken at the same moment.
        #[arg(long = "volume", value_name = "VOLUME", required = true)]
        volumes: Vec<String>,

        /// When.
        #[command(flatten)]
        when: WhenArgs,

        /// How many snapshots of each volume are kept.
        #[arg(long, value_name = "NUMBER")]
        keep: u32,

        /// Begin only with 'drystone schedule resume'.
        #[arg(long)]
        paused: bool,
    },

    /// List all schedules, when they are due, and what came of them.
    #[command(after_long_help = "Examples:\n  drystone schedule list")]
    List,

    /// Show a schedule.
    #[command(after_long_help = "Examples:\n  drystone schedule show nightly")]
    Show {
        /// Its name.
        #[arg(value_name = "NAME")]
        name: String,
    },

    /// Change a schedule; what is not written stays.
    #[command(
        after_long_help = "Examples:\n  drystone schedule set nightly --keep 14\n  drystone schedule set nightly --daily 04:30\n  drystone schedule set nightly --volume vm1 --volume vm2"
    )]
    Set {
        /// Its name.
        #[arg(value_name = "NAME")]
        name: String,

        /// All volumes that it is for from now on. Snapshots of those that are left out stay.
        #[arg(long = "volume", value_name = "VOLUME")]
        volumes: Vec<String>,

        /// When.
        #[command(flatten)]
        when: WhenArgs,

        /// How many snapshots of each volume are kept, from its next run on.
        #[arg(long, value_name = "NUMBER")]
        keep: Option<u32>,
    },

    /// Take no snapshots for now.
    #[command(after_long_help = "Examples:\n  drystone schedule pause nightly")]
    Pause {
        /// Its name.
        #[arg(value_name = "NAME")]
        name: String,
    },

    /// Go on after a pause, with the next moment.
    #[command(after_long_help = "Examples:\n  drystone schedule resume nightly")]
    Resume {
        /// Its name.
        #[arg(value_name = "NAME")]
        name: String,
    },

    /// Delete a schedule. Its snapshots stay, and nothing deletes them by itself any more.
    #[command(after_long_help = "Examples:\n  drystone schedule delete nightly")]
    Delete {
        /// Its name.
        #[arg(value_name = "NAME")]
        name: String,

        /// Whether to ask.
        #[command(flatten)]
        confirm: Confirm,
    },
}

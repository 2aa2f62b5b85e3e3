//! `drystone array`.

use super::{Desk, progress};
use crate::Failure;
use crate::cli::array::{ArrayArgs, ArrayCommand};
use crate::control::request::{ArrayRequest, Request};
use crate::print::details::details;
use crate::print::table::Column::{Number, Text};
use crate::print::table::table;
use crate::print::units;
use crate::spec::member::MemberDisk;
use crate::up::{disks, opening};
use ::array::OpenOptions;
use anyhow::{Context, bail};
use array::api::{ArrayInfo, CheckReport, JobInfo, JobKind, SettingsChange};

/// What restores or moves data.
const REBUILDS: [JobKind; 3] = [JobKind::Rebuild, JobKind::Resync, JobKind::CopyOut];

/// Does what the command line says.
pub(crate) fn run(args: ArrayArgs) -> Result<(), Failure> {
    let desk = Desk::new(&args.member)?;
    Ok(carry_out(&desk, args.command)?)
}

fn carry_out(desk: &Desk, command: ArrayCommand) -> anyhow::Result<()> {
    let show = |request| {
        let array: ArrayInfo = desk.ask(&Request::Array(request))?;
        desk.show(&array, |array| Ok(details(array)?))
    };
    match command {
        ArrayCommand::Show => show(ArrayRequest::Show),
        ArrayCommand::Scrub => {
            let report: CheckReport = desk.follow(&Request::Array(ArrayRequest::Scrub))?;
            judge(desk, &report)
        }
        ArrayCommand::RebuildStatus { wait } => {
            if wait {
                desk.wait_for(&REBUILDS)?;
            }
            let mut jobs: Vec<JobInfo> = desk.ask(&Request::Array(ArrayRequest::Jobs))?;
            jobs.retain(|job| REBUILDS.contains(&job.kind));
            desk.show(&jobs, |jobs| Ok(list(jobs)))
        }
        ArrayCommand::Set(args) => show(ArrayRequest::Set(SettingsChange {
            rebuild_share_percent: args.rebuild_share,
            scrub_days: args.scrub_every,
            warn_percents: args.warn_at,
        })),
        ArrayCommand::Check { disks } if disks.is_empty() => {
            let report: CheckReport = desk.follow(&Request::Array(ArrayRequest::Check))?;
            judge(desk, &report)
        }
        ArrayCommand::Check { disks } => judge(desk, &check_disks(&disks)?),
    }
}

/// Prints what was found; problems are a failure.
fn judge(desk: &Desk, report: &CheckReport) -> anyhow::Result<()> {
    desk.show(report, |report| {
        let CheckReport { pages, clusters, stripes, problems, .. } = report;
        let mut text = format!(
            "{pages} pages of metadata, {clusters} clusters of data and {stripes} stripes were verified\n"
        );
        let CheckReport { wrong_blocks, repaired_blocks, lost_blocks, .. } = report;
        if *wrong_blocks > 0 {
            text.push_str(&format!(
                "{wrong_blocks} blocks of 4 KiB were wrong: {repaired_blocks} repaired, {lost_blocks} lost\n"
            ));
        }
        problems.iter().for_each(|problem| text.push_str(&format!("{problem}\n")));
        Ok(text)
    })?;
    match report.problems.len() {
        0 => Ok(()),
        1 => bail!("there is a problem: see above"),
        count => bail!("there are {count} problems: see above"),
    }
}

/// Opens the array on these disks, which finishes what a crash left half done, and verifies it.
fn check_disks(named: &[MemberDisk]) -> anyhow::Result<CheckReport> {
    let open = disks::open_all(named)?;
    let checked = ring::block_on(&ring::CoreConfig::default(), async move {
        let array = opening::open_existing(open, OpenOptions::default()).await?;
        let report = array.check().await?;
        array.close().await?;
        anyhow::Ok(report)
    });
    checked.context("cannot start the I/O engine")?
}

fn list(jobs: &[JobInfo]) -> String {
    if jobs.is_empty() {
        return "nothing is being rebuilt\n".to_owned();
    }
    let columns =
        [Text("WORK"), Text("OF"), Number("DONE"), Number("OF"), Number("RATE"), Number("LEFT")];
    let row = |job: &JobInfo| {
        let left_bytes = job.total_bytes.saturating_sub(job.done_bytes);
        let left = left_bytes.checked_div(job.rate_bytes);
        [
            progress::word(job.kind).to_owned(),
            job.subject.clone(),
            units::bytes(job.done_bytes),
            units::bytes(job.total_bytes),
            if job.rate_bytes == 0 {
                "-".to_owned()
            } else {
                format!("{}/s", units::bytes(job.rate_bytes))
            },
            left.map_or_else(|| "-".to_owned(), |seconds| format!("{seconds} s")),
        ]
    };
    table(columns, jobs.iter().map(row))
}

//! `drystone array`.

use super::disk::state;
use super::{Desk, run};
use crate::Failure;
use crate::advice::{Advised, advised};
use crate::cli::array::{ArrayArgs, ArrayCommand};
use crate::print::details::details;
use crate::print::table::Column::{Number, Text};
use crate::print::table::table;
use crate::print::units;
use ::array::OpenOptions;
use anyhow::{Context, anyhow, bail};
use api::client::{Client, ClientError};
use api::types::{
    Array, ArrayChange, ArrayWork, Disk, DiskState, Job, JobKind, Report, Volume, VolumeState,
};
use member::memory::CacheMemory;
use member::opening::{self, StartError, disks};
use member::spec::disk::MemberDisk;
use serde::Serialize;

/// What restores or moves data.
pub(super) const REBUILDS: [JobKind; 2] = [JobKind::Rebuild, JobKind::Rebalance];

/// Does what the command line says.
pub(crate) fn array(args: ArrayArgs) -> Result<(), Failure> {
    let desk = Desk::new(&args.member)?.of_one_member();
    Ok(carry_out(&desk, args.command)?)
}

fn carry_out(desk: &Desk, command: ArrayCommand) -> anyhow::Result<()> {
    match command {
        ArrayCommand::Show => show(desk, "", |member| member.array()),
        ArrayCommand::Scrub => verify(desk, ArrayWork::Scrub),
        ArrayCommand::Rebalance => {
            run::follow(desk, ArrayWork::Rebalance)?;
            desk.done("the data is spread over all disks")
        }
        ArrayCommand::RebuildStatus { wait } => {
            if wait {
                desk.wait_for(&REBUILDS)?;
            }
            let mut jobs = desk.ask(|member| member.jobs())?;
            jobs.retain(|job| job.kind != JobKind::Delete);
            let disks = desk.ask(|member| member.disks())?;
            desk.show(&jobs, |jobs| Ok(list(jobs, &disks)))
        }
        ArrayCommand::Set(args) => {
            let change = ArrayChange {
                rebuild_share_percent: args.rebuild_share,
                scrub_days: args.scrub_every,
                warn_percents: args.warn_at,
                cache_memory_bytes: args.cache_memory.map(cache_bytes),
            };
            let note = if args.cache_memory.is_some() { UNTIL_IT_STOPS } else { "" };
            show(desk, note, |member| member.change_array(&change))
        }
        ArrayCommand::Check { disks } if disks.is_empty() => verify(desk, ArrayWork::Check),
        ArrayCommand::Check { disks } => judge(desk, &check_disks(&disks)?),
    }
}

/// What is said of the memory of the read cache, which the array does not remember.
const UNTIL_IT_STOPS: &str = "\nthe read cache keeps to this until the member stops: at its next start cache-memory in \
                              member.toml, or --cache-memory of drystone up, decides\n";

/// As the interface has it.
fn cache_bytes(memory: CacheMemory) -> u64 {
    match memory {
        CacheMemory::Auto => 0,
        CacheMemory::Bytes(bytes) => bytes,
    }
}

/// Asks for something that ends with the array, and shows that; for people also a note.
fn show(
    desk: &Desk,
    note: &str,
    call: impl FnOnce(&Client) -> Result<Array, ClientError>,
) -> anyhow::Result<()> {
    let info = desk.ask(call)?;
    let disks = desk.ask(|member| member.disks())?;
    let volumes = desk.ask(|member| member.volumes())?;
    let shown = Shown { health: health(&info, &disks, &volumes), info };
    desk.show(&shown, |shown| {
        let cache = cache_line(&shown.info.cache_memory);
        let mut shown = serde_json::to_value(shown)?;
        shown["cache_memory"] = cache.into();
        Ok(details(&shown)? + note)
    })
}

/// What the read cache holds and how it does; `None` of a member that has none.
pub(super) fn cache_line(cache: &api::types::CacheMemory) -> Option<String> {
    let api::types::CacheMemory { bytes, bytes_max, hits, misses, evicted } = *cache;
    let share = units::share(hits, misses);
    let hits =
        share.map_or_else(String::new, |share| format!(", {share} of what was read was in memory"));
    let gone = if evicted > 0 { format!(", {evicted} blocks evicted") } else { String::new() };
    let (held, most) = (units::bytes(bytes), units::bytes(bytes_max));
    (bytes_max > 0).then(|| format!("{held} of {most}{hits}{gone}"))
}

/// Has everything read by the member, and says what was found.
fn verify(desk: &Desk, work: ArrayWork) -> anyhow::Result<()> {
    let report = run::follow(desk, work)?.report;
    let report = report.context("the member says that it is done, and not what it found")?;
    let disks = desk.ask(|member| member.disks())?;
    judge(desk, &with_disks(report, &disks))
}

/// The array, and how it does in a few words.
#[derive(Debug, Serialize)]
struct Shown {
    health: String,
    #[serde(flatten)]
    info: Array,
}

/// The worst first: a word that scripts can look for, and what it is about.
pub(super) fn health(info: &Array, disks: &[Disk], volumes: &[Volume]) -> String {
    let in_state = |state| volumes.iter().filter(|volume| volume.state == state).count();
    let (lost, degraded) = (in_state(VolumeState::Lost), in_state(VolumeState::Degraded));
    let closed = volumes.iter().filter(|volume| volume.not_served.is_some()).count();
    let out = disks.iter().filter(|disk| disk.state != DiskState::Online).count();
    let word = match (lost, degraded + out) {
        _ if !info.stalls.is_empty() => return format!("stalled: {}", info.stalls.join("; ")),
        (0, 0) if info.warnings.is_empty() && closed == 0 => return "healthy".to_owned(),
        (0, 0) => "needs attention",
        (0, _) => "degraded",
        (_, _) => "lost",
    };
    let parts = [
        (lost, "volume", "lost"),
        (closed, "volume", "not served"),
        (degraded, "volume", "degraded"),
        (out, "disk", "not online"),
    ];
    let parts = parts.into_iter().filter(|(count, _, _)| *count > 0);
    let mut about: Vec<String> = parts
        .map(|(count, noun, how)| {
            let verb = if count == 1 { "is" } else { "are" };
            format!("{} {verb} {how}", units::count(count, noun))
        })
        .collect();
    if about.is_empty() {
        about.clone_from(&info.warnings);
    }
    format!("{word}: {}", about.join(", "))
}

/// One sentence for each disk that is not there: what is to become of its data, and what to do.
pub(super) fn gone(disks: &[Disk]) -> impl Iterator<Item = String> {
    let is_gone = |disk: &&Disk| matches!(disk.state, DiskState::Missing | DiskState::Failed);
    disks.iter().filter(is_gone).map(about)
}

/// How a disk does, and why.
pub(super) fn about(disk: &Disk) -> String {
    format!("disk {} is {}: {}", disk.name, state(disk.state), disk.reason)
}

/// What was verified is not all there should be while disks are not there.
fn with_disks(mut report: Report, disks: &[Disk]) -> Report {
    report.problems.extend(gone(disks));
    report
}

/// Prints what was found; what is lost or contradicts itself is a failure.
fn judge(desk: &Desk, report: &Report) -> anyhow::Result<()> {
    desk.show(report, |report| {
        let mut text = verdict(report);
        report.problems.iter().for_each(|problem| text.push_str(&format!("{problem}\n")));
        Ok(text)
    })?;
    match (report.lost_blocks, report.problems.len()) {
        (0, 0) => Ok(()),
        (0, count) => bail!("something is wrong: {} above", units::count(count, "line")),
        (lost, _) => bail!("{} of 4 KiB {} lost for good", blocks(lost), were(lost)),
    }
}

/// What was found, the most important first.
fn verdict(report: &Report) -> String {
    let Report { pages, clusters, stripes, wrong_blocks, repaired_blocks, lost_blocks, .. } =
        report;
    let found = match (wrong_blocks, lost_blocks) {
        (0, 0) if report.problems.is_empty() => "all is well".to_owned(),
        (0, 0) => "no block was found to be wrong, but not everything is well or could be verified"
            .to_owned(),
        _ => format!(
            "{} of 4 KiB {} wrong: {repaired_blocks} repaired, {lost_blocks} lost",
            blocks(*wrong_blocks),
            were(*wrong_blocks)
        ),
    };
    format!(
        "{found}\n{pages} pages of metadata, {clusters} clusters of data and {stripes} stripes were verified\n"
    )
}

fn blocks(count: u64) -> String {
    format!("{count} block{}", if count == 1 { "" } else { "s" })
}

fn were(count: u64) -> &'static str {
    if count == 1 { "was" } else { "were" }
}

/// Opens the array on these disks, which finishes what a crash left half done, and verifies it.
fn check_disks(named: &[MemberDisk]) -> anyhow::Result<Report> {
    let open = disks::open_all(named).map_err(advised)?;
    let checked = ring::block_on(&ring::CoreConfig::default(), async move {
        let array = opening::open_existing(open, OpenOptions::default()).await;
        let array = array.map_err(|error| {
            let missing = Vec::new();
            anyhow!(StartError::Open { error, missing }.sentence())
        })?;
        let disks: Vec<Disk> = array.disks().into_iter().map(Into::into).collect();
        let report = with_disks(array.check().await?.into(), &disks);
        array.close().await?;
        anyhow::Ok(report)
    });
    checked.context("cannot start the I/O engine")?
}

/// What is under way, and what has to wait for something.
fn list(jobs: &[Job], disks: &[Disk]) -> String {
    let mut text = match jobs.is_empty() {
        true => "nothing is being rebuilt\n".to_owned(),
        false => under_way(jobs),
    };
    gone(disks).for_each(|line| text.push_str(&format!("{line}\n")));
    text
}

fn under_way(jobs: &[Job]) -> String {
    let columns =
        [Text("WORK"), Text("OF"), Number("DONE"), Number("OF"), Number("RATE"), Number("LEFT")];
    let row = |job: &Job| {
        let left_bytes = job.total_bytes.saturating_sub(job.done_bytes);
        let left = left_bytes.checked_div(job.rate_bytes);
        [
            job.kind.word().to_owned(),
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_read_cache_is_told_in_a_line() {
        let mut cache = api::types::CacheMemory::default();
        assert_eq!(cache_line(&cache), None);
        cache.bytes_max = 1 << 30;
        assert_eq!(cache_line(&cache).as_deref(), Some("0 B of 1 GiB"));
        (cache.bytes, cache.hits, cache.misses, cache.evicted) = (1 << 20, 9, 1, 7);
        let line = "1 MiB of 1 GiB, 90 % of what was read was in memory, 7 blocks evicted";
        assert_eq!(cache_line(&cache).as_deref(), Some(line));
    }

    #[test]
    fn a_verdict_says_how_much_was_wrong_and_what_became_of_it() {
        let well = Report { clusters: 7, ..Report::default() };
        assert!(verdict(&well).starts_with("all is well\n0 pages of metadata, 7 clusters"));
        let repaired = Report { wrong_blocks: 31, repaired_blocks: 31, ..well.clone() };
        assert!(
            verdict(&repaired).starts_with("31 blocks of 4 KiB were wrong: 31 repaired, 0 lost\n")
        );
        let other = Report { problems: vec!["x".into()], ..well };
        assert!(verdict(&other).starts_with("no block was found to be wrong, but not everything"));
    }
}

//! How long a failed disk takes to be rebuilt onto the others.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;

use super::bed::Bed;
use super::member::Member;
use super::sheet::Part;
use crate::load::Order;
use crate::suite::{Row, row};

const READ: Row =
    row("256k-read", "256 KiB sequential read", 100, Order::Sequential, 256 << 10, (16, 1));
const DISK: &str = "sim:sas10k:1536M";
const DISKS: u64 = 12;
/// Levels, and copies or parity as a factor of the data in percent.
const LEVELS: [(&str, u64); 2] = [("raid10", 200), ("raid6", 125)];
/// How much faster than one disk can be read.
const ASKED: f64 = 4.0;
/// A rebuild begins within, and ends within.
const BEGIN_MAX: Duration = Duration::from_secs(5);
const END_MAX: Duration = Duration::from_secs(180);
const POLL: Duration = Duration::from_millis(50);

pub(super) fn run(bed: &Bed<'_>, part: &mut Part) -> Result<()> {
    let size_bytes: u64 = if bed.settings.quick { 1 << 30 } else { 4 << 30 };
    part.note(format!(
        "One volume of {} MiB on {DISKS} disks `{DISK}`, all of it written; one disk is declared \
         failed. Reading one disk means reading as many bytes as it held, from its fastest zone.",
        size_bytes >> 20
    ));
    let disk = bed.export("disk", DISK)?;
    let entrant = disk.entrant("one disk", size_bytes / DISKS);
    bed.fill(&entrant)?;
    part.lines = bed.turns(&[READ], &[entrant])?;
    let rate = part.figure(READ.title, "one disk", |run| run.mb_per_s * 1e6);
    for (level, percent) in LEVELS {
        let member = bed.up(level, &vec![DISK.to_owned(); DISKS as usize], &[])?;
        bed.fill(&member.volume("data", size_bytes, level)?)?;
        let held_bytes = size_bytes * percent / 100 / DISKS;
        let seconds = rebuild(&member, bed)?.as_secs_f64();
        part.note(format!(
            "{level}: {} MiB of the failed disk were rebuilt in {seconds:.2} s.",
            held_bytes >> 20
        ));
        let found = Some(held_bytes as f64 / seconds / 1e6);
        part.mark(
            format!("rebuild of {level} to reading one disk"),
            found,
            rate.map(|rate| rate / 1e6),
            ASKED,
            "MB/s",
        );
    }
    Ok(())
}

/// Fails a disk and waits for the end of its rebuild.
fn rebuild(member: &Member, bed: &Bed<'_>) -> Result<Duration> {
    let disks = member.ask(&["disk", "list"])?;
    let name = disks[0]["name"].as_str().context("`disk list --json` names no disk")?;
    let begun = Instant::now();
    member.ask(&["disk", "fail", name, "--yes"])?;
    let mut seen = false;
    loop {
        if bed.stop.load(Ordering::Relaxed) {
            bail!("stopped by a signal");
        }
        let status = member.ask(&["array", "rebuild-status"])?;
        let running = runs(&status);
        if seen && !running {
            return Ok(begun.elapsed());
        }
        seen |= running;
        ensure!(seen || begun.elapsed() < BEGIN_MAX, "no rebuild began: {status}");
        ensure!(begun.elapsed() < END_MAX, "the rebuild did not end in time: {status}");
        std::thread::sleep(POLL);
    }
}

/// Whether the answer to `rebuild-status` tells of work that goes on.
pub(super) fn runs(status: &Value) -> bool {
    let rebuilds = |jobs: &Value| {
        jobs.as_array().is_some_and(|jobs| jobs.iter().any(|job| job["kind"] == "rebuild"))
    };
    rebuilds(status) || rebuilds(&status["jobs"])
}

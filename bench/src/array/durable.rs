//! Whether small durable writes come near to what a log on the journal's device takes.

use std::fs::{self, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use super::bed::{Bed, files};
use super::member::Member;
use super::sheet::{Line, Part};
use crate::load::Order;
use crate::suite::{Row, median, row};

pub(super) const WRITES: Row =
    row("4k-write-32", "4 KiB random durable write, depth 32", 0, Order::Random, 4096, (32, 1));
const BURST: Row = row(
    "4k-write-burst",
    "4 KiB random durable write into an empty journal, depth 32",
    0,
    Order::Random,
    4096,
    (32, 1),
);
/// As long as the journal, of 256 MiB, surely takes all writes before the first is destaged.
const BURST_LENGTH: Duration = Duration::from_millis(250);
const BLOCK_BYTES: usize = 4096;
/// Sparse: the journal is as long as the disks' size allows.
const DISK_BYTES: u64 = 32 << 30;
pub(super) const LEVELS: [(&str, &str); 3] =
    [("raid10", "RAID 10"), ("raid5", "RAID 5"), ("raid6", "RAID 6")];
const DISKS: usize = 6;
const BURST_BYTES: u64 = 128 << 20;
const LOG_BYTES: u64 = 128 << 20;
/// Blocks of one append: one, and as many as the volume has under way.
const BATCHES: [usize; 2] = [1, 32];
/// What a volume has to reach of the log, and the levels of RAID 10.
const ASKED: f64 = 0.5;
const ASKED_LEVELS: f64 = 0.8;

pub(super) fn run(bed: &Bed<'_>, part: &mut Part) -> Result<()> {
    let size_bytes: u64 = if bed.settings.quick { 128 << 20 } else { 512 << 20 };
    let directory = bed.on_disk("durable")?;
    let member = member(bed, "durable", part)?;
    part.note(
        "The log: one thread appends to a file on that disk, which was written before so that \
         nothing but the data has to be synced, and calls fdatasync after each append.",
    );
    let mut entrants = Vec::new();
    for (level, _) in LEVELS {
        let entrant = member.volume(level, size_bytes, level)?;
        bed.fill(&entrant)?;
        entrants.push(entrant);
    }
    let mut logs = BATCHES.map(|_| Vec::new());
    for _ in 0..3 {
        for (rates, batch) in logs.iter_mut().zip(BATCHES) {
            rates.push(log_blocks_per_s(&directory, batch, bed)?);
        }
        // The log before and after, too: a disk of a virtual machine is not the same every minute.
        if part.lines.is_empty() {
            part.lines = bed.turns(&[WRITES], &entrants)?;
        }
    }
    let iops = |name: &str| part.figure(WRITES.title, name, |run| run.iops);
    let found = LEVELS.map(|(level, name)| (name, iops(level)));
    for (rates, batch) in logs.iter().zip(BATCHES) {
        let log = median(rates.iter().copied());
        let rate = log.unwrap_or(f64::NAN);
        part.note(format!("The log takes {rate:.0} blocks of 4 KiB a second, {batch} an append."));
        for (level, found) in found {
            let title = format!("writes of {level} to a log that appends {batch} block(s)");
            part.mark(title, found, log, ASKED, "blocks/s");
        }
    }
    drop(member);
    bursts(bed, part)
}

/// A member whose journal is on a real disk.
pub(super) fn member(bed: &Bed<'_>, name: &str, part: &mut Part) -> Result<Member> {
    part.note(
        "The journal is a file on a real disk, the disks are files on a tmpfs; the journal's ring \
         is 256 MiB long.",
    );
    let more = format!("--journal={}:1G", bed.on_disk(name)?.join("journal").display());
    bed.up(name, &files(&bed.in_memory(name)?, DISKS, DISK_BYTES), &[&more])
}

/// What the journal alone takes: each level on a member of its own, whose journal is empty.
fn bursts(bed: &Bed<'_>, part: &mut Part) -> Result<()> {
    let mut lines = LEVELS.map(|(level, _)| Line::new(BURST.title, level));
    for round in 0..bed.settings.rounds {
        for (line, (level, _)) in lines.iter_mut().zip(LEVELS) {
            let name = format!("burst-{level}-{round}");
            let journal = bed.on_disk(&name)?.join("journal");
            let disks = bed.in_memory(&name)?;
            let more = format!("--journal={}:1G", journal.display());
            let member = bed.up(&name, &files(&disks, DISKS, DISK_BYTES), &[&more])?;
            let entrant = member.volume(level, BURST_BYTES, level)?;
            // Whole clusters go past the journal.
            bed.fill(&entrant)?;
            bed.burst(&BURST, &entrant, BURST_LENGTH, line)?;
            drop(member);
            fs::remove_dir_all(&disks)?;
        }
    }
    part.lines.extend(lines);
    let found = LEVELS.map(|(level, name)| (name, part.figure(BURST.title, level, |run| run.iops)));
    for (name, iops) in &found[1..] {
        let title = format!("bursts of {name} to bursts of RAID 10");
        part.mark(title, *iops, found[0].1, ASKED_LEVELS, "IOPS");
    }
    Ok(())
}

/// Blocks that a loop of appends and syncs writes in a second.
fn log_blocks_per_s(directory: &Path, batch: usize, bed: &Bed<'_>) -> Result<f64> {
    let path = directory.join("log");
    let bytes = vec![0x5a; BLOCK_BYTES * batch];
    let file = OpenOptions::new().create(true).truncate(false).write(true).open(&path);
    let file = file.with_context(|| format!("create {}", path.display()))?;
    if file.metadata()?.len() < LOG_BYTES {
        for at in (0..LOG_BYTES).step_by(1 << 20) {
            file.write_all_at(&vec![0; 1 << 20], at)?;
        }
        file.sync_all()?;
    }
    let time = bed.settings.measure.max(Duration::from_millis(500));
    let (begun, mut appends) = (Instant::now(), 0u64);
    while begun.elapsed() < time {
        if bed.stop.load(Ordering::Relaxed) {
            bail!("stopped by a signal");
        }
        let at = appends * bytes.len() as u64 % LOG_BYTES;
        file.write_all_at(&bytes, at)?;
        file.sync_data()?;
        appends += 1;
    }
    Ok((appends * batch as u64) as f64 / begun.elapsed().as_secs_f64())
}

//! Whether a volume streams as fast as the disks it lies on, which are simulated so that their sum
//! is known.

use anyhow::Result;

use super::bed::Bed;
use super::sheet::Part;
use crate::load::Order;
use crate::suite::{Row, row};

const READ: Row =
    row("256k-read", "256 KiB sequential read", 100, Order::Sequential, 256 << 10, (32, 1));
const WRITE: Row =
    row("256k-write", "256 KiB sequential durable write", 0, Order::Sequential, 256 << 10, (32, 1));
const DISK: &str = "sim:sas10k:2G";
const DISKS: u64 = 6;
/// Levels, and how many of the disks' worth hold data: all but mirrors and parity.
const LEVELS: [(&str, u64); 3] = [("raid10", 3), ("raid5", 5), ("raid6", 4)];
/// What a volume has to reach of the sum.
const ASKED: f64 = 0.85;

pub(super) fn run(bed: &Bed<'_>, part: &mut Part) -> Result<()> {
    let size_bytes: u64 = if bed.settings.quick { 384 << 20 } else { 1536 << 20 };
    // Zones: disk and volumes must use the same, outer part of the platters.
    let one_bytes = size_bytes / DISKS;
    part.note(format!(
        "Volumes of {} MiB on one array of {DISKS} disks `{DISK}`; one such disk by itself for what \
         they sum up to.",
        size_bytes >> 20
    ));
    let disk = bed.export("disk", DISK)?;
    let member = bed.up("sequential", &vec![DISK.to_owned(); DISKS as usize], &[])?;
    let mut entrants = vec![disk.entrant("one disk", one_bytes)];
    for (level, _) in LEVELS {
        entrants.push(member.volume(level, size_bytes, level)?);
    }
    for entrant in &entrants {
        bed.fill(entrant)?;
    }
    part.lines = bed.turns(&[READ, WRITE], &entrants)?;
    for work in [READ, WRITE] {
        let one = part.figure(work.title, "one disk", |run| run.mb_per_s);
        for (level, data_disks) in LEVELS {
            let found = part.figure(work.title, level, |run| run.mb_per_s);
            let sum = one.map(|one| one * data_disks as f64);
            let title = format!("{}, {level}, to the sum of {data_disks} disks", work.title);
            part.mark(title, found, sum, ASKED, "MB/s");
        }
    }
    Ok(())
}

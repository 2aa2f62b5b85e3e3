//! Whether a volume streams as fast as the disks it lies on, which are simulated so that their sum
//! is known.

use anyhow::Result;

use super::bed::{Bed, Entrant};
use super::sheet::Part;
use crate::load::Order;
use crate::suite::{Row, row};

const READ: Row =
    row("256k-read", "256 KiB sequential read", 100, Order::Sequential, 256 << 10, (32, 1));
const WRITE: Row =
    row("256k-write", "256 KiB sequential durable write", 0, Order::Sequential, 256 << 10, (32, 1));
const DISK: &str = "sim:sas10k:2G";
const DISKS: u64 = 6;
/// Levels, and how many disks hold the data of a stream. On six disks RAID 5 makes sets of 4 + 1,
/// RAID 6 of 2 + 2; one such set is filled, and so read, at a time.
const LEVELS: [(&str, f64); 3] = [("raid10", 3.0), ("raid5", 4.0), ("raid6", 2.0)];
/// Where the journal is, and the options for that.
const JOURNALS: [(&str, &[&str]); 2] =
    [("its own", &["--journal=sim:nvme:1G", "--journal=sim:nvme:1G"]), ("the disks", &[])];
/// What a volume has to reach of the sum.
const ASKED: f64 = 0.85;

pub(super) fn run(bed: &Bed<'_>, part: &mut Part) -> Result<()> {
    let size_bytes: u64 = if bed.settings.quick { 384 << 20 } else { 1 << 30 };
    // Zones: disk and volumes must use the same, outer part of the platters.
    let one_bytes = size_bytes / DISKS;
    part.note(format!(
        "Volumes of {} MiB on an array of {DISKS} disks `{DISK}`, whose journal is on two devices \
         `sim:nvme` of its own, or on the disks; one such disk by itself for what they sum up to.",
        size_bytes >> 20
    ));
    let disk = bed.export("disk", DISK)?;
    let mut entrants = vec![disk.entrant("one disk", one_bytes)];
    let mut members = Vec::new();
    for (place, options) in JOURNALS {
        let member = bed.up("sequential", &vec![DISK.to_owned(); DISKS as usize], options)?;
        for (level, _) in LEVELS {
            let entrant = member.volume(level, size_bytes, level)?;
            entrants.push(Entrant { name: entrant_name(level, place), ..entrant });
        }
        members.push(member);
    }
    for entrant in &entrants {
        bed.fill(entrant)?;
    }
    part.lines = bed.turns(&[READ, WRITE], &entrants)?;
    for work in [READ, WRITE] {
        let one = part.figure(work.title, "one disk", |run| run.mb_per_s);
        for (place, _) in JOURNALS {
            for (level, data_disks) in LEVELS {
                let name = entrant_name(level, place);
                let found = part.figure(work.title, &name, |run| run.mb_per_s);
                let sum = one.map(|one| one * data_disks);
                let title = format!("{}, {name}, to the sum of {data_disks} disks", work.title);
                part.mark(title, found, sum, ASKED, "MB/s");
            }
        }
    }
    Ok(())
}

fn entrant_name(level: &str, place: &str) -> String {
    format!("{level}, journal on {place}")
}

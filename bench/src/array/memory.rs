//! What checksums, maps and RAID cost on the way of a small read, when no disk is in the way.

use anyhow::Result;

use super::bed::{Bed, files};
use super::sheet::Part;
use crate::load::Order;
use crate::suite::{Row, row};

const READS: Row =
    row("4k-read-32", "4 KiB random read, depth 32", 100, Order::Random, 4096, (32, 1));
const DISKS: usize = 8;
/// What the reads of a volume have to reach of those of a bare file.
const ASKED: f64 = 0.8;

pub(super) fn run(bed: &Bed<'_>, part: &mut Part) -> Result<()> {
    let size_bytes: u64 = if bed.settings.quick { 256 << 20 } else { 1 << 30 };
    part.note(format!(
        "Volumes of {} MiB on one array of {DISKS} files on a tmpfs, against `drystone export \
         file:` on the same tmpfs.",
        size_bytes >> 20
    ));
    let directory = bed.in_memory("memory")?;
    let bare =
        format!("file:{}:{}M,cache=volatile", directory.join("bare").display(), size_bytes >> 20);
    let bare = bed.export("bare", &bare)?;
    let member = bed.up("memory", &files(&directory, DISKS, size_bytes.max(1 << 30)), &[])?;
    let entrants = [
        bare.entrant("file", size_bytes),
        member.volume("raid10", size_bytes, "raid10")?,
        member.volume("raid5", size_bytes, "raid5")?,
    ];
    for entrant in &entrants {
        bed.fill(entrant)?;
    }
    part.lines = bed.turns(&[READS], &entrants)?;
    let iops = |name: &str| part.figure(READS.title, name, |run| run.iops);
    let (file, mirrored, parity) = (iops("file"), iops("raid10"), iops("raid5"));
    part.mark("reads of RAID 10 to reads of the file", mirrored, file, ASKED, "IOPS");
    part.mark("reads of RAID 5 to reads of the file", parity, file, ASKED, "IOPS");
    Ok(())
}

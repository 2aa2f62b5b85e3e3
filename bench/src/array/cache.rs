//! What the block cache gains where it has the blocks, and what it costs where it has not.

use anyhow::{Result, bail};
use serde_json::Value;

use super::bed::{Bed, Entrant, Export, files};
use super::btrfs;
use super::loops::{Mount, tool};
use super::member::Member;
use super::sheet::{Asked, Line, Part};
use crate::adapter::{Adapter, Running, Service, Tgt};
use crate::load::Order;
use crate::suite::{Limit, Row, Run, row};

const READS: Row =
    row("4k-read-32", "4 KiB random read, depth 32", 100, Order::Random, 4096, (32, 1));
const STREAM: Row =
    row("256k-read-16", "256 KiB sequential read", 100, Order::Sequential, 256 << 10, (16, 1));
const MISSES: Row =
    row("4k-miss-32", "4 KiB random read that misses", 100, Order::Random, 4096, (32, 1));
const LEVELS: [(&str, &str); 2] = [("raid10", "RAID 10"), ("raid5", "RAID 5")];
const DISKS: usize = 6;
/// Sparse.
const DISK_BYTES: u64 = 2 << 30;
/// Memory for the cache: twice the volume, and the least that a member takes.
const ROOMY: &str = "1G";
const LEAST: &str = "16M";
/// Entrants that are not ours, or not the array's.
const RAM: &str = "ram";
const FILE: &str = "file";
const ON_BTRFS: &str = "file on btrfs";
const TGT: &str = "tgt on btrfs";
/// What reads that miss have to reach of reads without a cache: as many, but for what two runs of
/// the same differ by.
const ASKED_MISSES: f64 = 0.97;

/// What a volume's reads that hit have to be to those of somebody else.
struct Bar {
    title: &'static str,
    work: Row,
    figure: fn(&Run) -> f64,
    of: &'static str,
    asked: Asked,
    unit: &'static str,
}

const BARS: [Bar; 4] = [
    Bar {
        title: "CPU of a 4 KiB read to that of ram:",
        work: READS,
        figure: |run| run.target_cpu_us_per_io,
        of: RAM,
        asked: Asked::AtMost(1.15),
        unit: "us",
    },
    Bar {
        title: "256 KiB reads to those of ram:",
        work: STREAM,
        figure: |run| run.mb_per_s,
        of: RAM,
        asked: Asked::AtLeast(0.9),
        unit: "MB/s",
    },
    Bar {
        title: "4 KiB reads to those of tgt on btrfs",
        work: READS,
        figure: |run| run.iops,
        of: TGT,
        asked: Asked::AtLeast(4.0),
        unit: "IOPS",
    },
    Bar {
        title: "4 KiB reads to those of file: in the page cache",
        work: READS,
        figure: |run| run.iops,
        of: FILE,
        asked: Asked::AtLeast(1.0),
        unit: "IOPS",
    },
];

pub(super) fn run(bed: &Bed<'_>, part: &mut Part) -> Result<()> {
    hot(bed, part)?;
    bed.clear_memory()?;
    cold(bed, part)?;
    if let Some(note) = full_client(&part.lines) {
        part.note(note);
    }
    Ok(())
}

/// Reads of what is in memory: ours in the cache, that of others in the page cache.
fn hot(bed: &Bed<'_>, part: &mut Part) -> Result<()> {
    let size_bytes: u64 = if bed.settings.quick { 256 << 20 } else { 512 << 20 };
    let mib = size_bytes >> 20;
    part.note(format!(
        "Volumes of {mib} MiB, each on an array of its own of {DISKS} files on a tmpfs with \
         `--cache-memory {ROOMY}`; `drystone export` of `ram:`, and of `file:` with \
         `cache=volatile` on the same tmpfs. All were written once, and read once from end to end, \
         before."
    ));
    let ram = bed.export(RAM, &format!("ram:{mib}M"))?;
    let image = bed.in_memory("cache-file")?.join("disk");
    let file = bed.export(FILE, &format!("file:{}:{mib}M,cache=volatile", image.display()))?;
    let mut entrants = vec![ram.entrant(RAM, size_bytes), file.entrant(FILE, size_bytes)];
    let mut members = Vec::new();
    for (level, _) in LEVELS {
        let member = member(bed, &format!("cache-{level}"), &["--cache-memory", ROOMY])?;
        entrants.push(member.volume(level, size_bytes, level)?);
        members.push(member);
    }
    let others = match Others::new(bed, size_bytes) {
        Ok(others) => Some(others),
        Err(error) => {
            part.note(format!("Nothing on btrfs was measured: {error:#}."));
            None
        }
    };
    if let Some(others) = &others {
        part.note(others.sentence());
        entrants.extend(others.entrants.iter().cloned());
    }
    for entrant in &entrants {
        bed.fill(entrant)?;
    }
    if let Some(others) = &others {
        others.write_out()?;
    }
    for entrant in &entrants {
        bed.read_through(entrant)?;
    }
    let before = looked_up(&members)?;
    part.lines = bed.turns(&[READS, STREAM], &entrants)?;
    for (((_, name), from), to) in LEVELS.into_iter().zip(before).zip(looked_up(&members)?) {
        if let Some(percent) = hit_percent(from, to) {
            part.note(format!("{name}: {percent:.2} % of what was looked up was in the cache."));
        }
    }
    hot_marks(part);
    Ok(())
}

pub(super) fn hot_marks(part: &mut Part) {
    for (level, name) in LEVELS {
        for bar in &BARS {
            let found = part.figure(bar.work.title, level, bar.figure);
            let of = part.figure(bar.work.title, bar.of, bar.figure);
            part.compare(format!("{name}, hot: {}", bar.title), (found, of), bar.asked, bar.unit);
        }
    }
}

/// Reads of what is not in memory, against volumes that are not cached and against an older binary.
fn cold(bed: &Bed<'_>, part: &mut Part) -> Result<()> {
    // With --quick too: the cache must hold next to nothing of it.
    let size_bytes: u64 = 512 << 20;
    part.note(format!(
        "Misses: volumes of {} MiB on one member with `--cache-memory {LEAST}`, each beside one \
         that is not cached (`--no-cache`).",
        size_bytes >> 20
    ));
    let small = member(bed, "cold", &["--cache-memory", LEAST])?;
    let before = bed.settings.before.as_deref();
    let before = before
        .map(|program| {
            let disks = files(&bed.in_memory("cold-before")?, DISKS, DISK_BYTES);
            bed.up_of(program, "before", &disks, &[])
        })
        .transpose()?;
    if before.is_none() {
        part.note("`--before PATH` sets an older drystone beside them.");
    }
    let mut entrants = Vec::new();
    for (level, _) in LEVELS {
        let cached = small.volume(level, size_bytes, level)?;
        let bare = format!("{level}-bare");
        let bare = small.volume_with(&bare, size_bytes, level, &["--no-cache"])?;
        entrants.push(Entrant { name: cold_name(level, Cold::Misses), ..cached });
        entrants.push(Entrant { name: cold_name(level, Cold::NotCached), ..bare });
        if let Some(before) = &before {
            let old = before.volume(level, size_bytes, level)?;
            entrants.push(Entrant { name: cold_name(level, Cold::Before), ..old });
        }
    }
    for entrant in &entrants {
        bed.fill(entrant)?;
    }
    let lines = bed.turns(&[MISSES], &entrants)?;
    part.lines.extend(lines);
    cold_marks(part, before.is_some());
    Ok(())
}

/// Whose reads go to the disks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Cold {
    /// A volume that is cached, in a cache that is much too small for it.
    Misses,
    /// A volume that is not.
    NotCached,
    /// A volume of a drystone of before.
    Before,
}

pub(super) fn cold_name(level: &str, cold: Cold) -> String {
    let what = match cold {
        Cold::Misses => "misses",
        Cold::NotCached => "not cached",
        Cold::Before => "before",
    };
    format!("{level}, {what}")
}

pub(super) fn cold_marks(part: &mut Part, has_before: bool) {
    let others = [(Cold::NotCached, "a volume that is not cached"), (Cold::Before, "before")];
    for (level, name) in LEVELS {
        for (other, of_what) in others {
            if other == Cold::Before && !has_before {
                continue;
            }
            let iops = |cold| part.figure(MISSES.title, &cold_name(level, cold), |run| run.iops);
            let (found, of) = (iops(Cold::Misses), iops(other));
            let title = format!("{name}: reads that miss to those of {of_what}");
            part.mark(title, found, of, ASKED_MISSES, "IOPS");
        }
    }
}

fn member(bed: &Bed<'_>, name: &str, more: &[&str]) -> Result<Member> {
    bed.up(name, &files(&bed.in_memory(name)?, DISKS, DISK_BYTES), more)
}

/// What a user could do here instead. The servers end before the file system goes.
struct Others {
    entrants: Vec<Entrant>,
    _export: Export,
    tgt: Result<Box<dyn Running>>,
    mount: Mount,
}

impl Others {
    /// One btrfs with a file for us and one for tgt, if tgt is here.
    fn new(bed: &Bed<'_>, size_bytes: u64) -> Result<Self> {
        btrfs::usable()?;
        let directory = bed.in_memory("cache-btrfs")?;
        // Room for both files twice, with six disks that mirror each other.
        let mount = btrfs::file_system(&directory, "raid10", "raid10", 2 * size_bytes)?;
        let image = mount.path().join("disk.img");
        let spec = format!("file:{}:{}M,cache=volatile", image.display(), size_bytes >> 20);
        let export = bed.export("on-btrfs", &spec)?;
        let mut entrants = vec![export.entrant(ON_BTRFS, size_bytes)];
        let tgt = match Tgt.missing() {
            Some(why) => Err(anyhow::anyhow!(why)),
            None => start_tgt(bed, &mount, size_bytes),
        };
        if let Ok(tgt) = &tgt {
            let Service::Iscsi(url) = tgt.service() else { bail!("tgt serves nothing but iSCSI") };
            let (name, area_bytes) = (TGT.to_owned(), size_bytes);
            entrants.push(Entrant { name, url, pid: tgt.pid(), area_bytes });
        }
        Ok(Self { entrants, _export: export, tgt, mount })
    }

    fn sentence(&self) -> String {
        let ours = "On btrfs, with the profile raid10 over six loop devices over files on a tmpfs: \
                    `drystone export file:` with `cache=volatile`";
        match &self.tgt {
            Ok(_) => format!("{ours}, and {} with another file there.", Tgt.name()),
            Err(error) => format!("{ours}. Without tgt: {error:#}."),
        }
    }

    /// What is dirty goes to the disks now and not while somebody is measured.
    fn write_out(&self) -> Result<()> {
        tool("sync", &["--file-system", &self.mount.path().display().to_string()]).map(drop)
    }
}

fn start_tgt(bed: &Bed<'_>, mount: &Mount, size_bytes: u64) -> Result<Box<dyn Running>> {
    let directory = mount.path().join("tgt");
    std::fs::create_dir(&directory)?;
    bed.start(&Tgt, directory, size_bytes)
}

/// What a volume's reads looked for in the cache since it was opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Lookups {
    pub(super) hits: u64,
    pub(super) misses: u64,
}

/// `None` when the answer to `volume show` does not tell.
pub(super) fn lookups(shown: &Value) -> Option<Lookups> {
    let count = |name: &str| shown[name].as_u64();
    Some(Lookups { hits: count("cache_hits")?, misses: count("cache_misses")? })
}

/// Of the volume of each member, in the order of the levels.
fn looked_up(members: &[Member]) -> Result<Vec<Option<Lookups>>> {
    let levels = LEVELS.iter().zip(members);
    levels.map(|((level, _), member)| Ok(lookups(&member.show(level)?))).collect()
}

/// How much was found between the two; `None` when nothing was looked for.
pub(super) fn hit_percent(from: Option<Lookups>, to: Option<Lookups>) -> Option<f64> {
    let (from, to) = from.zip(to)?;
    let hits = to.hits.checked_sub(from.hits)?;
    let all = hits + to.misses.checked_sub(from.misses)?;
    (all > 0).then(|| hits as f64 * 100.0 / all as f64)
}

/// Whose IOPS are the client's limit and not the server's, if anybody's.
pub(super) fn full_client(lines: &[Line]) -> Option<String> {
    let full = |run: &Run| {
        matches!(Limit::of(run.client_core, run.target_core), Limit::Client | Limit::Both)
    };
    let names: Vec<String> = lines
        .iter()
        .filter(|line| line.runs.iter().any(full))
        .map(|line| format!("{} ({})", line.entrant, line.work))
        .collect();
    (!names.is_empty()).then(|| {
        let names = names.join(", ");
        format!("The client's core was full, so the server may do more: {names}.")
    })
}

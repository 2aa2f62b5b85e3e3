//! What a user could do here instead: a file on btrfs, behind the same iSCSI server.

use std::path::Path;

use anyhow::{Context, Result};

use super::bed::{Bed, Entrant, Export};
use super::loops::{Loops, Mount, tool};
use super::member::Member;
use super::sheet::Part;
use crate::load::Order;
use crate::suite::{Row, row};

const WORKS: [Row; 4] = [
    row("4k-read-32", "4 KiB random read, depth 32", 100, Order::Random, 4096, (32, 1)),
    row("4k-write-32", "4 KiB random durable write, depth 32", 0, Order::Random, 4096, (32, 1)),
    row("256k-read", "256 KiB sequential read", 100, Order::Sequential, 256 << 10, (16, 1)),
    row("256k-write", "256 KiB sequential durable write", 0, Order::Sequential, 256 << 10, (16, 1)),
];
/// Profiles of btrfs for data and metadata, and the level of ours that protects as much.
const PROFILES: [(&str, &str, &str); 4] = [
    ("single", "raid1", "raid0"),
    ("raid1", "raid1", "raid1"),
    ("raid10", "raid10", "raid10"),
    ("raid5", "raid1", "raid5"),
];
const DISKS: usize = 6;
/// Copy on write comes to use all of them: eight entrants must fit into memory.
const DISK_BYTES: u64 = 384 << 20;

/// A btrfs with a server over a file of it. The server ends before the file system goes.
struct Other {
    export: Export,
    _mount: Mount,
}

pub(super) fn run(bed: &Bed<'_>, part: &mut Part) -> Result<()> {
    usable()?;
    let size_bytes: u64 = if bed.settings.quick { 128 << 20 } else { 256 << 20 };
    part.note(format!(
        "{DISKS} loop devices over files on a tmpfs for each entrant. btrfs: mkfs.btrfs with the \
         profile for data, mirrored metadata, mounted with its defaults (checksums, copy on write), \
         and `drystone export file:` of a file of {} MiB on it. Ours: `drystone up` with those \
         devices and a volume of that size. Writes are durable on both.",
        size_bytes >> 20
    ));
    let (mut others, mut ours) = (Vec::new(), Vec::new());
    let mut entrants: Vec<Entrant> = Vec::new();
    for (data, metadata, level) in PROFILES {
        let other = other(bed, data, metadata, size_bytes)?;
        entrants.push(other.export.entrant(&format!("btrfs {data}"), size_bytes));
        others.push(other);
        let (member, entrant) = volume(bed, level, size_bytes)?;
        entrants.push(Entrant { name: format!("ours {level}"), ..entrant });
        ours.push(member);
    }
    for entrant in &entrants {
        bed.fill(entrant)?;
    }
    part.lines = bed.turns(&WORKS, &entrants)?;
    for work in WORKS {
        for (data, _, level) in PROFILES {
            let iops = |name: String| part.figure(work.title, &name, |run| run.iops);
            let pair = (iops(format!("ours {level}")), iops(format!("btrfs {data}")));
            if let (Some(ours), Some(other)) = pair {
                let ratio = ours / other;
                part.note(format!("{}: {ratio:.2} times btrfs {data} with {level}.", work.title));
            }
        }
    }
    Ok(())
}

/// # Errors
/// Why there is no btrfs here, and what would help.
pub(super) fn usable() -> Result<()> {
    tool("mkfs.btrfs", &["--version"]).context("install btrfs-progs")?;
    // A kernel that has it as a module only says so once it is loaded.
    let known =
        || std::fs::read_to_string("/proc/filesystems").map(|all| all.contains("\tbtrfs\n"));
    if !known()? {
        tool("modprobe", &["btrfs"]).context("this kernel has no btrfs")?;
    }
    anyhow::ensure!(known()?, "this kernel has no btrfs");
    let uid = rustix::process::geteuid();
    anyhow::ensure!(uid.is_root(), "loop devices and mounts need root");
    Ok(())
}

fn other(bed: &Bed<'_>, data: &str, metadata: &str, size_bytes: u64) -> Result<Other> {
    let directory = bed.in_memory(&format!("btrfs-{data}"))?;
    let mount = file_system(&directory, data, metadata, DISK_BYTES)?;
    let image = mount.path().join("disk.img");
    let spec = format!("file:{}:{}M", image.display(), size_bytes >> 20);
    Ok(Other { export: bed.export(&format!("btrfs-{data}"), &spec)?, _mount: mount })
}

/// A new btrfs with these profiles over six loop devices, mounted below `directory`.
pub(super) fn file_system(
    directory: &Path,
    data: &str,
    metadata: &str,
    disk_bytes: u64,
) -> Result<Mount> {
    let loops = Loops::new(directory, DISKS, disk_bytes)?;
    let mut arguments = vec!["--quiet", "--force", "--data", data, "--metadata", metadata];
    arguments.extend(loops.devices().iter().map(String::as_str));
    tool("mkfs.btrfs", &arguments)?;
    // Without udev nobody tells the kernel which devices belong together.
    for device in loops.devices() {
        tool("btrfs", &["device", "scan", device])?;
    }
    let at = directory.join("mounted");
    std::fs::create_dir(&at)?;
    let first = loops.devices()[0].clone();
    Mount::new(&first, at, loops)
}

/// Our volume, and what it stands on. The server ends before its devices go.
fn volume(bed: &Bed<'_>, level: &str, size_bytes: u64) -> Result<((Member, Loops), Entrant)> {
    let directory = bed.in_memory(&format!("ours-{level}"))?;
    let loops = Loops::new(&directory, DISKS, DISK_BYTES)?;
    let member = bed.up(&format!("ours-{level}"), loops.devices(), &["--raid", level])?;
    let entrant = member.volume("data", size_bytes, level)?;
    Ok(((member, loops), entrant))
}

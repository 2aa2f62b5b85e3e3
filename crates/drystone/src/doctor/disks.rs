//! The block devices: what they hold, and which are free for an array.

use super::Finding;
use crate::advice::Advised;
use crate::print::units;
use array::label::Found;
use array::{RingEnv, probe};
use member::spec::disk::MemberDisk;
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// Devices that are no disks: memory, loops, and what others make of disks.
const NO_DISKS: [&str; 8] = ["loop", "ram", "zram", "dm-", "md", "sr", "nbd", "ublkb"];

/// A whole disk.
#[derive(Debug)]
struct Disk {
    name: String,
    size_bytes: u64,
    rotates: bool,
    /// Its partitions, and what was made of it, such as a mapper's device.
    used_by: Vec<String>,
}

pub(super) fn look() -> Vec<Finding> {
    let disks = all(Path::new("/sys/block"));
    if disks.is_empty() {
        return vec![Finding::good("disks", "there are no block devices: files can be disks")];
    }
    disks.iter().map(|disk| judge(disk, Path::new("/dev"))).collect()
}

/// The disks that the kernel knows.
fn all(sys: &Path) -> Vec<Disk> {
    let names = fs::read_dir(sys).into_iter().flatten().flatten();
    let names: BTreeSet<String> =
        names.filter_map(|entry| entry.file_name().into_string().ok()).collect();
    let is_disk = |name: &String| !NO_DISKS.iter().any(|prefix| name.starts_with(prefix));
    names.into_iter().filter(is_disk).filter_map(|name| disk(sys, name)).collect()
}

fn disk(sys: &Path, name: String) -> Option<Disk> {
    let dir = sys.join(&name);
    let read = |file: &str| fs::read_to_string(dir.join(file)).unwrap_or_default();
    // In sectors of 512 bytes, whatever its blocks are. A drive without a medium has none.
    let sectors: u64 = read("size").trim().parse().ok().filter(|sectors| *sectors > 0)?;
    let entries = |path: PathBuf| {
        let entries = fs::read_dir(path).into_iter().flatten().flatten();
        entries.filter_map(|entry| entry.file_name().into_string().ok()).collect::<Vec<_>>()
    };
    let mut used_by: Vec<String> = entries(dir.clone());
    used_by.retain(|entry| dir.join(entry).join("partition").exists());
    used_by.extend(entries(dir.join("holders")));
    used_by.sort();
    let rotates = read("queue/rotational").trim() == "1";
    Some(Disk { size_bytes: sectors * 512, rotates, used_by, name })
}

fn judge(disk: &Disk, dev: &Path) -> Finding {
    let about = format!("disk {}", disk.name);
    let kind = if disk.rotates { "that turns" } else { "without moving parts" };
    let what = format!("{} {kind}", units::bytes(disk.size_bytes));
    if !disk.used_by.is_empty() {
        return Finding::good(
            &about,
            format!("{what}; not free: it has {}", disk.used_by.join(", ")),
        );
    }
    let path = dev.join(&disk.name);
    let found = match held(&path) {
        Ok(found) => found,
        Err(sentence) => return Finding::good(&about, format!("{what}; {sentence}")),
    };
    match found {
        Found::Blank => {
            Finding::good(&about, format!("{what}; free for an array: {}", stable_name(&path)))
        }
        Found::Label { label, .. } if label.generation == 0 => Finding::warning(
            &about,
            format!("{what}; left from the making of an array that was cut off"),
            format!("'drystone disk wipe {}' makes it free", path.display()),
        ),
        Found::Label { label, .. } => {
            Finding::good(&about, format!("{what}; a disk of array {}", label.array))
        }
        Found::Damaged(why) => Finding::warning(
            &about,
            format!("{what}; a disk of an array whose labels cannot be read ({why})"),
            "name it when you start the member: the others know what it was",
        ),
        Found::Version(version) => Finding::warning(
            &about,
            format!("{what}; a disk of an array of version {version}"),
            "use the drystone of that version",
        ),
        Found::Foreign(held) => Finding::good(&about, format!("{what}; not free: it holds {held}")),
    }
}

/// What is on a disk that nobody uses; else a sentence.
fn held(path: &Path) -> Result<Found, String> {
    let disk: MemberDisk =
        format!("disk:{}", path.display()).parse().map_err(|error| format!("{error}"))?;
    let device = disk.open().map_err(|error| error.sentence())?;
    let probed =
        ring::block_on(
            &ring::CoreConfig::default(),
            async move { probe(&RingEnv, &*device).await },
        );
    match probed {
        Ok(Ok(found)) => Ok(found),
        Ok(Err(error)) => Err(format!("it cannot be read ({error})")),
        Err(error) => Err(format!("it cannot be looked at ({error})")),
    }
}

/// The name under which it should be named: one that stays.
fn stable_name(path: &Path) -> String {
    let links = fs::read_dir("/dev/disk/by-id").into_iter().flatten().flatten();
    let mut names: Vec<PathBuf> = links
        .map(|entry| entry.path())
        .filter(|link| link.canonicalize().is_ok_and(|real| real == path))
        .collect();
    names.sort();
    names.first().map_or(path, |name| name).display().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn disks_are_told_from_what_is_made_of_them() {
        let sys = tempfile::tempdir().unwrap();
        let put = |path: &str, text: &str| {
            let path = sys.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        for name in ["sda", "sdb", "loop0", "dm-0", "md127", "zram0"] {
            put(&format!("{name}/size"), "2097152\n");
        }
        put("sda/queue/rotational", "1\n");
        put("sda/sda1/partition", "1\n");
        put("sdb/holders/dm-0/x", "");
        put("sdc/size", "0\n");
        let disks = all(sys.path());
        let names: Vec<&str> = disks.iter().map(|disk| disk.name.as_str()).collect();
        assert_eq!(names, ["sda", "sdb"]);
        assert!(disks[0].rotates && !disks[1].rotates);
        assert_eq!(disks[0].size_bytes, 1 << 30);
        let judged = judge(&disks[0], sys.path());
        assert_eq!(judged.found, "1 GiB that turns; not free: it has sda1");
        assert!(judge(&disks[1], sys.path()).found.ends_with("not free: it has dm-0"));
    }

    #[test]
    fn what_nobody_can_open_is_told_of_and_not_free() {
        let disk =
            Disk { name: "nosuch".into(), size_bytes: 1 << 30, rotates: false, used_by: vec![] };
        let judged = judge(&disk, Path::new("/nonexistent"));
        assert!(!judged.found.contains("free for"), "{judged:?}");
    }
}

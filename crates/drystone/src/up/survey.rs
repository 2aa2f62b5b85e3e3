//! Signs that a member had other disks before its directory was lost.

use crate::spec::member::MemberDisk;
use anyhow::bail;
use array::label::Found;
use array::probe;
use std::fs;
use std::path::{Path, PathBuf};

use super::RESERVATIONS;

/// How many devices are looked at.
const DEVICES_MAX: usize = 256;

/// Refuses to make files stand in for disks where an array was served before.
pub(crate) async fn refuse_if_used(data: &Path) -> anyhow::Result<()> {
    let kept = fs::read_dir(data.join(RESERVATIONS)).is_ok_and(|mut dir| dir.next().is_some());
    if kept {
        bail!(
            "'{0}' was used before, and its list of disks is lost: name the disks with --disk, or a new array another --data",
            data.display()
        );
    }
    let found = labelled(&devices()).await;
    if let [first, ..] = &found[..] {
        let names: Vec<String> = found.iter().map(|(path, _)| path.display().to_string()).collect();
        bail!(
            "'{}' remembers no disks, but {} of this machine carry labels of array {}: name them with --disk, or, for another array, files with --disk PATH:SIZE",
            data.display(),
            names.join(", "),
            first.1
        );
    }
    Ok(())
}

/// The block devices of this machine, partitions too.
fn devices() -> Vec<PathBuf> {
    let table = fs::read_to_string("/proc/partitions").unwrap_or_default();
    let names = table.lines().skip(1).filter_map(|line| line.split_whitespace().nth(3));
    names.take(DEVICES_MAX).map(|name| Path::new("/dev").join(name)).collect()
}

/// Those that are disks of an array, which is named. What may not be read is passed over.
async fn labelled(paths: &[PathBuf]) -> Vec<(PathBuf, String)> {
    let mut found = Vec::new();
    for path in paths {
        let Ok(disk) = path.display().to_string().parse::<MemberDisk>() else { continue };
        let Ok(device) = disk.open_to_look() else { continue };
        if let Ok(Found::Label { label, .. }) = probe(&*device).await
            && label.generation > 0
        {
            found.push((path.clone(), label.array.to_string()));
        }
    }
    found
}

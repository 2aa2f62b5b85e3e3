//! Signs that a member had other disks before its directory was lost.

use array::label::Found;
use array::{RingEnv, probe};
use std::fs;
use std::path::{Path, PathBuf};

use super::StartError;
use crate::data::RESERVATIONS;
use crate::settings::KEY_FILE;
use crate::spec::disk::MemberDisk;

/// How many devices are looked at.
const DEVICES_MAX: usize = 256;

/// Refuses to make files stand in for disks where an array was served before.
pub(crate) async fn refuse_if_used(data: &Path) -> Result<(), StartError> {
    let kept = fs::read_dir(data.join(RESERVATIONS)).is_ok_and(|mut dir| dir.next().is_some());
    // Secrets on an array are sealed by the key.
    if kept || data.join(KEY_FILE).exists() {
        return Err(StartError::UsedBefore(data.to_owned()));
    }
    let found = labelled(&devices()).await;
    let Some((_, array)) = found.first() else { return Ok(()) };
    Err(StartError::Labelled {
        data: data.to_owned(),
        devices: found.iter().map(|(path, _)| path.display().to_string()).collect(),
        array: array.clone(),
    })
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
        if let Ok(Found::Label { label, .. }) = probe(&RingEnv, &*device).await
            && label.generation > 0
        {
            found.push((path.clone(), label.array.to_string()));
        }
    }
    found
}

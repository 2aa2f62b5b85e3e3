//! Which storage of a script is where.

use super::open::OpenTarget;
use super::twins::look_alikes;
use crate::engine::Volume;
use crate::workload::{Range, Script, Storage};

/// Parts of a target begin at multiples of this, where they are large enough.
const ALIGN_BYTES: u64 = 1 << 20;

/// Why the storage of a script and the targets do not go together.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AssignError {
    /// More targets than storage.
    #[error(
        "the workload has {storage} sd= and there are {targets} targets: name fewer, or add sd="
    )]
    TooManyTargets {
        /// Storage of the script.
        storage: usize,
        /// Targets.
        targets: usize,
    },
    /// Parts of a target that hold nothing.
    #[error("{target} is too small to be divided among {parts} sd=")]
    TooSmall {
        /// The target.
        target: String,
        /// Parts.
        parts: usize,
    },
}

/// Puts each storage of the script on a target, in turn. Storage that shares a target divides it into
/// equal parts. The only storage of a script is repeated for each target; `script` is changed so.
///
/// # Errors
/// An [`AssignError`].
pub fn assign(script: &mut Script, targets: &[OpenTarget]) -> Result<Vec<Volume>, AssignError> {
    if script.storage.len() == 1 && targets.len() > 1 {
        repeat(script, targets.len());
    }
    let (storage, count) = (script.storage.len(), targets.len());
    if storage < count {
        return Err(AssignError::TooManyTargets { storage, targets: count });
    }
    let places = script.storage.iter().enumerate().map(|(index, storage)| {
        let parts = script.storage.len() / count
            + usize::from(index % count < script.storage.len() % count);
        (storage, &targets[index % count], index / count, parts)
    });
    let placed: Result<Vec<(Volume, Option<String>)>, AssignError> =
        places.map(|(storage, target, part, parts)| place(storage, target, part, parts)).collect();
    let mut volumes = Vec::new();
    for (volume, note) in placed? {
        script.notes.extend(note);
        volumes.push(volume);
    }
    if script.writes() {
        script.notes.extend(look_alikes(targets));
    }
    Ok(volumes)
}

/// One storage and its flows, for so many targets.
fn repeat(script: &mut Script, count: usize) {
    let one = script.storage.remove(0);
    let named =
        |index: usize| Storage { name: format!("{}.{}", one.name, index + 1), ..one.clone() };
    script.storage = (0..count).map(named).collect();
    for flow in script.steps.iter_mut().flat_map(|step| &mut step.flows) {
        flow.storage = (0..count).collect();
    }
}

fn place(
    storage: &Storage,
    target: &OpenTarget,
    part: usize,
    parts: usize,
) -> Result<(Volume, Option<String>), AssignError> {
    let geometry = target.device.geometry();
    let (whole, block) = (geometry.size_bytes(), u64::from(geometry.block_bytes));
    let share = whole / parts as u64;
    let align = if share >= ALIGN_BYTES { ALIGN_BYTES } else { block };
    let share = if parts == 1 { whole } else { share / align * align };
    if share == 0 {
        return Err(AssignError::TooSmall { target: target.name.clone(), parts });
    }
    let len = storage.size_bytes.map_or(share, |bytes| bytes.min(share) / block * block);
    // A part that is open to the end says no size.
    let end = match storage.range {
        Some(Range::Bytes(_, to)) if to < u64::MAX => Some(to),
        _ => None,
    };
    let note = storage.size_bytes.or(end).filter(|bytes| *bytes > share).map(|bytes| {
        format!("{} asks for {bytes} bytes; {} has {share} for it", storage.name, target.name)
    });
    let volume = Volume {
        name: storage.name.clone(),
        target: target.name.clone(),
        device: target.device.clone(),
        disk: target.disk.clone(),
        at: share * part as u64,
        len,
        range: storage.range,
        hit_bytes: storage.hit_bytes,
        threads: storage.threads,
        durable: storage.open.durable,
    };
    Ok((volume, note))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::workload::{fio, vdbench};
    use block::NullDisk;

    fn target(name: &str, bytes: u64) -> OpenTarget {
        let device = Arc::new(NullDisk::new(512, bytes / 512));
        OpenTarget { name: name.to_owned(), device, disk: None }
    }

    /// The 34 volumes of the connection paper, on what a laptop has.
    #[test]
    fn many_sd_divide_few_targets() {
        let lines = (1..=34).map(|n| format!("sd=sd{n},lun=x,size=10240m\n")).collect::<String>();
        let text = lines + "wd=w,sd=(sd1-sd34)\nrd=r,wd=w\n";
        let mut script = vdbench::parse(&text).unwrap();
        let targets = [target("a", 1 << 30), target("b", 1 << 30), target("c", 1 << 30)];
        let volumes = assign(&mut script, &targets).unwrap();
        assert_eq!((volumes.len(), script.notes.len()), (34, 34));
        for volume in &volumes {
            assert!(volume.at + volume.len <= 1 << 30, "{volume:?}");
            let beside = |other: &&Volume| {
                other.target == volume.target
                    && other.name != volume.name
                    && other.at < volume.at + volume.len
                    && volume.at < other.at + other.len
            };
            assert_eq!(volumes.iter().find(beside).map(|other| &other.name), None);
        }
    }

    #[test]
    fn one_sd_is_repeated_for_each_target() {
        let words = ["--rw=read".to_owned(), "--runtime=1".to_owned()];
        let mut script = fio::parse(&words).unwrap();
        let targets = [target("a", 1 << 20), target("b", 1 << 21)];
        let volumes = assign(&mut script, &targets).unwrap();
        assert_eq!(script.steps[0].flows[0].storage, [0, 1]);
        let places: Vec<(&str, u64)> = volumes.iter().map(|v| (v.target.as_str(), v.len)).collect();
        assert_eq!(places, [("a", 1 << 20), ("b", 1 << 21)]);
        assert_eq!(volumes[1].name, "filename.2");
    }

    /// `--size` of fio is a part of the disk, which may be smaller.
    #[test]
    fn a_part_beyond_the_end_is_told_of() {
        let notes = |words: &[&str]| {
            let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
            let mut script = fio::parse(&words).unwrap();
            assign(&mut script, &[target("a", 8 << 20)]).unwrap();
            script.notes
        };
        let told = notes(&["--rw=read", "--size=1g"]);
        assert_eq!(told, ["filename asks for 1073741824 bytes; a has 8388608 for it"]);
        assert_eq!(notes(&["--rw=read", "--size=8m"]), [""; 0]);
        assert_eq!(notes(&["--rw=read", "--offset=1m", "--runtime=1"]), [""; 0]);
    }

    #[test]
    fn what_does_not_go_together_is_said() {
        let text = "sd=a,lun=x\nsd=b,lun=y\nwd=w,sd=*\nrd=r,wd=w\n";
        let mut script = vdbench::parse(text).unwrap();
        let three = [target("a", 4096), target("b", 4096), target("c", 4096)];
        let error = assign(&mut script, &three).unwrap_err();
        assert_eq!(error, AssignError::TooManyTargets { storage: 2, targets: 3 });
        let small = assign(&mut script, &[target("a", 512)]).unwrap_err();
        assert_eq!(small, AssignError::TooSmall { target: "a".into(), parts: 2 });
    }
}

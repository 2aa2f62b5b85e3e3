//! Making an array, so that a start that is cut off or fails leaves nothing in the way of the next.
//!
//! ```text
//!  noted as `making` ─▶ files made ─▶ labels of generation 0 ─▶ checkpoint ─▶ labels ─▶ opened ─▶ noted by its ID
//!        └────────────────── cut off: the next start begins anew ──────────┘   └─ goes on ─┘
//!        └──────── failed: labels erased, files removed, note removed ─────┘
//! ```

use array::label::{Found, erase};
use array::{Array, ArrayError, CreateOptions, Level, OpenOptions, RingEnv, probe};
use group::words::counted;
use std::fs;
use std::path::PathBuf;
use std::sync::Arc;

use super::disks::{self, Disks, Holds, Seen};
use super::{Make, Notice, StartError, Tells};
use crate::data::remembered::{Of, Remembered};
use crate::meters::Meters;
use crate::spec::disk::MemberDisk;

/// Files that this process has made, and removes again unless they are kept.
#[derive(Debug, Default)]
pub(crate) struct NewFiles(Vec<PathBuf>);

impl NewFiles {
    pub(crate) fn note(&mut self, disk: &MemberDisk) {
        self.0.extend(disk.path());
    }

    pub(crate) fn keep(&mut self) {
        self.0.clear();
    }

    fn holds(&self, disk: &MemberDisk) -> bool {
        disk.path().is_some_and(|path| self.0.contains(&path))
    }
}

impl Drop for NewFiles {
    fn drop(&mut self) {
        for path in &self.0 {
            if let Err(error) = fs::remove_file(path) {
                tracing::warn!("cannot remove '{}', which is not needed: {error}", path.display());
            }
        }
    }
}

/// Makes an array of disks that hold nothing, in the order `wanted`.
pub(crate) async fn make(
    disks: Disks,
    wanted: &[MemberDisk],
    (make, tell): (&Make, Tells<'_>),
    remembered: &mut Remembered,
) -> Result<(Array, Vec<Seen>), StartError> {
    let Disks { mut seen, absent, new, meters } = disks;
    if let Some((disk, why)) = absent.into_iter().next() {
        return Err(StartError::Absent { path: disk.path(), why });
    }
    let begun = remembered.disks(&Of::Making);
    check(&seen, &begun)?;
    // That the directory can be written to shows here, before anything else is.
    remembered.begin(seen.iter().map(|seen| &seen.disk).chain(&new))?;
    let mut files = NewFiles::default();
    let made = match make_files(&mut seen, (&new, &meters), &mut files).await {
        Ok(()) => {
            assert_eq!(seen.len(), wanted.len(), "all that are wanted are there, and no others");
            let place = |seen: &Seen| wanted.iter().position(|disk| *disk == seen.disk);
            seen.sort_by_key(place);
            create(&seen, make).await
        }
        Err(error) => Err(error),
    };
    match made {
        Ok(array) => {
            files.keep();
            Ok((array, seen))
        }
        Err(error) => {
            undo(&seen, &mut files, remembered, tell).await;
            Err(error)
        }
    }
}

/// Refuses disks that hold something. A label that was cut off could be what is left of any array,
/// if none was `begun` on the disk.
fn check(seen: &[Seen], begun: &[MemberDisk]) -> Result<(), StartError> {
    for Seen { disk, member, holds, .. } in seen {
        let name = &member.name;
        let is_begun = || begun.iter().any(|begun| begun.path() == disk.path());
        match holds {
            Holds::Nothing | Holds::Unfinished => {}
            Holds::CutOff if is_begun() => {}
            Holds::Foreign(what) => {
                return Err(StartError::Foreign { name: name.clone(), what: what.clone() });
            }
            Holds::Array(_) | Holds::CutOff | Holds::Unclear => {
                return Err(StartError::WasMember(name.clone()));
            }
        }
    }
    Ok(())
}

async fn make_files(
    seen: &mut Vec<Seen>,
    (new, meters): (&[MemberDisk], &Meters),
    files: &mut NewFiles,
) -> Result<(), StartError> {
    for disk in new {
        files.note(disk);
        seen.push(disks::look(disk, disk.open()?, (seen.len(), meters)).await?);
    }
    Ok(())
}

async fn create(seen: &[Seen], make: &Make) -> Result<Array, StartError> {
    for Seen { member, holds, .. } in seen.iter().filter(|seen| seen.holds != Holds::Nothing) {
        tracing::warn!(
            "the making of an array on {} was cut off: it holds no data, and is made anew",
            member.name
        );
        assert!(matches!(holds, Holds::Unfinished | Holds::CutOff), "others are refused");
        let erased = erase(&*member.device).await;
        erased.map_err(|error| StartError::Erase { name: member.name.clone(), error })?;
    }
    // Those for the journal were named last. Disks in memory are equal, so only the place tells.
    let (disks, journal) = seen.split_at(seen.len() - make.journals.len());
    let members = |of: &[Seen]| of.iter().map(|seen| seen.member.clone()).collect();
    let (journal, disks): (Vec<_>, Vec<_>) = (members(journal), members(disks));
    if disks.is_empty() {
        return Err(StartError::JournalOnly);
    }
    let usual = if disks.len() == 1 { Level::Raid0 } else { Level::Raid10 };
    let level = make.raid.unwrap_or(usual);
    let open = OpenOptions { block_cache_bytes: make.cache_bytes, ..OpenOptions::default() };
    let options = CreateOptions { level, journal, open, ..CreateOptions::default() };
    let count = counted(disks.len() as u64, "disk");
    let array =
        Array::create(Arc::new(RingEnv), disks, options).await.map_err(StartError::Create)?;
    tracing::info!("made an array of {count}, {level}");
    Ok(array)
}

/// Leaves the disks as they were. An array whose making failed when all labels were written is
/// there all the same: the next start opens it.
async fn undo(seen: &[Seen], files: &mut NewFiles, remembered: &mut Remembered, tell: Tells<'_>) {
    let mut labelled = 0;
    for seen in seen {
        let found = probe(&RingEnv, &*seen.member.device).await;
        if matches!(found, Err(ArrayError::Silent { .. })) {
            // What it has nobody knows: the array may be there, and the next start says.
            tracing::warn!("disk {} does not answer: all labels stay", seen.member.name);
            return files.keep();
        }
        let is_last = |generation: u64| generation > 0;
        labelled += usize::from(
            matches!(found, Ok(Found::Label { label, .. }) if is_last(label.generation)),
        );
    }
    if labelled > 0 && labelled == seen.len() {
        files.keep();
        return;
    }
    for Seen { member, .. } in seen.iter().filter(|seen| !files.holds(&seen.disk)) {
        if matches!(probe(&RingEnv, &*member.device).await, Ok(Found::Blank)) {
            continue;
        }
        if let Err(error) = erase(&*member.device).await {
            tell(&Notice::LabelLeft { disk: member.name.clone(), error });
        }
    }
    if let Err(error) = remembered.give_up() {
        tracing::warn!("{error}");
    }
}

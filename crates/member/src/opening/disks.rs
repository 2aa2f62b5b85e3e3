//! What the disks are that an array is to be opened on or made of.

use array::label::{Found, Label, is_cut_off};
use array::{ArrayError, Member, RingEnv, probe};
use block::BlockDevice;
use ring::wait::join_all;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;

use super::{Absence, StartError};
use crate::meters::Meters;
use crate::spec::DiskError;
use crate::spec::disk::MemberDisk;

/// Files that stand in for disks when there are none.
const FILES: usize = 6;
/// Their size; they take space as it is written.
const FILE_BYTES: u64 = 8 << 30;

/// The files that are made in the directory of a member, to try it.
pub(crate) fn trial_files(data: &Path) -> Vec<MemberDisk> {
    let file = |n| MemberDisk::file(&data.join(format!("disk-{n}")), FILE_BYTES);
    (0..FILES).map(file).collect()
}

/// What a disk holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Holds {
    /// Nothing.
    Nothing,
    /// A part of an array, by its ID.
    Array(String),
    /// A label from the making of an array that was not finished: no data.
    Unfinished,
    /// The beginning of a first label: as [`Unfinished`](Self::Unfinished), if an array was being
    /// made of it.
    CutOff,
    /// A label that the array must judge: damaged, or of another version.
    Unclear,
    /// Something else, in words.
    Foreign(String),
}

/// A disk that was opened and looked at.
#[derive(Debug, Clone)]
pub(crate) struct Seen {
    pub(crate) disk: MemberDisk,
    pub(crate) member: Member,
    pub(crate) holds: Holds,
    /// What it says of the array that it is of.
    pub(crate) label: Option<Box<Label>>,
}

/// Disks in the order in which they were asked for.
#[derive(Debug, Default)]
pub(crate) struct Disks {
    /// Those that are there.
    pub(crate) seen: Vec<Seen>,
    /// Those that are not, and why.
    pub(crate) absent: Vec<(MemberDisk, Absence)>,
    /// Files that would have to be made.
    pub(crate) new: Vec<MemberDisk>,
    /// What counts what each of them does.
    pub(crate) meters: Meters,
}

impl Disks {
    /// Looks at more disks, at all of them at once: those that do not answer are waited for only once. Nothing is
    /// written, and no file is made.
    ///
    /// # Errors
    /// A disk that another process uses: it may serve the same array.
    pub(crate) async fn look_at(&mut self, disks: &[MemberDisk]) -> Result<(), StartError> {
        let mut open: Vec<(&MemberDisk, Arc<dyn BlockDevice>)> = Vec::new();
        for disk in disks {
            let is_open = |(open, _): &(&MemberDisk, _)| is_same_name(open, disk);
            if self.knows(disk) || open.iter().any(is_open) {
                continue;
            }
            if disk.is_new() {
                self.new.push(disk.clone());
                continue;
            }
            match disk.open() {
                Ok(device) => open.push((disk, device)),
                Err(error) if error.is_taken() => return Err(error.into()),
                Err(error) => self.absent.push((disk.clone(), error.into())),
            }
        }
        let (before, meters) = (self.seen.len(), self.meters.clone());
        let looks = open.into_iter().enumerate().map(|(at, (disk, device))| {
            let meters = &meters;
            async move { (disk, look(disk, device, (before + at, meters)).await) }
        });
        let looked: Vec<(&MemberDisk, Result<Seen, ArrayError>)> = join_all(looks).await;
        for (disk, seen) in looked {
            match seen {
                Ok(seen) => self.seen.push(seen),
                Err(error) => self.absent.push((disk.clone(), error.into())),
            }
        }
        Ok(())
    }

    /// The same for disks that nobody named: one that is another one of them by now, under a second
    /// name, is not there.
    pub(crate) async fn look_at_remembered(
        &mut self,
        disks: &[MemberDisk],
    ) -> Result<(), StartError> {
        let mut wanted: Vec<MemberDisk> = Vec::new();
        let (new, there): (Vec<_>, Vec<_>) = disks.iter().partition(|disk| disk.is_new());
        for disk in there.into_iter().filter(|disk| !self.knows(disk)).collect::<Vec<_>>() {
            let mut known = self.seen.iter().map(|seen| &seen.disk).chain(&wanted);
            match known.find(|known| !is_same_name(known, disk) && is_same_file(known, disk)) {
                Some(twin) => {
                    let why = Absence::Twin(twin.name());
                    self.absent.push((disk.clone(), why));
                }
                None => wanted.push(disk.clone()),
            }
        }
        wanted.extend(new.into_iter().cloned());
        self.look_at(&wanted).await
    }

    pub(crate) fn knows(&self, disk: &MemberDisk) -> bool {
        let seen = self.seen.iter().map(|seen| &seen.disk);
        let absent = self.absent.iter().map(|(disk, _)| disk);
        let mut all = seen.chain(absent).chain(&self.new);
        all.any(|known| is_same_name(known, disk))
    }

    /// Counts as absent what is of another array and was not `named`: names of devices change hands.
    pub(crate) fn pass_over_others(&mut self, id: &str, named: &[MemberDisk]) {
        let is_named = |disk: &MemberDisk| named.iter().any(|named| named.path() == disk.path());
        let is_other = |seen: &mut Seen| {
            let Holds::Array(of) = &seen.holds else { return false };
            of != id && !is_named(&seen.disk)
        };
        for Seen { disk, holds, .. } in self.seen.extract_if(.., is_other) {
            let Holds::Array(of) = holds else { unreachable!("only those were taken out") };
            self.absent.push((disk, Absence::OtherArray(of)));
        }
    }

    /// The arrays that they are of.
    pub(crate) fn arrays(&self) -> Vec<&str> {
        fn id(seen: &Seen) -> Option<&str> {
            match &seen.holds {
                Holds::Array(id) => Some(id),
                _ => None,
            }
        }
        let mut ids: Vec<&str> = self.seen.iter().filter_map(id).collect();
        ids.dedup();
        ids
    }
}

/// Whether two names stand for one file or device.
fn is_same_file(one: &MemberDisk, other: &MemberDisk) -> bool {
    let identity = |disk: &MemberDisk| {
        let found = std::fs::metadata(disk.path()?).ok()?;
        Some((found.dev(), found.ino()))
    };
    identity(one).is_some_and(|one| identity(other) == Some(one))
}

fn is_same_name(one: &MemberDisk, other: &MemberDisk) -> bool {
    one.path().is_some() && one.path() == other.path()
}

/// Looks at an open disk, the `number`-th of all, and puts it under its meter.
pub(crate) async fn look(
    disk: &MemberDisk,
    device: Arc<dyn BlockDevice>,
    (number, meters): (usize, &Meters),
) -> Result<Seen, ArrayError> {
    let mut own = None;
    let holds = match probe(&RingEnv, &*device).await? {
        Found::Blank => Holds::Nothing,
        Found::Foreign(what) => Holds::Foreign(what),
        Found::Label { label, .. } if label.generation == 0 => Holds::Unfinished,
        Found::Label { label, .. } => {
            let id = label.array.to_string();
            own = Some(label);
            Holds::Array(id)
        }
        Found::Damaged(_) if is_cut_off(&*device).await? => Holds::CutOff,
        Found::Damaged(_) | Found::Version(_) => Holds::Unclear,
    };
    let member = member(disk, device, (number, meters));
    Ok(Seen { member, disk: disk.clone(), holds, label: own })
}

/// A disk as the array knows it, under its meter. Those in memory are told apart by their number.
pub(crate) fn member(
    disk: &MemberDisk,
    device: Arc<dyn BlockDevice>,
    (number, meters): (usize, &Meters),
) -> Member {
    let name = match disk.path() {
        Some(_) => disk.name(),
        None => format!("{disk}#{number}"),
    };
    let device = meters.meter(&name, device);
    Member { name, device }
}

/// Refuses a disk that is named twice.
///
/// # Errors
/// [`DiskError::Twice`].
pub(crate) fn check_distinct(disks: &[MemberDisk]) -> Result<(), DiskError> {
    for (at, disk) in disks.iter().enumerate() {
        if disks[..at].iter().any(|other| is_same_name(other, disk)) {
            return Err(DiskError::Twice(disk.name()));
        }
    }
    Ok(())
}

/// Opens all of these disks, which must be there.
///
/// # Errors
/// [`DiskError::New`] for one that would have to be made, and why one cannot be had.
pub fn open_all(disks: &[MemberDisk]) -> Result<Vec<Member>, DiskError> {
    let open = |disk: &MemberDisk| match disk.is_new() {
        true => Err(DiskError::New(disk.name())),
        false => Ok(Member { name: disk.name(), device: disk.open()? }),
    };
    disks.iter().map(open).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn another_name_of_a_disk_that_is_open_here_is_not_called_another_drystone() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("disk");
        let disk = MemberDisk::file(&path, 8 << 20);
        let held = disk.open().unwrap();
        for name in ["hard", "soft"] {
            let link = dir.path().join(name);
            match name {
                "hard" => fs::hard_link(&path, &link).unwrap(),
                _ => std::os::unix::fs::symlink(&path, &link).unwrap(),
            }
            let again = MemberDisk::file(&link, 8 << 20);
            let refusal = again.open().unwrap_err();
            assert!(matches!(&refusal, DiskError::OpenHere(path) if *path == link), "{refusal}");
        }
        drop(held);
        disk.open().expect("nobody has it");
    }
}

//! Which disks a member has: those that are named, those it remembers, or six files to try it.

use crate::spec::member::MemberDisk;
use anyhow::{Context, bail};
use array::Member;
use std::collections::BTreeSet;
use std::fs;
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};

/// Files that stand in for disks when there are none.
const FILES: usize = 6;
/// Their size; they take space as it is written.
const FILE_BYTES: u64 = 8 << 30;
/// Where the names of disks are kept.
const REMEMBERED: &str = "disks";

/// The disks of a member, and where it remembers them.
#[derive(Debug)]
pub(crate) struct DiskList {
    path: PathBuf,
    lines: BTreeSet<String>,
}

impl DiskList {
    /// What is remembered in `data`.
    pub(crate) fn read(data: &Path) -> anyhow::Result<DiskList> {
        let path = data.join(REMEMBERED);
        let text = match fs::read_to_string(&path) {
            Err(error) if error.kind() == ErrorKind::NotFound => String::new(),
            read => read.with_context(|| format!("cannot read '{}'", path.display()))?,
        };
        Ok(DiskList { path, lines: text.lines().map(str::to_owned).collect() })
    }

    /// Notes a disk, so that it is found after a restart. What does not outlive one is left out.
    pub(crate) fn remember(&mut self, disk: &MemberDisk) -> anyhow::Result<()> {
        if disk.lasting().is_some_and(|line| self.lines.insert(line)) {
            self.write()?;
        }
        Ok(())
    }

    /// Replaces the file, so that after a crash either the old or the new one is there.
    fn write(&self) -> anyhow::Result<()> {
        let fresh = self.path.with_extension("new");
        let text: String = self.lines.iter().map(|line| format!("{line}\n")).collect();
        let written = || {
            let mut file = fs::File::create(&fresh)?;
            file.write_all(text.as_bytes())?;
            file.sync_all()?;
            fs::rename(&fresh, &self.path)?;
            fs::File::open(self.path.parent().unwrap_or(Path::new(".")))?.sync_all()
        };
        written().with_context(|| format!("cannot write '{}'", self.path.display()))
    }

    /// The disks to look at: those that are `named`, and those that are remembered. One that is
    /// remembered and gone is the array's business.
    pub(crate) fn choose(
        &self,
        data: &Path,
        named: &[MemberDisk],
        journals: &[MemberDisk],
    ) -> anyhow::Result<Vec<MemberDisk>> {
        let mut chosen: Vec<MemberDisk> = Vec::new();
        for disk in named.iter().chain(journals) {
            let twice = disk.path().is_some() && chosen.iter().any(|c| c.path() == disk.path());
            if twice {
                bail!("'{}' is given twice: write it once", disk.name());
            }
            chosen.push(disk.clone());
        }
        for line in &self.lines {
            let disk: MemberDisk = line.parse().with_context(|| {
                format!("'{}' names a disk that does not read", self.path.display())
            })?;
            if !chosen.iter().any(|known| known.path() == disk.path()) {
                chosen.push(disk);
            }
        }
        if chosen.len() == journals.len() {
            let file = |n| MemberDisk::file(&data.join(format!("disk-{n}")), FILE_BYTES);
            chosen.extend((0..FILES).map(file));
        }
        Ok(chosen)
    }

    /// Opens the disks. One that was only remembered may be missing; one that is named may not.
    pub(crate) fn open(
        &self,
        disks: &[MemberDisk],
        named: &[MemberDisk],
    ) -> anyhow::Result<Vec<Member>> {
        let mut open = Vec::new();
        for (index, disk) in disks.iter().enumerate() {
            let remembered = disk.lasting().is_some_and(|line| self.lines.contains(&line));
            match disk.open() {
                // Disks in memory are told apart by their number.
                Ok(device) if disk.path().is_none() => {
                    open.push(Member { name: format!("{disk}#{index}"), device });
                }
                Ok(device) => open.push(Member { name: disk.name(), device }),
                Err(error) if remembered && !named.contains(disk) => {
                    tracing::warn!("disk {disk} is missing: {error:#}");
                }
                Err(error) => return Err(error),
            }
        }
        Ok(open)
    }
}

/// Opens all of these disks.
pub(crate) fn open_all(disks: &[MemberDisk]) -> anyhow::Result<Vec<Member>> {
    let open = |disk: &MemberDisk| Ok(Member { name: disk.name(), device: disk.open()? });
    disks.iter().map(open).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(disks: &[MemberDisk]) -> Vec<String> {
        disks.iter().map(MemberDisk::name).collect()
    }

    #[test]
    fn without_any_disk_there_are_six_files() {
        let dir = tempfile::tempdir().unwrap();
        let list = DiskList::read(dir.path()).unwrap();
        let disks = list.choose(dir.path(), &[], &[]).unwrap();
        assert_eq!(disks.len(), 6);
        assert_eq!(disks[5].name(), dir.path().join("disk-5").display().to_string());
        assert_eq!(list.open(&disks, &[]).unwrap()[0].device.geometry().size_bytes(), 8 << 30);
        let journal = ["ram:64M".parse().unwrap()];
        assert_eq!(list.choose(dir.path(), &[], &journal).unwrap().len(), 7);
    }

    #[test]
    fn disks_are_remembered_and_may_be_gone() {
        let dir = tempfile::tempdir().unwrap();
        let disk = |name: &str| MemberDisk::file(&dir.path().join(name), 1 << 20);
        let mut list = DiskList::read(dir.path()).unwrap();
        for name in ["b", "a"] {
            drop(disk(name).open().unwrap());
            list.remember(&disk(name)).unwrap();
            list.remember(&disk(name)).unwrap();
        }
        list.remember(&"ram:1M".parse().unwrap()).unwrap();

        let list = DiskList::read(dir.path()).unwrap();
        let disks = list.choose(dir.path(), &[], &[]).unwrap();
        assert_eq!(names(&disks), [disk("a").name(), disk("b").name()]);
        let named = [disk("c"), disk("a")];
        let disks = list.choose(dir.path(), &named, &[]).unwrap();
        assert_eq!(names(&disks), [disk("c").name(), disk("a").name(), disk("b").name()]);

        fs::remove_file(dir.path().join("b")).unwrap();
        assert_eq!(list.open(&disks, &named).unwrap().len(), 2, "the others are there");
        let twice = list.choose(dir.path(), &[disk("a")], &[disk("a")]).unwrap_err().to_string();
        assert!(twice.ends_with("is given twice: write it once"), "{twice}");
    }

    #[test]
    fn memory_is_told_apart_by_its_number() {
        let dir = tempfile::tempdir().unwrap();
        let ram: MemberDisk = "ram:1M".parse().unwrap();
        let list = DiskList::read(dir.path()).unwrap();
        let disks = list.choose(dir.path(), &[ram.clone(), ram], &[]).unwrap();
        let open = list.open(&disks, &disks).unwrap();
        assert_eq!((open[0].name.as_str(), open[1].name.as_str()), ("ram:1M#0", "ram:1M#1"));
    }
}

//! The disks that a data directory remembers, so that they need not be named again.
//!
//! ```text
//! array 5787c36eb4b43c8a60214fc528c9db8d
//! file:/srv/disk-0
//! file:./disk1
//! disk:/dev/sdb
//! making
//! file:/srv/new-0
//! ```
//!
//! 1. Disks stand under the array that they belong to; the array that was opened last comes first.
//! 2. Under `making` stand disks of which an array is being made: none on them was served yet.
//! 3. A disk stands in one place only.
//! 4. A disk is noted before an array relies on it, and taken off again if it did not take it.
//! 5. A file below the data directory stands as `file:./`, with what follows the directory: a copy of the directory
//!    names the copies of its disks, and never the disks of the original.
//! 6. A line that does not read keeps no other from being used. The file that had it is kept beside before it is
//!    written anew.

use std::collections::BTreeSet;
use std::fs;
use std::io::ErrorKind;
use std::path::{Component, Path, PathBuf};

use group::regular;

use super::damage::Damage;
use super::replace::replace;
use super::{DataError, FILE_BYTES_MAX};
use crate::spec::disk::MemberDisk;

/// Where the names of disks are kept.
const FILE: &str = "disks";
const ARRAY: &str = "array ";
const MAKING: &str = "making";
/// How a file is named that lies below the data directory.
const BELOW: &str = "file:./";
const FILE_KIND: &str = "file:";
/// How lines begin that name a disk.
const KINDS: [&str; 4] = [FILE_KIND, "disk:", "sim:", "volatile:"];

/// What a list of disks is of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Of {
    /// An array that is there, by its ID.
    Array(String),
    /// One that is being made.
    Making,
}

impl Of {
    /// Some array whose ID the list does not tell.
    fn unknown() -> Self {
        Self::Array(String::new())
    }

    /// The ID of the array, if it is there and the list tells it.
    pub(crate) fn id(&self) -> Option<&str> {
        match self {
            Self::Array(id) => Some(id.as_str()).filter(|id| !id.is_empty()),
            Self::Making => None,
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Section {
    of: Of,
    /// With absolute paths.
    lines: BTreeSet<String>,
}

/// All that is remembered.
#[derive(Debug)]
pub struct Remembered {
    path: PathBuf,
    /// The data directory, from the root.
    data: PathBuf,
    sections: Vec<Section>,
    /// The file has these very sections, as this build writes them.
    is_written: bool,
    /// The file is there and names nothing: that is not how it was left.
    is_emptied: bool,
    /// The file as it was found, if it has lines that do not read.
    damage: Option<Damage>,
}

impl Remembered {
    /// What is remembered in `data`.
    pub fn read(data: &Path) -> Result<Self, DataError> {
        let path = data.join(FILE);
        let (bytes, is_there) = match regular::read(&path, FILE_BYTES_MAX) {
            Err(error) if error.kind() == ErrorKind::NotFound => (Default::default(), false),
            read => (read.map_err(|source| DataError::Read { path: path.clone(), source })?, true),
        };
        let data = std::path::absolute(data).unwrap_or_else(|_| data.to_owned());
        let (sections, damaged) = parse(&bytes, &data);
        let damage = (damaged > 0).then(|| Damage::new(&path, &bytes, damaged));
        let is_emptied = is_there && sections.is_empty();
        let mut list = Self { path, data, sections, is_written: false, is_emptied, damage };
        list.is_written = list.text().as_bytes() == &bytes[..];
        Ok(list)
    }

    /// Keeps a file that does not read in part beside the list. Says what is wrong with it; it is not written over
    /// where it cannot be kept.
    pub(crate) fn keep_damaged(&mut self) -> Option<String> {
        let damage = self.damage.as_mut()?;
        if let Err(error) = damage.keep() {
            tracing::warn!("{error}");
        }
        Some(damage.to_string())
    }

    /// Refuses to go on without knowing any disk, if some were known: the list is lost.
    pub fn check(&self) -> Result<(), DataError> {
        if self.is_emptied {
            return Err(DataError::ListLost(self.path.clone()));
        }
        Ok(())
    }

    /// What was used last.
    pub fn last(&self) -> Option<&Of> {
        self.sections.first().map(|section| &section.of)
    }

    /// How many disks are remembered.
    pub fn count(&self) -> usize {
        self.sections.iter().map(|section| section.lines.len()).sum()
    }

    /// The disks that are remembered for it, and those of which it is not known what array they are of.
    pub fn disks(&self, of: &Of) -> Vec<MemberDisk> {
        let mut disks = self.noted_under(of);
        let unknown = Of::unknown();
        if *of != Of::Making && *of != unknown {
            disks.extend(self.noted_under(&unknown));
        }
        disks
    }

    fn noted_under(&self, of: &Of) -> Vec<MemberDisk> {
        let of_it = self.sections.iter().filter(|section| section.of == *of);
        // Only lines that read were taken in.
        of_it.flat_map(|section| &section.lines).filter_map(|line| line.parse().ok()).collect()
    }

    /// Notes that an array is about to be made of these disks.
    pub fn begin<'a>(
        &mut self,
        disks: impl Iterator<Item = &'a MemberDisk>,
    ) -> Result<(), DataError> {
        // With its size, so that a file that is not there yet can be made.
        let lines = disks.filter_map(|disk| disk.lasting().map(|_| disk.absolute())).collect();
        self.put_first(Of::Making, lines)
    }

    /// The array that was to be made is not there.
    pub fn give_up(&mut self) -> Result<(), DataError> {
        self.sections.retain(|section| section.of != Of::Making);
        self.write()
    }

    /// The array of this ID was opened, and these are its disks.
    pub fn opened<'a>(
        &mut self,
        id: &str,
        disks: impl Iterator<Item = &'a MemberDisk>,
    ) -> Result<(), DataError> {
        let lines: BTreeSet<String> = disks.filter_map(MemberDisk::lasting).collect();
        let section = Section { of: Of::Array(id.to_owned()), lines };
        let is_making = self.sections.iter().any(|section| section.of == Of::Making);
        let is_whole = self.damage.as_ref().is_none_or(Damage::is_kept);
        let is_written = self.is_written || self.damage.is_some();
        if !is_making && is_whole && is_written && self.sections.first() == Some(&section) {
            return Ok(());
        }
        self.sections.retain(|section| section.of != Of::Making);
        // They are its disks, written down or not: what is noted later comes beside them.
        self.change_first(section.of, section.lines);
        self.write()
    }

    /// Notes a disk of an array; false if it was noted before, or would not outlive a restart.
    pub fn add(&mut self, id: &str, disk: &MemberDisk) -> Result<bool, DataError> {
        let Some(line) = disk.lasting() else { return Ok(false) };
        let of = Of::Array(id.to_owned());
        let of_it = |section: &&Section| section.of == of;
        let mut lines =
            self.sections.iter().find(of_it).map_or_else(BTreeSet::new, |s| s.lines.clone());
        if !lines.insert(line) {
            return Ok(false);
        }
        self.put_first(of, lines)?;
        Ok(true)
    }

    /// Forgets a disk of an array.
    pub fn remove(&mut self, id: &str, disk: &MemberDisk) -> Result<(), DataError> {
        let Some(line) = disk.lasting() else { return Ok(()) };
        let of = Of::Array(id.to_owned());
        for section in self.sections.iter_mut().filter(|section| section.of == of) {
            section.lines.remove(&line);
        }
        self.write()
    }

    /// Forgets the disks of an array that have left it: all but those that `stay`.
    pub fn keep_only(
        &mut self,
        id: &str,
        stays: impl Fn(&MemberDisk) -> bool,
    ) -> Result<(), DataError> {
        let of = Of::Array(id.to_owned());
        let left = self.noted_under(&of);
        for disk in left.iter().filter(|disk| !stays(disk)) {
            tracing::info!("disk {disk} has left the array and is not looked for any more");
            self.remove(id, disk)?;
        }
        Ok(())
    }

    /// Changes what is in memory only if the file took it.
    fn put_first(&mut self, of: Of, lines: BTreeSet<String>) -> Result<(), DataError> {
        let before = self.sections.clone();
        self.change_first(of, lines);
        let written = self.write();
        if written.is_err() {
            self.sections = before;
        }
        written
    }

    fn change_first(&mut self, of: Of, lines: BTreeSet<String>) {
        self.sections.retain(|section| section.of != of);
        for section in &mut self.sections {
            section.lines.retain(|line| !lines.contains(line));
        }
        self.sections.insert(0, Section { of, lines });
        self.sections.retain(|section| !section.lines.is_empty());
    }

    /// Without anything to remember there is no file.
    fn write(&mut self) -> Result<(), DataError> {
        if let Some(damage) = &mut self.damage {
            damage.keep()?;
        }
        if !self.sections.is_empty() {
            replace(&self.path, &self.text())?;
            self.is_written = true;
            return Ok(());
        }
        match fs::remove_file(&self.path) {
            Err(source) if source.kind() != ErrorKind::NotFound => {
                Err(DataError::Remove { path: self.path.clone(), source })
            }
            _ => Ok(()),
        }
    }

    /// Lines stand in the order of what is written: it is the same wherever the directory lies.
    fn text(&self) -> String {
        let mut text = String::new();
        for section in &self.sections {
            match &section.of {
                Of::Array(id) => text.push_str(&format!("{ARRAY}{id}\n")),
                Of::Making => text.push_str(&format!("{MAKING}\n")),
            }
            let lines: BTreeSet<String> =
                section.lines.iter().map(|line| shortened(line, &self.data)).collect();
            for line in lines {
                text.push_str(&line);
                text.push('\n');
            }
        }
        text
    }
}

/// A line as it stands in the file of this data directory, by whichever of its names the file was named.
fn shortened(line: &str, data: &Path) -> String {
    let is_plain =
        |rest: &&Path| rest.components().all(|part| matches!(part, Component::Normal(_)));
    let below = |data: &Path| {
        let rest = Path::new(line.strip_prefix(FILE_KIND)?).strip_prefix(data).ok();
        let rest = rest.filter(is_plain)?.to_str()?;
        (!rest.is_empty()).then(|| format!("{BELOW}{rest}"))
    };
    let real = || below(&data.canonicalize().ok()?);
    below(data).or_else(real).unwrap_or_else(|| line.to_owned())
}

/// The opposite.
fn lengthened(line: &str, data: &Path) -> String {
    match line.strip_prefix(BELOW) {
        Some(rest) => format!("{FILE_KIND}{}", data.join(rest).display()),
        None => line.to_owned(),
    }
}

/// What a line is.
enum Line {
    Heading(Of),
    Disk(String),
    /// It does not read.
    Damaged,
}

impl Line {
    fn of(bytes: &[u8], data: &Path) -> Self {
        let Ok(text) = str::from_utf8(bytes) else { return Self::Damaged };
        match text.strip_prefix(ARRAY) {
            Some(id) => return Self::Heading(Of::Array(id.to_owned())),
            None if text == MAKING => return Self::Heading(Of::Making),
            None => {}
        }
        let text = lengthened(text, data);
        match text.parse::<MemberDisk>() {
            Ok(disk) if disk.is_absolute() => Self::Disk(text),
            Ok(_) | Err(_) => Self::Damaged,
        }
    }
}

/// The sections that name disks, and how many lines do not read. Lines before any heading, and behind one that does
/// not read, are of an array whose ID is not known.
fn parse(bytes: &[u8], data: &Path) -> (Vec<Section>, usize) {
    let (mut sections, mut damaged) = (Vec::<Section>::new(), 0);
    let mut of = Of::unknown();
    let lines =
        bytes.split(|byte| *byte == b'\n').map(|line| line.strip_suffix(b"\r").unwrap_or(line));
    for line in lines.filter(|line| !line.is_empty()) {
        match Line::of(line, data) {
            Line::Heading(heading) => of = heading,
            Line::Disk(line) => match sections.iter_mut().find(|section| section.of == of) {
                Some(section) => drop(section.lines.insert(line)),
                None => sections.push(Section { of: of.clone(), lines: [line].into() }),
            },
            Line::Damaged => {
                damaged += 1;
                // It may have been a heading.
                if !KINDS.iter().any(|kind| line.starts_with(kind.as_bytes())) {
                    of = Of::unknown();
                }
            }
        }
    }
    (sections, damaged)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt;

    use super::*;

    fn disk(text: &str) -> MemberDisk {
        text.parse().unwrap()
    }

    fn names(list: &Remembered, of: &Of) -> Vec<String> {
        list.disks(of).iter().map(MemberDisk::name).collect()
    }

    fn array(id: &str) -> Of {
        Of::Array(id.to_owned())
    }

    #[test]
    fn disks_are_kept_by_their_array_and_the_last_one_comes_first() {
        let dir = tempfile::tempdir().unwrap();
        let mut list = Remembered::read(dir.path()).unwrap();
        assert_eq!(list.last(), None);
        list.opened("aa", [disk("/a/1"), disk("ram:1M"), disk("/a/0")].iter()).unwrap();
        list.opened("bb", [disk("/b/0")].iter()).unwrap();
        let list = Remembered::read(dir.path()).unwrap();
        assert_eq!(list.last(), Some(&array("bb")));
        assert_eq!(names(&list, &array("aa")), ["/a/0", "/a/1"]);
        assert_eq!(names(&list, &array("bb")), ["/b/0"]);
    }

    /// A copy of a data directory opened the disks of the original, and wrote to them.
    #[test]
    fn files_below_the_data_directory_go_with_it() {
        let dir = tempfile::tempdir().unwrap();
        let (data, copy) = (dir.path().join("data"), dir.path().join("copy"));
        fs::create_dir_all(data.join("more")).unwrap();
        let path = |name: &str| data.join(name).display().to_string();
        let all =
            [path("disk 1"), path("more/2"), path("../beside"), format!("{}2/3", data.display())];
        // As an earlier build left it.
        let lines = all.iter().map(|path| format!("file:{path}\n"));
        fs::write(data.join(FILE), format!("{ARRAY}aa\n{}", lines.collect::<String>())).unwrap();
        let mut list = Remembered::read(&data).unwrap();
        let disks = list.disks(&array("aa"));
        let mut sorted = all.clone();
        sorted.sort();
        assert_eq!(names(&list, &array("aa")), sorted);
        list.opened("aa", disks.iter()).unwrap();
        let text = fs::read_to_string(data.join(FILE)).unwrap();
        assert!(text.contains("\nfile:./disk 1\n") && text.contains("\nfile:./more/2\n"), "{text}");
        assert!(text.contains(&format!("\nfile:{}\n", all[2])), "{text}");
        assert_eq!(names(&Remembered::read(&data).unwrap(), &array("aa")), sorted);
        fs::rename(&data, &copy).unwrap();
        let moved = names(&Remembered::read(&copy).unwrap(), &array("aa"));
        let own = |name: &str| copy.join(name).display().to_string();
        assert!(moved.contains(&own("disk 1")) && moved.contains(&own("more/2")), "{moved:?}");
        assert!(moved.contains(&all[2]) && moved.contains(&all[3]), "{moved:?}");
        // Nothing has changed, and nothing is written.
        let written = |data: &Path| fs::metadata(data.join(FILE)).unwrap().ino();
        let before = written(&copy);
        let mut list = Remembered::read(&copy).unwrap();
        let disks = list.disks(&array("aa"));
        list.opened("aa", disks.iter()).unwrap();
        assert_eq!(written(&copy), before);
    }

    #[test]
    fn a_disk_is_of_one_array_and_leaves_it_again() {
        let dir = tempfile::tempdir().unwrap();
        let mut list = Remembered::read(dir.path()).unwrap();
        list.opened("aa", [disk("/0"), disk("/1")].iter()).unwrap();
        assert!(list.add("aa", &disk("/2")).unwrap());
        assert!(!list.add("aa", &disk("/2:1G")).unwrap(), "it is known");
        list.opened("bb", [disk("/1")].iter()).unwrap();
        assert_eq!(names(&list, &array("aa")), ["/0", "/2"]);
        list.remove("aa", &disk("/2")).unwrap();
        list.keep_only("bb", |_| false).unwrap();
        let list = Remembered::read(dir.path()).unwrap();
        assert_eq!((names(&list, &array("aa")).len(), names(&list, &array("bb")).len()), (1, 0));
    }

    #[test]
    fn what_is_being_made_is_told_from_what_is_there() {
        let dir = tempfile::tempdir().unwrap();
        let mut list = Remembered::read(dir.path()).unwrap();
        list.begin([disk("/0:1G"), disk("ram:1M")].iter()).unwrap();
        let mut list = Remembered::read(dir.path()).unwrap();
        assert_eq!(list.last(), Some(&Of::Making));
        assert_eq!(list.disks(&Of::Making), [disk("file:/0:1073741824")]);
        list.opened("aa", [disk("/0:1G")].iter()).unwrap();
        assert_eq!(Remembered::read(dir.path()).unwrap().disks(&Of::Making), []);
        list.begin([disk("/1:1G")].iter()).unwrap();
        list.give_up().unwrap();
        assert_eq!(list.last(), Some(&array("aa")));
    }

    #[test]
    fn a_list_without_headings_is_of_some_array() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join(FILE), "file:/0\nfile:/1\n").unwrap();
        let mut list = Remembered::read(dir.path()).unwrap();
        assert_eq!(names(&list, &array("")), ["/0", "/1"]);
        list.opened("aa", [disk("/0"), disk("/1")].iter()).unwrap();
        let list = Remembered::read(dir.path()).unwrap();
        assert_eq!(names(&list, &array("")).len() + names(&list, &array("aa")).len(), 2);
    }

    #[test]
    fn lines_that_do_not_read_keep_no_other_from_being_used_and_are_kept_beside() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(FILE);
        let kept = |name: &str| fs::read(dir.path().join(name)).unwrap();
        let damaged: &[u8] =
            b"array aa\nfile:/0\nfile:/\xff\nfile:rest/1\nfile:/2\narray \xfe\nfile:/3\n";
        fs::write(&path, damaged).unwrap();
        let mut list = Remembered::read(dir.path()).unwrap();
        list.check().unwrap();
        assert_eq!(names(&list, &array("aa")), ["/0", "/2", "/3"], "the last may be of any array");
        assert!(list.disks(&Of::Making).is_empty());
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1, "reading changes nothing");
        let said = list.keep_damaged().unwrap();
        assert!(said.contains(" has 3 lines that do not read: "), "{said}");
        assert!(said.contains("disks.damaged'; if "), "{said}");
        list.opened("aa", [disk("/0"), disk("/2"), disk("/3")].iter()).unwrap();
        assert_eq!(kept("disks.damaged"), damaged);
        let list = Remembered::read(dir.path()).unwrap();
        assert!(list.damage.is_none());
        assert_eq!(names(&list, &array("aa")), ["/0", "/2", "/3"]);
        // The same again is kept already, and another one takes the place of none.
        fs::write(&path, damaged).unwrap();
        Remembered::read(dir.path()).unwrap().add("aa", &disk("/4")).unwrap();
        fs::write(&path, b"nothing\nfile:/5").unwrap();
        let mut list = Remembered::read(dir.path()).unwrap();
        assert_eq!(names(&list, &array("bb")), ["/5"]);
        list.opened("bb", [disk("/5")].iter()).unwrap();
        assert_eq!(
            (kept("disks.damaged"), kept("disks.damaged.2").as_slice()),
            (damaged.to_vec(), &b"nothing\nfile:/5"[..])
        );
        let files = fs::read_dir(dir.path()).unwrap().count();
        assert_eq!(files, 3);
    }

    #[test]
    fn a_damaged_list_that_cannot_be_kept_is_not_written_over() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(FILE);
        fs::write(&path, b"file:/0\nfile:/\xff").unwrap();
        fs::create_dir(dir.path().join("disks.damaged.new")).unwrap();
        let mut list = Remembered::read(dir.path()).unwrap();
        list.opened("aa", [disk("/0")].iter()).unwrap_err();
        assert_eq!(fs::read(&path).unwrap(), b"file:/0\nfile:/\xff");
    }

    #[test]
    fn a_list_that_was_emptied_is_told_from_none() {
        let dir = tempfile::tempdir().unwrap();
        let mut list = Remembered::read(dir.path()).unwrap();
        list.check().unwrap();
        list.begin([disk("/0:1G")].iter()).unwrap();
        list.give_up().unwrap();
        Remembered::read(dir.path()).unwrap().check().unwrap();
        for bytes in [&b""[..], b"\n\n", b"array aa\n\xff\n"] {
            fs::write(dir.path().join(FILE), bytes).unwrap();
            let refused = Remembered::read(dir.path()).unwrap().check().unwrap_err().to_string();
            assert!(refused.contains("list of disks is lost"), "{refused}");
        }
    }

    /// A first start that cannot write, and room later.
    #[test]
    fn a_disk_that_is_noted_later_comes_beside_those_that_could_not_be() {
        let dir = tempfile::tempdir().unwrap();
        let data = dir.path().join("gone");
        let mut list = Remembered::read(&data).unwrap();
        list.opened("aa", [disk("/0"), disk("/1")].iter()).unwrap_err();
        fs::create_dir(&data).unwrap();
        assert!(list.add("aa", &disk("/2")).unwrap());
        assert_eq!(names(&Remembered::read(&data).unwrap(), &array("aa")), ["/0", "/1", "/2"]);
    }

    #[test]
    fn what_cannot_be_written_is_not_believed() {
        let dir = tempfile::tempdir().unwrap();
        let mut list = Remembered::read(dir.path()).unwrap();
        list.opened("aa", [disk("/0")].iter()).unwrap();
        fs::create_dir(dir.path().join("disks.new")).unwrap();
        let refused = list.add("aa", &disk("/1")).unwrap_err().to_string();
        assert!(refused.starts_with("cannot write '"), "{refused}");
        assert_eq!(names(&list, &array("aa")), ["/0"]);
    }
}

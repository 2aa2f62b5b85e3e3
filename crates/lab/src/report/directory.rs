//! The directory of results: one run at a time, files of one age, and nothing of others replaced.
//!
//! | file | beside it while it is written |
//! |---|---|
//! | `flatfile.csv` | `.drystone-lab-flatfile.csv.new` |
//! | `report.html` | `.drystone-lab-report.html.new` |
//! | `results.json` | `.drystone-lab-results.json.new` |
//!
//! All new files are written and synced, in this order, before the first takes the place of an old one, again in
//! this order. So a disk that is full leaves the old set as it was. A lab that is killed in between leaves either
//! the first new file, and then perhaps no other is whole; or not the first, and then the others are, and
//! [`ResultsDirectory::take`] puts them in their places.

use std::fs::{self, File, TryLockError};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use super::{RESULTS, Report, ReportError, csv, html};

const FLATFILE: &str = "flatfile.csv";
const PAGE: &str = "report.html";
/// In the order in which they are written and put in place. The last is what a later run resumes from.
const FILES: [&str; 3] = [FLATFILE, PAGE, RESULTS];

/// A directory in which this process keeps results, locked against all others for as long as this lives.
#[derive(Debug)]
pub struct ResultsDirectory {
    path: PathBuf,
    /// The directory itself, with an advisory lock (flock).
    locked: File,
}

impl ResultsDirectory {
    /// Makes the directory if it is missing, and takes it. Whether it can be written to is better known before a
    /// run than after it.
    ///
    /// # Errors
    /// [`ReportError::Busy`] if another process has it, [`ReportError::Foreign`] if one of the files to be
    /// replaced is not of the lab, else [`ReportError::Io`].
    pub fn take(path: &Path) -> Result<Self, ReportError> {
        let failed =
            |action| move |source| ReportError::Io { action, path: path.to_owned(), source };
        fs::create_dir_all(path).map_err(failed("make"))?;
        let locked = File::open(path).map_err(failed("read"))?;
        match locked.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(ReportError::Busy(path.to_owned())),
            // A file system without such locks: two runs at once are then up to who starts them.
            Err(TryLockError::Error(error)) => {
                tracing::warn!("{} cannot be locked against other runs: {error}", path.display());
            }
        }
        let directory = Self { path: path.to_owned(), locked };
        for name in FILES {
            let file = path.join(name);
            if !is_ours(&file, name).map_err(failed("read"))? {
                return Err(ReportError::Foreign(file));
            }
        }
        directory.settle().map_err(failed("write to"))?;
        let probe = directory.beside(RESULTS);
        write_new(&probe, b"x")
            .and_then(|()| fs::remove_file(&probe))
            .map_err(failed("write to"))?;
        Ok(directory)
    }

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Replaces all files by those of `report`, or none: a disk that is full leaves the set that was there.
    ///
    /// # Errors
    /// [`ReportError::Io`], or [`ReportError::Mixed`] if some were replaced before one could not be.
    pub fn save(&self, report: &Report) -> Result<(), ReportError> {
        let json = serde_json::to_string_pretty(report)
            .map_err(|error| ReportError::Form { path: self.path.join(RESULTS), error })?;
        let texts = [csv::flatfile(report), html::page(report), json + "\n"];
        for (name, text) in FILES.iter().zip(&texts) {
            write_new(&self.beside(name), text.as_bytes()).map_err(|source| {
                self.discard();
                ReportError::Io { action: "write", path: self.path.join(name), source }
            })?;
        }
        for (index, name) in FILES.iter().enumerate() {
            self.put(name).map_err(|source| {
                let path = self.path.join(name);
                // The new ones stay: the next run puts them in place.
                match index {
                    0 => ReportError::Io { action: "replace", path, source },
                    _ => ReportError::Mixed { path, source },
                }
            })?;
        }
        // What cannot be synced is there all the same, unless the power goes.
        let _ = self.locked.sync_all();
        Ok(())
    }

    /// Ends what a lab that was killed had begun.
    fn settle(&self) -> io::Result<()> {
        let is_there = |name: &&&str| self.beside(name).symlink_metadata().is_ok();
        let left = || FILES.iter().filter(is_there);
        match left().next() {
            None => Ok(()),
            // Perhaps not all were written.
            Some(&FLATFILE) => {
                self.discard();
                Ok(())
            }
            Some(_) => left().try_for_each(|name| self.put(name)),
        }
    }

    fn put(&self, name: &str) -> io::Result<()> {
        fs::rename(self.beside(name), self.path.join(name))
    }

    /// A part of a file helps nobody. The first goes last: it tells that the others may not be whole.
    fn discard(&self) {
        for name in FILES.iter().rev() {
            match fs::remove_file(self.beside(name)) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return,
                _ => {}
            }
        }
    }

    fn beside(&self, name: &str) -> PathBuf {
        self.path.join(format!(".drystone-lab-{name}.new"))
    }
}

/// Writes a file of the lab's own name, which is not followed if it is a link.
fn write_new(path: &Path, bytes: &[u8]) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut file = File::create_new(path)?;
    file.write_all(bytes)?;
    file.sync_all()
}

/// Whether a file may be replaced: it is missing, or the lab has made it.
fn is_ours(path: &Path, name: &str) -> io::Result<bool> {
    match path.symlink_metadata() {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(true),
        Err(error) => return Err(error),
        Ok(metadata) if !metadata.is_file() => return Ok(false),
        Ok(_) => {}
    }
    let bytes = fs::read(path)?;
    let Ok(text) = String::from_utf8(bytes) else { return Ok(false) };
    Ok(match name {
        FLATFILE => text.starts_with(csv::MARK),
        PAGE => text.contains(html::MARK),
        _ => serde_json::from_str::<serde_json::Value>(&text).is_ok_and(|value| {
            let program = value.get("program").and_then(serde_json::Value::as_str);
            program.is_some_and(|name| name.starts_with("drystone "))
        }),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::vdbench;

    fn report(title: &str) -> Report {
        let script = vdbench::parse("sd=s,lun=x\nwd=w,sd=s\nrd=a,wd=w\n").unwrap();
        Report::new(title, &script, vec!["s on x".to_owned()])
    }

    fn names(path: &Path) -> Vec<String> {
        let entries = fs::read_dir(path).unwrap();
        let mut names: Vec<String> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    #[test]
    fn one_run_at_a_time_has_a_directory() {
        let directory = tempfile::tempdir().unwrap();
        let held = ResultsDirectory::take(directory.path()).unwrap();
        let second = ResultsDirectory::take(directory.path()).unwrap_err();
        assert!(matches!(second, ReportError::Busy(_)), "{second}");
        held.save(&report("a")).unwrap();
        drop(held);
        let later = ResultsDirectory::take(directory.path()).unwrap();
        later.save(&report("b")).unwrap();
        assert_eq!(Report::load(directory.path()).unwrap().title, "b");
        assert_eq!(names(directory.path()), FILES);
    }

    #[test]
    fn a_file_that_the_lab_did_not_make_is_left_as_it_is() {
        for name in FILES {
            let directory = tempfile::tempdir().unwrap();
            let path = directory.path().join(name);
            for text in ["", "[1, 2]", "{\"program\": \"fio\"}", "<html></html>", "step,x\n"] {
                fs::write(&path, text).unwrap();
                let refused = ResultsDirectory::take(directory.path()).unwrap_err();
                assert!(
                    matches!(&refused, ReportError::Foreign(found) if *found == path),
                    "{refused}"
                );
                assert_eq!(fs::read_to_string(&path).unwrap(), text);
            }
            fs::remove_file(&path).unwrap();
            std::os::unix::fs::symlink("/nowhere", &path).unwrap();
            let refused = ResultsDirectory::take(directory.path()).unwrap_err();
            assert!(matches!(refused, ReportError::Foreign(_)), "{refused}");
            assert_eq!(names(directory.path()), [name], "nothing else was made");
        }
    }

    /// Whichever of the three has no room: the set that was there stays.
    #[test]
    fn files_are_of_one_age_also_when_one_cannot_be_written() {
        for name in FILES {
            let directory = tempfile::tempdir().unwrap();
            let results = ResultsDirectory::take(directory.path()).unwrap();
            results.save(&report("before")).unwrap();
            // What stands in the way of a file cannot be removed as one.
            fs::create_dir(results.beside(name)).unwrap();
            let error = results.save(&report("after")).unwrap_err();
            assert!(matches!(error, ReportError::Io { action: "write", .. }), "{error}");
            fs::remove_dir(results.beside(name)).unwrap();
            results.settle().unwrap();
            assert_eq!(names(directory.path()), FILES, "no part of a file stays");
            let page = fs::read_to_string(directory.path().join(PAGE)).unwrap();
            assert!(page.contains("before") && !page.contains("after"));
            assert_eq!(Report::load(directory.path()).unwrap().title, "before");
        }
    }

    /// A lab that is killed after each of its steps of a save: the next one finds one age.
    #[test]
    fn a_kill_between_two_files_leaves_one_age() {
        for killed_after in 0..=6 {
            let directory = tempfile::tempdir().unwrap();
            let other = tempfile::tempdir().unwrap();
            let results = ResultsDirectory::take(directory.path()).unwrap();
            results.save(&report("before")).unwrap();
            ResultsDirectory::take(other.path()).unwrap().save(&report("after")).unwrap();
            for (step, name) in FILES.iter().chain(&FILES).enumerate().take(killed_after) {
                match step {
                    0..3 => drop(fs::copy(other.path().join(name), results.beside(name)).unwrap()),
                    _ => results.put(name).unwrap(),
                }
            }
            drop(results);
            drop(ResultsDirectory::take(directory.path()).unwrap());
            let age = if killed_after > 3 { "after" } else { "before" };
            assert_eq!(names(directory.path()), FILES, "killed after {killed_after}");
            assert_eq!(Report::load(directory.path()).unwrap().title, age);
            assert!(fs::read_to_string(directory.path().join(PAGE)).unwrap().contains(age));
        }
    }
}

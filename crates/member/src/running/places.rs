//! Whether the data directory and the files of disks are still where they were. What is removed or replaced while it is
//! in use goes on without a name, as if nothing were wrong, and the next start does not find it.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use array::Array;
use array::api::DiskState;
use ring::wait::Turn;

use super::Member;
use crate::events::{Event, EventLog, Kind, ObjectKind};

/// How long who asks waits for a look. A file system that does not answer is looked at on and on, by one thread.
const PATIENCE: Duration = Duration::from_secs(1);

/// Device and inode.
type File = (u64, u64);

/// What lies at some paths; `None` is nothing. A path that cannot be looked at is left out.
type Found = BTreeMap<PathBuf, Option<File>>;

/// What was found at the first look, and what is not there any more.
#[derive(Debug)]
pub(crate) struct Places {
    data: PathBuf,
    /// What the start found wrong, such as a list of disks that does not read.
    found_wrong: Vec<String>,
    first: RefCell<BTreeMap<PathBuf, File>>,
    gone: RefCell<BTreeSet<PathBuf>>,
    /// Who has it looks.
    looking: Turn,
    /// Where the look that is under way is, and since when.
    at: Arc<Mutex<Option<(PathBuf, Instant)>>>,
}

impl Places {
    pub(crate) fn new(data: &Path, found_wrong: Vec<String>) -> Self {
        let data = std::path::absolute(data).unwrap_or_else(|_| data.to_owned());
        let (first, gone) = (RefCell::default(), RefCell::default());
        Self { data, found_wrong, first, gone, looking: Turn::default(), at: Arc::default() }
    }

    /// Takes in what was found; returns what is gone since the look before.
    fn take(&self, found: Found) -> Vec<PathBuf> {
        let mut first = self.first.borrow_mut();
        first.retain(|path, _| found.contains_key(path));
        let mut gone = BTreeSet::new();
        for (path, file) in found {
            match (first.get(&path), file) {
                (Some(before), now) if now != Some(*before) => drop(gone.insert(path)),
                (None, Some(file)) => drop(first.insert(path, file)),
                // What was never seen may have another name by now.
                (Some(_), _) | (None, None) => {}
            }
        }
        let news = gone.difference(&self.gone.borrow()).cloned().collect();
        self.gone.replace(gone);
        news
    }

    /// What does not answer.
    fn silent(&self) -> Option<String> {
        let at = at(&self.at);
        let (path, since) = at.as_ref()?;
        let seconds = since.elapsed().as_secs();
        let is_late = since.elapsed() >= PATIENCE;
        let what =
            if *path == self.data { "the data directory" } else { "the file system of disk" };
        is_late.then(|| {
            format!(
                "{what} {} has not answered for {seconds} s: what is told and set may not be stored, or not be seen \
                 after a restart",
                path.display()
            )
        })
    }

    fn sentence(&self, path: &Path) -> String {
        if *path == self.data {
            return format!(
                "the data directory {} was removed or replaced while it is in use: put it back before the member stops, \
                 or keep its disks at hand, which are to be named at the next start",
                path.display()
            );
        }
        format!(
            "the file of disk {} was removed or replaced while it is in use, and what is on it is lost when the member \
             stops: put another disk in its place before",
            path.display()
        )
    }
}

/// What lies at these paths: files and directories, as names of devices come and go by themselves.
fn look(paths: Vec<PathBuf>, looks_at: &Mutex<Option<(PathBuf, Instant)>>) -> Found {
    let file_at = |path: PathBuf| {
        *at(looks_at) = Some((path.clone(), Instant::now()));
        match fs::metadata(&path) {
            Ok(data) if data.is_file() || data.is_dir() => {
                Some((path, Some((data.dev(), data.ino()))))
            }
            Err(error) if error.kind() == ErrorKind::NotFound => Some((path, None)),
            Ok(_) | Err(_) => None,
        }
    };
    let found = paths.into_iter().filter_map(file_at).collect();
    *at(looks_at) = None;
    found
}

fn at(looks_at: &Mutex<Option<(PathBuf, Instant)>>) -> MutexGuard<'_, Option<(PathBuf, Instant)>> {
    looks_at.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Member {
    /// Looks whether everything is where it was, and tells what is not, unless a look is under way. Waits for a while.
    pub(crate) async fn look_at_places(&self) {
        if self.places.looking.held().is_none() {
            let (array, events) = (self.array.clone(), self.events.clone());
            let (places, turn) = (self.places.clone(), self.places.looking.take().await);
            let settings = self.settings.clone();
            ring::spawn(async move {
                look_once(&places, &array, &events).await;
                settings.look_at_key().await;
                drop(turn);
            });
        }
        let looked = async { drop(self.places.looking.take().await) };
        ring::timeout(PATIENCE, looked).await;
    }

    /// Looks whether the key of secrets is where the next start needs it, and writes it back where it is not.
    pub(crate) async fn look_at_key(&self) {
        self.settings.look_at_key().await;
    }

    /// A sentence for each that is not, as the last look found it, for what does not answer, and for what the
    /// start found wrong.
    pub(super) fn gone_places(&self) -> Vec<String> {
        let gone = self.places.gone.borrow();
        let gone = gone.iter().map(|path| self.places.sentence(path));
        let silent = self.places.silent().into_iter();
        silent.chain(gone).chain(self.places.found_wrong.clone()).collect()
    }
}

async fn look_once(places: &Places, array: &Array, events: &EventLog) {
    let is_used = |state| !matches!(state, DiskState::Missing | DiskState::Failed);
    let disks = array.disks().into_iter().filter(|disk| is_used(disk.state));
    let disks = disks.map(|disk| PathBuf::from(disk.name)).filter(|path| path.is_absolute());
    let paths = disks.chain([places.data.clone()]).collect();
    let at = Arc::clone(&places.at);
    let found = ring::blocking(move || look(paths, &at)).await;
    for path in places.take(found) {
        let text = places.sentence(&path);
        let event = match path == places.data {
            true => Event::of_member(Kind::DataDirectoryGone, text),
            false => {
                let name = path.display().to_string();
                Event::about(Kind::DiskFileGone, ObjectKind::Disk, &name, text)
            }
        };
        events.tell(event);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request::{ArrayRequest, Request};
    use crate::testing::Rig;

    /// A file system does not answer, so that a look does not end.
    #[test]
    fn a_look_that_hangs_keeps_nobody_waiting_for_long() {
        let dir = tempfile::tempdir().unwrap();
        let rig = Rig::start(dir.path(), &dir.path().join("data"));
        let hung = rig.with(async |member| {
            *at(&member.places.at) = Some((member.places.data.clone(), Instant::now()));
            member.places.looking.take().await
        });
        let begun = Instant::now();
        rig.ask(Request::Array(ArrayRequest::Show)).expect("the array is shown");
        assert!(begun.elapsed() < 20 * PATIENCE, "{:?}", begun.elapsed());
        let said = rig.with(async |member| member.gone_places());
        let data = dir.path().join("data");
        let wanted = format!("the data directory {} has not answered for ", data.display());
        assert!(said.len() == 1 && said[0].starts_with(&wanted), "{said:?}");
        drop(hung);
        rig.stop();
    }

    #[test]
    fn what_was_removed_or_replaced_is_told_once_and_shown_until_it_is_back() {
        let dir = tempfile::tempdir().unwrap();
        let (data, disk) = (dir.path().join("data"), dir.path().join("disk"));
        let (other, device) = (dir.path().join("other"), PathBuf::from("/dev/null"));
        fs::create_dir(&data).unwrap();
        fs::write(&disk, "a").unwrap();
        let places = Places::new(&data, Vec::new());
        let paths = || vec![data.clone(), disk.clone(), device.clone(), dir.path().join("never")];
        let seen = || (places.take(look(paths(), &places.at)), places.gone.borrow().len());
        assert_eq!(seen(), (vec![], 0));
        fs::rename(&disk, &other).unwrap();
        assert_eq!(seen(), (vec![disk.clone()], 1));
        fs::write(&disk, "another").unwrap();
        assert_eq!(seen(), (vec![], 1), "it is told already");
        fs::rename(&other, &disk).unwrap();
        assert_eq!(seen(), (vec![], 0), "it is back");
        fs::remove_dir(&data).unwrap();
        assert_eq!(seen(), (vec![data.clone()], 1));
        assert!(places.sentence(&data).starts_with("the data directory "));
        // A disk that has left may come back as another file.
        assert!(places.take(look(vec![data.clone()], &places.at)).is_empty());
        fs::remove_file(&disk).unwrap();
        fs::write(&disk, "new").unwrap();
        assert_eq!(seen(), (vec![], 1));
    }
}

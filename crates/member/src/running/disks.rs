//! What is asked about disks.

use std::collections::BTreeSet;
use std::rc::Rc;
use std::sync::PoisonError;

use array::api::{DiskInfo, DiskState};
use array::{ArrayError, DiskId, Member as Disk};

use super::{Member, RequestError};
use crate::data::remembered::Remembered;
use crate::opening::creation::NewFiles;
use crate::opening::disks::member;
use crate::reply::{Answer, DiskFigures};
use crate::request::DiskRequest;
use crate::spec::DiskError;
use crate::spec::disk::MemberDisk;

impl Member {
    pub(super) async fn disk(&self, request: DiskRequest) -> Result<Answer, RequestError> {
        match request {
            DiskRequest::List => {}
            DiskRequest::Show { disk } => {
                return Ok(Answer::Disk(Box::new(self.find_disk(&disk)?)));
            }
            DiskRequest::Add { disk, journal: false } => {
                self.join(&disk, |member| self.array.add_disk(member)).await?;
            }
            DiskRequest::Add { disk, journal: true } => {
                self.join(&disk, |member| self.array.add_journal_disk(member)).await?;
            }
            DiskRequest::Replace { disk, by } => {
                let old = self.meant(&disk)?;
                self.join(&by, |member| self.array.replace_disk(&old, member)).await?;
            }
            DiskRequest::Fail { disk, accept_loss } => {
                self.array.fail_disk(&self.meant(&disk)?, accept_loss).await?;
                self.tell_changes();
                self.settle().await;
            }
            DiskRequest::Retire { disk } => {
                self.array.retire_disk(&self.meant(&disk)?).await?;
            }
            DiskRequest::CancelRetire { disk } => {
                self.array.cancel_retire(&self.meant(&disk)?).await?;
            }
            DiskRequest::Clear { disk } => {
                let meant = self.meant(&disk).or_else(|error| self.departed(&disk).ok_or(error))?;
                self.array.clear_disk(&meant).await?;
            }
        }
        // A disk that nothing lies on may have left before the next look.
        self.tell_changes();
        Ok(Answer::Disks(self.array.disks()))
    }

    /// A disk by its number, its whole name, or the last part of its path if that is enough.
    fn find_disk(&self, word: &str) -> Result<DiskInfo, RequestError> {
        let disks = self.array.disks();
        let number = |disk: &&DiskInfo| disk.id.0.to_string() == word;
        let whole = |disk: &&DiskInfo| disk.name == word;
        let last = |disk: &&DiskInfo| disk.name.rsplit('/').next() == Some(word);
        let all = |fits: &dyn Fn(&&DiskInfo) -> bool| disks.iter().filter(fits).collect::<Vec<_>>();
        let found = [all(&number), all(&whole), all(&last)].into_iter().find(|all| !all.is_empty());
        match found.as_deref() {
            Some([one]) => Ok((*one).clone()),
            Some([first, second, ..]) => Err(RequestError::AmbiguousDisk {
                word: word.to_owned(),
                first: first.id.0.into(),
                second: second.id.0.into(),
            }),
            _ => Err(RequestError::NoSuchDisk(word.to_owned())),
        }
    }

    /// What the array is to call a disk that somebody means: by its number where another one, which came
    /// in its place, has the same name.
    fn meant(&self, word: &str) -> Result<String, RequestError> {
        let meant = self.find_disk(word)?;
        let namesakes = self.array.disks().iter().filter(|disk| disk.name == meant.name).count();
        Ok(if namesakes > 1 { meant.id.0.to_string() } else { meant.name })
    }

    /// The number of a disk that has left, of which operators are told still.
    fn departed(&self, word: &str) -> Option<String> {
        let departed = self.array.departed();
        let fits = |name: &str| name == word || name.rsplit('/').next() == Some(word);
        let mut found = departed.iter().map(|(id, name)| (id.0.to_string(), name));
        found.find(|(id, name)| id == word || fits(name)).map(|(id, _)| id)
    }

    /// Opens a disk, and has the array take it in. The disk is remembered before the array may
    /// rely on it, and forgotten again if the array did not take it.
    async fn join<Work: Future<Output = Result<DiskId, ArrayError>>>(
        &self,
        text: &str,
        take_in: impl FnOnce(Disk) -> Work,
    ) -> Result<(), RequestError> {
        let _turn = self.joining.take().await;
        let disk: MemberDisk = text.parse()?;
        let number = self.array.disks().len();
        let mut name = disk.name();
        if disk.path().is_none() {
            name = format!("{name}#{number}");
        }
        if self.is_member(&name) {
            return Err(RequestError::DiskIsMember(name));
        }
        let mut made = NewFiles::default();
        if disk.is_new() {
            made.note(&disk);
        }
        let member = self.open_disk(&disk, number).await?;
        let id = self.array.info().id;
        let (of, noted) = (id.clone(), disk.clone());
        let is_noted = self.on_list(move |list| list.add(&of, &noted)).await;
        let is_noted = is_noted.map_err(RequestError::NotRemembered)?;
        let taken = take_in(member).await;
        if taken.is_ok() || self.is_member(&name) {
            made.keep();
        } else if is_noted
            && let Err(error) = self.on_list(move |list| list.remove(&id, &disk)).await
        {
            tracing::warn!("{error}");
        }
        taken?;
        self.look_at_places().await;
        Ok(())
    }

    /// Does something with the list of disks, on another thread.
    async fn on_list<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Remembered) -> T + Send + 'static,
    ) -> T {
        let list = self.remembered.clone();
        // Each change of the list is one call.
        ring::blocking(move || work(&mut list.lock().unwrap_or_else(PoisonError::into_inner))).await
    }

    /// Whether a disk of this name is in use. Another one may come in the place of one that is missing or failed.
    fn is_member(&self, name: &str) -> bool {
        let is_gone =
            |disk: &DiskInfo| matches!(disk.state, DiskState::Missing | DiskState::Failed);
        let is_here = |disk: &DiskInfo| disk.name == name && !is_gone(disk);
        self.array.disks().iter().any(is_here)
    }

    async fn open_disk(&self, disk: &MemberDisk, number: usize) -> Result<Disk, DiskError> {
        let opening = disk.clone();
        let device = ring::blocking(move || opening.open()).await?;
        Ok(member(disk, device, (number, &self.meters)))
    }

    /// What each disk has done. A disk whose place another one has taken under the same name has done nothing
    /// since.
    pub(super) fn disk_figures(&self) -> Vec<DiskFigures> {
        let is_gone =
            |disk: &&DiskInfo| matches!(disk.state, DiskState::Missing | DiskState::Failed);
        let disks = self.array.disks();
        let is_followed = |disk: &&DiskInfo| {
            let here = disks.iter().filter(|other| other.name == disk.name && !is_gone(other));
            !is_gone(disk) || here.count() == 0
        };
        let figures = disks
            .iter()
            .filter(is_followed)
            .filter_map(|disk| Some(DiskFigures::new(disk, self.meters.counted(&disk.name)?)));
        figures.collect()
    }

    /// Disks that have left the array are not looked for at the next start. Says whether there was a look: none is while a
    /// disk joins, or is being forgotten.
    pub(super) fn forget_what_left(self: &Rc<Self>) -> bool {
        // One that joins is not a member yet, and is not to be forgotten.
        if self.joining.held().is_some() {
            return false;
        }
        let members = self.array.disks();
        self.meters.keep_only(|name| members.iter().any(|disk| disk.name == name));
        ring::spawn(forget(self.clone()));
        true
    }
}

/// Forgets the disks that have left, beside everything else: the data directory may not answer.
async fn forget(member: Rc<Member>) {
    let _turn = member.joining.take().await;
    let members = member.array.disks();
    // One that is missing may be known to the array by its number only.
    if members.iter().any(|disk| disk.state == DiskState::Missing) {
        return;
    }
    let id = member.array.info().id;
    let names: BTreeSet<String> = members.into_iter().map(|disk| disk.name).collect();
    let stays = move |disk: &MemberDisk| names.contains(&disk.name());
    if let Err(error) = member.on_list(move |list| list.keep_only(&id, stays)).await {
        tracing::warn!("{error}");
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::sync::Arc;

    use array::api::{DiskInfo, DiskState};
    use block::RamDisk;

    use crate::testing::Rig;

    /// An array takes a disk in by and by, and others may come and go meanwhile.
    #[test]
    fn a_disk_that_joins_is_counted_and_looked_for_at_the_next_start() {
        let dir = tempfile::tempdir().unwrap();
        let data = dir.path().join("data");
        let rig = Rig::start(dir.path(), &data);
        let path = dir.path().join("disk-2");
        let text = format!("file:{}:256M", path.display());
        let name = path.display().to_string();
        let seen = rig.with(async move |member| {
            let was_looked = Cell::new(None);
            let take_in = |disk| {
                was_looked.set(Some(member.forget_what_left()));
                member.array.add_disk(disk)
            };
            member.join(&text, take_in).await.expect("it joins");
            let is_looked = member.forget_what_left();
            (was_looked.get(), is_looked, member.meters.counted(&name).is_some())
        });
        assert_eq!(seen, (Some(false), true, true), "it is looked again once it has joined");
        rig.stop();
        // Only the others are named.
        let rig = Rig::start(dir.path(), &data);
        let disks = rig.with(async |member| member.array().disks());
        assert_eq!(disks.len(), 3);
        let is_online = |disk: &DiskInfo| disk.state == DiskState::Online;
        assert!(disks.iter().all(is_online), "{disks:?}");
        rig.stop();
    }

    #[test]
    fn a_disk_that_has_left_is_forgotten_once_none_joins() {
        let dir = tempfile::tempdir().unwrap();
        let rig = Rig::start(dir.path(), &dir.path().join("data"));
        let forgotten = rig.with(async |member| {
            let gone = "a disk that has left";
            let ram = Arc::new(RamDisk::new(4096, 16).expect("memory"));
            drop(member.meters.meter(gone, ram));
            let turn = member.joining.take().await;
            let while_one_joins =
                (member.forget_what_left(), member.meters.counted(gone).is_some());
            drop(turn);
            (while_one_joins, member.forget_what_left(), member.meters.counted(gone).is_some())
        });
        assert_eq!(forgotten, ((false, true), true, false));
        rig.stop();
    }

    /// The data directory does not answer: the list of disks waits for it, and no core does.
    #[test]
    fn a_list_of_disks_that_cannot_be_written_for_now_keeps_nobody_else_waiting() {
        let dir = tempfile::tempdir().unwrap();
        let rig = Rig::start(dir.path(), &dir.path().join("data"));
        let list = rig.with(async |member| member.remembered.clone());
        let held = list.lock().unwrap();
        assert!(rig.with(async |member| member.forget_what_left()));
        rig.create("a");
        assert!(!rig.with(async |member| member.forget_what_left()), "one is at it");
        drop(held);
        let is_over = rig.with(async |member| {
            drop(member.joining.take().await);
            member.forget_what_left()
        });
        assert!(is_over, "disks can join and leave again");
        rig.stop();
    }
}

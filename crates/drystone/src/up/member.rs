//! Carries out what is asked over the control socket. Lives on the first core.

use super::creation::NewFiles;
use super::disks;
use super::remembered::Remembered;
use super::serving::Serving;
use crate::control::request::{ArrayRequest, DiskRequest, Request};
use crate::control::server::{Answer, Asker};
use crate::spec::member::MemberDisk;
use crate::turn::Turn;
use anyhow::{Context, anyhow, bail};
use array::api::{DiskInfo, DiskState, JobKind};
use array::{Array, ArrayError, DiskId, Member as Disk};
use serde::Serialize;
use serde_json::Value;
use std::cell::{Cell, RefCell};
use std::future::Future;
use std::time::Duration;

/// How often an asker hears of progress.
const PROGRESS_PAUSE: Duration = Duration::from_millis(250);

/// An open array with everything around it.
#[derive(Debug)]
pub(crate) struct Member {
    pub(super) array: Array,
    pub(super) serving: Serving,
    remembered: RefCell<Remembered>,
    /// Changes of what is served come one after the other.
    pub(super) turn: Turn,
    /// So do disks that join.
    joining: Turn,
    is_stopping: Cell<bool>,
}

impl Answer for Member {
    async fn answer(&self, request: Request, asker: &Asker) -> Result<Value, String> {
        let answered = match request {
            Request::Volume(request) => self.volume(request).await,
            Request::Snapshot(request) => self.snapshot(request).await,
            Request::Disk(request) => self.disk(request).await,
            Request::Array(request) => self.whole(request, asker).await,
            Request::Watch { kinds } => self.watch(&kinds, asker).await,
        };
        answered.map_err(|error| self.sentence(&error))
    }
}

/// An answer as it travels.
pub(super) fn value(answer: impl Serialize) -> anyhow::Result<Value> {
    Ok(serde_json::to_value(answer)?)
}

impl Member {
    pub(crate) fn new(array: Array, serving: Serving, remembered: Remembered) -> Member {
        let remembered = RefCell::new(remembered);
        let (turn, joining) = (Turn::default(), Turn::default());
        Member { array, serving, remembered, turn, joining, is_stopping: Cell::new(false) }
    }

    pub(crate) fn array(&self) -> &Array {
        &self.array
    }

    pub(crate) fn serving(&self) -> &Serving {
        &self.serving
    }

    /// The end has begun.
    pub(crate) fn stops(&self) {
        self.is_stopping.set(true);
    }

    pub(super) fn is_stopping(&self) -> bool {
        self.is_stopping.get()
    }

    /// Brings the targets in line with the array.
    pub(crate) async fn settle(&self) {
        let _turn = self.turn.take().await;
        self.serving.settle().await;
    }

    async fn disk(&self, request: DiskRequest) -> anyhow::Result<Value> {
        match request {
            DiskRequest::List => {}
            DiskRequest::Show { disk } => return value(self.find_disk(&disk)?),
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
                self.settle().await;
            }
            DiskRequest::Retire { disk } => {
                self.array.retire_disk(&self.meant(&disk)?).await?;
            }
            DiskRequest::CancelRetire { disk } => {
                self.array.cancel_retire(&self.meant(&disk)?).await?;
            }
            DiskRequest::Clear { disk } => {
                self.array.clear_disk(&self.meant(&disk)?).await?;
            }
        }
        value(self.array.disks())
    }

    /// A disk by its number, its whole name, or the last part of its path if that is enough.
    fn find_disk(&self, word: &str) -> anyhow::Result<DiskInfo> {
        let disks = self.array.disks();
        let number = |disk: &&DiskInfo| disk.id.0.to_string() == word;
        let whole = |disk: &&DiskInfo| disk.name == word;
        let last = |disk: &&DiskInfo| disk.name.rsplit('/').next() == Some(word);
        let all = |fits: &dyn Fn(&&DiskInfo) -> bool| disks.iter().filter(fits).collect::<Vec<_>>();
        let found = [all(&number), all(&whole), all(&last)].into_iter().find(|all| !all.is_empty());
        match found.as_deref() {
            Some([one]) => Ok((*one).clone()),
            Some([first, others @ ..]) => bail!(
                "'{word}' stands for several disks, also for {} and {}: say which by its number",
                first.id.0,
                others[0].id.0
            ),
            _ => bail!("there is no disk '{word}': see 'drystone disk list'"),
        }
    }

    /// What the array is to call a disk that somebody means: by its number where another one, which came
    /// in its place, has the same name.
    fn meant(&self, word: &str) -> anyhow::Result<String> {
        let meant = self.find_disk(word)?;
        let namesakes = self.array.disks().iter().filter(|disk| disk.name == meant.name).count();
        Ok(if namesakes > 1 { meant.id.0.to_string() } else { meant.name })
    }

    /// Opens a disk, and has the array take it in. The disk is remembered before the array may
    /// rely on it, and forgotten again if the array did not take it.
    async fn join<Work: Future<Output = Result<DiskId, ArrayError>>>(
        &self,
        text: &str,
        take_in: impl FnOnce(Disk) -> Work,
    ) -> anyhow::Result<()> {
        let _turn = self.joining.take().await;
        let disk: MemberDisk = text.parse()?;
        let number = self.array.disks().len();
        let mut name = disk.name();
        if disk.path().is_none() {
            name = format!("{name}#{number}");
        }
        if self.is_member(&name) {
            bail!("'{name}' is a disk of the array already: see 'drystone disk list'");
        }
        let mut made = NewFiles::default();
        if disk.is_new() {
            made.note(&disk);
        }
        let member = self.open_disk(&disk, number).await?;
        let id = self.array.info().id;
        let is_noted = self.remembered.borrow_mut().add(&id, &disk);
        let is_noted = is_noted.context("nothing was changed, as the disk cannot be remembered")?;
        let taken = take_in(member).await;
        if taken.is_ok() || self.is_member(&name) {
            made.keep();
        } else if is_noted && let Err(error) = self.remembered.borrow_mut().remove(&id, &disk) {
            tracing::warn!("{error:#}");
        }
        taken?;
        Ok(())
    }

    fn is_member(&self, name: &str) -> bool {
        let is_here = |disk: &DiskInfo| disk.name == name && disk.state != DiskState::Missing;
        self.array.disks().iter().any(is_here)
    }

    async fn open_disk(&self, disk: &MemberDisk, number: usize) -> anyhow::Result<Disk> {
        let opening = disk.clone();
        let device = ring::blocking(move || disks::open(&opening)).await?;
        let device = device.map_err(|why| anyhow!(why))?;
        Ok(disks::member(disk, device, number))
    }

    /// Disks that have left the array are not looked for at the next start.
    pub(super) fn forget_what_left(&self) {
        let members = self.array.disks();
        // One that is missing may be known to the array by its number only.
        if members.iter().any(|disk| disk.state == DiskState::Missing) {
            return;
        }
        let stays = |disk: &MemberDisk| {
            let name = disk.name();
            members.iter().any(|member| member.name == name)
        };
        let id = self.array.info().id;
        if let Err(error) = self.remembered.borrow_mut().keep_only(&id, stays) {
            tracing::warn!("{error:#}");
        }
    }

    async fn whole(&self, request: ArrayRequest, asker: &Asker) -> anyhow::Result<Value> {
        let array = self.array.clone();
        match request {
            ArrayRequest::Show => value(self.array.info()),
            ArrayRequest::Jobs => value(self.array.jobs()),
            ArrayRequest::Set(change) => {
                self.array.set(change).await?;
                value(self.array.info())
            }
            ArrayRequest::Scrub => {
                let work = async move { array.scrub().await };
                value(self.with_progress(&[JobKind::Scrub], work, asker).await??)
            }
            ArrayRequest::Rebalance => {
                let work = async move { array.rebalance().await };
                value(self.with_progress(&[JobKind::Rebalance], work, asker).await??)
            }
            ArrayRequest::Check => {
                let work = async move { array.check().await };
                value(self.with_progress(&[JobKind::Scrub], work, asker).await??)
            }
        }
    }

    /// Does long work, and tells the asker how its jobs go on. The work goes on without him.
    async fn with_progress<T: Send + 'static>(
        &self,
        kinds: &[JobKind],
        work: impl Future<Output = T> + 'static,
        asker: &Asker,
    ) -> anyhow::Result<T> {
        let (done, mut answer) = ring::oneshot();
        ring::spawn(async move { done.send(work.await) });
        loop {
            if let Some(result) = ring::timeout(PROGRESS_PAUSE, &mut answer).await {
                return result.ok_or_else(|| anyhow!("the work ended without a result"));
            }
            if asker.is_to_end() {
                bail!("the member is stopping and the work did not end: start it again then");
            }
            asker.tell(self.jobs(kinds)).await;
        }
    }

    /// Tells of jobs until there are none of these kinds, or nobody listens.
    async fn watch(&self, kinds: &[JobKind], asker: &Asker) -> anyhow::Result<Value> {
        loop {
            let jobs = self.jobs(kinds);
            // A rebuild is no job yet while it looks what there is to do.
            let is_settled = !kinds.contains(&JobKind::Rebuild) || self.array.is_settled();
            if jobs.is_empty() && is_settled {
                return value(());
            }
            if asker.is_to_end() {
                bail!("the member is stopping: this work goes on when it runs again");
            }
            if !asker.tell(jobs).await {
                return value(());
            }
            ring::sleep(PROGRESS_PAUSE).await;
        }
    }

    fn jobs(&self, kinds: &[JobKind]) -> Vec<array::api::JobInfo> {
        let mut jobs = self.array.jobs();
        jobs.retain(|job| kinds.contains(&job.kind));
        jobs
    }
}

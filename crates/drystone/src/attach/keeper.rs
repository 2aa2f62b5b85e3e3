//! Keeps one volume attached, in a thread of its own: brings the disk up, serves it until it is told to
//! stop, and takes it down.
//!
//! ```text
//!            +---- a pause ----+
//!            v                 |
//! start -> try --> failed -----+-- told to stop --> over
//!            |                                       ^
//!            +---> attached --> told to stop, or ----+
//!                               taken away by hand
//! ```
//!
//! A volume of the command line is tried once; what it fails with is the end.

use crate::attach::local::{Local, LocalError};
use crate::attach::pauses;
use crate::attach::plan::{Plan, PlanError};
use crate::attach::ready::Ready;
use crate::attach::report::{Identity, State};
use crate::attach::table::{Row, Table};
use crate::attach::udev::{Behind, Notes};
use crate::attach::volume::{self, NotAttached, Running, Volume};
use ::attach::nbd::Address;
use anyhow::{Context, anyhow};
use std::collections::HashSet;
use std::fmt;
use std::io::{self, Write};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::sync::{Arc, Weak};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};
use thiserror::Error;

/// How long users of the disk have when a signal ends it.
const GRACE: Duration = Duration::from_secs(5);

/// How often it is looked whether the disk has grown.
const SIZE_LOOK: Duration = Duration::from_secs(1);

/// Different causes that are remembered as said. So many at one volume are told again.
const SAID_MAX: usize = 32;

/// Who waits for a detach.
pub(crate) type Asker = Box<dyn FnOnce(Result<(), NotDetached>) + Send>;

/// Why a detach did not go as it should.
#[derive(Debug, Error)]
pub(crate) enum NotDetached {
    /// It is attached as before.
    #[error("it cannot be detached: {0}")]
    InUse(String),
    /// It is gone, and what was written last may be lost.
    #[error("it is detached, but {0}")]
    Unflushed(String),
}

/// What a keeper waits for. Cores and places tell in which attempt they were made.
pub(crate) enum Event {
    /// The disk can be used.
    Ready(u64, Arc<Volume>),
    /// The core has ended by itself.
    Ended(u64),
    /// Somebody unmounted the directory, or stopped the block device.
    Gone(u64),
    /// A signal, by its name: whoever uses the disk loses it.
    Signal(&'static str),
    /// To be detached, unless it is in use.
    Detach(Asker),
    /// Something has changed: no longer a pause.
    Retry,
}

/// What a keeper tells of itself.
#[derive(Debug)]
pub(crate) enum News {
    /// The disk can be used, there.
    Attached(Identity),
    /// It is to be tried again.
    Waiting,
    /// It is being detached.
    Detaching(Identity),
    /// The keeper is done.
    Ended(anyhow::Result<()>),
}

/// Makes the plan of each attempt: files with secrets may be mended meanwhile.
pub(crate) type Planner = Box<dyn Fn() -> Result<Plan, PlanError> + Send>;

/// A volume that is kept.
#[derive(Debug)]
pub(crate) struct Keeper {
    pub(crate) orders: Sender<Event>,
    thread: JoinHandle<()>,
}

/// What a keeper is started with.
pub(crate) struct Task {
    pub(crate) name: String,
    pub(crate) planner: Planner,
    /// Whether it is tried again.
    pub(crate) retries: bool,
    pub(crate) table: Table,
    pub(crate) notes: Notes,
    pub(crate) report: Box<dyn Fn(News) + Send>,
}

impl fmt::Debug for Task {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Task").field("name", &self.name).finish_non_exhaustive()
    }
}

impl Keeper {
    /// Starts it.
    pub(crate) fn start(task: Task) -> anyhow::Result<Keeper> {
        let (orders, received) = mpsc::channel();
        task.table.insert(Row::new(&task.name, orders.clone()));
        let events = orders.clone();
        let thread = thread::Builder::new()
            .name("volume".to_owned())
            .spawn(move || Life { task, events, received, attempt: 0 }.run())
            .context("cannot start a thread")?;
        Ok(Keeper { orders, thread })
    }

    /// Waits for its end, of which it has told or is about to.
    pub(crate) fn join(self) -> anyhow::Result<()> {
        self.thread.join().map_err(|_| anyhow!("the thread of a volume panicked"))
    }
}

/// The keeper itself.
struct Life {
    task: Task,
    events: Sender<Event>,
    received: Receiver<Event>,
    attempt: u64,
}

/// How it ends, and who asked for it by a detach.
struct End {
    result: anyhow::Result<()>,
    asker: Option<Asker>,
}

/// How an attempt ends.
enum Attempt {
    Over(End),
    Failed(anyhow::Error),
}

impl Attempt {
    /// Before there was anything to take down.
    fn given_up(asker: Option<Asker>) -> Attempt {
        Attempt::Over(End { result: Ok(()), asker })
    }
}

/// Why a disk is not served any more.
enum Stop {
    Signal,
    Detach(Asker),
    Gone,
    /// The core has ended: that was not asked for.
    Lost,
}

impl Life {
    fn run(mut self) {
        let name = self.task.name.clone();
        // With every filter: what is said below is about this one.
        let _span = (!name.is_empty()).then(|| tracing::error_span!("volume", name).entered());
        let End { result, asker } = self.keep();
        // Whoever is told that it is detached finds it nowhere any more.
        self.task.table.remove(&self.task.name);
        // Those who asked while it went get the same answer.
        let others = self.received.try_iter().filter_map(|event| match event {
            Event::Detach(asker) => Some(asker),
            _ => None,
        });
        for asker in asker.into_iter().chain(others) {
            let unflushed = |error| NotDetached::Unflushed(format!("{error:#}"));
            asker(result.as_ref().copied().map_err(unflushed));
        }
        (self.task.report)(News::Ended(result));
    }

    fn keep(&mut self) -> End {
        let mut said = HashSet::new();
        for failures in 0.. {
            self.attempt += 1;
            let error = match self.attempt() {
                Attempt::Over(end) => return end,
                Attempt::Failed(error) if !self.task.retries => {
                    return End { result: Err(error), asker: None };
                }
                Attempt::Failed(error) => error,
            };
            let is_final =
                error.downcast_ref::<NotAttached>().is_some_and(|it| it.error.is_final());
            let pause = pauses::pause(failures, is_final);
            self.tell_trouble(&error, is_final, &mut said);
            if let Some(end) = self.pause(pause) {
                return end;
            }
        }
        unreachable!("nobody lives for so many attempts")
    }

    /// Says each cause once, however often it is tried.
    fn tell_trouble(&self, error: &anyhow::Error, is_final: bool, said: &mut HashSet<String>) {
        let (name, trouble) = (&self.task.name, format!("{error:#}"));
        if said.len() >= SAID_MAX {
            said.clear();
        }
        if said.insert(trouble.clone()) {
            let what_now =
                if is_final { "that is for somebody to mend" } else { "it is tried again" };
            tracing::warn!("not attached yet, {what_now}: {trouble}");
        }
        self.task.table.update(name, |row| {
            row.listed.state = State::Waiting;
            row.listed.identity.place.clear();
            row.listed.trouble = trouble;
        });
        (self.task.report)(News::Waiting);
    }

    /// Waits to try again; how it ends if it is told to.
    fn pause(&self, time: Duration) -> Option<End> {
        let until = Instant::now() + time;
        loop {
            let left = until.saturating_duration_since(Instant::now());
            let asker = match self.received.recv_timeout(left) {
                Err(RecvTimeoutError::Timeout) | Ok(Event::Retry) => return None,
                Ok(Event::Detach(asker)) => Some(asker),
                Ok(Event::Signal(_)) | Err(RecvTimeoutError::Disconnected) => None,
                Ok(Event::Ready(..) | Event::Ended(_) | Event::Gone(_)) => continue,
            };
            return Some(End { result: Ok(()), asker });
        }
    }

    /// One way from nothing to a disk, and back.
    fn attempt(&mut self) -> Attempt {
        let (plan, running) = match self.begin() {
            Ok(begun) => begun,
            Err(error) => return Attempt::Failed(error),
        };
        let volume = match self.await_volume() {
            Ok(Some(volume)) => volume,
            Ok(None) => {
                let error = running.stop().err();
                let error = error.unwrap_or_else(|| anyhow!("the core has ended by itself"));
                return Attempt::Failed(error);
            }
            Err(asker) => {
                // Nothing was written, so that nothing is lost whatever it says.
                if let Err(error) = running.stop() {
                    tracing::debug!("given up: {error:#}");
                }
                return Attempt::given_up(asker);
            }
        };
        let (events, attempt) = (self.events.clone(), self.attempt);
        // Nobody listens when it was taken away from here.
        let gone = move || drop(events.send(Event::Gone(attempt)));
        let behind = Behind {
            name: self.task.name.clone(),
            volume: plan.volume.to_string(),
            wwn: volume.wwn(),
            disk: volume.disk_name(&plan.volume),
        };
        let local = match Local::start(&plan.place, &volume, &self.task.notes, &behind, gone) {
            Ok(local) => local,
            Err(error) => {
                drop(volume);
                // Nobody could write, so that nothing is lost whatever it says.
                if let Err(error) = running.stop() {
                    tracing::debug!("given up: {error:#}");
                }
                return Attempt::Failed(error.into());
            }
        };
        let identity = self.attached(&plan, &volume, local.as_ref());
        let stop = self.serve(&Arc::downgrade(&volume), local);
        self.set_state(State::Detaching);
        (self.task.report)(News::Detaching(identity));
        let result = end(volume, running);
        match stop {
            Stop::Signal | Stop::Gone => Attempt::Over(End { result, asker: None }),
            Stop::Detach(asker) => Attempt::Over(End { result, asker: Some(asker) }),
            Stop::Lost => Attempt::Failed(
                result.err().unwrap_or_else(|| anyhow!("the core has ended by itself")),
            ),
        }
    }

    /// Starts the core, which tells of itself by events.
    fn begin(&self) -> anyhow::Result<(Plan, Running)> {
        let plan = (self.task.planner)()?;
        self.task.table.update(&self.task.name, |row| {
            row.listed.identity.volume = plan.volume.to_string();
            row.listed.identity.policy = plan.options.router.policy.to_string();
        });
        let (ready, ended, attempt) = (self.events.clone(), self.events.clone(), self.attempt);
        // Nobody listens once the keeper is on its way out.
        let running = volume::start(
            plan.clone(),
            move |volume| drop(ready.send(Event::Ready(attempt, volume))),
            move || drop(ended.send(Event::Ended(attempt))),
        )?;
        Ok((plan, running))
    }

    /// The disk, or nothing when the core has ended; the error is that it is to end before.
    fn await_volume(&self) -> Result<Option<Arc<Volume>>, Option<Asker>> {
        loop {
            match self.received.recv() {
                Ok(Event::Ready(attempt, volume)) if attempt == self.attempt => {
                    return Ok(Some(volume));
                }
                Ok(Event::Ended(attempt)) if attempt == self.attempt => return Ok(None),
                Ok(Event::Signal(name)) => {
                    tracing::info!("stopping on {name}, before the disk was attached");
                    return Err(None);
                }
                Ok(Event::Detach(asker)) => return Err(Some(asker)),
                Ok(Event::Retry | Event::Ready(..) | Event::Ended(_) | Event::Gone(_)) => {}
                Err(_) => return Err(None),
            }
        }
    }

    /// Tells everybody that the disk can be used.
    fn attached(&self, plan: &Plan, volume: &Arc<Volume>, local: Option<&Local>) -> Identity {
        let place = match (local, &volume.nbd) {
            (Some(local), _) => local.place().display().to_string(),
            (None, Some(address)) => address.to_string(),
            (None, None) => String::new(),
        };
        if let Some(Address::Tcp(address)) = &volume.nbd
            && !address.ip().is_loopback()
        {
            tracing::warn!("everybody who can reach {address} can read and write the disk");
        }
        let identity = Identity {
            pid: std::process::id(),
            name: self.task.name.clone(),
            volume: plan.volume.to_string(),
            place,
            policy: plan.options.router.policy.to_string(),
        };
        self.task.table.update(&self.task.name, |row| {
            row.listed.identity = identity.clone();
            row.listed.state = State::Attached;
            row.listed.trouble.clear();
            row.volume = Arc::downgrade(volume);
        });
        if let Err(error) = announce(&identity, volume) {
            // The disk is served all the same; nobody reads what is printed any more.
            tracing::warn!("cannot print what is attached: {error}");
        }
        if self.task.retries {
            tracing::info!("attached {} at {}", identity.volume, identity.place);
        }
        (self.task.report)(News::Attached(identity.clone()));
        identity
    }

    fn set_state(&self, state: State) {
        self.task.table.update(&self.task.name, |row| row.listed.state = state);
    }

    /// Waits for the end, and takes the disk's place away.
    fn serve(&self, volume: &Weak<Volume>, mut local: Option<Local>) -> Stop {
        loop {
            if let (Some(local), Some(volume)) = (&mut local, volume.upgrade()) {
                local.grow(volume.disk.size_bytes());
            }
            let pause = if local.is_some() { SIZE_LOOK } else { Duration::MAX };
            match self.received.recv_timeout(pause) {
                Err(RecvTimeoutError::Timeout) => {}
                Ok(Event::Detach(asker)) => {
                    self.set_state(State::Detaching);
                    match take_away(local.take()) {
                        Ok(()) => return Stop::Detach(asker),
                        Err((error, left)) => {
                            self.set_state(State::Attached);
                            asker(Err(NotDetached::InUse(error.to_string())));
                            local = left;
                        }
                    }
                }
                Ok(Event::Signal(name)) => {
                    self.set_state(State::Detaching);
                    tracing::info!("stopping on {name}; a second signal ends at once");
                    if let Err((error, left)) = take_away(local.take()) {
                        tracing::warn!("{error}");
                        let gone = left.is_none_or(|local| local.force(GRACE));
                        if !gone {
                            tracing::warn!("those that still use the disk get errors");
                        }
                    }
                    return Stop::Signal;
                }
                Ok(Event::Gone(attempt)) if attempt == self.attempt && local.is_some() => {
                    match &local {
                        Some(Local::Device(..)) => {
                            tracing::info!("stopping: the device was stopped");
                        }
                        _ => tracing::info!("stopping: the directory was unmounted"),
                    }
                    if let Err((error, _)) = take_away(local.take()) {
                        tracing::warn!("{error}");
                    }
                    return Stop::Gone;
                }
                Ok(Event::Ended(attempt)) if attempt == self.attempt => return Stop::Lost,
                Err(RecvTimeoutError::Disconnected) => return Stop::Lost,
                Ok(Event::Retry | Event::Gone(_) | Event::Ready(..) | Event::Ended(_)) => {}
            }
        }
    }
}

fn take_away(local: Option<Local>) -> Result<(), (LocalError, Option<Local>)> {
    local.map_or(Ok(()), Local::take_away)
}

/// Prints what is attached.
fn announce(identity: &Identity, volume: &Volume) -> io::Result<()> {
    let (geometry, sessions) = (volume.disk.geometry(), volume.sessions);
    let line = Ready { identity, geometry, sessions };
    let mut stdout = io::stdout().lock();
    writeln!(stdout, "{line}")?;
    stdout.flush()
}

/// Lets go of the disk, so that the core can flush and log out, and waits for that.
fn end(volume: Arc<Volume>, running: Running) -> anyhow::Result<()> {
    drop(volume);
    running.stop()?;
    tracing::info!("detached");
    Ok(())
}

//! `drystone attach`: from a URL to a local disk, until it is told to stop.

mod control;
pub(crate) mod detach;
mod host;
pub(crate) mod list;
mod local;
mod plan;
mod ready;
mod report;
mod volume;

use crate::Failure;
use crate::cli::attach::AttachArgs;
use crate::os::notify::Notifier;
use crate::os::signals::StopSignals;
use crate::os::{files, runtime_dir};
use ::attach::nbd::Address;
use anyhow::{Context, anyhow};
use control::{Answers, Control};
use host::HostSessions;
use local::{Local, LocalError};
use plan::Plan;
use ready::Ready;
use report::{Identity, Sample};
use ring::Remote;
use std::env;
use std::io::{self, Write};
use std::sync::mpsc::{self, Receiver, RecvError, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::thread;
use std::time::Duration;
use volume::{Running, Volume};

/// How long users of the disk have when a signal ends it.
const GRACE: Duration = Duration::from_secs(5);

/// What the main thread waits for.
enum Event {
    /// The disk can be used.
    Ready(Arc<Volume>),
    /// The core has ended by itself.
    Ended,
    /// A signal, by its name.
    Signal(&'static str),
    /// Somebody unmounted the directory, or stopped the block device.
    Gone,
    /// `drystone detach`, which waits for the answer.
    Detach(Asker),
}

/// Who waits for the end.
type Asker = Sender<Result<(), String>>;

/// What the service manager hears while the disk is served.
struct Life {
    notifier: Notifier,
    core: Remote,
}

impl Life {
    /// The next event. Until it comes the manager gets its signs of life, as long as the core does
    /// what it is given: without them it ends the process and starts it anew.
    fn next(&self, events: &Receiver<Event>) -> Result<Event, RecvError> {
        let Some(interval) = self.notifier.sign_interval() else { return events.recv() };
        loop {
            match events.recv_timeout(interval) {
                Ok(event) => return Ok(event),
                Err(RecvTimeoutError::Disconnected) => return Err(RecvError),
                Err(RecvTimeoutError::Timeout) if self.core_answers(interval) => {
                    self.notifier.sign_of_life();
                }
                Err(RecvTimeoutError::Timeout) => tracing::warn!("the core does not answer"),
            }
        }
    }

    fn core_answers(&self, time: Duration) -> bool {
        let (sender, answer) = mpsc::channel();
        // Nobody waits any more for an answer that is late.
        self.core.run(move || {
            let _ = sender.send(());
        });
        answer.recv_timeout(time).is_ok()
    }
}

/// What the control socket answers from.
struct Attached {
    identity: Identity,
    /// Gone when the disk goes.
    volume: Weak<Volume>,
    events: Mutex<Sender<Event>>,
}

impl Answers for Attached {
    fn identity(&self) -> Identity {
        self.identity.clone()
    }

    fn sample(&self) -> anyhow::Result<Sample> {
        self.volume.upgrade().context("it is being detached")?.sample()
    }

    fn detach(&self) -> anyhow::Result<()> {
        let (asker, answer) = mpsc::channel();
        let events = self.events.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let gone = "it is being detached";
        events.send(Event::Detach(asker)).ok().context(gone)?;
        answer.recv().context(gone)?.map_err(|sentence| anyhow!(sentence))
    }
}

/// Serves until a signal, a detach or an unmount by somebody else.
pub(crate) fn run(args: &AttachArgs) -> Result<(), Failure> {
    let mut plan = Plan::of(args, |name| env::var(name).ok())
        .map_err(|error| Failure::Usage(error.to_string()))?;
    let dir = plan::runtime_dir(&args.runtime)?;
    runtime_dir::prepare(&dir).with_context(|| {
        format!("cannot use '{}', write another with --runtime-dir", dir.display())
    })?;
    let sessions =
        HostSessions::open(&dir).with_context(|| format!("cannot use '{}'", dir.display()))?;
    plan.sessions.identities = Some(Arc::new(sessions));
    files::raise_limit();
    let (events, received) = mpsc::channel();
    forward_signals(events.clone())?;
    let mut identity = Identity {
        pid: std::process::id(),
        volume: plan.volume.to_string(),
        place: String::new(),
        policy: plan.options.router.policy.to_string(),
    };
    let running = start(plan, args.nbd.clone(), &events)?;
    let Some(volume) = await_ready(&received) else { return Ok(running.stop()?) };
    let gone = events.clone();
    // Nobody listens when it was taken away from here.
    let local = match Local::start(args, &volume, move || drop(gone.send(Event::Gone))) {
        Ok(local) => local,
        Err(error) => {
            end(volume, running)?;
            return Err(Failure::Run(error.into()));
        }
    };
    identity.place = match (&local, &volume.nbd) {
        (Some(local), _) => local.place().display().to_string(),
        (None, Some(address)) => address.to_string(),
        (None, None) => String::new(),
    };
    if let Some(Address::Tcp(address)) = &volume.nbd
        && !address.ip().is_loopback()
    {
        tracing::warn!("everybody who can reach {address} can read and write the disk");
    }
    if let Err(error) = announce(&identity, &volume) {
        // The disk is served all the same; nobody reads what is printed any more.
        tracing::warn!("cannot print what is attached: {error}");
    }
    let (url, place) = (identity.volume.clone(), identity.place.clone());
    let (volume_now, events) = (Arc::downgrade(&volume), Mutex::new(events));
    let control = Control::start(&dir, Arc::new(Attached { identity, volume: volume_now, events }));
    if let Err(error) = &control {
        tracing::warn!("drystone attached and detach will not find this one: {error}");
    }
    let life = Life { notifier: Notifier::of_process(), core: volume.core.clone() };
    life.notifier.ready(&format!("serving {url} at {place}"));
    let asker = serve(local, &received, &life);
    life.notifier.stopping(&format!("detaching {url}"));
    drop(life);
    let ended = end(volume, running);
    if let Some(asker) = asker {
        // It may have given up.
        let _ = asker.send(ended.as_ref().copied().map_err(|error| format!("{error:#}")));
    }
    drop(control); // waits until it was told
    Ok(ended?)
}

/// Starts the core, which tells of itself by events.
fn start(plan: Plan, nbd: Option<Address>, events: &Sender<Event>) -> anyhow::Result<Running> {
    let (ready, ended) = (events.clone(), events.clone());
    // Nobody listens once the main thread is on its way out.
    volume::start(
        plan,
        nbd,
        move |volume| drop(ready.send(Event::Ready(volume))),
        move || drop(ended.send(Event::Ended)),
    )
}

/// Passes on the first signal; a second one ends the process.
fn forward_signals(events: Sender<Event>) -> anyhow::Result<()> {
    let mut signals = StopSignals::install().context("cannot watch for signals")?;
    let wait = move || {
        let name = signals.wait();
        // Nobody listens once the main thread is on its way out.
        let _ = events.send(Event::Signal(name));
    };
    thread::Builder::new()
        .name("signals".to_owned())
        .spawn(wait)
        .context("cannot start a thread")?;
    Ok(())
}

/// The disk, or nothing when the core ended or is to end before there is one.
fn await_ready(events: &Receiver<Event>) -> Option<Arc<Volume>> {
    match events.recv() {
        Ok(Event::Ready(volume)) => Some(volume),
        Ok(Event::Signal(name)) => {
            tracing::info!("stopping on {name}, before the disk was attached");
            None
        }
        _ => None,
    }
}

/// Prints what is attached.
fn announce(identity: &Identity, volume: &Volume) -> io::Result<()> {
    let (geometry, sessions) = (*volume.disk.geometry(), volume.sessions);
    let line = Ready { identity, geometry, sessions };
    let mut stdout = io::stdout().lock();
    writeln!(stdout, "{line}")?;
    stdout.flush()
}

/// Waits for the end, and takes the disk's place away; gives who asked for it by `drystone detach`.
fn serve(mut local: Option<Local>, events: &Receiver<Event>, life: &Life) -> Option<Asker> {
    loop {
        match life.next(events) {
            Ok(Event::Detach(asker)) => match take_away(local.take()) {
                Ok(()) => return Some(asker),
                Err((error, left)) => {
                    // It may have given up.
                    let _ = asker.send(Err(error.to_string()));
                    local = left;
                }
            },
            Ok(Event::Signal(name)) => {
                tracing::info!("stopping on {name}; a second signal ends at once");
                if let Err((error, left)) = take_away(local.take()) {
                    tracing::warn!("{error}");
                    let gone = left.is_none_or(|local| local.force(GRACE));
                    if !gone {
                        tracing::warn!("those that still use the disk get errors");
                    }
                }
                return None;
            }
            Ok(Event::Gone) if local.is_some() => {
                match &local {
                    Some(Local::Device(_)) => tracing::info!("stopping: the device was stopped"),
                    _ => tracing::info!("stopping: the directory was unmounted"),
                }
                if let Err((error, _)) = take_away(local.take()) {
                    tracing::warn!("{error}");
                }
                return None;
            }
            Ok(Event::Gone | Event::Ready(_)) => {}
            Ok(Event::Ended) | Err(_) => return None,
        }
    }
}

fn take_away(local: Option<Local>) -> Result<(), (LocalError, Option<Local>)> {
    local.map_or(Ok(()), Local::take_away)
}

/// Lets go of the disk, so that the core can flush and log out, and waits for that.
fn end(volume: Arc<Volume>, running: Running) -> anyhow::Result<()> {
    drop(volume);
    running.stop()?;
    tracing::info!("detached");
    Ok(())
}

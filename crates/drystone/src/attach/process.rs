//! The process: its keepers, one for each volume, what the service manager hears of them, and signals.
//!
//! With `--all` what runs follows the files of a directory: at the start and at each SIGHUP those that
//! are new are attached, and those that have gone are detached. A file that no longer reads, and a disk
//! that is in use, keep what there is: an error of writing must not take a disk away.

use crate::Failure;
use crate::attach::config::{self, Entry, Found};
use crate::attach::control::Control;
use crate::attach::host::HostSessions;
use crate::attach::keeper::{self, Keeper, News, NotDetached, Planner, Task};
use crate::attach::plan::{self, Plan};
use crate::attach::report::{Identity, State};
use crate::attach::table::{Row, Table};
use crate::attach::udev::Notes;
use crate::cli::attach::AttachArgs;
use crate::os::notify::Notifier;
use crate::os::signals::{self, StopSignals};
use crate::os::{files, runtime_dir};
use anyhow::{Context, anyhow};
use group::words::counted;
use initiator::HostWays;
use member::lock::{LockError, LockFile, somebody};
use std::collections::BTreeMap;
use std::env;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread;
use std::time::{Duration, Instant};

/// A boot goes on after this time, whatever is still being tried.
const START_TIME: Duration = Duration::from_secs(30);

/// What the main thread waits for.
enum Event {
    /// A signal to stop, by its name.
    Signal(&'static str),
    /// Read the files again.
    Reload,
    /// What a keeper tells.
    News(String, News),
    /// A disk was to be detached, or attached with other options, and is in use.
    Stays(String, String),
}

/// A volume that is kept.
struct Kept {
    keeper: Keeper,
    /// What its file held.
    text: String,
    /// It was attached or has failed once.
    is_settled: bool,
    is_attached: bool,
    /// What to attach in its place once it is detached.
    next: Option<Entry>,
}

/// The process, from the start of its keepers to the end of the last one.
struct Process {
    /// Where the files are; `None` for a volume of the command line.
    dir: Option<PathBuf>,
    kept: BTreeMap<String, Kept>,
    table: Table,
    notes: Notes,
    sessions: Arc<HostSessions>,
    ways: HostWays,
    notifier: Notifier,
    events: Sender<Event>,
    received: Receiver<Event>,
    /// When the service manager is told that all is ready; `None` once it was.
    ready_at: Option<Instant>,
    next_sign: Option<Instant>,
    /// What the service manager knows.
    status: String,
    is_stopping: bool,
    /// How the only volume ended, or which of several could not be flushed at the end.
    result: anyhow::Result<()>,
}

/// Attaches what the command line or its directory tells of, and serves it until a signal, or until
/// the volume of the command line is detached.
pub(crate) fn run(args: &AttachArgs, stop: StopSignals) -> Result<(), Failure> {
    let usage = |error: plan::PlanError| Failure::Usage(error.to_string());
    let only = match args.all {
        true => None,
        false => Some(Plan::of(args, |name| env::var(name).ok()).map_err(usage)?),
    };
    let dir = plan::runtime_dir(&args.runtime)?;
    runtime_dir::prepare(&dir).with_context(|| {
        format!("cannot use '{}', write another with --runtime-dir", dir.display())
    })?;
    let _alone = if args.all { Some(lock(&dir)?) } else { None };
    let sessions =
        HostSessions::open(&dir).with_context(|| format!("cannot use '{}'", dir.display()))?;
    files::raise_limit();
    let config_dir = args.all.then(|| args.config_dir.clone());
    let mut process = Process::new(config_dir, &dir, sessions);
    forward_signals(stop, process.events.clone(), args.all)?;
    let control = Control::start(&dir, Arc::new(process.table.clone()));
    if let Err(error) = &control {
        tracing::warn!("drystone attached and detach will not find what is attached: {error}");
    }
    match only {
        Some(plan) => process.keep("", Box::new(move || Ok(plan.clone())), String::new())?,
        None => process.read()?,
    }
    let result = process.run();
    drop(control); // waits until those who asked for the end were told
    Ok(result?)
}

/// Two processes would attach everything twice, and two caches over one disk spoil it.
fn lock(dir: &Path) -> anyhow::Result<LockFile> {
    LockFile::take(&dir.join("all.lock")).map_err(|error| match error {
        LockError::Taken(pid) => anyhow!(
            "{} has attached all volumes already: tell it to read its files again (systemctl reload drystone-attach, or SIGHUP)",
            somebody(pid)
        ),
        LockError::System(error) => anyhow!("cannot lock '{}': {error}", dir.display()),
    })
}

/// Passes on the first signal; a second one ends the process.
fn forward_signals(
    mut stop: StopSignals,
    events: Sender<Event>,
    reloads: bool,
) -> anyhow::Result<()> {
    if reloads {
        let events = events.clone();
        let reload = move || drop(events.send(Event::Reload));
        signals::on_reload(reload).context("cannot watch for signals")?;
    }
    // Nobody listens once the main thread is on its way out.
    let wait = move || drop(events.send(Event::Signal(stop.wait())));
    thread::Builder::new()
        .name("signals".to_owned())
        .spawn(wait)
        .context("cannot start a thread")?;
    Ok(())
}

impl Process {
    fn new(dir: Option<PathBuf>, runtime_dir: &Path, sessions: HostSessions) -> Process {
        let (events, received) = mpsc::channel();
        Process {
            ready_at: dir.as_ref().map(|_| Instant::now() + START_TIME),
            dir,
            kept: BTreeMap::new(),
            table: Table::default(),
            notes: Notes::of(runtime_dir),
            sessions: Arc::new(sessions),
            ways: HostWays::default(),
            notifier: Notifier::of_process(),
            events,
            received,
            next_sign: None,
            status: String::new(),
            is_stopping: false,
            result: Ok(()),
        }
    }

    /// Starts to keep a volume.
    fn keep(&mut self, name: &str, planner: Planner, text: String) -> anyhow::Result<()> {
        let (sessions, ways) = (Arc::clone(&self.sessions), self.ways.clone());
        let (events, of) = (self.events.clone(), name.to_owned());
        let keeper = Keeper::start(Task {
            name: name.to_owned(),
            planner: Box::new(move || {
                let mut plan = planner()?;
                plan.sessions.identities = Some(sessions.clone());
                plan.sessions.ways = ways.clone();
                Ok(plan)
            }),
            retries: self.dir.is_some(),
            table: self.table.clone(),
            notes: self.notes.clone(),
            // Nobody listens once the main thread is on its way out.
            report: Box::new(move |news| drop(events.send(Event::News(of.clone(), news)))),
        })?;
        let kept = Kept { keeper, text, is_settled: false, is_attached: false, next: None };
        self.kept.insert(name.to_owned(), kept);
        Ok(())
    }

    fn keep_entry(&mut self, name: &str, entry: Entry) {
        let Entry { args, text } = entry;
        if let Err(error) = self.keep(name, Box::new(move || config::plan(&args)), text) {
            tracing::error!("{name} is not attached: {error:#}");
            self.table.insert(Row::refused(name, format!("{error:#}")));
        }
    }

    /// Makes what is kept what the files say.
    fn read(&mut self) -> anyhow::Result<()> {
        let Some(dir) = &self.dir else { return Ok(()) };
        let Found { mut entries, refused } = config::read_dir(dir)
            .with_context(|| format!("cannot read the directory '{}'", dir.display()))?;
        self.table.forget_refused();
        for (name, kept) in &mut self.kept {
            match entries.remove(name) {
                // It may have been mended elsewhere: no longer a pause.
                Some(entry) if entry.text == kept.text && kept.next.is_none() => {
                    // One that has just ended tells so.
                    let _ = kept.keeper.orders.send(keeper::Event::Retry);
                    note(&self.table, name, "");
                }
                next => {
                    if let (None, Some(sentence)) = (&next, refused.get(name)) {
                        tracing::error!("{name} stays as it is: {sentence}");
                        note(&self.table, name, sentence);
                        continue;
                    }
                    kept.next = next;
                    let (events, of) = (self.events.clone(), name.clone());
                    let asker = Box::new(move |result: Result<(), NotDetached>| {
                        // One that could not be flushed is gone, which its keeper tells.
                        if let Err(NotDetached::InUse(sentence)) = result {
                            // Nobody listens once the main thread is on its way out.
                            let _ = events.send(Event::Stays(of, sentence));
                        }
                    });
                    // One that has just ended tells so.
                    let _ = kept.keeper.orders.send(keeper::Event::Detach(asker));
                }
            }
        }
        for (name, entry) in entries {
            self.keep_entry(&name, entry);
        }
        for (name, sentence) in refused {
            if !self.kept.contains_key(&name) {
                tracing::error!("{name} is not attached: {sentence}");
                self.table.insert(Row::refused(&name, sentence));
            }
        }
        Ok(())
    }

    /// Until the end.
    fn run(mut self) -> anyhow::Result<()> {
        self.tell();
        let mut is_over = false;
        while !is_over {
            match self.next() {
                Event::Signal(name) => self.stop(name),
                Event::Reload if self.is_stopping => {}
                Event::Reload => {
                    tracing::info!("reading the files again");
                    if let Err(error) = self.read() {
                        tracing::error!("everything stays as it is: {error:#}");
                    }
                }
                Event::News(name, news) => self.hear(&name, news),
                Event::Stays(name, sentence) => self.stays(&name, &sentence),
            }
            self.tell();
            is_over = self.kept.is_empty() && (self.is_stopping || self.dir.is_none());
        }
        self.result
    }

    /// The next event; meanwhile the service manager hears what it is to hear at its time.
    fn next(&mut self) -> Event {
        loop {
            self.tell_in_time();
            let until = self.ready_at.into_iter().chain(self.next_sign).min();
            let left = until.map(|until| until.saturating_duration_since(Instant::now()));
            let event = match left {
                Some(left) => self.received.recv_timeout(left),
                None => self.received.recv().map_err(|_| RecvTimeoutError::Disconnected),
            };
            match event {
                Ok(event) => return event,
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => unreachable!("a sender is kept here"),
            }
        }
    }

    fn stop(&mut self, name: &'static str) {
        self.is_stopping = true;
        if self.dir.is_some() {
            self.notifier.stopping("detaching all volumes");
        }
        for kept in self.kept.values_mut() {
            kept.next = None;
            // One that has just ended tells so.
            let _ = kept.keeper.orders.send(keeper::Event::Signal(name));
        }
    }

    /// What a keeper tells.
    fn hear(&mut self, name: &str, news: News) {
        let Some(kept) = self.kept.get_mut(name) else { return };
        match news {
            News::Attached(identity) => {
                (kept.is_settled, kept.is_attached) = (true, true);
                if self.dir.is_none() {
                    let Identity { volume, place, .. } = identity;
                    self.ready(&format!("serving {volume} at {place}"));
                }
            }
            News::Waiting => (kept.is_settled, kept.is_attached) = (true, false),
            News::Detaching(identity) => {
                kept.is_attached = false;
                if self.dir.is_none() {
                    self.notifier.stopping(&format!("detaching {}", identity.volume));
                }
            }
            News::Ended(result) => self.ended(name, result),
        }
    }

    fn ended(&mut self, name: &str, result: anyhow::Result<()>) {
        let Some(kept) = self.kept.remove(name) else { return };
        let result = kept.keeper.join().and(result);
        if self.dir.is_none() {
            self.result = result;
        } else if let Err(error) = result {
            tracing::error!("{name}: {error:#}");
            if self.is_stopping {
                self.result = Err(anyhow!("not all volumes were detached in order: see above"));
            }
        }
        if let Some(next) = kept.next {
            self.keep_entry(name, next);
        }
    }

    /// A disk that is in use keeps what it has, until the files are read again.
    fn stays(&mut self, name: &str, sentence: &str) {
        let Some(kept) = self.kept.get_mut(name) else { return };
        let what = if kept.next.take().is_some() { "has changed" } else { "is gone" };
        let trouble = format!("its file {what}, but it cannot be detached: {sentence}");
        tracing::warn!("{name} stays as it is: {trouble}");
        note(&self.table, name, &trouble);
    }

    /// Tells the service manager how all volumes do.
    fn tell(&mut self) {
        if self.dir.is_none() || self.is_stopping {
            return;
        }
        let status = self.count();
        match self.ready_at {
            Some(_) if self.kept.values().any(|kept| !kept.is_settled) => {}
            Some(_) => self.ready(&status),
            None if self.status != status => self.notifier.status(&status),
            None => {}
        }
        self.status = status;
    }

    fn count(&self) -> String {
        let waiting: Vec<&str> = self
            .kept
            .iter()
            .filter(|(_, kept)| !kept.is_attached)
            .map(|(name, _)| &**name)
            .collect();
        let (count, attached) = (self.kept.len(), self.kept.len() - waiting.len());
        let names = if waiting.is_empty() {
            String::new()
        } else {
            format!(", not yet: {}", waiting.join(", "))
        };
        format!("{attached} of {} attached{names}", counted(count as u64, "volume"))
    }

    fn ready(&mut self, status: &str) {
        self.ready_at = None;
        self.notifier.ready(status);
        self.next_sign = self.notifier.sign_interval().map(|interval| Instant::now() + interval);
    }

    /// What is due by now.
    fn tell_in_time(&mut self) {
        let is_due = |at: Option<Instant>| at.is_some_and(|at| at <= Instant::now());
        if is_due(self.ready_at) {
            let status = self.count();
            self.ready(&status);
        }
        if is_due(self.next_sign)
            && let Some(interval) = self.notifier.sign_interval()
        {
            if self.is_alive(interval) {
                self.notifier.sign_of_life();
            }
            self.next_sign = Some(Instant::now() + interval);
        }
    }

    /// Whether any core still does what it is given, within `time`. One that hangs is told of; but to
    /// end the process for it would take the disks of all others away.
    fn is_alive(&self, time: Duration) -> bool {
        let end = Instant::now() + time;
        let asked =
            self.table.volumes().into_iter().map(|(name, volume)| (name, volume.ask_core()));
        let asked: Vec<_> = asked.collect();
        let mut is_alive = asked.is_empty();
        for (name, answer) in asked {
            match answer.recv_timeout(end.saturating_duration_since(Instant::now())) {
                Ok(()) => is_alive = true,
                Err(_) if name.is_empty() => tracing::warn!("the core does not answer"),
                Err(_) => tracing::warn!("the core of {name} does not answer"),
            }
        }
        is_alive
    }
}

/// Says what is not as it should be about a volume that is attached.
fn note(table: &Table, name: &str, trouble: &str) {
    table.update(name, |row| {
        if row.listed.state == State::Attached {
            trouble.clone_into(&mut row.listed.trouble);
        }
    });
}

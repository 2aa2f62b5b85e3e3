//! The thread that all destinations are served on, beside the data path.

use std::collections::BTreeMap;
use std::future::pending;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use group::destinations::Destination;
use group::secrets::Secret;
use member::audit::AuditLog;
use member::events::EventLog;
use member::{CurrentDestinations, Destinations};
use tokio::sync::{Notify, watch};
use tokio::task;
use tokio::time::{sleep, timeout};

use crate::places::{Places, PlacesFile};
use crate::pulse::PAUSE;
use crate::send::Sender;
use crate::status::Statuses;
use crate::worker::{Shared, Worker};

/// How long the end waits for what is under way.
const GRACE: Duration = Duration::from_secs(3);

/// Threads that ask for names of servers, or write a file: each may hang.
const BLOCKING_THREADS: usize = 4;

/// What is needed to send events on.
#[derive(Debug)]
pub struct Config {
    /// The data directory of the member.
    pub data: PathBuf,
    /// What happens.
    pub events: EventLog,
    /// Who does what.
    pub audit: AuditLog,
    /// Where it goes on to.
    pub destinations: CurrentDestinations,
    /// Who sends.
    pub sender: Sender,
}

/// Sends events on, on a thread of its own. It is to be [ended](Self::end): what is dropped goes on for as long as
/// the process.
#[derive(Debug)]
pub struct Notifier {
    statuses: Statuses,
    is_ending: watch::Sender<bool>,
    thread: JoinHandle<()>,
}

impl Notifier {
    /// Begins where destinations were when the last one ended.
    ///
    /// # Errors
    /// There is no thread, or no runtime, to be had.
    pub fn start(config: Config) -> io::Result<Self> {
        let (is_ending, ending) = watch::channel(false);
        let statuses = Statuses::default();
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .max_blocking_threads(BLOCKING_THREADS)
            .build()?;
        let told = statuses.clone();
        let thread = thread::Builder::new().name("notify".to_owned()).spawn(move || {
            runtime.block_on(run(config, told, ending));
            // Whatever still asks for a name ends with the process.
            runtime.shutdown_background();
        })?;
        Ok(Self { statuses, is_ending, thread })
    }

    /// How destinations do.
    #[must_use]
    pub fn statuses(&self) -> Statuses {
        self.statuses.clone()
    }

    /// Nothing happens any more: what is to be told is sent in a moment or at the next start.
    pub fn end(self) {
        self.is_ending.send_replace(true);
        if self.thread.join().is_err() {
            tracing::error!("events are not sent on any more");
        }
    }
}

/// A destination that is served.
struct Served {
    destination: Destination<Secret>,
    work: task::JoinHandle<()>,
}

async fn run(config: Config, statuses: Statuses, mut ending: watch::Receiver<bool>) {
    let Config { data, events, audit, destinations, sender } = config;
    let file = PlacesFile::new(&data);
    let shared = Shared::new((events, audit), sender, statuses, file.read(), ending.clone());
    let mut serves: BTreeMap<String, Served> = BTreeMap::new();
    let mut writes = Writes::new(file, shared.places().clone());
    let mut known = Arc::new(Destinations::new());
    let changed = Arc::new(Notify::new());
    let bell = changed.clone();
    destinations.on_change(move || bell.notify_one());
    while !shared.is_ending() {
        let now = destinations.now();
        if !Arc::ptr_eq(&now, &known) {
            follow(&shared, &mut serves, &now);
            // One that cannot be used for now goes on where it was once it can.
            if let Some(set) = destinations.set() {
                shared.places().retain(|id, _| set.contains(id));
            }
            known = now;
        }
        writes.begin(&shared.places());
        // Without anybody to serve there is nothing to look for.
        let is_idle = serves.is_empty() && writes.has(&shared.places());
        let pause = async {
            if is_idle {
                pending::<()>().await;
            }
            sleep(PAUSE).await;
        };
        tokio::select! {
            _ = ending.wait_for(|is_ending| *is_ending) => {}
            () = changed.notified() => {}
            () = pause => {}
        }
    }
    let all = async {
        for (_, served) in serves {
            drop(served.work.await);
        }
    };
    drop(timeout(GRACE, all).await);
    let places = shared.places().clone();
    writes.end(&places).await;
}

/// Serves those that there are, and no others. One that has changed begins anew where it was.
fn follow(shared: &Shared, serves: &mut BTreeMap<String, Served>, now: &Destinations) {
    serves.retain(|name, served| {
        let stays = now.get(name).is_some_and(|is| *is == served.destination);
        if !stays {
            served.work.abort();
        }
        stays
    });
    shared.statuses.retain(|name| now.contains_key(name));
    for (name, destination) in now {
        if !destination.choice.paused && !serves.contains_key(name) {
            let worker = Worker::new(shared.clone(), name.clone(), destination.clone());
            let work = task::spawn(worker.run());
            serves.insert(name.clone(), Served { destination: destination.clone(), work });
        }
    }
}

/// Writes places down, at most once a second, and one after the other.
struct Writes {
    file: PlacesFile,
    written: Places,
    write: Option<task::JoinHandle<()>>,
    /// It was told that they cannot be.
    is_told: Arc<AtomicBool>,
}

impl Writes {
    fn new(file: PlacesFile, written: Places) -> Self {
        Self { file, written, write: None, is_told: Arc::default() }
    }

    /// Whether these are what is written, or is being written.
    fn has(&self, places: &Places) -> bool {
        *places == self.written
    }

    /// Begins to, if they have changed and the last write has ended.
    fn begin(&mut self, places: &Places) {
        let is_busy = self.write.as_ref().is_some_and(|write| !write.is_finished());
        if is_busy || self.has(places) {
            return;
        }
        self.written = places.clone();
        self.write = Some(self.write_now(places));
    }

    fn write_now(&self, places: &Places) -> task::JoinHandle<()> {
        let (file, places, is_told) = (self.file.clone(), places.clone(), self.is_told.clone());
        task::spawn_blocking(move || match file.write(&places) {
            Ok(()) => is_told.store(false, Ordering::Relaxed),
            Err(error) if !is_told.swap(true, Ordering::Relaxed) => tracing::warn!(
                "what destinations have been told cannot be written to the data directory, and they may be told \
                 again after a restart: {error}"
            ),
            Err(_) => {}
        })
    }

    /// The last time; a disk that hangs is not waited for.
    async fn end(mut self, places: &Places) {
        if let Some(write) = self.write.take() {
            drop(timeout(GRACE, write).await);
        }
        drop(timeout(GRACE, self.write_now(places)).await);
    }
}

#[cfg(test)]
mod tests;

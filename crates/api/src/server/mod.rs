//! The serving side: HTTP/1.1 on a Unix socket, and over TLS where that is asked for, in threads of its own
//! beside the data path.
//!
//! From the top: [`Server`]; `connections`, who is taken in; `routes`, what each path does; `admit`, who may, by the
//! `roles` of the routes; `idempotency`, `runs` and `stream`, how work is asked for and followed; `pages`, `tags` and
//! `body`, what requests and answers are made of; `app`, the way to the member; and `login`, who it is that asks over
//! TLS. Beside that: `door`, where a group lets members in, and `joining`, how a member is let in there, by what
//! `admission` says; `at_group`, who manages the group at its address; `carry`, how one member has another one do what
//! it is asked; `moving`, how a volume comes from one to another, in the words of `transit`; `sets`, how several of them
//! take snapshots of one moment; and `spread`, how a volume lies on several of them.

mod addresses;
mod admission;
mod admit;
mod app;
mod at_group;
mod body;
mod caller;
mod callers;
mod carry;
mod connections;
mod date;
mod door;
mod door_tls;
mod followers;
mod held;
mod idempotency;
mod joining;
mod known;
mod listening;
mod login;
mod moving;
mod pace;
mod pages;
mod passwords;
mod patient;
mod peer;
mod roles;
mod routes;
mod runs;
mod sets;
mod signal;
mod socket;
mod spread;
mod stream;
mod tags;
#[cfg(test)]
mod testing;
mod throttle;
mod tls;
mod transit;
mod walks;

use std::io;
use std::net::TcpListener;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::thread::{self, JoinHandle};

use member::events::Event;
use member::{CurrentAddress, CurrentDestinations, CurrentDoor, CurrentRoll, Logs, RequestError};
use tokio::sync::watch;
use tokio_rustls::TlsAcceptor;

use app::App;
pub use app::{Ask, Done, Follower};
use at_group::Listens;
use callers::Callers;
use connections::Door;
pub use routes::document;
use socket::SocketFile;
pub use socket::{administrators, check_length, is_something_else};
pub use tls::{Identity, IdentityError};

use crate::types::Interface;

/// Connections at once at each door, where the limit on open files does not ask for fewer.
pub const CONNECTIONS_MAX: usize = 256;

/// Connections from one place over TLS.
const CONNECTIONS_OF_PLACE_MAX: usize = 64;

/// How the interface is served.
#[derive(Debug)]
pub struct Config {
    /// Where the socket is made. Whoever asks for this has made sure that nobody listens there.
    pub socket: PathBuf,
    /// Connections at once, at each door.
    pub connections_max: usize,
    /// What is said of a refusal: what is wrong and what to do.
    pub sentence: fn(&RequestError) -> String,
    /// What happened, and where it is recorded who changes what.
    pub logs: Logs,
    /// What to do about an event.
    pub advice: fn(&Event) -> String,
    /// Where events go on to.
    pub notifications: Notifications,
    /// Where it is served over TLS as well, if it is; or a sentence why it is not although that was asked for.
    pub tls: Result<Option<Tls>, String>,
    /// Where servers are let into the group of the member, while it is in one.
    pub door: CurrentDoor,
    /// The members of that group, which carry requests to each other.
    pub roll: CurrentRoll,
    /// The address of that group, where it is managed while the member has it.
    pub group_address: CurrentAddress,
}

/// What is known of where events go on to.
#[derive(Debug)]
pub struct Notifications {
    /// Where, with secrets.
    pub destinations: CurrentDestinations,
    /// How that does.
    pub statuses: notify::Statuses,
    /// Who tries it out.
    pub sender: notify::Sender,
}

/// How the interface is served over TLS.
#[derive(Debug)]
pub struct Tls {
    /// Where connections come in: at least one.
    pub listeners: Vec<TcpListener>,
    /// What is proved to who comes.
    pub identity: Identity,
}

impl Tls {
    /// What is told of it.
    fn shown(&self) -> io::Result<Interface> {
        let addresses = self.listeners.iter().map(TcpListener::local_addr);
        let addresses = addresses.map(|address| address.map(|it| it.to_string()));
        Ok(Interface {
            addresses: addresses.collect::<io::Result<_>>()?,
            certificate_sha256: Some(self.identity.fingerprint()),
            ..Interface::default()
        })
    }
}

impl Config {
    /// What is told of how the member is managed from afar.
    fn shown(&self) -> io::Result<Interface> {
        match &self.tls {
            Ok(Some(tls)) => tls.shown(),
            Ok(None) => Ok(Interface::default()),
            Err(why) => Ok(Interface { not_over_tls: Some(why.clone()), ..Interface::default() }),
        }
    }

    /// Where it listens over TLS, or why it does not although that was asked for.
    fn listens(&self) -> Result<Vec<Listens>, String> {
        let tls = self.tls.as_ref().map_err(Clone::clone)?;
        let listeners = tls.iter().flat_map(|tls| &tls.listeners);
        Ok(listeners.filter_map(|listener| Listens::of(listener).ok()).collect())
    }

    /// What is needed for it.
    fn over_tls(&self) -> Option<&Tls> {
        self.tls.as_ref().ok().and_then(Option::as_ref)
    }
}

/// A running server. It is to be stopped: what is dropped goes on for as long as the process.
#[derive(Debug)]
pub struct Server {
    app: Arc<App>,
    is_ending: watch::Sender<bool>,
    threads: Vec<JoinHandle<()>>,
    door_thread: Arc<Mutex<Option<JoinHandle<()>>>>,
}

impl Server {
    /// Makes the socket and answers there, and over TLS if that is asked for. Once the member is in a group it lets
    /// servers into that, and answers what other members carry to it. Each door has a thread of its own: however busy
    /// the one is, the others answer.
    ///
    /// # Errors
    /// Why the socket or a thread cannot be made.
    pub fn start(config: Config, member: impl Ask) -> io::Result<Self> {
        let streams_max = config.connections_max.div_ceil(2);
        let mut app = App::new(Arc::new(member), &config, streams_max, config.shown()?);
        app.identity = config.over_tls().map(|tls| tls.identity.clone());
        let app = Arc::new(app);
        let Config { socket, connections_max, tls, door, .. } = config;
        let (is_ending, ending) = watch::channel(false);
        let (router, is_over) = (routes::router(app.clone()), ending.clone());
        let door_thread = Arc::new(Mutex::new(None));
        let letting_in = (app.clone(), door, ending.clone(), door_thread.clone());
        let looking_after = app.clone();
        let mut threads = vec![thread_of("api", move |told| async move {
            let (_file, listener) = match SocketFile::make(&socket) {
                Ok(made) => made,
                Err(error) => return told(Err(error)),
            };
            told(Ok(()));
            tokio::spawn(answer_members_once_in_a_group(letting_in));
            // Not beside what answers members: what is undecided is also to end where the member is in no group any more.
            tokio::spawn(sets::look_after(looking_after, is_over.clone()));
            let callers = Callers::new(connections_max, connections_max);
            connections::serve(Door::Socket(listener), router, callers, is_over).await;
        })?];
        if let Ok(Some(tls)) = tls {
            let serving = app.clone();
            threads.push(thread_of("api-tls", move |told| async move {
                let identity = tls.identity.clone();
                let door = match tls_door(&serving, tls) {
                    Ok(door) => door,
                    Err(error) => return told(Err(error)),
                };
                told(Ok(()));
                let router = routes::router(serving.clone());
                let callers = Callers::new(connections_max, CONNECTIONS_OF_PLACE_MAX);
                let shared = (router.clone(), callers.clone());
                let at_group = at_group::attend(serving, identity, shared, ending.clone());
                tokio::join!(connections::serve(door, router, callers, ending), at_group);
            })?);
        }
        Ok(Self { app, is_ending, threads, door_thread })
    }

    /// Where it is managed over TLS.
    #[must_use]
    pub fn shown(&self) -> &Interface {
        &self.app.interface
    }

    /// Takes no more requests, and waits a moment for the answers under way. The socket is gone then.
    pub fn stop(self) {
        self.app.end();
        self.is_ending.send_replace(true);
        for thread in self.threads {
            join(thread);
        }
        // Started by the first of these, if at all.
        let thread = self.door_thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        thread.into_iter().for_each(join);
    }
}

fn join(thread: JoinHandle<()>) {
    if thread.join().is_err() {
        tracing::error!("the interface did not end in order");
    }
}

/// What it takes to open the door of members later.
type LettingIn = (Arc<App>, CurrentDoor, watch::Receiver<bool>, Arc<Mutex<Option<JoinHandle<()>>>>);

/// Starts the thread that answers members, and servers that are to be members, when the member comes into a group: one
/// that is in none needs no memory for it.
async fn answer_members_once_in_a_group((app, current, mut ending, thread): LettingIn) {
    if !door::is_wanted(&current, &mut ending).await {
        return;
    }
    let work = move |told: Told| async move {
        told(Ok(()));
        let carried = carry::attend(app.clone(), ending.clone());
        let moves = moving::look_after(app.clone(), ending.clone());
        let spreads = spread::look_after(app.clone(), ending.clone());
        app.open_slices();
        tokio::join!(door::attend(app, current, ending), carried, moves, spreads);
    };
    match thread_of("members", work) {
        Ok(started) => *thread.lock().unwrap_or_else(PoisonError::into_inner) = Some(started),
        Err(error) => {
            tracing::error!(
                "no server can join here and no member can ask, as there is no thread for that: {error}"
            );
        }
    }
}

fn tls_door(app: &Arc<App>, tls: Tls) -> io::Result<Door> {
    app.doorkeeper.passwords.prepare().map_err(io::Error::other)?;
    let listen = |listener: TcpListener| {
        listener.set_nonblocking(true)?;
        tokio::net::TcpListener::from_std(listener)
    };
    let listeners = tls.listeners.into_iter().map(listen).collect::<io::Result<Vec<_>>>()?;
    if listeners.is_empty() {
        return Err(io::Error::other("no address to listen on"));
    }
    let (acceptor, app) = (TlsAcceptor::from(tls.identity.config()), app.clone());
    let receive = move |local| {
        app.renew_identity();
        app.at_group.receive(local, &acceptor)
    };
    Ok(Door::Tls(listeners, Box::new(receive)))
}

/// What tells whoever started a thread how its work began.
type Told = Box<dyn FnOnce(io::Result<()>) + Send>;

/// How far the threads of the interface stand back behind those that answer hosts (nice(2)), where there are fewer
/// cores than threads.
const STANDS_BACK: i32 = 10;

/// Lets hosts come first, as far as this thread is concerned.
fn stand_back() {
    if let Err(error) = rustix::process::nice(STANDS_BACK) {
        tracing::debug!(%error, "requests are worked on with the priority of hosts' commands");
    }
}

/// Runs something on a runtime and a thread of its own, and waits until it has said how it began.
fn thread_of<Work: Future<Output = ()>>(
    name: &str,
    work: impl FnOnce(Told) -> Work + Send + 'static,
) -> io::Result<JoinHandle<()>> {
    let (ready, is_ready) = mpsc::channel();
    let thread = thread::Builder::new().name(name.to_owned()).spawn(move || {
        stand_back();
        // Whoever started it waits for this.
        let told = move |outcome| drop(ready.send(outcome));
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        match runtime {
            Ok(runtime) => {
                runtime.block_on(work(Box::new(told)));
                // A name that is looked up for a test of a destination may hang for minutes.
                runtime.shutdown_background();
            }
            Err(error) => told(Err(error)),
        }
    })?;
    is_ready.recv().map_err(|_| io::Error::other("its thread ended"))??;
    Ok(thread)
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::*;

    /// As one that looks up a name which nobody answers for.
    #[test]
    fn a_thread_ends_although_something_that_blocks_does_not() {
        let (goes_on, hangs) = mpsc::channel::<()>();
        let thread = thread_of("test", move |told| async move {
            let (begun, has_begun) = tokio::sync::oneshot::channel();
            tokio::task::spawn_blocking(move || {
                begun.send(()).expect("it is waited for");
                // Longer than any test, unless this one ends before.
                _ = hangs.recv_timeout(Duration::from_secs(60));
            });
            drop(has_begun.await);
            told(Ok(()));
        });
        let begun = Instant::now();
        thread.unwrap().join().unwrap();
        assert!(begun.elapsed() < Duration::from_secs(20), "{:?}", begun.elapsed());
        drop(goes_on);
    }
}

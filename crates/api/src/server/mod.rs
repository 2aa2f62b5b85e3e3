//! The serving side: HTTP/1.1 on a Unix socket, in a thread of its own beside the data path.
//!
//! From the top: [`Server`]; `connections`, who is taken in; `routes`, what each path does; `peer`, who
//! may; `idempotency`, `runs` and `stream`, how work is asked for and followed; `pages`, `tags` and
//! `body`, what requests and answers are made of; and `app`, the way to the member.

mod app;
mod body;
mod callers;
mod connections;
mod idempotency;
mod pages;
mod patient;
mod peer;
mod routes;
mod runs;
mod socket;
mod stream;
mod tags;

use std::io;
use std::path::PathBuf;
use std::sync::{Arc, mpsc};
use std::thread::{self, JoinHandle};

use member::events::Event;
use member::{Logs, RequestError};
use tokio::sync::watch;

use app::App;
pub use app::{Ask, Done, Follower};
pub use routes::document;
use socket::SocketFile;
pub use socket::administrators;

/// Connections at once, where the limit on open files does not ask for fewer.
pub const CONNECTIONS_MAX: usize = 256;

/// How the interface is served.
#[derive(Debug)]
pub struct Config {
    /// Where the socket is made. Whoever asks for this has made sure that nobody listens there.
    pub socket: PathBuf,
    /// Connections at once.
    pub connections_max: usize,
    /// What is said of a refusal: what is wrong and what to do.
    pub sentence: fn(&RequestError) -> String,
    /// What happened, and where it is recorded who changes what.
    pub logs: Logs,
    /// What to do about an event.
    pub advice: fn(&Event) -> String,
}

/// A running server. It is to be stopped: what is dropped goes on for as long as the process.
#[derive(Debug)]
pub struct Server {
    app: Arc<App>,
    is_ending: watch::Sender<bool>,
    thread: JoinHandle<()>,
}

impl Server {
    /// Makes the socket and answers there.
    ///
    /// # Errors
    /// Why the socket or the thread cannot be made.
    pub fn start(config: Config, member: impl Ask) -> io::Result<Self> {
        let streams_max = config.connections_max.div_ceil(2);
        let app = Arc::new(App::new(Arc::new(member), &config, streams_max));
        let (is_ending, ending) = watch::channel(false);
        let (ready, is_ready) = mpsc::channel();
        let serving = app.clone();
        let thread = thread::Builder::new().name("api".to_owned()).spawn(move || {
            // Whoever started it waits for this.
            let told = |outcome| drop(ready.send(outcome));
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            let runtime = match runtime {
                Ok(runtime) => runtime,
                Err(error) => return told(Err(error)),
            };
            runtime.block_on(async move {
                let (_file, listener) = match SocketFile::make(&config.socket) {
                    Ok(made) => made,
                    Err(error) => return told(Err(error)),
                };
                told(Ok(()));
                let router = routes::router(serving);
                connections::serve(listener, router, config.connections_max, ending).await;
            });
        })?;
        is_ready.recv().map_err(|_| io::Error::other("its thread ended"))??;
        Ok(Self { app, is_ending, thread })
    }

    /// Takes no more requests, and waits a moment for the answers under way. The socket is gone then.
    pub fn stop(self) {
        self.app.end();
        self.is_ending.send_replace(true);
        if self.thread.join().is_err() {
            tracing::error!("the interface did not end in order");
        }
    }
}

//! The etcd of this member: a process beside it, which ends with it.

use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::PathBuf;
use std::sync::mpsc::{Sender, channel};
use std::thread::{self, JoinHandle};

use super::config::{ServerConfig, data_dir};
use super::keeper::{Keeper, Message, ServerState, State};

/// Where programs are looked for beside PATH.
const FURTHER_DIRS: [&str; 2] = ["/usr/bin", "/usr/local/bin"];

/// Why there is no etcd.
#[derive(Debug, thiserror::Error)]
pub enum ClusterError {
    /// A program is not installed.
    #[error(
        "the program '{program}' was not found in PATH, /usr/bin or /usr/local/bin: install the package {package}"
    )]
    NoProgram {
        /// Its name.
        program: &'static str,
        /// What it is a part of, as Debian calls it.
        package: &'static str,
    },
    /// The directory of the data cannot be made.
    #[error("the directory {} of etcd cannot be made: {source}", .path.display())]
    Directory {
        /// Which.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// No thread can be started.
    #[error("the thread that looks after etcd cannot be started: {0}")]
    Thread(io::Error),
}

/// Where etcd is installed.
#[must_use]
pub fn find_etcd() -> Option<PathBuf> {
    find("etcd")
}

fn find(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let dirs = std::env::split_paths(&path).chain(FURTHER_DIRS.map(PathBuf::from));
    find_in(program, dirs)
}

pub(super) fn find_in(program: &str, dirs: impl Iterator<Item = PathBuf>) -> Option<PathBuf> {
    let is_program = |file: &PathBuf| {
        let about = fs::metadata(file);
        about.is_ok_and(|about| about.is_file() && about.permissions().mode() & 0o111 != 0)
    };
    // A relative directory means another place with each start.
    let mut files = dirs.filter(|dir| dir.is_absolute()).map(|dir| dir.join(program));
    files.find(is_program)
}

/// The etcd of this member. It ends when this is dropped.
#[derive(Debug)]
pub struct Server {
    state: State,
    keeper: Sender<Message>,
    /// `None` when it has ended.
    thread: Option<JoinHandle<()>>,
}

impl Server {
    /// Starts an etcd, and again whenever it ends by itself.
    ///
    /// # Errors
    /// It is not installed, its directory cannot be made, or no thread can be started. Whatever else is wrong with it
    /// its [state](Self::state) says.
    pub fn start(config: ServerConfig) -> Result<Self, ClusterError> {
        let missing = |program, package| ClusterError::NoProgram { program, package };
        let etcd = find_etcd().ok_or_else(|| missing("etcd", "etcd-server"))?;
        let setpriv = find("setpriv").ok_or_else(|| missing("setpriv", "util-linux"))?;
        let made = DirBuilder::new().recursive(true).mode(0o700).create(data_dir(&config.dir));
        if let Err(source) = made {
            return Err(ClusterError::Directory { path: data_dir(&config.dir), source });
        }
        let state = State::new(ServerState::Starting);
        let (sender, inbox) = channel();
        let outbox = sender.clone();
        let keeper =
            Keeper { config, etcd, setpriv, state: state.clone(), had_data: false, inbox, outbox };
        let thread = thread::Builder::new().name("etcd-keeper".into()).spawn(|| keeper.keep());
        let thread = Some(thread.map_err(ClusterError::Thread)?);
        Ok(Self { state, keeper: sender, thread })
    }

    /// How it is.
    #[must_use]
    pub fn state(&self) -> ServerState {
        self.state.now()
    }

    /// Asks it to end, and waits for nothing: its [state](Self::state) is [`ServerState::Stopped`] when it has ended,
    /// within [`STOP_TIME`](super::STOP_TIME) and a moment.
    pub(super) fn ask_to_stop(&self) {
        // Nobody is there to hear it when it has ended.
        let _ = self.keeper.send(Message::Stop);
    }

    /// Ends it and waits for that: up to [`STOP_TIME`](super::STOP_TIME) until it has ended by itself, then it is
    /// killed.
    pub fn stop(self) {
        drop(self);
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.ask_to_stop();
        if let Some(thread) = self.thread.take() {
            // If it has panicked, the process has ended with its thread.
            let _ = thread.join();
        }
    }
}

//! The thread that looks after the process of an etcd.
//!
//! It is the only one that starts the process, signals it and waits for it: so a number that it sends a signal to is
//! that of its own child. It lives as long as that, for the kernel sends a child its parent's death signal when the
//! thread ends that has started it.
//!
//! ```text
//!               started                  Stop
//!   Starting ───────────▶ Running ─────────────────▶ Stopped
//!                          │ ▲  │ its seat is gone      ▲ Stop
//!        it ended by itself│ │  ╰──────────▶ Removed ───┤
//!                          ▼ │ after a pause            │
//!                       Restarting ─────────────────────┤
//!                          │ its data have vanished     │
//!                          ╰──────────▶ DataGone ───────╯
//! ```
//!
//! Invariant: an etcd that has had data is not started without them. It would begin anew, empty, under the number that
//! the others know, and take back what it has agreed to.

use std::fs;
use std::io;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use super::config::{ServerConfig, any_origin, has_data, log_file};
use super::log::{LastWords, Log, follow};

/// The first pause is short: an etcd of an earlier life of the member may still be about to end, and has the ports and
/// the data until then.
const PAUSE_MIN: Duration = Duration::from_millis(200);
const PAUSE_MAX: Duration = Duration::from_secs(30);

/// Who has run for so long was well: the next pause is the first one again.
const WELL_TIME: Duration = Duration::from_secs(60);

/// How long an etcd may take to end when it is asked to; then it is killed.
pub const STOP_TIME: Duration = Duration::from_secs(3);

/// Between two looks whether a process that has no data yet has come to have some.
const DATA_PAUSE: Duration = Duration::from_millis(200);

/// How willingly the kernel ends an etcd when memory is short (`proc_pid_oom_score_adj(5)`, -1000 to 1000): rather than
/// the member that has started it, at which hosts have their disks, and which starts it again.
const OOM_SCORE: i32 = 500;

/// How an etcd is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ServerState {
    /// It is about to be started.
    Starting,
    /// Its process runs, which does not say that it answers.
    Running {
        /// The process.
        pid: u32,
    },
    /// It ended by itself, and is started again after a pause.
    Restarting {
        /// A sentence.
        why: String,
    },
    /// Its seat was taken away. It is not started again: its data are worth nothing.
    Removed,
    /// The data that it had are not there any more. It is not started again: only its cluster can begin it anew, with
    /// another number.
    DataGone,
    /// It was stopped.
    Stopped,
}

impl ServerState {
    /// Why it does not run although it should: a sentence.
    #[must_use]
    pub fn fault(&self) -> Option<String> {
        match self {
            Self::Restarting { why } => Some(why.clone()),
            Self::DataGone => {
                Some("the data of etcd are gone, and it does not begin without them".into())
            }
            Self::Starting | Self::Running { .. } | Self::Removed | Self::Stopped => None,
        }
    }
}

/// The state, which the thread that looks after the process tells.
#[derive(Debug, Clone)]
pub(super) struct State(Arc<Mutex<ServerState>>);

impl State {
    pub(super) fn new(state: ServerState) -> Self {
        Self(Arc::new(Mutex::new(state)))
    }

    fn held(&self) -> MutexGuard<'_, ServerState> {
        // Each change is one assignment.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn now(&self) -> ServerState {
        self.held().clone()
    }

    fn is_now(&self, state: ServerState) {
        *self.held() = state;
    }
}

/// What the thread hears.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Message {
    /// The process is to end.
    Stop,
    /// The process says nothing any more: it has ended.
    Ended,
}

/// How one life of the process went.
enum End {
    Stopped,
    Removed,
    /// By itself, with a sentence that says why.
    Failed(String),
}

/// What the thread has.
pub(super) struct Keeper {
    pub(super) config: ServerConfig,
    pub(super) etcd: PathBuf,
    pub(super) setpriv: PathBuf,
    pub(super) state: State,
    /// It has had data since it was started first.
    pub(super) had_data: bool,
    pub(super) inbox: Receiver<Message>,
    /// Given to who listens to the process.
    pub(super) outbox: Sender<Message>,
}

impl Keeper {
    pub(super) fn keep(mut self) {
        let mut pause = PAUSE_MIN;
        loop {
            let begin = Instant::now();
            if self.have_data_vanished() {
                self.state.is_now(ServerState::DataGone);
                self.await_stop();
                break;
            }
            match self.live() {
                End::Stopped => break,
                End::Removed => {
                    self.state.is_now(ServerState::Removed);
                    self.await_stop();
                    break;
                }
                End::Failed(why) => self.state.is_now(ServerState::Restarting { why }),
            }
            if begin.elapsed() >= WELL_TIME {
                pause = PAUSE_MIN;
            }
            match self.inbox.recv_timeout(pause) {
                Err(RecvTimeoutError::Timeout) => pause = (pause * 2).min(PAUSE_MAX),
                Ok(Message::Stop) | Err(RecvTimeoutError::Disconnected) => break,
                Ok(Message::Ended) => unreachable!("the end of a life is heard once, in it"),
            }
        }
        self.state.is_now(ServerState::Stopped);
    }

    fn await_stop(&self) {
        while let Ok(Message::Ended) = self.inbox.recv() {}
    }

    /// Looks for the data of the process, and says whether it had some and has none.
    fn have_data_vanished(&mut self) -> bool {
        let has_data = has_data(&self.config.dir);
        let had_data = self.had_data;
        self.had_data |= has_data;
        had_data && !has_data
    }

    /// One life of the process, to its end.
    fn live(&mut self) -> End {
        let mut child = match self.spawn() {
            Ok(child) => child,
            Err(error) => return End::Failed(format!("etcd cannot be started: {error}")),
        };
        let listener = match self.listen(&mut child) {
            Ok(listener) => listener,
            Err(error) => {
                // Nobody would read what it says, nor hear of its end.
                let _ = child.kill();
                let _ = child.wait();
                return End::Failed(format!("nobody can listen to etcd: {error}"));
            }
        };
        // Where that cannot be said, it does its work all the same.
        let _ = be_expendable(child.id());
        self.state.is_now(ServerState::Running { pid: child.id() });
        let ended_by_itself = self.await_message() == Message::Ended;
        if !ended_by_itself {
            self.end(&mut child);
        }
        let status = child.wait().ok();
        let words = listener.join().unwrap_or_default();
        match ended_by_itself {
            false => End::Stopped,
            true if words.is_removed => End::Removed,
            true => End::Failed(words.why(status)),
        }
    }

    /// Waits for the end of the process, or for the word that it is to end.
    fn await_message(&mut self) -> Message {
        loop {
            self.had_data |= has_data(&self.config.dir);
            let heard = match self.had_data {
                true => self.inbox.recv().map_err(RecvTimeoutError::from),
                false => self.inbox.recv_timeout(DATA_PAUSE),
            };
            match heard {
                Ok(message) => return message,
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return Message::Stop,
            }
        }
    }

    fn spawn(&self) -> io::Result<Child> {
        let mut command = Command::new(&self.setpriv);
        // It never outlives the member, however that ends.
        command.args(["--pdeathsig", "TERM", "--"]).arg(&self.etcd);
        command.args(self.config.arguments()).arg(any_origin(&self.help()));
        // Nothing of the environment: options (ETCD_*), proxies for connections between members (HTTPS_PROXY), and
        // the socket at which systemd waits for the member (NOTIFY_SOCKET).
        command.env_clear();
        // A key that interrupts the member is not for it: the member stops it.
        command.process_group(0);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        command.spawn()
    }

    /// What etcd says of its options; nothing if it does not. It is asked before each start, as the next one may be of
    /// another version.
    fn help(&self) -> String {
        let mut command = Command::new(&self.etcd);
        command.arg("--help").env_clear().process_group(0).stdin(Stdio::null());
        let Ok(said) = command.output() else { return String::new() };
        let text = [said.stdout, said.stderr].concat();
        String::from_utf8_lossy(&text).into_owned()
    }

    /// Keeps what the process says, on a thread of its own, until the process ends.
    fn listen(&self, child: &mut Child) -> io::Result<JoinHandle<LastWords>> {
        let said = child.stderr.take().expect("it is piped");
        let log = Log::open(log_file(&self.config.dir)).ok();
        let outbox = self.outbox.clone();
        thread::Builder::new().name("etcd-log".into()).spawn(move || {
            let words = follow(said, log);
            // Nobody waits for it where the process was killed.
            let _ = outbox.send(Message::Ended);
            words
        })
    }

    /// Asks the process to end, and kills it when it takes too long.
    fn end(&self, child: &mut Child) {
        // It was not waited for yet, so the number is still its own.
        let _ = kill_process(Pid::from_child(child), Signal::TERM);
        let end = Instant::now() + STOP_TIME;
        loop {
            match self.inbox.recv_timeout(end.saturating_duration_since(Instant::now())) {
                Ok(Message::Stop) => {}
                Ok(Message::Ended) => return,
                Err(_) => break,
            }
        }
        let _ = child.kill();
    }
}

/// Has the kernel end this process before the one that has started it. To be worth less needs no privileges.
fn be_expendable(pid: u32) -> io::Result<()> {
    let path = format!("/proc/{pid}/oom_score_adj");
    let inherited: i32 = fs::read_to_string(&path)?.trim().parse().map_err(io::Error::other)?;
    if inherited < OOM_SCORE { fs::write(&path, OOM_SCORE.to_string()) } else { Ok(()) }
}

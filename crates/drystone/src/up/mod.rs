//! `drystone up`: an array of disks whose volumes are served until it is told to stop.

mod hosts;
mod interface;
mod path;
mod ready;
mod service;
pub(crate) mod socket;
mod together;

use crate::advice::{Advised, advised};
use crate::cli::up::{SocketArgs, UpArgs};
use crate::os::{files, runtime_dir, signals::StopSignals};
use crate::serve::{self, State, plan::Plan, portals};
use crate::{Failure, logging};
use anyhow::{Context, anyhow};
use api::client::is_taken;
use api::server::{CONNECTIONS_MAX, Server as Interface, Tls, administrators};
use group::settings::Given;
use member::data::DataError;
use member::data::doors::Doors;
use member::data::remembered::Remembered;
use member::data::{self, Keeps};
use member::events::{Event, Kind};
use member::lock::{LockError, LockFile, somebody};
use member::memory::Machine;
use member::opening::Make;
use member::{ArrayUnits, GRACE, Life, Logs, Opening, Shown, Unlisted};
use notify::Notifier;
use ready::Managed;
use service::Service;
use std::env;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use target::Server;

/// Files that an open disk takes.
const DISK_FILES: usize = 4;
/// Disks that may be made at the start or added later while hosts have all their connections.
const DISKS_MORE: usize = 8;

/// Serves until a signal.
/// Volumes that have no access list and for which the command line names no hosts are for `unlisted`.
pub(crate) fn run(
    args: &UpArgs,
    unlisted: Unlisted,
    mut signals: StopSignals,
) -> Result<(), Failure> {
    if let Some(count) = args.members {
        return together::run(args, count, signals);
    }
    let plan = Plan::of(&args.serve, |name| env::var(name).ok()).map_err(|error| {
        match error.may_pass() {
            true => Failure::from(anyhow!("{error}")),
            false => Failure::Usage(error.to_string()),
        }
    })?;
    args.api.check(&args.serve.portals).map_err(Failure::Usage)?;
    files::raise_limit();
    let socket = socket(&args.socket)?;
    let claimed = claim(&socket)?;
    let (data, keeps) = serve::state_dir_to_open(args.data.as_ref(), "--data")?;
    let _data_is_ours = data::lock(&data, keeps).map_err(advised)?;
    let logs = Logs::open(&data).context("cannot keep what happens")?;
    logging::tell(&logs.events);
    let unlisted = hosts::named(args, &plan).unwrap_or(unlisted);
    let started = start(args, &plan, (data.clone(), keeps), unlisted, &logs, &mut signals);
    let outcome = match started {
        Ok(None) => Ok(()),
        Ok(Some(running)) => {
            logs.started(env!("CARGO_PKG_VERSION"));
            let notifier = interface::notify(&running.life, data.clone(), &logs);
            let managed = (claimed, socket.as_path(), notifier.as_ref());
            let ended = running.serve(managed, args.hints, &logs, signals);
            logs.events.hear(match &ended {
                Ok(()) => Event::of_member(Kind::MemberStopped, "the member has stopped"),
                Err(error) => Event::of_member(Kind::MemberNotStopped, format!("{error:#}")),
            });
            // It hears of that as well.
            if let Some(notifier) = notifier {
                notifier.end();
            }
            ended.map_err(Failure::from)
        }
        Err(failure) => {
            let text = format!("the member has not started: {failure}");
            logs.events.hear_of_failed_start(&text);
            Err(failure)
        }
    };
    logs.end();
    outcome
}

/// A member whose volumes hosts can use.
struct Running {
    server: Server,
    life: Arc<Life>,
    shown: Shown,
    /// For whoever manages it from afar, or why that cannot be.
    tls: Result<Option<Tls>, String>,
}

/// Opens the array and listens; `None` if a signal came first.
fn start(
    args: &UpArgs,
    plan: &Plan,
    (data, keeps): (PathBuf, Keeps),
    unlisted: Unlisted,
    logs: &Logs,
    signals: &mut StopSignals,
) -> Result<Option<Running>, Failure> {
    // What can be refused is refused before a disk is written to.
    portals::probe(&args.serve.portals).map_err(|error| serve::explain(&error))?;
    let cache_bytes = cache_bytes(args)?;
    // A start that lets nobody in opens nothing that was closed before; what was is remembered for others.
    if unlisted != Unlisted::Nobody {
        doors(args, plan).keep(&data, args.open_access, keeps).map_err(not_opened)?;
    }
    let remembered = Remembered::read(&data).map_err(advised)?;
    let tls = interface::tls_or_why(&args.api, &data, &logs.events);
    let more_files = files_of(args, remembered.count());
    let units = Arc::new(ArrayUnits::default());
    let state = State::of_array(units.clone());
    let listener = Some(logs.listener());
    let mut config = serve::config(&args.serve, plan, Vec::new(), state, more_files, listener)?;
    let given =
        Given { user: config.access.users.first().cloned(), mutual: config.access.mutual.clone() };
    hosts::let_in(unlisted, &mut config);
    if let Some(signal) = signals.came() {
        tracing::info!("stopping on {signal}, before the array was opened");
        return Ok(None);
    }
    let mut server = Server::launch(config).map_err(|error| serve::explain(&error))?;
    let opening = Opening {
        remembered,
        make: Make {
            raid: args.raid,
            disks: args.disks.clone(),
            journals: args.journals.clone(),
            accept_missing: args.accept_missing,
            data,
            cache_bytes,
        },
        prefix: args.iqn.clone(),
        units,
        unlisted,
        given,
        gives_up_settings: args.open_access,
        found_wrong: tls.as_ref().err().cloned().into_iter().collect(),
        tell: |notice| tracing::warn!("{}", notice.sentence()),
        events: logs.events.clone(),
    };
    let life = Arc::new(Life::start(&server, opening).map_err(advised)?);
    if let Err(error) = server.listen() {
        drop(life.end());
        return Err(serve::explain(&error).into());
    }
    let shown = life.watch().map_err(advised)?;
    Ok(Some(Running { server, life, shown, tls }))
}

/// A cache whose blocks come and go may hold so much more address space than memory.
const ADDRESS_SPACE_FACTOR: u64 = 16;

/// Memory for the read cache on this machine: no more than a limit on address space bears, if any, as
/// checkpoints that find none wait for it, and most other allocations that fail end the process.
fn cache_bytes(args: &UpArgs) -> Result<u64, Failure> {
    let bytes = args.cache_memory.bytes_on(Machine::look());
    let bytes = bytes.map_err(|error| Failure::Usage(error.to_string()))?;
    let left = serve::address_space_left(&args.serve);
    Ok(left.map_or(bytes, |left| bytes.min(left / ADDRESS_SPACE_FACTOR)))
}

/// Which checks hosts have to pass.
fn doors(args: &UpArgs, plan: &Plan) -> Doors {
    Doors { chap: plan.chap.is_some(), allow: !args.serve.allow.is_empty() }
}

/// A start that would open what was closed before is tried again by nobody until the operator has decided.
fn not_opened(error: DataError) -> Failure {
    match error {
        DataError::ChapLeftOut(_) | DataError::RulesLeftOut(_) => Failure::Usage(error.sentence()),
        error => advised(error).into(),
    }
}

/// What the data directory remembers and for which a start as a service is refused, without a look at anything else.
pub(crate) fn refused_by_data(args: &UpArgs) -> Option<DataError> {
    let plan = Plan::of(&args.serve, |name| env::var(name).ok()).ok()?;
    hosts::named(args, &plan)?;
    let data = serve::choose_state_dir(args.data.as_ref(), "--data").ok()?;
    // The service may read what this user may not.
    let is_told = |error: &DataError| match error {
        DataError::Read { source, .. } => source.raw_os_error().is_none(),
        _ => true,
    };
    doors(args, &plan).check(&data).err().filter(is_told)
}

/// Whether the member that this would start is in a group.
pub(crate) fn is_in_group(args: &UpArgs) -> bool {
    let data = serve::choose_state_dir(args.data.as_ref(), "--data");
    data.is_ok_and(|data| member::is_in_group(&data))
}

impl Running {
    /// Answers at the socket, says what is served, and stops when it is told to.
    fn serve(
        self,
        (claimed, socket, notifier): (anyhow::Result<LockFile>, &Path, Option<&Notifier>),
        hints: bool,
        logs: &Logs,
        mut signals: StopSignals,
    ) -> anyhow::Result<()> {
        let Self { server, life, shown, tls } = self;
        let claimed = claimed
            .and_then(|lock| Ok((interface::answer_at(&life, socket, logs, notifier, tls)?, lock)));
        if let Err(error) = &claimed {
            tracing::error!("{}", socket::sentence(&format!("{error:#}")));
        }
        hosts::warn(&shown, server.portals());
        let managed = Managed {
            socket: claimed.as_ref().ok().map(|_| socket),
            interface: claimed.as_ref().ok().map(|(interface, _)| interface.shown()),
        };
        let text = ready::text(&shown, server.portals(), &managed, hints);
        if let Err(error) = print(&text) {
            // The volumes are served all the same; nobody reads what is printed any more.
            tracing::warn!("cannot print what is served: {error}");
        }
        let service = Service::of_process();
        service.ready(&life, &ready::status(&shown)).context("cannot give signs of life")?;
        // Outside of the event: what a filter leaves out is not evaluated.
        let signal = signals.wait();
        service.stopping("stopping: hosts are logged out, everything is flushed");
        tracing::info!("stopping on {signal}; a second signal ends at once");
        stop(claimed.ok(), server, &life)
    }
}

/// Files that the member is about to open beside the connections of hosts: its disks, and those who manage
/// it over TLS.
fn files_of(args: &UpArgs, remembered: usize) -> usize {
    let disks = args.disks.len() + args.journals.len() + remembered + DISKS_MORE;
    let is_remote = !args.api.api_listen.is_empty();
    let remote = if is_remote { files::control_connections(CONNECTIONS_MAX) } else { 0 };
    // At the address of the group it listens too.
    disks * DISK_FILES + args.api.api_listen.len() + usize::from(is_remote) + remote
}

/// From the top down: no requests, no hosts, then the array, then the cores.
fn stop(
    interface: Option<(Interface, LockFile)>,
    server: Server,
    life: &Life,
) -> anyhow::Result<()> {
    // The lock is given back when all has ended.
    let _lock = interface::hang_up(interface, life);
    let ended = server.end_targets(GRACE);
    let closed = life.end();
    let down = server.shutdown(GRACE);
    ended.context("did not stop cleanly")?;
    closed.context("the array did not close cleanly; nothing that was acknowledged is lost")?;
    down.context("did not stop cleanly")?;
    tracing::info!("stopped");
    Ok(())
}

/// The control socket at which a command finds the member that `args` means.
pub(crate) fn socket_of_member(args: &SocketArgs) -> anyhow::Result<PathBuf> {
    let root = rustix::process::geteuid().is_root();
    path::find(args.socket.as_deref(), root, |name| env::var(name).ok(), Path::try_exists)
}

/// The control socket that `args` means.
fn socket(args: &SocketArgs) -> anyhow::Result<PathBuf> {
    let root = rustix::process::geteuid().is_root();
    path::choose(args.socket.as_deref(), root, |name| env::var(name).ok())
}

/// Makes the directory of the socket. One member answers at a socket. The inner error says why none can be
/// made: hosts are served without.
fn claim(socket: &Path) -> anyhow::Result<anyhow::Result<LockFile>> {
    if let Err(too_long) = socket::check(socket) {
        return Ok(Err(too_long));
    }
    if let Some(dir) = socket.parent().filter(|dir| !dir.as_os_str().is_empty())
        && let Err(error) = runtime_dir::prepare(dir)
    {
        return Ok(Err(socket::refused(dir, &error)));
    }
    if let Some(group) = administrators()
        && let Some(dir) = socket.parent().filter(|dir| runtime_dir::is_of_system(dir))
        && let Err(error) = runtime_dir::let_in(dir, group)
    {
        tracing::warn!("only root reaches the sockets in '{}': {error}", dir.display());
    }
    let answers = |pid| {
        anyhow!(
            "{} answers at '{}' already: stop it, or give this one its own --socket, --data and --portal",
            somebody(pid),
            socket.display()
        )
    };
    let lock = match LockFile::take(&socket::lock_of(socket)) {
        Err(LockError::Taken(pid)) => return Err(answers(pid)),
        Err(LockError::System(error)) => {
            Err(anyhow!("cannot make a control socket at '{}': {error}", socket.display()))
        }
        Ok(lock) => Ok(lock),
    };
    // Another program than this one takes no lock.
    if is_taken(socket) { Err(answers(None)) } else { Ok(lock) }
}

fn print(text: &str) -> io::Result<()> {
    let mut stdout = io::stdout().lock();
    stdout.write_all(text.as_bytes())?;
    stdout.flush()
}

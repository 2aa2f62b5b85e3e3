//! What every server of targets needs: from options to a running engine.

pub(crate) mod plan;
pub(crate) mod portals;

use crate::access::allow::Allow;
use crate::access::secret::Login;
use crate::advice::advised;
use crate::cli::serve::{CONGESTION_DEFAULT, Policy, ServeArgs};
use crate::os::{congestion, files, memory, state_dir};
use crate::print::units;
use anyhow::{Context, anyhow, bail};
use api::server::CONNECTIONS_MAX;
use group::words::counted;
use iscsi::chap::Credentials;
use member::ArrayUnits;
use member::data::{Keeps, portal_group};
use member::printable::{is_obeyed, printable};
use plan::Plan;
use std::env;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use target::{
    Access, AccessListener, AccessRule, Config, FileStore, Limits, StartError, TargetSpec,
    UnitStore,
};

/// What stands in for a name with `--congestion`.
const CONGESTION_SYSTEM: &str = "system";

/// Files of a core: its ring, its mailbox, and what it opens for a moment.
const CORE_FILES: usize = 8;
/// Files that are open for a moment: state that is written, directories that are flushed.
const SPARE_FILES: usize = 16;
/// With fewer connections there is nothing to serve.
const CONNECTIONS_MIN: usize = 4;

/// What outlives the process.
#[derive(Debug)]
pub(crate) struct State {
    /// The number of the portal group.
    port_group: u16,
    /// Where the target keeps reservations.
    store: Arc<dyn UnitStore>,
}

impl State {
    /// What is kept in files of the directory `dir`, or is from now on.
    pub(crate) fn of_files(dir: &Path) -> anyhow::Result<State> {
        let port_group = portal_group::number(dir).map_err(advised)?;
        let failed = || format!("cannot make the state directory '{}'", dir.display());
        let store = FileStore::new(dir).with_context(failed)?;
        Ok(State { port_group, store: Arc::new(store) })
    }

    /// What is kept on an array, which says the number of the portal group when it is open.
    pub(crate) fn of_array(units: Arc<ArrayUnits>) -> State {
        State { port_group: 1, store: units }
    }
}

/// What [`target::Server`] is to be started with; `more_files` are about to be opened, and `listener` hears of
/// logins.
pub(crate) fn config(
    args: &ServeArgs,
    plan: &Plan,
    targets: Vec<TargetSpec>,
    state: State,
    more_files: usize,
    listener: Option<Arc<dyn AccessListener>>,
) -> anyhow::Result<Config> {
    memory::check(cores(args)).map_err(|(limit, needed)| {
        anyhow!(
            "the limit on address space is {}, and {} take {}: raise it (ulimit -v), or write fewer --cores",
            units::bytes(limit),
            counted(cores(args).into(), "core"),
            units::bytes(needed)
        )
    })?;
    let State { port_group, store } = state;
    Ok(Config {
        targets,
        portals: args.portals.clone(),
        port_group,
        access: access(args, plan)?,
        discovery: None,
        cores: cores(args),
        core: core(args),
        congestion: congestion(&args.congestion)?,
        store,
        limits: limits(args, more_files)?,
        redirect: None,
        listener,
    })
}

/// What a limit on address space leaves for more than the cores; `None` without one.
pub(crate) fn address_space_left(args: &ServeArgs) -> Option<u64> {
    memory::left(cores(args))
}

/// The threads to run: as many as the processors this process may use, unless told otherwise.
fn cores(args: &ServeArgs) -> u16 {
    args.cores.unwrap_or_else(|| {
        thread::available_parallelism().map_or(1, |n| u16::try_from(n.get()).unwrap_or(u16::MAX))
    })
}

/// How each of them runs.
fn core(args: &ServeArgs) -> ring::CoreConfig {
    let spin = match args.policy {
        Policy::Latency => ring::SpinPolicy::Latency,
        Policy::Balanced => ring::SpinPolicy::Balanced,
        Policy::Efficient => ring::SpinPolicy::Efficient,
    };
    ring::CoreConfig { spin, ..ring::CoreConfig::default() }
}

/// The bounds that the user may move; the rest stays as the target has it. Connections leave files
/// for disks and for commands: hosts must not lock the operator out.
fn limits(args: &ServeArgs, more_files: usize) -> anyhow::Result<Limits> {
    let cores = usize::from(cores(args)) * CORE_FILES;
    let closing = target::REFUSALS_MAX + target::GIVING_WAY_MAX;
    let more = more_files + cores + SPARE_FILES + closing;
    let room = files::connections(more, files::control_connections(CONNECTIONS_MAX));
    if room < CONNECTIONS_MIN {
        bail!(
            "the limit on open files leaves none for connections of hosts: raise it (ulimit -n 65536)"
        );
    }
    if room < args.max_connections {
        tracing::warn!(
            "at most {room} connections can be open at once, as the limit on open files leaves no more: raise it (ulimit -n)"
        );
    }
    let connections = args.max_connections.min(room);
    Ok(Limits {
        connections,
        // Even of few a host with several paths gets what it needs.
        connections_per_address: (connections / 4).max(64),
        logins: args.max_logins,
        queue_depth: args.queue_depth,
        login_timeout: args.login_timeout,
        nop_interval: args.keepalive,
        ..Limits::default()
    })
}

/// Who may log in.
fn access(args: &ServeArgs, plan: &Plan) -> anyhow::Result<Access> {
    let credentials = |login: &Option<Login>| {
        let made = login.as_ref().map(|l| Credentials::new(l.user.as_str(), l.secret.as_str()));
        made.transpose().context("the CHAP login cannot be used")
    };
    let rule = |allow: &Allow| match allow {
        Allow::Initiator(name) => AccessRule::initiator(name.clone()),
        Allow::From(addresses) => AccessRule::from(addresses.clone()),
    };
    let places = args.allow.iter().map(rule).collect();
    Ok(Access::uniform(places, credentials(&plan.chap)?, credentials(&plan.mutual)?))
}

/// The congestion control to set. One that was asked for must be there; the default gives way.
pub(crate) fn congestion(name: &str) -> anyhow::Result<Option<String>> {
    if name == CONGESTION_SYSTEM {
        return Ok(None);
    }
    match congestion::probe(name) {
        Ok(()) => Ok(Some(name.to_owned())),
        Err(sentence) if name == CONGESTION_DEFAULT => {
            tracing::warn!("{sentence}");
            Ok(None)
        }
        Err(sentence) => Err(anyhow!(sentence)),
    }
}

/// The directory for what outlives the process, ready for use; `option` names it. It must work: a
/// reservation that a host was promised to find again after a restart (APTPL) may not be lost.
pub(crate) fn state_dir(asked: Option<&PathBuf>, option: &str) -> anyhow::Result<PathBuf> {
    let dir = choose_state_dir(asked, option)?;
    state_dir::prepare(&dir).with_context(|| cannot_keep(&dir, option))?;
    Ok(dir)
}

/// The same for a member, which opens what it has also when nothing can be written there: what was
/// kept before is there to be read, and hosts that wait for their disks need nothing else.
pub(crate) fn state_dir_to_open(
    asked: Option<&PathBuf>,
    option: &str,
) -> anyhow::Result<(PathBuf, Keeps)> {
    let dir = choose_state_dir(asked, option)?;
    state_dir::make(&dir).with_context(|| cannot_keep(&dir, option))?;
    let Err(error) = state_dir::try_to_write(&dir) else { return Ok((dir, Keeps::All)) };
    tracing::warn!(
        "nothing can be written to '{}' ({error}), which is no reason not to open the array: but which \
         disks join or leave it and which hosts may log in is not remembered for the next start; make room and \
         start it again",
        dir.display()
    );
    Ok((dir, Keeps::Nothing))
}

/// The directory that would be used, whether it is there or not.
pub(crate) fn choose_state_dir(asked: Option<&PathBuf>, option: &str) -> anyhow::Result<PathBuf> {
    let root = rustix::process::geteuid().is_root();
    let dir = asked
        .cloned()
        .or_else(|| state_dir::default_dir(root, |name| env::var(name).ok()))
        .with_context(|| {
        format!("there is no home to keep reservations in: write {option} DIR")
    })?;
    check_name(&dir, option)?;
    Ok(dir)
}

/// Refuses a directory in which files have names that cannot be written down: the list of disks has a path on each line.
pub(crate) fn check_name(dir: &Path, option: &str) -> anyhow::Result<()> {
    let shown = dir.display().to_string();
    if shown.contains(is_obeyed) {
        bail!("'{}' has control characters in its name: write another {option}", printable(&shown));
    }
    Ok(())
}

fn cannot_keep(dir: &Path, option: &str) -> String {
    format!("cannot keep reservations in '{}', write another with {option}", dir.display())
}

/// A failed start in words that say what to do.
pub(crate) fn explain(error: &StartError) -> anyhow::Error {
    match error {
        StartError::Portal { portal, source } => match source.kind() {
            ErrorKind::AddrInUse => anyhow!(
                "{portal} is in use by another program: write another --portal, or stop that program (ss -tlnp shows it)"
            ),
            ErrorKind::AddrNotAvailable => anyhow!(
                "this machine has no address {}: write one of those that 'ip address' shows with --portal",
                portal.ip()
            ),
            ErrorKind::PermissionDenied => anyhow!(
                "port {} needs root: write a --portal with a port of 1024 or more",
                portal.port()
            ),
            _ => anyhow!("cannot listen on {portal}: {source}"),
        },
        StartError::Engine(source) => match source.kind() {
            ErrorKind::PermissionDenied => anyhow!("{}", io_uring_refused()),
            ErrorKind::Unsupported => {
                anyhow!("there is no io_uring here, or one that is too old: {source}")
            }
            ErrorKind::OutOfMemory => anyhow!(
                "the I/O engine got no memory ({source}): write fewer --cores, or raise the limit on locked memory (ulimit -l)"
            ),
            _ => anyhow!("cannot start the I/O engine: {source}"),
        },
        _ => anyhow!("{error}"),
    }
}

/// Why io_uring may be refused: by the kernel's own switch, or by a container's filter.
fn io_uring_refused() -> String {
    let switch = fs::read_to_string("/proc/sys/kernel/io_uring_disabled").unwrap_or_default();
    if matches!(switch.trim(), "1" | "2") {
        "io_uring is switched off: run 'sysctl kernel.io_uring_disabled=0' as root".to_owned()
    } else {
        "io_uring is not permitted: allow its system calls in the seccomp filter of the container"
            .to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io;

    fn said(error: &StartError) -> String {
        explain(error).to_string()
    }

    fn portal(kind: ErrorKind) -> StartError {
        StartError::Portal { portal: "192.0.2.1:860".parse().unwrap(), source: kind.into() }
    }

    #[test]
    fn each_failed_start_says_what_to_do() {
        let cases = [
            (
                portal(ErrorKind::AddrInUse),
                "192.0.2.1:860 is in use by another program: write another --portal, or stop that program (ss -tlnp shows it)",
            ),
            (
                portal(ErrorKind::AddrNotAvailable),
                "this machine has no address 192.0.2.1: write one of those that 'ip address' shows with --portal",
            ),
            (
                portal(ErrorKind::PermissionDenied),
                "port 860 needs root: write a --portal with a port of 1024 or more",
            ),
            (portal(ErrorKind::TimedOut), "cannot listen on 192.0.2.1:860: timed out"),
            (
                StartError::Engine(ErrorKind::Unsupported.into()),
                "there is no io_uring here, or one that is too old: unsupported",
            ),
            (StartError::Engine(io::Error::other("odd")), "cannot start the I/O engine: odd"),
        ];
        for (error, sentence) in cases {
            assert_eq!(said(&error), sentence);
        }
        let refused = said(&StartError::Engine(ErrorKind::PermissionDenied.into()));
        assert!(refused.starts_with("io_uring is "), "{refused}");
    }

    #[test]
    fn congestion_gives_way_only_where_nobody_asked_for_it() {
        assert_eq!(congestion("system").unwrap(), None);
        assert_eq!(congestion("reno").unwrap().as_deref(), Some("reno"));
        let refused = congestion("no-such-thing").unwrap_err().to_string();
        assert!(refused.contains("'no-such-thing' cannot be set"), "{refused}");
    }

    #[test]
    fn a_state_directory_that_was_asked_for_must_work() {
        let base = tempfile::tempdir().unwrap();
        let dir = base.path().join("state");
        assert_eq!(state_dir(Some(&dir), "--state-dir").unwrap(), dir);
        let odd = base.path().join("a\nb");
        let refused = state_dir(Some(&odd), "--data").unwrap_err().to_string();
        assert!(
            refused.ends_with("a\\u{a}b' has control characters in its name: write another --data"),
            "{refused}"
        );
        assert!(!odd.exists());
        let file = base.path().join("file");
        fs::write(&file, b"").unwrap();
        let refused = format!("{:#}", state_dir(Some(&file), "--state-dir").unwrap_err());
        let shown = file.display();
        assert!(
            refused.starts_with(&format!(
                "cannot keep reservations in '{shown}', write another with --state-dir: "
            )),
            "{refused}"
        );
    }
}

//! `drystone member`: the member as a service, from a file that says where its disks and portals are.

mod check;
mod config;
mod service_user;

use crate::cli::member::{MemberCommand, StartArgs};
use crate::os::signals::StopSignals;
use crate::{Failure, logging, manage, up};
use anyhow::anyhow;
use config::{Config, Unusable};
use member::Unlisted;
use member::data::DataError;
use std::net::SocketAddr;
use std::path::Path;

/// Does what is asked. `filter` is that of `--log`, before which the file gives way.
pub(crate) fn run(
    command: MemberCommand,
    filter: Option<&str>,
    signals: impl FnOnce() -> anyhow::Result<StopSignals>,
) -> Result<(), Failure> {
    match command {
        MemberCommand::Start(args) => start(&args, filter, signals()?),
        MemberCommand::Show(args) => manage::interface::run(&args),
        MemberCommand::Check { file, json } => check::run(&file.config, json),
    }
}

fn start(args: &StartArgs, filter: Option<&str>, signals: StopSignals) -> Result<(), Failure> {
    let Config { mut up, log, unmatched, .. } = read(&args.file.config)?;
    logging::start(filter.or(log.as_deref())).map_err(Failure::Usage)?;
    for pattern in &unmatched {
        tracing::warn!("{}: {pattern}", args.file.config.display());
    }
    up.accept_missing = args.accept_missing;
    up.open_access = args.open_access;
    up.cache_memory = args.cache_memory.unwrap_or(up.cache_memory);
    up::run(&up, Unlisted::Nobody, signals)
}

/// The portals that a file names, and what the data directory refuses a start from it for.
///
/// # Errors
/// It does not read.
pub(crate) fn look(path: &Path) -> Result<(Vec<SocketAddr>, Option<DataError>), Failure> {
    let up = read(path)?.up;
    let refused = up::refused_by_data(&up);
    Ok((up.serve.portals, refused))
}

/// All that is wrong, in one sentence for each line. The unit starts the member again by itself only where that may
/// pass, not where the file is to be mended (`RestartPreventExitStatus=`).
fn read(path: &Path) -> Result<Config, Failure> {
    config::read(path).map_err(|unusable| {
        let may_come = matches!(unusable, Unusable::NotYet(_));
        let told = unusable.refused();
        let lines: Vec<String> =
            told.iter().map(|refused| format!("{}: {refused}", path.display())).collect();
        let text = lines.join("\n");
        if may_come { anyhow!(text).into() } else { Failure::Usage(text) }
    })
}

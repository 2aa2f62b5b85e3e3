//! `drystone member`: the member as a service, from a file that says where its disks and portals are. What is asked
//! of the members of its group is in `manage`.

mod check;
mod config;
mod service_user;

use crate::cli::member::{MemberCommand, StartArgs};
use crate::os::signals::StopSignals;
use crate::{Failure, logging, manage, up};
use anyhow::anyhow;
use api::client::Despite;
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
        MemberCommand::Join(args) => manage::members::join(args),
        MemberCommand::List(args) => manage::members::list(&args),
        MemberCommand::Vacate { name, pool, confirm, asked } => {
            manage::moving::vacate(&name, pool.as_deref(), &confirm, &asked)
        }
        MemberCommand::Move { name, pool, asked } => manage::members::move_to(&name, &pool, &asked),
        MemberCommand::Remove { name, despite_moves, despite_spreads, confirm, asked } => {
            let despite = Despite { moves: despite_moves, spreads: despite_spreads };
            manage::members::remove((&name, despite), &confirm, &asked)
        }
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

/// What a file says of its member, and what there is of that.
#[derive(Debug)]
pub(crate) struct Look {
    /// Where hosts are to reach it.
    pub(crate) portals: Vec<SocketAddr>,
    /// What the data directory refuses a start from the file for.
    pub(crate) refused: Option<DataError>,
    /// The member is in a group, as far as this user may see.
    pub(crate) is_in_group: bool,
}

/// Looks at the member of a file.
///
/// # Errors
/// It does not read.
pub(crate) fn look(path: &Path) -> Result<Look, Failure> {
    let up = read(path)?.up;
    let (refused, is_in_group) = (up::refused_by_data(&up), up::is_in_group(&up));
    Ok(Look { portals: up.serve.portals, refused, is_in_group })
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

//! From the command line to options of the engine and of sessions.

use std::env;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use initiator::{DiskOptions, PlanOptions, SessionOptions};
use lab::engine::RunOptions;
use lab::volume::Sessions;

use crate::access::secret::{self, Sources};
use crate::attach::plan::{initiator_name, login};
use crate::cli::lab::CommonArgs;

/// How the engine runs.
pub(super) fn run_options(args: &CommonArgs, stop: Arc<AtomicBool>) -> RunOptions {
    // What an I/O waits for a path, and then some: it has failed by itself by then.
    let drain_max = args.path_timeout + std::time::Duration::from_secs(15);
    RunOptions {
        validate: !args.no_validation,
        validate_before: args.validate,
        validate_after: args.validate_after,
        journal: args.journal.clone(),
        stall: args.stall,
        mismatches_max: args.wrong_blocks,
        target_pid: args.target_pid,
        target_metrics: args.target_metrics.clone(),
        drain_max,
        stop,
        ..RunOptions::new(random_key())
    }
}

/// How sessions are made.
pub(super) fn sessions(args: &CommonArgs) -> Result<Sessions, String> {
    let variable = env::var(secret::variable("chap")).ok().filter(|text| !text.is_empty());
    let sources = Sources {
        option: "chap",
        text: args.chap.as_ref(),
        file: args.chap_file.as_deref(),
        environment: variable.as_deref(),
    };
    let chap = sources.read().map_err(|error| error.to_string())?;
    let name = initiator_name(args.initiator.as_deref()).map_err(|error| error.to_string())?;
    let mut session = SessionOptions::new(name);
    session.chap = login(chap, None).map_err(|error| error.to_string())?;
    let mut disk = DiskOptions::new(session);
    disk.router.policy = args.policy;
    disk.router.limit = args.path_timeout;
    let plan = PlanOptions { sessions: args.sessions.map(u32::from), ..PlanOptions::default() };
    Ok(Sessions { disk, plan })
}

/// Tells the data of this run from that of all others.
fn random_key() -> u64 {
    getrandom::u64().expect("the kernel has randomness once it has booted")
}

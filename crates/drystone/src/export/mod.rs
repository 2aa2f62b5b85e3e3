//! `drystone export`: from options to a target that serves until it is told to stop.

pub(crate) mod disks;
pub(crate) mod hints;
mod plan;
pub(crate) mod ready;
mod start;

use crate::Failure;
use crate::cli::export::{ExportArgs, IQN_DEFAULT};
use crate::os::{files, signals::StopSignals};
use crate::serve::plan::Plan;
use anyhow::Context;
use hints::Hints;
use member::GRACE;
use ready::{Lun, Portal};
use std::env;
use std::io::{self, Write};
use target::Server;

/// Serves until a signal.
pub(crate) fn run(args: &ExportArgs, mut signals: StopSignals) -> Result<(), Failure> {
    let usage = |error: &dyn ToString| Failure::Usage(error.to_string());
    plan::check_specs(&args.specs).map_err(|error| usage(&error))?;
    let plan = Plan::of(&args.serve, |name| env::var(name).ok()).map_err(|error| usage(&error))?;
    if let Some(signal) = signals.came() {
        tracing::info!("stopping on {signal}, before anything was served");
        return Ok(());
    }
    files::raise_limit();
    let (server, luns) = start::start(args, &plan)?;
    if args.iqn == IQN_DEFAULT && server.portals().iter().any(|p| !p.ip().is_loopback()) {
        tracing::warn!(
            "other machines may serve a target of the name {IQN_DEFAULT} too: give this one its own with --iqn"
        );
    }
    if let Err(error) = announce(args, &plan, &server, &luns) {
        // The disks are served all the same; nobody reads what is printed any more.
        tracing::warn!("cannot print what is served: {error}");
    }
    // Outside of the event: what a filter leaves out is not evaluated.
    let signal = signals.wait();
    tracing::info!("stopping on {signal}; a second signal ends at once");
    server.shutdown(GRACE).context("did not stop cleanly")?;
    tracing::info!("stopped");
    Ok(())
}

/// Prints what is served, in one piece: a line for each LUN and each portal, and the hints.
fn announce(args: &ExportArgs, plan: &Plan, server: &Server, luns: &[Lun]) -> io::Result<()> {
    let mut text = String::new();
    for lun in luns {
        text.push_str(&format!("{lun}\n"));
    }
    for address in server.portals() {
        text.push_str(&format!("{}\n", Portal { address: *address, iqn: &args.iqn }));
    }
    if let (true, Some(portal)) = (args.hints, server.portals().first()) {
        let chap_user = plan.chap.as_ref().map(|login| login.user.as_str());
        let hints = Hints { portal: *portal, iqn: &args.iqn, chap_user };
        text.push_str(&format!("\n{}", hints.text()));
    }
    let mut stdout = io::stdout().lock();
    stdout.write_all(text.as_bytes())?;
    stdout.flush()
}

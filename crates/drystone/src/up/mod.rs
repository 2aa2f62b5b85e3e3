//! `drystone up`: an array of disks whose volumes are served until it is told to stop.

pub(crate) mod disks;
mod life;
mod member;
mod names;
pub(crate) mod opening;
mod ready;
mod serving;
mod turn;
mod volumes;
mod watch;

use crate::Failure;
use crate::cli::up::{SocketArgs, UpArgs};
use crate::control::client::is_taken;
use crate::control::path;
use crate::os::{files, runtime_dir, signals::StopSignals};
use crate::serve::{self, GRACE, plan::Plan};
use anyhow::{Context, bail};
use disks::DiskList;
use life::{Life, Opening};
use opening::Make;
use std::env;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use target::Server;

/// Where reservations are kept, in the directory of the member.
const RESERVATIONS: &str = "reservations";

/// Serves until a signal.
pub(crate) fn run(args: &UpArgs) -> Result<(), Failure> {
    let plan = Plan::of(&args.serve, |name| env::var(name).ok())
        .map_err(|error| Failure::Usage(error.to_string()))?;
    let mut signals = StopSignals::install().context("cannot watch for signals")?;
    files::raise_limit();
    let socket = socket(&args.socket)?;
    claim(&socket)?;
    let data = serve::state_dir(args.data.as_ref(), "--data")?;
    let list = DiskList::read(&data)?;
    let chosen = list.choose(&data, &args.disks, &args.journals)?;
    let named = [&args.disks[..], &args.journals].concat();
    let disks = list.open(&chosen, &named)?;

    let config = serve::config(&args.serve, &plan, Vec::new(), data.join(RESERVATIONS))?;
    let mut server = Server::launch(config).map_err(|error| serve::explain(&error))?;
    // Those that are named come first, and all of them are open.
    let journals = disks.iter().skip(args.disks.len()).take(args.journals.len());
    let journals = journals.map(|disk| disk.name.clone()).collect();
    let make = Make { raid: args.raid, journals };
    let opening = Opening { disks, chosen, list, make, prefix: args.iqn.clone() };
    let life = Life::start(&server, opening)?;
    if let Err(error) = server.listen() {
        drop(life.end());
        return Err(serve::explain(&error).into());
    }
    let shown = life.answer_at(&socket)?;
    let text = ready::text(&shown, server.portals(), &socket, args.hints);
    if let Err(error) = print(&text) {
        // The volumes are served all the same; nobody reads what is printed any more.
        tracing::warn!("cannot print what is served: {error}");
    }
    tracing::info!("stopping on {}; a second signal ends at once", signals.wait());
    stop(server, &life)?;
    Ok(())
}

/// From the top down: no requests, no hosts, then the array, then the cores.
fn stop(server: Server, life: &Life) -> anyhow::Result<()> {
    life.hang_up();
    let ended = server.end_targets(GRACE);
    let closed = life.end();
    let down = server.shutdown(GRACE);
    ended.context("did not stop cleanly")?;
    closed.context("the array did not close cleanly; nothing that was acknowledged is lost")?;
    down.context("did not stop cleanly")?;
    tracing::info!("stopped");
    Ok(())
}

/// The control socket that `args` means.
pub(crate) fn socket(args: &SocketArgs) -> anyhow::Result<PathBuf> {
    let root = rustix::process::geteuid().is_root();
    path::choose(args.socket.as_deref(), root, |name| env::var(name).ok())
}

/// Makes the directory of the socket. One member answers at a socket.
fn claim(socket: &Path) -> anyhow::Result<()> {
    if let Some(dir) = socket.parent().filter(|dir| !dir.as_os_str().is_empty()) {
        runtime_dir::prepare(dir).with_context(|| {
            format!("cannot make a control socket in '{}': write another --socket", dir.display())
        })?;
    }
    if is_taken(socket) {
        bail!(
            "a member answers at '{}' already: stop it, or give this one its own --socket, --data and --portal",
            socket.display()
        );
    }
    Ok(())
}

fn print(text: &str) -> io::Result<()> {
    let mut stdout = io::stdout().lock();
    stdout.write_all(text.as_bytes())?;
    stdout.flush()
}

//! The lean iSCSI initiator: logs in, learns the size of the disk, and then only reads and writes.

mod login;
mod url;
mod wire;

use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};

pub(crate) use login::{Session, connect};
pub(crate) use url::Url;
pub(crate) use wire::IscsiWire;

use crate::load::{Edge, LoadReport, Order, Pattern, Peer, Plan, Tally, run};

#[cfg(test)]
mod tests;

/// Longest time for all logins of a run together. A thousand take well under a second; a target that
/// needs longer is not able to hold them, and must not hold up the rest.
const LOGINS_MAX: Duration = Duration::from_secs(30);
/// I/O size for filling a device.
const FILL_IO_BYTES: u32 = 256 << 10;

/// A way to the disk: where it is, and how sockets are set up.
#[derive(Debug, Clone)]
pub(crate) struct Route {
    /// The target, portal and LUN.
    pub(crate) url: Url,
    /// Congestion control of the client's sockets; `None` leaves the system's.
    pub(crate) congestion: Option<String>,
}

/// Logs `sessions` sessions in, one after the other.
///
/// # Errors
/// Says which session failed and why.
pub(crate) fn connect_all(route: &Route, sessions: u32, stop: &AtomicBool) -> Result<Vec<Session>> {
    let deadline = Instant::now() + LOGINS_MAX;
    let mut all = Vec::with_capacity(sessions as usize);
    for index in 0..sessions {
        let late = Instant::now() >= deadline;
        ensure!(!late, "only {index} of {sessions} sessions logged in within {LOGINS_MAX:?}");
        if stop.load(std::sync::atomic::Ordering::Relaxed) {
            bail!("stopped by a signal");
        }
        let session = connect(route, index)
            .with_context(|| format!("session {} of {sessions}", index + 1))?;
        all.push(session);
    }
    Ok(all)
}

/// Runs `plan` against `route`, filling the area first when it verifies. The area is cut to the
/// size of the disk.
///
/// # Errors
/// No login, an unusable disk, a lost connection; failed I/Os are counted, not errors.
pub(crate) fn load(
    route: &Route,
    plan: &Plan,
    stop: &AtomicBool,
    edge: &mut dyn FnMut(Edge),
) -> Result<LoadReport> {
    if plan.verify {
        fill(route, plan.io_bytes, plan.area_bytes, stop)?;
    }
    load_filled(route, plan, stop, edge)
}

fn load_filled(
    route: &Route,
    plan: &Plan,
    stop: &AtomicBool,
    edge: &mut dyn FnMut(Edge),
) -> Result<LoadReport> {
    let sessions = connect_all(route, plan.sessions, stop)?;
    let plan = fit(plan, &sessions)?;
    let pattern = std::rc::Rc::new(Pattern::new(plan.io_bytes as usize));
    let peers = sessions
        .into_iter()
        .map(|session| session.into_peer(&plan, &pattern))
        .collect::<Vec<Peer<IscsiWire>>>();
    let (peers, tally): (_, Tally) = run(peers, &plan, &pattern, stop, edge)?;
    for peer in peers {
        login::logout(peer);
    }
    Ok(tally.report(plan.io_bytes))
}

/// Cuts the plan's area to the disk, and checks that I/Os of its size are possible.
fn fit(plan: &Plan, sessions: &[Session]) -> Result<Plan> {
    let first = sessions.first().context("a load needs at least one session")?;
    let disk_bytes = first.blocks * u64::from(first.start.block_bytes);
    ensure!(
        plan.io_bytes.is_multiple_of(first.start.block_bytes),
        "the I/O size must be a multiple of the disk's block of {} bytes",
        first.start.block_bytes
    );
    let area_bytes = plan.area_bytes.min(disk_bytes);
    ensure!(
        area_bytes >= u64::from(plan.io_bytes),
        "the area of {area_bytes} bytes is smaller than one I/O of {} bytes",
        plan.io_bytes
    );
    Ok(Plan { area_bytes, ..*plan })
}

/// Writes `area_bytes` of the disk once, from the start, with the pattern for I/Os of `io_bytes`.
///
/// # Errors
/// As [`load`], and when any write failed.
pub(crate) fn fill(route: &Route, io_bytes: u32, area_bytes: u64, stop: &AtomicBool) -> Result<()> {
    let mut plan = Plan {
        read_percent: 0,
        order: Order::Sequential,
        io_bytes,
        depth: 16,
        sessions: 1,
        warmup: Duration::ZERO,
        measure: Duration::from_secs(120),
        area_bytes,
        verify: false,
        ios_max: None,
    };
    plan = fit(&plan, &connect_all(route, 1, stop)?)?;
    plan.ios_max = Some(plan.area_bytes / u64::from(io_bytes));
    let report = load_filled(route, &plan, stop, &mut |_| {})?;
    ensure!(
        report.errors == 0,
        "filling the disk failed: {}",
        report.first_error.unwrap_or_else(|| "no reason given".into())
    );
    ensure!(Some(report.ios) >= plan.ios_max, "filling the disk took longer than 120 s");
    Ok(())
}

/// Fills the disk with no intention to verify it, in large writes.
///
/// # Errors
/// As [`fill`].
pub(crate) fn prepare(route: &Route, area_bytes: u64, stop: &AtomicBool) -> Result<()> {
    fill(route, FILL_IO_BYTES, area_bytes, stop)
}

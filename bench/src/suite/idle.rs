//! Targets at rest: alone, and with many sessions that do nothing.

use std::process::ExitCode;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use anyhow::{Context, Result};

use crate::cli::LoadArgs;
use crate::initiator::{Route, connect_all};
use crate::load::{Edge, Order, Pattern, Plan, run};
use crate::machine::{Sample, raise_file_limit, sample};

/// After the last login a target may still tidy up; that is not rest.
const SETTLE: Duration = Duration::from_secs(1);

/// What idle sessions cost.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct IdleCost {
    /// Memory per session.
    pub(crate) session_bytes: f64,
    /// Share of a core.
    pub(crate) core: f64,
}

/// Share of a core used between two samples of one process.
pub(crate) fn core_between(from: &Sample, to: &Sample) -> f64 {
    let wall = (to.at - from.at).as_secs_f64().max(1e-9);
    to.cpu.saturating_sub(from.cpu).as_secs_f64() / wall
}

/// Logs `sessions` sessions in, holds them for `hold`, and says what they cost process `pid`.
///
/// # Errors
/// A login failed, a connection was lost, or the process is gone.
pub(crate) fn hold(
    route: &Route,
    sessions: u32,
    hold: Duration,
    pid: u32,
    stop: &AtomicBool,
) -> Result<IdleCost> {
    let before = sample(pid)?;
    let peers = connect_all(route, sessions, stop)?
        .into_iter()
        .map(|session| session.into_idle())
        .collect();
    let plan = Plan {
        read_percent: 100,
        order: Order::Sequential,
        io_bytes: 4096,
        depth: 0,
        sessions,
        warmup: SETTLE,
        measure: hold,
        area_bytes: 4096,
        verify: false,
        ios_max: None,
    };
    let mut samples = Vec::with_capacity(2);
    let (peers, _) = run(peers, &plan, &Pattern::new(0), stop, &mut |_: Edge| {
        samples.extend(sample(pid));
    })?;
    drop(peers);
    let [from, to] = samples.as_slice() else {
        return Err(anyhow::anyhow!("process {pid} is gone"));
    };
    Ok(IdleCost {
        session_bytes: to.memory_bytes.saturating_sub(before.memory_bytes) as f64
            / f64::from(sessions),
        core: core_between(from, to),
    })
}

/// `load --idle`.
///
/// # Errors
/// As [`hold`]; and without `--pid` there is nothing to report.
pub(crate) fn idle_command(args: &LoadArgs, stop: &AtomicBool) -> Result<ExitCode> {
    raise_file_limit();
    let pid = args.pid.context("--idle needs --pid, the process of the target")?;
    let plan = args.work.plan(false)?;
    let cost = hold(&args.route(), plan.sessions, plan.measure, pid, stop)?;
    let text = if args.work.json {
        let value = serde_json::json!({
            "sessions": plan.sessions,
            "session_bytes": cost.session_bytes,
            "target_core": cost.core,
        });
        format!("{value}\n")
    } else {
        format!(
            "{} idle sessions: {:.1} KiB of memory each, {:.3} % of a core in all\n",
            plan.sessions,
            cost.session_bytes / 1024.0,
            cost.core * 100.0
        )
    };
    crate::say(&text)?;
    Ok(ExitCode::SUCCESS)
}

//! One run of the lean client, with what it cost both sides.

use std::sync::atomic::AtomicBool;

use anyhow::{Result, bail, ensure};

use super::idle::core_between;
use super::results::Run;
use crate::adapter::Service;
use crate::initiator::{self, Route};
use crate::load::{Edge, Plan};
use crate::machine::{Pinned, sample};
use crate::plain;

/// Drives `service`, which process `pid` gives, from `core`.
///
/// # Errors
/// No login, a lost connection, no I/O at all, or the process is gone; failed I/Os are counted.
pub(crate) fn measure(
    service: &Service,
    pid: u32,
    plan: &Plan,
    core: usize,
    stop: &AtomicBool,
) -> Result<Run> {
    let _pinned = Pinned::to_core(core)?;
    let mut samples = Vec::with_capacity(2);
    let edge = &mut |_: Edge| samples.extend(sample(pid));
    let load = match service {
        Service::Iscsi(url) => {
            let route = Route { url: url.clone(), congestion: None };
            initiator::load(&route, plan, stop, edge)?
        }
        Service::Plain(address) => plain::load(*address, plan, stop, edge)?,
    };
    let [from, to] = samples.as_slice() else { bail!("process {pid} is gone") };
    ensure!(load.ios > 0, "no I/O completed");
    let used_us = to.cpu.saturating_sub(from.cpu).as_secs_f64() * 1e6;
    Ok(Run {
        iops: load.iops,
        mb_per_s: load.mb_per_s,
        latency_us_mean: Some(load.latency_us_mean),
        latency_us_p50: Some(load.latency_us_p50),
        latency_us_p99: Some(load.latency_us_p99),
        latency_us_p999: Some(load.latency_us_p999),
        latency_us_max: Some(load.latency_us_max),
        silent_seconds: Some(load.silent_seconds),
        target_cpu_us_per_io: used_us / load.ios as f64,
        client_cpu_us_per_io: load.client_cpu_us_per_io,
        target_core: core_between(from, to),
        client_core: load.client_core,
        client_waited: load.client_waited,
        session_share_min: load.session_share_min,
        errors: load.errors,
    })
}

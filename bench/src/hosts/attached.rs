//! What `drystone attach` costs for each request of its NBD clients.

use std::time::Duration;

use anyhow::{Context, Result, ensure};

use super::local::{attach_command, with_server};
use super::{Bench, DEPTH, IO_BYTES, Line};
use crate::load::{Edge, LoadReport, Order, Plan};
use crate::machine::{Pinned, sample};
use crate::nbd;

/// Before anything counts.
const WARMUP: Duration = Duration::from_millis(500);

/// NBD connections, and what a read may cost then.
const MARKS: [(u32, f64); 2] = [(1, 4.0), (4, 2.5)];

/// One line for each number of connections: the lean client is on the target's core, the attachment on
/// its own.
pub(super) fn rows(bench: &Bench<'_>, lines: &mut Vec<Line>) -> Result<()> {
    for (connections, us_max) in MARKS {
        let mut runs = Vec::new();
        for _ in 0..bench.args.rounds {
            runs.push(run(bench, connections)?);
        }
        let (us, report) = runs
            .into_iter()
            .min_by(|(a, _), (b, _)| a.total_cmp(b))
            .context("there is one round at least")?;
        let what = format!(
            "drystone attach, 4 KiB random reads of {connections} NBD connections at depth {DEPTH} each: at most {us_max} us of CPU"
        );
        let found = format!("{us:.2} us ({:.0} a second)", report.iops);
        lines.push(Line::new(&what, found, us <= us_max));
    }
    Ok(())
}

/// Its CPU time for each read in us, and what its clients saw.
fn run(bench: &Bench<'_>, connections: u32) -> Result<(f64, LoadReport)> {
    let plan = Plan {
        read_percent: 100,
        order: Order::Random,
        io_bytes: u32::try_from(IO_BYTES)?,
        depth: DEPTH,
        sessions: connections,
        warmup: WARMUP,
        measure: Duration::from_secs_f64(bench.args.seconds),
        area_bytes: bench.args.size,
        verify: false,
        ios_max: None,
    };
    let (command, socket) = attach_command(bench);
    with_server(bench.args.client_core, command, "drystone attach", &socket, |pid| {
        let _pinned = Pinned::to_core(bench.args.target_core)?;
        let mut samples = Vec::new();
        let mut edge = |_: Edge| samples.push(sample(pid));
        let report = nbd::load(&socket, &plan, bench.stop, &mut edge)?;
        ensure!(report.errors == 0, "reads failed: {:?}", report.first_error);
        let samples: Vec<_> = samples.into_iter().collect::<Result<_>>()?;
        let [start, end] = samples[..] else { anyhow::bail!("a run has two ends") };
        let used = end.cpu.saturating_sub(start.cpu);
        Ok((used.as_secs_f64() * 1e6 / report.ios as f64, report))
    })
}

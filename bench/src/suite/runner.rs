//! Starting the targets once, and taking them through all rows in turn.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Result, bail, ensure};

use super::clients::Foreign;
use super::idle::{core_between, hold};
use super::measure::measure;
use super::results::{Cell, Idle, Limit, Results, Run, TargetInfo};
use super::rows::{ROWS, Row};
use crate::adapter::{Adapter, Running, Service, Site};
use crate::cli::CompareArgs;
use crate::initiator::{self, Route};
use crate::machine::{Facts, Pinned, sample};

/// Sessions that are held idle.
const IDLE_SESSIONS: u32 = 1000;
/// What a run costs besides its time: logins, draining, logouts.
const OVERHEAD_S: f64 = 0.3;
/// What it costs to start and fill a target.
const START_S: f64 = 4.0;

/// How a comparison is done.
#[derive(Debug)]
pub(crate) struct Settings {
    pub(crate) rounds: u32,
    pub(crate) warmup: Duration,
    pub(crate) measure: Duration,
    pub(crate) rest: Duration,
    pub(crate) disk_bytes: u64,
    pub(crate) target_core: usize,
    pub(crate) client_core: usize,
    pub(crate) rows: Vec<Row>,
    /// Clients of others and rest belong to a full comparison, not to one of chosen rows.
    pub(crate) everything: bool,
}

impl Settings {
    /// From the command line.
    ///
    /// # Errors
    /// Says which argument asks for what cannot be.
    pub(crate) fn new(args: &CompareArgs) -> Result<Self> {
        let (rounds, seconds, warmup, size) =
            if args.quick { (1, 1.0, 0.3, 256 << 20) } else { (3, 3.0, 0.5, 1 << 30) };
        let cores = std::thread::available_parallelism()?.get();
        ensure!(
            args.target_core != args.client_core || cores == 1,
            "--target-core and --client-core must differ"
        );
        let disk_bytes = args.size.unwrap_or(size) >> 20 << 20;
        ensure!(disk_bytes >= 16 << 20, "--size: at least 16m");
        let rows: Vec<Row> = ROWS
            .into_iter()
            .filter(|row| {
                args.rows.is_empty() || args.rows.iter().any(|part| row.key.contains(part))
            })
            .collect();
        let keys = ROWS.map(|row| row.key).join(", ");
        ensure!(!rows.is_empty(), "--rows: no such row; there are {keys}");
        Ok(Self {
            rounds: args.rounds.unwrap_or(rounds),
            warmup: Duration::from_secs_f64(warmup),
            measure: Duration::from_secs_f64(args.seconds.unwrap_or(seconds)),
            rest: Duration::from_secs(if args.quick { 1 } else { 5 }),
            disk_bytes,
            target_core: args.target_core,
            client_core: args.client_core,
            rows,
            everything: args.rows.is_empty(),
        })
    }

    fn method(&self) -> String {
        format!(
            "Targets on core {}, clients on core {}, loopback, disks of {} MiB in memory, filled \
             through iSCSI first; {} round(s), each runs every target once per row for {} s after \
             {} s of warm-up, and starts with another target than the round before; medians.",
            self.target_core,
            self.client_core,
            self.disk_bytes >> 20,
            self.rounds,
            self.measure.as_secs_f64(),
            self.warmup.as_secs_f64()
        )
    }

    /// Seconds that a comparison of `targets` targets takes at most, unless they hang.
    pub(crate) fn seconds_max(&self, targets: usize) -> f64 {
        let run = (self.warmup + self.measure).as_secs_f64() + OVERHEAD_S;
        let mut per_round = self.rows.len() as f64 * run;
        let mut once = START_S;
        if self.everything {
            per_round += Foreign::ALL.len() as f64 * (self.measure.as_secs_f64() + 1.0);
            once += 2.0 * self.rest.as_secs_f64() + 2.0;
        }
        targets as f64 * (per_round * f64::from(self.rounds) + once)
    }
}

/// A target that runs.
pub(crate) struct Entry {
    name: String,
    running: Box<dyn Running>,
    /// It failed in a way that leaves no hope.
    dead: bool,
}

/// What a run is filed under.
#[derive(Debug, Clone, Copy)]
struct Label {
    key: &'static str,
    title: &'static str,
    client: &'static str,
}

/// The comparison while it goes on.
#[derive(Debug)]
pub(crate) struct Runner {
    pub(crate) settings: Settings,
    results: Results,
}

impl Foreign {
    fn label(self) -> Label {
        Label { key: self.key(), title: self.title(), client: self.client() }
    }
}

impl Runner {
    /// Nothing measured yet.
    pub(crate) fn new(settings: Settings, facts: Facts) -> Self {
        let results = Results {
            facts,
            method: settings.method(),
            targets: Vec::new(),
            cells: Vec::new(),
            idle: Vec::new(),
        };
        Self { settings, results }
    }

    /// What is going to happen and how long it takes.
    pub(crate) fn announce(&self, targets: usize) -> String {
        format!(
            "{} targets, {} rows, {} round(s): about {:.0} minutes at most; Ctrl-C stops and cleans up",
            targets,
            self.settings.rows.len(),
            self.settings.rounds,
            (self.settings.seconds_max(targets) / 60.0).ceil()
        )
    }

    /// Starts a target and fills its disk. A target that cannot run is noted and left out.
    ///
    /// # Errors
    /// Only a signal.
    pub(crate) fn start(
        &mut self,
        adapter: &dyn Adapter,
        site: &Site,
        stop: &AtomicBool,
    ) -> Result<Option<Entry>> {
        let started = match adapter.missing() {
            Some(reason) => Err(anyhow::anyhow!(reason)),
            None => self.start_and_fill(adapter, site, stop),
        };
        if stop.load(Ordering::Relaxed) {
            bail!("stopped by a signal");
        }
        let skipped = started.as_ref().err().map(|error| format!("{error:#}"));
        match &skipped {
            Some(reason) => eprintln!("{}: skipped: {reason}", adapter.name()),
            None => eprintln!("{}: up", adapter.name()),
        }
        let (name, what) = (adapter.name().to_owned(), adapter.describe());
        self.results.targets.push(TargetInfo { name: name.clone(), what, skipped });
        Ok(started.ok().map(|running| Entry { name, running, dead: false }))
    }

    fn start_and_fill(
        &self,
        adapter: &dyn Adapter,
        site: &Site,
        stop: &AtomicBool,
    ) -> Result<Box<dyn Running>> {
        let running = adapter.start(site, stop)?;
        if let Service::Iscsi(url) = running.service() {
            let _pinned = Pinned::to_core(self.settings.client_core)?;
            let route = Route { url, congestion: None };
            initiator::prepare(&route, self.settings.disk_bytes, stop)?;
        }
        Ok(running)
    }

    /// All rounds, then the clients of others, then rest.
    ///
    /// # Errors
    /// Only a signal; what goes wrong with a target is noted in the results.
    pub(crate) fn run_all(&mut self, entries: &mut [Entry], stop: &AtomicBool) -> Result<()> {
        for round in 0..self.settings.rounds {
            for row in self.settings.rows.clone() {
                for entry in rotated(entries, round) {
                    let run = self.run_lean(&row, entry);
                    let label = Label { key: row.key, title: row.title, client: "lean" };
                    self.note(label, entry, run(stop), stop)?;
                }
            }
        }
        if !self.settings.everything {
            return Ok(());
        }
        for round in 0..self.settings.rounds {
            for foreign in Foreign::ALL {
                if let Some(reason) = foreign.missing() {
                    eprintln!("{}: {reason}", foreign.client());
                    continue;
                }
                for entry in rotated(entries, round) {
                    let Service::Iscsi(url) = entry.running.service() else { continue };
                    let seconds = self.settings.measure.as_secs_f64();
                    let core = self.settings.client_core;
                    let run = foreign.run(&url, entry.running.pid(), core, seconds, stop);
                    self.note(foreign.label(), entry, run, stop)?;
                }
            }
        }
        self.rest(entries, stop)
    }

    /// One run of the lean client, ready to go.
    fn run_lean(
        &self,
        row: &Row,
        entry: &Entry,
    ) -> impl FnOnce(&AtomicBool) -> Result<Run> + use<> {
        let settings = &self.settings;
        let plan = row.plan(settings.disk_bytes, settings.warmup, settings.measure);
        let (pid, service, core) =
            (entry.running.pid(), entry.running.service(), settings.client_core);
        move |stop| measure(&service, pid, &plan, core, stop)
    }

    /// Files a run away, or what went wrong with it.
    fn note(
        &mut self,
        label: Label,
        entry: &mut Entry,
        run: Result<Run>,
        stop: &AtomicBool,
    ) -> Result<()> {
        if stop.load(Ordering::Relaxed) {
            bail!("stopped by a signal");
        }
        let row = label.key;
        let same = |cell: &Cell| cell.row == row && cell.target == entry.name;
        let at = self.results.cells.iter().position(same).unwrap_or_else(|| {
            self.results.cells.push(Cell {
                row: row.to_owned(),
                title: label.title.to_owned(),
                target: entry.name.clone(),
                client: label.client.to_owned(),
                runs: Vec::new(),
                failures: Vec::new(),
            });
            self.results.cells.len() - 1
        });
        let cell = &mut self.results.cells[at];
        match run {
            Ok(run) => {
                eprintln!("{row:>22} {:<10} {}", entry.name, progress(&run));
                cell.runs.push(run);
            }
            Err(error) => {
                eprintln!("{row:>22} {:<10} failed: {error:#}", entry.name);
                cell.failures.push(format!("{error:#}"));
                entry.dead = sample(entry.running.pid()).is_err();
            }
        }
        Ok(())
    }

    /// Samples all targets at rest at once, then each with its idle sessions.
    fn rest(&mut self, entries: &mut [Entry], stop: &AtomicBool) -> Result<()> {
        eprintln!("at rest for {:?}", self.settings.rest);
        let before: Vec<_> = entries.iter().map(|entry| sample(entry.running.pid())).collect();
        std::thread::sleep(self.settings.rest);
        for (entry, before) in entries.iter().zip(before) {
            let after = sample(entry.running.pid());
            let core_alone = before.and_then(|from| Ok(core_between(&from, &after?))).ok();
            let Service::Iscsi(url) = entry.running.service() else { continue };
            let route = Route { url, congestion: None };
            let cost = hold(&route, IDLE_SESSIONS, self.settings.rest, entry.running.pid(), stop);
            if stop.load(Ordering::Relaxed) {
                bail!("stopped by a signal");
            }
            let idle = Idle {
                target: entry.name.clone(),
                core_alone,
                sessions: IDLE_SESSIONS,
                session_bytes: cost.as_ref().ok().map(|cost| cost.session_bytes),
                core_sessions: cost.as_ref().ok().map(|cost| cost.core),
                failure: cost.err().map(|error| format!("{error:#}")),
            };
            eprintln!("{:>22} {:<10} {idle:?}", "rest", entry.name);
            self.results.idle.push(idle);
        }
        Ok(())
    }

    /// What was found.
    pub(crate) fn into_results(self) -> Results {
        self.results
    }
}

/// The targets that are still alive, beginning with another one each round, so that none always
/// runs in the wake of the same neighbour.
fn rotated(entries: &mut [Entry], round: u32) -> impl Iterator<Item = &mut Entry> {
    let split = round as usize % entries.len().max(1);
    let (head, tail) = entries.split_at_mut(split);
    tail.iter_mut().chain(head).filter(|entry| !entry.dead)
}

fn progress(run: &Run) -> String {
    format!(
        "{:>9.0} IOPS {:>8.1} MB/s  target {:>7.2} us  client {:>6.2} us  {}{}",
        run.iops,
        run.mb_per_s,
        run.target_cpu_us_per_io,
        run.client_cpu_us_per_io,
        Limit::of(run.client_core, run.target_core).text(),
        if run.errors > 0 { "  ERRORS" } else { "" }
    )
}

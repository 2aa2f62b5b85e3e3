//! What every part needs: places, ports, servers, and turns.

use std::cell::Cell;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};

use super::member::Member;
use super::sheet::Line;
use crate::adapter::{Adapter, Running, Service, Site, serve};
use crate::cli::ArrayArgs;
use crate::initiator::{Route, Url, load, prepare};
use crate::load::{Order, Plan};
use crate::machine::{Child, Pinned, sample};
use crate::suite::{Row, Scratch, measure, row};

const IQN: &str = "iqn.2026-11.dev.drystone:bench";
/// How a disk is read once from end to end, and the time for that.
const THROUGH: Row = row("through", "read through", 100, Order::Sequential, 256 << 10, (16, 1));
const THROUGH_MAX: Duration = Duration::from_secs(120);
/// What counts of each run with `--long`.
const LONG: Duration = Duration::from_secs(600);

/// How it is done.
#[derive(Debug)]
pub(super) struct Settings {
    pub(super) program: PathBuf,
    /// An older binary, to compare with.
    pub(super) before: Option<PathBuf>,
    pub(super) rounds: u32,
    warmup: Duration,
    pub(super) measure: Duration,
    pub(super) quick: bool,
    /// Whether a part that looks for what is rare takes the time for it.
    long: bool,
    /// A tmpfs.
    disks: PathBuf,
    /// On a real disk.
    scratch: PathBuf,
    port: u16,
    server_core: usize,
    client_core: usize,
}

impl Settings {
    /// From the command line.
    ///
    /// # Errors
    /// Says which argument asks for what cannot be.
    pub(super) fn new(args: &ArrayArgs) -> Result<Self> {
        let cores = std::thread::available_parallelism()?.get();
        ensure!(
            args.server_core != args.client_core || cores == 1,
            "--server-core and --client-core must differ"
        );
        ensure!(
            args.drystone.is_file(),
            "{} is not there: cargo build --release -p drystone, or --drystone PATH",
            args.drystone.display()
        );
        if let Some(before) = &args.before {
            ensure!(before.is_file(), "--before: {} is not there", before.display());
        }
        let (rounds, seconds, warmup) = if args.quick { (1, 1.0, 0.3) } else { (3, 4.0, 1.0) };
        Ok(Self {
            program: args.drystone.clone(),
            before: args.before.clone(),
            rounds: args.rounds.unwrap_or(rounds),
            warmup: Duration::from_secs_f64(warmup),
            measure: Duration::from_secs_f64(args.seconds.unwrap_or(seconds)),
            quick: args.quick,
            long: args.long,
            disks: args.disks.clone(),
            scratch: args.scratch.clone(),
            port: args.port,
            server_core: args.server_core,
            client_core: args.client_core,
        })
    }

    /// Rounds, and what counts of each run, where what is rare is looked for.
    pub(super) fn endurance(&self) -> (u32, Duration) {
        if self.long { (1, LONG) } else { (self.rounds, self.measure) }
    }

    pub(super) fn method(&self) -> String {
        format!(
            "Servers on core {}, the lean client on core {}, loopback; volumes are filled through \
             iSCSI first; {} round(s) in which the entrants of a part take turns, {} s each after \
             {} s of warm-up; medians.",
            self.server_core,
            self.client_core,
            self.rounds,
            self.measure.as_secs_f64(),
            self.warmup.as_secs_f64()
        )
    }
}

/// The place where parts are run.
#[derive(Debug)]
pub(super) struct Bed<'a> {
    pub(super) settings: Settings,
    pub(super) stop: &'a AtomicBool,
    memory: Scratch,
    disk: Scratch,
    next_port: Cell<u16>,
}

/// A server with one disk.
pub(super) struct Export {
    child: Child,
    url: Url,
}

/// Who takes part in the turns.
#[derive(Debug, Clone)]
pub(super) struct Entrant {
    pub(super) name: String,
    pub(super) url: Url,
    pub(super) pid: u32,
    /// How much of its disk is used.
    pub(super) area_bytes: u64,
}

impl Export {
    pub(super) fn entrant(&self, name: &str, area_bytes: u64) -> Entrant {
        Entrant { name: name.to_owned(), url: self.url.clone(), pid: self.child.pid(), area_bytes }
    }
}

impl<'a> Bed<'a> {
    pub(super) fn new(settings: Settings, stop: &'a AtomicBool) -> Result<Self> {
        Ok(Self {
            memory: Scratch::new(&settings.disks)?,
            disk: Scratch::new(&settings.scratch)?,
            next_port: Cell::new(settings.port),
            settings,
            stop,
        })
    }

    /// A directory of its own in memory.
    pub(super) fn in_memory(&self, name: &str) -> Result<PathBuf> {
        self.memory.directory(name)
    }

    /// Gives the memory of all directories back; what served from them has ended.
    pub(super) fn clear_memory(&self) -> Result<()> {
        self.memory.clear()
    }

    /// A directory of its own on a real disk.
    pub(super) fn on_disk(&self, name: &str) -> Result<PathBuf> {
        self.disk.directory(name)
    }

    fn site(&self, name: &str) -> Result<Site> {
        let port = self.next_port.replace(self.next_port.get() + 1);
        Ok(Site {
            port,
            directory: self.in_memory(&format!("{name}-{port}"))?,
            disk_bytes: 0,
            core: self.settings.server_core,
        })
    }

    /// `drystone export` of one disk.
    pub(super) fn export(&self, name: &str, spec: &str) -> Result<Export> {
        let site = self.site(name)?;
        let portal = site.portal().to_string();
        let state = site.directory.join("state").display().to_string();
        let arguments = [
            "export",
            spec,
            "--portal",
            &portal,
            "--iqn",
            IQN,
            "--cores",
            "1",
            "--state-dir",
            &state,
        ];
        let child = serve(&self.settings.program, &arguments.map(str::to_owned), &site, self.stop)
            .with_context(|| format!("drystone export {spec}"))?;
        let url = Url { host: "127.0.0.1".into(), port: site.port, iqn: IQN.into(), lun: 0 };
        Ok(Export { child, url })
    }

    /// `drystone up` with these disks.
    pub(super) fn up(&self, name: &str, disks: &[String], more: &[&str]) -> Result<Member> {
        self.up_of(&self.settings.program, name, disks, more)
    }

    /// The same, of this binary.
    pub(super) fn up_of(
        &self,
        program: &Path,
        name: &str,
        disks: &[String],
        more: &[&str],
    ) -> Result<Member> {
        Member::start(program, self.site(name)?, disks, more, self.stop)
            .with_context(|| format!("{} up ({name})", program.display()))
    }

    /// A target of others, whose disk is a file of this size in `directory`.
    pub(super) fn start(
        &self,
        adapter: &dyn Adapter,
        directory: PathBuf,
        disk_bytes: u64,
    ) -> Result<Box<dyn Running>> {
        let site = Site { directory, disk_bytes, ..self.site(adapter.name())? };
        adapter.start(&site, self.stop)
    }

    /// Writes all that will be used, so that nobody reads holes.
    pub(super) fn fill(&self, entrant: &Entrant) -> Result<()> {
        let _pinned = Pinned::to_core(self.settings.client_core)?;
        let route = Route { url: entrant.url.clone(), congestion: None };
        prepare(&route, entrant.area_bytes, self.stop)
            .with_context(|| format!("filling {}", entrant.name))
    }

    /// Reads all that will be used once, from end to end.
    pub(super) fn read_through(&self, entrant: &Entrant) -> Result<()> {
        let _pinned = Pinned::to_core(self.settings.client_core)?;
        let ios = entrant.area_bytes / u64::from(THROUGH.io_bytes);
        let plan = THROUGH.plan(entrant.area_bytes, Duration::ZERO, THROUGH_MAX);
        let plan = Plan { ios_max: Some(ios), ..plan };
        let route = Route { url: entrant.url.clone(), congestion: None };
        let report = load(&route, &plan, self.stop, &mut |_| {})
            .with_context(|| format!("reading {}", entrant.name))?;
        let failure = report.first_error.as_deref().unwrap_or("no reason given");
        ensure!(report.errors == 0, "reading {} failed: {failure}", entrant.name);
        ensure!(report.ios >= ios, "reading {} took longer than {THROUGH_MAX:?}", entrant.name);
        Ok(())
    }

    /// All works by all entrants, who take turns: each round begins with another one.
    ///
    /// # Errors
    /// Only a signal; what goes wrong with an entrant is noted in its line.
    pub(super) fn turns(&self, works: &[Row], entrants: &[Entrant]) -> Result<Vec<Line>> {
        self.turns_of(works, entrants, (self.settings.rounds, self.settings.measure))
    }

    /// The same, with so many rounds, and so much of each run that counts.
    ///
    /// # Errors
    /// As [`Bed::turns`].
    pub(super) fn turns_of(
        &self,
        works: &[Row],
        entrants: &[Entrant],
        (rounds, length): (u32, Duration),
    ) -> Result<Vec<Line>> {
        let times = (self.settings.warmup, length);
        let mut lines: Vec<Line> = Vec::new();
        for work in works {
            for entrant in entrants {
                lines.push(Line::new(work.title, &entrant.name));
            }
        }
        for round in 0..rounds as usize {
            for (row, work) in works.iter().enumerate() {
                for turn in 0..entrants.len() {
                    let index = (round + turn) % entrants.len();
                    let line = &mut lines[row * entrants.len() + index];
                    self.timed(work, &entrants[index], times, line)?;
                }
            }
        }
        Ok(lines)
    }

    /// One run of this length, which begins at once.
    pub(super) fn burst(
        &self,
        work: &Row,
        entrant: &Entrant,
        length: Duration,
        line: &mut Line,
    ) -> Result<()> {
        self.timed(work, entrant, (Duration::from_millis(50), length), line)
    }

    fn timed(
        &self,
        work: &Row,
        entrant: &Entrant,
        (warmup, length): (Duration, Duration),
        line: &mut Line,
    ) -> Result<()> {
        if sample(entrant.pid).is_err() {
            return Ok(());
        }
        let plan = work.plan(entrant.area_bytes, warmup, length);
        let service = Service::Iscsi(entrant.url.clone());
        let run = measure(&service, entrant.pid, &plan, self.settings.client_core, self.stop);
        if self.stop.load(Ordering::Relaxed) {
            bail!("stopped by a signal");
        }
        match run {
            Ok(run) => {
                eprintln!(
                    "{:>34} {:<16} {:>9.0} IOPS {:>8.1} MB/s{}",
                    work.title,
                    entrant.name,
                    run.iops,
                    run.mb_per_s,
                    if run.errors > 0 { "  ERRORS" } else { "" }
                );
                line.runs.push(run);
            }
            Err(error) => {
                eprintln!("{:>34} {:<16} failed: {error:#}", work.title, entrant.name);
                line.failures.push(format!("{error:#}"));
            }
        }
        Ok(())
    }
}

/// Names of `count` files in `directory`, with a size for those that are missing.
pub(super) fn files(directory: &Path, count: usize, size_bytes: u64) -> Vec<String> {
    (0..count)
        .map(|n| format!("{}:{}M", directory.join(format!("disk-{n}")).display(), size_bytes >> 20))
        .collect()
}

//! One step: its tasks, its clock, and the figures made of what they counted.

use std::cell::{Cell, RefCell};
use std::rc::{Rc, Weak};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use ring::SpinPolicy;

use super::area::Area;
use super::bench::{Bench, BenchError, Volume};
use super::ending::{self, Pending};
use super::pace::{Pace, paces};
use super::routes::{Routes, Seen};
use super::share::Shares;
use super::worker::{self, Place};
use super::{Event, Listener};
use crate::measure::{
    Counts, Figures, Found, Freezes, IntervalFigures, IoError, Pause, ProcessCpu, Stall,
    StepFigures, Tally, Validation, VolumeFigures, own_cpu,
};
use crate::nbd::take_faults;
use crate::workload::{Flow, Step};

/// How often the clock of a step looks whether it is to stop.
const TICK: Duration = Duration::from_millis(50);

/// How often the core is looked after.
const WATCH: Duration = Duration::from_millis(20);

/// From so many threads on the core sleeps until the next answer instead of spinning. Where the device is
/// slower than the core, one that spins is always full. A wake-up takes some 10 us: with 16 under way the
/// median of reads from memory over iSCSI went from 25 to 40 us by it, with 32 it stayed.
const SLEEPS_FROM: u64 = 32;

/// A flow on one volume.
#[derive(Debug)]
pub(super) struct Lane {
    pub(super) flow: Flow,
    /// Its index in the step.
    pub(super) flow_index: usize,
    pub(super) area: Area,
    /// The next sequential byte of each stream.
    pub(super) cursors: Vec<Cell<u64>>,
    /// Its share of what the volume does.
    pub(super) weight: f64,
    pub(super) durable: bool,
}

/// One volume of a step: its lanes, and the rate they share.
#[derive(Debug)]
pub(super) struct Group {
    pub(super) volume: usize,
    pub(super) lanes: Vec<Lane>,
    pub(super) pace: Option<Pace>,
    threads: u32,
    /// What each thread has under way, those of a stream beside each other.
    pub(super) pending: Vec<Cell<Option<Pending>>>,
    /// When the first thread ended that could have done more.
    pub(super) freed: Cell<Option<Instant>>,
    /// Bytes that each stream has begun.
    pub(super) begun_bytes: Vec<Cell<u64>>,
    /// Each stream ends when it has begun so many.
    pub(super) bytes_max: Option<u64>,
}

impl Group {
    fn new(step: &Step, of: &Volume, volume: usize, lane: Lane, passes: Option<u64>) -> Self {
        let threads = step.threads.unwrap_or(of.threads);
        let streams = step.streams as usize;
        Self {
            volume,
            lanes: vec![lane],
            pace: None,
            threads,
            pending: (0..threads as usize * streams).map(|_| Cell::default()).collect(),
            freed: Cell::default(),
            begun_bytes: vec![Cell::new(0); streams],
            bytes_max: step.bytes_max.or(passes),
        }
    }

    /// Whether a stream has begun all that it is to move.
    pub(super) fn is_done(&self, stream: usize) -> bool {
        self.bytes_max.is_some_and(|max| self.begun_bytes[stream].get() >= max)
    }
}

/// What the tasks of a step share.
#[derive(Debug)]
pub(super) struct Running {
    pub(super) bench: Rc<Bench>,
    /// As they are open during the step.
    pub(super) volumes: Rc<[Volume]>,
    pub(super) groups: Vec<Group>,
    pub(super) shares: Option<Shares>,
    pub(super) tally: RefCell<Tally>,
    pub(super) started: Instant,
    /// The measured part.
    pub(super) from: Instant,
    pub(super) to: Cell<Instant>,
    /// Whether that ended before its time.
    pub(super) is_cut: Cell<bool>,
    pub(super) is_over: Cell<bool>,
    pub(super) compared_bytes: Cell<u64>,
    pub(super) unknown_bytes: Cell<u64>,
    pub(super) left: Cell<usize>,
}

impl Running {
    pub(super) fn is_over(&self) -> bool {
        self.is_over.get()
            || self.bench.options().stop.load(Ordering::Relaxed)
            || self.bench.mismatch_count() >= self.bench.options().mismatches_max
    }

    /// Whether streams end by what they have moved, and all have. With a rate all threads may also have gone
    /// before the end, when nothing more is due.
    pub(super) fn has_done_all(&self) -> bool {
        let is_limited = self.groups.iter().any(|group| group.bytes_max.is_some());
        is_limited && self.left.get() == 0
    }

    /// Times are told from the end of the warm-up, and are negative in it.
    fn warmup_s(&self) -> f64 {
        self.from.saturating_duration_since(self.started).as_secs_f64()
    }

    /// How the core waits for answers.
    fn spin(&self, streams: u32) -> SpinPolicy {
        let threads = self.groups.iter().map(|group| u64::from(group.threads)).sum::<u64>();
        match threads * u64::from(streams) {
            SLEEPS_FROM.. => SpinPolicy::Efficient,
            _ => SpinPolicy::Balanced,
        }
    }

    /// A task of a group has ended.
    pub(super) fn leave(&self, group: &Group, stream: usize) {
        // One whose stream has done its amount would have done no more.
        if !group.is_done(stream) {
            group.freed.set(group.freed.get().or_else(|| Some(Instant::now())));
        }
        self.left.set(self.left.get() - 1);
    }

    /// What an I/O counts for that is done since `since` and ends `now`.
    pub(super) fn counts(&self, since: Instant, now: Instant) -> Counts {
        match self.to.get() {
            _ if now < self.from => Counts::No,
            to if now <= to => Counts::All,
            to if since < to => Counts::Latency,
            _ => Counts::No,
        }
    }

    pub(super) fn fail(&self, volume: usize, operation: &str, place: (u64, u64), error: &str) {
        self.tally.borrow_mut().fail(IoError {
            at_s: self.started.elapsed().as_secs_f64() - self.warmup_s(),
            volume: self.volumes[volume].name.clone(),
            operation: operation.to_owned(),
            at_bytes: place.0,
            len_bytes: place.1,
            error: error.to_owned(),
        });
    }
}

/// Runs one step.
pub(super) async fn run(
    bench: &Rc<Bench>,
    step: &Step,
    rate: Option<f64>,
    listener: &Listener,
) -> Result<StepFigures, BenchError> {
    let started_unix_s = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    let running = Rc::new(begin(bench, step, rate)?);
    ring::set_spin(running.spin(step.streams));
    for (index, group) in running.groups.iter().enumerate() {
        for stream in 0..step.streams as usize {
            for thread in 0..group.threads as usize {
                let place = Place {
                    group: index,
                    stream,
                    thread: thread + stream * group.threads as usize,
                };
                let seed = (index as u64) << 40 | (stream as u64) << 20 | thread as u64;
                ring::spawn(worker::run(running.clone(), place, seed));
            }
        }
    }
    ring::spawn(watch(Rc::downgrade(&running)));
    let mut clock = Clock::new(&running, step, rate, listener).await;
    clock.run().await;
    let measured = clock.ended.saturating_duration_since(clock.began);
    let cpu = clock.cpu();
    let depth = running.tally.borrow_mut().mean_depth(measured, clock.ended);
    let name_of = |volume: usize| running.volumes[volume].name.clone();
    let paths = clock.routes.figures(measured, name_of);
    let intervals = std::mem::take(&mut clock.intervals);
    ending::drain(&running, listener).await;
    let was_stopped = bench.options().stop.load(Ordering::Relaxed);
    let volumes = running.groups.iter().map(|group| volume_figures(&running, group, measured));
    let volumes: Vec<VolumeFigures> = volumes.collect();
    let mut tally = running.tally.borrow_mut();
    let seconds = measured.as_secs_f64();
    let total = Figures::of_both(&tally.total, seconds);
    let per_io = |time: Duration| time.as_secs_f64() * 1e6 / total.ios.max(1) as f64;
    let (stalls, longest) = tally.stalls.finish(Instant::now());
    let freezes = std::mem::take(&mut tally.freezes);
    Ok(StepFigures {
        name: step.name.clone(),
        what: describe(step, rate),
        started_unix_s,
        seconds,
        asked_iops: rate,
        read: Figures::of(&tally.total.read, seconds),
        write: Figures::of(&tally.total.write, seconds),
        mean_queue_depth: depth,
        lab_cpu_us_per_io: per_io(cpu.0),
        target_cpu_us_per_io: cpu.1.map(per_io),
        total,
        volumes,
        retries: paths.iter().map(|path| path.retries).sum(),
        paths,
        intervals,
        sessions: None,
        error_count: tally.error_count,
        errors: std::mem::take(&mut tally.errors),
        stalls: stall_figures(&running, &stalls, &freezes),
        longest_pause_s: longest.length.as_secs_f64(),
        longest_pause_frozen_s: freezes.within(&longest).as_secs_f64(),
        freezes: freezes.figures(running.warmup_s()),
        target_faults: take_faults(),
        validation: validation(&running),
        was_stopped,
    })
}

fn stall_figures(running: &Running, stalls: &[Found], freezes: &Freezes) -> Vec<Stall> {
    let figure = |stall: &Found| Stall {
        at_s: stall.pause.at.as_secs_f64() - running.warmup_s(),
        volume: running.volumes[stall.volume].name.clone(),
        seconds: stall.pause.length.as_secs_f64(),
        frozen_s: freezes.within(&stall.pause).as_secs_f64(),
    };
    stalls.iter().map(figure).collect()
}

fn validation(running: &Running) -> Validation {
    let wrong = running.bench.take_wrong();
    Validation {
        is_on: running.bench.ledger().is_some(),
        compared_bytes: running.compared_bytes.get(),
        unknown_bytes: running.unknown_bytes.get(),
        mismatch_count: wrong.count,
        again_count: wrong.again_count,
        mismatches: wrong.first,
    }
}

/// Sees, as long as the step is there, whether this core comes too late to what it wanted to do by itself:
/// then it came too late to the answers of the target as well.
async fn watch(running: Weak<Running>) {
    while running.strong_count() > 0 {
        let (due, cpu) = (Instant::now() + WATCH, own_cpu());
        ring::sleep_until(due).await;
        let Some(running) = running.upgrade() else { return };
        let pause = Pause::between(running.started, due, Instant::now());
        running.tally.borrow_mut().freezes.note(pause, own_cpu().saturating_sub(cpu));
    }
}

/// Lays out lanes and rates.
fn begin(bench: &Rc<Bench>, step: &Step, rate: Option<f64>) -> Result<Running, BenchError> {
    let weights = weights(&step.flows);
    let volumes = bench.volumes();
    let started = Instant::now();
    let mut groups: Vec<Group> = Vec::new();
    for (flow_index, flow) in step.flows.iter().enumerate() {
        for &volume in &flow.storage {
            let lane = lane(&volumes[volume], step, flow_index, weights[flow_index])?;
            let passes = step.passes.map(|passes| u64::from(passes) * lane.area.len());
            match groups.iter_mut().find(|group| group.volume == volume) {
                Some(group) => group.lanes.push(lane),
                None => groups.push(Group::new(step, &volumes[volume], volume, lane, passes)),
            }
        }
    }
    if let Some(rate) = rate {
        let share = |group: &Group| group.lanes.iter().map(|lane| lane.weight).sum();
        let shares: Vec<f64> = groups.iter().map(share).collect();
        for (group, pace) in groups.iter_mut().zip(paces(started, rate, &shares)) {
            group.pace = Some(pace);
        }
    }
    let is_skewed = step.flows.iter().any(|flow| flow.skew_percent.is_some());
    let shares = (is_skewed && rate.is_none()).then(|| Shares::new(&weights));
    let left = groups.iter().map(|group| group.threads as usize * step.streams as usize).sum();
    let from = started + step.warmup;
    let tally = Tally::new(volumes.len(), bench.options().stall, started, from + step.elapsed);
    Ok(Running {
        bench: bench.clone(),
        volumes,
        groups,
        shares,
        tally: RefCell::new(tally),
        started,
        from,
        to: Cell::new(from + step.elapsed),
        is_cut: Cell::new(false),
        is_over: Cell::new(false),
        compared_bytes: Cell::new(0),
        unknown_bytes: Cell::new(0),
        left: Cell::new(left),
    })
}

/// The share of each flow: what is given, and for the others an equal part of what is left.
fn weights(flows: &[Flow]) -> Vec<f64> {
    let given: f64 = flows.iter().filter_map(|flow| flow.skew_percent).sum();
    let open = flows.iter().filter(|flow| flow.skew_percent.is_none()).count().max(1);
    let rest = (100.0 - given).max(0.0) / open as f64;
    flows.iter().map(|flow| flow.skew_percent.unwrap_or(rest)).collect()
}

fn lane(volume: &Volume, step: &Step, flow_index: usize, weight: f64) -> Result<Lane, BenchError> {
    let flow = &step.flows[flow_index];
    let area = Area::new(volume.window(), flow, volume.range, volume.hit_bytes);
    let no_room = || BenchError::NoRoom {
        volume: volume.name.clone(),
        flow: flow.name.clone(),
        bytes: flow.sizes.max(),
    };
    let area = area.ok_or_else(no_room)?;
    // Volumes that share a workload begin each at its own start; streams of a volume, likewise.
    let cursors = vec![Cell::new(0); step.streams as usize];
    let durable = flow.durable || volume.durable;
    let weight = weight / flow.storage.len() as f64;
    Ok(Lane { flow: flow.clone(), flow_index, area, cursors, weight, durable })
}

fn volume_figures(running: &Running, group: &Group, measured: Duration) -> VolumeFigures {
    let tally = running.tally.borrow();
    let (pair, seconds) = (&tally.volumes[group.volume], measured.as_secs_f64());
    VolumeFigures {
        name: running.volumes[group.volume].name.clone(),
        read: Figures::of(&pair.read, seconds),
        write: Figures::of(&pair.write, seconds),
        total: Figures::of_both(pair, seconds),
    }
}

/// Intervals, the end of the warm-up, CPU time and paths.
struct Clock<'a> {
    running: &'a Rc<Running>,
    step: &'a Step,
    /// What is asked for.
    rate: Option<f64>,
    listener: &'a Listener,
    intervals: Vec<IntervalFigures>,
    routes: Routes,
    own_before: Duration,
    target_before: Option<Duration>,
    own_after: Duration,
    target_after: Option<Duration>,
    /// What is measured: all that was asked for, or as long as there was work.
    began: Instant,
    ended: Instant,
}

impl<'a> Clock<'a> {
    async fn new(
        running: &'a Rc<Running>,
        step: &'a Step,
        rate: Option<f64>,
        listener: &'a Listener,
    ) -> Self {
        let mut clock = Self {
            running,
            step,
            rate,
            listener,
            intervals: Vec::new(),
            routes: Routes::default(),
            own_before: Duration::ZERO,
            target_before: None,
            own_after: Duration::ZERO,
            target_after: None,
            began: running.from,
            ended: running.to.get(),
        };
        clock.wait_until(running.from).await;
        running.tally.borrow_mut().reset(Instant::now());
        let reports = clock.path_reports().await;
        clock.routes.begin(&reports);
        (clock.own_before, clock.target_before) = clock.cpu_now().await;
        clock
    }

    /// CPU time so far of this process and of the target's, if that can be had.
    async fn cpu_now(&self) -> (Duration, Option<Duration>) {
        let (options, own) = (self.running.bench.options(), own_cpu());
        let Some(url) = options.target_metrics.clone() else {
            return (own, options.target_pid.and_then(|pid| ProcessCpu(pid).time()));
        };
        let asked = ring::blocking(move || url.cpu_time()).await;
        let target = asked.inspect_err(|error| tracing::warn!("CPU of the target: {error}")).ok();
        (own, target)
    }

    /// CPU time of this process and of the target's while it was measured.
    fn cpu(&self) -> (Duration, Option<Duration>) {
        let target = self.target_after.zip(self.target_before);
        let target = target.map(|(after, before)| after.saturating_sub(before));
        (self.own_after.saturating_sub(self.own_before), target)
    }

    /// `false` when the step is over before.
    async fn wait_until(&self, at: Instant) -> bool {
        loop {
            let now = Instant::now();
            if self.running.has_done_all() {
                return false;
            }
            if now >= at {
                return true;
            }
            if self.running.is_over() {
                return false;
            }
            self.running.bench.flush_journal();
            ring::sleep_until(at.min(now + TICK)).await;
        }
    }

    async fn run(&mut self) {
        let (from, to) = (self.running.from, self.running.to.get());
        let mut last = from.max(Instant::now());
        let mut next = from;
        loop {
            next = (next + self.step.interval).min(to);
            if next <= last {
                if next == to {
                    break;
                }
                continue;
            }
            let was_whole = self.wait_until(next).await;
            let now = if was_whole { next } else { self.end().min(to) };
            if !was_whole {
                self.running.to.set(now);
                self.running.is_cut.set(true);
                self.running.tally.borrow_mut().cut(now);
            }
            // Work may have run out just before the end of an interval that has been told.
            if now > last || self.intervals.is_empty() {
                self.interval(last, now).await;
            }
            last = now;
            if !was_whole || next == to {
                self.ended = now;
                break;
            }
        }
        (self.own_after, self.target_after) = self.cpu_now().await;
        self.running.is_over.set(true);
    }

    /// The end of a step that ends before its time. One whose work ran out has ended with its last I/O: that
    /// this clock looked later is no time of the target's. With a rate each I/O has its turn, the last one too.
    fn end(&mut self) -> Instant {
        let now = Instant::now();
        let tally = self.running.tally.borrow();
        let Some((first, last)) = tally.work().filter(|_| self.running.has_done_all()) else {
            return now;
        };
        self.began = first;
        let turns = self.rate.map(|rate| tally.total.ios() as f64 / rate);
        let turns = turns.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
        let turned = turns.and_then(|turns| first.checked_add(turns));
        turned.map_or(last, |turned| last.max(turned)).min(now)
    }

    async fn interval(&mut self, since: Instant, now: Instant) {
        let seconds = now.saturating_duration_since(since).as_secs_f64();
        let reports = self.path_reports().await;
        let path_iops = self.routes.look(&reports, seconds);
        let mut tally = self.running.tally.borrow_mut();
        let at = now.saturating_duration_since(self.running.from);
        let figures = IntervalFigures {
            at_s: at.as_secs_f64(),
            seconds,
            read: Figures::of(&tally.interval.read, seconds),
            write: Figures::of(&tally.interval.write, seconds),
            total: Figures::of_both(&tally.interval, seconds),
            errors: std::mem::take(&mut tally.interval_errors),
            queue_depth: tally.in_flight,
            path_iops,
        };
        tally.interval.reset();
        drop(tally);
        let share = at.as_secs_f64() / self.step.elapsed.as_secs_f64();
        (self.listener)(&Event::Interval(&figures, share.min(1.0)));
        ending::tell_waiting(self.running, self.listener);
        self.intervals.push(figures);
    }

    /// All sessions of the volumes of the step.
    async fn path_reports(&self) -> Vec<Seen> {
        /// With more, asking would be work of its own.
        const DISKS_MAX: usize = 64;
        let mut all = Vec::new();
        for group in self.running.groups.iter().take(DISKS_MAX) {
            if let Some(disk) = &self.running.volumes[group.volume].disk {
                let paths = disk.paths().await;
                all.extend(paths.iter().map(|path| Seen::of(group.volume, path)));
            }
        }
        all
    }
}

/// What a step does, for people.
fn describe(step: &Step, rate: Option<f64>) -> String {
    let flow = |flow: &Flow| {
        let kind = match (flow.read_percent, flow.seek_percent) {
            (reads, 100) => format!("{reads} % read, random"),
            (reads, 0) => format!("{reads} % read, sequential"),
            (reads, seeks) => format!("{reads} % read, {seeks} % random"),
        };
        let size = match flow.sizes.max() {
            bytes if bytes.is_multiple_of(1024) => format!("{} KiB", bytes / 1024),
            bytes => format!("{bytes} B"),
        };
        let mixed = if flow.sizes.common() == flow.sizes.max() { "" } else { "up to " };
        let volumes = match flow.storage.len() {
            1 => "one volume".to_owned(),
            count => format!("{count} volumes"),
        };
        format!("{}: {mixed}{size}, {kind}, {volumes}", flow.name)
    };
    let flows: Vec<String> = step.flows.iter().map(flow).collect();
    match rate {
        Some(rate) => format!("{}; {rate:.0} IOPS", flows.join("; ")),
        None => flows.join("; "),
    }
}

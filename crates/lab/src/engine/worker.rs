//! One thread of a volume: draw, wait until it is due, do, check, count.

use std::cell::Cell;
use std::future::poll_fn;
use std::rc::Rc;
use std::task::Poll;
use std::time::{Duration, Instant};

use block::{BlockError, WriteFlags, with_stable};
use ring::{Buf, Data};

use super::area::Io;
use super::bench::{Compared, Volume};
use super::ending::Pending;
use super::step::{Group, Lane, Running};
use crate::check::{SECTOR_BYTES, Stamp, fill, unix_ns};
use crate::measure::Done;

/// I/Os after which others have their turn, whether or not one of them has waited...
const AT_ONCE_MAX: u32 = 16;
/// ...of up to so many bytes; larger ones count as several. With 256 KiB from the page cache, 32 threads and
/// checks, 16 of each held the clock of the step up for 3 seconds on a busy machine.
const AT_ONCE_BYTES: u32 = 16 << 10;
/// How long a thread waits after an error: a disk that is away must not fill the log.
const AFTER_ERROR: Duration = Duration::from_millis(20);
/// A wait is cut into such pieces, so that it can be ended.
const LOOK: Duration = Duration::from_millis(100);
/// How often another random place is drawn when one has I/O under way.
const DRAWS: u32 = 8;

/// Which thread of a step.
#[derive(Debug, Clone, Copy)]
pub(super) struct Place {
    pub(super) group: usize,
    pub(super) stream: usize,
    /// Its number in the group.
    pub(super) thread: usize,
}

/// Works until the step is over.
pub(super) async fn run(running: Rc<Running>, place: Place, seed: u64) {
    let group = &running.groups[place.group];
    let mut worker = Worker {
        running: &running,
        group,
        stream: place.stream,
        pending: &group.pending[place.thread],
        random: fastrand::Rng::with_seed(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15)),
    };
    let mut at_once = 0;
    while !running.is_over() {
        let Some(due) = worker.due().await else { break };
        let Some((lane, io)) = worker.next(due).await else {
            worker.give_back();
            break;
        };
        let began = Instant::now();
        let is_well = worker.work(lane, io, due.unwrap_or(began), began).await;
        if !is_well {
            ring::sleep(AFTER_ERROR).await;
        }
        // A device that answers within the call never lets go of the core by itself.
        at_once += io.len.div_ceil(AT_ONCE_BYTES);
        if at_once >= AT_ONCE_MAX {
            at_once = 0;
            give_way().await;
        }
    }
    running.leave(group, place.stream);
}

struct Worker<'a> {
    running: &'a Running,
    group: &'a Group,
    stream: usize,
    pending: &'a Cell<Option<Pending>>,
    random: fastrand::Rng,
}

impl<'a> Worker<'a> {
    /// When the next I/O counts from: `Some(None)` without a rate, `None` when the step is over.
    async fn due(&self) -> Option<Option<Instant>> {
        let Some(pace) = &self.group.pace else { return Some(None) };
        let due = pace.take();
        if due >= self.running.to.get() {
            return None;
        }
        if Instant::now() >= due {
            // All threads were busy when it was due: the wait is part of its latency.
            return Some(Some(due));
        }
        while Instant::now() < due {
            if self.running.is_over() {
                return None;
            }
            ring::sleep_until(due.min(Instant::now() + LOOK)).await;
        }
        // The thread was there: what the timer was late is not the target's.
        Some(Some(Instant::now()))
    }

    /// The next I/O and whose it is; `None` when the step is over, or the stream has done its amount.
    async fn next(&mut self, due: Option<Instant>) -> Option<(&'a Lane, Io)> {
        let lane = self.lane().await?;
        let claimed = self.claim(lane, due).await;
        self.pending.set(None);
        Some((lane, claimed?))
    }

    /// The I/O that was due is not done, for the step is over.
    fn give_back(&self) {
        if let Some(pace) = self.group.pace.as_ref().filter(|_| !self.group.is_done(self.stream)) {
            pace.give_back();
        }
    }

    /// Draws a lane by its weight; `None` when the step is over. Where shares must hold, one that is
    /// ahead is not drawn: a thread that waited for it would be missing where the others need it.
    async fn lane(&mut self) -> Option<&'a Lane> {
        let lanes = &self.group.lanes;
        let shares = self.running.shares.as_ref();
        let is_free = |lane: &&Lane| !shares.is_some_and(|shares| shares.is_ahead(lane.flow_index));
        loop {
            let free = || lanes.iter().filter(is_free);
            let all: f64 = free().map(|lane| lane.weight).sum();
            let mut left = self.random.f64() * all;
            let drawn = free().find(|lane| {
                left -= lane.weight;
                left < 0.0
            });
            // Weights may miss their sum by what floating point loses.
            if let Some(lane) = drawn.or_else(|| free().next_back()) {
                shares.inspect(|shares| shares.count(lane.flow_index));
                return Some(lane);
            }
            if self.running.is_over() {
                return None;
            }
            shares?.moved().await;
        }
    }

    /// Draws an I/O and claims its blocks; `None` when the step is over.
    async fn claim(&mut self, lane: &Lane, due: Option<Instant>) -> Option<Io> {
        let is_checked = self.running.bench.ledger().is_some();
        let claims = self.running.bench.claims(self.group.volume);
        let (mut io, mut is_random) = self.draw(lane)?;
        let mut draws = 1;
        while is_checked && !claims.claim(io.at, io.len, !io.is_read) {
            if is_random && draws < DRAWS {
                draws += 1;
                (io.at, is_random) = (self.random_place(lane, &io), true);
                continue;
            }
            if self.running.is_over() {
                return None;
            }
            // It waits for its target already, behind the I/O that has its blocks.
            self.pending.set(due.map(|since| Pending { since, began: None, io }));
            claims.wait().await;
        }
        let begun = &self.group.begun_bytes[self.stream];
        begun.set(begun.get() + u64::from(io.len));
        Some(io)
    }

    /// The next I/O, and whether its place is random; `None` when the stream has done its amount.
    fn draw(&mut self, lane: &Lane) -> Option<(Io, bool)> {
        if self.group.is_done(self.stream) {
            return None;
        }
        let flow = &lane.flow;
        let percent = |random: &mut fastrand::Rng| random.u32(0..100);
        let is_read = match flow.read_percent {
            0 => false,
            100 => true,
            reads => percent(&mut self.random) < reads,
        };
        let len = flow.sizes.pick(self.random.f64());
        let mut io = Io { at: 0, len, is_read };
        let is_random = match flow.seek_percent {
            0 => false,
            100 => true,
            seeks => percent(&mut self.random) < seeks,
        };
        io.at = if is_random {
            self.random_place(lane, &io)
        } else {
            let cursor = &lane.cursors[self.stream];
            let mut next = cursor.get();
            let at = lane.area.follow(&mut next, len);
            cursor.set(next);
            at
        };
        Some((io, is_random))
    }

    /// A random place, from which sequential work goes on.
    fn random_place(&mut self, lane: &Lane, io: &Io) -> u64 {
        let at = self.random_start(lane, io);
        lane.cursors[self.stream].set(lane.area.behind(at, io.len));
        at
    }

    fn random_start(&mut self, lane: &Lane, io: &Io) -> u64 {
        let flow = &lane.flow;
        let hits = if io.is_read { flow.read_hit_percent } else { flow.write_hit_percent };
        if hits == 0 {
            return lane.area.jump(self.random.f64(), io.len, flow.is_hot_band);
        }
        let is_hit = self.random.u32(0..100) < hits;
        lane.area.hit(self.random.f64(), io.len, is_hit)
    }

    /// Does an I/O and counts it from `since`. `false` if it failed.
    async fn work(&self, lane: &Lane, io: Io, since: Instant, began: Instant) -> bool {
        let (running, volume) = (self.running, self.group.volume);
        running.tally.borrow_mut().begin(volume, began);
        self.pending.set(Some(Pending { since, began: Some(began), io }));
        let outcome = if io.is_read { self.read(io).await } else { self.write(lane, io).await };
        let now = Instant::now();
        self.pending.set(None);
        let done = Done {
            volume,
            bytes: io.len,
            is_read: io.is_read,
            latency: now.saturating_duration_since(since),
            failed: outcome.is_err(),
            counts: running.counts(since, now),
        };
        running.tally.borrow_mut().end(&done, now);
        if running.bench.ledger().is_some() {
            running.bench.claims(volume).release(io.at, io.len, !io.is_read);
        }
        if let Err(error) = outcome {
            let operation = if io.is_read { "read" } else { "write" };
            running.fail(volume, operation, (io.at, u64::from(io.len)), &error.to_string());
        }
        outcome.is_ok()
    }

    async fn read(&self, io: Io) -> Result<(), BlockError> {
        let bench = &self.running.bench;
        let device = &self.running.volumes[self.group.volume].device;
        let data = device.read(io.at, io.len as usize).await?;
        if bench.ledger().is_none() {
            return Ok(());
        }
        let compared = compare(bench, self.group.volume, io.at, &data)?;
        let (known, unknown) = (&self.running.compared_bytes, &self.running.unknown_bytes);
        known.set(known.get() + compared.bytes);
        unknown.set(unknown.get() + data.len() as u64 - compared.bytes);
        if let Some(late) = compared.late {
            let place = (io.at, u64::from(io.len));
            self.running.fail(self.group.volume, "read", place, &late.to_string());
        }
        Ok(())
    }

    async fn write(&self, lane: &Lane, io: Io) -> Result<(), BlockError> {
        let (bench, index) = (&self.running.bench, self.group.volume);
        let Volume { device, disk, .. } = &self.running.volumes[index];
        let flags = if lane.durable { WriteFlags::DURABLE } else { WriteFlags::VOLATILE };
        let Some(ledger) = bench.ledger() else {
            return device.write(io.at, bench.pattern(io.len), flags).await;
        };
        let volume = u16::try_from(index).expect("a run has fewer than 65,536 volumes");
        let mut buf = Buf::alloc(io.len as usize).ok_or(BlockError::NoMemory)?;
        let unix_ns = unix_ns();
        let (sequence, key) = {
            let mut ledger = ledger.borrow_mut();
            (ledger.begin(volume, io.at, u64::from(io.len), unix_ns), ledger.key)
        };
        let sector = io.at / SECTOR_BYTES as u64;
        fill(&mut buf, Stamp { sector, volume, sequence, key, unix_ns });
        let outcome = device.write(io.at, buf.freeze(), flags).await;
        match &outcome {
            Ok(()) => bench.done(volume, io.at, u64::from(io.len), sequence),
            // Over iSCSI a write whose path was lost is fenced before it fails.
            Err(BlockError::Unreachable) if disk.is_none() => {
                bench.given_up(volume, io.at, u64::from(io.len), sequence);
            }
            Err(_) => {
                ledger.borrow_mut().failed(volume, io.at, u64::from(io.len), sequence);
            }
        }
        outcome
    }
}

/// Compares what was read of a volume.
pub(super) fn compare(
    bench: &super::Bench,
    volume: usize,
    at: u64,
    data: &Data,
) -> Result<Compared, BlockError> {
    let volume = u16::try_from(volume).expect("a run has fewer than 65,536 volumes");
    with_stable(data, |bytes| bench.check(volume, at, bytes))
}

/// Lets all other tasks of this turn run.
async fn give_way() {
    let mut is_second = false;
    poll_fn(|cx| {
        if std::mem::replace(&mut is_second, true) {
            return Poll::Ready(());
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

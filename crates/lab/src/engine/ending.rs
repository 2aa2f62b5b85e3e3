//! The end of a step: what is under way is waited for, and what waited counts.
//!
//! A target that stands still when a step ends must not look better than one that does so in its middle.
//! So latencies are of all I/Os that were due in the measured part: those that end later, those that never
//! come back, with the time they were waited for, and those that were due by the rate and never sent, for all
//! threads were waiting.

use std::rc::Rc;
use std::time::{Duration, Instant};

use super::area::Io;
use super::step::{Group, Lane, Running};
use super::{Event, Listener};
use crate::measure::Counts;

/// An I/O that is due, or under way.
#[derive(Debug, Clone, Copy)]
pub(super) struct Pending {
    /// What its latency counts from.
    pub(super) since: Instant,
    /// When it was handed to the device, if it was: it may wait for its blocks.
    pub(super) began: Option<Instant>,
    pub(super) io: Io,
}

/// How often it is told what a step that has ended waits for.
const TOLD_EVERY: Duration = Duration::from_secs(1);

/// Tells what has been under way for longer than a stall, while it is.
pub(super) fn tell_waiting(running: &Running, listener: &Listener) {
    let (now, least) = (Instant::now(), running.bench.options().stall);
    let (mut ios, mut longest) = (0, None);
    for group in &running.groups {
        for pending in group.pending.iter().filter_map(|slot| slot.get()) {
            let Some(began) = pending.began else { continue };
            let waited = now.saturating_duration_since(began);
            if waited >= least {
                ios += 1;
                longest = longest.max(Some((waited, group.volume)));
            }
        }
    }
    if let Some((waited, volume)) = longest {
        listener(&Event::Waiting { ios, volume: &running.volumes[volume].name, longest: waited });
    }
}

/// More I/Os that were never sent are counted in so many parts, each with one latency.
const PARTS_MAX: u64 = 10_000;

/// Waits for what is under way, flushes what was written.
pub(super) async fn drain(running: &Rc<Running>, listener: &Listener) {
    running.is_over.set(true);
    if let Some(shares) = &running.shares {
        shares.end();
    }
    let mut told = Instant::now();
    let deadline = told + running.bench.options().drain_max;
    while running.left.get() > 0 && Instant::now() < deadline {
        ring::sleep(Duration::from_millis(1)).await;
        if told.elapsed() >= TOLD_EVERY {
            told = Instant::now();
            tell_waiting(running, listener);
        }
    }
    let now = Instant::now();
    for group in &running.groups {
        count_unsent(running, group, now);
        if give_up(running, group, now) {
            if let Some(ledger) = running.bench.ledger() {
                ledger.borrow_mut().give_up();
            }
            continue;
        }
        flush(running, group).await;
    }
    running.bench.flush_journal();
}

/// Counts what was due by the rate and never sent as having waited until a thread was free for it.
fn count_unsent(running: &Running, group: &Group, now: Instant) {
    let Some(pace) = &group.pace else { return };
    let end = match group.freed.get() {
        // Threads leave as soon as a run is to stop, and the clock sees it up to a tick later.
        Some(freed) if running.is_cut.get() => freed.min(running.to.get()),
        _ => running.to.get(),
    };
    let missed = pace.missed(end);
    let count = missed.count.min(ios_left(group));
    let until = group.freed.get().map_or(now, |freed| freed.max(end));
    let parts = count.min(PARTS_MAX);
    let first_of = |part: u64| (u128::from(count) * u128::from(part) / u128::from(parts)) as u64;
    let (reads_part, mut reads_owed) = (reads_part(group), 0.0);
    let mut tally = running.tally.borrow_mut();
    for part in 0..parts {
        let (from, to) = (first_of(part), first_of(part + 1));
        let waited = until.saturating_duration_since(missed.due(from.midpoint(to)));
        reads_owed += (to - from) as f64 * reads_part;
        let reads = (reads_owed as u64).min(to - from);
        reads_owed -= reads as f64;
        tally.wait(group.volume, true, waited, reads);
        tally.wait(group.volume, false, waited, to - from - reads);
    }
}

/// I/Os that streams had still to do, where they end by what they have moved.
fn ios_left(group: &Group) -> u64 {
    let Some(max) = group.bytes_max else { return u64::MAX };
    let largest = group.lanes.iter().map(|lane| lane.flow.sizes.max()).max().unwrap_or(1);
    let left = group.begun_bytes.iter().map(|begun| max.saturating_sub(begun.get()));
    left.map(|bytes| bytes.div_ceil(u64::from(largest))).sum()
}

/// How many of the I/Os of a group read, 0 to 1.
fn reads_part(group: &Group) -> f64 {
    let all: f64 = group.lanes.iter().map(|lane| lane.weight).sum();
    let reads = |lane: &Lane| lane.weight * f64::from(lane.flow.read_percent) / 100.0;
    group.lanes.iter().map(reads).sum::<f64>() / all.max(f64::MIN_POSITIVE)
}

/// Counts what has not come back, each as an error too unless it was never sent. Whether there was any.
fn give_up(running: &Running, group: &Group, now: Instant) -> bool {
    let mut is_any = false;
    for Pending { since, began, io } in group.pending.iter().filter_map(|slot| slot.get()) {
        if running.counts(since, now) != Counts::No {
            let waited = now.saturating_duration_since(since);
            running.tally.borrow_mut().wait(group.volume, io.is_read, waited, 1);
        }
        if began.is_none() {
            continue;
        }
        is_any = true;
        let operation = if io.is_read { "read" } else { "write" };
        let seconds = running.bench.options().drain_max.as_secs_f64();
        let error = format!("it did not come back within {seconds} s after the step");
        running.fail(group.volume, operation, (io.at, u64::from(io.len)), &error);
    }
    is_any
}

async fn flush(running: &Running, group: &Group) {
    if group.lanes.iter().all(|lane| lane.flow.read_percent == 100) {
        return;
    }
    let volume = &running.volumes[group.volume];
    let error = match running.bench.wait_for(volume.device.flush()).await {
        Some(Ok(())) => return,
        Some(Err(error)) => error.to_string(),
        None => "it did not come back".to_owned(),
    };
    running.fail(group.volume, "flush", (volume.at, volume.len), &error);
}

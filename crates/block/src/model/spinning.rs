//! A spinning drive as a state machine: its queue, its caches and what the heads do.
//!
//! The heads serve one command at a time, of those they know the one they reach first (less a
//! bonus for waiting, so that none starves). Durable writes end on the platters. Volatile ones end in
//! the cache, which drains when no command wants the heads, or is half full, or somebody flushes.
//! Behind a read the heads read on until something else wants them, so sequential reads find their
//! data already there.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::ops::Range;

use super::class;
use super::platter::Platter;
use super::{Command, Kind, Nanos, Ticket};

/// Of the time that a command has waited this part counts as if its place were nearer.
const AGE_SHIFT: u32 = 5;
/// Cached writes among which the next one to drain is chosen.
const DRAIN_CHOICE_MAX: usize = 64;

#[derive(Debug)]
pub(super) struct Drive {
    p: &'static class::Spinning,
    platter: Platter,
    /// Commands on their way through the electronics, until then.
    arriving: VecDeque<(Nanos, Ticket, Command)>,
    /// Commands that want the heads, oldest first.
    queue: VecDeque<Queued>,
    busy: Option<Busy>,
    /// Where the heads stand, except while they read on.
    heads: f64,
    ahead: Option<ReadAhead>,
    /// What was read earlier and is still in memory, newest last.
    segments: VecDeque<Range<u64>>,
    cache: WriteCache,
    answers: BinaryHeap<Reverse<(Nanos, Ticket)>>,
}

#[derive(Debug, Clone)]
struct Queued {
    ticket: Ticket,
    since: Nanos,
    bytes: Range<u64>,
    write: bool,
}

#[derive(Debug)]
struct Busy {
    until: Nanos,
    job: Job,
}

#[derive(Debug)]
enum Job {
    Host { command: Queued, reads_on: bool },
    Drain(Dirty),
}

/// The heads read on behind a read.
#[derive(Debug)]
struct ReadAhead {
    /// First byte that this run has read.
    start: u64,
    /// They passed `from` at `since` and stop at `limit`.
    from: f64,
    since: Nanos,
    limit: u64,
}

#[derive(Debug, Default)]
struct WriteCache {
    dirty: VecDeque<Dirty>,
    /// Bytes that are not on the platters, those that the heads write now included.
    bytes: u64,
    /// Writes that wait for room.
    blocked: VecDeque<(Ticket, Range<u64>)>,
    /// Flushes, and the last write that each waits for.
    flushes: VecDeque<(Ticket, u64)>,
    serial: u64,
}

#[derive(Debug, Clone)]
struct Dirty {
    serial: u64,
    bytes: Range<u64>,
}

impl Drive {
    pub(super) fn new(p: &'static class::Spinning, size_bytes: u64) -> Self {
        Self {
            p,
            platter: Platter::new(p, size_bytes),
            arriving: VecDeque::new(),
            queue: VecDeque::new(),
            busy: None,
            heads: 0.0,
            ahead: None,
            segments: VecDeque::new(),
            cache: WriteCache::default(),
            answers: BinaryHeap::new(),
        }
    }

    pub(super) fn submit(&mut self, now: Nanos, ticket: Ticket, command: Command) {
        let ready = now + Nanos::from(self.p.overhead_us) * 1000;
        debug_assert!(self.arriving.back().is_none_or(|last| last.0 <= ready), "time goes on");
        self.arriving.push_back((ready, ticket, command));
    }

    /// When the next thing happens that the outside may see, or that leads to one.
    pub(super) fn next(&self) -> Option<Nanos> {
        let answer = self.answers.peek().map(|Reverse((at, _))| *at);
        self.next_step().into_iter().chain(answer).min()
    }

    fn next_step(&self) -> Option<Nanos> {
        let arrival = self.arriving.front().map(|(ready, ..)| *ready);
        self.busy.as_ref().map(|busy| busy.until).into_iter().chain(arrival).min()
    }

    /// Lets time pass up to `now` and gives out what has ended.
    pub(super) fn advance(&mut self, now: Nanos, done: &mut Vec<Ticket>) {
        while let Some(at) = self.next_step().filter(|at| *at <= now) {
            self.step(at);
        }
        while let Some(Reverse((at, ticket))) = self.answers.peek().copied()
            && at <= now
        {
            self.answers.pop();
            done.push(ticket);
        }
    }

    fn step(&mut self, now: Nanos) {
        if let Some(busy) = self.busy.take_if(|busy| busy.until <= now) {
            self.finish(now, busy.job);
        }
        while let Some((ready, ticket, command)) = self.arriving.pop_front_if(|(at, ..)| *at <= now)
        {
            debug_assert!(ready <= now);
            self.accept(now, ticket, &command);
        }
        if self.busy.is_none() {
            self.dispatch(now);
        }
    }

    fn answer(&mut self, at: Nanos, ticket: Ticket) {
        self.answers.push(Reverse((at, ticket)));
    }

    fn link_ns(&self, bytes: &Range<u64>) -> Nanos {
        ((bytes.end - bytes.start) as f64 * 1e3 / self.p.link_mb_per_s) as Nanos
    }

    fn accept(&mut self, now: Nanos, ticket: Ticket, command: &Command) {
        let bytes = command.at..command.at + command.len;
        match command.kind {
            Kind::Read if self.is_cached(now, &bytes) => {
                self.read_on_behind(now, bytes.end);
                self.answer(now + self.link_ns(&bytes), ticket);
            }
            Kind::Read => self.enqueue(now, ticket, bytes, false),
            Kind::Write { durable } => {
                self.forget(now, &bytes);
                // What is larger than the cache can only go straight to the platters.
                if durable || command.len > self.p.cache_bytes {
                    self.enqueue(now, ticket, bytes, true);
                } else {
                    self.cache.blocked.push_back((ticket, bytes));
                    self.admit(now);
                }
            }
            Kind::Flush => {
                let serial = self.cache.serial;
                self.cache.flushes.push_back((ticket, serial));
                self.end_flushes(now);
            }
            Kind::Trim => self.answer(now, ticket),
        }
    }

    fn enqueue(&mut self, now: Nanos, ticket: Ticket, bytes: Range<u64>, write: bool) {
        self.queue.push_back(Queued { ticket, since: now, bytes, write });
    }

    /// Takes writes that wait for room, as far as there is some.
    fn admit(&mut self, now: Nanos) {
        while let Some((ticket, bytes)) = self.cache.blocked.front().cloned() {
            let len = bytes.end - bytes.start;
            if self.cache.bytes + len > self.p.cache_bytes {
                return;
            }
            self.cache.blocked.pop_front();
            self.cache.bytes += len;
            self.cache.serial += 1;
            self.answer(now + self.link_ns(&bytes), ticket);
            self.cache.dirty.push_back(Dirty { serial: self.cache.serial, bytes });
        }
    }

    fn end_flushes(&mut self, now: Nanos) {
        let draining = match &self.busy {
            Some(Busy { job: Job::Drain(dirty), .. }) => Some(dirty.serial),
            _ => None,
        };
        let oldest = self.cache.dirty.iter().map(|dirty| dirty.serial).chain(draining).min();
        while let Some((ticket, _)) =
            self.cache.flushes.pop_front_if(|(_, serial)| oldest.is_none_or(|old| old > *serial))
        {
            self.answer(now, ticket);
        }
    }

    /// The end of a job at `now`.
    fn finish(&mut self, now: Nanos, job: Job) {
        match job {
            Job::Host { command, reads_on } => {
                self.heads = self.platter.place(command.bytes.end);
                if !command.write && !reads_on {
                    self.ahead = Some(ReadAhead {
                        start: command.bytes.start,
                        from: self.heads,
                        since: now,
                        limit: self.ahead_limit(command.bytes.end),
                    });
                }
                self.answer(now, command.ticket);
            }
            Job::Drain(dirty) => {
                self.heads = self.platter.place(dirty.bytes.end);
                self.cache.bytes -= dirty.bytes.end - dirty.bytes.start;
                self.admit(now);
                self.end_flushes(now);
            }
        }
    }

    /// Gives the heads the next job, if there is one.
    fn dispatch(&mut self, now: Nanos) {
        debug_assert!(self.busy.is_none());
        let cost = |since: Nanos, bytes: &Range<u64>, write| {
            let reached = self.reach(now, bytes, write).0;
            (reached - now) as i64 - ((now - since) >> AGE_SHIFT) as i64
        };
        let host = self.queue.iter().take(self.p.queue_depth);
        let host = host.enumerate().map(|(n, one)| (cost(one.since, &one.bytes, one.write), n));
        let host = host.min();
        let drains = host.is_none()
            || self.cache.bytes > self.p.cache_bytes / 2
            || !(self.cache.flushes.is_empty() && self.cache.blocked.is_empty());
        let drain = self.cache.dirty.iter().take(if drains { DRAIN_CHOICE_MAX } else { 0 });
        let drain = drain.enumerate().map(|(n, one)| (cost(now, &one.bytes, true), n)).min();
        match (host, drain) {
            (Some((host, n)), drain) if drain.is_none_or(|(drain, _)| host <= drain) => {
                let command = self.queue.remove(n).expect("chosen from the queue");
                self.begin(now, command.bytes.clone(), command.write, |reads_on| Job::Host {
                    command,
                    reads_on,
                });
            }
            (_, Some((_, n))) => {
                let dirty = self.cache.dirty.remove(n).expect("chosen from the cache");
                self.begin(now, dirty.bytes.clone(), true, |_| Job::Drain(dirty));
            }
            _ => {}
        }
    }

    fn begin(&mut self, now: Nanos, bytes: Range<u64>, write: bool, job: impl FnOnce(bool) -> Job) {
        let (reached, reads_on) = self.reach(now, &bytes, write);
        let until = if reads_on {
            self.read_on_behind(now, bytes.end);
            let ahead = self.ahead.as_ref().expect("the heads read on");
            now.max(ahead.passes(&self.platter, bytes.end))
        } else {
            self.stop_reading_on(now);
            let (from, to) = (self.platter.place(bytes.start), self.platter.place(bytes.end));
            reached + self.platter.pass_ns(from, to)
        };
        assert!(reached >= now && until >= reached, "time goes on");
        self.busy = Some(Busy { until, job: job(reads_on) });
    }

    /// When the heads can be at the first of `bytes`, and whether by reading on, which is done where
    /// that is not slower than to move.
    fn reach(&self, now: Nanos, bytes: &Range<u64>, write: bool) -> (Nanos, bool) {
        let heads = self
            .ahead
            .as_ref()
            .map_or(self.heads, |ahead| self.platter.place(ahead.front(&self.platter, now)));
        let place = self.platter.place(bytes.start);
        let there = now + self.platter.seek_ns(heads, place, write);
        let there = there + self.platter.rotation_ns(place, there);
        let by_reading = self.ahead.as_ref().filter(|_| !write).filter(|ahead| {
            self.run(now).is_some_and(|run| (run.start..ahead.limit).contains(&bytes.start))
                && ahead.is_moving(&self.platter, now)
        });
        let by_reading = by_reading.map(|ahead| now.max(ahead.passes(&self.platter, bytes.start)));
        match by_reading {
            Some(passes) if passes <= there => (passes, true),
            _ => (there, false),
        }
    }

    fn ahead_limit(&self, end: u64) -> u64 {
        (end + self.p.read_ahead_bytes).min(self.platter.size_bytes())
    }

    /// A reader got to `end`: the heads read on from there if they have not stopped.
    fn read_on_behind(&mut self, now: Nanos, end: u64) {
        let limit = self.ahead_limit(end);
        if let Some(ahead) = &mut self.ahead
            && ahead.is_moving(&self.platter, now)
            && (ahead.start..=ahead.limit.max(end)).contains(&end)
        {
            ahead.limit = ahead.limit.max(limit);
        }
    }

    /// What was read so far in this run, as far as it fits into memory.
    fn run(&self, now: Nanos) -> Option<Range<u64>> {
        let ahead = self.ahead.as_ref()?;
        let front = ahead.front(&self.platter, now);
        Some(ahead.start.max(front.saturating_sub(self.p.read_ahead_bytes))..front)
    }

    fn stop_reading_on(&mut self, now: Nanos) {
        let Some(run) = self.run(now) else { return };
        self.heads = self.platter.place(run.end);
        self.ahead = None;
        self.segments.push_back(run);
        if self.segments.len() > self.p.segments {
            self.segments.pop_front();
        }
    }

    fn is_cached(&self, now: Nanos, bytes: &Range<u64>) -> bool {
        let holds = |run: &Range<u64>| run.start <= bytes.start && bytes.end <= run.end;
        self.run(now).is_some_and(|run| holds(&run)) || self.segments.iter().any(holds)
    }

    /// Drops what was read of bytes that change.
    fn forget(&mut self, now: Nanos, bytes: &Range<u64>) {
        let meets = |run: &Range<u64>| run.start < bytes.end && bytes.start < run.end;
        self.segments.retain(|run| !meets(run));
        if self.ahead.as_ref().is_some_and(|ahead| meets(&(ahead.start..ahead.limit))) {
            let reading = matches!(&self.busy, Some(Busy { job: Job::Host { reads_on, .. }, .. })
                if *reads_on);
            // A read that is served by this run ends as it began; the next one starts anew.
            if !reading {
                self.heads = self.run(now).map_or(self.heads, |run| self.platter.place(run.end));
                self.ahead = None;
            }
        }
    }
}

impl ReadAhead {
    /// When the heads pass `byte`, at or before the limit or behind it.
    fn passes(&self, platter: &Platter, byte: u64) -> Nanos {
        let place = platter.place(byte);
        if place <= self.from { self.since } else { self.since + platter.pass_ns(self.from, place) }
    }

    fn is_moving(&self, platter: &Platter, now: Nanos) -> bool {
        now <= self.passes(platter, self.limit)
    }

    /// The byte that the heads have reached.
    fn front(&self, platter: &Platter, now: Nanos) -> u64 {
        platter.byte(platter.after(self.from, now.saturating_sub(self.since))).min(self.limit)
    }
}

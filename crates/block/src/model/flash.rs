//! A drive of flash chips as a state machine: a controller that takes one command after the
//! other, chips that work beside each other, a link, and a write buffer that outlives a loss of power.
//!
//! A read ends when its pages have come from their chips and over the link. A write ends in the buffer;
//! the chips take it from there in what time reads leave them, a page of a short write costing
//! more than one of a long run (the drive has to move what lies around it). When the buffer
//! holds more work than it may, writers wait.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use super::class;
use super::{Command, Kind, Nanos, Ticket};

const PAGE_BYTES: u64 = 4096;
/// Writes of at least so many bytes are laid out as a run, wherever they are.
const RUN_BYTES: u64 = 64 << 10;

#[derive(Debug)]
pub(super) struct Drive {
    p: &'static class::Flash,
    in_flight: usize,
    /// Commands beyond the depth of the queue.
    waiting: VecDeque<(Ticket, Command)>,
    answers: BinaryHeap<Reverse<(Nanos, Ticket)>>,
    controller_free: Nanos,
    link_free: Nanos,
    chips: Vec<Chip>,
    /// The chip that takes the next page.
    next_chip: usize,
    /// Where the last write ended: one that begins there goes on with its run.
    write_end: u64,
}

#[derive(Debug, Clone, Default)]
struct Chip {
    free: Nanos,
    /// Writes that wait for the chip, as time.
    backlog: Nanos,
}

impl Chip {
    /// Writes as long as nobody reads, up to `now`, in steps that cannot be interrupted.
    fn catch_up(&mut self, now: Nanos, step: Nanos) {
        if self.free < now {
            let spent = (now - self.free).next_multiple_of(step).min(self.backlog);
            self.backlog -= spent;
            self.free += spent;
        }
    }

    fn read(&mut self, now: Nanos, step: Nanos, read: Nanos) -> Nanos {
        self.catch_up(now, step);
        self.free = self.free.max(now) + read;
        self.free
    }

    fn program(&mut self, now: Nanos, work: Nanos) {
        if self.backlog == 0 {
            self.free = self.free.max(now);
        }
        self.backlog += work;
    }
}

fn ns(us: f64) -> Nanos {
    (us * 1e3) as Nanos
}

impl Drive {
    pub(super) fn new(p: &'static class::Flash) -> Self {
        Self {
            p,
            in_flight: 0,
            waiting: VecDeque::new(),
            answers: BinaryHeap::new(),
            controller_free: 0,
            link_free: 0,
            chips: vec![Chip::default(); p.units],
            next_chip: 0,
            write_end: 0,
        }
    }

    pub(super) fn submit(&mut self, now: Nanos, ticket: Ticket, command: Command) {
        if self.in_flight < self.p.queue_depth {
            self.start(now, ticket, &command);
        } else {
            self.waiting.push_back((ticket, command));
        }
    }

    pub(super) fn next(&self) -> Option<Nanos> {
        self.answers.peek().map(|Reverse((at, _))| *at)
    }

    pub(super) fn advance(&mut self, now: Nanos, done: &mut Vec<Ticket>) {
        while let Some(Reverse((at, ticket))) = self.answers.peek().copied()
            && at <= now
        {
            self.answers.pop();
            self.in_flight -= 1;
            done.push(ticket);
            if let Some((ticket, command)) = self.waiting.pop_front() {
                self.start(at, ticket, &command);
            }
        }
    }

    fn start(&mut self, now: Nanos, ticket: Ticket, command: &Command) {
        assert!(self.in_flight < self.p.queue_depth);
        self.in_flight += 1;
        let issued = now.max(self.controller_free);
        self.controller_free = issued + ns(self.p.command_us);
        let answer = match command.kind {
            Kind::Read => self.read(issued, command),
            Kind::Write { .. } => self.write(issued, command),
            Kind::Flush => issued + ns(self.p.flush_us),
            Kind::Trim => issued,
        };
        self.answers.push(Reverse((answer + ns(self.p.overhead_us), ticket)));
    }

    fn link_ns(&self, bytes: u64) -> Nanos {
        ns(bytes as f64 / self.p.link_mb_per_s)
    }

    fn read(&mut self, now: Nanos, command: &Command) -> Nanos {
        let (step, read) = (Nanos::from(self.p.suspend_us) * 1000, ns(self.p.read_us));
        let (mut first, mut last) = (Nanos::MAX, now);
        for page in command.at / PAGE_BYTES..(command.at + command.len).div_ceil(PAGE_BYTES) {
            let chip = self.chip_of(page);
            let ready = self.chips[chip].read(now, step, read);
            (first, last) = (first.min(ready), last.max(ready));
        }
        let begun = self.link_free.max(first.min(last));
        self.link_free = begun + self.link_ns(command.len);
        self.link_free.max(last + self.link_ns(PAGE_BYTES.min(command.len)))
    }

    /// Neighbours lie on different chips; which ones changes from run to run.
    fn chip_of(&self, page: u64) -> usize {
        let chips = self.chips.len() as u64;
        let mixed = (page / chips).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
        ((page + mixed) % chips) as usize
    }

    fn write(&mut self, now: Nanos, command: &Command) -> Nanos {
        let run = command.len >= RUN_BYTES || command.at == self.write_end;
        self.write_end = command.at + command.len;
        let cost = self.p.program_us * if run { 1.0 } else { self.p.scattered_writes };
        let step = Nanos::from(self.p.suspend_us) * 1000;
        for chip in &mut self.chips {
            chip.catch_up(now, step);
        }
        for _ in 0..command.len.div_ceil(PAGE_BYTES) {
            self.chips[self.next_chip].program(now, ns(cost));
            self.next_chip = (self.next_chip + 1) % self.chips.len();
        }
        let backlog = self.chips.iter().map(|chip| chip.backlog).sum::<Nanos>();
        let backlog = backlog / self.chips.len() as Nanos;
        let room = now + backlog.saturating_sub(Nanos::from(self.p.buffer_us) * 1000);
        let begun = self.link_free.max(now);
        self.link_free = begun + self.link_ns(command.len);
        room.max(self.link_free) + ns(self.p.write_us)
    }
}

//! What a modelled drive does under a load, in the time of the model.

use std::collections::VecDeque;

use super::check::Random;
use crate::DriveClass;
use crate::model::{Command, Drive, Kind, Nanos};

/// A load with always the same number of commands under way.
#[derive(Debug, Clone, Copy)]
pub struct Load {
    /// Writes instead of reads.
    pub write: bool,
    /// Writes that survive a loss of power when they end.
    pub durable: bool,
    /// Where the commands go.
    pub pattern: Pattern,
    /// Bytes of one command.
    pub block_bytes: u64,
    /// Commands under way.
    pub depth: usize,
}

/// Where commands go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pattern {
    /// Anywhere.
    Random,
    /// One behind the other, from the first byte.
    FromStart,
    /// The same, over the last bytes of the disk.
    AtEnd,
}

/// What came out.
#[derive(Debug, Clone, Copy)]
pub struct Figures {
    /// Commands per second.
    pub iops: f64,
    /// 10^6 bytes per second.
    pub mb_per_s: f64,
    /// Mean time from command to answer.
    pub latency_us: f64,
}

/// Commands before those that count: the write caches are full by then.
const WARM_UP_BYTES: u64 = 512 << 20;
/// Commands that count, at least.
const COUNTED: u64 = 4000;

/// Runs a drive of `class`, with its usual capacity, under `load`.
///
/// # Panics
/// When the load is no whole blocks of 4 KiB or has no depth.
pub fn modelled(class: DriveClass, load: &Load) -> Figures {
    assert!(load.depth > 0 && load.block_bytes > 0 && load.block_bytes.is_multiple_of(4096));
    let mut run = Run::new(class, load);
    let warm_up = (WARM_UP_BYTES / load.block_bytes).min(COUNTED * 4);
    run.until(warm_up);
    let (begun, waited) = (run.now, run.waited);
    run.until(warm_up + COUNTED);
    let seconds = (run.now - begun) as f64 / 1e9;
    let iops = COUNTED as f64 / seconds;
    Figures {
        iops,
        mb_per_s: iops * load.block_bytes as f64 / 1e6,
        latency_us: (run.waited - waited) as f64 / 1e3 / COUNTED as f64,
    }
}

struct Run<'a> {
    load: &'a Load,
    drive: Drive,
    blocks: u64,
    next_block: u64,
    random: Random,
    now: Nanos,
    submitted: u64,
    ended: u64,
    /// When each command that is under way was given, from the ticket `ended_before` on.
    given: VecDeque<Option<Nanos>>,
    ended_before: u64,
    waited: Nanos,
}

impl<'a> Run<'a> {
    fn new(class: DriveClass, load: &'a Load) -> Self {
        let size_bytes = class.usual_bytes() / load.block_bytes * load.block_bytes;
        let blocks = size_bytes / load.block_bytes;
        Self {
            load,
            drive: Drive::new(class, size_bytes),
            blocks,
            next_block: match load.pattern {
                Pattern::AtEnd => blocks - 5 * COUNTED - load.depth as u64,
                Pattern::Random | Pattern::FromStart => 0,
            },
            random: Random::new(7),
            now: 0,
            submitted: 0,
            ended: 0,
            given: VecDeque::new(),
            ended_before: 0,
            waited: 0,
        }
    }

    fn submit(&mut self) {
        let block = match self.load.pattern {
            Pattern::Random => self.random.below(self.blocks),
            Pattern::FromStart | Pattern::AtEnd => {
                self.next_block += 1;
                self.next_block - 1
            }
        };
        let kind = match self.load.write {
            true => Kind::Write { durable: self.load.durable },
            false => Kind::Read,
        };
        let (at, len) = (block * self.load.block_bytes, self.load.block_bytes);
        self.drive.submit(self.now, self.submitted, Command { kind, at, len });
        self.given.push_back(Some(self.now));
        self.submitted += 1;
    }

    /// Runs until so many commands have ended.
    fn until(&mut self, commands: u64) {
        let mut done = Vec::new();
        while self.ended < commands {
            while self.submitted < self.ended + self.load.depth as u64 {
                self.submit();
            }
            self.now = self.drive.next().expect("commands are under way");
            self.drive.advance(self.now, &mut done);
            for ticket in done.drain(..) {
                let given = &mut self.given[(ticket - self.ended_before) as usize];
                self.waited += self.now - given.take().expect("answered once");
                self.ended += 1;
            }
            while self.given.pop_front_if(|given| given.is_none()).is_some() {
                self.ended_before += 1;
            }
        }
    }
}

//! Devices that sit on another one: what that one's faults become.

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use super::work::{OLD, Work};
use super::{Keeps, Suite, blocks_are_of, data, stage};
use crate::testing::{Fault, FaultyDisk, Operation, Rule};
use crate::{BlockDevice, BlockError, WriteFlags};

/// Longer than a healthy device takes; an answer that comes within it came too early.
const HELD: Duration = Duration::from_millis(5);
const BLOCKS: usize = 16;

/// Checks what `device` makes of the faults of `below`, on which it sits, address for address.
///
/// An operation whose part below fails ends with the documented error and never with success; none is
/// answered before its part below has ended; what is durable is durable below. Whatever failed or
/// was dropped meanwhile, a block holds what it held before or what was written, and the device works
/// again once the one below does.
///
/// The sizes are those of [`check_device`](super::check_device), and nobody else uses either of them.
///
/// # Panics
/// Whenever the device does not conform.
pub async fn check_faults(below: Arc<FaultyDisk>, device: Arc<dyn BlockDevice>, seed: u64) {
    let suite = Suite::new(device, seed, Keeps::Everything).await;
    check(Faults { below, suite, answers: Answers::Volatile }).await;
}

/// As [`check_faults`], for a device whose every answer is durable below, whatever was asked for: its flushes have
/// nothing to do, and need not go there.
///
/// # Panics
/// Whenever the device does not conform.
pub async fn check_durable_faults(below: Arc<FaultyDisk>, device: Arc<dyn BlockDevice>, seed: u64) {
    let suite = Suite::new(device, seed, Keeps::Everything).await;
    check(Faults { below, suite, answers: Answers::Durable }).await;
}

/// What is below when a change is answered that was not asked to be durable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Answers {
    /// Perhaps only what a flush makes durable.
    Volatile,
    /// All of it, durably.
    Durable,
}

async fn check(mut faults: Faults) {
    stage("durability", faults.durability()).await;
    for work in faults.work() {
        stage(&format!("faults under {work:?}"), faults.errors(work)).await;
        stage(&format!("a hang under {work:?}"), faults.held(work)).await;
    }
    if faults.answers == Answers::Volatile {
        stage("failing flushes", faults.flushes()).await;
    }
    for (number, work) in faults.work().into_iter().enumerate() {
        stage(&format!("{work:?} dropped in a hang"), faults.dropped(work, number)).await;
    }
}

struct Faults {
    below: Arc<FaultyDisk>,
    suite: Suite,
    answers: Answers,
}

impl Faults {
    fn device(&self) -> &dyn BlockDevice {
        &*self.suite.device
    }

    /// What asks the device below. One that is not thin knows its extents without asking.
    fn work(&self) -> Vec<Work> {
        let geometry = &self.suite.geometry;
        let asks = |work: &Work| match work {
            Work::Extent => geometry.thin,
            Work::Flush => self.answers == Answers::Volatile,
            _ => true,
        };
        Work::of(geometry).into_iter().filter(asks).collect()
    }

    /// The place of all this: one write has been there, and has been flushed.
    async fn prepare(&mut self) -> Range<usize> {
        let block = self.suite.block();
        let first = 5 + self.suite.random.below(32) as usize;
        let range = first * block..(first + BLOCKS) * block;
        let old = vec![OLD; range.len()];
        let written = self.device().write(range.start as u64, data(&old), WriteFlags::VOLATILE);
        assert_eq!(written.await, Ok(()), "a write to a device that is well");
        assert_eq!(self.device().flush().await, Ok(()), "a flush of a device that is well");
        self.suite.keep(&range, &old);
        range
    }

    /// What was answered as durable is durable below.
    async fn durability(&mut self) {
        self.below.watch_durability();
        for work in Work::of(&self.suite.geometry).into_iter().filter(|work| work.is_change()) {
            let range = self.prepare().await;
            let bytes = range.start as u64..range.end as u64;
            if work.has_flags() {
                let done = work.begin(self.device(), bytes.start, range.len(), true).await;
                assert_eq!(done, Ok(()), "{work:?}, durable");
                assert!(self.below.is_durable(&bytes), "{work:?} is not durable, as was asked for");
                self.restore(&range).await;
            }
            let done = work.begin(self.device(), bytes.start, range.len(), false).await;
            assert_eq!(done, Ok(()), "{work:?}");
            let is_due = self.answers == Answers::Volatile;
            assert!(
                is_due || self.below.is_durable(&bytes),
                "{work:?} is not durable when it is over"
            );
            assert_eq!(self.device().flush().await, Ok(()), "a flush after {work:?}");
            assert!(self.below.is_durable(&bytes), "{work:?} is not durable after a flush");
            self.suite.keep(&range, &vec![work.new_byte(); range.len()]);
        }
        self.suite.whole_device("after durable operations").await;
    }

    async fn restore(&mut self, range: &Range<usize>) {
        let written = self.device().write(
            range.start as u64,
            data(&vec![OLD; range.len()]),
            WriteFlags::VOLATILE,
        );
        assert_eq!(written.await, Ok(()), "a write to a device that is well");
    }

    async fn errors(&mut self, work: Work) {
        let range = self.prepare().await;
        let (at, len) = (range.start as u64, range.len());
        let place = at + self.suite.block() as u64;
        let mut errors = vec![BlockError::Medium { at: place }];
        // There is room for what is there already.
        if work.is_change() {
            errors.push(BlockError::NoSpace);
        }
        for error in errors {
            for durable in [false, true] {
                self.below.inject(always(Fault::Fail(error)));
                let answer = work.begin(self.device(), at, len, durable && work.has_flags()).await;
                self.below.heal();
                let what = format!("{work:?} over a device that fails with '{error}'");
                let Err(found) = answer else { panic!("success of {what}") };
                let is_right = match found {
                    BlockError::Medium { at: found } => {
                        let lies_in = work == Work::Flush || (at..at + len as u64).contains(&found);
                        error != BlockError::NoSpace
                            && lies_in
                            && found.is_multiple_of(self.suite.block() as u64)
                    }
                    found => found == error,
                };
                assert!(is_right, "'{found}' of {what}");
                self.well_again(&range, work, &what).await;
            }
        }
    }

    /// Nothing is answered before its part below has ended.
    async fn held(&mut self, work: Work) {
        let range = self.prepare().await;
        let (at, len) = (range.start as u64, range.len());
        let what = format!("{work:?} over a device that hangs, and goes on");
        self.below.inject(always(Fault::Hang));
        let mut future = work.begin(self.device(), at, len, work.has_flags());
        let early = ring::timeout(HELD, &mut future).await;
        assert_eq!(early, None, "an answer to {what}");
        self.below.heal();
        self.below.release();
        assert_eq!(future.await, Ok(()), "{what}");
        self.suite.keep(&range, &vec![work.new_byte(); len]);
        self.suite.same(range.clone(), &format!("after {what}")).await;
        self.well_again(&range, work, &what).await;
    }

    /// Who drops an operation while it hangs below does no harm. It may still be done, at any time:
    /// so each has a place of its own, behind all others, that nobody asks about again.
    async fn dropped(&mut self, work: Work, number: usize) {
        let (block, half) = (self.suite.block(), self.suite.model.len() / 2);
        let first = half / block + number * BLOCKS;
        let range = first * block..(first + BLOCKS) * block;
        let (at, len) = (range.start as u64, range.len());
        let what = format!("{work:?} was dropped while the device below hung");
        self.restore(&range).await;
        self.below.inject(always(Fault::Hang));
        let mut future = work.begin(self.device(), at, len, work.has_flags());
        let early = ring::timeout(HELD, &mut future).await;
        assert_eq!(early, None, "an answer before {what}");
        drop(future);
        self.below.heal();
        self.below.release();
        let found = self.suite.read_range(&range).await;
        let (old, new) = (vec![OLD; len], vec![work.new_byte(); len]);
        blocks_are_of(&found, &[&old, &new], block, &what);
        assert!(!work.is_atomic() || found == old || found == new, "half done: {what}");
        self.flush_until_well(&what).await;
        let place = self.prepare().await;
        self.well_again(&place, work, &what).await;
    }

    /// A flush that failed is told, and then to everybody who asks until it is opened anew, or once.
    async fn flushes(&mut self) {
        let range = self.prepare().await;
        let (at, len) = (range.start as u64, range.len());
        let fault = Fault::Fail(BlockError::Medium { at: 0 });
        self.below.inject(Rule::always(Operation::Flush, fault));
        let written = Work::Write.begin(self.device(), at, len, false).await;
        assert_eq!(written, Ok(()), "a volatile write needs no flush");
        let flushed = self.device().flush().await;
        let told = [Err(BlockError::Medium { at: 0 }), Err(BlockError::LostWrites)];
        assert!(told.contains(&flushed), "{flushed:?} of a flush that failed below");
        self.below.heal();
        self.well_again(&range, Work::Write, "a flush that failed").await;
    }

    /// The device below works again: so does this one, and what it holds is old or new.
    async fn well_again(&mut self, range: &Range<usize>, work: Work, what: &str) {
        let found = self.suite.read_range(range).await;
        let (old, new) = (vec![OLD; range.len()], vec![work.new_byte(); range.len()]);
        blocks_are_of(&found, &[&old, &new], self.suite.block(), what);
        let is_whole = found == old || found == new;
        assert!(!work.is_atomic() || is_whole, "half done: {what}");
        self.flush_until_well(what).await;
        self.restore(range).await;
        let done = work.begin(self.device(), range.start as u64, range.len(), false).await;
        assert_eq!(done, Ok(()), "{work:?} after {what}");
        self.suite.keep(range, &new);
        self.suite.same(range.clone(), &format!("when it was well again after {what}")).await;
        self.restore(range).await;
        assert_eq!(self.device().flush().await, Ok(()), "a flush after {what}");
        self.suite.keep(range, &old);
        let half = self.suite.model.len() / 2;
        self.suite.same(0..half, &format!("after {what}")).await;
        let shape = self.device().geometry();
        assert_eq!(shape, self.suite.geometry, "another geometry after {what}");
    }

    /// A loss may be told once, or for ever by a device that can be opened anew.
    async fn flush_until_well(&mut self, what: &str) {
        match self.device().flush().await {
            Ok(()) => return,
            told => assert_eq!(told, Err(BlockError::LostWrites), "a flush after {what}"),
        }
        if let Some(reopened) = self.device().reopened() {
            self.suite.device = reopened;
        }
        assert_eq!(self.device().flush().await, Ok(()), "a second flush after {what}");
    }
}

/// Everything, always.
fn always(fault: Fault) -> Rule {
    Rule { operations: Vec::new(), bytes: 0..u64::MAX, times: u32::MAX, fault }
}

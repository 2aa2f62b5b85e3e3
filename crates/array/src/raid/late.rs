//! Disks that keep a reader waiting: others are asked then.
//!
//! A disk that hangs answers a request with an error after half a minute or some minutes, and until then nobody
//! knows that it does not answer. Hosts do not wait for that where others give the same: a read that takes much
//! longer than this disk takes is given by the other copies, or computed, and proved by its checksums as ever. Its
//! own answer is waited for all the same, so that the disk is found out; until it comes the disk counts as late, and
//! reads that others can give are not begun there.
//!
//! ```text
//!   asked ----- patience -----> late ----- answers -----> asked as before
//!                                 |
//!                                 `-- fails after SILENCE --> silent, put out
//! ```
//!
//! A disk that is slow is not late: the patience follows what it took of late. Nor do many late ones double what all
//! have to do: who is late is asked again where the others cannot do without it.
//!
//! Only reads of hosts and of maps ask who is late. Whoever changes a stripe, or restores it, waits as long as it takes.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use block::{BlockError, IoFuture};
use futures_util::future::{Either, select};
use ring::Data;

use super::disks::{Disk, InFlight};
use super::heal::Heal;
use super::io::{Copy, WaitFor, is_passing, look_at_silence};
use super::read::{Expected, Good, Wanted, judge};
use super::record::Seat;
use super::set::Set;
use super::{DiskFailed, Raid, ReadError};
use crate::mutants::{Mutant, is};
use crate::sync::Reply;
use crate::{BLOCK_BYTES, DiskId};

/// How long a read waits for one disk: hosts notice more than a few seconds, and other disks are not asked for what a
/// disk under load is about to give.
const PATIENCE_MIN: Duration = Duration::from_secs(1);
const PATIENCE_MAX: Duration = Duration::from_secs(3);
/// So many times what the slowest read took of late.
const PATIENCE_FACTOR: u32 = 8;
/// A slow read counts less with each that follows, by one part of this.
const FADING: u64 = 64;

/// What reads of a disk take, and how many are overdue.
#[derive(Debug, Default)]
pub(super) struct Lateness {
    /// The slowest read of late; zero as long as there was none.
    slowest_us: AtomicU64,
    overdue: AtomicU32,
    /// How many have been.
    times: AtomicU64,
}

impl Lateness {
    /// A read has ended after so long.
    fn took(&self, time: Duration) {
        let us = time.min(PATIENCE_MAX).as_micros() as u64;
        // Others may count at the same time: one of them is lost then.
        let before = self.slowest_us.load(Ordering::Relaxed);
        let faded = before - before.div_ceil(FADING).min(before);
        self.slowest_us.store(us.max(faded).max(1), Ordering::Relaxed);
    }

    /// How long a read waits.
    fn patience(&self) -> Duration {
        match self.slowest_us.load(Ordering::Relaxed) {
            0 => PATIENCE_MAX,
            us => (Duration::from_micros(us) * PATIENCE_FACTOR).clamp(PATIENCE_MIN, PATIENCE_MAX),
        }
    }
}

impl Disk {
    /// Whether it keeps somebody waiting for longer than it used to.
    pub(super) fn is_late(&self) -> bool {
        self.lateness.overdue.load(Ordering::Relaxed) > 0
    }
}

/// A disk is late as long as one of these is there.
struct Overdue(Arc<Disk>);

impl Overdue {
    fn begins(disk: &Arc<Disk>) -> Self {
        disk.lateness.overdue.fetch_add(1, Ordering::Relaxed);
        disk.count(
            &disk.lateness.times,
            "reads took long, and others were asked if they could give it",
        );
        Self(Arc::clone(disk))
    }
}

impl Drop for Overdue {
    fn drop(&mut self) {
        let before = self.0.lateness.overdue.fetch_sub(1, Ordering::Relaxed);
        debug_assert!(before > 0, "each counts once");
    }
}

/// A read of one disk under way.
pub(super) struct Asked {
    copy: Copy,
    began: Duration,
    _in_flight: InFlight,
    future: IoFuture<Data>,
}

/// What a disk gave, or its answer that is still to come.
type Answer = Result<Result<Data, BlockError>, LateAnswer>;
type LateAnswer = Reply<Result<Data, BlockError>>;

impl Asked {
    pub(super) fn new(
        copy: Copy,
        began: Duration,
        in_flight: InFlight,
        future: IoFuture<Data>,
    ) -> Self {
        Self { copy, began, _in_flight: in_flight, future }
    }

    /// The answer, if it comes in time; else what will be told when it comes, however late.
    async fn in_time(mut self, raid: &Raid) -> Answer {
        let failed = &raid.failed;
        if is(Mutant::WaitForLate) {
            return Ok((&mut self.future).await);
        }
        let patience = pin!(failed.sleep(self.copy.disk.lateness.patience()));
        if let Either::Left((result, _)) = select(&mut self.future, patience).await {
            self.settle(&**failed, &result);
            return Ok(result);
        }
        let overdue = Overdue::begins(&self.copy.disk);
        let (answer, told) = (Reply::new(), Arc::clone(failed));
        let reply = answer.clone();
        failed.spawn(Box::pin(async move {
            let result = (&mut self.future).await;
            self.settle(&*told, &result);
            drop(overdue);
            reply.give(result);
        }));
        Err(answer)
    }

    fn settle(&self, failed: &dyn DiskFailed, result: &Result<Data, BlockError>) {
        if result.is_ok() {
            self.copy.disk.lateness.took(failed.now().saturating_sub(self.began));
        }
        look_at_silence(failed, &self.copy.disk, self.began, result.as_ref().err());
    }
}

impl Raid {
    /// Asks one disk.
    fn ask(&self, copy: Copy, at: u64, len: usize) -> Asked {
        let (began, in_flight) = (self.failed.now(), copy.disk.start());
        let future = copy.disk.device().read(at, len);
        Asked::new(copy, began, in_flight, future)
    }

    /// Who is to be asked for a strip first, and, if nobody is, who would be if it were not late.
    pub(super) fn whom_to_ask(
        &self,
        set: &Set,
        stripe: u32,
        strip: usize,
    ) -> (Option<Copy>, Option<Copy>) {
        let first = |waits| self.copies_soon(set, stripe, strip, waits).into_iter().next();
        match first(WaitFor::Prompt) {
            Some(prompt) => (Some(prompt), None),
            None => (None, first(WaitFor::Answering)),
        }
    }

    /// Reads blocks of a slot of which one disk was `asked`, or that a `late` one has; `first` was tried in any case.
    pub(super) async fn read_on(
        &self,
        set: &Set,
        slot: u32,
        (first_block, crcs): (usize, &[u32]),
        (asked, late, first): (Option<Asked>, Option<Copy>, Option<DiskId>),
    ) -> Result<Good, ReadError> {
        let (stripe, column) = set.shape().locate(slot);
        let crc_of = |of: usize, block: usize| {
            let own = block.checked_sub(first_block).filter(|_| of == column)?;
            crcs.get(own).copied()
        };
        let rows = first_block..first_block + crcs.len();
        let wanted = Wanted::any(set, (stripe, column), rows, &crc_of);
        let asked = match (asked, late) {
            (None, Some(late)) => {
                if let Some(good) = self.read_beside(&wanted).await {
                    return Ok(good);
                }
                let at = set.byte_at(late.seat, stripe, first_block);
                Some(self.ask(late, at, crcs.len() * BLOCK_BYTES))
            }
            (asked, _) => asked,
        };
        if let Some(asked) = asked {
            let expected = Expected { set: set.id(), slot, first: first_block, crcs };
            if let Some(done) = self.first_good(asked, &wanted, expected).await {
                return done;
            }
        }
        self.read_hard(set, slot, (first_block, crcs), first).await
    }

    /// Reads one copy, unchecked; [`BlockError::Busy`] if it is late and others are not.
    pub(super) async fn read_copy_in_time(
        &self,
        copy: &Copy,
        at: u64,
        len: usize,
        copies: &[Copy],
    ) -> Result<Data, BlockError> {
        match self.ask(copy.clone(), at, len).in_time(self).await {
            Ok(result) => result,
            Err(_) if copies.iter().any(|other| WaitFor::Prompt.is_for(&other.disk)) => {
                Err(BlockError::Busy)
            }
            Err(answer) => answer.taken().await,
        }
    }

    /// Whether the disk of a seat keeps somebody waiting.
    pub fn is_late(&self, seat: Seat) -> bool {
        self.disks().get(seat.disk).is_some_and(|disk| disk.is_late())
    }

    /// What one disk was asked for, or the same from others if it is late; `None` if the rest has to be tried, which
    /// is up to the caller.
    async fn first_good(
        &self,
        asked: Asked,
        wanted: &Wanted<'_>,
        expected: Expected<'_>,
    ) -> Option<Result<Good, ReadError>> {
        let copy = asked.copy.clone();
        let answer = match asked.in_time(self).await {
            Ok(result) => return judge(result, &copy, expected),
            Err(answer) => answer,
        };
        let others = pin!(self.read_from_others(wanted));
        match select(pin!(answer.clone().taken()), others).await {
            Either::Right((Some(good), _)) => {
                self.follow_up(answer, copy, expected);
                Some(Ok(good))
            }
            // Its answer is all that is left.
            Either::Right((None, answer)) => judge(answer.await, &copy, expected),
            Either::Left((result, others)) => match judge(result, &copy, expected) {
                Some(done) => Some(done),
                None => others.await.map(Ok),
            },
        }
    }

    /// Looks at the answer that nobody waits for any more: a drive that tries a bad sector for long must be found out
    /// and have it rewritten all the same. What it gives is not looked at: other data may have been written there by now.
    fn follow_up(&self, answer: LateAnswer, copy: Copy, expected: Expected<'_>) {
        let (told, crcs) = (Arc::clone(&self.failed), expected.crcs.to_vec());
        let Expected { set, slot, first, .. } = expected;
        self.failed.spawn(Box::pin(async move {
            if answer.taken().await.is_err_and(|error| !is_passing(error)) {
                copy.disk.count_read_error();
                let disk = copy.disk.id();
                let heal = |(block, crc): (usize, &u32)| Heal { set, slot, block, crc: *crc, disk };
                told.heal((first..).zip(&crcs).map(heal).collect());
            }
        }));
    }

    /// Blocks with checksums, from disks that are not late. Who is changing the stripe may wait for one that is, so the
    /// first try is beside that: what matches is right, whatever becomes of the rest of the stripe.
    async fn read_from_others(&self, wanted: &Wanted<'_>) -> Option<Good> {
        if let Some(good) = self.read_beside(wanted).await {
            return Some(good);
        }
        let _guard = self.locks.lock(wanted.set, wanted.stripe).await;
        self.read_beside(wanted).await
    }

    /// One try of it, whoever has the stripe.
    async fn read_beside(&self, wanted: &Wanted<'_>) -> Option<Good> {
        if !self.can_do_without(wanted.set, wanted.stripe, WaitFor::Prompt) {
            return None;
        }
        let unproved = |_: usize, _: usize| None;
        let crcs = if is(Mutant::TrustOthers) { &unproved } else { wanted.crcs };
        let at = (wanted.stripe, wanted.strip);
        let asked = Wanted::any(wanted.set, at, wanted.rows.clone(), crcs);
        // Nobody is to blame: another one may be half-way through a change.
        let asked = Wanted { is_in_doubt: !is(Mutant::TrustOthers), ..asked };
        let fetched = self.fetch_from(&asked, WaitFor::Prompt).await.ok()?;
        (fetched.missing == 0).then(|| Good { data: fetched.bytes.freeze(), heals: Vec::new() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_patience_follows_the_slowest_read_and_forgets_it() {
        let lateness = Lateness::default();
        assert_eq!(lateness.patience(), PATIENCE_MAX, "nothing is known");
        lateness.took(Duration::from_micros(80));
        assert_eq!(lateness.patience(), PATIENCE_MIN);
        lateness.took(Duration::from_millis(250));
        assert_eq!(lateness.patience(), Duration::from_secs(2));
        for _ in 0..FADING {
            lateness.took(Duration::from_micros(80));
        }
        assert_eq!(lateness.patience(), PATIENCE_MIN);
        lateness.took(Duration::from_secs(600));
        assert_eq!(lateness.patience(), PATIENCE_MAX);
        for _ in 0..1000 {
            lateness.took(Duration::ZERO);
        }
        assert_eq!(lateness.patience(), PATIENCE_MIN, "it is known that it answers at once");
    }
}

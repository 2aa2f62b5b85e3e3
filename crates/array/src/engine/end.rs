//! The orderly end of an array.
//!
//! ```text
//!   last checkpoint ── closed ── labels ── ended ── end of the journal ── disks let go
//!     as long as       nothing   END_TIME  no label     END_TIME          what is under
//!     it gets on       begins    at most   changes      at most           way ends there
//! ```
//!
//! Invariant: no disk is waited for without a limit, and whatever is given up for that leaves the disks as a crash in
//! that moment would: what was answered is in its place, or in the journal.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::{Either, select};

use crate::core::Core;
use crate::error::ArrayError;
use crate::mutants::{self, Mutant};
use crate::sync::TurnGuard;

/// A last checkpoint that has stood still for so long is given up. By then the kernel has failed most of what a disk
/// does not answer, after 30 seconds, and the checkpoint has gone on without that disk. A member that waits so long
/// once still ends before systemd kills it (`TimeoutStopSec=120` of the unit).
const STILL_TIME: Duration = Duration::from_secs(45);
/// How often it is looked whether it gets on.
const LOOK: Duration = Duration::from_secs(1);
/// How long labels that are being written, and the journal that says that nothing follows, may take in the end.
const END_TIME: Duration = Duration::from_secs(2);

/// Why an array has stopped that was to.
pub(crate) const CLOSED: &str = "it was closed";

impl Core {
    /// Ends all work after a last checkpoint.
    ///
    /// # Errors
    /// Those of the checkpoint; [`ArrayError::Unsettled`] when it was given up.
    pub(crate) async fn close(self: &Arc<Self>) -> Result<(), ArrayError> {
        // Nobody begins another one before the end.
        let (settled, _turn) = self.last_checkpoint().await;
        self.end().await;
        settled
    }

    /// Makes the last checkpoint. With it comes the turn to make one, as the end in the middle of one would look like
    /// an error; without that turn, one is still under way that does not get on.
    async fn last_checkpoint(self: &Arc<Self>) -> (Result<(), ArrayError>, Option<TurnGuard<'_>>) {
        let mut last = pin!(async {
            let settled = self.checkpointed().await;
            (settled, self.checkpointing.take().await)
        });
        let mut still = Still::new(self.env.now(), self.checkpoint_count());
        loop {
            let look = self.env.sleep(LOOK);
            if let Either::Left(((settled, turn), _)) = select(last.as_mut(), look).await {
                return (settled, Some(turn));
            }
            let time = still.look(self.env.now(), self.checkpoint_count());
            if time >= STILL_TIME && !mutants::is(Mutant::KeepClosing) {
                let what = self.checkpoint_beat.step().unwrap_or("its turn");
                return (Err(ArrayError::Unsettled { what, seconds: time.as_secs() }), None);
            }
        }
    }

    /// Nothing is begun any more, and what is under way has its time to end.
    async fn end(&self) {
        let (is_well, requests) = {
            let mut state = self.lock();
            let is_well = state.stopped.is_none() && self.journal.failure().is_none();
            state.stopped.get_or_insert_with(|| CLOSED.into());
            (is_well, std::mem::take(&mut state.requests))
        };
        for request in requests {
            request.asker.answer(Err(ArrayError::Stopped(CLOSED.into())));
        }
        // A label that is being written is not changed behind this: whoever opens the disks next would find that it
        // says something else than it said a moment before.
        if !mutants::is(Mutant::HastyEnd) {
            select(pin!(self.labels_are_written()), self.env.sleep(END_TIME)).await;
        }
        let keeps_disks = mutants::is(Mutant::KeepDisks);
        self.lock().has_ended = !keeps_disks && !mutants::is(Mutant::KeepChanging);
        // A disk that has failed since it was closed has stopped the journal, as no label tells of it any more. All
        // that was answered is there all the same, and nothing follows.
        let is_well = match mutants::is(Mutant::AskLater) {
            true => self.journal.failure().is_none(),
            false => is_well,
        };
        self.journal.stop();
        if is_well {
            // Not for long: a disk that is silent now is none of those that answer at the next start.
            select(pin!(self.journal.put_end()), self.env.sleep(END_TIME)).await;
        }
        // What was not waited for, or begins behind this, must not come over what the next one writes.
        if !keeps_disks {
            self.raid.disks().revoke_all();
        }
        self.work.ring();
        self.upkeep.ring();
        self.balanced.ring();
        self.holds.end_all();
    }

    /// Waits until nobody writes a label any more, of those who had begun before it was closed.
    async fn labels_are_written(&self) {
        for turn in self.turns_to_take_back() {
            drop(turn.take().await);
        }
        drop(self.labelling.take().await);
    }
}

/// Since when a count has not moved.
#[derive(Debug)]
struct Still {
    count: u64,
    since: Duration,
}

impl Still {
    fn new(now: Duration, count: u64) -> Self {
        Self { count, since: now }
    }

    /// For how long it has stood still `now` that it is there.
    fn look(&mut self, now: Duration, count: u64) -> Duration {
        if count != self.count {
            *self = Self::new(now, count);
        }
        now.saturating_sub(self.since)
    }
}

#[cfg(test)]
mod tests {
    use std::slice;

    use block::WriteFlags;
    use ring::Buf;

    use super::*;
    use crate::testing::arrays::{disk, filled_on, on_a_core};
    use crate::{BLOCK_BYTES, DiskId, Level};

    /// A label was waited for, and a disk failed beside that: no label tells of it any more, and the journal of the
    /// array did not get its end for that.
    #[test]
    fn a_disk_that_fails_behind_the_last_checkpoint_does_not_cost_the_end() {
        on_a_core(async {
            let disks: Vec<_> = (0..4).map(|_| disk()).collect();
            let (array, _) = filled_on(disks.clone(), Level::Raid5).await;
            let core = &array.core;
            // A disk that comes back, and takes its time.
            let turn = core.turn_to_take_back(DiskId(3));
            let returning = turn.take().await;
            let (told, closed) = ring::oneshot();
            let closing = array.clone();
            ring::spawn(async move { told.send(closing.close().await) });
            while core.lock().stopped.is_none() {
                core.env.sleep(Duration::from_millis(1)).await;
            }
            // What was there long ago.
            let end = core.journal.position() % core.layout.journal_bytes;
            let end = core.layout.journal_at() + end;
            let mut old = Buf::alloc(BLOCK_BYTES).unwrap();
            old.fill(7);
            let old = old.freeze();
            for disk in &disks {
                disk.write(end, old.clone(), WriteFlags::DURABLE).await.unwrap();
            }
            core.disk_failed(DiskId(1), "a write failed").await;
            assert!(core.journal.failure().is_some(), "it answers what others alone may have");
            drop(returning);
            assert_eq!(closed.await, Some(Ok(())));
            let holders = core.journal.holders();
            assert!(!holders.is_empty());
            for holder in holders {
                let found = disks[usize::from(holder.disk.0)].read(end, BLOCK_BYTES).await.unwrap();
                let mut first = 7;
                found.copy_to(0, slice::from_mut(&mut first));
                assert_eq!(first, 0, "disk {} does not say that nothing follows", holder.disk.0);
            }
        });
    }

    /// A checkpoint on slow disks may take minutes, and is waited for.
    #[test]
    fn a_count_stands_still_from_when_it_last_moved() {
        let second = Duration::from_secs;
        let mut still = Still::new(second(7), 3);
        assert_eq!(still.look(second(7), 3), second(0));
        assert_eq!(still.look(second(51), 3), second(44));
        for minute in 1..10 {
            assert_eq!(still.look(second(60 * minute), 3 + minute), second(0), "it got on");
        }
        assert_eq!(still.look(second(540 + 45), 12), STILL_TIME);
    }
}

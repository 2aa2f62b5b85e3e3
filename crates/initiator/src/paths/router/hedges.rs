//! Reads on two paths.
//!
//! A path can be slow for one command, or go silent, long before it counts as lost. A read is then sent on
//! a second path as well, and the first answer counts: two copies of a read do no harm, and both begin after
//! the read was asked for, so that either answer is right. A change is never sent twice.
//!
//! ```text
//!            no answer for long           an answer
//! sent on A -------------------> A and B -----------> done; the other one is a straggler
//!                                  |
//!                                  | A fails          B fails
//!                                  +-------> B        +------> A
//! ```
//!
//! The reads under way are looked at from time to time, not each by a timer of its own: reads are many, and
//! few are slow.

use std::time::Duration;

use super::{OpId, PathId, Phase, Router};
use crate::paths::select::PathState;
use crate::paths::words::{Action, Shape, Verdict};

/// What a read takes usually, times this, is long.
const TIMES_LATENCY: u32 = 4;

/// Looks in the shortest time that is long.
const LOOKS: u32 = 4;

/// Reads that are under way twice, at most: when the target itself is slow it must not get all twice.
const HEDGED_MAX: usize = 64;

/// A flush is none: it is for all that was written, and takes its time.
fn is_read(shape: &Shape) -> bool {
    shape.changes.is_none() && shape.len_bytes > 0
}

impl Router {
    /// A try of a read on its second path is over. It goes on with the first one unless it is done.
    pub fn tried_beside(&mut self, op: OpId, verdict: Verdict, now: Duration) {
        debug_assert!(
            matches!(self.phase(op), Some(Phase::Sent { .. })),
            "its first copy is under way"
        );
        let Some((path, started)) = self.take_hedge(op) else {
            debug_assert!(false, "only what was sent comes back");
            return;
        };
        if verdict == Verdict::Done {
            self.paths.over(path, started, now, Some(self.ops[op.slot].shape.len_bytes));
            return self.over(op, now);
        }
        self.paths.over(path, started, now, None);
        self.heard(path, verdict, now);
    }

    /// The copy of a read that nobody has waited for is over: until then it kept its path busy.
    pub fn straggler_over(&mut self, path: PathId, now: Duration) {
        if self.is_current(path) {
            self.paths.over(path, now, now, None);
        }
    }

    pub(super) fn take_hedge(&mut self, op: OpId) -> Option<(PathId, Duration)> {
        let hedge = self.ops[op.slot].hedge.take();
        self.hedged -= usize::from(hedge.is_some());
        hedge
    }

    /// A command was sent: if it is a read, somebody looks after it.
    pub(super) fn watch_read(&mut self, op: OpId, now: Duration) {
        if let Some(after) = self.options.hedge_after
            && self.hedge_look.is_none()
            && is_read(&self.ops[op.slot].shape)
        {
            self.hedge_look = Some(now + after / LOOKS);
        }
    }

    /// Sends the reads that have had no answer for long on a second path.
    pub(super) fn hedge_slow_reads(&mut self, now: Duration) {
        let (Some(look), Some(after)) = (self.hedge_look, self.options.hedge_after) else { return };
        if now < look {
            return;
        }
        let mut is_any = false;
        let mut slow = Vec::new();
        for (slot, op) in &self.ops {
            let Phase::Sent { path, started } = op.phase else { continue };
            if !is_read(&op.shape) {
                continue;
            }
            is_any = true;
            let long = after.max(self.paths.all[path.slot()].status.latency * TIMES_LATENCY);
            if op.hedge.is_none() && now >= started + long {
                slow.push((op.serial, OpId { slot, serial: op.serial }, path));
            }
        }
        slow.sort_unstable_by_key(|(serial, ..)| *serial);
        slow.truncate(HEDGED_MAX.saturating_sub(self.hedged));
        for (_, op, first) in slow {
            let at = self.ops[op.slot].shape.at;
            let Some(path) = self.paths.choose_beside(now, at, first) else { break };
            if self.paths.status(path).state != PathState::Active {
                // It has trouble of its own.
                self.paths.over(path, now, now, None);
                continue;
            }
            self.paths.status(first).retries += 1;
            self.ops[op.slot].hedge = Some((path, now));
            self.hedged += 1;
            self.actions.push_back(Action::Hedge { op, path });
        }
        self.hedge_look = is_any.then(|| now + after / LOOKS);
        debug_assert!(self.hedged <= HEDGED_MAX);
    }
}

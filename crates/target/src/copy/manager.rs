//! What the copy manager of a server keeps between commands: which copies run, and how many tokens
//! there are. Tokens themselves, and what became of copies, are with their units
//! ([`Unit::tokens`], [`Unit::records`]).
//!
//! All of it is shared by all cores, behind locks that are held for moments and never across an
//! await. It is bounded: tokens by [`Places`], records by [`COPIES_MAX`](scsi::copy::COPIES_MAX) per
//! unit, jobs by their number. Of none of it an initiator has more than it leaves to others
//! ([`share`](crate::share)).
//!
//! **Fences.** A copy belongs to the nexus that sent it, and that is an initiator port, a target and
//! a unit: a host may use one ISID, and so one [`NexusKey`], at several targets. Whoever fences a host
//! off, or takes a unit away, stops copies whichever unit they were sent to: they begin nothing more,
//! and what they have under way at the unit in question is waited for.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use scsi::copy::{
    CopyRegistry, Designator, PopulateToken, ROD_TOKEN_BYTES, RodToken, TokenKind, TokenRange,
    TokenSource,
};
use scsi::nexus::NexusKey;
use scsi::{AdditionalSense, Sense, SenseKey};

use super::job::{Ends, Jobs, NotBegun, Running};
use crate::tokens::Places;
use crate::unit::Unit;

/// See the module's page.
#[derive(Debug, Default)]
pub(crate) struct CopyManager {
    pub(super) places: Arc<Places>,
    jobs: Mutex<Jobs>,
}

/// What a token stands for.
#[derive(Debug, Clone)]
pub(super) enum Rod {
    Zeroes,
    Blocks { unit: Arc<Unit>, block_bytes: u32, ranges: Vec<TokenRange> },
}

/// The token of a unit that cannot be reached is as unknown as one that never was.
pub(super) fn unknown_token() -> Sense {
    Sense::new(SenseKey::IllegalRequest, AdditionalSense::INVALID_TOKEN_UNKNOWN)
}

impl CopyManager {
    /// Makes a token for blocks of `unit`.
    pub(super) fn create_token(
        &self,
        unit: &Unit,
        of: &NexusKey,
        request: &PopulateToken,
    ) -> Result<RodToken, Sense> {
        let config = unit.logical.config();
        let source = TokenSource {
            unit: Designator::naa(&config.identity.naa),
            target_name: &config.target_name,
            block_bytes: unit.block_bytes,
        };
        unit.tokens.create(&self.places, &of.initiator, &source, request)
    }

    /// What a token of one of these units stands for; counts as its use.
    pub(super) fn open_token(
        units: &[Arc<Unit>],
        token: &[u8; ROD_TOKEN_BYTES],
    ) -> Result<Rod, Sense> {
        let TokenKind::Blocks(id) = RodToken::kind_of(token)? else { return Ok(Rod::Zeroes) };
        let mut found = units.iter().filter_map(|unit| Some((unit, unit.tokens.open(id, token)?)));
        let (unit, opened) = found.next().ok_or_else(unknown_token)?;
        let (block_bytes, ranges) = opened?;
        Ok(Rod::Blocks { unit: unit.clone(), block_bytes, ranges })
    }

    /// A panic under the lock is a bug, but what it guards is sound at every step.
    pub(super) fn jobs(&self) -> MutexGuard<'_, Jobs> {
        self.jobs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A copy of `key` begins that was sent to the first of these units and touches all of them; it
    /// runs until the guard is dropped. A unit that was found may have gone since.
    pub(super) fn start(
        self: &Arc<Self>,
        key: &NexusKey,
        units: Vec<Arc<Unit>>,
    ) -> Result<Running, NotBegun> {
        let (id, stop) = self.jobs().add(key.clone(), units)?;
        Ok(Running::new(self.clone(), id, stop))
    }

    /// PREEMPT AND ABORT of a nexus on a unit of the target with these units: stops its copies that
    /// touch the unit, whichever unit of the target they were sent to, and all that this initiator
    /// sent to other targets. What ISID it uses there, nobody here knows.
    pub(crate) fn preempt(&self, target: &[Arc<Unit>], unit: &Arc<Unit>, of: &NexusKey) -> Ends {
        unit.records(|records| records.terminate(of));
        self.jobs().stop_at(std::slice::from_ref(unit), |job| {
            if job.is_sent_to(target) { job.key == *of } else { job.key.initiator == of.initiator }
        })
    }

    /// Stops all copies that touch the unit.
    pub(crate) fn stop_at(&self, unit: &Arc<Unit>) -> Ends {
        self.jobs().stop_at(std::slice::from_ref(unit), |_| true)
    }

    /// Stops the copies that touch a unit of a target and were sent to another target.
    pub(crate) fn keep_out(&self, target: &[Arc<Unit>]) -> Ends {
        self.jobs().stop_at(target, |job| !job.is_sent_to(target))
    }

    /// Logical unit reset: stops all copies that touch the unit, waits until the unit is idle, and
    /// forgets what became of those that were sent to it. Tokens stay: their blocks do too.
    pub(crate) async fn reset(&self, unit: &Arc<Unit>) {
        self.stop_at(unit).wait().await;
        unit.records(CopyRegistry::logical_unit_reset);
    }

    /// I_T nexus loss at the target with these units: nobody can ask about its copies any more.
    /// Those that go on in the background end; the future waits until they have.
    pub(crate) async fn nexus_lost(&self, target: &[Arc<Unit>], key: &NexusKey) {
        let stopped = self.jobs().stop(|job| job.key == *key && job.is_sent_to(target));
        stopped.wait().await;
        for unit in target {
            unit.records(|records| records.nexus_lost(key));
        }
    }

    /// These units are taken away: their tokens end, copies that touch them are stopped, and none
    /// begins any more, also not one that has looked them up already.
    pub(crate) fn retire(&self, units: &[Arc<Unit>]) -> Ends {
        for unit in units {
            unit.tokens.clear();
        }
        self.jobs().retire(units)
    }
}

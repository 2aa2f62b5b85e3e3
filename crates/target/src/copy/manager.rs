//! What the copy manager keeps between commands: tokens, what became of copies, and which run.
//!
//! All of it is shared by all cores, behind locks that are held for moments and never across an
//! await. It is bounded: tokens by [`TOKENS_MAX`], records by [`COPIES_MAX`] per unit, jobs by the
//! commands under way and the records in progress.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use scsi::Sense;
use scsi::copy::{
    COPIES_MAX, CopyRegistry, Designator, PopulateToken, ROD_TOKEN_BYTES, RodToken, TOKENS_MAX,
    TokenContents, TokenRange, TokenRegistry, TokenSource,
};
use scsi::nexus::NexusKey;

use super::job::{Ends, Jobs, Running};
use crate::unit::Unit;

/// How long an expired token is remembered, so that its late user hears that it has expired and
/// not that it never was.
const EXPIRED_KEPT: Duration = Duration::from_secs(60);
/// Expired tokens are looked for this often at most.
const SWEEP_INTERVAL: Duration = Duration::from_secs(1);

/// See the module's page. Units go by their index.
#[derive(Debug)]
pub(crate) struct CopyManager {
    /// Tokens' time is counted from here.
    began: Instant,
    tokens: Mutex<Tokens>,
    /// How many tokens there are: nearly always none, and then writes need not look further.
    tokens_kept: AtomicUsize,
    records: Mutex<HashMap<usize, CopyRegistry>>,
    jobs: Mutex<Jobs>,
}

#[derive(Debug, Default)]
struct Tokens {
    registry: TokenRegistry<usize>,
    swept: Duration,
}

/// What a token stands for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Rod {
    Zeroes,
    Blocks { unit: usize, block_bytes: u32, ranges: Vec<TokenRange> },
}

impl Default for CopyManager {
    fn default() -> Self {
        const { assert!(TOKENS_MAX <= 1 << 16 && COPIES_MAX <= 1 << 10, "memory is bounded") };
        Self {
            began: Instant::now(),
            tokens: Mutex::default(),
            tokens_kept: AtomicUsize::new(0),
            records: Mutex::default(),
            jobs: Mutex::default(),
        }
    }
}

/// A panic under one of the locks is a bug, but what they guard is sound at every step.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl CopyManager {
    fn now(&self) -> Duration {
        self.began.elapsed()
    }

    // ---- tokens --------------------------------------------------------------------------------

    /// Makes a token for blocks of `unit`.
    pub(super) fn create_token(
        &self,
        unit: &Unit,
        request: &PopulateToken,
    ) -> Result<RodToken, Sense> {
        let mut random = [0; 256];
        getrandom::fill(&mut random).map_err(|_| Sense::internal_failure())?;
        let config = unit.logical.config();
        let source = TokenSource {
            unit: Designator::naa(&config.identity.naa),
            target_name: &config.target_name,
            block_bytes: unit.block_bytes,
        };
        let now = self.now();
        let mut tokens = lock(&self.tokens);
        self.sweep(&mut tokens, now);
        let made = tokens.registry.create(unit.index, &source, request, now, &random);
        self.tokens_kept.store(tokens.registry.len(), Ordering::Release);
        made
    }

    /// What a token stands for; counts as its use.
    pub(super) fn open_token(&self, token: &[u8; ROD_TOKEN_BYTES]) -> Result<Rod, Sense> {
        let mut tokens = lock(&self.tokens);
        Ok(match tokens.registry.resolve(token, self.now())? {
            TokenContents::Zeroes => Rod::Zeroes,
            TokenContents::Blocks { unit, block_bytes, ranges } => {
                Rod::Blocks { unit: *unit, block_bytes, ranges: ranges.to_vec() }
            }
        })
    }

    /// Whether a token that was opened is still good; counts as its use.
    pub(super) fn use_token(&self, token: &[u8; ROD_TOKEN_BYTES]) -> Result<(), Sense> {
        lock(&self.tokens).registry.resolve(token, self.now()).map(drop)
    }

    pub(super) fn delete_token(&self, token: &[u8; ROD_TOKEN_BYTES]) {
        lock(&self.tokens).registry.delete(token);
    }

    /// REPORT ALL ROD TOKENS.
    pub(super) fn report_tokens(&self) -> Vec<u8> {
        lock(&self.tokens).registry.report_all(self.now())
    }

    /// Blocks of a unit are about to change: revokes the tokens that stand for any of them. To be
    /// called before the change begins, by everything that changes a medium.
    ///
    /// Costs one load while there are no tokens. A token that is being made at the same time may be
    /// missed, but then the two commands overlap and have no order.
    #[inline]
    pub(crate) fn changed(&self, unit: &Unit, lba: u64, blocks: u64) {
        if self.tokens_kept.load(Ordering::Acquire) != 0 {
            self.revoke(unit.index, lba, blocks);
        }
    }

    #[cold]
    fn revoke(&self, unit: usize, lba: u64, blocks: u64) {
        let mut tokens = lock(&self.tokens);
        match u32::try_from(blocks) {
            Ok(blocks) => tokens.registry.revoke_range(&unit, &TokenRange { lba, blocks }),
            Err(_) => tokens.registry.revoke_unit(&unit),
        }
        self.sweep(&mut tokens, self.now());
    }

    fn sweep(&self, tokens: &mut Tokens, now: Duration) {
        if now - tokens.swept >= SWEEP_INTERVAL {
            tokens.swept = now;
            tokens.registry.drop_expired(now.saturating_sub(EXPIRED_KEPT));
            self.tokens_kept.store(tokens.registry.len(), Ordering::Release);
        }
    }

    // ---- records -------------------------------------------------------------------------------

    /// Does something with the records of a unit's copies.
    pub(super) fn records<T>(&self, unit: usize, act: impl FnOnce(&mut CopyRegistry) -> T) -> T {
        act(lock(&self.records).entry(unit).or_default())
    }

    // ---- jobs ----------------------------------------------------------------------------------

    /// A copy of `key` begins that touches these units; it runs until the guard is dropped.
    pub(super) fn start(self: &Arc<Self>, key: &NexusKey, units: Vec<usize>) -> Running {
        Running::new(self.clone(), |manager| lock(&manager.jobs).add(key.clone(), units))
    }

    pub(super) fn remove_job(&self, id: u64) {
        // Those who wait for it are woken when it is dropped, outside of the lock.
        let gone = lock(&self.jobs).remove(id);
        drop(gone);
    }

    /// PREEMPT AND ABORT of a nexus on a unit: stops its copies that touch the unit, whichever
    /// unit they were sent to.
    pub(crate) fn preempt(&self, unit: usize, of: &NexusKey) -> Ends {
        self.records(unit, |records| records.terminate(of));
        lock(&self.jobs).stop(|key, units| key == of && units.contains(&unit))
    }

    /// Logical unit reset: stops all copies that touch the unit, waits until they are over, and
    /// forgets what became of those that were sent to it. Tokens stay: their blocks do too.
    pub(crate) async fn reset(&self, unit: usize) {
        let stopped = lock(&self.jobs).stop(|_, units| units.contains(&unit));
        stopped.wait().await;
        self.records(unit, CopyRegistry::logical_unit_reset);
    }

    /// I_T nexus loss: nobody can ask about its copies any more. Those that go on in the background
    /// end; the future waits until they have.
    pub(crate) async fn nexus_lost(&self, key: &NexusKey) {
        let stopped = lock(&self.jobs).stop(|owner, _| owner == key);
        stopped.wait().await;
        for records in lock(&self.records).values_mut() {
            records.nexus_lost(key);
        }
    }
}

//! The copy tokens of logical units: which there are, and how many may be.
//!
//! Each unit keeps its own ([`UnitTokens`]), so that a write looks at the tokens of its unit alone,
//! and at none where the unit has none. What all units of a server have in common is the number of
//! them ([`Places`]): memory is bounded, and no host has so many that others find no room.
//!
//! Locks: whoever holds the tokens of a unit may take the lock of the places, never the other way
//! round. A token that is forgotten gives its place back by itself.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use scsi::copy::{
    PopulateToken, ROD_TOKEN_BYTES, RodToken, TOKENS_MAX, TokenRange, TokenRegistry, TokenSource,
};
use scsi::{AdditionalSense, Sense, SenseKey};

use crate::share::{give_back, may_have_one_more};

/// Tokens of all units of a server together, with 64 ranges each about 6.4 MiB.
const SERVER_TOKENS_MAX: usize = 4096;
/// How long an expired token is remembered, so that its late user hears that it has expired and
/// not that it never was.
const EXPIRED_KEPT: Duration = Duration::from_secs(60);
/// Expired tokens are looked for this often at most.
const SWEEP_INTERVAL: Duration = Duration::from_secs(1);
/// A token that was used but not for so long gives way to a new one of its host when there is no
/// room. Hosts make one for each file, or part of it, and seldom delete it: with 128 tokens of
/// 64 MiB a host copies 4 GiB/s.
const SPENT_AFTER: Duration = Duration::from_secs(2);

/// What a token stands for: a block length, and blocks.
pub(crate) type Blocks = (u32, Vec<TokenRange>);

/// The tokens of one unit.
#[derive(Debug)]
pub(crate) struct UnitTokens {
    /// Their time is counted from here.
    began: Instant,
    /// How many there are: nearly always none, and then writes need not look further.
    kept: AtomicUsize,
    /// [`Places`] know of this unit.
    is_listed: AtomicBool,
    registry: Mutex<Registry>,
}

#[derive(Debug, Default)]
struct Registry {
    tokens: TokenRegistry<Place>,
    swept: Duration,
}

/// A panic under one of the locks is a bug, but what they guard is sound at every step.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn no_room() -> Sense {
    let code = AdditionalSense::INSUFFICIENT_RESOURCES_TO_CREATE_ROD_TOKEN;
    Sense::new(SenseKey::IllegalRequest, code)
}

impl Default for UnitTokens {
    fn default() -> Self {
        Self {
            began: Instant::now(),
            kept: AtomicUsize::new(0),
            is_listed: AtomicBool::new(false),
            registry: Mutex::default(),
        }
    }
}

impl UnitTokens {
    fn now(&self) -> Duration {
        self.began.elapsed()
    }

    /// Does something with the tokens, and keeps their number.
    fn with<T>(&self, act: impl FnOnce(&mut Registry) -> T) -> T {
        let mut registry = lock(&self.registry);
        let result = act(&mut registry);
        self.kept.store(registry.tokens.len(), Ordering::Release);
        result
    }

    /// Makes a token of this unit for an initiator.
    pub(crate) fn create(
        self: &Arc<Self>,
        places: &Arc<Places>,
        initiator: &Arc<str>,
        source: &TokenSource<'_>,
        request: &PopulateToken,
    ) -> Result<RodToken, Sense> {
        let mut random = [0; 256];
        getrandom::fill(&mut random).map_err(|_| Sense::internal_failure())?;
        let place = places.take(initiator, self).ok_or_else(no_room)?;
        let id = places.next_id.fetch_add(1, Ordering::Relaxed);
        let has_room = |tokens: &TokenRegistry<Place>| {
            let held = tokens.places().filter(|place| place.initiator == *initiator).count();
            may_have_one_more(held, tokens.len(), TOKENS_MAX)
        };
        let is_full = !has_room(&lock(&self.registry).tokens);
        if is_full {
            self.make_room(initiator);
        }
        self.with(|registry| {
            if !has_room(&registry.tokens) {
                return Err(no_room());
            }
            registry.tokens.create((id, place), source, request, self.now(), &random)
        })
    }

    /// What a token stands for, if it is one of this unit; counts as its use.
    pub(crate) fn open(
        &self,
        id: u64,
        token: &[u8; ROD_TOKEN_BYTES],
    ) -> Option<Result<Blocks, Sense>> {
        if self.kept.load(Ordering::Acquire) == 0 {
            return None;
        }
        let mut registry = lock(&self.registry);
        registry.tokens.contains(id).then(|| {
            let contents = registry.tokens.resolve(token, self.now())?;
            Ok((contents.block_bytes, contents.ranges.to_vec()))
        })
    }

    /// Whether a token that was opened is still good; counts as its use.
    pub(crate) fn use_token(&self, token: &[u8; ROD_TOKEN_BYTES]) -> Result<(), Sense> {
        lock(&self.registry).tokens.resolve(token, self.now()).map(drop)
    }

    pub(crate) fn delete(&self, token: &[u8; ROD_TOKEN_BYTES]) {
        lock(&self.registry).tokens.delete(token);
    }

    /// For REPORT ALL ROD TOKENS.
    pub(crate) fn management_tokens(&self) -> Vec<u8> {
        lock(&self.registry).tokens.management_tokens(self.now())
    }

    /// Blocks of the unit are about to change: revokes the tokens that stand for any of them. To be
    /// called before the change begins, by everything that changes a medium.
    ///
    /// Costs one load while the unit has no tokens. A token that is being made at the same time may
    /// be missed, but then the two commands overlap and have no order.
    #[inline]
    pub(crate) fn changed(&self, lba: u64, blocks: u64) {
        if self.kept.load(Ordering::Acquire) != 0 {
            self.revoke(lba, blocks);
        }
    }

    #[cold]
    fn revoke(&self, lba: u64, blocks: u64) {
        self.with(|Registry { tokens, swept }| {
            match u32::try_from(blocks) {
                Ok(blocks) => tokens.revoke_range(&TokenRange { lba, blocks }),
                Err(_) => tokens.revoke_all(),
            }
            let now = self.now();
            if now - *swept >= SWEEP_INTERVAL {
                *swept = now;
                tokens.drop_expired(now.saturating_sub(EXPIRED_KEPT));
            }
        });
    }

    /// There is no room for one more token of this initiator: forgets what expired, and what of its
    /// own it hardly needs any more.
    fn make_room(&self, initiator: &Arc<str>) {
        let now = self.now();
        self.with(|registry| {
            registry.tokens.drop_expired(now);
            let own = |place: &Place| place.initiator == *initiator;
            registry.tokens.drop_spent(now.saturating_sub(SPENT_AFTER), own);
        });
    }

    /// Forgets all tokens: the unit is gone.
    pub(crate) fn clear(&self) {
        self.with(|registry| registry.tokens.clear());
    }
}

/// How many tokens a server keeps, and for whom.
#[derive(Debug, Default)]
pub(crate) struct Places {
    counts: Mutex<Counts>,
    /// The identifiers of tokens differ in all of the copy manager (SPC-4 §5.17.6.4).
    next_id: AtomicU64,
}

/// `all` is the sum of `of`, in which nobody stands with none.
#[derive(Debug, Default)]
struct Counts {
    all: usize,
    of: HashMap<Arc<str>, usize>,
    /// All units that ever had a token and are still there.
    units: Vec<Weak<UnitTokens>>,
}

impl Counts {
    fn has_room(&self, initiator: &str) -> bool {
        let held = self.of.get(initiator).copied().unwrap_or(0);
        may_have_one_more(held, self.all, SERVER_TOKENS_MAX)
    }
}

impl Places {
    /// A place for a token of this initiator, if it may have one more.
    fn take(self: &Arc<Self>, initiator: &Arc<str>, unit: &Arc<UnitTokens>) -> Option<Place> {
        let is_full = !lock(&self.counts).has_room(initiator);
        if is_full {
            for unit in self.units() {
                unit.make_room(initiator);
            }
        }
        let mut counts = lock(&self.counts);
        if !counts.has_room(initiator) {
            return None;
        }
        if !unit.is_listed.swap(true, Ordering::Relaxed) {
            counts.units.retain(|unit| unit.strong_count() > 0);
            counts.units.push(Arc::downgrade(unit));
        }
        counts.all += 1;
        *counts.of.entry(initiator.clone()).or_default() += 1;
        Some(Place { places: self.clone(), initiator: initiator.clone() })
    }

    fn units(&self) -> Vec<Arc<UnitTokens>> {
        lock(&self.counts).units.iter().filter_map(Weak::upgrade).collect()
    }

    /// How many tokens are kept.
    #[cfg(test)]
    pub(crate) fn taken(&self) -> usize {
        let counts = lock(&self.counts);
        assert_eq!(counts.all, counts.of.values().sum(), "every token is somebody's");
        counts.all
    }
}

/// The right to keep one token; dropping it gives it back.
#[derive(Debug)]
struct Place {
    places: Arc<Places>,
    initiator: Arc<str>,
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut counts = lock(&self.places.counts);
        counts.all -= 1;
        give_back(&mut counts.of, &self.initiator);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use scsi::copy::Designator;

    const BLOCKS: TokenRange = TokenRange { lba: 8, blocks: 8 };

    fn make(unit: &Arc<UnitTokens>, places: &Arc<Places>, name: &str) -> Result<RodToken, Sense> {
        let source = TokenSource {
            unit: Designator::naa(&[0x60; 16]),
            target_name: "iqn.2026-11.dev.drystone:tokens",
            block_bytes: 512,
        };
        let request =
            PopulateToken { immediate: false, inactivity_timeout_s: 300, ranges: vec![BLOCKS] };
        unit.create(places, &name.into(), &source, &request)
    }

    fn made(unit: &Arc<UnitTokens>, places: &Arc<Places>, name: &str) -> usize {
        (0..).take_while(|_| make(unit, places, name).is_ok()).count()
    }

    #[test]
    fn a_write_looks_at_the_tokens_of_its_own_unit() {
        let (places, units) = (Arc::default(), [Arc::<UnitTokens>::default(), Arc::default()]);
        let token = make(&units[0], &places, "host").unwrap();
        let kept = || [0, 1].map(|n: usize| units[n].kept.load(Ordering::Relaxed));
        assert_eq!(kept(), [1, 0], "writes to the second need one load");
        units[1].changed(BLOCKS.lba, 8);
        assert!(units[0].use_token(token.bytes()).is_ok());
        units[0].changed(BLOCKS.lba, 1 << 40);
        assert!(units[0].use_token(token.bytes()).is_err());
        units[0].clear();
        assert_eq!((kept(), places.taken()), ([0, 0], 0));
    }

    #[test]
    fn identifiers_differ_in_all_units() {
        let (places, units) = (Arc::default(), [Arc::<UnitTokens>::default(), Arc::default()]);
        let tokens = [0, 1].map(|n: usize| make(&units[n], &places, "host").unwrap());
        assert_ne!(tokens[0].bytes()[8..16], tokens[1].bytes()[8..16]);
    }

    #[test]
    fn the_server_keeps_so_many_and_one_host_half_of_them() {
        let places = Arc::default();
        let units: Vec<Arc<UnitTokens>> = (0..40).map(|_| Arc::default()).collect();
        let all = |name| units.iter().map(|unit| made(unit, &places, name)).sum::<usize>();
        assert_eq!(all("greedy"), SERVER_TOKENS_MAX / 2);
        assert_eq!(all("other"), SERVER_TOKENS_MAX / 4);
        assert_eq!(places.taken(), SERVER_TOKENS_MAX / 4 * 3);
        drop(units);
        assert_eq!(places.taken(), 0, "places go with their units");
    }

    #[test]
    fn tokens_that_have_done_their_work_give_way_on_whichever_unit() {
        let places = Arc::default();
        let units: Vec<Arc<UnitTokens>> = (0..16).map(|_| Arc::default()).collect();
        let fresh = Arc::default();
        for unit in &units {
            for _ in 0..TOKENS_MAX / 2 {
                let token = make(unit, &places, "host").unwrap();
                unit.use_token(token.bytes()).unwrap();
            }
        }
        assert!(make(&fresh, &places, "host").is_err(), "they may be in use");
        std::thread::sleep(SPENT_AFTER + Duration::from_millis(50));
        make(&fresh, &places, "host").unwrap();
        assert_eq!(places.taken(), 1);
    }
}

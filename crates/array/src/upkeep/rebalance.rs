//! Moving chunks from full disks to emptier ones, so that disks that were added take their share.
//!
//! A chunk moves as in a rebuild: its set gets a replacement for the member on the full disk, which
//! takes over when it has everything. Until then the member stays what it is, so no set is ever
//! less redundant for it, and a restart in the middle goes on where it was.
//!
//! Invariant: a chunk moves only to a disk that is no fuller afterwards than the old one. So shares
//! only get closer, nothing moves back, and it ends.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::Job;
use crate::DiskId;
use crate::api::JobKind;
use crate::core::{Core, State};
use crate::error::ArrayError;
use crate::raid::{Access, Seat, Set};

/// Sets whose chunks are on their way at the same time.
const MOVES_MAX: usize = 8;
/// Shares in use that differ by less are even.
const EVEN_PERCENT: u64 = 3;
/// A bound for the estimate of what there is to do.
const ESTIMATE_MAX: u64 = 100_000;

/// A rebalancing that runs.
#[derive(Debug)]
pub(super) struct Rebalance {
    job: Job,
    /// Chunks that were moved, or are on their way.
    moves: u64,
}

/// Chunks of the disks that take new ones: how many each has, and how many are in use.
type Counts = BTreeMap<DiskId, (u64, u64)>;

/// From where to where a chunk should move, the most wanted first.
fn wanted(counts: &Counts) -> Vec<(DiskId, DiskId)> {
    let by_share = |(_, (all, used)): &(&DiskId, &(u64, u64))| used * 1_000_000 / (*all).max(1);
    let mut disks: Vec<_> = counts.iter().collect();
    disks.sort_by_key(by_share);
    let mut pairs = Vec::new();
    for (from, (from_all, from_used)) in disks.iter().rev() {
        for (to, (to_all, to_used)) in &disks {
            let is_uneven = from_used * 100 * to_all
                > to_used * 100 * from_all + EVEN_PERCENT * from_all * to_all;
            // What is fuller afterwards than the other would be moved back.
            let stays = *from_used > 0 && (from_used - 1) * to_all >= (to_used + 1) * from_all;
            if is_uneven && stays {
                pairs.push((**from, **to));
            }
        }
    }
    pairs
}

/// How many chunks have to move until nothing is wanted.
fn estimate(mut counts: Counts) -> u64 {
    let mut moves = 0;
    while moves < ESTIMATE_MAX
        && let Some((from, to)) = wanted(&counts).first()
    {
        shift(&mut counts, *from, *to);
        moves += 1;
    }
    moves
}

fn shift(counts: &mut Counts, from: DiskId, to: DiskId) {
    counts.get_mut(&from).expect("a pair is of these disks").1 -= 1;
    counts.get_mut(&to).expect("a pair is of these disks").1 += 1;
}

impl Core {
    /// Begins to move data until all disks are equally full; goes on after a restart. Which order that was.
    ///
    /// # Errors
    /// [`ArrayError::Stopped`].
    pub(crate) async fn begin_rebalance(self: &Arc<Self>) -> Result<u64, ArrayError> {
        let order = Arc::new(AtomicU64::new(0));
        let given = Arc::clone(&order);
        self.request(move |tables, state| {
            tables.rebalancing = true;
            state.rebalances += 1;
            given.store(state.rebalances, Ordering::Relaxed);
            Ok(())
        })
        .await?;
        self.upkeep.ring();
        Ok(order.load(Ordering::Relaxed))
    }

    /// Waits until no rebalancing runs; false if this order, or a later one, was cancelled.
    ///
    /// # Errors
    /// [`ArrayError::Stopped`].
    pub(crate) async fn balanced(&self, order: u64) -> Result<bool, ArrayError> {
        loop {
            let mark = self.balanced.mark();
            {
                let state = self.lock();
                state.check_running()?;
                if !state.tables.rebalancing {
                    return Ok(state.rebalance_cancelled < order);
                }
            }
            self.balanced.after(mark).await;
        }
    }

    /// Ends a rebalancing, if one runs that nobody has begun anew since this order: no chunk begins to move any
    /// more, and those that are on their way arrive.
    ///
    /// # Errors
    /// [`ArrayError::Stopped`].
    pub(crate) async fn cancel_rebalance(self: &Arc<Self>, order: u64) -> Result<(), ArrayError> {
        let now = self.env.unix_seconds();
        self.request(move |tables, state| {
            if state.rebalances == order && std::mem::take(&mut tables.rebalancing) {
                state.rebalance_cancelled = order;
                let text = "moving data until all disks are equally full was cancelled".to_owned();
                tracing::info!("{text}");
                state.note(now, text);
            }
            Ok(())
        })
        .await?;
        self.upkeep.ring();
        self.balanced.ring();
        Ok(())
    }

    /// Moves the next chunks, if a rebalancing runs and the ones before have arrived; whether there
    /// is more to do at once.
    pub(super) async fn rebalance(self: &Arc<Self>, running: &mut Option<Rebalance>) -> bool {
        if !self.lock().tables.rebalancing {
            *running = None;
            return false;
        }
        let chunk_bytes = self.layout.chunk_bytes;
        if running.is_none() {
            let leaving = self.leaving();
            let total = estimate(self.counts(&self.lock(), &leaving));
            let job = self.begin_job(JobKind::Rebalance, "disks", total * chunk_bytes);
            *running = Some(Rebalance { job, moves: 0 });
        }
        let Some(rebalance) = running else { return false };
        rebalance.job.reach(rebalance.moves * chunk_bytes);
        // Chunks that were left are free only then: before, their disks would seem fuller than they are.
        if rebalance.moves > 0 && self.checkpointed_for_upkeep().await.is_err() {
            return false;
        }
        let begun = self.begin_moves();
        rebalance.moves += begun;
        if begun > 0 {
            return true;
        }
        if self.sets.all().iter().any(|set| set.replacement().is_some()) {
            // Something waits for a disk, and rings when it is there.
            return false;
        }
        *running = None;
        self.end_rebalance().await;
        false
    }

    /// Nothing is left to move, unless somebody has cancelled it meanwhile.
    async fn end_rebalance(self: &Arc<Self>) {
        let now = self.env.unix_seconds();
        let ended = self.request(move |tables, state| {
            if std::mem::take(&mut tables.rebalancing) {
                let text = "all disks are equally full, as far as their RAID sets allow".to_owned();
                tracing::info!("{text}");
                state.note(now, text);
            }
            Ok(())
        });
        if let Err(error) = ended.await {
            tracing::debug!(%error, "the end of a rebalancing is not written down");
        }
        self.balanced.ring();
    }

    /// As it will be when everything has arrived that is on its way. Without those that are to be
    /// emptied: open because new sets need them, they would give back what they got without end.
    fn counts(&self, state: &State, leaving: &[DiskId]) -> Counts {
        let chunks = &state.space.chunks;
        let takes = |disk: &DiskId| chunks.is_open(*disk) && !leaving.contains(disk);
        let open = chunks.disks().filter(takes);
        let mut counts: Counts = open
            .filter_map(|disk| chunks.counts(disk).map(|(all, used)| (disk, (all, used))))
            .map(|(disk, (all, used))| (disk, (u64::from(all), u64::from(used))))
            .collect();
        for set in self.sets.all() {
            let Some(new) = set.replacement() else { continue };
            if let Some((_, used)) = counts.get_mut(&set.members()[new.member].disk) {
                *used = used.saturating_sub(1);
            }
        }
        counts
    }

    /// Appoints replacements on emptier disks; how many.
    fn begin_moves(&self) -> u64 {
        let leaving = self.leaving();
        let state = &mut *self.lock();
        if !state.tables.rebalancing {
            return 0;
        }
        let mut movable: Vec<Arc<Set>> =
            self.sets.all().into_iter().filter(|set| self.is_movable(set)).collect();
        let mut counts = self.counts(state, &leaving);
        let mut begun = 0;
        while begun < MOVES_MAX as u64 {
            let found = wanted(&counts).into_iter().find_map(|(from, to)| {
                let at = movable.iter().position(|set| {
                    let members = set.members();
                    let is_on = |disk| members.iter().any(|seat| seat.disk == disk);
                    is_on(from) && !is_on(to)
                })?;
                Some((from, to, at))
            });
            let Some((from, to, at)) = found else { break };
            let set = movable.swap_remove(at);
            let Some(chunk) = state.space.chunks.allocate_on(to) else { break };
            let member = set.members().iter().position(|seat| seat.disk == from);
            let member = member.expect("looked at above");
            let seat = Seat { disk: to, chunk };
            set.set_replacement(member, seat).expect("a disk that the set is not on");
            shift(&mut counts, from, to);
            begun += 1;
        }
        if begun > 0 {
            self.want_checkpoint(state);
        }
        begun
    }

    /// Whether a set lacks nothing, so that one of its chunks may move.
    fn is_movable(&self, set: &Set) -> bool {
        let is_there = |seat: &Seat| {
            let disk = self.raid.disks().get(seat.disk);
            disk.is_some_and(|disk| disk.access() == Access::Full)
        };
        set.replacement().is_none()
            && set.stale_stripes().is_empty()
            && set.members().iter().all(is_there)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn counts(disks: &[(u64, u64)]) -> Counts {
        (0..).map(DiskId).zip(disks.iter().copied()).collect()
    }

    #[test]
    fn chunks_move_from_the_fullest_to_the_emptiest_disk() {
        assert_eq!(wanted(&counts(&[(100, 50), (100, 80), (100, 0)]))[0], (DiskId(1), DiskId(2)));
        assert_eq!(wanted(&counts(&[(100, 50), (100, 52)])), [], "they are even");
        assert_eq!(wanted(&counts(&[(10, 5), (10, 4)])), [], "the other would be fuller then");
        assert_eq!(estimate(counts(&[(100, 90), (100, 90), (100, 0)])), 58);
        assert_eq!(estimate(counts(&[(100, 50), (400, 200)])), 0, "shares count, not chunks");
    }

    proptest! {
        #[test]
        fn it_ends_and_nothing_moves_back(
            disks in prop::collection::vec((1..300_u64, 0..300_u64), 1..8),
        ) {
            let disks: Vec<_> = disks.into_iter().map(|(all, used)| (all, used.min(all))).collect();
            let mut counts = counts(&disks);
            let mut gave = std::collections::BTreeSet::new();
            let mut moves = 0;
            while let Some((from, to)) = wanted(&counts).first().copied() {
                gave.insert(from);
                prop_assert!(!gave.contains(&to), "it gave before");
                shift(&mut counts, from, to);
                prop_assert!(counts.values().all(|(all, used)| used <= all));
                moves += 1;
                prop_assert!(moves <= 300 * 8, "it does not end");
            }
        }
    }
}

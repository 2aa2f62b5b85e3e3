//! Restoring redundancy: rebuilds onto spare chunks, and disks that are back get what they missed.
//!
//! A set whose member is gone gets a chunk of another disk as its replacement. Replacement and
//! returned members alike lack stripes, which the set's stale bits name; bringing those up to
//! date is all there is to do. As every set has its own chunk to be filled, all disks take part.

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream;

use super::expected::Newer;
use crate::core::{Core, Knowledge, Layer, State, Stripe};
use crate::label::MemberState;
use crate::membership::Event;
use crate::mutants::{Mutant, is};
use crate::raid::{Access, Heal, Left, Proof, ReadError, Seat, Set};
use crate::space::{Kind, width};
use crate::{BLOCK_BYTES, CLUSTER_BLOCKS, CLUSTER_BYTES, DiskId, Place};

/// Neighbouring stripes that are read and written at once, so that disks seldom seek: 4 MiB of a
/// disk, or 1 MiB where parity is computed or hosts want the disks too.
const RUN_STRIPES: u32 = 64;
const SHORT_RUN_STRIPES: u32 = 16;
/// Runs that are worked on at the same time: of several sets, so that all disks are busy.
const RUNS_IN_FLIGHT: usize = 24;

/// Stripes whose checksums are in memory at a time: some 100 bytes for each column.
const STRIPES_KNOWN_MAX: u64 = 1 << 17;
/// How often a stripe that hosts are changing is looked up anew in one pass.
pub(super) const LOOKS_MAX: usize = 8;

/// Stripes of a set that follow each other.
pub(super) type Run = (Arc<Set>, Range<u32>);

/// What became of stripes that were to be brought up to date.
#[derive(Debug, Default)]
pub(super) struct Outcome {
    /// Stripes that lack nothing any more.
    pub(super) refreshed: u64,
    /// Blocks that no disk has.
    lost: u64,
    /// Some stripe changes too fast to be copied now.
    is_unsure: bool,
    /// Which: the first of them.
    unsure: Vec<Stripe>,
}

impl Outcome {
    pub(super) fn add(&mut self, other: &Self) {
        self.refreshed += other.refreshed;
        self.lost += other.lost;
        self.is_unsure |= other.is_unsure;
        let room = STRIPES_KNOWN_MAX as usize - self.unsure.len();
        self.unsure.extend(other.unsure.iter().take(room));
    }
}

/// How many of these runs can be known at the same time.
fn group_len(work: &[Run]) -> usize {
    let mut stripes = 0;
    let fits = |(_, run): &&Run| {
        stripes += run.len() as u64;
        stripes <= STRIPES_KNOWN_MAX
    };
    work.iter().take_while(fits).count().max(1)
}

/// Errors of one disk of late after which its data is copied to others.
const ERRORS_MAX: u64 = 100;

impl Core {
    /// Restores redundancy; whether there was anything to do.
    pub(super) async fn restore(self: &Arc<Self>) -> bool {
        self.appoint_replacements();
        self.widen_metadata();
        self.record_lacking().await;
        let work = self.stale_work();
        let has_gained = !work.is_empty() && self.refresh_all(work).await;
        let is_more_there = self.promote_replacements().await | self.welcome_back().await;
        if is_more_there {
            self.lock().lost.look_again(self.env.now());
        }
        is_more_there | self.restore_waived().await | self.dismiss().await | has_gained
    }

    /// Disks whose chunks have to go to others.
    pub(super) fn leaving(&self) -> Vec<DiskId> {
        self.leaving_in(&self.lock())
    }

    pub(super) fn leaving_in(&self, state: &State) -> Vec<DiskId> {
        let now = self.env.now();
        let is_due = |since: Duration| now.saturating_sub(since) >= super::GRACE;
        let records = state.label.members.iter();
        let failed = records.filter(|record| record.state == MemberState::Failed);
        let away = state.away.iter().filter(|(_, (since, _))| is_due(*since));
        failed
            .map(|record| record.disk)
            .chain(away.map(|(disk, _)| *disk))
            .chain(state.tables.leaving.iter().copied())
            .chain(self.suspects_to_empty(state))
            .collect()
    }

    fn appoint_replacements(&self) {
        let leaving = self.leaving();
        self.reopen_disks(&leaving);
        if leaving.is_empty() {
            return;
        }
        for disk in &leaving {
            self.close_disk(&mut self.lock(), *disk);
        }
        let mut sets = self.sets.all();
        // Metadata first: what is kept for it is not given to data.
        sets.sort_by_key(|set| set.level());
        for set in sets {
            // One whose own disk has to go is no replacement any more.
            if set.replacement().is_some_and(|new| leaving.contains(&new.seat.disk))
                && set.drop_replacement()
            {
                self.want_checkpoint(&mut self.lock());
            }
            let members = set.members();
            let gone = (0..members.len()).filter(|at| leaving.contains(&members[*at].disk));
            // First what nobody has any more: the others still help.
            let gone = gone.min_by_key(|at| self.is_there(members[*at].disk));
            let Some(member) = gone.filter(|_| set.replacement().is_none()) else { continue };
            if !self.can_restore(&set, member) {
                continue;
            }
            let state = &mut *self.lock();
            let mut avoid: Vec<DiskId> = members.iter().map(|seat| seat.disk).collect();
            avoid.extend(&leaving);
            let chunks = &mut state.space.chunks;
            let chosen = match set.level() {
                Some(_) if !is(Mutant::TakeMaps) => chunks.allocate_beside_maps(&avoid, &leaving),
                _ => chunks.allocate_one(&avoid),
            };
            let Some((disk, chunk)) = chosen else {
                // Metadata has as many copies as there are disks, and now there is one less.
                if let Some(old) = set.remove_copy(members[member].disk) {
                    self.leave_chunk(state, &set, old);
                }
                continue;
            };
            let seat = Seat { disk, chunk };
            set.set_replacement(member, seat).expect("a disk that the set is not on");
            self.want_checkpoint(state);
        }
    }

    /// Metadata gets all its copies when there are disks for them: a set may be of a time when
    /// there were fewer, or when some were away.
    fn widen_metadata(&self) {
        let leaving = self.leaving();
        for set in self.sets.all().iter().filter(|set| set.level().is_none()) {
            let state = &mut *self.lock();
            let wanted = width(Kind::Metadata, state.space.chunks.disks_open()).unwrap_or(0);
            let mut avoid: Vec<DiskId> = set.members().iter().map(|seat| seat.disk).collect();
            // One that is to be replaced is a copy too.
            let missing = wanted.saturating_sub(avoid.len());
            avoid.extend(&leaving);
            avoid.extend(set.replacement().map(|new| new.seat.disk));
            for _ in 0..missing {
                let Some((disk, chunk)) = state.space.chunks.allocate_one(&avoid) else { break };
                let added = set.add_copy(Seat { disk, chunk });
                added.expect("a disk that the set is not on, and not too many");
                avoid.push(disk);
                let disks = set.members().iter().map(|seat| seat.disk).collect();
                state.space.pool.set_disks(set.id(), disks);
                self.want_checkpoint(state);
            }
        }
    }

    /// Whether something can give what this member had: itself, or redundancy.
    fn can_restore(&self, set: &Set, member: usize) -> bool {
        let members = set.members();
        let others = members.iter().enumerate();
        let others = others.filter(|(at, seat)| *at != member && self.is_there(seat.disk));
        self.is_there(members[member].disk) || others.count() >= members.len() - set.losses_max()
    }

    fn is_there(&self, disk: DiskId) -> bool {
        self.raid.disks().get(disk).is_some_and(|disk| disk.access() != Access::None)
    }

    /// Stripes that somebody lacks who is there to be given them.
    fn stale_work(&self) -> Vec<Run> {
        let mut queues: Vec<Vec<Run>> = Vec::new();
        for set in self.sets.all() {
            let is_long = set.shape().parity() == 0;
            let len_max = if is_long { RUN_STRIPES } else { SHORT_RUN_STRIPES };
            let mut queue: Vec<Run> = Vec::new();
            for stripe in set.stale_stripes() {
                if self.is_dead(&set, stripe) || !self.has_taker(&set, stripe) {
                    continue;
                }
                match queue.last_mut() {
                    Some((_, run)) if run.end == stripe && run.end - run.start < len_max => {
                        run.end += 1;
                    }
                    _ => queue.push((Arc::clone(&set), stripe..stripe + 1)),
                }
            }
            queues.push(queue);
        }
        // In turn from all sets, so that all disks read and write all the time.
        let longest = queues.iter().map(Vec::len).max().unwrap_or(0);
        let in_turn = (0..longest).flat_map(|row| queues.iter().filter_map(move |q| q.get(row)));
        in_turn.cloned().collect()
    }

    /// Whether somebody who is there lacks a stripe.
    pub(super) fn has_stale_work(&self) -> bool {
        !self.stale_work().is_empty()
    }

    /// A stripe that nothing lives in needs nothing; it is forgotten.
    fn is_dead(&self, set: &Set, stripe: u32) -> bool {
        let state = self.lock();
        // A set that was dissolved holds nothing.
        let Some(slots) = state.space.pool.slots(set.id()) else { return true };
        let is_dead = match set.level() {
            Some(_) => slots.taken_in(stripe) == 0,
            None => {
                let pages = (CLUSTER_BYTES / BLOCK_BYTES) as u32;
                (stripe * pages..(stripe + 1) * pages).all(|page| slots.taken_in(page) == 0)
            }
        };
        if is_dead {
            self.raid.forget_half(set.id(), stripe);
            set.forget(stripe);
        }
        is_dead
    }

    fn has_taker(&self, set: &Set, stripe: u32) -> bool {
        set.stale_seats(stripe).iter().any(|seat| {
            self.raid.disks().get(seat.disk).is_some_and(|disk| disk.access() == Access::Full)
        })
    }

    /// Brings stripes up to date, as many at a time as can be known. Whether another pass may find
    /// something to do: not when all that is left has to wait for a disk.
    async fn refresh_all(self: &Arc<Self>, mut work: Vec<Run>) -> bool {
        let stripes_of = |runs: &[Run]| runs.iter().map(|(_, run)| run.len() as u64).sum::<u64>();
        let strip = CLUSTER_BYTES as u64;
        let job = self.refresh_job(stripes_of(&work) * strip);
        let generation = self.lock().label.generation;
        let mut pace = self.pace();
        let mut outcome = Outcome::default();
        // Metadata first and for itself: it is little, and much hangs on it.
        work.sort_by_key(|(set, _)| set.level().is_some());
        let metadata = work.iter().take_while(|(set, _)| set.level().is_none()).count();
        let mut left = &work[..];
        while !left.is_empty() {
            let kind = metadata.saturating_sub(work.len() - left.len());
            let same_kind = if kind > 0 { &left[..kind] } else { left };
            let (group, rest) = left.split_at(group_len(same_kind));
            left = rest;
            let Some(known) = self.know_work(group).await else { break };
            let mut group = group;
            while !group.is_empty() {
                let is_short = pace.are_hosts_busy();
                let count = pace.pieces().min(group.len());
                let (step, rest) = group.split_at(count);
                group = rest;
                let done = self.refresh_step(step, &known, is_short).await;
                outcome.add(&done);
                job.add(stripes_of(step) * strip);
                let (is_stopped, now) = {
                    let state = self.lock();
                    (state.stopped.is_some(), state.label.generation)
                };
                if is_stopped || now != generation {
                    // Disks came or went: what they need is not in this list.
                    self.note_lost(outcome.lost);
                    return true;
                }
                self.upkeep_beat.rest();
                self.rest(&mut pace).await;
                self.upkeep_beat.at(super::RESTORING);
            }
        }
        self.note_lost(outcome.lost);
        let mut is_restored = outcome.refreshed > 0;
        if outcome.is_unsure {
            // The next look knows what was changed meanwhile.
            _ = self.checkpointed_for_upkeep().await;
            if !is_restored {
                let held = self.refresh_held(&outcome.unsure).await;
                self.note_lost(held.lost);
                is_restored = held.refreshed > 0;
                self.upkeep_beat.rest();
                self.env.sleep(super::LOOK).await;
                self.upkeep_beat.at(super::RESTORING);
            }
        }
        if is_restored {
            // Until then it may be in the caches of disks, and a start takes it for lacking still.
            self.want_checkpoint(&mut self.lock());
        }
        is_restored || outcome.is_unsure
    }

    async fn refresh_step(
        self: &Arc<Self>,
        step: &[Run],
        known: &Knowledge,
        is_short: bool,
    ) -> Outcome {
        let refreshes = step.iter().map(|(set, run)| self.refresh_run(set, run, known, is_short));
        let mut running = stream::iter(refreshes).buffer_unordered(RUNS_IN_FLIGHT);
        let mut outcome = Outcome::default();
        while let Some(done) = running.next().await {
            outcome.add(&done);
            self.upkeep_beat.tick();
        }
        outcome
    }

    /// Brings a run of stripes up to date.
    async fn refresh_run(
        self: &Arc<Self>,
        set: &Arc<Set>,
        run: &Range<u32>,
        known: &Knowledge,
        is_short: bool,
    ) -> Outcome {
        let len_max = if is_short { SHORT_RUN_STRIPES } else { RUN_STRIPES };
        let crc_of = |stripe: u32, column: usize, row: usize| known.crc(set, stripe, column, row);
        let is_current = |stripe: u32| known.changes(set, stripe) == 0;
        let mut outcome = Outcome::default();
        for from in run.clone().step_by(len_max as usize) {
            let part = from..run.end.min(from + len_max);
            self.touched.add(part.clone().map(|stripe| (set.id(), stripe)));
            let is_known = is(Mutant::BlindRun)
                || part.clone().all(|stripe| !self.has_unknown(set, stripe, known, false));
            if is_known && self.raid.refresh_run(set, part.clone(), &crc_of, &is_current).await {
                outcome.refreshed += part.len() as u64;
                continue;
            }
            for stripe in part {
                let one = self.refresh_one(set, stripe, known, Layer::Newest).await;
                outcome.unsure.extend(one.is_unsure.then_some((set.id(), stripe)));
                outcome.add(&one);
            }
        }
        outcome
    }

    /// Brings a stripe up to date, of which `layer` is on its disks.
    pub(super) async fn refresh_one(
        self: &Arc<Self>,
        set: &Arc<Set>,
        stripe: u32,
        known: &Knowledge,
        layer: Layer,
    ) -> Outcome {
        if self.is_dead(set, stripe) {
            return Outcome { refreshed: 1, ..Outcome::default() };
        }
        let unsure = Outcome { is_unsure: true, ..Outcome::default() };
        let changes = known.changes(set, stripe);
        if self.has_unknown(set, stripe, known, changes > 0) {
            return unsure;
        }
        let mut newer = Newer::new();
        if changes > 0 {
            let columns = known.columns(set.id(), stripe).iter().map(|(column, _)| *column);
            let all = columns.flat_map(|column| (0..CLUSTER_BLOCKS).map(move |row| (column, row)));
            let all = (all.collect(), &mut newer);
            if self.look_anew(set, stripe, (known, layer), all).await.is_none() {
                return unsure;
            }
        }
        self.touched.add([(set.id(), stripe)]);
        let is_current = &|| known.changes(set, stripe) == changes;
        let is_gone = self.gone_for_good();
        let mut is_sure = false;
        for _ in 0..LOOKS_MAX {
            let crc_of = |column: usize, row: usize| {
                let looked_up = newer.get(&(column, row)).copied();
                looked_up.unwrap_or_else(|| known.crc(set, stripe, column, row))
            };
            let proof = Proof { crcs: &crc_of, is_sure, is_current, is_gone: &is_gone };
            let refreshed = match self.raid.refresh_stripe(set, stripe, proof).await {
                Ok(refreshed) => refreshed,
                Err(ReadError::Later(_)) if layer == Layer::Newest => {
                    self.env.sleep(crate::core::RETRY).await;
                    continue;
                }
                Err(ReadError::Later(_)) => return unsure,
                Err(_) => return Outcome::default(),
            };
            if refreshed.is_outdated {
                return unsure;
            }
            self.queue_wrong(set, refreshed.heals, known).await;
            if refreshed.unproved.is_empty() || is_sure {
                let mut lost = 0;
                for (column, row) in refreshed.unproved {
                    let owner = known.column(set, stripe, column);
                    if owner.is_some_and(|owner| self.lock().is_abandoned(owner)) {
                        continue;
                    }
                    lost += 1;
                    if let Some((owner, crc)) = owner.zip(crc_of(column, row)) {
                        let place = Place::new(set.id(), set.shape().slot(stripe, column));
                        self.mark_lost(owner, row, (place, crc)).await;
                    }
                }
                let refreshed = u64::from(refreshed.left == 0);
                return Outcome { refreshed, lost, ..Outcome::default() };
            }
            // What the journal has is not lost, whatever lies beneath it.
            let rows = (refreshed.unproved, &mut newer);
            match self.look_anew(set, stripe, (known, Layer::Newest), rows).await {
                Some(are_as_before) => {
                    if are_as_before && let Some(left) = self.left_to_silence(set, layer).await {
                        return left;
                    }
                    is_sure = are_as_before;
                }
                None => return unsure,
            }
        }
        unsure
    }

    /// What a disk has that gives nothing at all now is not lost: the stripe is left, and tried again. While
    /// checkpoints wait nobody is put out: the next look does that.
    async fn left_to_silence(self: &Arc<Self>, set: &Set, layer: Layer) -> Option<Outcome> {
        match layer {
            Layer::OnDisks if self.may_be_silent(set).await => {
                Some(Outcome { is_unsure: true, ..Outcome::default() })
            }
            Layer::Newest if !is(Mutant::HastyLoss) && self.is_any_silent(set).await => {
                Some(Outcome::default())
            }
            _ => None,
        }
    }

    /// Has copies rewritten that turned out to be wrong. Not those that the journal is about to write
    /// over: there a loss of power may have left some copies as they were and some as they will be.
    async fn queue_wrong(&self, set: &Set, heals: Vec<Heal>, known: &Knowledge) {
        for heal in heals {
            let at = set.shape().locate(heal.slot);
            if self.expected(set, at, heal.block, known).await == Some(heal.crc) {
                self.queue_heals(vec![heal]);
            }
        }
    }

    fn note_lost(&self, blocks: u64) {
        if blocks > 0 {
            let text = format!("{blocks} blocks could not be restored: no disk has them");
            tracing::error!("{text}");
            self.lock().note(self.env.unix_seconds(), text);
        }
    }

    /// Replacements that lack nothing take their member's place with the next checkpoint; whether
    /// there were any.
    async fn promote_replacements(self: &Arc<Self>) -> bool {
        let mut any = false;
        for set in self.sets.all() {
            any |= set.promote_replacement();
        }
        any && self.checkpointed_for_upkeep().await.is_ok()
    }

    /// Disks that were away and lack nothing any more are members like others.
    async fn welcome_back(self: &Arc<Self>) -> bool {
        let stale: Vec<DiskId> = {
            let state = self.lock();
            let is_stale = |state: MemberState| matches!(state, MemberState::Stale(_));
            let records = state.label.members.iter().filter(|record| is_stale(record.state));
            records.map(|record| record.disk).collect()
        };
        let mut any = false;
        for disk in stale {
            if !self.is_up_to_date(disk) {
                continue;
            }
            // What it was given is durable after a checkpoint, and so is the note that it was.
            if self.checkpointed_for_upkeep().await.is_err() {
                return any;
            }
            let changed = self.change_label(|label, state| {
                // It may have failed again meanwhile, or have been given up.
                let state_of = label.member(disk).map(|record| record.state);
                let is_stale = matches!(state_of, Some(MemberState::Stale(_)));
                let is_back =
                    is_stale && !state.away.contains_key(&disk) && self.is_up_to_date(disk);
                if is_back { vec![Event::UpToDate(disk)] } else { Vec::new() }
            });
            if changed.await == Ok(true) {
                self.raid.disks().set_lacks_all(disk, false);
                let text = format!("disk {} is up to date again", self.disk_name(disk));
                tracing::info!("{text}");
                let state = &mut *self.lock();
                state.note(self.env.unix_seconds(), text);
                // It may hold journal and checkpoints again.
                self.want_checkpoint(state);
                any = true;
            }
        }
        any
    }

    /// Whether a disk is there and lacks nothing.
    fn is_up_to_date(&self, disk: DiskId) -> bool {
        let member = self.raid.disks().get(disk);
        member.is_some_and(|member| member.access() == Access::Full)
            && !self.sets.all().iter().any(|set| set.is_stale_on(disk))
    }

    /// Disks that are empty and were to leave are let go.
    async fn dismiss(self: &Arc<Self>) -> bool {
        let mut any = false;
        for disk in self.leaving() {
            let is_used = {
                let state = &mut *self.lock();
                state.empty_limbo();
                state.left_chunks.iter().any(|left| left.seat.disk == disk)
                    || state.space.chunks.counts(disk).is_some_and(|(_, used)| used > 0)
            };
            if is_used || self.lock().stays(disk) || !self.note_departure(disk).await {
                continue;
            }
            any |= self.retire(disk).await;
        }
        any
    }

    /// A chunk does not belong to a set any more; until the next checkpoint the last one says that
    /// it does.
    fn leave_chunk(&self, state: &mut State, set: &Set, chunk: Left) {
        let disks = set.members().iter().map(|seat| seat.disk).collect();
        state.space.pool.set_disks(set.id(), disks);
        state.left_chunks.push(chunk);
        self.want_checkpoint(state);
    }
}

/// Whether a disk has failed so often that it should be emptied while it still can be read.
pub(crate) fn is_suspect(disk: &crate::raid::Disk, now: Duration) -> bool {
    disk.access() == Access::Full && disk.recent_errors(now) > ERRORS_MAX
}

#[cfg(test)]
mod tests;

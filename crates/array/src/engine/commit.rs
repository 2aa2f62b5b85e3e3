//! The end of a checkpoint: new trees to disk, then the record that makes them count.

use std::collections::BTreeMap;
use std::sync::Arc;

use futures_util::StreamExt;
use futures_util::stream;

use super::Checkpoint;
use super::payload::{Kept, Payload};
use crate::VersionId;
use crate::core::{Limbo, Live, Request, State};
use crate::error::ArrayError;
use crate::label::MemberRecord;
use crate::mutants::{self, Mutant};
use crate::raid::Left;
use crate::tree::{Draft, Root};

/// Pages on their way to disk at the same time.
const PAGES_IN_FLIGHT: usize = 32;

impl Checkpoint {
    /// Makes a tree of a draft; its pages are written later, all together.
    pub(super) async fn commit_draft(&mut self, draft: Draft) -> Result<Root, ArrayError> {
        self.core.make_room_for_pages(draft.writes_max())?;
        let state = &mut *self.core.lock();
        let done = draft.commit(&mut || state.space.take_page());
        for (page_ref, page) in &done.writes {
            state.pages.hold(*page_ref, Arc::clone(page));
        }
        self.pages.extend(done.writes);
        self.freed_pages.extend(done.freed);
        Ok(done.root)
    }

    /// Makes the checkpoint the one to start from.
    pub(super) async fn commit(&mut self) -> Result<(), ArrayError> {
        self.apply_requests();
        self.core.checkpoint_beat.at("pages of the maps to be written");
        self.write_pages().await?;
        self.core.checkpoint_beat.at("its record to be written");
        // First these: a chunk that is left from here on may be in the record still.
        let left_chunks = std::mem::take(&mut self.core.lock().left_chunks);
        let payload = self.payload();
        payload.tables.check();
        let record = payload.encode();
        // Asked once: who is given the record has been given what is carried beside it.
        let joining = self.core.joining_holders();
        self.core.carry_halves(self.number, &self.given, &joining).await?;
        self.core.write_record(self.number, &record, joining).await?;
        let tables_bytes = payload.tables_bytes(record.len());
        self.settle(payload, tables_bytes, left_chunks);
        self.give_back().await;
        for (asker, result) in self.answers.drain(..) {
            asker.answer(result);
        }
        Ok(())
    }

    /// Does what operators asked for.
    fn apply_requests(&mut self) {
        let state = &mut *self.core.lock();
        for Request { change, asker } in std::mem::take(&mut self.requests) {
            let result = change(&mut self.next, state);
            self.answers.push((asker, result));
        }
    }

    async fn write_pages(&mut self) -> Result<(), ArrayError> {
        let core = Arc::clone(&self.core);
        let writes = std::mem::take(&mut self.pages).into_iter().map(|(page_ref, page)| {
            let core = Arc::clone(&core);
            async move {
                // Each of them, so that disks which answer at once do not get all pages in one go.
                core.let_others_run().await;
                core.write_page(page_ref.addr, &page).await
            }
        });
        let mut running = stream::iter(writes).buffer_unordered(PAGES_IN_FLIGHT);
        while let Some(result) = running.next().await {
            result?;
            core.checkpoint_beat.tick();
        }
        if !mutants::is(Mutant::NoFlush) {
            let marked = core.flush_marking(Some(self.number)).await?;
            // From here on they are told by that, also while the record is being written.
            let marks = marked.into_iter().map(|disk| (disk, self.number));
            if !mutants::is(Mutant::ForgetMarks) {
                core.lock().marks.extend(marks);
            }
            // Their disks may have gone before the flush, with what they had taken.
            core.check_flushed(&self.written)?;
        }
        Ok(())
    }

    fn payload(&mut self) -> Payload {
        let core = Arc::clone(&self.core);
        let state = &mut *core.lock();
        state.space.settle_maps(&self.gained, &self.freed, &self.freed_pages);
        state.space.give_up(&self.unused, &self.unused_pages);
        self.dissolve_sets(state);
        // Before the look at what the sets lack: it may become less in between.
        self.given = core.raid.given_halves(&|set| core.sets.find(set));
        self.next.leaving.retain(|disk| !state.retired(*disk));
        let is_trimmed = mutants::is(Mutant::TrimKept);
        let kept = state.live.iter().filter_map(|(id, live)| Some((*id, live.kept?)));
        let kept: BTreeMap<VersionId, Kept> =
            kept.filter(|(id, _)| self.next.volumes.contains_key(id) && !is_trimmed).collect();
        let mut marks = state.marks.clone();
        marks.retain(|disk, _| state.label.member(*disk).is_some_and(MemberRecord::is_used));
        let oldest = kept.values().map(|kept| kept.from).min_by_key(|from| from.position);
        Payload {
            number: self.number,
            mark: oldest.unwrap_or(self.mark),
            since: self.mark,
            kept,
            marks,
            epoch: self.epoch,
            next_version: state.next_version,
            next_set: state.space.next_set,
            level: self.core.level,
            tables: self.next.clone(),
            sets: self.core.sets.encode(),
            space: state.space.image(),
        }
    }

    /// Lets writers have what was trimmed, a part at a time: the memory of all of it takes tens of milliseconds to give
    /// back, in which nobody else on this core would get anything.
    async fn give_back(&self) {
        let core = &self.core;
        while core.journal.give_back_some() {
            core.let_others_run().await;
        }
        // What was kept may be in its place now, or purged.
        if core.journal.keeps_again() {
            core.keep_room();
        }
        let state = &mut *core.lock();
        state.kept_blocks = core.journal.used_blocks();
    }

    /// The record is durable: memory follows.
    fn settle(&mut self, payload: Payload, tables_bytes: u64, left_chunks: Vec<Left>) {
        let core = &self.core;
        let state = &mut *core.lock();
        (state.checkpoint, state.has_settled) = (self.number, true);
        state.since = payload.since;
        state.marks = payload.marks;
        state.record.settle(tables_bytes);
        state.redone.clear();
        core.raid.forget_given(&self.given);
        core.settle_caching(&state.tables, &payload.tables);
        state.tables = payload.tables;
        state.pages.release();
        for (volume, segments) in &self.frozen {
            if let Some(live) = state.live.get_mut(volume) {
                live.overlay.drop_frozen(segments.len());
            }
        }
        // From here on the volumes themselves keep it.
        for (level, clusters) in std::mem::take(&mut state.promised) {
            state.space.change_kept(level, clusters, 0);
        }
        state.adopt_volumes();
        let freed = self.freed.iter().chain(&self.unused);
        core.touched.recorded(freed.map(|place| core.stripe_of(*place)));
        let readers = state.pages.change_readers();
        let mut places = std::mem::take(&mut self.freed);
        let mut pages = std::mem::take(&mut self.freed_pages);
        places.append(&mut self.unused);
        pages.append(&mut self.unused_pages);
        state.limbo.push(Limbo { readers, places, pages });
        state.vacated.extend(left_chunks);
        state.vacated.extend(self.dissolved.drain(..).map(Left::unused));
        for set in core.sets.all() {
            let Some(left) = set.recorded() else { continue };
            state.vacated.push(left);
            let disks = set.members().iter().map(|seat| seat.disk).collect();
            state.space.pool.set_disks(set.id(), disks);
        }
        // Whoever was to be emptied may be empty now, and a volume that was set aside may return.
        if !state.vacated.is_empty() || state.live.values().any(|live| live.lost.is_some()) {
            core.upkeep.ring();
        }
        core.journal.let_go(payload.mark);
        state.empty_limbo();
        // Sets that are empty since then are for the next one.
        state.wants_checkpoint |= state.space.take_emptied();
    }
}

impl State {
    /// Every volume of the tables is live, and no other.
    pub(crate) fn adopt_volumes(&mut self) {
        let tables = &self.tables;
        let gone = self.live.extract_if(.., |id, _| !tables.volumes.contains_key(id));
        for (_, live) in gone {
            if let Some(level) = live.level {
                // A lost volume has changes that never got to their places.
                self.space.unreserve(level, live.overlay.promised());
                self.space.change_kept(level, live.thick_left, 0);
            }
            if live.is_aside() {
                // Nor did what it wrote directly get into a map: it is free with the next checkpoint.
                self.replaced.extend(live.overlay.placed());
            }
        }
        for (&id, volume) in &tables.volumes {
            let epoch = self.epoch;
            let live = self.live.entry(id).or_insert_with(|| Live::new(epoch));
            let clusters = volume.size_bytes.div_ceil(crate::CLUSTER_BYTES as u64);
            let is_thick = volume.thick && volume.deleted_unix_seconds.is_none();
            let left = match is_thick {
                true => clusters.saturating_sub(volume.head.mapped + live.overlay.drawn()),
                false => 0,
            };
            live.level = Some(volume.level);
            self.space.change_kept(volume.level, live.thick_left, left);
            live.thick_left = left;
        }
    }

    /// Gives back what nobody reads any more.
    pub(crate) fn empty_limbo(&mut self) {
        for Limbo { places, pages, .. } in Limbo::take_unread(&mut self.limbo) {
            self.space.release(&places, &pages);
        }
        for left in self.vacated.extract_if(.., |left| left.is_unused()) {
            self.space.chunks.release(left.seat.disk, left.seat.chunk);
        }
    }
}

impl Limbo {
    /// Takes out those, the oldest first, that nobody reads any more. Who began to read before an
    /// earlier checkpoint began before the later ones too.
    fn take_unread(all: &mut Vec<Self>) -> Vec<Self> {
        let is_held = |limbo: &Self| {
            Arc::strong_count(&limbo.readers) > 1 && !mutants::is(Mutant::ForgetReaders)
        };
        let unread = all.iter().position(is_held).unwrap_or(all.len());
        all.drain(..unread).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_somebody_reads_is_kept_and_all_that_was_freed_later() {
        let mut all: Vec<Limbo> = (0..4).map(|_| Limbo::default()).collect();
        let (early, late) = (Arc::clone(&all[1].readers), Arc::clone(&all[3].readers));
        assert_eq!(Limbo::take_unread(&mut all).len(), 1);
        assert_eq!(Limbo::take_unread(&mut all).len(), 0);
        drop(early);
        assert_eq!(Limbo::take_unread(&mut all).len(), 2);
        drop(late);
        assert_eq!(Limbo::take_unread(&mut all).len(), 1);
        assert!(all.is_empty());
    }
}

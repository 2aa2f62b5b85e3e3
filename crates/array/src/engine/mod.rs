//! The checkpoint: brings what the journal holds into place, and begins the journal anew.
//!
//! ```text
//!   freeze ── delete ── destage ── requests ── bitmaps ── pages ── record ── let go
//!     |         one       data        of        of the     of the    the      trim the
//!   journal   step of    to its    operators     sets     new trees  moment  journal,
//!   up to X  a deletion  places                           + flush    it holds free space
//! ```
//!
//! Invariants:
//! 1. Until the record is durable, everything that the last record refers to is as it was, except
//!    blocks that the journal still holds: those may be new, old or torn.
//! 2. What this checkpoint frees is used again only after its record is durable, and after those
//!    who began to read before it have ended.
//! 3. The journal is trimmed to X only after the record, which says that it begins at X, is durable.
//!    Of a volume that was set aside it holds on to what came before X.

mod apply;
mod aside;
mod commit;
mod delete;
mod destage;
mod dissolve;
mod end;
mod gather;
mod merge;
mod payload;
mod redo;
mod runner;

pub(crate) use end::CLOSED;
pub(crate) use merge::crcs_of;
pub(crate) use payload::{Kept, Payload};
pub(crate) use redo::{Unfinished, is_said_again, sound_for};

use std::sync::Arc;

use crate::core::{Asker, Core, Request, Stripe};
use crate::error::ArrayError;
use crate::journal::Mark;
use crate::mutants::{self, Mutant};
use crate::overlay::Segment;
use crate::raid::Seat;
use crate::tables::Tables;
use crate::tree::{Page, PageAddr, PageRef};
use crate::{Epoch, Place, VersionId};

/// One checkpoint on its way.
struct Checkpoint {
    core: Arc<Core>,
    number: u64,
    /// Where the journal begins afterwards, unless it keeps something for a volume set aside.
    mark: Mark,
    /// Of what the journal holds from there on. A snapshot may be taken while this runs.
    epoch: Epoch,
    /// Volumes with what is destaged, oldest segment first.
    frozen: Vec<(VersionId, Vec<Arc<Segment>>)>,
    /// Volumes that could not be destaged.
    aside: Vec<VersionId>,
    requests: Vec<Request>,
    /// What those are told who asked for changes that are made.
    answers: Vec<(Asker, Result<(), ArrayError>)>,
    /// What the tables become.
    next: Tables,
    /// Clusters that maps have from now on ...
    gained: Vec<Place>,
    /// ... and those that no map has any more.
    freed: Vec<Place>,
    freed_pages: Vec<PageAddr>,
    /// Promised places that changes have used up, or given back.
    paid: u64,
    /// Places and pages that were taken for a volume that had to be set aside.
    unused: Vec<Place>,
    unused_pages: Vec<PageAddr>,
    /// Stripes that were written for volumes that are not set aside: the journal is trimmed of it.
    written: Vec<Stripe>,
    /// Sets from this number on were made after it began: the journal tells of them.
    sets_before: u32,
    /// Chunks of sets that the record does not have any more.
    dissolved: Vec<Seat>,
    /// What was left half done, was given since, and is not needed any more once the record is durable.
    given: Vec<Stripe>,
    /// Pages to be written.
    pages: Vec<(PageRef, Arc<Page>)>,
}

impl Core {
    /// One checkpoint. If metadata cannot be read or written the array stops; whoever asked for
    /// something is answered in any case.
    pub(crate) async fn checkpoint(self: &Arc<Self>) {
        self.checkpoint_beat.at("a check of the maps to end");
        let _turn = self.checkpointing.take().await;
        if self.lock().stopped.is_some() {
            self.checkpoint_beat.rest();
            return;
        }
        self.keep_room();
        let mut run = self.freeze();
        self.throttle.begin(self.env.now(), run.clusters());
        if let Err(error) = run.carry_out().await {
            // First this: who is answered must not find the array running.
            self.stop(&error);
            run.refuse(&error);
        }
        self.throttle.end(self.env.now());
        self.checkpoint_beat.rest();
    }

    fn freeze(self: &Arc<Self>) -> Checkpoint {
        let state = &mut *self.lock();
        let epoch = state.epoch;
        let mark = self.journal.cut();
        state.moved = 0;
        let mut frozen = Vec::new();
        for (&volume, live) in &mut state.live {
            // What was set aside is there again with every checkpoint, as long as it lasts.
            let count = live.overlay.freeze(epoch);
            if count > 0 {
                frozen.push((volume, live.overlay.frozen(count)));
            }
        }
        Checkpoint {
            core: Arc::clone(self),
            number: state.checkpoint + 1,
            mark,
            epoch,
            frozen,
            aside: Vec::new(),
            requests: std::mem::take(&mut state.requests),
            answers: Vec::new(),
            next: state.tables.clone(),
            gained: Vec::new(),
            freed: std::mem::take(&mut state.replaced),
            freed_pages: Vec::new(),
            paid: 0,
            unused: Vec::new(),
            unused_pages: Vec::new(),
            written: Vec::new(),
            sets_before: state.space.next_set,
            dissolved: Vec::new(),
            given: Vec::new(),
            pages: Vec::new(),
        }
    }
}

impl Checkpoint {
    /// How many clusters have changed that can be put in their place.
    fn clusters(&self) -> u64 {
        let state = self.core.lock();
        let is_served = |volume| state.live.get(volume).is_some_and(|live| live.lost.is_none());
        let served = self.frozen.iter().filter(|(volume, _)| is_served(volume));
        let segments = served.flat_map(|(_, segments)| segments);
        segments.map(|segment| segment.patch_count() as u64).sum()
    }

    async fn carry_out(&mut self) -> Result<(), ArrayError> {
        // In place only what the journal has for sure: else a crash could leave a block that
        // neither the old checksum nor the journal explains.
        let beat = &Arc::clone(&self.core).checkpoint_beat;
        beat.at("the journal to be on its disks");
        self.core.journal.durable_until(self.mark).await?;
        if mutants::is(Mutant::EarlyTrim) {
            self.core.journal.trim(self.mark);
        }
        beat.at("maps of what is deleted");
        self.delete_step().await?;
        beat.at("data to be in its place");
        self.core.throttle.placing(self.core.env.now());
        self.destage().await?;
        self.core.throttle.placed(self.core.env.now());
        self.keep_aside().await?;
        self.commit().await
    }

    /// Tells all who asked for something that it did not happen: the record that has it is not
    /// durable.
    fn refuse(self, error: &ArrayError) {
        let waiting = self.requests.into_iter().map(|request| request.asker);
        for asker in waiting.chain(self.answers.into_iter().map(|(asker, _)| asker)) {
            asker.answer(Err(error.clone()));
        }
    }
}

//! When checkpoints happen.

use std::sync::Arc;
use std::time::Duration;

use block::BlockError;
use futures_util::future::{Either, select};

use crate::CLUSTER_BYTES;
use crate::core::{Asker, Core, RETRY, Request, State, Wanted};
use crate::error::ArrayError;
use crate::sync::Reply;
use crate::tables::Tables;

/// Changes wait in the journal for this long at most: then a crash has less to replay, and the
/// array has nothing to do afterwards.
const AGE_MAX: Duration = Duration::from_secs(10);
/// Share of the journal that may fill before a checkpoint begins, so that writers have the rest
/// while it runs.
const FILL_PERCENT_MAX: u64 = 40;
/// Clusters that may move to new places before one begins: 1 GiB, or a sixteenth of the array. The
/// old places are free only afterwards.
const MOVED_MAX: u64 = (1 << 30) / CLUSTER_BYTES as u64;
const MOVED_SHARE: u64 = 16;

/// How long a writer without space waits for those who read what was given back.
const READERS_TIME: Duration = Duration::from_secs(10);

/// With lost volumes in the journal, so much of it more begins the next checkpoint.
const KEPT_SHARE: u64 = 16;

impl Core {
    /// Makes checkpoints as long as the array is open.
    pub(crate) async fn run_checkpoints(self: Arc<Self>) {
        let mut oldest = None;
        loop {
            let mark = self.work.mark();
            match self.is_due() {
                Due::Now => {
                    oldest = None;
                    self.checkpoint().await;
                }
                Due::Later => {
                    // Also while hosts that are refused ring again and again.
                    let now = self.env.now();
                    let age = now.saturating_sub(*oldest.get_or_insert(now));
                    let sleep = self.env.sleep(AGE_MAX.saturating_sub(age));
                    let rung = std::pin::pin!(self.work.after(mark));
                    if let Either::Left(_) = select(sleep, rung).await {
                        self.lock().is_aged = true;
                    }
                }
                Due::Idle => self.work.after(mark).await,
                Due::Never => return,
            }
        }
    }

    fn is_due(&self) -> Due {
        let state = &mut *self.lock();
        state.wanted_for = None;
        if state.stopped.is_some() {
            return Due::Never;
        }
        let used = self.journal.used_blocks();
        let full = self.journal.blocks() * FILL_PERCENT_MAX / 100;
        let clusters = state.space.chunks.total() * self.layout.chunk_bytes / CLUSTER_BYTES as u64;
        let moved = MOVED_MAX.min(clusters / MOVED_SHARE).max(1);
        // What lost volumes keep there stays there: another checkpoint would change nothing.
        let kept = match state.live.values().any(|live| live.lost.is_some()) {
            true => state.kept_blocks + self.journal.blocks() / KEPT_SHARE,
            false => 0,
        };
        let full = self.begin_at(state, full.max(kept));
        let is_much = used > full || self.journal.is_to_be_trimmed() || state.moved >= moved;
        let is_deleting = state.tables.next_deletion().is_some();
        let is_wanted = std::mem::take(&mut state.is_aged) || state.wants_checkpoint;
        if is_much || is_wanted || is_deleting || !state.requests.is_empty() {
            state.wants_checkpoint = false;
            return Due::Now;
        }
        // The first change of all is looked at too: it must not wait for long.
        let used_blocks = if used > 0 { full + 1 } else { 1 };
        state.wanted_for = Some(Wanted { used_blocks, moved });
        if used > 0 { Due::Later } else { Due::Idle }
    }

    /// With how many blocks of the journal in use a checkpoint begins, where `most` would do: half way to where hosts
    /// have to leave the rest to what lost volumes have.
    fn begin_at(&self, state: &State, most: u64) -> u64 {
        if !state.live.values().any(|live| live.lost.is_some()) {
            return most;
        }
        let kept = state.kept_blocks;
        // Not where nothing has come since the last one.
        most.min((kept + self.journal.fill_level().limit) / 2).max(kept)
    }

    /// Something is to be in the next checkpoint, which comes at once.
    pub(crate) fn want_checkpoint(&self, state: &mut State) {
        state.wants_checkpoint = true;
        self.work.ring();
    }

    /// A change is in the journal: maybe it is time for a checkpoint.
    pub(crate) fn look_for_work(&self, state: &mut State, used_blocks: u64) {
        let moved = state.moved;
        let reached =
            |wanted: &mut Wanted| used_blocks >= wanted.used_blocks || moved >= wanted.moved;
        if state.wanted_for.take_if(reached).is_some() {
            self.work.ring();
        }
    }

    /// Nothing can be promised any more: all I/O ends with an error.
    pub(crate) fn stop(&self, error: &ArrayError) {
        let error = &self.reason_of(error);
        let requests = {
            let mut state = self.lock();
            // The first reason is the one that others follow from.
            if state.stopped.is_none() {
                tracing::error!("the array stops: {error}");
            }
            state.stopped.get_or_insert_with(|| error.to_string());
            std::mem::take(&mut state.requests)
        };
        for request in requests {
            request.asker.answer(Err(error.clone()));
        }
        self.journal.stop();
        self.work.ring();
        self.upkeep.ring();
        self.balanced.ring();
        self.holds.end_all();
    }

    /// Waits for space that a checkpoint may give back, and, if that was in `vain`, gives up what waits
    /// longest in the recycle bin.
    ///
    /// # Errors
    /// [`BlockError::NoSpace`] when there is nothing more to wait for, also when those who read what was
    /// given back do not end: what the recycle bin has would come to them too.
    pub(crate) async fn wait_for_space(self: &Arc<Self>, vain: bool) -> Result<(), BlockError> {
        if vain {
            self.empty_bin().await?;
        }
        // Maybe a disk that is to be emptied has to be used after all.
        self.upkeep.ring();
        // What one checkpoint frees is free for others when the next one begins.
        for _ in 0..2 {
            self.checkpointed().await.map_err(|_| BlockError::NoSpace)?;
            self.lock().empty_limbo();
        }
        self.outlast_readers().await
    }

    /// Gives up the volume that waits longest in the recycle bin.
    async fn empty_bin(self: &Arc<Self>) -> Result<(), BlockError> {
        let oldest = {
            let state = self.lock();
            let deleted = state.tables.volumes.iter();
            let deleted = deleted.filter_map(|(id, v)| Some((v.deleted_unix_seconds?, *id)));
            deleted.min().map(|(_, id)| (id, state.tables.volumes[&id].name.clone()))
        };
        let (id, name) = oldest.ok_or(BlockError::NoSpace)?;
        match self.purge(id).await {
            Ok(()) => {
                let text = format!(
                    "space is short: volume '{name}' is given up from the recycle bin for good"
                );
                tracing::warn!("{text}");
                self.lock().note(self.env.unix_seconds(), text);
                Ok(())
            }
            // Another one that waits was first.
            Err(ArrayError::NotDeleted(_)) => Ok(()),
            Err(_) => Err(BlockError::NoSpace),
        }
    }

    /// Waits until nobody reads any more what checkpoints have given back up to now.
    async fn outlast_readers(&self) -> Result<(), BlockError> {
        let began = self.env.now();
        let last = {
            let state = self.lock();
            let held = state.limbo.iter().rev().find(|limbo| !limbo.places.is_empty());
            held.map(|limbo| Arc::downgrade(&limbo.readers))
        };
        while last.as_ref().is_some_and(|readers| readers.strong_count() > 0) {
            if self.env.now().saturating_sub(began) >= READERS_TIME {
                return Err(BlockError::NoSpace);
            }
            self.env.sleep(RETRY).await;
            self.lock().empty_limbo();
        }
        Ok(())
    }

    /// Waits for a checkpoint that begins after this call.
    pub(crate) async fn checkpointed(self: &Arc<Self>) -> Result<(), ArrayError> {
        self.request(|_, _| Ok(())).await
    }

    /// Changes the tables with the next checkpoint; returns when that is durable.
    pub(crate) async fn request(
        self: &Arc<Self>,
        change: impl FnOnce(&mut Tables, &mut State) -> Result<(), ArrayError> + Send + 'static,
    ) -> Result<(), ArrayError> {
        let reply = Reply::new();
        {
            let mut state = self.lock();
            state.check_running()?;
            let asker = Asker::new(reply.clone());
            state.requests.push(Request { change: Box::new(change), asker });
        }
        self.work.ring();
        reply.taken().await
    }
}

/// Whether there is something to do.
enum Due {
    Now,
    /// When what is in the journal gets old.
    Later,
    Idle,
    Never,
}

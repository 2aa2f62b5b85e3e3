//! The one task that writes the journal, and the copying of it to a new holder.

use std::collections::VecDeque;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use block::{BlockError, Latency, WriteFlags};
use ring::Buf;

use super::answers::Flush;
use super::batch::Head;
use super::log::{Journal, Submission};
use super::{BLOCK, Holder, HolderFailed, IN_FLIGHT_MAX, Mark};
use crate::join::join_all;
use crate::mutants::{self, Mutant};
use crate::raid::{PASSING_TRIES_MAX, is_passing};
use crate::{BLOCK_BYTES, DiskId};

/// Pieces in which a new holder is filled.
const FILL_BYTES: u64 = 1 << 20;

type Results = Vec<Result<(), BlockError>>;

/// Something that is done on all holders.
struct Running<T> {
    what: T,
    task: Pin<Box<dyn Future<Output = Results>>>,
    results: Option<Results>,
    began: Duration,
}

impl<T> Running<T> {
    fn new(what: T, tasks: Vec<block::IoFuture<()>>, began: Duration) -> Self {
        Self { what, task: Box::pin(join_all(tasks)), results: None, began }
    }

    fn poll(&mut self, cx: &mut Context<'_>) {
        if self.results.is_none()
            && let Poll::Ready(results) = self.task.as_mut().poll(cx)
        {
            self.results = Some(results);
        }
    }

    fn has_ended(&self) -> bool {
        self.results.is_some()
    }
}

impl Journal {
    /// How long batches took to reach all holders, and how long flushes of them took.
    #[must_use]
    pub fn times(&self) -> (Latency, Latency) {
        (self.writes.counted(), self.flushes.counted())
    }

    /// Writes what is appended, as long as the journal is neither stopped nor without holders.
    /// Must run on one core, once.
    pub async fn run(self: Arc<Self>, hook: Arc<dyn HolderFailed>) {
        let mut writing: VecDeque<Running<Submission>> = VecDeque::new();
        let mut flushing: Option<Running<Flush>> = None;
        while self.failure().is_none() {
            while let Some(batch) = self.take() {
                writing.push_back(self.begin(batch, hook.now()));
            }
            assert!(writing.len() <= IN_FLIGHT_MAX, "take() keeps the limit");
            if let Some(flush) = self.take_flush() {
                flushing = Some(begin_flush(flush, &hook));
            }
            poll_fn(|cx| {
                writing.iter_mut().for_each(|batch| batch.poll(cx));
                flushing.iter_mut().for_each(|flush| flush.poll(cx));
                // A later batch that is complete waits for the first one: answers keep the order.
                let first_ended = writing.front().is_some_and(Running::has_ended);
                let flush_ended = flushing.as_ref().is_some_and(Running::has_ended);
                let wanted = self.has_work(cx.waker());
                if first_ended || flush_ended || wanted { Poll::Ready(()) } else { Poll::Pending }
            })
            .await;
            if let Some(flush) = flushing.take_if(|flush| flush.has_ended()) {
                self.settle_flush(flush, &*hook).await;
            }
            while let Some(first) = writing.pop_front_if(|first| first.has_ended()) {
                self.settle(first, &*hook).await;
            }
        }
    }

    /// Starts the writes of a batch to all holders.
    fn begin(&self, batch: Submission, now: Duration) -> Running<Submission> {
        let writes = batch.holders.iter().map(|holder| self.write_to(&batch, holder)).collect();
        Running::new(batch, writes, now)
    }

    fn write_to(&self, batch: &Submission, holder: &Holder) -> block::IoFuture<()> {
        let at = self.at + batch.offset as u64;
        let data = self.image.slice(batch.offset, batch.len);
        let flags = if batch.is_durable { WriteFlags::DURABLE } else { WriteFlags::VOLATILE };
        holder.device.write(at, data, flags)
    }

    /// That there is no memory for a write says nothing about its holder: it is tried once more. What
    /// is not acknowledged stays in the image until then.
    async fn insist(&self, batch: &Submission, results: &mut Results, hook: &dyn HolderFailed) {
        for (holder, result) in batch.holders.iter().zip(results) {
            for _ in 0..PASSING_TRIES_MAX {
                let is_passed = !matches!(result, Err(error) if is_passing(*error));
                if is_passed || !self.is_holder(holder.disk) {
                    break;
                }
                hook.pause().await;
                *result = self.write_to(batch, holder).await;
            }
        }
    }

    /// Acknowledges a batch that is on all its holders, or on those that are left.
    async fn settle(&self, writing: Running<Submission>, hook: &dyn HolderFailed) {
        let took = hook.now().saturating_sub(writing.began);
        let mut results = writing.results.expect("only batches that ended are settled");
        self.insist(&writing.what, &mut results, hook).await;
        let Submission { end, holders, is_durable, .. } = &writing.what;
        if self.settle_holders(*end, holders, &results, hook).await {
            self.writes.count(took);
            self.acknowledge(*end, *is_durable);
        }
    }

    /// What was written before the flush began is durable on the holders that are left.
    async fn settle_flush(&self, flushing: Running<Flush>, hook: &dyn HolderFailed) {
        let Flush { end, holders } = &flushing.what;
        let took = hook.now().saturating_sub(flushing.began);
        let results = flushing.results.expect("only a flush that ended is settled");
        let is_kept = self.settle_holders(*end, holders, &results, hook).await;
        if is_kept {
            self.flushes.count(took);
        }
        self.flushed(is_kept.then_some(*end));
    }

    /// Drops holders that failed; whether the journal goes on, on others if need be, and has all
    /// up to `end` there.
    async fn settle_holders(
        &self,
        end: Mark,
        holders: &[Holder],
        results: &Results,
        hook: &dyn HolderFailed,
    ) -> bool {
        let mut last_error = BlockError::LostWrites;
        let mut failed = Vec::new();
        for (holder, result) in holders.iter().zip(results) {
            let Err(error) = result else { continue };
            last_error = *error;
            // Not when an earlier batch or the array found out before: then the labels say so.
            if self.drop_holder(holder.disk) {
                failed.push((holder.disk, *error));
            }
        }
        let pairs = holders.iter().zip(results);
        let kept = pairs.filter(|(holder, result)| result.is_ok() && self.is_holder(holder.disk));
        let is_kept = kept.count() > 0 || self.was_filled_to(end);
        // The last one leaves the labels when another has all that it had.
        if !is_kept && !self.move_on(&failed, hook).await {
            self.fail(last_error);
        }
        for (disk, error) in failed {
            hook.holder_failed(disk, error).await;
        }
        self.failure().is_none()
    }

    /// The journal goes to other disks: it is in memory, all of it.
    async fn move_on(&self, failed: &[(DiskId, BlockError)], hook: &dyn HolderFailed) -> bool {
        let failed: Vec<DiskId> = failed.iter().map(|(disk, _)| *disk).collect();
        let (mut new, mut refused) = (Vec::new(), Vec::new());
        for holder in hook.successors(&failed) {
            match self.join(&holder).await {
                Ok(()) => new.push(holder.disk),
                Err(error) => {
                    tracing::warn!(%error, "disk {} is no holder", holder.disk.0);
                    if !is_passing(error) {
                        // It may be a flush that failed.
                        hook.flush_failed(holder.disk, error);
                        refused.push((holder.disk, error));
                    }
                }
            }
        }
        let is_moved = !new.is_empty() && hook.moved(new).await;
        for (disk, error) in refused {
            hook.holder_failed(disk, error).await;
        }
        is_moved
    }

    /// Writes go to this disk too, from the next batch on. It needs [`fill`](Self::fill) before
    /// labels may name it.
    pub fn add_holder(&self, holder: Holder) {
        let state = &mut *self.lock();
        state.holders.retain(|other| other.disk != holder.disk);
        state.filled.retain(|(disk, _)| *disk != holder.disk);
        state.holders.push(holder);
    }

    /// Writes go to no other disks than these from the next batch on.
    pub fn keep_holders(&self, keeps: impl Fn(DiskId) -> bool) {
        let state = &mut *self.lock();
        state.holders.retain(|holder| keeps(holder.disk));
        state.filled.retain(|(disk, _)| keeps(*disk));
    }

    /// Stops using `disk`; whether it was in use.
    pub(super) fn drop_holder(&self, disk: DiskId) -> bool {
        let state = &mut *self.lock();
        let before = state.holders.len();
        state.holders.retain(|holder| holder.disk != disk);
        state.filled.retain(|(filled, _)| *filled != disk);
        state.holders.len() < before
    }

    pub(super) fn is_holder(&self, disk: DiskId) -> bool {
        self.lock().holders.iter().any(|holder| holder.disk == disk)
    }

    /// Makes a disk a holder: it gets what there is, and all that is submitted from now on.
    ///
    /// # Errors
    /// Those of the device; then it is none.
    pub async fn join(&self, holder: &Holder) -> Result<(), BlockError> {
        // One of the life before may be there, if nobody has looked: it would follow what there is.
        if !self.has_begun()
            && let Some(offset) = self.end_offset()
        {
            let nothing = Buf::zeroed(BLOCK_BYTES).ok_or(BlockError::NoMemory)?.freeze();
            let at = self.at + offset as u64;
            holder.device.write(at, nothing, WriteFlags::VOLATILE).await?;
        }
        self.add_holder(holder.clone());
        let result = self.fill(holder).await;
        if result.is_err() {
            self.drop_holder(holder.disk);
        }
        result
    }

    /// Says on all holders that nothing follows the last batch, when the journal has stopped: the next
    /// opening looks there, and must not depend on a sector that nobody has read for long. A holder
    /// that does not take it says the same without, if its sector is well.
    pub async fn put_end(&self) {
        let (Some(offset), Some(nothing)) = (self.end_offset(), Buf::zeroed(BLOCK_BYTES)) else {
            return;
        };
        let (at, nothing) = (self.at + offset as u64, nothing.freeze());
        let end = self.trimmed_end();
        let put = |holder: Holder| {
            let nothing = nothing.clone();
            Box::pin(async move {
                holder.device.write(at, nothing, WriteFlags::DURABLE).await?;
                match end {
                    Some(end) => self.anchor(&holder, end).await,
                    None => Ok(()),
                }
            })
        };
        let results = join_all(self.holders().into_iter().map(put).collect()).await;
        for error in results.into_iter().filter_map(Result::err) {
            tracing::debug!(%error, "a holder of the journal does not take its end");
        }
    }

    /// Copies all of the journal to `holder`, durably: to one that lagged when it was scanned, or
    /// to one that was [added](Self::add_holder).
    ///
    /// # Errors
    /// Those of the device.
    pub async fn fill(&self, holder: &Holder) -> Result<(), BlockError> {
        let (from, end) = self.begin_to_fill();
        let copied = match mutants::is(Mutant::NoFill) {
            true => Ok(()),
            false => self.copy(holder, from, end).await,
        };
        // What a journal holds that has failed is not what was answered.
        let failure = self.failure().filter(|_| !mutants::is(Mutant::FailedFill));
        let result = copied.and(failure.map_or(Ok(()), Err));
        if result.is_ok() {
            self.note_filled(holder.disk, end);
        }
        self.filled();
        result
    }

    async fn copy(&self, holder: &Holder, from: u64, end: Mark) -> Result<(), BlockError> {
        let ring_bytes = self.image.len() as u64;
        if from == end.position {
            self.anchor(holder, end).await?;
        }
        let mut at = from;
        while at < end.position {
            let offset = self.offset(at);
            let len = FILL_BYTES.min(end.position - at).min(ring_bytes - offset as u64);
            let to = self.at + offset as u64;
            let data = self.image.slice(offset, len as usize);
            holder.device.write(to, data, WriteFlags::VOLATILE).await?;
            at += len;
        }
        if mutants::is(Mutant::VolatileFill) {
            return Ok(());
        }
        holder.device.flush().await
    }
}

/// So many blocks before the end of a journal of which nothing is left its holders say that they have it.
const ANCHORS: [u64; 3] = [1, 64, 256];

impl Journal {
    /// A start believes no holder without the batch that ends where the checkpoint did: it gets what
    /// looks like that, at some distance of each other, where nothing is left.
    async fn anchor(&self, holder: &Holder, end: Mark) -> Result<(), BlockError> {
        if end.sequence == 0 || mutants::is(Mutant::NoAnchor) {
            return Ok(());
        }
        let in_ring = (end.position - 1) % self.image.len() as u64 + 1;
        for blocks in ANCHORS.into_iter().filter(|blocks| blocks * BLOCK <= in_ring) {
            let block = Head::last_before(self.array, end, blocks).ok_or(BlockError::NoMemory)?;
            let at = self.at + self.offset(end.position - blocks * BLOCK) as u64;
            holder.device.write(at, block, WriteFlags::VOLATILE).await?;
        }
        Ok(())
    }
}

fn begin_flush(flush: Flush, hook: &Arc<dyn HolderFailed>) -> Running<Flush> {
    if mutants::is(Mutant::NoJournalFlush) {
        let done = |_: &Holder| block::IoFuture::ready(Ok(()));
        let flushes = flush.holders.iter().map(done).collect();
        return Running::new(flush, flushes, hook.now());
    }
    let flushed = |holder: &Holder| {
        let (disk, flushing, hook) = (holder.disk, holder.device.flush(), Arc::clone(hook));
        block::IoFuture::boxed(async move {
            flushing.await.inspect_err(|error| hook.flush_failed(disk, *error))
        })
    };
    let flushes = flush.holders.iter().map(flushed).collect();
    Running::new(flush, flushes, hook.now())
}

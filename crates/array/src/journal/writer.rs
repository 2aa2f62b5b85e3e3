//! The one task that writes the journal, and the copying of it to a new holder.

use std::collections::VecDeque;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;

use block::{BlockError, WriteFlags};
use ring::Buf;

use super::log::{Journal, Submission};
use super::{Holder, HolderFailed, IN_FLIGHT_MAX, Mark};
use crate::join::join_all;

/// Pieces in which a new holder is filled.
const FILL_BYTES: u64 = 1 << 20;

type Results = Vec<Result<(), BlockError>>;

struct Writing {
    batch: Submission,
    running: Pin<Box<dyn Future<Output = Results>>>,
    results: Option<Results>,
}

impl Journal {
    /// Writes what is appended, as long as the journal is neither stopped nor without holders.
    /// Must run on one core, once.
    pub async fn run(self: Arc<Self>, hook: Arc<dyn HolderFailed>) {
        let mut writing: VecDeque<Writing> = VecDeque::new();
        while self.failure().is_none() {
            while let Some(batch) = self.take() {
                writing.push_back(self.begin(batch));
            }
            assert!(writing.len() <= IN_FLIGHT_MAX, "take() keeps the limit");
            poll_fn(|cx| {
                for batch in writing.iter_mut().filter(|batch| batch.results.is_none()) {
                    if let Poll::Ready(results) = batch.running.as_mut().poll(cx) {
                        batch.results = Some(results);
                    }
                }
                // A later batch that is complete waits for the first one: answers keep the order.
                let first_ended = writing.front().is_some_and(|first| first.results.is_some());
                let wanted = self.has_work(cx.waker());
                if first_ended || wanted { Poll::Ready(()) } else { Poll::Pending }
            })
            .await;
            while let Some(first) = writing.pop_front_if(|first| first.results.is_some()) {
                self.settle(first, &*hook).await;
            }
        }
    }

    /// Starts the writes of a batch to all holders.
    fn begin(&self, batch: Submission) -> Writing {
        let at = self.at + batch.offset as u64;
        let data = self.image.slice(batch.offset, batch.len);
        let writes = batch
            .holders
            .iter()
            .map(|holder| holder.device.write(at, data.clone(), WriteFlags::DURABLE));
        let running = Box::pin(join_all(writes.collect()));
        Writing { batch, running, results: None }
    }

    /// Acknowledges a batch that is on all its holders, or on those that are left.
    async fn settle(&self, writing: Writing, hook: &dyn HolderFailed) {
        let results = writing.results.expect("only batches that ended are settled");
        let mut last_error = BlockError::LostWrites;
        for (holder, result) in writing.batch.holders.iter().zip(&results) {
            let Err(error) = result else { continue };
            last_error = *error;
            // Not when an earlier batch or the array found out before: then the labels say so.
            if self.drop_holder(holder.disk) {
                hook.holder_failed(holder.disk, *error).await;
            }
        }
        let holders = writing.batch.holders.iter().zip(&results);
        let kept = holders.filter(|(holder, result)| result.is_ok() && self.is_holder(holder.disk));
        if kept.count() == 0 {
            self.fail(last_error);
        }
        if self.failure().is_none() {
            self.acknowledge(writing.batch.end);
        }
    }

    /// Copies all of the journal to `holder`, durably: to one that lagged when it was scanned, or
    /// to a new one that [`set_holders`](Self::set_holders) has named before. Nothing may be
    /// trimmed meanwhile.
    ///
    /// # Errors
    /// Those of the device, or of the journal.
    pub async fn fill(&self, holder: &Holder) -> Result<(), BlockError> {
        let from = self.tail();
        // All batches up to here are complete in the image; later ones go to the holder anyway.
        let end: Mark = self.cut();
        self.durable_until(end).await?;
        let ring_bytes = self.image.len() as u64;
        let mut at = from;
        while at < end.position {
            assert_eq!(self.tail(), from, "nothing is trimmed while a holder is filled");
            let offset = self.offset(at);
            let len = FILL_BYTES.min(end.position - at).min(ring_bytes - offset as u64);
            let mut buf = Buf::alloc(len as usize).ok_or(BlockError::NoMemory)?;
            self.image.read_into(offset, &mut buf);
            let to = self.at + offset as u64;
            holder.device.write(to, buf.freeze(), WriteFlags::VOLATILE).await?;
            at += len;
        }
        holder.device.flush().await
    }
}

//! When what was appended counts as written and as durable, and who waits for that.

use std::collections::BTreeMap;
use std::future::poll_fn;
use std::task::{Poll, Waker};

use block::BlockError;

use super::log::{Journal, State, register};
use super::{FLUSH_BYTES, Holder, IN_DOUBT_BYTES_MAX, Mark, Ticket};
use crate::mutants::{self, Mutant};

/// A flush of all holders.
#[derive(Debug)]
pub(super) struct Flush {
    /// What comes before is durable once it has ended.
    pub(super) end: Mark,
    pub(super) holders: Vec<Holder>,
}

type Waiting = BTreeMap<u64, Vec<Waker>>;

impl Journal {
    /// Waits until everything up to the batch of `ticket` survives what an answer promises: a loss
    /// of power, or, after [`append_volatile`](Self::append_volatile) and unless it must be
    /// `durable`, the end of the process.
    ///
    /// # Errors
    /// When that cannot be any more.
    pub async fn answered(&self, ticket: Ticket, durable: bool) -> Result<(), BlockError> {
        if durable || ticket.is_durable {
            return self.durable(ticket).await;
        }
        if mutants::is(Mutant::EarlyVolatileAck) {
            return Ok(());
        }
        self.written_to(ticket.batch).await
    }

    /// Waits until everything up to the batch of `ticket` is durable.
    ///
    /// # Errors
    /// When it cannot become durable any more.
    pub async fn durable(&self, ticket: Ticket) -> Result<(), BlockError> {
        self.durable_to(ticket.batch).await
    }

    /// Waits until everything before `mark` is durable.
    ///
    /// # Errors
    /// Those of [`durable`](Self::durable).
    pub async fn durable_until(&self, mark: Mark) -> Result<(), BlockError> {
        self.durable_to(mark.sequence).await
    }

    /// Waits until everything that was appended so far is durable.
    ///
    /// # Errors
    /// Those of [`durable`](Self::durable).
    pub async fn flush(&self) -> Result<(), BlockError> {
        let last = self.lock().end();
        self.durable_until(last).await
    }

    async fn written_to(&self, sequence: u64) -> Result<(), BlockError> {
        self.wait(sequence, |state| (state.written, &mut state.written_acks)).await
    }

    async fn durable_to(&self, sequence: u64) -> Result<(), BlockError> {
        if mutants::is(Mutant::EarlyAck) {
            return Ok(());
        }
        self.wait(sequence, |state| (state.durable, &mut state.acks)).await
    }

    async fn wait(
        &self,
        sequence: u64,
        what: impl Fn(&mut State) -> (Mark, &mut Waiting),
    ) -> Result<(), BlockError> {
        poll_fn(|cx| {
            let state = &mut *self.lock();
            let failure = state.failure;
            let (reached, waiting) = what(state);
            if reached.sequence >= sequence {
                return Poll::Ready(Ok(()));
            }
            if let Some(error) = failure {
                return Poll::Ready(Err(error));
            }
            register(waiting.entry(sequence).or_default(), cx.waker());
            if state.wants_flush() {
                state.writer.take().into_iter().for_each(Waker::wake);
            }
            Poll::Pending
        })
        .await
    }

    /// The oldest batch in flight is on its holders, and as `is_durable` says.
    pub(super) fn acknowledge(&self, end: Mark, is_durable: bool) {
        let state = &mut *self.lock();
        assert!(state.written.sequence < end.sequence, "acknowledged in order");
        state.in_flight -= 1;
        state.written = end;
        let written = reached(&mut state.written_acks, end);
        let durable = if is_durable { state.make_durable(end) } else { Vec::new() };
        written.into_iter().chain(durable).for_each(Waker::wake);
    }

    /// The flush that has to be done now, if any.
    pub(super) fn take_flush(&self) -> Option<Flush> {
        let state = &mut *self.lock();
        if !state.wants_flush() || state.failure.is_some() {
            return None;
        }
        state.is_flushing = true;
        Some(Flush { end: state.written, holders: state.holders.clone() })
    }

    /// A flush has ended; with `end` it has made durable what comes before.
    pub(super) fn flushed(&self, end: Option<Mark>) {
        let state = &mut *self.lock();
        state.is_flushing = false;
        let durable = end.map(|end| state.make_durable(end));
        durable.into_iter().flatten().for_each(Waker::wake);
    }
}

impl State {
    /// Whether the next batch has to wait for a flush: more than what a recovery looks through must
    /// not be in doubt.
    pub(super) fn is_in_doubt(&self) -> bool {
        let next = self.sealed.front().or(self.open.as_ref());
        next.is_some_and(|next| next.end().position - self.durable.position > IN_DOUBT_BYTES_MAX)
    }

    /// Whether somebody waits for a flush, or it is time for one.
    pub(super) fn wants_flush(&self) -> bool {
        let in_doubt = self.written.position - self.durable.position;
        let first_wanted = self.acks.first_key_value().map(|(sequence, _)| *sequence);
        let is_wanted = first_wanted.is_some_and(|first| first <= self.written.sequence);
        !self.is_flushing && in_doubt > 0 && (is_wanted || in_doubt >= FLUSH_BYTES)
    }

    /// Who waited for that.
    fn make_durable(&mut self, end: Mark) -> Vec<Waker> {
        if self.durable.sequence < end.sequence {
            self.durable = end;
        }
        reached(&mut self.acks, end)
    }
}

/// Who waits for nothing more than `end`.
fn reached(waiting: &mut Waiting, end: Mark) -> Vec<Waker> {
    let later = waiting.split_off(&(end.sequence + 1));
    std::mem::replace(waiting, later).into_values().flatten().collect()
}

//! Work at slices that holds stripes until it is over.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use crate::locks::{StripeGuard, StripeLocks};
use crate::mutants::{self, Mutant};
use crate::{BlockError, IoFuture};

pub(super) type Held = StripeGuard<Arc<StripeLocks>>;

/// What becomes of work whose future is dropped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Work {
    /// It ends there: nobody misses what was read.
    Read,
    /// It goes on as a task of its own: a slice may still write, and the stripes must not be let go
    /// before it has.
    Change,
}

/// Work that is under way, with the stripes that it holds.
pub(super) struct UnderWay<T: 'static> {
    kind: Work,
    /// `None` once it is over.
    running: Option<(IoFuture<T>, Held)>,
}

impl<T> UnderWay<T> {
    pub(super) fn new(kind: Work, work: IoFuture<T>, held: Held) -> Self {
        Self { kind, running: Some((work, held)) }
    }
}

impl<T> Future for UnderWay<T> {
    type Output = Result<T, BlockError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let (work, _) = self.running.as_mut().expect("it is not polled after its end");
        let result = Pin::new(work).poll(cx);
        if result.is_ready() {
            self.running = None;
        }
        result
    }
}

impl<T> Drop for UnderWay<T> {
    fn drop(&mut self) {
        let Some((work, held)) = self.running.take() else { return };
        if self.kind == Work::Read || mutants::is(Mutant::ReleaseDropped) {
            return;
        }
        ring::spawn(async move {
            // The result has nobody to go to: the task it belonged to was aborted.
            let _result = work.await;
            drop(held);
        });
    }
}

//! Several futures at once, within one task.

use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::task::{Context, Poll, ready};

/// Runs all `futures` side by side until the last one is over, and gathers their results in the order of the
/// futures, whichever ended first. Those of fallible ones may be gathered in a `Result`, which is the
/// first error among them; all run to their end in any case, so that none is still changing anything.
///
/// Each wake-up polls all that still run: it is meant for tens of them.
pub async fn join_all<F, All>(futures: impl IntoIterator<Item = F>) -> All
where
    F: Future,
    All: FromIterator<F::Output>,
{
    let slots: Box<[Slot<F>]> = futures.into_iter().map(Slot::Runs).collect();
    let mut slots = Box::into_pin(slots);
    poll_fn(|cx| {
        // SAFETY: the slots are pinned, and each is only handed on as pinned.
        let each = unsafe { slots.as_mut().get_unchecked_mut() }.iter_mut();
        let mut is_over = true;
        for slot in each {
            // SAFETY: as above.
            is_over &= unsafe { Pin::new_unchecked(slot) }.poll(cx).is_ready();
        }
        if is_over { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
    // SAFETY: only futures are pinned, and all of them were dropped where they stood.
    let slots = unsafe { Pin::into_inner_unchecked(slots) };
    let result = |slot| match slot {
        Slot::Over(value) => value,
        Slot::Runs(_) => unreachable!("each future ended with a result"),
    };
    slots.into_iter().map(result).collect()
}

/// Invariant: a future that was polled stays where it is until it is dropped.
enum Slot<F: Future> {
    Runs(F),
    Over(F::Output),
}

impl<F: Future> Slot<F> {
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        // SAFETY: the future is not moved: it is polled in its place, and dropped there by the
        // assignment. A result is not pinned.
        let slot = unsafe { self.get_unchecked_mut() };
        if let Self::Runs(future) = slot {
            // SAFETY: it is in a pinned slot.
            let value = ready!(unsafe { Pin::new_unchecked(future) }.poll(cx));
            *slot = Self::Over(value);
        }
        Poll::Ready(())
    }
}

/// Runs two futures side by side until both are over.
pub async fn both<A, B>(left: impl Future<Output = A>, right: impl Future<Output = B>) -> (A, B) {
    let (mut left, mut right) = (pin!(left), pin!(right));
    let (mut a, mut b) = (None, None);
    poll_fn(|cx| {
        if a.is_none()
            && let Poll::Ready(result) = left.as_mut().poll(cx)
        {
            a = Some(result);
        }
        if b.is_none()
            && let Poll::Ready(result) = right.as_mut().poll(cx)
        {
            b = Some(result);
        }
        match (a.take(), b.take()) {
            (Some(a), Some(b)) => Poll::Ready((a, b)),
            (left, right) => {
                (a, b) = (left, right);
                Poll::Pending
            }
        }
    })
    .await
}

/// Which of two futures was over first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Either<A, B> {
    /// The first one.
    Left(A),
    /// The second one.
    Right(B),
}

/// Runs two futures side by side until one is over, and drops the other. If both are over at once it is
/// `left` that counts; `right` was not polled then.
pub async fn first<A, B>(
    left: impl Future<Output = A>,
    right: impl Future<Output = B>,
) -> Either<A, B> {
    let (mut left, mut right) = (pin!(left), pin!(right));
    poll_fn(|cx| {
        if let Poll::Ready(value) = left.as_mut().poll(cx) {
            return Poll::Ready(Either::Left(value));
        }
        right.as_mut().poll(cx).map(Either::Right)
    })
    .await
}

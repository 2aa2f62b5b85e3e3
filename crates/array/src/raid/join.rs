//! Several I/Os at once within one task.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::Poll;

/// Polls all futures until each has ended; their results in order.
pub(super) async fn join_all<F: Future>(futures: impl IntoIterator<Item = F>) -> Vec<F::Output> {
    let mut running: Vec<Option<Pin<Box<F>>>> =
        futures.into_iter().map(|future| Some(Box::pin(future))).collect();
    let mut results: Vec<Option<F::Output>> = running.iter().map(|_| None).collect();
    poll_fn(|cx| {
        let mut is_pending = false;
        for (slot, result) in running.iter_mut().zip(&mut results) {
            let Some(future) = slot else { continue };
            match future.as_mut().poll(cx) {
                Poll::Ready(value) => {
                    *result = Some(value);
                    *slot = None;
                }
                Poll::Pending => is_pending = true,
            }
        }
        if is_pending { Poll::Pending } else { Poll::Ready(()) }
    })
    .await;
    results.into_iter().map(|result| result.expect("every future has ended")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    use std::pin::pin;
    use std::task::{Context, Waker};

    #[test]
    fn results_keep_their_order_whoever_ends_first() {
        let countdown = |polls: u32| {
            let mut left = polls;
            poll_fn(move |_| {
                left = left.saturating_sub(1);
                if left == 0 { Poll::Ready(polls) } else { Poll::Pending }
            })
        };
        let mut joined = pin!(join_all([3, 1, 2].map(countdown)));
        let mut cx = Context::from_waker(Waker::noop());
        assert!(joined.as_mut().poll(&mut cx).is_pending());
        assert!(joined.as_mut().poll(&mut cx).is_pending());
        assert_eq!(joined.as_mut().poll(&mut cx), Poll::Ready(vec![3, 1, 2]));
    }

    #[test]
    fn nothing_to_wait_for_ends_at_once() {
        let mut joined = pin!(join_all(std::iter::empty::<std::future::Ready<()>>()));
        let mut cx = Context::from_waker(Waker::noop());
        assert!(joined.as_mut().poll(&mut cx).is_ready());
    }
}

//! Waiting for the same operation on several disks.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::Poll;

/// Runs all `futures` side by side and gives their results in the same order.
pub(crate) async fn join_all<F: Future + Unpin>(futures: Vec<F>) -> Vec<F::Output> {
    let count = futures.len();
    let mut running: Vec<Option<F>> = futures.into_iter().map(Some).collect();
    let mut results: Vec<Option<F::Output>> = running.iter().map(|_| None).collect();
    poll_fn(|cx| {
        let mut pending = false;
        for (slot, result) in running.iter_mut().zip(&mut results) {
            let Some(future) = slot else { continue };
            match Pin::new(future).poll(cx) {
                Poll::Ready(value) => {
                    *slot = None;
                    *result = Some(value);
                }
                Poll::Pending => pending = true,
            }
        }
        if pending { Poll::Pending } else { Poll::Ready(()) }
    })
    .await;
    let results: Vec<F::Output> = results.into_iter().flatten().collect();
    assert_eq!(results.len(), count, "each future ended with a result");
    results
}

#[cfg(test)]
mod tests {
    use std::task::{Context, Waker};

    use super::*;

    #[test]
    fn results_come_in_order_whoever_ends_first() {
        let slow = |polls: usize| {
            let mut left = polls;
            Box::pin(poll_fn(move |_| {
                left = left.saturating_sub(1);
                if left == 0 { Poll::Ready(polls) } else { Poll::Pending }
            }))
        };
        let mut all = Box::pin(join_all(vec![slow(3), slow(1), slow(2)]));
        let mut cx = Context::from_waker(Waker::noop());
        assert!(all.as_mut().poll(&mut cx).is_pending());
        assert!(all.as_mut().poll(&mut cx).is_pending());
        assert_eq!(all.as_mut().poll(&mut cx), Poll::Ready(vec![3, 1, 2]));
    }

    #[test]
    fn nothing_to_wait_for_is_over_at_once() {
        let mut none = Box::pin(join_all(Vec::<std::future::Ready<u8>>::new()));
        let mut cx = Context::from_waker(Waker::noop());
        assert_eq!(none.as_mut().poll(&mut cx), Poll::Ready(vec![]));
    }
}

//! Operations that overlap.

use std::future::poll_fn;
use std::pin::Pin;
use std::task::Poll;

use crate::{BlockError, IoFuture};

/// Polls all of them until each has ended. One after the other will not do: an operation may hold
/// what another one waits for until it is polled itself.
pub(super) async fn all<T>(futures: Vec<IoFuture<T>>) -> Vec<Result<T, BlockError>> {
    both(futures, Vec::<IoFuture<()>>::new()).await.0
}

/// As [`all`], for operations of two kinds.
pub(super) async fn both<T, U>(
    mut these: Vec<IoFuture<T>>,
    mut those: Vec<IoFuture<U>>,
) -> (Vec<Result<T, BlockError>>, Vec<Result<U, BlockError>>) {
    let mut done: Vec<_> = these.iter().map(|_| None).collect();
    let mut others: Vec<_> = those.iter().map(|_| None).collect();
    poll_fn(|cx| {
        for (future, done) in these.iter_mut().zip(&mut done).filter(|(_, done)| done.is_none()) {
            if let Poll::Ready(result) = Pin::new(future).poll(cx) {
                *done = Some(result);
            }
        }
        for (future, done) in those.iter_mut().zip(&mut others).filter(|(_, done)| done.is_none()) {
            if let Poll::Ready(result) = Pin::new(future).poll(cx) {
                *done = Some(result);
            }
        }
        let is_over = done.iter().all(Option::is_some) && others.iter().all(Option::is_some);
        if is_over { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
    (done.into_iter().flatten().collect(), others.into_iter().flatten().collect())
}

/// Polls a future once and drops it, as an abort does.
pub(super) async fn poll_and_drop<T>(mut future: IoFuture<T>) {
    poll_fn(|cx| {
        // Its result does not matter: it may have ended.
        let _ = Pin::new(&mut future).poll(cx);
        Poll::Ready(())
    })
    .await;
}

//! The pieces of one request, which run side by side.

use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context, Poll};

use crate::{BlockError, IoFuture};

enum Step<T> {
    UnderWay(IoFuture<T>),
    Over(Result<T, BlockError>),
}

impl<T> Step<T> {
    fn of(piece: IoFuture<T>) -> Self {
        match piece.into_ready() {
            Ok(result) => Self::Over(result),
            Err(piece) => Self::UnderWay(piece),
        }
    }

    fn is_over_after_poll(&mut self, cx: &mut Context<'_>) -> bool {
        if let Self::UnderWay(piece) = self {
            match Pin::new(piece).poll(cx) {
                Poll::Ready(result) => *self = Self::Over(result),
                Poll::Pending => return false,
            }
        }
        true
    }
}

/// Makes one answer of those to `pieces`, which are in the order of their addresses: that of `finish`, or the
/// error of [`answer`]. Each of them ends before that, also if another one has failed: who hears of an error may
/// begin the same anew.
pub(super) fn all<T: 'static, U: 'static>(
    pieces: impl Iterator<Item = IoFuture<T>>,
    finish: impl FnOnce(Vec<T>) -> Result<U, BlockError> + 'static,
) -> IoFuture<U> {
    let mut steps: Vec<Step<T>> = pieces.map(Step::of).collect();
    if steps.iter().all(|step| matches!(step, Step::Over(_))) {
        return IoFuture::ready(answer(steps).and_then(finish));
    }
    IoFuture::boxed(async move {
        poll_fn(|cx| {
            // Each is polled, whatever the others say.
            let over =
                steps.iter_mut().filter_map(|step| step.is_over_after_poll(cx).then_some(()));
            if over.count() == steps.len() { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
        answer(steps).and_then(finish)
    })
}

/// The results of all, or the first error by address of those that last; one that passes only where there is no
/// other. To try again does not mend what lasts, and who is told of it knows more.
fn answer<T>(steps: Vec<Step<T>>) -> Result<Vec<T>, BlockError> {
    let mut results = Vec::with_capacity(steps.len());
    let (mut lasting, mut passing) = (None, None);
    for step in steps {
        let Step::Over(result) = step else { unreachable!("all of them are over") };
        match result {
            Ok(result) => results.push(result),
            Err(error) if error.is_passing() => passing = passing.or(Some(error)),
            Err(error) => lasting = lasting.or(Some(error)),
        }
    }
    match lasting.or(passing) {
        Some(error) => Err(error),
        None => Ok(results),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failed(error: BlockError) -> IoFuture<u8> {
        IoFuture::ready(Err(error))
    }

    fn of(pieces: Vec<IoFuture<u8>>) -> Result<Vec<u8>, BlockError> {
        let joined = all(pieces.into_iter(), Ok);
        joined.into_ready().expect("pieces that are over make an answer at once")
    }

    #[test]
    fn answers_are_in_the_order_of_the_pieces() {
        let pieces = (1..4).map(|number| IoFuture::ready(Ok(number)));
        assert_eq!(of(pieces.collect()), Ok(vec![1, 2, 3]));
    }

    #[test]
    fn the_first_error_that_lasts_is_told() {
        let lasting = BlockError::Medium { at: 512 };
        let good = || IoFuture::ready(Ok(1));
        let pieces =
            vec![good(), failed(BlockError::Busy), failed(lasting), failed(BlockError::NoSpace)];
        assert_eq!(of(pieces), Err(lasting));
        let pieces = vec![good(), failed(BlockError::Busy), failed(BlockError::NoMemory)];
        assert_eq!(of(pieces), Err(BlockError::Busy));
    }

    #[test]
    fn a_failed_piece_does_not_end_the_others() {
        let mut polls = 0;
        let slow = IoFuture::boxed(poll_fn(move |_| {
            polls += 1;
            if polls < 3 { Poll::Pending } else { Poll::Ready(Ok(7)) }
        }));
        let mut joined = all(vec![failed(BlockError::NoSpace), slow].into_iter(), Ok);
        let mut cx = Context::from_waker(std::task::Waker::noop());
        assert!(Pin::new(&mut joined).poll(&mut cx).is_pending());
        assert!(Pin::new(&mut joined).poll(&mut cx).is_pending());
        assert_eq!(Pin::new(&mut joined).poll(&mut cx), Poll::Ready(Err(BlockError::NoSpace)));
    }
}

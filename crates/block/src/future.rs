//! The one future type that all devices answer with.

use std::cell::Cell;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use ring::Data;

use crate::BlockError;
use crate::file::Transfer;

/// The result of a block operation, now or later. It is `!Send`: poll it on the core that asked.
///
/// Most operations of RAM, null and cached files finish within the call, so ask
/// [`into_ready`](Self::into_ready) before making room for a waiting task. Neither that path nor
/// the plain reads and writes of files allocate.
#[must_use = "a future that is dropped loses the result of its operation"]
pub struct IoFuture<T>(State<T>);

/// Where a detached task leaves its result.
struct Answer<T> {
    result: Cell<Option<Result<T, BlockError>>>,
    waker: Cell<Option<Waker>>,
}

enum State<T> {
    /// `None` once the result was taken.
    Ready(Option<Result<T, BlockError>>),
    /// A plain transfer of a file, and what to make of the data it read.
    File(Transfer, fn(Data) -> T),
    /// What a task of its own will have left here.
    Detached(Rc<Answer<T>>),
    Shared(Awaited<T>),
    Boxed(Pin<Box<dyn Future<Output = Result<T, BlockError>>>>),
}

/// A table of operations under way that gives their results by their places in it, so that none of them needs
/// memory of its own.
pub trait Answers<T> {
    /// Asks for the result of the operation at `place`, which is asked no more once it is there.
    fn poll_answer(&self, place: usize, cx: &mut Context<'_>) -> Poll<Result<T, BlockError>>;

    /// Nobody will ask about `place` again, whether or not its result was taken: it is free for another
    /// operation, once this one is over.
    fn release(&self, place: usize);
}

/// An operation in such a table; its place is released with it.
struct Awaited<T> {
    table: Rc<dyn Answers<T>>,
    place: usize,
}

impl<T> Drop for Awaited<T> {
    fn drop(&mut self) {
        self.table.release(self.place);
    }
}

// Nothing inside is pinned in place: results are plain values and boxes are stable.
impl<T> Unpin for IoFuture<T> {}

impl<T> IoFuture<T> {
    /// An operation that is over.
    pub fn ready(result: Result<T, BlockError>) -> Self {
        Self(State::Ready(Some(result)))
    }

    /// An operation of several steps. It allocates: for rare commands.
    pub fn boxed(future: impl Future<Output = Result<T, BlockError>> + 'static) -> Self {
        Self(State::Boxed(Box::pin(future)))
    }

    /// As [`boxed`](Self::boxed), for a change that must not stop half-way: it runs as a task of
    /// its own and to its end, whether or not the future is dropped. It allocates once.
    ///
    /// # Panics
    /// Outside of a core of the engine.
    pub fn detached(future: impl Future<Output = Result<T, BlockError>> + 'static) -> Self
    where
        T: 'static,
    {
        let answer = Rc::new(Answer { result: Cell::new(None), waker: Cell::new(None) });
        let sender = Rc::clone(&answer);
        ring::spawn(async move {
            sender.result.set(Some(future.await));
            if let Some(waker) = sender.waker.take() {
                waker.wake();
            }
        });
        Self(State::Detached(answer))
    }

    /// The operation at `place` of a table, which takes no memory of its own.
    pub fn shared(table: Rc<dyn Answers<T>>, place: usize) -> Self {
        Self(State::Shared(Awaited { table, place }))
    }

    /// The result if the operation is over, else the future back.
    ///
    /// # Errors
    /// `Err` is not a failure: it holds the future, to be awaited.
    pub fn into_ready(self) -> Result<Result<T, BlockError>, Self> {
        match self.0 {
            State::Ready(Some(result)) => Ok(result),
            other => Err(Self(other)),
        }
    }
}

impl IoFuture<Data> {
    /// A read of a file.
    pub(crate) fn read(transfer: Transfer) -> Self {
        Self(State::File(transfer, |data| data))
    }
}

impl IoFuture<()> {
    /// A write or sync of a file.
    pub(crate) fn written(transfer: Transfer) -> Self {
        Self(State::File(transfer, drop))
    }
}

impl<T> Future for IoFuture<T> {
    type Output = Result<T, BlockError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        match &mut self.0 {
            State::Ready(result) => {
                Poll::Ready(result.take().expect("an IoFuture is not polled after its end"))
            }
            State::File(transfer, convert) => Pin::new(transfer).poll(cx).map_ok(*convert),
            State::Detached(answer) => match answer.result.take() {
                Some(result) => Poll::Ready(result),
                None => {
                    answer.waker.set(Some(cx.waker().clone()));
                    Poll::Pending
                }
            },
            State::Shared(awaited) => awaited.table.poll_answer(awaited.place, cx),
            State::Boxed(future) => future.as_mut().poll(cx),
        }
    }
}

impl<T> fmt::Debug for IoFuture<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.0 {
            State::Ready(_) => "IoFuture::Ready",
            State::File(..) => "IoFuture::File",
            State::Detached(_) => "IoFuture::Detached",
            State::Shared(_) => "IoFuture::Shared",
            State::Boxed(_) => "IoFuture::Boxed",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ready_future_gives_its_result_both_ways() {
        assert_eq!(IoFuture::ready(Ok(7)).into_ready().unwrap(), Ok(7));
        let mut cx = Context::from_waker(Waker::noop());
        let mut future = IoFuture::<u8>::ready(Err(BlockError::Busy));
        assert_eq!(Pin::new(&mut future).poll(&mut cx), Poll::Ready(Err(BlockError::Busy)));
    }

    struct Table(std::cell::RefCell<Vec<&'static str>>);

    impl Answers<u8> for Table {
        fn poll_answer(&self, place: usize, _: &mut Context<'_>) -> Poll<Result<u8, BlockError>> {
            self.0.borrow_mut().push("polled");
            Poll::Ready(Ok(place as u8))
        }

        fn release(&self, _: usize) {
            self.0.borrow_mut().push("released");
        }
    }

    #[test]
    fn a_place_in_a_table_is_released_once_whether_or_not_it_was_asked() {
        let table = Rc::new(Table(Default::default()));
        let mut cx = Context::from_waker(Waker::noop());
        let future = IoFuture::<u8>::shared(table.clone(), 7);
        // Only what is over within the call is ready without being polled.
        let mut future = future.into_ready().unwrap_err();
        assert_eq!(Pin::new(&mut future).poll(&mut cx), Poll::Ready(Ok(7)));
        drop(future);
        drop(IoFuture::<u8>::shared(table.clone(), 8));
        assert_eq!(table.0.take(), ["polled", "released", "released"]);
    }

    #[test]
    fn a_boxed_future_is_polled_to_its_end() {
        let mut polls = 0;
        let step = std::future::poll_fn(move |_| {
            polls += 1;
            if polls < 3 { Poll::Pending } else { Poll::Ready(Ok(polls)) }
        });
        let mut future = IoFuture::boxed(step).into_ready().unwrap_err();
        let mut cx = Context::from_waker(Waker::noop());
        assert!(Pin::new(&mut future).poll(&mut cx).is_pending());
        assert!(Pin::new(&mut future).poll(&mut cx).is_pending());
        assert_eq!(Pin::new(&mut future).poll(&mut cx), Poll::Ready(Ok(3)));
    }
}

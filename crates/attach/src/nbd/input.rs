//! The receiving side of a connection.

use std::cell::{Cell, RefCell};
use std::future::{Future, poll_fn};
use std::io;
use std::pin::pin;
use std::rc::Rc;
use std::task::{Poll, Waker};

use ring::{Buf, RecvBuf, Stream};

/// From this many missing bytes on, a payload is received straight into its place; fewer come with
/// the requests behind them in one receive.
const DIRECT_BYTES_MIN: usize = 32 << 10;

/// Tells one task to stop waiting.
#[derive(Debug, Default)]
pub(crate) struct Bell {
    rung: Cell<bool>,
    waker: RefCell<Option<Waker>>,
}

impl Bell {
    pub(crate) fn ring(&self) {
        self.rung.set(true);
        let waker = self.waker.take();
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    pub(crate) fn has_rung(&self) -> bool {
        self.rung.get()
    }

    /// What `future` gives, or `None` when the bell rings before. One task at a time.
    pub(crate) async fn or<T>(&self, future: impl Future<Output = T>) -> Option<T> {
        let mut future = pin!(future);
        poll_fn(|cx| {
            if self.rung.get() {
                return Poll::Ready(None);
            }
            self.waker.replace(Some(cx.waker().clone()));
            future.as_mut().poll(cx).map(Some)
        })
        .await
    }
}

/// Reads a stream by the byte.
#[derive(Debug)]
pub(crate) struct Input {
    stream: Rc<Stream>,
    received: Option<RecvBuf>,
    /// Bytes of `received` that were taken.
    taken: usize,
}

impl Input {
    pub(crate) fn new(stream: Rc<Stream>) -> Input {
        Input { stream, received: None, taken: 0 }
    }

    /// What is there already.
    pub(crate) fn waiting(&self) -> &[u8] {
        self.received.as_ref().map_or(&[], |received| &received[self.taken..])
    }

    /// Takes the first `len` bytes of what is there.
    pub(crate) fn consume(&mut self, len: usize) {
        assert!(len <= self.waiting().len(), "only what is there can be taken");
        self.taken += len;
        if self.waiting().is_empty() {
            self.received = None; // goes back to the core: others may need it
            self.taken = 0;
        }
    }

    /// Receives when nothing is there. `UnexpectedEof` at the end of the stream.
    async fn receive(&mut self) -> io::Result<()> {
        if self.waiting().is_empty() {
            let received = self.stream.recv().await?;
            if received.is_empty() {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            self.received = Some(received);
            self.taken = 0;
        }
        Ok(())
    }

    /// Fills `out`. Not to be dropped early, except before its first byte came.
    pub(crate) async fn exact(&mut self, out: &mut [u8]) -> io::Result<()> {
        let mut filled = 0;
        while filled < out.len() {
            self.receive().await?;
            let len = self.waiting().len().min(out.len() - filled);
            out[filled..filled + len].copy_from_slice(&self.waiting()[..len]);
            filled += len;
            self.consume(len);
        }
        Ok(())
    }

    /// The next `N` bytes; `None` at an end of the stream in front of the first, or when the bell
    /// rings while it waits for the first.
    pub(crate) async fn next<const N: usize>(
        &mut self,
        bell: &Bell,
    ) -> io::Result<Option<[u8; N]>> {
        if bell.has_rung() {
            return Ok(None);
        }
        match bell.or(self.receive()).await {
            None => return Ok(None),
            Some(Err(error)) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
            Some(result) => result?,
        }
        let mut bytes = [0; N];
        self.exact(&mut bytes).await?;
        Ok(Some(bytes))
    }

    /// Fills a buffer.
    pub(crate) async fn fill(&mut self, mut buf: Buf) -> io::Result<Buf> {
        let mut filled = 0;
        while filled < buf.len() {
            let missing = buf.len() - filled;
            if self.waiting().is_empty() && missing >= DIRECT_BYTES_MIN {
                let len = buf.len();
                let (buf, result) = self.stream.recv_exact(buf, filled..len).await;
                return result.map(|()| buf);
            }
            self.receive().await?;
            let len = self.waiting().len().min(missing);
            buf[filled..filled + len].copy_from_slice(&self.waiting()[..len]);
            filled += len;
            self.consume(len);
        }
        Ok(buf)
    }

    /// Lets `len` bytes go by.
    pub(crate) async fn skip(&mut self, len: usize) -> io::Result<()> {
        let mut left = len;
        while left > 0 {
            self.receive().await?;
            let len = self.waiting().len().min(left);
            self.consume(len);
            left -= len;
        }
        Ok(())
    }
}

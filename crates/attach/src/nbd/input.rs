//! The receiving side of a connection.

use std::io;
use std::rc::Rc;

use ring::wait::Event;
use ring::{Buf, RecvBuf, Stream};

/// From this many missing bytes on, a payload is received straight into its place; fewer come with
/// the requests behind them in one receive.
const DIRECT_BYTES_MIN: usize = 32 << 10;

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

    /// The next `N` bytes; `None` at an end of the stream in front of the first, or when `stop`
    /// happens before that.
    pub(crate) async fn next<const N: usize>(
        &mut self,
        stop: &Event,
    ) -> io::Result<Option<[u8; N]>> {
        match stop.or(self.receive()).await {
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

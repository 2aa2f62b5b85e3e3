//! A stream that ends with whoever says too much, and gives one line at a time: a client of SMTP keeps a line until
//! it has ended, and what came behind the one that begins TLS it would take for what is said under its protection.
//! Whoever answers before TLS may be anybody.

use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use lettre::transport::smtp::client::AsyncTokioStream;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// Bytes that a server may say over one connection. A usual one says less than a thousandth of it.
pub(super) const HEARD_BYTES_MAX: usize = 256 << 10;

/// A server said more than it may.
#[derive(Debug, thiserror::Error)]
#[error("it says more than {} KiB, as no mail server does", HEARD_BYTES_MAX >> 10)]
pub(super) struct TooMuch;

/// Bytes that are read at once.
const READ_BYTES: usize = 4096;

/// A stream to read so much from, line by line.
#[derive(Debug)]
pub(super) struct Bounded<S> {
    stream: S,
    peer: SocketAddr,
    left_bytes: usize,
    /// What has come and was not given yet.
    come: VecDeque<u8>,
}

impl<S> Bounded<S> {
    /// What is to be read from `stream`, which leads to `peer`.
    pub(super) fn new(stream: S, peer: SocketAddr) -> Self {
        Self { stream, peer, left_bytes: HEARD_BYTES_MAX, come: VecDeque::new() }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Bounded<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        out: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = &mut *self;
        if this.come.is_empty() {
            let mut bytes = [0; READ_BYTES];
            let mut come = ReadBuf::new(&mut bytes);
            ready!(Pin::new(&mut this.stream).poll_read(cx, &mut come))?;
            match this.left_bytes.checked_sub(come.filled().len()) {
                Some(left) => this.left_bytes = left,
                None => return Poll::Ready(Err(io::Error::other(TooMuch))),
            }
            this.come.extend(come.filled());
        }
        let line = this.come.iter().position(|byte| *byte == b'\n');
        let line = line.map_or(this.come.len(), |end| end + 1).min(out.remaining());
        for byte in this.come.drain(..line) {
            out.put_slice(&[byte]);
        }
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Bounded<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

impl<S: AsyncRead + AsyncWrite + Send + Sync + Unpin + std::fmt::Debug> AsyncTokioStream
    for Bounded<S>
{
    fn peer_addr(&self) -> io::Result<SocketAddr> {
        Ok(self.peer)
    }
}

//! A stream that ends with whoever says too much: a client of SMTP keeps a line until it has ended, and whoever
//! answers before TLS may be anybody.

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

/// A stream to read so much from.
#[derive(Debug)]
pub(super) struct Bounded<S> {
    stream: S,
    peer: SocketAddr,
    left_bytes: usize,
}

impl<S> Bounded<S> {
    /// What is to be read from `stream`, which leads to `peer`.
    pub(super) const fn new(stream: S, peer: SocketAddr) -> Self {
        Self { stream, peer, left_bytes: HEARD_BYTES_MAX }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Bounded<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        out: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = out.filled().len();
        ready!(Pin::new(&mut self.stream).poll_read(cx, out))?;
        match self.left_bytes.checked_sub(out.filled().len() - before) {
            Some(left) => self.left_bytes = left,
            None => return Poll::Ready(Err(io::Error::other(TooMuch))),
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

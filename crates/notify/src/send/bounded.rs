//! Streams that end with whoever says too much.
//!
//! A client of HTTP reads on for as long as a server says that its answer is still to come; one of SMTP keeps a line
//! until it has ended. SMTP is given one line at a time, too: what came behind the one that begins TLS its client would
//! take for what is said under its protection, and whoever answers before TLS may be anybody.

use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use lettre::transport::smtp::client::AsyncTokioStream;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// Bytes that a server may say over one connection. A usual one says less than a hundredth of it.
pub(super) const HEARD_BYTES_MAX: usize = 256 << 10;

/// A server said more than it may.
#[derive(Debug, thiserror::Error)]
#[error("it says more than {} KiB, as no such server does", HEARD_BYTES_MAX >> 10)]
pub(super) struct TooMuch;

/// Bytes that are read at once.
const READ_BYTES: usize = 4096;

/// A stream to read so much from.
#[derive(Debug)]
pub(super) struct Bounded<S> {
    stream: S,
    left_bytes: usize,
}

impl<S> Bounded<S> {
    /// What is to be read from `stream`.
    pub(super) fn new(stream: S) -> Self {
        Self { stream, left_bytes: HEARD_BYTES_MAX }
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

/// The same, line by line.
#[derive(Debug)]
pub(super) struct Lines<S> {
    stream: Bounded<S>,
    peer: SocketAddr,
    /// What has come and was not given yet.
    come: VecDeque<u8>,
}

impl<S> Lines<S> {
    /// What is to be read from `stream`, which leads to `peer`.
    pub(super) fn new(stream: S, peer: SocketAddr) -> Self {
        Self { stream: Bounded::new(stream), peer, come: VecDeque::new() }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Lines<S> {
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

/// What is written goes on as it is.
macro_rules! writes {
    ($($stream:ident),+) => {
        $(
            impl<S: AsyncWrite + Unpin> AsyncWrite for $stream<S> {
                fn poll_write(
                    mut self: Pin<&mut Self>,
                    cx: &mut Context<'_>,
                    bytes: &[u8],
                ) -> Poll<io::Result<usize>> {
                    Pin::new(&mut self.stream).poll_write(cx, bytes)
                }

                fn poll_flush(
                    mut self: Pin<&mut Self>,
                    cx: &mut Context<'_>,
                ) -> Poll<io::Result<()>> {
                    Pin::new(&mut self.stream).poll_flush(cx)
                }

                fn poll_shutdown(
                    mut self: Pin<&mut Self>,
                    cx: &mut Context<'_>,
                ) -> Poll<io::Result<()>> {
                    Pin::new(&mut self.stream).poll_shutdown(cx)
                }
            }
        )+
    };
}

writes!(Bounded, Lines);

impl<S: AsyncRead + AsyncWrite + Send + Sync + Unpin + std::fmt::Debug> AsyncTokioStream
    for Lines<S>
{
    fn peer_addr(&self) -> io::Result<SocketAddr> {
        Ok(self.peer)
    }
}

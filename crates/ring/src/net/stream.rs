//! A connected socket.
//!
//! Receives are single-shot: one buffer of the core is taken when data is there and a task asks for
//! it, so that a connection that is held back (a closed command window, a slow disk) pins nothing.
//! A multishot receive would go on filling buffers meanwhile. It measured 8 % less processor time
//! with 32 connections at depth 1, and within the noise (0 to 3 %) with requests queued, where a
//! receive brings many at once: not worth the lost flow control.

use std::cell::RefCell;
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::ops::Range;
use std::os::fd::OwnedFd;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use io_uring::{opcode, squeue};

use super::options;
use crate::mem::Buf;
use crate::runtime::{Completion, Core, FdRef, Kept, Op, RecvBuf, RecvBufs, SendBatch};

/// `ioprio` of a receive: wait for data first instead of trying in vain.
const POLL_FIRST: u16 = 1;

/// A connection over TCP or a Unix socket, served by the core that polls it first. Dropping it cancels what is under way
/// and closes it.
#[derive(Debug)]
pub struct Stream {
    fd: Rc<OwnedFd>,
    rx: RefCell<Rx>,
}

/// The receiving half.
#[derive(Debug, Default)]
struct Rx {
    /// A receive under way. It belongs to the stream, not to the future that started it: were it
    /// cancelled with that future, bytes that had just arrived would be lost.
    op: Option<Op>,
    /// The last receive left bytes in the socket.
    more_waits: bool,
    /// There was no buffer; the stream has been in the queue for one since.
    starved: bool,
}

impl Stream {
    /// Takes over a connected stream socket (in blocking mode, as `accept` makes them).
    pub fn from_fd(fd: OwnedFd) -> Stream {
        Stream { fd: Rc::new(fd), rx: RefCell::default() }
    }

    /// Gives the socket away, to another core for example. `Err` returns the stream when a receive
    /// or send that was begun and dropped is still under way.
    pub fn into_fd(self) -> Result<OwnedFd, Stream> {
        let Stream { fd, rx } = self;
        Rc::try_unwrap(fd).map_err(|fd| Stream { fd, rx })
    }

    /// Sends small segments at once (`TCP_NODELAY`).
    pub fn set_nodelay(&self, on: bool) -> io::Result<()> {
        options::set_number(&self.fd, libc::IPPROTO_TCP, libc::TCP_NODELAY, i32::from(on))
    }

    /// Chooses the congestion control by name (`cubic`, `bbr`); fails when the kernel lacks it.
    pub fn set_congestion(&self, name: &str) -> io::Result<()> {
        options::set_bytes(&self.fd, libc::IPPROTO_TCP, libc::TCP_CONGESTION, name.as_bytes())
    }

    /// Breaks the connection when sent data stays unacknowledged this long (`TCP_USER_TIMEOUT`).
    pub fn set_user_timeout(&self, timeout: Duration) -> io::Result<()> {
        let ms = i32::try_from(timeout.as_millis()).unwrap_or(i32::MAX);
        options::set_number(&self.fd, libc::IPPROTO_TCP, libc::TCP_USER_TIMEOUT, ms)
    }

    /// Takes no more from a sender while so many bytes wait that have not been sent yet
    /// (`TCP_NOTSENT_LOWAT`). Without it the kernel keeps megabytes for an end that takes nothing, of
    /// memory that all connections of the machine share. It does not bound what is under way.
    pub fn set_unsent_max(&self, bytes: u32) -> io::Result<()> {
        let bytes = i32::try_from(bytes).unwrap_or(i32::MAX);
        options::set_number(&self.fd, libc::IPPROTO_TCP, libc::TCP_NOTSENT_LOWAT, bytes)
    }

    /// What becomes of bytes that wait to be sent when the connection is closed, by whomever: by
    /// default the kernel goes on sending them, for minutes if it must; with `on` they are thrown
    /// away and the other end sees a reset. It holds for a process that is killed as well.
    pub fn set_abortive(&self, on: bool) -> io::Result<()> {
        options::set_abortive(&self.fd, on)
    }

    /// Ends the connection now: nothing more leaves, not even what was queued, and what is under
    /// way ends with an error. TCP only.
    pub fn abort(&self) -> io::Result<()> {
        options::disconnect(&self.fd)
    }

    /// How many bytes the other end has acknowledged since the connection was made; those that it
    /// has no room for it does not acknowledge. TCP only.
    pub fn acknowledged_bytes(&self) -> io::Result<u64> {
        options::acknowledged_bytes(&self.fd)
    }

    /// How many bytes have come from the other end since the connection was made, read or not. TCP
    /// only.
    pub fn received_bytes(&self) -> io::Result<u64> {
        options::received_bytes(&self.fd)
    }

    /// How many of them nobody has read yet.
    pub fn unread_bytes(&self) -> io::Result<usize> {
        options::unread_bytes(&self.fd)
    }

    /// How often in a row the kernel has sent something again without having heard that any of it
    /// arrived; 0 as soon as something is acknowledged. TCP only.
    pub fn retransmits(&self) -> io::Result<u8> {
        options::retransmits(&self.fd)
    }

    /// The other end's address.
    pub fn peer_addr(&self) -> io::Result<SocketAddr> {
        options::peer_addr(&self.fd)
    }

    /// This end's address.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        options::local_addr(&self.fd)
    }

    /// Ends both directions; receives under way return the end of the stream.
    pub fn shutdown(&self) -> io::Result<()> {
        options::shutdown(&self.fd)
    }

    /// The next bytes, at least one; none at the end of the stream. An idle stream holds no buffer,
    /// and waits its turn when all are in use. Nothing is lost when the future is dropped early.
    /// One receive at a time.
    pub fn recv(&self) -> Recv<'_> {
        Recv { stream: self }
    }

    /// Fills `range` of `buf` straight from the socket. `UnexpectedEof` when the stream ends before
    /// that. Dropping the future early loses bytes: the stream is then good for closing only.
    ///
    /// # Panics
    /// When `range` is outside of `buf`.
    pub fn recv_exact(&self, buf: Buf, range: Range<usize>) -> RecvExact<'_> {
        assert!(range.start <= range.end && range.end <= buf.len(), "range outside the buffer");
        RecvExact { stream: self, buf: Some(buf), left: range, op: None }
    }

    /// Sends all of `batch`, and returns it empty for reuse. One send at a time. Dropping the future
    /// early may leave part of it sent: the stream is then good for closing only.
    pub fn send(&self, mut batch: SendBatch) -> Send<'_> {
        batch.seal();
        Send { stream: self, batch: Some(batch), op: None }
    }
}

/// The future of [`Stream::recv`].
#[derive(Debug)]
#[must_use = "futures do nothing unless awaited"]
pub struct Recv<'a> {
    stream: &'a Stream,
}

impl Future for Recv<'_> {
    type Output = io::Result<RecvBuf>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<RecvBuf>> {
        let rx = &mut *self.stream.rx.borrow_mut();
        loop {
            let op = rx.op.get_or_insert_with(|| start_recv(&self.stream.fd, rx.more_waits));
            let (completion, _) = ready!(op.poll(cx));
            rx.op = None;
            let bufs = &Core::current().recv_bufs;
            match rx.received(completion, bufs) {
                Err(error) if error.raw_os_error() == Some(libc::ENOBUFS) && bufs.widen() => {}
                Err(error) if error.raw_os_error() == Some(libc::ENOBUFS) => {
                    rx.starved = true;
                    bufs.wait(cx.waker().clone());
                    return Poll::Pending;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                result => return Poll::Ready(result),
            }
        }
    }
}

fn start_recv(fd: &Rc<OwnedFd>, more_waits: bool) -> Op {
    let fd = FdRef::Local(fd.clone());
    let entry = opcode::Recv::new(fd.raw(), std::ptr::null_mut(), 0)
        .buf_group(0)
        .ioprio(if more_waits { 0 } else { POLL_FIRST })
        .build()
        .flags(squeue::Flags::BUFFER_SELECT);
    // SAFETY: the entry points to nothing, the kernel takes a provided buffer; its descriptor is
    // the one kept.
    unsafe { Op::start(entry, fd, Kept::Nothing) }
}

impl Rx {
    fn received(&mut self, completion: Completion, bufs: &Rc<RecvBufs>) -> io::Result<RecvBuf> {
        let result = match (completion.result(), completion.buffer()) {
            (Ok(len), Some(buffer)) => Ok(RecvBuf::new(bufs.clone(), buffer, len)),
            (Ok(_), None) => Ok(RecvBuf::end_of_stream()),
            (Err(error), _) => Err(error),
        };
        self.more_waits = completion.more_waits();
        if std::mem::take(&mut self.starved) && completion.buffer().is_none() {
            bufs.wake_next();
        }
        result
    }
}

impl Drop for Rx {
    fn drop(&mut self) {
        if self.starved
            && let Some(core) = Core::try_current()
        {
            core.recv_bufs.wake_next();
        }
    }
}

/// The future of [`Stream::recv_exact`].
#[derive(Debug)]
#[must_use = "futures do nothing unless awaited"]
pub struct RecvExact<'a> {
    stream: &'a Stream,
    /// `None` while the kernel has it.
    buf: Option<Buf>,
    left: Range<usize>,
    op: Option<Op>,
}

impl Future for RecvExact<'_> {
    type Output = (Buf, io::Result<()>);

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = &mut *self;
        loop {
            if let Some(op) = &mut this.op {
                let (completion, kept) = ready!(op.poll(cx));
                this.op = None;
                let Kept::Buf(buf) = kept else { unreachable!("started with a buffer") };
                match completion.result() {
                    Ok(0) => return Poll::Ready((buf, Err(io::ErrorKind::UnexpectedEof.into()))),
                    Ok(len) => this.left.start += len,
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                    Err(error) => return Poll::Ready((buf, Err(error))),
                }
                this.buf = Some(buf);
            }
            let mut buf = this.buf.take().expect("polled after completion");
            if this.left.is_empty() {
                return Poll::Ready((buf, Ok(())));
            }
            let (ptr, len) = buf.part(&this.left);
            let fd = FdRef::Local(this.stream.fd.clone());
            let entry = opcode::Recv::new(fd.raw(), ptr, len).flags(libc::MSG_WAITALL).build();
            // SAFETY: the entry points into the buffer's memory, which does not move with it.
            this.op = Some(unsafe { Op::start(entry, fd, Kept::Buf(buf)) });
        }
    }
}

/// The future of [`Stream::send`].
#[derive(Debug)]
#[must_use = "futures do nothing unless awaited"]
pub struct Send<'a> {
    stream: &'a Stream,
    /// `None` while the kernel has it.
    batch: Option<SendBatch>,
    op: Option<Op>,
}

impl Future for Send<'_> {
    type Output = (SendBatch, io::Result<()>);

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = &mut *self;
        loop {
            if let Some(op) = &mut this.op {
                let (completion, kept) = ready!(op.poll(cx));
                this.op = None;
                let Kept::Batch(mut batch) = kept else { unreachable!("started with a batch") };
                match completion.result() {
                    Ok(len) => batch.advance(len),
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                    Err(error) => {
                        batch.clear();
                        return Poll::Ready((batch, Err(error)));
                    }
                }
                this.batch = Some(batch);
            }
            let mut batch = this.batch.take().expect("polled after completion");
            if batch.is_sent() {
                batch.clear();
                return Poll::Ready((batch, Ok(())));
            }
            let fd = FdRef::Local(this.stream.fd.clone());
            let flags = (libc::MSG_NOSIGNAL | libc::MSG_WAITALL).cast_unsigned();
            let entry = opcode::SendMsg::new(fd.raw(), batch.header()).flags(flags).build();
            // SAFETY: header, vectors and bytes are on the heap side of the batch, which keeps
            // them, unchanged and in place, while it is kept.
            this.op = Some(unsafe { Op::start(entry, fd, Kept::Batch(batch)) });
        }
    }
}

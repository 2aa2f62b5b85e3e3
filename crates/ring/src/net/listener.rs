//! Accepting connections.

use std::cell::RefCell;
use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::os::fd::{FromRawFd, OwnedFd};
use std::path::Path;
use std::rc::Rc;
use std::task::{Context, Poll};

use io_uring::opcode;

use super::{Stream, options};
use crate::runtime::{FdRef, Kept, Op};

/// A listening TCP socket. One accept operation of the ring serves all its connections.
#[derive(Debug)]
pub struct Listener(Accept);

impl Listener {
    /// Binds and listens. Port 0 takes a free one; an IPv6 address is for IPv6 alone, so that both
    /// families can use the same port.
    pub fn bind(address: SocketAddr, backlog: u16) -> io::Result<Listener> {
        Self::bound(options::socket(&address)?, address, backlog)
    }

    /// The same at an address that this host need not have yet, and may lose and have again: connections come while it
    /// has it. Other sockets of the same user may be bound so to the same address and port, of whom one gets each
    /// connection.
    pub fn bind_floating(address: SocketAddr, backlog: u16) -> io::Result<Listener> {
        let fd = options::socket(&address)?;
        let (level, freebind) = match address {
            SocketAddr::V4(_) => (libc::IPPROTO_IP, libc::IP_FREEBIND),
            SocketAddr::V6(_) => (libc::IPPROTO_IPV6, libc::IPV6_FREEBIND),
        };
        options::set_number(&fd, level, freebind, 1)?;
        options::set_number(&fd, libc::SOL_SOCKET, libc::SO_REUSEPORT, 1)?;
        Self::bound(fd, address, backlog)
    }

    fn bound(fd: OwnedFd, address: SocketAddr, backlog: u16) -> io::Result<Listener> {
        options::set_number(&fd, libc::SOL_SOCKET, libc::SO_REUSEADDR, 1)?;
        if address.is_ipv6() {
            options::set_number(&fd, libc::IPPROTO_IPV6, libc::IPV6_V6ONLY, 1)?;
        }
        options::bind(&fd, &address)?;
        options::listen(&fd, backlog)?;
        Ok(Listener(Accept::new(fd)))
    }

    /// The address it is bound to.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        options::local_addr(&self.0.fd)
    }

    /// The next connection. Nothing is lost when this is dropped early. After an error (no
    /// descriptor left, say) the caller should pause before it tries again.
    pub async fn accept(&self) -> io::Result<(Stream, SocketAddr)> {
        loop {
            let stream = self.0.next().await?;
            // A peer that is gone already has no address, and nobody misses it.
            if let Ok(peer) = stream.peer_addr() {
                return Ok((stream, peer));
            }
        }
    }
}

/// A listening Unix stream socket. Its file stays when it is dropped: who made it removes it.
#[derive(Debug)]
pub struct UnixListener(Accept);

impl UnixListener {
    /// Makes a socket at `path` and listens. `AddrInUse` when there is a file already, also one
    /// that nobody listens on any more.
    pub fn bind(path: &Path) -> io::Result<UnixListener> {
        let listener = std::os::unix::net::UnixListener::bind(path)?;
        Ok(UnixListener(Accept::new(listener.into())))
    }

    /// The next connection; as [`Listener::accept`]. What is for TCP (`set_nodelay`, addresses)
    /// fails on it.
    pub async fn accept(&self) -> io::Result<Stream> {
        self.0.next().await
    }
}

/// A listening socket and its operation.
#[derive(Debug)]
struct Accept {
    fd: Rc<OwnedFd>,
    op: RefCell<Option<Op>>,
}

impl Accept {
    fn new(fd: OwnedFd) -> Accept {
        Accept { fd: Rc::new(fd), op: RefCell::new(None) }
    }

    async fn next(&self) -> io::Result<Stream> {
        poll_fn(|cx| self.poll_next(cx)).await.map(Stream::from_fd)
    }

    fn poll_next(&self, cx: &mut Context<'_>) -> Poll<io::Result<OwnedFd>> {
        let mut accept = self.op.borrow_mut();
        loop {
            let op = accept.get_or_insert_with(|| self.start());
            match op.poll_next(cx) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(None) => *accept = None, // the kernel ended it: start anew
                Poll::Ready(Some(completion)) => {
                    return Poll::Ready(completion.result().map(|fd| {
                        let fd = i32::try_from(fd).expect("descriptors are int");
                        // SAFETY: the accept made this descriptor and told nobody else.
                        unsafe { OwnedFd::from_raw_fd(fd) }
                    }));
                }
            }
        }
    }

    fn start(&self) -> Op {
        let fd = FdRef::Local(self.fd.clone());
        let entry = opcode::AcceptMulti::new(fd.raw()).flags(libc::SOCK_CLOEXEC).build();
        // SAFETY: the entry points to nothing and names the descriptor that is kept.
        unsafe { Op::start_many(entry, fd, Kept::Accept) }
    }
}

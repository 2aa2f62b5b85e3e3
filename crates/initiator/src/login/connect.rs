//! Name resolution and TCP connection, on a helper thread: both are rare and have no call on the ring.

use std::io;
use std::net::{IpAddr, SocketAddr, TcpStream, ToSocketAddrs};
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use iscsi::discovery::PortalAddress;
use ring::Stream;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, connect as start, socket_with};

use crate::options::SessionOptions;

/// The first of the portal's addresses that answers within the time that `options` give. From the
/// address of this host that they name, if they do, else from the one that the kernel chooses.
///
/// However it ends, a crash of this process included, what the kernel has not sent by then is thrown
/// away (decision 0013): a write that it sends once the network is whole again would come back over
/// newer ones.
pub(super) async fn connect(
    portal: &PortalAddress,
    options: &SessionOptions,
) -> io::Result<Stream> {
    let endpoint = (portal.host.clone(), portal.port);
    let (local, timeout) = (options.local, options.connect_timeout);
    let socket = ring::blocking(move || connect_blocking(&endpoint, local, timeout)).await?;
    let stream = Stream::from_fd(socket.into());
    stream.set_nodelay(true)?;
    stream.set_abortive(true)?;
    // What nobody acknowledges ends the connection even if this process has no time to look.
    stream.set_user_timeout(options.nop_interval + options.nop_timeout)?;
    Ok(stream)
}

fn connect_blocking(
    endpoint: &(String, u16),
    local: Option<IpAddr>,
    timeout: Duration,
) -> io::Result<TcpStream> {
    let deadline = Instant::now() + timeout;
    let mut last = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
    for address in (endpoint.0.as_str(), endpoint.1).to_socket_addrs()? {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        match connect_from(local, address, left) {
            Ok(socket) => return Ok(socket),
            Err(error) => last = error,
        }
    }
    Err(last)
}

fn connect_from(local: Option<IpAddr>, to: SocketAddr, time: Duration) -> io::Result<TcpStream> {
    let Some(local) = local else { return TcpStream::connect_timeout(&to, time) };
    let socket = begin(local, to)?;
    let time = Timespec::try_from(time).map_err(|_| io::ErrorKind::InvalidInput)?;
    if poll(&mut [PollFd::new(&socket, PollFlags::OUT)], Some(&time))? == 0 {
        return Err(io::ErrorKind::TimedOut.into());
    }
    rustix::net::sockopt::socket_error(&socket)??;
    let stream = TcpStream::from(socket);
    // The ring waits by itself; it must not be told to come again.
    stream.set_nonblocking(false)?;
    Ok(stream)
}

/// Which of the ways, each from an address of this host to a portal, take a TCP connection within
/// `time`: all are tried at once. Blocks.
pub(crate) fn answer_within(ways: &[(IpAddr, SocketAddr)], time: Duration) -> Vec<bool> {
    let deadline = Instant::now() + time;
    let mut sockets: Vec<Option<OwnedFd>> =
        ways.iter().map(|&(local, to)| begin(local, to).ok()).collect();
    let mut open = vec![false; ways.len()];
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        let waiting: Vec<usize> = (0..ways.len()).filter(|&n| sockets[n].is_some()).collect();
        let fds = waiting.iter().filter_map(|&n| sockets[n].as_ref());
        let mut fds: Vec<PollFd<'_>> = fds.map(|fd| PollFd::new(fd, PollFlags::OUT)).collect();
        let is_polled =
            Timespec::try_from(left).is_ok_and(|left| poll(&mut fds, Some(&left)).is_ok());
        let ready: Vec<bool> = fds.iter().map(|fd| !fd.revents().is_empty()).collect();
        if waiting.is_empty() || left.is_zero() || !is_polled {
            return open;
        }
        for (n, _) in waiting.into_iter().zip(ready).filter(|(_, is_ready)| *is_ready) {
            let socket = sockets[n].take().expect("it was waited for");
            open[n] = matches!(rustix::net::sockopt::socket_error(&socket), Ok(Ok(())));
        }
    }
}

/// Begins to connect, from the address `local`.
fn begin(local: IpAddr, to: SocketAddr) -> io::Result<OwnedFd> {
    let family = if to.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket: OwnedFd = socket_with(family, SocketType::STREAM, flags, None)?;
    bind(&socket, &SocketAddr::new(local, 0))?;
    match start(&socket, &to) {
        Err(rustix::io::Errno::INPROGRESS) => {}
        result => result?,
    }
    Ok(socket)
}
